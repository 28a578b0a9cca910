"""What a figure shows, in words with its numbers: for those who cannot see it.

Made of what was drawn: the axes of each panel, then every series from its first point to its last, with intervals; of a
drawing that was not made of series, the ranges of the data behind it. The claims that the figure goes with come last.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from krogh.lab.charts import Figure
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED, Claim
from krogh.numbers import estimate, number

LONGEST = 1500
"""Characters: a listener cannot skip. What is left out stands in the data beside the figure, and the text says so."""
PANELS, SERIES, COLUMNS, CLAIMS, BARS = 6, 8, 8, 3, 12


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


def findings(claims: Sequence[Claim], scale: str) -> str:
    """What a study found, for the foot of a figure: "here: 3 of 5 claims reproduced, 2 inconclusive, smoke scale"."""
    counts = Counter(claim.verdict for claim in claims)
    noun = "claim" if len(claims) == 1 else "claims"
    parts = [f"{counts[REPRODUCED]} of {len(claims)} {noun} reproduced"] if claims else []
    parts += [f"{counts[verdict]} {verdict}" for verdict in (NOT_REPRODUCED, INCONCLUSIVE) if counts[verdict]]
    return f"here: {', '.join([*parts, f'{scale} scale'])}"


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
    for ax in _shown(figure):
        yield from _bars(ax)


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
    if low == high == math.inf:
        return _sentence(f"{name}{len(finite)} points at ∞")
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


def _shown(figure: Figure) -> list[Any]:
    return [ax for ax in figure.drawing.axes if ax.get_visible() and not hasattr(ax, "_colorbar")]


def _axes(figure: Figure) -> list[tuple[str, str]]:
    """Title and axes of each panel that is shown."""
    found = []
    for place, ax in enumerate(_shown(figure)):
        x, y = (
            _flat(axis.label.get_text()) + (" (logarithmic)" if axis.get_scale() == "log" else "")
            for axis in (ax.xaxis, ax.yaxis)
        )
        words = f"{y} against {x}" if ax.get_xlabel() and ax.get_ylabel() else y if ax.get_ylabel() else x
        found.append((_flat(ax.get_title("left")) or str(place + 1), words.strip()))
    return found


def _axes_alone(figure: Figure) -> Iterator[str]:
    """Titles and axes of panels whose marks are not told apart, and the numbers of their bars."""
    for ax, (title, words) in list(zip(_shown(figure), _axes(figure), strict=True))[:PANELS]:
        named = not title.isdigit()
        text = f"{title}: {words}" if named and words else title if named else words
        if text:
            yield _sentence(text)
        yield from _bars(ax)


def _bars(ax: Any) -> Iterator[str]:
    """The bars of a panel by name, where they are few; many of them are a histogram."""
    from matplotlib.container import BarContainer

    bars = [one for one in ax.containers if isinstance(one, BarContainer)]
    if sum(len(one.patches) for one in bars) > BARS:
        return
    for one in bars:
        lying = one.orientation == "horizontal"
        places = [
            patch.get_y() + patch.get_height() / 2 if lying else patch.get_x() + patch.get_width() / 2
            for patch in one.patches
        ]
        names = _names_at(ax.yaxis if lying else ax.xaxis, places)
        pairs = zip(names, np.asarray(one.datavalues, float).tolist(), strict=True)
        text = "; ".join(f"{name}: {_brief(value)}" for name, value in pairs)
        label = str(one.get_label())
        yield _sentence(text if label.startswith("_") else f"{label} ({text})")


def _names_at(axis: Any, places: Sequence[float]) -> list[str]:
    """What an axis writes beside bars: the name of the nearest tick, or where they stand on an axis of numbers."""
    from matplotlib.ticker import FixedFormatter, FuncFormatter

    ticks, formatter = axis.get_majorticklocs(), axis.get_major_formatter()
    named = isinstance(formatter, FixedFormatter | FuncFormatter) and axis.get_scale() != "log"
    if not (named and len(ticks)):
        return [f"at {_brief(place)}" for place in places]
    words = formatter.format_ticks(ticks)
    return [_flat(words[int(np.argmin(np.abs(ticks - place)))]) for place in places]


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
