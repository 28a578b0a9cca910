"""Figure 1 of the qSTR paper: the samples that Transformers, recurrent and feedforward networks need, against N.

In panel (a), 1STR, every position names the token that its label depends on; in panel (b), simple-1STR, all positions
name the same one. Theory: a Transformer needs polylog(N) samples of either; a recurrent network N^Ω(1) of the first
and polylog(N) of the second; a feedforward network at least N·d of both. State-space models and linear attention, which
the source does not have, can be trained beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require_integer
from krogh.experiments.qstr.common import (
    ARCHITECTURES,
    PANELS,
    SOURCE_ARCHITECTURES,
    SOURCE_DIMENSION,
    SOURCE_HIDDEN,
    Curve,
    Plan,
    budget_steps,
    check_choices,
    check_lengths,
    curve,
    online_training,
    rate_of,
    retrieval,
)
from krogh.experiments.qstr.drawing import draw_panel, draw_theory, missed, panelled
from krogh.experiments.qstr.verdicts import Judged
from krogh.lab import Claim, Experiment, Figure, Results, experiment, figures, setting

PANEL_SETTINGS = ("architectures", "lengths", "seeds", "threshold", "check_every")  # the simple panel has its own


@dataclass(frozen=True)
class Settings:
    panels: tuple[str, ...] = setting(("general", "simple"), "1STR (Figure 1a) and simple-1STR (Figure 1b)")
    architectures: tuple[str, ...] = setting(
        (*SOURCE_ARCHITECTURES, "state-space", "linear-attention"),
        "who is compared in the general panel; the first three are the source's",
    )
    simple_architectures: tuple[str, ...] = setting(
        (*SOURCE_ARCHITECTURES, "state-space", "linear-attention"), "who is compared in the simple panel"
    )
    lengths: tuple[int, ...] = setting((2, 4, 6, 8, 10, 12), "sequence lengths N of the general panel")
    simple_lengths: tuple[int, ...] = setting((25, 27, 29, 31, 33), "sequence lengths N of the simple panel")
    seeds: int = setting(5, "runs per point of the general panel")
    simple_seeds: int = setting(5, "runs per point of the simple panel")
    hidden: int = setting(SOURCE_HIDDEN, "GRU units per direction")
    dimension: int = setting(SOURCE_DIMENSION, "token dimension d")
    threshold: float = setting(0.7, "test error to reach, general panel (0 is always predicted with error 1)")
    simple_threshold: float = setting(0.02, "test error to reach, simple panel")
    check_every: int = setting(10, "steps between two checks, general panel")
    simple_check_every: int = setting(100, "steps between two checks, simple panel")
    validation: int = setting(5_000, "test prompts")
    budget: int = setting(1_000_000, "samples after which a run has not reached the threshold")
    batch_size: int = setting(64, "fresh prompts per step")
    evaluation: Literal["matched", "shared"] = setting(
        "matched", "prompts that the general panel is judged on: its own, or simple-1STR as in the public code"
    )
    code_seed: int = setting(0, "which table of positional codes")


@experiment("qstr/sample-complexity")
class SampleComplexity(Experiment[Settings]):
    """Samples to a threshold against the sequence length, for every architecture and both index laws."""

    title = "A Transformer retrieves from fewer samples than a recurrent or a feedforward network"
    question = "How many samples does each architecture need to retrieve the token a prompt names, as prompts lengthen?"
    source = "qSTR paper, Figure 1"
    scales = {
        "smoke": Settings(
            panels=("general",), architectures=("transformer", "feedforward"), lengths=(4,), seeds=2, validation=1_000,
            budget=32_000,
        ),
        "laptop": Settings(
            architectures=SOURCE_ARCHITECTURES, simple_architectures=SOURCE_ARCHITECTURES,
            lengths=(4, 8, 12), simple_lengths=(25, 33), simple_seeds=3, hidden=64, validation=1_000,
        ),
        "paper": Settings(),
    }  # fmt: skip
    notes = (
        "The figure's caption says 1STR, but the public code judges panel (a) on simple-1STR prompts, and the "
        "published values are of that kind. The default here is the caption's own law; evaluation=shared is the "
        "code's. qstr/evaluation-law shows what the choice changes.",
        "At laptop scale the GRU has 64 units per direction instead of 500, and in proportion a rate of 7.8e-3 instead "
        "of 1e-3: at 1e-3 its error was still 0.23 after 320,000 samples of panel (b) at N = 33 (one run; a run of 500 "
        "units is 5·10^13 operations). Whether it needs more or fewer samples than the source's is not known, so "
        "verdicts that compare it with others are withheld.",
        "At laptop scale there are 1,000 test prompts instead of 5,000, N = 4, 8, 12 and 25, 33 instead of six and "
        "five lengths, and in panel (b) three runs instead of five. All else is the source's, the ends of both ranges "
        "of N among it: at N up to 13 the feedforward network needs the fewest samples in panel (b), with 5 as with 30 "
        "dimensions (one run each), so that a shorter panel would ask another question.",
        "Codes of dimension ⌊5 ln N⌋ almost never meet the theory's Assumption 3 (coherence at most 1/2). Tables with "
        "two equal codes are never drawn here, since no model could tell such positions apart.",
        "Growth is judged from N = 4 on by the slope of ln n on ln N in panel (a), and by n(33)/n(25) in panel (b), "
        "where 'changes by less than 60%' is read as: grows by less than 60%.",
        "Theorem 6 speaks of networks trained to a stationary point on a fixed sample; the dotted line is its floor "
        "(1 - threshold)·N·d for the panel's threshold.",
        "State-space models and linear attention are not in the source; their curves are shown, nothing is claimed.",
    )

    def trials(self, settings: Settings) -> list[Trials]:
        check_choices("panels", settings.panels, PANELS)
        plans = [plan_of(settings, name) for name in settings.panels]
        pieces = sorted(((length, plan) for plan in plans for length in plan.lengths), key=lambda piece: -piece[0])
        cohorts = []
        for name in ARCHITECTURES:
            model = ARCHITECTURES[name].build(settings.hidden)
            for length, plan in pieces:
                if name not in plan.architectures:
                    continue
                task = retrieval(length, settings.dimension, plan.panel.index_law, plan.evaluation, settings.code_seed)
                training = online_training(
                    plan.threshold,
                    plan.check_every,
                    settings.budget,
                    settings.validation,
                    settings.batch_size,
                    rate_of(name, settings.hidden),
                )
                cohorts += sweep(Trial(task, model, training), seed=range(plan.seeds))
        return cohorts

    def claims(self, results: Results[Settings]) -> list[Claim]:
        found = []
        for name in results.settings.panels:
            judged = Judged(name, plan_of(results.settings, name), curves_of(results, name))
            found += judged.general() if name == "general" else judged.simple()
        return found

    def figures(self, results: Results[Settings]) -> list[Figure]:
        settings = results.settings
        panels = [(name, plan_of(settings, name), curves_of(results, name)) for name in settings.panels]
        told = [
            f"{plan.panel.task}: test error {plan.threshold:g}, {plan.seeds} runs, a check every {plan.check_every} "
            f"steps, judged on {plan.evaluation} prompts; {missed(curves.values())}"
            for _, plan, curves in panels
        ]
        headline, axes = panelled("Samples needed to retrieve the token that a prompt names", len(panels))
        data = [draw_panel(ax, *panel) for ax, panel in zip(axes, panels, strict=True)]
        figures.source_note(headline, self.source)
        caption = (
            f"Mean number of prompts until the threshold is reached, with 95% bootstrap intervals; thin lines are "
            f"runs, open markers the source's means (GRU of {SOURCE_HIDDEN} units, here {settings.hidden}; its panel "
            f"(a) is judged on simple-1STR prompts). {'. '.join(told)}. Budget {settings.budget:,} samples."
        )
        beside, axes = panelled("Samples needed, and what the theory says of them", len(panels))
        bounds = [draw_theory(ax, *panel) for ax, panel in zip(axes, panels, strict=True)]
        figures.source_note(beside, "qSTR paper, Theorems 6 and 10")
        limits = (
            "The means on logarithmic axes. Dotted: floors, as many samples as unknowns, q·d, and by Theorem 6 "
            "(1 - threshold)·N·d for a feedforward network. Dashed: Theorem 10 for the Transformer, which hides its "
            "constant: its growth with N, times the least constant under which it bounds the means."
        )
        return [
            Figure("sample-complexity", self.title, caption, headline, pl.concat(data)),
            Figure("theory", "Measured samples lie far above the floors", limits, beside, pl.concat(bounds)),
        ]


def plan_of(settings: Settings, name: str) -> Plan:
    """What a panel trains."""
    general, panel = name == "general", PANELS[name]
    given = {word: word if general else f"simple_{word}" for word in PANEL_SETTINGS}
    architectures, lengths, seeds, threshold, every = (getattr(settings, given[word]) for word in PANEL_SETTINGS)
    check_choices(given["architectures"], architectures, ARCHITECTURES)
    check_lengths(given["lengths"], lengths)
    require_integer(given["seeds"], seeds, 1)
    budget = budget_steps(settings.budget, settings.batch_size, every)
    # Prompts of simple-1STR are what the other law would judge on as well.
    evaluation = settings.evaluation if general else "matched"
    return Plan(
        panel=panel,
        architectures=architectures,
        lengths=tuple(sorted(lengths)),
        seeds=seeds,
        threshold=threshold,
        check_every=every,
        budget=budget,
        evaluation=evaluation,
        dimension=settings.dimension,
        hidden=settings.hidden,
    )


def curves_of(results: Results[Settings], name: str) -> dict[str, Curve]:
    """Every architecture's sample complexity in a panel."""
    settings, plan = results.settings, plan_of(results.settings, name)
    return {
        architecture: curve(
            results.table,
            architecture,
            plan.lengths,
            index_law=plan.panel.index_law,
            evaluation=plan.evaluation,
            budget=plan.budget,
            batch_size=settings.batch_size,
        )
        for architecture in plan.architectures
    }
