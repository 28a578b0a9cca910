"""Names for the things users pick: tasks, models, probes, views, predictions, constructions, experiments.

A thing registers itself with a decorator where it is defined. A registry imports what it lists when it is first
asked: the modules of its own folders, then the modules that installed packages name under the entry-point group
``krogh.plugins``. So a new file in one of these folders is known without being listed anywhere. A single file of one's
own is loaded by `load_file` (`--plugin` on the command line).
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from krogh.errors import KroghError, require, unknown

T = TypeVar("T")

_loading_plugins = False
OWN_FILES: list[Path] = []
"""Files of the user's own that were loaded."""


class Registry(Generic[T]):
    """A table from names to things of one kind, which are defined in the modules of `packages` and in plug-ins."""

    def __init__(self, kind: str, *packages: str):
        self.kind, self.packages = kind, packages
        self._things: dict[str, T] = {}
        self._loaded = False

    def load(self) -> None:
        """Import every module that may register something of this kind; the second time this does nothing."""
        if self._loaded:
            return
        self._load_own()
        load_plugins()
        self._loaded = True

    def _load_own(self) -> None:
        for package in self.packages:
            import_all(package)

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that files the decorated thing under `name`."""

        def file(thing: T) -> T:
            if _loading_plugins and not _origin(thing).startswith("krogh."):
                self._load_own()  # so that krogh's own names are taken before a plug-in asks for one
            known = self._things.get(name)
            same = known is None or _origin(known) == _origin(thing)
            require(same, f"the {self.kind} {name!r} is already registered by {_origin(known)}")
            self._things[name] = thing
            return thing

        return file

    def __getitem__(self, name: str) -> T:
        if name not in self._things:
            self.load()
        if name not in self._things:
            raise unknown(self.kind, name, self._things)
        return self._things[name]

    def __contains__(self, name: object) -> bool:
        self.load()
        return name in self._things

    def __iter__(self) -> Iterator[str]:
        self.load()
        return iter(sorted(self._things))

    def items(self) -> list[tuple[str, T]]:
        self.load()
        return sorted(self._things.items())


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


def import_all(package: str) -> None:
    """Import a package and every module in it."""
    home = importlib.import_module(package)
    for module in pkgutil.walk_packages(home.__path__, f"{package}."):
        importlib.import_module(module.name)


def load_plugins() -> None:
    """Import what installed packages name under the entry-point group ``krogh.plugins``."""
    with _as_plugins():
        for plugin in entry_points(group="krogh.plugins"):
            try:
                plugin.load()
            except Exception as cause:
                raise KroghError(f"the plug-in {plugin.name!r} ({plugin.value}) cannot be loaded: {cause!r}") from cause


def load_file(path: str | os.PathLike[str]) -> ModuleType:
    """Import a Python file of one's own, so that what it registers is known; it may import its neighbours."""
    file = Path(path).resolve()
    require(file.suffix == ".py" and file.is_file(), f"a plug-in is a Python file that is there; got {str(path)!r}")
    known = sys.modules.get(file.stem)
    taken = known is not None and Path(getattr(known, "__file__", None) or "").resolve() != file
    require(
        not taken and file.stem.isidentifier(),
        f"{file.name} cannot be imported as {file.stem!r}"
        + (": a module of that name is there already" if taken else "")
        + f" (rename it, to my_{file.stem.replace('-', '_')}.py say)",
    )
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    with _as_plugins():
        try:
            module = importlib.import_module(file.stem)
        except KroghError:
            raise
        except Exception as cause:
            raise KroghError(f"the plug-in {str(path)!r} cannot be loaded: {cause!r}") from cause
    OWN_FILES.append(file)
    return module


def needed_file(thing: object) -> Path | None:
    """The file that must be given as a plug-in for a thing to be known; None for krogh's own and installed plug-ins."""
    module = getattr(thing, "__module__", "") or ""
    installed = ("krogh", *(plugin.module for plugin in entry_points(group="krogh.plugins")))
    if any(module == home or module.startswith(f"{home}.") for home in installed):
        return None
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).resolve() if file else None


@contextmanager
def _as_plugins() -> Iterator[None]:
    global _loading_plugins
    _loading_plugins = True
    try:
        yield
    finally:
        _loading_plugins = False
