"""Figures 5.3 and B.9: what moves while the error stands still.

During the plateau the first layer moves, first of all at the relevant coordinates; loss and error show none of it. The
measure is ρ = ‖W_t - W_0‖_∞ over the first layer, held against the same networks trained on coin flips for labels. It
is a progress measure if an early ρ says something of the time that is still to come (§5.5, §B.3.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require
from krogh.experiments.parity.common import CHECK_EVERY, OnlineSettings
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, groups, need, predictiveness, setting
from krogh.lab.estimate import median, share_of
from krogh.lab.experiment import Measures
from krogh.lab.frames import spread_steps
from krogh.models import configuration
from krogh.probes import Error, Movement, SupportMovement
from krogh.tasks import Parity
from krogh.tasks.parity import ParityControl
from krogh.training import Sgd

VISIBLE = 0.4  # an error below this is progress that anybody sees
FEWEST = 10  # seeds that converged
REAL, CONTROL = "parity", "coin flips"
DRAWN, SHOWN = 100, 15  # points of a curve in the figure, and seeds of each panel


@dataclass(frozen=True)
class Panel:
    """One setting: architecture, batch, rate; `neuron` where there is one whose weights can be ranked alone."""

    title: str
    configuration: str
    batch_size: int
    rate: float
    neuron: bool


PANELS: Mapping[str, Panel] = {
    "sine": Panel("(xiv) sine neuron, B=32", "xiv", 32, 0.01, True),
    "sine-small-batch": Panel("(xiv) sine neuron, B=4", "xiv", 4, 0.002, True),
    "sine-single": Panel("(xiv) sine neuron, B=1", "xiv", 1, 0.0005, True),
    "relu-10": Panel("(i) ReLU width 10, B=32", "i", 32, 0.1, False),
    "relu-100": Panel("(ii) ReLU width 100, B=32", "ii", 32, 0.1, False),
}


@dataclass(frozen=True)
class Settings(OnlineSettings):
    n: int = setting(50, "input bits", least=2)
    k: int = setting(3, "relevant bits", least=1)
    panels: tuple[str, ...] = setting(tuple(PANELS), "architectures and batches", distinct=True, among=PANELS)
    seeds: int = setting(100, "trials per panel, and as many controls", least=1)
    validation: int = setting(1024, "validation examples, all of which must be right", least=1)
    probe_every: int = setting(CHECK_EVERY, "steps between two points of a curve", least=1)
    snapshots: int = setting(0, "steps at which weights of networks on the parity are kept, for krogh replay", least=0)

    @property
    def support(self) -> tuple[int, ...]:
        """Spread over the coordinates: with the first k, a stable sort would recover it from nothing."""
        return tuple(int(place) for place in np.linspace(0, self.n - 1, self.k + 2)[1:-1])

    @property
    def snapshot_steps(self) -> tuple[int, ...]:
        """Snapshots over the budget, at checks; most networks end long before it."""
        return spread_steps(self.budget, self.snapshots, CHECK_EVERY, power=2)


@experiment("parity/hidden-progress")
class HiddenProgress(Experiment[Settings]):
    """Weight movement during the plateau, beside that of networks trained on noise."""

    title = "Progress is hidden from the error and visible in the weights"
    question = "Does something improve during the plateau, and does it say when the plateau will end?"
    source = "dissertation, §5.5, Figures 5.3 and B.9"
    scales = {
        "smoke": Settings(n=12, k=2, panels=("sine",), seeds=3, budget=400, validation=128, snapshots=41),
        "laptop": Settings(n=20, seeds=40, budget=10_000, snapshots=101),
        "paper": Settings(),
    }
    notes = (
        "The source does not state n, k, rates and batches of these figures. Controls have the same weights and "
        "inputs, and labels by coin flips; they run for the whole budget.",
        "The support is spread over the coordinates: ranked by movement, the first k would be found before anything "
        "has moved.",
    )

    def check(self, settings: Settings) -> None:
        require(settings.k < settings.n, f"k must be less than n={settings.n}; got k={settings.k}")

    def trials(self, settings: Settings) -> Iterator[Trials]:
        probes = (Error(), Movement(), SupportMovement())
        for name in settings.panels:
            panel = PANELS[name]
            training = settings.training(Sgd(panel.rate), panel.batch_size)
            model = configuration(panel.configuration, settings.k)
            for labels, task in (
                (REAL, Parity(settings.n, support=settings.support)),
                (CONTROL, ParityControl(settings.n, support=settings.support)),
            ):
                steps = settings.snapshot_steps if labels == REAL else ()
                every = settings.probe_every
                trial = Trial(task, model, training, probes=probes, probe_every=every, snapshots=steps)
                yield from sweep(trial, seed=range(settings.seeds), label={"panel": name, "labels": labels})

    def measure(self, results: Results[Settings]) -> Measures:
        return {"progress": _progress(results.table), "curves": _thinned(results.table)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        for name, rows in groups(tables["progress"], "panel").items():
            solved = rows.filter(pl.col("time").is_finite())
            head, sample = PANELS[name].title, f"{name} solved"
            about = say.about(f"{name}-", head, needs=[need(len(solved), FEWEST, "seeds that converged")])
            nothing = "no seed converged"
            about(
                "hidden",
                ": half-way to convergence the error shows nothing yet.",
                median(solved["error"].to_numpy(), lowest=0.0, highest=1.0, sample=sample, nothing=nothing),
                "median error at t_c/2",
                at_least=VISIBLE,
                source_value="error at chance during the plateau",
            )
            about(
                "moves",
                ": half-way to convergence the weights have moved at least twice as far as on noise.",
                median((solved["movement"] / solved["control"]).to_numpy(), lowest=0.0, sample=sample, nothing=nothing),
                "median of ρ(t_c/2) / ρ(t_c/2) of the same network on coin flips",
                at_least=2.0,
                source_value="ρ far above that of noise (no number stated)",
            )
            about(
                "predicts",
                ": networks whose weights have moved further early on converge earlier.",
                predictiveness(solved["early"].to_numpy(), solved["time"].to_numpy())
                if len(solved)
                else median([], nothing=nothing),
                "Spearman's correlation of t_c with ρ at half the earliest t_c",
                below=0.0,
                source_value="a progress measure is not independent of t_c − t (§5.5)",
            )
            if PANELS[name].neuron:
                before = (solved["recovered"] < solved["visible"]).to_numpy()
                about(
                    "support-first",
                    f": the k coordinates that moved most are the support before the error falls below {VISIBLE}, and "
                    "stay so.",
                    share_of(before, sample=sample) if len(before) else median([], nothing=nothing),
                    "share of converged seeds",
                    at_least=0.9,
                    source_value="the loss falls once relevant weights exceed all others",
                )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, names = tables.settings, tables.settings.panels
        chart = self.chart(
            "hidden-progress",
            "Error and weight movement of the same networks",
            headline=f"Learning a ({settings.n},{settings.k})-parity: what the error hides",
            rows=2,
            columns=len(names),
            width=max(6.4, 3.0 * len(names)),
            height=5.2,
            sharex="col",
        )
        seen = tables["curves"].filter(pl.col("seed") < SHOWN)
        by_panel = groups(seen, "panel")
        for name in names:
            panel = chart.panel(title=PANELS[name].title, y="error", ylim=(-0.02, 0.62))
            for _, own in by_panel[name].filter(labels=REAL).group_by("seed", maintain_order=True):
                panel.line(own["step"], own["error"], style="-", width=0.6, color="#0072B2", key="", alpha=0.6)
        for name in names:
            panel = chart.panel(x="steps", y="movement ρ", log="y")
            for labels, color, key in ((REAL, "#0072B2", "parity"), (CONTROL, "#999999", "coin flips")):
                rows = by_panel[name].filter(labels=labels)
                for place, (_, own) in enumerate(rows.group_by("seed", maintain_order=True)):
                    moved = own.filter(pl.col("step") > 0)
                    label = key if place == 0 else ""
                    panel.line(
                        moved["step"],
                        moved["movement"],
                        label,
                        style="-",
                        width=0.6,
                        color=color,
                        key="legend",
                        alpha=0.6,
                    )
        yield chart.figure(
            f"Error on {min(settings.validation, 1024)} examples and ρ = max |W_t − W_0| of up to {SHOWN} seeds; "
            "grey: the same networks and inputs with coin flips for labels, for as long as the slowest seed took.",
            seen,
        )
        dots = self.chart(
            "predictiveness", "Early movement and the time to convergence", columns=len(names), height=3.2
        )
        for name in names:
            rows = groups(tables["progress"], "panel")[name].filter(pl.col("time").is_finite())
            panel = dots.panel(title=PANELS[name].title, x="ρ at half the earliest t_c", y="t_c (steps)", log="y")
            panel.dots(rows["early"], rows["time"])
        yield dots.figure(
            "One mark per seed that converged; ρ is read at the same step for all seeds of a panel.", tables["progress"]
        )


def _progress(table: pl.DataFrame) -> pl.DataFrame:
    """One row per network on real labels: its time, what half of it showed, and when the support was recovered."""
    found = []
    for name, rows in groups(table, "panel").items():
        controls = {row["seed"]: row for row in rows.filter(labels=CONTROL).iter_rows(named=True)}
        real = rows.filter(labels=REAL)
        times = real["convergence_time"].cast(pl.Float64).fill_null(math.inf).to_numpy()
        early = float(times.min()) / 2
        for row, time in zip(real.iter_rows(named=True), times, strict=True):
            step = np.asarray(row["curve.step"])
            half = time / 2
            found.append(
                {
                    "panel": name,
                    "seed": row["seed"],
                    "time": time,
                    "error": _at(row, "error", half),
                    "movement": _at(row, "movement", half),
                    "control": _at(controls[row["seed"]], "movement", half),
                    "early": _at(row, "movement", early),
                    "recovered": _since(step, _column(row, "relevant_movement") > _column(row, "irrelevant_movement")),
                    "visible": _first(step, _column(row, "error") < VISIBLE),
                }
            )
    return pl.DataFrame(found, schema_overrides={name: pl.Float64 for name in ("recovered", "visible", "time")})


def _column(row: Mapping[str, list[float]], name: str) -> np.ndarray:
    return np.asarray(row[f"curve.{name}"], float)


def _at(row: Mapping[str, list[float]], name: str, step: float) -> float:
    """A curve's value at the last look up to `step`; NaN where there is no such step."""
    if not math.isfinite(step):
        return math.nan
    looks = np.asarray(row["curve.step"])
    return float(_column(row, name)[np.flatnonzero(looks <= max(step, looks[0]))[-1]])


def _first(step: np.ndarray, holds: np.ndarray) -> float:
    places = np.flatnonzero(holds)
    return float(step[places[0]]) if places.size else math.inf


def _since(step: np.ndarray, holds: np.ndarray) -> float:
    """The step from which on something holds at every look."""
    missed = np.flatnonzero(~holds)
    after = missed[-1] + 1 if missed.size else 0
    return float(step[after]) if after < len(step) else math.inf


def _thinned(table: pl.DataFrame) -> pl.DataFrame:
    """The curves as rows, a few hundred points of each, controls no longer than the slowest seed of their panel."""
    parts = []
    for name, rows in groups(table, "panel").items():
        last = rows.filter(labels=REAL)["steps"].max()
        for row in rows.iter_rows(named=True):
            step = np.asarray(row["curve.step"])
            kept = np.flatnonzero(step <= last)
            kept = kept[:: max(1, len(kept) // DRAWN)]
            head = {"panel": name, "labels": row["labels"], "seed": row["seed"], "step": step[kept]}
            columns = ("error", "movement", "relevant_movement", "irrelevant_movement")
            parts.append(pl.DataFrame(head | {column: _column(row, column)[kept] for column in columns}))
    return pl.concat(parts)
