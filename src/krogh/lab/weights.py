"""Trained weights on request, as safetensors: one file per batch of finished trials; snapshots in a folder per step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from krogh.errors import KroghError, require
from krogh.lab.store import temporary_beside


def write_weights(folder: Path, ids: np.ndarray, weights: dict[str, np.ndarray]) -> Path:
    """Write stacked weights; the tensor `id` holds the trials' identities along the same first axis."""
    from safetensors.numpy import save_file

    require(
        "id" not in weights, "a parameter may not be called 'id': in a file of weights that is the trial's identity"
    )
    path = folder / f"{int(ids[0]):016x}-{len(ids)}.safetensors"
    tensors = {name: np.ascontiguousarray(array) for name, array in weights.items()}
    with temporary_beside(path) as temporary:
        save_file({"id": ids.astype(np.uint64), **tensors}, temporary)
        temporary.replace(path)
    return path


def snapshot_folder(folder: Path, step: int | None) -> Path:
    """Where the weights at a snapshot's step are; those of the end (None) are in `folder` itself."""
    return folder if step is None else folder / f"step-{step}"


def read_weights(folder: Path, identity: int, step: int | None = None) -> dict[str, np.ndarray]:
    """The weights of one trial by its identity (the table's column `id`), at its end or at a snapshot's step."""
    folder = snapshot_folder(folder, step)
    for ids, file in _opened(folder):
        place = np.flatnonzero(ids == np.uint64(identity))
        if len(place):
            return {name: file.get_slice(name)[int(place[0])] for name in sorted({*file.keys()} - {"id"})}
    raise KroghError(f"no weights of trial {identity} in {folder}")


def weight_ids(folder: Path) -> np.ndarray:
    """Identities of the trials whose weights are in `folder`."""
    return np.concatenate([np.zeros(0, np.uint64), *(ids for ids, _ in _opened(folder))])


def _opened(folder: Path) -> Iterator[tuple[np.ndarray, Any]]:
    """Each file of weights with the identities in it."""
    from safetensors import SafetensorError, safe_open

    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="numpy") as file:
                yield file.get_tensor("id"), file
        except (SafetensorError, OSError) as cause:
            raise KroghError(f"{path} is damaged ({cause}); move it out of the folder") from None
