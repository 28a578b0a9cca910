"""Beyond the source: does the algebra of a language predict how hard it is to learn?

Thirty regular languages, from those of Table 1 to word problems of groups, are learned online by several architectures,
all with the same question at every position (is this prefix in the language?) on words of which half are outside. A
language's difficulty is the median number of words until nearly all validation words are right; never is later than
any. Against it stand the class of its syntactic monoid, star-free, with solvable groups only, or with a non-solvable
one, and the sizes of the least automaton and of the monoid.

Groups act on few points, too: whether a permutation moves the first of five points is a language of five states whose
monoid may be A_5. So size and algebra are told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trials
from krogh.experiments.languages.common import (
    ARCHITECTURES,
    CLASSES,
    algebra_table,
    length_table,
    names_of,
    over_languages,
    with_room,
)
from krogh.experiments.languages.learnability import LanguageSettings, long_accuracy, steps_needed
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, groups, need, setting
from krogh.lab.charts import Panel
from krogh.lab.experiment import Measures
from krogh.lab.times import predictiveness
from krogh.programs.automata import LANGUAGES, Automaton, find_language, from_regex, minimise
from krogh.programs.automata.monoids import generated
from krogh.training import Online

FEWEST_LANGUAGES, FEWEST_SEEDS = 20, 3
SMALL = 6
"""States of the languages among which size plays no part."""


def permutations(name: str, symbols: Sequence[tuple[int, ...]], *, whole: bool) -> Automaton:
    """Words of permutations of points 0..n-1 whose product fixes every point (`whole`), or the first one."""
    points = len(symbols[0])
    if not whole:
        table = np.array([[symbol[point] for symbol in symbols] for point in range(points)])
        return minimise(Automaton(name, _letters(symbols), table, 0, (0,)))
    identity = tuple(range(points))
    elements = [identity, *sorted(generated(symbols) - {identity})]
    number = {element: place for place, element in enumerate(elements)}
    table = np.array([[number[tuple(symbol[q] for q in element)] for symbol in symbols] for element in elements])
    return minimise(Automaton(name, _letters(symbols), table, 0, (0,)))


def _letters(symbols: Sequence[tuple[int, ...]]) -> tuple[str, ...]:
    return tuple(map(str, range(len(symbols))))


SWAP_3, TURN_3 = (1, 0, 2), (1, 2, 0)
SWAP_4, TURN_4 = (1, 0, 2, 3), (1, 2, 3, 0)
TURN_5, THREE_OF_5 = (1, 2, 3, 4, 0), (1, 2, 0, 3, 4)  # these two generate A_5
SWAP_5 = (1, 0, 2, 3, 4)

PATTERNS: Mapping[str, str] = {
    "ends with 1": "(0|1)*1",
    "begins with 1": "1(0|1)*",
    "contains 01": "(0|1)*01(0|1)*",
    "contains 0..1..0": "1*0(0|1)*1(0|1)*0(0|1)*",
    "third from the end is 1": "(0|1)*1(0|1)(0|1)",
    "last of set and reset": "(0|1|2)*12*",
    "1s divisible by 3": "(0*10*10*1)*0*",
    "1s divisible by 5": "(0*10*10*10*10*1)*0*",
    "even length, ends with 1": "((0|1)(0|1))*(0|1)1",
    "an even number of 1s, then 00": "(0*10*1)*0*00",
}


def chosen_languages() -> dict[str, Automaton]:
    """The languages of Table 1, patterns, and permutations."""
    table = {name: find_language(name) for name in LANGUAGES}
    patterns = {
        name: from_regex(pattern, "012" if "2" in pattern else "01", name) for name, pattern in PATTERNS.items()
    }
    groups_of = {
        "S_3, point": permutations("S_3, point", (SWAP_3, TURN_3), whole=False),
        "S_3, word problem": permutations("S_3, word problem", (SWAP_3, TURN_3), whole=True),
        "S_4, point": permutations("S_4, point", (SWAP_4, TURN_4), whole=False),
        "A_5, point": permutations("A_5, point", (TURN_5, THREE_OF_5), whole=False),
        "S_5, point": permutations("S_5, point", (SWAP_5, TURN_5), whole=False),
        "A_5, word problem": permutations("A_5, word problem", (TURN_5, THREE_OF_5), whole=True),
    }
    return table | patterns | groups_of


CHOSEN = (*LANGUAGES, *PATTERNS, "S_3, point", "S_3, word problem", "S_4, point", "A_5, point", "S_5, point",
          "A_5, word problem")  # fmt: skip

COLORS, OPACITY = dict(zip(CLASSES, figures.PALETTE, strict=False)), 0.85


@dataclass(frozen=True)
class Settings(LanguageSettings):
    languages: tuple[str, ...] = setting(CHOSEN, "languages", among=CHOSEN, distinct=True)

    def automata(self) -> dict[str, Automaton]:
        known = chosen_languages()
        return {name: known[name] for name in self.languages}


@experiment("languages/overview")
class Overview(Experiment[Settings]):
    """Difficulty of thirty regular languages against their algebra, by architecture."""

    title = "Does algebra predict how hard a regular language is?"
    question = "Are languages with groups in their syntactic monoid harder to learn, and to carry to longer words?"
    source = "beyond Learning and generalization in RNNs, Section I"
    scales = {
        "smoke": Settings(
            languages=("parity", "(00)*"), architectures=("rnn",), width=8, negatives=False, longest=6, budget=40,
            validation=32, factors=(1, 2), long_words=32, seeds=2,
        ),
        "laptop": Settings(
            architectures=("rnn", "gru", "transformer"), width=24, longest=10, budget=1_000, validation=200,
            factors=(1, 2, 4), long_words=200, seeds=3,
        ),
        "paper": Settings(longest=20, budget=20_000, seeds=20),
    }  # fmt: skip
    keep_weights = True
    notes = (
        "Classes by the groups in the syntactic monoid: none (star-free), solvable ones only, a non-solvable one.",
        "Difficulty is compared by ranks; languages that more than half of the networks never learn share the last.",
        "Intervals of rank correlations take languages as a sample of independent ones; they were chosen by hand.",
        "Learning rates (Adam) were set beforehand, one for each architecture, and not searched.",
    )

    def check(self, settings: Settings) -> None:
        settings.check_lengths(settings.automata().values())

    def trials(self, settings: Settings) -> Iterator[Trials]:
        rooms = with_room(list(settings.automata().values()))
        for network in settings.architectures:
            trial = settings.trial(rooms[0], network, Online(settings.batch_size), settings.budget)
            for cohort in over_languages(trial, rooms, range(settings.seeds)):
                yield cohort.labelled(network=network)

    def measure(self, results: Results[Settings]) -> Measures:
        settings = results.settings
        automata = settings.automata()
        rooms = dict(zip(automata, with_room(list(automata.values())), strict=True))

        def runs() -> pl.DataFrame:
            table = results.table
            kept = table.select("network", "seed", "outcome", "convergence_time", "steps", "accuracy")
            return kept.with_columns(pl.Series("language", names_of(table, rooms)))

        def lengths() -> pl.DataFrame:
            names = names_of(results.table, rooms)
            return length_table(results.networks(), names, settings.factors, settings.long_words)

        return {"runs": runs, "lengths": lengths, "algebra": lambda: algebra_table(automata)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        needs = [
            need(len(settings.languages), FEWEST_LANGUAGES, "languages"),
            need(settings.seeds, FEWEST_SEEDS, "seeds"),
        ]
        far = max(settings.factors)
        for network in settings.architectures:
            rows = difficulty(tables, network)
            about = say.about(f"{network}-", f"{network} ({ARCHITECTURES[network].words}): ", needs=needs)
            for name, column, words in (
                ("class", "class", "the richer the groups of a language, the later it is learned"),
                ("states", "states", "the larger the least automaton, the later a language is learned"),
                ("monoid", "monoid", "the larger the syntactic monoid, the later a language is learned"),
            ):
                about(
                    name,
                    f"{words}.",
                    predictiveness(rows[column].to_numpy(), rows["steps"].to_numpy()),
                    "rank correlation with the median steps until learned, over languages",
                    above=0.0,
                )
            few = rows.filter(pl.col("states") <= SMALL)
            about(
                "class-of-small",
                f"the same holds among languages of at most {SMALL} states: algebra says more than size.",
                predictiveness(few["class"].to_numpy(), few["steps"].to_numpy()),
                "rank correlation of class and median steps, over languages",
                above=0.0,
            )
            about(
                "longer",
                f"the richer the groups of a language, the fewer words of {far} times the length are right.",
                predictiveness(rows["class"].to_numpy(), 1 - rows["far"].to_numpy()),
                "rank correlation of class and the median share of wrong words, over languages",
                above=0.0,
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings = tables.settings
        names, far = settings.architectures, max(settings.factors)
        chart = self.chart(
            "overview", self.title, rows=2, columns=len(names), width=max(6.4, 4.2 * len(names)) + 1.4, height=7.2
        )
        found = {network: difficulty(tables, network) for network in names}
        for network in names:
            named = "median steps until learned" if network == names[0] else ""
            panel = chart.panel(title=network, x="states of the least automaton", y=named, log="xy")
            panel.never(2.0 * settings.budget)
            _scatter(panel, found[network], "steps")
        for network in names:
            named = f"right at {far} times the length" if network == names[0] else ""
            panel = chart.panel(x="states of the least automaton", y=named, log="x")
            _scatter(panel, found[network], "far")
        data = pl.concat([rows.with_columns(network=pl.lit(network)) for network, rows in found.items()])
        chart.key({kind: color for kind, color in COLORS.items() if kind in data["algebra"]}, alpha=OPACITY)
        yield chart.figure(
            "Each mark is a language, by the groups in its syntactic monoid. Above: steps until learned; those that "
            f"half of the networks never learned in {settings.budget:,} steps lie on the dashed line. Below: median "
            f"share of words of up to {far * settings.longest} symbols that are right, of all networks.",
            data,
            alt=f"{self.title} An infinite time stands for never within {settings.budget:,} steps.",
        )
        yield self._ranking(tables, found)

    def _ranking(self, tables: Tables[Settings], found: Mapping[str, pl.DataFrame]) -> Figure:
        """Every language by name, from easy to hard."""
        settings, (first, *_) = tables.settings, found.values()
        order = sorted(first.iter_rows(named=True), key=lambda row: (CLASSES.index(row["algebra"]), row["states"]))
        names = [row["language"] for row in order]
        chart = self.chart(
            "ranking", "Steps until learned, language by language", height=1.8 + 0.26 * len(names), width=8
        )
        panel = chart.panel(x="median steps until learned", log="x")
        panel.never(2.0 * settings.budget, "x")
        for (network, rows), color in zip(found.items(), figures.PALETTE, strict=False):
            steps = {row["language"]: row["steps"] for row in rows.iter_rows(named=True)}
            panel.dots([steps[name] for name in names], range(len(names)), network, color=color)
        panel.name_rows(
            [f"{row['language']} ({row['states']}, {row['algebra']})" for row in order], fontsize=7, parse_math=False
        )
        return chart.figure(
            "Median steps until learned by language (states of the least automaton, groups of its monoid); the dashed "
            f"line stands for never within {settings.budget:,} steps.",
            alt=f"Steps until learned, language by language; ∞ stands for never within {settings.budget:,} steps.",
        )


def difficulty(tables: Tables[Settings], network: str) -> pl.DataFrame:
    """By language: its algebra, the median steps until learned (∞ for never) and accuracy on the longest words."""
    settings, runs = tables.settings, tables["runs"].filter(pl.col("network") == network)
    algebra = {row["language"]: row for row in tables["algebra"].iter_rows(named=True)}
    rows = []
    for language, own in groups(runs, "language").items():
        known = algebra[language]
        rows.append(
            {
                **known,
                "class": CLASSES.index(known["algebra"]),
                "steps": steps_needed(own, f"{language}, {network}", settings.budget).value,
                "learned": int((own["outcome"] == "converged").sum()),
                "seeds": len(own),
                "far": long_accuracy(tables["lengths"], language, network, max(settings.factors), learned=False).value,
            }
        )
    return pl.DataFrame(rows)


def _scatter(panel: Panel, rows: pl.DataFrame, column: str) -> None:
    for (kind, color), shift in zip(COLORS.items(), (0.96, 1.0, 1.04), strict=True):
        own = rows.filter(pl.col("algebra") == kind)
        states = shift * own["states"].to_numpy()
        panel.dots(states, own[column].to_numpy(), kind, color=color, key="", alpha=OPACITY)
