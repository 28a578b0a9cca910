"""The best of many optimised neurons: what no formula is needed for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest


def optimise(table: np.ndarray, tau: np.ndarray, q: np.ndarray | None = None, starts: int = 24) -> float:
    """max of E_q[(u(a)+v(b))² (w(ab) - Σ_c τ(c) w(abc))] over |u|²+|v|²+|w|² = 1, by alternating exact maximisation.

    For fixed w the best (u, v) is a top eigenvector; for fixed (u, v) the best w is a direction. Uses the table only.
    """
    n = len(table)
    tensor = np.zeros((n, n, n))
    for a, b in itertools.product(range(n), repeat=2):
        tensor[a, b, table[a, b]] += 1.0
        for c in range(n):
            tensor[a, b, table[table[a, b], c]] -= tau[c]
    tensor *= 1 / n**2 if q is None else q[:, :, None]
    random = np.random.default_rng(0)
    best = -np.inf
    for _ in range(starts):
        w, value = random.normal(size=n), -np.inf
        for _ in range(400):
            w /= np.linalg.norm(w)
            m = tensor @ w
            form = np.block([[np.diag(m.sum(1)), m], [m.T, np.diag(m.sum(0))]])
            values, vectors = np.linalg.eigh(form)
            s = vectors[:, -1]
            w = np.einsum("abc,ab->c", tensor, (s[:n, None] + s[None, n:]) ** 2)
            if abs(values[-1] - value) < 1e-15:
                break
            value = values[-1]
        best = max(best, 2 / (3 * math.sqrt(3)) * np.linalg.norm(w))
    return best


@pytest.fixture
def best_of_optimised_neurons() -> Callable[..., float]:
    return optimise
