"""Gradient descent that cannot see its target: adversarial noise within a tolerance, and the trajectory it enforces.

Proposition 6.3. Descent on the loss (y - h)²/2 with noise of at most tau in every coordinate,

    theta_{t+1} = theta_t - eta (grad L(theta_t) + xi_t),   |xi_t| <= tau,

against an adversary that answers as if the target were zero, xi_t = clip(grad L_0 - grad L, -tau, tau). Where chi_S
differs from the zero target by at most tau in every coordinate of the gradient, |E[chi_S d_i h]| <= tau along the
target-free trajectory theta*, the iterates are theta* whatever S is: S is invisible. By Parseval few S are visible.

A function is given by its values on the cube and their slopes: theta -> (h of shape (2^n,), d h of shape (P, 2^n)), in
the order of `krogh.theory.boolean.fourier`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from krogh.errors import require, require_integer
from krogh.theory.boolean.fourier import cube, fourier_coefficients, subset_mask
from krogh.theory.prediction import check_open, check_parity, is_number, prediction

Array = NDArray[np.float64]
Function = Callable[[Array], tuple[Array, Array]]

MOST_BITS = 18
"""Of a trajectory: every step transforms a table of 2^n entries for each parameter."""


def relu_neuron(n: int) -> Function:
    """h = relu(w·x) without bias, whose slopes 1[w·x > 0] x_i are at most 1."""
    points = cube(n)

    def values(w: Array) -> tuple[Array, Array]:
        before = points @ w
        return np.maximum(before, 0.0), (points * (before > 0)[:, None]).T

    return values


def target_free_gradient(function: Function, theta: Array) -> Float[Array, " parameters"]:
    """The gradient of E[(0 - h)²]/2, which knows of no target: E[h d_i h]."""
    values, slopes = function(theta)
    return slopes @ values / values.size


def target_free_trajectory(
    function: Function, start: Array, rate: float, steps: int
) -> Float[Array, "steps+1 parameters"]:
    """theta*_0, ..., theta*_T: descent on the whole cube, without noise, towards the zero function."""
    thetas = [np.asarray(start, np.float64)]
    for _ in range(steps):
        thetas.append(thetas[-1] - rate * target_free_gradient(function, thetas[-1]))
    return np.stack(thetas)


def visibility(function: Function, trajectory: Float[Array, "steps parameters"]) -> Float[Array, " subsets"]:
    """D_S = max over i and t of |E[chi_S d_i h]| for every subset S at once, by its mask; (2^n,)."""
    spectra = (np.abs(fourier_coefficients(function(theta)[1])).max(axis=0) for theta in trajectory)
    largest = next(spectra)
    for spectrum in spectra:
        largest = np.maximum(largest, spectrum)
    return largest


def adversarial_descent(
    function: Function,
    start: Array,
    support: Iterable[int],
    rate: float,
    steps: int,
    tolerance: float,
    samples: int | None = None,
    seed: int = 0,
) -> Float[Array, "steps+1 parameters"]:
    """Descent on chi_S under the adversary's noise, on the whole cube or on `samples` fresh inputs in every step."""
    within = is_number(tolerance) and tolerance >= 0
    require(within, f"tolerance must be a number of at least 0; got tolerance={tolerance!r}")
    thetas, rng = [np.asarray(start, np.float64)], np.random.default_rng(seed)
    target: Array | None = None
    for _ in range(steps):
        values, slopes = function(thetas[-1])
        if target is None:
            target = _parity(values.size.bit_length() - 1, support)
        free = slopes @ values / values.size
        rows = slice(None) if samples is None else rng.integers(values.size, size=samples)
        residual = values[rows] - target[rows]
        gradient = slopes[:, rows] @ residual / residual.size
        noise = np.clip(free - gradient, -tolerance, tolerance)
        thetas.append(thetas[-1] - rate * (gradient + noise))
    return np.stack(thetas)


def subset_sizes(n: int) -> NDArray[np.int64]:
    """|S| of every subset, by its mask; (2^n,)."""
    return np.bitwise_count(np.arange(2**n, dtype=np.uint32)).astype(np.int64)


def invisible_at_least(parameters: int, steps: int, tolerance: float, n: int, k: int) -> float:
    """The share of (n,k)-parities that must be invisible: 1 - P T/(tau² C(n,k)), where slopes are at most 1."""
    return 1 - parameters * steps / (tolerance**2 * math.comb(n, k))


@prediction(
    "parity/invisible-parities",
    source="dissertation, Proposition 6.3, Lemma C.1 and section C.2.1",
    constants="all explicit: exact by enumeration of the cube, for a start drawn with the seed",
)
def invisible_parities(
    n: int, k: int, tolerance: float = 0.05, steps: int = 10, rate: float = 0.1, seed: int = 0
) -> dict[str, Any]:
    """The share of k-parities that noise of a given size hides from one ReLU neuron, beside what must be hidden.

        invisible: max_{i,t} |E[chi_S d_i h]| <= tau along theta*;   at least 1 - P T/(tau² C(n,k)) of all S

    h = relu(w·x), P = n parameters, w uniform on ±1/sqrt(n); square loss. The bound is vacuous for P T >= tau² C(n,k).
    """
    check_parity(n, k)
    require_integer("n", n, 1, MOST_BITS)
    require_integer("steps", steps, 1)
    require_integer("seed", seed, 0)
    check_open("tolerance", tolerance, 0)
    check_open("rate", rate, 0)
    function = relu_neuron(n)
    path = target_free_trajectory(function, uniform_start(n, seed), rate, steps)
    seen = visibility(function, path[:-1])[subset_sizes(n) == k]
    return {
        "parities": int(seen.size),
        "invisible": float(np.mean(seen <= tolerance)),
        "at_least": invisible_at_least(n, steps, tolerance, n, k),
        "largest_signal": float(seen.max()),
        "mean_squared_signal": float(np.mean(seen**2)),
    }


def uniform_start(n: int, seed: int) -> Float[Array, " n"]:
    """Weights uniform on ±1/sqrt(n)."""
    return np.random.default_rng(seed).uniform(-1, 1, n) / math.sqrt(n)


def _parity(n: int, support: Iterable[int]) -> Array:
    mask = subset_mask(support, n)
    return 1.0 - 2.0 * (np.bitwise_count(np.arange(2**n, dtype=np.uint32) & np.uint32(mask)) & 1)
