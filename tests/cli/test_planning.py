"""`krogh plan`: lines for people, JSON for programs, one line for what cannot be."""

from __future__ import annotations

import json

import pytest

from krogh.cli.planning import count, duration
from krogh.engine.pilot import Pilot
from krogh.lab import planning


@pytest.fixture
def quick(monkeypatch):
    """Pilots that take no time."""
    monkeypatch.setenv("KROGH_CACHE", "off")
    monkeypatch.setattr(planning, "fly", lambda cohort, seconds, beside: Pilot(2.0, 1e-4, 0.0, (100,) * 9, (100,)))


def test_a_plan_in_words_and_as_json(call, quick, tmp_path):
    code, out, _ = call("plan", "parity/histogram", "--scale", "paper", "--set", "trials=2000000")
    assert code == 0 and not list(tmp_path.iterdir())  # nothing is written
    lines = dict(line.strip().split("  ", 1) for line in out.splitlines()[1:11])
    assert lines["trials"].strip() == "2,000,000" and lines["trial-steps"].strip().startswith("2.02e+10 (")
    assert "compilation" in lines["work"] and "days" in lines["time"] and "GiB" not in lines["disk"]
    code, out, _ = call("plan", "parity/histogram", "parity/scaling", "--scale", "smoke", "--json")
    told = json.loads(out)
    assert [plan["name"] for plan in told] == ["parity/histogram", "parity/scaling"]
    assert told[0]["trials"]["expected"] == 64 and told[1]["cohorts"] == told[1]["compilations"]
    code, out, _ = call("plan", "parity/histogram", "parity/scaling", "--scale", "smoke")
    assert out.splitlines()[-1].startswith("all 2  ")


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["parity/hist"], "did you mean 'parity/histogram'"),
        (["parity/histogram", "--scale", "papier"], "unknown scale 'papier'"),
        (["parity/histogram", "--seconds", "0"], "seconds must be positive"),
        (["parity/histogram", "--seconds", "inf"], "seconds must be positive and finite; got seconds=inf"),
        (["parity/histogram", "--like", "nowhere"], "no study of parity/histogram in nowhere"),
        (["parity/histogram", "--set", "batch_size=1000000000"], "does not fit"),
    ],
)
def test_what_cannot_be_planned_is_one_line(call, quick, arguments, complaint):
    code, out, err = call("plan", *arguments)
    assert code in (2, 5) and out == "" and complaint in err


def test_numbers_are_written_shortly():
    assert [count(number) for number in (12, 1234.4, 2.5e9)] == ["12", "1,234", "2.5e+09"]
    assert duration(float("nan")) == "unknown"
