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
from krogh.files import destination, write_atomically
from krogh.integrity import LARGEST_DRAWING, own, read_bytes
from krogh.report.drawing import embed
from krogh.report.mathematics import mathematics
from krogh.report.read import VERDICTS, Claim, Picture, Study, find_studies

if TYPE_CHECKING:
    from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"
MOST_SETTINGS = 4  # that are named to tell studies apart

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
    fault: str


@dataclass(frozen=True)
class _Section:
    """A study as the template needs it."""

    study: Study
    apart: str  # what tells it from others of the same experiment
    anchor: str
    figures: tuple[_Figure, ...]
    data: str
    verdicts: tuple[tuple[str, int], ...]
    counted: str
    faults: tuple[tuple[str, str], ...]
    remedy: str
    facts: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


def write_report(folder: Path, out: Path | None = None) -> Path:
    """Write the page for all studies in and under `folder`; returns its path, by default `folder/index.html`.

    Raises `KroghError`, and writes nothing, when there is no study or when a study.json cannot be understood. Where
    another file of a study is not what the study wrote, the page says so in its place; it is written, and then the
    error is raised, so that nobody takes it for sound.
    """
    folder = Path(folder)
    studies = find_studies(folder)
    page = folder / "index.html" if out is None else Path(out)
    place = page if out is None else destination(page, "index.html")
    sections = _sections(studies, folder, page.parent)
    write_atomically(place, _render(folder, studies, sections).encode())
    damaged = [f"{section.study.folder / name} {words}" for section in sections for name, words in section.faults]
    if damaged:
        more = f"; and {len(damaged) - 3} more" if len(damaged) > 3 else ""
        raise KroghError(f"{page} is written and says what is wrong: {'; '.join(damaged[:3])}{more}")
    return page


def environment() -> Any:
    """What templates are rendered with: text is escaped, a name that is not given is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"count": numbers.count, "words": _words, "breakable": _breakable, "unbroken": _unbroken}
    made.filters["mathematics"] = mathematics
    return made


def _render(folder: Path, studies: list[Study], sections: list[_Section]) -> str:
    from markupsafe import Markup

    tools = environment()
    tools.filters["measured"] = _measured
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    single = len(studies) == 1
    return tools.get_template("page.html.j2").render(
        title=studies[0].title if single else "Claims and evidence",
        place=studies[0].name if single else folder.resolve().name,
        css=Markup((TEMPLATES / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        digest=digest,
        sections=sections,
        verdicts=_tally(claim for study in studies for claim in study.claims),
        damaged=sum(bool(section.faults) for section in sections),
        claims=sum(len(study.claims) for study in studies),
        **_totals(studies),
    )


def _sections(studies: list[Study], folder: Path, base: Path) -> list[_Section]:
    sections: list[_Section] = []
    for index, (study, apart) in enumerate(zip(studies, told_apart(studies, folder), strict=True), start=1):
        named = apart[-1] if apart else study.name
        anchor = "study-" + (re.sub(r"[^a-z0-9]+", "-", named.lower()).strip("-") or "unnamed")
        if any(anchor == section.anchor for section in sections):  # names that differ in signs alone
            anchor += f"-{index}"
        prefix = f"{index}." if len(studies) > 1 else ""
        figures = tuple(_figure(study, item, f"{prefix}{i}", base) for i, item in enumerate(study.figures, start=1))
        drawn = {figure.picture.svg: figure.fault for figure in figures if figure.fault}
        wrong = {**study.faults, **drawn}
        sections.append(
            _Section(
                study=study,
                apart=" · ".join(apart),
                anchor=anchor,
                figures=figures,
                data=_link(study, "trials.parquet", base),
                faults=tuple(wrong.items()),
                remedy=_remedy(wrong),
                verdicts=_tally(study.claims),
                # A study of theorems trains nothing: what its claims count are inputs, networks, draws.
                counted="case" if study.engine.get("trials") == 0 else "trial",
                facts=_facts(study),
            )
        )
    return sections


def told_apart(studies: list[Study], folder: Path) -> list[tuple[str, ...]]:
    """For each study what tells it from the others of its name: scale, settings that differ, folder; nothing for one
    that is alone."""
    named: dict[str, list[Study]] = {}
    for study in studies:
        named.setdefault(study.name, []).append(study)
    return [_told_apart(study, named[study.name], folder) for study in studies]


def _told_apart(study: Study, alike: list[Study], folder: Path) -> tuple[str, ...]:
    if len(alike) == 1:
        return ()
    keys = dict.fromkeys(key for one in alike for key in one.settings)
    differing = [key for key in keys if any(one.settings.get(key) != study.settings.get(key) for one in alike)]
    parts = [study.scale] if any(one.scale != study.scale for one in alike) else []
    values = {key: numbers.plain(study.settings.get(key)) for key in differing[:MOST_SETTINGS]}
    parts += [f"{key} = {text if len(text) < 40 else text[:39] + '…'}" for key, text in values.items()]
    parts += ["…"] if len(differing) > MOST_SETTINGS else []
    return *parts, Path(os.path.relpath(study.folder, folder)).as_posix()


def _figure(study: Study, picture: Picture, number: str, base: Path) -> _Figure:
    fault = study.faults.get(picture.svg, "")
    image, width, height, inert = "", 0, 0, False
    if not fault and (study.folder / picture.svg).is_file():
        try:
            drawing = embed(read_bytes(study.folder, picture.svg, LARGEST_DRAWING))
            fault = "" if drawing else "is no drawing"
        except KroghError as problem:
            drawing, fault = None, str(problem)
        if drawing:
            image, width, height, inert = drawing.address, drawing.width, drawing.height, drawing.inert
    # Opened by itself, a page or a drawing with a script would run it.
    named = (
        ("PDF", picture.pdf, ".pdf"),
        ("SVG", picture.svg, ".svg" if inert else None),
        ("data", picture.data, ".csv"),
    )
    kept = [(label, file) for label, file, kind in named if kind and file.endswith(kind) and file not in study.faults]
    links = tuple((label, _link(study, file, base)) for label, file in kept)
    shown = tuple((label, link) for label, link in links if link)
    return _Figure(picture, number, image, width, height, shown, fault)


def _link(study: Study, name: str, base: Path) -> str:
    """The relative address of a study's file, or nothing when it is not there: a page must not have dead links."""
    target = own(study.folder, name) if name not in study.faults else None
    return quote(Path(os.path.relpath(target, base)).as_posix()) if target and target.is_file() else ""


def _remedy(faults: Iterable[str]) -> str:
    """What restores files: claims and figures are made anew from tables; tables by the study's command."""
    tables = any(name.endswith(".parquet") for name in faults)
    return "run" if tables else "judge"


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
        return sum(v for v in values if isinstance(v, int | float) and abs(v) < math.inf and v < 1e300)

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
