"""Networks that add, compose or multiply, written down and executed (dissertation, sections 7.1 and D.4–D.9).

    algebra/cyclic      addition modulo an odd p with maximum margin, 4(p-1) neurons            cyclic_network    D.6.2
    algebra/group       composition in any finite group with maximum margin                     group_network     D.9.2
    algebra/parity      parity of k bits with maximum margin, 2^(k-1) neurons                   parity_network    D.7
    algebra/rotation    addition by one frequency: logits cos(2πk(a+b-c)/p), 8 neurons          rotation_network  7.1
    algebra/memoriser   any group's table, without any Fourier structure, 2n² neurons           memoriser_network D.4

Weights are plain arrays first, and their logits are compared with closed forms on every input. Networks of maximum
margin have norm ‖θ‖_{2,ν} = 1. For any finite group (Lemmas D.13–D.16) every real irrep R of dimension D, commutant e
(1 real, 2 complex, 4 quaternionic) and share x_R > 0 of Σ‖ω_i‖³ has the neurons

    u(g) = s x_iᵀR(g)e_j,  v(g) = ±s R(g)_{jk},  w(g) = ±s x_iᵀR(g)e_k     for all i ≤ D/e, j ≤ D, k ≤ D and both signs
    Σ over these of (u(a)+v(b))² w(c) = 4s³ χ_R(abc⁻¹)/e

where the x_i are orthonormal and their images under what commutes with R are a basis: the unit vectors for real type.
Shares ∝ D^2.5/e make all wrong logits equal, which is the maximum where Theorem 7.9's condition holds; the linear
program's shares are it elsewhere. The source treats real type, with 2D³ neurons each; it prints (i,j) for the last
index pair once, and omits the factor 4 and √D of the scale.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import KroghError, require, require_integer, unknown
from krogh.models.two_layer import PairNetwork, PowerNetwork
from krogh.networks.groups.arrays import PairArrays, PowerArrays, arrays_of, norm
from krogh.networks.groups.certificates import Certificate, certify
from krogh.networks.handmade import Construction, Oracle, construction
from krogh.networks.parity import ParityTable
from krogh.programs.groups import Group, cyclic, load_group, whole_table
from krogh.tasks.composition import GroupComposition
from krogh.tasks.parity import ParityClasses
from krogh.theory.groups.irreps import COMMUTANT, Irrep, real_irreps
from krogh.theory.groups.maximum import MaxMargin, max_margin_cyclic, max_margin_group, max_margin_parity
from krogh.theory.groups.problems import ParityProblem, characters_of, group_of

Array = NDArray[np.float64]

QUARTERS = np.array([(0, 0, 0), (0, 2, 2), (1, -1, 0), (1, 1, 2), (-1, 0, -1), (-1, 2, 1), (0, -1, -1), (0, 1, 1)])
"""Phases of u, v and w in quarter turns, that of w the sum of the others. Each pair of rows leaves 4·cos·cos·cos of
(A+B)²C - (A-B)²C; the four pairs are the terms of cos(x+y-z)."""

LARGEST_CYCLIC = 1024
LARGEST_MEMORISED = 128
LARGEST_K = 16


def cyclic_network(p: int) -> PairArrays:
    """The maximum-margin network of addition modulo an odd p: 8 neurons for each frequency 1..(p-1)/2.

        u(a) = s cos(θ_u + 2πza/p), v and w alike,  s = √(2/(3p)) (4(p-1))^{-1/3}
        logits = 4s³ Σ_z cos(2πz(a+b-c)/p) = 4s³·(p-1)/2 at c = a+b, and 4s³·(-1/2) elsewhere

    The source prints 0 for -1/2. It names primes; every odd p ≥ 3 will do.
    """
    require_integer("p", p, 3, LARGEST_CYCLIC)
    require(p % 2 == 1, f"needs an odd p; got p={p} (try p={p - 1} or {p + 1}, or group_network for an even p)")
    scale = math.sqrt(2 / (3 * p)) * (4 * (p - 1)) ** (-1 / 3)
    parts = [_octet(p, z) for z in range(1, (p - 1) // 2 + 1)]
    return _pair(scale * np.concatenate(parts))


def rotation_network(p: int, frequency: int = 1) -> PairArrays:
    """Addition by rotations of one frequency: logits cos(2πk(a+b-c)/p), by 8 neurons.

    The largest is that of c = a+b where k and p have no common factor; for others several c tie.
    """
    require_integer("p", p, 2, LARGEST_CYCLIC)
    require_integer("frequency", frequency, 1, p - 1)
    common = math.gcd(p, frequency)
    require(
        common == 1,
        f"frequency must have no factor in common with p; got frequency={frequency}, p={p} (try frequency=1)",
    )
    return _pair(4 ** (-1 / 3) * _octet(p, frequency))


def _octet(p: int, z: int) -> Array:
    """cos(θ + 2πzx/p) for the eight triples of phases, [8, 3, p]."""
    turns = (z * np.arange(p) % p) / p + QUARTERS[:, :, None] / 4
    return np.cos(2 * np.pi * turns)


def _pair(parts: Array) -> PairArrays:
    return PairArrays(parts[:, 0], parts[:, 1], parts[:, 2])


def parity_network(n: int, support: Sequence[int] | None = None, k: int | None = None) -> PowerArrays:
    """The maximum-margin network of a parity of k bits for x^k, one neuron per sign pattern σ with σ_1 = +1.

    u = t σ/√(k+1) on the support,  w = t (∏σ)/√(k+1) · (1,-1)/√2,  t = 2^{-(k-1)/(k+1)}
    f(x) = k! (k+1)^{-(k+1)/2}/√2 · ∏_{i in S} x_i · (1,-1)   for all x in R^n
    """
    problem = ParityProblem(n, support, k)
    require_integer("k", problem.k, 1, LARGEST_K)
    patterns = np.array([(1, *rest) for rest in itertools.product((1, -1), repeat=problem.k - 1)], np.float64)
    entry = 2 ** (-(problem.k - 1) / (problem.k + 1)) / math.sqrt(problem.k + 1)
    u = np.zeros((len(patterns), problem.n))
    u[:, list(problem.support)] = entry * patterns
    w = entry * np.prod(patterns, axis=1)[:, None] * np.array([1.0, -1.0]) / math.sqrt(2)
    return PowerArrays(u, w, problem.k)


def memoriser_network(table: ArrayLike, balanced: bool = True) -> PairArrays:
    """f(a,b)[c] = 1[c = r(a,b)] for any table r, by two neurons per pair: (e_a + e_b)² - (e_a - e_b)² = 4 e_a e_b.

    As printed u = e_a, v = ±e_b, w = ±e_r/4, with normalised margin 1/(2n²·2.0625^1.5); `balanced` gives all three
    vectors the length (1/4)^{1/3}, and the larger margin 2/(3√3 n²). Each vector's Fourier transform is flat.
    """
    entries = whole_table(np.asarray(table))
    n = len(entries)
    require(2 <= n <= LARGEST_MEMORISED, f"a table of 2..{LARGEST_MEMORISED} elements is memorised; got {n}")
    within = (entries >= 0).all() and (entries < n).all()
    require(within, f"entries must lie in 0..{n - 1}; got {int(entries.min())}..{int(entries.max())}")
    unit = np.eye(n)
    a, b = np.divmod(np.arange(n * n), n)
    u, v, w = unit[a], unit[b], unit[entries.ravel()]
    inner, outer = (4 ** (-1 / 3), 4 ** (-1 / 3)) if balanced else (1.0, 0.25)
    return PairArrays(inner * np.concatenate([u, u]), inner * np.concatenate([v, -v]), outer * np.concatenate([w, -w]))


LARGEST_SIZE = 2**24
"""Numbers per weight matrix, 128 MiB: S_5 has 1190 neurons of 120 weights."""


def group_network(group: Any, shares: Mapping[str, float] | None = None) -> PairArrays:
    """A network with given shares x_R of Σ‖ω_i‖³ per irrep, of norm ‖θ‖_{2,3} = 1; those of maximum margin by default.

    `shares` are by the irreps' names in `characters_of(group)`, not negative and 1 together.
    """
    given = group_of(group)
    by_irrep = irrep_shares(given, shares)
    width = sum(neuron_count(irrep) for irrep, share in by_irrep if share > 0)
    require(
        width * given.order <= LARGEST_SIZE,
        f"the network of {given.name} has {width} neurons of 3·{given.order} weights, more than {LARGEST_SIZE:,} per "
        "matrix (try a smaller group)",
    )
    parts = [_irrep_neurons(irrep, share) for irrep, share in by_irrep if share > 0]
    u, v, w = (np.concatenate([part[place] for part in parts]) for place in range(3))
    return PairArrays(u, v, w)


def neuron_count(irrep: Irrep) -> int:
    """2D³/e neurons."""
    return 2 * irrep.dimension**3 // COMMUTANT[irrep.kind]


def irrep_shares(group: Group, shares: Mapping[str, float] | None = None) -> list[tuple[Irrep, float]]:
    """Each non-trivial real irrep with its share; those of maximum margin unless given."""
    characters = characters_of(group)
    names = characters.irrep_names[1:]
    by_name = max_margin_group(characters).irrep_shares if shares is None else dict(shares)
    for name in by_name:
        if name not in names:
            raise unknown("irrep", str(name), names)
    total, least = sum(by_name.values()), min(by_name.values(), default=0.0)
    good = abs(total - 1) <= 1e-9 and least >= 0
    require(good, f"shares must not be negative and must add to 1; got {by_name}, sum {total:g}")
    return [(irrep, by_name.get(name, 0.0)) for name, irrep in zip(names, real_irreps(group)[1:], strict=True)]


def logit_values(group: Group, shares: Mapping[str, float] | None = None) -> Array:
    """F(c) with f(a,b)[label] = F((ab)⁻¹label) for the network of these shares, [n], from characters alone.

    F(c) = Σ_R x_R · 2/(3|G|)^1.5 · χ_R(c)/D^1.5
    """
    unit = 2 / (3 * group.order) ** 1.5
    terms = [unit * share * irrep.character / irrep.dimension**1.5 for irrep, share in irrep_shares(group, shares)]
    return np.asarray(np.sum(terms, axis=0))


def _irrep_neurons(irrep: Irrep, share: float) -> tuple[Array, Array, Array]:
    """u, v, w [2D³/e, n] of one irrep, with Σ‖ω_i‖³ = share."""
    order, size = len(irrep.matrices), irrep.dimension
    scale = (share / neuron_count(irrep)) ** (1 / 3) * math.sqrt(size / (3 * order))
    entries = scale * np.moveaxis(irrep.matrices, 0, -1)  # [j, k, g]
    framed = np.tensordot(commutant_frame(irrep), entries, axes=1)  # [i, j, g]: x_iᵀR(g)e_j
    shape = (len(framed), size, size, order)
    u = np.broadcast_to(framed[:, :, None, :], shape).reshape(-1, order)
    v = np.broadcast_to(entries[None], shape).reshape(-1, order)
    w = np.broadcast_to(framed[:, None, :, :], shape).reshape(-1, order)
    return np.concatenate([u, u]), np.concatenate([v, -v]), np.concatenate([w, -w])


def commutant_frame(irrep: Irrep) -> Array:
    """Orthonormal x_i [D/e, D] whose images under the matrices that commute with R span everything, at right angles.

    Σ_i x_iᵀR(g)x_i = χ_R(g)/e.
    """
    size, e = irrep.dimension, COMMUTANT[irrep.kind]
    if e == 1:
        return np.eye(size)
    random = np.random.default_rng(size)
    drawn = random.standard_normal((e, size, size))
    # The mean of R(g) M R(g)ᵀ over the group commutes with R; e random ones span what does.
    commuting = np.einsum("gij,mjk,glk->mil", irrep.matrices, drawn, irrep.matrices, optimize=True)
    frame: list[Array] = []
    reached = np.zeros((size, 0))
    for _ in range(size // e):
        rest = np.eye(size) - reached @ reached.T
        vector = rest[:, int(np.argmax(np.linalg.norm(rest, axis=0)))]
        vector = vector / np.linalg.norm(vector)
        frame.append(vector)
        images, triangle = np.linalg.qr((commuting @ vector).T)
        if np.abs(np.diag(triangle)).min() < 1e-9 * len(irrep.matrices):
            raise KroghError(f"no {e} independent matrices commute with the irrep {irrep.name}, which is {irrep.kind}")
        reached = np.hstack([reached, images])
    return np.array(frame)


_BATCH = 4096


@dataclass(frozen=True, eq=False)
class MarginConstruction(Construction):
    """A construction that may have the maximum margin of its task."""

    def certificate(self) -> Certificate | None:
        """How close the network is to the maximum margin of its task; None where none is known."""
        try:
            return certify(arrays_of(self.model, self.parameters), self.task)
        except KroghError:
            return None


@dataclass(frozen=True, eq=False)
class PairConstruction(MarginConstruction):
    """A construction whose inputs are pairs of whole numbers, not of reals."""

    def batch(self, x: ArrayLike) -> NDArray[np.int32]:
        """Pairs [batch, 2]; anything else is refused."""
        given = np.asarray(x)
        batch = given.astype(np.int32)
        whole = given.ndim == 2 and given.shape[1] == 2 and np.array_equal(batch, given)
        require(whole, f"inputs of {self.name!r} are pairs of whole numbers [batch, 2]; got the shape {given.shape}")
        n = self.parameters["U"].shape[1]
        require(((batch >= 0) & (batch < n)).all(), f"inputs of {self.name!r} are pairs of numbers in 0..{n - 1}")
        return batch


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
    return MarginConstruction(
        "algebra/parity",
        ParityClasses(n, support=problem.support),
        PowerNetwork(arrays.width, arrays.exponent),
        _params(arrays),
        _maximal(logits, arrays, best),
        arrays.width,
        ParityTable(n, tuple(problem.support), (best.value / 2, -best.value / 2)),
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
