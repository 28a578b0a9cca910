"""All-layer margins: how far all weights may move before an output changes (SM paper, sections 2.1, 3.1 and D).

What lives here: the definition and its losses (`definition`), the generic network with corrections and weight sharing
(`corrected`), the toy chain with exact values (`chain`), upper bounds by attack (`attack`, on the programs of
`search`), lower bounds by certificate (`theorem`: Theorem D.6; `propagation`: its proof layer by layer; for compiled
circuits, machines, automata and counting networks `circuit_certificates`, `machine_certificates`,
`automaton_certificates`), trials that could refute them (`trials`), sizes (`sizes`), and both bounds at once
(`report`).

What does not: the compilers that write the networks (`krogh.theory.compilers`), what margins mean for the number of
samples (`krogh.theory.predictions.approximation`), and margins in output space (`krogh.theory.margins`).
"""

from krogh.theory.all_layer.attack import Attack, attack, projected_gradient, random_radii
from krogh.theory.all_layer.automaton_certificates import certify_automaton, certify_counting
from krogh.theory.all_layer.certificates import Certificate
from krogh.theory.all_layer.chain import (
    ChainMargin,
    chain_output,
    chain_parameters,
    plain_margin,
    rounded_enclosure,
    rounded_margin,
)
from krogh.theory.all_layer.circuit_certificates import certify_circuit
from krogh.theory.all_layer.corrected import (
    CorrectedNetwork,
    Pass,
    SharedNetwork,
    WeightSharing,
    corrected_circuit,
    own_parameters,
)
from krogh.theory.all_layer.definition import (
    flips,
    perturbation_norm,
    perturbed,
    ramp_loss,
    value_at,
    zero_one_loss,
)
from krogh.theory.all_layer.machine_certificates import certify_machine, certify_transformer
from krogh.theory.all_layer.operator_norms import operator_norm_bound
from krogh.theory.all_layer.report import MarginReport, margin_report
from krogh.theory.all_layer.search import Scan
from krogh.theory.all_layer.sizes import Sizes, network_sizes
from krogh.theory.all_layer.subjects import Subject, certify, subject_of
from krogh.theory.all_layer.theorem import Constants, TheoremBound, best_bound, theorem_bound, theorem_terms
from krogh.theory.all_layer.trials import Trials, trial_perturbations

__all__ = [
    "Attack",
    "Certificate",
    "ChainMargin",
    "Constants",
    "CorrectedNetwork",
    "MarginReport",
    "Pass",
    "Scan",
    "SharedNetwork",
    "Sizes",
    "Subject",
    "TheoremBound",
    "Trials",
    "WeightSharing",
    "attack",
    "best_bound",
    "certify",
    "certify_automaton",
    "certify_circuit",
    "certify_counting",
    "certify_machine",
    "certify_transformer",
    "chain_output",
    "chain_parameters",
    "corrected_circuit",
    "flips",
    "margin_report",
    "network_sizes",
    "operator_norm_bound",
    "own_parameters",
    "perturbation_norm",
    "perturbed",
    "plain_margin",
    "projected_gradient",
    "ramp_loss",
    "random_radii",
    "rounded_enclosure",
    "rounded_margin",
    "subject_of",
    "theorem_bound",
    "theorem_terms",
    "trial_perturbations",
    "value_at",
    "zero_one_loss",
]
