"""Parities written into weights (dissertation, §B.4.1 and Lemma B.4).

    parity/one-neuron         one neuron of an oscillating activation
    parity/relu               k+1 ReLUs, or k and an output bias
    parity/monomial           k neurons of activation z^k
    parity/polynet            a product of k coordinates
    parity/disjoint-polynet   the same, one coordinate from each of k blocks
    parity/quadratic          layers of squares, pair by pair

All compute chi_S(x) = ∏_{i in S} x_i, up to rounding. Those of one layer do so from Σ_{i in S} x_i = k - 2m,
where m counts the negative relevant bits: chi_S = (-1)^m. Indices start at 0; S is the first k coordinates
(the first of each block, where there are blocks) unless `support` is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from krogh.errors import KroghError, require, require_integer
from krogh.models import DeepQuadratic, DisjointPolyNet, Mlp, Neuron, PolyNet, power_mlp
from krogh.models.parts import from_roots, oscillating_interpolant
from krogh.networks.handmade import Array, Construction, Oracle, construction
from krogh.tasks import DisjointParity, Parity
from krogh.tasks.parity import AbstractParity
from krogh.theory.prediction import Variant, check_open, check_parity, check_variant, is_number

ALL_INPUTS = 16
"""Largest n for which a parity is checked on the whole cube; beyond, on 2^16 random inputs."""

_ENTRIES = 2**22
"""Coordinates in one batch of inputs: 32 MiB in float64."""


@dataclass(frozen=True)
class ParityTable(Oracle):
    """multiple · chi_S by counting bits: input r of the cube has x_i = -1 where bit i of r is set.

    The multiple is a number or a vector.
    """

    n: int
    support: tuple[int, ...]
    multiple: float | tuple[float, ...] = 1.0

    @property
    def exhaustive(self) -> bool:
        return self.n <= ALL_INPUTS

    def cases(self, seed: int) -> Iterator[tuple[Array, Array]]:
        random = np.random.default_rng(seed)
        total = 2 ** min(self.n, ALL_INPUTS)
        batch = max(1, _ENTRIES // self.n)
        for start in range(0, total, batch):
            stop = min(start + batch, total)
            if self.exhaustive:
                bits = (np.arange(start, stop)[:, None] >> np.arange(self.n)) & 1
            else:
                bits = random.integers(0, 2, (stop - start, self.n), dtype=np.int8)
            negative = bits[:, list(self.support)].sum(axis=1, dtype=np.int64)
            x = 1.0 - 2.0 * bits.astype(np.float64)
            yield x, np.multiply.outer(1.0 - 2.0 * (negative & 1), np.asarray(self.multiple))


@construction("parity/one-neuron", source="dissertation, section B.4.1 and Figure B.14")
def one_neuron(
    n: int,
    k: int | None = None,
    support: tuple[int, ...] | None = None,
    activation: Literal["zigzag", "polynomial", "infinite-zigzag", "sine"] = "sine",
    degree: int | None = None,
    scale: float = 1.0,
    outer: Literal["extend", "clamp"] = "extend",
    output_weight: bool = True,
) -> Construction:
    """One neuron of an oscillating activation.

        chi_S(x) = sigma(w·x + b),  w = w_S/scale,  b = (degree - k)/scale,  w_S = Σ_{i in S} e_i

    An activation of the given `degree` (k unless given) passes through (degree - 2j, (-1)^j), and
    scale·(w·x + b) = degree - 2m. So b = 0 for degree k; one neuron of any degree ≥ k holds the parity after
    a shift, and a wave (infinite-zigzag, sine) holds parities of every k. `scale` belongs to the sine.
    """
    task = parity_task(n, k, support)
    check_open("scale", scale, 0)
    reach = task.k if degree is None else degree
    model = Neuron(activation, reach, output_weight, scale, outer)
    obstacle = model.obstacle(task)
    require(obstacle is None, f"no such neuron exists: {obstacle}")
    params = {"w": indicator(task) / scale, "b": (reach - task.k) / scale}
    if output_weight:
        params["u"] = 1.0
    return parity_construction("parity/one-neuron", task, model, params, 1, "u·sigma(w·x + b)")


@construction("parity/relu", source="dissertation, Lemma B.4, Claim 5 (repaired) and section B.4.1")
def relu(
    n: int,
    k: int | None = None,
    support: tuple[int, ...] | None = None,
    output_bias: bool = False,
    multiple: float = 1.0,
    variant: Variant = "repaired",
) -> Construction:
    """A two-layer ReLU network of width k+1, or of width k with an output bias.

        f = Σ_i u_i relu(w_S·x/(2k) + b_i) [+ c] = 2 chi_S,  b_i = -1/2 + (i+1)/k,  so that
        relu(...) = max(0, i+1-m)/k:  f is piecewise linear in m with kinks at 1, 2, ...

        without c, i = 0..k:    u_i = 8k(-1)^i (i ≤ k-2), u_{k-1} = -6k(-1)^k, u_k = 2k(-1)^k
        with c, i = 0..k-1:     u_i = 8k(-1)^i (i ≤ k-2), u_{k-1} = -4k(-1)^k, c = 2(-1)^k

    The output is `multiple` · chi_S; Claim 5 states it for multiple 2, where max |u_i| = 8k (k ≥ 2) and
    Σ|u_i| = 8k². The variant "printed" has i = 1..k, u_i = 8k(-1)^(i+1), u_{k-1} = 6k, u_k = -2k, and its
    statement fails: for even k, which the lemma assumes, it gives -2 chi_S, and 6 where m = 0.
    """
    task = parity_task(n, k, support)
    check_variant(variant)
    finite = is_number(multiple) and math.isfinite(multiple) and multiple != 0
    require(finite, f"multiple must be a finite number other than 0; got multiple={multiple!r}")
    k = task.k
    sign = (-1.0) ** k
    if variant == "printed":
        require(not output_bias, "the source prints no network with an output bias; got output_bias=True")
        first, u = 1, [8.0 * k * (-1) ** (i + 1) for i in range(1, k - 1)] + [6.0 * k, -2.0 * k][-k:]
    else:
        first, u = 0, [8.0 * k * (-1) ** i for i in range(k - 1)]
        u += [-4.0 * k * sign] if output_bias else [-6.0 * k * sign, 2.0 * k * sign]
    width = len(u)
    half = multiple / 2  # the formulas are for 2 chi_S
    params: dict[str, Any] = {
        "W": np.tile(indicator(task) / (2 * k), (width, 1)),
        "b": -0.5 + (np.arange(first, first + width) + 1) / k,
        "u": half * np.array(u),
    }
    if output_bias:
        params["c"] = half * 2.0 * sign
    formula = "u·relu(Wx + b)" + (" + c" if output_bias else "")
    model = Mlp(width, output_bias=output_bias)
    return parity_construction("parity/relu", task, model, params, width, formula, multiple=multiple)


@construction("parity/polynet", source="dissertation, section B.4.1")
def polynet(n: int, k: int | None = None, support: tuple[int, ...] | None = None) -> Construction:
    """A PolyNet whose factors are the relevant coordinates: chi_S(x) = ∏_{j in S} (e_j·x + 0)."""
    task = parity_task(n, k, support)
    params = {"w": np.eye(task.n)[np.asarray(task.support)], "b": np.zeros(task.k)}
    return parity_construction("parity/polynet", task, PolyNet(task.k), params, task.k, "∏_i (w_i·x + b_i)")


@construction("parity/disjoint-polynet", source="dissertation, section 5.4.2")
def disjoint_polynet(n: int, k: int, support: tuple[int, ...] | None = None) -> Construction:
    """A disjoint-PolyNet that reads the relevant coordinate of each block.

        chi_S(x) = ∏_{i<k} e_{j_i}·x_{P_i},  S = {i·n/k + j_i}

    k divides n, and `support` has one coordinate in each of the k blocks of n/k.
    """
    check_parity(n, k)
    task = DisjointParity(n, k, support=_members(support, n))
    place = np.asarray(task.support) % (n // k)
    params = {"w": np.eye(n // k)[place]}
    model = DisjointPolyNet(k)
    return parity_construction("parity/disjoint-polynet", task, model, params, k, "∏_i w_i·x_{P_i}")


def parity_task(n: int, k: int | None, support: Iterable[int] | None) -> Parity:
    """The noiseless parity that n, k and the support describe."""
    members = _members(support, n)
    require(k is not None or members is not None, "a parity needs k or a support; got neither")
    check_parity(n, len(members) if k is None else k)  # type: ignore[arg-type]
    return Parity(n, k, members)


def parity_construction(
    name: str,
    task: AbstractParity,
    model: Any,
    params: dict[str, Any],
    width: int,
    formula: str,
    *,
    multiple: float = 1.0,
    tolerance: float = 1e-9,
) -> Construction:
    """The construction whose statement is that the formula equals a multiple of chi_S on the whole cube."""
    support = tuple(int(i) for i in np.asarray(task.support))
    times = "" if multiple == 1 else f"{multiple:g} "
    members = ", ".join(map(str, support))
    statement = f"{formula} = {times}chi_S(x) for every x in {{-1,+1}}^{task.n}, S = {{{members}}}"
    oracle = ParityTable(task.n, support, multiple)
    return Construction(name, task, model, params, statement, width, oracle, tolerance)


def indicator(task: AbstractParity) -> Array:
    """w_S = Σ_{i in S} e_i."""
    weights = np.zeros(task.n)
    weights[np.asarray(task.support)] = 1.0
    return weights


def _members(support: Iterable[int] | None, n: int) -> tuple[int, ...] | None:
    """The support as a tuple of coordinates; None stands for the default one."""
    if support is None:
        return None
    check_parity(n, 1)
    if isinstance(support, str) or not isinstance(support, Iterable):
        raise KroghError(f"support must be a list of coordinates in 0..{n - 1}; got support={support!r}")
    members = tuple(support)
    for index in members:
        require_integer("a coordinate of the support", index, 0, n - 1)
    return members


@construction("parity/monomial", source="dissertation, section B.4.1 (existence; the weights are derived)")
def monomial(
    n: int, k: int | None = None, support: tuple[int, ...] | None = None, spacing: float = 4.0
) -> Construction:
    """A two-layer network of width k with activation z^k.

        chi_S(x) = Σ_i u_i (w_S·x + b_i)^k

    The oscillating polynomial p(s) = Σ_j p_j s^j of degree k has p(w_S·x) = chi_S(x). Comparing powers of s,
    the sum is p exactly when Σ_i u_i b_i^j = m_j := p_{k-j}/C(k,j) for j = 0..k: with M the linear functional
    z^j -> m_j on polynomials, a quadrature of k nodes for M. The first k-1 nodes are free, an even grid of
    the given `spacing` here; with q = ∏_{i<k} (z - b_i) the last is b_k = M(zq)/M(q), and u_i = M(L_i) for
    the Lagrange polynomials L_i of the nodes. All this in rational arithmetic, rounded once to float64; what remains is
    the cancellation in the network itself, which grows with k: about 1e-11 at k = 8, and 1e-7 at k = 16.
    """
    task = parity_task(n, k, support)
    check_open("spacing", spacing, 0)
    nodes, weights = quadrature(task.k, Fraction(float(spacing)))
    params = {
        "W": np.tile(indicator(task), (task.k, 1)),
        "b": np.array([float(node) for node in nodes]),
        "u": np.array([float(weight) for weight in weights]),
    }
    model = power_mlp(task.k, task.k)
    return parity_construction("parity/monomial", task, model, params, task.k, f"u·(Wx + b)^{task.k}", tolerance=1e-6)


def quadrature(k: int, spacing: Fraction) -> tuple[list[Fraction], list[Fraction]]:
    """Nodes b_1..b_k and weights u_1..u_k with Σ_i u_i b_i^j = m_j for j = 0..k, exactly."""
    p = oscillating_interpolant(k)
    moments = [p[k - j] / math.comb(k, j) for j in range(k + 1)]

    def functional(polynomial: Sequence[Fraction]) -> Fraction:
        return sum((a * m for a, m in zip(polynomial, moments, strict=False)), Fraction(0))

    # The grid of k centred points without its first: for odd k the formula below puts that one back.
    nodes = [spacing * Fraction(2 * j - (k - 1), 2) for j in range(1, k)]
    q = from_roots(nodes)
    below = functional(q)
    last = functional((Fraction(0), *q)) / below if below else None
    require(
        last is not None and last not in nodes,
        f"the nodes spaced by {float(spacing)} leave no place for the last one at k={k}; try another spacing",
    )
    nodes.append(last)  # type: ignore[arg-type]
    weights = []
    for i, node in enumerate(nodes):
        others = nodes[:i] + nodes[i + 1 :]
        weights.append(functional(from_roots(others)) / math.prod(node - other for other in others))
    return nodes, weights


@construction("parity/quadratic", source="dissertation, section B.3.7 (k = 4; the others are derived)")
def quadratic(n: int, k: int | None = None, support: tuple[int, ...] | None = None) -> Construction:
    """A deep network of squares of widths k/2, k/4, ..., 1 for a parity of k = 2, 4, 8, ... bits.

        a b = (a + b)²/2 - 1 for signs a and b, pair by pair and layer by layer; k = 4:

        f = ((x_1 + x_2)² + (x_3 + x_4)² - 4)²/8 - 1

    Without divisions on the way: if a layer's units are α_i (a + b)² with α_1 = 1, the next one adds two of them and
    -4α_i, so that α_{i+1} = 4α_i²; in the end u = 1/(2α), c = -1. All weights are whole numbers and powers of 2.
    """
    task = parity_task(n, k, support)
    depth = task.k.bit_length() - 1
    paired = task.k == 2**depth and depth >= 1
    require(paired, f"pairs of pairs need k = 2, 4, 8, ...; got k={task.k} (try k={2 ** max(1, depth)})")
    members = np.asarray(task.support)
    pairs = np.zeros((task.k // 2, n))
    for place, index in enumerate(members):
        pairs[place // 2, index] = 1.0
    params: dict[str, Any] = {"W": pairs, "b": np.zeros(len(pairs))}
    scale = 1.0  # α
    for layer in range(2, depth + 1):
        width = task.k // 2**layer
        weights, bias = DeepQuadratic.names(layer)
        params[weights] = np.repeat(np.eye(width), 2, axis=1)
        params[bias] = np.full(width, -4.0 * scale)
        scale = 4 * scale**2
    params |= {"u": np.array([1 / (2 * scale)]), "c": -1.0}
    widths = tuple(task.k // 2**layer for layer in range(1, depth + 1))
    return parity_construction("parity/quadratic", task, DeepQuadratic(widths), params, sum(widths), "u·z_L + c")
