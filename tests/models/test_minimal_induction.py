"""The minimal model of an induction head: formula in loops, bilinearity, counts, its saddle."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import in_double, random_params

from krogh.errors import KroghError
from krogh.models import MinimalInduction
from krogh.tasks import MarkovChains, Parity

TASK = MarkovChains(k=3, length=7)
QUICK = {"xla_backend_optimization_level": 0}  # compiling costs more here than running

predict = jax.jit(lambda model, params, x: model.predict(params, x), compiler_options=QUICK)
MODEL = MinimalInduction()


def naive_minimal_induction(p, x):
    """f_{p,i} = Σ_{t' ≤ p} 1[x_t' = i] Σ_{s ≤ t'} v_{t'-s+1} W[x_p, x_s], as printed and term by term."""
    logits = np.zeros((len(x), len(p["W"])))
    for place, current in enumerate(x):
        for seen in range(place + 1):
            for s in range(seen + 1):
                logits[place, x[seen]] += p["v"][seen - s] * p["W"][current, x[s]]
    return logits


def some_x(size=5, length=7):
    return np.random.default_rng(2).integers(0, 3, (size, length)).astype(np.int32)


@pytest.mark.parametrize("length", [1, 4, 7])
def test_predictions_follow_the_formula(length):
    params, x = random_params(TASK, MODEL), some_x(length=length)
    expected = [naive_minimal_induction(params, row) for row in x]
    np.testing.assert_allclose(in_double(predict, MODEL, params, x), expected, rtol=1e-11, atol=1e-12)


def test_the_formula_is_that_of_the_matrices():
    """mask(E W (M E)ᵀ) E (equation 8.8)."""
    params = random_params(TASK, MODEL)
    for x in some_x():
        E, M = np.eye(3)[x], np.zeros((7, 7))
        for later in range(7):
            for s in range(later + 1):
                M[later, s] = params["v"][later - s]
        found = np.tril(E @ params["W"] @ (M @ E).T) @ E
        np.testing.assert_allclose(found, naive_minimal_induction(params, x), rtol=1e-11, atol=1e-12)


def test_it_is_linear_in_each_of_its_two_parameters():
    x = some_x()
    for name in ("W", "v"):
        one, other = (random_params(TASK, MODEL, seed=seed) for seed in (3, 4))
        other = {**one, name: other[name]}
        both = {**one, name: 2 * one[name] - other[name]}
        expected = 2 * in_double(predict, MODEL, one, x) - in_double(predict, MODEL, other, x)
        np.testing.assert_allclose(in_double(predict, MODEL, both, x), expected, rtol=1e-10, atol=1e-11)


def test_nothing_is_drawn():
    for model, w, v in ((MODEL, 0.0, 0.02), (MinimalInduction(w=0.5, v=-1.0), 0.5, -1.0)):
        params = model.init(jax.random.key(0), TASK)
        assert params["W"].shape == (3, 3) and params["v"].shape == (7,)
        assert np.all(params["W"] == np.float32(w)) and np.all(params["v"] == np.float32(v))


def test_at_the_saddle_no_gradient_moves_and_beside_it_one_does():
    x = jnp.asarray(some_x())

    @partial(jax.jit, compiler_options=QUICK)
    def slopes(w, v):
        params = {"W": jnp.full((3, 3), w, jnp.float32), "v": jnp.full(7, v, jnp.float32)}
        return jax.grad(lambda p: jnp.mean(jax.nn.logsumexp(MODEL.predict(p, x), axis=-1)))(params)

    assert all(not np.any(leaf) for leaf in slopes(0.0, 0.0).values())
    assert np.any(slopes(0.0, 0.02)["W"]) and np.any(slopes(0.02, 0.0)["v"])


def test_the_saddle_and_what_cannot_be_read_are_refused():
    for build, echo in (
        (lambda: MinimalInduction(w=0.0, v=0.0), "saddle.*every gradient is 0; got w=0.0, v=0.0 .try v=0.02"),
        (lambda: MinimalInduction(w=float("nan")), "finite numbers; got w=nan, v=0.02"),
        (lambda: MODEL.check(Parity(n=8, k=2)), "reads sequences of symbols.*got the task 'parity'"),
    ):
        with pytest.raises(KroghError, match=echo):
            build()
    MinimalInduction(w=0.0, v=0.02), MinimalInduction(w=0.02, v=0.0)
