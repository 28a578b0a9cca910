"""Files of weights written by hand: what goes in comes out, and what does not fit together is refused."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import safetensors.numpy
from scipy.sparse import csr_array

from krogh.errors import KroghError
from krogh.networks.handmade import load_network
from krogh.networks.weight_files import read_file, require_same_shapes, write_file

SPARSE = csr_array(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, -1.0]]))
WEIGHTS = {"W": SPARSE, "b": np.arange(3.0), "c": np.float64(4.0), "F": np.asfortranarray(np.ones((2, 3)))}


def test_what_is_written_is_read(tmp_path):
    written = write_file(tmp_path / "w", WEIGHTS, {"kind": "net", "note": "ä"})
    assert [path.name for path in tmp_path.iterdir()] == ["w"] and written == tmp_path / "w"
    header, weights = read_file(written)
    assert header["note"] == "ä" and header["matrices"] == {"W": [2, 3]}
    require_same_shapes(WEIGHTS, weights)
    assert isinstance(weights["W"], csr_array) and (weights["W"] != SPARSE).nnz == 0
    assert weights["c"].shape == () and weights["c"] == 4.0
    for name in ("b", "F"):
        np.testing.assert_array_equal(weights[name], WEIGHTS[name])


def test_a_file_that_cannot_be_replaced_is_left_alone(tmp_path, monkeypatch):
    write_file(tmp_path / "w", {"b": np.zeros(1)}, {"kind": "net"})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(KroghError, match=r"cannot be written to .*: No space left on device"):
        write_file(tmp_path / "w", {"b": np.ones(1)}, {"kind": "net"})
    assert [path.name for path in tmp_path.iterdir()] == ["w"]
    assert read_file(tmp_path / "w")[1]["b"] == 0


@pytest.mark.parametrize(
    "header",
    [{"matrices": [1]}, {"matrices": {"W": 3}}, {"matrices": {"W": [2, 3]}}, {"matrices": {"b": [1, 1]}}],
)
def test_headers_that_do_not_fit(tmp_path, header):
    text = json.dumps({"kind": "net", **header})
    safetensors.numpy.save_file({"b": np.zeros(1)}, tmp_path / "w", {"krogh": text})
    with pytest.raises(KroghError, match=r"is damaged: .*; write it again"):
        read_file(tmp_path / "w")


def test_indices_outside_a_matrix_are_found(tmp_path):
    parts = {"W.data": np.ones(1), "W.indices": np.array([7]), "W.indptr": np.array([0, 1])}
    header = {"krogh": json.dumps({"kind": "net", "matrices": {"W": [1, 2]}})}
    safetensors.numpy.save_file(parts, tmp_path / "w", header)
    with pytest.raises(KroghError, match="is damaged"):
        read_file(tmp_path / "w")


def test_an_automaton_that_is_none_is_damage(tmp_path):
    header = {"krogh": json.dumps({"kind": "automaton", "recipe": {"automaton": 3, "correction": False}})}
    safetensors.numpy.save_file({"b": np.zeros(1)}, tmp_path / "w", header)
    with pytest.raises(KroghError, match="is damaged"):
        load_network(tmp_path / "w")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"W": SPARSE.toarray()}, r"'W' should have the shape \(2, 3\), sparse and has \(2, 3\)"),
        ({"W": SPARSE.T.tocsr()}, r"'W' should have the shape \(2, 3\), sparse and has \(3, 2\), sparse"),
        ({}, "'W' should have the shape .* and has None"),
        ({"W": SPARSE, "b": np.zeros(1)}, r"'b' should have the shape None and has \(1,\)"),
    ],
)
def test_kinds_and_shapes_must_be_the_same(given, said):
    with pytest.raises(KroghError, match=said):
        require_same_shapes({"W": SPARSE}, given)
