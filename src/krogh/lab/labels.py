"""Readable labels on axes and beside curves; used through `krogh.lab.figures`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from krogh.errors import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

INK = "#222222"
_LABEL = "krogh-direct-label"


def log_axis_labels(
    ax: Axes,
    axis: Literal["x", "y", "both"] = "x",
    *,
    values: Sequence[float] | None = None,
    base: float = 10,
) -> None:
    """Make an axis logarithmic with labels one can read: 20, 50, 100 and not 2×10¹; 10⁶ and not 1000000.

    With `values`, ticks stand exactly there, e.g. at the widths or the n that were measured.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    require(axis in ("x", "y", "both"), f"axis must be 'x', 'y' or 'both'; got axis={axis!r}")
    for name in ("x", "y") if axis == "both" else (axis,):
        (ax.set_xscale if name == "x" else ax.set_yscale)("log", base=base)
        target = ax.xaxis if name == "x" else ax.yaxis
        if values is not None:
            target.set_major_locator(FixedLocator([float(v) for v in values]))
            target.set_minor_locator(NullLocator())
        else:
            target.set_major_locator(_decades(base))
            target.set_minor_locator(LogLocator(base, subs="auto", numticks=50) if base == 10 else NullLocator())
        target.set_major_formatter(FuncFormatter(_tick(base)))
        target.set_minor_formatter(NullFormatter())


def _decades(base: float) -> Any:
    """Ticks at powers of the base; in base 10 also at 2 and 5 when fewer than two decades are in view."""
    from matplotlib.ticker import LogLocator

    class Decades(LogLocator):
        def tick_values(self, vmin: float, vmax: float) -> Any:
            span = math.log10(vmax / vmin) if 0 < vmin < vmax else math.inf
            self.set_params(subs=(1.0, 2.0, 5.0) if base == 10 and span < 2 else (1.0,))
            return super().tick_values(vmin, vmax)

    return Decades(base, numticks=9)


def _tick(base: float) -> Callable[[float, Any], str]:
    def text(value: float, _: Any) -> str:
        if 0.001 <= value < 100_000:
            return f"{value:.6g}"
        root = base if base in (2, 10) else 10
        power = math.log(value, root) if value > 0 else math.nan
        if not math.isfinite(power):
            return ""
        if abs(power - round(power)) < 1e-6:
            return f"${root:g}^{{{round(power)}}}$"
        exponent = math.floor(math.log10(value))
        return f"${value / 10**exponent:.3g}\\times10^{{{exponent}}}$"

    return text


def direct_label(
    ax: Axes,
    x: float | Sequence[float],
    y: float | Sequence[float],
    text: str,
    *,
    color: str = INK,
    side: Literal["right", "left", "above", "below"] = "right",
) -> Annotation:
    """Write `text` beside a point, or beside the last finite point of a curve.

    `save` moves overlapping labels of one panel apart.
    """
    import numpy as np

    xs, ys = np.atleast_1d(np.asarray(x, dtype=float)), np.atleast_1d(np.asarray(y, dtype=float))
    known = np.flatnonzero(np.isfinite(xs) & np.isfinite(ys))
    require(known.size, f"the label {text!r} needs a point with finite coordinates; got x={x!r}, y={y!r}")
    places = {"right": (6, 0), "left": (-6, 0), "above": (0, 6), "below": (0, -6)}
    require(side in places, f"side must be one of {', '.join(places)}; got side={side!r}")
    horizontal = {"right": "left", "left": "right"}.get(side, "center")
    vertical = {"above": "bottom", "below": "top"}.get(side, "center")
    return ax.annotate(
        text,
        (xs[known[-1]], ys[known[-1]]),
        xytext=places[side],
        textcoords="offset points",
        ha=horizontal,
        va=vertical,
        color=color,
        fontsize=9,
        annotation_clip=False,
        gid=_LABEL,
    )


def separate_labels(fig: Figure) -> None:
    """Push overlapping direct labels of one panel apart, up and down, until they can be read."""
    groups = [[text for text in ax.texts if text.get_gid() == _LABEL] for ax in fig.axes]
    if all(len(group) < 2 for group in groups):
        return
    fig.draw_without_rendering()  # places are known only once the layout is
    for group in groups:
        for _ in range(60):  # every pass separates one pair; a crowd that needs more is beyond help
            boxes = sorted(((text.get_window_extent(), text) for text in group), key=lambda pair: pair[0].y0)
            for (lower, under), (upper, over) in itertools.combinations(boxes, 2):
                overlap = lower.y1 - upper.y0
                if overlap > 0.1 and lower.x0 < upper.x1 and upper.x0 < lower.x1:
                    for text, sign in ((under, -1), (over, 1)):
                        dx, dy = text.xyann  # type: ignore[attr-defined]
                        moved = (dx, dy + sign * overlap / 2 * 72 / fig.dpi)
                        text.xyann = moved  # type: ignore[attr-defined]
                    break
            else:
                break
