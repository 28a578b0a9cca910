"""`krogh run`: experiments by name or pattern, with progress, into a folder that can be resumed; `krogh judge`."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table

from krogh import registry
from krogh.cli.inspecting import parse_settings
from krogh.cli.printing import console as console_for
from krogh.engine.compiling import release
from krogh.errors import KroghError, require, unknown
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, Claim
from krogh.lab.experiment import SCALES
from krogh.lab.frames import write_frames
from krogh.lab.study import RETRAIN, REUSE, Study, is_stale, judge_study, plan_study
from krogh.lab.training import Progress
from krogh.numbers import estimate
from krogh.report import write_replay

MARKS = {"reproduced": "[green]✓[/green]", "not reproduced": "[red]✗[/red]", "inconclusive": "[yellow]–[/yellow]"}


def run_experiments(
    names: tuple[str, ...],
    scale: str,
    out: Path | None,
    changes: tuple[str, ...],
    *,
    weights: bool,
    as_json: bool,
    strict: bool,
    stale: str = "",
) -> int:
    chosen = matching(names)
    if stale not in ("", REUSE, RETRAIN):
        raise unknown("choice of --stale", stale, (REUSE, RETRAIN))
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    folder = Path("runs") / scale if out is None else out
    settings = parse_settings(changes)
    planned = [  # whatever is wrong is refused before the first experiment trains
        plan_study(
            registry.EXPERIMENTS[name](),
            scale,
            folder,
            changes=settings,
            weights=weights,
            stale=stale,
        )
        for name in chosen
    ]
    console = console_for(stderr=as_json)
    studies = []
    while planned:
        coming = planned.pop(0)  # a plan may hold a million trials: let go of it when it has run
        with Display(console, coming.experiment.name) as display:
            study = coming.run(display.show)
        if study.status != "complete":
            console.print(f"[yellow]interrupted[/yellow]: {study.folder} can be resumed by the same command")
            return 130
        _print_claims(console, study)
        studies.append(study)
        release()  # what the next experiment needs is its own
    return _answer(studies, as_json=as_json, strict=strict)


def judge_studies(folder: Path, *, as_json: bool, strict: bool) -> int:
    """Redo the claims and figures of every finished study under a folder."""
    console = console_for(stderr=as_json)
    studies = []
    for place in study_folders(folder):
        studies.append(judge_study(place))
        _print_claims(console, studies[-1])
    return _answer(studies, as_json=as_json, strict=strict)


def refresh_studies(folder: Path) -> None:
    """Redo claims and figures of the studies under a folder whose experiment has changed since they were made."""
    for place in sorted(path.parent for path in folder.rglob("study.json")) if folder.is_dir() else []:
        with contextlib.suppress(KroghError):  # what is wrong with a study's files is for the page's reader to say
            if is_stale(place):
                judge_study(place)


def replay_study(folder: Path, out: Path | None, *, trials: int, frames: int) -> Path:
    """Look at the snapshots of a study and write the page that replays them."""
    studies = study_folders(folder)
    one = len(studies) == 1
    require(one, f"{folder} holds {len(studies)} studies; replay one of {', '.join(map(str, studies[:8]))}")
    write_frames(studies[0], trials=trials, frames=frames)
    return write_replay(studies[0], out)


def study_folders(folder: Path) -> list[Path]:
    """The folders of studies under a folder, itself included."""
    studies = sorted(path.parent for path in folder.rglob("study.json")) if folder.is_dir() else []
    require(studies, f"no study found under {folder}: run an experiment into it first (krogh run NAME --out {folder})")
    return studies


def _answer(studies: list[Study], *, as_json: bool, strict: bool) -> int:
    if as_json:
        answers = {study.summary["name"]: [claim.as_json() for claim in study.claims] for study in studies}
        print(json.dumps(answers, indent=2, ensure_ascii=False))
    missed = any(claim.verdict == NOT_REPRODUCED for study in studies for claim in study.claims)
    return 1 if strict and missed else 0


def matching(names: tuple[str, ...]) -> list[str]:
    """The experiments that the names and patterns stand for, each once, in the order given."""
    known = list(registry.EXPERIMENTS)
    require(names, f"which experiment? known are {', '.join(known)}; patterns such as 'parity/*' work too")
    chosen: list[str] = []
    for name in names:
        matches = fnmatch.filter(known, name)
        if not matches:
            raise unknown("experiment", name, known)
        chosen += [one for one in matches if one not in chosen]
    return chosen


class Display:
    """A progress bar on a terminal; a line now and then elsewhere."""

    def __init__(self, console: Console, name: str):
        self.console, self.name = console, name
        self._bars = Bars(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None
        self._said = time.monotonic()

    def __enter__(self) -> Display:
        self._bars.start()
        self._task = self._bars.add_task(self.name, total=None, state="planning")
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def show(self, progress: Progress) -> None:
        self.tell(progress.done, progress.total, in_words(progress))

    def tell(self, done: int, total: int | None, state: str, *, now: bool = False) -> None:
        """How many are done, and what is under way; `now` says so at once where there is no bar."""
        assert self._task is not None
        self._bars.update(self._task, total=total, completed=done, state=escape(state))
        if not self.console.is_terminal and (now or time.monotonic() - self._said > 15):
            self._said = time.monotonic()
            count = "" if total is None else f"  {done}/{total}"
            self.console.print(f"{escape(self.name)}{count}  {escape(state)}", highlight=False)


def time_left(seconds: float | None) -> str:
    """An estimate at the end of a line; nothing if there is none."""
    if seconds is None:
        return ""
    return f" · {seconds:.0f} s left" if seconds < 120 else f" · {seconds / 60:.0f} min left"


def in_words(progress: Progress) -> str:
    """Converged, diverged, speed and time left, in a few words."""
    wait = time_left(progress.seconds_left)
    diverged = f" · {progress.diverged:,} diverged" if progress.diverged else ""
    return f"{progress.converged:,} converged{diverged} · {progress.steps_per_second:,.0f} steps/s{wait}"


def _print_claims(console: Console, study: Study) -> None:
    claims: list[Claim] = study.claims
    name, summary, engine = study.summary["name"], study.summary, study.summary["engine"]
    counts = f"{engine['trials']:,} trials, {engine['converged']:,} converged, {engine['diverged']:,} diverged"
    waste = f"{engine['wasted_share']:.1%} of steps wasted"
    done = f"{counts}, {waste}" if engine["trials"] else "nothing trained"
    console.print(f"[bold]{name}[/bold]  {done}, {summary['seconds']:.1f} s", highlight=False)
    table = Table(box=None, show_header=False, padding=(0, 1))
    for claim in claims:
        measured = estimate(claim.value, claim.low, claim.high, claim.unit)
        table.add_row(MARKS[claim.verdict], claim.verdict, claim.name, f"{measured} (wanted {claim.threshold})")
        if claim.verdict == INCONCLUSIVE and claim.reason:
            table.add_row("", "", "", f"[dim]{escape(claim.reason)}[/dim]")
    console.print(table, highlight=False)
    sys.stdout.flush()
