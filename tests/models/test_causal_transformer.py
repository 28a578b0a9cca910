"""The causal transformer: formula in loops, variants, attention, positional encoding, dropout, how it is drawn."""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import in_double, random_params

from krogh.errors import KroghError
from krogh.models import CausalTransformer
from krogh.models.parts import lagged
from krogh.tasks import GroupComposition, MarkovChains, Parity

KEY = jax.random.key(5)
TASK = MarkovChains(k=3, length=6)
QUICK = {"xla_backend_optimization_level": 0}  # compiling costs more here than running

predict = jax.jit(lambda model, params, x: model.predict(params, x), compiler_options=QUICK)
scores = jax.jit(lambda model, params, x: model.scores(params, x), compiler_options=QUICK)
attention = jax.jit(lambda model, params, x: model.attention(params, x), compiler_options=QUICK)
positional = jax.jit(lambda model, params, x: model.positional(params), compiler_options=QUICK)
forward = jax.jit(lambda model, params, x, noise: model.forward(params, x, noise), compiler_options=QUICK)

VARIANTS = {
    "plain": CausalTransformer.plain(dimension=4),
    "one layer": CausalTransformer(dimension=4, layers=1),
    "three heads": CausalTransformer(dimension=6, heads=3),
    "absolute": CausalTransformer(dimension=4, positions="absolute"),
    "no positions": CausalTransformer(dimension=4, positions="none", mlp=True),
    "everything": CausalTransformer.paper(dimension=6, layers=3, heads=2, mlp=True),
}


def naive_norm(z, scale, shift):
    centred = z - z.mean()
    return centred / math.sqrt((centred**2).mean() + 1e-5) * scale + shift


def naive_causal_transformer(model, p, x):
    """Equations 8.4 and 8.5 for one sequence, in loops; also the scores and weights by layer, head and position."""
    length, a = len(x), model.dimension // model.heads
    z = [p["E"][symbol] + (p["p"][i] if model.positions == "absolute" else 0.0) for i, symbol in enumerate(x)]
    shape = (model.layers, model.heads, length, length)
    every_score, every_weight = np.full(shape, -np.inf), np.zeros(shape)
    for layer in range(model.layers):
        read = [naive_norm(row, p["g1"][layer], p["h1"][layer]) if model.norm else row for row in z]
        added = []
        for i in range(length):
            heads = []
            for h in range(model.heads):
                own = slice(h * a, (h + 1) * a)
                query = (read[i] @ p["Q"][layer])[own]
                for j in range(i + 1):
                    key = (read[j] @ p["K"][layer])[own]
                    if model.positions == "relative":
                        key = key + p["v"][layer][i - j][own]  # the source's v_{i-j+1}, counted from 1
                    every_score[layer, h, i, j] = query @ key / math.sqrt(a)
                raised = np.exp(every_score[layer, h, i, : i + 1])
                weights = raised / raised.sum()
                every_weight[layer, h, i, : i + 1] = weights
                heads.append(sum(w * (read[j] @ p["V"][layer])[own] for j, w in enumerate(weights)))
            mixed = np.concatenate(heads)
            added.append(mixed @ p["O"][layer] if model.output else mixed)
        z = [row + more for row, more in zip(z, added, strict=True)]
        if model.mlp:
            for i, row in enumerate(z):
                inner = naive_norm(row, p["g2"][layer], p["h2"][layer]) if model.norm else row
                hidden = [h * 0.5 * (1 + math.erf(h / math.sqrt(2))) for h in inner @ p["W1"][layer] + p["b1"][layer]]
                z[i] = row + np.array(hidden) @ p["W2"][layer] + p["b2"][layer]
    last = [naive_norm(row, p["g3"], p["h3"]) if model.norm else row for row in z]
    return np.array([row @ p["P"] for row in last]), every_score, every_weight


def some_x(size=4, length=6, k=3):
    return np.random.default_rng(2).integers(0, k, (size, length)).astype(np.int32)


@pytest.mark.parametrize("name", VARIANTS)
def test_predictions_scores_and_attention_follow_the_formula(name):
    model, x = VARIANTS[name], some_x()
    model.check(TASK)
    params = random_params(TASK, model)
    expected = [naive_causal_transformer(model, params, row) for row in x]
    found = in_double(predict, model, params, x)
    np.testing.assert_allclose(found, [one[0] for one in expected], rtol=1e-10, atol=1e-11)
    for function, place in ((scores, 1), (attention, 2)):
        by_layer = in_double(function, model, params, x)
        assert by_layer.shape == (model.layers, 4, model.heads, 6, 6)
        np.testing.assert_allclose(by_layer, np.stack([one[place] for one in expected], axis=1), rtol=1e-10, atol=1e-12)


def test_shorter_sequences_are_read_with_the_first_relative_vectors():
    model, x = VARIANTS["plain"], some_x(length=4)
    params = random_params(TASK, model)
    expected = [naive_causal_transformer(model, params, row)[0] for row in x]
    np.testing.assert_allclose(in_double(predict, model, params, x), expected, rtol=1e-10, atol=1e-11)


def test_the_source_has_4800_parameters():
    task = MarkovChains(k=2, length=100)
    shapes = jax.eval_shape(lambda: CausalTransformer.plain().init(KEY, task))
    assert {name: leaf.shape for name, leaf in shapes.items()} == {
        "E": (2, 16),
        "P": (16, 2),
        **dict.fromkeys("QKV", (2, 16, 16)),
        "v": (2, 100, 16),
    }
    assert sum(math.prod(leaf.shape) for leaf in shapes.values()) == 4800


def test_vectors_lie_by_their_distance():
    v = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(np.float32)
    out = np.asarray(lagged(jnp.asarray(v)))
    assert out.shape == (5, 5, 2, 3)
    for i in range(5):
        for j in range(5):
            assert np.array_equal(out[i, j], v[i - j] if j <= i else np.zeros((2, 3)))


@pytest.mark.parametrize("name", ["three heads", "everything"])
def test_the_positional_encoding_is_what_queries_see_of_distances(name):
    model = VARIANTS[name]
    params, a = random_params(TASK, model), model.dimension // model.heads
    found = in_double(positional, model, params, None)
    assert found.shape == (model.layers, model.heads, 3, 6)
    for layer in range(model.layers):
        for h in range(model.heads):
            own = slice(h * a, (h + 1) * a)
            for symbol in range(3):
                e = params["E"][symbol]
                e = naive_norm(e, params["g1"][layer], params["h1"][layer]) if model.norm else e
                by_distance = [(e @ params["Q"][layer])[own] @ v[own] / math.sqrt(a) for v in params["v"][layer]]
                expected = np.exp(by_distance) / np.exp(by_distance).sum()
                np.testing.assert_allclose(found[layer, h, symbol], expected, rtol=1e-10)
    with pytest.raises(KroghError, match=r"positions='absolute' .try positions='relative'"):
        in_double(positional, VARIANTS["absolute"], params, None)


def test_attention_can_be_changed_layer_by_layer():
    model, x = VARIANTS["three heads"], some_x()
    params = random_params(TASK, model, np.float32)
    out, own = np.asarray(predict(model, params, x)), np.asarray(attention(model, params, x))
    elsewhere = np.broadcast_to(np.eye(6, dtype=np.float32), own[0].shape)

    @partial(jax.jit, static_argnums=0, compiler_options=QUICK)
    def changed(layers, params, weights):
        return model.predict_attending(params, x, {layer: partial(_instead, weights[layer]) for layer in layers})

    np.testing.assert_allclose(changed((0, 1), params, own), out, atol=1e-5)
    np.testing.assert_allclose(changed((0,), params, own), out, atol=1e-5)
    only_itself = np.asarray(changed((0, 1), params, np.stack([elsewhere] * 2)), np.float64)
    stream = params["E"].astype(np.float64)[x]
    for layer in range(2):
        stream = stream + stream @ params["V"][layer].astype(np.float64)
    np.testing.assert_allclose(only_itself, stream @ params["P"].astype(np.float64), atol=1e-5)
    with pytest.raises(KroghError, match=r"the layers are 0..1; got attention for \[2\]"):
        changed((2,), params, np.stack([elsewhere] * 3))


def _instead(given, found):
    return given


class EveryPair(CausalTransformer):
    """Whose first layer is never had by counting."""

    def _counts(self, params, x):
        return False


@pytest.mark.parametrize("fields", [{}, {"heads": 2}, {"positions": "none"}, {"norm": True, "layers": 1, "mlp": True}])
@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_counting_pairs_of_symbols_is_attending_to_every_position(fields, factor):
    task, x = MarkovChains(k=2, length=9), some_x(5, 9, 2)
    model, other = (kind(dimension=4, **fields) for kind in (CausalTransformer, EveryPair))
    params = {name: factor * leaf for name, leaf in random_params(task, model).items()}
    shapes = jax.tree.map(jnp.asarray, params)
    assert model._counts(shapes, x) and not model._counts(shapes, x[:, :3])

    @partial(jax.jit, compiler_options=QUICK)
    def both(model, params, x):
        return jax.value_and_grad(lambda params: jnp.mean(jnp.sin(model.forward(params, x, jnp.uint32(0)))))(params)

    with jax.enable_x64(True):
        (value, slopes), (expected, wanted) = (both(one, params, x) for one in (model, other))
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    for name, slope in slopes.items():
        np.testing.assert_allclose(slope, wanted[name], rtol=1e-9, atol=1e-11 * np.abs(wanted[name]).max())


def test_counting_says_nothing_rather_than_something_wrong():
    """A late symbol that its score brings back: float32 has lost its count."""
    x = np.array([[1, 0, 0, 0, 0, 0]], np.int32)
    model = CausalTransformer(dimension=2, layers=1)
    params = jax.tree.map(np.array, model.init(KEY, MarkovChains(k=2, length=6)))
    params |= {"E": np.eye(2, dtype=np.float32), "Q": 200 * np.eye(2, dtype=np.float32)[None]}
    params |= {"K": np.array([[[0, 0], [10, 0]]], np.float32), "v": np.zeros((1, 6, 2), np.float32)}
    params["v"][0, 0, 0] = 9.0  # the token itself, but the other symbol more than that
    assert attention(model, params, x)[0, 0, 0, -1, 0] > 0.99
    assert np.isfinite(predict(model, params, x)).all() and np.isnan(forward(model, params, x, np.uint32(0))).any()
    params["K"] = np.zeros_like(params["K"])
    np.testing.assert_allclose(forward(model, params, x, np.uint32(0)), predict(model, params, x), atol=1e-6)


def test_large_scores_stay_finite():
    model, x = VARIANTS["everything"], some_x()
    params = random_params(TASK, model, np.float32)
    params["Q"] *= np.float32(1e4)
    assert np.isfinite(predict(model, params, x)).all()


def test_presets_are_those_of_the_source():
    assert CausalTransformer.plain(dimension=8) == CausalTransformer(dimension=8)
    paper = CausalTransformer.paper(heads=2, dropout=0.1)
    assert paper == CausalTransformer(heads=2, dropout=0.1, norm=True, output=True, spread=0.02, output_spread=0.01)
    assert CausalTransformer() == CausalTransformer(16, 2, 1, "relative", False, False, False, 0.0, None, None)
    task = MarkovChains(k=3, length=50)
    for model, spreads in (
        (CausalTransformer.plain(dimension=16), dict.fromkeys("EPQKVv", 0.25)),
        (CausalTransformer.paper(mlp=True), {**dict.fromkeys(("W1", "W2", *"EPQKVv"), 0.02), "O": 0.01}),
        (CausalTransformer(positions="absolute", spread=3.0), dict.fromkeys("EPQKVp", 3.0)),
    ):
        params = jax.tree.map(np.asarray, jax.jit(lambda model=model: model.init(KEY, task), compiler_options=QUICK)())
        for name, leaf in params.items():
            if name in spreads:
                assert leaf.std() == pytest.approx(spreads[name], rel=4.5 / math.sqrt(2 * leaf.size)), name
            else:
                assert np.all(leaf == (1 if name.startswith("g") else 0)), name
        assert set(spreads) <= set(params)


def test_decay_is_for_matrices_alone():
    """Neither embeddings nor relative vectors, norms and biases (Appendix E.2)."""
    assert CausalTransformer.plain().matrices == ("Q", "K", "V", "P")
    model = CausalTransformer.paper(mlp=True)
    shapes = jax.eval_shape(lambda: model.init(KEY, TASK))
    assert set(shapes) - set(model.matrices) == {"E", "v", "b1", "b2", "g1", "h1", "g2", "h2", "g3", "h3"}
    assert set(model.matrices) <= set(shapes)


def test_dropout_drops_its_share_and_knows_an_example_by_its_place_alone():
    task = MarkovChains(k=3, length=40)
    model = CausalTransformer.paper(dimension=16, dropout=0.3)
    params, x = random_params(task, model, np.float32, scale=0.3), some_x(64, 40)
    assert model.noisy and not CausalTransformer.paper().noisy
    out = np.asarray(forward(model, params, x, jnp.uint32(1)))
    assert np.array_equal(forward(model, params, x, jnp.uint32(1)), out)
    assert not np.array_equal(forward(model, params, x, jnp.uint32(2)), out)
    np.testing.assert_allclose(forward(model, params, x[:5], jnp.uint32(1)), out[:5], atol=1e-5)
    assert np.abs(out[0] - forward(model, params, x[[1, 0]], jnp.uint32(1))[1]).max() > 1e-3, (
        "another place, other masks"
    )
    ones = jnp.ones((64, 40, 16), jnp.float32)
    masks = [np.asarray(model._dropped(ones, jnp.uint32(7), kind, layer)) for layer in range(2) for kind in range(5)]
    for place, mask in enumerate(masks):
        assert set(np.unique(mask)) == {0.0, np.float32(1 / 0.7)}
        assert (mask == 0).mean() == pytest.approx(0.3, abs=4.5 * math.sqrt(0.21 / mask.size))
        assert all(0.3 < np.mean(mask == other) < 0.7 for other in masks[:place]), "masks of their own"


def test_dropout_reaches_embeddings_attention_relative_vectors_and_what_is_added():
    dropped = []

    class Watched(CausalTransformer):
        def _dropped(self, given, noise, kind, layer):
            dropped.append((kind, given.shape))
            return super()._dropped(given, noise, kind, layer)

    model = Watched.paper(dimension=8, layers=1, mlp=True, dropout=0.5)
    params = random_params(TASK, model, np.float32)
    jax.eval_shape(model.forward, params, some_x(), jnp.uint32(0))
    stream = (4, 6, 8)
    assert sorted(dropped) == [(0, stream), (1, (4, 1, 6, 6)), (2, (6, 8)), (3, stream), (4, stream)]


def test_gradients_are_finite_and_reach_every_parameter():
    model, x = CausalTransformer.paper(dimension=4, layers=1, heads=2, mlp=True), jnp.asarray(some_x())
    params = random_params(TASK, model, np.float32)
    slope = jax.jit(jax.grad(lambda p: jnp.mean(model.predict(p, x) ** 2)), compiler_options=QUICK)(params)
    for name, leaf in slope.items():
        assert np.isfinite(leaf).all() and np.abs(leaf).max() > 1e-7, name


def test_bad_values_and_tasks_are_refused():
    for build, echo in (
        (lambda: CausalTransformer(dimension=0), "dimension=0"),
        (lambda: CausalTransformer(layers=0), "layers=0"),
        (lambda: CausalTransformer(heads=0), "heads=0"),
        (
            lambda: CausalTransformer(dimension=16, heads=3),
            "heads must divide the dimension 16; got heads=3 .try heads=2, or dimension=15",
        ),
        (lambda: CausalTransformer(dimension=4, heads=9), "got heads=9 .try heads=4, or dimension=9"),
        (lambda: CausalTransformer(positions="relativ"), "'relativ'; did you mean 'relative'"),
        (lambda: CausalTransformer(dropout=1.0), "dropout=1.0"),
        (lambda: CausalTransformer(spread=0.0), "spread is a standard deviation above 0; got spread=0.0"),
        (lambda: CausalTransformer(output_spread=0.1), "output_spread=0.1 is for W_O.*try output=True"),
        (lambda: CausalTransformer().check(Parity(n=8, k=2)), "reads sequences of symbols.*got the task 'parity'"),
        (lambda: CausalTransformer().check(GroupComposition("Z_5")), "got the task 'composition'.*'markov-chains'"),
    ):
        with pytest.raises(KroghError, match=echo):
            build()
