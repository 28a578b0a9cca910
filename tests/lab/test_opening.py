"""A study read from its folder: tables, tidy curves, measures, claims and weights; what is damaged is named."""

from __future__ import annotations

import json
import shlex
import shutil

import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from safetensors import safe_open

import krogh
from krogh.errors import KroghError
from krogh.lab import Study, run_study
from krogh.lab.opening import OpenStudy, open_study


@pytest.fixture(scope="module")
def with_weights(tiny, tmp_path_factory) -> Study:
    changes = {"widths": "8", "seeds": "3", "budget": "40"}
    return run_study(tiny.Tiny(), "smoke", tmp_path_factory.mktemp("kept"), changes=changes, weights=True)


def test_a_study_is_found_where_it_is_and_below(reference):
    study = open_study(reference.folder)
    assert isinstance(study, OpenStudy) and study.summary["name"] == reference.summary["name"]
    assert open_study(reference.folder.parents[1]).folder == reference.folder
    assert krogh.open_study is open_study and study.settings == reference.summary["settings"]


def test_its_tables_are_those_on_disk(reference):
    study = open_study(reference.folder)
    assert_frame_equal(study.table, pl.read_parquet(reference.folder / "trials.parquet"))
    assert set(study.measures) == {path.stem for path in (reference.folder / "measures").glob("*.parquet")}
    for name, table in study.measures.items():
        assert_frame_equal(table, pl.read_parquet(reference.folder / "measures" / f"{name}.parquet"))
    assert study.claims["verdict"].to_list() == [str(claim.verdict) for claim in reference.claims]
    assert study.claims["name"].to_list() == [claim.name for claim in reference.claims]


def test_weights_are_those_of_the_trial_and_become_tensors(with_weights):
    study = open_study(with_weights.folder)
    row = study.table.row(1, named=True)
    found = study.weights(row["id"])
    assert found and all(isinstance(array, np.ndarray) for array in found.values())
    other = study.weights(study.table["id"][0])
    assert any(not np.array_equal(found[name], other[name]) for name in found)
    torch = pytest.importorskip("torch")
    tensors = study.weights(row["id"], torch=True)
    assert all(torch.equal(tensors[name], torch.from_numpy(found[name])) for name in found)


def test_a_trial_is_known_by_a_number_or_its_text(with_weights):
    study = open_study(with_weights.folder)
    identity = study.table["id"][2]
    found = study.weights(identity)
    for same in (str(identity), np.uint64(identity)):
        again = study.weights(same)
        assert again.trial == found.trial and np.array_equal(again["W"], found["W"])
    for other in (float(identity), "first", None, True, np.float64(1), "-1", "1.0"):
        with pytest.raises(KroghError, match="known by a whole number, the table's column id; got"):
            study.weights(other)


def test_the_command_that_keeps_weights_is_one_that_works(reference):
    with pytest.raises(KroghError) as refused:
        open_study(reference.folder).weights(1)
    words = shlex.split(str(refused.value).partition("another folder: ")[2].removesuffix(")"))
    asked = shlex.split(reference.summary["command"])
    assert words[-1] == "--weights" and words[words.index("--out") + 1] == asked[asked.index("--out") + 1] + "-weights"
    assert len(words) == len(asked) + 1


def test_a_study_is_one_line_and_a_table_of_claims(reference, tmp_path):
    shown = repr(reference)
    about = f"smoke, complete, {len(open_study(reference.folder).table)} trials, 1 reproduced; {reference.folder}>"
    assert shown == f"<study tiny/parity: {about}" == repr(open_study(reference.folder))
    page = open_study(reference.folder)._repr_html_()
    assert page == reference._repr_html_() and page.count("<tr>") == 1 + len(reference.claims)
    copy = shutil.copytree(reference.folder, tmp_path / "copy")
    study = open_study(copy)
    (copy / "claims.json").write_text("{")
    study.summary["name"] = "<b>\x1b[2J"
    assert "no claims" in repr(study) and "\x1b" not in repr(study) and "<b>" not in study._repr_html_()


def test_weights_say_what_they_are(with_weights, tmp_path):
    study = open_study(with_weights.folder)
    row = study.table.row(1, named=True)
    found = study.weights(row["id"])
    assert found.trial == row and found.step == row["steps"]
    assert "W [width, n]" in found.description
    about = found.about()["parameters"]
    assert about["W"] == {"shape": [8, 8], "dtype": "float32"} and set(about) == set(found)
    path = found.save(tmp_path / "one.safetensors")
    with safe_open(path, framework="numpy") as file:
        assert json.loads(file.metadata()["krogh"])["trial"]["seed"] == row["seed"]
        assert all(np.array_equal(file.get_tensor(name), array) for name, array in found.items())


def test_a_state_dictionary_computes_what_the_model_computes(with_weights):
    """Orientation: `W` is [outputs, inputs], as in a layer of PyTorch."""
    torch = pytest.importorskip("torch")
    study = open_study(with_weights.folder)
    found = study.weights(study.table["id"][0])
    state, x = found.torch(), np.sign(np.random.default_rng(0).normal(size=(5, 8))).astype(np.float32)
    layer = torch.nn.Linear(8, 8)
    layer.load_state_dict({"weight": state["W"], "bias": state["b"]})
    theirs = torch.relu(layer(torch.from_numpy(x))) @ state["u"]
    ours = krogh.Mlp(8).predict({name: jnp.asarray(array) for name, array in found.items()}, jnp.asarray(x))
    assert np.allclose(theirs.detach().numpy(), ours, atol=1e-5)
    state["W"].zero_()
    assert found["W"].any(), "a state dictionary has memory of its own"


def test_curves_are_one_row_per_trial_and_look(tmp_path, reference):
    table = (
        open_study(reference.folder)
        .table.head(2)
        .with_columns(
            pl.Series("curve.step", [[0, 10, 20], [0, 10]]), pl.Series("curve.gap", [[1.0, 2.0, 3.0], [4.0, 5.0]])
        )
    )
    shutil.copytree(reference.folder, tmp_path / "copy")
    table.write_parquet(tmp_path / "copy" / "trials.parquet")
    about = json.loads((tmp_path / "copy" / "study.json").read_text())
    del about["digests"]  # of a study from before there were any
    (tmp_path / "copy" / "study.json").write_text(json.dumps(about))
    tidy = open_study(tmp_path / "copy").curves("model.width")
    assert tidy.columns == ["id", "seed", "model.width", "step", "gap"]
    assert tidy["step"].to_list() == [0, 10, 20, 0, 10] and tidy["gap"].to_list() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert tidy["id"].to_list() == [table["id"][0]] * 3 + [table["id"][1]] * 2
    with pytest.raises(KroghError, match="unknown column 'nothing'"):
        open_study(tmp_path / "copy").curves("nothing")
    with pytest.raises(KroghError, match=r"unknown column 'width'; did you mean 'model\.width'\?"):
        open_study(tmp_path / "copy").curves("width")


def test_what_is_not_there_or_damaged_is_one_clear_error(tmp_path, reference):
    with pytest.raises(KroghError, match="no study under"):
        open_study(tmp_path / "nowhere")
    for name in ("a", "b"):
        shutil.copytree(reference.folder, tmp_path / "two" / name)
    with pytest.raises(KroghError, match="holds 2 studies"):
        open_study(tmp_path / "two")
    copy = tmp_path / "two" / "a"
    study = open_study(copy)
    with pytest.raises(KroghError, match="keeps no weights"):
        study.weights(1)
    with pytest.raises(KroghError, match=r"no curves: they have no probes \(give them some, .*probes="):
        study.curves()
    with pytest.raises(KroghError, match="no measured table 'x'"):
        study.measures["x"]
    (copy / "trials.parquet").write_bytes((copy / "trials.parquet").read_bytes()[:-40])
    with pytest.raises(KroghError, match=r"trials\.parquet is damaged"):
        _ = open_study(copy).table
    (copy / "claims.json").write_text(json.dumps({"schema": 1}))
    with pytest.raises(KroghError, match="krogh judge"):
        _ = open_study(copy).claims
    (copy / "claims.json").unlink()
    with pytest.raises(KroghError, match="no claims yet"):
        _ = open_study(copy).claims


def test_records_are_read_only_from_a_sound_file(reference, tmp_path):
    folder = tmp_path / "parity"
    shutil.copytree(reference.folder, folder)
    table = pl.read_parquet(folder / "trials.parquet")
    table.with_columns(pl.col("steps") + 1).write_parquet(folder / "trials.parquet")  # whole, and not what was written
    with pytest.raises(KroghError, match=r"trials\.parquet is damaged: it is not what the study wrote"):
        _ = open_study(folder).records
