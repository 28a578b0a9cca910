"""The store: records on disk, addressed by the trials' identities.

While a cohort is in flight its finished trials are written in parts; when it ends the parts become one Parquet file.
Where there are thousands of small files, those of many cohorts become one: a folder is never so full that listing it
costs more than writing to it. A crash between a merge and the removal of its sources leaves duplicates, which reading
drops. A file's name ends with the digest of its bytes: Parquet has no checksum of its own, and a byte that changed on
disk would otherwise be a result.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from krogh.engine.records import ORDER
from krogh.errors import KroghError, require
from krogh.files import RECORDS_SCHEMA, put_in_place, read_table, replacing, scan_table, temporary_beside
from krogh.integrity import digest_of

MERGED_ROWS = 200_000
MOST_SMALL, SMALL_BYTES = 512, 1 << 20
"""So many files of ended cohorts may be small before they are packed together."""
PACKED, PART = "packed", ".part-"
META = "krogh"


class Store:
    """The Parquet files of one study."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._ended = 0  # cohorts since small files were last looked for

    def files(self) -> list[Path]:
        return sorted(self._named(""))

    def check(self) -> None:
        """Refuse a damaged file, or one that krogh did not write, before anything is trained or written."""
        for path in self.files():
            try:
                check_file(path)
            except KroghError:
                if os.path.lexists(path):  # else another process has merged it in the meantime
                    raise

    def ids(self) -> np.ndarray:
        """Identities of the trials that are there [count], sorted."""
        while True:
            try:
                each = [read_table(path, ["id"])["id"].to_numpy() for path in self.files()]
                return np.unique(np.concatenate([np.zeros(0, np.uint64), *each]))
            except FileNotFoundError:  # another process has merged it in the meantime: what it held is in a new one
                for path in self.files():
                    require(path.exists() or not path.is_symlink(), f"{path} is a link to nothing; remove it")

    def in_parts(self) -> set[str]:
        """The cohorts of which there are parts: interrupted, or ended and very large."""
        return {path.name.partition(PART)[0] for path in self._named("") if PART in path.name}

    def has_parts(self, cohort: str) -> bool:
        """Whether something of a cohort was written before it ended."""
        return any(PART in path.name for path in self._named(cohort))

    def _named(self, beginning: str) -> list[Path]:
        """Files whose names begin so; a glob would take ten times as long."""
        try:
            with os.scandir(self.folder) as entries:
                found = [entry for entry in entries if entry.name.startswith(beginning)]
                names = [entry.name for entry in found if entry.is_symlink() or entry.is_file() or entry.is_dir()]
        except FileNotFoundError:
            return []
        return [self.folder / name for name in names if name.endswith(".parquet") and not name.startswith(".")]

    def add_part(self, cohort: str, table: pl.DataFrame) -> None:
        """Write finished trials of a cohort."""
        self._write(f"{cohort}.part", _each_once(table), cohort)

    def merge(self, cohort: str) -> None:
        """Make the parts of a finished cohort one file; those of a very large one stay, each large enough itself."""
        sources = sorted(self._named(cohort))  # the whole one, if there is one, comes first
        if not any(PART in path.name for path in sources):
            return
        if len(sources) == 1:  # sound already, but for its name
            sources[0].replace(sources[0].with_name(sources[0].name.replace(PART, "-")))
        elif sum(map(_rows, sources)) <= MERGED_ROWS:
            self._gather(cohort, sources, [read_table(path) for path in sources])
        self._ended += 1
        if self._ended >= MOST_SMALL:
            self._ended = 0
            self._pack()

    def add_ended(self, tables: list[tuple[str, pl.DataFrame]]) -> None:
        """Write cohorts of which nothing is there yet, each all at once: one as its own file, several as one."""
        if len(tables) == 1:
            ((cohort, table),) = tables
            self.add_part(cohort, table)
            self.merge(cohort)
        elif tables:
            together = pl.concat([table for _, table in tables], how="diagonal_relaxed")
            self._write(PACKED, _each_once(together), PACKED)

    def _gather(self, name: str, sources: list[Path], tables: list[pl.DataFrame]) -> None:
        """One file in the place of several; of a trial that is in two of them, the first is kept."""
        written = self._write(name, _each_once(pl.concat(tables, how="diagonal_relaxed")), name)
        for path in sources:
            if path != written:
                path.unlink(missing_ok=True)

    def _pack(self) -> None:
        """Put small files of ended cohorts together."""
        small = [path for path in self.files() if PART not in path.name and path.stat().st_size < SMALL_BYTES]
        if len(small) < MOST_SMALL:
            return
        pack, tables, rows = list[Path](), list[pl.DataFrame](), 0
        for path in small:
            pack.append(path)
            tables.append(read_table(path))
            rows += len(tables[-1])
            if rows > MERGED_ROWS or path is small[-1]:
                self._gather(PACKED, pack, tables)
                pack, tables, rows = [], [], 0

    def forget(self, ids: np.ndarray) -> None:
        """Remove the records of these trials: they are to be trained again."""
        for path in self.files():
            table = read_table(path)
            kept = table.filter(~np.isin(table["id"].to_numpy(), ids))
            if len(kept) < len(table):
                stem = path.stem.rpartition("-")[0]
                if len(kept):
                    self._write(stem, kept, stem.partition(".")[0])
                path.unlink()

    def scan(self, ids: np.ndarray) -> pl.LazyFrame:
        """The records of the trials with these identities, a row for each of `ids` that is there, in their order.

        Records of other trials, which an earlier version of the experiment may have left, are passed over.
        """
        tables = [scan_table(path) for path in self.files()]
        if not tables:
            return pl.LazyFrame()
        records = pl.concat(tables, how="diagonal_relaxed").unique("id", keep="first").drop(ORDER)
        return pl.LazyFrame({"id": ids}).join(records, on="id", how="inner", maintain_order="left")

    def _write(self, stem: str, table: pl.DataFrame, cohort: str) -> Path:
        self.folder.mkdir(exist_ok=True)  # but not what it is in: a study that is removed while it runs stays so
        with temporary_beside(self.folder / f"{stem}.parquet", parents=False) as temporary:
            _sink(temporary, table, {"cohort": cohort})
            return put_in_place(temporary, self.folder / f"{stem}-{digest_of(temporary, 8)}.parquet")


def _each_once(table: pl.DataFrame) -> pl.DataFrame:
    """Every trial once, in the order of the study; most tables are so already."""
    once = table if table["id"].n_unique() == len(table) else table.unique("id", keep="first", maintain_order=True)
    return once if once[ORDER].is_sorted() else once.sort(ORDER)


def _rows(path: Path) -> int:
    return int(scan_table(path).select(pl.len()).collect().item())


def write_parquet(path: Path, table: pl.DataFrame | pl.LazyFrame, about: dict[str, Any]) -> None:
    """A Parquet file that says it is krogh's and which schema it has; a lazy table is never whole in memory."""
    with replacing(path) as temporary:
        _sink(temporary, table, about)


def _sink(path: Path, table: pl.DataFrame | pl.LazyFrame, about: dict[str, Any]) -> None:
    note = json.dumps({"schema": RECORDS_SCHEMA, **about})
    table.lazy().sink_parquet(path, compression="zstd", metadata={META: note})


def check_file(path: Path) -> None:
    """Refuse a file of records that is damaged, or that krogh did not write."""
    remedy = "move it out of the folder and run again: what it held is trained again"
    try:
        note = pl.read_parquet_metadata(path).get(META)
        schema = None if note is None else dict(json.loads(note)).get("schema")
        whole = path.stem.endswith(f"-{digest_of(path, 8)}")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, TypeError, ValueError) as cause:
        reason = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
        raise KroghError(f"{path} is damaged ({reason}); {remedy}") from None
    if note is None:
        raise KroghError(f"{path} was not written by krogh; {remedy}")
    if schema != RECORDS_SCHEMA:
        raise KroghError(f"{path} has schema {schema}; this krogh reads schema {RECORDS_SCHEMA}; {remedy}")
    if not whole:
        raise KroghError(f"{path} is damaged (its content is not what was written); {remedy}")
