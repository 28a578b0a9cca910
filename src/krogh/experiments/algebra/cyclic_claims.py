"""The claims about networks that add modulo p, made of what was measured at the end of training.

Thresholds are the reference's criteria for Figures 7.1, 7.4 and D.1; those of distances are derived from them before
anything was measured:

    a vector with the share P of its power in a cosine has the cosine √P with it, so that P ≥ 0.99 and 0.85 are
    distances (2(1 - √P))^½ ≤ 0.1 and 0.4;  shares within 20% of the optimum's differ by ½·0.2 in total variation;
    a margin of 0.95 γ* leaves a gap of 0.05, and the same is asked of the function's cosine
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from krogh.experiments.algebra.cyclic_runs import FEWEST, median_claim, never_exceeded
from krogh.lab import Claim
from krogh.theory.margins import FiniteLambda

NEURONS, SHARES, FUNCTION, GAP = 0.1, 0.1, 0.05, 0.05
RELU_NEURONS = 0.4


def quadratic_claims(
    p: int, optimum: FiniteLambda, table: pl.DataFrame, curves: Sequence[ArrayLike], source: str
) -> list[Claim]:
    """Quadratic neurons under L_{2,3}: the subject of Theorem 7.7. `curves` are normalised margins at every step."""
    head, name = f"Z_{p}, quadratic", f"Z_{p}-quadratic"
    gamma = optimum.max_margin
    ratios = [*(np.asarray(curve) / gamma for curve in curves), table["ratio"].to_numpy()]

    def found(what: str, statement: str, statistic: str, values: Any, source_value: str, **bound: Any) -> Claim:
        full = f"{head}: {statement}"
        return median_claim(
            f"{name}-{what}", full, statistic, values, source=source, source_value=source_value, **bound
        )

    return [
        never_exceeded(f"{name}-bound", ratios, f"γ* = {gamma:.5g} (p = {p})", "dissertation, Theorem 7.7"),
        found(
            "margin",
            "the normalised margin approaches the maximum.",
            "the normalised margin over γ*",
            table["ratio"],
            f"approaches γ* = {gamma:.4g}; 1 at the optimum for every λ",
            at_least=0.95,
        ),
        found(
            "logit-margin",
            f"the margin is that of the exact optimum at λ = {optimum.lam:g}, {optimum.margin:.4g}.",
            "|margin / optimum − 1|",
            (table["margin"] / optimum.margin - 1).abs(),
            "not given",
            at_most=0.06,
        ),
        found(
            "cross-entropy",
            f"the cross-entropy is that of the exact optimum at λ = {optimum.lam:g}, {optimum.cross_entropy:.4g}.",
            "|cross-entropy / optimum − 1|",
            (table["cross_entropy"] / optimum.cross_entropy - 1).abs(),
            "not given",
            at_most=0.02,
        ),
        found(
            "one-frequency",
            "u, v and w of a neuron have one frequency.",
            "the least of u, v and w of the largest normalised power, weighted by ‖ω_i‖³",
            table["power"],
            "almost exactly 1 for all neurons (Figure 7.4c)",
            at_least=0.99,
        ),
        found(
            "same-frequency",
            "it is the same in u, v and w.",
            "the share of kept neurons in which it is",
            table["agreement"],
            "all (Theorem 7.7)",
            at_least=0.99,
        ),
        found(
            "all-frequencies",
            "every frequency is used.",
            "the share of frequencies with a kept neuron",
            table["present"],
            "all present (Figure D.1)",
            at_least=1.0,
        ),
        found(
            "equal-shares",
            "the frequencies have equal shares of Σ‖ω_i‖³.",
            "the share of frequencies within 20% of 2/(p−1)",
            table["even_shares"],
            "close to uniform (Figure D.1, by counts)",
            at_least=0.9,
        ),
        found(
            "certificate",
            "the certificate's gap to the upper bound closes "
            f"({_typical(table, 'gap_of_neurons')} by neurons that are not optimal, {_typical(table, 'gap_of_logits')} "
            "by inputs and labels off the margin).",
            "the gap of lower and upper bound over γ*",
            table["gap"],
            "0 at the maximum (Lemma 7.6)",
            at_most=GAP,
        ),
        *distance_claims(f"{name}-", head, table, source),
    ]


def distance_claims(prefix: str, head: str, table: pl.DataFrame, source: str, fewest: int = FEWEST) -> list[Claim]:
    """Is it what theory describes, whatever the frequencies, phases and signs? The distance from that family."""

    def found(what: str, statement: str, statistic: str, bound: float) -> Claim:
        return median_claim(
            f"{prefix}distance-{what}",
            f"{head}: {statement}",
            statistic,
            table[what],
            source=source,
            source_value="0 at the maximum",
            fewest=fewest,
            at_most=bound,
        )

    return [
        found(
            "neurons",
            "neurons are near optimal ones.",
            "the root mean square distance of ω_i/‖ω_i‖ from the nearest optimal neuron, weighted by ‖ω_i‖^ν",
            NEURONS,
        ),
        found(
            "shares",
            "what theory says to be equal has equal shares of Σ‖ω_i‖^ν.",
            "the total variation between the shares and the optimum's",
            SHARES,
        ),
        found(
            "function",
            "the logits are those of a maximum-margin network, up to scale.",
            "1 − cosine between the logits, less their mean over labels, and the optimum's",
            FUNCTION,
        ),
    ]


def relu_claims(p: int, table: pl.DataFrame, source: str) -> list[Claim]:
    """ReLU neurons under L_2: no theorem, nearly the same features."""
    head, name = f"Z_{p}, ReLU", f"Z_{p}-relu"
    shared: dict[str, Any] = {
        "statistic": "the median largest normalised power over kept neurons and u, v, w",
        "values": table["power_median"],
        "source": source,
        "source_value": "concentrated around 0.9 (Figure 7.4b)",
    }
    return [
        median_claim(f"{name}-power-low", f"{head}: neurons nearly have one frequency.", at_least=0.85, **shared),
        median_claim(f"{name}-power-high", f"{head}: but not exactly.", at_most=0.97, **shared),
        median_claim(
            f"{name}-all-frequencies",
            f"{head}: every frequency is used.",
            "the share of frequencies with a kept neuron",
            table["present"],
            source=source,
            source_value="all present (Figure D.1)",
            at_least=1.0,
        ),
        median_claim(
            f"{name}-distance-neurons",
            f"{head}: neurons are not far from the optimal quadratic ones (the function is at "
            f"{_typical(table, 'function')} from theirs, the shares at {_typical(table, 'shares')}).",
            "the root mean square distance of ω_i/‖ω_i‖ from the nearest optimal neuron, weighted by ‖ω_i‖²",
            table["neurons"],
            source=source,
            source_value="no theorem; nearly sinusoids (Figure 7.1a)",
            at_most=RELU_NEURONS,
        ),
    ]


def _typical(table: pl.DataFrame, column: str) -> str:
    """The median of a column in words."""
    known = table[column].drop_nans().drop_nulls().to_numpy()
    return f"{np.median(known):.2g}" if len(known) else "an unknown amount"
