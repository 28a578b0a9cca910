"""The same laws for every registered model: a new one is tested by existing.

A model adds a line to `ORACLES` with its formula in plain NumPy, one example at a time, and to `PERMUTED` where
moving input coordinates and weights together must not change its predictions.
"""

from __future__ import annotations

import math
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from jaxtyping import Array, Float

from krogh.engine.trial import Trial
from krogh.errors import KroghError
from krogh.models import (
    CONFIGURATIONS,
    CausalTransformer,
    DeepQuadratic,
    LinearAttention,
    ParityTransformer,
    Recurrent,
    SparseTransformer,
    StateSpace,
    TokenAttention,
    configuration,
)
from krogh.models.base import Learner, Model
from krogh.models.configurations import configuration_title
from krogh.models.parts import symbols_of
from krogh.models.polynet import DisjointPolyNet, PolyNet
from krogh.models.two_layer import Mlp, Neuron, power_mlp
from krogh.registry import MODELS
from krogh.tasks import (
    ClassificationTask,
    DisjointParity,
    Examples,
    MarkovChains,
    Parity,
    RegularLanguage,
    Task,
    TokenRegression,
)
from krogh.tasks.parity import AbstractParity
from krogh.training import Stopping, Training
from krogh.training.losses import LOSSES

KEY = jax.random.key(7)
SIZE = 31  # odd, so that labels cannot cancel
NAMES = [name for name in MODELS if not issubclass(MODELS[name], Learner)]
QUICK = {"xla_backend_optimization_level": 0}  # compiling a draw costs more here than running it

draw = jax.jit(lambda model, key, task: model.init(key, task), compiler_options=QUICK)
predict = jax.jit(lambda model, params, x: model.predict(params, x))


def init(model: Model, key, task: Task) -> dict:
    return jax.tree.map(np.asarray, draw(model, key, task))


def some_params(model: Model, task: Task) -> dict:
    """Parameters of the right shapes, without the cost of compiling their draw."""
    random = np.random.default_rng(1)
    shapes = jax.eval_shape(lambda: model.init(KEY, task))
    return {name: (0.5 * random.normal(size=leaf.shape)).astype(np.float32) for name, leaf in shapes.items()}


def signs(n: int, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(n).choice([-1.0, 1.0], (size, n)).astype(np.float32)


@pytest.fixture(scope="module", params=NAMES)
def case(request) -> tuple[Model, Task, dict, Examples]:
    """A model, its task, parameters and a batch."""
    model, task = MODELS[request.param].example()
    batch = jax.jit(lambda: task.batch(KEY, SIZE), compiler_options=QUICK)()
    return model, task, init(model, KEY, task), jax.tree.map(np.asarray, batch)


def fitting_losses(task: Task) -> list[str]:
    """The losses that the task's labels allow: class numbers have one."""
    return ["cross-entropy"] if isinstance(task, ClassificationTask) else list(LOSSES)


@pytest.fixture(scope="module")
def gradients(case) -> dict:
    """The gradient of every loss that fits: the model is differentiated once, and for all of them together."""
    model, task, params, batch = case
    x, y = jnp.asarray(batch.x), jnp.asarray(batch.y)
    names = fitting_losses(task)

    def every(params):
        prediction, pull = jax.vjp(lambda params: model.predict(params, x), params)
        slopes = [jax.grad(lambda out, name=name: jnp.mean(LOSSES[name](out, y)))(prediction) for name in names]
        return jax.vmap(lambda slope: pull(slope)[0])(jnp.stack(slopes))

    found = jax.tree.map(np.asarray, jax.jit(every)(params))
    return {name: {of: leaf[place] for of, leaf in found.items()} for place, name in enumerate(names)}


def same(a, b) -> bool:
    return set(a) == set(b) and all(np.array_equal(a[name], b[name]) for name in a)


def close(a, b, tolerance=2e-5) -> bool:
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return a.shape == b.shape and bool(np.all(np.abs(a - b) <= tolerance * (1 + np.abs(b))))


def constant(leaf) -> bool:
    """A bias, shift or scale that starts at 0 or 1."""
    return bool(np.all(leaf == 0) or np.all(leaf == 1))


# Parameters.


def test_the_source_models_are_registered():
    known = {"mlp", "neuron", "polynet", "disjoint-polynet", "parity-transformer"}
    known |= {"sparse-transformer", "attention-mlp", "attention-blocks", "token-attention", "merged-attention"}
    known |= {"pair-network", "power-network", "deep-quadratic"}
    known |= {"recurrent", "feedforward", "residual-rnn", "lipschitz-rnn", "state-space", "linear-attention"}
    known |= {"causal-transformer", "minimal-induction"}
    assert known <= set(NAMES)


def test_an_example_fits_its_task(case):
    model, task, _, _ = case
    assert MODELS[model.kind] is type(model)
    model.check(task)
    assert model.obstacle(task) is None


def test_parameters_are_named_float32_arrays(case):
    model, task, params, _ = case
    assert params and all(isinstance(name, str) for name in params)
    assert all(leaf.dtype == np.float32 for leaf in params.values())
    assert all(np.isfinite(leaf).all() for leaf in params.values())
    shapes = jax.eval_shape(lambda: model.init(KEY, task))
    assert {name: leaf.shape for name, leaf in params.items()} == {n: s.shape for n, s in shapes.items()}


UNDRAWN = {"minimal-induction"}  # starts from constants


def test_a_key_decides_the_parameters(case):
    model, task, params, _ = case
    assert same(params, init(model, jax.random.key(7), task))
    other = init(model, jax.random.key(8), task)
    assert set(other) == set(params)
    drawn = [name for name in params if np.any(other[name] != params[name])]
    assert bool(drawn) == (model.kind not in UNDRAWN)
    assert all(constant(params[name]) for name in params if name not in drawn), "drawn, or all 0 or all 1"


def test_parameters_are_drawn_independently_of_each_other(case):
    _, _, params, _ = case
    names = sorted(name for name in params if not constant(params[name]))
    flat = {name: np.ravel(params[name]) for name in names}
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            size = min(flat[first].size, flat[second].size)
            a, b = flat[first][:size], flat[second][:size]
            assert size < 2 or not close(np.abs(a / a[0]), np.abs(b / b[0])), (first, second)


def test_initial_parameters_know_the_task_only_by_its_shape(case):
    model, task, params, _ = case
    if not isinstance(task, AbstractParity):
        pytest.skip("the task hides no support")
    elsewhere = np.asarray(task.support).copy()
    elsewhere[-1] = task.n - 1
    moved = type(task)(n=task.n, k=task.k, support=elsewhere)
    assert same(params, init(model, KEY, moved))


SHAPES = {  # what is written to a file, under the letters of the source's formulas
    "mlp": {"W": (16, 8), "b": (16,), "u": (16,), "c": ()},
    "neuron": {"w": (8,), "b": (), "u": ()},
    "polynet": {"w": (3, 8), "b": (3,)},
    "disjoint-polynet": {"w": (3, 3)},
    "parity-transformer": {
        "E": (2, 16),
        "cls": (16,),
        "P": (8, 16),
        "Q": (4, 16, 4),
        "K": (4, 16, 4),
        "V": (4, 16, 4),
        "O": (4, 4, 16),
        "W1": (64, 16),
        "b1": (64,),
        "W2": (16, 64),
        "b2": (16,),
        "u": (16,),
    },
    "deep-quadratic": {"W": (4, 8), "b": (4,), "W2": (2, 4), "b2": (2,), "u": (2,), "c": ()},
    "pair-network": {"U": (12, 5), "V": (12, 5), "W": (12, 5)},
    "power-network": {"U": (8, 6), "W": (8, 2)},
}


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_parameter_names_and_shapes_are_stable(name):
    model, task = MODELS[name].example()
    shapes = jax.eval_shape(lambda: model.init(KEY, task))
    assert {name: leaf.shape for name, leaf in shapes.items()} == SHAPES[name]


# Predictions.


def test_predictions_are_float32_and_shaped_like_labels(case):
    model, task, params, batch = case
    out = np.asarray(predict(model, params, batch.x))
    logits = (task.classes,) if isinstance(task, ClassificationTask) else ()
    assert out.shape == (*batch.y.shape, *logits) and out.shape[0] == SIZE and out.dtype == np.float32
    assert np.isfinite(out).all() and out.std() > 0


def test_noise_is_decided_by_its_word_and_a_quiet_model_has_none(case):
    model, _, params, batch = case
    forward = jax.jit(model.forward)
    outs = [np.asarray(forward(params, batch.x, jnp.uint32(word))) for word in (1, 1, 2)]
    assert np.array_equal(outs[0], outs[1]) and np.isfinite(outs[2]).all()
    assert np.array_equal(outs[0], outs[2]) != model.noisy
    if not model.noisy:
        assert close(outs[0], predict(model, params, batch.x))


def test_permuting_examples_permutes_predictions(case):
    model, _, params, batch = case
    order = np.random.default_rng(0).permutation(SIZE)
    out = np.asarray(predict(model, params, batch.x))
    assert close(predict(model, params, batch.x[order]), out[order])


def test_a_batch_predicts_as_its_examples_one_by_one(case):
    model, _, params, batch = case
    x, out = batch.x, np.asarray(predict(model, params, batch.x))
    alone = np.concatenate([predict(model, params, x[place : place + 1]) for place in range(SIZE)])
    assert close(alone, out)


@pytest.mark.slow
def test_many_parameters_at_once_predict_as_one_at_a_time(case):
    model, task, params, batch = case
    keys = jnp.stack([jax.random.key(8), KEY])
    draw_many = jax.jit(jax.vmap(lambda key: model.init(key, task)), compiler_options=QUICK)
    many = jax.tree.map(np.asarray, draw_many(keys))
    assert same({name: leaf[1] for name, leaf in many.items()}, params)
    out = np.asarray(jax.jit(jax.vmap(model.predict, in_axes=(0, None)))(many, batch.x))
    for place in range(2):
        one = {name: leaf[place] for name, leaf in many.items()}
        assert close(out[place], predict(model, one, batch.x))


WITHOUT_EFFECT = {"sparse-transformer": {"bk"}}  # a shift of all scores of a head


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_gradients_are_finite_and_somewhere_not_zero(case, gradients, loss):
    if loss not in gradients:
        pytest.skip("a loss of other labels")
    params, gradient = case[2], gradients[loss]
    assert set(gradient) == set(params)
    for name, leaf in gradient.items():
        assert leaf.shape == params[name].shape and leaf.dtype == np.float32
        assert np.isfinite(leaf).all(), name
        assert np.abs(leaf).max() > 0 or name in WITHOUT_EFFECT.get(case[0].kind, ()), f"nothing trains {name}"


def test_the_gradient_is_the_slope_of_the_loss(case, gradients):
    model, _, params, batch = case
    name = "square" if "square" in gradients else "cross-entropy"
    gradient = gradients[name]
    norm = math.sqrt(sum(float(np.vdot(leaf, leaf)) for leaf in gradient.values()))

    def loss(length: float) -> float:
        moved = {name: params[name] - np.float32(length / norm) * gradient[name] for name in params}
        out = np.asarray(predict(model, moved, batch.x), np.float64)
        if name == "square":
            return float(np.mean((out - batch.y) ** 2))
        return float(
            np.mean(np.log(np.exp(out).sum(axis=-1)) - np.take_along_axis(out, batch.y[..., None], -1)[..., 0])
        )

    slope = (loss(1e-2) - loss(-1e-2)) / 2e-2
    assert slope == pytest.approx(-norm, rel=0.05)


# Causality.

CHAINS = MarkovChains(k=3, length=9)
NEXT_TOKEN = Training(loss="cross-entropy", stopping=Stopping(error=0.01, early=False))
CAUSAL = {  # every registered model whose example says so, and what else is causal only when asked
    **{name: MODELS[name].example() for name in NAMES if MODELS[name].example()[0].causal},
    "several layers and heads": (CausalTransformer.paper(dimension=6, layers=3, heads=2, mlp=True), CHAINS),
    "absolute positions": (CausalTransformer(dimension=6, positions="absolute", mlp=True), CHAINS),
    "no positions": (CausalTransformer(dimension=6, positions="none", norm=True), CHAINS),
    **{f"one direction of {cell}": (Recurrent(cell, 5, bidirectional=False), CHAINS) for cell in ("gru", "lstm")},
    "one direction of states": (StateSpace(3, 4, 5, bidirectional=False), CHAINS),
    "masked attention": (TokenAttention(5, causal=True), CHAINS),
    "masked linear attention": (LinearAttention(5, causal=True), CHAINS),
    **{
        f"words read by {model.kind}": (model, RegularLanguage("(0|1|2)*21", 1, 7))  # four symbols in, three answers
        for model in (
            CausalTransformer(dimension=6),
            Recurrent("tanh", 5, bidirectional=False),
            StateSpace(3, 4, 5, bidirectional=False),
            LinearAttention(5, causal=True),
        )
    },
    "masked attention to real tokens": (TokenAttention(5, causal=True), TokenRegression.example()),
    "one direction of real tokens": (StateSpace(3, 4, 5, bidirectional=False), TokenRegression.example()),
}
LEAKING = {
    "both directions": (Recurrent("gru", 5), CHAINS),
    "both directions of states": (StateSpace(3, 4, 5), CHAINS),
    "attention without a mask": (TokenAttention(5), CHAINS),
    "linear attention without a mask": (LinearAttention(5), CHAINS),
}


quickly = jax.jit(lambda model, params, x: model.predict(params, x), compiler_options=QUICK)
in_training = jax.jit(lambda model, params, x: model.forward(params, x, jnp.uint32(1)), compiler_options=QUICK)
last = jax.jit(lambda model, params, x: model.predict_last(params, x), compiler_options=QUICK)


def sequences(task: Task) -> np.ndarray:
    """Four inputs of the task's shape: symbols or real tokens."""
    random, shape = np.random.default_rng(2), (4, *task.input_shape)
    symbols = symbols_of(task)
    return random.integers(0, symbols, shape, np.int32) if symbols else random.normal(size=shape).astype(np.float32)


def looks_ahead(model: Model, task: Task, quickly=quickly) -> bool:
    """Whether a prediction changes by a single bit when later positions do; what is changed must show at its place."""
    params, x, symbols = some_params(model, task), sequences(task), symbols_of(task)
    out, ahead = np.asarray(quickly(model, params, x)), False
    for place in range(x.shape[1]):
        changed = x.copy()
        changed[:, place:] = (changed[:, place:] + 1) % symbols if symbols else changed[:, place:] + 1
        moved = np.any(np.asarray(quickly(model, params, changed)) != out, axis=(0, *range(2, out.ndim)))
        assert moved[place], "the law would hold for a model that reads nothing"
        ahead |= bool(moved[:place].any())
    return ahead


@pytest.mark.parametrize("name", CAUSAL)
def test_a_causal_model_does_not_know_the_future(name):
    model, task = CAUSAL[name]
    model.check(task)
    assert model.causal and not looks_ahead(model, task)
    if type(model).forward is not Model.forward:
        assert not looks_ahead(model, task, in_training)


@pytest.mark.parametrize("name", CAUSAL)
def test_the_last_prediction_is_the_last_of_all(name):
    model, task = CAUSAL[name]
    params, x = some_params(model, task), sequences(task)
    assert close(last(model, params, x), quickly(model, params, x)[:, -1:])


class Unmasked(CausalTransformer):
    """A transformer that says it is causal, with its mask removed."""

    def _masked(self, scores):
        return scores


def test_the_law_of_causality_fails_without_a_mask():
    assert Unmasked(dimension=6).causal and looks_ahead(Unmasked(dimension=6), CHAINS)
    assert looks_ahead(Unmasked(dimension=6, layers=1), CHAINS, in_training)


@pytest.mark.parametrize("name", LEAKING)
def test_a_task_of_next_tokens_refuses_a_model_that_looks_ahead(name):
    model, task = LEAKING[name]
    assert task.causal and not model.causal and looks_ahead(model, task)
    words = f"MarkovChains asks for what comes next, and {type(model).__name__} looks ahead.*try CausalTransf"
    with pytest.raises(KroghError, match=words):
        Trial(task, model, NEXT_TOKEN)


def test_a_task_of_next_tokens_takes_a_causal_model_and_others_take_any():
    Trial(CHAINS, CausalTransformer(dimension=6), NEXT_TOKEN)
    Trial(CHAINS, Recurrent("gru", 5, bidirectional=False), NEXT_TOKEN)
    assert not TokenRegression.example().causal
    TokenAttention(5).check(TokenRegression.example())


# Formulas.


def relu(z):
    return np.maximum(z, 0.0)


def naive_mlp(model, p, x):
    hidden = p["W"] @ x + p["b"]
    active = relu(hidden) if model.activation == "relu" else hidden**model.degree
    return p["u"] @ active + p.get("c", 0.0)


def naive_neuron(model, p, x):
    assert model.activation == "sine"
    angle = math.pi * model.scale * (p["w"] @ x + p["b"]) / 2 + math.pi * (1 - model.degree) / 2
    return p.get("u", 1.0) * math.sin(angle)


def naive_polynet(model, p, x):
    return math.prod(p["w"][i] @ x + p["b"][i] for i in range(model.degree))


def naive_disjoint(model, p, x):
    block = len(x) // model.degree
    return math.prod(p["w"][i] @ x[i * block : (i + 1) * block] for i in range(model.degree))


def naive_transformer(model, p, x):
    """The formula as printed in the module, token by token and head by head."""
    tokens = [p["E"][1 if sign > 0 else 0] + place for sign, place in zip(x, p["P"], strict=True)]
    sequence = np.stack([*tokens, p["cls"]])
    a = p["cls"].copy()
    for head in range(model.heads):
        query = p["cls"] @ p["Q"][head]
        scores = np.array([query @ (row @ p["K"][head]) for row in sequence]) / math.sqrt(model.attention)
        weight = np.exp(scores - scores.max())
        weight = weight / weight.sum()
        a += (weight @ (sequence @ p["V"][head])) @ p["O"][head]
    hidden = p["W1"] @ a + p["b1"]
    active = np.array([h * 0.5 * (1 + math.erf(h / math.sqrt(2))) for h in hidden])
    return p["u"] @ (a + p["W2"] @ active + p["b2"])


def naive_sparse_transformer(model, p, x):
    """One pre-norm block read at [CLS], token by token and head by head."""

    def normed(z, which):
        centred = z - z.mean()
        return centred / math.sqrt((centred**2).mean() + 1e-5) * p[f"g{which}"] + p[f"h{which}"]

    rows = [p["E"][1 if sign < 0 else 0] for sign in x] + [p["E"][2]]
    stream = [row + place for row, place in zip(rows, p["P"], strict=True)]
    seen = np.stack([normed(z, 1) for z in stream])
    query, keys, values = p["Wq"] @ seen[-1] + p["bq"], seen @ p["Wk"].T + p["bk"], seen @ p["Wv"].T + p["bv"]
    k, mixed = model.embedding // model.heads, []
    for head in range(model.heads):
        own = slice(head * k, (head + 1) * k)
        scores = keys[:, own] @ query[own] / math.sqrt(k)
        weight = np.exp(scores - scores.max())
        mixed.append(weight / weight.sum() @ values[:, own])
    a = stream[-1] + p["Wo"] @ np.concatenate(mixed) + p["bo"]
    hidden = p["W1"] @ normed(a, 2) + p["b1"]
    active = np.array([h * 0.5 * (1 + math.erf(h / math.sqrt(2))) for h in hidden])
    final = normed(a + p["W2"] @ active + p["b2"], 3)
    rows = p["E"][:2] if model.tied else p["U"]
    return (rows[1] - rows[0]) @ final


def naive_quadratic(model, p, x):
    z = x
    for layer in range(len(model.widths)):
        suffix = "" if layer == 0 else str(layer + 1)
        z = np.array([(row @ z + shift) ** 2 for row, shift in zip(p[f"W{suffix}"], p[f"b{suffix}"], strict=True)])
    return p["u"] @ z + p.get("c", 0.0)


ORACLES = {
    "deep-quadratic": naive_quadratic,
    "mlp": naive_mlp,
    "sparse-transformer": naive_sparse_transformer,
    "neuron": naive_neuron,
    "polynet": naive_polynet,
    "disjoint-polynet": naive_disjoint,
    "parity-transformer": naive_transformer,
}

VARIANTS = [
    *(MODELS[name].example() for name in sorted(ORACLES)),
    (Mlp(5), Parity(n=8, k=2)),
    (Mlp(5, initialiser="gaussian"), Parity(n=33, k=2)),
    (power_mlp(6, 3), Parity(n=8, k=3)),
    (power_mlp(6, 4), Parity(n=8, k=4)),
    (Neuron("sine", 2, output_weight=False, scale=2.0), Parity(n=8, k=2)),
    (DeepQuadratic((3,), output_bias=False), Parity(n=8, k=2)),
    (DeepQuadratic((3, 2, 1)), Parity(n=8, k=4)),
    (PolyNet(1), Parity(n=8, k=1)),
    (PolyNet(5, "gaussian"), Parity(n=8, k=5)),
    (DisjointPolyNet(2, "normal"), DisjointParity(n=8, k=2)),
    (ParityTransformer(6, heads=3, attention=2, hidden=5, initialiser="normal"), Parity(n=5, k=2)),
    (SparseTransformer(8, heads=2, tied=True), Parity(n=5, k=2)),
    (SparseTransformer(6, heads=1, dropout=0.0, fixed_positions=True), Parity(n=9, k=2)),
    (ParityTransformer(4, heads=1, attention=1, hidden=1, initialiser="normal"), Parity(n=1, k=1)),
]


@pytest.mark.parametrize(("model", "task"), VARIANTS, ids=lambda value: value.kind)
def test_predictions_follow_the_formula(model, task):
    params, x = some_params(model, task), signs(task.n)
    plain = {name: np.asarray(leaf, np.float64) for name, leaf in params.items()}
    expected = [ORACLES[model.kind](model, plain, row.astype(np.float64)) for row in x]
    assert close(predict(model, params, x), expected)


@pytest.mark.parametrize("name", NAMES)
def test_every_model_is_held_against_a_formula_in_plain_numpy(name):
    """Here, or in the model's own tests, by a function whose name begins with `naive`; plug-ins test their own."""
    if not MODELS[name].__module__.startswith("krogh."):
        pytest.skip("not a model of krogh's own")
    own = Path(__file__).parents[1] / "models" / f"test_{MODELS[name].__module__.rpartition('.')[2]}.py"
    assert name in ORACLES or (own.exists() and "def naive" in own.read_text())


def test_attention_stays_finite_where_scores_are_large():
    model, task = ParityTransformer(6, heads=3, attention=2, hidden=5, initialiser="normal"), Parity(n=5, k=2)
    params, x = some_params(model, task), signs(task.n)
    params["Q"] = params["Q"] * np.float32(1000.0)
    plain = {name: np.asarray(leaf, np.float64) for name, leaf in params.items()}
    expected = [naive_transformer(model, plain, row.astype(np.float64)) for row in x]
    assert close(predict(model, params, x), expected, 1e-3)


# Symmetry.


def along(name: str, axis: int):
    return lambda params, order: {**params, name: np.take(params[name], order, axis=axis)}


def within_blocks(params, order):
    return {**params, "w": params["w"].reshape(-1)[order].reshape(params["w"].shape)}


PERMUTED = {
    "deep-quadratic": along("W", 1),
    "mlp": along("W", 1),
    "neuron": along("w", 0),
    "polynet": along("w", 1),
    "disjoint-polynet": within_blocks,
    "parity-transformer": along("P", 0),
    "sparse-transformer": lambda params, order: {**params, "P": params["P"][[*order, len(order)]]},
}


@pytest.mark.parametrize("name", sorted(PERMUTED))
def test_moving_coordinates_with_their_weights_changes_nothing(name):
    model, task = MODELS[name].example()
    random = np.random.default_rng(3)
    n = task.input_shape[0]
    blocks = np.arange(n).reshape(model.degree, -1) if name == "disjoint-polynet" else np.arange(n)[None, :]
    order = np.concatenate([random.permutation(block) for block in blocks])
    params, x = some_params(model, task), signs(n)
    out = np.asarray(predict(model, params, x))
    assert close(predict(model, PERMUTED[name](params, order), x[:, order]), out)
    assert not close(predict(model, params, x[:, order]), out), "the weights matter"


# What a model can and cannot do.


class Tokens(Task):
    """A task that is not a sign vector."""

    kind = "tokens"
    input_shape = (4,)
    population_size = None

    def draw(self, key, size):
        return jax.random.randint(key, (size, 4), 0, 9)

    def decode(self, raw):
        return Examples(raw, raw[:, 0], raw[:, 0])

    def error(self, prediction: Array, truth: Array) -> Float[Array, " size"]:
        return (prediction != truth).astype(jnp.float32)

    def population(self):
        raise KroghError("not listed")

    def limits(self):
        return {}

    def baselines(self):
        return {}

    @classmethod
    def example(cls):
        return cls()


def test_a_task_that_cannot_be_read_is_refused_by_name(case):
    with pytest.raises(KroghError, match="tokens"):
        case[0].check(Tokens())
    assert case[0].obstacle(Tokens()) is None


@pytest.mark.parametrize(
    ("model", "task", "words"),
    [
        (Mlp(2), Parity(n=8, k=3), "width must be at least k=3.*ReLU.*got width=2.*try width=3"),
        (power_mlp(2, 3), Parity(n=8, k=3), "power-activation.*got width=2"),
        (power_mlp(10, 2), Parity(n=8, k=3), "degree must be at least k=3.*got degree=2"),
        (Mlp(2), Parity(n=8, k=2), "output_bias"),
        (Mlp(2, output_bias=True), Parity(n=8, k=2), None),
        (Mlp(3), Parity(n=8, k=2), None),
        (PolyNet(2), Parity(n=8, k=3), "k=3.*got degree=2"),
        (PolyNet(3), Parity(n=8, k=3), None),
        (Neuron("zigzag", 2), Parity(n=8, k=3), "k=3.*got degree=2"),
        (Neuron("polynomial", 2), Parity(n=8, k=3), "k=3.*got degree=2"),
        (Neuron("infinite-zigzag", 2), Parity(n=8, k=3), None),
        (Neuron("sine", 2), Parity(n=8, k=3), None),
        (DeepQuadratic((4, 4)), Parity(n=8, k=5), "3 layers of squares have degree 4.*got k=5"),
        (DeepQuadratic((4, 4)), Parity(n=8, k=4), None),
        (DeepQuadratic((2, 1), output_bias=False), Parity(n=8, k=4), "needs output_bias"),
    ],
)
def test_what_no_parameters_can_solve_is_said_with_what_would(model, task, words):
    assert model.obstacle(task) is None if words is None else True
    if words is not None:
        with pytest.raises(KroghError, match=words):
            raise KroghError(model.obstacle(task))


def test_blocks_must_divide_the_input():
    with pytest.raises(KroghError, match=r"n=8; got degree=3"):
        DisjointPolyNet(3).check(Parity(n=8, k=2))


@pytest.mark.parametrize(
    ("build", "echo"),
    [
        (lambda: Mlp(0), "width=0"),
        (lambda: Mlp(-3), "width=-3"),
        (lambda: Mlp(4, degree=0), "degree=0"),
        (lambda: Mlp(4, activation="rleu"), "'rleu'; did you mean 'relu'"),
        (lambda: Mlp(4, initialiser="unifrom"), "'unifrom'; did you mean 'uniform'"),
        (lambda: power_mlp(4, 0), "degree=0"),
        (lambda: Neuron("cosine", 2), "'cosine'"),
        (lambda: Neuron("sine", 0), "degree=0"),
        (lambda: Neuron("zigzag", 2, outer="wrap"), "outer='wrap'"),
        (lambda: Neuron("zigzag", 2, scale=2.0), "scale=2.0 for 'zigzag'"),
        (lambda: Neuron("sine", 2, scale=0.0), "scale=0.0"),
        (lambda: Neuron("sine", 2, scale=math.nan), "scale=nan"),
        (lambda: Neuron("sine", 2, initialiser="x"), "'x'"),
        (lambda: PolyNet(0), "degree=0"),
        (lambda: PolyNet(2, "glorott"), "'glorott'; did you mean 'glorot'"),
        (lambda: DisjointPolyNet(-1), "degree=-1"),
        (lambda: DisjointPolyNet(2, "one"), "'one'; did you mean 'ones'"),
        (lambda: ParityTransformer(embedding=0), "embedding=0"),
        (lambda: ParityTransformer(heads=0), "heads=0"),
        (lambda: ParityTransformer(attention=-8), "attention=-8"),
        (lambda: ParityTransformer(hidden=0), "hidden=0"),
        (lambda: ParityTransformer(initialiser="kaiming"), "'kaiming'"),
        (lambda: DeepQuadratic(()), r"one hidden layer; got \(\)"),
        (lambda: DeepQuadratic((3, 0)), "a width=0|width.*got.*0"),
        (lambda: Mlp(5, initialiser="symmetric"), "even width; got width=5"),
        (lambda: Mlp(4, initialiser="symmetric", output_bias=True), "symmetric start"),
        (lambda: configuration("xvi", 3), "'xvi'; did you mean"),
        (lambda: configuration("i", 0), "k=0"),
    ],
)
def test_bad_values_are_refused_with_what_was_given(build, echo):
    with pytest.raises(KroghError, match=echo):
        build()


@pytest.mark.parametrize(
    ("build", "echo"),
    [
        (lambda: Mlp(2.5), "width=2.5"),
        (lambda: Mlp("ten"), "width='ten'"),
        (lambda: Mlp(True), "width=True"),
        (lambda: PolyNet(None), "degree=None"),
        (lambda: Neuron("sine", 2, scale="two"), "scale='two'"),
    ],
)
def test_values_of_a_wrong_kind_are_refused(build, echo):
    jaxtyping.config.update("jaxtyping_disable", True)  # as a user sees it, without the checks of the tests
    try:
        with pytest.raises(KroghError, match=echo):
            build()
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


# The source's configurations.

WAVES = ("zigzag", "polynomial", "infinite-zigzag", "sine")
TABLE = {
    **{name: lambda k, r=r: Mlp(r) for name, r in (("i", 10), ("ii", 100), ("iii", 1000))},
    **{name: lambda k, r=r: Mlp(r, "power", k) for name, r in (("iv", 10), ("v", 100), ("vi", 1000))},
    **{f: lambda k, w=w: Neuron(w, k) for f, w in zip(("vii", "viii", "ix", "x"), WAVES, strict=True)},
    **{f: lambda k, w=w: Neuron(w, k, False) for f, w in zip(("xi", "xii", "xiii", "xiv"), WAVES, strict=True)},
    "xv": lambda k: PolyNet(k),
    "*i": lambda k: Mlp(k, output_bias=True),
    "*ii": lambda k: Mlp(k, "power", k),
    "*iii": lambda k: ParityTransformer(embedding=1024, heads=128, attention=8, hidden=None),
}


def test_every_configuration_of_the_source_is_there():
    assert set(CONFIGURATIONS) == set(TABLE) and len(TABLE) == 18


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_configuration_is_what_the_source_says(name, k):
    model = configuration(f"({name})", k)
    assert model == TABLE[name](k) == configuration(name, k)
    assert configuration(name, k, "gaussian").initialiser == "gaussian"
    assert model.obstacle(Parity(n=8, k=k)) is None
    assert configuration_title(f"({name})") == configuration_title(name)


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_configuration_runs(name):
    model, task, x = configuration(name, 3), Parity(n=12, k=3), signs(12, 4)
    model.check(task)
    shapes = jax.eval_shape(lambda: model.init(KEY, task))
    if name == "*iii":  # at full size by its shapes only
        assert shapes["W1"].shape == (4096, 1024) and shapes["Q"].shape == (128, 1024, 8)
        assert jax.eval_shape(lambda p: model.predict(p, jnp.asarray(x)), shapes).shape == (4,)
    else:
        assert np.isfinite(predict(model, some_params(model, task), x)).all()
