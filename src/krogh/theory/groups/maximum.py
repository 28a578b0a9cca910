"""Maximum margins in closed form, and by linear program where no closed form holds (dissertation, sections 7.4–7.6).

    Z_p, p odd     γ* = √(2/27) / (√p (p-1))                                     Theorem 7.7
    Z_p, p even    γ* = 2 / (3√(3p) (1 + √2 (p-2)))
    parity         γ* = k! √(2 (k+1)^-(k+1))                                     Theorem 7.8
    a group        γ* = 2 / (3√(3|G|) Σ_{R≠1} D^2.5/e)                           Theorem 7.9, e = 1 there
                   if Σ_{R≠1} D^1.5 χ_R(C)/e ≤ 0 for every class C ≠ {e}
    any group      γ* = 2/(3|G|)^1.5 · value of the game (D_R - χ_R(C))/D_R^1.5  section D.9.2

All for one hidden layer of x² (x^k for parity) under the L_{2,ν} norm, ν = 3 (k+1). D and e are those of the real
irreps (`problems`): the source treats groups whose irreps are all of real type, and Z_p for odd p apart; both are
cases of one formula, which also covers even p and irreps of complex and quaternionic type.

The game is solved by linear program, and its optimal subsets satisfy equations of their own (section D.9.2):

    value = max_x min_C Σ_R x_R A[R, C] = min_P max_R Σ_C A[R, C] P_C,  x and P distributions

Rows are irreps and x their shares of Σ_i ‖ω_i‖^ν; columns are classes of wrong labels and P their weights. The value is
enclosed between what x guarantees and what P allows, so that it is certified whatever the solver did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from krogh.errors import require, require_integer
from krogh.theory.groups.problems import (
    GroupLike,
    RealCharacters,
    characters_of,
    cyclic_characters,
    cyclic_order,
    require_group,
)

Array = NDArray[np.float64]

TOLERANCE = 1e-12
"""The relative gap between lower and upper value that is still rounding."""

_USED = 1e-9
"""Shares and weights below are solver noise."""
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


@dataclass(frozen=True, eq=False)
class GameSolution:
    """Optimal mixtures of rows [R] and columns [C], and the two bounds that they prove for the value."""

    rows: Array
    columns: Array
    lower: float
    upper: float


def solve_game(payoff: ArrayLike) -> GameSolution:
    """Both players' optimal mixtures, the value enclosed to a relative 1e-12.

    Optimal mixtures need not be unique (S_6: several have the same value); one of them is returned.
    """
    a = np.asarray(payoff, np.float64)
    require(a.ndim == 2 and a.size > 0, f"a game needs a matrix [rows, columns]; got the shape {a.shape}")
    require(np.isfinite(a).all(), "the payoffs of a game must be finite numbers")
    rows, columns = a.shape
    # max t subject to t - xᵀA ≤ 0, Σx = 1, x ≥ 0; the multipliers of the inequalities are the column player's mixture.
    found = linprog(
        np.append(np.zeros(rows), -1.0),
        A_ub=np.hstack([-a.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)],
        method="highs",
    )
    require(found.status == 0, f"the linear program of the game was not solved: {found.message}")
    solution = _enclosed(a, found.x[:-1], -found.ineqlin.marginals)
    if _gap(solution) > TOLERANCE:
        solution = min(solution, _polished(a, solution), key=_gap)
    gap = _gap(solution)
    require(gap <= TOLERANCE, f"the game's value is only known to {gap:.2g}; its payoffs are too ill conditioned")
    return solution


def _gap(solution: GameSolution) -> float:
    scale = max(abs(solution.lower), abs(solution.upper), np.finfo(float).tiny)
    return (solution.upper - solution.lower) / scale


def _enclosed(a: Array, rows: Array, columns: Array) -> GameSolution:
    """The bounds that two vectors prove, once they are made distributions."""
    x, y = (np.where(mixture > _USED, mixture, 0.0) for mixture in (rows, columns))
    x, y = x / x.sum(), y / y.sum()
    return GameSolution(x, y, float(np.min(x @ a)), float(np.max(a @ y)))


def _polished(a: Array, solution: GameSolution) -> GameSolution:
    """The mixtures that equalise what the found ones use: removes the rounding of the solver."""
    rows, columns = solution.rows > 0, solution.columns > 0
    used = a[np.ix_(rows, columns)]
    x, y = np.zeros(len(rows)), np.zeros(len(columns))
    x[rows], y[columns] = _equalising(used)[0], _equalising(used.T)[0]
    return _enclosed(a, x, y)


def _equalising(a: Array) -> tuple[Array, float]:
    """x with Σx = 1 whose payoff xᵀA is the same number in every column, and that number (least squares)."""
    rows, columns = a.shape
    system = np.block([[a.T, -np.ones((columns, 1))], [np.ones((1, rows)), np.zeros((1, 1))]])
    found = np.linalg.lstsq(system, np.append(np.zeros(columns), 1.0))[0]
    return found[:-1], float(found[-1])


@dataclass(frozen=True, eq=False)
class Subsets:
    """What section D.9.2 says of chosen irreps and classes: shares x [R], weights P [C], and why it fails, if it does.

    `logit_shares` are the source's λ, the coefficients of χ_R in the logits, summing to 1; x_R ∝ λ_R D_R^1.5. `value`
    is the common margin of the chosen classes, proved to be the maximum where `failing` is empty.
    """

    irrep_shares: Array
    logit_shares: Array
    class_weights: Array
    value: float
    failing: tuple[str, ...]


def subset_certificate(
    characters: RealCharacters, irreps: Sequence[int], classes: Sequence[int], tolerance: float = 1e-9
) -> Subsets:
    """Solve for the weights of chosen irreps and classes, and say which conditions of section D.9.2 they meet.

        Σ_C A[R, C] P_C equal for all chosen R, ΣP = 1;   Σ_R x_R A[R, C] equal for all chosen C, Σx = 1
        x, P ≥ 0;   no other irrep exceeds the first number;   no other class falls below the second

    `irreps` and `classes` are indices of `characters` (0 is the trivial one and not allowed), as many of one as of the
    other. The source prints Στ_C = 1 for ΣP_C = Σ|C|τ_C = 1.
    """
    count = len(characters.class_sizes)
    for kind, chosen in (("irrep", irreps), ("class", classes)):
        for index in chosen:
            require_integer(f"{kind} of the subset", index, 1, count - 1)
        require(len(set(chosen)) == len(chosen) > 0, f"a subset names each {kind} once, at least one; got {chosen}")
    require(len(irreps) == len(classes), f"needs as many classes as irreps; got {len(irreps)} irreps, {len(classes)}")
    a = characters.payoff()
    rows, columns = np.asarray(irreps) - 1, np.asarray(classes) - 1
    used = a[np.ix_(rows, columns)]
    independent = np.linalg.matrix_rank(used - used[:1]) == len(rows) - 1
    require(independent, f"the equations of the irreps {list(irreps)} and classes {list(classes)} are dependent")
    x, p = np.zeros(len(a)), np.zeros(len(a))
    x[rows], value = _equalising(used)
    p[columns], bound = _equalising(used.T)
    slack = tolerance * max(abs(value), 1e-300)
    names, labels = characters.irrep_names[1:], characters.class_names[1:]
    failing = [f"irrep {names[r]} has the negative share {x[r]:.4g}" for r in rows if x[r] < -tolerance]
    failing += [f"class {labels[c]} has the negative weight {p[c]:.4g}" for c in columns if p[c] < -tolerance]
    failing += [f"irrep {names[r]} exceeds the common value" for r in np.flatnonzero(a @ p > bound + slack)]
    failing += [f"class {labels[c]} has a smaller margin" for c in np.flatnonzero(x @ a < value - slack)]
    logits = x / characters.dimensions[1:] ** 1.5
    return Subsets(x, logits / logits.sum(), p, value * characters.unit, tuple(failing))
