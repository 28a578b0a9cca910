"""Tables of trials for pandas, xarray and CSV: kinds of columns are kept, sweeps are axes."""

from __future__ import annotations

import csv
import json
import os
import sys

import numpy as np
import polars as pl
import pytest

import krogh
from krogh.lab import exporting


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    training = krogh.Training(krogh.Sgd(0.1), krogh.Online(8), krogh.Stopping(budget=60, validation=40))
    trial = krogh.Trial(krogh.Parity(n=6, k=2), krogh.Mlp(8), training, probes=(krogh.Error(),), probe_every=20)
    wide = [krogh.sweep(trial, seed=range(3), task__noise=[0.0, 0.25], label={"kind": "a"})]
    return krogh.run([*wide, krogh.sweep(trial, seed=range(3), model__width=[12], label={"kind": "b"})])


def test_pandas_columns_keep_their_kinds(table, tmp_path):
    pandas = pytest.importorskip("pandas")
    gaps = table.with_columns(convergence_time=pl.Series([30, None, *[40] * 7], dtype=pl.Int32), flag=pl.lit(True))
    frame = krogh.to_pandas(gaps)
    assert list(frame.columns) == gaps.columns and len(frame) == 9
    assert frame["convergence_time"].dtype == "Int32" and frame["convergence_time"].isna().sum() == 1
    assert frame["id"].dtype == np.uint64 and frame["id"].tolist() == gaps["id"].to_list()
    assert frame["steps"].dtype == np.int32 and frame["flag"].dtype == bool
    assert list(frame["outcome"].cat.categories) == ["converged", "failed", "diverged"]
    assert frame["outcome"].astype(str).tolist() == gaps["outcome"].to_list()
    assert isinstance(frame["curve.error"][0], np.ndarray)
    assert frame["curve.error"][0].tolist() == gaps["curve.error"][0].to_list()
    assert frame.groupby("model.width")["steps"].median().index.tolist() == [8, 12]
    assert isinstance(frame, pandas.DataFrame)


def test_gaps_in_truth_values_and_lists_stay_gaps():
    pytest.importorskip("pandas")
    frame = krogh.to_pandas(pl.DataFrame({"b": [True, None], "l": [[1, 2], None]}))
    assert frame["b"].dtype == "boolean" and frame["l"][1] is None


def test_xarray_has_what_was_swept_as_dimensions(table):
    pytest.importorskip("xarray")
    data = krogh.to_xarray(table)
    assert dict(data.sizes) == {"kind": 2, "task.noise": 2, "seed": 3, "step": data.sizes["step"]}
    assert data["model.width"].dims == ("kind",) and data["model.width"].values.tolist() == [8, 12]
    assert data.attrs["task.n"] == 6 and "seed" not in data.attrs
    for row in table.iter_rows(named=True):
        cell = data.sel({"kind": row["kind"], "task.noise": row["task.noise"], "seed": row["seed"]})
        assert int(cell["id"]) == row["id"] and cell["outcome"].item() == row["outcome"]
        assert cell["steps"].item() == row["steps"]
        assert np.array_equal(cell["curve.error"].sel(step=row["curve.step"]).values, np.float32(row["curve.error"]))
        assert int(cell["curve.error"].notnull().sum()) == len(row["curve.step"])
        assert cell["error"].item() == np.float32(row["error"]), "that at the end"
    assert np.isnan(data["steps"].sel({"kind": "b", "task.noise": 0.25}).values).all(), "no such trials"
    assert "step" not in krogh.to_xarray(table, curves=False).dims


def test_one_trial_has_no_dimension_but_the_step(table):
    pytest.importorskip("xarray")
    data = krogh.to_xarray(table.head(1))
    assert tuple(data.dims) == ("step",) and data["steps"].item() == table["steps"][0]


def test_what_is_no_grid_is_refused(table, monkeypatch):
    pytest.importorskip("xarray")
    monkeypatch.setattr(exporting, "MANY_CELLS", 1)
    monkeypatch.setattr(exporting, "SPARSE", 1)
    with pytest.raises(krogh.KroghError, match=r"9 trials are no grid: kind × task\.noise × seed has 12 places"):
        krogh.to_xarray(table)
    monkeypatch.setattr(exporting, "MANY_CELLS", 100)
    monkeypatch.setattr(exporting, "MOST_NUMBERS", 1)
    with pytest.raises(krogh.KroghError, match="curves=False"):
        krogh.to_xarray(table)


def test_csv_has_lists_as_json(table, tmp_path):
    odd = table.with_columns(pl.Series("curve.error", [[0.1, float("nan")], None, *[[0.5]] * 7], pl.List(pl.Float32)))
    path = krogh.to_csv(odd, tmp_path / "trials.csv")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["id"]) for row in rows] == table["id"].to_list()
    assert json.loads(rows[0]["curve.error"]) == [0.1, None] and rows[1]["curve.error"] == ""
    assert json.loads(rows[2]["curve.step"]) == table["curve.step"][2].to_list()
    assert rows[0]["outcome"] == table["outcome"][0]


@pytest.mark.parametrize(("convert", "module"), [(krogh.to_pandas, "pandas"), (krogh.to_xarray, "xarray")])
def test_what_is_not_installed_is_one_line_with_the_extra(table, monkeypatch, convert, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(krogh.KroghError, match=rf"needs {module}: pip install 'krogh\[frames\]'"):
        convert(table)


def test_a_study_has_them_as_methods(reference, tmp_path):
    pytest.importorskip("xarray")
    study = krogh.open_study(reference.folder)
    assert len(study.pandas()) == len(study.table)
    assert study.xarray()["steps"].size == len(study.table)
    assert study.csv(tmp_path / "all.csv").read_text().count("\n") == len(study.table) + 1


def test_a_file_is_written_where_a_link_leads_and_nothing_else_is_replaced(tmp_path):
    table = pl.DataFrame({"a": [1]})
    (tmp_path / "there.csv").write_text("before")
    (tmp_path / "old.csv").symlink_to("there.csv")
    (tmp_path / "new.csv").symlink_to("later.csv")
    for link, target in (("old.csv", "there.csv"), ("new.csv", "later.csv")):
        krogh.to_csv(table, tmp_path / link)
        assert (tmp_path / link).is_symlink() and (tmp_path / target).read_text() == "a\n1\n"
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to_pipe").symlink_to("pipe")
    for name, kind in (("pipe", "a named pipe"), ("to_pipe", "a named pipe"), (".", "a folder")):
        with pytest.raises(krogh.KroghError, match=f"must be a file, and .* is {kind}"):
            krogh.to_csv(table, tmp_path / name)
    assert (tmp_path / "pipe").is_fifo()
