"""The exact optimum at finite λ: cross-entropy + λ Σ_i ‖ω_i‖^ν over all networks of any width.

Cross-entropy is convex in the logits, and penalty and task share the symmetries (a, b, c) → (gah, h⁻¹bk, gck) and
(b⁻¹, a⁻¹, c⁻¹), so that an optimal network's logits are a class function of (ab)⁻¹c that does not tell inverses apart:
a mixture of real irreps with weights x_R = Σ ‖ω_i‖³ over the neurons in R:

    min_{x ≥ 0}  log(1 + Σ_{C≠e} |C| exp(-Σ_R x_R B[R,C])) + λ Σ_R x_R,   B = 2/(3|G|)^1.5 (D - χ(C))/D^1.5

The zero network is optimal from λ = 2/(3|G|)^1.5/√D_min on, D_min the least dimension of a non-trivial real irrep.
Where all have one dimension (Z_p for odd p, Z_2^k) and for parities, x is uniform and all is closed, with q = λ/γ*:

    margin = ln((Y-1)(1-q)/q),  cross-entropy = -ln(1-q),  normalised margin = γ*,  zero from q = (Y-1)/Y on, Y labels

The theorem behind the limit λ → 0 is the dissertation's Theorem 7.1; the finite-λ optimum is derived. The penalty's
exponent is ν here; for ‖θ‖^r the effective λ is λ (r/ν) ρ^(r/ν-1), ρ = Σ_i ‖ω_i‖^ν.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from krogh.errors import require
from krogh.theory.groups.maximum import max_margin_group, max_margin_parity, require_one
from krogh.theory.groups.problems import (
    GroupLike,
    ParityProblem,
    RealCharacters,
    characters_of,
    problem_of,
    require_group,
)
from krogh.theory.prediction import prediction

Array = NDArray[np.float64]

TOLERANCE = 1e-10
"""The largest residual of the optimality conditions, relative to λ, and to Σx for what is complementary."""

LEAST_LAMBDA = 1e-300
"""Below, numbers relative to λ leave the range of float64."""

_STEPS = 500


@dataclass(frozen=True, eq=False)
class FiniteLambda:
    """The regularised optimum: logit margin, cross-entropy, ρ = Σ‖ω_i‖^ν, shares of the irreps, and how exact they are.

    `threshold` is the λ from which on the zero network is optimal, `zero` whether this one is beyond; its normalised
    margin is undefined (nan). `residual` is the largest violation of the optimality conditions relative to λ, `gap` the
    distance of the objective from a lower bound that holds whatever the solver did.
    """

    lam: float
    threshold: float
    zero: bool
    margin: float
    cross_entropy: float
    rho: float
    normalised_margin: float
    max_margin: float
    shares: dict[str, float]
    residual: float
    gap: float
    method: str

    @property
    def ratio(self) -> float:
        """Normalised margin over γ*."""
        return self.normalised_margin / self.max_margin


def finite_lambda(problem: GroupLike | ParityProblem, lam: float) -> FiniteLambda:
    """The optimum of cross-entropy + λ Σ_i ‖ω_i‖^ν for a group, Z_p (an integer) or a parity."""
    number = isinstance(lam, int | float | np.number) and not isinstance(lam, bool)
    within = number and LEAST_LAMBDA <= lam < math.inf
    require(within, f"lambda must be a positive number, at least {LEAST_LAMBDA:g}; got lambda={lam!r}")
    if not isinstance(problem, str | int | np.integer | RealCharacters):
        problem = problem_of(problem)
    if isinstance(problem, ParityProblem):
        return _closed(float(lam), max_margin_parity(problem.k).value, 2, {"support": 1.0})
    characters = characters_of(problem)
    require_group(characters)
    best = max_margin_group(characters).value
    dimensions = characters.dimensions[1:]
    names = characters.irrep_names[1:]
    if np.ptp(dimensions) == 0:
        shares = characters.multiplicities[1:] / characters.multiplicities[1:].sum()
        return _closed(float(lam), best, characters.order, dict(zip(names, shares.tolist(), strict=True)))
    threshold = characters.unit / math.sqrt(float(dimensions.min()))
    if lam >= threshold:
        return _zero(float(lam), threshold, best, characters.order, names)
    return _solved(characters, float(lam), threshold, best)


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
    require_one(group, k)
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


def _zero(lam: float, threshold: float, best: float, labels: int, names: tuple[str, ...]) -> FiniteLambda:
    method = f"lambda={lam:g} is not below {threshold:.6g}: the zero network is optimal"
    shares = dict.fromkeys(names, math.nan)
    return FiniteLambda(lam, threshold, True, 0.0, math.log(labels), 0.0, math.nan, best, shares, 0.0, 0.0, method)


def _closed(lam: float, best: float, labels: int, shares: dict[str, float]) -> FiniteLambda:
    """One effective irrep: every wrong logit is the same, at every λ."""
    q, threshold = lam / best, best * (labels - 1) / labels
    if lam >= threshold:
        return _zero(lam, threshold, best, labels, tuple(shares))
    margin = math.log((labels - 1) * (1 - q) / q)
    entropy = -math.log1p(-q)
    method = "closed form: all wrong labels are alike, so that the normalised margin is maximal at every lambda"
    return FiniteLambda(lam, threshold, False, margin, entropy, margin / best, best, best, shares, 0.0, 0.0, method)


def _solved(characters: RealCharacters, lam: float, threshold: float, best: float) -> FiniteLambda:
    """By an interior-point method in y = 2/(3|G|)^1.5 x, μ = λ (3|G|)^1.5/2."""
    unit = characters.unit
    program = Program(characters.payoff(), characters.class_sizes[1:].astype(np.float64), lam / unit)
    y = program.solve()
    residual = program.residual(y)
    require(residual <= TOLERANCE, f"the optimum at lambda={lam:g} is only met to {residual:.2g} relative to lambda")
    margins = y @ program.payoff
    rho = float(y.sum() / unit)
    margin = float(margins.min())
    return FiniteLambda(
        lam,
        threshold,
        False,
        margin,
        program.cross_entropy(y),
        rho,
        margin / rho,
        best,
        dict(zip(characters.irrep_names[1:], (y / y.sum()).tolist(), strict=True)),
        residual,
        program.gap(y),
        "convex program over the irreps' weights, by an interior-point method",
    )


@dataclass(frozen=True, eq=False)
class Program:
    """min_{y ≥ 0} log(1 + Σ_C n_C exp(-(yᵀA)_C)) + μ Σ y: payoffs A [R, C], numbers n [C] of wrong labels, μ."""

    payoff: Array
    sizes: Array
    mu: float

    def cross_entropy(self, y: Array) -> float:
        """log(1 + Σ n_C exp(-(yᵀA)_C)), without overflow."""
        return float(np.log1p(np.exp(np.logaddexp.reduce(self._exponents(y)))))

    def probabilities(self, y: Array) -> Array:
        """The probability of each class of wrong labels over μ, [C]: of order 1 at the optimum however small μ is."""
        exponents = self._exponents(y)
        return np.asarray(np.exp(exponents - np.logaddexp(0.0, np.logaddexp.reduce(exponents)) - math.log(self.mu)))

    def _exponents(self, y: Array) -> Array:
        return np.asarray(np.log(self.sizes) - y @ self.payoff)

    def slack(self, y: Array) -> Array:
        """The gradient over μ, 1 - A p/μ, [R]: zero where y > 0 and not negative elsewhere, at the optimum."""
        return 1.0 - self.payoff @ self.probabilities(y)

    def residual(self, y: Array) -> float:
        """max_R |min(y_R/Σy, slack_R)|: zero exactly at the optimum."""
        return float(np.max(np.abs(np.minimum(y / y.sum(), self.slack(y)))))

    def gap(self, y: Array) -> float:
        """Objective minus the dual objective at the nearest dual point, Σ p ln(n/p) - (1-Σp) ln(1-Σp) with A p ≤ μ."""
        p = self.probabilities(y)
        p = self.mu * p * min(1.0, 1.0 / float(np.max(self.payoff @ p)))
        rest = 1.0 - float(p.sum())
        dual = float(np.sum(p * np.log(self.sizes / np.maximum(p, 1e-300)))) - rest * math.log1p(-float(p.sum()))
        return self.cross_entropy(y) + self.mu * float(y.sum()) - dual

    def solve(self) -> Array:
        """Primal-dual Newton steps on slack(y) = s, y s = σ, with σ → 0; then Newton on the irreps that are used.

        Everything is relative to μ, so that μ of 10^-20 is solved as well as μ of 1.
        """
        rows = len(self.payoff)
        # From where every wrong label is about as unlikely as at the optimum.
        reach = math.log1p(float(self.sizes.sum()) / self.mu) / float(self.payoff.sum(axis=0).min())
        y, s = np.full(rows, reach), np.ones(rows)
        for _ in range(_STEPS):
            size = float(y.sum())
            sigma = 0.1 * float(y @ s) / rows
            if sigma < 1e-24 * size:
                break
            before = self._imbalance(y, s, sigma)
            step_y, step_s = self._newton(y, s, sigma)
            length = min(1.0, 0.995 * _reach(y, step_y), 0.995 * _reach(s, step_s))
            # Far away a Newton step may overshoot; near the optimum what is left of the imbalance is rounding.
            while (
                length > 1e-6
                and before > 1e-9
                and self._imbalance(y + length * step_y, s + length * step_s, sigma) > before
            ):
                length /= 2
            y, s = y + length * step_y, s + length * step_s
        return self._polished(y, s)

    def _imbalance(self, y: Array, s: Array, sigma: float) -> float:
        return float(max(np.max(np.abs(self.slack(y) - s)), np.max(np.abs(y * s - sigma))))

    def _newton(self, y: Array, s: Array, sigma: float) -> tuple[Array, Array]:
        """Steps of y and s; the least ones along directions in which the objective is flat (several optima)."""
        matrix = self._curvature(y) + np.diag(s / y)
        scale = 1.0 / np.sqrt(np.diag(matrix))  # of irreps that are used and not, which differ by many powers of ten
        scaled = scale[:, None] * matrix * scale[None, :]
        step = scale * np.linalg.lstsq(scaled, scale * (sigma / y - self.slack(y)))[0]
        return step, sigma / y - s - s / y * step

    def _curvature(self, y: Array) -> Array:
        """The Hessian over μ, A (diag p - p pᵀ) Aᵀ/μ."""
        p = self.probabilities(y)
        mean = self.payoff @ p
        return np.asarray((self.payoff * p) @ self.payoff.T - self.mu * np.outer(mean, mean))

    def _polished(self, y: Array, s: Array) -> Array:
        """The irreps that are not used at exactly zero, the others at a zero of the slack, where that is no worse."""
        used = y / y.sum() > s
        exact = np.where(used, y, 0.0)
        for _ in range(3):
            matrix = self._curvature(exact)[np.ix_(used, used)]
            step = np.linalg.lstsq(matrix, -self.slack(exact)[used])[0]
            exact[used] += step
        better = exact.min() >= 0 and self.residual(exact) <= max(self.residual(y), 1e-13)
        return exact if better else y


def _reach(values: Array, step: Array) -> float:
    """The largest length at which values + length·step are not negative."""
    falling = step < 0
    return float(np.min(-values[falling] / step[falling], initial=math.inf))
