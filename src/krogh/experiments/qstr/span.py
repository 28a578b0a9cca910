"""Theorem 6: a feedforward network trained with weight decay sees new prompts through the span of the old ones.

The gradient of a first layer W lies in the span of the training inputs, and weight decay removes what lies outside:
the part of W outside the span shrinks by 1 - ηλ per step, whatever the loss. The best that can be made of Wx then has
a risk that is known from the inputs alone, 1 - n/(Nd) on average over the direction u of the labels.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, stack
from krogh.engine.trial import DATA
from krogh.errors import require
from krogh.experiments.qstr.common import least_over_networks, mean_risk, square_training, whole_budget
from krogh.lab import Claims, Experiment, Figure, Network, Results, Tables, curves, experiment, groups, need, setting
from krogh.lab.estimate import largest, mean, minimum
from krogh.lab.experiment import Measures
from krogh.lab.figures import BLUE, GREEN, MUTED, VERMILLION
from krogh.models import Feedforward
from krogh.tasks import LinearLink, TokenRegression
from krogh.tasks.links import unit_vector
from krogh.theory.tokens.limits import feedforward_floor
from krogh.theory.tokens.witnesses import average_oracle_risk, oracle_risk, span_basis, span_residual, worst_oracle_risk
from krogh.training import FullBatch, Sgd

PROPOSED = "proposed; expected from Theorem 6"
INSTANCES = ((10, 3, 12), (20, 4, 40), (10, 4, 1), (10, 4, 39), (30, 2, 45))
"""(N, d, n) at which the projector identity is executed; the first two are the reference's."""
FEWEST = 3
CRITERION = 1e-3  # share of a first layer that may lie outside the span


@dataclass(frozen=True)
class Settings:
    length: int = setting(10, "tokens per prompt, N", least=1)
    dimension: int = setting(4, "numbers per token, d", least=1)
    fractions: tuple[float, ...] = setting(
        (0.25, 0.5, 0.75, 1.0, 2.0), "training prompts n in units of N d", increasing=True, above=0
    )
    second: int = setting(100, "width of the second layer; the first has N d neurons", least=1)
    rate: float = setting(0.1, "step size η of full-batch gradient descent", above=0)
    decay: float = setting(0.01, "weight decay λ: the loss plus λ‖θ‖²/2, for all layers", above=0)
    control: bool = setting(True, "whether networks without weight decay are trained too")
    budget: int = setting(20_000, "steps, all of which are made", least=1)
    directions: int = setting(10, "directions u, each with its own prompts and initial weights", least=1)
    prompts: int = setting(10_000, "test prompts", least=1)


@experiment("qstr/span")
class Span(Experiment[Settings]):
    """The span residual and the risk of feedforward networks trained with weight decay."""

    title = "A feedforward network with weight decay sees only the span of its training inputs"
    question = "Does weight decay confine a first layer to the span of the data, and is the risk what that leaves?"
    source = "qSTR paper, Theorem 6 (appendix B)"
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

    def check(self, settings: Settings) -> None:
        shrinks = settings.decay * settings.rate < 1
        require(shrinks, f"decay must be below 1/rate = {1 / settings.rate:g}; got decay={settings.decay}")

    def trials(self, settings: Settings) -> list[Trials]:
        stopping, trials = whole_budget(settings.budget, settings.prompts, longest=1000), []
        seeds, decays = range(settings.directions), decays_of(settings)
        for decay, seed, fraction in itertools.product(decays, seeds, settings.fractions):
            link = LinearLink(unit_vector(settings.dimension, seed))
            task = TokenRegression(settings.length, settings.dimension, link, index_law="shared")
            optimiser = Sgd(settings.rate, decay=settings.rate * decay)
            training = square_training(optimiser, FullBatch(sample_size(settings, fraction)), **stopping)
            trials.append(Trial(task, Feedforward(second=settings.second), training, seed=seed))
        return stack(trials)

    def measure(self, results: Results[Settings]) -> Measures:
        """One row per network, and the projector identity at its instances."""
        return {
            "networks": pl.DataFrame([_network_row(network, results.settings) for network in results.networks()]),
            "identity": projector_identity(),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, identity = tables.settings, tables["identity"]
        unseen = tables["networks"].filter(pl.col("decay") == settings.decay, pl.col("fraction") < 1)
        law = np.abs(np.log((unseen["residual"] / unseen["expected_residual"]).to_numpy()))
        averages = [
            mean((rows["risk"] - rows["floor"]).to_numpy(), sample=f"n = {samples}")
            for samples, rows in groups(unseen, "samples").items()
        ]
        say(
            "projector-identity",
            f"Averaged over u, the oracle's risk is 1 - n/(Nd) for Gaussian inputs, at {len(identity)} (N, d, n).",
            largest(identity["difference"]),
            "largest |average - (1 - n/(Nd))|",
            at_most=1e-12,
            source_value="exact",
        )
        few, none = need(settings.directions, FEWEST, "directions"), need(len(unseen), 1, "networks have n < N d")
        say = say.about(needs=[few, none])
        say(
            "span-residual",
            "With weight decay, the first layer ends in the span of the training inputs.",
            largest(unseen["residual"]),
            "largest ‖W(I-V'V)‖²/‖W‖² over networks with n < N d",
            at_most=CRITERION,
            source=PROPOSED,
            source_value="0 at a stationary point",
        )
        say(
            "decay-law",
            "What lies outside the span shrinks by 1 - ηλ per step, whatever the network learns.",
            largest(law),
            "largest |ln(residual / expected residual)| over networks with n < N d",
            at_most=0.05,
            source=PROPOSED,
            source_value="(1-ηλ)^t",
        )
        say(
            "above-oracle",
            "No network's test risk is below the oracle's for its own inputs and u.",
            least_over_networks(unseen["risk"] - unseen["oracle"], unseen["deviation"], settings.prompts),
            "least (test risk - oracle's risk) over networks with n < N d",
            at_least=0.0,
            source_value="≥ 0",
        )
        say(
            "average-risk",
            "Averaged over u, the test risk is at least 1 - n/(Nd), at every n < N d.",
            minimum(averages, nothing="no network has n < N d"),
            "least over n of the mean over u of (test risk - (1 - n/(Nd)))",
            at_least=0.0,
            source_value="≥ 0",
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, table = tables.settings, tables["networks"]
        chart = self.chart(
            "span",
            "Risk and span residual against the number of prompts",
            headline="Weight decay confines the first layer to the span of the data; the risk is what that leaves, or "
            "more",
            columns=2,
            width=8.6,
        )
        x = "training prompts n / (N d)"
        left = chart.panel(title="risk", x=x, y="test risk (predicting 0: 1)")
        right = chart.panel(title="first layer, n < N d", x=x, y="share of ‖W‖² outside the span", log="y")
        grid = np.linspace(0, max(settings.fractions), 200)
        left.line(grid, np.maximum(0, 1 - grid), "floor 1 - n/(N d)", color=MUTED, width=1.3, key="legend")
        by_decay = curves(table, by="decay", x="fraction", y="risk", statistic=mean)
        looks = [(BLUE, f"weight decay {settings.decay:g}"), (VERMILLION, "no decay")]
        for decay, (color, words) in zip(decays_of(settings), looks, strict=False):
            curve, unseen = by_decay[decay], table.filter(pl.col("decay") == decay, pl.col("fraction") < 1)
            ends = (curve.low, curve.value, curve.high) if settings.directions > 1 else (curve.value,) * 3
            left.band(curve.x, *ends, f"test risk, {words}", color=color, key="legend")
            right.dots(unseen["fraction"], unseen["residual"], words, color=color)
        decayed = table.filter(pl.col("decay") == settings.decay)
        left.dots(decayed["fraction"], decayed["oracle"], "oracle, each u", color=GREEN, marker="x")
        left.axes(ylim=(0, None)).legend(loc="center right")
        right.reference(CRITERION, "criterion")
        right.legend(loc="center left")
        yield chart.figure(
            f"Feedforward networks on simple-1STR (all positions name the same token), N = {settings.length}, d = "
            f"{settings.dimension}, trained by {settings.budget:,} steps of full-batch gradient descent, rate "
            f"{settings.rate:g}; {settings.directions} directions u, each with its own prompts. Bands are 95% Student "
            "intervals of the mean; crosses the least risk of any predictor that sees new prompts through the span of "
            "the old.",
            table,
        )


def decays_of(settings: Settings) -> tuple[float, ...]:
    """λ, and 0 for the control."""
    return (settings.decay, 0.0) if settings.control else (settings.decay,)


def sample_size(settings: Settings, fraction: float) -> int:
    """n = ⌊f N d⌋, at least 1."""
    return max(1, math.floor(fraction * settings.length * settings.dimension * (1 + 1e-9)))


def _network_row(network: Network, settings: Settings) -> dict[str, Any]:
    """Span residual of a network at the start and the end, test risk, and the oracle's; ∞ where it diverged."""
    trial, final = network.trial, network.final
    task, regime, optimiser = trial.task, trial.training.regime, trial.training.optimiser
    assert isinstance(task, TokenRegression) and isinstance(regime, FullBatch) and isinstance(optimiser, Sgd)
    raw = regime.sample(task, trial.key(DATA))
    basis = span_basis(np.asarray(raw.tokens, np.float64).reshape(len(raw.tokens), -1))
    before = network.initial["W"].astype(np.float64)
    coupled = float(optimiser.decay) / settings.rate
    samples, size = int(regime.m), task.length * task.dimension
    row = {
        "decay": settings.decay if coupled > 0 else 0.0,
        "samples": samples,
        "fraction": samples / size,
        "seed": network.seed,
        "residual": math.inf,
        "initial_residual": span_residual(before, basis),
        "expected_residual": 0.0,
        "risk": math.inf,
        "deviation": 0.0,
        "oracle": max(0.0, oracle_risk(basis, np.asarray(task.link.u, np.float64))),  # type: ignore[attr-defined]
        "floor": feedforward_floor(samples, task.length, task.dimension)["floor"],
        "stationarity": math.inf,
    }
    if final is None:
        return row
    after = final["W"].astype(np.float64)
    errors = np.asarray(_test_errors(trial, final, settings.prompts), np.float64)
    gradient = _first_gradient(trial, final, task.decode(raw))
    left = row["initial_residual"] * np.sum(before**2) * (1 - float(optimiser.decay)) ** (2 * settings.budget)
    return row | {
        "residual": span_residual(after, basis),
        # what 1 - ηλ per step leaves of the initial part outside the span, in the same units as `residual`
        "expected_residual": float(left / np.sum(after**2)),
        **mean_risk(errors),
        "stationarity": float(
            np.linalg.norm(gradient + coupled * after) / max(float(np.linalg.norm(coupled * after)), 1e-30)
        ),
    }


@functools.partial(jax.jit, static_argnums=2)
def _test_errors(trial: Trial, params: dict[str, jax.Array], prompts: int) -> jax.Array:
    x, _, truth, _ = trial.validation(prompts)
    return trial.task.error(trial.model.predict(params, x), truth)


def _first_gradient(trial: Trial, params: dict[str, Any], data: Any) -> np.ndarray:
    """∇_W of the training loss, the mean over prompts and positions of squared errors."""
    weights = {name: jnp.asarray(array) for name, array in params.items()}
    slope = jax.grad(lambda params: jnp.mean((trial.model.predict(params, data.x) - data.y) ** 2))(weights)
    return np.asarray(slope["W"], np.float64)


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
