"""Sums over the letters of a string: counting them, and telling their positions apart.

*Can SGD learn recurrent neural networks with provable generalization?* has them as examples of its sums over tokens
(`token_sums.py`), which `as_sum` writes them as:

    letter-count         #a - #b among the letters before j: zero exactly where they are equally many         (Ex. 3.6)
    letter-positions     Σ_i c_i 1[x_i = b] at the end: equal letters at different places weigh differently   (fn. 6)
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from krogh.errors import require, require_integer
from krogh.tasks.base import task
from krogh.tasks.bit_strings import all_strings
from krogh.tasks.system import System
from krogh.tasks.token_moments import Floats
from krogh.tasks.token_sequences import REST, bit_tokens, running_sums
from krogh.tasks.token_sums import KNOBS, Sequences, SequenceSum, TokenSum, check_finite, check_labels
from krogh.values import AnyArray, data, plain, structure, traced

MOST_LISTED = 20


class LetterSum(SequenceSum):
    """Uniform strings of letters a = (√3/2, 0, 1/2) and b = (0, √3/2, 1/2), all of which can be listed.

    Raw tokens are bits, 1 for an a.
    """

    @property
    def dx(self) -> int:
        return 3

    @property
    def outputs(self) -> int:
        return 1

    @property
    def letters(self) -> int:
        """How many letters a string has."""
        return self.length - 2

    def draw_raw(self, key: PRNGKeyArray, size: int) -> Int[Array, "size letters"]:
        return jax.random.bernoulli(key, 0.5, (size, self.letters)).astype(jnp.int8)

    def tokens(self, raw: AnyArray) -> Float[Array, "batch count 3"]:
        return bit_tokens(raw)

    @property
    def population_size(self) -> int | None:
        return 2**self.letters if self.letters <= MOST_LISTED else None

    def population(self) -> Sequences:
        listed = self.letters <= MOST_LISTED
        require(listed, f"strings of at most {MOST_LISTED} letters can be listed; got {self.letters} (use a sample)")
        return self.without_noise(all_strings(self.letters).astype(np.int8))

    def _as_sum(self, direction: Sequence[float | int], amplitudes: Floats) -> TokenSum:
        """The sum over tokens with one direction for all pairs, and an amplitude for each."""
        weights = np.broadcast_to(np.array(direction), (len(self.pairs), 1, 1, 3))
        return TokenSum(
            length=self.length,
            weights=weights,
            amplitudes=amplitudes[:, None, None],
            eps_x=self.eps_x,
            last=self.last,
            labels="every" if self.every else "last",
        )


@task("letter-count")
class LetterCount(LetterSum):
    """(#a - #b)/scale among the letters before a label: a sum of <w*, x*_i>/√(3/8) with w* = (1, -1, 0)/√2."""

    length: int = structure()
    scale: Float[AnyArray, ""] = data(default=4.0)
    eps_x: Float[AnyArray, ""] = data(default=1.0)
    last: str = structure(default="eps")
    labels: str = structure(default="every")
    noise: Float[AnyArray, ""] | None = data(optional=True, default=None)

    system = System(
        knobs={**KNOBS, "scale": "what a count is divided by to become a label"},
        baselines=("null_risk", "variance"),
        theory=("recurrence/sums-guarantee",),
        phenomena={"recurrent networks count": ("recurrence/counting",)},
    )

    def __check_init__(self) -> None:
        check_labels(self.length, self.labels)
        self.check_common()
        positive = traced(self.scale) or bool(np.all(np.asarray(self.scale) > 0) and np.all(np.isfinite(self.scale)))
        require(positive, f"scale must be a positive number; got scale={plain(self.scale)}")

    @property
    def every(self) -> bool:
        return self.labels == "every"

    def counts(self, raw: AnyArray) -> Int[Array, "batch labels"]:
        """#a - #b among the letters before each label."""
        signs = 2 * jnp.asarray(raw).astype(jnp.int32) - 1
        return jnp.take(jnp.cumsum(signs, axis=1), np.array(self.places) - 3, axis=1)

    def truth(self, raw: AnyArray) -> Float[Array, "batch labels 1"]:
        return (self.counts(raw).astype(jnp.float32) / self.scale)[:, :, None]

    def moments(self) -> tuple[Floats, Floats]:
        steps = np.array(self.places, float)[:, None] - 2  # a random walk: mean 0, variance as many as letters
        return np.zeros_like(steps), steps / float(self.scale) ** 2

    def as_sum(self) -> TokenSum:
        """The same function as a sum over tokens of the class."""
        amplitudes = np.full(len(self.pairs), 1 / math.sqrt(3 / 8)) / float(self.scale)
        return self._as_sum((1 / math.sqrt(2), -1 / math.sqrt(2), 0), amplitudes)

    @classmethod
    def example(cls) -> "LetterCount":
        return cls(length=8)


def evenly(letters: int) -> tuple[float, ...]:
    """c_i = i/letters for i = 1, 2, ..."""
    return tuple(place / letters for place in range(1, letters + 1))


@task("letter-positions")
class LetterPositions(LetterSum):
    """Σ_i c_i 1[letter i is b] at the end, with distinct c_i: positions are not given, and must be told apart."""

    length: int = structure()
    coefficients: Float[AnyArray, " letters"] = data()
    eps_x: Float[AnyArray, ""] = data()
    last: str = structure()
    noise: Float[AnyArray, ""] | None = data(optional=True)

    system = System(
        knobs={
            "length": KNOBS["length"],
            "eps_x": KNOBS["eps_x"],
            "coefficients": "what a letter is worth at each place",
        },
        baselines=("null_risk", "variance"),
        theory=("recurrence/sums-guarantee",),
        phenomena={"one matrix tells positions apart": ("recurrence/positions",)},
    )

    def __init__(
        self, length: int, coefficients: Any = None, eps_x: Any = 1.0, last: str = "eps", noise: Any = None
    ) -> None:
        require_integer("length", length, 3)
        self.length, self.eps_x, self.last, self.noise = length, eps_x, last, noise
        self.coefficients = evenly(length - 2) if coefficients is None else coefficients

    def __check_init__(self) -> None:
        self.check_common()
        shape = np.shape(self.coefficients)
        require(shape == (self.letters,), f"there is one coefficient for each of {self.letters} letters; got {shape}")
        if not traced(self.coefficients):
            distinct = np.unique(self.coefficients).size == self.letters
            require(distinct, f"coefficients are distinct, or places are alike; got {plain(self.coefficients)}")
            check_finite(self.coefficients, "coefficients")

    @property
    def every(self) -> bool:
        return False

    def truth(self, raw: AnyArray) -> Float[Array, "batch 1 1"]:
        worth = jnp.where(jnp.asarray(raw) == 0, jnp.asarray(self.coefficients), 0.0)
        return running_sums(worth)[-1][:, None, None]

    def moments(self) -> tuple[Floats, Floats]:
        c = np.asarray(self.coefficients, np.float64)
        return np.full((1, 1), c.sum() / 2), np.full((1, 1), np.sum(c**2) / 4)

    def as_sum(self) -> TokenSum:
        """The same function as a sum over tokens of the class: 1[b] = <(0, 1, 0), x*>·2/√3."""
        return self._as_sum((0, 1, 0), np.asarray(self.coefficients, np.float64) / REST)

    @classmethod
    def example(cls) -> "LetterPositions":
        return cls(length=7)
