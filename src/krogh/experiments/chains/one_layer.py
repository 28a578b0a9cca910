"""Figure E.8: one layer of attention stays at unigrams, with or without an MLP and whatever its positions.

An induction head needs two layers, one that brings the previous token and one that looks for it. One-layer networks
are trained several times as long as the two-layer network needs, and do not get past the level of symbol frequencies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from krogh.engine import Trials, sweep
from krogh.experiments.chains.common import FEWEST_SEEDS, SMOKE, ChainSettings, draw_losses, left_to_go, phase_measures
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, groups, need, setting
from krogh.lab.estimate import median
from krogh.lab.experiment import Measures
from krogh.values import replaced

CONTROL = "two layers"
VARIANTS = {
    "relative": {"positions": "relative", "mlp": False},
    "relative, MLP": {"positions": "relative", "mlp": True},
    "absolute": {"positions": "absolute", "mlp": False},
    "absolute, MLP": {"positions": "absolute", "mlp": True},
}
STRATEGIES = ("uniform", "unigram", "bigram")


@dataclass(frozen=True)
class Settings(ChainSettings):
    k: int = setting(2, "symbols", least=2)
    variants: tuple[str, ...] = setting(tuple(VARIANTS), "one-layer networks", distinct=True, among=VARIANTS)
    longer: int = setting(8, "how many times as long as two layers one layer is trained", least=1)


@experiment("chains/one-layer")
class OneLayer(Experiment[Settings]):
    """One-layer transformers of four kinds, and a two-layer one beside them."""

    title = "One layer of attention does not get past unigrams"
    question = "Can a single layer, given more time, an MLP or other positions, learn the in-context bigram?"
    source = "dissertation, Appendix E.2, Figure E.8"
    scales = {
        "smoke": Settings(**SMOKE, longer=2, variants=("absolute, MLP",)),
        "laptop": Settings(k=3, length=50, rate=1e-3, steps=1_400, look_every=100, seeds=6, validation=300, longer=2),
        "paper": Settings(),
    }
    notes = (
        "A one-layer network lies a little below the add-one unigram line: the present symbol itself tells something.",
    )

    def check(self, settings: Settings) -> None:
        settings.check_looks()

    def trials(self, settings: Settings) -> Iterator[Trials]:
        task = settings.chains(settings.k)
        seeds = range(settings.seeds)
        yield from sweep(settings.trial(task), seed=seeds, label={"network": CONTROL})
        for name in settings.variants:
            trial = settings.trial(task, settings.model(layers=1, **VARIANTS[name]))
            longer = replaced(trial, "training.stopping.budget", settings.longer * settings.steps)
            yield from sweep(longer, seed=seeds, label={"network": name})

    def measure(self, results: Results[Settings]) -> Measures:
        return phase_measures(results, "network", STRATEGIES)

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        for name, rows in groups(tables["phases"], "network").items():
            short = name.replace(",", "").replace(" ", "-").lower()
            about = say.about(f"{short}-", f"{name}: ", needs=[need(len(rows), FEWEST_SEEDS, "seeds")])
            if name == CONTROL:
                about(
                    "passes",
                    "the loss ends below the midpoint of unigram and bigram.",
                    left_to_go(rows, "unigram", "bigram", name),
                    "median of (loss − bigram's)/(unigram's − bigram's)",
                    below=0.5,
                    source_value="two layers learn bigrams",
                )
                continue
            about(
                "stays",
                f"one layer, {tables.settings.longer} times as long: the last loss is above 0.75 times the unigram's.",
                median((rows["final_loss"] / rows["baseline_unigram"]).to_numpy(), lowest=0.0, sample=name),
                "median of (last loss)/(unigram's)",
                above=0.75,
                source_value="nothing beyond the unigram line",
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        by_name = groups(tables["curves"], "network")
        chart = self.chart(
            "one-layer",
            "One layer, however long",
            columns=len(by_name),
            width=3.4 * len(by_name),
            height=3.4,
            sharey=True,
        )
        for name, rows in by_name.items():
            panel = chart.panel(title=name if name == CONTROL else f"one layer, {name}", x="training sequences")
            if name == CONTROL:
                panel.axes(y="KL(truth ‖ network), nats")
            draw_losses(panel, rows, ("unigram", "bigram"))
        yield chart.figure(
            "Loss of every seed, their median, and what the unigram and bigram strategies lose on the same sequences. "
            f"One-layer networks are trained {tables.settings.longer} times as long.",
            tables["curves"],
        )
