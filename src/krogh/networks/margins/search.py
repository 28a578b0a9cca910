"""Values of a network along rays in the space of its parameters, for many rays at once, and the searches on them.

The parameters are one vector of p entries; `Landscape.values` gives ±F(x, θ + v), with the sign of the right output, so
that v flips the output where the value is ≤ 0. Two programs, for values and for slopes, are compiled once per output
function and shapes, for all inputs, labels and seeds, in float64; the searches themselves are NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require
from krogh.theory.numerics import double_precision
from krogh.theory.programs.margin import Array, Output, Parameters, sign_of

KINDS = ("dense", "sparse", "one layer")
"""How random directions are drawn, in turn: all parameters, a few of them, those of one layer."""

LARGE = 200_000
"""From so many parameters on, points are computed one after the other, so that few copies of θ are held."""

POINTS = 8
"""Norms that are tried along a ray at once."""


@dataclass(frozen=True)
class Scan:
    """The norms low, low·ratio, low·ratio², ... up to `high` at which a direction is tried."""

    low: float = 1e-9
    high: float = 100.0
    ratio: float = 1.25

    def __post_init__(self) -> None:
        given = f"low={self.low!r}, high={self.high!r}, ratio={self.ratio!r}"
        right = 0 < self.low < self.high < math.inf and 1 < self.ratio < math.inf
        require(right, f"a scan needs 0 < low < high and ratio > 1; got {given} (try low=1e-9, high=100, ratio=1.25)")

    @property
    def norms(self) -> Array:
        """All of them, at least one."""
        count = math.floor(math.log(self.high / self.low) / math.log(self.ratio) * (1 + 1e-12))
        return np.asarray(self.low * self.ratio ** np.arange(count + 1), np.float64)


@dataclass(frozen=True)
class Shapes:
    """What a program is compiled for: the names and shapes of the parameters."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """p."""
        return sum(math.prod(shape) for shape in self.shapes)

    def dict_of(self, vector: Any) -> dict[str, Any]:
        """A vector [p] as arrays by name."""
        found, start = {}, 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            size = math.prod(shape)
            found[name] = vector[start : start + size].reshape(shape)
            start += size
        return found


@dataclass(frozen=True, eq=False)
class Landscape:
    """±F(x, θ + v) as a function of v, for one input and label.

    `theta` [p] are the parameters, `layer` [p] is the number of each entry's layer ("f3.W1" belongs to "f3"), and
    entries that are not `free` [p] do not move.
    """

    output: Output
    shapes: Shapes
    theta: Array
    layer: NDArray[np.int32]
    free: NDArray[np.bool_]
    x: Any
    sign: float

    def values(self, units: Array, norms: Array) -> Array:
        """±F(x, θ + n u) for u in `units` [rays, p] and n in the row of u in `norms` [rays, points]: [rays, points]."""
        with double_precision():
            return np.asarray(_values(self.output, self.shapes)(self.theta, self.x, self.sign, units, norms))

    def slopes(self, points: Array) -> tuple[Array, Array]:
        """±F and its gradients with respect to v at v in `points` [rays, p]: [rays] and [rays, p].

        Gradients are zero for entries that do not move, and for rays where they are not finite.
        """
        with double_precision():
            values, found = _slopes(self.output, self.shapes)(self.theta, self.x, self.sign, points)
        gradients = np.asarray(found)
        return np.asarray(values), np.where(
            np.isfinite(gradients).all(axis=1, keepdims=True) & self.free, gradients, 0.0
        )

    def arrays_of(self, vector: Array) -> Parameters:
        """A vector [p] as NumPy arrays by name."""
        return {name: np.array(array) for name, array in self.shapes.dict_of(vector).items()}

    @property
    def parameters(self) -> Parameters:
        """θ by name."""
        return self.arrays_of(self.theta)


def landscape(
    output: Output, parameters: Mapping[str, ArrayLike], x: Any, y: Any, frozen: Sequence[str] = ()
) -> Landscape:
    """The landscape of the output on x with the label y in {0, 1}; parameters named in `frozen` do not move."""
    require(len(parameters) > 0, "there are no parameters to move; got an empty dict")
    for name in frozen:
        require(name in parameters, f"frozen names a parameter; got {name!r}, known: {', '.join(parameters)}")
    arrays = {name: np.asarray(array, np.float64) for name, array in parameters.items()}
    layers = {layer: number for number, layer in enumerate(dict.fromkeys(_layer(name) for name in arrays))}
    sizes = [array.size for array in arrays.values()]
    free = np.repeat([name not in frozen for name in arrays], sizes)
    require(free.any(), f"at least one parameter must move; all are frozen: {', '.join(frozen)}")
    return Landscape(
        output,
        Shapes(tuple(arrays), tuple(array.shape for array in arrays.values())),
        np.concatenate([array.ravel() for array in arrays.values()]),
        np.repeat(np.array([layers[_layer(name)] for name in arrays], np.int32), sizes),
        free,
        x,
        sign_of(y),
    )


def directions(rng: np.random.Generator, land: Landscape, kinds: Sequence[int]) -> Array:
    """Random unit vectors, one per kind (0 dense, 1 on about 3 to p/10 entries, 2 within one layer), [rays, p]."""
    p, free = land.shapes.size, np.flatnonzero(land.free)
    found = np.zeros((len(kinds), p))
    for row, kind in zip(found, kinds, strict=True):
        chosen = free
        if kind == 1:
            most = max(3.0, p / 10)
            chosen = rng.choice(free, min(len(free), round(math.exp(rng.uniform(math.log(3), math.log(most))))), False)
        elif kind == 2:
            chosen = free[land.layer[free] == land.layer[rng.choice(free)]]
        row[chosen] = rng.standard_normal(len(chosen))
        row /= np.linalg.norm(row)
    return found


def first_flips(land: Landscape, units: Array, scan: Scan) -> tuple[Array, Array]:
    """The first norm of the scan at which each ray flips the output, and the norm before it (0 before the first).

    Upwards from the least, because larger perturbations may restore the label: bisection from a large norm finds
    another, later boundary. Infinite where nothing flips. Both [rays].
    """
    norms = scan.norms
    below, above = np.zeros(len(units)), np.full(len(units), np.inf)
    for start in range(0, len(norms), POINTS):
        block = norms[np.minimum(np.arange(start, start + POINTS), len(norms) - 1)]  # all blocks have one shape
        flipped = ~(land.values(units, np.tile(block, (len(units), 1))) > 0)
        new = np.isinf(above) & flipped.any(axis=1)
        above[new] = block[flipped.argmax(axis=1)][new]
        below = np.where(
            new, _before(block, flipped.argmax(axis=1), below), np.where(np.isinf(above), block[-1], below)
        )
        if np.isfinite(above).all():
            break
    return below, above


def narrowed(land: Landscape, units: Array, below: Array, above: Array, rounds: int) -> Array:
    """A norm that flips within (above - below)/9^rounds of one that does not, for rays where `above` flips: [rays]."""
    shares = np.arange(1, POINTS + 1) / (POINTS + 1)
    usable = np.isfinite(above)
    below, above = np.where(usable, below, 0.0), np.where(usable, above, 1.0)
    for _ in range(rounds):
        norms = below[:, None] + (above - below)[:, None] * shares
        flipped = ~(land.values(units, norms) > 0)
        first = flipped.argmax(axis=1)
        rows = np.arange(len(units))
        any_flip = flipped.any(axis=1)
        below = np.where(any_flip, np.where(first > 0, norms[rows, first - 1], below), norms[:, -1])
        above = np.where(any_flip, norms[rows, first], above)
    return np.where(usable, above, np.inf)


def unit_rows(vectors: Array, otherwise: Array) -> Array:
    """Rows with norm 1; rows of zeros, and those that are not finite, are replaced by those of `otherwise`."""
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0.0)
    usable = np.isfinite(largest) & (largest > 0)
    scaled = np.where(usable, vectors, 1.0) / np.where(usable, largest, 1.0)  # the squares of slopes may overflow
    return np.where(usable, scaled / np.linalg.norm(scaled, axis=1, keepdims=True), otherwise)


@lru_cache(maxsize=32)
def _values(output: Output, shapes: Shapes) -> Any:
    def program(theta: Any, x: Any, sign: Any, units: Any, norms: Any) -> Any:
        def value(unit: Any, norm: Any) -> Any:
            return sign * jnp.reshape(output(shapes.dict_of(theta + norm * unit), x), ())

        if shapes.size >= LARGE:
            return jax.lax.map(lambda ray: jax.lax.map(lambda norm: value(ray[0], norm), ray[1]), (units, norms))
        return jax.vmap(jax.vmap(value, in_axes=(None, 0)))(units, norms)

    return _compiled(program, shapes)


@lru_cache(maxsize=32)
def _slopes(output: Output, shapes: Shapes) -> Any:
    def program(theta: Any, x: Any, sign: Any, points: Any) -> Any:
        def slope(point: Any) -> Any:
            # by name, then joined: differentiating the slices of one vector would pad each to the whole length
            value, found = jax.value_and_grad(lambda arrays: sign * jnp.reshape(output(arrays, x), ()))(
                shapes.dict_of(theta + point)
            )
            return value, jnp.concatenate([found[name].ravel() for name in shapes.names])

        return jax.lax.map(slope, points) if shapes.size >= LARGE else jax.vmap(slope)(points)

    return _compiled(program, shapes)


def _compiled(program: Any, shapes: Shapes) -> Any:
    # Small deep networks spend most of their time being compiled; the optimiser of the backend gains them nothing.
    options = {} if shapes.size >= LARGE else {"xla_backend_optimization_level": 0}
    return jax.jit(program, compiler_options=options)


def _before(block: Array, first: NDArray[np.intp], below: Array) -> Array:
    return np.where(first > 0, block[np.maximum(first - 1, 0)], below)


def _layer(name: str) -> str:
    return name.rpartition(".")[0] or name
