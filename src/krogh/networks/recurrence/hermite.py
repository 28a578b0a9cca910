"""A weight H with E[1{...} H] = φ: how a random threshold neuron is made to compute a smooth function.

Both sources assert that such a weight exists (*Can SGD learn recurrent neural networks with provable generalization?*,
Lemma 5.1; *Learning and generalization in RNNs*, Lemma 4.1, Theorem F.9). It has a closed form. With probabilists'
Hermite polynomials He_i and the normal density n(·): for α, β ~ N(0, 1) and |x| ≤ r,

    E[1{αx + β√(r²-x²) + b ≥ 0} He_i(α) | b] = (x/r)^i q_i(b),    q_i(b) = He_{i-1}(-b/r) n(b/r)    (i ≥ 1)

and 1/2 for i = 0 where b is symmetric. So with b ~ N(0, s²) and Z_i = E q_i(b)²,

    H(α, b) = 2 c_0 + Σ_{i≥1} (c_i (k_0 r)^i / Z_i) He_i(α) q_i(b)    has    E[1{...} H] = Σ_i c_i (k_0 x)^i = φ(k_0 x)

The same H under an indicator of another radius r', with everything moved by s, gives

    E[1{αx + β√(r'²-x²) + b + s ≥ 0} H] = Σ_{i≥1} c_i (k_0 x)^i (r/r')^i E[q_i(b) q'_i(b + s)]/Z_i        (c_0 = 0)

where q'_i is q_i at r'. This `response` is what a weight that was made for one token does at another.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import hermite_e
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require

Array = NDArray[np.float64]
NODES = 200


@dataclass(frozen=True, eq=False)
class HermiteWeight:
    """H for φ(z) = Σ c_i z^i, at radius r, with a bias of standard deviation `spread` (s) and the factor k_0 `gain`."""

    coefficients: Array
    r: float
    spread: float
    gain: float = 1.0

    def __post_init__(self) -> None:
        for name in ("r", "spread", "gain"):
            value = getattr(self, name)
            require(0 < value < math.inf, f"{name} must be a positive number; got {name}={value!r}")
        object.__setattr__(self, "coefficients", np.asarray(self.coefficients, np.float64))

    def q(self, i: int, b: ArrayLike, r: float | None = None) -> Array:
        """q_i(b) = He_{i-1}(-b/r) n(b/r), at another radius where one is given."""
        z = np.asarray(b, np.float64) / (self.r if r is None else r)
        return _he(i - 1, -z) * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)

    def normaliser(self, i: int) -> float:
        """Z_i = E q_i(b)², by Gauss and Hermite."""
        nodes, weights = _quadrature()
        return float(weights @ self.q(i, self.spread * nodes) ** 2)

    def factors(self) -> dict[int, float]:
        """c_i (k_0 r)^i / Z_i for every i ≥ 1 with c_i ≠ 0."""
        return {
            i: float(c) * (self.gain * self.r) ** i / self.normaliser(i)
            for i, c in enumerate(self.coefficients)
            if i and c
        }

    def response(self, x: ArrayLike, r: float | None = None, shift: float = 0.0) -> Array:
        """E[1{αx + β√(r'²-x²) + b + s ≥ 0} H(α, b)] at |x| ≤ r', for r' = `r`, s = `shift`; φ(k_0 x) without them."""
        require(self.coefficients[0] == 0, f"a response needs φ(0) = 0; got c_0={self.coefficients[0]:g}")
        other, z = self.r if r is None else r, np.asarray(x, np.float64)
        nodes, weights = _quadrature()
        b, total = self.spread * nodes, np.zeros(z.shape)
        for i, factor in self.factors().items():
            total += factor * float(weights @ (self.q(i, b) * self.q(i, b + shift, other))) * (z / other) ** i
        return total

    def __call__(self, alpha: ArrayLike, b: ArrayLike, clip: float | None = None) -> Array:
        """H(α, b); with `clip` = ε, He_i(α) is cut off at |α| = 10√i + 10√ln(1/ε), which makes it bounded."""
        a, b = np.broadcast_arrays(np.asarray(alpha, np.float64), np.asarray(b, np.float64))
        total = np.full(a.shape, 2 * float(self.coefficients[0]))
        for i, factor in self.factors().items():
            edge = np.inf if clip is None else 10 * math.sqrt(i) + 10 * math.sqrt(math.log(1 / clip))
            total += factor * _he(i, np.clip(a, -edge, edge)) * self.q(i, b)
        return total


@functools.cache
def _quadrature() -> tuple[Array, Array]:
    """Nodes and weights for expectations over N(0, 1)."""
    nodes, weights = hermite_e.hermegauss(NODES)
    return nodes, weights / math.sqrt(2 * math.pi)


def _he(i: int, z: Array) -> Array:
    return np.asarray(hermite_e.hermeval(z, [0.0] * i + [1.0]))
