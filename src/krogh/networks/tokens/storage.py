"""A recurrent network that solves 1STR by storing everything (matching upper bound for qSTR paper, Proposition 8).

    h→_{i+1} = h→_i + ⟨u, x_i⟩ e_i,      h←_{i-1} = h←_i + ⟨u, x_i⟩ e_i,
    ŷ_i = e_t·(h→_i + h←_i), or ⟨u, x_i⟩ if t = i,    t = t_i

The state has one coordinate for each position, and norm about √N. Coordinate j recognises its position by the code:
with keys k_j = ω_j/‖ω_j‖² the product ⟨k_j, ω_i⟩ is 1 for i = j and less for the others, and gates
relu(v - B(1-s)) - relu(-v - B(1-s)) let v = ⟨u, x_i⟩ through at s = 1 only. Any different codes of equal norm will do.

    residual     states of norm up to √N·max|⟨u, x⟩| in a ball that large; two-layer transitions without the state
    lipschitz    the same divided by that radius, in the unit ball: ‖U‖ is of the order of √N instead
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from krogh.errors import KroghError, require, unknown
from krogh.models.base import Model
from krogh.models.residual_rnn import DIRECTIONS, LipschitzRnn, ResidualRnn
from krogh.networks.handmade import Array, Construction, construction
from krogh.networks.tokens.prompts import TokenPrompts, default_reach, float64_codes, theory_dimension, token_task
from krogh.networks.tokens.rnn import Gadget, gate, identity, together
from krogh.tasks.codes import sign_codes
from krogh.tasks.links import LinearLink
from krogh.tasks.token_regression import TokenRegression

Storage = Literal["residual", "lipschitz"]

SLACK = 1.5
"""How much stronger than needed gates are and how much larger the ball, so that rounding does not matter."""


@construction("qstr/storage-rnn", source="matches qSTR paper, Proposition 8, from above")
def token_storage(
    length: int,
    dimension: int,
    code_dimension: int | None = None,
    model: Storage = "residual",
    reach: float | None = None,
    seed: int = 0,
) -> Construction:
    """A recurrent network of state N that stores ⟨u, x_j⟩ of every token.

    ŷ_i = ⟨u, x_{t_i}⟩ at every position of every prompt with ‖x_j‖ ≤ reach, each position with its own index

    Codes are random signs of dimension ⌈20 ln N⌉ unless given.
    """
    codes = sign_codes(length, theory_dimension(length, code_dimension), seed)
    return storage_rnn(token_task(dimension, 1, link="linear", hidden=1, codes=codes, seed=seed), model, reach)


def storage_rnn(task: TokenRegression, model: Storage = "residual", reach: float | None = None) -> Construction:
    """The storing network of any 1STR task with a linear link and unscaled codes."""
    if model not in ("residual", "lipschitz"):
        raise unknown("model", model, ("residual", "lipschitz"))
    link = task.link
    if task.sparsity != 1 or not isinstance(link, LinearLink):
        raise KroghError(f"a linear link of one token is stored; got the link {link.kind!r} and q={task.sparsity}")
    require(not task.scaled, "the recurrent theory leaves codes unscaled; got scaled=True (try scaled=False)")
    n, d, size, features = task.length, task.dimension, task.code_dimension, task.features
    reach = default_reach(n, d, reach)
    u = np.asarray(link.u, np.float64)
    largest = reach * float(np.linalg.norm(u))
    keys, strength = storage_keys(float64_codes(task), largest)
    radius = SLACK * math.sqrt(n) * largest
    value = np.zeros((n, features))
    value[:, :d] = u
    own, asked = np.zeros((n, features)), np.zeros((n, features))
    own[:, d : d + size] = keys
    asked[:, d + size :] = keys
    write = gate(n, strength).after(np.vstack([value, own]))

    # f_y reads (h→, h←, z): coordinate t of the stored sum, and the own value where both codes name one position.
    unit = radius if model == "lipschitz" else 1.0
    stored, token = unit * np.tile(np.eye(n), (1, 2)), np.zeros((n, 2 * n))
    fetch = gate(n, strength).after(np.vstack([np.hstack([stored, 0 * value]), np.hstack([token, asked])]))
    both = np.hstack([token, own + asked])
    keep = gate(n, strength).after(np.vstack([np.hstack([token, value]), both]), np.repeat([0.0, -1.0], n))
    read = together(fetch, keep).times(np.ones((1, 2 * n)))
    network, weights = (_residual if model == "residual" else _lipschitz)(n, radius, write, read)
    return Construction(
        "qstr/storage-rnn",
        task,
        network,
        weights,
        f"ŷ_i = ⟨u, x_t⟩ at every position i of every prompt of {n} tokens of norm at most {reach:g}, "
        f"for every t = t_i in [{n}]",
        n,
        TokenPrompts(task, reach, shared=task.index_law == "shared"),
        tolerance=1e-10,
    )


def storage_keys(codes: Array, largest: float) -> tuple[Array, float]:
    """Keys [N, d_e] with ⟨k_j, ω_j⟩ = 1, and the strength that closes the gate of j for all other positions' codes."""
    keys = codes / np.sum(codes**2, axis=1, keepdims=True)
    products = keys @ codes.T
    np.fill_diagonal(products, -np.inf)
    nearest = float(products.max(initial=-1.0))
    # TokenRegression has refused equal codes; of codes of unequal norm one may still outdo another's own.
    require(
        nearest < 1 - 1e-6,
        f"every code must be nearest to itself; got a product of {nearest:.6g} with another (try codes of norm 1)",
    )
    return keys, SLACK * largest / (1 - nearest)


def _residual(n: int, radius: float, write: Gadget, read: Gadget) -> tuple[Model, dict[str, Array]]:
    params = {"readout_W1": read.weight, "readout_b1": read.bias, "readout_W2": read.output[0]}
    for name in DIRECTIONS:
        params |= {f"{name}_W1z": write.weight, f"{name}_b1": write.bias, f"{name}_W2": write.output}
    return ResidualRnn(n, 2, len(write.bias), 2, len(read.bias), lipschitz=0.0, radius=radius), params


def _lipschitz(n: int, radius: float, write: Gadget, read: Gadget) -> tuple[Model, dict[str, Array]]:
    features = write.weight.shape[1]
    state, token = np.eye(n, n + features), np.eye(features, n + features, n)
    step = together(identity(n).after(state), write.after(token)).times(np.hstack([np.eye(n), np.eye(n) / radius]))
    params = {
        "U_forward": read.weight[:, :n],
        "U_backward": read.weight[:, n : 2 * n],
        "W_y": read.weight[:, 2 * n :],
        "b_y": read.bias,
        "W2": read.output[0],
    }
    for name in DIRECTIONS:
        params |= {f"{name}_W1h": step.weight[:, :n], f"{name}_W1z": step.weight[:, n:]}
        params |= {f"{name}_b1": step.bias, f"{name}_W2": step.output}
    return LipschitzRnn(n, 2, len(step.bias), 2, len(read.bias)), params
