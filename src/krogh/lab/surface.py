"""Success frontiers over two axes: the smallest x for each y, and the smallest y for each x, found adaptively.

    found = krogh.surface(trial, x="training__regime__m", xs=(100, 200, 400), y="model__width", ys=(10, 100), p=0.5)
    found.smallest_x()      # a curve over y: posterior medians and 95% intervals
    found.smallest_y()      # the same trials read the other way
    found.table(), found.figure()

A row (one y) is a frontier over x, as in `krogh.lab.frontier`, with two things more.

*It may fall.* With prior chance FALLS success is lost again at one of the sizes: the curve rises and reaches p before,
the rate there is below p, and either it stays so (one rate from there on) or each rate beyond is by itself, one as
likely as the other, all with Jeffreys' prior. So the posterior says how likely it is that more of x does harm
(`falls`), and a fall beyond the frontier does not move the frontier. As a search for the
frontier alone would not look there, every size at which success is not ruled out gets a few trials (scouts), and more
while a fall is in doubt.

*It knows its neighbours.* If y only helps, the smallest x does not grow with y. The joint posterior of all rows is

    Π_y own_y(a_y) Π_y T(a_y, a_{y+1}),    T(a, b) = (1-FREE) 1[b ≤ a]/Z + FREE

over the places a_y of the frontiers among the candidates: a chain, summed exactly forwards and backwards. FREE is the
prior chance that two neighbouring rows have nothing to do with each other, so that a frontier that does grow is found
and not smoothed away; `rises` gives the posterior chance of that for each pair.

Coverage for rising surfaces, for rows that fall and rise again and for frontiers that grow with y is measured in
tests/lab/test_surface.py.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy
from numpy.typing import ArrayLike, NDArray

from krogh.engine import Trial, sweep
from krogh.errors import require, require_integer
from krogh.lab import figures
from krogh.lab.charts import Chart, Figure
from krogh.lab.curves import Curve, curve
from krogh.lab.estimate import Floats
from krogh.lab.frontier import Frontier, Rule, curve_grid
from krogh.lab.sample_complexity import Fall, largest_fall
from krogh.lab.search import Problem, Search
from krogh.lab.store import Store
from krogh.lab.training import Progress, Work, train_missing

FALLS = 0.03  # prior chance that a row loses again what it has reached
FREE = 0.01  # prior chance that a row and the next have nothing to do with each other
DOUBT = (0.05, 0.95)  # a chance of falling between these is worth more trials
LIKELY = 0.9  # a chance from which on something is said to be so


@lru_cache(maxsize=16)
def _order(sizes: tuple[float, ...], p: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The curves of the grid by the place where they reach p, and where each place begins."""
    place = curve_grid(sizes, p).place
    order = np.argsort(place, kind="stable")
    return order, np.searchsorted(place[order], np.arange(len(sizes) + 1))


@dataclass(frozen=True)
class _Reading:
    """What the trials of a row say by themselves."""

    chances: Floats  # of each place, (sizes + 1,)
    curves: Floats  # posterior of each curve, (curves,)
    falls: Floats  # chance that success is at least p up to each size and lost at the next, (sizes,); last: never


class Row(Frontier):
    """One row of a surface: a frontier that may fall, and whose neighbours are heard."""

    def __init__(self, sizes: ArrayLike, p: float, *, rule: Rule, seed: int, scouts: int) -> None:
        super().__init__(sizes, p, rule=rule, seed=seed)
        require_integer("scouts", scouts, 0)
        self.scouts = scouts
        self.surface: Surface | None = None
        self._reading: _Reading | None = None

    def observe(self, size: float, success: bool, trials: int = 1) -> None:
        super().observe(size, success, trials)
        self._reading = None
        if self.surface is not None:
            self.surface.forget()

    @property
    def reading(self) -> _Reading:
        if self._reading is None:
            self._reading = self._read()
        return self._reading

    def _read(self) -> _Reading:
        count, curves, p = self.sizes.size, self._curves, self.p
        order, begins = _order(tuple(self.sizes.tolist()), float(p))
        hits, misses = self.successes + 0.5, self.failures + 0.5
        joint = np.cumsum(self.successes * curves.success + self.failures * curves.failure, axis=1)
        joint += curves.prior[:, None]  # of a curve and the trials up to each size
        top = joint.max(axis=0)
        weights = np.exp(joint - top)
        places = np.add.reduceat(weights[order], begins, axis=0)  # (sizes + 1, sizes)
        within = np.arange(count + 1)[:, None] <= np.arange(count)[None, :]  # p is reached before it is lost
        within[:, -1] = True
        places = np.where(within, places, 0.0)
        beyond = np.append(np.cumsum(_evidence(hits, misses)[::-1])[::-1], 0.0)  # each size has a rate by itself
        apart = _evidence_below(hits, misses, p) + beyond[1:]
        # A fall for good would pay for a rate at every size beyond, and lose against a curve that never reached p.
        stays = _evidence_below(_from_here(self.successes) + 0.5, _from_here(self.failures) + 0.5, p)
        after = np.append(np.logaddexp(apart, stays)[1:] - math.log(2), 0.0)
        chance = np.append(np.full(count - 1, FALLS / (count - 1)), 1 - FALLS)
        evidence = top + np.log(places.sum(axis=0)) + after + np.log(chance)
        falls = np.exp(evidence - scipy.special.logsumexp(evidence))
        scale = falls / places.sum(axis=0)
        # A curve counts where p is reached before it is lost: sum over where it is lost, from the curve's place on.
        tail = np.cumsum((weights * scale)[:, ::-1], axis=1)[:, ::-1]
        own = tail[np.arange(len(tail)), np.minimum(curves.place, count - 1)]
        return _Reading(places @ scale, own, falls)

    def chances(self) -> Floats:
        """The posterior of the smallest size that reaches p, given all rows; (sizes + 1,)."""
        return self.reading.chances if self.surface is None else self.surface.chances(self)

    def _weights(self) -> Floats:
        own = self.reading.chances
        weights = self.reading.curves * (self.chances() / np.maximum(own, 1e-300))[self._curves.place]
        return weights / weights.sum()

    @property
    def falls(self) -> float:
        """The posterior chance that success is lost again at a larger size."""
        return float(1 - self.reading.falls[-1])

    def largest_fall(self, sample: str = "") -> Fall | None:
        """Where success falls most between two sizes that were tried (M7)."""
        counts = self.counts()
        return largest_fall(counts, sample=sample) if len(counts) > 1 else None

    # --- what to try next ---

    @property
    def doubtful(self) -> bool:
        """Whether the row may or may not fall."""
        return DOUBT[0] < self.falls < DOUBT[1]

    def _unscouted(self, waiting: Mapping[float, int]) -> list[float]:
        """Sizes with fewer trials than `scouts`, those in flight counted, at which success is not ruled out.

        A row may succeed at middling sizes alone, where a search that begins at both ends would not look. Below the
        frontier of the next row there can be no success if y only helps.
        """
        above = None if self.surface is None else self.surface.above(self)
        least = 0.0 if above is None else above.interval().low
        rows = zip(self.sizes.tolist(), (self.successes + self.failures).tolist(), strict=True)
        return [size for size, number in rows if size >= least and number + waiting.get(size, 0) < self.scouts]

    def _contradictions(self, waiting: Mapping[float, int]) -> list[float]:
        """Sizes below the frontier where most succeed, or above it where most fail, with few trials so far."""
        found, most = self.interval(), 4 * self.scouts
        tried = self.successes + self.failures
        high = self.successes >= self.p * np.maximum(tried, 1)
        against = np.where(self.sizes < found.low, high, np.where(self.sizes > found.high, ~high, False)) & (tried > 0)
        rows = zip(self.sizes[against].tolist(), tried[against].tolist(), strict=True)
        return [size for size, number in rows if number + waiting.get(size, 0) < most]

    def _suspects(self) -> list[float]:
        """The sizes between which success may be lost: that with fewer trials first."""
        tried = self.successes + self.failures
        first = int(np.argmax(self.reading.falls[:-1]))
        pair = sorted((first, first + 1), key=lambda place: tried[place])
        return [float(self.sizes[place]) for place in pair]

    def _to_look_at(self, waiting: Mapping[float, int]) -> list[float]:
        """Sizes to try although the frontier is known."""
        asked = self._unscouted(waiting) or self._contradictions(waiting)
        return asked or (self._suspects() if self.doubtful else [])

    @property
    def done(self) -> bool:
        if self.trials >= self.rule.budget:
            return True
        return self.trials >= self.rule.least and self.narrow and not self._to_look_at({})

    def propose(
        self,
        count: int = 1,
        in_flight: Mapping[float, int] | None = None,
        left: Mapping[float, int] | None = None,
    ) -> list[float]:
        """Sizes to try next: where the frontier may be; once that is narrow, beyond it, and where success may fall."""
        waiting = dict(in_flight or {})
        room = {size: math.inf if left is None else float(left.get(size, 0)) for size in self.sizes.tolist()}
        proposed: list[float] = []
        for _ in range(count):
            if self.narrow and self.trials + sum(waiting.values()) >= self.rule.least:
                asked = self._to_look_at(waiting)
                chosen = [size for size in asked if room[size] > 0 and waiting.get(size, 0) < self.scouts][:1]
            else:
                chosen = super().propose(1, waiting, {size: int(min(free, 1e9)) for size, free in room.items()})
            if not chosen:
                break
            waiting[chosen[0]] = waiting.get(chosen[0], 0) + 1
            room[chosen[0]] -= 1
            proposed += chosen
        return proposed


class Surface:
    """The posterior of the smallest x that reaches success rate p at each y, all rows together."""

    def __init__(
        self,
        xs: Sequence[float],
        ys: Sequence[float],
        p: float = 0.5,
        *,
        rule: Rule = Rule(least=6),
        scouts: int = 3,
        borrow: bool = True,
        seed: int = 0,
        names: tuple[str, str] = ("x", "y"),
    ) -> None:
        rising = len(ys) > 0 and all(low < high for low, high in itertools.pairwise(ys))
        require(rising, f"ys must be ascending numbers, at least one; got {list(ys)}")
        self.xs, self.ys, self.p, self.borrow, self.names = (
            [float(x) for x in xs],
            [float(y) for y in ys],
            p,
            borrow,
            names,
        )
        self.rows = {y: Row(self.xs, p, rule=rule, seed=seed + place, scouts=scouts) for place, y in enumerate(self.ys)}
        for row in self.rows.values():
            row.surface = self
        prior = next(iter(self.rows.values())).reading.chances
        down = np.tril(np.ones((prior.size, prior.size)))  # [a, b]: b ≤ a
        self._transition = (1 - FREE) * down / (prior @ down @ prior) + FREE if borrow else np.ones_like(down)
        self.cost: dict[str, int] = {}  # trials and steps that were trained, and trials of the whole grid
        self._chances: dict[int, Floats] | None = None
        self._rises: Floats = np.zeros(0)

    def observe(self, x: float, y: float, success: bool, trials: int = 1) -> None:
        """Take in finished trials at (x, y) that all ended alike."""
        require(y in self.rows, f"y must be one of {self.ys}; got y={y!r}")
        self.rows[y].observe(x, success, trials)

    @property
    def trials(self) -> int:
        return sum(row.trials for row in self.rows.values())

    # --- rows together ---

    def forget(self) -> None:
        """What was computed from fewer trials."""
        self._chances = None

    def chances(self, row: Row) -> Floats:
        """The posterior of the place of a row's frontier, given all rows."""
        self._couple()
        assert self._chances is not None
        return self._chances[id(row)]

    def above(self, row: Row) -> Row | None:
        """The row of the next y, if rows hear each other."""
        rows = list(self.rows.values())
        place = next(number for number, one in enumerate(rows) if one is row) + 1
        return rows[place] if self.borrow and place < len(rows) else None

    def rises(self) -> dict[tuple[float, float], float]:
        """For each y and the next: the posterior chance that the smallest x grows from the one to the other."""
        self._couple()
        return dict(zip(zip(self.ys, self.ys[1:], strict=False), self._rises.tolist(), strict=True))

    def _couple(self) -> None:
        if self._chances is not None:
            return
        own = [row.reading.chances for row in self.rows.values()]
        forward, backward = [own[0]], [np.ones_like(own[-1])]
        for mine in own[1:]:
            forward.append(_normed(mine * (forward[-1] @ self._transition)))
        for mine in own[:0:-1]:
            backward.append(_normed(self._transition @ (mine * backward[-1])))
        backward.reverse()
        together = [_normed(f * b) for f, b in zip(forward, backward, strict=True)]
        self._chances = {id(row): found for row, found in zip(self.rows.values(), together, strict=True)}
        up = np.triu(np.ones_like(self._transition), 1)
        grown = []
        for place in range(len(own) - 1):
            pair = forward[place][:, None] * self._transition * (own[place + 1] * backward[place + 1])[None, :]
            grown.append((pair * up).sum() / pair.sum())
        self._rises = np.array(grown)

    # --- what it says ---

    def smallest_x(self, sample: str = "") -> Curve:
        """The smallest x that reaches p, over y."""
        return curve({y: row.crossing(f"{sample}{self.names[1]}={y:g}") for y, row in self.rows.items()})

    def smallest_y(self, sample: str = "") -> Curve:
        """The smallest y that reaches p, over x; every x must have been tried."""
        return self.transposed().smallest_x(sample)

    def transposed(self) -> Surface:
        """The same trials with the axes exchanged."""
        rule = next(iter(self.rows.values())).rule
        other = Surface(self.ys, self.xs, self.p, rule=rule, borrow=self.borrow, names=(self.names[1], self.names[0]))
        for y, row in self.rows.items():
            for x, hits, misses in zip(self.xs, row.successes.tolist(), row.failures.tolist(), strict=True):
                other.observe(y, x, True, hits)
                other.observe(y, x, False, misses)
        return other

    def falls(self) -> pl.DataFrame:
        """By row: the chance that success is lost again, and the largest fall that was seen."""
        rows = []
        for y, row in self.rows.items():
            fall = row.largest_fall(f"{self.names[1]}={y:g}")
            seen = (
                (None,) * 5
                if fall is None
                else (fall.first, fall.second, fall.drop.value, fall.drop.low, fall.drop.high)
            )
            rows.append((y, row.falls, *seen))
        return pl.DataFrame(rows, schema=FALL_COLUMNS, orient="row")

    def cells(self) -> pl.DataFrame:
        """Every cell that was tried: x, y, successes, trials."""
        rows = [(x, y, *cell) for y, row in self.rows.items() for x, cell in row.counts().items()]
        schema = {self.names[0]: pl.Float64, self.names[1]: pl.Float64, "successes": pl.Int64, "trials": pl.Int64}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def table(self) -> pl.DataFrame:
        """The frontier by y: smallest x with its 95% interval, trials, chances that it falls and that it rises in y."""
        rises = {high: chance for (_, high), chance in self.rises().items()}
        return (
            self.smallest_x()
            .table(self.names[1])
            .rename({"value": f"smallest {self.names[0]}"})
            .with_columns(
                falls=pl.Series([row.falls for row in self.rows.values()]),
                grows=pl.Series([rises.get(y) for y in self.ys], dtype=pl.Float64),
            )
        )

    def warnings(self) -> list[str]:
        """Where the surface is not what borrowing from neighbours assumes, in words."""
        x, y = self.names
        said = []
        for row in self.falls().filter(pl.col("falls") >= LIKELY).iter_rows(named=True):
            said.append(
                f"at {y} = {row['y']:g} success falls with {x}: by {row['drop']:.2f} from {row['first']:g} to "
                f"{row['second']:g} (chance {row['falls']:.2f})"
            )
        for (low, high), chance in self.rises().items():
            if chance >= LIKELY:
                said.append(f"from {y} = {low:g} to {high:g} the smallest {x} grows (chance {chance:.2f})")
        return said

    def figure(self, title: str = "", *, source: str = "", name: str = "surface") -> Figure:
        """Success rates with the number of trials of every cell, and the frontier with its band."""
        x, y = self.names
        chart = Chart(name, title or f"Smallest {x} for {self.p:.0%} success", source=source, columns=2, height=4.2)
        rates, counts = np.full((len(self.ys), len(self.xs)), math.nan), np.zeros((len(self.ys), len(self.xs)), int)
        for place, row in enumerate(self.rows.values()):
            counts[place] = row.successes + row.failures
            tried = counts[place] > 0
            rates[place, tried] = row.successes[tried] / counts[place, tried]
        panel = chart.panel(x=x, y=y, title="success in percent (trials)")
        figures.rate_map(panel.ax, [f"{v:g}" for v in self.xs], [f"{v:g}" for v in self.ys], rates, counts)
        panel = chart.panel(x=y, y=f"smallest {x}", log="xy", xticks=self.ys)
        panel.curve(self.smallest_x(), f"{self.p:.0%} success")
        said = "; ".join(self.warnings()) or "No row falls, and no frontier grows"
        caption = f"Posterior medians with 95% intervals from {self.trials:,} trials. {said}."
        return chart.figure(caption, self.table())


FALL_COLUMNS = {"y": pl.Float64, "falls": pl.Float64} | dict.fromkeys(
    ("first", "second", "drop", "low", "high"), pl.Float64
)


def _evidence(hits: Floats, misses: Floats) -> Floats:
    """Log chance of trials that share a rate with Jeffreys' prior; half a trial of either kind is counted already."""
    return scipy.special.betaln(hits, misses) - scipy.special.betaln(0.5, 0.5)


def _evidence_below(hits: Floats, misses: Floats, p: float) -> Floats:
    """The same of a rate that is known to lie below p."""
    below = np.maximum(scipy.special.betainc(hits, misses, p), 1e-300)
    return _evidence(hits, misses) + np.log(below) - np.log(scipy.special.betainc(0.5, 0.5, p))


def _from_here(counts: NDArray[np.int_]) -> Floats:
    """Sums from each size to the largest."""
    return np.cumsum(counts[::-1])[::-1].astype(float)


def _normed(values: Floats) -> Floats:
    return values / values.sum()


def surface_rule(row: int, precision: float = 1.3) -> Rule:
    """Stop at an interval one size or a factor `precision` wide, after half of a row's grid at the latest."""
    budget = max(1, row // 2)
    return Rule(ratio=precision, least=min(6, budget), budget=budget)


def surface_search(
    pools: Mapping[float, Mapping[float, Sequence[int]]],
    *,
    p: float = 0.5,
    precision: float = 1.3,
    in_flight: int = 4,
    scouts: int = 3,
    borrow: bool = True,
    seed: int = 0,
    names: tuple[str, str] = ("x", "y"),
) -> tuple[Surface, Search]:
    """A surface and the search that fills it; `pools` = {y: {x: positions}}, each y with `in_flight` trials at a time.

    The rows of a surface have the same sizes.
    """
    ys = sorted(pools)
    xs = sorted(pools[ys[0]])
    require(all(sorted(row) == xs for row in pools.values()), "every row of a surface must have the same sizes")
    rule = surface_rule(max(sum(len(cell) for cell in row.values()) for row in pools.values()), precision)
    found = Surface(xs, ys, p, rule=rule, scouts=scouts, borrow=borrow, seed=seed, names=names)
    problems = [Problem(float(y), {float(x): cell for x, cell in pools[y].items()}) for y in ys]
    search = Search(problems, width=in_flight * len(ys), ahead=in_flight, p=p, rule=rule, frontiers=found.rows)
    return found, search


def surface(
    trial: Trial,
    *,
    x: str,
    xs: Sequence[float],
    y: str,
    ys: Sequence[float],
    p: float = 0.5,
    trials: int = 40,
    precision: float = 1.3,
    in_flight: int = 8,
    scouts: int = 3,
    borrow: bool = True,
    out: Path | str | None = None,
    show: Callable[[Progress], None] = lambda progress: None,
) -> Surface:
    """Train what it takes to know the smallest `x` that succeeds with probability p at each `y`, and no more.

    `x` and `y` are fields of the trial as `sweep` takes them; at most `trials` seeds are trained in each cell. A
    frontier is known when its 95% interval is one step of `xs` or a factor `precision` wide. Success is expected to
    grow with both; where it does not, the answer says so (`warnings`). With `out` records are kept in that folder, and
    the same call goes on where it was. `cost` of the answer compares what was trained with the whole grid.
    """
    require_integer("trials", trials, 1)
    paths = x.replace("__", "."), y.replace("__", ".")
    require(paths[0] != paths[1], f"x and y must be two different fields; got x={x!r}, y={y!r}")
    found = Surface(xs, ys, p)  # refuses bad axes before anything is stacked
    cohorts, pools, positions = [], {}, itertools.count()
    for value in found.ys:
        axes: dict[str, Any] = {y: [_plain(value)], x: [_plain(size) for size in found.xs]}
        cohorts += sweep(trial, **axes, seed=range(trials))
        pools[value] = {size: list(itertools.islice(positions, trials)) for size in found.xs}
    names = paths[0].rpartition(".")[2], paths[1].rpartition(".")[2]
    found, search = surface_search(
        pools, p=p, precision=precision, in_flight=in_flight, scouts=scouts, borrow=borrow, names=names
    )
    ids = [cohort.ids() for cohort in cohorts]
    progress = Progress(sum(map(len, cohorts)))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) if out is None else Path(out)
        store = Store(folder)
        train_missing(Work(cohorts, ids, store, progress, show), search)
        spent = store.scan(np.unique(np.concatenate(ids))).select(pl.col("steps").cast(pl.Int64).sum()).collect().item()
    found.cost = {"trials": found.trials, "grid_trials": search.positions, "steps": int(spent)}
    return found


def _plain(value: float) -> float | int:
    """A whole number as an integer, as a width must be."""
    return int(value) if float(value).is_integer() else value
