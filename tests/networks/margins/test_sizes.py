"""Sizes of compiled circuits and machines, and the labels of their outputs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.circuits import compile_circuit
from krogh.networks.machines.compiled import compile_machine
from krogh.programs.circuits.generators import and_ladder, parity_circuit
from krogh.programs.machines.library import load_machine


@pytest.mark.parametrize("width", [None, 50])
def test_circuits(width):
    compiled = compile_circuit(and_ladder(6, 4), width=width)
    found = compiled.sizes()
    assert found.one_norm == compiled.network.one_norm == 13 * (6 + 6 + 1) + 3
    assert found.depth == 12 and found.width == (width or 12)
    w, m, d = found.width, 6, found.depth
    assert found.parameters == w * m + w + (d - 1) * (w * w + w) + w + 1
    norms = [np.linalg.norm(layer.weight.toarray(), 2) for layer in compiled.network.layers]
    assert found.log_norm_product == pytest.approx(math.log(math.prod(norms)), rel=1e-9)
    assert found.norm_product == pytest.approx(math.prod(norms), rel=1e-9)


def test_the_product_of_norms_grows_exponentially_with_depth_and_the_1_norm_linearly():
    found = [compile_circuit(and_ladder(6, q), correction=False).sizes() for q in (5, 9, 17)]
    logs = [size.log_norm_product for size in found]
    assert logs[1] - logs[0] == pytest.approx(4 * math.log(2)) and logs[2] - logs[1] == pytest.approx(8 * math.log(2))
    assert found[2].one_norm - found[1].one_norm == 2 * (found[1].one_norm - found[0].one_norm)


def test_machines():
    compiled = compile_machine(load_machine("parity"), 6, input_length=5, position_bits=5)
    found = compiled.sizes()
    assert (found.one_norm, found.parameters) == (compiled.one_norm, compiled.parameter_count)
    assert (found.width, found.depth) == (compiled.width, compiled.depth)
    twice = compile_machine(load_machine("parity"), 12, input_length=5, position_bits=5).sizes()
    end = math.log(np.linalg.norm(compiled.parameters["cls"]))
    assert (twice.log_norm_product - end) / (found.log_norm_product - end) == pytest.approx(13 / 7)
    assert compile_machine(load_machine("parity"), 500).sizes().norm_product == math.inf


def test_labels():
    compiled = compile_circuit(parity_circuit(3))
    x = (np.arange(8)[:, None] >> np.arange(3)) & 1
    assert compiled.subject(x).labels == tuple(x.sum(axis=1) % 2)
    machine = compile_machine(load_machine("parity"), 4, input_length=4)
    assert machine.subject(["11", "1"]).labels == (0, 1)
    with pytest.raises(KroghError, match=r"on input 1 is 0, not ±1, so it has no label"):
        machine.subject(["11", "1111"])
    with pytest.raises(KroghError, match="give a list of words; got the text '11'"):
        machine.subject("11")
    with pytest.raises(KroghError, match="output must be an integer between 0 and 0"):
        compiled.subject(x, output=1)
