"""Outside learners: trials that learn on the host, with the sample, the rule and the record of any other."""

from __future__ import annotations

import threading

import jax
import numpy as np
import pytest

import krogh
from krogh.engine import Usage, executor, run_cohorts
from krogh.engine.agreement import bench
from krogh.engine.trial import DATA
from krogh.errors import KroghError
from krogh.models.base import Learner
from krogh.values import data, replaced, structure


class Nearest(Learner):
    """The mean label of the nearest examples, whose number is data; `fault` spoils what it predicts."""

    neighbours: np.ndarray = data(np.int32, default=1)
    fault: str = structure(default="")

    kind = "nearest"

    def fit(self, x, y, seed):
        noise = 1e-3 * np.random.default_rng(seed).normal(size=len(x))

        def predict(queries):
            apart = -(queries @ x.T) + noise
            nearest = np.argsort(apart, axis=1)[:, : int(self.neighbours)]
            found = y[nearest].mean(axis=1)
            if self.fault == "column":
                return found[:, None]
            return np.full(len(queries), np.nan) if self.fault == "nan" else found

        return predict

    def check(self, task):
        pass

    @classmethod
    def example(cls):
        return cls(), krogh.Parity(n=6, k=2)


def trial_of(regime, accuracy=1.0, model=None, task=None, **stopping):
    stopping = krogh.Stopping(accuracy=accuracy, **{"budget": 10, "validation": 200} | stopping)
    training = krogh.Training(regime=regime, stopping=stopping)
    return krogh.Trial(task or krogh.Parity(n=6, k=2), model or Nearest(), training)


@pytest.mark.slow
def test_it_learns_from_the_samples_that_networks_would_have(monkeypatch):
    """The m examples of a network's trial with the same seed, whatever its neighbours' m; and its validation sample."""
    given = []
    monkeypatch.setattr(Nearest, "fit", lambda self, x, y, seed: given.append((x, y, seed)) or (lambda x: -x[:, 0]))
    (cohort,) = krogh.sweep(trial_of(krogh.FullBatch(m=20)), training__regime__m=[20, 33], seed=range(2))
    table = krogh.run(cohort)
    assert len(table) == len(given) == 4
    found = {(len(x), x.tobytes(), y.tobytes()) for x, y, _ in given}
    for one in cohort:
        network = krogh.Trial(one.task, krogh.Mlp(8), one.training, seed=one.seed)
        examples = network.task.decode(network.training.regime.sample(network.task, network.key(DATA)))
        assert (int(one.training.regime.m), np.asarray(examples.x).tobytes(), np.asarray(examples.y).tobytes()) in found
    assert len({seed for *_, seed in given}) == 2  # as many as trials' seeds
    for row, one in zip(table.iter_rows(named=True), cohort, strict=True):
        examples = one.validation()
        wrong = np.mean(-np.asarray(examples.x)[:, 0] * np.asarray(examples.truth) <= 0)
        assert row["error"] == pytest.approx(wrong, abs=1e-6)


def test_records_are_ordinary():
    """With every input in the sample nothing is wrong; with few of them the same threshold decides."""
    few, many = trial_of(krogh.FullBatch(m=10)), trial_of(krogh.FullBatch(m=2000))
    table = krogh.run([few, many, replaced(few, "training.stopping.accuracy", 0.3)])
    assert table["outcome"].to_list() == ["failed", "converged", "converged"]
    assert table["convergence_time"].to_list() == [None, 1, 1]
    assert table["steps"].to_list() == table["runs"].to_list() == [1, 1, 1]
    assert table["accuracy"].to_list() == pytest.approx([1 - error for error in table["error"]])
    assert table["error"][1] == 0.0 and table["error"][0] > 0.1
    assert table["model"].to_list() == ["nearest"] * 3


@pytest.mark.parametrize("regime", [krogh.Offline(m=2000), krogh.Population()])
def test_other_finite_regimes_are_read_whole(regime):
    (row,) = krogh.run(trial_of(regime, validation="exact")).iter_rows(named=True)
    assert row["outcome"] == "converged" and row["error"] == 0.0


def test_nothing_is_compiled_for_it_and_networks_run_beside_it(base, xla_compilations):
    learner = trial_of(krogh.FullBatch(m=100))
    krogh.run(learner)  # small operations of its own
    xla_compilations.clear()
    usage = Usage()
    table = krogh.run(krogh.sweep(learner, model__neighbours=[1, 3, 5], seed=range(10)), usage=usage)
    assert len(table) == 30 and table["model.neighbours"].n_unique() == 3
    assert usage.compilations == 0 and usage.useful_steps == 30
    assert "advance" not in " ".join(xla_compilations)
    both = krogh.run([base, learner])
    assert both["model"].to_list() == ["mlp", "nearest"]


def test_it_goes_through_run_cohorts_with_weights_kept():
    cohorts = krogh.sweep(trial_of(krogh.FullBatch(m=50)), seed=range(5))
    parts = list(run_cohorts(cohorts, [np.array([1, 3])], keep_weights=True))
    assert parts[-1] == (0, None)
    assert sorted(int(part.position[0]) for _, part in parts if part is not None) == [1, 3]
    assert all(part.weights is None for _, part in parts if part is not None)


def test_beside_an_accelerator_every_core_has_a_learner(monkeypatch):
    """Four at once with four cores, though an accelerator has two lanes; with fewer the barrier would break."""
    together = threading.Barrier(4, timeout=20)
    accelerator = executor.Host("gpu")
    monkeypatch.setattr(executor, "lanes_here", lambda: [accelerator] * 2)
    monkeypatch.setattr(executor, "cores_here", lambda: 4)
    monkeypatch.setattr(Nearest, "fit", lambda self, x, y, seed: together.wait() + 1 and (lambda x: -x[:, 0]))
    table = krogh.run(krogh.sweep(trial_of(krogh.FullBatch(m=20)), seed=range(8)))
    assert table["path"].to_list() == ["host"] * 8


def test_predictions_that_are_no_numbers_have_diverged():
    task = krogh.TokenRegression.example()

    class Nothing(Nearest):
        def fit(self, x, y, seed):
            return lambda queries: np.full((len(queries), y.shape[1]), np.nan)

    trial = trial_of(krogh.FullBatch(m=5), model=Nothing(), task=task, error=0.1)
    assert krogh.run(trial)["outcome"].to_list() == ["diverged"]


def test_predictions_of_the_wrong_shape_are_refused():
    with pytest.raises(KroghError, match=r"Nearest predicts \[200, 1\]"):
        krogh.run(trial_of(krogh.FullBatch(m=5), model=Nearest(fault="column")))


def test_fresh_examples_without_end_are_refused():
    with pytest.raises(KroghError, match="Nearest learns from a finite sample; got the regime Online"):
        trial_of(krogh.Online())


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("snapshots", (0,), "snapshots"),
        ("probes", (krogh.BatchLoss(),), "probes"),
        ("training.frozen", ("W",), "frozen"),
        ("start", krogh.Given({}), "start"),
        ("training.stopping.restarts", 2, "restarts"),
    ],
)
def test_what_belongs_to_steps_and_parameters_is_refused(field, value, word):
    with pytest.raises(KroghError, match=f"it has no {word}"):
        replaced(trial_of(krogh.FullBatch(m=5)), field, value)


def test_devices_are_not_compared():
    (cohort,) = krogh.sweep(trial_of(krogh.FullBatch(m=5)))
    device = jax.local_devices()[0]
    with pytest.raises(KroghError, match="there are no devices to compare"):
        bench(cohort, device, device)
