"""Figure 8.4a: the simple solution is a distractor.

On doubly stochastic chains the frequencies of symbols say nothing, and the network has no unigram strategy to stop at.
Mixed with sequences of independent tokens, on which that strategy is all there is, the same number of doubly stochastic
sequences teaches it later. Networks are judged on chains with flat Dirichlet rows, which none of them was trained on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from krogh.engine import Trials, sweep
from krogh.experiments.chains.common import FEWEST_SEEDS, SMOKE, ChainSettings, share_where
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, groups, need, setting
from krogh.lab.curves import Curve, curve
from krogh.lab.estimate import median_time
from krogh.lab.experiment import Measures
from krogh.lab.phases import curve_of, curve_table, phase_table
from krogh.tasks.chains import DirichletRows, Mixture

HALF_BACK = 0.5  # a previous-token score above this is a first layer that has formed


@dataclass(frozen=True)
class Settings(ChainSettings):
    k: int = setting(4, "symbols", least=2, most=7)
    shares: tuple[float, ...] = setting(
        (0.25, 0.5, 0.75, 1.0), "shares p of doubly stochastic sequences", increasing=True, above=0, most=1
    )


@experiment("chains/simplicity")
class Simplicity(Experiment[Settings]):
    """How many doubly stochastic sequences a transformer needs, with and without unigram sequences beside them."""

    title = "Sequences that a simpler strategy explains slow the induction head down"
    question = "Does extra data of independent tokens, on which counting symbols suffices, help or delay induction?"
    source = "dissertation, §8.3.1, Figure 8.4a"
    scales = {
        "smoke": Settings(**SMOKE, k=2, shares=(0.5, 1.0)),
        "laptop": Settings(
            length=60, rate=1e-3, steps=3_000, look_every=60, seeds=8, validation=300, shares=(0.5, 1.0)
        ),
        "paper": Settings(steps=8_000),
    }
    notes = (
        "The share of unigram sequences in Figure 8.4a is not stated. The number of doubly stochastic sequences seen "
        "is p times all.",
        "With few doubly stochastic sequences the best predictor is a mixture that loses more on flat Dirichlet chains "
        "than the threshold allows: beside the loss, the first layer's attention to the token before is timed.",
    )

    def check(self, settings: Settings) -> None:
        settings.check_looks()

    def trials(self, settings: Settings) -> Iterator[Trials]:
        task = settings.chains(settings.k, prior=Mixture(1.0), judged=DirichletRows())
        trial = settings.trial(task)
        yield from sweep(trial, task__prior__p=settings.shares, seed=range(settings.seeds))

    def measure(self, results: Results[Settings]) -> Measures:
        table, scale = results.table.with_columns(share=pl.col("task.prior.p")), float(results.settings.batch_size)
        phases = phase_table(table, "unigram", "bigram", labels=("share",), scale=scale)
        formed = [
            scale
            * min(
                (s for s, b in zip(c["step"], c["previous_token"], strict=True) if b > HALF_BACK), default=float("inf")
            )
            for c in map(curve_of, table.iter_rows(named=True))
        ]
        phases = phases.with_columns(
            formed=pl.Series(formed, dtype=pl.Float64),
            useful=pl.col("transition") * pl.col("share"),
            passed_unigram=pl.col("phases").str.contains("unigram"),
        ).with_columns(useful_formed=pl.col("formed") * pl.col("share"))
        columns = ("loss", "baseline_uniform", "baseline_unigram", "baseline_bigram", "previous_token")
        return {"phases": phases, "curves": curve_table(table, columns, labels=("share",), scale=scale)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        rows, settings = tables["phases"], tables.settings
        say = say.about(needs=[need(settings.seeds, FEWEST_SEEDS, "seeds")])
        useful, formed = (_medians(rows, column, settings) for column in ("useful", "useful_formed"))
        if 1.0 not in settings.shares:
            return
        for share in settings.shares[:-1]:
            words = f"p = {share:g}"
            say(
                f"slower-{share:g}",
                f"{words}: with unigram sequences added, the drop comes after at least 1.3 times as many doubly "
                "stochastic sequences as without.",
                useful.at(share) / useful.at(1.0),
                f"median doubly stochastic sequences until the transition, {words} / p = 1",
                at_least=1.3,
                source_value="much slower (no number stated)",
            )
            say(
                f"slower-head-{share:g}",
                f"{words}: and so does the head that looks one token back.",
                formed.at(share) / formed.at(1.0),
                f"median doubly stochastic sequences until its score passes {HALF_BACK:g}, {words} / p = 1",
                at_least=1.3,
                source_value="much slower (no number stated)",
            )
        alone = rows.filter(pl.col("share") == 1.0)
        say(
            "no-plateau",
            "On doubly stochastic chains alone the unigram strategy is the nearest at no look.",
            share_where(alone, ~pl.col("passed_unigram"), "p=1"),
            "share of seeds",
            at_least=0.5,
            source_value="no long plateau",
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        chart = self.chart(
            "simplicity",
            "Loss against doubly stochastic sequences seen",
            headline="Unigram sequences added for free slow the induction head down",
            columns=2,
            width=10.4,
            width_ratios=[1.5, 1],
        )
        panel = chart.panel(x="doubly stochastic sequences seen", y="KL(truth ‖ network) on flat chains, nats")
        colors = dict(zip(tables.settings.shares, figures.PALETTE, strict=False))
        seen = tables["curves"].with_columns(useful=pl.col("time") * pl.col("share"))
        for share, rows in groups(seen, "share").items():
            panel.ranges(
                rows, "useful", "loss", f"p = {share:g}", middle=pl.Expr.median, color=colors[share], key="legend"
            )
        for name in ("unigram", "bigram"):
            panel.reference(float(seen[f"baseline_{name}"].mean()), name)  # type: ignore[arg-type]
        settings, first = tables.settings, tables.settings.look_every * tables.settings.batch_size
        times = chart.panel(
            x="share p of doubly stochastic sequences",
            y="doubly stochastic sequences until the drop",
            log="y",
            ylim=(settings.shares[0] * first / 2, 1.5 * settings.steps * settings.batch_size),
        )
        times.curve(_medians(tables["phases"], "useful", tables.settings), "loss", key="legend")
        times.curve(_medians(tables["phases"], "useful_formed", tables.settings), "previous token", key="legend")
        yield chart.figure(
            "Left: median loss with the range over seeds; dashed: what the strategies lose. Right: median number of "
            "doubly stochastic sequences until the loss is below the midpoint of unigram and bigram, and until the "
            f"first layer's previous-token score passes {HALF_BACK:g}, with 95% intervals.",
        )


def _medians(rows: pl.DataFrame, column: str, settings: Settings) -> Curve:
    """Median numbers of doubly stochastic sequences by their share; what did not come within the budget came later."""
    return curve(
        {
            share: median_time(
                own[column].to_numpy(),
                horizon=share * settings.steps * settings.batch_size,
                sample=f"share={share:g}",
            )
            for share, own in groups(rows, "share").items()
        }
    )
