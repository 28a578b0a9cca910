"""Theorem D.6: a lower bound on the all-layer margin of a network with corrections, from constants of its modules.

If F(x) is ±1, the corrections ζ_i return the true h_i from anything within σ_ζ < 1 of it, and

    ‖f_i(h, θ) - f_i(ĥ, θ̂)‖ ≤ κ_θ ‖θ - θ̂‖ max(|||h|||, 1) + μ |||h - ĥ|||   for ‖θ - θ̂‖ ≤ σ_θ, |||h - ĥ||| ≤ σ_h, true h
    ‖f_0(x, θ) - f_0(x, θ̂)‖ ≤ μ_0 ‖θ - θ̂‖
    ‖ζ_i(h, ξ) - ζ_i(h, ξ̂)‖ ≤ κ_ξ max(‖h‖, 1) ‖ξ - ξ̂‖                      for ‖ξ - ξ̂‖ ≤ σ_ξ, all h
    λ ≥ max(‖h_i‖, 1) for all true h_i, with |||·||| the largest norm in a tuple,

then ρ is at least the least of nine terms, (D.5), whatever the depth, and parameters may be shared between layers:

    λ/μ_0, σ_ζ/μ_0, σ_θ, 1/(2κ_θ), σ_ζ/(2κ_θλ), σ_ξ, σ_h/(2κ_ξλ), σ_ζ/(4λμκ_ξ), 1/(4μκ_ξ)

The first condition is printed as two, one for θ and one for h at fixed θ̂; the second of these fails where attention
ties and weights are perturbed, and the proof only needs the joint one. The radii σ_θ = σ_ξ = s are ours to choose: a
larger s raises two terms, and raises the constants, which lowers the others.

The same proof with the constants of each layer gives more. Between two corrections every layer has parameters of its
own, whose perturbations t_1, t_2, ... have Σ t_l² ≤ t². If true values have norm at most A and perturbed ones are
within g·√(Σ_{k<l} t_k²) of them, then after h ↦ φ(W h + b)

    ‖ĥ' - h'‖ ≤ ‖W‖ ‖ĥ - h‖ + ‖(ΔW, Δb)‖ √(‖ĥ‖² + 1) ≤ g' √(Σ_{k≤l} t_k²),   g' = √(‖W‖² g² + (A + g t)² + 1)

by Cauchy and Schwarz. Rounding forgets what came before it as long as no coordinate is off by more than its radius:
then only its own parameters matter, and the depth of the network does not. The largest t for which that holds
everywhere, and for which the output moves by less than 1, is a lower bound on the margin of a network whose outputs are
±1. A `Certificate` has both bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from krogh.errors import require

ROUNDING_NORM = 3 * math.sqrt(2)
"""‖V_2‖ = ‖[3I, -3I]‖."""
HIDDEN_SHARE = math.sqrt(5) / 3
"""‖(2/3, 1/3)‖: what the two units of a rounding hold where its input is 1."""
SPLIT_NORM = math.sqrt(2)
"""‖V_1‖ = ‖[I; I]‖."""
_DIGITS = 60


@dataclass(frozen=True)
class Constants:
    """The constants of Theorem D.6 for radii σ_θ = σ_ξ = `s`; `sigma_h` is infinite for modules without attention."""

    s: float
    lam: float
    sigma_zeta: float
    sigma_h: float
    kappa_xi: float
    kappa_theta: float
    mu: float
    mu_0: float

    def __post_init__(self) -> None:
        wrong = {name: value for name, value in asdict(self).items() if not value > 0}
        require(not wrong, f"the constants of Theorem D.6 are positive numbers; got {wrong}")
        require(self.sigma_zeta < 1, f"sigma_zeta must be below 1; got sigma_zeta={self.sigma_zeta}")
        require(self.lam >= 1, f"lam bounds max(‖h‖, 1), so it is at least 1; got lam={self.lam}")


@dataclass(frozen=True)
class TheoremBound:
    """`value` is the least of the `terms` of (D.5), `binding` the name of that term."""

    value: float
    binding: str
    terms: dict[str, float]
    constants: Constants


def theorem_terms(constants: Constants) -> dict[str, float]:
    """The nine terms of (D.5) by name."""
    c = constants
    return {
        "λ/μ0": c.lam / c.mu_0,
        "σζ/μ0": c.sigma_zeta / c.mu_0,
        "σθ": c.s,
        "1/(2κθ)": 1 / (2 * c.kappa_theta),
        "σζ/(2κθλ)": c.sigma_zeta / (2 * c.kappa_theta * c.lam),
        "σξ": c.s,
        "σh/(2κξλ)": c.sigma_h / (2 * c.kappa_xi * c.lam),
        "σζ/(4λμκξ)": c.sigma_zeta / (4 * c.lam * c.mu * c.kappa_xi),
        "1/(4μκξ)": 1 / (4 * c.mu * c.kappa_xi),
    }


def theorem_bound(constants: Constants) -> TheoremBound:
    """(D.5) for given constants."""
    terms = theorem_terms(constants)
    binding = min(terms, key=lambda name: terms[name])
    return TheoremBound(terms[binding], binding, terms, constants)


def block_constants(norms: Sequence[float], biases: Sequence[float], s: float) -> tuple[float, float]:
    """κ and μ of a block of layers h ↦ φ(W_l h + b_l) from bounds on ‖W_l‖ and ‖b_l⁺‖, for perturbations up to s.

        κ² = Σ_l (N_{l+1} ... N_L)² (B_{l-1}² + 1),   B_0 = 1, B_l = (N_l + s) B_{l-1} + ‖b_l⁺‖ + s,   μ = Π (N_l + s)

    Perturbed values after layer l have norm at most B_l max(‖h‖, 1), as ReLU keeps of a bias at most its positive part,
    and move by at most ‖(ΔW_l, Δb_l)‖ √(B_{l-1}² + 1) max(‖h‖, 1) for the layer's own perturbation.
    """
    reach, parts, mu = 1.0, [], 1.0
    for place, (norm, bias) in enumerate(zip(norms, biases, strict=True)):
        parts.append(math.prod(norms[place + 1 :]) * math.hypot(reach, 1.0))
        reach, mu = (norm + s) * reach + bias + s, mu * (norm + s)
    return math.hypot(*parts), mu


def best_bound(constants_at: Callable[[float], Constants], most: float) -> TheoremBound:
    """(D.5) at the best s in (0, `most`]: where s meets the other terms, which fall with s, or at `most`."""
    require(most > 0 and math.isfinite(most), f"the largest radius must be a positive number; got {most!r}")
    low, high = 0.0, most
    if _others(constants_at(most)) >= most:
        return theorem_bound(constants_at(most))
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _others(constants_at(middle)) >= middle else (low, middle)
    # just above the crossing s no longer binds, so that the name of the binding term tells what to improve
    return theorem_bound(constants_at(high))


def _others(constants: Constants) -> float:
    return min(value for name, value in theorem_terms(constants).items() if name not in ("σθ", "σξ"))


@dataclass(frozen=True)
class Spread:
    """True values have norm at most `size`, and a perturbation of norm t moves them by at most `gain`·t."""

    size: float
    gain: float = 0.0

    def reach(self, t: float) -> float:
        """The largest norm of perturbed values."""
        return self.size + self.gain * t

    def own(self, t: float) -> float:
        """√(‖ĥ‖² + 1): by how much a layer's output moves, at most, for each unit that its own parameters move."""
        return math.hypot(self.reach(t), 1.0)


def after_layer(before: Spread, t: float, norm: float, size: float) -> Spread:
    """After h ↦ φ(W h + b) with ‖W‖ ≤ `norm`, whose true outputs have norm at most `size`."""
    return Spread(size, math.hypot(norm * before.gain, before.own(t)))


def after_rounding(before: Spread, t: float) -> Spread:
    """After rounding, where no coordinate was off by more than its radius: ζ(ĝ, ξ̂) against ζ(ĝ, ξ) = h.

    The units hold at most √5/3·‖h‖ + √2·‖ĝ - h‖, because those of coordinates with h = 0 are off.
    """
    hidden = HIDDEN_SHARE * before.size + SPLIT_NORM * before.gain * t + before.own(t) * t
    return Spread(before.size, math.hypot(ROUNDING_NORM * before.own(t), hidden, 1.0))


def largest(holds: Callable[[float], bool], most: float = 1.0) -> float:
    """The largest t up to `most`, to 1e-9 from below, for which `holds` is true of it and of everything below it.

    0 where it fails for every t down to 1e-300.
    """
    if holds(most):
        return most
    low, high = -300.0, math.log10(most)
    if not holds(10.0**low):
        return 0.0
    for _ in range(_DIGITS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(10.0**middle) else (low, middle)
    return 10.0**low * (1 - 1e-9)


@dataclass(frozen=True, eq=False)
class Certificate:
    """A lower bound on the all-layer margin at every input that it is for.

    `theorem` is the bound of Theorem D.6 with its constants and terms, None where the theorem does not apply; `refined`
    the bound by the same proof with the constants of each layer; `value` the larger of the two.
    `holds_for` says for which inputs. All in real arithmetic: rounding errors of float64 are some 1e-13 of it.
    """

    theorem: TheoremBound | None
    refined: float
    holds_for: str

    @property
    def value(self) -> float:
        """The larger bound."""
        return max(self.refined, 0.0 if self.theorem is None else self.theorem.value)

    @property
    def proof(self) -> str:
        """What gave the larger bound."""
        if self.theorem is None:
            return "by the layers' own constants, without the rounding that Theorem D.6 needs"
        if self.theorem.value >= self.refined:
            return f"by Theorem D.6, binding term {self.theorem.binding}"
        return f"by the proof of Theorem D.6 layer by layer; the theorem itself gives {self.theorem.value:.6g}"
