"""Theorems as functions that return numbers, one module per topic.

What lives here: bounds and exact laws for the systems that krogh trains, each registered under a name such as
"parity/fourier-gap" and saying which of its constants are explicit. Where the source misprints a formula, the
setting `variant` chooses between "printed" and "repaired" (the default).

What does not: weights written down by hand (`krogh.theory.constructions`), and anything that trains.
"""

from krogh.theory.predictions.algebra import (
    finite_penalty,
    max_margin,
    memoriser_margin,
    sign_conditions,
    weighted_margin,
)
from krogh.theory.predictions.approximation import (
    circuit_samples,
    corrected_margin,
    feedforward_vc,
    linear_time,
    machine_samples,
    margin_generalisation,
    norm_product,
    ramp_rademacher,
    sm_samples,
    surrogate_risk,
    toy_chain,
    transformer_vc,
)
from krogh.theory.predictions.attention_capacity import head_capacity, multi_head_capacity
from krogh.theory.predictions.attention_depth import depth_capacity
from krogh.theory.predictions.attention_limits import (
    construction_norms,
    influence_limit,
    information_floor,
    pseudo_dimension,
    statistical_queries,
)
from krogh.theory.predictions.covering import linear_covering, matrix_covering, maurey_covering
from krogh.theory.predictions.disjoint_error import polynet_error
from krogh.theory.predictions.disjoint_flow import polynet_flow
from krogh.theory.predictions.disjoint_plateau import plateau
from krogh.theory.predictions.disjoint_sgd import polynet_sgd
from krogh.theory.predictions.generalisation import generalisation as generalisation_gap
from krogh.theory.predictions.generalisation import sample_size
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
from krogh.theory.predictions.token_approximation import approximation_width, gate_width, retrieval_scale
from krogh.theory.predictions.token_covering import covering as token_covers
from krogh.theory.predictions.token_covering import packing, rademacher
from krogh.theory.predictions.token_limits import feedforward_floor, head_floor
from krogh.theory.predictions.token_moments import squared_norm_variance, token_radius
from krogh.theory.predictions.token_recurrent import (
    error_propagation,
    norm_exponent,
    recurrent_covering,
    recurrent_risk,
    recurrent_width,
)
from krogh.theory.predictions.token_transformer import regime, transformer_risk, transformer_samples

__all__ = [
    "approximation_width",
    "circuit_samples",
    "construction_norms",
    "corrected_margin",
    "degree_barrier",
    "depth_capacity",
    "error_propagation",
    "feedforward_floor",
    "feedforward_vc",
    "finite_penalty",
    "fourier_gap",
    "gate_width",
    "generalisation_gap",
    "head_capacity",
    "head_floor",
    "influence_limit",
    "information_floor",
    "initial_luck",
    "kernel_floor",
    "linear_covering",
    "linear_time",
    "machine_samples",
    "majority_spectrum",
    "margin_generalisation",
    "matrix_covering",
    "maurey_covering",
    "max_margin",
    "memoriser_margin",
    "minimum_width",
    "multi_head_capacity",
    "noise_attenuation",
    "norm_exponent",
    "norm_product",
    "one_step_theorem",
    "packing",
    "plateau",
    "polynet_error",
    "polynet_flow",
    "polynet_sgd",
    "pseudo_dimension",
    "rademacher",
    "ramp_rademacher",
    "random_search",
    "random_walk",
    "recurrent_covering",
    "recurrent_risk",
    "recurrent_width",
    "regime",
    "retrieval_scale",
    "sample_size",
    "sign_conditions",
    "sm_samples",
    "sq_limit",
    "squared_norm_variance",
    "statistical_limit",
    "statistical_queries",
    "support_recovery",
    "surrogate_risk",
    "token_covers",
    "token_radius",
    "toy_chain",
    "transformer_risk",
    "transformer_samples",
    "transformer_vc",
    "weighted_margin",
]
