"""The empirical Rademacher complexity of what a recurrent network computes to first order.

The pseudo-network x ↦ ⟨∂y(x), θ⟩ with shifts ‖θ‖_F ≤ Δ/√m of the weights is a ball of linear functions of the gradient
features. Of N sequences its complexity is (*Learning and generalization in RNNs*, Lemma D.4)

    R = E_ζ sup_θ (1/N) Σ_q ζ_q ⟨∂y_q, θ⟩ = E_ζ (Δ/√m) (1/N) ‖Σ_q ζ_q ∂y_q‖_F = (Δ/√m) (1/N) E_ζ √(ζᵀ K ζ)

over independent signs ζ, with the tangent kernel K; an expectation of suprema (section A.4 prints the converse). By
Jensen it is at most (Δ/√m) √(tr K)/N, which falls like N^-1/2. Training and test averages of a 1-Lipschitz loss differ
by at most 2R over the whole ball, in expectation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from krogh.errors import require, require_integer


def rademacher(kernel: ArrayLike, radius: float, draws: int = 200, seed: int = 0) -> float:
    """(radius/N) E_ζ √(ζᵀ K ζ) of a kernel [N, N], by a mean over random signs; radius is Δ/√m, the bound on ‖θ‖_F."""
    K = _square(kernel)
    require(radius >= 0, f"radius must be at least 0; got radius={radius!r}")
    require_integer("draws", draws, 1)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (draws, len(K)))
    forms = np.einsum("dq,dq->d", signs @ K, signs)
    return radius / len(K) * float(np.mean(np.sqrt(np.maximum(forms, 0.0))))


def _square(kernel: ArrayLike) -> np.ndarray:
    K = np.asarray(kernel, np.float64)
    require(K.ndim == 2 and K.shape[0] == K.shape[1] > 0, f"a kernel is a square matrix; got {list(K.shape)}")
    return K
