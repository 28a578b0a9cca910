"""Two steps on two priors: limits, background and the balanced start, against the exact descent and known numbers."""

from __future__ import annotations

import itertools
import math

import chain_oracles as oracle
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory import predict
from krogh.theory.chains.curriculum import (
    background,
    balanced_start,
    limit_positions,
    limit_weight,
    two_steps,
)
from krogh.theory.chains.steps import A, B


def test_the_limit_of_w_is_the_mean_that_it_stands_for():
    """(1/8) Σ_n E λ^{n+1} = (1/8) E λ/(1-λ) with λ ~ U(-2ε, 2ε)."""
    for eps in (1e-4, 0.1, 0.25, 0.45):
        points, weights = np.polynomial.legendre.leggauss(200)
        lam = 2 * eps * points
        assert math.isclose(limit_weight(eps), float(weights / 2 @ (lam / (1 - lam))) / 8, rel_tol=1e-6)
    assert math.isclose(limit_weight(0.01), 0.01**2 / 6, rel_tol=1e-3)
    assert math.isclose(limit_weight(0.999e-3), limit_weight(1.001e-3), rel_tol=0.01)


def test_the_numbers_of_the_reference():
    found = predict("chains/curriculum", t=200, eps=0.1)
    assert abs(found["W_diagonal"] - 0.001701) < 1e-6 and abs(found["W_limit"] - 0.001708) < 1e-6
    leading = found["v_background"][0] * 0.1**2 / (6 * limit_weight(0.1))  # in ε, as the reference has it
    assert abs(found["v"][0] - 3.50e-5) < 1e-7 and abs(leading - 3.43e-5) < 1e-7
    assert abs(found["v"][1] - 9.46e-5) < 1e-7 and abs(found["v_limit"][1] - 5.67e-5) < 1e-7


@pytest.mark.slow
def test_the_numbers_of_the_balanced_start():
    balanced = predict("chains/curriculum", t=400, eps=0.25, w_init="balanced")
    assert abs(balanced["v"][1] - 3.64e-4) < 1e-6 and abs(balanced["v_limit"][1] - 3.54e-4) < 1e-6
    assert abs(balanced["v4_to_v2"] - 0.149) < 1e-3 and abs(balanced["v4_to_v2_limit"] - 0.15) < 1e-9
    assert abs(balanced["background_ratio"] - 0.060) < 1e-3


@pytest.mark.parametrize(("start", "expected"), [("1", [16, 27]), ("0", [1.5, 1.7]), ("balanced", [0.18, 0.12])])
def test_the_background_adds_up_unless_the_start_is_balanced(start, expected):
    for t, ratio in zip((50, 100), expected, strict=True):
        found = predict("chains/curriculum", t=t, w_init=start)
        assert abs(found["background_ratio"] - ratio) < 0.05 * ratio
        assert found["largest_v"] == 2
        assert abs(found["W_off_diagonal"]) < 0.01 * found["W_diagonal"]


@pytest.mark.parametrize("eps", [0.1, 0.4])
@pytest.mark.parametrize("start", [1.0, 0.0, "balanced"])
def test_limits_are_approached_like_one_over_t(eps, start):
    w_init = balanced_start(1.0, 6.0) if start == "balanced" else start
    off, gap, errors = w_init + A, B - A, []
    for t in (50, 100, 200):
        W, v = two_steps(t, w_init, 1.0, 6.0, 1.0, eps)[2]
        main = limit_positions(eps, gap, 1.0, 8)
        apart = np.abs(v[:8] - main - background(t, eps, off, gap, 1.0)[:8]).max()
        errors.append((abs(W[0, 0] / limit_weight(eps) - 1), apart / main[1]))
    for first, second in itertools.pairwise(errors):
        assert second[0] < 0.6 * first[0]
        assert start == 1 or second[1] < 0.65 * first[1]
    assert errors[-1][1] < 0.08, "from 1 the corrections of gap and background have two signs, and cancel in part"
    odd = [abs(two_steps(t, w_init, 1.0, 6.0, 1.0, eps)[2][1][2]) for t in (50, 200)]
    assert odd[1] < 0.35 * odd[0], "odd entries fall like 1/t"


def test_with_a_balanced_start_logits_are_bigram_counts():
    """Up to a relative error of 12ε²/5 + O(1/t), on random inputs at the last position."""
    t, eps = 100, 0.1
    W, v = two_steps(t, balanced_start(1.0, 6.0), 1.0, 6.0, 1.0, eps)[2]
    random, errors = np.random.default_rng(0), []
    for _ in range(5):
        x = random.integers(0, 2, t)
        f = oracle.plain_logits(W, v, x)[-1] / (W[0, 0] * v[1])
        counts = np.array([np.sum((x[1:] == i) & (x[:-1] == x[-1])) for i in range(2)])
        errors.append(np.abs(f - counts).max() / counts.max())
    assert max(errors) < 12 * eps**2 / 5 * 2 + 4 / t


def test_the_control_has_no_bigram_counter():
    """Step 2 on flat chains again: v_1 would lead, and W keeps a large background."""
    W, v = two_steps(100, 1.0, 1.0, 6.0, 1.0, None)[2]
    assert v.argmax() == 0 and W[0, 1] > 0.1 * W[0, 0]


def test_weight_decay_erases_the_start():
    """The second step depends on the first only through its gradient point: doubling κ_2 doubles the end."""
    one, two = (two_steps(30, 0.5, 1.0, 6.0, kappa, 0.2)[2] for kappa in (1.0, 2.0))
    assert np.allclose(2 * one[0], two[0]) and np.allclose(2 * one[1], two[1])


def test_bad_settings_are_refused():
    for settings, message in (
        ({"eps": 0.5}, "eps must be a number strictly between 0 and 0.5"),
        ({"w_init": "even"}, "w_init must be a number or 'balanced'; got w_init='even'"),
        ({"kappa1": 0.0}, "kappa1 must be a number greater than 0"),
    ):
        with pytest.raises(KroghError, match=message):
            predict("chains/curriculum", **{"t": 10} | settings)
