"""Certified lower bounds on the all-layer margin of transformers that run Turing machines.

A module is attention and the first matrix of the feedforward block, its correction the other two; parameters are shared
between decoder steps, never within a module. Constants of Theorem D.6, with W the first matrix, gap 1, keys and queries
of D entries ±1, k̄ = max(√D, ‖K_0‖), and s ≤ 1/(10 k̄ (λ + 2)):

    σ_h = 1/(20 k̄)       then a score moves by at most 2/5 + 1/(25 k̄²) < 1/2, and attention keeps to true winners
    μ   = (‖W‖ + s)(1 + ‖W_v‖ + s)
    κ_θ = √((1 + ‖W_v‖ + ν)² + 1 + 2(‖W‖ + s)²),   ν = max(‖b_v‖, ‖V_0‖)
          with ((‖W‖ + s)(‖W_v‖ + s))² more under the root where the embedding E is looked at
    μ_0 = √((λ + s)² + 1 + ‖W‖²)                    for the first step, whose input o_0 is a parameter
    κ_θ = 1, μ = ‖cls‖ + s                          for the classifier

The encoder is not corrected: E enters the module that looks at it. κ_ξ and σ_ζ are those of rounding. λ = √(4W + 6)
bounds every hidden vector, W the bits of a position. `refined` follows the proof layer by layer with the sizes of each
layer, and asks of scores to keep their order and of coordinates to stay within the radius of rounding.

What is taken for granted, and checked by `krogh.theory.compilers`: hidden vectors are bits, winners lead by `gap`,
winners' values are equal, and the output is ±1, on the words at hand. So the bounds are for words on which the machine
halts in time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from krogh.errors import require
from krogh.theory.all_layer.attention_constants import (
    AttentionNorms,
    after_attention,
    attention_norms,
    keeps_winners,
    require_theorem_fits,
)
from krogh.theory.all_layer.certificates import Certificate
from krogh.theory.all_layer.modules import Layer, layer_of, rounding_radius
from krogh.theory.all_layer.operator_norms import largest_row_norm, operator_norm_bound
from krogh.theory.all_layer.propagation import (
    ROUNDING_NORM,
    SPLIT_NORM,
    Spread,
    after_layer,
    after_rounding,
    largest,
)
from krogh.theory.all_layer.theorem import Constants, TheoremBound, best_bound

ONE_HOT = ("st", "sym1", "sym2", "scr1", "scr2", "pair", "v", "y1", "y2")
"""Groups of coordinates of which at most one is 1."""


@dataclass(frozen=True)
class _LayerNorms:
    """Of a transformer layer: ‖W_1‖, its largest row, the radius of rounding, its attention, whether over the input."""

    norm: float
    row: float
    radius: float
    attention: AttentionNorms | None
    over_input: bool


def certify_machine(compiled: Any, *, gap: float = 1.0, deciding: int = 0) -> Certificate:
    """Both bounds for a compiled machine with hard attention, for every word on which it decides within T steps.

    Without correction the theorem does not apply, and errors grow with every layer and step: the bound is then 0.
    `deciding` asks for a classifier of at least so many states, for bounds over all machines of a size.
    """
    require(
        compiled.attention == "hard",
        "certificates are for hard attention: with soft attention what leaks uses up the radius of rounding "
        "(compile with attention='hard')",
    )
    where = f"words on which the machine decides within {compiled.steps} steps"
    if not compiled.correction:
        return Certificate(None, 0.0, where)
    before, *sizes = machine_sizes(compiled)
    encoder = math.sqrt(1 + compiled.bits)
    return certify_transformer(
        compiled.parameters,
        [before, *sizes],
        encoder,
        lam=math.sqrt(4 * compiled.bits + 6),
        gap=gap,
        decide=max(math.sqrt(deciding), float(np.linalg.norm(compiled.parameters["cls"]))),
        where=where,
    )


def certify_transformer(
    parameters: Mapping[str, Any],
    sizes: Sequence[float],
    encoder_size: float,
    *,
    lam: float | None = None,
    gap: float = 1.0,
    decide: float | None = None,
    where: str = "inputs on which hidden vectors are bits and attention has the gap",
) -> Certificate:
    """Both bounds from the parameters by name, dense or sparse, and from the norms of true vectors, which must be bits.

    `sizes` bound the norms before the first layer and after each, `encoder_size` those of encoder vectors, `lam` (the
    largest of these unless given) all of them; `decide` bounds the norm of the classifier (its own unless given).
    """
    depth = sum(name.endswith(".ff.W1") for name in parameters)
    require(
        len(sizes) == depth + 1, f"sizes has a norm before the first layer and after each of {depth}; got {len(sizes)}"
    )
    layers = [_layer_norms(parameters, f"L{place}") for place in range(1, depth + 1)]
    require(layers[0].attention is None, "the first layer must not attend: its input on the first step is a parameter")
    decide = float(np.linalg.norm(np.asarray(parameters["cls"]))) if decide is None else decide
    lam = max(1.0, *sizes, encoder_size) if lam is None else lam
    refined = largest(lambda t: _withstands(layers, sizes, encoder_size, decide, gap, t))
    return Certificate(_theorem(layers, lam, decide, gap), refined, where)


def machine_sizes(compiled: Any) -> list[float]:
    """Norms of true hidden vectors, at most, before the first layer and after each: one-hot groups count once."""
    layout = compiled.layout
    start = np.concatenate([layout[group] for group in ("st", "sym1", "pos1", "pos2")])
    found = [_bits(layout, start)]
    for place in range(1, compiled.depth + 1):
        weight, bias = layer_of(compiled.parameters[f"L{place}.ff.W1"], compiled.parameters[f"L{place}.ff.b1"])
        found.append(_bits(layout, np.flatnonzero((np.diff(weight.indptr) > 0) | (bias != 0))))
    return found


def _bits(layout: Any, used: Any) -> float:
    counts = {group: int(np.isin(places, used).sum()) for group, places in layout.groups.items()}
    return math.sqrt(sum(min(count, 1) if group in ONE_HOT else count for group, count in counts.items()))


def _layer_norms(parameters: Mapping[str, Any], prefix: str) -> _LayerNorms:
    first, *correction = (layer_of(parameters[f"{prefix}.ff.W{k}"], parameters[f"{prefix}.ff.b{k}"]) for k in (1, 2, 3))
    radius, rounded = rounding_radius(correction, f"{prefix}.ff")
    _require_rounded(first, rounded, prefix)
    kinds = [kind for kind in ("dec", "enc") if f"{prefix}.{kind}.Wq" in parameters]
    require(len(kinds) <= 1, f"{prefix} attends twice; certificates are for layers with one attention at most")
    attention = attention_norms(parameters, f"{prefix}.{kinds[0]}") if kinds else None
    return _LayerNorms(operator_norm_bound(first[0]), largest_row_norm(first[0]), radius, attention, kinds == ["enc"])


def _require_rounded(first: Layer, rounded: Any, prefix: str) -> None:
    weight, bias = first
    used = np.flatnonzero((np.diff(weight.indptr) > 0) | (bias != 0))
    require(np.isin(used, rounded).all(), f"{prefix}.ff does not round all that its first matrix returns")


def _withstands(
    layers: Sequence[_LayerNorms], sizes: Sequence[float], encoder_size: float, decide: float, gap: float, t: float
) -> bool:
    """Whether no perturbation of norm t changes what attention looks at, or takes a coordinate beyond rounding.

    A step starts from o_0, which moves by t at most, or from the output of the step before. So a gain g of outputs is
    sought that a step maps to at most g: then all steps have it.
    """
    gain = 1.0
    for _ in range(100):
        last = _step(layers, sizes, encoder_size, gap, gain, t)
        if last is None:
            return False
        if last.gain <= gain:
            return math.hypot(decide * gain, last.size + gain * t) * t < 1
        gain = last.gain * (1 + 1e-6)
    return False


def _step(
    layers: Sequence[_LayerNorms], sizes: Sequence[float], encoder_size: float, gap: float, gain: float, t: float
) -> Spread | None:
    """The output of a decoder step whose input moves by `gain`·t at most; None where something breaks on the way."""
    spread = Spread(sizes[0], gain)
    for layer, size in zip(layers, sizes[1:], strict=True):
        if layer.attention is not None:
            memory = Spread(encoder_size, 1.0) if layer.over_input else spread
            shared = not layer.over_input
            if not keeps_winners(layer.attention, spread, memory, t, shared, gap):
                return None
            spread = after_attention(layer.attention, spread, memory, t, shared)
        if not math.hypot(layer.row * spread.gain, spread.own(t)) * t < layer.radius:
            return None
        spread = after_rounding(after_layer(spread, t, layer.norm, size), t)
    return spread


def _theorem(layers: Sequence[_LayerNorms], lam: float, decide: float, gap: float) -> TheoremBound | None:
    """(D.5) with the constants above; they are for a gap of at least 1."""
    require(gap >= 1, f"the constants of the theorem are for a gap of at least 1; got gap={gap}")
    attentions = [layer.attention for layer in layers if layer.attention is not None]
    for norms in attentions:
        require_theorem_fits(norms, "an attention")
    k = max((norms.largest_key for norms in attentions), default=0.0)

    def constants(s: float) -> Constants:
        pairs = [_kappa_mu(layer, s) for layer in layers]
        return Constants(
            s=s,
            lam=lam,
            sigma_zeta=min(layer.radius for layer in layers),
            sigma_h=1 / (20 * k) if attentions else math.inf,
            kappa_xi=math.hypot(SPLIT_NORM * ROUNDING_NORM, SPLIT_NORM + 2 * s, 1.0),
            kappa_theta=max(1.0, *(kappa for kappa, _ in pairs)),
            mu=max(decide + s, *(mu for _, mu in pairs)),
            mu_0=math.hypot(lam + s, 1.0, layers[0].norm),
        )

    return best_bound(constants, 1 / (10 * k * (lam + 2)) if attentions else 1.0)


def _kappa_mu(layer: _LayerNorms, s: float) -> tuple[float, float]:
    w, norms = layer.norm + s, layer.attention
    if norms is None:
        return math.sqrt(2), w
    parts = [1 + norms.value + norms.value_shift, 1.0, math.sqrt(2) * w]
    if layer.over_input:
        parts.append(w * (norms.value + s))
    return math.hypot(*parts), w * (1 + norms.value + s)
