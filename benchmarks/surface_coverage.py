"""How often the bands of `krogh.surface` hold the frontier, on surfaces that its constants were not set on.

    python benchmarks/surface_coverage.py 100              # searches for each family, other seeds each; a table
    python benchmarks/surface_coverage.py 20 dip coin      # two families

Nothing is trained: a trial succeeds with the probability that the family gives to its cell, successes end early as they
do in training, and the search sees them in the order in which they end. The families were written down before the first
of them was searched. The constants of `krogh.lab.frontier` and `krogh.lab.surface` were set on other shapes, those of
tests/lab/test_frontier.py and tests/lab/test_surface.py.
"""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from krogh.lab.surface import LIKELY, Surface, surface_search

FINE = 64  # points between neighbouring sizes, for the frontier between them
XS = (30.0, 60.0, 120.0, 250.0, 500.0, 1000.0, 2000.0, 4000.0)
YS = (8.0, 16.0, 64.0, 128.0, 512.0)


@dataclass(frozen=True)
class Family:
    """Surfaces of one kind: rates of a row, drawn anew for every search where they are random."""

    says: str
    rates: Callable[[np.random.Generator], Callable[[NDArray, float], NDArray]]
    xs: tuple[float, ...] = XS
    ys: tuple[float, ...] = YS
    p: float = 0.5
    trials: int = 40


def logistic(x, middle, width, low=0.0, high=1.0):
    return low + (high - low) / (1 + np.exp(-np.clip((np.log(x) - math.log(middle)) / width, -60, 60)))


def fixed(law):
    return lambda rng: law


def between(x, rates):
    """Given at the sizes, straight in log x between them."""
    return np.interp(np.log(x), np.log(XS), rates)


def shallow(x, y):
    """Success takes the whole grid to rise."""
    return logistic(x, 700 * (y / 64) ** -0.25, 1.3)


def cliff(x, y):
    """From never to always between two sizes; the place falls by leaps."""
    return np.where(x >= {8: 1500, 16: 1500, 64: 1500, 128: 90, 512: 45}[int(y)], 1.0, 0.0)


def low_plateau(x, y):
    """Rises to 0.62 and no further."""
    return logistic(x, 900 * (y / 8) ** -0.4, 0.2, 0.0, 0.62)


def below(x, y):
    """Levels off at 0.4, so p is reached nowhere; the widest row at 0.7."""
    return logistic(x, 300, 0.3, 0.05, 0.7 if y > 500 else 0.4)


def luck(x, y):
    """A third succeeds even with the smallest size."""
    return logistic(x, 1500 * (y / 8) ** -0.45, 0.25, 0.33, 0.95)


def dip(x, y):
    """Narrow double descent: a single size, just beyond the frontier, at which success is lost."""
    edge = {8: 1000, 16: 500, 64: 250, 128: 120, 512: 60}[int(y)]
    place = np.exp(np.round(np.log(x / edge) / math.log(2)) * math.log(2)) * edge
    return np.where(x < 0.75 * edge, 0.03, np.where(np.isclose(place, 2 * edge, rtol=0.2), 0.15, 0.95))


def window(x, y):
    """Success only in a window of two or three sizes, at other places in every row; failure at both ends."""
    first, last = {8: (400, 1400), 16: (200, 1400), 64: (200, 700), 128: (100, 700), 512: (100, 300)}[int(y)]
    return np.where((x >= first) & (x < last), 0.9, 0.04)


def partial_fall(x, y):
    """A fall to 0.35, 0.6 or 0.8 of what there was, at the fourth size, for good."""
    return logistic(x, 90 if y < 100 else 50, 0.15) * np.where(
        x < 220, 1.0, {8: 0.35, 16: 0.35, 64: 0.6}.get(int(y), 0.8)
    )


def zigzag(x, y):
    """Every other width is worse than both neighbours."""
    return logistic(x, {8: 1400, 16: 350, 64: 1400, 128: 180, 512: 700}[int(y)], 0.2)


def harmful(x, y):
    """Width does harm throughout: the smallest x grows by a factor two from row to row."""
    return logistic(x, {8: 90, 16: 180, 64: 350, 128: 700, 512: 1400}[int(y)], 0.15)


def faint(x, y):
    """Hardly any signal: from 0.35 to 0.65 over the whole grid, in a straight line of log x."""
    return (
        0.35 + 0.3 * (np.log(x) - math.log(XS[0])) / math.log(XS[-1] / XS[0]) + {8: -0.05, 512: 0.05}.get(int(y), 0.003)
    )


def more_luck(x, y):
    """At p = 0.8 more than half succeed anywhere, and nearly all in the end."""
    return logistic(x, 1500 * (y / 8) ** -0.45, 0.3, 0.55, 0.97)


def stairs(x, y):
    """Success is lost step by step: 0.9, 0.65, 0.3, 0.3; narrow rows lose it sooner."""
    place = np.searchsorted((200, 450, 900) if y < 100 else (450, 1800, 3000), x, side="right")
    return np.where(x < 100, 0.05, np.array([0.9, 0.65, 0.3, 0.3])[place])


def coin(rng):
    """Each cell has a rate of its own, anywhere between 0.2 and 0.8, neither rising in x nor in y."""
    table = {y: rng.uniform(0.2, 0.8, len(XS)) for y in YS}
    return lambda x, y: between(x, table[y])


def at_the_smallest(x, y):
    """All rows succeed everywhere, the narrowest from the smallest size on by a little."""
    return np.where(y < 10, logistic(x, 24, 0.5), 0.98) + 0 * x


def at_the_largest(x, y):
    """Only the largest size succeeds; narrow rows never do."""
    return logistic(x, 3300, 0.2) * np.where(y < 50, 0.2, 1.0)


def monotone(rng):
    """Any rates that rise in x and in y: sorted uniform numbers, a third of them pushed to 0 or 1."""
    table = np.clip(rng.uniform(-0.3, 1.3, (len(YS), len(XS))), 0.01, 0.99)
    table = np.sort(np.sort(table, axis=0), axis=1)
    rows = dict(zip(YS, table, strict=True))
    return lambda x, y: between(x, rows[y])


def drawn(rng):
    """Thresholds, widths, floors and ceilings drawn for every surface; thresholds fall with y, ceilings may miss p."""
    middles = dict(zip(YS, np.sort(np.exp(rng.uniform(math.log(15), math.log(9000), len(YS))))[::-1], strict=True))
    width, low, high = rng.uniform(0.05, 0.8), rng.uniform(0, 0.2), rng.uniform(0.4, 1.0)
    return lambda x, y: logistic(x, middles[y], width, low, high)


def drawn_with_falls(rng):
    """The same, and rows may lose what they have from some size on (one in two) or at one size only (one in four)."""
    law, harm = drawn(rng), {}
    for y in YS:
        kind, place, left = rng.random(), int(rng.integers(1, len(XS))), rng.uniform(0, 0.4)
        harm[y] = np.ones(len(XS))
        if kind < 0.75:
            harm[y][place : len(XS) if kind < 0.5 else place + 1] = left
    return lambda x, y: law(x, y) * between(x, harm[y])


FAMILIES = {
    "shallow": Family("rises over the whole grid", fixed(shallow)),
    "cliff": Family("0 to 1 between two sizes, by leaps", fixed(cliff)),
    "low-plateau": Family("levels off at 0.62", fixed(low_plateau)),
    "below": Family("levels off at 0.4, one row at 0.7", fixed(below)),
    "luck": Family("a third succeeds anywhere", fixed(luck)),
    "dip": Family("lost at one size beyond the frontier", fixed(dip)),
    "window": Family("succeeds in a window only", fixed(window)),
    "partial-fall": Family("falls to 0.35, 0.6, 0.8 for good", fixed(partial_fall)),
    "zigzag": Family("every other width is worse", fixed(zigzag)),
    "harmful": Family("the frontier grows throughout", fixed(harmful)),
    "faint": Family("0.35 to 0.65 over the whole grid", fixed(faint)),
    "coin": Family("any rate in any cell, 0.2 to 0.8", coin),
    "smallest": Family("frontier at or below the smallest size", fixed(at_the_smallest)),
    "largest": Family("frontier at the largest size, or nowhere", fixed(at_the_largest)),
    "monotone": Family("any rates that rise in both", monotone),
    "drawn": Family("logistic, all constants drawn", drawn),
    "drawn-falls": Family("the same, three rows in four lose success", drawn_with_falls),
    "one-row": Family("one row, constants drawn", drawn, ys=(64.0,)),
    "one-row-dip": Family("one row, lost at one size", fixed(dip), ys=(64.0,)),
    "p-90": Family("drawn, p = 0.9", drawn, p=0.9),
    "p-10": Family("drawn, p = 0.1", drawn, p=0.1),
    "few-trials": Family("drawn, 10 trials in a cell", drawn, trials=10),
    "more-luck": Family("more than half succeed anywhere, p = 0.8", fixed(more_luck), p=0.8),
    "stairs": Family("lost step by step: 0.9, 0.65, 0.3", fixed(stairs)),
}  # fmt: skip


@dataclass(frozen=True)
class Search:
    """One search: what was found, and what is so."""

    surface: Surface
    rates: dict[float, NDArray]  # of every row, at its sizes
    crossings: dict[float, float]  # where each row reaches p first, between the sizes too


def simulate(family: Family, seed: int, *, in_flight: int = 4, **options) -> Search:
    """A search over trials that are all drawn beforehand; a success ends early."""
    rng = np.random.default_rng(seed)
    law, xs, ys = family.rates(rng), np.array(family.xs), family.ys
    rates = {y: np.asarray(law(xs, y), dtype=float) + np.zeros(xs.size) for y in ys}
    outcome: list[bool] = []
    pools: dict[float, dict[float, list[int]]] = {}
    for y in ys:
        pools[y] = {}
        for x, rate in zip(xs.tolist(), rates[y], strict=True):
            pools[y][x] = list(range(len(outcome), len(outcome) + family.trials))
            outcome += (rng.random(family.trials) < rate).tolist()
    surface, search = surface_search(pools, p=family.p, in_flight=in_flight, seed=seed, **options)
    clock, queue, more = 0.0, [], search.start()
    while more or queue:
        for position in more:
            heapq.heappush(queue, (clock + (rng.uniform(0.1, 1) if outcome[position] else 1.0), position))
        clock, position = heapq.heappop(queue)
        more = search.finished(position, outcome[position])
    assert search.over()
    fine = np.exp(np.interp(np.arange((xs.size - 1) * FINE + 1) / FINE, np.arange(xs.size), np.log(xs)))
    fine[::FINE] = xs
    crossings = {y: _first(fine, np.asarray(law(fine, y)) + 0 * fine >= family.p) for y in ys}
    return Search(surface, rates, crossings)


def _first(places, reached) -> float:
    return float(places[int(np.argmax(reached))]) if np.any(reached) else math.inf


def covered(search: Search) -> dict[str, list[bool]]:
    """Whether the intervals hold the truth: on the candidates, between them, and read the other way."""
    surface, p = search.surface, search.surface.p
    rows = {y: _first(surface.xs, rates >= p) for y, rates in search.rates.items()}
    found = {"rows": [surface.rows[y].interval().contains(x) for y, x in rows.items()], "bands": [], "columns": []}
    for y, row in surface.rows.items():
        band, true = row.crossing(f"{y:g}"), search.crossings[y]
        # At or below the smallest size a band begins at 0; between sizes the fine grid rounds up by a 64th of a step.
        found["bands"].append(band.low <= true * (1 + 1e-9) and true <= band.high * (1 + 2e-2))
    if len(surface.ys) > 1:
        other, table = surface.transposed(), np.stack(list(search.rates.values()))
        columns = {x: _first(surface.ys, table[:, place] >= p) for place, x in enumerate(surface.xs)}
        found["columns"] = [other.rows[x].interval().contains(y) for x, y in columns.items()]
    return found


def steps_wide(surface: Surface) -> list[int]:
    """How many sizes lie between the ends of each row's interval."""
    places = [np.searchsorted(surface.xs, (row.interval().low, row.interval().high)) for row in surface.rows.values()]
    return [int(high - low) for low, high in places]


def summary(family: Family, searches: Iterator[Search]) -> dict[str, float]:
    """Shares covered (all rows, the worst row, bands, columns), cost, width, and falls said where there is none."""
    found = {"rows": [], "bands": [], "columns": []}
    cost, wide, invented, told = [], [], [], []
    for search in searches:
        for name, held in covered(search).items():
            found[name].append(held)
        cost.append(search.surface.trials / (len(family.xs) * len(family.ys) * family.trials))
        wide += steps_wide(search.surface)
        for y, row in search.surface.rows.items():
            reached = np.maximum.accumulate(search.rates[y] >= family.p)
            (told if np.any(reached & (search.rates[y] < family.p)) else invented).append(row.falls >= LIKELY)
    rows = np.array(found["rows"])
    mean = lambda values: float(np.mean(values)) if np.size(values) else math.nan  # noqa: E731
    return {
        "rows": mean(rows),
        "worst": float(rows.mean(axis=0).min()),
        "bands": mean(found["bands"]),
        "columns": mean(found["columns"]),
        "cost": mean(cost),
        "wide": mean(wide),
        "invented": mean(invented),
        "told": mean(told),
    }


def percent(value: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:.0f}%"


def main(number: int, names: list[str]) -> None:
    print(
        "| surface | rows | worst row | bands | columns | trials | steps wide | falls said, where none | where some |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in names or FAMILIES:
        family = FAMILIES[name]
        one = summary(family, (simulate(family, 1000 + seed) for seed in range(number)))
        shares = [percent(one[key]) for key in ("rows", "worst", "bands", "columns", "cost")]
        ends = [f"{one['wide']:.1f}", percent(one["invented"]), percent(one["told"])]
        print(f"| `{name}`: {family.says} | " + " | ".join(shares + ends) + " |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100, sys.argv[2:])
