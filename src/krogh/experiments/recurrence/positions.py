"""Equal letters at different places: one matrix, to which no position is given, tells them apart (footnote 6).

AAAB and AABA have the same letters. With the label Σ_i c_i 1[x_i = B] and distinct c_i a network must weigh a letter by
its place, which it knows only by what the state has become since. All strings of a length can be listed, so what is
measured is exact: every pair of strings with equally many Bs and unequal labels is ranked.

A second set of runs sees a sample of the strings alone, and is judged on the strings that it has not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from krogh.engine import Trials
from krogh.engine.trial import DATA
from krogh.experiments.recurrence.common import FEWEST_SEEDS, cohorts, weights_of
from krogh.experiments.recurrence.sums import SOURCE, LetterSettings, trial_of
from krogh.lab import Claims, Experiment, Figure, Network, Results, Tables, experiment, figures, median, need, setting
from krogh.lab.estimate import largest
from krogh.lab.experiment import Measures
from krogh.tasks.letters import LetterPositions
from krogh.training import Resampled

ALL, SAMPLE = "all strings", "a sample of them"
LETTERS = 6


@dataclass(frozen=True)
class Settings(LetterSettings):
    length: int = setting(LETTERS + 2, "positions L: letters and two more", least=4, most=14)
    sample: int = setting(62, "draws of the sample: of 64 strings about 40 are among them", least=1)


@experiment("recurrence/positions")
class Positions(Experiment[Settings]):
    """Strings of equal letters ranked by a network that is given no positions."""

    title = "A recurrent network tells equal letters at different places apart"
    question = "Can one recurrent matrix weigh a letter by its position, which it is not given?"
    source = f"{SOURCE}, footnote 6"
    scales = {
        "smoke": Settings(length=6, width=16, budget=20, looks=2, seeds=2, sample=12),
        "laptop": Settings(seeds=6),
        "paper": Settings(width=1000, seeds=20),
    }
    keep_weights = True
    notes = (
        "Proposed. Batches are drawn uniformly from all strings; the rate is η = 0.3 d/(m L), W alone is trained.",
        "A sample of 62 draws from 64 strings holds about 40 of them; the rest is what is held out.",
    )

    def trials(self, settings: Settings) -> Iterator[Trials]:
        task = LetterPositions(settings.length, eps_x=settings.eps_x)
        for strings, regime in ((ALL, None), (SAMPLE, Resampled(settings.sample, settings.batch_size))):
            runs = [
                trial_of(settings, task, settings.width, seed, regime=regime, validation="exact")
                for seed in range(settings.seeds)
            ]
            yield from cohorts(runs, strings=strings)

    def measure(self, results: Results[Settings]) -> Measures:
        return {"ranked": pl.DataFrame([ranked(one) for one in results.networks()], infer_schema_length=None)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, rows = tables.settings, tables["ranked"]
        whole, held = rows.filter(strings=ALL), rows.filter(strings=SAMPLE)
        say = say.about(
            needs=[need(settings.seeds, FEWEST_SEEDS, "seeds"), need(settings.length - 2, LETTERS, "letters")]
        )
        say(
            "ranked",
            f"Trained on all strings, no network ranks any of {whole['pairs'].to_numpy().max()} pairs with equal "
            "letters and unequal labels wrongly.",
            largest(whole["wrong"].to_numpy(), sample="ranked"),
            "largest over seeds of the number of pairs in the wrong order",
            at_most=0,
            source_value="reference 0 of 402",
        )
        say(
            "fitted",
            "It explains all but a thousandth of the variance.",
            median(whole["fvu"].to_numpy(), lowest=0.0, sample="fitted"),
            "median FVU over all strings",
            below=1e-3,
            source_value="reference 1.2e-4",
        )
        say(
            "held-out",
            "Strings that were not in a small sample are another matter: more than 1% of the variance is left on them.",
            median(held["fvu_unseen"].to_numpy(), lowest=0.0, sample="held out"),
            "median FVU over strings that were not seen",
            above=0.01,
            source_value="reference 0.2 with 40 of 64 strings",
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, rows = tables.settings, tables["ranked"]
        chart = self.chart("positions", self.title, columns=2, height=4.0)
        panel = chart.panel(title="Every string, one network", x="label", y="network's answer")
        first = rows.filter(strings=ALL)[0]
        truth, said = (np.asarray(first[name][0]) for name in ("truth", "said"))
        panel.line(
            truth[[truth.argmin(), truth.argmax()]], truth[[truth.argmin(), truth.argmax()]], color=figures.MUTED
        )
        panel.dots(truth, said, f"{len(truth)} strings", color=figures.BLUE)
        panel = chart.panel(title="Share of variance left", y="FVU", log="y")
        for place, (name, column, strings) in enumerate(
            (("all seen", "fvu", ALL), ("sample: seen", "fvu_seen", SAMPLE), ("sample: unseen", "fvu_unseen", SAMPLE))
        ):
            own = rows.filter(strings=strings)[column].to_numpy()
            panel.dots(np.full(len(own), place), own, name)
        panel.ax.set_xticks([])
        yield chart.figure(
            f"Labels Σ c_i 1[x_i = b] with c_i = i/{settings.length - 2} for all {2 ** (settings.length - 2)} "
            f"strings; m = {settings.width}, {settings.budget:,} steps of {settings.batch_size}. Right: one per seed.",
            rows.drop("truth", "said"),
        )


def ranked(one: Network) -> dict[str, Any]:
    """What a network makes of every string: FVU, pairs in the wrong order, and the same for strings it has not seen."""
    task, row = one.trial.task, one.row
    assert isinstance(task, LetterPositions)
    population = task.population()
    every = task.decode(population)
    truth = np.asarray(every.truth, np.float64)
    if one.final is None:
        said = np.full(truth.shape, np.nan)
    else:
        said = np.asarray(one.trial.model.predict(weights_of(one.final), every.x), np.float64)
    lost = (said - truth) ** 2 / truth.var()
    bits = np.asarray(population.tokens)
    seen = np.ones(len(bits), bool)
    if one.trial.training.regime.finite:
        drawn = np.asarray(one.trial.training.regime.whole(task, one.trial.key(DATA)).tokens)
        seen = np.isin(codes(bits), codes(drawn))
    wrong, pairs = wrong_pairs(bits, truth, said)
    return {
        "strings": row["strings"],
        "seed": row["seed"],
        "fvu": float(lost.mean()),
        "fvu_seen": float(lost[seen].mean()),
        "fvu_unseen": float(lost[~seen].mean()) if (~seen).any() else np.nan,
        "seen": int(seen.sum()),
        "wrong": wrong,
        "pairs": pairs,
        "truth": truth.tolist(),
        "said": said.tolist(),
    }


def codes(bits: NDArray[Any]) -> NDArray[np.int64]:
    """Strings as numbers."""
    return (bits.astype(np.int64) << np.arange(bits.shape[1])).sum(axis=1)


def wrong_pairs(bits: NDArray[Any], truth: NDArray[Any], said: NDArray[Any]) -> tuple[int, int]:
    """How many pairs of strings with equal letters and unequal labels are not in order, and how many there are."""
    count = bits.sum(axis=1)
    gap = truth[:, None] - truth[None, :]
    asked = (count[:, None] == count[None, :]) & (gap > 1e-6)
    right = said[:, None] > said[None, :]
    return int((asked & ~right).sum()), int(asked.sum())
