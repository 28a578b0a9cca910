"""A diagonal state-space layer, read in both directions or in one (S4D, Gu et al. 2022; LRU, Orvieto et al. 2023).

    v_i  = (E z_i + e) ⊙ σ(G z_i + g)                                     tokens, gated
    h→_i = λ→ ⊙ h→_{i-1} + γ→ ⊙ (B→ v_i),   h←_i = λ← ⊙ h←_{i+1} + γ← ⊙ (B← v_i)      in C^state, 0 at the ends
    s_i  = Re(C→ h→_i + C← h←_i) + D ⊙ v_i
    ŷ_i  = u·ReLU(W GELU(s_i) + b) + c
    λ = exp(-exp(ν) + iθ),  γ = √(1 - |λ|²)

so that |λ| < 1 whatever ν is, and γ keeps the size of the state independent of |λ|. The recursion is linear, so all
states are found by an associative scan in log₂(length) steps. The initial λ are uniform on a ring of the complex plane.
Parameters are real; the source has no such model.

With `bidirectional=False` there is no ←, and the layer is causal. Of a sequence of symbols, z_i is the one-hot vector
of symbol i and ŷ_i has a logit per class: u and c have one more axis.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float, Num, PRNGKeyArray

from krogh.errors import require, require_integer
from krogh.models.base import Model, Parameters, model
from krogh.models.parts import (
    answers_of,
    as_vectors,
    draw_layers,
    features_of,
    read_out,
    read_out_layers,
    require_sequence_or_tokens,
)
from krogh.tasks.base import Task
from krogh.tasks.token_regression import TokenRegression
from krogh.values import AnyArray, structure


@model("state-space")
class StateSpace(Model):
    """A diagonal linear recurrence of `state` complex numbers per direction between gates and a read-out.

    Parameters: E, G [width, features], e, g [width], nu, theta [2, state], B_re, B_im [2, state, width],
    C_re, C_im [2, width, state], D [width], W [hidden, width], b, u [hidden], c []; 2 is the number of directions, and
    u is [classes, hidden] and c [classes] for symbols. Initially inner ≤ |λ| ≤ outer
    and 0 ≤ θ < phase; B ~ N(0, 1/width) and C ~ N(0, 1/state) as complex numbers, D ~ N(0, 1).
    """

    state: int = structure(default=64)
    width: int = structure(default=64)
    hidden: int = structure(default=100)
    inner: float = structure(default=0.9)
    outer: float = structure(default=0.999)
    phase: float = structure(default=2 * math.pi)
    bidirectional: bool = structure(default=True)

    def __check_init__(self) -> None:
        for name in ("state", "width", "hidden"):
            require_integer(name, getattr(self, name), 1)
        require(
            0 < self.inner < self.outer < 1,
            f"the ring of initial λ needs 0 < inner < outer < 1; got inner={self.inner}, outer={self.outer} "
            f"(try inner=0.9, outer=0.999)",
        )
        require(
            0 < self.phase <= 2 * math.pi,
            f"phase must be above 0 and at most 2π = {2 * math.pi:.4f}; got phase={self.phase}",
        )

    @property
    def causal(self) -> bool:
        return not self.bidirectional

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        k, features, m, s = 1 + self.bidirectional, features_of(task), self.width, self.state
        key, *keys = jax.random.split(key, 8)
        area = jax.random.uniform(keys[0], (k, s), jnp.float32, self.inner**2, self.outer**2)
        scales = {"B": (math.sqrt(1 / (2 * m)), (k, s, m)), "C": (math.sqrt(1 / (2 * s)), (k, m, s))}
        parts = {f"{name}_{part}": scale for name, scale in scales.items() for part in ("re", "im")}
        layers = {
            "E": ((m, features), features),
            "e": ((m,), features),
            "G": ((m, features), features),
            "g": ((m,), features),
            **read_out_layers(m, self.hidden, answers_of(task)),
        }
        return draw_layers(key, layers) | {
            "nu": jnp.log(-0.5 * jnp.log(area)),
            "theta": jax.random.uniform(keys[1], (k, s), jnp.float32, 0.0, self.phase),
            "D": jax.random.normal(keys[2], (m,), jnp.float32),
            **{
                name: scale * jax.random.normal(key, shape, jnp.float32)
                for key, (name, (scale, shape)) in zip(keys[3:], parts.items(), strict=True)
            },
        }

    def predict(self, params: Parameters, x: Num[AnyArray, "batch length ..."]) -> Float[Array, "batch length ..."]:
        x = as_vectors(x, params["E"].shape[1], params["E"].dtype)
        v = affine(x, params["E"], params["e"]) * jax.nn.sigmoid(affine(x, params["G"], params["g"]))
        h = self.states(params, v)
        seen = jnp.einsum("dbis,dms->bim", h.real, params["C_re"]) - jnp.einsum("dbis,dms->bim", h.imag, params["C_im"])
        return read_out(params, jax.nn.gelu(seen + params["D"][None, None, :] * v, approximate=False))

    def states(
        self, params: Parameters, v: Float[Array, "batch length width"]
    ) -> Complex[Array, "directions batch length state"]:
        """The states at every position, which have read the gated tokens `v` up to it from either end."""
        rate, angle = jnp.exp(params["nu"]), params["theta"]
        factor = jax.lax.complex(jnp.exp(-rate) * jnp.cos(angle), jnp.exp(-rate) * jnp.sin(angle))
        size = jnp.sqrt(-jnp.expm1(-2 * rate))[:, None, None, :]
        met = jnp.stack([v, v[:, ::-1]]) if self.bidirectional else v[None]
        given = jax.lax.complex(
            size * jnp.einsum("dbim,dsm->dbis", met, params["B_re"]),
            size * jnp.einsum("dbim,dsm->dbis", met, params["B_im"]),
        )
        found = linear_recurrence(factor[:, None, None, :], given, axis=2)
        return jnp.stack([found[0], found[1][:, ::-1]]) if self.bidirectional else found

    def check(self, task: Task) -> None:
        require_sequence_or_tokens("state-space model", task)

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(state=8, width=12, hidden=16), TokenRegression.example()


def affine(x: Float[Array, "*rows features"], weight: Array, bias: Array) -> Float[Array, "*rows outputs"]:
    return x @ weight.T + bias.reshape((1,) * (x.ndim - 1) + (-1,))


def linear_recurrence(factor: Array, given: Array, axis: int = 0) -> Array:
    """h_i = factor·h_{i-1} + given_i along `axis`, from h = 0; `factor` has length 1 there.

    A stretch of the recursion is the map h ↦ a·h + b, and stretches compose: (a₂, b₂)∘(a₁, b₁) = (a₂a₁, a₂b₁ + b₂).
    """

    def compose(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
        return second[0] * first[0], second[0] * first[1] + second[1]

    factors = jnp.repeat(factor, given.shape[axis], axis=axis)
    return jax.lax.associative_scan(compose, (factors, given), axis=axis)[1]
