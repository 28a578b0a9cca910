"""Where a step's examples come from.

    Online        a fresh batch every step
    Offline       m examples drawn once, minibatches in freshly shuffled epochs
    Epochs        the same, but an epoch's last batch is what is left of it
    Resampled     m examples drawn once, every example of a batch drawn from them anew, with replacement
    FullBatch     m examples drawn once, all of them every step
    Population    every input of the task, every step

A regime splits its work so that nothing is drawn inside a step: `sample` once per trial, `feed` once per
round of steps, `batch` in each step. The sample size m is data: a cohort keeps room for its largest m
(`capacity`), and since the first m examples of a draw do not depend on how many are drawn, a trial's data
does not depend on its neighbours' m.
"""

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from equinox import AbstractVar
from jaxtyping import Array, Float, Int, PRNGKeyArray

from krogh.errors import KroghError, require, require_integer
from krogh.tasks.base import Raw, Task
from krogh.tasks.bits import shuffled
from krogh.training.stopping import MOST_EXAMPLES
from krogh.values import AnyArray, Value, data, replaced, structure


class Regime(Value):
    """A data regime."""

    @abc.abstractmethod
    def sample(self, task: Task, key: PRNGKeyArray) -> Raw:
        """What a trial keeps: its finite sample, or nothing."""

    @abc.abstractmethod
    def feed(self, task: Task, key: PRNGKeyArray, start: Int[Array, ""], steps: int) -> Any:
        """What steps start..start+steps-1 consume, with a leading axis of `steps`."""

    @abc.abstractmethod
    def batch(self, task: Task, sample: Raw, fed: Any) -> tuple[Raw, Float[Array, " size"] | None]:
        """One step's raw examples and their weights (summing to 1), None for equal ones."""

    @property
    def finite(self) -> bool:
        """Whether a trial sees the same examples again: then `whole` gives them."""
        return False

    def whole(self, task: Task, key: PRNGKeyArray) -> Raw:
        """All examples that a trial ever sees, for a learner that reads them at once."""
        raise KroghError(f"{type(self).__name__} has no finite sample")

    def kept(self, task: Task, sample: Raw) -> tuple[Raw, Float[Array, " size"] | None]:
        """The examples of a trial's `sample` with their weights (summing to 1), None for equal ones; in a program."""
        raise KroghError(f"{type(self).__name__} has no finite sample (try Offline or FullBatch)")

    def check(self, task: Task) -> None:
        """Refuse a task that the regime cannot serve."""

    def fitted(self, leaves: "Regime") -> "Regime":
        """This regime with room for the largest of the stacked `leaves`."""
        return self


class Online(Regime):
    """A fresh batch of `batch_size` examples every step."""

    batch_size: int = structure(default=32)

    def __check_init__(self) -> None:
        require_integer("batch_size", self.batch_size, 1, MOST_EXAMPLES)

    def sample(self, task: Task, key: PRNGKeyArray) -> Raw:
        return ()

    def feed(self, task: Task, key: PRNGKeyArray, start: Int[Array, ""], steps: int) -> Raw:
        raw = task.draw(jax.random.fold_in(key, start), steps * self.batch_size)
        return jax.tree.map(lambda leaf: leaf.reshape(steps, self.batch_size, *leaf.shape[1:]), raw)

    def batch(self, task: Task, sample: Raw, fed: Raw) -> tuple[Raw, None]:
        return fed, None


class SampleRegime(Regime):
    """m examples drawn once; `capacity` is room for the largest m of a cohort, 0 for just enough."""

    m: AbstractVar[Int[AnyArray, ""]]
    capacity: AbstractVar[int]

    def __check_init__(self) -> None:
        m = np.asarray(self.m)
        within = bool(np.all(m >= 1)) and bool(np.all(m <= MOST_EXAMPLES))
        require(within, f"m must be an integer between 1 and 2^30; got m={self.m}")
        require_integer("capacity", self.capacity, 0)
        fits = self.capacity == 0 or bool(np.all(m <= self.capacity))
        require(fits, f"capacity must be at least m={self.m}, or 0 for just enough; got capacity={self.capacity}")

    @property
    def room(self) -> int:
        """How many examples are kept, the first m of which are used."""
        return self.capacity or int(self.m)

    def sample(self, task: Task, key: PRNGKeyArray) -> Raw:
        return task.dataset(jax.random.fold_in(key, 0), self.room, self.m)

    def kept(self, task: Task, sample: Raw) -> tuple[Raw, Float[Array, " size"]]:
        present = jnp.arange(self.room) < self.m
        return sample, present.astype(jnp.float32) / jnp.asarray(self.m).astype(jnp.float32)

    def check(self, task: Task) -> None:
        task.check_sample(self.m)

    @property
    def finite(self) -> bool:
        return True

    def whole(self, task: Task, key: PRNGKeyArray) -> Raw:
        return jax.tree.map(lambda leaf: leaf[: int(self.m)], self.sample(task, key))

    def fitted(self, leaves: Regime) -> Regime:
        return replaced(self, "capacity", int(np.max(leaves.m)))  # type: ignore[attr-defined]


class Offline(SampleRegime):
    """Minibatches from m fixed examples: each epoch is a new exact permutation of them.

    The stream of positions t·B + j runs through epoch after epoch, so a batch may straddle two epochs and
    every example is seen once per epoch whatever m is.
    """

    m: Int[AnyArray, ""] = data(np.int32)
    batch_size: int = structure(default=32)
    capacity: int = structure(default=0, fitted=True)

    def __check_init__(self) -> None:
        require_integer("batch_size", self.batch_size, 1, MOST_EXAMPLES)

    def feed(self, task: Task, key: PRNGKeyArray, start: Int[Array, ""], steps: int) -> Int[Array, "steps batch"]:
        m = jnp.asarray(self.m).astype(jnp.uint32)
        within = jnp.arange(steps * self.batch_size, dtype=jnp.uint32).reshape(steps, self.batch_size)
        # start·B may pass 2^32: multiply bit by bit, highest first, and divide by m as it grows.
        epoch, place = jnp.uint32(0), jnp.uint32(0)
        first = start.astype(jnp.uint32)
        for bit in f"{self.batch_size:b}":
            place = 2 * place + (first % m if bit == "1" else 0)
            epoch = 2 * epoch + (first // m if bit == "1" else 0) + place // m
            place = place % m
        tail = place + within
        return shuffled(jax.random.fold_in(key, 1), epoch + tail // m, tail % m, m)

    def batch(self, task: Task, sample: Raw, fed: Int[Array, " batch"]) -> tuple[Raw, None]:
        return jax.tree.map(lambda leaf: jnp.take(leaf, fed, axis=0), sample), None


class Epochs(SampleRegime):
    """Minibatches from m fixed examples, ⌈m/B⌉ of them per epoch: the last one is smaller, and none straddles two.

    With m < B every step is one epoch. Rows of a batch beyond the end of its epoch weigh nothing.
    """

    m: Int[AnyArray, ""] = data(np.int32)
    batch_size: int = structure(default=32)
    capacity: int = structure(default=0, fitted=True)

    def __check_init__(self) -> None:
        require_integer("batch_size", self.batch_size, 1, MOST_EXAMPLES)

    def steps(self, epochs: int) -> int:
        """How many steps so many epochs take."""
        return epochs * -(-int(self.m) // self.batch_size)

    def feed(self, task: Task, key: PRNGKeyArray, start: Int[Array, ""], steps: int) -> Any:
        m, size = jnp.asarray(self.m).astype(jnp.uint32), jnp.uint32(self.batch_size)
        per_epoch = (m + size - 1) // size
        step = start.astype(jnp.uint32) + jnp.arange(steps, dtype=jnp.uint32)
        within = jnp.arange(self.batch_size, dtype=jnp.uint32)
        place = (step % per_epoch)[:, None] * size + within[None, :]
        present = place < m
        epoch = jnp.broadcast_to((step // per_epoch)[:, None], place.shape)
        return shuffled(jax.random.fold_in(key, 1), epoch, jnp.where(present, place, 0), m), present

    def batch(self, task: Task, sample: Raw, fed: Any) -> tuple[Raw, Float[Array, " size"]]:
        chosen, present = fed
        weight = present.astype(jnp.float32)
        return jax.tree.map(lambda leaf: jnp.take(leaf, chosen, axis=0), sample), weight / jnp.sum(weight)


class Resampled(SampleRegime):
    """Minibatches from m fixed examples, each place of a batch drawn uniformly from all of them, with replacement.

    With a batch of 1 it is the SGD of *Can SGD learn recurrent neural networks with provable generalization?*.
    """

    m: Int[AnyArray, ""] = data(np.int32)
    batch_size: int = structure(default=1)
    capacity: int = structure(default=0, fitted=True)

    def __check_init__(self) -> None:
        require_integer("batch_size", self.batch_size, 1, MOST_EXAMPLES)

    def feed(self, task: Task, key: PRNGKeyArray, start: Int[Array, ""], steps: int) -> Int[Array, "steps batch"]:
        m = jnp.asarray(self.m).astype(jnp.int32)
        chosen = jax.random.fold_in(jax.random.fold_in(key, 1), start)
        return jax.random.randint(chosen, (steps, self.batch_size), 0, m)

    def batch(self, task: Task, sample: Raw, fed: Int[Array, " batch"]) -> tuple[Raw, None]:
        return jax.tree.map(lambda leaf: jnp.take(leaf, fed, axis=0), sample), None


class FullBatch(SampleRegime):
    """All of m fixed examples in every step.

    The sum over examples runs over the room of the cohort's largest m, so the last bits of a sum may depend on it.
    """

    m: Int[AnyArray, ""] = data(np.int32)
    capacity: int = structure(default=0, fitted=True)

    def feed(self, task: Task, key: PRNGKeyArray, start: Int[Array, ""], steps: int) -> Int[Array, " steps"]:
        return jnp.arange(steps)

    def batch(self, task: Task, sample: Raw, fed: Any) -> tuple[Raw, Float[Array, " size"]]:
        return self.kept(task, sample)


class Population(Regime):
    """Every input of the task, noiseless and equally weighted, in every step."""

    def sample(self, task: Task, key: PRNGKeyArray) -> Raw:
        return ()

    def feed(self, task: Task, key: PRNGKeyArray, start: Int[Array, ""], steps: int) -> Int[Array, " steps"]:
        return jnp.arange(steps)

    def batch(self, task: Task, sample: Raw, fed: Any) -> tuple[Raw, None]:
        return self.kept(task, sample)

    def kept(self, task: Task, sample: Raw) -> tuple[Raw, None]:
        return task.population(), None

    @property
    def finite(self) -> bool:
        return True

    def whole(self, task: Task, key: PRNGKeyArray) -> Raw:
        return task.population()

    def check(self, task: Task) -> None:
        task.population()
