"""Names for the things users pick: tasks, models, probes, views, predictions, constructions, experiments.

A thing registers itself with a decorator where it is defined. A registry reads off the source of its own folders what
there is (`krogh.written`) and imports a module when a thing of it is first asked for, so that nobody waits for what is
not used; a new file in one of these folders is known without being listed anywhere. Installed packages add the modules
that they name under the entry-point group ``krogh.plugins``. A single file of one's own is loaded by `load_file`
(`--plugin` on the command line).
"""

from __future__ import annotations

import functools
import importlib
import inspect
import keyword
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from krogh.errors import KroghError, require, unknown
from krogh.saying import first_line, say
from krogh.written import Entry, entries

T = TypeVar("T")

OWN_FILES: list[Path] = []
"""Files of the user's own that were loaded."""
BROKEN_PLUGINS: dict[str, str] = {}
"""Installed plug-ins that could not be loaded, and why."""


class Registry(Generic[T]):
    """A table from names to things of one kind, which are defined in the modules of `packages` and in plug-ins.

    In the source a thing of krogh's own is registered by `@DECORATOR("name")`, which is called like the kind unless
    `decorator` is given.
    """

    def __init__(self, kind: str, *packages: str, decorator: str = ""):
        self.kind, self.packages, self.decorator = kind, packages, decorator or kind
        self._things: dict[str, T] = {}
        self._plugged = False

    @functools.cached_property
    def written(self) -> dict[str, Entry]:
        """Krogh's own things of this kind, as their source says."""
        found = (entry for package in self.packages for entry in entries(package))
        return {entry.name: entry for entry in found if entry.decorator == self.decorator}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that files the decorated thing under `name`."""

        def file(thing: T) -> T:
            if not _origin(thing).startswith("krogh.") and name in self.written:
                taken = f"is one of krogh's own, in {self.written[name].module}; give yours another name"
                raise KroghError(f"the {self.kind} {name!r} {taken}")
            known = self._things.get(name)
            same = known is None or _origin(known) == _origin(thing)
            require(same, f"the {self.kind} {name!r} is already registered by {_origin(known)}")
            self._things[name] = thing
            return thing

        return file

    def _import(self, name: str) -> None:
        if name not in self._things and name in self.written:
            importlib.import_module(self.written[name].module)

    def _plug_in(self) -> None:
        if not self._plugged:
            load_plugins()
            self._plugged = True

    def load(self) -> None:
        """Import every module that registers something of this kind; the second time this does nothing."""
        for name in self:
            self._import(name)

    def __getitem__(self, name: str) -> T:
        self._import(name)
        if name not in self._things:
            self._plug_in()
        if name not in self._things:
            raise with_broken(unknown(self.kind, name, [*self]))
        return self._things[name]

    def __contains__(self, name: object) -> bool:
        return name in self._things or name in self.written or name in [*self]

    def __iter__(self) -> Iterator[str]:
        self._plug_in()
        return iter(sorted({*self.written, *self._things}))

    def items(self) -> list[tuple[str, T]]:
        """All names with their things, each imported."""
        return [(name, self[name]) for name in self]

    def summaries(self) -> dict[str, str]:
        """All names, each with the first line of its thing's description."""
        return {name: self.written[name].summary if name in self.written else summary_of(self[name]) for name in self}


def summary_of(thing: Any) -> str:
    """The first line of a thing's description."""
    return getattr(thing, "summary", None) or (inspect.getdoc(thing) or "").partition("\n")[0]


def _origin(thing: object) -> str:
    """Where a thing was defined; the same module may be imported twice, two modules may not clash."""
    thing = getattr(thing, "function", thing)
    return f"{getattr(thing, '__module__', '?')}.{getattr(thing, '__qualname__', repr(thing))}"


TASKS: Registry[Any] = Registry("task", "krogh.tasks")
MODELS: Registry[Any] = Registry("model", "krogh.models")
PROBES: Registry[Any] = Registry("probe", "krogh.probes")
VIEWS: Registry[Any] = Registry("view", "krogh.probes")
PREDICTIONS: Registry[Any] = Registry("prediction", "krogh.theory", "krogh.networks")
CONSTRUCTIONS: Registry[Any] = Registry("construction", "krogh.networks")
EXPERIMENTS: Registry[Any] = Registry("experiment", "krogh.experiments")

BY_PLURAL = {
    "tasks": TASKS,
    "models": MODELS,
    "probes": PROBES,
    "views": VIEWS,
    "predictions": PREDICTIONS,
    "constructions": CONSTRUCTIONS,
    "experiments": EXPERIMENTS,
}


def load_plugins() -> None:
    """Import what installed packages name under the entry-point group ``krogh.plugins``.

    One that fails is told of once; what is krogh's own needs none of them.
    """
    for plugin in entry_points(group="krogh.plugins"):
        if plugin.name in BROKEN_PLUGINS:
            continue
        try:
            plugin.load()
        except Exception as cause:
            why = cause if isinstance(cause, KroghError) else repr(cause)
            said = f"the plug-in {plugin.name!r} ({plugin.value}) cannot be loaded: {why}"
            BROKEN_PLUGINS[plugin.name] = said
            say(said)


def with_broken(problem: KroghError) -> KroghError:
    """The error for an unknown name, which may be that of a thing whose plug-in is broken."""
    return KroghError("; ".join([str(problem), *BROKEN_PLUGINS.values()]))


def load_file(path: str | os.PathLike[str]) -> ModuleType:
    """Import a Python file of one's own, so that what it registers is known; it may import its neighbours.

    A neighbour that is called like an installed module stands in nobody's way: whoever imports that name, the file too,
    is given the installed one.
    """
    file = Path(path).resolve()
    require(file.suffix == ".py" and file.is_file(), f"a plug-in is a Python file that is there; got {str(path)!r}")
    known = sys.modules.get(file.stem)
    taken = known is not None and Path(getattr(known, "__file__", None) or "").resolve() != file
    importable = file.stem.isidentifier() and not keyword.iskeyword(file.stem)
    require(
        not taken and importable,
        f"{file.name} cannot be imported as {file.stem!r}"
        + (": a module of that name is there already" if taken else "")
        + f" (rename it, to {_importable(file.stem, taken)}.py say)",
    )
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    try:
        module = _imported(file) if known is None else known
    except (Exception, SystemExit) as cause:
        kind = type(cause) if isinstance(cause, KroghError) else KroghError
        raise kind(f"the plug-in {str(path)!r} cannot be loaded: {_located(cause, file)}") from cause
    OWN_FILES.append(file)
    return module


def _importable(stem: str, taken: bool) -> str:
    """A name for a module that is nearly `stem`."""
    name = re.sub(r"\W", "_", stem)
    return name if name.isidentifier() and not taken and not keyword.iskeyword(name) else f"my_{name}"


def _imported(file: Path) -> ModuleType:
    """The module of this file, whatever else of its name could be imported."""
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[file.stem] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(file.stem, None)
        raise
    return module


def _located(cause: BaseException, file: Path) -> str:
    """What went wrong in a file of the user's own or in one beside it, and in which line."""
    if isinstance(cause, SyntaxError) and cause.filename and cause.lineno:
        return f"{cause.filename}, line {cause.lineno}: {cause.msg}"
    kind = "" if isinstance(cause, KroghError) else type(cause).__name__
    said = ": ".join(part for part in (kind, first_line(cause) if str(cause).strip() else "") if part)
    frames = traceback.extract_tb(cause.__traceback__)
    beside = [frame for frame in frames if Path(frame.filename).is_relative_to(file.parent)]
    own = [frame for frame in beside if "site-packages" not in frame.filename]
    return f"{own[-1].filename}, line {own[-1].lineno}: {said}" if own else said


def needed_file(thing: object) -> Path | None:
    """The file that must be given as a plug-in for a thing to be known; None for krogh's own and installed plug-ins."""
    module = getattr(thing, "__module__", "") or ""
    installed = ("krogh", *(plugin.module for plugin in entry_points(group="krogh.plugins")))
    if any(module == home or module.startswith(f"{home}.") for home in installed):
        return None
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).resolve() if file else None
