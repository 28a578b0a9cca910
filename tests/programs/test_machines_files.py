"""The YAML of turingmachine.io: what is read, what is refused and where, and what is written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.programs.machines import write_machine
from krogh.programs.machines.files import parse_machine, says
from krogh.programs.machines.library import load_machine
from krogh.programs.machines.machine import Machine
from krogh.programs.machines.running import run, trace
from krogh.programs.machines.sampling import ProperRuns, random_machine

quiet = settings(database=None, deadline=None, max_examples=50)

# All shorthand of the format at once: lists, numbers as symbols, {L}, {L: q}, synonyms, comments, rows on one line.
SHORT = """\
# Adds one to a binary number, and marks it.
input: '1011'   # try 111
blank: ' '
start state: right
synonyms:
  finish: {write: 1, R: done}
  mark: {write: '!', R: done}
table:
  right:
    [0,1]: R
    ' ': {L: carry}
    '!': mark
  carry: {1: {write: 0, L}, 0: finish, ' ': finish, '!': {L   }}
  done:
"""

DOCUMENT = """\
name: add one
source code: |
  # Adds one to a binary number.
  input: '1011'
  blank: ' '
  start state: right

  table:
    right:
      1,0: R
      ' ': {L: carry}
    carry:
      1      : {write: 0, L}
      [0,' ']: {write: 1, R: done}
    done:


  # Exercise:
  # • Subtract one.
positions:
  right: {x: 230, y: 250}
  carry: {x: 400.5, y: 250}
  done: {x: 570, y: 250, fixed: false}
editor contents: |
  blank: [
"""


def instruction(machine, state, symbol):
    at = machine.states.index(state), machine.alphabet.index(symbol)
    return machine.states[machine.next_state[at]], machine.alphabet[machine.write[at]], int(machine.move[at])


def machine_text(table, start="a", blank="_", **fields):
    extra = "".join(f"{name.replace('_', ' ')}: {value}\n" for name, value in fields.items())
    return f"blank: {blank}\nstart state: {start}\n{extra}table:\n{table}"


def test_shorthand_is_read():
    machine = parse_machine(SHORT, "short.yaml")
    assert machine.name == "short"
    assert (machine.states, machine.alphabet) == (("right", "carry", "done"), (" ", "0", "1", "!"))
    assert (machine.states[machine.start], machine.default_input, machine.tape) == ("right", "1011", "two-way")
    assert machine.halting == (2,) and machine.accept == machine.reject == ()
    assert instruction(machine, "right", "0") == ("right", "0", 1)
    assert instruction(machine, "right", "1") == ("right", "1", 1)
    assert instruction(machine, "right", " ") == ("carry", " ", -1)
    assert instruction(machine, "right", "!") == ("done", "!", 1)
    assert instruction(machine, "carry", "1") == ("carry", "0", -1)
    assert instruction(machine, "carry", "0") == instruction(machine, "carry", " ") == ("done", "1", 1)
    assert instruction(machine, "carry", "!") == ("carry", "!", -1)
    assert run(machine, "1011", 100).output == "1100"


def test_a_whole_document_of_the_site_is_read():
    machine = parse_machine(DOCUMENT, "gist.yaml")
    assert machine.name == "add one"
    assert machine.default_input == "1011"
    assert run(machine, "111", 100).output == "1000"


@pytest.mark.parametrize("style", ["|", "|-", "|+", ">", "quoted"])
def test_places_in_a_document_are_those_of_the_file(style):
    """A literal block keeps its lines, so the place is exact; otherwise the line is that within the source code."""
    code = "blank: 0\nstart state: A\ntable:\n  A:\n    0: {R: B}\n"
    if style == "quoted":
        text = "name: x\nsource code: " + '"' + code.replace("\n", "\\n") + '"\n'
        expected = r"f\.yaml \(within its source code\), line 5, column 12"
    elif style == ">":
        text = "name: x\nsource code: >\n" + "".join(f"    {line}\n\n" for line in code.splitlines())
        expected = r"f\.yaml \(within its source code\), line 5"
        text = text.replace("    table:\n\n", "    table:\n").replace("      A:\n\n", "      A:\n")
    else:
        text = f"name: x\nsource code: {style}\n" + "".join(f"    {line}\n" for line in code.splitlines())
        expected = r"f\.yaml, line 7, column 16"
    with pytest.raises(KroghError, match=expected + ".*no row of the table is the state 'B'"):
        parse_machine(text, "f.yaml")


def test_scalars_are_texts():
    """0, 1, 01, yes and ~ are what is written; a blank may be 0; {R: null} stays in the state."""
    table = "  yes:\n    0: {write: 1, R: 01}\n    1: {R: null}\n    ~: {write: ~, R: yes}\n  01:\n"
    machine = parse_machine(machine_text(table, start="yes", blank="0", input="0110"))
    assert (machine.states, machine.alphabet, machine.default_input) == (("yes", "01"), ("0", "1", "~"), "0110")
    assert instruction(machine, "yes", "0") == ("01", "1", 1)
    assert instruction(machine, "yes", "1") == ("yes", "1", 1)
    assert instruction(machine, "yes", "~") == ("yes", "~", 1)


def test_anchors_and_merged_rows():
    table = "  a: &row\n    0: {R: b}\n    _: {R: end}\n  b:\n    <<: *row\n    0: L\n  end:\n"
    machine = parse_machine(machine_text(table))
    assert instruction(machine, "b", "0") == ("b", "0", -1)
    assert instruction(machine, "b", "_") == ("end", "_", 1)


def test_a_symbol_may_be_a_comma_or_longer_than_one_character():
    table = "  a:\n    ',': {write: end, R: b}\n    [_, end]: R\n  b:\n"
    machine = parse_machine(machine_text(table, input="[',', end]"))
    assert machine.alphabet == ("_", ",", "end")
    assert machine.default_input == ",end"
    assert parse_machine(write_machine(machine)) == machine
    with pytest.raises(KroghError, match="reads as other symbols"):
        parse_machine(machine_text("  a: {[_, x, y, xy]: {R: b}}\n  b:\n", input="[x, y]"))


@pytest.mark.parametrize(
    "name,decides",
    [
        *((name, "accept") for name in ("accept", "Accepted", "ACC", "yes", "q_accept", "qAccept!", "accept2", "True")),
        *((name, "reject") for name in ("reject", "Rejected", "rej", "No", "q-rej", "reject state")),
        *((name, None) for name in ("halt", "done", "H", "north", "q", "access", "noaccept")),
    ],
)
def test_names_say_accept_or_reject(name, decides):
    assert says(name) == decides
    machine = parse_machine(machine_text(f"  a: {{_: {{R: '{name}'}}}}\n  '{name}':\n"))
    assert (machine.accept, machine.reject) == {"accept": ((1,), ()), "reject": ((), (1,)), None: ((), ())}[decides]
    assert machine.halting == (1,)


def test_names_of_states_that_go_on_say_nothing():
    machine = parse_machine(machine_text("  accept: {_: {R: end}}\n  end:\n", start="accept"))
    assert machine.accept == () and machine.halting == (1,)


def test_fields_say_accept_and_reject_where_names_do_not():
    table = "  a: {0: {R: x}, 1: {R: y}, _: {R: accept}}\n  x:\n  y:\n  accept:\n"
    machine = parse_machine(machine_text(table, accept="x", reject="[y, accept]"))
    assert (machine.accept, machine.reject) == ((1,), (2, 3))
    assert [run(machine, word, 3).label for word in ("0", "1", "")] == [1, 0, 0]
    only = parse_machine(machine_text(table, reject="y"))
    assert (only.accept, only.reject) == ((3,), (2,))
    overruled = parse_machine(machine_text(table, reject="accept"))
    assert (overruled.accept, overruled.reject) == ((), (3,))
    assert parse_machine(machine_text(table, accept="[]")).accept == ()


def test_missing_transitions_are_refused_with_a_list():
    table = "  a: {0: R, 1: {R: b}}\n  b: {1: L}\n  accept:\n"
    with pytest.raises(KroghError) as caught:
        parse_machine(machine_text(table), "m.yaml", missing="error")
    assert str(caught.value) == (
        "m.yaml, line 4, column 3: 3 transitions are missing, (state, symbol): (a, '_'), (b, '_'), (b, '0'). "
        "Add them to the table, or say what the machine does there: `missing: halt` or --missing halt stops without a "
        "decision (as on turingmachine.io), `missing: reject` rejects"
    )


@pytest.mark.parametrize("by", ["field", "argument"])
def test_missing_transitions_may_halt_or_reject(by):
    table = "  a: {0: R, 1: {R: b}}\n  b: {1: {L: accept}}\n  accept:\n"

    def read(missing):
        if by == "field":
            return parse_machine(machine_text(table, missing=missing))
        return parse_machine(machine_text(table, missing="error"), missing=missing)

    halting = read("halt")
    assert halting.states == ("a", "b", "accept", "halt") and halting.halting == (2, 3) and halting.reject == ()
    done = run(halting, "0010", 9)
    assert (halting.states[done.state], done.halted_at, done.label, done.cell) == ("b", 3, None, 4)
    assert halting == parse_machine(machine_text(table))
    rejecting = read("reject")
    assert rejecting.states[3] == "reject" and rejecting.reject == (3,)
    assert [run(rejecting, word, 9).label for word in ("011", "0010", "")] == [1, 0, 0]


def test_missing_transitions_go_to_a_state_that_is_there():
    table = "  a: {0: R}\n  no:\n  halt:\n"
    machine = parse_machine(machine_text(table, missing="reject"))
    assert machine.states == ("a", "no", "halt") and instruction(machine, "a", "_") == ("no", "_", 1)
    assert instruction(parse_machine(machine_text(table, missing="halt")), "a", "_") == ("halt", "_", 1)
    # A state of that name that goes on is another one.
    other = parse_machine(machine_text("  halt: {0: R}\n", start="halt", missing="halt"))
    assert other.states == ("halt", "halt 2")


def test_a_move_that_stays_takes_two_steps():
    """N is right and back: the tape and the decisions are the same, with one step more."""
    table = "  a: {0: {write: 1, N: b}, 1: {N: b}, _: N}\n  b: {1: {write: 0, R: accept}, [0, _]: {R: reject}}\n"
    machine = parse_machine(machine_text(table + "  accept:\n  reject:\n", tape="one-way"))
    assert len(machine.states) == 4 + 2
    seen = trace(machine, "00", 3)
    assert seen.cell.tolist() == [1, 2, 1, 2]
    assert (seen.halted_at, seen.label, machine.decode(seen.tape_at(3).content())) == (3, 1, "00")
    assert trace(machine, "", 4).cell.tolist() == [1, 2, 1, 2, 1]


def test_the_field_alphabet_adds_symbols_and_gives_their_order():
    table = "  a: {[_, 0, 1]: {R: b}, x: L}\n  b:\n"
    assert parse_machine(machine_text(table)).alphabet == ("_", "0", "1", "x")
    assert parse_machine(machine_text(table, alphabet="[x, 1]")).alphabet == ("_", "x", "1", "0")
    halted = parse_machine(machine_text("  a:\n", alphabet="[_, z]", input="zz"))
    assert halted.alphabet == ("_", "z") and halted.default_input == "zz"


ROW = "  a: {0: R, _: {R: b}}\n  b:\n"


@pytest.mark.parametrize(
    "text,message",
    [
        ("", "m.yaml is empty: a machine needs the fields blank, start state, table"),
        ("# nothing\n", "m.yaml is empty"),
        ("- a\n", "line 1, column 1: a machine is a mapping"),
        ("blank: [\n", "line 2, column 1: this is not YAML"),
        ("a: b: c\n", "line 1, column 5: this is not YAML: mapping values are not allowed here"),
        ("blank: 0\n---\nblank: 1\n", "line 2, column 1: this is not YAML: expected a single document"),
        ("blank: '\x07'\n", "line 1, column 9: the character '\\x07' is not allowed in YAML"),
        ("start state: a\ntable:\n" + ROW, "line 1, column 1: the field 'blank' is missing, as in `blank: ' '`"),
        ("blank: _\ntable:\n" + ROW, "the field 'start state' is missing"),
        ("blank: _\nstart state: a\n", "the field 'table' is missing"),
        (machine_text(ROW, blank=""), "line 1, column 7: the blank symbol (as in `blank: ' '`) is missing here"),
        (machine_text(ROW, blank="[0]"), "line 1, column 8: the blank symbol (as in `blank: ' '`) is a single word"),
        (machine_text(ROW, start="c"), "line 2, column 14: no row of the table is the state 'c'"),
        (machine_text(ROW, synonims="{}"), "line 3, column 1: a machine has no field 'synonims'; did you mean"),
        (
            machine_text(ROW, input="'02'", missing="error"),
            "line 3, column 8: symbol '2' at position 2 of the input '02' is outside",
        ),
        (machine_text(ROW, input="{a: b}"), "line 3, column 8: the input is a text or a list of symbols"),
        (machine_text(ROW, tape="oneway"), "line 3, column 7: unknown tape 'oneway'; did you mean 'one-way'?"),
        (machine_text(ROW, missing="loop"), "line 3, column 10: unknown meaning 'loop'"),
        (machine_text(ROW, accept="c"), "line 3, column 9: no row of the table is the state 'c'"),
        (machine_text(ROW, accept="a"), "line 3, column 9: the state 'a' has instructions"),
        (machine_text(ROW, accept="b", reject="b"), "line 4, column 9: the state 'b' cannot both accept and reject"),
        (machine_text(ROW, blank2="1", blank3="2"), "has no field 'blank2'; did you mean 'blank'"),
        ("blank: _\n" + machine_text(ROW), "line 2, column 1: 'blank' stands twice in a machine, first on line 1"),
        (machine_text(ROW + "  a:\n"), "line 6, column 3: 'a' stands twice in the table, first on line 4"),
        (machine_text("  []\n"), "line 4, column 3: the table is a mapping (`key: value`), not a list"),
        (machine_text("  {}\n"), "line 4, column 3: the table is empty"),
        (machine_text("  a: R\n"), "line 4, column 6: the row of state 'a' is a mapping"),
        (machine_text("  a: {0: }\n"), "line 4, column 9: the instruction is missing"),
        (machine_text("  a: {0: Right}\n"), "line 4, column 10: unknown instruction 'Right'"),
        (machine_text("  a: {0: [R]}\n"), "line 4, column 10: an instruction is L, R, N, a synonym, or a mapping"),
        (machine_text("  a: {0: {R: c}}\n"), "line 4, column 14: no row of the table is the state 'c'"),
        (machine_text("  a: {0: {S: c}}\n"), "line 4, column 11: an instruction has no field 'S'"),
        (machine_text("  a: {0: {write: 1}}\n"), "line 4, column 10: an instruction has exactly one move, L, R or N"),
        (machine_text("  a: {0: {L: a, R: a}}\n"), "exactly one move, L, R or N; got L and R at once"),
        (machine_text("  a: {0: {write: , R: a}}\n"), "the symbol to write is missing here"),
        (machine_text("  a: {0: {write: [1], R: a}}\n"), "the symbol to write is a single word or text, not a list"),
        (machine_text("  a:\n    0: R\n    [1, 0]: L\n"), "line 6, column 9: state 'a' has two instructions for sy"),
        (machine_text("  a:\n    0: R\n    0: L\n"), "line 6, column 5: state 'a' has two instructions for symbol '0'"),
        (machine_text("  a:\n    '0,,1': R\n"), "line 5, column 5: the key '0,,1' reads as a list"),
        (machine_text("  a:\n    {0: 1}: R\n"), "line 5, column 5: a symbol is a single word or text, not a mapping"),
        (machine_text(ROW, synonyms="{R: {L: a}}"), "line 3, column 12: the synonym 'R' would hide the move 'R'"),
        (machine_text(ROW, synonyms="{x: {L: a}, y: x}"), "line 3, column 26: unknown instruction 'x'"),
        (machine_text(ROW, synonyms="{x: {L: c}}"), "line 3, column 19: no row of the table is the state 'c'"),
        (machine_text("  a: &r\n    <<: *r\n    0: R\n"), "`<<` in the row of state 'a' takes a mapping"),
        ("source code: [a]\n", "line 1, column 14: the source code is a single word or text, not a list"),
        ("source code: |\n  blank: 0\npositon: 1\n", "line 3, column 1: a document of turingmachine.io has no field"),
        ("name: x\nsource code: |\n  - a\n", "m.yaml, line 3, column 3: a machine is a mapping"),
        ("name: x\nsource code: |\n  # nothing\n", "m.yaml is empty"),
        ("[" * 5000, "has more than 20 levels of nesting; at most 20 are allowed"),
    ],
)
def test_errors_name_line_and_column(text, message):
    with pytest.raises(KroghError) as caught:
        parse_machine(text, "m.yaml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("m.yaml")


def test_an_unknown_meaning_of_missing_is_refused():
    with pytest.raises(KroghError, match="missing must be one of 'halt', 'reject', 'error'; got missing='loop'"):
        parse_machine(machine_text(ROW), missing="loop")


def test_files_that_are_no_text(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_bytes(b"blank: \xff\xfe")
    with pytest.raises(KroghError, match=r"bad\.yaml' is no text in UTF-8"):
        load_machine(path)
    path.write_bytes(b"\xef\xbb\xbf" + machine_text(ROW).encode())
    assert load_machine(path).name == "bad"


def test_what_is_written_is_short():
    assert write_machine(parse_machine(SHORT, "short.yaml")) == (
        "name: short\ninput: '1011'\nblank: ' '\nstart state: right\ntable:\n"
        "  right:\n    ' ': {L: carry}\n    [0, 1]: R\n    '!': {R: done}\n"
        "  carry:\n    [' ', 0]: {write: 1, R: done}\n    1: {write: 0, L}\n    '!': L\n  done:\n"
    )


@quiet
@given(st.integers(1, 7), st.integers(2, 9), st.integers(0, 10**6), st.sampled_from(["one-way", "two-way"]))
def test_random_machines_are_read_as_written(states, symbols, seed, tape):
    machine = random_machine(states, symbols, seed, tape=tape, halting=0.4, runs=ProperRuns(length=1))
    assert parse_machine(write_machine(machine)) == machine


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=6)


@st.composite
def any_machines(draw):
    """The fields of machines with any names and any halting states; the input is made of its symbols."""
    states = draw(st.lists(names | st.sampled_from(["accept", "no", "null", "y"]), min_size=1, max_size=4, unique=True))
    alphabet = draw(st.lists(names | st.sampled_from(["0", "a,b", ",", "-"]), min_size=1, max_size=4, unique=True))
    shape = (len(states), len(alphabet))
    cells = st.integers(0, 10**6)
    tables = [np.array([[draw(cells) for _ in alphabet] for _ in states]) for _ in range(3)]
    kinds = [draw(st.sampled_from(["go", "accept", "reject", "halt"])) for _ in states]
    of_kind = {kind: tuple(i for i, own in enumerate(kinds) if own == kind) for kind in ("accept", "reject", "halt")}
    word = draw(st.none() | st.lists(st.sampled_from(alphabet), max_size=4).map("".join))
    return dict(
        name=draw(names),
        states=tuple(states),
        alphabet=tuple(alphabet),
        start=draw(st.integers(0, shape[0] - 1)),
        next_state=tables[0] % shape[0],
        write=tables[1] % shape[1],
        move=2 * (tables[2] % 2) - 1,
        accept=of_kind["accept"],
        reject=of_kind["reject"],
        halting=of_kind["halt"],
        tape=draw(st.sampled_from(["one-way", "two-way"])),
        default_input=word,
    )


@quiet
@given(any_machines())
def test_any_machine_is_read_as_written(fields):
    machine = Machine(**fields)
    assert parse_machine(write_machine(machine)) == machine


def test_many_symbols_share_an_instruction_on_several_lines():
    """A list of 500 symbols is longer than a key of YAML may be."""
    count = 500
    ones = np.ones((2, count), int)
    tables = {"next_state": ones, "write": 0 * ones, "move": ones}
    alphabet = tuple(f"symbol{number:03}" for number in range(count))
    machine = Machine(name="wide", states=("a", "b"), alphabet=alphabet, start=0, halting=(1,), **tables)
    text = write_machine(machine)
    assert max(map(len, text.splitlines())) < 1024
    assert parse_machine(text) == machine
