"""Machines as people publish them, with missing transitions, against a simulator that knows nothing of this package.

On turingmachine.io a machine is a function from (state, symbol) to an instruction or nothing, and a step with nothing
to do returns: the machine has halted, in that state, on that cell, after the steps before.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import yaml

from krogh.errors import KroghError
from krogh.networks.machines.compiled import compile_machine
from krogh.programs.machines import load_machine, parse_machine, write_machine
from krogh.programs.machines.running import decide_batch, run, trace, trace_batch

FOLDER = Path(__file__).parent / "public_style"
FILES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
STEPS = 300


def plain(node):
    """A YAML node as texts, mappings and lists; keys that are lists become texts with commas, as in JavaScript."""
    if isinstance(node, yaml.MappingNode):
        return {",".join(k) if isinstance(k := plain(key), list) else k: plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [plain(entry) for entry in node.value]
    return None if node.tag.endswith(":null") else node.value


def simulate(text, word, steps):
    """State, cell, tape and steps taken, until there is no instruction or `steps` are done."""
    spec = plain(yaml.compose(text))
    spec = plain(yaml.compose(spec["source code"])) if "source code" in spec else spec

    def read(action):
        if isinstance(action, str):
            return {action: None} if action in ("L", "R") else spec["synonyms"][action]
        return action

    table = {
        (state, symbol): read(action)
        for state, row in spec["table"].items()
        for key, action in (row or {}).items()
        for symbol in (key.split(",") if len(key) > 1 else [key])
    }
    word = spec.get("input", "") if word is None else word
    tape, cell, state = dict(enumerate(word, start=1)), 1, spec["start state"]
    for taken in range(steps):
        symbol = tape.get(cell, spec["blank"])
        action = table.get((state, symbol))
        if action is None:
            return state, cell, tape, spec["blank"], taken
        tape[cell] = action.get("write", symbol)
        move = "L" if "L" in action else "R"
        cell += 1 if move == "R" else -1
        state = action[move] or state
    return state, cell, tape, spec["blank"], None if (state, tape.get(cell, spec["blank"])) in table else steps


def content(tape, blank):
    marked = [cell for cell, symbol in tape.items() if symbol != blank]
    return "".join(tape.get(cell, blank) for cell in range(min(marked), max(marked) + 1)) if marked else ""


def words_for(machine):
    """The file's input, and all words of up to three symbols."""
    letters = machine.alphabet[1:5]
    short = ["".join(word) for size in range(4) for word in itertools.product(letters, repeat=size)]
    return [machine.default_input or "", *short]


@pytest.mark.parametrize("name", FILES)
def test_a_public_machine_stops_where_the_site_stops(name):
    text = (FOLDER / f"{name}.yaml").read_text()
    machine = load_machine(FOLDER / f"{name}.yaml")
    words = words_for(machine)
    decided, traced = decide_batch(machine, words, STEPS), trace_batch(machine, words, STEPS)
    for place, word in enumerate(words):
        state, cell, tape, blank, taken = simulate(text, word, STEPS)
        ended = run(machine, word, STEPS)
        assert (machine.states[ended.state], ended.cell, ended.halted_at) == (state, cell, taken), word
        assert ended.output == content(tape, blank), word
        one = trace(machine, word, STEPS)
        assert one.halted_at == taken
        assert decided.halted_at[place] == traced.halted_at[place] == (-1 if taken is None else taken)
        assert (one.state == traced.state[place]).all() and (one.cell == traced.cell[place]).all()
        assert (one.symbol == traced.symbol[place]).all()
        if taken is not None:
            assert (machine.states[one.state[taken]], one.cell[taken]) == (state, cell)
    assert parse_machine(write_machine(machine)) == machine


@pytest.mark.parametrize("name", FILES)
def test_the_transformer_of_a_public_machine_does_what_the_machine_does(name):
    machine = load_machine(FOLDER / f"{name}.yaml")
    words = words_for(machine)[:20]
    assert compile_machine(machine, 30, words=[words[0]]).check(words).holds


def test_most_public_files_have_missing_transitions_and_the_strict_reading_refuses_them():
    partial = [name for name in FILES if load_machine(FOLDER / f"{name}.yaml").gaps]
    assert len(FILES) >= 12 and len(partial) >= 9
    for name in partial:
        with pytest.raises(KroghError, match=r"missing, \(state, symbol\)|outside the alphabet"):
            load_machine(FOLDER / f"{name}.yaml", "error")
    assert {load_machine(FOLDER / f"{name}.yaml", "reject").gaps for name in partial} == {()}


EXPECTED = {
    "binary-increment": ("1011", "1100", None),
    "binary-addition": ("1011+11001", "100100 11001", None),
    "busy-beaver-3": ("", "111111", None),
    "copy-ones": ("111", "1110111", None),
    "divisible-by-three": ("1001", "1001", 1),
    "divisible-by-three-decimal": ("4728", "4728", 1),
    "match-three-lengths": ("aabbcc", "xxzz", 1),
    "match-two-words": ("01#01", "#xx", 1),
    "palindrome": ("abba", "", 1),
    "powers-of-two": ("00000000", "_xxxxxxx", 1),
    "unary-product": ("aabbbcccccc", "bbbCCCCCC", 1),
    "unknown-letters": ("aab?a", "aab?a", None),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_what_they_are_for(name):
    word, output, label = EXPECTED[name]
    ended = run(load_machine(FOLDER / f"{name}.yaml"), word, 1000)
    assert ended.halted_at is not None
    assert (ended.output, ended.label) == (output, label)
