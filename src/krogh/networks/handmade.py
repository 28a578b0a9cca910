"""A construction: weights written down in closed form, with the statement they satisfy and a checker for it.

The weights are those of one of the laboratory's own models, under that model's own names and shapes, so that
what is checked is the network that is trained and not a copy of its formula. The checker executes the model
in float64 and compares it with an *oracle*, which knows the truth by other means than task and model do.

Constructions are written in the modules beside this one; `construct` asks for one by name.
"""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require
from krogh.models.base import Model
from krogh.networks.weight_files import write_file
from krogh.registry import CONSTRUCTIONS
from krogh.signature import converted, parameters_of, summary_of
from krogh.tasks.base import Task
from krogh.theory.numerics import double_precision
from krogh.values import describe

Array = NDArray[np.float64]


_predicted = jax.jit(lambda model, params, x: model.predict(params, x))


class Oracle(abc.ABC):
    """What the outputs must be, on every input where these can be listed and on random ones beyond."""

    @property
    @abc.abstractmethod
    def exhaustive(self) -> bool:
        """Whether `cases` lists every input."""

    @abc.abstractmethod
    def cases(self, seed: int) -> Iterator[tuple[Array, Array]]:
        """Batches of inputs with the outputs expected on them; `seed` draws the random ones."""


@dataclass(frozen=True)
class Checked:
    """What a check found: how many inputs, whether they were all, the largest error, and the verdict."""

    inputs: int
    exhaustive: bool
    largest_error: float
    holds: bool


@dataclass(frozen=True, eq=False)
class Construction:
    """Weights written down in closed form.

    `params` are float64 arrays under the names and in the shapes that `model` has for `task`; `statement`
    says what they compute; `width` is the number of hidden units (or factors of a product); `oracle` knows
    the outputs by other means; `tolerance` is the rounding error that the statement is allowed in float64.
    """

    name: str
    task: Task
    model: Model
    params: dict[str, Array]
    statement: str
    width: int
    oracle: Oracle
    tolerance: float = 1e-9

    def __post_init__(self) -> None:
        self.model.check(self.task)
        params = {name: np.array(value, np.float64, order="C") for name, value in self.params.items()}
        own = jax.eval_shape(lambda: self.model.init(jax.random.key(0), self.task))
        wanted = {name: tuple(leaf.shape) for name, leaf in own.items()}
        given = {name: value.shape for name, value in params.items()}
        require(given == wanted, f"{self.name!r} must give the model's parameters {wanted}; got {given}")
        for value in params.values():
            value.flags.writeable = False
        object.__setattr__(self, "params", params)

    @property
    def size(self) -> dict[str, float]:
        """How large the weights are: width, number of parameters, sum and maximum of their magnitudes."""
        magnitudes = np.concatenate([np.abs(value).ravel() for value in self.params.values()])
        return {
            "width": self.width,
            "parameters": magnitudes.size,
            "one_norm": float(magnitudes.sum()),
            "largest_weight": float(magnitudes.max()),
        }

    def outputs(self, x: ArrayLike) -> Array:
        """The model's own predictions for a batch of inputs, in float64 whatever JAX is set to."""
        batch = np.asarray(x, np.float64)
        shape = self.task.input_shape
        wanted = f"(batch, {', '.join(map(str, shape))})"
        require(
            batch.shape[1:] == shape and batch.ndim == len(shape) + 1,
            f"inputs of {self.name!r} have the shape {wanted}; got {batch.shape}",
        )
        with double_precision():
            params = {name: jnp.asarray(value) for name, value in self.params.items()}
            return np.asarray(_predicted(self.model, params, jnp.asarray(batch)))

    def check(self, seed: int = 0) -> Checked:
        """Execute the statement: the largest deviation from the oracle, and whether it is tolerable."""
        inputs, errors = 0, [0.0]
        for x, expected in self.oracle.cases(seed):
            inputs += len(x)
            errors.append(float(np.max(np.abs(self.outputs(x) - expected))))
        largest = float(np.max(errors))
        # Written so that a NaN, and a check of nothing, do not hold.
        return Checked(inputs, self.oracle.exhaustive, largest, inputs > 0 and largest <= self.tolerance)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the weights as safetensors; the header's entry "krogh" says in JSON what they are.

        The file appears whole or not at all.
        """
        header = {
            "name": self.name,
            "task": describe(self.task),
            "model": describe(self.model),
            "statement": self.statement,
            "size": self.size,
            "tolerance": self.tolerance,
        }
        return write_file(path, self.params, header)


@dataclass(frozen=True)
class Constructor:
    """What writes a construction down: a registered function of n, a support and options.

    `source` is the place of the construction; calling the constructor calls the function.
    """

    name: str
    source: str
    function: Callable[..., Construction]

    def __call__(self, *args: Any, **settings: Any) -> Construction:
        return self.function(*args, **settings)

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return summary_of(self.function)

    @property
    def parameters(self) -> dict[str, tuple[Any, Any]]:
        """Each setting's name with its type and its default (`REQUIRED` where it has none)."""
        return parameters_of(self.function)


def construction(name: str, *, source: str) -> Callable[[Callable[..., Construction]], Constructor]:
    """Decorator that makes a `Constructor` of a function and registers it under `name`."""

    def file(function: Callable[..., Construction]) -> Constructor:
        return CONSTRUCTIONS.register(name)(Constructor(name, source, function))

    return file


def construct(name: str, **settings: Any) -> Construction:
    """The construction registered under `name`; settings may be strings, as they come from a command line."""
    asked: Constructor = CONSTRUCTIONS[name]
    return asked(**converted(f"construction {name!r}", asked.parameters, settings))
