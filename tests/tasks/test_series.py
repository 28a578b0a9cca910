"""Smooth functions by name: their coefficients add up to their formulas, and vanish at 0."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks.series import MENU, find_series

Z = np.linspace(-0.6, 0.6, 7)


@pytest.mark.parametrize("name", [*MENU, "z^5", "sin(2.5)", "cos(3)", "[1, 0.5]", "[0,0,-2]"])
def test_find_series_has_coefficients_that_add_up_to_the_formula(name):
    series = find_series(name)
    c = series.coefficients(40)
    np.testing.assert_allclose(np.polynomial.Polynomial(c)(Z), series(jnp.asarray(Z)), atol=2e-6)
    assert c[0] == 0 and float(series(jnp.zeros(()))) == 0
    assert series.name == name.replace(" ", "") or name.startswith("[")
    if series.degree is not None:
        assert len(series.coefficients()) == series.degree + 1 and series.coefficients()[-1] != 0
    else:
        with pytest.raises(KroghError, match="say up to which degree"):
            series.coefficients()


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("z^2", lambda z: z**2),
        ("z^3-z", lambda z: z**3 - z),
        ("sin(2)", lambda z: np.sin(2 * z)),
        ("tanh", np.tanh),
        ("exp", np.expm1),
        ("cos(1.5)", lambda z: (1 - np.cos(1.5 * z)) / 2),
        ("[1, 0.5]", lambda z: z + 0.5 * z**2),
    ],
)
def test_find_series_names_these_functions(name, formula):
    np.testing.assert_allclose(find_series(name)(jnp.asarray(Z)), formula(Z), atol=1e-6)


def test_tanh_has_its_known_coefficients_and_radius():
    series = find_series("tanh")
    np.testing.assert_allclose(series.coefficients(7), [0, 1, 0, -1 / 3, 0, 2 / 15, 0, -17 / 315], rtol=1e-9)
    assert series.radius == pytest.approx(math.pi / 2)
    assert abs(series.coefficient(199) / series.coefficient(197)) == pytest.approx((2 / math.pi) ** 2, rel=1e-9)


def test_coefficients_of_high_degree_neither_overflow_nor_lose_their_sign():
    c = find_series("sin(30)").coefficients(401)
    assert np.all(np.isfinite(c)) and c[3] == pytest.approx(-(30**3) / 6) and c[401] > 0 > c[399]


@pytest.mark.parametrize("given", ["tan", "sin", "sin(a)", "z^x", "[1, b]", "cos(1", "1+z"])
def test_find_series_refuses_other_names_and_says_what_there_is(given):
    with pytest.raises(KroghError, match=r"functions are z, z\^2, .* got "):
        find_series(given)


@pytest.mark.parametrize("given", [[], [0.0, 0.0], [1.0, math.inf], "[0]"])
def test_find_series_refuses_coefficients_without_a_function(given):
    with pytest.raises(KroghError, match="are finite numbers, not all of them 0"):
        find_series(given)


@pytest.mark.parametrize("given", ["sin(0)", "cos(0.0)", "sin(1e999)"])
def test_find_series_refuses_waves_without_a_frequency(given):
    with pytest.raises(KroghError, match=r"need a finite k that is not 0; got "):
        find_series(given)


def test_find_series_refuses_powers_that_are_too_high():
    with pytest.raises(KroghError, match=r"a power of z is between 1 and 400; got 'z\^401'"):
        find_series("z^401")
    with pytest.raises(KroghError, match=r"got 'z\^0'"):
        find_series("z^0")
