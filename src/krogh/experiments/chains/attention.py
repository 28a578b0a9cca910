"""Figures 8.2 and E.5: what the two layers attend to, before, during and after the drop; and is it the construction?

Weights are kept along training. On one fixed input the attention of both layers is drawn at four moments: at the start
it is even, in the end the first layer attends to the token before and the second to what followed the present symbol,
which is what the head of Proposition 8.2 does that somebody wrote down.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.errors import require
from krogh.experiments.chains.common import FEWEST_SEEDS, SMOKE, ChainSettings
from krogh.lab import Claims, Experiment, Figure, Network, Results, Tables, experiment, groups, need, setting
from krogh.lab.estimate import median
from krogh.lab.experiment import Measures
from krogh.lab.phases import transition_time
from krogh.models import CausalTransformer
from krogh.probes.chains import induction
from krogh.probes.features.induction import induction_distance
from krogh.tasks.chains import MarkovChains

MOMENTS = ("start", "plateau", "drop", "end")
LOOKED_AT = 128  # sequences over which attention is averaged


@dataclass(frozen=True)
class Settings(ChainSettings):
    k: int = setting(3, "symbols", least=2)
    seeds: int = setting(20, "networks", least=1)
    snapshots: int = setting(25, "steps at which weights are kept", least=2)


@experiment("chains/attention")
class ChainAttention(Experiment[Settings]):
    """Attention of both layers along training, and the distance of the trained head to the constructed one."""

    title = "Attention on the way to an induction head"
    question = "What do the two layers attend to before, during and after the drop, and is the end the construction?"
    source = "dissertation, Figures 8.2 and E.5, Proposition 8.2"
    scales = {
        "smoke": Settings(**SMOKE, k=2, snapshots=3),
        "laptop": Settings(length=60, rate=1e-3, steps=1_600, look_every=40, seeds=6, validation=300, snapshots=12),
        "paper": Settings(),
    }
    notes = (
        "Moments: the start, the snapshot nearest to half the time of the transition, the one nearest to the "
        "transition, and the end. A seed without a transition has a start and an end only.",
    )
    keep_weights = True

    def check(self, settings: Settings) -> None:
        settings.check_looks()
        enough = len(settings.snapshot_steps(settings.snapshots)) >= 2
        require(enough, f"snapshots must fall on two looks at least; got snapshots={settings.snapshots}")

    def trials(self, settings: Settings) -> Iterator[Trials]:
        steps = settings.snapshot_steps(settings.snapshots)
        trial = settings.trial(settings.chains(settings.k), snapshots=steps)
        yield from sweep(trial, seed=range(settings.seeds))

    def measure(self, results: Results[Settings]) -> Measures:
        scores: list[dict[str, float]] = []
        maps: list[pl.DataFrame] = []
        for network in results.networks():
            if network.final is None:
                continue
            moments = _moments(network)
            ends = {name: _attention(network.trial, network.at(step)) for name, step in moments.items()}
            scores.append(_scores(network, ends))
            if not maps:
                maps = [_map(name, step, *ends[name][:2]) for name, step in moments.items()]
        return {
            "scores": pl.DataFrame(scores, infer_schema_length=None),
            "maps": pl.concat(maps) if maps else pl.DataFrame(),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        rows = tables["scores"]
        say = say.about(needs=[need(len(rows), FEWEST_SEEDS, "networks")])

        def middle(name: str) -> Any:
            return median(rows[name].to_numpy(), lowest=0.0, sample="networks")

        say(
            "even-start",
            "At the start attention is even: no weight of row i exceeds 2/i.",
            middle("start_largest"),
            "median over networks of max over layers and rows of i·(largest weight of row i)",
            below=2.0,
            source_value="uniform attention",
        )
        say(
            "previous-token",
            "In the end the first layer attends most to the token before.",
            middle("end_argmax"),
            "median over networks of the share of rows i ≥ 2 with their largest weight at i − 1",
            at_least=0.9,
            source_value="attends to the previous token",
        )
        say(
            "successors",
            "and the last row of the second layer to the successors of its symbol.",
            middle("end_induction"),
            "median over networks of the attention to successors",
            at_least=0.8,
            source_value="attends to successors of the present symbol",
        )
        say(
            "construction",
            "The trained network predicts what the constructed head does at its best temperature and scale.",
            middle("variation"),
            "median over networks of the mean total variation between softmax(a·frequencies) and the network, best a",
            at_most=0.1,
            source_value="implements the induction head",
        )
        say(
            "replaceable",
            "With both layers' attention replaced by the construction's, the trained network loses at most 10% of what "
            "it has gained over unigrams.",
            middle("replacement_cost"),
            "median over networks of (loss with ideal attention − loss)/(unigram's loss − loss)",
            at_most=0.1,
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        if not len(tables["maps"]):
            return
        maps = groups(tables["maps"], ("moment", "layer"))
        names = [name for name in MOMENTS if (name, 1) in maps]
        chart = self.chart(
            "attention",
            "Attention along training",
            rows=2,
            columns=len(names),
            width=2.8 * len(names),
            height=5.8,
        )
        for layer in (1, 2):
            for name in names:
                rows = maps[name, layer]
                size = int(rows["i"].max()) + 1  # type: ignore[arg-type, operator]
                weights = rows["weight"].to_numpy().reshape(size, size)
                step = int(rows["step"][0])
                head = f"{name} ({step * tables.settings.batch_size:,} sequences)" if layer == 1 else ""
                panel = chart.panel(title=head, y=f"layer {layer}: from position" if name == names[0] else "")
                panel.axes(x="to position" if layer == 2 else "")
                panel.ax.grid(False)
                image = panel.ax.imshow(np.sqrt(weights), cmap="magma", vmin=0, vmax=1, interpolation="nearest")
        bar = chart.drawing.colorbar(image, ax=[panel.ax for panel in chart], label="√ of the weight", shrink=0.6)
        bar.outline.set_visible(False)
        yield chart.figure(
            "Softmax weights (colour: their square root) of both layers of the first network on one test sequence; "
            "scores before the softmax are in the data.",
            tables["maps"],
        )


def _moments(network: Network) -> dict[str, int]:
    """Snapshots at the start, half-way to the transition, at it and at the end, as steps."""
    steps = np.asarray(network.trial.snapshots)
    moved = transition_time(network.curve, "unigram", "bigram")
    found = {"start": int(steps[0])}
    if np.isfinite(moved):
        for name, wanted in (("plateau", moved / 2), ("drop", moved)):
            found[name] = int(steps[np.argmin(np.abs(steps - wanted))])
    return found | {"end": int(steps[-1])}


def _attention(trial: Trial, params: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores and weights [layers, t, t] on the first test sequence, and weights [layers, batch, t, t] of many."""
    assert isinstance(trial.model, CausalTransformer)
    tokens = trial.validation(LOOKED_AT).x

    def look(params: Any) -> Any:
        return trial.model.scores(params, tokens[:1]), trial.model.attention(params, tokens)  # type: ignore[attr-defined]

    scores, weights = jax.jit(look)({name: jnp.asarray(leaf) for name, leaf in params.items()})
    return np.asarray(scores)[:, 0, 0], np.asarray(weights)[:, 0, 0], np.asarray(weights)[:, :, 0]


def _scores(network: Network, ends: dict[str, Any]) -> dict[str, float]:
    task, trial = network.trial.task, network.trial
    assert isinstance(task, MarkovChains) and network.final is not None
    examples = trial.validation(LOOKED_AT)
    start, end = ends["start"][2], ends["end"][2]
    rows = 1 + np.arange(task.length)
    first = end[0][:, 1:]
    assert isinstance(trial.model, CausalTransformer)
    compared = induction_distance(task, trial.model, network.final, examples)
    counted = task.judge_strategy(task.strategies()["unigram"](examples.x), examples)
    gained = float(jnp.mean(counted)) - compared.losses["network"]
    return {
        "seed": network.seed,
        "start_largest": float((start.mean(axis=1).max(axis=-1) * rows).max()),
        "end_argmax": float(np.mean(first.argmax(axis=-1) == np.arange(task.length - 1)[None])),
        "end_induction": float(jnp.mean(induction(jnp.asarray(end[1])[:, None], examples.x))),
        "variation": compared.variation,
        "scale": compared.scale,
        "first_layer": compared.first,
        "second_layer": compared.second,
        "replacement_cost": (compared.losses["both"] - compared.losses["network"]) / gained if gained > 0 else math.inf,
    }


def _map(moment: str, step: int, scores: np.ndarray, weights: np.ndarray) -> pl.DataFrame:
    layers, i, j = np.indices(weights.shape)
    entries = {"layer": layers.ravel() + 1, "i": i.ravel(), "j": j.ravel(), "weight": weights.ravel()}
    table = pl.DataFrame({**entries, "score": np.where(np.isfinite(scores), scores, np.nan).ravel()})
    return table.select(pl.lit(moment).alias("moment"), pl.lit(step).alias("step"), pl.all())
