"""Learners that are not neural networks, to compare with: search and linear algebra.

Random exhaustive search is the memoryless process that training is often suspected of being; exhaustive
enumeration meets the statistical limit; Gaussian elimination over GF(2) is fast but fails under any label
noise. Samples are arrays of signs: `x` of shape (m, n), `y` of shape (m,), label y = chi_S(x); the support S that
predictions draw samples of is the first k coordinates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.theory.numerics import log_binomial
from krogh.theory.prediction import check_noise, check_parity, prediction

_CHUNK = 8192
"""Subsets tested, or steps simulated, at a time: large enough to vectorise, small enough for memory."""
_EXACT_BELOW = 10**300
"""Numbers of subsets up to here are reported as whole numbers, beyond only by their logarithm."""
_MOST_SUBSETS = 10**7
"""Most subsets that are enumerated."""


def count_subsets(n: int, k: int) -> tuple[int | None, float]:
    """C(n,k) as a whole number (None where a float could not hold it), and its base-10 logarithm."""
    log10 = log_binomial(n, k) / math.log(10)
    exact = math.comb(n, k) if log10 < 301 else _EXACT_BELOW + 1
    return (exact, math.log10(exact)) if exact <= _EXACT_BELOW else (None, log10)


def search_mean(hypotheses: int, copies: int = 1) -> float:
    """Mean steps until one of r memoryless copies draws the one right hypothesis out of N.

    1 / (1 - (1 - 1/N)^r)
    """
    return 1.0 / -math.expm1(copies * _log_miss(hypotheses)) if hypotheses > 1 else 1.0


def search_cdf(steps: ArrayLike, hypotheses: int, copies: int = 1) -> NDArray[np.float64]:
    """Probability that search has succeeded within `steps` steps: 1 - (1 - 1/N)^(r t), t = 1, 2, ..."""
    whole = np.maximum(np.floor(np.asarray(steps, dtype=np.float64)), 0.0)
    if hypotheses == 1:
        return (whole >= 1).astype(np.float64)
    return -np.expm1(copies * whole * _log_miss(hypotheses))


def search_quantile(probability: float, hypotheses: int, copies: int = 1) -> float:
    """Fewest steps (a whole number) within which search succeeds with the given probability."""
    require(0 <= probability < 1, f"probability must be in [0, 1); got probability={probability!r}")
    if hypotheses == 1:
        return 1.0
    steps = math.log1p(-probability) / (copies * _log_miss(hypotheses))
    return max(1.0, math.ceil(steps * (1 - 1e-12)))  # rounding must not push an exact whole number up


@prediction("parity/random-search", source="dissertation, section 5.3.2", constants="all explicit")
def random_search(n: int, k: int, copies: int = 1, steps: int | None = None) -> dict[str, Any]:
    """Steps of memoryless random search over k-subsets: geometric with success 1/C(n,k) per draw.

        mean = 1 / (1 - (1 - 1/C(n,k))^copies),  about max(1, C(n,k)/copies)

    Each step, each of `copies` independent copies tests one uniformly drawn subset; the first step is 1. With `steps`,
    also the probability of success within so many.
    """
    check_parity(n, k)
    require_integer("copies", copies, 1)
    subsets, log10 = count_subsets(n, k)
    numbers: dict[str, Any] = {
        "subsets": math.inf if subsets is None else subsets,
        "log10_subsets": log10,
        "mean_steps": math.inf if subsets is None else search_mean(subsets, copies),
        "mean_steps_approximate": math.inf if subsets is None else max(1.0, subsets / copies),
        "p10_steps": math.inf if subsets is None else search_quantile(0.1, subsets, copies),
        "median_steps": math.inf if subsets is None else search_quantile(0.5, subsets, copies),
        "p90_steps": math.inf if subsets is None else search_quantile(0.9, subsets, copies),
    }
    if steps is not None:
        require_integer("steps", steps, 1)
        numbers["success_within"] = 0.0 if subsets is None else float(search_cdf(steps, subsets, copies))
    return numbers


def simulate_random_search(n: int, k: int, *, trials: int, copies: int = 1, seed: int = 0) -> NDArray[np.int64]:
    """Steps that random exhaustive search takes, simulated `trials` times; shape (trials,).

    Each step, each copy draws a k-subset of {0, ..., n-1} uniformly (as its rank among all of them) and tests
    it; the first step with a hit is 1. Source: dissertation, section 5.3.2.
    """
    require_integer("n", n, 1)
    require_integer("k", k, 1, n)
    require_integer("trials", trials, 1)
    require_integer("copies", copies, 1)
    hypotheses = math.comb(n, k)
    require(hypotheses < 2**40, f"C({n},{k}) = {hypotheses} subsets are too many to search; use the law")
    rng = np.random.default_rng(seed)
    steps = np.zeros(trials, dtype=np.int64)
    searching, elapsed = np.arange(trials), 0
    while searching.size:
        block = max(1, min(hypotheses, 2**20 // (searching.size * copies)))
        hit = (rng.integers(hypotheses, size=(searching.size, block, copies)) == 0).any(axis=2)
        found = hit.any(axis=1)
        steps[searching[found]] = elapsed + 1 + hit[found].argmax(axis=1)
        searching, elapsed = searching[~found], elapsed + block
    return steps


@prediction(
    "parity/search-simulation", source="dissertation, section 5.3.2", constants="simulated: reproducible by the seed"
)
def search_simulation(n: int, k: int, trials: int = 1000, copies: int = 1, seed: int = 0) -> dict[str, Any]:
    """Steps of random search over k-subsets, simulated: what a histogram of training times is held against.

    The law of "parity/random-search" at a finite number of trials.
    """
    steps = simulate_random_search(n, k, trials=trials, copies=copies, seed=seed)
    p10, median, p90 = np.quantile(steps, (0.1, 0.5, 0.9), method="inverted_cdf").tolist()
    return {
        "mean_steps": float(steps.mean()),
        "p10_steps": p10,
        "median_steps": median,
        "p90_steps": p90,
        "least_steps": int(steps.min()),
        "least_over_median": float(steps.min() / median),
    }


def consistent_subsets(x: ArrayLike, y: ArrayLike, k: int) -> NDArray[np.int64]:
    """All k-subsets S with chi_S(x) = y on every sample, by enumeration; shape (how many, k)."""
    return np.concatenate([subsets[errors == 0] for subsets, errors in _all_errors(x, y, k)])


def best_subsets(x: ArrayLike, y: ArrayLike, k: int) -> tuple[NDArray[np.int64], int]:
    """The k-subsets that disagree with the fewest labels, and how many these are.

    The empirical-risk minimiser: it also works under label noise, where `consistent_subsets` finds nothing.
    """
    fewest: float = math.inf
    winners: list[NDArray[np.int64]] = []
    for subsets, errors in _all_errors(x, y, k):
        here = errors.min()
        if here < fewest:
            fewest, winners = here, []
        if here == fewest:
            winners.append(subsets[errors == here])
    return np.concatenate(winners), int(fewest)


@prediction(
    "parity/enumeration",
    source="dissertation, sections B.1.1 and B.3.6",
    constants="the expected number explicit; the rest is one sample, reproducible by the seed",
)
def enumeration(n: int, k: int, samples: int, noise: float = 0.0, seed: int = 0) -> dict[str, Any]:
    """What testing every k-subset on one sample finds: those that fit all labels, and those that fit best.

        without noise, S and (C(n,k) - 1) / 2^m others are expected to fit m labels

    `found`: S alone has the fewest errors.
    """
    check_parity(n, k)
    require_integer("samples", samples, 1)
    subsets = math.comb(n, k)
    require(subsets <= _MOST_SUBSETS, f"at most {_MOST_SUBSETS} subsets are tested; n={n}, k={k} has {subsets}")
    x, y = _sample(n, k, samples, noise, seed)
    best, errors = best_subsets(x, y, k)
    return {
        "consistent": len(consistent_subsets(x, y, k)),
        "others_expected": (subsets - 1) * 2.0**-samples,
        "best": len(best),
        "errors": errors,
        "found": best.tolist() == [list(range(k))],
    }


@dataclass(frozen=True)
class Elimination:
    """What Gaussian elimination finds: whether a parity fits, the rank of the inputs, and a fitting support.

    `support` is None where no parity fits all labels. It is the only one that fits where `unique`; otherwise
    it is the one that leaves out every free coordinate.
    """

    consistent: bool
    rank: int
    unique: bool
    support: tuple[int, ...] | None


def gaussian_elimination(x: ArrayLike, y: ArrayLike) -> Elimination:
    """Solve for a parity that fits the sample, over GF(2), in O(m n^2) bit operations.

    With bits (1-x)/2 and (1-y)/2, chi_S fits where A s = b for the indicator s of S. Noiseless labels only:
    one flipped label makes the system inconsistent, or the answer wrong. Source: dissertation, section B.3.6.
    """
    signs, labels = _check_sample(x, y)
    m, n = signs.shape
    # The label is one more column; packing the columns of each row makes a row operation a few XORs.
    rows = np.packbits(np.column_stack([signs < 0, labels < 0]), axis=1)
    pivots: list[int] = []
    for column in range(n):
        bit = (rows[:, column // 8] >> (7 - column % 8)) & 1
        candidates = np.flatnonzero(bit[len(pivots) :])
        if candidates.size == 0:
            continue
        top, pivot = len(pivots), len(pivots) + candidates[0]
        rows[[top, pivot]] = rows[[pivot, top]]
        bit[[top, pivot]] = bit[[pivot, top]]
        bit[top] = 0
        rows[bit == 1] ^= rows[top]
        pivots.append(column)
        if len(pivots) == m:
            break
    right = (rows[:, n // 8] >> (7 - n % 8)) & 1
    rank = len(pivots)
    consistent = not right[rank:].any()
    chosen = tuple(column for column, value in zip(pivots, right[:rank], strict=True) if value)
    return Elimination(consistent, rank, consistent and rank == n, chosen if consistent else None)


@prediction(
    "parity/elimination",
    source="dissertation, section B.3.6",
    constants="the probability of full rank explicit; the rest is one sample, reproducible by the seed",
)
def elimination(n: int, k: int, samples: int, noise: float = 0.0, seed: int = 0) -> dict[str, Any]:
    """What Gaussian elimination over GF(2) finds in one sample: without noise, n samples or a few more identify S.

        m samples have full rank with probability prod_{i < n} (1 - 2^(i-m))

    `found`: S is the only parity, of any size, that fits all labels.
    """
    check_parity(n, k)
    require_integer("samples", samples, 1)
    answer = gaussian_elimination(*_sample(n, k, samples, noise, seed))
    full = math.prod(-math.expm1((i - samples) * math.log(2)) for i in range(n)) if samples >= n else 0.0
    return {
        "rank": answer.rank,
        "full_rank_probability": full,
        "consistent": answer.consistent,
        "unique": answer.unique,
        "found": answer.unique and answer.support == tuple(range(k)),
    }


def _sample(n: int, k: int, samples: int, noise: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Uniform inputs and the parity of their first k bits, flipped with probability `noise`."""
    check_noise(noise)
    require_integer("seed", seed, 0)
    rng = np.random.default_rng(seed)
    x = rng.choice([-1, 1], size=(samples, n))
    return x, x[:, :k].prod(axis=1) * np.where(rng.random(samples) < noise, -1, 1)


def _log_miss(hypotheses: int) -> float:
    """log(1 - 1/N): the log-probability that one draw misses."""
    require_integer("hypotheses", hypotheses, 2, 10**300)  # beyond, a float cannot hold N
    return math.log1p(-1.0 / hypotheses)


def _all_errors(x: ArrayLike, y: ArrayLike, k: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Chunks of k-subsets, each with the number of labels its parity gets wrong."""
    signs, labels = _check_sample(x, y)
    n = signs.shape[1]
    require_integer("k", k, 1, n)
    columns, target = np.packbits(signs < 0, axis=0).T, np.packbits(labels < 0)
    combinations = itertools.combinations(range(n), k)
    while chunk := list(itertools.islice(combinations, _CHUNK)):
        subsets = np.array(chunk, dtype=np.int64)
        wrong = np.bitwise_xor.reduce(columns[subsets], axis=1) ^ target
        yield subsets, np.bitwise_count(wrong).sum(axis=1, dtype=np.int64)


def _check_sample(x: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    signs, labels = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    shapes = signs.ndim == 2 and signs.shape[1] > 0 and labels.shape == signs.shape[:1]
    require(shapes, f"a sample is x of shape (m, n) and y of (m,); got {signs.shape} and {labels.shape}")
    both = bool(np.all(np.abs(signs) == 1) and np.all(np.abs(labels) == 1))
    require(both, "samples and labels must be -1 or +1 (bits are encoded as 1 - 2*bit)")
    return signs, labels
