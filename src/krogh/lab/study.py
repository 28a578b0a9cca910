"""A study: an experiment at a scale, run into a folder, and resumed by running it again.

DIR/<name>/study.json       what was asked, with which versions and sources, on which device, at what cost
           trials.parquet   one row per trial
           measures/        the tables that claims and figures are made of
           claims.json      the verdicts
           figures/         SVG, PDF and the data of each figure
           cohorts/         the store: one Parquet file per finished cohort
           weights/         trained weights, where they are kept

Training and measuring are resumed; claims and figures are always made anew, from the tables alone (`judge_study`).
Verdicts are written before anything is drawn: a fault in a drawing costs none.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trials, Usage
from krogh.engine.lane import PATHS
from krogh.engine.records import with_fields
from krogh.errors import KroghError, require
from krogh.files import STUDY_SCHEMA, lock, replacing, write_json
from krogh.lab import figures
from krogh.lab.charts import Figure
from krogh.lab.claims import Claim
from krogh.lab.experiment import TRIALS, Experiment, Tables
from krogh.lab.results import Results
from krogh.lab.sources import changes as source_changes
from krogh.lab.sources import device_in_words, measure_sources, now, trial_sources, versions
from krogh.lab.store import Store, write_parquet
from krogh.lab.training import Progress, train_missing
from krogh.lab.weights import WeightsFolder
from krogh.registry import EXPERIMENTS, needed_file
from krogh.values import digest

REUSE, RETRAIN = "reuse", "retrain"
"""What to do with trials whose source has changed since."""


@dataclass(frozen=True)
class Study:
    """A finished (or interrupted) study."""

    folder: Path
    status: str
    claims: list[Claim]
    summary: dict[str, Any]


@dataclass(frozen=True)
class PlannedStudy:
    """A study that was asked for and can be run: its settings are sound, and so is its folder."""

    experiment: Experiment[Any]
    scale: str
    settings: Any
    cohorts: list[Trials]
    ids: list[np.ndarray]
    folder: Path
    head: dict[str, Any]
    before: dict[str, Any] | None
    weights: bool
    retrain: bool = False  # what is there was trained by another source, and goes

    def run(self, show: Callable[[Progress], None] = lambda progress: None) -> Study:
        """Train, measure, judge and draw whatever is not there yet."""
        folder, head, before = self.folder, self.head, self.before
        with _make(folder), lock(folder):
            store = Store(folder / "cohorts")
            for path in (*store.files(), *(folder / "weights").glob("*.safetensors")) if self.retrain else ():
                path.unlink()
            with _refuse_where_unwritable(folder):
                write_json(folder / "study.json", {**head, **_carried_over(before), "status": "running"})
            usage, begun = Usage(), time.perf_counter()
            progress = Progress(sum(len(cohort) for cohort in self.cohorts))
            search = self.experiment.search(self.settings, self.cohorts)
            try:
                train_missing(self.cohorts, self.ids, store, usage, progress, show, self._weights_folder, search)
                status = "complete"
            except KeyboardInterrupt:
                status = "interrupted"
            records = store.scan(np.unique(_all_ids(self.ids))).collect()
            summary: dict[str, Any] = {
                **head,
                **_provenance(head, before, usage),
                "started": (before or head)["started"],
                "finished": now(),
                "seconds": round((before or {}).get("seconds", 0.0) + time.perf_counter() - begun, 3),
                "status": status,
                "engine": _accounting(records, usage, progress, before),
                "figures": [],
            }
            if status != "complete":
                write_json(folder / "study.json", summary)
                return Study(folder, status, [], summary)
            self._write_trials(records)
            summary["measured"] = self._measure(records, before)
            if not self.cohorts:  # a study that trains nothing is what it measures
                summary |= {"seconds": round(time.perf_counter() - begun, 3), "finished": now()}
            return _conclude(self.experiment, Tables(self.settings, _tables(folder), self.scale), folder, summary)

    @property
    def _weights_folder(self) -> Path | None:
        return self.folder / "weights" if self.weights else None

    def _write_trials(self, records: pl.DataFrame) -> None:
        """The study's table: the trials' records and fields, in the order of the cohorts."""
        tables = [_table(cohort, own, records) for cohort, own in zip(self.cohorts, self.ids, strict=True)]
        whole = pl.concat(tables, how="diagonal_relaxed") if tables else pl.LazyFrame()
        about = {"study": self.experiment.name, "scale": self.scale}
        write_parquet(self.folder / "trials.parquet", whole, about)

    def _measure(self, records: pl.DataFrame, before: dict[str, Any] | None) -> dict[str, Any]:
        """Make and store the tables that are not there, or that another source or other trials have made."""
        ids = _all_ids(self.ids)
        ids = ids[np.isin(ids, records["id"].to_numpy())] if len(ids) else ids  # a search leaves some out
        stamp = {"trials": digest(ids.tobytes().hex()).hex(), "sources": _digest(measure_sources(self.experiment))}
        known = (before or {}).get("measured", {}).get("stamp") == stamp
        results = Results(
            pl.scan_parquet(self.folder / "trials.parquet"),
            self.settings,
            self.scale,
            cohorts=self.cohorts,
            ids=self.ids,
            weights_folder=self._weights_folder,
        )
        place, names = self.folder / "measures", []
        if not known and place.is_dir():
            for stale in place.glob("*.parquet"):
                stale.unlink()
        write_json(
            self.folder / "study.json",
            {**self.head, **_carried_over(before), "status": "running", "measured": {"stamp": stamp}},
        )
        for name, table in self.experiment.measure(results).items():
            require(name != TRIALS, f"a measured table may not be called {TRIALS!r}")
            names.append(name)
            path = place / f"{name}.parquet"
            if known and path.exists():
                continue
            measured = table if isinstance(table, pl.DataFrame) else table()
            write_parquet(path, measured, {"study": self.experiment.name, "table": name})
        return {"stamp": stamp, "tables": names}


def plan_study(
    experiment: Experiment[Any],
    scale: str,
    out: Path | str,
    *,
    changes: dict[str, Any] | None = None,
    weights: bool = False,
    stale: str = "",
) -> PlannedStudy:
    """What `run` would do, with every reason to refuse found before anything is trained; nothing is written.

    Trials whose source has changed since they were trained are refused, unless `stale` says to reuse them as they are
    or to retrain them.
    """
    settings = experiment.settings(scale, changes)
    cohorts = list(experiment.trials(settings))
    folder = Path(out) / experiment.name
    sources = trial_sources(cohort.template for cohort in cohorts)
    head = {
        "schema": STUDY_SCHEMA,
        "name": experiment.name,
        "scale": scale,
        "settings": json.loads(json.dumps(asdict(settings))),
        "title": experiment.title,
        "question": experiment.question,
        "source": experiment.source,
        "command": _command(experiment, scale, out, changes or {}, weights),
        "versions": versions(),
        "device": device_in_words(),
        "started": now(),
        "notes": list(experiment.notes),
        "sources": sources,
    }
    weights = weights or experiment.keep_weights or any(cohort.template.snapshots for cohort in cohorts)
    before = _earlier_study(folder, head, weights)
    retrain = False
    if before is not None and before.get("sources", {}) != sources:
        before, head = _with_changed_sources(folder, before, head, stale)
        retrain = before is None
    ids = [cohort.ids() for cohort in cohorts]
    return PlannedStudy(experiment, scale, settings, cohorts, ids, folder, head, before, weights, retrain)


def _command(experiment: Experiment[Any], scale: str, out: Path | str, changes: dict[str, Any], weights: bool) -> str:
    """The command that repeats a study, with the file that it needs where the experiment is a user's own."""
    file = needed_file(type(experiment))
    plugin = ["--plugin", str(file)] if file else []
    texts = {key: ",".join(map(str, v)) if isinstance(v, list | tuple) else str(v) for key, v in changes.items()}
    given = [part for key, text in texts.items() for part in ("--set", f"{key}={text}")]
    where = ["--scale", scale, "--out", str(out)]
    return shlex.join(["krogh", "run", experiment.name, *plugin, *where, *given, *["--weights"] * weights])


def run_study(
    experiment: Experiment[Any],
    scale: str,
    out: Path | str,
    *,
    show: Callable[[Progress], None] = lambda progress: None,
    **options: Any,
) -> Study:
    """Run (or resume) an experiment at a scale into `out/<name>`; options as for `plan_study`."""
    return plan_study(experiment, scale, out, **options).run(show)


# --- the folder: may this study be run into it, and what did an earlier run leave there? ---------------------------


@contextmanager
def _refuse_where_unwritable(folder: Path) -> Iterator[None]:
    """An error of the file system as a refusal of the folder."""
    try:
        yield
    except OSError as cause:
        raise KroghError(f"cannot write a study into {folder}: {cause.strerror or cause}") from None


def _earlier_study(folder: Path, asked: dict[str, Any], weights: bool) -> dict[str, Any] | None:
    """The earlier study.json of the same study; refuse a folder that holds another, or cannot be written."""
    with _refuse_where_unwritable(folder):
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
        lacking = int((~np.isin(store.ids(), WeightsFolder(folder / "weights").ids())).sum())
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
    require(schema == STUDY_SCHEMA, f"{path} has schema {schema!r}; this krogh reads schema {STUDY_SCHEMA}; {remedy}")
    engine = before.get("engine")
    sound = (
        isinstance(before.get("started"), str)
        and isinstance(before.get("seconds"), int | float)
        and isinstance(engine, dict)
        and all(isinstance(number, int | float) for number in engine.values())
    )
    require(sound, f"{path} is damaged; {remedy}")
    return before


def _carried_over(before: dict[str, Any] | None) -> dict[str, Any]:
    """What an unfinished study's summary keeps of an earlier run."""
    words = ("engine", "seconds", "started", "measured")
    kept: dict[str, Any] = {name: (before or {})[name] for name in words if name in (before or {})}
    return {"finished": None, "seconds": 0.0, "figures": [], "engine": {}, **kept}


@contextmanager
def _make(folder: Path) -> Iterator[None]:
    """Make the folder; when what follows is refused, remove what was made and is still empty."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        with _refuse_where_unwritable(folder):
            folder.mkdir(parents=True, exist_ok=True)
        yield
    except KroghError:
        for place in missing:
            with suppress(OSError):
                place.rmdir()
        raise


def _with_changed_sources(
    folder: Path, before: dict[str, Any], head: dict[str, Any], stale: str
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """What an earlier run of other sources is worth: nothing is mixed or reused without a word."""
    changed = source_changes(before.get("sources", {}), head["sources"])
    store = Store(folder / "cohorts")
    if stale == RETRAIN:
        return None, head
    if stale == REUSE:
        note = f"Some trials were trained before their source changed ({changed}) and reused as they were."
        return before, {**head, "notes": [*dict.fromkeys([*before.get("notes", []), *head["notes"], note])]}
    trials = len(store.ids())
    if not trials:
        return before, head
    raise KroghError(
        f"{folder} holds {trials:,} trials of another source: {changed}. Choose another --out, or say "
        f"--stale {RETRAIN} to train them again or --stale {REUSE} to keep them as they are"
    )


# --- claims and figures ------------------------------------------------------------------------------------------


def judge_study(folder: Path) -> Study:
    """Redo the claims and figures of a finished study from its folder alone: nothing is trained or measured."""
    summary = read_study(folder)
    complete = summary.get("status") == "complete"
    require(complete, f"{folder} is {summary.get('status')}: finish it first with {summary.get('command')!r}")
    experiment = EXPERIMENTS[summary["name"]]()
    settings = experiment.settings(summary["scale"], summary["settings"])
    with lock(folder):
        return _conclude(experiment, Tables(settings, _tables(folder), summary["scale"]), folder, summary)


def is_stale(folder: Path) -> bool:
    """Whether a study's claims and figures were made by another source of its experiment than the present one."""
    summary = read_study(folder)
    known = summary.get("status") == "complete" and summary.get("name") in EXPERIMENTS
    return known and summary.get("concluded") != _digest(measure_sources(EXPERIMENTS[summary["name"]]))


def _conclude(experiment: Experiment[Any], tables: Tables[Any], folder: Path, summary: dict[str, Any]) -> Study:
    claims = experiment.judge(tables)
    write_json(folder / "claims.json", {"schema": STUDY_SCHEMA, "claims": [claim.as_json() for claim in claims]})
    write_json(folder / "study.json", summary)
    with figures.style():
        drawn = [_save_figure(figure, folder / "figures") for figure in experiment.figures(tables)]
    summary = {**summary, "figures": drawn, "concluded": _digest(measure_sources(experiment))}
    write_json(folder / "study.json", summary)
    return Study(folder, str(summary["status"]), claims, summary)


def _tables(folder: Path) -> dict[str, pl.DataFrame | Path]:
    """The tables of a study's folder: its trials, and what was measured on them."""
    measured: dict[str, pl.DataFrame | Path] = {
        path.stem: path for path in sorted((folder / "measures").glob("*.parquet"))
    }
    return {TRIALS: folder / "trials.parquet", **measured}


def _provenance(head: dict[str, Any], before: dict[str, Any] | None, usage: Usage) -> dict[str, Any]:
    """Where the results come from: the earlier run if this one trained nothing, or both if they differ."""
    where = {word: head[word] for word in ("device", "versions")}
    if before is None or not before.get("engine", {}).get("trained_steps"):
        return where
    earlier = {word: before.get(word, where[word]) for word in where}
    if not usage.executed_steps:
        return earlier
    if earlier == where:
        return where
    note = f"Part of the trials were trained earlier on {earlier['device']} with {earlier['versions']}."
    return {**where, "notes": [*dict.fromkeys([*before.get("notes", []), *head["notes"], note])]}


def _table(cohort: Trials, ids: np.ndarray, records: pl.DataFrame) -> pl.LazyFrame:
    """The cohort's rows of the study's table, in the order of its trials."""
    asked = pl.DataFrame({"id": ids, "place": np.arange(len(ids))})
    own = asked.join(records, on="id", how="inner", maintain_order="left")
    return with_fields(cohort, own["place"].to_numpy(), own.drop("place"))


def _save_figure(figure: Figure, folder: Path) -> dict[str, Any]:
    svg, pdf = figures.save(figure.drawing, folder, figure.name)
    data = folder / f"{figure.name}.csv"
    with replacing(data) as temporary:
        figure.data.write_csv(temporary)
    names = {kind: f"figures/{path.name}" for kind, path in (("svg", svg), ("pdf", pdf), ("data", data))}
    return {
        "name": figure.name,
        **names,
        "title": figure.title,
        "caption": figure.caption,
        "alt": figure.alt or figure.caption,
    }


def _accounting(
    records: pl.DataFrame, usage: Usage, progress: Progress, before: dict[str, Any] | None
) -> dict[str, Any]:
    """What the study cost, over all its runs; outcomes from the records, costs added up."""
    earlier = (before or {}).get("engine", {})
    executed = usage.executed_steps + earlier.get("trained_steps", 0)
    useful = usage.useful_steps + earlier.get("useful_steps", 0)
    seconds = progress.seconds + earlier.get("training_seconds", 0.0)
    outcomes = dict(records["outcome"].cast(pl.String).value_counts().iter_rows()) if len(records) else {}
    paths = dict(records["path"].cast(pl.String).value_counts().iter_rows()) if len(records) else {}
    return {
        "trials": len(records),
        **{name: outcomes.get(name, 0) for name in ("converged", "failed", "diverged")},
        **{f"path_{name}": paths[name] for name in PATHS if name in paths},
        "trained_steps": executed,
        "useful_steps": useful,
        "wasted_share": round(1 - useful / executed, 6) if executed else 0.0,
        "compilations": usage.compilations + earlier.get("compilations", 0),
        "memory_splits": usage.splits + earlier.get("memory_splits", 0),
        "training_seconds": round(seconds, 3),
        "trial_steps_per_second": round(useful / seconds, 1) if seconds else 0.0,
    }


def _digest(sources: dict[str, str]) -> str:
    """One word for a whole table of sources."""
    return digest(json.dumps(sources, sort_keys=True)).hex()


def _all_ids(ids: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.uint64), *ids])
