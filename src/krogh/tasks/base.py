"""What every task provides, and what those share whose labels are class numbers.

A task draws examples on the device from a key, in a compact *raw* form (packed bits, token ids), and decodes raw
examples into what a model reads. The two are apart so that a round of many batches can be drawn at once, and a finite
sample can be kept, at a bit per sign.

Bases that do most of the work: `BooleanTask` (a sign of n uniform signs) in `boolean.py`, and `SymbolTask` (a class of
n uniform symbols) in `symbols.py`; a new task of theirs is its truth alone.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from krogh.errors import KroghError
from krogh.registry import TASKS
from krogh.tasks.system import System
from krogh.values import AnyArray, Value, check_fields

Raw = PyTree


class Examples(NamedTuple):
    """Decoded examples: inputs, observed labels (noise included), and the truth they are judged by.

    `latent` is what the examples were drawn from and no model sees (the chain behind a sequence), each array with the
    examples along its first axis; probes and `Task.judge` may look at it.
    """

    x: Array
    y: Array
    truth: Array
    latent: PyTree = ()


class Task(Value):
    """A distribution over examples whose structure is known exactly."""

    system: ClassVar[System | None] = None
    """What it is a model system of, where it says so."""

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
    def error(self, prediction: Array, truth: Array) -> Float[Array, " batch"]:
        """What each prediction costs: 1 for a wrong one and 0 for a right one, a share in between where a sequence is
        wrong in part, or the squared error of a regression."""

    def judge(self, prediction: Array, examples: Examples) -> Float[Array, " batch"]:
        """The error that a trial is judged by: that against the truth unless a task knows better, by `latent` say."""
        return self.error(prediction, examples.truth)

    def strategies(self) -> dict[str, Callable[[Array], Array]]:
        """What a learner may do on the way, from simple to good: inputs to what a prediction would say.

        Phases of training are told by the nearest of them (`distance`); most tasks have none.
        """
        return {}

    def distance(self, strategy: Array, prediction: Array) -> Float[Array, " batch"]:
        """How far each prediction is from what a strategy says: the mean squared difference unless a task knows."""
        return mean_squares(prediction, strategy)

    def judge_strategy(self, strategy: Array, examples: Examples) -> Float[Array, " batch"]:
        """What a strategy itself loses, by the error that a trial is judged by."""
        return self.judge(strategy, examples)

    @property
    def causal(self) -> bool:
        """Whether a model that looks at later positions would be cheating, as in predicting the next token."""
        return False

    @property
    def symbols(self) -> int | None:
        """How many symbols inputs are made of, where each position is answered by several numbers; else None."""
        return None

    @property
    def judged_last(self) -> bool:
        """Whether `judge` and `distance` read the prediction at the last position alone, of one at every position."""
        return False

    @property
    def regression(self) -> bool:
        """Whether an example's error is a distance (squared, or another of any size) and not a mistake (in [0, 1])."""
        return False

    def test(self, key: PRNGKeyArray, size: int) -> Raw:
        """Raw examples that a trial is judged on: of the same law as the training examples unless a task says so."""
        return self.draw(key, size)

    def dataset(self, key: PRNGKeyArray, size: int, m: Int[AnyArray, ""] | int) -> Raw:
        """A finite sample: `size` raw examples of which the first `m` are used. A task may redraw unlucky ones."""
        return self.draw(key, size)

    def check_sample(self, m: Any) -> None:
        """Refuse a size of a finite sample with which the task cannot be served."""

    def check_test(self, size: int) -> None:
        """Refuse to be judged on more examples than there are."""

    @property
    def population_size(self) -> int | None:
        """How many distinct inputs there are, or None where they cannot be listed."""
        return None

    def population(self) -> Raw:
        """Every input once, as noiseless raw examples, all equally likely."""
        name = self.kind or type(self).__name__
        raise KroghError(f"the inputs of the task {name!r} cannot be listed (use a sample instead)")

    def limits(self) -> dict[str, float]:
        """What is known beforehand: samples and queries that any learner needs."""
        return {}

    def baselines(self) -> dict[str, float]:
        """What simple learners achieve: guessing, random search, elimination."""
        return {}

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


def mean_squares(one: Float[Array, "batch ..."], other: Float[Array, "batch ..."]) -> Float[Array, " batch"]:
    """The mean over an example's numbers of squared differences."""
    squares = (one - other) ** 2
    return jnp.mean(squares.reshape(squares.shape[0], -1), axis=1)


def task(name: str) -> Any:
    """Class decorator: register a task under `name`."""

    def file(cls: type[Task]) -> type[Task]:
        cls.kind = name
        check_fields(cls)
        TASKS.register(name)(cls)
        return cls

    return file


def margins(logits: Float[Array, "*batch classes"], label: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
    """g = f[y] - max over y' ≠ y of f[y'] for each example (dissertation, section 7.2): positive where f is right."""
    classes = jnp.arange(logits.shape[-1], dtype=label.dtype)
    own = classes.reshape((1,) * label.ndim + (-1,)) == label[..., None]
    right = jnp.sum(jnp.where(own, logits, 0), axis=-1)
    return right - jnp.max(jnp.where(own, -jnp.inf, logits), axis=-1)


class ClassificationTask(Task):
    """A task with labels 0..classes-1: a prediction is one logit per class, and the largest decides.

    Where every position of a sequence has a label, labels are [batch, positions] and logits [batch, positions,
    classes]; the error of a sequence is the share of its positions that are wrong, a number in [0, 1].
    """

    @property
    @abc.abstractmethod
    def classes(self) -> int:
        """How many labels there are."""

    def error(
        self, prediction: Float[Array, "batch ... classes"], truth: Int[Array, "batch ..."]
    ) -> Float[Array, " batch"]:
        """1 unless the true class alone has the largest logit: a tie is an error, as is a logit that is no number.

        Of a sequence the mean over positions: 0 exactly where all are right.
        """
        mistakes = 1.0 - (margins(prediction, truth) > 0).astype(jnp.float32)
        return jnp.mean(mistakes, axis=tuple(range(1, mistakes.ndim))) if mistakes.ndim > 1 else mistakes

    def baselines(self) -> dict[str, float]:
        """The accuracy of always giving the most frequent label, where all inputs can be listed."""
        if self.population_size is None:
            return {}
        labels = np.ravel(self.decode(self.population()).truth)
        return {"guessing_accuracy": float(np.bincount(labels).max()) / labels.size}
