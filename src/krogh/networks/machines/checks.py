"""Does the network do what the machine does? Checked at every step (sm-approximation, section 5, M7).

A run of the network is the only sequence of outputs o_1..o_T' with o_i = F(o_0, ..., o_{i-1}) for every i. So the
outputs that *should* come, written down from the interpreter's trace, can be fed to the network at many steps at once:
if what it returns at every step is what was fed to the next one, then by induction they are its run, and they are the
right ones. That takes one pass through the layers for many words and steps. Where it fails, the network runs step by
step, so that the steps where it differs can be counted.

Memory does not grow with words, states or symbols, and with T only by what attention must remember: words and steps go
through the layers in batches of `MOST_ENTRIES` entries, and runs are followed when they are needed. What would take
more than `budgets.CHECK` or `MOST_WORK` is known before; then the first steps of the runs are checked, and the scope
says how many. The dense network, which soft attention needs, is refused where it does not fit.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from krogh.errors import KroghError, require, require_integer
from krogh.networks.handmade import Checked
from krogh.networks.machines.layers import Vector
from krogh.networks.machines.layout import UNCLEAR, Decoded, binary
from krogh.networks.machines.lookup import MOST_WORDS, LookupNetwork, PastMemory
from krogh.networks.machines.running import MachineRun, Method, chosen, dense_bytes, dense_steps, run_machine
from krogh.programs import budgets
from krogh.programs.machines.machine import Machine, Word
from krogh.programs.machines.running import LeftTheTapeError, Trace, trace

if TYPE_CHECKING:
    from krogh.networks.machines.compiled import CompiledMachine

ROUNDING = 1e-9
"""What rounding in float64 may leave of 0, 1 and the output where soft attention leaks; vectors looked up are exact."""
MOST_ENTRIES = 1 << 19
"""Entries of the hidden vectors that are followed at once: 4 MB, which a processor's cache holds."""
MOST_WORK = 15 * 10**9
"""Weights times steps of a check: some twenty seconds on a free core."""
MOST_FOLLOWED = 1 << 15
"""Steps that a network which is wrong is followed one by one; of longer runs the first difference is told."""
MOST_LISTED = 200
"""Short words on which machines are tried."""
MOST_STEPS = 1 << 18
"""Words times steps that the network is tried on, where there are more words than the machine's own."""
SOFT_SHARE = 64
"""So many times fewer with soft attention, which is run densely."""
TRACE_BYTES = 12
"""Of a step in a trace: three numbers."""


class Trials(NamedTuple):
    """The words that a network is tried on: its own, then all up to the length `longest` over `symbols`."""

    machine: Machine
    own: tuple[tuple[int, ...], ...]
    listed: tuple[tuple[int, ...], ...]
    longest: int
    symbols: tuple[int, ...]

    def runs(self, steps: int) -> Iterator[Trace | None]:
        """What the interpreter does on each of them; None where a listed word makes the machine leave its tape."""
        for word in self.own:
            yield trace(self.machine, np.array(word, np.int32), steps)
        for word in self.listed:
            try:
                yield trace(self.machine, np.array(word, np.int32), steps)
            except LeftTheTapeError:
                yield None


def trials_of(compiled: CompiledMachine) -> Trials:
    """The network's own words, and those up to the greatest length that are not too many.

    These are made of all symbols of the machine but the blank, and of the blank too where its own input has it.
    """
    machine = compiled.machine
    own = dict.fromkeys(tuple(machine.encode(word).tolist()) for word in compiled.words)
    inner = 0 in machine.encode(machine.default_input or "")
    symbols = tuple(range(0 if inner else 1, len(machine.alphabet)))
    work = MOST_STEPS // (SOFT_SHARE if compiled.attention == "soft" else 1)
    work = min(work, MOST_WORK // max(1, int(compiled.size["nonzeros"])))
    most = max(1, min(MOST_LISTED, work // compiled.decoder_steps))
    listed: list[tuple[int, ...]] = [()]
    level, longest = listed, 0
    while longest < compiled.input_length and len(listed) + len(level) * len(symbols) <= most:
        level = [(*word, symbol) for word in level for symbol in symbols]
        listed, longest = [*listed, *level], longest + 1
    return Trials(machine, tuple(own), tuple(word for word in listed if word not in own), longest, symbols)


def check_trials(compiled: CompiledMachine, *, method: Method | None = None) -> Checked:
    """Compare the network with the interpreter at every step of its trial runs."""
    trials, seen = compiled.trials, _Seen()
    words = len(trials.own) + len(trials.listed)
    checked = _checked(compiled, lambda steps: seen.all_of(trials.runs(steps)), words, method)
    name = compiled.machine.name
    require(checked.inputs, f"'{name}' moves off the left end of its tape on all words tried; give one with --input")
    staying = f" but {seen.off_tape:,} on which it would leave its tape" if seen.off_tape else ""
    named = [compiled.machine.alphabet[symbol] for symbol in trials.symbols]
    over = f" over {{{', '.join(map(_visible_symbol, named))}}}" if named else ""
    whole = checked.details["times"] == compiled.decoder_steps
    needs = (
        f"need more than T = {compiled.steps:,} steps" if whole else "do not halt within the steps that were followed"
    )
    late = f", {seen.late:,} {needs}, as {seen.first_late!r}" if seen.late else ""
    scope = (
        f"{checked.scope} (all words up to length {trials.longest}{over}{staying}, the file's examples, those asked "
        f"for; {seen.halted:,} halt{late})"
    )
    details = {
        "all_up_to_length": trials.longest,
        "over": named,
        "left_out": seen.off_tape,
        "halted": seen.halted,
        "not_halted": seen.late,
        "not_halted_first": seen.first_late,
        **checked.details,
    }
    exhaustive = whole and trials.longest >= compiled.input_length
    return dataclasses.replace(checked, exhaustive=exhaustive, scope=scope, details=details)


@dataclasses.dataclass
class _Seen:
    """What is counted of runs while they go by."""

    halted: int = 0
    late: int = 0
    first_late: str | None = None
    off_tape: int = 0

    def all_of(self, runs: Iterable[Trace | None]) -> Iterator[Trace]:
        """The runs, counted from the beginning; those that left the tape are left out."""
        self.halted = self.late = self.off_tape = 0
        for run in runs:
            if run is None:
                self.off_tape += 1
                continue
            self.halted += run.halted_at is not None
            if run.halted_at is None:
                self.late += 1
                if self.first_late is None:
                    self.first_late = run.machine.decode(run.word)
            yield run


def check_machine(compiled: CompiledMachine, words: Sequence[Word], *, method: Method | None = None) -> Checked:
    """Compare the network with the interpreter at every step on every word.

    Where attention is hard and the weights are those of a compiled machine, keys are looked up; other weights are run
    densely. The gap of 1 that weights guarantee to a run by lookup is attained at every boot step: cells 0 and 1
    differ in one bit. In the details, `mismatches` counts the times of all words at which state, symbol or cell differ
    from the interpreter's, and `first_mismatch` is the word and the time of the first; `binary` says whether all hidden
    entries are 0 or 1; `score_gap` is the least that the best score of any attention was above all others;
    `wrong_outputs` counts words whose output is not +1 (accepted), -1 (rejected) or 0 (neither).
    """
    compiled.tokens(words)
    return _checked(
        compiled, lambda steps: (trace(compiled.machine, word, steps) for word in words), len(words), method
    )


Runs = Callable[[int], Iterable[Trace]]
"""The interpreter's runs of so many steps, from the first word on."""


def _checked(compiled: CompiledMachine, runs: Runs, words: int, method: Method | None) -> Checked:
    if chosen(compiled, method) == "lookup":
        try:
            return _checked_by_lookup(compiled, runs, words)
        except LeftTheTapeError:
            raise
        except KroghError:
            if method == "lookup":
                raise
    return _checked_densely(compiled, runs)


def _checked_densely(compiled: CompiledMachine, runs: Runs) -> Checked:
    fixed, each = dense_bytes(compiled)
    who = f"the dense network of '{compiled.machine.name}' with T = {compiled.steps:,}"
    budgets.CHECK.check(fixed + each, who, "take hard attention, fewer states or fewer steps")
    tally, gap, deviation = Tally(compiled, compiled.decoder_steps), np.inf, 0.0
    for some in _batches(runs(compiled.steps), max(1, (budgets.CHECK.most - fixed) // each)):
        steps = dense_steps(compiled, [run.word for run in some])
        outputs = np.asarray(steps.outputs)
        gap, deviation = min(gap, float(steps.gap)), max(deviation, float(steps.deviation))
        decoded = compiled.decode(outputs)
        tally.compare(MachineRun(*decoded, outputs[:, -1] @ np.asarray(compiled.parameters["cls"])), some)
    return tally.checked(binary=deviation <= ROUNDING, gap=gap)


def _checked_by_lookup(compiled: CompiledMachine, runs: Runs, words: int) -> Checked:
    network = LookupNetwork(compiled)
    times = times_checked(network, words)
    tally = Tally(compiled, times)
    columns = max(1, MOST_ENTRIES // network.widest)
    for some in _batches(runs(times - 1), max(1, min(MOST_WORDS, columns // times))):
        found = confirmed_outputs(network, some, times, columns)
        if not isinstance(found, Difference):
            tally.confirm(found, some)
        elif times <= MOST_FOLLOWED:
            tally.compare(run_machine(compiled, [run.word for run in some], steps=times - 1, method="lookup"), some)
        else:
            tally.differ(found, some)
    return tally.checked(binary=True, gap=network.gap)


def times_checked(network: LookupNetwork, words: int) -> int:
    """How many of the T' times are checked: all that memory and work allow for so many words."""
    wanted = network.compiled.decoder_steps
    by_memory = budgets.CHECK.most // (network.remembered + TRACE_BYTES)
    return min(wanted, by_memory, max(1, MOST_WORK // max(1, network.entries * words)))


def _batches(runs: Iterable[Trace], most: int) -> Iterator[list[Trace]]:
    left = iter(runs)
    while some := list(itertools.islice(left, most)):
        yield some


class Difference(NamedTuple):
    """Which of some words differs first, and when."""

    word: int
    time: int


def confirmed_outputs(
    network: LookupNetwork, runs: Sequence[Trace], times: int | None = None, columns: int = MOST_ENTRIES
) -> Vector | Difference:
    """cls·o [words] after the last of `times` if the network's runs are the interpreter's, in every coordinate.

    Otherwise the first difference. At most `columns` vectors go through the layers at once.
    """
    compiled = network.compiled
    times = compiled.decoder_steps if times is None else times
    if not expressible(network):
        return Difference(0, 0)
    size = max(1, columns // len(runs))
    looks = -(-times // size)
    encoder = network.encoder_memories(*compiled.tokens([run.word for run in runs]), np.zeros(0, np.int64))
    decoder = network.decoder_memories(lambda rows: PastMemory(len(runs), rows, looks))
    returned = np.zeros((len(network.outputs), 0))
    for begin in range(0, times, size):
        end = min(begin + size, times)
        step = np.tile(np.arange(begin + 1, end + 1), len(runs))
        inputs = network.inputs(expected_outputs(network, runs, begin - 1, end - 1), step)
        inputs[:, step == 1] = network.inputs(None, step[step == 1])
        word = np.repeat(np.arange(len(runs), dtype=np.int64), end - begin)
        given = [None if memory is None else memory.seen_by(word) for memory in encoder]
        returned = deque(network.advance(inputs, decoder, given), maxlen=1).pop()
        wrong = (returned != expected_outputs(network, runs, begin, end)).any(axis=0)
        if wrong.any():
            place = int(np.argmax(wrong))
            return Difference(place // (end - begin), begin + place % (end - begin))
        returned = returned[:, step == end]
    return np.asarray(compiled.parameters["cls"])[network.outputs] @ returned


def last_output(compiled: CompiledMachine, word: Word) -> Vector | None:
    """o_T' [w] on a word; None if it is not the interpreter's, or if a run of all steps takes more than a check may."""
    network = LookupNetwork(compiled)
    if times_checked(network, 1) < compiled.decoder_steps:
        return None
    run = trace(compiled.machine, word, compiled.steps)
    if isinstance(confirmed_outputs(network, [run]), Difference):
        return None
    output = np.zeros(compiled.width)
    output[network.outputs] = expected_outputs(network, [run], compiled.steps, compiled.decoder_steps)[:, 0]
    return output


def expressible(network: LookupNetwork) -> bool:
    """Whether the network's outputs have all coordinates of state, symbol and cell."""
    layout = network.compiled.layout
    return bool(np.isin(np.concatenate([layout[g] for g in ("st", "sym1", "pos2")]), network.outputs).all())


def expected_outputs(network: LookupNetwork, runs: Sequence[Trace], begin: int, end: int) -> Vector:
    """The outputs that the interpreter's runs call for: state, symbol and cell, and 0 elsewhere.

    [outputs, words · (end - begin)], on the network's own coordinates; at times before 0 those of time 0.
    """
    layout = network.compiled.layout
    place = {group: np.searchsorted(network.outputs, layout[group]) for group in ("st", "sym1", "pos2")}
    times = np.maximum(np.arange(begin, end), 0)
    state, symbol, cell = (np.concatenate([getattr(run, name)[times] for run in runs]) for name in Decoded._fields)
    outputs = np.zeros((len(network.outputs), len(state)))
    outputs[place["st"][state], np.arange(len(state))] = 1.0
    outputs[place["sym1"][symbol], np.arange(len(state))] = 1.0
    outputs[place["pos2"]] = binary(cell, layout.bits).T
    return outputs


class Tally:
    """What a check has found so far, at the first `times` of T' times."""

    def __init__(self, compiled: CompiledMachine, times: int) -> None:
        self.compiled, self.times = compiled, times
        self.words = self.mismatches = self.wrong = self.unfollowed = 0
        self.first: tuple[int, int] | None = None
        self.largest = 0.0

    def compare(self, run: MachineRun, runs: Sequence[Trace]) -> None:
        """Count the times at which what the network did is not what the interpreter did."""
        differ = np.zeros(run.state.shape, bool)
        for name in Decoded._fields:
            differ |= getattr(run, name) != np.stack([getattr(one, name) for one in runs])
        self.mismatches += int(differ.sum())
        places = np.argwhere(differ)
        if self.first is None and len(places):
            self.first = self.words + int(places[0, 0]), int(places[0, 1])
        self.confirm(run.output, runs)

    def differ(self, found: Difference, runs: Sequence[Trace]) -> None:
        """Count one difference of some words that are not followed any further."""
        self.mismatches += 1
        self.unfollowed += len(runs)
        self.first = self.first or (self.words + found.word, found.time)
        self.words += len(runs)

    def confirm(self, outputs: Vector, runs: Sequence[Trace]) -> None:
        """Count the wrong outputs, where they are those of the last time."""
        self.words += len(runs)
        if self.times == self.compiled.decoder_steps:
            decided = np.array([{1: 1.0, 0: -1.0, None: 0.0}[one.label] for one in runs])
            errors = np.abs(outputs - decided)
            self.wrong += int(np.sum(~(errors <= ROUNDING)))
            self.largest = max(self.largest, float(np.nan_to_num(errors.max(initial=0.0), nan=np.inf)))

    def checked(self, *, binary: bool, gap: float) -> Checked:
        """The result."""
        wanted = self.compiled.decoder_steps
        details = {
            "times": self.times,
            "mismatches": self.mismatches,
            "wrong_outputs": self.wrong,
            "score_gap": gap,
            "binary": binary,
            "first_mismatch": self.first,
        }
        at = f"all {wanted:,} times" if self.times == wanted else f"the first {self.times:,} of {wanted:,} times"
        least = f" or more ({self.unfollowed:,} words were not followed on)" if self.unfollowed else ""
        scope = (
            f"state, symbol and head at {at} on {self.words:,} words, {self.mismatches:,} differences{least}, "
            f"{self.wrong:,} wrong outputs, smallest score gap {gap:.6g}, hidden entries "
            f"{'' if binary else 'not '}all 0 or 1"
        )
        holds = self.words > 0 and not self.mismatches and not self.wrong
        return Checked(holds, self.words, False, self.largest, scope, details)


def _visible_symbol(symbol: str) -> str:
    return symbol if symbol.isprintable() and symbol.strip() else repr(symbol)


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

    The tape shows at most `window` cells, the head's in brackets, with an ellipsis where it goes on.
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
        tape = _drawn(run, time, range(lowest, highest + 1), window)
        named = (_name(states, other[0]), _name(symbols, other[1]), other[2])
        rows.append(TraceRow(time, tape, states[own[0]], symbols[own[1]], own[2], *named, own == other))
    return rows


def _drawn(run: Trace, time: int, cells: range, window: int) -> str:
    """The cells around the head; all where they fit in the window."""
    tape, head = run.tape_at(time), int(run.cell[time])
    first = cells[0] if len(cells) <= window else min(max(cells[0], head - window // 2), cells[-1] + 1 - window)
    shown = range(first, min(first + window, cells[-1] + 1))
    letters = run.machine.decode
    texts = [letters([number]) for number in tape.window(shown[0], shown[-1])]
    line = "".join(f"[{text}]" if cell == head else f" {text} " for cell, text in zip(shown, texts, strict=True))
    if len(cells) <= window:
        return line
    return f"{'…' if shown[0] > cells[0] else ' '}{line}{'…' if shown[-1] < cells[-1] else ' '}"


def _name(names: Sequence[str], number: int) -> str:
    return "?" if number == UNCLEAR else names[number]
