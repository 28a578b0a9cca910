"""What stands in nobody's way: module, pipes, terminals, devices, disks; and `krogh doctor`."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys

import pytest

from krogh.cli import doctoring, printing
from krogh.errors import MOST_LISTED, NEAREST, unknown


def started(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "krogh", *arguments], capture_output=True, text=True, env=os.environ | environment
    )


def test_the_package_is_the_command_and_completion_can_be_installed():
    shown = started("--help")
    assert shown.returncode == 0 and "--install-completion" in shown.stdout and "doctor" in shown.stdout


def test_a_device_that_is_not_there_is_one_line():
    ended = started("doctor", JAX_PLATFORMS="rocm")
    assert ended.returncode == printing.DEVICE and ended.stdout == ""
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("krogh:")]
    assert "JAX_PLATFORMS=rocm" in line and "Traceback" not in ended.stderr


def test_a_closed_pipe_ends_without_a_word():
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "krogh", "predict", "parity/plateau", "block_size=100", "k=3"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert ended.returncode == printing.PIPE and ended.stderr == ""


def test_a_terminal_without_greek_letters_prints_the_rest():
    shown = started("show", "qstr", PYTHONIOENCODING="ascii")
    assert shown.returncode == 0 and "task" in shown.stdout and "?" in shown.stdout


def test_lines_are_not_broken_in_a_pipe(call, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    code, out, _ = call("list", "predictions")
    assert code == 0 and max(len(line.rstrip()) for line in out.splitlines()) > 100
    assert all(line.split() for line in out.splitlines() if line.strip())


@pytest.mark.parametrize(
    ("problem", "code", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "runs/x"), printing.FILES, "No space left on device: runs/x"),
        (PermissionError(errno.EACCES, "Permission denied", "a"), printing.FILES, "Permission denied: a"),
        (MemoryError(), printing.MEMORY, "out of memory"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory\nmore"), printing.MEMORY, "RESOURCE_EXHAUSTED"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), printing.PIPE, ""),
    ],
)
def test_faults_from_outside_have_a_line_and_a_code(problem, code, words):
    ended, line = printing.fault(problem)
    assert ended == code and words in line and "\n" not in line


@pytest.mark.parametrize("problem", [ValueError("x"), AssertionError(), RuntimeError("x"), OSError("no number")])
def test_faults_of_our_own_keep_their_traceback(problem):
    assert printing.fault(problem) is None


def test_a_full_disk_says_that_the_study_resumes(call, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "study.json")

    monkeypatch.setattr("krogh.cli.inspecting.predict_numbers", full)
    code, out, err = call("predict", "parity/plateau")
    assert code == printing.FILES and out == "" and "resumes" in err and err.count("\n") == 1


def test_of_many_names_the_nearest_five_are_named():
    few, many = [f"name-{i}" for i in range(MOST_LISTED)], [f"name-{i}" for i in range(MOST_LISTED + 1)]
    assert str(unknown("thing", "name-x", few)).count("name-") == MOST_LISTED + 2  # all, the given, and the guess
    text = str(unknown("thing", "name-x", many))
    assert text.count("name-") == NEAREST + 2 and f"nearest of {len(many)}" in text


def test_the_doctor_says_what_is_here_and_trains_a_little(call, monkeypatch):
    code, out, _ = call("doctor", "--json")
    found = json.loads(out)
    assert code == 0 and found["self-test"]["passed"] is True
    assert {"versions", "devices", "memory", "paths", "caches", "extras"} <= set(found)
    assert found["versions"]["python"].count(".") == 2 and found["devices"]["cores"] >= 1
    monkeypatch.setattr(doctoring, "_self_test", lambda trial: {"passed": False})
    code, out, _ = call("doctor")
    assert code == 1 and "self-test" in out
