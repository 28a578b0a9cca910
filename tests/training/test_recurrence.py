"""Rates for objectives that are sums, single examples with replacement, and losses that the theory admits."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import krogh
from krogh.engine import Trial, stack
from krogh.engine.checking import constants_of
from krogh.engine.program import start
from krogh.engine.round import train_round
from krogh.errors import KroghError
from krogh.models.elman import ElmanRnn
from krogh.tasks import Parity, TokenSum
from krogh.training import Resampled, Stopping
from krogh.training.losses import LIPSCHITZ, find_loss
from krogh.training.recurrence import W_AND_A, TheoremValues, mean_rate, practical_eta, practical_training

KEY = jax.random.key(11)
STOP = Stopping(budget=10, check_every=10, error=0.0, validation=16)


@pytest.mark.parametrize("name", LIPSCHITZ)
def test_admissible_losses_are_1_lipschitz_convex_and_at_most_1_at_0(name):
    loss, rng = find_loss(name), np.random.default_rng(0)
    for classes in (2, 3, 10, 1000) if "entropy" in name else (0,):
        f = jnp.asarray(8 * rng.standard_normal((400, classes) if classes else 400), jnp.float32)
        y = jnp.asarray(rng.integers(classes, size=400) if classes else rng.uniform(-1, 1, 400).astype(np.float32))
        if name == "logistic":
            y = jnp.sign(y)
        slopes = jax.vmap(jax.grad(lambda f, y: jnp.sum(loss(f, y))))(f, y)
        assert float(jnp.max(jnp.linalg.norm(slopes.reshape(400, -1), axis=1))) <= 1 + 1e-6
        assert float(jnp.max(jnp.abs(loss(jnp.zeros_like(f), y)))) <= 1 + 1e-6
        other = jnp.asarray(8 * rng.standard_normal(f.shape), jnp.float32)
        assert bool(jnp.all(loss((f + other) / 2, y) <= (loss(f, y) + loss(other, y)) / 2 + 1e-4))


def test_squares_and_plain_cross_entropy_are_not_admissible():
    assert "square" not in LIPSCHITZ and "cross-entropy" not in LIPSCHITZ
    assert float(jax.grad(lambda f: find_loss("square")(f, jnp.float32(1)))(jnp.float32(-9))) < -1
    assert float(find_loss("cross-entropy")(jnp.zeros(10), jnp.asarray(3))) > 1


def test_resampled_draws_uniformly_with_replacement_whatever_the_room():
    regime, wide = Resampled(5, 4), Resampled(5, 4, capacity=9)
    chosen = np.asarray(regime.feed(Parity(n=4, k=2), KEY, jnp.int32(0), 3000))
    assert np.array_equal(chosen, wide.feed(Parity(n=4, k=2), KEY, jnp.int32(0), 3000))
    counts = np.bincount(chosen.ravel(), minlength=5)
    assert counts.sum() == 12_000 and np.abs(counts / 12_000 - 0.2).max() < 0.02
    repeats = np.mean([len(set(row)) < 4 for row in chosen.tolist()])
    assert repeats == pytest.approx(1 - 5 * 4 * 3 * 2 / 5**4, abs=0.04), "an example may come twice in a batch"
    other = np.asarray(regime.feed(Parity(n=4, k=2), KEY, jnp.int32(3000), 3000))
    assert np.mean(other == chosen) < 0.25
    raw, weight = regime.batch(Parity(n=4, k=2), jnp.arange(5) * 10, jnp.asarray(chosen[0]))
    assert weight is None and np.array_equal(raw, 10 * chosen[0])
    with pytest.raises(KroghError, match=r"batch_size must be an integer between 1 and .*; got batch_size=0"):
        Resampled(5, 0)


@pytest.mark.slow
def test_trials_with_samples_of_other_sizes_are_one_cohort_and_do_not_know_each_other():
    def trial(m: int) -> Trial:
        training = practical_training(0.3, 8, 5, STOP, labels=3, regime=Resampled(m, 4))
        return Trial(TokenSum.random(5, 3), ElmanRnn(8, reads=3), training, seed=m)

    cohorts = stack([trial(3), trial(40)])
    assert len(cohorts) == 1
    together, alone = krogh.run(cohorts), krogh.run(stack([trial(3)]))
    assert together["error"][0] == pytest.approx(alone["error"][0], rel=1e-5)


stepped = jax.jit(
    lambda one: train_round(one, constants_of(one), start(one)), compiler_options={"xla_backend_optimization_level": 0}
)


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_step_of_the_preset_is_one_of_eta_on_the_sum_of_half_squares(outputs):
    """W' after one step against -η ∂ Σ_j ‖λ y_j - y*_j‖²/2, the mean over the batch, by plain differentiation."""
    width, length, c, scale = 6, 5, 0.4, 0.5
    task = TokenSum.random(length, 3, outputs=outputs, phi="z^2")
    stopping = Stopping(budget=1, check_every=1, error=0.0, validation=16)
    training = practical_training(c, width, length, stopping, 3, outputs, scale)
    trial = Trial(task, ElmanRnn(width, reads=3, scale=scale), training, seed=4)
    before, after = trial.initial_params(), stepped(trial).params
    raw = training.regime.feed(task, trial.key(1), jnp.int32(0), 1)
    examples = task.decode(jax.tree.map(lambda leaf: leaf[0], raw))

    def objective(W):
        answers = trial.model.predict(before | {"W": W}, examples.x)
        return jnp.sum((answers - examples.y) ** 2) / 2 / 16

    expected = before["W"] - practical_eta(c, width, length, outputs, scale) * jax.grad(objective)(before["W"])
    assert np.allclose(after["W"], expected, atol=1e-6)
    assert np.allclose(after["A"], before["A"], atol=1e-6) and np.allclose(after["B"], before["B"], atol=1e-6)
    assert np.abs(after["W"] - before["W"]).max() > 1e-3
    assert practical_eta(c, width, length, outputs, scale) == pytest.approx(c * outputs / (scale**2 * width * length))


def test_theorem_values_are_those_of_theorem_1():
    values = TheoremValues(eps=0.1, length=4, outputs=2, width=50, c_scale=3.0, c_rate=5.0)
    assert values.scale == pytest.approx(3 * 0.1 / (16 * 2)) and values.eta == pytest.approx(5 / (0.1 * 16 * 4 * 50))
    training = values.training(100, STOP, labels=2)
    assert training.regime.batch_size == 1 and int(training.regime.m) == 100 and training.loss == "huber"
    assert training.frozen == ("A", "B") and float(training.optimiser.rate) == pytest.approx(values.eta * 4)
    assert values.training(100, STOP, labels=2, frozen=W_AND_A).frozen == ("B",)
    assert mean_rate(1.0, 6) == 3.0 and mean_rate(1.0, 6, "huber") == 6.0
    with pytest.raises(KroghError, match="eps must be between 0 and 1; got eps=2"):
        TheoremValues(eps=2.0, length=4, outputs=1, width=5)
