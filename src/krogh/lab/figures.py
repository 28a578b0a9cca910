"""One look for every figure, and helpers for what figures here have in common.

Figures are plain `matplotlib.figure.Figure` objects: no pyplot, no global state, nothing to close. Drawing
inside `with style():` makes the look independent of the reader's own matplotlibrc; `new_figure` and `save`
see to it for what they do themselves. Saving is deterministic: the same figure gives the same bytes, so that
a figure under version control changes only when its content does.

Matplotlib is imported inside the functions: most of what imports this module draws nothing.
"""

from __future__ import annotations

import itertools
import logging
import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from krogh.errors import KroghError, require
from krogh.files import replacing
from krogh.lab.mathtext import typeset
from krogh.numbers import tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation

# Okabe and Ito's palette: distinguishable with every common colour-vision deficiency. The order puts those
# with the best contrast on white first; yellow comes last because a thin yellow line is hard to see.
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK, YELLOW = "#E69F00", "#56B4E9", "#000000", "#F0E442"
PALETTE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK, YELLOW)

INK, MUTED, GRID = "#222222", "#5f5f5f", "#e4e4e4"
LIGHT, DARK = "#fefefe", "#1e1e1e"
"""Words on a coloured cell: a page in dark mode turns ink and paper round, but neither a map nor the words on it."""
_LABEL, _SOURCE = "krogh-direct-label", "krogh-source"

_STYLE: dict[str, Any] = {
    "lines.linewidth": 1.7,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # ships with Matplotlib, so every machine draws the same letters
    "mathtext.fontset": "dejavusans",
    "axes.unicode_minus": True,
    "svg.fonttype": "path",  # the page must not depend on the reader's fonts
    "svg.hashsalt": "krogh",
    "pdf.fonttype": 42,  # text stays text: selectable, and accepted by journals
}


_BAND_LINE = {
    "marker": "o",
    "markersize": 4.5,
    "linewidth": 1.7,
    "markeredgecolor": "white",
    "markeredgewidth": 0.6,
}


@contextmanager
def style() -> Iterator[None]:
    """While this is open, Matplotlib's settings are ours alone; afterwards they are what they were."""
    import matplotlib.style

    with matplotlib.style.context(["default", _STYLE]):
        yield


def new_figure(title: str = "", *, width: float = 6.0, height: float = 3.8, **panels: Any) -> tuple[Figure, Any]:
    """A styled figure, `width` by `height` inches, whose title is the claim it shows.

    Returns the figure and its axes, `Figure.subplots(**panels)`: one `Axes` for a single panel, an array for several.
    The layout makes room for labels outside the axes, so nothing has to be adjusted by hand.

    >>> fig, ax = new_figure("Twice as much is two times more")
    >>> _ = ax.plot([1, 2], [2, 4])
    """
    from cycler import cycler
    from matplotlib.figure import Figure

    with style():
        fig = Figure(figsize=(width, height), layout="constrained", facecolor="white")
        axes = fig.subplots(**panels)
        for ax in fig.axes:
            ax.set_prop_cycle(cycler(color=PALETTE))
            ax.set_axisbelow(True)
            ax.grid(True, which="major", color=GRID, linewidth=0.7)
            ax.spines[["top", "right"]].set_visible(False)
            ax.spines[["left", "bottom"]].set_color(MUTED)
            ax.tick_params(which="both", color=MUTED, labelcolor=INK, labelsize=9.5)
            ax.tick_params(which="minor", length=2)
            for label in (ax.xaxis.label, ax.yaxis.label):
                label.set(size=10.5, color=INK)
        if title:
            fig.suptitle(_wrap(title, width), x=0.012, ha="left", fontsize=12, fontweight="bold", color=INK)
    return fig, axes


def _wrap(title: str, width: float) -> str:
    """Break a long title into lines of about equal length, so that no word is left alone on the last one."""
    limit = max(20, int(width / 0.098))  # about 0.098 inch a bold character at 12 points
    rows = len(textwrap.wrap(title, limit))
    while limit > 20 and len(textwrap.wrap(title, limit - 1)) == rows:
        limit -= 1
    return textwrap.fill(title, limit)


def panel_title(ax: Axes, text: str) -> None:
    """What one panel of several shows, at the left, where the eye starts."""
    ax.set_title(text, loc="left", fontsize=10.5, color=INK)


def legend(ax: Axes, **kwargs: Any) -> None:
    """A quiet legend; prefer `direct_label` where there is room for it.

    Where an entry is a mark without a line it has a frame: a lone dot among the data would read as one of them.
    """
    made = ax.legend(**{"frameon": False, "fontsize": 9, "labelcolor": INK, **kwargs})
    if any(_is_lone_mark(handle) for handle in made.legend_handles):
        made.set_frame_on(True)
        made.get_frame().set(facecolor="white", edgecolor=GRID, alpha=0.7, linewidth=0.8)


def _is_lone_mark(handle: Any) -> bool:
    """Whether an entry of a legend looks like a data point."""
    from matplotlib.collections import PathCollection
    from matplotlib.lines import Line2D

    if isinstance(handle, Line2D):
        return str(handle.get_linestyle()).lower() in ("none", "", " ") and handle.get_marker() not in (
            "none",
            "",
            None,
        )
    return isinstance(handle, PathCollection)


def interval_band(ax: Axes, x: ArrayLike, low: ArrayLike, value: ArrayLike, high: ArrayLike, **look: Any) -> Line2D:
    """Draw `value` over `x` with a band from `low` to `high`; returns the line, whose `look` is `Axes.plot`'s.

    Infinite values are results that never came (censored), not missing ones: a band without an upper end runs
    off the top of the axes, and a point at infinity is an open triangle at the upper edge.
    """
    xs, lo, mid, hi = (np.asarray(v, dtype=float) for v in (x, low, value, high))
    shapes = {v.shape for v in (xs, lo, mid, hi)}
    require(
        len(shapes) == 1 and xs.ndim == 1,
        f"x, low, value and high must be sequences of one length; got lengths "
        f"{', '.join(str(v.size) for v in (xs, lo, mid, hi))}",
    )
    (line,) = ax.plot(xs, np.where(np.isfinite(mid), mid, np.nan), **{**_BAND_LINE, **look})
    shade = line.get_color()
    # The stand-in for infinity must not stretch the axes, so the limits are taken from the finite ends alone.
    limits = ax.dataLim.frozen()
    finite = np.concatenate([v[np.isfinite(v)] for v in (lo, mid, hi)])
    beyond = 1e6 * max(1.0, float(np.max(np.abs(finite), initial=1.0)))
    top = np.where(np.isposinf(hi), beyond, hi)
    bottom = np.where(np.isneginf(lo), -beyond, np.where(np.isposinf(lo), beyond, lo))
    ax.fill_between(xs, bottom, top, color=shade, alpha=0.18, linewidth=0)
    ax.dataLim.set(limits)
    ends = np.column_stack([np.tile(xs, 2), np.concatenate([lo, hi])])
    ax.update_datalim(ends[np.isfinite(ends).all(axis=1)])
    ax.autoscale_view()
    never = xs[np.isposinf(mid)]
    if never.size:
        ax.plot(
            never,
            np.full(never.size, 0.985),
            transform=ax.get_xaxis_transform(),
            linestyle="none",
            marker="^",
            markersize=6,
            markerfacecolor="white",
            markeredgecolor=shade,
            clip_on=False,
            label="_never",
        )
    return line


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
        target.set_major_formatter(FuncFormatter(lambda value, _: tick(value, base)))
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


def edge_label(ax: Axes, x: float, text: str, *, color: str = INK) -> Annotation:
    """Write `text` beside the open triangle at the upper edge of a curve that is nowhere finite."""
    return ax.annotate(
        text,
        (x, 0.985),
        xycoords=ax.get_xaxis_transform(),
        xytext=(6, 0),
        textcoords="offset points",
        ha="left",
        va="center",
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


def source_line(ax: Axes, value: float, text: str, *, axis: Literal["x", "y"] = "y") -> None:
    """The source's value as a dashed line beside ours, with its name on it."""
    draw, place = (ax.axhline, (1.0, value)) if axis == "y" else (ax.axvline, (value, 1.0))
    draw(value, color=MUTED, linewidth=1.1, linestyle=(0, (5, 3)), zorder=1.5)
    along = ax.get_yaxis_transform() if axis == "y" else ax.get_xaxis_transform()
    offset, vertical = ((-2, 3), "bottom") if axis == "y" else ((-3, -2), "top")
    ax.annotate(
        text,
        place,
        xycoords=along,
        xytext=offset,
        textcoords="offset points",
        ha="right",
        va=vertical,
        color=MUTED,
        fontsize=8.5,
    )


def never_line(ax: Axes, place: float, axis: Literal["x", "y"] = "y") -> None:
    """A dashed line for what never came, beyond all that did: its tick says so, and no number stands that far out."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter

    target, draw = (ax.yaxis, ax.axhline) if axis == "y" else (ax.xaxis, ax.axvline)
    draw(place, color=MUTED, linewidth=1.1, linestyle=(0, (5, 3)), zorder=1.5)
    numbers = target.get_major_formatter()
    target.set_major_formatter(FuncFormatter(lambda value, at: "" if value > 0.8 * place else numbers(value, at)))
    target.remove_overlapping_locs = False  # a number that stands there is blank
    target.set_minor_locator(FixedLocator([place]))
    target.set_minor_formatter(FixedFormatter(["never"]))
    target.set_tick_params(which="minor", labelsize=9.5)


def source_note(target: Axes | Figure, text: str) -> None:
    """Print the source ("dissertation, Figure 5.1 right") small, under a figure or beside a panel."""
    from matplotlib.figure import Figure

    if not isinstance(target, Figure):
        target.annotate(
            text,
            (1.0, 0.0),
            xycoords="axes fraction",
            xytext=(5, 0),
            textcoords="offset points",
            rotation=90,
            ha="left",
            va="bottom",
            color=MUTED,
            fontsize=7.5,
            annotation_clip=False,
            gid=_SOURCE,
            parse_math=False,
        )
        return
    _foot(target, f"Source: {text}")


def found_note(fig: Figure, text: str) -> None:
    """Print what a study found at the foot of its figure, after the source: a headline says what the source claims."""
    before = [" ".join(note.get_text().split()) for note in fig.texts if note.get_gid() == _SOURCE]
    if not any(words.endswith(text) for words in before):
        _foot(fig, *before, text)


def _foot(fig: Figure, *parts: str) -> None:
    """Words at the foot of a figure, in place of those that stand there; the layout leaves a strip for them."""
    for note in fig.texts:
        if note.get_gid() == _SOURCE:
            note.remove()
    width, height = (float(size) for size in fig.get_size_inches())
    limit = max(20, int(width / 0.058))  # about 0.058 inch a character at 8 points
    together = " · ".join(parts)
    lines = [line for part in ([together] if len(together) <= limit else parts) for line in textwrap.wrap(part, limit)]
    strip = (0.07 + 0.13 * len(lines)) / height
    layout: Any = fig.get_layout_engine()
    layout.set(rect=(0, strip, 1, 1 - strip))
    look: dict[str, Any] = {"ha": "right", "va": "bottom", "color": MUTED, "fontsize": 8, "parse_math": False}
    fig.text(0.988, 0.05 / height, "\n".join(lines), gid=_SOURCE, **look)


def rate_map(ax: Axes, xs: Sequence[str], ys: Sequence[str], rates: ArrayLike, counts: ArrayLike | None = None) -> Any:
    """Rates [ys, xs] between 0 and 1 as a map whose cells are named, blank where NaN; ys go upwards.

    A cell shows its rate in percent (✓ for all), and with `counts` how many trials it rests on.
    """
    shares, numbers = np.asarray(rates, float), None if counts is None else np.asarray(counts)
    image = ax.pcolormesh(np.ma.masked_invalid(shares), cmap="cividis", vmin=0, vmax=1)
    size = 7.5 if shares.shape[1] <= 12 else 6.0
    for (row, column), share in np.ndenumerate(shares):
        if np.isfinite(share):
            text = "✓" if share == 1 else f"{100 * share:.0f}"
            text += "" if numbers is None else f"\n({numbers[row, column]})"
            shade = LIGHT if share < 0.5 else DARK
            ax.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=size, color=shade, zorder=4)
    ax.grid(False)
    crowded = sum(map(len, xs)) > 24
    ax.set_xticks(np.arange(len(xs)) + 0.5, list(xs), rotation=60 if crowded else 0)
    ax.set_yticks(np.arange(len(ys)) + 0.5, list(ys))
    return image


def set_mathematics(fig: Figure) -> None:
    """Set the mathematics in the words of a figure (`krogh.lab.mathtext`); where `parse_math` is off, words stay."""
    from matplotlib.text import Text
    from matplotlib.ticker import FixedFormatter, FuncFormatter

    for ax in fig.axes:
        for axis in (ax.xaxis, ax.yaxis):
            # Labels of ticks are written anew in every drawing, by the formatter.
            given = axis.get_major_formatter()
            verbatim = any(not label.get_parse_math() for label in axis.get_ticklabels())
            if isinstance(given, FuncFormatter | FixedFormatter) and not verbatim:
                axis.set_major_formatter(
                    FuncFormatter(lambda value, place, given=given: _drawable(given(value, place)))
                )
    for text in fig.findobj(Text):
        if text.get_parse_math():
            text.set_text(_drawable(text.get_text(), bold=text.get_fontweight() in ("bold", 700)))


def _drawable(text: str, *, bold: bool = False) -> str:
    """The text with its mathematics set, or as it is where Matplotlib cannot read what was made of it."""
    from matplotlib.mathtext import MathTextParser

    made = typeset(text, bold=bold)
    if made == text:
        return text
    try:
        for line in made.split("\n"):
            MathTextParser("path").parse(line)
    except ValueError:
        return text
    return made


def without_headline(fig: Figure) -> None:
    """Take away what a paper says beside a figure: the headline over it and the source under it."""
    from matplotlib.text import Text

    fig.suptitle("").set_in_layout(False)
    for note in fig.findobj(lambda artist: isinstance(artist, Text) and artist.get_gid() == _SOURCE):
        note.remove()
    layout: Any = fig.get_layout_engine()
    if layout is not None:
        layout.set(rect=(0, 0, 1, 1))


@contextmanager
def _without_warnings_of_fonts() -> Iterator[None]:
    """fontTools warns of fonts without a date; the prime of formulas is of one."""
    logger = logging.getLogger("fontTools.ttLib.tables._h_e_a_d")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def save(fig: Figure, folder: Path | str, name: str, *, plain: bool = False, found: str = "") -> tuple[Path, Path]:
    """Write `folder/name.svg` and `folder/name.pdf`; returns both paths. Never leaves half a file.

    Mathematics in its words is set as such; what a study `found` stands at the foot; a `plain` figure has neither
    headline nor foot.
    """
    if not name or Path(name).name != name:
        raise KroghError(f"a figure's name must be a file name without folders; got {name!r} (try 'scaling')")
    metadata = {"svg": {"Date": None, "Creator": "krogh"}, "pdf": {"CreationDate": None, "Creator": "krogh"}}
    paths = []
    with style(), _without_warnings_of_fonts():
        if plain:
            without_headline(fig)
        elif found:
            found_note(fig, found)
        set_mathematics(fig)
        separate_labels(fig)
        for kind, about in metadata.items():
            path = Path(folder) / f"{name}.{kind}"
            with replacing(path) as temporary:
                fig.savefig(temporary, format=kind, metadata=about)
            paths.append(path)
    return paths[0], paths[1]
