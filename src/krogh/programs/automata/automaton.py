"""A complete deterministic finite automaton as arrays.

States and symbols are numbered; transitions[q, a] is the state after reading symbol a in state q. A batch of words is
an array of symbol numbers with `PADDING` behind the words that are shorter than the longest.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Int32

from krogh.errors import KroghError, require, require_integer

MOST_SHOWN = 64
"""Symbols of an alphabet in a message."""
PADDING = -1
"""What stands in a batch of words where a word has ended."""


@dataclass(frozen=True, eq=False)
class Automaton:
    """A language: the words that lead from the `start` state to an accepting one.

    `alphabet` lists the symbols (usually single characters), `states` names the states (their numbers unless given).
    Arrays are read-only; equal automata have all fields but the name the same.
    """

    name: str
    alphabet: tuple[str, ...]
    transitions: Int[np.ndarray, "states symbols"]
    start: int
    accepting: tuple[int, ...]
    states: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        alphabet = check_alphabet(self.alphabet)
        table = np.array(self.transitions)
        require(
            table.ndim == 2 and table.shape[0] > 0 and table.shape[1] == len(alphabet),
            f"transitions have a row for every state and a column for each of the {len(alphabet)} symbols; got an "
            f"array of shape {list(table.shape)}",
        )
        states = tuple(self.states) or tuple(map(str, range(len(table))))
        require(len(states) == len(table), f"{len(table)} states need {len(table)} names; got {len(states)}")
        require(len(set(states)) == len(states), f"names of states must differ; got {list(states[:MOST_SHOWN])}")
        wrong = np.argwhere((table < 0) | (table >= len(table)))
        for q, a in wrong[:1]:
            raise KroghError(
                f"state {states[q]!r} goes to {table[q, a]} on {alphabet[a]!r}; states are 0..{len(table) - 1}"
            )
        require_integer("start", self.start, 0, len(table) - 1)
        for state in self.accepting:
            require_integer("an accepting state", state, 0, len(table) - 1)
        table = table.astype(np.int32)
        table.setflags(write=False)
        self._keep(alphabet=alphabet, transitions=table, states=states, start=operator.index(self.start))
        self._keep(accepting=tuple(sorted({operator.index(state) for state in self.accepting})))

    def _keep(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def size(self) -> int:
        """The number of states."""
        return len(self.transitions)

    @functools.cached_property
    def final(self) -> Bool[np.ndarray, " states"]:
        """Whether each state accepts."""
        final = np.zeros(self.size, bool)
        final[list(self.accepting)] = True
        final.setflags(write=False)
        return final

    def encode(self, word: str | Sequence[str]) -> Int32[np.ndarray, " length"]:
        """The numbers of a word's symbols; a text is cut into the longest symbols that fit, from the left."""
        numbers = {symbol: number for number, symbol in enumerate(self.alphabet)}
        symbols = self._cut(word) if isinstance(word, str) else word
        for place, symbol in enumerate(symbols, start=1):
            require(symbol in numbers, f"{symbol!r}, number {place} of the word, {self._no_symbol}")
        return np.array([numbers[symbol] for symbol in symbols], np.int32)

    def _cut(self, text: str) -> Sequence[str]:
        longest = max(map(len, self.alphabet))
        if longest == 1:
            return text
        known, symbols, place = set(self.alphabet), [], 0
        while place < len(text):
            fits = (text[place : place + size] for size in range(longest, 0, -1))
            symbol = next((piece for piece in fits if piece in known), None)
            if symbol is None:
                raise KroghError(f"{text[place]!r}, character {place + 1} of {text!r}, {self._no_symbol}")
            symbols.append(symbol)
            place += len(symbol)
        return symbols

    @property
    def _no_symbol(self) -> str:
        return f"is no symbol of the alphabet {listed(self.alphabet)}"

    def decode(self, numbers: Iterable[int] | Int[np.ndarray, " length"]) -> str:
        """The text of a word's symbol numbers; padding is left out."""
        return "".join(self.alphabet[number] for number in numbers if number != PADDING)

    def encode_words(self, words: Iterable[str | Sequence[str]]) -> Int32[np.ndarray, "batch length"]:
        """A batch of words as one array, padded to the longest."""
        return pad_words([self.encode(word) for word in words])

    def run(self, words: Int[np.ndarray, "batch length"]) -> Int32[np.ndarray, "batch length+1"]:
        """The states of a batch of words before the first symbol and after each; after its end a word stays put."""
        self.check_words(words)
        # The last column is also column -1: padding leads every state to itself.
        table = np.hstack([self.transitions, np.arange(self.size, dtype=np.int32)[:, None]])
        path = np.empty((len(words), words.shape[1] + 1), np.int32)
        path[:, 0] = self.start
        for place, column in enumerate(words.T):
            path[:, place + 1] = table[path[:, place], column]
        return path

    def check_words(self, words: Int[np.ndarray, "batch length"]) -> None:
        """Refuse a batch with numbers that are no symbols, or with a symbol behind a word's end."""
        symbols = len(self.alphabet)
        outside = words[(words < PADDING) | (words >= symbols)]
        allowed = f"numbers 0..{symbols - 1} of symbols, and {PADDING} behind their end"
        require(outside.size == 0, f"words are {allowed}; got {outside[:3].tolist()}")
        ended = words == PADDING
        resumed = np.argwhere(ended[:, :-1] & ~ended[:, 1:])
        require(resumed.size == 0, f"a word goes on after {PADDING}, its end: rows {resumed[:3, 0].tolist()}")

    def accept(self, words: Int[np.ndarray, "batch length"]) -> Bool[np.ndarray, " batch"]:
        """Whether each word of a batch is in the language."""
        return self.final[self.run(words)[:, -1]]

    def accepts(self, word: str | Sequence[str]) -> bool:
        """Whether a word is in the language."""
        return bool(self.accept(self.encode(word)[None, :])[0])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Automaton):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @functools.cached_property
    def _identity(self) -> tuple[Any, ...]:
        return (self.alphabet, self.transitions.tobytes(), self.start, self.accepting, self.states)

    def __repr__(self) -> str:
        return f"Automaton({self.name!r}, states={self.size}, alphabet={listed(self.alphabet)})"


def from_table(
    transitions: Any,
    accepting: Iterable[int | np.integer],
    alphabet: Iterable[str] = "01",
    start: int = 0,
    name: str = "automaton",
    states: Iterable[str] = (),
) -> Automaton:
    """The automaton of a table given as lists: row q has the state after each symbol."""
    rows = [list(row) for row in transitions]
    whole = all(isinstance(entry, int | np.integer) and not isinstance(entry, bool) for row in rows for entry in row)
    even = len({len(row) for row in rows}) == 1
    require(rows and whole and even, f"transitions are rows of equally many numbers of states; got {transitions!r}")
    ends = tuple(int(state) if isinstance(state, np.integer) else state for state in accepting)
    return Automaton(name, tuple(alphabet), np.array(rows, np.int64), start, ends, tuple(states))


def pad_words(words: Sequence[Int[np.ndarray, " _"]]) -> Int32[np.ndarray, "batch length"]:
    """Words of symbol numbers as one array, `PADDING` behind the shorter ones."""
    batch = np.full((len(words), max(map(len, words), default=0)), PADDING, np.int32)
    for row, word in zip(batch, words, strict=True):
        row[: len(word)] = word
    return batch


def words_of_length(symbols: int, length: int) -> Int32[np.ndarray, "words length"]:
    """All words of a length over the symbols 0..symbols-1, in lexicographic order: [symbols^length, length]."""
    powers = symbols ** np.arange(length)[::-1]
    return (np.arange(symbols**length)[:, None] // powers[None, :] % symbols).astype(np.int32)


def sample_word(automaton: Automaton, length: int, label: bool, seed: int = 0) -> list[int] | None:
    """A random word of a length that is in the language, or that is not; None where there is none."""
    can = [automaton.final == label]  # can[k][q]: whether k more symbols can lead from q to a word with the label
    for _ in range(length):
        can.append(can[-1][automaton.transitions].any(axis=1))
    state, word, rng = automaton.start, [], np.random.default_rng(seed)
    if not can[length][state]:
        return None
    for left in range(length - 1, -1, -1):
        choices = np.flatnonzero(can[left][automaton.transitions[state]])
        word.append(int(rng.choice(choices)))
        state = int(automaton.transitions[state, word[-1]])
    return word


def listed(alphabet: Sequence[str]) -> str:
    """An alphabet for a message: as one word where symbols are single characters; the beginning of a long one."""
    shown, rest = alphabet[:MOST_SHOWN], len(alphabet) - MOST_SHOWN
    single = all(len(symbol) == 1 for symbol in shown)
    more = f" and {rest:,} more" if rest > 0 else ""
    return (repr("".join(shown)) if single else ", ".join(map(repr, shown))) + more


def named_symbols(alphabet: Sequence[str]) -> str:
    """An alphabet for a sentence, symbol by symbol; the beginning of a long one."""
    shown = [symbol if symbol.isprintable() and symbol.strip() else repr(symbol) for symbol in alphabet[:MOST_SHOWN]]
    return ", ".join([*shown, *(["…"] if len(alphabet) > MOST_SHOWN else [])])


def check_alphabet(alphabet: Iterable[str]) -> tuple[str, ...]:
    """The symbols of an alphabet, refused where they are none, empty or repeated."""
    symbols = tuple(alphabet)
    require(symbols, "an alphabet has at least one symbol; got none (try alphabet='01')")
    seen: set[str] = set()
    for symbol in symbols:
        require(isinstance(symbol, str) and symbol, f"symbols are texts that are not empty; got {symbol!r}")
        require(symbol not in seen, f"the symbols of an alphabet differ; {symbol!r} is twice in {listed(symbols)}")
        seen.add(symbol)
    return symbols
