"""Figure B.1: training curves of disjoint-PolyNets beside their exact gradient flow.

Under the correlation loss only the k relevant weights move in expectation, dv_i/dt = ∏_{j≠i} v_j; flow and error are
known exactly (Lemmas B.8 and B.9, `krogh.theory.boolean.disjoint_flow`). Left: gradient descent on the population with
a small step, from N(0,1). Right: SGD with a single example per step and a constant rate; both are conditioned on a
positive product of the initial relevant weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import jax
import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.experiments.parity.common import CHECK_EVERY, OnlineSettings
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, groups, need, setting
from krogh.lab.charts import Key
from krogh.lab.estimate import largest, median, share_of
from krogh.lab.experiment import Measures
from krogh.lab.times import plateau_fraction
from krogh.models import DisjointPolyNet
from krogh.probes import Error
from krogh.tasks import DisjointParity
from krogh.theory.boolean.disjoint_error import block_law, network_error
from krogh.theory.boolean.disjoint_flow import flow_weights, last_time_above, zero_error_time
from krogh.training import Online, Sgd, Stopping, Training

PLATEAU = 0.45
FEWEST = 10  # initialisations, or seeds that converged
CLOSE = 0.02
DRAWN = 200
GROWTH = 1.1  # of the product of the weights, between two looks at a descent
MOST_STEPS = 5_000_000


@dataclass(frozen=True)
class Settings(OnlineSettings):
    k: int = setting(3, "blocks, and relevant bits", least=3)
    flow_block: int = setting(1000, "bits per block on the population", least=2)
    flow_draws: int = setting(100, "Gaussian initialisations on the population", least=1)
    flow_rate: float = setting(1e-5, "step of gradient descent on the population", above=0)
    block: int = setting(10, "bits per block for SGD", least=2)
    seeds: int = setting(1000, "networks trained by SGD", least=1)
    rate: float = setting(3e-4, "learning rate of SGD", above=0)
    batch_size: int = setting(1, "fresh examples per step", least=1)
    validation: int = setting(1024, "validation examples, all of which must be right", least=1)
    probe_every: int = setting(50, "steps between two points of a curve", least=1)


@experiment("parity/disjoint-flow")
class DisjointFlow(Experiment[Settings]):
    """Disjoint-PolyNets by population descent and by SGD, beside the flow that theory solves."""

    title = "A plateau that can be computed, and SGD beside it"
    question = "Do disjoint-PolyNets learn as their exact gradient flow says, on the population and by single examples?"
    source = "dissertation, §5.4.2, Figure B.1"
    scales = {
        "smoke": Settings(
            flow_block=40, flow_draws=3, flow_rate=1e-3, block=4, seeds=3, rate=2e-3, budget=3000, validation=128
        ),
        "laptop": Settings(flow_draws=20, seeds=40, budget=50_000),
        "paper": Settings(),
    }
    notes = (
        "The source states neither n nor k of this figure. Seeds are the first whose relevant weights have a positive "
        "product, as the theorems ask.",
    )

    def trials(self, settings: Settings) -> Iterator[Trials]:
        trial = _trial(settings)
        yield from sweep(trial, seed=positive_seeds(trial, settings.seeds))

    def measure(self, results: Results[Settings]) -> Measures:
        settings = results.settings
        return {"population": lambda: _population(settings), "sgd": lambda: _sgd(results.table, settings)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        curves = groups(tables["population"], "draw")
        population = say.about(
            "population-",
            f"Population descent, n' = {settings.flow_block}, k = {settings.k}: ",
            needs=[need(len(curves), FEWEST, "initialisations")],
        )
        gaps = [float(np.abs((own["error"] - own["flow_error"]).to_numpy()).max()) for own in curves.values()]
        population(
            "exact",
            "the error follows that of the exact flow.",
            largest(gaps),
            "largest difference of the two errors, over all initialisations and looks",
            at_most=CLOSE,
            source_value="Lemmas B.8 and B.9",
        )
        shares = np.array([own["plateau_share"][0] for own in curves.values()])
        population(
            "plateau",
            f"the error stays above {PLATEAU} for most of the time to zero error.",
            median(shares, lowest=0.0, highest=1.0),
            f"median share of [0, T(0)] with error ≥ {PLATEAU}",
            above=0.5,
            source_value="a long plateau",
        )
        rows = tables["sgd"]
        solved = rows.filter(pl.col("time").is_finite())
        sgd = say.about(
            "sgd-",
            f"SGD with batch {settings.batch_size}, n' = {settings.block}, k = {settings.k}: ",
            needs=[need(len(rows), FEWEST, "seeds")],
        )
        sgd(
            "learns",
            f"nearly every network learns within {settings.budget:,} steps.",
            share_of(np.isfinite(rows["time"].to_numpy()), sample="sgd"),
            "share of seeds that converge",
            at_least=0.8,
            source_value="learns at a small constant rate",
        )
        few = need(len(solved), FEWEST, "seeds that converged")
        sgd(
            "plateau",
            f"the error stays above {PLATEAU} for most of the time before convergence.",
            median(solved["plateau"].to_numpy(), lowest=0.0, highest=1.0, nothing="no seed converged"),
            f"median share of [0, t_c] with error > {PLATEAU}",
            above=0.5,
            source_value="a plateau, then a drop",
            needs=[few],
        )
        sgd(
            "on-time",
            "the time is that of the flow, within a factor of two.",
            median((solved["time"] / solved["flow_steps"]).to_numpy(), lowest=0.0, nothing="no seed converged"),
            "median of t_c / (T(0) of the seed's own flow / η)",
            between=(0.5, 2.0),
            source_value="the flow's curve beside SGD's, no number stated",
            needs=[few],
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings = tables.settings
        chart = self.chart("disjoint-flow", self.title, columns=2, height=3.6, sharey=True)
        panel = chart.panel(
            title=f"population, n' = {settings.flow_block}, k = {settings.k}",
            x="time / T(0)",
            y="error",
            ylim=(-0.02, 0.6),
        )
        for place, own in enumerate(groups(tables["population"], "draw").values()):
            key: Key = "legend" if place == 0 else ""
            panel.line(
                own["time"] / own["zero_time"],
                own["error"],
                "descent",
                style="-",
                width=0.8,
                color=figures.BLUE,
                key=key,
            )
            panel.line(
                own["time"] / own["zero_time"], own["flow_error"], "exact flow", color=figures.VERMILLION, key=key
            )
        panel = chart.panel(title=f"SGD, n' = {settings.block}, B = {settings.batch_size}", x="steps / flow's T(0)/η")
        drawn = _curves(tables)
        for place, own in enumerate(groups(drawn, "seed").values()):
            key = "legend" if place == 0 else ""
            panel.line(own["scaled"], own["error"], "SGD", style="-", width=0.6, color=figures.BLUE, alpha=0.5, key=key)
        panel.reference(1.0, "exact flow reaches zero error", axis="x")
        yield chart.figure(
            f"Left: error of gradient descent with step {settings.flow_rate:g} from {settings.flow_draws} Gaussian "
            "starts, and of the exact flow. Right: error of networks trained by SGD, in time of the own flow.",
            tables["population"],
        )


def _trial(settings: Settings) -> Trial:
    stopping = Stopping(budget=settings.budget, validation=settings.validation, check_every=CHECK_EVERY)
    training = Training(Sgd(settings.rate), Online(settings.batch_size), stopping, loss="correlation")
    task = DisjointParity(settings.k * settings.block, settings.k)
    model = DisjointPolyNet(settings.k, "normal")
    return Trial(task, model, training, probes=(Error(),), probe_every=settings.probe_every)


def positive_seeds(trial: Trial, count: int) -> list[int]:
    """The first seeds with a positive product of relevant weights: about half of all."""
    found: list[int] = []
    weights = jax.jit(jax.vmap(lambda seed: _seeded(trial, seed)))
    first = 0
    while len(found) < count:
        seeds = np.arange(first, first + 2 * count + 8, dtype=np.uint32)
        relevant = np.asarray(weights(seeds))[:, :, 0]
        found += [int(seed) for seed in seeds[np.prod(relevant, axis=1) > 0]]
        first += len(seeds)
    return found[:count]


def _seeded(trial: Trial, seed: jax.Array) -> jax.Array:
    key = jax.random.fold_in(jax.random.key(seed), 0)
    return trial.model.init(key, trial.task)["w"]


def _population(settings: Settings) -> pl.DataFrame:
    """Gradient descent v_i ← v_i + η ∏_{j≠i} v_j from Gaussian weights, looked at as the weights grow."""
    shape = (settings.k, settings.flow_block)
    weights = np.stack([np.random.default_rng(draw).standard_normal(shape) for draw in range(settings.flow_draws)])
    weights[:, 0, 0] *= np.sign(np.prod(weights[:, :, 0], axis=1))
    starts, noise = weights[:, :, 0], weights[:, :, 1:]
    laws = [[block_law(u) for u in own] for own in noise]
    totals = [zero_error_time(start, own) for start, own in zip(starts, noise, strict=True)]
    ends = [last_time_above(PLATEAU, start, own) for start, own in zip(starts, noise, strict=True)]
    rows = []
    for draw, time, v in descend(starts, np.abs(noise).sum(axis=2), settings.flow_rate):
        total = totals[draw]
        flow = network_error(flow_weights(time, starts[draw]), laws[draw], ties="fair") if time < 0.999 * total else 0.0
        head = {"draw": draw, "time": time, "zero_time": total, "plateau_share": ends[draw] / total}
        rows.append(head | {"error": network_error(v, laws[draw], ties="fair"), "flow_error": flow})
    return pl.DataFrame(rows).sort("draw", "time")


def descend(starts: np.ndarray, sums: np.ndarray, rate: float) -> Iterator[tuple[int, float, np.ndarray]]:
    """Descents side by side: which one, its time and its weights, whenever these have grown by a tenth or so.

    `starts` are [draws, k] relevant weights, `sums` the ‖u_i‖_1 that they must exceed for the error to be 0.
    """
    v, places, sums = starts.copy(), np.arange(len(starts)), sums.copy()
    seen = np.zeros(len(starts))
    for step in range(MOST_STEPS):
        product = np.prod(v, axis=1)
        done = np.all(np.abs(v) > sums, axis=1)
        due = np.flatnonzero((product > GROWTH * seen) | done)
        seen[due] = product[due]
        for place in due.tolist():
            yield int(places[place]), step * rate, v[place].copy()
        if done.any():
            v, places, sums, seen, product = (part[~done] for part in (v, places, sums, seen, product))
            if not len(v):
                return
        v = v + rate * product[:, None] / v


def _sgd(table: pl.DataFrame, settings: Settings) -> pl.DataFrame:
    """Each network's time, its plateau, and the time of its own flow in steps."""
    trial, rows = _trial(settings), []
    seeds = table["seed"].to_numpy().astype(np.uint32)
    weights = np.asarray(jax.jit(jax.vmap(lambda seed: _seeded(trial, seed)))(seeds), np.float64)
    for row, w in zip(table.iter_rows(named=True), weights, strict=True):
        time = math.inf if row["convergence_time"] is None else float(row["convergence_time"])
        step, error = np.asarray(row["curve.step"]), np.asarray(row["curve.error"], float)
        share = float(plateau_fraction(step, error, time, PLATEAU)) if math.isfinite(time) else None
        flow = zero_error_time(w[:, 0], w[:, 1:]) / settings.rate
        rows.append({"seed": row["seed"], "time": time, "plateau": share, "flow_steps": flow})
    return pl.DataFrame(rows, schema_overrides={"plateau": pl.Float64, "time": pl.Float64})


def _curves(tables: Tables[Settings]) -> pl.DataFrame:
    flows = dict(tables["sgd"].select("seed", "flow_steps").iter_rows())
    parts = []
    for row in tables["trials"].head(DRAWN).iter_rows(named=True):
        step, error = np.asarray(row["curve.step"]), np.asarray(row["curve.error"], float)
        thin = slice(None, None, max(1, len(step) // DRAWN))
        parts.append(
            pl.DataFrame({"seed": row["seed"], "scaled": step[thin] / flows[row["seed"]], "error": error[thin]})
        )
    return pl.concat(parts)
