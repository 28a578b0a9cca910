"""Beyond the source: what a language costs each architecture, and what its algebra says.

For one regular language, or each of a list, and every architecture:

    steps     online training on fresh words until nearly all validation words are right (never: censored)
    samples   offline training on m words, for every m of a grid: the smallest m of which half of the trials suffice
    lengths   the online networks on words of 2, 4, ... times the longest length that they were trained on

Every position answers whether its prefix is in the language, and half of the words are not: so that all languages ask
the same question. A mark stands before every word, without which a transformer cannot count (`krogh.tasks.languages`).
Beside it stand the least automaton and the syntactic monoid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from krogh.engine import Trial, Trials
from krogh.errors import require
from krogh.experiments.languages.common import (
    ARCHITECTURES,
    algebra_table,
    in_words,
    length_table,
    names_of,
    over_languages,
    with_room,
)
from krogh.lab import Claims, Curve, Experiment, Figure, Results, Tables, experiment, figures, groups, need, setting
from krogh.lab.charts import Panel
from krogh.lab.curves import curve, times_of
from krogh.lab.estimate import Estimate, median, median_time, rate, share_of
from krogh.lab.experiment import Measures
from krogh.lab.sample_complexity import crossing, success_rates
from krogh.programs.automata import Automaton, find_languages, require_infinite
from krogh.tasks.languages import LABELINGS, Language, RegularLanguage, lengths_of
from krogh.training import Adam, Offline, Online, Regime, Stopping, Training

FEWEST_SEEDS = 6  # of fewer, a median has no interval at 95%
HALF = 0.5
LONG = 0.9
"""The share of right words by which lengths count as mastered."""


@dataclass(frozen=True)
class LanguageSettings:
    """How networks are trained on languages."""

    architectures: tuple[str, ...] = setting(
        tuple(ARCHITECTURES), "networks", among=tuple(ARCHITECTURES), distinct=True
    )
    width: int = setting(32, "hidden units, or the dimension of a transformer", least=2)
    labeling: str = setting("prefix", "what is asked of each position", among=LABELINGS)
    negatives: bool = setting(True, "whether half of the words are outside the language")
    shortest: int = setting(1, "least length of words in training", least=1)
    longest: int = setting(20, "largest length of words in training", least=2)
    batch_size: int = setting(32, "words per step", least=1)
    budget: int = setting(10_000, "steps of online training", least=20)
    accuracy: float = setting(0.99, "share of validation words that are right in all answers", above=0, most=1)
    validation: int = setting(1_000, "validation words", least=1)
    factors: tuple[int, ...] = setting((1, 2, 4), "lengths at which networks are tried", least=1, increasing=True)
    long_words: int = setting(1_000, "words that they are tried on", least=1)
    seeds: int = setting(10, "trials of online training", least=1)

    def trial(self, language: Language, network: str, regime: Regime, budget: int) -> Trial:
        task = RegularLanguage(
            language, self.shortest, self.longest, self.labeling, negatives=self.negatives, start=True
        )
        architecture = ARCHITECTURES[network]
        stopping = Stopping(budget=budget, accuracy=self.accuracy, check_every=20, validation=self.validation)
        training = Training(Adam(architecture.rate, clip=1.0), regime, stopping, "logistic")
        return Trial(task, architecture.model(self.width), training)

    def check_lengths(self, languages: Iterable[Automaton]) -> None:
        """Refuse what could not be trained on, before anything is."""
        whole = self.budget % 20 == 0
        require(whole, f"budget must be a multiple of 20, the steps between two checks; got budget={self.budget}")
        for automaton in languages:
            require_infinite(automaton, "length generalisation")
            for factor in self.factors:
                low = self.shortest if factor == 1 else self.longest * factor // 2 + 1
                for accepted in (True, False)[: 1 + (self.negatives or self.labeling == "final")]:
                    lengths_of(automaton, automaton.name, low, self.longest * factor, accepted)


@dataclass(frozen=True)
class Settings(LanguageSettings):
    language: str = setting(
        "(00)*(11)*",
        "a regular expression, a name such as tomita-3, an automaton (.yaml), or a list of these (.txt)",
    )
    alphabet: str = setting("", "symbols of regular expressions; those that they mention unless given")
    sizes: tuple[int, ...] = setting(
        (16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096), "sample sizes m", least=1, increasing=True, fewest=2
    )
    sample_seeds: int = setting(10, "trials per sample size", least=1)
    sample_budget: int = setting(4_000, "steps of offline training", least=20)

    def automata(self) -> dict[str, Automaton]:
        return {one.name: one for one in find_languages(self.language, self.alphabet or None)}

    def rooms(self) -> dict[str, Language]:
        own = self.automata()
        return dict(zip(own, with_room(list(own.values())), strict=True))


@experiment("languages/learnability")
class Learnability(Experiment[Settings]):
    """Samples, steps and lengths: what a regular language costs each architecture, beside its algebra."""

    title = "What a regular language costs, by architecture"
    question = "How many samples and steps does each architecture need for a language, and how far does it generalise?"
    source = "beyond Learning and generalization in RNNs, Section I"
    scales = {
        "smoke": Settings(
            language="(00)*", architectures=("rnn",), width=8, negatives=False, longest=6, budget=40, validation=32,
            factors=(1, 2), long_words=32, seeds=2, sizes=(8, 16), sample_seeds=1, sample_budget=20,
        ),
        "laptop": Settings(
            width=24, longest=10, budget=1_000, validation=300, factors=(1, 2, 4), long_words=300, seeds=6,
            sizes=(32, 128, 512, 2_048), sample_seeds=6, sample_budget=600,
        ),
        "paper": Settings(),
    }  # fmt: skip
    keep_weights = True
    notes = (
        "Learning rates (Adam) were set beforehand, one for each architecture, and not searched.",
        "At a length factor f words have more than f/2 and at most f times the longest training length. Distances that "
        "a transformer never met have the zero vector as their relative position.",
        "A word counts as right if the answers to all of its prefixes are.",
    )

    def check(self, settings: Settings) -> None:
        settings.check_lengths(settings.automata().values())
        whole = settings.sample_budget % 20 == 0
        require(whole, f"sample_budget must be a multiple of 20; got sample_budget={settings.sample_budget}")

    def trials(self, settings: Settings) -> Iterator[Trials]:
        languages = list(settings.rooms().values())
        for network in settings.architectures:
            trial = settings.trial(languages[0], network, Online(settings.batch_size), settings.budget)
            for cohort in over_languages(trial, languages, range(settings.seeds)):
                yield cohort.labelled(network=network, part="steps")
            regime = Offline(settings.sizes[0], settings.batch_size)
            trial = settings.trial(languages[0], network, regime, settings.sample_budget)
            cells = [(language, {"training.regime.m": m}) for language in languages for m in settings.sizes]
            own, fields = zip(*cells, strict=True)
            for cohort in over_languages(trial, own, range(settings.sample_seeds), fields=fields):
                yield cohort.labelled(network=network, part="samples")

    def measure(self, results: Results[Settings]) -> Measures:
        settings = results.settings

        def named() -> pl.DataFrame:
            kept = ("network", "part", "seed", "training.regime.m", "outcome", "convergence_time", "steps", "accuracy")
            table = results.table
            names = pl.Series("language", names_of(table, settings.rooms()))
            found = table.select([pl.col(name) for name in kept if name in table.columns])
            return found.with_columns(names).rename({"training.regime.m": "m"})

        def lengths() -> pl.DataFrame:
            own = results.table.filter(pl.col("part") == "steps")
            names = names_of(own, settings.rooms())
            return length_table(results.networks(part="steps"), names, settings.factors, settings.long_words)

        return {"runs": named, "lengths": lengths, "algebra": lambda: algebra_table(settings.automata())}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        say = say.about(needs=[need(settings.seeds, FEWEST_SEEDS, "seeds")])
        for (language, network), rows in groups(tables["runs"], ("language", "network")).items():
            about = say.about(f"{language}-{network}-", f"{language}, {network}: ")
            steps, sample = rows.filter(pl.col("part") == "steps"), f"{language}, {network}"
            about(
                "learns",
                f"half of the networks learn words of up to {settings.longest} symbols within {settings.budget:,} "
                "steps.",
                share_of((steps["outcome"] == "converged").to_numpy(), sample=f"{sample}, online"),
                "share of seeds",
                at_least=HALF,
            )
            most = settings.sizes[-1]
            hits, trials = _counts(rows)[most]
            about(
                "samples",
                f"{most:,} words are enough for half of the networks (half succeed from m = "
                f"{samples_needed(rows, sample).value:.3g} on).",
                rate(hits, trials, sample=f"{sample}, m={most}"),
                f"share of trials that succeed at m = {most:,}",
                at_least=HALF,
            )
            for factor in settings.factors:
                if factor > 1:
                    about(
                        f"{factor}-times",
                        f"networks that learned it get nine in ten words of {factor} times the length right.",
                        long_accuracy(tables["lengths"], language, network, factor),
                        f"median share of words that are right, lengths up to {factor * settings.longest}",
                        at_least=LONG,
                    )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, names = tables.settings, list(tables["algebra"]["language"])
        for place, (language, row) in enumerate(zip(names, tables["algebra"].iter_rows(named=True), strict=True)):
            chart = self.chart(
                f"language-{place + 1}", f"{language}: {in_words(row)}", headline=language, columns=3, height=3.8
            )
            runs = tables["runs"].filter(pl.col("language") == language)
            self._draw_steps(
                chart.panel(title="steps", x="steps of online training", y="share of networks"), runs, settings
            )
            panel = chart.panel(title="samples", x="words of the sample, m", y="share of networks", log="x")
            for network, color in _colors(settings):
                own = runs.filter((pl.col("network") == network) & (pl.col("part") == "samples"))
                panel.curve(_success(own, f"{language}, {network}"), network, color=color, key="")
            panel = chart.panel(title="lengths", x="length, relative to training", y="words that are right", log="x")
            for network, color in _colors(settings):
                points = {
                    factor: long_accuracy(tables["lengths"], language, network, factor, learned=False)
                    for factor in settings.factors
                }
                panel.curve(curve(points), network, color=color, key="legend")
            yield chart.figure(
                f"{language}: {in_words(row)}. Left: networks that have learned words of up to {settings.longest} "
                "symbols, against steps. Middle: share of trials that m words suffice for. Right: median share of "
                "words that are right on longer ones, over all networks."
            )

    def _draw_steps(self, panel: Panel, runs: pl.DataFrame, settings: Settings) -> None:
        for network, color in _colors(settings):
            own = runs.filter((pl.col("network") == network) & (pl.col("part") == "steps"))
            times = sorted(time for time in times_of(own).tolist() if time <= settings.budget)
            places = [0.0, *times, float(settings.budget)]
            heights = [min(count, len(times)) / len(own) for count in range(len(times) + 1)]
            panel.line(places, [*heights, heights[-1]], network, color=color, style="-", key="", drawstyle="steps-post")


def _colors(settings: LanguageSettings) -> list[tuple[str, str]]:
    return [(name, figures.PALETTE[list(ARCHITECTURES).index(name)]) for name in settings.architectures]


def _counts(rows: pl.DataFrame) -> Mapping[int, tuple[int, int]]:
    """Successes and trials by sample size."""
    samples = rows.filter(pl.col("part") == "samples")
    found = samples.group_by("m").agg(hits=(pl.col("outcome") == "converged").sum(), trials=pl.len()).sort("m")
    return {int(m): (int(hits), int(trials)) for m, hits, trials in found.iter_rows()}


def samples_needed(rows: pl.DataFrame, sample: str) -> Estimate:
    """Where half of the trials succeed."""
    return crossing(_counts(rows), HALF, sample=f"{sample}, m")


def _success(rows: pl.DataFrame, sample: str) -> Curve:
    return success_rates(_counts(rows), sample=sample)


def steps_needed(rows: pl.DataFrame, sample: str, budget: int) -> Estimate:
    """The median of the convergence times, never reached where more than half of the trials failed."""
    return median_time(times_of(rows), horizon=float(budget), sample=sample)


def long_accuracy(lengths: pl.DataFrame, language: str, network: str, factor: int, learned: bool = True) -> Estimate:
    """The median share of right words at a length, of the networks that learned the language, or of all."""
    rows = lengths.filter(
        (pl.col("language") == language) & (pl.col("network") == network) & (pl.col("factor") == factor)
    )
    if learned:
        rows = rows.filter(pl.col("converged"))
    return median(
        rows["words"].to_numpy(),
        nothing="no network learned it",
        lowest=0.0,
        sample=f"{language}, {network}, {factor} times",
    )
