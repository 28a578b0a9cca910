"""Figures 5.4 right and B.11: small samples are fitted first and understood later, if weights decay.

A width-100 ReLU network is trained on m fixed examples in minibatches, with weight decay λ. Large samples are fitted
and learned at once; middling ones are fitted long before the parity is found (grokking); small ones are memorised. More
decay widens the range of m in which the parity is found, until it prevents fitting.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require
from krogh.lab import (
    Claims,
    Experiment,
    Figure,
    Results,
    Tables,
    experiment,
    figures,
    first_times,
    groups,
    need,
    setting,
)
from krogh.lab.charts import Key
from krogh.lab.estimate import Estimate, median, share_of
from krogh.lab.experiment import Measures
from krogh.lab.times import Grokking
from krogh.models import Mlp
from krogh.probes import Error, TrainingError
from krogh.tasks import Parity
from krogh.training import Offline, Sgd, Stopping, Training

LATER, TOGETHER = 3.0, 1.5  # t_test / t_train of grokking, and of learning at once
CHANCE = 0.35  # a test error above this, when the sample is fitted, is no understanding
USUAL = 0.01  # the decay, where the grid has it, at which grokking is looked for
FEWEST = 12  # seeds per cell: of fewer, a share of 1 does not exclude 3/4
DRAWN = 300


@dataclass(frozen=True)
class Settings:
    n: int = setting(20, "input bits", least=1)
    k: int = setting(3, "relevant bits", least=1)
    width: int = setting(100, "ReLU neurons", least=1)
    samples: tuple[int, ...] = setting(
        (120, 200, 250, 300, 500, 1000, 3000), "sample sizes m", increasing=True, least=1
    )
    decays: tuple[float, ...] = setting(
        (0.0, 0.003, 0.01, 0.03, 0.1), "weight decays λ; a step shrinks by ηλ", increasing=True, least=0
    )
    seeds: int = setting(100, "trials per sample size and decay", least=1)
    rate: float = setting(0.1, "learning rate η", least=0)
    batch_size: int = setting(32, "examples per step", least=1)
    budget: int = setting(100_000, "steps after which a trial has failed", least=1)
    look_every: int = setting(200, "steps between two looks at both errors", least=1)
    test: int = setting(1024, "test examples, all of which must be right", least=1)


@experiment("parity/grokking")
class GrokkingParities(Experiment[Settings]):
    """When a sample is fitted and when its parity is learned, over sample size and weight decay."""

    title = "A sample is fitted first and understood later, if weights decay"
    question = "When does a network that has fitted its sample learn the parity behind it, and what does decay change?"
    source = "dissertation, §5.6, §B.3.5, Figures 5.4 right and B.11"
    scales = {
        "smoke": Settings(n=8, k=2, width=32, samples=(24, 200), decays=(0.0, 0.01), seeds=2, budget=1000, test=128),
        "laptop": Settings(samples=(120, 250, 500, 3000), decays=(0.0, 0.01, 0.03, 0.1), seeds=12, budget=40_000),
        "paper": Settings(),
    }
    notes = (
        "The source states neither (n, k) nor the values of m and λ. Decay here is coupled with the rate, as in the "
        "usual libraries: a step multiplies weights by 1 − ηλ.",
        "A trial ends when every test example is right, so a fit that comes later than that is not seen.",
    )

    def check(self, settings: Settings) -> None:
        whole = settings.budget % settings.look_every == 0
        require(whole, f"budget must be a multiple of look_every={settings.look_every}; got budget={settings.budget}")

    def trials(self, settings: Settings) -> Iterator[Trials]:
        stopping = Stopping(budget=settings.budget, validation=settings.test, check_every=settings.look_every)
        training = Training(Sgd(settings.rate), Offline(settings.samples[0], settings.batch_size), stopping)
        task, model = Parity(settings.n, settings.k), Mlp(settings.width)
        trial = Trial(task, model, training, probes=(Error(), TrainingError()))
        shrinks = [settings.rate * decay for decay in settings.decays]
        yield from sweep(
            trial,
            training__optimiser__decay=shrinks,
            training__regime__m=settings.samples,
            seed=range(settings.seeds),
        )

    def measure(self, results: Results[Settings]) -> Measures:
        return {"times": _times(results.table, results.settings), "curves": _drawn(results.table, results.settings)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, cells = tables.settings, cells_of(tables)
        say = say.about(needs=[need(settings.seeds, FEWEST, "seeds per cell")])
        middle = _middle(settings)
        largest, positive = settings.samples[-1], [decay for decay in settings.decays if decay > 0]
        usual = USUAL if USUAL in positive else positive[0] if positive else 0.0
        seen = groups(tables["times"], ("decay", "m"))
        if middle is not None and positive:
            cell, rows = cells[usual, middle], seen[usual, middle]
            say(
                "groks",
                f"m = {middle}, λ = {usual:g}: the sample is fitted while the test error is still above {CHANCE}, and "
                f"the parity is learned at least {LATER:g} times as late.",
                share_of(cell.grokked(LATER) & (rows["error_at_fit"].to_numpy() > CHANCE), sample=cell.sample),
                "share of seeds",
                at_least=0.5,
                source_value="two of four panels grok",
            )
            say(
                "gap",
                f"m = {middle}, λ = {usual:g}: the median seed that fitted learns the parity much later.",
                cell.ratio,
                "median t_test / t_train",
                at_least=LATER,
                source_value="train error 0 long before test error 0",
            )
            say(
                "decay-needed",
                f"m = {middle}, λ = 0: without decay the sample is fitted and the parity never learned.",
                share_of(cells[0.0, middle].fitted & ~np.isfinite(cells[0.0, middle].test), sample=f"0, {middle}")
                if 0.0 in settings.decays
                else _not_asked("no run without decay"),
                "share of seeds that only memorise",
                at_least=0.5,
                source_value="memorises only",
            )
        say(
            "no-gap",
            f"m = {largest}, λ = {usual:g}: a large sample is fitted and learned at once.",
            cells[usual, largest].ratio,
            "median t_test / t_train",
            at_most=TOGETHER,
            source_value="large m: no gap",
        )
        if len(positive) > 1:
            few = settings.samples[0]
            say(
                "too-much-decay",
                f"λ = {positive[-1]:g} prevents fitting: hardly any sample below {largest} is fitted.",
                share_of(
                    np.concatenate([cells[positive[-1], m].fitted for m in settings.samples[:-1]]), sample="most decay"
                ),
                "share of seeds that fit",
                at_most=0.25,
                source_value="too large λ prevents training",
            )
            weak, strong = positive[0], positive[-2] if len(positive) > 2 else positive[-1]
            success = [_learned(cells, decay, settings.samples) for decay in (weak, strong)]
            say(
                "decay-widens",
                f"More decay (λ = {strong:g} against {weak:g}) lets more samples (of m from {few}) be learned.",
                success[1] - success[0],
                "difference of the share of seeds that learn the parity, over all m",
                above=0.0,
                source_value="larger λ extends the range of m",
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, cells = tables.settings, cells_of(tables)
        chart = self.chart("grokking-times", self.title, columns=len(settings.decays), height=3.4, sharey=True)
        rows = []
        for decay in settings.decays:
            panel = chart.panel(
                title=f"λ = {decay:g}", x="sample size m", y="steps (median)", log="xy", xticks=settings.samples
            )
            for name, color in (("fit_time", figures.BLUE), ("test_time", figures.VERMILLION)):
                found: list[Estimate] = [getattr(cells[decay, m], name) for m in settings.samples]
                label = "sample fitted" if name == "fit_time" else "parity learned"
                low, value, high = ([getattr(one, end) for one in found] for end in ("low", "value", "high"))
                panel.band(settings.samples, low, value, high, label, color=color, key="legend")
                rows += [
                    {"decay": decay, "m": m, "time": label, "median": one.value, "low": one.low, "high": one.high}
                    for m, one in zip(settings.samples, found, strict=True)
                ]
        yield chart.figure(
            f"Median over {settings.seeds} seeds of the first look with no error on the sample (blue) and on "
            f"{settings.test} test examples (red), 95% intervals by order statistics; a triangle: not within "
            f"{settings.budget:,} steps. ({settings.n},{settings.k})-parity, width {settings.width}, batch "
            f"{settings.batch_size}, rate {settings.rate:g}, a look every {settings.look_every} steps.",
            pl.DataFrame(rows),
        )
        grid = self.chart(
            "grokking-curves",
            "Both errors of one network per cell",
            rows=len(settings.decays),
            columns=len(settings.samples),
            width=2.4 * len(settings.samples),
            height=1.6 * len(settings.decays) + 0.8,
            sharey=True,
        )
        by_cell = groups(tables["curves"], ("decay", "m"))
        for decay, m in itertools.product(settings.decays, settings.samples):
            panel = grid.panel(title=f"m = {m}, λ = {decay:g}", ylim=(-0.02, 0.62), log="x")
            own = by_cell[decay, m].filter(pl.col("step") > 0)
            key: Key = "legend" if panel is grid[0] else ""
            panel.line(own["step"], own["training_error"], "sample", color=figures.BLUE, style="-", key=key)
            panel.line(own["step"], own["error"], "test", color=figures.VERMILLION, style="-", key=key)
        yield grid.figure(
            "Error on the sample (blue) and on test examples (red) of seed 0 in every cell.", tables["curves"]
        )


def cells_of(tables: Tables[Settings]) -> dict[tuple[float, int], Grokking]:
    """λ, m → both times of every seed."""
    return {
        (decay, m): Grokking(
            rows["t_train"].to_numpy(), rows["t_test"].to_numpy(), float(tables.settings.budget), f"{decay}, {m}"
        )
        for (decay, m), rows in groups(tables["times"], ("decay", "m")).items()
    }


def _learned(cells: dict[tuple[float, int], Grokking], decay: float, samples: Iterable[int]) -> Estimate:
    learned = np.concatenate([np.isfinite(cells[decay, m].test) for m in samples])
    return share_of(learned, sample=f"learned at {decay}")


def _middle(settings: Settings) -> int | None:
    """The middling sample: 250, where the grid has it, or that in the middle of the grid."""
    return (
        250 if 250 in settings.samples else settings.samples[len(settings.samples) // 2] if settings.samples else None
    )


def _not_asked(why: str) -> Estimate:
    return median([], nothing=why)


def _decay(row: dict[str, float], settings: Settings) -> float:
    """The setting λ that a trial's shrinkage came from."""
    shrink = row["training.optimiser.decay"]
    return min(settings.decays, key=lambda decay: abs(settings.rate * decay - shrink))


def _times(table: pl.DataFrame, settings: Settings) -> pl.DataFrame:
    """t_train, t_test and the test error at the first fit of every trial."""
    rows = []
    trained = first_times(table["curve.step"], table["curve.training_error"], at_most=0.0)
    tested = table["convergence_time"].cast(pl.Float64).fill_null(np.inf).to_numpy()
    for row, fit, test in zip(table.iter_rows(named=True), trained, tested, strict=True):
        step, error = np.asarray(row["curve.step"]), np.asarray(row["curve.error"])
        at_fit = float(error[np.flatnonzero(step == fit)[0]]) if np.isfinite(fit) else None
        head = {"decay": _decay(row, settings), "m": int(row["training.regime.m"]), "seed": row["seed"]}
        rows.append(head | {"t_train": fit, "t_test": test, "error_at_fit": at_fit})
    return pl.DataFrame(rows, schema_overrides={"error_at_fit": pl.Float64})


def _drawn(table: pl.DataFrame, settings: Settings) -> pl.DataFrame:
    """The curves of seed 0 in every cell, thinned."""
    parts = []
    for row in table.filter(pl.col("seed") == 0).iter_rows(named=True):
        step = np.asarray(row["curve.step"])
        kept = np.unique(np.append(np.arange(0, len(step), max(1, len(step) // DRAWN)), len(step) - 1))
        head = {"decay": _decay(row, settings), "m": int(row["training.regime.m"]), "step": step[kept]}
        values = {name: np.asarray(row[f"curve.{name}"], float)[kept] for name in ("training_error", "error")}
        parts.append(pl.DataFrame(head | values))
    return pl.concat(parts)
