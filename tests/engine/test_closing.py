"""However a run ends, no lane goes on and no error is lost."""

from __future__ import annotations

import threading

import pytest

import krogh
from krogh.engine import Usage, executor, run_cohort
from krogh.engine.lane import Lane


@pytest.fixture
def many(base):
    (cohort,) = krogh.sweep(base, seed=range(20_000))
    return cohort


@pytest.fixture
def lanes(monkeypatch):
    """The lanes that were started; all must have ended when a test is over."""
    started = []
    plain = threading.Thread

    def thread(*arguments, **options):
        made = plain(*arguments, **options)
        if options.get("target") is executor._work:
            started.append(made)
        return made

    monkeypatch.setattr(executor.threading, "Thread", thread)
    yield started
    assert started and not any(lane.is_alive() for lane in started)


def test_closing_the_iterator_stops_the_lanes(many, one_by_one, lanes):
    usage = Usage()
    records = run_cohort(many, plan_override=one_by_one, usage=usage)
    first = next(records)
    assert len(first.position)
    records.close()
    assert not any(lane.is_alive() for lane in lanes)
    assert 0 < usage.useful_steps <= usage.executed_steps  # what was trained is still accounted for
    assert usage.useful_steps < 0.25 * 40 * len(many)  # a trial needs 40 steps at the least
    assert next(records, None) is None


def test_an_interrupt_in_the_consumer_stops_the_lanes(many, one_by_one, lanes):
    def consume():
        for _ in run_cohort(many, plan_override=one_by_one):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        consume()


def test_an_interrupt_while_waiting_stops_the_lanes(many, one_by_one, lanes, monkeypatch):
    gotten = []

    class Interrupted(executor.queue.Queue):
        def get(self, block=True, timeout=None):
            gotten.append(super().get(block, timeout))
            if len(gotten) == 3:
                raise KeyboardInterrupt
            return gotten[-1]

    monkeypatch.setattr(executor.queue, "Queue", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(run_cohort(many, plan_override=one_by_one))


def test_a_slow_consumer_gets_everything(base, one_by_one, lanes):
    """More parts than the queue between lanes and consumer holds."""
    (cohort,) = krogh.sweep(base, seed=range(300))
    records = run_cohort(cohort, plan_override=one_by_one)
    positions = list(next(records).position)
    threading.Event().wait(0.3)
    for part in records:
        positions += list(part.position)
    assert sorted(positions) == list(range(300))


@pytest.mark.parametrize("method", ["__post_init__", "refill", "advance"])
def test_an_error_in_a_lane_reaches_the_caller(many, one_by_one, lanes, monkeypatch, method):
    calls = []

    def wrong(self, *arguments):
        calls.append(self)
        if len(calls) > 2:
            raise ZeroDivisionError("in the lane")
        return original(self, *arguments)

    original = getattr(Lane, method)
    monkeypatch.setattr(Lane, method, wrong)
    if method == "__post_init__":
        calls += [None, None]
    with pytest.raises(ZeroDivisionError, match="in the lane"):
        list(run_cohort(many, plan_override=one_by_one))


def test_nothing_starts_before_the_first_record_is_asked_for(many, monkeypatch):
    monkeypatch.setattr(executor, "Lane", None)
    records = run_cohort(many)
    records.close()
