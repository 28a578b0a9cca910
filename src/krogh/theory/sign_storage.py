"""A state of unit norm that holds N signs, each read off by a function of bounded slope.

A witness against the norm half of Proposition 8 of the qSTR paper, which asks |U|^2 >= c N / (L^2 ln(1 + d_h)):
here U = I, the states are the words of a random linear code of rate 1/4, and L stays bounded as N grows, while
d_h = 4 N. The transitions of the proposition are arbitrary functions of state, token and position, so a state
can be the word of the signs met so far. Gaussian labels are rounded first: to two levels, which leaves a risk of
1 - 2/pi, or to any fixed number of levels, which costs a constant factor in N and in L.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require_integer

_MOST_SIGNS = 16
"""All 2^N words are written down, so N is small."""


@dataclass(frozen=True)
class SignStorage:
    """Words of unit norm for all patterns of N signs.

    `signs` [2^N, N] are the patterns, `states` [2^N, d_h] their words, `separation` the least distance of two
    words, `lipschitz` = 2/separation the slope with which every sign can be read off.
    """

    signs: NDArray[np.float64]
    states: NDArray[np.float64]
    separation: float
    lipschitz: float

    def read(self, states: ArrayLike, position: int) -> NDArray[np.float64]:
        """The sign at `position` of every state [batch, d_h]: exact on words, `lipschitz`-Lipschitz everywhere.

        min over words w of s(w) + L |h - w|, McShane's extension of the signs from the words to all states.
        """
        h = np.asarray(states, np.float64)
        squared = (h**2).sum(1)[:, None] - 2 * h @ self.states.T + (self.states**2).sum(1)[None, :]
        return (self.signs[:, position] + self.lipschitz * np.sqrt(np.maximum(squared, 0))).min(axis=1)


def sign_storage(length: int, *, expansion: int = 4, seed: int = 0) -> SignStorage:
    """Words of a random systematic linear code over GF(2), as sign vectors of norm 1 in dimension expansion * N.

    The least distance of a linear code is its least weight w: two words are at least 2 sqrt(w/d_h) apart.
    """
    require_integer("length", length, 1, _MOST_SIGNS)
    require_integer("expansion", expansion, 1)
    width = expansion * length
    rng = np.random.default_rng(seed)
    generator = np.concatenate([np.eye(length, dtype=np.int64), rng.integers(2, size=(length, width - length))], axis=1)
    bits = (np.arange(2**length)[:, None] >> np.arange(length)[None, :]) & 1
    words = (bits @ generator) % 2
    separation = 2 * float(np.sqrt(words[1:].sum(axis=1).min() / width))
    states = (1 - 2 * words).astype(np.float64) / np.sqrt(np.float64(width))
    return SignStorage((1 - 2 * bits).astype(np.float64), states, separation, 2 / separation)
