"""Known hazards of the setting, measured: what changes a curve without being a finding.

start      sequences that begin with a uniform symbol instead of a stationary one
leak       a first layer without its mask: the next token is copied, and the loss falls below any honest one
bands      the same seeds drawn with a standard deviation, with the range, and with an interval of the median
rate       3e-5 as printed in Appendix E.2, against 5e-4
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
from jaxtyping import Array, Float, UInt32

from krogh.engine import Trials, sweep
from krogh.errors import require
from krogh.experiments.chains.common import FEWEST_SEEDS, SMOKE, ChainSettings, share_where
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, groups, need, setting
from krogh.lab.estimate import mean, median, median_time
from krogh.lab.experiment import Measures
from krogh.lab.phases import curve_table, phase_table
from krogh.models import CausalTransformer
from krogh.models.base import Parameters
from krogh.tasks.chains import MarkovChains
from krogh.values import replaced

USUAL, UNIFORM, LEAKING, PRINTED = "as it should be", "uniform start", "leaking first layer", "printed rate"
CASES = (USUAL, UNIFORM, LEAKING, PRINTED)
PRINTED_RATE = 3e-5
CURVES = ("loss", "baseline_uniform", "baseline_unigram", "baseline_bigram")


class LeakingTransformer(CausalTransformer):
    """The transformer as a wrong index makes it: in its first layer v_{i-j+1} is looked up for later j too, where a
    negative index counts from the end, and no mask follows. Position i may attend to x_{i+1}, which it predicts."""

    @property
    def causal(self) -> bool:
        return False

    def _counts(self, params: Parameters, x: Array) -> bool:
        return False

    def _scores(
        self, params: Parameters, read: Array, layer: int, noise: UInt32[Array, ""] | None, asked: slice
    ) -> Array:
        if layer > 0:
            return super()._scores(params, read, layer, noise, asked)
        length, scale = read.shape[1], 1 / math.sqrt(self.dimension // self.heads)
        query = self._by_head(scale * (read @ params["Q"][layer]))
        scores = jnp.einsum("biha,bjha->bhij", query, self._by_head(read @ params["K"][layer]))
        back = (np.arange(length)[:, None] - np.arange(length)[None, :]) % length
        scores = scores + jnp.einsum("biha,ijha->bhij", query, self._by_head(params["v"][layer][back]))
        return scores[:, :, asked]


class UnguardedChains(MarkovChains):
    """The same chains, for networks that look ahead."""

    @property
    def causal(self) -> bool:
        return False


@dataclass(frozen=True)
class Settings(ChainSettings):
    k: int = setting(2, "symbols", least=2)
    cases: tuple[str, ...] = setting(CASES, "what is trained", distinct=True, among=CASES)


@experiment("chains/hazards")
class Hazards(Experiment[Settings]):
    """Four ways to a wrong curve."""

    title = "Hazards: a wrong start, a missing mask, a choice of band, a misprinted rate"
    question = "Which differences between two curves of this setting are artefacts?"
    source = "dissertation, §8.2.1, Appendix E.2; the reference's list of pitfalls"
    scales = {
        "smoke": Settings(**SMOKE, cases=(USUAL, LEAKING)),
        "laptop": Settings(k=3, length=50, rate=1e-3, steps=1_600, look_every=80, seeds=8, validation=300),
        "paper": Settings(),
    }
    notes = (
        "A network that leaks is refused by the task; it is trained here on a copy of the task without the guard.",
    )

    def check(self, settings: Settings) -> None:
        settings.check_looks()
        compared = USUAL in settings.cases
        require(compared, f"the other cases are compared with {USUAL!r}; got cases={settings.cases}")

    def trials(self, settings: Settings) -> Iterator[Trials]:
        usual = settings.trial(settings.chains(settings.k))
        unguarded: Any = UnguardedChains
        unguarded = unguarded(settings.k, settings.length)
        leaking = LeakingTransformer.paper(dimension=settings.dimension)
        assert isinstance(leaking, LeakingTransformer)
        trials = {
            USUAL: usual,
            UNIFORM: settings.trial(settings.chains(settings.k, start="uniform")),
            LEAKING: settings.trial(unguarded, leaking),
            PRINTED: replaced(usual, "training.optimiser.rate", PRINTED_RATE),
        }
        for name in settings.cases:
            yield from sweep(trials[name], seed=range(settings.seeds), label={"case": name})

    def measure(self, results: Results[Settings]) -> Measures:
        scale = float(results.settings.batch_size)
        curves = curve_table(results.table, CURVES, labels=("case",), scale=scale)
        phases = phase_table(results.table, "unigram", "bigram", labels=("case",), scale=scale)
        entropy = entropy_rate(results.settings.chains(results.settings.k))
        return {
            "phases": phases.with_columns(excess=results.table["loss"] - entropy),
            "curves": curves,
            "bands": _bands(curves.filter(pl.col("case") == USUAL)),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        cases, settings = groups(tables["phases"], "case"), tables.settings
        say = say.about(needs=[need(settings.seeds, FEWEST_SEEDS, "seeds")])
        horizon = float(settings.steps * settings.batch_size)
        times = {
            name: median_time(rows["transition"].to_numpy(), horizon=horizon, sample=name)
            for name, rows in cases.items()
        }
        gained = {
            name: mean((rows["baseline_uniform"] - rows["baseline_unigram"]).to_numpy(), sample=f"{name} gain")
            for name, rows in cases.items()
        }
        if UNIFORM in cases:
            say(
                "start-times",
                "A uniform start instead of a stationary one changes the transition time by less than a factor 2.",
                times[UNIFORM] / times[USUAL],
                "ratio of the median numbers of sequences until the transition",
                between=(0.5, 2.0),
            )
            say(
                "start-gain",
                "and what unigrams gain over guessing by less than a tenth.",
                gained[UNIFORM] / gained[USUAL],
                "ratio of the mean gains (uniform's loss − unigram's)",
                between=(0.9, 1.1),
            )
        if LEAKING in cases:
            say(
                "leak",
                "A first layer that leaks has a training loss below what the best predictor can have.",
                median(cases[LEAKING]["excess"].to_numpy(), sample="leak"),
                "median of (last training loss) − (entropy of the chains, the loss of whoever knows each chain), nats",
                below=0.0,
            )
        if PRINTED in cases:
            say(
                "printed-rate",
                f"With the printed rate {PRINTED_RATE:g} most networks are still on the plateau after {horizon:,.0f} "
                "sequences.",
                share_where(cases[PRINTED], pl.col("transition").is_infinite(), PRINTED),
                "share of seeds without a transition",
                at_least=0.5,
                source_value="a drop near 92,000 sequences",
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        cases = groups(tables["curves"], "case")
        chart = self.chart("hazards", "Four hazards", columns=2, width=10.4)
        panel = chart.panel(x="training sequences", y="KL(truth ‖ network), nats", log="y", title="what is trained")
        for (name, rows), color in zip(cases.items(), figures.PALETTE, strict=False):
            panel.ranges(rows, "time", "loss", name, middle=pl.Expr.median, color=color, key="legend")
        for name in ("unigram", "bigram"):
            panel.reference(float(cases[USUAL][f"baseline_{name}"].mean()), name)  # type: ignore[arg-type]
        bands = tables["bands"]
        panel = chart.panel(x="training sequences", y="width of the band, nats", title="the same seeds, three bands")
        for name, words in (
            ("range", "range"),
            ("deviation", "mean ± standard deviation"),
            ("interval", "95% interval of the median"),
        ):
            panel.line(bands["time"], bands[name], words, style="-", key="legend")
        yield chart.figure(
            "Left: median loss with the range over seeds. A leaking network is judged at the last position, where it "
            "has nothing to copy. Right: how wide three usual bands are around the same seeds.",
        )


def entropy_rate(task: MarkovChains, sequences: int = 20_000) -> float:
    """E H(P_x), nats: the least cross-entropy of anybody who knows the chain of each sequence but not its future."""

    def entropies(task: MarkovChains) -> Float[Array, " sequences"]:
        rows = task.true_rows(task.decode(task.test(jax.random.key(0), sequences)))
        return -jnp.sum(jnp.where(rows > 0, rows * jnp.log(jnp.where(rows > 0, rows, 1.0)), 0.0), axis=-1)

    return float(jnp.mean(jax.jit(entropies)(task)))


def _bands(rows: pl.DataFrame) -> pl.DataFrame:
    """The width of three bands at every look."""
    found = []
    for time, own in groups(rows, "time").items():
        losses = own["loss"].to_numpy()
        middle = median(losses)
        found.append(
            {
                "time": time,
                "range": float(np.ptp(losses)),
                "deviation": 2 * float(losses.std(ddof=1)) if len(losses) > 1 else 0.0,
                "interval": float(middle.high - middle.low),
            }
        )
    return pl.DataFrame(found, schema_overrides={"interval": pl.Float64}).sort("time")
