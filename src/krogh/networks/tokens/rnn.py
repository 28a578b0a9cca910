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

All is put together from gadgets of one hidden layer, x ↦ C relu(A x + b) (Propositions 26 and 28). Gadgets that read
the same input are laid side by side by `together`, one after the other by `chained`, which merges the output matrix of
each with the input matrix of the next: k gadgets in a chain are a network of k + 1 layers, with a bias in all but the
last.

    identity     x = relu(x) - relu(-x)
    addition     the same of a sum
    absolute     |x| = relu(x) + relu(-x)
    dead zone    relu(x - t) - relu(-x - t): 0 for |x| ≤ t, and never further than t from x
    gate         relu(x - B(1-s)) - relu(-x - B(1-s)): x for s = 1, and 0 for s ≤ 1 - |x|/B
    square       the piecewise-linear interpolant of x²
    product      ab = ((a+b)² - (a-b)²)/4, by two squares

All but the last two are exact.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from krogh.errors import require, require_integer, unknown
from krogh.models.residual_rnn import DIRECTIONS, ResidualRnn
from krogh.networks.handmade import Array, Construction, construction
from krogh.networks.tokens.prompts import (
    LinkName,
    TokenPrompts,
    default_reach,
    float64_codes,
    link_network,
    sphere_codes,
    theory_dimension,
    token_task,
)
from krogh.tasks.codes import ASSUMED_COHERENCE, coherence, require_coherence, sign_codes
from krogh.tasks.token_regression import TokenRegression
from krogh.theory.prediction import check_open


@dataclass(frozen=True, eq=False)
class Gadget:
    """x ↦ output · relu(weight · x + bias): weight [m, n], bias [m], output [k, m]."""

    weight: Array
    bias: Array
    output: Array

    def __post_init__(self) -> None:
        m = len(self.bias)
        fits = self.weight.shape[0] == m == self.output.shape[1]
        require(
            fits,
            f"a gadget has weight [m, n], bias [m] and output [k, m]; got {self.weight.shape}, {self.bias.shape}, "
            f"{self.output.shape}",
        )

    def __call__(self, x: ArrayLike) -> Array:
        """The gadget's value on inputs x [..., n]."""
        return np.maximum(np.asarray(x, np.float64) @ self.weight.T + self.bias, 0.0) @ self.output.T

    def after(self, matrix: ArrayLike, shift: ArrayLike = 0.0) -> Gadget:
        """The gadget of `matrix` · x + `shift`: how it is wired to a larger input."""
        wires = np.asarray(matrix, np.float64)
        offset = np.broadcast_to(np.asarray(shift, np.float64), (len(wires),))
        return Gadget(self.weight @ wires, self.bias + self.weight @ offset, self.output)

    def times(self, matrix: ArrayLike) -> Gadget:
        """`matrix` times what the gadget returns."""
        return Gadget(self.weight, self.bias, np.asarray(matrix, np.float64) @ self.output)


def identity(n: int) -> Gadget:
    """x ↦ x, by two units per coordinate."""
    return dead_zone(n, 0.0)


def addition(n: int, terms: int = 2) -> Gadget:
    """(x_1, ..., x_terms) ↦ x_1 + ... + x_terms, vectors of n coordinates."""
    require_integer("terms", terms, 1)
    return identity(n).after(np.tile(np.eye(n), (1, terms)))


def absolute(n: int) -> Gadget:
    """x ↦ |x|, coordinate by coordinate."""
    both = identity(n)
    return Gadget(both.weight, both.bias, np.abs(both.output))


def dead_zone(n: int, threshold: float) -> Gadget:
    """x ↦ relu(x - t) - relu(-x - t), coordinate by coordinate: exactly 0 for |x| ≤ t, within t of x elsewhere."""
    require_integer("n", n, 1)
    require(threshold >= 0, f"a dead zone has a threshold of at least 0; got threshold={threshold!r}")
    eye = np.eye(n)
    return Gadget(np.vstack([eye, -eye]), np.full(2 * n, -float(threshold)), np.hstack([eye, -eye]))


def gate(n: int, strength: float) -> Gadget:
    """(x, s) ↦ x where s = 1 and exactly 0 where s ≤ 1 - |x|/strength, for x and s of n coordinates each."""
    require_integer("n", n, 1)
    check_open("strength", strength, 0)
    eye = np.eye(n)
    weight = np.block([[eye, strength * eye], [-eye, strength * eye]])
    return Gadget(weight, np.full(2 * n, -float(strength)), np.hstack([eye, -eye]))


def square(reach: float, segments: int) -> Gadget:
    """u ↦ S(u), the piecewise-linear interpolant of u² on [-reach, reach] by an even number K of equal segments.

        S(u) = Σ_{k<K/2} c_k (relu(u - kh) + relu(-u - kh)),   h = 2·reach/K,  c_0 = h,  c_k = 2h

    0 ≤ S(u) - u² ≤ h²/4 = (reach/K)², with equality on the left at the knots kh.
    """
    _check_segments(reach, segments)
    step = 2 * reach / segments
    knots = step * np.arange(segments // 2)
    slopes = np.where(knots > 0, 2 * step, step)
    signs = np.repeat([1.0, -1.0], segments // 2)
    return Gadget(signs[:, None], -np.tile(knots, 2), np.tile(slopes, 2)[None, :])


def product(reach: float, segments: int) -> Gadget:
    """(a, b) ↦ (S(a+b) - S(a-b))/4 for |a ± b| ≤ reach: ab within (reach/K)²/4, K the number of segments."""
    one = square(reach, segments)
    plus, minus = one.after([[1.0, 1.0]]), one.after([[1.0, -1.0]])
    return together(plus, minus).times([[0.25, -0.25]])


def inner_product(n: int, reach: float, segments: int) -> Gadget:
    """(a, b) ↦ Σ_k product(a_k, b_k), within n(reach/K)²/4 of ⟨a, b⟩ for vectors of n coordinates.

    With two segments and reach 2c it is (c/2) Σ_k (|a_k + b_k| - |a_k - b_k|), which is exact where all
    coordinates are ±c: then a_k ± b_k lies on the knots -2c, 0, 2c.
    """
    require_integer("n", n, 1)
    one, eye = product(reach, segments), np.eye(n)
    every = [one.after(np.stack([np.r_[eye[k], 0 * eye[k]], np.r_[0 * eye[k], eye[k]]])) for k in range(n)]
    return together(*every).times(np.ones((1, n)))


def together(*gadgets: Gadget) -> Gadget:
    """Gadgets that read the same input, side by side; their values are concatenated."""
    inputs = {gadget.weight.shape[1] for gadget in gadgets}
    require(len(inputs) == 1, f"gadgets side by side read one input; got inputs of {sorted(inputs)} coordinates")
    rows, columns = (sum(gadget.output.shape[axis] for gadget in gadgets) for axis in (0, 1))
    output, row, column = np.zeros((rows, columns)), 0, 0
    for gadget in gadgets:
        k, m = gadget.output.shape
        output[row : row + k, column : column + m] = gadget.output
        row, column = row + k, column + m
    weights, biases = [gadget.weight for gadget in gadgets], [gadget.bias for gadget in gadgets]
    return Gadget(np.vstack(weights), np.concatenate(biases), output)


def chained(*gadgets: Gadget) -> tuple[list[Array], list[Array]]:
    """Gadgets one after the other as the layers of one network: weights W_1, ..., W_(k+1) and biases b_1, ..., b_k."""
    weights = [gadgets[0].weight]
    weights += [after.weight @ before.output for before, after in itertools.pairwise(gadgets)]
    return [*weights, gadgets[-1].output], [gadget.bias for gadget in gadgets]


def _check_segments(reach: float, segments: int) -> None:
    check_open("reach", reach, 0)
    require_integer("segments", segments, 2)
    require(segments % 2 == 0, f"segments must be even; got segments={segments} (try {segments + 1})")


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
    task = token_task(dimension, sparsity, link=link, hidden=hidden, codes=codes, seed=seed, shared=True)
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
