"""Dropout whose masks are a hash of the step's noise and the place, so that no mask is ever drawn or stored.

Polynomials through given knots, in exact rational arithmetic.

Activations of the single neurons that compute a parity (dissertation, §B.4.1, Figure B.14).

All pass through the knots A_k = {(k-2j, (-1)^j) : j = 0..k}, so that the weights w_S = Σ_{i in S} e_i with
bias 0 give sigma(w_S·x) = chi_S(x).

How an affine layer's parameters are drawn (dissertation, §B.4.1).

    uniform      U[-c, c], c = 1/√fan_in            the default of PyTorch's Linear
    glorot       U[-c, c], c = √(6/(fan_in+fan_out))
    gaussian     N(0, 2/fan_in)                     Kaiming
    bernoulli    ±1/√fan_in
    normal       N(0, 1)       \
    signs        ±1             }                   the disjoint-PolyNet theory (§5.4.2)
    ones         1             /

The source says "Xavier convention, the package default" for the uniform one, which names two things:
`uniform` is the package's default, `glorot` is Xavier's. Weights and biases are drawn alike.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from krogh.errors import require, unknown
from krogh.tasks.bits import GOLDEN, mixed, stream

Polynomial = tuple[Fraction, ...]
"""Coefficients, lowest first."""


@functools.cache
def oscillating_interpolant(k: int) -> Polynomial:
    """The polynomial of degree k through (k-2j, (-1)^j), j = 0..k, exactly, by Lagrange's formula.

    k = 2: (z²-2)/2; k = 3: (z³-7z)/6.
    """
    knots = [Fraction(k - 2 * j) for j in range(k + 1)]
    total = [Fraction(0)] * (k + 1)
    for j, knot in enumerate(knots):
        others = knots[:j] + knots[j + 1 :]
        height = (-1) ** j / math.prod((knot - other for other in others), start=Fraction(1))
        total = [a + height * b for a, b in zip(total, from_roots(others), strict=True)]
    return tuple(total)


def from_roots(roots: Sequence[Fraction]) -> Polynomial:
    """The coefficients of ∏ (z - root)."""
    polynomial = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *polynomial]
        polynomial = [a - root * b for a, b in zip(shifted, [*polynomial, Fraction(0)], strict=True)]
    return tuple(polynomial)


NEURON_ACTIVATIONS = ("zigzag", "polynomial", "infinite-zigzag", "sine")


def infinite_zigzag(z: Float[Array, "*shape"], k: int) -> Float[Array, "*shape"]:
    """The triangle wave through (k-2j, (-1)^j) for all integers j: |((z-k) mod 4) - 2| - 1.

    The printed knots have period 2, on which a sum of k signs would be constant; the period is 4.
    """
    return jnp.abs(jnp.mod(z - k, 4.0) - 2.0) - 1.0


def zigzag(z: Float[Array, "*shape"], k: int, outer: str = "extend") -> Float[Array, "*shape"]:
    """Piecewise-linear interpolation of the knots; beyond them the end segments go on, or are clamped."""
    inside = jnp.clip(z, -k, k)
    wave = infinite_zigzag(inside, k)
    if outer == "clamp":
        return wave
    return wave + jnp.where(z > 0, 1.0, -((-1.0) ** k)) * (z - inside)


def oscillating_coefficients(k: int) -> tuple[float, ...]:
    """Coefficients, lowest first, of the polynomial of degree k through the knots, rounded once.

    k = 2: (z²-2)/2; k = 3: (z³-7z)/6. Solving for them in floating point loses all digits from k = 13 on.
    """
    return tuple(float(coefficient) for coefficient in oscillating_interpolant(k))


def oscillating_polynomial(z: Float[Array, "*shape"], k: int) -> Float[Array, "*shape"]:
    """The oscillating polynomial of degree k, by Horner's rule."""
    result = jnp.zeros_like(z)
    for coefficient in reversed(oscillating_coefficients(k)):
        result = result * z + coefficient
    return result


def sine(z: Float[Array, "*shape"], k: int, scale: float = 1.0) -> Float[Array, "*shape"]:
    """sin(π·scale·z/2 + β) with β = π(1-k)/2. The source's figures use scale 2 (solution w_S/2)."""
    return jnp.sin(0.5 * math.pi * scale * z + 0.5 * math.pi * (1 - k))


INITIALISERS = ("uniform", "glorot", "gaussian", "bernoulli", "normal", "signs", "ones")


def check_initialiser(name: str) -> None:
    if name not in INITIALISERS:
        raise unknown("initialiser", name, INITIALISERS)


def initialise(name: str, key: PRNGKeyArray, shape: tuple[int, ...], fan_in: int, fan_out: int = 1) -> Array:
    """An array of `shape` drawn by the initialiser `name`."""
    if name in ("uniform", "glorot"):
        bound = 1 / math.sqrt(fan_in) if name == "uniform" else math.sqrt(6 / (fan_in + fan_out))
        return jax.random.uniform(key, shape, jnp.float32, -bound, bound)
    if name == "gaussian":
        return math.sqrt(2 / fan_in) * jax.random.normal(key, shape, jnp.float32)
    if name == "normal":
        return jax.random.normal(key, shape, jnp.float32)
    if name in ("bernoulli", "signs"):
        scale = 1 / math.sqrt(fan_in) if name == "bernoulli" else 1.0
        return scale * jax.random.rademacher(key, shape, jnp.float32)
    if name == "ones":
        return jnp.ones(shape, jnp.float32)
    raise unknown("initialiser", name, INITIALISERS)


def initialise_all(
    name: str, key: PRNGKeyArray, layers: Mapping[str, tuple[tuple[int, ...], int]], others: Mapping[str, str]
) -> dict[str, Array]:
    """Arrays of `layers` = {name: (shape, fan_in)} drawn by the initialiser `name`, or by one of `others` by array."""
    keys = jax.random.split(key, len(layers))
    return {
        array: initialise(others.get(array, name), one, shape, fan_in, shape[-1])
        for one, (array, (shape, fan_in)) in zip(keys, layers.items(), strict=True)
    }


def check_rate(name: str, rate: float) -> None:
    """Require a share of units to drop in [0, 1)."""
    number = isinstance(rate, int | float) and not isinstance(rate, bool)
    require(number and 0.0 <= rate < 1.0, f"{name} is a share in [0, 1); got {name}={rate!r}")


def kept(
    noise: UInt32[Array, ""], place: int, shape: tuple[int, ...], rate: float, order: tuple[int, ...] | None = None
) -> Float[Array, "*shape"]:
    """A mask of `shape`: 0 with probability `rate`, else 1/(1 - rate). `place` tells the masks of a step apart.

    Places are counted along the axes in `order`. The axis of examples must come first there: a batch has as many rows
    as the largest sample of the cohort, and the mask of an example may not depend on how many follow it.
    """
    words = stream(mixed(noise + jnp.uint32(place * GOLDEN % 2**32)), shape, order)
    threshold = jnp.uint32(round(rate * 2**32))
    return jnp.where(words < threshold, jnp.float32(0.0), jnp.float32(1 / (1 - rate)))
