"""The claims about networks that compose a group, made of what was measured at the end of training.

S_3, S_4 and S_5 at the source's settings have thresholds of their own, which hold the exact optimum at its λ: the
margin stays below γ* there. Those for every other group were set before any was trained:

    margin        at least 0.95 of the exact optimum's, and never above γ*; still rising, where irreps are left out
    loss          at most 1.05 of its exact minimum
    shares        at most 0.05 in total variation from the optimum's
    neurons       0.99 of the power in one irrep, 0.99 of the largest class-weighted margin
    function      at most 0.01 from the optimum's (1 - cosine of the logits)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy import stats

from krogh.experiments.algebra.cyclic_runs import median_claim, never_exceeded
from krogh.experiments.algebra.group_measures import Measured, left_out
from krogh.lab import Claim

MARGIN, LOSS, SHARES, POWER, EFFICIENCY, FUNCTION, UNUSED = 0.95, 1.05, 0.05, 0.99, 0.99, 0.01, 0.05
ANY_GROUP = "dissertation, Theorem 7.9 and section D.9.2, for a group of one's own"

Make = Callable[..., Claim]


@dataclass(frozen=True)
class Criteria:
    """The reference's criteria for one of the source's figures; what is None is judged as for every group."""

    source: str
    ratio: tuple[float, float]
    share_difference: float | None = None
    median_power: float | None = None
    trivial: bool = False
    cross_entropy: float | None = None


CRITERIA = {
    "S_3": Criteria("dissertation, Figure D.2", (0.96, 0.985), share_difference=0.005, trivial=True),
    "S_4": Criteria("dissertation, Figure D.3", (0.91, 0.95), share_difference=0.01, median_power=0.999),
    "S_5": Criteria("dissertation, Figure 7.6", (0.80, 0.94), cross_entropy=0.09),
}


def group_claims(measured: Measured) -> list[Claim]:
    """What the networks of one group show."""
    plan, runs = measured.plan, measured.runs
    criteria = CRITERIA.get(plan.name) if plan.preset else None
    source = ANY_GROUP if criteria is None else criteria.source
    remark = f" ({'; '.join(plan.remarks)})" if plan.remarks else ""

    def found(what: str, statement: str, statistic: str, values: pl.Series, **words: object) -> Claim:
        return median_claim(
            f"{plan.name}-{what}",
            f"{plan.name}: {statement}{remark}",
            statistic,
            values,
            source=source,
            **words,  # type: ignore[arg-type]
        )

    curves = [np.asarray(network.curve["normalised_margin"]) / plan.best.value for network in measured.networks]
    bound = f"γ* = {plan.best.value:.5g} of {plan.name} ({plan.best.theorem})"
    return [
        never_exceeded(f"{plan.name}-bound", [*curves, runs["ratio"].to_numpy()], bound, source),
        *(_subset_claims(found, measured, curves) if plan.best.failing else _margin_claims(found, measured, criteria)),
        *_irrep_claims(found, measured, criteria),
        *_optimum_claims(found, measured),
    ]


def _margin_claims(found: Make, measured: Measured, criteria: Criteria | None) -> list[Claim]:
    plan, runs = measured.plan, measured.runs
    best = f"γ* = {plan.best.value:.5g}"
    value = f"approaches γ*; {plan.optimum.ratio:.4g} γ* at the exact optimum for λ = {plan.lam:g}"
    if criteria is None:
        return [
            found(
                "margin",
                f"the normalised margin comes near that of the exact optimum at λ = {plan.lam:g}, "
                f"{plan.optimum.ratio:.4g} of {best}.",
                "normalised margin over the optimum's",
                runs["relative"],
                at_least=MARGIN,
                source_value=value,
            )
        ]
    low, high = criteria.ratio
    statistic = "normalised margin over γ*"
    made = [
        found(
            "margin",
            f"the normalised margin approaches {best}.",
            statistic,
            runs["ratio"],
            at_least=low,
            source_value=value,
        ),
        found(
            "margin-below",
            f"it stays below, as the exact optimum at λ = {plan.lam:g} does.",
            statistic,
            runs["ratio"],
            at_most=high,
            source_value=value,
        ),
    ]
    if criteria.cross_entropy is not None:
        made.append(
            found(
                "cross-entropy",
                f"the cross-entropy comes near the exact optimum's, {plan.optimum.cross_entropy:.3g}.",
                "mean cross-entropy over all pairs",
                runs["cross_entropy"],
                at_most=criteria.cross_entropy,
                source_value="not given",
            )
        )
    return made


def _irrep_claims(found: Make, measured: Measured, criteria: Criteria | None) -> list[Claim]:
    plan, runs = measured.plan, measured.runs
    wanted = ", ".join(f"{name}: {share:.3g}" for name, share in plan.optimum.shares.items())
    shares: dict[str, object] = {"source_value": f"{_shortened(wanted)} at the exact optimum for λ = {plan.lam:g}"}
    if criteria is None or criteria.share_difference is None:
        made = [
            found(
                "shares",
                "the irreps have the shares of Σ‖ω_i‖³ that the exact optimum gives them.",
                "total variation between the shares and the optimum's",
                runs["shares"],
                at_most=SHARES,
                **shares,
            )
        ]
    else:
        made = [
            found(
                "shares",
                "the irreps have the shares of Σ‖ω_i‖³ that the exact optimum gives them.",
                "largest difference between an irrep's share and the optimum's",
                runs["share_difference"],
                at_most=criteria.share_difference,
                **shares,
            )
        ]
    one: dict[str, object] = {"source_value": "1: every neuron lies in one irrep"}
    if criteria is not None and criteria.median_power is not None:
        made.append(
            found(
                "one-irrep-median",
                "u, v and w of a typical neuron lie in one irrep.",
                "median largest normalised power over kept neurons and u, v, w",
                runs["power_median"],
                at_least=criteria.median_power,
                **one,
            )
        )
    made.append(
        found(
            "one-irrep",
            "u, v and w of a neuron lie in one irrep.",
            "least of u, v and w of the largest normalised power, weighted by ‖ω_i‖³",
            runs["power"],
            at_least=POWER,
            **one,
        )
    )
    if criteria is not None and criteria.trivial:
        made.append(
            found(
                "no-trivial",
                "no neuron lies in the trivial irrep.",
                "kept neurons in the trivial irrep",
                runs["trivial"],
                at_most=0.0,
                source_value="none",
            )
        )
    if criteria is not None:
        made.append(
            found(
                "larger-irreps",
                "irreps of larger dimension have more neurons.",
                "rank correlation (Kendall's τ_b) of neurons and dimension over the non-trivial irreps",
                rank_correlations(measured.irreps),
                above=0.0,
                source_value="higher-dimensional irreps have more neurons (no number)",
            )
        )
    return made


def _optimum_claims(found: Make, measured: Measured) -> list[Claim]:
    plan, runs = measured.plan, measured.runs
    failing = sorted(
        {text.split(" fails")[0] for line in runs["failing"] for text in str(line).split("; ") if " fails" in text}
    )
    apart = f"; what keeps the certificate open is {' and '.join(failing)}" if failing else ""
    return [
        found(
            "loss",
            "gradient descent finds the global minimum of cross-entropy + λ Σ‖ω_i‖³.",
            "loss over its exact minimum",
            runs["loss"],
            at_most=LOSS,
            source_value="1 at the optimum",
        ),
        found(
            "optimal-neurons",
            f"neurons are optimal ones, of which maximum-margin networks consist{apart}.",
            "class-weighted margin E[g'(θ/‖θ‖)] over its upper bound γ*",
            runs["efficiency"],
            at_least=EFFICIENCY,
            source_value="1 (Lemma 7.6)",
        ),
        found(
            "function",
            f"the logits are those of the exact optimum at λ = {plan.lam:g}, up to scale.",
            "1 − cosine between the logits, less their mean over labels, and the optimum's",
            runs["function"],
            at_most=FUNCTION,
            source_value="0 at the optimum",
        ),
    ]


def _subset_claims(found: Make, measured: Measured, curves: list[np.ndarray]) -> list[Claim]:
    """Where the condition of Theorem 7.9 fails, maximum-margin networks leave irreps out (section D.9.2).

    Those that come close to the optimal ones fade slowly, and the margin with them: it is asked to rise.
    """
    plan = measured.plan
    reached = measured.runs["relative"].drop_nans().to_numpy()
    typical = f"{np.median(reached):.3g}" if len(reached) else "an unknown part"
    out = left_out(plan)
    risen = [float(curve[-1] - curve[len(curve) // 2]) for curve in curves]
    suppressed = [
        found(
            "unused-irreps",
            f"the irreps that maximum-margin networks leave out ({_shortened(', '.join(out))}) are suppressed.",
            "their share of Σ‖ω_i‖³",
            measured.runs["unused"],
            at_most=UNUSED,
            source_value="0 at the maximum margin",
        )
    ]
    return [
        *(suppressed if out else []),
        found(
            "margin-rises",
            f"the normalised margin rises to the end, to {typical} of the exact optimum's at λ = {plan.lam:g}.",
            "rise of normalised margin over γ* from half of the steps to all",
            pl.Series(risen),
            above=0.0,
            source_value="tends to γ* as λ → 0",
        ),
    ]


def rank_correlations(irreps: pl.DataFrame) -> pl.Series:
    """Kendall's τ_b of neurons and dimension over the non-trivial irreps, for each network."""
    found = []
    for _, own in irreps.group_by("seed", maintain_order=True):
        rows = own.slice(1)
        found.append(float(stats.kendalltau(rows["neurons"].to_numpy(), rows["dimension"].to_numpy()).statistic))
    return pl.Series(found, dtype=pl.Float64)


def _shortened(text: str, longest: int = 120) -> str:
    return text if len(text) <= longest else text[: longest - 1].rsplit(",", 1)[0] + ", …"
