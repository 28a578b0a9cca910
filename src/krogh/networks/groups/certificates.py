"""Certificates of maximum margin: what a network reaches against what nothing can exceed (sections 7.3 and D.5).

    h(θ/‖θ‖) ≤ γ* ≤ V(q, τ) = max_{‖ω‖_2 ≤ 1} E_q[ψ'(ω)]      for every θ, q and τ, under the norm L_{2,ν}

They meet if (Lemma 7.6)

    Eq 7.1   every input in the support of q is on the margin, g = h
    C.1      every label with τ > 0 has the largest wrong logit
    Eq 7.3   E_q[g'(θ/‖θ‖)] = V(q, τ)

V is exact for uniform q with τ per offset on a group (`weighted`), and for uniform q on parities, where E[ψ] =
√2 k! (∏_{i in S} u_i) (w_0 - w_1)/√2. Other q and τ get the bound by the singular values of the tensor's flattenings,
which holds and may be loose. For the norm L_{2,b} with b > ν the bound is multiplied by m^{1-ν/b}.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require
from krogh.networks.groups.arrays import Network, combination_factor, cube_blocks, labels_of, norm
from krogh.networks.groups.measures import check_exponent, label_weights, margins, weighted_margins
from krogh.programs.groups import Group
from krogh.theory.groups.maximum import max_margin_parity
from krogh.theory.groups.problems import ParityProblem, Problem, problem_of
from krogh.theory.groups.weighted import offset_maximum
from krogh.theory.numerics import spectral_norm

Array = NDArray[np.float64]

LARGEST_TENSOR = 2**24
"""Entries of E_q[ψ']'s tensor that are held at once: 128 MiB in float64."""


@dataclass(frozen=True)
class Failure:
    """A condition that fails: which, how often, by how much at worst (relative to the upper bound) and where."""

    condition: str
    count: int
    worst: float
    where: str

    def __str__(self) -> str:
        return f"{self.condition} fails {self.count} times, at worst by {self.worst:.3g} of the bound: {self.where}"


@dataclass(frozen=True)
class Certificate:
    """`lower` = h(θ/‖θ‖) ≤ γ* ≤ `upper` = V(q, τ); `expected` = E_q[g'(θ/‖θ‖)] lies between lower and upper.

    `exact` says whether `upper` is V itself or a bound on it, `proof` where it comes from, `failing` what is missing.
    """

    lower: float
    upper: float
    expected: float
    exact: bool
    proof: str
    failing: tuple[Failure, ...]

    @property
    def value(self) -> float:
        """The normalised margin that the network is proved to have."""
        return self.lower

    @property
    def holds_for(self) -> str:
        """For which inputs."""
        return "all inputs"

    @property
    def gap(self) -> float:
        """upper - lower."""
        return self.upper - self.lower

    @property
    def closed(self) -> bool:
        """Whether the network is proved to have the maximum margin."""
        return not self.failing


def certify(
    network: Network,
    problem: Any,
    q: ArrayLike | None = None,
    tau: ArrayLike | None = None,
    b: float | None = None,
    tolerance: float = 1e-9,
) -> Certificate:
    """Lower and upper bound for γ*, and which condition keeps them apart where.

    `problem` is a group, its name, an integer p for Z_p, a parity or a task of these; `q` a distribution on inputs,
    [n, n] or [2^n], uniform unless given; `tau` weights on wrong labels, [n] per offset or [n, n, n], those of the
    tightest bound unless given; `b` the norm across neurons, ν unless given. Numbers that differ by `tolerance` of the
    upper bound are equal.
    """
    given = problem_of(problem)
    check_exponent(network, given)
    size = norm(network, 2.0, b)
    require(size > 0, "a network of zeros cannot be normalised")
    unit = network.scaled(1 / size)
    weights = _input_weights(given, q)
    upper, exact, proof = _bound(given, None if q is None else weights, tau)
    upper *= combination_factor(network.homogeneity, network.homogeneity if b is None else b, network.width)
    reached = margins(unit, given)
    expected = float(weights @ weighted_margins(unit, given, tau))
    lower = float(reached.min())
    slack = tolerance * upper
    failing = [
        _off_the_margin(given, reached, weights > 0, upper, slack),
        _labels_below(unit, given, weights > 0, tau, upper, slack),
    ]
    if upper - expected > slack:
        where = f"E_q[g'] = {expected:.6g} is below V = {upper:.6g}"
        failing.append(Failure("Eq 7.3", 1, (upper - expected) / upper, where))
    return Certificate(lower, upper, expected, exact, proof, tuple(f for f in failing if f is not None))


def _input_weights(problem: Problem, q: ArrayLike | None) -> Array:
    """q as a distribution over the inputs in the order of their indices."""
    inputs = problem.order**2 if isinstance(problem, Group) else 2**problem.n
    if q is None:
        return np.full(inputs, 1 / inputs)
    weights = np.asarray(q, np.float64).ravel()
    require(weights.shape == (inputs,), f"q needs a weight for each of the {inputs} inputs; got {weights.size}")
    good = (weights >= 0).all() and abs(weights.sum() - 1) <= 1e-9
    require(good, f"q must not be negative and must add to 1; got least {weights.min():g} and sum {weights.sum():g}")
    return weights


def _bound(problem: Problem, q: Array | None, tau: ArrayLike | None) -> tuple[float, bool, str]:
    """V(q, τ) or a bound on it, whether it is V, and what gives it; q is None where it is uniform."""
    uniform = q is None or np.ptp(q) <= 1e-15
    if isinstance(problem, ParityProblem):
        if uniform:
            return max_margin_parity(problem.k).value, True, "E[ψ] = √2 k! (∏ u_i) β of Theorem 7.8"
        return _parity_flattening(problem, np.asarray(q)), False, "singular values of E_q[y x⊗...⊗x]"
    if uniform and (tau is None or np.ndim(tau) == 1):
        return offset_maximum(problem, tau).value, True, "Lemmas D.11 and D.13 over the real irreps"
    return _pair_flattening(problem, q, tau), False, "singular values of the tensor of E_q[ψ']"


def _pair_flattening(group: Group, q: Array | None, tau: ArrayLike | None) -> float:
    """max E_q[ψ'] ≤ 2/(3√3) · the least top singular value over flattenings of s ↦ Σ M[a,b,c] (u(a)+v(b))² w(c).

    M = q(a,b) (1[c = ab] - τ(a,b)[c]); with s = (u, v) it is a form in s, s, w, of norm at most that of each
    flattening, and |s|²|w| is at most 2/(3√3) on |s|² + |w|² = 1.
    """
    n = group.order
    require(n**3 <= LARGEST_TENSOR, f"weights other than uniform q and tau per offset need n³ numbers; got n={n}")
    index = np.arange(n * n)
    tensor = -label_weights(group, tau)(index)
    np.put_along_axis(tensor, labels_of(group)[:, None], 1.0, axis=1)
    tensor = (tensor * (1 / n**2 if q is None else q[:, None])).reshape(n, n, n)
    rows, columns = tensor.sum(axis=1), tensor.sum(axis=0)
    by_label = rows.T @ rows + columns.T @ columns + 2 * np.einsum("abc,abd->cd", tensor, tensor)
    # Over s the form is [[diag r_c, M_c], [M_cᵀ, diag k_c]] for each label c; its Gram matrix over one factor s:
    gram = np.zeros((2 * n, 2 * n))
    gram[:n, :n] = np.diag(np.sum(rows**2, axis=1)) + np.einsum("abc,dbc->ad", tensor, tensor)
    gram[n:, n:] = np.diag(np.sum(columns**2, axis=1)) + np.einsum("abc,adc->bd", tensor, tensor)
    mixed = np.einsum("ac,abc->ab", rows, tensor) + np.einsum("abc,bc->ab", tensor, columns)
    gram[:n, n:], gram[n:, :n] = mixed, mixed.T
    largest = min(np.linalg.eigvalsh(by_label)[-1], np.linalg.eigvalsh(gram)[-1])
    return 2 / (3 * math.sqrt(3)) * math.sqrt(float(largest))


def _parity_flattening(problem: ParityProblem, q: Array) -> float:
    """√2 k^{k/2}/(k+1)^{(k+1)/2} times the top singular value of E_q[y x⊗...⊗x] as a matrix n^⌈k/2⌉ × n^⌊k/2⌋."""
    k, n = problem.k, problem.n
    left, right = n ** -(-k // 2), n ** (k // 2)
    require(left * right <= LARGEST_TENSOR, f"q other than uniform needs n^k numbers; got n={n}, k={k}")
    weights = q * (1.0 - 2.0 * labels_of(problem))
    tensor = np.zeros((left, right))
    for index, inputs in cube_blocks(n, left):
        tensor += _powers(inputs, -(-k // 2)).T @ (weights[index, None] * _powers(inputs, k // 2))
    largest = float(spectral_norm(tensor))
    return math.sqrt(2) * largest * math.exp(k / 2 * math.log(k) - (k + 1) / 2 * math.log(k + 1))


def _powers(inputs: Array, times: int) -> Array:
    """x⊗...⊗x of every row, [batch, n^times]."""
    found = np.ones((len(inputs), 1))
    for _ in range(times):
        found = (found[:, :, None] * inputs[:, None, :]).reshape(len(inputs), -1)
    return found


def _off_the_margin(
    problem: Problem, reached: Array, support: NDArray[np.bool_], upper: float, slack: float
) -> Failure | None:
    """Eq 7.1: the inputs of spt(q) whose margin exceeds the least one."""
    excess = np.where(support, reached - reached.min(), 0.0)
    count = int(np.sum(excess > slack))
    if count == 0:
        return None
    worst = int(np.argmax(excess))
    where = (
        f"the input {_input_name(problem, worst)} has the margin {reached[worst]:.6g}, the least is {reached.min():.6g}"
    )
    return Failure("Eq 7.1", count, float(excess[worst]) / upper, where)


def _labels_below(
    unit: Network, problem: Problem, support: NDArray[np.bool_], tau: ArrayLike | None, upper: float, slack: float
) -> Failure | None:
    """C.1: labels with τ > 0 whose logit is below the largest wrong one, on inputs of spt(q)."""
    if isinstance(problem, ParityProblem):
        return None  # one wrong label, which has the largest wrong logit
    labels, weigh = labels_of(problem), label_weights(problem, tau)
    count, worst, where = 0, 0.0, ""
    for index, logits in unit.blocks():
        wrong = logits.copy()
        np.put_along_axis(wrong, labels[index, None], -np.inf, axis=1)
        short = np.where((weigh(index) > 0) & support[index, None], wrong.max(axis=1, keepdims=True) - wrong, 0.0)
        count += int(np.sum(short > slack))
        if short.max() > max(worst, slack):
            row, label = np.unravel_index(int(np.argmax(short)), short.shape)
            worst = float(short.max())
            where = f"the label {problem.labels[label]} of the input {_input_name(problem, int(index[row]))}"
    return Failure("C.1", count, worst / upper, where) if count else None


def _input_name(problem: Problem, index: int) -> str:
    if isinstance(problem, Group):
        a, b = divmod(index, problem.order)
        return f"({problem.labels[a]}, {problem.labels[b]})"
    return "(" + ", ".join("-1" if index >> i & 1 else "+1" for i in range(problem.n)) + ")"
