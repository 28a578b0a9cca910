"""Restarts: a run that used up its budget, or diverged, begins again with other weights on the same data.

The oracles know the outcome of every run beforehand: a model whose fate is a number drawn with its weights, a linear
model whose gradient does not depend on them, and the loop anybody would write.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, PRNGKeyArray

import krogh
from krogh.engine import Trials, Usage, run_cohort
from krogh.engine.checking import OUTCOMES
from krogh.engine.memory import CPU_SLOTS, Plan
from krogh.engine.trial import DATA, INIT
from krogh.errors import KroghError
from krogh.models.base import Model, Parameters
from krogh.tasks.base import Task
from krogh.training.losses import find_loss
from krogh.values import replaced


@dataclass(frozen=True)
class Ended:
    """What one trial left behind, with its number of runs."""

    outcome: str
    runs: int
    steps: int
    reached: int
    error: np.ndarray
    loss: np.ndarray
    weights: dict[str, np.ndarray]

    @property
    def bits(self) -> tuple[Any, ...]:
        weights = tuple((name, self.weights[name].tobytes()) for name in sorted(self.weights))
        return self.outcome, self.runs, self.steps, self.reached, self.error.tobytes(), self.loss.tobytes(), weights


def ended(cohort: Trials, plan: Plan, usage: Usage | None = None) -> list[Ended]:
    records: dict[int, Ended] = {}
    for part in run_cohort(cohort, keep_weights=True, plan_override=plan, usage=usage):
        assert part.weights is not None
        for place, position in enumerate(part.position.tolist()):
            assert position not in records
            records[position] = Ended(
                OUTCOMES[int(part.status[place])],
                int(part.runs[place]),
                int(part.steps[place]),
                int(part.reached[place]),
                part.error[place],
                part.loss[place],
                {name: leaf[place] for name, leaf in part.weights.items()},
            )
    return [records[position] for position in range(len(cohort))]


@jax.jit
def feed(trial, start):
    return trial.training.regime.feed(trial.task, trial.key(DATA), start, trial.training.stopping.check_every)


@jax.jit
def sample_of(trial):
    return trial.training.regime.sample(trial.task, trial.key(DATA))


def key_of_run(trial: krogh.Trial, attempt: int) -> PRNGKeyArray:
    """The key of a run's weights, by hand: the trial's own for the first, folded with its number for a later one."""
    seed = trial.seed if trial.init_seed is None else trial.init_seed
    key = jax.random.fold_in(jax.random.key(seed), INIT)
    return key if attempt == 0 else jax.random.fold_in(key, attempt)


# --- the fate of every run is known --------------------------------------------------------------------------


class Fated(Model):
    """Right, wrong or NaN everywhere, as a number drawn with the weights has it; nothing to learn."""

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        return {"w": jax.random.normal(key, (), jnp.float32)}

    def predict(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, " batch"]:
        w = params["w"]
        return x[:, 0] * x[:, 1] * jnp.where(w > 0.8, 2.0, jnp.where(w > -0.5, -2.0, jnp.nan))

    def check(self, task: Task) -> None:
        return

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(), krogh.Parity(n=5, k=2)


RESTARTS, EVERY = 4, 5
ONE_BY_ONE = Plan(CPU_SLOTS, 1)  # what a CPU would choose itself, so that one program serves all tests of a trial


@pytest.fixture(scope="module")
def fated() -> Trials:
    training = krogh.Training(
        optimiser=krogh.Sgd(rate=0.0),
        regime=krogh.Online(batch_size=2),
        stopping=krogh.Stopping(budget=20, check_every=EVERY, validation=24, restarts=RESTARTS),
    )
    trial = krogh.Trial(krogh.Parity(n=5, k=2), Fated(), training)
    (cohort,) = krogh.sweep(trial, training__stopping__consecutive=[1, 2], seed=range(50))
    return cohort


@functools.partial(jax.jit, static_argnums=1)
def drawn(trial: krogh.Trial, attempt: int) -> Float[Array, ""]:
    return jax.random.normal(key_of_run(trial, attempt), (), jnp.float32)


def fate(trial: krogh.Trial) -> tuple[str, int, int, int, float]:
    """Outcome, runs, steps, convergence time and error by the rule as it is written."""
    stopping, steps = trial.training.stopping, 0
    outcome, error = "", np.nan
    for attempt in range(RESTARTS):
        w = float(drawn(trial, attempt))
        if w > 0.8:
            time = EVERY * int(stopping.consecutive)
            return "converged", attempt + 1, steps + time, time, 0.0
        outcome, length, error = ("failed", int(stopping.budget), 1.0) if w > -0.5 else ("diverged", EVERY, np.nan)
        steps += length
    return outcome, RESTARTS, steps, -1, error


@pytest.mark.slow
@pytest.mark.parametrize("plan", [ONE_BY_ONE, Plan(16, 8)], ids=str)
def test_every_run_ends_as_its_weights_have_it(fated, plan):
    """Converged in any of the runs, diverged and begun again, failed and begun again, and out of runs either way."""
    usage = Usage()
    records = ended(fated, plan, usage)
    for trial, record in zip(fated, records, strict=True):
        outcome, runs, steps, reached, error = fate(trial)
        assert (record.outcome, record.runs, record.steps, record.reached) == (outcome, runs, steps, reached)
        np.testing.assert_equal(float(record.error), error)
        np.testing.assert_array_equal(record.weights["w"], drawn(trial, runs - 1))
    kinds = {(record.outcome, record.runs) for record in records}
    assert kinds >= {("converged", run) for run in range(1, RESTARTS + 1)} | {("failed", 4), ("diverged", 4)}
    assert usage.useful_steps == sum(record.steps for record in records)
    if plan.block == 1:
        assert usage.executed_steps == usage.useful_steps
    else:
        assert usage.useful_steps < usage.executed_steps < 3 * usage.useful_steps


def test_the_table_says_how_many_runs_and_times_the_last(fated):
    table = krogh.run(fated)
    for row, trial in zip(table.iter_rows(named=True), fated, strict=True):
        outcome, runs, steps, reached, _ = fate(trial)
        time = reached if outcome == "converged" else None
        assert (row["outcome"], row["runs"], row["steps"], row["convergence_time"]) == (outcome, runs, steps, time)


# --- other weights, the same data ----------------------------------------------------------------------------


class Plane(Model):
    """w·x: with the correlation loss its gradient is the mean of -y x, whatever w is. Judged wrong everywhere."""

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        return {"w": jax.random.normal(key, task.input_shape, jnp.float32)}

    def predict(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, " batch"]:
        return x @ params["w"]

    def check(self, task: Task) -> None:
        return

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(), krogh.Parity(n=5, k=2)


@jax.jit
def batch(trial, start, step):
    return trial.task.decode(jax.tree.map(lambda leaf: leaf[step], feed(trial, start)))[:2]


def test_the_second_run_has_other_weights_and_the_same_data():
    """The path from the last run's own weights to the end is the sum of y x over the first run's batches."""
    stopping = krogh.Stopping(budget=8, check_every=4, validation=64, restarts=2)
    training = krogh.Training(krogh.Sgd(rate=0.125), krogh.Online(batch_size=3), stopping, loss="correlation")
    (cohort,) = krogh.sweep(krogh.Trial(krogh.Parity(n=5, k=2), Plane(), training, init_seed=3), seed=range(3))
    paths = []
    for trial, record in zip(cohort, ended(cohort, ONE_BY_ONE), strict=True):
        assert (record.outcome, record.runs, record.steps) == ("failed", 2, 16)
        first = np.asarray(jax.random.normal(key_of_run(trial, 1), (5,), jnp.float32), np.float64)
        paths.append(np.zeros(5))
        for start in (0, 4):
            for step in range(4):
                x, y = (np.asarray(part) for part in batch(trial, np.int32(start), np.int32(step)))
                paths[-1] += 0.125 * np.mean(y[:, None] * x, axis=0)
        np.testing.assert_allclose(record.weights["w"] - first, paths[-1], atol=1e-5)
    assert np.abs(paths[0] - paths[1]).max() > 0.1, "other seeds, other data"


class Riser(Model):
    """f = t - 7.5 for labels that are all +1: each step of the correlation loss lifts t by the rate."""

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        return {"t": 4.0 * jax.random.normal(key, (), jnp.float32)}

    def predict(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, " batch"]:
        return jnp.full(x.shape[0], 1.0, x.dtype) * (params["t"] - 7.5)

    def check(self, task: Task) -> None:
        return

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(), krogh.Parity(n=5, k=2)


@pytest.mark.slow
def test_checks_in_a_row_are_counted_within_a_run():
    """Right at the last check of one run and at the first of the next: that is not twice in a row."""
    stopping = krogh.Stopping(budget=8, check_every=4, validation=8, restarts=3, consecutive=2)
    training = krogh.Training(krogh.Sgd(rate=1.0), krogh.Online(batch_size=1), stopping, loss="correlation")
    always = krogh.SparseBoolean(n=4, support=(0,), table=(1, 1))
    (cohort,) = krogh.sweep(krogh.Trial(always, Riser(), training), seed=range(60))
    across = 0
    for trial, record in zip(cohort, ended(cohort, ONE_BY_ONE), strict=True):
        rights = [[4 * float(drawn(trial, attempt)) + step > 7.5 for step in (4, 8)] for attempt in range(3)]
        successes = [attempt for attempt, right in enumerate(rights) if all(right)]
        runs = successes[0] + 1 if successes else 3
        expected = ("converged", runs, 8 * runs, 8) if successes else ("failed", 3, 24, -1)
        assert (record.outcome, record.runs, record.steps, record.reached) == expected
        across += any(before[1] and after[0] for before, after in pairwise(rights[:runs]))
    assert across >= 3


# --- real training -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hurried(base):
    """Sixteen trials of one, two or three runs with budgets that are too short for many a first run."""
    trial = replaced(base, "training.stopping.restarts", 3)
    return [
        replaced(
            replaced(replaced(trial, "seed", seed), "training.stopping.budget", [40, 60, 90][seed % 3]),
            "training.optimiser.rate",
            1e30 if seed == 5 else [0.1, 0.2][seed % 2],
        )
        for seed in range(16)
    ]


@pytest.fixture(scope="module")
def together(hurried):
    (cohort,) = krogh.stack(hurried)
    usage = Usage()
    records = ended(cohort, ONE_BY_ONE, usage)
    assert usage.executed_steps == usage.useful_steps == sum(record.steps for record in records)
    return records


def test_all_sorts_of_endings(together):
    assert {record.outcome for record in together} == {"converged", "failed", "diverged"}
    assert {record.runs for record in together if record.outcome == "converged"} == {1, 2, 3}
    assert together[5].outcome == "diverged" and together[5].runs == 3, "a rate that diverges does so in every run"


@pytest.mark.parametrize("places", [[5], [9], [4, 5, 6], list(range(15, -1, -1))], ids=str)
def test_one_by_one_a_record_is_the_same_to_the_last_bit(hurried, together, places):
    (cohort,) = krogh.stack([hurried[place] for place in places])
    for place, record in zip(places, ended(cohort, ONE_BY_ONE), strict=True):
        assert record.bits == together[place].bits, f"trial {place} differs"


def test_the_first_run_is_the_trial_without_restarts(hurried, together):
    (once,) = krogh.stack([replaced(trial, "training.stopping.restarts", 1) for trial in hurried])
    for alone, record in zip(ended(once, ONE_BY_ONE), together, strict=True):
        assert (alone.outcome == "converged") == (record.outcome == "converged" and record.runs == 1)
        if record.runs == 1:
            assert (alone.steps, alone.reached) == (record.steps, record.reached)
            for name, leaf in alone.weights.items():
                np.testing.assert_allclose(leaf, record.weights[name], atol=1e-6)


@jax.jit
def stepped(trial, params, memory, sample, fed, number):
    examples = trial.task.decode(trial.training.regime.batch(trial.task, sample, fed)[0])
    loss = find_loss(trial.training.loss)
    gradient = jax.grad(lambda p: jnp.mean(loss(trial.model.predict(p, examples.x), examples.y)))(params)
    return trial.training.optimiser.update(gradient, memory, params, number)


@functools.partial(jax.jit, static_argnums=1)
def begun(trial, attempt):
    return trial.model.init(key_of_run(trial, attempt), trial.task)


@jax.jit
def mistakes(trial, params, x, truth):
    return jnp.sum(trial.task.error(trial.model.predict(params, x), truth))


@pytest.mark.slow
def test_a_run_begins_with_an_optimiser_that_remembers_nothing(offline):
    """Against a plain loop: Adam's moments and its count of steps start anew, and so do the checks in a row."""
    stopping = krogh.Stopping(budget=30, validation=64, restarts=2, consecutive=2)
    (cohort,) = krogh.sweep(replaced(offline, "training.stopping", stopping), seed=range(6))
    records = ended(cohort, ONE_BY_ONE)
    for trial, record in zip(cohort.fitted(), records, strict=True):
        validation, sample = trial.validation(), sample_of(trial)
        outcome, runs, time, params = "failed", 0, -1, {}
        while outcome == "failed" and runs < 2:
            params = begun(trial, runs)
            memory, streak, runs = trial.training.optimiser.init(params), 0, runs + 1
            for start in range(0, 30, 10):
                fed = np.asarray(feed(trial, np.int32(start)))
                for step in range(10):
                    params, memory = stepped(trial, params, memory, sample, fed[step], np.int32(start + step))
                wrong = int(mistakes(trial, params, validation.x, validation.truth))
                streak = streak + 1 if wrong == 0 else 0
                if streak == 2:
                    outcome, time = "converged", start + 10
                    break
        assert (record.outcome, record.runs, record.reached) == (outcome, runs, time)
        for name, leaf in params.items():
            np.testing.assert_allclose(record.weights[name], leaf, atol=1e-4)
    assert any(record.runs == 2 for record in records)


# --- what is refused -----------------------------------------------------------------------------------------


def test_a_curve_belongs_to_one_run(base):
    with pytest.raises(KroghError, match="probes or restarts=2"):
        krogh.Trial(base.task, base.model, replaced(base.training, "stopping.restarts", 2), probes=(krogh.Error(),))


@pytest.mark.parametrize("restarts", [0, -1])
def test_restarts_are_a_number_of_runs(restarts):
    with pytest.raises(KroghError, match="restarts"):
        krogh.Stopping(restarts=restarts)


def test_a_trial_that_does_not_stop_early_has_one_run():
    with pytest.raises(KroghError, match="early=False, restarts=2"):
        krogh.Stopping(restarts=2, early=False)
