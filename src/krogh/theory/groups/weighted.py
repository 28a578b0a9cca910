"""The largest class-weighted margin of a neuron: the upper bound that weights on wrong labels prove (Lemma D.13).

With uniform q and τ[c] on the label ab·c, for neurons of norm 1 and activation x²:

    E[ψ'] = (2/|G|²) Σ_{a,b} u(a)v(b)(w(ab) - Σ_c τ[c] w(abc))
    V(τ) = max_ω E[ψ'(ω)] = 2/(3|G|)^1.5 · max_{R≠1} ‖I - Σ_c τ[c] R(c)‖/√D_R

over the real irreps R, attained by single-irrep neurons of rank one. For τ that is constant on classes the matrix is a
number, 1 - Σ_c τ[c] χ_ρ(c)/d, complex where τ treats a class and its inverses differently. The source's D.11 and D.13
lack the factor 2, and speak of irreps of real type.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, unknown
from krogh.programs.groups import Group
from krogh.theory.groups.characters import character_table
from krogh.theory.groups.irreps import real_irreps
from krogh.theory.groups.maximum import max_margin_group
from krogh.theory.groups.problems import GroupLike, RealCharacters, characters_of, group_of
from krogh.theory.numerics import spectral_norm
from krogh.theory.prediction import prediction

Array = NDArray[np.float64]

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class WeightedMaximum:
    """V(τ), what each non-trivial irrep reaches, and which reach the maximum."""

    value: float
    irreps: dict[str, float]

    @property
    def best(self) -> tuple[str, ...]:
        """The irreps of the optimal neurons."""
        return tuple(name for name, value in self.irreps.items() if value >= self.value * (1 - _ROUNDING))


def weighted_maximum(group: GroupLike, masses: Mapping[str, float] | ArrayLike | None = None) -> WeightedMaximum:
    """V of weights P_C = |C|τ_C on the non-trivial real classes; by default each wrong *label* has the same weight.

    `masses` are a number per class of `characters_of(group)` but the identity's, or a table from class names.
    """
    characters = characters_of(group)
    weights = uniform_masses(characters) if masses is None else class_masses(characters, masses)
    return _maximum(characters, characters.unit * (characters.payoff() @ weights))


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


def offset_maximum(group: Any, tau: ArrayLike | None = None) -> WeightedMaximum:
    """V of any weights τ [n] per offset, exactly; those of `default_offsets` unless given."""
    given = group_of(group)
    characters = characters_of(given)
    offsets = default_offsets(given) if tau is None else offset_distribution(given, tau)
    by_class = np.array([offsets[members].mean() for members in given.classes])
    if np.allclose(by_class[given.class_of], offsets, rtol=0, atol=1e-15):
        table = character_table(given)
        rows = [members[0] for members in characters.irrep_members]
        moments = table.characters @ (by_class * table.class_sizes) / table.dimensions
        sizes = np.abs(1.0 - moments)[rows]
    else:
        sizes = _operator_norms(given, characters, offsets)
    return _maximum(characters, characters.unit * (sizes / np.sqrt(characters.dimensions))[1:])


def _operator_norms(group: Group, characters: RealCharacters, offsets: Array) -> Array:
    """‖I - Σ_c τ[c] R(c)‖ of every real irrep, in the order of `characters`."""
    sizes = np.full(len(characters.kinds), np.nan)
    columns = [group.classes[members[0]][0] for members in characters.class_members]
    for irrep in real_irreps(group):
        row = int(np.argmin(np.max(np.abs(characters.characters - irrep.character[columns]), axis=1)))
        moved = np.eye(len(irrep.matrices[0])) - np.tensordot(offsets, irrep.matrices, axes=1)
        sizes[row] = spectral_norm(moved)
    return sizes


def _maximum(characters: RealCharacters, values: Array) -> WeightedMaximum:
    named = dict(zip(characters.irrep_names[1:], values.tolist(), strict=True))
    return WeightedMaximum(float(values.max()), named)


def uniform_masses(characters: RealCharacters) -> Array:
    """P_C = |C|/(|G|-1): every wrong label alike. With it only irreps of the least dimension are optimal."""
    return np.asarray(characters.class_sizes[1:] / (characters.order - 1))


def class_masses(characters: RealCharacters, masses: Mapping[str, float] | ArrayLike) -> Array:
    """Weights of the non-trivial classes, [classes - 1], checked: not negative, and 1 together."""
    names = characters.class_names[1:]
    if isinstance(masses, Mapping):
        for name in masses:
            if name not in names:
                raise unknown("class", str(name), names)
        masses = [masses.get(name, 0.0) for name in names]
    weights = np.asarray(masses, np.float64)
    require(
        weights.shape == (len(names),),
        f"needs a weight for each of the classes {', '.join(names)}; got {np.size(weights)} weights",
    )
    good = (weights >= 0).all() and abs(weights.sum() - 1) <= _ROUNDING
    require(
        good, f"class weights must not be negative and must add to 1; got {weights.tolist()}, sum {weights.sum():g}"
    )
    return weights


def class_offsets(group: Group, masses: Mapping[str, float] | ArrayLike) -> Array:
    """τ [n] of class weights: P_C/|C| on every element of C."""
    characters = characters_of(group)
    weights = np.concatenate([[0.0], class_masses(characters, masses) / characters.class_sizes[1:]])
    offsets = np.zeros(group.order)
    for weight, members in zip(weights, characters.class_members, strict=True):
        for number in members:
            offsets[group.classes[number]] = weight
    return offsets


@functools.lru_cache(maxsize=32)
def default_offsets(group: Group) -> Array:
    """τ [n] that proves γ*: that of Lemma D.14, or the linear program's where the sign condition fails."""
    characters = characters_of(group)
    weights = max_margin_group(characters).class_weights
    offsets = class_offsets(group, weights)
    offsets.flags.writeable = False
    return offsets


def offset_distribution(group: Group, tau: ArrayLike) -> Array:
    """τ as float64, checked to be a distribution on the offsets other than the identity."""
    offsets = np.asarray(tau, np.float64)
    n = group.order
    require(offsets.shape == (n,), f"tau needs a weight per offset, {n} of them; got the shape {offsets.shape}")
    require(
        (offsets >= 0).all() and abs(offsets.sum() - 1) <= _ROUNDING and offsets[group.identity] == 0,
        "tau must be a distribution on wrong labels: not negative, 1 together, 0 at the identity; got the sum "
        f"{offsets.sum():g}, least {offsets.min():g}, at the identity {offsets[group.identity]:g}",
    )
    return offsets
