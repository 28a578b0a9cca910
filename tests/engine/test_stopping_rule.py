"""The check is the source's rule, and nothing that makes it cheaper may be seen in a record.

The oracle is the loop anybody would write: plain Python over the steps, the whole validation sample at every check.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, PRNGKeyArray

import krogh
from krogh.engine.trial import DATA
from krogh.models.base import Model, Parameters
from krogh.tasks.base import Task
from krogh.training.losses import find_loss
from krogh.values import plain, replaced


@jax.jit
def one_step(trial, params, memory, sample, fed, number):
    raw, weight = trial.training.regime.batch(trial.task, sample, fed)
    examples = trial.task.decode(raw)

    def objective(params):
        losses = find_loss(trial.training.loss)(trial.model.predict(params, examples.x), examples.y)
        return jnp.mean(losses) if weight is None else jnp.sum(losses * weight)

    return trial.training.optimiser.update(jax.grad(objective)(params), memory, params, number)


@jax.jit
def next_batches(trial, start):
    return trial.training.regime.feed(trial.task, trial.key(DATA), start, trial.training.stopping.check_every)


@jax.jit
def right_answers(trial, params, x, truth):
    return trial.task.correct(trial.model.predict(params, x), truth)


def checks(trial: krogh.Trial) -> Iterator[tuple[int, int, int]]:
    """Step, right answers and size of the validation sample at each check of a trial."""
    trial = krogh.stack([trial])[0].fitted().template
    training, every = trial.training, trial.training.stopping.check_every
    params = trial.initial_params()
    memory = training.optimiser.init(params)
    sample = training.regime.sample(trial.task, trial.key(DATA))
    validation = trial.validation()
    for start in range(0, int(training.stopping.budget), every):
        fed = jax.tree.map(np.asarray, next_batches(trial, np.int32(start)))
        for number in range(every):
            batch = jax.tree.map(lambda leaf, number=number: leaf[number], fed)
            params, memory = one_step(trial, params, memory, sample, batch, np.int32(start + number))
        right = np.asarray(right_answers(trial, params, validation.x, validation.truth))
        yield start + every, int(right.sum()), right.size


def reference(trial: krogh.Trial) -> tuple[str, int, int, float]:
    """Outcome, convergence time, steps and last accuracy by the rule as it is written."""
    stopping = trial.training.stopping
    time, streak, step, accuracy = -1, 0, 0, math.nan
    for step, right, size in checks(trial):
        accuracy = right / size
        streak = streak + 1 if right >= plain(stopping.accuracy) * size - 1e-6 else 0
        if time < 0 and streak >= int(stopping.consecutive):
            time = step
            if stopping.early:
                break
    return "converged" if time > 0 else "failed", time, step, accuracy


def agrees(record, expected) -> bool:
    outcome, time, steps, accuracy = expected
    assert (record.outcome, record.reached, record.steps) == (outcome, time, steps)
    np.testing.assert_allclose(record.accuracy, accuracy, atol=1e-6)
    return True


def compared(train, trials, plan, outcomes):
    (cohort,) = krogh.stack(trials)
    records = train(cohort, plan_override=plan)
    for position, trial in enumerate(trials):
        agrees(records[position], reference(trial))
    assert {record.outcome for record in records.values()} == outcomes


def varied(trial: krogh.Trial, seeds: range, **rules: list) -> list[krogh.Trial]:
    """Trials with other seeds, which take the rules in turn."""
    made = []
    for place, seed in enumerate(seeds):
        one = replaced(trial, "seed", seed)
        for name, values in rules.items():
            one = replaced(one, f"training.stopping.{name}", values[place % len(values)])
        made.append(one)
    return made


@pytest.mark.slow
def test_hinge_sgd_with_decay_online_and_any_rule(train, base, one_by_one):
    """40 examples: a prefix is read first. 55% ten times is the source's rule for narrow networks."""
    decaying = replaced(base, "training.optimiser.decay", 2e-3)
    rules = {"accuracy": [1.0, 0.55, 0.9, 0.975], "consecutive": [1, 10, 3, 2], "budget": [500, 500, 500, 90]}
    compared(train, varied(decaying, range(16), **rules), one_by_one, {"converged", "failed"})


@pytest.mark.slow
def test_square_adam_offline_and_a_sample_shorter_than_the_prefix(train, offline, one_by_one):
    trials = varied(offline, range(6), accuracy=[1.0, 0.75], consecutive=[1, 3])
    compared(train, trials, one_by_one, {"converged"})


@pytest.mark.slow
def test_hinge_full_batch_and_a_sample_as_long_as_the_prefix(train, full_batch, one_by_one):
    compared(
        train, varied(full_batch, range(6), accuracy=[1.0, 0.9], budget=[300, 60]), one_by_one, {"converged", "failed"}
    )


@pytest.mark.slow
def test_a_sample_that_is_read_in_slices(train, base, one_by_one):
    sliced = replaced(base, "training.stopping.validation", 2000)
    compared(train, varied(sliced, range(6), accuracy=[1.0, 0.9995, 0.8]), one_by_one, {"converged"})


@pytest.fixture(scope="module")
def exact(base):
    training = krogh.Training(
        optimiser=krogh.Sgd(rate=0.05),
        regime=krogh.Population(),
        stopping=krogh.Stopping(budget=300, validation="exact"),
        loss="square",
    )
    return krogh.Trial(krogh.Parity(n=5, k=2), base.model, training)


@pytest.mark.slow
def test_square_population_and_every_input(train, exact, one_by_one):
    """32 inputs: 97% allows none wrong, 95% one and 90% three, wherever the prefix looks."""
    rules = {"accuracy": [1.0, 0.95, 0.9, 0.97], "budget": [40, 300, 300, 150]}
    compared(train, varied(exact, range(40), **rules), one_by_one, {"converged", "failed"})


class OneWrong(Model):
    """Right on every input but one, which the first weights choose."""

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        return {"w": jax.random.rademacher(key, task.input_shape, jnp.float32)}

    def predict(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, " batch"]:
        chosen = jnp.all(x == params["w"][None, :], axis=1)
        return x[:, 0] * x[:, 1] * jnp.where(chosen, -1.0, 1.0)

    def check(self, task: Task) -> None:
        return

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(), krogh.Parity(n=5, k=2)


def test_one_wrong_input_counts_once(train, exact, one_by_one):
    """Whichever of the 32 inputs it is: at 95% one may be wrong, at 97% none."""
    training = replaced(exact.training, "stopping.budget", 20)
    still = krogh.Trial(exact.task, OneWrong(), replaced(training, "optimiser.rate", 0.0))
    (cohort,) = krogh.sweep(still, training__stopping__accuracy=[0.95, 0.97], seed=range(400))
    records = train(cohort, plan_override=one_by_one)
    assert len({record.weights["w"].tobytes() for record in records.values()}) == 32
    for position, record in records.items():
        expected = ("converged", 10, 10) if position < 400 else ("failed", -1, 20)
        assert (record.outcome, record.reached, record.steps) == expected
        assert record.accuracy == np.float32(31 / 32)


@pytest.mark.slow
def test_without_early_stopping_the_time_is_noted_and_the_budget_used(train, lasting, one_by_one):
    trials = varied(lasting, range(12), accuracy=[1.0, 0.9], consecutive=[1, 4], budget=[200, 200, 60])
    compared(train, trials, one_by_one, {"converged", "failed"})


@pytest.mark.parametrize("strategy", ["one_by_one", "in_blocks"])
def test_the_last_check_is_at_the_budget(train, base, share_right, strategy, request):
    plan = request.getfixturevalue(strategy)
    (cohort,) = krogh.sweep(base, seed=range(8))
    times = {position: record.reached for position, record in train(cohort, plan_override=plan).items()}
    assert min(times.values()) > 10
    just, short = [], []
    for position, trial in enumerate(cohort):
        just.append(replaced(trial, "training.stopping.budget", times[position]))
        short.append(replaced(trial, "training.stopping.budget", times[position] - 10))
    (cohort,) = krogh.stack(just + short)
    records = train(cohort, plan_override=plan)
    for position in range(8):
        enough, less = records[position], records[position + 8]
        assert (enough.outcome, enough.reached, enough.steps) == ("converged", times[position], times[position])
        assert (less.outcome, less.reached, less.steps) == ("failed", -1, times[position] - 10)
        for trial, record in ((just[position], enough), (short[position], less)):
            np.testing.assert_allclose(record.accuracy, share_right(trial, record.weights), atol=1e-6)
        assert enough.accuracy == 1.0 > less.accuracy


def test_blocks_confirm_everyone_who_may_pass(train, base, in_blocks):
    """With 2% wanted, all trials of a block pass the prefix at once, more than one group of confirmations."""
    (cohort,) = krogh.sweep(replaced(base, "training.stopping.accuracy", 0.02), seed=range(40))
    for record in train(cohort, plan_override=in_blocks).values():
        assert (record.outcome, record.reached, record.steps) == ("converged", 10, 10)
        assert 0.02 <= record.accuracy <= 1.0
