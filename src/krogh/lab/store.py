"""The store: records on disk, addressed by the trials' identities.

While a cohort is in flight its finished trials are written in parts; when it ends the parts become one Parquet
file. Every write goes to a temporary name and is renamed, so a file is there whole or not at all; a crash
between a merge and the removal of its parts leaves duplicates, which reading drops.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from krogh.engine.records import ORDER
from krogh.errors import KroghError

SCHEMA = 1
META = "krogh"


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def write_json(path: Path, content: Any) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(path, (text + "\n").encode())


class Store:
    """The Parquet files of one study."""

    def __init__(self, folder: Path):
        self.folder = folder

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.parquet")) if self.folder.is_dir() else []

    def check(self) -> None:
        """Refuse a damaged file, or one that krogh did not write, before anything is trained or written."""
        for path in self.files():
            _check_file(path)

    def ids(self) -> np.ndarray:
        """Identities of the trials that are there [count], sorted."""
        files = self.files()
        if not files:
            return np.zeros(0, np.uint64)
        return np.unique(pl.concat([pl.scan_parquet(path).select("id") for path in files]).collect()["id"].to_numpy())

    def add_part(self, cohort: str, table: pl.DataFrame) -> None:
        """Write finished trials of a cohort."""
        name = f"{cohort}.part-{int(table[ORDER].min() or 0):08d}-{len(self.files()):06d}.parquet"
        self._write(self.folder / name, table, cohort)

    def merge(self, cohort: str) -> None:
        """Make the parts of a finished cohort one file."""
        whole = self.folder / f"{cohort}.parquet"
        parts = sorted(self.folder.glob(f"{cohort}.part-*.parquet"))
        if not parts:
            return
        sources = [whole, *parts] if whole.exists() else parts
        merged = pl.concat([pl.read_parquet(path) for path in sources], how="diagonal_relaxed")
        self._write(whole, merged.unique("id", keep="first").sort(ORDER), cohort)
        for part in parts:
            part.unlink()

    def scan(self) -> pl.LazyFrame:
        """All records, one row per trial, in the order of the experiment's trials."""
        tables = [pl.scan_parquet(path) for path in self.files()]
        if not tables:
            return pl.LazyFrame()
        return pl.concat(tables, how="diagonal_relaxed").unique("id", keep="first").sort(ORDER)

    def _write(self, path: Path, table: pl.DataFrame, cohort: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        write_parquet(temporary, table, {"cohort": cohort})
        temporary.replace(path)


def write_parquet(path: Path, table: pl.DataFrame, about: dict[str, Any]) -> None:
    """A Parquet file that says it is krogh's and which schema it has."""
    note = json.dumps({"schema": SCHEMA, **about})
    table.write_parquet(path, compression="zstd", metadata={META: note})
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _check_file(path: Path) -> None:
    remedy = "move it out of the folder and run again: what it held is trained again"
    try:
        note = pl.read_parquet_metadata(path).get(META)
    except (pl.exceptions.PolarsError, OSError, ValueError) as cause:
        reason = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
        raise KroghError(f"{path} is damaged ({reason}); {remedy}") from None
    if note is None:
        raise KroghError(f"{path} was not written by krogh; {remedy}")
    schema = json.loads(note).get("schema")
    if schema != SCHEMA:
        raise KroghError(f"{path} has schema {schema}; this krogh reads schema {SCHEMA}; {remedy}")
    try:
        pl.scan_parquet(path).select(pl.col("id").sum()).collect()
    except pl.exceptions.PolarsError as cause:
        raise KroghError(f"{path} is damaged ({str(cause).splitlines()[0]}); {remedy}") from None
