"""What a task is a model system of (dissertation, chapters 1 and 2).

A model system is studied for the sake of other settings. It must be *productive* (cheap to run, open to mathematics,
transparent, controllable by knobs) and *transferable* (it shows what real settings show). A task says here what it has
of that: what can be turned, what is known exactly, which theorems speak of it, and which phenomena of deep learning it
shows, each with the experiments that show it. `krogh show TASK` prints it, `krogh list phenomena` gathers all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class System:
    """A task as a model system; a law in `tests/conformance` sees to it that every name in it is one.

    `knobs` are fields or parameters of the task, with what each of them controls; `baselines` are names of its exact
    `baselines()` and `limits()`; `theory` are predictions; `phenomena` are what it shows, with the experiments that
    show it. Tasks that show the same call it by the same words.
    """

    knobs: Mapping[str, str] = field(default_factory=dict)
    baselines: tuple[str, ...] = ()
    theory: tuple[str, ...] = ()
    phenomena: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def experiments(self) -> tuple[str, ...]:
        """Every experiment that is named, once."""
        return tuple(dict.fromkeys(name for names in self.phenomena.values() for name in names))
