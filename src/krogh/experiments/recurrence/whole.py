"""What experiments on functions of whole sequences share: the network as the practical preset trains it, and its FVU.

FVU is the share of the label's variance that is left unexplained: the squared error at the end over the variance, which
is known in closed form for polynomial targets. The additive floor is the least FVU of any sum over tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials
from krogh.errors import require
from krogh.experiments.recurrence.common import additive_training, check_looks, cohorts
from krogh.lab import Results, look_table, setting
from krogh.models.additive import Additive
from krogh.models.elman import ElmanRnn
from krogh.probes.progress import Error
from krogh.tasks.base import Task
from krogh.tasks.series import find_series
from krogh.tasks.whole_sequence import WholeSequence
from krogh.training import Regime, Stopping
from krogh.training.recurrence import whole_training

RNN_PAPER = "Learning and Generalization in RNNs"
NO_EXPERIMENTS = "The source proves this and has no such experiment; setting and thresholds are proposed here."
PRESET = (
    "Batches of 16, SGD on (1/2)(y - f)² with rate c/(m L), c = 0.3, W and A trained and B left as it is drawn. "
    "krogh's square loss has no 1/2, so that its rate is half of this."
)


@dataclass(frozen=True)
class WholeSettings:
    """Targets (⟨w, x⟩)² of random unit w, another one for every seed, and how networks are trained on them."""

    length: int = setting(5, "vectors L of a sequence, both ends counted", least=3)
    dx: int = setting(3, "numbers of a token", least=2)
    function: str = setting("z^2", "Φ")
    c: float = setting(0.3, "the rate is c/(m L)", above=0)
    steps: int = setting(6_000, "steps of every trial", least=1)
    look_every: int = setting(20, "steps between two looks", least=1)
    validation: int = setting(4096, "sequences on which errors are measured", least=1)
    seeds: int = setting(6, "targets, each with a network of its own", least=1)

    def task(self, seed: int, **options: Any) -> WholeSequence:
        """The target of a seed."""
        return WholeSequence.random(self.length, self.dx, seed=seed, **{"functions": self.function, **options})

    def check_looks(self) -> None:
        check_looks(self.steps, self.look_every)
        known = self.task(0).baselines()
        require(known, f"the variance of {self.function!r} has no closed form here (try a polynomial such as 'z^2')")

    def stopping(self) -> Stopping:
        """The whole budget, looked at now and then."""
        return Stopping(budget=self.steps, error=0.0, check_every=self.look_every, validation=self.validation,
                        early=False)  # fmt: skip

    def network(
        self,
        task: Task,
        width: int,
        seed: int,
        *,
        trained: Sequence[str] = ("A", "W"),
        regime: Regime | None = None,
        probes: tuple[Any, ...] = (Error(),),
    ) -> Trial:
        """A network of this width on a task."""
        reads = self.length - 2 if getattr(task, "every_step", False) else 0
        model = ElmanRnn(width, reads=reads)
        training = whole_training(task, model, self.stopping(), trained=trained, c=self.c, regime=regime)
        return Trial(task, model, training, seed=seed, probes=probes)

    def networks(self, label: dict[str, Any], width: int, options: dict[str, Any], **how: Any) -> list[Trials]:
        """A network for every seed, each on its own target, as one cohort."""
        trials = (self.network(self.task(seed, **options), width, seed, **how) for seed in range(self.seeds))
        return cohorts(trials, **label)

    def additive(self, label: dict[str, Any], samples: int, options: dict[str, Any]) -> list[Trials]:
        """The best sum over tokens of a sample, on the same targets."""
        training = additive_training(samples, self.validation)
        degree = int(find_series(self.function).degree or 1)  # E[y | one token] is a polynomial of that degree
        trials = (
            Trial(self.task(seed, **options), Additive(degree), training, seed=seed) for seed in range(self.seeds)
        )
        return cohorts(trials, **label)


def fvu_table(results: Results[Any], labels: Sequence[str]) -> pl.DataFrame:
    """A row per trial: labels, seed, FVU at the end, its average over all looks, and the additive floor.

    The average is over the looks at steps 0, k, 2k, ..., T-k: that over iterates, of which the theorem speaks. A
    network that diverged has FVU ∞.
    """
    settings: WholeSettings = results.settings
    known = {seed: settings.task(seed).baselines() for seed in range(settings.seeds)}
    rows = []
    for row in results.table.iter_rows(named=True):
        facts = known[int(row["seed"])]
        curve = row.get("curve.error")
        average = np.nan if curve is None else float(np.mean(curve[:-1])) / facts["label_variance"]
        error = row["error"]
        lost = row["outcome"] == "diverged"
        rows.append(
            {
                **{name: row[name] for name in labels},
                "seed": int(row["seed"]),
                "fvu": np.inf if lost else error / facts["label_variance"],
                "average": np.inf if lost else average,
                "floor": facts["additive_floor"],
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


def curve_rows(results: Results[Any], labels: Sequence[str]) -> pl.DataFrame:
    """FVU over training: a row per network and look."""
    settings: WholeSettings = results.settings
    known = {seed: settings.task(seed).baselines()["label_variance"] for seed in range(settings.seeds)}
    looks = look_table(results.table, *labels, "seed", columns=["error"])
    return looks.with_columns(fvu=pl.col("error") / pl.col("seed").replace_strict(known)).drop("error")
