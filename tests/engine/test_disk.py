"""Programs on disk: where they are kept, what is thrown away, and that they train the same."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from krogh.engine import compiling as disk

SCRIPT = """
import hashlib, jax, krogh
from krogh.engine import run_cohort
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if event.endswith("cache_hits") else None)
assert jax.config.jax_compilation_cache_dir is None, "importing krogh decides nothing"
stopping = krogh.Stopping(budget=300, validation=40)
training = krogh.Training(krogh.Sgd(rate=0.1), krogh.Online(batch_size=8), stopping)
trial = krogh.Trial(krogh.Parity(n=6, k=2), krogh.Mlp(width=8, output_bias=True), training)
bits = {}
for finished in run_cohort(krogh.sweep(trial, seed=range(10))[0], keep_weights=True):
    for place, position in enumerate(finished.position.tolist()):
        bits[position] = b"".join(leaf[place].tobytes() for leaf in finished.weights.values())
print(len(hits), hashlib.sha256(b"".join(bits[place] for place in range(10))).hexdigest())
"""


@pytest.fixture
def config(monkeypatch) -> SimpleNamespace:
    """JAX's settings, as far as they are changed here, in a process that has made none."""
    settings = SimpleNamespace(jax_compilation_cache_dir=None)
    settings.update = lambda name, value: setattr(settings, name, value)
    monkeypatch.setattr(disk, "jax", SimpleNamespace(config=settings))
    monkeypatch.delenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", raising=False)
    return settings


def test_the_folder_is_the_users_unless_it_is_named(config, monkeypatch, tmp_path):
    home, shared, own = tmp_path / "home", tmp_path / "shared", tmp_path / "own"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    for user, given, expected in (
        ("", "", home / ".cache" / "krogh"),
        ("relative", "", home / ".cache" / "krogh"),
        (str(shared), "", shared / "krogh"),
        (str(shared), str(own), own),
        ("", "own", own),
        ("", "~/mine", home / "mine"),
    ):
        monkeypatch.setenv("XDG_CACHE_HOME", user)
        monkeypatch.setenv("KROGH_CACHE", given)
        config.jax_compilation_cache_dir = None
        folder = disk.keep_programs()
        assert folder is not None and folder.parent == expected and folder.is_dir()
        assert config.jax_compilation_cache_dir == str(folder)
        assert config.jax_persistent_cache_min_compile_time_secs == disk.LEAST_SECONDS


def test_nothing_is_kept_when_it_is_off_or_jax_has_a_folder(config, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KROGH_CACHE", "off")
    assert disk.keep_programs() is None and config.jax_compilation_cache_dir is None
    monkeypatch.setenv("KROGH_CACHE", str(tmp_path / "own"))
    config.jax_compilation_cache_dir = "theirs"
    assert disk.keep_programs() is None and config.jax_compilation_cache_dir == "theirs"
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_used_costs_one_line(config, monkeypatch, tmp_path, capfd):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("KROGH_CACHE", str(tmp_path / "file"))
    assert disk.keep_programs() is None and config.jax_compilation_cache_dir is None
    line = capfd.readouterr().err
    assert line.count("\n") == 1 and str(tmp_path / "file") in line and "Not a directory" in line


def entry(folder: Path, name: str, age: float, content: bytes) -> Path:
    path = folder / f"{name}-cache"
    path.write_bytes(content)
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_damaged_entries_are_removed_once_they_are_settled(tmp_path, capfd):
    packed = zlib.compress(os.urandom(1000))
    sound = entry(tmp_path, "sound", 3600, packed)
    cut = entry(tmp_path, "cut", 3600, packed[:-100])
    spoilt = entry(tmp_path, "spoilt", 3600, packed[:500] + b"no" + packed[502:])
    empty = entry(tmp_path, "empty", 3600, b"")
    writing = entry(tmp_path, "writing", 1, packed[:100])
    disk.tidy(tmp_path)
    assert sound.exists() and writing.exists() and not any(path.exists() for path in (cut, spoilt, empty))
    assert capfd.readouterr().err.count("is damaged and was removed") == 3
    seen = entry(tmp_path, "seen", 3600, packed[:-100])  # as if it had been there, and sound, the last time
    os.utime(writing, (time.time() - disk._SETTLED - 0.01,) * 2)  # its writer died
    os.utime(tmp_path / "checked", (time.time() - 600,) * 2)
    disk.tidy(tmp_path)
    assert sound.exists() and seen.exists() and not writing.exists()


def test_the_oldest_entries_go_when_there_are_too_many(tmp_path):
    packed = zlib.compress(os.urandom(1000))
    paths = [entry(tmp_path, str(number), 3600 - number, packed) for number in range(10)]
    disk.tidy(tmp_path, largest=3 * len(packed))
    assert [path.exists() for path in paths] == [False] * 7 + [True] * 3


def results(folder: str, *options: str) -> tuple[int, str, str]:
    """Programs read from disk, a digest of the trained weights, and what was said."""
    environment = {**os.environ, "KROGH_CACHE": folder, "JAX_PLATFORMS": "cpu"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    process = subprocess.run(
        [sys.executable, *options, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr
    hits, digest = process.stdout.split()
    return int(hits), digest, process.stderr


@pytest.mark.slow
def test_a_second_process_reads_what_the_first_compiled_and_trains_the_same(tmp_path):
    folder = str(tmp_path / "cache")
    without, first, second = results("off"), results(folder, "-Werror"), results(folder, "-Werror")
    assert (without[0], first[0]) == (0, 0) and second[0] >= 1
    assert without[1] == first[1] == second[1], "bit for bit"
    assert without[2] == first[2] == second[2] == ""
    for path in Path(folder).rglob("*-cache"):
        path.write_bytes(path.read_bytes()[:-50])
    hits, digest, said = results(folder)
    assert (hits, digest) == (0, first[1]) and "Error reading persistent compilation cache entry" in said
