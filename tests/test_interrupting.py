"""Ctrl-C and SIGTERM, where they are hardest to hear."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

BEGIN = """
import gc, os, signal, threading, time
from krogh.interrupting import watch
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may outlive a terminal themselves
watch()
"""
DROPPED = """
told = []
def tell(phase, about):
    if not told:
        told.append(phase)
        os.kill(os.getpid(), signal.SIGINT)
gc.callbacks.append(tell)
"""
WAITS = {"while it computes": "while True: pass", "while it waits": "threading.Event().wait()"}
CLEANING = """
try:
    print("begun", flush=True)
    time.sleep(30)
except KeyboardInterrupt:
    {}
    print("cleaned", flush=True)
"""


def run(script: str) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", BEGIN + script], **pipes)


@pytest.mark.parametrize("wait", WAITS)
def test_an_interruption_that_a_garbage_collection_drops_is_raised_again(wait):
    """Python drops what is raised in a callback of the collector, among which JAX has one."""
    script = f"{DROPPED}\ntry:\n    gc.collect()\n    {WAITS[wait]}\nexcept KeyboardInterrupt:\n    print('caught')"
    begun = time.monotonic()
    out, err = run(script).communicate(timeout=60)
    assert out == "caught\n" and err == ""
    assert time.monotonic() - begun < 4, "before the grace ended"


def test_what_else_is_dropped_is_still_said():
    out, err = run("def fail(*_): raise ValueError('said')\ngc.callbacks.append(fail)\ngc.collect()").communicate()
    assert "ValueError: said" in err and out == ""


@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGTERM] * 3, [signal.SIGHUP]])
def test_signals_that_come_together_ask_once(signals):
    with run(CLEANING.format("time.sleep(1)")) as process:
        assert process.stdout.readline() == "begun\n"
        for number in signals:
            process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert out == "cleaned\n" and err == "" and process.returncode == 0


def test_a_command_that_is_to_outlive_its_terminal_does():
    """`nohup` has the signal ignored from the beginning on."""
    with run("signal.signal(signal.SIGHUP, signal.SIG_IGN)\nwatch()" + CLEANING.format("pass")) as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "cleaned\n"


SCRIPT = """
import threading, time
from krogh.interrupting import leave_with_main_thread
threading.Thread(target=time.sleep, args=({seconds},)).start()  # as a program of XLA's that runs
try:
    raise KeyboardInterrupt
except KeyboardInterrupt:
    leave_with_main_thread()
    {then}
print("went on")
"""


@pytest.mark.parametrize(("then", "seconds", "code"), [("raise", 30, 130), ("pass", 1, 0)])
def test_a_script_that_is_interrupted_ends_soon_unless_it_goes_on(then, seconds, code):
    begun = time.monotonic()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    script = SCRIPT.format(then=then, seconds=seconds)
    with subprocess.Popen([sys.executable, "-c", script], **pipes) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == code and time.monotonic() - begun < 10
    assert (out == "went on\n") == (code == 0) and ("KeyboardInterrupt" in err) == (code == 130)


def test_a_second_one_ends_it_at_once():
    with run(CLEANING.format("time.sleep(4)")) as process:
        assert process.stdout.readline() == "begun\n"
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (
        out == ""
        and err == "krogh: interrupted; ended at once; what was finished in the last seconds may not be kept\n"
    )
    assert process.returncode == 130 and time.monotonic() - begun < 3


def test_a_second_one_ends_an_import_that_takes_long(tmp_path):
    (tmp_path / "slowly.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(30)")
    with run(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import slowly") as process:
        assert process.stdout.readline() == "begun\n"
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        time.sleep(1)
        assert process.poll() is None, "an import is not broken off"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and time.monotonic() - begun < 3 and err.startswith("krogh: interrupted; ended at")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only there are signals sent so")
@pytest.mark.parametrize("seconds", [0.1, 0.2, 0.4])
def test_a_command_that_has_just_begun_ends_with_one_line(seconds):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-m", "krogh", "doctor"], **pipes) as process:
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    if process.returncode == -signal.SIGINT:
        pytest.skip("Python itself had not begun yet")
    assert process.returncode == 130 and err.startswith("krogh: interrupted; ") and err.count("\n") == 1
