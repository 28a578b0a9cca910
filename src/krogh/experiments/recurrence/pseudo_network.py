"""A shift of A alone makes a random network's expansion a function of the whole sequence (B-E5; Theorem D.2)."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from krogh.errors import require
from krogh.experiments.recurrence.random_networks import (
    MOST,
    NetworkSettings,
    networks_setting,
    tokens_setting,
    widths_setting,
)
from krogh.lab import (
    Claims,
    Experiment,
    Figure,
    Results,
    Tables,
    curves,
    experiment,
    maximum,
    mean,
    mean_time,
    minimum,
    need,
    setting,
)
from krogh.lab.experiment import Measures
from krogh.networks.recurrence.decoders import base_of, some_sequences
from krogh.networks.recurrence.pseudo_network import PseudoNetwork, random_target, shift_column

FEWEST = 5
"""Networks per width of a verdict."""
DECISIVE = 10_000
"""The width at which the correlation is asked for."""


@dataclass(frozen=True)
class Settings(NetworkSettings):
    widths: tuple[int, ...] = widths_setting(1000, 4000, 10_000)
    sizes: tuple[float, ...] = setting((0.1, 0.3), "sizes ε_x of tokens", increasing=True, above=0, most=1)
    functions: tuple[str, ...] = setting(("z", "z^2"), "functions Φ", distinct=True)
    length: int = setting(4, "length L", least=3)
    dx: int = tokens_setting(3)
    sequences: int = setting(40, "sequences", least=2)
    networks: int = networks_setting(6)


@experiment("recurrence/pseudo-network")
class Pseudo(Experiment[Settings]):
    """Correlation, offset and deviation of f(0, A*) from its target, and the size of A*, against m and ε_x."""

    title = "A shift of the input weights makes a random network's expansion compute a function of the whole sequence"
    question = "How close does the explicit shift A* come to a target of the whole sequence, by width?"
    source = "Learning and generalization in RNNs, Definition D.2, Theorem D.2 and Lemma F.17 (proposed experiment)"
    scales = {
        "smoke": Settings(widths=(50, 100), sequences=10, networks=2),
        "laptop": Settings(),
        "paper": Settings(widths=(1000, 4000, 10_000, 16_000), sequences=200, networks=20),
    }
    notes = (
        "H has the radius ‖h_(L-1)‖ = √(1 + (L-2)ε_x²); the text uses the norm of h_L. B has variance 1/dout; with the "
        "2/dout of Definition 3.2 the expansion would be twice the target.",
        "An offset that all inputs share is left out of the correlation and the deviation, and kept in the table.",
        "Φ = z² needs far more width than 10⁴: its weight H is larger by a factor ‖Vw‖/ε_x.",
    )

    def check(self, settings: Settings) -> None:
        require(
            "z" in settings.functions, f"functions must have z, which the claims are about; got {settings.functions}"
        )

    def measure(self, results: Results[Settings]) -> Measures:
        return {"networks": functools.partial(errors, results.settings)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        s = tables.settings
        say = say.about(needs=[need(s.networks, FEWEST, "networks per width")])
        linear, last = tables["networks"].filter(function="z"), s.widths[-1]
        correlations = curves(linear, by="eps_x", x="width", y="correlation", statistic=mean)
        deviations, movements = (
            curves(linear, by="eps_x", x="width", y=column, statistic=mean_time) for column in ("deviation", "movement")
        )
        for eps_x in s.sizes:
            tag, where = f"eps{eps_x:g}", f"Φ = z, ε_x = {eps_x:g}"
            say(
                f"correlation-{tag}",
                f"{where}: at m = {last:,} the expansion has a correlation of .9 or more with the target.",
                correlations[eps_x].at(last),
                "mean correlation over inputs",
                at_least=0.9,
                source_value={0.1: ".98 at m = 10⁴", 0.3: ".982 at m = 10⁴"}.get(eps_x, ""),
                needs=[need(last, DECISIVE, "is the largest width")],
            )
            say(
                f"deviation-{tag}",
                f"{where}: the deviation of the error falls from each width to the next.",
                maximum([after / before for before, after in itertools.pairwise(deviations[eps_x].y)]),
                "largest ratio of neighbouring deviations",
                below=1.0,
                source_value={0.1: ".32 .23 .10 at m = 1000 4000 10⁴"}.get(eps_x, ""),
            )
            sizes = movements[eps_x].y
            say(
                f"movement-{tag}",
                f"{where}: √m‖A*‖_F does not depend on m, within 15%.",
                maximum(sizes) / minimum(sizes),
                "largest / least mean of √m‖A*‖_F",
                at_most=1.15,
                source_value={0.1: "33.4 at all m", 0.3: "11.7 at all m"}.get(eps_x, ""),
            )
        for low, high in itertools.pairwise(s.sizes):
            say(
                f"movement-{low:g}-to-{high:g}",
                f"Φ = z: √m‖A*‖_F is proportional to 1/ε_x from {low:g} to {high:g}, within 20%.",
                movements[low].at(last) / movements[high].at(last) * (low / high),
                "ratio of √m‖A*‖_F over the ratio of 1/ε_x",
                between=(0.8, 1.2),
                source_value="33.4 and 11.7 at ε_x = .1 and .3",
            )

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        s, table = tables.settings, tables["networks"]
        chart = self.chart("pseudo-network", self.title, columns=3, width=12.0)
        for title, column, log in (
            ("correlation with the target", "correlation", "x"),
            ("deviation of the error", "deviation", "xy"),
            ("size of the shift", "movement", "xy"),
        ):
            words = {"correlation": "over inputs", "deviation": "over inputs", "movement": "√m‖A*‖_F"}[column]
            panel = chart.panel(title=title, x="width m", y=words, log=log, xticks=s.widths)
            for (function, eps_x), curve in curves(
                table, by=("function", "eps_x"), x="width", y=column, statistic=mean
            ).items():
                panel.curve(curve, f"Φ = {function}, ε_x = {eps_x:g}", key="legend" if column == "correlation" else "")
            if column == "correlation":
                panel.ax.set_ylim(-0.1, 1.05)
                panel.legend(loc="center right")
        yield chart.figure(
            f"The expansion f(0, A*) of random networks against F(x) = Φ(⟨w, x⟩) on {s.sequences} sequences of length "
            f"{s.length}, {s.networks} networks and targets of the largest width and up to {MOST * s.networks} of "
            "others; means with 95% intervals by Student."
        )


def errors(s: Settings) -> pl.DataFrame:
    """A row per width, network, ε_x and function."""
    rows = []
    for width, which, network in s.drawn():
        for eps_x in s.sizes:
            base = network.run(base_of(s.length, s.dx, eps_x, "float32"))
            run = network.run(some_sequences(s.sequences, s.length, s.dx, eps_x, which, "float32"))
            tokens = run.x[:, 1:-1, :-1].astype(np.float64) / eps_x
            for function in s.functions:
                target = random_target(s.length, s.dx, phi=function, seed=which)
                a = shift_column(base, target, eps_x).astype(np.float32)
                weights = {"W": network.W, "A": network.A, "B": network.B, "a": a}
                made = PseudoNetwork(target, s.length, s.dx, eps_x, which, weights)
                f, F = made.expanded(run)[:, 0], target(tokens)[:, 0]
                rows.append(
                    {
                        "width": width,
                        "network": which,
                        "eps_x": eps_x,
                        "function": function,
                        "correlation": float(np.corrcoef(f, F)[0, 1]),
                        "deviation": float(np.std(f - F)),
                        "offset": float(np.mean(f - F)),
                        "target_deviation": float(np.std(F)),
                        "movement": made.movement,
                    }
                )
    return pl.DataFrame(rows)
