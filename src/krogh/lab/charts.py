"""Charts: figures that know their axes, intervals, the source's values and note, and gather the data they draw.

    chart = Chart("scaling", "Median convergence time", source="dissertation, Figure 5.1 right")
    panel = chart.panel(x="input bits n", y="t_c (steps)", log="xy", xticks=ns)
    for k, curve in by_k.items():
        panel.curve(curve, f"k = {k}")                       # a band, its 95% interval, and a label at its end
    return chart.figure("Medians over 40 seeds; ...")

Every mark goes into one long table (panel, series, x, value, low, high), the figure's data, unless another is given.
What a chart has no word for is drawn on `panel.ax`, plain Matplotlib, with the helpers of `krogh.lab.figures`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from krogh.lab import figures
from krogh.lab.curves import Curve

Key = Literal["end", "legend", ""]
"""Where a label stands: beside the last point, in a legend, or nowhere."""


@dataclass(frozen=True)
class Figure:
    """A drawn figure with the data behind it."""

    name: str
    title: str
    caption: str
    drawing: Any
    data: pl.DataFrame
    alt: str = ""
    marks: pl.DataFrame | None = None  # what was drawn, series by series, where other data are given


@dataclass(frozen=True)
class Axes:
    """How a pair of axes is labelled.

    Labels with units, a title, which axes are logarithmic ("x", "y", "xy") and in which base, ticks at what was
    measured, limits.
    """

    x: str = ""
    y: str = ""
    title: str = ""
    log: str = ""
    base: float = 10
    xticks: Sequence[float] | None = None
    yticks: Sequence[float] | None = None
    xlim: tuple[float | None, float | None] | None = None
    ylim: tuple[float | None, float | None] | None = None

    def draw(self, ax: Any) -> None:
        if self.title:
            figures.panel_title(ax, self.title)
        for text, put in ((self.x, ax.set_xlabel), (self.y, ax.set_ylabel)):
            if text:
                put(text)
        axes: tuple[tuple[Literal["x", "y"], Sequence[float] | None, Any], ...]
        axes = ("x", self.xticks, ax.set_xticks), ("y", self.yticks, ax.set_yticks)
        for name, ticks, put in axes:
            if name in self.log:
                figures.log_axis_labels(ax, name, values=ticks, base=self.base)
            elif ticks is not None:
                put(list(ticks))
        for limits, put in ((self.xlim, ax.set_xlim), (self.ylim, ax.set_ylim)):
            if limits is not None:
                put(*limits)


class Panel:
    """One pair of axes of a chart."""

    def __init__(self, ax: Any):
        self.ax = ax
        self.title = ""
        self.rows: list[dict[str, Any]] = []
        self._colors = itertools.cycle(figures.PALETTE)
        self._keys = False
        self._rows_named = False
        self._never: dict[str, float] = {}

    def axes(self, **axes: Any) -> Panel:
        """Label the axes: keywords are the fields of `Axes`."""
        given = Axes(**axes)
        self.title = given.title or self.title
        given.draw(self.ax)
        return self

    def color(self) -> str:
        """The next colour of the palette."""
        return next(self._colors)

    def curve(
        self,
        curve: Curve,
        label: str = "",
        *,
        color: str | None = None,
        key: Key = "end",
        published: Mapping[float, float] | None = None,
        **look: Any,
    ) -> None:
        """Estimates with the band of their 95% intervals; the source's values at the same x as open circles."""
        chosen = self.color() if color is None else color
        self.band(curve.x, curve.low, curve.value, curve.high, label, color=chosen, key=key, **look)
        shown = {x: y for x, y in (published or {}).items() if x in curve.x}
        if shown:
            self.source_points(shown, chosen, label)

    def band(
        self,
        x: ArrayLike,
        low: ArrayLike,
        value: ArrayLike,
        high: ArrayLike,
        label: str = "",
        *,
        color: str | None = None,
        key: Key = "end",
        side: Literal["right", "left", "above", "below"] = "right",
        **look: Any,
    ) -> None:
        """Values with a band from `low` to `high`; a value that was not reached is a triangle at the upper edge."""
        xs, lows, values, highs = (np.asarray(part, float) for part in (x, low, value, high))
        chosen = self.color() if color is None else color
        legend = label if key == "legend" and label else None
        figures.interval_band(self.ax, xs, lows, values, highs, color=chosen, label=legend, **look)
        self._note(label, key, xs, values, chosen, side)
        self._gather(label, xs, values, lows, highs)

    def ranges(
        self,
        rows: pl.DataFrame,
        x: str,
        y: str,
        label: str = "",
        *,
        middle: Callable[[pl.Expr], pl.Expr] = pl.Expr.mean,
        **look: Any,
    ) -> None:
        """The mean of column `y` at each `x`, or what `middle` makes of it, in a band from the least to the largest."""
        value = pl.col(y)
        ends = rows.group_by(x).agg(low=value.min(), middle=middle(value), high=value.max()).sort(x)
        self.band(ends[x], ends["low"], ends["middle"], ends["high"], label, **look)

    def line(
        self,
        x: ArrayLike,
        y: ArrayLike,
        label: str = "",
        *,
        color: str | None = None,
        style: Any = "--",
        width: float = 1.2,
        key: Key = "end",
        side: Literal["right", "left", "above", "below"] = "right",
        **look: Any,
    ) -> None:
        """A line, e.g. what theory says."""
        xs, ys = np.asarray(x, float), np.asarray(y, float)
        chosen = self.color() if color is None else color
        legend = label if key == "legend" and label else None
        alone = np.count_nonzero(np.isfinite(xs) & np.isfinite(ys)) == 1  # no line would be seen
        marked = {"marker": "o", "markersize": 4.5} if alone else {}
        given = {"color": chosen, "linestyle": style, "linewidth": width, **marked, **look}
        self.ax.plot(xs, ys, label=legend, **given)
        self._note(label, key, xs, ys, chosen, side)
        self._gather(label, xs, ys)

    def dots(
        self,
        x: ArrayLike,
        y: ArrayLike,
        label: str = "",
        *,
        color: str | None = None,
        key: Key = "legend",
        **look: Any,
    ) -> None:
        """A mark per trial or network; what is infinite stands where `never` was said to be."""
        xs, ys = np.asarray(x, float), np.asarray(y, float)
        chosen = self.color() if color is None else color
        given = {"linestyle": "none", "marker": "o", "markersize": 4.5, "alpha": 0.7, **look}
        named = label if key == "legend" and label else None
        shown = (
            np.where(np.isposinf(part), self._never.get(axis, math.inf), part) for axis, part in (("x", xs), ("y", ys))
        )
        self.ax.plot(*shown, color=chosen, label=named, **given)
        self._keys |= named is not None
        self._gather(label, xs, ys)

    def never(self, place: float, axis: Literal["x", "y"] = "y") -> None:
        """Draw infinity as a dashed line at `place`, named never on the axis; dots that follow stand there."""
        self._never[axis] = place
        figures.never_line(self.ax, place, axis)

    def source_points(self, values: Mapping[float, float], color: str, label: str = "") -> None:
        """The source's values, as open circles."""
        hollow = {"linestyle": "none", "marker": "o", "markersize": 6, "markerfacecolor": "none"}
        self.ax.plot(list(values), list(values.values()), markeredgecolor=color, **hollow)
        self._gather(f"{label}, source" if label else "source", np.array(list(values)), np.array(list(values.values())))

    def reference(self, value: float, text: str, axis: Literal["x", "y"] = "y") -> None:
        """A value of the source or of theory as a dashed line across the panel, with its name on it."""
        figures.source_line(self.ax, value, text, axis=axis)

    def name_rows(self, names: Sequence[str], **look: Any) -> None:
        """Names along the y axis at 0, 1, ..., the first on top."""
        self.ax.set_yticks(range(len(names)), names, **look)
        self.ax.invert_yaxis()
        self._rows_named = True

    def legend(self, **options: Any) -> None:
        figures.legend(self.ax, **options)
        self._keys = False

    def _note(self, label: str, key: Key, x: np.ndarray, y: np.ndarray, color: str, side: Any) -> None:
        if key == "end" and label and np.isfinite(y).any():
            figures.direct_label(self.ax, x.tolist(), y.tolist(), label, color=color, side=side)
        elif key == "end" and label and np.isposinf(y).any():
            figures.edge_label(self.ax, float(x[np.isposinf(y)][-1]), label, color=color)
        self._keys |= key == "legend" and bool(label)

    def _gather(self, label: str, x: np.ndarray, y: np.ndarray, low: Any = None, high: Any = None) -> None:
        lows, highs = (np.full(len(x), np.nan) if ends is None else ends for ends in (low, high))
        for one in zip(x.tolist(), y.tolist(), lows.tolist(), highs.tolist(), strict=True):
            self.rows.append(
                dict(zip(("x", "value", "low", "high"), map(_known, one), strict=True)) | {"series": label}
            )


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


class Chart:
    """A figure with one or more panels, its source printed small under it."""

    def __init__(
        self,
        name: str,
        title: str,
        *,
        source: str = "",
        headline: str | None = None,
        rows: int = 1,
        columns: int = 1,
        width: float | None = None,
        height: float = 4.0,
        **panels: Any,
    ):
        """`title` names the figure on a page; `headline`, the same unless given, is drawn above it.

        `panels` says how panels share axes or room: `sharex`, `sharey`, `width_ratios`, as in `Figure.subplots`.
        """
        self.name, self.title = name, title
        size = (6.4 if columns == 1 else 4.6 * columns) if width is None else width
        head = title if headline is None else headline
        self.drawing, axes = figures.new_figure(head, width=size, height=height, nrows=rows, ncols=columns, **panels)
        self.panels = [Panel(ax) for ax in np.ravel(axes)]
        self._unused = iter(self.panels)
        if source:
            figures.source_note(self.drawing, source)

    def panel(self, **axes: Any) -> Panel:
        """The next panel, with its axes: keywords are the fields of `Axes`."""
        return next(self._unused).axes(**axes)

    def __iter__(self) -> Iterator[Panel]:
        return iter(self.panels)

    def __getitem__(self, place: int) -> Panel:
        return self.panels[place]

    def key(self, names: Mapping[str, str], **look: Any) -> None:
        """One key for the marks of all panels, names with their colours, beside the upper right one."""
        from matplotlib.lines import Line2D

        *_, beside = (panel for panel in self.panels if panel.ax.get_subplotspec().is_first_row())
        given: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 4.5, **look}
        handles = [Line2D([], [], color=color, label=name, **given) for name, color in names.items()]
        beside.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0))

    def figure(self, caption: str, data: pl.DataFrame | None = None, alt: str = "") -> Figure:
        """The finished figure; panels that were not asked for, of a grid that has too many, are not shown."""
        for panel in self.panels:
            if panel._keys:
                panel.legend()
            if not (panel.ax.has_data() or panel.ax.tables):
                panel.ax.set_visible(False)
        marks = self._marks()
        given = self._data() if data is None else data
        return Figure(self.name, self.title, caption, self.drawing, given, alt, marks)

    def _marks(self) -> pl.DataFrame:
        """What was drawn; where rows are named, what was measured is along x."""
        turned = {"x": "value", "value": "x"}
        return self._data(
            [
                [{turned.get(word, word): value for word, value in row.items()} for row in panel.rows]
                if panel._rows_named
                else panel.rows
                for panel in self.panels
            ]
        )

    def _data(self, rows_of: Sequence[Sequence[dict[str, Any]]] | None = None) -> pl.DataFrame:
        names = [panel.title or str(place + 1) for place, panel in enumerate(self.panels)]
        parts = [panel.rows for panel in self.panels] if rows_of is None else rows_of
        rows = [{"panel": name} | row for name, part in zip(names, parts, strict=True) for row in part]
        columns = {"panel": pl.String, "series": pl.String, **dict.fromkeys(("x", "value", "low", "high"), pl.Float64)}
        data = pl.DataFrame(rows, schema=columns)
        return data.drop("panel") if len(self.panels) == 1 else data
