"""What the law of the test prompts changes in Figure 1(a) of the qSTR paper.

The caption says 1STR, where every position names its own token. The public code trains on such prompts but draws the
test set from simple-1STR, where all positions name the same one. Here every run is judged by both: the two trials of a
seed have the same weights, the same training prompts and hence the same course, and differ in the test set alone, so
their sample complexities are compared in pairs. The published table must be held against the public code's law.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from krogh.engine import Trials
from krogh.experiments.qstr.common import ARCHITECTURES, PANELS, SOURCE_ARCHITECTURES, OnlineSettings, Plan, missed
from krogh.lab import Claims, Curve, Experiment, Figure, Tables, experiment, figures, setting
from krogh.lab.estimate import Estimate, maximum

PANEL = PANELS["general"]
LAWS = ("matched", "shared")
CLOSE = {"transformer": 1.5, "feedforward": 1.6}  # factors within which the published table counts as met


@dataclass(frozen=True)
class Settings(OnlineSettings):
    architectures: tuple[str, ...] = setting(
        SOURCE_ARCHITECTURES, "whose runs are judged by both laws", distinct=True, among=ARCHITECTURES
    )
    lengths: tuple[int, ...] = setting((2, 4, 6, 8, 10, 12), "sequence lengths N", distinct=True, least=2)
    seeds: int = setting(5, "runs per point", least=1)
    threshold: float = setting(PANEL.threshold, "test error to reach", above=0)
    check_every: int = setting(10, "steps between two checks", least=1)

    def plan(self, law: str) -> Plan:
        """The runs as this law judges them."""
        return Plan(PANEL, self, self.architectures, self.lengths, self.seeds, self.threshold, self.check_every, law)


@experiment("qstr/evaluation-law")
class EvaluationLaw(Experiment[Settings]):
    """Sample complexities of the same runs, judged on 1STR and on simple-1STR prompts."""

    title = "Judging on simpler prompts than it trained on flatters the feedforward network"
    question = "What does the public code's choice to judge 1STR on simple-1STR prompts change, and for whom?"
    source = "qSTR paper, Figure 1(a) and the public code"
    scales = {
        "smoke": Settings(architectures=("feedforward",), lengths=(4,), seeds=2, validation=1_000, budget=32_000),
        "laptop": Settings(
            architectures=("transformer", "feedforward"), lengths=(4, 8, 12), hidden=64, validation=1_000
        ),
        "paper": Settings(),
    }
    notes = (
        "1STR: each position of a prompt names the token that its label depends on; simple-1STR: all positions name "
        "the same one. Sample complexity n: the prompts consumed until the test error is at most the threshold.",
        "The reference measured both laws on the same feedforward runs: the matched law costs a factor 1.2 at N = 4 "
        "and 6 and 1.4–1.9 at N of 8 or more; 1.2 is asked for here. It calls the Transformer's difference not "
        "visible, which is read as a factor between 1/1.3 and 1.3, what its single runs showed.",
        "The published table is judged at every N by the worst of them. The reference gives no criterion for the "
        "recurrent network, which is drawn beside its published values only.",
        "At laptop scale the recurrent network is left out (of a smaller one than the source's nothing is published), "
        "N = 4, 8, 12 and 1,000 test prompts.",
    )

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for name in (name for name in ARCHITECTURES if name in settings.architectures):
            for length, law in itertools.product(sorted(settings.lengths, reverse=True), LAWS):
                yield from settings.plan(law).runs(name, length, {"architecture": name, "judged_on": law})

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        length = max(tables.settings.lengths)
        say = say.about(needs=tables.settings.plan("matched").lacking)
        for name, (matched, simple) in curves_of(tables).items():
            change = matched.at(length) / simple.at(length)
            head = f"At N = {length} the {ARCHITECTURES[name].label} judged on 1STR prompts needs"
            tail = "as many samples as when judged on simple-1STR prompts."
            statistic = f"n(matched) / n(shared) at N = {length}, runs in pairs"
            if name == "feedforward":
                say(
                    "feedforward-costs",
                    f"{head} at least 1.2 times {tail}",
                    change,
                    statistic,
                    at_least=1.2,
                    source_value="1.4–1.9 at N = 8 and 12 (two runs)",
                )
            if name == "transformer":
                say(
                    "transformer-unchanged",
                    f"{head} 1/1.3 to 1.3 times {tail}",
                    change,
                    statistic,
                    between=(1 / 1.3, 1.3),
                    source_value="0.8–0.9 at N = 4 and 6 (one run)",
                )
            if name in CLOSE:
                say(
                    f"{name}-as-published",
                    f"Judged as in the public code, the {ARCHITECTURES[name].label}'s mean samples are within a "
                    f"factor of {CLOSE[name]:g} of the published ones at every N.",
                    worst_factor(simple, PANEL.samples(name)),
                    "largest factor between n and the published n, either way",
                    at_most=CLOSE[name],
                    source_value="1 (the published means)",
                )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, table, curves = tables.settings, tables["trials"], curves_of(tables)
        chart = self.chart(
            "evaluation-law",
            self.title,
            headline="Samples to the threshold, judged on 1STR and on simple-1STR prompts",
            columns=len(curves),
            width=3.6 * len(curves) + 1.2,
            height=3.9,
            sharey=True,
        )
        data = []
        for name, by_law in curves.items():
            title, color, ticks = ARCHITECTURES[name].label, ARCHITECTURES[name].color, sorted(settings.lengths)
            axes = chart.panel(title=title, x="sequence length N", log="xy", xticks=ticks)
            looks: list[tuple[str, dict[str, Any]]] = [
                ("1STR", {"published": {}, "color": color, "linestyle": "-"}),
                ("simple-1STR", {"published": PANEL.samples(name), "color": figures.MUTED, "linestyle": "--"}),
            ]
            for law, curve, (words, look) in zip(LAWS, by_law, looks, strict=True):
                label = {"architecture": name, "judged_on": law}
                data.append(settings.plan(law).draw(axes, table, label, curve, words, **look))
        chart[0].axes(y=f"samples n to test error {settings.threshold:g}")
        yield chart.figure(
            f"All are trained on 1STR, where each position names its own token; each of {settings.seeds} runs is "
            f"judged on prompts of 1STR (in colour) and, as in the public code, of simple-1STR, where all positions "
            f"name the same one (grey). Means with 95% intervals (Student's t of logarithms), thin lines are runs, "
            f"open circles the published means. Within {settings.budget:,} samples {missed(table)}.",
            pl.concat(data),
        )


def curves_of(tables: Tables[Settings]) -> dict[str, tuple[Curve, Curve]]:
    """The samples of each architecture against N, judged on 1STR and on simple-1STR prompts.

    The sample of a point is its runs, under the same name for both laws: ratios are paired.
    """
    settings, trials = tables.settings, tables["trials"]
    matched, simple = (settings.plan(law).curves(trials.filter(judged_on=law)) for law in LAWS)
    return {name: (matched[name], simple[name]) for name in settings.architectures}


def worst_factor(curve: Curve, known: Mapping[float, float]) -> Estimate:
    """max over N of max(n/known, known/n), at the N that both have; infinite where one was not reached."""
    both = [(n, known[length]) for length, n in zip(curve.x, curve.y, strict=True) if length in known]
    factors = [factor for n, published in both for factor in (n / published, published / n)]
    return maximum(factors, nothing="no N is among the published ones")
