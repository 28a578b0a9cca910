"""Small ReLU networks that constructions are put together from (qSTR paper, Propositions 26 and 28).

A gadget is one hidden layer, x ↦ C relu(A x + b). Gadgets that read the same input are laid side by side by
`together`, one after the other by `chained`, which merges the output matrix of each with the input matrix of the
next: k gadgets in a chain are a network of k + 1 layers, with a bias in all but the last.

    identity     x = relu(x) - relu(-x)
    addition     the same of a sum
    absolute     |x| = relu(x) + relu(-x)
    dead zone    relu(x - t) - relu(-x - t): 0 for |x| ≤ t, and never further than t from x
    gate         relu(x - B(1-s)) - relu(-x - B(1-s)): x for s = 1, and 0 for s ≤ 1 - |x|/B
    square       the piecewise-linear interpolant of x²
    product      ab = ((a+b)² - (a-b)²)/4, by two squares

All but the last two are exact.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from krogh.errors import require, require_integer
from krogh.theory.constructions.base import Array
from krogh.theory.predictions.inputs import check_open


@dataclass(frozen=True, eq=False)
class Gadget:
    """x ↦ output · relu(weight · x + bias): weight [m, n], bias [m], output [k, m]."""

    weight: Array
    bias: Array
    output: Array

    def __post_init__(self) -> None:
        m = len(self.bias)
        fits = self.weight.shape[0] == m == self.output.shape[1]
        require(
            fits,
            f"a gadget has weight [m, n], bias [m] and output [k, m]; got {self.weight.shape}, {self.bias.shape}, "
            f"{self.output.shape}",
        )

    def __call__(self, x: ArrayLike) -> Array:
        """The gadget's value on inputs x [..., n]."""
        return np.maximum(np.asarray(x, np.float64) @ self.weight.T + self.bias, 0.0) @ self.output.T

    def after(self, matrix: ArrayLike, shift: ArrayLike = 0.0) -> Gadget:
        """The gadget of `matrix` · x + `shift`: how it is wired to a larger input."""
        wires = np.asarray(matrix, np.float64)
        offset = np.broadcast_to(np.asarray(shift, np.float64), (len(wires),))
        return Gadget(self.weight @ wires, self.bias + self.weight @ offset, self.output)

    def times(self, matrix: ArrayLike) -> Gadget:
        """`matrix` times what the gadget returns."""
        return Gadget(self.weight, self.bias, np.asarray(matrix, np.float64) @ self.output)


def identity(n: int) -> Gadget:
    """x ↦ x, by two units per coordinate."""
    return dead_zone(n, 0.0)


def addition(n: int, terms: int = 2) -> Gadget:
    """(x_1, ..., x_terms) ↦ x_1 + ... + x_terms, vectors of n coordinates."""
    require_integer("terms", terms, 1)
    return identity(n).after(np.tile(np.eye(n), (1, terms)))


def absolute(n: int) -> Gadget:
    """x ↦ |x|, coordinate by coordinate."""
    both = identity(n)
    return Gadget(both.weight, both.bias, np.abs(both.output))


def dead_zone(n: int, threshold: float) -> Gadget:
    """x ↦ relu(x - t) - relu(-x - t), coordinate by coordinate: exactly 0 for |x| ≤ t, within t of x elsewhere."""
    require_integer("n", n, 1)
    require(threshold >= 0, f"a dead zone has a threshold of at least 0; got threshold={threshold!r}")
    eye = np.eye(n)
    return Gadget(np.vstack([eye, -eye]), np.full(2 * n, -float(threshold)), np.hstack([eye, -eye]))


def gate(n: int, strength: float) -> Gadget:
    """(x, s) ↦ x where s = 1 and exactly 0 where s ≤ 1 - |x|/strength, for x and s of n coordinates each."""
    require_integer("n", n, 1)
    check_open("strength", strength, 0)
    eye = np.eye(n)
    weight = np.block([[eye, strength * eye], [-eye, strength * eye]])
    return Gadget(weight, np.full(2 * n, -float(strength)), np.hstack([eye, -eye]))


def square(reach: float, segments: int) -> Gadget:
    """u ↦ S(u), the piecewise-linear interpolant of u² on [-reach, reach] by an even number K of equal segments.

        S(u) = Σ_{k<K/2} c_k (relu(u - kh) + relu(-u - kh)),   h = 2·reach/K,  c_0 = h,  c_k = 2h

    0 ≤ S(u) - u² ≤ h²/4 = (reach/K)², with equality on the left at the knots kh.
    """
    _check_segments(reach, segments)
    step = 2 * reach / segments
    knots = step * np.arange(segments // 2)
    slopes = np.where(knots > 0, 2 * step, step)
    signs = np.repeat([1.0, -1.0], segments // 2)
    return Gadget(signs[:, None], -np.tile(knots, 2), np.tile(slopes, 2)[None, :])


def product(reach: float, segments: int) -> Gadget:
    """(a, b) ↦ (S(a+b) - S(a-b))/4 for |a ± b| ≤ reach: ab within (reach/K)²/4, K the number of segments."""
    one = square(reach, segments)
    plus, minus = one.after([[1.0, 1.0]]), one.after([[1.0, -1.0]])
    return together(plus, minus).times([[0.25, -0.25]])


def inner_product(n: int, reach: float, segments: int) -> Gadget:
    """(a, b) ↦ Σ_k product(a_k, b_k), within n(reach/K)²/4 of ⟨a, b⟩ for vectors of n coordinates.

    With two segments and reach 2c it is (c/2) Σ_k (|a_k + b_k| - |a_k - b_k|), which is exact where all
    coordinates are ±c: then a_k ± b_k lies on the knots -2c, 0, 2c.
    """
    require_integer("n", n, 1)
    one, eye = product(reach, segments), np.eye(n)
    every = [one.after(np.stack([np.r_[eye[k], 0 * eye[k]], np.r_[0 * eye[k], eye[k]]])) for k in range(n)]
    return together(*every).times(np.ones((1, n)))


def together(*gadgets: Gadget) -> Gadget:
    """Gadgets that read the same input, side by side; their values are concatenated."""
    inputs = {gadget.weight.shape[1] for gadget in gadgets}
    require(len(inputs) == 1, f"gadgets side by side read one input; got inputs of {sorted(inputs)} coordinates")
    rows, columns = (sum(gadget.output.shape[axis] for gadget in gadgets) for axis in (0, 1))
    output, row, column = np.zeros((rows, columns)), 0, 0
    for gadget in gadgets:
        k, m = gadget.output.shape
        output[row : row + k, column : column + m] = gadget.output
        row, column = row + k, column + m
    weights, biases = [gadget.weight for gadget in gadgets], [gadget.bias for gadget in gadgets]
    return Gadget(np.vstack(weights), np.concatenate(biases), output)


def chained(*gadgets: Gadget) -> tuple[list[Array], list[Array]]:
    """Gadgets one after the other as the layers of one network: weights W_1, ..., W_(k+1) and biases b_1, ..., b_k."""
    weights = [gadgets[0].weight]
    weights += [after.weight @ before.output for before, after in itertools.pairwise(gadgets)]
    return [*weights, gadgets[-1].output], [gadget.bias for gadget in gadgets]


def _check_segments(reach: float, segments: int) -> None:
    check_open("reach", reach, 0)
    require_integer("segments", segments, 2)
    require(segments % 2 == 0, f"segments must be even; got segments={segments} (try {segments + 1})")
