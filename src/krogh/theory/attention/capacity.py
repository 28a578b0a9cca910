"""Log covering numbers of stacks of attention blocks of bounded norm: logarithmic in length and dimension.

Log covering numbers of attention heads of bounded norm: logarithmic in the context length.

Settings that name weights bound norms: `value` ||W_V||, `value_21` ||W_V||_{2,1}, `query_key_21` the sum of the
row norms of W_QK = W_Q W_K^T (see `krogh.theory.numerics.attention_norms`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize

from krogh.errors import require, require_integer
from krogh.theory.attention.covering import Part, explicit_log_cover, matrix_log_cover, shape_constant
from krogh.theory.prediction import Variant, check_open, check_variant, is_number, prediction


def general_head_log_cover(
    score_cover: Callable[[float], float],
    input_cover: Callable[[float], float],
    scale: float,
    *,
    input_bound: float,
    token_norm: float,
    out_lipschitz: float = 1.0,
    norm_jacobian: float = 2.0,
    readout: float | None = None,
) -> tuple[float, float]:
    """log covering number of general attention heads, and the share alpha of eps spent on scores (Theorem 4.6).

        inf over alpha of  log N(F_score; alpha eps / (C_Norm L_out B_in B_X)) + log N(F_in; (1-alpha) eps / L_out)

    `score_cover` and `input_cover` take a scale to the log covering number on all m T tokens. With `readout` = B_w
    the class is w.f(X) for a fixed w, ||w|| <= B_w, and eps is divided by B_w.
    """
    check_open("scale", scale, 0)
    eps = scale if readout is None else scale / readout

    def cost(alpha: float) -> float:
        scores = alpha * eps / (norm_jacobian * out_lipschitz * input_bound * token_norm)
        return float(score_cover(scores)) + float(input_cover((1 - alpha) * eps / out_lipschitz))

    grid = np.linspace(0, 1, 66)[1:-1]
    costs = [cost(alpha) for alpha in grid]
    best = int(np.argmin(costs))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    refined = optimize.minimize_scalar(cost, bounds=around, method="bounded", options={"xatol": 1e-5})
    return (float(refined.fun), float(refined.x)) if refined.fun < costs[best] else (costs[best], float(grid[best]))


def head_parts(
    tokens: float,
    dimension: int,
    *,
    value: float = 1.0,
    value_21: float = 1.0,
    query_key_21: float = 1.0,
    token_norm: float = 1.0,
    query_norm: float = 1.0,
    activation_lipschitz: float = 1.0,
    readout: float = 1.0,
) -> list[Part]:
    """The two maps of one simplified head, s(W_V^T X^T softmax(X W_QK^T x_q)), read on `tokens` = m T vectors.

    An error e in W_QK x moves a score by ||x_q|| e and the output by 2 L B_V B_X times that; one in W_V^T x by L e.
    """
    factor = readout * activation_lipschitz
    scores = Part(2 * factor * value * token_norm * query_norm, query_key_21, token_norm, tokens, dimension)
    values = Part(factor, value_21, token_norm, tokens, dimension)
    return [scores, values]


@prediction(
    "attention/head-capacity",
    source="dissertation, Theorem 4.6, Corollary 4.9 and Lemma A.11",
    constants="'explicit' has every constant; 'shape' has constant 1 and hides logarithms",
)
def head_capacity(
    length: int,
    samples: int,
    dimension: int,
    scale: float,
    value: float = 1.0,
    value_21: float = 1.0,
    query_key_21: float = 1.0,
    token_norm: float = 1.0,
    position_norm: float = 0.0,
    query_norm: float = 1.0,
    activation_lipschitz: float = 1.0,
    readout: float | None = None,
    variant: Variant = "repaired",
) -> dict[str, Any]:
    """Log covering number of one attention head on m contexts of T tokens: logarithmic in T.

        shape (L B_X)^2 [(B_V^{2,1})^{2/3} + (2 B_QK^{2,1} B_V B_X ||x_q||)^{2/3}]^3 log(d m T) / eps^2

    Printed (Corollary 4.9): without the 2, B_X and ||x_q|| inside, and log(m T). Fixed positional embeddings of norm
    at most `position_norm` add to the token norm (Lemma A.11); trained ones may cost a factor T, for which there is
    no formula. `query_norm` bounds the query token, 1 in the source. `readout` = B_w makes the class scalar, with a
    fixed w. `score_share` is the share of eps spent on scores at the explicit optimum. For scaling, not for numbers.
    """
    _check_data(length, samples, dimension, scale)
    norms = {"value": value, "value_21": value_21, "query_key_21": query_key_21, "token_norm": token_norm}
    norms |= {"query_norm": query_norm, "activation_lipschitz": activation_lipschitz}
    for name, given in norms.items():
        check_open(name, given, 0)
    require(
        is_number(position_norm) and position_norm >= 0,
        f"position_norm must be a number, 0 without positions; got position_norm={position_norm!r}",
    )
    if readout is not None:
        check_open("readout", readout, 0)
    check_variant(variant)
    norms["token_norm"] = seen = token_norm + position_norm
    parts = head_parts(samples * length, dimension, **norms, readout=1.0 if readout is None else readout)
    constant, log = shape_constant(parts), math.log(dimension * samples * length)
    if variant == "printed":
        outer = activation_lipschitz * seen * (1.0 if readout is None else readout)
        constant = outer**2 * (value_21 ** (2 / 3) + (query_key_21 * value) ** (2 / 3)) ** 3
        log = math.log(samples * length)
    explicit, share = general_head_log_cover(
        lambda eps: matrix_log_cover(query_key_21 * query_norm, seen, eps, samples * length, dimension)[0],
        lambda eps: matrix_log_cover(value_21, seen, eps, samples * length, dimension)[0],
        scale,
        input_bound=value,
        token_norm=seen,
        out_lipschitz=activation_lipschitz,
        readout=readout,
    )
    return {"shape": constant * log / scale**2, "explicit": explicit, "score_share": share}


@prediction(
    "attention/multi-head-capacity",
    source="dissertation, Lemma A.12",
    constants="'explicit' has every constant (derived); 'shape' has constant 1 and hides logarithms",
)
def multi_head_capacity(
    length: int,
    samples: int,
    dimension: int,
    heads: int,
    scale: float,
    value: tuple[float, ...] = (1.0,),
    value_21: tuple[float, ...] = (1.0,),
    query_key_21: tuple[float, ...] = (1.0,),
    token_norm: float = 1.0,
    query_norm: float = 1.0,
    activation_lipschitz: float = 1.0,
    variant: Variant = "repaired",
) -> dict[str, Any]:
    """Log covering number of a sum of H attention heads: H^3 times that of one where all have the same norms.

        shape (L B_X)^2 [sum_h (B_V^{2,1})^{2/3} + (2 B_QK^{2,1} B_V B_X ||x_q||)^{2/3}]^3 log(d m T) / eps^2

    Norms are given one per head, or one for all. Printed: without B_X and ||x_q|| inside.
    """
    _check_data(length, samples, dimension, scale)
    require_integer("heads", heads, 1)
    norms = {"value": value, "value_21": value_21, "query_key_21": query_key_21}
    per_head = {name: per_layer(name, given, heads, "head") for name, given in norms.items()}
    common = {"token_norm": token_norm, "query_norm": query_norm, "activation_lipschitz": activation_lipschitz}
    for name, given in common.items():
        check_open(name, given, 0)
    check_variant(variant)
    parts = []
    for head in range(heads):
        mine = {name: numbers[head] for name, numbers in per_head.items()}
        parts += head_parts(samples * length, dimension, **mine, **common)
    constant = shape_constant(parts)
    if variant == "printed":
        each = zip(per_head["value_21"], per_head["query_key_21"], per_head["value"], strict=True)
        summed = math.fsum(v21 ** (2 / 3) + (2 * qk * v) ** (2 / 3) for v21, qk, v in each)
        constant = (activation_lipschitz * token_norm) ** 2 * summed**3
    return {
        "shape": constant * math.log(dimension * samples * length) / scale**2,
        "explicit": float(explicit_log_cover(parts, scale)),
    }


def per_layer(name: str, given: tuple[float, ...] | float, count: int, kind: str) -> tuple[float, ...]:
    """One number per layer (or head), where a single one stands for all; positive and as many as asked for."""
    numbers = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    require(
        len(numbers) in (1, count),
        f"{name} needs one number, or one per {kind} ({count}); got {len(numbers)}: {name}={given!r}",
    )
    for number in numbers:
        check_open(name, number, 0)
    return numbers * count if len(numbers) == 1 else numbers


def _check_data(length: int, samples: int, dimension: int, scale: float) -> None:
    require_integer("length", length, 1)
    require_integer("samples", samples, 1)
    require_integer("dimension", dimension, 1)
    check_open("scale", scale, 0)


_NORMS = ("value", "value_21", "query_key", "query_key_21", "output", "output_21")


@prediction(
    "attention/depth-capacity",
    source="dissertation, Theorems A.17 and 4.11",
    constants="'explicit' has every constant (derived); the shapes have constant 1 and hide logarithms",
)
def depth_capacity(
    length: int,
    samples: int,
    dimension: int,
    depth: int,
    scale: float,
    head_dimension: int | None = None,
    value: tuple[float, ...] = (1.0,),
    value_21: tuple[float, ...] = (1.0,),
    query_key: tuple[float, ...] = (1.0,),
    query_key_21: tuple[float, ...] = (1.0,),
    output: tuple[float, ...] = (1.0,),
    output_21: tuple[float, ...] = (1.0,),
    readout: float = 1.0,
    activation_lipschitz: float = 1.0,
    token_norm: float = 1.0,
    exponent: float = 1.0,
    variant: Variant = "repaired",
) -> dict[str, Any]:
    """Log covering number of L attention blocks with a linear read-out, on m contexts of T tokens.

        shape ( B_w^{2/3} + sum_i (B_w a_i)^{2/3} [ (L B_C^{2,1})^{2/3} + (2 L B_C B_V B_QK^{2,1})^{2/3}
                + (L B_C B_V^{2,1})^{2/3} ] )^3 log(d m T) / eps^2,   a_i = prod_{j>i} L B_C B_V (1 + 4 B_QK)

    Printed (Theorem A.17): the product over j<i, no B_w in the sum, no L at B_C^{2,1}, and factors d^{2/3} at the
    second and k^{2/3} at the third term, which contradict "only logarithmic in d". Norms are given one per layer,
    or one for all; tokens of the first layer have norm at most 1. `simplified_shape` (Theorem 4.11) is
    (C_2 L)^(exponent * depth) B_X^2 B_w^2 C_{2,1}^2 log(d m T) / eps^2 with the largest norms; its exponent is hidden
    in the source. `gains` are L B_C B_V (1 + 4 B_QK), up to 5 even where every spectral norm is 1.
    """
    for name, count in (("length", length), ("samples", samples), ("dimension", dimension), ("depth", depth)):
        require_integer(name, count, 1)
    k = dimension if head_dimension is None else head_dimension
    require_integer("head_dimension", k, 1)
    single = {"scale": scale, "readout": readout, "activation_lipschitz": activation_lipschitz}
    for name, number in (single | {"token_norm": token_norm, "exponent": exponent}).items():
        check_open(name, number, 0)
    check_variant(variant)
    given = (value, value_21, query_key, query_key_21, output, output_21)
    norms = {name: per_layer(name, each, depth, "layer") for name, each in zip(_NORMS, given, strict=True)}
    layers = [{name: numbers[i] for name, numbers in norms.items()} for i in range(depth)]
    s = activation_lipschitz
    gains = [s * layer["output"] * layer["value"] * (1 + 4 * layer["query_key"]) for layer in layers]
    parts = [Part(1.0, readout, 1.0, samples, None)]
    for i, layer in enumerate(layers):
        weight = readout * math.prod(gains[i + 1 :])
        through = weight * s * layer["output"]
        parts.append(Part(weight, layer["output_21"], s, samples * length, dimension))
        parts.append(Part(2 * through * layer["value"], layer["query_key_21"], 1.0, samples * length, dimension))
        parts.append(Part(through, layer["value_21"], 1.0, samples * length, k))
    constant = shape_constant(parts) if variant == "repaired" else _printed(layers, gains, readout, s, dimension, k)
    largest = max(max(norms[name]) for name in ("value", "query_key", "output"))
    largest_21 = max(max(norms[name]) for name in ("value_21", "query_key_21", "output_21"))
    logs = math.log(dimension * samples * length) / scale**2
    simplified = (largest * s) ** (exponent * depth) * (token_norm * readout * largest_21) ** 2
    return {
        "shape": constant * logs,
        "simplified_shape": simplified * logs,
        "explicit": float(explicit_log_cover(parts, scale)),
        "gains": gains,
    }


def _printed(
    layers: list[dict[str, float]], gains: list[float], readout: float, s: float, dimension: int, k: int
) -> float:
    """The bracket of Theorem A.17, cubed, as printed."""
    total = readout ** (2 / 3)
    for i, layer in enumerate(layers):
        scores = dimension * 2 * s * layer["output"] * layer["value"] * layer["query_key_21"]
        values = k * s * layer["output"] * layer["value_21"]
        bracket = layer["output_21"] ** (2 / 3) + scores ** (2 / 3) + values ** (2 / 3)
        total += math.prod(gains[:i]) ** (2 / 3) * bracket
    return total**3
