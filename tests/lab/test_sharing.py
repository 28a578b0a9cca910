"""Several processes on one study: they share the work, and whoever is left goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from krogh.engine import sweep
from krogh.engine.lane import Waiting
from krogh.errors import KroghError
from krogh.lab import members, run_study, sharing, training
from krogh.lab.costs import total_costs
from krogh.lab.frontier import Rule
from krogh.lab.members import Member, joined
from krogh.lab.search import Problem, Search
from krogh.lab.sharing import Crew
from krogh.lab.store import Store
from krogh.lab.study import plan_study
from krogh.report.read import find_studies

PLUGIN = Path(__file__).parents[1] / "plugin"
CHANGES = {"seeds": 200, "budget": 400, "rate": 1e-6}  # too slow to learn: all trials run to their ends
LONGER = CHANGES | {"seeds": 1000}


def table_of(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "trials.parquet")


@pytest.fixture(scope="module")
def alone(tiny, tmp_path_factory):
    """The study of one undisturbed process."""
    return run_study(tiny.Tiny(), "smoke", tmp_path_factory.mktemp("alone"), changes=CHANGES)


@pytest.fixture(scope="module")
def longer(tiny, tmp_path_factory):
    return run_study(tiny.Tiny(), "smoke", tmp_path_factory.mktemp("longer"), changes=LONGER)


# --- members -------------------------------------------------------------------------------------------------


def test_one_of_many_leads_and_the_next_when_it_has_gone(tmp_path):
    everybody = [Member(tmp_path) for _ in range(12)]
    for member in everybody:
        member.join()
    answers: dict[str, bool] = {}
    threads = [threading.Thread(target=lambda one=one: answers.update({one.name: one.leads()})) for one in everybody]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (leader,) = [member for member in everybody if answers[member.name]]
    assert leader.leads() and [member.leads() for member in everybody].count(True) == 1
    assert len(leader.others()) == 11
    leader.leave()
    rest = [member for member in everybody if member is not leader]
    assert rest[0].leads() and not rest[1].leads()
    for member in rest:
        member.leave()
    assert not (tmp_path / ".members").exists()


def test_who_is_silent_on_another_machine_is_dead_by_the_observers_own_clock(tmp_path, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(members.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(members, "_machine", lambda: "far away")
    far = Member(tmp_path)
    far.join()
    assert far.leads()
    monkeypatch.setattr(members, "_machine", lambda: "here")
    near = Member(tmp_path)
    near.join()
    assert not near.leads()
    clock[0] += members.SILENCE - 1
    far.beat()
    assert not near.leads() and list(near.others()) == [far.name]
    clock[0] += members.SILENCE - 1
    assert not near.leads(), "it has not been silent for so long since its last sign"
    clock[0] += 2
    assert near.leads() and not near.others()
    far.beat()  # it wakes up, and learns that another one leads
    assert not far.leads()
    far.leave(), near.leave()


def test_a_wall_clock_that_jumps_changes_nothing(tmp_path, monkeypatch, tiny, alone):
    jumps = iter([0.0, 1e9, -1e9, 5.0, 3e9] * 10_000)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + next(jumps))
    study = run_study(tiny.Tiny(), "smoke", tmp_path, changes=CHANGES)
    assert 0 < study.summary["seconds"] < 600
    assert_frame_equal(table_of(study.folder), table_of(alone.folder))


def test_who_is_stopped_holds_nobody_up(tmp_path, monkeypatch):
    """Its lock is still there, and its number stands still."""
    clock = [1000.0]
    monkeypatch.setattr(members.time, "monotonic", lambda: clock[0])
    stopped, other = Member(tmp_path), Member(tmp_path)
    stopped.join(), other.join()
    assert stopped.leads() and not other.leads()
    clock[0] += members.SILENCE + 1
    assert other.leads() and not other.others()
    stopped.leave(), other.leave()


def test_a_moment_in_which_nothing_can_be_read_is_no_death(tmp_path, monkeypatch):
    leader, other = Member(tmp_path), Member(tmp_path)
    leader.join(), other.join()
    assert leader.leads() and not other.leads() and list(other.others()) == [leader.name]
    read = Path.read_text

    def away(path, **options):
        if path.name == f"{leader.name}.json":
            raise OSError(116, "Stale file handle")
        return read(path, **options)

    monkeypatch.setattr(Path, "read_text", away)
    assert not other.leads() and list(other.others()) == [leader.name]
    leader.leave(), other.leave()


# --- parcels -------------------------------------------------------------------------------------------------


def test_what_is_given_away_comes_back_when_its_owner_dies_and_is_counted_once(tmp_path, tiny):
    cohorts = tiny.Tiny().trials(tiny.Tiny().settings("smoke"))
    ids = [cohort.ids() for cohort in cohorts]
    store, took = Store(tmp_path / "cohorts"), []
    leader, helper = Member(tmp_path), Member(tmp_path)
    leader.join(), helper.join()
    assert leader.leads()
    crew = Crew(leader, store, ids)
    waiting = crew.share(crew.queues([np.arange(24), np.arange(24)]))
    attend = lambda: crew.attend(lambda place, positions, rows: took.append((place, sorted(positions.tolist()))))  # noqa: E731

    attend()
    assert all(one.closed for one in waiting), "nobody has asked"
    helper.say(wants=0)
    attend()
    parcel = leader.given(helper.name, 0)
    assert parcel == {1: list(range(12, 24))}, "a quarter, from the end"
    assert waiting[0].closed and not waiting[1].closed and waiting[1].left() == 12

    store.add_part("aa", records_of(ids[1], [12, 13, 20]))
    attend()
    attend()
    assert took == [(1, [12, 13, 20])], "once, although it was looked at twice"
    helper.leave()
    attend()
    assert sorted(waiting[1].waiting().tolist()) == sorted({*range(24)} - {12, 13, 20})
    assert all(one.closed for one in waiting)
    leader.leave()


def test_a_new_leader_leaves_to_the_others_what_they_have(tmp_path, tiny):
    cohorts = tiny.Tiny().trials(tiny.Tiny().settings("smoke"))
    ids = [cohort.ids() for cohort in cohorts]
    old, new, helper = Member(tmp_path), Member(tmp_path), Member(tmp_path)
    for member in (old, new, helper):
        member.join()
    assert old.leads()
    helper.say(wants=0)
    first = Crew(old, Store(tmp_path / "cohorts"), ids)
    first.share(first.queues([np.arange(24), np.arange(24)]))
    first.attend(lambda *_: None)
    given = old.given(helper.name, 0)
    old.leave()
    assert new.leads()
    second = Crew(new, Store(tmp_path / "cohorts"), ids)
    queues = second.share(second.queues([np.arange(24), np.arange(24)]))
    assert [sorted({*range(24)} - {*one.waiting().tolist()}) for one in queues] == [[], given[1]]
    second.attend(lambda *_: None)
    assert new.given(helper.name, 1) is None, "it is still busy"
    for member in (new, helper):
        member.leave()


def records_of(ids: np.ndarray, positions: list[int]) -> pl.DataFrame:
    outcome = pl.Series(["failed"] * len(positions), dtype=pl.Enum(["converged", "failed", "diverged"]))
    return pl.DataFrame({"order": positions, "id": ids[positions], "outcome": outcome, "steps": [5] * len(positions)})


def test_a_queue_gives_its_last_and_takes_them_back():
    waiting = Waiting(np.arange(10))
    assert waiting.take(3).tolist() == [0, 1, 2] and waiting.closed
    assert waiting.give_away(4) == [6, 7, 8, 9] and not waiting.closed
    waiting.add([8])
    assert waiting.give_away(9) == [3, 4, 5, 8] and waiting.left() == 0
    closed = Waiting(np.arange(2))
    closed.take(2)
    assert closed.give_away(5) == [] and closed.closed, "nothing to give: nothing to wait for"


# --- whole studies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machines", [1, 2])
def test_two_share_a_study(tmp_path, tiny, alone, monkeypatch, machines):
    """Each trains a part; the table, the verdicts and the number of useful steps are those of one.

    On two machines no lock is believed: all that they know of each other stands in files.
    """
    if machines == 2:
        monkeypatch.setattr(members, "_machine", lambda: str(threading.get_ident()))
    monkeypatch.setattr(sharing, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(sharing, "LOOK_SECONDS", 0.02)
    slow = lambda progress: time.sleep(0.03)  # noqa: E731 (so that the second comes in time)
    studies = {}

    def take_part(name):
        studies[name] = run_study(tiny.Tiny(), "smoke", tmp_path, changes=CHANGES, show=slow)

    threads = [threading.Thread(target=take_part, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    folder = studies["one"].folder
    assert {study.status for study in studies.values()} == {"complete"}
    assert_frame_equal(table_of(folder), table_of(alone.folder))
    assert studies["one"].claims == studies["two"].claims == alone.claims
    costs = [json.loads(path.read_text())["trained_steps"] for path in (folder / "costs").iterdir()]
    assert len(costs) == 2 and min(costs) > 0, "both have trained"
    assert sum(costs) == alone.summary["engine"]["trained_steps"], "and nothing twice"
    assert not find_studies(folder)[0].faults
    assert run_study(tiny.Tiny(), "smoke", tmp_path, changes=CHANGES).status == "complete"
    assert not (folder / ".members").exists()


def test_two_share_a_search(tmp_path, tiny, monkeypatch):
    """Little waits in a search, so what is in flight is shared; each trial is trained once and reported once."""
    monkeypatch.setattr(sharing, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(sharing, "LOOK_SECONDS", 0.01)
    told: dict[int, bool] = {}

    class Told(Search):
        def report(self, results):
            told.update(results)
            return super().report(results)

    class Adaptive(tiny.Tiny):
        def search(self, settings, cohorts):
            pools, first = {}, 0
            for size, cohort in enumerate(cohorts, 1):
                pools[size], first = range(first, first + len(cohort)), first + len(cohort)
            return Told([Problem("one", pools)], width=8, rule=Rule(least=150, budget=150))

    def take_part():
        show = lambda progress: time.sleep(0.02)  # noqa: E731 (so that the second comes in time)
        studies.append(run_study(Adaptive(), "smoke", tmp_path, changes=CHANGES, show=show))

    studies = []
    threads = [threading.Thread(target=take_part) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    folder = studies[0].folder
    assert [study.status for study in studies] == ["complete"] * 2 and studies[0].claims == studies[1].claims
    table = table_of(folder)
    assert len(told) == len(table) == table["id"].n_unique() == 150
    assert sum(told.values()) == (table["outcome"] == "converged").sum()
    costs = [json.loads(path.read_text())["trained_steps"] for path in (folder / "costs").iterdir()]
    assert len(costs) == 2 and min(costs) > 0.15 * sum(costs), "both have trained"
    assert sum(costs) == studies[0].summary["engine"]["useful_steps"], "and nothing twice"


def test_who_trains_or_keeps_something_else_is_sent_away(tmp_path, tiny, alone):
    planned = plan_study(tiny.Tiny(), "smoke", tmp_path, changes=CHANGES)
    planned.folder.mkdir(parents=True)
    with joined(planned.folder, planned._plan()) as leader:
        assert leader.leads()
        with pytest.raises(KroghError, match="another process, which trains or keeps something else"):
            run_study(tiny.Tiny(), "smoke", tmp_path, changes=CHANGES, weights=True)
        helper = Member(planned.folder, "another plan")
        helper.join()
        helper.say(wants=0)
        crew = Crew(leader, Store(planned.folder / "cohorts"), planned.ids)
        crew.share(crew.queues([np.arange(len(ids)) for ids in planned.ids]))
        crew.attend(lambda *_: None)
        assert leader.given(helper.name, 0) is None and not crew.gave
        helper.leave()


def test_a_second_process_stands_by_where_nothing_is_trained(tmp_path, tiny):
    """It waits for the one that measures, and has its claims."""
    held, release = threading.Event(), threading.Event()

    class Idle(tiny.Tiny):
        def trials(self, settings):
            return []

        def measure(self, results):
            held.set()
            assert release.wait(30)
            return {"times": pl.DataFrame({"time": [1.0, 2.0]})}

    studies = []
    run = lambda: studies.append(run_study(Idle(), "smoke", tmp_path))  # noqa: E731
    first, second = threading.Thread(target=run), threading.Thread(target=run)
    first.start()
    assert held.wait(30)
    second.start()
    time.sleep(0.5)
    release.set()
    first.join(), second.join()
    assert [study.status for study in studies] == ["complete"] * 2 and studies[0].claims == studies[1].claims


SHARING = """
import sys, time
import tiny_lab
from krogh.lab import members, sharing, study, training
sharing.BEAT_SECONDS, members.BEAT_SECONDS, training.FLUSH_SECONDS = 0.1, 0.1, 0.1
changes = {"seeds": 1000, "budget": 400, "rate": 1e-6}

def show(progress):
    print(progress.done, flush=True)
    time.sleep(0.1)

print(study.run_study(tiny_lab.Tiny(), "smoke", sys.argv[1], changes=changes, show=show).status, flush=True)
"""


def process(out: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PLUGIN), *sys.path])}
    return subprocess.Popen(
        [sys.executable, "-c", SHARING, str(out)], env=environment, stdout=subprocess.PIPE, text=True
    )


def until_trained(running: subprocess.Popen[str]) -> None:
    """Wait until a process has shown some progress of its own."""
    assert running.stdout is not None
    for _ in range(4):
        assert running.stdout.readline(), "it ended"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("who", "how"), [("first", signal.SIGKILL), ("second", signal.SIGKILL), ("first", signal.SIGINT)]
)
def test_one_of_two_is_killed_and_the_other_goes_on(tmp_path, tiny, longer, who, how):
    first = process(tmp_path)
    until_trained(first)
    second = process(tmp_path)
    until_trained(second)
    gone, left = (first, second) if who == "first" else (second, first)
    gone.send_signal(how)
    output, _ = left.communicate(timeout=120)
    assert output.splitlines()[-1] == "complete"
    gone.communicate(timeout=30)
    folder = tmp_path / "tiny" / "parity"
    assert_frame_equal(table_of(folder), table_of(longer.folder))
    summary = json.loads((folder / "study.json").read_text())
    costs = total_costs(folder)
    assert summary["engine"]["useful_steps"] == longer.summary["engine"]["useful_steps"]
    assert summary["engine"]["trained_steps"] == costs.trained_steps >= summary["engine"]["useful_steps"]
    assert len(list((folder / "costs").iterdir())) == 2


@pytest.mark.slow
def test_after_kill_9_the_totals_are_those_of_the_whole_study(tmp_path, tiny, longer):
    first = process(tmp_path)
    until_trained(first)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    folder = tmp_path / "tiny" / "parity"
    kept = len(Store(folder / "cohorts").ids())
    assert 0 < kept < 2000
    spent = total_costs(folder).trained_steps
    assert spent >= 400 * kept, "what led to the records that are there is in the costs"
    begun = time.monotonic()
    study = run_study(tiny.Tiny(), "smoke", tmp_path, changes=LONGER)
    assert time.monotonic() - begun < members.SILENCE, "a dead process on this machine is not waited for"
    assert_frame_equal(table_of(folder), table_of(longer.folder))
    engine = study.summary["engine"]
    assert engine["useful_steps"] == longer.summary["engine"]["useful_steps"]
    assert engine["trained_steps"] == spent + 400 * (2000 - kept)
    assert study.summary["seconds"] > total_costs(folder).training_seconds > 0


def test_trials_that_inherit_are_left_to_the_leader(tiny):
    from krogh.engine import Inherited, Trial

    (cohort,) = tiny.Tiny().trials(tiny.Tiny().settings("smoke"))[:1]
    child = Trial(cohort.template.task, cohort.template.model, cohort.template.training, start=Inherited(cohort[0]))
    assert sharing.can_be_shared([cohort]) and not sharing.can_be_shared([cohort, *sweep(child, seed=range(2))])
    assert training.can_be_shared is sharing.can_be_shared
