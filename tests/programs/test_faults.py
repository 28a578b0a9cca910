"""Broken and hostile input: whatever is read becomes a program or one line that says what is wrong, in time and space.

Hundreds of files are made from good ones by changes at random, with fixed seeds, so that a failure can be repeated by
its number. Bombs are small inputs that ask for a lot of work.
"""

from __future__ import annotations

import random
import signal
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from peak_memory import forget_peak, peak_kilobytes

from krogh.errors import KroghError
from krogh.programs import budgets
from krogh.programs.automata import from_regex, parse_automaton, write_automaton
from krogh.programs.groups import cyclic, dihedral, load_group, symmetric
from krogh.programs.groups.group import from_table
from krogh.programs.machines import load_machine, parse_machine, write_machine
from krogh.programs.machines.files import parse_machine_file
from krogh.programs.machines.running import LeftTheTapeError, run

SECONDS, MEGABYTES, LONGEST_LINE = 10, 400, 2_000
MACHINES = [path.read_text() for path in sorted((Path(__file__).parent / "public_style").glob("*.yaml"))]
AUTOMATA = [
    write_automaton(from_regex(pattern)) for pattern in ("(0*10*1)*0*", "(ab)*", "a|bc*", "[0-3]*3", "((a|b)(a|b))*b")
]
PATTERNS = ["(ab)*", "a|b|c", "[a-c]{2,5}x?", r"\d+(\.\d*)?", "((a|b)*c){3}", "(?:0*10*1)*0*", "[^a]b", r"\x41[\-x]*"]
GROUPS = [cyclic(5), dihedral(4), symmetric(3)]
TOKENS = [
    "\t", "\n", " ", ": ", "- ", "{", "}", "[", "]", ",", "'", '"', "|", ">", "&a ", "*a", "<<: *a", "? ", "!!int ",
    "%", "---\n", "...\n", "# ", "~", "null", "0x1F", "1e9", "9" * 30, "\\", "\u2028", "\x85", "é", "𝔸", "\x00",
    "\x07", "L", "R", "N", "write", "start state", "table:", "blank:", "input:", "accept", "a" * 300, "{R: q}",
    "{1000000000}", "{2,1}", "(", ")", "*", "+?", "(?=", "\\b", "[^", "-", "^", "$", ".", "\\p", "\\uD800", "\ufeff",
]  # fmt: skip


@contextmanager
def within(seconds):
    """Fail where something takes longer."""

    def late(*_):
        raise TimeoutError(f"took more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def little_memory():
    """The process does not grow by more than a few hundred megabytes in any of these."""
    forget_peak()
    before = peak_kilobytes()
    yield
    assert (peak_kilobytes() - before) / 1024 < MEGABYTES


def mutated(texts, rng):
    """One of the texts with one to three changes: characters, lines or tokens taken out, doubled, moved or put in."""
    text = rng.choice(texts)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        place, size = rng.randrange(len(text) + 1), rng.choice([1, 1, 2, 5, 20])
        lines = text.splitlines(keepends=True) or [""]
        kind = rng.randrange(9)
        if kind == 0:
            text = text[:place] + text[place + size :]
        elif kind == 1:
            text = text[:place] + text[place : place + size] * 2 + text[place + size :]
        elif kind in (2, 3):
            text = text[:place] + rng.choice(TOKENS) + text[place + rng.choice([0, 0, 1, 3]) :]
        elif kind == 4:
            rng.shuffle(lines)
            text = "".join(lines) if rng.random() < 0.1 else "".join(lines[: len(lines) // 2 + 1])
        elif kind == 5:
            other = rng.choice(texts)
            text = text[:place] + other[rng.randrange(len(other) + 1) :]
        elif kind == 6:
            line = rng.randrange(len(lines))
            text = "".join([*lines[:line], lines[line], *lines[line:]])
        else:
            text = text[:place] + rng.choice(text or " ") + text[place + 1 :]
    return text


def read_or_refused(read, given):
    """What was read; None where it was refused, by one line."""
    with within(SECONDS):
        try:
            return read(given)
        except KroghError as error:
            assert "\n" not in str(error) and 10 < len(str(error)) < LONGEST_LINE, (given, str(error))
            return None


@pytest.mark.parametrize("seed", range(10))
def test_mutated_machines(seed):
    rng, good = random.Random(seed), 0
    for _ in range(40):
        text = mutated(MACHINES, rng)
        found = read_or_refused(lambda text: parse_machine_file(text, "m.yaml", rng.choice([None, "error"])), text)
        if found is not None:
            good += 1
            assert parse_machine(write_machine(found.machine)) == found.machine, text
            with suppress(LeftTheTapeError):
                run(found.machine, found.machine.default_input or "", 50)
    assert 0 < good < 40


@pytest.mark.parametrize("seed", range(5))
def test_mutated_automata(seed):
    rng, good = random.Random(100 + seed), 0
    for _ in range(60):
        text = mutated(AUTOMATA, rng)
        found = read_or_refused(lambda text: parse_automaton(text, "a.yaml"), text)
        if found is not None:
            good += 1
            assert parse_automaton(write_automaton(found)) == found, text
    assert 0 < good < 60


@pytest.mark.parametrize("seed", range(5))
def test_mutated_patterns(seed):
    rng, good = random.Random(200 + seed), 0
    for _ in range(100):
        pattern = mutated(PATTERNS, rng)
        found = read_or_refused(from_regex, pattern)
        good += found is not None and found.accept(np.zeros((1, 0), np.int32)).shape == (1,)
    assert 0 < good < 100


@pytest.mark.parametrize("seed", range(5))
def test_mutated_group_tables(seed):
    rng, good = np.random.default_rng(seed), 0
    for number in range(60):
        table = rng.choice(GROUPS).table.astype(object).copy()
        for _ in range(rng.integers(0, 3)):
            place = tuple(rng.integers(len(table), size=2))
            table[place] = [0, -1, len(table), 10**30, 0.5, float("nan"), None, "x", True, [1]][rng.integers(10)]
        if number % 7 == 0:
            table = table[:-1]
        rows = [*table.tolist(), *([[0]] if number % 7 == 1 else [])]
        found = read_or_refused(from_table, rows)
        good += found is not None
    assert 0 < good < 60


def laughs(levels):
    """Billion laughs: every level lists the one before ten times."""
    lines = ["l0: &l0 [a, a, a, a, a, a, a, a, a, a]"]
    lines += [f"l{k}: &l{k} [{', '.join([f'*l{k - 1}'] * 10)}]" for k in range(1, levels)]
    return "\n".join(lines) + "\n"


HEAD = "blank: _\nstart state: q\n"
WIDE = (
    "  q: &row {" + ", ".join(f"{k}: R" for k in range(300)) + "}\n" + "".join(f"  q{k}: *row\n" for k in range(5000))
)
MERGES = "  q: &row {" + ", ".join(f"s{k}: R" for k in range(2000)) + "}\n  p: {<<: [" + "*row, " * 3000 + "*row]}\n"
MANY = "".join(f"  q{k}: {{s{k}: R}}\n" for k in range(2000))
FILE_BOMBS = {
    "billion laughs": (laughs(12) + HEAD + "table: *l11\n", "no field 'l0'|is a mapping"),
    "laughs in a row": (HEAD + "table:\n  q: {0: R}\nalphabet:\n" + " [[" * 9, "this is not YAML|levels of nesting"),
    "nested": ("[" * 100_000, "levels of nesting; at most 20 are allowed"),
    "nested mappings": ("{a: " * 100_000, "levels of nesting; at most 20 are allowed"),
    "nested blocks": ("- " * 50_000, "levels of nesting; at most 20 are allowed"),
    "aliases": (HEAD + "table:\n" + WIDE, "has 1,500,300 pairs of state and symbol; at most 1,000,000"),
    "merges": (HEAD + "table:\n" + MERGES, "has 6,004,000 pairs of state and symbol; at most 1,000,000"),
    "many of both": (HEAD.replace(" q", " q0") + "table:\n" + MANY, "has 4,002,000 pairs of state and symbol"),
    "itself": ("&a [*a]", "is a mapping|document with"),
    "itself in itself": (HEAD + "table: &t\n  q: *t\n", "instruction|unknown|is a single word|is missing"),
    "large": ("#" + "x" * 2_000_000, "has 2,000,001 characters; at most 2,000,000 are allowed"),
    "long name": (HEAD + "table: {q: {0: {R: " + "x" * 100_000 + "}}}\n", "no row|unknown|is a single word|is missing"),
}


@pytest.mark.parametrize("bomb", FILE_BOMBS)
@pytest.mark.parametrize("read", [parse_machine, parse_automaton])
def test_files_that_ask_for_too_much(bomb, read):
    text, says = FILE_BOMBS[bomb]
    if read is parse_automaton:
        text = text.replace("blank: _\n", "accept: q\n").replace(": R", ": q")
    with within(SECONDS), pytest.raises(KroghError) as refused:
        read(text, "bomb.yaml")
    assert "\n" not in str(refused.value) and len(str(refused.value)) < LONGEST_LINE
    if read is parse_machine:
        assert any(part in str(refused.value) for part in says.split("|")), str(refused.value)


def test_a_file_is_not_read_where_it_is_too_large(tmp_path, monkeypatch):
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(9_000_000_000)  # a hole: it takes no room on the disk
    monkeypatch.setattr(Path, "read_text", lambda *_: pytest.fail("it was read"))
    with pytest.raises(KroghError, match=r"has 2,250,000,000 characters; at most 2,000,000 are allowed"):
        load_machine(path)


PATTERN_BOMBS = [
    r"[\u0000-\uffff]", r"[\u0000-\U0010ffff]{2}", "(((a{1000}){1000}){1000})", "(a?){2048}a{2048}", "(a*)*" * 1500,
    "(.*.*.*=){40}[a-z]", "[a-z]*x[a-z]{16}", "(" * 5000, "[" * 5000, "a{99999999999}", "a{9999999999,}",
    "(a|b|ab|ba|aab|bba)*" * 100, "(a{0}){9999999999}b", "\\" * 9999, "((((((a*)*)*)*)*)*)*" * 100,
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERN_BOMBS, ids=lambda pattern: pattern[:30])
def test_patterns_that_ask_for_too_much(pattern):
    read_or_refused(from_regex, pattern)


def test_a_group_of_too_many_elements():
    assert read_or_refused(from_table, np.zeros((5000, 5000), np.int8)) is None
    assert read_or_refused(from_table, [[0] * 1025] * 1025) is None


def test_every_budget_is_in_the_docs():
    page = (Path(__file__).parents[2] / "docs" / "compilers.md").read_text()
    for budget in budgets.BUDGETS:
        assert f"| {budget.whom} | {budget.most:,} {budget.what} |" in page, budget


def test_a_table_of_lists_in_lists_is_one_line(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000)
    with pytest.raises(KroghError, match="lists too deep in one another"):
        load_group(str(path))
