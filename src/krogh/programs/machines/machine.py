"""Turing machines as arrays: states, alphabet and a total transition table (sm-approximation, section 2, T2).

A machine (Z, A, S, Z_term) has one tape and S: Z×A → Z×A×{−1,+1}. Symbol 0 is the blank. The input stands on cells
1..m and the head starts on cell 1. Building a `Machine` checks it, so that a value of this type is a machine.
"""

from __future__ import annotations

import collections
import dataclasses
import difflib
import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from krogh.errors import KroghError, require, unknown

Word = str | Sequence[Any] | np.ndarray
"""An input: text, a list of symbols, or symbol numbers [m]."""

LONGEST_NAME = 200
TAPES = ("two-way", "one-way")
ACCEPT, REJECT, NOTHING = 1, 0, -1
"""What a halting state decides. A plain halting state and a state that goes on decide nothing."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Machine:
    """A deterministic single-tape Turing machine with Z states and A symbols; its tables are [Z, A], read-only.

    In state z on symbol a it writes `write[z, a]`, moves by `move[z, a]` ∈ {−1, +1} and goes to `next_state[z, a]`.
    Rows of halting states are set to (z, a, +1) whatever was given there: a machine that has halted loops, and its head
    goes on to the right. `halting` holds accept and reject states and plain halting states, which decide nothing.
    `gaps` are pairs (z, a) without an instruction: the machine halts there as it stands, in state z and on that cell.
    The table still has an entry, for a network has to go on: (h, a, +1) with a plain halting state h.
    On a one-way tape cell 0 is a blank left margin and the head must not move left from it; on a two-way tape
    cells below 1 are like all others.
    """

    name: str
    states: tuple[str, ...]
    alphabet: tuple[str, ...]
    start: int
    next_state: np.ndarray
    write: np.ndarray
    move: np.ndarray
    accept: tuple[int, ...] = ()
    reject: tuple[int, ...] = ()
    halting: tuple[int, ...] = ()
    gaps: tuple[tuple[int, int], ...] = ()
    tape: str = "two-way"
    default_input: str | None = None

    def __post_init__(self) -> None:
        states, alphabet = tuple(self.states), tuple(self.alphabet)
        require(isinstance(self.name, str) and self.name, f"a machine has a name; got name={self.name!r}")
        check_names("state", states)
        check_names("symbol", alphabet)
        require(self.tape in TAPES, f"tape must be {TAPES[0]!r} or {TAPES[1]!r}; got tape={self.tape!r}")
        numbers = {
            kind: state_numbers(kind, getattr(self, kind), len(states)) for kind in ("accept", "reject", "halting")
        }
        both = sorted(set(numbers["accept"]) & set(numbers["reject"]))
        require(not both, f"a state cannot both accept and reject; got {[states[state] for state in both]}")
        numbers["halting"] = tuple(sorted({state for listed in numbers.values() for state in listed}))
        (start,) = state_numbers("start", (self.start,), len(states))
        tables = check_tables(self, states, alphabet, numbers["halting"])
        gaps = check_gaps(self, states, alphabet, numbers, tables)
        self._keep(states=states, alphabet=alphabet, start=start, gaps=gaps, **numbers, **tables)
        if self.default_input is not None:
            self.encode(self.default_input)

    def _keep(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def blank(self) -> str:
        """The symbol of cells that were never written, number 0."""
        return self.alphabet[0]

    @functools.cached_property
    def is_halting(self) -> np.ndarray:
        """Whether a state halts, bool [Z]."""
        flags = np.zeros(len(self.states), bool)
        flags[list(self.halting)] = True
        flags.flags.writeable = False
        return flags

    @functools.cached_property
    def stops(self) -> np.ndarray:
        """Whether the machine has halted in a state on a symbol, bool [Z, A]: in halting states, and in gaps."""
        flags = np.repeat(self.is_halting[:, None], len(self.alphabet), axis=1)
        if self.gaps:
            flags[tuple(np.array(self.gaps).T)] = True
        flags.flags.writeable = False
        return flags

    @functools.cached_property
    def labels(self) -> Int[np.ndarray, " states"]:
        """What a state decides, int8 [Z]: 1 accept, 0 reject, −1 nothing."""
        labels = np.full(len(self.states), NOTHING, np.int8)
        labels[list(self.accept)] = ACCEPT
        labels[list(self.reject)] = REJECT
        labels.flags.writeable = False
        return labels

    @functools.cached_property
    def input_symbols(self) -> tuple[int, ...]:
        """The symbols inputs are made of: those of the default input, or all but the blank where there is none."""
        used = sorted(set(self.encode(self.default_input or "").tolist()) - {0})
        return tuple(used) or tuple(range(1, len(self.alphabet)))

    def encode(self, word: Word) -> Int[np.ndarray, " m"]:
        """A word as symbol numbers, int32 [m]; in a text the longest symbol that matches is taken."""
        if isinstance(word, str):
            return np.array(self._read_text(word), np.int32)
        if not isinstance(word, np.ndarray):
            letters = list(word)
            if letters and all(isinstance(letter, str) for letter in letters):
                return np.array([self._number(str(letter)) for letter in letters], np.int32)
            word = np.array(letters) if letters else np.zeros(0, np.int32)
        if word.ndim != 1 or not np.issubdtype(word.dtype, np.integer):
            raise KroghError(f"a word is text, a list of symbols or a list of their numbers; got {word!r}")
        if word.size and not (word.min() >= 0 and word.max() < len(self.alphabet)):
            allowed = f"0 to {len(self.alphabet) - 1}"
            raise KroghError(f"symbol numbers of {self.name!r} are {allowed}; got {word.tolist()}")
        return word.astype(np.int32)

    def decode(self, numbers: Iterable[Any]) -> str:
        """Symbol numbers as text."""
        return "".join(self.alphabet[number] for number in numbers)

    def _read_text(self, text: str) -> list[int]:
        longest = max(map(len, self.alphabet))
        if longest == 1 and self._number_of.keys() >= set(text):
            return [self._number_of[letter] for letter in text]
        numbers, place = [], 0
        while place < len(text):
            size = next((n for n in range(longest, 0, -1) if text[place : place + n] in self._number_of), 0)
            if not size:
                raise self._outside(text[place], f" at position {place + 1} of the input {text!r}")
            numbers.append(self._number_of[text[place : place + size]])
            place += size
        return numbers

    def _number(self, symbol: str) -> int:
        if symbol not in self._number_of:
            raise self._outside(symbol, "")
        return self._number_of[symbol]

    def _outside(self, symbol: str, place: str) -> KroghError:
        listed = ", ".join(repr(letter) for letter in self.alphabet)
        near = difflib.get_close_matches(symbol, self.alphabet, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return KroghError(
            f"symbol {symbol!r}{place} is outside the alphabet of {self.name!r}{hint} (blank first: {listed}). "
            "Use these symbols, or give the machine transitions for it"
        )

    @functools.cached_property
    def _number_of(self) -> dict[str, int]:
        return {symbol: number for number, symbol in enumerate(self.alphabet)}

    def with_input(self, text: str | None) -> Machine:
        """The same machine with another default input."""
        return dataclasses.replace(self, default_input=text)

    def state(self, name: str) -> int:
        """The number of a state."""
        if name not in self.states:
            raise unknown("state", name, self.states)
        return self.states.index(name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Machine):
            return NotImplemented
        return self._words == other._words and all(
            np.array_equal(mine, theirs) for mine, theirs in zip(self._tables, other._tables, strict=True)
        )

    def __hash__(self) -> int:
        return hash((self._words, *(table.tobytes() for table in self._tables)))

    @property
    def _words(self) -> tuple[Any, ...]:
        decided = (self.start, self.accept, self.reject, self.halting, self.gaps, self.tape, self.default_input)
        return (self.name, self.states, self.alphabet, *decided)

    @property
    def _tables(self) -> tuple[np.ndarray, ...]:
        return (self.next_state, self.write, self.move)

    def __repr__(self) -> str:
        return f"Machine({self.name!r}, {len(self.states)} states, {len(self.alphabet)} symbols, {self.tape} tape)"


def check_names(kind: str, names: tuple[str, ...]) -> None:
    """Names are texts of 1 to 200 characters, each once."""
    require(names, f"a machine needs at least one {kind}")
    bad = [name for name in names if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME]
    require(not bad, f"a {kind} is a text of 1 to {LONGEST_NAME} characters; got {bad[:3]}")
    twice = sorted(name for name, count in collections.Counter(names).items() if count > 1)
    require(not twice, f"every {kind} is listed once; got {twice[:3]} more than once")


def state_numbers(kind: str, given: Iterable[Any], states: int) -> tuple[int, ...]:
    """State numbers in increasing order."""
    numbers = sorted({int(number) for number in given})
    bad = [number for number in numbers if not 0 <= number < states]
    require(not bad, f"{kind} holds state numbers 0 to {states - 1}; got {bad}")
    return tuple(numbers)


def check_gaps(
    machine: Machine,
    states: tuple[str, ...],
    alphabet: tuple[str, ...],
    numbers: dict[str, tuple[int, ...]],
    tables: dict[str, np.ndarray],
) -> tuple[tuple[int, int], ...]:
    """Pairs of state and symbol without an instruction, in increasing order; their entries end in a plain halt."""
    gaps = tuple(sorted({(int(state), int(symbol)) for state, symbol in machine.gaps}))
    if not gaps:
        return ()
    at = np.array(gaps).T
    inside = ((at >= 0) & (at < np.array([[len(states)], [len(alphabet)]]))).all()
    require(inside, f"gaps are pairs of a state and a symbol by number; got {gaps[:3]}")
    plain = set(numbers["halting"]) - set(numbers["accept"]) - set(numbers["reject"])
    ends = set(tables["next_state"][tuple(at)].tolist()) <= plain
    rests = (tables["write"][tuple(at)] == at[1]).all() and (tables["move"][tuple(at)] == 1).all()
    require(ends and rests, "in a gap the table writes nothing, moves right and goes to a plain halting state")
    counts = collections.Counter(state for state, _ in gaps)
    idle = [states[state] for state, count in counts.items() if count == len(alphabet) or state in numbers["halting"]]
    require(not idle, f"a state without any instruction halts: list {idle[:3]} in `halting` and not in `gaps`")
    return gaps


def check_tables(
    machine: Machine, states: tuple[str, ...], alphabet: tuple[str, ...], halting: tuple[int, ...]
) -> dict[str, np.ndarray]:
    """The three tables with rows of halting states set to (z, a, +1), read-only."""
    shape = (len(states), len(alphabet))
    rest_state, rest_symbol = np.indices(shape)
    resting = {"next_state": rest_state, "write": rest_symbol, "move": np.ones(shape, int)}
    bounds = {"next_state": (0, shape[0] - 1), "write": (0, shape[1] - 1), "move": (-1, 1)}
    rows = list(halting)
    tables = {}
    for name, (low, high) in bounds.items():
        table = np.array(getattr(machine, name))
        require(table.shape == shape, f"{name} has a row per state and a column per symbol, {shape}; got {table.shape}")
        require(np.issubdtype(table.dtype, np.integer), f"{name} holds whole numbers; got {table.dtype}")
        table[rows] = resting[name][rows]
        bad = np.argwhere((table < low) | (table > high) | ((table == 0) & (name == "move")))
        if len(bad):
            state, symbol = bad[0]
            allowed = "-1 or +1" if name == "move" else f"{low} to {high}"
            raise KroghError(
                f"{name} of state {states[state]!r} on symbol {alphabet[symbol]!r} must be {allowed}; "
                f"got {table[state, symbol]}"
            )
        table = table.astype(np.int8 if name == "move" else np.int32)
        table.flags.writeable = False
        tables[name] = table
    return tables
