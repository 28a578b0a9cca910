"""Names for things, and packages outside krogh that add to them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from krogh import registry
from krogh.errors import KroghError
from krogh.networks.handmade import KINDS
from krogh.registry import BY_PLURAL, EXPERIMENTS, Registry, summary_of

PLUGIN = Path(__file__).parent / "plugin"


def load() -> None:
    """Load every registry anew, as a process does that has just begun."""
    for things in BY_PLURAL.values():
        things._plugged = False
        things.load()


@pytest.mark.parametrize("things", [*BY_PLURAL.values(), KINDS], ids=lambda things: things.kind)
def test_what_the_source_says_is_what_is_registered(things):
    things.load()
    own = {name: thing for name, thing in things._things.items() if registry._origin(thing).startswith("krogh.")}
    assert things.written and things.written.keys() == own.keys()
    for name, entry in things.written.items():
        assert entry.summary == summary_of(own[name]) != "", name


def test_nothing_is_imported_to_list_what_there_is_and_little_for_one_thing():
    """In a process of its own."""
    code = (
        "import sys; from krogh.registry import BY_PLURAL, EXPERIMENTS;"
        "[things.summaries() for things in BY_PLURAL.values()]; print('jax' in sys.modules);"
        "EXPERIMENTS['parity/scaling']; print('jax' in sys.modules, 'krogh.experiments.parity.noise' in sys.modules,"
        " 'krogh.experiments.algebra' in sys.modules, 'scipy.stats' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout.split() == ["False", "True", "False", "False", "False"], ran.stderr


@pytest.mark.slow
def test_each_module_with_things_can_be_the_first_that_is_imported():
    """Each in a child of one process that knows what is not krogh's; the children end at once."""
    code = """
import os, sys, traceback, warnings
warnings.simplefilter("ignore")
import cyclopts, equinox, jax, jinja2, jaxtyping, polars, scipy.optimize, scipy.sparse, scipy.stats
from krogh.registry import BY_PLURAL
from krogh.written import entries
packages = {package for things in BY_PLURAL.values() for package in things.packages}
modules = {entry.module for package in packages for entry in entries(package)}
for module in sorted(modules):
    child = os.fork()
    if not child:
        try:
            __import__(module)
        except BaseException:
            print(module, traceback.format_exc(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
print(len(modules))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=900)
    assert ran.stdout.strip().isdigit() and int(ran.stdout) > 150, ran.stdout + ran.stderr


@pytest.fixture
def unfiled():
    """What a test files is taken out again."""
    load()
    filed = {kind: dict(things._things) for kind, things in BY_PLURAL.items()}
    known = set(sys.modules)
    yield
    for kind, things in BY_PLURAL.items():
        things._things.clear()
        things._things.update(filed[kind])
    for name in ("tiny_lab", "outside"):
        if name not in known:
            sys.modules.pop(name, None)


def installed(monkeypatch, **modules: str) -> None:
    """Pretend that packages which name these modules are installed."""
    points = [EntryPoint(name, module, "krogh.plugins") for name, module in modules.items()]

    def entry_points(*, group):
        return points if group == "krogh.plugins" else []

    monkeypatch.setattr(registry, "entry_points", entry_points)


def test_names_are_sorted_and_found():
    things: Registry[int] = Registry("thing")
    for name, thing in (("b", 2), ("a", 1), ("c/d", 3)):
        assert things.register(name)(thing) is thing
    assert list(things) == ["a", "b", "c/d"] and things.items() == [("a", 1), ("b", 2), ("c/d", 3)]
    assert things["c/d"] == 3 and "c/d" in things and "c" not in things and None not in things


def test_an_unknown_name_is_refused_with_the_nearest_and_all():
    things: Registry[int] = Registry("thing")
    with pytest.raises(KroghError, match=r"unknown thing 'x' \(known: none are registered\)"):
        things["x"]
    things.register("histogram")(1)
    things.register("zebra")(2)
    with pytest.raises(
        KroghError, match=r"unknown thing 'histgram'; did you mean 'histogram'\? \(known: histogram, zebra\)"
    ):
        things["histgram"]
    with pytest.raises(KroghError) as caught:
        things["qqqq"]
    assert "did you mean" not in str(caught.value)


def test_two_things_may_not_share_a_name():
    things: Registry[object] = Registry("thing")
    one, other = type("One", (), {}), type("Other", (), {})
    things.register("a")(one)
    with pytest.raises(KroghError, match=r"the thing 'a' is already registered by .*One"):
        things.register("a")(other)
    assert things["a"] is one


def test_loading_files_everything_and_may_be_repeated(unfiled, monkeypatch):
    installed(monkeypatch)
    load()
    once = {kind: list(things) for kind, things in BY_PLURAL.items()}
    load()
    assert {kind: list(things) for kind, things in BY_PLURAL.items()} == once
    assert all(once.values()), "every kind has a member"
    assert {"parity/histogram", "parity/scaling", "parity/training-curves"} <= set(once["experiments"])


def test_a_plug_in_is_found_as_an_installed_package(unfiled, monkeypatch):
    monkeypatch.syspath_prepend(str(PLUGIN))
    load()
    assert {"tiny/parity", "tiny/impossible"} <= set(EXPERIMENTS)
    filed = EXPERIMENTS["tiny/parity"]
    assert filed.__module__ == "tiny_lab" and filed.name == "tiny/parity"
    load()
    assert EXPERIMENTS["tiny/parity"] is filed


def test_a_plug_in_by_entry_point(unfiled, monkeypatch, tmp_path):
    (tmp_path / "outside.py").write_text(
        "from krogh.registry import TASKS, MODELS\n"
        "TASKS.register('outside/task')(object)\n"
        "MODELS.register('outside/model')(object)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    installed(monkeypatch, outside="outside")
    load()
    assert "outside/task" in BY_PLURAL["tasks"] and "outside/model" in BY_PLURAL["models"]


def test_a_plug_in_may_not_take_a_name_of_krogh(unfiled, monkeypatch, tmp_path, capsys):
    (tmp_path / "outside.py").write_text(
        "from krogh.registry import EXPERIMENTS\nclass Mine: ...\nEXPERIMENTS.register('parity/histogram')(Mine)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    installed(monkeypatch, outside="outside")
    monkeypatch.setattr(registry, "BROKEN_PLUGINS", {})
    load()
    assert "'parity/histogram' is one of krogh's own, in krogh.experiments.parity.hist" in capsys.readouterr().err
    assert EXPERIMENTS["parity/histogram"].__module__.startswith("krogh.")


def test_a_script_may_not_take_a_name_of_krogh_whatever_is_loaded(tmp_path):
    """Nothing of krogh's own has been imported yet: later its claims would silently be made by krogh's."""
    for kind, name in (("experiment", "parity/histogram"), ("prediction", "parity/fourier-gap"), ("task", "parity")):
        script = f"from krogh.registry import *\nclass Mine: ...\n{kind.upper()}S.register('{name}')(Mine)"
        ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert ran.returncode == 1 and f"the {kind} '{name}' is one of krogh's own, in krogh." in ran.stderr


def test_a_plug_in_with_an_experiment_may_come_first(tmp_path):
    """In a process of its own: the plug-in is loaded while krogh's own experiments are not yet."""
    (tmp_path / "outside.py").write_text(
        "import krogh\n@krogh.experiment('outside/one')\nclass One(krogh.Experiment):\n"
        "    title = question = source = '?'\n    scales = {}\n"
    )
    folder = tmp_path / "outside-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[krogh.plugins]\noutside = outside\n")
    code = "from krogh.registry import TASKS, EXPERIMENTS; print('parity' in TASKS, 'outside/one' in EXPERIMENTS)"
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    ran = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert ran.stdout.split() == ["True", "True"], ran.stderr
