"""What there is, as plain data: the tables behind `krogh list` and `krogh show`. Imports everything."""

from __future__ import annotations

import inspect
import shlex
from collections import Counter
from typing import Any

from krogh import registry
from krogh.cli.inspecting import SHOWN
from krogh.errors import unknown
from krogh.lab.settings import settings_help
from krogh.numbers import json_number
from krogh.programs.machines.library import library_names, load_machine_file
from krogh.signature import REQUIRED, type_name
from krogh.values import describe


def machines() -> dict[str, dict[str, Any]]:
    """The machines of the library: what they do, how large they are."""
    found: dict[str, dict[str, Any]] = {}
    for name in library_names():
        machine, _, summary_line = load_machine_file(name)
        found[name] = {
            "summary": summary_line,
            "states": len(machine.states),
            "symbols": len(machine.alphabet),
            "input": machine.default_input,
        }
    return found


def phenomena() -> dict[str, dict[str, list[str]]]:
    """What the tasks are model systems of: each phenomenon with the tasks and the experiments that show it."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, task in registry.TASKS.items():
        for phenomenon, experiments in task.system.phenomena.items() if task.system else ():
            entry = found.setdefault(phenomenon, {"tasks": [], "experiments": []})
            entry["tasks"].append(name)
            entry["experiments"] += [one for one in experiments if one not in entry["experiments"]]
    return found


def pages(name: str) -> list[dict[str, Any]]:
    """Everything that is called `name`, one page for each kind."""
    matches = [(kind, registry.BY_PLURAL[kind][name]) for kind in SHOWN if name in registry.BY_PLURAL[kind]]
    if not matches:
        everything = [known for kind in SHOWN for known in registry.BY_PLURAL[kind]]
        raise registry.with_broken(unknown("name", name, everything))
    return [_page(kind, name, thing) for kind, thing in matches]


def _page(kind: str, name: str, thing: Any) -> dict[str, Any]:
    page: dict[str, Any] = {"kind": kind[:-1], "name": name, "summary": registry.summary_of(thing)}
    if kind == "experiments":
        page |= {"title": thing.title, "question": thing.question, "source": thing.source}
        page["path"] = _path(thing())
        page["command"] = _command(name, thing)
        for scale, settings in thing.scales.items():
            page[f"settings, {scale}"] = {
                key: {"value": value, "help": text} for key, (value, text) in settings_help(settings).items()
            }
    elif kind in ("predictions", "constructions"):
        page["source"] = thing.source
        if hasattr(thing, "constants"):
            page["constants"] = thing.constants
        page["parameters"] = {
            key: {"type": type_name(kind), **({} if default is REQUIRED else {"default": json_number(default)})}
            for key, (kind, default) in thing.parameters.items()
        }
    elif kind == "tasks":
        example = thing.example()
        page["example"] = describe(example)
        page["limits"] = {key: json_number(value) for key, value in example.limits().items()}
        page["baselines"] = {key: json_number(value) for key, value in example.baselines().items()}
        if thing.system is not None:
            page |= _system(thing.system)
    elif kind == "models":
        page["example"] = describe(thing.example()[0])
    page["description"] = inspect.getdoc(getattr(thing, "function", thing)) or ""
    return page


def _command(name: str, thing: Any) -> str:
    """What runs it at its smallest scale."""
    file = registry.needed_file(thing)
    return shlex.join(["krogh", "run", name, *(["--plugin", str(file)] if file else []), "--scale", "smoke"])


def _system(system: Any) -> dict[str, Any]:
    """What a task says of itself as a model system."""
    return {
        "knobs": dict(system.knobs),
        "exact baselines": list(system.baselines),
        "computable theory": list(system.theory),
        "phenomena": {phenomenon: list(names) for phenomenon, names in system.phenomena.items()},
    }


def _path(experiment: Any) -> str:
    """What trains its trials, by the structures of the smallest scale."""
    from krogh.engine.resident import path_in_words

    cohorts = list(experiment.trials(experiment.settings("smoke", {})))
    counted = Counter(path_in_words(cohort.template) for cohort in cohorts)
    if len(counted) < 2:
        return next(iter(counted), "nothing is trained")
    return "; ".join(f"{number} of {len(cohorts)} structures: {text}" for text, number in counted.items())
