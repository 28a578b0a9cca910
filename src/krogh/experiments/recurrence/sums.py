"""What the experiments on sums over tokens share: their settings, trials with targets of their own, and what is lost.

The source proposes no experiment; the settings are those in which its theorem can be watched on small machines (λ = 1,
half squares, batches of 16, η = c d/(λ² m L), W alone trained). Every seed has its own target, weights and data, and
the same target at every width and ε_x, so that ratios over widths are of the same functions.

Errors are shares of variance that are not explained, Σ_j E(y_j - F*_j)²/Σ_j Var F*_j (FVU), with the exact variance of
the target. A run that diverged has an infinite error.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial
from krogh.lab import Curve, Estimate, groups, median, setting
from krogh.lab.curves import curve
from krogh.models.elman import ElmanRnn
from krogh.probes import Objective, Probe, RecurrentMovement
from krogh.tasks.token_sums import SequenceSum, TokenSum
from krogh.training import Regime, Stopping
from krogh.training.recurrence import practical_training

SOURCE = "Can SGD learn recurrent neural networks with provable generalization?"
PROBES: tuple[Probe, ...] = (Objective(), RecurrentMovement())


@dataclass(frozen=True)
class SumSettings:
    """What experiments on token sums have in common."""

    length: int = setting(5, "positions L of a sequence, two of them without a token", least=3)
    dx: int = setting(3, "numbers of a token", least=2)
    phi: str = setting("z^2", "the function Φ of every pair of a token and a label")
    c: float = setting(0.5, "rate: η = c d/(λ² m L)", above=0)
    budget: int = setting(6000, "steps", least=1)
    batch_size: int = setting(16, "sequences per step", least=1)
    validation: int = setting(1000, "test sequences", least=2)
    looks: int = setting(30, "looks at the validation objective, over which iterates are averaged", least=1)
    seeds: int = setting(10, "targets, each with its own network", least=1)

    @property
    def look_every(self) -> int:
        """Steps between two looks: as many as divide the budget."""
        return next(
            step for step in range(max(1, self.budget // self.looks), self.budget + 1) if self.budget % step == 0
        )


@dataclass(frozen=True)
class LetterSettings(SumSettings):
    """What experiments on the letters of a string have in common."""

    width: int = setting(200, "neurons m", least=1)
    eps_x: float = setting(1.0, "size of tokens", above=0, most=1)
    c: float = setting(0.3, "rate: η = c d/(λ² m L)", above=0)
    looks: int = setting(20, "looks at the error", least=1)


def target(settings: SumSettings, seed: int, length: int | None = None, **options: Any) -> TokenSum:
    """The target of a seed: independent w* for every pair, without a last coordinate."""
    given: dict[str, Any] = {"phi": settings.phi, "seed": seed} | options
    return TokenSum.random(settings.length if length is None else length, settings.dx, **given)


def trial_of(
    settings: SumSettings,
    task: SequenceSum,
    width: int,
    seed: int,
    *,
    regime: Regime | None = None,
    budget: int | None = None,
    error: float = 0.0,
    early: bool = False,
    check_every: int | None = None,
    validation: int | str | None = None,
    c: float | None = None,
    probes: tuple[Probe, ...] = PROBES,
    probe_every: int = 0,
) -> Trial:
    """A network of this width on a task, with the practical preset of the source's reference."""
    steps = settings.budget if budget is None else budget
    stopping = Stopping(
        budget=steps,
        error=error,
        early=early,
        check_every=settings.look_every if check_every is None else check_every,
        validation=settings.validation if validation is None else validation,
    )
    labels = len(task.places)
    training = practical_training(
        settings.c if c is None else c, width, task.length, stopping, labels, task.outputs, regime=regime
    )
    model = ElmanRnn(width, reads=labels if task.every else 0)
    return Trial(task, model, training, seed=seed, probes=probes, probe_every=probe_every)


@functools.lru_cache(maxsize=4096)
def _variance(settings: SumSettings, seed: int, length: int | None, options: tuple[tuple[str, Any], ...]) -> float:
    return target(settings, seed, length, **dict(options)).baselines()["variance"]


def variance_of(settings: SumSettings, seed: int, length: int | None = None, **options: Any) -> float:
    """The mean over labels of the variance of a seed's target."""
    return _variance(settings, seed, length, tuple(sorted(options.items())))


def losses(trials: pl.DataFrame, variance: Callable[[dict[str, Any]], float], keep: Sequence[str]) -> pl.DataFrame:
    """A row per trial: these columns, the FVU at the end and over iterates, movement and flips at the end.

    `fvu_average` is the mean over looks of the error before the end, as the theorem has its risk; it is NaN without a
    curve.
    """
    rows = []
    for row in trials.iter_rows(named=True):
        scale, fine = variance(row), row["outcome"] != "diverged" and row["error"] is not None
        error = float(row["error"]) if fine else math.inf
        made = {name: row[name] for name in keep} | {"fvu": error / scale, "variance": scale}
        shares = row.get("curve.unexplained")
        made["fvu_average"] = math.nan if shares is None else (float(np.mean(shares[:-1])) if fine else math.inf)
        for name in ("moved_W", "moved_W_spectral", "flipped"):
            seen = row.get(f"curve.{name}")
            made[name] = math.nan if seen is None else float(seen[-1])
        rows.append(made)
    return pl.DataFrame(rows, infer_schema_length=None)


def medians(rows: pl.DataFrame, x: str, y: str = "fvu") -> Curve:
    """The median of a column over seeds at each x, with intervals by order statistics."""
    return curve(
        {
            place: median(own[y].to_numpy(), lowest=0.0, sample=f"{x}={place}, {y}")
            for place, own in groups(rows, x).items()
        }
    )


def ratio(rows: pl.DataFrame, x: str, above: Any, below: Any, y: str = "fvu") -> Estimate:
    """The median over seeds of y at x = `above` over y at x = `below`, of the same targets."""
    one, other = (rows.filter(pl.col(x) == place).sort("seed") for place in (above, below))
    both = one.join(other, on="seed", suffix="_below")
    nothing = f"no seed at both {x} = {above} and {below}"
    values = both[y].to_numpy() / both[f"{y}_below"].to_numpy() if len(both) else []
    return median(values, lowest=0.0, sample=f"{y}: {x}={above} over {below}", nothing=nothing)


def falling(values: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """Neighbours (larger, smaller) of increasing values."""
    return tuple(zip(values[1:], values[:-1], strict=True))
