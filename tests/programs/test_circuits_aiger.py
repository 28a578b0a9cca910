"""AIGER files against the examples of the format's specification, and against each other."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.programs import circuits
from krogh.programs.circuits.aiger import encode_numbers, parse_aag, parse_aig, write_aag, write_aig
from krogh.programs.circuits.circuit import Circuit, Gate, truth_table

quiet = settings(database=None, deadline=None, max_examples=50)

HALF_ADDER = "aag 7 2 0 2 3\n2\n4\n6\n12\n6 13 15\n12 2 4\n14 3 5\ni0 x\ni1 y\no0 s\no1 c\nc\nhalf adder\n"
SPECIFICATION = {
    "false": ("aag 0 0 0 1 0\n0\n", b"aig 0 0 0 1 0\n0\n", [[0]]),
    "true": ("aag 0 0 0 1 0\n1\n", b"aig 0 0 0 1 0\n1\n", [[1]]),
    "buffer": ("aag 1 1 0 1 0\n2\n2\n", b"aig 1 1 0 1 0\n2\n", [[0], [1]]),
    "inverter": ("aag 1 1 0 1 0\n2\n3\n", b"aig 1 1 0 1 0\n3\n", [[1], [0]]),
    "and": ("aag 3 2 0 1 1\n2\n4\n6\n6 2 4\n", b"aig 3 2 0 1 1\n6\n\x02\x02", [[0], [0], [0], [1]]),
    "or": ("aag 3 2 0 1 1\n2\n4\n7\n6 3 5\n", b"aig 3 2 0 1 1\n7\n\x01\x02", [[0], [1], [1], [1]]),
    "half adder": (
        HALF_ADDER,
        b"aig 5 2 0 2 3\n10\n6\n\x02\x02\x03\x02\x01\x02i0 x\ni1 y\no0 s\no1 c\nc\nhalf adder\n",
        [[0, 0], [1, 0], [1, 0], [0, 1]],
    ),
}


def equal(one, other):
    same = all(
        getattr(one, name) == getattr(other, name) for name in ("inputs", "outputs", "input_names", "output_names")
    )
    return same and np.array_equal(one.kinds, other.kinds) and np.array_equal(one.parents, other.parents)


@pytest.mark.parametrize("name", list(SPECIFICATION))
def test_the_examples_of_the_specification(name):
    ascii_text, binary, table = SPECIFICATION[name]
    circuit, other = parse_aag(ascii_text), parse_aig(binary)
    assert truth_table(circuit).astype(int).tolist() == table
    assert equal(circuit, other)
    if name == "half adder":
        assert (circuit.input_names, circuit.output_names) == (("x", "y"), ("s", "c"))
        binary = binary.removesuffix(b"half adder\n") + b"circuit\n"
    else:
        binary += b"c\ncircuit\n"
    assert write_aig(circuit) == binary


def test_a_negation_is_one_not_gate_for_all_its_readers():
    circuit = parse_aag("aag 5 2 0 3 3\n2\n4\n7\n9\n11\n6 3 5\n8 3 4\n10 7 9\n")
    assert circuit.kinds.tolist().count(Gate.NOT) == 5  # of both inputs and of all three gates
    assert circuit.kinds.tolist().count(Gate.AND) == 3
    plain = parse_aag("aag 3 2 0 1 1\n2\n4\n6\n6 2 4\n")
    assert plain.kinds.tolist() == [Gate.AND]


def test_variables_may_have_any_numbers_and_gates_any_order():
    circuit = parse_aag("aag 100 2 0 1 2\n200\n20\n31\n30 200 41\n40 21 21\n")
    inputs = circuits.all_inputs(2)
    assert np.array_equal(truth_table(circuit)[:, 0], ~(inputs[:, 0] & inputs[:, 1]))
    far = parse_aag("aag 1000000000 1 0 1 1\n2000000000\n1999999999\n1999999998 2000000000 1\n")
    assert truth_table(far).tolist() == [[True], [False]]


def test_a_long_symbol_is_refused_in_words():
    with pytest.raises(KroghError, match="a name may have 4,096 characters; got 5,000"):
        parse_aag("aag 1 1 0 1 0\n2\n2\ni0 " + 5000 * "a" + "\n", "f")


def test_symbols_may_be_missing_in_part_repeated_and_of_any_letters():
    text = "aag 2 2 0 2 0\n2\n4\n2\n4\ni1 a name [3]\no0 ü\no1 ü\nc\ni0 this is a comment\n"
    circuit = parse_aag(text)
    assert circuit.input_names == ("x0", "a name [3]") and circuit.output_names == ("ü", "ü_2")
    assert parse_aag("aag 2 2 0 1 0\n2\n4\n2\ni1 x0\n").input_names == ("x0_2", "x0")
    assert parse_aag("aag 1 1 0 1 0\n2\n2\nc").input_names == ("x0",)
    assert parse_aag("aag 1 1 0 1 0\r\n2\r\n2\r\ni0 a\r\n").input_names == ("a",)


@st.composite
def described(draw):
    """What a random circuit is made of, all of whose gates are outputs."""
    m, g = draw(st.integers(1, 4)), draw(st.integers(0, 12))
    kinds = draw(st.lists(st.sampled_from(list(Gate)), min_size=g, max_size=g))
    parents = [(draw(st.integers(-2, m + i - 1)), draw(st.integers(-2, m + i - 1))) for i in range(g)]
    parents = [(a, a) if kind.arity == 1 else (a, b) for kind, (a, b) in zip(kinds, parents, strict=True)]
    outputs = (*draw(st.permutations(range(m, m + g))), draw(st.integers(-2, m - 1)))
    return "drawn", m, [kind.value for kind in kinds], parents, outputs


@quiet
@given(described())
def test_ascii_and_binary_hold_the_same(parts):
    circuit = Circuit(*parts)
    text, content = write_aag(circuit), write_aig(circuit)
    one, other = parse_aag(text, "drawn.aag"), parse_aig(content, "drawn.aig")
    assert equal(one, other)
    assert np.array_equal(truth_table(one), truth_table(circuit))
    assert write_aag(other) == text and write_aig(one) == content  # and nothing changes from there on


@quiet
@given(st.lists(st.integers(0, 2**50), max_size=30))
def test_numbers_are_seven_bits_a_byte(numbers):
    def one(number):
        low, rest = number % 128, number // 128
        return [low] if not rest else [low + 128, *one(rest)]

    expected = bytes(octet for number in numbers for octet in one(number))
    assert encode_numbers(np.array(numbers, np.int64)) == expected


@pytest.mark.parametrize(
    ("number", "octets"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "80 01"),
        (2**8 + 2, "82 02"),
        (2**14 - 1, "ff 7f"),
        (2**14 + 3, "83 80 01"),
        (2**28 - 1, "ff ff ff 7f"),
        (2**28 + 7, "87 80 80 80 01"),
    ],
)
def test_numbers_of_the_specification(number, octets):
    assert encode_numbers(np.array([number])) == bytes.fromhex(octets)


def test_large_differences_take_several_bytes():
    """One gate that reads the first and the last of 5,000 inputs: differences 2 and 9,998."""
    circuit = Circuit("far", 5000, [Gate.AND], [(0, 4999)], (5000,))
    content = write_aig(circuit)
    assert content.startswith(b"aig 5001 5000 0 1 1\n10002\n\x02\x8e\x4ec\n")
    assert parse_aig(content).parents.tolist() == [[4999, 0]]


def test_large_files_round_trip(tmp_path):
    circuit = circuits.multiplier(12)
    bits = np.random.default_rng(0).integers(0, 2, (500, 24)).astype(bool)
    for suffix in (".aag", ".aig", ".circuit"):
        path = circuits.save_circuit(circuit, tmp_path / f"product{suffix}")
        back = circuits.load_circuit(path)
        assert np.array_equal(circuits.evaluate(back, bits), circuits.evaluate(circuit, bits))
        assert back.input_names == circuit.input_names and back.output_names == circuit.output_names
        assert back.name == ("multiplier-12" if suffix == ".circuit" else "product")
    renamed = tmp_path / "product.aig"
    renamed.write_bytes((tmp_path / "product.aag").read_bytes())
    assert circuits.load_circuit(renamed).gates == circuits.load_circuit(tmp_path / "product.aag").gates


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", (1, 1), "the file ends where the header 'aag M I L O A' should be"),
        ("hello", (1, 1), "the first word must be 'aag'; got 'hello'"),
        ("aig 1 1 0 1 0\n2\n", (1, 1), "this is binary AIGER (.aig)"),
        ("aag 1 1 0 1\n", (1, 12), "the header is 'aag M I L O A'"),
        ("aag 1 1 0 1 x\n", (1, 13), "expected a whole number in the header; got 'x'"),
        ("aag 1 1 0 -1 0\n", (1, 11), "expected a whole number in the header; got '-1'"),
        ("aag 1 0 1 1 0\n2\n2\n", (2, 2), "expected latch 0, 'latch next', and what it begins with; got '2'"),
        ("aag 1 0 1 1 0\n2 3 4\n2\n", (2, 5), "begins with 0, 1, or not initialised with itself (2); got 4"),
        ("aag 2 0 1 1 0\n2 4\n2\n", (2, 3), "no input, latch or gate defines the literal 4"),
        ("aag 9000000 0 9000000 1 0\n", (1, 15), "may have 1,048,576 latches; got L=9000000"),
        ("aag 1 1 0 1 0 1\n2\n2\n2\n", (1, 15), "B=1: bad states"),
        ("aag 1 1 0 1 0 0 0 2\n", (1, 19), "J=2"),
        ("aag 1 1 0 0 0\n2\n", (1, 11), "no outputs (O=0)"),
        ("aag 2 2 0 1 1\n", (1, 5), "M must be at least I + L + A = 3; got M=2"),
        ("aag 9999999999999999999999 1 0 1 0\n", (1, 5), "too large"),
        ("aag 3 2 0 1 1\n2\n4\n6\n", (5, 1), "the file ends where gate 0"),
        ("aag 3 2 0 1 1\n2\n4\n6\n6 2\n", (5, 4), "expected gate 0, 'left right right': 3 numbers; got '6 2'"),
        ("aag 3 2 0 1 1\n2\n4\n6\n6 2 4 4\n", (5, 7), "3 numbers; got '6 2 4 4'"),
        ("aag 3 2 0 1 1\n2\n4\n6\n6 2  a\n", (5, 6), "expected a whole number in gate 0"),
        ("aag 3 2 0 1 1\n2\n4\n6\n7 2 4\n", (5, 1), "must be an even literal from 2 on; got 7"),
        ("aag 3 2 0 1 1\n2\n0\n6\n6 2 4\n", (3, 1), "an input must be an even literal from 2 on; got 0"),
        ("aag 3 2 0 1 1\n2\n4\n6\n4 2 4\n", (5, 1), "the literal 4 is defined twice; first on line 3"),
        ("aag 3 2 0 1 1\n2\n4\n9\n6 2 4\n", (4, 1), "the literal 9 is beyond 2M + 1 = 7"),
        ("aag 3 2 0 1 1\n2\n4\n6\n6 2 18\n", (5, 5), "the literal 18 is beyond 2M + 1 = 7"),
        ("aag 4 2 0 1 1\n2\n4\n9\n6 2 4\n", (4, 1), "no input, latch or gate defines the literal 9"),
        ("aag 4 2 0 1 1\n2\n4\n6\n6 8 4\n", (5, 3), "no input, latch or gate defines the literal 8"),
        ("aag 4 2 0 1 1\n2\n4\n6\n6 2 9\n", (5, 5), "no input, latch or gate defines the literal 9"),
        ("aag 4 1 0 1 3\n2\n4\n4 2 2\n6 9 2\n8 7 2\n", (5, 1), "cyclic: 6 reads 8 reads 6 (literals of gates)"),
        ("aag 1 1 0 1 0\n2\n2\nx0 a\n", (4, 1), "expected a symbol"),
        ("aag 1 1 0 1 0\n2\n2\ni0\n", (4, 1), "expected a symbol"),
        ("aag 1 1 0 1 0\n2\n2\ni1 a\n", (4, 2), "the circuit has 1 input, numbered from 0"),
        ("aag 1 1 0 1 0\n2\n2\no0 a\no0 b\n", (5, 1), "o0 has a name already: 'a'"),
        ("aag 1 1 0 1 0\n2\n2 3\n", (3, 3), "expected the literal of output 0: one number; got '2 3'"),
    ],
)
def test_errors_name_line_and_column(text, place, message):
    with pytest.raises(KroghError) as error:
        parse_aag(text, "file.aag")
    line, column = place
    assert str(error.value).startswith(f"file.aag, line {line}, column {column}: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (b"aag 1 1 0 1 0\n2\n2\n", "line 1, column 1", "this is ASCII AIGER (.aag)"),
        (b"aig 4 2 0 1 1\n6\n\x02\x02", "line 1, column 5", "M must equal I + L + A = 3; got M=4"),
        (b"aig 900000000 900000000 0 1 0\n2\n", "line 1, column 15", "may have 1,048,576 inputs"),
        (b"aig 3 2 0 1 1\n9\n\x02\x02", "line 2, column 1", "beyond 2M + 1 = 7"),
        (b"aig 3 2 0 1 1\n6\n\x02", "byte 17", "the file ends within gate 0 of 1"),
        (b"aig 3 2 0 1 1\n6\n\x02\x82", "byte 18", "the file ends within gate 0 of 1"),
        (b"aig 3 2 0 1 1\n6\n\x00\x02", "byte 16", "gate 0 (literal 6) has the differences 0 and 2"),
        (b"aig 4 2 0 1 2\n8\n\x02\x02\x01\x7f", "byte 18", "gate 1 (literal 8) has the differences 1 and 127"),
        (b"aig 3 2 0 1 1\n6\n\x02" + b"\x80" * 9 + b"\x01", "byte 17", "a number of gate 0 has 10 bytes"),
        (b"aig 3 2 0 1 1\n6\n\x02\x02i9 a\n", "line 3, column 2", "the circuit has 2 inputs"),
    ],
)
def test_errors_of_binary_files_name_the_byte(content, place, message):
    with pytest.raises(KroghError) as error:
        parse_aig(content, "file.aig")
    assert str(error.value).startswith(f"file.aig, {place}: ")
    assert message in str(error.value)


def test_dangling_gates_are_refused_dropped_or_kept():
    text = "aag 40 2 0 1 3\n2\n4\n6\n80 9 5\n8 2 5\n6 2 4\n"
    with pytest.raises(KroghError, match=r"file.aag, line 5, column 1: 2 dangling gates .*: literal 80, 8 \(leave"):
        parse_aag(text, "file.aag")
    assert parse_aag(text, dangling="drop").gates == 1
    assert parse_aag(text, dangling="keep").gates == 5
    content = write_aig(parse_aag(text, dangling="keep"))
    with pytest.raises(KroghError, match=r"file.aig: 2 dangling gates .*: literal [0-9]+, [0-9]+ "):
        parse_aig(content, "file.aig")
    assert parse_aig(content, dangling="keep").gates == 5


def test_names_that_come_again_are_numbered_in_linear_time():
    """The numbers are those that trying them all from 2 on finds; 20,000 equal names took half a minute."""

    def tried(names: list[str]) -> list[str]:
        seen: set[str] = set()
        for place, name in enumerate(names):
            candidates = itertools.chain([name], (f"{name}_{copy}" for copy in itertools.count(2)))
            names[place] = next(x for x in candidates if x not in seen and (x == name or x not in given))
            seen.add(names[place])
        return names

    def read(names: list[str]) -> list[str]:
        symbols = "".join(f"o{place} {name}\n" for place, name in enumerate(names))
        return list(parse_aag(f"aag 1 1 0 {len(names)} 0\n2\n" + "2\n" * len(names) + symbols).output_names)

    draw = np.random.default_rng(0)
    for _ in range(30):
        names = draw.choice(["a", "a_2", "a_3", "a_2_2", "b", "a_5"], draw.integers(1, 30)).tolist()
        given = set(names)
        assert read(names) == tried([*names])
    begun = time.process_time()
    assert read(["a"] * 20_000)[-1] == "a_20000" and time.process_time() - begun < 5


@pytest.mark.parametrize("name", ["a.aag", "a.aig", "a.circuit", "a.blif"])
def test_a_byte_order_mark_is_passed_over(tmp_path, name):
    path = circuits.save_circuit(circuits.adder(1), tmp_path / name)
    plain = circuits.load_circuit(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert np.array_equal(truth_table(circuits.load_circuit(path)), truth_table(plain))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.aag", "aag 1 1 0 1 0\n2\n2\ni0 a{}b\n", "line 4, column 1: a name has no control characters; got "),
        ("a.blif", ".inputs a{}b\n.outputs y\n.names a{}b y\n1 1\n", "line 1, column 9: a word has no control ch"),
        ("a.circuit", 'inputs "a{}b"\noutputs "a{}b"\n', "line 1, column 8: a name has no control characters; got "),
        ("a.circuit", 'circuit "a{}b"\ninputs a\noutputs a\n', "line 1, column 9: a name has no control characters"),
    ],
)
@pytest.mark.parametrize("letter", ["\x1b", "\x00", "\x07", "\x7f", "\x9b"])
def test_control_characters_in_names_are_refused(tmp_path, name, text, message, letter):
    """A terminal would obey them."""
    (tmp_path / name).write_text(text.replace("{}", letter), encoding="utf-8")
    with pytest.raises(KroghError) as error:
        circuits.load_circuit(tmp_path / name)
    assert message in str(error.value) and str(error.value).isprintable()


def test_any_bytes_are_read_or_refused_with_a_word():
    """Damage to a good file never ends in another exception."""
    good = {parse_aag: HALF_ADDER.encode(), parse_aig: SPECIFICATION["half adder"][1]}
    random = np.random.default_rng(0)
    refused = 0
    for parse, content in good.items():
        for _ in range(300):
            damaged = bytearray(content)
            for place in random.integers(0, len(content), random.integers(1, 3)):
                damaged[place] = random.integers(0, 256)
            if random.random() < 0.3:
                damaged = damaged[: random.integers(0, len(damaged))]
            try:
                parse(bytes(damaged))
            except KroghError:
                refused += 1
    assert refused > 200


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.aag", "no file"),
        ("no.txt", "no file"),
        ("some.v", r"end with .aag, .aig, .blif, .circuit"),
        ("noname", "end with"),
    ],
)
def test_files_that_are_not_there_or_of_no_known_kind(tmp_path, name, message):
    with pytest.raises(KroghError, match=message):
        circuits.load_circuit(tmp_path / name)


def test_a_file_that_is_no_text(tmp_path):
    path = tmp_path / "noise.circuit"
    path.write_bytes(b"inputs \xff\xfe")
    with pytest.raises(KroghError, match="no text in UTF-8: byte 7"):
        circuits.load_circuit(path)
    with pytest.raises(KroghError, match="cannot be written"):
        circuits.save_circuit(circuits.adder(1), tmp_path / "missing" / "a.aag")
