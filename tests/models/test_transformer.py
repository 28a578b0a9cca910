"""The sparse Transformer against NumPy, token by token, with dropout and without; its masks as random numbers."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf, softmax

from krogh.errors import KroghError
from krogh.models import SparseTransformer
from krogh.models.parts import kept
from krogh.models.transformer import ATTENTION, EMBEDDING, HIDDEN, MATRICES, MIXED
from krogh.tasks import Parity, SparseBoolean
from krogh.tasks.bits import mixed

SIZE, N, D, HEADS = 5, 7, 12, 3
TASK = Parity(n=N, k=2)
NOISE = jnp.uint32(123456789)


def drawn(model, n=N, spread=0.5, seed=0):
    """Parameters of a trained network's size, none of them constant."""
    first = jax.eval_shape(lambda: model.init(jax.random.key(0), Parity(n=n, k=2)))
    random = np.random.default_rng(seed)
    return {name: jnp.asarray(spread * random.standard_normal(leaf.shape), jnp.float32) for name, leaf in first.items()}


def signs(size=SIZE, n=N, seed=1):
    return jnp.asarray(np.random.default_rng(seed).choice([-1.0, 1.0], (size, n)), jnp.float32)


def norm(p, which, z):
    centred = z - z.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + 1e-5) * p[f"g{which}"] + p[f"h{which}"]


def oracle(model, params, x, masks=None):
    """The network as the source draws it: every token a vector, every head a loop. Returns logits and attention.

    `masks` are dropout's: embeddings [batch, T+1, d], attention [heads, batch, T+1], outputs [batch, d] twice.
    """
    p = {name: np.asarray(leaf, np.float64) for name, leaf in params.items()}
    d, k = model.embedding, model.embedding // model.heads
    logits, attention = [], []
    for place, row in enumerate(np.asarray(x)):
        ids = [1 if sign < 0 else 0 for sign in row] + [2]
        z = np.stack([p["E"][token] + p["P"][t] for t, token in enumerate(ids)])
        z = z if masks is None else z * masks[EMBEDDING][place]
        u = norm(p, "1", z)
        query, key, value = (u @ p[f"W{c}"].T + p[f"b{c}"] for c in "qkv")
        mixed, weights = np.zeros(d), []
        for head in range(model.heads):
            own = slice(head * k, (head + 1) * k)
            weight = softmax(key[:, own] @ query[-1, own] / math.sqrt(k))
            weights.append(weight)
            mixed[own] = (weight if masks is None else weight * masks[ATTENTION][head, place]) @ value[:, own]
        output = p["Wo"] @ mixed + p["bo"]
        a = z[-1] + (output if masks is None else output * masks[MIXED][place])
        inner = p["W1"] @ norm(p, "2", a) + p["b1"]
        output = p["W2"] @ (inner * (1 + erf(inner / math.sqrt(2))) / 2) + p["b2"]
        y = a + (output if masks is None else output * masks[HIDDEN][place])
        logits.append((p["E"][:2] if model.tied else p["U"]) @ norm(p, "3", y))
        attention.append(weights)
    return np.array(logits), np.array(attention)


def masks_of(model, noise=NOISE, size=SIZE, n=N):
    d = model.embedding
    shapes = {EMBEDDING: (size, n + 1, d), ATTENTION: (model.heads, size, n + 1), MIXED: (size, d), HIDDEN: (size, d)}
    rates = {EMBEDDING: model.embedding_dropout}
    order = {ATTENTION: (1, 0, 2)}  # counted example by example
    return {
        at: np.asarray(kept(noise, at, shape, rates.get(at, model.dropout), order.get(at)))
        for at, shape in shapes.items()
    }


MODELS = {
    "plain": SparseTransformer(D, HEADS, 0.0, 0.0),
    "tied": SparseTransformer(D, HEADS, 0.0, 0.0, tied=True),
}


@pytest.mark.parametrize("name", MODELS)
def test_tables_tokens_and_numpy_agree_without_dropout(name):
    model = MODELS[name]
    params, x = drawn(model), signs()
    logits, _ = oracle(model, params, x)
    expected = logits[:, 1] - logits[:, 0]

    @jax.jit
    def both(params, x):
        tokens = model._read(params, model._from_tokens(params, x, NOISE), None)
        return model.predict(params, x), tokens, model.forward(params, x, NOISE)

    for found in both(params, x):
        np.testing.assert_allclose(found, expected, atol=2e-4)
    assert np.ptp(expected) > 0.05


@pytest.mark.slow
@pytest.mark.parametrize("rates", [(0.3, 0.0), (0.0, 0.3), (0.3, 0.2)], ids=str)
def test_dropout_acts_where_the_source_says(rates):
    """On embeddings, attention probabilities (after the softmax) and both outputs of the block; never in `predict`."""
    model = SparseTransformer(D, HEADS, *rates)
    params, x = drawn(model), signs()
    found = jax.jit(model.forward)(params, x, NOISE)
    logits, _ = oracle(model, params, x, masks_of(model))
    np.testing.assert_allclose(found, logits[:, 1] - logits[:, 0], atol=3e-4)
    certain = jax.jit(model.predict)(params, x)
    logits, _ = oracle(model, params, x)
    np.testing.assert_allclose(certain, logits[:, 1] - logits[:, 0], atol=2e-4)
    assert np.abs(np.asarray(found - certain)).min() > 1e-4


def test_dropout_on_tables_is_dropout_on_tokens():
    model = SparseTransformer(D, HEADS, 0.4, 0.0)
    params, x = drawn(model), signs()
    short, long = jax.jit(lambda p, x: (model._from_tables(p, x, NOISE), model._from_tokens(p, x, NOISE)))(params, x)
    np.testing.assert_allclose(short, long, atol=1e-4)


@pytest.mark.parametrize("embedding_dropout", [0.0, 0.2])
def test_an_example_s_noise_does_not_depend_on_how_many_follow(embedding_dropout):
    """A full batch has room for the cohort's largest sample: the mask of an example may not feel the filling."""
    model = SparseTransformer(D, HEADS, 0.3, embedding_dropout)
    params, x = drawn(model), signs(9)
    forward = jax.jit(model.forward)
    np.testing.assert_allclose(forward(params, x[:4], NOISE), forward(params, x, NOISE)[:4], atol=1e-5)


def test_attention_sums_to_one_and_is_numpy_s():
    model = SparseTransformer(D, HEADS, 0.1, 0.1)
    params, x = drawn(model), signs()
    found = np.asarray(jax.jit(model.attention)(params, x))
    assert found.shape == (SIZE, HEADS, N + 1)
    np.testing.assert_allclose(found.sum(axis=2), 1.0, atol=1e-6)
    np.testing.assert_allclose(found, oracle(model, params, x)[1], atol=1e-5)
    assert found.max() > 2 / (N + 1)


@pytest.mark.parametrize("spread", [pytest.param(60.0, marks=pytest.mark.slow), 200.0])
def test_scores_may_lie_far_apart(spread):
    """A shift of scores serves many inputs: one whose tokens all score far below the best must not vanish.

    The token 1 is made to score high wherever it stands, so that the input without one is left with the low scores.
    The slopes are those of a softmax over tokens, which is what a vanishing dropout on embeddings computes.
    """
    model, by_tokens = SparseTransformer(4, 1, 0.0, 0.0), SparseTransformer(4, 1, 0.0, 1e-12)
    predict, tables = jax.jit(model.predict), jax.jit(model._tables)
    slopes = jax.jit(jax.grad(lambda p, x: jnp.sum(model.predict(p, x))))
    exact = jax.jit(jax.grad(lambda p, x: jnp.sum(by_tokens.forward(p, x, NOISE))))
    x = jnp.asarray(list(itertools.product((-1, 1), repeat=3)), jnp.float32)
    gaps = []
    for seed in range(6):
        params = drawn(model, n=3, seed=seed)
        params |= {"P": 0.1 * params["P"], "bk": jnp.zeros(4), "h1": jnp.zeros(4)}
        params |= {"E": params["E"].at[0].set(-params["E"][1])}
        score, own, _, _ = (np.asarray(part) for part in tables(params))
        scale = np.float32(math.sqrt(spread / np.ptp(np.append(score, own))))
        params |= {name: params[name] * scale for name in ("Wq", "bq", "Wk", "bk")}
        score, own, _, _ = (np.asarray(part, np.float64) for part in tables(params))
        least = min(max(score[0].max(), own[0]), max(score[1].max(), own[0]))  # of the inputs 000 and 111
        gaps.append(max(score.max(), own[0]) - least)
        logits, _ = oracle(model, params, x)
        np.testing.assert_allclose(predict(params, x), logits[:, 1] - logits[:, 0], atol=5e-3)
        found, expected = slopes(params, x), exact(params, x)
        for name, slope in expected.items():
            np.testing.assert_allclose(found[name], slope, atol=1e-2 * float(jnp.max(jnp.abs(slope))) + 1e-4)
    assert max(gaps) > spread / 3, "some input is far from the best token"


@pytest.mark.slow
def test_scores_too_far_apart_leave_no_infinity():
    """Beyond what the levels cover an input attends to nothing; its slopes must not spoil the others'."""
    model = SparseTransformer(4, 1, 0.0, 0.0)
    x = jnp.asarray(list(itertools.product((-1, 1), repeat=3)), jnp.float32)
    for seed in range(6):
        params = drawn(model, n=3, seed=seed)
        params |= {name: 40 * params[name] for name in ("Wq", "bq", "Wk", "bk")}
        value, slopes = jax.value_and_grad(lambda p: jnp.sum(model.predict(p, x)))(params)
        assert np.isfinite(float(value))
        assert all(np.isfinite(np.asarray(leaf)).all() for leaf in slopes.values())


# --- parameters ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "d"), [(100, 64), (25, 16)])
def test_the_number_of_parameters(length, d):
    model = SparseTransformer(embedding=d, heads=4)
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), SparseBoolean(length, 3, table="and")))
    count = sum(math.prod(leaf.shape) for leaf in params.values())
    assert count == 3 * d + (length + 1) * d + 12 * d**2 + 9 * d + 6 * d + 2 * d
    assert count == {(100, 64): 56_896}.get((length, d), count)
    assert set(MATRICES) <= set(params) and all(len(params[name].shape) == 2 for name in MATRICES)


def test_first_weights_are_small_normals_and_biases_begin_at_zero():
    model = SparseTransformer()
    params = jax.tree.map(np.asarray, jax.jit(lambda: model.init(jax.random.key(3), Parity(n=50, k=2)))())
    for name in ("E", "P", *MATRICES):
        leaf = params[name].ravel()
        assert abs(leaf.std() / 0.02 - 1) < 5 / math.sqrt(2 * leaf.size), name
        assert abs(leaf.mean()) < 5 * 0.02 / math.sqrt(leaf.size), name
    assert all(not params[name].any() for name in params if name[0] in "bh")
    assert all((params[name] == 1).all() for name in ("g1", "g2", "g3"))
    drawn = np.concatenate([params[name].ravel() for name in ("E", "P", *MATRICES)])
    assert len(np.unique(drawn)) > 0.99 * drawn.size, "no part is drawn twice"


def slopes(model):
    params, x = drawn(model), signs()
    return jax.tree.map(np.asarray, jax.jit(jax.grad(lambda p: jnp.sum(model.forward(p, x, NOISE) ** 2)))(params))


@pytest.mark.parametrize("embedding_dropout", [0.0, pytest.param(0.1, marks=pytest.mark.slow)])
def test_fixed_positions_get_no_gradient_and_everything_else_does(embedding_dropout):
    fixed = slopes(SparseTransformer(D, HEADS, 0.1, embedding_dropout, fixed_positions=True))
    trained = slopes(SparseTransformer(D, HEADS, 0.1, embedding_dropout))
    assert not fixed.pop("P").any() and (np.abs(trained.pop("P")).max(axis=1) > 0).all()
    for name in trained:
        np.testing.assert_allclose(fixed[name], trained[name], atol=1e-5)
        assert name == "bk" or np.abs(trained[name]).max() > 1e-4, name


@pytest.mark.slow
def test_a_tied_readout_trains_the_embedding():
    """The read-out's part of the gradient of E: without it E_1 - E_0 would be pulled by the inputs alone."""
    model = MODELS["tied"]
    params, x = drawn(model), signs()
    assert "U" not in params
    untied = {**params, "U": params["E"][:2]}
    both = jax.jit(jax.grad(lambda p: jnp.sum(model.predict(p, x))))(params)["E"]
    apart = jax.jit(jax.grad(lambda p: jnp.sum(MODELS["plain"].predict(p, x))))(untied)
    expected = np.asarray(apart["E"]) + np.concatenate([np.asarray(apart["U"]), np.zeros((1, D))])
    np.testing.assert_allclose(both, expected, atol=1e-3, rtol=1e-4)
    assert np.abs(np.asarray(apart["U"])).max() > 0.1


# --- masks as random numbers ---------------------------------------------------------------------------------


def dropped(noise, place, shape, rate):
    return np.asarray(kept(jnp.uint32(noise), place, shape, rate)) == 0


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9])
def test_masks_have_their_rate_and_keep_the_expectation(rate):
    mask = np.asarray(kept(NOISE, 2, (400, 500), rate), np.float64)
    assert set(np.unique(mask)) <= {0.0, float(np.float32(1 / (1 - rate)))}
    assert abs(np.mean(mask == 0) - rate) <= 5 * math.sqrt(rate * (1 - rate) / mask.size)
    assert abs(mask.mean() - 1) <= 5 * math.sqrt(rate / (1 - rate) / mask.size)


def correlation(a, b):
    """Of two masks' zeros, in standard errors."""
    a, b = a.ravel() - a.mean(), b.ravel() - b.mean()
    return float(a @ b / np.sqrt((a @ a) * (b @ b)) * math.sqrt(a.size))


def test_masks_of_other_steps_places_heads_examples_and_tokens_are_independent():
    shape = (16, 32, 33)  # heads, examples, tokens
    # The words of a run's first steps, as the engine makes them, and two that differ from the first in one bit.
    words = [int(mixed(jnp.uint32(99) ^ mixed(jnp.uint32(step)))) for step in range(8)]
    words += [words[0] ^ 1, words[0] ^ 2**31]
    by_step = [dropped(word, ATTENTION, shape, 0.1) for word in words]
    by_place = [dropped(words[0], place, shape, 0.1) for place in (EMBEDDING, MIXED, HIDDEN)]
    masks = by_step + by_place
    scores = [correlation(masks[i], masks[j]) for i in range(len(masks)) for j in range(i)]
    mask = by_step[0]
    for axis in range(3):  # neighbours along every axis, near and far
        for lag in (1, 2, 3, 8):
            ahead, behind = range(lag, shape[axis]), range(shape[axis] - lag)
            scores.append(correlation(np.take(mask, ahead, axis), np.take(mask, behind, axis)))
    assert np.abs(scores).max() < 5.0, "no pair stands out"
    assert 0.8 < np.std(scores) < 1.25, "and all scatter as chance has it"
    for axis in range(3):  # counts along an axis are binomial: their variance is neither too small nor too large
        counts = mask.sum(axis=axis)
        expected = shape[axis] * 0.1 * 0.9
        assert abs(counts.var() / expected - 1) < 6 * math.sqrt(2 / counts.size)


def test_the_mean_over_noise_of_an_output_is_the_output():
    """With dropout on the block's last output alone the network is linear in the mask up to the last norm."""
    model = SparseTransformer(D, HEADS, 0.25, 0.0)
    params, x = drawn(model), signs()
    ones = jnp.ones((SIZE, D), jnp.float32)
    words = jnp.asarray(np.random.default_rng(3).integers(0, 2**32, 4000, dtype=np.uint32))
    masked = np.asarray(jax.vmap(lambda noise: model._dropped(ones, noise, MIXED))(words))
    deviation = (masked.mean(axis=0) - 1) / math.sqrt(0.25 / 0.75 / len(words))
    assert np.abs(deviation).max() < 5
    attended = np.asarray(jax.jit(jax.vmap(lambda noise: model._from_tables(params, x, noise)))(words), np.float64)
    certain = np.asarray(jax.jit(lambda p: model._from_tables(p, x, None))(params))
    scatter = attended.std(axis=0) / math.sqrt(len(words))
    assert scatter.min() > 0 and np.abs((attended.mean(axis=0) - certain) / scatter).max() < 5


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
@pytest.mark.parametrize("name", ["dropout", "embedding_dropout"])
def test_a_rate_is_a_share(name, rate):
    with pytest.raises(KroghError, match=rf"{name} is a share in \[0, 1\)"):
        SparseTransformer(**{name: rate})


def test_heads_divide_the_embedding():
    with pytest.raises(KroghError, match=r"heads must divide embedding=64; got heads=10 \(try heads=8\)"):
        SparseTransformer(heads=10)
