"""ReLU networks in files: safetensors with the sparse matrices, and in the header what belongs together.

Matrix j is stored as layer{j}.data, .indices, .indptr (compressed rows) and .bias; layers that are the same are stored
once. The header's entry "krogh" is JSON: shapes, which matrix each layer is, modules, width, and notes for people.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import scipy.sparse as sparse

from krogh.errors import KroghError, require
from krogh.theory.compilers.networks import Affine, Module, ReluNetwork

KIND = "relu-network"


def save_network(network: ReluNetwork, path: str | os.PathLike[str], notes: dict[str, Any] | None = None) -> Path:
    """Write a network; the file appears whole or not at all. `notes` are kept in its header."""
    target = Path(path)
    names_a_file = target.name not in ("", "..") and not target.is_dir()
    hint = str(target / "weights.safetensors")
    require(names_a_file, f"weights are written to a file; got {str(path)!r} (try {hint!r})")
    distinct = list({id(layer): layer for layer in network.layers}.values())
    number = {id(layer): place for place, layer in enumerate(distinct)}
    tensors = {}
    for place, layer in enumerate(distinct):
        for name, array in (
            ("data", layer.weight.data),
            ("indices", layer.weight.indices.astype(np.int32)),
            ("indptr", layer.weight.indptr.astype(np.int64)),
            ("bias", layer.bias),
        ):
            tensors[f"layer{place}.{name}"] = np.ascontiguousarray(array)
    header = {
        "kind": KIND,
        "shapes": [list(map(int, layer.weight.shape)) for layer in distinct],
        "layers": [number[id(layer)] for layer in network.layers],
        "modules": [[module.kind, module.layers.start, module.layers.stop] for module in network.modules],
        "width": network.width,
        "depth": network.depth,
        "parameters": network.parameters,
        "one_norm": network.one_norm,
        "notes": notes or {},
    }
    partial = target.with_name(target.name + ".partial")
    try:
        partial.write_bytes(safetensors.numpy.save(tensors, {"krogh": json.dumps(header)}))
        os.replace(partial, target)
    except OSError as cause:
        partial.unlink(missing_ok=True)
        raise KroghError(f"the weights cannot be written to {str(target)!r}: {cause.strerror}") from None
    return target


def load_network(path: str | os.PathLike[str]) -> ReluNetwork:
    """The network that `save_network` wrote."""
    require(Path(path).is_file(), f"no file {str(path)!r} with a network")
    try:
        with safetensors.safe_open(str(path), framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("krogh", "{}"))
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError, json.JSONDecodeError) as cause:
        raise KroghError(f"{str(path)!r} cannot be read as weights: {cause}") from None
    kind = header.get("kind") if isinstance(header, dict) else None
    require(kind == KIND, f"{str(path)!r} holds no ReLU network; its header names the kind {kind!r}")
    try:
        distinct = [_layer(stored, place, shape) for place, shape in enumerate(header["shapes"])]
        layers = tuple(distinct[place] for place in header["layers"])
        modules = tuple(Module(kind, slice(start, stop)) for kind, start, stop in header["modules"])
        return ReluNetwork(layers, modules, header["width"])
    except (KeyError, IndexError, TypeError, ValueError) as cause:
        raise KroghError(f"{str(path)!r} holds a network that does not fit together: {cause}") from None


def _layer(stored: dict[str, np.ndarray], place: int, shape: list[int]) -> Affine:
    data, indices, indptr, bias = (stored[f"layer{place}.{name}"] for name in ("data", "indices", "indptr", "bias"))
    weight = sparse.csr_array((data, indices, indptr), shape=tuple(shape))
    weight.check_format()
    return Affine(weight, bias)
