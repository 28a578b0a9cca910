"""Languages by a few smooth neurons that see a whole word: members of the class that recurrent networks learn.

*Learning and generalization in RNNs*, section 5 and appendix H. A network Σ_r b_r Φ(gain·⟨w_r, x⟩ + c_r) of a word of n
bits, written as bits 0 and 1, as signs ±1, or as the unit tokens of the theory; with ones(x) the number of 1s,

    exactly-one   Φ(z) = 2z - z² of ones(x): 1 for words of 0*10*, at most 0 for all others
    parity        Φ(z) = (1 - cos πz)/2 of ones(x): 1 for an odd number, 0 for an even one
    substrings    Σ_i exp(c(⟨v_i, x⟩ - k)), v_i = the pattern as signs at places i..i+k-1, for all patterns of length k:
                  at least 1 where it occurs, at most P(n-k+1) e^{-2c} ≤ 1/n elsewhere, for c ≥ ½ ln(P n(n-k+1))

for P patterns (the source has one, and c = Ω(log n)). The printed form of the first, Φ(z + 1/2) > 0, accepts the word
of zeros too. Where tokens are given (`scaled_into_tokens`), ones(x) = (2/√3) √n ⟨w, x⟩ with w of norm 1 on the first
coordinate of every token, so that Φ absorbs the factor 2√(n/3): the neuron is then a target of the theorem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.networks.handmade import Checked, Handmade, Oracle, handmade, sizes_of
from krogh.programs.automata.automaton import Automaton
from krogh.programs.automata.library import known_language
from krogh.programs.automata.regex import from_regex
from krogh.tasks.bit_strings import all_strings
from krogh.tasks.token_sequences import REST

Floats = NDArray[np.float64]
Bits = NDArray[np.integer[Any]]

MOST_LISTED = 16
"""Words up to this length are all tried."""
RANDOM_WORDS = 20_000
TOLERANCE = 1e-9

FUNCTIONS: dict[str, Callable[[Floats], Floats]] = {
    "2z - z²": lambda z: 2 * z - z**2,
    "(1 - cos πz)/2": lambda z: (1 - np.cos(math.pi * z)) / 2,
    "exp": np.exp,
}
WRITTEN: dict[str, Callable[[Floats], Floats]] = {
    "bits": lambda bits: bits,
    "signs": lambda bits: 2 * bits - 1,
    "tokens": lambda bits: np.stack([REST * bits, REST * (1 - bits), np.full_like(bits, 0.5)], -1).reshape(
        len(bits), -1
    ),
}
"""How a word of bits [batch, n] is given to the neurons."""


@dataclass(frozen=True)
class Membership(Oracle):
    """All words of n bits, or random ones where there are too many, and whether an automaton accepts them."""

    n: int
    language: Automaton

    @property
    def exhaustive(self) -> bool:
        return self.n <= MOST_LISTED

    def cases(self, seed: int) -> Iterator[tuple[Any, Any]]:
        if self.exhaustive:
            words = all_strings(self.n).astype(np.int64)
        else:  # half of them sparse, so that a single 1 occurs
            rng = np.random.default_rng(seed)
            density = np.where(np.arange(RANDOM_WORDS) % 2, 0.5, 1.5 / self.n)
            words = (rng.random((RANDOM_WORDS, self.n)) < density[:, None]).astype(np.int64)
        yield words, self.language.final[self.language.run(words.astype(np.int32))[:, -1]]


@dataclass(frozen=True)
class Gap:
    """By how much words of the language lie above all others."""

    value: float
    holds_for: str


@handmade("smooth neurons")
@dataclass(frozen=True, eq=False)
class SmoothNeurons(Handmade):
    """Σ_r b_r Φ(gain·⟨w_r, x⟩ + c_r): `accepted` and `rejected` are the ranges that the output has on words of n bits.

    Parameters: w [neurons, features], b [neurons], c [neurons] and gain, a number.
    """

    name: str
    n: int
    function: str
    written: str
    language: Automaton
    accepted: tuple[float, float]
    rejected: tuple[float, float]
    parameters: Mapping[str, Floats]
    settings: Mapping[str, Any]

    @property
    def statement(self) -> str:
        neurons = len(self.parameters["b"])
        return (
            f"{neurons} neuron{'s' * (neurons > 1)} Φ(z) = {self.function} give {_range(self.accepted)} on words of "
            f"length {self.n} in '{self.language.name}', and {_range(self.rejected)} on all others"
        )

    @property
    def size(self) -> dict[str, float]:
        return {"neurons": len(self.parameters["b"]), **sizes_of(self.parameters)}

    def run(self, words: ArrayLike, /) -> Floats:
        """The output for words [batch, n] of bits 0 and 1."""
        bits = np.asarray(words, np.float64)
        fits = bits.ndim == 2 and bits.shape[1] == self.n and bool(np.isin(bits, (0, 1)).all())
        require(fits, f"the neurons read words of {self.n} bits 0 and 1, [batch, {self.n}]; got shape {bits.shape}")
        p = self.parameters
        z = float(p["gain"]) * (WRITTEN[self.written](bits) @ p["w"].T) + p["c"]
        return np.asarray(FUNCTIONS[self.function](z) @ p["b"])

    @property
    def oracle(self) -> Membership:
        return Membership(self.n, self.language)

    def check(self, seed: int = 0) -> Checked:
        """Every output in the range that the language's automaton says."""
        ((words, inside),) = self.oracle.cases(seed)
        output, every = self.run(words), self.oracle.exhaustive
        low, high = (np.where(inside, self.accepted[end], self.rejected[end]) for end in (0, 1))
        beyond = np.maximum(low - output, output - high)
        worst = math.inf if np.isnan(beyond).any() else max(0.0, float(beyond.max()))
        scope = f"outputs on {'all ' * every}{len(words):,} words, {int(inside.sum()):,} of them accepted"
        holds = worst <= TOLERANCE and bool(inside.any())
        return Checked(holds, len(words), every, worst, scope, {"accepted": int(inside.sum())})

    def certificate(self) -> Gap:
        """The least output inside the language over the largest outside it, by the statement."""
        return Gap(
            self.accepted[0] - self.rejected[1], f"every word of length {self.n}: the gap between the two ranges"
        )

    def recipe(self) -> dict[str, Any]:
        return {"name": self.name, "settings": dict(self.settings)}

    @classmethod
    def from_recipe(cls, recipe: Mapping[str, Any]) -> SmoothNeurons:
        return MAKERS[recipe["name"]](**recipe["settings"])

    def with_parameters(self, parameters: Mapping[str, Any]) -> Self:
        return replace(self, parameters=parameters)


def _range(ends: tuple[float, float]) -> str:
    if ends[0] == ends[1]:
        return f"{ends[0]:g}"
    return f"at most {ends[1]:.4g}" if ends[0] in (-math.inf, 0.0) else f"{ends[0]:.4g} to {ends[1]:.4g}"


def _counting(n: int, tokens: bool) -> tuple[str, dict[str, Floats]]:
    """One neuron that reads ones(x): off bits with weights 1, or off tokens with a unit w and the gain 2√(n/3)."""
    weights = {"b": np.ones(1), "c": np.zeros(1)}
    if not tokens:
        return "bits", {"w": np.ones((1, n)), **weights, "gain": np.array(1.0)}
    w, gain = scaled_into_tokens(n)
    return "tokens", {"w": w[None], **weights, "gain": np.array(gain)}


def scaled_into_tokens(n: int) -> tuple[Floats, float]:
    """w of norm 1 [3n] and the factor 2√(n/3) with ones(x) = factor·⟨w, x⟩ for the tokens of n bits."""
    w = np.zeros((n, 3))
    w[:, 0] = 1 / math.sqrt(n)
    return w.ravel(), 2 * math.sqrt(n / 3)


def exactly_one(n: int, tokens: bool = False) -> SmoothNeurons:
    """One quadratic neuron for 0*10*, off bits or off tokens."""
    require_integer("n", n, 1)
    written, weights = _counting(n, tokens)
    language, function = from_regex("0*10*", name="0*10*"), "2z - z²"
    return SmoothNeurons(
        "exactly-one", n, function, written, language, (1.0, 1.0), (-math.inf, 0.0), weights, {"n": n, "tokens": tokens}
    )


def odd_ones(n: int, tokens: bool = False) -> SmoothNeurons:
    """One cosine neuron for an odd number of 1s, off bits or off tokens."""
    require_integer("n", n, 1)
    written, weights = _counting(n, tokens)
    language, function = known_language("parity"), "(1 - cos πz)/2"
    return SmoothNeurons(
        "parity", n, function, written, language, (1.0, 1.0), (0.0, 0.0), weights, {"n": n, "tokens": tokens}
    )


def steepness(n: int, k: int, patterns: int = 1) -> float:
    """The least c that keeps words without any of the patterns at 1/n: ½ ln(P n(n-k+1))."""
    return 0.5 * math.log(patterns * n * (n - k + 1))


def contains(n: int, patterns: Sequence[str], c: float | None = None) -> SmoothNeurons:
    """n-k+1 exponential neurons for each of some patterns of one length k: does a word contain one of them?"""
    require_integer("n", n, 1)
    given = [patterns] if isinstance(patterns, str) else list(patterns)
    k = len(given[0]) if given else 0
    fits = 1 <= k <= n and all(len(one) == k and set(one) <= {"0", "1"} for one in given)
    fits = fits and len(set(given)) == len(given)
    require(fits, f"patterns are different words over 0 and 1 of one length between 1 and n={n}; got {given}")
    least = steepness(n, k, len(given))
    steep = least if c is None else float(c)
    require(steep >= least * (1 - 1e-12), f"c must be at least ½ ln(P n(n-k+1)) = {least:.6g}; got c={c!r}")
    places, w = n - k + 1, np.zeros((len(given), n - k + 1, n))
    for which, pattern in enumerate(given):
        for i in range(places):
            w[which, i, i : i + k] = [1.0 if bit == "1" else -1.0 for bit in pattern]
    neurons = len(given) * places
    either, most = "|".join(given), neurons * math.exp(-2 * steep)
    language = from_regex(f"(0|1)*({either})(0|1)*", name=f"words that contain {' or '.join(given)}")
    weights = {
        "w": w.reshape(neurons, n),
        "b": np.ones(neurons),
        "c": np.full(neurons, -steep * k),
        "gain": np.array(steep),
    }
    settings = {"n": n, "patterns": given, "c": steep}
    ranges = (1.0, float(neurons)), (0.0, most)
    return SmoothNeurons("substrings", n, "exp", "signs", language, *ranges, weights, settings)


MAKERS: dict[str, Callable[..., SmoothNeurons]] = {
    "exactly-one": exactly_one,
    "parity": odd_ones,
    "substrings": contains,
}
