"""Fourier analysis of functions on the cube {-1,+1}^n and of gradients there, exact by enumeration, in float64.

Order of the cube, used everywhere in this module: row `r` of the cube (0 <= r < 2^n) has coordinate `i` equal
to -1 where bit `i` of `r` is set (bit 0 is the least significant) and +1 otherwise. Row 0 is all +1. A subset
`S` of {0, ..., n-1} is numbered by its mask, the sum of 2^i over i in S, so that

    chi_S(row r) = (-1)^popcount(r & mask(S)),

and a table of values and the table of its Fourier coefficients are indexed alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.theory.prediction import check_parity, prediction

LARGEST_N = 24
"""Largest number of coordinates that is enumerated: 2^24 float64 values are 128 MiB."""

Array = NDArray[np.float64]


def cube(n: int) -> Array:
    """All points of {-1,+1}^n, one per row, in the order of this module; shape (2^n, n)."""
    _require_enumerable(n)
    bits = (np.arange(2**n)[:, None] >> np.arange(n)[None, :]) & 1
    return np.asarray(1.0 - 2.0 * bits, dtype=np.float64)


def subset_mask(subset: Iterable[int], n: int) -> int:
    """The number of a subset of {0, ..., n-1}: the sum of 2^i over its elements."""
    members = list(subset)
    for i in members:
        require_integer("element of the subset", i, 0, n - 1)
    require(len(set(members)) == len(members), f"a subset has no repeated elements; got {members}")
    return sum(1 << int(i) for i in members)


def walsh_hadamard(table: ArrayLike) -> Array:
    """The unnormalised Walsh-Hadamard transform along the last axis, in n 2^n additions.

        out[mask(S)] = sum_r table[r] chi_S(row r)

    It is its own inverse up to the factor 2^n. Leading axes are transformed side by side.
    """
    values = np.array(table, dtype=np.float64)
    _log2_length(values)
    lead, length = values.shape[:-1], values.shape[-1]
    half = 1
    while half < length:
        pairs = values.reshape(*lead, length // (2 * half), 2, half)
        plus, minus = pairs[..., 0, :], pairs[..., 1, :]
        values = np.stack([plus + minus, plus - minus], axis=-2).reshape(*lead, length)
        half *= 2
    return values


def fourier_coefficients(table: ArrayLike) -> Array:
    """All Fourier coefficients of a function given by its values on the cube.

        f^(S) = E[f(x) chi_S(x)], stored at index mask(S)

    Source: dissertation, section B.1.1, eq. (B.2).
    """
    transformed = walsh_hadamard(table)
    return transformed / transformed.shape[-1]


def neighbour_coefficients(table: ArrayLike, support: Iterable[int]) -> Array:
    """The coefficients that a gradient sees: entry i is f^(S with i toggled); shape (n,).

    For i in S this is f^(S minus i), of degree k-1; for i outside S it is f^(S plus i), of degree k+1.
    """
    coefficients = fourier_coefficients(table)
    require(coefficients.ndim == 1, f"one table of values is needed; got shape {coefficients.shape}")
    n = _log2_length(coefficients)
    return coefficients[subset_mask(support, n) ^ (1 << np.arange(n))]


def fourier_gap(gradient: ArrayLike, support: Iterable[int]) -> float:
    """The largest gamma for which there is a gamma-Fourier gap at S; negative where there is none.

        min_{i in S} |g_i| - max_{j not in S} |g_j|,  g_i = f^(S with i toggled)

    g are the `neighbour_coefficients` of a function, or a population gradient. Source: dissertation, Definition 5.4.
    """
    relevant, irrelevant = _split(gradient, support)
    return float(relevant.min() - irrelevant.max())


def relaxed_gap(gradient: ArrayLike, support: Iterable[int]) -> float:
    """The relaxed Fourier gap: max_{i in S} |g_i| - max_{i not in S} |g_i|.

    Where it is positive, at least one relevant coordinate stands out. Source: dissertation, section B.3.1.
    """
    relevant, irrelevant = _split(gradient, support)
    return float(relevant.max() - irrelevant.max())


def correlation(table: ArrayLike, support: Iterable[int]) -> float:
    """E[f chi_S] / sqrt(E[f^2]) of a function given by its values on the cube; 1 for a multiple of the parity."""
    values = np.asarray(table, dtype=np.float64)
    require(values.ndim == 1, f"one table of values is needed; got shape {values.shape}")
    size = float(np.sqrt(np.mean(values**2)))
    require(size > 0, "a function that is zero everywhere correlates with nothing")
    return float(fourier_coefficients(values)[subset_mask(support, _log2_length(values))]) / size


def preactivations(weights: ArrayLike, bias: float = 0.0) -> Array:
    """w.x + b for every x of the cube, in 2^n additions and without building the cube; shape (2^n,)."""
    w = np.asarray(weights, dtype=np.float64)
    require(w.ndim == 1, f"the weights of one neuron are a vector; got shape {w.shape}")
    _require_enumerable(len(w))
    sums = np.array([bias], dtype=np.float64)
    for weight in w:  # coordinate i is bit i, so each round doubles the table: first +1, then -1
        sums = np.concatenate([sums + weight, sums - weight])
    return sums


def population_gradient(
    weights: ArrayLike,
    support: Iterable[int],
    derivative: Callable[[Array], ArrayLike],
    *,
    bias: float = 0.0,
) -> Array:
    """g = E[y x s'(w.x + b)] for the parity y = chi_S(x), exactly; shape (n,).

    `derivative` is s', applied to an array of preactivations (`heaviside` for a ReLU, `numpy.cos` for a
    sine). The gradient of the correlation loss -y f is -g. Source: dissertation, section B.3.1.
    """
    return neighbour_coefficients(derivative(preactivations(weights, bias)), support)


def heaviside(z: Array) -> Array:
    """The derivative of the ReLU, 1[z > 0]; zero at zero."""
    return (z > 0).astype(np.float64)


DERIVATIVES: dict[str, Callable[[Array], Array]] = {"relu": heaviside, "sine": np.cos}
"""The derivative s' of each activation of a neuron."""


@prediction(
    "parity/gradient-gap",
    source="dissertation, Definition 5.4, section B.3.1 and Figures B.7 and B.8",
    constants="all explicit: exact by enumeration of the cube, for weights drawn with the seed",
)
def gradient_gap(
    n: int,
    k: int,
    activation: Literal["relu", "sine"] = "relu",
    weights: Literal["signs", "uniform", "gaussian"] = "uniform",
    bias: float = 0.0,
    draws: int = 1,
    seed: int = 0,
) -> dict[str, Any]:
    """Fourier gaps of the population gradient of one neuron at random weights: whether it points at the support.

        g_i = E[y x_i s'(w.x + b)];   gap min_{i in S} |g_i| - max_{j not in S} |g_j|;   relaxed gap max - max

    `weights` are signs, uniform on [-1, 1] or standard Gaussian, all divided by sqrt(n); `gaps` and `relaxed_gaps` have
    a number per draw, `all_ones` is the gap at equal weights, half of majority's for a ReLU, odd n and k > 1.
    """
    check_parity(n, k)
    require_integer("n", n, 2, LARGEST_N)
    require(k < n, f"a gap needs an irrelevant coordinate, k < n; got n={n}, k={k}")
    require_integer("draws", draws, 1)
    require_integer("seed", seed, 0)
    for name, given, kind in (("activation", activation, DERIVATIVES), ("weights", weights, _DRAWN)):
        require(given in kind, f"{name} must be one of {', '.join(kind)}; got {name}={given!r}")
    rng = np.random.default_rng(seed)
    drawn = _DRAWN[weights](rng, (draws, n)) / np.sqrt(float(n))
    support, slope = range(k), DERIVATIVES[activation]
    gradients = [population_gradient(w, support, slope, bias=bias) for w in drawn]
    relaxed = [relaxed_gap(gradient, support) for gradient in gradients]
    return {
        "gaps": [fourier_gap(gradient, support) for gradient in gradients],
        "relaxed_gaps": relaxed,
        "relaxed_positive": float(np.mean(np.array(relaxed) > 0)),
        "all_ones": fourier_gap(
            population_gradient(np.full(n, 1 / np.sqrt(float(n))), support, slope, bias=bias), support
        ),
    }


_DRAWN: dict[str, Callable[[np.random.Generator, tuple[int, int]], Array]] = {
    "signs": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
    "uniform": lambda rng, shape: rng.uniform(-1, 1, shape),
    "gaussian": lambda rng, shape: rng.standard_normal(shape),
}


def _split(gradient: ArrayLike, support: Iterable[int]) -> tuple[Array, Array]:
    """Magnitudes of the gradient on the support and off it."""
    magnitude = np.abs(np.asarray(gradient, dtype=np.float64))
    require(magnitude.ndim == 1, f"a gradient is a vector; got shape {magnitude.shape}")
    members, n = list(support), len(magnitude)
    subset_mask(members, n)
    require(0 < len(members) < n, f"a gap needs 1 to n-1={n - 1} relevant coordinates out of {n}; got {members}")
    inside = np.zeros(n, dtype=bool)
    inside[members] = True
    return magnitude[inside], magnitude[~inside]


def _log2_length(values: NDArray[np.float64]) -> int:
    length = values.shape[-1] if values.ndim else 0
    is_power = length > 0 and length & (length - 1) == 0
    require(is_power, f"a table over the cube has 2^n entries; got {length} (shape {values.shape})")
    return length.bit_length() - 1


def _require_enumerable(n: int) -> None:
    require_integer("n", n, 0, LARGEST_N)
