"""The public names: one list, which Python imports from and type checkers read."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import krogh

ROOT = Path(__file__).parents[1]
STUB = Path(krogh.__file__).with_suffix(".pyi")

SCRIPT = """
import krogh

trial = krogh.Trial(
    krogh.Parity(n=20, k=3),
    krogh.Mlp(width=100),
    krogh.Training(krogh.Sgd(rate=0.1), krogh.Online(32), krogh.Stopping(budget=20_000, validation=128)),
)
table = krogh.run(krogh.sweep(trial, seed=range(100)))
by_n = krogh.curves(table, x="task.n")[()]
reveal_type(trial)
reveal_type(table)
reveal_type(by_n.at(20).low)
reveal_type(krogh.predict("parity/plateau", block_size=100, k=3))
reveal_type(krogh.construct("parity/relu", n=10, k=4))
reveal_type(krogh.load_machine("palindrome"))
krogh.no_such_name
krogh.Trial(krogh.Parity(n=20, k=3))
krogh.sweep(trial, label="a text is no mapping")
"""
TYPES = (
    "krogh.engine.trial.Trial",
    "polars.dataframe.frame.DataFrame",
    "float",
    "dict[str, Any]",
    "krogh.networks.handmade.Construction",
    "krogh.programs.machines.machine.Machine",
)


def test_every_name_is_there_once_and_leads_to_what_its_home_has():
    tree = ast.parse(STUB.read_text())
    names = [name for node in tree.body if isinstance(node, ast.ImportFrom) for name in node.names]
    assert all(name.asname == name.name for name in names), "type checkers hand on `X as X` only"
    assert [name.name for name in names] == krogh.__all__ and len(set(krogh.__all__)) == len(krogh.__all__) > 100
    for name in krogh.__all__:
        assert getattr(krogh, name) is not None
    assert dir(krogh) == sorted(krogh.__all__)


def test_other_names_are_refused_as_usual():
    with pytest.raises(AttributeError, match="module 'krogh' has no attribute 'no_such_name'"):
        krogh.no_such_name  # noqa: B018


def test_the_package_says_that_it_is_typed():
    assert STUB.with_name("py.typed").is_file()


@pytest.mark.parametrize(
    "page", [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"], ids=lambda path: path.name
)
def test_names_in_the_documentation_exist(page):
    for name in set(re.findall(r"\bkrogh\.([A-Za-z_]+)(?![\w.])", page.read_text())) - {"plugins"}:
        assert hasattr(krogh, name) or (ROOT / "src/krogh" / name).is_dir() or (ROOT / f"src/krogh/{name}.py").is_file()


@pytest.mark.slow
def test_a_type_checker_knows_what_a_user_imports(tmp_path):
    """What is there has its type; what is not, and what does not fit, is an error."""
    script = tmp_path / "user.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(script)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600)
    found = re.findall(r'Revealed type is "(.*)"', run.stdout)
    assert [kind.replace("builtins.", "").replace("typing.", "") for kind in found] == [*TYPES], run.stdout
    errors = [line for line in run.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 3 and run.returncode == 1, run.stdout
    assert "no_such_name" in errors[0] and "model" in errors[1] and "label" in errors[2]
