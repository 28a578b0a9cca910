"""The folder of a study: may this study be run into it, and what did an earlier run leave there?"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from krogh.errors import KroghError, require
from krogh.lab.store import Store
from krogh.lab.weights import weight_ids

SCHEMA = 2


@contextmanager
def refusing(folder: Path) -> Iterator[None]:
    """An error of the file system as a refusal of the folder."""
    try:
        yield
    except OSError as cause:
        raise KroghError(f"cannot write a study into {folder}: {cause.strerror or cause}") from None


def check_folder(folder: Path, asked: dict[str, Any], weights: bool) -> dict[str, Any] | None:
    """The earlier study.json of the same study; refuse a folder that holds another, or cannot be written."""
    with refusing(folder):
        nearest = next(existing for existing in (folder, *folder.parents) if existing.exists())
        usable = nearest.is_dir() and os.access(nearest, os.W_OK)
        require(usable, f"cannot write a study into {folder}: {nearest} is not a writable folder")
        path = folder / "study.json"
        if not path.exists():
            # A hidden file may be what a crash left of the first write.
            foreign = folder.is_dir() and any(not item.name.startswith(".") for item in folder.iterdir())
            require(not foreign, f"{folder} is not empty and holds no study; choose another --out")
            return None
        before = read_study(folder)
    for word in ("name", "scale", "settings"):
        require(
            before.get(word) == asked[word],
            f"{folder} holds another study ({word} is {before.get(word)!r}, this one has {asked[word]!r}); "
            "choose another --out",
        )
    store = Store(folder / "cohorts")
    store.check()
    if weights:
        lacking = int((~np.isin(store.ids(), weight_ids(folder / "weights"))).sum())
        remedy = "leave out --weights, or choose another --out"
        require(not lacking, f"{folder} holds {lacking:,} trials whose weights were not kept; {remedy}")
    return before


def read_study(folder: Path) -> dict[str, Any]:
    """The folder's study.json, if it is sound."""
    path = folder / "study.json"
    remedy = f"move {path.parent} away or choose another --out"
    try:
        before = dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise KroghError(f"{folder} holds no study (no study.json there)") from None
    except (TypeError, ValueError, RecursionError):
        raise KroghError(f"{path} is damaged; {remedy}") from None
    schema = before.get("schema")
    require(schema == SCHEMA, f"{path} has schema {schema!r}; this krogh reads schema {SCHEMA}; {remedy}")
    engine = before.get("engine")
    sound = (
        isinstance(before.get("started"), str)
        and isinstance(before.get("seconds"), int | float)
        and isinstance(engine, dict)
        and all(isinstance(number, int | float) for number in engine.values())
    )
    require(sound, f"{path} is damaged; {remedy}")
    return before


def unfinished(before: dict[str, Any] | None) -> dict[str, Any]:
    words = ("engine", "seconds", "started", "measured")
    kept: dict[str, Any] = {name: (before or {})[name] for name in words if name in (before or {})}
    return {"finished": None, "seconds": 0.0, "figures": [], "engine": {}, **kept}


@contextmanager
def made(folder: Path) -> Iterator[None]:
    """Make the folder; when what follows is refused, remove what was made and is still empty."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        with refusing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        yield
    except KroghError:
        for place in missing:
            with suppress(OSError):
                place.rmdir()
        raise


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a second process out of the folder while this one writes there (where the system has file locks)."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    path = folder / ".lock"
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            busy = f"{folder} is being written by another process; wait for it, or choose another --out"
            raise KroghError(busy) from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
