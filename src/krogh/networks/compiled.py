"""Networks compiled from programs: handmade networks that decide, so that their all-layer margin can be bounded.

`Compiled` adds to the contract of `Handmade` what a bound from above needs, for an attack that moves all weights at
once: the network as a pure function of dense parameters and of one input, inputs with their labels, and how much work a
run is. The bound from below is the certificate.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from krogh.errors import require
from krogh.networks.handmade import Handmade
from krogh.theory.numerics import operator_norm_bound
from krogh.theory.programs.margin import Output, Parameters
from krogh.theory.programs.theorem import Certificate


@dataclass(frozen=True, eq=False)
class Subject:
    """`output(parameters, x)` for x in `inputs`, with the `labels` 0 or 1 that the network gives them."""

    output: Output
    parameters: Parameters
    inputs: tuple[Any, ...]
    labels: tuple[int, ...]


class Decision(NamedTuple):
    """An input whose label an attack tries to change: a batch of one, as it is shown, and which output it is about."""

    inputs: Any
    shown: str
    output: int = 0


class ReadOut(NamedTuple):
    """A last layer: its output is w·h, and with a bias that is the last entry of w, and 1 that of h."""

    weights: NDArray[np.float64]
    features: NDArray[np.float64]

    @property
    def flip(self) -> NDArray[np.float64]:
        """The least change of w that flips the output, and a little more: -(1 + 2⁻³⁰) (w·h) h / ‖h‖²."""
        w, h = self
        return -(1 + 2.0**-30) * float(w @ h) / float(h @ h) * h


@dataclass(frozen=True)
class Attacked:
    """An input as it is shown, its label, and the norm of the smallest perturbation found that changes it."""

    input: str
    label: int
    upper: float


class Work(NamedTuple):
    """What a run costs: an input goes `passes` times through `layers`, whose dense parameters have `entries`."""

    layers: int
    entries: int
    passes: int = 1


@dataclass(frozen=True)
class Sizes:
    """Sizes in the measures that bounds on sample complexity use.

    `one_norm` is ‖θ‖_1; `parameters` p, zeros and padding among them; `width`; `depth` in layers; `log_norm_product` is
    ln Π‖W_i‖ over all matrices that an input passes on its way, each as often as it passes it: what bounds by norms
    grow with. -inf where a matrix is zero. Norms are bounded from above.
    """

    one_norm: float
    parameters: int
    width: int
    depth: int
    log_norm_product: float

    @property
    def norm_product(self) -> float:
        """Π‖W_i‖; infinite where a float cannot hold it."""
        return math.exp(self.log_norm_product) if self.log_norm_product < 709 else math.inf


class Compiled(Handmade):
    """A network that runs a program, and whose outputs are ±1 where the program decides."""

    @abc.abstractmethod
    def certificate(self, inputs: Any = None) -> Certificate:
        """A lower bound on the all-layer margin: for the `inputs` given where these matter, else for all it is for."""

    @abc.abstractmethod
    def subject(self, inputs: Any, output: int = 0) -> Subject:
        """The network and its inputs as an attack takes them; `output` is the number of an output."""

    @abc.abstractmethod
    def decisions(self) -> Sequence[Decision]:
        """Inputs that an attack is tried on where none are given, of both labels if there are any."""

    @abc.abstractmethod
    def read_out(self, decision: Decision) -> ReadOut | None:
        """The last layer on a decision, after one run of the network; None where such a run takes too much memory."""

    def descent(self, decision: Decision, deadline: float) -> Attacked | None:
        """What gradients find until `deadline`, a time of `time.monotonic`, without anything being compiled for it.

        None for kinds of networks that have no such descent.
        """
        return None

    @property
    @abc.abstractmethod
    def work(self) -> Work:
        """What a run costs."""

    @abc.abstractmethod
    def sizes(self, length: int | None = None) -> Sizes:
        """The sizes that bounds use; `length` is that of words where a network reads them symbol by symbol."""

    def dense_parameters(self, dtype: DTypeLike = np.float64) -> dict[str, NDArray[Any]]:
        """The parameters as full arrays of a float type, which may be JAX's bfloat16."""
        arrays = {name: v if isinstance(v, np.ndarray) else v.toarray() for name, v in self.parameters.items()}
        return {name: value.astype(dtype) for name, value in arrays.items()}


def labels_of(values: Any) -> tuple[int, ...]:
    """The labels of outputs ±1; any other output has none."""
    for place, value in enumerate(values):
        decided = abs(abs(value) - 1) <= 1e-6
        why = "not ±1, so it has no label (0: a machine that has not halted)"
        require(decided, f"the output on input {place} is {value:g}, {why}")
    return tuple(int(value > 0) for value in values)


def log_norm(*matrices: Any) -> float:
    """ln Π‖W_i‖ of the matrices; vectors count as rows."""
    norms = [operator_norm_bound(np.atleast_2d(m) if isinstance(m, np.ndarray) else m) for m in matrices]
    return sum(math.log(norm) if norm > 0 else -math.inf for norm in norms)
