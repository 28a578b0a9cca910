"""`krogh show group-file`, `krogh show formats`: how files of groups, circuits, machines and languages are written."""

from __future__ import annotations

import json
import textwrap

NAMES = ("formats", "group-file", "circuit-file", "machine-file", "automaton-file", "language-file")
"""Known without importing what reads them."""


def show_format(name: str, as_json: bool) -> int:
    """Print one format of files, or all of them."""
    from krogh.programs.formats import FORMATS, example_of

    chosen = list(FORMATS) if name == "formats" else [name]
    if as_json:
        pages = [
            {
                "kind": "format",
                "name": one,
                "title": FORMATS[one].title,
                "description": FORMATS[one].about,
                "file": FORMATS[one].file,
                "example": example_of(one),
                "command": FORMATS[one].command,
            }
            for one in chosen
        ]
        print(json.dumps(pages if name == "formats" else pages[0], indent=2, ensure_ascii=False))
        return 0
    for one in chosen:
        about = FORMATS[one]
        print(f"{one}: {about.title}\n\n{about.about}\n\nexample, {about.file}:\n")
        print(textwrap.indent(example_of(one), "    "))
        print(f"read by: {about.command}\n")
    return 0
