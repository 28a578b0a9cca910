"""Retrieving what was stored at one of T positions by hard attention, with binary or scalar codes of positions.

One head with a null slot, as in the retrieval step of compiled machines (Claim C.6). Position t has a fixed code; query
and key are affine in it, with entries of at most 2, and the head must attend to position s alone when asked for s:

    binary       q = (2 Bin(s) - 1, 1),             k = (2 Bin(t) - 1, 0)         W, less 2 for each bit that differs
    1/t          q = (2/s, -1, -1/s², 1),           k = (1/t, 1/t², 1, 0)         -(1/s - 1/t)²
    t/T          the same with s/T and t/T                                        -(s - t)²/T²
    angle        q = (cos, sin, 1) of 2πs/T,        k = (cos, sin, 0) of 2πt/T    cos(2π(s - t)/T)

The null key stands half way between a match and the nearest miss. Positions hold signs that alternate, so that the
wrong neighbour gives the wrong answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from krogh.theory.compilers.machine_layout import binary

Array = NDArray[np.float64]
CODES = ("binary", "1/t", "t/T", "angle")
AT_ONCE = 1 << 22
"""Scores that are held at once."""


@dataclass(frozen=True, eq=False)
class Retrieval:
    """A head for T positions: fixed codes [T, features], stored signs [T], and its parameters by name."""

    codes: Array
    signs: Array
    parameters: dict[str, Array]

    @property
    def places(self) -> int:
        """T."""
        return len(self.codes)

    def answers(self, parameters: dict[str, Array], targets: NDArray[np.intp]) -> Array:
        """What is read when the positions `targets` in 0..T-1 are asked for, [targets]; right if it has their sign."""
        p = parameters
        queries = self.codes[targets] @ p["Wq"].T + p["bq"]
        keys = self.codes @ p["Wk"].T + p["bk"]
        scores = np.concatenate([(queries @ p["K0"])[:, None], queries @ keys.T], axis=1)
        winners = scores == scores.max(axis=1, keepdims=True)
        values = np.concatenate([p["V0"], p["Wv"][0] * self.signs + p["bv"][0]])
        return p["out"][0] * (winners @ values) / winners.sum(axis=1)


def retrieval(code: str, places: int) -> Retrieval:
    """The head for a code of `places` = T positions."""
    t = np.arange(1, places + 1, dtype=np.float64)
    signs = np.where(t % 2 == 0, 1.0, -1.0)
    rest = {"Wv": np.ones(1), "bv": np.zeros(1), "V0": np.zeros(1), "out": np.ones(1)}
    if code == "binary":
        bits = places.bit_length()
        codes = binary(np.arange(1, places + 1), bits)
        double, none = 2 * np.eye(bits), np.zeros((1, bits))
        minus = np.full(bits, -1.0)
        parameters = {
            "Wq": np.concatenate([double, none]),
            "bq": np.append(minus, 1.0),
            "Wk": np.concatenate([double, none]),
            "bk": np.append(minus, 0.0),
            "K0": np.append(np.zeros(bits), bits - 1.0),
        }
        return Retrieval(codes, signs, parameters | rest)
    if code == "angle":
        angles = 2 * math.pi * t / places
        miss = 2 * math.sin(math.pi / places) ** 2  # 1 - cos(2π/T), without cancellation
        parameters = {
            "Wq": np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]),
            "bq": np.array([0.0, 0.0, 1.0]),
            "Wk": np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]),
            "bk": np.zeros(3),
            "K0": np.array([0.0, 0.0, 1 - miss / 2]),
        }
        return Retrieval(np.stack([np.cos(angles), np.sin(angles)], axis=1), signs, parameters | rest)
    scalar = 1 / t if code == "1/t" else t / places
    miss = float(np.min(np.diff(scalar) ** 2))
    parameters = {
        "Wq": np.array([[2.0, 0.0], [0.0, 0.0], [0.0, -1.0], [0.0, 0.0]]),
        "bq": np.array([0.0, -1.0, 0.0, 1.0]),
        "Wk": np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]),
        "bk": np.array([0.0, 0.0, 1.0, 0.0]),
        "K0": np.array([0.0, 0.0, 0.0, -miss / 2]),
    }
    return Retrieval(np.stack([scalar, scalar**2], axis=1), signs, parameters | rest)


def score_gap(head: Retrieval) -> float:
    """By how much the score of the position asked for leads all others and the null slot, at least, in float64."""
    p, least = head.parameters, math.inf
    queries, keys = head.codes @ p["Wq"].T + p["bq"], head.codes @ p["Wk"].T + p["bk"]
    null = queries @ p["K0"]
    rows = max(1, AT_ONCE // head.places)
    for start in range(0, head.places, rows):
        block = np.arange(start, min(start + rows, head.places))
        scores = queries[block] @ keys.T
        own = scores[np.arange(len(block)), block]
        scores[np.arange(len(block)), block] = -np.inf
        least = min(least, float(np.min(own - np.maximum(scores.max(axis=1), null[block]))))
    return least


def wrong_share(head: Retrieval, arithmetic: str) -> float:
    """The share of positions that are answered wrongly where codes, weights and all results have a coarser type."""
    kind = np.dtype(jnp.bfloat16) if arithmetic == "bfloat16" else np.dtype(arithmetic)
    sums = np.float64 if arithmetic == "float64" else np.float32

    def coarse(values: np.ndarray) -> np.ndarray:
        return values.astype(kind).astype(sums)

    p = {name: coarse(array) for name, array in head.parameters.items()}
    codes = coarse(head.codes)
    queries, keys = (coarse(coarse(codes @ p[f"W{k}"].T) + p[f"b{k}"]) for k in "qk")
    wrong, rows = 0, max(1, AT_ONCE // head.places)
    for start in range(0, head.places, rows):
        asked = queries[start : start + rows]
        scores = coarse(np.concatenate([(asked @ p["K0"])[:, None], asked @ keys.T], axis=1))
        winners = scores == scores.max(axis=1, keepdims=True)
        values = np.concatenate([[0.0], head.signs])
        wrong += int(np.sum(winners @ values * head.signs[start : start + rows] <= 0))
    return wrong / head.places


def noise_radius(
    head: Retrieval, targets: NDArray[np.intp], norms: NDArray[np.float64], rng: np.random.Generator
) -> float:
    """The least of the norms at which noise along a Gaussian line, either way, makes one of the answers wrong.

    Both ways, because a null key that is lowered never wins: one way alone would be a matter of luck.
    """
    noise = {name: rng.standard_normal(array.shape) for name, array in head.parameters.items()}
    size = math.sqrt(sum(float(np.vdot(array, array)) for array in noise.values()))
    for norm in norms:
        for way in (norm / size, -norm / size):
            moved = {name: array + way * noise[name] for name, array in head.parameters.items()}
            if np.any(head.answers(moved, targets) * head.signs[targets] <= 0):
                return float(norm)
    return math.inf
