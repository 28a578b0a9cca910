"""Presets for functions of whole sequences: rates by hand, what is frozen, and a step of the source's own objective."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import krogh
from krogh.errors import KroghError
from krogh.models.elman import ElmanRnn
from krogh.tasks.bit_strings import StringParity
from krogh.tasks.whole_sequence import WholeSequence
from krogh.training.losses import LOSSES
from krogh.training.recurrence import WholeTheoremValues, frozen_but, whole_training

ONCE = krogh.Stopping(budget=1, check_every=1, error=0.0, validation=16)


@pytest.mark.parametrize(
    ("task", "model", "rate"),
    [
        (WholeSequence.random(5, 3), ElmanRnn(100), 0.3 / (100 * 5) / 2),
        (StringParity(4), ElmanRnn(200, scale=0.5), 0.3 / (0.25 * 200 * 6) / 2),
        (WholeSequence.random(5, 3, outputs=2), ElmanRnn(100), 0.3 * 2 / (100 * 5) * 2 / 2),
        (WholeSequence.random(5, 3, every_step=True), ElmanRnn(100, reads=3), 0.3 / (100 * 5) * 3 / 2),
    ],
)
def test_rates_are_the_source_s_on_krogh_s_means(task, model, rate):
    training = whole_training(task, model, ONCE)
    assert float(training.optimiser.rate) == pytest.approx(rate)
    assert training.frozen == ("B",) and training.loss == "square" and training.regime == krogh.Online(16)


@pytest.mark.parametrize("every_step", [False, True])
def test_a_step_is_one_of_eta_on_half_the_sum_of_squares(every_step):
    """θ - η ∇ (1/2) Σ_j (y_j - f_j)² of one example, with η = c/(m L)."""
    task = WholeSequence.random(5, 3, seed=1, every_step=every_step)
    model = ElmanRnn(6, reads=3 if every_step else 0)
    training = whole_training(task, model, ONCE)
    params = model.init(jax.random.key(0), task)
    batch = task.batch(jax.random.key(1), 1)
    half = jax.grad(lambda p: 0.5 * jnp.sum((batch.y - model.predict(p, batch.x)) ** 2))(params)
    mean = jax.grad(lambda p: jnp.mean(LOSSES["square"](model.predict(p, batch.x), batch.y)))(params)
    eta = 0.3 / (6 * 5)
    for name in ("W", "A"):
        assert np.allclose(float(training.optimiser.rate) * mean[name], eta * half[name], rtol=1e-5, atol=1e-9)


def test_what_is_frozen_is_what_is_not_trained():
    assert frozen_but(("W",)) == ("A", "B") and frozen_but(("A", "W")) == ("B",)
    with pytest.raises(KroghError, match=r"'V'.*A, B, W|'V'"):
        frozen_but(("V",))


def test_theorem_values_are_those_of_the_theorem():
    values = WholeTheoremValues(eps=0.1, length=5, width=1000)
    rho = 100 * 5 * math.log(1000)
    assert values.rho == pytest.approx(rho)
    assert values.scale == pytest.approx(0.1 / (10 * 5 * rho)) and values.eta == pytest.approx(
        1 / (0.1 * rho**2 * 1000)
    )
    known = krogh.predict("recurrence/whole-training", eps=0.1, samples=1000, length=5, width=1000, phi="z")
    assert known["scale"] == pytest.approx(values.scale) and known["rate_order"] == pytest.approx(values.eta)
    training = values.training(ONCE)
    assert training.frozen == ("B",) and training.regime == krogh.Online(1)
    assert float(training.optimiser.rate) == pytest.approx(values.eta)
    assert float(values.training(ONCE, "square").optimiser.rate) == pytest.approx(values.eta / 2)
    assert float(values.model().scale) == pytest.approx(values.scale)
    with pytest.raises(KroghError, match=r"eps=1.5"):
        WholeTheoremValues(eps=1.5, length=5, width=100)
