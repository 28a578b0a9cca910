"""Lipschitz inequalities of attention as properties of random and adversarial draws: left below right, and near it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory.attention import lipschitz as al
from krogh.theory.numerics import spectral_norm, token_norm, unit_ball

DRAWS = 1200
SLACK = 1 + 1e-9


def draw_weights(rng, d, k, scale=1.0):
    shapes = {"query": (d, k), "key": (d, k), "value": (d, k), "output": (k, d)}
    return al.Weights(**{name: scale * rng.standard_normal(shape) for name, shape in shapes.items()})


def shifted(rng, weights, sizes):
    """Each matrix moved by a random direction of the given size (0 leaves it)."""
    names = ("query", "key", "value", "output")
    old = [getattr(weights, name) for name in names]
    return al.Weights(*[w + size * rng.standard_normal(w.shape) for w, size in zip(old, sizes, strict=True)])


def draw_tokens(rng, length, d):
    """Tokens of norm at most 1, some on the sphere, some tiny."""
    raw = rng.standard_normal((length, d))
    return unit_ball(raw * rng.choice([0.05, 0.5, 5.0]))


def draws(seed, count=DRAWS):
    """Random layers with scalings from tiny to huge, so that softmaxes are flat, soft and saturated."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        length, d, k = rng.integers(1, 7), rng.integers(1, 5), rng.integers(1, 4)
        yield rng, draw_tokens(rng, length, d), draw_weights(rng, d, k, 10.0 ** rng.uniform(-2, 1))


def attention_by_hand(z, w):
    """One row at a time, from the formula with W_K W_Q^T."""
    out = []
    for query in z:
        scores = [math.fsum(row @ w.key @ w.query.T * query) for row in z]
        e = [math.exp(s - max(scores)) for s in scores]
        out.append(sum(p * (w.value.T @ row) for p, row in zip(e, z, strict=True)) / sum(e))
    return np.array(out)


def test_layers_against_rows_written_out():
    for rng, z, w in draws(0, 30):
        np.testing.assert_allclose(al.attention(z, w), attention_by_hand(z, w), atol=1e-10)
        mid = [row / max(1, np.linalg.norm(row)) for row in attention_by_hand(z, w)]
        out = [np.maximum(row, 0) @ w.output for row in mid]
        expected = [row / max(1, np.linalg.norm(row)) for row in out]
        np.testing.assert_allclose(al.block(z, w), expected, atol=1e-10)
        readout = rng.standard_normal(z.shape[1])
        twice = al.block(np.array(expected), w)
        assert al.network(z, [w, w], readout) == pytest.approx(readout @ twice[-1], abs=1e-9)


def test_general_head_contains_the_transformer_head():
    for _, z, w in draws(1, 30):
        out = al.general_head(
            z, z[-1], lambda x, c, w=w: x @ w.key @ (w.query.T @ c), lambda x, w=w: x @ w.value, np.tanh
        )
        np.testing.assert_allclose(out, np.tanh(al.attention(z, w)[-1]), atol=1e-12)


def test_softmax_jacobian_is_the_derivative_and_its_norm_is_at_most_two():
    rng = np.random.default_rng(2)
    worst = 0.0
    for _ in range(300):
        z = rng.standard_normal(rng.integers(1, 40)) * 10.0 ** rng.uniform(-2, 2)
        p, jacobian = al.softmax(z), al.softmax_jacobian(z)
        norm = np.abs(jacobian).sum()
        assert norm == pytest.approx(2 * (p * (1 - p)).sum(), abs=1e-12) and norm <= al.SOFTMAX_JACOBIAN
        worst = max(worst, norm)
    assert worst > 1.9
    z = rng.standard_normal(4)
    for i, e in enumerate(np.eye(4)):
        slope = (al.softmax(z + 1e-6 * e) - al.softmax(z - 1e-6 * e)) / 2e-6
        np.testing.assert_allclose(al.softmax_jacobian(z)[:, i], slope, atol=1e-9)


def test_softmax_moves_at_most_as_the_corollary_says():
    """Corollary A.7; the ratio to ||a - b||_inf never exceeds 1, half of what the corollary allows, and nears it."""
    rng, worst = np.random.default_rng(3), 0.0
    for _ in range(3000):
        size = rng.integers(1, 30)
        a = rng.standard_normal(size) * 10.0 ** rng.uniform(-1, 2)
        kind = rng.integers(3)
        step = rng.standard_normal(size) if kind == 0 else rng.choice([-1.0, 1.0], size) if kind == 1 else -a
        b = a + 10.0 ** rng.uniform(-4, 1) * step
        moved, bound = np.abs(al.softmax(a) - al.softmax(b)).sum(), al.softmax_bound(a, b)
        assert moved <= bound / 2 * SLACK + 1e-15
        worst = max(worst, moved / bound) if bound else worst
    a, step = np.zeros(2), np.array([1e-4, -1e-4])
    worst = max(worst, np.abs(al.softmax(a + step) - al.softmax(a)).sum() / al.softmax_bound(a + step, a))
    assert 0.499 < worst <= 0.5 * SLACK


def test_general_head_moves_at_most_as_the_lemma_says():
    """Lemma 4.7 with a softmax and with a different normalisation, and with s(y) = 2 tanh(y)."""
    ratios = []
    for rng, x, w in draws(4):
        x = x * 10.0 ** rng.uniform(-1, 1)
        new = shifted(rng, w, 10.0 ** rng.uniform(-3, 0.5, size=4) * rng.integers(0, 2, size=4))
        context = rng.standard_normal(x.shape[1])
        outs, scores, inputs = [], [], []
        for one in (w, new):
            score = x @ one.query_key.T @ context
            scores.append(score)
            inputs.append(x @ one.value)
            outs.append(
                al.general_head(
                    x,
                    context,
                    lambda t, c, one=one: t @ one.query_key.T @ c,
                    lambda t, one=one: t @ one.value,
                    lambda y: 2 * np.tanh(y),
                )
            )
        bound = al.head_bound(
            scores[0] - scores[1],
            inputs[0] - inputs[1],
            input_bound=float(spectral_norm(w.value)),
            token_bound=float(token_norm(x)),
            out_lipschitz=2.0,
        )
        change = np.linalg.norm(outs[0] - outs[1])
        assert change <= bound * SLACK + 1e-12
        ratios.append(change / bound if bound > 0 else 0.0)
    assert max(ratios) > 0.8


def test_weights_move_attention_at_most_as_the_lemma_says():
    """Lemma A.13."""
    ratios, scores_only = [], []
    for rng, z, w in draws(5):
        which = rng.integers(3)
        sizes = 10.0 ** rng.uniform(-3, 1, size=4) * np.array([which != 1, which != 1, which != 0, 0])
        new = shifted(rng, w, sizes)
        change = float(token_norm(al.attention(z, w) - al.attention(z, new)))
        bound = al.attention_weight_bound(z, w, new)
        assert change <= bound * SLACK + 1e-12
        ratios.append(change / bound if bound > 0 else 0.0)
        if which == 0 and bound > 0:
            scores_only.append(ratios[-1])
    assert max(ratios) > 0.9, "the bound would be idle if nothing came near it"
    z = np.array([[1.0], [-1.0]])  # two opposite tokens attain the softmax's own ratio of one half
    old, new = (al.Weights(np.array([[q]]), np.eye(1), np.eye(1), np.eye(1)) for q in (0.0, 1e-4))
    change, bound = token_norm(al.attention(z, old) - al.attention(z, new)), al.attention_weight_bound(z, old, new)
    assert 0.499 < change / bound <= 0.5 * SLACK and max(scores_only) <= 0.5 * SLACK


def test_inputs_move_attention_at_most_as_the_lemma_says():
    """Lemma A.14."""
    ratios = []
    for rng, z, w in draws(6):
        step = (
            rng.standard_normal(z.shape) if rng.integers(2) else np.tile(rng.standard_normal(z.shape[1]), (len(z), 1))
        )
        moved = unit_ball(z + 10.0 ** rng.uniform(-3, 1) * step)
        change = float(token_norm(al.attention(z, w) - al.attention(moved, w)))
        bound = al.attention_input_bound(z, moved, w)
        assert change <= bound * SLACK + 1e-12
        ratios.append(change / bound if bound > 0 else 0.0)
    assert max(ratios) > 0.75
    steep = al.Weights(np.array([[-30.0]]), np.eye(1), np.eye(1), np.eye(1))
    z = np.array([[0.3], [0.25]])
    change = token_norm(al.attention(z, steep) - al.attention(z[::-1], steep))
    assert change <= al.attention_input_bound(z, z[::-1], steep)


@pytest.mark.parametrize(("activation", "lipschitz"), [(al.relu, 1.0), (lambda v: 3 * np.sin(v), 3.0)])
def test_blocks_move_at_most_as_the_lemma_says(activation, lipschitz):
    """Lemma A.15, for inputs and all four matrices moving together."""
    ratios = []
    for rng, z, w in draws(7):
        sizes = 10.0 ** rng.uniform(-3, 0.5, size=4) * rng.integers(0, 2, size=4)
        new = shifted(rng, w, sizes)
        moved = unit_ball(z + 10.0 ** rng.uniform(-3, 0) * rng.integers(0, 2) * rng.standard_normal(z.shape))
        change = float(token_norm(al.block(z, w, activation) - al.block(moved, new, activation)))
        bound = al.block_bound(z, moved, w, new, activation, lipschitz)
        assert change <= bound * SLACK + 1e-12
        ratios.append(change / bound if bound > 0 else 0.0)
    assert max(ratios) > 0.9


def test_networks_move_at_most_as_the_unrolled_lemmas_say():
    """Lemmas A.15 and A.16 through one to three blocks."""
    rng, ratios = np.random.default_rng(8), []
    for _ in range(DRAWS):
        length, d, k, depth = rng.integers(1, 6), rng.integers(1, 4), rng.integers(1, 4), rng.integers(1, 4)
        z = draw_tokens(rng, length, d)
        old = [draw_weights(rng, d, k, 10.0 ** rng.uniform(-1, 0.5)) for _ in range(depth)]
        new = [shifted(rng, w, 10.0 ** rng.uniform(-4, 0, size=4) * rng.integers(0, 2, size=4)) for w in old]
        a, b = rng.standard_normal(d), rng.standard_normal(d)
        b = a if rng.integers(2) else b
        change = abs(al.network(z, old, a) - al.network(z, new, b))
        bound = al.network_bound(z, old, new, a, b)
        assert change <= bound * SLACK + 1e-12
        ratios.append(change / bound if bound > 0 else 0.0)
    assert max(ratios) > 0.7


def test_an_early_change_is_stretched_by_later_layers():
    """prod_{j>i}: with a second layer of gain 10, a change in layer 1 exceeds what prod_{j<i} = 1 would allow."""
    one, none = np.eye(1), np.zeros((1, 1))
    first = al.Weights(none, none, one, one)
    moved = al.Weights(none, none, 1.1 * one, one)
    second = al.Weights(none, none, one, 10 * one)
    z = np.array([[0.05]])
    change = al.network(z, [first, second], np.ones(1)) - al.network(z, [moved, second], np.ones(1))
    in_layer = al.block_bound(z, z, first, moved)
    assert abs(change) == pytest.approx(10 * in_layer)
    assert al.network_bound(z, [first, second], [moved, second], np.ones(1), np.ones(1)) == pytest.approx(10 * in_layer)


def test_gain_is_the_product_of_the_lemma():
    w = draw_weights(np.random.default_rng(9), 4, 3)
    s = lambda m: np.linalg.svd(m)[1][0]  # noqa: E731
    assert w.gain(2.0) == pytest.approx(2 * s(w.output) * s(w.value) * (1 + 4 * s(w.key @ w.query.T)))


def test_tokens_beyond_the_unit_ball_are_refused():
    w = draw_weights(np.random.default_rng(0), 2, 2)
    with pytest.raises(KroghError, match="norm at most 1; got one of norm 2 \\(project with unit_ball\\)"):
        al.attention_weight_bound(np.array([[2.0, 0.0]]), w, w)
    with pytest.raises(KroghError, match="need one depth; got 1 and 2"):
        al.network_bound(np.zeros((1, 2)), [w], [w, w], np.ones(2), np.ones(2))
