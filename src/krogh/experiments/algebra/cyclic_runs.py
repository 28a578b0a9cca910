"""How networks of large margin are trained and read back, and what several seeds say together.

All are trained by gradient descent on cross-entropy plus λ Σ_i ‖ω_i‖^ν over the whole table, with a rate that is
doubled at stated steps (`MarginPreset`); their final weights are kept, and measured in float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.engine import Trial, Trials
from krogh.errors import require, require_integer
from krogh.lab import Claim, Results, claim
from krogh.lab.statistics import Interval, quantile_interval
from krogh.models.pair_network import PairNetwork
from krogh.probes.base import Probe
from krogh.tasks.composition import GroupComposition
from krogh.theory.margins import arrays_of, max_margin_cyclic
from krogh.theory.margins.networks import Network
from krogh.training.presets import MarginPreset

Array = NDArray[np.float64]

FEWEST = 6  # seeds from which on the range of all is a 95% interval of the median, whatever the law
TOLERANCE = 1e-4  # by which float32 may exceed an exact maximum


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A trial with its weights before and after, in float64, and its curve; no `network` where training diverged."""

    trial: Trial
    seed: int
    initial: Network
    network: Network | None
    curve: dict[str, Array]


def trained_networks(results: Results[Any], cohorts: Iterable[Trials]) -> list[TrainedNetwork]:
    """The trained networks of some cohorts, in the order of their trials."""
    rows = {row["id"]: row for row in results.table.iter_rows(named=True)}
    return [
        _read(results, rows[identity], trial, identity)
        for cohort in cohorts
        for trial, identity in zip(cohort, cohort.ids().tolist(), strict=True)
    ]


def _read(results: Results[Any], row: dict[str, Any], trial: Trial, identity: int) -> TrainedNetwork:
    curve = {
        name.removeprefix("curve."): np.asarray(values, np.float64)
        for name, values in row.items()
        if name.startswith("curve.") and values is not None
    }
    diverged = row["outcome"] == "diverged"
    return TrainedNetwork(
        trial,
        int(row["seed"]),
        arrays_of(trial.model, trial.initial_params()),
        None if diverged else arrays_of(trial.model, results.weights(identity)),
        curve,
    )


def doubling_preset(
    p: int,
    width: int,
    steps: int,
    rate: float,
    weight: float,
    doubled_every: int,
    doublings: int,
    activation: str = "quadratic",
) -> MarginPreset:
    """Addition modulo p with a rate doubled `doublings` times, once every `doubled_every` steps."""
    require_integer("p", p, 3)
    require_integer("doublings", doublings, 0)
    require_integer("doubled_every", doubled_every, 1)
    doubled_at = tuple(doubled_every * (number + 1) for number in range(doublings))
    return MarginPreset(f"Z_{p}", width, steps, rate, doubled_at, weight, activation=activation)


def addition_trial(preset: MarginPreset, probe_every: int, probes: tuple[Probe, ...]) -> Trial:
    """A pair network that is to learn a table from all of it."""
    model = PairNetwork(preset.width, preset.activation)
    return Trial(GroupComposition(preset.task), model, preset.training(probe_every), probes=probes)


def require_alike(**tuples: Sequence[Any]) -> None:
    """Require tuples of one length, at least 1: what stands at one place belongs together."""
    lengths = {name: len(values) for name, values in tuples.items()}
    alike = len(set(lengths.values())) == 1 and min(lengths.values()) >= 1
    got = ", ".join(f"{name}={tuple(values)}" for name, values in tuples.items())
    require(alike, f"{', '.join(lengths)} must have one length, one entry per run; got {got}")


def check_modulus(p: int, weight: float) -> None:
    """Refuse an even p, which has a frequency that is its own conjugate, and a λ that leaves nothing but zero."""
    require_integer("p", p, 3)
    require(p % 2 == 1, f"Theorem 7.7 is about odd p; got p={p} (try p={p - 1} or {p + 1})")
    require(
        math.isfinite(weight) and 0 < weight < max_margin_cyclic(p).value * (p - 1) / p,
        f"weight must be positive and below γ*(p-1)/p = {max_margin_cyclic(p).value * (p - 1) / p:.4g}, from which on "
        f"the zero network is optimal for p={p}; got weight={weight!r}",
    )


# --- verdicts -------------------------------------------------------------------------------------------------


def over_seeds(values: ArrayLike, worst: float) -> Interval:
    """The median over seeds; a network that diverged (nan) counts as `worst`."""
    numbers = np.asarray(values, np.float64)
    if not len(numbers):
        return Interval(math.nan, math.nan, math.nan, 0.0, "no network")
    numbers = np.where(np.isnan(numbers), worst, numbers)
    low, high = float(numbers.min()), float(numbers.max())
    if len(numbers) < FEWEST or not math.isfinite(low):
        ordered = np.sort(numbers)
        return Interval(float(ordered[(len(ordered) - 1) // 2]), low, high, 0.0, "range")
    above = quantile_interval(numbers - low)  # which is made for times ≥ 0
    return Interval(above.value + low, above.low + low, above.high + low, above.level, above.method)


def median_claim(
    name: str,
    statement: str,
    statistic: str,
    values: ArrayLike,
    *,
    source: str,
    source_value: str = "",
    fewest: int = FEWEST,
    **bound: Any,
) -> Claim:
    """A claim about the median over seeds, decided from `fewest` seeds on: 1 where no seed can change a network."""
    count = len(np.asarray(values))
    worst = math.inf if "at_most" in bound else -math.inf
    return claim(
        name,
        statement,
        source=source,
        statistic=statistic if fewest == 1 else f"median over seeds of {statistic}",
        interval=over_seeds(values, worst),
        trials=count,
        enough=count >= fewest,
        too_small=f"{count} seeds; a verdict needs {fewest}",
        source_value=source_value,
        **bound,
    )


def never_exceeded(name: str, ratios: Iterable[ArrayLike], gamma: str, source: str) -> Claim:
    """The hard invariant: no normalised margin, of any seed at any step, exceeds the maximum. One would refute it."""
    every = [np.asarray(ratio, np.float64) for ratio in ratios]
    found = [float(np.nanmax(ratio)) for ratio in every if np.isfinite(ratio).any()]
    largest = max(found, default=math.nan)
    return claim(
        name,
        f"No network has a normalised margin above {gamma}, at any step.",
        source=source,
        statistic="largest normalised margin over γ*, all seeds and steps",
        interval=Interval(largest, largest, largest, 1.0, f"the largest of {sum(ratio.size for ratio in every)}"),
        at_most=1 + TOLERANCE,
        trials=len(every),
        source_value="an upper bound",
    )
