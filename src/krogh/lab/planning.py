"""What a study would cost, before it is run: `krogh plan`.

Cohorts, programs, trials and bytes are counted. Seconds are measured: some cohorts, chosen evenly, are piloted
(`krogh.engine.pilot`), and what they take is carried over to the others by the bytes that a step computes. How many
steps a trial takes is known where it runs its whole budget; otherwise it lies between the first check and the budget,
and is expected by what is stored of a smaller scale (`like`), or else by the pilots.

    lane seconds   Σ trials · (expected steps · seconds per step + seconds per trial), and what lanes take to begin;
                   of a cohort all of whose trials ended in its pilot, what they took there
    train          lane seconds / lanes
    compile        Σ programs · seconds per compilation (on a GPU: until the last program is there)
    wall           the first compilation
                   + max((lane seconds + other compilations) / cores, other compilations / compilers)

On a GPU compiling takes nothing from training, and programs are compiled beside one another, which makes each of them
slower; so they are compiled beside one another here too:

    wall           until the first program is there + max(train, from then on until the last one is)

Measuring, judging and drawing come on top, and are not known beforehand.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trials
from krogh.engine.compiling import compilers_here
from krogh.engine.devices import cores_here, devices_here
from krogh.engine.executor import lanes_for, lanes_here
from krogh.engine.inheriting import without_parents
from krogh.engine.memory import footprint, plan, require_room
from krogh.engine.pilot import Pilot, compile_together, expected_steps, fly
from krogh.engine.shapes import checked_shapes, program_key
from krogh.errors import require
from krogh.files import cache_folder, read_table, study_folders, write_json
from krogh.lab.experiment import Experiment
from krogh.lab.search import Search
from krogh.lab.sources import device_in_words, trial_sources, versions
from krogh.lab.study import read_study
from krogh.models.base import Learner
from krogh.values import digest

MOST_PILOTED = 8
MOST_TRACED = 64  # structures whose steps' bytes are counted; of more, every so many
RECORD_BYTES, ENTRY_BYTES = 45, 4  # on disk: of a trial's record, in the store and in the table; of an entry of a curve
HOST_BYTES = 470  # per trial: its seed, identity, and record while the table is written (docs/performance.md)
MOST_KEPT = 5_000


@dataclass(frozen=True)
class Between:
    """A number that is not known yet."""

    lowest: float
    expected: float
    highest: float


@dataclass(frozen=True)
class CostPlan:
    """What a study would cost on this machine."""

    name: str
    scale: str
    device: str
    lanes: int
    cohorts: int
    compilations: int
    trials: Between
    trial_steps: Between
    compile_seconds: float
    train_seconds: Between
    wall_seconds: Between
    device_hours: Between
    disk_bytes: int
    weight_bytes: int
    device_bytes: int
    host_bytes: int
    piloted: int
    basis: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class _Cost:
    """One cohort's share."""

    cohort: Trials
    key: Any
    lowest: float  # steps of a trial
    highest: float
    expected: float = math.nan
    pilot: Pilot | None = None
    step_seconds: float = math.nan
    trial_seconds: float = 0.0
    start_seconds: float = 0.0
    wanted: float = math.nan  # trials, where a search decides

    @property
    def whole(self) -> bool:
        """Whether all trials ended in the pilot."""
        return self.pilot is not None and self.pilot.whole_seconds is not None

    def seconds(self, steps: float) -> float:
        """Of one lane."""
        if self.pilot is not None and self.pilot.whole_seconds is not None:
            return self.start_seconds + self.wanted / len(self.cohort) * self.pilot.whole_seconds
        return self.start_seconds + self.wanted * (steps * self.step_seconds + self.trial_seconds)


def plan_costs(
    experiment: Experiment[Any],
    scale: str,
    *,
    changes: dict[str, Any] | None = None,
    weights: bool = False,
    like: Path | None = None,
    seconds: float = 20.0,
    show: Callable[[int, int], None] = lambda done, total: None,
) -> CostPlan:
    """What running an experiment at a scale would cost here; pilots take about `seconds`, and are remembered."""
    require(0 < seconds < math.inf, f"seconds must be positive and finite; got seconds={seconds}")
    settings = experiment.settings(scale, changes)
    cohorts = list(experiment.trials(settings))
    devices, lanes = devices_here(), lanes_here()
    require_room((without_parents(cohort).fitted().template for cohort in cohorts), devices[0])
    search = experiment.search(settings, cohorts) if cohorts else None
    costs = [_Cost(cohort, program_key(cohort.fitted().template), *_bounds(cohort)) for cohort in cohorts]
    rows = None if like is None else _stored(experiment.name, like)
    trials, basis = _wanted(costs, search, rows)
    pieces = sum(
        len(lanes_for(len(cost.cohort), place, isinstance(cost.cohort.template.model, Learner)))
        for place, cost in enumerate(costs)
    )
    at_once = max(1, min(len(lanes), pieces))
    compiled = _pilot(costs, seconds, show, beside=max(1, at_once // len(devices)))
    basis += _expect(costs, rows)
    keys = {cost.key for cost in costs if not isinstance(cost.cohort.template.model, Learner)}
    programs = len(keys) * len(devices)
    compile_seconds = _compiling(compiled, programs, devices)
    steps = _sums([(cost.lowest, cost.expected, cost.highest) for cost in costs], [cost.wanted for cost in costs])
    lane = [sum(cost.seconds(getattr(cost, word)) for cost in costs) for word in ("lowest", "expected", "highest")]
    if search is not None:
        factors = [number / trials.expected for number in (trials.lowest, trials.expected, trials.highest)]
        lane = [factor * own for factor, own in zip(factors, lane, strict=True)]
        steps = Between(*(factor * own for factor, own in zip(factors, asdict(steps).values(), strict=True)))
    train = [seconds / at_once for seconds in lane]
    wall = [_wall(own, compiled, programs, at_once, devices) for own in lane]
    kept = weights or experiment.keep_weights or any(cohort.template.snapshots for cohort in cohorts)
    return CostPlan(
        experiment.name,
        scale,
        device_in_words(),
        len(lanes),
        len(cohorts),
        programs,
        trials,
        steps,
        compile_seconds,
        Between(*train),
        Between(*wall),
        Between(*(len(devices) * own / 3600 for own in wall)),
        int(sum(cost.wanted * _record_bytes(cost) for cost in costs)),
        int(sum(cost.wanted * _weight_bytes(cost.cohort) for cost in costs)) if kept else 0,
        max((_device_bytes(cost.cohort, len(lanes), devices[0]) for cost in _some(costs)), default=0),
        int(HOST_BYTES * sum(len(cohort) for cohort in cohorts)),
        sum(cost.pilot is not None for cost in costs),
        tuple(basis),
    )


def _bounds(cohort: Trials) -> tuple[float, float]:
    """The fewest and the most steps of a trial, on average over the cohort."""
    stopping = cohort.everyone.training.stopping
    if isinstance(cohort.template.model, Learner):
        return 1.0, 1.0
    budget = float(np.mean(np.asarray(stopping.budget, np.float64)))
    if not stopping.early:
        return budget, budget
    first = stopping.check_every * float(np.mean(np.asarray(stopping.consecutive, np.float64)))
    return min(first, budget), budget * stopping.restarts


def _wanted(costs: list[_Cost], search: Search | None, rows: pl.DataFrame | None) -> tuple[Between, list[str]]:
    """How many trials are trained: all, or, with a search, what is known of those that it will ask for."""
    grid = sum(len(cost.cohort) for cost in costs)
    for cost in costs:
        cost.wanted = float(len(cost.cohort))
    if search is None:
        return Between(grid, grid, grid), []
    frontiers = search.frontiers.values()
    most = min(grid, sum(min(frontier.rule.budget, search.positions) for frontier in frontiers))
    least = min(grid, sum(frontier.rule.least for frontier in frontiers))
    if rows is None:
        expected, how = math.sqrt(least * most), "a guess, the geometric mean of the two"
    else:
        expected, how = min(most, max(least, len(rows))), "as many as the study that it is likened to has"
    for cost in costs:
        cost.wanted *= expected / grid
    words = f"a search trains {least:,} of {grid:,} trials at least and {most:,} at most; expected is {how}"
    return Between(least, expected, most), [words]


# --- pilots -------------------------------------------------------------------------------------------------------


def _some(costs: Sequence[_Cost], most: int = MOST_TRACED) -> list[_Cost]:
    """At most so many, evenly, the first and the last among them."""
    places = np.unique(np.linspace(0, len(costs) - 1, min(len(costs), most)).round().astype(int))
    return [costs[place] for place in places]


def _pilot(costs: list[_Cost], seconds: float, show: Callable[[int, int], None], beside: int) -> list[float]:
    """Measure some cohorts, carry their seconds over to the others; the seconds of the compilations."""
    chosen = _some(costs, MOST_PILOTED)
    sources = digest(json.dumps(trial_sources(cost.cohort.template for cost in chosen), sort_keys=True)).hex()
    compiled: dict[Any, float] = {}
    pilots = _Pilots([cost.cohort for cost in chosen], seconds / max(1, len(chosen)), beside, sources)
    for number, cost in enumerate(chosen):
        show(number, len(chosen))
        cost.pilot = pilots.of(cost.cohort)
        cost.step_seconds, cost.trial_seconds = cost.pilot.step_seconds, cost.pilot.trial_seconds
        cost.start_seconds = cost.pilot.start_seconds
        if not isinstance(cost.cohort.template.model, Learner):
            compiled.setdefault(cost.key, cost.pilot.compile_seconds)
    show(len(chosen), len(chosen))
    later = min((cost.start_seconds for cost in chosen), default=0.0)  # the first lanes prepare what all need
    for cost in costs:
        cost.start_seconds = cost.start_seconds if cost.pilot else later
    sizes = _step_bytes(costs)
    known = [(sizes[place], *_carried(cost.pilot)) for place, cost in enumerate(costs) if cost.pilot]
    known = sorted(one for one in known if one[1] > 0)
    for place, cost in enumerate(costs):
        if not cost.step_seconds > 0 and known:
            at, marks = math.log(sizes[place]), np.log([size for size, *_ in known])
            cost.step_seconds = math.exp(np.interp(at, marks, np.log([step for _, step, _ in known])))
            cost.trial_seconds = float(np.interp(at, marks, [trial for *_, trial in known]))
    return [*compiled.values()]


def _carried(pilot: Pilot) -> tuple[float, float]:
    """Seconds per step and per trial of cohorts like the pilot's: where all of it ended, with what its end took."""
    if pilot.whole_seconds is None or not sum(pilot.ended):
        return pilot.step_seconds, pilot.trial_seconds
    return pilot.whole_seconds / (sum(pilot.ended) / pilot.copies), 0.0


def _step_bytes(costs: list[_Cost]) -> list[float]:
    """What a step of each cohort computes; where there are very many, between those that were counted."""
    chosen = _some(costs)
    counted = {
        id(cost): 1.0
        if isinstance(cost.cohort.template.model, Learner)
        else float(footprint(without_parents(cost.cohort).fitted().template).step)
        for cost in chosen
    }
    places = [place for place, cost in enumerate(costs) if id(cost) in counted]
    values = [counted[id(costs[place])] for place in places]
    return np.interp(np.arange(len(costs)), places, values).tolist() if places else []


class _Pilots:
    """Pilots of some cohorts, from an earlier plan of the same on the same device where there is one of at least so
    many seconds."""

    def __init__(self, cohorts: Sequence[Trials], seconds: float, beside: int, sources: str):
        self._cohorts, self._seconds, self._beside = cohorts, seconds, beside
        self._words = [sources, device_in_words(), json.dumps(versions()), f"{beside} beside, {len(cohorts)} together"]
        self._words += [os.environ.get(name, "") for name in ("KROGH_PATH", "KROGH_DEVICES", "XLA_FLAGS")]
        self._ready: dict[int, float] | None = None

    def of(self, cohort: Trials) -> Pilot:
        folder = cache_folder()
        if folder is None:
            return self._flown(cohort)
        words = [cohort.structure, str(len(cohort)), digest(cohort.ids().tobytes().hex()).hex(), *self._words]
        path = folder / "pilots" / f"{digest(chr(10).join(words)).hex()}.json"
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept.pop("seconds") >= self._seconds:
                return Pilot(**kept | {word: tuple(kept[word]) for word in ("ended", "running")})
        found = self._flown(cohort)
        with contextlib.suppress(OSError, ValueError):
            old = [*path.parent.glob("*.json")] if path.parent.is_dir() else []
            for each in old if len(old) >= MOST_KEPT else ():
                each.unlink(missing_ok=True)
            write_json(path, {**asdict(found), "seconds": self._seconds})
        return found

    def _flown(self, cohort: Trials) -> Pilot:
        """A pilot now; on a GPU all programs are compiled before the first."""
        if self._ready is None:
            on_gpu = devices_here()[0].platform != "cpu"
            networks = [one for one in self._cohorts if on_gpu and not isinstance(one.template.model, Learner)]
            self._ready = dict(zip(map(id, networks), compile_together(networks), strict=True))
        found = fly(cohort, self._seconds, self._beside)
        ready = self._ready.get(id(cohort))
        return found if ready is None else replace(found, compile_seconds=ready)


# --- how many steps -----------------------------------------------------------------------------------------------


def _expect(costs: list[_Cost], rows: pl.DataFrame | None) -> list[str]:
    """Fill in the expected steps of a trial; in words, where they come from."""
    stored = piloted = censored = 0
    shares: list[tuple[int, float]] = []
    for place, cost in enumerate(costs):
        if cost.whole and cost.pilot is not None:
            mean = float(np.mean(cost.pilot.ended))
            if cost.lowest < cost.highest:
                shares.append((place, mean / cost.highest))
            cost.lowest = cost.highest = mean
    for place, cost in enumerate(costs):
        if cost.lowest == cost.highest:
            cost.expected = cost.highest
        elif rows is not None:
            cost.expected = _likely(cost, rows)
            stored += 1
        elif cost.pilot is not None:
            cost.expected = max(cost.lowest, expected_steps(cost.pilot, cost.highest))
            shares.append((place, cost.expected / cost.highest))
            piloted += 1
            censored += len(cost.pilot.running) > len(cost.pilot.ended)
    shares.sort()
    for place, cost in enumerate(costs):
        if math.isnan(cost.expected):
            places, values = [where for where, _ in shares], [share for _, share in shares]
            share = float(np.interp(place, places, values)) if shares else 1.0
            cost.expected = max(cost.lowest, share * cost.highest)
    words = []
    ended = sum(cost.whole for cost in costs)
    whole = sum(cost.lowest == cost.highest for cost in costs)
    if ended:
        words.append(f"{ended:,} of {len(costs):,} cohorts ended in their pilots: what they cost is known")
    if whole > ended:
        words.append(f"{whole - ended:,} of {len(costs):,} cohorts run their whole budget: their steps are known")
    if stored:
        words.append(f"steps of {stored:,} cohorts are those of the trials most like theirs in the folder given")
    if piloted:
        words.append(
            f"steps of {len(costs) - whole:,} cohorts that may stop early are expected by pilots of {piloted}: "
            "the Kaplan–Meier mean, those still running taken to go on to their budget"
        )
    if censored:
        words.append(
            f"in {censored} of the pilots most trials had not ended: the expected steps are nearer to the highest than "
            "they may be; more --seconds, or --like a finished study, would tell"
        )
    return words


def _stored(name: str, folder: Path) -> pl.DataFrame:
    """The trials of a finished study of the same experiment, in or under a folder."""
    places = [folder] if (folder / "study.json").exists() else study_folders(folder)
    found = [place for place in sorted(places) if read_study(place).get("name") == name]
    require(found, f"no study of {name} in {folder} (krogh run {name} --scale smoke --out {folder} makes one)")
    table = found[0] / "trials.parquet"
    require(table.exists(), f"{found[0]} is not finished: nothing can be likened to it")
    return read_table(table)


def _likely(cost: _Cost, rows: pl.DataFrame) -> float:
    """The mean steps of the stored trials that agree in most fields with the cohort's; who failed there uses up the
    budget here."""
    fields = cost.cohort.rows(np.arange(1))
    alike = [
        (pl.col(name) == pl.lit(value)).fill_null(False).cast(pl.Int32)
        for name, value in fields.items()
        if name in rows.columns and isinstance(value, str | int | float | bool) and _comparable(rows[name], value)
    ]
    near = rows
    if alike:
        scored = rows.with_columns(pl.sum_horizontal(alike).alias("alike"))
        near = scored.filter(pl.col("alike") == pl.col("alike").max())
    steps = near["steps"].to_numpy().astype(float)
    converged = (near["outcome"] == "converged").to_numpy()
    return float(np.clip(np.where(converged, np.minimum(steps, cost.highest), cost.highest).mean(), cost.lowest, None))


def _comparable(column: pl.Series, value: Any) -> bool:
    return column.dtype.is_numeric() if isinstance(value, int | float) else column.dtype == pl.String


# --- seconds and bytes ----------------------------------------------------------------------------------------------


def _wall(lane: float, compiled: Sequence[float], programs: int, lanes: int, devices: list[Any]) -> float:
    """Seconds from the first compilation to the last record; `compiled` are the programs that were."""
    if not compiled:
        return lane / lanes
    compiling = _compiling(compiled, programs, devices)
    if devices[0].platform == "cpu":
        first = compiling / programs
        rest = compiling - first
        return first + max((lane + rest) / min(lanes, cores_here()), rest / compilers_here())
    first = min(compiled) * min(programs, max(len(compiled), compilers_here())) / len(compiled)
    return first + max(lane / lanes, compiling - first)


def _compiling(compiled: Sequence[float], programs: int, devices: list[Any]) -> float:
    """Seconds of one core for all programs; on a GPU until the last of them is there: so many times as many programs
    take so many times as long."""
    if not compiled:
        return 0.0
    if devices[0].platform == "cpu":
        return programs * float(np.mean(compiled))
    return max(compiled) * programs / len(compiled)


def _sums(each: list[tuple[float, float, float]], counts: list[float]) -> Between:
    return Between(*(sum(count * own[place] for count, own in zip(counts, each, strict=True)) for place in range(3)))


def _record_bytes(cost: _Cost) -> float:
    template = cost.cohort.template
    if not template.probes:
        return RECORD_BYTES
    rows = 1 + float(template.row(int(min(cost.expected, float(np.max(template.training.stopping.budget))))))
    return RECORD_BYTES + 2 * ENTRY_BYTES * rows * (1 + len(template.curve_columns()))


def _weight_bytes(cohort: Trials) -> float:
    if isinstance(cohort.template.model, Learner):
        return 0.0
    shapes = checked_shapes(cohort.template).values()
    own = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in shapes)
    return own * (1 + len(cohort.template.snapshots))


def _device_bytes(cohort: Trials, lanes: int, device: Any) -> int:
    """What the slots and blocks of all lanes of one device take, by the engine's model: an upper bound."""
    template = without_parents(cohort).fitted().template
    if isinstance(template.model, Learner):
        return 0
    per_device = max(1, lanes // len(devices_here()))
    size, chosen = footprint(template), plan(template, max(1, len(cohort) // lanes), device)
    return per_device * (chosen.slots * size.state + chosen.block * size.work)
