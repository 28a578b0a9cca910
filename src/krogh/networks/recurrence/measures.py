"""What is measured on random and moved recurrent networks: errors of a construction, gains, movement, linearity.

    construction error   correlation, offset and deviation over inputs of f_{j,s} - F*_{j,s}, for each (j, s)
    operator gains       ‖relu(Wx)‖/‖x‖ for a typical x (about 1) and for the worst (about 1 + √2), beside ‖W‖ (2√2)
    movement             √m‖W'‖ in Frobenius and spectral norm, and the share of signs that changed at each position
    linearisation error  ‖y_j(W + W', A + A') - y_j(W, A) - f_j(W', A')‖

(*Can SGD learn recurrent neural networks with provable generalization?*, sections 4 and 5 and footnote 2; *Learning and
generalization in RNNs*, Lemma G.3.) Footnote 2 has √2 for the worst gain. It is 1 + √2: relu(Wx) keeps a half-space of
neurons that may be chosen with x.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require
from krogh.networks.recurrence.random_network import OuterProducts, RandomRnn, Run, Shift

Array = NDArray[np.float64]
ROUNDS = 60
"""Of power iteration."""


class ConstructionError(NamedTuple):
    """Over inputs, at each position and output: correlation of f with F*, mean and deviation of f - F*, sd of F*."""

    correlation: Array
    offset: Array
    deviation: Array
    target_deviation: Array


def construction_error(found: ArrayLike, expected: ArrayLike) -> ConstructionError:
    """f and F* [inputs, *rest]; what varies in neither has correlation 0."""
    f, target = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    require(
        f.shape == target.shape and len(f) > 1,
        f"an error over inputs needs two arrays of one shape with two inputs or more; got {f.shape} and {target.shape}",
    )
    spread, size = f.std(axis=0), target.std(axis=0)
    joint = np.mean((f - f.mean(axis=0)) * (target - target.mean(axis=0)), axis=0)
    correlation = np.divide(joint, spread * size, out=np.zeros_like(joint), where=spread * size > 0)
    return ConstructionError(correlation, np.mean(f - target, axis=0), np.std(f - target, axis=0), size)


class Gains(NamedTuple):
    """Of x ↦ relu(Wx): over random x, for the worst x that power iteration finds, and the norm of W itself."""

    typical: float
    worst: float
    norm: float


def operator_gains(W: NDArray[Any], seed: int = 0, starts: int = 4, inputs: int = 30) -> Gains:
    """Gains of a square matrix. x ← Wᵀrelu(Wx) climbs ‖relu(Wx)‖, which is convex in x: the worst is from below."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((inputs, W.shape[1])).astype(W.dtype)
    typical = np.linalg.norm(np.maximum(x @ W.T, 0), axis=1) / np.linalg.norm(x, axis=1)
    return Gains(
        float(typical.mean()),
        _largest_gain(W, rng, starts, ROUNDS, lambda y: np.maximum(y, 0)),
        _largest_gain(W, rng, starts, ROUNDS, lambda y: y),
    )


def _largest_gain(
    W: NDArray[Any], rng: np.random.Generator, starts: int, rounds: int, act: Callable[[NDArray[Any]], NDArray[Any]]
) -> float:
    """The largest ‖act(Wx)‖/‖x‖ that x ← Wᵀact(Wx) comes to from random starts."""
    v = rng.standard_normal((starts, W.shape[1])).astype(W.dtype)
    gain = 0.0
    for _ in range(rounds):
        v /= np.maximum(np.linalg.norm(v, axis=1, keepdims=True), np.finfo(v.dtype).tiny)  # a start may be lost
        y = act(v @ W.T)
        gain = float(np.linalg.norm(y, axis=1).max())
        v = y @ W
    return gain


def spectral_norm(W: NDArray[Any], seed: int = 0, rounds: int = 30) -> float:
    """‖W‖_2 by power iteration, from below: within 1% for a Gaussian matrix."""
    return _largest_gain(W, np.random.default_rng(seed), 2, rounds, lambda y: y)


class Movement(NamedTuple):
    """√m times the norm of a shift."""

    frobenius: float
    spectral: float


def movement(shift: Shift) -> Movement:
    """How far W + W' (or A + A') has gone, in the unit in which theory keeps it fixed as m grows."""
    if isinstance(shift, OuterProducts):
        return Movement(*(math.sqrt(shift.left.shape[1]) * size for size in (shift.norm(), shift.spectral_norm())))
    root = math.sqrt(len(shift))
    spectral = spectral_norm(shift) if min(shift.shape) > 500 else float(np.linalg.norm(shift, 2))
    return Movement(root * float(np.linalg.norm(shift)), root * spectral)


def flip_shares(one: Run, other: Run) -> Array:
    """The share of neurons whose sign differs [batch, L], at each position: after training, or between inputs."""
    return np.asarray(np.mean(one.active[1:] != other.active[1:], axis=-1).T)


class Linearisation(NamedTuple):
    """At the last position, by sequence: ‖y' - y - f‖ and ‖f‖; and flips [batch, L]."""

    error: Array
    linear: Array
    flips: Array


def linearisation(
    network: RandomRnn, x: ArrayLike, W: Shift | None = None, A: NDArray[Any] | None = None, run: Run | None = None
) -> Linearisation:
    """How far the network that was moved by (W', A') is from its first-order expansion; `run` where there is one."""
    before = network.run(np.asarray(x)) if run is None else run
    after = network.moved(0.0 if W is None else W, 0.0 if A is None else A).run(np.asarray(x))
    first = before.pseudo(W, A)
    error = np.linalg.norm((after.output() - before.output() - first).astype(np.float64), axis=-1)
    return Linearisation(error, np.linalg.norm(first.astype(np.float64), axis=-1), flip_shares(before, after))
