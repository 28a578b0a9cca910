"""What is measured of compiled machines: every step of many machines, and one machine in several arithmetics."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from krogh.experiments.approximation.machine_stepping import ARITHMETICS, stepped
from krogh.lab import setting
from krogh.tasks.machines import (
    Machine,
    Word,
    library_names,
    library_steps,
    load_machine,
    random_machine,
    short_words,
    trace_batch,
)
from krogh.theory.compilers.machine_checks import check_machine
from krogh.theory.compilers.machines import Kind, compile_machine

ATTENTIONS: tuple[Kind, ...] = ("hard", "soft")
SIZES = tuple(itertools.product((2, 3, 4, 5, 6), (2, 3, 4)))
"""States and symbols of random machines, in turn."""
RANDOM_LENGTH, LEAST_STEPS, RANDOM_STEPS = 3, 8, 100
"""Random machines run on words of up to so many letters, one for at least and none for more than so many steps."""


@dataclass(frozen=True)
class Settings:
    machines: tuple[str, ...] = setting((), "machines of the library; all where none is named")
    length: int = setting(6, "longest inputs of machines of the library")
    most_words: int = setting(2000, "inputs of one machine at most: those up to a shorter length where there are more")
    most_steps: int = setting(5000, "steps T at most: shorter inputs where a machine may take more")
    soft_words: int = setting(40, "inputs of one machine that are run with softmax attention, step by step")
    soft_steps: int = setting(800, "steps of those at most")
    random: int = setting(1000, "random machines")
    adders: tuple[str, ...] = setting(("look-ahead", "ripple"), "how the head's cell is computed")
    counters: tuple[int, ...] = setting(
        (1, 2, 3, 4, 5, 6, 7, 8, 9), "bits n of the counter, which takes T = 2^(n+2) − 1"
    )
    arithmetics: tuple[str, ...] = setting(ARITHMETICS, "arithmetics in which the counter is run")
    shown: str = setting("binary-addition", "machine of the library whose trace is drawn")
    shown_input: str = setting("101+11", "its input")


def machine_rows(settings: Settings) -> list[dict[str, Any]]:
    """A row for every machine, adder and kind of attention."""
    rows = []
    for kind, machine, words, steps, soft in itertools.chain(_from_library(settings), _at_random(settings)):
        for adder in settings.adders:
            rows.append({"kind": kind, **_hard_row(machine, adder, words, steps)})
            rows.append({"kind": kind, **_soft_row(machine, adder, *soft)})
    return rows


Case = tuple[str, Machine, list[Word], int, tuple[list[Word], int]]


def _from_library(settings: Settings) -> Iterator[Case]:
    for name in settings.machines or library_names():
        machine = load_machine(name)
        length, steps = _longest(machine, name, settings.length, settings.most_words, settings.most_steps)
        short, fewer = _longest(machine, name, length, settings.most_words, settings.soft_steps)
        some = _spread(short_words(machine, short), settings.soft_words)
        yield "library", machine, list(short_words(machine, length)), steps, (some, fewer)


def _longest(machine: Machine, name: str, length: int, most_words: int, most_steps: int) -> tuple[int, int]:
    """The largest length, up to the one asked for, with few enough words and steps; and the steps T it takes."""
    letters = len(machine.input_symbols)
    while length > 0:
        count = sum(letters**size for size in range(length + 1))
        if count <= most_words and _steps(name, length) <= most_steps:
            break
        length -= 1
    return length, _steps(name, length)


def _steps(name: str, length: int) -> int:
    return max(library_steps(name, size) for size in range(length + 1))


def _spread(words: Sequence[Word], most: int) -> list[Word]:
    """At most so many of the words, evenly spaced, the last among them."""
    places = np.unique(np.linspace(0, len(words) - 1, min(most, len(words))).round().astype(int))
    return [words[place] for place in places]


def _at_random(settings: Settings) -> Iterator[Case]:
    for seed in range(settings.random):
        states, symbols = SIZES[seed % len(SIZES)]
        tape = "one-way" if seed % 2 else "two-way"
        machine = random_machine(
            states, symbols, seed, tape=tape, length=RANDOM_LENGTH, steps=RANDOM_STEPS, least_steps=LEAST_STEPS
        )
        words: list[Word] = list(short_words(machine, RANDOM_LENGTH))
        steps = int(trace_batch(machine, words, RANDOM_STEPS).halted_at.max())
        yield "random", machine, words, steps, (_spread(words, settings.soft_words), steps)


def _hard_row(machine: Machine, adder: Any, words: list[Word], steps: int) -> dict[str, Any]:
    """By lookup of exact matches, which is what hard attention does where vectors are bits."""
    compiled = compile_machine(machine, steps, input_length=max(map(len, words)), adder=adder)
    found = check_machine(compiled, words)
    return _named(compiled, "hard", len(words)) | {
        "mismatches": found.mismatches,
        "wrong_outputs": found.wrong_outputs,
        "deviation": 0.0 if found.binary else np.nan,
        "gap": found.score_gap,
    }


def _soft_row(machine: Machine, adder: Any, words: list[Word], steps: int) -> dict[str, Any]:
    """Every score and every weight computed, in float64."""
    longest = max(map(len, words))
    compiled = compile_machine(machine, steps, input_length=longest, adder=adder, attention="soft")
    found = stepped(compiled, words)
    return _named(compiled, "soft", len(words)) | {
        "mismatches": int(found.wrong.sum()),
        "wrong_outputs": int(np.sum(np.abs(found.output - found.wanted) > 1e-6)),
        "deviation": float(found.deviation.max()),
        "gap": float(found.gap.min()),
    }


def _named(compiled: Any, attention: str, words: int) -> dict[str, Any]:
    machine = compiled.machine
    return {
        "machine": machine.name,
        "states": len(machine.states),
        "symbols": len(machine.alphabet),
        "tape": machine.tape,
        "adder": compiled.adder,
        "attention": attention,
        "words": words,
        "steps": compiled.steps,
        "compared": words * (compiled.steps + 1),
        "width": compiled.width,
        "layers": compiled.depth,
    }


def precision_rows(settings: Settings) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The counter in every arithmetic, a row per run; and how errors grow along the longest run, a row per time."""
    machine, rows, growth = load_machine("counter"), [], []
    for bits in settings.counters:
        steps, word = 2 ** (bits + 2) - 1, "#" + "0" * bits
        for attention, correction in itertools.product(ATTENTIONS, (True, False)):
            compiled = compile_machine(
                machine,
                steps,
                input_length=bits + 1,
                attention=attention,
                correction=correction,
            )
            for arithmetic in settings.arithmetics:
                found = stepped(compiled, [word], arithmetic)
                run = {"bits": bits, "steps": steps, "attention": attention, "correction": correction}
                run["arithmetic"] = arithmetic
                wrong = found.wrong[0]
                rows.append(
                    run
                    | {
                        "mismatches": int(wrong.sum()),
                        "first": int(wrong.argmax()) if wrong.any() else None,
                        "deviation": float(found.deviation.max()),
                        "output_error": float(np.abs(found.output - found.wanted)[0]),
                    }
                )
                if bits == settings.counters[-1]:
                    growth += [
                        run | {"time": time, "deviation": float(far), "wrong": bool(bad)}
                        for time, (far, bad) in enumerate(zip(found.deviation, wrong, strict=True))
                    ]
    return rows, growth
