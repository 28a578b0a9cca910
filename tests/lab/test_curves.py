"""What curves are read off a table."""

from __future__ import annotations

import polars as pl
import pytest

from krogh.errors import KroghError
from krogh.lab import look_table


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
