"""How long tokens get, by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gammaln

from krogh.errors import KroghError
from krogh.theory import predict
from krogh.theory.tokens.prompts import squared_norm_variance, token_radius


def test_token_radius_bounds_the_longest_token():
    n, length, d, trials = 5, 8, 3, 2000
    rng = np.random.default_rng(3)
    longest = np.linalg.norm(rng.standard_normal((trials, n * length, d)), axis=2).max(axis=1)
    for radius in (2.5, 3.5, 5.0, 6.0, 7.0):
        assert (longest >= radius).mean() <= token_radius(n, length, d, radius=radius)["probability"]
    typical = token_radius(n, length, d)
    assert typical["probability"] == pytest.approx(40**-0.5) and (longest < typical["radius"]).all()
    assert typical["radius"] == pytest.approx(math.sqrt(3 * math.e * 3 * math.log(40)))
    wider = token_radius(5, 8, 3, moment=4.0)
    assert wider["radius"] == pytest.approx(2 * typical["radius"]) and wider["probability"] == pytest.approx(40**-0.5)


def test_token_radius_for_heavier_tokens_is_not_far_off():
    """|x|^2/(C d) exponential has moments E|x|^r = (C d)^(r/2) Gamma(1 + r/2), within the assumption for C_x = C."""
    orders = np.linspace(1, 300, 1000)
    assert (gammaln(1 + orders / 2) <= orders / 2 * np.log(orders)).all()
    squared = np.random.default_rng(4).exponential(size=(4000, 10)).max(axis=1) * 2
    for radius in (3.0, 4.0, 5.0):
        measured = (squared >= radius**2).mean()
        assert measured <= token_radius(10, 1, 2, radius=radius)["probability"]


def test_gaussian_tokens_meet_the_moment_assumption_with_constant_one():
    orders = np.linspace(1, 200, 400)
    for d in (1, 2, 5, 20, 60):
        log_moment = orders / 2 * math.log(2) + gammaln((d + orders) / 2) - gammaln(d / 2)
        assert (log_moment / orders <= 0.5 * np.log(d * orders) + 1e-12).all()


def test_tokens_of_constant_norm_contradict_the_printed_tail_below_its_proof():
    d = 4
    radius = math.sqrt(d)  # |x| = sqrt(d) always: every moment is d^(r/2) <= (d r)^(r/2)
    assert token_radius(1, 1, d, radius=radius, variant="printed")["probability"] < 1
    assert token_radius(1, 1, d, radius=radius)["probability"] == 1
    assert token_radius(100, 100, d, radius=4.0)["probability"] == 1
    assert token_radius(100, 100, d, radius=4.0, variant="printed")["probability"] > 1
    beyond = token_radius(1, 1, d, radius=4.0)
    assert beyond["moment_order"] > 1 and beyond["probability"] == pytest.approx(math.exp(-16 / (8 * math.e)))


def test_variance_of_a_squared_norm_by_simulation():
    rng, draws = np.random.default_rng(5), 400_000
    mean, variances = np.array([0.5, -1.0, 2.0]), np.array([1.0, 0.25, 3.0])
    rotation, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    x = (mean + rng.standard_normal((draws, 3)) * np.sqrt(variances)) @ rotation.T
    squared = (x**2).sum(1)
    found = squared_norm_variance(tuple(mean), tuple(variances))
    assert found["mean"] == pytest.approx(squared.mean(), abs=5 * squared.std() / math.sqrt(draws))
    assert found["variance"] == pytest.approx(squared.var(), rel=0.02)
    mu, sigma = rotation @ mean, rotation @ np.diag(variances) @ rotation.T
    assert found["variance"] == pytest.approx(2 * np.trace(sigma @ sigma) + 4 * mu @ sigma @ mu)
    assert squared_norm_variance((0.0,) * 5, (1.0,) * 5) == {"mean": 5, "variance": 10}


def test_variance_by_name_takes_lists():
    assert predict("qstr/variance", mean="1,0", variances="1,2") == {"mean": 4.0, "variance": 14.0}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: token_radius(1, 1, 1, radius=-1.0), "radius must be a finite number of at least 0"),
        (lambda: squared_norm_variance((1.0,), (1.0, 2.0)), "one number per coordinate"),
        (lambda: squared_norm_variance((1.0,), (-1.0,)), "variances must be at least 0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
