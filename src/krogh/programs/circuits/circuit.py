"""Boolean circuits: acyclic graphs of AND, OR, NOT and ID gates with any number of outputs (SM paper, section 3).

Nodes are numbered: 0..m-1 are the inputs, m+i is gate i, and every gate comes after the gates that it reads. The two
constants are nodes too: FALSE is node -1 and TRUE is node -2, and both may stand wherever a gate or an output reads
one; arrays of values end with them, so that a negative number finds them. `parents` [gates, 2] are node numbers.

A circuit is evaluated 64 inputs at a time: a node's values on 64 inputs are the bits of one word, and gates of one
level and one kind are one operation on arrays, so 10^5 gates on 10^4 inputs take a second or so.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from krogh.errors import KroghError, require, require_integer, unknown
from krogh.programs.reading import CONTROL

FALSE, TRUE = -1, -2
CONSTANTS = 2
LARGEST_NODE = 2**31 - 1
DANGLING = ("refuse", "drop", "keep")
WORD = 64
WORDS_AT_ONCE = 1 << 22
"""Words of all nodes together that are held at once: 32 MiB."""
FEWEST_WORDS, MOST_WORDS = 64, 1 << 25
"""So many words of each node are held even then, up to 256 MiB: every level of a deep circuit takes its time."""

MOST_LISTED = 24
"""Circuits of more inputs have truth tables too long to keep."""


class Gate(IntEnum):
    """The four kinds of gates."""

    ID = 0
    NOT = 1
    AND = 2
    OR = 3

    @property
    def arity(self) -> int:
        """How many parents a gate of this kind reads."""
        return 1 if self in (Gate.ID, Gate.NOT) else 2


@dataclass(frozen=True, eq=False, repr=False)
class Circuit:
    """A circuit of m inputs and g gates.

    kinds int8 [g] are values of `Gate`; parents int32 [g, 2] are node numbers, twice the same for ID and NOT; outputs
    are node numbers. Gates may be given in any order and are brought into one where parents come first. Names are made
    up where none are given: x0, x1, … for inputs, y0, y1, … for outputs, g0, g1, … for gates.
    """

    name: str
    inputs: int
    kinds: Any
    parents: Any
    outputs: tuple[int, ...]
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    gate_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_integer("inputs", self.inputs, 0)
        require(not CONTROL.search(self.name), f"a circuit's name has no control characters; got {self.name!r}")
        kinds, parents = checked_kinds(self.kinds), checked_parents(self.parents)
        require(
            len(kinds) == len(parents), f"{len(kinds)} kinds of gates were given for {len(parents)} pairs of parents"
        )
        outputs = checked_places("outputs", self.outputs)
        names = {
            "input_names": checked_names("input", self.input_names, self.inputs, "x"),
            "output_names": checked_names("output", self.output_names, len(outputs), "y"),
        }
        gate_names = checked_names("gate", self.gate_names, len(kinds), "g") if self.gate_names else ()
        self._check_numbers(kinds, parents, outputs, gate_names)
        order = topological_order(parents, self.inputs)
        if order is None:
            cycle = find_cycle(parents, self.inputs)
            shown = [gate_names[place] if gate_names else f"gate {self.inputs + place}" for place in cycle]
            raise KroghError(f"the circuit {self.name!r} is cyclic: {chain_of(shown)}")
        if not np.array_equal(order, np.arange(len(order))):
            kinds, parents, outputs = _reordered(order, kinds, parents, outputs, self.inputs)
            gate_names = tuple(gate_names[place] for place in order) if gate_names else ()
        for array in (kinds, parents):
            array.flags.writeable = False
        fields = {"inputs": int(self.inputs), "kinds": kinds, "parents": parents, "outputs": outputs, **names}
        for field, value in {**fields, "gate_names": gate_names}.items():
            object.__setattr__(self, field, value)

    def _check_numbers(
        self, kinds: np.ndarray, parents: np.ndarray, outputs: tuple[int, ...], gate_names: tuple[str, ...]
    ) -> None:
        require(outputs, f"the circuit {self.name!r} has no outputs; name at least one node as an output")
        nodes = self.inputs + len(kinds)
        require(nodes <= LARGEST_NODE, f"node numbers end at {LARGEST_NODE}; got {nodes} nodes")
        known = f"nodes are 0..{nodes - 1}, FALSE = {FALSE} and TRUE = {TRUE}" if nodes else "it has no nodes"

        def gate(place: int) -> str:
            return repr(gate_names[place]) if gate_names else str(self.inputs + place)

        wrong = np.argwhere((parents < -CONSTANTS) | (parents >= nodes))
        for place, side in wrong[:1]:
            raise KroghError(f"gate {gate(int(place))} of {self.name!r} reads node {parents[place, side]}, but {known}")
        single = np.isin(kinds, (Gate.ID, Gate.NOT)) & (parents[:, 0] != parents[:, 1])
        for place in np.flatnonzero(single)[:1]:
            raise KroghError(
                f"gate {gate(int(place))} of {self.name!r} is {Gate(kinds[place]).name}, which reads one node; got "
                f"two, {parents[place].tolist()} (write it twice)"
            )
        for place, node in enumerate(outputs):
            inside = -CONSTANTS <= node < nodes
            require(inside, f"output {place} of {self.name!r} is node {node}, but {known}")

    def __repr__(self) -> str:
        sizes = (counted(self.inputs, "input"), counted(self.gates, "gate"), counted(len(self.outputs), "output"))
        return f"<Circuit {self.name!r}: {', '.join(sizes)}>"

    @property
    def gates(self) -> int:
        """How many gates there are, inputs not among them."""
        return len(self.kinds)

    @property
    def nodes(self) -> int:
        """Inputs and gates together."""
        return self.inputs + self.gates

    @cached_property
    def levels(self) -> np.ndarray:
        """The layer of every node when each is as early as its parents allow: 1 for inputs; int32 [nodes + 2].

        The last two entries are those of the constants, 1.
        """
        levels = [1] * (self.nodes + CONSTANTS)
        first, second = self.parents[:, 0].tolist(), self.parents[:, 1].tolist()
        for node, (a, b) in enumerate(zip(first, second, strict=True), start=self.inputs):
            one, other = levels[a], levels[b]
            levels[node] = (one if one > other else other) + 1
        return np.array(levels, np.int32)

    @property
    def depth(self) -> int:
        """q: layers on the longest way to any node, the inputs' layer counted."""
        return int(self.levels.max())

    @cached_property
    def reaching(self) -> np.ndarray:
        """Which nodes some output depends on; bool [nodes]."""
        needed = [False] * (self.nodes + CONSTANTS)
        for node in self.outputs:
            needed[node] = True
        first, second = self.parents[:, 0].tolist(), self.parents[:, 1].tolist()
        for place in range(self.gates - 1, -1, -1):
            if needed[self.inputs + place]:
                needed[first[place]] = needed[second[place]] = True
        return np.array(needed[: self.nodes], bool)

    @property
    def dangling(self) -> np.ndarray:
        """Gates on which no output depends, as places 0..g-1."""
        return np.flatnonzero(~self.reaching[self.inputs :])

    def node_name(self, node: int) -> str:
        """What a node is called: its own name, or g0, g1, … for a gate without one."""
        if node < 0:
            return {FALSE: "FALSE", TRUE: "TRUE"}[node]
        if node < self.inputs:
            return self.input_names[node]
        return self.gate_names[node - self.inputs] if self.gate_names else f"g{node - self.inputs}"

    def with_an_input(self) -> Circuit:
        """The same function of one input that nothing reads, where there are no inputs: layers begin with some."""
        if self.inputs:
            return self
        outputs = tuple(node + (node >= 0) for node in self.outputs)
        parents = self.parents + (self.parents >= 0)
        return dataclasses.replace(self, inputs=1, parents=parents, outputs=outputs, input_names=("unused",))

    def without_dangling(self) -> Circuit:
        """The same function without the gates on which no output depends; the inputs all stay."""
        if not len(self.dangling):
            return self
        kept = np.flatnonzero(self.reaching[self.inputs :])
        renumbered = np.full(self.nodes + CONSTANTS, FALSE, np.int64)
        renumbered[: self.inputs] = np.arange(self.inputs)
        renumbered[self.inputs + kept] = self.inputs + np.arange(len(kept))
        renumbered[[FALSE, TRUE]] = FALSE, TRUE
        return dataclasses.replace(
            self,
            kinds=self.kinds[kept],
            parents=renumbered[self.parents[kept]],
            outputs=tuple(renumbered[list(self.outputs)].tolist()),
            gate_names=tuple(self.gate_names[place] for place in kept) if self.gate_names else (),
        )

    def settled(self, dangling: str) -> Circuit:
        """This circuit with its dangling gates kept, dropped, or refused by name."""
        if dangling not in DANGLING:
            raise unknown("treatment of dangling gates", str(dangling), DANGLING)
        if dangling == "refuse" and len(self.dangling):
            raise KroghError(f"{self.dangling_sentence()} (connect them, or pass dangling='drop')")
        return self.without_dangling() if dangling == "drop" else self

    def dangling_sentence(self) -> str:
        """Which gates reach no output, in words."""
        names = [self.node_name(self.inputs + int(place)) for place in self.dangling]
        listed = ", ".join(repr(name) for name in names[:5]) + (", …" if len(names) > 5 else "")
        gates = counted(len(names), "dangling gate")
        return f"the circuit {self.name!r} has {gates} that no output depends on: {listed}"


def counted(number: int, noun: str) -> str:
    """ "1 gate", "2 gates"."""
    ending = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{ending}"


def name_of_source(source: str) -> str:
    """What a circuit without a name of its own is called: its file's name without folder and ending."""
    return "circuit" if source.startswith("<") else Path(source).stem or "circuit"


def _reordered(
    order: np.ndarray, kinds: np.ndarray, parents: np.ndarray, outputs: tuple[int, ...], inputs: int
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    renumbered = np.empty(inputs + len(order) + CONSTANTS, np.int32)
    renumbered[:inputs] = np.arange(inputs)
    renumbered[inputs + order] = inputs + np.arange(len(order))
    renumbered[[FALSE, TRUE]] = FALSE, TRUE
    return kinds[order], renumbered[parents[order]], tuple(renumbered[list(outputs)].tolist())


def checked_kinds(given: Any) -> np.ndarray:
    """Kinds of gates as int8; anything but the four is refused."""
    kinds = np.array(given)
    if not kinds.size:
        return np.zeros(0, np.int8)
    numbers = kinds.ndim == 1 and kinds.dtype.kind in "iu"
    if not (numbers and kinds.min() >= 0 and kinds.max() < len(Gate)):  # the message of 10^5 gates takes its time
        known = ", ".join(f"{kind.name} = {kind.value}" for kind in Gate)
        raise KroghError(f"kinds must list gates, each {known}; got {given!r}")
    return kinds.astype(np.int8)


def checked_parents(given: Any) -> np.ndarray:
    """Pairs of node numbers as int32 [gates, 2]; whether there are such nodes is checked elsewhere."""
    parents = np.array(given)
    if not parents.size:
        return np.zeros((0, 2), np.int32)
    pairs = parents.ndim == 2 and parents.shape[1] == 2 and parents.dtype.kind in "iu"
    if not pairs:
        raise KroghError(f"parents must be two node numbers for each gate [gates, 2]; got {given!r}")
    return np.clip(parents, -LARGEST_NODE, LARGEST_NODE).astype(np.int32)


def checked_places(name: str, given: Iterable[int]) -> tuple[int, ...]:
    """Whole numbers as a tuple."""
    try:
        return tuple(operator.index(place) for place in given)
    except TypeError:
        raise KroghError(f"{name} must list whole numbers; got {given!r}") from None


def checked_names(kind: str, given: Iterable[str], count: int, letter: str) -> tuple[str, ...]:
    """Names, all different and each on one line; made up of a letter and a number where none are given."""
    names = tuple(given) or tuple(f"{letter}{place}" for place in range(count))
    require(len(names) == count, f"{count} {kind}s need {count} names; got {len(names)}: {names[:5]}")
    seen: set[str] = set()
    for name in names:
        plain = isinstance(name, str) and name and not CONTROL.search(name)
        require(plain, f"names of {kind}s must be texts of one line without control characters; got {name!r}")
        require(name not in seen, f"two {kind}s have the name {name!r}; names must differ")
        seen.add(name)
    return names


def evaluate(circuit: Circuit, bits: Any) -> np.ndarray:
    """The outputs on inputs `bits` [batch, m], which hold 0 and 1 or truth values: bool [batch, outputs]."""
    given = as_bits(bits, circuit.inputs, circuit.name)
    found = np.empty((len(given), len(circuit.outputs)), bool)
    plan = _plan(circuit)
    nodes = circuit.nodes + CONSTANTS
    size = WORD * max(1, WORDS_AT_ONCE // nodes, min(FEWEST_WORDS, MOST_WORDS // nodes))
    for start in range(0, len(given), size):
        chunk = given[start : start + size]
        values = _values(circuit, pack(chunk), plan)
        found[start : start + size] = unpack(values[list(circuit.outputs)], len(chunk))
    return found


def truth_table(circuit: Circuit) -> np.ndarray:
    """The outputs on all 2^m inputs, bool [2^m, outputs]; row i is the input whose bit j is (i >> j) & 1."""
    require(
        circuit.inputs <= MOST_LISTED,
        f"a truth table is kept for at most {MOST_LISTED} inputs; {circuit.name!r} has {circuit.inputs}",
    )
    return evaluate(circuit, all_inputs(circuit.inputs))


def all_inputs(m: int) -> np.ndarray:
    """All 2^m inputs, bool [2^m, m]; bit j of row i is (i >> j) & 1."""
    rows = np.arange(2**m, dtype=np.uint32)
    return (rows[:, None] >> np.arange(m, dtype=np.uint32)[None, :]) & np.uint32(1) == 1


def as_bits(given: Any, inputs: int, name: str) -> np.ndarray:
    """`given` as bool [batch, inputs]; anything but 0 and 1 is refused."""
    bits = np.asarray(given)
    require(
        bits.ndim == 2 and bits.shape[1] == inputs,
        f"{name!r} reads inputs of the shape (batch, {inputs}); got {bits.shape}",
    )
    if bits.dtype == bool:
        return bits
    require(bits.dtype.kind in "iuf", f"{name!r} reads the bits 0 and 1; got {bits.dtype.name}")
    truth = bits == 1
    wrong = ~truth & (bits != 0)
    require(not wrong.any(), f"{name!r} reads the bits 0 and 1; got {bits[wrong][:1].tolist()}")
    return truth


def pack(bits: np.ndarray) -> np.ndarray:
    """bool [batch, n] as words: uint64 [n, ⌈batch/64⌉]; input i is bit i mod 64 of word i div 64."""
    batch, n = bits.shape
    words = -(-batch // WORD)
    padded = np.zeros((n, 8 * words), np.uint8)
    packed = np.packbits(bits.T, axis=1, bitorder="little")
    padded[:, : packed.shape[1]] = packed
    return padded.view("<u8")


def unpack(words: np.ndarray, batch: int) -> np.ndarray:
    """The reverse of `pack`: bool [batch, n]."""
    octets = np.ascontiguousarray(words, "<u8").view(np.uint8)
    return np.unpackbits(octets, axis=1, count=batch, bitorder="little").T.astype(bool)


def _plan(circuit: Circuit) -> list[tuple[Gate, np.ndarray, np.ndarray, np.ndarray]]:
    """Kind, nodes and parents of the gates of one level and one kind, level by level."""
    level = circuit.levels[circuit.inputs : circuit.nodes]
    order = np.lexsort((circuit.kinds, level))
    changes = np.flatnonzero(np.diff(level[order]) | np.diff(circuit.kinds[order])) + 1
    groups = np.split(order, changes) if len(order) else []
    return [
        (Gate(circuit.kinds[group[0]]), circuit.inputs + group, circuit.parents[group, 0], circuit.parents[group, 1])
        for group in groups
    ]


def _values(circuit: Circuit, inputs: np.ndarray, plan: list[Any]) -> np.ndarray:
    """Words of all nodes, the constants last."""
    values = np.empty((circuit.nodes + CONSTANTS, inputs.shape[1]), np.uint64)
    values[: circuit.inputs] = inputs
    values[FALSE], values[TRUE] = 0, ~np.uint64(0)
    for kind, nodes, first, second in plan:
        values[nodes] = combine(kind, values[first], values[second])
    return values


def combine(kind: Gate, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """A gate's values from its parents', for words and for truth values."""
    if kind == Gate.AND:
        return first & second
    if kind == Gate.OR:
        return first | second
    return ~first if kind == Gate.NOT else first


def random_inputs(inputs: int, count: int, seed: int, size: int) -> Iterator[np.ndarray]:
    """`count` uniform inputs in chunks of at most `size`, bool [chunk, inputs]."""
    random = np.random.default_rng(seed)
    for start in range(0, count, size):
        yield random.integers(0, 2, (min(size, count - start), inputs), np.uint8).astype(bool)


def topological_order(parents: np.ndarray, inputs: int) -> np.ndarray | None:
    """An order of the gates in which parents come first (the given one where it does); None for a cyclic circuit."""
    gates = len(parents)
    if not gates or bool(np.all(parents < inputs + np.arange(gates)[:, None])):
        return np.arange(gates)
    _, order = _worked_off(parents, inputs)
    return np.array(order) if len(order) == gates else None


def find_cycle(parents: np.ndarray, inputs: int) -> list[int]:
    """Gates of a cyclic circuit each of which reads the next, and the last the first; the least stands first."""
    waiting, _ = _worked_off(parents, inputs)
    # Every gate that still waits reads one that still waits, so a walk along these must come back to itself.
    place = next(place for place, count in enumerate(waiting) if count)
    seen: dict[int, int] = {}
    walk: list[int] = []
    while place not in seen:
        seen[place] = len(walk)
        walk.append(place)
        place = next(int(node) - inputs for node in parents[place] if node >= inputs and waiting[int(node) - inputs])
    cycle = walk[seen[place] :]
    start = cycle.index(min(cycle))
    return cycle[start:] + cycle[:start]


def chain_of(names: list[str]) -> str:
    """A cycle in words: "a reads b reads a"; of a long one the middle is left out."""
    shown = names if len(names) <= 12 else [*names[:6], f"({len(names) - 11} more)", *names[-5:]]
    return " reads ".join([*shown, names[0]])


def _worked_off(parents: np.ndarray, inputs: int) -> tuple[list[int], list[int]]:
    """Gates taken one by one once all that they read are taken: how many each still waits for, and the order.

    In time linear in the gates, five times quicker than `graphlib` on 10^6 of them.
    """
    read = (parents.ravel() - inputs).astype(np.int64)
    reader = np.repeat(np.arange(len(parents)), 2)
    inner = read >= 0
    read, reader = read[inner], reader[inner]
    waiting = np.bincount(reader, minlength=len(parents)).tolist()
    starts = np.concatenate([[0], np.cumsum(np.bincount(read, minlength=len(parents)))]).tolist()
    following = reader[np.argsort(read, kind="stable")].tolist()  # from starts[i] on those that read gate i
    order = [place for place, count in enumerate(waiting) if count == 0]
    for place in order:  # grows while it is read
        for follower in following[starts[place] : starts[place + 1]]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                order.append(follower)
    return waiting, order
