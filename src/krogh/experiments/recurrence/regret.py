"""Lemma D.3 in its computable form: the average objective of SGD against what one good shift of the weights promises.

For a convex loss G and steps θ_{t+1} = θ_t - η g_t on one example q_t each, for every θ*

    (1/T) Σ_t G(f(θ_t; q_t)) ≤ OPT' + ‖θ*‖²/(2ηT) + (η/2T) Σ_t ‖g_t‖²,

where OPT' is the average of G of the network's first-order expansion at θ_t, taken at θ*. That is exact. The lemma has
the expansion at the initial weights instead (the pseudo-network), which is as good as the network stays near them;
then nothing on the right but ‖g_t‖ depends on the run. θ* comes from ridge regression with the tangent kernel; any θ*
will do, so that the least right-hand side over several ridges is a bound too. With an output scale λ, θ* is that of
λF, 1/λ times the one of F: hence ‖θ*‖²/(2ηTλ²) in the lemma.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
from jaxtyping import Array

from krogh.errors import require
from krogh.experiments.recurrence.common import FEWEST_SEEDS
from krogh.experiments.recurrence.whole import NO_EXPERIMENTS, RNN_PAPER, WholeSettings
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, need, setting
from krogh.lab.estimate import exact
from krogh.lab.experiment import Measures
from krogh.models.elman import ElmanRnn
from krogh.networks.recurrence.kernel import kernel_between
from krogh.networks.recurrence.random_network import RandomRnn

DECISIVE = 200
"""The width from which on the expansion at the initial weights is taken for the network."""
SLACK = 1e-4
"""What rounding in float32 may add to an average."""


@dataclass(frozen=True)
class Settings(WholeSettings):
    width: int = setting(200, "hidden units m", least=1)
    eps_x: float = setting(1.0, "the size of tokens", above=0, most=1)
    samples: int = setting(500, "training sequences N, of which each step draws one", least=2)
    ridges: tuple[float, ...] = setting(
        (1e-3, 1e-2, 1e-1, 1.0, 10.0), "ridges of θ*, in units of the kernel's mean diagonal", above=0, increasing=True
    )
    points: int = setting(30, "numbers of steps T at which both sides are compared", least=2)
    huber: float = setting(1.0, "G is Huber's loss with this δ; 0 for (1/2)(y - f)²", least=0)


@experiment("recurrence/regret")
class Regret(Experiment[Settings]):
    """Both sides of the regret inequality over the number of steps."""

    title = "The average objective stays below what a good shift promises"
    question = "Is the average training objective of SGD at most OPT' + ‖θ*‖²/(2ηT) + (η/2T) Σ‖g_t‖² at every T?"
    source = f"{RNN_PAPER}, Lemma D.3"
    scales = {
        "smoke": Settings(width=8, steps=40, samples=16, ridges=(1e-2, 1e-1), points=5, seeds=2),
        "laptop": Settings(steps=20_000, seeds=6),
        "paper": Settings(width=1000, steps=200_000, samples=2000, seeds=10),
    }
    notes = (
        NO_EXPERIMENTS,
        "One example per step, drawn with replacement; rate c/(m L), c = 0.3, on G itself; W and A trained. Gradient "
        "norms are those of every step.",
        "The inequality with the expansion along the path is a theorem for every network: a failure would be a fault "
        "of this implementation. That with the expansion at the start is the lemma's, up to its ε.",
    )

    def check(self, settings: Settings) -> None:
        require(settings.points <= settings.steps, f"points must be at most steps; got {settings.points}")

    def measure(self, results: Results[Settings]) -> Measures:
        return {"sides": lambda: both_sides(results.settings)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, rows = tables.settings, tables["sides"]
        wide = [
            need(settings.seeds, FEWEST_SEEDS, "seeds"),
            need(settings.width, DECISIVE, "hidden units"),
        ]
        exceeds = (rows["left"] / rows["right"]).max()
        say("lemma", "The average objective is at most the lemma's right-hand side at every T.",
            exact(float(exceeds), settings.seeds),  # type: ignore[arg-type]
            "the largest over T and seeds of left / right, the least right over ridges", at_most=1.0,
            needs=wide)  # fmt: skip
        along = (rows["left"] / rows["right_path"]).max()
        say("path", "With the expansion along the path it is so without exception.",
            exact(float(along), settings.seeds),  # type: ignore[arg-type]
            "the largest over T and seeds of left / right, expansion along the path", at_most=1.0 + SLACK)  # fmt: skip
        last = rows.filter(pl.col("steps") == pl.col("steps").max())
        worst = float((last["right"] / last["start"]).max())  # type: ignore[arg-type]
        say("informative", "At the end the right-hand side is below the objective of the untrained network.",
            exact(worst, settings.seeds), "the largest over seeds of right / the objective at the start", below=1.0,
            needs=wide)  # fmt: skip

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        settings, rows = tables.settings, tables["sides"]
        chart = self.chart("regret", self.title, width=6.8, height=4.4)
        panel = chart.panel(x="steps T", y="average objective", log="xy")
        for column, label, color in (
            ("left", "SGD, average over iterates", figures.BLUE),
            ("right", "OPT' + ‖θ*‖²/(2ηT) + (η/2T) Σ‖g‖²", figures.ORANGE),
            ("opt", "OPT' of the θ* that is best at T", figures.GREEN),
        ):
            panel.ranges(rows, "steps", column, label, middle=pl.Expr.median, color=color, key="legend")
        panel.legend(loc="best")
        loss = f"Huber's loss, δ = {settings.huber:g}" if settings.huber else "(1/2)(y - f)²"
        yield chart.figure(
            f"Both sides of the inequality, median over {settings.seeds} targets (⟨w, x⟩)² with their range; "
            f"{loss}, m = {settings.width}, N = {settings.samples}. The right side is the least over ridges "
            f"{', '.join(f'{ridge:g}' for ridge in settings.ridges)}.",
            rows,
        )


def both_sides(settings: Settings) -> pl.DataFrame:
    """A row per seed and T: the left side, the least right side over ridges, its OPT', and the right side along the
    path for the θ* of the same ridge."""
    return pl.concat([_sides_of(settings, seed) for seed in range(settings.seeds)])


def _sides_of(settings: Settings, seed: int) -> pl.DataFrame:
    task = settings.task(seed, eps_x=settings.eps_x)
    for_weights, for_data, for_steps = jax.random.split(jax.random.key(seed), 3)
    params = ElmanRnn(settings.width).init(for_weights, task)
    examples = task.batch(for_data, settings.samples)
    order = jax.random.randint(for_steps, (settings.steps,), 0, settings.samples)
    W, A, B = (np.asarray(params[name], np.float64) for name in ("W", "A", "B"))
    rnn = RandomRnn(W, A, B[None])
    run = rnn.run(np.asarray(examples.x))
    K = kernel_between(run, run, (run.length,), ("A", "W"))
    start, y = run.output()[:, 0], np.asarray(examples.y, np.float64)
    alphas = np.stack(
        [np.linalg.solve(K + r * np.mean(np.diagonal(K)) * np.eye(len(K)), y - start) for r in settings.ridges]
    )
    norms = np.einsum("rn,nk,rk->r", alphas, K, alphas)  # ‖θ*‖²
    rate = settings.c / (settings.width * settings.length)
    shifts = good_shifts(params, examples.x, jnp.asarray(alphas, jnp.float32))
    found = descend(params, examples.x, examples.y, order, shifts, jnp.float32(rate), jnp.float32(settings.huber))
    losses, squares, path = (np.asarray(part, np.float64) for part in found)  # [T], [T], [T, ridges]
    drawn = np.asarray(order)
    at_start = np.stack([_loss(start + K @ alpha, y, settings.huber)[drawn] for alpha in alphas], axis=1)
    places = np.unique(np.geomspace(1, settings.steps, settings.points).round().astype(int))
    steps = np.arange(1, settings.steps + 1)[:, None]
    price = norms[None, :] / (2 * rate * steps) + rate / 2 * (np.cumsum(squares) / steps[:, 0])[:, None]
    opt, along = (np.cumsum(part, axis=0) / steps for part in (at_start, path))
    right = opt + price
    best = np.argmin(right, axis=1)
    rows, chosen = places - 1, best[places - 1]
    return pl.DataFrame(
        {
            "seed": seed,
            "steps": places,
            "left": (np.cumsum(losses) / steps[:, 0])[rows],
            "right": right[rows, chosen],
            "opt": opt[rows, chosen],
            "right_path": np.min(along + price, axis=1)[rows],
            "ridge": np.asarray(settings.ridges)[chosen],
            "norm": np.sqrt(norms[chosen]),
            "gradient": (np.cumsum(squares) / steps[:, 0])[rows],
            "start": float(np.mean(_loss(start, y, settings.huber))),
        }
    )


def _loss(prediction: Any, label: Any, delta: Any) -> Any:
    """Huber's loss, or half the square where δ is 0."""
    numbers = jnp if isinstance(prediction, jax.Array) else np
    apart = numbers.abs(prediction - label)
    bent = delta * (apart - delta / 2)
    return numbers.where((delta == 0) | (apart <= delta), apart**2 / 2, bent)


def _answers(trained: dict[str, Array], B: Array, x: Array) -> Array:
    return ElmanRnn(B.shape[-1]).predict({**trained, "B": B}, x)


@jax.jit
def good_shifts(params: dict[str, Array], x: Array, alphas: Array) -> dict[str, Array]:
    """θ* = Σ_q α_q ∂f(x_q) for every row of α: the gradient of Σ_q α_q f(x_q)."""
    trained = {name: params[name] for name in ("A", "W")}
    return jax.vmap(lambda alpha: jax.grad(lambda own: jnp.vdot(alpha, _answers(own, params["B"], x)))(trained))(alphas)


@jax.jit
def descend(
    params: dict[str, Array], x: Array, y: Array, order: Array, shifts: dict[str, Array], rate: Array, delta: Array
) -> tuple[Array, Array, Array]:
    """Of every step the objective, the squared norm of its gradient, and the objective of the expansion at θ_t, taken
    at each θ*: [T], [T], [T, shifts]."""
    first = {name: params[name] for name in ("A", "W")}

    def step(now: dict[str, Array], q: Array) -> tuple[dict[str, Array], tuple[Array, Array, Array]]:
        own, label = x[q][None], y[q]
        answer, slopes = jax.value_and_grad(lambda trained: _answers(trained, params["B"], own)[0])(now)
        objective, outer = jax.value_and_grad(_loss)(answer, label, delta)
        gradient = {name: outer * slope for name, slope in slopes.items()}
        square = jnp.vdot(gradient["A"], gradient["A"]) + jnp.vdot(gradient["W"], gradient["W"])
        ahead = answer + sum(
            jnp.tensordot(shifts[name] - (now[name] - first[name])[None], slopes[name], axes=2) for name in slopes
        )
        after = {name: now[name] - rate * gradient[name] for name in now}
        return after, (objective, square, _loss(ahead, label, delta))

    return jax.lax.scan(step, first, order)[1]
