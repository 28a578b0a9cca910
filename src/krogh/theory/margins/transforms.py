"""What neurons and networks consist of: shares of the norm, phases, 3-D transforms (sections D.6.3 and D.9.1).

    Z_p      f̂(j,k,l) = Σ_{a,b,c} f(a,b)[c] e^{-2πi(ja+kb+lc)/p}      (printed with j in all three places)
    a group  f̂(j,k,l) = Σ_{a,b,c} ρ_j(a) ρ_k(b) ρ_l(c) f(a,b)[c]      ρ the matrix entries of the real irreps

Of a neuron of one frequency z only j = 0, k = 0 or j, k, l all ±z are there. A network whose wrong logits are all
alike, f = F(a,b) + γ 1[c = ab], has f̂(j,j,-j) = γp² for j ≠ 0, and γ|G|²/D² at the entries ((p,s), (s,q), (p,q)) of one
irrep.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from krogh.errors import require
from krogh.theory import representations
from krogh.theory.margins.networks import PairArrays, check_fit
from krogh.theory.margins.problems import characters_of, cyclic_order, group_of

Array = NDArray[np.float64]

LARGEST_ORDER = 128
"""Of a group whose n³ logits are transformed at once."""


def norm_shares(network: PairArrays, group: Any) -> dict[str, float]:
    """Σ ‖ω_i‖^ν over the neurons of each irrep, over the sum of all; a neuron belongs to the irrep of most power.

    In every maximum-margin network they are those of `MaxMargin.irrep_shares` where the sign condition is negative:
    2/(p-1) per frequency of an odd p, D^2.5/Σ D^2.5 per irrep of a group of real type.
    """
    given = group_of(group)
    check_fit(network, given)
    powers = representations.irrep_powers(given, np.stack([network.U, network.V, network.W])).sum(axis=0)
    sizes = np.linalg.norm(network.neurons, axis=1) ** network.homogeneity
    require(sizes.sum() > 0, "a network of zeros has no shares")
    names = characters_of(given).irrep_names
    totals = np.bincount(np.argmax(powers, axis=1), sizes, minlength=len(names))
    return dict(zip(names, (totals / sizes.sum()).tolist(), strict=True))


def phase_residuals(network: PairArrays, p: int) -> Array:
    """The angle of û(z)v̂(z)conj ŵ(z) at each neuron's dominant frequency z ≥ 1, [m], in (-π, π]; the optimum is 0.

    Undefined (nan) for neurons in which u, v or w has nothing of that frequency.
    """
    require(cyclic_order(p) == network.order, f"phases belong to Z_p with p={network.order} columns; got p={p!r}")
    u, v, w = (np.fft.rfft(part, axis=1)[:, 1:] for part in (network.U, network.V, network.W))
    dominant = np.argmax(np.abs(u) ** 2 + np.abs(v) ** 2 + np.abs(w) ** 2, axis=1)[:, None]
    product = np.take_along_axis(u * v * w.conj(), dominant, axis=1)[:, 0]
    return np.where(np.abs(product) > 0, np.angle(product), np.nan)


def all_logits(network: PairArrays) -> Array:
    """f(a,b)[c] of every input, [n, n, n]; only for n up to 128."""
    n = network.order
    require(n <= LARGEST_ORDER, f"all n³ logits are listed for n <= {LARGEST_ORDER}; got n={n}")
    found = np.empty((n * n, n))
    for index, logits in network.blocks():
        found[index] = logits
    return found.reshape(n, n, n)


def cyclic_transform(network: PairArrays) -> NDArray[np.complex128]:
    """f̂(j,k,l) on Z_p, [p, p, p]."""
    return np.asarray(np.fft.fftn(all_logits(network)))


def group_transform(network: PairArrays, group: Any) -> Array:
    """f̂(j,k,l) on a group of real type, [n, n, n], in the order of `representations.basis_vectors`."""
    given = group_of(group)
    check_fit(network, given)
    basis = representations.basis_vectors(given)
    found = all_logits(network)
    for _ in range(3):  # transform the last axis and bring it to the front: three times, and the order is as before
        found = np.moveaxis(found @ basis.T, -1, 0)
    return found
