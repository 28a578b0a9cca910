"""Languages of bit strings with one real label at the end: D_L1, PARITY, substrings (*Learning and generalization in
RNNs*, section 5 and appendix H).

A string w of n bits is given to a network as n unit tokens of `token_sequences` between two ends, a sequence of
L = n + 2 vectors of 4 numbers. Its label is 1 if the string is in the language and 0 if it is not. A network answers
with a real number, and `rule` says when that is a mistake:

    half      the answer and the label are not on the same side of 1/2 (0-1 error)
    third     the answer is not within 1/3 of the label (appendix H)
    square    no such rule: the squared error

Networks are trained on squares in all three cases. With `held` > 0 as many of the 2^n strings, chosen by `split`, are
never drawn for training and are what a network is judged on.
"""

from __future__ import annotations

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt8

from krogh.errors import KroghError, require, require_integer, unknown
from krogh.tasks.additive import position_features, unexplained
from krogh.tasks.base import Examples, Task, task
from krogh.tasks.bits import shuffled
from krogh.tasks.system import System
from krogh.tasks.token_sequences import bit_tokens, check_sequences, normalise_tokens
from krogh.values import AnyArray, data, structure

RULES = ("half", "third", "square")
LAWS = ("blip", "uniform")
LISTED_BITS = 16
"""Strings of so many bits can be listed; their token inputs take 2^16 · 18 · 16 bytes."""

Strings = UInt8[AnyArray, "size bits"]


class BitStringTask(Task):
    """Uniform strings of n bits with a label 0 or 1; a language defines `member`."""

    bits: int = structure()
    eps_x: Float[AnyArray, ""] = data(default=1.0)
    rule: str = structure(default="half")
    held: int = structure(default=0)
    split: Int[AnyArray, ""] = data(np.int32, default=0)

    def __check_init__(self) -> None:
        require_integer("bits", self.bits, 1)
        check_sequences(self.bits + 2, 3, self.eps_x, "one")
        if self.rule not in RULES:
            raise unknown("rule", self.rule, RULES)
        require_integer("held", self.held, 0)
        if self.held:
            listed = self.bits <= LISTED_BITS and self.held < 2**self.bits
            require(
                listed and self.listable,
                f"held strings are some of 2^bits equally likely ones, bits ≤ {LISTED_BITS}; "
                f"got held={self.held}, bits={self.bits}",
            )

    @abc.abstractmethod
    def member(self, strings: Strings) -> Float[Array, " size"]:
        """1 for strings of the language, 0 for others."""

    @property
    def listable(self) -> bool:
        """Whether all 2^n strings are equally likely."""
        return True

    @property
    def length(self) -> int:
        """L, both ends counted."""
        return self.bits + 2

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.length, 4)

    @property
    def regression(self) -> bool:
        return True

    def draw(self, key: PRNGKeyArray, size: int) -> Strings:
        if not self.held:
            return jax.random.bernoulli(key, 0.5, (size, self.bits)).astype(jnp.uint8)
        return self._in_order(jax.random.randint(key, (size,), 0, 2**self.bits - self.held))

    def test(self, key: PRNGKeyArray, size: int) -> Strings:
        """Strings that a network is judged on: those that are held out, one after the other, where some are."""
        if not self.held:
            return self.draw(key, size)
        return self._in_order(2**self.bits - self.held + jnp.arange(size, dtype=jnp.int32) % self.held)

    def dataset(self, key: PRNGKeyArray, size: int, m: Int[AnyArray, ""] | int) -> Strings:
        """A finite sample; where some strings are held out, of the others without repetition, as far as they go."""
        if not self.held:
            return self.draw(key, size)
        count = 2**self.bits - self.held
        order = shuffled(
            key, jnp.zeros(size, jnp.uint32), jnp.arange(size, dtype=jnp.uint32) % count, jnp.uint32(count)
        )
        return self._in_order(order)

    def check_test(self, size: int) -> None:
        known = not self.held or size <= self.held
        require(known, f"{self.held} strings are held out to be judged on; got validation={size}")

    def _in_order(self, place: Int[Array, " size"]) -> Strings:
        """The strings at these places of the order that `split` chooses."""
        key, count = jax.random.fold_in(jax.random.key(0), self.split), 2**self.bits
        place = place.astype(jnp.uint32)
        number = shuffled(key, jnp.zeros_like(place), place, jnp.uint32(count))
        return ((number[:, None] >> jnp.arange(self.bits, dtype=jnp.int32)[None, :]) & 1).astype(jnp.uint8)

    def decode(self, raw: Strings) -> Examples:
        label = self.member(jnp.asarray(raw))
        return Examples(normalise_tokens(bit_tokens(raw), self.eps_x, "one"), label, label)

    def error(self, prediction: Float[Array, " batch"], truth: Float[Array, " batch"]) -> Float[Array, " batch"]:
        return (prediction - truth) ** 2

    def judge(self, prediction: Float[Array, " batch"], examples: Examples) -> Float[Array, " batch"]:
        """A mistake by the rule; an answer that is no number is one."""
        truth = examples.truth
        if self.rule == "square":
            return self.error(prediction, truth)
        right = (prediction - 0.5) * (truth - 0.5) > 0 if self.rule == "half" else jnp.abs(prediction - truth) < 1 / 3
        return 1.0 - right.astype(jnp.float32)

    @property
    def population_size(self) -> int | None:
        return 2**self.bits if self.listable and not self.held and self.bits <= LISTED_BITS else None

    def population(self) -> Strings:
        if self.population_size is None:
            raise KroghError(
                f"the strings of {self.kind!r} are not listed: not all equally likely, held out, or more than "
                f"{LISTED_BITS} bits (use a sample instead)"
            )
        return all_strings(self.bits)

    def distinct(self) -> tuple[Strings, np.ndarray]:
        """Every string that is ever drawn, and its probability."""
        require(self.bits <= LISTED_BITS, f"strings of at most {LISTED_BITS} bits can be listed; got bits={self.bits}")
        strings = all_strings(self.bits)
        return strings, np.full(len(strings), 1 / len(strings))

    def baselines(self) -> dict[str, float]:
        """E y² of predicting 0, the variance of the label, what no sum over positions explains of it, and the error of
        the more frequent label; exactly, where strings can be listed."""
        if self.bits > LISTED_BITS:
            return {}
        strings, p = self.distinct()
        y = np.asarray(self.member(jnp.asarray(strings)), np.float64)
        share = float(p @ y)
        return {
            "null_risk": share,
            "label_variance": share * (1 - share),
            "additive_floor": unexplained(position_features(strings), y, p),
            "guessing_error": min(share, 1 - share),
        }


def all_strings(bits: int) -> Strings:
    """All strings of n bits, the first bit changing quickest."""
    return ((np.arange(2**bits)[:, None] >> np.arange(bits)) & 1).astype(np.uint8)


@task("single-blip")
class SingleBlip(BitStringTask):
    """D_L1 = 0*10*: exactly one 1.

    By the law "blip" a string is 0^q a b 0^(n-q-2) with q uniform in 0..n-2 and (a, b) uniform: the empty string 0^n
    has probability 1/4, and every additive function errs with probability at least 1/4 (Theorem H.1). By "uniform" all
    bits are.
    """

    law: str = structure(default="blip")

    system = System(
        knobs={
            "bits": "how far the blip may be from the end",
            "law": "two bits beside each other, as in the lower bound, or all strings",
            "eps_x": "the size of tokens beside the ends",
        },
        baselines=("null_risk", "additive_floor"),
        theory=("recurrence/single-blip-floor",),
        phenomena={"interactions between tokens are learned": ("recurrence/additive-floor",)},
    )

    def __check_init__(self) -> None:
        if self.law not in LAWS:
            raise unknown("law", self.law, LAWS)
        require_integer("bits", self.bits, 2)

    @property
    def listable(self) -> bool:
        return self.law == "uniform"

    def member(self, strings: Strings) -> Float[Array, " size"]:
        return (jnp.sum(strings, axis=-1, dtype=jnp.int32) == 1).astype(jnp.float32)

    def draw(self, key: PRNGKeyArray, size: int) -> Strings:
        if self.law == "uniform":
            return super().draw(key, size)
        for_place, for_bits = jax.random.split(key)
        q = jax.random.randint(for_place, (size, 1), 0, self.bits - 1)
        ab = jax.random.bernoulli(for_bits, 0.5, (size, 2))
        place = jnp.arange(self.bits)[None, :]
        found = ((place == q) & ab[:, :1]) | ((place == q + 1) & ab[:, 1:])
        return found.astype(jnp.uint8)

    def distinct(self) -> tuple[Strings, np.ndarray]:
        if self.law == "uniform":
            return super().distinct()
        drawn = np.zeros((self.bits - 1, 2, 2, self.bits), np.uint8)
        for q in range(self.bits - 1):
            drawn[q, 1, :, q] = 1
            drawn[q, :, 1, q + 1] = 1
        strings, counts = np.unique(drawn.reshape(-1, self.bits), axis=0, return_counts=True)
        return strings, counts / counts.sum()

    @classmethod
    def example(cls) -> SingleBlip:
        return cls(bits=6)


@task("string-parity")
class StringParity(BitStringTask):
    """PARITY: 1 if the number of ones is odd. No sum over positions correlates with it, for n ≥ 2."""

    system = System(
        knobs={"bits": "the degree of the interaction", "eps_x": "the size of tokens beside the ends"},
        baselines=("null_risk", "additive_floor"),
        theory=("recurrence/parity-floor", "recurrence/parity-complexity"),
        phenomena={"interactions between tokens are learned": ("recurrence/additive-floor",)},
    )

    def __check_init__(self) -> None:
        require(self.bits >= 2, f"a parity needs bits ≥ 2 (one bit is additive); got bits={self.bits}")

    def member(self, strings: Strings) -> Float[Array, " size"]:
        return (jnp.sum(strings, axis=-1, dtype=jnp.int32) % 2).astype(jnp.float32)

    @classmethod
    def example(cls) -> StringParity:
        return cls(bits=5)


@task("substring")
class Substring(BitStringTask):
    """1 if one of the patterns occurs in the string; with `most`, if they occur at most so many times in all."""

    patterns: tuple[str, ...] = structure(default=("101",))
    most: int | None = structure(default=None)

    system = System(
        knobs={
            "bits": "how long strings are: how many places a pattern may have",
            "patterns": "what is looked for",
            "most": "whether it may occur at all, or how often",
            "held": "strings that are kept for the test",
        },
        baselines=("null_risk", "additive_floor"),
        phenomena={"interactions between tokens are learned": ("recurrence/substring",)},
    )

    def __init__(
        self,
        bits: int,
        patterns: Any = ("101",),
        most: int | None = None,
        eps_x: Any = 1.0,
        rule: str = "half",
        held: int = 0,
        split: Any = 0,
    ):
        self.bits, self.eps_x, self.rule, self.held, self.split = bits, eps_x, rule, held, split
        self.patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
        self.most = most

    def __check_init__(self) -> None:
        require(self.patterns, "a substring task needs at least one pattern; got none")
        for pattern in self.patterns:
            fits = isinstance(pattern, str) and 1 <= len(pattern) <= self.bits and set(pattern) <= set("01")
            require(fits, f"patterns are words of 0 and 1, of 1 to {self.bits} letters; got {pattern!r}")
        distinct = len(set(self.patterns)) == len(self.patterns)
        require(distinct, f"patterns must not repeat; got {self.patterns}")
        if self.most is not None:
            require_integer("most", self.most, 0)

    def occurrences(self, strings: Strings) -> Int[Array, " size"]:
        """How often the patterns occur in each string, overlaps counted."""
        given = jnp.asarray(strings)
        total = jnp.zeros(given.shape[0], jnp.int32)
        for pattern in self.patterns:
            wanted = np.array([int(letter) for letter in pattern], np.uint8)
            for start in range(self.bits - len(pattern) + 1):
                here = jnp.all(given[:, start : start + len(pattern)] == wanted[None, :], axis=-1)
                total += here.astype(jnp.int32)
        return total

    def member(self, strings: Strings) -> Float[Array, " size"]:
        found = self.occurrences(strings)
        return (found >= 1 if self.most is None else found <= self.most).astype(jnp.float32)

    @classmethod
    def example(cls) -> Substring:
        return cls(bits=7)
