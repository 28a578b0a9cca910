"""What no training can mend: too few heads, and a first layer that saw too few samples.

`krogh.theory.tokens.witnesses` has predictors that attain these floors. Source: qSTR paper, sections 3.1 and 4.
"""

from __future__ import annotations

import math
from typing import Any

from krogh.errors import require
from krogh.theory.prediction import check_counts, is_number, prediction


@prediction(
    "qstr/head-floor",
    source="qSTR paper, Proposition 3 (section 3.1) and Proposition 21 (appendix A.2)",
    constants="all explicit; 'floor_sharper' is derived from the proof of Proposition 3",
)
def head_floor(sparsity: int, dimension: int, heads: int) -> dict[str, Any]:
    """Risk that a one-layer Transformer of H heads cannot go below, whatever its weights and its head.

        any attention: 1 - H(q+d)/(qd);   no attention between data and codes: 1 - H/q

    Label: centred squared norms of q tokens over sqrt(qd); tokens of the second half are zero, where the indices
    are (1..q). Each head shows d functionals of the relevant tokens and, through scores that read tokens, q
    more. Derived and sharper: the H d functionals a_h (x) e_r and the H q functionals e_j (x) w_h leave out
    the product of two orthogonal complements, of dimension (q-H)(d-H) for H < min(q, d), so the floor is
    (1 - H/q)(1 - H/d), positive for every H < min(q, d), where the printed one ends at H = qd/(q+d).
    Proposition 21 is stated for d = 1; its proof gives the same floor for every d. Floors are cut off at 0.
    """
    check_counts(sparsity=sparsity, dimension=dimension, heads=heads)
    q, d = sparsity, dimension
    return {
        "floor": max(0.0, 1 - heads * (q + d) / (q * d)),
        "floor_sharper": max(0.0, 1 - heads / q) * max(0.0, 1 - heads / d),
        "floor_separated": max(0.0, 1 - heads / q),
        "vacuous": heads * (q + d) >= q * d,
        "heads_needed": -(-q * d // (q + d)),
        "heads_needed_sharper": min(q, d),
        "heads_needed_separated": q,
    }


@prediction(
    "qstr/feedforward-floor",
    source="qSTR paper, Theorem 6 (section 4, appendix B)",
    constants="all explicit; for the worst (or the average) direction u, with probability 1 over the samples",
)
def feedforward_floor(samples: int, length: int, dimension: int, target: float = 0.0) -> dict[str, Any]:
    """Risk of every feedforward network trained to a stationary point with weight decay, on simple-1STR.

        risk >= 1 - n/(Nd) for some u (and on average over u);  0 beyond n = Nd

    The first layer, of any width, lies in the span of the training inputs, and the best predictor that sees
    only that span has this risk. Holds too for minimum-norm solutions. `samples_needed` are those below which
    no such network reaches the risk `target`.
    """
    check_counts(samples=samples, length=length, dimension=dimension)
    within = is_number(target) and 0 <= target < 1
    require(within, f"target must be a risk in [0, 1), where 1 is that of the zero predictor; got target={target!r}")
    size = length * dimension
    return {
        "floor": max(0.0, 1 - samples / size),
        "inputs": size,
        "samples_needed": math.ceil((1 - target) * size * (1 - 1e-12)),
    }
