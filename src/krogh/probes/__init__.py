"""What is observed: numbers measured on a model while it trains.

A probe lives in one module here and registers itself with `@probe("name")`. The contract is `Probe` in
`base.py`.
"""

from krogh.probes.base import Moment, Probe, probe
from krogh.probes.margins import Margin, NeuronEfficiency
from krogh.probes.progress import BatchLoss, Error, Movement, SupportWeight
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
    "SupportWeight",
    "frequency_kernels",
    "probe",
]
