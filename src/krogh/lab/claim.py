"""Claims: falsifiable statements with a statistic, a threshold and a verdict.

The verdict follows from the statistic's interval alone: all of it on the right side of the threshold is
*reproduced*, all of it on the wrong side *not reproduced*, and an interval that straddles the threshold, or a
scale too small to say, is *inconclusive*.
"""

from __future__ import annotations

import math
import operator
from dataclasses import asdict, dataclass
from typing import Any

from krogh.errors import require
from krogh.lab.statistics import Interval

REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE = "reproduced", "not reproduced", "inconclusive"


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
    unit: str = ""
    source_value: str = ""

    def as_json(self) -> dict[str, Any]:
        return {name: json_number(value) for name, value in asdict(self).items()}


def json_number(value: Any) -> Any:
    """A value as JSON allows it: infinities as text, NaN as null."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def judge(
    interval: Interval,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    enough: bool = True,
    too_small: str = "",
) -> tuple[str, str, str]:
    """Threshold, verdict and reason of a statistic with an interval.

    `above` asks for strictly more, for signs of differences. `enough` is False when the scale cannot decide
    whatever the interval says; `too_small` says why.
    """
    given = {word: bound for word, bound in ((">", above), ("≥", at_least), ("≤", at_most)) if bound is not None}
    require(len(given) == 1, "judge needs exactly one of above, at_least and at_most")
    ((word, bound),) = given.items()
    threshold = f"{word} {bound:g}"
    if not enough:
        return threshold, INCONCLUSIVE, too_small or "the scale is too small to decide"
    meets = {">": operator.gt, "≥": operator.ge, "≤": operator.le}[word]
    exact = interval.low == interval.high
    spread = f"{interval.low:.3g}" if exact else f"the whole interval [{interval.low:.3g}, {interval.high:.3g}]"
    if meets(interval.low, bound) and meets(interval.high, bound):
        return threshold, REPRODUCED, f"{spread} is {threshold}"
    if math.isnan(interval.low + interval.high) or meets(interval.low, bound) or meets(interval.high, bound):
        spread = f"[{interval.low:.3g}, {interval.high:.3g}]"
        return threshold, INCONCLUSIVE, f"the interval {spread} holds the threshold {bound:g}"
    return threshold, NOT_REPRODUCED, f"{spread} misses {threshold}"


def claim(
    name: str,
    statement: str,
    *,
    source: str,
    statistic: str,
    interval: Interval,
    trials: int,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    enough: bool = True,
    too_small: str = "",
    unit: str = "",
    source_value: str = "",
) -> Claim:
    """A claim whose verdict is decided by `judge`."""
    threshold, verdict, reason = judge(
        interval, above=above, at_least=at_least, at_most=at_most, enough=enough, too_small=too_small
    )
    return Claim(
        name=name,
        statement=statement,
        source=source,
        statistic=statistic,
        value=float(interval.value),
        low=float(interval.low),
        high=float(interval.high),
        threshold=threshold,
        verdict=verdict,
        reason=reason,
        trials=int(trials),
        unit=unit,
        source_value=source_value,
    )
