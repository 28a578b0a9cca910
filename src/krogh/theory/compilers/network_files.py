"""ReLU networks in files (`krogh.theory.weight_files`).

Matrix j is layer{j} and its bias layer{j}.bias; layers that are the same are stored once. The header says which matrix
each layer is, the modules, the width, and notes for people.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from krogh.theory.compilers.networks import Affine, Module, ReluNetwork
from krogh.theory.weight_files import UNFIT, Weights, damaged, read_file, write_file

KIND = "relu-network"


def save_network(network: ReluNetwork, path: str | os.PathLike[str], notes: dict[str, Any] | None = None) -> Path:
    """Write a network; the file appears whole or not at all. `notes` are kept in its header."""
    distinct = list({id(layer): layer for layer in network.layers}.values())
    number = {id(layer): place for place, layer in enumerate(distinct)}
    weights: Weights = {}
    for place, layer in enumerate(distinct):
        weights |= {f"layer{place}": layer.weight, f"layer{place}.bias": layer.bias}
    header = {
        "kind": KIND,
        "layers": [number[id(layer)] for layer in network.layers],
        "modules": [[module.kind, module.layers.start, module.layers.stop] for module in network.modules],
        "width": network.width,
        "depth": network.depth,
        "parameters": network.parameters,
        "one_norm": network.one_norm,
        "notes": notes or {},
    }
    return write_file(path, weights, header)


def load_network(path: str | os.PathLike[str]) -> ReluNetwork:
    """The network that `save_network` wrote."""
    header, weights = read_file(path, "ReLU network", (KIND,), "krogh compile circuit")
    try:
        distinct = [Affine(weights[f"layer{j}"], weights[f"layer{j}.bias"]) for j in range(len(weights) // 2)]
        layers = tuple(distinct[place] for place in header["layers"])
        modules = tuple(Module(kind, slice(start, stop)) for kind, start, stop in header["modules"])
        return ReluNetwork(layers, modules, header["width"])
    except UNFIT as cause:
        raise damaged(path, cause) from None
