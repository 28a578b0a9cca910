"""A study at a glance: what a prompt and a notebook show of it."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from krogh.numbers import estimate, from_json
from krogh.saying import printable

Rows = Sequence[Mapping[str, Any]]


def in_a_line(summary: Mapping[str, Any], claims: Rows, place: Path | str) -> str:
    """Name, scale, status, trials, claims by verdict, folder; `claims` are rows as in claims.json."""
    engine = summary.get("engine")
    trials = engine.get("trials", 0) if isinstance(engine, Mapping) else 0
    verdicts = Counter(str(claim.get("verdict")) for claim in claims)
    counted = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()) or "no claims"
    about = [word for word in (summary.get("scale"), summary.get("status")) if word]
    facts = ", ".join(map(str, [*about, f"{trials:,} trial{'s' * (trials != 1)}", counted]))
    return str(printable(f"<study {summary.get('name')}: {facts}; {place}>"))


def in_html(summary: Mapping[str, Any], claims: Rows, place: Path | str) -> str:
    """The same above a table of the claims."""
    head = "".join(f"<th>{word}</th>" for word in ("claim", "verdict", "measured", "wanted"))
    rows = []
    for claim in claims:
        value, low, high = (from_json(claim.get(word)) for word in ("value", "low", "high"))
        measured = estimate(value, low, high, str(claim.get("unit") or ""))
        cells = (claim.get("name"), claim.get("verdict"), measured, claim.get("threshold"))
        rows.append("".join(f"<td>{html.escape(str(printable(str(cell or ''))))}</td>" for cell in cells))
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
    return f"<p>{html.escape(in_a_line(summary, claims, place)[1:-1])}</p>{table}"
