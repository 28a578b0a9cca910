"""Both bounds on the all-layer margin of a compiled network, from below by certificate and from above by attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from krogh.theory.all_layer.attack import Attack, attack
from krogh.theory.all_layer.certificates import Certificate
from krogh.theory.all_layer.search import Scan
from krogh.theory.all_layer.sizes import Sizes
from krogh.theory.all_layer.subjects import Compiled, certify, sizes_of, subject_of


@dataclass(frozen=True, eq=False)
class MarginReport:
    """`lower` ≤ min over the inputs of the all-layer margin ≤ `upper`.

    `certificate` proves the first, `attacks`, one per input, the second; `hardest` is the number of the input whose
    attack was smallest. `labels` are those that the network gives the inputs.
    """

    lower: float
    upper: float
    hardest: int
    labels: tuple[int, ...]
    certificate: Certificate
    attacks: tuple[Attack, ...]
    sizes: Sizes

    @property
    def ratio(self) -> float:
        """upper/lower: how much the two leave open."""
        return self.upper / self.lower if self.lower > 0 else float("inf")


def margin_report(
    network: Compiled,
    inputs: Any,
    *,
    output: int = 0,
    restarts: int = 12,
    refinements: int = 60,
    projections: int = 12,
    scan: Scan = Scan(),
    seed: int = 0,
) -> MarginReport:
    """Certificate, attacks and sizes of a compiled circuit, machine, automaton or counting network on the inputs given.

    `inputs` are bits [batch, m], words of a machine, or symbol numbers [batch, length]; `output` is that of a circuit.
    The attack moves all parameters as dense arrays: a machine has some 10^6, and wants fewer restarts and refinements.
    """
    subject = subject_of(network, inputs, output)
    certificate = certify(network, inputs)
    attacks = tuple(
        attack(
            subject.output,
            subject.parameters,
            x,
            y,
            restarts=restarts,
            refinements=refinements,
            projections=projections,
            scan=scan,
            seed=seed + place,
        )
        for place, (x, y) in enumerate(zip(subject.inputs, subject.labels, strict=True))
    )
    hardest = min(range(len(attacks)), key=lambda place: attacks[place].radius)
    return MarginReport(
        certificate.value,
        attacks[hardest].radius,
        hardest,
        subject.labels,
        certificate,
        attacks,
        sizes_of(network, inputs),
    )
