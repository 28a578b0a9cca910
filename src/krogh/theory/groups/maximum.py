"""Maximum margins in closed form, and by linear program where no closed form holds (dissertation, sections 7.4–7.6).

    Z_p, p odd     γ* = √(2/27) / (√p (p-1))                                     Theorem 7.7
    Z_p, p even    γ* = 2 / (3√(3p) (1 + √2 (p-2)))
    parity         γ* = k! √(2 (k+1)^-(k+1))                                     Theorem 7.8
    a group        γ* = 2 / (3√(3|G|) Σ_{R≠1} D^2.5/e)                           Theorem 7.9, e = 1 there
                   if Σ_{R≠1} D^1.5 χ_R(C)/e ≤ 0 for every class C ≠ {e}
    any group      γ* = 2/(3|G|)^1.5 · value of the game (D_R - χ_R(C))/D_R^1.5  section D.9.2

All for one hidden layer of x² (x^k for parity) under the L_{2,ν} norm, ν = 3 (k+1). D and e are those of the real
irreps (`problems`): the source treats groups whose irreps are all of real type, and Z_p for odd p apart; both are
cases of one formula, which also covers even p and irreps of complex and quaternionic type. Groups are given by name
("S_5", "Z_71", "D_4xD_4") or as a file with a Cayley table; S_7 to S_12 by characters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from krogh.errors import KroghError, require, require_integer
from krogh.theory.groups.game import solve_game
from krogh.theory.groups.problems import (
    GroupLike,
    RealCharacters,
    characters_of,
    cyclic_characters,
    cyclic_order,
    require_group,
)
from krogh.theory.prediction import prediction

Array = NDArray[np.float64]

Theorem = Literal["any", "7.7", "7.8", "7.9"]

LARGEST_K = 150
"""Beyond, k! and (k+1)^(k+1) leave the range of float64."""

_STRICT = 1e-9
"""A sign condition within this of zero, relative to Σ D^2.5/e, counts as zero."""


@dataclass(frozen=True, eq=False)
class MaxMargin:
    """The maximum normalised margin and what proves it.

    `conditions` holds Σ_{R≠1} D^1.5 χ_R(C)/e per class C, which Theorem 7.9 needs negative; `irrep_shares` the shares
    x_R of Σ_i ‖ω_i‖^ν in a maximum-margin network (all of them in every one, where the conditions are negative);
    `class_weights` P_C = |C| τ_C, which with uniform q prove that there is no larger margin; `width` suffices. `gap` is
    the relative distance of the two sides, zero up to rounding.
    """

    value: float
    theorem: str
    conditions: dict[str, float]
    irrep_shares: dict[str, float]
    class_weights: dict[str, float]
    width: int
    gap: float = 0.0

    @property
    def failing(self) -> dict[str, float]:
        """The classes where the condition of Theorem 7.9 fails, with what it is there."""
        return {name: value for name, value in self.conditions.items() if value > 0}


@dataclass(frozen=True, eq=False)
class SignCondition:
    """Σ_{R≠1} D^1.5 χ_R(C)/e per class C ≠ {e}; `real_type` says whether Theorem 7.9 as printed speaks of the group."""

    values: dict[str, float]
    real_type: bool
    other_kinds: dict[str, str]

    @property
    def failing(self) -> tuple[str, ...]:
        """The classes where the sum is positive."""
        return tuple(name for name, value in self.values.items() if value > 0)

    @property
    def holds(self) -> bool:
        """Whether it is negative everywhere, as Theorem 7.9 assumes."""
        return all(value < 0 for value in self.values.values())


def max_margin_cyclic(p: int) -> MaxMargin:
    """γ* of addition modulo p: Theorem 7.7 for odd p, of which every frequency 1..(p-1)/2 has an equal share."""
    require_integer("p", p, 2)
    characters = cyclic_characters(p)
    if p % 2:
        value, theorem = theorem_7_7(p), "Theorem 7.7 (addition modulo an odd p)"
    else:
        value = 2 / (3 * math.sqrt(3 * p) * (1 + math.sqrt(2) * (p - 2)))
        theorem = "Theorem 7.9" + ("" if p == 2 else " over the real irreps (addition modulo an even p)")
    return _equalised(characters, theorem, value)


def theorem_7_7(p: int) -> float:
    """γ* = √(2/27)/(√p (p-1)) for odd p; refused for even p, whose frequency p/2 is its own conjugate."""
    require_integer("p", p, 3)
    require(
        p % 2 == 1,
        f"Theorem 7.7 needs an odd p; got p={p} (try p={p - 1} or {p + 1}; max_margin_cyclic also takes an even p)",
    )
    return math.sqrt(2 / 27) / (math.sqrt(p) * (p - 1))


def max_margin_parity(k: int) -> MaxMargin:
    """γ* of a parity of k bits for the activation x^k (Theorem 7.8), whatever the number n of coordinates."""
    require_integer("k", k, 1, LARGEST_K)
    value = math.sqrt(2) * math.exp(math.lgamma(k + 1) - (k + 1) / 2 * math.log(k + 1))
    if k <= 20:  # where k! is exact
        value = math.factorial(k) * math.sqrt(2.0 * (k + 1.0) ** -(k + 1))
    return MaxMargin(value, "Theorem 7.8 (parity)", {}, {"support": 1.0}, {"other label": 1.0}, 2 ** (k - 1))


def max_margin_group(group: GroupLike) -> MaxMargin:
    """γ* of the composition of a finite group, which theorem or program gave it, and the condition per class."""
    p = cyclic_order(group)
    if p is not None:
        return max_margin_cyclic(p)
    characters = characters_of(group)
    require_group(characters)
    if sign_condition(characters).failing:
        return _played(characters)
    theorem = "Theorem 7.9" if characters.real_type else "Theorem 7.9 over the real irreps (some not of real type)"
    return _equalised(characters, theorem)


def theorem_7_9(group: GroupLike) -> MaxMargin:
    """Theorem 7.9 under its own assumptions: refused where an irrep is not of real type or the condition fails."""
    characters = characters_of(group)
    require_group(characters)
    condition = sign_condition(characters)
    others = ", ".join(f"{name} ({kind})" for name, kind in condition.other_kinds.items())
    require(
        characters.real_type,
        f"Theorem 7.9 assumes that every irrep is of real type; these are not: {others} (max_margin_group takes them, "
        "by their real dimension)",
    )
    failing = ", ".join(f"{name} ({condition.values[name]:+.4g})" for name in condition.failing)
    require(
        not condition.failing,
        f"Theorem 7.9 assumes Σ d^1.5 χ(C) < 0 for every class but the identity's; it is positive for {failing} "
        "(max_margin_group solves the linear program instead)",
    )
    return _equalised(characters, "Theorem 7.9")


def sign_condition(group: GroupLike) -> SignCondition:
    """The condition of Theorem 7.9, class by class; its negative over Σ D^2.5/e is τ_C of Lemma D.14."""
    characters = characters_of(group)
    require_group(characters)
    sums, scale = _condition(characters)
    values = dict(zip(characters.class_names[1:], np.where(np.abs(sums) < _STRICT * scale, 0.0, sums), strict=True))
    others = {n: k for n, k in zip(characters.irrep_names, characters.kinds, strict=True) if k != "real"}
    return SignCondition({name: float(value) for name, value in values.items()}, characters.real_type, others)


def closed_form(characters: RealCharacters) -> float:
    """2/(3√(3|G|) Σ_{R≠1} D^2.5/e): the margin when every irrep is used so that all wrong logits are equal.

    It is γ* where the sign condition holds, and the margin of a network that exists, hence at most γ*, elsewhere.
    """
    return 2 / (3 * math.sqrt(3 * characters.order) * _condition(characters)[1])


def class_weights(characters: RealCharacters) -> Array:
    """τ_C of Lemma D.14 per *element* of each class, [classes]; 0 for the identity.

        τ_C = -Σ_{R≠1} D^1.5 χ_R(C)/e / Σ_{R≠1} D^2.5/e

    The source omits the minus sign and prints the inverse of the normalisation. Σ_C |C| τ_C = 1; a distribution only
    where the sign condition holds.
    """
    sums, scale = _condition(characters)
    return np.concatenate([[0.0], -sums / scale])


def _condition(characters: RealCharacters) -> tuple[Array, float]:
    """Σ D^1.5 χ(C)/e per non-trivial class, and Σ D^2.5/e."""
    weights = characters.dimensions[1:] ** 1.5 / characters.commutants[1:]
    return np.asarray(weights @ characters.characters[1:, 1:]), float(weights @ characters.dimensions[1:])


def _equalised(characters: RealCharacters, theorem: str, value: float | None = None) -> MaxMargin:
    """The maximum where the sign condition holds: x_R ∝ D^2.5/e makes all wrong logits equal."""
    shares = characters.dimensions[1:] ** 2.5 / characters.commutants[1:]
    masses = characters.class_sizes[1:] * np.maximum(class_weights(characters)[1:], 0.0)
    return _assembled(
        characters, theorem, shares / shares.sum(), masses / masses.sum(), value or closed_form(characters)
    )


def _played(characters: RealCharacters) -> MaxMargin:
    """The maximum by linear program."""
    game = solve_game(characters.payoff())
    theorem = "the matrix game of section D.9.2, by linear program (the condition of Theorem 7.9 fails)"
    return _assembled(characters, theorem, game.rows, game.columns, characters.unit * game.lower)


def _assembled(characters: RealCharacters, theorem: str, rows: Array, columns: Array, value: float) -> MaxMargin:
    """With names, and the gap that the two mixtures leave."""
    a = characters.payoff()
    lower, upper = float(np.min(rows @ a)), float(np.max(a @ columns))
    used = rows > 0
    d, e = characters.dimensions[1:], characters.commutants[1:]
    return MaxMargin(
        value,
        theorem,
        sign_condition(characters).values,
        dict(zip(characters.irrep_names[1:], rows.tolist(), strict=True)),
        dict(zip(characters.class_names[1:], columns.tolist(), strict=True)),
        int(np.rint(2 * np.sum((d**3 / e)[used]))),
        max(0.0, upper - lower) / upper,
    )


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
    require_one(group, k)
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


def require_one(group: str | None, k: int | None) -> None:
    """Refuse both a group and a parity, and neither."""
    given = f"group={group!r}, k={k!r}"
    require((group is None) != (k is None), f"give either group (such as S_5) or k, the bits of a parity; got {given}")
