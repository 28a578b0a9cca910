"""`krogh.run`: whatever describes trials in, one row per trial out, in order."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import krogh
from krogh.engine import Usage, run_cohort
from krogh.values import replaced

RESULT = ["outcome", "convergence_time", "steps", "runs", "path", "error", "accuracy", "loss"]


@pytest.fixture(scope="module")
def cohort(base):
    (cohort,) = krogh.sweep(base, training__optimiser__rate=[0.1, 0.05], seed=range(5))
    return cohort


@pytest.fixture(scope="module")
def table(cohort):
    return krogh.run(cohort)


def test_rows_come_in_the_order_given(table):
    assert table["training.optimiser.rate"].to_list() == [0.1] * 5 + [0.05] * 5
    assert table["seed"].to_list() == list(range(5)) * 2


def test_a_list_a_sweep_a_cohort_and_a_generator_are_the_same(cohort, table):
    trials = list(cohort)
    for given in ([cohort], trials, iter(trials)):
        assert krogh.run(given).equals(table)


def test_a_single_trial_is_one_row(base, cohort, table):
    alone = krogh.run(cohort[7])
    assert alone.shape[0] == 1 and alone.columns == table.columns
    for name in table.columns:
        assert alone[name][0] == table[name][7], name


def test_columns(table):
    assert table.columns[0] == "id" and table.columns[-len(RESULT) :] == RESULT
    assert table["id"].n_unique() == 10
    assert table["task"].unique().to_list() == ["parity"]
    row = table.row(0, named=True)
    expected = {"task.n": 6, "task.k": 2, "task.support": "[0, 1]", "model": "mlp", "training.regime.batch_size": 8}
    assert expected.items() <= row.items()
    assert "probe_rows" not in row and "task.noisy" not in row
    assert table.schema["outcome"] == pl.Enum(["converged", "failed", "diverged"])
    assert table.schema["id"] == pl.UInt64 and table.schema["convergence_time"] == pl.Int32


def test_never_converged_has_no_time(base):
    short = replaced(base, "training.stopping.budget", 10)
    table = krogh.run(krogh.sweep(short, seed=range(10)))
    assert table["outcome"].to_list() == ["failed"] * 10
    assert table["convergence_time"].null_count() == 10
    assert table["steps"].to_list() == [10] * 10
    assert table["accuracy"].is_between(0, 1, closed="left").all()


def test_mixed_structures_come_in_the_order_given(base, cohort, table):
    narrow = replaced(base, "model.width", 4)
    mixed = [cohort[0], narrow, cohort[1], replaced(narrow, "seed", 1), cohort[2]]
    rows = krogh.run(mixed)
    assert rows["model.width"].to_list() == [8, 4, 8, 4, 8]
    assert rows["seed"].to_list() == [0, 0, 1, 1, 2]
    assert rows["id"][::2].to_list() == table["id"][:3].to_list()
    assert rows["steps"][::2].to_list() == table["steps"][:3].to_list()


def test_sweeps_trials_and_lists_of_them_in_any_nesting_keep_their_order(base, cohort, table):
    narrow = replaced(base, "model.width", 4)
    mixed = krogh.run([cohort[7], [krogh.sweep(base, seed=range(2)), (narrow, [cohort])], iter([cohort[8]])])
    assert mixed["model.width"].to_list() == [8, 8, 8, 4, *[8] * 11]
    order = [7, 0, 1, *range(10), 8]
    assert mixed.filter(pl.col("model.width") == 8)["id"].to_list() == [table["id"][place] for place in order]
    assert krogh.run([[], [[]]]).is_empty()


def test_the_same_trial_twice_is_two_equal_rows(cohort):
    twice = krogh.run([cohort[3], cohort[3]])
    assert twice.shape[0] == 2 and twice[:1].equals(twice[1:])


def test_a_column_reads_the_same_whether_it_varies_or_not(base):
    def scheduled(factor):
        optimiser = krogh.Sgd(rate=0.1, schedule=krogh.Piecewise([10], [1.0, factor]))
        return krogh.Trial(base.task, base.model, replaced(base.training, "optimiser", optimiser))

    (cohort,) = krogh.stack([scheduled(0.1), scheduled(0.7)])
    path = "training.optimiser.schedule.factors"
    assert cohort.rows(np.arange(2))[path] == ["[1.0, 0.1]", "[1.0, 0.7]"]
    assert krogh.stack([scheduled(0.1)])[0].rows(np.arange(1))[path] == "[1.0, 0.1]"
    (supports,) = krogh.sweep(base, task__support=[(0, 1), (3, 5)])
    assert supports.rows(np.arange(2))["task.support"] == ["[0, 1]", "[3, 5]"]


def test_nothing_in_nothing_out(cohort):
    usage = Usage()
    assert krogh.run([], usage=usage).is_empty()
    assert list(run_cohort(cohort, np.zeros(0, int), usage=usage)) == []
    assert usage == Usage() and usage.wasted_share == 0.0


def test_usage_adds_up_over_cohorts(cohort, table):
    usage = Usage()
    krogh.run([cohort, cohort], usage=usage)
    assert usage.useful_steps == usage.executed_steps == 2 * table["steps"].sum()
    assert usage.seconds > 0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda base: krogh.run(["parity"]), "expected trials, sweeps, or lists of them; got str"),
        (lambda base: krogh.run([base, {"seed": base}]), "expected trials, sweeps, or lists of them; got dict"),
        (lambda base: krogh.run(3), "expected trials, sweeps, or lists of them; got int"),
        (lambda base: krogh.sweep(base, seed=3), r"several values for seed; got 3 \(try \[3\]\)"),
        (lambda base: krogh.sweep(base, model__width=4), "several values for model__width; got 4"),
        (lambda base: krogh.sweep(base, training__loss="hinge"), "several values for training__loss"),
        (lambda base: krogh.sweep(base, seed=[]), "at least one; got"),
        (lambda base: krogh.sweep(base, seed=[-1]), "seeds must be integers"),
        (lambda base: krogh.sweep(base, seed=[0.5]), "seeds must be integers"),
        (lambda base: krogh.sweep(base, task__noise=[]), "at least one value for task.noise"),
        (lambda base: krogh.sweep(base, task__noize=[0.1]), "did you mean 'noise'"),
    ],
)
def test_bad_input_gets_one_clear_error(base, wrong, says):
    with pytest.raises(krogh.KroghError, match=says):
        wrong(base)
