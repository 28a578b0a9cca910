"""Adaptive studies: only what a search asks for is trained, each trial once, also across interruptions."""

from __future__ import annotations

import math
import threading
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import krogh
from krogh.engine import Trial, sweep
from krogh.engine.lane import Lane
from krogh.lab import run_study, training
from krogh.lab.frontier import Rule
from krogh.lab.search import Dispatcher, Problem, Search
from krogh.lab.store import Store
from krogh.models import Mlp
from krogh.tasks import Parity
from krogh.training import Online, Sgd, Stopping, Training

BUDGETS = (20, 40, 60, 80, 120, 160, 200, 240)
SEEDS, WIDTH = 20, 6


@pytest.fixture(scope="module")
def adaptive(tiny):
    """How many steps does a network need? The sizes of the search are budgets: t_c ≤ budget is success."""

    class Adaptive(tiny.Tiny):
        def trials(self, settings):
            cohorts = []
            for width in settings.widths:
                training = Training(Sgd(settings.rate), Online(8), Stopping(validation=32))
                trial = Trial(Parity(settings.n, settings.k), Mlp(width), training)
                cohorts += sweep(trial, training__stopping__budget=BUDGETS, seed=range(settings.seeds))
            return cohorts

        def search(self, settings, cohorts):
            problems, first = [], 0
            for width in settings.widths:
                pools = {}
                for budget in BUDGETS:
                    pools[budget] = range(first, first + settings.seeds)
                    first += settings.seeds
                problems.append(Problem(width, pools))
            self.made = Spied(problems, width=WIDTH, p=0.5, rule=Rule(ratio=1.6, least=10, budget=48))
            return self.made

    return Adaptive


class Spied(Search):
    """A search that remembers what it asked for, what it was told, and how many were in flight."""

    def __init__(self, *arguments, **options):
        self.asked, self.told, self.flying = [], {}, []
        super().__init__(*arguments, **options)

    def start(self, known=None):
        self.known = dict(known or {})
        return self._noted(super().start(known))

    def report(self, results):
        self.told |= results
        return self._noted(super().report(results))

    def _noted(self, positions):
        self.asked += positions
        self.flying.append(len(self.in_flight))
        return positions


CHANGES = {"widths": (8, 12), "seeds": SEEDS}


def run(adaptive, folder, **options):
    experiment = adaptive()
    study = run_study(experiment, "smoke", folder, changes=CHANGES, **options)
    return experiment.made, study


def ids_of(adaptive) -> np.ndarray:
    return np.concatenate([cohort.ids() for cohort in adaptive().trials(adaptive().settings("smoke", CHANGES))])


@pytest.fixture(scope="module")
def whole(adaptive, tmp_path_factory):
    """A study in one go, with everything its display was shown."""
    shown = []
    search, study = run(adaptive, tmp_path_factory.mktemp("whole"), show=lambda p: shown.append((p.done, p.total)))
    return search, study, shown


@pytest.fixture(scope="module")
def everything(adaptive):
    """Every trial of the grid, trained without any search."""
    return krogh.run(adaptive().trials(adaptive().settings("smoke", CHANGES)))


def test_only_what_the_search_asks_for_is_trained(adaptive, whole):
    search, study, _ = whole
    ids = ids_of(adaptive)
    assert study.status == "complete" and search.over()
    assert len(search.asked) == len(set(search.asked)) == len(search.told) == search.trials
    assert len(search.asked) < 0.5 * len(ids), "fewer than half of the grid"
    assert sorted(Store(study.folder / "cohorts").ids()) == sorted(ids[search.asked])
    assert study.summary["engine"]["trials"] == len(search.asked)


def test_the_search_was_told_what_the_records_say(adaptive, whole, everything):
    search, study, _ = whole
    table = pl.read_parquet(study.folder / "trials.parquet")
    by_id = dict(zip(table["id"], table["outcome"] == "converged", strict=True))
    ids = ids_of(adaptive)
    assert search.told == {position: by_id[ids[position]] for position in search.asked}
    assert 0 < sum(search.told.values()) < len(search.told)
    assert_frame_equal(table, everything.join(table.select("id"), on="id", how="semi"), check_column_order=False)


def test_the_device_is_kept_busy(whole):
    """As many in flight as there are slots, but for moments, until the search has nothing more to ask.

    Lanes report in whatever order they end, and a problem may have to wait for an answer before it asks again.
    """
    search, _, shown = whole
    assert max(search.flying) == WIDTH and search.flying[-1] == 0
    full = [place for place, flying in enumerate(search.flying) if flying == WIDTH]
    assert len(full) >= 0.9 * (full[-1] + 1) and len(full) > len(search.flying) / 2
    tail = search.flying[full[-1] + 1 :]
    assert tail == sorted(tail, reverse=True)
    done = [number for number, _ in shown]
    assert done == sorted(done) and all(number <= total for number, total in shown)
    assert shown[-1] == (search.trials, search.trials), "at the end all is done"


def test_everything_in_flight_is_in_a_lane_or_waits_for_one(adaptive, tmp_path, monkeypatch):
    """No trial that was asked for is forgotten: both lanes work, and no position is taken twice."""
    taken, lanes, lock = [], set(), threading.Lock()
    original = Lane.refill

    def refill(self, waiting):
        before = set(self.in_flight.tolist())
        original(self, waiting)
        new = [(self.cohort.template.model.width, place) for place in set(self.in_flight.tolist()) - before]
        with lock:
            taken.extend(new)
            lanes.add(threading.get_ident())

    monkeypatch.setattr(Lane, "refill", refill)
    search, _ = run(adaptive, tmp_path)
    size = len(BUDGETS) * SEEDS
    expected = [(CHANGES["widths"][position // size], position % size) for position in search.asked]
    assert sorted(taken) == sorted(expected)


def test_running_again_trains_nothing(adaptive, whole):
    search, study, _ = whole
    shown = []
    again, second = run(adaptive, study.folder.parents[1], show=lambda p: shown.append((p.done, p.total)))
    assert again.asked == [] and again.known == search.told
    assert second.summary["engine"]["trained_steps"] == study.summary["engine"]["trained_steps"]
    assert {done - total for done, total in shown} <= {0}
    for name, frontier in again.frontiers.items():
        assert frontier.counts() == search.frontiers[name].counts()


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_search_goes_on_and_trains_nothing_twice(adaptive, everything, tmp_path, stop):
    def interrupt(progress):
        if progress.done >= 15:
            raise stop

    ids = ids_of(adaptive)
    if stop is KeyboardInterrupt:
        first, study = run(adaptive, tmp_path, show=interrupt)
        assert study.status == "interrupted" and first.in_flight
    else:
        with pytest.raises(stop):
            run(adaptive, tmp_path, show=interrupt)
    folder = tmp_path / "tiny" / "parity"
    kept = Store(folder / "cohorts").ids()
    assert 15 <= len(kept) < 40
    shown = []
    second, study = run(adaptive, tmp_path, show=lambda p: shown.append((p.done, p.total)))
    assert study.status == "complete" and second.over()
    assert sorted(ids[list(second.known)]) == sorted(kept)
    assert not np.isin(ids[second.asked], kept).any(), "what is there is not trained again"
    assert shown[0][0] == len(kept) and all(done <= total for done, total in shown)
    table = pl.read_parquet(folder / "trials.parquet")
    assert sorted(table["id"]) == sorted([*kept, *ids[second.asked]])
    assert_frame_equal(table, everything.join(table.select("id"), on="id", how="semi"), check_column_order=False)
    for name, frontier in second.frontiers.items():
        rows = table.filter(pl.col("model.width") == name)
        assert frontier.trials == len(rows)


def test_records_do_not_wait_for_the_next_of_their_own_cohort(tiny, tmp_path, monkeypatch):
    """The first cohort ends no trial for half a minute: what it has is written when the second reports."""
    clock, engine = [0.0], training.run_cohorts
    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def one_after_the_other(cohorts, positions, **options):
        for place, (cohort, own) in enumerate(zip(cohorts, positions, strict=True)):
            for _, part in engine([cohort], [own], **options):
                if part is not None:  # neither cohort is over yet
                    yield place, part
            clock[0] += 30.0
        yield from ((place, None) for place in range(len(cohorts)))

    monkeypatch.setattr(training, "run_cohorts", one_after_the_other)
    store, there = Store(tmp_path / "tiny" / "parity" / "cohorts"), {}

    def look(progress):
        there[progress.done] = len(store.ids())

    run_study(tiny.Tiny(), "smoke", tmp_path, changes={"widths": (8, 12), "seeds": 3}, show=look)
    assert there[3] == 0, "in memory at first"
    assert there[min(done for done in there if done > 3)] >= 3, "written at the next record of any cohort"


# --- between positions and cohorts ---------------------------------------------------------------------------


def test_positions_find_their_cohorts_and_nothing_waits_in_the_end(tiny):
    """Cohorts of unequal length; a made-up rule decides. Each is handed out in its own cohort, once."""
    training = Training(stopping=Stopping(budget=10))
    sizes = {4: 7, 5: 30, 6: 3}
    cohorts = [sweep(Trial(Parity(4, 2), Mlp(width), training), seed=range(sizes[width]))[0] for width in sizes]
    search = Search([Problem("one", {1: range(0, 20), 2: range(20, 40)})], width=4, rule=Rule(least=4, budget=12))
    dispatcher = Dispatcher(search, cohorts, {})
    assert dispatcher.most == 12
    seen, firsts = set(), [0, 7, 37]
    while any(waiting.left() for waiting in dispatcher.waiting):
        assert not any(waiting.closed for waiting in dispatcher.waiting)
        for place, waiting in enumerate(dispatcher.waiting):
            taken = waiting.take(100)
            assert (taken < len(cohorts[place])).all()
            positions = firsts[place] + taken
            assert not seen & set(positions.tolist())
            seen |= set(positions.tolist())
            if len(taken):
                dispatcher.report(place, taken, positions % 3 > 0)
    assert all(waiting.closed for waiting in dispatcher.waiting)
    assert search.over() and 4 <= len(seen) == search.trials <= 12


def test_others_get_an_equal_share_of_what_is_in_flight(tiny):
    """Whoever trains what; nothing waits for somebody who has gone, and no trial is handed out twice."""
    (cohort,) = sweep(Trial(Parity(4, 2), Mlp(4), Training(stopping=Stopping(budget=10))), seed=range(80))
    search = Search([Problem("one", {1: range(40), 2: range(40, 80)})], width=6, rule=Rule(least=60, budget=60))
    dispatcher = Dispatcher(search, [cohort], {})
    (waiting,) = dispatcher.waiting
    seen = waiting.take(6).tolist()
    assert len(seen) == 6 and dispatcher.give_away() == {}, "alone, all is its own"

    dispatcher.share_with(2)
    ended = np.array(seen)
    dispatcher.report(0, ended, ended % 2 == 0)
    here = waiting.take(100).tolist()
    first, second = dispatcher.give_away(), dispatcher.give_away()
    assert [len(here), len(first[0]), len(second[0])] == [2, 2, 1] and len(search.in_flight) == 6
    assert len({*seen, *here, *first[0], *second[0]}) == 6 + 5, "one is set aside for whoever asks next"

    elsewhere = np.array(first[0])
    dispatcher.report(0, elsewhere, elsewhere % 2 == 0, elsewhere=True)
    assert waiting.left() == 0 and len(dispatcher.give_away()[0]) == 2, "its own share is full, the rest is theirs"
    dispatcher.take_back(0, second[0][0])
    assert waiting.left() == 0
    dispatcher.share_with(0)
    assert second[0][0] in waiting.take(100).tolist() and not waiting.closed


@pytest.mark.parametrize("known", [0, 5, 12, 30])
def test_what_is_known_already_is_not_counted_as_work(tiny, known):
    (cohort,) = sweep(Trial(Parity(4, 2), Mlp(4), Training(stopping=Stopping(budget=10))), seed=range(40))
    search = Search([Problem("one", {1: range(0, 20), 2: range(20, 40)})], width=4, rule=Rule(least=12, budget=12))
    dispatcher = Dispatcher(search, [cohort], {position: position % 2 == 0 for position in range(known)})
    assert dispatcher.most == max(0, 12 - known)
    assert dispatcher.waiting[0].closed == (known >= 12) == (not search.in_flight)
    assert not math.isnan(search.frontiers["one"].interval().value)
