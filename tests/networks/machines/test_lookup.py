"""What allows attention to be looked up is checked: thresholds and signs of weights, binary vectors."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.machines.compiled import compile_machine
from krogh.networks.machines.lookup import LookupNetwork, lookup_of, require_binary
from krogh.networks.machines.running import run_machine
from krogh.programs.machines.library import load_machine


def changed(compiled, name, change):
    """The same machine with one parameter changed in place of a copy."""
    value = compiled.parameters[name].copy()
    change(value if isinstance(value, np.ndarray) else value.data)
    return dataclasses.replace(compiled, parameters=compiled.parameters | {name: value})


@pytest.fixture(scope="module")
def compiled():
    return compile_machine(load_machine("parity"), 6)


def test_codes_are_the_signs_of_queries_and_keys(compiled):
    """Every attention, random binary vectors: the integer's bits are the signs that the matrices give."""
    p, random = compiled.parameters, np.random.default_rng(0)
    attentions = [name.removesuffix(".Wq") for name in p if name.endswith(".Wq")]
    assert len(attentions) == compiled.bits + 3
    for prefix in attentions:
        lookup = lookup_of(p, prefix)
        h = random.integers(0, 2, (compiled.width, 20)).astype(float)
        for which, codes in (("q", lookup.queries(h)), ("k", lookup.keys(h))):
            signs = p[f"{prefix}.W{which}"] @ h + p[f"{prefix}.b{which}"][:, None]
            assert set(np.unique(signs[:-1])) <= {-1.0, 1.0}
            powers = 2 ** np.arange(len(signs) - 1)[::-1]
            np.testing.assert_array_equal(codes, powers @ (signs[:-1] > 0))
        assert lookup.gap == 1.0


def put(place, value):
    def change(entries):
        entries[place] = value

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("L6.dec.K0", put(-1, 1.5), "null key must be"),
        ("L6.dec.K0", put(0, 1.0), "null key must be"),
        ("L7.dec.Wq", put(0, 2.5), "rows of Wq, bq must be 2h - 1 or ±1"),
        ("L7.dec.bk", put(1, -0.9), "rows of Wk, bk must be 2h - 1 or ±1"),
        ("L7.dec.bq", put(-1, 2.0), "null key must be"),
        ("L11.enc.bk", put(-1, 1.0), "null key must be"),
    ],
)
def test_other_attention_is_refused(compiled, name, change, message):
    with pytest.raises(KroghError, match=rf"{name[:-3]}.*no attention that only exact matches win.*{message}.*dense"):
        LookupNetwork(changed(compiled, name, change))


def test_vectors_that_are_not_binary_are_noticed(compiled):
    with pytest.raises(KroghError, match=r"before layer 3 are not binary \(an entry is 0\.5 away"):
        run_machine(changed(compiled, "L2.ff.b3", put(0, 0.5)), ["01"], method="lookup")
    with pytest.raises(KroghError, match="of the encoder are not binary"):
        run_machine(changed(compiled, "E", put(1, 0.5)), ["01"], method="lookup")
    for bad in ([[0.0, 2.0]], [[np.nan]], [[-1.0]], [[1e-12]]):
        with pytest.raises(KroghError, match="here are not binary"):
            require_binary(np.array(bad), "here")
    require_binary(np.array([[0.0, 1.0]]), "here")


def test_soft_attention_cannot_be_looked_up():
    soft = compile_machine(load_machine("parity"), 6, attention="soft")
    with pytest.raises(KroghError, match="soft attention gives weight to all positions"):
        run_machine(soft, ["01"], method="lookup")


def test_coordinates_that_stay_zero_are_left_out(compiled):
    network = LookupNetwork(compiled)
    for layer in network.layers:
        assert len(layer.after) < compiled.width / 2 or layer.number == 1
    assert set(compiled.layout["st"]) <= set(network.outputs) and len(network.outputs) == 5 + 3 + compiled.bits
