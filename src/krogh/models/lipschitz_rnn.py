"""The recurrent network of the qSTR theory's lower bound (qSTR paper, section 5.2).

    h→_1 = 0,  h→_(i+1) = Π f→(h→_i, z_i)          Π h = min(1, 1/‖h‖) h
    h←_N = 0,  h←_(i-1) = Π f←(h←_i, z_i)
    ŷ_i  = W_L relu( ... W_2 relu(U→ h→_i + U← h←_i + W_y z_i + b_y) + b_2 ... )

The states lie in the unit ball, which costs nothing since ReLU is homogeneous. All that the network can know of the
other tokens passes through U = (U→, U←), whose norm Proposition 8 bounds from below: with L = ‖W_L‖···‖W_2‖,

    risk ≤ c   implies   d_h ≥ c' N/ln(1 + L²‖U‖²)   and   ‖U‖² ≥ c' N/(L² ln(1 + d_h)).

The source leaves f→ and f← open: here they are ReLU networks of `depth` layers, the last without a bias (depth 1 is a
linear map of state and token).
"""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from krogh.errors import require_integer
from krogh.models.base import Model, Parameters, model
from krogh.models.residual_rnn import (
    DIRECTIONS,
    Widths,
    bidirectional,
    draw_layers,
    hidden_widths,
    project,
    spectral_norm,
    upper_layers,
    widths_field,
)
from krogh.models.sequences import require_sequence
from krogh.tasks.base import Task
from krogh.tasks.token_regression import TokenRegression
from krogh.values import AnyArray, structure


@model("lipschitz-rnn")
class LipschitzRnn(Model):
    """A bidirectional recurrent network whose states lie in the unit ball and are read through U.

    `state` is d_h; `depth` and `width` are those of f→ and f← (hidden width d_h unless given), `readout_depth` is L ≥ 2
    and `readout_width` the widths of f_y's hidden layers, one number or one per layer: d_h unless given, as in the
    source.

    Parameters, drawn as by PyTorch's Linear: U_forward and U_backward [m1, state], W_y [m1, De], b_y [m1], W2 [m2, m1],
    b2, ..., WL [m]; and for each of forward and backward W1h [m, state], W1z [m, De], b1, W2, ..., each name
    after "forward_" or "backward_".
    """

    state: int = structure()
    depth: int = structure(default=2)
    width: Widths | None = widths_field(default=None)
    readout_depth: int = structure(default=2)
    readout_width: Widths | None = widths_field(default=None)

    def __check_init__(self) -> None:
        require_integer("state", self.state, 1)
        require_integer("depth", self.depth, 1)
        require_integer("readout_depth", self.readout_depth, 2)
        _ = self.transition_widths, self.readout_widths

    @property
    def transition_widths(self) -> tuple[int, ...]:
        """The hidden widths of f→ and f←."""
        return hidden_widths("width", self.state if self.width is None else self.width, self.depth)

    @property
    def readout_widths(self) -> tuple[int, ...]:
        """The hidden widths of f_y."""
        asked = self.state if self.readout_width is None else self.readout_width
        return hidden_widths("readout_width", asked, self.readout_depth)

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        features, state = task.input_shape[1], self.state
        keys = jax.random.split(key, 3)
        params = draw_layers(keys[2], "", (2 * state + features, *self.readout_widths), None)
        first = params.pop("W1")
        params |= {
            "U_forward": first[:, :state],
            "U_backward": first[:, state : 2 * state],
            "W_y": first[:, 2 * state :],
            "b_y": params.pop("b1"),
        }
        for own, direction in zip(keys, DIRECTIONS, strict=False):
            layers = draw_layers(own, "", (state + features, *self.transition_widths), state)
            first = layers.pop("W1")
            layers |= {"W1h": first[:, :state], "W1z": first[:, state:]}
            params |= {f"{direction}_{name}": layer for name, layer in layers.items()}
        return params

    def states(
        self, params: Parameters, x: Float[Array, "batch length features"]
    ) -> tuple[Float[Array, "batch length state"], Float[Array, "batch length state"]]:
        """h→ and h← at every position."""
        inputs = {}
        for direction in DIRECTIONS:
            inputs[direction] = x @ params[f"{direction}_W1z"].T
            if self.depth > 1:
                inputs[direction] = inputs[direction] + params[f"{direction}_b1"][None, None, :]

        def step(direction: str, h: Array, token: Array) -> Array:
            first = token + h @ params[f"{direction}_W1h"].T
            return project(upper_layers(params, f"{direction}_", self.depth, first), jnp.ones((), h.dtype))

        return bidirectional(step, inputs, self.state)

    def predict(self, params: Parameters, x: Float[Array, "batch length features"]) -> Float[Array, "batch length"]:
        forward, backward = self.states(params, x)
        read = forward @ params["U_forward"].T + backward @ params["U_backward"].T
        first = read + x @ params["W_y"].T + params["b_y"][None, None, :]
        return upper_layers(params, "", self.readout_depth, first)

    def check(self, task: Task) -> None:
        require_sequence("Lipschitz recurrent network", task)

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(state=8, readout_width=16), TokenRegression.example()


def projection_norm(params: dict[str, AnyArray]) -> Float[Array, ""]:
    """‖U‖, the largest singular value of U = (U→, U←)."""
    return spectral_norm(jnp.concatenate([params["U_forward"], params["U_backward"]], axis=1))


def readout_lipschitz(params: dict[str, AnyArray]) -> Float[Array, ""]:
    """L = ‖W_L‖···‖W_2‖: how fast predictions can change with Uh."""
    names = itertools.takewhile(params.__contains__, (f"W{place}" for place in itertools.count(2)))
    return math.prod(spectral_norm(jnp.atleast_2d(params[name])) for name in names)  # type: ignore[return-value]


def storage_ratio(params: dict[str, AnyArray], length: int) -> Float[Array, ""]:
    """N/(L²‖U‖² ln(1 + d_h)), which Proposition 8 bounds by a constant for every network of small risk."""
    require_integer("length", length, 1)
    state = params["U_forward"].shape[1]
    return length / ((readout_lipschitz(params) * projection_norm(params)) ** 2 * math.log1p(state))
