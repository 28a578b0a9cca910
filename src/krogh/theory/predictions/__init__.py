"""Theorems as functions that return numbers, one module per topic.

What lives here: bounds and exact laws for the systems that krogh trains, each registered under a name such as
"parity/fourier-gap" and saying which of its constants are explicit. Where the source misprints a formula, the
setting `variant` chooses between "printed" and "repaired" (the default).

What does not: weights written down by hand (`krogh.theory.constructions`), and anything that trains.
"""

from krogh.theory.predictions.disjoint_error import polynet_error
from krogh.theory.predictions.disjoint_flow import polynet_flow
from krogh.theory.predictions.disjoint_plateau import plateau
from krogh.theory.predictions.disjoint_sgd import polynet_sgd
from krogh.theory.predictions.kernels import kernel_floor
from krogh.theory.predictions.majority import fourier_gap, majority_spectrum, support_recovery
from krogh.theory.predictions.one_step import one_step_theorem
from krogh.theory.predictions.parity import (
    degree_barrier,
    initial_luck,
    minimum_width,
    noise_attenuation,
    random_search,
    random_walk,
    sq_limit,
    statistical_limit,
)

__all__ = [
    "degree_barrier",
    "fourier_gap",
    "initial_luck",
    "kernel_floor",
    "majority_spectrum",
    "minimum_width",
    "noise_attenuation",
    "one_step_theorem",
    "plateau",
    "polynet_error",
    "polynet_flow",
    "polynet_sgd",
    "random_search",
    "random_walk",
    "sq_limit",
    "statistical_limit",
    "support_recovery",
]
