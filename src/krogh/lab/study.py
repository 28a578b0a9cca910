"""A study: an experiment at a scale, run into a folder, and resumed by running it again.

DIR/<name>/study.json       what was asked, with which versions, on which device, at what cost
           trials.parquet   one row per trial
           claims.json      the verdicts
           figures/         SVG, PDF and the data of each figure
           cohorts/         the store: one Parquet file per finished cohort
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trials, Usage
from krogh.engine.records import with_fields
from krogh.lab import figures
from krogh.lab.claim import Claim
from krogh.lab.collecting import Progress, train
from krogh.lab.experiment import Experiment, Figure, Results
from krogh.lab.folder import SCHEMA, check_folder, locked, made, refusing, unfinished
from krogh.lab.provenance import device_in_words, now, versions
from krogh.lab.store import Store, temporary_beside, write_json, write_parquet


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
    check_folder(Path(out) / experiment.name, _asked(experiment, scale, settings), weights or experiment.keep_weights)


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
    weights = weights or experiment.keep_weights
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
        "started": now(),
        "notes": list(experiment.notes),
    }
    before = check_folder(folder, head, weights)
    with made(folder), locked(folder):
        store = Store(folder / "cohorts")
        with refusing(folder):
            write_json(folder / "study.json", {**head, **unfinished(before), "status": "running"})
        usage, begun = Usage(), time.perf_counter()
        progress = Progress(sum(len(cohort) for cohort in cohorts))
        search = experiment.search(settings, cohorts)
        try:
            train(cohorts, ids, store, usage, progress, show, folder if weights else None, search)
        except KeyboardInterrupt:
            status = "interrupted"
        else:
            status = "complete"
        seconds = (before or {}).get("seconds", 0.0) + time.perf_counter() - begun
        summary: dict[str, Any] = {
            **head,
            **_provenance(head, before, usage),
            "started": (before or head)["started"],
            "finished": now(),
            "seconds": round(seconds, 3),
            "status": status,
            "engine": _accounting(store, ids, usage, progress, before),
            "figures": [],
        }
        claims: list[Claim] = []
        if status == "complete":
            claims, summary["figures"] = _conclude(experiment, settings, scale, store, cohorts, ids, folder)
            write_json(folder / "claims.json", {"schema": 1, "claims": [claim.as_json() for claim in claims]})
            if not cohorts:  # a study that trains nothing is its conclusions
                summary["seconds"] = round(time.perf_counter() - begun, 3)
        write_json(folder / "study.json", summary)
        return Study(folder, status, claims, summary)


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
    results = Results(pl.scan_parquet(folder / "trials.parquet"), settings, scale, folder / "weights")
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


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(settings))
