"""The explicit decoder of a random recurrent network: error against width, length and ε_x (B-E4; Theorem D.1).

V^[L]ᵀ h_L ≈ [x_1; ...; x_L] (`krogh.networks.recurrence.decoders`). For small ε_x the RMS error of a coordinate is
about √(2L/m). A token's coordinates are of size ε_x/√dx: the error has to be compared with that, and at small ε_x
nothing is recovered although the error looks small. Subtracting what the base sequence decodes to takes the error that
all inputs share away.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.experiments.recurrence.random_networks import MOST, NetworkSettings, networks_setting
from krogh.lab import (
    Claims,
    Experiment,
    Figure,
    Results,
    Tables,
    curves,
    experiment,
    groups,
    maximum,
    mean_time,
    minimum,
    need,
    setting,
)
from krogh.lab.experiment import Measures
from krogh.lab.fits import exponent
from krogh.networks.recurrence.decoders import (
    base_of,
    decoding_law,
    decoding_matrix,
    inversion_errors,
    own_signs_rms,
    some_sequences,
)
from krogh.networks.recurrence.random_network import Run

FEWEST = 4
"""Networks per width of a verdict."""
FEWEST_WIDTHS = 4
SMALL = 0.1
"""The largest ε_x for which the law is meant."""
FLAT = 1.5
"""The factor that something flat varies by at most."""


@dataclass(frozen=True)
class Settings(NetworkSettings):
    lengths: tuple[int, ...] = setting((4, 8, 16), "lengths L", increasing=True, least=3)
    eps_x: float = setting(0.1, "size of tokens for the widths and lengths", above=0, most=1)
    sizes: tuple[float, ...] = setting(
        (0.01, 0.03, 0.1, 0.25, 0.5), "sizes ε_x at the largest width", increasing=True, fewest=3, above=0, most=1
    )
    sequences: int = setting(30, "sequences that are decoded", least=2)
    own: int = setting(2, "sequences that are also decoded with their own signs", least=1)
    networks: int = networks_setting(12)


@experiment("recurrence/decoder")
class Decoder(Experiment[Settings]):
    """Errors of the plain and the centred decoder against m, L and ε_x."""

    title = "A random recurrent network is inverted by its own weights, with an error of √(2L/m)"
    question = "How well does the explicit decoder recover a sequence, by width, length and size of the tokens?"
    source = "Learning and generalization in RNNs, Theorem D.1 and Corollary D.1.1 (proposed experiment)"
    scales = {
        "smoke": Settings(widths=(50, 100), lengths=(4,), sequences=5, own=1, networks=2),
        "laptop": Settings(),
        "paper": Settings(widths=(500, 1000, 2000, 4000, 8000, 16_000), sequences=100, own=10),
    }
    notes = (
        "Theorem D.1 bounds the error by L⁴ρ¹¹m^(-1/12) with ρ = 100 L d ln m, which exceeds 1 at every width that "
        "fits a computer. √(2L/m) is derived; single networks vary about it by a third.",
        "Centred decoding is in no source.",
        "Plain decoding is informative only where ε_x is far above √(2 L dx/m).",
    )

    def measure(self, results: Results[Settings]) -> Measures:
        s = results.settings
        return {"widths": functools.partial(by_width, s), "sizes": functools.partial(by_size, s)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        s = tables.settings
        say = say.about(needs=[need(s.networks, FEWEST, "networks per width")])
        wide = [need(len(s.widths), FEWEST_WIDTHS, "widths")]
        by_length = curves(tables["widths"], by="length", x="width", y="rms", statistic=mean_time)
        for length, curve in by_length.items():
            say(
                f"slope-L{length}",
                f"L = {length}: the RMS error falls as m^(-1/2).",
                exponent(curve),
                "slope of ln RMS on ln m",
                between=(-0.6, -0.4),
                source_value="m^(-1/12) as a bound; -1/2 beforehand",
                needs=wide,
            )
        for length, own in groups(tables["widths"], "length").items():
            say(
                f"law-L{length}",
                f"L = {length}, ε_x = {s.eps_x:g}: the RMS error is √(2L/m), within 30%.",
                mean_time(own["over_law"], sample=f"networks, L = {length}"),
                "RMS error/√(2L/m), mean over widths and networks",
                between=(0.7, 1.3),
                source_value=REFERENCE.get(length, ""),
                needs=[*wide, need(SMALL, s.eps_x, "is the largest ε_x of the law")],
            )
        plain, centred = (
            curves(tables["sizes"], x="eps_x", y=column, statistic=mean_time)[()] for column in ("relative", "centred")
        )
        best = minimum(plain.y[1:-1])
        for name, end, place in (("small", plain.y[0], s.sizes[0]), ("large", plain.y[-1], s.sizes[-1])):
            say(
                f"u-shape-{name}",
                f"Plain decoding at ε_x = {place:g} is worse, relative to the tokens, than between the ends.",
                end / best,
                f"relative error at ε_x = {place:g} / the least in between",
                above=1.0,
                source_value="4.1 1.4 .43 .26 .36 for ε_x = .01 to .5 (m = 8000, L = 4)",
            )
        few = [one for x, one in zip(centred.x, centred.y, strict=True) if x <= SMALL]
        for name, part, words in (
            ("small", few, f"up to ε_x = {SMALL:g}"),
            ("all", list(centred.y), f"up to ε_x = {s.sizes[-1]:g}"),
        ):
            say(
                f"centred-flat-{name}",
                f"Centred decoding has the same relative error {words}, within a factor of {FLAT:g}.",
                maximum(part, nothing="no ε_x so small") / minimum(part, nothing="no ε_x so small"),
                "largest / least mean relative error",
                at_most=FLAT,
                source_value="nearly independent of ε_x",
                needs=[need(len(part), 3, "sizes ε_x")],
            )

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        s = tables.settings
        chart = self.chart("decoder", self.title, columns=3, width=12.0)
        left = chart.panel(title=f"ε_x = {s.eps_x:g}", x="width m", y="RMS error of a coordinate", log="xy",
                           xticks=s.widths)  # fmt: skip
        for length, curve in curves(tables["widths"], by="length", x="width", y="rms", statistic=mean_time).items():
            color = left.color()
            left.curve(curve, f"L = {length}", color=color)
            left.line(curve.x, np.sqrt(2 * length / curve.x), color=color)
        middle = chart.panel(title="centred", x="width m", y="relative error of the tokens", log="xy", xticks=s.widths)
        for length, curve in curves(tables["widths"], by="length", x="width", y="centred", statistic=mean_time).items():
            middle.curve(curve, f"L = {length}")
        right = chart.panel(
            title=f"m = {s.widths[-1]:,}, L = {s.lengths[0]}", x="size of tokens ε_x", y="relative error of the tokens",
            log="xy", xticks=s.sizes)  # fmt: skip
        for column, label in (("relative", "plain"), ("centred", "centred")):
            right.curve(curves(tables["sizes"], x="eps_x", y=column, statistic=mean_time)[()], label, key="legend")
        yield chart.figure(
            f"The explicit decoder on {s.sequences} sequences of random tokens of {s.dx} numbers, {s.networks} "
            f"networks of the largest width and up to {MOST * s.networks} of others; means with 95% intervals by "
            "Student, of logarithms. Dashed: √(2L/m). Right: the error over the tokens' own size."
        )


REFERENCE = {
    4: "√m·RMS 2.61 to 3.17 where the law has 2.83",
    8: "√m·RMS 3.5 to 4.3 where the law has 4",
    16: "√m·RMS 5.0 where the law has 5.66",
}


def by_width(s: Settings) -> pl.DataFrame:
    """A row per width, network and length."""
    rows = []
    for width, which, network in s.drawn():
        for length in s.lengths:
            base = network.run(base_of(length, s.dx, s.eps_x, "float32"))
            run = network.run(some_sequences(s.sequences, length, s.dx, s.eps_x, which, "float32"))
            found = inversion_errors(run, base)
            rows.append(
                {
                    "width": width,
                    "network": which,
                    "length": length,
                    "rms": found.rms,
                    "over_law": found.rms / decoding_law(width, length),
                    "largest": found.largest,
                    "relative": found.relative,
                    "centred": found.centred,
                }
            )
    return pl.DataFrame(rows)


def by_size(s: Settings) -> pl.DataFrame:
    """A row per network and ε_x, at the largest width and the least length."""
    width, length, rows = s.widths[-1], s.lengths[0], []
    for which in range(s.networks):
        network = s.network(width, which)
        for eps_x in s.sizes:
            base = network.run(base_of(length, s.dx, eps_x, "float32"))
            run = network.run(some_sequences(s.sequences, length, s.dx, eps_x, which, "float32"))
            found = inversion_errors(run, base, decoding_matrix(base))
            few = Run(network, run.x[: s.own], run.h[:, : s.own], run.active[:, : s.own])
            rows.append(
                {
                    "network": which,
                    "eps_x": eps_x,
                    "rms": found.rms,
                    "own_signs_rms": own_signs_rms(few),
                    "relative": found.relative,
                    "centred": found.centred,
                }
            )
    return pl.DataFrame(rows)
