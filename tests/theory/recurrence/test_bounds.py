"""The lemmas and theorems: exponents by finite differences, conditions, limits, and what brute force says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks.series import find_series
from krogh.theory import predict
from krogh.theory.attention.complexity import rademacher_of
from krogh.theory.recurrence.complexity import Concepts, log_c_eps, log_c_s
from krogh.theory.recurrence.gram import gram
from krogh.theory.recurrence.initialisation import (
    back_correlation,
    decoder_norm,
    initial_state,
    inversion,
    linearisation,
    re_randomisation,
    single_step,
)
from krogh.theory.recurrence.scales import Network, log_varrho, rho, scales
from krogh.theory.recurrence.sums import good_shift, off_target, sums_guarantee, sums_size, sums_training
from krogh.theory.recurrence.whole import (
    best_rate,
    linear_rademacher,
    rademacher,
    regret,
    regret_bound,
    slope_and_size,
    whole_existence,
    whole_norm,
    whole_training,
)

NET = {"length": 6, "width": 1000}
HUGE = {"length": 6, "width": 10**300}
"""Where powers of the width decide, and not those of rho."""


def exponent(function, key, name, settings, factor=2.0):
    """d ln(number)/d ln(setting), by a central difference; `key` is the logarithm of the number."""
    value = settings[name]
    kind = int if isinstance(value, int) else float
    high, low = kind(value * factor), kind(value / factor) if kind is float else value // int(factor)
    up, down = (function(**settings | {name: v})[key] for v in (high, low))
    return (up - down) / (math.log(high) - math.log(low))


def at_fixed_rho(function, key, name, settings, rho_power, factor=2.0):
    """The exponent with rho's own growth taken off: rho = 100 L d ln m depends on L, d and m."""
    if name not in ("width", "length", "outputs"):
        return exponent(function, key, name, settings, factor)

    def without(**given):
        log_rho = math.log(rho(given["length"], given.get("outputs", 1), given["width"]))
        return {key: function(**given)[key] - rho_power * log_rho}

    return exponent(without, key, name, settings, factor)


# --- scales -----------------------------------------------------------------------------------------------------------


def test_rho_and_varrho():
    assert rho(6, 2, 1000) == pytest.approx(100 * 6 * 2 * math.log(1000)) == Network(6, 1000, 2).rho
    network, concepts = Network(9, 1000, 2), Concepts("sin(1)", terms=3, c_star=1.0)
    plain = 100 * 9 * 2 * 3 * math.exp(log_c_eps("sin(1)", 3.0, 0.1, c_star=1.0)) * math.log(1000) / 0.1
    assert log_varrho(network, concepts, 0.1) == pytest.approx(math.log(plain))
    found = scales(0.1, 9, 1000, 2, "sin(1)", 3, 1.0, eps_x=0.05)
    assert found["log_varrho_sums"] == log_varrho(network, concepts, 0.1)
    assert found["log_varrho_whole"] == log_varrho(network, concepts, 0.1, 20.0)
    assert "log_varrho_whole" not in scales(0.1, 9, 1000) and found["log_failure_order"] == -(network.rho**2)


# --- exponents of every lemma -----------------------------------------------------------------------------------------


EXPONENTS = [
    # function, logarithm, setting, exponent, settings, power of rho in front (None: exponents with rho's growth)
    (sums_training, "log_steps_order", "terms", 2, NET | {"eps": 0.01, "terms": 4}, 0),
    (linearisation, "log_error_order", "movement", 4 / 3, NET | {"movement": 3.0}, 7),
    (linearisation, "log_error_order", "width", -1 / 6, NET | {"movement": 3.0}, 7),
    (linearisation, "log_error_order", "length", 0, NET | {"movement": 3.0}, 7),
    (linearisation, "log_coupling_order", "movement", 1 / 3, NET | {"movement": 3.0}, 6),
    (linearisation, "log_coupling_order", "direction", 1, NET | {"movement": 3.0, "direction": 2.0}, 6),
    (linearisation, "log_coupling_order", "width", -1 / 6, NET | {"movement": 3.0}, 6),
    (linearisation, "log_state_order", "movement", 1, NET | {"movement": 3.0}, 6),
    (linearisation, "log_state_order", "width", -1 / 2, NET | {"movement": 3.0}, 6),
    (linearisation, "log_flips_order", "movement", 2 / 3, NET | {"movement": 3.0}, 4),
    (linearisation, "log_flips_order", "width", 2 / 3, NET | {"movement": 3.0}, 4),
    (linearisation, "log_back_order", "movement", 1 / 3, NET | {"movement": 3.0}, 6),
    (linearisation, "log_back_order", "width", 1 / 3, NET | {"movement": 3.0}, 6),
    (re_randomisation, "log_state_order", "rows", 1 / 2, NET | {"rows": 30}, 5),
    (re_randomisation, "log_state_order", "width", -1 / 2, NET | {"rows": 30}, 5),
    (re_randomisation, "log_inner_order", "rows", 2 / 3, NET | {"rows": 30}, 5),
    (re_randomisation, "log_inner_order", "width", -2 / 3, NET | {"rows": 30}, 5),
    (re_randomisation, "log_flips_order", "rows", 1 / 3, NET | {"rows": 30}, 4),
    (re_randomisation, "log_flips_order", "width", 2 / 3, NET | {"rows": 30}, 4),
    (re_randomisation, "log_product_order", "rows", 1 / 6, NET | {"rows": 30}, 5),
    (re_randomisation, "log_product_rows_order", "width", -2 / 3, NET | {"rows": 30}, 6),
    (back_correlation, "log_inner_order", "width", 3 / 4, NET | {"eps_x": 0.05}, 1),
    (initial_state, "log_flips_order", "width", 1, NET | {"eps_x": 0.05}, 0),
    (initial_state, "log_flips_order", "eps_x", 2 / 3, NET | {"eps_x": 0.05}, 0),
    (initial_state, "log_flips_order", "length", 1 / 3, NET | {"eps_x": 0.01}, 0),
    (initial_state, "log_entry_order", "width", -1 / 2, NET | {"eps_x": 0.05}, 1),
    (initial_state, "log_entry_distance_order", "eps_x", 1, NET | {"eps_x": 0.05}, 1),
    (initial_state, "log_sparse_form_order", "sparsity", 1 / 2, NET | {"eps_x": 0.05, "sparsity": 10}, 1),
    (inversion, "log_activation_error_order", "eps_x", 5 / 3, NET | {"eps_x": 0.05}, 2),
    (inversion, "log_activation_error_order", "length", 11 / 6, NET | {"eps_x": 0.01}, 2),
    (inversion, "log_width_error_order", "length", 4, HUGE | {"eps_x": 0.01}, 11),
    (inversion, "log_width_error_order", "width", -1 / 12, HUGE | {"eps_x": 0.01}, 11),
    (single_step, "log_error_order", "width", -1 / 12, HUGE, 11),
    (whole_existence, "log_fit_error_order", "length", 1, NET | {"eps": 0.01, "eps_x": 0.01}, 2),
    (whole_existence, "log_fit_error_order", "eps", 1, NET | {"eps": 0.01, "eps_x": 0.01}, 2),
    (whole_existence, "log_token_error_order", "eps_x", 2 / 3, NET | {"eps": 0.01, "eps_x": 0.01}, 4),
    (whole_existence, "log_token_error_order", "terms", 1, NET | {"eps": 0.01, "eps_x": 0.01, "terms": 4}, 4),
    (whole_existence, "log_width_error_order", "width", -1 / 30, NET | {"eps": 0.01, "eps_x": 0.01}, 11),
    (whole_existence, "log_width_error_order", "outputs", 3 / 2, NET | {"eps": 0.01, "eps_x": 0.01, "outputs": 4}, 11),
    (
        whole_existence,
        "log_movement_error_order",
        "movement",
        1 / 3,
        NET | {"eps": 0.1, "eps_x": 0.1, "movement": 2.0},
        8,
    ),
    (whole_norm, "log_norm_order", "width", -1 / 2, NET | {"eps": 0.01, "eps_x": 0.05}, 1),
    (whole_norm, "log_norm_order", "outputs", 1 / 2, NET | {"eps": 0.01, "eps_x": 0.05, "outputs": 4}, 1),
    (whole_norm, "log_norm_order", "terms", 1, NET | {"eps": 0.01, "eps_x": 0.05, "terms": 4}, 1),
    (rademacher, "log_nonlinear_order", "movement", 4 / 3, NET | {"movement": 3.0, "samples": 100}, 7),
    (rademacher, "log_nonlinear_order", "width", -1 / 6, NET | {"movement": 3.0, "samples": 100}, 7),
    (rademacher, "log_linear_order", "samples", -1 / 2, NET | {"movement": 3.0, "samples": 100}, 2),
    (rademacher, "log_linear_order", "movement", 1, NET | {"movement": 3.0, "samples": 100}, 2),
    (rademacher, "log_linear_order", "width", 0, NET | {"movement": 3.0, "samples": 100}, 2),
    (whole_training, "log_steps_order", "terms", 2, NET | {"eps": 0.01, "samples": 9, "eps_x": 0.1, "terms": 4}, 1),
    (good_shift, "log_norm_order", "terms", 1, NET | {"eps": 0.01, "terms": 4}, 3),
    (good_shift, "log_width_error_order", "width", -0.05, NET | {"eps": 0.01, "eps_x": 1e-30}, 11),
    (good_shift, "log_token_error_order", "eps_x", 1 / 3, NET | {"eps": 0.01, "eps_x": 1e-30}, 11),
    (good_shift, "log_width_error_order", "eps_x", -1, NET | {"eps": 0.01, "eps_x": 1e-30}, 11),
    (good_shift, "log_norm_order", "width", -1 / 2, NET | {"eps": 0.01, "eps_x": 1e-30}, 3),
]


@pytest.mark.parametrize(
    ("function", "key", "name", "expected", "settings", "rho_power"),
    EXPONENTS,
    ids=[f"{f.name.split('/')[1]}-{k}-{n}" for f, k, n, *_ in EXPONENTS],
)
def test_exponents(function, key, name, expected, settings, rho_power):
    assert at_fixed_rho(function, key, name, settings, rho_power) == pytest.approx(expected, abs=1e-6)


def test_functions_of_the_whole_sequence_pay_for_the_length_twice_over():
    """L^{17/6} and L^5 of Theorem D.2, beside L_Φ = 2√L and C_Φ = L for z², and beside C_ε, which L does not enter."""
    settings = NET | {"eps": 0.01, "eps_x": 0.01}
    assert at_fixed_rho(whole_existence, "log_token_error_order", "length", settings, 4) == pytest.approx(17 / 6 + 0.5)
    assert at_fixed_rho(whole_existence, "log_width_error_order", "length", settings, 11) == pytest.approx(5 + 1.5)


def test_powers_of_rho():
    """At fixed width rho grows with the outputs alone, so numbers without other powers of d show rho's power."""
    for function, key, power, settings in (
        (linearisation, "log_error_order", 7, {"movement": 2.0}),
        (linearisation, "log_coupling_order", 6, {"movement": 2.0}),
        (linearisation, "log_flips_order", 4, {"movement": 2.0}),
        (re_randomisation, "log_state_order", 5, {"rows": 30}),
        (re_randomisation, "log_flips_order", 4, {"rows": 30}),
        (re_randomisation, "log_product_rows_order", 6, {"rows": 30}),
        (back_correlation, "log_inner_order", 1, {"eps_x": 0.1}),
        (inversion, "log_activation_error_order", 2, {"eps_x": 0.1}),
        (inversion, "log_width_needed", 46, {"eps_x": 0.1}),
        (re_randomisation, "log_rows_allowed", -23, {"rows": 30}),
        (rademacher, "log_linear_order", 2, {"movement": 2.0, "samples": 10}),
        (good_shift, "log_fit_error_order", 11, {"eps": 0.01}),
        (good_shift, "log_eps_x_allowed", -4, {"eps": 0.01}),
    ):
        assert exponent(function, key, "outputs", NET | settings | {"outputs": 4}) == pytest.approx(power), (key, power)


# --- sums of functions of tokens --------------------------------------------------------------------------------------


def test_sums_training_numbers():
    found = sums_training(0.01, 6, 1000, 2, "z", 3, power=2.0)
    c = log_c_eps("z", math.sqrt(6), 0.01)
    assert found["scale_order"] == pytest.approx(0.01 / (36 * 2))
    assert found["rate_order"] == pytest.approx(1 / (0.01 * 36 * 4 * 1000))
    assert found["log_steps_order"] == pytest.approx(2 * (math.log(3) + c - math.log(0.01)) + 2 * math.log(12))
    wide = sums_training(0.01, 6, 8000, 2, "z", 3)
    assert wide["scale_squared_rate_width"] == pytest.approx(found["scale_squared_rate_width"])


def test_sums_guarantee():
    found = sums_guarantee(0.01, 1000, 6, 1000, optimum=0.2)
    assert found["risk"] == pytest.approx(0.21) and found["log_failure_order"] == -(rho(6, 1, 1000) ** 2)
    assert not (found["wide_enough"] or found["enough_samples"] or found["eps_small_enough"])
    # a million times the width costs samples by ln m alone
    wider = sums_guarantee(0.01, 1000, 6, 10**9)
    gained = math.exp(wider["log_samples_needed"] - found["log_samples_needed"])
    assert (
        gained == pytest.approx(math.log(10**9) / math.log(1000))
        and wider["log_width_needed"] == found["log_width_needed"]
    )
    allowed = math.exp(found["log_eps_allowed"])
    assert allowed == pytest.approx(math.exp(-log_c_s("z^2", math.sqrt(6))) / 6)
    small = sums_guarantee(1e-9, 10**15, 6, 10**40, c_star=0.01)
    assert small["wide_enough"] and small["eps_small_enough"]


def test_sums_size():
    polynomial = sums_size(0.01, 6, 1000, 2, "z^2", 3, power=2.0)
    assert polynomial["polynomial"] and polynomial["width_order"] == pytest.approx((6 * 2 * 3 / 0.01) ** 2)
    assert polynomial["samples_order"] == pytest.approx((3 / 0.01) ** 2 * (6 * 2 * math.log(1000)) ** 2)
    series = sums_size(1e-4, 16, 1000, phi="tanh")
    assert not series["polynomial"] and series["log_complexity_order"] == pytest.approx(math.log(1e4) * math.log(16))
    assert series["log_complexity"] == log_c_eps("tanh", 4.0, 1e-4, degree=10)
    # C = L^O(log 1/eps): d ln C/d ln L is about half the degree at which the series is cut off
    longer = sums_size(1e-4, 64, 1000, phi="tanh")
    slope = (longer["log_complexity"] - series["log_complexity"]) / math.log(4)
    assert slope == pytest.approx(9 / 2, abs=0.1)


def test_off_target_leakage_falls_like_one_over_gamma():
    small, large = (off_target(gamma, 0.001, "z", c_star=1.0, sigma=2.0) for gamma in (1e3, 1e6))
    ratio = small["leakage_order"] / large["leakage_order"]
    assert ratio == pytest.approx(1e3 * math.log(2e3) / math.log(2e6))
    assert small["error_order"] == pytest.approx(0.001 + small["leakage_order"])
    assert small["log_weight_bound"] == log_c_eps("z", 2.0, 0.001, c_star=1.0)
    assert off_target(10.0, 0.001, "z", c_star=1.0)["eps_small_enough"]
    assert not off_target(10.0, 0.5, "z", c_star=1.0)["eps_small_enough"]


def test_good_shift_numbers():
    network = Network(6, 1000)
    c = log_c_eps("z", math.sqrt(6), 0.01, c_star=1.0)
    given = good_shift(0.01, 6, 1000, phi="z", c_star=1.0, eps_x=1e-20)
    weight = 4 * math.exp(2 * c) / (0.01 * 1e-20)
    assert given["log_weight_bound"] == pytest.approx(math.log(weight))
    assert given["log_eps_c"] == pytest.approx(math.log(0.01 * 1e-20 / (4 * math.exp(c))))
    bracket = 0.01 + math.exp(log_c_s("z", 1.0, c_star=1.0)) * 1e-20 ** (1 / 3) + weight * 1000**-0.05
    assert given["error_order"] == pytest.approx(network.rho**11 * bracket)
    assert given["norm_order"] == pytest.approx(network.rho**3 * weight / math.sqrt(1000))
    assert math.exp(given["log_eps_x_allowed"]) == pytest.approx(1 / (network.rho**4 * math.exp(c)))
    half = good_shift(0.01, 6, 1000, phi="z", c_star=1.0)
    assert half["log_eps_x"] == pytest.approx(half["log_eps_x_allowed"] - math.log(2))
    # beyond floats: sin costs e^10000, and so does eps_x
    assert good_shift(0.01, 6, 1000, phi="sin(1)")["log_eps_x"] < -10_000


# --- random networks --------------------------------------------------------------------------------------------------


def test_inversion_numbers():
    found = inversion(0.1, 6, 1000)
    r, m = rho(6, 1, 1000), 1000
    width = 6**4 * (r**11 * m ** (-1 / 12) + r**7 * m ** (-1 / 12) + r**7 * m**-0.25 + r**11 * m**-0.25)
    token = r**2 * 6 ** (11 / 6) * 0.1 ** (5 / 3)
    assert found["error_order"] == pytest.approx(width + token)
    assert found["simplified_order"] == pytest.approx(6**4 * r**11 * m ** (-1 / 12) + token)
    assert found["relative_order"] == pytest.approx((width + token) / 0.1)
    assert found["typical_rms"] == pytest.approx(math.sqrt(12 / 1000)) and not found["wide_enough"]
    assert inversion(0.1, 6, 10**400)["wide_enough"], "1 > rho^46/m at last"


def test_single_step_numbers():
    r, m = rho(6, 1, 1000), 1000
    plain = r**11 * m ** (-1 / 12) + r**7 * m ** (-1 / 12) + r**7 * m**-0.25 + r**11 * m**-0.25
    assert single_step(6, 1000)["error_order"] == pytest.approx(plain)
    other = r**7 * m ** (-1 / 12) + r**3 * m**-0.2 + r**3 * m**-0.25 + r**7 * m**-0.25
    assert single_step(6, 1000, kappa=2.0, zeta=0.4)["error_order"] == pytest.approx(other)
    alone = r**5 * m ** (-1 / 12) + r * m**-0.25 + r**5 * m**-0.25
    assert single_step(6, 1000, independent=True)["error_order"] == pytest.approx(alone)


def test_decoder_norm_keeps_lengths_to_a_hundredth():
    for length in (3, 10, 1000):
        found = decoder_norm(length)
        assert 0.99 < found["gain_low"] < math.exp(-0.01) < 1 < found["gain_high"] < math.exp(0.01)
        assert found["column_order"] == length**3
    assert decoder_norm(10**6)["gain_high"] == pytest.approx(math.exp(0.01))


def sequences(length, eps_x, seed):
    """A random normalised sequence with dx = 4 and its base sequence, both with x_L = (0, 1)."""
    rng = np.random.default_rng(seed)
    g = rng.standard_normal((length - 2, 3))
    tokens = np.concatenate(
        [math.sqrt(0.75) * g / np.linalg.norm(g, axis=1, keepdims=True), np.full((length - 2, 1), 0.5)], 1
    )
    x, base = np.zeros((length, 5)), np.zeros((length, 5))
    x[0, -1] = x[-1, -1] = base[0, -1] = base[-1, -1] = 1.0
    x[1:-1, :-1], base[1:-1, -1] = eps_x * tokens, eps_x
    return x, base


@pytest.mark.parametrize("eps_x", [0.02, 0.15])
def test_initial_state_is_what_the_gram_recursion_says_for_any_tokens(eps_x):
    x, base = sequences(6, eps_x, 1)
    own, crossed = gram(x, x), gram(x, base)
    for place in range(1, 7):
        found = initial_state(eps_x, 6, 1000, position=place)
        assert found["norm"] == pytest.approx(math.sqrt(own.product[place, place]))
        gap = own.product[place, place] + gram(base, base).product[place, place] - 2 * crossed.product[place, place]
        assert found["distance"] == pytest.approx(math.sqrt(max(0.0, gap)), abs=1e-7)
        assert found["flip_share"] == pytest.approx(crossed.flips[place - 1])


def test_initial_state_in_a_network():
    """Norm, distance and flips of a network of width 3000 within a few times √(5L/m); printed, it fits at L."""
    eps_x, length, width = 0.1, 6, 3000
    x, base = sequences(length, eps_x, 2)
    norms, distances, flips = np.zeros(length), np.zeros(length), np.zeros(length)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        W, A = (rng.normal(0, math.sqrt(2 / width), (width, columns)) for columns in (width, 5))
        h, h0 = np.zeros(width), np.zeros(width)
        for place in range(length):
            g, g0 = W @ h + A @ x[place], W @ h0 + A @ base[place]
            h, h0 = np.maximum(g, 0), np.maximum(g0, 0)
            norms[place] += np.linalg.norm(h) / 3
            distances[place] += np.linalg.norm(h - h0) / 3
            flips[place] += np.mean((g >= 0) != (g0 >= 0)) / 3
    found = [initial_state(eps_x, length, width, position=place) for place in range(1, length + 1)]
    printed = [initial_state(eps_x, length, width, position=place, variant="printed") for place in range(1, length + 1)]
    np.testing.assert_allclose(norms, [one["norm"] for one in found], rtol=0.06)
    np.testing.assert_allclose(distances[1:], [one["distance"] for one in found][1:], rtol=0.1)
    np.testing.assert_allclose(flips[1:], [one["flip_share"] for one in found][1:], rtol=0.15)
    assert abs(printed[3]["norm"] - norms[3]) > 0.3 and printed[-1]["norm"] == pytest.approx(found[-1]["norm"])
    assert distances[4] > printed[4]["distance"], "the printed √L ε_x is too small already at l = 5 of 6"


def test_flips_are_linear_in_eps_x_where_the_lemma_has_two_thirds():
    shares = [initial_state(eps_x, 6, 1000)["flip_share"] for eps_x in (0.001, 0.01)]
    assert shares[1] / shares[0] == pytest.approx(10, rel=0.05)
    orders = [initial_state(eps_x, 6, 1000)["flips_order"] / 1000 for eps_x in (0.001, 0.01)]
    assert orders[1] / orders[0] == pytest.approx(10 ** (2 / 3)) and all(
        s < o for s, o in zip(shares, orders, strict=True)
    )


def test_distances_tend_to_the_square_root_of_twice_the_tokens():
    for place in range(2, 12):
        found = initial_state(1e-4, 12, 1000, position=place)["distance"]
        assert found == pytest.approx(math.sqrt(2 * (place - 1)) * 1e-4, rel=1e-3)


@pytest.mark.parametrize("function", [linearisation, re_randomisation])
def test_larger_movements_change_more(function):
    name = "movement" if function is linearisation else "rows"
    first, second = (function(**NET | {name: value}) for value in (10, 20))
    assert all(second[key] > first[key] for key in first if key.endswith("_order") and "failure" not in key)


def test_back_correlation_is_beyond_what_is_measured():
    found = back_correlation(0.1, 6, 1000)
    assert found["inner_order"] == pytest.approx(1000**0.75 * rho(6, 1, 1000))
    assert found["relative_order"] == pytest.approx(found["inner_order"] / 1000)
    assert found["typical_order"] < found["inner_order"]


# --- functions of the whole sequence ----------------------------------------------------------------------------------


def test_whole_training_numbers():
    network = Network(5, 500, 2)
    found = whole_training(0.01, 1000, 5, 500, 2, "z", 3, eps_x=0.1, optimum=0.5)
    r, c = network.rho, math.exp(log_c_eps("z", 10.0, 0.01))
    assert found["risk"] == pytest.approx(0.5 + 0.01 + 1 / r) and found["training_risk"] == pytest.approx(0.505 + 1 / r)
    assert found["scale"] == pytest.approx(0.01 / (50 * r)) and found["rate_order"] == pytest.approx(
        1 / (0.01 * r**2 * 500)
    )
    assert found["steps_order"] == pytest.approx(9 * c**2 * r / 1e-4)
    assert found["log_movement_order"] == found["log_steps_order"], "Delta and T are the same order"
    assert math.exp(found["log_size_needed"]) == pytest.approx(c * 3 * 5 * 2 / 0.01)
    bound = math.exp(log_c_s("z", math.sqrt(10)))
    assert math.exp(found["log_training_samples_needed"]) == pytest.approx(r**3 * 3 * bound**2 / 1e-4)
    assert math.exp(found["log_eps_allowed"]) == pytest.approx(1 / (3 * r * math.exp(log_c_s("z", 10.0))))
    assert whole_training(0.01, 1000, 5, 500, 2)["eps_x"] == pytest.approx(1 / r)


def test_whole_existence_numbers():
    found = whole_existence(0.01, 0.1, 5, 500, 2, "z^2", 3, movement=2.0)
    r, c = rho(5, 2, 500), math.exp(log_c_eps("z^2", 10.0, 0.01))
    slope, size = 2 * math.sqrt(5), 5.0
    assert (found["slope"], found["size"]) == pytest.approx((slope, size))
    parts = (
        2 * 5 * 3 * r**2 * 0.01,
        2 * 5 ** (17 / 6) * 3 * r**4 * slope * 0.1 ** (2 / 3),
        2**1.5 * 5**5 * 3 * r**11 * slope * size * c * 500 ** (-1 / 30),
        c * 2**0.5 * r**8 * 2 ** (1 / 3) * 500 ** (-1 / 6),
    )
    assert found["error_order"] == pytest.approx(sum(parts))
    assert whole_existence(0.01, 0.1, 5, 500)["log_error_order"] < found["log_error_order"]


@pytest.mark.parametrize("phi", ["z^2", "z^3-z", "sin(3)", "exp", "tanh"])
def test_slope_and_size_are_below_c_s(phi):
    length = 6
    slope, size = slope_and_size(find_series(phi), math.sqrt(length))
    z = np.linspace(-math.sqrt(length), math.sqrt(length), 4001)
    plain = {"z^2": z**2, "z^3-z": z**3 - z, "sin(3)": np.sin(3 * z), "exp": np.expm1(z), "tanh": np.tanh(z)}[phi]
    assert size == pytest.approx(np.abs(plain).max(), rel=1e-5)
    assert slope == pytest.approx(np.abs(np.gradient(plain, z)).max(), rel=2e-3)
    if phi != "tanh":  # whose C_s is infinite there
        assert max(slope, size) <= math.exp(log_c_s(phi, math.sqrt(2 * length), c_star=1.0))


def test_whole_norm():
    settings = NET | {"eps": 0.01, "eps_x": 0.1, "terms": 7, "outputs": 4, "phi": "z"}
    found, printed = whole_norm(**settings), whole_norm(**settings, variant="printed")
    plain = rho(6, 4, 1000) * 2 * math.exp(log_c_eps("z", 10.0, 0.01)) / math.sqrt(1000)
    assert printed["norm_order"] == pytest.approx(plain) and found["norm_order"] == pytest.approx(7 * plain)
    # degree 1 pays 1/eps_x, degree 2 its square, as is measured of the construction
    for phi, power in (("z", 1), ("z^2", 2)):
        both = [whole_norm(0.01, e, 6, 1000, phi=phi)["log_norm_order"] for e in (0.1, 0.01)]
        assert (both[1] - both[0]) / math.log(10) == pytest.approx(power)


def test_regret_bound_holds_for_convex_objectives():
    """SGD from 0 on random convex 1-Lipschitz losses of a linear model, against many competitors."""
    rng = np.random.default_rng(0)
    steps, scale = 200, 0.5
    x, y = rng.standard_normal((steps, 4)), rng.standard_normal(steps)
    for rate in (0.003, 0.1, 3.0):
        theta, losses, norms = np.zeros(4), [], []
        for t in range(steps):
            residual = scale * theta @ x[t] - y[t]
            gradient = scale * np.sign(residual) * x[t]
            losses.append(abs(residual))
            norms.append(np.linalg.norm(gradient))
            theta = theta - rate * gradient
        for star in rng.standard_normal((50, 4)) * rng.uniform(0, 3, (50, 1)):
            optimum = np.mean(np.abs(x @ star - y))  # the shift star/scale gives scale · star/scale
            bound = regret_bound(np.linalg.norm(star), rate, steps, scale, norms, optimum)
            assert np.mean(losses) <= bound + 1e-12


def test_regret_bound_is_attained():
    """Losses g·θ with one gradient: Σ η‖g‖²·(-t) against -‖g‖²ηT at θ* = -ηTg: equality up to a term of order 1/T."""
    steps, rate, g = 1000, 0.01, 2.0
    theta = -rate * g * np.arange(steps)
    star = -rate * steps * g
    average, optimum = np.mean(g * theta), g * star
    assert regret_bound(abs(star), rate, steps, 1.0, g, optimum) - average == pytest.approx(0, abs=1e-9)


def test_regret_prediction_and_its_best_rate():
    found = regret(3.0, 0.01, 100, 2.0, scale=0.5, optimum=0.1)
    assert found["objective"] == pytest.approx(0.1 + 9 / (2 * 0.01 * 100 * 0.25) + 0.005 * 4)
    assert found["objective"] == regret_bound(3.0, 0.01, 100, 0.5, [2.0] * 100, 0.1)
    best = best_rate(3.0, 100, 0.5, 2.0)
    assert best == found["best_rate"]
    least = min(regret_bound(3.0, best * f, 100, 0.5, 2.0, 0.1) for f in (0.8, 0.9, 1.0, 1.1, 1.25))
    assert least == found["objective_at_best_rate"] == pytest.approx(0.1 + 3 * 2 / (0.5 * 10))


def test_rademacher_numbers():
    found = rademacher(4.0, 500, 6, 1000, bound=2.0, failure=0.01)
    r = rho(6, 1, 1000)
    plain = r**7 * 4 ** (4 / 3) * 1000 ** (-1 / 6) + r**2 * 4 / math.sqrt(500)
    assert found["complexity_order"] == pytest.approx(plain)
    assert found["gap_order"] == pytest.approx(2 * plain + 2 * math.sqrt(math.log(100) / 500))


def test_linear_rademacher_bounds_the_complexity_of_a_linear_class():
    rng = np.random.default_rng(1)
    for points in (rng.standard_normal((10, 3)), np.eye(10)):
        exact = rademacher_of(lambda signs, p=points: 1.7 * np.linalg.norm(signs @ p, axis=1), len(points))
        assert exact.standard_error == 0
        bound = linear_rademacher(1.7, np.linalg.norm(points, axis=1))
        assert exact.value <= bound + 1e-12
    assert exact.value == pytest.approx(bound), "orthogonal points attain it"
    assert linear_rademacher(2.0, np.ones(400)) == pytest.approx(2 / 20), "unit vectors: B/sqrt(N)"


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: inversion(0.3, 8, 2000),
            r"outside the range of Theorem D.1: eps_x < 1/L = 0.125 for L = 8; got eps_x=0.3 \(try 0.0625\)",
        ),
        (lambda: initial_state(0.2, 5, 100), "outside the range of Lemma B.1: eps_x < 1/L = 0.2"),
        (lambda: back_correlation(1.0, 5, 100), "outside the range of Lemma F.11"),
        (lambda: whole_existence(0.1, 0.5, 5, 100), "outside the range of Theorem D.2"),
        (lambda: whole_norm(0.1, 0.5, 5, 100), "outside the range of Lemma F.17"),
        (lambda: whole_training(0.1, 10, 5, 100, eps_x=0.5), "outside the range of Theorem 3.1"),
        (lambda: scales(0.1, 5, 100, eps_x=0.5), "outside the range of Lemma B.1"),
        (lambda: inversion(0.0, 8, 2000), "eps_x must be a number greater than 0"),
        (
            lambda: good_shift(0.01, 6, 1000, phi="z", c_star=1.0, eps_x=0.1),
            r"outside the range of Lemma 5.2: eps_x < 1/\(rho\^4 C'\) = e\^-3[0-9.]+ for rho = 4145.*got eps_x=0.1",
        ),
        (lambda: good_shift(0.01, 6, 1000, phi="sin(1)", eps_x=0.1), "leave eps_x out, a smaller c_star helps"),
        (lambda: good_shift(0.01, 6, 1000, phi="tanh"), "C_eps of tanh is infinite"),
        (lambda: off_target(1.0, 0.1), "gamma must be a number greater than 1"),
        (lambda: off_target(5.0, 0.1, sigma=0.05), "sigma of at least 0.1; got sigma=0.05"),
        (lambda: off_target(5.0, 0.1, sigma=0.1), r"gamma \* sigma > 1; got gamma=5, sigma=0.1"),
        (lambda: re_randomisation(2000, 6, 1000), "rows must be an integer between 1 and 1000"),
        (lambda: initial_state(0.1, 6, 1000, position=7), "position must be an integer between 1 and 6"),
        (lambda: single_step(6, 1000, zeta=1.0), "zeta must be a number strictly between 0 and 1"),
        (lambda: linearisation(0.0, 6, 1000), "movement must be a number greater than 0"),
        (lambda: sums_training(0.01, 2, 1000), "length must be an integer at least 3; got length=2"),
        (lambda: sums_training(0.01, 6, 1), "width must be an integer at least 2"),
        (lambda: sums_training(0.01, 6, 100, power=0.0), "power must be a number greater than 0"),
        (lambda: sums_training(1.5, 6, 100), "eps must be a number strictly between 0 and 1"),
        (lambda: regret_bound(1.0, 0.1, 10, 1.0, [1.0, 2.0]), "one number or one per step, 10; got shape"),
        (lambda: rademacher(1.0, 10, 6, 100, failure=1.0), "failure must be a number strictly between 0 and 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()


def test_by_name_as_a_user_asks():
    assert predict("recurrence/inversion", eps_x="0.05", length="8", width="2000")["wide_enough"] is False
    with pytest.raises(KroghError, match="unknown setting 'widht'; did you mean 'width'"):
        predict("recurrence/inversion", eps_x="0.05", length="8", widht="2000")
