"""One self-contained page that replays the training of a study's networks, from the frames in its folder alone.

Like the report it holds its style, its script and its data, and asks for nothing from outside. The frames are inert:
JSON in a script element that no browser runs, with every character that could end it escaped; the page's own script is
the only one that its content security policy lets run, and it writes text as text.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from krogh.errors import KroghError, require
from krogh.files import STUDY_SCHEMA, destination, write_atomically
from krogh.integrity import read_bytes

FRAMES_FILE, PAGE = "replay.json", "replay.html"
LARGEST_FRAMES = 1 << 30
"""Bytes of a file of frames that is read."""
_TEMPLATES = Path(__file__).parent / "templates"
_ESCAPED = str.maketrans({letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"})


def write_replay(folder: Path | str, out: Path | None = None) -> Path:
    """Write the page of the frames in a study's folder; returns its path, by default `folder/replay.html`."""
    folder = Path(folder)
    page = folder / PAGE if out is None else Path(out)
    place = page if out is None else destination(page, PAGE)
    write_atomically(place, _render(_read(folder)).encode())
    return page


def _read(folder: Path) -> dict[str, Any]:
    path = folder / FRAMES_FILE
    try:
        frames = dict(json.loads(read_bytes(folder, FRAMES_FILE, LARGEST_FRAMES).decode("utf-8")))
    except FileNotFoundError:
        raise KroghError(f"{folder} holds no {FRAMES_FILE}; `krogh replay {folder}` makes it") from None
    except (TypeError, ValueError, RecursionError):
        raise KroghError(f"{path} is damaged; `krogh replay {folder}` makes it anew") from None
    schema = frames.get("schema")
    require(schema == STUDY_SCHEMA, f"{path} has schema {schema!r}; this krogh reads schema {STUDY_SCHEMA}")
    require(bool(frames.get("trials")), f"{path} holds no trials; `krogh replay {folder}` makes it anew")
    return frames


def _render(frames: dict[str, Any]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = _template("replay.js")
    return environment.get_template("replay.html.j2").render(
        title=frames.get("title") or frames.get("name", ""),
        name=frames.get("name", ""),
        question=frames.get("question", ""),
        source=frames.get("source", ""),
        scale=frames.get("scale", ""),
        command=frames.get("command", ""),
        css=Markup(_template("page.css") + _template("replay.css")),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        frames=Markup(inert(frames)),
    )


def inert(content: Any) -> str:
    """JSON that cannot end the element it stands in: what HTML reads is written by number."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPED)


def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")
