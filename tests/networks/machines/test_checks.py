"""Checking networks against the interpreter: that right ones pass, that wrong ones fail, and by how much."""

from __future__ import annotations

import dataclasses
import itertools
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.machines import checks
from krogh.networks.machines.checks import Difference, check_machine, confirmed_outputs, side_by_side
from krogh.networks.machines.compiled import compile_machine
from krogh.networks.machines.lookup import LookupNetwork
from krogh.networks.machines.running import run_machine, run_transformer
from krogh.programs.machines.files import parse_machine
from krogh.programs.machines.library import library, library_steps, load_machine
from krogh.programs.machines.running import trace
from krogh.programs.machines.sampling import random_machine, short_words

QUICK = {"xla_backend_optimization_level": 0}
quick_steps = jax.jit(run_transformer, static_argnames=("steps", "hidden"), compiler_options=QUICK)
INSTANCES = [("parity", 14), ("palindrome", 40), ("powers-of-two", 70)]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Compile the dense program quickly: it runs for a few steps only."""
    monkeypatch.setattr("krogh.networks.machines.running._compiled_steps", quick_steps)


@pytest.mark.parametrize("adder", ["look-ahead", "ripple"])
@pytest.mark.parametrize(("name", "steps"), INSTANCES)
def test_reference_instances_on_all_words_up_to_six_letters(name, steps, adder):
    machine = load_machine(name)
    words = short_words(machine, 6)
    check = check_machine(compile_machine(machine, steps, adder=adder), words)
    assert check.holds and check.details["mismatches"] == check.details["wrong_outputs"] == check.largest_error == 0
    assert check.details["first_mismatch"] is None
    assert check.details["binary"] and check.details["score_gap"] == 1.0
    assert (check.inputs, check.details["times"]) == (len(words), steps + 1)


def test_the_counter_up_to_five_bits():
    words = ["#" + "0" * n for n in range(6)]
    machine = load_machine("counter")
    assert [trace(machine, word, 150).halted_at for word in words] == [2 ** (n + 2) - 1 for n in range(6)]
    for correction in (True, False):
        check = check_machine(compile_machine(machine, 150, correction=correction), words)
        assert check.holds and check.details["score_gap"] == 1.0


def test_every_machine_of_the_library():
    for name, machine in library().items():
        words = short_words(machine, 2)[:12]
        steps = max(1, min(library_steps(name, 2), 120))
        assert check_machine(compile_machine(machine, steps), words).holds, name


@pytest.mark.parametrize("tape", ["one-way", "two-way"])
def test_random_machines(tape):
    for seed in range(20):
        machine = random_machine(2 + seed % 4, 2 + seed % 3, seed, tape=tape)
        check = check_machine(compile_machine(machine, 30), short_words(machine, 2))
        assert check.holds and check.details["binary"], seed


def wrong_transition(compiled):
    """The first state goes on to itself where the machine would leave it: still exact matches, still binary."""
    weight = compiled.parameters["L2.ff.W1"].copy().tolil()
    pair, states = compiled.layout["pair"], compiled.layout["st"]
    symbols = len(compiled.machine.alphabet)
    column = pair[symbols - 1]
    weight[states, column] = 0
    weight[states[0], column] = 1
    return dataclasses.replace(compiled, parameters=compiled.parameters | {"L2.ff.W1": weight.tocsr()})


def test_a_wrong_network_is_found_and_its_wrong_steps_are_counted():
    compiled = wrong_transition(compile_machine(load_machine("parity"), 6))
    words = ["00", "010", "1"]
    check = check_machine(compiled, words)
    run = run_machine(compiled, words)
    differ = np.zeros((3, 7), int)
    for place, word in enumerate(words):
        wanted = trace(compiled.machine, word, 6)
        for mine, theirs in zip(run[:3], (wanted.state, wanted.symbol, wanted.cell), strict=True):
            differ[place] |= mine[place] != theirs
    assert check.details["mismatches"] == differ.sum() > 0 and not check.holds
    assert check.details["first_mismatch"] == tuple(np.argwhere(differ)[0]) == (1, 2)
    assert check.details["wrong_outputs"] == 2 and check.details["binary"] and check.details["score_gap"] == 1.0


def test_one_pass_confirms_a_run_and_refutes_any_other():
    """Each entry of each trace is changed in turn: no sequence but the run itself is confirmed."""
    compiled = compile_machine(load_machine("palindrome"), 8)
    network, runs = LookupNetwork(compiled), [trace(compiled.machine, word, 8) for word in ("01", "", "11")]
    for columns in (27, 9, 4, 1):
        np.testing.assert_array_equal(confirmed_outputs(network, runs, columns=columns), [-1.0, 1.0, 1.0])
    random = np.random.default_rng(0)
    for name, count in (("state", 8), ("symbol", 3), ("cell", 9)):
        for place, time in np.ndindex(3, 9):
            values = getattr(runs[place], name).copy()
            values[time] = (values[time] + random.integers(1, count)) % count
            other = [*runs[:place], dataclasses.replace(runs[place], **{name: values}), *runs[place + 1 :]]
            for columns in (27, 9, 4, 1):  # all at once, or some steps at a time
                assert isinstance(confirmed_outputs(network, other, columns=columns), Difference)
    assert isinstance(confirmed_outputs(LookupNetwork(wrong_transition(compiled)), runs), Difference)


def test_a_wrong_classifier_is_found():
    compiled = compile_machine(load_machine("parity"), 4)
    turned = dataclasses.replace(compiled, parameters=compiled.parameters | {"cls": -compiled.parameters["cls"]})
    check = check_machine(turned, ["1", "11", "111111"[:5]])
    assert check.details["mismatches"] == 0 and check.details["wrong_outputs"] == 2 and not check.holds


@pytest.mark.slow
def test_weights_that_cannot_be_looked_up_are_run_densely():
    """Soft attention at the default temperature stays binary; at a low one it leaks."""
    machine, words = load_machine("parity"), ["1", "110"]
    soft = compile_machine(machine, 5, attention="soft")
    check = check_machine(soft, words)
    assert check.holds and check.details["binary"] and check.details["score_gap"] == 1.0
    leaking = check_machine(dataclasses.replace(soft, inverse_temperature=0.1), words)
    assert leaking.details["mismatches"] > 0 and not leaking.holds
    hard = compile_machine(machine, 5)
    null_key = hard.parameters["L6.dec.K0"] - 0.5 * (hard.parameters["L6.dec.K0"] > 0)
    looser = dataclasses.replace(hard, parameters=hard.parameters | {"L6.dec.K0": null_key})
    check = check_machine(looser, words)
    assert check.holds and check.details["score_gap"] == 0.5
    with pytest.raises(KroghError, match="no attention that only exact matches win"):
        check_machine(looser, words, method="lookup")


def test_side_by_side():
    compiled = compile_machine(load_machine("palindrome"), 25)
    rows = side_by_side(compiled, trace(compiled.machine, "010", compiled.steps))
    wanted = trace(compiled.machine, "010", 25)
    assert [row.time for row in rows] == list(range(wanted.halted_at + 1)) and all(row.equal for row in rows)
    assert rows[0].tape == "[0] 1  0  _ " and rows[0].state == rows[0].network_state == "q0"
    assert [row.tape for row in rows[1:4]] == [" _ [1] 0  _ ", " _  1 [0] _ ", " _  1  0 [_]"]
    for row in rows:
        assert row.cell == row.network_cell == wanted.cell[row.time]
        assert row.symbol == row.network_symbol == row.tape.split("[")[1].split("]")[0]
    assert rows[-1].state == "accept"
    narrow = side_by_side(compiled, trace(compiled.machine, "010", compiled.steps), 6, window=3)
    assert len(narrow) == 7 and all(len(row.tape) == 11 and "[" in row.tape for row in narrow)
    assert (narrow[0].tape, narrow[2].tape, narrow[3].tape) == (" [0] 1  0 …", "… 1 [0] _  ", "… 1  0 [_] ")
    with pytest.raises(KroghError, match="steps must be an integer between 0 and 25; got steps=26"):
        side_by_side(compiled, trace(compiled.machine, "010", compiled.steps), 26)


def test_side_by_side_says_where_a_network_goes_wrong():
    compiled = wrong_transition(compile_machine(load_machine("parity"), 4))
    rows = side_by_side(compiled, trace(compiled.machine, "01", 4))
    assert [row.equal for row in rows] == [True, True, False, False]
    assert (rows[2].state, rows[2].network_state) == ("odd", "even")


def test_words_are_tried_over_all_symbols_and_late_ones_are_told():
    """An input of ones only, in a machine that knows zeros and a mark: all of them are tried."""
    text = "input: '11'\nblank: ' '\nstart state: a\ntable:\n  a: {[0, 1]: R, x: {L: b}, ' ': {R: end}}\n"
    machine = parse_machine(text + "  b: {[0, 1, ' ']: {R: a}}\n  end:\n")
    check = compile_machine(machine, 4).check()
    assert check.details["over"] == ["0", "1", "x"] and "all words up to length 4 over {0, 1, x}" in check.scope
    runs = [trace(machine, word, 4) for word in itertools.product("01x", repeat=4)]
    late = [run for run in runs if run.halted_at is None]
    assert check.details["not_halted"] >= len(late) > 0 and check.details["not_halted_first"] == "x"
    assert "need more than T = 4 steps, as 'x'" in check.scope and check.holds
    inner = parse_machine(text.replace("'11'", "'1 1'") + "  b: {[0, 1, ' ']: {R: a}}\n  end:\n")
    assert compile_machine(inner, 3).check().details["over"] == [" ", "0", "1", "x"], "a blank in the input is one too"


def test_a_check_too_large_is_of_the_first_steps_and_says_so(monkeypatch):
    compiled = compile_machine(load_machine("busy-beaver-4"), 100)
    assert "at all 101 times" in compiled.check([""]).scope
    monkeypatch.setattr(checks, "MOST_WORK", 40 * LookupNetwork(compiled).entries)
    check = compiled.check([""])
    assert check.holds and check.details["times"] == 40 and "at the first 40 of 101 times on 1 words" in check.scope
    monkeypatch.setattr(checks.budgets, "CHECK", checks.budgets.CHECK._replace(most=1_000_000))
    with pytest.raises(KroghError, match=r"the dense network of 'parity' with T = 50 has .* bytes of memory; at most"):
        compile_machine(load_machine("parity"), 50, attention="soft").check(["1"])


def test_a_long_run_that_goes_wrong_is_told_by_its_first_difference(monkeypatch):
    compiled = wrong_transition(compile_machine(load_machine("parity"), 6))
    monkeypatch.setattr(checks, "MOST_FOLLOWED", 3)
    check = check_machine(compiled, ["00", "010", "1"])
    assert not check.holds and check.details["first_mismatch"] == (1, 2)
    assert "1 differences or more (3 words were not followed on)" in check.scope


@pytest.mark.slow
def test_memory_does_not_grow_with_states_or_steps():
    """In a process of its own: 1,500 states, and 30,000 steps; most of what it takes are the libraries."""
    script = """
import sys, numpy as np
from peak_memory import peak_kilobytes
from krogh.networks.machines.compiled import compile_machine
from krogh.programs.machines.machine import Machine
states, steps = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
tables = dict(next_state=rng.integers(states - 1, size=(states, 3)), write=rng.integers(3, size=(states, 3)),
              move=2 * rng.integers(2, size=(states, 3)) - 1)
names = tuple(f"q{i}" for i in range(states))
machine = Machine(name="large", states=names, alphabet=("_", "0", "1"), start=0, halting=(states - 1,), **tables)
before = peak_kilobytes()
assert compile_machine(machine, steps).check(["", "01"]).holds
print((peak_kilobytes() - before) / 1024)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for arguments in (("1500", "300"), ("4", "30000")):
        command = [sys.executable, "-c", script, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert float(done.stdout) < 300, "megabytes; 1,500 states took gigabytes when all steps went at once"


@pytest.mark.slow
def test_a_thousand_random_machines():
    for seed in range(1000):
        machine = random_machine(2 + seed % 7, 2 + seed % 4, seed, tape=("one-way", "two-way")[seed % 2])
        compiled = compile_machine(machine, 100, adder=("look-ahead", "ripple")[seed // 2 % 2])
        assert check_machine(compiled, short_words(machine, 3)[:30]).holds, seed


@pytest.mark.slow
def test_every_machine_of_the_library_by_both_adders():
    for name, machine in library().items():
        words = short_words(machine, 4)[:400]
        steps = max(1, library_steps(name, 4))
        for adder in ("look-ahead", "ripple"):
            assert check_machine(compile_machine(machine, steps, adder=adder), words).holds, name
