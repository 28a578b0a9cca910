"""Figures 8.1, 8.3 top, E.3 and E.7 top: a transformer learns Markov chains in phases.

Every sequence comes from a fresh chain with Dirichlet rows. A two-layer attention-only transformer first predicts by
the frequencies of symbols so far, stays there for long, and then all at once by the frequencies of what followed the
present symbol. Shortly before the drop its first layer looks back odd numbers of tokens rather than even ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trials, sweep
from krogh.experiments.chains.common import (
    FEWEST_SEEDS,
    SMOKE,
    ChainSettings,
    draw_phases,
    left_to_go,
    phase_measures,
    share_where,
)
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, groups, need, setting
from krogh.lab.estimate import median, median_time
from krogh.lab.experiment import Measures
from krogh.lab.phases import (
    curve_of,
    nearest_strategies,
    plateau_length,
    transition_time,
)
from krogh.probes.chains import SHOWN

STRATEGIES = ("uniform", "unigram", "bigram")
ORDER = " → ".join(STRATEGIES)
BEFORE, AFTER = "unigram", "bigram"
PLACES = tuple(f"encoding_{j}" for j in range(1, SHOWN + 1))


@dataclass(frozen=True)
class Settings(ChainSettings):
    ks: tuple[int, ...] = setting((2, 3), "numbers of symbols k", distinct=True, least=2)
    snapshots: int = setting(0, "steps at which weights are kept, for krogh replay", least=0)


@experiment("chains/phases")
class ChainPhases(Experiment[Settings]):
    """Loss, distances to strategies and positional encoding of two-layer transformers while they learn chains."""

    title = "From symbol frequencies to induction: a transformer learns Markov chains in phases"
    question = "Which strategies does a transformer pass through on its way to the in-context bigram, and how suddenly?"
    source = "dissertation, §8.3, Figures 8.1, 8.3 top, E.3 and E.7 top"
    scales = {
        "smoke": Settings(**SMOKE, ks=(2,)),
        "laptop": Settings(
            ks=(3,), length=60, rate=1e-3, steps=1_600, look_every=40, seeds=8, validation=500, snapshots=25
        ),
        "paper": Settings(),
    }
    notes = (
        "App. E.2 prints the learning rate 3e-5; 5e-4, that of the source's code, is used (see chains/hazards).",
        "Initial weights are not given in the source. Preset paper: layer norms, an output matrix, weights of standard "
        "deviation 0.02; preset plain: the printed equations, standard deviation 1/√d.",
        "With two symbols some seeds take a mirrored route, looking back even numbers of tokens, and drop much later.",
    )

    def check(self, settings: Settings) -> None:
        settings.check_looks()

    def trials(self, settings: Settings) -> Iterator[Trials]:
        steps = settings.snapshot_steps(settings.snapshots)
        for k in settings.ks:
            trial = settings.trial(settings.chains(k), snapshots=steps)
            yield from sweep(trial, seed=range(settings.seeds), label={"k": k})

    def measure(self, results: Results[Settings]) -> Measures:
        found = phase_measures(results, "k", STRATEGIES, more=("previous_token", "induction", "even_odd", *PLACES))
        more = pl.DataFrame([_mechanism(row) for row in results.table.iter_rows(named=True)])
        return found | {"phases": pl.concat([found["phases"], more], how="horizontal")}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        for k, rows in groups(tables["phases"], "k").items():
            sample = f"k={k}"
            about = say.about(f"k{k}-", f"k = {k}: ", needs=[need(len(rows), FEWEST_SEEDS, "seeds")])
            about(
                "order",
                f"most networks pass through exactly the phases {ORDER}.",
                share_where(rows, pl.col("phases") == ORDER, sample),
                "share of seeds",
                at_least=0.5,
                source_value="uniform, then unigram, then bigram",
            )
            about(
                "final",
                "in the end the loss is below the midpoint between the unigram and the bigram strategy.",
                left_to_go(rows, BEFORE, AFTER, sample),
                "median of (loss − bigram's)/(unigram's − bigram's)",
                below=0.5,
                source_value="close to Bayes optimal",
            )
            about(
                "plateau",
                "the network spends at least a tenth of its training on the unigram plateau.",
                median((rows["plateau"] / rows["horizon"]).to_numpy(), lowest=0.0, sample=sample),
                "median share of the run that is nearest to unigram",
                at_least=0.1,
                source_value="a long plateau",
            )
            about(
                "sudden",
                "the second drop is quicker than the plateau before it: the middle half of the fall from the unigram's "
                "loss to the network's last takes less time.",
                median(rows["fall_over_plateau"].to_numpy(), lowest=0.0, sample=sample),
                "median of (time of the middle half of the fall) / (plateau)",
                below=1.0,
                source_value="a sudden drop",
            )
            for name, words, least in (
                ("previous_token", "the first layer attends to the token before", 0.5),
                ("induction", "the second layer attends to successors of the present symbol", 0.8),
            ):
                about(
                    name.replace("_", "-"),
                    f"in the end {words}.",
                    median(rows[name].to_numpy(), lowest=0.0, highest=1.0, sample=sample),
                    f"median {name.replace('_', '-')} score",
                    at_least=least,
                    source_value="a statistical induction head",
                )
            about(
                "even-odd",
                "before the drop the first layer looks back odd numbers of tokens more than even ones.",
                share_where(rows, pl.col("even_odd_before").fill_nan(None) > 0, sample),
                "share of seeds whose even-odd index is above 0 at the last look before the transition",
                at_least=0.5,
                source_value="an even/odd pattern shortly before the drop",
            )
            moved = rows.filter(pl.col("transition").is_finite())
            about(
                "time",
                "the transition comes within a factor of ten of the source's number of sequences.",
                median(rows["transition"].to_numpy(), lowest=0.0, sample=sample),
                f"median number of sequences until the transition ({len(moved)} of {len(rows)} seeds; {_range(moved)})",
                between=(0.1 * 92_000, 10 * 92_000),
                source_value="about 92,000 sequences in Figure 8.1, at another learning rate",
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        by_k, ks = groups(tables["curves"], "k"), tables.settings.ks
        chart = self.chart(
            "phases",
            "Loss and distances to strategies",
            headline="Two-layer transformers on Markov chains: uniform, unigram, bigram",
            rows=2,
            columns=len(ks),
            width=5.2 * len(ks),
            height=6.0,
            sharex="col",
        )
        titles = {k: f"k = {k}" for k in ks}
        yield chart.figure(draw_phases(chart, by_k, titles, STRATEGIES), tables["curves"])
        yield self._encoding(tables)
        yield self._mechanism_figure(tables)

    def _encoding(self, tables: Tables[Settings]) -> Figure:
        by_k, ks = groups(tables["curves"], "k"), tables.settings.ks
        times = groups(tables["phases"], "k")
        chart = self.chart(
            "encoding", "Effective positional encoding", columns=len(ks), width=5.2 * len(ks), height=3.4
        )
        for k in ks:
            panel = chart.panel(
                title=f"k = {k}", x="place j (1: the token itself, 2: the one before)", y="v̂_j", log="y"
            )
            for words, moment in _moments(times[k], by_k[k]).items():
                rows = by_k[k].filter(pl.col("time") == moment)
                values = rows.select(pl.col(list(PLACES)).median()).row(0)
                panel.line(range(1, SHOWN + 1), values, f"{words} ({moment:,.0f})", style="-", key="legend", marker="o")
        return chart.figure(
            "Softmax over j of (e_x W_Q)·v_j/√d in the first layer, averaged over symbols, median over seeds, at the "
            "start, shortly before the median transition and at the end (numbers of sequences in brackets)."
        )

    def _mechanism_figure(self, tables: Tables[Settings]) -> Figure:
        by_k, ks = groups(tables["curves"], "k"), tables.settings.ks
        chart = self.chart("heads", "The heads that form", columns=len(ks), width=5.2 * len(ks), height=3.4)
        for k in ks:
            panel = chart.panel(title=f"k = {k}", x="training sequences", y="score", ylim=(0, 1))
            for name in ("previous_token", "induction"):
                panel.ranges(by_k[k], "time", name, name.replace("_", " "), middle=pl.Expr.median, key="legend")
        return chart.figure(
            "Attention to the token before in the first layer, and to successors of the present symbol in the second: "
            "median and range over seeds."
        )


def _mechanism(row: dict[str, object]) -> dict[str, float]:
    """What the heads do in the end, the even-odd index before the drop, and how long the drop takes."""
    curve = curve_of(row)
    moved = transition_time(curve, BEFORE, AFTER)
    before, plateau = curve["step"] < moved, plateau_length(curve["step"], nearest_strategies(curve), BEFORE)
    left = np.isfinite(moved) and 0 < plateau < math.inf
    return {
        "previous_token": float(curve["previous_token"][-1]),
        "induction": float(curve["induction"][-1]),
        "even_odd_before": float(curve["even_odd"][before][-1]) if np.isfinite(moved) and before.any() else math.nan,
        "fall_over_plateau": _fall(curve) / plateau if left else math.inf,
    }


def _fall(curve: dict[str, np.ndarray]) -> float:
    """Steps between the first looks at which three quarters and one quarter of the fall are left."""
    top, bottom = float(curve["baseline_unigram"][0]), float(np.min(curve["loss"]))
    steps, loss = curve["step"], curve["loss"]
    ends = [steps[np.flatnonzero(loss <= bottom + part * (top - bottom))[0]] for part in (0.75, 0.25)]
    return float(max(ends[1] - ends[0], steps[1] - steps[0]))  # a fall between two looks takes a look at most


def _moments(rows: pl.DataFrame, curves: pl.DataFrame) -> dict[str, float]:
    """Start, shortly before the median transition (at nine tenths of it), end: as looks."""
    looks = np.unique(curves["time"].to_numpy())
    middle = median_time(rows["transition"].to_numpy()).value
    found = {"start": float(looks[0])}
    if np.isfinite(middle):
        found["before the drop"] = float(looks[np.flatnonzero(looks <= 0.9 * middle)[-1]])
    return found | {"end": float(looks[-1])}


def _range(rows: pl.DataFrame) -> str:
    times = rows["transition"].to_numpy()
    return f"{times.min():,.0f} to {times.max():,.0f}" if times.size else "none"
