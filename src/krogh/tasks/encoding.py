"""From symbols to numbers and back: h(x) = discretize(f(encode(x); θ)) (dissertation, §3.2).

encode       two symbols become a sign per coordinate; more become one-hot vectors, concatenated
discretize   two labels are the sign of a scalar; more are the argmax of a score per label
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from krogh.errors import require, require_integer
from krogh.values import AnyArray, traced


def encode(symbols: Int[AnyArray, "*batch n"], alphabet: int) -> Float[Array, "*batch features"]:
    """Symbols 0..A-1 as numbers: for A = 2 the sign 1 - 2·symbol, n features; for more, one-hot vectors, A·n features.

    Symbol 1 of two is -1, as everywhere here.
    """
    require_integer("alphabet", alphabet, 2)
    if not traced(symbols):
        given = np.asarray(symbols)
        outside = given[(given < 0) | (given >= alphabet)]
        require(not outside.size, f"symbols must lie in 0..{alphabet - 1}; got {outside[:1].tolist()}")
    values = jnp.asarray(symbols)
    if alphabet == 2:
        return 1.0 - 2.0 * values.astype(jnp.float32)
    single = jax.nn.one_hot(values, alphabet, dtype=jnp.float32)
    return single.reshape(*values.shape[:-1], values.shape[-1] * alphabet)


def features(n: int, alphabet: int) -> int:
    """How many numbers encode n symbols."""
    require_integer("n", n, 1)
    require_integer("alphabet", alphabet, 2)
    return n if alphabet == 2 else n * alphabet


def discretize(outputs: Float[AnyArray, "*shape"], labels: int) -> Array:
    """Labels from outputs: the sign of each (0, which is neither label, for 0), or the argmax of the last axis.

    Two labels are ±1 and read outputs [...]; more are 0..labels-1 and read outputs [..., labels].
    """
    require_integer("labels", labels, 2)
    values = jnp.asarray(outputs)
    if labels == 2:
        return jnp.sign(values)
    scored = values.ndim > 0 and values.shape[-1] == labels
    require(scored, f"{labels} labels need as many outputs on the last axis; got shape {list(values.shape)}")
    return jnp.argmax(values, axis=-1)
