"""Selectors: Lemma 5.1 and 5.2 by quadrature, by simulated neurons and in random networks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.recurrence.random_network import random_rnn
from krogh.networks.recurrence.selector import (
    Selector,
    check_direction,
    event_probability,
    expected_selection,
    polynomial,
    selection_weights,
    selector,
    sigma_at,
    token_weight,
    weigh_tokens,
)
from krogh.tasks.token_sequences import base_sequence, normalise_tokens

TOKEN = np.array([math.sqrt(3) / 2, 0.0, 0.5])
AGAINST = np.array([-1.0, 0.0, 0.0])


@pytest.mark.parametrize("series", ["z", "z^2", "[1, 0.5, -0.3]"])
@pytest.mark.parametrize(("sigma", "gamma"), [(0.0, 1.0), (1.4, 1.0), (1.4, 5.0)])
def test_token_weight_gives_phi_of_a_token_and_little_under_more_noise(series, sigma, gamma):
    """Lemma 5.1 by Monte Carlo: on target φ, under γ times the noise the closed form."""
    rng, count, c = np.random.default_rng(0), 300_000, polynomial(series)
    weight, direction = token_weight(c, sigma), np.array([0.6, 0.8, 0.0])
    a, n = rng.standard_normal((count, 3)), gamma * sigma * rng.standard_normal(count)
    token = np.array([math.sqrt(3) / 2 * math.cos(2.0), math.sqrt(3) / 2 * math.sin(2.0), 0.5])
    terms = weigh_tokens(weight, a, direction) * (a @ token + n >= 0)
    z = float(direction @ token)
    expected = float(weight.response(z, math.sqrt(0.75 + (gamma * sigma) ** 2)))
    assert abs(terms.mean() - expected) <= 4 * terms.std() / math.sqrt(count)
    if gamma == 1 or sigma == 0:
        assert expected == pytest.approx(np.polynomial.Polynomial(c)(z), abs=1e-9)


@pytest.mark.parametrize(("series", "power"), [("z", 1), ("z^2", 3), ("z^3", 3)])
def test_leakage_of_a_token_falls_with_a_power_of_its_noise(series, power):
    """1/γ for z as the lemma has it, faster for z², whose weight is odd in the token's bias."""
    weight = token_weight(polynomial(series), 1.0)
    far, farther = (float(weight.response(0.8, math.sqrt(0.75 + gamma**2))) for gamma in (100.0, 1000.0))
    assert math.log10(abs(far / farther)) == pytest.approx(power, abs=0.01)


@pytest.mark.parametrize(("eps_x", "known"), [(0.1, 0.21), (0.03, 0.067), (0.01, 0.020)])
def test_expected_selection_is_phi_on_target_and_of_order_eps_elsewhere(eps_x, known):
    found = expected_selection(np.tile(TOKEN, (4, 1)), AGAINST, polynomial("z"), 4, eps_x, 0.05 * eps_x)
    assert found[3] == pytest.approx(-math.sqrt(3) / 2, abs=1e-3)
    assert found[0] == found[5] == 0
    assert np.abs(found[[1, 2, 4]]).max() == pytest.approx(known, rel=0.25)


def test_expected_selection_integrates_over_the_event():
    """A wide event moves what is read: simulated neurons of infinite width agree, also at ε_c = ε_x."""
    eps, c, rng, count = 0.2, polynomial("[1, 0.7]"), np.random.default_rng(1), 400_000
    tokens = np.tile(TOKEN, (3, 1))
    found = expected_selection(tokens, AGAINST, c, 3, eps, eps)
    assert abs(found[2] - np.polynomial.Polynomial(c)(-math.sqrt(3) / 2)) > 0.005, "the event's width is felt"
    m = 2
    A = rng.standard_normal((count, 4)) * math.sqrt(2 / m)
    x = np.asarray(normalise_tokens(tokens, eps, "eps"), np.float64)
    base = np.asarray(base_sequence(5, 3, eps, "eps"), np.float64)
    from krogh.theory.recurrence.gram import gram

    blocks = [[gram(one, other).product[1:4, 1:4] for other in (x, base)] for one in (x, base)]
    roots = np.linalg.cholesky(np.block(blocks) + 1e-13 * np.eye(6))
    seen = rng.standard_normal((count, 6)) @ roots.T * math.sqrt(2 / m)  # ⟨w, h_1..3(x)⟩, ⟨w, h_1..3(base)⟩
    inside = np.abs(seen[:, 4]) <= eps / math.sqrt(m)
    weight = token_weight(c, sigma_at(5, 3, eps)[3])
    H = weigh_tokens(weight, math.sqrt(m / 2) * A[:, :3], AGAINST) * inside
    H /= event_probability(eps, math.sqrt(gram(base, base).product[2, 2]))
    assert inside.mean() == pytest.approx(event_probability(eps, math.sqrt(gram(base, base).product[2, 2])), rel=0.02)
    for place in (2, 3, 4):
        terms = H * (seen[:, place - 2] + A @ x[place - 1] >= 0)
        assert abs(terms.mean() - found[place - 1]) <= 4 * terms.std() / math.sqrt(count)


def test_selection_weights_are_zero_outside_of_the_event():
    network = random_rnn(300, 4, seed=1)
    state = np.abs(np.random.default_rng(0).standard_normal(300)) / 20
    c = selection_weights(network, state, np.array([1.0, 0, 0]), polynomial("z"), 1.0, 0.3)
    inside = np.abs(network.W @ state) * math.sqrt(300) <= 0.3
    assert 0 < inside.sum() < 300 and np.array_equal(c != 0, inside)
    H = weigh_tokens(token_weight(polynomial("z"), 1.0), math.sqrt(150) * network.A[:, :3], [1.0, 0, 0])
    np.testing.assert_allclose(c[inside], H[inside] / math.erf(0.15 / np.linalg.norm(state)))


def test_a_selector_holds_and_says_how_near_it_is():
    made = selector(600, series="[1, 0.5]", length=5, position=3, seed=2)
    checked = made.check()
    assert isinstance(made, Selector) and checked.holds and checked.details["standard_errors"] <= 4
    assert "within 4 standard errors" in checked.scope and "600" in made.statement
    wrong = made.with_parameters({"c": 3 * made.parameters["c"]}).check()
    assert not wrong.holds and wrong.details["departure_from_definition"] > 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"position": 1}, "position must be an integer between 2 and 5; got position=1"),
        ({"position": 6}, "position must be an integer between 2 and 5; got position=6"),
        ({"eps_c": 0.0}, r"eps_c must be positive; got eps_c=0\.0"),
        ({"eps_x": 2.0}, "eps_x must be above 0 and at most 1"),
        ({"series": "zz"}, "functions are z, "),
    ],
)
def test_a_selector_refuses(settings, message):
    with pytest.raises(KroghError, match=message):
        selector(50, **settings)


def test_check_direction_refuses_what_has_a_bias_or_another_norm():
    for given in ([0.6, 0.0, 0.8], [0.5, 0.5, 0.0], [1.0, 0.0]):
        with pytest.raises(KroghError, match="unit vector of 3 numbers, the last of them 0; got"):
            check_direction(given, 3)
