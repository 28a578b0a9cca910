"""Encoder–decoder transformers that write one output per step and read it back (sm-approximation, A2, C3).

    encoder      e_i = E[:, x_i] + β(i), i = 1..m: no mixing
    attention    Attn(h, (h_1..h_n)) = h + Σ_j p_j v_j over j = 0..n, with scores τ_0 = Q(h)·K_0 and τ_j = Q(h)·K(h_j),
                 values v_0 = V_0 and v_j = V(h_j); p is uniform on the largest scores (hard) or softmax(b τ)
    layer        decoder attention over the same layer's vectors of steps 1..i → encoder attention over e_1..e_m
                 → φ(W_3 φ(W_2 φ(W_1 h + b_1) + b_2) + b_3), without a residual
    decoder      h_i = o_{i-1} + β(i), o_i = what the last layer returns, i = 1..T'; the network's output is cls·o_{T'}

Parameters are a dictionary: `E` [w, |A|], `o0` [w], `cls` [w]; for every layer i = 1..d `L{i}.ff.{W1,b1,W2,b2,W3,b3}`,
and where it attends `L{i}.dec.{Wq,bq,Wk,bk,Wv,bv,K0,V0}` and `L{i}.enc.{...}`; where it does not, nothing is added. The
same parameters serve all steps.

Compiled machines run on a batch of words at once, in one of two ways that take every number from the parameters and
agree on every hidden vector:

    method="lookup"  NumPy, hard attention, binary vectors: 10^4 steps of 64 words in about half a minute
    method="dense"   JAX, `lax.scan` over steps, any weights and float types, hard and soft attention, derivatives;
                     O(T²) for T steps
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from numpy.typing import NDArray

from krogh.errors import require_integer, unknown
from krogh.networks.machines.layers import Vector
from krogh.networks.machines.layout import Decoded
from krogh.networks.machines.lookup import MOST_WORDS, GrowingMemory, LookupNetwork, require_binary
from krogh.networks.relu import affine
from krogh.programs.machines.machine import Word
from krogh.theory.numerics import double_precision

if TYPE_CHECKING:
    from krogh.networks.machines.compiled import CompiledMachine

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


Method = Literal["lookup", "dense"]
METHODS = ("lookup", "dense")


class MachineRun(NamedTuple):
    """What a compiled machine did: state, symbol and cell at times 0..T, int [batch, T + 1], and its output [batch].

    The output is cls times the last vector.
    """

    state: NDArray[np.int64]
    symbol: NDArray[np.int64]
    cell: NDArray[np.int64]
    output: Vector


def run_machine(
    compiled: CompiledMachine, words: Sequence[Word], *, steps: int | None = None, method: Method | None = None
) -> MachineRun:
    """Run the network on words for all T steps, or for fewer `steps` of the machine.

    Keys are looked up where attention is hard, unless a method is given.
    """
    if steps is None:
        steps = compiled.steps
    require_integer("steps", steps, 0, compiled.steps)
    if chosen(compiled, method) == "dense":
        outputs = np.asarray(dense_steps(compiled, words).outputs)[:, : steps + 1]
        return MachineRun(*compiled.decode(outputs), outputs[:, -1] @ np.asarray(compiled.parameters["cls"]))
    parts = []
    for some in split(words, MOST_WORDS):
        decoded, last = [], np.zeros((len(some), compiled.width))
        for vectors in lookup_steps(compiled, some, steps + 1):
            last = vectors[-1]
            decoded.append(compiled.decode(last))
        run = Decoded(*(np.stack(group, axis=1) for group in zip(*decoded, strict=True)))
        parts.append(MachineRun(*run, last @ np.asarray(compiled.parameters["cls"])))
    return MachineRun(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def machine_hidden(compiled: CompiledMachine, words: Sequence[Word], *, method: Method | None = None) -> Vector:
    """Vectors before the first and after every layer at every step, [batch, T', d + 1, w]."""
    if chosen(compiled, method) == "dense":
        return np.asarray(dense_steps(compiled, words, hidden=True).hidden)
    steps = lookup_steps(compiled, words, compiled.decoder_steps, every_layer=True)
    return np.stack([np.stack(vectors, axis=1) for vectors in steps], axis=1)


def chosen(compiled: CompiledMachine, method: Method | None) -> Method:
    """The method asked for, or the one that suits."""
    if method is None:
        return "lookup" if compiled.attention == "hard" else "dense"
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    return method


def split(words: Sequence[Word], most: int) -> Iterator[Sequence[Word]]:
    """Batches of at most `most` words; one empty batch where there are no words, which is then refused."""
    for start in range(0, max(len(words), 1), most):
        yield words[start : start + most]


def lookup_steps(
    compiled: CompiledMachine, words: Sequence[Word], count: int, *, every_layer: bool = False
) -> Iterator[list[Vector]]:
    """For each of `count` decoder steps its output [batch, w]; with `every_layer` after those on the way to it."""
    tokens, lengths = compiled.tokens(words)
    network, batch = LookupNetwork(compiled), len(lengths)
    encoder = network.encoder_memories(tokens, lengths, np.arange(batch, dtype=np.int64))
    decoder = network.decoder_memories(functools.partial(GrowingMemory, batch, count))
    output: Vector | None = None
    for step in range(1, count + 1):
        inputs = network.inputs(output, np.full(batch, step))
        seen = list(network.advance(inputs, decoder, encoder))
        output = seen[-1]
        require_binary(output, f"after step {step}")
        if every_layer:
            parts = [(network.first, inputs), *zip((layer.after for layer in network.layers), seen, strict=True)]
            yield [_widened(compiled, coordinates, h) for coordinates, h in parts]
        else:
            yield [_widened(compiled, network.outputs, output)]


def _widened(compiled: CompiledMachine, coordinates: NDArray[np.intp], h: Vector) -> Vector:
    wide = np.zeros((h.shape[1], compiled.width))
    wide[:, coordinates] = h.T
    return wide


_compiled_steps = jax.jit(run_transformer, static_argnames=("steps", "hidden"))


def dense_steps(compiled: CompiledMachine, words: Sequence[Word], *, hidden: bool = False) -> Steps:
    """All decoder steps of the dense network in float64; with `hidden` also the vectors between layers."""
    with double_precision():
        parameters = {name: jnp.asarray(value) for name, value in compiled.dense_parameters().items()}
        done: Steps = _compiled_steps(
            parameters,
            jnp.asarray(compiled.positions),
            *map(jnp.asarray, compiled.tokens(words)),
            steps=compiled.decoder_steps,
            inverse_temperature=compiled.inverse_temperature,
            hidden=hidden,
        )
        return done


def dense_bytes(compiled: CompiledMachine) -> tuple[int, int]:
    """Bytes of float64 that the dense program takes at least: for its weights and codes, and for each word.

    Weights are read as full matrices and handed on, so that there are two of each; every layer that attends keeps a key
    and a value for every step, and looks at all scores at once.
    """
    steps, w = compiled.decoder_steps, compiled.width
    attending = [name for name in compiled.parameters if name.endswith("dec.Wk")]
    keys = sum(int(compiled.parameters[name].shape[0]) for name in attending)
    fixed = 2 * compiled.parameter_count + len(attending) * w + (steps + 1) * w
    return 8 * fixed, 8 * steps * (keys + (len(attending) + 3) * w)


def machine_output(
    compiled: CompiledMachine, parameters: Mapping[str, ArrayLike], tokens: ArrayLike, lengths: ArrayLike
) -> jax.Array:
    """cls·o_{T'} [batch] as a function of any parameters with the names and shapes of `compiled.dense_parameters()`.

    Words are given as `compiled.tokens` writes them. Differentiable, and to be compiled by the caller (`jax.jit`). The
    float type is that of the parameters; float64 needs JAX's x64 mode.
    """
    arrays = {name: jnp.asarray(value) for name, value in parameters.items()}
    inputs = (jnp.asarray(compiled.positions), jnp.asarray(tokens), jnp.asarray(lengths))
    steps = run_transformer(arrays, *inputs, compiled.decoder_steps, inverse_temperature=compiled.inverse_temperature)
    return classify(arrays, steps.outputs)
