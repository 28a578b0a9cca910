"""Certificates and sizes that hold for all circuits, or all Turing machines, of a given size."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from krogh.errors import require_integer
from krogh.tasks.machines import Machine
from krogh.theory.all_layer.certificates import Certificate
from krogh.theory.all_layer.machine_certificates import certify_machine
from krogh.theory.all_layer.propagation import ROUNDING_NORM, SPLIT_NORM
from krogh.theory.all_layer.sizes import Sizes, network_sizes
from krogh.theory.all_layer.theorem import Constants, TheoremBound, best_bound, block_constants
from krogh.theory.compilers.machines import compile_machine


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
    sizes = replace(network_sizes(narrow), one_norm=spread.one_norm + states)
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
