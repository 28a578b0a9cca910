"""Every machine of the library against what it says it does, on all short words."""

from __future__ import annotations

import itertools
import math

import pytest

from krogh.errors import KroghError
from krogh.programs.machines import write_machine
from krogh.programs.machines.files import parse_machine, parse_machine_file
from krogh.programs.machines.library import library, library_names, library_steps, load_machine, load_machine_file
from krogh.programs.machines.running import run


def is_balanced(word, pairs):
    while any(pair in word for pair in pairs):
        for pair in pairs:
            word = word.replace(pair, "")
    return word == ""


def halves(word, sign, letters):
    """The two parts around a sign that stands once, where they are made of the letters; else None."""
    parts = word.split(sign)
    return parts if len(parts) == 2 and set("".join(parts)) <= set(letters) else None


def value(bits):
    return int(bits or "0", 2)


def unary(function, sign):
    def oracle(word):
        parts = halves(word, sign, "1")
        return None if parts is None else ("halt", "1" * function(len(parts[0]), len(parts[1])))

    return oracle


def add_binary(word):
    parts = halves(word, "+", "01")
    if parts is None:
        return None
    total, width = value(parts[0]) + value(parts[1]), max(map(len, parts))
    return "halt", f"{total:0{width}b}" if width else ""


def subtract_binary(word):
    parts = halves(word, "-", "01")
    if parts is None:
        return None
    difference, width = value(parts[0]) - value(parts[1]), len(parts[0])
    if difference < 0:
        return "reject"
    return "halt", f"{difference:0{width}b}" if width else ""


def greatest_divisor(word):
    parts = halves(word, "#", "1")
    if parts is None:
        return None
    a, b = map(len, parts)
    return ("halt", "1" * math.gcd(a, b)) if a and b else "reject"


def decides(test):
    return lambda word: "accept" if test(word) else "reject"


def computes(function):
    return lambda word: ("halt", function(word))


def is_prime(n):
    return n >= 2 and all(n % d for d in range(2, n))


# What a machine makes of a word: "accept" or "reject"; ("halt", tape); None where the word has not the form it reads.
ORACLES = {
    "anbn": decides(lambda w: w == "a" * (len(w) // 2) + "b" * (len(w) // 2)),
    "anbncn": decides(lambda w: w == "".join(c * (len(w) // 3) for c in "abc")),
    "balanced-brackets": decides(lambda w: is_balanced(w, ["()"])),
    "binary-addition": add_binary,
    "binary-comparison": lambda w: (
        "reject" if (p := halves(w, "<", "01")) is None else ("accept" if value(p[0]) < value(p[1]) else "reject")
    ),
    "binary-decrement": lambda w: ("halt", f"{value(w) - 1:0{len(w)}b}") if value(w) else "reject",
    "binary-increment": computes(lambda w: f"{value(w) + 1:0{len(w)}b}"),
    "binary-subtraction": subtract_binary,
    "binary-to-unary": computes(lambda w: "1" * value(w)),
    "busy-beaver-2": lambda w: None if w else ("halt", "1111"),
    "busy-beaver-2-3": lambda w: None,
    "busy-beaver-3": lambda w: None if w else ("halt", "11111"),
    "busy-beaver-3-ones": lambda w: None if w else ("halt", "111111"),
    "busy-beaver-4": lambda w: None if w else ("halt", "1" + "0" + "1" * 12),
    "collatz": decides(lambda w: len(w) > 0),
    "complement": computes(lambda w: w.translate(str.maketrans("01", "10"))),
    "contains-101": decides(lambda w: "101" in w),
    "copy": computes(lambda w: f"{w}#{w}"),
    "counter": decides(lambda w: "#" in w),
    "divisible-by-seven": decides(lambda w: int(w or "0") % 7 == 0),
    "divisible-by-three": decides(lambda w: value(w) % 3 == 0),
    "double": computes(lambda w: w + w),
    "equal-counts": decides(lambda w: w.count("a") == w.count("b")),
    "equal-words": decides(lambda w: (p := halves(w, "#", "01")) is not None and p[0] == p[1]),
    "gcd": greatest_divisor,
    "majority": decides(lambda w: w.count("1") > w.count("0")),
    "palindrome": decides(lambda w: w == w[::-1]),
    "parity": decides(lambda w: w.count("1") % 2 == 1),
    "powers-of-two": decides(lambda w: len(w) > 0 and len(w) & (len(w) - 1) == 0),
    "primes": decides(lambda w: is_prime(len(w))),
    "reverse": computes(lambda w: w[::-1]),
    "sort": computes(lambda w: "".join(sorted(w))),
    "two-kinds-of-brackets": decides(lambda w: is_balanced(w, ["()", "[]"])),
    "unary-addition": lambda w: "reject" if (made := unary(int.__add__, "+")(w)) is None else made,
    "unary-multiplication": unary(int.__mul__, "*"),
    "unary-subtraction": unary(lambda a, b: max(a - b, 0), "-"),
    "unary-to-binary": computes(lambda w: f"{len(w):b}"),
}


def short_inputs(name, machine, most=700):
    """All words of input symbols, the shorter first, as many as have time."""
    letters = [machine.alphabet[number] for number in machine.input_symbols]
    for length in range(15):
        if len(letters) ** length > most or library_steps(name, length) * len(letters) ** length > 300_000:
            return
        yield from ("".join(word) for word in itertools.product(letters, repeat=length))


def result_of(done):
    return "halt" if done.label is None else ("reject", "accept")[done.label]


def test_the_library_has_what_students_know():
    assert set(library_names()) == set(ORACLES)
    assert list(library()) == list(library_names())
    for machine in library().values():
        assert machine.default_input is not None


@pytest.mark.parametrize("name", sorted(ORACLES))
def test_a_machine_does_what_it_says_on_all_short_words(name):
    """Its decision or the tape it leaves, within the steps that the library promises."""
    machine = load_machine(name)
    read = 0
    for word in short_inputs(name, machine):
        done = run(machine, word, library_steps(name, len(word)))
        assert done.halted_at is not None, word
        expected = ORACLES[name](word)
        if isinstance(expected, tuple):
            assert (result_of(done), done.output) == expected, word
        elif expected is not None:
            assert result_of(done) == expected, word
        read += expected is not None
    assert read >= 10 or name.startswith("busy-beaver")


@pytest.mark.parametrize("name", sorted(ORACLES))
def test_examples_and_round_trip(name):
    machine, examples, summary = load_machine_file(name)
    assert summary and not summary.endswith(".")
    assert examples and all(example.steps is not None for example in examples)
    for example in examples:
        done = run(machine, example.word, example.steps)
        assert done.halted_at == example.steps
        assert example.result == ("halt" if done.label is None else ("reject", "accept")[done.label])
        assert example.output in (None, done.output)
        expected = ORACLES[name](example.word)
        if expected is not None:
            assert example.result == (expected if isinstance(expected, str) else expected[0])
    assert parse_machine(write_machine(machine)) == machine


@pytest.mark.parametrize(
    "name,states,steps,ones",
    [
        ("busy-beaver-2", 2, 6, 4),
        ("busy-beaver-3", 3, 21, 5),
        ("busy-beaver-3-ones", 3, 14, 6),
        ("busy-beaver-4", 4, 107, 13),
        ("busy-beaver-2-3", 2, 38, 9),
    ],
)
def test_busy_beavers_reach_the_known_values(name, states, steps, ones):
    machine = load_machine(name)
    done = run(machine, "", 1000)
    assert (len(machine.states) - 1, done.halted_at) == (states, steps)
    assert sum(symbol != "0" for symbol in done.output) == ones


@pytest.mark.parametrize(
    "name,exactly",
    [
        ("copy", lambda m: 2 * (m + 1) * (m + 2)),
        ("reverse", lambda m: (m + 1) * (2 * m + 3)),
        ("parity", lambda m: m + 1),
        ("unary-to-binary", None),
        ("anbn", None),
    ],
)
def test_promised_steps_are_reached(name, exactly):
    """A bound that a word of length 8 attains cannot be made smaller."""
    machine = load_machine(name)
    letters = [machine.alphabet[number] for number in machine.input_symbols]
    words = ["".join(word) for word in itertools.product(letters, repeat=8)]
    taken = {run(machine, word, library_steps(name, 8)).halted_at for word in words}
    assert max(taken) == library_steps(name, 8)
    if exactly is not None:
        assert taken == {exactly(8)}


def test_larger_numbers():
    """Numbers beyond the exhaustive lists: gcd, products and Collatz's longest small way."""
    gcd, times, collatz = (load_machine(name) for name in ("gcd", "unary-multiplication", "collatz"))
    for a, b in [(12, 18), (17, 5), (9, 9), (1, 20)]:
        word = f"{'1' * a}#{'1' * b}"
        assert run(gcd, word, library_steps("gcd", len(word))).output == "1" * math.gcd(a, b)
        word = f"{'1' * a}*{'1' * b}"
        assert run(times, word, library_steps("unary-multiplication", len(word))).output == "1" * (a * b)
    assert run(collatz, "1" * 18, library_steps("collatz", 18)).label == 1


def test_load_by_file_and_by_name(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(write_machine(load_machine("parity")), encoding="utf-8")
    assert load_machine(path) == load_machine(str(path)) == load_machine("parity")
    with pytest.raises(KroghError, match="unknown machine 'palindrom'; did you mean 'palindrome'"):
        load_machine("palindrom")
    with pytest.raises(KroghError, match=r"no file .*none\.yaml"):
        load_machine(tmp_path / "none.yaml")
    with pytest.raises(KroghError, match="unknown machine of the library 'pariti'"):
        library_steps("pariti", 3)
    with pytest.raises(KroghError, match="length must be an integer at least 0"):
        library_steps("parity", -1)


@pytest.mark.parametrize(
    "line,says",
    [
        ("examples: yes", "line 4, column 11: examples are a list"),
        ("examples: [{result: accept}]", "line 4, column 12: an example has the field 'input'"),
        ("examples: [{input: '', result: accepted}]", "unknown result 'accepted'; did you mean 'accept'"),
        (
            "examples: [{input: '', result: halt, steps: many}]",
            "the number of steps is a whole number of at most 18 digits; got 'many'",
        ),
        ("examples: [{input: [1], result: halt}]", "inputs and tapes are texts"),
        ("examples: [{input: '', result: halt, step: 3}]", "did you mean 'steps'"),
    ],
)
def test_examples_that_cannot_be_read(line, says):
    text = f"blank: 0\nstart state: H\ntable: {{H: }}\n{line}\n"
    with pytest.raises(KroghError, match=says):
        parse_machine_file(text)


def test_a_file_without_examples():
    assert parse_machine_file("blank: 0\nstart state: H\ntable: {H: }\n").examples == ()
    assert parse_machine_file("blank: 0\nstart state: H\ntable: {H: }\nexamples:\n").examples == ()
