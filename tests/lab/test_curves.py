"""What curves are read off a table."""

from __future__ import annotations

import polars as pl
import pytest

from krogh.errors import KroghError
from krogh.lab import look_table
from krogh.lab.curves import curves


def test_looks_are_a_row_per_trial_and_look() -> None:
    table = pl.DataFrame(
        {
            "seed": [0, 1, 2],
            "curve.step": [[0, 10], [0], None],
            "curve.error": [[0.5, 0.25], [1.0], None],
            "curve.loss": [[2.0, 1.0], [3.0], None],
        }
    )
    looks = look_table(table, "seed")
    assert looks.columns == ["seed", "step", "error", "loss"]
    assert looks.rows() == [(0, 0, 0.5, 2.0), (0, 10, 0.25, 1.0), (1, 0, 1.0, 3.0)]
    assert looks.schema["step"] == pl.Int64
    assert look_table(table, "seed", columns=["loss"]).columns == ["seed", "step", "loss"]
    with pytest.raises(KroghError, match="eror"):
        look_table(table, "seed", columns=["eror"])
    with pytest.raises(KroghError, match="no curves"):
        look_table(table.select("seed"), "seed")


def test_an_unknown_column_is_refused_with_the_nearest() -> None:
    table = pl.DataFrame({"task.n": [4, 8], "convergence_time": [1, 2]})
    assert len(curves(table, x="task.n")[()]) == 2
    for options in ({"x": "n"}, {"x": "task.n", "by": "n"}, {"x": "task.n", "by": ("n",)}):
        with pytest.raises(KroghError, match=r"unknown column 'n'; did you mean 'task\.n'\?"):
            curves(table, **options)
    with pytest.raises(KroghError, match="did you mean 'convergence_time'"):
        curves(table, x="task.n", y="convergence_tim")
