"""The first two steps of gradient descent on the minimal model (Lemmas 8.4 and E.1, Corollary E.2).

From W = c11ᵀ, v = c1. For two symbols the population gradients have closed forms in a, b and λ = a+b-1; what is left is
an expectation over two uniform numbers. They are kept as the source has them (misprints repaired, see each), and held
against the tensor of `gradients`, which works for any k. After step 1 the diagonal of W leads and v_1 is largest; after
step 2 v_2 is, and even distances have grown more than odd ones.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from krogh.errors import require_integer
from krogh.tasks.chains import DirichletRows
from krogh.theory.chains.gradients import descent_direction, linear_margin, prior_tensor
from krogh.theory.chains.laws import NODES, SAMPLES, law_of, unit_nodes
from krogh.theory.prediction import check_positive, prediction

Array = NDArray[np.float64]

A = (7 - 10 * math.log(2)) / 6
"""G_12 = G_21 for two symbols (E.23)."""
B = (math.log(256) - 5) / 12
"""G_11 = G_22 for two symbols (E.22)."""
D = 1.5 - math.log(4)
"""E‖π‖² - 1/2 for two symbols (E.29)."""
H_1 = (1 - math.log(2)) / 3
H_2 = (7 - 10 * math.log(2)) / 2 + (8 * math.log(2) - 5) / 6
"""h_2 for two symbols (E.43, with the sign of its second term repaired)."""


# --- closed forms for two symbols ---


def _pairs() -> tuple[Array, Array, Array]:
    """a, b and weights of U(0,1)²."""
    points, weights = unit_nodes(NODES)
    a, b = np.meshgrid(points, points, indexing="ij")
    return a.ravel(), b.ravel(), np.outer(weights, weights).ravel()


def _matrices(a: Array, b: Array) -> tuple[Array, Array, Array, Array, Array]:
    """λ, π [2, size], P, β and γ [2, 2, size], with P^n = (βλ^n + γ)/(λ-1) (E.15)."""
    lam = a + b - 1
    pi = np.array([1 - b, 1 - a]) / (2 - a - b)
    P = np.array([[a, 1 - a], [1 - b, b]])
    beta = np.array([[a - 1, 1 - a], [1 - b, b - 1]])
    gamma = np.array([[b - 1, a - 1], [b - 1, a - 1]])
    return lam, pi, P, beta, gamma


def closed_first_weights(t: int) -> Array:
    """-∇_W / c at W = c11ᵀ, v = c1 for two symbols: E.17 with its four sums, (I) written to be regular at λ = 0."""
    a, b, weights = _pairs()
    lam, pi, P, beta, gamma = _matrices(a, b)
    one, s = lam - 1, 1 - lam
    first = (lam - (t + 1) * lam ** (t + 1) + t * lam ** (t + 2)) / s**2 + lam * (1 - lam**t) / s**2 - t / s
    second = lam**2 * (1 - lam**t) / s - lam * t * (t + 3) / 2 + t * (t + 1) / 2
    third = t * lam / s - (lam**2 - lam ** (t + 2)) / s**2 - t * (t + 1) / 2
    fourth = t * (t + 1) * (t + 2) / 6
    found = np.empty((2, 2))
    for m in range(2):
        for l in range(2):  # noqa: E741 (the source's letter)
            sums = (
                (beta[0, m] * beta[l, 0] - beta[1, m] * beta[l, 1]) / one * first
                + (beta[0, m] * gamma[l, 0] - beta[1, m] * gamma[l, 1]) / one**2 * second
                + (beta[l, 0] * gamma[0, m] - beta[l, 1] * gamma[1, m]) / one * third
                + (gamma[0, m] * gamma[l, 0] - gamma[1, m] * gamma[l, 1]) * fourth
            )
            found[m, l] = weights @ (pi[l] * (P[m, 0] - 0.5) / (t * one**2) * sums)
    return found


def closed_first_positions(t: int) -> Array:
    """-∇_v / c at W = c11ᵀ, v = c1 for two symbols, at every distance (E.28)."""
    a, b, weights = _pairs()
    one, s = a + b - 2, 2 - a - b
    lam, j = (a + b - 1)[:, None], np.arange(1, t + 1)[None, :]
    pairs = (t - j + 1) * (t - j + 2) / 2
    even = ((a - 1) ** 2 + (b - 1) ** 2) / one**2 - 0.5
    mixed = 2 * lam[:, 0] * (a - 1) * (b - 1) / one**3
    tail = (lam - lam ** (t - j + 2)) / s[:, None] - t + j - 1
    return np.asarray(weights @ (even[:, None] * pairs + mixed[:, None] * tail)) / t


def closed_diagonal(t: int) -> Array:
    """H_j = T_11(j) + T_22(j) for two symbols (E.37 and E.38, three misprints repaired)."""
    a, b, weights = _pairs()
    lam, pi, P, beta, gamma = _matrices(a, b)
    one, s = lam - 1, 1 - lam
    found = np.empty(t)
    own = ((lam - lam ** (t + 1)) / s - t) * lam * (a - 1) * (b - 1) / one**3
    pair = ((b - 1) ** 2 * (a - 0.5) + (a - 1) ** 2 * (b - 0.5)) / one**2 * (t * (t + 1) / 2)
    found[0] = weights @ (own + pair)
    for j in range(2, t + 1):
        total = np.zeros_like(lam)
        for i in range(2):
            for l in range(2):  # noqa: E741
                inner = beta[i, l] * beta[l, i] / one * ((lam**j - lam ** (t + 1)) / s - (t - j + 1) * lam ** (j - 1))
                inner += beta[i, l] * gamma[l, i] / one * ((lam - lam ** (t - j + 2)) / s - t + j - 1)
                slow = gamma[i, l] * beta[l, i] * lam ** (j - 1) + gamma[i, l] * gamma[l, i]
                inner += (t - j + 1) * (t - j + 2) / 2 * slow
                total += pi[l] / one**2 * (P[l, i] - 0.5) * inner
        found[j - 1] = weights @ total
    return found / t


# --- leading orders, any k ---


def leading_constants(k: int, distances: int = 8, samples: int = SAMPLES, seed: int = 0) -> dict[str, Any]:
    """The constants of the leading orders on flat chains: G [k, k], its means B and A, D and h_1, h_2, ….

        G_ml = E π_m π_l ((Pπ)_m - 1/k)     D = E‖π‖² - 1/k     h_j = E Σ_m π_m² ⟨P_m - 1/k, (P^{j-1})_m⟩

    B is the mean of the diagonal of G and A that of the rest. By quadrature for two symbols, else by `samples` tables,
    with standard errors `*_error`.
    """
    require_integer("distances", distances, 1)
    law = law_of(DirichletRows(), k, degree=distances, samples=samples, seed=seed, nodes=200 if k == 2 else None)
    pi, P, power = law.pi, law.P, np.broadcast_to(np.eye(k), law.P.shape)
    image = np.einsum("smi,si->sm", P, pi) - 1 / k
    G = (pi * image)[:, :, None] * pi[:, None, :]
    off = (G.sum(axis=(1, 2)) - np.trace(G, axis1=1, axis2=2)) / (k * (k - 1))
    h = np.empty((len(P), distances))
    for j in range(distances):
        h[:, j] = np.einsum("sm,smi,smi->s", pi**2, P - 1 / k, power)
        power = power @ P
    values = {"B": np.trace(G, axis1=1, axis2=2) / k, "A": off, "D": np.sum(pi**2, axis=1) - 1 / k, "h": h}
    found: dict[str, Any] = {"G": law.mean(G)}
    for name, each in values.items():
        found |= {name: law.mean(each), f"{name}_error": law.error(each)}
    return found


def leading_first_step(c: float, eta: float, t: int, constants: dict[str, Any]) -> tuple[Array, Array]:
    """W_ml = c + cη G_ml (t+1)(t+2)/6 and v_j = c + (cη/t) D (t-j+1)(t-j+2)/2: the leading order of step 1."""
    j = np.arange(1, t + 1)
    W = c + c * eta * np.asarray(constants["G"]) * (t + 1) * (t + 2) / 6
    return W, c + c * eta / t * float(constants["D"]) * (t - j + 1) * (t - j + 2) / 2


# --- predictions ---


def first_and_second(k: int, t: int, c: float, eta: float, samples: int, seed: int) -> dict[str, Any]:
    """W and v after steps 1 and 2 on flat chains, H_j, and what of v^(2) the diagonal of W^(1) contributed."""
    require_integer("k", k, 2)
    require_integer("t", t, 2)
    check_positive(c=c, eta=eta)
    T = prior_tensor(DirichletRows(), k, t, samples, seed)
    W0, v0 = np.full((k, k), c), np.full(t, c)
    for_W, for_v = descent_direction(W0, v0, T)
    W1, v1 = W0 + eta * for_W, v0 + eta * for_v
    for_W, for_v = descent_direction(W1, v1, T)
    W2, v2 = W1 + eta * for_W, v1 + eta * for_v
    H = np.einsum("mmj->j", T)
    off = float((W1.sum() - np.trace(W1)) / (k * (k - 1)))
    gap = float(np.trace(W1) / k) - off
    return {"W1": W1, "v1": v1, "W2": W2, "v2": v2, "H": H, "gap": gap, "off": off, "T": T}


@prediction(
    "chains/first-step",
    source="dissertation, Lemma 8.4 and section E.1 (E.15-E.29)",
    constants="all explicit: quadrature for k = 2, Monte Carlo over chains beyond (G and D of the leading order too)",
)
def first_step(
    k: int = 2, t: int = 100, c: float = 0.02, eta: float = 0.03, places: int = 8, samples: int = SAMPLES, seed: int = 0
) -> dict[str, Any]:
    """The first step of the minimal model on flat chains: the diagonal of W leads, and v_1 is largest.

    From W = c11ᵀ, v = c1 at rate η, exactly and to leading order,

        W_ml = c + cη G_ml (t+1)(t+2)/6 + O(t)      v_j = c + (cη/t) D (t-j+1)(t-j+2)/2 + O(1)

    with G_ii = B = (ln 256 - 5)/12, G_12 = A = (7 - 10 ln 2)/6 and D = 3/2 - ln 4 for k = 2. `margin` is the Δ of the
    margin loss from which the statement is exact.
    """
    found = first_and_second(k, t, c, eta, samples, seed)
    constants = leading_constants(k, 1, samples, seed)
    W, v = leading_first_step(c, eta, t, constants)
    diagonal, off = float(np.trace(found["W1"]) / k), found["off"]
    return {
        "diagonal": diagonal,
        "off_diagonal": off,
        "increment_ratio": (diagonal - c) / (off - c),
        "v": found["v1"][:places],
        "largest_v": int(np.argmax(found["v1"])) + 1,
        "leading_diagonal": float(np.trace(W) / k),
        "leading_off_diagonal": float((W.sum() - np.trace(W)) / (k * (k - 1))),
        "leading_v": v[:places],
        "B": constants["B"],
        "A": constants["A"],
        "D": constants["D"],
        "ratio_limit": float(constants["B"] / constants["A"]),
        "margin": linear_margin(np.full((k, k), c), np.full(t, c)),
    }


@prediction(
    "chains/second-step",
    source="dissertation, Lemma E.1 (E.37-E.43)",
    constants="all explicit: quadrature for k = 2, Monte Carlo over chains beyond",
)
def second_step(
    k: int = 2, t: int = 100, c: float = 0.02, eta: float = 0.03, places: int = 8, samples: int = SAMPLES, seed: int = 0
) -> dict[str, Any]:
    """The second step of the minimal model on flat chains: v_2 becomes largest, and even distances grow more.

    With W = c'11ᵀ + (ρ-c')I after step 1, v_j^(2) = v_j^(1) + (c'/c)(v_j^(1) - c) + η(ρ-c') H_j, and

        H_j ~ ((t-j+1)(t-j+2)/(2t)) h_j,    h_j = E Σ_m π_m² ⟨P_m - 1/k, (P^{j-1})_m⟩

    `from_diagonal` is η(ρ-c')H_j. For k = 2, h_1 = (1-ln 2)/3 and h_2 = (7-10 ln 2)/2 + (8 ln 2-5)/6; `margin` is the Δ
    from which both steps are exact.
    """
    found = first_and_second(k, t, c, eta, samples, seed)
    return {
        "v": found["v2"][:places],
        "from_diagonal": eta * found["gap"] * found["H"][:places],
        "largest_v": int(np.argmax(found["v2"])) + 1,
        "largest_v_before": int(np.argmax(found["v1"])) + 1,
        "h": leading_constants(k, places, samples, seed)["h"],
        "margin": linear_margin(found["W1"], found["v1"]),
    }


def doubly_stochastic_weight(t: int) -> float:
    """g_W: -∇_W = c g_W I at W = c11ᵀ, v = c1 for doubly stochastic chains of two symbols.

    g_W = (1/(8t)) Σ_{n=0}^{t-1} (t-n)(t-n+1) E λ^{n+1} with λ ~ U(-1, 1), which grows like (t/16) ln t: the meaning of
    the printed O(t)·∞.
    """
    n = np.arange(t)
    return float((t - n) * (t - n + 1) @ _even_moment(n + 1) / (8 * t))


def doubly_stochastic_positions(t: int) -> Array:
    """-∇_v / c at W = c11ᵀ, v = c1: (1/(2t)) Σ_{even n=2}^{t-j+1} (t-j+2-n)/(n+1) at j = 1..t (E.49 repaired)."""
    found = np.empty(t)
    for j in range(1, t + 1):
        n = np.arange(2, t - j + 2, 2)
        found[j - 1] = np.sum((t - j + 2 - n) / (n + 1)) / (2 * t)
    return found


def _even_moment(m: NDArray[np.int64]) -> Array:
    """E λ^m of λ ~ U(-1, 1)."""
    return np.where(m % 2 == 0, 1 / (m + 1), 0.0)


@prediction(
    "chains/doubly-stochastic-step",
    source="dissertation, Corollary E.2 (E.44-E.49, the sign of v repaired)",
    constants="all explicit",
)
def doubly_stochastic_step(t: int = 100, c: float = 0.02, eta: float = 0.03, places: int = 8) -> dict[str, Any]:
    """The first step on doubly stochastic chains of two symbols: only the diagonal of W moves, and v hardly prefers 1.

        W = (c + cη g_W) on the diagonal, c beside it    v_j = c + (cη/(2t)) Σ_{even n} (t-j+2-n)/(n+1)

    The preference v_1 - v_2 is O(log t / t), where flat chains have cηD (D = 3/2 - ln 4).
    """
    require_integer("t", t, 2)
    check_positive(c=c, eta=eta)
    g, increments = doubly_stochastic_weight(t), doubly_stochastic_positions(t)
    return {
        "g": g,
        "g_growth": g / (t * math.log(t) / 16),
        "diagonal": c + c * eta * g,
        "off_diagonal": c,
        "v": c + c * eta * increments[:places],
        "v_increment": float(increments[0]),
        "v_growth": float(increments[0] / (math.log(t) / 4)),
        "preference": float(c * eta * (increments[0] - increments[1])),
        "flat_preference": c * eta * D,
    }
