"""Figure E.6: what a network on the plateau knows and does not know.

Networks are trained on chains with flat Dirichlet rows and judged on parts of that distribution while they train: on
independent tokens, where counting symbols is optimal, and on doubly stochastic chains, where it says nothing. On the
plateau the first loss is small and the second is that of guessing; after the drop both are small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.experiments.chains.common import FEWEST_SEEDS, SMOKE, ChainSettings
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, groups, need, setting
from krogh.lab.estimate import median
from krogh.lab.experiment import Measures
from krogh.lab.phases import curve_of, curve_table, nearest_strategies
from krogh.models import MinimalInduction
from krogh.probes.chains import PARTS, PartLosses
from krogh.probes.strategies import StrategyDistances
from krogh.tasks.chains import MarkovChains, strategy_losses
from krogh.training import Sgd
from krogh.values import replaced

MODELS = ("transformer", "minimal")
NAMES = {"dirichlet": "flat Dirichlet rows", "unigram": "independent tokens", "doubly_stochastic": "doubly stochastic"}
SEQUENCES = 8_192  # on which the uniform guess is judged


@dataclass(frozen=True)
class Settings(ChainSettings):
    k: int = setting(3, "symbols", least=2, most=7)
    models: tuple[str, ...] = setting(MODELS, "which networks", distinct=True, among=MODELS)
    minimal_rate: float = setting(2e-3, "learning rate of SGD for the minimal model", above=0)


@experiment("chains/parts")
class Parts(Experiment[Settings]):
    """Losses on parts of the distribution along training."""

    title = "On the plateau a network knows frequencies and no transitions"
    question = "Which part of the distribution does a network on the unigram plateau already predict?"
    source = "dissertation, Appendix E.2, Figure E.6"
    scales = {
        "smoke": Settings(**SMOKE, k=2, models=("minimal",)),
        "laptop": Settings(length=60, rate=1e-3, steps=1_600, look_every=80, seeds=6, validation=300),
        "paper": Settings(),
    }
    notes = (
        "Figure E.6's caption calls the stationary law of doubly stochastic chains the identity; uniform is meant.",
        "On the plateau: the looks at which the unigram strategy is the nearest; their median is taken.",
    )

    def check(self, settings: Settings) -> None:
        settings.check_looks()

    def trials(self, settings: Settings) -> Iterator[Trials]:
        task, probes = settings.chains(settings.k), (StrategyDistances(), PartLosses())
        sgd = settings.training(Sgd(settings.minimal_rate))
        trials = {
            "transformer": settings.trial(task, probes=probes[1:]),
            "minimal": Trial(task, MinimalInduction(w=0.0, v=0.02), sgd, probes=probes),
        }
        for name in settings.models:
            yield from sweep(trials[name], seed=range(settings.seeds), label={"network": name})

    def measure(self, results: Results[Settings]) -> Measures:
        settings = results.settings
        task = settings.chains(settings.k)
        guesses = {name: _guess(task, prior()) for name, prior in PARTS.items()}
        rows = [
            {"network": row["network"], "seed": row["seed"], **_on_and_after(curve_of(row), guesses)}
            for row in results.table.iter_rows(named=True)
        ]
        columns = tuple(f"loss_{name}" for name in PARTS)
        return {
            "parts": pl.DataFrame(rows, schema_overrides=dict.fromkeys(("plateau_looks",), pl.Int64)),
            "guesses": pl.DataFrame({"part": list(guesses), "loss": list(guesses.values())}),
            "curves": curve_table(results.table, columns, labels=("network",), scale=float(settings.batch_size)),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        k = tables.settings.k
        for model, rows in groups(tables["parts"], "network").items():
            known = rows.filter(pl.col("plateau_looks") > 0)
            about = say.about(f"{model}-", f"{model}, k = {k}: ", needs=[need(len(known), FEWEST_SEEDS, "seeds")])
            nothing, sample = "no seed was nearest to unigram at any look", f"{model} plateau"
            about(
                "plateau-unigram",
                "on the plateau the loss on independent tokens is below 0.3 times that of guessing.",
                median(known["plateau_unigram"].to_numpy(), lowest=0.0, sample=sample, nothing=nothing),
                "median of (loss on the plateau)/(loss of guessing), independent tokens",
                below=0.3,
                source_value="quickly at the unigram level",
            )
            least = 0.7 if k == 2 else 0.9
            about(
                "plateau-doubly-stochastic",
                f"and on doubly stochastic chains it is above {least:g} times that of guessing.",
                median(known["plateau_doubly_stochastic"].to_numpy(), lowest=0.0, sample=sample, nothing=nothing),
                "median of (loss on the plateau)/(loss of guessing), doubly stochastic chains",
                above=least,
                source_value="no better than guessing",
            )
            for part in ("unigram", "doubly_stochastic"):
                about(
                    f"end-{part.replace('_', '-')}",
                    f"in the end the loss on {NAMES[part]} is below half of that of guessing.",
                    median(rows[f"end_{part}"].to_numpy(), lowest=0.0, sample=f"{model} end"),
                    f"median of (last loss)/(loss of guessing), {NAMES[part]}",
                    below=0.5,
                    source_value="both fall",
                )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        by_model, names = groups(tables["curves"], "network"), tables.settings.models
        guesses = dict(tables["guesses"].iter_rows())
        chart = self.chart("parts", "Losses on parts of the distribution", columns=len(names), width=5.4 * len(names))
        for name in names:
            panel = chart.panel(title=name, x="training sequences", y="KL(truth ‖ network), nats")
            for (part, words), color in zip(NAMES.items(), figures.PALETTE, strict=False):
                column, look = f"loss_{part}", {"color": color, "key": "legend"}
                panel.ranges(by_model[name], "time", column, words, middle=pl.Expr.median, **look)
                panel.ax.axhline(guesses[part], color=color, linewidth=0.8, linestyle=(0, (1, 2)))
        yield chart.figure(
            "Median loss with the range over seeds on three laws of chains, of networks trained on the first; dotted: "
            "what guessing uniformly loses on each."
        )


def _guess(task: MarkovChains, prior: object) -> float:
    """What the uniform guess loses on a part."""
    part = replaced(replaced(task, "prior", prior), "judged", None)
    return float(np.mean(strategy_losses(part, SEQUENCES, 0)["uniform"]))


def _on_and_after(curve: dict[str, np.ndarray], guesses: dict[str, float]) -> dict[str, float]:
    """Losses in units of those of guessing: their medians over the looks on the plateau, and the last ones."""
    on = np.array([name == "unigram" for name in nearest_strategies(curve)])
    ratios = {name: curve[f"loss_{name}"] / guess for name, guess in guesses.items()}
    plateau = {f"plateau_{name}": float(np.median(r[on])) if on.any() else np.nan for name, r in ratios.items()}
    return {"plateau_looks": int(on.sum()), **plateau, **{f"end_{name}": float(r[-1]) for name, r in ratios.items()}}
