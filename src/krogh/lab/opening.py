"""A study read from its folder: `krogh.open_study(folder)`.

    study = krogh.open_study("runs/laptop/parity/scaling")
    study.table            one row per trial, in Polars
    study.records          the same, lazily: 10^6 trials are filtered and aggregated in a fraction of a second
    study.pandas()         the same for pandas, study.xarray() with a dimension per swept field, study.csv(path) in CSV
    study.curves()         one row per trial and look: what probes measured, tidy
    study.measures["..."]  the tables that claims and figures are made of
    study.claims           one row per claim: verdict, value, interval, threshold
    study.weights(id)      the weights of a trial, at its end or at a snapshot, with what they are; .torch(), .save()

Nothing is trained or measured, and nothing is written but what is asked for. Files are opened by their formats
(Parquet, JSON, safetensors) and never run. What `krogh.run(..., out=folder)` keeps is opened likewise.
"""

from __future__ import annotations

import functools
import inspect
import json
import operator
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import KroghError, require
from krogh.files import destination, read_table, replacing, scan_table, study_folders
from krogh.integrity import read_object, require_sound, require_whole_table
from krogh.lab.curves import CURVE, look_table, require_columns
from krogh.lab.exporting import to_csv, to_pandas, to_xarray
from krogh.lab.glance import in_a_line, in_html
from krogh.lab.remote import TRAINING, address, bring, named
from krogh.lab.study import RUN, read_study
from krogh.lab.weights import WeightsFolder
from krogh.numbers import json_number
from krogh.registry import MODELS
from krogh.saying import first_line


class Measures(Mapping[str, pl.DataFrame]):
    """The measured tables of a study by name, each read when it is asked for."""

    def __init__(self, folder: Path, summary: dict[str, Any]):
        self._folder, self._summary = folder, summary
        self._files = {path.stem: f"measures/{path.name}" for path in sorted((folder / "measures").glob("*.parquet"))}

    def __getitem__(self, name: str) -> pl.DataFrame:
        require(name in self._files, f"no measured table {name!r} (there are {', '.join(self._files) or 'none'})")
        return _parquet(self._folder, self._files[name], self._summary)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


@dataclass(frozen=True)
class OpenStudy:
    """A study's folder and its summary: name, scale, settings, versions, device, cost."""

    folder: Path
    summary: dict[str, Any]
    url: str = ""  # of which the folder is a copy

    def __repr__(self) -> str:
        return in_a_line(self.summary, self._claims_at_hand(), self.url or self.folder)

    def _repr_html_(self) -> str:
        return in_html(self.summary, self._claims_at_hand(), self.url or self.folder)

    def _claims_at_hand(self) -> list[dict[str, Any]]:
        """The claims, if there are any and they can be read."""
        try:
            return self.claims.to_dicts()
        except (KroghError, OSError, pl.exceptions.PolarsError):
            return []

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.summary["settings"])

    @functools.cached_property
    def table(self) -> pl.DataFrame:
        """One row per trial: its identity, its fields by their dotted names, its labels, its record."""
        return _parquet(self.folder, "trials.parquet", self.summary)

    @functools.cached_property
    def records(self) -> pl.LazyFrame:
        """The table, of which only what a query needs is read: `.filter(...)`, `.group_by(...)`, then `.collect()`."""
        require_whole_table(self.folder, "trials.parquet")
        return scan_table(require_sound(self.folder, "trials.parquet", self.summary))

    def curves(self, *columns: str) -> pl.DataFrame:
        """What probes measured: one row per trial and look, with the trial's `id`, seed, and the `columns` asked for.

        A measurement is a column of its own name; `step` counts optimiser steps.
        """
        require_columns(self.table, *columns)
        return look_table(self.table, "id", "seed", *columns)

    @functools.cached_property
    def measures(self) -> Measures:
        return Measures(self.folder, self.summary)

    @functools.cached_property
    def claims(self) -> pl.DataFrame:
        """One row per claim, in the order of the report."""
        path = self.folder / "claims.json"
        try:
            rows = read_object(self.folder, path.name)["claims"]
        except FileNotFoundError:
            raise KroghError(f"{self.folder} is {self.summary.get('status')}: it has no claims yet") from None
        except (KeyError, TypeError, KroghError):
            raise KroghError(f"{path} is damaged; `krogh judge {self.folder}` writes it again") from None
        require_sound(self.folder, path.name, self.summary, f"`krogh judge {self.folder}` writes it again")
        return pl.DataFrame(rows, infer_schema_length=None)

    def pandas(self) -> Any:
        """The table for pandas: see `krogh.to_pandas`."""
        return to_pandas(self.table)

    def xarray(self, *, curves: bool = True) -> Any:
        """The table and curves as an xarray dataset, a dimension for every swept field: see `krogh.to_xarray`."""
        return to_xarray(self.table, curves=curves)

    def csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the table as CSV, curves as JSON text: see `krogh.to_csv`."""
        return to_csv(self.table, path)

    def weights(self, identity: int | str, step: int | None = None, *, torch: bool = False) -> dict[str, Any]:
        """The weights of a trial by the table's column `id`, as NumPy arrays with what they are (`TrialWeights`).

        The identity may be text, as JSON and CSV have it.

        At its end, or at `step`, one of its snapshots; with `torch`, as a state dictionary of PyTorch.
        """
        folder = self.folder / "weights"
        if self.url:
            bring(self.url, without=("cohorts",))
        require(folder.is_dir(), f"{self.folder} keeps no weights ({self._how_to_keep_weights()})")
        number = _identity(identity)
        found = TrialWeights(WeightsFolder(folder)(number, step), self._row(number), step)
        return found.torch() if torch else found

    def _how_to_keep_weights(self) -> str:
        if self.summary.get("kind") == RUN:
            return "call krogh.run with weights=True and another out="
        try:
            words = shlex.split(str(self.summary.get("command", "")))
        except ValueError:  # what nobody can have typed
            words = ["krogh", "run", str(self.summary.get("name"))]
        for place, word in enumerate(words[1:], 1):
            if words[place - 1] == "--out":
                words[place] = f"{word.rstrip('/')}-weights"
        command = shlex.join(words if "--weights" in words else [*words, "--weights"])
        return f"run it with --weights into another folder: {command}"

    def _row(self, identity: int) -> dict[str, Any]:
        """A trial's row of the table, without its curves."""
        own = self.table.filter(pl.col("id") == identity).select(pl.exclude(rf"^{re.escape(CURVE)}.*$"))
        return own.row(0, named=True) if len(own) else {}


class TrialWeights(dict[str, np.ndarray]):
    """The weights of one trial by name, and what they are.

    Names, shapes and orientation are those of the model's formula (`description`, which `krogh show MODEL` prints too):
    `W` of `W x + b` is [outputs, inputs], as in `torch.nn.Linear`; where a formula multiplies from the right, `x W`, it
    is [inputs, outputs]. Nothing is transposed or converted: all are float32, for PyTorch too.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], trial: dict[str, Any], step: int | None):
        super().__init__(arrays)
        self.trial, self.snapshot = trial, step

    @property
    def step(self) -> int | None:
        """How many steps they were trained."""
        return self.trial.get("steps") if self.snapshot is None else self.snapshot

    @property
    def description(self) -> str:
        """What the model says of itself; nothing for one of a file that is not loaded."""
        kind = str(self.trial.get("model", ""))
        return inspect.getdoc(MODELS[kind]) or "" if kind in MODELS else ""

    def about(self) -> dict[str, Any]:
        """The trial's fields and record, the step, what the model says, and every parameter's shape and type."""
        parameters = {name: {"shape": list(array.shape), "dtype": str(array.dtype)} for name, array in self.items()}
        return {"trial": self.trial, "step": self.step, "model": self.description, "parameters": parameters}

    def torch(self) -> dict[str, Any]:
        """A state dictionary of PyTorch: tensors of the same names, shapes and type, which own their memory."""
        try:
            from torch import from_numpy
        except ImportError:
            raise KroghError("a state dictionary needs PyTorch: pip install torch") from None
        return {name: from_numpy(array.copy()) for name, array in self.items()}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write them as one safetensors file; what they are (`about`) is JSON in its metadata, under `krogh`."""
        from safetensors.numpy import save_file

        target = Path(path)
        said = self.about() | {"trial": {name: json_number(value) for name, value in self.trial.items()}}
        about = json.dumps(said, ensure_ascii=False)
        with replacing(destination(target), parents=False) as temporary:
            save_file({name: np.ascontiguousarray(array) for name, array in self.items()}, temporary, {"krogh": about})
        return target


def open_study(folder: str | os.PathLike[str]) -> OpenStudy:
    """The study in a folder or at a URL (docs/stores.md), or the only one below it."""
    where = folder if isinstance(folder, str) else Path(folder)
    with named(where):
        place = bring(where, without=TRAINING)
        if (place / "study.json").is_file():  # without a walk through what may be a million files of weights
            return OpenStudy(place, read_study(place), address(where, place))
        found = study_folders(place)
        require(found, f"no study under {place} (krogh run NAME --out {place} makes one)")
        require(
            len(found) == 1,
            f"{place} holds {len(found)} studies; open one of {', '.join(str(one) for one in found[:8])}",
        )
        return OpenStudy(found[0], read_study(found[0]), address(where, found[0]))


def _identity(given: Any) -> int:
    """The identity of a trial, whole or as text."""
    text = isinstance(given, str) and given.isascii() and given.isdigit()
    try:
        if isinstance(given, bool):
            raise TypeError
        return int(given) if text else operator.index(given)
    except TypeError:
        raise KroghError(f"a trial is known by a whole number, the table's column id; got {given!r}") from None


def _parquet(folder: Path, name: str, summary: dict[str, Any]) -> pl.DataFrame:
    path = folder / name
    try:
        return read_table(require_sound(folder, name, summary))
    except FileNotFoundError:
        raise KroghError(f"{path} is not there: the study is not finished") from None
    except (pl.exceptions.PolarsError, OSError) as cause:
        raise KroghError(f"{path} is damaged ({first_line(cause)}); run the study again to restore it") from None
