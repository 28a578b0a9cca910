"""Noisy models: the noise of a step depends on the trial's weights, the run and the step, and on nothing else."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

import krogh
from krogh.engine.memory import CPU_SLOTS, Plan
from krogh.engine.trial import INIT, NOISE
from krogh.models.base import Model, Parameters
from krogh.models.parts import kept
from krogh.tasks.base import Task
from krogh.values import replaced

ONE_BY_ONE = Plan(CPU_SLOTS, 1)


class Listener(Model):
    """Adds up the noise it hears: w ← w + η·noise/2^32 for a label that is always +1. Judged, it is always wrong."""

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        return {"w": jax.random.normal(key, (), jnp.float32)}

    @property
    def noisy(self) -> bool:
        return True

    def predict(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, " batch"]:
        return jnp.full(x.shape[0], -1.0, x.dtype)

    def forward(
        self, params: Parameters, x: Float[Array, "batch n"], noise: UInt32[Array, ""]
    ) -> Float[Array, " batch"]:
        return jnp.full(x.shape[0], 1.0, x.dtype) * (params["w"] * noise.astype(jnp.float32) * 2.0**-32)

    def check(self, task: Task) -> None:
        return

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(), krogh.Parity(n=4, k=2)


def mixed(word: int) -> int:
    """murmur3's finaliser in plain Python."""
    word = (word ^ (word >> 16)) * 0x85EBCA6B % 2**32
    word = (word ^ (word >> 13)) * 0xC2B2AE35 % 2**32
    return word ^ (word >> 16)


def heard(trial: krogh.Trial, attempt: int, steps: int) -> float:
    """The weights' beginning plus all noise of a run, by hand."""
    seed = trial.seed if trial.init_seed is None else trial.init_seed
    key = jax.random.fold_in(jax.random.key(seed), INIT)
    word = int(jax.random.bits(jax.random.fold_in(jax.random.key(seed), NOISE), (), jnp.uint32))
    first = float(jax.random.normal(key if attempt == 0 else jax.random.fold_in(key, attempt), (), jnp.float32))
    of_run = mixed((word + attempt * 0x9E3779B9) % 2**32)
    return first + sum(mixed(of_run ^ mixed(step)) / 2**32 for step in range(steps))


@pytest.mark.slow
@pytest.mark.parametrize("plan", [ONE_BY_ONE, Plan(8, 4)], ids=str)
def test_every_run_and_step_has_its_own_noise(train, plan):
    """Budgets from two steps to eight show the steps one pair at a time, restarts the runs."""
    always = krogh.SparseBoolean(n=4, support=(0,), table=(1, 1))
    stopping = krogh.Stopping(budget=8, check_every=2, validation=4, restarts=3)
    training = krogh.Training(krogh.Sgd(rate=1.0), krogh.Online(batch_size=1), stopping, loss="correlation")
    trial = krogh.Trial(always, Listener(), training, init_seed=0)
    (cohort,) = krogh.sweep(trial, training__stopping__budget=[2, 4, 6, 8], init_seed=[0, 7], seed=[0, 1])
    records = train(cohort, plan_override=plan)
    sums = {}
    for position, one in enumerate(cohort):
        budget = int(one.training.stopping.budget)
        assert (records[position].outcome, records[position].steps) == ("failed", 3 * budget)
        expected = heard(one, 2, budget)
        assert float(records[position].weights["w"]) == pytest.approx(expected, abs=1e-5)
        sums.setdefault((int(one.init_seed), budget), set()).add(records[position].weights["w"].tobytes())
    assert all(len(bits) == 1 for bits in sums.values()), "the data's seed has no part in it"
    assert len({next(iter(bits)) for bits in sums.values()}) == 8


def test_the_noise_is_no_run_s_weights():
    """A word that a later run's weights also begin with would tie the two together."""
    stopping = krogh.Stopping(restarts=8)
    trial = krogh.Trial(krogh.Parity(n=4, k=2), Listener(), krogh.Training(stopping=stopping), seed=11)
    streams = [trial.key(INIT), *(jax.random.fold_in(trial.key(INIT), attempt) for attempt in range(1, 9))]
    words = {int(jax.random.bits(key, (), jnp.uint32)) for key in streams}
    assert len(words) == 9 and int(trial.noise()) not in words


# --- dropout in training -------------------------------------------------------------------------------------


class Blinking(krogh.Mlp):
    """A network with one hidden layer that does not see a tenth of its inputs while it learns."""

    @property
    def noisy(self) -> bool:
        return True

    def forward(
        self, params: Parameters, x: Float[Array, "batch n"], noise: UInt32[Array, ""]
    ) -> Float[Array, " batch"]:
        return self.predict(params, x * kept(noise, 0, x.shape, 0.1))


@pytest.fixture(scope="module")
def dropping(base):
    """Sixteen trials with dropout, some of which need a second run."""
    training = replaced(replaced(base.training, "stopping.restarts", 2), "stopping.budget", 80)
    trial = krogh.Trial(base.task, Blinking(width=8, output_bias=True), training)
    return [
        replaced(replaced(trial, "seed", seed), "training.optimiser.rate", [0.1, 0.2][seed % 2]) for seed in range(16)
    ]


@pytest.fixture(scope="module")
def together(train, dropping):
    (cohort,) = krogh.stack(dropping)
    return train(cohort, plan_override=ONE_BY_ONE)


def test_both_outcomes_and_both_runs_are_there(together):
    assert {record.outcome for record in together.values()} == {"converged", "failed"}
    assert any(record.steps > 80 and record.outcome == "converged" for record in together.values())
    assert any(record.steps <= 80 for record in together.values())


@pytest.mark.parametrize("places", [[3], [8, 2, 5], list(range(15, -1, -1))], ids=str)
def test_one_by_one_a_record_is_the_same_to_the_last_bit(train, dropping, together, places):
    (cohort,) = krogh.stack([dropping[place] for place in places])
    records = train(cohort, plan_override=ONE_BY_ONE)
    for position, place in enumerate(places):
        assert records[position].bits == together[place].bits, f"trial {place} differs"


@pytest.mark.slow
def test_in_blocks_weights_agree_up_to_rounding(train, dropping, together):
    """Were a mask drawn for the block and not for the trial, all weights would differ."""
    (cohort,) = krogh.stack(dropping)
    records = train(cohort, plan_override=Plan(16, 8))
    same = [place for place in together if records[place].steps == together[place].steps]
    assert len(same) >= 12
    for place in same:
        for name, leaf in together[place].weights.items():
            np.testing.assert_allclose(records[place].weights[name], leaf, atol=1e-3)


def test_without_dropout_nothing_is_noisy():
    quiet = krogh.SparseTransformer(embedding=8, heads=2, dropout=0.0, embedding_dropout=0.0)
    assert not quiet.noisy and not krogh.Mlp(4).noisy
    for rates in ({"dropout": 0.0}, {"embedding_dropout": 0.0}):
        assert krogh.SparseTransformer(**rates).noisy
