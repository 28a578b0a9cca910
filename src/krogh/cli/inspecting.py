"""`krogh list`, `krogh show`, `krogh predict`."""

from __future__ import annotations

import inspect
import json
from collections import Counter
from typing import Any

from rich.markup import escape
from rich.table import Table

from krogh import registry
from krogh.cli.printing import console as console_for
from krogh.errors import KroghError, unknown
from krogh.lab.settings import settings_help
from krogh.numbers import in_one_line, json_number
from krogh.programs.machines.library import library_names, load_machine_file
from krogh.signature import REQUIRED
from krogh.theory import predict
from krogh.values import describe

SHOWN = ("tasks", "models", "probes", "views", "experiments", "predictions", "constructions")


def summary(thing: Any) -> str:
    """The first line of a thing's description."""
    return getattr(thing, "summary", None) or (inspect.getdoc(thing) or "").partition("\n")[0]


def list_things(kind: str | None, as_json: bool) -> int:
    kinds = SHOWN if kind is None else (kind,)
    listed = {one: {name: summary(thing) for name, thing in registry.BY_PLURAL[one].items()} for one in kinds}
    if as_json:
        print(json.dumps(listed, indent=2, ensure_ascii=False))
        return 0
    console = console_for()
    for one, things in listed.items():
        table = Table(title=one if kind is None else None, title_justify="left", box=None, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column()
        for name, text in things.items():
            table.add_row(escape(name), escape(text))
        console.print(table)
    return 0


def list_machines(as_json: bool) -> int:
    """The machines of the library: what they do, how large they are."""
    machines: dict[str, dict[str, Any]] = {}
    for name in library_names():
        machine, _, summary_line = load_machine_file(name)
        machines[name] = {
            "summary": summary_line,
            "states": len(machine.states),
            "symbols": len(machine.alphabet),
            "input": machine.default_input,
        }
    if as_json:
        print(json.dumps({"machines": machines}, indent=2, ensure_ascii=False))
        return 0
    table = Table(box=None, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for name, about in machines.items():
        table.add_row(escape(name), f"{about['states']} states", escape(str(about["summary"])))
    console_for().print(table)
    return 0


def list_phenomena(as_json: bool) -> int:
    """What the tasks are model systems of: each phenomenon with the tasks and the experiments that show it."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, task in registry.TASKS.items():
        for phenomenon, experiments in task.system.phenomena.items() if task.system else ():
            entry = found.setdefault(phenomenon, {"tasks": [], "experiments": []})
            entry["tasks"].append(name)
            entry["experiments"] += [one for one in experiments if one not in entry["experiments"]]
    if as_json:
        print(json.dumps({"phenomena": found}, indent=2, ensure_ascii=False))
        return 0
    table = Table("phenomenon", "tasks", "experiments", box=None, title_justify="left", header_style="dim")
    table.columns[0].style = "bold"
    for phenomenon, shown in found.items():
        table.add_row(escape(phenomenon), escape(", ".join(shown["tasks"])), escape(", ".join(shown["experiments"])))
    console_for().print(table)
    return 0


def show_thing(name: str, as_json: bool) -> int:
    matches = [(kind, registry.BY_PLURAL[kind][name]) for kind in SHOWN if name in registry.BY_PLURAL[kind]]
    if not matches:
        raise unknown("name", name, [known for kind in SHOWN for known in registry.BY_PLURAL[kind]])
    pages = [_page(kind, name, thing) for kind, thing in matches]
    if as_json:
        print(json.dumps(pages[0] if len(pages) == 1 else pages, indent=2, ensure_ascii=False, default=str))
        return 0
    console = console_for()
    for page in pages:
        for key, value in page.items():
            if isinstance(value, dict):
                console.print(f"[bold]{key}[/bold]")
                for inner, text in value.items():
                    console.print(f"  {inner}: {_in_words(text)}", markup=False, highlight=False)
            else:
                console.print(f"[bold]{key}[/bold]  ", end="")
                console.print(_in_words(value), markup=False, highlight=False)
        console.print()
    return 0


def _in_words(value: Any) -> str:
    """Names one after the other, and anything else as it is."""
    names = isinstance(value, list) and all(isinstance(part, str) for part in value)
    return ", ".join(value) if names else str(value)


def _page(kind: str, name: str, thing: Any) -> dict[str, Any]:
    page: dict[str, Any] = {"kind": kind[:-1], "name": name, "summary": summary(thing)}
    if kind == "experiments":
        page |= {"title": thing.title, "question": thing.question, "source": thing.source}
        page["path"] = _path(thing())
        for scale, settings in thing.scales.items():
            page[f"settings, {scale}"] = {
                key: f"{value}  ({text})" for key, (value, text) in settings_help(settings).items()
            }
    elif kind in ("predictions", "constructions"):
        page["source"] = thing.source
        if hasattr(thing, "constants"):
            page["constants"] = thing.constants
        page["parameters"] = {
            key: "required" if default is REQUIRED else f"default {default!r}"
            for key, (_, default) in thing.parameters.items()
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


def parse_settings(given: tuple[str, ...]) -> dict[str, str]:
    """key=value texts as a dictionary."""
    settings = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise KroghError(f"settings are given as key=value; got {text!r}")
        settings[key.strip()] = value
    return settings


def predict_numbers(name: str, settings: tuple[str, ...], as_json: bool) -> int:
    numbers = predict(name, **parse_settings(settings))
    if as_json:
        print(json.dumps({"prediction": name, **numbers}, indent=2, ensure_ascii=False))
        return 0
    thing = registry.PREDICTIONS[name]
    print(f"{name}: {thing.summary}\nsource: {thing.source}; constants: {thing.constants}")
    width = max(len(key) for key in numbers)
    for key, value in numbers.items():
        print(f"  {key:<{width}}  {in_one_line(value)}")
    return 0
