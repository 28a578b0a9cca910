"""Does the network do what the machine does? Checked at every step (sm-approximation, section 5, M7).

A run of the network is the only sequence of outputs o_1..o_T' with o_i = F(o_0, ..., o_{i-1}) for every i. So the
outputs that *should* come, written down from the interpreter's trace, can be fed to the network at all steps at once:
if what it returns at every step is what was fed to the next one, then by induction they are its run, and they are the
right ones. That takes one pass through the layers for all words and steps. Where it fails, the network runs step by
step, so that the steps where it differs can be counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from krogh.errors import KroghError, require_integer
from krogh.networks.machines.compiled import UNCLEAR, CompiledMachine, Decoded
from krogh.networks.machines.layers import Vector
from krogh.networks.machines.layout import binary
from krogh.networks.machines.lookup import MOST_WORDS, LookupNetwork, PastMemory
from krogh.networks.machines.running import MachineRun, Method, chosen, dense_steps, run_machine
from krogh.programs.machines.machine import Word
from krogh.programs.machines.running import Trace, trace

ROUNDING = 1e-9
"""What rounding in float64 may leave of 0, 1 and the output where soft attention leaks; vectors looked up are exact."""
MOST_COLUMNS = 2**15
"""Words times steps that are followed at once: some tens of megabytes of hidden vectors."""


@dataclass(frozen=True)
class MachineCheck:
    """What a check found.

    `mismatches` counts the times of all words at which state, symbol or cell differ from the interpreter's, and
    `first_mismatch` is the word and the time of the first; `binary` says whether all hidden entries are 0 or 1;
    `score_gap` is the least that the best score of any attention was above all others; `wrong_outputs` counts words
    whose output is not +1 (accepted), -1 (rejected) or 0 (neither). `steps` is T.
    """

    mismatches: int
    binary: bool
    score_gap: float
    words: int
    steps: int
    wrong_outputs: int
    first_mismatch: tuple[int, int] | None

    @property
    def holds(self) -> bool:
        """Whether the network ran the machine on all words."""
        return self.words > 0 and self.mismatches == 0 and self.wrong_outputs == 0


def check_machine(compiled: CompiledMachine, words: Sequence[Word], *, method: Method | None = None) -> MachineCheck:
    """Compare the network with the interpreter at every step on every word.

    Where attention is hard and the weights are those of a compiled machine, keys are looked up; other weights are run
    densely. The gap of 1 that weights guarantee to a run by lookup is attained at every boot step: cells 0 and 1
    differ in one bit.
    """
    compiled.tokens(words)
    wanted = [trace(compiled.machine, word, compiled.steps) for word in words]
    if chosen(compiled, method) == "lookup":
        try:
            return _checked_by_lookup(compiled, wanted)
        except KroghError:
            if method == "lookup":
                raise
    steps = dense_steps(compiled, words)
    outputs = np.asarray(steps.outputs)
    run = MachineRun(*compiled.decode(outputs), outputs[:, -1] @ np.asarray(compiled.parameters["cls"]))
    return _compared(compiled, run, wanted, binary=float(steps.deviation) <= ROUNDING, gap=float(steps.gap))


def _checked_by_lookup(compiled: CompiledMachine, wanted: Sequence[Trace]) -> MachineCheck:
    network = LookupNetwork(compiled)
    most = min(MOST_WORDS, max(1, MOST_COLUMNS // compiled.decoder_steps))
    confirmed = []
    for start in range(0, len(wanted), most):
        outputs = confirmed_outputs(network, wanted[start : start + most])
        if outputs is None:
            run = run_machine(compiled, [run.word for run in wanted], method="lookup")
            return _compared(compiled, run, wanted, binary=True, gap=network.gap)
        confirmed.append(outputs)
    read = Decoded(*(np.stack([getattr(run, name) for run in wanted]) for name in Decoded._fields))
    return _compared(compiled, MachineRun(*read, np.concatenate(confirmed)), wanted, binary=True, gap=network.gap)


def confirmed_outputs(network: LookupNetwork, runs: Sequence[Trace]) -> Vector | None:
    """cls·o_T' [words] if the network's runs are the interpreter's, in every coordinate at every step; else None."""
    compiled, times = network.compiled, network.compiled.decoder_steps
    wanted = expected_outputs(network, runs)
    if wanted is None:
        return None
    step = np.tile(np.arange(1, times + 1), len(runs))
    fed = np.roll(wanted, 1, axis=1)
    inputs = network.inputs(fed, step)
    inputs[:, step == 1] = network.inputs(None, step[step == 1])
    columns = np.repeat(np.arange(len(runs), dtype=np.int64), times)
    encoder = network.encoder_memories(*compiled.tokens([run.word for run in runs]), columns)
    decoder = network.decoder_memories(lambda rows: PastMemory(len(runs), times))
    *_, returned = network.advance(inputs, decoder, encoder)
    if not np.array_equal(returned, wanted):
        return None
    return np.asarray(compiled.parameters["cls"])[network.outputs] @ returned[:, step == times]


def expected_outputs(network: LookupNetwork, runs: Sequence[Trace]) -> Vector | None:
    """The outputs that the interpreter's runs call for: state, symbol and cell, and 0 elsewhere.

    [outputs, words · T'], on the network's own coordinates; None where these lack one that is called for.
    """
    layout = network.compiled.layout
    needed = np.concatenate([layout[group] for group in ("st", "sym1", "pos2")])
    if not np.isin(needed, network.outputs).all():
        return None
    place = {group: np.searchsorted(network.outputs, layout[group]) for group in ("st", "sym1", "pos2")}
    state, symbol, cell = (np.concatenate([getattr(run, name) for run in runs]) for name in Decoded._fields)
    outputs = np.zeros((len(network.outputs), len(state)))
    outputs[place["st"][state], np.arange(len(state))] = 1.0
    outputs[place["sym1"][symbol], np.arange(len(state))] = 1.0
    outputs[place["pos2"]] = binary(cell, layout.bits).T
    return outputs


def _compared(
    compiled: CompiledMachine, run: MachineRun, wanted: Sequence[Trace], *, binary: bool, gap: float
) -> MachineCheck:
    differ = np.zeros(run.state.shape, bool)
    for name in Decoded._fields:
        differ |= getattr(run, name) != np.stack([getattr(one, name) for one in wanted])
    decided = np.array([{1: 1.0, 0: -1.0, None: 0.0}[one.label] for one in wanted])
    wrong = int(np.sum(~(np.abs(run.output - decided) <= ROUNDING)))
    places = np.argwhere(differ)
    first = None if not len(places) else (int(places[0, 0]), int(places[0, 1]))
    return MachineCheck(int(differ.sum()), binary, gap, len(wanted), compiled.steps, wrong, first)


class TraceRow(NamedTuple):
    """One time of a run: the tape around the head, what interpreter and network have, and whether they agree."""

    time: int
    tape: str
    state: str
    symbol: str
    cell: int
    network_state: str
    network_symbol: str
    network_cell: int
    equal: bool


def side_by_side(
    compiled: CompiledMachine, word: Word, steps: int | None = None, *, window: int = 31, method: Method | None = None
) -> list[TraceRow]:
    """Interpreter and network step by step, up to `steps`: until the machine halts, or to the last of T steps.

    The tape shows at most `window` cells, the head's in brackets.
    """
    require_integer("window", window, 1)
    run = trace(compiled.machine, word, compiled.steps)
    if steps is None:
        steps = compiled.steps if run.halted_at is None else run.halted_at
    require_integer("steps", steps, 0, compiled.steps)
    network = run_machine(compiled, [word], steps=steps, method=method)
    states, symbols = (*compiled.machine.states, "boot"), compiled.machine.alphabet
    lowest = min(1, int(run.cell[: steps + 1].min()))
    highest = max(len(run.word), int(run.cell[: steps + 1].max()))
    rows = []
    for time in range(steps + 1):
        own = (int(run.state[time]), int(run.symbol[time]), int(run.cell[time]))
        other = (int(network.state[0, time]), int(network.symbol[0, time]), int(network.cell[0, time]))
        tape = _drawn(run, time, _visible(lowest, highest, own[2], window))
        named = (_name(states, other[0]), _name(symbols, other[1]), other[2])
        rows.append(TraceRow(time, tape, states[own[0]], symbols[own[1]], own[2], *named, own == other))
    return rows


def _visible(lowest: int, highest: int, head: int, window: int) -> range:
    """All cells where they fit in the window, else those around the head."""
    if highest - lowest < window:
        return range(lowest, highest + 1)
    first = min(max(lowest, head - window // 2), highest + 1 - window)
    return range(first, first + window)


def _drawn(run: Trace, time: int, cells: range) -> str:
    tape, head = run.tape_at(time), int(run.cell[time])
    known = dict(enumerate(tape.symbols.tolist(), start=tape.first))
    texts = ((cell, run.machine.alphabet[known.get(cell, 0)]) for cell in cells)
    return "".join(f"[{text}]" if cell == head else f" {text} " for cell, text in texts)


def _name(names: Sequence[str], number: int) -> str:
    return "?" if number == UNCLEAR else names[number]
