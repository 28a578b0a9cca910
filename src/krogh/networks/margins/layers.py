"""Layers of a network by what they do, and what a certificate has to know of them.

A *block* is a run of layers h ↦ φ(W h + b) that computes gates ("gates"), rounds ("round"), hands on ("pass"), or ends
the network, without φ ("linear"). Parameters may be dense or sparse, under the names of a compiled circuit: f{i}.W1,
b1, W2, b2 for gates, z{i}.V1, c1, V2, c2 for the rounding after them, p{i}.W, b, and out.W, b.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require
from krogh.theory.numerics import largest_row_norm

Array = NDArray[np.float64]
Layer = tuple[sparse.csr_array, Array]
"""W [out, in] and b [out]."""

EXACT = 1e-12
"""How far the parameters of a rounding may be from thirds: they are float64."""


@dataclass(frozen=True, eq=False)
class Block:
    """Layers that belong together; `name` says where they stand ("f3", "z3", "out")."""

    kind: str
    name: str
    layers: tuple[Layer, ...]

    @property
    def row_norms(self) -> tuple[float, ...]:
        """For each layer, how much one coordinate of the block's output moves where the layer's input moves by 1.

        max_j ‖(|W_L| ... |W_l|)_j‖ for the layers l = 1..L.
        """
        found, product = [], None
        for weight, _ in reversed(self.layers):
            product = abs(weight) if product is None else sparse.csr_array(product @ abs(weight))
            found.append(largest_row_norm(product))
        return tuple(reversed(found))


def layer_of(weight: Any, bias: Any) -> Layer:
    """W and b as a sparse matrix and a vector, with zeros that are stored left out."""
    matrix = sparse.csr_array(weight, dtype=np.float64)
    matrix.eliminate_zeros()
    return matrix, np.asarray(bias, np.float64)


def blocks_of(parameters: Mapping[str, Any]) -> tuple[Block, ...]:
    """The blocks of parameters by the names of a compiled circuit, dense or sparse."""
    require("out.W" in parameters, f"a network ends with out.W and out.b; got {', '.join(sorted(parameters)[:5])}")
    found, used = [], 2
    for place in range(len(parameters)):
        for kind, prefix, letters in (("gates", "f", ("W", "b")), ("round", "z", ("V", "c"))):
            if f"{prefix}{place}.{letters[0]}1" in parameters:
                names = [f"{prefix}{place}.{letter}{k}" for k in (1, 2) for letter in letters]
                first, second = (layer_of(parameters[names[k]], parameters[names[k + 1]]) for k in (0, 2))
                found.append(Block(kind, f"{prefix}{place}", (first, second)))
                used += 4
    for place in range(len(parameters)):
        if f"p{place}.W" in parameters:
            layer = layer_of(parameters[f"p{place}.W"], parameters[f"p{place}.b"])
            found.append(Block("pass", f"p{place}", (layer,)))
            used += 2
    require(
        used == len(parameters),
        f"parameters are f0.W1, ..., z0.V1, ..., p0.W, ..., out.W, out.b, numbered from 0; {len(parameters) - used} "
        f"are not, among {', '.join(sorted(parameters)[:8])}",
    )
    found.append(Block("linear", "out", (layer_of(parameters["out.W"], parameters["out.b"]),)))
    return tuple(found)


def rounding_radius(layers: Sequence[Layer], name: str) -> tuple[float, NDArray[np.intp]]:
    """How far from 0 and 1 coordinates may be to be rounded back, and which coordinates are rounded.

    Checks that the two layers are V_1 = [I; I], c_1 = (-1/3, -2/3), V_2 = [3I, -3I], c_2 = 0 on some coordinates, in
    any order of units, and zero elsewhere: then what is not rounded becomes 0.
    """
    (split, thresholds), (join, last) = layers
    low, high = np.abs(thresholds + 1 / 3) <= EXACT, np.abs(thresholds + 2 / 3) <= EXACT
    sign = sparse.diags_array(low.astype(np.float64) - high)
    coordinates = [np.sort(split[part].indices) for part in (low, high)]
    units = np.diff(split.indptr)
    right = (
        np.array_equal(units, (low | high).astype(units.dtype))
        and np.all(split.data == 1)
        and np.array_equal(coordinates[0], coordinates[1])
        and len(np.unique(coordinates[0])) == len(coordinates[0])
        and abs(join - 3 * split.T @ sign).max() == 0
        and not np.any(last)
        and not np.any(thresholds[~(low | high)])
    )
    require(right, f"{name} is not a rounding 3φ(z - 1/3) - 3φ(z - 2/3) of single coordinates, so it corrects nothing")
    if not len(coordinates[0]):
        return 1 / 3, coordinates[0]
    return float(min(np.min(-thresholds[low]), np.min(1 + thresholds[high]))) - EXACT, coordinates[0]


def require_binary(block: Block) -> None:
    """Check that a block of gates turns bits into bits: each row, over all values of the bits it reads, at most two."""
    (first, inner), (second, outer) = block.layers
    counts = np.diff(first.indptr)
    diagonal = second.diagonal()
    plain = second.nnz == np.count_nonzero(diagonal) and np.all(counts <= 2)
    require(plain, f"{block.name} is not a layer of gates: W2 is diagonal and a row of W1 reads at most two bits")
    weights = np.zeros((len(inner), 2))
    rows = np.repeat(np.arange(len(inner)), counts)
    weights[rows, np.arange(len(rows)) - first.indptr[rows]] = first.data
    bits = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    hidden = np.maximum(weights @ bits.T + inner[:, None], 0.0)
    found = np.maximum(diagonal[:, None] * hidden + outer[:, None], 0.0)
    wrong = np.flatnonzero(~np.isin(found, (0.0, 1.0)).all(axis=1))
    require(
        not len(wrong),
        f"row {wrong[0] if len(wrong) else ''} of {block.name} is not a gate: on bits it must be 0 or 1",
    )


def true_sizes(blocks: Sequence[Block], inputs: ArrayLike | None) -> list[list[float]]:
    """For each block, upper bounds on the norms of what its layers return; the norm of the input stands before.

    Over all binary inputs where none are given: every unit is then between 0 and b + Σ(positive weights). [[‖x‖], ...].
    """
    if inputs is None:
        upper = np.ones(blocks[0].layers[0][0].shape[1])
        found = [[float(np.linalg.norm(upper))]]
        for block in blocks:
            sizes = []
            for weight, bias in block.layers:
                positive = weight.multiply(weight > 0)
                upper = np.maximum(positive @ upper + bias, 0.0)
                sizes.append(float(np.linalg.norm(upper)))
            if block.kind in ("gates", "round"):  # bits, whatever intervals say
                upper = np.minimum(upper, 1.0)
                sizes[-1] = float(np.linalg.norm(upper))
            found.append(sizes)
        return found
    values = np.asarray(inputs, np.float64)
    wide = blocks[0].layers[0][0].shape[1]
    require(
        values.ndim == 2 and values.shape[1] == wide and np.isin(values, (0.0, 1.0)).all(),
        f"inputs are bits of the shape (batch, {wide}); got {values.shape}",
    )
    columns = values.T
    found = [[_largest(columns)]]
    for block in blocks:
        sizes = []
        for weight, bias in block.layers:
            columns = weight @ columns + bias[:, None]
            columns = columns if block.kind == "linear" else np.maximum(columns, 0.0)
            sizes.append(_largest(columns))
        found.append(sizes)
    return found


def _largest(columns: Array) -> float:
    return math.sqrt(float(np.max(np.sum(np.square(columns), axis=0), initial=0.0)))
