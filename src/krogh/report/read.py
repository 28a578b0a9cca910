"""The files of a study as values.

A study.json that cannot be understood is refused, with the path, the reason and what to do. What is wrong with any
other file of a study is noted in `Study.faults`, for the page to say in its place. Nothing is read outside the study.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from krogh.errors import KroghError
from krogh.files import STUDY_SCHEMA, study_folders
from krogh.integrity import fault, faults, own, read_text
from krogh.numbers import from_json
from krogh.saying import printable

VERDICTS = ("reproduced", "not reproduced", "inconclusive")
STATUSES = ("complete", "interrupted", "running")


@dataclass(frozen=True)
class Claim:
    """One line of claims.json."""

    name: str
    statement: str
    source: str
    statistic: str
    value: float | None
    low: float | None
    high: float | None
    unit: str
    threshold: str
    source_value: str
    verdict: str
    reason: str
    trials: int | None


@dataclass(frozen=True)
class Picture:
    """One figure of study.json; the files are given relative to the study's folder."""

    name: str
    svg: str
    pdf: str
    data: str
    title: str
    caption: str
    alt: str


@dataclass(frozen=True)
class Study:
    """study.json together with the claims.json beside it."""

    folder: Path
    name: str
    title: str
    question: str
    source: str
    scale: str
    settings: dict[str, Any]
    command: str
    versions: dict[str, Any]
    device: str
    started: str
    finished: str
    seconds: float | None
    status: str
    engine: dict[str, Any]
    figures: tuple[Picture, ...]
    notes: tuple[str, ...]
    claims: tuple[Claim, ...]
    sources: dict[str, Any]
    concluded: str
    faults: dict[str, str]


class _Damaged(Exception):
    """What is wrong inside a file; `read_study` adds which file it is and what can be done."""


def find_studies(folder: Path) -> list[Study]:
    """All studies in and under `folder`, by name. A folder without any is an error."""
    if not folder.is_dir():
        what = "a file" if folder.exists() else "not there"
        raise KroghError(f"{folder} is {what}; give the folder of a study, or one that holds several")
    places = study_folders(folder)
    for place in places:
        if not place.resolve().is_relative_to(folder.resolve()):
            raise KroghError(
                f"{place} leads out of {folder} by a link; give {place.resolve()} itself, or copy it there"
            )
    if not places:
        raise KroghError(f"no study in {folder}: there is no study.json in it or below; run a study into it first")
    return sorted((read_study(place) for place in places), key=lambda study: (study.name, str(study.folder)))


def read_study(folder: Path) -> Study:
    """The study in `folder`, which holds study.json and, once claims were judged, claims.json."""
    path = folder / "study.json"
    try:
        written = _load(folder, path.name)
        data = printable(written)
        claims, wrong = _claims(folder, data)
        return _study(folder, data, claims, {**faults(folder, written), **wrong})
    except _Damaged as damage:
        raise KroghError(
            f"{path} is damaged: {damage}; move {folder} elsewhere to leave it out of the report, "
            "and run the study again"
        ) from None


def _claims(folder: Path, study: dict[str, Any]) -> tuple[tuple[Claim, ...], dict[str, str]]:
    """What claims.json holds, and what is wrong with it: then nothing of it is believed."""
    name = "claims.json"
    if not (folder / name).exists() and not (folder / name).is_symlink():
        # A study that was interrupted early, or that only draws, has no claims.
        return (), {}
    complete = study.get("status") == "complete"
    try:
        wrong = fault(folder, name, study if complete else {})
        claims = tuple(_claim(item) for item in _items(printable(_load(folder, name)), "claims", dict))
    except _Damaged as damage:
        wrong, claims = f"is damaged: {damage}", ()
    except PermissionError as problem:
        wrong, claims = f"cannot be read ({problem.strerror})", ()
    return ((), {name: wrong}) if wrong else (claims, {})


def _load(folder: Path, name: str) -> dict[str, Any]:
    try:
        data = json.loads(read_text(folder, name))
    except PermissionError:  # no damage
        raise
    except (KroghError, OSError, ValueError, RecursionError) as error:
        raise _Damaged(f"it cannot be read as JSON ({error})") from None
    if not isinstance(data, dict):
        raise _Damaged(f"it must hold an object, and holds {type(data).__name__}")
    if data.get("schema") != STUDY_SCHEMA:
        raise _Damaged(f"its schema is {data.get('schema')!r}, and this krogh reads schema {STUDY_SCHEMA}")
    return data


def _study(folder: Path, data: dict[str, Any], claims: tuple[Claim, ...], wrong: dict[str, str]) -> Study:
    return Study(
        folder=folder,
        name=_text(data, "name", required=True),
        title=_text(data, "title", required=True),
        **{key: _text(data, key) for key in ("question", "source", "scale", "command", "device")},
        **{key: _text(data, key) for key in ("started", "finished")},
        settings=_object(data, "settings"),
        versions=_object(data, "versions"),
        engine=_object(data, "engine"),
        seconds=_real(data, "seconds"),
        status=_choice(data, "status", STATUSES),
        figures=tuple(_picture(item, folder) for item in _items(data, "figures", dict)),
        notes=tuple(_items(data, "notes", str)),
        claims=claims,
        sources=_object(data, "sources"),
        concluded=_text(data, "concluded"),
        faults=wrong,
    )


def _claim(data: dict[str, Any]) -> Claim:
    trials = _real(data, "trials")
    return Claim(
        statement=_text(data, "statement", required=True),
        verdict=_choice(data, "verdict", VERDICTS),
        trials=int(trials) if trials is not None and math.isfinite(trials) else None,
        name=_text(data, "name"),
        source=_text(data, "source"),
        statistic=_text(data, "statistic"),
        unit=_text(data, "unit"),
        threshold=_text(data, "threshold"),
        source_value=_text(data, "source_value"),
        reason=_text(data, "reason"),
        value=_real(data, "value"),
        low=_real(data, "low"),
        high=_real(data, "high"),
    )


def _picture(data: dict[str, Any], folder: Path) -> Picture:
    picture = Picture(**{key: _text(data, key) for key in ("name", "svg", "pdf", "data", "title", "caption", "alt")})
    if not picture.svg:
        raise _Damaged(f"the figure {picture.name!r} names no svg")
    for file in (picture.svg, picture.pdf, picture.data):
        try:  # a report embeds and links these files, so a study may only name its own
            if file:
                own(folder, file)
        except KroghError as problem:
            raise _Damaged(f"the figure {picture.name!r}: {problem}") from None
    return picture


def _text(data: dict[str, Any], key: str, *, required: bool = False) -> str:
    value = data.get(key)
    if value is None and not required:
        return ""
    if not isinstance(value, str) or (required and not value):
        raise _Damaged(f"{key!r} must be text; got {value!r}")
    return value


def _real(data: dict[str, Any], key: str) -> float | None:
    value = from_json(data.get(key))
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _Damaged(f"{key!r} must be a number, 'inf', '-inf' or null; got {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise _Damaged(f"{key!r} is too large a number") from None


def _choice(data: dict[str, Any], key: str, allowed: tuple[str, ...]) -> str:
    value = data.get(key)
    if value not in allowed:
        raise _Damaged(f"{key!r} must be one of {', '.join(map(repr, allowed))}; got {value!r}")
    return str(value)


def _object(data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    if value is not None and not isinstance(value, dict):
        raise _Damaged(f"{key!r} must be an object; got {value!r}")
    return value or {}


def _items(data: dict[str, Any], key: str, kind: type) -> list[Any]:
    value = data.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
        what = "objects" if kind is dict else "texts"
        raise _Damaged(f"{key!r} must be a list of {what}; got {str(value)[:80]}")
    return value
