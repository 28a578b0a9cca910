"""A recurrent network that solves simple-qSTR exactly (qSTR paper, appendix C: Propositions 26, 28, Corollary 27).

Where all positions share the indices t, the state only has to pick up the q tokens as they pass:

    Ψ(x, t, i) = (x·1[t_1 = i], ..., x·1[t_q = i]),      f→ = f← = Ψ, which do not read the state (α = 0)
    h→_i + h←_i + Ψ(x_i, t, i) = (x_{t_1}, ..., x_{t_q}),  to which f_y applies the link network.

Ψ must be *exactly* zero where t_l ≠ i: an error there is added N times. The source approximates Ψ and cuts off what
is small; its approximations are not written down. Here Ψ is exact, in one of two ways:

    sign-codes   three layers. Σ_k |ω_ik + ω_tk| - |ω_ik - ω_tk| is proportional to ⟨ω_i, ω_t⟩ where all entries are ±c;
                 this inner product s opens the gate relu(x - B(1-s)) - relu(-x - B(1-s)).
    any-codes    four layers, for unit codes of coherence at most 1/2. The inner product is within ε_1 of s̃, made of
                 piecewise-linear squares; ρ = relu(1 - ε_1 - s̃) is exactly 0 on a match and at least 1/2 - 2ε_1
                 otherwise, and closes the gate relu(x - Bρ) - relu(-x - Bρ).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from krogh.errors import require, unknown
from krogh.models.residual_rnn import DIRECTIONS, ResidualRnn
from krogh.tasks.codes import ASSUMED_COHERENCE, coherence, require_coherence, sign_codes
from krogh.tasks.token_regression import TokenRegression
from krogh.theory.constructions.base import Array, Construction, construction
from krogh.theory.constructions.relu_gadgets import (
    Gadget,
    addition,
    chained,
    gate,
    identity,
    inner_product,
    together,
)
from krogh.theory.constructions.token_prompts import (
    LinkName,
    TokenPrompts,
    default_reach,
    float64_codes,
    link_network,
    sphere_codes,
    theory_dimension,
    token_task,
)

Realisation = Literal["sign-codes", "any-codes"]

SLACK = 1.5
"""How much stronger than needed the gates are, so that rounding does not open them."""

INNER_ERROR = 0.1
"""ε_1: what the inner product of any codes may be off by; below 1/4."""


@construction("qstr/exact-rnn", source="qSTR paper, Propositions 26 and 28, Corollary 27, made exact")
def token_rnn(
    length: int,
    dimension: int,
    sparsity: int = 1,
    code_dimension: int | None = None,
    link: LinkName = "two-layer",
    hidden: int = 7,
    realisation: Realisation = "sign-codes",
    reach: float | None = None,
    seed: int = 0,
) -> Construction:
    """A residual recurrent network of state q·d that solves simple-qSTR exactly.

    ŷ_i = g(x_{t_1}, ..., x_{t_q}) at every position of every prompt with one t for all positions and ‖x_j‖ ≤ reach

    Codes are random signs, or on the sphere for "any-codes", of dimension ⌈20 ln N⌉ unless given, drawn until their
    coherence is at most 1/2. `link` is "linear" (q = 1), "mean", or "two-layer", a random network of width `hidden`.
    """
    size = theory_dimension(length, code_dimension)
    if realisation == "any-codes":
        codes = sphere_codes(length, size, seed)
    else:
        codes = np.asarray(sign_codes(length, size, seed, ASSUMED_COHERENCE), np.float64)
    task = token_task(length, dimension, sparsity, link=link, hidden=hidden, codes=codes, seed=seed, shared=True)
    return exact_rnn(task, realisation, reach)


def exact_rnn(
    task: TokenRegression, realisation: Realisation = "sign-codes", reach: float | None = None
) -> Construction:
    """The exact recurrent network of any simple-qSTR task with unscaled codes whose link is a two-layer network."""
    require(
        task.index_law == "shared",
        f"this network needs one t for all positions; got index_law={task.index_law!r} (try index_law='shared')",
    )
    require(not task.scaled, "the recurrent theory leaves codes unscaled; got scaled=True (try scaled=False)")
    n, d, q, features = task.length, task.dimension, task.sparsity, task.features
    reach = default_reach(n, d, reach)
    stages = indicator_stages(task, realisation, reach)
    state = q * d
    weights, biases = chained(*stages)
    params: dict[str, Array] = {}
    for direction in DIRECTIONS:
        params |= named_layers(f"{direction}_", weights, biases)
        params[f"{direction}_W1z"] = params.pop(f"{direction}_W1")

    # f_y carries h→ + h← past the same stages, adds, and applies the link.
    network = link_network(task)
    states, token = np.eye(2 * state, 2 * state + features), np.eye(features, 2 * state + features, 2 * state)
    carried = [together(addition(state).after(states), stages[0].after(token))]
    for stage in stages[1:]:
        inputs = stage.weight.shape[1]
        first, rest = np.eye(state, state + inputs), np.eye(inputs, state + inputs, state)
        carried.append(together(identity(state).after(first), stage.after(rest)))
    read = Gadget(network.W, network.b, network.a[None, :]).after(np.tile(np.eye(state), (1, 2)))
    readout, readout_biases = chained(*carried, read)
    params |= named_layers("readout_", [*readout[:-1], readout[-1][0]], readout_biases)
    model = ResidualRnn(
        state,
        len(weights),
        tuple(len(bias) for bias in biases),
        len(readout),
        tuple(len(bias) for bias in readout_biases),
        lipschitz=0.0,
        radius=SLACK * math.sqrt(q) * reach,
    )
    return Construction(
        "qstr/exact-rnn",
        task,
        model,
        params,
        f"ŷ_i = g(x_t) at every position i of every prompt of {n} tokens of norm at most {reach:g} that share "
        f"their indices, for every t in [{n}]^{q}",
        max(*model.transition_widths, *model.readout_widths),
        TokenPrompts(task, reach, shared=True),
        tolerance=1e-10,
    )


def indicator_stages(task: TokenRegression, realisation: Realisation, reach: float) -> list[Gadget]:
    """Gadgets that compute Ψ(x, t, i) [q·d] from z = (x, ω_i, ω_{t_1}, ..., ω_{t_q}), exactly where ‖x‖ ≤ reach."""
    if realisation not in ("sign-codes", "any-codes"):
        raise unknown("realisation", realisation, ("sign-codes", "any-codes"))
    codes = float64_codes(task)
    require_coherence(codes, ASSUMED_COHERENCE)
    d, q, size, features = task.dimension, task.sparsity, task.code_dimension, task.features
    entry = float(np.abs(codes).max())
    segments, squared_norm = 2, 1.0
    if realisation == "sign-codes":
        require(
            np.ptp(np.abs(codes)) == 0,
            f"sign codes have entries ±c of one magnitude; got magnitudes from {np.abs(codes).min():.3g} to "
            f"{entry:.3g} (try realisation='any-codes')",
        )
        squared_norm = size * entry**2  # 1 but for the rounding of the codes, which must not pass for a mismatch
    else:
        # n(reach/K)²/4 with reach 2·entry; half of ε_1, the other half is for the rounding of the codes.
        segments = 2 * math.ceil(entry * math.sqrt(size / (INNER_ERROR / 2)) / 2)
    compare = inner_product(size, 2 * entry, segments).times([[1 / squared_norm]])
    own = np.eye(size, features, d)
    asked = [np.eye(size, features, d + (slot + 1) * size) for slot in range(q)]
    matches = [compare.after(np.vstack([own, other])) for other in asked]
    read = together(identity(d).after(np.eye(d, features)), *matches)

    # The gates take x once per slot, and the slot's match once per coordinate.
    token = np.tile(np.eye(d, d + q), (q, 1))
    match = np.repeat(np.eye(q, d + q, d), d, axis=0)
    if realisation == "sign-codes":
        strength = SLACK * reach / (1 - coherence(codes) / squared_norm)
        return [read, gate(q * d, strength).after(np.vstack([token, match]))]
    mismatch = Gadget(-np.eye(q, d + q, d), np.full(q, 1 - INNER_ERROR), np.eye(q))
    closed = together(identity(d).after(np.eye(d, d + q)), mismatch)
    strength = SLACK * reach / (1 - ASSUMED_COHERENCE - 2 * INNER_ERROR)
    shift = np.repeat([0.0, 1.0], q * d)
    return [read, closed, gate(q * d, strength).after(np.vstack([token, -match]), shift)]


def named_layers(prefix: str, weights: list[Array], biases: list[Array]) -> dict[str, Array]:
    """Layers under the names that the recurrent models give them."""
    named = {f"{prefix}W{place}": weight for place, weight in enumerate(weights, start=1)}
    return named | {f"{prefix}b{place}": bias for place, bias in enumerate(biases, start=1)}
