"""Where a compiled Turing machine keeps what: groups of coordinates and binary positions (sm-approximation, C3).

A hidden vector has w = |Z'|(1 + |A|) + 6|A| + 6W + 8 coordinates, with Z' = Z ∪ {boot}, in groups:

    st    |Z'|   state, one-hot                       scr1  |A|   symbol that was last written on the cell, one-hot
    sym1  |A|    symbol under the head, one-hot       scr2  |A|   symbol of the input on the cell, one-hot
    sym2  |A|    symbol that is written, one-hot      scr3  W     time of that writing, as far as it is found
    pos1  W      time                                 scr4  3     was the cell written? has it input? next bit of scr3
    pos2  W      cell before the move                 dir   2     the move: left, right
    pos3  W      cell after the move                  pair  |Z'||A|  state and symbol together, one-hot
    aux1, aux2  W each   work space of the adders     v 3, y1 |A|, y2 |A|  work space of the choice of the symbol

Numbers are binary, most significant bit first: the search for the time of the last writing depends on it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.programs import budgets

MOST_BITS = budgets.BITS.most
"""Keys of two positions must be exact integers in float64: 2W ≤ 53."""

WRITTEN, INPUT, NEXT_BIT = 0, 1, 2
"""The three coordinates of scr4."""
LEFT, RIGHT = 0, 1
"""The two coordinates of dir."""
UNCLEAR = -1
"""What is decoded where a group is not one-hot."""


class Decoded(NamedTuple):
    """State, symbol under the head and cell of the head, int [...]; `UNCLEAR` where a one-hot group is none."""

    state: NDArray[np.int64]
    symbol: NDArray[np.int64]
    cell: NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """Coordinates of a machine with `states` states (boot among them, the last one), `symbols` symbols and W `bits`."""

    states: int
    symbols: int
    bits: int

    @functools.cached_property
    def groups(self) -> dict[str, NDArray[np.intp]]:
        """The coordinates of each group."""
        z, a, w = self.states, self.symbols, self.bits
        sizes = {"st": z, "sym1": a, "sym2": a, "pos1": w, "pos2": w, "pos3": w, "scr1": a, "scr2": a, "scr3": w}
        sizes |= {"scr4": 3, "dir": 2, "pair": z * a, "aux1": w, "aux2": w, "v": 3, "y1": a, "y2": a}
        ends = np.cumsum([0, *sizes.values()])
        return {name: np.arange(ends[k], ends[k + 1]) for k, name in enumerate(sizes)}

    def __getitem__(self, group: str) -> NDArray[np.intp]:
        return self.groups[group]

    @property
    def width(self) -> int:
        """w, the number of coordinates."""
        z, a, w = self.states, self.symbols, self.bits
        return z * (1 + a) + 6 * a + 6 * w + 8

    @property
    def boot(self) -> int:
        """The number of the state `boot`."""
        return self.states - 1

    def positions(self, last: int) -> NDArray[np.float64]:
        """β(0), ..., β(last): Bin(i) in pos1 and 0 elsewhere, [last + 1, w]; fixed, no parameters."""
        codes = np.zeros((last + 1, self.width))
        codes[:, self["pos1"]] = binary(np.arange(last + 1), self.bits)
        return codes


def binary(numbers: ArrayLike, bits: int) -> NDArray[np.float64]:
    """Bin(numbers mod 2^bits): an axis of 0s and 1s is added, most significant bit first."""
    shifts = np.arange(bits)[::-1]
    return ((np.asarray(numbers, np.int64)[..., None] >> shifts) & 1).astype(np.float64)


def from_binary(codes: ArrayLike) -> NDArray[np.int64]:
    """The numbers that `binary` wrote; entries above 1/2 count as 1."""
    ones = np.asarray(codes) > 0.5
    return ones @ (1 << np.arange(ones.shape[-1])[::-1])


def from_one_hot(group: NDArray[np.floating]) -> NDArray[np.int64]:
    """Which coordinate is above 1/2, where exactly one is."""
    above = group > 0.5
    return np.where(above.sum(axis=-1) == 1, above.argmax(axis=-1), UNCLEAR)


def cells_needed(tape: str, steps: int, input_length: int) -> tuple[int, int]:
    """The first and the last cell that have to be told apart.

    The head starts on cell 1 (cell 0 for the boot step), so after at most T moves it is on a cell between 1 - T and
    1 + T, and not below 0 on a one-way tape. The input stands on cells 1..m.
    """
    lowest = 0 if tape == "one-way" else min(0, 1 - steps)
    return lowest, max(steps + 1, input_length)


def bits_needed(tape: str, steps: int, input_length: int) -> int:
    """W, the fewest bits with which no two cells look alike modulo 2^W and every time 1..T+1 fits.

    one-way   ⌈log2 max(T + 2, m + 1)⌉
    two-way   ⌈log2(T + max(T + 1, m))⌉, one bit more at most where m ≤ T: cells below 0 are counted modulo 2^W

    (A two-way run visits T + 1 neighbouring cells at most, so that T + m cells would do; but then a cell could only be
    read off a whole run and not off one hidden vector.)
    """
    require_integer("steps", steps, 1)
    require_integer("input_length", input_length, 0)
    lowest, highest = cells_needed(tape, steps, input_length)
    numbers = max(highest - lowest + 1, steps + 2)
    bits = (numbers - 1).bit_length()
    require(
        bits <= MOST_BITS,
        f"positions of at most {MOST_BITS} bits are kept exactly; steps={steps} with input_length={input_length} on a "
        f"{tape} tape needs {bits} (try steps={2 ** (MOST_BITS - 2)})",
    )
    return bits


def reference_bits(steps: int, input_length: int) -> int:
    """W = max(⌈log2(T + 4)⌉, ⌈log2(m + 2)⌉), the count of the source for one-way tapes; never less than needed."""
    return max((steps + 3).bit_length(), (input_length + 1).bit_length())
