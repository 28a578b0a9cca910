"""The all-layer margin in parameter space, and the two losses that go with it (Section 2.1).

    margin    ρ_F(θ, x, y) = min{‖δ‖_2 : (y - 1/2)·F(x, θ + δ) ≤ 0}                                   (2.1)
    0-1 loss  1[(y - 1/2)·z ≤ 0]
    ramp      1 if ρ ≤ 0,  1 - ρ/γ if 0 < ρ ≤ γ,  0 if ρ ≥ γ                                           (2.2)

F is a pure function of a dict of arrays and an input, with one number as output; y is 0 or 1; δ has the shape of θ and
moves *every* entry, zeros included; a shared weight is moved once. ρ is 0 where the output is wrong, never negative,
and moves no faster than θ: |ρ(θ) - ρ(θ')| ≤ ‖θ - θ'‖_2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require
from krogh.theory.precision import double_precision

Array = NDArray[np.float64]
Parameters = dict[str, Array]
Output = Callable[[dict[str, Any], Any], Any]
"""`output(parameters, x)`: a pure function of JAX arrays, differentiable in the parameters, that gives one number."""


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
    return sign_of(y) * value_at(output, perturbed(parameters, perturbation), x) <= 0


def _labels(labels: ArrayLike) -> Array:
    found = np.asarray(labels, np.float64)
    require(np.isin(found, (0.0, 1.0)).all(), f"a label is 0 or 1; got {np.unique(found).tolist()[:5]}")
    return found
