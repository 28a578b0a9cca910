"""Weights written by hand, in safetensors files that say what they are.

A vector or dense matrix is one tensor under its name; a sparse matrix is three, `NAME.data`, `NAME.indices` and
`NAME.indptr` (compressed rows). What stands under several names (the same object) is stored once. The header's entry
"krogh" is JSON: what the writer says of the network, under "matrices" the shapes of the sparse matrices, and under
"same" the names that stand for another's array.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from scipy.sparse import csr_array

from krogh.errors import KroghError, require
from krogh.files import destination, write_atomically

Weights = dict[str, csr_array | NDArray[Any]]

PARTS = ("data", "indices", "indptr")
UNFIT = (KeyError, IndexError, ValueError, TypeError, AttributeError)
"""What a header with other contents than were written can lead to, here and where it is read on."""


def require_writable(path: str | os.PathLike[str]) -> None:
    """Refuse what names no file, or a file in no folder, before anything is computed for it."""
    target = Path(path)
    names_a_file = target.name not in ("", "..") and not target.is_dir()
    hint = str(target / "weights.safetensors")
    require(names_a_file, f"weights are written to a file; got {str(path)!r} (try {hint!r})")
    folder = target.parent
    require(folder.is_dir(), f"the weights cannot be written to {str(target)!r}: no folder {str(folder)!r}")


def write_file(path: str | os.PathLike[str], weights: Mapping[str, Any], header: Mapping[str, Any]) -> Path:
    """Write arrays and sparse matrices; the file appears whole or not at all."""
    require_writable(path)
    target = destination(Path(path))
    tensors: dict[str, NDArray[Any]] = {}
    shapes: dict[str, list[int]] = {}
    same: dict[str, str] = {}
    first: dict[int, str] = {}
    for name, value in weights.items():
        if first.setdefault(id(value), name) != name:
            same[name] = first[id(value)]
        elif isinstance(value, csr_array):
            tensors |= {f"{name}.{part}": np.ascontiguousarray(getattr(value, part)) for part in PARTS}
            shapes[name] = [int(size) for size in value.shape]
        else:
            tensors[name] = np.asarray(value, order="C")  # ascontiguousarray would make a scalar a vector
    notes = {key: value for key, value in (("matrices", shapes), ("same", same)) if value}
    content = safetensors.numpy.save(tensors, {"krogh": json.dumps({**header, **notes})})
    try:
        write_atomically(target, content, parents=False)
    except OSError as cause:
        raise KroghError(f"the weights cannot be written to {str(target)!r}: {cause.strerror}") from None
    return target


def read_file(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Weights]:
    """The header and the arrays of a file; the header is empty where the file has none of ours."""
    source = Path(path)
    require(source.is_file(), f"no file {str(source)!r} with weights")
    try:
        with safe_open(source, framework="numpy") as file:
            text = (file.metadata() or {}).get("krogh", "{}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as cause:
        raise KroghError(f"{str(source)!r} cannot be read as safetensors: {cause}") from None
    try:
        header = json.loads(text)
    except json.JSONDecodeError:
        header = {}
    if not isinstance(header, dict):
        return {}, tensors
    try:
        return header, _assembled(header, tensors)
    except UNFIT as cause:
        raise damaged(source, cause) from None


def damaged(path: str | os.PathLike[str], cause: Exception) -> KroghError:
    """A file whose parts do not fit together."""
    return KroghError(f"{str(path)!r} is damaged: {cause}; write it again")


def require_same_shapes(expected: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """What a header says fixes every name, kind and shape; the values are the file's own."""
    for name in sorted(expected.keys() | given.keys()):
        should, has = (_shape(one[name]) if name in one else None for one in (expected, given))
        require(should == has, f"parameter {name!r} should have the shape {should} and has {has}")


def _shape(value: Any) -> str:
    return f"{tuple(value.shape)}{', sparse' if isinstance(value, csr_array) else ''}"


def _assembled(header: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Weights:
    weights: Weights = {}
    for name, shape in header.get("matrices", {}).items():
        matrix = csr_array(tuple(tensors.pop(f"{name}.{part}") for part in PARTS), shape=tuple(shape))
        matrix.check_format(full_check=True)
        weights[name] = matrix
    weights |= tensors
    return weights | {name: weights[original] for name, original in header.get("same", {}).items()}
