"""Sequences of unit tokens as the theory of recurrent networks has them, and what a network is given of them.

*Can SGD learn recurrent neural networks with provable generalization?* (section 3) and *Learning and generalization in
RNNs* (Definition 3.1). A sequence of length L has L-2 true tokens x*_2 .. x*_{L-1} in R^{dx}, each of norm 1 with last
coordinate 1/2 (a bias inside the token). A network is given L vectors of dx+1 numbers:

    x_1 = (0, 1),    x_l = (ε_x x*_l, 0) for 2 ≤ l ≤ L-1,    x_L = (0, ε_x) or (0, 1)

The first document ends a sequence with norm ε_x (`last="eps"`), the second with norm 1 (`last="one"`). The *base*
sequence, of which quantities are written with (0), has (0, ε_x) in place of every token.

Positions are counted from 1 in the sources, from 0 in arrays: token l is in row l-1 of the inputs and in row l-2 of the
true tokens.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from krogh.errors import require, require_integer, unknown
from krogh.values import AnyArray, plain, traced

LASTS = ("eps", "one")
BIAS = 0.5
"""The last coordinate of every true token."""
REST = math.sqrt(3) / 2
"""The norm of its other coordinates."""
TOLERANCE = 1e-4


def check_sequences(length: int, dx: int, eps_x: Any, last: str) -> None:
    """Refuse sequences that have no token, tokens that have no room for a bias, and an ε_x outside (0, 1]."""
    require_integer("length", length, 3)
    require_integer("dx", dx, 2)
    if last not in LASTS:
        raise unknown("last", last, LASTS)
    if not traced(eps_x):
        inside = bool(np.all((np.asarray(eps_x) > 0) & (np.asarray(eps_x) <= 1)))
        require(inside, f"eps_x must be above 0 and at most 1; got eps_x={plain(eps_x)}")


def draw_tokens(key: PRNGKeyArray, size: int, count: int, dx: int) -> Float[Array, "size count dx"]:
    """Independent tokens (√3/2·g/‖g‖, 1/2) with g ~ N(0, I): uniform on what is allowed."""
    g = jax.random.normal(key, (size, count, dx - 1), jnp.float32)
    return _with_bias(REST * g / jnp.sqrt(sum_of_products(g, g))[..., None])


def lift_tokens(u: Float[AnyArray, "*batch features"]) -> Float[np.ndarray, "*batch dx"]:
    """Raw vectors with ‖u‖² ≤ 3/4 as tokens (u, √(3/4-‖u‖²), 1/2), two coordinates longer.

    Footnote 3 pads √(1-‖u‖²) and 1/2 in two steps; only together, with 3/4, do they give norm 1.
    """
    given = np.asarray(u, np.float64)
    rest = 0.75 - np.sum(given**2, axis=-1, keepdims=True)
    worst = math.sqrt(max(0.0, 0.75 - float(rest.min(initial=0.75))))
    require(
        bool(np.all(rest >= -1e-12)),
        f"vectors must have norm at most √3/2 = {REST:.4f} to become tokens; got one of norm {worst:.4f} (scale them)",
    )
    half = np.full((*given.shape[:-1], 1), BIAS)
    return np.concatenate([given, np.sqrt(np.maximum(rest, 0.0)), half], axis=-1)


def bit_tokens(bits: Int[AnyArray, "*batch"] | Any) -> Float[Array, "*batch 3"]:
    """Bits (or the letters a = 1 and b = 0) as tokens of dx = 3: 1 ↦ (√3/2, 0, 1/2), 0 ↦ (0, √3/2, 1/2)."""
    one = jnp.asarray(bits).astype(jnp.float32)
    return _with_bias(REST * jnp.stack([one, 1 - one], axis=-1))


def _with_bias(rest: Float[Array, "*batch features"]) -> Float[Array, "*batch dx"]:
    return jnp.concatenate([rest, jnp.full((*rest.shape[:-1], 1), BIAS, rest.dtype)], axis=-1)


def check_tokens(tokens: Float[AnyArray, "*batch dx"]) -> None:
    """Refuse vectors that are not of norm 1, or whose last coordinate is not 1/2."""
    given = np.asarray(tokens, np.float64)
    norms, bias = np.linalg.norm(given, axis=-1), given[..., -1]
    off = np.argmax(np.abs(norms - 1))
    require(
        bool(np.all(np.abs(norms - 1) <= TOLERANCE)),
        f"tokens lie on the unit sphere; got one of norm {norms.ravel()[off]:.6g} (lift_tokens makes them)",
    )
    off = np.argmax(np.abs(bias - BIAS))
    require(
        bool(np.all(np.abs(bias - BIAS) <= TOLERANCE)),
        f"the last coordinate of a token is 1/2; got {bias.ravel()[off]:.6g} (lift_tokens makes tokens of vectors)",
    )


def running_sums(terms: Float[AnyArray, "..."], axis: int = -1) -> list[Float[Array, "..."]]:
    """The sums of the first, the first two, ... terms along a short axis, added one after the other.

    A reduction adds in an order of the compiler's choice, so that a draw has other last bits than the same draw among
    many.
    """
    return list(itertools.accumulate(jnp.moveaxis(jnp.asarray(terms), axis, 0)))


def sum_of_products(a: Float[AnyArray, "..."], b: Float[AnyArray, "..."], axis: int = -1) -> Float[Array, "..."]:
    """Σ a b over a short axis, with the same bits however it is compiled.

    Products are rounded to a bit less than floats have: a rounding that is asked for keeps a compiler from joining a
    product with the addition that follows it, which it does in some programs and not in others.
    """
    products = jnp.asarray(a) * jnp.asarray(b)
    kind = jnp.finfo(products.dtype)
    return running_sums(jax.lax.reduce_precision(products, kind.nexp, kind.nmant - 1), axis)[-1]


def normalise_tokens(
    tokens: Float[AnyArray, "*batch count dx"], eps_x: Any, last: str
) -> Float[Array, "*batch length dx+1"]:
    """What a network is given of true tokens: [*batch, L, dx+1], in the dtype of the tokens."""
    x = jnp.asarray(tokens)
    eps = jnp.asarray(eps_x, x.dtype)
    inner = jnp.concatenate([eps * x, jnp.zeros((*x.shape[:-1], 1), x.dtype)], axis=-1)
    return _with_ends(inner, eps, last)


def base_sequence(length: int, dx: int, eps_x: Any, last: str, dtype: Any = jnp.float32) -> Float[Array, "length d"]:
    """The base sequence: (0, 1), then (0, ε_x) for every token, then the same end."""
    eps = jnp.asarray(eps_x, dtype)
    inner = jnp.zeros((length - 2, dx + 1), dtype).at[:, -1].set(eps)
    return _with_ends(inner, eps, last)


def _with_ends(inner: Float[Array, "*batch count d"], eps: Array, last: str) -> Float[Array, "*batch length d"]:
    blank = jnp.zeros((*inner.shape[:-2], 1, inner.shape[-1]), inner.dtype)
    end = jnp.ones((), inner.dtype) if last == "one" else eps
    return jnp.concatenate([blank.at[..., -1].set(1.0), inner, blank.at[..., -1].set(end)], axis=-2)
