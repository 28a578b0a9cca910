"""How large a network is, in the measures that bounds on sample complexity use: ‖θ‖_1, p, width, depth, Π‖W_i‖."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from krogh.errors import KroghError
from krogh.theory.all_layer.operator_norms import operator_norm_bound


@dataclass(frozen=True)
class Sizes:
    """`one_norm` ‖θ‖_1; `parameters` p, zeros and padding among them; `width`; `depth` in layers.

    `log_norm_product` is ln Π‖W_i‖ over all matrices that an input passes on its way, each as often as it passes it:
    what bounds by norms grow with. -inf where a matrix is zero. Norms are bounded from above.
    """

    one_norm: float
    parameters: int
    width: int
    depth: int
    log_norm_product: float

    @property
    def norm_product(self) -> float:
        """Π‖W_i‖; infinite where a float cannot hold it."""
        return math.exp(self.log_norm_product) if self.log_norm_product < 709 else math.inf


def network_sizes(network: Any, length: int | None = None) -> Sizes:
    """The sizes of a compiled circuit, machine, automaton or counting network; `length` of words for an automaton."""
    if hasattr(network, "machine"):
        steps = network.decoder_steps
        each = sum(
            _log_norm(network.parameters[f"L{place}.ff.W{k}"])
            for place in range(1, network.depth + 1)
            for k in (1, 2, 3)
        )
        classifier = _log_norm(np.atleast_2d(network.parameters["cls"]))
        return Sizes(network.one_norm, network.parameter_count, network.width, network.depth, steps * each + classifier)
    if hasattr(network, "network"):
        relu = network.network
        product = sum(_log_norm(layer.weight) for layer in relu.layers)
        return Sizes(relu.one_norm, relu.parameters, relu.width, relu.depth, product)
    if hasattr(network, "table"):
        size = network.size
        product = sum(_log_norm(layer.weight) for layer in network.table.layers) + _log_norm(network.head["V"])
        return Sizes(size["one_norm"], int(size["parameters"]), int(size["width"]), int(size["layers"]), product)
    if hasattr(network, "automaton"):
        size, steps = network.size, length or 0
        each = _log_norm(network.weights["W"])
        each += sum(_log_norm(network.weights[name]) for name in ("V1", "V2") if name in network.weights)
        depth = int(size["layers_per_symbol"]) * steps + 1
        product = steps * each + _log_norm(np.atleast_2d(network.weights["r"]))
        return Sizes(size["one_norm"], int(size["parameters"]), int(size["width"]), depth, product)
    raise KroghError(
        f"sizes are known of compiled circuits, machines, automata and counting networks; got {type(network).__name__}"
    )


def _log_norm(matrix: Any) -> float:
    norm = operator_norm_bound(matrix)
    return math.log(norm) if norm > 0 else -math.inf
