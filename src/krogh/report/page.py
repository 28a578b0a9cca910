"""One self-contained page from a folder of studies: verdicts first, then the evidence, then how it was made.

The page holds its style, its script and its figures, and asks for nothing from outside (its content security
policy forbids it), so that it opens offline and can be sent to a colleague. The same studies give the
same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from krogh import numbers
from krogh.errors import KroghError
from krogh.files import write_atomically
from krogh.report.read import VERDICTS, Claim, Picture, Study, find_studies

if TYPE_CHECKING:
    from markupsafe import Markup

_TEMPLATES = Path(__file__).parent / "templates"

_ENGINE = {
    "trials": ("trials", numbers.count),
    "converged": ("converged", numbers.count),
    "failed": ("failed", numbers.count),
    "diverged": ("diverged", numbers.count),
    "path_xla": ("trained through XLA", numbers.count),
    "path_resident": ("trained by the resident kernel", numbers.count),
    "path_host": ("trained on the host", numbers.count),
    "trained_steps": ("trained steps", numbers.count),
    "useful_steps": ("useful steps", numbers.count),
    "wasted_share": ("wasted steps", numbers.share),
    "compilations": ("compilations", numbers.count),
    "trial_steps_per_second": ("trial-steps per second", numbers.count),
}


@dataclass(frozen=True)
class _Figure:
    """A figure as the template needs it: embedded, numbered and with the links that exist."""

    picture: Picture
    number: str
    image: str
    width: int
    height: int
    links: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Section:
    """A study as the template needs it."""

    study: Study
    anchor: str
    figures: tuple[_Figure, ...]
    data: str
    verdicts: tuple[tuple[str, int], ...]
    counted: str
    facts: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


def write_report(folder: Path, out: Path | None = None) -> Path:
    """Write the page for all studies in and under `folder`; returns its path, by default `folder/index.html`.

    Raises `KroghError`, and writes nothing, when there is no study or when a study's files are damaged.
    """
    folder = Path(folder)
    studies = find_studies(folder)
    page = folder / "index.html" if out is None else Path(out)
    if page.is_dir():
        raise KroghError(f"the report must be a file, and {page} is a folder (try {page / 'index.html'})")
    write_atomically(page, _render(folder, studies, page.parent).encode())
    return page


def _render(folder: Path, studies: list[Study], base: Path) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"measured": _measured, "count": numbers.count, "words": _words}
    environment.filters |= {"breakable": _breakable, "unbroken": _unbroken}
    script = (_TEMPLATES / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    sections = _sections(studies, base)
    single = len(studies) == 1
    return environment.get_template("page.html.j2").render(
        title=studies[0].title if single else "Claims and evidence",
        place=studies[0].name if single else folder.resolve().name,
        css=Markup((_TEMPLATES / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        digest=digest,
        sections=sections,
        verdicts=_tally(claim for study in studies for claim in study.claims),
        claims=sum(len(study.claims) for study in studies),
        **_totals(studies),
    )


def _sections(studies: list[Study], base: Path) -> list[_Section]:
    sections: list[_Section] = []
    taken: set[str] = set()
    for index, study in enumerate(studies, start=1):
        anchor = "study-" + (re.sub(r"[^a-z0-9]+", "-", study.name.lower()).strip("-") or "unnamed")
        while anchor in taken:  # two copies of one study may stand side by side
            anchor += "-again"
        taken.add(anchor)
        prefix = f"{index}." if len(studies) > 1 else ""
        figures = (_figure(study, item, f"{prefix}{i}", base) for i, item in enumerate(study.figures, start=1))
        sections.append(
            _Section(
                study=study,
                anchor=anchor,
                figures=tuple(figures),
                data=_link(study.folder / "trials.parquet", base),
                verdicts=_tally(study.claims),
                # A study of theorems trains nothing: what its claims count are inputs, networks, draws.
                counted="case" if study.engine.get("trials") == 0 else "trial",
                facts=_facts(study),
            )
        )
    return sections


def _figure(study: Study, picture: Picture, number: str, base: Path) -> _Figure:
    path = study.folder / picture.svg
    image, width, height = "", 0, 0
    if path.is_file():
        content = path.read_bytes()
        # As an image, not inline: the ids of two inlined figures would collide, and an image runs no script.
        image = "data:image/svg+xml;base64," + base64.b64encode(content).decode()
        width, height = _size(content)
    named = (("PDF", picture.pdf), ("SVG", picture.svg), ("data", picture.data))
    links = tuple((label, _link(study.folder / file, base)) for label, file in named if file)
    return _Figure(picture, number, image, width, height, tuple(pair for pair in links if pair[1]))


def _size(svg: bytes) -> tuple[int, int]:
    """The natural size in CSS pixels, so that the page does not jump while it loads."""
    box = re.search(rb"viewBox=[\"']\s*\S+[\s,]+\S+[\s,]+([\d.eE+]+)[\s,]+([\d.eE+]+)", svg[:4000])
    try:
        # Matplotlib counts in points, of which 72 make an inch; CSS has 96 pixels to the inch.
        width, height = (round(float(part) * 96 / 72) for part in box.groups()) if box else (0, 0)
    except ValueError:
        return 640, 400
    return (width, height) if width > 0 and height > 0 else (640, 400)


def _link(target: Path, base: Path) -> str:
    """The relative address of a file, or nothing when it is not there: a page must not have dead links."""
    return quote(Path(os.path.relpath(target, base)).as_posix()) if target.is_file() else ""


def _facts(study: Study) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """How the study was run, in groups of label and value."""
    run = (
        ("scale", study.scale or numbers.MISSING),
        ("device", study.device or numbers.MISSING),
        ("started", numbers.date(study.started)),
        ("finished", numbers.date(study.finished)),
        ("time", numbers.duration(study.seconds)),
    )
    engine = [
        (label, _engine_value(study.engine[key], write))
        for key, (label, write) in _ENGINE.items()
        if key in study.engine
    ]
    engine += [
        (key.replace("_", " "), _engine_value(value, numbers.number))
        for key, value in study.engine.items()
        if key not in _ENGINE
    ]
    groups = (
        ("Run", run),
        ("Engine", tuple(engine)),
        ("Parameters", tuple((key, numbers.plain(value)) for key, value in study.settings.items())),
        ("Versions", tuple((key, numbers.plain(value)) for key, value in study.versions.items())),
    )
    return tuple(group for group in groups if group[1])


def _engine_value(value: Any, write: Any) -> str:
    value = numbers.from_json(value)
    is_number = value is None or (isinstance(value, int | float) and not isinstance(value, bool))
    return write(value) if is_number else numbers.plain(value)


def _tally(claims: Iterable[Claim]) -> tuple[tuple[str, int], ...]:
    found = Counter(claim.verdict for claim in claims)
    return tuple((verdict, found[verdict]) for verdict in VERDICTS if found[verdict])


def _totals(studies: list[Study]) -> dict[str, Any]:
    def total(key: str) -> float:
        values = (study.engine.get(key) for study in studies)
        return sum(v for v in values if isinstance(v, int | float) and math.isfinite(v))

    seconds = sum(s.seconds for s in studies if s.seconds is not None and math.isfinite(s.seconds))
    return {
        "trials": numbers.count(total("trials")) if total("trials") else "",
        "steps": numbers.count(total("trained_steps")) if total("trained_steps") else "",
        "time": numbers.duration(seconds) if seconds else "",
        "unfinished": [study for study in studies if study.status != "complete"],
    }


def _measured(claim: Claim) -> str:
    return numbers.estimate(claim.value, claim.low, claim.high, claim.unit)


def _words(amount: int, singular: str, plural: str = "") -> str:
    return f"{numbers.count(amount)} {singular if amount == 1 else plural or singular + 's'}"


def _breakable(name: str) -> Markup:
    """A study's name that may break after a slash: long names must not widen the table."""
    from markupsafe import Markup

    return Markup("/<wbr>").join(name.split("/"))


def _unbroken(command: str) -> Markup:
    """A command whose words stay whole when it wraps; its text is unchanged."""
    from markupsafe import Markup

    parts = re.split(r"(\s+)", command)
    word = Markup("<span>{}</span>")
    return Markup("").join(part if i % 2 else word.format(part) for i, part in enumerate(parts))
