"""Turing machines compiled to the weights of a transformer (sm-approximation, C3; Theorem 4.1).

The transformer runs a machine for T steps: decoder step 1 boots (the head goes from cell 0 to cell 1, into the start
state), and after decoder step i + 1 its output holds state, symbol under the head and cell at the machine's time i. The
last output times `cls` is +1 where the machine has accepted, -1 where it has rejected, and 0 otherwise.

Sizes, with Z' = Z ∪ {boot} and W = O(log T) bits for cells and times: width |Z'|(1 + |A|) + 6|A| + 6W + 8, W + 11
layers (5W + 8 with the ripple adder), 1-norm O(|Z||A| + W(|Z| + |A| + W)). Weights are written straight to sparse
arrays. Of the modules beside this one, `layout` says where vectors keep what, `layers` writes the weights, `lookup` and
`running` run them, and `checks` compares a run with the interpreter's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from krogh.errors import require, require_integer, unknown
from krogh.networks.compiled import Compiled, Decision, ReadOut, Sizes, Subject, Work, labels_of, log_norm
from krogh.networks.handmade import Checked, handmade, sizes_of
from krogh.networks.machines.checks import Trials, check_machine, check_trials, last_output, trials_of
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
from krogh.networks.machines.layout import (
    MOST_BITS,
    Decoded,
    Layout,
    bits_needed,
    cells_needed,
    from_binary,
    from_one_hot,
)
from krogh.networks.machines.running import MachineRun, Method, machine_output, run_machine
from krogh.networks.margins.machines import certify_machine
from krogh.networks.relu import HIGH, LOW, SLOPE
from krogh.programs.machines.machine import Machine, Word
from krogh.theory.programs.margin import Output
from krogh.theory.programs.theorem import Certificate

Adder = Literal["look-ahead", "ripple"]
Kind = Literal["hard", "soft"]
ADDERS: dict[str, Callable[[Layout], list[Layer]]] = {"look-ahead": look_ahead, "ripple": ripple}

TABLES = ("next_state", "write", "move")
NAMED = ("name", "states", "alphabet", "start", "accept", "reject", "halting", "gaps", "tape", "default_input")
"""The fields of a machine: its tables, and what a file holds as text and numbers."""


@handmade("machine")
@dataclass(frozen=True, eq=False)
class CompiledMachine(Compiled):
    """A machine as weights: `parameters` by the names of `krogh.networks.machines.running`, matrices sparse.

    It runs for `steps` = T machine steps on words of at most `input_length` letters; cells and times have `bits` bits.
    `inverse_temperature` is None where attention is hard. `words` are checked besides all short ones.
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
    words: tuple[Word, ...] = ()

    @property
    def name(self) -> str:
        """The machine's."""
        return self.machine.name

    @property
    def statement(self) -> str:
        """What the network satisfies, in a sentence; nothing rounds away what soft attention leaks uncorrected."""
        if self.attention == "soft" and not self.correction:
            return (
                f"soft attention of inverse temperature {self.inverse_temperature:g} without correction: what leaks "
                f"adds up, so that the network is only near '{self.name}', for how long a check says"
            )
        return (
            f"the network has state, symbol and head of '{self.name}' at every time 0..{self.steps}, on words of at "
            f"most {self.input_length} letters, and puts out +1, -1 or 0 as it has accepted, rejected or neither; "
            f"{self.attention} attention, {'with' if self.correction else 'without'} correction"
        )

    @property
    def size(self) -> dict[str, float]:
        """Layers, width, parameters as full matrices, 1-norm; bits of positions, decoder steps, states and symbols."""
        return {
            "layers": self.depth,
            "width": self.width,
            **sizes_of(self.parameters),
            "position_bits": self.bits,
            "decoder_steps": self.decoder_steps,
            "states": len(self.machine.states),
            "symbols": len(self.machine.alphabet),
        }

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
        return sizes_of(self.parameters)["one_norm"]

    @functools.cached_property
    def parameter_count(self) -> int:
        """p, all entries of all parameters, zeros among them."""
        return int(sizes_of(self.parameters)["parameters"])

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
        state, symbol = (from_one_hot(vectors[..., self.layout[group]]) for group in ("st", "sym1"))
        return Decoded(state, symbol, cell)

    def run(self, words: Sequence[Word], /, *, steps: int | None = None, method: Method | None = None) -> MachineRun:
        """What the network does on words for all T steps, or for fewer."""
        return run_machine(self, words, steps=steps, method=method)

    @functools.cached_property
    def trials(self) -> Trials:
        """What it is tried on: `words`, and all short words."""
        return trials_of(self)

    def trying(self, words: Iterable[Word]) -> CompiledMachine:
        """The same network, checked on these words too, as far as it can read them."""
        fitting = (word for word in words if len(self.machine.encode(word)) <= self.input_length)
        return replace(self, words=(*self.words, *fitting))

    def check(self, words: Sequence[Word] | None = None, *, method: Method | None = None) -> Checked:
        """Compare with the interpreter at every step: on the `words` given, or on its own and all short ones."""
        return check_trials(self, method=method) if words is None else check_machine(self, words, method=method)

    def certificate(self, inputs: Any = None) -> Certificate:
        """For every word on which the machine decides within T steps."""
        return certify_machine(self)

    def subject(self, inputs: Any, output: int = 0) -> Subject:
        """The network for a list of words, each as (tokens [1, m], lengths [1])."""
        require_words(inputs)
        rows = tuple(self.tokens([word]) for word in inputs)
        return Subject(_one_output(self), self.dense_parameters(), rows, labels_of(self.run(inputs).output))

    def decisions(self) -> list[Decision]:
        """The first word that the machine accepts and the first that it rejects."""
        decisions: dict[int, Decision] = {}
        for run in self.trials.runs(self.steps):
            if run is not None and run.label is not None:
                decisions.setdefault(run.label, Decision([run.word], repr(self.machine.decode(run.word))))
            if len(decisions) == 2:
                break
        require(
            decisions,
            f"'{self.name}' accepts or rejects none of the words tried within {self.steps} steps, and a margin is that "
            "of a decision (give a word with --input, or more --steps)",
        )
        return list(decisions.values())

    def read_out(self, decision: Decision) -> ReadOut | None:
        """cls and the last output, after a run of the network that is held against the interpreter's at every step."""
        last = last_output(self, decision.inputs[0])
        return None if last is None else ReadOut(np.asarray(self.parameters["cls"]), last)

    @property
    def work(self) -> Work:
        """A pass for every decoder step."""
        return Work(self.depth, self.parameter_count, self.decoder_steps)

    def sizes(self, length: int | None = None) -> Sizes:
        """Those of the feedforward blocks over all decoder steps, and of the classifier."""
        weights = self.parameters
        step = log_norm(*(weights[f"L{place}.ff.W{k}"] for place in range(1, self.depth + 1) for k in (1, 2, 3)))
        product = self.decoder_steps * step + log_norm(weights["cls"])
        return Sizes(self.one_norm, self.parameter_count, self.width, self.depth, product)

    def recipe(self) -> dict[str, Any]:
        """The machine with its tables, and how it was compiled."""
        machine = {name: getattr(self.machine, name) for name in NAMED}
        machine |= {name: getattr(self.machine, name).tolist() for name in TABLES}
        options = {name: getattr(self, name) for name in ("steps", "input_length", "bits", "adder", "correction")}
        words = [self.machine.encode(word).tolist() for word in self.words]
        return {"machine": machine, **options, "inverse_temperature": self.inverse_temperature, "words": words}

    @classmethod
    def from_recipe(cls, recipe: Mapping[str, Any]) -> CompiledMachine:
        """The machine compiled again."""
        described = recipe["machine"]
        fields: dict[str, Any] = {
            name: tuple(described[name]) if isinstance(described[name], list) else described[name]
            for name in NAMED
            if name in described
        }
        fields |= {name: np.array(described[name], np.int64) for name in TABLES}
        machine = Machine(**fields)
        return compile_machine(
            machine,
            recipe["steps"],
            input_length=recipe["input_length"],
            adder=recipe["adder"],
            correction=recipe["correction"],
            attention="hard" if recipe["inverse_temperature"] is None else recipe["inverse_temperature"],
            position_bits=recipe["bits"],
            words=recipe["words"],
        )

    def with_parameters(self, parameters: Mapping[str, Any]) -> CompiledMachine:
        """The same network with other weights."""
        return replace(self, parameters=dict(parameters))


@functools.lru_cache(maxsize=16)
def _one_output(compiled: CompiledMachine) -> Output:
    return lambda parameters, x: machine_output(compiled, parameters, *x)[0]


def compile_machine(
    machine: Machine,
    steps: int,
    *,
    input_length: int | None = None,
    adder: Adder = "look-ahead",
    correction: bool = True,
    attention: Kind | float = "hard",
    position_bits: int | None = None,
    words: Sequence[Word] = (),
) -> CompiledMachine:
    """The transformer that runs `machine` for `steps` steps on every word of at most `input_length` letters.

    `input_length` is T + 1 unless given, or the longest of `words` if that is longer: the head sees no further. The
    `words` are checked besides short ones; whether T steps suffice for them is asked by `require_halts`. With
    `correction` every layer rounds its outputs; without, it returns them as they are, by matrices of the same shapes.
    Soft attention has the inverse temperature ln(3(n + 1)) for memories of n positions, or that of a number given as
    `attention`: what leaks then is less than n/(3(n + 1)) < 1/3, and is rounded away. Without correction it is not, so
    that a number must be given. `position_bits` asks for more bits than needed.
    """
    require_integer("steps", steps, 1)
    if adder not in ADDERS:
        raise unknown("adder", adder, ADDERS)
    if isinstance(attention, str) and attention not in get_args(Kind):
        raise unknown("attention", attention, get_args(Kind))
    require(
        correction or attention != "soft",
        "soft attention leaks, and without correction nothing rounds that away: take hard attention or the correction "
        "(leave out --soft or --no-correction), or give an inverse temperature yourself, as in attention=50.0",
    )
    require_words(words)
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
    inverse_temperature = None
    if attention != "hard":
        enough = math.log(3 * (max(steps + 1, input_length) + 1))
        inverse_temperature = enough if attention == "soft" else float(attention)
        require(inverse_temperature > 0, f"an inverse temperature must be positive; got attention={attention!r}")
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
        tuple(words),
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
