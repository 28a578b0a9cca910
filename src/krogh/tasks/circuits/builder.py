"""Circuits put together gate by gate.

A builder starts with the inputs, whose nodes are 0..m-1, and every gate it adds returns its node. FALSE and TRUE may be
read like any node; what they decide is folded away when the circuit is finished.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from krogh.tasks.circuits.circuit import Circuit, Gate
from krogh.tasks.circuits.folding import without_constants


class CircuitBuilder:
    """Gates on m named inputs."""

    def __init__(self, name: str, input_names: Sequence[str]):
        self.name, self.input_names = name, tuple(input_names)
        self.inputs = list(range(len(self.input_names)))
        self._kinds: list[Gate] = []
        self._parents: list[tuple[int, int]] = []

    def gate(self, kind: Gate, first: int, second: int | None = None) -> int:
        """A further gate; its node."""
        self._kinds.append(kind)
        self._parents.append((first, first if second is None else second))
        return len(self.inputs) + len(self._kinds) - 1

    def conj(self, first: int, second: int) -> int:
        """AND."""
        return self.gate(Gate.AND, first, second)

    def disj(self, first: int, second: int) -> int:
        """OR."""
        return self.gate(Gate.OR, first, second)

    def negate(self, node: int) -> int:
        """NOT."""
        return self.gate(Gate.NOT, node)

    def half_adder(self, first: int, second: int) -> tuple[int, int]:
        """The sum of two bits modulo 2, and the carry: 4 gates."""
        carry = self.conj(first, second)
        return self.conj(self.disj(first, second), self.negate(carry)), carry

    def xor(self, first: int, second: int) -> int:
        """(a or b) and not (a and b)."""
        return self.half_adder(first, second)[0]

    def full_adder(self, first: int, second: int, third: int) -> tuple[int, int]:
        """The sum of three bits modulo 2, and the carry: 9 gates."""
        partial, one = self.half_adder(first, second)
        total, other = self.half_adder(partial, third)
        return total, self.disj(one, other)

    def add(self, first: Sequence[int], second: Sequence[int]) -> list[int]:
        """The sum of two numbers of bits, least significant first, one bit longer than the longer of the two."""
        short, long = sorted((list(first), list(second)), key=len)
        found: list[int] = []
        carry: int | None = None
        for place, bit in enumerate(long):
            terms = [bit, *short[place : place + 1], *([] if carry is None else [carry])]
            if len(terms) == 1:
                total, carry = bit, None
            elif len(terms) == 2:
                total, carry = self.half_adder(*terms)
            else:
                total, carry = self.full_adder(*terms)
            found.append(total)
        return found if carry is None else [*found, carry]

    def circuit(self, outputs: Sequence[int], output_names: Sequence[str]) -> Circuit:
        """The finished circuit, without constants and without gates that nothing reads."""
        kinds = np.array(self._kinds, np.int8)
        given = Circuit(
            self.name, len(self.inputs), kinds, self._parents, tuple(outputs), self.input_names, tuple(output_names)
        )
        return without_constants(given).without_dangling()
