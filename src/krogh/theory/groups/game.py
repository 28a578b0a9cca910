"""A matrix game by linear program, and the equations that its optimal subsets satisfy (dissertation, section D.9.2).

    value = max_x min_C Σ_R x_R A[R, C] = min_P max_R Σ_C A[R, C] P_C,  x and P distributions

Rows are irreps and x their shares of Σ_i ‖ω_i‖^ν; columns are classes of wrong labels and P their weights. The value is
enclosed between what x guarantees and what P allows, so that it is certified whatever the solver did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from krogh.errors import require, require_integer
from krogh.theory.groups.problems import RealCharacters, characters_of
from krogh.theory.prediction import prediction

Array = NDArray[np.float64]

TOLERANCE = 1e-12
"""The relative gap between lower and upper value that is still rounding."""

_USED = 1e-9
"""Shares and weights below are solver noise."""


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
        "proves_the_maximum": not found.failing,
        "failing": found.failing,
        "irrep_shares": dict(zip(characters.irrep_names[1:], found.irrep_shares.tolist(), strict=True)),
        "logit_shares": dict(zip(characters.irrep_names[1:], found.logit_shares.tolist(), strict=True)),
        "class_weights": dict(zip(characters.class_names[1:], found.class_weights.tolist(), strict=True)),
    }
