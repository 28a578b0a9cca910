"""Networks written by hand: one contract for those constructed from a formula and those compiled from a program.

A `Handmade` network has a name, a statement (what it computes, with numbers), a size and its parameters; it runs; its
check compares what it computes with an *oracle*, which knows the truth by other means; some have a certificate. Any of
them is written to a file by `save`, and `load_network` reads any such file back: the header names the class (`kind`)
and holds the recipe from which that class makes the network again, and the weights are the file's own.

A `Construction` has the weights of one of the laboratory's own models, under that model's own names and shapes, so that
what is checked is the network that is trained and not a copy of its formula. Constructions are functions that are
registered by name, each in one file:

    @construction("bits/majority", source="folklore")
    def majority(n: int) -> Construction:
        '''The majority of n bits in one ReLU neuron.'''
        ...
        return Construction(name, task, model, parameters, statement, width, oracle)

and `construct("bits/majority", n=5)` or `krogh construct bits/majority n=5` make, check and write it. What is no model
of the laboratory (a compiled circuit, machine or automaton; a head, a decoder) is a class of its own:

    @handmade("weighted vote")
    @dataclass(frozen=True)
    class Vote(Handmade):
        ...

with the properties and the methods below, and `load_network` loads it like all others. `examples/new_network.py` has
both.
"""

from __future__ import annotations

import abc
import dataclasses
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import KroghError, require
from krogh.models.base import Model
from krogh.networks.weight_files import UNFIT, damaged, read_file, require_same_shapes, write_file
from krogh.registry import CONSTRUCTIONS, Registry, summary_of
from krogh.signature import converted, parameters_of
from krogh.tasks.base import Task
from krogh.theory.numerics import double_precision
from krogh.values import describe

Array = NDArray[np.float64]

KINDS: Registry[type[Handmade]] = Registry("kind of handmade network", "krogh.networks", decorator="handmade")


@dataclass(frozen=True)
class Checked:
    """What a check found.

    `holds` is the verdict on the statement, `inputs` how many were tried and `exhaustive` whether these decide all;
    `largest_error` is that of any number that was compared, `scope` says in words what was compared on what, and
    `details` are further numbers that this kind of network has.
    """

    holds: bool
    inputs: int
    exhaustive: bool
    largest_error: float
    scope: str
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The verdict in a sentence."""
        return f"{'holds' if self.holds else 'FAILS'}: {self.scope}, largest error {self.largest_error:.6g}"

    @property
    def numbers(self) -> dict[str, Any]:
        """The verdict as a script would want it."""
        fields = ("holds", "inputs", "exhaustive", "largest_error")
        return {name: getattr(self, name) for name in fields} | dict(self.details)


class Certified(Protocol):
    """What all certificates have: the bound that they prove, and for which inputs."""

    @property
    def value(self) -> float: ...

    @property
    def holds_for(self) -> str: ...


class Handmade(abc.ABC):
    """A network whose weights were written down; `kind` is how files name the class (see `handmade`)."""

    kind: ClassVar[str]

    if TYPE_CHECKING:  # fields or properties: a dataclass would take a property that it inherits for a field's default

        @property
        def name(self) -> str:
            """What the network is called."""

        @property
        def statement(self) -> str:
            """What it computes, in a sentence with its numbers."""

        @property
        def size(self) -> dict[str, float]:
            """How large it is: "parameters" and "one_norm" ‖θ‖_1 at least, then what this kind counts."""

        @property
        def parameters(self) -> Mapping[str, Any]:
            """All weights by name: float64 arrays, sparse matrices where these are large."""

    @abc.abstractmethod
    def run(self, inputs: Any, /) -> Any:
        """The outputs for a batch of inputs, in float64."""

    @abc.abstractmethod
    def check(self) -> Checked:
        """Execute the statement against the oracle; kinds may take options."""

    def certificate(self) -> Certified | None:
        """A proof of more than a check can show, such as a margin; None where there is none."""
        return None

    @abc.abstractmethod
    def recipe(self) -> dict[str, Any]:
        """What `from_recipe` needs to make the network again, as JSON."""

    @classmethod
    @abc.abstractmethod
    def from_recipe(cls, recipe: Mapping[str, Any]) -> Self:
        """The network that a recipe describes."""

    @abc.abstractmethod
    def with_parameters(self, parameters: Mapping[str, Any]) -> Self:
        """The same network with other weights of the same names and shapes."""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the weights, what they are and the recipe to a file, which appears whole or not at all."""
        header = {"kind": self.kind, "name": self.name, "statement": self.statement, "size": self.size}
        return write_file(path, self.parameters, {**header, "recipe": self.recipe()})


Class = TypeVar("Class", bound=type[Handmade])


def handmade(kind: str) -> Callable[[Class], Class]:
    """Decorator: the class's networks are of this `kind`, by which `load_network` knows them."""

    def file(network: Class) -> Class:
        network.kind = kind
        return KINDS.register(kind)(network)  # type: ignore[return-value]

    return file


def load_network(path: str | os.PathLike[str]) -> Handmade:
    """The network of a file that `Handmade.save` wrote, with the weights that stand there."""
    header, weights = read_file(path)
    kind = header.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        known = ", ".join(map(repr, KINDS))
        raise KroghError(
            f"{str(path)!r} holds no handmade network: its header says kind={kind!r} where `krogh construct` and "
            f"`krogh compile` write one of {known}"
        )
    try:
        network = KINDS[kind].from_recipe(header["recipe"])
        require_same_shapes(network.parameters, weights)
        return network.with_parameters({name: weights[name] for name in network.parameters})
    except UNFIT as cause:
        raise damaged(path, cause) from None


def sizes_of(parameters: Mapping[str, Any]) -> dict[str, float]:
    """How many parameters there are, zeros among them, how many are not zero, and the sum of all magnitudes."""
    values = [value if isinstance(value, np.ndarray) else value.data for value in parameters.values()]
    return {
        "parameters": sum(int(np.prod(value.shape)) for value in parameters.values()),
        "nonzeros": sum(int(np.count_nonzero(value)) for value in values),
        "one_norm": float(sum(np.abs(value).sum() for value in values)),
    }


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


@handmade("construction")
@dataclass(frozen=True, eq=False)
class Construction(Handmade):
    """Weights written down in closed form.

    `parameters` are float64 arrays under the names and in the shapes that `model` has for `task`; `statement` says what
    they compute; `width` is the number of hidden units (or factors of a product); `oracle` knows the outputs by other
    means; `tolerance` is the rounding error that the statement is allowed in float64. `settings` are those of the
    registered construction that wrote them, from which a file is read back; None where there was none.
    """

    name: str
    task: Task
    model: Model
    parameters: Mapping[str, Array]
    statement: str
    width: int
    oracle: Oracle
    tolerance: float = 1e-9
    settings: Mapping[str, Any] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.model.check(self.task)
        given = {name: np.array(value, np.float64, order="C") for name, value in self.parameters.items()}
        own = jax.eval_shape(lambda: self.model.init(jax.random.key(0), self.task))
        shapes = {name: tuple(leaf.shape) for name, leaf in own.items()}
        have = {name: value.shape for name, value in given.items()}
        require(have == shapes, f"{self.name!r} must give the model's parameters {shapes}; got {have}")
        for value in given.values():
            value.flags.writeable = False
        object.__setattr__(self, "parameters", given)

    @property
    def size(self) -> dict[str, float]:
        """How large the weights are: width, number of parameters, sum and maximum of their magnitudes."""
        counted = sizes_of(self.parameters)
        largest = max(float(np.max(np.abs(value))) for value in self.parameters.values())
        return {
            "width": self.width,
            "parameters": counted["parameters"],
            "one_norm": counted["one_norm"],
            "largest_weight": largest,
        }

    def run(self, x: ArrayLike, /) -> Array:
        """The model's own predictions for a batch of inputs, in float64 whatever JAX is set to."""
        batch = self.batch(x)
        with double_precision():
            params = {name: jnp.asarray(value) for name, value in self.parameters.items()}
            return np.asarray(_predicted(self.model, params, jnp.asarray(batch)))

    def batch(self, x: ArrayLike) -> NDArray[Any]:
        """Inputs as the model takes them; any other shape is refused."""
        given, shape = np.asarray(x, np.float64), self.task.input_shape
        fits = given.shape[1:] == shape and given.ndim == len(shape) + 1
        expected = f"(batch, {', '.join(map(str, shape))})"
        require(fits, f"inputs of {self.name!r} have the shape {expected}; got {given.shape}")
        return given

    def check(self, seed: int = 0) -> Checked:
        """The largest deviation from the oracle, and whether it is tolerable; `seed` draws random inputs."""
        inputs, errors = 0, [0.0]
        for x, expected in self.oracle.cases(seed):
            inputs += len(x)
            errors.append(float(np.max(np.abs(self.run(x) - expected))))
        largest = float(np.max(errors))
        holds = inputs > 0 and largest <= self.tolerance  # written so that a NaN, and a check of nothing, do not hold
        scope = f"outputs on all {inputs:,} inputs" if self.oracle.exhaustive else f"outputs on {inputs:,} inputs"
        return Checked(holds, inputs, self.oracle.exhaustive, largest, scope, {"tolerance": self.tolerance})

    def recipe(self) -> dict[str, Any]:
        """The construction's settings; and, for whoever reads the file, task and model."""
        settings = None if self.settings is None else {name: _plain(value) for name, value in self.settings.items()}
        return {"settings": settings, "name": self.name, "task": describe(self.task), "model": describe(self.model)}

    @classmethod
    def from_recipe(cls, recipe: Mapping[str, Any]) -> Construction:
        """The construction of these settings, by name."""
        registered = recipe["settings"] is not None
        require(registered, f"{recipe['name']!r} was written by no registered construction, and cannot be made again")
        return construct(recipe["name"], **recipe["settings"])

    def with_parameters(self, parameters: Mapping[str, Any]) -> Self:
        """The same construction with other weights."""
        return dataclasses.replace(self, parameters=parameters)


def _plain(value: Any) -> Any:
    """A setting as JSON has it."""
    return np.asarray(value).tolist() if isinstance(value, np.ndarray | np.generic | tuple) else value


@dataclass(frozen=True)
class Constructor:
    """What writes a construction down: a registered function of n, a support and options.

    `source` is the place of the construction; calling the constructor calls the function.
    """

    name: str
    source: str
    function: Callable[..., Construction]

    def __call__(self, *args: Any, **settings: Any) -> Construction:
        written = self.function(*args, **settings)
        bound = inspect.signature(self.function).bind(*args, **settings)
        object.__setattr__(written, "settings", dict(bound.arguments))  # fresh, and replacing would copy its weights
        return written

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
    constructor: Constructor = CONSTRUCTIONS[name]
    return constructor(**converted(f"construction {name!r}", constructor.parameters, settings))
