"""The machine type and its interpreter, against a simulator written with texts and a dictionary."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.programs.machines.library import load_machine
from krogh.programs.machines.machine import Machine
from krogh.programs.machines.running import LeftTheTapeError, require_halts, run, steps_needed, trace
from krogh.programs.machines.sampling import ProperRuns, random_machine, short_words

quiet = settings(database=None, deadline=None, max_examples=60)

# The machines of the reference, sm-approximation section 2, T2, as printed there (lists of symbols written out).
PARITY = "e,0→e,0,R; e,1→o,1,R; o,0→o,0,R; o,1→e,1,R; e,_→rej,_,R; o,_→acc,_,R"
PALINDROME = (
    "; ".join(
        f"q0,{c}→r{c},_,R; r{c},0→r{c},0,R; r{c},1→r{c},1,R; r{c},_→k{c},_,L; k{c},{c}→b,_,L; "
        f"k{c},{1 - c}→rej,{c},R; k{c},_→acc,_,R"
        for c in (0, 1)
    )
    + "; b,0→b,0,L; b,1→b,1,L; b,_→q0,_,R; q0,_→acc,_,R"
)
POW2 = (
    "q1,_→rej,_,R; q1,x→rej,x,R; q1,0→q2,_,R; q2,x→q2,x,R; q2,_→acc,_,R; q2,0→q3,x,R; q3,x→q3,x,R; q3,0→q4,0,R; "
    "q3,_→q5,_,L; q4,x→q4,x,R; q4,0→q3,x,R; q4,_→rej,_,R; q5,0→q5,0,L; q5,x→q5,x,L; q5,_→q2,_,R"
)
COUNTER = "s,#→s,#,R; s,0→s,0,R; s,1→s,1,R; s,_→i,_,L; i,0→s,1,R; i,1→i,0,L; i,#→acc,#,R; i,_→rej,_,R"


def rules_of(text):
    rules = {}
    for part in text.split("; "):
        given_pair, does = part.split("→")
        state, symbol = given_pair.split(",")
        target, write, move = does.split(",")
        rules[state, symbol] = (target, write, {"L": -1, "R": 1}[move])
    return rules


def simulate(rules, start, word, blank, steps):
    """(state, symbol, cell, written, moved) after every step; a state without rules halts and goes right."""
    tape = {place: symbol for place, symbol in enumerate(word, start=1)}
    state, cell = start, 1
    rows = [(state, tape.get(1, blank), 1, None, 0)]
    halted = None
    states = {pair[0] for pair in rules}
    for time in range(steps + 1):
        if state not in states and halted is None:
            halted = time
        if time == steps:
            break
        symbol = tape.get(cell, blank)
        state, written, moved = rules.get((state, symbol), (state, symbol, 1))
        tape[cell] = written
        cell += moved
        rows.append((state, tape.get(cell, blank), cell, written, moved))
    return rows, halted, tape


def rules_of_machine(machine):
    rules = {}
    for z, name in enumerate(machine.states):
        for a, symbol in enumerate(machine.alphabet):
            if z not in machine.halting:
                target, write = machine.states[machine.next_state[z, a]], machine.alphabet[machine.write[z, a]]
                rules[name, symbol] = (target, write, int(machine.move[z, a]))
    return rules


def rows_of(machine, seen):
    names = [(machine.states[z], machine.alphabet[a]) for z, a in zip(seen.state, seen.symbol, strict=True)]
    written = [None, *(machine.alphabet[a] for a in seen.written[1:])]
    return [
        (*name, int(cell), letter, int(moved))
        for name, cell, letter, moved in zip(names, seen.cell, written, seen.moved, strict=True)
    ]


def two_state():
    """In state a over blank, 1: write 1, right, until 1 is read."""
    return Machine(
        name="two",
        states=("a", "stop"),
        alphabet=("_", "1"),
        start=0,
        next_state=np.array([[0, 1], [0, 0]]),
        write=np.array([[1, 1], [0, 0]]),
        move=np.array([[1, -1], [-1, -1]]),
        halting=(1,),
    )


@pytest.mark.parametrize(
    "name,text,start,letters,length",
    [
        ("parity", PARITY, "e", "01", 7),
        ("palindrome", PALINDROME, "q0", "01", 7),
        ("powers-of-two", POW2, "q1", "0x", 7),
        ("counter", COUNTER, "s", "#01", 4),
    ],
)
def test_the_machines_of_the_reference_take_the_steps_that_it_prints(name, text, start, letters, length):
    """Cells, symbols and moves at every time, and the decision, on all words of up to `length` symbols."""
    machine = load_machine(name)
    rules = rules_of(text)
    for size in range(length + 1):
        for letters_of in itertools.product(letters, repeat=size):
            word = "".join(letters_of)
            rows, halted, _ = simulate(rules, start, word, "_", 130)
            seen = trace(machine, word, 130)
            assert [row[1:] for row in rows_of(machine, seen)] == [row[1:] for row in rows]
            assert seen.halted_at == halted
            assert seen.label == {"acc": 1, "rej": 0}[rows[-1][0]]
            assert min(seen.cell) >= 0


@pytest.mark.parametrize("bits", range(1, 9))
def test_the_counter_takes_exactly_2_to_the_n_plus_2_minus_1_steps(bits):
    machine = load_machine("counter")
    assert steps_needed(machine, "#" + "0" * bits, 10**4) == 2 ** (bits + 2) - 1


@quiet
@given(st.integers(1, 6), st.integers(2, 5), st.integers(0, 10**6), st.sampled_from(["one-way", "two-way"]))
def test_a_trace_is_what_the_simulator_does(states, symbols, seed, tape):
    machine = random_machine(states, symbols, seed, tape=tape, runs=ProperRuns(length=2))
    rules = rules_of_machine(machine)
    for word in short_words(machine, 2):
        letters = [machine.alphabet[number] for number in word]
        rows, halted, tape_after = simulate(rules, machine.states[machine.start], letters, "_", 60)
        seen = trace(machine, word, 60)
        assert rows_of(machine, seen) == rows
        assert seen.halted_at == (halted if halted is not None and halted <= 60 else None)
        done = run(machine, word, 60)
        if done.halted_at is not None:
            assert done.halted_at == seen.halted_at == steps_needed(machine, word, 60)
            assert (done.state, done.cell) == (seen.state[done.halted_at], seen.cell[done.halted_at])
        content = "".join(tape_after.get(cell, "_") for cell in range(-61, 64)).strip("_")
        assert done.output == content


@quiet
@given(st.integers(0, 10**6), st.integers(0, 40))
def test_the_tape_at_a_time_is_the_tape_of_a_run_of_that_length(seed, time):
    machine = random_machine(4, 3, seed, tape="two-way", halting=0.1, runs=ProperRuns(steps=500, length=1))
    seen = trace(machine, "01", 40)
    rules = rules_of_machine(machine)
    _, _, tape = simulate(rules, "q0", "01", "_", time)
    at = seen.tape_at(time)
    assert machine.decode(at.window(-45, 45)) == "".join(tape.get(cell, "_") for cell in range(-45, 46))
    assert at.first <= min(seen.cell[: time + 1]) and at.first + len(at.symbols) > max(seen.cell[: time + 1])


def test_after_halting_the_machine_loops_and_goes_right():
    seen = trace(load_machine("parity"), "1", 6)
    assert seen.halted_at == 2
    assert seen.state.tolist() == [0, 1, 2, 2, 2, 2, 2]
    assert seen.cell.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert seen.moved.tolist() == [0, 1, 1, 1, 1, 1, 1]
    assert seen.written.tolist() == [-1, 2, 0, 0, 0, 0, 0]


def test_rows_of_halting_states_are_set():
    machine = two_state()
    assert machine.next_state.tolist() == [[0, 1], [1, 1]]
    assert machine.write.tolist() == [[1, 1], [0, 1]]
    assert machine.move.tolist() == [[1, -1], [1, 1]]
    assert (machine.next_state.dtype, machine.write.dtype, machine.move.dtype) == (np.int32, np.int32, np.int8)
    with pytest.raises(ValueError):
        machine.write[0, 0] = 0


def test_a_plain_halting_state_decides_nothing():
    done = run(two_state(), "_1", 5)
    assert (done.halted_at, done.label, done.output) == (2, None, "11")
    assert run(two_state(), "", 5).halted_at is None
    assert load_machine("parity").labels.tolist() == [-1, -1, 1, 0]


def test_halting_at_once_takes_no_step():
    machine = Machine(
        name="idle",
        states=("accept",),
        alphabet=("_",),
        start=0,
        next_state=np.zeros((1, 1), int),
        write=np.zeros((1, 1), int),
        move=np.ones((1, 1), int),
        accept=(0,),
    )
    assert machine.halting == (0,)
    assert (steps_needed(machine, "", 0), trace(machine, "", 0).label) == (0, 1)


def test_equal_machines_are_equal_values():
    assert two_state() == two_state() and hash(two_state()) == hash(two_state())
    assert two_state() != two_state().with_input("1")
    assert two_state() != "two"


def test_encode_takes_the_longest_symbol():
    tables = dict.fromkeys(("next_state", "write"), np.zeros((1, 4), int)) | {"move": np.ones((1, 4), int)}
    machine = Machine(name="long", states=("a",), alphabet=("_", "1", "10", "0"), start=0, **tables)
    assert machine.encode("110_0").tolist() == [1, 2, 0, 3]
    assert machine.encode(["1", "0", "10"]).tolist() == [1, 3, 2]
    assert machine.encode([0, 3]).tolist() == machine.encode(np.array([0, 3])).tolist() == [0, 3]
    assert machine.encode("").tolist() == machine.encode([]).tolist() == []
    assert machine.encode("10").dtype == np.int32
    assert machine.decode([1, 2]) == "110"


@pytest.mark.parametrize(
    "word,says",
    [
        ("01x1", "symbol 'x' at position 3 of the input '01x1' is outside the alphabet of 'parity'"),
        (["0", "7"], "symbol '7' is outside the alphabet"),
        ([0, 3], "0 to 2; got"),
        ([[1]], "a word is text"),
        ([0.5], "a word is text"),
    ],
)
def test_words_outside_the_alphabet_are_refused(word, says):
    with pytest.raises(KroghError, match=says):
        trace(load_machine("parity"), word, 3)


def test_moving_off_the_left_end_of_a_one_way_tape_is_refused():
    """From cell 1 to cell 0, which is allowed, and one further, which is not."""
    tables = {"next_state": np.zeros((1, 2), int), "write": np.zeros((1, 2), int), "move": np.full((1, 2), -1)}
    names = {"name": "lefty", "states": ("go",), "alphabet": ("_", "1"), "start": 0}
    assert trace(Machine(**names, **tables), "1", 5).cell.tolist() == [1, 0, -1, -2, -3, -4]
    machine = Machine(**names, **tables, tape="one-way")
    assert trace(machine, "1", 1).cell.tolist() == [1, 0]
    says = "'lefty' moves off the left end.*on the input '1': step 2, in state 'go' on '_'.*two-way"
    for look in (trace, run, steps_needed):
        with pytest.raises(LeftTheTapeError, match=says):
            look(machine, "1", 2)


def test_t_too_small_says_how_many_steps_are_needed():
    """107 steps: found out from T = 11 on, which is followed up to 110."""
    machine = load_machine("busy-beaver-4")
    assert require_halts(machine, ["", "1"], 107) == [107, 19]
    with pytest.raises(KroghError, match=r"T = 11 is too small: .* on '' within T steps; it needs 107 steps"):
        require_halts(machine, [""], 11)
    with pytest.raises(KroghError, match=r"T = 20 is too small: .* on '' within T steps; it needs 107 steps"):
        require_halts(machine, ["1", ""], 20)
    with pytest.raises(KroghError, match=r"T = 10 is too small: .*nor within 100: it may never halt"):
        require_halts(machine, [""], 10)
    assert steps_needed(machine, "", 106) is None


@pytest.mark.parametrize(
    "changes,says",
    [
        ({"name": ""}, "has a name"),
        ({"states": ("a", "a")}, "every state is listed once"),
        ({"states": ()}, "at least one state"),
        ({"alphabet": ("_", "")}, "a symbol is a text of 1 to 200 characters"),
        ({"start": 2}, "start holds state numbers 0 to 1"),
        ({"accept": (1,), "reject": (1,)}, "cannot both accept and reject"),
        ({"halting": (-1,)}, "halting holds state numbers"),
        ({"tape": "round"}, "tape must be 'two-way' or 'one-way'"),
        ({"write": np.zeros((2, 3), int)}, "a row per state and a column per symbol"),
        ({"write": np.zeros((2, 2))}, "whole numbers"),
        ({"write": np.full((2, 2), 2)}, "write of state 'a' on symbol '_' must be 0 to 1; got 2"),
        ({"move": np.array([[1, 0], [1, 1]])}, "move of state 'a' on symbol '1' must be -1 or \\+1; got 0"),
        ({"next_state": np.full((2, 2), -1)}, "next_state of state 'a'"),
        ({"default_input": "2"}, "outside the alphabet"),
    ],
)
def test_what_is_no_machine_is_refused(changes, says):
    fields = {
        "name": "two",
        "states": ("a", "b"),
        "alphabet": ("_", "1"),
        "start": 0,
        "next_state": np.zeros((2, 2), int),
        "write": np.zeros((2, 2), int),
        "move": np.ones((2, 2), int),
    }
    Machine(**fields)
    with pytest.raises(KroghError, match=says):
        Machine(**fields | changes)


def test_state_by_name():
    assert load_machine("parity").state("odd") == 1
    with pytest.raises(KroghError, match="did you mean 'odd'"):
        load_machine("parity").state("od")
    assert "4 states, 3 symbols, one-way" in repr(load_machine("parity"))
