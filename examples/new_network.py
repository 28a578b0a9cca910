"""New handmade networks: the AND of some bits in a model of the laboratory, and a recurrent parity of its own kind."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import krogh
from krogh.networks import Checked, Construction, Handmade, construct, construction, handmade, load_network
from krogh.networks.handmade import sizes_of
from krogh.networks.sparse_functions import SparseTable
from krogh.tasks.sparse_boolean import SparseBoolean


@construction("bits/and", source="folklore")
def conjunction(n: int, s: int) -> Construction:
    """The AND of the first s of n bits in one ReLU: 2·relu(Σ_{i<s} b_i - (s-1)) - 1, where b = (1-x)/2."""
    task = SparseBoolean(n, s, table="and")
    weights = {"W": np.where(np.arange(n) < s, -0.5, 0.0)[None, :], "b": [1 - s / 2], "u": [2.0], "c": -1.0}
    labels = np.where(np.arange(2**s) == 2**s - 1, 1.0, -1.0)  # the oracle: a truth table
    statement = f"2·relu(Σ_(i<{s}) b_i - {s - 1}) - 1 = ±1 as the first {s} of {n} bits are all true or not"
    oracle = SparseTable(n, tuple(range(s)), labels)
    return Construction("bits/and", task, krogh.Mlp(1, output_bias=True), weights, statement, 1, oracle)


@handmade("bit counter")
@dataclass(frozen=True, eq=False)
class BitCounter(Handmade):
    """Parity, one bit at a time: h_t = relu(h_{t-1} - b_t) + relu(b_t - h_{t-1}), and the output is h_n."""

    n: int
    parameters: Mapping[str, np.ndarray]
    name = "bit counter"

    @property
    def statement(self):
        return f"h_{self.n} is the parity of {self.n} bits"

    @property
    def size(self):
        return {"width": 2, **sizes_of(self.parameters)}

    def run(self, bits, /):
        hidden = np.zeros(len(bits))
        for bit in np.asarray(bits, float).T:
            units = np.outer(hidden, self.parameters["w"]) + np.outer(bit, self.parameters["v"])
            hidden = np.maximum(units, 0.0) @ self.parameters["r"]
        return hidden

    def check(self):
        bits = (np.arange(2**self.n)[:, None] >> np.arange(self.n)) & 1
        error = float(np.abs(self.run(bits) - np.bitwise_count(np.arange(2**self.n)) % 2).max())
        return Checked(error == 0, len(bits), True, error, f"outputs on all {len(bits):,} inputs")

    def recipe(self):
        return {"n": self.n}

    @classmethod
    def from_recipe(cls, recipe: Mapping[str, Any]):
        return bit_counter(recipe["n"])

    def with_parameters(self, parameters):
        return replace(self, parameters=parameters)


def bit_counter(n: int) -> BitCounter:
    ends = np.array([1.0, -1.0])
    return BitCounter(n, {"w": ends, "v": -ends, "r": np.ones(2)})


for network in (construct("bits/and", n=8, s=3), bit_counter(8)):
    print(network.statement, network.size, network.check().words, sep="\n  ")
    with tempfile.TemporaryDirectory() as folder:
        again = load_network(network.save(Path(folder) / "weights.safetensors"))
    assert again.check().holds and again.statement == network.statement
    largest = max(network.parameters, key=lambda name: np.abs(network.parameters[name]).max())
    faulty = network.with_parameters({**network.parameters, largest: 1.1 * network.parameters[largest]})
    assert not faulty.check().holds, "a check must be able to fail"
