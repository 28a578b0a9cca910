"""Theorem 7.1: as λ falls, the normalised margin of the regularised optimum tends to γ*. What it is before is known.

The exact optimum at finite λ has the normalised margin γ* for every λ where all irreps have one dimension (Z_p for odd
p), and less elsewhere, rising as 1/log(1/λ). From a threshold on it is the zero network. Networks are trained at λ from
far below the threshold to above it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, stack
from krogh.experiments.algebra.common import (
    FEWEST,
    GroupTraining,
    MedianClaims,
    Plan,
    check_interval,
    final_arrays,
    plan_of,
)
from krogh.lab import Chart, Claims, Experiment, Figure, Results, Tables, experiment, figures, groups, need, setting
from krogh.lab.charts import Panel
from krogh.lab.estimate import Estimate, maximum, median
from krogh.lab.experiment import Measures
from krogh.networks.groups.arrays import Network as Arrays
from krogh.networks.groups.measures import cross_entropy, normalised_margin
from krogh.probes.features.distance import margin_distance
from krogh.programs.groups import load_group
from krogh.theory.groups.finite import finite_lambda
from krogh.training import Piecewise
from krogh.values import replaced

WITHIN, COLLAPSED = 0.01, 0.01
UNBIASED, NO_MARGIN = 0.999, 0.01
SETTLED = 150.0
"""Longer than elsewhere: near the threshold the last percent comes slowly."""
FINE = 120
"""Points of the theory's curve."""
DISTANCES = {"neurons": "distance of neurons", "shares": "distance of shares", "function": "distance of function"}


@dataclass(frozen=True)
class Settings:
    groups: tuple[str, ...] = setting(
        ("S_3", "Z_11"), "groups by name, or files that hold a Cayley table", distinct=True
    )
    lams: tuple[float, ...] = setting(
        (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 5e-3, 9e-3, 3e-2),
        "λ of the penalty λ Σ‖ω_i‖³",
        increasing=True,
        fewest=2,
        above=0,
    )
    seeds: int = setting(15, "networks of each group and λ", least=1)
    steps: int | None = setting(None, "steps of gradient descent; none for until neurons have settled, by λ", least=1)
    doubled_every: int | None = setting(None, "steps between two doublings of the rate; none for 200", least=1)


@experiment("algebra/regularisation")
class Regularisation(Experiment[Settings]):
    """The normalised margin of trained networks against λ, beside the exact optimum's."""

    title = "The weaker the regularisation, the nearer the margin to its maximum"
    question = "How does the normalised margin of trained networks depend on λ, and where do they collapse?"
    source = "dissertation, Theorem 7.1"
    scales = {
        "smoke": Settings(groups=("S_3",), lams=(1e-3, 9e-2), seeds=2, steps=500, doubled_every=30),
        "laptop": Settings(),
        "paper": Settings(),
    }
    notes = (
        "Proposed with the theory; the source states the limit λ → 0 alone, and proves it for exact optima.",
        "The penalty's exponent is ν = 3. The final rate falls as λ grows, so that rate·λ stays below 0.004.",
    )
    keep_weights = True

    def trials(self, settings: Settings) -> Iterator[Trials]:
        """A cohort per group with all its λ: rates, schedules, steps and λ are numbers, not structure."""
        for group in settings.groups:
            plans = plans_of(settings, group)
            most = max(len(plan.preset.doubled_at) for plan in plans)
            every = check_interval(math.gcd(*(plan.preset.steps for plan in plans)))
            trials = [_trial(plan, most, every, seed) for plan in plans for seed in range(settings.seeds)]
            yield from (cohort.labelled(group=group) for cohort in stack(trials))

    def measure(self, results: Results[Settings]) -> Measures:
        return {"networks": lambda: networks_of(results), "optimum": lambda: optimum_of(results.settings)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        for group, table in groups(tables["networks"], "group").items():
            part = say.about(f"{group}-", f"{group}: ")
            # Just below the threshold the optimum may use irreps that do not tell all elements apart: without a margin.
            learned = table.filter(~pl.col("zero"), pl.col("optimum_ratio") > NO_MARGIN)
            if len(learned):
                say_learned(part, learned)
            zero = table.filter("zero")
            if len(zero):
                say_collapse(part, zero)

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        yield _margins(tables, self.source)
        yield _distances(tables, self.source)


def plans_of(settings: Settings, group: str) -> list[Plan]:
    """The training of one group at each λ."""
    asked = [GroupTraining(lam, steps=settings.steps, doubled_every=settings.doubled_every) for lam in settings.lams]
    return [plan_of(group, one, collapsing=True, relaxations=SETTLED) for one in asked]


def _trial(plan: Plan, most: int, every: int, seed: int) -> Trial:
    trial = replaced(plan.trial(), "training.stopping.check_every", every)
    schedule = padded_doublings(plan.preset.doubled_at, most)
    changed: Trial = replaced(replaced(trial, "training.optimiser.schedule", schedule), "seed", seed)
    return changed


def padded_doublings(doubled_at: tuple[int, ...], count: int) -> Piecewise:
    """The same schedule with `count` boundaries, the last of them without effect: schedules of one shape stack."""
    last = doubled_at[-1] if doubled_at else 0
    extra = range(last + 1, last + 1 + count - len(doubled_at))
    factors = 2.0 ** np.minimum(np.arange(count + 1), len(doubled_at))
    return Piecewise(np.array([*doubled_at, *extra], np.int64), factors)


# --- what is measured -----------------------------------------------------------------------------------------


def networks_of(results: Results[Settings]) -> pl.DataFrame:
    """One row per network: what it reached, and what the exact optimum at its λ has; nan where training diverged."""
    settings, rows = results.settings, []
    for group in settings.groups:
        plans = [plan for plan in plans_of(settings, group) for _ in range(settings.seeds)]
        for plan, network in zip(plans, results.networks(group=group), strict=True):
            head = {"group": group, "lam": plan.lam, "seed": network.seed}
            rows.append(head | _measures(plan, final_arrays(network)))
    return pl.DataFrame(rows)


def _measures(plan: Plan, network: Arrays | None) -> dict[str, Any]:
    """A network at its λ, and the exact optimum there."""
    alive = network if network is not None and np.any(network.neurons) else None
    near = None if alive is None or plan.optimum.zero else margin_distance(alive, plan.group, plan.lam)
    return {
        "ratio": math.nan if alive is None else normalised_margin(alive, plan.group) / plan.best.value,
        "cross_entropy": math.nan if network is None else cross_entropy(network, plan.group),
        **{name: math.nan if near is None else getattr(near, name) for name in DISTANCES},
        "largest_weight": math.nan if network is None else float(np.abs(network.neurons).max()),
        "optimum_ratio": plan.optimum.ratio,
        "optimum_cross_entropy": plan.optimum.cross_entropy,
        "threshold": plan.optimum.threshold,
        "zero": plan.optimum.zero,
        "max_margin": plan.best.value,
        "order": plan.group.order,
    }


def optimum_of(settings: Settings) -> pl.DataFrame:
    """The exact optimum of every group on a fine grid of λ."""
    rows = []
    for name in settings.groups:
        group = load_group(name)
        threshold = finite_lambda(group, settings.lams[0]).threshold
        for lam in np.geomspace(settings.lams[0], max(settings.lams[-1], 1.2 * threshold), FINE).tolist():
            optimum = finite_lambda(group, lam)
            rows.append({"group": name, "lam": lam, "ratio": optimum.ratio, "cross_entropy": optimum.cross_entropy})
    return pl.DataFrame(rows)


# --- what is claimed ------------------------------------------------------------------------------------------


def say_learned(say: Claims, table: pl.DataFrame) -> None:
    """What networks show at λ whose optimum has a margin."""
    claim = MedianClaims(say, table)
    claim.bound(f"γ* = {table['max_margin'][0]:.5g}", column="ratio")
    say(
        "optimum",
        f"at every λ below the threshold ({_listed(table)}) the normalised margin is that of the exact optimum.",
        deviation(table),
        "largest over λ of the median over seeds of |normalised margin / optimum's − 1|",
        at_most=WITHIN,
        source_value="tends to γ* as λ → 0; the value at finite λ is derived",
        needs=[need(table["seed"].n_unique(), FEWEST, "seeds")],
    )
    least, most = (float(end(table["optimum_ratio"].to_numpy())) for end in (np.min, np.max))
    if table["lam"].n_unique() < 2 or least > UNBIASED:
        return
    by_seed = groups(table.sort("lam"), "seed").values()
    claim(
        "rises",
        f"it rises as λ falls, from {least:.3g} of γ* to {most:.3g} at the exact optimum.",
        [float(np.min(-np.diff(own["ratio"].to_numpy()))) for own in by_seed],
        "least rise of normalised margin over γ* from one λ to the next smaller one",
        above=0.0,
        source_value="tends to γ* as λ → 0",
    )


def deviation(table: pl.DataFrame) -> Estimate:
    """The largest over λ of the medians over seeds of |ratio / optimum's - 1|; infinite where training diverged."""
    off = table.with_columns(off=(pl.col("ratio") / pl.col("optimum_ratio") - 1).abs().fill_nan(math.inf))
    return maximum([median(own["off"], lowest=0.0, sample=f"λ = {lam}") for lam, own in groups(off, "lam").items()])


def say_collapse(say: Claims, table: pl.DataFrame) -> None:
    """What networks show at λ whose optimum is the zero network."""
    order, guessing = table["order"][0], math.log(table["order"][0])
    off = table.with_columns(off=(pl.col("cross_entropy") / guessing - 1).abs())
    MedianClaims(say, table)(
        "collapse",
        f"from λ = {table['threshold'][0]:.4g} on, networks collapse to zero and guess (λ = {_listed(table)}).",
        [float(np.max(own["off"].to_numpy())) for own in groups(off, "seed").values()],
        "largest |cross-entropy / ln n − 1| over these λ",
        at_most=COLLAPSED,
        source_value=f"ln {order} = {guessing:.4g} at the exact optimum",
    )


def _listed(table: pl.DataFrame) -> str:
    return ", ".join(f"{lam:g}" for lam in table["lam"].unique().sort())


# --- how it looks ---------------------------------------------------------------------------------------------


def _margins(tables: Tables[Settings], source: str) -> Figure:
    settings, table = tables.settings, tables["networks"]
    count = len(settings.groups)
    chart = Chart(
        "regularisation",
        "Margins follow the exact optimum at every λ, and collapse where it is zero",
        source=source,
        width=1.2 + 4.4 * count,
        height=6.0,
        rows=2,
        columns=count,
        sharex=True,
    )
    for place, group in enumerate(settings.groups):
        own, exact = table.filter(group=group), tables["optimum"].filter(group=group)
        above, below = chart[place], chart[count + place]
        threshold, order = own["threshold"][0], own["order"][0]
        above.axes(title=f"{group}, zero network from λ = {threshold:.3g}", y="normalised margin / γ*")
        below.axes(x="λ", y="cross-entropy", log="xy")
        _draw(above, "ratio", own.filter(~pl.col("zero")), exact, threshold)
        _draw(below, "cross_entropy", own, exact, threshold)
        above.reference(1.0, "γ*")
        below.reference(math.log(order), f"ln {order}")
        above.legend(loc="lower left")
    return chart.figure(
        f"Networks trained on {', '.join(settings.groups)} at {len(settings.lams)} λ, {settings.seeds} seeds each; "
        "dots are medians, whiskers from the least to the largest. Lines are the exact optimum of cross-entropy + "
        "λ Σ‖ω_i‖³; beyond the dashed line it is the zero network, whose normalised margin means nothing and is "
        "not drawn.",
        table,
    )


def _draw(panel: Panel, column: str, table: pl.DataFrame, exact: pl.DataFrame, threshold: float) -> None:
    """Medians over seeds with their range, the exact optimum's line, and where it becomes zero."""
    panel.ax.plot(exact["lam"], exact[column], color=figures.VERMILLION, linewidth=1.3, label="exact optimum")
    known = table.filter(pl.col(column).is_not_nan()).group_by("lam", maintain_order=True)
    points = known.agg(middle=pl.median(column), low=pl.min(column), high=pl.max(column))
    middle = points["middle"].to_numpy()
    spread = np.maximum([middle - points["low"].to_numpy(), points["high"].to_numpy() - middle], 0.0)
    look: dict[str, Any] = {"fmt": "o", "color": figures.BLUE, "markersize": 5, "capsize": 2}
    panel.ax.errorbar(points["lam"], middle, yerr=spread, label="trained", **look)
    panel.reference(threshold, "", axis="x")


def _distances(tables: Tables[Settings], source: str) -> Figure:
    """Is it what theory says, at every λ? The distance of each network from the optima there."""
    title = "Distance from the exact optimum at each λ"
    chart = Chart("distance", title, source=source, width=11.0, height=3.4, columns=len(DISTANCES), sharex=True)
    for name, label in DISTANCES.items():
        panel = chart.panel(title=label, x="λ", log="xy")
        for group, own in groups(tables["networks"], "group").items():
            known = own.filter(~pl.col("zero"), pl.col(name).is_not_nan())
            panel.dots(known["lam"], known[name], group if panel is chart[0] else "", markersize=3.5, alpha=0.6)
    chart[0].legend(loc="upper left")
    return chart.figure(
        "A dot per network, where the optimum is not zero. Neurons: root mean square distance of ω_i/‖ω_i‖ from the "
        "nearest optimal neuron, weighted by ‖ω_i‖³; shares: of Σ‖ω_i‖³ per irrep, total variation from those of the "
        "exact optimum at this λ; function: 1 − cosine between the logits, less their mean for each input.",
        tables["networks"],
    )
