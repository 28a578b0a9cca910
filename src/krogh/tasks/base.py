"""What every task provides.

A task draws examples on the device from a key, in a compact *raw* form (packed bits, token ids), and
decodes raw examples into what a model reads. The two are apart so that a round of many batches can be
drawn at once, and a finite sample can be kept, at a bit per sign.
"""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

from jaxtyping import Array, Bool, PRNGKeyArray, PyTree

from krogh.registry import TASKS
from krogh.values import Value, check_fields

Raw = PyTree


class Examples(NamedTuple):
    """Decoded examples: inputs, observed labels (noise included), and the truth they are judged by."""

    x: Array
    y: Array
    truth: Array


class Task(Value):
    """A distribution over examples whose structure is known exactly."""

    @property
    @abc.abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one decoded input."""

    @abc.abstractmethod
    def draw(self, key: PRNGKeyArray, size: int) -> Raw:
        """`size` independent raw examples; the first m do not depend on `size`."""

    @abc.abstractmethod
    def decode(self, raw: Raw) -> Examples:
        """Raw examples as inputs, observed labels and truth."""

    @abc.abstractmethod
    def correct(self, prediction: Array, truth: Array) -> Bool[Array, " batch"]:
        """Which predictions count as right."""

    @property
    @abc.abstractmethod
    def population_size(self) -> int | None:
        """How many distinct inputs there are, or None where they cannot be listed."""

    @abc.abstractmethod
    def population(self) -> Raw:
        """Every input once, as noiseless raw examples, all equally likely."""

    @abc.abstractmethod
    def limits(self) -> dict[str, float]:
        """What is known beforehand: samples and queries that any learner needs."""

    @abc.abstractmethod
    def baselines(self) -> dict[str, float]:
        """What simple learners achieve: guessing, random search, elimination."""

    @classmethod
    @abc.abstractmethod
    def example(cls) -> Task:
        """A small valid instance: what the conformance laws run on, and what `krogh show` prints."""

    def fitted(self, leaves: Task) -> Task:
        """This task with what the stacked `leaves` of a cohort let it leave out; draws stay the same."""
        return self

    def batch(self, key: PRNGKeyArray, size: int) -> Examples:
        """`size` fresh examples."""
        return self.decode(self.draw(key, size))


def task(name: str) -> Any:
    """Class decorator: register a task under `name`."""

    def file(cls: type[Task]) -> type[Task]:
        cls.kind = name
        check_fields(cls)
        TASKS.register(name)(cls)
        return cls

    return file
