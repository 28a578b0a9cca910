"""Sparse functions of categorical tokens in one attention layer and ReLUs (dissertation, §A.2.4, a sketch).

    x_t = E_{c_t} + v_t,  c_t in {0..M-1};  head h selects the h-th relevant position, as for bits, and
    V = (Σ_c a_c E_c) e_1ᵀ with a_0 = -1, …, a_{M-1} = 1 equally spaced:  y ≈ (a_{c_i})_{i in I}, γ = 2/(M-1)

The ReLUs memorise M^s points, δ = γ/4. No task of this laboratory has such tokens; the layer is executed by
`krogh.models.attention_heads`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from krogh.errors import require, require_integer
from krogh.models.attention_heads import attend, with_cls
from krogh.theory.constructions.base import Array
from krogh.theory.constructions.memoriser import Memoriser, memoriser
from krogh.theory.constructions.sparse_table import index_set
from krogh.theory.precision import double_precision


@dataclass(frozen=True, eq=False)
class CategoricalFunction:
    """Weights E [M, d], P [n, d], cls [d], Q, K, V [s, d, 1], C [s, 1, s] and a memoriser of M^s points."""

    alphabet: int
    support: tuple[int, ...]
    params: dict[str, Array]
    network: Memoriser
    gamma: float

    def attended(self, tokens: ArrayLike) -> Array:
        """What the s heads put out for rows of tokens in 0..M-1 [batch, n]; shape [batch, s]."""
        words = np.asarray(tokens)
        whole = words.dtype.kind in "iu" and words.ndim == 2 and words.shape[1] == len(self.params["P"])
        within = whole and np.all((words >= 0) & (words < self.alphabet))
        require(
            within, f"tokens are rows of {len(self.params['P'])} integers in 0..{self.alphabet - 1}; got {tokens!r}"
        )
        with double_precision():
            weights = {name: jnp.asarray(value) for name, value in self.params.items()}
            rows = jnp.asarray(self.params["E"][words]) + weights["P"][None]
            return np.asarray(jax.vmap(lambda row: _heads(weights, row))(rows))

    def target(self, tokens: ArrayLike) -> Array:
        """What they approximate within γ/4: the levels a_c of the relevant tokens; shape [batch, s]."""
        return _levels(self.alphabet)[np.asarray(tokens)[:, list(self.support)]]

    def __call__(self, tokens: ArrayLike) -> Array:
        """The function: attention, then the memoriser."""
        return self.network(self.attended(tokens))


def categorical_function(
    n: int, alphabet: int, table: ArrayLike, s: int | None = None, support: Iterable[int] | None = None
) -> CategoricalFunction:
    """The layer that computes `table`, of shape (M, …, M) with an axis for each relevant token, of n tokens."""
    require_integer("alphabet", alphabet, 2)
    members = index_set(n, s, support)
    values, M, count = np.asarray(table, np.float64), alphabet, len(members)
    wanted = (M,) * count
    require(
        values.shape == wanted, f"a table of s={count} tokens of {M} kinds has the shape {wanted}; got {values.shape}"
    )
    d, levels, gamma = n + M + 1, _levels(M), min(1.0, 2 / (M - 1))
    axes = np.eye(d)
    words, cls = axes[n : n + M], axes[-1]
    R = math.log(8 * n / gamma)
    each = np.arange(count)
    shape = (count, d, 1)
    Q, K, V, C = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros((count, 1, count))
    Q[:, :, 0], K[:, :, 0], V[:, :, 0], C[each, 0, each] = R * cls, axes[list(members)], levels @ words, 1.0
    params = {"E": words, "P": axes[:n], "cls": cls, "Q": Q, "K": K, "V": V, "C": C}
    points = np.array(list(itertools.product(levels, repeat=count)))
    return CategoricalFunction(M, members, params, memoriser(points, values.ravel(), gamma / 4), gamma)


def _heads(weights: dict[str, jax.Array], tokens: jax.Array) -> jax.Array:
    """Σ_h softmax(cls Q_h K_hᵀ Xᵀ) X V_h C_h, with [CLS] in X."""
    cls, rows = weights["cls"], with_cls(tokens, weights["cls"])
    each = jax.vmap(lambda Q, K, V, C: attend(cls[None, :], rows, Q, K, V)[0] @ C)
    return jnp.sum(each(*(weights[name] for name in "QKVC")), axis=0)


def _levels(alphabet: int) -> Array:
    """a_c: the alphabet's values, equally spaced in [-1, 1]."""
    return np.linspace(-1.0, 1.0, alphabet)
