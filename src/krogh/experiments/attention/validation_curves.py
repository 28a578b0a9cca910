"""Figure 4.3 left: validation curves of a 3-sparse conjunction with enough and with too few samples; and their gap.

For every replicate (a data set) the best of several restarts is shown. Above the threshold of Figure 4.2 the network
generalises, below it most overfit, although the training sample is always learned. The trained weights' norms are then
inserted in the generalisation bound of chapter 4: finite, and far above 1.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, stack
from krogh.engine.trial import DATA
from krogh.experiments.attention.common import SIZE, SMALL_NETWORK, NetworkSettings, source_training
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, need, setting
from krogh.lab.estimate import least, mean, share_of
from krogh.lab.experiment import Measures
from krogh.lab.results import Weights
from krogh.models import SparseTransformer
from krogh.probes import Error
from krogh.tasks import sparse_and
from krogh.theory.attention.generalisation import TrainedNorms, samples_promised, trained_gap, trained_norms
from krogh.training import FullBatch
from krogh.training.losses import logistic
from krogh.values import replaced

BOUND_SOURCE = "dissertation, Theorem A.4 with Lemma A.12"
BOUND_POINTS = 40
FEWEST = 8  # replicates that a verdict needs
NORMS = [field.name for field in dataclasses.fields(TrainedNorms)]


@dataclass(frozen=True)
class Settings(NetworkSettings):
    n: int = setting(300, "bits of context, the source's T", least=2)
    sizes: tuple[int, ...] = setting(
        (200, 50), "training samples m, above and below the threshold", distinct=True, fewest=2, least=1
    )
    replicates: int = setting(40, "data sets per sample size", least=1)
    restarts: int = setting(5, "runs per data set, of which the best is shown", least=1)
    budget: int = setting(1000, "full-batch steps of a run", least=1)


@experiment("attention/validation-curves")
class ValidationCurves(Experiment[Settings]):
    """Validation curves above and below the sample threshold, and the generalisation gap beside its bound."""

    title = "With too few samples the Transformer overfits; with enough it finds the three bits"
    question = "Does a Transformer that fits its training sample generalise, above and below the sample threshold?"
    source = "dissertation, Figure 4.3 left and §A.3.1"
    scales = {
        "smoke": Settings(n=20, sizes=(60, 20), replicates=2, restarts=2, budget=60, validation=200, **SMALL_NETWORK),
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
        """Every run: sizes, then replicates (data sets), then restarts (weights)."""
        task = sparse_and(settings.n, settings.s, unique=True)
        model = SparseTransformer(settings.embedding, settings.heads, embedding_dropout=settings.embedding_dropout)
        stopping = {"budget": settings.budget, "validation": settings.validation, "early": False}
        runs = []
        for m in settings.sizes:
            task.check_sample(m)
            training = source_training(model, FullBatch(m), **stopping)
            trial = Trial(task, model, training, init_seed=0, probes=(Error(),))
            for number in range(settings.replicates * settings.restarts):
                # No two replicates begin with the same weights: they would not be independent.
                runs.append(_seeded(trial, number // settings.restarts, number))
        return stack(runs)

    def measure(self, results: Results[Settings]) -> Measures:
        return {"runs": lambda: _runs(results)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, runs, best = tables.settings, tables["runs"], best_runs(tables)
        many, few = max(settings.sizes), min(settings.sizes)
        say = say.about(needs=[need(settings.replicates, FEWEST, "replicates")])
        passed = {m: share_of(own["passed"].to_numpy(), sample=f"m={m}") for m, own in best.items()}
        statistic = f"share of replicates whose best of {settings.restarts} runs passes 0.99 validation accuracy"
        say(
            f"generalises-m{many}",
            f"With m = {many} samples of T = {settings.n} bits most data sets are learned.",
            passed[many],
            statistic,
            at_least=0.8,
            source_value="all curves of m = 200 reach 100%" if many == 200 else "m = 200, T = 300: all",
        )
        say(
            f"overfits-m{few}",
            f"With m = {few} samples most runs overfit.",
            passed[few],
            statistic,
            at_most=0.5,
            source_value="overfits at m = 50, T = 300; wide spread",
        )
        say(
            "fits-its-sample",
            "Every run learns its training sample, whether or not it generalises; median training loss "
            f"{np.median(runs['train_loss'].to_numpy()):.1e} at the end, dropout off.",
            least(runs["train_accuracy"]),
            "smallest training accuracy at the end, over all runs",
            at_least=1.0,
            source_value="100% in all runs, training loss below 1e-4",
        )
        gaps = {m: best[m].sort("seed")["gap"].to_numpy() for m in (many, few)}
        rates = {m: float(gap.mean()) / math.sqrt(math.log(settings.n) / m) for m, gap in gaps.items()}
        say = say.about(source=BOUND_SOURCE)
        say(
            "gap-shrinks",
            "More samples, a smaller gap between training and validation accuracy: in units of √(log T / m) it is "
            + ", ".join(f"{rate:.2f} at m = {m}" for m, rate in rates.items())
            + ".",
            mean(gaps[few] - gaps[many], sample="replicates"),
            f"mean final gap at m = {few} minus at m = {many}, replicate by replicate",
            above=0.0,
            source_value="gap ≲ √(log T / m)",
        )
        bounds = np.concatenate([own["gap_explicit"].fill_null(math.inf).to_numpy() for own in best.values()])
        say(
            "bound-is-vacuous",
            f"The bound with the trained weights' norms is finite, and so large that it promises nothing (median "
            f"{np.median(bounds):.3g}): it would take m = {typical_bound(tables)[1]:.1e} samples for it to fall to 1.",
            least(bounds),
            "least gap promised by the bound with every constant, over replicates",
            at_least=1.0,
            source_value="for scaling with T, not for numbers",
            needs=["" if np.isfinite(bounds).all() else "a bound is infinite"],
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        yield self._curves(tables)
        yield self._gaps(tables)

    def _curves(self, tables: Tables[Settings]) -> Figure:
        settings, curves = tables.settings, tables["trials"].select("id", "curve.step", "curve.error")
        chart = self.chart(
            "validation-curves",
            "Validation curves above and below the threshold",
            headline="Enough samples generalise, too few overfit",
        )
        panel, drawn = chart.panel(x="training iterations (full batch)", y="validation accuracy"), []
        for m, best in best_runs(tables).items():
            own, color = best.join(curves, on="id", maintain_order="left"), panel.color()
            lines, steps = 1 - np.array(own["curve.error"].to_list(), float), np.array(own["curve.step"][0])
            panel.ax.plot(steps, lines.T, color=color, linewidth=0.6, alpha=0.45)
            label = f"m = {m}: {int(own['passed'].sum())} of {len(own)} pass 0.99"
            panel.line(steps, np.median(lines, axis=0), label, color=color, style="-", width=2.2)
            for seed, line in zip(own["seed"], lines, strict=True):
                drawn.append(pl.DataFrame({"m": m, "replicate": int(seed), "step": steps, "accuracy": line}))
        panel.ax.axhline(0.99, color=figures.MUTED, linewidth=0.9, linestyle=":")
        panel.axes(ylim=(None, 1.02))
        return chart.figure(
            f"Validation accuracy of a one-layer Transformer on {settings.s}-sparse conjunctions of T = {settings.n} "
            f"bits, the best of {settings.restarts} runs for each of {settings.replicates} data sets (thin) and the "
            "median over data sets (thick). A run passes when its accuracy exceeds 0.99 at some evaluation. Training "
            f"accuracy at the end is {tables['runs']['train_accuracy'].to_numpy().mean():.2%} on average over all "
            "runs.",
            pl.concat(drawn),
        )

    def _gaps(self, tables: Tables[Settings]) -> Figure:
        settings, by_size = tables.settings, best_runs(tables)
        best = pl.concat(by_size.values()).with_columns(pl.col(pl.List(pl.Float64)).list.max())
        floor, (curve, needed) = 0.5 / settings.validation, typical_bound(tables)
        chart = self.chart(
            "generalisation-gap",
            "The generalisation gap and its bound",
            headline="The gap is small long before the bound says anything",
            source=BOUND_SOURCE,
            height=4.2,
        )
        panel = chart.panel(x="training samples m", y="accuracy gap, training − validation")
        places = best["m"].to_numpy() * np.exp(np.random.default_rng(0).uniform(-0.2, 0.2, len(best)))
        panel.dots(places, np.maximum(best["gap"], floor), color=figures.BLUE, markersize=3, alpha=0.4)
        means = {m: max(float(own["gap"].to_numpy().mean()), floor) for m, own in sorted(by_size.items())}
        m = curve["m"].to_numpy()
        for x, y, color, style, label in (
            (list(means), list(means.values()), figures.BLUE, "s-", "measured, mean over data sets"),
            (m, np.sqrt(np.log(settings.n) / m), figures.INK, ":", "√(log T / m)"),
            (m, curve["gap_shape"], figures.ORANGE, "-", "bound, constants of the cover hidden"),
            (m, curve["gap_explicit"], figures.VERMILLION, "-", "bound, every constant"),
        ):
            panel.ax.plot(x, y, style, color=color, label=label)
        panel.ax.axhline(1.0, color=figures.MUTED, linewidth=0.9)
        across = panel.ax.get_yaxis_transform()
        panel.ax.annotate("a bound above 1 says nothing", (0.3, 1.15), xycoords=across, va="bottom", fontsize=8.5)
        panel.axes(log="xy", ylim=(0.4 * floor, None)).legend(loc="lower right")
        middle = best.select(pl.col("value_21", "query_key_21", "token_norm", "readout").median()).row(0, named=True)
        return chart.figure(
            "Gap at the end of training (dots: best runs of the data sets; a gap of 0 or less is drawn at "
            f"{floor:.1g}), and the bound with the norms of a typical trained network, T = {settings.n}: it falls to 1 "
            f"at m = {needed:.1e}. Medians over networks: largest ‖W_V‖₂,₁ of a head {middle['value_21']:.3g}, largest "
            f"‖W_QK‖₂,₁ {middle['query_key_21']:.3g}, token norm {middle['token_norm']:.3g}, read-out norm "
            f"{middle['readout']:.3g}.",
            best,
        )


def _seeded(trial: Trial, seed: int, init_seed: int) -> Trial:
    """The trial with other seeds, without checking the rest of it again."""
    seeds = tuple(np.asarray(number, np.uint32) for number in (seed, init_seed))
    return eqx.tree_at(lambda old: (old.seed, old.init_seed), trial, seeds)


def _runs(results: Results[Settings]) -> pl.DataFrame:
    """One row per run: its accuracies, and for the best run of each replicate (`chosen`) norms and bounds.

    A run that diverged has learned nothing, and has no norms.
    """
    settings = results.settings
    error = pl.col("curve.error").list.eval(pl.element().fill_nan(1.0))
    runs = results.table.select(
        "id",
        "seed",
        "init_seed",
        m=SIZE,
        passed=pl.col("convergence_time").is_not_null(),
        final_accuracy=pl.col("accuracy").fill_nan(0.0).cast(pl.Float64),
        best_accuracy=(1 - error.list.min()).cast(pl.Float64),
    )
    ranked = runs.sort("passed", "best_accuracy", "final_accuracy", descending=True, maintain_order=True)
    best = set(ranked.group_by("m", "seed").first()["id"])
    fits: list[dict[str, Any]] = []
    for network in results.networks():
        identity, m = network.row["id"], network.row[SIZE]
        row: dict[str, Any] = {"id": identity, "train_accuracy": 0.0, "train_loss": math.inf}
        row["chosen"] = identity in best
        if network.final is not None:
            row["train_accuracy"], row["train_loss"] = training_fit(network.trial, network.final, max(settings.sizes))
            if identity in best:
                norms = trained_norms(network.final, settings.heads)
                sizes = {name: getattr(norms, name) for name in NORMS}
                row |= {name: size.tolist() if isinstance(size, np.ndarray) else size for name, size in sizes.items()}
                row |= trained_gap(norms, settings.n + 1, m)
        fits.append(row)
    fitted = pl.DataFrame(fits, schema_overrides={"id": pl.UInt64}, infer_schema_length=None)
    joined = runs.join(fitted, on="id", maintain_order="left")
    return joined.with_columns(gap=pl.col("train_accuracy") - pl.col("final_accuracy"))


def training_fit(trial: Trial, weights: Weights, room: int) -> tuple[float, float]:
    """Accuracy and mean loss of trained weights on the trial's own training sample, dropout off.

    With the same `room` for every sample size all runs share one program.
    """
    right, loss = _fit(replaced(trial, "training.regime.capacity", room), weights)
    return float(right), float(loss)


@jax.jit
def _fit(trial: Trial, params: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
    regime = trial.training.regime
    raw, weight = regime.batch(trial.task, regime.sample(trial.task, trial.key(DATA)), None)
    assert weight is not None
    x, y, truth, _ = trial.task.decode(raw)
    prediction = trial.model.predict(params, x)
    # A sum of m shares 1/m may miss 1 in its last bit: count, and divide once.
    wrong = jnp.sum(trial.task.error(prediction, truth) * (weight > 0).astype(jnp.float32))
    return 1.0 - wrong * jnp.max(weight), jnp.sum(logistic(prediction, y) * weight)


def best_runs(tables: Tables[Settings]) -> dict[int, pl.DataFrame]:
    """The best run of every replicate, by sample size, the largest first."""
    best = tables["runs"].filter("chosen")
    return {m: best.filter(m=m) for m in sorted(tables.settings.sizes, reverse=True)}


def typical_bound(tables: Tables[Settings]) -> tuple[pl.DataFrame, float]:
    """The bound against m for the norms of one network, and the m at which it falls to 1.

    The network is the one of median bound among the best runs of the largest sample size.
    """
    settings = tables.settings
    known = best_runs(tables)[max(settings.sizes)].drop_nulls("gap_explicit").sort("gap_explicit")
    row = known.select(NORMS).row((len(known) - 1) // 2, named=True)
    arrays: dict[str, Any] = {name: np.array(part) if isinstance(part, list) else part for name, part in row.items()}
    norms = TrainedNorms(**arrays)
    needed = float(samples_promised(norms, settings.n + 1))
    sizes = np.geomspace(min(settings.sizes), 4 * needed if np.isfinite(needed) else 1e18, BOUND_POINTS)
    bounds = [trained_gap(norms, settings.n + 1, int(m)) for m in sizes]
    return pl.DataFrame({"m": sizes, **{name: [each[name] for each in bounds] for name in bounds[0]}}), needed
