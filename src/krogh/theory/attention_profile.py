"""What a trained head looks at: the weights with which [CLS] attends, by relevance, label and bit (§4.6, Figure 4.3).

    a [samples, heads, T+1]     softmax weights at [CLS] over the T positions and, last, over [CLS] itself
    relevant mass               Σ_{i∈I} a_i
    irrelevant mass             Σ_{i∉I, i<T} a_i, and the largest single a_i among them

Report by label: a head that looks for a false bit of a conjunction finds one exactly where the label is false, and
spreads its weight where there is none to be found. Averages over both labels describe neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike, NDArray

from krogh.errors import KroghError, require

Array = NDArray[np.float64]

ROUNDING = 1e-3


@dataclass(frozen=True)
class Masses:
    """Where the weight of each sample and head lies; every field is [samples, heads]."""

    relevant: Float[np.ndarray, "samples heads"]
    irrelevant: Float[np.ndarray, "samples heads"]
    own: Float[np.ndarray, "samples heads"]
    largest_irrelevant: Float[np.ndarray, "samples heads"]


def attention_masses(weights: ArrayLike, support: Sequence[int] | NDArray[np.integer]) -> Masses:
    """The mass of [CLS]'s weights [samples, heads, T+1] on the `support`, on other positions and on [CLS] itself."""
    a, index = _checked(weights, support)
    relevant = np.zeros(a.shape[2], bool)
    relevant[index] = True
    other = ~relevant
    other[-1] = False
    elsewhere = a[:, :, other]
    return Masses(
        relevant=a[:, :, relevant].sum(axis=2),
        irrelevant=elsewhere.sum(axis=2),
        own=a[:, :, -1],
        largest_irrelevant=elsewhere.max(axis=2, initial=0.0),
    )


def attention_profile(weights: ArrayLike, support: Sequence[int] | NDArray[np.integer]) -> dict[str, float]:
    """Averages over samples and heads, and the largest weight of all on an irrelevant position.

    `relevant_mass`, `irrelevant_mass` and `own_weight` add up to 1; `irrelevant_weight` is the mean of one irrelevant
    position.
    """
    a, index = _checked(weights, support)
    masses = attention_masses(a, index)
    others = a.shape[2] - 1 - len(index)
    return {
        "samples": float(len(a)),
        "relevant_mass": float(masses.relevant.mean()),
        "irrelevant_mass": float(masses.irrelevant.mean()),
        "own_weight": float(masses.own.mean()),
        "irrelevant_weight": float(masses.irrelevant.mean() / others) if others else 0.0,
        "largest_irrelevant": float(masses.largest_irrelevant.max()),
    }


def profile_by_label(
    weights: ArrayLike, support: Sequence[int] | NDArray[np.integer], labels: ArrayLike
) -> dict[int, dict[str, float]]:
    """`attention_profile` of the samples of each label that occurs: 0 for false (0 or -1), 1 for true (+1)."""
    a, index = _checked(weights, support)
    true = np.asarray(labels) > 0
    require(true.shape == (len(a),), f"labels must be one per sample, {len(a)}; got shape {true.shape}")
    return {label: attention_profile(a[true == bool(label)], index) for label in (0, 1) if np.any(true == bool(label))}


def weight_by_bit(
    weights: ArrayLike, support: Sequence[int] | NDArray[np.integer], bits: ArrayLike
) -> dict[int, float]:
    """Mean weight on a relevant position whose bit is 0, and on one whose bit is 1; NaN where there is none.

    `bits` [samples, T] in {0,1}.
    """
    a, index = _checked(weights, support)
    given = np.asarray(bits)
    wanted = (a.shape[0], a.shape[2] - 1)
    require(given.shape == wanted, f"bits must be [samples, T] = {list(wanted)}; got shape {list(given.shape)}")
    require(np.isin(given, (0, 1)).all(), "bits must be 0 or 1 (an input x = ±1 has the bit x < 0)")
    relevant = a[:, :, index].mean(axis=1)
    chosen = given[:, index].astype(bool)
    return {bit: _mean(relevant[chosen == bool(bit)]) for bit in (0, 1)}


def _mean(values: Array) -> float:
    return float(values.mean()) if values.size else float("nan")


def _checked(weights: ArrayLike, support: Sequence[int] | NDArray[np.integer]) -> tuple[Array, NDArray[np.integer]]:
    a = np.asarray(weights, np.float64)
    require(a.ndim == 3 and a.size, f"weights must be [samples, heads, T+1], none of them 0; got shape {list(a.shape)}")
    summed = np.abs(a.sum(axis=2) - 1)
    require(
        bool(np.all(summed <= ROUNDING)) and bool(np.all(a >= 0)),
        f"weights must be a distribution over the last axis; the sums miss 1 by up to {summed.max():.3g}",
    )
    index = np.asarray(support)
    positions = a.shape[2] - 1
    if index.ndim != 1 or index.dtype.kind not in "iu" or len(set(index.tolist())) != index.size:
        raise KroghError(f"support must list different positions; got {support!r}")
    inside = index.size == 0 or (index.min() >= 0 and index.max() < positions)
    require(inside, f"support must lie in 0..{positions - 1}, [CLS] apart; got {index.tolist()}")
    return a, index
