"""Figures 8.3 bottom, 8.4b and E.7 bottom: the minimal model learns bigrams, its second layer first.

f = mask(E W (M E)ᵀ) E has two parameters, W between symbols and v over places, and neither softmax nor normalisation.
From v constant and W = 0, W becomes diagonal within a few steps of SGD; only then has v a signal, and it grows at
place 2, the token before, and at even places more than at odd ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.experiments.chains.common import FEWEST_SEEDS, SMOKE, ChainSettings, draw_phases, phase_measures, share_where
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, groups, need, setting
from krogh.lab.estimate import median
from krogh.lab.experiment import Measures
from krogh.lab.phases import curve_of
from krogh.models import MinimalInduction
from krogh.probes.chains import SHOWN, MinimalWeights
from krogh.probes.strategies import StrategyDistances
from krogh.training import Sgd

STRATEGIES = ("uniform", "unigram", "bigram")
EARLY, MIDDLE, LATE = 20, 100, 1_000  # steps at which the source's pictures and the reference look
PLACES = tuple(f"v{j}" for j in range(1, SHOWN + 1))


@dataclass(frozen=True)
class Settings(ChainSettings):
    ks: tuple[int, ...] = setting((2, 3), "numbers of symbols k", distinct=True, least=2)
    rate: float = setting(2e-3, "learning rate of SGD", above=0)
    start: float = setting(0.02, "initial value of every v_j; W begins at 0", above=0)


@experiment("chains/minimal")
class Minimal(Experiment[Settings]):
    """W and v of the minimal model, its loss and its distances to strategies along SGD."""

    title = "The minimal model aligns its second layer first, then looks one token back"
    question = "In which order do the two layers of an induction head form, and what does the first do on the way?"
    source = "dissertation, §8.3.2, Lemma 8.4, Figures 8.3 bottom, 8.4b and E.7 bottom"
    scales = {
        "smoke": Settings(**SMOKE, ks=(2,)),
        "laptop": Settings(ks=(2, 3), steps=2_000, seeds=8, validation=500),
        "paper": Settings(steps=6_000),
    }
    notes = (
        "The model has no softmax over positions: its logits are scaled counts, so that it cannot reach the bigram "
        "strategy's loss (chains/floors), and its loss may rise above the unigram's on the way.",
    )

    def check(self, settings: Settings) -> None:
        settings.check_looks()

    def trials(self, settings: Settings) -> Iterator[Trials]:
        probes = (StrategyDistances(), MinimalWeights())
        training = settings.training(Sgd(settings.rate))
        for k in settings.ks:
            trial = Trial(settings.chains(k), MinimalInduction(w=0.0, v=settings.start), training, probes=probes)
            yield from sweep(trial, seed=range(settings.seeds), label={"k": k})

    def measure(self, results: Results[Settings]) -> Measures:
        weights = ("diag_ratio", "diag_gap", "v_even_odd", "v_spread", *PLACES)
        found = phase_measures(results, "k", STRATEGIES, more=weights)
        more = pl.DataFrame([_order_of_layers(row) for row in results.table.iter_rows(named=True)])
        return found | {"phases": pl.concat([found["phases"], more], how="horizontal")}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        for k, rows in groups(tables["phases"], "k").items():
            sample = f"k={k}"
            about = say.about(f"k{k}-", f"k = {k}: ", needs=[need(len(rows), FEWEST_SEEDS, "seeds")])
            early = [need(settings.steps, EARLY, "steps"), "" if EARLY % settings.look_every == 0 else "no such look"]
            about(
                "second-layer-first",
                f"after {EARLY} steps W is diagonal (its diagonal more than twice the rest) while v is still within "
                "15% of constant.",
                share_where(rows, (pl.col("early_ratio") > 2) & (pl.col("early_spread") < 0.15), sample),
                "share of seeds",
                needs=early,
                at_least=0.5,
                source_value="the second layer aligns first",
            )
            about(
                "one-back",
                f"from step {MIDDLE} on v is largest at place 2, the token before.",
                share_where(rows, pl.col("second_largest"), sample),
                "share of seeds",
                needs=[need(settings.steps, MIDDLE, "steps")],
                at_least=0.5,
                source_value="v_2 dominates (Lemma E.1)",
            )
            about(
                "even-odd",
                f"at step {LATE} v_2 > v_4 > v_6 > every odd v_j, j ≤ 7.",
                share_where(rows, pl.col("even_over_odd"), sample),
                "share of seeds",
                needs=[need(settings.steps, LATE, "steps")],
                at_least=0.5,
                source_value="an even/odd pattern in v",
            )
            about(
                "bigram",
                "in the end the bigram strategy is the nearest.",
                share_where(rows, pl.col("last_phase") == "bigram", sample),
                "share of seeds",
                needs=[need(settings.steps, LATE, "steps")],
                at_least=0.5,
                source_value="reaches bigrams",
            )
            about(
                "little-plateau",
                "the minimal model spends less than half of its training near the unigram strategy.",
                median((rows["plateau"] / rows["horizon"]).to_numpy(), lowest=0.0, sample=sample),
                "median share of the run that is nearest to unigram",
                needs=[need(settings.steps, LATE, "steps")],
                below=0.5,
                source_value="little or no time at unigram",
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        by_k, ks = groups(tables["curves"], "k"), tables.settings.ks
        chart = self.chart(
            "minimal",
            "The minimal model",
            headline="The minimal model: loss, distances, and its weights",
            rows=3,
            columns=len(ks),
            width=5.2 * len(ks),
            height=8.6,
        )
        caption = draw_phases(chart, by_k, {k: f"k = {k}" for k in ks}, STRATEGIES)
        for k in ks:
            panel = chart.panel(x="training sequences", y="v_j (median over seeds)")
            middle = by_k[k].group_by("time", maintain_order=True).agg(pl.col(list(PLACES)).median()).sort("time")
            for place, name in enumerate(PLACES[:6]):
                style = "-" if place % 2 else ":"  # even places, counted from 1, are full lines
                panel.line(middle["time"], middle[name], f"j = {place + 1}", style=style, key="legend")
        yield chart.figure(
            f"{caption} Below: the first six entries of v: place 1 is the token itself, place 2 the one before, even "
            "places drawn full.",
            tables["curves"],
        )


def _order_of_layers(row: dict[str, object]) -> dict[str, float | bool]:
    """What the claims ask of W and v, at the looks nearest below the steps asked for."""
    curve = curve_of(row)
    step = np.asarray(curve["step"])
    v = np.stack([curve[name] for name in PLACES if name in curve])
    at = {when: int(np.flatnonzero(step <= when)[-1]) for when in (EARLY, MIDDLE, LATE)}
    late = v[:, at[LATE]]
    odd = late[[j for j in (0, 2, 4, 6) if j < len(late)]]
    return {
        "early_ratio": float(curve["diag_ratio"][at[EARLY]]),
        "early_spread": float(curve["v_spread"][at[EARLY]]),
        "second_largest": bool(np.all(np.argmax(v[:, step >= MIDDLE], axis=0) == 1)),
        "even_over_odd": bool(len(late) >= 6 and late[1] > late[3] > late[5] > odd.max()),
    }
