"""Margins of a network over all inputs, and class-weighted margins, of inputs and of neurons (sections 7.2–7.3, D.6).

    margin             g(x) = f(x)[y] - max_{y'≠y} f(x)[y'],  h = min_x g(x)
    normalised margin  h(θ/‖θ‖) = h(θ)/‖θ‖^ν
    class-weighted     g'(x) = f(x)[y] - Σ_{y'≠y} τ(x)[y'] f(x)[y'] ≥ g(x);  ψ' the same of one neuron

τ is a distribution on wrong labels. On a group it is given per *offset*: τ [n] puts τ[c] on the label ab·c, τ[e] = 0.
For every q and τ: h(θ/‖θ‖) ≤ γ* ≤ max_ω E_q[ψ'(ω)] over neurons of norm 1 (`certificates`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require
from krogh.networks.groups.arrays import Network, PairArrays, PowerArrays, check_fit, cube_blocks, labels_of, norm
from krogh.programs.groups import Group
from krogh.theory.groups.problems import ParityProblem, group_of, problem_of
from krogh.theory.groups.weighted import default_offsets, offset_distribution

Array = NDArray[np.float64]


def margins(network: Network, problem: Any) -> Array:
    """g of every input, [n²] or [2^n], in the order of the network's blocks."""
    given = problem_of(problem)
    check_fit(network, given)
    labels = labels_of(given)
    each = np.empty(len(labels))
    for index, logits in network.blocks():
        right, wrong = _split(logits, labels[index])
        each[index] = right - wrong.max(axis=1)
    return each


def dataset_margin(network: Network, problem: Any) -> float:
    """h, the least margin."""
    return float(margins(network, problem).min())


def normalised_margin(network: Network, problem: Any, a: float = 2.0, b: float | None = None) -> float:
    """h(θ)/‖θ‖_{a,b}^ν; b is ν unless given. ReLU networks under L_2 have b = 2, which is their ν."""
    size = norm(network, a, b)
    require(size > 0, "a network of zeros cannot be normalised")
    return dataset_margin(network, problem) / size**network.homogeneity


def cross_entropy(network: Network, problem: Any) -> float:
    """The mean softmax cross-entropy over all inputs."""
    given = problem_of(problem)
    check_fit(network, given)
    labels = labels_of(given)
    total = 0.0
    for index, logits in network.blocks():
        right = np.take_along_axis(logits, labels[index, None], axis=1)
        total += float(np.sum(np.logaddexp.reduce(logits - right, axis=1)))
    return total / len(labels)


def logit_flatness(network: Network, problem: Any) -> float:
    """max over inputs of (largest - least wrong logit)/h: 0 where all wrong labels are alike, infinite where h ≤ 0."""
    given = problem_of(problem)
    check_fit(network, given)
    labels = labels_of(given)
    spread, least = 0.0, np.inf
    for index, logits in network.blocks():
        right, wrong = _split(logits, labels[index])
        highest = wrong.max(axis=1)
        lowest = np.min(np.where(np.isfinite(wrong), wrong, np.inf), axis=1)
        spread, least = max(spread, float(np.max(highest - lowest))), min(least, float(np.min(right - highest)))
    return spread / least if least > 0 else np.inf


def weighted_margins(network: Network, problem: Any, tau: ArrayLike | None = None) -> Array:
    """g' of every input, [n²] or [2^n]; τ [n] per offset, or [n, n, n] per (a, b, label). Two labels leave no choice.

    τ is that of the tightest bound unless given (`weighted.default_offsets`).
    """
    given = problem_of(problem)
    check_fit(network, given)
    if isinstance(given, ParityProblem):
        require(tau is None, "with two labels the only wrong one has weight 1; got a tau")
        return margins(network, given)
    labels = labels_of(given)
    each = np.empty(len(labels))
    weigh = label_weights(given, tau)
    for index, logits in network.blocks():
        right = np.take_along_axis(logits, labels[index, None], axis=1)[:, 0]
        each[index] = right - np.sum(weigh(index) * logits, axis=1)
    return each


def label_weights(group: Group, tau: ArrayLike | None) -> Any:
    """A function from indices of inputs to τ on their labels, [block, n]; checks that τ is on wrong labels."""
    n, labels = group.order, labels_of(group)
    if tau is None or np.ndim(tau) == 1:
        offsets = default_offsets(group) if tau is None else offset_distribution(group, tau)
        offset = group.table[group.inverse]  # offset[l, l'] = l⁻¹ l'
        return lambda index: offsets[offset[labels[index]]]
    whole = np.asarray(tau, np.float64)
    require(whole.shape == (n, n, n), f"tau is [n] per offset or [n, n, n] with n={n}; got the shape {whole.shape}")
    flat = whole.reshape(n * n, n)
    good = (flat >= 0).all() and np.allclose(flat.sum(axis=1), 1, rtol=0, atol=1e-9)
    on_wrong = not np.any(np.take_along_axis(flat, labels[:, None], axis=1))
    require(good and on_wrong, "tau must be a distribution on the wrong labels of every input, with 0 on the right one")
    return lambda index: flat[index]


def offset_means(network: PairArrays, group: Any) -> Array:
    """h_{uvw}(c) = E_{a,b}[σ(u(a) + v(b)) w(abc)] of every neuron, [m, n]."""
    given = group_of(group)
    check_fit(network, given)
    n = given.order
    means = np.empty((network.width, n))
    size = max(1, 2**22 // n**2)
    shifts = given.table[given.inverse]  # shifts[a, g] = a⁻¹g, and as [g, l]: the offset from g to the label l
    for start in range(0, network.width, size):
        part = slice(start, start + size)
        hidden = network.hidden(network.U[part][:, :, None] + network.V[part][:, shifts])
        means[part] = np.einsum("ig,igc->ic", hidden.mean(axis=1), network.W[part][:, given.table]) / n
    return means


def neuron_margins(network: Network, problem: Any, tau: ArrayLike | None = None) -> Array:
    """E[ψ'(ω_i)] of every neuron under uniform q, [m]; their sum is E[g'(θ)]. τ [n] per offset."""
    given = problem_of(problem)
    check_fit(network, given)
    if isinstance(given, Group) and isinstance(network, PairArrays):
        offsets = default_offsets(given) if tau is None else offset_distribution(given, tau)
        means = offset_means(network, given)
        return np.asarray(means[:, given.identity] - means @ offsets)
    require(tau is None, "with two labels the only wrong one has weight 1; got a tau")
    assert isinstance(network, PowerArrays)
    signs = 1.0 - 2.0 * labels_of(given)
    sums = np.zeros(network.width)
    for index, inputs in cube_blocks(network.coordinates, network.width):
        sums += signs[index] @ network.hidden(inputs)
    return sums / len(signs) * (network.W[:, 0] - network.W[:, 1])


def check_exponent(network: Network, problem: Group | ParityProblem) -> None:
    """Refuse activations for which no maximum margin is known, with what would be needed."""
    check_fit(network, problem)
    if isinstance(problem, ParityProblem):
        k, exponent = problem.k, network.homogeneity - 1
        reason = f"(u·x)^{exponent} has degree below k" if exponent < k else "a larger one is outside Theorem 7.8"
        require(exponent == k, f"a parity of k={k} bits needs exponent={k}; got exponent={exponent} ({reason})")
        return
    known = network.homogeneity == 3
    require(known, f"the maximum margin on a group is known for the activation x²; got ν={network.homogeneity}")


def _split(logits: Array, labels: NDArray[np.int64]) -> tuple[Array, Array]:
    """The right logits [block], and all with -inf in place of the right ones [block, labels]."""
    right = np.take_along_axis(logits, labels[:, None], axis=1)
    wrong = logits.copy()
    np.put_along_axis(wrong, labels[:, None], -np.inf, axis=1)
    return right[:, 0], wrong
