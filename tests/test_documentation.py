"""Pages that cannot lie: their code is that of the examples, their picture that of the source."""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
DOCS, EXAMPLES = ROOT / "docs", sorted((ROOT / "examples").glob("*.py"))
KINDS = ("task", "model", "probe", "view", "experiment", "prediction", "construction")


def script(name: str) -> ModuleType:
    """A script of docs/ as a module."""
    specification = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_page_on_extending_shows_the_code_of_the_examples():
    page = (DOCS / "extending.md").read_text()
    assert script("include").filled(page) == page, "run `make docs`"


def test_the_page_on_formats_says_what_the_readers_say():
    page = (DOCS / "formats.md").read_text()
    assert script("include").with_formats(page) == page, "run `make docs`"
    assert "half-adder" in page and "tomita-3" in page


def test_the_readme_counts_the_verdicts_of_the_results():
    page = (ROOT / "README.md").read_text()
    assert script("verdicts").filled(page) == page, "run `make docs`"


def test_verdicts_are_counted_by_scale_and_headings_are_none():
    page = """# One

    krogh run a/b --scale laptop

    | claim | verdict |
    | --- | --- |
    | x | reproduced (≥ 1) |
    | y | **not reproduced**, inconclusive |

    At **paper scale**:

    | claim | reproduced |
    | --- | --- |
    | reproduced | 3 |
    | z | inconclusive: few |
    """.replace("\n    |", "\n|")
    counted = {
        ("laptop", "reproduced"): 1,
        ("laptop", "not reproduced"): 1,
        ("laptop", "inconclusive"): 1,
        ("paper", "inconclusive"): 1,
    }
    assert script("verdicts").verdicts(page) == counted


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_on_the_page_and_asserts_something(path):
    line = f"<!-- examples/{path.name} -->\n```python\n"
    assert line in (DOCS / "extending.md").read_text(), f"add the line {line.splitlines()[0]} and run `make docs`"
    assert any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(path.read_text())))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_thing_has_an_example(kind):
    assert any(re.search(rf"\n@(krogh\.)?{kind}\(", path.read_text()) for path in EXAMPLES)


PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.name != "extending.md" and "```python" in page.read_text()]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_python_of_other_pages_runs(page):
    for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(code, str(page), "exec"), {})


def test_definitions_are_taken_whole_and_nothing_else(tmp_path):
    file = tmp_path / "a.py"
    file.write_text(
        "import os\n\n\n@decorated(\n    1\n)\nclass A:\n    x = 1\n\n\ny = A()\n\n\ndef f():\n    return 2\n"
    )
    found = script("include").definitions(file)
    assert found == "@decorated(\n    1\n)\nclass A:\n    x = 1\n\n\ndef f():\n    return 2"
    file.write_text("import os\nfrom math import (\n    pi,\n)\n\n# A circle.\ny = pi\n")
    assert script("include").definitions(file) == "# A circle.\ny = pi", "of a file without definitions, what it does"


def test_the_picture_of_imports_is_that_of_the_source():
    imports = script("imports")
    assert imports.PICTURE.read_text() == imports.draw(imports.graph()), "run `make docs`"


@pytest.mark.slow
def test_the_picture_agrees_with_the_layers_that_are_checked():
    imports = script("imports")
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    order = [*dict.fromkeys(imports.folder_of(name) for name in layers)]
    edges = imports.graph()
    assert set(edges) == set(order)
    for name, targets in edges.items():
        assert all(order.index(name) < order.index(target) for target in targets), name


def test_arrows_point_down_and_a_circle_is_refused():
    imports = script("imports")
    edges = imports.graph()
    level = imports.levels(edges)
    assert all(level[name] > level[target] for name, targets in edges.items() for target in targets)
    assert imports.reduced({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}
    with pytest.raises(SystemExit, match="circle"):
        imports.levels({"a": {"b"}, "b": {"a"}})


def test_links_between_pages_lead_somewhere():
    for page in [*sorted(DOCS.glob("*.md")), ROOT / "README.md"]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
