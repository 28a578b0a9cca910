"""`krogh.run` into a folder and with progress: kept, resumed, extended, interrupted, watched."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from polars.testing import assert_frame_equal
from rich.console import Console

import krogh
from krogh.engine import run_cohorts
from krogh.lab import display as displays
from krogh.lab.display import Display, Later, NotebookLine, showing
from krogh.lab.store import Store
from krogh.lab.training import Progress
from krogh.values import replaced


@pytest.fixture(scope="module")
def base() -> krogh.Trial:
    training = krogh.Training(krogh.Sgd(0.1), krogh.Online(8), krogh.Stopping(budget=400, validation=40))
    return krogh.Trial(krogh.Parity(n=6, k=2), krogh.Mlp(8), training)


@pytest.fixture(scope="module")
def trials(base):
    narrow = replaced(base, "model.width", 4)
    return [narrow, krogh.sweep(base, seed=range(6)), [replaced(narrow, "seed", 1), base]]


@pytest.fixture(scope="module")
def in_memory(trials):
    return krogh.run(trials, progress=False)


@pytest.fixture(scope="module")
def kept(trials, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "mine"
    return folder, krogh.run(trials, out=folder, weights=True)


def test_a_folder_gives_the_table_that_memory_gives_and_is_a_study(in_memory, kept):
    folder, table = kept
    assert_frame_equal(table, in_memory)
    study = krogh.open_study(folder)
    assert study.summary["name"] == "mine" and study.summary["engine"]["trials"] == 8
    assert sorted(study.table["id"].to_list()) == sorted(table["id"].to_list())
    assert set(study.weights(table["id"][0])) == {"W", "b", "u"} and study.claims.is_empty()


def test_the_same_call_trains_nothing_and_more_trials_train_only_themselves(base, trials, in_memory, kept, tmp_path):
    folder, _ = kept
    before = {path.name for path in (folder / "cohorts").iterdir()}
    seen: list[int] = []
    assert_frame_equal(krogh.run(trials, out=folder, progress=lambda state: seen.append(state.done)), in_memory)
    assert seen == [] and {path.name for path in (folder / "cohorts").iterdir()} == before
    own = tmp_path / "more"
    krogh.run(krogh.sweep(base, seed=range(2)), out=own)
    krogh.run(krogh.sweep(base, seed=range(5)), out=own, progress=lambda state: seen.append(state.done))
    assert seen[0] == 2 and seen[-1] == 5 and krogh.open_study(own).table["seed"].to_list() == list(range(5))


def test_ctrl_c_propagates_when_what_has_finished_is_written(base, tmp_path):
    cohorts = krogh.sweep(base, seed=range(40), model__width=[4, 6])

    def interrupt(state: Progress) -> None:
        if state.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="can be resumed by the same call"):
        krogh.run(cohorts, out=tmp_path / "cut", progress=interrupt)
    done = len(Store(tmp_path / "cut" / "cohorts").ids())
    assert done and krogh.open_study(tmp_path / "cut").summary["status"] == "interrupted"
    assert_frame_equal(krogh.run(cohorts, out=tmp_path / "cut"), krogh.run(cohorts))
    with pytest.raises(KeyboardInterrupt):
        krogh.run(cohorts, progress=interrupt)


def test_weights_in_memory_are_those_of_the_folder_and_start_others(base, kept, trials):
    folder, table = kept
    memory = krogh.Weights()
    krogh.run(trials, out=folder, weights=memory)
    identity = table["id"][1]
    assert len(memory) == table["id"].n_unique()
    for name, array in krogh.open_study(folder).weights(identity).items():
        assert np.array_equal(memory(identity, None)[name], array)
    child = krogh.Trial(base.task, base.model, base.training, start=krogh.Inherited(base))
    in_folder = krogh.run(child, out=folder.parent / "child", weights=memory)
    assert_frame_equal(in_folder, krogh.run(child, weights=memory))


def test_snapshots_are_kept_as_far_as_the_trials_came(base, tmp_path):
    memory = krogh.Weights()
    trial = replaced(krogh.Trial(base.task, base.model, base.training, snapshots=(0, 20, 390)), "seed", 3)
    steps = krogh.run(trial, out=tmp_path / "looks", weights=memory)["steps"][0]
    assert len(memory) == 1 + sum(step <= steps for step in (0, 20, 390)) >= 3


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"weights": True}, "add out=FOLDER"),
        ({"out": "mine", "usage": krogh.engine.Usage()}, "the cost is in"),
        ({"out": "memory://bucket/mine"}, "a folder of this machine"),
        ({"out": "mine", "stale": "perhaps"}, "unknown choice of stale 'perhaps'"),
        ({"stale": "retrain"}, "stale='retrain' is for trials that a folder holds: add out=FOLDER"),
    ],
)
def test_what_does_not_go_together_is_refused(base, tmp_path, monkeypatch, options, says):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(krogh.KroghError, match=says):
        krogh.run(base, **options)
    assert not [*tmp_path.iterdir()]


def test_a_folder_that_is_no_place_for_these_trials_is_refused(base, kept, tmp_path):
    folder, _ = kept
    with pytest.raises(krogh.KroghError, match=r"holds 7 trials that were not given this time; choose another out="):
        krogh.run(base, out=folder)
    with pytest.raises(krogh.KroghError, match="no trials to train"):
        krogh.run([], out=tmp_path / "nothing")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(krogh.KroghError, match="holds no study; choose another out="):
        krogh.run(base, out=tmp_path / "full")
    krogh.run(base, out=tmp_path / "light")
    with pytest.raises(krogh.KroghError, match="1 trials whose weights were not kept; leave out weights="):
        krogh.run(base, out=tmp_path / "light", weights=True)
    with pytest.raises(krogh.KroghError, match=r"mine is no experiment: its trials were given to krogh\.run"):
        krogh.judge_study(folder)


# --- progress -----------------------------------------------------------------------------------------------------


def test_scripts_in_pipes_are_silent_and_true_is_a_bar(base, capfd):
    krogh.run(base)
    assert capfd.readouterr() == ("", "")
    states: list[Progress] = []
    krogh.run(krogh.sweep(base, seed=range(3)), progress=states.append)
    assert states[-1].done == states[-1].total == 3 and states[-1].converged <= 3
    with showing(True, "trials") as show:
        assert isinstance(show.__self__, Display)
    with showing(None, "trials") as show:
        show(states[-1])
    assert capfd.readouterr().out == ""


def test_nobody_asked_and_it_takes_long(monkeypatch):
    monkeypatch.setattr(displays, "Console", lambda stderr: Console(stderr=stderr, force_terminal=True))
    with showing(None, "trials") as show:
        assert isinstance(show.__self__, Later)
    told: list[str] = []
    display = SimpleNamespace(
        __enter__=lambda: told.append("begins"),
        __exit__=lambda *_: told.append("ends"),
        show=lambda state: told.append(f"{state.done} done"),
    )
    with Later(display, 60.0) as later:
        later.show(Progress(4))
    assert told == []
    with Later(display, 0.01) as later:
        later.show(Progress(4, done=1))
        deadline = time.monotonic() + 20
        while len(told) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        later.show(Progress(4, done=2))
    assert told == ["begins", "1 done", "2 done", "ends"]


def test_a_notebook_has_one_line_that_changes(monkeypatch):
    written: list[str] = []

    def display(content: dict[str, str], **_: object) -> SimpleNamespace:
        written.append(content["text/plain"])
        return SimpleNamespace(update=lambda content, raw: written.append(content["text/plain"]))

    class ZMQInteractiveShell:
        pass

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    with showing(True, "trials") as show:
        assert isinstance(show.__self__, NotebookLine)
        show(Progress(8, done=4, converged=3))
    assert "planning" in written[0] and "4/8" in written[-1] and "3 converged" in written[-1]


def test_another_executor_trains(tmp_path, trials, in_memory):
    """With and without a folder: what is handed to it is all that is trained."""
    asked = []

    def executor(cohorts, positions, **options):
        asked.append(len(cohorts))
        return run_cohorts(cohorts, positions, **options)

    assert_frame_equal(krogh.run(trials, executor=executor), in_memory)
    assert_frame_equal(krogh.run(trials, executor=executor, out=tmp_path / "kept"), in_memory)
    assert len(asked) == 2
