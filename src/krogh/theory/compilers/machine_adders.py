"""Moving the head: pos3 = pos2 - left + right modulo 2^W, by two adders (sm-approximation, C3; Lemma C.2).

With b_k the bits of pos2, a move to the left borrows from bit k if and only if all less significant bits are 0, and
a move to the right carries into bit k if and only if they are all 1. Either flips the bit, and nothing else does:

    new b_k = b_k XOR (borrow_k or carry_k)

Nothing is done with the borrow or the carry out of the most significant bit, so the sum is taken modulo 2^W: 0 - 1
flips every bit of 0...0 to 1...1 = 2^W - 1, and (2^W - 1) + 1 flips every bit of 1...1 to 0...0. Two-way tapes live on
this: cell -1 is cell 2^W - 1.

    look-ahead   3 layers: all borrows and carries at once; their exclusive or with the bits in two more
    ripple       4W layers, the source's: first the borrow from bit to bit, then the carry, two layers for each bit
"""

from __future__ import annotations

import numpy as np

from krogh.theory.compilers.machine_layers import Layer, Table
from krogh.theory.compilers.machine_layout import LEFT, RIGHT, Layout

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
