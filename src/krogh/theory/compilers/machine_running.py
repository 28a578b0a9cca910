"""Running compiled machines: a batch of words at once, by looking keys up or densely (sm-approximation, C3).

    method="lookup"  NumPy, hard attention, binary vectors: 10^4 steps of 64 words in about half a minute
    method="dense"   JAX, `lax.scan` over steps, any weights and float types, hard and soft attention, derivatives;
                     O(T²) for T steps

Both take every number from the parameters, and agree on every hidden vector.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray

from krogh.errors import require_integer, unknown
from krogh.tasks.machines import Word
from krogh.theory.compilers.machine_layers import Vector
from krogh.theory.compilers.machine_lookup import LookupNetwork, require_binary
from krogh.theory.compilers.machine_memory import MOST_WORDS, GrowingMemory
from krogh.theory.compilers.machines import CompiledMachine, Decoded
from krogh.theory.compilers.transformer import Steps, classify, run_transformer
from krogh.theory.precision import double_precision

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
        found = Decoded(*(np.stack(group, axis=1) for group in zip(*decoded, strict=True)))
        parts.append(MachineRun(*found, last @ np.asarray(compiled.parameters["cls"])))
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
            *_inputs(compiled, words),
            steps=compiled.decoder_steps,
            inverse_temperature=compiled.inverse_temperature,
            hidden=hidden,
        )
        return done


def machine_output(parameters: Mapping[str, ArrayLike], compiled: CompiledMachine, words: Sequence[Word]) -> jax.Array:
    """cls·o_{T'} [batch] as a function of any parameters with the names and shapes of `compiled.dense_parameters()`.

    Differentiable, and to be compiled by the caller (`jax.jit`). The float type is that of the parameters; float64
    needs JAX's x64 mode.
    """
    arrays = {name: jnp.asarray(value) for name, value in parameters.items()}
    count, temperature = compiled.decoder_steps, compiled.inverse_temperature
    steps = run_transformer(arrays, *_inputs(compiled, words), count, inverse_temperature=temperature)
    return classify(arrays, steps.outputs)


def _inputs(compiled: CompiledMachine, words: Sequence[Word]) -> tuple[jax.Array, jax.Array, jax.Array]:
    tokens, lengths = compiled.tokens(words)
    return jnp.asarray(compiled.positions), jnp.asarray(tokens), jnp.asarray(lengths)
