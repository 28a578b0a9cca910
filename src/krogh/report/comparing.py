"""Two studies side by side, from their files alone: what differs in settings, versions, sources, claims and costs.

Two numbers are *apart* where the interval of their difference does not hold 0. It is made from the two intervals
[l, u] of the values x and y, as if they were independent (Zou and Donner, Statistics in Medicine 27, 2008):

    x - y - √((x - l_x)² + (u_y - y)²)   to   x - y + √((u_x - x)² + (y - l_y)²)

at the level of the two, 95%: of twenty numbers that are the same, one is apart by chance. Studies with common seeds are
alike rather than independent, and the interval is then too wide.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from krogh import numbers
from krogh.errors import require
from krogh.files import destination, write_atomically
from krogh.report.page import TEMPLATES, environment
from krogh.report.read import Claim, Study, find_studies

ROUNDING = 1e-9
NOT_COMPARABLE = "not comparable"
COSTS = ("trials", "converged", "diverged", "trained_steps", "training_seconds", "trial_steps_per_second")


def compare(a: Path, b: Path) -> dict[str, Any]:
    """The studies of two folders, paired by name (two single ones whatever their names), as plain data for JSON."""
    ours, theirs = find_studies(Path(a)), find_studies(Path(b))
    pairs, only_a, only_b = _paired(ours, theirs)
    require(
        pairs,
        f"nothing to compare: {a} holds {_names(ours)} and {b} holds {_names(theirs)}, which have no name in common",
    )
    return {
        "a": str(a),
        "b": str(b),
        "studies": [_compared(*pair) for pair in pairs],
        "only_a": [study.name for study in only_a],
        "only_b": [study.name for study in only_b],
        "damaged": [
            f"{study.folder / name} {words}" for study in (*ours, *theirs) for name, words in study.faults.items()
        ],
    }


def write_comparison(compared: dict[str, Any], page: Path) -> Path:
    """Write what `compare` found as one offline page; returns its path."""
    from markupsafe import Markup

    place = destination(page, "compare.html")
    css = Markup((TEMPLATES / "page.css").read_text(encoding="utf-8"))
    tools = environment()
    tools.filters |= {"shown": shown, "measured": measured, "differing": differing}
    write_atomically(place, tools.get_template("compare.html.j2").render(css=css, **compared).encode())
    return page


def shown(value: Any) -> str:
    """A setting or a version as it is; a dash where there is none."""
    return numbers.MISSING if value is None else numbers.plain(value)


def measured(claim: dict[str, Any] | None) -> str:
    """A claim's number with its interval."""
    if claim is None:
        return numbers.MISSING
    value, low, high = (numbers.from_json(claim[word]) for word in ("value", "low", "high"))
    return numbers.estimate(value, low, high, claim["unit"])


def differing(claim: dict[str, Any]) -> str:
    """What the numbers of a claim on both sides say of each other."""
    if claim["a"] is None or claim["b"] is None:
        return f"only in {'A' if claim['b'] is None else 'B'}"
    if claim["another_statistic"]:
        return "another statistic"
    words = {True: "apart", False: "within intervals", None: NOT_COMPARABLE}[claim["apart"]]
    if claim["difference"] is None:
        return words
    low, high = (numbers.from_json(claim["difference"][word]) for word in ("low", "high"))
    return f"{words}, A - B = {numbers.estimate(claim['difference']['value'], low, high)}"


def _paired(ours: list[Study], theirs: list[Study]) -> tuple[list[tuple[Study, Study]], list[Study], list[Study]]:
    if len(ours) == len(theirs) == 1:
        return [(ours[0], theirs[0])], [], []
    pairs: list[tuple[Study, Study]] = []
    left, right = list(ours), list(theirs)
    for alike in (lambda x, y: (x.name, x.scale) == (y.name, y.scale), lambda x, y: x.name == y.name):
        for study in list(left):
            other = next((one for one in right if alike(study, one)), None)
            if other is not None:
                pairs.append((study, other))
                left.remove(study)
                right.remove(other)
    return sorted(pairs, key=lambda pair: (pair[0].name, str(pair[0].folder))), left, right


def _names(studies: list[Study]) -> str:
    names = list(dict.fromkeys(study.name for study in studies))
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _compared(a: Study, b: Study) -> dict[str, Any]:
    claims = _claims(a, b)
    return {
        "name": a.name if a.name == b.name else f"{a.name} and {b.name}",
        "a": _head(a),
        "b": _head(b),
        "settings": _differences(a.settings, b.settings),
        "versions": _differences(a.versions | {"device": a.device}, b.versions | {"device": b.device}),
        "sources": sorted(name for name in a.sources.keys() & b.sources.keys() if a.sources[name] != b.sources[name]),
        "judged_alike": a.name != b.name or a.concluded == b.concluded,  # two experiments are no versions of one
        "claims": claims,
        "verdicts_changed": sum(claim["verdict_changed"] for claim in claims),
        "numbers": sum(claim["apart"] is not None for claim in claims),
        "apart": sum(claim["apart"] is True for claim in claims),
        "not_comparable": sum(differing(claim).startswith(NOT_COMPARABLE) for claim in claims),
        "costs": {
            word: {"a": left, "b": right}
            for word, left, right in (
                ("seconds", a.seconds, b.seconds),
                *((word, _number(a.engine.get(word)), _number(b.engine.get(word))) for word in COSTS),
            )
            if left is not None or right is not None
        },
    }


def _number(found: Any) -> Any:
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def _head(study: Study) -> dict[str, Any]:
    return {
        "folder": str(study.folder),
        "name": study.name,
        "scale": study.scale,
        "status": study.status,
        "command": study.command,
    }


def _differences(a: dict[str, Any], b: dict[str, Any]) -> dict[str, dict[str, Any]]:
    names = dict.fromkeys([*a, *b])
    return {name: {"a": a.get(name), "b": b.get(name)} for name in names if a.get(name) != b.get(name)}


def _claims(a: Study, b: Study) -> list[dict[str, Any]]:
    ours, theirs = ({claim.name: claim for claim in study.claims} for study in (a, b))
    return [_claim(name, ours.get(name), theirs.get(name)) for name in dict.fromkeys([*ours, *theirs])]


def _claim(name: str, a: Claim | None, b: Claim | None) -> dict[str, Any]:
    another = changed = False
    found, apart = None, None
    if a is not None and b is not None:
        another, changed = a.statistic != b.statistic, a.verdict != b.verdict
        found, apart = (None, None) if another else difference(a, b)
    return {
        "name": name,
        "statement": next(claim.statement for claim in (a, b) if claim is not None),
        "a": _side(a),
        "b": _side(b),
        "verdict_changed": changed,
        "another_statistic": another,
        "difference": found,
        "apart": apart,
    }


def _side(claim: Claim | None) -> dict[str, Any] | None:
    if claim is None:
        return None
    words = ("verdict", "value", "low", "high", "unit", "threshold", "trials", "statistic")
    return {word: numbers.json_number(getattr(claim, word)) for word in words}


def difference(a: Claim, b: Claim) -> tuple[dict[str, Any] | None, bool | None]:
    """The difference of two numbers with its interval, and whether they are apart; None where nothing can be said."""
    ends = (a.value, a.low, a.high, b.value, b.low, b.high)
    if any(end is None or math.isnan(end) for end in ends):
        return None, None
    x, low_x, high_x, y, low_y, high_y = (float(end) for end in ends if end is not None)
    if not (math.isfinite(x) and math.isfinite(y)):  # ∞ is "not reached": only intervals without a common number tell
        return None, low_x > high_y or low_y > high_x
    middle = x - y
    low = middle - math.hypot(max(x - low_x, 0.0), max(high_y - y, 0.0))
    high = middle + math.hypot(max(high_x - x, 0.0), max(y - low_y, 0.0))
    slack = ROUNDING * max(abs(x), abs(y))
    found = {word: numbers.json_number(one) for word, one in (("value", middle), ("low", low), ("high", high))}
    if low == -math.inf and high == math.inf:
        return found, None
    return found, low > slack or high < -slack
