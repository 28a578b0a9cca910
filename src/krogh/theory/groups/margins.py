"""Maximum margins of networks that compose groups or multiply bits (dissertation, chapter 7 and appendix D).

One hidden layer without biases, activation x² for a group and x^k for a parity of k bits, norm L_{2,ν} with ν = 3 and
k+1. Groups are given by name ("S_5", "Z_71", "D_4xD_4") or as a file with a Cayley table; S_7 to S_12 by characters.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from krogh.errors import KroghError, require
from krogh.theory.groups.finite import finite_lambda
from krogh.theory.groups.maximum import (
    MaxMargin,
    closed_form,
    max_margin_group,
    max_margin_parity,
    sign_condition,
    subset_certificate,
    theorem_7_7,
    theorem_7_9,
)
from krogh.theory.groups.problems import ParityProblem, characters_of, cyclic_order
from krogh.theory.groups.weighted import class_masses, uniform_masses, weighted_maximum
from krogh.theory.prediction import prediction

Theorem = Literal["any", "7.7", "7.8", "7.9"]


@prediction(
    "algebra/max-margin",
    source="dissertation, Theorems 7.7, 7.8 and 7.9 and section D.9.2",
    constants="all explicit; the linear program's value is enclosed to a relative 1e-12",
)
def max_margin(group: str | None = None, k: int | None = None, theorem: Theorem = "any") -> dict[str, Any]:
    """The largest normalised margin on a group's table or on a parity, with what proves it.

        Z_p, p odd: √(2/27)/(√p(p-1));  parity: k!√(2(k+1)^-(k+1));  a group: 2/(3√(3|G|) Σ d^2.5) over its irreps
        but the trivial one, if Σ d^1.5 χ(C) < 0 for every class C but the identity's, else by linear program

    `theorem` asks for one theorem under its own assumptions. `conditions` are the sums per class, `irrep_shares` the
    shares of Σ‖ω_i‖^ν in a maximum-margin network, `class_weights` the weights on wrong labels that prove the value.
    """
    best = _by_theorem(group, k, theorem)
    found: dict[str, Any] = {"value": best.value, "theorem": best.theorem, "sufficient_width": best.width}
    if group is not None:
        characters = characters_of(group)
        found |= {
            "order": characters.order,
            "condition_holds": all(value < 0 for value in best.conditions.values()),
            "real_type": characters.real_type,
            "closed_form": closed_form(characters),
            "duality_gap": best.gap,
            "conditions": best.conditions,
        }
    return found | {"irrep_shares": best.irrep_shares, "class_weights": best.class_weights}


def _by_theorem(group: str | None, k: int | None, theorem: Theorem) -> MaxMargin:
    _require_one(group, k)
    if k is not None:
        require(theorem in ("any", "7.8"), f"a parity is the subject of Theorem 7.8; got theorem={theorem!r}")
        return max_margin_parity(k)
    assert group is not None
    if theorem == "7.9":
        return theorem_7_9(group)
    if theorem == "7.7":
        p = cyclic_order(group)
        if p is None:
            raise KroghError(f"Theorem 7.7 is about addition modulo p; got group={group!r} (try group=Z_71)")
        theorem_7_7(p)
    elif theorem != "any":
        raise KroghError(f"a group is the subject of Theorems 7.7 and 7.9; got theorem={theorem!r}")
    return max_margin_group(group)


@prediction(
    "algebra/sign-condition",
    source="dissertation, Theorem 7.9 and Lemma D.14 (signs and normalisation repaired)",
    constants="all explicit",
)
def sign_conditions(group: str) -> dict[str, Any]:
    """Whether Theorem 7.9 applies: Σ d^1.5 χ(C) over the non-trivial irreps, which must be negative in every class C.

    Irreps that are not of real type, which the theorem excludes, count by their real dimension D and commutant e:
    D^1.5 χ(C)/e. Class weights of Lemma D.14 are -|C| times these sums over Σ D^2.5/e.
    """
    condition = sign_condition(group)
    return {
        "holds": condition.holds,
        "theorem_applies": condition.holds and condition.real_type,
        "largest": max(condition.values.values()),
        "failing": condition.failing,
        "values": condition.values,
        "real_type": condition.real_type,
        "not_of_real_type": condition.other_kinds,
    }


@prediction(
    "algebra/subset-certificate",
    source="dissertation, section D.9.2 (normalisation of the weights repaired)",
    constants="all explicit",
)
def chosen_subsets(group: str, irreps: tuple[int, ...], classes: tuple[int, ...]) -> dict[str, Any]:
    """The margin that chosen irreps and classes of wrong labels prove, and why they do not prove it is the maximum.

        Σ_C A[R, C] P_C equal for all chosen R, ΣP = 1;   Σ_R x_R A[R, C] equal for all chosen C, Σx = 1

    Irreps and classes are numbered from 1, in the order of `algebra/max-margin`'s shares and weights, as many of one as
    of the other. `failing` is empty where the value is the maximum.
    """
    characters = characters_of(group)
    found = subset_certificate(characters, irreps, classes)
    return {
        "value": found.value,
        "max_margin": max_margin_group(group).value,
        "proves_the_maximum": not found.failing,
        "failing": found.failing,
        "irrep_shares": dict(zip(characters.irrep_names[1:], found.irrep_shares.tolist(), strict=True)),
        "logit_shares": dict(zip(characters.irrep_names[1:], found.logit_shares.tolist(), strict=True)),
        "class_weights": dict(zip(characters.class_names[1:], found.class_weights.tolist(), strict=True)),
    }


@prediction(
    "algebra/weighted-margin",
    source="dissertation, Lemmas D.11 and D.13 (factor 2 repaired)",
    constants="all explicit",
)
def weighted_margin(
    group: str, weights: Literal["uniform", "optimal"] = "uniform", masses: tuple[float, ...] | None = None
) -> dict[str, Any]:
    """The largest class-weighted margin of a neuron of norm 1, an upper bound on every normalised margin.

        V = 2/(3√3 |G|^1.5) max_R (1/√d_R)(1 - Σ_C P_C χ_R(C)/d_R)

    P_C are the weights of the classes of wrong labels: "uniform" over labels, "optimal" as in `algebra/max-margin`, or
    the given `masses`, one per class but the identity's. Uniform ones prove too little where an irrep has d > 1.
    """
    characters = characters_of(group)
    best = max_margin_group(group)
    if masses is not None:
        chosen = class_masses(characters, masses)
    else:
        chosen = uniform_masses(characters) if weights == "uniform" else class_masses(characters, best.class_weights)
    found = weighted_maximum(characters, chosen)
    return {
        "value": found.value,
        "max_margin": best.value,
        "ratio": found.value / best.value,
        "closes_the_gap": found.value <= best.value * (1 + 1e-9),
        "best_irreps": found.best,
        "irreps": found.irreps,
        "class_weights": dict(zip(characters.class_names[1:], chosen.tolist(), strict=True)),
    }


@prediction(
    "algebra/finite-lambda",
    source="dissertation, Theorem 7.1 for the limit; the optimum at finite lambda is derived",
    constants="all explicit; convex program solved to a relative 1e-10, for the penalty λ Σ‖ω_i‖^ν and any width",
)
def finite_penalty(lam: float, group: str | None = None, k: int | None = None) -> dict[str, Any]:
    """The global optimum of cross-entropy plus λ Σ‖ω_i‖^ν over networks of every width, at the given λ.

        min_{x ≥ 0} log(1 + Σ_C |C| exp(-Σ_R x_R B[R,C])) + λ Σ_R x_R,  B = 2/(3|G|)^1.5 (d_R - χ_R(C))/d_R^1.5

    Z_p with p odd and parities: margin ln((Y-1)(1-q)/q) with q = λ/γ* and Y labels, and the normalised margin is γ*.
    Elsewhere it is below γ* and rises like 1/log(1/λ). From `threshold` on the zero network is optimal.
    """
    _require_one(group, k)
    found = finite_lambda(group if k is None else ParityProblem(k, k=k), lam)  # type: ignore[arg-type]
    return {
        "zero_is_optimal": found.zero,
        "threshold": found.threshold,
        "margin": found.margin,
        "cross_entropy": found.cross_entropy,
        "norm": found.rho,
        "normalised_margin": found.normalised_margin,
        "max_margin": found.max_margin,
        "ratio": found.ratio,
        "irrep_shares": found.shares,
        "optimality_residual": found.residual,
        "duality_gap": found.gap,
        "method": found.method,
    }


@prediction(
    "algebra/memoriser-margin",
    source="dissertation, section D.4; margins derived",
    constants="all explicit",
)
def memoriser_margin(group: str) -> dict[str, Any]:
    """The normalised margin of a network that memorises a group's table with 2|G|² neurons, against the maximum.

        as printed, with output weights 1/4:  1/(2|G|²·2.0625^1.5);   balanced:  2/(3√3 |G|²)

    On Z_p with p odd the balanced ratio is √2(p-1)/p^1.5: fitting the table needs no Fourier structure, but costs about
    √(p/2) of margin.
    """
    best = max_margin_group(group)
    n = characters_of(group).order
    printed, balanced = 1 / (2 * n**2 * 2.0625**1.5), 2 / (3 * math.sqrt(3) * n**2)
    return {
        "width": 2 * n**2,
        "printed": printed,
        "balanced": balanced,
        "max_margin": best.value,
        "printed_ratio": printed / best.value,
        "balanced_ratio": balanced / best.value,
    }


def _require_one(group: str | None, k: int | None) -> None:
    given = f"group={group!r}, k={k!r}"
    require((group is None) != (k is None), f"give either group (such as S_5) or k, the bits of a parity; got {given}")
