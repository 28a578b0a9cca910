"""What is observed: numbers measured on a model while it trains, read off trained networks, and pictures of weights.

A probe registers itself with `@probe("name")` and runs while a network trains; the contract is `Probe` in `base.py`,
and `progress`, `margins`, `spectra`, `strategies`, `deviation`, `chains` and `recurrence` hold probes. `attention` and
`features/` read trained weights, in NumPy; `views` show them at a moment of training, for `krogh replay`.
"""

from krogh.probes.base import Moment, Probe, probe
from krogh.probes.chains import AttentionScores, BayesDistance, MinimalWeights, PartLosses, PositionalEncoding
from krogh.probes.deviation import Deviation
from krogh.probes.margins import Margin, NeuronEfficiency
from krogh.probes.progress import BatchLoss, Error, Movement, SupportMovement, SupportWeight, TrainingError
from krogh.probes.recurrence import Objective, RecurrentMovement
from krogh.probes.spectra import FourierPower, IrrepPower, NeuronCounts, NeuronShares, frequency_kernels
from krogh.probes.strategies import StrategyDistances

__all__ = [
    "AttentionScores",
    "BatchLoss",
    "BayesDistance",
    "Deviation",
    "Error",
    "FourierPower",
    "IrrepPower",
    "Margin",
    "MinimalWeights",
    "Moment",
    "Movement",
    "NeuronCounts",
    "NeuronEfficiency",
    "NeuronShares",
    "Objective",
    "PartLosses",
    "PositionalEncoding",
    "Probe",
    "RecurrentMovement",
    "StrategyDistances",
    "SupportMovement",
    "SupportWeight",
    "TrainingError",
    "frequency_kernels",
    "probe",
]
