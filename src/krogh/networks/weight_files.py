"""Weights written by hand, in safetensors files that say what they are.

A vector or dense matrix is one tensor under its name; a sparse matrix is three, `NAME.data`, `NAME.indices` and
`NAME.indptr` (compressed rows). The header's entry "krogh" is JSON: what the writer says of the network, and under
"matrices" the shapes of the sparse ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from scipy.sparse import csr_array

from krogh.errors import KroghError, require
from krogh.files import write_atomically

Weights = dict[str, csr_array | NDArray[Any]]

PARTS = ("data", "indices", "indptr")
UNFIT = (KeyError, IndexError, ValueError, TypeError, AttributeError)


def write_file(path: str | os.PathLike[str], weights: Mapping[str, Any], header: Mapping[str, Any]) -> Path:
    """Write arrays and sparse matrices; the file appears whole or not at all."""
    target = Path(path)
    names_a_file = target.name not in ("", "..") and not target.is_dir()
    hint = str(target / "weights.safetensors")
    require(names_a_file, f"weights are written to a file; got {str(path)!r} (try {hint!r})")
    tensors: dict[str, NDArray[Any]] = {}
    shapes: dict[str, list[int]] = {}
    for name, value in weights.items():
        if isinstance(value, csr_array):
            tensors |= {f"{name}.{part}": np.ascontiguousarray(getattr(value, part)) for part in PARTS}
            shapes[name] = [int(size) for size in value.shape]
        else:
            tensors[name] = np.asarray(value, order="C")  # ascontiguousarray would make a scalar a vector
    described = json.dumps({**header, **({"matrices": shapes} if shapes else {})})
    try:
        write_atomically(target, safetensors.numpy.save(tensors, {"krogh": described}), parents=False)
    except OSError as cause:
        raise KroghError(f"the weights cannot be written to {str(target)!r}: {cause.strerror}") from None
    return target


def read_file(
    path: str | os.PathLike[str], what: str, kinds: Collection[str], command: str
) -> tuple[dict[str, Any], Weights]:
    """The header and the arrays of a file that holds `what`: one of `kinds`, as `command` writes it.

    `UNFIT` are the errors that a header with other contents can lead to, here and where it is read on.
    """
    source = Path(path)
    require(source.is_file(), f"no file {str(source)!r} with the weights of a {what}")
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
    kind = header.get("kind") if isinstance(header, dict) else None
    wanted = " or ".join(map(repr, kinds))
    require(
        kind in kinds,
        f"{str(source)!r} holds no {what}: its header says kind={kind!r} where {wanted} is written by `{command}`",
    )
    try:
        return header, _assembled(header, tensors)
    except UNFIT as cause:
        raise damaged(source, cause) from None


def damaged(path: str | os.PathLike[str], cause: Exception) -> KroghError:
    """A file whose parts do not fit together."""
    return KroghError(f"{str(path)!r} is damaged: {cause}; compile it again")


def require_same_shapes(expected: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """What a header says fixes every name, kind and shape; the values are the file's own."""
    for name in sorted(expected.keys() | given.keys()):
        wanted, got = (_shape(one[name]) if name in one else None for one in (expected, given))
        require(wanted == got, f"parameter {name!r} should have the shape {wanted} and has {got}")


def _shape(value: Any) -> str:
    return f"{tuple(value.shape)}{', sparse' if isinstance(value, csr_array) else ''}"


def _assembled(header: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> Weights:
    weights: Weights = {}
    for name, shape in header.get("matrices", {}).items():
        matrix = csr_array(tuple(tensors.pop(f"{name}.{part}") for part in PARTS), shape=tuple(shape))
        matrix.check_format(full_check=True)
        weights[name] = matrix
    return weights | tensors
