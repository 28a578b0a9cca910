"""A study read from its folder: `krogh.open_study(folder)`.

    study = krogh.open_study("runs/laptop/parity/scaling")
    study.table            one row per trial (Polars; `.to_pandas()`, `.write_csv(path)`)
    study.curves()         one row per trial and look: what probes measured, tidy
    study.measures["..."]  the tables that claims and figures are made of
    study.claims           one row per claim: verdict, value, interval, threshold
    study.weights(id)      the weights of a trial, at its end or at a snapshot; `torch=True` as a state dictionary

Nothing is trained, measured or written. Files are opened by their formats (Parquet, JSON, safetensors) and never run.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from krogh.errors import KroghError, require
from krogh.lab.study import read_study
from krogh.lab.weights import WeightsFolder

CURVE = "curve."


class Measures(Mapping[str, pl.DataFrame]):
    """The measured tables of a study by name, each read when it is asked for."""

    def __init__(self, folder: Path):
        self._files = {path.stem: path for path in sorted(folder.glob("*.parquet"))}

    def __getitem__(self, name: str) -> pl.DataFrame:
        require(name in self._files, f"no measured table {name!r} (there are {', '.join(self._files) or 'none'})")
        return _parquet(self._files[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


@dataclass(frozen=True)
class OpenStudy:
    """A study's folder and its summary: name, scale, settings, versions, device, cost."""

    folder: Path
    summary: dict[str, Any]

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.summary["settings"])

    @functools.cached_property
    def table(self) -> pl.DataFrame:
        """One row per trial: its identity, its fields by their dotted names, its labels, its record."""
        return _parquet(self.folder / "trials.parquet")

    def curves(self, *columns: str) -> pl.DataFrame:
        """What probes measured: one row per trial and look, with the trial's `id`, seed, and the `columns` asked for.

        A measurement is a column of its own name; `step` counts optimiser steps.
        """
        table = self.table
        measured = [name for name in table.columns if name.startswith(CURVE)]
        require(measured, f"{self.folder} has no curves: its trials have no probes")
        known = ["id", *(name for name in ("seed", *columns) if name in table.columns)]
        missing = [name for name in columns if name not in table.columns]
        require(not missing, f"no column {', '.join(missing)} in the table (see study.table.columns)")
        chosen = table.select(*dict.fromkeys(known), *measured)
        return chosen.explode(*measured).rename({name: name.removeprefix(CURVE) for name in measured})

    @functools.cached_property
    def measures(self) -> Measures:
        return Measures(self.folder / "measures")

    @functools.cached_property
    def claims(self) -> pl.DataFrame:
        """One row per claim, in the order of the report."""
        path = self.folder / "claims.json"
        try:
            rows = json.loads(path.read_text(encoding="utf-8"))["claims"]
        except FileNotFoundError:
            raise KroghError(f"{self.folder} is {self.summary.get('status')}: it has no claims yet") from None
        except (KeyError, TypeError, ValueError):
            raise KroghError(f"{path} is damaged; `krogh judge {self.folder}` writes it again") from None
        return pl.DataFrame(rows, infer_schema_length=None)

    def weights(self, identity: int, step: int | None = None, *, torch: bool = False) -> dict[str, Any]:
        """The weights of a trial by the table's column `id`, as NumPy arrays, or as tensors of PyTorch."""
        folder = self.folder / "weights"
        require(
            folder.is_dir(),
            f"{self.folder} keeps no weights (run it with --weights into another folder: {self.summary['command']!r})",
        )
        found = WeightsFolder(folder)(identity, step)
        if not torch:
            return found
        from torch import from_numpy  # in no extra but `bench`: whoever asks for tensors has it

        return {name: from_numpy(array.copy()) for name, array in found.items()}


def open_study(folder: str | os.PathLike[str]) -> OpenStudy:
    """The study in a folder, or the only one below it."""
    place = Path(folder)
    found = sorted(path.parent for path in place.rglob("study.json")) if place.is_dir() else []
    require(found, f"no study under {place} (krogh run NAME --out {place} makes one)")
    require(
        len(found) == 1,
        f"{place} holds {len(found)} studies; open one of {', '.join(str(one) for one in found[:8])}",
    )
    return OpenStudy(found[0], read_study(found[0]))


def _parquet(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path)
    except FileNotFoundError:
        raise KroghError(f"{path} is not there: the study is not finished") from None
    except (pl.exceptions.PolarsError, OSError) as cause:
        raise KroghError(
            f"{path} is damaged ({str(cause).splitlines()[0]}); run the study again to restore it"
        ) from None
