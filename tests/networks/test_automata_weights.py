"""Compiled automata in files: what is written is read back, whole or not at all."""

from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors.numpy
from safetensors import safe_open

from krogh.errors import KroghError
from krogh.networks.automata import compile_automaton
from krogh.networks.counting import compile_counting
from krogh.networks.handmade import load
from krogh.programs.automata.automaton import words_of_length
from krogh.programs.automata.regex import from_regex

PARITY = from_regex("(0*10*1)*0*", name="even")


@pytest.mark.parametrize("correction", [False, True])
def test_a_recurrent_network_is_read_back(tmp_path, correction):
    compiled = compile_automaton(PARITY, correction=correction)
    file = compiled.save(tmp_path / "even.safetensors")
    found = load(file)
    assert found.automaton == PARITY and found.automaton.name == "even" and found.correction == correction
    assert found.size == compiled.size and found.check(length=6, count=5).holds
    for name, value in compiled.dense_parameters().items():
        assert np.array_equal(found.dense_parameters()[name], value)
    assert [path.name for path in tmp_path.iterdir()] == ["even.safetensors"]
    with safe_open(file, framework="numpy") as opened:
        header = json.loads(opened.metadata()["krogh"])
    assert header["statement"] == compiled.statement and header["size"] == compiled.size


def test_a_counting_network_is_read_back(tmp_path):
    compiled = compile_counting(PARITY, 5)
    found = load(compiled.save(str(tmp_path / "even.safetensors")))
    words = words_of_length(2, 5)
    assert found.length == 5 and np.array_equal(found.run(words), compiled.run(words)) and found.check().holds


def test_the_file_decides_the_values(tmp_path):
    """Weights that were changed are read as they are, and fail their check."""
    file = compile_automaton(PARITY).save(tmp_path / "even.safetensors")
    with safe_open(file, framework="numpy") as opened:
        header, tensors = opened.metadata(), {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    tensors["r"] = -tensors["r"]
    safetensors.numpy.save_file(tensors, file, header)
    found = load(file)
    assert found.readout[-1] == -1 and not found.check(length=2, count=1).holds
    tensors["r"] = tensors["r"][:-1]
    safetensors.numpy.save_file(tensors, file, header)
    with pytest.raises(KroghError, match=r"is damaged: parameter 'r' should have the shape \(5,\) and has \(4,\)"):
        load(file)


def test_files_that_cannot_be_used(tmp_path):
    compiled = compile_automaton(PARITY)
    with pytest.raises(KroghError, match=r"weights are written to a file; got '.*' \(try '.*weights.safetensors'\)"):
        compiled.save(tmp_path)
    with pytest.raises(KroghError, match=r"cannot be written to '.*none/w': no folder"):
        compiled.save(tmp_path / "none" / "w")
    assert not list(tmp_path.iterdir())
    with pytest.raises(KroghError, match=r"no file '.*nowhere'"):
        load(tmp_path / "nowhere")
    (tmp_path / "text").write_text("{}")
    with pytest.raises(KroghError, match="cannot be read as safetensors"):
        load(tmp_path / "text")
    for header in ({}, {"krogh": "{"}, {"krogh": "[]"}, {"krogh": '{"kind": "compiled engine"}'}):
        safetensors.numpy.save_file({"a": np.zeros(1)}, tmp_path / "other", header)
        with pytest.raises(KroghError, match="holds no handmade network: its header says kind="):
            load(tmp_path / "other")
    safetensors.numpy.save_file({"a": np.zeros(1)}, tmp_path / "other", {"krogh": '{"kind": "counting"}'})
    with pytest.raises(KroghError, match="is damaged: 'recipe'; write it again"):
        load(tmp_path / "other")
