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
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require
from krogh.tasks.automata import Automaton
from krogh.theory.compilers.affine import Affine, Array
from krogh.theory.compilers.rounding import rounding_layers

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
