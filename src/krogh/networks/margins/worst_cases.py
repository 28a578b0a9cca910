"""Certificates, sizes and samples that hold for all circuits, or all Turing machines, of a given size.

A class of programs is SM-approximated by the networks that they compile to: the numbers are those of the worst of them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from krogh.errors import require_integer
from krogh.networks.compiled import Sizes
from krogh.networks.machines.compiled import compile_machine
from krogh.networks.margins.machines import certify_machine
from krogh.programs.machines.machine import Machine
from krogh.theory.prediction import prediction
from krogh.theory.programs.samples import n_SM, vc_order
from krogh.theory.programs.theorem import (
    ROUNDING_NORM,
    SPLIT_NORM,
    Certificate,
    Constants,
    TheoremBound,
    best_bound,
    block_constants,
)


def worst_circuit(inputs: int, width: int, fan_out: int) -> TheoremBound:
    """Theorem D.6 for all layered circuits of so many inputs and gates in a layer, each read at most `fan_out` times.

    Rows of W_1 have sums of magnitudes 2 at most and columns `fan_out`, so that ‖W_1‖ ≤ √(2·fan_out); biases have norm
    at most √width, and ‖W_2‖ = 1. So the bound falls like 1/√(width·fan_out).
    """
    require_integer("inputs", inputs, 1)
    require_integer("width", width, inputs)
    require_integer("fan_out", fan_out, 1, 2 * width)
    norm, bias = math.sqrt(2 * fan_out), math.sqrt(width)

    def constants(s: float) -> Constants:
        kappa, mu = block_constants((norm, 1.0), (bias, bias), s)
        last = block_constants((2.0,), (0.0,), s)
        return Constants(
            s=s,
            lam=math.sqrt(width),
            sigma_zeta=1 / 3,
            sigma_h=math.inf,
            kappa_xi=block_constants((SPLIT_NORM, ROUNDING_NORM), (0.0, 0.0), s)[0],
            kappa_theta=max(kappa, last[0]),
            mu=max(mu, last[1]),
            mu_0=kappa * math.sqrt(inputs),
        )

    return best_bound(constants, 1.0)


def worst_machine(
    states: int, symbols: int, steps: int, tape: str = "two-way", input_length: int | None = None
) -> tuple[Sizes, Certificate]:
    """Sizes and certificate that hold for all machines of so many states and symbols, compiled for so many steps.

    The certificate is that of a machine whose transitions all lead to one state, which has the largest matrices, the
    1-norm that of one which uses every state, symbol and move. Both classifiers are taken to name every state.
    """
    require_integer("states", states, 1)
    require_integer("symbols", symbols, 1)
    narrow, spread = (
        compile_machine(_machine(states, symbols, tape, everywhere), steps, input_length=input_length)
        for everywhere in (False, True)
    )
    sizes = replace(narrow.sizes(), one_norm=spread.one_norm + states)
    return sizes, certify_machine(narrow, deciding=states)


def _machine(states: int, symbols: int, tape: str, everywhere: bool) -> Machine:
    """A machine all of whose transitions are to state 0, symbol 0 and the right, or one that uses all there are."""
    pair = np.arange(states * symbols).reshape(states, symbols) * everywhere
    return Machine(
        name="all sizes",
        states=tuple(f"q{i}" for i in range(states)),
        alphabet=tuple(f"a{i}" for i in range(symbols)),
        start=0,
        next_state=(pair // symbols).astype(np.int32),
        write=(pair % symbols).astype(np.int32),
        # the boot step moves to the right, so that one transition to the left is enough for both moves
        move=np.where((np.arange(pair.size).reshape(pair.shape) == 0) & everywhere, -1, 1).astype(np.int8),
        tape=tape,
    )


@prediction(
    "approximation/circuits",
    source="SM paper, Theorem 3.1, with the margin by Theorem D.6",
    constants="norm, margin and parameters explicit, for every circuit of these sizes; samples as in Lemma 2.3",
)
def circuit_samples(
    inputs: int,
    depth: int,
    width: int,
    size: int,
    epsilon: float = 0.1,
    fan_out: int | None = None,
    network_width: int | None = None,
) -> dict[str, Any]:
    """Samples with which ReLU networks SM-approximate circuits of q = `depth` layers, r = `width` and s = `size` gates.

        α ≤ 14(s - m) + 3,   w ≥ 2r,   4(q-1) hidden layers,   n = (α² ln p/γ² + 1)/ε² = O(s² r·fan_out·ln(wq)/ε²)

    γ is the certificate of the compiled network: ‖W_1‖ ≤ √(2·fan_out) by its row and column sums, where a gate is read
    at most `fan_out` times (r·2 unless given). So γ falls like 1/√(r·fan_out); like 1/√r only for a bounded fan-out.
    `depth` and `size` count the input layer, as the source does.
    """
    require_integer("inputs", inputs, 1)
    require_integer("depth", depth, 2)
    require_integer("width", width, inputs)
    require_integer("size", size, inputs + depth - 1, width * depth)
    fan = 2 * width if fan_out is None else fan_out
    require_integer("fan_out", fan, 1, 2 * width)
    wide = 2 * width if network_width is None else network_width
    require_integer("network_width", wide, 2 * width)
    hidden = 4 * (depth - 1)
    parameters = wide * inputs + wide + (hidden - 1) * (wide * wide + wide) + wide + 1
    one_norm = 14.0 * (size - inputs) + 3
    bound = worst_circuit(inputs, width, fan)
    return {
        "samples": n_SM(epsilon, one_norm, bound.value, parameters),
        "one_norm": one_norm,
        "margin": bound.value,
        "binding": bound.binding,
        "parameters": parameters,
        "hidden_layers": hidden,
        "vc_samples": vc_order(parameters, hidden) / epsilon**2,
    }


@prediction(
    "approximation/machines",
    source="SM paper, Theorem 4.1, with the margin by Theorem D.6",
    constants="norm, margin and parameters explicit, for every machine of these sizes; samples as in Lemma 2.3",
)
def machine_samples(
    states: int,
    symbols: int,
    steps: int,
    epsilon: float = 0.1,
    tape: Literal["one-way", "two-way"] = "two-way",
    input_length: int | None = None,
) -> dict[str, Any]:
    """Samples with which transformers SM-approximate Turing machines of k states, |A| symbols and T steps.

        n = poly(k, |A|, log T) ln(wd)/ε²

    Width, depth and parameters are those of compiled machines of these sizes. The margin is that of one whose
    transitions all lead to one state, which has the largest matrices, the 1-norm that of one which uses every state,
    symbol and move: so the numbers hold for all machines. T may be up to about 10^7.
    """
    require_integer("states", states, 1)
    require_integer("symbols", symbols, 1)
    sizes, certificate = worst_machine(states, symbols, steps, tape, input_length)
    assert certificate.theorem is not None
    bound, one_norm = certificate.theorem, sizes.one_norm
    return {
        "samples": n_SM(epsilon, one_norm, bound.value, sizes.parameters),
        "one_norm": one_norm,
        "margin": bound.value,
        "margin_refined": certificate.refined,
        "binding": bound.binding,
        "parameters": sizes.parameters,
        "width": sizes.width,
        "layers": sizes.depth,
        "vc_floor": sizes.width * steps,
    }
