"""Smooth functions φ(z) = Σ_i c_i z^i of one variable with φ(0) = 0, by name or by their Taylor coefficients.

    z    z^2    z^3-z    z^q    sin(k)    tanh    exp    cos(k)        sin(kz), tanh z, e^z - 1, (1 - cos(kz))/2

The theory of recurrent networks learns sums of such functions and counts what they cost by their coefficients
(*Can SGD learn recurrent neural networks with provable generalization?*, section 2). A list of numbers is c_1, c_2, …
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float
from numpy.typing import ArrayLike, NDArray

from krogh.errors import KroghError, require

Numbers = NDArray[np.float64]

MENU = ("z", "z^2", "z^3-z", "sin(1)", "tanh", "exp", "cos(1)")
MOST_DEGREE = 400


@dataclass(frozen=True)
class Series:
    """φ as a name, a formula in JAX, its coefficients, and the radius within which they add up to it.

    `coefficient(i)` is c_i; `degree` is the highest one that is not zero, None where there is no end. `log_magnitude`
    takes indices to ln|c_i| where floats cannot hold c_i itself; without it that is read off `coefficient`.
    """

    name: str
    formula: Callable[[Array], Array]
    coefficient: Callable[[int], float]
    degree: int | None
    radius: float = math.inf
    log_magnitude: Callable[[Numbers], Numbers] | None = None

    def __call__(self, z: Float[Array, "*any"]) -> Float[Array, "*any"]:
        return self.formula(z)

    def log_magnitudes(self, indices: ArrayLike) -> Numbers:
        """ln|c_i| at whole numbers i, minus infinity where c_i is 0."""
        i = np.asarray(indices, np.float64)
        if self.log_magnitude is not None:
            return self.log_magnitude(i)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log([abs(self.coefficient(int(j))) for j in i.flat]).reshape(i.shape))

    def coefficients(self, degree: int | None = None) -> Numbers:
        """c_0 .. c_degree; all of them for a polynomial."""
        last = self.degree if degree is None else degree
        require(last is not None, f"{self.name} has coefficients without end: say up to which degree")
        assert last is not None
        return np.array([self.coefficient(i) for i in range(last + 1)])


def find_series(given: str | Sequence[float]) -> Series:
    """The function of this name, or the polynomial with these coefficients c_1, c_2, ... (as text: "[1, 0.5]")."""
    if not isinstance(given, str):
        return _polynomial(given)
    name = given.replace(" ", "")
    if name.startswith("["):
        try:
            numbers = [float(number) for number in name.strip("[]").split(",")]
        except ValueError:
            raise _unknown(given) from None
        return _polynomial(numbers)
    if power := re.fullmatch(r"z(?:\^(\d+))?", name):
        q = int(power[1] or 1)
        require(1 <= q <= MOST_DEGREE, f"a power of z is between 1 and {MOST_DEGREE}; got {given!r}")
        return Series(name, lambda z: z**q, lambda i: float(i == q), q)
    if name == "z^3-z":
        return Series(name, lambda z: z**3 - z, lambda i: {1: -1.0, 3: 1.0}.get(i, 0.0), 3)
    if name == "exp":
        return Series(name, jnp.expm1, lambda i: _over_factorial(i, 1.0) if i else 0.0, None,
                      log_magnitude=lambda i: np.where(i > 0, _log_over_factorial(i, 1.0), -np.inf))  # fmt: skip
    if name == "tanh":
        return Series(name, jnp.tanh, _tanh_coefficient, None, math.pi / 2, _log_tanh_magnitude)
    if wave := re.fullmatch(r"(sin|cos)\(([0-9.eE+-]+)\)", name):
        try:
            k = float(wave[2])
        except ValueError:
            raise _unknown(given) from None
        require(0 < abs(k) < math.inf, f"sin(k) and cos(k) need a finite k that is not 0; got {given!r}")
        if wave[1] == "sin":
            return Series(
                name,
                lambda z: jnp.sin(k * z),
                lambda i: _over_factorial(i, k) * (0, 1, 0, -1)[i % 4],
                None,
                log_magnitude=lambda i: np.where(i % 2 == 1, _log_over_factorial(i, k), -np.inf),
            )
        return Series(
            name,
            lambda z: (1 - jnp.cos(k * z)) / 2,
            lambda i: -_over_factorial(i, k) * (1, 0, -1, 0)[i % 4] / 2 if i else 0.0,
            None,
            log_magnitude=lambda i: np.where((i % 2 == 0) & (i > 0), _log_over_factorial(i, k) - math.log(2), -np.inf),
        )
    raise _unknown(given)


def _unknown(given: Any) -> KroghError:
    return KroghError(
        f"functions are {', '.join(MENU)}, powers z^q, sin(k), cos(k), or coefficients such as [1, 0.5] of z, z²; "
        f"got {given!r}"
    )


def _polynomial(given: Sequence[float]) -> Series:
    numbers = [float(number) for number in given]
    finite = bool(numbers) and all(math.isfinite(number) for number in numbers) and any(numbers)
    require(finite, f"coefficients c_1, c_2, ... are finite numbers, not all of them 0; got {list(given)}")

    def formula(z: Array) -> Array:
        total = jnp.zeros_like(z)
        for number in reversed(numbers):
            total = (total + number) * z
        return total

    return Series(f"[{', '.join(f'{number:g}' for number in numbers)}]", formula,
                  lambda i: numbers[i - 1] if 0 < i <= len(numbers) else 0.0, len(numbers))  # fmt: skip


def _over_factorial(i: int, k: float) -> float:
    """k^i / i!, without overflow on the way."""
    return math.copysign(1.0, k) ** i * math.exp(i * math.log(abs(k)) - math.lgamma(i + 1)) if k else float(i == 0)


def _log_over_factorial(i: Numbers, k: float) -> Numbers:
    """ln(|k|^i / i!)."""
    return np.asarray(i * math.log(abs(k)) - scipy.special.gammaln(i + 1)) if k else np.where(i == 0, 0.0, -np.inf)


def _log_tanh_magnitude(i: Numbers) -> Numbers:
    """ln|c_i| = ln 2 + s ln(2/π) + ln λ(s) at odd i, s = i + 1, where λ(s) = (1 - 2^-s) ζ(s)."""
    s = i + 1
    odd = i % 2 == 1
    at = np.where(odd, s, 2.0)
    return np.where(
        odd, math.log(2) + s * math.log(2 / math.pi) + np.log1p(-(2.0**-at)) + np.log(scipy.special.zeta(at)), -np.inf
    )


def _tanh_coefficient(i: int) -> float:
    """2^{2n}(2^{2n} - 1) B_{2n}/(2n)! at i = 2n - 1, by the tangent's series with signs: tan z = Σ |c_i| z^i."""
    if i % 2 == 0:
        return 0.0
    # |c_i| = 2 (2/π)^{i+1} λ(i+1), where λ(s) = Σ_{odd j} j^-s; from s = 2 on it has a closed form there and converges
    s = i + 1
    total = math.pi**2 / 8 if s == 2 else math.fsum(j**-s for j in range(1, 20001, 2))
    return (-1) ** ((i - 1) // 2) * 2 * (2 / math.pi) ** s * total
