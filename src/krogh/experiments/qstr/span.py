"""Theorem 6: a feedforward network trained with weight decay sees new prompts through the span of the old ones.

The gradient of a first layer W lies in the span of the training inputs, and weight decay removes what lies outside:
the part of W outside the span shrinks by 1 - ηλ per step, whatever the loss. The best that can be made of Wx then has
a risk that is known from the inputs alone, 1 - n/(Nd) on average over the direction u of the labels.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, stack
from krogh.engine.trial import DATA, VALIDATION
from krogh.errors import require, require_integer
from krogh.experiments.qstr.networks import over_prompts, over_runs, trained_networks
from krogh.lab import Claim, Experiment, Figure, Results, claim, experiment, figures, setting
from krogh.lab.statistics import Interval
from krogh.models.feedforward import Feedforward
from krogh.tasks.links import LinearLink, unit_vector
from krogh.tasks.token_regression import TokenRegression
from krogh.theory.predictions.token_limits import feedforward_floor
from krogh.theory.witnesses import average_oracle_risk, oracle_risk, span_basis, span_residual, worst_oracle_risk
from krogh.training import Sgd, Stopping, Training
from krogh.training.regimes import FullBatch

SOURCE = "qSTR paper, Theorem 6 (appendix B)"
PROPOSED = "proposed; expected from Theorem 6"
INSTANCES = ((10, 3, 12), (20, 4, 40), (10, 4, 1), (10, 4, 39), (30, 2, 45))
"""(N, d, n) at which the projector identity is executed; the first two are the reference's."""
FEWEST = 3


@dataclass(frozen=True)
class Settings:
    length: int = setting(10, "tokens per prompt, N")
    dimension: int = setting(4, "numbers per token, d")
    fractions: tuple[float, ...] = setting((0.25, 0.5, 0.75, 1.0, 2.0), "training prompts n in units of N d")
    second: int = setting(100, "width of the second layer; the first has N d neurons")
    rate: float = setting(0.1, "step size η of full-batch gradient descent")
    decay: float = setting(0.01, "weight decay λ: the loss plus λ‖θ‖²/2, for all layers")
    control: bool = setting(True, "whether networks without weight decay are trained too")
    budget: int = setting(20_000, "steps, all of which are made")
    directions: int = setting(10, "directions u, each with its own prompts and initial weights")
    prompts: int = setting(10_000, "test prompts")


@experiment("qstr/span")
class Span(Experiment[Settings]):
    """The span residual and the risk of feedforward networks trained with weight decay."""

    title = "A feedforward network with weight decay sees only the span of its training inputs"
    question = "Does weight decay confine a first layer to the span of the data, and is the risk what that leaves?"
    source = SOURCE
    scales = {
        "smoke": Settings(
            length=5, dimension=2, fractions=(0.5, 1.0), second=10, budget=200, directions=2, control=False, prompts=100
        ),
        "laptop": Settings(budget=5_000, directions=4, prompts=4_000),
        "paper": Settings(),
    }
    notes = (
        "Proposed with the theory; only the projector identity was calibrated beforehand.",
        "Every network makes all of its steps: the error 0 is never reached, so that every trial counts as failed.",
        "Decay is coupled, as in the theorem: a step shrinks weights by ηλ. The theorem's premise, a stationary point, "
        "is only approached; how closely is the column `stationarity`, ‖∇_W L + λW‖/‖λW‖. The span law needs it not.",
        "For one u the oracle's risk may be slightly below 1 - n/(Nd), which is its average over u.",
    )
    keep_weights = True

    def trials(self, settings: Settings) -> list[Trials]:
        fractions = settings.fractions
        rising = len(fractions) >= 1 and all(low < high for low, high in itertools.pairwise(fractions))
        require(rising and fractions[0] > 0, f"fractions must be positive and increasing; got fractions={fractions}")
        for name in ("directions", "prompts"):
            require_integer(name, getattr(settings, name), 1)
        require(0 < settings.decay * settings.rate < 1, f"decay must be in (0, 1/rate); got decay={settings.decay}")
        every = max(step for step in (1000, 500, 100, 10, 1) if settings.budget % step == 0)
        stopping = Stopping(
            budget=settings.budget, error=0.0, check_every=every, validation=min(settings.prompts, 1000)
        )
        trials = []
        for decay, seed, fraction in itertools.product(decays_of(settings), range(settings.directions), fractions):
            link = LinearLink(unit_vector(settings.dimension, seed))
            task = TokenRegression(settings.length, settings.dimension, link, index_law="shared")
            regime = FullBatch(sample_size(settings, fraction))
            training = Training(Sgd(settings.rate, decay=settings.rate * decay), regime, stopping, "square")
            trials.append(Trial(task, Feedforward(second=settings.second), training, seed=seed))
        return stack(trials)

    def claims(self, results: Results[Settings]) -> list[Claim]:
        return judge(results.settings, spans(results))

    def figures(self, results: Results[Settings]) -> list[Figure]:
        return [_figure(results.settings, spans(results))]


def decays_of(settings: Settings) -> tuple[float, ...]:
    """λ, and 0 for the control."""
    return (settings.decay, 0.0) if settings.control else (settings.decay,)


def sample_size(settings: Settings, fraction: float) -> int:
    """n = ⌊f N d⌋, at least 1."""
    return max(1, math.floor(fraction * settings.length * settings.dimension * (1 + 1e-9)))


# --- what is measured -----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def spans(results: Results[Settings]) -> pl.DataFrame:
    """One row per network: span residual at the start and the end, test risk, and the oracle's."""
    settings = results.settings
    return pl.DataFrame([_measured(trial, params, settings) for trial, _, params in trained_networks(Span(), results)])


def _measured(trial: Trial, params: dict[str, jax.Array], settings: Settings) -> dict[str, Any]:
    task, regime, optimiser = trial.task, trial.training.regime, trial.training.optimiser
    assert isinstance(task, TokenRegression) and isinstance(regime, FullBatch) and isinstance(optimiser, Sgd)
    raw = regime.sample(task, trial.key(DATA))
    basis = span_basis(np.asarray(raw.tokens, np.float64).reshape(len(raw.tokens), -1))
    before, after = (np.asarray(weights["W"], np.float64) for weights in (trial.initial_params(), params))
    residual = span_residual(after, basis)
    left = span_residual(before, basis) * np.sum(before**2)
    errors = np.asarray(_test_errors(trial, params, settings.prompts), np.float64)
    coupled = float(optimiser.decay) / settings.rate
    slope = _first_gradient(trial, params, task.decode(raw))
    pull = float(np.linalg.norm(coupled * after))
    samples, size = int(regime.m), task.length * task.dimension
    return {
        "decay": settings.decay if coupled > 0 else 0.0,
        "samples": samples,
        "fraction": samples / size,
        "seed": int(trial.seed),
        "residual": residual,
        "initial_residual": span_residual(before, basis),
        # what 1 - ηλ per step leaves of the initial part outside the span, in the same units as `residual`
        "expected_residual": float(left * (1 - float(optimiser.decay)) ** (2 * settings.budget) / np.sum(after**2)),
        "risk": float(errors.mean()),
        "deviation": float(errors.std(ddof=1)) if len(errors) > 1 else 0.0,
        "oracle": max(0.0, oracle_risk(basis, np.asarray(task.link.u, np.float64))),  # type: ignore[attr-defined]
        "floor": feedforward_floor(samples, task.length, task.dimension)["floor"],
        "stationarity": float(np.linalg.norm(slope + coupled * after)) / max(pull, 1e-30),
    }


@functools.partial(jax.jit, static_argnums=2)
def _test_errors(trial: Trial, params: dict[str, jax.Array], prompts: int) -> jax.Array:
    x, _, truth, _ = trial.task.decode(trial.task.test(trial.key(VALIDATION), prompts))
    return trial.task.error(trial.model.predict(params, x), truth)


def _first_gradient(trial: Trial, params: dict[str, jax.Array], data: Any) -> np.ndarray:
    """∇_W of the training loss, the mean over prompts and positions of squared errors."""
    x, y, _ = data
    slope = jax.grad(lambda weights: jnp.mean((trial.model.predict(weights, x) - y) ** 2))(params)
    return np.asarray(slope["W"], np.float64)


@functools.lru_cache(maxsize=1)
def projector_identity() -> pl.DataFrame:
    """The oracle's risk of Gaussian inputs, averaged over u, beside 1 - n/(Nd), and its largest value over u."""
    rows = []
    for place, (length, dimension, samples) in enumerate(INSTANCES):
        inputs = np.random.default_rng(place).normal(size=(samples, length * dimension))
        basis = span_basis(inputs)
        exact = 1 - samples / (length * dimension)
        average, worst = average_oracle_risk(basis, dimension), worst_oracle_risk(basis, dimension)[0]
        rows.append((length, dimension, samples, average, exact, abs(average - exact), worst))
    columns = ["length", "dimension", "samples", "average", "exact", "difference", "worst"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def judge(settings: Settings, table: pl.DataFrame) -> list[Claim]:
    """What the projector identity and a table of trained networks show."""
    identity = projector_identity()
    largest = float(identity["difference"].max())  # type: ignore[arg-type]
    decayed = table.filter(decay=settings.decay)
    unseen = decayed.filter(pl.col("fraction") < 1)
    few = settings.directions < FEWEST
    enough: dict[str, Any] = {
        "enough": not few and len(unseen) > 0,
        "too_small": f"{settings.directions} directions, n < N d in {len(unseen)} networks; a verdict needs {FEWEST}",
    }
    bar = float(unseen["residual"].max()) if len(unseen) else math.nan  # type: ignore[arg-type]
    law = np.abs(np.log(unseen["residual"].to_numpy() / unseen["expected_residual"].to_numpy()))
    return [
        claim(
            "projector-identity",
            f"Averaged over u, the oracle's risk is 1 - n/(Nd) for Gaussian inputs, at {len(identity)} (N, d, n).",
            source=SOURCE,
            statistic="largest |average - (1 - n/(Nd))|",
            interval=_number(largest),
            at_most=1e-12,
            trials=len(identity),
            source_value="exact",
        ),
        claim(
            "span-residual",
            "With weight decay, the first layer ends in the span of the training inputs.",
            source=PROPOSED,
            statistic="largest ‖W(I-V'V)‖²/‖W‖² over networks with n < N d",
            interval=_number(bar),
            at_most=1e-3,
            trials=len(unseen),
            source_value="0 at a stationary point",
            **enough,
        ),
        claim(
            "decay-law",
            "What lies outside the span shrinks by 1 - ηλ per step, whatever the network learns.",
            source=PROPOSED,
            statistic="largest |ln(residual / expected residual)| over networks with n < N d",
            interval=_number(float(law.max()) if law.size else math.nan),
            at_most=0.05,
            trials=len(unseen),
            source_value="(1-ηλ)^t",
            **enough,
        ),
        claim(
            "above-oracle",
            "No network's test risk is below the oracle's for its own inputs and u.",
            source=SOURCE,
            statistic="least (test risk - oracle's risk) over networks with n < N d",
            interval=_least_excess(unseen, settings.prompts),
            at_least=0.0,
            trials=len(unseen),
            source_value="≥ 0",
            **enough,
        ),
        claim(
            "average-risk",
            "Averaged over u, the test risk is at least 1 - n/(Nd), at every n < N d.",
            source=SOURCE,
            statistic="least over n of the mean over u of (test risk - (1 - n/(Nd)))",
            interval=_least_average(unseen),
            at_least=0.0,
            trials=len(unseen),
            source_value="≥ 0",
            **enough,
        ),
    ]


def _number(value: float) -> Interval:
    return Interval(value, value, value, 1.0, "measured")


def _least_excess(table: pl.DataFrame, prompts: int) -> Interval:
    if not len(table):
        return _number(math.nan)
    least = table.sort(pl.col("risk") - pl.col("oracle")).row(0, named=True)
    return over_prompts(least["risk"] - least["oracle"], least["deviation"], prompts)


def _least_average(table: pl.DataFrame) -> Interval:
    if not len(table):
        return _number(math.nan)
    excess = [over_runs((own["risk"] - own["floor"]).to_numpy()) for _, own in table.group_by("samples")]
    return min(excess, key=lambda interval: interval.low)


# --- how it looks ---------------------------------------------------------------------------------------------


def _figure(settings: Settings, table: pl.DataFrame) -> Figure:
    fig, (left, right) = figures.new_figure(
        "Weight decay confines the first layer to the span of the data; the risk is what that leaves, or more",
        width=8.6,
        height=4.0,
        ncols=2,
    )
    kinds = [(settings.decay, figures.BLUE, f"weight decay {settings.decay:g}"), (0.0, figures.VERMILLION, "no decay")]
    grid = np.linspace(0, max(settings.fractions), 200)
    left.plot(grid, np.maximum(0, 1 - grid), "--", color=figures.MUTED, linewidth=1.3, label="floor 1 - n/(Nd)")
    for decay, color, words in kinds[: 2 if settings.control else 1]:
        own = table.filter(decay=decay).sort("fraction")
        means = [over_runs(part["risk"].to_numpy()) for _, part in own.group_by("fraction", maintain_order=True)]
        places = own["fraction"].unique(maintain_order=True).to_list()
        ends = [[getattr(mean, end) for mean in means] for end in ("low", "value", "high")]
        if settings.directions < 2:
            ends = [ends[1]] * 3
        figures.interval_band(left, places, *ends, color=color, label=f"test risk, {words}")
        seen = own.filter(pl.col("fraction") < 1)
        right.scatter(seen["fraction"], seen["residual"], s=22, color=color, alpha=0.7, linewidths=0, label=words)
    decayed = table.filter(decay=settings.decay)
    left.scatter(decayed["fraction"], decayed["oracle"], s=16, marker="x", color=figures.GREEN, label="oracle, each u")
    left.set_xlabel("training prompts n / (N d)")
    left.set_ylabel("test risk (predicting 0: 1)")
    left.set_ylim(bottom=0)
    figures.legend(left, loc="center right")
    figures.source_line(right, 1e-3, "criterion")
    right.set_yscale("log")
    right.set_xlabel("training prompts n / (N d)")
    right.set_ylabel("share of ‖W‖² outside the span")
    figures.legend(right, loc="center left")
    for ax, words in ((left, "risk"), (right, "first layer, n < N d")):
        figures.panel_title(ax, words)
    figures.source_note(fig, SOURCE)
    caption = (
        f"Feedforward networks on simple-1STR, N = {settings.length}, d = {settings.dimension}, trained by "
        f"{settings.budget:,} steps of full-batch gradient descent, rate {settings.rate:g}; {settings.directions} "
        "directions u, each with its own prompts. Bands are 95% Student intervals of the mean; crosses the least risk "
        "of any predictor that sees new prompts through the span of the old."
    )
    return Figure("span", "Risk and span residual against the number of prompts", caption, fig, table)
