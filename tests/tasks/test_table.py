"""Tables: the protocol of splits, what is standardised by what, and every table that is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from equinox import tree_at

import krogh
from krogh.errors import KroghError
from krogh.tasks.table import Rows, balanced, parity_rows, rows_of, standardised
from krogh.values import describe, replaced, structure_of

KEY = jax.random.key(0)
ROWS = parity_rows(count=200, n=4, k=2, seed=3)
TASK = krogh.Table(ROWS)


def rows_in(raw) -> list[int]:
    return np.asarray(raw).tolist()


@pytest.mark.parametrize("split", [0, 1, 77])
def test_test_and_training_rows_of_a_split_are_all_rows_once(split):
    task = krogh.Table(ROWS, split)
    test, train = rows_in(task.test(KEY, 20)), rows_in(task.dataset(KEY, 180, 180))
    assert sorted(test + train) == list(range(200))


def test_splits_differ_and_every_row_is_a_test_row_about_as_often():
    splits = jnp.arange(400, dtype=jnp.uint32)
    chosen = jax.jit(jax.vmap(lambda split: tree_at(lambda task: task.split, TASK, split).test(KEY, 20)))(splits)
    counts = np.bincount(np.asarray(chosen).ravel(), minlength=200)
    expected = 400 * 20 / 200
    statistic = ((counts - expected) ** 2 / (expected * 0.9)).sum()
    assert abs(statistic - 199) < 5 * (2 * 199) ** 0.5


def test_the_split_decides_and_not_the_key():
    task = krogh.Table(ROWS, 5)
    assert rows_in(task.test(KEY, 20)) == rows_in(task.test(jax.random.key(1), 20))
    assert rows_in(task.dataset(KEY, 30, 30)) == rows_in(task.dataset(jax.random.key(1), 90, 90))[:30]


def test_validation_rows_follow_the_training_rows_and_are_no_test_rows():
    task = krogh.Table(ROWS, 5, train_rows=40, judged="validation")
    judged, whole = rows_in(task.test(KEY, 10)), krogh.Table(ROWS, 5)
    assert judged == rows_in(whole.dataset(KEY, 50, 50))[40:]
    assert not {*judged} & {*rows_in(task.dataset(KEY, 40, 40)), *rows_in(whole.test(KEY, 20))}


def test_examples_are_the_tables_rows_standardised():
    task = krogh.Table(ROWS)
    examples = task.decode(np.array([3, 1, 3]))
    expected = (ROWS.raw - ROWS.raw.mean(axis=0)) / ROWS.raw.std(axis=0)
    assert np.allclose(examples.x, expected[[3, 1, 3]], atol=1e-6)
    assert np.array_equal(examples.truth, np.sign(ROWS.raw[[3, 1, 3], :2]).prod(axis=1))


def test_training_rows_alone_may_decide_the_standardisation():
    task = krogh.Table(ROWS, 9, train_rows=50, standardise="train")
    chosen = rows_in(task.dataset(KEY, 50, 50))
    expected = (ROWS.raw - ROWS.raw[chosen].mean(axis=0)) / ROWS.raw[chosen].std(axis=0)
    assert np.allclose(task.decode(np.arange(200)).x, expected, atol=1e-4)
    again = replaced(task, "split", 10)  # statistics follow the split
    assert not np.allclose(again.centre, task.centre)


def test_a_row_that_is_not_trained_on_does_not_move_the_others():
    """Leak-free: with training rows in charge, changing test rows changes no training example."""
    test = rows_in(krogh.Table(ROWS, 2).test(KEY, 20))
    raw = ROWS.raw.copy()
    raw[test] += 100.0
    other = Rows("other", raw, ROWS.arrays["y"], ROWS.columns, "memory", ROWS.classes)
    inputs = {
        way: [
            np.asarray(krogh.Table(rows, 2, 180, standardise=way).decode(np.setdiff1d(np.arange(200), test)).x)
            for rows in (ROWS, other)
        ]
        for way in ("whole", "train")
    }
    assert np.allclose(*inputs["train"], atol=1e-3) and not np.allclose(*inputs["whole"], atol=1e-1)


def test_constant_columns_become_zero():
    x = np.stack([np.full(30, 0.1), np.arange(30.0)], axis=1)
    assert not standardised(x)[:, 0].any() and abs(standardised(x)[:, 1].std() - 1) < 1e-6


def test_a_trials_identity_has_the_tables_checksum():
    moved = ROWS.raw.copy()
    moved[0, 0] += 1e-9
    other = Rows(ROWS.title, moved, ROWS.arrays["y"], ROWS.columns, ROWS.source, ROWS.classes)
    assert other.checksum != ROWS.checksum and other != ROWS
    assert structure_of(krogh.Table(other)) != structure_of(krogh.Table(ROWS))
    assert ROWS.checksum in describe(krogh.Table(ROWS))["rows"]
    assert parity_rows(count=200, n=4, k=2, seed=3) == ROWS


def test_balancing_keeps_as_many_of_either_class_in_their_order():
    y = np.where(np.arange(60) % 3 == 0, 1.0, -1.0)
    rows = balanced(Rows("t", np.arange(60.0)[:, None], y, ["x"], "memory", (0, 1)))
    assert len(rows) == 40 and rows.majority == 0.5
    assert (np.diff(rows.raw[:, 0]) > 0).all()


def frame(**changes):
    random = np.random.default_rng(0)
    columns = {"a": random.normal(size=40), "b": random.integers(0, 9, 40), "y": np.arange(40) % 2}
    return pl.DataFrame(columns | changes)


def test_a_frame_becomes_rows_with_the_larger_label_up():
    rows = rows_of(frame(y=["no", "yes"] * 20), name="mine")
    assert rows.classes == ("no", "yes") and rows.columns == ("a", "b") and rows.d == 2
    assert rows.arrays["y"].tolist() == [-1.0, 1.0] * 20
    named = rows_of(frame(b=[0.0, 1.0] * 20), target="b")
    assert named.columns == ("a", "y") and named.arrays["y"].tolist() == [-1.0, 1.0] * 20
    as_dictionary = rows_of({name: frame()[name].to_numpy() for name in ("a", "b", "y")})
    assert as_dictionary.checksum == rows_of(frame()).checksum


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"a": ["x", "1"] * 20}, r"columns that are no numbers: a \(e.g. 'x'\)"),
        ({"a": [None, 1.0] * 20}, r"missing or infinite values in a \(20\)"),
        ({"b": [float("inf")] + [1.0] * 39}, r"missing or infinite values in b \(1\)"),
        ({"b": [float("nan")] * 40}, r"missing or infinite values in b \(40\)"),
        ({"y": [1] * 40}, r"the target 'y' must have two values; got 1: 1 \(40 rows\)$"),
        ({"y": [0, 1, 2, 1] * 10}, r"must have two values; got 3: 0 \(10 rows\), 1 \(20 rows\), 2 .*right column"),
        ({"y": [None, "a"] * 20}, "the target 'y' is missing in 20 rows"),
    ],
)
def test_what_cannot_be_learned_is_refused(changes, words):
    with pytest.raises(KroghError, match=words):
        rows_of(frame(**changes))


def test_too_few_rows_columns_and_wrong_targets_are_refused():
    with pytest.raises(KroghError, match=r"has 19 rows; .* needs at least 20"):
        rows_of(frame().head(19))
    with pytest.raises(KroghError, match=r"needs features and a target; got the columns \['y'\]"):
        rows_of(frame().select("y"))
    with pytest.raises(KroghError, match="unknown target column of the table 'table' 'z'"):
        rows_of(frame(), target="z")


def trial(m=50, validation=20, **task):
    stopping = krogh.Stopping(budget=10, validation=validation)
    training = krogh.Training(krogh.Sgd(0.1), krogh.Epochs(m, 16), stopping)
    return krogh.Trial(krogh.Table(ROWS, **task), krogh.DeepMlp((8,)), training)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: trial(m=181), "has 200 rows, 180 of which may be trained on; got m=181"),
        (lambda: trial(validation=21), "has 20 test rows; a trial cannot be judged on validation=21"),
        (lambda: trial(judged="validation"), "give train_rows=m"),
        (lambda: trial(judged="validation", train_rows=40), r"train_rows must be the regime's m=50, or 0; got .*40"),
        (lambda: trial(m=170, judged="validation", train_rows=170), "has 10 validation rows"),
        (lambda: trial(judged="elsewhere"), "unknown judged 'elsewhere'"),
        (lambda: trial(standardise="no"), "unknown standardise 'no'"),
        (lambda: trial(standardise="train"), "train_rows must be an integer between 1 and 180"),
        (lambda: krogh.Table(np.zeros((30, 2))), "needs rows, as `rows_of` makes them; got a ndarray"),
    ],
)
def test_trials_that_the_rows_do_not_allow_are_refused(make, words):
    with pytest.raises(KroghError, match=words):
        make()
