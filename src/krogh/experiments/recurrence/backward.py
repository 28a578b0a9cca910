"""Backward matrices to different ends are nearly orthogonal, and what else the theory assumes of sizes (B-E11)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.experiments.recurrence.random_networks import NetworkSettings
from krogh.lab import Claims, Experiment, Figure, Results, Tables, curves, experiment, mean, mean_time, need, setting
from krogh.lab.experiment import Measures
from krogh.lab.fits import exponent
from krogh.networks.recurrence.decoders import base_of, some_sequences
from krogh.networks.recurrence.norms import back_correlations, norm_checks, state_norm

FEWEST = 8
"""Networks per width of a verdict."""
FEWEST_WIDTHS = 4


@dataclass(frozen=True)
class Settings(NetworkSettings):
    length: int = setting(6, "length L", least=4)
    eps_x: float = setting(0.1, "size of tokens", above=0, most=1)
    sequences: int = setting(2, "sequences", least=1)


@experiment("recurrence/backward")
class Backward(Experiment[Settings]):
    """Inner products of rows of backward matrices, norms of states and gains of the decoder, against m."""

    title = "Backward matrices to different ends decorrelate: inner products of √m where squared norms are m"
    question = "How correlated are the backward matrices from one position to different ends?"
    source = "Learning and generalization in RNNs, Lemmas F.11 and B.1, Claim E.4 (proposed experiment)"
    scales = {
        "smoke": Settings(widths=(50, 100), length=4, networks=2),
        "laptop": Settings(),
        "paper": Settings(widths=(500, 1000, 2000, 4000, 8000, 16_000), sequences=8, networks=20),
    }
    notes = (
        "Lemma F.11 bounds inner products by m^(3/4)ρ; they are of order √m.",
        "Lemma B.1 has an interval for ‖h_l‖ at all l that holds at the last position only; the norms that are "
        "compared with are √(1 + (l-1)ε_x²), and √(2 + (L-2)ε_x²) at the end.",
    )

    def measure(self, results: Results[Settings]) -> Measures:
        return {"networks": functools.partial(sizes, results.settings)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        s, table = tables.settings, tables["networks"]
        few = [need(s.networks, FEWEST, "networks per width"), need(len(s.widths), FEWEST_WIDTHS, "widths")]
        say = say.about(needs=few)
        largest, over, norms, state, gain = (
            curves(table, x="width", y=column, statistic=mean_time)[()]
            for column in ("largest", "over_bound", "row_norm", "state_off", "decoder_gain")
        )
        first, last = s.widths[0], s.widths[-1]
        say(
            "below-bound",
            "The largest inner product over m^(3/4) falls with m.",
            over.at(last) / over.at(first),
            f"at m = {last:,} / at m = {first:,}",
            below=1.0,
            source_value="O(ρ)",
        )
        say(
            "order",
            "It grows as √m.",
            exponent(largest),
            "slope of ln of the largest inner product on ln m",
            between=(0.3, 0.7),
            source_value="m^(3/4) as a bound; |value|/√m between .2 and 1.9 beforehand",
        )
        say(
            "norm",
            f"At m = {last:,} the squared norm of a row of a backward matrix is m, within 20%.",
            norms.at(last),
            "mean of ‖row‖²/m",
            between=(0.8, 1.2),
            source_value="about 1 beforehand",
        )
        say(
            "states",
            f"At m = {last:,} all states have the norm √(1 + (l-1)ε_x²), or √(2 + (L-2)ε_x²) at the end, within 5%.",
            state.at(last),
            "largest relative difference over positions, mean over networks",
            at_most=0.05,
            source_value="1 ± 1/(100L)",
        )
        say(
            "decoder-gain",
            f"At m = {last:,} the token-only decoder keeps norms, ‖Vw‖ = ‖w‖, within 10%.",
            gain.at(last),
            "mean of ‖Vw‖/‖w‖",
            between=(0.9, 1.1),
            source_value="(1 ± 1/(100L))^L",
        )

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        s, table = tables.settings, tables["networks"]
        chart = self.chart("backward", self.title, columns=2)
        left = chart.panel(
            title="inner products", x="width m", y="of rows of backward matrices", log="xy", xticks=s.widths
        )
        for column, label in (("row_square", "squared norms"), ("largest", "largest, ends apart")):
            left.curve(curves(table, x="width", y=column, statistic=mean)[()], label)
        m = np.array(s.widths, float)
        left.line(m, np.sqrt(m), "√m")
        left.line(m, m**0.75, "m^(3/4)")
        right = chart.panel(title="sizes", x="width m", y="ratio", log="x", xticks=s.widths)
        for column, label in (
            ("decoder_gain", "‖V w‖/‖w‖"),
            ("gain", "‖D W ... D W v‖/‖v‖"),
            ("columns", "largest column of V"),
            ("product", "‖D W ... D W‖"),
        ):
            right.curve(curves(table, x="width", y=column, statistic=mean)[()], label, key="legend")
        yield chart.figure(
            f"Left: ⟨row of Back_(1→j), row of Back_(1→j')⟩ over all j ≠ j' up to {s.length} and {s.sequences} "
            "sequences, the largest of each network, and ‖row‖². Right: gains of the decoder and of products at the "
            f"base sequence. Means over {s.networks} networks of the largest width and more of others, with 95% "
            "intervals by Student."
        )


def sizes(s: Settings) -> pl.DataFrame:
    """A row per width and network."""
    rows = []
    for width, which, network in s.drawn():
        base = network.run(base_of(s.length, s.dx, s.eps_x, "float32"))
        run = network.run(some_sequences(s.sequences, s.length, s.dx, s.eps_x, which, "float32"))
        products = back_correlations(run)
        apart = max(float(np.abs(found).max()) for (j, k), found in products.items() if j != k)
        squares = float(np.mean([found for (j, k), found in products.items() if j == k]))
        norms = norm_checks(run, base, seed=which)
        off = [abs(norm / state_norm(place, s.length, s.eps_x) - 1) for place, norm in norms.states.items()]
        rows.append(
            {
                "width": width,
                "network": which,
                "largest": apart,
                "over_bound": apart / width**0.75,
                "row_square": squares,
                "row_norm": squares / width,
                "state_off": max(off),
                "decoder_gain": norms.decoder_gain,
                "gain": norms.gains[s.length],
                "columns": norms.columns,
                "product": norms.product,
            }
        )
    return pl.DataFrame(rows)
