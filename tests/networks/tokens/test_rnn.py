"""The exact recurrent network for simple-qSTR: every index tuple, exact zeros, and what a leak would cost."""

from __future__ import annotations

import dataclasses
import itertools

import jax
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models.residual_rnn import ResidualRnn
from krogh.networks.handmade import construct
from krogh.networks.tokens.rnn import exact_rnn, indicator_stages, token_rnn
from krogh.tasks.codes import sign_codes
from krogh.tasks.links import LinearLink, unit_vector
from krogh.tasks.token_regression import TokenRegression
from krogh.theory.numerics import double_precision

QUICK = {"xla_backend_optimization_level": 0}
REALISATIONS = ["sign-codes", "any-codes"]


def encoded(task, tokens, indices):
    """Prompts with shared indices written out by hand: z_i = (x_i, ω_i, ω_{t_1}, ..., ω_{t_q})."""
    codes = np.asarray(task.codes, np.float64)
    return np.array(
        [
            [np.concatenate([x[i], codes[i], *(codes[t] for t in ts)]) for i in range(task.length)]
            for x, ts in zip(tokens, indices, strict=True)
        ]
    )


def run(made, x):
    """The model's own predictions and states in float64, compiled once."""
    model = made.model
    program = jax.jit(lambda params, x: (model.predict(params, x), *model.states(params, x)), compiler_options=QUICK)
    with double_precision():
        return [np.asarray(part) for part in program(dict(made.parameters), x)]


@pytest.mark.parametrize("realisation", REALISATIONS)
def test_every_index_tuple_is_solved_at_every_position(realisation):
    """Repeated indices, t_l = i and the two ends are among them; states are those of Corollary 27."""
    n, d, q = 4, 2, 2
    made = token_rnn(n, d, q, 16, realisation=realisation, reach=2.0)
    tuples = list(itertools.product(range(n), repeat=q))
    tokens = np.random.default_rng(0).normal(size=(len(tuples), n, d))
    tokens *= 2.0 / np.linalg.norm(tokens, axis=-1, keepdims=True)
    x = encoded(made.task, tokens, tuples)
    a, weight, b = (np.asarray(part, np.float64) for part in (made.task.link.a, made.task.link.W, made.task.link.b))
    wanted = np.array([np.concatenate([x_[t] for t in ts]) for x_, ts in zip(tokens, tuples, strict=True)])
    labels = np.maximum(wanted @ weight.T + b, 0.0) @ a
    out, forward, backward = run(made, x)
    np.testing.assert_allclose(out, np.tile(labels[:, None], (1, n)), atol=1e-12)
    for place, ts in enumerate(tuples):
        for i in range(n):
            for slot, t in enumerate(ts):
                own = slice(slot * d, (slot + 1) * d)
                np.testing.assert_allclose(forward[place, i, own], tokens[place, t] * (t < i), atol=1e-13)
                np.testing.assert_allclose(backward[place, i, own], tokens[place, t] * (t > i), atol=1e-13)
    assert made.tolerance == 1e-10
    assert made.model.depth == (3 if realisation == "sign-codes" else 4)
    assert made.model.lipschitz == 0 and not any(name.endswith("W1h") for name in made.parameters)


@pytest.mark.parametrize("realisation", REALISATIONS)
def test_the_transition_is_exactly_zero_off_the_index(realisation):
    """N=24, d=5, q=3, d_e=48: all pairs of position and index, tokens as long as they may be."""
    n, d, q, size, reach = 24, 5, 3, 48, 6.0
    made = token_rnn(n, d, q, size, realisation=realisation, reach=reach)
    stages = indicator_stages(made.task, realisation, reach)
    codes = np.asarray(made.task.codes, np.float64)
    random = np.random.default_rng(0)
    for i in range(n):
        x = random.normal(size=(n, d))
        x[::2] = reach * np.eye(d)[random.integers(0, d, n // 2)] * random.choice([-1, 1], (n // 2, 1))
        x = np.minimum(1.0, reach / np.linalg.norm(x, axis=1, keepdims=True)) * x
        t = np.stack([(np.arange(n) + slot) % n for slot in range(q)], axis=1)
        value = np.concatenate([x, np.tile(codes[i], (n, 1)), *(codes[t[:, slot]] for slot in range(q))], axis=1)
        for stage in stages:
            value = stage(value)
        for slot in range(q):
            part, match = value[:, slot * d : (slot + 1) * d], t[:, slot] == i
            assert not part[~match].any()
            np.testing.assert_allclose(part[match], x[match], atol=1e-13)
    # These stages are the transition, and so the states hold the tokens named.
    tokens, indices = random.normal(size=(2, n, d)), [(0, 23, 23), (5, 11, 0)]
    _, forward, backward = run(made, encoded(made.task, tokens, indices))
    for place, ts in enumerate(indices):
        for i in (0, 11, 23):
            for states, passed in ((forward, [t < i for t in ts]), (backward, [t > i for t in ts])):
                held = [tokens[place, t] * seen for t, seen in zip(ts, passed, strict=True)]
                np.testing.assert_allclose(states[place, i], np.concatenate(held), atol=1e-12)


@pytest.mark.parametrize("length", [4, 64])
def test_the_state_does_not_get_worse_with_the_length(length):
    made = token_rnn(length, 1, code_dimension=64, link="linear", reach=3.0)
    tokens = np.clip(np.random.default_rng(0).normal(size=(2, length, 1)), -3, 3)
    x = encoded(made.task, tokens, [(0,), (length - 2,)])
    _, forward, backward = run(made, x)
    assert np.abs(forward[0, 1:, 0] - tokens[0, 0]).max() < 1e-13
    assert np.abs(backward[1, : length - 2, 0] - tokens[1, length - 2]).max() < 1e-13
    assert not forward[1, : length - 1].any() and not backward[0].any()


def leaking(made, leak: float):
    """The network with one more unit in the last hidden layer of f→ and f←, that adds `leak` at every step."""
    params, model = dict(made.parameters), made.model
    last = model.depth
    for name in ("forward", "backward"):
        weight, bias, out = (params[f"{name}_{part}"] for part in (f"W{last - 1}", f"b{last - 1}", f"W{last}"))
        params[f"{name}_W{last - 1}"] = np.vstack([weight, np.zeros((1, weight.shape[1]))])
        params[f"{name}_b{last - 1}"] = np.append(bias, leak)
        params[f"{name}_W{last}"] = np.hstack([out, np.ones((len(out), 1))])
    wider = ResidualRnn(
        model.state,
        model.depth,
        (*model.width[:-1], model.width[-1] + 1),
        model.readout_depth,
        model.readout_width,
        lipschitz=0.0,
        radius=model.radius,
    )
    return dataclasses.replace(made, model=wider, parameters=params)


@pytest.mark.slow
@pytest.mark.parametrize(("length", "leak"), [(4, 0.0), (4, 1e-4), (16, 1e-4)])
def test_a_leak_is_added_at_every_step(length, leak):
    """Why the zero must be exact: an error of ε per step is (N-1)ε at the output."""
    made = token_rnn(length, 1, code_dimension=40, link="linear", reach=3.0)
    tokens = np.clip(np.random.default_rng(0).normal(size=(2, length, 1)), -3, 3)
    x = encoded(made.task, tokens, [(0,), (length - 1,)])
    labels = np.stack([tokens[0, :1, 0], tokens[1, -1:, 0]]) * np.float64(made.task.link.u[0])
    error = np.abs(run(leaking(made, leak), x)[0] - labels)
    np.testing.assert_allclose(error, (length - 1) * leak, atol=1e-12)


def test_positions_with_indices_of_their_own_are_beyond_it():
    made = token_rnn(4, 2, link="linear", reach=3.0)
    x, expected = next(dataclasses.replace(made.oracle, shared=False).cases(seed=0))
    assert np.abs(run(made, x)[0] - expected).max() > 0.5


def test_settings_may_be_text():
    made = construct("qstr/exact-rnn", length="3", dimension="2", sparsity="2", link="mean", realisation="any-codes")
    checked = made.check()
    assert (checked.inputs, checked.exhaustive, checked.holds) == (9, False, True)
    assert made.task.index_law == "shared" and not made.task.scaled


def test_bad_settings_get_one_clear_error():
    link, good = LinearLink(unit_vector(2)), sign_codes(4, 40, 0, 0.5)
    with pytest.raises(KroghError, match=r"one t for all positions; got index_law='independent' \(try"):
        exact_rnn(TokenRegression(4, 2, link, good))
    with pytest.raises(KroghError, match="leaves codes unscaled"):
        exact_rnn(TokenRegression(4, 2, link, good, index_law="shared", scaled=True))
    with pytest.raises(KroghError, match=r"coherence at most 0.5; got 0.\d+ .* dimension \d+"):
        exact_rnn(TokenRegression(20, 2, link, sign_codes(20, 12), index_law="shared"))
    sphere = token_rnn(4, 2, link="linear", realisation="any-codes").task
    with pytest.raises(
        KroghError, match=r"sign codes have entries ±c of one magnitude; got .*try realisation='any-codes'"
    ):
        exact_rnn(sphere)
    with pytest.raises(KroghError, match="unknown realisation 'some-codes'; did you mean"):
        exact_rnn(sphere, "some-codes")
    with pytest.raises(KroghError, match=r"coherence at most 0\.5"):
        token_rnn(40, 2, code_dimension=4, link="linear", realisation="any-codes")
