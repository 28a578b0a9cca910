"""Figure 4.3 left: validation curves of a 3-sparse conjunction with enough and with too few samples; and their gap.

For every replicate (a data set) the best of several restarts is shown. Above the threshold of Figure 4.2 the network
generalises, below it most overfit, although the training sample is always learned. The trained weights' norms are then
inserted in the generalisation bound of chapter 4: finite, and far above 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trials
from krogh.experiments.attention.validation_runs import Settings, runs_of, trials_of, typical_bound
from krogh.lab import Claim, Experiment, Figure, Results, claim, experiment, figures
from krogh.lab.statistics import Interval, percentile_interval, proportion

SOURCE = "dissertation, Figure 4.3 left and §A.3.1"
BOUND_SOURCE = "dissertation, Theorem A.4 with Lemma A.12"
FEWEST = 8  # replicates that a verdict needs


@experiment("attention/validation-curves")
class ValidationCurves(Experiment[Settings]):
    """Validation curves above and below the sample threshold, and the generalisation gap beside its bound."""

    title = "With too few samples the Transformer overfits; with enough it finds the three bits"
    question = "Does a Transformer that fits its training sample generalise, above and below the sample threshold?"
    source = SOURCE
    scales = {
        "smoke": Settings(
            n=20,
            sizes=(60, 20),
            replicates=2,
            restarts=2,
            budget=60,
            validation=200,
            embedding=16,
            heads=4,
            embedding_dropout=0.0,
        ),
        "laptop": Settings(
            n=100, sizes=(100, 30), replicates=20, restarts=2, budget=600, validation=1000, embedding_dropout=0.0
        ),
        "paper": Settings(),
    }
    notes = (
        "The index set is the first s positions: positions are exchangeable when the embeddings are drawn.",
        "A curve is measured on the first 1024 validation examples; whether it passed 0.99, and where it ends, on all.",
        "The bound is that of the attention heads with the linear read-out; the source's class has no residual "
        "connection, MLP or trained positions. Its loss is the ramp loss, which is at least the share of mistakes.",
    )
    keep_weights = True

    def trials(self, settings: Settings) -> list[Trials]:
        return trials_of(settings)

    def claims(self, results: Results[Settings]) -> list[Claim]:
        settings, runs = results.settings, runs_of(results)
        best = runs.filter("chosen")
        many, few = max(settings.sizes), min(settings.sizes)
        replicates = settings.replicates
        shared: dict[str, Any] = {
            "enough": replicates >= FEWEST,
            "too_small": f"{replicates} replicates; a verdict needs {FEWEST}",
        }
        gaps = {m: best.filter(m=m)["gap"].to_numpy() for m in (many, few)}
        rates = {m: float(gap.mean()) / math.sqrt(math.log(settings.n) / m) for m, gap in gaps.items()}
        bounds = best["gap_explicit"].to_numpy()
        return [
            claim(
                f"generalises-m{many}",
                f"With m = {many} samples of T = {settings.n} bits most data sets are learned.",
                source=SOURCE,
                statistic=f"share of replicates whose best of {settings.restarts} runs passes 0.99 validation accuracy",
                interval=_succeeded(best, many),
                trials=replicates,
                at_least=0.8,
                source_value="all curves of m = 200 reach 100%" if many == 200 else "m = 200, T = 300: all",
                **shared,
            ),
            claim(
                f"overfits-m{few}",
                f"With m = {few} samples most runs overfit.",
                source=SOURCE,
                statistic=f"share of replicates whose best of {settings.restarts} runs passes 0.99 validation accuracy",
                interval=_succeeded(best, few),
                trials=replicates,
                at_most=0.5,
                source_value="overfits at m = 50, T = 300; wide spread",
                **shared,
            ),
            claim(
                "fits-its-sample",
                "Every run learns its training sample, whether or not it generalises; median training loss "
                f"{np.median(runs['train_loss'].to_numpy()):.1e} at the end, dropout off.",
                source=SOURCE,
                statistic="smallest training accuracy at the end, over all runs",
                interval=_all_of(runs["train_accuracy"].min()),
                trials=len(runs),
                at_least=1.0,
                source_value="100% in all runs, training loss below 1e-4",
                **shared,
            ),
            claim(
                "gap-shrinks",
                "More samples, a smaller gap between training and validation accuracy: in units of √(log T / m) it is "
                + ", ".join(f"{rate:.2f} at m = {m}" for m, rate in rates.items())
                + ".",
                source=BOUND_SOURCE,
                statistic=f"mean final gap at m = {few} minus at m = {many}",
                interval=_difference(gaps[few], gaps[many]),
                trials=len(best),
                above=0.0,
                source_value="gap ≲ √(log T / m)",
                **shared,
            ),
            claim(
                "bound-is-vacuous",
                "The bound with the trained weights' norms is finite, and so large that it promises nothing: it would "
                f"take m = {typical_bound(results)[1]:.1e} samples for it to fall to 1.",
                source=BOUND_SOURCE,
                statistic="gap promised by the bound with every constant (range over replicates)",
                interval=Interval(float(np.median(bounds)), float(bounds.min()), float(bounds.max()), 1.0, "range"),
                trials=len(best),
                at_least=1.0,
                source_value="for scaling with T, not for numbers",
                enough=bool(shared["enough"] and np.isfinite(bounds).all()),
                too_small=shared["too_small"] if not shared["enough"] else "a bound is infinite",
            ),
        ]

    def figures(self, results: Results[Settings]) -> list[Figure]:
        return [_curves_figure(results), _gap_figure(results)]


def _succeeded(best: pl.DataFrame, m: int) -> Interval:
    passed = best.filter(m=m)["passed"]
    return proportion(int(passed.sum()), len(passed))


def _all_of(value: Any) -> Interval:
    """A number about exactly these runs, nothing of which was sampled."""
    return Interval(float(value), float(value), float(value), 1.0, "all runs")


def _difference(more: np.ndarray, less: np.ndarray, resamples: int = 2000) -> Interval:
    """Difference of two means with its interval over resampled replicates."""
    rng = np.random.default_rng(0)
    means = [group[rng.integers(group.size, size=(resamples, group.size))].mean(axis=1) for group in (more, less)]
    value = float(more.mean() - less.mean())
    return percentile_interval(value, means[0] - means[1], 0.95, "percentile bootstrap")


# --- how it looks ---------------------------------------------------------------------------------------------


def _curves_figure(results: Results[Settings]) -> Figure:
    settings, best = results.settings, runs_of(results).filter("chosen")
    curves = results.table.select("id", "curve.step", "curve.error")
    shown = best.join(curves, on="id", maintain_order="left")
    fig, ax = figures.new_figure("Enough samples generalise, too few overfit", width=6.4, height=4.0)
    tables = []
    for color, m in zip(figures.PALETTE, sorted(settings.sizes, reverse=True), strict=False):
        own = shown.filter(m=m)
        lines = 1 - np.array(own["curve.error"].to_list(), float)
        steps = np.array(own["curve.step"][0])
        ax.plot(steps, lines.T, color=color, linewidth=0.6, alpha=0.45)
        ax.plot(steps, np.median(lines, axis=0), color=color, linewidth=2.2)
        passed = f"m = {m}: {int(own['passed'].sum())} of {len(own)} pass 0.99"
        figures.direct_label(ax, [steps[-1]], [float(np.median(lines[:, -1]))], passed, color=color)
        for seed, line in zip(own["seed"], lines, strict=True):
            tables.append(pl.DataFrame({"m": m, "replicate": int(seed), "step": steps, "accuracy": line}))
    ax.axhline(0.99, color=figures.MUTED, linewidth=0.9, linestyle=":")
    ax.set_xlabel("training iterations (full batch)")
    ax.set_ylabel("validation accuracy")
    ax.set_ylim(None, 1.02)
    figures.source_note(fig, SOURCE)
    caption = (
        f"Validation accuracy of a one-layer Transformer on {settings.s}-sparse conjunctions of T = {settings.n} bits, "
        f"the best of {settings.restarts} runs for each of {settings.replicates} data sets (thin) and the median over "
        "data sets (thick). A run passes when its accuracy exceeds 0.99 at some evaluation. Training accuracy at the "
        f"end is {runs_of(results)['train_accuracy'].to_numpy().mean():.2%} on average over all runs."
    )
    return Figure(
        "validation-curves", "Validation curves above and below the threshold", caption, fig, pl.concat(tables)
    )


def _gap_figure(results: Results[Settings]) -> Figure:
    settings, best = results.settings, runs_of(results).filter("chosen")
    sizes, floor = sorted(settings.sizes), 0.5 / settings.validation
    curve, needed = typical_bound(results)
    fig, ax = figures.new_figure("The gap is small long before the bound says anything", width=6.4, height=4.2)
    places = best["m"].to_numpy() * np.exp(np.random.default_rng(0).uniform(-0.2, 0.2, len(best)))
    gaps = np.maximum(best["gap"].to_numpy(), floor)
    ax.plot(places, gaps, linestyle="none", marker="o", markersize=3, alpha=0.4, color=figures.BLUE)
    means = [max(float(best.filter(m=m)["gap"].to_numpy().mean()), floor) for m in sizes]
    ax.plot(sizes, means, color=figures.BLUE, marker="s", label="measured, mean over data sets")
    m = curve["m"].to_numpy()
    ax.plot(m, np.sqrt(np.log(settings.n) / m), color=figures.INK, linestyle=":", label="√(log T / m)")
    ax.plot(m, curve["gap_shape"], color=figures.ORANGE, label="bound, constants of the cover hidden")
    ax.plot(m, curve["gap_explicit"], color=figures.VERMILLION, label="bound, every constant")
    ax.axhline(1.0, color=figures.MUTED, linewidth=0.9)
    place = ax.get_yaxis_transform()
    ax.annotate("a bound above 1 says nothing", (0.3, 1.15), xycoords=place, va="bottom", fontsize=8.5)
    figures.log_axis_labels(ax, "both")
    ax.set_ylim(0.4 * floor, None)
    ax.set_xlabel("training samples m")
    ax.set_ylabel("accuracy gap, training − validation")
    figures.legend(ax, loc="lower right")
    figures.source_note(fig, BOUND_SOURCE)
    names = ("value_21", "query_key_21", "token_norm", "readout")
    medians = {name: float(np.median(best[name].to_numpy())) for name in names}
    caption = (
        f"Gap at the end of training (dots: best runs of the data sets; a gap of 0 or less is drawn at {floor:.1g}), "
        f"and the bound with the norms of a typical trained network, T = {settings.n}: it falls to 1 at "
        f"m = {needed:.1e}. Medians over networks: largest ‖W_V‖₂,₁ of a head {medians['value_21']:.3g}, largest "
        f"‖W_QK‖₂,₁ {medians['query_key_21']:.3g}, token norm {medians['token_norm']:.3g}, read-out norm "
        f"{medians['readout']:.3g}."
    )
    return Figure("generalisation-gap", "The generalisation gap and its bound", caption, fig, best)
