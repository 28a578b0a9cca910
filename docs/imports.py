"""Who imports whom: `python docs/imports.py` draws docs/imports.svg, with --count it counts lines in architecture.md.

The picture is read off the syntax trees of src/krogh: a box for each folder (the modules beside them are one box), an
arrow where one imports another. Arrows that follow from others are drawn as faint arcs, so that the shape can be seen;
those to the modules beside the folders, which everything uses, are left out. Nothing but Python is needed, and the same
source gives the same bytes.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "krogh"
PICTURE = HERE / "imports.svg"
PAGE = HERE / "architecture.md"
ROOT = "values, files, numbers, registry, errors"
"""The box of the modules that stand beside the folders."""

BEGIN, END = "<!-- counted by docs/imports.py -->\n", "<!-- end -->"
BEFORE = {
    "tasks": (7861, 57),
    "models": (2753, 28),
    "training": (878, 9),
    "probes": (625, 6),
    "theory": (18146, 130),
    "engine": (2776, 17),
    "lab": (4709, 25),
    "experiments": (12468, 51),
    "report": (581, 4),
    "cli": (1521, 11),
    "bench": (286, 5),
    ROOT: (604, 5),
}
"""Lines and modules of each folder before the folders were arranged by subject."""

WIDTH, HEIGHT, GAP, ROW, MARGIN, ARCS = 118, 30, 26, 58, 16, 60


def folder_of(module: str) -> str:
    """The box of a dotted module: its folder under krogh, or that of the modules beside the folders."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and (SOURCE / parts[1]).is_dir() else ROOT


def modules() -> Iterator[tuple[str, Path]]:
    """Every module by its dotted name; the package and its command only hand on names."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name not in ("krogh", "krogh.__main__"):
            yield name, path


def imported(path: Path) -> Iterator[str]:
    """The modules of krogh that a file imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("krogh."))
        elif isinstance(node, ast.ImportFrom) and node.module == "krogh":
            yield from (f"krogh.{name.name}" for name in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("krogh."):
            yield str(node.module)


def graph() -> dict[str, set[str]]:
    """Each folder with the folders that it imports."""
    edges: dict[str, set[str]] = {}
    for name, path in modules():
        targets = edges.setdefault(folder_of(name), set())
        targets.update(folder_of(target) for target in imported(path))
    return {name: targets - {name} for name, targets in edges.items()}


def levels(edges: Mapping[str, set[str]]) -> dict[str, int]:
    """The row of each folder, counted from the bottom: below all that import it, and no lower. A circle is refused."""

    @cache
    def depth(name: str, above: tuple[str, ...] = ()) -> int:
        if name in above:
            raise SystemExit(f"imports go round in a circle: {' -> '.join([*above, name])}")
        return max((1 + depth(target, (*above, name)) for target in sorted(edges[name])), default=0)

    rows: dict[str, int] = {}
    for name in sorted(edges, key=lambda each: (-depth(each), each)):
        rows[name] = min((rows[other] - 1 for other in edges if name in edges[other]), default=depth(name))
    return rows


def reduced(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The arrows that do not follow from others."""

    @cache
    def reached(name: str) -> frozenset[str]:
        return frozenset(edges[name]).union(*(reached(target) for target in edges[name]))

    return {name: targets - set().union(*(reached(target) for target in targets)) for name, targets in edges.items()}


def draw(edges: Mapping[str, set[str]]) -> str:
    """The picture: what stands on nothing at the bottom, every arrow pointing down."""
    level = levels(edges)
    rows = [sorted(name for name in edges if level[name] == height) for height in range(max(level.values()) + 1)]
    widths = {name: max(WIDTH, 9 * len(name)) for name in edges}
    widest = max(sum(widths[name] for name in row) + GAP * (len(row) - 1) for row in rows)
    total = widest + 2 * MARGIN + ARCS
    place: dict[str, tuple[float, float]] = {}
    for height, row in enumerate(reversed(rows)):
        left = MARGIN + (widest - sum(widths[name] for name in row) - GAP * (len(row) - 1)) / 2
        for name in row:
            place[name] = (left + widths[name] / 2, MARGIN + ROW * height)
            left += widths[name] + GAP
    tall = 2 * MARGIN + ROW * (len(rows) - 1) + HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total:g} {tall:g}" width="{total:g}" height="{tall:g}"'
        ' font-family="DejaVu Sans, sans-serif" font-size="13">',
        "<title>Imports between the folders of krogh, downwards only</title>",
        f"<defs>{_head('head', '#5f5f5f')}{_head('faint', '#c4d3de')}</defs>",
        f'<rect width="{total:g}" height="{tall:g}" fill="#ffffff"/>',
    ]
    shape = reduced(edges)
    for name, targets in sorted(edges.items()):
        for target in sorted(targets - shape[name] - {ROOT}):
            (x, y), (to_x, to_y) = place[name], place[target]
            x, to_x = x + widths[name] / 2, to_x + widths[target] / 2
            far = max(x, to_x) + 2.5 * ARCS * (level[name] - level[target]) / max(level.values())
            curve = f"M{x:g} {y + HEIGHT / 2:g}C{far:g} {y + HEIGHT:g} {far:g} {to_y:g} {to_x:g} {to_y + HEIGHT / 2:g}"
            lines.append(f'<path d="{curve}" fill="none" stroke="#c4d3de" marker-end="url(#faint)"/>')
    for name, targets in sorted(shape.items()):
        for target in sorted(targets):
            (x, y), (to_x, to_y) = place[name], place[target]
            half = widths[target] / 2 - 12
            to_x = min(max(x, to_x - half), to_x + half)
            y, middle = y + HEIGHT, (y + HEIGHT + to_y) / 2
            curve = f"M{x:g} {y:g}C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y - 1:g}"
            lines.append(f'<path d="{curve}" fill="none" stroke="#5f5f5f" stroke-width="1.4" marker-end="url(#head)"/>')
    for name, (x, y) in sorted(place.items()):
        wide = widths[name]
        box = f'<rect x="{x - wide / 2:g}" y="{y:g}" width="{wide:g}" height="{HEIGHT}" rx="5"'
        lines.append(f'{box} fill="#eef4f9" stroke="#0072B2"/>')
        lines.append(f'<text x="{x:g}" y="{y + 20:g}" text-anchor="middle" fill="#222222">{name}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _head(name: str, color: str) -> str:
    box = 'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"'
    return f'<marker id="{name}" {box}><path d="M0 0L8 4L0 8z" fill="{color}"/></marker>'


def counted() -> str:
    """A table of lines and modules of each folder, before and now."""
    lines: Counter[str] = Counter()
    number: Counter[str] = Counter()
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).parts
        folder = parts[0] if len(parts) > 1 else ROOT
        lines[folder] += len(path.read_text(encoding="utf-8").splitlines())
        number[folder] += 1
    rows = [
        "| folder | lines before | modules before | lines now | modules now |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    order = sorted({*BEFORE, *lines} - {ROOT})
    for folder in [*order, ROOT]:
        before = BEFORE.get(folder)
        was = f"{before[0]:,} | {before[1]}" if before else "|"
        rows.append(f"| {folder} | {was} | {lines[folder]:,} | {number[folder]} |")
    totals = [sum(part) for part in zip(*BEFORE.values(), strict=True)]
    rows.append(f"| **all** | {totals[0]:,} | {totals[1]} | {lines.total():,} | {number.total()} |")
    return "\n".join(rows) + "\n"


def write_counts() -> None:
    """Put the table between its marks in docs/architecture.md."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(head + BEGIN + counted() + END + tail, encoding="utf-8")


if __name__ == "__main__":
    PICTURE.write_text(draw(graph()), encoding="utf-8")
    if "--count" in sys.argv[1:]:
        write_counts()
