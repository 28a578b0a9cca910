"""Studies in an experiment tracker: MLflow or Weights & Biases (extra `tracking`), when asked for.

A study is a run there. Its settings are the run's parameters; trials done and converged and steps per second are
metrics over time; at the end come medians of what probes measured, the claims' values with intervals and verdicts, and
the study's page, figures and verdicts as files. A study that is resumed goes on in its run, wherever it is resumed: the
run is found by a digest of what the study is and when it was begun.

Trackers are spoken to from a thread of their own. A fault there, or a server that does not answer, costs one line on
standard error and never the study.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import math
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl

from krogh.errors import KroghError, unknown
from krogh.files import read_table
from krogh.lab.curves import look_table
from krogh.lab.study import PlannedStudy, Study
from krogh.lab.training import Progress
from krogh.saying import first_line, say
from krogh.values import digest

PROJECT = "krogh"
EVERY_SECONDS, LAST_SECONDS, LEAST_SECONDS = 5.0, 120.0, 4.0
"""How often progress is logged, and how long a study waits at its end for its tracker: finished, or interrupted."""
LONGEST_CURVE, LARGEST_TABLE = 200, 1 << 28
FINISHED, KILLED, FAILED = "FINISHED", "KILLED", "FAILED"


@dataclass(frozen=True)
class Outcome:
    """What a run ends with: numbers, words, curves and files by name."""

    status: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    curves: pl.DataFrame = field(default_factory=pl.DataFrame)  # `step`, and a column for each measurement
    files: Mapping[str, Path] = field(default_factory=dict)


class Log(Protocol):
    """A tracker as a study sees it; `run` is the same word whenever a study is resumed."""

    def begin(self, head: Mapping[str, Any], run: str) -> str:
        """Open the run of a study, whose summary `head` is; returns where it is to be found."""

    def progress(self, numbers: Mapping[str, float]) -> None:
        """How far the study is: `done` counts trials."""

    def end(self, outcome: Outcome) -> None:
        """Close the run."""


def open_log(name: str) -> Log:
    """The tracker with this name; a package that is not installed is named with its remedy."""
    if name not in LOGS:
        raise unknown("tracker", name, LOGS)
    if importlib.util.find_spec(name) is None:
        raise KroghError(f"logging to {name} needs its package: pip install 'krogh[tracking]'")
    return LOGS[name]()


def run_logged(
    planned: PlannedStudy,
    log: Log | str,
    show: Callable[[Progress], None] = lambda progress: None,
    page: Callable[[Path, Path], Path] | None = None,
    **how: Any,
) -> Study:
    """Run a study (`planned.run(show, **how)`) and log it; `page` writes a study's page (`krogh.write_report`)."""
    follower = Follower(planned, open_log(log) if isinstance(log, str) else log, page)

    def both(progress: Progress) -> None:
        follower.progress(progress)
        show(progress)

    follower.start()
    try:
        return follower.end(planned.run(both, **how))
    finally:
        follower.close()


class Follower:
    """Hands a study's progress and end to its log, in a thread of its own."""

    def __init__(self, planned: PlannedStudy, log: Log, page: Callable[[Path, Path], Path] | None):
        self._log, self._page = log, page
        self._head = {**planned.head, "started": (planned.before or planned.head)["started"]}
        self._latest: Progress | None = None
        self._study: Study | None = None
        self._ended, self._warned = threading.Event(), False
        self._thread = threading.Thread(target=self._follow, name="krogh-tracking", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def progress(self, progress: Progress) -> None:
        self._latest = dataclasses.replace(progress)

    def end(self, study: Study) -> Study:
        self._study = study
        return study

    def close(self) -> None:
        self._ended.set()
        complete = self._study is not None and self._study.status == "complete"
        patience = LAST_SECONDS if complete else LEAST_SECONDS
        self._thread.join(patience)
        if self._thread.is_alive():
            self._warn(f"no answer for {patience:g} s")

    def _follow(self) -> None:
        try:
            say(f"logged to {self._log.begin(self._head, run_of(self._head))}")
        except BaseException as cause:  # a tracker may even ask the process to end
            return self._warn(first_line(cause))
        told = None
        over = False
        while not over:
            over = self._ended.wait(EVERY_SECONDS)
            latest = self._latest
            if latest is not None and latest is not told:
                self._try(lambda: self._log.progress(_numbers_of(latest)))  # noqa: B023 (called at once)
                told = latest
        self._try(self._conclude)

    def _conclude(self) -> None:
        with tempfile.TemporaryDirectory(prefix="krogh-page-") as folder:
            self._log.end(outcome_of(self._study, self._page, Path(folder)))

    def _try(self, action: Callable[[], None]) -> None:
        try:
            action()
        except BaseException as cause:
            self._warn(first_line(cause))

    def _warn(self, reason: str) -> None:
        if not self._warned:
            say(f"{type(self._log).__name__} does not take what is logged ({reason}); the study itself is not affected")
        self._warned = True


def run_of(head: Mapping[str, Any]) -> str:
    """A word for a study that is the same whenever and wherever it is resumed."""
    own = [head[word] for word in ("name", "scale", "settings", "started")]
    return digest(json.dumps(own, sort_keys=True)).hex()


# --- what is logged -----------------------------------------------------------------------------------------------


def _numbers_of(progress: Progress) -> dict[str, float]:
    words = ("done", "total", "converged", "diverged", "steps", "seconds")
    return {**{word: float(getattr(progress, word)) for word in words}, "steps_per_second": progress.steps_per_second}


def outcome_of(study: Study | None, page: Callable[[Path, Path], Path] | None, aside: Path) -> Outcome:
    """What a study has to say at its end; `aside` is where its page is written. No study is one that failed."""
    if study is None:
        return Outcome(FAILED)
    engine = study.summary.get("engine", {})
    numbers = {f"engine/{name}": float(value) for name, value in engine.items()}
    words = {"status": study.status, "device": str(study.summary.get("device", ""))}
    for claim in study.claims:
        own = {"value": claim.value, "low": claim.low, "high": claim.high}
        numbers |= {f"claim/{claim.name}/{part}": value for part, value in own.items()}
        words[f"claim/{claim.name}/verdict"] = str(claim.verdict)
    verdicts = [str(claim.verdict) for claim in study.claims]
    numbers |= {f"claims/{verdict}": float(verdicts.count(verdict)) for verdict in dict.fromkeys(verdicts)}
    names = [name for name in ("study.json", "claims.json") if (study.folder / name).is_file()]
    names += [picture[kind] for picture in study.summary.get("figures", []) for kind in ("svg", "pdf", "data")]
    files = {name: study.folder / name for name in names}
    if page is not None and study.status == "complete":
        files["report.html"] = page(study.folder, aside / "report.html")
    return Outcome(
        status=FINISHED if study.status == "complete" else KILLED,
        numbers={name: value for name, value in numbers.items() if math.isfinite(value)},
        words=words,
        curves=median_curves(study.folder / "trials.parquet"),
        files=files,
    )


def median_curves(path: Path) -> pl.DataFrame:
    """Of everything that probes measured, the median over all trials at each step; nothing where that is not cheap."""
    if not path.is_file() or path.stat().st_size > LARGEST_TABLE:
        return pl.DataFrame()
    columns = [name for name in pl.read_parquet_schema(path) if name.startswith("curve.")]
    if len(columns) < 2:
        return pl.DataFrame()
    medians = look_table(read_table(path, columns)).group_by("step").median().sort("step")
    places = np.unique(np.linspace(0, len(medians) - 1, min(len(medians), LONGEST_CURVE)).round().astype(np.int64))
    return medians[places]


# --- MLflow -------------------------------------------------------------------------------------------------------


class MLflow:
    """Runs of the experiment `krogh` (or `$MLFLOW_EXPERIMENT_NAME`) at `$MLFLOW_TRACKING_URI`."""

    def __init__(self) -> None:
        self._client: Any = None
        self._run = ""

    def begin(self, head: Mapping[str, Any], run: str) -> str:
        uri = os.environ.get("MLFLOW_TRACKING_URI", "") or _local_uri()
        if "://" not in uri or uri.startswith("file:"):
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # all that mlflow-skinny has without a server
        from mlflow.tracking import MlflowClient

        self._client = client = MlflowClient(tracking_uri=uri)
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "") or PROJECT
        known = client.get_experiment_by_name(name)
        place = client.create_experiment(name) if known is None else known.experiment_id
        found = client.search_runs([place], filter_string=f"tags.`krogh.run` = '{run}'", max_results=1)
        if found:
            self._run = found[0].info.run_id
            client.update_run(self._run, status="RUNNING")
        else:
            title = f"{head['name']} {head['scale']}"
            self._run = client.create_run(place, tags={"krogh.run": run}, run_name=title).info.run_id
            settings = {name: _text(value) for name, value in head["settings"].items()}
            for key, value in {"name": head["name"], "scale": head["scale"], **settings}.items():
                client.log_param(self._run, key, value[:6000])
        for word in ("title", "question", "source", "command", "device", "started"):
            client.set_tag(self._run, f"krogh.{word}", _text(head.get(word, ""))[:5000])
        client.set_tag(self._run, "krogh.versions", _text(head.get("versions", {})))
        return f"MLflow at {uri}, experiment {name}, run {self._run}"

    def progress(self, numbers: Mapping[str, float]) -> None:
        self._write(numbers, int(numbers["done"]))

    def end(self, outcome: Outcome) -> None:
        for row in outcome.curves.iter_rows(named=True):
            step = row.pop("step")
            self._write({f"median/{name}": value for name, value in row.items() if _finite(value)}, step)
        self._write(outcome.numbers, 0)
        for name, value in outcome.words.items():
            self._client.set_tag(self._run, _metric(f"krogh.{name}"), value[:5000])
        for name, path in outcome.files.items():
            self._client.log_artifact(self._run, str(path), str(Path(name).parent) if "/" in name else None)
        self._client.set_terminated(self._run, outcome.status)

    def _write(self, numbers: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric
        from mlflow.utils.time import get_current_time_millis

        now = get_current_time_millis()
        metrics = [Metric(_metric(name), value, now, step) for name, value in numbers.items()]
        for first in range(0, len(metrics), 500):
            self._client.log_batch(self._run, metrics=metrics[first : first + 500])


def _local_uri() -> str:
    """MLflow's own default where it can be had (a database, by SQLAlchemy), or else files."""
    if importlib.util.find_spec("sqlalchemy") is not None:
        import mlflow

        return str(mlflow.get_tracking_uri())
    return Path("mlruns").absolute().as_uri()


# --- Weights & Biases ---------------------------------------------------------------------------------------------


class WeightsAndBiases:
    """Runs of the project `krogh` (or `$WANDB_PROJECT`); offline where no key is known, or `$WANDB_MODE` says so."""

    def __init__(self) -> None:
        self._run: Any = None

    def begin(self, head: Mapping[str, Any], run: str) -> str:
        import wandb

        mode: Any = os.environ.get("WANDB_MODE", "") or ("online" if _has_key(wandb) else "offline")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "") or PROJECT,
            id=run,
            resume="allow",
            name=f"{head['name']} {head['scale']}",
            group=head["name"],
            config={**head["settings"], "name": head["name"], "scale": head["scale"], "command": head.get("command")},
            notes=_text(head.get("question", "")),
            mode=mode,
            settings=wandb.Settings(silent=True, console="off", disable_git=True, save_code=False),
        )
        self._run.define_metric("done")
        self._run.define_metric("step")
        self._run.define_metric("median/*", step_metric="step")
        self._run.define_metric("*", step_metric="done")
        folder = Path(self._run.dir).parent
        return f"Weights & Biases, {f'offline: wandb sync {folder} sends it' if mode == 'offline' else self._run.url}"

    def progress(self, numbers: Mapping[str, float]) -> None:
        self._run.log(dict(numbers))

    def end(self, outcome: Outcome) -> None:
        for row in outcome.curves.iter_rows(named=True):
            step = row.pop("step")
            self._run.log({"step": step, **{f"median/{name}": value for name, value in row.items() if _finite(value)}})
        self._run.summary.update({**outcome.numbers, **outcome.words})
        for name, path in outcome.files.items():  # what lies in the run's folder is sent with it
            target = Path(self._run.dir) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        self._run.finish(exit_code=0 if outcome.status == FINISHED else 1)


def _has_key(wandb: Any) -> bool:
    """Whether W&B knows who is logging; never asks."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return bool(wandb.login(prompt=False, verify=False))
    except TypeError:  # earlier versions could only ask
        return bool(wandb.api.api_key)


LOGS: dict[str, Callable[[], Log]] = {"mlflow": MLflow, "wandb": WeightsAndBiases}


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _metric(name: str) -> str:
    """A name of the letters that MLflow allows."""
    return re.sub(r"[^\w\-. :/]", "_", name)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
