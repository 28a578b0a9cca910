"""Claims: falsifiable statements with a statistic, a threshold and a verdict.

The verdict follows from the estimate's interval alone: all of it on the right side of the threshold is *reproduced*,
all of it on the wrong side *not reproduced*, and an interval that straddles the threshold, or a scale that lacks what
the claim needs, is *inconclusive*. How many trials a claim rests on is the estimate's own knowledge.

    say = Claims("dissertation, Figure 5.1 right")
    say("elbow", "The exponent grows with n.", upper - lower, "upper slope − lower slope", above=0.0,
        needs=[need(seeds, 20, "seeds per point")])
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from krogh.errors import KroghError, require
from krogh.integrity import read_object
from krogh.lab.estimate import Estimate
from krogh.numbers import from_json, interval, json_number

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE = "reproduced", "not reproduced", "inconclusive"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE)


@dataclass(frozen=True)
class Claim:
    """A statement of the source, decided by data."""

    name: str
    statement: str
    source: str
    statistic: str
    value: float
    low: float
    high: float
    threshold: str
    verdict: str
    reason: str
    trials: int
    rule: str = ""
    unit: str = ""
    source_value: str = ""

    def as_json(self) -> dict[str, Any]:
        return {name: json_number(value) for name, value in asdict(self).items()}


def read_claims(folder: Path) -> list[Claim]:
    """The claims that a study has written into its folder."""
    path = folder / "claims.json"
    try:
        found = read_object(folder, path.name)["claims"]
        numbers = ("value", "low", "high")
        return [Claim(**claim | {name: _number(claim[name]) for name in numbers}) for claim in found]
    except FileNotFoundError:
        raise KroghError(f"{folder} has no claims yet: its study is not finished") from None
    except (KeyError, TypeError, ValueError, KroghError):
        raise KroghError(f"{path} is damaged; `krogh judge {folder}` writes it again") from None


def _number(value: Any) -> float:
    return math.nan if value is None else float(from_json(value))


@dataclass(frozen=True)
class Threshold:
    """What a number must be: above or below a bound, at least or at most it, or between two."""

    above: float | None = None
    at_least: float | None = None
    below: float | None = None
    at_most: float | None = None
    between: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        words = [name for name, bound in given.items() if bound is not None]
        require(len(words) == 1, f"a claim has exactly one threshold among {', '.join(given)}; got {words or 'none'}")
        if self.between is not None:
            low, high = self.between
            require(low < high, f"between needs a lower and a higher bound; got between={self.between}")

    def meets(self, x: float) -> bool:
        """Whether the number x is what was asked for."""
        if self.between is not None:
            return self.between[0] <= x <= self.between[1]
        if self.above is not None:
            return x > self.above
        if self.below is not None:
            return x < self.below
        return x >= self.at_least if self.at_least is not None else x <= self.at_most  # type: ignore[operator]

    def misses(self, low: float, high: float) -> bool:
        """Whether no number in [low, high] is what was asked for."""
        if self.between is not None:
            return high < self.between[0] or low > self.between[1]
        return not self.meets(high if self.above is not None or self.at_least is not None else low)

    def __str__(self) -> str:
        if self.between is not None:
            return f"{self.between[0]:g} to {self.between[1]:g}"
        words = {">": self.above, "≥": self.at_least, "<": self.below, "≤": self.at_most}
        return next(f"{word} {bound:g}" for word, bound in words.items() if bound is not None)


def judge(estimate: Estimate, threshold: Threshold, lacking: str = "") -> tuple[str, str]:
    """Verdict and reason of an estimate; `lacking` says what the scale lacks to decide at all."""
    if lacking:
        return INCONCLUSIVE, lacking
    low, high = estimate.low, estimate.high
    if math.isnan(estimate.value) and not math.isfinite(low) and not math.isfinite(high):
        return INCONCLUSIVE, estimate.rule or "nothing was measured"
    if math.isnan(low + high):
        return INCONCLUSIVE, "the interval is not known"
    whole = f"{low:.3g}" if estimate.exact else f"the whole interval {interval(low, high)}"
    if threshold.meets(low) and threshold.meets(high):
        return REPRODUCED, f"{whole} is {threshold}"
    if threshold.misses(low, high):
        return NOT_REPRODUCED, f"{whole} misses {threshold}"
    return INCONCLUSIVE, f"the interval {interval(low, high)} holds the threshold {threshold}"


def need(count: float, least: float, what: str) -> str:
    """What is lacking where `count` is below `least`, in words; nothing where it suffices."""
    return "" if count >= least else f"{count:g} {what}; a verdict needs {least:g}"


class Claims:
    """The collector of an experiment's claims: call it once for each."""

    def __init__(self, source: str):
        self.source = source
        self._found: list[Claim] = []
        self._prefix = self._head = ""
        self._needs: tuple[str, ...] = ()

    def about(
        self, prefix: str = "", head: str = "", *, source: str | None = None, needs: Iterable[str] = ()
    ) -> Claims:
        """The same collector for claims of one part: a prefix of names, a head of statements, a source, needs."""
        part = Claims(self.source if source is None else source)
        part._found, part._prefix, part._head = self._found, self._prefix + prefix, self._head + head
        part._needs = (*self._needs, *needs)
        return part

    def __call__(
        self,
        name: str,
        statement: str,
        estimate: Estimate,
        statistic: str,
        *,
        needs: Iterable[str] = (),
        source: str | None = None,
        source_value: str = "",
        unit: str = "",
        **threshold: Any,
    ) -> Claim:
        """Decide one claim. `needs` are what `need` says; the first that is lacking withholds the verdict."""
        full = self._prefix + name
        require(all(full != known.name for known in self._found), f"two claims are named {full!r}")
        asked = Threshold(**threshold)
        lacking = next((words for words in (*self._needs, *needs) if words), "")
        verdict, reason = judge(estimate, asked, lacking)
        made = Claim(
            name=full,
            statement=self._head + statement,
            source=self.source if source is None else source,
            statistic=statistic,
            value=float(estimate.value),
            low=float(estimate.low),
            high=float(estimate.high),
            threshold=str(asked),
            verdict=verdict,
            reason=reason,
            trials=estimate.trials,
            rule=estimate.rule,
            unit=unit,
            source_value=source_value,
        )
        self._found.append(made)
        return made

    def __iter__(self) -> Iterator[Claim]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)
