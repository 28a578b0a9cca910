"""Curves and weights: the right rows at the right steps, with the right values."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import krogh
from krogh.engine.memory import Plan
from krogh.values import replaced

PROBES = (krogh.Error(), krogh.Movement(), krogh.BatchLoss())
BUDGETS = range(10, 210, 10)


def probed(trial, every, probes=PROBES):
    return krogh.Trial(trial.task, trial.model, trial.training, probes=probes, probe_every=every)


@pytest.fixture(scope="module")
def snapshots(train, lasting, one_by_one, share_right):
    """Error, movement and batch loss of two trials after 0, 10, ..., 200 steps, from weights trained that far."""
    (cohort,) = krogh.sweep(lasting, training__stopping__budget=BUDGETS, seed=range(2))
    records = train(cohort, plan_override=one_by_one)
    rows = {}
    for position, trial in enumerate(cohort):
        record, initial = records[position], np.asarray(trial.initial_params()["W"])
        moved = np.abs(record.weights["W"] - initial).max()
        rows[int(trial.seed), record.steps] = (1 - share_right(trial, record.weights), moved, record.loss)
    for seed in range(2):
        trial = replaced(lasting, "seed", seed)
        rows[seed, 0] = (1 - share_right(trial, trial.initial_params()), 0.0, np.nan)
    return rows


@pytest.mark.parametrize(("every", "plan"), [(30, Plan(4, 1)), pytest.param(30, Plan(2, 2), marks=pytest.mark.slow)])
def test_each_row_is_what_was_there_at_its_step(train, lasting, snapshots, every, plan):
    (cohort,) = krogh.sweep(probed(lasting, every), seed=range(2))
    for position, record in train(cohort, plan_override=plan).items():
        expected = [snapshots[position, step] for step in (*range(0, 200, every), 200)]
        np.testing.assert_allclose(record.curve, np.array(expected), atol=1e-5)


@pytest.mark.slow
def test_rows_keep_in_step_over_many_chunks_and_refills(train, base, in_blocks):
    """Trials of a block end at different times and others take their places; each has a row at its own last step."""
    (cohort,) = krogh.sweep(probed(base, 30, (krogh.Movement(),)), seed=range(60))
    records = train(cohort, plan_override=in_blocks)
    assert len({record.steps for record in records.values()}) > 5
    for record in records.values():
        length = 1 + -(-record.steps // 30)
        assert np.isfinite(record.curve[:length]).all()
        assert np.isnan(record.curve[length:]).all()
        assert (np.diff(record.curve[: length - 1, 0]) != 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("every", [20, 200])
def test_tables_hold_lists_that_end_with_the_trial(base, every):
    """The last row is that of the last step, also for trials that end before the first probe after step 0."""
    table = krogh.run(krogh.sweep(probed(base, every, (krogh.Error(), krogh.SupportWeight())), seed=range(6)))
    names = ["curve.step", "curve.error", "curve.relevant_weight", "curve.irrelevant_weight"]
    assert table.columns[-4:] == names
    assert any(row % every for row in table["steps"])
    for row in table.iter_rows(named=True):
        steps = [*range(0, row["steps"], every), row["steps"]]
        assert row["curve.step"] == steps
        assert all(len(row[name]) == len(steps) for name in names)
        assert all(np.isfinite(row[name]).all() for name in names)
        assert abs(row["curve.error"][-1]) < 1e-6 and row["accuracy"] == 1.0
        assert row["curve.relevant_weight"][-1] != row["curve.relevant_weight"][0]


@pytest.mark.slow
def test_blocks_end_their_curves_as_single_trials_do(train, base, in_blocks, one_by_one):
    """In a block those that ended are probed when the chunk is over, in groups; alone, at once."""
    (cohort,) = krogh.sweep(probed(base, 100, (krogh.Movement(),)), seed=range(40))
    alone, together = (train(cohort, plan_override=plan) for plan in (one_by_one, in_blocks))
    equal = [place for place in alone if alone[place].steps == together[place].steps]
    assert len(equal) >= 36
    for place in equal:
        np.testing.assert_allclose(together[place].curve, alone[place].curve, atol=1e-3)


@pytest.mark.slow
def test_probes_look_at_every_input_where_the_check_does(train, base, one_by_one, share_right):
    """The last error of a failed trial is one minus its accuracy, on the same examples."""
    stopping = krogh.Stopping(budget=20, check_every=10, validation="exact")
    trial = krogh.Trial(base.task, base.model, replaced(base.training, "stopping", stopping), probes=(krogh.Error(),))
    (cohort,) = krogh.sweep(trial, seed=range(8))
    for position, record in train(cohort, plan_override=one_by_one).items():
        one = cohort[position]
        assert one.validation().x.shape == (64, 6)
        np.testing.assert_allclose(record.curve[0, 0], 1 - share_right(one, one.initial_params()), atol=1e-6)
        np.testing.assert_allclose(record.curve[record.steps // 10, 0], 1 - record.accuracy, atol=1e-6)


def test_kept_weights_are_those_of_the_end(train, base, one_by_one, share_right):
    (cohort,) = krogh.sweep(base, seed=range(8))
    for position, record in train(cohort, plan_override=one_by_one).items():
        assert share_right(cohort[position], record.weights) == record.accuracy == 1.0
        assert {name: leaf.shape for name, leaf in record.weights.items()} == {
            name: jnp.shape(leaf) for name, leaf in cohort[position].initial_params().items()
        }
