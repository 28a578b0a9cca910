"""The store: records on disk, addressed by the trials' identities.

While a cohort is in flight its finished trials are written in parts; when it ends the parts become one Parquet file. A
crash between a merge and the removal of its parts leaves duplicates, which reading drops. A file's name ends with the
digest of its bytes: Parquet has no checksum of its own, and a byte that changed on disk would otherwise be a result.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from krogh.engine.records import ORDER
from krogh.errors import KroghError
from krogh.files import RECORDS_SCHEMA, put_in_place, replacing, temporary_beside

MERGED_ROWS = 200_000
META = "krogh"


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
        self._write(f"{cohort}.part", table, cohort)

    def merge(self, cohort: str) -> None:
        """Make the parts of a finished cohort one file; those of a very large one stay, each large enough itself."""
        sources = sorted(self.folder.glob(f"{cohort}*.parquet"))  # the whole one, if there is one, comes first
        rows = sum(pl.scan_parquet(path).select(pl.len()).collect().item() for path in sources)
        if rows > MERGED_ROWS or not any(".part-" in path.name for path in sources):
            return
        merged = pl.concat([pl.read_parquet(path) for path in sources], how="diagonal_relaxed")
        whole = self._write(cohort, merged.unique("id", keep="first").sort(ORDER), cohort)
        for path in sources:
            if path != whole:
                path.unlink()

    def scan(self, ids: np.ndarray) -> pl.LazyFrame:
        """The records of the trials with these identities, a row for each of `ids` that is there, in their order.

        Records of other trials, which an earlier version of the experiment may have left, are passed over.
        """
        tables = [pl.scan_parquet(path) for path in self.files()]
        if not tables:
            return pl.LazyFrame()
        records = pl.concat(tables, how="diagonal_relaxed").unique("id", keep="first").drop(ORDER)
        return pl.LazyFrame({"id": ids}).join(records, on="id", how="inner", maintain_order="left")

    def _write(self, stem: str, table: pl.DataFrame, cohort: str) -> Path:
        with temporary_beside(self.folder / f"{stem}.parquet") as temporary:
            _sink(temporary, table, {"cohort": cohort})
            return put_in_place(temporary, self.folder / f"{stem}-{_digest(temporary)}.parquet")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=8)).hexdigest()


def write_parquet(path: Path, table: pl.DataFrame | pl.LazyFrame, about: dict[str, Any]) -> None:
    """A Parquet file that says it is krogh's and which schema it has; a lazy table is never whole in memory."""
    with replacing(path) as temporary:
        _sink(temporary, table, about)


def _sink(path: Path, table: pl.DataFrame | pl.LazyFrame, about: dict[str, Any]) -> None:
    note = json.dumps({"schema": RECORDS_SCHEMA, **about})
    table.lazy().sink_parquet(path, compression="zstd", metadata={META: note})


def _check_file(path: Path) -> None:
    remedy = "move it out of the folder and run again: what it held is trained again"
    try:
        note = pl.read_parquet_metadata(path).get(META)
        schema = None if note is None else dict(json.loads(note)).get("schema")
        whole = path.stem.endswith(f"-{_digest(path)}")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, TypeError, ValueError) as cause:
        reason = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
        raise KroghError(f"{path} is damaged ({reason}); {remedy}") from None
    if note is None:
        raise KroghError(f"{path} was not written by krogh; {remedy}")
    if schema != RECORDS_SCHEMA:
        raise KroghError(f"{path} has schema {schema}; this krogh reads schema {RECORDS_SCHEMA}; {remedy}")
    if not whole:
        raise KroghError(f"{path} is damaged (its content is not what was written); {remedy}")
