"""Recurrent networks with a linear read-out at every position (qSTR, Figure 1).

For each direction, with a_i = W z_i + b_W and m_i = U h_{i-1} + b_U cut into gates (σ = logistic function):

    gru    r = σ(a_r + m_r),  z = σ(a_z + m_z),  n = tanh(a_n + r⊙m_n),  h_i = (1-z)⊙n + z⊙h_{i-1}
    lstm   i, f, o = σ(a + m) of their gates,  g = tanh(a_g + m_g),  c_i = f⊙c_{i-1} + i⊙g,  h_i = o⊙tanh(c_i)
    relu   h_i = ReLU(a + m)

and ŷ_i = u→·h→_i + u←·h←_i + c. States start at 0, and the state at position i has read token i (the theory's recursion
has not). The source's figures use one bidirectional GRU layer of 500 units per direction; every recurrent tensor is
drawn from U(±1/√hidden), the read-out from U(±1/√(directions·hidden)), as PyTorch does.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from krogh.errors import require_integer, unknown
from krogh.models.base import Model, Parameters, model
from krogh.models.recurrence import GATES, hidden_states
from krogh.models.sequences import draw_layers, require_sequence
from krogh.tasks.base import Task
from krogh.tasks.token_regression import TokenRegression
from krogh.values import structure


@model("recurrent")
class Recurrent(Model):
    """A layer of `cell` units, read forwards and, when `bidirectional`, backwards too.

    Parameters: W [directions, features, gates·hidden] and b_W on the tokens, U [directions, hidden, gates·hidden] and
    b_U on the state, u [directions, hidden] and c [] for the read-out. Gates lie in the order r, z, n of a GRU and
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
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        k, features, hidden = self.directions, task.input_shape[1], self.hidden
        gates = GATES[self.cell] * hidden
        layers = {
            "W": ((k, features, gates), hidden),
            "U": ((k, hidden, gates), hidden),
            "b_W": ((k, gates), hidden),
            "b_U": ((k, gates), hidden),
            "u": ((k, hidden), k * hidden),
            "c": ((), k * hidden),
        }
        return draw_layers(key, layers)

    def predict(self, params: Parameters, x: Float[Array, "batch length features"]) -> Float[Array, "batch length"]:
        read = jnp.einsum("idbh,dh->dib", self._scan(params, x), params["u"])
        return (sum(_in_place(read)) + params["c"]).T

    def states(
        self, params: Parameters, x: Float[Array, "batch length features"]
    ) -> Float[Array, "directions batch length hidden"]:
        """The hidden states at every position, which have read the tokens up to it from either end."""
        by_direction = jnp.moveaxis(self._scan(params, x), 0, 1)
        return jnp.stack(_in_place(by_direction)).swapaxes(1, 2)

    def _scan(
        self, params: Parameters, x: Float[Array, "batch length features"]
    ) -> Float[Array, "length directions batch hidden"]:
        """The hidden states in the order in which each direction meets them.

        The two directions are one batch of matrix products, and the products with the tokens are done before the
        recurrence.
        """
        tokens = x.swapaxes(0, 1)
        met = jnp.stack([tokens, tokens[::-1]]) if self.bidirectional else tokens[None]
        given = jnp.einsum("dibf,dfg->idbg", met, params["W"]) + params["b_W"][None, :, None, :]
        return hidden_states(self.cell, given, params["U"], params["b_U"])

    def check(self, task: Task) -> None:
        require_sequence("recurrent network", task)

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(hidden=12), TokenRegression.example()


def _in_place(by_direction: Float[Array, "directions length *rest"]) -> list[Array]:
    """What each direction says, position by position: the second met them from the end."""
    forwards, *backwards = by_direction
    return [forwards, *(direction[::-1] for direction in backwards)]
