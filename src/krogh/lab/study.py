"""A study: an experiment at a scale, run into a folder, and resumed by running it again.

DIR/<name>/study.json       what was asked, with which versions, on which device, at what cost
           trials.parquet   one row per trial
           claims.json      the verdicts
           figures/         SVG, PDF and the data of each figure
           cohorts/         the store: one Parquet file per finished cohort
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
import numpy as np
import polars as pl

from krogh.engine import Trials, Usage, run_cohort
from krogh.engine.checking import CONVERGED, DIVERGED
from krogh.engine.lane import Finished
from krogh.engine.records import recorded, with_fields
from krogh.engine.run import prepare
from krogh.errors import KroghError, require
from krogh.lab import figures
from krogh.lab.claim import Claim
from krogh.lab.experiment import Experiment, Figure, Results
from krogh.lab.store import Store, temporary_beside, write_json, write_parquet
from krogh.lab.weights import weight_ids, write_weights
from krogh.values import digest

SCHEMA = 1
FLUSH_SECONDS = 20.0
PREPARED = 4  # cohorts whose programs are compiled ahead
FLUSH_ROWS = 200_000
PACKAGES = ("krogh", "jax", "jaxlib", "equinox", "numpy", "scipy", "polars", "matplotlib")


@dataclass
class Progress:
    """How far a study is: what a progress display shows."""

    total: int
    done: int = 0
    converged: int = 0
    diverged: int = 0
    steps: int = 0
    resumed: int = 0
    seconds: float = 0.0
    first_done: int = 0
    first_seconds: float = 0.0

    @property
    def steps_per_second(self) -> float:
        return self.steps / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """By the pace since the first trial ended: the first compilation says nothing of what follows."""
        fresh = self.done - self.first_done
        return (self.seconds - self.first_seconds) / fresh * (self.total - self.done) if fresh > 0 else None


@dataclass(frozen=True)
class Study:
    """A finished (or interrupted) study."""

    folder: Path
    status: str
    claims: list[Claim]
    summary: dict[str, Any]


def check_study(
    experiment: Experiment[Any],
    scale: str,
    out: Path | str,
    *,
    changes: dict[str, Any] | None = None,
    weights: bool = False,
) -> None:
    """Raise the error that `run_study` would raise before it trains; nothing is written."""
    settings = experiment.settings(scale, changes)
    experiment.trials(settings)
    _check_folder(Path(out) / experiment.name, _asked(experiment, scale, settings), weights)


def run_study(
    experiment: Experiment[Any],
    scale: str,
    out: Path | str,
    *,
    changes: dict[str, Any] | None = None,
    command: str = "",
    weights: bool = False,
    show: Callable[[Progress], None] = lambda progress: None,
) -> Study:
    """Run (or resume) an experiment at a scale into `out/<name>`."""
    settings = experiment.settings(scale, changes)
    cohorts = experiment.trials(settings)
    ids = [cohort.ids() for cohort in cohorts]
    folder = Path(out) / experiment.name
    head = {
        "schema": SCHEMA,
        **_asked(experiment, scale, settings),
        "title": experiment.title,
        "question": experiment.question,
        "source": experiment.source,
        "command": command or f"krogh run {experiment.name} --scale {scale} --out {out}",
        "versions": versions(),
        "device": device_in_words(),
        "started": _now(),
        "notes": list(experiment.notes),
    }
    before = _check_folder(folder, head, weights)
    store = Store(folder / "cohorts")
    with _refusing(folder):
        write_json(folder / "study.json", {**head, **_unfinished(before), "status": "running"})
    usage, begun = Usage(), time.perf_counter()
    progress = Progress(sum(len(cohort) for cohort in cohorts))
    try:
        _train(cohorts, ids, store, usage, progress, show, folder if weights else None)
    except KeyboardInterrupt:
        status = "interrupted"
    else:
        status = "complete"
    seconds = (before or {}).get("seconds", 0.0) + time.perf_counter() - begun
    summary = {
        **head,
        "started": (before or head)["started"],
        "finished": _now(),
        "seconds": round(seconds, 3),
        "status": status,
        "engine": _accounting(store, ids, usage, progress, before),
        "figures": [],
    }
    claims: list[Claim] = []
    if status == "complete":
        claims, summary["figures"] = _conclude(experiment, settings, scale, store, cohorts, ids, folder)
        write_json(folder / "claims.json", {"schema": 1, "claims": [claim.as_json() for claim in claims]})
    write_json(folder / "study.json", summary)
    return Study(folder, status, claims, summary)


def _train(
    cohorts: list[Trials],
    ids_of: list[np.ndarray],
    store: Store,
    usage: Usage,
    progress: Progress,
    show: Callable[[Progress], None],
    weights_folder: Path | None,
) -> None:
    missing_of = _missing(ids_of, store.ids())
    progress.done = progress.resumed = progress.total - sum(len(missing) for missing in missing_of)
    if progress.done < progress.total:
        show(progress)
    begun, first = time.perf_counter(), 0
    for place, (cohort, ids, missing) in enumerate(zip(cohorts, ids_of, missing_of, strict=True)):
        for ahead in range(place + 1, min(place + 1 + PREPARED, len(cohorts))):
            usage.compilations += prepare(cohorts[ahead], len(missing_of[ahead]))
        key = digest(cohort.structure).hex()
        batches: list[Finished] = []
        rows = 0
        flushed = time.perf_counter()
        records = run_cohort(cohort, missing, usage=usage, keep_weights=weights_folder is not None)
        try:
            for finished in records:
                if weights_folder is not None:
                    write_weights(weights_folder / "weights", ids[finished.position], finished.weights or {})
                batches.append(replace(finished, weights=None))
                progress.done += len(finished.position)
                progress.converged += int((finished.status == CONVERGED).sum())
                progress.diverged += int((finished.status == DIVERGED).sum())
                progress.steps += int(finished.steps.sum(dtype=np.int64))
                progress.seconds = time.perf_counter() - begun
                if not progress.first_seconds:
                    progress.first_done, progress.first_seconds = progress.done, progress.seconds
                show(progress)
                rows += len(finished.position)
                if rows >= FLUSH_ROWS or time.perf_counter() - flushed > FLUSH_SECONDS:
                    store.add_part(key, recorded(cohort, ids, _together(batches), first))
                    batches, rows, flushed = [], 0, time.perf_counter()
        finally:
            records.close()
            if batches:
                store.add_part(key, recorded(cohort, ids, _together(batches), first))
        store.merge(key)
        first += len(cohort)


def _missing(ids_of: list[np.ndarray], present: np.ndarray) -> list[np.ndarray]:
    """For each cohort the positions of the trials to train: not there yet, and a trial asked for twice only once."""
    result = []
    for ids in ids_of:
        _, distinct = np.unique(ids, return_index=True)
        result.append(np.sort(distinct[~np.isin(ids[distinct], present)]))
        present = np.union1d(present, ids)
    return result


def _together(batches: list[Finished]) -> Finished:
    """Records of many batches as one: a table per batch would take more room than the records themselves."""
    columns: dict[str, Any] = {}
    for field in fields(Finished):
        parts = [getattr(batch, field.name) for batch in batches]
        columns[field.name] = None if parts[0] is None else np.concatenate(parts)
    return Finished(**columns)


def _conclude(
    experiment: Experiment[Any],
    settings: Any,
    scale: str,
    store: Store,
    cohorts: list[Trials],
    ids: list[np.ndarray],
    folder: Path,
) -> tuple[list[Claim], list[dict[str, Any]]]:
    records = store.scan(np.unique(_joined(ids))).collect()
    tables = [_table(cohort, own, records) for cohort, own in zip(cohorts, ids, strict=True)]
    with temporary_beside(folder / "trials.parquet") as temporary:
        whole = pl.concat(tables, how="diagonal_relaxed") if tables else pl.LazyFrame()
        write_parquet(temporary, whole, {"study": experiment.name, "scale": scale})
        temporary.replace(folder / "trials.parquet")
    results = Results(pl.scan_parquet(folder / "trials.parquet"), settings, scale)
    with figures.style():
        drawn = [_saved(figure, folder / "figures") for figure in experiment.figures(results)]
    return experiment.claims(results), drawn


def _table(cohort: Trials, ids: np.ndarray, records: pl.DataFrame) -> pl.LazyFrame:
    """The cohort's rows of the study's table, in the order of its trials."""
    asked = pl.DataFrame({"id": ids, "place": np.arange(len(ids))})
    own = asked.join(records, on="id", how="inner", maintain_order="left")
    return with_fields(cohort, own["place"].to_numpy(), own.drop("place"))


def _saved(figure: Figure, folder: Path) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    svg, pdf = figures.save(figure.drawing, folder, figure.name)
    data = folder / f"{figure.name}.csv"
    figure.data.write_csv(data)
    names = {kind: f"figures/{path.name}" for kind, path in (("svg", svg), ("pdf", pdf), ("data", data))}
    return {
        "name": figure.name,
        **names,
        "title": figure.title,
        "caption": figure.caption,
        "alt": figure.alt or figure.caption,
    }


def _accounting(
    store: Store, ids: list[np.ndarray], usage: Usage, progress: Progress, before: dict[str, Any] | None
) -> dict[str, Any]:
    """What the study cost, over all its runs; outcomes from the store, costs added up."""
    earlier = (before or {}).get("engine", {})
    executed = usage.executed_steps + earlier.get("trained_steps", 0)
    useful = usage.useful_steps + earlier.get("useful_steps", 0)
    seconds = progress.seconds + earlier.get("training_seconds", 0.0)
    outcomes: dict[str, int] = {}
    if store.files():
        counted = store.scan(np.unique(_joined(ids))).group_by("outcome").len().collect()
        outcomes = dict(zip(counted["outcome"].cast(pl.String), counted["len"], strict=True))
    return {
        "trials": int(sum(outcomes.values())),
        **{name: int(outcomes.get(name, 0)) for name in ("converged", "failed", "diverged")},
        "trained_steps": executed,
        "useful_steps": useful,
        "wasted_share": round(1 - useful / executed, 6) if executed else 0.0,
        "compilations": usage.compilations + earlier.get("compilations", 0),
        "memory_splits": usage.splits + earlier.get("memory_splits", 0),
        "training_seconds": round(seconds, 3),
        "trial_steps_per_second": round(useful / seconds, 1) if seconds else 0.0,
    }


def _joined(ids: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.uint64), *ids])


def _asked(experiment: Experiment[Any], scale: str, settings: Any) -> dict[str, Any]:
    """What makes two studies the same study."""
    return {"name": experiment.name, "scale": scale, "settings": _plain(asdict(settings))}


@contextmanager
def _refusing(folder: Path) -> Iterator[None]:
    """An error of the file system as a refusal of the folder."""
    try:
        yield
    except OSError as cause:
        raise KroghError(f"cannot write a study into {folder}: {cause.strerror or cause}") from None


def _check_folder(folder: Path, asked: dict[str, Any], weights: bool) -> dict[str, Any] | None:
    """The earlier study.json of the same study; refuse a folder that holds another, or cannot be written."""
    with _refusing(folder):
        nearest = next(existing for existing in (folder, *folder.parents) if existing.exists())
        usable = nearest.is_dir() and os.access(nearest, os.W_OK)
        require(usable, f"cannot write a study into {folder}: {nearest} is not a writable folder")
        path = folder / "study.json"
        if not path.exists():
            # A hidden file may be what a crash left of the first write.
            foreign = folder.is_dir() and any(not item.name.startswith(".") for item in folder.iterdir())
            require(not foreign, f"{folder} is not empty and holds no study; choose another --out")
            return None
        before = _earlier(path)
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


def _earlier(path: Path) -> dict[str, Any]:
    remedy = f"move {path.parent} away or choose another --out"
    try:
        before = dict(json.loads(path.read_text(encoding="utf-8")))
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


def _unfinished(before: dict[str, Any] | None) -> dict[str, Any]:
    kept: dict[str, Any] = {
        name: (before or {})[name] for name in ("engine", "seconds", "started") if name in (before or {})
    }
    return {"finished": None, "seconds": 0.0, "figures": [], "engine": {}, **kept}


def versions() -> dict[str, str]:
    """Versions of what computed the results."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def device_in_words() -> str:
    devices = jax.local_devices()
    kind = devices[0].device_kind if devices[0].platform != "cpu" else f"CPU, {os.cpu_count()} cores"
    return kind if len(devices) == 1 else f"{len(devices)} × {kind}"


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(settings))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
