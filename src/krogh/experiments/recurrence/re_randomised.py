"""How little a few rows of a random network decide (B-E7; Lemma B.2)."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from krogh.experiments.recurrence.random_networks import NetworkSettings, networks_setting, widths_setting
from krogh.lab import (
    Claims,
    Estimate,
    Experiment,
    Figure,
    Results,
    Tables,
    curves,
    experiment,
    groups,
    maximum,
    mean,
    minimum,
    need,
    setting,
)
from krogh.lab.experiment import Measures
from krogh.lab.fits import exponent
from krogh.networks.recurrence.decoders import some_sequences
from krogh.networks.recurrence.twin import rerandomised, stability

FEWEST = 8
"""Networks of a verdict."""
VARIES = 1.3


@dataclass(frozen=True)
class Settings(NetworkSettings):
    widths: tuple[int, ...] = widths_setting(1000, 4000, least=40)
    share: float = setting(0.05, "rows drawn anew as a share of m, beside √m of them", above=0, most=1)
    length: int = setting(6, "length L", least=3)
    eps_x: float = setting(0.1, "size of tokens", above=0, most=1)
    sequences: int = setting(4, "sequences", least=1)
    networks: int = networks_setting(24)


@experiment("recurrence/re-randomised")
class ReRandomised(Experiment[Settings]):
    """States, signs and products of a network and its twin with N rows drawn anew, against m and N."""

    title = "Drawing N of m rows anew moves states by √(N/m) and flips N^(1/3) m^(2/3) signs"
    question = "How much do the states of a random recurrent network change when N of its rows are drawn anew?"
    source = "Learning and generalization in RNNs, Lemma B.2 (proposed experiment)"
    scales = {
        "smoke": Settings(widths=(50, 100), length=4, sequences=2, networks=2),
        "laptop": Settings(),
        "paper": Settings(widths=(1000, 4000, 16_000), networks=40),
    }
    notes = (
        "The lemma's powers are bounds. A state that moves by a small angle flips a share of the signs that is linear "
        "in it, so that the flips grow as √(Nm) in truth; over what is measured the two differ by (N/m)^(1/6), "
        "a factor of at most 1.2.",
        "The lemma asks for N ≤ m/ρ²³ with ρ = 100 L d ln m, which no network that fits a computer meets.",
    )

    def measure(self, results: Results[Settings]) -> Measures:
        return {"changes": functools.partial(changes, results.settings)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        s = tables.settings
        say = say.about(needs=[need(s.networks, FEWEST, "networks per width and number of rows")])
        at = {place: cells(tables["changes"].filter(position=place)) for place in (1, s.length)}
        for column, power, known in (
            ("state", "√(N/m)", "2.7 to 3.2 at l = 6"),
            ("flips", "N^(1/3) m^(2/3)", ".31 to .38"),
        ):
            values = list(at[s.length][column].values())
            say(
                f"{column}-law",
                f"The {'change of the last state' if column == 'state' else 'number of flipped signs'} over {power} is "
                "the same for all m and N, within 30%.",
                maximum(values) / minimum(values),
                "largest / least mean over (m, N)",
                below=VARIES,
                source_value=known,
            )
        ends = (
            tables["changes"]
            .filter(position=s.length)
            .with_columns(share=pl.col("rows_drawn") / pl.col("width"), flipped=pl.col("flips") / pl.col("width"))
        )
        say(
            "flips-power",
            "The share of flipped signs falls with N/m at least as fast as the lemma's power 1/3.",
            exponent(curves(ends, x="share", y="flipped", statistic=mean)[()]),
            "slope of ln(flips/m) on ln(N/m) at the last position",
            at_least=1 / 3,
            source_value="1/3 as a bound; 1/2 where the state moves by a small angle",
        )
        first, last = (mean(tables["changes"].filter(position=place)["state_over_law"],
                            sample=f"all networks, position {place}") for place in (1, s.length))  # fmt: skip
        say("state-first", "The first state moves by 1.0 to 1.3 times √(N/m).", first,
            "‖h - h̃‖/√(N/m) at l = 1, mean over all", between=(1.0, 1.3), source_value="1.0 to 1.3")  # fmt: skip
        say(
            "state-rises",
            f"The change of the state rises along the sequence, to more than twice as much at l = {s.length}.",
            last / first,
            f"‖h - h̃‖ at l = {s.length} / at l = 1",
            above=2.0,
            source_value="1.0-1.3 to 2.7-3.2",
            needs=[need(s.length, 6, "positions")],
        )

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        s = tables.settings
        chart = self.chart("re-randomised", self.title, columns=3, width=12.0)
        for column, title, y in (
            ("state_over_law", "states", "‖h - h̃‖/√(N/m)"),
            ("flips_over_law", "signs", "flips/(N^(1/3) m^(2/3))"),
            ("product_over_law", "products of a vector drawn apart", "change/(N/m)^(1/6)"),
        ):
            panel = chart.panel(title=title, x="position l", y=y)
            table = tables["changes"].filter(pl.col("position") > 1) if "product" in column else tables["changes"]
            for (width, rows), curve in curves(
                table, by=("width", "rows_drawn"), x="position", y=column, statistic=mean
            ).items():
                label = f"m = {width:,}, N = {rows}"
                panel.curve(curve, label, key="legend" if column == "state_over_law" else "")
            panel.ax.set_ylim(bottom=0)
        yield chart.figure(
            f"A random network and its twin with N rows of W and A drawn anew, on {s.sequences} sequences of length "
            f"{s.length}; {s.networks} networks or more, means with 95% intervals by Student. Each panel is divided by "
            "what Lemma B.2 has as its power."
        )


def cells(table: pl.DataFrame) -> dict[str, dict[tuple[int, int], Estimate]]:
    """The mean over networks of the changes over their powers, for each (m, N)."""
    found: dict[str, dict[tuple[int, int], Estimate]] = {"state": {}, "flips": {}}
    for (width, rows), own in groups(table, ("width", "rows_drawn")).items():
        for column in found:
            sample = f"m = {width}, N = {rows}"
            found[column][width, rows] = mean(own[f"{column}_over_law"], sample=sample)
    return found


def changes(s: Settings) -> pl.DataFrame:
    """A row per network, number of rows and position."""
    tables = []
    for width, which, network in s.drawn():
        x = some_sequences(s.sequences, s.length, s.dx, s.eps_x, which, "float32")
        for rows in sorted({math.isqrt(width), max(1, round(s.share * width))}):
            found = stability(rerandomised(network, rows, seed=which), x, seed=which)
            part = rows / width
            tables.append(
                found.with_columns(
                    width=pl.lit(width),
                    network=pl.lit(which),
                    rows_drawn=pl.lit(rows),
                    state_over_law=pl.col("state") / part**0.5,
                    flips_over_law=pl.col("flips") / (width * part ** (1 / 3)),
                    product_over_law=pl.col("product") / part ** (1 / 6),
                )
            )
    return pl.concat(tables)
