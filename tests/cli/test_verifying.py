"""What `krogh verify` says while it is under way."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import jax
import pytest
from rich.console import Console

from krogh.cli import verifying
from krogh.lab.display import Display


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when told to."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return lambda seconds: now.__setitem__(0, now[0] + seconds)


def test_the_estimate_is_what_is_allowed_and_then_the_pace(clock):
    text = io.StringIO()
    head = {"experiment": "parity/x", "task": "parity", "model": "mlp"}
    with Display(Console(file=text, soft_wrap=True), "verify") as display:
        pace = verifying.Pace(display, 4, 3, 30.0)
        assert pace.seconds_left() == 4 * 90
        pace.tell(head, "planning", now=True)
        clock(50)
        assert pace.seconds_left() == 4 * 90 - 50
        pace.finished()
        assert pace.seconds_left() == 3 * 50
        pace.tell(head, "law")
        pace.tell(head, "evaluation")  # too soon after the last line
        clock(20)
        pace.tell(head, "update")
        clock(1000)
        assert pace.seconds_left() is None
    assert text.getvalue().splitlines() == [
        "verify  0/4  parity/x  parity, mlp: planning · 6 min left",
        "verify  1/4  parity/x  parity, mlp: law · 2 min left",
        "verify  1/4  parity/x  parity, mlp: update · 2 min left",
    ]


def test_json_has_its_progress_on_the_other_channel(monkeypatch, capsys):
    """A line as each structure begins, before anything is compared; what is printed is JSON alone."""
    heard = []

    def bench(cohort, device, reference, trials, *, seconds):
        heard.append(capsys.readouterr())
        raise RuntimeError("not today")

    devices = {backend: SimpleNamespace(device_kind="none") for backend in (None, "cpu")}
    monkeypatch.setattr(verifying, "bench", bench)
    monkeypatch.setattr(jax, "local_devices", lambda backend=None: [devices[backend]])
    code = verifying.verify_devices(
        ("parity/histogram", "parity/scaling"), "smoke", (), trials=8, seconds=1.0, precision=False, as_json=True
    )
    assert len(heard) >= 3 and not any(told.out for told in heard)
    lines = [told.err.splitlines()[-1] for told in heard]
    assert lines[0].startswith(f"verify  0/{len(heard)}  parity/histogram") and lines[0].endswith(" s left")
    assert lines[-1].startswith(f"verify  {len(heard) - 1}/{len(heard)}  parity/scaling")
    answer = json.loads(capsys.readouterr().out)
    assert code == 1 and [row["error"] for row in answer["rows"]] == ["not today"] * len(heard)
