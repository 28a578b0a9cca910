"""The Rademacher complexity of linearised networks against its definition and against explicit gradients."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models.elman import ElmanRnn
from krogh.networks.recurrence.kernel import kernel_between
from krogh.networks.recurrence.rademacher import rademacher
from krogh.networks.recurrence.random_network import RandomRnn
from krogh.tasks.whole_sequence import WholeSequence
from krogh.theory.recurrence.whole import linear_rademacher


def test_it_is_the_mean_over_all_signs_of_the_largest_correlation():
    """With explicit features: sup over ‖θ‖ ≤ r of (1/N) Σ ζ_q ⟨φ_q, θ⟩ is attained along Σ ζ_q φ_q."""
    features = np.random.default_rng(0).normal(size=(6, 9))
    kernel, radius, largest = features @ features.T, 0.7, []
    for signs in itertools.product((-1, 1), repeat=6):
        along = np.array(signs) @ features
        theta = radius * along / np.linalg.norm(along)
        largest.append(float(np.array(signs) @ features @ theta) / 6)
    assert rademacher(kernel, radius, draws=20_000) == pytest.approx(np.mean(largest), rel=0.01)
    assert rademacher(kernel, 2 * radius, draws=50) == pytest.approx(2 * rademacher(kernel, radius, draws=50))
    assert np.mean(largest) <= linear_rademacher(radius, np.linalg.norm(features, axis=1))


@pytest.mark.slow
def test_the_kernel_is_that_of_the_networks_gradients():
    task, model = WholeSequence.random(5, 3, seed=2), ElmanRnn(7)
    params, x = model.init(jax.random.key(1), task), np.asarray(task.batch(jax.random.key(2), 5).x)
    rows = []
    for own in x:
        slope = jax.grad(lambda p, own=own: model.predict(p, own[None])[0])(params)
        rows.append(np.concatenate([np.ravel(slope["W"]), np.ravel(slope["A"])]))
    features = np.array(rows, np.float64)
    rnn = RandomRnn(*(np.asarray(params[name], np.float64) for name in ("W", "A")), np.asarray(params["B"])[None])
    run = rnn.run(x)
    kernel = kernel_between(run, run, (5,), ("A", "W"))
    assert np.allclose(kernel, features @ features.T, rtol=1e-4, atol=1e-5)
    assert rademacher(kernel, 1.0) == pytest.approx(rademacher(features @ features.T, 1.0), rel=1e-4)


def test_bad_kernels_are_refused():
    with pytest.raises(KroghError, match=r"square matrix; got \[2, 3\]"):
        rademacher(np.ones((2, 3)), 1.0)
    with pytest.raises(KroghError, match="radius=-1"):
        rademacher(np.eye(2), -1.0)
