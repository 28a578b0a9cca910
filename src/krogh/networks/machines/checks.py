"""Does the network do what the machine does? Checked at every step (sm-approximation, section 5, M7).

A run of the network is the only sequence of outputs o_1..o_T' with o_i = F(o_0, ..., o_{i-1}) for every i. So the
outputs that *should* come, written down from the interpreter's trace, can be fed to the network at all steps at once:
if what it returns at every step is what was fed to the next one, then by induction they are its run, and they are the
right ones. That takes one pass through the layers for all words and steps. Where it fails, the network runs step by
step, so that the steps where it differs can be counted.

The interpreter follows each word once (`TrialRuns`); what is checked, counted and attacked is read off these runs.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from krogh.errors import KroghError, require, require_integer
from krogh.networks.handmade import Checked
from krogh.networks.machines.layers import Vector
from krogh.networks.machines.layout import UNCLEAR, Decoded, binary
from krogh.networks.machines.lookup import MOST_WORDS, LookupNetwork, PastMemory
from krogh.networks.machines.running import MachineRun, Method, chosen, dense_steps, run_machine
from krogh.programs.machines.machine import Word
from krogh.programs.machines.running import LeftTheTapeError, Trace, trace

if TYPE_CHECKING:
    from krogh.networks.machines.compiled import CompiledMachine

ROUNDING = 1e-9
"""What rounding in float64 may leave of 0, 1 and the output where soft attention leaks; vectors looked up are exact."""
MOST_COLUMNS = 2**15
"""Words times steps that are followed at once: some tens of megabytes of hidden vectors."""
MOST_LISTED = 200
"""Short words on which machines are tried."""
MOST_STEPS = 1 << 18
"""Words times steps that the network is tried on, where there are more words than the machine's own."""
SOFT_SHARE = 64
"""So many times fewer with soft attention, which is run densely."""


class TrialRuns(NamedTuple):
    """The interpreter's runs on the words that a network is tried on: its own, then all up to a length.

    `longest` is that length; `off_tape` counts words up to it on which the machine would leave its tape.
    """

    runs: tuple[Trace, ...]
    longest: int
    off_tape: int


def trial_runs(compiled: CompiledMachine) -> TrialRuns:
    """Run the interpreter on the network's own words, and on those up to the greatest length that are not too many."""
    machine, steps = compiled.machine, compiled.steps
    own = dict.fromkeys(tuple(machine.encode(word).tolist()) for word in compiled.words)
    work = MOST_STEPS // (SOFT_SHARE if compiled.attention == "soft" else 1)
    most = max(1, min(MOST_LISTED, work // compiled.decoder_steps))
    listed: list[tuple[int, ...]] = [()]
    level, longest = listed, 0
    while longest < compiled.input_length and len(listed) + len(level) * len(machine.input_symbols) <= most:
        level = [(*word, symbol) for word in level for symbol in machine.input_symbols]
        listed, longest = [*listed, *level], longest + 1
    runs, off_tape = [trace(machine, np.array(word, np.int32), steps) for word in own], 0
    for word in listed:
        if word not in own:
            try:
                runs.append(trace(machine, np.array(word, np.int32), steps))
            except LeftTheTapeError:
                off_tape += 1
    return TrialRuns(tuple(runs), longest, off_tape)


def check_trials(compiled: CompiledMachine, *, method: Method | None = None) -> Checked:
    """Compare the network with the interpreter at every step of its trial runs."""
    trials = compiled.trials
    name = compiled.machine.name
    require(trials.runs, f"'{name}' moves off the left end of its tape on all words tried; give one with --input")
    checked = check_runs(compiled, trials.runs, method=method)
    halted = sum(run.halted_at is not None for run in trials.runs)
    staying = f" but {trials.off_tape:,} on which it would leave its tape" if trials.off_tape else ""
    scope = (
        f"{checked.scope} (all words up to length {trials.longest}{staying}, the file's examples, those asked for; "
        f"{halted:,} halt)"
    )
    details = {"all_up_to_length": trials.longest, "left_out": trials.off_tape, "halted": halted, **checked.details}
    exhaustive = trials.longest >= compiled.input_length
    return dataclasses.replace(checked, exhaustive=exhaustive, scope=scope, details=details)


def check_machine(compiled: CompiledMachine, words: Sequence[Word], *, method: Method | None = None) -> Checked:
    """Compare the network with the interpreter at every step on every word."""
    compiled.tokens(words)
    return check_runs(compiled, [trace(compiled.machine, word, compiled.steps) for word in words], method=method)


def check_runs(compiled: CompiledMachine, runs: Sequence[Trace], *, method: Method | None = None) -> Checked:
    """Compare the network with the interpreter's runs at every step.

    Where attention is hard and the weights are those of a compiled machine, keys are looked up; other weights are run
    densely. The gap of 1 that weights guarantee to a run by lookup is attained at every boot step: cells 0 and 1
    differ in one bit. In the details, `mismatches` counts the times of all words at which state, symbol or cell differ
    from the interpreter's, and `first_mismatch` is the word and the time of the first; `binary` says whether all hidden
    entries are 0 or 1; `score_gap` is the least that the best score of any attention was above all others;
    `wrong_outputs` counts words whose output is not +1 (accepted), -1 (rejected) or 0 (neither).
    """
    if chosen(compiled, method) == "lookup":
        try:
            return _checked_by_lookup(compiled, runs)
        except KroghError:
            if method == "lookup":
                raise
    steps = dense_steps(compiled, [run.word for run in runs])
    outputs = np.asarray(steps.outputs)
    run = MachineRun(*compiled.decode(outputs), outputs[:, -1] @ np.asarray(compiled.parameters["cls"]))
    return _compared(compiled, run, runs, binary=float(steps.deviation) <= ROUNDING, gap=float(steps.gap))


def _checked_by_lookup(compiled: CompiledMachine, runs: Sequence[Trace]) -> Checked:
    network = LookupNetwork(compiled)
    most = min(MOST_WORDS, max(1, MOST_COLUMNS // compiled.decoder_steps))
    confirmed = []
    for start in range(0, len(runs), most):
        outputs = confirmed_outputs(network, runs[start : start + most])
        if outputs is None:
            run = run_machine(compiled, [run.word for run in runs], method="lookup")
            return _compared(compiled, run, runs, binary=True, gap=network.gap)
        confirmed.append(outputs)
    read = Decoded(*(np.stack([getattr(run, name) for run in runs]) for name in Decoded._fields))
    return _compared(compiled, MachineRun(*read, np.concatenate(confirmed)), runs, binary=True, gap=network.gap)


def confirmed_outputs(network: LookupNetwork, runs: Sequence[Trace]) -> Vector | None:
    """cls·o_T' [words] if the network's runs are the interpreter's, in every coordinate at every step; else None."""
    compiled, times = network.compiled, network.compiled.decoder_steps
    expected = expected_outputs(network, runs)
    if expected is None:
        return None
    step = np.tile(np.arange(1, times + 1), len(runs))
    fed = np.roll(expected, 1, axis=1)
    inputs = network.inputs(fed, step)
    inputs[:, step == 1] = network.inputs(None, step[step == 1])
    columns = np.repeat(np.arange(len(runs), dtype=np.int64), times)
    encoder = network.encoder_memories(*compiled.tokens([run.word for run in runs]), columns)
    decoder = network.decoder_memories(lambda rows: PastMemory(len(runs), times))
    returned = deque(network.advance(inputs, decoder, encoder), maxlen=1).pop()
    if not np.array_equal(returned, expected):
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
    compiled: CompiledMachine, run: MachineRun, runs: Sequence[Trace], *, binary: bool, gap: float
) -> Checked:
    differ = np.zeros(run.state.shape, bool)
    for name in Decoded._fields:
        differ |= getattr(run, name) != np.stack([getattr(one, name) for one in runs])
    decided = np.array([{1: 1.0, 0: -1.0, None: 0.0}[one.label] for one in runs])
    errors = np.abs(run.output - decided)
    mismatches, wrong = int(differ.sum()), int(np.sum(~(errors <= ROUNDING)))
    places = np.argwhere(differ)
    details = {
        "times": compiled.steps + 1,
        "mismatches": mismatches,
        "wrong_outputs": wrong,
        "score_gap": gap,
        "binary": binary,
        "first_mismatch": None if not len(places) else (int(places[0, 0]), int(places[0, 1])),
    }
    scope = (
        f"state, symbol and head at all {compiled.steps + 1:,} times on {len(runs):,} words, {mismatches:,} "
        f"differences, {wrong:,} wrong outputs, smallest score gap {gap:.6g}, hidden entries "
        f"{'' if binary else 'not '}all 0 or 1"
    )
    largest = float(np.nan_to_num(errors.max(initial=0.0), nan=np.inf))
    return Checked(len(runs) > 0 and not mismatches and not wrong, len(runs), False, largest, scope, details)


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
    compiled: CompiledMachine, run: Trace, steps: int | None = None, *, window: int = 31, method: Method | None = None
) -> list[TraceRow]:
    """The interpreter's run and the network's, up to `steps`: until the machine halts, or to the last of T steps.

    The tape shows at most `window` cells, the head's in brackets.
    """
    require_integer("window", window, 1)
    if steps is None:
        steps = compiled.steps if run.halted_at is None else run.halted_at
    require_integer("steps", steps, 0, compiled.steps)
    network = run_machine(compiled, [run.word], steps=steps, method=method)
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
