"""Studies in a tracker: what arrives there, that a resumed study is one run, that no fault of it stops a study."""

from __future__ import annotations

import importlib.util
import json
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from krogh.errors import KroghError
from krogh.lab import Progress, Study, run_study, tracking
from krogh.lab.study import plan_study
from krogh.lab.tracking import FAILED, FINISHED, KILLED, median_curves, open_log, run_logged, run_of
from krogh.report import write_report

SMALL = {"widths": "8", "seeds": "3", "budget": "40"}


class Kept:
    """A tracker in memory."""

    def __init__(self):
        self.heads, self.runs, self.seen, self.outcomes = [], [], [], []

    def begin(self, head, run):
        self.heads.append(head)
        self.runs.append(run)
        return "memory"

    def progress(self, numbers):
        self.seen.append(numbers)

    def end(self, outcome):
        self.outcomes.append(outcome)


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(tracking, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(tracking, "LEAST_SECONDS", 60.0)


def stop(progress):
    raise KeyboardInterrupt


def test_a_study_and_its_resumption_are_one_run(tiny, tmp_path, capsys):
    log = Kept()
    assert run_study(tiny.Tiny(), "smoke", tmp_path, changes=SMALL, log=log, show=stop).status == "interrupted"
    study = run_study(tiny.Tiny(), "smoke", tmp_path, changes=SMALL, log=log)
    assert log.runs[0] == log.runs[1] == run_of(study.summary)
    assert log.heads[0]["settings"] == study.summary["settings"]
    assert [outcome.status for outcome in log.outcomes] == [KILLED, FINISHED]
    assert log.seen[-1]["done"] == log.seen[-1]["total"] == 3
    end = log.outcomes[-1]
    (claim,) = study.claims
    assert end.numbers["claim/learns/value"] == claim.value and end.numbers["claim/learns/low"] == claim.low
    assert end.words["claim/learns/verdict"] == claim.verdict and end.numbers["engine/trials"] == 3
    assert {"study.json", "claims.json", "figures/times.svg"} <= end.files.keys()
    assert capsys.readouterr().err == 2 * "krogh: logged to memory\n"


def test_another_study_is_another_run(reference):
    other = {**reference.summary, "settings": {**reference.summary["settings"], "rate": 0.1}}
    later = {**reference.summary, "started": "2030-01-01T00:00:00+00:00"}
    assert len({run_of(reference.summary), run_of(other), run_of(later)}) == 3


@dataclass
class Planned:
    """A study that is run at once, or fails."""

    study: Study
    before: None = None

    @property
    def head(self):
        return self.study.summary

    def run(self, show):
        show(Progress(total=3, done=2, converged=1, steps=50, seconds=5.0))
        return self.study


@pytest.mark.parametrize("where", ["begin", "progress", "end"])
def test_a_fault_of_the_tracker_is_one_line(where, reference, capsys, monkeypatch):
    def fail(self, *_):
        raise ConnectionError("the server is away\nand more")

    log = Kept()
    monkeypatch.setattr(Kept, where, fail)
    assert run_logged(Planned(reference), log) is reference
    lines = capsys.readouterr().err.splitlines()
    assert len([line for line in lines if "does not take" in line]) == 1
    assert "(the server is away); the study itself is not affected" in lines[-1]
    assert bool(log.outcomes) == (where == "progress")  # its end is tried all the same


def test_a_tracker_that_never_answers_is_not_waited_for(reference, capsys, monkeypatch):
    monkeypatch.setattr(tracking, "LAST_SECONDS", 0.05)
    never = threading.Event()
    log = Kept()
    log.begin = lambda head, run: never.wait(30)
    assert run_logged(Planned(reference), log) is reference
    assert "no answer for 0.05 s" in capsys.readouterr().err
    never.set()


def test_a_study_that_fails_is_a_run_that_failed(reference):
    def fail(progress):
        raise RuntimeError

    log = Kept()
    with pytest.raises(RuntimeError):
        run_logged(Planned(reference), log, fail)
    assert [outcome.status for outcome in log.outcomes] == [FAILED] and log.seen[-1]["steps_per_second"] == 10


def test_medians_of_curves(tmp_path, reference):
    assert median_curves(reference.folder / "trials.parquet").is_empty()
    table = pl.DataFrame({"id": [1, 2, 3], "curve.step": [[0, 10], [0, 10], [0]], "curve.gap": [[1, 2], [3, 4], [8]]})
    table.write_parquet(tmp_path / "t.parquet")
    assert median_curves(tmp_path / "t.parquet").to_dict(as_series=False) == {"step": [0, 10], "gap": [3.0, 3.0]}
    long = pl.DataFrame({"curve.step": [list(range(1000))], "curve.gap": [[0.0] * 1000]})
    long.write_parquet(tmp_path / "t.parquet")
    assert median_curves(tmp_path / "t.parquet")["step"].to_list()[::199] == [0, 999]


def test_what_is_not_installed_or_unknown_is_named(monkeypatch):
    with pytest.raises(KroghError, match="unknown tracker 'mlfow'; did you mean 'mlflow'"):
        open_log("mlfow")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(KroghError, match=r"pip install 'krogh\[tracking\]'"):
        open_log("mlflow")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_mlflow_for_real(tiny, tmp_path, monkeypatch):
    """The file store, which needs no server: parameters, metrics over time, tags and artifacts, read back."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    run_study(tiny.Tiny(), "smoke", tmp_path / "runs", changes=SMALL, log="mlflow", show=stop)
    study = run_logged(plan_study(tiny.Tiny(), "smoke", tmp_path / "runs", changes=SMALL), "mlflow", page=write_report)
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())
    experiment = client.get_experiment_by_name("krogh")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == FINISHED
    assert run.data.params["widths"] == "[8]" and run.data.params["scale"] == "smoke"
    (claim,) = study.claims
    assert run.data.metrics["claim/learns/value"] == pytest.approx(claim.value)
    assert run.data.tags["krogh.claim/learns/verdict"] == claim.verdict
    history = client.get_metric_history(run.info.run_id, "done")
    assert [point.value for point in history][-1] == 3 and history[-1].step == 3
    names = {item.path for item in client.list_artifacts(run.info.run_id)}
    assert {"report.html", "claims.json", "study.json", "figures"} <= names


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_weights_and_biases_for_real_and_offline(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    run_study(tiny.Tiny(), "smoke", tmp_path / "runs", changes=SMALL, log="wandb", show=stop)
    study = run_logged(plan_study(tiny.Tiny(), "smoke", tmp_path / "runs", changes=SMALL), "wandb", page=write_report)
    first, second = sorted((tmp_path / "wandb").glob("offline-run-*"))
    assert {path.name.rpartition("-")[2] for path in (first, second)} == {run_of(study.summary)}
    assert (second / "files" / "report.html").is_file() and (second / "files" / "figures" / "times.svg").is_file()
    config, history, summary = wandb_records(next(second.glob("*.wandb")))
    (claim,) = study.claims
    assert config["seeds"] == 3 and config["scale"] == "smoke"
    assert history[-1]["done"] == 3
    assert (
        summary["claim/learns/value"] == pytest.approx(claim.value) and summary["claim/learns/verdict"] == claim.verdict
    )
    assert "wandb sync" in capsys.readouterr().err


def wandb_records(path: Path) -> tuple[dict, list[dict], dict]:
    """Configuration, history and summary in the file of an offline run: a log of protocol buffers."""
    from wandb.proto.wandb_internal_pb2 import Record

    def items(found) -> dict:
        return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in found}

    config, history, summary = {}, [], {}
    for data in log_records(path.read_bytes()):
        record = Record.FromString(data)
        config |= items(record.run.config.update) | items(record.config.update)
        if record.HasField("history"):
            history.append(items(record.history.item))
        summary |= items(record.summary.update)
    return config, history, summary


def log_records(content: bytes) -> Iterator[bytes]:
    """The records of a log in LevelDB's format: checksum, length and kind before each piece, in blocks of 32 KiB."""
    block, place, whole = 32_768, 7, b""
    while place + 7 <= len(content):
        if block - place % block < 7:
            place += block - place % block
            continue
        length, kind = struct.unpack("<HB", content[place + 4 : place + 7])
        if not kind:
            return
        whole += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a whole record, or its last piece
            yield whole
            whole = b""
