"""Floors of sums of functions of single tokens: exact search over them, least squares, enumeration, Monte Carlo."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.optimize
from scipy.sparse import csr_array

from krogh.errors import KroghError
from krogh.theory.recurrence.additive import (
    blip_law,
    parity_floor,
    single_blip_floor,
    square_floor,
    square_target_floor,
    token_square_floor,
)

MARGIN = 1.0


def all_strings(length):
    return np.array(list(itertools.product((0, 1), repeat=length)))


def least_errors(strings, labels):
    """Fewest rows that an additive F gets wrong, by an exact mixed-integer program.

    F(w) = β + Σ α_i w_i is every additive function of bits; a row not wrong is beyond ±MARGIN, which scaling gives. A
    bound of 4^L on the coefficients suffices for half-spaces of so few bits.
    """
    rows, length = strings.shape
    large = 4.0**length
    signs = np.where(labels > 0.5, 1.0, -1.0)
    features = signs[:, None] * np.concatenate([np.ones((rows, 1)), strings], axis=1)
    matrix = np.concatenate([features, (large * (length + 1) + MARGIN) * np.eye(rows)], axis=1)
    found = scipy.optimize.milp(
        np.concatenate([np.zeros(length + 1), np.ones(rows)]),
        constraints=scipy.optimize.LinearConstraint(csr_array(matrix), lb=MARGIN),
        bounds=scipy.optimize.Bounds([-large] * (length + 1) + [0] * rows, [large] * (length + 1) + [1] * rows),
        integrality=[0] * (length + 1) + [1] * rows,
    )
    assert found.success
    return round(found.fun)


def least_errors_by_patterns(strings, labels):
    """The same from all half-spaces of the cube: each set of accepted strings is tried by a linear program."""
    distinct = all_strings(strings.shape[1])
    place = {tuple(row): at for at, row in enumerate(distinct)}
    at = np.array([place[tuple(row)] for row in strings])
    features = np.concatenate([np.ones((len(distinct), 1)), distinct], axis=1)
    best = len(labels)
    for pattern in itertools.product((0, 1), repeat=len(distinct)):
        accepted = np.array(pattern)
        wrong = int(np.sum(accepted[at] != labels))
        if wrong >= best:
            continue
        signed = np.where(accepted == 1, 1.0, -1.0)[:, None] * features
        feasible = scipy.optimize.linprog(
            np.zeros(features.shape[1]), A_ub=-signed, b_ub=-np.ones(len(distinct)), bounds=(None, None)
        )
        if feasible.status == 0:
            best = wrong
    return best


def fvu(strings, labels):
    features = np.concatenate([np.ones((len(strings), 1)), strings], axis=1)
    fitted = features @ np.linalg.lstsq(features, labels, rcond=None)[0]
    return float(np.mean((labels - fitted) ** 2) / np.var(labels))


@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_single_blip_floor_by_exact_search(length):
    strings, labels = blip_law(length)
    found = single_blip_floor(length)
    assert least_errors(strings, labels) / len(labels) == found["error_floor"] == found["witness_error"]


@pytest.mark.parametrize("length", [2, 3])
def test_the_search_agrees_with_all_patterns(length):
    for strings, labels in (blip_law(length), (all_strings(length), all_strings(length).sum(axis=1) % 2)):
        assert least_errors(strings, labels) == least_errors_by_patterns(strings, labels)


@pytest.mark.parametrize("length", [2, 3, 6, 20])
def test_single_blip_law_and_least_squares(length):
    strings, labels = blip_law(length)
    found = single_blip_floor(length)
    assert len(strings) == 4 * (length - 1) and np.mean(strings.sum(axis=1) == 0) == 0.25
    assert np.array_equal(labels, strings.sum(axis=1) == 1)
    assert fvu(strings, labels) == pytest.approx(found["fvu"]) and np.var(labels) == found["mean_square"]
    # uniform over distinct strings the same F errs on one of them alone
    distinct = np.unique(strings, axis=0)
    assert len(distinct) == 2 * length
    wrong = (2 - distinct.sum(axis=1) > 0.5) != (distinct.sum(axis=1) == 1)
    assert np.mean(wrong) == pytest.approx(found["distinct_error"])


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_parity_floor_by_exact_search(length):
    strings = all_strings(length)
    labels = strings.sum(axis=1) % 2
    found = parity_floor(length)
    assert least_errors(strings, labels) / len(labels) == pytest.approx(found["error_floor"])


@pytest.mark.parametrize("length", [1, 2, 3, 8])
def test_parity_is_uncorrelated_with_sums(length):
    strings = all_strings(length)
    labels = (strings.sum(axis=1) % 2).astype(float)
    found = parity_floor(length)
    assert fvu(strings, labels) == pytest.approx(found["fvu"], abs=1e-12)
    correlations = np.corrcoef(np.concatenate([strings.T, labels[None]]))[-1, :-1]
    np.testing.assert_allclose(correlations, found["correlation"], atol=1e-12)


def test_parity_floor_is_attained_by_a_threshold_on_the_number_of_ones():
    for length in (2, 7, 10, 11):
        ones = np.arange(length + 1)
        weights = np.array([math.comb(length, k) for k in ones]) / 2**length
        errors = [
            float(np.sum(weights * (accept != ones % 2)))
            for cut in range(length + 2)
            for accept in (ones >= cut, ones < cut)
        ]
        assert min(errors) == pytest.approx(parity_floor(length)["error_floor"])
    large = parity_floor(10**6)["advantage"]
    assert large * math.sqrt(2 * math.pi * 10**6) == pytest.approx(1, rel=1e-3)


def test_square_floor_by_enumeration():
    """Three independent variables on few values each, with means: regression on all functions of single ones."""
    values = [np.array([0.0, 1.0, 3.0]), np.array([-1.0, 2.0]), np.array([-0.5, 0.0, 0.25, 2.0])]
    chances = [np.array([0.5, 0.2, 0.3]), np.array([0.7, 0.3]), np.array([0.1, 0.4, 0.3, 0.2])]
    grid = np.array(list(itertools.product(*(range(len(v)) for v in values))))
    weight = np.prod([c[grid[:, i]] for i, c in enumerate(chances)], axis=0)
    target = sum(v[grid[:, i]] for i, v in enumerate(values)) ** 2
    lookups = np.concatenate([np.eye(len(v))[grid[:, i]] for i, v in enumerate(values)], axis=1)
    root = np.sqrt(weight)
    fitted = lookups @ np.linalg.lstsq(root[:, None] * lookups, root * target, rcond=None)[0]
    mean = np.sum(weight * target)
    expected = np.sum(weight * (target - fitted) ** 2) / np.sum(weight * (target - mean) ** 2)
    means = np.array([np.sum(c * v) for c, v in zip(chances, values, strict=True)])
    central = [
        np.array([np.sum(c * (v - m) ** p) for c, v, m in zip(chances, values, means, strict=True)]) for p in (2, 3, 4)
    ]
    variances, third, fourth = central
    assert square_floor(variances, fourth - 3 * variances**2, means, third) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("dx", [2, 3, 5])
def test_square_floor_of_tokens_by_monte_carlo(dx):
    rng = np.random.default_rng(dx)
    blocks = rng.standard_normal((3, dx - 1))
    g = rng.standard_normal((400_000, 3, dx - 1))
    tokens = math.sqrt(0.75) * g / np.linalg.norm(g, axis=-1, keepdims=True)
    u = np.einsum("nld,ld->nl", tokens, blocks)
    target = u.sum(axis=1) ** 2
    # means are 0, so the best sum of functions of single ones is Σ u_i²
    residual = target - (u**2).sum(axis=1)
    found = token_square_floor(np.linalg.norm(blocks, axis=1), dx)
    assert np.var(residual) / np.var(target) == pytest.approx(found, rel=0.02)
    assert square_target_floor(dx, tuple(np.linalg.norm(blocks, axis=1)))["floor"] == found


def test_square_floor_limits():
    assert token_square_floor([1.0], 3) == 0 and token_square_floor([1.0], 2) == 0, "one token is additive"
    assert token_square_floor([0.3, 0.4], 2) == 1, "products of signs have no additive part"
    assert square_target_floor(3, (1.0,) * 3)["equal"] == pytest.approx(8 / 9)
    many = [token_square_floor(np.ones(n), 3) for n in (2, 10, 1000)]
    assert many[0] < many[1] < many[2] < 1 and many[2] > 0.999


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: single_blip_floor(1), "length must be an integer at least 2; got length=1"),
        (lambda: parity_floor(0), "length must be an integer at least 1"),
        (lambda: square_floor([0.0, 0.0], [0.0, 0.0]), "variances are at least 0, and not all 0"),
        (lambda: square_floor([1.0, 1.0], [0.0]), "one number per u_i"),
        (lambda: token_square_floor([1.0], 1), "dx must be an integer at least 2"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
