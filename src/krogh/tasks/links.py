"""Link functions g: R^{qd} → R of q retrieved tokens (qSTR paper, Section 2 and Proposition 3).

    LinearLink          ⟨u, x⟩, q = 1
    MeanLink            ⟨u, (1/q) Σ_j x_j⟩, sparse averaging
    CentredSquareLink   (1/√(qd)) Σ_j (‖x_j‖² - d), the witness of Propositions 3 and 21
    TwoLayerLink        a·σ(W x_{1:q} + b) with σ = ReLU
    RidgeLink           Σ_p c_p φ(U_p x_{1:q}) with a Lipschitz φ: R^k → R

A link is called on tokens [..., q, d] and returns [...]. Where g is a two-layer ReLU network exactly, `two_layer`
returns it (Assumption 2 with ε_2NN = 0); `second_moment` is E g² on q independent N(0, I_d) tokens, where known.
"""

import abc
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from krogh.errors import require, require_integer, unknown
from krogh.values import AnyArray, Value, data, structure, traced

EXACT = jax.lax.Precision.HIGHEST  # labels are exact to float32 also where products default to fewer bits
RIDGES = ("absolute", "norm", "sine", "tanh")


class TwoLayer(NamedTuple):
    """x ↦ a·σ(W x + b): `a` and `b` of shape [m], `W` of shape [m, q·d], in float64."""

    a: Float[np.ndarray, " m"]
    W: Float[np.ndarray, "m inputs"]
    b: Float[np.ndarray, " m"]

    def __call__(self, x: Float[np.ndarray, "*batch inputs"]) -> Float[np.ndarray, "*batch"]:
        return np.maximum(x @ self.W.T + self.b, 0.0) @ self.a

    @property
    def output_radius(self) -> float:
        """The least r_a with ‖a‖ ≤ r_a/√m (Assumption 2)."""
        return float(np.linalg.norm(self.a) * math.sqrt(len(self.a)))

    @property
    def input_radius(self) -> float:
        """The least r_w with ‖(W, b)‖_F ≤ √m·r_w (Assumption 2)."""
        return float(np.sqrt((self.W**2).sum() + (self.b**2).sum()) / math.sqrt(len(self.a)))


class SlotMoments(NamedTuple):
    """Of a link scale·Σ_j c(x_j) with E c = 0: the scale, E c² on N(0, I_d), and c(0), the value of a null token."""

    scale: float
    variance: float
    null: float


class Link(Value):
    """A function of q tokens of dimension d."""

    @abc.abstractmethod
    def __call__(self, values: Float[AnyArray, "*batch q d"]) -> Float[Array, "*batch"]:
        """g of each group of q tokens."""

    def check(self, q: int, d: int) -> None:
        """Refuse a sparsity or a dimension that the link cannot read."""

    def two_layer(self, q: int, d: int) -> TwoLayer | None:
        """The link as an exact two-layer ReLU network, or None where it is none."""
        return None

    def slot_moments(self, q: int, d: int) -> SlotMoments | None:
        """How a centred sum over slots behaves, from which its risk under any index law follows; None for others."""
        return None

    def second_moment(self, q: int, d: int) -> float | None:
        """E g(x_1..x_q)² for independent x_j ~ N(0, I_d), or None where it has no closed form here."""
        self.check(q, d)
        slots = self.slot_moments(q, d)
        return None if slots is None else slots.scale**2 * q * slots.variance


def _flat(values: Float[Array, "*batch q d"]) -> Float[Array, "*batch inputs"]:
    return values.reshape(*values.shape[:-2], values.shape[-2] * values.shape[-1])


def _read(leaf: Any, values: Array) -> Array:
    """A parameter of the link in the precision of the tokens."""
    return jnp.asarray(leaf).astype(values.dtype)


def unit_vector(dimension: int, seed: int = 0) -> Float[np.ndarray, " d"]:
    """A direction u uniform on the sphere: N(0, I_d) normalised, as the experiments draw it."""
    require_integer("dimension", dimension, 1)
    drawn = np.random.default_rng([seed, dimension]).standard_normal(dimension)
    return (drawn / np.linalg.norm(drawn)).astype(np.float32)


class DirectionLink(Link):
    """g(x_1..x_q) = ⟨u, (1/q) Σ_j x_j⟩ for a direction u; what the linear links share."""

    u: Float[AnyArray, " d"] = data()

    def __check_init__(self) -> None:
        shaped = traced(self.u) or (np.ndim(self.u) == 1 and np.size(self.u) > 0)
        require(shaped, f"u must be a vector of the tokens' dimension; got shape {list(np.shape(self.u))}")

    def check(self, q: int, d: int) -> None:
        length = np.shape(self.u)[-1]
        require(length == d, f"u must have the tokens' dimension {d}; got {length} entries (try unit_vector({d}))")

    def two_layer(self, q: int, d: int) -> TwoLayer:
        """a = (1, -1), W = [w; -w] with w = q copies of u/q, b = 0: r_a = 2, and r_w = ‖u‖ for q = 1."""
        self.check(q, d)
        row = np.tile(np.asarray(self.u, np.float64) / q, q)
        return TwoLayer(np.array([1.0, -1.0]), np.stack([row, -row]), np.zeros(2))

    def slot_moments(self, q: int, d: int) -> SlotMoments:
        return SlotMoments(1.0 / q, float(np.sum(np.asarray(self.u, np.float64) ** 2)), 0.0)


class LinearLink(DirectionLink):
    """g(x) = ⟨u, x⟩ of one token (q = 1)."""

    kind = "linear"

    def __call__(self, values: Float[AnyArray, "*batch q d"]) -> Float[Array, "*batch"]:
        values = jnp.asarray(values)
        return jnp.einsum("...d,d->...", values[..., 0, :], _read(self.u, values), precision=EXACT)

    def check(self, q: int, d: int) -> None:
        require(q == 1, f"a linear link reads one token; got sparsity={q} (MeanLink averages several)")
        super().check(q, d)


class MeanLink(DirectionLink):
    """g(x_1..x_q) = ⟨u, (1/q) Σ_j x_j⟩ (the sparse averaging of Sanford et al., read out along u)."""

    kind = "mean"

    def __call__(self, values: Float[AnyArray, "*batch q d"]) -> Float[Array, "*batch"]:
        values = jnp.asarray(values)
        return jnp.einsum("...d,d->...", values.mean(axis=-2), _read(self.u, values), precision=EXACT)


class CentredSquareLink(Link):
    """g(x_1..x_q) = (1/√(qd)) Σ_j (‖x_j‖² - d): no fewer than q heads can compute it (Propositions 3 and 21)."""

    kind = "centred-square"

    def __call__(self, values: Float[AnyArray, "*batch q d"]) -> Float[Array, "*batch"]:
        values = jnp.asarray(values)
        q, d = values.shape[-2:]
        return (jnp.sum(values * values, axis=(-2, -1)) - q * d) / math.sqrt(q * d)

    def slot_moments(self, q: int, d: int) -> SlotMoments:
        """Var ‖x‖² = 2d; a null token has ‖x‖² - d = -d."""
        return SlotMoments(1.0 / math.sqrt(q * d), 2.0 * d, -float(d))


class TwoLayerLink(Link):
    """g(x) = a·σ(W x_{1:q} + b), the tokens concatenated; itself the network of Assumption 2."""

    a: Float[AnyArray, " m"] = data()
    W: Float[AnyArray, "m inputs"] = data()
    b: Float[AnyArray, " m"] = data()

    kind = "two-layer"

    def __check_init__(self) -> None:
        shapes = [np.shape(part) for part in (self.a, self.W, self.b)]
        width = shapes[0][:1]
        fits = any(map(traced, (self.a, self.W, self.b))) or (
            shapes[0] == shapes[2] == width != () and len(shapes[1]) == 2 and shapes[1][:1] == width
        )
        require(fits, f"a two-layer link needs a [m], W [m, q·d] and b [m]; got shapes {[list(s) for s in shapes]}")

    @classmethod
    def random(cls, q: int, d: int, width: int, seed: int = 0, biased: bool = False) -> "TwoLayerLink":
        """Rows of W uniform on the sphere, a ~ N(0, 1), b = 0 unless `biased`; without bias scaled to E g² = 1."""
        for name, number in (("q", q), ("d", d), ("width", width)):
            require_integer(name, number, 1)
        random = np.random.default_rng([seed, q, d, width])
        rows = random.standard_normal((width, q * d))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        a, b = random.standard_normal(width), np.zeros(width)
        if biased:
            return cls(a / math.sqrt(width), rows, random.standard_normal(width) / 2)
        return cls(a / math.sqrt(a @ _relu_moments(rows) @ a), rows, b)

    def __call__(self, values: Float[AnyArray, "*batch q d"]) -> Float[Array, "*batch"]:
        values = jnp.asarray(values)
        a, W, b = (_read(part, values) for part in (self.a, self.W, self.b))
        inner = jnp.einsum("...i,mi->...m", _flat(values), W, precision=EXACT)
        hidden = jax.nn.relu(inner + b.reshape((1,) * (inner.ndim - 1) + b.shape))
        return jnp.einsum("...m,m->...", hidden, a, precision=EXACT)

    def check(self, q: int, d: int) -> None:
        inputs = np.shape(self.W)[-1]
        require(inputs == q * d, f"W must read q·d = {q}·{d} = {q * d} numbers; got rows of {inputs}")

    def two_layer(self, q: int, d: int) -> TwoLayer:
        self.check(q, d)
        return TwoLayer(*(np.asarray(part, np.float64) for part in (self.a, self.W, self.b)))

    def second_moment(self, q: int, d: int) -> float | None:
        """a·K·a with the arc-cosine kernel K of the rows of W, when b = 0."""
        a, W, b = self.two_layer(q, d)
        return float(a @ _relu_moments(W) @ a) if not b.any() else None


def _relu_moments(rows: Float[np.ndarray, "m inputs"]) -> Float[np.ndarray, "m m"]:
    """E σ(⟨w, x⟩) σ(⟨v, x⟩) = ‖w‖‖v‖ (sin θ + (π-θ) cos θ)/(2π) for x ~ N(0, I) and θ the angle of w and v."""
    norms = np.linalg.norm(rows, axis=1)
    lengths = np.outer(norms, norms)
    cosine = np.clip(np.divide(rows @ rows.T, lengths, out=np.zeros_like(lengths), where=lengths > 0), -1.0, 1.0)
    angle = np.arccos(cosine)
    return lengths * (np.sin(angle) + (math.pi - angle) * cosine) / (2 * math.pi)


class RidgeLink(Link):
    """g(x) = Σ_p c_p φ(U_p x_{1:q}) with U of shape [P, k, q·d] and a 1-Lipschitz φ: R^k → R.

    `ridge` names φ: "norm" ‖v‖; with s = (1/√k) Σ v, "absolute" |s|, "sine" sin s and "tanh" tanh s.
    """

    U: Float[AnyArray, "P k inputs"] = data()
    weights: Float[AnyArray, " P"] = data()
    ridge: str = structure(default="norm")

    kind = "ridge"

    def __init__(self, U: Any, weights: Any = None, ridge: str = "norm"):
        shaped = traced(U) or (np.ndim(U) == 3 and np.size(U) > 0)
        require(shaped, f"U must have shape [ridges, k, q·d]; got shape {list(np.shape(U))}")
        count = np.shape(U)[0]
        weights = np.ones(count) if weights is None else weights
        one_each = traced(weights) or np.shape(weights) == (count,)
        require(one_each, f"weights must hold one number per ridge, {count}; got shape {list(np.shape(weights))}")
        if ridge not in RIDGES:
            raise unknown("ridge", ridge, RIDGES)
        self.U, self.weights, self.ridge = U, weights, ridge

    def __call__(self, values: Float[AnyArray, "*batch q d"]) -> Float[Array, "*batch"]:
        values = jnp.asarray(values)
        inner = jnp.einsum("...i,pki->...pk", _flat(values), _read(self.U, values), precision=EXACT)
        return jnp.einsum("...p,p->...", self._phi(inner), _read(self.weights, values), precision=EXACT)

    def _phi(self, inner: Float[Array, "*batch P k"]) -> Float[Array, "*batch P"]:
        if self.ridge == "norm":
            return jnp.linalg.norm(inner, axis=-1)
        summed = inner.sum(axis=-1) / math.sqrt(inner.shape[-1])
        return {"absolute": jnp.abs, "sine": jnp.sin, "tanh": jnp.tanh}[self.ridge](summed)

    def check(self, q: int, d: int) -> None:
        inputs = np.shape(self.U)[-1]
        require(inputs == q * d, f"U must read q·d = {q}·{d} = {q * d} numbers; got rows of {inputs}")

    def lipschitz(self) -> float:
        """Σ_p |c_p| ‖U_p‖: by how much g can change per unit of its input."""
        norms = [np.linalg.norm(block, 2) for block in np.asarray(self.U, np.float64)]
        return float(np.abs(np.asarray(self.weights, np.float64)) @ np.array(norms))

    def two_layer(self, q: int, d: int) -> TwoLayer | None:
        """|s| = σ(s) + σ(-s): exact for "absolute", and for "norm" of k = 1."""
        self.check(q, d)
        U, weights = np.asarray(self.U, np.float64), np.asarray(self.weights, np.float64)
        if self.ridge != "absolute" and not (self.ridge == "norm" and U.shape[1] == 1):
            return None
        rows = U.sum(axis=1) / math.sqrt(U.shape[1])
        return TwoLayer(np.tile(weights, 2), np.concatenate([rows, -rows]), np.zeros(2 * len(rows)))

    def second_moment(self, q: int, d: int) -> float | None:
        """By the arc-cosine kernel where g is a two-layer network."""
        network = self.two_layer(q, d)
        return None if network is None else float(network.a @ _relu_moments(network.W) @ network.a)
