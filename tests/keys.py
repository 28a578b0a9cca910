"""Which colours a figure uses, and which of them it explains: for the law that every colour has a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.collections import Collection, QuadMesh
from matplotlib.colors import to_hex, to_rgba, to_rgba_array
from matplotlib.container import BarContainer
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.spines import Spine

from krogh.lab.figures import DARK, GRID, INK, MUTED

NEUTRAL = {to_hex(color) for color in (GRID, INK, MUTED, DARK, "white")}
"""Frames, rules, references with their names on them, and marks that a caption or a tick names."""


def unexplained(drawing: Any) -> list[str]:
    """What has no key in a figure: "axes 1: #0072b2" for a colour, "axes 2: a map" for one without a colour bar.

    A colour is explained by an entry of a legend, by a word in the same colour, or by being the only one of its axes.
    """
    known = set(_keys(drawing))
    found = []
    bars = {id(ax) for ax in drawing.axes if hasattr(ax, "_colorbar")}
    mapped = {id(ax._colorbar.mappable) for ax in drawing.axes if hasattr(ax, "_colorbar")}
    panels = [ax for ax in drawing.axes if ax.get_visible() and id(ax) not in bars]
    for place, ax in enumerate(panels):
        used = {color for artist in ax.get_children() for color in _colors(artist)} - NEUTRAL
        if len(used) > 1:
            found += [f"axes {place}: {color}" for color in sorted(used - known)]
        norms = [(m.cmap.name, m.get_clim()) for one in panels for m in _maps(one) if id(m) in mapped]
        for image in _maps(ax):
            shared = (image.cmap.name, image.get_clim()) in norms
            if not (id(image) in mapped or shared or ax.texts or np.ndim(image.get_array()) == 3):
                found.append(f"axes {place}: a map")
    return found


def lone_marks(drawing: Any) -> list[str]:
    """The legends that stand among data, without a frame, and have an entry that looks like a data point."""
    from krogh.lab.figures import _is_lone_mark

    drawing.draw_without_rendering()
    found = []
    for place, ax in enumerate(drawing.axes):
        legend = ax.get_legend()
        if legend is None or legend.get_frame_on():
            continue
        inside = legend.get_window_extent().overlaps(ax.get_window_extent().padded(-2))
        if inside and any(_is_lone_mark(handle) for handle in legend.legend_handles):
            found.append(f"axes {place}: {[text.get_text() for text in legend.get_texts()]}")
    return found


def _maps(ax: Any) -> list[Any]:
    return [artist for artist in ax.get_children() if isinstance(artist, QuadMesh | AxesImage)]


def _keys(drawing: Any) -> Iterator[str]:
    legends = [ax.get_legend() for ax in drawing.axes if ax.get_legend() is not None] + drawing.legends
    for legend in legends:
        for handle in legend.legend_handles:
            yield from _colors(handle)
    for ax in drawing.axes:
        for text in (*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels()):
            if text.get_text():
                yield to_hex(text.get_color())


def _colors(artist: Any) -> Iterator[str]:
    """The colours that an artist shows, without their transparency."""
    if isinstance(artist, BarContainer):
        for patch in artist:
            yield from _colors(patch)
    elif isinstance(artist, Line2D):
        points = np.asarray(artist.get_xydata(), float)
        if artist.axes is not None and not np.isfinite(points).all(axis=1).any():
            return
        if str(artist.get_linestyle()).lower() not in ("none", "", " "):
            yield to_hex(artist.get_color())
        if artist.get_marker() not in ("none", "", " ", None):
            edge, face = artist.get_markeredgecolor(), artist.get_markerfacecolor()
            shown = (edge, face) if artist._marker.is_filled() else (edge,)
            yield from (to_hex(color) for color in shown if not _nothing(color))
    elif isinstance(artist, QuadMesh | AxesImage):
        return
    elif isinstance(artist, Collection):
        for colors in (artist.get_facecolor(), artist.get_edgecolor()):
            yield from (to_hex(color) for color in to_rgba_array(colors) if color[3] > 0)
    elif isinstance(artist, Patch) and not isinstance(artist, Spine):
        background = artist.axes is not None and artist is artist.axes.patch
        if not background and artist.get_fill() and to_rgba(artist.get_facecolor())[3] > 0:
            yield to_hex(artist.get_facecolor())


def _nothing(color: Any) -> bool:
    return isinstance(color, str) and color.lower() == "none"
