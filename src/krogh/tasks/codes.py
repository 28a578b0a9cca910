"""Positional codes ω_1..ω_N ∈ R^{d_e}: unit vectors that name the positions of a prompt (qSTR paper, Assumption 3).

sign_codes            i.i.d. entries ±1/√d_e ("uniform on the unit hypercube"), no two codes equal
coherence             max_{i≠j} |⟨ω_i, ω_j⟩|; Assumption 3 asks for at most 1/2
coherence_dimension   a dimension in which random sign codes meet a bound: d_e ≥ (2/c²) ln(N²/δ)
paper_dimension       ⌊5 ln N⌋, as in the experiments, where Assumption 3 almost never holds
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from krogh.errors import KroghError, require, require_integer

ASSUMED_COHERENCE = 0.5
FAILURE = 0.1
MOST_TRIES = 10_000


def paper_dimension(length: int) -> int:
    """d_e = ⌊5 ln N⌋ as in the experiments; 1 where that would leave nothing (N = 1)."""
    require_integer("length", length, 1)
    return max(1, math.floor(5 * math.log(length)))


def coherence_dimension(length: int, bound: float = ASSUMED_COHERENCE, failure: float = FAILURE) -> int:
    """The least d_e ≥ (2/c²) ln(N²/δ), where random signs have coherence ≤ c with probability ≥ 1-δ.

    Hoeffding over the N(N-1)/2 pairs: N² exp(-d_e c²/2) ≤ δ; at c = 1/2 that is d_e ≥ 8 ln(N²/δ).
    """
    require_integer("length", length, 1)
    _check_bound(bound)
    require(0 < failure < 1, f"failure must be a probability in (0, 1); got failure={failure} (try {FAILURE})")
    return max(1, math.ceil(2 / bound**2 * math.log(length**2 / failure)))


def coherence(codes: Any) -> float:
    """max_{i≠j} |⟨ω_i, ω_j⟩| in float64; 0 for a single code."""
    table = checked_codes(codes).astype(np.float64)
    products = np.abs(table @ table.T)
    np.fill_diagonal(products, 0.0)
    return float(products.max())


def require_coherence(codes: Any, bound: float = ASSUMED_COHERENCE) -> None:
    """Refuse codes that are not unit vectors of coherence at most `bound` (Assumption 3)."""
    _check_bound(bound)
    table = checked_codes(codes).astype(np.float64)
    norms = np.linalg.norm(table, axis=1)
    worst = norms[np.argmax(np.abs(norms - 1))]
    require(abs(worst - 1) < 1e-5, f"codes must be unit vectors; got one of norm {worst:.6g} (divide by the norms)")
    measured, (length, dimension) = coherence(table), table.shape
    enough = coherence_dimension(length, bound)
    require(
        measured <= bound + 1e-6,
        f"codes must have coherence at most {bound:g}; got {measured:.4g} from {length} codes in dimension {dimension} "
        f"(random signs do with probability {1 - FAILURE:g} in dimension {enough}; or ask "
        f"sign_codes({length}, {dimension}, coherence={bound:g}) to search)",
    )


def sign_codes(
    length: int, dimension: int, seed: int = 0, coherence: float | None = None
) -> Float[np.ndarray, "length dimension"]:
    """N codes of i.i.d. entries ±1/√d_e, drawn row by row; a row is redrawn until it fits those before it.

    A row never repeats an earlier one (two positions of one code could not be told apart), so the codes are uniform
    over the tables without repetition. With a `coherence` bound it also has |⟨ω_i, ω_j⟩| ≤ bound with all earlier rows.
    """
    require_integer("length", length, 1)
    require_integer("dimension", dimension, 1)
    require_integer("seed", seed, 0)
    needed = max(1, math.ceil(math.log2(length)))
    room = dimension >= needed
    require(room, f"{length} different sign codes need dimension {needed}; got dimension={dimension}")
    if coherence is not None:
        _check_bound(coherence)
    random = np.random.default_rng([seed, length, dimension])
    signs = np.zeros((length, dimension), np.int64)
    for place in range(length):
        signs[place] = _fitting_row(random, signs[:place], dimension, coherence, length)
    return (signs / math.sqrt(dimension)).astype(np.float32)


def _fitting_row(
    random: np.random.Generator, earlier: np.ndarray, dimension: int, bound: float | None, length: int
) -> np.ndarray:
    # Integer inner products, so that a coherence exactly at the bound passes.
    most = dimension - 1 if bound is None else math.floor(bound * dimension + 1e-9)
    best = dimension
    for _ in range(MOST_TRIES):
        row = 1 - 2 * random.integers(0, 2, dimension)
        products = earlier @ row
        overlap = int((products if bound is None else np.abs(products)).max(initial=-dimension))
        if overlap <= most:
            return row
        best = min(best, overlap)
    what = "a row unlike the others" if bound is None else f"coherence {bound:g}"
    enough = coherence_dimension(length, ASSUMED_COHERENCE if bound is None else bound)
    raise KroghError(
        f"no code {len(earlier)} of {length} with {what} found in dimension {dimension} in {MOST_TRIES} draws; "
        f"the best had coherence {best / dimension:.4g} (dimension {enough} would do)"
    )


def checked_codes(codes: Any, length: int | None = None) -> Float[np.ndarray, "length dimension"]:
    """Codes as a finite float array [N, d_e]; refused otherwise."""
    try:
        table = np.asarray(codes, np.asarray(codes).dtype if np.asarray(codes).dtype.kind == "f" else np.float32)
    except (TypeError, ValueError):
        raise KroghError(f"codes must be numbers of shape [length, code dimension]; got {codes!r}") from None
    wanted = "length" if length is None else length
    fits = table.ndim == 2 and table.size > 0 and (length is None or len(table) == length)
    require(fits, f"codes must have shape [{wanted}, code dimension]; got shape {list(table.shape)}")
    require(np.isfinite(table).all(), "codes must be finite; got nan or infinity among them")
    return table


def require_distinct(codes: Any) -> None:
    """Refuse codes of which two are equal: the positions they name cannot be told apart, by any model."""
    table = checked_codes(codes)
    _, first, inverse = np.unique(table, axis=0, return_index=True, return_inverse=True)
    kept = first[inverse.ravel()]
    repeated = np.flatnonzero(kept != np.arange(len(table)))
    if repeated.size:
        raise KroghError(
            f"codes must differ, or nobody can tell the positions apart; codes {kept[repeated[0]]} and {repeated[0]} "
            f"are equal (sign_codes({len(table)}, {table.shape[1]}) never repeats one)"
        )


def _check_bound(bound: float) -> None:
    inside = isinstance(bound, int | float) and 0 < bound < 1
    require(inside, f"a coherence bound must lie in (0, 1); got {bound!r} (Assumption 3 asks for {ASSUMED_COHERENCE})")
