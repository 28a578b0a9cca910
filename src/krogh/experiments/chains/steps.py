"""Figures E.1 and E.2: the first two gradient steps of the minimal model, computed and trained.

From W = c11ᵀ, v = c1 the margin loss is linear in the logits, and its population gradient is known exactly (Lemma 8.4,
Lemma E.1). After one step the diagonal of W leads and v is largest at the token itself; after two, v is largest at the
token before, and even places have grown more than odd ones. The engine takes the same two steps, on samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, groups, need, setting
from krogh.lab.estimate import exact, largest, mean
from krogh.lab.experiment import Measures
from krogh.models import MinimalInduction
from krogh.tasks.chains import MarkovChains
from krogh.theory.chains.steps import closed_diagonal, closed_first_positions, closed_first_weights, first_and_second
from krogh.training import Online, Sgd, Stopping, Training

PLACES = 8
FEWEST = 10
SAMPLED = 100_000  # chains over which gradients are averaged for more than two symbols
SOURCE = "dissertation, Lemmas 8.4 and E.1, Figures E.1 and E.2"


@dataclass(frozen=True)
class Settings:
    ks: tuple[int, ...] = setting((2, 3, 4), "numbers of symbols k", distinct=True, least=2)
    length: int = setting(100, "tokens per sequence, t", least=4)
    start: float = setting(0.02, "initial value c of all weights", above=0)
    rate: float = setting(0.03, "learning rate η", above=0)
    batch_size: int = setting(2_048, "sequences of a step", least=1)
    seeds: int = setting(40, "trials, whose mean stands for the population", least=1)

    @property
    def margin(self) -> float:
        """Δ = 10 t² c², with which all hinges are active in both steps."""
        return 10 * self.length**2 * self.start**2


@experiment("chains/steps")
class Steps(Experiment[Settings]):
    """W and v after one and two steps: closed forms, the exact tensor, and training on samples."""

    title = "Two gradient steps: first the second layer, then the token before"
    question = "Do the first two steps of gradient descent already point to the induction head?"
    source = SOURCE
    scales = {
        "smoke": Settings(ks=(2,), length=8, batch_size=32, seeds=2),
        "laptop": Settings(ks=(2, 3), batch_size=512),
        "paper": Settings(),
    }
    notes = (
        "Three printing errors of E.37, E.38 and E.43 are repaired; with the printed sign of E.43 v_2 would not lead.",
        "The second step of a trained network starts from its own first step and not from the population's: its error "
        "is of second order in that of the first.",
    )
    keep_weights = True

    def trials(self, settings: Settings) -> Iterator[Trials]:
        stopping = Stopping(budget=2, check_every=1, validation=8, error=0.0, early=False)
        loss = f"multiclass-margin({settings.margin:g})"
        training = Training(Sgd(settings.rate), Online(settings.batch_size), stopping, loss)
        model = MinimalInduction(w=settings.start, v=settings.start)
        for k in settings.ks:
            trial = Trial(MarkovChains(k, settings.length), model, training, snapshots=(1, 2))
            yield from sweep(trial, seed=range(settings.seeds), label={"k": k})

    def measure(self, results: Results[Settings]) -> Measures:
        s = results.settings
        trained = [
            {"k": network.row["k"], "seed": network.seed, "step": step, **_numbers(network.at(step))}
            for network in results.networks()
            for step in (1, 2)
        ]
        computed = []
        for k in s.ks:
            found = first_and_second(k, s.length, s.start, s.rate, SAMPLED, 0)
            for step in (1, 2):
                numbers = _numbers({"W": found[f"W{step}"], "v": found[f"v{step}"]})
                computed.append({"k": k, "step": step, **numbers})
        return {
            "trained": pl.DataFrame(trained),
            "computed": pl.DataFrame(computed),
            "closed": pl.DataFrame([_closed(s)]) if 2 in s.ks else pl.DataFrame(),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        s = tables.settings
        places = [f"v{j}" for j in range(1, min(PLACES, s.length) + 1)]
        computed = {(row["k"], row["step"]): row for row in tables["computed"].iter_rows(named=True)}
        for k in s.ks:
            one, two = computed[k, 1], computed[k, 2]
            about = say.about(f"k{k}-", f"k = {k}: ")
            about(
                "diagonal",
                "after one step the diagonal of W has grown more than the rest.",
                exact((one["diagonal"] - s.start) / (one["rest"] - s.start), 1),
                "ratio of the increments, exactly",
                above=1.0,
                source_value="B/A → 3.98 for k = 2",
            )
            long = [need(s.length, 50, "tokens per sequence: the claim is for long ones")]
            for step, row, place in ((1, one, 1), (2, two, 2)):
                about(
                    f"largest-{step}",
                    f"after step {step} v is largest at place {place}.",
                    exact(float(np.argmax([row[name] for name in places]) + 1), 1),
                    "place of the largest entry of v, exactly",
                    needs=long if step == 2 else (),
                    between=(place - 0.5, place + 0.5),
                    source_value=f"v_{place} dominates",
                )
        if len(tables["closed"]):
            about = say.about("closed-", "k = 2: ")
            for name, words in (
                ("W1", "W after step 1"),
                ("v1", "v after step 1"),
                ("H", "the diagonal's part of step 2"),
            ):
                about(
                    name.lower(),
                    f"the closed form of {words} is the exact one.",
                    largest([float(tables["closed"][name][0])], trials=1),
                    "largest relative difference",
                    at_most=1e-8,
                    source_value="E.17, E.28, E.37, E.38 (repaired)",
                )
        for (k, step), rows in groups(tables["trained"], ("k", "step")).items():
            about = say.about(f"trained-k{k}-{step}-", needs=[need(len(rows), FEWEST, "trials")])
            for name, words in (("gap", "the gap between W's diagonal and the rest"), ("v2", "v_2")):
                wanted = computed[k, step][name]
                about(
                    name,
                    f"k = {k}, step {step}: training on samples moves {words} as computed, within 3%.",
                    (mean(rows[name].to_numpy(), sample=f"{k} {step}") - (s.start if name == "v2" else 0.0))
                    / (wanted - (s.start if name == "v2" else 0.0)),
                    "mean over trials of the increment / computed increment",
                    between=(0.97, 1.03),
                    source_value="Monte Carlo over 10,000 chains agrees",
                )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        s = tables.settings
        places = list(range(1, min(PLACES, s.length) + 1))
        chart = self.chart("steps", "v after one and two steps", columns=len(s.ks), width=4.4 * len(s.ks), height=3.6)
        trained, computed = groups(tables["trained"], ("k", "step")), groups(tables["computed"], ("k", "step"))
        for k in s.ks:
            panel = chart.panel(title=f"k = {k}", x="place j (1: the token itself)", y="v_j")
            for step in (1, 2):
                color, own = panel.color(), computed[k, step]
                values = [float(own[f"v{j}"][0]) for j in places]
                panel.line(places, values, f"step {step}, exact", color=color, style="-", key="legend")
                means = [trained[k, step][f"v{j}"].mean() for j in places]
                panel.dots(places, means, f"step {step}, trained", color=color)  # type: ignore[arg-type]
        yield chart.figure(
            f"v from W = c11ᵀ, v = c1 with c = {s.start:g}, η = {s.rate:g}, t = {s.length}: exact steps (lines) "
            f"and means over {s.seeds} trials of {s.batch_size} sequences a step (dots)."
        )


def _numbers(weights: dict[str, Any]) -> dict[str, float]:
    W, v = np.asarray(weights["W"], float), np.asarray(weights["v"], float)
    k = len(W)
    diagonal, rest = float(np.trace(W) / k), float((W.sum() - np.trace(W)) / (k * (k - 1)))
    return {"diagonal": diagonal, "rest": rest, "gap": diagonal - rest} | {
        f"v{j}": float(v[j - 1]) for j in range(1, min(PLACES, len(v)) + 1)
    }


def _closed(s: Settings) -> dict[str, float]:
    """The largest relative differences between closed forms and the exact tensor for two symbols."""
    found = first_and_second(2, s.length, s.start, s.rate, SAMPLED, 0)
    pairs = {
        "W1": (s.start + s.rate * s.start * closed_first_weights(s.length), found["W1"]),
        "v1": (s.start + s.rate * s.start * closed_first_positions(s.length), found["v1"]),
        "H": (closed_diagonal(s.length), found["H"]),
    }
    return {name: float(np.max(np.abs(a - b)) / np.max(np.abs(b))) for name, (a, b) in pairs.items()}
