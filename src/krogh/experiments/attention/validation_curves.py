"""Figure 4.3 left: validation curves of a 3-sparse conjunction with enough and with too few samples; and their gap.

For every replicate (a data set) the best of several restarts is shown. Above the threshold of Figure 4.2 the network
generalises, below it most overfit, although the training sample is always learned. The trained weights' norms are then
inserted in the generalisation bound of chapter 4: finite, and far above 1.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, stack
from krogh.engine.trial import DATA
from krogh.errors import require, require_integer
from krogh.lab import Claim, Experiment, Figure, Results, claim, experiment, figures, setting
from krogh.lab.statistics import Interval, percentile_interval, proportion
from krogh.models.sparse_transformer import MATRICES, SparseTransformer
from krogh.probes import Error
from krogh.tasks.sparse_boolean import sparse_and
from krogh.theory.trained_norms import trained_gap, trained_norms
from krogh.training import Adam, Stopping, Training
from krogh.training.losses import logistic
from krogh.training.regimes import FullBatch
from krogh.values import replaced

SOURCE = "dissertation, Figure 4.3 left and §A.3.1"
BOUND_SOURCE = "dissertation, Theorem A.4 with Lemma A.12"
SUCCESS = 0.9901  # more than 0.99 of 10^4 validation examples
FEWEST = 8  # replicates that a verdict needs
OPTIMISER = Adam(1e-3, decay=1e-4, clip=1.0, decayed=MATRICES)


@dataclass(frozen=True)
class Settings:
    n: int = setting(300, "bits of context, the source's T")
    s: int = setting(3, "relevant bits")
    sizes: tuple[int, ...] = setting((200, 50), "training samples m, above and below the threshold")
    replicates: int = setting(40, "data sets per sample size")
    restarts: int = setting(5, "runs per data set, of which the best is shown")
    budget: int = setting(1000, "full-batch steps of a run")
    validation: int = setting(10_000, "validation examples")
    embedding: int = setting(64, "embedding dimension")
    heads: int = setting(16, "attention heads")
    embedding_dropout: float = setting(0.1, "dropout on embeddings; without it training is several times faster")


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
        sizes = settings.sizes
        require(len(set(sizes)) == len(sizes) >= 2, f"sizes must be at least two different m; got sizes={sizes}")
        for name in ("replicates", "restarts"):
            require_integer(name, getattr(settings, name), 1)
        task = sparse_and(settings.n, settings.s, unique=True)
        for m in sizes:
            task.check_sample(m)
        model = SparseTransformer(settings.embedding, settings.heads, embedding_dropout=settings.embedding_dropout)
        stopping = Stopping(settings.budget, SUCCESS, validation=settings.validation, early=False)
        first = Trial(
            task, model, Training(OPTIMISER, FullBatch(sizes[0]), stopping, "logistic"), init_seed=0, probes=(Error(),)
        )
        runs = []
        for m in sizes:
            trial = replaced(first, "training.regime.m", m)
            for number in range(settings.replicates * settings.restarts):
                # No two replicates begin with the same weights: they would not be independent.
                runs.append(_seeded(trial, number // settings.restarts, number))
        return stack(runs)

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
                f"{runs['train_loss'].median():.1e} at the end, dropout off.",
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
                "The bound with the trained weights' norms is finite, and so large that it promises nothing.",
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


def _seeded(trial: Trial, seed: int, init_seed: int) -> Trial:
    """The trial with other seeds, without checking the rest of it again."""
    given = tuple(np.asarray(number, np.uint32) for number in (seed, init_seed))
    return eqx.tree_at(lambda old: (old.seed, old.init_seed), trial, given)


# --- what is measured -----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def runs_of(results: Results[Settings]) -> pl.DataFrame:
    """One row per run: its accuracies, and for the best run of each replicate (`chosen`) gap, norms and bounds."""
    settings = results.settings
    (cohort,) = ValidationCurves().trials(settings)
    fitted, ids = cohort.fitted(), cohort.ids()
    place = {int(identity): position for position, identity in enumerate(ids)}
    table = results.table.select(
        "id",
        "seed",
        "init_seed",
        pl.col("training.regime.m").alias("m"),
        pl.col("convergence_time").is_not_null().alias("passed"),
        pl.col("accuracy").fill_nan(0.0).cast(pl.Float64).alias("final_accuracy"),
        (1 - pl.col("curve.error").list.eval(pl.element().fill_nan(1.0)).list.min())
        .cast(pl.Float64)
        .alias("best_accuracy"),
    )
    fits = [training_fit(fitted[place[identity]], results.weights(identity)) for identity in table["id"].to_list()]
    ranked = ["passed", "best_accuracy", "final_accuracy"]
    table = table.with_columns(
        train_accuracy=pl.Series([right for right, _ in fits]), train_loss=pl.Series([loss for _, loss in fits])
    )
    best = table.sort(ranked, descending=True, maintain_order=True).group_by("m", "seed", maintain_order=True).first()
    bounds = [_bounds(results.weights(row["id"]), row["m"], settings) for row in best.iter_rows(named=True)]
    best = pl.concat([best.select("id"), pl.DataFrame(bounds)], how="horizontal").with_columns(chosen=pl.lit(True))
    joined = table.join(best, on="id", how="left", maintain_order="left")
    return joined.with_columns(
        gap=pl.col("train_accuracy") - pl.col("final_accuracy"),
        best_gap=pl.col("train_accuracy") - pl.col("best_accuracy"),
        chosen=pl.col("chosen").fill_null(False),
    )


def training_fit(trial: Trial, weights: dict[str, np.ndarray]) -> tuple[float, float]:
    """Accuracy and mean loss of trained weights on the trial's own training sample, dropout off."""
    right, loss = _fit(trial, {name: jnp.asarray(array) for name, array in weights.items()})
    return float(right), float(loss)


@jax.jit
def _fit(trial: Trial, params: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
    regime = trial.training.regime
    raw, weight = regime.batch(trial.task, regime.sample(trial.task, trial.key(DATA)), None)
    assert weight is not None
    x, y, truth = trial.task.decode(raw)
    prediction = trial.model.predict(params, x)
    # A sum of m shares 1/m may miss 1 in its last bit: count, and divide once.
    wrong = jnp.sum(trial.task.error(prediction, truth) * (weight > 0).astype(jnp.float32))
    return 1.0 - wrong * jnp.max(weight), jnp.sum(logistic(prediction, y) * weight)


def _bounds(weights: dict[str, np.ndarray], m: int, settings: Settings) -> dict[str, float]:
    norms = trained_norms(weights, settings.heads)
    largest = {name: float(getattr(norms, name).max()) for name in ("value", "value_21", "query_key", "query_key_21")}
    named = largest | {name: getattr(norms, name) for name in ("token_norm", "query_norm", "readout")}
    return named | trained_gap(norms, settings.n + 1, m)


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
        f"end is {runs_of(results)['train_accuracy'].mean():.2%} on average over all runs."
    )
    return Figure(
        "validation-curves", "Validation curves above and below the threshold", caption, fig, pl.concat(tables)
    )


def _gap_figure(results: Results[Settings]) -> Figure:
    settings, best = results.settings, runs_of(results).filter("chosen")
    sizes = sorted(settings.sizes)
    fig, ax = figures.new_figure("The bound falls with m like the gap, orders of magnitude above it", height=4.2)
    floor = 0.5 / settings.validation
    jitter = np.random.default_rng(0).uniform(-0.03, 0.03, len(best))
    ax.plot(
        best["m"] * np.exp(jitter),
        np.maximum(best["gap"].to_numpy(), floor),
        linestyle="none",
        marker="o",
        markersize=3,
        alpha=0.4,
        color=figures.BLUE,
    )
    means = [float(best.filter(m=m)["gap"].mean() or 0.0) for m in sizes]
    ax.plot(sizes, np.maximum(means, floor), color=figures.BLUE, marker="s", label="measured, mean over data sets")
    grid = np.geomspace(0.8 * sizes[0], 1.25 * sizes[-1], 50)
    rate = np.sqrt(np.log(settings.n) / grid)
    ax.plot(grid, rate, color=figures.INK, linestyle=":", label="√(log T / m)")
    for name, color, label in (
        ("gap_shape", figures.ORANGE, "bound, constants of the cover hidden"),
        ("gap_explicit", figures.VERMILLION, "bound, every constant"),
    ):
        low, middle, high = ([float(best.filter(m=m)[name].quantile(q) or 0.0) for m in sizes] for q in (0.0, 0.5, 1.0))
        figures.interval_band(ax, sizes, low, middle, high, color=color, label=label)
    ax.axhline(1.0, color=figures.MUTED, linewidth=0.9)
    ax.annotate("says nothing above 1", (0.01, 1.0), xycoords=ax.get_yaxis_transform(), va="bottom", fontsize=8.5)
    figures.log_axis_labels(ax, "x", values=sizes)
    ax.set_yscale("log")
    ax.set_xlabel("training samples m")
    ax.set_ylabel("accuracy gap, training − validation")
    figures.legend(ax, loc="center right", bbox_to_anchor=(1.0, 0.62))
    figures.source_note(fig, BOUND_SOURCE)
    medians = {
        name: float(best[name].median() or 0.0) for name in ("value_21", "query_key_21", "token_norm", "readout")
    }
    caption = (
        f"Gap at the end of training (dots: best runs of the data sets; a gap of 0 or less is drawn at {floor:.1g}), "
        f"beside the bound with the trained norms, range over data sets. Medians: largest ‖W_V‖₂,₁ of a head "
        f"{medians['value_21']:.3g}, largest ‖W_QK‖₂,₁ {medians['query_key_21']:.3g}, token norm "
        f"{medians['token_norm']:.3g}, read-out norm {medians['readout']:.3g}."
    )
    return Figure("generalisation-gap", "The generalisation gap and its bound", caption, fig, best)
