"""Several cohorts at once: each is trained as if it were alone, the workers are few, and no ending is lost."""

from __future__ import annotations

import threading
import time
from collections import Counter

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import krogh
from krogh.engine import Usage, executor, run_cohort, run_cohorts
from krogh.engine.lane import Lane, Waiting
from krogh.values import replaced


@pytest.fixture(scope="module")
def cohorts(base):
    """Two of one structure that share some trials, one of another structure, and one again of the first."""
    narrow = replaced(base, "model.width", 4)
    return [
        krogh.sweep(base, seed=range(12))[0],
        krogh.sweep(narrow, seed=range(7))[0],
        krogh.sweep(base, seed=range(6, 20), training__optimiser__rate=[0.1])[0],
        krogh.sweep(replaced(base, "training.stopping.budget", 30), seed=range(5))[0],
    ]


POSITIONS = [np.arange(12), np.array([6, 0, 3]), np.zeros(0, int), np.arange(5)]


@pytest.fixture(scope="module")
def alone(cohorts):
    """What each cohort's trials leave behind when it is trained alone."""
    return [{position: record for part in run_cohort(cohort) for position, record in rows(part)} for cohort in cohorts]


def rows(part):
    columns = zip(part.status, part.steps, part.reached, part.error, part.loss, strict=True)
    for position, row in zip(part.position.tolist(), columns, strict=True):
        yield position, tuple(number.tobytes() for number in row)


def collected(records):
    """Rows by cohort, and the order in which cohorts ended."""
    found, over = {}, []
    for place, part in records:
        if part is None:
            over.append(place)
            continue
        assert place not in over, "a record after the last"
        for position, row in rows(part):
            assert (place, position) not in found, "reported twice"
            found[place, position] = row
    return found, over


def test_each_cohort_is_trained_as_if_alone(cohorts, alone):
    usage = Usage()
    found, over = collected(run_cohorts(cohorts, POSITIONS, usage=usage))
    assert sorted(over) == [0, 1, 3], "one ending for every cohort that has trials"
    expected = {(place, position) for place, own in enumerate(POSITIONS) for position in own.tolist()}
    assert set(found) == expected
    for (place, position), row in found.items():
        assert row == alone[place][position]
    steps = sum(int(np.frombuffer(row[1], np.int32)[0]) for row in found.values())
    assert usage.executed_steps == usage.useful_steps == steps


def test_a_trial_of_two_cohorts_is_trained_in_both(cohorts, alone):
    found, over = collected(run_cohorts([cohorts[0], cohorts[2]], [np.arange(12), np.arange(14)]))
    assert sorted(over) == [0, 1] and len(found) == 26
    for shared in range(6):  # seeds 6..11
        assert found[0, 6 + shared] == found[1, shared] == alone[0][6 + shared]


def test_nothing_to_train_ends_at_once(cohorts):
    nothing = np.zeros(0, int)
    assert list(run_cohorts(cohorts, [nothing] * 4)) == []
    assert list(run_cohorts([], [])) == []
    closed = Waiting(nothing, closed=False, expected=3)
    closed.close()
    assert list(run_cohorts(cohorts[:1], [closed])) == [(0, None)]


# --- endings -------------------------------------------------------------------------------------------------


@pytest.fixture
def workers(monkeypatch):
    """The threads that were started; all must have ended when a test is over."""
    started, plain = [], threading.Thread

    def thread(*arguments, **options):
        made = plain(*arguments, **options)
        if options.get("target") is executor._work:
            started.append(made)
        return made

    monkeypatch.setattr(executor.threading, "Thread", thread)
    yield started
    assert started and not any(worker.is_alive() for worker in started)


def test_cohorts_share_the_workers(cohorts, workers):
    list(run_cohorts(cohorts, [np.arange(len(cohort)) for cohort in cohorts]))
    assert len(workers) <= len(executor.lanes_here())


@pytest.mark.parametrize("method", ["__post_init__", "refill", "advance"])
def test_an_error_in_a_lane_of_one_cohort_reaches_the_caller(cohorts, workers, monkeypatch, method):
    original = getattr(Lane, method)

    def wrong(self, *arguments):
        if self.cohort.template.model.width == 4:
            raise ZeroDivisionError("in the narrow one")
        return original(self, *arguments)

    monkeypatch.setattr(Lane, method, wrong)
    found = {}
    with pytest.raises(ZeroDivisionError, match="in the narrow one"):
        for place, part in run_cohorts(cohorts, [np.arange(len(cohort)) for cohort in cohorts]):
            found[place] = part
    assert 1 not in found


def test_closing_the_iterator_stops_every_cohort(base, workers):
    lasting = [krogh.sweep(base, seed=range(first, first + 5000))[0] for first in (0, 5000, 10_000)]
    usage = Usage()
    records = run_cohorts(lasting, [np.arange(5000)] * 3, usage=usage)
    assert next(records)[1] is not None
    records.close()
    assert not any(worker.is_alive() for worker in workers)
    assert 0 < usage.useful_steps < 0.5 * 40 * 15_000
    assert next(records, None) is None


def test_running_out_of_memory_shrinks_the_lane_it_happened_in(cohorts, alone, monkeypatch):
    seen = Counter()

    class Failing(Lane):
        def advance(self):
            narrow = self.cohort.template.model.width == 4
            seen[narrow, self.plan.slots] += 1
            if narrow and self.plan.slots > 4:
                raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")
            return super().advance()

    monkeypatch.setattr(executor, "Lane", Failing)
    usage = Usage()
    found, over = collected(run_cohorts(cohorts[:2], [np.arange(12), np.arange(7)], usage=usage))
    assert sorted(over) == [0, 1] and usage.splits >= 1
    assert {slots for narrow, slots in seen if narrow} == {8, 4}
    assert {slots for narrow, slots in seen if not narrow} == {8}
    assert all(row == alone[place][position] for (place, position), row in found.items()) and len(found) == 19


# --- trials that are handed out while others run -------------------------------------------------------------


def test_trials_may_be_added_until_a_cohort_is_closed(cohorts, alone):
    """Each record asks for the next trial, first of one cohort and then of the other; lanes wait without work."""
    waiting = [Waiting(np.array([0]), closed=False, expected=2), Waiting(np.zeros(0, int), closed=False, expected=2)]
    script = iter([(1, 2), (0, 5), (0, 6), (1, 4), (0, 11)])
    found, over, begun = {}, [], time.monotonic()
    for place, part in run_cohorts(cohorts[:2], waiting):
        assert time.monotonic() - begun < 120
        if part is None:
            over.append(place)
            continue
        found |= {(place, position): row for position, row in rows(part)}
        following = next(script, None)
        if following is None:
            waiting[0].close()
            waiting[1].close()
        else:
            time.sleep(0.05)  # long enough for the lanes to find nothing
            waiting[following[0]].add([following[1]])
    assert sorted(over) == [0, 1]
    assert set(found) == {(0, 0), (1, 2), (0, 5), (0, 6), (1, 4), (0, 11)}
    assert all(row == alone[place][position] for (place, position), row in found.items())


def test_an_open_cohort_may_be_abandoned(cohorts, workers):
    """Nobody closes it: closing the iterator must do."""
    records = run_cohorts(cohorts[:1], [Waiting(np.array([3]), closed=False, expected=1)])
    place, part = next(records)
    assert place == 0 and part is not None and part.position.tolist() == [3]
    records.close()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["take", "add", "back"]), st.integers(0, 7)), max_size=40), st.integers(1, 4))
def test_what_waits_is_handed_out_once(actions, shares):
    """Whatever is added, taken and given back in any order: everything comes out, nothing twice at a time."""
    waiting = Waiting(np.arange(5), shares, closed=False)
    outside, inside, following = [], set(range(5)), 5
    for action, number in actions:
        if action == "add":
            fresh = list(range(following, following + number))
            following += number
            waiting.add(fresh)
            inside |= set(fresh)
        elif action == "back":
            returned, outside = outside[:number], outside[number:]
            waiting.add(np.asarray(returned, int))
            inside |= set(returned)
        else:
            left = waiting.left()
            taken = waiting.take(number).tolist()
            assert len(taken) == min(number, -(-left // shares)) and set(taken) <= inside
            inside -= set(taken)
            outside += taken
        assert waiting.left() == len(inside) and len(set(outside)) == len(outside)
        assert set(outside).isdisjoint(inside) and len(inside) + len(outside) == following
