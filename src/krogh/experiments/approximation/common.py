"""What the experiments on networks written by hand share: words, marks, and how hard an attack tries."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from krogh.lab import Estimate, figures
from krogh.lab.charts import Panel
from krogh.lab.estimate import exact

NO_EXPERIMENTS = (
    "The SM paper reports no experiments. Values beside ours were computed beforehand from its constructions, with "
    "other code; thresholds are those that were set for these experiments then."
)
CORRECTIONS = {True: ("with correction", figures.BLUE), False: ("without correction", figures.VERMILLION)}
SOLID: dict[str, Any] = {"style": "-", "width": 1.7, "marker": "o", "markersize": 4}
"""The look of a line through values that were computed at each of its points."""


def effort(settings: Any) -> dict[str, Any]:
    """How hard an attack tries: `restarts` directions, each improved in `refinements` rounds, from a `seed`."""
    return {name: getattr(settings, name) for name in ("restarts", "refinements", "seed")}


def variation(values: ArrayLike) -> Estimate:
    """The largest of some numbers over the least of them, less 1; NaN of none."""
    numbers = np.asarray(values, np.float64)
    return exact(numbers.max() / numbers.min() - 1 if numbers.size else np.nan, numbers.size)


def in_words(numbers: Sequence[float]) -> str:
    """ "3, 5, 9" or, of more than six, "3 to 33"."""
    if len(numbers) > 6:
        return f"{numbers[0]:g} to {numbers[-1]:g}"
    return ", ".join(f"{number:g}" for number in numbers)


def draw_beforehand(panel: Panel, known: Mapping[int, float], places: Container[int]) -> None:
    """Values that were computed beforehand as crosses, at the places that were measured."""
    shown = {place: value for place, value in known.items() if place in places}
    panel.ax.plot(list(shown), list(shown.values()), "x", color=figures.INK, markersize=7, zorder=4)
