"""What the lemmas on recurrent networks are written in: ρ, ϱ, orders of magnitude in logarithms, the range of ε_x.

    ρ = 100 L d ln m                   L = `length`, d = `outputs`, m = `width`
    ϱ = 100 L d p C ln m / ε           C = C_ε(Φ, √L) for sums over tokens, C_ε(Φ, 1/ε_x) for whole sequences

ρ is in the thousands for the smallest network, and bounds have powers like ρ^11 m^(-1/12), so that none says anything
about its value at a width that exists: only exponents are of use. Constants that the sources hide in O(), Ω(), Θ() are
taken as 1, polynomials that they do not give as a power of their argument, `power`.

**Outside a theorem's range.** An ε_x that a theorem does not allow is refused, with the condition and its value: it is
chosen freely. What a theorem asks of width or samples (m ≥ ρ^46) no network fulfils, and is reported beside the
numbers: `log_width_needed`, `wide_enough`. So is ε below a bound with hidden polynomials.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from krogh.errors import require, require_integer
from krogh.theory.numerics import exp_or_inf
from krogh.theory.prediction import check_open, prediction
from krogh.theory.recurrence.complexity import Concepts


@dataclass(frozen=True)
class Network:
    """A ReLU Elman network: sequences of L = `length` inputs, m = `width` units, d = `outputs`."""

    length: int
    width: int
    outputs: int = 1

    def __post_init__(self) -> None:
        require_integer("length", self.length, 3)
        require_integer("width", self.width, 2)
        require_integer("outputs", self.outputs, 1)

    @property
    def rho(self) -> float:
        """ρ = 100 L d ln m."""
        return rho(self.length, self.outputs, self.width)

    @property
    def log_rho(self) -> float:
        """ln ρ."""
        return math.log(self.rho)

    @property
    def log_width(self) -> float:
        """ln m."""
        return math.log(self.width)

    @property
    def log_length(self) -> float:
        """ln L."""
        return math.log(self.length)

    @property
    def root_length(self) -> float:
        """√L, the radius at which sums over tokens are judged."""
        return math.sqrt(self.length)


def rho(length: int, outputs: int, width: int) -> float:
    """ρ = 100 L d ln m."""
    return 100 * length * outputs * math.log(width)


def log_varrho(network: Network, concepts: Concepts, eps: float, radius: float | None = None) -> float:
    """ln ϱ = ln(100 L d p C_ε(Φ, R) ln m / ε), with R = √L unless given."""
    log_c = concepts.log_c_eps(network.root_length if radius is None else radius, eps)
    return network.log_rho + math.log(concepts.terms) + log_c - math.log(eps)


def order(name: str, logarithm: float) -> dict[str, float]:
    """A number that is only an order of magnitude, with its logarithm, which does not overflow."""
    return {f"{name}_order": exp_or_inf(logarithm), f"log_{name}_order": logarithm}


def log_add(*logarithms: float) -> float:
    """ln Σ exp."""
    return float(np.logaddexp.reduce(logarithms))


def check_eps_x(eps_x: float, network: Network, theorem: str) -> None:
    """Require 0 < ε_x < 1/L, as every lemma on a random network does."""
    check_open("eps_x", eps_x, 0)
    limit = 1 / network.length
    require(
        eps_x < limit,
        f"eps_x is outside the range of {theorem}: eps_x < 1/L = {limit:.4g} for L = {network.length}; "
        f"got eps_x={eps_x:g} (try {limit / 2:.3g})",
    )


def check_power(power: float) -> None:
    """Require the exponent that stands for a polynomial to be positive."""
    check_open("power", power, 0)


@prediction(
    "recurrence/scales",
    source="Can SGD learn RNNs, section 4; Learning in RNNs, section 3.4",
    constants="all explicit, given C* of the complexity",
)
def scales(eps: float, network: Network, concepts: Concepts, eps_x: float | None = None) -> dict[str, Any]:
    """The two numbers in which bounds on recurrent networks are written, rho and varrho.

        rho = 100 L d ln m;   varrho = rho p C_eps(Φ,R)/eps,  R = sqrt(L) for sums, 1/eps_x for whole sequences

    Bounds hold but for a probability of exp(-Ω(rho²)), `log_failure_order` = -rho².
    """
    found: dict[str, Any] = {
        "rho": network.rho,
        "log_varrho_sums": log_varrho(network, concepts, eps),
        "log_failure_order": -(network.rho**2),
    }
    if eps_x is not None:
        check_eps_x(eps_x, network, "Lemma B.1")
        found["log_varrho_whole"] = log_varrho(network, concepts, eps, 1 / eps_x)
    return found
