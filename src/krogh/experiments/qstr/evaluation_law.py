"""What the law of the test prompts changes in Figure 1(a) of the qSTR paper.

The caption says 1STR, where every position names its own token. The public code trains on such prompts but draws the
test set from simple-1STR, where all positions name the same one. Here every run is judged by both: the two trials of a
seed have the same weights, the same training prompts and hence the same course, and differ in the test set alone, so
their sample complexities are compared in pairs. The published table must be held against the public code's law.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require_integer
from krogh.experiments.qstr.common import (
    ARCHITECTURES,
    FEWEST_RUNS,
    PANELS,
    SOURCE_ARCHITECTURES,
    SOURCE_DIMENSION,
    SOURCE_HIDDEN,
    Curve,
    budget_steps,
    check_choices,
    check_lengths,
    curve,
    in_order_of_cost,
    online_training,
    published_samples,
    rate_of,
    retrieval,
)
from krogh.experiments.qstr.drawing import draw_curve, missed
from krogh.lab import Claim, Experiment, Figure, Results, claim, experiment, figures, setting
from krogh.lab.measured import Measured
from krogh.lab.statistics import Interval, percentile_interval

SOURCE = "qSTR paper, Figure 1(a) and the public code"
PANEL = PANELS["general"]
LAWS = ("matched", "shared")
CLOSE = {"transformer": 1.5, "feedforward": 1.6}  # factors within which the published table counts as met


@dataclass(frozen=True)
class Settings:
    architectures: tuple[str, ...] = setting(SOURCE_ARCHITECTURES, "whose runs are judged by both laws")
    lengths: tuple[int, ...] = setting((2, 4, 6, 8, 10, 12), "sequence lengths N")
    seeds: int = setting(5, "runs per point")
    hidden: int = setting(SOURCE_HIDDEN, "GRU units per direction")
    dimension: int = setting(SOURCE_DIMENSION, "token dimension d")
    threshold: float = setting(PANEL.threshold, "test error to reach")
    check_every: int = setting(10, "steps between two checks")
    validation: int = setting(5_000, "test prompts")
    budget: int = setting(1_000_000, "samples after which a run has not reached the threshold")
    batch_size: int = setting(64, "fresh prompts per step")
    code_seed: int = setting(0, "which table of positional codes")


@experiment("qstr/evaluation-law")
class EvaluationLaw(Experiment[Settings]):
    """Sample complexities of the same runs, judged on 1STR and on simple-1STR prompts."""

    title = "Judging on simpler prompts than it trained on flatters the feedforward network"
    question = "What does the public code's choice to judge 1STR on simple-1STR prompts change, and for whom?"
    source = SOURCE
    scales = {
        "smoke": Settings(architectures=("feedforward",), lengths=(4,), seeds=2, validation=1_000, budget=32_000),
        "laptop": Settings(
            architectures=("transformer", "feedforward"), lengths=(4, 8, 12), seeds=3, hidden=64, validation=1_000
        ),
        "paper": Settings(),
    }
    notes = (
        "The reference measured both laws on the same feedforward runs: the matched law costs a factor 1.2 at N = 4 "
        "and 6 and 1.4–1.9 at N of 8 or more; 1.2 is asked for here. It calls the Transformer's difference not "
        "visible, which is read as a factor between 1/1.3 and 1.3, what its single runs showed.",
        "The published table is judged at every N by the worst of them. The reference gives no criterion for the "
        "recurrent network, which is drawn beside its published values only.",
        "At laptop scale the recurrent network is left out (any smaller one than the source's needs more samples, "
        "whatever the law), N = 4, 8, 12, three runs and 1,000 test prompts.",
    )

    def trials(self, settings: Settings) -> list[Trials]:
        check_choices("architectures", settings.architectures, ARCHITECTURES)
        check_lengths("lengths", settings.lengths)
        require_integer("seeds", settings.seeds, 1)
        cohorts = []
        for name in in_order_of_cost(settings.architectures):
            model = ARCHITECTURES[name].build(settings.hidden)
            training = online_training(
                settings.threshold,
                settings.check_every,
                settings.budget,
                settings.validation,
                settings.batch_size,
                rate_of(name, settings.hidden),
            )
            for length in sorted(settings.lengths, reverse=True):
                for law in LAWS:
                    task = retrieval(length, settings.dimension, PANEL.index_law, law, settings.code_seed)
                    cohorts += sweep(Trial(task, model, training), seed=range(settings.seeds))
        return cohorts

    def claims(self, results: Results[Settings]) -> list[Claim]:
        curves, length = curves_of(results), max(results.settings.lengths)
        shared: dict[str, Any] = {"source": SOURCE, **_enough(results.settings)}
        found = []
        for name in curves:
            matched, simple = (curves[name][law].measured() for law in LAWS)
            change = paired_ratio(matched, simple, length)
            asked: list[tuple[str, str, dict[str, float]]] = {
                "feedforward": [("costs", "needs at least 1.2 times as many samples", {"at_least": 1.2})],
                "transformer": [
                    ("not-less", "does not need fewer samples by a factor below 1/1.3", {"at_least": 1 / 1.3}),
                    ("not-more", "needs at most 1.3 times as many samples", {"at_most": 1.3}),
                ],
            }.get(name, [])
            for suffix, statement, bound in asked:
                words: dict[str, Any] = {**bound, **shared}
                found.append(
                    claim(
                        f"{name}-{suffix}",
                        f"At N = {length} the {ARCHITECTURES[name].label} judged on 1STR prompts {statement} as when "
                        f"judged on simple-1STR prompts.",
                        statistic=f"n(matched) / n(shared) at N = {length}, runs in pairs",
                        interval=change,
                        trials=_trials(curves[name]),
                        source_value=_reference(name),
                        **words,
                    )
                )
            if name in CLOSE:
                found.append(
                    claim(
                        f"{name}-as-published",
                        f"Judged as in the public code, the {ARCHITECTURES[name].label}'s mean samples are within a "
                        f"factor of {CLOSE[name]:g} of the published ones at every N.",
                        statistic="largest factor between n and the published n, either way",
                        interval=worst_factor(simple, published_samples(PANEL.index_law, name)),
                        trials=_trials(curves[name]) // 2,
                        at_most=CLOSE[name],
                        source_value="1 (the published means)",
                        **shared,
                    )
                )
        return found

    def figures(self, results: Results[Settings]) -> list[Figure]:
        settings, curves = results.settings, curves_of(results)
        fig, axes = figures.new_figure(
            "Samples to the threshold, judged on 1STR and on simple-1STR prompts",
            width=3.6 * len(curves) + 1.2,
            height=3.9,
            ncols=len(curves),
            sharey=True,
        )
        rows = []
        for ax, (name, by_law) in zip([axes] if len(curves) == 1 else list(axes), curves.items(), strict=True):
            known, color = published_samples(PANEL.index_law, name), ARCHITECTURES[name].color
            draw_curve(ax, by_law["matched"], color=color, label="1STR")
            draw_curve(ax, by_law["shared"], color=figures.MUTED, label="simple-1STR", linestyle="--", published=known)
            figures.log_axis_labels(ax, "x", values=sorted(settings.lengths))
            figures.log_axis_labels(ax, "y")
            figures.panel_title(ax, ARCHITECTURES[name].label)
            ax.set_xlabel("sequence length N")
            for law, length in ((law, length) for law in LAWS for length in sorted(settings.lengths)):
                summary, mean = by_law[law].summary(length), by_law[law].mean(length)
                rows.append(
                    (name, law, length, summary.runs, summary.not_reached, summary.mean, mean.low, mean.high,
                     summary.sd, known.get(length) if law == "shared" else None)
                )  # fmt: skip
        fig.axes[0].set_ylabel(f"samples n to test error {settings.threshold:g}")
        figures.source_note(fig, SOURCE)
        columns = ["architecture", "judged_on", "N", "runs", "not_reached", "mean", "low", "high", "sd", "published"]
        kinds = {"mean": pl.Float64, "sd": pl.Float64, "published": pl.Float64}
        data = pl.DataFrame(rows, schema=columns, schema_overrides=kinds, orient="row")
        every = [one for by_law in curves.values() for one in by_law.values()]
        caption = (
            f"All are trained on 1STR; each of {settings.seeds} runs is judged on prompts of 1STR (in colour) and, as "
            f"in the public code, of simple-1STR (grey). Means with 95% bootstrap intervals, thin lines are runs, open "
            f"markers the published means. Within {settings.budget:,} samples {missed(every)}."
        )
        return [Figure("evaluation-law", self.title, caption, fig, data)]


def curves_of(results: Results[Settings]) -> dict[str, dict[str, Curve]]:
    """Architecture → law of the test prompts → sample complexities."""
    settings = results.settings
    budget = budget_steps(settings.budget, settings.batch_size, settings.check_every)
    return {
        name: {
            law: curve(
                results.table,
                name,
                settings.lengths,
                index_law=PANEL.index_law,
                evaluation=law,
                budget=budget,
                batch_size=settings.batch_size,
            )
            for law in LAWS
        }
        for name in settings.architectures
    }


def paired_ratio(over: Measured, under: Measured, x: float) -> Interval:
    """over(x)/under(x) of measurements of the same runs: resamples made alike drew the same runs in both."""
    place = over.place(x)
    with np.errstate(invalid="ignore"):
        value = float(over.y[place] / under.y[place])
        least = over.draws_least[:, place] / under.draws[:, place]
        most = over.draws[:, place] / under.draws_least[:, place]
    ends = [percentile_interval(value, draws, 0.95, "paired bootstrap", lowest=0.0) for draws in (least, most)]
    return Interval(value, ends[0].low, ends[1].high, 0.95, ends[0].method)


def worst_factor(measured: Measured, known: dict[int, float]) -> Interval:
    """max over N of max(n/known, known/n), at the N that both have; unbounded where one was not reached."""
    places = [place for place, x in enumerate(measured.x) if int(x) in known]
    if not places:
        return Interval(float("nan"), 1.0, float("inf"), 0.95, "no published N")
    given = np.array([known[int(measured.x[place])] for place in places])

    def factor(samples: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.maximum(samples / given, given / samples).max(axis=-1)

    # A run that was not reached needs at least the budget, which is above every published value.
    least, most = factor(measured.draws_least[:, places]), factor(measured.draws[:, places])
    value = float(factor(measured.y[places]))
    ends = [percentile_interval(value, draws, 0.95, "percentile bootstrap", lowest=1.0) for draws in (least, most)]
    return Interval(value, ends[0].low, ends[1].high, 0.95, ends[0].method)


def _enough(settings: Settings) -> dict[str, Any]:
    if settings.seeds < FEWEST_RUNS:
        too_small = f"{settings.seeds} runs per point; the means of a verdict need {FEWEST_RUNS}"
    elif settings.dimension != SOURCE_DIMENSION or settings.threshold != PANEL.threshold:
        too_small = f"the source's values are for d = {SOURCE_DIMENSION} and a test error of {PANEL.threshold:g}"
    elif max(settings.lengths) < PANEL.largest:
        too_small = f"the source is judged at N = {PANEL.largest}; the largest here is {max(settings.lengths)}"
    else:
        too_small = ""
    return {"enough": not too_small, "too_small": too_small}


def _trials(by_law: dict[str, Curve]) -> int:
    return sum(runs.size for one in by_law.values() for runs in one.runs.values())


def _reference(name: str) -> str:
    return {"feedforward": "1.4–1.9 at N = 8 and 12 (two runs)", "transformer": "0.8–0.9 at N = 4 and 6 (one run)"}[
        name
    ]
