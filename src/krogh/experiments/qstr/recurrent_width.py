"""Proposition 8: a recurrent network must store what it may be asked for, so its width grows with the prompt.

On 1STR every position names its own token, and a bidirectional network must carry all N labels in its states; on
simple-1STR all positions name the same token and one label is enough. Gated recurrent networks of several widths are
trained for a fixed number of steps; the width needed is where the final error crosses 1/2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.experiments.qstr.common import MEANINGS, TASKS, retrieval, square_training
from krogh.lab import Claims, Curve, Experiment, Figure, Results, Tables, curves, experiment, groups, need, setting
from krogh.lab.estimate import Estimate
from krogh.lab.experiment import Measures
from krogh.lab.figures import BLUE, MUTED, VERMILLION
from krogh.lab.fits import exponent
from krogh.models import Recurrent
from krogh.training import Adam, Online

CHECK_EVERY = 100
FEWEST_LENGTHS = 3
FEWEST_SEEDS = 7  # of fewer, a slope of medians at three lengths has no interval at 95%


@dataclass(frozen=True)
class Settings:
    lengths: tuple[int, ...] = setting((8, 16, 32), "tokens per prompt, N", increasing=True, least=1)
    hiddens: tuple[int, ...] = setting(
        (1, 2, 4, 8, 16, 32, 64, 128), "units per direction, h", increasing=True, least=1
    )
    laws: tuple[str, ...] = setting(("independent", "shared"), "1STR and simple-1STR", distinct=True, among=TASKS)
    dimension: int = setting(4, "numbers per token, d", least=1)
    cell: str = setting("gru", "recurrent cell: gru, lstm or relu", among=("gru", "lstm", "relu"))
    target: float = setting(0.5, "mean squared error that counts as solved; predicting 0 has 1", above=0, below=1)
    budget: int = setting(20_000, "steps, all of which are made", least=1)
    batch_size: int = setting(64, "fresh prompts per step", least=1)
    rate: float = setting(3e-3, "Adam's learning rate", above=0)
    seeds: int = setting(7, "networks per width", least=1)
    validation: int = setting(5_000, "test prompts", least=1)


@experiment("qstr/recurrent-width")
class RecurrentWidth(Experiment[Settings]):
    """The width that a recurrent network needs, against the length of the prompt."""

    title = "A recurrent network must grow with the prompt when every position asks for its own token"
    question = "How does the width that a recurrent network needs grow with the number of tokens?"
    source = "qSTR paper, Proposition 8 and Theorem 7"
    scales = {
        "smoke": Settings(
            lengths=(3,), hiddens=(2,), laws=("independent",), budget=100, seeds=2, batch_size=16, validation=100
        ),
        "laptop": Settings(lengths=(3, 6, 12), hiddens=(1, 2, 4, 8, 16), budget=1_500, validation=1_000),
        "paper": Settings(),
    }
    notes = (
        "Proposed with the theory; its criteria were not calibrated on a run.",
        "Proposition 8's width half is tested; its norm half does not hold for general read-outs (see "
        "qstr/norm-competition).",
        "Every network makes all of its steps, so a width is judged at a fixed budget: what is measured is what "
        "training reaches, which is less than what a width can represent.",
        "The theory's recurrent network compares codes in a deep transition; a GRU, whose units are gated, has to do "
        "it in its gates, with units of its state. On simple-1STR that may cost width that grows with the codes, of "
        "dimension ⌊5 ln N⌋.",
        "The widths are the same for every N and both laws, so that a law that needs no growth can show it.",
        f"A slope of medians over fewer than {FEWEST_SEEDS} seeds has no interval at 95%, and no verdict.",
    )

    def trials(self, settings: Settings) -> Iterator[Trials]:
        training = square_training(
            Adam(settings.rate),
            Online(settings.batch_size),
            budget=settings.budget,
            error=settings.target,
            check_every=CHECK_EVERY,
            validation=settings.validation,
            early=False,
        )
        for law, length in itertools.product(settings.laws, settings.lengths):
            task = retrieval(length, settings.dimension, law)
            for hidden in settings.hiddens:
                trial = Trial(task, Recurrent(settings.cell, hidden), training)
                yield from sweep(trial, seed=range(settings.seeds), label={"law": law})

    def measure(self, results: Results[Settings]) -> Measures:
        """Every network's final error, infinite where training diverged; and the width that each seed needs."""
        error = pl.col("error").cast(pl.Float64).fill_nan(math.inf).fill_null(math.inf)
        errors = results.table.select(
            "law", "seed", length=pl.col("task.length"), hidden=pl.col("model.hidden"), error=error
        ).sort("law", "length", "hidden", "seed")
        widths = [
            (*key, width_needed(rows["hidden"].to_list(), rows["error"].to_list(), results.settings.target))
            for key, rows in groups(errors, ("law", "length", "seed")).items()
        ]
        names = ["law", "length", "seed", "width"]
        return {"errors": errors, "widths": pl.DataFrame(widths, schema=names, orient="row")}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, by_law = tables.settings, widths_of(tables)
        statistic = "slope of ln(width needed) on ln N, medians over seeds"
        say = say.about(
            source="proposed; expected from Proposition 8 and Theorem 7",
            needs=[
                need(len(settings.lengths), FEWEST_LENGTHS, "lengths"),
                need(settings.seeds, FEWEST_SEEDS, "seeds"),
            ],
        )
        for law in settings.laws:
            curve = by_law[law]
            widths = ", ".join(f"{h.value:.3g} at N = {length:g}" for length, h in zip(curve.x, curve.y, strict=True))
            head = f"{TASKS[law]} ({MEANINGS[law]}): the width needed for an error of {settings.target:g}"
            if law == "independent":
                # A smallest width that does already makes the slope too small, not too large.
                say(
                    "width-grows",
                    f"{head} grows about linearly with N ({widths}).",
                    exponent(curve),
                    statistic,
                    at_least=0.8,
                    source_value="d_h of order N; expected slope ≥ 0.8",
                )
            else:
                smallest = min(settings.hiddens)
                least = float(tables["widths"].filter(law=law)["width"].min())  # type: ignore[arg-type]
                open_below = f"the smallest width, {smallest}, already does somewhere: the slope is open"
                say(
                    "width-constant",
                    f"{head} does not depend on N ({widths}).",
                    exponent(curve),
                    statistic,
                    at_most=0.2,
                    source_value="independent of N (read as a slope ≤ 0.2)",
                    needs=["" if smallest == 1 or least > smallest else open_below],
                )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, by_law = tables.settings, widths_of(tables)
        chart = self.chart(
            "recurrent-width",
            "Final error against width, and the width needed",
            headline="The width that training needs, when positions ask for their own tokens and when they share one",
            columns=1 + len(settings.laws),
            width=3.0 + 3.4 * len(settings.laws),
        )
        for law in settings.laws:
            panel = chart.panel(
                title=TASKS[law], x="units per token, h/N", y="final mean squared error", log="x", base=2
            )
            panel.axes(ylim=(0, 1.15))
            for length, rows in groups(tables["errors"].filter(law=law), "length").items():
                panel.ranges(
                    rows.with_columns(pl.col("hidden") / length), "hidden", "error", f"N = {length}", key="legend"
                )
            panel.reference(settings.target, f"error {settings.target:g}")
            panel.legend(loc="upper right")
        lengths = [float(length) for length in settings.lengths]
        panel = chart.panel(title="width needed", x="tokens N", log="xy", xticks=lengths, yticks=settings.hiddens)
        panel.axes(y=f"width needed for error {settings.target:g}")
        for color, law in zip((BLUE, VERMILLION), settings.laws, strict=False):
            seeds = tables["widths"].filter(law=law).group_by("length").agg(low=pl.min("width"), high=pl.max("width"))
            low, high = seeds.sort("length").select("low", "high")
            panel.band(by_law[law].x, low, by_law[law].value, high, TASKS[law], color=color)
        panel.line(lengths, lengths, "h = N", color=MUTED, width=1.1)
        yield chart.figure(
            f"Bidirectional {settings.cell.upper()} networks of h units per direction after {settings.budget:,} steps "
            f"on fresh batches of {settings.batch_size}; d = {settings.dimension}. 1STR: each position names its own "
            f"token; simple-1STR: all name the same one. Means over {settings.seeds} seeds, bands from the least to "
            "the largest. Right: the width at which the error crosses the target, medians over seeds; a triangle where "
            "no width did.",
            tables["errors"],
        )


def width_needed(hiddens: Sequence[float], errors: Sequence[float], target: float) -> float:
    """The width at which the error first falls to the target, between two widths along a line in ln h.

    `inf` where no width reaches it; the smallest width where that one already does.
    """
    for place, error in enumerate(errors):
        if error <= target:
            if place == 0:
                return float(hiddens[0])
            before = errors[place - 1]  # infinite where training diverged: the width is then this one
            share = 1.0 if math.isinf(before) else (before - target) / (before - error)
            below, above = math.log(hiddens[place - 1]), math.log(hiddens[place])
            return math.exp(below + share * (above - below))
    return math.inf


def widths_of(tables: Tables[Settings]) -> dict[str, Curve]:
    """Law → the median width needed against N; beyond the largest width where none was enough.

    A width that a seed needs rests on a network of every width.
    """
    sizes = tables.settings.hiddens
    by_law = curves(tables["widths"], by="law", x="length", y="width", horizon=float(max(sizes)))

    def of_networks(width: Estimate) -> Estimate:
        return replace(width, samples={name: seeds * len(sizes) for name, seeds in width.samples.items()})

    return {law: Curve(curve.x, tuple(map(of_networks, curve.y))) for law, curve in by_law.items()}
