"""`krogh compare`: two studies, or all of two folders, side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from krogh import numbers
from krogh.cli.printing import MARKS
from krogh.cli.printing import console as console_for
from krogh.errors import require
from krogh.files import destination
from krogh.report.comparing import compare, differing, measured, shown, write_comparison

MOST_SOURCES = 6


def compare_folders(a: str, b: str, out: Path | None, *, as_json: bool) -> int:
    if out is not None:
        destination(out, "compare.html")
    compared = _compared(a, b)
    if as_json:
        print(json.dumps(compared, indent=2, ensure_ascii=False))
    else:
        console = console_for()
        for study in compared["studies"]:
            _print_study(console, study)
        for side, where in (("only_a", a), ("only_b", b)):
            if compared[side]:
                console.print(f"only in {escape(str(where))}: {escape(', '.join(compared[side]))}", highlight=False)
    if out is not None:
        page = write_comparison(compared, out)
        if not as_json:
            print(page)
    require(not compared["damaged"], "; ".join(compared["damaged"]))
    return 0


def _compared(a: str, b: str) -> dict[str, Any]:
    """What differs; studies at a URL are those of a copy, and are called by the URL."""
    if "://" not in a + b:
        return compare(Path(a), Path(b))
    from krogh.lab.remote import TRAINING, address, bring, named

    with named(a), named(b):
        compared = compare(*(bring(place, without=TRAINING) for place in (a, b)))
    for study in compared["studies"]:
        for letter, place in (("a", a), ("b", b)):
            folder = study[letter]["folder"]
            study[letter]["folder"] = address(place, Path(folder)) or folder
    return {**compared, "a": a, "b": b}


def _print_study(console: Console, study: dict[str, Any]) -> None:
    console.print(f"[bold]{escape(study['name'])}[/bold]", highlight=False)
    for letter in "ab":
        side = study[letter]
        about = ", ".join(word for word in (side["scale"], side["status"]) if word)
        console.print(f"  {letter.upper()}  {escape(side['folder'])}  [dim]{escape(about)}[/dim]", highlight=False)
    for title, rows in (("settings", study["settings"]), ("versions", study["versions"])):
        for name, sides in rows.items():
            text = f"  {title}  {name}: {shown(sides['a'])} → {shown(sides['b'])}"
            console.print(escape(text), highlight=False)
    if study["sources"]:
        more = len(study["sources"]) - MOST_SOURCES
        listed = ", ".join(study["sources"][:MOST_SOURCES]) + (f" and {more} more" if more > 0 else "")
        console.print(f"  sources  other versions of {escape(listed)}", highlight=False)
    if not study["judged_alike"]:
        console.print("  claims  made by other versions of the experiment (krogh judge redoes them)", highlight=False)
    _print_claims(console, study)
    costs = {name: sides for name, sides in study["costs"].items() if sides["a"] != sides["b"]}
    for name, sides in costs.items():
        left, right = (numbers.precise(numbers.from_json(sides[letter])) for letter in "ab")
        console.print(f"  cost  {name.replace('_', ' ')}: {left} → {right}", highlight=False)
    console.print()


def _print_claims(console: Console, study: dict[str, Any]) -> None:
    table = Table("claim", "A", "B", "", box=None, header_style="dim", padding=(0, 1))
    for claim in study["claims"]:
        word = differing(claim)
        colour = "red" if claim["apart"] or claim["verdict_changed"] else "dim"
        table.add_row(
            escape(claim["name"]), _side(claim["a"]), _side(claim["b"]), f"[{colour}]{escape(word)}[/{colour}]"
        )
    if study["claims"]:
        console.print(table, highlight=False)
    said = f"{study['apart']} of {study['numbers']} numbers apart" if study["numbers"] else "no numbers in common"
    chance = f" (by chance one in 20 is: about {study['numbers'] / 20:.1f})" if study["apart"] else ""
    unsaid = f", {study['not_comparable']} not comparable" if study["not_comparable"] else ""
    verdicts = f"{study['verdicts_changed']} verdicts changed"
    console.print(f"  {said}{chance}{unsaid}, {verdicts}", highlight=False)


def _side(claim: dict[str, Any] | None) -> str:
    if claim is None:
        return "[dim]—[/dim]"
    wanted = f" [dim](wanted {escape(claim['threshold'])})[/dim]" if claim["threshold"] else ""
    return f"{MARKS[claim['verdict']]} {escape(measured(claim))}{wanted}"
