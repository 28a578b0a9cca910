"""Log covering numbers of attention heads, sums of heads and stacks of blocks, of bounded norm.

All are logarithmic in the length of the context and in the dimension. Settings that name weights bound norms: `value`
||W_V||, `value_21` ||W_V||_{2,1}, `query_key` ||W_QK|| and `query_key_21` the sum of the row norms of W_QK = W_Q W_K^T,
`output` and `output_21` those of W_C (see `krogh.theory.numerics.attention_norms`). Each class is a list of `Part`s,
the linear maps inside it. Source: dissertation, sections 4.4 and A.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize

from krogh.errors import require, require_integer
from krogh.theory.attention.covering import Part, explicit_log_cover, matrix_log_cover, shape_constant
from krogh.theory.prediction import Variant, check_counts, check_open, check_positive, is_number, prediction


@dataclass(frozen=True)
class Contexts:
    """What a class is covered on: m = `samples` contexts of T = `length` tokens in R^d, d = `dimension`."""

    length: int
    samples: int
    dimension: int

    def __post_init__(self) -> None:
        check_counts(length=self.length, samples=self.samples, dimension=self.dimension)

    @property
    def tokens(self) -> int:
        """m T."""
        return self.samples * self.length

    @property
    def log(self) -> float:
        """log(d m T)."""
        return math.log(self.dimension * self.tokens)


@dataclass(frozen=True)
class HeadNorms:
    """What bounds a simplified head s(W_V^T X^T softmax(X W_QK^T x_q)): norms of its weights, tokens and query.

    `query_norm` bounds the query token, 1 in the source; s is `activation_lipschitz`-Lipschitz with s(0) = 0.
    """

    value: float = 1.0
    value_21: float = 1.0
    query_key_21: float = 1.0
    token_norm: float = 1.0
    query_norm: float = 1.0
    activation_lipschitz: float = 1.0

    def __post_init__(self) -> None:
        check_positive(**vars(self))

    @property
    def largest(self) -> float:
        """L B_V B_X, the largest output."""
        return self.activation_lipschitz * self.value * self.token_norm

    def parts(self, contexts: Contexts, readout: float = 1.0) -> list[Part]:
        """The two maps of the head, read on all tokens, with a fixed linear read-out of norm `readout`.

        An error e in W_QK x moves a score by ||x_q|| e and the output by 2 L B_V B_X times that; one in W_V^T x by L e.
        """
        factor, seen = readout * self.activation_lipschitz, self.token_norm
        weight = 2 * factor * self.value * seen * self.query_norm
        scores = Part(weight, self.query_key_21, seen, contexts.tokens, contexts.dimension)
        return [scores, Part(factor, self.value_21, seen, contexts.tokens, contexts.dimension)]


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


@prediction(
    "attention/head-capacity",
    source="dissertation, Theorem 4.6, Corollary 4.9 and Lemma A.11",
    constants="'explicit' has every constant; 'shape' has constant 1 and hides logarithms",
)
def head_capacity(
    contexts: Contexts,
    scale: float,
    norms: HeadNorms,
    position_norm: float = 0.0,
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
    check_open("scale", scale, 0)
    require(
        is_number(position_norm) and position_norm >= 0,
        f"position_norm must be a number, 0 without positions; got position_norm={position_norm!r}",
    )
    if readout is not None:
        check_open("readout", readout, 0)
    norms = HeadNorms(**vars(norms) | {"token_norm": norms.token_norm + position_norm})
    outer = 1.0 if readout is None else readout
    constant, log = shape_constant(norms.parts(contexts, outer)), contexts.log
    if variant == "printed":
        factor = norms.activation_lipschitz * norms.token_norm * outer
        constant = factor**2 * (norms.value_21 ** (2 / 3) + (norms.query_key_21 * norms.value) ** (2 / 3)) ** 3
        log = math.log(contexts.tokens)

    def cover(norm: float) -> Callable[[float], float]:
        return lambda eps: matrix_log_cover(norm, norms.token_norm, eps, contexts.tokens, contexts.dimension)[0]

    explicit, share = general_head_log_cover(
        cover(norms.query_key_21 * norms.query_norm),
        cover(norms.value_21),
        scale,
        input_bound=norms.value,
        token_norm=norms.token_norm,
        out_lipschitz=norms.activation_lipschitz,
        readout=readout,
    )
    return {"shape": constant * log / scale**2, "explicit": explicit, "score_share": share}


@dataclass(frozen=True)
class HeadwiseNorms:
    """The norms of several heads, given one per head or one for all, and what they have in common."""

    value: tuple[float, ...] = (1.0,)
    value_21: tuple[float, ...] = (1.0,)
    query_key_21: tuple[float, ...] = (1.0,)
    token_norm: float = 1.0
    query_norm: float = 1.0
    activation_lipschitz: float = 1.0

    def each(self, heads: int) -> list[HeadNorms]:
        """The norms of every head."""
        own = ("value", "value_21", "query_key_21")
        numbers = [per_layer(name, getattr(self, name), heads, "head") for name in own]
        common = {name: number for name, number in vars(self).items() if name not in own}
        return [HeadNorms(*head, **common) for head in zip(*numbers, strict=True)]


@prediction(
    "attention/multi-head-capacity",
    source="dissertation, Lemma A.12",
    constants="'explicit' has every constant (derived); 'shape' has constant 1 and hides logarithms",
)
def multi_head_capacity(
    contexts: Contexts, heads: int, scale: float, norms: HeadwiseNorms, variant: Variant = "repaired"
) -> dict[str, Any]:
    """Log covering number of a sum of H attention heads: H^3 times that of one where all have the same norms.

        shape (L B_X)^2 [sum_h (B_V^{2,1})^{2/3} + (2 B_QK^{2,1} B_V B_X ||x_q||)^{2/3}]^3 log(d m T) / eps^2

    Norms are given one per head, or one for all. Printed: without B_X and ||x_q|| inside.
    """
    check_open("scale", scale, 0)
    require_integer("heads", heads, 1)
    each = norms.each(heads)
    parts = [part for head in each for part in head.parts(contexts)]
    constant = shape_constant(parts)
    if variant == "printed":
        printed = ((head.value_21, 2 * head.query_key_21 * head.value) for head in each)
        summed = math.fsum(values ** (2 / 3) + scores ** (2 / 3) for values, scores in printed)
        constant = (norms.activation_lipschitz * norms.token_norm) ** 2 * summed**3
    return {"shape": constant * contexts.log / scale**2, "explicit": float(explicit_log_cover(parts, scale))}


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


class Block(NamedTuple):
    """The norms of one block."""

    value: float
    value_21: float
    query_key: float
    query_key_21: float
    output: float
    output_21: float

    def gain(self, lipschitz: float) -> float:
        """L B_C B_V (1 + 4 B_QK): how much the block can stretch a change of its input (Lemma A.15)."""
        return lipschitz * self.output * self.value * (1 + 4 * self.query_key)


@dataclass(frozen=True)
class StackNorms:
    """What bounds L attention blocks with a linear read-out: norms are given one per block, or one for all.

    Values have `head_dimension` = k coordinates (d unless given).
    """

    head_dimension: int | None = None
    value: tuple[float, ...] = (1.0,)
    value_21: tuple[float, ...] = (1.0,)
    query_key: tuple[float, ...] = (1.0,)
    query_key_21: tuple[float, ...] = (1.0,)
    output: tuple[float, ...] = (1.0,)
    output_21: tuple[float, ...] = (1.0,)
    readout: float = 1.0
    activation_lipschitz: float = 1.0

    def __post_init__(self) -> None:
        if self.head_dimension is not None:
            require_integer("head_dimension", self.head_dimension, 1)
        check_positive(readout=self.readout, activation_lipschitz=self.activation_lipschitz)

    def blocks(self, depth: int) -> list[Block]:
        """The norms of every block."""
        numbers = [per_layer(name, getattr(self, name), depth, "layer") for name in Block._fields]
        return [Block(*block) for block in zip(*numbers, strict=True)]

    def parts(self, contexts: Contexts, depth: int) -> list[Part]:
        """The read-out and the three maps of every block, weighted by the gains of the blocks after it."""
        s, k = self.activation_lipschitz, self.head_dimension or contexts.dimension
        blocks, tokens, d = self.blocks(depth), contexts.tokens, contexts.dimension
        found = [Part(1.0, self.readout, 1.0, contexts.samples, None)]
        for i, block in enumerate(blocks):
            weight = self.readout * math.prod(later.gain(s) for later in blocks[i + 1 :])
            through = weight * s * block.output
            found.append(Part(weight, block.output_21, s, tokens, d))
            found.append(Part(2 * through * block.value, block.query_key_21, 1.0, tokens, d))
            found.append(Part(through, block.value_21, 1.0, tokens, k))
        return found

    def printed(self, dimension: int, depth: int) -> float:
        """The bracket of Theorem A.17, cubed, as printed."""
        s, k = self.activation_lipschitz, self.head_dimension or dimension
        total, gain = self.readout ** (2 / 3), 1.0
        for block in self.blocks(depth):
            scores = dimension * 2 * s * block.output * block.value * block.query_key_21
            values = k * s * block.output * block.value_21
            bracket = block.output_21 ** (2 / 3) + scores ** (2 / 3) + values ** (2 / 3)
            total += gain ** (2 / 3) * bracket
            gain *= block.gain(s)
        return total**3


@prediction(
    "attention/depth-capacity",
    source="dissertation, Theorems A.17 and 4.11",
    constants="'explicit' has every constant (derived); the shapes have constant 1 and hide logarithms",
)
def depth_capacity(
    contexts: Contexts,
    depth: int,
    scale: float,
    norms: StackNorms,
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
    check_counts(depth=depth)
    check_positive(scale=scale, token_norm=token_norm, exponent=exponent)
    blocks, parts, s = norms.blocks(depth), norms.parts(contexts, depth), norms.activation_lipschitz
    constant = shape_constant(parts) if variant == "repaired" else norms.printed(contexts.dimension, depth)
    largest = max(max(block.value, block.query_key, block.output) for block in blocks)
    largest_21 = max(max(block.value_21, block.query_key_21, block.output_21) for block in blocks)
    logs = contexts.log / scale**2
    simplified = (largest * s) ** (exponent * depth) * (token_norm * norms.readout * largest_21) ** 2
    return {
        "shape": constant * logs,
        "simplified_shape": simplified * logs,
        "explicit": float(explicit_log_cover(parts, scale)),
        "gains": [block.gain(s) for block in blocks],
    }
