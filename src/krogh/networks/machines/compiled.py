"""Compiled machines in safetensors files, from which they run again without anything else.

The header (`krogh.networks.weight_files`) says what the network is: the machine with its tables, T, the bits of
positions, adder, correction and attention.

Turing machines compiled to the weights of a transformer (sm-approximation, C3; Theorem 4.1).

The transformer runs a machine for T steps: decoder step 1 boots (the head goes from cell 0 to cell 1, into the start
state), and after decoder step i + 1 its output holds state, symbol under the head and cell at the machine's time i. The
last output times `cls` is +1 where the machine has accepted, -1 where it has rejected, and 0 otherwise.

Sizes, with Z' = Z ∪ {boot} and W = O(log T) bits for cells and times: width |Z'|(1 + |A|) + 6|A| + 6W + 8, W + 11
layers (5W + 8 with the ripple adder), 1-norm O(|Z||A| + W(|Z| + |A| + W)). Weights are written straight to sparse
arrays.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.sparse import csr_array

from krogh.errors import require, require_integer, unknown
from krogh.networks.machines.layers import (
    Layer,
    Vector,
    choice,
    input_lookup,
    look_ahead,
    retrieval,
    ripple,
    sparse,
    transition,
)
from krogh.networks.machines.layout import MOST_BITS, Layout, bits_needed, cells_needed, from_binary
from krogh.networks.relu import HIGH, LOW, SLOPE
from krogh.networks.weight_files import UNFIT, Weights, damaged, read_file, require_same_shapes, write_file
from krogh.programs.machines.machine import Machine, Word
from krogh.programs.machines.running import require_halts

Adder = Literal["look-ahead", "ripple"]
Kind = Literal["hard", "soft"]
ADDERS: dict[str, Callable[[Layout], list[Layer]]] = {"look-ahead": look_ahead, "ripple": ripple}
UNCLEAR = -1
"""What is decoded where a group is not one-hot."""


class Decoded(NamedTuple):
    """State, symbol under the head and cell of the head, int [...]; `UNCLEAR` where a one-hot group is none."""

    state: NDArray[np.int64]
    symbol: NDArray[np.int64]
    cell: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CompiledMachine:
    """A machine as weights: `parameters` by the names of `krogh.networks.machines.running`, matrices sparse.

    It runs for `steps` = T machine steps on words of at most `input_length` letters; cells and times have `bits` bits.
    `inverse_temperature` is None where attention is hard.
    """

    machine: Machine
    steps: int
    input_length: int
    bits: int
    adder: Adder
    correction: bool
    inverse_temperature: float | None
    parameters: Mapping[str, csr_array | Vector]
    layer_names: tuple[str, ...]

    @functools.cached_property
    def layout(self) -> Layout:
        """Which coordinates hold what."""
        return Layout(len(self.machine.states) + 1, len(self.machine.alphabet), self.bits)

    @property
    def attention(self) -> Kind:
        """Whether attention is hard or soft."""
        return "hard" if self.inverse_temperature is None else "soft"

    @property
    def decoder_steps(self) -> int:
        """T' = T + 1: the boot step comes first."""
        return self.steps + 1

    @property
    def width(self) -> int:
        """w, the size of hidden vectors."""
        return self.layout.width

    @property
    def depth(self) -> int:
        """d, the number of transformer layers."""
        return len(self.layer_names)

    @functools.cached_property
    def one_norm(self) -> float:
        """‖θ‖₁ over all parameters."""
        return float(sum(np.abs(_values(value)).sum() for value in self.parameters.values()))

    @functools.cached_property
    def parameter_count(self) -> int:
        """p, all entries of all parameters, zeros among them."""
        return sum(math.prod(value.shape) for value in self.parameters.values())

    def dense_parameters(self, dtype: DTypeLike = np.float64) -> dict[str, NDArray[np.floating]]:
        """All parameters as dense arrays of a float type, which may be JAX's bfloat16."""
        dense = {name: _dense(value) for name, value in self.parameters.items()}
        return {name: value.astype(dtype) for name, value in dense.items()}

    @functools.cached_property
    def positions(self) -> Vector:
        """β(0), β(1), ... for all steps and all places of the input, [.., w]."""
        return self.layout.positions(max(self.decoder_steps, self.input_length))

    def tokens(self, words: Sequence[Word]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Words as symbol numbers [batch, m], filled up with blanks, and their lengths [batch]; m is at least 1."""
        require_words(words)
        require(len(words) > 0, "give at least one word; got none (the empty word is '')")
        encoded = [self.machine.encode(word) for word in words]
        for word in encoded:
            require(
                len(word) <= self.input_length,
                f"the word {self.machine.decode(word)!r} has {len(word)} letters, and {self.machine.name!r} was "
                f"compiled for at most {self.input_length} (compile it with input_length={len(word)})",
            )
        lengths = np.array([len(word) for word in encoded], np.int32)
        tokens = np.zeros((len(encoded), max(1, int(lengths.max()))), np.int32)
        for row, word in zip(tokens, encoded, strict=True):
            row[: len(word)] = word
        return tokens, lengths

    def decode(self, outputs: ArrayLike) -> Decoded:
        """What outputs o [..., w] say; output i + 1 belongs to the machine's time i."""
        vectors = np.asarray(outputs)
        require(
            vectors.shape[-1:] == (self.width,), f"outputs have {self.width} coordinates; got an array {vectors.shape}"
        )
        cell = from_binary(vectors[..., self.layout["pos2"]])
        _, highest = cells_needed(self.machine.tape, self.steps, self.input_length)
        if self.machine.tape == "two-way":
            cell = np.where(cell > highest, cell - 2**self.bits, cell)
        return Decoded(_one_hot(vectors[..., self.layout["st"]]), _one_hot(vectors[..., self.layout["sym1"]]), cell)


def compile_machine(
    machine: Machine,
    steps: int,
    *,
    input_length: int | None = None,
    adder: Adder = "look-ahead",
    correction: bool = True,
    attention: Kind = "hard",
    inverse_temperature: float | None = None,
    position_bits: int | None = None,
    words: Sequence[Word] = (),
    unfinished: bool = False,
) -> CompiledMachine:
    """The transformer that runs `machine` for `steps` steps on every word of at most `input_length` letters.

    The machine must halt within T steps on the `words` given, unless `unfinished` allows it not to. `input_length` is
    T + 1 unless given, or the longest of `words` if that is longer: the head sees no further. With `correction` every
    layer rounds its outputs; without, it returns them as they are, by matrices of the same shapes. Soft attention has
    the inverse temperature ln(3(n + 1)) for memories of n positions unless another is given: what leaks then is less
    than n/(3(n + 1)) < 1/3, and is rounded away. `position_bits` asks for more bits than needed.
    """
    require_integer("steps", steps, 1)
    if adder not in ADDERS:
        raise unknown("adder", adder, ADDERS)
    if attention not in get_args(Kind):
        raise unknown("attention", attention, get_args(Kind))
    require_words(words)
    if not unfinished:
        require_halts(machine, words, steps)
    longest = max((len(machine.encode(word)) for word in words), default=0)
    if input_length is None:
        input_length = max(steps + 1, longest)
    require_integer("input_length", input_length, 0)
    require(
        longest <= input_length,
        f"a word of {longest} letters is longer than input_length={input_length} (try input_length={longest})",
    )
    least = bits_needed(machine.tape, steps, input_length)
    bits = least if position_bits is None else position_bits
    require_integer("position_bits", bits, least, MOST_BITS)
    if attention == "soft":
        enough = math.log(3 * (max(steps + 1, input_length) + 1))
        inverse_temperature = enough if inverse_temperature is None else float(inverse_temperature)
        require(inverse_temperature > 0, f"inverse_temperature must be positive; got {inverse_temperature!r}")
    else:
        require(inverse_temperature is None, "hard attention has no inverse_temperature (try attention='soft')")
    layout = Layout(len(machine.states) + 1, len(machine.alphabet), bits)
    layers = [*transition(layout, machine), *ADDERS[adder](layout), *retrieval(layout), input_lookup(layout)]
    layers += choice(layout)
    parameters = _ends(layout, machine)
    for number, layer in enumerate(layers, start=1):
        for which, written in (("dec", layer.decoder), ("enc", layer.encoder)):
            if written is not None:
                parameters |= written.named(f"L{number}.{which}")
        parameters |= {f"L{number}.ff.{name}": value for name, value in _feedforward(layer, correction).items()}
    return CompiledMachine(
        machine,
        steps,
        input_length,
        bits,
        adder,
        correction,
        inverse_temperature,
        parameters,
        tuple(layer.name for layer in layers),
    )


def require_words(words: Sequence[Word]) -> None:
    """Require a list of words, not a word."""
    require(not isinstance(words, str), f"give a list of words; got the text {words!r} (try [{words!r}])")


def _ends(layout: Layout, machine: Machine) -> dict[str, csr_array | Vector]:
    """Embedding, first output and classifier."""
    start, decide = np.zeros(layout.width), np.zeros(layout.width)
    start[[layout["st"][layout.boot], layout["sym1"][0]]] = 1.0
    decide[layout["st"][list(machine.accept)]] = 1.0
    decide[layout["st"][list(machine.reject)]] = -1.0
    embedding = sparse((layout.width, layout.symbols), layout["sym1"], np.arange(layout.symbols), 1.0)
    return {"E": embedding, "o0": start, "cls": decide}


def _feedforward(layer: Layer, correction: bool) -> dict[str, csr_array | Vector]:
    """The table; then W_2 [2w, w] and W_3 [w, 2w] that round the coordinates in use (C1), or leave them as they are."""
    weight, bias, w = layer.table.weight, layer.table.bias, layer.table.layout.width
    (used,) = np.nonzero((np.diff(weight.indptr) > 0) | (bias != 0))
    if correction:
        both, thresholds = np.concatenate([used, w + used]), np.zeros(2 * w)
        thresholds[used], thresholds[w + used] = -LOW, -HIGH
        apart = sparse((2 * w, w), both, np.tile(used, 2), 1.0)
        together = sparse((w, 2 * w), np.tile(used, 2), both, np.repeat([SLOPE, -SLOPE], len(used)))
    else:
        thresholds = np.zeros(2 * w)
        apart, together = sparse((2 * w, w), used, used, 1.0), sparse((w, 2 * w), used, used, 1.0)
    return {"W1": weight, "b1": bias, "W2": apart, "b2": thresholds, "W3": together, "b3": np.zeros(w)}


def _values(parameter: csr_array | Vector) -> Vector:
    return parameter if isinstance(parameter, np.ndarray) else parameter.data


def _dense(parameter: csr_array | Vector) -> Vector:
    return parameter if isinstance(parameter, np.ndarray) else parameter.toarray()


def _one_hot(group: NDArray[np.floating]) -> NDArray[np.int64]:
    """Which coordinate is above 1/2, where exactly one is."""
    above = group > 0.5
    return np.where(above.sum(axis=-1) == 1, above.argmax(axis=-1), UNCLEAR)


KIND = "compiled machine"
TABLES = ("next_state", "write", "move")
WORDS = ("name", "states", "alphabet", "start", "accept", "reject", "halting", "tape", "default_input")
OPTIONS = ("steps", "input_length", "bits", "adder", "correction", "inverse_temperature", "layer_names")


def save_machine_weights(compiled: CompiledMachine, path: str | os.PathLike[str]) -> Path:
    """Write a compiled machine; the file appears whole or not at all."""
    machine = {name: getattr(compiled.machine, name) for name in WORDS}
    machine |= {name: getattr(compiled.machine, name).tolist() for name in TABLES}
    size = {"width": compiled.width, "parameters": compiled.parameter_count, "one_norm": compiled.one_norm}
    header = {name: getattr(compiled, name) for name in OPTIONS}
    header |= {"kind": KIND, "machine": machine, "size": size}
    return write_file(path, compiled.parameters, header)


def load_machine_weights(path: str | os.PathLike[str]) -> CompiledMachine:
    """The compiled machine of a file, with the weights that stand there."""
    header, parameters = read_file(path, KIND, (KIND,), "krogh compile machine")
    try:
        return _compiled(header, parameters)
    except UNFIT as cause:
        raise damaged(path, cause) from None


def _compiled(header: dict[str, Any], parameters: Weights) -> CompiledMachine:
    described = header["machine"]
    tables = {name: np.array(described[name], np.int64) for name in TABLES}
    written = {name: described[name] for name in WORDS}
    words: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in written.items()
    }
    machine = Machine(**(words | tables))
    options = {name: header[name] for name in OPTIONS}
    options["layer_names"] = tuple(options["layer_names"])
    compiled = CompiledMachine(machine=machine, parameters=parameters, **options)
    # What the options say fixes every shape; the values are the file's own.
    fresh = compile_machine(
        machine,
        compiled.steps,
        input_length=compiled.input_length,
        adder=compiled.adder,
        correction=compiled.correction,
        position_bits=compiled.bits,
    )
    require_same_shapes(fresh.parameters, compiled.parameters)
    return compiled
