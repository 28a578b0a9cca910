"""Figures 6.3 and C.3: the test error of networks on tables, by training rows, width, depth and start.

The source finds on 16 tables what it finds on parities: (2T) wider networks err less, nearly monotonically, and (3T) a
start with two ones in each row of the first layer sometimes helps, most where few rows are left.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from krogh.engine import Trials
from krogh.experiments.tabular.common import FEWEST_SPLITS, TableSettings, advantage, cohorts_on, errors_on
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
    median,
    need,
    setting,
)
from krogh.lab.experiment import Measures
from krogh.models import DeepMlp

LABELS = ("depth", "width", "sparsity", "decay")
SLACK = 2.0  # points by which a wider network may be worse where width helps "nearly" monotonically
SAME = 1.0  # points that are no effect


@dataclass(frozen=True)
class Settings(TableSettings):
    widths: tuple[int, ...] = setting((100, 300, 1000, 3000), "neurons per hidden layer", increasing=True, least=1)
    depths: tuple[int, ...] = setting((3,), "hidden layers", increasing=True, least=1, most=8)
    sparsities: tuple[int, ...] = setting(
        (0, 2), "ones in a row of the first layer; 0 is dense", distinct=True, least=0
    )
    decays: tuple[float, ...] = setting((0.0,), "weight decay, multiplied by the rate", distinct=True, least=0)


@experiment("tabular/width")
class Width(Experiment[Settings]):
    """Test errors on tables by training rows, width, depth and start."""

    title = "On tables too, width helps, and a sparse start sometimes"
    question = "Do wider networks err less on a table, and does a 2-sparse start help where few rows are left?"
    source = "dissertation, Figures 6.3 and C.3"
    scales = {
        "smoke": Settings(
            data=("synthetic",), fractions=(0.01, 0.03), splits=2, widths=(4, 16), depths=(1,), epochs=10
        ),
        "laptop": Settings(
            data=("magic",), fractions=(0.003, 0.01, 0.03), splits=10, widths=(30, 100, 300, 1000), depths=(1, 2)
        ),
        "paper": Settings(
            fractions=(0.003, 0.01, 0.03, 0.1, 0.3, 1.0), splits=20, depths=(1, 2, 3), sparsities=(0, 2, 4)
        ),
    }
    notes = (
        "Optimiser and loss are not stated for the tables; plain SGD and the hinge are those of the source's parities. "
        "With Adam (optimiser=adam) narrow networks do as well as wide ones.",
        "The source has 100 splits, widths to 30,000 and 17 fractions of each of 16 tables, 2.9 million runs if all of "
        "its grid was run; here a part of it, on the tables inside packages. data=openml-337 asks for the source's.",
        "Splits of one table share rows: an interval says how much a mean over splits of this table may vary, and "
        "nothing about other tables.",
    )

    def trials(self, settings: Settings) -> Iterator[Trials]:
        axes = itertools.product(settings.depths, settings.widths, settings.sparsities, settings.decays)
        for rows, (depth, width, sparsity, decay) in itertools.product(settings.tables(), tuple(axes)):
            if sparsity <= rows.d:
                label = {"depth": depth, "width": width, "sparsity": sparsity, "decay": decay}
                yield from cohorts_on(rows, DeepMlp((width,) * depth, sparsity), settings, label, decay=decay)

    def measure(self, results: Results[Settings]) -> Measures:
        return {"errors": errors_on(results, LABELS)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        enough = need(settings.splits, FEWEST_SPLITS, "splits")
        for (name, source), errors in groups(tables["errors"], ("set", "source")).items():
            about = say.about(f"{name}-", f"{name} ({source}): ", needs=[enough])
            for sparsity, own in groups(errors, "sparsity").items():
                self._width(about, settings, own, f"{_start(sparsity)}", name)
            if {0, 2} <= {*settings.sparsities}:
                self._sparse(about, errors, name)
            self._others(about, settings, errors, name)

    def _width(self, say: Claims, settings: Settings, errors: pl.DataFrame, start: str, name: str) -> None:
        if len(settings.widths) < 2:
            return
        low, high = settings.widths[0], settings.widths[-1]
        say(
            f"wider-is-better-{start}",
            f"networks of {high} neurons per layer err less than those of {low} ({start} start).",
            advantage(errors, "width", low, high, sample=name),
            f"error at width {low} - at width {high}, mean over sizes, depths and splits",
            above=0.0,
            unit="points",
            source_value="width helps nearly monotonically",
        )
        neighbours = itertools.pairwise(settings.widths)
        say(
            f"monotone-{start}",
            f"from one width to the next the error never grows by much ({start} start).",
            maximum([-advantage(errors, "width", one, next_, sample=name) for one, next_ in neighbours]),
            "largest growth of the error from one width to the next, mean over sizes, depths and splits",
            at_most=SLACK,
            unit="points",
            source_value="width helps nearly monotonically",
        )

    def _sparse(self, say: Claims, errors: pl.DataFrame, name: str) -> None:
        by_size = {m: advantage(own, "sparsity", 0, 2, sample=name) for m, own in sorted(groups(errors, "m").items())}
        if not by_size:
            return
        say(
            "sparse-start-helps-somewhere",
            "at some size a 2-sparse start errs less than a dense one.",
            maximum([*by_size.values()]),
            "largest over sizes of error(dense) - error(2-sparse), mean over widths, depths and splits",
            above=0.0,
            unit="points",
            source_value="sparse initialisation sometimes improves the end-to-end performance",
        )
        if len(by_size) > 1:
            few, many = min(by_size), max(by_size)
            say(
                "sparse-start-helps-small-samples-most",
                f"a 2-sparse start helps more with {few} training rows than with {many}.",
                by_size[few] - by_size[many],
                f"[error(dense) - error(2-sparse)] at m = {few} - the same at m = {many}",
                above=0.0,
                unit="points",
                source_value="particularly pronounced when datasets are downsampled",
            )

    def _others(self, say: Claims, settings: Settings, errors: pl.DataFrame, name: str) -> None:
        if 1 in settings.depths:
            for depth in settings.depths[1:]:
                say(
                    f"depth-{depth}-beats-depth-1",
                    f"networks of {depth} hidden layers err less than those of one and the same width.",
                    advantage(errors, "depth", 1, depth, sample=name),
                    f"error at depth 1 - at depth {depth}, mean over sizes, widths, starts and splits",
                    above=0.0,
                    unit="points",
                    source_value="depth 1 is almost always beaten by deeper networks of the same width",
                )
        if {2, 4} <= {*settings.sparsities}:
            say(
                "two-ones-beat-four",
                "2-sparse starts err less than 4-sparse ones.",
                advantage(errors, "sparsity", 4, 2, sample=name),
                "error(4-sparse) - error(2-sparse), mean over sizes, widths, depths and splits",
                above=0.0,
                unit="points",
                source_value="4-sparse is almost always beaten by 2-sparse",
            )
        for decay in settings.decays[1:]:
            say(
                f"decay-{decay:g}-changes-little",
                f"weight decay {decay:g} changes the error by less than {SAME:g} point.",
                abs(advantage(errors, "decay", settings.decays[0], decay, sample=name)),
                "|difference of errors|, mean over all else",
                at_most=SAME,
                unit="points",
                source_value="minimal effect",
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, depth = tables.settings, tables.settings.depths[-1]
        shown = tables["errors"].filter(depth=depth, decay=settings.decays[0])
        for (name, source), errors in groups(shown, ("set", "source")).items():
            starts = groups(errors, "sparsity")
            chart = self.chart(
                f"errors-{name}",
                f"{name}: test error by training rows and width",
                columns=len(starts),
                width=max(6.4, 4.2 * len(starts)),
                sharey=True,
            )
            for sparsity, own in starts.items():
                panel = chart.panel(
                    x="training rows m", y="test error (%)", title=f"{_start(sparsity)} start, depth {depth}", log="x"
                )
                found = curves(own, x="m", by="width", y="error", statistic=median, lowest=0.0, highest=100.0)
                for width, curve in sorted(found.items()):
                    panel.curve(curve, f"r = {width:,}", key="legend")
            yield chart.figure(
                f"Median test error over {settings.splits} splits of {name} ({source}), with 95% intervals of the "
                f"median; networks of {depth} hidden layers of r neurons, {settings.optimiser.upper()}, rate "
                f"{settings.rate:g}, {settings.epochs} epochs, batches of {settings.batch_size}."
            )


def _start(sparsity: int) -> str:
    return "dense" if sparsity == 0 else f"{sparsity}-sparse"
