"""A run as a picture: grids side by side, time downwards, written as SVG that stands alone."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import numpy as np

from krogh.errors import Unwritable, require
from krogh.files import destination, write_atomically

MOST_ROWS = 500
"""More steps cannot be told apart."""
MOST_CELLS = 120
"""Cells of a tape; of a longer one those around the head."""
CELL, GAP, LEFT, TOP = 18, 22, 48, 64
"""Sizes in pixels: of a cell, between grids, and the margins."""
LONGEST_NAME = 14
PALETTE = ("#a8c7e8", "#f6c99f", "#b5dcb0", "#efb1b0", "#cfbbe3", "#d3bfb6", "#f2c6e1", "#d0d0d0", "#dede9b", "#a9dfe6")
"""Light enough for letters on it."""
INK, FAINT, GRID, BLANK, DARK, WRONG = "#222222", "#777777", "#d9d9d9", "#f4f4f4", "#4a4a4a", "#c0392b"


class Mark(NamedTuple):
    """The columns of the interpreter's head and of the network's; None where it is not shown."""

    outline: int | None
    dot: int | None


class Grid(NamedTuple):
    """Columns with names, texts in cells or none, and colours: 0 blank, n > 0 that of symbol n, -1 dark."""

    title: str
    names: list[str]
    texts: list[list[str]] | None
    colours: list[list[int]]
    marks: list[Mark]


class Picture(NamedTuple):
    """Grids with the same rows; rows that are not `equal` are marked."""

    title: str
    axis: str
    labels: list[str]
    grids: list[Grid]
    equal: list[bool]
    caption: str


def require_drawable(path: Path, steps: int) -> None:
    """Refuse, before anything runs, what cannot be drawn or written."""
    require(
        path.suffix.lower() == ".svg", f"pictures are written as SVG; got {str(path)!r} (try {path.stem + '.svg'!r})"
    )
    destination(path)
    require(path.parent.is_dir(), f"no folder {str(path.parent)!r} for the picture {str(path)!r}")
    require(steps <= MOST_ROWS, f"a picture has a row for each of at most {MOST_ROWS} steps; got {steps:,} (--steps)")


def columns_of(lowest: int, highest: int, heads: np.ndarray) -> tuple[range, bool]:
    """The cells that are drawn, all or those around the head's middle, and whether some are left out."""
    if highest - lowest < MOST_CELLS:
        return range(lowest, highest + 1), False
    middle = (int(heads.min()) + int(heads.max())) // 2
    first = min(max(lowest, middle - MOST_CELLS // 2), highest + 1 - MOST_CELLS)
    return range(first, first + MOST_CELLS), True


def write_picture(path: Path, picture: Picture) -> None:
    """The picture as a file."""
    try:
        write_atomically(destination(path), ("\n".join(_svg(picture)) + "\n").encode(), parents=False)
    except OSError as error:
        raise Unwritable(f"the picture {str(path)!r} cannot be written: {error.strerror}") from None


def _svg(picture: Picture) -> list[str]:
    names = max(len(_short(name)) for grid in picture.grids for name in grid.names)
    top = TOP + 7 * names
    starts, x = [], LEFT
    for grid in picture.grids:
        starts.append(x)
        x += max(CELL * len(grid.names), 7 * len(grid.title)) + GAP
    lines = _wrapped(picture.caption, (max(x, 420) - 20) // 6)
    width, bottom = max(x, 420), top + CELL * len(picture.labels)
    height = bottom + 18 + 15 * len(lines)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" font-family="Helvetica, Arial, sans-serif" font-size="11">',
        f"<title>{escape(_clean(picture.title))}</title>",
        f"<desc>{escape(_clean(picture.caption))}</desc>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(10, 20, picture.title, size=13, most=max(20, width // 7)),
        _text(LEFT - 8, top - 6, picture.axis, anchor="end", fill=FAINT),
    ]
    for row, label in enumerate(picture.labels):
        y = top + CELL * row + CELL // 2 + 4
        out.append(_text(LEFT - 8, y, label, anchor="end", fill=INK if picture.equal[row] else WRONG))
        if not picture.equal[row]:
            out.append(_text(x - GAP + 4, y, "different", fill=WRONG))
    for grid, start in zip(picture.grids, starts, strict=True):
        out += _grid(grid, start, top)
    out += [_text(10, bottom + 22 + 15 * place, line, fill=FAINT) for place, line in enumerate(lines)]
    return [*out, "</svg>"]


def _grid(grid: Grid, left: int, top: int) -> list[str]:
    out = [_text(left, 44, grid.title, fill=DARK)]
    for place, name in enumerate(grid.names):
        at = left + CELL * place + CELL // 2 + 4
        text = escape(_clean(_short(name)))
        out.append(f'<text transform="translate({at},{top - 6}) rotate(-90)" fill="{DARK}">{text}</text>')
    for row, colours in enumerate(grid.colours):
        y = top + CELL * row
        for place, colour in enumerate(colours):
            x, fill = left + CELL * place, _fill(colour)
            out.append(f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" fill="{fill}" stroke="{GRID}"/>')
            if grid.texts is not None and grid.texts[row][place]:
                out.append(_text(x + CELL // 2, y + 13, _short(grid.texts[row][place], 3), anchor="middle"))
    for row, mark in enumerate(grid.marks):
        y = top + CELL * row
        if mark.outline is not None:
            x = left + CELL * mark.outline
            out.append(
                f'<rect x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{CELL - 2}" fill="none" stroke="{INK}" '
                'stroke-width="2"/>'
            )
        if mark.dot is not None:
            out.append(f'<circle cx="{left + CELL * mark.dot + CELL - 4}" cy="{y + 4}" r="2.4" fill="{INK}"/>')
    return out


def _fill(colour: int) -> str:
    if colour < 0:
        return DARK
    return BLANK if colour == 0 else PALETTE[(colour - 1) % len(PALETTE)]


def _text(
    x: int, y: int, text: str, *, anchor: str = "start", fill: str = INK, size: int = 11, most: int = 10_000
) -> str:
    shown = escape(_clean(_short(text, most)))
    return f'<text x="{x}" y="{y}" fill="{fill}" font-size="{size}" text-anchor="{anchor}">{shown}</text>'


def _short(text: str, most: int = LONGEST_NAME) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _clean(text: str) -> str:
    """Without characters that XML does not have."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def _wrapped(text: str, width: int) -> Sequence[str]:
    return textwrap.wrap(_clean(text), width)
