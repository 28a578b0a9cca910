"""Symmetric languages in one pass of attention (dissertation, Lemmas A.22 and A.25, section 4.5).

Words of length T in which only the numbers n_a of the symbols matter. One head with Q = K = 0 attends to the T symbols
and to [CLS] alike, and counts:

    y = softmax(v_CLS Q Kᵀ Xᵀ) X V = (n_a)_a,   x_t = E_{c_t} = e_{c_t},   V = (T+1) on the symbols, 0 on [CLS]

for all symbols but the last, whose number follows from the others. Then a table of counts in ReLUs, as in chapter 4 for
symmetric functions: with u = 4(y_a - v), which is 0 where symbol a occurs v times,

    ψ_{a,v} = (u+2)₊ - (u+1)₊ - (u-1)₊ + (u-2)₊       1 within 1/4 of v, 0 beyond 1/2 of it
    z_n = Σ_a ψ_{a,n_a} - (k-1)                        1 for the counts n of the k symbols, at most 0 for all others
    F = -1 + 2 Σ_{n accepted} round(z_n)               round(z) = 3(z-1/3)₊ - 3(z-2/3)₊ (SM paper, Proposition 3.4)

Bumps of equal symbol and value are shared, and where fewer counts are rejected than accepted, these are listed instead:
F = 1 - 2 Σ. The width is at most max(4k(T+1), 2·counts) and the 1-norm polynomial in T for a fixed alphabet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from krogh.errors import KroghError, require, require_integer
from krogh.networks.compiled import Compiled, Decision, ReadOut, Sizes, Subject, Work, labels_of, log_norm
from krogh.networks.handmade import Checked, handmade, sizes_of
from krogh.networks.margins.automata import certify_counting
from krogh.networks.relu import HIGH, LOW, SLOPE, Affine, Array, Module, ReluNetwork, circuit_output
from krogh.programs import budgets
from krogh.programs.automata import Automaton, asymmetry, count_table, parse_automaton, words_of_length, write_automaton
from krogh.programs.automata.automaton import named_symbols, sample_word
from krogh.theory.numerics import softmax
from krogh.theory.programs.theorem import Certificate

Words = NDArray[np.int32]

SHARPNESS = 4.0
"""1/δ: counts are 1 apart, and a bump is flat within δ = 1/4 of its count (Lemma A.22 with δ = γ/4, γ = 1)."""
SIGNS = np.array([1.0, -1.0, -1.0, 1.0])
SHIFTS = np.array([2.0, 1.0, -1.0, -2.0])
"""Of the four ReLUs of a bump."""
TOLERANCE = 1e-9
"""What rounding may change of an output, as a mean of T+1 numbers is not exact in float64."""
ALL_WORDS = 1 << 16
RANDOM_WORDS = 10_000


@handmade("counting")
@dataclass(frozen=True, eq=False)
class CompiledCounting(Compiled):
    """A head, E [A, d], cls [d], Q, K [d, 1], V [d, k], and the ReLU network that reads the table of counts.

    `counts` [n, A] and `accepted` [n] are that table, of all words of `length`; `width` is that of the ReLUs.
    """

    automaton: Automaton
    length: int
    head: dict[str, Array]
    table: ReluNetwork
    counts: NDArray[np.int64]
    accepted: NDArray[np.bool_]

    @property
    def name(self) -> str:
        """The automaton's."""
        return self.automaton.name

    @property
    def statement(self) -> str:
        """What the network satisfies, in a sentence."""
        alphabet = named_symbols(self.automaton.alphabet)
        return (
            f"F(x) = +1 for the words of '{self.automaton.name}', -1 for all others, on {{{alphabet}}}^{self.length}: "
            f"one head counts, and ReLUs read a table of {len(self.counts)} counts"
        )

    @property
    def size(self) -> dict[str, float]:
        """Layers, width, parameters as full matrices, 1-norm; how many vectors of counts, states and symbols."""
        return {
            "layers": 1 + len(self.table.layers),
            "width": self.table.needed_width,
            **sizes_of(self.parameters),
            "counts": len(self.counts),
            "states": self.automaton.size,
            "symbols": len(self.automaton.alphabet),
        }

    @property
    def parameters(self) -> Mapping[str, sparse.csr_array | Array]:
        """All weights by name: E, cls, Q, K, V, and those of the ReLUs as `krogh.networks.relu` names them."""
        return self.head | self.table.named_weights

    def attended(self, words: Words) -> Array:
        """What the head returns for words [batch, T]: the numbers of all symbols but the last, [batch, k]."""
        self.automaton.check_words(words)
        short = words.shape[1] != self.length or (words < 0).any()
        require(not short, f"the network reads words of length {self.length}; got an array of shape {words.shape}")
        cls, rows = self.head["cls"], np.vstack([self.head["E"], self.head["cls"]])
        own = len(rows) - 1
        tokens = np.hstack([words, np.full((len(words), 1), own, words.dtype)])
        scores = (rows @ self.head["K"] @ (cls @ self.head["Q"]))[tokens]
        return np.einsum("bt,btk->bk", softmax(scores), (rows @ self.head["V"])[tokens])

    def run(self, words: Words) -> Array:
        """F for a batch of words [batch, T] of symbol numbers: ±1 [batch]."""
        return self.table.run(self.attended(words))[:, 0]

    def check(self, count: int = RANDOM_WORDS, seed: int = 0) -> Checked:
        """The outputs on all words if these are at most 65,536; otherwise on a word of every count and random ones.

        As the head returns the same for all words with the same counts, these are all cases. What the head counts is
        checked too.
        """
        require_integer("count", count, 0)
        symbols = len(self.automaton.alphabet)
        exhaustive = symbols**self.length <= ALL_WORDS
        if exhaustive:
            words = words_of_length(symbols, self.length)
        else:
            rng = np.random.default_rng(seed)  # all words take four bytes a letter: `budgets.COUNTS`
            ordered = np.repeat(np.tile(np.arange(symbols, dtype=np.int32), len(self.counts)), self.counts.ravel())
            mixed = rng.permuted(ordered.reshape(-1, self.length), axis=1)
            words = np.vstack([mixed, rng.integers(0, symbols, (count, self.length), np.int32)])
        worst, k = 0.0, self.head["V"].shape[1]
        for start in range(0, len(words), 4096):
            some = words[start : start + 4096]
            numbers = (some[:, :, None] == np.arange(k)).sum(axis=1)
            labels = np.where(self.automaton.accept(some), 1.0, -1.0)
            for actual, expected in ((self.attended(some), numbers), (self.run(some), labels)):
                worst = max(worst, float(np.nan_to_num(np.max(np.abs(actual - expected)), nan=np.inf)))
        counts = len(self.counts)
        scope = f"{'all ' if exhaustive else ''}{len(words):,} words of length {self.length}, all {counts:,} counts"
        return Checked(worst <= TOLERANCE, len(words), exhaustive, worst, scope, {"counts": counts})

    def certificate(self, inputs: Any = None) -> Certificate:
        """For all words of its length."""
        return certify_counting(self)

    def subject(self, inputs: Any, output: int = 0) -> Subject:
        """The network for symbol numbers [batch, T]."""
        words = np.atleast_2d(np.asarray(inputs, np.int32))
        return Subject(_one_output, self.dense_parameters(), tuple(words), labels_of(self.run(words)))

    def decisions(self) -> list[Decision]:
        """A random word that is accepted and one that is not, as far as there are any."""
        words = [sample_word(self.automaton, self.length, label) for label in (True, False)]
        shown = self.automaton.decode
        return [Decision(np.array([word], np.int32), repr(shown(word))) for word in words if word is not None]

    def read_out(self, decision: Decision) -> ReadOut:
        """The last layer of the ReLUs."""
        return ReadOut(*self.table.last_layer(self.attended(decision.inputs)[0]))

    @property
    def work(self) -> Work:
        """One pass."""
        return Work(1 + len(self.table.layers), int(self.size["parameters"]))

    def sizes(self, length: int | None = None) -> Sizes:
        """Those of head and ReLUs together."""
        size, product = self.size, log_norm(self.head["V"], *(layer.weight for layer in self.table.layers))
        return Sizes(size["one_norm"], int(size["parameters"]), int(size["width"]), int(size["layers"]), product)

    def recipe(self) -> dict[str, Any]:
        """The automaton as YAML, and the length."""
        return {"automaton": write_automaton(self.automaton), "length": self.length}

    @classmethod
    def from_recipe(cls, recipe: Mapping[str, Any]) -> CompiledCounting:
        """The automaton compiled again."""
        return compile_counting(parse_automaton(recipe["automaton"], "its automaton"), recipe["length"])

    def with_parameters(self, parameters: Mapping[str, Any]) -> CompiledCounting:
        """The same network with other weights."""
        head = {name: np.asarray(parameters[name]) for name in self.head}
        return replace(self, head=head, table=self.table.with_layers(parameters))


def compile_counting(automaton: Automaton, length: int) -> CompiledCounting:
    """The network of a language for words of a length; refused where the order of the symbols matters there."""
    require_integer("length", length, 1)
    vectors = math.comb(length + len(automaton.alphabet) - 1, len(automaton.alphabet) - 1)
    budgets.COUNTS.check(vectors * length, f"attention over words of length {length:,}", "try a smaller length")
    words = asymmetry(automaton, length)
    if words is not None:
        raise KroghError(
            f"'{automaton.name}' is not symmetric at length {length}: {words[0]!r} is in the language and "
            f"{words[1]!r}, with the same numbers of symbols, is not; attention that counts cannot tell them apart "
            "(another length may do, and the recurrent network always does)"
        )
    counts, accepted = count_table(automaton, length)
    k = max(1, len(automaton.alphabet) - 1)
    return CompiledCounting(
        automaton, length, _head(len(automaton.alphabet), k, length), _table(counts[:, :k], accepted), counts, accepted
    )


def _head(symbols: int, k: int, length: int) -> dict[str, Array]:
    axes = np.eye(symbols + 1)
    values = np.zeros((symbols + 1, k))
    values[np.arange(k), np.arange(k)] = length + 1.0
    silent = np.zeros((symbols + 1, 1))
    head = {"E": axes[:-1], "cls": axes[-1], "Q": silent, "K": silent.copy(), "V": values}
    for value in head.values():
        value.flags.writeable = False
    return head


def _table(counts: NDArray[np.int64], accepted: NDArray[np.bool_]) -> ReluNetwork:
    """The ReLUs that tell the accepted counts [n, k] from the others: bumps, rounded sums, and the output."""
    few = bool(np.count_nonzero(accepted) <= len(accepted) / 2)
    listed = counts[accepted == few]
    n, k = listed.shape
    # Which bumps are needed: pairs of a symbol and how often it occurs, each once.
    codes = listed * k + np.arange(k)[None, :]
    used, number = np.unique(codes, return_inverse=True)
    number = number.reshape(n, k)
    values, symbols = np.divmod(used, k)
    # The four ReLUs of bump i are the units 4i..4i+3.
    hinges = Affine(
        _filled(np.arange(4 * len(used)), np.repeat(symbols, 4), SHARPNESS, (4 * len(used), k)),
        (SHIFTS[None, :] - SHARPNESS * values[:, None]).ravel(),
    )
    columns = (4 * number[:, :, None] + np.arange(4)).reshape(n, 4 * k)
    rows = np.repeat(np.arange(n), 4 * k)
    sums = _filled(rows, columns.ravel(), np.tile(SIGNS, n * k), (n, 4 * len(used)))
    # Units 0..n-1 have the threshold 1/3, units n..2n-1 the threshold 2/3.
    rounded = Affine(sparse.csr_array(sparse.vstack([sums, sums])), np.repeat([1.0 - k - LOW, 1.0 - k - HIGH], n))
    sign = 1.0 if few else -1.0
    last = sparse.csr_array(2 * sign * SLOPE * np.repeat([1.0, -1.0], n)[None, :])
    output = Affine(last, np.array([-sign]))
    modules = (Module("gates", slice(0, 2)), Module("linear", slice(2, 3)))
    return ReluNetwork((hinges, rounded, output), modules)


def _filled(rows: Any, columns: Any, values: Any, shape: tuple[int, int]) -> sparse.csr_array:
    return sparse.csr_array((np.broadcast_to(values, rows.shape), (rows, columns)), shape=shape)


def counting_output(parameters: Mapping[str, Any], words: ArrayLike) -> jax.Array:
    """F [batch] for words [batch, T] as a function of the parameters (`dense_parameters`), whatever their values."""
    E, cls, Q, K, V = (jnp.asarray(parameters[name]) for name in ("E", "cls", "Q", "K", "V"))
    tokens = jnp.asarray(words)
    own = jnp.broadcast_to(cls[None, None, :], (tokens.shape[0], 1, len(cls)))
    rows = jnp.concatenate([E[tokens], own], axis=1)
    scores = jnp.einsum("btd,dk,ek,e->bt", rows, K, Q, cls, precision=jax.lax.Precision.HIGHEST)
    mixed = jnp.einsum("bt,btd,dk->bk", jax.nn.softmax(scores, axis=1), rows, V, precision=jax.lax.Precision.HIGHEST)
    return circuit_output(parameters, mixed)[:, 0]


def _one_output(parameters: dict[str, Any], word: Any) -> jax.Array:
    return counting_output(parameters, jnp.asarray(word)[None, :])[0]
