"""The claims of Figure 1, made of measured curves: ratios of sample complexities, and how they grow with N.

Thresholds are the reference's criteria for a reproduction: factors between architectures at the largest N, exponents in
panel (a), factors between the ends of the range of N in panel (b).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from krogh.experiments.qstr.common import (
    ARCHITECTURES,
    FEWEST_RUNS,
    SOURCE_DIMENSION,
    SOURCE_HIDDEN,
    Curve,
    Plan,
    published_exponent,
    published_samples,
)
from krogh.lab import Claim, claim
from krogh.lab.claim import INCONCLUSIVE
from krogh.lab.growth import growth_exponent
from krogh.lab.measured import ratio
from krogh.lab.statistics import Interval


@dataclass(frozen=True)
class Judged:
    """A panel's curves, and the claims made of them."""

    name: str
    plan: Plan
    curves: dict[str, Curve]

    def general(self) -> list[Claim]:
        """Figure 1(a): the Transformer needs the least and grows the slowest."""
        return [
            *self.compared("feedforward", "transformer", at_least=3.0),
            *self.compared("recurrent", "transformer", at_least=2.5),
            *self.compared("feedforward", "recurrent", above=1.0),
            *self.exponent("transformer", at_most=1.3),
            *self.exponent("feedforward", at_least=1.8),
        ]

    def simple(self) -> list[Claim]:
        """Figure 1(b): recurrent networks do as well as the Transformer, feedforward ones need more and more."""
        return [
            *self.compared("feedforward", "transformer", at_least=2.5),
            *self.compared("feedforward", "recurrent", at_least=2.5),
            *self.compared("recurrent", "transformer", "-low", at_least=0.6),
            *self.compared("recurrent", "transformer", "-high", at_most=1.8),
            *self.grown("feedforward", at_least=1.8),
            *self.grown("recurrent", at_most=1.6),
            *self.grown("transformer", at_most=1.6),
        ]

    def compared(self, over: str, under: str, suffix: str = "", **bound: Any) -> list[Claim]:
        """n(over)/n(under) at the largest N."""
        if not {over, under} <= set(self.curves):
            return []
        length = self.plan.lengths[-1]
        found = ratio(self.curves[over].measured(), length, self.curves[under].measured())
        known = [published_samples(self.plan.panel.index_law, one) for one in (over, under)]
        at = length if length in known[0] else self.plan.panel.largest
        made = self._claim(
            f"{over}-over-{under}{suffix}",
            f"at N = {length} the {self._label(over)} needs {_in_words(bound)} times as many samples as the "
            f"{self._label(under)}",
            f"n({over}) / n({under}) at N = {length}",
            found,
            (over, under),
            f"{known[0][at] / known[1][at]:.2g} at N = {at}",
            bound,
        )
        return [self._weighed(made) if "recurrent" in (over, under) else made]

    def exponent(self, architecture: str, **bound: Any) -> list[Claim]:
        """The growth exponent over the source's range of N."""
        if architecture not in self.curves:
            return []
        lengths = [length for length in self.plan.lengths if length >= self.plan.panel.smallest]
        found = Interval(math.nan, -math.inf, math.inf, 0.95, "too few lengths")
        if len(lengths) >= 2:
            found = growth_exponent(self.curves[architecture].measured(lengths))
        known = published_exponent(self.plan.panel.index_law, architecture, range(self.plan.panel.smallest, 10**3))
        made = self._claim(
            f"{architecture}-growth",
            f"for N = {_range(lengths)} the {self._label(architecture)}'s samples grow as a power of N that is "
            f"{_in_words(bound)}",
            f"slope of ln n on ln N, N = {_range(lengths)}",
            found,
            (architecture,),
            f"{known:.2f} over N = {self.plan.panel.smallest}–{self.plan.panel.largest}",
            bound,
            points=len(lengths),
        )
        return [made]

    def grown(self, architecture: str, **bound: Any) -> list[Claim]:
        """n at the largest N over n at the smallest of the source's range."""
        if architecture not in self.curves:
            return []
        panel = self.plan.panel
        lengths = [length for length in self.plan.lengths if length >= panel.smallest]
        first, last = (lengths[0], lengths[-1]) if lengths else (self.plan.lengths[0], self.plan.lengths[-1])
        measured, known = self.curves[architecture].measured(), published_samples(panel.index_law, architecture)
        made = self._claim(
            f"{architecture}-growth",
            f"from N = {first} to {last} the {self._label(architecture)}'s samples grow by a factor of "
            f"{_in_words(bound)}",
            f"n({last}) / n({first})",
            ratio(measured, last, measured, first),
            (architecture,),
            f"{known[panel.largest] / known[panel.smallest]:.2g} from N = {panel.smallest} to {panel.largest}",
            bound,
            points=len(lengths),
        )
        return [made]

    def _claim(
        self,
        name: str,
        statement: str,
        statistic: str,
        interval: Interval,
        of: tuple[str, ...],
        source_value: str,
        bound: dict[str, Any],
        points: int | None = None,
    ) -> Claim:
        too_small = self._too_small(points)
        return claim(
            f"{self.name}-{name}",
            f"{self.plan.panel.task}: {statement}.",
            source=self.plan.panel.source,
            statistic=statistic,
            interval=interval,
            trials=sum(runs.size for one in of for runs in self.curves[one].runs.values()),
            source_value=source_value,
            enough=not too_small,
            too_small=too_small,
            **bound,
        )

    def _too_small(self, points: int | None) -> str:
        """Why these settings cannot decide what the source says, or nothing."""
        plan, panel = self.plan, self.plan.panel
        if plan.seeds < FEWEST_RUNS:
            return f"{plan.seeds} runs per point; the means of a verdict need {FEWEST_RUNS}"
        if self.plan.dimension != SOURCE_DIMENSION or plan.threshold != panel.threshold:
            return (
                f"the source's values are for d = {SOURCE_DIMENSION} and a test error of {panel.threshold:g}; "
                f"these for d = {plan.dimension} and {plan.threshold:g}"
            )
        if plan.lengths[-1] < panel.largest:
            return f"the source is judged at N = {panel.largest}; the largest here is {plan.lengths[-1]}"
        if points is not None and (points < 2 or plan.lengths[0] > panel.smallest):
            return f"growth is judged from N = {panel.smallest} on; lengths here are {_range(plan.lengths)}"
        return ""

    def _weighed(self, made: Claim) -> Claim:
        """Withhold a verdict on a GRU of another size than the source's, which may need more samples or fewer."""
        if self.plan.hidden == SOURCE_HIDDEN or made.verdict == INCONCLUSIVE:
            return made
        reason = f"the source's GRU has {SOURCE_HIDDEN} units, this one {self.plan.hidden}; by itself {made.reason}"
        return dataclasses.replace(made, verdict=INCONCLUSIVE, reason=reason)

    def _label(self, architecture: str) -> str:
        named = {"recurrent": f"GRU of {self.plan.hidden} units", "feedforward": "feedforward network"}
        return named.get(architecture, ARCHITECTURES[architecture].label)


def _in_words(bound: dict[str, Any]) -> str:
    ((word, value),) = bound.items()
    return {"above": "more than", "at_least": "at least", "at_most": "at most"}[word] + f" {value:g}"


def _range(lengths: Sequence[int]) -> str:
    return f"{min(lengths)}–{max(lengths)}" if lengths else "none"
