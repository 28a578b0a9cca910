"""Trained weights on request, as safetensors: one file per batch of finished trials."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np


def write_weights(folder: Path, ids: np.ndarray, weights: dict[str, np.ndarray]) -> Path:
    """Write stacked weights; the tensor `id` holds the trials' identities along the same first axis."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{int(ids[0]):016x}-{len(ids)}.safetensors"
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    tensors = {name: np.ascontiguousarray(array) for name, array in weights.items()}
    save_file({"id": ids.astype(np.uint64), **tensors}, temporary)
    temporary.replace(path)
    return path


def read_weights(folder: Path, identity: int) -> dict[str, np.ndarray]:
    """The weights of one trial by its identity (the table's column `id`)."""
    from safetensors.numpy import load_file

    for path in sorted(folder.glob("*.safetensors")):
        tensors = load_file(path)
        place = np.flatnonzero(tensors.pop("id") == np.uint64(identity))
        if len(place):
            return {name: array[place[0]] for name, array in tensors.items()}
    raise KeyError(f"no weights of trial {identity} in {folder}")
