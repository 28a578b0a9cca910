"""Files that are there whole or not at all, and the schemas of what is kept.

Everything krogh writes (records, weights, figures, pages) is written under a hidden name beside its place and then
renamed, so that a crash or a full disk leaves what was there before.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from krogh.errors import KroghError, require

if TYPE_CHECKING:
    import polars as pl

STUDY_SCHEMA = 2
"""Of study.json and claims.json: raised whenever a reader of the one before could be misled."""
RECORDS_SCHEMA = 5
"""Of the Parquet files of a study's records."""


def cache_folder() -> Path | None:
    """Where what can be had again is kept: `$KROGH_CACHE`, or `krogh` in the user's cache folder; None for nowhere."""
    given = os.environ.get("KROGH_CACHE", "")
    if given:
        return None if given.lower() == "off" else Path(given).expanduser().absolute()
    user = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(user) if os.path.isabs(user) else Path.home() / ".cache") / "krogh"
    except RuntimeError:  # nobody's home
        return None


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def destination(path: Path, inside: str = "") -> Path:
    """Where a file that a user names is written: where its link leads. Refuses what is there and is no file.

    Renaming would put a file in the place of a link, a pipe or a device. `inside` is what to try in a folder. For what
    a user names only: a link inside a study, which somebody else may have written, is not followed.
    """
    try:
        there = path.stat().st_mode  # of where a link leads
    except OSError:
        there = stat.S_IFREG  # nothing yet, or nothing that can be reached, which writing tells of
    kind = _KINDS.get(stat.S_IFMT(there), "")
    hint = f" (try {path / inside})" if inside and stat.S_ISDIR(there) else ""
    require(not kind, f"what is written must be a file, and {path} is {kind}{hint}")
    return Path(os.path.realpath(path)) if path.is_symlink() else path  # `resolve` fails where links go round


@contextmanager
def temporary_beside(path: Path, *, parents: bool = True) -> Iterator[Path]:
    """A name beside `path` to write to before renaming; nothing is left there when writing fails.

    With `parents`, folders that are not there are made.
    """
    if parents:
        path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with faults_named(path, temporary):
            yield temporary
    finally:
        with suppress(OSError):  # on a disk that has become read-only say: what is to be told is told
            temporary.unlink(missing_ok=True)


@contextmanager
def faults_named(path: Path, temporary: Path | None = None) -> Iterator[None]:
    """Make a fault of the file system an `OSError` that names `path`, whichever library has met it, and where."""
    try:
        yield
    except Exception as cause:
        if isinstance(cause, OSError) and cause.errno is not None:
            if cause.filename is None or Path(os.fsdecode(cause.filename)) == temporary:
                cause.filename = str(path)  # the one that was asked for
            raise
        number = None if isinstance(cause, KroghError) else _number_of_fault(cause, path)
        if number is None:
            raise
        raise OSError(number, os.strerror(number), str(path)) from cause


_SAID = re.compile(r"\bos error (\d+)\b")
LEAST_FREE = 1 << 16
"""Bytes: where fewer are left, what failed to be written has failed for want of room."""


def _number_of_fault(cause: Exception, path: Path) -> int | None:
    """The system's number of a fault that a library met while it wrote beside `path`; None if it was another one.

    Writers of Parquet and of safetensors say it in words, or only that they could not go on.
    """
    if said := _SAID.search(str(cause)):
        return int(said[1])
    with suppress(OSError):
        if shutil.disk_usage(path.parent).free < LEAST_FREE:
            return errno.ENOSPC
    return None


def is_text(path: str) -> bool:
    """Whether a path can be written down: a file system may have names that are none in any language."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def scan_table(path: Path) -> pl.LazyFrame:
    """A Parquet file, of which only what is asked for is read; the path is taken as it is, with any * ? [ in it."""
    import polars as pl

    return pl.scan_parquet(path, glob=False)


def read_table(path: Path, columns: list[str] | None = None) -> pl.DataFrame:
    """A Parquet file, or some of its columns; the path is taken as it is."""
    import polars as pl

    return pl.read_parquet(path, columns=columns, glob=False)


def put_in_place(temporary: Path, path: Path) -> Path:
    """Make sure that a file is on disk, then give it its name; returns `path`."""
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    return temporary.replace(path)


@contextmanager
def replacing(path: Path, *, parents: bool = True, lasting: bool = True) -> Iterator[Path]:
    """A name to write a file to, which takes the place of `path` when the block ends well.

    What need not outlive a crash of the machine is not `lasting`, and not waited for.
    """
    with temporary_beside(path, parents=parents) as temporary:
        yield temporary
        put_in_place(temporary, path) if lasting else temporary.replace(path)


def write_atomically(path: Path, content: bytes, *, parents: bool = True, lasting: bool = True) -> None:
    """Write a file so that it is there whole or not at all."""
    with replacing(path, parents=parents, lasting=lasting) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, content: Any) -> None:
    """Write JSON in which nothing is infinite or NaN (see `krogh.numbers.json_number`)."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, (text + "\n").encode())


def study_folders(folder: Path) -> list[Path]:
    """The folders of studies in and below a folder, at any depth; links to folders are followed one level deep."""
    if not folder.is_dir():
        return []
    linked = [path for pattern in ("study.json", "*/study.json", "*/*/study.json") for path in folder.glob(pattern)]
    return sorted({path.parent for path in (*folder.rglob("study.json"), *linked)})
