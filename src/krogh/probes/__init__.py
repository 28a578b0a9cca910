"""What is observed: numbers measured on a model while it trains, read off trained networks, and pictures of weights.

A probe registers itself with `@probe("name")` and runs while a network trains; the contract is `Probe` in `base.py`,
and `progress`, `margins` and `spectra` hold probes. `attention` and `features/` read trained weights, in NumPy; `views`
show them at a moment of training, for `krogh replay`.
"""

from krogh.probes.base import Moment, Probe, probe
from krogh.probes.margins import Margin, NeuronEfficiency
from krogh.probes.progress import BatchLoss, Error, Movement, SupportMovement, SupportWeight, TrainingError
from krogh.probes.spectra import FourierPower, IrrepPower, NeuronCounts, NeuronShares, frequency_kernels

__all__ = [
    "BatchLoss",
    "Error",
    "FourierPower",
    "IrrepPower",
    "Margin",
    "Moment",
    "Movement",
    "NeuronCounts",
    "NeuronEfficiency",
    "NeuronShares",
    "Probe",
    "SupportMovement",
    "SupportWeight",
    "TrainingError",
    "frequency_kernels",
    "probe",
]
