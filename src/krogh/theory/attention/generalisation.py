"""The norms of a trained Transformer, and the generalisation gap that chapter 4's bounds promise for them (§4.4, §A.1).

The bounds are of a sum of heads with a fixed linear read-out, so what is inserted is the attention layer of the
"sparse-transformer" and its read-out w = U_1 - U_0: residual connection, MLP and later norms are outside the class, and
so are trained positions, which the source's Lemma A.11 does not cover. A token is what the heads see, LN(z_t) with a 1
appended, so that the biases of query, key and value are part of their matrices:

    score = x_CLS^T W_Q W_K^T x_t,   W_Q = [W_q | b_q]^T/√k, W_K = [W_k | b_k]^T    per head, (d+1) × k
    output = Σ_t a_t x_t W_V W_C,    W_V W_C = [W_v | b_v]^T W_o^T                  per head, (d+1) × d

From covering numbers to generalisation: Dudley's integral, the gap, and the samples that make it small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from krogh.errors import require, require_integer
from krogh.models.transformer import EPSILON
from krogh.theory.attention.capacity import head_parts
from krogh.theory.attention.covering import Part, explicit_log_cover, shape_constant
from krogh.theory.numerics import attention_norms, token_norm
from krogh.theory.prediction import check_open, prediction

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


@dataclass(frozen=True)
class TrainedNorms:
    """What the capacity bounds ask of an attention layer: arrays have one entry per head."""

    value: Float[np.ndarray, " heads"]
    value_21: Float[np.ndarray, " heads"]
    query_key: Float[np.ndarray, " heads"]
    query_key_21: Float[np.ndarray, " heads"]
    token_norm: float
    query_norm: float
    readout: float
    dimension: int

    def parts(self, tokens: int) -> list[Part]:
        """The two maps of every head, read on so many tokens."""
        per_head = zip(self.value, self.value_21, self.query_key_21, strict=True)
        return [
            part
            for value, value_21, query_key_21 in per_head
            for part in head_parts(
                tokens,
                self.dimension,
                value=float(value),
                value_21=float(value_21),
                query_key_21=float(query_key_21),
                token_norm=self.token_norm,
                query_norm=self.query_norm,
                readout=self.readout,
            )
        ]

    @property
    def bound(self) -> float:
        """A = B_w Σ_h B_V B_X, the largest output of the class."""
        return self.readout * float(self.value.sum()) * self.token_norm


def trained_norms(params: Mapping[str, Any], heads: int) -> TrainedNorms:
    """The norms of a trained "sparse-transformer" by its parameters' names, in float64."""
    weights = {name: np.asarray(array, np.float64) for name, array in params.items()}
    d = weights["Wq"].shape[0]
    require_integer("heads", heads, 1)
    require(d % heads == 0, f"heads must divide the embedding {d}; got heads={heads}")
    k = d // heads
    tokens = weights["E"][:2, None] + weights["P"][None, :-1]
    seen = _with_one(_normed(weights, tokens.reshape(-1, d)))
    cls = _with_one(_normed(weights, weights["E"][2:] + weights["P"][-1:]))
    query, key, value = (_by_head(weights["W" + name], weights["b" + name], heads) for name in "qkv")
    output = weights["Wo"].T.reshape(heads, k, d)
    found = attention_norms(query / math.sqrt(k), key, value @ output)
    rows = weights["U"] if "U" in weights else weights["E"]
    return TrainedNorms(
        value=found["value"],
        value_21=found["value_21"],
        query_key=found["query_key"],
        query_key_21=found["query_key_21"],
        token_norm=float(max(token_norm(seen), token_norm(cls))),
        query_norm=float(token_norm(cls)),
        readout=float(np.linalg.norm(rows[1] - rows[0])),
        dimension=d + 1,
    )


def trained_gap(
    norms: TrainedNorms, length: int, samples: int, *, failure: float = 0.05, constant: float = CHAINING_CONSTANT
) -> dict[str, float]:
    """The gap between error and training error that Theorem A.4 promises for heads of these norms.

    The loss is the ramp min(1, max(0, 1-yf)), which is 1-Lipschitz, bounded by 1 and at least the share of mistakes; a
    `gap_explicit` of 1 or more therefore says nothing. One head gets the numbers of "attention/generalisation".
    """
    require_integer("length", length, 1)
    require_integer("samples", samples, 1)
    parts = norms.parts(samples * length)
    capacity = shape_constant(parts) * math.log(norms.dimension * samples * length)
    rough = rademacher_bound(capacity, norms.bound, samples, constant)
    explicit = dudley_bound(lambda eps: explicit_log_cover(parts, eps), norms.bound, samples, constant)[0]
    return {
        "capacity_shape": capacity,
        "prediction_bound": norms.bound,
        "gap_shape": gap_bound(rough, samples, 1.0, 1.0, failure),
        "gap_explicit": gap_bound(explicit, samples, 1.0, 1.0, failure),
    }


def samples_promised(norms: TrainedNorms, length: int, target: float = 1.0) -> float | int:
    """The least m at which `trained_gap` promises at most `target`; at 1, the least at which it says anything."""
    check_open("target", target, 0)
    return smallest_samples(lambda m: trained_gap(norms, length, m)["gap_explicit"], target)


def _normed(weights: Mapping[str, Array], z: Array) -> Array:
    centred = z - z.mean(axis=1, keepdims=True)
    unit = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + EPSILON)
    return unit * weights["g1"] + weights["h1"]


def _with_one(tokens: Array) -> Array:
    return np.concatenate([tokens, np.ones((len(tokens), 1))], axis=1)


def _by_head(matrix: Array, bias: Array, heads: int) -> Array:
    """[W | b]^T cut into heads: (heads, d+1, k)."""
    wide = np.concatenate([matrix, bias[:, None]], axis=1)
    return np.swapaxes(wide.reshape(heads, -1, wide.shape[1]), 1, 2)
