"""What one gradient step of Theorem 5.5 leaves, in closed form, with the top layer that reads the parity off it.

From the symmetric start (w_i signs, |b_i| < 1, f = 0) the hinge loss has the gradient of -y f,
and for odd n, even k (dissertation, Lemmas B.3 to B.5)

    j in S:      g_ij = -½ u_i ξ_{k-1} ∏_{l in S∖j} w_il        |w_ij| = 1/(2k) after the step
    j not in S:  g_ij = -½ u_i ξ_{k+1} w_ij ∏_{l in S} w_il     |w_ij| = (k-1)/(2k(n-k))

with rate 1/(k|ξ_{k-1}|) and decay 1; biases do not move. A neuron is *good* where all w_il, l in S, equal
u_i sign ξ_{k-1}: it becomes +1/(2k) on every relevant coordinate, and k+1 good neurons with the biases of Lemma B.4
hold the parity, up to what the irrelevant weights add. Here every such bias is read by the mean of all good neurons
that have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from krogh.errors import require, require_integer
from krogh.models import Mlp
from krogh.networks.handmade import Array, Construction, Oracle, construction
from krogh.networks.parity import parity_task
from krogh.tasks import Parity
from krogh.theory.boolean.fourier import cube, heaviside, population_gradient
from krogh.theory.boolean.majority import majority_coefficient
from krogh.theory.boolean.one_step import good_neuron_width
from krogh.theory.prediction import check_even, check_odd

LARGEST_N = 17
"""Gradients are checked by enumeration, neuron by neuron."""


def symmetric_start(n: int, k: int, width: int, seed: int) -> tuple[Array, Array, Array]:
    """w [width/2, n], b and u [width/2] of the first half of the neurons; the second has -u in place of u."""
    rng, half = np.random.default_rng(seed), width // 2
    signs = np.array([-1.0, 1.0])
    return rng.choice(signs, (half, n)), rng.integers(1 - k, k, half) / k, rng.choice(signs, half)


def stepped_weights(start: Array, outputs: Array, support: Array) -> Array:
    """W after the step, from the lemma's formulas; one row per neuron, `outputs` are their u."""
    n, k = start.shape[1], len(support)
    inner, outer = majority_coefficient(n, k - 1), majority_coefficient(n, k + 1)
    product = np.prod(start[:, support], axis=1)
    coefficient = np.full(n, outer)
    coefficient[support] = inner  # w_ij is a sign, so that the product without it is the product times it
    gradient = -0.5 * outputs[:, None] * coefficient[None, :] * start * product[:, None]
    return -gradient / (k * abs(inner))


def good_neurons(start: Array, outputs: Array, support: Array) -> np.ndarray:
    """Which neurons have all relevant signs equal to u_i sign ξ_{k-1}."""
    n, k = start.shape[1], len(support)
    wanted = outputs * np.sign(majority_coefficient(n, k - 1))
    return np.all(start[:, support] == wanted[:, None], axis=1)


@dataclass(frozen=True)
class StepByEnumeration(Oracle):
    """The same network, its step taken by enumeration: every gradient is a mean over the whole cube."""

    task: Parity
    start: Array
    biases: Array
    outputs: Array
    top: Array

    @property
    def exhaustive(self) -> bool:
        return True

    def cases(self, seed: int) -> Iterator[tuple[Array, Array]]:
        support = np.asarray(self.task.support)
        rate = 1 / (self.task.k * abs(majority_coefficient(self.task.n, self.task.k - 1)))
        x = cube(self.task.n)
        total = np.zeros(len(x))
        for w, b, u, top in zip(self.start, self.biases, self.outputs, self.top, strict=True):
            if top:
                stepped = rate * u * population_gradient(w, support, heaviside, bias=b)
                total += top * np.maximum(x @ stepped + b, 0.0)
        yield x, total


@construction("parity/one-step", source="dissertation, section B.2.1, Lemmas B.3 to B.5")
def one_step(
    n: int, k: int | None = None, support: tuple[int, ...] | None = None, width: int = 1024, seed: int = 0
) -> Construction:
    """The network after the one large step of Theorem 5.5, its top layer reading the parity off the good neurons.

    f(x) = Σ_i u_i relu(w_i·x + b_i), of which 2 chi_S(x) is what the relevant coordinates give; the irrelevant ones add
    at most Σ_i |u_i| |Σ_{j not in S} w_ij x_j|. n odd, k even and at least 4: for k = 2 the needed biases are not on
    the start's grid. Starts are drawn with `seed`; a small `width` may lack a good neuron.
    """
    task = parity_task(n, k, support)
    k = task.k
    check_odd("n", n)
    check_even("k", k)
    require(4 <= k < n, f"the construction needs 4 ≤ k < n; got n={n}, k={k}")
    require(n <= LARGEST_N, f"its gradients are checked by enumeration, up to n={LARGEST_N}; got n={n}")
    require_integer("width", width, 2)
    require(width % 2 == 0, f"neurons come in pairs: width must be even; got width={width} (try {width + 1})")
    require_integer("seed", seed, 0)
    half_w, half_b, half_u = symmetric_start(n, k, width, seed)
    start, biases = np.concatenate([half_w, half_w]), np.concatenate([half_b, half_b])
    outputs, members = np.concatenate([half_u, -half_u]), np.asarray(task.support)
    top, good = np.zeros(width), good_neurons(start, outputs, members)
    sign = (-1.0) ** k
    needed = [*(8.0 * k * (-1) ** i for i in range(k - 1)), -6.0 * k * sign, 2.0 * k * sign]
    for i, weight in enumerate(needed):
        own = good & (np.rint(biases * k) == i + 1 - k // 2)
        enough = int(np.ceil(good_neuron_width(k, 0.1)))
        require(own.any(), f"no good neuron has the bias {(i + 1) / k - 0.5:g}; got width={width} (try width={enough})")
        top[own] = weight / own.sum()
    params = {"W": stepped_weights(start, outputs, members), "b": biases, "u": top}
    names = ", ".join(map(str, members))
    statement = (
        f"one population step from a symmetric start gives |w_ij| = 1/{2 * k} on S = {{{names}}} "
        f"and {(k - 1)}/{2 * k * (n - k)} elsewhere; {int(good.sum())} of {width} neurons are good"
    )
    oracle = StepByEnumeration(task, start, biases, outputs, top)
    return Construction("parity/one-step", task, Mlp(width), params, statement, width, oracle)
