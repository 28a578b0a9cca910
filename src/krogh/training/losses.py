"""What training makes small: losses of a prediction f against a label y, and penalties on the size of the weights.

    hinge (1-yf)_+    square (y-f)²    logistic log(1+e^{-yf})    correlation -yf    (dissertation, §3.3, §B.4.1)

    huber h²/2 where |h| ≤ 1, |h| - 1/2 beyond, of h = y-f    absolute |y-f|

    cross-entropy -log softmax(f)_y    scaled-cross-entropy the same over max(√2, ln K) of K classes
    multiclass-margin (1/K) Σ_{i≠y} (Δ + f_i - f_y)_+    (equation 8.7; Δ = 1, or as "multiclass-margin(Δ)")

    sigmoid-square (σ(f) - (1+y)/2)² where y ≠ 0, else 0    (RNNs on regular languages, Section I)

The theory of recurrent networks (*Can SGD learn recurrent neural networks with provable generalization?*, section 3.1)
wants losses G that are convex, 1-Lipschitz in f and have |G(0, y)| ≤ 1: huber and absolute for labels in [-1, 1],
logistic, and scaled-cross-entropy (`LIPSCHITZ`). The square of an error is not, however bounded the labels.

Labels are ±1, real numbers for the losses of y-f, or class numbers where a prediction has a last axis of logits. The
logistic loss is printed without y and the correlation loss once without its sign; the latter is the theory's, unbounded
below. For one logit per example the cross-entropy of two classes is the logistic loss of the logits' difference.

Where a label may be missing it is 0: the hinge and the logistic loss then have no slope, and the sigmoid-square is 0.

A loss has the shape of the labels: [batch], or [batch, positions] where every position of a sequence has one. Training
averages over positions, then over examples.

    EuclideanNorm    λ‖θ‖ over all parameters (section 3.3); a bare number λ means this one
    NeuronNorm       λ‖θ‖_{a,b}^r = λ(Σ_i ‖ω_i‖_a^b)^{r/b} over neurons ω_i (section 7.3)

λ is data, so that a sweep over it is one cohort. All slopes are 0 where a norm has a corner (at the origin).
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from krogh.errors import require, unknown
from krogh.models.base import Model, Parameters
from krogh.models.two_layer import HomogeneousNetwork, network_norm
from krogh.values import AnyArray, Value, data, plain, structure, traced

Loss = Callable[[Array, Array], Array]


def hinge(prediction: Float[Array, "*batch"], label: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    return jax.nn.relu(1.0 - label * prediction)


def square(prediction: Float[Array, "*batch"], label: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    return (label - prediction) ** 2


def huber(prediction: Float[Array, "*batch"], label: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    size = jnp.abs(label - prediction)
    inside = jnp.minimum(size, 1.0)
    return inside * (size - inside / 2)


def absolute(prediction: Float[Array, "*batch"], label: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    return jnp.abs(label - prediction)


def logistic(prediction: Float[Array, "*batch"], label: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    return jnp.logaddexp(0.0, -label * prediction)


def sigmoid_square(prediction: Float[Array, "*batch"], label: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    """The squared error of σ(f) as the share of +1; a label 0 asks for nothing."""
    return jnp.where(label == 0, 0.0, (jax.nn.sigmoid(prediction) - 0.5 * (1.0 + label)) ** 2)


def correlation(prediction: Float[Array, "*batch"], label: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    return -label * prediction


def cross_entropy(prediction: Float[Array, "*logits"], label: Array) -> Float[Array, "*batch"]:
    """-log softmax(f)_y of logits with one more axis than labels; with as many axes, labels are ±1 of two classes."""
    if prediction.ndim == label.ndim:
        return logistic(prediction, label)
    chosen = jnp.take_along_axis(prediction, label.astype(jnp.int32)[..., None], axis=-1)[..., 0]
    return jax.nn.logsumexp(prediction, axis=-1) - chosen


def scaled_cross_entropy(prediction: Float[Array, "*logits"], label: Array) -> Float[Array, "*batch"]:
    """The cross-entropy of K classes over max(√2, ln K): its slope has norm at most 1, and at 0 it is at most 1."""
    classes = 2 if prediction.ndim == label.ndim else prediction.shape[-1]
    return cross_entropy(prediction, label) / max(math.sqrt(2), math.log(classes))


def multiclass_margin(prediction: Float[Array, "*logits"], label: Array, delta: float = 1.0) -> Float[Array, "*batch"]:
    """(1/K) Σ_{i≠y} (Δ + f_i - f_y)_+ of K logits; of one logit f with labels ±1, the same for (f/2, -f/2)."""
    if prediction.ndim == label.ndim:
        return jax.nn.relu(delta - label * prediction) / 2
    classes = prediction.shape[-1]
    own = jax.nn.one_hot(label, classes, dtype=bool)
    chosen = jnp.sum(jnp.where(own, prediction, 0), axis=-1, keepdims=True)
    return jnp.sum(jnp.where(own, 0, jax.nn.relu(delta + prediction - chosen)), axis=-1) / classes


LOSSES: dict[str, Loss] = {
    "hinge": hinge,
    "square": square,
    "huber": huber,
    "absolute": absolute,
    "logistic": logistic,
    "sigmoid-square": sigmoid_square,
    "correlation": correlation,
    "cross-entropy": cross_entropy,
    "scaled-cross-entropy": scaled_cross_entropy,
    "multiclass-margin": multiclass_margin,
}
CLASS_LOSSES = ("cross-entropy", "scaled-cross-entropy", "multiclass-margin")
"""The losses of class numbers."""
LIPSCHITZ = ("huber", "absolute", "logistic", "scaled-cross-entropy")
"""Convex, 1-Lipschitz in the prediction, and at most 1 at a prediction of 0 (for labels in [-1, 1])."""


def find_loss(name: str) -> Loss:
    """The loss of this name. A name may carry its number in brackets: "multiclass-margin(8)" has Δ = 8."""
    base, number = _parts(name)
    if base not in LOSSES:
        raise unknown("loss", name, LOSSES)
    if number is None:
        return LOSSES[base]
    require(base == "multiclass-margin", f"only 'multiclass-margin' takes a number; got loss={name!r} (try {base!r})")
    try:
        delta = float(number)
    except ValueError:
        delta = math.nan
    require(0 < delta < math.inf, f"Δ must be a positive number, as in 'multiclass-margin(8)'; got loss={name!r}")
    return functools.partial(multiclass_margin, delta=delta)


def reads_classes(name: str) -> bool:
    """Whether a loss is one of class numbers."""
    return _parts(name)[0] in CLASS_LOSSES


def _parts(name: str) -> tuple[str, str | None]:
    base, bracket, rest = name.partition("(")
    return (base, rest[:-1]) if bracket and rest.endswith(")") else (name, None)


class Penalty(Value):
    """A function of a network's weights that is added to its loss."""

    @abc.abstractmethod
    def of(self, model: Model, params: Parameters) -> Float[Array, ""]:
        """The penalty of these weights."""

    def check(self, model: Model) -> None:
        """Refuse a model whose weights have no such norm."""


def real(given: Any) -> Any:
    """A number as a float, so that 2 and 2.0 are one value; anything else as it is, to be refused."""
    return float(given) if isinstance(given, int | float) and not isinstance(given, bool) else given


class EuclideanNorm(Penalty):
    """λ‖θ‖, the norm over all parameters together."""

    weight: Float[AnyArray, ""] = data()

    def __check_init__(self) -> None:
        _check_weight(self.weight)

    def of(self, model: Model, params: Parameters) -> Float[Array, ""]:
        return self.weight * euclidean_norm(params)


class NeuronNorm(Penalty):
    """λ‖θ‖_{a,b}^exponent; b and the exponent are the network's homogeneity ν unless given.

    With both at ν it is λ Σ_i ‖ω_i‖^ν, the source's L_{2,ν} (the exponent is not stated there); for ReLU neurons, of
    ν = 2, that is λ‖θ‖².
    """

    weight: Float[AnyArray, ""] = data()
    a: float = structure(default=2.0, converter=real)
    b: float | None = structure(default=None, converter=real)
    exponent: float | None = structure(default=None, converter=real)

    def __check_init__(self) -> None:
        _check_weight(self.weight)
        check_powers(self.a, b=self.b, exponent=self.exponent)

    def of(self, model: Model, params: Parameters) -> Float[Array, ""]:
        assert isinstance(model, HomogeneousNetwork)
        nu = float(model.homogeneity)
        b, exponent = (nu if given is None else given for given in (self.b, self.exponent))
        return self.weight * network_norm(model.neurons(params), self.a, b, exponent)

    def check(self, model: Model) -> None:
        made_of_neurons = isinstance(model, HomogeneousNetwork)
        require(
            made_of_neurons,
            f"a norm over neurons needs a sum of homogeneous neurons such as 'pair-network'; got the model "
            f"{model.kind!r} (try a number: λ times the norm of all parameters)",
        )


def as_penalty(given: Any) -> Any:
    """A penalty or None as they are; a number λ as the array that it always was, so that trials keep their identity."""
    return given if given is None or isinstance(given, Penalty) else EuclideanNorm(given).weight


def euclidean_norm(params: Parameters) -> Float[Array, ""]:
    """‖θ‖ over all parameters; its slope at 0 is taken to be 0."""
    square = sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(params))
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def _check_weight(weight: Any) -> None:
    allowed = traced(weight) or bool(np.all(np.asarray(weight) >= 0))
    require(allowed, f"the weight of a penalty must be a number ≥ 0; got {plain(weight)}")


def check_powers(a: Any, **others: Any) -> None:
    """Refuse an `a` that makes no norm (a ≥ 1), and other powers, where given, that are not positive."""
    whole = isinstance(a, float) and 1 <= a < math.inf
    require(whole, f"a must be a finite number, at least 1; got a={a!r}")
    for name, number in others.items():
        positive = number is None or (isinstance(number, float) and 0 < number < math.inf)
        require(positive, f"{name} must be a finite positive number; got {name}={number!r}")
