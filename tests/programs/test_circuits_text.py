"""The readable text format: what it says, what it refuses and where."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.programs import circuits
from krogh.programs.circuits.circuit import FALSE, TRUE, Circuit, Gate
from krogh.programs.circuits.files import parse_circuit, write_circuit

quiet = settings(database=None, deadline=None, max_examples=50)

HALF_ADDER = """\
# two bits added
circuit half-adder
inputs a b
outputs sum carry=both
sum    = AND either differ      # not yet defined: any order will do
either = or a b
both   = AND a b
differ = NOT both
"""


def same(one, other):
    arrays = np.array_equal(one.kinds, other.kinds) and np.array_equal(one.parents, other.parents)
    names = one.input_names == other.input_names and one.output_names == other.output_names
    return arrays and names and one.outputs == other.outputs and one.inputs == other.inputs


def test_a_text_is_read_as_it_says():
    circuit = parse_circuit(HALF_ADDER)
    assert circuit.name == "half-adder" and circuit.input_names == ("a", "b")
    assert circuit.output_names == ("sum", "carry")
    assert set(circuit.gate_names) == {"sum", "either", "both", "differ"}
    assert circuits.truth_table(circuit).tolist() == [[False, False], [True, False], [True, False], [False, True]]


def test_lines_may_be_repeated_quoted_and_commented():
    text = 'inputs "a b" x\r\n  inputs y\r\n\r\n"=#\\"" = AND "a b" y # a gate\n'
    text += 'outputs "1 2"="=#\\"" x\noutputs t=TRUE FALSE'
    circuit = parse_circuit("\ufeff" + text, "folder/some.circuit")
    assert circuit.name == "some" and circuit.input_names == ("a b", "x", "y")
    assert circuit.gate_names == ('=#"',) and circuit.output_names == ("1 2", "x", "t", "FALSE")
    assert circuit.outputs == (3, 1, TRUE, FALSE) and circuit.parents.tolist() == [[0, 2]]


def test_keywords_may_be_names():
    circuit = parse_circuit('inputs circuit "TRUE"\ninputs = AND circuit "TRUE"\noutputs inputs')
    assert circuit.input_names == ("circuit", "TRUE") and circuit.gate_names == ("inputs",)
    assert same(parse_circuit(write_circuit(circuit)), circuit)


@st.composite
def described(draw):
    """What a circuit with any names is made of."""
    m, g = draw(st.integers(0, 3)), draw(st.integers(0, 6))
    name = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=5)
    name = name | st.sampled_from(["TRUE", "inputs", "=", "#", '"', "\\", " ", "g0", "g1", "g_0", "\u2028"])
    kinds = draw(st.lists(st.sampled_from(list(Gate)), min_size=g, max_size=g))
    parents = [(draw(st.integers(-2, m + i - 1)), draw(st.integers(-2, m + i - 1))) for i in range(g)]
    parents = [(a, a) if kind.arity == 1 else (a, b) for kind, (a, b) in zip(kinds, parents, strict=True)]
    outputs = tuple(draw(st.lists(st.integers(-2, m + g - 1), min_size=1, max_size=3)))
    names = draw(st.lists(name, min_size=m + g, max_size=m + g, unique=True))
    finals = draw(st.lists(name, min_size=len(outputs), max_size=len(outputs), unique=True))
    gate_names = tuple(names[m:]) if draw(st.booleans()) else ()
    return (
        draw(name),
        m,
        [kind.value for kind in kinds],
        parents,
        outputs,
        tuple(names[:m]),
        tuple(finals),
        gate_names,
    )


@quiet
@given(described())
def test_what_is_written_is_read_back(parts):
    circuit = Circuit(*parts)
    back = parse_circuit(write_circuit(circuit), dangling="keep")
    assert same(back, circuit) and back.name == circuit.name
    assert not circuit.gate_names or back.gate_names == circuit.gate_names


def test_names_of_gates_that_are_made_up_avoid_those_of_inputs():
    circuit = Circuit("c", 2, [Gate.AND], [(0, 1)], (2,), ("g0", "g_0"))
    assert same(parse_circuit(write_circuit(circuit)), circuit)


def test_long_lists_are_broken_into_lines():
    circuit = circuits.adder(60)
    text = write_circuit(circuit)
    assert max(map(len, text.splitlines())) <= 100 and text.count("inputs ") > 1
    assert same(parse_circuit(text), circuit)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("inputs a\nb = AND a", (2, 5), "AND reads 2 signals; gate 'b' has 1"),
        ("inputs a\nb = NOT a a", (2, 11), "NOT reads 1 signal; gate 'b' has 2"),
        ("inputs a\nb = XOR a a", (2, 5), "unknown kind of gate 'XOR'; did you mean 'OR'"),
        ("inputs a\nb =", (2, 1), "the kind of gate 'b' is missing"),
        ("inputs a\nb = NOT c\noutputs b", (2, 9), "the signal 'c' is not defined"),
        ("inputs alpha\nb = NOT alpah\noutputs b", (2, 9), "did you mean 'alpha'?"),
        ("inputs a\noutputs z", (2, 9), "the signal 'z' is not defined"),
        ("inputs a\noutputs y=z", (2, 11), "the signal 'z' is not defined"),
        ("inputs a\na = NOT a", (2, 1), "'a' is defined twice; first on line 1"),
        ("inputs a  a", (1, 11), "'a' is defined twice; first on line 1"),
        ("inputs a\n  TRUE = NOT a", (2, 3), "TRUE is a constant"),
        ("inputs a\noutputs a b=a a", (2, 15), "two outputs have the name 'a'"),
        ("inputs a\noutputs a=", (2, 9), "an output is written signal or name=signal"),
        ("inputs a\nb = AND a a\nc = AND b d\n d = NOT c\noutputs d", (3, 1), "cyclic: c reads d reads c"),
        ("inputs a\nb = NOT b\noutputs b", (2, 1), "cyclic: b reads b"),
        ("inputs a\nb = NOT a\nc = NOT a\noutputs c", (2, 1), "1 dangling gate that no output depends on: 'b'"),
        (
            "input a",
            (1, 1),
            "expected 'name = KIND signals', 'inputs' or 'outputs'; got 'input' (did you mean 'inputs'?)",
        ),
        ('inputs a "b', (1, 10), "no closing"),
        ('inputs ""', (1, 8), "must not be empty"),
        ("= AND a b", (1, 1), "the name is missing"),
        ("inputs a =", (1, 10), "'=' stands between"),
        ("inputs a\nb = AND a = a", (2, 11), "a second '='"),
        ("circuit two words", (1, 1), "one name; got 2"),
        ("circuit a\ncircuit b", (2, 1), "called 'a' already"),
    ],
)
def test_errors_name_line_and_column(text, place, message):
    with pytest.raises(KroghError) as error:
        parse_circuit(text, "file.circuit")
    line, column = place
    assert str(error.value).startswith(f"file.circuit, line {line}, column {column}: ")
    assert message in str(error.value)


def test_a_text_needs_outputs():
    with pytest.raises(KroghError, match=r"file.circuit: no outputs; add a line such as 'outputs b'"):
        parse_circuit("inputs a\nb = NOT a", "file.circuit")
    with pytest.raises(KroghError, match="no outputs"):
        parse_circuit("")


def test_dangling_gates_may_be_dropped_or_kept():
    text = "inputs a\nb = NOT a\nc = NOT a\noutputs c"
    assert parse_circuit(text, dangling="drop").gate_names == ("c",)
    assert parse_circuit(text, dangling="keep").gate_names == ("b", "c")
    with pytest.raises(KroghError, match="did you mean 'keep'"):
        parse_circuit(text, dangling="kept")
