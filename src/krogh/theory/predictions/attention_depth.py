"""Log covering numbers of stacks of attention blocks of bounded norm: logarithmic in length and dimension."""

from __future__ import annotations

import math
from typing import Any

from krogh.errors import require_integer
from krogh.theory.prediction import prediction
from krogh.theory.predictions.attention_capacity import per_layer
from krogh.theory.predictions.cover_parts import Part, explicit_log_cover, shape_constant
from krogh.theory.predictions.inputs import Variant, check_open, check_variant

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
