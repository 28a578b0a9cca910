"""Faults that are made to happen: what is lost, what is said, and that the final table is that of a quiet run.

What kills a process, and several processes on one study: `test_study.py` and `test_sharing.py`.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
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
import safetensors.numpy
from polars.testing import assert_frame_equal

from krogh import open_study, sweep
from krogh.errors import KroghError
from krogh.files import replacing
from krogh.lab import members, run_study, training
from krogh.lab import study as study_module
from krogh.lab.frontier import Rule
from krogh.lab.search import Problem, Search
from krogh.lab.store import Store
from krogh.lab.study import judge_study, plugin_of
from krogh.registry import EXPERIMENTS
from krogh.report import write_report
from krogh.report.read import find_studies

PLUGIN = Path(__file__).parents[1] / "plugin"


def table_of(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "trials.parquet")


QUICK = ((4, ()), (6, ("--weights",)))
"""Pages that are left on a full disk, and what is to be written there."""


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
        with pytest.raises(OSError, match="No space"):
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


@pytest.mark.parametrize(
    ("pages", "weights"),
    [
        pytest.param(pages, weights, marks=() if (pages, weights) in QUICK else pytest.mark.slow)
        for pages in (2, 4, 6, 8, 10)
        for weights in ((), ("--weights",))
    ],
)
def test_a_full_disk_is_one_line_wherever_it_is_full(small_disk, pages, weights):
    """Of Parquet, safetensors, JSON or a drawing: whichever file does not fit."""
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    (small_disk / "ballast").write_bytes(bytes(free - 4096 * pages))
    running = krogh("run", "tiny/parity", "--scale", "smoke", "--out", small_disk / "runs", *weights)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 3 and err.count("\n") == 1
    assert "No space left on device" in err and "free some space and run the same command again" in err
    assert ".tmp" not in err, "the file that was asked for is named"


# --- somebody removes what is there --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "searching", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["all trials", "a search"]
)
@pytest.mark.parametrize("gone", ["one file", "all"])
def test_records_that_are_removed_while_a_study_runs_are_missed(
    gone, searching, tiny, tmp_path, reference, monkeypatch
):
    """Half of the trials are no study; the next run trains the others again."""
    monkeypatch.setattr(training, "FLUSH_SECONDS", 0.0)

    class Adaptive(tiny.Tiny):
        def search(self, settings, cohorts):
            pools = {size: range(24 * place, 24 * place + 24) for place, size in enumerate(settings.widths)}
            return Search([Problem("one", pools)], width=8, rule=Rule(least=40, budget=40)) if searching else None

    cohorts, removed = tmp_path / "tiny" / "parity" / "cohorts", list[Path]()

    def remove(progress: training.Progress) -> None:
        if progress.done >= 30 and not removed:
            removed.extend(Store(cohorts).files())
            for path in removed[: 1 if gone == "one file" else None]:
                path.unlink()

    with pytest.raises(KroghError, match=r"trials that were trained are no longer in .*run the same command again"):
        run_study(Adaptive(), "smoke", tmp_path, show=remove)
    assert json.loads((cohorts.parent / "study.json").read_text())["status"] == "running"
    study = run_study(Adaptive(), "smoke", tmp_path)
    assert study.status == "complete" and len(table_of(study.folder)) == study.summary["engine"]["trials"] > 30
    if not searching:  # what a search asks for depends on what comes first
        assert_frame_equal(table_of(study.folder), table_of(reference.folder))


def test_a_study_that_is_moved_while_it_runs_is_not_begun_anew_in_its_place(tiny, tmp_path, reference, monkeypatch):
    monkeypatch.setattr(training, "FLUSH_SECONDS", 0.0)
    folder, elsewhere = tmp_path / "tiny" / "parity", tmp_path / "elsewhere"

    def move(progress: training.Progress) -> None:
        if progress.done >= 16 and not elsewhere.exists():
            folder.rename(elsewhere)

    with pytest.raises(OSError, match="No such file or directory"):
        run_study(tiny.Tiny(), "smoke", tmp_path, show=move)
    assert not folder.exists() and 0 < len(Store(elsewhere / "cohorts").ids()) < 48


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


@pytest.fixture
def weighed(tiny, tmp_path) -> Path:
    """A study of its own whose weights are kept."""
    return run_study(tiny.Tiny(), "smoke", tmp_path / "weighed", weights=True).folder


def test_a_fault_that_a_library_has_only_words_for_keeps_them(tmp_path):
    """Polars' writer of CSV raises an OSError without a number."""
    with pytest.raises(OSError, match="No space left on device") as caught, replacing(tmp_path / "a.csv"):
        raise OSError("cannot write: No space left on device (os error 28)")
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(tmp_path / "a.csv")
    with pytest.raises(OSError, match=r"^only words$"), replacing(tmp_path / "a.csv"):
        raise OSError("only words")


def test_weights_that_are_all_gone_do_not_cost_the_records(weighed, tiny):
    """Somebody wanted the room."""
    shutil.rmtree(weighed / "weights")
    files = Store(weighed / "cohorts").files()
    with pytest.raises(KroghError, match="holds 48 trials whose weights were not kept; leave out --weights"):
        run_study(tiny.Tiny(), "smoke", weighed.parents[1], weights=True)
    assert Store(weighed / "cohorts").files() == files
    assert run_study(tiny.Tiny(), "smoke", weighed.parents[1]).status == "complete"


@pytest.mark.slow
def test_lost_snapshots_are_trained_again(tiny, tmp_path, capsys):
    class Snapped(tiny.Tiny):
        def trials(self, settings):
            own = [dataclasses.replace(cohort[0], snapshots=(0, 20)) for cohort in super().trials(settings)]
            return [cohort for trial in own for cohort in sweep(trial, seed=range(4), label={"size": 1})]

    folder = run_study(Snapped(), "smoke", tmp_path).folder
    before = table_of(folder)
    victim = min((folder / "weights").glob("*.snapshots.safetensors"))
    ids = safetensors.numpy.load_file(victim)["id"]
    victim.unlink()
    run_study(Snapped(), "smoke", tmp_path)
    assert f"{len(ids)} trials whose weights are not there any more are trained again" in capsys.readouterr().err
    assert_frame_equal(table_of(folder), before)
    assert open_study(folder).weights(int(ids[0]), step=20)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "lost"])
def test_damaged_weights_are_named_and_only_their_trials_are_trained_again(damage, weighed, tiny):
    victim, *others = sorted((weighed / "weights").glob("*.safetensors"))
    content, ids = victim.read_bytes(), safetensors.numpy.load_file(victim)["id"]
    before = table_of(weighed)
    kept = {int(one): open_study(weighed).weights(int(one)) for one in ids}
    if damage == "flipped":
        victim.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    elif damage == "truncated":
        victim.write_bytes(content[: len(content) // 2])
    if damage != "lost":
        with pytest.raises(KroghError, match=f"{victim.name} is damaged.*move it out of the folder and run again"):
            open_study(weighed).weights(int(ids[0]))
    victim.unlink()
    resumed: list[int] = []
    out = weighed.parents[1]
    run_study(tiny.Tiny(), "smoke", out, weights=True, show=lambda progress: resumed.append(progress.resumed))
    assert set(resumed) == {48 - len(ids)} and others
    assert_frame_equal(table_of(weighed), before)
    for one, weights in kept.items():
        again = open_study(weighed).weights(one)
        assert all(np.array_equal(again[name], weights[name]) for name in weights)


def test_weights_that_were_never_kept_are_refused_not_trained_again(tiny, tmp_path, reference):
    shutil.copytree(reference.folder, tmp_path / "tiny" / "parity")
    with pytest.raises(KroghError, match="holds 48 trials whose weights were not kept"):
        run_study(tiny.Tiny(), "smoke", tmp_path, weights=True)


def test_weights_are_not_read_through_a_link(weighed):
    victim = min((weighed / "weights").glob("*.safetensors"))
    identity = int(safetensors.numpy.load_file(victim)["id"][0])
    victim.rename(weighed.parents[2] / victim.name)
    victim.symlink_to(weighed.parents[2] / victim.name)
    with pytest.raises(KroghError, match="leads out of the study's folder by a link"):
        open_study(weighed).weights(identity)


def test_a_study_json_that_is_lost_costs_no_trial(tiny, tmp_path, reference):
    shutil.copytree(reference.folder, tmp_path / "tiny" / "parity")
    path = tmp_path / "tiny" / "parity" / "study.json"
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(KroghError, match=r"study\.json is damaged; remove it and run the study again"):
        run_study(tiny.Tiny(), "smoke", tmp_path)
    path.unlink()
    path.with_name("index.html").write_text("a page that `krogh report` has written")
    with pytest.raises(KroghError, match=r"48 trials of another source: which one, the study.json .*--stale reuse"):
        run_study(tiny.Tiny(), "smoke", tmp_path)
    resumed: list[int] = []
    study = run_study(
        tiny.Tiny(), "smoke", tmp_path, stale="reuse", show=lambda progress: resumed.append(progress.resumed)
    )
    assert not resumed, "nothing was left to train"
    assert_frame_equal(table_of(study.folder), table_of(reference.folder))
    assert [claim.as_json() for claim in study.claims] == [claim.as_json() for claim in reference.claims]


def test_damaged_costs_are_refused_before_anything_is_trained(tiny, tmp_path, reference):
    shutil.copytree(reference.folder, tmp_path / "tiny" / "parity")
    folder = tmp_path / "tiny" / "parity"
    (cost,) = (folder / "costs").iterdir()
    cost.write_bytes(cost.read_bytes()[:20])
    Store(folder / "cohorts").files()[0].unlink()
    left = Store(folder / "cohorts").files()
    with pytest.raises(KroghError, match=r"damaged.* remove it: of what that process cost"):
        run_study(tiny.Tiny(), "smoke", tmp_path)
    assert Store(folder / "cohorts").files() == left


@pytest.mark.parametrize("name", ["study.json", "costs"])
def test_a_digit_that_changed_in_a_sound_file_is_noticed(name, tiny, tmp_path, reference):
    shutil.copytree(reference.folder, tmp_path / "tiny" / "parity")
    folder = tmp_path / "tiny" / "parity"
    before = json.loads((folder / "study.json").read_text())
    path = folder / name if name == "study.json" else min((folder / name).iterdir())
    found = json.loads(path.read_text())
    number = found["engine"] if name == "study.json" else found
    number["trained_steps"] += 4000
    path.write_text(json.dumps(found))
    if name == "costs":
        with pytest.raises(KroghError, match=r"damaged; remove it: of what that process cost"):
            run_study(tiny.Tiny(), "smoke", tmp_path)
        return
    (study,) = find_studies(folder)
    assert study.faults == {"study.json": "is damaged: it is not what the study wrote"}
    with pytest.raises(KroghError, match=r"is written and says what is wrong: .*study\.json is damaged"):
        write_report(folder, tmp_path / "page.html")
    assert "study.json</code> is damaged: it is not what the study wrote" in (tmp_path / "page.html").read_text()
    for use in (lambda: run_study(tiny.Tiny(), "smoke", tmp_path), lambda: judge_study(folder)):
        with pytest.raises(KroghError, match="not what the study wrote; remove it and run the study again: its trials"):
            use()
    path.unlink()
    run_study(tiny.Tiny(), "smoke", tmp_path, stale="reuse")
    after = json.loads((folder / "study.json").read_text())
    assert after["engine"] == before["engine"] and not find_studies(folder)[0].faults


def test_costs_that_are_lost_are_those_that_the_study_knows(tiny, tmp_path, reference):
    folder = tmp_path / "tiny" / "parity"
    shutil.copytree(reference.folder, folder)
    before = json.loads((folder / "study.json").read_text())["engine"]
    for path in (folder / "costs").iterdir():
        path.unlink()
    run_study(tiny.Tiny(), "smoke", tmp_path)
    (folder / "study.json").unlink()  # what is known of costs without it
    run_study(tiny.Tiny(), "smoke", tmp_path, stale="reuse")
    after = json.loads((folder / "study.json").read_text())["engine"]
    assert {name: after[name] for name in ("trained_steps", "useful_steps", "training_seconds")} == {
        name: before[name] for name in ("trained_steps", "useful_steps", "training_seconds")
    }


@pytest.mark.slow
def test_a_measured_table_of_a_study_that_was_killed_is_known_by_its_digest(tiny, tmp_path, reference, monkeypatch):
    """Killed while it concludes: a table that changed since is measured again, one that did not is kept."""

    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    for conclude in ("_conclude", "_save_figure"):
        out = tmp_path / conclude
        folder = out / "tiny" / "parity"
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(study_module, conclude, kill)
            run_study(tiny.Tiny(), "smoke", out)
        path = folder / "measures" / "times.parquet"
        written = path.stat().st_mtime_ns
        again = run_study(tiny.Tiny(), "smoke", out)
        assert path.stat().st_mtime_ns == written and again.claims == reference.claims
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(study_module, conclude, kill)
            again.summary["status"] = "running"
            shutil.copy(folder / "study.json", out / "kept.json")
            path.unlink()
            run_study(tiny.Tiny(), "smoke", out)
        pl.read_parquet(path).with_columns(pl.col("time") + 1.0).write_parquet(path)
        assert run_study(tiny.Tiny(), "smoke", out).claims == reference.claims
        assert_frame_equal(pl.read_parquet(path), pl.read_parquet(reference.folder / "measures" / "times.parquet"))


@pytest.mark.parametrize("name", ["runs[1]", "run*", "run?1", "lr=0.1[x"])
def test_a_path_is_taken_as_it_is(name, tiny, tmp_path, reference):
    """To Polars * ? [ ] stand for other names, which other studies may have."""
    shutil.copytree(reference.folder, tmp_path / "runs1" / "tiny" / "parity")
    study = run_study(tiny.Tiny(), "smoke", tmp_path / name, changes={"seeds": 3, "widths": (8,)})
    opened = open_study(study.folder)
    assert len(opened.table) == len(opened.records.collect()) == 3 == study.claims[0].trials
    assert run_study(tiny.Tiny(), "smoke", tmp_path / name, changes={"seeds": 3, "widths": (8,)}).claims == study.claims


def test_only_one_place_opens_tables():
    """`krogh.files` takes paths as they are; calls that do not are found here."""
    source = Path(open_study.__code__.co_filename).parents[1]
    files = [path for path in source.rglob("*.py") if path != source / "files.py"]
    found = [path.name for path in files if re.search(r"pl\.(read|scan)_parquet\(", path.read_text(encoding="utf-8"))]
    assert len(files) > 300 and not found


@pytest.mark.parametrize("place", ["cohorts/0000-00.parquet", "costs/x.json", ".members/0123456789ab.json"])
def test_what_is_no_file_is_not_waited_for(place, tiny, tmp_path, reference):
    folder = tmp_path / "tiny" / "parity"
    shutil.copytree(reference.folder, folder)
    (folder / place).parent.mkdir(exist_ok=True)
    os.mkfifo(folder / place)
    assert run_study(tiny.Tiny(), "smoke", tmp_path).claims == reference.claims


@pytest.mark.parametrize(
    "name, content",
    [
        ("leader-abc", "0123456789ab"),
        ("leader-000001~", "0123456789ab"),
        ("0123456789ab.json", "3"),
        ("0123456789ab.json", "[" * 200_000),
    ],
    ids=["no number", "a copy", "no object", "a bomb"],
)
def test_foreign_files_among_members_stop_nobody(name, content, tiny, tmp_path, reference, monkeypatch):
    monkeypatch.setattr(members, "SILENCE", 0.5)
    folder = tmp_path / "tiny" / "parity"
    shutil.copytree(reference.folder, folder)
    (folder / ".members").mkdir()
    (folder / ".members" / name).write_text(content)
    assert run_study(tiny.Tiny(), "smoke", tmp_path).claims == reference.claims


def test_a_command_that_nobody_can_have_typed_names_no_plugin(reference, tmp_path):
    assert plugin_of({"command": "krogh run mine/it --plugin 'my file"}) == ""


def test_a_path_that_cannot_be_written_down_is_refused(tiny, tmp_path):
    out = tmp_path / os.fsdecode(b"\xff")
    with pytest.raises(KroghError, match=r"is no text in UTF-8; choose another --out"):
        run_study(tiny.Tiny(), "smoke", out)
    assert not out.exists()


# --- another process that may be dead --------------------------------------------------------------------------


def leave_behind(folder: Path, content: str) -> None:
    """What a process leaves that died on another machine, or before this one was started anew."""
    members = folder / ".members"
    members.mkdir()
    (members / "leader-000001").write_text(content)
    if content.isalnum():
        (members / f"{content}.json").write_text(json.dumps({"machine": "another", "plan": "other", "beat": 3}))


@pytest.mark.parametrize(
    "content",
    ["0123456789ab", pytest.param("", marks=pytest.mark.slow), pytest.param("../../*", marks=pytest.mark.slow)],
    ids=["named", "half written", "foreign"],
)
def test_what_a_dead_process_left_holds_nothing_up_for_ever(content, tiny, tmp_path, reference, monkeypatch):
    monkeypatch.setattr(members, "SILENCE", 1.0)
    monkeypatch.setitem(EXPERIMENTS._things, "tiny/parity", tiny.Tiny)
    folder = tmp_path / "tiny" / "parity"
    shutil.copytree(reference.folder, folder)
    leave_behind(folder, content)
    assert judge_study(folder).status == "complete"
    leave_behind(folder, content)
    assert run_study(tiny.Tiny(), "smoke", tmp_path, stale="retrain").status == "complete"
    assert not (folder / ".members").exists()


def test_a_process_that_lives_is_recognised_soon(tiny, tmp_path, reference, monkeypatch):
    folder = tmp_path / "tiny" / "parity"
    shutil.copytree(reference.folder, folder)
    monkeypatch.setitem(EXPERIMENTS._things, "tiny/parity", tiny.Tiny)
    with members.joined(folder, "another plan") as other:
        assert other.leads()
        begun = time.monotonic()
        with pytest.raises(KroghError, match="is being written by another process"):
            judge_study(folder)
        assert time.monotonic() - begun < members.SILENCE / 2


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


@pytest.mark.parametrize(
    ("signals", "longest"),
    [pytest.param([signal.SIGINT], 15, marks=pytest.mark.slow), ([signal.SIGTERM, signal.SIGINT], 4)],
)
def test_compiled_code_that_takes_long_is_not_waited_for(tmp_path, signals, longest):
    """After 4.5 seconds it ends by itself; at once when asked twice. (The limits leave room for a busy machine.)"""
    file = tmp_path / "stuck_lab.py"
    file.write_text(STUCK)
    running = krogh("run", "mine/stuck", "--plugin", file, "--scale", "smoke", "--out", tmp_path / "runs")
    assert running.stdout is not None
    while "asleep" not in (line := running.stdout.readline()):
        assert line, running.communicate()
    time.sleep(0.5)  # it says so before it is
    begun = time.monotonic()
    for number in signals:
        running.send_signal(number)
        time.sleep(0.8)  # what comes together asks once
    out, err = running.communicate(timeout=60)
    assert time.monotonic() - begun < longest
    assert running.returncode == 130 and "Traceback" not in out + err and "krogh: interrupted; ended at once" in err
    assert len(Store(tmp_path / "runs" / "mine" / "stuck" / "cohorts").ids()) == 48


@pytest.mark.slow
def test_an_interruption_while_it_measures_leaves_a_study_that_says_what_it_cost(tmp_path):
    file = tmp_path / "stuck_lab.py"
    file.write_text(
        STUCK.replace('hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)', "import time; time.sleep(60)")
    )
    running = krogh("run", "mine/stuck", "--plugin", file, "--scale", "smoke", "--out", tmp_path / "runs")
    while "asleep" not in (line := running.stdout.readline()):
        assert line, running.communicate()
    running.send_signal(signal.SIGTERM)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130 and "can be resumed by the same command" in out and err == ""
    summary = json.loads((tmp_path / "runs" / "mine" / "stuck" / "study.json").read_text())
    assert summary["status"] == "interrupted" and summary["seconds"] > 0
    assert summary["engine"]["trials"] == 48 and summary["engine"]["trained_steps"] > 0


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
