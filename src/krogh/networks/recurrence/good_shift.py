"""The good shift W^>: one shift of a random network's recurrent matrix that makes it compute a sum over its tokens.

*Can SGD learn recurrent neural networks with provable generalization?*, Definition 5.3 and Lemma 5.4. Targets are

    F*_{j,s}(x*) = Σ_{i=2}^{j-1} Σ_{r=1}^{p} φ_{i→j,r,s}(⟨w*_{i→j,r,s}, x*_i⟩),    j = 3..L,  s = 1..d

with unit vectors w* whose last coordinate is 0 and φ(0) = 0. Row k of the shift is

    w^>_k = Σ_{i<j}Σ_{r,s} [e_sᵀBack⁰_{i→j}]_k/(m C_{i→j,s}) · 1{|⟨w_k, h⁰_{i-1}⟩| ≤ ε_c/√m} H_{i→j,r,s}(a_k) · h⁰_{i-1}
    C_{i→j,s} = (1/m) ‖e_sᵀ Back⁰_{i→j}‖² ‖h⁰_{i-1}‖²

where 0 marks the base sequence, and the indicator with H are the weights of `krogh.networks.recurrence.selector`. To
first order the shifted network's outputs change by f_j(W^>) ≈ F*_j (`Run.pseudo`): Back_{i'→j'} meets Back⁰_{i→j} only
at i' = i and j' = j, and the selector picks the token. All rows are multiples of the L-2 base states h⁰_1 .. h⁰_{L-2},
so that W^> is kept as L-2 outer products. What remains is noise that falls with m, leakage from other positions of
order ε_x, and an offset that does not depend on the input.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from krogh.errors import require, require_integer
from krogh.networks.handmade import Checked, Handmade, Oracle, handmade, sizes_of
from krogh.networks.recurrence.measures import ConstructionError, construction_error
from krogh.networks.recurrence.random_network import OuterProducts, RandomRnn, random_rnn
from krogh.networks.recurrence.selector import (
    check_direction,
    polynomial,
    random_directions,
    selection_weights,
    sigma_at,
    token_weight,
    weigh_tokens,
)
from krogh.tasks.token_sequences import base_sequence, check_sequences, draw_tokens, normalise_tokens
from krogh.theory.numerics import double_precision

Array = NDArray[np.float64]
INPUTS = 30
CORRELATION = 0.8
"""What f_j must have with F*_j, over random inputs, for the statement to hold."""
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class TokenSums:
    """A target F*: `directions` w* [L-2, L-2, p, d, dx] and coefficients c_0 = 0, c_1, .. [L-2, L-2, p, d, degree+1].

    The first axis is the token i = 2..L-1, the second the label j = 3..L; entries with i ≥ j are not read.
    """

    directions: Array
    coefficients: Array

    def __post_init__(self) -> None:
        shape, given = self.directions.shape, self.coefficients.shape
        fits = len(shape) == 5 and shape[0] == shape[1] and given[:-1] == shape[:-1]
        require(fits, f"directions are [L-2, L-2, p, d, dx], coefficients alike; got {shape} and {given}")
        require(bool(np.all(self.coefficients[..., 0] == 0)), "functions of a token sum have φ(0) = 0; got c_0 ≠ 0")
        for i, j in self.pairs:
            for direction in self.directions[i - 2, j - 3].reshape(-1, shape[-1]):
                check_direction(direction, shape[-1])

    @property
    def length(self) -> int:
        return len(self.directions) + 2

    @property
    def outputs(self) -> int:
        return int(self.directions.shape[3])

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """All i < j."""
        return [(i, j) for i in range(2, self.length) for j in range(i + 1, self.length + 1)]

    def __call__(self, tokens: ArrayLike) -> Array:
        """F*_j [batch, L-2, d] for true tokens [batch, L-2, dx]."""
        x = np.asarray(tokens, np.float64)
        found = np.zeros((len(x), self.length - 2, self.outputs))
        for i, j in self.pairs:
            z = np.einsum("bx,rsx->brs", x[:, i - 2], self.directions[i - 2, j - 3])
            for power in range(self.coefficients.shape[-1] - 1, 0, -1):
                found[:, j - 3] += np.sum(self.coefficients[i - 2, j - 3, ..., power] * z**power, axis=1)
        return found


def random_sums(length: int, dx: int, series: str, seed: int, *, terms: int = 1, outputs: int = 1) -> TokenSums:
    """One function for all, and a direction of its own for every i, j, r and s."""
    for name, number in (("terms", terms), ("outputs", outputs)):
        require_integer(name, number, 1)
    shape = (length - 2, length - 2, terms, outputs)
    c = polynomial(series)
    return TokenSums(
        random_directions(np.random.default_rng([seed, 2]), shape, dx), np.broadcast_to(c, (*shape, len(c))).copy()
    )


def counting_sums(length: int) -> TokenSums:
    """#a - #b among the tokens before j, of letters a, b as bits 1, 0 (Example 3.6): linear, and exact on all strings.

    w* = (1, -1, 0)/√2 has ⟨w*, x*⟩ = ±√(3/8), and φ(z) = z/√(3/8) for all i < j.
    """
    shape = (length - 2, length - 2, 1, 1)
    w, c = np.array([1.0, -1.0, 0.0]) / math.sqrt(2), np.array([0.0, 1 / math.sqrt(3 / 8)])
    return TokenSums(np.broadcast_to(w, (*shape, 3)).copy(), np.broadcast_to(c, (*shape, 2)).copy())


def good_shift(network: RandomRnn, target: TokenSums, eps_x: float, eps_c: float) -> OuterProducts:
    """W^> = Σ_i coef_i (h⁰_{i-1})ᵀ as L-2 outer products, i = 2..L-1."""
    length, dx, m = target.length, target.directions.shape[-1], network.width
    base = network.run(np.asarray(base_sequence(length, dx, eps_x, "eps"))[None])
    sigma = sigma_at(length, dx, eps_x)
    left = np.zeros((length - 2, m))
    states = np.stack([base.h[i - 1, 0] for i in range(2, length)])
    backs = {(i, j): back[0] for j in range(3, length + 1) for i, back in base.backward(j)}
    for i, j in target.pairs:
        state = np.asarray(states[i - 2], np.float64)
        rows = np.asarray(backs[i, j], np.float64)
        normaliser = np.sum(rows**2, axis=1) * float(state @ state)  # m C
        for r, s in np.ndindex(target.directions.shape[2:4]):
            given = target.directions[i - 2, j - 3, r, s], target.coefficients[i - 2, j - 3, r, s]
            if np.any(given[1]):
                weights = selection_weights(network, states[i - 2], *given, sigma[i], eps_c)
                left[i - 2] += rows[s] * weights / normaliser[s]
    return OuterProducts(left.astype(network.W.dtype), states)


def shifted_outputs(network: RandomRnn, shift: OuterProducts, x: ArrayLike) -> Array:
    """f_j(W^>) [batch, L-2, d] at positions j = 3..L of inputs [batch, L, dx+1]."""
    run = network.run(np.asarray(x))
    return np.stack([run.pseudo(shift, j=j) for j in range(3, run.length + 1)], axis=1).astype(np.float64)


class ShiftSettings(NamedTuple):
    """What a good shift is made of; network and target are drawn from the seed."""

    width: int
    length: int = 4
    dx: int = 3
    terms: int = 1
    outputs: int = 1
    series: str = "z"
    eps_x: float = 0.1
    eps_c: float = 0.1
    seed: int = 0


@dataclass(frozen=True)
class SumOracle(Oracle):
    """F* itself, on random tokens."""

    target: TokenSums
    eps_x: float

    @property
    def exhaustive(self) -> bool:
        return False

    def cases(self, seed: int) -> Iterator[tuple[Array, Array]]:
        """Inputs [30, L, dx+1] and F* [30, L-2, d]."""
        count, _, _, _, dx = self.target.directions.shape
        tokens = np.asarray(draw_tokens(jax.random.key(seed), INPUTS, count, dx), np.float64)
        yield np.asarray(normalise_tokens(tokens, self.eps_x, "eps"), np.float64), self.target(tokens)


@handmade("good shift")
@dataclass(frozen=True, eq=False)
class GoodShift(Handmade):
    """A random network, a target, and W^> as left [L-2, m] (what Definition 5.3 sums) and right [L-2, m] (h⁰)."""

    settings: ShiftSettings
    network: RandomRnn
    target: TokenSums
    parameters: Mapping[str, NDArray[Any]]

    @property
    def name(self) -> str:
        return "good shift"

    @property
    def shift(self) -> OuterProducts:
        return OuterProducts(self.parameters["left"], self.parameters["right"])

    @property
    def statement(self) -> str:
        s = self.settings
        return (
            f"f_j(W^>) of a random network of width {s.width:,} approximates F*_j, a sum of φ = {s.series} of the "
            f"tokens before j, j = 3..{s.length}: to first order, up to an offset, with correlation at least "
            f"{CORRELATION:g}; √m‖W^>‖ = {math.sqrt(s.width) * self.shift.norm():.4g}"
        )

    @property
    def size(self) -> dict[str, float]:
        """The width, the numbers of the outer products, and √m‖W^>‖_F."""
        moved = math.sqrt(self.settings.width) * self.shift.norm()
        return {"width": self.settings.width, **sizes_of(self.parameters), "movement": moved}

    @property
    def oracle(self) -> SumOracle:
        return SumOracle(self.target, self.settings.eps_x)

    def run(self, x: ArrayLike, /) -> Array:
        """f_j(W^>) [batch, L-2, d] at positions j = 3..L of inputs [batch, L, dx+1]."""
        return shifted_outputs(self.network, self.shift, x)

    def error(self, seed: int = 0) -> ConstructionError:
        """How f differs from F* over random inputs, for each j and s."""
        (x, expected), *_ = self.oracle.cases(seed)
        return construction_error(self.run(x), expected)

    def check(self, seed: int = 0) -> Checked:
        """Compare f with F* on random inputs, and with the derivative along W^> as Definition 5.3 has it.

        The first is approximate: the correlation must be at least 0.8 at every j and s (the least size of Lemma 5.4 is
        out of reach). The second is exact: automatic differentiation of the model, along a shift that is written once
        more from the definition, must give the same f to rounding.
        """
        (x, expected), *_ = self.oracle.cases(seed)
        found = self.run(x)
        error = construction_error(found, expected)
        defined = _derivative(self.network, _defined_shift(self), x)
        off = float(np.max(np.abs(found - defined)) / max(1.0, float(np.max(np.abs(defined)))))
        correlation = float(error.correlation.min())
        scope = (
            f"f_j against F*_j on {len(x)} random inputs, correlation {correlation:.3f} or more (at least "
            f"{CORRELATION:g} is asked), offset up to {np.abs(error.offset).max():.2g}; f_j as defined to {off:.1g}"
        )
        details = {
            "correlation": correlation,
            "offset": float(np.abs(error.offset).max()),
            "deviation": float(error.deviation.max()),
            "departure_from_definition": off,
        }
        holds = correlation >= CORRELATION and off <= ROUNDING
        return Checked(holds, len(x), False, float(np.max(np.abs(found - expected))), scope, details)

    def recipe(self) -> dict[str, Any]:
        return {"settings": self.settings._asdict()}

    @classmethod
    def from_recipe(cls, recipe: Mapping[str, Any]) -> GoodShift:
        return random_good_shift(**recipe["settings"])

    def with_parameters(self, parameters: Mapping[str, Any]) -> GoodShift:
        return replace(self, parameters=parameters)


def random_good_shift(width: int, *, dtype: DTypeLike = np.float64, **settings: Any) -> GoodShift:
    """The good shift of a random network for a random target; settings are those of `ShiftSettings`."""
    s = ShiftSettings(width, **settings)
    check_sequences(s.length, s.dx, s.eps_x, "eps")
    network = random_rnn(s.width, s.dx + 1, s.outputs, s.seed, dtype)
    target = random_sums(s.length, s.dx, s.series, s.seed, terms=s.terms, outputs=s.outputs)
    shift = good_shift(network, target, s.eps_x, s.eps_c)
    return GoodShift(s, network, target, {"left": shift.left, "right": shift.right})


# --- the oracle: the definition by other means --------------------------------------------------------------------


def _defined_shift(made: GoodShift) -> OuterProducts:
    """Definition 5.3 once more, in one sum over i, j, r and s, with Back⁰ by automatic differentiation."""
    s, network, target = made.settings, made.network, made.target
    m, length = s.width, s.length
    base = np.asarray(base_sequence(length, s.dx, s.eps_x, "eps"), np.float64)
    a = math.sqrt(m / 2) * np.asarray(network.A[:, : s.dx], np.float64)
    states = [np.zeros(m)]
    for one in base:
        states.append(np.maximum(network.W @ states[-1] + network.A @ one, 0.0))
    left, sigma = np.zeros((length - 2, m)), sigma_at(length, s.dx, s.eps_x)
    for i, j in target.pairs:
        h = states[i - 1]
        inside = np.sqrt(m) * np.abs(network.W @ h) <= s.eps_c
        chance = math.erf(s.eps_c / (2 * np.sqrt(h @ h)))
        rows = _continued(network, states[i], base[i:j])
        for output, row in enumerate(rows):
            total = sum(
                weigh_tokens(
                    token_weight(target.coefficients[i - 2, j - 3, r, output], sigma[i]),
                    a,
                    target.directions[i - 2, j - 3, r, output],
                )
                for r in range(s.terms)
            )
            left[i - 2] += row * inside * total / (chance * (row @ row) * (h @ h))
    return OuterProducts(left, np.stack(states[1 : length - 1]))


def _continued(network: RandomRnn, state: Array, inputs: Array) -> Array:
    """∂y_j/∂h_i [d, m] where the network reads on from h_i: Back_{i→j}."""
    with double_precision():
        W, A, B = (jnp.asarray(part) for part in (network.W, network.A, network.B))

        def output(h: jax.Array) -> jax.Array:
            for one in inputs:
                h = jax.nn.relu(W @ h + A @ one)
            return B @ h

        return np.asarray(jax.jacrev(output)(jnp.asarray(state)))


@functools.cache
def _along() -> Any:
    def outputs(t: jax.Array, W: Any, A: Any, B: Any, left: Any, right: Any, x: Any) -> jax.Array:
        h, found = jnp.zeros((x.shape[0], W.shape[0])), []
        for l in range(x.shape[1]):  # noqa: E741
            h = jax.nn.relu(h @ W.T + t * ((h @ right.T) @ left) + x[:, l] @ A.T)
            found.append(h @ B.T)
        return jnp.stack(found[2:], axis=1)

    return jax.jit(lambda *rest: jax.jvp(lambda t: outputs(t, *rest), (0.0,), (1.0,))[1])


def _derivative(network: RandomRnn, shift: OuterProducts, x: Array) -> Array:
    """d/dt of the outputs of the network with W + tW' at t = 0, by automatic differentiation."""
    with double_precision():
        given = (network.W, network.A, network.B, shift.left, shift.right, x)
        return np.asarray(_along()(*(jnp.asarray(part, jnp.float64) for part in given)))
