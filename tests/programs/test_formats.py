"""The formats of files: what is printed as an example loads, and means what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from krogh.cli import app
from krogh.cli.formats import NAMES
from krogh.programs.formats import FORMATS, example_of


def loaded(name: str, folder: Path) -> Any:
    path = folder / FORMATS[name].file
    path.write_text(example_of(name), encoding="utf-8")
    return FORMATS[name].load(path)


@pytest.mark.parametrize("name", FORMATS)
def test_the_printed_example_loads(name, tmp_path, capsys):
    assert app(["show", name], result_action="return_value") == 0
    printed = capsys.readouterr().out
    lines = printed.split(f"example, {FORMATS[name].file}:\n\n")[1].split("\n\nread by: ")[0].splitlines()
    path = tmp_path / FORMATS[name].file
    path.write_text("\n".join(line.removeprefix("    ") for line in lines) + "\n", encoding="utf-8")
    assert path.read_text() == example_of(name)
    assert FORMATS[name].load(path) is not None
    assert FORMATS[name].about in printed and FORMATS[name].file in FORMATS[name].command


def test_what_the_examples_hold(tmp_path):
    group = loaded("group-file", tmp_path)
    assert group.order == 4 and group.labels == ("e", "a", "b", "c") and (group.table.diagonal() == 0).all()
    circuit = loaded("circuit-file", tmp_path)
    assert circuit.inputs == 2 and len(circuit.outputs) == 2
    assert loaded("machine-file", tmp_path).name == "binary increment"
    even = loaded("automaton-file", tmp_path)
    assert even.accepts("0110") and not even.accepts("0111")
    assert [one.name for one in loaded("language-file", tmp_path)] == ["tomita-3", "(00)*(11)*", "brackets-2"]


def test_all_formats_at_once_and_as_json(capsys):
    assert list(NAMES) == ["formats", *FORMATS]
    assert app(["show", "formats"], result_action="return_value") == 0
    printed = capsys.readouterr().out
    assert all(f"{name}: {about.title}" in printed for name, about in FORMATS.items())
    assert app(["show", "formats", "--json"], result_action="return_value") == 0
    pages = json.loads(capsys.readouterr().out)
    assert [page["name"] for page in pages] == list(FORMATS)
    assert all(page["example"] == example_of(page["name"]) for page in pages)
    assert app(["show", "machine-file", "--json"], result_action="return_value") == 0
    assert json.loads(capsys.readouterr().out)["file"] == "increment.yaml"
