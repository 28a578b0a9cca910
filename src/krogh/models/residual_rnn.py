"""The recurrent networks of the qSTR theory: states kept in a ball, and read at every position (qSTR paper, section 5).

`ResidualRnn`, of the upper bound (section 5.1):

    h→_1 = 0,  h→_i = Π( h→_(i-1) + f→(h→_(i-1), z_(i-1)) )          Π h = min(1, r/‖h‖) h
    h←_N = 0,  h←_i = Π( h←_(i+1) + f←(h←_(i+1), z_(i+1)) )
    ŷ_i  = f_y(h→_i, h←_i, z_i)

f→ and f← are ReLU networks of `depth` layers, f_y is one of `readout_depth` layers; all layers but the last have a
bias. The state at position i has read the tokens before i (after i) and not token i itself.

Theorem 7 asks that f→ and f← be α-Lipschitz in the state: with W_1 = (W_1h, W_1z), ‖W_L‖···‖W_2‖‖W_1h‖ ≤ α. The
source does it by multiplying W_1h by α/(‖W_L‖···‖W_2‖), which gives α·‖W_1h‖ and so suffices only where ‖W_1h‖ ≤ 1;
here the factor is also divided by ‖W_1h‖ where that exceeds 1. α = 0 takes the state out of f→ and f←.

`LipschitzRnn`, of the lower bound (section 5.2):

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
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from krogh.errors import require, require_integer
from krogh.models.base import Model, Parameters, model
from krogh.models.parts import initialise, require_sequence
from krogh.tasks.base import Task
from krogh.tasks.token_regression import TokenRegression
from krogh.values import AnyArray, data, structure, traced

DIRECTIONS = ("forward", "backward")

Widths = int | tuple[int, ...]


def widths_field(**options: Any) -> Any:
    """A field of hidden widths: one number for all layers, or one per layer (a list is read as a tuple)."""
    return structure(converter=lambda given: tuple(given) if isinstance(given, list) else given, **options)


def hidden_widths(name: str, width: Widths, depth: int) -> tuple[int, ...]:
    """The widths of the depth - 1 hidden layers of a network."""
    every = (width,) * (depth - 1) if not isinstance(width, Sequence) else tuple(width)
    require(
        len(every) == depth - 1,
        f"a network of depth {depth} has {depth - 1} hidden layers; got {name}={width!r} (try {name}={every[:1] or 1})",
    )
    for one in every:
        require_integer(name, one, 1)
    return every


def draw_network(key: PRNGKeyArray, prefix: str, sizes: Sequence[int], outputs: int | None) -> Parameters:
    """Weights W1, b1, ..., WL as PyTorch's Linear draws them; `sizes` are those of input and hidden layers.

    `outputs` None makes the last layer a vector: the network returns one number.
    """
    params = {}
    ends: list[tuple[int, ...]] = [(size,) for size in sizes[1:]]
    ends.append(() if outputs is None else (outputs,))
    for place, (fan_in, end) in enumerate(zip(sizes, ends, strict=True), start=1):
        weight, bias = jax.random.split(jax.random.fold_in(key, place))
        params[f"{prefix}W{place}"] = initialise("uniform", weight, (*end, fan_in), fan_in)
        if place < len(sizes):
            params[f"{prefix}b{place}"] = initialise("uniform", bias, end, fan_in)
    return params


def draw_transition(
    key: PRNGKeyArray, direction: str, state: int, features: int, widths: tuple[int, ...]
) -> Parameters:
    """Weights of f→ or f←, its first layer cut into what reads the state and what reads the token."""
    layers = draw_network(key, "", (state + features, *widths), state)
    first = layers.pop("W1")
    layers |= {"W1h": first[:, :state], "W1z": first[:, state:]}
    return {f"{direction}_{name}": layer for name, layer in layers.items()}


def token_sums(
    params: Parameters, direction: str, x: Float[Array, "batch length features"]
) -> Float[Array, "batch length m"]:
    """What each token adds to the first layer of f→ or f←, with its bias where it has one."""
    sums = x @ params[f"{direction}_W1z"].T
    bias = params.get(f"{direction}_b1")
    return sums if bias is None else sums + bias[None, None, :]


def upper_layers(params: Parameters, prefix: str, depth: int, hidden: Float[Array, "*batch m"]) -> Array:
    """What a network returns, given the sums that enter its first hidden layer (for depth 1, its output)."""
    for place in range(2, depth + 1):
        hidden = jnp.matmul(jax.nn.relu(hidden), params[f"{prefix}W{place}"].T)
        if place < depth:
            hidden = hidden + jnp.expand_dims(params[f"{prefix}b{place}"], tuple(range(hidden.ndim - 1)))
    return hidden


def project(h: Float[Array, "*batch state"], radius: Float[Array, ""]) -> Float[Array, "*batch state"]:
    """Π h = min(1, r/‖h‖) h, the nearest point of the ball of that radius; differentiable at h = 0."""
    squared = jnp.sum(h**2, axis=-1, keepdims=True)
    outside = squared > radius**2
    norm = jnp.sqrt(jnp.where(outside, squared, jnp.ones_like(squared)))
    return jnp.where(outside, h * (radius / norm), h)


def bidirectional(
    step: Callable[[str, Array, Array], Array], inputs: dict[str, Float[Array, "batch length m"]], state: int
) -> tuple[Float[Array, "batch length state"], Float[Array, "batch length state"]]:
    """States before each token is read, from the left and from the right; `step(direction, state, input)` is the next.

    `inputs` are what each token contributes, for each direction; both recursions start at 0.
    """
    states = []
    for direction in DIRECTIONS:
        tokens = jnp.swapaxes(inputs[direction], 0, 1)
        start = jnp.zeros((tokens.shape[1], state), tokens.dtype)

        def advance(h: Array, token: Array, direction: str = direction) -> tuple[Array, Array]:
            return step(direction, h, token), h

        _, before = jax.lax.scan(advance, start, tokens, reverse=direction == "backward")
        states.append(jnp.swapaxes(before, 0, 1))
    return states[0], states[1]


def spectral_norm(weight: Float[AnyArray, "rows columns"]) -> Float[Array, ""]:
    """The largest singular value."""
    return jnp.linalg.svd(weight, compute_uv=False)[0]


@model("residual-rnn")
class ResidualRnn(Model):
    """A bidirectional recurrent network that adds to its state and keeps it in a ball.

    `state` is d_h; `depth` and `width` are those of f→ and f←, `readout_depth` and `readout_width` (as `width` unless
    given) those of f_y; a width is one number or one per hidden layer. `radius` is r_h, 2√state unless given: twice
    the norm √(qd) of the q tokens that a state of size qd is made to hold. `lipschitz` is α, None for no bound.

    Parameters, drawn as by PyTorch's Linear, for each of forward and backward: W1h [m1, state] (none for α = 0),
    W1z [m1, De], b1 [m1], W2 [m2, m1], b2, ... WL [state, m], each name after "forward_" or "backward_"; and
    readout_W1 [m1, 2·state + De], readout_b1, ..., readout_WL [m].
    """

    state: int = structure()
    depth: int = structure()
    width: Widths = widths_field()
    readout_depth: int = structure(default=3)
    readout_width: Widths | None = widths_field(default=None)
    lipschitz: float | None = structure(default=None)
    radius: Float[AnyArray, ""] | None = data(optional=True, default=None)

    def __check_init__(self) -> None:
        require_integer("state", self.state, 1)
        require_integer("depth", self.depth, 1)
        require_integer("readout_depth", self.readout_depth, 1)
        _ = self.transition_widths, self.readout_widths
        alpha = self.lipschitz
        require(
            alpha is None or (not isinstance(alpha, str) and 0 <= alpha < math.inf),
            f"lipschitz is None or a number of at least 0; got lipschitz={alpha!r}",
        )
        if self.radius is not None and not traced(self.radius) and self.radius.ndim == 0:
            require(self.radius > 0, f"radius must be greater than 0; got radius={self.radius}")

    @property
    def transition_widths(self) -> tuple[int, ...]:
        """The hidden widths of f→ and f←."""
        return hidden_widths("width", self.width, self.depth)

    @property
    def readout_widths(self) -> tuple[int, ...]:
        """The hidden widths of f_y."""
        asked = self.readout_width
        if asked is None:
            asked = self.width if isinstance(self.width, int) else max(self.width, default=1)
        return hidden_widths("readout_width", asked, self.readout_depth)

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        features = task.input_shape[1]
        keys = jax.random.split(key, 3)
        params: Parameters = {}
        for own, direction in zip(keys, DIRECTIONS, strict=False):
            params |= draw_transition(own, direction, self.state, features, self.transition_widths)
            of_state = params.pop(f"{direction}_W1h")
            if self.lipschitz != 0:
                params[f"{direction}_W1h"] = of_state
        return params | draw_network(keys[2], "readout_", (2 * self.state + features, *self.readout_widths), None)

    def state_weight(self, params: Parameters, direction: str) -> Float[Array, "m state"] | None:
        """The weights of the state in the first layer of f→ or f←, as they act: rescaled, or None for α = 0."""
        if self.lipschitz == 0:
            return None
        weight = params[f"{direction}_W1h"]
        if self.lipschitz is None:
            return weight
        above = [spectral_norm(params[f"{direction}_W{place}"]) for place in range(2, self.depth + 1)]
        product = math.prod(above, start=jnp.maximum(spectral_norm(weight), jnp.ones((), weight.dtype)))
        # Where a layer above is zero the transition is constant, and any factor will do.
        return weight * (self.lipschitz / jnp.where(product > 0, product, jnp.ones_like(product)))

    def states(
        self, params: Parameters, x: Float[Array, "batch length features"]
    ) -> tuple[Float[Array, "batch length state"], Float[Array, "batch length state"]]:
        """h→ and h← at every position."""
        radius = jnp.asarray(2 * math.sqrt(self.state) if self.radius is None else self.radius).astype(x.dtype)
        inputs, weights = {}, {}
        for direction in DIRECTIONS:
            first = token_sums(params, direction, x)
            weights[direction] = self.state_weight(params, direction)
            # Without the state all the steps are taken at once, and the recursion only adds and projects.
            ready = weights[direction] is None
            inputs[direction] = upper_layers(params, f"{direction}_", self.depth, first) if ready else first

        def step(direction: str, h: Array, token: Array) -> Array:
            weight = weights[direction]
            if weight is None:
                return project(h + token, radius)
            change = upper_layers(params, f"{direction}_", self.depth, token + h @ weight.T)
            return project(h + change, radius)

        return bidirectional(step, inputs, self.state)

    def predict(self, params: Parameters, x: Float[Array, "batch length features"]) -> Float[Array, "batch length"]:
        everything = jnp.concatenate([*self.states(params, x), x], axis=-1)
        first = everything @ params["readout_W1"].T
        if self.readout_depth > 1:
            first = first + params["readout_b1"][None, None, :]
        return upper_layers(params, "readout_", self.readout_depth, first)

    def check(self, task: Task) -> None:
        require_sequence("residual recurrent network", task)

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(state=4, depth=2, width=16, lipschitz=0.25, radius=1.0), TokenRegression.example()


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
        params = draw_network(keys[2], "", (2 * state + features, *self.readout_widths), None)
        first = params.pop("W1")
        params |= {
            "U_forward": first[:, :state],
            "U_backward": first[:, state : 2 * state],
            "W_y": first[:, 2 * state :],
            "b_y": params.pop("b1"),
        }
        for own, direction in zip(keys, DIRECTIONS, strict=False):
            params |= draw_transition(own, direction, state, features, self.transition_widths)
        return params

    def states(
        self, params: Parameters, x: Float[Array, "batch length features"]
    ) -> tuple[Float[Array, "batch length state"], Float[Array, "batch length state"]]:
        """h→ and h← at every position."""
        inputs = {direction: token_sums(params, direction, x) for direction in DIRECTIONS}

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
