"""Who learns: architectures, each saying how its parameters are drawn and how it predicts.

A model lives in one module here and registers itself with `@model("name")`. Nothing here knows of losses,
optimisers or trials. The contract is `Model` in `base.py`; the source's named configurations are in
`configurations.py`.
"""

from krogh.models.additive import Additive
from krogh.models.attention import AttentionBlocks, AttentionMlp
from krogh.models.base import Learner, Model, Parameters, model
from krogh.models.causal_transformer import CausalTransformer
from krogh.models.configurations import CONFIGURATIONS, configuration
from krogh.models.deep_mlp import DeepMlp, hidden_sizes
from krogh.models.elman import ElmanRnn
from krogh.models.feedforward import Feedforward
from krogh.models.minimal_induction import MinimalInduction
from krogh.models.polynet import DisjointPolyNet, PolyNet
from krogh.models.quadratic import DeepQuadratic
from krogh.models.random_forest import RandomForest
from krogh.models.recurrent import Recurrent
from krogh.models.residual_rnn import LipschitzRnn, ResidualRnn
from krogh.models.state_space import StateSpace
from krogh.models.token_attention import LinearAttention, MergedAttention, TokenAttention
from krogh.models.transformer import ParityTransformer, SparseTransformer
from krogh.models.two_layer import HomogeneousNetwork, Mlp, Neuron, PairNetwork, PowerNetwork, power_mlp

__all__ = [
    "CONFIGURATIONS",
    "Additive",
    "AttentionBlocks",
    "AttentionMlp",
    "CausalTransformer",
    "DeepMlp",
    "DeepQuadratic",
    "DisjointPolyNet",
    "ElmanRnn",
    "Feedforward",
    "HomogeneousNetwork",
    "Learner",
    "LinearAttention",
    "LipschitzRnn",
    "MergedAttention",
    "MinimalInduction",
    "Mlp",
    "Model",
    "Neuron",
    "PairNetwork",
    "Parameters",
    "ParityTransformer",
    "PolyNet",
    "PowerNetwork",
    "RandomForest",
    "Recurrent",
    "ResidualRnn",
    "SparseTransformer",
    "StateSpace",
    "TokenAttention",
    "configuration",
    "hidden_sizes",
    "model",
    "power_mlp",
]
