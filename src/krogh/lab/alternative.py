"""What a figure shows, in words with its numbers: for those who cannot see it.

Made of what was drawn: the axes of each panel, then every series from its first point to its last, with intervals; of a
drawing that was not made of series, the ranges of the data behind it. The claims that the figure goes with come last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from krogh.lab.charts import Figure
from krogh.lab.claims import Claim
from krogh.numbers import estimate, number

LONGEST = 1500
"""Characters: a listener cannot skip. What is left out stands in the data beside the figure, and the text says so."""
PANELS, SERIES, COLUMNS, CLAIMS = 6, 8, 8, 3


def alternative_text(figure: Figure, claims: Sequence[Claim] = ()) -> str:
    """The figure in words: what it is, its axes, its numbers, the claims beside it."""
    sentences = [_sentence(figure.alt or figure.title)]
    marked = figure.marks is not None and len(figure.marks)
    sentences += _panels(figure) if marked else [*_axes_alone(figure), *_columns(figure.data)]
    sentences += [
        _sentence(f"{claim.statistic}: {estimate(claim.value, claim.low, claim.high, claim.unit)}, {claim.verdict}")
        for claim in claims[:CLAIMS]
    ]
    kept, length = [], 0
    for sentence in sentences:
        length += len(sentence) + 1
        if length > LONGEST:
            kept.append("The rest is in the data beside the figure.")
            break
        kept.append(sentence)
    return " ".join(kept)


def _panels(figure: Figure) -> Iterator[str]:
    marks = figure.marks
    assert marks is not None
    several = "panel" in marks.columns
    parts = marks.partition_by("panel", as_dict=True, maintain_order=True) if several else {("",): marks}
    axes = dict(_axes(figure))
    for (name, *_), rows in list(parts.items())[:PANELS]:
        words = axes.get(str(name), "") or next(iter(axes.values()), "")
        head = f"Panel {name}, {words}" if several and words else f"Panel {name}" if several else words
        yield _sentence(head)
        series = rows.partition_by("series", as_dict=True, maintain_order=True)
        for (label, *_), own in list(series.items())[:SERIES]:
            yield _series(str(label), own)
        if len(series) > SERIES:
            yield f"{len(series) - SERIES} more series."
    if len(parts) > PANELS:
        yield f"{len(parts) - PANELS} more panels."


def _series(label: str, rows: pl.DataFrame) -> str:
    """A series from its first point to its last, or by its ranges where it has no order."""
    name = f"{label}: " if label else ""
    finite = rows.drop_nulls("value")
    if not len(finite):
        return _sentence(f"{name}nothing measured")
    first, last = (finite.row(place, named=True) for place in (0, -1))
    if len(finite) == 1:
        return _sentence(f"{name}{_value(first)} at {_brief(first['x'])}")
    low, high = finite["value"].min(), finite["value"].max()
    steps = finite["x"].diff().drop_nulls()
    if not ((steps > 0).all() or (steps < 0).all()):  # marks, and no line from left to right
        return _sentence(f"{name}{len(finite)} points between {_brief(low)} and {_brief(high)}")
    text = f"{name}{_value(first)} at {_brief(first['x'])} to {_value(last)} at {_brief(last['x'])}"
    if len(finite) > 2 and [low, high] != sorted([first["value"], last["value"]]):
        text += f", between {_brief(low)} and {_brief(high)}"
    return _sentence(f"{text} ({len(finite)} points)")


def _value(row: dict[str, Any]) -> str:
    value, low, high = (row[part] for part in ("value", "low", "high"))
    if (low is None and high is None) or value == low == high:
        return _brief(value)
    return f"{_brief(value)} [{_brief(low)}, {_brief(high)}]"


def _brief(value: Any) -> str:
    """A number to three digits; a whole one without decimals."""
    if value is None or not math.isfinite(value) or value != int(value) or abs(value) >= 1e6:
        return number(value)
    return f"{int(value)}".replace("-", "−")


def _axes(figure: Figure) -> list[tuple[str, str]]:
    """Title and axes of each panel that is shown."""
    shown = [ax for ax in figure.drawing.axes if ax.get_visible() and not hasattr(ax, "_colorbar")]
    found = []
    for place, ax in enumerate(shown):
        x, y = (
            _flat(axis.label.get_text()) + (" (logarithmic)" if axis.get_scale() == "log" else "")
            for axis in (ax.xaxis, ax.yaxis)
        )
        words = f"{y} against {x}" if ax.get_xlabel() and ax.get_ylabel() else y if ax.get_ylabel() else x
        found.append((_flat(ax.get_title("left")) or str(place + 1), words.strip()))
    return found


def _axes_alone(figure: Figure) -> Iterator[str]:
    """Titles and axes of panels whose marks are not told apart."""
    for title, words in _axes(figure)[:PANELS]:
        named = not title.isdigit()
        text = f"{title}: {words}" if named and words else title if named else words
        if text:
            yield _sentence(text)


def _columns(data: pl.DataFrame) -> Iterator[str]:
    """The ranges of a table's numbers, and the names in it."""
    told = 0
    for column in data.columns:
        values = data[column].drop_nulls()
        words = column.replace("_", " ")
        if told == COLUMNS:
            yield "More columns are in the data beside the figure."
            return
        if not len(values):
            continue
        if values.dtype.is_numeric():
            known = values.cast(pl.Float64).drop_nans()
            if not len(known):
                continue
            low, high = float(known.min()), float(known.max())  # type: ignore[arg-type]
            yield f"{words}: {_brief(low)}." if low == high else f"{words}: {_brief(low)} to {_brief(high)}."
        elif values.dtype == pl.String and values.n_unique() <= SERIES:
            yield _sentence(f"{words}: {', '.join(map(_flat, values.unique(maintain_order=True)))}")
        else:
            continue
        told += 1


def _flat(text: str) -> str:
    return " ".join(text.split())


def _sentence(text: str) -> str:
    text = _flat(text)
    return text if not text or text[-1] in ".?!" else f"{text}."
