"""What results are made of: which modules, and what counts as a change."""

from __future__ import annotations

import ast
import importlib
import linecache
import re
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import pytest

import krogh
from krogh import registry
from krogh.lab import sources
from krogh.lab.sources import NO_SOURCE, changes, measure_sources, sources_of, trial_sources
from krogh.values import replaced


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes the user's files and imports them."""
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)

    def write(**files: str) -> Path:
        for name, text in files.items():
            path = tmp_path / (name.replace("__", "/") if name != "__main__" else name)
            path = path.with_name({"INIT": "__init__"}.get(path.name, path.name) + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        importlib.invalidate_caches()
        return tmp_path

    yield write
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def made_of(module: str, thing: str = "Thing") -> dict[str, str]:
    return sources_of(getattr(importlib.import_module(module), thing))


def test_comments_docstrings_and_layout_do_not_count(write):
    first = """
    class Thing:
        '''What it is.'''
        def value(self, x):
            '''x + 1'''
            return x + 1  # the next
    """
    second = """
    '''A module.'''


    class Thing:
        # no word about it

        def value(
            self, x
        ):
            return (x +
                    1)
    """
    write(alone=first)
    before = made_of("alone")
    assert list(before) == ["alone"]
    write(alone=second)
    assert made_of("alone") == before
    for other in ("x + 2", "x - 1", "x + 1.0", "x + True", "x + '1'"):
        write(alone=second.replace("(x +\n                    1)", other))
        assert made_of("alone") != before, other


def test_everything_that_is_imported_counts_wherever_it_is(write):
    write(
        top="""
        import math, numpy, json as j
        import plain
        import lab.deep.far
        from typing import TYPE_CHECKING
        from lab import near, helper as renamed
        if TYPE_CHECKING:
            import only_types
        class Thing:
            def value(self):
                from late import later
                return later
        """,
        plain="from stars import *",
        stars="x = 1",
        late="import later_still\nlater = 2",
        later_still="x = 1",
        only_types="x = 1",
        unrelated="x = 1",
        lab__INIT="from lab.other import other\nfrom .inner import helper",
        lab__other="other = 1",
        lab__inner="from . import sibling\nfrom .deep.level import up\nhelper = sibling",
        lab__sibling="x = 1",
        lab__near="x = 1",
        lab__deep__far="x = 1",  # a package without __init__
        lab__deep__level="from ..cousin import up",
        lab__cousin="up = 1",
    )
    within = {"near", "inner", "sibling", "deep.far", "deep.level", "cousin"}
    expected = {"top", "plain", "stars", "late", "later_still", *(f"lab.{name}" for name in within)}
    assert set(made_of("top")) == expected


def test_a_package_stands_for_what_is_taken_from_it(write):
    init = "from pack.one import One\nfrom pack.two import Two\n__all__ = ['One', 'Two']"
    files = dict(pack__one="class One: pass", pack__two="class Two: pass", pack__three="Three = 3")
    write(user="import pack as p\nclass Thing:\n    one = p.One", pack__INIT=init, **files)
    before = made_of("user")
    assert list(before) == ["pack.one", "user"]
    write(pack__INIT=init.replace("__all__", "from pack.three import Three\n__all__"))
    assert made_of("user") == before, "another name is handed on"
    write(pack__INIT=init + "\nimport math\nmath.tau = 6")
    assert changes(before, made_of("user")) == "added: pack"
    write(user="import pack\nclass Thing:\n    one = getattr(pack, 'One')")
    assert set(made_of("user")) == {"pack", "pack.one", "pack.two", "user"}, "anything may be taken"


def test_names_of_krogh_lead_to_their_homes(write):
    write(
        own="""
        import krogh
        from krogh import MARGIN_PRESETS, Parity
        class Thing(krogh.Task):
            presets = MARGIN_PRESETS
            def model(self):
                return krogh.models.Recurrent, krogh.engine.Trial, krogh.predict
        """
    )
    found = set(made_of("own"))
    homes = {"tasks.base", "tasks.parity", "models.recurrent", "training.training", "engine.trial", "theory.prediction"}
    assert {"own", *(f"krogh.{home}" for home in homes)} <= found
    assert (
        not {
            "krogh",
            "krogh.tasks",
            "krogh.models.transformer",
            "krogh.engine.executor",
            "krogh.theory.boolean.fourier",
        }
        & found
    )


def test_a_trial_is_made_of_its_parts_and_of_the_engine(base_trial):
    found = trial_sources([base_trial])
    wanted = ("tasks.parity", "models.two_layer", "training.optimisers", "engine.round", "engine.executor", "errors")
    assert {f"krogh.{name}" for name in wanted} <= set(found)
    strangers = ("lab.study", "models.transformer", "probes.margins", "engine.agreement", "tasks.token_regression")
    assert not {f"krogh.{name}" for name in strangers} & set(found)
    model, task = krogh.models.SparseTransformer.example()
    other = trial_sources([krogh.Trial(task, model)])
    said = changes(found, other)
    assert "added: krogh.models.transformer" in said and "changed" not in said
    probed = krogh.Trial(base_trial.task, base_trial.model, base_trial.training, probes=(krogh.Movement(),))
    assert set(trial_sources([probed])) > set(found) and "krogh.probes.progress" in trial_sources([probed])
    assert trial_sources(krogh.sweep(base_trial, seed=range(3))) == found
    assert trial_sources([replaced(base_trial, "task.n", 9), base_trial]) == found


@pytest.fixture
def base_trial():
    return krogh.Trial(krogh.Parity(n=6, k=2), krogh.Mlp(width=8))


def test_a_users_parts_count_with_their_helpers(write, base_trial):
    write(
        mine="""
        import krogh
        from helping import scale
        class Doubled(krogh.Mlp):
            def predict(self, params, x):
                return scale * super().predict(params, x)
        """,
        helping="scale = 2",
    )
    model = importlib.import_module("mine").Doubled(width=8)
    before = trial_sources([krogh.Trial(base_trial.task, model)])
    assert changes(trial_sources([base_trial]), before) == "added: helping, mine"
    write(helping="scale = 3")
    assert changes(before, trial_sources([krogh.Trial(base_trial.task, model)])) == "changed: helping"


@pytest.mark.slow
def test_no_import_of_an_experiment_is_missed():
    """By another way: whatever module of krogh is imported by name in a module that counts, counts too."""
    root = Path(krogh.__file__).parent.parent
    for name, experiment in registry.EXPERIMENTS.items():
        found = measure_sources(experiment)
        assert experiment.__module__ in found and "krogh.lab.experiment" in found
        assert NO_SOURCE not in found.values()
        for module in found:
            path = root / (module.replace(".", "/") + ".py")
            text = path.read_text() if path.exists() else ""
            text = re.sub(r"if TYPE_CHECKING:\n(    .*\n)*", "", text)
            for target in re.findall(r"^ *(?:from|import) (krogh[\w.]*)", text, re.MULTILINE):
                if (root / (target.replace(".", "/") + ".py")).exists():
                    assert target in found, f"{name}: {module} imports {target}"


def test_predictions_and_constructions_are_found_by_name(write):
    for table in (registry.PREDICTIONS, registry.CONSTRUCTIONS):
        name, thing = table.items()[0]
        write(asks=f"class Thing:\n    asked = {name!r}")
        assert {"asks", getattr(thing, "function", thing).__module__} <= set(made_of("asks"))
        write(asks="class Thing:\n    asked = 'nothing'")
        assert set(made_of("asks")) == {"asks"}


SCRIPT = """
import krogh, sys
from aid import number
from krogh.lab.sources import sources_of
class Own(krogh.Task):
    number = number
if __name__ == "__main__":
    print({name: digest for name, digest in sources_of(Own).items() if not name.startswith("krogh.")})
"""


@pytest.mark.slow
def test_a_script_goes_by_its_own_name(write):
    folder = write(script=SCRIPT, aid="number = 1")
    how = [sys.executable, "script.py"]
    printed = subprocess.run(how, cwd=folder, capture_output=True, text=True, timeout=120, check=True).stdout
    imported = {name: digest for name, digest in made_of("script", "Own").items() if not name.startswith("krogh.")}
    assert set(imported) == {"script", "aid"}
    assert ast.literal_eval(printed) == imported


def typed(text: str, name: str = "typed_in") -> types.ModuleType:
    """A module without a file, as a notebook has it."""
    module = types.ModuleType(name)
    place = f"<cell {abs(hash(text))}>"
    linecache.cache[place] = (len(text), None, text.splitlines(True), place)
    exec(compile(text, place, "exec"), vars(module))
    return module


def test_what_was_typed_in_counts_as_far_as_it_is_remembered(monkeypatch):
    text = "def twice(x):\n    return 2 * x\n"
    text += "import krogh\nclass Own(krogh.Task):\n    def value(self):\n        return twice(1)\n"
    tables = []
    for version in (text, text.replace("\n    return", "\n\n    return"), text.replace("2 *", "3 *")):
        module = typed(version)
        monkeypatch.setitem(sys.modules, "typed_in", module)
        tables.append(sources_of(module.Own))
    assert {"typed_in.Own", "typed_in.twice", "krogh.tasks.base"} <= set(tables[0])
    assert tables[0] == tables[1]
    assert changes(tables[0], tables[2]) == "changed: typed_in.twice"
    linecache.clearcache()
    assert sources_of(module.Own)["typed_in.Own"] == NO_SOURCE


def test_installed_packages_and_the_library_do_not_count():
    import numpy
    import polars

    assert sources_of(numpy.ndarray, polars.DataFrame, Path, {"a": 1}, (1, "a", None), textwrap.dedent) == {}


def test_packages_that_lie_on_the_path_do_not_count(write, tmp_path_factory, monkeypatch):
    """Neither a copy of its own, nor one that an installer left with its records, nor what krogh derives from."""
    for name in ("copied", "recorded"):
        folder = tmp_path_factory.mktemp(name)
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("from .core import helper\nclass Base: pass\n")
        (folder / name / "core.py").write_text("def helper(x): return x\n")
        monkeypatch.syspath_prepend(str(folder))
        if name == "recorded":
            (folder / "recorded-1.0.dist-info").mkdir()
            (folder / "recorded-1.0.dist-info" / "RECORD").write_text("recorded/__init__.py,,\nrecorded/core.py,,\n")
    text = """
    import copied, recorded
    from copied import helper
    from recorded.core import helper as other
    import mine
    class Thing{bases}:
        def value(self, x):
            return mine.g(copied.helper(other(recorded.helper(x))))
    """
    write(mine="def g(x): return x", user=text.format(bases=""), heir=text.format(bases="(recorded.Base)"))
    assert list(made_of("user")) == ["mine", "user"]
    assert list(made_of("heir")) == ["heir", "mine"], "an installed base is a package too"
    write(child=text.format(bases="(copied.Base)"))
    assert list(made_of("child")) == ["child", "copied", "copied.core", "mine"], "the thing itself is made of it"


def test_bases_of_krogh_do_not_count_wherever_they_lie(write, tmp_path_factory, monkeypatch, base_trial):
    """Equinox on PYTHONPATH, beside the user's own task."""
    write(own_task="import krogh\nclass Mine(krogh.Parity):\n    pass\n")
    task = importlib.import_module("own_task").Mine(5, 2)
    before = trial_sources([replaced(base_trial, "task", task)])
    folder = tmp_path_factory.mktemp("elsewhere")
    module = importlib.import_module(krogh.values.Value.__mro__[1].__module__)
    copy = folder / Path(module.__file__).relative_to(Path(sys.modules["equinox"].__file__).parents[1])
    copy.parent.mkdir(parents=True)
    copy.write_text(Path(module.__file__).read_text())
    monkeypatch.setattr(module, "__file__", str(copy))
    after = trial_sources([replaced(base_trial, "task", task)])
    assert after == before and "own_task" in after


def test_a_project_is_the_folder_with_a_mark(write):
    """Two import folders of one project count both."""
    folder = write(app__task="import shared\nclass Thing:\n    make = shared.make\n")
    (folder / "lib").mkdir()
    (folder / "lib" / "shared.py").write_text("def make(x): return x\n")
    sys.path.insert(0, str(folder / "lib"))
    sys.path.insert(0, str(folder / "app"))
    try:
        (folder / "pyproject.toml").write_text("")
        sources._project.cache_clear()
        assert list(made_of("task")) == ["shared", "task"]
        (folder / "pyproject.toml").unlink()
        sources._project.cache_clear()
        assert list(made_of("task")) == ["task"]
    finally:
        del sys.path[:2]


def test_functions_partials_and_fields_are_followed(write):
    import functools

    write(fields="import dataclasses\n@dataclasses.dataclass\nclass Thing:\n    part: object", part="def f(): pass")
    thing, function = importlib.import_module("fields").Thing, importlib.import_module("part").f
    for part in (function, [function], {"a": function}, functools.partial(function), importlib.import_module("part")):
        assert set(sources_of(thing(part))) == {"fields", "part"}


def test_changes_in_words():
    before = {"a": "1", "b": "1", "c": "1"}
    assert changes(before, dict(before)) == ""
    assert changes(before, {"a": "2", "b": "1", "d": "1", "e": "1"}) == "changed: a; added: d, e; removed: c"


def test_a_file_is_read_again_only_when_it_has_changed(write, monkeypatch):
    write(once="class Thing: pass")
    read = []
    parsed = sources._parsed
    monkeypatch.setattr(sources, "_parsed", lambda path: read.append(path.name) or parsed(path))
    made_of("once"), made_of("once")
    assert read == ["once.py"]
    write(once="class Thing:\n    x = 1")
    made_of("once")
    assert read == ["once.py"] * 2


def test_what_a_task_says_of_itself_is_words(write):
    plain = """
    import krogh
    class Thing:
        n = 1
    """
    said = """
    import krogh
    class Thing:
        n = 1
        system = krogh.System(theory=("parity/plateau",), phenomena={"luck": ("parity/histogram",)})
    """
    write(alone=plain)
    before = made_of("alone")
    write(alone=said)
    assert made_of("alone") == before
    write(alone=said.replace("n = 1", "n = 2"))
    assert made_of("alone") != before
