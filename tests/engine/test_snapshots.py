"""Snapshots: the weights of chosen steps, and rows of the curve there."""

from __future__ import annotations

import numpy as np
import pytest

import krogh
from krogh.engine.memory import Plan, footprint
from krogh.errors import KroghError
from krogh.values import replaced

STEPS = (0, 20, 50, 200)
MOVEMENT = (krogh.Movement(),)


def kept(trial, snapshots=STEPS, **options):
    return krogh.Trial(trial.task, trial.model, trial.training, snapshots=snapshots, **options)


@pytest.mark.slow
@pytest.mark.parametrize("plan", [Plan(4, 1), Plan(4, 4)])
def test_a_snapshot_is_what_a_trial_that_stops_there_ends_with(train, lasting, plan):
    (stopped,) = krogh.sweep(lasting, training__stopping__budget=[20, 50, 200], seed=range(3))
    expected = train(stopped, plan_override=plan)
    (cohort,) = krogh.sweep(kept(lasting), seed=range(3))
    found = train(cohort, plan_override=plan)
    for seed in range(3):
        for name, snapshots in found[seed].snapshots.items():
            np.testing.assert_array_equal(snapshots[0], cohort[seed].initial_params()[name])
            for place in range(3):
                assert snapshots[1 + place].tobytes() == expected[3 * place + seed].weights[name].tobytes()
            assert snapshots[-1].tobytes() == found[seed].weights[name].tobytes()


@pytest.mark.slow
def test_in_a_block_each_trial_keeps_its_own_steps(train, base, in_blocks):
    """Sixty trials take turns in 32 slots: they stand at different steps, and some end before a snapshot."""
    (cohort,) = krogh.sweep(kept(base, (10, 60, 100, 500)), seed=range(60))
    (single,) = krogh.sweep(replaced(base, "training.stopping.budget", 60), seed=range(60))
    records, until = train(cohort, plan_override=in_blocks), train(single, plan_override=in_blocks)
    assert len({record.steps for record in records.values()}) > 5
    for place, record in records.items():
        for step, one in zip((10, 60, 100, 500), record.snapshots["W"], strict=True):
            assert np.isnan(one).all() if step > record.steps else np.isfinite(one).all()
        if record.steps >= 60 and until[place].steps == 60:
            np.testing.assert_allclose(record.snapshots["W"][1], until[place].weights["W"], atol=1e-4)


@pytest.mark.slow
def test_curves_have_rows_at_snapshots(base, lasting):
    """Alone they are the only rows; beside `probe_every` they come between the others."""
    alone = krogh.run(krogh.sweep(kept(lasting, (20, 50), probes=MOVEMENT), seed=range(2)))
    beside = krogh.run(krogh.sweep(kept(lasting, (20, 50), probes=MOVEMENT, probe_every=80), seed=range(2)))
    every = krogh.run(krogh.sweep(krogh.Trial(lasting.task, lasting.model, lasting.training, probes=MOVEMENT)))
    assert alone["curve.step"].to_list() == [[0, 20, 50, 200]] * 2
    assert beside["curve.step"].to_list() == [[0, 20, 50, 80, 160, 200]] * 2
    moved = dict(zip(every["curve.step"][0], every["curve.movement"][0], strict=True))
    for table in (alone, beside):
        found = zip(table["curve.step"][0], table["curve.movement"][0], strict=True)
        assert all(value == pytest.approx(moved[step], abs=1e-6) for step, value in found)
    early = krogh.run(krogh.sweep(kept(base, (50, 500), probes=MOVEMENT), seed=range(4)))
    for row in early.iter_rows(named=True):
        assert row["curve.step"] == sorted({0, min(50, row["steps"]), row["steps"]})


@pytest.mark.slow
def test_snapshots_leave_training_and_outcome_alone(train, base, one_by_one):
    (cohort,), (plain,) = (krogh.sweep(trial, seed=range(4)) for trial in (kept(base, (30,)), base))
    found, expected = (train(each, plan_override=one_by_one) for each in (cohort, plain))
    assert [found[place].bits for place in range(4)] == [expected[place].bits for place in range(4)]
    assert not set(cohort.ids().tolist()) & set(plain.ids().tolist())


def test_the_order_of_snapshots_is_no_part_of_a_trial(base):
    one, other = (krogh.stack([kept(base, steps)])[0] for steps in ((50, 20), (20, 50, 20)))
    assert one.ids() == other.ids() and one.template.snapshots == (20, 50)


def test_the_memory_plan_counts_them(base):
    one, many = (footprint(kept(base, range(0, 10 * number, 10))).state for number in (1, 11))
    weights = 4 * sum(leaf.size for leaf in base.initial_params().values())
    assert many - one == 10 * weights


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((15,), "multiples of check_every=10; got 15"),
        ((-10,), "between 0 and 500"),
        ((510,), "got a snapshot's step=510"),
    ],
)
def test_a_step_that_is_never_checked_is_refused(base, steps, words):
    with pytest.raises(KroghError, match=words):
        kept(base, steps)


def test_restarts_have_no_snapshots(base):
    with pytest.raises(KroghError, match="a snapshot belongs to one run"):
        kept(replaced(base, "training.stopping.restarts", 2))
