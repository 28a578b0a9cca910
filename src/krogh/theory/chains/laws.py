"""Expectations over a law of transition tables, in float64: nodes and weights for two symbols, a sample beyond.

With k = 2, P = [[a, 1-a], [1-b, b]], λ = a+b-1 is the second eigenvalue and π = (1-b, 1-a)/(2-a-b) (section E.1); all
priors are then laws of one or two uniform numbers, and Gauss–Legendre nodes integrate them. For more symbols tables are
drawn, by samplers that share nothing with the task's.
"""

from __future__ import annotations

import functools
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import KroghError, require, require_integer
from krogh.tasks.chains import DirichletRows, DoublyStochastic, Hard, Interpolated, Mixture, Prior, Unigram

Array = NDArray[np.float64]
PriorName = Literal["dirichlet", "doubly-stochastic", "unigram", "hard"]
SAMPLES = 20_000
NODES = 80
"""Per axis. On the square they suffice for 8 digits at t = 400; on a line there are more where λ^t asks for them."""


class Law(NamedTuple):
    """Tables [size, k, k] with weights that sum to one; `exact` unless they are a sample."""

    P: Array
    weights: Array
    exact: bool

    @property
    def k(self) -> int:
        return int(self.P.shape[-1])

    @property
    def pi(self) -> Array:
        """The stationary law of each table."""
        return stationary_law(self.P)

    def mean(self, values: ArrayLike) -> Array:
        """E of values [size, ...]."""
        return np.tensordot(self.weights, np.asarray(values, np.float64), axes=1)

    def error(self, values: ArrayLike) -> Array:
        """The standard error of `mean`: zero where nothing was drawn."""
        drawn = np.asarray(values, np.float64)
        return np.zeros(drawn.shape[1:]) if self.exact else drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn))


def named_prior(prior: PriorName, eps: float = 0.25) -> Prior:
    """A prior by its name, as predictions take it."""
    require(prior in get_args(PriorName), f"prior must be one of {', '.join(get_args(PriorName))}; got prior={prior!r}")
    if prior == "hard":
        return Hard(eps)
    plain: dict[str, type[Prior]] = {
        "dirichlet": DirichletRows,
        "doubly-stochastic": DoublyStochastic,
        "unigram": Unigram,
    }
    return plain[prior]()


def law_of(
    prior: Prior, k: int, degree: int = 0, samples: int = SAMPLES, seed: int = 0, nodes: int | None = None
) -> Law:
    """A prior of chains on k symbols: quadrature for k = 2, good for powers P^n up to n = `degree`; else a sample."""
    require_integer("k", k, 2)
    require_integer("samples", samples, 2)
    prior.check(k, 2)
    if k > 2 or (isinstance(prior, DirichletRows) and prior.alpha is not None):
        return _sampled(prior, k, samples, seed)
    if isinstance(prior, DirichletRows):
        points, weights = unit_nodes(nodes or NODES)
        a, b = (grid.ravel() for grid in np.meshgrid(points, points, indexing="ij"))
        return Law(two_symbols(a, b), np.outer(weights, weights).ravel(), True)
    return _on_a_line(prior, *unit_nodes(nodes or max(NODES, degree // 2 + 10)))


def two_symbols(a: ArrayLike, b: ArrayLike) -> Array:
    """[[a, 1-a], [1-b, b]] for arrays a and b: [..., 2, 2]."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return np.stack([np.stack([a, 1 - a], axis=-1), np.stack([1 - b, b], axis=-1)], axis=-2)


@functools.lru_cache(maxsize=16)
def unit_nodes(count: int) -> tuple[Array, Array]:
    """Gauss–Legendre nodes and weights on (0, 1), read-only: exact for polynomials of degree 2·count - 1."""
    points, weights = np.polynomial.legendre.leggauss(count)
    points, weights = (points + 1) / 2, weights / 2
    points.setflags(write=False)
    weights.setflags(write=False)
    return points, weights


def stationary_law(P: ArrayLike) -> Array:
    """π with πP = π for tables [..., k, k], by elimination without subtractions."""
    A = np.array(P, np.float64)
    k = A.shape[-1]
    for n in range(k - 1, 0, -1):
        A[..., :n, n] /= A[..., n, :n].sum(axis=-1)[..., None]
        A[..., :n, :n] += A[..., :n, n, None] * A[..., None, n, :n]
    pi = np.zeros(A.shape[:-1])
    pi[..., 0] = 1
    for n in range(1, k):
        pi[..., n] = (pi[..., :n] * A[..., :n, n]).sum(axis=-1)
    return pi / pi.sum(axis=-1, keepdims=True)


def _on_a_line(prior: Prior, u: Array, weights: Array) -> Law:
    """The priors of two symbols that are laws of one number."""
    if isinstance(prior, DoublyStochastic):
        return Law(two_symbols(u, u), weights, True)
    if isinstance(prior, Hard):
        a = 0.5 + float(prior.eps) * (2 * u - 1)
        return Law(two_symbols(a, a), weights, True)
    if isinstance(prior, Unigram):
        return Law(two_symbols(u, 1 - u), weights, True)
    if isinstance(prior, Interpolated):
        tables = two_symbols(u, 1 - u - float(prior.p) * (1 - 2 * u))
        return Law(np.concatenate([tables, tables[:, ::-1]]), np.tile(weights / 2, 2), True)
    if not isinstance(prior, Mixture):
        raise _unknown(prior, 2)
    parts = (_on_a_line(DoublyStochastic(), u, weights), _on_a_line(Unigram(), u, weights))
    p = float(prior.p)
    return Law(np.concatenate([part.P for part in parts]), np.concatenate([p * weights, (1 - p) * weights]), True)


def _sampled(prior: Prior, k: int, samples: int, seed: int) -> Law:
    random = np.random.default_rng([seed, k, samples])
    if isinstance(prior, DirichletRows):
        alpha = np.asarray(prior.pseudocounts(k), np.float64)
        P = random.dirichlet(alpha, (samples, k))
    elif isinstance(prior, DoublyStochastic) and not prior.sinkhorn:
        P = _birkhoff(random, k, samples)
    elif isinstance(prior, Unigram):
        P = np.repeat(random.dirichlet(np.ones(k), (samples, 1)), k, axis=1)
    elif isinstance(prior, Mixture):
        P = np.repeat(random.dirichlet(np.ones(k), (samples, 1)), k, axis=1)
        doubly = random.random(samples) < float(prior.p)
        P[doubly] = _birkhoff(random, k, int(doubly.sum()))
    else:
        raise _unknown(prior, k)
    return Law(P, np.full(samples, 1 / samples), False)


def _unknown(prior: Prior, k: int) -> KroghError:
    return KroghError(f"no expectations are known over the prior {prior.kind!r} of {k} symbols (try DirichletRows())")


def _birkhoff(random: np.random.Generator, k: int, samples: int) -> Array:
    """Doubly stochastic tables by rejection, as many attempts at once as are likely to be needed."""
    found = np.zeros((0, k, k))
    while len(found) < samples:
        upper = random.dirichlet(np.ones(k), (4 * samples, k - 1))
        last = 1 - upper.sum(axis=1, keepdims=True)
        tables = np.concatenate([upper, last], axis=1)
        found = np.concatenate([found, tables[(last >= 0).all(axis=(1, 2))]])
    return found[:samples]
