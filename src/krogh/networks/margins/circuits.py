"""Certified lower bounds on the all-layer margin of ReLU networks that compute circuits.

`certify_circuit` gives two bounds. `theorem` is (D.5) with the constants of `theorem.block_constants`:

    rounding    κ_ξ = √(2·18 + (√2 + 2s)² + 1) ≈ 6.25, whatever its width, σ_ζ = 1/3
    gates       κ_θ = √(2‖W_2‖² + (‖W_1‖ + ‖b_1⁺‖ + 2s)² + 1),  μ = (‖W_1‖ + s)(‖W_2‖ + s)
    the first   μ_0 = κ_θ max(‖x‖, 1)
    last layer  κ_θ = √2,  μ = 2 + s;   λ = √r

`refined` follows the proof layer by layer (`propagation`), and asks of each coordinate, not of their norm, to be within
the radius of rounding. It also bounds networks without correction, to which the theorem does not apply; that bound
falls with the depth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from krogh.errors import require
from krogh.networks.margins.layers import Block, blocks_of, require_binary, rounding_radius, true_sizes
from krogh.theory.numerics import largest_row_norm, operator_norm_bound
from krogh.theory.programs.theorem import (
    Certificate,
    Constants,
    Spread,
    TheoremBound,
    after_layer,
    after_rounding,
    best_bound,
    block_constants,
    largest,
)


@dataclass(frozen=True)
class _Norms:
    """Of a block: operator norms of its layers, gains to one coordinate of its output, norms of positive biases."""

    layers: tuple[float, ...]
    rows: tuple[float, ...]
    biases: tuple[float, ...]


def certify_circuit(network: Any, inputs: ArrayLike | None = None) -> Certificate:
    """Both bounds for a compiled circuit or its parameters by name, for each of its outputs.

    They hold for all binary inputs, or for the `inputs` [batch, m] given, where they may be larger.
    """
    blocks = blocks_of(network if isinstance(network, Mapping) else network.parameters)
    *body, last = blocks
    require(last.kind == "linear" and body and body[0].kind == "gates", "a network of gates ends with a linear layer")
    radii = _checked(blocks)
    sizes = true_sizes(blocks, inputs)
    norms = [_norms(block) for block in blocks]
    refined = largest(lambda t: _withstands(blocks, norms, radii, sizes, t))
    corrected = _is_corrected(body)
    theorem = _theorem(blocks, norms, radii, sizes) if corrected else None
    count = "all binary inputs" if inputs is None else f"the {len(np.asarray(inputs))} inputs given"
    return Certificate(theorem, refined, count)


def _checked(blocks: Sequence[Block]) -> dict[str, float]:
    """The radius of every rounding, after checking that gates are gates, roundings round all they must, F is ±1."""
    radii = {}
    for before, block in zip((None, *blocks), blocks, strict=False):
        if block.kind == "gates":
            require_binary(block)
        elif block.kind == "round":
            radii[block.name], rounded = rounding_radius(block.layers, block.name)
            assert before is not None
            weight, bias = before.layers[-1]
            used = np.flatnonzero((np.diff(weight.indptr) > 0) | (bias != 0))
            require(np.isin(used, rounded).all(), f"{block.name} does not round all that {before.name} returns")
        elif block.kind == "pass":
            for weight, bias in block.layers:
                ones = np.all(weight.data == 1) and np.all(np.diff(weight.indptr) <= 1)
                require(ones and not np.any(bias), f"{block.name} must hand on single coordinates as they are")
        else:
            weight, bias = block.layers[0]
            signs = np.all(weight.data == 2) and np.all(np.diff(weight.indptr) == 1) and np.all(bias == -1)
            require(signs, f"{block.name} must be z ↦ 2z - 1 of one coordinate for each output")
    return radii


def _is_corrected(body: Sequence[Block]) -> bool:
    kinds = [block.kind for block in body]
    gates = [place for place, kind in enumerate(kinds) if kind == "gates"]
    return all(place + 1 < len(kinds) and kinds[place + 1] == "round" for place in gates)


def _norms(block: Block) -> _Norms:
    if block.kind == "linear":  # one output at a time
        weight, bias = block.layers[0]
        return _Norms((largest_row_norm(weight),), (largest_row_norm(weight),), (float(np.max(np.maximum(bias, 0))),))
    return _Norms(
        tuple(operator_norm_bound(weight) for weight, _ in block.layers),
        block.row_norms,
        tuple(float(np.linalg.norm(np.maximum(bias, 0))) for _, bias in block.layers),
    )


def _withstands(
    blocks: Sequence[Block], norms: Sequence[_Norms], radii: dict[str, float], sizes: list[list[float]], t: float
) -> bool:
    """Whether no perturbation of norm t takes a coordinate out of reach of its rounding, or an output across 0."""
    spread, coordinate = Spread(sizes[0][0]), 0.0
    for block, norm, size in zip(blocks, norms, sizes[1:], strict=True):
        if block.kind == "round":
            if not coordinate * t < radii[block.name]:
                return False
            spread = after_rounding(spread, t)
            continue
        # to one coordinate of the block's output: from before the block, and from the parameters of each layer
        parts = [norm.rows[0] * spread.gain]
        for place, layer_norm in enumerate(norm.layers):
            beyond = norm.rows[place + 1] if place + 1 < len(norm.rows) else 1.0
            parts.append(beyond * spread.own(t))
            spread = after_layer(spread, t, layer_norm, size[place])
        coordinate = math.hypot(*parts)
    return coordinate * t < 1


def _theorem(
    blocks: Sequence[Block], norms: Sequence[_Norms], radii: dict[str, float], sizes: list[list[float]]
) -> TheoremBound:
    """(D.5): f_0 is the first block of gates, f_1.. the others, f_d what follows the last rounding."""
    ends = [place for place, block in enumerate(blocks) if block.kind == "round"]
    rounds = [norms[place] for place in ends]
    tail = norms[ends[-1] + 1 :]
    final = _Norms(
        sum((norm.layers for norm in tail), ()),
        sum((norm.rows for norm in tail), ()),
        sum((norm.biases for norm in tail), ()),
    )
    later = [norm for block, norm in zip(blocks[1:], norms[1:], strict=True) if block.kind == "gates"] + [final]
    lam = max(1.0, *(sizes[place + 1][-1] for place in ends))
    x = max(1.0, sizes[0][0])

    def constants(s: float) -> Constants:
        pairs = [block_constants(norm.layers, norm.biases, s) for norm in later]
        return Constants(
            s=s,
            lam=lam,
            sigma_zeta=min(radii.values()),
            sigma_h=math.inf,
            kappa_xi=max(block_constants(norm.layers, norm.biases, s)[0] for norm in rounds),
            kappa_theta=max(kappa for kappa, _ in pairs),
            mu=max(mu for _, mu in pairs),
            mu_0=block_constants(norms[0].layers, norms[0].biases, s)[0] * x,
        )

    return best_bound(constants, 1.0)
