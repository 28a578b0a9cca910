"""Whether the files of a study are those that it wrote, and whether they are its own.

When a study is concluded, study.json is given the digest of everything else that was written, and of what it says
itself (`digests`); whoever reads the study can tell afterwards whether a file was cut short or has another byte
(`faults`). A study that somebody else wrote may name any file, or lead to one by a link: `own` gives the path of a file
only if it lies in the study's folder.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from krogh.errors import KroghError, require

DIGESTS = "digests"
"""The field of study.json: the digest of each file by its name in the folder."""
SUMMARY = "study.json"
DAMAGED = "is damaged: it is not what the study wrote"
LARGEST_TEXT, LARGEST_DRAWING = 64 << 20, 32 << 20
"""Bytes of a JSON file and of a drawing that are read; what krogh writes is far smaller."""
FOLDERS = ("cohorts", "weights", "measures", "figures", "costs", ".members")
"""Of a study."""
AGAIN = "run the study again to restore it"


def own(folder: Path, name: str) -> Path:
    """The path of a study's file. Refuses a name or a link that leads out of the folder, and what is no plain file."""
    pure = PurePosixPath(name)
    inside = name and not pure.is_absolute() and ".." not in pure.parts and "\\" not in name and "\0" not in name
    require(bool(inside), f"{name!r} names a file outside the study's folder {folder}")
    path = folder / name
    resolved = Path(os.path.realpath(path))  # `resolve` fails where links go round
    # A folder of studies may be reached by links; what is below it may not leave it.
    require(
        resolved.is_relative_to(folder.resolve()),
        f"{path} leads out of the study's folder by a link; put the file itself there",
    )
    there = resolved.is_symlink() or resolved.exists()  # still a link: it leads to itself
    require(not there or resolved.is_file(), f"{path} is no file")
    return path


def require_own_folders(folder: Path) -> None:
    """Refuse a study of which a folder is a link that leads out: what is written there would be written elsewhere."""
    for name in FOLDERS:
        path = folder / name
        inside = Path(os.path.realpath(path)).is_relative_to(folder.resolve())
        require(inside, f"{path} leads out of the study's folder by a link; put the folder itself there")


def read_object(folder: Path, name: str) -> dict[str, Any]:
    """A study's own JSON file that holds an object. Raises `KroghError` with the reason where it does not."""
    try:
        found = json.loads(read_text(folder, name))
    except (ValueError, RecursionError, OSError) as problem:
        if isinstance(problem, FileNotFoundError | PermissionError):
            raise
        raise KroghError(f"{folder / name} is damaged") from None
    require(isinstance(found, dict), f"{folder / name} is damaged")
    return dict(found)


def require_whole_table(folder: Path, name: str) -> Path:
    """The path of a study's own table that is there to its end; what is in it is not read."""
    path = own(folder, name)
    require(path.exists(), f"{path} is not there: the study is not finished")
    require(_has_both_ends(path), f"{path} is damaged: it is cut short; {AGAIN}")
    return path


def read_text(folder: Path, name: str) -> str:
    """A study's own text file, if it is not too large."""
    return read_bytes(folder, name, LARGEST_TEXT).decode("utf-8")


def read_bytes(folder: Path, name: str, largest: int) -> bytes:
    """A study's own file, if it has at most so many bytes."""
    path = own(folder, name)
    size = path.stat().st_size
    require(size <= largest, f"{path} has {size:,} bytes; at most {largest:,} are read")
    return path.read_bytes()


def digest_of(path: Path, size: int = 16) -> str:
    """The digest of a file's bytes, `size` bytes long."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=size)).hexdigest()


def digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The digest of each of these files."""
    return {name: digest_of(folder / name) for name in names}


def digest_of_object(found: Mapping[str, Any]) -> str:
    """The digest of what a JSON file says, but for its own digests."""
    text = json.dumps({word: value for word, value in found.items() if word != DIGESTS}, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def written_files(folder: Path, figures: Iterable[Mapping[str, Any]]) -> list[str]:
    """What the conclusion of a study leaves beside study.json: its tables, its claims, its figures."""
    tables = [f"measures/{path.name}" for path in sorted((folder / "measures").glob("*.parquet"))]
    drawn = [str(figure[kind]) for figure in figures for kind in ("svg", "pdf", "data")]
    return [name for name in ("trials.parquet", *tables, "claims.json", *drawn) if (folder / name).is_file()]


def fault(folder: Path, name: str, summary: Mapping[str, Any]) -> str:
    """What is wrong with a file of a study, in words; nothing where it is sound, or where nobody knows what it was."""
    known = summary.get(DIGESTS)
    expected = known.get(name) if isinstance(known, dict) else None
    if name == SUMMARY:
        return "" if expected in (None, digest_of_object(summary)) else DAMAGED
    try:
        path = own(folder, name)
        if not path.is_file():
            return "is not there" if expected else ""
        if expected is not None:
            return "" if digest_of(path) == expected else DAMAGED
        return "is damaged: it is cut short" if name.endswith(".parquet") and not _has_both_ends(path) else ""
    except KroghError as problem:
        return str(problem).removeprefix(f"{folder / name} ")
    except OSError as problem:
        return f"cannot be read ({problem.strerror or problem})"


def faults(folder: Path, summary: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with the files of a finished study, by name (see `fault`)."""
    if summary.get("status") != "complete":
        return {}
    known = summary.get(DIGESTS)
    names = [str(name) for name in known] if isinstance(known, dict) else ["trials.parquet"]
    found = {name: fault(folder, name, summary) for name in names}
    return {name: words for name, words in found.items() if words}


def require_sound(folder: Path, name: str, summary: Mapping[str, Any], remedy: str = AGAIN) -> Path:
    """The path of a file that is what the study wrote; while it runs, nobody knows what that will be."""
    problem = fault(folder, name, summary if summary.get("status") == "complete" else {})
    require(not problem, f"{folder / name} {problem}; {remedy}")
    return folder / name


def _has_both_ends(path: Path) -> bool:
    """Parquet begins and ends with the same four letters."""
    with path.open("rb") as file:
        first = file.read(4)
        file.seek(-min(4, path.stat().st_size), os.SEEK_END)
        return first == file.read(4) == b"PAR1"
