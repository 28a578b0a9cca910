"""What experiments on Markov chains share: the two-layer transformer as the source trains it, looked at now and then.

A trial runs its whole budget. At every look the probes say how far it is from each strategy. Times are counted in
training sequences (steps × batch), as in the source's figures. App. E.2 prints the rate 3e-5, with which the network is
still on the plateau when the source's figures show the drop; 5e-4 is used here (chains/hazards trains with both).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial
from krogh.errors import require
from krogh.lab import Results, figures, setting
from krogh.lab.charts import Chart, Panel
from krogh.lab.estimate import Estimate, median, share_of
from krogh.lab.phases import curve_table, phase_table
from krogh.models import CausalTransformer
from krogh.models.base import Model
from krogh.probes.base import Probe
from krogh.probes.chains import AttentionScores, PositionalEncoding
from krogh.probes.strategies import StrategyDistances
from krogh.tasks.base import Task
from krogh.tasks.chains import MarkovChains
from krogh.training import Adam, Online, Optimiser, Stopping, Training

PRESETS = {"paper": CausalTransformer.paper, "plain": CausalTransformer.plain}
COLORS = dict(zip(("uniform", "unigram", "bigram", "trigram"), figures.PALETTE, strict=False))
SMOKE: dict[str, Any] = {"length": 12, "dimension": 8, "steps": 40, "look_every": 20, "seeds": 2, "validation": 64,
                         "batch_size": 16}  # fmt: skip
"""Settings of the smallest scale; shared, so that experiments share compiled programs."""
FEWEST_SEEDS = 6  # of fewer, a median has no interval at 95%
DECAY, BETAS = 0.1, (0.9, 0.95)  # AdamW of the source's code; only matrices decay


@dataclass(frozen=True)
class ChainSettings:
    """How networks are trained, and when they are looked at."""

    length: int = setting(100, "tokens per sequence, t", least=4)
    dimension: int = setting(16, "width of the residual stream, d", least=1)
    preset: str = setting("paper", "initial weights and normalisation", among=PRESETS)
    rate: float = setting(5e-4, "AdamW's learning rate", above=0)
    batch_size: int = setting(64, "sequences per step", least=1)
    steps: int = setting(2_000, "steps of every trial", least=1)
    look_every: int = setting(20, "steps between two looks", least=1)
    seeds: int = setting(20, "trials per setting", least=1)
    validation: int = setting(1_000, "sequences on which losses and distances are measured", least=1)

    def model(self, **options: Any) -> CausalTransformer:
        return PRESETS[self.preset](**{"dimension": self.dimension, **options})

    def training(self, optimiser: Optimiser, *, steps: int | None = None) -> Training:
        """The whole budget on fresh sequences, cross-entropy over all positions."""
        stopping = Stopping(
            budget=self.steps if steps is None else steps,
            error=0.0,
            check_every=self.look_every,
            validation=self.validation,
            early=False,
        )
        return Training(optimiser, Online(self.batch_size), stopping, "cross-entropy")

    def adam(self, model: Model, rate: float | None = None) -> Adam:
        """The source's AdamW: matrices decay, embeddings, positions and norms do not."""
        matrices = model.matrices if isinstance(model, CausalTransformer) else None
        b1, b2 = BETAS
        chosen = self.rate if rate is None else rate
        return Adam(chosen, decay=DECAY if matrices else 0.0, b1=b1, b2=b2, decayed=matrices)

    def trial(
        self, task: Task, model: Model | None = None, *, probes: Sequence[Probe] = (), snapshots: Iterable[int] = ()
    ) -> Trial:
        """The transformer of these settings, or another model, on a task, with its distances to the strategies and,
        where it has them, what its heads and positions do."""
        chosen = self.model() if model is None else model
        heads: tuple[Probe, ...] = ()
        if isinstance(chosen, CausalTransformer) and chosen.layers > 1 and chosen.positions == "relative":
            heads = (AttentionScores(), PositionalEncoding())
        return Trial(
            task,
            chosen,
            self.training(self.adam(chosen)),
            probes=(StrategyDistances(), *heads, *probes),
            probe_every=self.look_every,
            snapshots=snapshots,
        )

    def chains(self, k: int, **options: Any) -> MarkovChains:
        return MarkovChains(k, self.length, **options)

    def snapshot_steps(self, count: int) -> tuple[int, ...]:
        """`count` steps over the whole run at which weights are kept, denser at the beginning, each a look."""
        if not count:
            return ()
        share = np.linspace(0, 1, count) ** 1.5
        return tuple(sorted({round(float(self.steps * one / self.look_every)) * self.look_every for one in share}))

    def check_looks(self) -> None:
        whole = self.steps % self.look_every == 0
        require(whole, f"steps must be a multiple of look_every={self.look_every}; got steps={self.steps}")


def draw_losses(panel: Panel, rows: pl.DataFrame, baselines: Iterable[str]) -> None:
    """The loss of every seed against sequences seen, thin, their median, and what the strategies lose."""
    for _, own in rows.group_by("seed", maintain_order=True):
        panel.line(own["time"], own["loss"], style="-", width=0.5, color=figures.INK, key="", alpha=0.3)
    middle = rows.group_by("time", maintain_order=True).agg(pl.col("loss").median()).sort("time")
    panel.line(middle["time"], middle["loss"], "median", style="-", width=1.6, color=figures.INK, key="")
    for name in baselines:
        panel.reference(float(rows[f"baseline_{name}"].mean()), name)  # type: ignore[arg-type]


def draw_distances(panel: Panel, rows: pl.DataFrame, strategies: Sequence[str]) -> None:
    """The median distance to every strategy with the range over seeds."""
    for name in strategies:
        color = COLORS.get(name, figures.MUTED)
        panel.ranges(rows, "time", f"distance_{name}", name, middle=pl.Expr.median, color=color, key="legend")


def shade_phases(panel: Panel, rows: pl.DataFrame, strategies: Sequence[str]) -> None:
    """The background coloured by the strategy that is nearest in the median over seeds."""
    columns = [f"distance_{name}" for name in strategies]
    middle = rows.group_by("time", maintain_order=True).agg(pl.col(columns).median()).sort("time")
    nearest = np.argmin(middle.select(columns).to_numpy(), axis=1)
    times = middle["time"].to_numpy()
    edges = np.append(times, times[-1])
    for place, phase in enumerate(nearest):
        color = COLORS.get(strategies[phase], figures.MUTED)
        panel.ax.axvspan(edges[place], edges[place + 1], color=color, alpha=0.08, linewidth=0)


def draw_phases(
    chart: Chart, curves: Mapping[Any, pl.DataFrame], titles: Mapping[Any, str], strategies: Sequence[str]
) -> str:
    """A row of panels with losses and one with distances below it, a column for each part; what the caption says."""
    first = next(iter(titles))
    for part, title in titles.items():
        panel = chart.panel(title=title, y="KL(truth ‖ network), nats" if part == first else "")
        draw_losses(panel, curves[part], strategies)
    for part in titles:
        panel = chart.panel(x="training sequences", y="KL(strategy ‖ network), nats" if part == first else "", log="y")
        draw_distances(panel, curves[part], strategies)
        shade_phases(panel, curves[part], strategies)
    return (
        "Top: loss at the last position of every seed (thin), their median, and what the strategies lose on the same "
        "sequences (dashed). Bottom: median distance to each strategy with the range over seeds, shaded by the nearest."
    )


def curve_columns(strategies: Sequence[str]) -> tuple[str, ...]:
    """Loss, distances and baselines, as `StrategyDistances` calls them."""
    return ("loss", *(f"{kind}_{name}" for kind in ("distance", "baseline") for name in strategies))


def phase_measures(
    results: Results[Any], label: str, strategies: Sequence[str], more: Sequence[str] = ()
) -> dict[str, pl.DataFrame]:
    """A row per trial (the last two strategies are those between which it moves) and its curves, by a label."""
    before, after = strategies[-2:]
    scale = float(results.settings.batch_size)
    columns = (*curve_columns(strategies), *more)
    return {
        "phases": phase_table(results.table, before, after, labels=(label,), scale=scale),
        "curves": curve_table(results.table, columns, labels=(label,), scale=scale),
    }


def left_to_go(rows: pl.DataFrame, before: str, after: str, sample: str) -> Estimate:
    """The median of (last loss − after's)/(before's − after's): 1 at the one strategy, 0 at the other."""
    low, high = rows[f"baseline_{after}"], rows[f"baseline_{before}"]
    return median(((rows["final_loss"] - low) / (high - low)).to_numpy(), sample=sample)


def share_where(rows: pl.DataFrame, holds: pl.Expr, sample: str) -> Estimate:
    """The share of trials for which an expression holds; unknown where there are none."""
    flags = rows.select(holds.fill_null(False).alias("holds"))["holds"].to_numpy().astype(bool)
    return share_of(flags, sample=sample) if flags.size else median([], nothing="no trial")
