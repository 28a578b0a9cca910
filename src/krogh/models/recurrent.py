"""Recurrent networks with a linear read-out at every position (qSTR, Figure 1).

For each direction, with a_i = W z_i + b_W and m_i = U h_{i-1} + b_U cut into gates (σ = logistic function):

    gru    r = σ(a_r + m_r),  z = σ(a_z + m_z),  n = tanh(a_n + r⊙m_n),  h_i = (1-z)⊙n + z⊙h_{i-1}
    lstm   i, f, o = σ(a + m) of their gates,  g = tanh(a_g + m_g),  c_i = f⊙c_{i-1} + i⊙g,  h_i = o⊙tanh(c_i)
    relu   h_i = ReLU(a + m)        tanh   h_i = tanh(a + m)

and ŷ_i = u→·h→_i + u←·h←_i + c. States start at 0, and the state at position i has read token i (the theory's recursion
has not). The source's figures use one bidirectional GRU layer of 500 units per direction; every recurrent tensor is
drawn from U(±1/√hidden), the read-out from U(±1/√(directions·hidden)), as PyTorch does.

Of a sequence of symbols, z_i is the one-hot vector of symbol i and ŷ_i has a logit per class, or a number for each
question that a position is asked: u and c have one more axis. In one direction the network is causal.

The recurrence and its gradient are written twice, once for CPUs and once for GPUs. A GPU waits for launches here: a
step is one small product and some arithmetic. Unrolled, its arithmetic becomes one kernel; with the backward pass
written out the gradient of U is one product over all positions instead of a sum that is read and written at every one.
A CPU is slower for either, up to twofold, and differentiates the plain loop.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray

from krogh.errors import require_integer, unknown
from krogh.models.base import Model, Parameters, model
from krogh.models.parts import answers_of, as_vectors, draw_layers, features_of, require_sequence_or_tokens
from krogh.tasks.base import Task
from krogh.tasks.token_regression import TokenRegression
from krogh.values import AnyArray, structure

GATES = {"gru": 3, "lstm": 4, "relu": 1, "tanh": 1}

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
    if cell == "tanh":
        return (jnp.tanh(given + recalled),)
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


@model("recurrent")
class Recurrent(Model):
    """A layer of `cell` units, read forwards and, when `bidirectional`, backwards too.

    Parameters: W [directions, features, gates·hidden] and b_W on the tokens, U [directions, hidden, gates·hidden] and
    b_U on the state, u [directions, hidden] and c [] for the read-out, or u [directions, hidden, classes] and
    c [classes] for symbols. Gates lie in the order r, z, n of a GRU and
    i, f, g, o of an LSTM. Both biases are kept where they only add up: together they move twice as fast.
    """

    cell: str = structure(default="gru")
    hidden: int = structure(default=500)
    bidirectional: bool = structure(default=True)

    def __check_init__(self) -> None:
        if self.cell not in GATES:
            raise unknown("cell", self.cell, GATES)
        require_integer("hidden", self.hidden, 1)

    @property
    def library_products(self) -> bool:
        return self.cell == "gru"

    @property
    def causal(self) -> bool:
        return not self.bidirectional

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        k, features, hidden = self.directions, features_of(task), self.hidden
        gates, answers = GATES[self.cell] * hidden, answers_of(task)
        outputs = () if answers is None else (answers,)
        layers = {
            "W": ((k, features, gates), hidden),
            "U": ((k, hidden, gates), hidden),
            "b_W": ((k, gates), hidden),
            "b_U": ((k, gates), hidden),
            "u": ((k, hidden, *outputs), k * hidden),
            "c": (outputs, k * hidden),
        }
        return draw_layers(key, layers)

    def predict(self, params: Parameters, x: Num[AnyArray, "batch length ..."]) -> Float[Array, "batch length ..."]:
        if params["u"].ndim == 3:
            read = jnp.einsum("idbh,dhc->dibc", self._scan(params, x), params["u"])
            return (sum(_in_place(read)) + params["c"][None, None, :]).swapaxes(0, 1)
        read = jnp.einsum("idbh,dh->dib", self._scan(params, x), params["u"])
        return (sum(_in_place(read)) + params["c"]).T

    def states(
        self, params: Parameters, x: Num[AnyArray, "batch length ..."]
    ) -> Float[Array, "directions batch length hidden"]:
        """The hidden states at every position, which have read the tokens up to it from either end."""
        by_direction = jnp.moveaxis(self._scan(params, x), 0, 1)
        return jnp.stack(_in_place(by_direction)).swapaxes(1, 2)

    def _scan(
        self, params: Parameters, x: Num[AnyArray, "batch length ..."]
    ) -> Float[Array, "length directions batch hidden"]:
        """The hidden states in the order in which each direction meets them.

        The two directions are one batch of matrix products, and the products with the tokens are done before the
        recurrence.
        """
        tokens = as_vectors(x, params["W"].shape[1], params["W"].dtype).swapaxes(0, 1)
        met = jnp.stack([tokens, tokens[::-1]]) if self.bidirectional else tokens[None]
        given = jnp.einsum("dibf,dfg->idbg", met, params["W"]) + params["b_W"][None, :, None, :]
        return hidden_states(self.cell, given, params["U"], params["b_U"])

    def check(self, task: Task) -> None:
        require_sequence_or_tokens("recurrent network", task)

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(hidden=12), TokenRegression.example()


def _in_place(by_direction: Float[Array, "directions length *rest"]) -> list[Array]:
    """What each direction says, position by position: the second met them from the end."""
    forwards, *backwards = by_direction
    return [forwards, *(direction[::-1] for direction in backwards)]
