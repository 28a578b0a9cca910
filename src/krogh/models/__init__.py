"""Who learns: architectures, each saying how its parameters are drawn and how it predicts.

A model lives in one module here and registers itself with `@model("name")`. Nothing here knows of losses,
optimisers or trials. The contract is `Model` in `base.py`; the source's named configurations are in
`configurations.py`.
"""

from krogh.models.attention_blocks import AttentionBlocks
from krogh.models.attention_mlp import AttentionMlp
from krogh.models.base import Learner, Model, Parameters, model
from krogh.models.configurations import CONFIGURATIONS, configuration
from krogh.models.feedforward import Feedforward
from krogh.models.homogeneous import HomogeneousNetwork
from krogh.models.linear_attention import LinearAttention
from krogh.models.lipschitz_rnn import LipschitzRnn
from krogh.models.merged_attention import MergedAttention
from krogh.models.mlp import Mlp, power_mlp
from krogh.models.neuron import Neuron
from krogh.models.pair_network import PairNetwork
from krogh.models.polynet import DisjointPolyNet, PolyNet
from krogh.models.power_network import PowerNetwork
from krogh.models.recurrent import Recurrent
from krogh.models.residual_rnn import ResidualRnn
from krogh.models.sparse_transformer import SparseTransformer
from krogh.models.state_space import StateSpace
from krogh.models.token_attention import TokenAttention
from krogh.models.transformer import ParityTransformer

__all__ = [
    "CONFIGURATIONS",
    "AttentionBlocks",
    "AttentionMlp",
    "DisjointPolyNet",
    "Feedforward",
    "HomogeneousNetwork",
    "Learner",
    "LinearAttention",
    "LipschitzRnn",
    "MergedAttention",
    "Mlp",
    "Model",
    "Neuron",
    "PairNetwork",
    "Parameters",
    "ParityTransformer",
    "PolyNet",
    "PowerNetwork",
    "Recurrent",
    "ResidualRnn",
    "SparseTransformer",
    "StateSpace",
    "TokenAttention",
    "configuration",
    "model",
    "power_mlp",
]
