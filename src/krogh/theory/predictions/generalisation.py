"""From covering numbers to generalisation: Dudley's integral, the gap, and the samples that make it small."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from krogh.errors import require, require_integer
from krogh.theory.prediction import prediction
from krogh.theory.predictions.attention_capacity import head_parts
from krogh.theory.predictions.cover_parts import Part, explicit_log_cover, shape_constant
from krogh.theory.predictions.inputs import check_open

Array = NDArray[np.float64]

CHAINING_CONSTANT = 12.0
"""c of Dudley's bound: the standard chaining argument gives 4 delta + 12 times the integral."""

_NODES = 129
"""Scales at which a covering number is asked for; in log eps the integrand is nearly constant."""
_SMALLEST_SCALE = 1e-12
"""Smallest delta tried, relative to the class's bound."""
_MOST_SAMPLES = 2**200


def rademacher_bound(capacity: float, bound: float, samples: float, constant: float = CHAINING_CONSTANT) -> float:
    """Rademacher complexity of a class with log N(eps) <= C_F / eps^2 and |f| <= A (Corollary A.3).

    c sqrt(C_F/m) (1 + log(A sqrt(m/C_F))), at delta = sqrt(C_F/m);  c A where A sqrt(m/C_F) < 1
    """
    root = math.sqrt(capacity / samples)
    return constant * (bound if root >= bound else root * (1 + math.log(bound / root)) if root > 0 else 0.0)


def dudley_bound(
    log_cover: Callable[[Array], Array], bound: float, samples: float, constant: float = CHAINING_CONSTANT
) -> tuple[float, float]:
    """Dudley's bound for any covering number, minimised numerically, and the delta that attains it (Lemma A.2).

        c inf_delta (delta + int_delta^A sqrt(log N(eps) / m) d eps)

    `log_cover` takes an array of scales to log covering numbers that do not increase with the scale. The derivative
    in delta is 1 - sqrt(log N(delta)/m), so the integral is taken, by the trapezoidal rule, from where log N crosses m.
    """
    coarse = bound * np.geomspace(_SMALLEST_SCALE, 1, _NODES)
    below = np.asarray(log_cover(coarse)) < samples
    if not below[-1]:
        return constant * bound, bound
    crossing = int(np.argmax(below))
    scales = np.geomspace(coarse[max(crossing - 1, 0)], bound, 2 * _NODES)
    integrand = scales * np.sqrt(np.asarray(log_cover(scales)) / samples)
    steps = 0.5 * (integrand[1:] + integrand[:-1]) * np.diff(np.log(scales))
    values = scales + np.append(np.cumsum(steps[::-1])[::-1], 0.0)
    best = int(np.argmin(values))
    return constant * float(values[best]), float(scales[best])


def gap_bound(rademacher: float, samples: float, lipschitz: float, loss_bound: float, failure: float) -> float:
    """|risk - empirical risk| of all functions at once, but for a chance of `failure` (Theorem A.4).

    4 L R + 2 b sqrt(log(1/failure) / (2m)), loss L-Lipschitz in the prediction and bounded by b
    """
    return 4 * lipschitz * rademacher + 2 * loss_bound * math.sqrt(math.log(1 / failure) / (2 * samples))


def smallest_samples(gap: Callable[[int], float], target: float) -> float | int:
    """The least m >= 1 with gap(m) <= target, for a gap that falls with m; infinite beyond 2^200."""
    low, high = 0, 1  # too few, and perhaps enough
    while gap(high) > target:
        low, high = high, 8 * high
        if high > _MOST_SAMPLES:
            return math.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if gap(middle) <= target else (middle, high)
    return high


@dataclass(frozen=True)
class HeadRisk:
    """One attention head with a fixed read-out w and a loss, whose bounds are functions of the number of samples m.

    |f| <= A = B_w L_s B_V B_X; the norms are those of `head_parts`, the loss is `loss_lipschitz`-Lipschitz in the
    prediction and bounded by `loss_bound`, and the bounds hold but for a chance of `failure`.
    """

    length: int
    dimension: int
    value: float = 1.0
    value_21: float = 1.0
    query_key_21: float = 1.0
    token_norm: float = 1.0
    query_norm: float = 1.0
    activation_lipschitz: float = 1.0
    readout: float = 1.0
    loss_lipschitz: float = 1.0
    loss_bound: float = 1.0
    failure: float = 0.05
    constant: float = CHAINING_CONSTANT

    def __post_init__(self) -> None:
        require_integer("length", self.length, 1)
        require_integer("dimension", self.dimension, 1)
        check_open("failure", self.failure, 0, 1)
        for name in [field.name for field in fields(self)][2:]:
            check_open(name, getattr(self, name), 0)

    def parts(self, samples: int) -> list[Part]:
        """The maps that a cover of the scalar class is made of, on m T tokens."""
        return head_parts(
            samples * self.length,
            self.dimension,
            value=self.value,
            value_21=self.value_21,
            query_key_21=self.query_key_21,
            token_norm=self.token_norm,
            query_norm=self.query_norm,
            activation_lipschitz=self.activation_lipschitz,
            readout=self.readout,
        )

    @property
    def bound(self) -> float:
        """A, the largest prediction."""
        return self.readout * self.activation_lipschitz * self.value * self.token_norm

    def capacity_shape(self, samples: int) -> float:
        """C_F of log N <= C_F / eps^2, with constant 1: the shape of Corollary 4.9."""
        return shape_constant(self.parts(samples)) * math.log(self.dimension * samples * self.length)

    def rademacher_shape(self, samples: int) -> float:
        """Corollary A.3 with the shape of the capacity."""
        return rademacher_bound(self.capacity_shape(samples), self.bound, samples, self.constant)

    def rademacher_explicit(self, samples: int) -> float:
        """Dudley's integral over the explicit covering number."""
        parts = self.parts(samples)
        return dudley_bound(lambda eps: explicit_log_cover(parts, eps), self.bound, samples, self.constant)[0]

    def gap(self, rademacher: float, samples: int) -> float:
        """Theorem A.4 for this loss."""
        return gap_bound(rademacher, samples, self.loss_lipschitz, self.loss_bound, self.failure)


@prediction(
    "attention/generalisation",
    source="dissertation, Lemmas A.2 and A.5, Corollary A.3, Theorem A.4",
    constants="'explicit' has every constant, with c = 12 of the chaining bound; the shapes hide a constant in C_F",
)
def generalisation(
    length: int,
    samples: int,
    dimension: int,
    value: float = 1.0,
    value_21: float = 1.0,
    query_key_21: float = 1.0,
    token_norm: float = 1.0,
    query_norm: float = 1.0,
    activation_lipschitz: float = 1.0,
    readout: float = 1.0,
    loss_lipschitz: float = 1.0,
    loss_bound: float = 1.0,
    failure: float = 0.05,
    constant: float = CHAINING_CONSTANT,
) -> dict[str, Any]:
    """Gap between risk and empirical risk for one attention head with a fixed read-out: about sqrt(log T / m).

        gap <= 4 L_loss R + 2 b sqrt(log(1/failure) / (2m)),  R <= c sqrt(C_F/m) (1 + log(A sqrt(m/C_F)))

    A = B_w L_s B_V B_X bounds the prediction. `capacity_shape` = C_F is the shape of Corollary 4.9 without eps^2;
    `gap_explicit` integrates the explicit covering number numerically. `vacuous`: the explicit gap is no smaller
    than the loss bound, as it is for any realistic number of samples.
    """
    require_integer("samples", samples, 1)
    head = HeadRisk(
        length=length,
        dimension=dimension,
        value=value,
        value_21=value_21,
        query_key_21=query_key_21,
        token_norm=token_norm,
        query_norm=query_norm,
        activation_lipschitz=activation_lipschitz,
        readout=readout,
        loss_lipschitz=loss_lipschitz,
        loss_bound=loss_bound,
        failure=failure,
        constant=constant,
    )
    rough, explicit = head.rademacher_shape(samples), head.rademacher_explicit(samples)
    return {
        "capacity_shape": head.capacity_shape(samples),
        "prediction_bound": head.bound,
        "rademacher_shape": rough,
        "gap_shape": head.gap(rough, samples),
        "rademacher_explicit": explicit,
        "gap_explicit": head.gap(explicit, samples),
        "vacuous": head.gap(explicit, samples) >= loss_bound,
    }


@prediction(
    "attention/sample-size",
    source="dissertation, Lemma A.5 with Corollary 4.9, inverted",
    constants="'samples_explicit' has every constant, with c = 12; 'samples_shape' hides a constant in C_F",
)
def sample_size(
    target: float,
    length: int,
    dimension: int,
    value: float = 1.0,
    value_21: float = 1.0,
    query_key_21: float = 1.0,
    token_norm: float = 1.0,
    query_norm: float = 1.0,
    activation_lipschitz: float = 1.0,
    readout: float = 1.0,
    loss_lipschitz: float = 1.0,
    loss_bound: float = 1.0,
    failure: float = 0.05,
    constant: float = CHAINING_CONSTANT,
) -> dict[str, Any]:
    """Samples at which the generalisation gap of one attention head is guaranteed to be at most `target`.

        least m with the bound of "attention/generalisation" at most target:  C_F / target^2 up to logs, so log T

    Found by bisection. Orders of magnitude above what training needs: only the growth with T is of use.
    """
    check_open("target", target, 0)
    head = HeadRisk(
        length=length,
        dimension=dimension,
        value=value,
        value_21=value_21,
        query_key_21=query_key_21,
        token_norm=token_norm,
        query_norm=query_norm,
        activation_lipschitz=activation_lipschitz,
        readout=readout,
        loss_lipschitz=loss_lipschitz,
        loss_bound=loss_bound,
        failure=failure,
        constant=constant,
    )
    require(
        dimension * length >= 3,
        f"log(d m T)/m falls with m only for d*T at least 3; got dimension={dimension}, length={length} (try length=3)",
    )
    return {
        "samples_shape": smallest_samples(lambda m: head.gap(head.rademacher_shape(m), m), target),
        "samples_explicit": smallest_samples(lambda m: head.gap(head.rademacher_explicit(m), m), target),
    }
