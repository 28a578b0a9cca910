"""Both bounds on the all-layer margin of a compiled network, from below by certificate and from above by attack."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from krogh.errors import require
from krogh.networks.compiled import Compiled, Sizes, Subject, Work
from krogh.networks.margins.attack import Attack, Effort, attack
from krogh.networks.margins.search import Scan
from krogh.theory.programs.theorem import Certificate

EFFORTS = (Effort(12, 60, 12), Effort(6, 20, 4), Effort(3, 6, 0), Effort(3, 2, 0), Effort(2, 0, 0))
"""From thorough to quick."""
BUDGET = 5e8
"""Multiplications that an attack on one input may take unless it is asked for: some ten seconds."""
PATIENCE = 4
"""The quickest attack is made if it takes no more than so many budgets."""
DEEPEST = 300
"""Layers of a network that is attacked unless asked for: compiling the gradient of deeper ones takes minutes."""
LARGEST = 1 << 24
"""Entries of dense parameters that are attacked at all: 128 MiB in float64, and several times that in a search."""


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
    network: Compiled, inputs: Any, *, output: int = 0, effort: Effort = Effort(), scan: Scan = Scan(), seed: int = 0
) -> MarginReport:
    """Certificate, attacks and sizes of a compiled circuit, machine, automaton or counting network on the inputs given.

    `inputs` are bits [batch, m], words of a machine, or symbol numbers [batch, length]; `output` is that of a circuit.
    The attack moves all parameters as dense arrays: a machine has some 10^6, and wants fewer restarts and refinements.
    """
    subject, certificate = network.subject(inputs, output), network.certificate(inputs)
    attacks = tuple(attacks_on(subject, effort, scan, seed))
    hardest = min(range(len(attacks)), key=lambda place: attacks[place].radius)
    upper, length = attacks[hardest].radius, len(subject.inputs[0])
    sizes = network.sizes(length)
    return MarginReport(certificate.value, upper, hardest, subject.labels, certificate, attacks, sizes)


def attacks_on(subject: Subject, effort: Effort, scan: Scan = Scan(), seed: int = 0) -> Iterable[Attack]:
    """An attack on every input of a subject, with seeds that count up."""
    for place, (x, y) in enumerate(zip(subject.inputs, subject.labels, strict=True)):
        yield attack(subject.output, subject.parameters, x, y, effort=effort, scan=scan, seed=seed + place)


@dataclass(frozen=True)
class Attacked:
    """An input as it is shown, its label, and the smallest perturbation found that changes it."""

    input: str
    label: int
    upper: float


@dataclass(frozen=True, eq=False)
class Bounds:
    """What a certificate proves, and what attacks on some decisions of the network found.

    `effort` is None, and nothing was attacked, where even the quickest attack would take too long.
    """

    certificate: Certificate
    effort: Effort | None
    attacked: tuple[Attacked, ...]

    @property
    def hardest(self) -> Attacked | None:
        """The decision that the smallest perturbation changed; None where none was changed."""
        found = [one for one in self.attacked if one.upper < float("inf")]
        return min(found, key=lambda one: one.upper, default=None)

    @property
    def words(self) -> str:
        """The bounds in a sentence."""
        lower = f"at least {self.certificate.value:.6g} ({self.certificate.holds_for})"
        if self.effort is None:
            return f"{lower}; too large to be attacked in seconds (ask for it by --restarts)"
        if self.hardest is None:
            restarts = self.effort.restarts
            return f"{lower}; no perturbation that changes an output was found in {restarts} restarts"
        tried = f"attacked on {len(self.attacked)} inputs, smallest on {self.hardest.input}"
        return f"{lower}, at most {self.hardest.upper:.6g} ({tried})"


def margin_bounds(network: Compiled, restarts: int | None = None, refinements: int | None = None) -> Bounds:
    """The certificate, and attacks on the network's own `decisions`, as thorough as asked for or as a budget allows."""
    decisions = network.decisions()  # first, as there may be none
    certificate = network.certificate()
    effort = affordable_effort(network.work, restarts, refinements)
    attacked = []
    for place, decision in enumerate(decisions if effort is not None else ()):
        assert effort is not None
        subject = network.subject(decision.inputs, decision.output)
        (found,) = attacks_on(subject, effort, seed=place)
        attacked.append(Attacked(decision.shown, subject.labels[0], found.radius))
    return Bounds(certificate, effort, tuple(attacked))


def affordable_effort(work: Work, restarts: int | None = None, refinements: int | None = None) -> Effort | None:
    """How thorough an attack is: as asked, or as a budget allows; None where even the quickest takes too long."""
    if restarts is not None or refinements is not None:
        require(
            work.entries <= LARGEST,
            f"the network has {work.entries:,} parameters as full matrices; at most {LARGEST:,} are attacked "
            "(leave out --restarts and --refinements for the lower bound alone)",
        )
        asked = EFFORTS[0] if restarts is None else replace(EFFORTS[0], restarts=restarts)
        if refinements is None:
            return asked
        return replace(asked, refinements=refinements, projections=min(refinements, asked.projections))
    if work.entries > LARGEST or work.layers > DEEPEST:
        return None
    cost = work.entries * work.passes
    allowed = [effort for effort in EFFORTS if cost * effort.evaluations <= BUDGET]
    if allowed:
        return allowed[0]
    return EFFORTS[-1] if cost * EFFORTS[-1].evaluations <= PATIENCE * BUDGET else None
