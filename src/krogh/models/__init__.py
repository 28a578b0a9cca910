"""Who learns: architectures, each saying how its parameters are drawn and how it predicts.

A model lives in one module here and registers itself with `@model("name")`. Nothing here knows of losses,
optimisers or trials. The contract is `Model` in `base.py`; the source's named configurations are in
`configurations.py`.
"""

from krogh.models.base import Model, Parameters, model
from krogh.models.configurations import CONFIGURATIONS, configuration
from krogh.models.mlp import Mlp, power_mlp
from krogh.models.neuron import Neuron
from krogh.models.polynet import DisjointPolyNet, PolyNet
from krogh.models.transformer import ParityTransformer

__all__ = [
    "CONFIGURATIONS",
    "DisjointPolyNet",
    "Mlp",
    "Model",
    "Neuron",
    "Parameters",
    "ParityTransformer",
    "PolyNet",
    "configuration",
    "model",
    "power_mlp",
]
