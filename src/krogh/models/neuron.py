"""One neuron f(x) = u·sigma(w·x + b), with four activations that contain the parity (§B.4.1)."""

from __future__ import annotations

import math

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from krogh.errors import require, require_integer, unknown
from krogh.models import activations
from krogh.models.base import Model, Parameters, model
from krogh.models.initialisers import check_initialiser, initialise
from krogh.models.mlp import require_signs
from krogh.tasks.base import Task
from krogh.tasks.parity import AbstractParity, Parity
from krogh.values import structure


@model("neuron")
class Neuron(Model):
    """One neuron of the given activation and degree k; u is trained, or fixed to 1.

    Parameters: w [n], b [] and, with `output_weight`, u [].
    """

    activation: str = structure()
    degree: int = structure()
    output_weight: bool = structure(default=True)
    scale: float = structure(default=1.0)
    outer: str = structure(default="extend")
    initialiser: str = structure(default="uniform")

    def __check_init__(self) -> None:
        if self.activation not in activations.NEURON_ACTIVATIONS:
            raise unknown("activation", self.activation, activations.NEURON_ACTIVATIONS)
        require_integer("degree", self.degree, 1)
        require(self.outer in ("extend", "clamp"), f"outer must be extend or clamp; got outer={self.outer!r}")
        positive = isinstance(self.scale, int | float) and 0 < self.scale < math.inf
        require(positive, f"scale must be a positive number; got scale={self.scale!r}")
        wave = self.activation == "sine" or self.scale == 1.0
        require(wave, f"scale belongs to the sine; got scale={self.scale} for {self.activation!r}")
        check_initialiser(self.initialiser)

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        n = task.input_shape[0]
        keys = jax.random.split(key, 3)
        params = {
            "w": initialise(self.initialiser, keys[0], (n,), n, 1),
            "b": initialise(self.initialiser, keys[1], (), n, 1),
        }
        if self.output_weight:
            params["u"] = initialise(self.initialiser, keys[2], (), 1, 1)
        return params

    def activate(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The activation alone."""
        if self.activation == "zigzag":
            return activations.zigzag(z, self.degree, self.outer)
        if self.activation == "infinite-zigzag":
            return activations.infinite_zigzag(z, self.degree)
        if self.activation == "polynomial":
            return activations.oscillating_polynomial(z, self.degree)
        return activations.sine(z, self.degree, self.scale)

    def predict(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, " batch"]:
        output = self.activate(x @ params["w"] + params["b"])
        return params["u"] * output if self.output_weight else output

    def check(self, task: Task) -> None:
        require_signs("single neuron", task)

    def obstacle(self, task: Task) -> str | None:
        """The periodic waves hold every parity after a shift; the others only up to their degree."""
        bounded = self.activation in ("zigzag", "polynomial")
        if bounded and isinstance(task, AbstractParity) and self.degree < task.k:
            return f"degree must be at least k={task.k} to represent the parity; got degree={self.degree}"
        return None

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls("sine", degree=3), Parity(n=8, k=3)
