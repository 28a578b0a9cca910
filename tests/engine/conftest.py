"""What the engine's tests share: one small trial, so that its programs are compiled once, and records as values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import wait
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import krogh
from krogh.engine import Trials, compiling, executor, lane, run_cohort
from krogh.engine.checking import OUTCOMES
from krogh.engine.memory import Plan
from krogh.values import replaced

Train = Callable[..., dict[int, "Record"]]


@dataclass(frozen=True)
class Record:
    """What one trial left behind."""

    outcome: str
    steps: int
    reached: int
    accuracy: np.ndarray
    loss: np.ndarray
    weights: dict[str, np.ndarray]
    curve: np.ndarray | None
    snapshots: dict[str, np.ndarray] | None

    @property
    def bits(self) -> tuple[Any, ...]:
        """Everything but the curve, down to the last bit."""
        weights = tuple((name, self.weights[name].tobytes()) for name in sorted(self.weights))
        return self.outcome, self.steps, self.reached, self.accuracy.tobytes(), self.loss.tobytes(), weights


def _train(cohort: Trials, positions: Any = None, **options: Any) -> dict[int, Record]:
    """Records by position; a position that is reported twice is a failure."""
    records: dict[int, Record] = {}
    for finished in run_cohort(cohort, positions, keep_weights=True, **options):
        assert finished.weights is not None
        for place, position in enumerate(finished.position.tolist()):
            assert position not in records, f"trial {position} was reported twice"
            records[position] = Record(
                outcome=OUTCOMES[int(finished.status[place])],
                steps=int(finished.steps[place]),
                reached=int(finished.reached[place]),
                accuracy=1 - finished.error[place],
                loss=finished.loss[place],
                weights={name: leaf[place] for name, leaf in finished.weights.items()},
                curve=None if finished.curves is None else finished.curves[place],
                snapshots=None
                if finished.snapshots is None
                else {name: leaf[place] for name, leaf in finished.snapshots.items()},
            )
    expected = range(len(cohort)) if positions is None else np.asarray(positions).tolist()
    assert sorted(records) == sorted(expected)
    return records


@pytest.fixture(scope="session")
def train() -> Train:
    return _train


@pytest.fixture(scope="session")
def base() -> krogh.Trial:
    """A trial that converges within 40 to 200 steps."""
    training = krogh.Training(
        optimiser=krogh.Sgd(rate=0.1),
        regime=krogh.Online(batch_size=8),
        stopping=krogh.Stopping(budget=500, validation=40),
    )
    return krogh.Trial(krogh.Parity(n=6, k=2), krogh.Mlp(width=8, output_bias=True), training)


@pytest.fixture(scope="session")
def offline(base: krogh.Trial) -> krogh.Trial:
    training = krogh.Training(
        optimiser=krogh.Adam(rate=0.02, decay=1e-3),
        regime=krogh.Offline(m=40, batch_size=8),
        stopping=krogh.Stopping(budget=400, validation=8),
        loss="square",
    )
    return krogh.Trial(base.task, base.model, training)


@pytest.fixture(scope="session")
def full_batch(base: krogh.Trial) -> krogh.Trial:
    training = krogh.Training(
        optimiser=krogh.Sgd(rate=0.1, decay=1e-3),
        regime=krogh.FullBatch(m=33),
        stopping=krogh.Stopping(budget=300, validation=16),
    )
    return krogh.Trial(base.task, base.model, training)


@pytest.fixture(scope="session")
def lasting(base: krogh.Trial) -> krogh.Trial:
    """A trial that runs its whole budget."""
    return replaced(replaced(base, "training.stopping.early", False), "training.stopping.budget", 200)


@pytest.fixture(scope="session")
def one_by_one() -> Plan:
    """A CPU's strategy: trials are trained one after the other."""
    return Plan(4, 1)


@pytest.fixture(scope="session")
def in_blocks() -> Plan:
    """A GPU's strategy: a block of trials is trained at once."""
    return Plan(32, 16)


@pytest.fixture
def one_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "lanes_here", lambda: jax.local_devices()[:1])


@pytest.fixture
def tail_ready(base: krogh.Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """A smaller block of 4 for the last trials of a block of 16, its program there when they need it."""
    monkeypatch.setattr(lane, "RUNG", 4)
    monkeypatch.setattr(lane, "LEAST_RUNG", 4)
    template = krogh.stack([base])[0].fitted().template
    compiling.request_program(template, Plan(4, 4), jax.local_devices()[0])[0].result()


@pytest.fixture
def xla_compilations() -> Iterator[list[str]]:
    """The names of the programs that XLA compiles during a test."""
    wait(list(compiling._PROGRAMS.values()))  # nothing of an earlier test may still be under way
    names: list[str] = []

    def listen(event: str, seconds: float, **details: Any) -> None:
        if "backend_compile" in event:
            names.append(str(details.get("fun_name")))

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.fixture(scope="session")
def share_right() -> Callable[[krogh.Trial, dict[str, np.ndarray]], float]:
    """The accuracy of weights on the whole validation sample, computed without the engine."""

    def measured(trial: krogh.Trial, weights: dict[str, np.ndarray]) -> float:
        examples = trial.validation()
        params = {name: jnp.asarray(leaf) for name, leaf in weights.items()}
        right = trial.task.correct(trial.model.predict(params, examples.x), examples.truth)
        return float(np.mean(np.asarray(right)))

    return measured
