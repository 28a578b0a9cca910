"""The witnesses of the lower bounds: the span of the samples, and what few heads show."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory.tokens.limits import feedforward_floor, head_floor
from krogh.theory.tokens.witnesses import (
    accessible_functionals,
    average_oracle_risk,
    few_heads,
    head_label,
    head_mmse,
    head_prediction,
    head_risk,
    oracle_risk,
    span_basis,
    span_coverage,
    span_residual,
    worst_oracle_risk,
)


def unit(vector):
    return vector / np.linalg.norm(vector)


def samples(n, length, dimension, seed=0):
    return np.random.default_rng(seed).standard_normal((n, length * dimension))


def oracle_prediction(v, u, x, indices):
    """E[<u, x_t> | t, Vx] = <V P_t u, V x>, the predictor whose risk is the oracle's."""
    seen = np.einsum("kti,i->tk", v.reshape(len(v), -1, len(u)), u)
    return np.einsum("bk,bk->b", x @ v.T, seen[indices])


@pytest.mark.parametrize(("length", "dimension", "n", "expected"), [(10, 3, 12, 0.6), (20, 4, 40, 0.5), (3, 2, 9, 0)])
def test_projector_identity(length, dimension, n, expected):
    basis = span_basis(samples(n, length, dimension))
    # mean over t and over a basis of directions, written out: independent of `span_coverage`
    terms = []
    for t, axis in itertools.product(range(length), range(dimension)):
        placed = np.zeros(length * dimension)
        placed[t * dimension + axis] = 1
        terms.append(1 - np.sum((basis @ placed) ** 2))
    assert np.mean(terms) == pytest.approx(expected, abs=1e-12)
    assert average_oracle_risk(basis, dimension) == pytest.approx(expected, abs=1e-12)
    assert feedforward_floor(n, length, dimension)["floor"] == pytest.approx(expected, abs=1e-12)


def test_basis_is_orthonormal_and_spans_the_samples_even_repeated_ones():
    x = samples(5, 4, 3)
    basis = span_basis(np.concatenate([x, x[:2] + 3 * x[3:]]))
    assert basis.shape == (5, 12)
    np.testing.assert_allclose(basis @ basis.T, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(x @ basis.T @ basis, x, atol=1e-12)


def test_span_residual():
    x = samples(6, 5, 2)
    basis, rng = span_basis(x), np.random.default_rng(1)
    inside = rng.standard_normal((4, 6)) @ x
    outside = rng.standard_normal((4, 10))
    outside -= outside @ basis.T @ basis
    assert span_residual(inside, basis) < 1e-25
    assert span_residual(outside, basis) == pytest.approx(1)
    expected = (outside**2).sum() / ((inside**2).sum() + (outside**2).sum())
    assert span_residual(inside + outside, basis) == pytest.approx(expected)


def test_gradient_descent_with_weight_decay_ends_in_the_span():
    rng, n, length, dimension, decay, rate = np.random.default_rng(2), 6, 4, 3, 0.5, 0.05
    x, y = samples(n, length, dimension), rng.standard_normal(n)
    w, a = 0.5 * rng.standard_normal((8, 12)), rng.standard_normal(8) / 8
    basis, residuals = span_basis(x), []
    for _ in range(400):
        hidden = np.tanh(x @ w.T)
        slope = 2 * (hidden @ a - y)[:, None] * a[None, :] * (1 - hidden**2) / n
        residuals.append(span_residual(w, basis))
        w = w - rate * (slope.T @ x + decay * w)
    assert residuals[0] > 0.3 and residuals[-1] < 1e-6


def test_oracle_prediction_has_the_oracle_risk_and_nothing_that_sees_the_span_beats_it():
    length, dimension, n, fresh = 4, 3, 5, 60_000
    basis = span_basis(samples(n, length, dimension))
    rng = np.random.default_rng(3)
    u = unit(rng.standard_normal(dimension))
    x, t = rng.standard_normal((fresh, length * dimension)), rng.integers(length, size=fresh)
    y = np.einsum("bi,i->b", x.reshape(fresh, length, dimension)[np.arange(fresh), t], u)
    guess = oracle_prediction(basis, u, x, t)
    error = (y - guess) ** 2
    assert error.mean() == pytest.approx(oracle_risk(basis, u), abs=4 * error.std() / math.sqrt(fresh))
    seen = x @ basis.T
    fitted = np.zeros(fresh)
    for index in range(length):  # least squares on a sample as large as the test: linear and quadratic features
        rows = t == index
        features = np.concatenate([seen[rows], seen[rows] ** 2, np.ones((rows.sum(), 1))], axis=1)
        half = rows.sum() // 2
        weights, *_ = np.linalg.lstsq(features[:half], y[rows][:half], rcond=None)
        fitted[np.flatnonzero(rows)[half:]] = features[half:] @ weights
        fitted[np.flatnonzero(rows)[:half]] = guess[rows][:half]
    assert ((y - fitted) ** 2).mean() >= error.mean() - 1e-9
    assert ((y - 1.1 * guess) ** 2).mean() > error.mean()


def test_average_and_worst_risk_over_directions():
    basis, rng = span_basis(samples(7, 5, 4)), np.random.default_rng(4)
    directions = [unit(v) for v in rng.standard_normal((20_000, 4))]
    coverage = span_coverage(basis, 4)
    risks = np.array([1 - u @ coverage @ u for u in directions])
    assert risks[0] == pytest.approx(oracle_risk(basis, directions[0]))
    worst, where = worst_oracle_risk(basis, 4)
    assert risks.mean() == pytest.approx(average_oracle_risk(basis, 4), abs=4 * risks.std() / math.sqrt(len(risks)))
    assert oracle_risk(basis, where) == pytest.approx(worst) and worst > average_oracle_risk(basis, 4)
    assert risks.max() <= worst + 1e-12 and risks.max() == pytest.approx(worst, abs=0.01)


@pytest.mark.parametrize(("heads", "published"), [(1, 0.749), (2, 0.498), (3, 0.250)])
def test_monte_carlo_floor_of_few_heads(heads, published):
    q, d, prompts = 4, 8, 40_000
    rng = np.random.default_rng(heads)
    functionals = accessible_functionals(rng.random((heads, q)), d)
    assert functionals.shape == (heads * d, q * d)
    x = rng.standard_normal((prompts, q, d))
    error = (head_label(x) - head_prediction(functionals, x)) ** 2
    bar = 4 * error.std() / math.sqrt(prompts) / 2
    assert error.mean() / 2 == pytest.approx(head_risk(functionals), abs=bar)
    assert error.mean() / 2 == pytest.approx(published, abs=bar + 0.002)
    assert head_risk(functionals) == pytest.approx(head_floor(q, d, heads)["floor_separated"], abs=1e-12)
    assert head_label(x).var() == pytest.approx(2, rel=0.05)


def test_scalar_tokens_as_in_proposition_21():
    functionals = accessible_functionals(np.random.default_rng(8).random((2, 5)), 1)
    assert functionals.shape == (2, 5) and head_risk(functionals) == pytest.approx(1 - 2 / 5)
    repeated = accessible_functionals(np.ones((3, 5)), 1)
    assert head_risk(repeated) == pytest.approx(1 - 1 / 5), "heads that attend alike count once"


@pytest.mark.parametrize("reads", [False, True])
def test_the_floors_of_few_heads_are_attained(reads):
    found = few_heads(4, 8, 2, reads, prompts=20_000, seed=1)
    floors = head_floor(4, 8, 2)
    assert found["least_risk"] == pytest.approx(floors["floor_sharper" if reads else "floor_separated"])
    assert found["simulated"] == pytest.approx(found["least_risk"], abs=4 * found["standard_error"])
    assert found["functionals"] == (4 * 8 - 2 * 6 if reads else 2 * 8)


def test_no_estimator_beats_the_least_mean_squared_error():
    q, d, prompts = 3, 4, 40_000
    rng = np.random.default_rng(5)
    functionals = accessible_functionals(rng.random((2, q)), d)
    x = rng.standard_normal((prompts, q, d))
    seen, y = x.reshape(prompts, -1) @ functionals.T, head_label(x)
    pairs = [seen[:, i] * seen[:, j] for i in range(8) for j in range(i, 8)]
    features = np.stack([np.ones(prompts), *seen.T, *pairs, np.linalg.norm(seen, axis=1)], axis=1)
    half = prompts // 2
    weights, *_ = np.linalg.lstsq(features[:half], y[:half], rcond=None)
    learned = ((y[half:] - features[half:] @ weights) ** 2).mean()
    best = ((y[half:] - head_prediction(functionals, x[half:])) ** 2).mean()
    assert best <= learned < 1.05 * best
    assert best == pytest.approx(head_mmse(functionals), rel=0.05)


@pytest.mark.parametrize(("q", "d", "heads"), [(4, 8, 1), (4, 8, 3), (5, 5, 2), (3, 7, 3), (6, 3, 4)])
def test_scores_that_read_tokens_show_all_but_a_product_of_complements(q, d, heads):
    rng = np.random.default_rng(6)
    functionals = accessible_functionals(rng.random((heads, q)), d, rng.standard_normal((heads, d)))
    hidden = max(0, q - heads) * max(0, d - heads)
    assert len(functionals) == q * d - hidden <= heads * (q + d)
    floors = head_floor(q, d, heads)
    assert head_risk(functionals) == pytest.approx(floors["floor_sharper"], abs=1e-12)
    assert floors["floor"] <= floors["floor_sharper"] <= floors["floor_separated"]


def test_attention_that_reads_tokens_cannot_tell_apart_what_the_functionals_do_not_show():
    q, d, heads, draws = 4, 6, 2, 40_000
    rng = np.random.default_rng(7)
    w, bias, x = rng.standard_normal((heads, d)), rng.standard_normal((heads, q)), rng.standard_normal((q, d))

    def attend(tokens):  # softmax over the relevant tokens, of scores that read each token
        scores = np.exp(np.einsum("hi,...ji->...hj", w, tokens) + bias)
        return scores / scores.sum(axis=-1, keepdims=True)

    shown = accessible_functionals(attend(x), d, w)
    rest = rng.standard_normal((draws, q * d))
    others = (rest - rest @ shown.T @ shown + (x.ravel() @ shown.T @ shown)[None, :]).reshape(draws, q, d)
    np.testing.assert_allclose(attend(others[:50]), np.broadcast_to(attend(x), (50, heads, q)), atol=1e-12)
    np.testing.assert_allclose(
        np.einsum("bhj,bji->bhi", attend(others[:50]), others[:50]),
        np.broadcast_to(attend(x) @ x, (50, heads, d)),
        atol=1e-12,
    )
    assert head_label(others).var() / 2 == pytest.approx(head_floor(q, d, heads)["floor_sharper"], rel=0.05)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: oracle_risk(np.eye(6)[:2], [1.0, 1.0]), "norm 1; got shape"),
        (lambda: average_oracle_risk(np.eye(6)[:2], 4), "6 columns, which dimension=4 does not divide"),
        (lambda: span_residual(np.zeros((2, 6)), np.eye(6)[:2]), "all zero"),
        (lambda: span_residual(np.ones((2, 5)), np.eye(6)[:2]), "weights must have 6 columns; got 5"),
        (lambda: span_basis(np.ones(3)), r"vectors must be a matrix .* got shape \(3,\)"),
        (lambda: accessible_functionals(np.ones((1, 2)), 3, np.ones((1, 2))), "score_directions must have 3 columns"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
