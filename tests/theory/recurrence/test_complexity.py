"""C_ε and C_s against plain sums, closed forms and the reference's values; where series are cut and where refused."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln

from krogh.errors import KroghError
from krogh.tasks.series import MENU, Series, find_series
from krogh.theory.recurrence.complexity import (
    LEAST_C_STAR,
    Concepts,
    complexity,
    complexity_growth,
    complexity_order,
    log_c_eps,
    log_c_s,
    parity_complexity,
)

COSINE = Series("cos", jnp.cos, lambda i: (1, 0, -1, 0)[i % 4] * math.exp(-math.lgamma(i + 1)), None)
"""Raw cos, with c_0 = 1, and without logarithms of its coefficients."""

ALMOST_ONE = 1 - 2.0**-52
"""As ε: the second sum of C_ε is then as good as absent."""


def plain_c_eps(coefficients, radius, eps, c_star):
    """The definition, term by term."""
    total = 0.0
    for i, c in enumerate(coefficients):
        second = 1.0 if i == 0 else (math.sqrt(math.log(1 / eps) / i) * c_star * radius) ** i
        total += ((c_star * radius) ** i + second) * abs(c)
    return total


def plain_c_s(coefficients, radius, c_star):
    return c_star * sum((i + 1) ** 1.75 * radius**i * abs(c) for i, c in enumerate(coefficients))


@pytest.mark.parametrize(
    ("phi", "c_eps", "c_s"),
    [
        ("z", 3.1460, 3.3636),
        ("z^2", 3.3026, 6.8385),
        ("sin(1)", 3.6450, 5.4486),
        ("exp", 5.3952, 9.6075),
        (COSINE, 3.7502, 5.1589),
    ],
)
def test_the_reference_values(phi, c_eps, c_s):
    assert math.exp(log_c_eps(phi, 1.0, 0.01, c_star=1.0)) == pytest.approx(c_eps, abs=6e-5)
    assert math.exp(log_c_s(phi, 1.0, c_star=1.0)) == pytest.approx(c_s, abs=6e-5)


def test_the_reference_values_at_the_sources_constant():
    assert log_c_eps("sin(1)", 1.0, 0.01) == pytest.approx(9999.307, abs=1e-3)
    assert log_c_s("sin(1)", 1.0) == pytest.approx(10.9057, abs=1e-4)


@pytest.mark.parametrize("phi", [*MENU, "z^7", "sin(2.5)", "sin(-0.3)", "cos(3)", "[1, -0.5, 0.25]"])
@pytest.mark.parametrize(("radius", "eps", "c_star"), [(0.7, 0.01, 1.0), (0.2, 1e-6, 3.0)])
def test_sums_are_the_definition(phi, radius, eps, c_star):
    coefficients = find_series(phi).coefficients(find_series(phi).degree or 120)
    expected = plain_c_eps(coefficients, radius, eps, c_star), plain_c_s(coefficients, radius, c_star)
    assert log_c_eps(phi, radius, eps, c_star=c_star) == pytest.approx(math.log(expected[0]), abs=1e-10)
    assert log_c_s(phi, radius, c_star=c_star) == pytest.approx(math.log(expected[1]), abs=1e-10)
    cut = plain_c_eps(coefficients[:4], radius, eps, c_star), plain_c_s(coefficients[:4], radius, c_star)
    if any(coefficients[:4]):
        assert log_c_eps(phi, radius, eps, c_star=c_star, degree=3) == pytest.approx(math.log(cut[0]), abs=1e-10)
        assert log_c_s(phi, radius, c_star=c_star, degree=3) == pytest.approx(math.log(cut[1]), abs=1e-10)


@pytest.mark.parametrize("name", [*MENU, "sin(-2)", "cos(0.5)"])
def test_logarithms_of_coefficients_are_those_of_the_coefficients(name):
    phi = find_series(name)
    plain = np.array([abs(phi.coefficient(i)) for i in range(40)])
    np.testing.assert_allclose(np.exp(phi.log_magnitudes(np.arange(40))), plain, rtol=1e-12)


@pytest.mark.parametrize("reach", [1e2, 1e4, 1e6, 1e7, 1e9])
def test_long_sums_are_the_closed_forms(reach):
    """Σ y^i/i! = e^y - 1, its odd half sinh y and its even half cosh y - 1, through blocks and through the window."""
    slack = 1e-9 + 1e-14 * reach
    assert log_c_eps("exp", reach, ALMOST_ONE, c_star=1.0) == pytest.approx(reach, abs=slack)
    assert log_c_eps("sin(1)", reach / 1e4, ALMOST_ONE) == pytest.approx(reach - math.log(2), abs=slack)
    assert log_c_eps("cos(2)", reach / 2, ALMOST_ONE, c_star=1.0) == pytest.approx(reach - math.log(4), abs=slack)


def test_c_s_of_long_sums_is_a_moment_of_a_poisson_law():
    """C_s(exp, R) e^-R = E (N+1)^1.75 for N ~ Poisson(R): R^1.75 (1 + a/R + ...) with a = 1.75 + 1.75·0.75/2."""
    for reach in (1e3, 1e5, 1e7):
        moment = 1.75 * math.log(reach) + math.log1p((1.75 + 1.75 * 0.75 / 2) / reach)
        assert log_c_s("exp", reach, c_star=1.0) - reach == pytest.approx(moment, abs=3 / reach**2 + 1e-14 * reach)


def test_a_sum_whose_peak_is_cut_off_is_that_of_its_last_terms():
    reach, last = 1e8, 5 * 10**7
    top = last * math.log(reach) - gammaln(last + 1.0)
    # ratios of neighbouring terms below the last are last/reach = 1/2: a geometric sum
    found = log_c_eps("exp", reach, ALMOST_ONE, c_star=1.0, degree=last)
    assert found == pytest.approx(top + math.log(2), abs=1e-5)


def test_the_second_sum_peaks_where_it_should():
    """At y = C* R small beside ln(1/ε), the second sum decides: term by term as it is defined."""
    eps = 1e-300
    expected = plain_c_eps(find_series("exp").coefficients(150), 2.0, eps, 1.0)
    assert log_c_eps("exp", 2.0, eps, c_star=1.0) == pytest.approx(math.log(expected), abs=1e-10)
    assert expected > 100 * math.exp(2.0)


def test_tanh_within_its_radius():
    # the first sum is tan(y), as all coefficients of tanh count positively
    y = 1.5
    value = math.exp(log_c_eps("tanh", y, ALMOST_ONE, c_star=1.0))
    assert value == pytest.approx(math.tan(y), rel=1e-8)
    for gap, accuracy in ((1e-4, 1e-7), (1e-5, 1e-5)):  # half a million terms, all added; five million, one run for two
        close = math.pi / 2 * (1 - gap)
        assert math.exp(log_c_eps("tanh", close, ALMOST_ONE, c_star=1.0)) == pytest.approx(
            math.tan(close), rel=accuracy
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: log_c_eps("tanh", 1.0, 0.01),
            r"C_eps of tanh is infinite: it needs c_star \* R < 1.571.*= 10000 \(c_star=10000, R=1\).*try degree=11",
        ),
        (lambda: log_c_s("tanh", 1.6), r"C_s of tanh is infinite: it needs R < 1.571.*R = 1.6.*degree"),
        (lambda: log_c_eps(COSINE, 1.0, 0.01), "too small for a float.*log_magnitude, or a degree"),
        (lambda: log_c_eps("exp", 1e13, 0.01), "beyond 2\\^50"),
        (lambda: log_c_eps("z", 1.0, 1.0), "eps must be a number strictly between 0 and 1; got eps=1.0"),
        (lambda: log_c_eps("z", 0.0, 0.1), "radius must be a number greater than 0"),
        (lambda: log_c_s("z", 1.0, c_star=-1.0), "c_star must be a number greater than 0"),
        (lambda: log_c_s("tanh", 2.0, degree=0), "degree must be an integer at least 1"),
        (lambda: log_c_s("zz", 2.0), "functions are z"),
        (lambda: Concepts(" "), "phi must name at least one function"),
        (lambda: complexity_order(0.01, "z", c_star=1.0), "needs c_star at least 1.5\\^1.75 = 2.03"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()


def test_a_class_costs_what_its_dearest_member_does():
    both = complexity(0.01, "z; z^3", radius=0.5)
    assert both["log_c_eps"] == log_c_eps("z^3", 0.5, 0.01) > log_c_eps("z", 0.5, 0.01)
    small = complexity(0.01, "z; z^3", radius=0.01, c_star=1.0)
    assert small["log_c_s"] == log_c_s("z", 0.01, c_star=1.0) > log_c_s("z^3", 0.01, c_star=1.0)
    assert complexity(0.01, "sin(1)")["c_eps"] == math.inf


@pytest.mark.parametrize("phi", ["z", "z^5", "z^3-z", "sin(1)", "exp", "cos(2)", "[0.1, 3, 0, 2]"])
@pytest.mark.parametrize("eps", [0.9, 0.01, 1e-12])
@pytest.mark.parametrize(("radius", "c_star"), [(1.0, 1e4), (0.01, 100.0), (3.0, LEAST_C_STAR), (0.3, LEAST_C_STAR)])
def test_the_repaired_complexity_order_holds_for_all(phi, eps, radius, c_star):
    found = complexity_order(eps, phi, radius=radius, c_star=c_star)
    assert found["lower_holds"] and found["upper_holds"], found


def test_the_printed_complexity_order_does_not():
    """For z it asks 2^1.75 ≤ 1 + √ln(1/ε): false at ε = 0.01 (3.36 against 3.15), true below e^-(2^1.75-1)²."""
    threshold = math.exp(-((2**1.75 - 1) ** 2))
    assert threshold == pytest.approx(0.0038, abs=1e-4)
    assert not complexity_order(0.01, "z", variant="printed")["lower_holds"]
    assert not complexity_order(threshold * 1.01, "z", variant="printed")["lower_holds"]
    assert complexity_order(threshold * 0.99, "z", variant="printed")["lower_holds"]
    # the repaired constant is attained in the limit ε → 1, where the second sum is gone
    assert complexity_order(1 - 1e-12, "z")["ratio_lower"] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("phi", ["z^3", "sin(1)", "exp", "z^3-z"])
def test_complexity_growth_is_the_derivative(phi):
    eps, radius, step = 0.003, 1.3, 1e-5
    found = complexity_growth(eps, phi, radius=radius, c_star=2.0)

    def both(r, log_inverse):
        return log_c_eps(phi, r, math.exp(-log_inverse), c_star=2.0), log_c_s(phi, r, c_star=2.0)

    inverse = math.log(1 / eps)
    up, down = both(radius * math.exp(step), inverse), both(radius * math.exp(-step), inverse)
    assert found["exponent_c_eps"] == pytest.approx((up[0] - down[0]) / (2 * step), rel=1e-6)
    assert found["exponent_c_s"] == pytest.approx((up[1] - down[1]) / (2 * step), rel=1e-6)
    more, less = both(radius, inverse * math.exp(step)), both(radius, inverse * math.exp(-step))
    assert found["log_exponent"] == pytest.approx((more[0] - less[0]) / (2 * step), rel=1e-5)


def test_complexity_growth_of_powers_and_of_truncated_series():
    """z^q: R^q, and ln(1/ε)^{q/2} in the limit; sin and tanh at degree ln(1/ε): a power of 1/ε near ln(C* R)."""
    for q in (1, 2, 5):
        found = complexity_growth(1e-9, f"z^{q}", radius=2.0)
        assert found["exponent_c_eps"] == pytest.approx(q) and found["exponent_c_s"] == pytest.approx(q)
        assert found["log_exponent"] <= q / 2
    # ln(1/ε)/q large: the second sum has all the weight
    assert complexity_growth(1e-300, "z", radius=2.0)["log_exponent"] == pytest.approx(0.5, abs=0.02)
    powers = [complexity_growth(1e-6, "tanh", radius=r, degree=5)["truncated_power"] for r in (1.0, 10.0, 100.0)]
    assert np.diff(powers) == pytest.approx([13 / math.log(1e6) * math.log(10)] * 2, rel=0.1)
    assert complexity_growth(1e-6, "sin(1)", radius=1.0)["truncated_degree"] == 14


def test_parity_complexity_is_not_of_order_one():
    """9.3e3, 1.4e7, 1.3e13 at L = 4, 16, 64 is what cos(π√L z) costs; (1 - cos)/2, which is PARITY, half of it."""
    for length, reference in ((4, 9.3e3), (16, 1.4e7), (64, 1.3e13)):
        assert 2 * parity_complexity(length)["c_s"] == pytest.approx(reference, rel=0.03)
    found = [parity_complexity(length) for length in (100, 10_000)]
    for one in found:
        assert one["log_c_s"] == pytest.approx(one["log_asymptote"], abs=0.1)
    growth = (found[1]["log_c_s"] - found[0]["log_c_s"]) / (90 * math.pi)
    assert growth == pytest.approx(1, abs=0.03), "ln C_s grows like π√L"
    scaled = parity_complexity(16, eps_x=0.1)
    assert scaled["log_c_s"] > 9 * parity_complexity(16)["log_order"], (
        "the theorem's R = 1/eps_x multiplies the exponent"
    )


def test_its_cosine_is_parity():
    for length in (1, 4, 9):
        phi = find_series(f"cos({parity_complexity(length)['frequency']!r})")
        counts = np.arange(length + 1)
        values = np.asarray(phi(jnp.asarray(counts / math.sqrt(length))))
        np.testing.assert_allclose(values, counts % 2, atol=1e-4)
