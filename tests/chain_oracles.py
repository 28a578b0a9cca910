"""The minimal model and its population loss, written out: all sequences of a few tables, in float64."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from krogh.theory.numerics import double_precision
from krogh.training.losses import multiclass_margin


def plain_logits(W, v, x):
    """f_{p,i} = Σ_{t'≤p} 1[x_t' = i] Σ_{s≤t'} v_{t'-s+1} W[x_p, x_s] by loops, for one sequence."""
    t, k = len(x), len(W)
    f = np.zeros((t, k))
    for p, later in itertools.product(range(t), range(t)):
        if later <= p:
            f[p, x[later]] += sum(v[later - s] * W[x[p], x[s]] for s in range(later + 1))
    return f


def logits(W, v, x):
    """The same for many sequences [batch, t], to be differentiated."""
    t, k = x.shape[1], W.shape[0]
    past = np.arange(t)[:, None] >= np.arange(t)[None, :]
    offsets = np.where(past, np.arange(t)[:, None] - np.arange(t)[None, :], 0)
    M = jnp.where(past, v[offsets], 0)
    onehot = jax.nn.one_hot(x, k, dtype=W.dtype)
    scores = jnp.einsum("bpm,ml,bsl,us->bpu", onehot, W, onehot, M)
    return jnp.einsum("bpu,bui->bpi", jnp.where(past[None], scores, 0), onehot)


def every_sequence(P, pi, t):
    """All sequences of t+1 tokens and their probabilities."""
    words = np.array(list(itertools.product(range(len(P)), repeat=t + 1)))
    chance = pi[words[:, 0]]
    for place in range(t):
        chance = chance * P[words[:, place], words[:, place + 1]]
    return words, chance


def population(law, t, delta):
    """(W, v) ↦ the population margin loss, by enumeration."""
    k, pi = law.k, law.pi
    words, _ = every_sequence(law.P[0], pi[0], t)
    chance = sum(w * every_sequence(P, p, t)[1] for w, P, p in zip(law.weights, law.P, pi, strict=True))
    assert abs(chance.sum() - 1) < 1e-12 and k == len(law.P[0])

    def loss(W, v):
        each = multiclass_margin(logits(W, v, words[:, :-1]), jnp.asarray(words[:, 1:]), delta)
        return jnp.sum(jnp.asarray(chance)[:, None] * each) / t

    return loss


def value_and_gradients(law, t, W, v, delta):
    with double_precision():
        loss = population(law, t, delta)
        value, slopes = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(jnp.asarray(W), jnp.asarray(v))
        return float(value), np.asarray(slopes[0]), np.asarray(slopes[1])
