"""How many samples one neuron needs to see the support: empirical gradients, and whether they point at it (M8-M11).

A neuron with weights w and bias b has the gradient g_i = mean over m samples of 1[w·x + b > 0] x_i chi_S(x). It
recovers the support where the relevant entries are the k largest (over-sparse starts), or the k - s largest outside its
s ones (under-sparse starts). Its sample complexity m* is the least m at which half of all samples do.

Of a neuron whose weights are 1 on some coordinates and one small number elsewhere the gate is a count of negative bits:
64 samples are then counted at once, a bit of every word each, several times as fast as sums of floats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.theory.boolean.fourier import subset_mask

Array = NDArray[np.float64]

_ROWS = 2**16
"""Samples drawn at a time."""
SURE = 2
"""Sizes in a row at which every trial succeeds, after which larger ones are not tried."""


def sample_gradients(
    weights: ArrayLike, bias: float, support: Iterable[int], samples: int, trials: int, rng: np.random.Generator
) -> Float[Array, "trials n"]:
    """Gradients of one neuron, each over `samples` fresh uniform inputs; (trials, n)."""
    w, members = np.asarray(weights, np.float32), [*support]
    require(w.ndim == 1, f"the weights of one neuron are a vector; got shape {w.shape}")
    subset_mask(members, len(w))
    require_integer("samples", samples, 1)
    require_integer("trials", trials, 1)
    sums, ones = np.zeros((trials, len(w))), _counted_ones(np.asarray(weights, np.float64), bias)
    at_once = _ROWS if ones is None else 8 * _ROWS  # a word is 64 samples: longer arrays spare overhead
    for trial in range(trials):
        for first in range(0, samples, at_once):
            rows = min(at_once, samples - first)
            if ones is None:
                x = _signs(rng, rows, len(w))
                gate = x @ w + np.float32(bias) > 0
                sums[trial] += (gate * x[:, members].prod(axis=1)) @ x  # whole numbers below 2^24: exact in float32
            else:
                sums[trial] += _counted(rng, rows, ones, members)
    return sums / samples


def signal_and_noise(
    gradients: ArrayLike, support: Iterable[int], ones: Iterable[int] = ()
) -> tuple[Float[Array, "*trials"], Float[Array, "*trials"]]:
    """The least |g_i| on the support and the largest off it, the neuron's own `ones` left out of both.

    Their difference is the Fourier gap of the neuron where `ones` is empty.
    """
    size = np.abs(np.asarray(gradients, np.float64))
    n, own = size.shape[-1], [*ones]
    wanted = [i for i in support if i not in own]
    subset_mask(wanted, n)
    subset_mask(own, n)
    others = np.setdiff1d(np.arange(n), [*wanted, *own])
    require(len(wanted) and others.size, f"a gap needs coordinates on both sides; got {wanted} and {others.tolist()}")
    return size[..., wanted].min(axis=-1), size[..., others].max(axis=-1)


def recovered(gradients: ArrayLike, support: Iterable[int], ones: Iterable[int] = ()) -> Bool[NDArray, "*trials"]:
    """Whether the relevant entries are the largest; a tie is none. With `ones`, those of the neuron do not count."""
    relevant, irrelevant = signal_and_noise(gradients, support, ones)
    return np.asarray(relevant > irrelevant)


def geometric_sizes(smallest: int, largest: int) -> tuple[int, ...]:
    """Whole numbers from `smallest` to `largest`, growing by a factor of sqrt(2)."""
    require_integer("smallest", smallest, 1)
    require_integer("largest", largest, smallest)
    count = int(2 * np.log2(largest / smallest) + 1e-9) + 1
    return tuple(dict.fromkeys(int(smallest * 2 ** (step / 2)) for step in range(count)))


def recovery_counts(
    weights: ArrayLike,
    bias: float,
    support: Iterable[int],
    sizes: Iterable[int],
    trials: int,
    seed: int,
    ones: Iterable[int] = (),
) -> Iterator[tuple[int, int]]:
    """(m, how many of `trials` samples of size m recover the support), for ascending sizes.

    It ends after two sizes in a row at which all do. Every size has fresh samples.
    """
    members, own, sure = [*support], [*ones], 0
    for m in sizes:
        rng = np.random.default_rng((seed, m))
        hits = int(recovered(sample_gradients(weights, bias, members, m, trials, rng), members, own).sum())
        yield m, hits
        sure = sure + 1 if hits == trials else 0
        if sure == SURE:
            return


def _counted_ones(w: Array, bias: float) -> NDArray[np.bool_] | None:
    """Where the weights are 1, if the gate is decided by counting negative bits there, and elsewhere at a tie."""
    ones = w == 1
    rest = w[~ones]
    small = float(rest[0]) if rest.size else 0.0
    if np.any(rest != small) or not 0 <= small < 1:
        return None
    if small == 0:
        return ones if ones.sum() % 2 == 1 and abs(bias) < 1 else None
    biased = abs(bias) < small if rest.size % 2 == 1 else bias == 0
    return ones if ones.sum() % 2 == 0 and biased and rest.size * small < 1 else None


def _counted(rng: np.random.Generator, rows: int, ones: NDArray[np.bool_], support: list[int]) -> NDArray[np.int64]:
    """The sum over `rows` samples of 1[gate] x chi_S(x); a sample is a bit of the words, 1 where a sign is negative."""
    bits = rng.integers(0, 2**64, (len(ones), -(-rows // 64)), dtype=np.uint64, endpoint=False)
    fewer, tied = _compared(bits[ones], -(-int(ones.sum()) // 2))
    if ones.sum() % 2 == 0:
        fewer |= tied & _compared(bits[~ones], -(-int((~ones).sum()) // 2))[0]
    if rows % 64:
        fewer[-1] &= np.uint64(2 ** (rows % 64) - 1)
    label = np.bitwise_xor.reduce(bits[support], axis=0) if support else np.zeros_like(fewer)
    opposite = np.bitwise_count(fewer & (bits ^ label)).sum(axis=1, dtype=np.int64)
    return int(np.bitwise_count(fewer).sum(dtype=np.int64)) - 2 * opposite


def _compared(bits: NDArray[np.uint64], limit: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Of every sample, whether it has fewer than `limit` of the bits, and whether exactly so many; (words,) each."""
    every = np.uint64(2**64 - 1)
    planes = [np.zeros(bits.shape[1], np.uint64) for _ in range(max(len(bits), limit).bit_length())]
    for carry in bits:  # binary counters, one digit a plane
        for place, plane in enumerate(planes):
            planes[place], carry = plane ^ carry, plane & carry
    fewer, tied = np.zeros(bits.shape[1], np.uint64), np.full(bits.shape[1], every)
    for place in reversed(range(len(planes))):
        if limit >> place & 1:
            fewer |= tied & ~planes[place]
            tied &= planes[place]
        else:
            tied &= ~planes[place]
    return fewer, tied


def _signs(rng: np.random.Generator, rows: int, n: int) -> NDArray[np.float32]:
    """Uniform signs from packed bits, an order of magnitude cheaper than a draw per sign."""
    bits = np.unpackbits(np.frombuffer(rng.bytes(-(-rows * n // 8)), np.uint8), count=rows * n)
    return 1 - 2 * bits.reshape(rows, n).astype(np.float32)
