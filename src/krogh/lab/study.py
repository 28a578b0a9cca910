"""A study: an experiment at a scale, run into a folder, and resumed by running it again.

DIR/<name>/study.json       what was asked, with which versions and sources, on which device, at what cost
           trials.parquet   one row per trial
           measures/        the tables that claims and figures are made of
           claims.json      the verdicts
           figures/         SVG, PDF and the data of each figure
           cohorts/         the store: one Parquet file per finished cohort
           costs/           what each process that trained has spent
           weights/         trained weights, where they are kept
           .members/        who is at work on it, while somebody is

Processes that run the same study share its training (`krogh.lab.sharing`); one of them concludes. Training and
measuring are resumed; claims and figures are always made anew, from the tables alone (`judge_study`). Verdicts are
written before anything is drawn: a fault in a drawing costs none.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import shlex
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trials, Usage
from krogh.engine.devices import devices_here
from krogh.engine.executor import Executor
from krogh.engine.inheriting import without_parents
from krogh.engine.lane import PATHS
from krogh.engine.memory import require_room
from krogh.engine.records import with_fields
from krogh.errors import KroghError, Unwritable, require
from krogh.files import STUDY_SCHEMA, faults_named, is_text, replacing, scan_table, write_json
from krogh.integrity import (
    DIGESTS,
    SUMMARY,
    digest_of,
    digest_of_object,
    digests,
    fault,
    read_object,
    require_own_folders,
    require_sound,
    written_files,
)
from krogh.lab import figures
from krogh.lab.alternative import alternative_text, findings
from krogh.lab.charts import Figure
from krogh.lab.claims import Claim, read_claims
from krogh.lab.costs import Costs, carry_over, cost_files, total_costs, trained_at, write_costs
from krogh.lab.experiment import TRIALS, Experiment, Tables
from krogh.lab.members import Member, joined
from krogh.lab.remote import TRAINING, at, bring_study, sending
from krogh.lab.results import Results
from krogh.lab.sources import changes as source_changes
from krogh.lab.sources import device_in_words, measure_sources, now, trial_sources, versions
from krogh.lab.store import Store, write_parquet
from krogh.lab.training import Progress, Work, train_given, train_missing
from krogh.lab.weights import WeightsFolder
from krogh.registry import EXPERIMENTS, needed_file
from krogh.saying import say
from krogh.values import digest

AT_ONCE = 256  # tables of cohorts that are put together in one go
WHERE = ("device", "versions")
REUSE, RETRAIN = "reuse", "retrain"
"""What to do with trials whose source has changed since."""
RUN = "run"
"""The kind of a study that is no experiment's: trials that were given to `krogh.run`."""


@dataclass(frozen=True)
class Study:
    """A finished (or interrupted) study."""

    folder: Path
    status: str
    claims: list[Claim]
    summary: dict[str, Any]

    def __repr__(self) -> str:
        from krogh.lab.glance import in_a_line

        return in_a_line(self.summary, [claim.as_json() for claim in self.claims], self.folder)

    def _repr_html_(self) -> str:
        from krogh.lab.glance import in_html

        return in_html(self.summary, [claim.as_json() for claim in self.claims], self.folder)


class _Process:
    """What this process spends on a study."""

    def __init__(self, folder: Path, name: str, work: Work, where: dict[str, Any]):
        """`where` says on which device and by which versions."""
        self._folder, self._name, self._work, self._begun = folder, name, work, time.perf_counter()
        self.where = where
        work.spend = self.spend

    def spend(self) -> None:
        """Write down what was spent so far, unless nothing was trained."""
        usage, training = self._work.usage, self._work.progress.seconds
        if usage.executed_steps:
            write_costs(self._folder, self._name, Costs.of(usage, self.seconds, training), self.where)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begun


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
    out: Path | str = ""  # where the study was asked for: a folder, or a URL whose mirror `folder` is in

    def run(self, show: Callable[[Progress], None] = lambda progress: None, executor: Executor | None = None) -> Study:
        """Train, measure, judge and draw whatever is not there yet; where another process does so, help it."""
        with sending(self.out, self.experiment.name), _make(self.folder), joined(self.folder, self._plan()) as member:
            progress = Progress(sum(len(cohort) for cohort in self.cohorts))
            store = Store(self.folder / "cohorts")
            work = Work(self.cohorts, self.ids, store, progress, show, self._weights_folder, executor)
            process = _Process(self.folder, member.name, work, {word: self.head[word] for word in WHERE})
            while not member.leads():
                other = member.leader()
                same = not self.retrain and (other is None or other.get("plan") == member.plan)
                remedy = "which trains or keeps something else; wait for it, or choose another --out"
                if not same:
                    require(member.succeeds(), f"{self.folder} is being written by another process, {remedy}")
                    break
                try:
                    train_given(work, member, self.experiment.search(self.settings, self.cohorts))
                except KeyboardInterrupt:
                    return Study(self.folder, "interrupted", [], self._found() or self.head)
                if (summary := self._found() or {}).get("status") == "complete":
                    return Study(self.folder, "complete", read_claims(self.folder), summary)
            return self._lead(work, member, process)

    def _plan(self) -> str:
        """A word for what is trained and kept: processes that differ in it do not work for each other."""
        what = [digest(_all_ids(self.ids).tobytes().hex()).hex(), self.weights, self.head["sources"]]
        return digest(json.dumps(what, sort_keys=True)).hex()

    def _found(self) -> dict[str, Any] | None:
        """The study.json that is there now, if any: another process may have written since this one planned."""
        if not (self.folder / "study.json").exists():
            return None
        found = read_study(self.folder)
        _require_same(self.folder, found, self.head)
        return found

    def _lead(self, work: Work, member: Member, process: _Process) -> Study:
        """Train what is missing, with whoever else is at work on this study, and conclude."""
        folder, before = self.folder, self._found()
        head = {**self.head, "device": getattr(work.executor, "device", self.head["device"])}
        process.where = {word: head[word] for word in WHERE}
        if self.retrain and (before or {}).get("sources") != head["sources"]:  # else another has retrained it
            before = None
            for path in (*work.store.files(), *(folder / "weights").glob("*.safetensors"), *cost_files(folder)):
                path.unlink()
        elif self.weights and len(lost := _without_weights(folder, self.cohorts, self.ids)):
            say(f"{len(lost):,} trials whose weights are not there any more are trained again")
            work.store.forget(lost)
        with _refuse_where_unwritable(folder):
            carry_over(folder, before)
            write_json(folder / "study.json", {**head, **_carried_over(before), "status": "running"})
        search = self.experiment.search(self.settings, self.cohorts)
        try:
            train_missing(work, search, member)
            status = "complete"
        except KeyboardInterrupt:
            status = "interrupted"
        records = work.store.scan(np.unique(_all_ids(self.ids))).collect()
        process.spend()
        costs = total_costs(folder)
        summary: dict[str, Any] = {
            **head,
            **_provenance(head, before, work.usage, folder),
            "started": (before or head)["started"],
            "finished": now(),
            "seconds": round(costs.seconds, 3),
            "status": status,
            "engine": _accounting(records, costs),
            "figures": [],
        }
        if status == "complete":
            try:
                self._write_trials(records)
                summary |= self._measure(records, before, head)
            except KeyboardInterrupt:
                found = self._found() or {}
                summary |= {name: found[name] for name in ("measured", DIGESTS) if name in found}
                summary["status"] = "interrupted"
        if summary["status"] != "complete":
            write_json(folder / "study.json", summary)
            return Study(folder, summary["status"], [], summary)
        if not self.cohorts:  # a study that trains nothing is what it measures
            summary |= {"seconds": round(process.seconds, 3), "finished": now()}
        return _conclude(self.experiment, Tables(self.settings, _tables(folder), self.scale), folder, summary)

    @property
    def _weights_folder(self) -> Path | None:
        return self.folder / "weights" if self.weights else None

    def _write_trials(self, records: pl.DataFrame) -> None:
        """The study's table: the trials' records and fields, in the order of the cohorts."""
        about = {"study": self.experiment.name, "scale": self.scale}
        write_table(self.folder / "trials.parquet", self.cohorts, self.ids, records, about)

    def _measure(self, records: pl.DataFrame, before: dict[str, Any] | None, head: dict[str, Any]) -> dict[str, Any]:
        """Make and store the tables that are not there, or that another source or other trials have made."""
        ids = _all_ids(self.ids)
        ids = ids[np.isin(ids, records["id"].to_numpy())] if len(ids) else ids  # a search leaves some out
        stamp = {"trials": digest(ids.tobytes().hex()).hex(), "sources": _digest(measure_sources(self.experiment))}
        known = (before or {}).get("measured", {}).get("stamp") == stamp
        results = Results(
            scan_table(self.folder / "trials.parquet"),
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
        kept = _carried_over(before) | {DIGESTS: dict((before or {}).get(DIGESTS, {}) if known else {})}

        def note() -> None:
            said = {**head, **kept, "status": "running", "measured": {"stamp": stamp}}
            write_json(self.folder / "study.json", said)

        note()
        for name, table in self.experiment.measure(results).items():
            require(name != TRIALS, f"a measured table may not be called {TRIALS!r}")
            names.append(name)
            path, written = place / f"{name}.parquet", f"measures/{name}.parquet"
            if written in kept[DIGESTS] and not fault(self.folder, written, kept):
                continue
            measured = table if isinstance(table, pl.DataFrame) else table()
            write_parquet(path, measured, {"study": self.experiment.name, "table": name})
            kept[DIGESTS][written] = digest_of(path)  # a process that goes on after a crash can tell what it finds
            note()
        return {"measured": {"stamp": stamp, "tables": names}, DIGESTS: kept[DIGESTS]}


def plan_study(
    experiment: Experiment[Any],
    scale: str,
    out: Path | str,
    *,
    changes: dict[str, Any] | None = None,
    weights: bool = False,
    stale: str = "",
    plain: bool = False,
    elsewhere: bool = False,
) -> PlannedStudy:
    """What `run` would do, with every reason to refuse found before anything is trained; nothing is written.

    Trials whose source has changed since they were trained are refused, unless `stale` says to reuse them as they are
    or to retrain them. `plain` figures have no headline; a study that has them keeps them so. Trials that are trained
    `elsewhere` need not fit into this machine's device.
    """
    settings = experiment.settings(scale, changes)
    cohorts = list(experiment.trials(settings))
    named = is_text(os.fspath(out))
    require(named, f"the path {os.fspath(out)!r} is no text in UTF-8; choose another --out")
    folder = bring_study(out, experiment.name)
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
    head["weights"] = weights
    ids = [cohort.ids() for cohort in cohorts]
    before = _earlier_study(folder, head, cohorts, ids, weights)
    retrain = False
    if before is not None and before.get("sources", {}) != sources:
        before, head = _with_changed_sources(folder, before, head, stale)
        retrain = before is None
    if plain or (before or {}).get("plain"):
        head |= {"plain": True, "command": f"{head['command']} --plain"}
    if not elsewhere:
        require_room((without_parents(cohort).fitted().template for cohort in cohorts), devices_here()[0])
    return PlannedStudy(experiment, scale, settings, cohorts, ids, folder, head, before, weights, retrain, out)


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
    log: Any = None,
    **options: Any,
) -> Study:
    """Run (or resume) an experiment at a scale into `out/<name>`, a folder or a URL; options as for `plan_study`.

    `log` names a tracker, "mlflow" or "wandb", or is one (`krogh.lab.tracking.Log`).
    """
    planned = plan_study(experiment, scale, out, **options)
    if log is None:
        return planned.run(show)
    from krogh.lab.tracking import run_logged

    return run_logged(planned, log, show)


# --- the folder: may this study be run into it, and what did an earlier run leave there? ---------------------------


@contextmanager
def _refuse_where_unwritable(folder: Path) -> Iterator[None]:
    """An error of the file system as a refusal of the folder."""
    try:
        yield
    except OSError as cause:
        if cause.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # no fault of the folder's
        raise Unwritable(f"cannot write a study into {folder}: {cause.strerror or cause}") from None


def _earlier_study(
    folder: Path, asked: dict[str, Any], cohorts: list[Trials], ids: list[np.ndarray], weights: bool
) -> dict[str, Any] | None:
    """The earlier study.json of the same study; refuse a folder that holds another, or cannot be written."""
    with _refuse_where_unwritable(folder):
        nearest = next(existing for existing in (folder, *folder.parents) if existing.exists())
        if not (nearest.is_dir() and os.access(nearest, os.W_OK)):
            raise Unwritable(f"cannot write a study into {folder}: {nearest} is not a writable folder")
        path = folder / "study.json"
        if not path.exists():
            # A hidden file may be what a crash left of the first write.
            require_own_folders(folder)
            if not Store(folder / "cohorts").files():
                foreign = folder.is_dir() and any(not item.name.startswith(".") for item in folder.iterdir())
                require(not foreign, f"{folder} is not empty and holds no study; choose another --out")
                return None
            before = {"sources": {}, "started": asked["started"]}  # of which study.json was lost
        else:
            before = read_study(folder)
            _require_same(folder, before, asked)
    store = Store(folder / "cohorts")
    store.check()
    total_costs(folder)
    if weights:
        present, lost = len(store.ids()), len(_without_weights(folder, cohorts, ids))
        few = before.get("weights") and lost < present  # else nobody kept them, or somebody wanted the room
        remedy = "leave out --weights, or choose another --out"
        require(not lost or few, f"{folder} holds {lost:,} trials whose weights were not kept; {remedy}")
    return before


def _without_weights(folder: Path, cohorts: list[Trials], ids: list[np.ndarray]) -> np.ndarray:
    """Identities of the trials in the store whose weights, or snapshots, are not there."""
    there = Store(folder / "cohorts").ids()  # before the weights are listed: a trial's are written first
    kept, lost = WeightsFolder(folder / "weights"), []
    for cohort, own in zip(cohorts, ids, strict=True):
        present, snapshots = own[np.isin(own, there)], cohort.template.snapshots
        for step in (None, *snapshots[:1]):
            lost.append(present[~np.isin(present, kept.ids(step))])
    return np.unique(_all_ids(lost))


def _require_same(folder: Path, found: dict[str, Any], asked: dict[str, Any]) -> None:
    """Refuse a folder that holds another study."""
    for word in ("name", "scale", "settings"):
        require(
            found.get(word) == asked[word],
            f"{folder} holds another study ({word} is {found.get(word)!r}, this one has {asked[word]!r}); "
            "choose another --out",
        )


def read_study(folder: Path) -> dict[str, Any]:
    """The folder's study.json, if it is sound."""
    path = folder / "study.json"
    remedy = "remove it and run the study again: its trials are kept"
    try:
        before = read_object(folder, path.name)
    except FileNotFoundError:
        raise KroghError(f"{folder} holds no study (no study.json there)") from None
    except KroghError as problem:
        raise KroghError(f"{problem}; {remedy}") from None
    require_own_folders(folder)
    schema = before.get("schema")
    other = f"{path} has schema {schema!r}; this krogh reads schema {STUDY_SCHEMA}"
    require(schema == STUDY_SCHEMA, f"{other}; move {folder} away or choose another --out")
    engine = before.get("engine")
    sound = (
        all(isinstance(before.get(word), str) for word in ("name", "scale", "status", "started"))
        and isinstance(before.get("settings"), dict)
        and isinstance(before.get("seconds"), int | float)
        and isinstance(engine, dict)
        and all(isinstance(number, int | float) for number in engine.values())
    )
    require(sound, f"{path} is damaged; {remedy}")
    require_sound(folder, SUMMARY, before, remedy)
    return before


def _carried_over(before: dict[str, Any] | None) -> dict[str, Any]:
    """What an unfinished study's summary keeps of an earlier run."""
    words = ("engine", "seconds", "started", "measured", DIGESTS)
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
    changed = _changed(before.get("sources", {}), head["sources"])
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


def _changed(before: dict[str, str], now: dict[str, str]) -> str:
    return source_changes(before, now) if before else "which one, the study.json that was lost here knew"


# --- claims and figures ------------------------------------------------------------------------------------------


def judge_study(folder: Path | str, *, plain: bool | None = None) -> Study:
    """Redo the claims and figures of a finished study from its folder alone: nothing is trained or measured.

    `plain` figures have no headline, or have one again; they are as they were unless it is given.
    """
    with at(folder, without=TRAINING) as place:
        return _judge(place, plain)


def _judge(folder: Path, plain: bool | None) -> Study:
    summary = read_study(folder)
    complete = summary.get("status") == "complete"
    require(complete, f"{folder} is {summary.get('status')}: finish it first with {summary.get('command')!r}")
    experiment = experiment_of(summary)
    settings = experiment.settings(summary["scale"], summary["settings"])
    for name in ("trials.parquet", *(f"measures/{name}.parquet" for name in _tables(folder) if name != TRIALS)):
        require_sound(folder, name, summary)
    if plain is not None:
        summary |= {"plain": plain}
    with joined(folder) as member:
        require(member.succeeds(), f"{folder} is being written by another process; wait for it")
        return _conclude(experiment, Tables(settings, _tables(folder), summary["scale"]), folder, summary)


def experiment_of(summary: Mapping[str, Any]) -> Experiment[Any]:
    """The experiment that a study is of; one of a file of the user's own must have been loaded."""
    name, plugin = summary["name"], plugin_of(summary)
    require(summary.get("kind") != RUN, f"{name} is no experiment: its trials were given to krogh.run")
    if plugin and name not in EXPERIMENTS:
        raise KroghError(f"{name} is an experiment of a file of its own: add {plugin}")
    return EXPERIMENTS[name]()


def plugin_of(summary: Mapping[str, Any]) -> str:
    """The option that makes a study's experiment known; nothing for krogh's own."""
    try:
        words = shlex.split(str(summary.get("command", "")))
    except ValueError:  # what nobody can have typed
        return ""
    place = words.index("--plugin") if "--plugin" in words else None
    return "" if place is None else shlex.join(words[place : place + 2])


def is_stale(folder: Path) -> bool:
    """Whether a study's claims and figures were made by another source of its experiment than the present one."""
    summary = read_study(folder)
    known = summary.get("status") == "complete" and summary.get("name") in EXPERIMENTS
    return known and summary.get("concluded") != _digest(measure_sources(EXPERIMENTS[summary["name"]]))


def _conclude(experiment: Experiment[Any], tables: Tables[Any], folder: Path, summary: dict[str, Any]) -> Study:
    claims = experiment.judge(tables)
    write_json(folder / "claims.json", {"schema": STUDY_SCHEMA, "claims": [claim.as_json() for claim in claims]})
    measured = {name: one for name, one in summary.get(DIGESTS, {}).items() if name.startswith("measures/")}
    summary = {**summary, DIGESTS: measured}  # the rest is of what was written before
    write_json(folder / "study.json", summary)
    plain = bool(summary.get("plain"))
    with figures.style():
        drawn = [
            _save_figure(figure, folder / "figures", [] if place else claims, plain, findings(claims, summary["scale"]))
            for place, figure in enumerate(experiment.figures(tables))
        ]
    summary = {**summary, "figures": drawn, "concluded": _digest(measure_sources(experiment))}
    written = digests(folder, written_files(folder, drawn))
    summary[DIGESTS] = {**written, **measured, SUMMARY: digest_of_object(summary)}
    write_json(folder / "study.json", summary)
    return Study(folder, str(summary["status"]), claims, summary)


def _tables(folder: Path) -> dict[str, pl.DataFrame | Path]:
    """The tables of a study's folder: its trials, and what was measured on them."""
    measured: dict[str, pl.DataFrame | Path] = {
        path.stem: path for path in sorted((folder / "measures").glob("*.parquet"))
    }
    return {TRIALS: folder / "trials.parquet", **measured}


def _provenance(head: dict[str, Any], before: dict[str, Any] | None, usage: Usage, folder: Path) -> dict[str, Any]:
    """Where the results come from: the earlier run if this one trained nothing, or all that differ."""
    where = {word: head[word] for word in WHERE}
    trained = trained_at(folder)
    if before is not None and before.get("engine", {}).get("trained_steps"):
        trained = [{word: before.get(word, where[word]) for word in WHERE}, *trained]
    if not usage.executed_steps:
        return trained[0] if trained else where
    others = [place for place in trained if place != where]
    if not others:
        return where
    added = [f"Part of the trials were trained on {place['device']} with {place['versions']}." for place in others]
    return {**where, "notes": [*dict.fromkeys([*(before or {}).get("notes", []), *head["notes"], *added])]}


def write_table(
    path: Path, cohorts: list[Trials], ids_of: list[np.ndarray], records: pl.DataFrame, about: dict[str, Any]
) -> None:
    """Records and fields of all trials, in the order of the cohorts; never whole in memory.

    Polars takes the longer for each of the tables that it puts together the more they are, so many go by way of files.
    """
    tables = _tables_of(cohorts, ids_of, records)
    if len(cohorts) <= AT_ONCE:
        return write_parquet(path, _together(tables), about)
    parts = tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent)
    with faults_named(path), parts as folder:
        written = []
        for number, some in enumerate(_batched(tables, AT_ONCE)):
            written.append(Path(folder) / f"{number}.parquet")
            _together(some).sink_parquet(written[-1])
        write_parquet(path, _together(map(scan_table, written)), about)


def _tables_of(cohorts: list[Trials], ids_of: list[np.ndarray], records: pl.DataFrame) -> Iterator[pl.LazyFrame]:
    """The rows of each cohort, in the order of its trials."""
    if not len(records):
        return
    sizes = [len(ids) for ids in ids_of]
    homes = np.repeat(np.arange(len(cohorts)), sizes)
    places = np.concatenate([np.zeros(0, np.int64), *map(np.arange, sizes)])
    asked = pl.DataFrame({"id": _all_ids(ids_of), "cohort": homes, "place": places})
    own = asked.join(records, on="id", how="inner", maintain_order="left")
    ends = np.searchsorted(own["cohort"].to_numpy(), np.arange(len(cohorts)), side="right").tolist()
    trained, own = own["place"].to_numpy(), own.drop("place", "cohort")
    for cohort, first, end in zip(cohorts, [0, *ends], ends, strict=False):
        yield with_fields(cohort, trained[first:end], own.slice(first, end - first))


def _together(tables: Iterable[pl.LazyFrame]) -> pl.LazyFrame:
    each = list(tables)
    return pl.concat(each, how="diagonal_relaxed") if each else pl.LazyFrame()


def _batched(tables: Iterator[pl.LazyFrame], size: int) -> Iterator[list[pl.LazyFrame]]:
    while some := list(itertools.islice(tables, size)):
        yield some


def _save_figure(figure: Figure, folder: Path, claims: list[Claim], plain: bool, found: str) -> dict[str, Any]:
    alt = alternative_text(figure, claims)  # before the words of the drawing are set as mathematics
    svg, pdf = figures.save(figure.drawing, folder, figure.name, plain=plain, found=found)
    data = folder / f"{figure.name}.csv"
    with replacing(data) as temporary:
        figure.data.write_csv(temporary)
    names = {kind: f"figures/{path.name}" for kind, path in (("svg", svg), ("pdf", pdf), ("data", data))}
    return {
        "name": figure.name,
        **names,
        "title": figure.title,
        "caption": figure.caption,
        "alt": alt,
    }


def _accounting(records: pl.DataFrame, costs: Costs) -> dict[str, Any]:
    """What the study came to, by its records, and what it cost, over all processes that took part."""
    outcomes = dict(records["outcome"].cast(pl.String).value_counts().iter_rows()) if len(records) else {}
    paths = dict(records["path"].cast(pl.String).value_counts().iter_rows()) if len(records) else {}
    useful = int(records["steps"].cast(pl.Int64).sum()) if len(records) else 0
    executed, seconds = costs.trained_steps, costs.training_seconds
    return {
        "trials": len(records),
        **{name: outcomes.get(name, 0) for name in ("converged", "failed", "diverged")},
        **{f"path_{name}": paths[name] for name in PATHS if name in paths},
        "trained_steps": executed,
        "useful_steps": useful,
        "wasted_share": round(max(0.0, 1 - useful / executed), 6) if executed else 0.0,
        "compilations": costs.compilations,
        "memory_splits": costs.memory_splits,
        "training_seconds": round(seconds, 3),
        "trial_steps_per_second": round(useful / seconds, 1) if seconds else 0.0,
    }


def _digest(sources: dict[str, str]) -> str:
    """One word for a whole table of sources."""
    return digest(json.dumps(sources, sort_keys=True)).hex()


def _all_ids(ids: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.uint64), *ids])
