"""The residual recurrent network against its recursion, step by step; its projection; its Lipschitz bound."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest
from support import random_params

from krogh.errors import KroghError
from krogh.models.residual_rnn import ResidualRnn, project
from krogh.registry import MODELS
from krogh.tasks import Parity
from krogh.tasks.token_regression import TokenRegression

KEY = jax.random.key(3)
TASK = TokenRegression.example()
N, FEATURES = TASK.input_shape
QUICK = {"xla_backend_optimization_level": 0}

draw = jax.jit(lambda model: model.init(KEY, TASK), compiler_options=QUICK)
predict = jax.jit(lambda model, params, x: (model.predict(params, x), *model.states(params, x)), compiler_options=QUICK)


def relu(z):
    return np.maximum(z, 0.0)


def naive_layers(p, prefix, first, depth):
    """The layers 2..depth of a network, given what enters its first hidden layer."""
    value = first if depth == 1 else first + p[f"{prefix}b1"]
    for place in range(2, depth + 1):
        value = p[f"{prefix}W{place}"] @ relu(value)
        if place < depth:
            value = value + p[f"{prefix}b{place}"]
    return value


def naive_state_weight(model, p, direction):
    if model.lipschitz == 0:
        return np.zeros((len(p[f"{direction}_W1z"]), model.state))
    weight = p[f"{direction}_W1h"]
    if model.lipschitz is None:
        return weight
    above = math.prod(np.linalg.norm(p[f"{direction}_W{place}"], 2) for place in range(2, model.depth + 1))
    return weight * model.lipschitz / (above * max(1.0, np.linalg.norm(weight, 2)))


def naive_step(model, p, direction, h, z):
    """f→ or f← of one state and one token."""
    first = naive_state_weight(model, p, direction) @ h + p[f"{direction}_W1z"] @ z
    return naive_layers(p, f"{direction}_", first, model.depth)


def naive_residual_rnn(model, p, z):
    """Predictions and states of one prompt z [N, De]."""
    radius = 2 * math.sqrt(model.state) if model.radius is None else float(model.radius)
    forward, backward = [np.zeros(model.state)], [np.zeros(model.state)]
    for i in range(1, len(z)):
        forward.append(forward[-1] + naive_step(model, p, "forward", forward[-1], z[i - 1]))
        backward.append(backward[-1] + naive_step(model, p, "backward", backward[-1], z[len(z) - i]))
        for states in (forward, backward):
            norm = np.linalg.norm(states[-1])
            states[-1] = states[-1] * min(1.0, radius / norm) if norm > 0 else states[-1]
    backward.reverse()
    out = []
    for i in range(len(z)):
        first = p["readout_W1"] @ np.concatenate([forward[i], backward[i], z[i]])
        out.append(naive_layers(p, "readout_", first, model.readout_depth))
    return np.array(out), np.array(forward), np.array(backward)


def some_params(model, scale=0.4, seed=1):
    return random_params(TASK, model, np.float32, scale, seed)


def some_prompts(size=3, seed=2):
    return np.random.default_rng(seed).normal(size=(size, N, FEATURES)).astype(np.float32) / 2


MODELS_TRIED = [
    ResidualRnn(4, 1, 1, readout_depth=1),
    ResidualRnn(4, 2, 7, lipschitz=0.3, radius=0.5),
    ResidualRnn(3, 3, (5, 6), readout_depth=4, readout_width=(3, 5, 4), lipschitz=0.0, radius=1.0),
    ResidualRnn(3, 3, 5, readout_depth=2, lipschitz=2.0),
]


@pytest.mark.parametrize("model", MODELS_TRIED, ids=["linear", "bounded", "without state", "loose"])
def test_predictions_and_states_follow_the_recursion(model):
    params, x = some_params(model), some_prompts()
    double = {name: value.astype(np.float64) for name, value in params.items()}
    found = predict(model, params, x)
    for place, row in enumerate(x):
        for got, expected in zip(found, naive_residual_rnn(model, double, row.astype(np.float64)), strict=True):
            np.testing.assert_allclose(got[place], expected, rtol=2e-4, atol=2e-5)


def test_the_ball_is_reached_and_not_left():
    model = MODELS_TRIED[1]
    _, forward, backward = predict(model, some_params(model), some_prompts())
    for states in (forward, backward):
        norms = np.linalg.norm(states, axis=-1)
        assert norms.max() <= 0.5 * (1 + 1e-6) and np.sum(norms > 0.499) > 3


def test_the_state_has_not_read_its_own_token():
    model = MODELS_TRIED[1]
    params, x = some_params(model), some_prompts()
    _, forward, backward = predict(model, params, x)
    for i in range(N):
        changed = x.copy()
        changed[:, i] += 1.0
        _, forward_after, backward_after = predict(model, params, changed)
        np.testing.assert_array_equal(forward_after[:, : i + 1], forward[:, : i + 1])
        np.testing.assert_array_equal(backward_after[:, i:], backward[:, i:])
        assert i == N - 1 or np.any(forward_after[:, i + 1] != forward[:, i + 1])
        assert i == 0 or np.any(backward_after[:, i - 1] != backward[:, i - 1])


def test_the_projection_is_onto_the_ball_and_never_expands():
    random = np.random.default_rng(0)
    radius, onto_ball = np.float32(1.5), jax.jit(project)
    a, b = (random.normal(size=(2000, 3)).astype(np.float32) for _ in range(2))
    projected, other = (np.asarray(onto_ball(h, radius)) for h in (a, b))
    norms = np.linalg.norm(a, axis=1)
    np.testing.assert_array_equal(projected[norms <= 1.5], a[norms <= 1.5])
    outside = norms > 1.5
    assert 100 < outside.sum() < 1900
    np.testing.assert_allclose(projected[outside], 1.5 * a[outside] / norms[outside, None], rtol=1e-5)
    assert np.all(np.linalg.norm(projected - other, axis=1) <= np.linalg.norm(a - b, axis=1) * (1 + 1e-5))
    slope = jax.jit(jax.jacobian(project))(np.zeros(3, np.float32), radius)
    np.testing.assert_array_equal(slope, np.eye(3))


@pytest.mark.parametrize("scale", [0.05, 1.0])
@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_rescaling_keeps_the_product_of_norms_below_alpha(alpha, scale):
    model = ResidualRnn(4, 3, (6, 5), lipschitz=alpha)
    params = some_params(model, scale)
    for direction in ("forward", "backward"):
        weight = np.asarray(jax.jit(model.state_weight, static_argnums=1)(params, direction))
        above = math.prod(np.linalg.norm(params[f"{direction}_W{place}"], 2) for place in (2, 3))
        first = np.linalg.norm(params[f"{direction}_W1h"], 2)
        product = above * np.linalg.norm(weight, 2)
        # The printed factor α/(‖W_3‖‖W_2‖) would give α‖W_1h‖, too much wherever ‖W_1h‖ > 1.
        assert product == pytest.approx(alpha * min(1.0, first), rel=1e-4)
        assert (first > 1) == (scale == 1.0)
        random = np.random.default_rng(0)
        double = {name: value.astype(np.float64) for name, value in params.items()}
        for _ in range(50):
            a, b, z = (random.normal(size=size) for size in (4, 4, FEATURES))
            change = naive_step(model, double, direction, a, z) - naive_step(model, double, direction, b, z)
            assert np.linalg.norm(change) <= alpha * np.linalg.norm(a - b) * (1 + 1e-6)


def test_a_layer_of_zeros_does_not_make_the_rescaling_infinite():
    model = MODELS_TRIED[1]
    params = some_params(model)
    params["forward_W2"] = 0 * params["forward_W2"]
    out, forward, _ = predict(model, params, some_prompts())
    assert np.isfinite(out).all() and not np.any(forward)


def test_names_shapes_and_draws():
    model = ResidualRnn(4, 3, (5, 6), readout_depth=2, readout_width=7)
    shapes = {name: leaf.shape for name, leaf in jax.eval_shape(lambda: model.init(KEY, TASK)).items()}
    one = {"W1h": (5, 4), "W1z": (5, FEATURES), "b1": (5,), "W2": (6, 5), "b2": (6,), "W3": (4, 6)}
    assert shapes == {
        f"{direction}_{name}": shape for direction in ("forward", "backward") for name, shape in one.items()
    } | {
        "readout_W1": (7, 8 + FEATURES),
        "readout_b1": (7,),
        "readout_W2": (7,),
    }
    free = jax.eval_shape(lambda: ResidualRnn(4, 3, (5, 6), lipschitz=0.0).init(KEY, TASK))
    assert not any(name.endswith("W1h") for name in free)
    drawn = draw(model)
    bound = (4 + FEATURES) ** -0.5
    assert 0.8 * bound < np.abs(drawn["forward_W1z"]).max() <= bound
    assert not np.array_equal(drawn["forward_W1z"], drawn["backward_W1z"])
    assert MODELS["residual-rnn"] is ResidualRnn


def test_a_model_read_back_from_json_is_the_same():
    assert ResidualRnn(4, 3, [5, 6]).width == (5, 6)
    assert ResidualRnn(4, 3, 5).transition_widths == (5, 5)
    assert ResidualRnn(4, 3, (5, 6), readout_depth=3).readout_widths == (6, 6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ResidualRnn(0, 1, 1), "state must be an integer at least 1; got state=0"),
        (lambda: ResidualRnn(2, 3, (4,)), r"depth 3 has 2 hidden layers; got width=\(4,\)"),
        (lambda: ResidualRnn(2, 2, 0), "width must be an integer at least 1; got width=0"),
        (
            lambda: ResidualRnn(2, 2, 3, lipschitz=-0.1),
            "lipschitz is None or a number of at least 0; got lipschitz=-0.1",
        ),
        (lambda: ResidualRnn(2, 2, 3, radius=0.0), "radius must be greater than 0; got radius=0.0"),
        (lambda: ResidualRnn(2, 2, 3).check(Parity(8, 2)), "reads sequences of shape"),
    ],
)
def test_bad_input_gets_one_clear_error(make, message):
    with pytest.raises(KroghError, match=message):
        make()
