"""Compiled automata in safetensors files, from which they run again without anything else.

The header (`krogh.networks.weight_files`) says what the network is: its kind, the automaton as YAML, the statement and
the size.

Automata as ReLU networks that read one symbol at a time (rnn-learnability B-K8).

    h_t = φ(W h_{t-1} + A x_t + b),   y = r·h_T = ±1 for words that are accepted and words that are not

A unit (q, a) for every state and symbol: it is 1 where symbol a has just been read in state q, so that h_t is one-hot.

    W[(q,a), (q',a')] = 1 where δ(q',a') = q       A[(q,a), a] = 1       b = -1
    W[(q_0,a), start] = 1                          h_0 = e_start         r[(q,a)] = ±1 as δ(q,a) accepts or not

The sum at (q, a) is 1 where the word so far leads to q, plus 1 where the next symbol is a, minus 1: ReLU is the "and".
The source starts with a recurrent input of 1 at the units (q_0, ·), which need not be W h_0 for any h_0; the unit
*start* makes it so, and reads the empty word too (r[start] = ±1 as q_0 accepts or not). The width is m = |Q||A| + 1,
the 1-norm of all parameters |Q||A|² + 3|Q||A| + |A| + 3.

With `correction`, rounding (SM paper, Proposition 3.4) follows every step, with the same parameters at each: 9m more.

The statement of a compiled automaton, executed.

    by induction   every one-hot hidden state and every symbol: m|A| single steps. Reading a word of any length is a
                   chain of such steps, so that these are all words
    all words      up to a length, each prefix read once
    random words   up to length 200, every hidden state on the way

Whatever differs from what the automaton says counts as an error, by how much; the statement holds if nothing does.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.networks.counting import CompiledCounting, compile_counting
from krogh.networks.relu import Affine, Array, ReluNetwork, rounding_layers
from krogh.networks.weight_files import UNFIT, Weights, damaged, read_file, require_same_shapes, write_file
from krogh.programs.automata.automaton import Automaton
from krogh.programs.automata.files import parse_automaton, write_automaton

Words = NDArray[np.int32]

COLUMNS = 1 << 20
"""Entries of the hidden states of the words that are read at once."""

LARGEST_WIDTH = 20_000
"""Units of a network; W has |A| entries for each."""


@dataclass(frozen=True, eq=False)
class CompiledAutomaton:
    """A recurrent network that accepts what an automaton accepts.

    `recurrent` is W [m, m], `symbols` is A [m, |A|] with b as its bias, `initial` h_0 [m], `readout` r [m]; `rounding`
    are the two layers of a correction, or none.
    """

    automaton: Automaton
    recurrent: sparse.csr_array
    symbols: Affine
    initial: Array
    readout: Array
    rounding: tuple[Affine, Affine] | None

    @property
    def correction(self) -> bool:
        """Whether rounding follows every step."""
        return self.rounding is not None

    @property
    def width(self) -> int:
        """m, the units of the hidden state."""
        return len(self.initial)

    @property
    def statement(self) -> str:
        """What the network satisfies, in a sentence."""
        alphabet = ", ".join(self.automaton.alphabet)
        return (
            f"h_t is one-hot in (state before, symbol) after every symbol, and y = +1 for the words of "
            f"'{self.automaton.name}', -1 for all others over {{{alphabet}}}, exactly, at every length"
        )

    @functools.cached_property
    def weights(self) -> dict[str, sparse.csr_array | Array]:
        """All parameters under their names: W, A, b, h0, r, and V1, c1, V2, c2 of the rounding."""
        found: dict[str, sparse.csr_array | Array] = {
            "W": self.recurrent,
            "A": self.symbols.weight,
            "b": self.symbols.bias,
            "h0": self.initial,
            "r": self.readout,
        }
        for place, layer in enumerate(self.rounding or (), start=1):
            found |= {f"V{place}": layer.weight, f"c{place}": layer.bias}
        return found

    @property
    def size(self) -> dict[str, float]:
        """Width, number of parameters as full matrices, how many are not zero, 1-norm; states and symbols."""
        values = [value if isinstance(value, np.ndarray) else value.data for value in self.weights.values()]
        return {
            "width": self.width,
            "layers_per_symbol": 3 if self.correction else 1,
            "parameters": sum(int(np.prod(value.shape)) for value in self.weights.values()),
            "nonzeros": sum(int(np.count_nonzero(value)) for value in values),
            "one_norm": float(sum(np.abs(value).sum() for value in values)),
            "states": self.automaton.size,
            "symbols": len(self.automaton.alphabet),
        }

    @functools.cached_property
    def _reading(self) -> Array:
        """A e_a + b for every symbol a: [m, |A|]."""
        return self.symbols.weight.toarray() + self.symbols.bias[:, None]

    def step(self, hidden: Array, symbols: NDArray[np.integer]) -> Array:
        """The hidden states [m, batch] after each word's next symbol [batch]."""
        found = self.recurrent @ hidden
        found += self._reading[:, symbols]
        np.maximum(found, 0.0, out=found)
        for layer in self.rounding or ():
            found = np.maximum(layer.weight @ found + layer.bias[:, None], 0.0)
        return found

    def hidden(self, words: Words) -> Iterator[Array]:
        """The hidden states [m, batch] before the first symbol and after each; a word that has ended keeps its own."""
        self.automaton.check_words(words)
        hidden = np.tile(self.initial[:, None], len(words))
        yield hidden
        for symbols in words.T:
            going = symbols >= 0
            if going.all():
                hidden = self.step(hidden, symbols)
            else:
                hidden = hidden.copy()
                hidden[:, going] = self.step(hidden[:, going], symbols[going])
            yield hidden

    def run(self, words: Words) -> Array:
        """y for a batch of words [batch, length] of symbol numbers, padded with -1: ±1 [batch]."""
        found = np.empty(len(words))
        chunk = max(1, COLUMNS // self.width)
        for start in range(0, len(words), chunk):
            *_, last = self.hidden(words[start : start + chunk])
            found[start : start + chunk] = self.readout @ last
        return found

    def dense_parameters(self) -> dict[str, Array]:
        """The parameters as full float64 arrays, for `automaton_output`."""
        return {
            name: np.array(value) if isinstance(value, np.ndarray) else value.toarray()
            for name, value in self.weights.items()
        }


def compile_automaton(automaton: Automaton, *, correction: bool = False) -> CompiledAutomaton:
    """The network of an automaton, its states as they are (`minimise` first for the narrowest one)."""
    states, count = automaton.transitions.shape
    units = states * count
    m = units + 1
    require(
        m <= LARGEST_WIDTH,
        f"an automaton of {states:,} states and {count} symbols needs {m:,} units; at most {LARGEST_WIDTH:,} are "
        "compiled (minimise it, or use a smaller alphabet)",
    )
    following = np.append(automaton.transitions.ravel(), automaton.start)  # the state that each unit leads to
    each = np.arange(count)
    rows = (following[:, None] * count + each[None, :]).ravel()
    columns = np.repeat(np.arange(m), count)
    recurrent = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(m, m))
    places = (np.arange(units), np.tile(each, states))
    symbols = Affine(sparse.csr_array((np.ones(units), places), shape=(m, count)), np.full(m, -1.0))
    initial = np.zeros(m)
    initial[-1] = 1.0
    readout = np.where(automaton.final[following], 1.0, -1.0)
    for array in (initial, readout):
        array.flags.writeable = False
    rounding = rounding_layers(m) if correction else None
    return CompiledAutomaton(automaton, recurrent, symbols, initial, readout, rounding)


def automaton_output(parameters: Mapping[str, Any], words: ArrayLike) -> jax.Array:
    """y [batch] for words [batch, length] padded with -1, as a function of the parameters whatever their values."""
    W, A, b, initial, readout = (jnp.asarray(parameters[name]) for name in ("W", "A", "b", "h0", "r"))
    rounding = [
        (jnp.asarray(parameters[f"V{i}"]), jnp.asarray(parameters[f"c{i}"])) for i in (1, 2) if "V1" in parameters
    ]
    tokens = jnp.asarray(words)

    def step(hidden: jax.Array, symbols: jax.Array) -> tuple[jax.Array, None]:
        found = jax.nn.relu(_product(hidden, W) + A.T[symbols] + b[None, :])
        for V, c in rounding:
            found = jax.nn.relu(_product(found, V) + c[None, :])
        return jnp.where(symbols[:, None] >= 0, found, hidden), None

    start = jnp.broadcast_to(initial[None, :], (tokens.shape[0], len(initial)))
    last, _ = jax.lax.scan(step, start, tokens.T)
    return _product(last, readout[None, :])[:, 0]


def _product(hidden: jax.Array, matrix: jax.Array) -> jax.Array:
    return jnp.matmul(hidden, matrix.T, precision=jax.lax.Precision.HIGHEST)


MOST_WORDS = 50_000
"""Words that are listed unless a length is given, fewer in wide networks."""
MOST_ENTRIES = 1 << 26
"""Entries of the hidden states of all words of the greatest length: 512 MiB in float64."""
RANDOM_WORDS = 1_000
LONGEST = 200
"""Random words are up to this long."""


@dataclass(frozen=True)
class AutomatonCheck:
    """What a check found: single steps, listed words and their greatest length, random words, and the largest error."""

    exact: bool
    steps: int
    inputs: int
    length: int
    random: int
    worst: float

    @property
    def exhaustive(self) -> bool:
        """Always: the single steps decide all words."""
        return self.steps > 0


def check_automaton(
    compiled: CompiledAutomaton, length: int | None = None, count: int | None = None, seed: int = 0
) -> AutomatonCheck:
    """Check all steps, all words up to `length` (some 10,000 words unless given) and `count` random ones."""
    symbols = len(compiled.automaton.alphabet)
    if length is None:
        length = longest_listed(symbols, min(MOST_WORDS, MOST_ENTRIES // 16 // compiled.width))
    if count is None:
        count = max(10, min(RANDOM_WORDS, MOST_ENTRIES // LONGEST // compiled.width))
    require_integer("length", length, 0)
    require_integer("count", count, 0)
    listed = longest_listed(symbols, MOST_ENTRIES // compiled.width)
    require(length <= listed, f"words up to length {listed} are listed for this network; got length={length}")
    steps, induction = _steps(compiled)
    words, error = _all_words(compiled, length)
    worst = max(induction, error, _random_words(compiled, count, seed))
    return AutomatonCheck(worst == 0.0, steps, words + count, length, count, worst)


def longest_listed(symbols: int, most: int) -> int:
    """The greatest length up to which there are at most `most` words; at most 200."""
    total, length = 1, 0
    while length < LONGEST and total + symbols ** (length + 1) <= most:
        length += 1
        total += symbols**length
    return length


def _steps(compiled: CompiledAutomaton) -> tuple[int, float]:
    """All single steps from one-hot states, and what each unit is read as."""
    automaton, m, worst = compiled.automaton, compiled.width, 0.0
    following = _following(automaton)
    readout = np.where(automaton.final[following], 1.0, -1.0)
    chunk = max(1, COLUMNS // m)
    for start in range(0, m, chunk):
        units = np.arange(start, min(start + chunk, m))
        hidden = one_hot(units, m)
        worst = max(worst, _error(compiled.readout @ hidden, readout[units]))
        for symbol in range(len(automaton.alphabet)):
            found = compiled.step(hidden, np.full(len(units), symbol))
            worst = max(worst, _error(found, one_hot(_unit(automaton, following[units], symbol), m)))
    first = one_hot(np.array([m - 1]), m)
    return m * len(automaton.alphabet), max(worst, _error(compiled.initial[:, None], first))


def _all_words(compiled: CompiledAutomaton, length: int) -> tuple[int, float]:
    """All words up to a length: those of length t + 1 are read on from those of length t."""
    automaton, m = compiled.automaton, compiled.width
    symbols = len(automaton.alphabet)
    hidden, state = compiled.initial[:, None], np.array([automaton.start])
    words, worst = 1, _readout_error(compiled, hidden, state)
    for _ in range(length):
        read = np.tile(np.arange(symbols), len(state))
        before = np.repeat(state, symbols)
        hidden = compiled.step(np.repeat(hidden, symbols, axis=1), read)
        state = automaton.transitions[before, read]
        worst = max(worst, _error(hidden, one_hot(_unit(automaton, before, read), m)))
        worst = max(worst, _readout_error(compiled, hidden, state))
        words += len(state)
    return words, worst


def _random_words(compiled: CompiledAutomaton, count: int, seed: int) -> float:
    """Random words of random lengths: every hidden state on the way, and the output."""
    automaton, m = compiled.automaton, compiled.width
    rng, worst = np.random.default_rng(seed), 0.0
    chunk = max(1, COLUMNS // m)
    for start in range(0, count, chunk):
        lengths = rng.integers(0, LONGEST + 1, min(chunk, count - start))
        words = rng.integers(0, len(automaton.alphabet), (len(lengths), LONGEST)).astype(np.int32)
        words[np.arange(LONGEST)[None, :] >= lengths[:, None]] = -1
        path = automaton.run(words)
        unit = np.full(len(words), m - 1)
        for t, hidden in enumerate(compiled.hidden(words)):
            if t:
                read = words[:, t - 1]
                unit = np.where(read >= 0, _unit(automaton, path[:, t - 1], read), unit)
            worst = max(worst, _error(hidden, one_hot(unit, m)), _readout_error(compiled, hidden, path[:, t]))
    return worst


def one_hot(units: NDArray[np.integer], m: int) -> Array:
    """The hidden states [m, batch] in which each of the given units alone is 1."""
    found = np.zeros((m, len(units)))
    found[units, np.arange(len(units))] = 1.0
    return found


def _following(automaton: Automaton) -> NDArray[np.int64]:
    """The state that every unit leads to, found one entry of the table at a time."""
    count = len(automaton.alphabet)
    pairs = [automaton.transitions[unit // count, unit % count] for unit in range(automaton.size * count)]
    return np.array([*pairs, automaton.start], np.int64)


def _unit(automaton: Automaton, state: NDArray[np.integer], symbol: NDArray[np.integer] | int) -> NDArray[np.int64]:
    return np.asarray(state, np.int64) * len(automaton.alphabet) + symbol


def _readout_error(compiled: CompiledAutomaton, hidden: Array, state: NDArray[np.integer]) -> float:
    return _error(compiled.readout @ hidden, np.where(compiled.automaton.final[state], 1.0, -1.0))


def _error(found: Array, expected: Array) -> float:
    """The largest deviation; NaN counts as infinite."""
    worst = float(np.max(np.abs(found - expected), initial=0.0))
    return np.inf if np.isnan(worst) else worst


Compiled = CompiledAutomaton | CompiledCounting

RECURRENT, COUNTING = "compiled automaton", "compiled counting"


def save_automaton_weights(compiled: Compiled, path: str | os.PathLike[str]) -> Path:
    """Write a compiled automaton; the file appears whole or not at all."""
    header: dict[str, Any] = {
        "automaton": write_automaton(compiled.automaton),
        "statement": compiled.statement,
        "size": compiled.size,
    }
    if isinstance(compiled, CompiledAutomaton):
        header |= {"kind": RECURRENT, "correction": compiled.correction}
    else:
        header |= {"kind": COUNTING, "length": compiled.length}
    return write_file(path, compiled.weights, header)


def load_automaton_weights(path: str | os.PathLike[str]) -> Compiled:
    """The compiled automaton of a file, with the weights that stand there."""
    command = "krogh compile regex` or `krogh compile automaton"
    header, weights = read_file(path, "compiled automaton", (RECURRENT, COUNTING), command)
    try:
        return _compiled(header, weights)
    except UNFIT as cause:
        raise damaged(path, cause) from None


def _compiled(header: dict[str, Any], weights: Weights) -> Compiled:
    automaton = parse_automaton(header["automaton"], "its automaton")
    recurrent = header["kind"] == RECURRENT
    return _recurrent(automaton, weights, header) if recurrent else _counting(automaton, weights, header)


def _recurrent(automaton: Automaton, weights: Weights, header: dict[str, Any]) -> CompiledAutomaton:
    fresh = compile_automaton(automaton, correction=bool(header["correction"]))
    require_same_shapes(fresh.weights, weights)
    rounding = None
    if fresh.rounding is not None:
        rounding = Affine(weights["V1"], weights["c1"]), Affine(weights["V2"], weights["c2"])
    return replace(
        fresh,
        recurrent=weights["W"],
        symbols=Affine(weights["A"], weights["b"]),
        initial=weights["h0"],
        readout=weights["r"],
        rounding=rounding,
    )


def _counting(automaton: Automaton, weights: Weights, header: dict[str, Any]) -> CompiledCounting:
    fresh = compile_counting(automaton, header["length"])
    require_same_shapes(fresh.weights, weights)
    layers = tuple(Affine(weights[f"W{i}"], weights[f"b{i}"]) for i in (1, 2, 3))
    head = {name: np.asarray(weights[name]) for name in fresh.head}
    return replace(fresh, head=head, table=ReluNetwork(layers, fresh.table.modules))
