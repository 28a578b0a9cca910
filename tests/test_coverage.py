"""The coverage map is true: names resolve, tests exist and speak of what they stand for, no id is missing."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "coverage.md"
COUNTS = {
    "HP": {"T": 5, "A": 8, "R": 5, "M": 9, "C": 6, "B": 9, "E": 15},  # chapter 5
    "PF": {"T": 2, "A": 2, "I": 4, "TR": 7, "M": 15, "C": 7, "B": 5, "E": 7, "P": 6},  # chapter 6
    "VC": {"T": 6, "A": 7, "R": 3, "M": 7, "C": 8, "B": 7, "X": 5},  # chapter 4
    "QS": {"Q": 33},  # the qSTR paper
    "MM": {"T": 4, "A": 3, "TR": 2, "M": 19, "C": 9, "B": 9, "E": 11},  # chapter 7
    "SM": {"S": 24},  # statistically meaningful approximation
    "C": {"T": 3, "A": 4, "L": 1, "M": 9, "K": 1},  # both papers on learning recurrent networks
    "A": {"T": 4, "O": 2, "M": 2, "K": 4, "B": 8, "E": 11},  # can SGD learn recurrent neural networks
    "B": {"T": 6, "A": 5, "O": 4, "M": 9, "K": 9, "B": 17, "E": 14},  # learning and generalization in RNNs
    "MC": {"T": 6, "A": 3, "R": 3, "M": 8, "C": 4, "B": 6, "X": 12, "D": 1},  # chapter 8
}
CHECKLIST = {
    f"{source}-{letter}{number}"
    for source, counts in COUNTS.items()
    for letter, count in counts.items()
    for number in range(1, count + 1)
}
ID = r"[A-Z]+-[A-Z]+\d+"


def rows() -> list[tuple[str, list[str], list[str]]]:
    """Of each row the id, the public names and the tests."""
    found = []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if re.fullmatch(rf"\|? ?{ID}", cells[0]):
            found.append((cells[0].strip("| "), re.findall(r"`([^`]+)`", cells[2]), re.findall(r"`([^`]+)`", cells[3])))
    return found


def resolve(name: str) -> object:
    """A dotted public name as the object it stands for."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            thing: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            thing = getattr(thing, part)
        return thing
    raise ImportError(name)


@cache
def source(path: str) -> tuple[str, frozenset[str]]:
    text = (ROOT / path).read_text()
    tests = [node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return text, frozenset(tests)


def test_every_id_is_somewhere_and_in_one_place():
    built = [row[0] for row in rows()]
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    later = [id_ for text in sections for id_ in re.findall(ID, text.partition("Not yet there:")[2])]
    assert len(sections) == len(COUNTS) and len(built) > 90
    assert sorted([*built, *later]) == sorted(CHECKLIST)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_the_row_is_true(row: tuple[str, list[str], list[str]]):
    _, names, tests = row
    assert names and tests
    texts = []
    for test in tests:
        path, _, function = test.partition("::")
        text, functions = source(path)
        assert function in functions, f"{test} does not exist"
        texts.append(text)
    driven = any("conformance" in test for test in tests)  # those run over the registries
    for name in names:
        thing = resolve(name)
        words = {name.rpartition(".")[2], str(getattr(thing, "name", "")) or name}  # by its name, or as registered
        spoken = any(re.search(rf"\b{re.escape(word)}\b", text) for word in words for text in texts)
        assert driven or spoken, f"no test of {row[0]} mentions any of {words}"


def test_a_name_that_does_not_exist_is_noticed():
    with pytest.raises((ImportError, AttributeError)):
        resolve("krogh.theory.no_such_theorem")
