"""The three risks of token regression, against loops and against one another."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory.tokens.risks import averaged_risk, draw_positions, pointwise_risk, population_risk, risk_noise


def test_averaged_risk_is_the_double_sum():
    rng = np.random.default_rng(0)
    guess, truth = rng.standard_normal((2, 5, 3))
    total = sum((guess[i, j] - truth[i, j]) ** 2 for i in range(5) for j in range(3))
    assert averaged_risk(guess, truth) == pytest.approx(total / 15, rel=1e-14)


def test_pointwise_risk_looks_at_one_position_per_prompt():
    guess, truth = np.zeros((3, 4)), np.arange(12.0).reshape(3, 4)
    assert pointwise_risk(guess, truth, [1, 0, 3]) == pytest.approx((1 + 16 + 121) / 3)


def test_pointwise_and_averaged_risk_agree_in_expectation_but_not_on_a_sample():
    rng = np.random.default_rng(1)
    guess, truth = rng.standard_normal((2, 6, 5))
    exact = averaged_risk(guess, truth)
    drawn = [pointwise_risk(guess, truth, draw_positions(6, 5, seed=seed)) for seed in range(3000)]
    assert np.std(drawn) > 0.1
    assert np.mean(drawn) == pytest.approx(exact, abs=4 * np.std(drawn) / math.sqrt(3000))


def test_they_coincide_where_nothing_depends_on_the_position():
    rng = np.random.default_rng(2)
    guess, truth = (np.repeat(rng.standard_normal((8, 1)), 7, axis=1) for _ in range(2))
    assert pointwise_risk(guess, truth, draw_positions(8, 7)) == pytest.approx(averaged_risk(guess, truth), rel=1e-13)


def test_population_risk_of_the_zero_predictor_is_one_and_its_error_bar_counts_prompts():
    rng = np.random.default_rng(3)
    tokens, u = rng.standard_normal((4000, 8, 5)), np.ones(5) / math.sqrt(5)
    shared = np.repeat((tokens @ u)[:, :1], 8, axis=1)  # one label per prompt at all positions
    risk, error = population_risk(np.zeros_like(shared), shared)
    assert risk == pytest.approx(1, abs=4 * error)
    assert error == pytest.approx(math.sqrt(2 / 4000), rel=0.15), "8 equal positions are one observation, not 8"
    assert population_risk(np.zeros((1, 2)), np.ones((1, 2))) == (1.0, math.inf)


@pytest.mark.parametrize(("length", "shared"), [(1, False), (6, False), (6, True)])
def test_empirical_risks_scatter_as_predicted(length, shared):
    found = [risk_noise(50, length, shared, seed) for seed in range(800)]
    for risk, deviation in (("averaged", "averaged_deviation"), ("pointwise", "pointwise_deviation")):
        drawn, expected = np.array([each[risk] for each in found]), found[0][deviation]
        assert abs(drawn.mean() - 1) < 5 * expected / math.sqrt(800)
        assert drawn.std() == pytest.approx(expected, rel=0.15)
    bars = np.array([each["population_error"] for each in found])
    assert np.sqrt((bars**2).mean()) == pytest.approx(found[0]["averaged_deviation"], rel=0.15)
    assert all(each["population"] == pytest.approx(each["averaged"]) for each in found)


def test_positions_are_uniform():
    counts = np.bincount(draw_positions(40_000, 4), minlength=4)
    assert np.abs(counts - 10_000).max() < 5 * math.sqrt(40_000 * 3 / 16)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: averaged_risk(np.zeros((2, 3)), np.zeros((3, 2))), r"got shapes \(2, 3\) and \(3, 2\)"),
        (lambda: averaged_risk(np.zeros(3), np.zeros(3)), r"must both be \[prompts, positions\]"),
        (lambda: pointwise_risk(np.zeros((2, 3)), np.zeros((2, 3)), [0, 3]), "between 0 and 2; got 0 to 3"),
        (lambda: pointwise_risk(np.zeros((2, 3)), np.zeros((2, 3)), [0]), r"shape \(2,\); got shape \(1,\)"),
        (lambda: draw_positions(2, 0), "length must be an integer at least 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
