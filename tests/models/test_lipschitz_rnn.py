"""The recurrent network of the lower bound against its recursion, step by step, and the norms its bound speaks of."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from support import random_params

from krogh.errors import KroghError
from krogh.models.residual_rnn import LipschitzRnn, projection_norm, readout_lipschitz
from krogh.registry import MODELS
from krogh.tasks import Parity
from krogh.tasks.token_regression import TokenRegression

KEY = jax.random.key(3)
TASK = TokenRegression.example()
N, FEATURES = TASK.input_shape
QUICK = {"xla_backend_optimization_level": 0}

draw = jax.jit(lambda model: model.init(KEY, TASK), compiler_options=QUICK)
predict = jax.jit(lambda model, params, x: (model.predict(params, x), *model.states(params, x)), compiler_options=QUICK)


def naive_transition(model, p, direction, h, z):
    value = p[f"{direction}_W1h"] @ h + p[f"{direction}_W1z"] @ z
    for place in range(2, model.depth + 1):
        value = p[f"{direction}_W{place}"] @ np.maximum(value + p[f"{direction}_b{place - 1}"], 0.0)
    return value / max(1.0, np.linalg.norm(value))


def naive_readout(model, p, uh, z):
    """f_y as a function of U→h→ + U←h← and one token."""
    value = uh + p["W_y"] @ z + p["b_y"]
    for place in range(2, model.readout_depth + 1):
        value = p[f"W{place}"] @ np.maximum(value, 0.0)
        if place < model.readout_depth:
            value = value + p[f"b{place}"]
    return value


def naive_lipschitz_rnn(model, p, z):
    """Predictions and states of one prompt z [N, De]."""
    forward, backward = np.zeros((len(z), model.state)), np.zeros((len(z), model.state))
    for i in range(len(z) - 1):
        forward[i + 1] = naive_transition(model, p, "forward", forward[i], z[i])
    for i in range(len(z) - 1, 0, -1):
        backward[i - 1] = naive_transition(model, p, "backward", backward[i], z[i])
    read = [p["U_forward"] @ forward[i] + p["U_backward"] @ backward[i] for i in range(len(z))]
    return np.array([naive_readout(model, p, read[i], z[i]) for i in range(len(z))]), forward, backward


def some_params(model, scale=0.4, seed=1):
    return random_params(TASK, model, np.float32, scale, seed)


def some_prompts(size=3, seed=2):
    return np.random.default_rng(seed).normal(size=(size, N, FEATURES)).astype(np.float32) / 2


MODELS_TRIED = [
    LipschitzRnn(3, depth=1),
    LipschitzRnn(4),
    LipschitzRnn(3, depth=3, width=(5, 6), readout_depth=4, readout_width=(7, 5, 4)),
]


@pytest.mark.parametrize("model", MODELS_TRIED, ids=["linear", "default", "deep"])
def test_predictions_and_states_follow_the_recursion(model):
    params, x = some_params(model), some_prompts()
    double = {name: value.astype(np.float64) for name, value in params.items()}
    found = predict(model, params, x)
    for place, row in enumerate(x):
        for got, expected in zip(found, naive_lipschitz_rnn(model, double, row.astype(np.float64)), strict=True):
            np.testing.assert_allclose(got[place], expected, rtol=2e-4, atol=2e-5)
    norms = np.linalg.norm(found[1], axis=-1)
    assert norms.max() <= 1 + 1e-6 and norms[:, 0].max() == 0


def test_names_shapes_and_draws():
    model = LipschitzRnn(4, readout_depth=3, readout_width=(6, 5))
    shapes = {name: leaf.shape for name, leaf in jax.eval_shape(lambda: model.init(KEY, TASK)).items()}
    one = {"W1h": (4, 4), "W1z": (4, FEATURES), "b1": (4,), "W2": (4, 4)}
    assert shapes == {
        f"{direction}_{name}": shape for direction in ("forward", "backward") for name, shape in one.items()
    } | {
        "U_forward": (6, 4),
        "U_backward": (6, 4),
        "W_y": (6, FEATURES),
        "b_y": (6,),
        "W2": (5, 6),
        "b2": (5,),
        "W3": (5,),
    }
    assert LipschitzRnn(4).readout_widths == (4,), "U has d_h rows in the source"
    drawn = draw(model)
    bound = (8 + FEATURES) ** -0.5
    assert 0.8 * bound < np.abs(drawn["W_y"]).max() <= bound
    assert MODELS["lipschitz-rnn"] is LipschitzRnn


def test_norms_are_those_of_the_bound():
    model = MODELS_TRIED[2]
    params = some_params(model)
    double = {name: value.astype(np.float64) for name, value in params.items()}
    norm = np.linalg.norm(np.hstack([double["U_forward"], double["U_backward"]]), 2)
    lipschitz = np.linalg.norm(double["W2"], 2) * np.linalg.norm(double["W3"], 2) * np.linalg.norm(double["W4"])
    assert projection_norm(params) == pytest.approx(norm, rel=1e-5)
    assert readout_lipschitz(params) == pytest.approx(lipschitz, rel=1e-5)
    random = np.random.default_rng(0)
    for _ in range(200):
        a, b, z = random.normal(size=7), random.normal(size=7), random.normal(size=FEATURES)
        change = abs(naive_readout(model, double, a, z) - naive_readout(model, double, b, z))
        assert change <= lipschitz * np.linalg.norm(a - b)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LipschitzRnn(0), "state must be an integer at least 1; got state=0"),
        (lambda: LipschitzRnn(2, readout_depth=1), "readout_depth must be an integer at least 2; got readout_depth=1"),
        (
            lambda: LipschitzRnn(2, readout_depth=3, readout_width=(1,)),
            "depth 3 has 2 hidden layers; got readout_width",
        ),
        (lambda: LipschitzRnn(2).check(Parity(8, 2)), "reads sequences of shape"),
    ],
)
def test_bad_input_gets_one_clear_error(make, message):
    with pytest.raises(KroghError, match=message):
        make()
