"""Sixty gradients: an upper bound on the all-layer margin of ReLU networks that are too large for a search.

For one input the gradient of a layer is of rank one, ∂F/∂(W, b) = g ⊗ (h, 1): g from behind and h what the layer reads.
So after k steps of descent a perturbation is δ = Σ_j c_j g_j ⊗ (h_j, 1) in every layer, which is never written out:

    (W + δ) h = W h + Σ_j c_j g_j ⟨(h_j, 1), (h, 1)⟩        W is sparse
    ‖δ‖² = Σ_ij c_i c_j Σ_layers ⟨g_i, g_j⟩ ⟨(h_i, 1), (h_j, 1)⟩

A gradient costs two passes through a sparse network, nothing is compiled, and a network of 10^8 dense weights is no
obstacle. Where to start matters: rounding is flat, so that at δ = 0 only the last layers have a gradient. Descents
begin

    at δ = 0, where ReLUs that stand exactly at 0 count as on,
    at *critical* gates: one gate's row is moved along what it reads, by what makes it flip; the cost is about
        1/√(‖h‖² + 1), so layers with many ones are attacked first, and in them gates on which the output depends.

and go against the gradient until the output flips. From there each step is for the least norm, not the least value: at
the boundary, where the gradient is its normal, δ is turned towards the nearest point of a boundary that were flat, and
made as short as still flips.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require_integer
from krogh.networks.relu import ReluNetwork

Array = NDArray[np.float64]

STEPS = 60
"""Gradients of one descent."""
STRIDE = 0.5
"""A step before the first flip goes so far towards where a linear output would flip."""
TURNS = (1.0, 0.5, 0.2, 0.05, 0.01)
"""How far a flip is turned towards the normal of the boundary, before adaptation."""
WEAKEST = 1e-3
"""A descent ends when turns that are so much smaller do not help either."""
FRACTIONS = np.array([0.3, 0.6, 0.8, 0.9, 0.95, 0.98, 0.995, 0.9995])
"""Of the present norm, at which it is tried."""
SCALES = 2.0 ** np.arange(-7.0, 6.0, 0.5)
"""Shares of a perturbation at which its ray is looked at."""
MOST_ENTRIES = 1 << 26
"""Numbers in all factors, half a gigabyte: a descent has fewer steps where they would be more."""
POINTS, ROUNDS = 9, 2
"""Flips are enclosed to a tenth of their interval, so often."""


@dataclass(frozen=True, eq=False)
class Perturbation:
    """δ = Σ_j c_j g_j ⊗ (h_j, 1): of every layer `left` [factors, out] and `right` [factors, in + 1]; c [factors]."""

    network: ReluNetwork
    left: tuple[Array, ...]
    right: tuple[Array, ...]
    coefficients: Array

    @property
    def norm(self) -> float:
        """‖δ‖_2 over all layers."""
        gram = sum((a @ a.T) * (b @ b.T) for a, b in zip(self.left, self.right, strict=True))
        return math.sqrt(float(self.coefficients @ gram @ self.coefficients))

    def named(self) -> dict[str, Array]:
        """δ as full arrays, by the names of `krogh.networks.relu.dense_parameters`."""
        found: dict[str, Array] = {}
        for (weight, bias, _), a, b in zip(self.network.named_layers, self.left, self.right, strict=True):
            delta = (self.coefficients[:, None] * a).T @ b
            found |= {weight: np.ascontiguousarray(delta[:, :-1]), bias: delta[:, -1].copy()}
        return found


@dataclass(frozen=True, eq=False)
class Descent:
    """The smallest perturbation that descents found, and its norm; infinite, with None, where none flips the output.

    `descents` is how many were made before the time was over.
    """

    radius: float
    perturbation: Perturbation | None
    descents: int


class Start(NamedTuple):
    """Where a descent begins: unit `unit` of layer `layer` is moved up or down along what it reads; None for δ = 0."""

    layer: int
    unit: int
    up: bool


def least_flip(
    network: ReluNetwork,
    x: ArrayLike,
    y: int,
    *,
    output: int = 0,
    starts: Iterable[Start | None] = (None,),
    steps: int = STEPS,
    deadline: float = math.inf,
) -> Descent:
    """The smallest perturbation of all weights that descents of so many gradients find to change the output on x.

    `starts` are tried in turn until `deadline`, a time of `time.monotonic`, has come; the first is always begun.
    """
    require_integer("steps", steps, 1)
    require_integer("output", output, 0, network.outputs - 1)
    given = np.asarray(x, np.float64).reshape(-1)
    chain = _Chain(network, given, 1.0 if y else -1.0, output)
    entries = sum(out + into + 1 for out, into in network.shapes)
    most = min(steps, max(1, MOST_ENTRIES // entries))
    if not chain.passed(_Sum(chain, 0))[2] > 0:
        return Descent(0.0, None, 0)
    best: _Sum | None = None
    made = 0
    for start in starts:
        if made and time.monotonic() >= deadline:
            break
        found = _descended(chain, start, most, deadline)
        made += 1
        if found is not None and (best is None or found.norm < best.norm):
            best = found
    if best is None:
        return Descent(math.inf, None, made)
    left, right = (tuple(map(part, range(len(network.layers)))) for part in (best.left, best.right))
    perturbation = Perturbation(network, left, right, best.coefficients)
    return Descent(perturbation.norm, perturbation, made)


class _Sum:
    """A perturbation as the search holds it: factors by layer, their coefficients and their Gram matrix.

    Factors are rows of memory that all sums of one descent share: one that is added takes the place of those that were
    added to the same sum before, and are no longer in use.
    """

    def __init__(self, chain: _Chain, most: int):
        self.count = 0
        self._left = [np.empty((most, out)) for out, _ in chain.network.shapes]
        self._right = [np.empty((most, into + 1)) for _, into in chain.network.shapes]
        self.coefficients = np.zeros(0)
        self.gram = np.zeros((0, 0))

    def left(self, place: int) -> Array:
        """g of all factors in one layer, [factors, out]."""
        return self._left[place][: self.count]

    def right(self, place: int) -> Array:
        """(h, 1) of all factors in one layer, [factors, in + 1]."""
        return self._right[place][: self.count]

    def scaled(self, coefficients: Array) -> _Sum:
        """The same factors with other coefficients."""
        found = object.__new__(_Sum)
        found.__dict__.update(self.__dict__)
        found.coefficients = coefficients
        return found

    @property
    def last(self) -> Array:
        """The coefficients of the last factor alone."""
        return np.eye(1, self.count, self.count - 1)[0]

    @property
    def norm(self) -> float:
        return math.sqrt(max(0.0, float(self.coefficients @ self.gram @ self.coefficients)))

    def plus(self, left: Sequence[Array], right: Sequence[Array], coefficient: float) -> _Sum:
        """With one more factor."""
        found = self.scaled(np.append(self.coefficients, coefficient))
        found.count += 1
        products = np.zeros(found.count)
        for place, (g, h) in enumerate(zip(left, right, strict=True)):
            self._left[place][self.count], self._right[place][self.count] = g, h
            products += (found.left(place) @ g) * (found.right(place) @ h)
        found.gram = np.empty((found.count, found.count))
        found.gram[:-1, :-1] = self.gram
        found.gram[-1], found.gram[:, -1] = products, products
        return found


class _Chain:
    """±F of one output at one input, and its gradient, for perturbations that are sums of few factors."""

    def __init__(self, network: ReluNetwork, x: Array, sign: float, output: int):
        self.network, self.x, self.sign = network, x, sign
        self.weights = [layer.weight for layer in network.layers]
        self.transposed = [weight.T for weight in self.weights]
        self.biases = [layer.bias for layer in network.layers]
        self.output = output

    def passed(self, change: _Sum) -> tuple[list[Array], list[NDArray[np.bool_]], float]:
        """(h, 1) of what every layer reads, which units of the hidden layers are on, and ±F."""
        read, on, h = [], [], self.x
        for place, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            read.append(np.append(h, 1.0))
            h = weight @ h + bias
            if change.count:
                h += (change.coefficients * (change.right(place) @ read[-1])) @ change.left(place)
            if place < len(self.weights) - 1:
                on.append(h >= 0)  # at exactly 0 too: the slope upwards
                np.maximum(h, 0.0, out=h)
        return read, on, self.sign * float(h[self.output])

    def values(self, change: _Sum, coefficients: Array) -> Array:
        """±F for the factors of a perturbation with other coefficients, [factors, cases]: [cases]."""
        h = np.repeat(self.x[:, None], coefficients.shape[1], axis=1)
        for place, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            right = change.right(place)
            shares = coefficients * (right[:, :-1] @ h + right[:, -1:])
            h = weight @ h + bias[:, None] + change.left(place).T @ shares
            if place < len(self.weights) - 1:
                np.maximum(h, 0.0, out=h)
        return self.sign * h[self.output]

    def slope(self, change: _Sum) -> tuple[float, list[Array], list[Array]]:
        """±F and its gradient, as the two factors of every layer."""
        read, on, value = self.passed(change)
        g = np.zeros(len(self.biases[-1]))
        g[self.output] = self.sign
        left = [g]
        for place in range(len(self.weights) - 1, 0, -1):
            back = self.transposed[place] @ g
            if change.count:
                back += ((change.coefficients * (change.left(place) @ g)) @ change.right(place))[:-1]
            g = back * on[place - 1]
            left.append(g)
        return value, left[::-1], read


def _descended(chain: _Chain, start: Start | None, steps: int, deadline: float) -> _Sum | None:
    """The smallest flip that one descent finds; None where there is none."""
    change, flips = _begun(chain, start, steps)
    strength = 1.0
    for _ in range(steps):
        if time.monotonic() >= deadline:
            break
        value, left, read = chain.slope(change)
        size = math.sqrt(sum(float(g @ g) * float(h @ h) for g, h in zip(left, read, strict=True)))
        if not size > 0:
            break
        further = change.plus(left, read, 0.0)
        if not flips:
            change = further.scaled(further.coefficients - STRIDE * value / size**2 * further.last)
            found = _narrowed(chain, change)
            flips, change = found is not None, change if found is None else found
            continue
        found = _turned(chain, further, size, strength)
        while found is None and strength > WEAKEST and time.monotonic() < deadline:
            strength /= 4
            found = _turned(chain, further, size, strength)
        if found is None:
            break
        change, strength = found, min(2.0, 1.5 * strength)
    return change if flips else None


def _begun(chain: _Chain, start: Start | None, steps: int) -> tuple[_Sum, bool]:
    """No perturbation, or one row moved to where the output flips, and whether it does."""
    nothing = _Sum(chain, steps + 1)
    if start is None:
        return nothing, False
    read = chain.passed(nothing)[0]
    left = [np.zeros(len(bias)) for bias in chain.biases]
    left[start.layer][start.unit] = 1.0 if start.up else -1.0
    right = [np.zeros(len(h)) if place != start.layer else h for place, h in enumerate(read)]
    shift = nothing.plus(left, right, 1.0 / float(read[start.layer] @ read[start.layer]))  # by 1, whatever it reads
    found = _narrowed(chain, shift)
    return (shift, False) if found is None else (found, True)


def _turned(chain: _Chain, further: _Sum, size: float, strength: float) -> _Sum | None:
    """A smaller flip, turned towards the normal of the boundary; None where none of those tried is one.

    `further` is a flip at the boundary with the gradient, of norm `size`, as its last factor. If the boundary were
    flat, its nearest point would be the projection of δ to the gradient; candidates lie between the two.
    """
    norm = further.norm
    nearest = further.last * float(further.coefficients @ further.gram[-1]) / size**2
    turns = strength * np.array(TURNS)
    rows = further.coefficients + turns[:, None] * (nearest - further.coefficients)
    norms = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", rows, further.gram, rows), 1e-300))
    cases = (FRACTIONS[:, None] * (norm / norms)[None, :])[:, :, None] * rows[None]  # [fractions, turns, factors]
    flipped = ~(chain.values(further, cases.reshape(-1, further.count).T) > 0).reshape(cases.shape[:2])
    if not flipped.any():
        return None
    fraction = int(flipped.any(axis=1).argmax())
    turn = int(flipped[fraction].argmax())
    low = 0.0 if not fraction else float(FRACTIONS[fraction - 1] / FRACTIONS[fraction])
    return _bisected(chain, further.scaled(cases[fraction, turn]), low, 1.0, ROUNDS)


def _narrowed(chain: _Chain, change: _Sum) -> _Sum | None:
    """The first flip on the ray of a perturbation, upwards in norm; None where there is none."""
    flipped = ~(chain.values(change, SCALES * change.coefficients[:, None]) > 0)
    if not flipped.any():
        return None
    first = int(flipped.argmax())
    return _bisected(chain, change, SCALES[first - 1] if first else 0.0, SCALES[first], 2 * ROUNDS)


def _bisected(chain: _Chain, change: _Sum, low: float, high: float, rounds: int) -> _Sum:
    """A flip between two shares of a perturbation, of which the larger is one, that is close to what is none."""
    for _ in range(rounds):
        shares = np.linspace(low, high, POINTS + 2)[1:-1]
        flipped = ~(chain.values(change, shares * change.coefficients[:, None]) > 0)
        first = int(flipped.argmax()) if flipped.any() else POINTS
        low, high = np.concatenate([[low], shares, [high]])[first : first + 2]
    return change.scaled(high * change.coefficients)
