"""Theorem 9: while samples are few, fitting them costs a recurrent network less norm than solving the task.

A network that fits one label of each of n prompts, as a function of that position's token alone, has a norm of order
n^1.5 that does not depend on the length N. The network that stores every label generalises, with a norm that grows with
N. A rule that prefers small norms then takes the first, until n is large.

That the storing network's norm grows is a fact about that network. The printed Proposition 8 asks it of every network
of small risk; as stated, for read-outs that are any Lipschitz functions, this is not so: N signs fit into states of
norm 1 from which each is read off with a bounded slope. What remains of the proposition is its bound on the width.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from krogh.experiments.qstr.common import least_over_networks, mean_risk
from krogh.lab import Claims, Estimate, Experiment, Figure, Results, Tables, experiment, figures, groups, need, setting
from krogh.lab.curves import exact_curve
from krogh.lab.estimate import exact, largest, mean
from krogh.lab.experiment import Measures
from krogh.lab.fits import exponent
from krogh.networks.tokens.interpolator import Overfitting, token_interpolator
from krogh.networks.tokens.storage import token_storage
from krogh.theory.tokens.recurrent import norm_exponent, parameter_norm, recurrent_width, sign_storage, state_norms

PROPOSED = "proposed; expected from Theorem 9"
EXECUTED = 3
"""Overfitting networks per n that are executed on their prompts and on fresh ones; norms are taken of all."""
FEWEST = 3  # n, N, sizes and draws of prompts that a slope needs
MOST_READ = 10
"""Up to so many signs, all of them are read off all words."""


@dataclass(frozen=True)
class Settings:
    samples: tuple[int, ...] = setting(
        (4, 8, 16, 32, 64, 128, 256), "prompts that are fitted, n", increasing=True, fewest=2, least=2
    )
    lengths: tuple[int, ...] = setting((8, 16, 32, 64, 128), "tokens per prompt, N", increasing=True, fewest=2, least=2)
    dimension: int = setting(10, "numbers per token, d", least=1)
    depth: int = setting(2, "layers of the read-out of the overfitting network, L_y", least=2)
    seeds: int = setting(40, "draws of prompts for each n and N", least=1)
    prompts: int = setting(2_000, "fresh prompts on which overfitting networks are judged", least=1)
    signs: tuple[int, ...] = setting(
        (4, 6, 8, 10, 12), "signs kept in a state of norm 1", increasing=True, fewest=2, least=2, most=14
    )


@experiment("qstr/norm-competition")
class NormCompetition(Experiment[Settings]):
    """The norm of overfitting against the norm of storing, and a state that stores without norm."""

    title = "Fitting few samples is cheaper than storing the prompt"
    question = "What does a recurrent network's norm cost: fitting n samples, or solving the task for N tokens?"
    source = "qSTR paper, Theorem 9 and Proposition 8 (appendices C.3 and C.4)"
    scales = {
        "smoke": Settings(samples=(4, 8), lengths=(4, 8), dimension=4, seeds=2, prompts=100, signs=(4, 6)),
        "laptop": Settings(samples=(4, 16, 64, 256), lengths=(8, 16, 32, 64), seeds=40),
        "paper": Settings(),
    }
    notes = (
        "Nothing is trained: both networks are written down and executed in float64.",
        "Proposed with the theory; its criteria were not calibrated on a run.",
        "The norm half of Proposition 8 is false as stated for arbitrary Lipschitz read-outs (see the claim "
        "'printed-norm-floor'); Theorem 9's proof uses it. The growth of the storing network's norm is therefore shown "
        "for that network, and not as a lower bound.",
    )

    def measure(self, results: Results[Settings]) -> Measures:
        settings = results.settings
        fitting, executed = [], []
        for samples, length, seed in itertools.product(settings.samples, settings.lengths, range(settings.seeds)):
            network = token_interpolator(samples, length, settings.dimension, depth=settings.depth, seed=seed)
            assert isinstance(network, Overfitting)
            draw = {"samples": samples, "length": length, "seed": seed}
            fitting.append(draw | {"norm": math.sqrt(network.squared_norm), "separated": network.separated})
            if length == settings.lengths[0] and seed < EXECUTED:
                executed.append({"samples": samples, "seed": seed, **_execution(network, settings.prompts)})
        return {
            "fitting": pl.DataFrame(fitting),
            "executed": pl.DataFrame(executed),
            "storing": pl.DataFrame([_storing(length, settings.dimension) for length in settings.lengths]),
            "signs": pl.DataFrame([_signs(count) for count in settings.signs]),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        executed, signs = tables["executed"], tables["signs"]
        say(
            "overfitting-fits",
            "The overfitting network has the right label at the observed position of each of its n prompts, and is "
            "a function of that position's token everywhere.",
            largest(executed["largest_error"] / executed["tolerance"]),
            "largest error / tolerance over executed networks",
            at_most=1.0,
            source_value="exact",
        )
        sizes = (
            need(len(getattr(settings, name)), FEWEST, word) for name, word in (("samples", "n"), ("lengths", "N"))
        )
        enough = say.about(needs=[*sizes, need(settings.seeds, FEWEST, "draws of prompts")])
        best = 1 - 1 / settings.lengths[0] ** 2
        enough(
            "overfitting-fails",
            "It does not generalise: on fresh prompts it is no better than what can be known from one token, "
            f"1 - 1/N² (N = {settings.lengths[0]}).",
            least_over_networks(executed["risk"] / best, executed["deviation"] / best, settings.prompts),
            "least over executed networks of risk / (1 - 1/N²)",
            at_least=1.0,
            source_value="risk above a constant",
        )
        self._norms(tables, enough.about(source=PROPOSED))
        ends = recurrent_width(int(signs["length"][-1]), int(signs["width"][-1]), 1.0, float(signs["lipschitz"][-1]))
        steepest = float(np.max(signs["lipschitz"].to_numpy()))
        say(
            "printed-norm-floor",
            "The printed norm half of Proposition 8 does not hold for arbitrary Lipschitz read-outs: states of "
            f"norm 1 keep N = {signs['length'][0]} to {signs['length'][-1]} signs, read off with slope L ≤ "
            f"{steepest:.3g} and U = I, while the ratio that it says is bounded grows (the repaired "
            f"floor asks L‖U‖ ≥ {ends['norm_order'] * signs['lipschitz'][-1]:.2g}).",
            power_of(signs["length"], signs["ratio"]),
            "slope of ln(N/(L²‖U‖² ln(1+d_h))) on ln N",
            above=0.0,
            source="qSTR paper, Proposition 8, norm half",
            source_value="bounded (printed)",
            needs=[need(len(signs), FEWEST, "sizes"), "" if signs["read"].all() else "not every sign was read off"],
        )

    def _norms(self, tables: Tables[Settings], say: Claims) -> None:
        settings, storing = tables.settings, tables["storing"]
        lengths = storing["length"]
        along_n, along_length = fitting_slopes(tables["fitting"])
        stored, state = (power_of(lengths, storing[column]) for column in ("norm", "state_norm"))
        crossings = ", ".join(f"{n:.3g}" for n in crossing_samples(tables["fitting"], storing))
        rule = norm_exponent(int(lengths[-1]), settings.depth, 0.01)["exponent"]
        over = f"N = {lengths[0]} to {lengths[-1]}"
        say(
            "fitting-length",
            f"The norm of fitting does not depend on the length of the prompt ({over}).",
            abs(along_length),
            "|slope of ln norm on ln N at fixed n|",
            at_most=0.1,
            source_value="0 (the source's proof says 'of n' where N is meant)",
        )
        say(
            "fitting-samples",
            "The norm of fitting grows as n^1.5, the squared norm as n³.",
            abs(along_n - 1.5),
            "|slope of ln norm on ln n at fixed N - 1.5|",
            at_most=0.25,
            source_value="‖vec Θ‖² = O(n³)",
        )
        say(
            "storing-length",
            f"The norm ‖vec Θ‖ of the storing network grows with N ({over}), from {storing['norm'][0]:.3g} "
            f"to {storing['norm'][-1]:.3g}. (Of this network; that every network's must is not claimed.)",
            stored,
            "slope of ln ‖vec Θ‖ on ln N",
            at_least=0.4,
            source_value="expected ≥ 0.4 (√N in the state)",
        )
        say(
            "storing-state",
            f"So does ‖U‖, with which it reads its states of norm 1 ({over}).",
            state,
            "slope of ln ‖U‖ on ln N",
            at_least=0.4,
            source_value="√N, and a logarithm for the largest token",
        )
        say(
            "competition",
            "The more tokens, the more samples it takes until fitting costs more norm than storing "
            f"(n ≈ {crossings}; the proof's exponent for L_y = {settings.depth} is {rule:.2g}).",
            stored / along_n,
            "slope of ln n on ln N where the two norms are equal",
            above=0.0,
            source_value="n ≤ N^c1 prefers fitting",
            needs=["" if along_n.value > 0 else "the norm of fitting does not grow with n"],
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        yield self._competition(tables)
        yield self._sign_storage(tables["signs"])

    def _competition(self, tables: Tables[Settings]) -> Figure:
        settings, fitting, storing = tables.settings, tables["fitting"], tables["storing"]
        chart = self.chart(
            "norm-competition",
            "The norm of fitting and the norm of storing",
            headline="Fitting costs the same at every length; storing costs more the longer the prompt",
            columns=2,
            width=8.6,
            sharey=True,
        )
        lengths = storing["length"].to_list()
        left = chart.panel(title="fitting n labels, ‖vec Θ‖", x="fitted prompts n", log="xy", xticks=settings.samples)
        left.axes(y="norm of the network")
        right = chart.panel(title="storing N labels (one network)", x="tokens N", log="xy", xticks=lengths)
        for length, rows in groups(fitting, "length").items():
            left.ranges(rows, "samples", "norm", f"N = {length}", middle=lambda y: y.log().mean().exp(), key="legend")
        middle = math.exp(np.log(fitting["norm"]).mean() - 1.5 * np.log(fitting["samples"]).mean())
        guide = middle * np.array(settings.samples, float) ** 1.5
        left.line(settings.samples, guide, "n^1.5", color=figures.BLACK, width=1.1, key="legend")
        left.legend(loc="upper left")
        for column, color, words in (("norm", figures.BLUE, "‖vec Θ‖"), ("state_norm", figures.VERMILLION, "‖U‖")):
            right.line(lengths, storing[column], words, color=color, style="-", width=1.7, marker="o", markersize=4.5)
        root = float(storing["state_norm"][0]) * np.sqrt(np.array(lengths) / lengths[0])
        right.line(lengths, root, "√N", color=figures.MUTED, width=1.1)
        data = [
            fitting.select(pl.lit("fitting").alias("network"), "samples", "length", "seed", "norm"),
            storing.select(pl.lit("storing").alias("network"), "length", "norm", "state_norm"),
        ]
        return chart.figure(
            f"Left: geometric means over {settings.seeds} draws of prompts, bands from the least to the largest. "
            "Right: the network of width N that stores every label in states of norm at most 1; another network may do "
            "with less (see the next figure).",
            pl.concat(data, how="diagonal_relaxed"),
        )

    def _sign_storage(self, signs: pl.DataFrame) -> Figure:
        chart = self.chart(
            "sign-storage",
            "What unit states can keep",
            headline="States of norm 1 keep N signs, read off with a bounded slope",
            source="against the norm half of Proposition 8 of the qSTR paper",
            width=6.0,
            height=3.8,
        )
        panel = chart.panel(x="signs N", y="value", xticks=signs["length"].to_list())
        ratio = "N/(L²‖U‖² ln(1+d_h)),\nbounded if the\nprinted floor held"
        looks = (("lipschitz", "slope L", figures.BLUE, "o"), ("ratio", ratio, figures.VERMILLION, "s"))
        for column, words, color, marker in looks:
            look: dict[str, Any] = {"style": "-", "width": 1.7, "marker": marker, "markersize": 4.5}
            panel.line(signs["length"], signs[column], words, color=color, **look)
        panel.axes(ylim=(0, None))
        return chart.figure(
            "Words of a random linear code of rate 1/4 as states of norm 1 (U = I, d_h = 4N); L is the slope with "
            "which every sign can be read off any of the 2^N words. The printed proposition bounds the red ratio by a "
            "constant.",
            signs,
        )


def _execution(network: Overfitting, prompts: int) -> dict[str, float]:
    """The network on the prompts that it fits, and its risk on fresh ones."""
    x, _, truth, _ = network.task.decode(network.task.draw(jax.random.key(1), prompts))
    errors = ((network.run(np.asarray(x)) - np.asarray(truth, np.float64)) ** 2).mean(axis=1)
    return {"largest_error": network.check().largest_error, "tolerance": network.tolerance, **mean_risk(errors)}


def _storing(length: int, dimension: int) -> dict[str, float]:
    """Norms of the storing network whose states have norm at most 1."""
    params = token_storage(length, dimension, model="lipschitz").parameters
    norms = state_norms(np.hstack([params["U_forward"], params["U_backward"]]), [params["W2"]], length)
    sizes = {"norm": parameter_norm(params), "state_norm": norms.state, "lipschitz": norms.lipschitz}
    return {"length": length, **sizes, "width": length}


def _signs(count: int) -> dict[str, Any]:
    """N signs in unit states: slope of the read-out, and the ratio that the printed proposition bounds."""
    storage = sign_storage(count)
    width = storage.states.shape[1]
    read = count > MOST_READ or all(
        np.allclose(storage.read(storage.states, place), storage.signs[:, place], atol=1e-6) for place in range(count)
    )
    ratio = recurrent_width(count, width, 1.0, storage.lipschitz, variant="printed")["norm_ratio"]
    return {"length": count, "width": width, "lipschitz": storage.lipschitz, "ratio": ratio, "read": read}


def power_of(x: ArrayLike, y: ArrayLike) -> Estimate:
    """The slope of ln y on ln x of computed numbers."""
    return exact(exponent(exact_curve(x, y)).value, np.size(x))


def fitting_slopes(fitting: pl.DataFrame) -> tuple[Estimate, Estimate]:
    """Slopes of ln norm on ln n and on ln N, from one regression on both for each draw of prompts; means over draws.

    Every draw has every (n, N), so that the mean of the slopes is the slope of all rows together.
    """
    slopes = []
    for rows in groups(fitting, "seed").values():
        design = np.column_stack([np.ones(len(rows)), *(np.log(rows[name]) for name in ("samples", "length"))])
        slopes.append(np.linalg.lstsq(design, np.log(rows["norm"].to_numpy()), rcond=None)[0][1:])
    along_n, along_length = np.array(slopes).T
    return mean(along_n, sample="draws"), mean(along_length, sample="draws")


def crossing_samples(fitting: pl.DataFrame, storing: pl.DataFrame) -> np.ndarray:
    """For each N, the n at which fitting costs the storing network's norm, by the power law fitted to ln norm.

    Within the range of n or not: the law is a straight line and may be followed beyond.
    """
    logs = np.log(fitting["samples"].to_numpy()), np.log(fitting["norm"].to_numpy())
    rise, start = np.polyfit(*logs, 1)
    if rise <= 0:
        return np.full(len(storing), np.inf)
    return np.exp((np.log(storing["norm"].to_numpy()) - start) / rise)
