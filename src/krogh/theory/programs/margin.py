"""The all-layer margin in parameter space, its losses, and the toy chain whose margin is known (Sections 2.1 and 3.1).

    margin    ρ_F(θ, x, y) = min{‖δ‖_2 : (y - 1/2)·F(x, θ + δ) ≤ 0}                                   (2.1)
    0-1 loss  1[(y - 1/2)·z ≤ 0]
    ramp      1 if ρ ≤ 0,  1 - ρ/γ if 0 < ρ ≤ γ,  0 if ρ ≥ γ                                           (2.2)

F is a pure function of a dict of arrays and an input, with one number as output; y is 0 or 1; δ has the shape of θ and
moves *every* entry, zeros included; a shared weight is moved once. ρ is 0 where the output is wrong, never negative,
and moves no faster than θ: |ρ(θ) - ρ(θ')| ≤ ‖θ - θ'‖_2.

The toy chain shows what rounding between the layers does for it, at W = 1, x = 1, y = 1:

    plain     f(x) = W_d ... W_1 x - 1/2                       ρ = √d (1 - 2^{-1/d})
    rounded   f(x) = round(W_d ... round(W_1 x)) - 1/2        (3.1)

Each rounding ζ(h) = φ(V_2·φ(V_1 h + c_1) + c_2) has V_1 = (1, 1), c_1 = (-1/3, -2/3), V_2 = (3, -3), c_2 = 0; Claim 3.5
keeps these seven numbers frozen, and then ρ ≥ 1/3. Left free they are attacked first, and ρ is about 0.0776, still
whatever the depth. The values of the rounded chain are minima of a smooth program, found by continuation in the depth;
with frozen roundings `rounded_enclosure` proves them by dynamic programming.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from krogh.errors import require, require_integer
from krogh.theory.numerics import double_precision

Array = NDArray[np.float64]
Parameters = dict[str, Array]
Output = Callable[[dict[str, Any], Any], Any]
"""`output(parameters, x)`: a pure function of JAX arrays, differentiable in the parameters, that gives one number."""

ROUNDING = {"V1": (1.0, 1.0), "c1": (-1 / 3, -2 / 3), "V2": (3.0, -3.0), "c2": (0.0,)}
"""The parameters of one rounding of one number (Proposition 3.4)."""

_LAYER = np.array([1.0, *(entry for values in ROUNDING.values() for entry in values)])
"""One layer of the rounded chain as a row of eight: W, V_1, c_1, V_2, c_2."""

_SETTLED = 1e-6
"""Deeper chains are no longer solved once a layer more lowers the margin by less than this."""


def zero_one_loss(outputs: ArrayLike, labels: ArrayLike) -> Array:
    """1[(y - 1/2) z ≤ 0] of every output z and label y in {0, 1}; an output of 0 is an error."""
    z, y = np.asarray(outputs, np.float64), _labels(labels)
    return np.asarray((y - 0.5) * z <= 0, np.float64)


def ramp_loss(margins: ArrayLike, gamma: float) -> Array:
    """ℓ_γ of (2.2) of every all-layer margin: 1 at 0, falling with slope 1/γ to 0 at γ. At least the 0-1 loss."""
    require(gamma > 0 and math.isfinite(gamma), f"gamma must be a positive number; got gamma={gamma!r}")
    return np.clip(1 - np.asarray(margins, np.float64) / gamma, 0.0, 1.0)


def sign_of(label: Any) -> float:
    """+1 for the label 1 and -1 for the label 0: the sign that a right output has."""
    return float(2 * _labels(label) - 1)


def perturbation_norm(perturbation: Mapping[str, ArrayLike]) -> float:
    """‖δ‖_2 over all arrays."""
    return math.sqrt(sum(float(np.sum(np.square(np.asarray(array)))) for array in perturbation.values()))


def perturbed(parameters: Mapping[str, ArrayLike], perturbation: Mapping[str, ArrayLike]) -> Parameters:
    """θ + δ, in NumPy and float64; the names and the shapes must be the same."""
    found: Parameters = {}
    require(
        parameters.keys() == perturbation.keys(),
        "a perturbation has the names of the parameters; these differ: "
        f"{', '.join(sorted(parameters.keys() ^ perturbation.keys()))}",
    )
    for name, array in parameters.items():
        value, change = np.asarray(array, np.float64), np.asarray(perturbation[name], np.float64)
        require(
            value.shape == change.shape, f"{name} has the shape {value.shape} and its perturbation has {change.shape}"
        )
        found[name] = value + change
    return found


def value_at(output: Output, parameters: Mapping[str, ArrayLike], x: Any) -> float:
    """F(x, θ) in float64."""
    with double_precision():
        return float(output({name: np.asarray(array, np.float64) for name, array in parameters.items()}, x))


def flips(
    output: Output, parameters: Mapping[str, ArrayLike], perturbation: Mapping[str, ArrayLike], x: Any, y: Any
) -> bool:
    """Whether (y - 1/2)·F(x, θ + δ) ≤ 0: whether ‖δ‖ bounds the margin from above."""
    return bool(zero_one_loss(value_at(output, perturbed(parameters, perturbation), x), y))


def _labels(labels: ArrayLike) -> Array:
    found = np.asarray(labels, np.float64)
    require(np.isin(found, (0.0, 1.0)).all(), f"a label is 0 or 1; got {np.unique(found).tolist()[:5]}")
    return found


@dataclass(frozen=True, eq=False)
class ChainMargin:
    """The all-layer margin `value` of a chain of d layers, and a perturbation of that norm that brings f to 0.

    `perturbation` [d, 8] has a row per layer: W, V_1 (2), c_1 (2), V_2 (2), c_2; [d, 1] for the plain chain.
    """

    value: float
    perturbation: Array


def chain_parameters(depth: int, rounded: bool = False) -> Parameters:
    """W = 1 as "chain.W" [d], and of the roundings "round.V1", "round.c1", "round.V2" [d, 2] and "round.c2" [d, 1]."""
    require_integer("depth", depth, 1)
    found: Parameters = {"chain.W": np.ones(depth)}
    if rounded:
        found |= {f"round.{name}": np.tile(np.array(values), (depth, 1)) for name, values in ROUNDING.items()}
    return found


def chain_output(parameters: dict[str, Any], x: Any) -> Any:
    """f(x) of the plain chain, or of the rounded one where the roundings are among the parameters."""
    if "round.V1" not in parameters:
        return jnp.prod(parameters["chain.W"]) * x - 0.5

    def layer(h: Any, p: tuple[Any, ...]) -> tuple[Any, None]:
        w, v1, c1, v2, c2 = p
        return jax.nn.relu(jnp.dot(v2, jax.nn.relu(v1 * (w * h) + c1)) + c2[0]), None

    names = ("chain.W", "round.V1", "round.c1", "round.V2", "round.c2")
    start = jnp.asarray(x, parameters["chain.W"].dtype)
    return jax.lax.scan(layer, start, tuple(jnp.asarray(parameters[name]) for name in names))[0] - 0.5


def plain_margin(depth: int) -> ChainMargin:
    """√d (1 - 2^{-1/d}), about ln 2/√d: all weights shrink to 2^{-1/d}.

    A stationary point of Σ(1 - w)² on Π w = 1/2 has w(1 - w) equal for all i, so each weight is some w or 1 - w; one of
    1 - w ≤ 1/2 already costs 1/2, which is what shrinking one weight alone costs.
    """
    require_integer("depth", depth, 1)
    each = -math.expm1(-math.log(2) / depth)
    return ChainMargin(math.sqrt(depth) * each, np.full((depth, 1), -each))


def rounded_margin(depth: int, free: bool = False) -> ChainMargin:
    """The margin of (3.1), with the parameters of the roundings frozen as in Claim 3.5, or free to move too.

    Frozen: 0.5, 0.4918, 0.4908, 0.4907, ... for d = 1, 2, 3, 4, ..., never below 1/3. It falls with d, because a layer
    that is not moved may stand in front (1 becomes 1) or behind (1/2 becomes 1/2).
    """
    require_integer("depth", depth, 1)
    found = _solutions(free)
    solved = found[min(depth, len(found)) - 1]
    padded = np.concatenate([np.zeros((depth - len(solved), len(_LAYER))), solved])
    return ChainMargin(float(np.linalg.norm(padded)), padded)


def rounded_enclosure(depth: int, points: int = 1500) -> tuple[float, float]:
    """Bounds from below and above on the margin of (3.1) with frozen roundings, by dynamic programming on a grid.

    V_k(a) = least Σ(1 - w)² that brings the value a to at most 1/2 in k layers. It rises with a; to come from a to at
    most b < 1 costs (1 - (1+b)/(3a))_+², to stay at most 1 costs nothing. Rounding b up to the grid in the cost and
    down in V bounds from below, grid points alone bound from above.
    """
    require_integer("depth", depth, 1)
    require_integer("points", points, 10)
    grid = np.linspace(0.0, 1.0, points + 1)
    safe = np.maximum(grid, 1e-300)
    cost = np.square(np.maximum(0.0, 1 - (1 + grid[None, :]) / (3 * safe[:, None])))
    last = np.square(np.maximum(0.0, 1 - 0.5 / safe))
    low, high = last, last
    for _ in range(depth - 1):
        before = low, high
        low = np.minimum(low[-1], np.min(cost[:, 1:] + low[None, :-1], axis=1))
        high = np.minimum(high[-1], np.min(cost[:, :-1] + high[None, :-1], axis=1))
        if np.array_equal(before, (low, high)):  # and so for every further layer
            break
    return math.sqrt(low[-1]), math.sqrt(high[-1])


@lru_cache(maxsize=2)
def _solutions(free: bool) -> tuple[Array, ...]:
    """The least perturbations [d, 8] for d = 1, 2, ... until another layer no longer matters.

    Each depth starts from the solutions of the one before with a layer of zeros in front or behind, where the
    constraint still holds, and the two best are kept, because the better of two starts need not stay so.
    """
    movable = np.ones(8, np.bool_) if free else np.arange(8) == 0
    pool = [_least(-0.5 * np.eye(1, 8), movable)]
    found = [pool[0]]
    while len(found) < 2 or np.linalg.norm(found[-2]) - np.linalg.norm(found[-1]) > _SETTLED:
        zero = np.zeros((1, 8))
        starts = [start for kept in pool for start in (np.concatenate([zero, kept]), np.concatenate([kept, zero]))]
        pool = sorted((_least(start, movable) for start in starts), key=np.linalg.norm)[:2]
        found.append(pool[0])
    return tuple(found)


def _least(start: Array, movable: NDArray[np.bool_]) -> Array:
    """A local minimum of ‖δ‖² on f ≤ 0, from `start` [d, 8], where f ≤ 0; made feasible to the last digit."""
    shape = start.shape
    mask = np.broadcast_to(movable, shape).ravel()
    # off the point where a layer that is not moved would stay so
    nudged = start.ravel() - 1e-4 * np.cos(np.arange(start.size))

    def whole(entries: Array) -> Array:
        found = np.zeros(mask.size)
        found[mask] = entries
        return found.reshape(shape)

    seen: dict[bytes, tuple[float, Array]] = {}

    def value_and_slope(entries: Array) -> tuple[float, Array]:  # asked for the value and for the slope in turn
        key = entries.tobytes()
        if key not in seen:
            seen.clear()
            value, slope = _value_and_slope(whole(entries))
            seen[key] = -value, -slope.ravel()[mask]
        return seen[key]

    result = minimize(
        lambda v: (v @ v, 2 * v),
        nudged[mask],
        jac=True,
        method="SLSQP",
        constraints={
            "type": "ineq",
            "fun": lambda v: value_and_slope(v)[0],
            "jac": lambda v: value_and_slope(v)[1],
        },
        options={"maxiter": 500, "ftol": 1e-13},
    )
    scaled = (whole((1 + excess) * result.x) for excess in (0, *np.logspace(-16, -3, 53)))
    return min([start, *(point for point in scaled if _value_and_slope(point)[0] <= 0)], key=np.linalg.norm)


def _value_and_slope(perturbation: Array) -> tuple[float, Array]:
    """f(1) of the rounded chain with the perturbation [d, 8], and its gradient."""
    layers = _LAYER + perturbation
    h, kept = 1.0, []
    for w, v1, v2, c1, c2, s1, s2, c in layers:
        z = w * h
        inner = (max(v1 * z + c1, 0.0), max(v2 * z + c2, 0.0))
        outer = s1 * inner[0] + s2 * inner[1] + c
        kept.append((h, z, inner, outer))
        h = max(outer, 0.0)
    slope, back = np.zeros_like(layers), 1.0
    for row, (before, z, inner, outer), (w, v1, v2, _, _, s1, s2, _) in zip(
        slope[::-1], kept[::-1], layers[::-1], strict=True
    ):
        back *= outer > 0
        first, second = back * s1 * (inner[0] > 0), back * s2 * (inner[1] > 0)
        by_z = first * v1 + second * v2
        row[:] = (by_z * before, first * z, second * z, first, second, back * inner[0], back * inner[1], back)
        back = by_z * w
    return h - 0.5, slope
