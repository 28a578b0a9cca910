"""`krogh judge`, `krogh report` and `krogh replay`: what is made again from studies that have been run."""

from __future__ import annotations

import contextlib
from pathlib import Path

from krogh import files
from krogh.cli.printing import console as console_for
from krogh.cli.verdicts import answer, print_claims
from krogh.errors import KroghError, require
from krogh.lab import remote
from krogh.lab.frames import write_frames
from krogh.lab.study import RUN, Study, is_stale, judge_study, read_study
from krogh.report import write_replay, write_report
from krogh.report.replay import PAGE


def judge_studies(folder: Path | str, *, as_json: bool, strict: bool, plain: bool | None = None) -> int:
    """Redo the claims and figures of every finished study under a folder or a URL."""
    console = console_for(stderr=as_json)
    studies: list[Study] = []
    with remote.at(folder, without=remote.TRAINING) as place:
        judged = [own for own in study_folders(place) if read_study(own).get("kind") != RUN]
        require(judged, f"{folder} holds nothing but trials of krogh.run: there is nothing to judge")
        for own in judged:
            studies.append(judge_study(own, plain=plain))
            print_claims(console, studies[-1])
    return answer(studies, as_json=as_json, strict=strict)


def report_studies(folder: Path | str, out: Path | None) -> Path | str:
    """Write the page of the studies in a folder or at a URL; returns where it is."""
    if out is not None:
        files.destination(out, "index.html")
    with remote.at(folder, without=remote.TRAINING) as place:
        refresh_studies(place)
        page = write_report(place, out)
    return remote.address(folder, page) if out is None and remote.is_url(folder) else page


def refresh_studies(folder: Path) -> None:
    """Redo claims and figures of the studies under a folder whose experiment has changed since they were made."""
    for place in files.study_folders(folder):
        with contextlib.suppress(KroghError):  # what is wrong with a study's files is for the page's reader to say
            if is_stale(place):
                judge_study(place)


def replay_study(folder: Path | str, out: Path | None, *, trials: int, frames: int) -> Path | str:
    """Look at the snapshots of a study and write the page that replays them; returns where it is."""
    if out is not None:
        files.destination(out, PAGE)
    with remote.at(folder, without=("cohorts",)) as place:
        studies = study_folders(place)
        one = len(studies) == 1
        require(one, f"{place} holds {len(studies)} studies; replay one of {', '.join(map(str, studies[:8]))}")
        write_frames(studies[0], trials=trials, frames=frames)
        page = write_replay(studies[0], out)
    return remote.address(folder, page) if out is None and remote.is_url(folder) else page


def study_folders(folder: Path) -> list[Path]:
    """The folders of studies under a folder, itself included."""
    studies = files.study_folders(folder)
    require(studies, f"no study found under {folder}: run an experiment into it first (krogh run NAME --out {folder})")
    return studies
