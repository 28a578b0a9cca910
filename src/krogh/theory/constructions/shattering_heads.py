"""Attention heads that shatter log2 T sequences: unbounded norms know the context length (dissertation, Prop. 4.8).

    x_t^(i) = (cos 2πt/T, sin 2πt/T, bit i of t),   p = log2 T sequences of length T
    head s:  w_QK = T² (cos 2πs/T, sin 2πs/T, 0),  w_V = (0, 0, 1),   f(X) = w_Vᵀ Xᵀ softmax(X w_QK)

Head s attends to position s, so f(X^(i)) > 1/2 exactly where bit i of s is 1: the T heads realise all 2^p = T sign
patterns, and the pseudo-dimension is at least log2 T. Bits are counted from the most significant. A length that is
no power of two is cut to the one below; a length of 1 shatters nothing.

The norm T² buys the margin, not the patterns: attention that is flat, but highest at s, still puts a bit above 1/2 near
its own ones, so w_QK of norm 1 realises them all, by a margin that vanishes faster than any power of T.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from krogh.models.attention_heads import attention_head
from krogh.tasks.shattering import binary_digits, shattering_inputs
from krogh.theory.constructions.truncation import truncated_softmax
from krogh.theory.precision import double_precision
from krogh.theory.predictions.inputs import check_open

Array = NDArray[np.float64]

LEAST_ATTENTION = float(1 / (1 + np.sqrt(np.pi / 8)))
"""The source's lower bound of the attention that head s gives to position s."""


@dataclass(frozen=True, eq=False)
class ShatteringHeads:
    """T heads and the sequences they shatter: `inputs` [p, T, 3], `queries` w_QK [T, 3], `value` w_V [3]."""

    inputs: Array
    queries: Array
    value: Array

    def outputs(self) -> Array:
        """f of every head on every sequence; shape [T, p]."""
        with double_precision():  # scores go up to T²
            value = jnp.asarray(self.value)
            head = attention_head(jnp.dot, jax.nn.softmax, lambda token: (token @ value)[None], lambda y: y[0])
            every = jax.vmap(jax.vmap(head, in_axes=(0, None)), in_axes=(None, 0))
            return np.asarray(every(jnp.asarray(self.inputs), jnp.asarray(self.queries)))

    def attention(self) -> Array:
        """What each head gives to each position, the same in every sequence; shape [T, T]."""
        return truncated_softmax(self.queries @ _circle(len(self.queries)).T)

    def patterns(self) -> NDArray[np.bool_]:
        """Which sequences each head puts above 1/2; shape [T, p]."""
        return np.asarray(self.outputs() > 0.5)

    def margin(self) -> float:
        """How far every f is on its side of 1/2, by the bits of s: positive where all patterns are realised."""
        sides = 2.0 * binary_digits(len(self.queries)) - 1.0
        return float(np.min(sides * (self.outputs() - 0.5), initial=np.inf))

    def holds(self) -> bool:
        """Whether head s realises the bits of s, for every s."""
        return self.margin() > 0


def shattering_heads(length: int, scale: float | None = None) -> ShatteringHeads:
    """The heads for the power of two not above `length`; `scale` is the norm of w_QK, T² unless given."""
    inputs = shattering_inputs(length)
    T = inputs.shape[1]
    norm = float(T) ** 2 if scale is None else scale
    check_open("scale", norm, 0)
    return ShatteringHeads(inputs, norm * _circle(T), np.array([0.0, 0.0, 1.0]))


def _circle(length: int) -> Array:
    """(cos 2πt/T, sin 2πt/T, 0) for each t."""
    angle = 2 * np.pi * np.arange(length) / length
    return np.column_stack([np.cos(angle), np.sin(angle), np.zeros(length)])
