"""Maximum margins of networks that compose groups or multiply bits, in float64 (dissertation, chapter 7, appendix D).

What lives here: maximum margins in closed form and by linear program (`maximum`, `game`, over the real characters of
`characters`), the bound that weights on wrong labels prove (`weighted`), the optimum at finite λ (`finite`), margins of
networks given as arrays (`networks`, `measures`), certificates that close the gap between the two (`certificates`), and
what networks consist of (`transforms`).

What does not: the networks that attain the maxima (`krogh.theory.constructions.algebra`), representations themselves
(`krogh.theory.representations`), and measurements while a network trains (`krogh.probes`).
"""

from krogh.theory.margins.certificates import Certificate, Failure, certify
from krogh.theory.margins.characters import RealCharacters, cyclic_characters, from_complex_table
from krogh.theory.margins.finite import FiniteLambda, finite_lambda
from krogh.theory.margins.game import GameSolution, Subsets, solve_game, subset_certificate
from krogh.theory.margins.maximum import (
    MaxMargin,
    SignCondition,
    class_weights,
    closed_form,
    max_margin_cyclic,
    max_margin_group,
    max_margin_parity,
    sign_condition,
    theorem_7_7,
    theorem_7_9,
)
from krogh.theory.margins.measures import (
    cross_entropy,
    dataset_margin,
    logit_flatness,
    margins,
    neuron_efficiency,
    neuron_margins,
    normalised_margin,
    offset_means,
    shift_means,
    weighted_margins,
)
from krogh.theory.margins.networks import PairArrays, PowerArrays, arrays_of, combination_factor, norm
from krogh.theory.margins.problems import ParityProblem, characters_of, problem_of
from krogh.theory.margins.transforms import cyclic_transform, group_transform, norm_shares, phase_residuals
from krogh.theory.margins.weighted import (
    WeightedMaximum,
    class_offsets,
    default_offsets,
    offset_maximum,
    weighted_maximum,
)

__all__ = [
    "Certificate",
    "Failure",
    "FiniteLambda",
    "GameSolution",
    "MaxMargin",
    "PairArrays",
    "ParityProblem",
    "PowerArrays",
    "RealCharacters",
    "SignCondition",
    "Subsets",
    "WeightedMaximum",
    "arrays_of",
    "certify",
    "characters_of",
    "class_offsets",
    "class_weights",
    "closed_form",
    "combination_factor",
    "cross_entropy",
    "cyclic_characters",
    "cyclic_transform",
    "dataset_margin",
    "default_offsets",
    "finite_lambda",
    "from_complex_table",
    "group_transform",
    "logit_flatness",
    "margins",
    "max_margin_cyclic",
    "max_margin_group",
    "max_margin_parity",
    "neuron_efficiency",
    "neuron_margins",
    "norm",
    "norm_shares",
    "normalised_margin",
    "offset_maximum",
    "offset_means",
    "phase_residuals",
    "problem_of",
    "shift_means",
    "sign_condition",
    "solve_game",
    "subset_certificate",
    "theorem_7_7",
    "theorem_7_9",
    "weighted_margins",
    "weighted_maximum",
]
