"""Every registered model is evaluated, in the very shapes of the checks, as one example at a time is in float64.

On whatever device is the default: a compiler was wrong for batches of some sizes only (docs/determinism.md).
"""

from __future__ import annotations

import jax
import numpy as np
import pytest

import krogh
from krogh.engine.agreement import LEANS, SLACK, operand_bits
from krogh.engine.arithmetic import EXACT_LEAN, carried_out
from krogh.engine.checking import check_predictions, prefix_of, whole_sample
from krogh.engine.compiling import compiler_options
from krogh.engine.memory import Plan
from krogh.errors import KroghError
from krogh.models.base import Learner
from krogh.registry import MODELS

NAMES = [name for name in MODELS if not issubclass(MODELS[name], Learner)]
TRIALS = 2


def cohort(name: str, validation: int, accuracy: float) -> krogh.engine.Trials:
    model, task = MODELS[name].example()
    stopping = krogh.Stopping(
        budget=100, validation=validation, accuracy=accuracy, error=0.1 if task.regression else None
    )
    try:
        task.check_test(validation)
    except KroghError:
        pytest.skip("its task is a table of fewer rows")
    loss = "cross-entropy" if isinstance(task, krogh.tasks.ClassificationTask) else "square"
    training = krogh.Training(krogh.Sgd(rate=0.01), krogh.Online(batch_size=4), stopping, loss)
    return krogh.sweep(krogh.Trial(task, model, training), seed=range(TRIALS))[0].fitted()


def one_by_one(trial, params, raw):
    """Predictions at all positions, of which a task may judge the last alone."""

    def predicted(one):
        (found,) = trial.model.predict(params, trial.task.decode(jax.tree.map(lambda leaf: leaf[None], one)).x)
        return found[-1:] if trial.task.judged_last else found

    return jax.lax.map(predicted, raw)


@pytest.mark.slow
@pytest.mark.parametrize(("validation", "accuracy", "block"), [(40, 1.0, 1), (1100, 0.9, 16)])
@pytest.mark.parametrize("name", NAMES)
def test_checks_see_what_one_example_at_a_time_is_in_float64(name, validation, accuracy, block):
    """Prefixes of 16 and of 512 examples, samples of one slice and of two, one trial alone and a group of a block."""
    trials = cohort(name, validation, accuracy)
    size = Plan(block, block)
    places = np.arange(block) % TRIALS
    stacked = trials.take(places)
    params = jax.tree.map(np.asarray, jax.jit(jax.vmap(lambda trial: trial.initial_params()))(stacked))
    device = jax.local_devices()[0]
    kept = min(TRIALS, block)

    def checks(trials, params):
        return check_predictions(trials, params, block=block, kept=kept)

    program = jax.jit(checks, compiler_options=compiler_options(trials.template, size, device))
    predicted = jax.tree.map(np.asarray, program(stacked, params))
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        for place in range(kept):
            trial, own = trials[place], {key: leaf[place] for key, leaf in params.items()}
            (whole, present), prefix = jax.tree.map(
                np.asarray, jax.jit(lambda t: (whole_sample(t), prefix_of(t)))(trial)
            )
            counted = np.flatnonzero(present)
            flat = jax.tree.map(lambda leaf, rows=counted: leaf.reshape(-1, *leaf.shape[2:])[rows], whole)
            samples = predicted[1][place].reshape(-1, *predicted[1].shape[3:])[counted]
            for raw, found in ((flat, samples), (prefix, predicted[0][place])):
                wanted = carried_out(one_by_one, operand_bits(size, device), trial, own, raw)
                exact, *drawn = wanted((EXACT_LEAN, LEANS[0], LEANS[-1]), trial, own, raw)
                allowed = max(np.abs(one - exact).max() for one in drawn)
                assert np.abs(found - exact).max() <= SLACK * allowed + 1e-30
