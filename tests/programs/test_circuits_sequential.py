"""Circuits with latches, and BLIF: against simulators that know nothing of gates, layers or unrolling."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from peak_memory import forget_peak, peak_kilobytes

from krogh.errors import KroghError
from krogh.networks.circuits import compile_circuit
from krogh.programs import circuits
from krogh.programs.budgets import CIRCUIT
from krogh.programs.circuits.aiger import encode_numbers, parse_aag, parse_aig
from krogh.programs.circuits.blif import parse_blif, write_blif
from krogh.programs.circuits.circuit import evaluate

TOGGLE = (
    "aag 7 2 1 2 4\n2\n4\n6 8\n6\n7\n8 4 10\n10 13 15\n12 2 6\n14 3 7\ni0 enable\ni1 reset\nl0 held\no0 q\no1 not-q\n"
)
"""The specification's toggle flip-flop with enable and (active low) reset."""

COUNTER = """# two bits that count
.model counter
.inputs up
.outputs low \\
  high
.latch n0 low re clock 0
.latch n1 high re clock 1
.names up low n0
10 1
01 1
.names up low high n1
11- 0
--1 0    # not what one would write, but a table of where it is 0
.names unused
.end
"""


def run_aag(text: str, rows: list[list[int]], initial: dict[int, int]) -> list[list[int]]:
    """The outputs of every step, by evaluating literals one by one as the format's specification says."""
    lines = text.split("\n")
    _, i, latches, o, a = map(int, lines[0].split()[1:6])
    inputs = [int(line) for line in lines[1 : 1 + i]]
    held = [list(map(int, line.split())) for line in lines[1 + i : 1 + i + latches]]
    outputs = [int(line) for line in lines[1 + i + latches : 1 + i + latches + o]]
    gates = {int(x.split()[0]): tuple(map(int, x.split()[1:])) for x in lines[1 + i + latches + o :][:a]}
    state = {}
    for place, (own, _, *reset) in enumerate(held):
        state[own] = initial[place] if reset == [own] else (reset or [0])[0]
    found = []
    for row in rows:
        values = dict(zip(inputs, row, strict=True)) | state

        def value(literal: int) -> int:
            if literal < 2:
                return literal
            even = literal & ~1
            if even not in values:  # noqa: B023
                one, other = gates[even]
                values[even] = value(one) & value(other)  # noqa: B023
            return values[even] ^ (literal & 1)  # noqa: B023

        found.append([value(literal) for literal in outputs])
        state = {own: value(following) for own, following, *_ in held}
    return found


def random_aag(seed: int) -> str:
    """Up to three inputs and latches with every kind of first value, and up to eight gates."""
    draw = random.Random(seed)
    i, latches, gates = draw.randint(0, 3), draw.randint(1, 3), draw.randint(0, 8)
    lines = [f"aag {i + latches + gates} {i} {latches} 2 {gates}", *(str(2 * k + 2) for k in range(i))]
    top = 2 * (i + latches + gates) + 1
    for k in range(latches):
        own = 2 * (i + k + 1)
        lines.append(f"{own} {draw.randint(0, top)}{draw.choice(['', ' 0', ' 1', f' {own}'])}")
    lines += [str(draw.randint(0, top)) for _ in range(2)]
    for k in range(gates):
        own = 2 * (i + latches + k + 1)
        lines.append(f"{own} {draw.randint(0, own - 1)} {draw.randint(0, own - 1)}")
    return "\n".join(lines) + "\n"


def as_binary(text: str) -> bytes:
    """The same graph in the binary format, as its specification says."""
    lines = text.strip().split("\n")
    _, i, latches, o, a = map(int, lines[0].split()[1:6])
    body = [" ".join(line.split()[1:]) for line in lines[1 + i : 1 + i + latches]]
    body += lines[1 + i + latches : 1 + i + latches + o]
    numbers = []
    for line in lines[1 + i + latches + o :][:a]:
        left, one, other = map(int, line.split())
        one, other = max(one, other), min(one, other)
        numbers += [left - one, one - other]
    header = lines[0].replace("aag", "aig")
    return ("\n".join([header, *body]) + "\n").encode() + encode_numbers(np.array(numbers, np.int64))


@pytest.mark.parametrize("seed", range(40))
def test_unrolled_files_do_what_a_simulator_does(seed):
    text, steps = random_aag(seed), 3
    inputs = int(text.split()[2])
    free = [k for k, line in enumerate(text.split("\n")[1 + inputs :][: int(text.split()[3])])
            if line.split()[2:] == line.split()[:1]]  # fmt: skip
    ascii_, binary = (parse(content, "f", "drop", steps) for parse, content in
                      ((parse_aag, text), (parse_aig, as_binary(text))))  # fmt: skip
    draw = np.random.default_rng(seed)
    bits = draw.integers(0, 2, (20, inputs * steps + len(free)))
    found = evaluate(ascii_, bits)
    assert np.array_equal(found, evaluate(binary, bits))
    for row, outputs in zip(bits, found, strict=True):
        rows = row[: inputs * steps].reshape(steps, inputs).tolist()
        expected = run_aag(text, rows, dict(zip(free, row[inputs * steps :].tolist(), strict=True)))
        assert outputs.reshape(steps, 2).astype(int).tolist() == expected


def test_names_of_steps_and_a_network_of_a_sequential_circuit():
    circuit = parse_aag(TOGGLE, "toggle.aag", steps=4)
    assert circuit.input_names == tuple(f"{name}@{t}" for t in range(4) for name in ("enable", "reset"))
    assert circuit.output_names == tuple(f"{name}@{t}" for t in range(4) for name in ("q", "not-q"))
    compiled = compile_circuit(circuit)
    assert compiled.check().holds
    run = compiled.run([[1, 1, 1, 1, 0, 1, 1, 1]])[0].reshape(4, 2)
    assert run[:, 0].tolist() == [-1, 1, -1, -1] and np.array_equal(run[:, 1], -run[:, 0])
    free = parse_aag("aag 1 0 1 1 0\n2 3 2\n2\nl0 bit\n", steps=2)
    assert free.input_names == ("bit@0",) and evaluate(free, [[0], [1]]).tolist() == [[False, True], [True, False]]


def test_blif_with_latches():
    circuit = parse_blif(COUNTER, "counter.blif", "drop", steps=5)
    assert circuit.name == "counter" and circuit.input_names == tuple(f"up@{t}" for t in range(5))
    for ups in itertools.product((0, 1), repeat=5):
        low, high, expected = 0, 1, []
        for up in ups:
            expected += [low, high]
            low, high = up ^ low, int(not ((up and low) or high))
        assert evaluate(circuit, [ups])[0].astype(int).tolist() == expected


@pytest.mark.parametrize("seed", range(20))
def test_tables_of_any_width_against_their_rows(seed):
    draw = random.Random(seed)
    width = draw.randint(1, 5)
    rows = ["".join(draw.choice("01-") for _ in range(width)) for _ in range(draw.randint(0, 4))]
    value = draw.choice("01")
    names = " ".join(f"v{k}" for k in range(width))
    table = "\n".join(f"{row} {value}" for row in rows)
    circuit = parse_blif(f".model t\n.inputs {names}\n.outputs y\n.names {names} y\n{table}\n.end")
    for bits in itertools.product("01", repeat=width):
        matched = any(all(a in ("-", b) for a, b in zip(row, bits, strict=True)) for row in rows)
        expected = matched == (value == "1") if rows else False
        assert evaluate(circuit, [[int(bit) for bit in bits]])[0, 0] == expected


@pytest.mark.parametrize("make", [circuits.adder, circuits.multiplier, circuits.comparator])
def test_blif_comes_back_as_it_was_written(make, tmp_path):
    circuit = make(3)
    back = circuits.load_circuit(circuits.save_circuit(circuit, tmp_path / "c.blif"))
    bits = circuits.all_inputs(circuit.inputs)
    assert np.array_equal(evaluate(back, bits), evaluate(circuit, bits))
    assert back.input_names == circuit.input_names and back.output_names == circuit.output_names
    odd = circuits.parse_circuit('inputs "a b" c\noutputs "x=1"=z\nz = AND "a b" TRUE\nw = OR z c\n', dangling="keep")
    assert np.array_equal(
        evaluate(parse_blif(write_blif(odd), dangling="drop"), circuits.all_inputs(2)),
        evaluate(odd, circuits.all_inputs(2)),
    )


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "", "no outputs; add a line such as '.outputs y'"),
        (".model a\n.outputs y\n.end", "line 2, column 10", "the signal 'y' is not defined"),
        (".outputs y\n.names y y\n1 1", "line 2, column 10", "cyclic: y reads y"),
        (".outputs y\n.names z y\n1 1\n.names y z\n1 1", "line 2, column 10", "cyclic: y reads z reads y"),
        (".inputs a a", "line 1, column 11", "'a' is defined twice; first on line 1"),
        (".inputs a\n.outputs y\n.names a y\n11 1", "line 4, column 1", "a row of 'y' has 1 of 0, 1 and -; got '11'"),
        (".inputs a\n.outputs y\n.names a y\n1", "line 4, column 1", "has 1 input, a space and 0 or 1; got 1 word"),
        (".inputs a\n.outputs y\n.names a y\n1 -", "line 4, column 3", "a don't-care output is refused"),
        (".inputs a\n.outputs y\n.names a y\n1 1\n0 0", "line 5, column 3", "not both"),
        (".inputs a\n1 1", "line 2, column 1", "a row belongs to a .names"),
        (".model a\n.exdc", "line 2, column 1", "don't-care networks (.exdc)"),
        (".model a\n.subckt b", "line 2, column 1", "flatten the hierarchy first"),
        (".model a\n.end\n.model b", "line 3, column 1", "one model is read"),
        (".latch a", "line 1, column 1", "a latch is '.latch next state'"),
        (".latch a b xx c 0", "line 1, column 12", "a latch is of the kind fe, re"),
        (".latch a b 7", "line 1, column 12", "a latch begins with 0, 1, 2 (either) or 3 (unknown); got '7'"),
        (".nonsense", "line 1, column 1", "'.nonsense' is no command that is read"),
        (f".inputs {'a' * 5000}", "line 1, column 9", "a word may have 4,096 characters; got 5,000"),
    ],
)
def test_blif_that_is_none(text, place, message):
    with pytest.raises(KroghError) as error:
        parse_blif(text, "f.blif")
    assert str(error.value).startswith(f"f.blif{', ' if place else ''}{place}: ") and message in str(error.value)


def test_names_that_are_made_up_are_free():
    """An output that is listed twice, and what a latch holds next, beside outputs of just those names."""
    twice = parse_blif(".inputs a b\n.outputs y y_2 y\n.names a b y\n11 1\n.names a y_2\n1 1\n.end\n")
    assert twice.output_names == ("y", "y_2", "y_2'") and len(twice.outputs) == 3
    text = ".inputs a\n.outputs q' q\n.latch n q 0\n.names a q n\n11 1\n.names a q'\n1 1\n.end\n"
    assert parse_blif(text, steps=2).output_names == ("q'@0", "q@0", "q'@1", "q@1")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.blif", ".model m\n.inputs {names}\n.outputs i0\n.end\n"),
        ("a.blif", ".model m\n.inputs a\n.outputs {names}\n.end\n"),
        ("a.blif", ".model m\n.inputs a\n.outputs y\n.names {names}\n"),
        ("a.blif", ".model m\n.inputs a\n.outputs y\n.names a y\n{rows}.end\n"),
        ("a.circuit", "inputs {names}\noutputs i0\n"),
        ("a.circuit", "{lines}outputs i0\n"),
        ("a.circuit", "inputs a\noutputs {names}\n"),
    ],
    ids=["inputs", "outputs", "reads", "rows", "text inputs", "text lines of inputs", "text outputs"],
)
def test_what_a_circuit_lists_is_bounded_while_it_is_read(tmp_path, monkeypatch, name, text):
    """The memory is that of the text and of what is allowed, not of what is listed."""
    for what in ("inputs", "outputs", "gates"):
        monkeypatch.setitem(CIRCUIT, what, CIRCUIT[what]._replace(most=1000))
    monkeypatch.setattr("krogh.programs.circuits.blif.MOST_WORDS", 3001)
    monkeypatch.setattr("krogh.programs.circuits.files.MOST_WORDS", 3001)
    count = 1_000_000
    names = " ".join(f"i{place}" for place in range(count)) if "{names}" in text else ""
    lines = "".join(f"inputs i{place}\n" for place in range(count)) if "{lines}" in text else ""
    file = tmp_path / name
    file.write_text(text.format(names=names, lines=lines, rows="1 1\n" * count if "{rows}" in text else ""))
    del names, lines
    forget_peak()
    before = peak_kilobytes()
    with pytest.raises(KroghError, match=r"at most 1,000 are allowed|may have 3,001 words"):
        circuits.load_circuit(file)
    assert peak_kilobytes() - before < 100_000


def test_only_gates_count_as_gates(monkeypatch):
    monkeypatch.setitem(CIRCUIT, "gates", CIRCUIT["gates"]._replace(most=1000))
    chain = "".join(f".names n{place} a n{place + 1}\n11 1\n" for place in range(260))
    assert parse_blif(f".inputs n0 a\n.outputs n260\n{chain}.end\n").gates == 260
    monkeypatch.setitem(CIRCUIT, "words in tables", CIRCUIT["words in tables"]._replace(most=1000))
    with pytest.raises(KroghError, match=r"has 1,00\d words in tables; at most 1,000"):
        parse_blif(f".inputs n0 a\n.outputs n260\n{chain}.end\n")


def test_steps_are_asked_for_and_refused(tmp_path, monkeypatch):
    with pytest.raises(KroghError, match=r"f: the circuit is sequential \(L=1.*--steps 8"):
        parse_aag(TOGGLE, "f")
    with pytest.raises(KroghError, match="steps must be an integer between 1 and"):
        parse_aag(TOGGLE, "f", steps=0)
    with pytest.raises(KroghError, match=r"the circuit has no latches.*leave out steps"):
        circuits.load_circuit(circuits.save_circuit(circuits.adder(2), tmp_path / "a.circuit"), steps=2)
    monkeypatch.setitem(CIRCUIT, "gates", CIRCUIT["gates"]._replace(most=100))
    with pytest.raises(KroghError, match=r"unrolled for 50 steps has 400 gates; at most 100 .* .take fewer steps"):
        parse_aag(TOGGLE, "f", steps=50)


def test_latches_times_steps_are_bounded_before_the_work():
    latches = 100_000
    text = f"aag {latches} 0 {latches} 1 0\n" + "".join(f"{2 * k} {2 * k}\n" for k in range(1, latches + 1)) + "2\n"
    with pytest.raises(KroghError, match=r"has 100,000,000,000 latches times steps; at most 67,108,864 .*take fewer"):
        parse_aag(text, "f", steps=1_000_000)


def test_what_a_file_declares_is_bounded_before_it_is_read(tmp_path, monkeypatch):
    (tmp_path / "wide.aig").write_bytes(b"aig 16777216 16777216 0 1 0\n2\n")
    with pytest.raises(KroghError, match="may have 1,048,576 inputs; got I=16777216"):
        circuits.load_circuit(tmp_path / "wide.aig")
    monkeypatch.setitem(CIRCUIT, "bytes", CIRCUIT["bytes"]._replace(most=10))
    for name in ("wide.aig", "a.blif", "a.circuit"):
        (tmp_path / name).write_bytes(b"x" * 11)
        with pytest.raises(KroghError, match="has 11 bytes; at most 10 are allowed"):
            circuits.load_circuit(tmp_path / name)
