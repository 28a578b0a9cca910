"""Parities in the weights that one gradient step leaves behind from a sparse start (dissertation, section C.2).

    parity/over-sparse     the good neurons of an over-sparse start after its step, and their read-out (Lemma C.6)
    parity/under-sparse    the good neurons of an under-sparse start after a truncated step (Theorem C.16)

Both are two-layer ReLU networks whose first layer is the population's gradient step in closed form; the second is
solved for. The first is the limit of many ones, where nothing is left on irrelevant coordinates; the second has what is
left there, and is inexact by a bound that is part of its statement.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from krogh.errors import require
from krogh.models import Mlp
from krogh.networks.handmade import Construction, construction
from krogh.networks.parity import ParityTable, indicator, parity_construction, parity_task
from krogh.theory.boolean.sparse_starts import (
    check_sparsity,
    default_epsilon,
    over_sparse_biases,
    over_sparse_read_out,
    under_sparse_neuron,
)
from krogh.theory.prediction import check_open


@construction("parity/over-sparse", source="dissertation, Lemma C.6 (repaired)")
def over_sparse(
    n: int, k: int | None = None, support: tuple[int, ...] | None = None, offset: float = 1 / 16
) -> Construction:
    """Width k, from the features that good over-sparse neurons tend to as s grows, with the read-out of the parity.

        f = v_0 + Σ_j v_j^+ relu(a·x + b_j) + v_j^- relu(-a·x + b_j) = chi_S,  a = 1/(2k) on S
        b_j = (-k + 2j + offset)/(2k),  j = 0..k/2-1

    k even. After their first step neurons of s ones have c/(2k|C|), of size (k-1)/(2k(s-k)), on their other coordinates
    as well (`krogh.theory.boolean.sparse_starts.over_sparse_gradient`). Printed: without j = 0, and v does not exist.
    """
    task = parity_task(n, k, support)
    k = task.k
    biases, v = over_sparse_biases(k, offset), over_sparse_read_out(k, offset)
    direction = indicator(task) / (2 * k)
    params = {
        "W": np.concatenate([np.tile(direction, (k // 2, 1)), np.tile(-direction, (k // 2, 1))]),
        "b": np.tile(biases, 2),
        "u": v[1:],
        "c": v[0],
    }
    rounding = 1e-12 * float(np.abs(v).sum())
    return parity_construction(
        "parity/over-sparse",
        task,
        Mlp(k, output_bias=True),
        params,
        k,
        "u·relu(Wx + b) + c",
        tolerance=max(1e-9, rounding),
    )


@construction("parity/under-sparse", source="dissertation, Theorem C.16 (read-out derived)")
def under_sparse(
    n: int,
    k: int | None = None,
    support: tuple[int, ...] | None = None,
    s: int = 2,
    epsilon: float | None = None,
    twin: bool = False,
) -> Construction:
    """Width k: a good under-sparse neuron after one truncated step, with each of k biases.

        w = eps/(2k) · (1 on s coordinates of S, ±1 + eps on the others of S, eps elsewhere),  b_j = -eps o_j/(2k)
        F = (-1)^k + Σ_j a_j (2k/eps) relu(w·x + b_j),  o_j = -k-1+2j,  a_j = (-1)^(k+j) (4j-2),  j = 1..k

    |F - chi_S| ≤ 2k eps (n-s), so that its sign is right where 2k eps (n-s) < 1; eps = 1/(4k(n-s)) unless given. The
    `twin`, of the other output weight, has -1 + eps in place of 1 + eps: an even number of signs flipped, and the same
    parity.
    """
    task = parity_task(n, k, support)
    k, members = task.k, tuple(int(i) for i in np.asarray(task.support))
    check_sparsity(n, k, s, "under")
    small = default_epsilon(n, k, s) if epsilon is None else epsilon
    check_open("epsilon", small, 0)
    error = 2 * k * small * (n - s)
    require(
        error < 1,
        f"the read-out has the right sign where 2k(n-s) epsilon < 1; got epsilon={small!r} "
        f"(try less than {1 / (2 * k * (n - s)):.3g})",
    )
    unit = small / (2 * k)
    w = np.full(n, small)
    w[list(members)] = (-1.0 if twin else 1.0) + small
    w[list(members[:s])] = 1.0
    j = np.arange(1, k + 1)
    kinks = -k - 1 + 2 * j
    params: dict[str, Any] = {
        "W": np.tile(unit * w, (k, 1)),
        "b": -unit * kinks,
        "u": (-1.0) ** (k + j) * (4 * j - 2) / unit,
        "c": (-1.0) ** k,
    }
    statement = f"|u·relu(Wx + b) + c - chi_S(x)| ≤ {error:.6g} for every x in {{-1,+1}}^{n}, S = {set(members)}"
    oracle = ParityTable(n, members)
    model = Mlp(k, output_bias=True)
    return Construction("parity/under-sparse", task, model, params, statement, k, oracle, error + 1e-9)


def truncated_step(n: int, k: int, s: int, epsilon: float | None = None) -> dict[str, float]:
    """Rate, decay and cut-off of the step that makes a good under-sparse neuron a feature of the parity.

        (1 - decay) w - rate · trunc(gradient, cut-off):  decay = 1 - eps/(2k),  rate = eps/(2k|xi_rel|)

    The cut-off is half-way between |xi_irr| and |xi_rel|. Printed: a negative rate, and |xi_irr|.
    """
    numbers = under_sparse_neuron(n, k, s)
    small = numbers["epsilon"] if epsilon is None else epsilon
    relevant, irrelevant = abs(numbers["relevant"]), abs(numbers["irrelevant"])
    require(relevant > irrelevant, f"a good neuron's gradient does not point at S at n={n}, k={k}, s={s}")
    return {
        "rate": small / (2 * k * relevant),
        "decay": 1 - small / (2 * k),
        "cut_off": math.fsum((relevant, irrelevant)) / 2,
    }
