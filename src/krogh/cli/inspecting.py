"""`krogh list`, `krogh show`, `krogh predict`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from krogh import registry
from krogh.cli.printing import MEMORY, fault
from krogh.cli.printing import console as console_for
from krogh.cli.remembering import remembered
from krogh.errors import KroghError, TooLarge, require
from krogh.saying import first_line

SHOWN = ("tasks", "models", "probes", "views", "experiments", "predictions", "constructions")


def known_names(kind: str) -> dict[str, str]:
    """Everything of a kind by name, with its summary."""
    return registry.BY_PLURAL[kind].summaries()


def list_things(kind: str | None, as_json: bool) -> int:
    listed = {one: known_names(one) for one in (SHOWN if kind is None else (kind,))}
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
    machines = remembered("machines", lambda: _describing().machines())
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
    found = remembered("phenomena", lambda: _describing().phenomena())
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
    try:
        pages = remembered(f"page {name}", lambda: _describing().pages(name))
    except KroghError as problem:
        if any(name in things for things in registry.BY_PLURAL.values()):
            raise
        raise with_plugin(problem, name, *Path("runs").glob("*")) from None
    if as_json:
        print(json.dumps(pages[0] if len(pages) == 1 else pages, indent=2, ensure_ascii=False))
        return 0
    console = console_for()
    for page in pages:
        for key, value in page.items():
            if value in ({}, [], ""):
                continue
            if isinstance(value, dict):
                console.print(f"[bold]{key}[/bold]")
                for inner, text in value.items():
                    console.print(f"  {inner}: {_in_words(text)}", markup=False, highlight=False)
            else:
                console.print(f"[bold]{key}[/bold]  ", end="")
                console.print(_in_words(value), markup=False, highlight=False)
        console.print()
    return 0


def with_plugin(problem: KroghError, name: str, *folders: Path) -> KroghError:
    """The error for an unknown name, which may be that of an experiment in a file of the user's own.

    A study of it in one of these folders knows the file.
    """
    from krogh.integrity import read_object

    for folder in folders:
        with contextlib.suppress(KroghError, OSError, ValueError):
            summary = read_object(folder / name, "study.json")
            from krogh.lab.study import plugin_of

            if plugin := plugin_of(summary):
                return KroghError(f"{name} is an experiment of a file of its own: add {plugin}")
    if registry.OWN_FILES:
        return problem
    return KroghError(f"{problem}; is it in a file of your own? add --plugin FILE")


def _in_words(value: Any) -> str:
    """Names one after the other, a setting with its help behind it, and anything else as it is."""
    if isinstance(value, dict) and set(value) == {"value", "help"}:
        shown = value["value"]
        shown = ", ".join(map(str, shown)) if isinstance(shown, list) else shown
        return f"{shown}  ({value['help']})"
    if isinstance(value, dict) and "type" in value:
        return value["type"] + (f" = {value['default']}" if "default" in value else "  (required)")
    names = isinstance(value, list) and all(isinstance(part, str) for part in value)
    return ", ".join(value) if names else str(value)


def _describing() -> Any:
    from krogh.cli import describing

    return describing


def parse_settings(given: tuple[str, ...]) -> dict[str, str]:
    """key=value texts as a dictionary."""
    settings: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise KroghError(f"settings are given as key=value; got {text!r}")
        name = key.strip()
        require(name not in settings, f"{name} is given twice: {name}={settings.get(name)} and {name}={value}")
        settings[name] = value
    return settings


@contextlib.contextmanager
def naming_parameters(given: Mapping[str, str]) -> Iterator[None]:
    """What does not fit into the memory is for the parameters that were given to say."""
    try:
        yield
    except Exception as problem:
        known = fault(problem)
        if known is None or known[0] != MEMORY:
            raise
        numbers = [name for name, value in given.items() if value.strip().isdigit()]
        hint = f" (try a smaller {' or '.join(numbers)})" if numbers else ""
        raise TooLarge(f"out of memory: {first_line(problem)}{hint}") from None


def predict_numbers(name: str, settings: tuple[str, ...], as_json: bool) -> int:
    from krogh.numbers import in_one_line
    from krogh.theory import predict

    given = parse_settings(settings)
    with naming_parameters(given):
        numbers = predict(name, **given)
    if as_json:
        print(json.dumps({"prediction": name, **numbers}, indent=2, ensure_ascii=False))
        return 0
    thing = registry.PREDICTIONS[name]
    print(f"{name}: {thing.summary}\nsource: {thing.source}; constants: {thing.constants}")
    width = max(len(key) for key in numbers)
    for key, value in numbers.items():
        print(f"  {key:<{width}}  {in_one_line(value)}")
    return 0
