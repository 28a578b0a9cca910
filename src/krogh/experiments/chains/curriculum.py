"""Propositions 8.5 and E.3 (proposed demonstration): two steps on two priors count bigrams; what the print leaves out.

Step 1 on flat chains, step 2 on chains near the uniform one with all weights decayed: as t grows, W tends to a multiple
of the identity and v to even places alone, led by the token before. The printed proof drops t terms of order 1/t, whose
sum does not vanish: a unigram-like background, unless the start is balanced. Everything here is exact arithmetic.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, groups, need, setting
from krogh.lab.estimate import exact, largest, least
from krogh.lab.experiment import Measures
from krogh.theory.chains.curriculum import BALANCED, curriculum, two_steps

KAPPA_1, KAPPA_2, V_INIT = 6.0, 1.0, 1.0


@dataclass(frozen=True)
class Settings:
    lengths: tuple[int, ...] = setting((50, 100, 200, 400), "tokens per sequence, t", increasing=True, least=4)
    widths: tuple[float, ...] = setting((0.1, 0.25, 0.4), "ε of the second prior", increasing=True, above=0, below=0.5)
    starts: tuple[str, ...] = setting(("1", "0", BALANCED), "initial entries of W", distinct=True)


@experiment("chains/curriculum")
class ChainCurriculum(Experiment[Settings]):
    """Exact two-step descent for several lengths, beside its limit."""

    title = "Two steps on two priors find the bigram counter, and a background that the proof drops"
    question = "Does the two-step curriculum end at bigram counts when sequences are long, as Proposition 8.5 says?"
    source = "dissertation, Propositions 8.5 and E.3 (a proposed demonstration)"
    scales = {
        "smoke": Settings(lengths=(8, 16), widths=(0.25,)),
        "laptop": Settings(),
        "paper": Settings(lengths=(50, 100, 200, 400, 800)),
    }
    notes = (
        "κ_1 = 6, κ_2 = 1 and v_init = 1. The control has its second step on flat chains too.",
        "§8.3.2 says the first rate must be the larger; the proposition has η_1 = O(1/t²) and η_2 = O(1/t), and is "
        "followed.",
    )

    def measure(self, results: Results[Settings]) -> Measures:
        s, rows = results.settings, []
        for t, eps, start in itertools.product(s.lengths, s.widths, s.starts):
            found = curriculum(t, eps, start, V_INIT, KAPPA_1, KAPPA_2)
            predicted = found["v_limit"][1] + found["v_background"][1]
            rows.append(
                {
                    "t": t,
                    "eps": eps,
                    "start": start,
                    "W_error": found["W_diagonal"] / found["W_limit"] - 1,
                    "W_rest": abs(found["W_off_diagonal"]) / found["W_diagonal"],
                    "v2_error": found["v"][1] / predicted - 1,
                    "v1_over_v2": found["v"][0] / found["v"][1],
                    "v4_over_v2": found["v4_to_v2"],
                    "largest": found["largest_v"],
                    "background": found["background_ratio"],
                    "excess": found["background_ratio"] - even_remainder(eps),
                }
            )
        control = [
            {"t": t, "largest": int(np.argmax(two_steps(t, 1.0, V_INIT, KAPPA_1, KAPPA_2, None)[-1][1])) + 1}
            for t in s.lengths
        ]
        return {"steps": pl.DataFrame(rows), "control": pl.DataFrame(control)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        s, table = tables.settings, tables["steps"]
        last = table.filter(pl.col("t") == s.lengths[-1])
        say = say.about(needs=[need(s.lengths[-1], 200, "tokens in the longest sequences")])
        say(
            "one-back",
            "v is largest at the token before, for every ε, t and start.",
            largest((table["largest"] - 2).abs().to_numpy(), trials=len(table)),
            "largest |place of the largest entry − 2|",
            at_most=0,
            source_value="v_2 dominates",
        )
        say(
            "diagonal",
            f"t = {s.lengths[-1]}: W is diagonal, the rest below 1% of it.",
            largest(last["W_rest"].to_numpy(), trials=len(last)),
            "largest |rest of W| / diagonal",
            at_most=0.01,
            source_value="W → w(ε) I",
        )
        for name, words in (("W_error", "the diagonal of W"), ("v2_error", "v_2 (limit and background)")):
            errors = {t: float(rows[name].abs().max()) for t, rows in groups(table, "t").items()}  # type: ignore[arg-type]
            say(
                name.replace("_", "-").lower(),
                f"{words} tends to its limit like 1/t: doubling t halves the deviation at least nearly.",
                exact(errors[s.lengths[-1]] / errors[s.lengths[-2]], len(last)),
                f"largest deviation at t = {s.lengths[-1]} / at t = {s.lengths[-2]}",
                at_most=0.65,
                source_value="O(1/t)",
            )
        plain = table.filter(pl.col("start") != BALANCED)
        far = plain.filter(pl.col("t") == s.lengths[-1])
        if len(far):
            say(
                "background",
                "Without a balanced start the background does not vanish: other entries of v add up to at least v_2.",
                least(far["background"].to_numpy(), trials=len(far)),
                f"least Σ_(j≠2,4) v_j / v_2 at t = {s.lengths[-1]}",
                at_least=1.0,
                source_value="negligible, by the print",
            )
        even = table.filter(pl.col("start") == BALANCED)
        if len(even):
            ends = [float(rows["excess"].abs().max()) for _, rows in groups(even, "t").items()]  # type: ignore[arg-type]
            say(
                "balanced",
                "With a balanced start only what the limit itself has at even places j ≥ 6 is left: the excess falls.",
                exact(ends[-1] / ends[0], len(even)),
                f"largest |background − that of the limit| at t = {s.lengths[-1]} / at t = {s.lengths[0]}",
                at_most=0.5,
            )
        say(
            "needs-both",
            "With the second step on flat chains too, v_2 still leads.",
            exact(float(tables["control"]["largest"][-1]), 1),
            f"place of the largest entry of v in the control, t = {s.lengths[-1]}",
            between=(1.5, 2.5),
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        s = tables.settings
        chart = self.chart("curriculum", "Two steps on two priors", columns=3, width=12.6, height=3.6)
        for column, words, log in (
            ("v1_over_v2", "v_1 / v_2", "xy"),
            ("background", "Σ_(j≠2,4) v_j / v_2", "x"),
            ("W_rest", "|rest of W| / diagonal", "x"),
        ):
            panel = chart.panel(x="tokens per sequence t", y=words, log=log, xticks=s.lengths)
            for (eps, start), rows in groups(tables["steps"], ("eps", "start")).items():
                panel.line(rows["t"], rows[column].abs(), f"ε = {eps:g}, w = {start}", style="-", key="legend")
        yield chart.figure(
            "Exact two-step descent: the token itself against the one before, the sum of all other places, and what is "
            "left beside the diagonal of W."
        )


def even_remainder(eps: float, places: int = 400) -> float:
    """Σ_{even j ≥ 6} v_j / v_2 of the limit, where v_j ∝ 2^j ε^j/(j+1): what is there besides places 2 and 4."""
    j = np.arange(6, places, 2)
    return float(np.sum(3 * (2 * eps) ** (j - 2.0) / (j + 1)))
