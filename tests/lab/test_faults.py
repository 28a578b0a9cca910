"""Faults that are made to happen: what is lost, what is said, and that the final table is that of a quiet run.

What kills a process, and several processes on one study: `test_study.py` and `test_sharing.py`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from krogh.errors import KroghError
from krogh.lab import run_study, training
from krogh.lab.store import Store

PLUGIN = Path(__file__).parents[1] / "plugin"


def table_of(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "trials.parquet")


def krogh(*arguments: object, **options: object) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PLUGIN), *sys.path]), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "krogh", *map(str, arguments)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


# --- a full disk ---------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 300 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() or shutil.which("mount") is None:
        pytest.skip("only root may mount a small disk")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_disk_that_fills_up_keeps_what_was_written(small_disk, tiny, tmp_path, reference):
    """The study ends with one error, is whole as far as it came, and goes on when there is room."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(200_000))

    def fill(progress: training.Progress) -> None:
        if progress.done >= 16:
            with pytest.raises(OSError, match="No space"):
                (small_disk / "more").write_bytes(bytes(300_000))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "FLUSH_SECONDS", 0.0)
        with pytest.raises((OSError, KroghError, pl.exceptions.ComputeError), match=r"(?i)no space"):
            run_study(tiny.Tiny(), "smoke", small_disk, show=fill)
    kept = Store(small_disk / "tiny" / "parity" / "cohorts")
    kept.check()
    there = kept.ids()
    assert 0 < len(there) < 48
    ballast.unlink(), (small_disk / "more").unlink()
    trained: list[int] = []
    study = run_study(tiny.Tiny(), "smoke", small_disk, show=lambda progress: trained.append(progress.resumed))
    assert set(trained) == {len(there)}, "what was there was not trained again"
    assert_frame_equal(table_of(study.folder), table_of(reference.folder))


# --- damage --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_a_damaged_file_of_the_store_is_named_and_only_its_trials_are_trained_again(
    damage, reference, tiny, tmp_path, monkeypatch
):
    out = tmp_path / "copy"
    shutil.copytree(reference.folder, out / "tiny" / "parity")
    victim = Store(out / "tiny" / "parity" / "cohorts").files()[0]
    content = bytearray(victim.read_bytes())
    if damage == "truncated":
        content = content[: len(content) // 2]
    elif damage == "flipped":
        content[int(np.random.default_rng(0).integers(len(content)))] ^= 1
    else:
        content.clear()
    victim.write_bytes(content)
    with pytest.raises(KroghError, match=f"{victim.name} is damaged .*move it out of the folder and run again"):
        run_study(tiny.Tiny(), "smoke", out)
    victim.rename(tmp_path / victim.name)
    resumed: list[int] = []
    study = run_study(tiny.Tiny(), "smoke", out, show=lambda progress: resumed.append(progress.resumed))
    assert set(resumed) == {24}
    assert_frame_equal(table_of(study.folder), table_of(reference.folder))


# --- interruption --------------------------------------------------------------------------------------------

STUCK = """
import hashlib
import krogh, tiny_lab

@krogh.experiment("mine/stuck")
class Stuck(tiny_lab.Tiny):
    '''Measures in compiled code that takes ten minutes.'''

    def measure(self, results):
        print("asleep", flush=True)
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)  # no signal interrupts it
        return {}
"""


@pytest.mark.parametrize(("signals", "longest"), [([signal.SIGINT], 15), ([signal.SIGTERM, signal.SIGINT], 4)])
def test_compiled_code_that_takes_long_is_not_waited_for(tmp_path, signals, longest):
    """After 4.5 seconds it ends by itself; at once when asked twice. (The limits leave room for a busy machine.)"""
    file = tmp_path / "stuck_lab.py"
    file.write_text(STUCK)
    running = krogh("run", "mine/stuck", "--plugin", file, "--scale", "smoke", "--out", tmp_path / "runs")
    assert running.stdout is not None
    while "asleep" not in (line := running.stdout.readline()):
        assert line, running.communicate()
    begun = time.monotonic()
    for number in signals:
        running.send_signal(number)
        time.sleep(0.2)
    out, err = running.communicate(timeout=60)
    assert time.monotonic() - begun < longest
    assert running.returncode == 130 and "Traceback" not in out + err and "what was finished is kept" in err
    assert len(Store(tmp_path / "runs" / "mine" / "stuck" / "cohorts").ids()) == 48


# --- memory --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
def test_a_process_that_runs_out_of_memory_leaves_a_study_that_goes_on(tmp_path, tiny, reference):
    """The address space is limited to what the process has when training begins and a little more."""
    script = tmp_path / "limited.py"
    script.write_text(LIMITED)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PLUGIN), *sys.path])}
    command = [sys.executable, str(script), str(tmp_path / "runs")]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode not in (0, 2), ended.stderr
    study = run_study(tiny.Tiny(), "smoke", tmp_path / "runs")
    assert_frame_equal(table_of(study.folder), table_of(reference.folder))


LIMITED = """
import resource, sys
import tiny_lab
from krogh.lab import study, training

training.FLUSH_SECONDS = 0.0

def show(progress):
    if progress.done >= 8:
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used, used))
        hold.append(bytes(1 << 30))

hold = []
study.run_study(tiny_lab.Tiny(), "smoke", sys.argv[1], show=show)
"""
