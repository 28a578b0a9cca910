"""Feedforward networks on a whole prompt: formula, the theory's form f(T, W x), how they are drawn."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import in_double, random_params

from krogh.errors import KroghError
from krogh.models.feedforward import Feedforward
from krogh.models.parts import require_sequence
from krogh.tasks import Examples, Parity, Task
from krogh.tasks.links import LinearLink
from krogh.tasks.token_regression import TokenRegression

KEY = jax.random.key(5)
TASK = TokenRegression.example()
LENGTH, FEATURES = TASK.input_shape
D = TASK.dimension
QUICK = {"xla_backend_optimization_level": 0}  # compiling costs more here than running

predict = jax.jit(lambda model, params, x: model.predict(params, x), compiler_options=QUICK)
MODELS = [Feedforward(second=9), Feedforward(first=4, second=9), Feedforward(first=4, second=9, raw_tokens=True)]


def naive_feedforward(model, p, x):
    """The tokens of all positions, then the codes of all positions, through one layer after the other."""
    N, De = x.shape
    d = p["W"].shape[1] // N
    seen = p["W"] @ np.array([x[i, c] for i in range(N) for c in range(d)])
    if model.raw_tokens:
        seen = p["A"] @ seen
    if De > d:
        seen = seen + p["C"] @ np.array([x[i, c] for i in range(N) for c in range(d, De)])
    hidden = np.maximum(seen + p["b1"], 0.0)
    return p["W3"] @ np.maximum(p["W2"] @ hidden + p["b2"], 0.0) + p["b3"]


def some_params(model, task=TASK, dtype=np.float64):
    return random_params(task, model, dtype)


def some_x(dtype=np.float64):
    return np.random.default_rng(2).normal(size=(4, LENGTH, FEATURES)).astype(dtype)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_predictions_follow_the_formula(model):
    params, x = some_params(model), some_x()
    out = in_double(predict, model, params, x)
    np.testing.assert_allclose(out, [naive_feedforward(model, params, row) for row in x], rtol=1e-12, atol=1e-12)


def test_the_experiments_network_is_a_plain_one_on_the_flattened_prompt():
    """Its first matrix, with the columns of W and C put in the order of the prompt, is one affine layer."""
    model, x = Feedforward(second=9), some_x()
    p = some_params(model)
    whole = np.zeros((len(p["b1"]), LENGTH, FEATURES))
    whole[:, :, :D] = p["W"].reshape(-1, LENGTH, D)
    whole[:, :, D:] = p["C"].reshape(-1, LENGTH, FEATURES - D)
    hidden = np.maximum(x.reshape(4, -1) @ whole.reshape(-1, LENGTH * FEATURES).T + p["b1"], 0)
    expected = np.maximum(hidden @ p["W2"].T + p["b2"], 0) @ p["W3"].T + p["b3"]
    np.testing.assert_allclose(in_double(predict, model, p, x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("model", MODELS[1:], ids=repr)
def test_tokens_enter_only_through_their_projection(model):
    """Theorem 6's structural fact: a change of the tokens in the kernel of W changes nothing, another one does."""
    params, x = some_params(model), some_x()
    within = np.random.default_rng(8).normal(size=(4, LENGTH * D))
    onto_rows = np.linalg.pinv(params["W"]) @ params["W"]
    for change, seen in ((within - within @ onto_rows.T, False), (within @ onto_rows.T, True)):
        changed = x.copy()
        changed[:, :, :D] += change.reshape(4, LENGTH, D)
        gap = np.abs(in_double(predict, model, params, changed) - in_double(predict, model, params, x)).max()
        assert (gap > 1e-3) == seen and (seen or gap < 1e-9)


@pytest.mark.parametrize("model", [Feedforward(second=200), Feedforward(second=200, raw_tokens=True)], ids=repr)
def test_every_answer_depends_on_the_indices_of_every_position(model):
    params, x = some_params(model, dtype=np.float32), some_x(np.float32)
    for place in range(LENGTH):
        changed = x.copy()
        changed[:, place, D:] += 1.0
        assert (np.abs(np.asarray(predict(model, params, changed) - predict(model, params, x))).max(axis=0) > 0).all()


def test_widths_are_the_sources():
    """First layer N·d, second 1000."""
    shapes = jax.eval_shape(lambda: Feedforward().init(KEY, TASK))
    tokens, codes = LENGTH * D, LENGTH * (FEATURES - D)
    assert {name: leaf.shape for name, leaf in shapes.items()} == {
        "W": (tokens, tokens),
        "C": (tokens, codes),
        "b1": (tokens,),
        "W2": (1000, tokens),
        "b2": (1000,),
        "W3": (LENGTH, 1000),
        "b3": (LENGTH,),
    }
    shapes = jax.eval_shape(lambda: Feedforward(7, raw_tokens=True).init(KEY, TASK))
    assert {name: leaf.shape for name, leaf in shapes.items()} == {
        "W": (7, tokens),
        "A": (1000, 7),
        "C": (1000, codes),
        "b1": (1000,),
        "W2": (1000, 1000),
        "b2": (1000,),
        "W3": (LENGTH, 1000),
        "b3": (LENGTH,),
    }


@pytest.mark.parametrize("raw_tokens", [False, True])
def test_every_layer_is_drawn_by_its_fan_in(raw_tokens):
    model = Feedforward(300, 400, raw_tokens)
    params = jax.tree.map(np.asarray, jax.jit(lambda: model.init(KEY, TASK), compiler_options=QUICK)())
    whole, tokens = LENGTH * FEATURES, LENGTH * D
    joint = 300 + whole - tokens if raw_tokens else whole
    fan_in = {"W": tokens if raw_tokens else whole, "A": joint, "C": joint, "b1": joint, "W3": 400, "b3": 400}
    fan_in |= dict.fromkeys(("W2", "b2"), 400 if raw_tokens else 300)
    for name, leaf in params.items():
        bound = 1 / math.sqrt(fan_in[name])
        assert np.abs(leaf).max() <= bound * (1 + 1e-6), name
        if leaf.size > 100:
            assert np.abs(leaf).max() > 0.97 * bound, name
            spread = 4.5 * math.sqrt(4 / 5 / leaf.size) * bound**2 / 3
            assert leaf.var() == pytest.approx(bound**2 / 3, abs=spread), name


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_gradients_are_finite_and_reach_every_parameter(model):
    params, x = some_params(model, dtype=np.float32), jnp.asarray(some_x(np.float32))
    gradient = jax.jit(jax.grad(lambda p: jnp.mean(model.predict(p, x) ** 2)), compiler_options=QUICK)(params)
    for name, leaf in gradient.items():
        assert np.isfinite(leaf).all() and np.abs(leaf).max() > 0, name


class Codeless(Task):
    """Sequences whose positions do not say what is token and what is code."""

    kind = "codeless"
    regression = True
    input_shape = (3, 2)
    population_size = None

    def draw(self, key, size):
        return jax.random.normal(key, (size, 3, 2))

    def decode(self, raw):
        return Examples(raw, raw[:, :, 0], raw[:, :, 0])

    def error(self, prediction, truth):
        return jnp.mean((prediction - truth) ** 2, axis=1)

    def population(self):
        raise KroghError("not listed")

    def limits(self):
        return {}

    def baselines(self):
        return {}

    @classmethod
    def example(cls):
        return cls()


def test_without_codes_everything_is_token():
    shapes = jax.eval_shape(lambda: Feedforward(second=9).init(KEY, Codeless()))
    assert shapes["W"].shape == (6, 6) and "C" not in shapes
    model = Feedforward(second=9)
    params = some_params(model, Codeless())
    x = np.random.default_rng(0).normal(size=(2, 3, 2))
    out = in_double(predict, model, params, x)
    np.testing.assert_allclose(out, [naive_feedforward(model, params, row) for row in x], rtol=1e-12, atol=1e-12)


def test_bad_values_and_tasks_are_refused():
    with pytest.raises(KroghError, match="first=0"):
        Feedforward(first=0)
    with pytest.raises(KroghError, match="second=-1"):
        Feedforward(second=-1)
    with pytest.raises(KroghError, match=r"feedforward network reads sequences.*got the task 'parity'"):
        Feedforward().check(Parity(n=8, k=2))
    with pytest.raises(KroghError, match=r"dimension=None for 'codeless'.*try raw_tokens=False"):
        Feedforward(raw_tokens=True).check(Codeless())
    Feedforward(raw_tokens=True).check(TASK)
    Feedforward().check(TokenRegression(length=2, dimension=1, link=LinearLink([1.0])))


def test_a_task_must_be_a_sequence_and_a_regression():
    class Flat(Codeless):
        input_shape = (3,)

    class Labels(Codeless):
        regression = False

    for task, echo in ((Flat(), r"\[3\]"), (Labels(), r"\[3, 2\]")):
        with pytest.raises(KroghError, match=f"a thing reads.*'codeless' of input shape {echo}"):
            require_sequence("thing", task)
    require_sequence("thing", Codeless())
