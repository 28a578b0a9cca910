"""Certified lower bounds on the all-layer margin of networks that read the words of a language.

Recurrent networks h_t = φ(W h_{t-1} + A x_t + b), y = r·h_T, whose h_t are one-hot, so that λ = 1. With rounding after
every step a bound holds for words of every length: modules are the steps, their parameters (W, A, b) are shared between
them, and

    a step      κ_θ = √3,  μ = ‖W‖ + s;   the first, which reads h_0:  μ_0 = √((1 + s)² + 2 + ‖W‖²)
    the output  κ_θ = 1,  μ = ‖r‖ + s

in Theorem D.6. Without rounding errors grow with every symbol, and the bound is for one length.

Counting networks: a head without scores averages T+1 embeddings, and ReLUs read the counts. Scores appear only in
second order, |ŝ| ≤ (1+t)² t²/2, so that weights change by at most a factor e^{2|ŝ|}; from there on layer by layer
(`propagation`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from krogh.errors import require, require_integer
from krogh.networks.margins.layers import layer_of, rounding_radius
from krogh.theory.numerics import largest_row_norm, operator_norm_bound
from krogh.theory.programs.theorem import (
    ROUNDING_NORM,
    SPLIT_NORM,
    Certificate,
    Constants,
    Spread,
    TheoremBound,
    after_layer,
    after_rounding,
    best_bound,
    largest,
)


def certify_automaton(compiled: Any, length: int | None = None) -> Certificate:
    """Both bounds for a compiled automaton: for words of every length with rounding, up to `length` without."""
    weights: Mapping[str, Any] = compiled.parameters
    recurrent, readout = layer_of(weights["W"], weights["b"])[0], float(np.linalg.norm(weights["r"]))
    norm, row = operator_norm_bound(recurrent), largest_row_norm(recurrent)
    if "V1" not in weights:
        require(length is not None, "without rounding the margin falls with the length of words: give the length")
        require_integer("length", length, 0)
        assert length is not None
        refined = largest(lambda t: _reads(norm, readout, length, t))
        return Certificate(None, refined, f"words of at most {length} symbols")
    layers = [layer_of(weights[f"V{k}"], weights[f"c{k}"]) for k in (1, 2)]
    radius, rounded = rounding_radius(layers, "the rounding")
    require(len(rounded) == recurrent.shape[0], "all units of the network must be rounded")
    refined = largest(lambda t: _keeps_on(norm, row, radius, readout, t))
    return Certificate(_theorem(norm, radius, readout), refined, "words of every length")


def certify_counting(compiled: Any) -> Certificate:
    """A bound for a compiled counting network, for all words of its length."""
    layers = [layer_of(layer.weight, layer.bias) for layer in compiled.table.layers]
    norms = [operator_norm_bound(weight) for weight, _ in layers]
    columns = compiled.counts[:, : compiled.head["V"].shape[1]].T.astype(np.float64)
    sizes = [float(np.linalg.norm(columns, axis=0).max())]
    for weight, bias in layers:
        columns = np.maximum(weight @ columns + bias[:, None], 0.0)
        sizes.append(float(np.linalg.norm(columns, axis=0).max()))
    silent = not np.any(compiled.head["Q"]) and not np.any(compiled.head["K"])
    unit = np.allclose(np.linalg.norm(np.vstack([compiled.head["E"], compiled.head["cls"]]), axis=1), 1)
    require(silent and unit, "the head of a counting network has embeddings of norm 1 and no scores")
    value_norm = operator_norm_bound(compiled.head["V"])

    def withstands(t: float) -> bool:
        uneven = math.expm1((1 + t) ** 2 * t**2)
        # by the embeddings and by V, which are apart, and by the weights, in second order
        gain = math.hypot(value_norm + t, 1.0) + (value_norm + t) * uneven / t
        spread = Spread(sizes[0], gain)
        for norm, size in zip(norms, sizes[1:], strict=True):
            spread = after_layer(spread, t, norm, size)
        return spread.gain * t < 1

    return Certificate(None, largest(withstands), f"all words of {compiled.length} symbols")


def _own(spread: Spread, t: float) -> float:
    """√(‖ĥ‖² + 2): W multiplies ĥ, and the column of A and b are added."""
    return math.hypot(spread.reach(t), math.sqrt(2))


def _keeps_on(norm: float, row: float, radius: float, readout: float, t: float) -> bool:
    """Whether a gain of hidden vectors is kept by every step, from h_0 on, within the radius of rounding."""
    gain = 1.0
    for _ in range(100):
        spread = Spread(1.0, gain)
        if not math.hypot(row * gain, _own(spread, t)) * t < radius:
            return False
        after = after_rounding(Spread(1.0, math.hypot(norm * gain, _own(spread, t))), t)
        if after.gain <= gain:
            return math.hypot(readout * gain, spread.reach(t)) * t < 1
        gain = after.gain * (1 + 1e-6)
    return False


def _reads(norm: float, readout: float, length: int, t: float) -> bool:
    """Whether y stays within 1 of ±1 after `length` steps; the same parameters act in each, so errors add up."""
    spread = Spread(1.0, 1.0)
    worst = 0.0
    for step in range(length + 1):
        worst = max(worst, readout * spread.gain + spread.reach(t))
        if step < length:
            spread = Spread(1.0, norm * spread.gain + _own(spread, t))
    return worst * t < 1


def _theorem(norm: float, radius: float, readout: float) -> TheoremBound:
    def constants(s: float) -> Constants:
        return Constants(
            s=s,
            lam=1.0,
            sigma_zeta=radius,
            sigma_h=math.inf,
            kappa_xi=math.hypot(SPLIT_NORM * ROUNDING_NORM, SPLIT_NORM + 2 * s, 1.0),
            kappa_theta=math.sqrt(3),
            mu=max(norm, readout) + s,
            mu_0=math.hypot(1 + s, math.sqrt(2), norm),
        )

    return best_bound(constants, 1.0)
