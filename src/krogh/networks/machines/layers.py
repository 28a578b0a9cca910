"""The layers of the transformer that runs a Turing machine (sm-approximation, C3; Lemmas C.1, C.3, C.7, C.8).

One decoder step is W + 11 layers (with the look-ahead adder), each [decoder attention] → [encoder attention] → table:

    1, 2        C.1   the transition: state and symbol as one pair; then new state, symbol to write, move
    3, 4, 5     C.2   the move: pos3 = pos2 ± 1 modulo 2^W by `look_ahead` or `ripple`
    6           C.4   has the head been on cell pos3 before?
    7 .. 6+W    C.5   when last: i' = max{t ≤ i : l_{t-1} = l_i}, one bit per layer, the most significant first
    7+W         C.6   what was written then
    8+W         C.7   the input's symbol on that cell
    9+W .. 11+W C.8   the symbol now under the head: the written one, else the input's, else blank

A layer is written down over named groups of coordinates (`Table`, `Attention`) and laid out as sparse arrays here;
`compiled` gives the arrays their names. Coordinates that a table does not mention become 0.

Moving the head is pos3 = pos2 - left + right modulo 2^W. With b_k the bits of pos2, a move to the left borrows from bit
k if and only if all less significant bits are 0, and a move to the right carries into bit k if and only if they are all
1. Either flips the bit, and nothing else does: new b_k = b_k XOR (borrow_k or carry_k). Nothing is done with the borrow
or the carry out of the most significant bit, so the sum is taken modulo 2^W: 0 - 1 flips every bit of 0...0 to 1...1 =
2^W - 1, and (2^W - 1) + 1 flips every bit of 1...1 to 0...0. Two-way tapes live on this: cell -1 is cell 2^W - 1.

    look-ahead   3 layers: all borrows and carries at once; their exclusive or with the bits in two more
    ripple       4W layers, the source's: first the borrow from bit to bit, then the carry, two layers for each bit
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array

from krogh.networks.machines.layout import INPUT, LEFT, NEXT_BIT, RIGHT, WRITTEN, Layout
from krogh.programs.machines.machine import Machine

Vector = NDArray[np.float64]
Coordinates = Sequence[int] | NDArray[np.intp]
KEPT = ("st", "sym2", "pos1", "pos2", "pos3")
"""What all layers between the move and the choice of the symbol carry along."""


def sparse(shape: tuple[int, int], rows: ArrayLike, columns: ArrayLike, values: ArrayLike) -> csr_array:
    """A sparse float64 matrix; entries given twice are added."""
    row, column, value = np.broadcast_arrays(rows, columns, np.asarray(values, np.float64))
    return csr_array(coo_array((value.ravel(), (row.ravel(), column.ravel())), shape=shape))


class Table:
    """h ↦ φ(W_1 h + b_1) over named coordinates: the first matrix of a feedforward block, built entry by entry."""

    def __init__(self, layout: Layout, *copied: str) -> None:
        self.layout = layout
        self._entries: list[tuple[NDArray[np.intp], NDArray[np.intp], Vector]] = []
        self.bias = np.zeros(layout.width)
        self.copy(*copied)

    def add(self, rows: ArrayLike, columns: ArrayLike, weight: ArrayLike = 1.0) -> Table:
        """row += weight · column, for arrays that broadcast together."""
        row, column, value = np.broadcast_arrays(rows, columns, np.asarray(weight, np.float64))
        self._entries.append((row.ravel(), column.ravel(), value.ravel()))
        return self

    def shift(self, rows: ArrayLike, amount: ArrayLike) -> Table:
        """row += amount, once for every time that a row is listed."""
        np.add.at(self.bias, np.asarray(rows, np.intp), amount)
        return self

    def copy(self, *groups: str) -> Table:
        """Carry groups along as they are."""
        for group in groups:
            self.add(self.layout[group], self.layout[group])
        return self

    @property
    def weight(self) -> csr_array:
        """W_1 [w, w]."""
        w = self.layout.width
        if not self._entries:
            return csr_array((w, w))
        rows, columns, values = (np.concatenate(part) for part in zip(*self._entries, strict=True))
        return sparse((w, w), rows, columns, values)


@dataclass(frozen=True, eq=False)
class Attention:
    """Attention that only exact matches win: affine query, key [D, w] and value [w, w], and the null slot.

    The first D - 1 coordinates of query and key are ±1 where hidden vectors are binary, and the last compares nothing:
    it is 1 in the query and 0 in keys. So a key that differs in k coordinates scores D - 1 - 2k, and the null key,
    D - 2 in the last coordinate and 0 elsewhere, scores D - 2: below all exact matches and above all others, by a gap
    of 1.
    """

    query: csr_array
    query_bias: Vector
    key: csr_array
    key_bias: Vector
    value: csr_array
    value_bias: Vector
    null_key: Vector
    null_value: Vector

    def named(self, prefix: str) -> dict[str, csr_array | Vector]:
        """The parameters under the architecture's names."""
        parts = {
            "Wq": self.query,
            "bq": self.query_bias,
            "Wk": self.key,
            "bk": self.key_bias,
            "Wv": self.value,
            "bv": self.value_bias,
            "K0": self.null_key,
            "V0": self.null_value,
        }
        return {f"{prefix}.{name}": part for name, part in parts.items()}


def matching(
    layout: Layout,
    query: Coordinates,
    key: Coordinates,
    *,
    moved: tuple[ArrayLike, ArrayLike] = ((), ()),
    raised: Sequence[int] = (),
) -> Attention:
    """Attention to the positions whose coordinates `key` agree with one's own coordinates `query`.

    A query may be shorter than the key: it asks for 1 in the rest. Where a position is found, `moved` = (to, from)
    adds its coordinates `from` to one's own coordinates `to`, and the coordinates `raised` increase by 1; the null slot
    adds 0.
    """
    size, w = len(key) + 1, layout.width
    query_bias, key_bias = np.full(size, 1.0), np.full(size, -1.0)
    query_bias[: len(query)] = -1.0
    key_bias[-1] = 0.0
    null_key = np.zeros(size)
    null_key[-1] = len(key) - 1
    value_bias = np.zeros(w)
    value_bias[list(raised)] = 1.0
    return Attention(
        sparse((size, w), np.arange(len(query)), np.asarray(query, np.intp), 2.0),
        query_bias,
        sparse((size, w), np.arange(len(key)), np.asarray(key, np.intp), 2.0),
        key_bias,
        sparse((w, w), np.asarray(moved[0], np.intp), np.asarray(moved[1], np.intp), 1.0),
        value_bias,
        null_key,
        np.zeros(w),
    )


@dataclass(frozen=True, eq=False)
class Layer:
    """One transformer layer before its correction: what it is for, its attentions and its table."""

    name: str
    table: Table
    decoder: Attention | None = None
    encoder: Attention | None = None


def transition(layout: Layout, machine: Machine) -> list[Layer]:
    """Lemma C.1: from (z, a) in st and sym1 to S(z, a) in st, sym2 and dir; boot on blank leads to the start state."""
    z, a = len(machine.states), len(machine.alphabet)
    pair = layout["pair"].reshape(layout.states, a)
    both = Table(layout, "pos1", "pos2").add(pair, layout["st"][:, None]).add(pair, layout["sym1"][None, :])
    both.shift(pair, -1.0)
    shape = (layout.states, a)
    to_state, to_symbol, to_move = np.full(shape, machine.start), np.zeros(shape, np.intp), np.ones(shape)
    to_state[:z], to_symbol[:z], to_move[:z] = machine.next_state, machine.write, machine.move
    # Boot is met on a blank only; on other symbols its rows stay empty.
    met = np.ones(shape, bool)
    met[layout.boot, 1:] = False
    moved = Table(layout, "pos1", "pos2")
    moved.add(layout["st"][to_state[met]], pair[met]).add(layout["sym2"][to_symbol[met]], pair[met])
    moved.add(layout["dir"][np.where(to_move[met] < 0, LEFT, RIGHT)], pair[met])
    return [Layer("C.1 pair", both), Layer("C.1 transition", moved)]


def retrieval(layout: Layout) -> list[Layer]:
    """Claims C.4-C.6: scr4 says whether the cell was written before, scr1 what was written on it last.

    A step t ≤ i keeps l_{t-1} in pos2 and t in pos1. In the layer of bit j + 1 the first j bits of i' stand in scr3; a
    step matches where its cell is pos3, its time begins with these bits, and its next bit is 1. There is one
    if and only if that bit of i' is 1: a step on the same cell is at most i', and so cannot have 1 where i' has 0.
    """
    pos1, pos2, pos3, scr3 = (list(layout[group]) for group in ("pos1", "pos2", "pos3", "scr3"))
    was_written, next_bit = layout["scr4"][WRITTEN], layout["scr4"][NEXT_BIT]
    visited = Table(layout, *KEPT).add(was_written, was_written)
    layers = [Layer("C.4 visited", visited, matching(layout, pos3, pos2, raised=[was_written]))]
    for j in range(layout.bits):
        others = np.delete(layout["scr3"], j)
        next_bits = Table(layout, *KEPT).add(was_written, was_written).add(scr3[j], next_bit).add(others, others)
        search = matching(layout, pos3 + scr3[:j], pos2 + pos1[: j + 1], raised=[next_bit])
        layers.append(Layer(f"C.5 bit {j + 1}", next_bits, search))
    read = Table(layout, *KEPT, "scr1").add(was_written, was_written)
    copy = matching(layout, pos3 + scr3, pos2 + pos1, moved=(layout["scr1"], layout["sym2"]))
    return [*layers, Layer("C.6 copy", read, copy)]


def input_lookup(layout: Layout) -> Layer:
    """Lemma C.7: scr2 = the input's symbol on cell pos3, scr4 says whether there is one."""
    flags = layout["scr4"][[WRITTEN, INPUT]]
    table = Table(layout, *KEPT, "scr1", "scr2").add(flags, flags)
    moved = (layout["scr2"], layout["sym1"])
    encoder = matching(layout, layout["pos3"], layout["pos1"], moved=moved, raised=[layout["scr4"][INPUT]])
    return Layer("C.7 input", table, encoder=encoder)


def choice(layout: Layout) -> list[Layer]:
    """Lemma C.8: sym1 = scr1 where the cell was written, else scr2 where it has input, else blank; pos2 = pos3."""
    was_written, has_input = layout["scr4"][WRITTEN], layout["scr4"][INPUT]
    written, given, blank = layout["v"]
    which = Table(layout, "st", "pos3", "scr1", "scr2").add(written, was_written)
    which.add(given, [was_written, has_input], [-1.0, 1.0])
    which.add(blank, [was_written, has_input], -1.0).shift(blank, 1.0)
    y1, y2, sym1 = layout["y1"], layout["y2"], layout["sym1"]
    gated = Table(layout, "st", "pos3").add(blank, blank)
    for y, gate, source in ((y1, written, "scr1"), (y2, given, "scr2")):
        gated.add(y, gate).add(y, layout[source]).shift(y, -1.0)
    chosen = Table(layout, "st").add(sym1, y1).add(sym1, y2).add(sym1[0], blank).add(layout["pos2"], layout["pos3"])
    return [Layer("C.8 which", which), Layer("C.8 gate", gated), Layer("C.8 symbol", chosen)]


CARRIED = ("st", "sym2", "pos1", "pos2")
"""What the adders leave as it is."""


def look_ahead(layout: Layout) -> list[Layer]:
    """aux1_k = φ(left - Σ lower), aux2_k = φ(right + Σ lower - #lower); pos3_k = |pos2_k - aux1_k - aux2_k|."""
    pos2, pos3, aux1, aux2 = (layout[group] for group in ("pos2", "pos3", "aux1", "aux2"))
    left, right = layout["dir"][[LEFT, RIGHT]]
    ahead, parts = Table(layout, *CARRIED), Table(layout, *CARRIED)
    for k in range(layout.bits):
        lower = pos2[k + 1 :]
        ahead.add(aux1[k], left).add(aux1[k], lower, -1.0)
        ahead.add(aux2[k], right).add(aux2[k], lower).shift(aux2[k], -float(len(lower)))
    parts.add(aux1, pos2).add(aux1, aux1, -1.0).add(aux1, aux2, -1.0)
    parts.add(aux2, pos2, -1.0).add(aux2, aux1).add(aux2, aux2)
    total = Table(layout, *CARRIED).add(pos3, aux1).add(pos3, aux2)
    return [Layer("C.2 borrow, carry", ahead), Layer("C.2 flip", parts), Layer("C.2 cell", total)]


def ripple(layout: Layout) -> list[Layer]:
    """From the least significant bit: |b - r| in two layers, r the borrow or carry, which stays in dir.

    The next borrow is φ(r - b), the next carry φ(r + b - 1). The first pass reads pos2 and writes pos3, the second
    works on pos3. Bits of pos3 that are not written yet are left empty.
    """
    pos2, pos3, aux1, aux2 = (layout[group] for group in ("pos2", "pos3", "aux1", "aux2"))
    layers = []
    for direction, name in ((LEFT, "borrow"), (RIGHT, "carry")):
        rest, waiting = layout["dir"][direction], layout["dir"][direction + 1 :]
        for k in reversed(range(layout.bits)):
            source = (pos2 if direction == LEFT else pos3)[k]
            others = pos3[k + 1 :] if direction == LEFT else np.delete(pos3, k)
            apart = Table(layout, *CARRIED).add(others, others).add(waiting, waiting)
            apart.add(aux1[k], source).add(aux1[k], rest, -1.0)
            apart.add(aux2[k], source, -1.0).add(aux2[k], rest)
            total = Table(layout, *CARRIED).add(others, others).add(waiting, waiting)
            total.add(pos3[k], aux1[k]).add(pos3[k], aux2[k])
            if k > 0:  # what leaves the most significant bit is dropped: the sum is modulo 2^W
                apart.add(rest, rest).add(rest, source, -1.0 if direction == LEFT else 1.0)
                apart.shift(rest, 0.0 if direction == LEFT else -1.0)
                total.add(rest, rest)
            layers += [Layer(f"C.2 {name}, bit {k + 1}", apart), Layer(f"C.2 bit {k + 1}", total)]
    return layers
