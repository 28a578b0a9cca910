"""Automata as ReLU networks that read one symbol at a time (rnn-learnability B-K8).

    h_t = φ(W h_{t-1} + A x_t + b),   y = r·h_T = ±1 for words that are accepted and words that are not

A unit (q, a) for every state and symbol: it is 1 where symbol a has just been read in state q, so that h_t is one-hot.

    W[(q,a), (q',a')] = 1 where δ(q',a') = q       A[(q,a), a] = 1       b = -1
    W[(q_0,a), start] = 1                          h_0 = e_start         r[(q,a)] = ±1 as δ(q,a) accepts or not

The sum at (q, a) is 1 where the word so far leads to q, plus 1 where the next symbol is a, minus 1: ReLU is the "and".
The source starts with a recurrent input of 1 at the units (q_0, ·), which need not be W h_0 for any h_0; the unit
*start* makes it so, and reads the empty word too (r[start] = ±1 as q_0 accepts or not). The width is m = |Q||A| + 1,
the 1-norm of all parameters |Q||A|² + 3|Q||A| + |A| + 3.

With `correction`, rounding (SM paper, Proposition 3.4) follows every step, with the same parameters at each: 9m more.

A check executes the statement in three ways. Whatever differs from what the automaton says counts as an error, by how
much; the statement holds if nothing does.

    by induction   every one-hot hidden state and every symbol: m|A| single steps. Reading a word of any length is a
                   chain of such steps, so that these are all words
    all words      up to a length, each prefix read once
    random words   up to length 200, every hidden state on the way
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.networks.compiled import Compiled, Decision, ReadOut, Sizes, Subject, Work, labels_of, log_norm
from krogh.networks.handmade import Checked, handmade, sizes_of
from krogh.networks.margins.automata import certify_automaton
from krogh.networks.relu import Affine, Array, affine, rounding_layers
from krogh.programs import budgets
from krogh.programs.automata.automaton import Automaton, named_symbols, sample_word
from krogh.programs.automata.files import parse_automaton, write_automaton
from krogh.theory.programs.theorem import Certificate

Words = NDArray[np.int32]

COLUMNS = 1 << 20
"""Entries of the hidden states of the words that are read at once."""
MOST_WORDS = 50_000
"""Words that are listed unless a length is given, fewer in wide networks."""
MOST_ENTRIES = 1 << 26
"""Entries of the hidden states of all words of the greatest length: 512 MiB in float64."""
RANDOM_WORDS = 1_000
LONGEST = 200
"""Random words are up to this long."""
MARGIN_LENGTH = 10
"""Symbols of the words that are attacked, and for which networks without rounding are certified, unless given."""


@handmade("automaton")
@dataclass(frozen=True, eq=False)
class CompiledAutomaton(Compiled):
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
    def name(self) -> str:
        """The automaton's."""
        return self.automaton.name

    @property
    def statement(self) -> str:
        """What the network satisfies, in a sentence."""
        alphabet = named_symbols(self.automaton.alphabet)
        return (
            f"h_t is one-hot in (state before, symbol) after every symbol, and y = +1 for the words of "
            f"'{self.automaton.name}', -1 for all others over {{{alphabet}}}, exactly, at every length"
        )

    @property
    def parameters(self) -> Mapping[str, sparse.csr_array | Array]:
        """All weights by name: W, A, b, h0, r, and V1, c1, V2, c2 of the rounding."""
        weights: dict[str, sparse.csr_array | Array] = {
            "W": self.recurrent,
            "A": self.symbols.weight,
            "b": self.symbols.bias,
            "h0": self.initial,
            "r": self.readout,
        }
        for place, layer in enumerate(self.rounding or (), start=1):
            weights |= {f"V{place}": layer.weight, f"c{place}": layer.bias}
        return weights

    @property
    def size(self) -> dict[str, float]:
        """Width, number of parameters as full matrices, how many are not zero, 1-norm; states and symbols."""
        return {
            "width": self.width,
            "layers_per_symbol": 3 if self.correction else 1,
            **sizes_of(self.parameters),
            "states": self.automaton.size,
            "symbols": len(self.automaton.alphabet),
        }

    @functools.cached_property
    def _reading(self) -> Array:
        """A e_a + b for every symbol a: [m, |A|]."""
        return self.symbols.weight.toarray() + self.symbols.bias[:, None]

    def step(self, hidden: Array, symbols: NDArray[np.integer]) -> Array:
        """The hidden states [m, batch] after each word's next symbol [batch]."""
        following = self.recurrent @ hidden
        following += self._reading[:, symbols]
        np.maximum(following, 0.0, out=following)
        for layer in self.rounding or ():
            following = np.maximum(layer(following), 0.0)
        return following

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
        outputs = np.empty(len(words))
        chunk = max(1, COLUMNS // self.width)
        for start in range(0, len(words), chunk):
            last = deque(self.hidden(words[start : start + chunk]), maxlen=1).pop()
            outputs[start : start + chunk] = self.readout @ last
        return outputs

    def check(self, length: int | None = None, count: int | None = None, seed: int = 0) -> Checked:
        """Check all steps, all words up to `length` (some 10,000 words unless given) and `count` random ones."""
        symbols = len(self.automaton.alphabet)
        if length is None:
            length = longest_listed(symbols, min(MOST_WORDS, MOST_ENTRIES // 16 // self.width))
        if count is None:
            count = max(10, min(RANDOM_WORDS, MOST_ENTRIES // LONGEST // self.width))
        require_integer("length", length, 0)
        require_integer("count", count, 0)
        most = longest_listed(symbols, MOST_ENTRIES // self.width)
        require(length <= most, f"words up to length {most} are listed for this network; got length={length}")
        steps, by_induction = _steps(self)
        words, error = _all_words(self, length)
        worst = max(by_induction, error, _random_words(self, count, seed))
        scope = (
            f"all {steps:,} steps from one state to the next, so all words of every length by induction; besides "
            f"{words:,} words up to length {length} and {count:,} random ones"
        )
        details = {"steps": steps, "all_up_to_length": length, "random": count}
        return Checked(worst == 0.0, words + count, steps > 0, worst, scope, details)

    def certificate(self, inputs: Any = None) -> Certificate:
        """For words of every length with rounding; without, for those as long as the `inputs` (10 unless given)."""
        return certify_automaton(self, MARGIN_LENGTH if inputs is None else np.atleast_2d(np.asarray(inputs)).shape[1])

    def subject(self, inputs: Any, output: int = 0) -> Subject:
        """The network for symbol numbers [batch, length], padded with -1."""
        words = np.atleast_2d(np.asarray(inputs, np.int32))
        return Subject(_one_output, self.dense_parameters(), tuple(words), labels_of(self.run(words)))

    def decisions(self) -> list[Decision]:
        """A word that is accepted and one that is not, of ten symbols, or else of the greatest length below."""
        found = []
        for label in (True, False):
            words = (sample_word(self.automaton, length, label) for length in range(MARGIN_LENGTH, -1, -1))
            word = next((word for word in words if word is not None), None)
            if word is not None:
                padded = np.full((1, MARGIN_LENGTH), -1, np.int32)
                padded[0, : len(word)] = word
                found.append(Decision(padded, repr(self.automaton.decode(word))))
        return found

    def read_out(self, decision: Decision) -> ReadOut:
        """r, and the last hidden state."""
        return ReadOut(self.readout, deque(self.hidden(decision.inputs), maxlen=1).pop()[:, 0])

    @property
    def work(self) -> Work:
        """As many passes as an attacked word has symbols."""
        size = self.size
        return Work(int(size["layers_per_symbol"]), int(size["parameters"]), MARGIN_LENGTH)

    def sizes(self, length: int | None = None) -> Sizes:
        """Those of the network unrolled over words of `length` symbols, 0 unless given."""
        size, steps, weights = self.size, length or 0, self.parameters
        step = log_norm(*(weights[name] for name in ("W", "V1", "V2") if name in weights))
        depth = int(size["layers_per_symbol"]) * steps + 1
        product = (steps * step if steps else 0.0) + log_norm(weights["r"])
        return Sizes(size["one_norm"], int(size["parameters"]), int(size["width"]), depth, product)

    def recipe(self) -> dict[str, Any]:
        """The automaton as YAML, and whether rounding follows every step."""
        return {"automaton": write_automaton(self.automaton), "correction": self.correction}

    @classmethod
    def from_recipe(cls, recipe: Mapping[str, Any]) -> CompiledAutomaton:
        """The automaton compiled again."""
        automaton = parse_automaton(recipe["automaton"], "its automaton")
        return compile_automaton(automaton, correction=bool(recipe["correction"]))

    def with_parameters(self, parameters: Mapping[str, Any]) -> CompiledAutomaton:
        """The same network with other weights."""
        layers = [Affine(parameters[f"V{k}"], parameters[f"c{k}"]) for k in (1, 2) if self.correction]
        return replace(
            self,
            recurrent=parameters["W"],
            symbols=Affine(parameters["A"], parameters["b"]),
            initial=parameters["h0"],
            readout=parameters["r"],
            rounding=(layers[0], layers[1]) if layers else None,
        )


def compile_automaton(automaton: Automaton, *, correction: bool = False) -> CompiledAutomaton:
    """The network of an automaton, its states as they are (`minimise` first for the narrowest one)."""
    states, count = automaton.transitions.shape
    units = states * count
    m = units + 1
    who = f"the network of an automaton of {states:,} states and {count:,} symbols"
    for amount, budget in ((m, budgets.UNITS), (m * count, budgets.LINKS)):
        budget.check(amount, who, "minimise it, or use a smaller alphabet")
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
    rounding = [(parameters[f"V{i}"], parameters[f"c{i}"]) for i in (1, 2) if "V1" in parameters]
    tokens = jnp.asarray(words)

    def step(hidden: jax.Array, symbols: jax.Array) -> tuple[jax.Array, None]:
        following = jax.nn.relu(affine(W, b, hidden) + A.T[symbols])
        for V, c in rounding:
            following = jax.nn.relu(affine(V, c, following))
        return jnp.where(symbols[:, None] >= 0, following, hidden), None

    start = jnp.broadcast_to(initial[None, :], (tokens.shape[0], len(initial)))
    last, _ = jax.lax.scan(step, start, tokens.T)
    return jnp.matmul(last, readout, precision=jax.lax.Precision.HIGHEST)


def _one_output(parameters: dict[str, Any], word: Any) -> jax.Array:
    return automaton_output(parameters, jnp.asarray(word)[None, :])[0]


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
            expected = _unit(automaton, following[units], symbol)
            after = _sparse_step(compiled, units, symbol)
            if after is None:
                error = _error(compiled.step(hidden, np.full(len(units), symbol)), one_hot(expected, m))
            else:
                error = _error((after - _sparse_one_hot(expected, m)).data, np.zeros(()))
            worst = max(worst, error)
    first = one_hot(np.array([m - 1]), m)
    return m * len(automaton.alphabet), max(worst, _error(compiled.initial[:, None], first))


def _sparse_step(compiled: CompiledAutomaton, units: NDArray[np.integer], symbol: int) -> sparse.csc_array | None:
    """The hidden states after a symbol from those in which one unit is 1, by sparse products.

    ReLU leaves 0 where nothing arrives and the bias is not positive; None where some bias is.
    """
    layers = [(compiled.recurrent, compiled._reading[:, symbol])]
    layers += [(layer.weight, layer.bias) for layer in compiled.rounding or ()]
    if any((bias > 0).any() for _, bias in layers):
        return None
    hidden = _sparse_one_hot(units, compiled.width)
    for weight, bias in layers:
        hidden = sparse.csc_array(weight @ hidden)
        hidden.data = np.maximum(hidden.data + bias[hidden.indices], 0.0)
        hidden.eliminate_zeros()
    return hidden


def _sparse_one_hot(units: NDArray[np.integer], m: int) -> sparse.csc_array:
    return sparse.csc_array((np.ones(len(units)), (units, np.arange(len(units)))), shape=(m, len(units)))


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
    states = np.zeros((m, len(units)))
    states[units, np.arange(len(units))] = 1.0
    return states


def _following(automaton: Automaton) -> NDArray[np.int64]:
    """The state that every unit leads to, found one entry of the table at a time."""
    count = len(automaton.alphabet)
    pairs = [automaton.transitions[unit // count, unit % count] for unit in range(automaton.size * count)]
    return np.array([*pairs, automaton.start], np.int64)


def _unit(automaton: Automaton, state: NDArray[np.integer], symbol: NDArray[np.integer] | int) -> NDArray[np.int64]:
    return np.asarray(state, np.int64) * len(automaton.alphabet) + symbol


def _readout_error(compiled: CompiledAutomaton, hidden: Array, state: NDArray[np.integer]) -> float:
    return _error(compiled.readout @ hidden, np.where(compiled.automaton.final[state], 1.0, -1.0))


def _error(actual: Array, expected: Array) -> float:
    """The largest deviation; NaN counts as infinite."""
    worst = float(np.max(np.abs(actual - expected), initial=0.0))
    return np.inf if np.isnan(worst) else worst
