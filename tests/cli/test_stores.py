"""The commands on a URL, in this process: run, report, judge, and what is said when it cannot be."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from krogh.cli import printing
from krogh.lab import sites
from krogh.registry import EXPERIMENTS

PLUGIN = Path(__file__).parents[1] / "plugin"
SMALL = ("--scale", "smoke", "--set", "widths=8", "--set", "seeds=4", "--set", "budget=40")


@pytest.fixture
def krogh(monkeypatch, call, tmp_path):
    """The command with the little plug-in installed, and a cache of its own."""
    EXPERIMENTS.load()
    filed = dict(EXPERIMENTS._things)
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setattr(EXPERIMENTS, "_plugged", False)
    monkeypatch.setattr(sites, "cache_folder", lambda: tmp_path / "cache")
    yield call
    EXPERIMENTS._things.clear()
    EXPERIMENTS._things.update(filed)
    sys.modules.pop("tiny_lab", None)


@pytest.mark.slow
def test_run_report_and_judge_at_a_url(krogh, tmp_path):
    url, shared = f"file://{tmp_path}/shared", tmp_path / "shared"
    code, out, _ = krogh("run", "tiny/parity", "--out", url, *SMALL, "--json")
    (claim,) = json.loads(out)["tiny/parity"]
    study = json.loads((shared / "tiny" / "parity" / "study.json").read_text())
    assert code == 0 and f"--out {url} " in study["command"]
    assert krogh("report", url)[:2] == (0, f"{url}/index.html\n")
    assert "Small networks learn" in (shared / "index.html").read_text()
    assert krogh("report", f"{url}/tiny/parity", "--out", "page.html")[:2] == (0, "page.html\n")
    code, out, _ = krogh("compare", url, str(shared))
    assert code == 0 and "verdicts changed" in out and f"  A  {url}/tiny/parity " in out and "cache" not in out
    code, out, _ = krogh("plan", "tiny/parity", "--scale", "smoke", "--seconds", "1", "--like", url)
    assert code == 0 and out.startswith("tiny/parity at smoke")
    code, _, err = krogh("plan", "parity/histogram", "--scale", "smoke", "--seconds", "1", "--like", url)
    assert code == 2 and f"no study of parity/histogram in {url} " in err
    (shared / "tiny" / "parity" / "claims.json").unlink()
    code, out, _ = krogh("judge", url, "--json")
    assert code == 0 and json.loads(out)["tiny/parity"] == [claim]
    assert (shared / "tiny" / "parity" / "claims.json").is_file()
    code, _, err = krogh("run", "tiny/parity", "--out", url, *SMALL, "--set", "noise=0.1")
    assert code == 2 and f"krogh: {url}/tiny/parity holds another study" in err
    assert str(tmp_path / "cache") not in err
    code, _, err = krogh("replay", url)
    assert code == 2 and f"{url}/tiny/parity keeps no snapshots" in err
    assert {path.name for path in tmp_path.iterdir()} == {"shared", "cache", "page.html"}  # no folder "file:"


def test_what_cannot_be_reached_is_one_line(krogh, monkeypatch, tmp_path):
    assert krogh("report", "nowhere://x")[0] == 2
    code, _, err = krogh("run", "tiny/parity", "--out", "nowhere://x", *SMALL)
    assert code == 2 and err == "krogh: nowhere://x cannot be opened: Protocol not known: nowhere\n"
    (tmp_path / "file").write_text("")
    url = f"file://{tmp_path}/file"
    code, _, err = krogh("run", "tiny/parity", "--out", url, *SMALL)
    assert code == printing.FILES and err.startswith(f"krogh: {url}/tiny/parity cannot be reached (")
    assert not list((tmp_path / "cache").rglob("*.parquet"))  # nothing was trained


def test_a_tracker_that_is_not_installed_is_one_line(krogh, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, _, err = krogh("run", "tiny/parity", *SMALL, "--log", "mlflow")
    assert code == 2 and err == "krogh: logging to mlflow needs its package: pip install 'krogh[tracking]'\n"
