"""Counts the verdicts on the pages of docs/results/ and puts the table into the README: `python docs/verdicts.py`.

A verdict is a word in the column `verdict` of a table, or else in its last; its scale is the one that was last named
above it. Tests say when the README's table is out of date.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
RESULTS = HERE / "results"
BEGIN, END = "<!-- verdicts -->\n", "<!-- end of verdicts -->\n"
VERDICTS = ("reproduced", "not reproduced", "inconclusive")
SCALES = ("paper", "laptop")

SOURCES = {
    "When do Transformers outperform feedforward and recurrent networks? (qSTR)": ("qstr",),
    "Combinatorial tasks as model systems, chapter 4": ("attention",),
    "chapter 5": ("parity",),
    "chapter 6": ("frontiers", "tabular"),
    "chapter 7": ("algebra",),
    "chapter 8": ("chains",),
    "Statistically meaningful approximation": ("approximation",),
    "Can SGD learn recurrent neural networks …? and Learning and generalization in RNNs": ("recurrence", "languages"),
}
"""Every source with the beginnings of the names of its pages."""

Counts = Counter[tuple[str, str]]


def verdicts(page: str) -> Counts:
    """How often each verdict was given at each scale."""
    counts: Counts = Counter()
    scale, column, lines = "laptop", -1, page.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("|"):
            cells = [cell.strip(" *").lower() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
            if following.startswith("| --"):
                column = cells.index("verdict") if "verdict" in cells else -1
                continue
            words = re.findall(r"not reproduced|reproduced|inconclusive", cells[column] if column < len(cells) else "")
            counts.update((scale, word) for word in words)
        elif named := re.search(r"--scale (paper|laptop)|\b(paper|laptop) scale", line, re.IGNORECASE):
            scale = (named[1] or named[2]).lower()
    return counts


def table(folder: Path = RESULTS) -> str:
    """The table of all sources, by scale."""
    pages = sorted(folder.glob("*.md"))
    unknown = [page.name for page in pages if not _source(page.stem)]
    assert not unknown, f"pages of no source in docs/verdicts.py: {unknown}"
    lines = ["| source | scale | " + " | ".join(VERDICTS) + " |", "| --- | --- |" + " ---: |" * len(VERDICTS)]
    total: Counts = Counter()
    for source in SOURCES:
        counts: Counts = Counter()
        for page in pages:
            if _source(page.stem) == source:
                counts += verdicts(page.read_text(encoding="utf-8"))
        total += counts
        rows = [scale for scale in SCALES if any(counts[scale, word] for word in VERDICTS)]
        for place, scale in enumerate(rows):
            lines.append(_row(source if not place else "", scale, [counts[scale, word] for word in VERDICTS]))
    lines.append(_row("all", "", [sum(total[scale, word] for scale in SCALES) for word in VERDICTS]))
    return "\n".join(lines) + "\n"


def _source(stem: str) -> str | None:
    return next((name for name, groups in SOURCES.items() if stem.split("-")[0] in groups), None)


def _row(source: str, scale: str, numbers: list[int]) -> str:
    return f"| {source} | {scale} | " + " | ".join(f"{number:,}" for number in numbers) + " |"


def filled(page: str) -> str:
    """The README with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + table() + "\n" + END + after


if __name__ == "__main__":
    README.write_text(filled(README.read_text(encoding="utf-8")), encoding="utf-8")
