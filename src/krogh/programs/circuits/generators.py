"""Circuits put together gate by gate, and families of any size: arithmetic, a worst case, and random ones.

A builder starts with the inputs, whose nodes are 0..m-1, and every gate it adds returns its node. FALSE and TRUE may be
read like any node; what they decide is folded away when the circuit is finished. Numbers of n bits are inputs
a0..a{n-1} and b0..b{n-1}, the least significant first, and so are the outputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from krogh.errors import KroghError, require_integer
from krogh.programs.circuits.circuit import FALSE, TRUE, Circuit, Gate, all_inputs, pack, random_inputs, unpack
from krogh.programs.circuits.layers import Layer, LayeredCircuit, without_constants

GATE_LAW = {Gate.ID: 0.15, Gate.NOT: 0.15, Gate.AND: 0.35, Gate.OR: 0.35}
"""How likely each kind of gate is in a random circuit."""
BALANCE = (0.2, 0.8)
"""Random circuits whose mean label lies outside are drawn again."""
MOST_DRAWS = 10_000
EXACT_INPUTS = 16
"""Up to so many inputs the mean label is that of all inputs; beyond, that of 2^16 random ones."""


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


def parity_circuit(m: int) -> Circuit:
    """x_0 ⊕ … ⊕ x_{m-1} by a balanced tree: 4(m-1) gates."""
    require_integer("m", m, 1)
    build = CircuitBuilder(f"parity-{m}", _numbered("x", m))
    waiting = list(build.inputs)
    while len(waiting) > 1:
        pairs = zip(waiting[::2], waiting[1::2], strict=False)
        waiting = [build.xor(*pair) for pair in pairs] + waiting[len(waiting) // 2 * 2 :]
    return build.circuit(waiting, ["parity"])


def adder(bits: int) -> Circuit:
    """a + b of two numbers by rippling carries: outputs s0..s{bits-1} and carry."""
    require_integer("bits", bits, 1)
    build = CircuitBuilder(f"adder-{bits}", [*_numbered("a", bits), *_numbered("b", bits)])
    total = build.add(build.inputs[:bits], build.inputs[bits:])
    return build.circuit(total, [*_numbered("s", bits), "carry"])


def comparator(bits: int) -> Circuit:
    """Which of two numbers is larger: outputs less (a < b), equal and greater, of which one is true."""
    require_integer("bits", bits, 1)
    build = CircuitBuilder(f"comparator-{bits}", [*_numbered("a", bits), *_numbered("b", bits)])
    less, greater = FALSE, FALSE
    for a, b in zip(build.inputs[:bits], build.inputs[bits:], strict=True):  # a more significant bit decides anew
        below, above = build.conj(build.negate(a), b), build.conj(a, build.negate(b))
        same = build.negate(build.disj(below, above))
        less, greater = build.disj(below, build.conj(same, less)), build.disj(above, build.conj(same, greater))
    equal = build.negate(build.disj(less, greater))
    return build.circuit([less, equal, greater], ["less", "equal", "greater"])


def majority(m: int) -> Circuit:
    """Whether more than half of m inputs are true: their number by a tree of adders, compared with m/2."""
    require_integer("m", m, 1)
    build = CircuitBuilder(f"majority-{m}", _numbered("x", m))
    numbers = [[node] for node in build.inputs]
    while len(numbers) > 1:
        pairs = zip(numbers[::2], numbers[1::2], strict=False)
        numbers = [build.add(*pair) for pair in pairs] + numbers[len(numbers) // 2 * 2 :]
    (count,) = numbers
    reached = TRUE  # count ≥ level: the bits seen so far, from the least significant, are at least those of level
    for place, bit in enumerate(count):
        wanted = TRUE if (m // 2 + 1) >> place & 1 else FALSE
        reached = build.conj(bit, reached) if wanted == TRUE else build.disj(bit, reached)
    return build.circuit([reached], ["majority"])


def multiplier(bits: int) -> Circuit:
    """a · b of two numbers, row by row as on paper: outputs p0..p{2·bits-1}."""
    require_integer("bits", bits, 1)
    build = CircuitBuilder(f"multiplier-{bits}", [*_numbered("a", bits), *_numbered("b", bits)])
    a, b = build.inputs[:bits], build.inputs[bits:]
    done: list[int] = []
    rest = [build.conj(bit, b[0]) for bit in a]
    for factor in b[1:]:
        done.append(rest[0])
        rest = build.add([build.conj(bit, factor) for bit in a], rest[1:])
    product = [*done, *rest]
    product += [FALSE] * (2 * bits - len(product))
    return build.circuit(product, _numbered("p", 2 * bits))


def and_ladder(r: int, q: int) -> LayeredCircuit:
    """Gate j of a layer is AND(j, j+1 mod r), and the last layer is AND(0, 1): the worst case without correction.

    q layers, the r inputs the first; on all ones every gate is true.
    """
    require_integer("r", r, 2)
    require_integer("q", q, 2)
    places = np.arange(r)
    rung = Layer(np.full(r, Gate.AND), places, (places + 1) % r)
    return LayeredCircuit(f"ladder-{r}x{q}", r, (*[rung] * (q - 2), Layer([Gate.AND], [0], [1])), (0,), (), ("top",))


def random_circuit(m: int, r: int, q: int, seed: int) -> LayeredCircuit:
    """Random gates on random parents in q layers: the m inputs, q-2 layers of r gates, and one gate.

    Kinds have the probabilities AND .35, OR .35, NOT .15, ID .15, and parents are uniform in the layer before. Circuits
    whose mean label on uniform inputs lies outside [0.2, 0.8] are drawn again.
    """
    require_integer("m", m, 1)
    require_integer("r", r, 1)
    require_integer("q", q, 2)
    require_integer("seed", seed, 0)
    random = np.random.default_rng(seed)
    inputs = all_inputs(m) if m <= EXACT_INPUTS else next(random_inputs(m, 2**EXACT_INPUTS, seed, 2**EXACT_INPUTS))
    words = pack(inputs)
    sizes = [m, *[r] * (q - 2), 1]
    for _ in range(MOST_DRAWS):
        layers = tuple(_random_layer(random, before, size) for before, size in itertools.pairwise(sizes))
        drawn = LayeredCircuit(f"random-{m}x{r}x{q}-{seed}", m, layers, (0,))
        if BALANCE[0] <= unpack(drawn.last(words), len(inputs)).mean() <= BALANCE[1]:
            return drawn
    raise KroghError(
        f"none of {MOST_DRAWS} random circuits of m={m}, r={r}, q={q} has a mean label in {list(BALANCE)} "
        "(try a larger r or a smaller q)"
    )


def _random_layer(random: np.random.Generator, before: int, size: int) -> Layer:
    kinds = random.choice(list(GATE_LAW), size, p=list(GATE_LAW.values())).astype(np.int8)
    first, second = random.integers(0, before, (2, size))
    return Layer(kinds, first, np.where(kinds <= Gate.NOT, first, second))


def _numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{place}" for place in range(count)]
