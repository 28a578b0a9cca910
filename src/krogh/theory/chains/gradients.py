"""The population gradient of the minimal model under the margin loss, exactly, for any k (equations E.8-E.36).

The minimal model (8.8) has logits f_{p,i} = Σ_{t'≤p} 1[x_t' = i] Σ_{s≤t'} v_{t'-s+1} W[x_p, x_s]. Where all hinges of
the margin loss (8.7) are active the loss is linear in the logits, so bilinear in W and v; from a stationary start

    L(W, v) = (k-1)Δ/k - Σ_{m,l,j} W_ml v_j T_ml(j)
    T_ml(j) = E_P (π_l/t) Σ_i (P_mi - 1/k) (P^{j-1})_li (R_j)_im,    R_j = Σ_{n=0}^{t-j} (t-j+1-n) P^n

and -∂L/∂W_ml = Σ_j v_j T_ml(j), -∂L/∂v_j = Σ_ml W_ml T_ml(j). Arrays count from 0: T[m, l, j-1], v[j-1].
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.tasks.chains import DirichletRows, Prior
from krogh.theory.chains.laws import SAMPLES, Law, law_of

Array = NDArray[np.float64]
CHUNK = 2**21
"""Numbers of one array of powers: as many tables are taken at a time as keep to it."""


def gradient_tensor(law: Law, t: int) -> Array:
    """T [k, k, t] of a law of tables: row, column and distance, `T[m, l, j-1]`."""
    require_integer("t", t, 1)
    k, total = law.k, np.zeros((law.k, law.k, t))
    step = max(1, CHUNK // (t * k * k))
    for first in range(0, len(law.P), step):
        part = slice(first, first + step)
        total += _tensor_of(law.P[part], law.weights[part], t)
    return total


def _tensor_of(P: Array, weights: Array, t: int) -> Array:
    k = P.shape[-1]
    powers = np.empty((t, *P.shape))
    powers[0] = np.eye(k)
    for n in range(1, t):
        powers[n] = powers[n - 1] @ P
    # Σ_{n≤N} (N+1-n) P^n is the sum of the sums; R_j is that of N = t-j
    R = np.cumsum(np.cumsum(powers, axis=0), axis=0)[::-1]
    pi = Law(P, weights, True).pi
    pulled = (P - 1 / k)[None] * np.swapaxes(R, -1, -2)  # [j, size, m, i]
    found = pulled @ np.swapaxes(powers, -1, -2)  # Σ_i: [j, size, m, l]
    return np.einsum("jsml,sl->mlj", found, weights[:, None] * pi) / t


def prior_tensor(prior: Prior, k: int, t: int, samples: int = SAMPLES, seed: int = 0) -> Array:
    """T of a prior: by quadrature for two symbols, else by `samples` tables."""
    if isinstance(prior, DirichletRows) and prior.alpha is None:
        return _flat_tensor(k, t, samples, seed)
    return gradient_tensor(law_of(prior, k, degree=t, samples=samples, seed=seed), t)


@functools.lru_cache(maxsize=32)
def _flat_tensor(k: int, t: int, samples: int, seed: int) -> Array:
    """That of flat chains, which every sweep asks for again; read-only."""
    T = gradient_tensor(law_of(DirichletRows(), k, degree=t, samples=samples, seed=seed), t)
    T.setflags(write=False)
    return T


def linear_loss(W: ArrayLike, v: ArrayLike, T: Array, delta: float) -> float:
    """(k-1)Δ/k - Σ W_ml v_j T_ml(j): the population margin loss where every hinge is active."""
    k = T.shape[0]
    for_W, _ = descent_direction(W, v, T)
    return float((k - 1) * delta / k - np.sum(np.asarray(W) * for_W))


def descent_direction(W: ArrayLike, v: ArrayLike, T: Array) -> tuple[Array, Array]:
    """(-∂L/∂W, -∂L/∂v)."""
    return T @ np.asarray(v, np.float64), np.tensordot(np.asarray(W, np.float64), T, axes=2)


class Step(NamedTuple):
    """One step of population gradient descent: the prior, the rate, and the weight decay: θ ← (1-decay) θ - rate ∇L."""

    prior: Prior
    rate: float
    decay: float = 0.0


def descend(
    W: ArrayLike, v: ArrayLike, steps: Sequence[Step], samples: int = SAMPLES, seed: int = 0
) -> list[tuple[Array, Array]]:
    """(W, v) before the first step and after each: exact descent in the linear regime, with a prior for each step."""
    W, v = np.asarray(W, np.float64), np.asarray(v, np.float64)
    square = W.ndim == 2 and W.shape[0] == W.shape[1] and v.ndim == 1
    require(square, f"W must be [k, k] and v [t]; got shapes {list(W.shape)} and {list(v.shape)}")
    path = [(W, v)]
    for step in steps:
        for_W, for_v = descent_direction(W, v, prior_tensor(step.prior, len(W), len(v), samples, seed))
        W, v = (1 - step.decay) * W + step.rate * for_W, (1 - step.decay) * v + step.rate * for_v
        path.append((W, v))
    return path


def linear_margin(W: ArrayLike, v: ArrayLike) -> float:
    """The Δ from which all hinges are active on every input: max|W| Σ_j (t-j+1) |v_j| bounds all |f_i - f_y|.

    At W = c11ᵀ, v = c1 it is c² t(t+1)/2 (below equation E.6), and it is at most max|W| max|v| t(t+1)/2 elsewhere: the
    terms of f_p are at most t-j+1 for each distance j, and each belongs to one logit.
    """
    v = np.abs(np.asarray(v, np.float64))
    return float(np.abs(np.asarray(W)).max() * (np.arange(len(v), 0, -1) @ v))


def in_linear_regime(W: ArrayLike, v: ArrayLike, delta: float) -> bool:
    """Whether the margin loss with this Δ is linear in the logits of these weights, whatever the input."""
    return delta >= linear_margin(W, v)
