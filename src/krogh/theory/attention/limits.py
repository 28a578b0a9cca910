"""What bounds sparse functions of a long context from below, and the norms with which attention represents them.

T is the length of the context, s the number of positions that matter, `length` and `s` in the settings.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from krogh.errors import require, require_integer
from krogh.theory.numerics import ceil_or_inf, exp_or_inf, log_binomial
from krogh.theory.prediction import check_open, is_number, prediction

Mapping = Literal["deterministic", "trainable", "bag"]
"""How a bit string becomes tokens: fixed positions, positions chosen by the construction, a bag of vectors."""
Target = Literal["symmetric", "general"]
"""A function of the number of ones on the support, or of all its bits."""


@prediction("attention/pseudo-dimension", source="dissertation, Proposition 4.8", constants="all explicit")
def pseudo_dimension(length: int) -> dict[str, Any]:
    """Pseudo-dimension, from below, of attention heads with unbounded norm in dimension 3.

        at least floor(log2 T)

    So many sequences of T' = 2^floor(log2 T) tokens are shattered at threshold 1/2 by heads that look at one position
    each, with ||w_QK|| = T'^2. The dimension is defined with one threshold for all points, which makes the bound
    no weaker.
    """
    require_integer("length", length, 1)
    bits = length.bit_length() - 1
    return {"at_least": bits, "shattered_length": 2**bits, "query_key_norm": 4**bits}


@prediction(
    "attention/information-floor",
    source="dissertation, section 4.6",
    constants="all explicit; 'counting' is derived and never below Fano's bound",
)
def information_floor(length: int, s: int, success: float = 1.0) -> dict[str, Any]:
    """Samples that any learner needs to identify the s relevant positions out of T.

        m >= log2 C(T,s) for certainty;  with success probability q: Fano m >= q log2 N - 1, N = C(T,s)

    `counting`: m binary labels take 2^m values, so an answer is right for at most 2^m of N equally likely supports,
    and m >= log2(q N).
    """
    check_support(length, s)
    within = is_number(success) and 0 < success <= 1
    require(within, f"success is a probability greater than 0, at most 1; got success={success!r}")
    bits = log_binomial(length, s) / math.log(2)
    return {
        "bits": bits,
        "samples": ceil_or_inf(_whole(bits)),
        "fano": max(0, ceil_or_inf(_whole(success * bits - 1))),
        "counting": max(0, ceil_or_inf(_whole(bits + math.log2(success)))),
        "order": s * math.log(length),
    }


@prediction(
    "attention/statistical-queries",
    source="dissertation, section 4.6 (cited)",
    constants="order only: T^s with constant 1, beside the count C(T,s); 'parity/sq-limit' has constants",
)
def statistical_queries(length: int, s: int) -> dict[str, Any]:
    """Noisy batch-gradient iterations that an s-sparse parity of T bits costs: Omega(T^s).

    `subsets` = C(T,s) is the number to hold beside the step at which a network finds the parity.
    """
    check_support(length, s)
    logarithm = log_binomial(length, s)
    return {
        "subsets": math.comb(length, s) if logarithm < 690 else math.inf,
        "log10_subsets": logarithm / math.log(10),
        "order": exp_or_inf(s * math.log(length)),
        "log10_order": s * math.log10(length),
    }


@prediction("attention/influence", source="dissertation, section 4.5 (Hahn's limit)", constants="all explicit")
def influence_limit(length: int, s: int, score: float | None = None, gap: float | None = None) -> dict[str, Any]:
    """Influence of one relevant bit on a head that averages s positions: it vanishes unless norms grow with T.

        2 e^R / (s e^R + T + 1 - s)  -> 0 at fixed R;  -> 2 / (s + gap/8) at R = log(8T/gap)

    `score` = R is the score of relevant positions, all others ([CLS] among them) having 0; without it, R is that of
    the construction, log(8T/gap), with gap 2/s (at most 1) unless given. `limit` is the value for T -> infinity.
    """
    check_support(length, s)
    gamma = min(1.0, 2 / s) if gap is None else gap
    check_open("gap", gamma, 0)
    given = math.log(8 * length / gamma) if score is None else score
    require(is_number(given) and math.isfinite(given), f"score must be a finite number; got score={score!r}")
    weight = 1 / (s + (length + 1 - s) * exp_or_inf(-given))
    return {
        "score": given,
        "attention_weight": weight,
        "influence": 2 * weight,
        "limit": 2 / (s + gamma / 8) if score is None else 0.0,
    }


@prediction(
    "attention/norms",
    source="dissertation, Proposition 4.12 and Lemmas A.19-A.25",
    constants="norms of the constructions exact at orthogonal embeddings; the orders have constant 1",
)
def construction_norms(
    length: int, s: int, mapping: Mapping = "deterministic", target: Target = "symmetric", largest: float = 1.0
) -> dict[str, Any]:
    """Frobenius norms with which attention and an MLP represent every s-sparse Boolean function of T bits.

        ||W_Q|| = O(log(Ts)), ||W_K||, ||W_V||, ||W_C|| = O(s);  MLP poly(s) (symmetric) or 2^s poly(s) (general)

    `heads` are summed, each with these norms. `hidden` and `mlp_width` are the widths of the MLP that memorises, with
    matrices W_1, W_2 and read-out w, whose norm is at most `readout` for functions of size at most `largest`.
    `sparse_enough`, s / log T, must be small for capacity bounds and representation together to mean something.
    """
    check_support(length, s)
    for name, choice, kind in (("mapping", mapping, Mapping), ("target", target, Target)):
        require(choice in get_args(kind), f"{name} must be one of {', '.join(get_args(kind))}; got {name}={choice!r}")
    check_open("largest", largest, 0)
    bag, symmetric = mapping == "bag", target == "symmetric"
    gamma = 1 / s if bag else min(1.0, 2 / s) if symmetric else 1.0
    n, features, squares = _memorised(s, bag, symmetric)
    delta = gamma / 4
    first = 4 * (n * features + squares) / delta**2 + 10 * n * features
    second = 8 * n * features / delta**2 + n * ((1 - features / delta) ** 2 + (features / delta) ** 2)
    heads = 1 if symmetric or bag else s
    key = s + 1 if bag else s if symmetric and mapping == "deterministic" else 1
    output = s if bag else 1
    return {
        "heads": heads,
        "gap": gamma,
        "query": math.log(8 * length * (s if bag else 1) / gamma),
        "key": math.sqrt(key),
        "value": math.sqrt(2 * s if bag else 2),
        "output": math.sqrt(output),
        "points": n,
        "hidden": 4 * n * features,
        "mlp_width": 2 * n,
        "first": math.sqrt(first),
        "second": math.sqrt(second),
        "readout": largest * math.sqrt(2 * n),
        "order_query": math.log(length * s),
        "order_attention": s,
        "sparse_enough": s / math.log(length) if length > 1 else math.inf,
    }


def _memorised(s: int, bag: bool, symmetric: bool) -> tuple[int, int, float]:
    """Of the points at which the MLP memorises: how many, in what dimension, and the sum of all squared entries."""
    if symmetric:
        points = [(r - s) / (r + 1) if bag else 1 - 2 * r / s for r in range(s + 1)]
        return s + 1, 1, math.fsum(x * x for x in points)
    if not bag:
        return 2**s, s, float(s * 2**s)
    return 2**s, s, math.fsum(math.comb(s, r) * (s - r) / (r + 1) ** 2 for r in range(s + 1))


def _whole(bits: float) -> float:
    """`bits`, moved to the whole number it is but for rounding: log2 of a power of two must not be rounded up."""
    return round(bits) if abs(bits - round(bits)) < 1e-9 else bits


def check_support(length: int, s: int) -> None:
    """Require 1 <= s <= T."""
    require_integer("length", length, 1)
    require_integer("s", s, 1)
    require(
        s <= length, f"s relevant positions need a context of length >= s; got length={length}, s={s} (try s={length})"
    )
