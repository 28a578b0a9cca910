"""The network that stores every token: exact on every index, with a state of norm √N."""

from __future__ import annotations

import dataclasses
import math

import jax
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models.residual_rnn import projection_norm, readout_lipschitz
from krogh.networks.handmade import construct
from krogh.networks.tokens.storage import storage_keys, storage_rnn, token_storage
from krogh.tasks.codes import coherence, sign_codes
from krogh.tasks.links import LinearLink, MeanLink, unit_vector
from krogh.tasks.token_regression import TokenRegression
from krogh.theory.numerics import double_precision

QUICK = {"xla_backend_optimization_level": 0}


def run(made, x):
    """The model's own predictions and states in float64, compiled once."""
    model = made.model
    program = jax.jit(lambda params, x: (model.predict(params, x), *model.states(params, x)), compiler_options=QUICK)
    with double_precision():
        return [np.asarray(part) for part in program(dict(made.parameters), x)]


def prompts(task, tokens, indices):
    codes = np.asarray(task.codes, np.float64)
    own = np.broadcast_to(codes, (len(tokens), *codes.shape))
    return np.concatenate([tokens, own, codes[indices]], axis=-1)


@pytest.mark.parametrize("model", ["residual", "lipschitz"])
def test_every_index_is_answered_at_every_position(model):
    n, d = 5, 2
    made = token_storage(n, d, model=model, reach=3.0)
    random = np.random.default_rng(0)
    tokens = random.normal(size=(n, n, d))
    tokens *= 3.0 / np.linalg.norm(tokens, axis=-1, keepdims=True)
    indices = (np.arange(n)[:, None] + np.arange(n)[None, :]) % n  # every pair of position and index, t_i = i too
    u = np.asarray(made.task.link.u, np.float64)
    values = tokens @ u
    out, forward, backward = run(made, prompts(made.task, tokens, indices))
    np.testing.assert_allclose(out, np.take_along_axis(values, indices, axis=1), atol=1e-12)
    unit = 1.0 if model == "residual" else 1.5 * math.sqrt(n) * 3.0 * np.linalg.norm(u)
    for i in range(n):
        np.testing.assert_allclose(forward[:, i] * unit, values * (np.arange(n) < i), atol=1e-12)
        np.testing.assert_allclose(backward[:, i] * unit, values * (np.arange(n) > i), atol=1e-12)
    assert made.model.state == made.width == n
    assert made.tolerance == 1e-10


def test_the_statement_is_checked_and_a_smaller_ball_breaks_it():
    made = construct("qstr/storage-rnn", length="4", dimension="2", model="residual")
    checked = made.check()
    assert checked.holds and checked.inputs == 4
    small = dataclasses.replace(made, model=dataclasses.replace(made.model, radius=1.0))
    x, expected = next(made.oracle.cases(seed=0))
    assert np.abs(run(small, x)[0] - expected).max() > 0.1


@pytest.mark.parametrize("n", [16, 64])
def test_the_state_has_norm_root_n(n):
    made = token_storage(n, 3, code_dimension=90)
    tokens = np.random.default_rng(0).normal(size=(20, n, 3))
    indices = np.zeros((20, n), int)
    _, forward, backward = run(made, prompts(made.task, tokens, indices))
    values = tokens @ np.asarray(made.task.link.u, np.float64)
    norm = np.linalg.norm(forward[:, -1], axis=1)
    np.testing.assert_allclose(norm, np.linalg.norm(values[:, :-1], axis=1), atol=1e-12)
    np.testing.assert_allclose(
        np.linalg.norm(backward[:, 0], axis=1), np.linalg.norm(values[:, 1:], axis=1), atol=1e-12
    )
    assert norm.mean() / math.sqrt(n) == pytest.approx(1, abs=0.15)


def test_in_the_unit_ball_the_norm_of_u_grows_like_root_n_instead():
    """Proposition 8: the ratio N/(L²‖U‖² ln(1 + d_h)) stays bounded."""
    for n in (4, 36):
        made = token_storage(n, 2, 60, model="lipschitz", reach=3.0)
        params = {name: value.astype(np.float32) for name, value in made.parameters.items()}
        largest = 3.0 * float(np.linalg.norm(np.asarray(made.task.link.u, np.float64)))
        assert projection_norm(params) == pytest.approx(2 * 1.5 * math.sqrt(n) * largest, rel=1e-4)
        assert readout_lipschitz(params) == pytest.approx(math.sqrt(4 * n), rel=1e-4)
        reach, state = readout_lipschitz(params) * projection_norm(params), params["U_forward"].shape[1]
        assert n / (reach**2 * math.log1p(state)) < 1, "Proposition 8 bounds it by a constant"


def test_codes_need_only_differ():
    """Also where the coherence is far above 1/2, as in the experiments."""
    codes = sign_codes(6, 6, seed=3)
    assert coherence(codes) > 0.5
    made = storage_rnn(TokenRegression(6, 2, LinearLink(unit_vector(2)), codes), reach=3.0)
    x, expected = next(made.oracle.cases(seed=0))
    np.testing.assert_allclose(run(made, x)[0], expected, atol=1e-11)


def test_bad_settings_get_one_clear_error():
    codes = sign_codes(4, 20)
    with pytest.raises(KroghError, match="linear link of one token is stored; got the link 'mean' and q=2"):
        storage_rnn(TokenRegression(4, 2, MeanLink(unit_vector(2)), codes, 2))
    with pytest.raises(KroghError, match="leaves codes unscaled"):
        storage_rnn(TokenRegression(4, 2, LinearLink(unit_vector(2)), codes, scaled=True))
    with pytest.raises(KroghError, match="unknown model 'gru'"):
        token_storage(4, 2, model="gru")
    with pytest.raises(KroghError, match="every code must be nearest to itself"):
        storage_keys(np.array([[1.0, 0.0], [3.0, 0.0]]), 1.0)
