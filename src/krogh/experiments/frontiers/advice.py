"""More data, a wider network, more steps, or more seeds? The chapter's question, for a problem and prices of one's own.

Networks are trained over a grid of sample sizes and widths. A *plan* buys m samples once and trains up to R networks of
width r on them, each for T steps at most, so that one of them succeeds with the probability that is asked for:

    cost = m·(price of a sample) + R·(price of a seed) + R·T·r·(price of a neuron-step),    1 - (1 - q)^R ≥ goal,

q being the share of trials at (m, r) that succeed within T steps. T is chosen as well. The cheapest plan, what it would
cost to do with half of any one resource, and the bounds that nobody can beat answer the question.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.engine import Trials
from krogh.errors import require
from krogh.experiments.frontiers.common import (
    NOTES,
    WIDTH,
    SgdSettings,
    draw_half,
    panels_of,
    parameters,
    size_name,
    start_name,
    with_size,
)
from krogh.lab import Claims, Estimate, Experiment, Figure, Tables, experiment, figures, groups, need, setting, times_of
from krogh.lab.estimate import DRAWS, drawn, exact, stream, unknown_estimate

RESOURCES = ("samples", "width", "steps", "seeds")
MOST_SEEDS = 1000


@dataclass(frozen=True)
class Settings(SgdSettings):
    n: int = setting(30, "input bits of your problem", least=1)
    k: int = setting(3, "relevant bits of your problem", least=1)
    sparsity: int = setting(2, "ones in each row of the first layer, 0 for dense", least=0)
    sizes: tuple[int, ...] = setting((300, 400, 600, 1000, 2000), "sample sizes to try", increasing=True, least=1)
    widths: tuple[int, ...] = setting((10, 30, 100, 300, 1000), "widths to try", increasing=True, least=1)
    seeds: int = setting(50, "trials per cell", least=1)
    goal: float = setting(0.9, "probability of success that is wanted", above=0, below=1)
    sample_price: float = setting(1.0, "price of a labelled sample", least=0)
    step_price: float = setting(1e-5, "price of training one neuron for one step", least=0)
    seed_price: float = setting(1.0, "price of beginning another network", least=0)


@experiment("frontiers/advice")
class Advice(Experiment[Settings]):
    """The cheapest way to learn a parity at given prices of samples, neuron-steps and seeds, beside the bounds."""

    title = "More data, a wider network, more steps, or more seeds?"
    question = "What is the cheapest way to learn this parity at these prices?"
    source = "dissertation, chapter 6 (its question); Proposition 6.3"
    scales = {
        "smoke": Settings(
            n=12, k=2, sparsity=0, sizes=(40, 120), widths=(8, 16), seeds=4, budget=400, check_every=100, test=300
        ),
        "laptop": Settings(widths=(10, 30, 100, 300), seeds=20, budget=20_000, test=2_000),
        "paper": Settings(
            n=50, sizes=(300, 600, 1000, 2000, 3000, 6000, 10_000, 30_000), widths=(10, 30, 100, 300, 1000)
        ),
    }
    notes = (
        *NOTES,
        "Every trial has its own sample. That several networks fail on one sample more often than on several is not "
        "accounted for: with many seeds a plan is a little too cheap.",
    )

    def check(self, settings: Settings) -> None:
        require(settings.n >= settings.k, f"n must be at least k={settings.k}; got n={settings.n}")
        paid = settings.sample_price + settings.step_price + settings.seed_price > 0
        require(paid, "at least one of the three prices must be above 0; got none")

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for width in settings.widths:
            yield from settings.over_sizes(
                settings.n, settings.k, width, settings.sparsity, settings.sizes, online=False, seeds=settings.seeds
            )

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, cells = tables.settings, cells_of(tables["trials"])
        best = cheapest(plans(cells, settings))
        say = say.about(needs=[need(settings.seeds, 15, "trials per cell")])
        nothing = "no plan reaches the goal" if best is None else ""
        value = cost(cells, settings)
        for resource in RESOURCES:
            own = math.nan if best is None else best[resource]
            lacking = best is not None and untried(settings, resource, own / 2)
            say(
                f"{resource}-pay",
                f"With at most half of its {resource} ({own:,.0f}) the cheapest plan would be dearer.",
                unknown_estimate(nothing) if best is None else cost(cells, settings, {resource: own / 2}) / value,
                f"cost with at most half of the {resource} / least cost",
                above=1.0,
                source_value="every resource can be traded for the others, at a price",
                needs=[f"nothing with so few {resource} was tried" if lacking else ""],
            )
        subsets = math.comb(settings.n, settings.k) / 2
        spent = (
            None
            if best is None
            else best["parameters"] * best["steps"] * best["samples"] * best["seeds"] / settings.goal
        )
        say(
            "above-the-bound",
            f"What the cheapest plan spends exceeds the lower bound ½C({settings.n},{settings.k}) = {subsets:,.0f}.",
            unknown_estimate(nothing) if spent is None else exact(spent / subsets, settings.seeds, sample="plan"),
            "P·T·m·R/δ over ½C(n,k)",
            above=1.0,
            source_value="P·T·m/δ > ½C(n,k)",
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, cells = tables.settings, cells_of(tables["trials"])
        rows = plans(cells, settings)
        best, total = cheapest(rows), cost(cells, settings)
        head = "No plan reaches the goal" if best is None else _in_words(best, settings)
        chart = self.chart("advice", self.title, headline=head, columns=2, width=12.0, height=4.4)
        panel = chart.panel(x="sample size m", y="width", title="cost of the cheapest plan (seeds × steps)")
        data = pl.DataFrame(rows)
        _draw_costs(panel.ax, data, settings, best)
        for problem, found in panels_of(tables["trials"]).items():
            draw_half(panel, problem, found)
        panel = chart.panel(x="cost in units of the cheapest plan", title="if it had at most half of its ...")
        if best is not None:
            shown = {name: cost(cells, settings, {name: best[name] / 2}) / total for name in RESOURCES}
            places = np.arange(len(shown))
            values = np.array([one.value for one in shown.values()])
            known = np.isfinite(values)
            panel.ax.barh(places[known], values[known], color=figures.SKY)
            for place, (name, one) in enumerate(shown.items()):
                without = " not tried" if untried(settings, name, best[name] / 2) else " no plan succeeds"
                text = f" {one.value:.2f}" if math.isfinite(one.value) else without
                panel.ax.text(one.value if math.isfinite(one.value) else 0, place, text, va="center", fontsize=9)
            panel.ax.set_xlim(0, 1.2 * max(1.0, *values[known]))
            panel.name_rows([f"{name} ({best[name]:,.0f})" for name in shown])
        bits = math.log2(math.comb(settings.n, settings.k))
        yield chart.figure(
            f"({settings.n},{settings.k})-parity, {start_name(settings.sparsity)} start, {settings.goal:.0%} success "
            f"at {settings.sample_price:g} per sample, {settings.step_price:g} per neuron-step, "
            f"{settings.seed_price:g} per seed; least cost {total}. Red: half of the trials "
            f"succeed. Bounds: log2 C(n,k) = {bits:.0f} samples for any "
            f"learner, ½C(n,k) = {math.comb(settings.n, settings.k) / 2:,.0f} for P·T·m/δ.",
            data,
        )


def untried(settings: Settings, resource: str, amount: float) -> bool:
    """Whether no plan could have so little of a resource, whatever the trials did."""
    fewest = {"samples": settings.sizes[0], "width": settings.widths[0], "steps": settings.check_every, "seeds": 1}
    return amount < fewest[resource]


def cells_of(table: pl.DataFrame) -> dict[tuple[int, int], np.ndarray]:
    """Convergence times by sample size and width, ascending."""
    found = {}
    for (m, width), rows in groups(with_size(table).sort("m", WIDTH), ("m", WIDTH)).items():
        found[int(m), width] = np.sort(times_of(rows))
    return found


def seeds_needed(share: np.ndarray, goal: float) -> np.ndarray:
    """The fewest networks of which one succeeds with probability `goal`, each with probability `share`; ∞ for 0."""
    with np.errstate(divide="ignore"):
        return np.where(
            share > 0,
            np.maximum(1.0, np.ceil(math.log1p(-goal) / np.log1p(-np.minimum(share, 1 - 1e-12)) - 1e-9)),
            math.inf,
        )


def _plan_costs(settings: Settings, m: int, width: int, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cost and seeds of stopping at each of the sorted times (..., trials) of a cell."""
    share = np.arange(1, times.shape[-1] + 1) / times.shape[-1]
    later = np.append(times[..., 1:], np.full((*times.shape[:-1], 1), math.inf), axis=-1)
    seeds = np.where(later > times, seeds_needed(share, settings.goal), math.inf)  # of equal times the last counts
    seeds = np.where(np.isfinite(times) & (seeds <= MOST_SEEDS), seeds, math.inf)
    each = settings.seed_price + settings.step_price * width * np.where(np.isfinite(times), times, 0.0)
    return np.where(np.isfinite(seeds), m * settings.sample_price + seeds * each, math.inf), seeds


def plans(cells: dict[tuple[int, int], np.ndarray], settings: Settings) -> list[dict[str, float]]:
    """The cheapest plan of each cell; its cost is infinite where none reaches the goal."""
    found = []
    for (m, width), times in cells.items():
        costs, seeds = _plan_costs(settings, m, width, times)
        place = int(np.argmin(costs))
        reached = math.isfinite(costs[place])
        steps, number = (times[place], seeds[place]) if reached else (math.inf, math.inf)
        found.append(
            {
                "samples": float(m),
                "width": float(width),
                "steps": float(steps),
                "seeds": float(number),
                "parameters": float(parameters(settings.n, width)),
                "cost": float(costs[place]),
                "success": float(np.isfinite(times).mean()),
            }
        )
    return found


def cheapest(rows: list[dict[str, float]]) -> dict[str, float] | None:
    best = min(rows, key=lambda row: row["cost"])
    return best if math.isfinite(best["cost"]) else None


def cost(
    cells: dict[tuple[int, int], np.ndarray], settings: Settings, limits: dict[str, float] | None = None
) -> Estimate:
    """The least cost of a plan within limits of resources, with draws that resample the trials of every cell.

    Cells are resampled alike whatever the limits: ratios of costs are paired. The least of noisy costs lies a little
    too low, as it does for whoever follows the plan.
    """
    limits = limits or {}
    values, draws, samples = [math.inf], [np.full(DRAWS, math.inf)], {}
    for (m, width), times in cells.items():
        if m > limits.get("samples", math.inf) or width > limits.get("width", math.inf):
            continue
        name = f"m={m}, width={width}"
        chosen = stream("advice", name).integers(times.size, size=(DRAWS, times.size))
        samples[name] = times.size
        for target, given in ((draws, np.sort(times[chosen], axis=1)), (values, times)):
            costs, seeds = _plan_costs(settings, m, width, given)
            allowed = (given <= limits.get("steps", math.inf)) & (seeds <= limits.get("seeds", math.inf))
            target.append(np.where(allowed, costs, math.inf).min(axis=-1))  # type: ignore[attr-defined]
    least = np.min(np.stack(draws), axis=0)
    return drawn(float(min(values)), least, samples, "bootstrap of trials")


def _in_words(best: dict[str, float], settings: Settings) -> str:
    networks = "one network" if best["seeds"] == 1 else f"up to {best['seeds']:.0f} networks"
    return (
        f"Cheapest for {settings.goal:.0%} success: {best['samples']:,.0f} samples and {networks} of width "
        f"{best['width']:,.0f}, {best['steps']:,.0f} steps each"
    )


def _draw_costs(ax: object, data: pl.DataFrame, settings: Settings, best: dict[str, float] | None) -> None:
    """The cost of each cell's plan in units of the cheapest, with its seeds and steps; blank where there is none."""
    sizes, widths = list(settings.sizes), list(settings.widths)
    least = best["cost"] if best else 1.0
    table = np.full((len(widths), len(sizes)), math.nan)
    for row in data.iter_rows(named=True):
        place = widths.index(int(row["width"])), sizes.index(int(row["samples"]))
        if math.isfinite(row["cost"]):
            table[place] = math.log10(row["cost"] / least)
            text = f"{row['cost'] / least:.2g}\n{row['seeds']:.0f}×{row['steps']:,.0f}"
            shade = figures.LIGHT if table[place] > 0.5 else figures.DARK
            ax.text(place[1] + 0.5, place[0] + 0.5, text, ha="center", va="center", fontsize=7, color=shade)  # type: ignore[attr-defined]
        if best is not None and row["cost"] == least:
            ax.plot(place[1] + 0.5, place[0] + 0.85, marker="*", color=figures.DARK, markersize=11)  # type: ignore[attr-defined]
    ax.pcolormesh(np.ma.masked_invalid(table), cmap="cividis_r", vmin=0, vmax=1)  # type: ignore[attr-defined]
    ax.grid(False)  # type: ignore[attr-defined]
    ax.set_xticks(np.arange(len(sizes)) + 0.5, [size_name(m) for m in sizes])  # type: ignore[attr-defined]
    ax.set_yticks(np.arange(len(widths)) + 0.5, [f"{width:,}" for width in widths])  # type: ignore[attr-defined]
