"""What every probe provides: numbers measured on a model while it trains.

A probe sees the trial's task, model and parameters at some step and returns a fixed number of columns. It
runs inside the compiled program, at the trial's `probe_every`; what it returns becomes the trial's curve.
"""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

from jaxtyping import Array, Float, Int

from krogh.models.base import Model, Parameters
from krogh.registry import PROBES
from krogh.tasks.base import Examples, Task
from krogh.values import Value, check_fields


class Moment(NamedTuple):
    """What a probe may look at; the `sample` that is trained on, with its `weights` (None for equal ones), where it is
    finite."""

    task: Task
    model: Model
    params: Parameters
    initial: Parameters
    validation: Examples
    batch_loss: Float[Array, ""]
    step: Int[Array, ""]
    sample: Examples | None = None
    weights: Float[Array, " size"] | None = None


class Probe(Value):
    """A measurement with named columns."""

    @abc.abstractmethod
    def columns(self, task: Task) -> tuple[str, ...]:
        """The names of what `measure` returns, in order."""

    @abc.abstractmethod
    def measure(self, moment: Moment) -> Float[Array, " columns"]:
        """The measurement."""

    def check(self, task: Task, model: Model) -> None:
        """Refuse a trial that the probe cannot look at."""


def probe(name: str) -> Any:
    """Class decorator: register a probe under `name`."""

    def file(cls: type[Probe]) -> type[Probe]:
        cls.kind = name
        check_fields(cls)
        PROBES.register(name)(cls)
        return cls

    return file
