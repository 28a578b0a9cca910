"""Networks written by hand, and how robust they are: circuits and Turing machines as weights (the SM paper)."""

from krogh.experiments.approximation import (
    bounds,
    chain,
    circuit_depth,
    circuit_learning,
    circuit_width,
    machine_fidelity,
    machine_noise,
    perturbations,
    position_codes,
)

__all__ = [
    "bounds",
    "chain",
    "circuit_depth",
    "circuit_learning",
    "circuit_width",
    "machine_fidelity",
    "machine_noise",
    "perturbations",
    "position_codes",
]
