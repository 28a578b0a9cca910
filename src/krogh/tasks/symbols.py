"""Functions of n uniform symbols 0..A-1 with labels 0..classes-1: a new task is its label alone.

    class ModularSum(SymbolTask):
        n: int = structure()
        alphabet: int = structure()

        @property
        def classes(self): return self.alphabet
        def label(self, symbols): return jnp.sum(symbols, axis=-1) % self.alphabet

A learner is h(x) = discretize(f(encode(x); θ)) (dissertation, §3.2):

    encode       two symbols become a sign per coordinate; more become one-hot vectors, concatenated
    discretize   two labels are the sign of a scalar; more are the argmax of a score per label
"""

import abc

import jax
import jax.numpy as jnp
import numpy as np
from equinox import AbstractVar
from jaxtyping import Array, Float, Int, PRNGKeyArray

from krogh.errors import require, require_integer
from krogh.tasks.base import ClassificationTask, Examples
from krogh.values import AnyArray, traced

MOST_WORDS = 1 << 20
"""Inputs of a task that are all listed."""


class SymbolTask(ClassificationTask):
    """A class for every word of `n` symbols out of `alphabet`, all words equally likely; models read encoded words."""

    n: AbstractVar[int]
    alphabet: AbstractVar[int]

    @abc.abstractmethod
    def label(self, symbols: Int[Array, "size n"]) -> Int[Array, " size"]:
        """The class of each word of symbols 0..alphabet-1."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (features(self.n, self.alphabet),)

    def draw(self, key: PRNGKeyArray, size: int) -> Int[Array, "size n"]:
        return jax.random.randint(key, (size, self.n), 0, self.alphabet, jnp.int32)

    def decode(self, raw: Int[AnyArray, "size n"]) -> Examples:
        y = self.label(jnp.asarray(raw)).astype(jnp.int32)
        return Examples(encode(raw, self.alphabet), y, y)

    @property
    def population_size(self) -> int | None:
        words = self.alphabet**self.n
        return words if words <= MOST_WORDS else None

    def population(self) -> Int[np.ndarray, "size n"]:
        require(
            self.population_size,
            f"at most {MOST_WORDS:,} words can be listed; got {self.alphabet}^{self.n} (use a sample instead)",
        )
        digits = self.alphabet ** np.arange(self.n)[::-1]
        return (np.arange(self.alphabet**self.n)[:, None] // digits % self.alphabet).astype(np.int32)


def encode(symbols: Int[AnyArray, "*batch n"], alphabet: int) -> Float[Array, "*batch features"]:
    """Symbols 0..A-1 as numbers: for A = 2 the sign 1 - 2·symbol, n features; for more, one-hot vectors, A·n features.

    Symbol 1 of two is -1, as everywhere here.
    """
    require_integer("alphabet", alphabet, 2)
    if not traced(symbols):
        given = np.asarray(symbols)
        outside = given[(given < 0) | (given >= alphabet)]
        require(not outside.size, f"symbols must lie in 0..{alphabet - 1}; got {outside[:1].tolist()}")
    values = jnp.asarray(symbols)
    if alphabet == 2:
        return 1.0 - 2.0 * values.astype(jnp.float32)
    single = jax.nn.one_hot(values, alphabet, dtype=jnp.float32)
    return single.reshape(*values.shape[:-1], values.shape[-1] * alphabet)


def features(n: int, alphabet: int) -> int:
    """How many numbers encode n symbols."""
    require_integer("n", n, 1)
    require_integer("alphabet", alphabet, 2)
    return n if alphabet == 2 else n * alphabet


def discretize(outputs: Float[AnyArray, "*shape"], labels: int) -> Array:
    """Labels from outputs: the sign of each (0, which is neither label, for 0), or the argmax of the last axis.

    Two labels are ±1 and read outputs [...]; more are 0..labels-1 and read outputs [..., labels].
    """
    require_integer("labels", labels, 2)
    values = jnp.asarray(outputs)
    if labels == 2:
        return jnp.sign(values)
    scored = values.ndim > 0 and values.shape[-1] == labels
    require(scored, f"{labels} labels need as many outputs on the last axis; got shape {list(values.shape)}")
    return jnp.argmax(values, axis=-1)
