"""What tests of several folders share."""

from __future__ import annotations

import itertools
import json
import math

import jax
import numpy as np

from krogh.integrity import DIGESTS, SUMMARY, digest_of_object


def random_params(task, model, dtype=np.float64, scale=0.5, seed=1):
    """Parameters of a model's shapes, all drawn from N(0, scale²), unlike any that it starts from."""
    random = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), task))
    return {name: (scale * random.normal(size=leaf.shape)).astype(dtype) for name, leaf in shapes.items()}


def retell(folder, **changes):
    """Let a study's study.json say something else, as if the study had written it so."""
    path = folder / SUMMARY
    told = json.loads(path.read_text()) | changes
    told[DIGESTS] = {**told.get(DIGESTS, {}), SUMMARY: digest_of_object(told)}
    path.write_text(json.dumps(told))


def in_double(function, model, params, x):
    """`function` of a model, its parameters and inputs, in double precision."""
    with jax.enable_x64(True):
        out = np.asarray(function(model, params, x))
    assert out.dtype in (np.float64, np.complex128)
    return out


def best_optimised_neuron(table: np.ndarray, tau: np.ndarray, q: np.ndarray | None = None, starts: int = 24) -> float:
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
