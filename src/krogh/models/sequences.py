"""What the models that read a sequence of tokens and answer at every position share.

An input is x [length, features]: at each position a token with the codes of its place and of the places its answer
depends on (qSTR, Definition 2). An answer is one real number per position.
"""

from __future__ import annotations

import jax
from jaxtyping import Array, Float, PRNGKeyArray

from krogh.errors import require
from krogh.models.base import Parameters
from krogh.models.initialisers import initialise
from krogh.tasks.base import Task

Layers = dict[str, tuple[tuple[int, ...], int]]
"""Names of parameters with their shape and the fan-in of the layer they belong to."""


def require_sequence(model_name: str, task: Task) -> None:
    """Refuse a task that is not a sequence of real tokens with a real answer at every position."""
    require(
        getattr(task, "regression", False) and len(task.input_shape) == 2,
        f"a {model_name} reads sequences of shape [length, features] and answers with a real number at every position; "
        f"got the task {task.kind or type(task).__name__!r} of input shape {list(task.input_shape)} "
        f"(try the task 'qstr')",
    )


def token_dimension(task: Task) -> int | None:
    """How many leading features of a position are its token, where the task says so; the rest are codes."""
    return getattr(task, "dimension", None)


def draw_layers(key: PRNGKeyArray, layers: Layers) -> Parameters:
    """Every parameter from U(±1/√fan_in), weights and biases alike, as PyTorch draws affine and recurrent layers."""
    keys = jax.random.split(key, len(layers))
    return {
        name: initialise("uniform", key, shape, fan_in)
        for key, (name, (shape, fan_in)) in zip(keys, layers.items(), strict=True)
    }


def read_out_layers(features: int, hidden: int) -> Layers:
    """The layers of `read_out`."""
    return {
        "W": ((hidden, features), features),
        "b": ((hidden,), features),
        "u": ((hidden,), hidden),
        "c": ((), hidden),
    }


def read_out(params: Parameters, mixed: Float[Array, "*rows features"]) -> Float[Array, " *rows"]:
    """The same two-layer network u·ReLU(W m + b) + c at every position."""
    rows = mixed.reshape(-1, mixed.shape[-1])
    # Neurons first: W @ rowsᵀ and its gradient both read W as it lies, which a CPU rewards.
    hidden = jax.nn.relu(params["W"] @ rows.T + params["b"][:, None])
    return (params["u"] @ hidden + params["c"]).reshape(mixed.shape[:-1])
