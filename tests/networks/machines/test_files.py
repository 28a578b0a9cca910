"""Compiled machines written to files and run again from them alone."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import safetensors.numpy
from safetensors import safe_open

from krogh.errors import KroghError
from krogh.networks.handmade import load_network
from krogh.networks.machines.checks import check_machine
from krogh.networks.machines.compiled import compile_machine
from krogh.programs.machines.library import load_machine


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("palindrome", {}),
        ("busy-beaver-3", {"adder": "ripple", "correction": False}),
        ("parity", {"attention": "soft", "input_length": 9, "position_bits": 7}),
    ],
)
def test_a_file_holds_all_that_is_needed(tmp_path, name, options):
    compiled = compile_machine(load_machine(name), 25, **options)
    path = compiled.save(tmp_path / "weights.safetensors")
    loaded = load_network(path)
    assert loaded.machine == compiled.machine
    for field in ("steps", "input_length", "bits", "adder", "correction", "inverse_temperature", "layer_names"):
        assert getattr(loaded, field) == getattr(compiled, field), field
    assert list(loaded.parameters.keys() ^ compiled.parameters.keys()) == []
    dense = loaded.dense_parameters()
    for key, value in compiled.dense_parameters().items():
        np.testing.assert_array_equal(dense[key], value)
    if loaded.attention == "hard":
        assert check_machine(loaded, ["", compiled.machine.default_input or ""]).holds
    assert [entry.name for entry in tmp_path.iterdir()] == ["weights.safetensors"]


def test_the_weights_are_the_file_s_own(tmp_path):
    compiled = compile_machine(load_machine("parity"), 5)
    turned = dataclasses.replace(compiled, parameters=compiled.parameters | {"cls": -compiled.parameters["cls"]})
    loaded = load_network(turned.save(tmp_path / "w.safetensors"))
    assert check_machine(loaded, ["1"]).details["wrong_outputs"] == 1


def rewritten(path, change):
    """The file with tensors and header changed."""
    with safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["krogh"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(tensors, header)
    path.write_bytes(safetensors.numpy.save(tensors, {"krogh": json.dumps(header)}))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors, header: tensors.pop("cls"), "parameter 'cls' should have the shape"),
        (lambda tensors, header: tensors.pop("E.data"), "damaged: 'E.data'"),
        (lambda tensors, header: header["recipe"].pop("steps"), "damaged: 'steps'"),
        (lambda tensors, header: header.update(kind="engine"), "kind='engine'"),
        (lambda tensors, header: header["recipe"].update(bits=9), "should have the shape"),
        (lambda tensors, header: header["recipe"]["machine"].update(start=77), "start holds state numbers"),
        (lambda tensors, header: tensors.update({"E.indices": 99 + tensors["E.indices"]}), "damaged"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path, change, message):
    path = compile_machine(load_machine("parity"), 5).save(tmp_path / "w.safetensors")
    with pytest.raises(KroghError, match=message) as caught:
        load_network(rewritten(path, change))
    assert "w.safetensors" in str(caught.value)
