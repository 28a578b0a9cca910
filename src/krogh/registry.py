"""Names for the things users pick: tasks, models, probes, predictions, constructions, experiments.

A thing registers itself with a decorator where it is defined. Packages outside krogh do the same in a
module they name under the entry-point group ``krogh.plugins``; `load` imports those modules.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from krogh.errors import KroghError, require, unknown

T = TypeVar("T")

BUILT_IN = (
    "krogh.tasks",
    "krogh.models",
    "krogh.training",
    "krogh.probes",
    "krogh.theory",
    "krogh.experiments",
)


class Registry(Generic[T]):
    """A table from names to things of one kind."""

    def __init__(self, kind: str):
        self.kind = kind
        self._things: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that files the decorated thing under `name`."""

        def file(thing: T) -> T:
            known = self._things.get(name)
            same = known is None or _origin(known) == _origin(thing)
            require(same, f"a {self.kind} named {name!r} is already registered by {_origin(known)}")
            self._things[name] = thing
            return thing

        return file

    def __getitem__(self, name: str) -> T:
        if name not in self._things:
            raise unknown(self.kind, name, self._things)
        return self._things[name]

    def __contains__(self, name: object) -> bool:
        return name in self._things

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._things))

    def items(self) -> list[tuple[str, T]]:
        return sorted(self._things.items())


def _origin(thing: object) -> str:
    """Where a thing was defined; the same module may be imported twice, two modules may not clash."""
    thing = getattr(thing, "function", thing)
    return f"{getattr(thing, '__module__', '?')}.{getattr(thing, '__qualname__', repr(thing))}"


TASKS: Registry[Any] = Registry("task")
MODELS: Registry[Any] = Registry("model")
PROBES: Registry[Any] = Registry("probe")
PREDICTIONS: Registry[Any] = Registry("prediction")
CONSTRUCTIONS: Registry[Any] = Registry("construction")
EXPERIMENTS: Registry[Any] = Registry("experiment")

BY_PLURAL = {
    "tasks": TASKS,
    "models": MODELS,
    "probes": PROBES,
    "predictions": PREDICTIONS,
    "constructions": CONSTRUCTIONS,
    "experiments": EXPERIMENTS,
}


def load() -> None:
    """Import everything that registers something: krogh's own folders, then installed plug-ins."""
    for module in BUILT_IN:
        importlib.import_module(module)
    for plugin in entry_points(group="krogh.plugins"):
        try:
            plugin.load()
        except Exception as cause:
            raise KroghError(f"the plug-in {plugin.name!r} ({plugin.value}) cannot be loaded: {cause!r}") from cause
