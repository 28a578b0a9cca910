"""Networks that add, compose or multiply, written down and executed (dissertation, sections 7.1 and D.4–D.9).

    algebra/cyclic      addition modulo an odd p with maximum margin
    algebra/group       composition in any finite group with maximum margin
    algebra/parity      parity of k bits with maximum margin
    algebra/rotation    addition by rotations of one frequency
    algebra/memoriser   any group's table, memorised

The weights are those of `algebra_arrays` and `algebra_groups`; their logits are compared with closed forms on every
input.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require
from krogh.models.pair_network import PairNetwork
from krogh.models.power_network import PowerNetwork
from krogh.tasks.composition import GroupComposition
from krogh.tasks.groups import Group, cyclic, load_group
from krogh.tasks.parity_classes import ParityClasses
from krogh.theory.constructions.algebra_arrays import (
    cyclic_network,
    memoriser_network,
    parity_network,
    rotation_network,
)
from krogh.theory.constructions.algebra_groups import group_network, logit_values
from krogh.theory.constructions.base import Construction, Oracle, construction
from krogh.theory.margins.maximum import MaxMargin, max_margin_cyclic, max_margin_group, max_margin_parity
from krogh.theory.margins.networks import PairArrays, PowerArrays, norm
from krogh.theory.margins.problems import ParityProblem
from krogh.theory.precision import double_precision

Array = NDArray[np.float64]

_BATCH = 4096

_predicted = jax.jit(lambda model, params, x: model.predict(params, x))


@dataclass(frozen=True, eq=False)
class PairConstruction(Construction):
    """A construction whose inputs are pairs of whole numbers, not of reals."""

    def outputs(self, x: ArrayLike) -> Array:
        """The model's own logits [batch, n] for pairs [batch, 2], in float64 whatever JAX is set to."""
        given = np.asarray(x)
        batch = given.astype(np.int32)
        whole = given.ndim == 2 and given.shape[1] == 2 and np.array_equal(batch, given)
        require(whole, f"inputs of {self.name!r} are pairs of whole numbers [batch, 2]; got the shape {given.shape}")
        n = self.params["U"].shape[1]
        require(((batch >= 0) & (batch < n)).all(), f"inputs of {self.name!r} are pairs of numbers in 0..{n - 1}")
        with double_precision():
            params = {name: jnp.asarray(value) for name, value in self.params.items()}
            return np.asarray(_predicted(self.model, params, jnp.asarray(batch)))


@dataclass(frozen=True, eq=False)
class PairLogits(Oracle):
    """What the logits of all pairs are: `by_label` [n, n] holds them in row table[a, b]."""

    table: NDArray[np.int64]
    by_label: Array

    @property
    def exhaustive(self) -> bool:
        return True

    def cases(self, seed: int) -> Iterator[tuple[Array, Array]]:
        n = len(self.table)
        for start in range(0, n * n, _BATCH):
            pairs = np.stack(np.divmod(np.arange(start, min(start + _BATCH, n * n)), n), axis=1)
            yield pairs.astype(np.float64), self.by_label[self.table[pairs[:, 0], pairs[:, 1]]]


@dataclass(frozen=True)
class SignedLogits(Oracle):
    """value · ∏_{i in S} x_i · (1,-1) on the whole cube, by counting bits."""

    problem: ParityProblem
    value: float

    @property
    def exhaustive(self) -> bool:
        return True

    def cases(self, seed: int) -> Iterator[tuple[Array, Array]]:
        n = self.problem.n
        for start in range(0, 2**n, _BATCH):
            bits = (np.arange(start, min(start + _BATCH, 2**n))[:, None] >> np.arange(n)[None, :]) & 1
            signs = 1.0 - 2.0 * (bits[:, list(self.problem.support)].sum(axis=1) & 1)
            yield np.asarray(1.0 - 2.0 * bits, np.float64), self.value * signs[:, None] * np.array([1.0, -1.0])


@construction("algebra/cyclic", source="dissertation, section D.6.2 (repaired) and Theorem 7.7")
def cyclic_addition(p: int) -> Construction:
    """Addition modulo an odd p with maximum margin, 8 neurons per frequency.

        logits = 4s³ (p-1)/2 at c = a+b and -4s³/2 elsewhere,  s = √(2/(3p)) (4(p-1))^{-1/3}

    The source prints 0 for the wrong logits.
    """
    arrays = cyclic_network(p)
    unit = 4 * (2 / (3 * p)) ** 1.5 / (4 * (p - 1))
    by_label = np.full((p, p), -unit / 2) + np.eye(p) * (unit / 2 * p)
    logits = f"f(a,b)[c] = {by_label[0, 0]:.6g} at c = a+b mod {p} and {by_label[0, 1]:.6g} elsewhere"
    statement = _maximal(logits, arrays, max_margin_cyclic(p))
    return _pairs("algebra/cyclic", GroupComposition(cyclic(p)), arrays, by_label, statement)


@construction("algebra/group", source="dissertation, Lemmas D.15 and D.16 and section D.9.2 (repaired)")
def group_composition(group: str) -> Construction:
    """Composition in a finite group with maximum margin, 2D³/e neurons per real irrep that is used.

        f(a,b)[c] = Σ_R x_R · 2/(3|G|)^1.5 · χ_R(abc⁻¹)/D^1.5

    with the shares x_R of Theorem 7.9, or of the linear program where its condition fails.
    """
    given = load_group(group)
    arrays = group_network(given)
    by_label = logit_values(given)[given.table[given.inverse]]  # the offset between [label, other label]
    logits = f"f(a,b)[c] = Σ_R x_R·2/(3·{given.order})^1.5·χ_R(abc⁻¹)/D^1.5 for every pair of {given.name}"
    statement = _maximal(logits, arrays, max_margin_group(given))
    return _pairs("algebra/group", GroupComposition(given), arrays, by_label, statement)


@construction("algebra/rotation", source="dissertation, section 7.1")
def rotation(p: int, frequency: int = 1) -> Construction:
    """Addition by rotations of one frequency k without a factor in common with p: logits cos(2πk(a+b-c)/p)."""
    arrays = rotation_network(p, frequency)
    labels = np.arange(p)
    by_label = np.cos(2 * np.pi * (frequency * (labels[:, None] - labels[None, :]) % p) / p)
    statement = f"f(a,b)[c] = cos(2π·{frequency}(a+b-c)/{p}), largest at c = a+b"
    return _pairs("algebra/rotation", GroupComposition(cyclic(p)), arrays, by_label, statement)


@construction("algebra/memoriser", source="dissertation, section D.4 (repaired)")
def table_memoriser(group: str, balanced: bool = True) -> Construction:
    """A group's table memorised by two neurons per pair, without Fourier structure: f(a,b)[c] = 1[c = ab].

    `balanced` gives u, v and w of a neuron one length, which is best for the margin; the source has 1, 1 and 1/4.
    """
    return memoriser_of(load_group(group), balanced)


def memoriser_of(table: Group | ArrayLike, balanced: bool = True) -> Construction:
    """The memoriser of a group, or of any table [n, n] of numbers 0..n-1."""
    task = GroupComposition(table)
    arrays = memoriser_network(np.asarray(task.table), balanced)
    n = arrays.order
    margin = 2 / (3 * math.sqrt(3) * n**2) if balanced else 1 / (2 * n**2 * 2.0625**1.5)
    statement = f"f(a,b)[c] = 1[c = r(a,b)] for every pair; normalised L_(2,3) margin {margin:.6g}"
    return _pairs("algebra/memoriser", task, arrays, np.eye(n), statement)


@construction("algebra/parity", source="dissertation, section D.7 (repaired) and Theorem 7.8")
def parity_classes(n: int, k: int | None = None, support: tuple[int, ...] | None = None) -> Construction:
    """Parity of k bits with maximum margin for x^k, 2^(k-1) neurons.

    f(x) = k! (k+1)^{-(k+1)/2}/√2 · ∏_{i in S} x_i · (1,-1)
    """
    problem = ParityProblem(n, support, None if support is not None and k == len(support) else k)
    arrays = parity_network(n, problem.support)
    best = max_margin_parity(problem.k)
    logits = (
        f"f(x) = {best.value / 2:.6g}·∏_(i in S) x_i·(1,-1) for every x in {{-1,+1}}^{n}, S = {list(problem.support)}"
    )
    return Construction(
        "algebra/parity",
        ParityClasses(n, support=problem.support),
        PowerNetwork(arrays.width, arrays.exponent),
        _params(arrays),
        _maximal(logits, arrays, best),
        arrays.width,
        SignedLogits(problem, best.value / 2),
        tolerance=1e-10 * best.value,
    )


def _pairs(name: str, task: GroupComposition, arrays: PairArrays, by_label: Array, statement: str) -> Construction:
    table = np.asarray(task.table, np.int64)
    tolerance = 1e-10 * float(np.abs(by_label).max())
    oracle = PairLogits(table, by_label)
    model = PairNetwork(arrays.width)
    return PairConstruction(name, task, model, _params(arrays), statement, arrays.width, oracle, tolerance)


def _params(arrays: PairArrays | PowerArrays) -> dict[str, Any]:
    names = ("U", "V", "W") if isinstance(arrays, PairArrays) else ("U", "W")
    return {name: getattr(arrays, name) for name in names}


def _maximal(logits: str, arrays: PairArrays | PowerArrays, best: MaxMargin) -> str:
    """The statement of a network of maximum margin, whose norm must be 1."""
    size = norm(arrays)
    require(abs(size - 1) <= 1e-12, f"a network of maximum margin has norm 1; got {size!r}")
    margin = f"the normalised margin is γ* = {best.value:.6g} ({best.theorem})"
    return f"{logits}; ‖θ‖_(2,{arrays.homogeneity}) = 1, so that {margin}"
