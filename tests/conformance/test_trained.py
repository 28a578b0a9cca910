"""The same laws of training for every registered model: where it begins, what it leaves alone, what is kept of it."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import krogh
from krogh.engine import Given, compiling, run_cohort
from krogh.registry import MODELS
from krogh.tasks import ClassificationTask

STEPS = (0, 2, 4)
QUICK = {"xla_backend_optimization_level": 0}  # compiling takes longer here than training
NETWORKS = [name for name in MODELS if not issubclass(MODELS[name], krogh.Learner)]
FAST = ("mlp", "neuron", "pair-network", "polynet")
NAMES = [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in NETWORKS]


def trial_of(kind, **options):
    """A few steps of the model's example, with weights that it would not draw and its first array frozen."""
    model, task = MODELS[kind].example()
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), task))
    random = np.random.default_rng(3)
    weights = {name: (0.3 * random.normal(size=leaf.shape)).astype(np.float32) for name, leaf in shapes.items()}
    judged = {"error": 1e-6} if task.regression else {}
    training = krogh.Training(
        optimiser=krogh.Adam(rate=0.01, decay=0.1),
        regime=krogh.Online(batch_size=16),
        stopping=krogh.Stopping(budget=4, check_every=2, validation=16, early=False, **judged),
        loss="cross-entropy" if isinstance(task, ClassificationTask) else "square",
        frozen=tuple(sorted(shapes)[:1]) if len(shapes) > 1 else (),
    )
    return krogh.Trial(task, model, training, start=Given(weights), **options)


def trained(trials):
    (cohort,) = trials
    parts = list(run_cohort(cohort, keep_weights=True))
    order = np.argsort(np.concatenate([part.position for part in parts]))

    def joined(name):
        leaves = [getattr(part, name) or {} for part in parts]
        return {key: np.concatenate([leaf[key] for leaf in leaves])[order] for key in leaves[0]}

    return joined("weights"), joined("snapshots")


@pytest.fixture(scope="module", params=NAMES)
def case(request):
    """A trial with its last weights and its snapshots, and the last weights of the same trial stopped earlier."""
    trial = trial_of(request.param, snapshots=STEPS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling, "compiler_options", lambda *_: QUICK)
        weights, snapshots = trained(krogh.sweep(trial))
        stopped, _ = trained(krogh.sweep(trial_of(request.param), **{"training.stopping.budget": STEPS[1:]}))
    return trial, {name: leaf[0] for name, leaf in weights.items()}, snapshots, stopped


def test_training_starts_from_given_weights(case):
    trial, _, snapshots, _ = case
    for name, leaf in trial.start.weights.items():
        assert snapshots[name][0, 0].tobytes() == leaf.tobytes(), name


def test_frozen_parameters_do_not_move_and_others_do(case):
    trial, weights, _, _ = case
    moved = {name for name, leaf in weights.items() if not np.array_equal(leaf, trial.start.weights[name])}
    assert moved == set(weights) - set(trial.training.frozen)
    assert all(np.isfinite(leaf).all() for leaf in weights.values())


def test_a_snapshot_is_the_end_of_the_same_trial_stopped_there(case):
    _, weights, snapshots, stopped = case
    for name, leaf in stopped.items():
        for place in (0, 1):
            assert snapshots[name][0, 1 + place].tobytes() == leaf[place].tobytes(), name
        assert snapshots[name][0, -1].tobytes() == weights[name].tobytes(), name
