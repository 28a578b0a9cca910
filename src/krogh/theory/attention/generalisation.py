"""From covering numbers to generalisation: Dudley's integral, the gap, the samples that make it small (§4.4, §A.1).

The bounds are of heads with a fixed linear read-out. Of a trained "sparse-transformer" what is inserted is therefore
the attention layer and its read-out w = U_1 - U_0: residual connection, MLP and later norms are outside the class, and
so are trained positions, which the source's Lemma A.11 does not cover. A token is what the heads see, LN(z_t) with a 1
appended, so that the biases of query, key and value are part of their matrices:

    score = x_CLS^T W_Q W_K^T x_t,   W_Q = [W_q | b_q]^T/√k, W_K = [W_k | b_k]^T    per head, (d+1) × k
    output = Σ_t a_t x_t W_V W_C,    W_V W_C = [W_v | b_v]^T W_o^T                  per head, (d+1) × d
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from krogh.errors import require, require_integer
from krogh.models.transformer import EPSILON
from krogh.theory.attention.capacity import Contexts, HeadNorms
from krogh.theory.attention.covering import Part, explicit_log_cover, shape_constant
from krogh.theory.numerics import attention_norms, least_integer, token_norm
from krogh.theory.prediction import check_open, check_positive, prediction

Array = NDArray[np.float64]

CHAINING_CONSTANT = 12.0
"""c of Dudley's bound: the standard chaining argument gives 4 delta + 12 times the integral."""

_NODES = 129
"""Scales at which a covering number is asked for; in log eps the integrand is nearly constant."""
_SMALLEST_SCALE = 1e-12
"""Smallest delta tried, relative to the class's bound."""


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


@dataclass(frozen=True)
class Loss:
    """How a class is read and judged: a fixed read-out of norm `readout`, and a loss of its prediction.

    The loss is `loss_lipschitz`-Lipschitz and bounded by `loss_bound`; bounds hold but for a chance of `failure`.
    """

    readout: float = 1.0
    loss_lipschitz: float = 1.0
    loss_bound: float = 1.0
    failure: float = 0.05
    constant: float = CHAINING_CONSTANT

    def __post_init__(self) -> None:
        check_open("failure", self.failure, 0, 1)
        check_positive(**vars(self))


@dataclass(frozen=True)
class ClassRisk:
    """The bounds of a class of networks on m contexts: its `parts`, its largest prediction A = `bound`, a loss."""

    contexts: Contexts
    parts: list[Part]
    bound: float
    loss: Loss

    @property
    def capacity_shape(self) -> float:
        """C_F of log N <= C_F / eps^2, with constant 1: the shape of Corollary 4.9."""
        return shape_constant(self.parts) * self.contexts.log

    @property
    def rademacher_shape(self) -> float:
        """Corollary A.3 with the shape of the capacity."""
        return rademacher_bound(self.capacity_shape, self.bound, self.contexts.samples, self.loss.constant)

    @property
    def rademacher_explicit(self) -> float:
        """Dudley's integral over the explicit covering number."""
        samples = self.contexts.samples
        return dudley_bound(lambda eps: explicit_log_cover(self.parts, eps), self.bound, samples, self.loss.constant)[0]

    def gap(self, rademacher: float) -> float:
        """Theorem A.4 for this loss."""
        loss = self.loss
        return gap_bound(rademacher, self.contexts.samples, loss.loss_lipschitz, loss.loss_bound, loss.failure)


def head_risk(contexts: Contexts, norms: HeadNorms, loss: Loss) -> ClassRisk:
    """The bounds of one head with a fixed read-out, |f| <= A = B_w L_s B_V B_X."""
    return ClassRisk(contexts, norms.parts(contexts, loss.readout), loss.readout * norms.largest, loss)


@prediction(
    "attention/generalisation",
    source="dissertation, Lemmas A.2 and A.5, Corollary A.3, Theorem A.4",
    constants="'explicit' has every constant, with c = 12 of the chaining bound; the shapes hide a constant in C_F",
)
def generalisation(contexts: Contexts, norms: HeadNorms, loss: Loss) -> dict[str, Any]:
    """Gap between risk and empirical risk for one attention head with a fixed read-out: about sqrt(log T / m).

        gap <= 4 L_loss R + 2 b sqrt(log(1/failure) / (2m)),  R <= c sqrt(C_F/m) (1 + log(A sqrt(m/C_F)))

    A = B_w L_s B_V B_X bounds the prediction. `capacity_shape` = C_F is the shape of Corollary 4.9 without eps^2;
    `gap_explicit` integrates the explicit covering number numerically. `vacuous`: the explicit gap is no smaller
    than the loss bound, as it is for any realistic number of samples.
    """
    head = head_risk(contexts, norms, loss)
    rough, explicit = head.rademacher_shape, head.rademacher_explicit
    return {
        "capacity_shape": head.capacity_shape,
        "prediction_bound": head.bound,
        "rademacher_shape": rough,
        "gap_shape": head.gap(rough),
        "rademacher_explicit": explicit,
        "gap_explicit": head.gap(explicit),
        "vacuous": head.gap(explicit) >= loss.loss_bound,
    }


@prediction(
    "attention/sample-size",
    source="dissertation, Lemma A.5 with Corollary 4.9, inverted",
    constants="'samples_explicit' has every constant, with c = 12; 'samples_shape' hides a constant in C_F",
)
def sample_size(target: float, length: int, dimension: int, norms: HeadNorms, loss: Loss) -> dict[str, Any]:
    """Samples at which the generalisation gap of one attention head is guaranteed to be at most `target`.

        least m with the bound of "attention/generalisation" at most target:  C_F / target^2 up to logs, so log T

    Found by bisection. Orders of magnitude above what training needs: only the growth with T is of use.
    """
    check_open("target", target, 0)
    Contexts(length, 1, dimension)
    require(
        dimension * length >= 3,
        f"log(d m T)/m falls with m only for d*T at least 3; got dimension={dimension}, length={length} (try length=3)",
    )

    def head(samples: int) -> ClassRisk:
        return head_risk(Contexts(length, samples, dimension), norms, loss)

    return {
        "samples_shape": least_integer(lambda m: head(m).gap(head(m).rademacher_shape) <= target),
        "samples_explicit": least_integer(lambda m: head(m).gap(head(m).rademacher_explicit) <= target),
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

    @property
    def heads(self) -> list[HeadNorms]:
        """The norms of each head."""
        per_head = zip(self.value.tolist(), self.value_21.tolist(), self.query_key_21.tolist(), strict=True)
        return [HeadNorms(*norms, self.token_norm, self.query_norm) for norms in per_head]

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
    contexts = Contexts(length, samples, norms.dimension)
    parts = [part for head in norms.heads for part in head.parts(contexts, norms.readout)]
    layer = ClassRisk(contexts, parts, norms.bound, Loss(failure=failure, constant=constant))
    return {
        "capacity_shape": layer.capacity_shape,
        "prediction_bound": layer.bound,
        "gap_shape": layer.gap(layer.rademacher_shape),
        "gap_explicit": layer.gap(layer.rademacher_explicit),
    }


def samples_promised(norms: TrainedNorms, length: int, target: float = 1.0) -> float | int:
    """The least m at which `trained_gap` promises at most `target`; at 1, the least at which it says anything."""
    check_open("target", target, 0)
    return least_integer(lambda m: trained_gap(norms, length, m)["gap_explicit"] <= target)


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
