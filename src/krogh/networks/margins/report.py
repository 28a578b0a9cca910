"""Both bounds on the all-layer margin of a compiled network, from below by certificate and from above by attack."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from krogh.errors import require
from krogh.networks.compiled import Attacked, Compiled, Decision, Sizes, Subject, Work, labels_of
from krogh.networks.margins.attack import Attack, Effort, attack
from krogh.networks.margins.search import Scan
from krogh.theory.programs.theorem import Certificate

EFFORTS = (Effort(12, 60, 12), Effort(6, 20, 4), Effort(3, 6, 0), Effort(3, 2, 0), Effort(2, 0, 0))
"""From thorough to quick."""
SECONDS = 10.0
"""That the attacks on all decisions of a network take unless more is asked for."""
RATE = 2e8
"""Multiplications of an attack in a second, at least: 4.6e8 to 9.4e8 on a core."""
COMPILING = 0.6
"""Seconds in which JAX compiles a layer with its gradient, once for all decisions: 0.41 to 0.58 on a core."""
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


@dataclass(frozen=True, eq=False)
class Bounds:
    """What a certificate proves, and what attacks on some decisions of the network found.

    `effort` is that of the search, None where there was none: descents alone, or where even the quickest attack would
    take longer than `seconds`, changes of the last layer alone (`whole` is False). `needed` are the seconds that it
    would take, infinite where it is not made at all.
    """

    certificate: Certificate
    effort: Effort | None
    attacked: tuple[Attacked, ...]
    seconds: float
    needed: float
    whole: bool

    @property
    def hardest(self) -> Attacked | None:
        """The decision that the smallest perturbation changed; None where none was changed."""
        found = [one for one in self.attacked if one.upper < float("inf")]
        return min(found, key=lambda one: one.upper, default=None)

    @property
    def words(self) -> str:
        """The bounds in a sentence."""
        certificate = self.certificate
        lower = f"at least {certificate.value:.6g} ({certificate.holds_for}; {certificate.proof})"
        left = ""
        if not self.whole:
            left = f"; too large for more (as full matrices, at most {LARGEST:,} parameters are attacked)"
            if math.isfinite(self.needed):
                enough = f"some {self.needed:,.0f} s would do: --seconds {math.ceil(self.needed)}"
                left = f"; not all layers attacked in {self.seconds:g} s ({enough})"
        tried = "attacked" if self.whole else "by a change of the last layer alone"
        tried += f" on {len(self.attacked)} inputs"
        if self.hardest is None:
            return f"{lower}; no perturbation that changes an output was found ({tried}){left}"
        return f"{lower}, at most {self.hardest.upper:.6g} ({tried}, smallest on {self.hardest.input}){left}"


def margin_bounds(
    network: Compiled, restarts: int | None = None, refinements: int | None = None, seconds: float | None = None
) -> Bounds:
    """The certificate, and attacks on the network's own `decisions`.

    A change of the last layer, the least that there is, is always tried. Other attacks take `seconds`, ten unless
    given: descents by gradients where the kind of network has them, else a search that is as thorough as the time
    allows. With `restarts` or `refinements` the search is made as asked, however long it
    takes unless `seconds` says.
    """
    asked = restarts is not None or refinements is not None
    require(seconds is None or seconds > 0, f"seconds must be positive; got seconds={seconds}")
    budget = seconds if seconds is not None else math.inf if asked else SECONDS
    decisions = network.decisions()  # first, as there may be none
    certificate = network.certificate()
    began, attacked, whole = time.monotonic(), [], False
    effort = affordable_effort(network.work, restarts, refinements, budget, len(decisions))
    for place, decision in enumerate(decisions):
        left = min(began + budget, began + SECONDS if asked else math.inf) - time.monotonic()
        share = max(0.0, left) / (len(decisions) - place)
        descended = network.descent(decision, time.monotonic() + share)
        searched = None
        if effort is not None and (asked or descended is None):
            searched = _searched(network, decision, effort, place, began + budget * (place + 1) / len(decisions))
        whole = whole or descended is not None or searched is not None
        found = [one for one in (_of_last_layer(network, decision), descended, searched) if one is not None]
        attacked += sorted(found, key=lambda one: one.upper)[:1]
    return Bounds(certificate, effort, tuple(attacked), budget, seconds_needed(network.work, len(decisions)), whole)


def _of_last_layer(network: Compiled, decision: Decision) -> Attacked | None:
    """What the least change of the last layer does: its norm, where it flips the output."""
    found = network.read_out(decision)
    if found is None:
        return None
    weights, features = found
    (label,) = labels_of([weights @ features])
    flipped = float((weights + found.flip) @ features)
    upper = float(np.linalg.norm(found.flip)) if int(flipped > 0) != label else math.inf
    return Attacked(decision.shown, label, upper)


def _searched(network: Compiled, decision: Decision, effort: Effort, seed: int, deadline: float) -> Attacked:
    subject = network.subject(decision.inputs, decision.output)
    (x,), (y,) = subject.inputs, subject.labels
    found = attack(subject.output, subject.parameters, x, y, effort=effort, seed=seed, deadline=deadline)
    return Attacked(decision.shown, y, found.radius)


def affordable_effort(
    work: Work,
    restarts: int | None = None,
    refinements: int | None = None,
    seconds: float = SECONDS,
    decisions: int = 1,
) -> Effort | None:
    """How thorough a search on each decision is: as asked, or as `seconds` for all allow; None where none is quick."""
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
    return next((effort for effort in EFFORTS if seconds_needed(work, decisions, effort) <= seconds), None)


def seconds_needed(work: Work, decisions: int, effort: Effort = EFFORTS[-1]) -> float:
    """About how long searches on some decisions take at most."""
    if work.entries > LARGEST:
        return math.inf
    return COMPILING * work.layers + decisions * work.entries * work.passes * effort.evaluations / RATE
