"""Encoder–decoder transformers that write one output per step and read it back (sm-approximation, A2).

    encoder      e_i = E[:, x_i] + β(i), i = 1..m: no mixing
    attention    Attn(h, (h_1..h_n)) = h + Σ_j p_j v_j over j = 0..n, with scores τ_0 = Q(h)·K_0 and τ_j = Q(h)·K(h_j),
                 values v_0 = V_0 and v_j = V(h_j); p is uniform on the largest scores (hard) or softmax(b τ)
    layer        decoder attention over the same layer's vectors of steps 1..i → encoder attention over e_1..e_m
                 → φ(W_3 φ(W_2 φ(W_1 h + b_1) + b_2) + b_3), without a residual
    decoder      h_i = o_{i-1} + β(i), o_i = what the last layer returns, i = 1..T'; the network's output is cls·o_{T'}

Parameters are a dictionary: `E` [w, |A|], `o0` [w], `cls` [w]; for every layer i = 1..d `L{i}.ff.{W1,b1,W2,b2,W3,b3}`,
and where it attends `L{i}.dec.{Wq,bq,Wk,bk,Wv,bv,K0,V0}` and `L{i}.enc.{...}`; where it does not, nothing is added. The
same parameters serve all steps. Everything here is a pure function of them, for any weights and any float type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

Parameters = Mapping[str, Array]
EXACT = jax.lax.Precision.HIGHEST
"""Accelerators would otherwise multiply float32 in fewer bits than it has."""


class Steps(NamedTuple):
    """What a decoder did: its outputs o_1..o_T' [batch, T', w], and two numbers over all layers, steps and words.

    `gap` is the smallest gap between the best score of an attention and the best below it, `deviation` how far the
    entries of hidden vectors are from 0 and 1 at most. Where asked for, `hidden` holds the vectors before the first and
    after every layer, [batch, T', d + 1, w].
    """

    outputs: Array
    gap: Array
    deviation: Array
    hidden: Array | None


class Memory(NamedTuple):
    """What an attention looks at: keys [batch, n, D], values [batch, n, w] and which of them are there [batch, n]."""

    keys: Array
    values: Array
    present: Array


def layer_count(parameters: Parameters) -> int:
    """d, the number of layers."""
    return sum(name.endswith(".ff.W1") for name in parameters)


def affine(weight: Array, bias: Array, h: Array) -> Array:
    """W h + b for vectors h [..., n]."""
    product = jnp.matmul(h, weight.T, precision=EXACT)
    return product + jnp.expand_dims(bias, range(product.ndim - 1))


def feedforward(parameters: Parameters, prefix: str, h: Array) -> Array:
    """φ(W_3 φ(W_2 φ(W_1 h + b_1) + b_2) + b_3)."""
    for k in (1, 2, 3):
        h = jax.nn.relu(affine(parameters[f"{prefix}.W{k}"], parameters[f"{prefix}.b{k}"], h))
    return h


def attend(
    parameters: Parameters, prefix: str, h: Array, memory: Memory, inverse_temperature: ArrayLike | None = None
) -> tuple[Array, Array]:
    """h [batch, w] with what attention adds to it, and the gap below the best score [batch].

    Without an inverse temperature attention is hard: scores that are exactly equal share the weight, and derivatives
    pass through the values only. In the gap, scores within √ε of the best count as equal to it, where ε is the float
    type's rounding error.
    """
    query = affine(parameters[f"{prefix}.Wq"], parameters[f"{prefix}.bq"], h)
    null = jnp.matmul(query, parameters[f"{prefix}.K0"], precision=EXACT)[:, None]
    scores = jnp.einsum("bd,bnd->bn", query, memory.keys, precision=EXACT)
    scores = jnp.concatenate([null, jnp.where(memory.present, scores, -jnp.inf)], axis=1)
    best = jnp.max(scores, axis=1, keepdims=True)
    close = jnp.asarray(jnp.finfo(scores.dtype).eps ** 0.5, scores.dtype)
    gap = best[:, 0] - jnp.max(jnp.where(scores < best - close, scores, -jnp.inf), axis=1)
    if inverse_temperature is None:
        winners = jax.lax.stop_gradient(scores == best).astype(scores.dtype)
        weights = winners / jnp.sum(winners, axis=1, keepdims=True)
    else:
        weights = jax.nn.softmax(jnp.asarray(inverse_temperature).astype(scores.dtype) * scores, axis=1)
    added = jnp.einsum("bn,bnw->bw", weights[:, 1:], memory.values, precision=EXACT)
    return h + weights[:, :1] * parameters[f"{prefix}.V0"][None, :] + added, gap


def projected(parameters: Parameters, prefix: str, h: Array) -> tuple[Array, Array]:
    """Key and value of vectors h [..., w]."""
    key = affine(parameters[f"{prefix}.Wk"], parameters[f"{prefix}.bk"], h)
    return key, affine(parameters[f"{prefix}.Wv"], parameters[f"{prefix}.bv"], h)


def encoder_memories(parameters: Parameters, positions: Array, tokens: Array, lengths: Array) -> dict[int, Memory]:
    """What each layer with encoder attention looks at; words `tokens` [batch, m] have `lengths` [batch] letters."""
    m = tokens.shape[1]
    encoded = parameters["E"].T[tokens] + positions[None, 1 : m + 1]
    present = jnp.arange(1, m + 1, dtype=lengths.dtype)[None, :] <= lengths[:, None]
    layers = [i for i in range(1, layer_count(parameters) + 1) if f"L{i}.enc.Wq" in parameters]
    pairs = {i: projected(parameters, f"L{i}.enc", encoded) for i in layers}
    return {i: Memory(keys, values, present) for i, (keys, values) in pairs.items()}


def run_transformer(
    parameters: Parameters,
    positions: Array,
    tokens: Array,
    lengths: Array,
    steps: int,
    *,
    inverse_temperature: ArrayLike | None = None,
    hidden: bool = False,
) -> Steps:
    """T' = `steps` decoder steps on a batch of words.

    `positions` β [n, w] has at least max(m, T') + 1 rows and is converted to the parameters' type. Keys and values of
    past steps are kept, so a step costs O(T') per attention. With `hidden` all vectors are returned.
    """
    dtype, batch, w = parameters["o0"].dtype, tokens.shape[0], parameters["o0"].shape[0]
    positions = jnp.asarray(positions).astype(dtype)
    encoder = encoder_memories(parameters, positions, tokens, lengths)
    layers = range(1, layer_count(parameters) + 1)
    empty = {
        i: (
            jnp.zeros((batch, steps, parameters[f"L{i}.dec.Wk"].shape[0]), dtype),
            jnp.zeros((batch, steps, w), dtype),
        )
        for i in layers
        if f"L{i}.dec.Wq" in parameters
    }
    times = jnp.arange(steps)

    def step(carry, time):  # type: ignore[no-untyped-def]
        output, past, gap, deviation = carry
        h = output + positions[time + 1][None, :]
        seen = [h]
        past, present = dict(past), jnp.broadcast_to(times[None, :] <= time, (batch, steps))
        for i in layers:
            if i in past:
                key, value = projected(parameters, f"L{i}.dec", h)
                past[i] = (past[i][0].at[:, time].set(key), past[i][1].at[:, time].set(value))
                memory = Memory(past[i][0], past[i][1], present)
                h, below = attend(parameters, f"L{i}.dec", h, memory, inverse_temperature)
                gap = jnp.minimum(gap, jnp.min(below))
            if i in encoder:
                h, below = attend(parameters, f"L{i}.enc", h, encoder[i], inverse_temperature)
                gap = jnp.minimum(gap, jnp.min(below))
            h = feedforward(parameters, f"L{i}.ff", h)
            seen.append(h)
            deviation = jnp.maximum(deviation, jnp.max(jnp.abs(h - (h > 0.5).astype(dtype))))
        return (h, past, gap, deviation), (h, jnp.stack(seen, axis=1) if hidden else None)

    start = jnp.broadcast_to(parameters["o0"][None, :], (batch, w))
    first = (start, empty, jnp.asarray(jnp.inf, dtype), jnp.zeros((), dtype))
    (_, _, gap, deviation), (outputs, vectors) = jax.lax.scan(step, first, times)
    hidden_vectors = None if vectors is None else jnp.swapaxes(vectors, 0, 1)
    return Steps(jnp.swapaxes(outputs, 0, 1), gap, deviation, hidden_vectors)


def classify(parameters: Parameters, outputs: Array) -> Array:
    """cls·o_{T'} [batch] of outputs [batch, T', w]."""
    return jnp.matmul(outputs[:, -1], parameters["cls"], precision=EXACT)
