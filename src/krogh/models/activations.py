"""Activations of the single neurons that compute a parity (dissertation, §B.4.1, Figure B.14).

All pass through the knots A_k = {(k-2j, (-1)^j) : j = 0..k}, so that the weights w_S = Σ_{i in S} e_i with
bias 0 give sigma(w_S·x) = chi_S(x).
"""

from __future__ import annotations

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from krogh.models.interpolation import oscillating_interpolant

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
