"""Linear decoders written down from a random network's own weights: what its last state still knows of its inputs.

*Learning and generalization in RNNs*, section D.1, Lemmas 4.4 and C.1, Corollary D.1.1, Claim E.3.

One ReLU layer h = relu(T x), T_ij ~ N(0, 1) [m, d]. E[2 (w·v) relu(w·x)] = v·x for w ~ N(0, I), so that

    (2/m) Tᵀ relu(T x) ≈ x,    and of v·x the error has the root mean square ‖v‖‖x‖ √((2 + 3 cos²∠(v, x))/m)

exactly (Lemma 4.4 prints 2Tv, without 1/m; the error is not in the source, which bounds it by its order).

The recurrent network. With the signs D⁰_l of the base sequence,

    V^[1] = D⁰_1 A,    V^[l] = D⁰_l [W V^[l-1], A]        [m, l·d], built with l products of W by a narrow matrix
    V^[L]ᵀ h_L ≈ [x_1; ...; x_L],    with an RMS error of a coordinate of about √(2L/m) where ε_x is small

Claim E.3 has the same matrix by its rows: V(l) = [[V(l-1), 0]; [0, I]] [W, A]ᵀ D⁰_l = V^[l]ᵀ. It is the derivative of
h_L along the inputs at the base sequence, by which it is checked. *Token-only*: the columns that belong to the first
d-1 coordinates of x_2 .. x_{L-1}, and the state h_{L-1} (as printed, the indices of Corollary D.1.1 do not fit
together; these do). *Centred*: Vᵀ(h - h⁰) ≈ x - x⁰, which is in no source and takes away what all inputs share.

Sequences are counted from 1 as in the sources; arrays are [batch, L, d].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from krogh.errors import require, require_integer, unknown
from krogh.models.elman import elman_states
from krogh.networks.handmade import Checked, Handmade, Oracle, handmade, sizes_of
from krogh.networks.recurrence.random_network import Array, RandomRnn, Run, random_rnn
from krogh.tasks.token_sequences import REST, base_sequence, check_sequences, normalise_tokens
from krogh.theory.numerics import double_precision

TYPES = ("float32", "float64")
ROUNDING = {"float32": 1e-4, "float64": 1e-10}
"""What two ways of computing the same decoder may differ by."""
RMS_FACTOR = 2.0
"""The error that a check allows, over the law: that of single networks of width 2000 lies between 0.7 and 1.4 of it."""
SEQUENCES = 100
"""Sequences that a check decodes."""
Seed = int | Sequence[int]
"""What NumPy takes for one."""


# --- sequences ------------------------------------------------------------------------------------------------------


def some_sequences(size: int, length: int, dx: int, eps_x: float, seed: int, dtype: str = "float64") -> Array:
    """Random sequences of tokens as a network is given them, [size, L, dx+1], ended by (0, 1)."""
    check_sequences(length, dx, eps_x, "one")
    g = np.random.default_rng([seed, 7]).standard_normal((size, length - 2, dx - 1))
    g *= REST / np.linalg.norm(g, axis=-1, keepdims=True)
    tokens = np.concatenate([g, np.full((*g.shape[:-1], 1), 0.5)], axis=-1)
    with double_precision():
        return np.asarray(normalise_tokens(tokens, eps_x, "one")).astype(dtype)


def base_of(length: int, dx: int, eps_x: float, dtype: str = "float64") -> Array:
    """The base sequence [1, L, dx+1]."""
    with double_precision():
        return np.asarray(base_sequence(length, dx, eps_x, "one", jnp.float64))[None].astype(dtype)


# --- the matrices ---------------------------------------------------------------------------------------------------


def decoding_matrix(base: Run, first: int = 1, last: int | None = None, columns: int | None = None) -> Array:
    """Blocks l = first..last of V^[last] for the signs of one run, each with the first `columns` columns of A.

    W is read and never copied: beside it there are two matrices of the result's size.
    """
    network, last = base.network, base.length if last is None else last
    A = network.A if columns is None else network.A[:, :columns]
    V = np.empty((network.width, 0), network.W.dtype)
    for l in range(first, last + 1):  # noqa: E741  (the source's letter)
        V = np.concatenate([network.W @ V, A], axis=1)
        V *= base.active[l][0][:, None]
    return V


def decoding_rows(base: Run, last: int | None = None) -> Array:
    """V^[last]ᵀ by Claim E.3: V(l) = [[V(l-1), 0]; [0, I]] [W, A]ᵀ D_l."""
    network = base.network
    V = np.empty((0, network.width), network.W.dtype)
    for l in range(1, (base.length if last is None else last) + 1):  # noqa: E741
        V = np.concatenate([V @ network.W.T, network.A.T]) * base.active[l][0]
    return V


def token_decoder(base: Run) -> Array:
    """V [m, (L-2)·dx] with Vᵀ h_{L-1} ≈ ε_x [x*_2; ...; x*_{L-1}] (Corollary D.1.1)."""
    return decoding_matrix(base, 2, base.length - 1, base.x.shape[-1] - 1)


def along(base: Run, w: Array) -> Array:
    """V w for one vector w [(L-2)·dx] of the token-only decoder, without the decoder: L-2 products of W by a vector."""
    network, dx = base.network, base.x.shape[-1] - 1
    given, v = np.asarray(w, network.W.dtype).reshape(-1, dx), np.zeros(network.width, network.W.dtype)
    for l in range(2, base.length):  # noqa: E741
        v = base.active[l][0] * (network.W @ v + network.A[:, :dx] @ given[l - 2])
    return v


# --- what is measured -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InversionErrors:
    """Errors of decoding a batch: the largest and the RMS of a coordinate, and relative ones on the true tokens.

    `relative` is the mean over sequences of ‖decoded - ε_x x*‖/(ε_x ‖x*‖) over the tokens' dx coordinates; `centred`
    the same where h⁰ and x⁰ are subtracted first, `centred_rms` the RMS of all its coordinates.
    """

    largest: float
    rms: float
    relative: float
    centred_rms: float
    centred: float


def inversion_errors(run: Run, base: Run, V: Array | None = None) -> InversionErrors:
    """How well V^[L] (that of the base's signs unless given) decodes the last states of a run."""
    V = decoding_matrix(base) if V is None else V
    x, x0 = run.x, base.x
    decoded = (run.h[-1] @ V).reshape(x.shape)
    plain = decoded - x
    centred = decoded - (base.h[-1] @ V).reshape(x0.shape) - (x - x0)
    return InversionErrors(
        float(np.abs(plain).max()), rms(plain), _relative(plain, x), rms(centred), _relative(centred, x)
    )


def own_signs_rms(run: Run) -> float:
    """The RMS error where every sequence is decoded with its own signs in place of the base's."""
    parts = (
        Run(run.network, run.x[b : b + 1], run.h[:, b : b + 1], run.active[:, b : b + 1]) for b in range(len(run.x))
    )
    return rms(np.stack([one.h[-1, 0] @ decoding_matrix(one) - one.x[0].ravel() for one in parts]))


def single_step_error(run: Run, position: int, v: Array) -> Array:
    """|v·[h_{l-1}, x_l] - u·h_l|/‖v‖ with u = [W, A] v, for every sequence (Lemma C.3); v is [m + d]."""
    m = run.network.width
    u = run.network.W @ v[:m] + run.network.A @ v[m:]
    before = run.h[position - 1] @ v[:m] + run.x[:, position - 1] @ v[m:]
    return np.abs(before - run.h[position] @ u) / np.linalg.norm(v)


def rms(values: Array) -> float:
    """The root mean square of all entries, added up in float64."""
    return math.sqrt(float(np.mean(np.square(values, dtype=np.float64))))


def _relative(error: Array, x: Array) -> float:
    """Over the true tokens: positions 2..L-1, all coordinates but the last."""
    size = np.linalg.norm(x[:, 1:-1, :-1].astype(np.float64), axis=(1, 2))
    return float(np.mean(np.linalg.norm(error[:, 1:-1, :-1].astype(np.float64), axis=(1, 2)) / size))


def decoding_law(width: int, length: int) -> float:
    """√(2L/m): the RMS error of a coordinate of V^[L]ᵀ h_L for small ε_x."""
    return math.sqrt(2 * length / width)


# --- as networks with a contract ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn(Oracle):
    """Random inputs with what the outputs should be, by a function of a seed."""

    draw: Callable[[int], tuple[Any, Any]]
    exhaustive = False

    def cases(self, seed: int) -> Iterator[tuple[Any, Any]]:
        yield self.draw(seed)


@dataclass(frozen=True)
class LinearRegime:
    """‖Vᵀ V^[l] - S‖_2, where S picks the decoded coordinates: the error over the norm of the inputs, at most."""

    value: float
    holds_for: str


@handmade("sequence decoder")
@dataclass(frozen=True, eq=False)
class SequenceDecoder(Handmade):
    """A random network W, A with the decoder V of the signs of its base sequence; `make_decoder` makes one.

    `reads` = "sequence": Vᵀ h_L gives all inputs, [batch, L, d]; "tokens": Vᵀ h_{L-1} the true tokens times ε_x,
    [batch, L-2, dx]. The check holds V against the derivative of the state, and the error against the law.
    """

    length: int
    dx: int
    eps_x: float
    reads: str
    seed: int
    parameters: Mapping[str, Array]

    name = "sequence decoder"

    @property
    def width(self) -> int:
        return len(self.parameters["W"])

    @property
    def position(self) -> int:
        """The position whose state is decoded."""
        return self.length if self.reads == "sequence" else self.length - 1

    @property
    def network(self) -> RandomRnn:
        W, A = self.parameters["W"], self.parameters["A"]
        return RandomRnn(W, A, np.zeros((1, len(W)), W.dtype))

    @property
    def allowed(self) -> float:
        """The RMS error of a coordinate that the statement allows."""
        return RMS_FACTOR * decoding_law(self.width, self.length) + self.eps_x ** (5 / 3)

    @property
    def statement(self) -> str:
        what = (
            f"[x_1; ...; x_{self.length}]"
            if self.reads == "sequence"
            else f"{self.eps_x:g}·[x*_2; ...; x*_{self.length - 1}]"
        )
        return (
            f"Vᵀ h_{self.position} = {what} with an RMS error of a coordinate of at most "
            f"{RMS_FACTOR:g}·√(2L/m) + ε_x^(5/3) = {self.allowed:.3g}, for random tokens (width {self.width}); "
            f"V is the derivative of h_{self.position} at the base sequence"
        )

    @property
    def size(self) -> dict[str, float]:
        return {"width": self.width, "length": self.length, **sizes_of(self.parameters)}

    def run(self, x: Array, /, *, centred: bool = False) -> Array:
        """What is decoded of sequences [batch, L, d]; with `centred` the difference to the base sequence."""
        given = np.asarray(x)
        expected = (self.length, self.dx + 1)
        require(
            given.shape[1:] == expected, f"a decoder reads [batch, {expected[0]}, {expected[1]}]; got {given.shape}"
        )
        h = self.network.run(given).h[self.position]
        if centred:
            h = h - self.network.run(self.base).h[self.position]
        return self._shaped(h @ self.parameters["V"])

    @property
    def base(self) -> Array:
        return base_of(self.length, self.dx, self.eps_x, str(self.parameters["W"].dtype))

    def truth(self, x: Array) -> Array:
        """What decoding should give."""
        return np.asarray(x) if self.reads == "sequence" else np.asarray(x)[:, 1:-1, :-1]

    @property
    def oracle(self) -> Drawn:
        """Random sequences, and what they are."""

        def draw(seed: int) -> tuple[Array, Array]:
            x = some_sequences(SEQUENCES, self.length, self.dx, self.eps_x, seed, str(self.parameters["W"].dtype))
            return x, self.truth(x)

        return Drawn(draw)

    def _shaped(self, flat: Array) -> Array:
        rows = (self.length, self.dx + 1) if self.reads == "sequence" else (self.length - 2, self.dx)
        return flat.reshape(len(flat), *rows)

    def check(self, seed: int = 0) -> Checked:
        """V against automatic differentiation of the network, and random sequences against what they were."""
        off = float(np.abs(self.parameters["V"] - self._picked(self._derivative())).max())
        ((x, truth),) = self.oracle.cases(seed)
        error = rms(self.run(x) - truth)
        rounding = ROUNDING[str(self.parameters["W"].dtype)]
        holds = off <= rounding and error <= self.allowed
        scope = (
            f"all {self.parameters['V'].size:,} entries of V against the derivative (largest difference {off:.3g}), "
            f"and {len(x)} sequences decoded with an RMS error of {error:.3g} where {self.allowed:.3g} is allowed"
        )
        law = error / decoding_law(self.width, self.length)
        details = {"rms": error, "allowed": self.allowed, "rms_over_law": law, "off_derivative": off}
        return Checked(holds, len(x), False, max(off, error), scope, details)

    def certificate(self) -> LinearRegime:
        """Where no sign differs from the base's, states are linear in the inputs, and the error is a matrix times x."""
        J = self._derivative()
        picked = self._picked(np.eye(J.shape[1]))
        value = float(np.linalg.norm(self.parameters["V"].T.astype(np.float64) @ J - picked.T, 2))
        return LinearRegime(value, "the error over ‖x‖ on every sequence that leaves the signs of the base sequence")

    def _derivative(self) -> NDArray[np.float64]:
        """∂h_l/∂(x_1 .. x_l) at the base sequence, [m, l·d], by forward differentiation in the network's own type."""
        with double_precision():
            W, A = (jnp.asarray(self.parameters[name]) for name in ("W", "A"))
            x = jnp.asarray(self.base[0, : self.position], W.dtype)
            found = jax.jacfwd(lambda given: elman_states(W, A, given[None])[-1, 0])(x)
            return np.asarray(found.reshape(self.width, -1), np.float64)

    def _picked(self, columns: Array) -> Array:
        """Of columns for the inputs x_1 .. x_l those for what is decoded."""
        if self.reads == "sequence":
            return columns
        shaped = columns.reshape(len(columns), self.position, self.dx + 1)
        return shaped[:, 1:, :-1].reshape(len(columns), -1)

    def recipe(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in ("length", "dx", "eps_x", "reads", "seed", "width")}
        return {**fields, "dtype": str(self.parameters["W"].dtype)}

    @classmethod
    def from_recipe(cls, recipe: Mapping[str, Any]) -> SequenceDecoder:
        keys = ("width", "length", "dx", "eps_x", "reads", "seed", "dtype")
        return make_decoder(**{key: recipe[key] for key in keys})

    def with_parameters(self, parameters: Mapping[str, Any]) -> Self:
        return replace(self, parameters=parameters)


def make_decoder(
    width: int,
    length: int,
    dx: int = 4,
    eps_x: float = 0.1,
    reads: str = "sequence",
    seed: int = 0,
    dtype: str = "float64",
) -> SequenceDecoder:
    """The decoder of a random network of this width, for sequences of length L with ends."""
    check_sequences(length, dx, eps_x, "one")
    require_integer("width", width, 1)
    if reads not in ("sequence", "tokens"):
        raise unknown("reads", reads, ("sequence", "tokens"))
    if dtype not in TYPES:
        raise unknown("dtype", dtype, TYPES)
    network = random_rnn(width, dx + 1, 1, seed, np.dtype(dtype))
    base = network.run(base_of(length, dx, eps_x, dtype))
    V = decoding_matrix(base) if reads == "sequence" else token_decoder(base)
    return SequenceDecoder(length, dx, eps_x, reads, seed, {"W": network.W, "A": network.A, "V": V})


# --- one layer ------------------------------------------------------------------------------------------------------


def relu_layer(width: int, inputs: int, seed: Seed = 0, spread: float = 1.0) -> NDArray[np.float64]:
    """T [m, d] of a layer relu(T x), T_ij ~ N(0, spread)."""
    for name, number in (("width", width), ("inputs", inputs)):
        require_integer(name, number, 1)
    require(spread > 0, f"spread is a variance above 0; got spread={spread!r}")
    return np.random.default_rng(seed).standard_normal((width, inputs)) * math.sqrt(spread)


def recovered(T: Array, v: Array, x: Array, spread: float = 1.0) -> Array:
    """(2/(m·spread)) Σ_i (T_i·v) relu(T_i·x), an estimate of v·x, for rows of v and x."""
    return 2 / (len(T) * spread) * np.sum((v @ T.T) * np.maximum(x @ T.T, 0), axis=-1)


def recovery_rms(v: Array, x: Array, width: int) -> Array:
    """‖v‖‖x‖√((2 + 3 cos²)/m): the root mean square of the error, over networks, for rows of v and x.

    With w·v = α and w·x = β jointly normal, the terms 2αβ⁺ have the second moment 2 E[α²β²] = 2(1 + 2cos²)‖v‖²‖x‖² and
    the mean cos‖v‖‖x‖.
    """
    product = np.linalg.norm(v, axis=-1) * np.linalg.norm(x, axis=-1)
    cosine = np.sum(v * x, axis=-1) / product
    return product * np.sqrt((2 + 3 * cosine**2) / width)


@handmade("one-layer recovery")
@dataclass(frozen=True, eq=False)
class Recovery(Handmade):
    """One ReLU layer T and the decoder V = (2/m) T: Vᵀ relu(T x) ≈ x. `make_recovery` makes one."""

    seed: int
    parameters: Mapping[str, Array]

    name = "one-layer recovery"

    @property
    def width(self) -> int:
        return len(self.parameters["T"])

    @property
    def statement(self) -> str:
        return (
            f"v·Vᵀ relu(T x) = v·x with an RMS error of ‖v‖‖x‖√((2 + 3cos²)/{self.width}) up to a factor of "
            f"{RMS_FACTOR:g}, over {SEQUENCES}² random pairs of v and x; V = (2/{self.width}) T"
        )

    @property
    def size(self) -> dict[str, float]:
        return {"width": self.width, **sizes_of(self.parameters)}

    def run(self, x: Array, /) -> Array:
        """The inputs [batch, d] as they are read off the layer."""
        return np.maximum(np.asarray(x) @ self.parameters["T"].T, 0) @ self.parameters["V"]

    @property
    def oracle(self) -> Drawn:
        """Random inputs, and themselves."""
        inputs = self.parameters["T"].shape[1]
        return Drawn(lambda seed: (np.random.default_rng([seed, 11]).standard_normal((SEQUENCES, inputs)),) * 2)

    def check(self, seed: int = 0) -> Checked:
        T = self.parameters["T"]
        off = float(np.abs(self.parameters["V"] * self.width / 2 - T).max())
        ((x, truth),) = self.oracle.cases(seed)
        v = np.random.default_rng([seed, 12]).standard_normal(x.shape)
        error = (self.run(x) - truth) @ v.T
        law = recovery_rms(v[None], x[:, None], self.width)
        ratio = rms(error / law)
        scope = f"V against 2T/m, and {SEQUENCES}² pairs with an RMS error of {ratio:.3g} times the law's"
        holds = off <= 1e-9 and ratio <= RMS_FACTOR
        return Checked(holds, SEQUENCES**2, False, max(off, float(np.abs(error).max())), scope, {"rms_over_law": ratio})

    def recipe(self) -> dict[str, Any]:
        return {"width": self.width, "inputs": self.parameters["T"].shape[1], "seed": self.seed}

    @classmethod
    def from_recipe(cls, recipe: Mapping[str, Any]) -> Recovery:
        return make_recovery(recipe["width"], recipe["inputs"], recipe["seed"])

    def with_parameters(self, parameters: Mapping[str, Any]) -> Self:
        return replace(self, parameters=parameters)


def make_recovery(width: int, inputs: int, seed: int = 0) -> Recovery:
    """One random ReLU layer and its decoder."""
    T = relu_layer(width, inputs, seed)
    return Recovery(seed, {"T": T, "V": 2 / width * T})
