"""Losses of a prediction f against a label y (dissertation, §3.3, §B.4.1).

    hinge (1-yf)_+    square (y-f)²    logistic log(1+e^{-yf})    correlation -yf

    cross-entropy -log softmax(f)_y

Labels are ±1, real numbers for the square loss, or class numbers where a prediction has a last axis of logits. The
logistic loss is printed without y and the correlation loss once without its sign; the latter is the theory's, unbounded
below. For one logit per example the cross-entropy of two classes is the logistic loss of the logits' difference.

A loss has the shape of the labels: [batch], or [batch, positions] where every position of a sequence has one. Training
averages over positions, then over examples.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from krogh.errors import unknown

Loss = Callable[[Array, Array], Array]


def hinge(prediction: Float[Array, "*batch"], label: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    return jax.nn.relu(1.0 - label * prediction)


def square(prediction: Float[Array, "*batch"], label: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    return (label - prediction) ** 2


def logistic(prediction: Float[Array, "*batch"], label: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    return jnp.logaddexp(0.0, -label * prediction)


def correlation(prediction: Float[Array, "*batch"], label: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
    return -label * prediction


def cross_entropy(prediction: Float[Array, "*logits"], label: Array) -> Float[Array, "*batch"]:
    """-log softmax(f)_y of logits with one more axis than labels; with as many axes, labels are ±1 of two classes."""
    if prediction.ndim == label.ndim:
        return logistic(prediction, label)
    chosen = jnp.take_along_axis(prediction, label.astype(jnp.int32)[..., None], axis=-1)[..., 0]
    return jax.nn.logsumexp(prediction, axis=-1) - chosen


LOSSES: dict[str, Loss] = {
    "hinge": hinge,
    "square": square,
    "logistic": logistic,
    "correlation": correlation,
    "cross-entropy": cross_entropy,
}


def find_loss(name: str) -> Loss:
    if name not in LOSSES:
        raise unknown("loss", name, LOSSES)
    return LOSSES[name]
