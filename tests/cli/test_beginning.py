"""`krogh init`: what it writes runs as it is and keeps the laws of its kind; what it cannot write is refused."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from krogh.cli import beginning

ROOT = Path(__file__).parents[2]
THINGS = {"task": "own-task", "model": "own-model", "probe": "own-probe", "experiment": "own/experiment"}


@pytest.mark.parametrize("kind", THINGS)
def test_a_skeleton_has_the_name_that_was_given_and_nothing_of_its_own(call, tmp_path, kind):
    name = "little/thing" if kind == "experiment" else "little-thing"
    code, out, _ = call("init", kind, name)
    file = tmp_path / "little_thing.py"
    text = file.read_text()
    assert code == 0 and f"--plugin {file.name}" in out and "krogh report" in out
    assert not re.search(r"my[-_/]" + kind, text, re.IGNORECASE) and f'@krogh.{kind}("{name}")' in text
    defined = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    assert "LittleThing" in defined
    commands = [line.strip() for line in text.splitlines() if line.strip().startswith("krogh ")]
    assert len(commands) == 3 and all(command in out for command in commands), "both say the same"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("task", "Parity"), "lower-case letters"),
        (("task", "../evil"), "lower-case letters"),
        (("task", "a/b"), "no slash"),
        (("task", "parity"), "a task 'parity' already"),
        (("experiment", "parity/scaling"), "an experiment 'parity/scaling' already"),
        (("model", "thing", "--out", "thing.txt"), "that Python can import"),
        (("model", "thing", "--out", "my-thing.py"), "that Python can import"),
        (("model", "thing", "--out", "there.py"), "is there already"),
        (("network", "thing"), "network"),
    ],
)
def test_what_cannot_be_written_is_refused(call, tmp_path, arguments, words):
    (tmp_path / "there.py").write_text("x = 1")
    code, _, err = call("init", *arguments)
    assert code != 0 and words in err
    assert [path.name for path in tmp_path.iterdir()] == ["there.py"] and (tmp_path / "there.py").read_text() == "x = 1"


def test_a_name_that_python_knows_gets_a_file_and_a_class_of_its_own(call, tmp_path):
    assert call("init", "task", "random")[0] == 0 and (tmp_path / "my_random.py").exists()
    assert call("init", "task", "none")[0] == 0 and "class NoneTask(" in (tmp_path / "none.py").read_text()
    assert "class SettingsModel(" in beginning.skeleton("model", "settings", "settings.py")


@pytest.mark.slow
def test_what_is_written_keeps_the_laws_of_its_kind(call, tmp_path):
    """Those of tests/conformance, which also run the experiments at their smallest scale."""
    files: list[str] = []
    for kind, name in THINGS.items():
        assert call("init", kind, name, "--out", tmp_path / f"own_{kind}.py")[0] == 0
        files += ["--own", str(tmp_path / f"own_{kind}.py")]
    laws = [f"tests/conformance/test_{kinds}.py" for kinds in ("tasks", "models", "probes", "trained", "experiments")]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rA", *laws, *files]
    environment = {name: value for name, value in os.environ.items() if name != "KROGH_SMOKE"}  # it has none of these
    ended = subprocess.run(
        [*command, "-k", " or ".join(THINGS.values())], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    passed = re.findall(r"^PASSED .*\[(.*)\]$", ended.stdout, re.MULTILINE)
    assert ended.returncode == 0, ended.stdout[-4000:]
    for name in [*THINGS.values(), "own-task/first", "own-model/first", "own-probe/first"]:
        assert sum(name in case for case in passed) >= 3, f"which laws were tried on {name}?"
