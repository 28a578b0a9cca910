"""Figure 4.4: the same Transformer, trained on fresh samples, learns 3-sparse parities after a long plateau.

The loss stays at that of a coin flip, ln 2, for most of the time and then falls to 0. Statistical-query methods need
of the order of T^s noisy gradients; the number C(T,s) of index sets stands beside the measured times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require, require_integer
from krogh.lab import Claim, Experiment, Figure, Results, claim, convergence_times, experiment, figures, setting
from krogh.lab.statistics import Interval, proportion, quantile, quantile_interval
from krogh.lab.times import plateau_fraction
from krogh.models.sparse_transformer import MATRICES, SparseTransformer
from krogh.probes import BatchLoss, Error
from krogh.tasks.sparse_boolean import sparse_xor
from krogh.training import Adam, Online, Stopping, Training

SOURCE = "dissertation, Figure 4.4 and §A.3.2"
CHANCE = math.log(2)
NEAR = 0.01  # a loss this close to ln 2 is on the plateau
FEWEST = 6  # seeds that a median's distribution-free interval needs


@dataclass(frozen=True)
class Settings:
    ns: tuple[int, ...] = setting((10, 15), "bits of context, the source's T")
    s: int = setting(3, "relevant bits")
    seeds: tuple[int, ...] = setting((20, 20), "trials for each T")
    budgets: tuple[int, ...] = setting((4_000, 15_000), "steps after which a trial has failed, for each T")
    batch_size: int = setting(2048, "fresh examples per step")
    rate: float = setting(1e-3, "learning rate of Adam")
    validation: int = setting(4096, "fresh examples, all of which must be right")
    embedding: int = setting(64, "embedding dimension")
    heads: int = setting(16, "attention heads")
    dropout: float = setting(0.1, "dropout on attention weights and block outputs")
    embedding_dropout: float = setting(0.1, "dropout on embeddings; without it training is several times faster")


@experiment("attention/parity")
class AttentionParity(Experiment[Settings]):
    """Loss curves of a Transformer that learns sparse parities online."""

    title = "A Transformer learns sparse parities in a sudden transition"
    question = (
        "Does a Transformer trained on fresh samples learn a 3-sparse parity, and what does its loss show before?"
    )
    source = SOURCE
    scales = {
        "smoke": Settings(
            ns=(6,),
            s=2,
            seeds=(2,),
            budgets=(60,),
            batch_size=32,
            validation=64,
            embedding=16,
            heads=4,
            embedding_dropout=0.0,
        ),
        "laptop": Settings(seeds=(6, 6), budgets=(2_000, 3_000), embedding_dropout=0.0),
        "paper": Settings(),
    }
    notes = (
        "The source states neither rate nor number of steps; rate 1e-3 is that of its other experiments. The sentence "
        "that says how the architecture differs is cut off in the document; here it does not.",
        "The source shows 10 seeds. Here there are 20, the fewest tens at which a share of 0.8 can be told from less.",
        "The batch matters: of six seeds with batches of 512, three were on the plateau of T = 10 after 3,000 steps.",
        "Training stops at 100% on fresh examples, so that a curve ends at its t_c.",
    )

    def trials(self, settings: Settings) -> list[Trials]:
        ns, seeds, budgets = settings.ns, settings.seeds, settings.budgets
        require(len(set(ns)) == len(ns) >= 1, f"ns must be different numbers of bits; got ns={ns}")
        for name, given in (("seeds", seeds), ("budgets", budgets)):
            require(len(given) == len(ns), f"{name} must be one per n, {len(ns)} of them; got {name}={given}")
            for number in given:
                require_integer(name, number, 1)
        model = SparseTransformer(settings.embedding, settings.heads, settings.dropout, settings.embedding_dropout)
        optimiser = Adam(settings.rate, decay=1e-4, clip=1.0, decayed=MATRICES)
        cohorts = []
        for n, count, budget in zip(ns, seeds, budgets, strict=True):
            training = Training(
                optimiser,
                Online(settings.batch_size),
                Stopping(budget, validation=settings.validation),
                "logistic",
            )
            trial = Trial(sparse_xor(n, settings.s), model, training, probes=(Error(), BatchLoss()))
            cohorts += sweep(trial, seed=range(count))
        return cohorts

    def claims(self, results: Results[Settings]) -> list[Claim]:
        settings = results.settings
        found, medians = [], {}
        for n, budget in zip(settings.ns, settings.budgets, strict=True):
            rows = results.table.filter(pl.col("task.n") == n)
            times, shares = convergence_times(rows), plateau_shares(rows)
            medians[n] = quantile_interval(times)
            solved = int(np.isfinite(times).sum())
            found += [
                claim(
                    f"learns-T{n}",
                    f"T = {n}: the Transformer reaches 100% within {budget:,} steps ({_sets(n, settings.s)} index "
                    f"sets; median t_c {medians[n].value:.0f}).",
                    source=SOURCE,
                    statistic="share of seeds that reach 100%",
                    interval=proportion(solved, len(times)),
                    trials=len(times),
                    at_least=0.8,
                    source_value="all 10 curves shown reach 100%",
                    **_needs(len(times), "seeds"),
                ),
                claim(
                    f"plateau-T{n}",
                    f"T = {n}: for much of the time the loss is within {NEAR} of ln 2, that of a coin flip.",
                    source=SOURCE,
                    statistic="median over seeds of the share of [0, t_c] on the plateau",
                    interval=_median(shares),
                    trials=len(times),
                    at_least=0.5,
                    source_value="phase transitions from random guessing to 100% accuracy",
                    **_needs(len(shares), "seeds that converged"),
                ),
            ]
        if len(medians) >= 2:
            low, high = min(medians), max(medians)
            fewest = min(settings.seeds[settings.ns.index(n)] for n in (low, high))
            found.append(
                claim(
                    "longer-contexts-take-longer",
                    f"T = {high} takes longer than T = {low}; the number of index sets grows by "
                    f"{math.comb(high, settings.s) / math.comb(low, settings.s):.2g}.",
                    source=SOURCE,
                    statistic=f"median t_c at T = {high} / at T = {low}",
                    interval=_ratio(medians[high], medians[low]),
                    trials=len(results.table),
                    above=1.0,
                    source_value="later transition for T = 15",
                    **_needs(fewest, "seeds of one T"),
                )
            )
        return found

    def figures(self, results: Results[Settings]) -> list[Figure]:
        settings = results.settings
        fig, axes = figures.new_figure(
            f"A plateau at chance, then a sudden drop: Transformers on {settings.s}-sparse parities",
            width=max(6.0, 4.0 * len(settings.ns)),
            height=4.8,
            nrows=2,
            ncols=len(settings.ns),
            sharey=False,
        )
        grid = np.reshape(axes, (2, len(settings.ns)))
        tables = []
        for column, n in enumerate(settings.ns):
            rows = results.table.filter(pl.col("task.n") == n)
            tables.append(_draw(grid[:, column], rows).with_columns(n=pl.lit(n)))
            median = quantile_interval(convergence_times(rows)).value
            middle = f"median t_c {median:,.0f}" if math.isfinite(median) else "most never learn"
            figures.panel_title(grid[0, column], f"T = {n}: {_sets(n, settings.s)} index sets, {middle}")
            grid[1, column].set_xlabel("training iterations (fresh batches)")
        grid[0, 0].set_ylabel("training loss")
        grid[1, 0].set_ylabel("accuracy")
        figures.source_note(fig, SOURCE)
        checked = min(settings.validation, 1024)
        caption = (
            f"Training loss (mean over 10 steps, dropout on) and accuracy on {checked:,} fresh examples of every seed; "
            f"batches of {settings.batch_size}, Adam with rate {settings.rate:g}. A dot marks t_c, 100% on "
            f"{settings.validation:,} examples, where training stops. Dashed: ln 2, the loss of a coin flip."
        )
        return [
            Figure(
                "loss-curves", "Loss and accuracy of sparse parities learned online", caption, fig, pl.concat(tables)
            )
        ]


def plateau_shares(rows: pl.DataFrame) -> np.ndarray:
    """For each converged seed the share of [0, t_c] with a loss within 0.01 of ln 2."""
    solved = rows.filter(pl.col("convergence_time").is_not_null())
    shares = []
    for step, loss, time in solved.select("curve.step", "curve.batch_loss", "convergence_time").iter_rows():
        steps, losses = np.array(step[1:], float), np.array(loss[1:], float)  # before the first step there is no loss
        near = (np.abs(losses - CHANCE) <= NEAR).astype(float)
        shares.append(float(plateau_fraction(steps, near, float(time), 0.5)))
    return np.array(shares)


def _sets(n: int, s: int) -> str:
    return f"C({n},{s}) = {math.comb(n, s)}"


def _needs(count: int, what: str) -> dict[str, Any]:
    return {"enough": count >= FEWEST, "too_small": f"{count} {what}; a verdict needs {FEWEST}"}


def _median(shares: np.ndarray) -> Interval:
    if not len(shares):
        return Interval(math.nan, math.nan, math.nan, 0.95, "no seed converged")
    if len(shares) < FEWEST:
        return Interval(quantile(shares), float(shares.min()), float(shares.max()), 0.0, "range")
    return quantile_interval(shares)


def _ratio(top: Interval, bottom: Interval) -> Interval:
    """The ratio of two medians with the ends that their intervals allow; a median that was not reached is infinite."""
    if not math.isfinite(bottom.value):
        return Interval(math.nan, math.nan, math.nan, 0.95, "no median")
    high = top.high / bottom.low if bottom.low > 0 else math.inf
    return Interval(top.value / bottom.value, top.low / bottom.high, high, 0.95, "order statistics")


def _draw(axes: np.ndarray, rows: pl.DataFrame) -> pl.DataFrame:
    above, below = axes
    tables = []
    columns = rows.select("seed", "curve.step", "curve.batch_loss", "curve.error", "convergence_time")
    for place, (seed, step, loss, error, time) in enumerate(columns.iter_rows()):
        color = figures.PALETTE[place % 7]
        above.plot(step[1:], loss[1:], color=color, linewidth=1.0, alpha=0.8)
        below.plot(step, 1 - np.array(error), color=color, linewidth=1.0, alpha=0.8)
        if time is not None:
            at = int(np.searchsorted(step, time))
            above.plot([time], [loss[min(at, len(loss) - 1)]], color=color, marker="o", markersize=4, clip_on=False)
            below.plot([time], [1.0], color=color, marker="o", markersize=4, clip_on=False)
        known = {"step": step[1:], "loss": loss[1:], "accuracy": 1 - np.array(error[1:])}
        tables.append(pl.DataFrame({"seed": [seed] * (len(step) - 1), **known}))
    above.axhline(CHANCE, color=figures.MUTED, linestyle=(0, (5, 3)), linewidth=1.0)
    above.set_ylim(-0.02, 0.78)
    below.set_ylim(0.45, 1.02)
    below.sharex(above)
    return pl.concat(tables)
