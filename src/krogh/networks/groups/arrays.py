"""Networks of one hidden layer as arrays, in float64, evaluated over all inputs in blocks (dissertation, section 7.2).

    pair network    f(a, b)[c] = Σ_i σ(U[i,a] + V[i,b]) W[i,c]     U, V, W [m, n];  σ = x², x^k or ReLU
    power network   f(x) = Σ_i (U[i]·x)^k W[i]                     U [m, n], W [m, 2];  output 0 is the class y = +1

Neither has biases. ω_i is all of neuron i's weights, in and out; f is homogeneous of degree ν in θ, ν the activation's
degree plus one. Indices of inputs are a·n + b for pairs, and rows of `krogh.theory.boolean.fourier.cube` for sign
vectors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import KroghError, require, require_integer, unknown
from krogh.programs.groups import Group
from krogh.theory.groups.problems import ParityProblem, cyclic_order, problem_of

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Activation = Literal["quadratic", "power", "relu"]

ENTRIES = 2**22
"""Hidden units times inputs, and labels times inputs, in one block: 32 MiB each in float64."""

LARGEST_CUBE = 24
"""Sign vectors of more coordinates are not enumerated."""


def _weights(name: str, value: ArrayLike, columns: int | None = None) -> Array:
    array = np.array(value, np.float64)
    require(array.ndim == 2 and array.size > 0, f"{name} must be [neurons, columns]; got the shape {array.shape}")
    undefined = int(np.sum(~np.isfinite(array)))
    require(undefined == 0, f"{name} must hold finite numbers; got {undefined} that are not")
    fits = columns is None or array.shape[1] == columns
    require(fits, f"{name} must have {columns} columns; got the shape {array.shape}")
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class PairArrays:
    """A pair network's weights: U, V, W [m, n], one row per neuron."""

    U: Array
    V: Array
    W: Array
    activation: Activation = "quadratic"
    exponent: int = 2

    def __post_init__(self) -> None:
        u = _weights("U", self.U)
        v, w = _weights("V", self.V, u.shape[1]), _weights("W", self.W, u.shape[1])
        require(
            len(u) == len(v) == len(w), f"U, V and W need a row per neuron; got {len(u)}, {len(v)} and {len(w)} rows"
        )
        if self.activation not in ("quadratic", "power", "relu"):
            raise unknown("activation", str(self.activation), ("quadratic", "power", "relu"))
        require_integer("exponent", self.exponent, 1)
        require(
            self.activation == "power" or self.exponent == 2,
            f"an exponent belongs to the activation 'power'; got {self.activation!r} and exponent={self.exponent}",
        )
        for name, value in (("U", u), ("V", v), ("W", w)):
            object.__setattr__(self, name, value)

    @property
    def width(self) -> int:
        """The number m of neurons."""
        return len(self.U)

    @property
    def order(self) -> int:
        """The number n of elements, and of classes."""
        return self.U.shape[1]

    @property
    def degree(self) -> int:
        """Of the activation: 1 for ReLU."""
        return {"quadratic": 2, "relu": 1, "power": self.exponent}[self.activation]

    @property
    def homogeneity(self) -> int:
        """ν: f(cθ) = c^ν f(θ) for c > 0."""
        return self.degree + 1

    @property
    def neurons(self) -> Array:
        """ω_i = (u_i, v_i, w_i), [m, 3n]."""
        return np.hstack([self.U, self.V, self.W])

    def scaled(self, factor: float) -> PairArrays:
        """The network of weights factor·θ."""
        return PairArrays(factor * self.U, factor * self.V, factor * self.W, self.activation, self.exponent)

    def hidden(self, sums: Array) -> Array:
        """σ(sums)."""
        return np.maximum(sums, 0.0) if self.activation == "relu" else sums**self.degree

    def blocks(self) -> Iterator[tuple[Indices, Array]]:
        """Indices a·n + b with the logits [block, n] of these inputs, all n² of them in order."""
        n = self.order
        size = max(1, ENTRIES // max(self.width, n))
        for start in range(0, n * n, size):
            index = np.arange(start, min(start + size, n * n))
            yield index, self.hidden(self.U.T[index // n] + self.V.T[index % n]) @ self.W


@dataclass(frozen=True, eq=False)
class PowerArrays:
    """A power network's weights: U [m, n] and W [m, 2], one row per neuron, and the exponent k of its activation."""

    U: Array
    W: Array
    exponent: int

    def __post_init__(self) -> None:
        u, w = _weights("U", self.U), _weights("W", self.W, 2)
        require(len(u) == len(w), f"U and W need a row per neuron; got {len(u)} and {len(w)} rows")
        require_integer("exponent", self.exponent, 1)
        object.__setattr__(self, "U", u)
        object.__setattr__(self, "W", w)

    @property
    def width(self) -> int:
        """The number m of neurons."""
        return len(self.U)

    @property
    def coordinates(self) -> int:
        """The number n of coordinates of an input."""
        return self.U.shape[1]

    @property
    def homogeneity(self) -> int:
        """ν = k + 1."""
        return self.exponent + 1

    @property
    def neurons(self) -> Array:
        """ω_i = (u_i, w_i), [m, n+2]."""
        return np.hstack([self.U, self.W])

    def scaled(self, factor: float) -> PowerArrays:
        """The network of weights factor·θ."""
        return PowerArrays(factor * self.U, factor * self.W, self.exponent)

    def hidden(self, inputs: Array) -> Array:
        """(U x)^k of inputs [batch, n], [batch, m]; an odd power keeps the sign."""
        return np.asarray((inputs @ self.U.T) ** self.exponent)

    def blocks(self) -> Iterator[tuple[Indices, Array]]:
        """Rows of the cube with the logits [block, 2] of these inputs, all 2^n of them in order."""
        for index, inputs in cube_blocks(self.coordinates, self.width):
            yield index, self.hidden(inputs) @ self.W


Network = PairArrays | PowerArrays


def arrays_of(model: Any, params: Mapping[str, Any]) -> Network:
    """The weights of a model "pair-network" or "power-network" as arrays: params U, V, W or U, W."""
    weights = {name: np.asarray(value, np.float64) for name, value in params.items()}
    if set(weights) == {"U", "V", "W"}:
        return PairArrays(**weights, activation=model.activation, exponent=model.exponent)
    named = ", ".join(sorted(weights)) or "none"
    require(set(weights) == {"U", "W"}, f"a network has the parameters U, V, W or U, W; got {named}")
    return PowerArrays(**weights, exponent=model.exponent)


def cube_blocks(n: int, width: int) -> Iterator[tuple[Indices, Array]]:
    """Row numbers and rows [block, n] of the cube, in the order of `krogh.theory.boolean.fourier`."""
    _require_listable(n)
    size = max(1, ENTRIES // max(width, n))
    for start in range(0, 2**n, size):
        index = np.arange(start, min(start + size, 2**n))
        bits = (index[:, None] >> np.arange(n)[None, :]) & 1
        yield index, np.asarray(1.0 - 2.0 * bits, np.float64)


def _require_listable(n: int) -> None:
    require(n <= LARGEST_CUBE, f"all 2^n inputs are listed only for n <= {LARGEST_CUBE}; got n={n}")


def labels_of(problem: Any) -> Indices:
    """The right label of every input, in the order of the indices: table[a, b], or 0 and 1 for y = +1 and -1."""
    given = problem_of(problem)
    if isinstance(given, Group):
        return np.asarray(given.table, np.int64).ravel()
    _require_listable(given.n)
    mask = sum(1 << i for i in given.support)
    return np.asarray(np.bitwise_count(np.arange(2**given.n) & mask) & 1, np.int64)


def check_fit(network: Network, problem: Group | ParityProblem) -> None:
    """Refuse a network that does not read the problem's inputs."""
    if isinstance(problem, Group) and isinstance(network, PairArrays):
        fits, needs = network.order == problem.order, f"{problem.order} columns for the group {problem.name}"
        require(fits, f"a pair network needs {needs}; got {network.order}")
    elif isinstance(problem, ParityProblem) and isinstance(network, PowerArrays):
        fits = network.coordinates == problem.n
        require(fits, f"a power network needs {problem.n} columns for this parity; got {network.coordinates}")
    else:
        raise KroghError(
            "pair networks compose groups and power networks multiply bits; got a "
            f"{type(network).__name__} for a {type(problem).__name__}"
        )


def norm(network: Network, a: float = 2.0, b: float | None = None) -> float:
    """‖θ‖_{a,b} = (Σ_i ‖ω_i‖_a^b)^{1/b}: within a neuron a, across neurons b, which is ν unless given."""
    exponent = float(network.homogeneity if b is None else b)
    for name, order in (("a", a), ("b", exponent)):
        require(order >= 1, f"{name} must be at least 1 for a norm (numpy.inf is allowed); got {name}={order!r}")
    return float(np.linalg.norm(np.linalg.norm(network.neurons, ord=a, axis=1), ord=exponent))


def combination_factor(homogeneity: float, b: float, width: int) -> float:
    """max_{‖s‖_b ≤ 1} ‖s‖_ν^ν over s in R^m: what neurons of total norm 1 gain by being many (section D.5.1).

    1 for b ≤ ν, m^{1-ν/b} beyond: the bounds for b = ν hold for other b when multiplied by it.
    """
    require(b >= 1, f"b must be at least 1 for a norm (numpy.inf is allowed); got b={b!r}")
    require_integer("width", width, 1)
    return 1.0 if b <= homogeneity else float(width ** (1 - homogeneity / b if math.isfinite(b) else 1))


def phase_residuals(network: PairArrays, p: int) -> Array:
    """The angle of û(z)v̂(z)conj ŵ(z) at each neuron's dominant frequency z ≥ 1, [m], in (-π, π]; the optimum is 0.

    Undefined (nan) for neurons in which u, v or w has nothing of that frequency.
    """
    require(cyclic_order(p) == network.order, f"phases belong to Z_p with p={network.order} columns; got p={p!r}")
    u, v, w = (np.fft.rfft(part, axis=1)[:, 1:] for part in (network.U, network.V, network.W))
    dominant = np.argmax(np.abs(u) ** 2 + np.abs(v) ** 2 + np.abs(w) ** 2, axis=1)[:, None]
    product = np.take_along_axis(u * v * w.conj(), dominant, axis=1)[:, 0]
    return np.where(np.abs(product) > 0, np.angle(product), np.nan)
