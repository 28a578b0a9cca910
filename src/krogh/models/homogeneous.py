"""Sums of homogeneous neurons: f(θ, x) = Σ_i φ(ω_i, x) (dissertation, section 7.2).

ω_i is all that neuron i reads and writes with, and φ(cω, x) = c^ν φ(ω, x) for c ≥ 0. Then f(cθ, x) = c^ν f(θ, x), so
that a margin is measured against the norm

    ‖θ‖_{a,b} = (Σ_i ‖ω_i‖_a^b)^{1/b}        by default a = 2, b = ν
"""

import abc

import jax
import jax.numpy as jnp
from equinox import AbstractVar
from jaxtyping import Array, Float, Num

from krogh.models.base import Model, Parameters
from krogh.values import AnyArray

EXACT = jax.lax.Precision.HIGHEST
"""A margin is a small difference of large logits: products keep all bits of float32, where a GPU would round to ten."""


class HomogeneousNetwork(Model):
    """One hidden layer of homogeneous neurons without biases: σ(·)·w_i, with W [width, classes] the rows w_i."""

    width: AbstractVar[int]

    @property
    @abc.abstractmethod
    def homogeneity(self) -> int:
        """ν."""

    @abc.abstractmethod
    def hidden(self, params: Parameters, x: Num[AnyArray, "batch ..."]) -> Float[Array, "width batch"]:
        """σ of every neuron on every example."""

    def predict(self, params: Parameters, x: Num[AnyArray, "batch ..."]) -> Float[Array, "batch classes"]:
        """Logits. Neurons come first: gradients are then sums along rows, which a CPU rewards."""
        return jnp.matmul(self.hidden(params, x).T, params["W"], precision=EXACT)

    def neurons(self, params: Parameters) -> Float[Array, "width weights"]:
        """ω_i: all weights of neuron i, in the order of the parameters' names."""
        return jnp.concatenate([params[name] for name in sorted(params)], axis=1)


def power(base: Float[Array, "*shape"], exponent: float) -> Float[Array, "*shape"]:
    """base^exponent for base ≥ 0, with slope 0 where the base is 0 (roots would have an infinite one)."""
    if exponent == 1.0:
        return base
    positive = base > 0
    return jnp.where(positive, jnp.where(positive, base, 1.0) ** exponent, 0.0)


def neuron_norms(neurons: Float[Array, "width weights"], a: float, exponent: float = 1.0) -> Float[Array, " width"]:
    """‖ω_i‖_a^exponent."""
    powers = neurons * neurons if a == 2 else power(jnp.abs(neurons), a)
    return power(jnp.sum(powers, axis=1), exponent / a)


def network_norm(neurons: Float[Array, "width weights"], a: float, b: float, exponent: float) -> Float[Array, ""]:
    """‖θ‖_{a,b}^exponent = (Σ_i ‖ω_i‖_a^b)^{exponent/b}."""
    return power(jnp.sum(neuron_norms(neurons, a, b)), exponent / b)
