"""The recurrence of a gated layer and its gradient: the same function twice, once for CPUs and once for GPUs.

A GPU waits for launches here: a step is one small product and some arithmetic. Unrolled, its arithmetic becomes one
kernel; with the backward pass written out the gradient of U is one product over all positions instead of a sum that is
read and written at every one. A CPU is slower for either, up to twofold, and differentiates the plain loop.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

GATES = {"gru": 3, "lstm": 4, "relu": 1}

State = tuple[Array, ...]
"""The hidden state, and the memory of an LSTM: each [directions, batch, hidden]."""

Given = Float[Array, "length directions batch gates"]
Hidden = Float[Array, "length directions batch hidden"]


def hidden_states(
    cell: str, given: Given, U: Float[Array, "directions hidden gates"], b_U: Float[Array, "directions gates"]
) -> Hidden:
    """h_1 .. h_N from h_0 = 0, where `given` is W z_i + b_W."""
    return jax.lax.platform_dependent(
        given, U, b_U, cpu=lambda *inputs: _run(cell, 1, *inputs)[0], default=partial(_unrolled, cell)
    )


def advanced(
    cell: str, state: State, given: Float[Array, "*batch gates"], recalled: Float[Array, "*batch gates"]
) -> State:
    """The state after a token; `given` is W z + b_W and `recalled` U h + b_U."""
    if cell == "relu":
        return (jax.nn.relu(given + recalled),)
    if cell == "lstm":
        h, memory = state
        enter, keep, candidate, show = jnp.split(given + recalled, 4, axis=-1)
        memory = jax.nn.sigmoid(keep) * memory + jax.nn.sigmoid(enter) * jnp.tanh(candidate)
        return jax.nn.sigmoid(show) * jnp.tanh(memory), memory
    (h,) = state
    given_r, given_z, given_n = jnp.split(given, 3, axis=-1)
    recalled_r, recalled_z, recalled_n = jnp.split(recalled, 3, axis=-1)
    reset, update = jax.nn.sigmoid(given_r + recalled_r), jax.nn.sigmoid(given_z + recalled_z)
    candidate = jnp.tanh(given_n + reset * recalled_n)
    return ((1 - update) * candidate + update * h,)


def _run(cell: str, unroll: int, given: Given, U: Array, b_U: Array) -> tuple[Hidden, State, Given]:
    """The hidden states, and for every position the state before it and what U recalls of it."""

    def step(state: State, given: Array) -> tuple[State, tuple[Array, State, Array]]:
        recalled = jnp.einsum("dbh,dhg->dbg", state[0], U) + b_U[:, None, :]
        after = advanced(cell, state, given, recalled)
        return after, (after[0], state, recalled)

    blank = jnp.zeros((*given.shape[1:3], U.shape[1]), given.dtype)
    state: State = (blank, blank) if cell == "lstm" else (blank,)
    return jax.lax.scan(step, state, given, unroll=unroll)[1]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _unrolled(cell: str, given: Given, U: Array, b_U: Array) -> Hidden:
    return _run(cell, given.shape[0], given, U, b_U)[0]


def _forwards(cell: str, given: Given, U: Array, b_U: Array) -> tuple[Hidden, tuple[Given, Array, State, Given]]:
    hidden, states, recalled = _run(cell, given.shape[0], given, U, b_U)
    return hidden, (given, U, states, recalled)


def _backwards(
    cell: str, kept: tuple[Given, Array, State, Given], change: Hidden
) -> tuple[Given, Float[Array, "directions hidden gates"], Float[Array, "directions gates"]]:
    """Back through time with the gradients of given_i and recalled_i; then dU = Σ_i h_{i-1}ᵀ d recalled_i at once."""
    given, U, states, recalled = kept

    def step(later: State, inputs: tuple[Array, State, Array, Array]) -> tuple[State, tuple[Array, Array]]:
        change, state, given, recalled = inputs
        _, pull = jax.vjp(partial(advanced, cell), state, given, recalled)
        (d_h, *d_memory), d_given, d_recalled = pull((later[0] + change, *later[1:]))
        return (d_h + jnp.einsum("dbg,dhg->dbh", d_recalled, U), *d_memory), (d_given, d_recalled)

    nothing = jax.tree.map(lambda kept: jnp.zeros_like(kept[0]), states)
    inputs = (change, states, given, recalled)
    _, (d_given, d_recalled) = jax.lax.scan(step, nothing, inputs, reverse=True, unroll=given.shape[0])
    return d_given, jnp.einsum("idbh,idbg->dhg", states[0], d_recalled), jnp.sum(d_recalled, axis=(0, 2))


_unrolled.defvjp(_forwards, _backwards)
