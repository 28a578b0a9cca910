"""What a trained network that composes a group is measured by, in float64 (dissertation, Figures 7.6, D.2 and D.3).

margin        normalised margin over γ*, and over that of the exact optimum at the λ of training
loss          cross-entropy + λ Σ‖ω_i‖³ over its exact minimum, which nothing can fall below
irreps        neurons and shares of Σ‖ω_i‖³ per irrep, beside the optimum's; the largest normalised power
certificate   lower ≤ γ* ≤ upper, and which condition keeps them apart (`theory.margins.certify`)
distance      of neurons, shares and function from the optimal networks (`theory.features.distance`)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from krogh.experiments.algebra.cyclic_runs import TrainedNetwork
from krogh.experiments.algebra.group_plan import Plan
from krogh.theory.features.distance import margin_distance
from krogh.theory.features.parts import network_spectrum
from krogh.theory.margins import (
    PairArrays,
    certify,
    characters_of,
    cross_entropy,
    dataset_margin,
    logit_flatness,
    norm,
    offset_maximum,
)

Array = NDArray[np.float64]

MEASURES = (
    "margin", "normalised_margin", "ratio", "relative", "cross_entropy", "loss", "flatness",
    "power", "power_median", "power_least", "agreement", "kept", "trivial",
    "share_difference", "unused", "efficiency", "gap",
    "neurons", "shares", "function", "limit_shares", "limit_function",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Measured:
    """A group's networks: `runs`, a row each; `irreps`, a row per network and irrep; powers before and after training.

    `before` and `after` hold the largest normalised power of u, v and w, of all neurons and of the kept ones.
    """

    plan: Plan
    networks: Sequence[TrainedNetwork]
    runs: pl.DataFrame
    irreps: pl.DataFrame
    before: Array
    after: Array


def measure_group(plan: Plan, networks: Sequence[TrainedNetwork]) -> Measured:
    """Everything about the networks of one plan; a network that diverged has nan throughout."""
    runs, irreps = [], []
    before: list[Array] = []
    after: list[Array] = []
    for trained in networks:
        head = {"group": plan.name, "seed": trained.seed}
        assert isinstance(trained.initial, PairArrays)
        before.append(network_spectrum(trained.initial, plan.group).largest.ravel())
        network = trained.network
        if not isinstance(network, PairArrays) or not np.any(network.neurons):
            runs.append(head | dict.fromkeys(MEASURES, math.nan) | {"failing": "no network"})
            continue
        spectrum = network_spectrum(network, plan.group)
        after.append(spectrum.largest[:, spectrum.kept].ravel())
        rows = irrep_rows(plan, spectrum.counts(), spectrum.shares())
        irreps += [head | row for row in rows]
        runs.append(head | network_measures(plan, network, rows))
    return Measured(
        plan,
        networks,
        pl.DataFrame(runs),
        pl.DataFrame(irreps, schema=IRREPS, orient="row"),
        np.concatenate([np.zeros(0), *before]),
        np.concatenate([np.zeros(0), *after]),
    )


def left_out(plan: Plan) -> tuple[str, ...]:
    """The irreps that no maximum-margin network uses: none where the condition of Theorem 7.9 is negative.

    Their neurons have a smaller class-weighted margin than γ*; several mixtures of the others may be optimal.
    """
    optimal = offset_maximum(plan.group).best
    return tuple(name for name in plan.best.irrep_shares if name not in optimal)


IRREPS = {
    "group": pl.String,
    "seed": pl.Int64,
    "irrep": pl.String,
    "dimension": pl.Int64,
    "neurons": pl.Int64,
    "share": pl.Float64,
    "optimum": pl.Float64,
    "limit": pl.Float64,
}


def irrep_rows(plan: Plan, counts: dict[str, int], shares: dict[str, float]) -> list[dict[str, Any]]:
    """Per irrep, the trivial one first: neurons, and the shares of Σ‖ω_i‖³ here, at the optimum and for λ → 0."""
    characters = characters_of(plan.group)
    return [
        {
            "irrep": name,
            "dimension": round(dimension),
            "neurons": int(counts.get(name, 0)),
            "share": float(shares.get(name, 0.0)),
            "optimum": float(plan.optimum.shares.get(name, 0.0)),
            "limit": float(plan.best.irrep_shares.get(name, 0.0)),
        }
        for name, dimension in zip(characters.irrep_names, characters.dimensions.tolist(), strict=True)
    ]


def network_measures(plan: Plan, network: PairArrays, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The numbers of one network, by name (`MEASURES`), and the conditions of the certificate that fail."""
    group, optimum = plan.group, plan.optimum
    spectrum = network_spectrum(network, group)
    powers = spectrum.largest[:, spectrum.kept]
    proof = certify(network, group)
    near, limit = margin_distance(network, group, plan.lam), margin_distance(network, group)
    entropy, size = cross_entropy(network, group), norm(network) ** 3
    least = optimum.cross_entropy + optimum.lam * optimum.rho
    return {
        "margin": dataset_margin(network, group),
        "normalised_margin": proof.lower,
        "ratio": proof.lower / plan.best.value,
        "relative": proof.lower / optimum.normalised_margin,
        "cross_entropy": entropy,
        "loss": (entropy + plan.lam * size) / least,
        "flatness": logit_flatness(network, group),
        "power": float(spectrum.mean_largest.min()),
        "power_median": float(np.median(powers)),
        "power_least": float(powers.min()),
        "agreement": spectrum.agreement,
        "kept": float(spectrum.kept.sum()),
        "trivial": float(rows[0]["neurons"]),
        "share_difference": max(abs(row["share"] - row["optimum"]) for row in rows),
        "unused": sum(row["share"] for row in rows if row["irrep"] in left_out(plan)),
        "efficiency": proof.expected / proof.upper,
        "gap": proof.gap / proof.upper,
        "neurons": near.neurons,
        "shares": near.shares,
        "function": near.function,
        "limit_shares": limit.shares,
        "limit_function": limit.function,
        "failing": "; ".join(map(str, proof.failing)),
    }
