"""Section 4.6: how many samples identify a sparse conjunction, whoever learns it.

The learner that lists every index set of size s that fits its data knows I once no other set does. The probability of
that is measured against the sample size m: its threshold lies a little above log2 C(T,s), below which nobody can
succeed, and far below anything linear in T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import polars as pl

from krogh.errors import require, require_integer
from krogh.experiments.theorems import Demonstration, Tables, exact, largest, require_increasing
from krogh.lab import Claim, Figure, claim, experiment, figures, setting
from krogh.lab.growth import fit_growth, growth_evidence
from krogh.lab.measured import from_counts
from krogh.lab.sample_complexity import crossing
from krogh.lab.statistics import Interval, proportion
from krogh.tasks.consistency import consistent_sets, unique_probability
from krogh.tasks.sparse_boolean import sparse_and
from krogh.theory.predictions.attention_limits import information_floor

SOURCE = "dissertation, section 4.6 and A.3.1"
THRESHOLD = 0.8
FACTOR = 2.2
FEWEST = 100  # data sets per cell that a verdict needs
SMALLEST = 50
"""The smallest m of the source's grid."""
TRANSFORMER = {300: 70}
"""m*(T) of the source's Transformer, where it prints one."""


@dataclass(frozen=True)
class Settings:
    lengths: tuple[int, ...] = setting((50, 100, 200, 300, 500, 800, 1100), "context lengths T")
    s: int = setting(3, "relevant bits")
    samples: tuple[int, ...] = setting((12, 16, 20, 24, 28, 32, 36, 40, 45, 50, 60), "sample sizes m")
    draws: int = setting(1000, "data sets per T and m")
    learned: tuple[int, ...] = setting((50, 200), "those lengths at which the learner is run and guesses")
    learned_samples: tuple[int, ...] = setting((20, 28, 36, 45), "sample sizes at which it is run")
    learned_draws: int = setting(100, "data sets per T and m that it is run on")
    seed: int = setting(0, "of the data sets")


@experiment("attention/statistical-floor")
class StatisticalFloor(Demonstration[Settings]):
    """The probability that a data set identifies a conjunction, against the sample size."""

    title = "A few dozen samples identify 3 relevant bits among a thousand"
    question = "How many samples does the best learner of a sparse conjunction need, and how does that grow with T?"
    source = SOURCE
    scales = {
        "smoke": Settings(
            lengths=(20, 40),
            samples=(8, 16, 24, 32, 40),
            draws=40,
            learned=(20,),
            learned_samples=(24,),
            learned_draws=20,
        ),
        "laptop": Settings(lengths=(50, 100, 200, 400, 800), draws=200, learned_draws=50),
        "paper": Settings(),
    }
    notes = (
        "Bits are 1 with probability 2^(-1/s), which balances the labels; index sets are counted exactly.",
        "log2 C(T,s) is the floor for certainty: with m labels no learner is right more often than 2^m / C(T,s).",
    )

    def check(self, settings: Settings) -> None:
        require_integer("s", settings.s, 1)
        require_increasing("lengths", settings.lengths, settings.s + 1, 2)
        require_increasing("samples", settings.samples, 1, 2)
        require_integer("draws", settings.draws, 1)
        require_integer("learned_draws", settings.learned_draws, 1)
        require_integer("seed", settings.seed, 0)
        for name, some, every in (
            ("learned", settings.learned, settings.lengths),
            ("learned_samples", settings.learned_samples, settings.samples),
        ):
            outside = sorted(set(some) - set(every))
            require(not outside, f"{name} must be among {every}; got {outside} beside them")
        crowded = max(settings.learned, default=0) * 2 ** (-min(settings.learned_samples, default=1) / 2 / settings.s)
        require(
            crowded <= 150,
            f"the learner would try C({crowded:.0f},{settings.s}) index sets per data set; got learned_samples="
            f"{settings.learned_samples} at T={max(settings.learned, default=0)} (try larger samples)",
        )

    def measure(self, settings: Settings) -> Tables:
        rows = []
        for length in settings.lengths:
            for m in settings.samples:
                share = unique_probability(length, settings.s, m, settings.draws, settings.seed)
                rows.append((length, m, round(share * settings.draws), settings.draws))
        learned = [
            (length, m, *_learn(settings, length, m), settings.learned_draws)
            for length in settings.learned
            for m in settings.learned_samples
        ]
        return {
            "unique": pl.DataFrame(rows, schema=["length", "m", "unique", "draws"], orient="row"),
            "learner": pl.DataFrame(learned, schema=["length", "m", "right", "unique", "draws"], orient="row"),
        }

    def judge(self, settings: Settings, tables: Tables) -> list[Claim]:
        table = tables["unique"]
        counts = _counts(table)
        found = [*_threshold_claims(settings, counts), *_bound_claims(settings, tables)]
        lengths = sorted(counts)
        measured = from_counts(counts, THRESHOLD)
        rise = fit_growth(measured)
        enough = _enough(settings)
        wide = len(lengths) >= 4 and lengths[-1] >= 10 * lengths[0]
        if not wide:
            enough = {
                "enough": False,
                "too_small": f"{len(lengths)} lengths up to {lengths[-1]}; a law of T needs four, over a factor of 10",
            }
        found.append(
            claim(
                "grows-as-log",
                f"The threshold grows as log T and not as T, from T = {lengths[0]} to {lengths[-1]}: by "
                f"{rise.b.value * math.log(2):.2f} samples for every doubling.",
                source=SOURCE,
                statistic="AIC of a line in T - AIC of a line in log T",
                interval=growth_evidence(measured),
                at_least=2.0,
                trials=int(table["draws"].sum()),
                source_value="Θ(s log T)",
                **enough,
            )
        )
        return found

    def draw(self, settings: Settings, tables: Tables) -> list[Figure]:
        return [_figure(settings, tables)]


def _counts(table: pl.DataFrame) -> dict[int, dict[int, tuple[int, int]]]:
    """T → m → (data sets that one index set alone fits, data sets)."""
    found: dict[int, dict[int, tuple[int, int]]] = {}
    for length, m, unique, draws in table.iter_rows():
        found.setdefault(length, {})[m] = (unique, draws)
    return found


def _learn(settings: Settings, length: int, m: int) -> tuple[float, int]:
    """The learner on data of the task itself: right answers expected when it guesses among what fits, and certain ones.

    Each data set has its own support, so that no place in the context is favoured.
    """
    random = np.random.default_rng([settings.seed, length, m])
    key = jax.random.key(settings.seed)
    task = sparse_and(length, settings.s)
    examples = task.decode(task.draw(jax.random.fold_in(key, length * 1000 + m), settings.learned_draws * m))
    x = np.asarray(examples.x).reshape(settings.learned_draws, m, length)
    y = np.asarray(examples.y).reshape(settings.learned_draws, m)
    right, unique = 0.0, 0
    for inputs, labels in zip(x, y, strict=True):
        order = random.permutation(length)  # column j of the shuffled inputs is column order[j]
        support = np.sort(np.argsort(order)[: settings.s])
        sets = consistent_sets(inputs[:, order], labels, settings.s, task.table)
        fits = bool((sets == support).all(axis=1).any())
        right += fits / len(sets) if len(sets) else 0.0
        unique += int(len(sets) == 1 and fits)
    return right, unique


def _enough(settings: Settings) -> dict[str, Any]:
    return {
        "enough": settings.draws >= FEWEST,
        "too_small": f"{settings.draws} data sets per cell; a verdict needs {FEWEST}",
    }


def _scaled(interval: Interval, by: float) -> Interval:
    return Interval(interval.value / by, interval.low / by, interval.high / by, interval.level, interval.method)


def _threshold_claims(settings: Settings, counts: dict[int, dict[int, tuple[int, int]]]) -> list[Claim]:
    found = []
    for length, cells in counts.items():
        reached = crossing(cells, THRESHOLD).interval
        bits = information_floor(length, settings.s)["bits"]
        shared: dict[str, Any] = {"source": SOURCE, "trials": sum(draws for _, draws in cells.values())}
        found.append(
            claim(
                f"near-floor-T{length}",
                f"T = {length}: data sets of m = {reached.value:.1f} [{reached.low:.1f}, {reached.high:.1f}] samples "
                f"identify I four times out of five; log2 C(T,s) = {bits:.1f}.",
                statistic="m at 80% / log2 C(T,s)",
                interval=_scaled(reached, bits),
                at_most=FACTOR,
                source_value="Θ(s log T)",
                **_enough(settings),
                **shared,
            )
        )
        if length in TRANSFORMER and settings.s == 3:
            found.append(
                claim(
                    f"below-transformer-T{length}",
                    f"T = {length}: the source's Transformer, with m* ≈ {TRANSFORMER[length]} samples, has more than "
                    "identify I.",
                    statistic="m at 80%",
                    interval=reached,
                    at_most=float(TRANSFORMER[length]),
                    unit="samples",
                    source_value=f"m*({length}) ≈ {TRANSFORMER[length]}",
                    **_enough(settings),
                    **shared,
                )
            )
    if settings.s == 3 and all(SMALLEST in cells for cells in counts.values()):
        shares = {length: proportion(*cells[SMALLEST]) for length, cells in counts.items()}
        hardest = min(shares, key=lambda length: shares[length].value)
        found.append(
            claim(
                "unique-at-smallest",
                f"{SMALLEST} samples, the fewest that the source trains on, identify I nearly always, up to "
                f"T = {max(counts)} (least often at T = {hardest}).",
                source=SOURCE,
                statistic="least share of data sets that one index set alone fits",
                interval=shares[hardest],
                at_least=0.95,
                trials=sum(cells[SMALLEST][1] for cells in counts.values()),
                source_value="others are rejected and redrawn",
                **_enough(settings),
            )
        )
    return found


def _bound_claims(settings: Settings, tables: Tables) -> list[Claim]:
    """Nobody is right more often than 2^m / C(T,s); and the learner on the task's data agrees with the count."""
    rows = [(length, m, unique, draws) for length, m, unique, draws in tables["unique"].iter_rows()]
    excess = [
        proportion(unique, draws).low - 2.0**m / math.comb(length, settings.s)
        for length, m, unique, draws in rows
        if 2.0**m < math.comb(length, settings.s)
    ]
    shared: dict[str, Any] = {"source": SOURCE, **_enough(settings)}
    found = [
        claim(
            "counting-bound",
            "No data set says more than its labels: the share of data sets that identify I keeps to 2^m / C(T,s) "
            "where this is below 1.",
            statistic="largest (lower end of the share - 2^m / C(T,s))",
            interval=exact(largest(excess) if excess else math.nan, "Clopper-Pearson, lower end"),
            at_most=0.0,
            trials=sum(draws for *_, draws in rows),
            source_value="≤ 0",
            **shared,
        )
    ]
    learner = tables["learner"]
    if len(learner):
        certain, total = int(learner["unique"].sum()), int(learner["draws"].sum())
        counted = _counts(tables["unique"])
        expected = sum(counted[row[0]][row[1]][0] / counted[row[0]][row[1]][1] * row[4] for row in learner.iter_rows())
        share, counted_share = proportion(certain, total), expected / total
        ends = sorted(abs(end - counted_share) for end in (share.low, share.high))
        nearest = 0.0 if share.contains(counted_share) else ends[0]
        off = Interval(abs(share.value - counted_share), nearest, ends[1], share.level, share.method)
        found.append(
            claim(
                "learner-agrees",
                f"The learner that lists all index sets that fit, run on {total} data sets of the task, is certain as "
                f"often as counted, and right by guessing in {float(learner['right'].sum()) / total:.0%}.",
                statistic="|share where it is certain - share counted|",
                interval=off,
                at_most=0.1,
                trials=total,
                **shared,
            )
        )
    return found


def _figure(settings: Settings, tables: Tables) -> Figure:
    counts = _counts(tables["unique"])
    fig, (left, right) = figures.new_figure(
        "The samples that identify I grow with log2 C(T,s)", width=9.0, height=4.4, ncols=2, width_ratios=(1.35, 1)
    )
    rows = []
    for color, (length, cells) in zip(figures.PALETTE, counts.items(), strict=False):
        intervals = {m: proportion(*cell) for m, cell in cells.items()}
        low, value, high = ([getattr(each, part) for each in intervals.values()] for part in ("low", "value", "high"))
        figures.interval_band(left, list(cells), low, value, high, color=color, label=f"T = {length}")
        left.axvline(math.log2(math.comb(length, settings.s)), color=color, linewidth=1, linestyle=":")
        for m, each in intervals.items():
            rows.append((length, m, each.value, each.low, each.high, cells[m][1]))
    figures.source_line(left, THRESHOLD, "80%")
    left.set_xlabel("samples m (dotted: log2 C(T,s))")
    left.set_ylabel("share of data sets that identify I")
    left.set_ylim(-0.02, 1.05)
    figures.legend(left, loc="lower right")
    lengths = sorted(counts)
    found = [crossing(counts[length], THRESHOLD).interval for length in lengths]
    figures.interval_band(
        right,
        lengths,
        [each.low for each in found],
        [each.value for each in found],
        [each.high for each in found],
        color=figures.BLUE,
    )
    bits = [math.log2(math.comb(length, settings.s)) for length in lengths]
    right.plot(lengths, bits, color=figures.MUTED, linestyle=":", linewidth=1.4)
    right.plot(lengths, FACTOR * np.array(bits), color=figures.MUTED, linestyle="--", linewidth=1)
    shown = [each.value if math.isfinite(each.value) else math.nan for each in found]
    if np.isfinite(shown).any():
        figures.direct_label(right, lengths, shown, "m at 80%", color=figures.BLUE)
    figures.direct_label(right, lengths, bits, "log2 C(T,s)", color=figures.MUTED)
    figures.direct_label(
        right, lengths, [FACTOR * each for each in bits], f"{FACTOR:g} log2 C(T,s)", color=figures.MUTED
    )
    for length, m in TRANSFORMER.items():
        if lengths[0] <= length <= lengths[-1] and settings.s == 3:
            right.plot([length], [m], "D", color=figures.VERMILLION, markersize=6)
            figures.direct_label(right, length, m, "source's Transformer", color=figures.VERMILLION, side="above")
    figures.log_axis_labels(right, values=lengths[:: max(1, len(lengths) // 4)])
    right.set_xlabel("context length T")
    right.set_ylabel("samples m")
    right.set_ylim(bottom=0)
    figures.source_note(fig, SOURCE)
    caption = (
        f"Left: share of {settings.draws} data sets of m samples that exactly one conjunction of s = {settings.s} bits "
        "fits, with 95% Clopper–Pearson bands. Right: where the share reaches 80% (isotonic regression, bootstrap "
        "band) beside the information floor."
    )
    schema = ["length", "m", "unique", "low", "high", "draws"]
    data = pl.DataFrame(rows, schema=schema, orient="row")
    title = "Samples that identify a sparse conjunction"
    return Figure("statistical-floor", title, caption, fig, data)
