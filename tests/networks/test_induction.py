"""Induction heads by hand against counting in plain Python, and the source's numbers."""

from __future__ import annotations

import itertools
import math

import jax
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.handmade import construct
from krogh.networks.induction import head_frequencies, previous_attention, successor_attention
from krogh.theory.chains.floors import best_scale
from krogh.theory.numerics import double_precision

attention = jax.jit(lambda model, params, x: model.attention(params, x))


def attended(made, tokens):
    """The attention weights of a construction, in float64."""
    with double_precision():
        return np.asarray(attention(made.model, dict(made.parameters), tokens))


def every_sequence(k, length):
    return np.array(list(itertools.product(range(k), repeat=length)))


def chains(k, length, count, seed, unit=1.0):
    """Tokens [count, length] of flat Dirichlet chains from their stationary law, and the true row of the last."""
    random = np.random.default_rng(seed)
    P = random.dirichlet([unit] * k, (count, k))
    system = np.swapaxes(P, 1, 2) - np.eye(k)
    system[:, -1] = 1.0
    start = np.linalg.solve(system, np.broadcast_to(np.eye(k)[-1][:, None], (count, k, 1)))[..., 0]
    uniform, rows = random.uniform(size=(count, length)), np.arange(count)
    tokens, law = np.zeros((count, length), int), start
    for place in range(length):
        tokens[:, place] = np.minimum((uniform[:, place, None] > np.cumsum(law, axis=1)).sum(axis=1), k - 1)
        law = P[rows, tokens[:, place]]
    return tokens, law


def counted(sequence, k, order):
    """By hand: the frequencies of what followed the last order-1 symbols, or None where that never came before."""
    context = sequence[len(sequence) - order + 1 :]
    after = [
        sequence[place] for place in range(order - 1, len(sequence)) if sequence[place - order + 1 : place] == context
    ]
    return None if not after else [after.count(symbol) / len(after) for symbol in range(k)]


def limit_by_hand(sequence, k):
    """Proposition 8.2 as c → ∞: position 1 recalls itself, and where nothing agrees all positions count."""
    current = sequence[-1]
    agreeing = [s for j, s in enumerate(sequence) if (sequence[j - 1] if j else sequence[0]) == current]
    used = agreeing or list(sequence)
    return [used.count(symbol) / len(used) for symbol in range(k)]


# Proposition 8.2.


@pytest.mark.parametrize(("k", "length"), [(2, 8), (3, 6)])
def test_the_limit_is_counting_but_for_the_first_position(k, length):
    tokens = every_sequence(k, length)
    f = head_frequencies(tokens, k)
    for row, sequence in zip(f, tokens.tolist(), strict=True):
        for place in range(length):
            seen = sequence[: place + 1]
            np.testing.assert_allclose(row[place], limit_by_hand(seen, k), atol=1e-12)
            clean = counted(seen, k, 2)
            if clean is not None and seen[0] != seen[-1]:
                np.testing.assert_allclose(row[place], clean, atol=1e-12)


def test_the_network_is_at_the_limit_where_c_is_large_and_on_every_sequence():
    made = construct("chains/induction-head", k=2, length=9, c=200.0)
    tokens = every_sequence(2, 9)
    out = made.run(tokens)
    expected = [[limit_by_hand(row[: place + 1], 2) for place in range(9)] for row in tokens.tolist()]
    np.testing.assert_allclose(out, expected, atol=1e-12)


def test_finite_temperature_is_exact_in_loops():
    """Layer by layer for one sequence after the other, with no vectors at all."""
    k, length, c = 3, 7, 5.0
    made, tokens = construct("chains/induction-head", k=k, length=length, c=c), chains(3, 7, 20, 0)[0]
    near, sharp = math.exp(c / math.sqrt(3 * k)), c * c / math.sqrt(3 * k)
    for out, x in zip(made.run(tokens), tokens.tolist(), strict=True):
        for i in range(length):
            raised = []
            for j in range(i + 1):
                weight = [near if s == j - 1 else 1.0 for s in range(j + 1)]
                agrees = sum(w for s, w in enumerate(weight) if x[s] == x[i]) / sum(weight)
                raised.append(math.exp(sharp * agrees))
            expected = [sum(r for j, r in enumerate(raised) if x[j] == y) / sum(raised) for y in range(k)]
            np.testing.assert_allclose(out[i], expected, rtol=1e-10)


def test_the_first_layer_attends_to_the_previous_token_exactly_so_much():
    made = construct("chains/induction-head", k=3, length=12, c=9.0)
    tokens = chains(3, 12, 3, 1)[0]
    weights = attended(made, tokens)
    raised, places = math.exp(9.0 / math.sqrt(9)), np.arange(2, 13)
    expected = raised / (raised + places - 1)
    np.testing.assert_allclose(weights[0, :, 0, np.arange(1, 12), np.arange(11)], expected[:, None] + np.zeros(3))
    np.testing.assert_allclose(weights[1, :, 0], successor_attention(tokens, 3, 2, 1 / raised, 81 / 3), rtol=1e-10)


def test_deviations_from_the_limit_are_the_sources():
    """k = 3, 40 tokens: 0.18, 1e-3 and 3e-6 for c = 20, 40 and 60, those of a typical sequence; the worst have more."""
    tokens = chains(3, 40, 200, 2)[0]
    limit = head_frequencies(tokens, 3)
    for c, expected in ((20.0, 0.18), (40.0, 1e-3), (60.0, 3e-6)):
        out = construct("chains/induction-head", k=3, length=40, c=c).run(tokens)
        largest = np.abs(out - limit).max(axis=(1, 2))
        assert expected / 2 < np.median(largest) < 2 * expected and largest.max() < 8 * expected


REFERENCE = {2: (2.51, 0.0142), 3: (2.89, 0.0408), 4: (3.21, 0.0680)}


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_best_scale_of_frequencies_and_what_is_left_are_the_sources(k):
    tokens, truth = chains(k, 100, 4000, k)
    pairs = np.stack([head_frequencies(tokens[part : part + 250], k)[:, -1] for part in range(0, 4000, 250)])
    a, loss, _ = best_scale(pairs.reshape(-1, k), truth)
    assert a == pytest.approx(REFERENCE[k][0], abs=0.08)
    assert loss == pytest.approx(REFERENCE[k][1], rel=0.08)


def test_a_scale_and_a_shift_are_written_into_the_last_matrix():
    plain, scaled = (
        construct("chains/induction-head", k=3, length=8, c=30.0, **more) for more in ({}, {"a": 2.89, "b": -1.5})
    )
    tokens = chains(3, 8, 40, 3)[0]
    np.testing.assert_allclose(scaled.run(tokens), 2.89 * plain.run(tokens) - 1.5, rtol=1e-10)


# n-grams.


def test_two_grams_are_the_induction_head():
    one, other = construct("chains/induction-head", k=3, length=6), construct("chains/ngram-heads", n=2, k=3, length=6)
    assert one.model == other.model
    assert all(np.array_equal(one.parameters[name], other.parameters[name]) for name in one.parameters)


@pytest.mark.parametrize(("n", "k", "length"), [(3, 2, 9), (3, 3, 6), (4, 2, 9)])
def test_heads_for_n_grams_count_what_followed_the_context(n, k, length):
    """Exactly, wherever the context came before and no position of the beginning agrees as well by its averages."""
    made, tokens = construct("chains/ngram-heads", n=n, k=k, length=length, c=200.0), every_sequence(k, length)
    assert (made.model.heads, made.model.dimension) == (n - 1, (n - 1) ** 2 * k)
    out, ideal, clean = made.run(tokens), successor_attention(tokens, k, n), 0
    for row, weights, sequence in zip(out, ideal, tokens.tolist(), strict=True):
        for place in range(n - 1, length):
            expected = counted(sequence[: place + 1], k, n)
            if expected is not None and not weights[place, : n - 1].any():
                np.testing.assert_allclose(row[place], expected, atol=1e-9)
                clean += 1
    assert clean > 0.1 * tokens.size


def test_heads_recall_the_symbols_behind_them():
    made = construct("chains/ngram-heads", n=4, k=2, length=8, c=100.0)
    tokens = every_sequence(2, 8)[::9]
    weights = attended(made, tokens)
    for back in (1, 2, 3):
        expected = np.broadcast_to(previous_attention(8, back), weights[0, :, 0].shape)
        np.testing.assert_allclose(weights[0, :, back - 1], expected, atol=1e-12)
    np.testing.assert_allclose(weights[1, :, 2], successor_attention(tokens, 2, 4), atol=1e-9)


# The minimal model.


def test_minimal_weights_count_exactly_on_every_sequence_and_at_every_position():
    tokens = every_sequence(3, 6)
    pairs = construct("chains/minimal-bigram", k=3, length=6).run(tokens)
    single = construct("chains/minimal-unigram", k=3, length=6).run(tokens)
    for row, sequence in enumerate(tokens.tolist()):
        for place in range(6):
            seen = sequence[: place + 1]
            assert single[row, place].tolist() == [seen.count(symbol) for symbol in range(3)]
            after = [later for earlier, later in itertools.pairwise(seen) if earlier == seen[-1]]
            assert pairs[row, place].tolist() == [after.count(symbol) for symbol in range(3)]


MINIMAL = {
    ("bigram", 2): (0.038, 0.0232),
    ("bigram", 3): (0.062, 0.0647),
    ("bigram", 4): (0.093, 0.0963),
    ("unigram", 2): (0.024, 0.0900),
    ("unigram", 3): (0.028, 0.171),
}


@pytest.mark.parametrize(("kind", "k"), MINIMAL)
def test_the_best_scale_of_counts_and_the_floor_are_the_sources(kind, k):
    tokens, truth = chains(k, 100, 4000, 10 + k)
    symbols = np.eye(k)[tokens]
    after = (tokens[:, :-1] == tokens[:, -1:])[:, :, None] * symbols[:, 1:]
    s, loss, _ = best_scale((after if kind == "bigram" else symbols).sum(axis=1), truth)
    assert s == pytest.approx(MINIMAL[kind, k][0], rel=0.08)
    assert loss == pytest.approx(MINIMAL[kind, k][1], rel=0.08)


def test_bad_settings_are_refused():
    for name, settings, echo in (
        ("induction-head", {"k": 1}, "k must be an integer at least 2; got k=1"),
        ("induction-head", {"k": 2, "length": 1}, "length=1"),
        ("induction-head", {"k": 2, "c": 0.0}, "c must be a number greater than 0; got c=0.0"),
        ("induction-head", {"k": 2, "a": math.inf}, "a=inf"),
        ("ngram-heads", {"n": 1}, "n must be an integer at least 2; got n=1"),
        ("ngram-heads", {"n": 5, "length": 4}, "order=5, length=4"),
        ("minimal-bigram", {"k": 2, "scale": 0.0}, "scale must be a finite number other than 0; got scale=0.0"),
        ("minimal-unigram", {"k": 0}, "k=0"),
    ):
        with pytest.raises(KroghError, match=echo):
            construct(f"chains/{name}", **settings)
