"""How it is learned: losses, optimisers and schedules, data regimes, stopping rules.

All are values whose numbers are arrays, so that a cohort may hold any mixture of rates, decays, noise
levels, budgets and sample sizes. Nothing here runs a loop: that is the engine's.
"""

from krogh.training.losses import LOSSES, EuclideanNorm, NeuronNorm, Penalty
from krogh.training.optimisers import (
    Adam,
    BlockSgd,
    Constant,
    Cosine,
    Inverse,
    Momentum,
    Optimiser,
    Piecewise,
    RmsProp,
    Schedule,
    Sgd,
    Truncated,
    doublings,
)
from krogh.training.regimes import Epochs, FullBatch, Offline, Online, Population, Regime, Resampled
from krogh.training.stopping import Stopping
from krogh.training.training import MARGIN_PRESETS, MarginPreset, Training

__all__ = [
    "LOSSES",
    "MARGIN_PRESETS",
    "Adam",
    "BlockSgd",
    "Constant",
    "Cosine",
    "Epochs",
    "EuclideanNorm",
    "FullBatch",
    "Inverse",
    "MarginPreset",
    "Momentum",
    "NeuronNorm",
    "Offline",
    "Online",
    "Optimiser",
    "Penalty",
    "Piecewise",
    "Population",
    "Regime",
    "Resampled",
    "RmsProp",
    "Schedule",
    "Sgd",
    "Stopping",
    "Training",
    "Truncated",
    "doublings",
]
