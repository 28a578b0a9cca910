"""Figure B.2: twenty-four more training curves, in four rows.

Harder parities are learned later by the same network; every batch size will do; networks that are barely large enough
converge with reasonable probability; large ones do too, at any batch size. On the (50,3)-parity, but for the first row.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.experiments.parity.common import FEWEST_SEEDS, OnlineSettings, draw_errors
from krogh.lab import (
    Claims,
    Experiment,
    Figure,
    Tables,
    experiment,
    groups,
    median_time,
    need,
    setting,
    share_of,
    times_of,
)
from krogh.models import Model, ParityTransformer, configuration
from krogh.probes import Error
from krogh.tasks import Parity
from krogh.training import Adam, Sgd

TRANSFORMER = "*iii"
ROWS = {
    "instances": "the same network on harder parities",
    "batches": "PolyNet at every batch size",
    "smallest": "networks that are barely large enough",
    "largest": "large networks at both ends of the batch sizes",
}


@dataclass(frozen=True)
class Panel:
    """One panel: its row, architecture, batch, rate, and parity."""

    row: str
    configuration: str
    batch_size: int
    rate: float
    n: int = 50
    k: int = 3

    @property
    def title(self) -> str:
        size = f"({self.n},{self.k})" if self.row == "instances" else f"B={self.batch_size}, η={self.rate:g}"
        return f"({self.configuration}) {size}"


def _panels() -> Iterator[tuple[str, Panel]]:
    for n, k in ((30, 3), (60, 3), (90, 3), (30, 4), (30, 5), (30, 6)):
        yield f"relu-{n}-{k}", Panel("instances", "ii", 32, 0.1, n, k)
    for batch_size, rate in ((1, 0.005), (4, 0.01), (16, 0.1), (64, 0.1), (256, 0.1), (1024, 0.1)):
        yield f"polynet-{batch_size}", Panel("batches", "xv", batch_size, rate)
    for name in ("*i", "*ii", "vii", "viii", "xi", "xii"):
        yield f"{name.replace('*', 'star-')}-1", Panel("smallest", name, 1, 0.01 if name == "*ii" else 0.1)
    for name, batch_size, rate in (
        ("iii", 1, 0.1),
        ("iii", 1024, 0.1),
        ("vi", 1, 0.001),
        ("vi", 1024, 0.01),
        (TRANSFORMER, 32, 3e-4),
        (TRANSFORMER, 1024, 3e-4),
    ):
        yield f"{name.replace('*', 'star-')}-{batch_size}", Panel("largest", name, batch_size, rate)


PANELS: Mapping[str, Panel] = dict(_panels())
TRANSFORMERS = tuple(name for name, panel in PANELS.items() if panel.configuration == TRANSFORMER)


@dataclass(frozen=True)
class Settings(OnlineSettings):
    panels: tuple[str, ...] = setting(tuple(PANELS), "the source's twenty-four panels", distinct=True, among=PANELS)
    n: int = setting(0, "input bits of all panels; those of the source where it is 0", least=0)
    seeds: int = setting(25, "trials per panel", least=1)
    probe_every: int = setting(10, "steps between two points of a curve", least=1)
    validation: int = setting(8192, "validation examples, all of which must be right", least=1)
    smallest_batch: int = setting(1, "batch size of the third row, where the source prints 1", least=1)
    transformer: Literal["paper", "small"] = setting("paper", "embedding 1024 and 128 heads, or 256 and 32")
    transformer_seeds: int = setting(8, "trials of a transformer's panel", least=1)
    transformer_budget: int = setting(4_000, "steps after which a transformer has failed", least=1)

    def panel(self, name: str) -> Panel:
        """A panel as it is trained."""
        panel = PANELS[name]
        batch_size = self.smallest_batch if panel.row == "smallest" else panel.batch_size
        return dataclasses.replace(panel, n=self.n or panel.n, batch_size=batch_size)


@experiment("parity/gallery")
class Gallery(Experiment[Settings]):
    """Twenty-four training curves: instances, batch sizes, the smallest and the largest networks."""

    title = "Harder parities are learned later, by small and large networks, at every batch size"
    question = "Do training curves of other instances, batch sizes and networks look alike?"
    source = "dissertation, §B.3, Figure B.2"
    scales = {
        "smoke": Settings(panels=("relu-30-3", "polynet-16"), n=10, seeds=3, budget=1_000, validation=512),
        "laptop": Settings(
            panels=tuple(name for name in PANELS if name not in (*TRANSFORMERS, "iii-1024", "vi-1024")),
            seeds=8,
            validation=1024,
            probe_every=100,
        ),
        "paper": Settings(),
    }
    notes = (
        'The source calls the network of the first row "width-10 (ii)"; (ii) has width 100.',
        "The source prints B = 1 for the third row, against its own statement that (*i) and (*ii) are robust only from "
        "B = 16 on; smallest_batch tries another.",
        "At laptop scale the panels of transformers and of width 1000 at B = 1024 are left out.",
    )

    def trials(self, settings: Settings) -> Iterator[Trials]:
        for name in settings.panels:
            panel = settings.panel(name)
            large = panel.configuration == TRANSFORMER
            own = dataclasses.replace(settings, budget=settings.transformer_budget) if large else settings
            training = own.training(Adam(panel.rate) if large else Sgd(panel.rate), panel.batch_size)
            task, model = Parity(panel.n, panel.k), model_of(panel, settings)
            trial = Trial(task, model, training, probes=(Error(),), probe_every=settings.probe_every)
            seeds = settings.transformer_seeds if large else settings.seeds
            yield from sweep(trial, seed=range(seeds), label={"panel": name})

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, cells = tables.settings, groups(tables["trials"], "panel")
        for name, rows in cells.items():
            panel = settings.panel(name)
            about = say.about(f"{name}-", panel.title, needs=[need(len(rows), FEWEST_SEEDS, "seeds")])
            about(
                "learns",
                f", {ROWS[panel.row]}: SGD reaches zero error.",
                share_of(np.isfinite(times_of(rows)), sample=name),
                f"share of seeds that converge within {rows['training.stopping.budget'][0]:,} steps",
                at_least=0.2,  # the 20% of the source's grid (§5.3.1)
                source_value="reasonable probability" if panel.row == "smallest" else "converges",
            )
        about = say.about("order-", needs=[need(settings.seeds, FEWEST_SEEDS, "seeds per panel")])
        for low, high in harder(settings):
            medians = [median_time(times_of(cells[name]), sample=name) for name in (low, high)]
            easy, hard = (settings.panel(name) for name in (low, high))
            about(
                f"{hard.n}-{hard.k}",
                f"({hard.n},{hard.k}) is learned later than ({easy.n},{easy.k}) by the same network.",
                medians[1] / medians[0],
                f"median t_c of ({hard.n},{hard.k}) / of ({easy.n},{easy.k})",
                above=1.0,
                source_value="adapts to the difficulty n, k",
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, cells = tables.settings, groups(tables["trials"], "panel")
        rows = {row: [name for name in cells if PANELS[name].row == row] for row in ROWS}
        rows = {row: names for row, names in rows.items() if names}
        columns = max(map(len, rows.values()))
        chart = self.chart(
            "gallery",
            "Training curves of further instances, batch sizes and networks",
            headline=self.title,
            rows=len(rows),
            columns=columns,
            width=max(6.0, 2.15 * columns),
            height=1.75 * len(rows) + 0.8,
            sharey=True,
        )
        drawn = []
        for row, names in enumerate(rows.values()):
            for column, name in enumerate(names):
                panel = chart[row * columns + column].axes(title=settings.panel(name).title, ylim=(-0.02, 0.62))
                panel.axes(y="" if column else "error", x="steps" if row == len(rows) - 1 else "")
                panel.ax.title.set_fontsize(8.5)
                panel.ax.tick_params(labelsize=7.5)
                panel.ax.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4))
                panel.ax.xaxis.get_offset_text().set_fontsize(7)
                drawn.append(draw_errors(panel, cells[name]).with_columns(panel=pl.lit(name)))
        yield chart.figure(
            f"Share of wrong predictions on {min(settings.validation, 1024)} examples every {settings.probe_every} "
            f"steps, {settings.seeds} seeds per panel (thin), the seed of median convergence time in full colour. "
            f"Rows: {'; '.join(ROWS[row] for row in rows)}.",
            pl.concat(drawn),
        )


def model_of(panel: Panel, settings: Settings) -> Model:
    if panel.configuration == TRANSFORMER and settings.transformer == "small":
        return ParityTransformer(embedding=256, heads=32, attention=8)
    return configuration(panel.configuration, panel.k)


def harder(settings: Settings) -> list[tuple[str, str]]:
    """Neighbouring panels of the first row that differ in n alone, or in k alone, the easier one first."""
    own = [name for name in settings.panels if PANELS[name].row == "instances"]
    sizes = {name: (settings.panel(name).n, settings.panel(name).k) for name in own}
    by_n = sorted((name for name in own if sizes[name][1] == 3), key=lambda name: sizes[name])
    by_k = sorted((name for name in own if sizes[name][0] == 30), key=lambda name: sizes[name])
    return [*itertools.pairwise(by_n), *itertools.pairwise(by_k)]
