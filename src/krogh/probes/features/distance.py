"""Is this what gradient descent found? The distance of a network from the family of maximum-margin networks.

The family of a task is closed under permutation of neurons, a common scale, splitting a neuron into parallel ones, and
the choices that theory leaves open: frequencies, phases, vectors x, y, z, signs (`nearest`). Four numbers say
how far from it a network is, none of which depends on these. With the weights p_i = ‖ω_i‖^ν/Σ_k ‖ω_k‖^ν, and c_i the
largest cosine between ω_i and an optimal neuron:

    cosine      1 - Σ_i p_i c_i                               how far neurons are from optimal ones, on average
    neurons     (Σ_i p_i d_i²)^½,  d_i = (2(1-c_i))^½         the same as a length; d_i that of ω_i/‖ω_i‖ - nearest
    shares      ½ Σ_R |x_R - x*_R|                            x_R the weight of the neurons in R (total variation)
    function    1 - ⟨f̃, f̃*⟩/(‖f̃‖‖f̃*‖)                        f̃(a,b)[c] = f(a,b)[c] - mean over c

cosine = neurons²/2. The parts R are irreps or frequencies, each neuron in the one of most power, the trivial one among
them (x* = 0 there); for parities they are the 2^{k-1} sign patterns up to a common sign, x* = 2^{-(k-1)} each
(`parity`). A term F(a,b) that all labels share is of no consequence for margins, and maximum-margin networks
differ in it: f̃ is without.

Where the condition of Theorem 7.9 is negative, on all Z_p and on parities, a network has the maximum margin exactly if
`neurons` and `function` are 0, and then `shares` is 0 too. Where the condition fails, several x* may be optimal in the
matrix game of section D.9.2; the nearest is taken, and f̃* is the function of abc⁻¹ that belongs to it.

x*, f̃* and the irreps of optimal neurons are those of the maximum margin, λ → 0; given `lam`, those of the regularised
optimum at λ, which on groups differs from the limit by O(1/log(1/λ)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from krogh.errors import require
from krogh.networks.groups.arrays import Network, PairArrays, PowerArrays, labels_of
from krogh.networks.groups.measures import check_exponent
from krogh.networks.groups.written import logit_values
from krogh.probes.features.nearest import NearestNeurons, nearest_for_parity, nearest_in_irreps
from krogh.probes.features.spectra import kept_neurons, norm_weights, weighted_mean
from krogh.programs.groups import Group
from krogh.theory.groups.finite import finite_lambda
from krogh.theory.groups.irreps import irrep_powers, real_irreps
from krogh.theory.groups.maximum import max_margin_group
from krogh.theory.groups.problems import ParityProblem, RealCharacters, characters_of, problem_of
from krogh.theory.groups.weighted import offset_maximum

Array = NDArray[np.float64]

_USED = 1e-9
"""A share below is one of an irrep that is not used."""


@dataclass(frozen=True, eq=False)
class MarginDistance:
    """The four distances of this module, and what they are made of.

    `nearest` holds the nearest optimal neurons with their cosines and distances [m], `weights` [m] the p_i, `kept` [m]
    the neurons large enough to be looked at. `network_shares` and `optimal_shares` [parts] are x and x*, `parts` their
    names; of a parity's sign patterns those that occur, and all others as one.
    """

    cosine: float
    neurons: float
    shares: float
    function: float
    family: str
    nearest: NearestNeurons
    weights: Array
    kept: NDArray[np.bool_]
    parts: tuple[str, ...]
    network_shares: Array
    optimal_shares: Array

    @property
    def worst(self) -> float:
        """The largest distance d_i of a kept neuron."""
        return float(np.max(self.nearest.distance[self.kept]))

    @property
    def unproved(self) -> float:
        """How much smaller `cosine` might be if better optimal neurons were found: 0 but for rounding, as a rule."""
        return float(weighted_mean(self.nearest.bound - self.nearest.cosine, self.weights))

    @property
    def summary(self) -> str:
        """One line."""
        return (
            f"distance from {self.family}: neurons {self.neurons:.3g} (worst of {int(self.kept.sum())} kept "
            f"{self.worst:.3g}), shares {self.shares:.3g}, function {self.function:.3g}"
        )


def margin_distance(network: Network, problem: Any, lam: float | None = None) -> MarginDistance:
    """How far a network is from those of maximum margin, or from the optimum at λ = `lam`.

    `problem` is a group, its name, an integer p for Z_p, a parity, or a task of these; the activation must be x² on
    groups and x^k on parities of k bits, where the family is known.
    """
    given = problem_of(problem)
    check_exponent(network, given)
    weights = norm_weights(network)
    if isinstance(given, ParityProblem):
        assert isinstance(network, PowerArrays)
        return _from_parity(network, given, weights, lam)
    assert isinstance(network, PairArrays)
    return _from_group(network, given, weights, lam)


def _from_group(network: PairArrays, group: Group, weights: Array, lam: float | None) -> MarginDistance:
    characters = characters_of(group)
    powers = irrep_powers(group, np.stack([network.U, network.V, network.W])).sum(axis=0)
    found = np.bincount(np.argmax(powers, axis=1), weights, len(characters.irrep_names)).astype(np.float64)
    optimal = optimal_shares(characters, found, lam)
    if lam is None:
        best = offset_maximum(group).best
        allowed = [number for number, name in enumerate(characters.irrep_names) if name in best]
    else:
        allowed = np.flatnonzero(optimal > _USED).tolist()
    nearest = nearest_in_irreps(network, real_irreps(group), allowed)
    named = dict(zip(characters.irrep_names[1:], optimal[1:].tolist(), strict=True))
    target = logit_values(group, named)[group.table[group.inverse]]  # [label, other label]
    return _assembled(
        network, group, weights, lam, nearest, target, group.name, (characters.irrep_names, found, optimal)
    )


def _from_parity(network: PowerArrays, problem: ParityProblem, weights: Array, lam: float | None) -> MarginDistance:
    if lam is not None:
        _check_optimum(finite_lambda(problem, lam).zero, lam)
    nearest = nearest_for_parity(network, problem)
    patterns = np.nan_to_num(nearest.neurons[:, list(problem.support)]) < 0
    patterns ^= patterns[:, :1]
    codes, place = np.unique(patterns, axis=0, return_inverse=True)
    present = np.bincount(place.ravel(), weights, minlength=len(codes))
    # Patterns that do not occur are one part: only the total of what they lack matters.
    count = 2.0 ** (problem.k - 1)
    found = np.append(present, 0.0)
    optimal = np.append(np.full(len(codes), 1 / count), (count - len(codes)) / count)
    names = ("".join("-" if negative else "+" for negative in code) for code in codes)
    family, target = f"a parity of {problem.k} bits", np.array([[1.0, -1.0], [-1.0, 1.0]])
    parts = ((*names, "missing patterns"), found, optimal)
    return _assembled(network, problem, weights, lam, nearest, target, family, parts)


def _assembled(
    network: Network,
    problem: Group | ParityProblem,
    weights: Array,
    lam: float | None,
    nearest: NearestNeurons,
    target: Array,
    task: str,
    parts: tuple[tuple[str, ...], Array, Array],
) -> MarginDistance:
    names, found, optimal = parts
    square = float(weighted_mean(nearest.distance**2, weights))
    optimum = "maximum-margin networks" if lam is None else f"optimal networks at lambda={lam:g}"
    return MarginDistance(
        cosine=square / 2,
        neurons=float(np.sqrt(square)),
        shares=0.5 * float(np.abs(found - optimal).sum()),
        function=function_distance(network, problem, target),
        family=f"{optimum} of {task}",
        nearest=nearest,
        weights=weights,
        kept=kept_neurons(network),
        parts=names,
        network_shares=found,
        optimal_shares=optimal,
    )


def optimal_shares(characters: RealCharacters, found: Array, lam: float | None = None) -> Array:
    """x* [irreps], the trivial one first: of the optimum at λ, or of the maximum margin (the nearest to `found`)."""
    if lam is not None:
        optimum = finite_lambda(characters, lam)
        _check_optimum(optimum.zero, lam)
        return np.array([0.0, *optimum.shares.values()])
    best = max_margin_group(characters)
    if not best.failing:
        return np.array([0.0, *best.irrep_shares.values()])
    payoff, value = characters.payoff(), best.value / characters.unit
    return np.concatenate([[0.0], nearest_mixture(payoff, value, found[1:])])


def nearest_mixture(payoff: Array, value: float, found: Array) -> Array:
    """The optimal mixture x of a game's rows, min_C (xᵀA)_C = value, that minimises Σ_R |found_R - x_R|.

    A linear program over the face of optimal mixtures, which is one point for A_5 and of at least three dimensions for
    S_6. Good to 1e-9: the value is known to rounding.
    """
    total = float(found.sum())
    if total > 0 and np.min(found @ payoff) >= total * value * (1 - 1e-12):
        return np.asarray(found / total)
    rows, columns = payoff.shape
    # Minimise Σt over t ≥ max(0, x - found), subject to xᵀA ≥ value (to rounding) and Σx = 1: what x has less than
    # `found` elsewhere is the same number, up to a constant.
    inequalities = np.block([[-payoff.T, np.zeros((columns, rows))], [np.eye(rows), -np.eye(rows)]])
    solved = scipy.optimize.linprog(
        np.concatenate([np.zeros(rows), np.ones(rows)]),
        A_ub=inequalities,
        b_ub=np.concatenate([np.full(columns, -value * (1 - 1e-10)), found]),
        A_eq=np.concatenate([np.ones(rows), np.zeros(rows)])[None],
        b_eq=[1.0],
        method="highs",
    )
    require(solved.status == 0, f"the nearest optimal mixture was not found: {solved.message}")
    mixture = np.maximum(solved.x[:rows], 0.0)
    return np.asarray(mixture / mixture.sum())


def function_distance(network: Network, problem: Group | ParityProblem, target: Array) -> float:
    """1 - ⟨f̃, f̃*⟩/(‖f̃‖‖f̃*‖) over all inputs, f̃* [labels, labels] by (right label, label); 1 where f̃ = 0.

    As half the square of the difference of the two divided by their norms, which rounding does not spoil near 0.
    """
    labels = labels_of(problem)
    centred_target = target - target.mean(axis=1, keepdims=True)
    norm = np.sqrt(
        sum(float(np.sum((logits - logits.mean(axis=1, keepdims=True)) ** 2)) for _, logits in network.blocks())
    )
    if norm == 0:
        return 1.0
    scale = np.sqrt(float(np.sum(np.bincount(labels, minlength=len(centred_target)) @ centred_target**2)))
    square = 0.0
    for index, logits in network.blocks():
        centred = logits - logits.mean(axis=1, keepdims=True)
        square += float(np.sum((centred / norm - centred_target[labels[index]] / scale) ** 2))
    return square / 2


def _check_optimum(zero: bool, lam: float) -> None:
    require(not zero, f"at lambda={lam:g} the zero network is optimal, which has no neurons to compare with")
