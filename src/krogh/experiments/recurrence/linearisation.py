"""How far is a recurrent network from its first-order expansion when its weights have moved by Δ/√m (Lemma G.3)?

    error = |y_L(W + W', A + A') - y_L(W, A) - f_L(W', A')|,    ‖W'‖, ‖A'‖ = Δ/√m

along the gradient of y_L, where a network is moved most (W alone, as the first source trains; W and A, as the second),
and along a Gaussian matrix of the same spectral norm for comparison.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import polars as pl

from krogh.lab import (
    Claims,
    Experiment,
    Figure,
    Results,
    Tables,
    experiment,
    exponent,
    groups,
    maximum,
    minimum,
    need,
    setting,
)
from krogh.lab.curves import Curve, curve
from krogh.lab.estimate import mean_time
from krogh.lab.experiment import Measures
from krogh.networks.recurrence.measures import linearisation, spectral_norm
from krogh.networks.recurrence.random_network import Run, random_rnn
from krogh.tasks.token_sequences import check_sequences, draw_tokens, normalise_tokens

DX = 3
FULL, MOST = 8000, 4.0
"""The width up to which errors must fall, and the Δ at which they are compared."""
DIRECTIONS = {
    "both": ("W and A along the gradient", "one"),
    "recurrent": ("W along the gradient", "eps"),
    "gaussian": ("W along a Gaussian matrix", "one"),
}
"""What moves, and how the sequence ends: x_L = (0, ε_x) in the first source, (0, 1) in the second."""
REFERENCE: dict[str, dict[float, float]] = {
    "both": {500: 3.20, 2000: 2.15, 8000: 1.28},
    "gaussian": {500: 0.10, 2000: 0.010, 8000: 0.008},
}
"""Errors at Δ = 4, computed beforehand."""


@dataclass(frozen=True)
class Settings:
    widths: tuple[int, ...] = setting((500, 2000, 8000), "widths m", least=2, increasing=True, fewest=2)
    deltas: tuple[float, ...] = setting((0.5, 1.0, 2.0, 4.0), "movements Δ", above=0, increasing=True, fewest=2)
    seeds: int = setting(10, "random networks of each width, with a sequence each", least=2)
    length: int = setting(6, "positions L", least=3)
    eps_x: float = setting(0.2, "token size ε_x", above=0, most=1)


@experiment("recurrence/linearisation")
class LinearisationExperiment(Experiment[Settings]):
    """Errors of the first-order expansion against width and movement, in three directions."""

    title = "The wider a recurrent network, the nearer it is to its expansion, even along the gradient"
    question = "How does the error of the first-order expansion grow with the movement Δ, and fall with the width m?"
    source = (
        "Learning and generalization in RNNs, Lemma G.3; Can SGD learn RNNs with provable generalization?, section 4"
    )
    scales = {
        "smoke": Settings(widths=(50, 100), deltas=(1.0, 4.0), seeds=2),
        "laptop": Settings(),
        "paper": Settings(
            widths=(500, 2000, 8000, 20_000), deltas=(0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0), seeds=20
        ),
    }
    notes = (
        "Neither source has an experiment. The lemma's bound is O(ρ^7 Δ^{4/3} m^{-1/6}) with ρ = 100 L d ln m: only "
        "its exponents can be compared.",
        "W' and A' have Frobenius norm Δ/√m each, the Gaussian W' that spectral norm, so that it is √m/2 times as "
        "large in Frobenius norm, and changes the output far less.",
    )

    def check(self, settings: Settings) -> None:
        check_sequences(settings.length, DX, settings.eps_x, "eps")

    def measure(self, results: Results[Settings]) -> Measures:
        return {"errors": lambda: _errors(results.settings)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        s, table = tables.settings, tables["errors"]
        least = 4 / 3
        say = say.about(
            needs=[
                need(s.widths[-1], FULL, "neurons in the widest networks"),
                need(s.seeds, 3, "networks of each width"),
                need(MOST in s.deltas, 1, f"movements are Δ = {MOST:g}, at which errors are compared"),
            ]
        )
        at_most = tables.settings.deltas[-1] if MOST not in s.deltas else MOST
        by_width = {name: _over_widths(table.filter(direction=name, delta=at_most)) for name in DIRECTIONS}
        for name in ("recurrent", "both"):
            words = DIRECTIONS[name][0]
            part = say.about(f"{name}-", f"{words}: ")
            part(
                "falls",
                f"at Δ = {MOST:g} the error falls from each width to the next.",
                maximum([after / before for before, after in itertools.pairwise(by_width[name].y)]),
                "largest ratio of mean errors, wider / narrower",
                below=1.0,
                source_value="3.20, 2.15, 1.28 at m = 500, 2,000, 8,000" if name == "both" else "falls",
            )
            part(
                "rate",
                f"at Δ = {MOST:g} it falls at least as fast as the bound.",
                exponent(by_width[name]),
                "slope of ln error on ln m",
                at_most=-1 / 6,
                source_value="−1/6 in the bound; about −1/3 computed beforehand",
            )
            slopes = [exponent(_over_deltas(rows)) for rows in groups(table.filter(direction=name), "width").values()]
            part(
                "growth",
                f"up to Δ = {MOST:g} the error grows at least like Δ^(4/3), so that the bound's power is not exceeded "
                "at small Δ.",
                minimum(slopes),
                "least slope of ln error on ln Δ over widths",
                at_least=least,
                source_value="4/3 in the bound",
            )
        ratios = [by_width["gaussian"].at(m) / by_width["both"].at(m) for m in s.widths]
        say(
            "gaussian",
            f"Along a Gaussian matrix of the same spectral norm the error is less than a tenth of that, at Δ = "
            f"{MOST:g}.",
            maximum(ratios),
            "largest ratio of mean errors, Gaussian / W and A along the gradient",
            below=0.1,
            source_value="0.03, 0.005, 0.006",
        )

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        s, table = tables.settings, tables["errors"]
        chart = self.chart("errors", "Error of the first-order expansion", columns=3, width=12.8, height=4.0)
        m = s.widths[-1]
        most = MOST if MOST in s.deltas else s.deltas[-1]
        left = chart.panel(x="width m", y="|y − y_0 − f|", title=f"Δ = {most:g}", log="xy", xticks=s.widths)
        middle = chart.panel(x="movement Δ", y="|y − y_0 − f|", title=f"m = {m:,}", log="xy", xticks=s.deltas)
        right = chart.panel(x="movement Δ", y="share of signs that changed at L", title=f"m = {m:,}", log="xy",
                            xticks=s.deltas)  # fmt: skip
        for name, (words, _) in DIRECTIONS.items():
            own = table.filter(direction=name)
            look: dict[str, Any] = {"color": left.color(), "key": "legend"}
            known = REFERENCE.get(name) if most == MOST else None
            left.curve(_over_widths(own.filter(delta=most)), words, published=known, **look)
            look["key"] = ""  # named on the left
            middle.curve(_over_deltas(own.filter(width=m)), words, **look)
            flips = {delta: _positive(rows["flips"]) for delta, rows in groups(own.filter(width=m), "delta").items()}
            right.curve(curve(flips), words, **look)
        first = _over_widths(table.filter(direction="both", delta=most)).value[0]
        ms, ds = np.array([s.widths[0], m]), np.array([s.deltas[0], s.deltas[-1]])
        left.line(ms, first * (ms[0] / ms) ** (1 / 3), "m^(−1/3)", color="black")
        last = _over_deltas(table.filter(direction="both", width=m)).value[-1]
        middle.line(ds, last * (ds / ds[1]) ** (4 / 3), "Δ^(4/3)", color="black", side="left")
        yield chart.figure(
            f"Random networks moved by Δ/√m, L = {s.length}, ε_x = {s.eps_x:g}; means over {s.seeds} networks with 95% "
            "intervals, and what was computed beforehand (open circles). Right: signs that differ from those before "
            "moving.",
            table,
        )


def _positive(values: pl.Series) -> Any:
    """A mean on the logarithmic scale; half a neuron's share stands for none."""
    return mean_time(np.maximum(values.to_numpy(), 1e-7))


def _over_widths(rows: pl.DataFrame) -> Curve:
    return curve({m: mean_time(own.sort("seed")["error"], sample=f"m={m}") for m, own in groups(rows, "width").items()})


def _over_deltas(rows: pl.DataFrame) -> Curve:
    """Paired: the same networks are moved by every Δ."""
    m = rows["width"][0]
    own = groups(rows.filter(pl.col("delta") <= max(MOST, rows["delta"].min())), "delta")  # type: ignore[type-var]
    return curve({delta: mean_time(part.sort("seed")["error"], sample=f"m={m}") for delta, part in own.items()})


def _errors(s: Settings) -> pl.DataFrame:
    rows = []
    for width, seed in itertools.product(s.widths, range(s.seeds)):
        network = random_rnn(width, DX + 1, seed=seed, dtype=np.float32)
        tokens = draw_tokens(jax.random.key(seed), 1, s.length - 2, DX)
        for name, (_, last) in DIRECTIONS.items():
            run = network.run(np.asarray(normalise_tokens(tokens, s.eps_x, last)))
            moved = _direction(name, run, seed)
            for delta in s.deltas:
                W, A = moved(delta / math.sqrt(width))
                found = linearisation(network, run.x, W, A, run)
                error = {"error": float(found.error[0]), "linear": float(found.linear[0])}
                rows.append(
                    {"width": width, "seed": seed, "direction": name, "delta": delta, **error}
                    | {"flips": float(found.flips[0, -1])}
                )
    return pl.DataFrame(rows)


def _direction(name: str, run: Run, seed: int) -> Callable[[float], tuple[Any, Any]]:
    """W' and A' of a given norm: Frobenius along the gradient, spectral along a Gaussian matrix."""
    if name == "gaussian":
        m = run.network.width
        G = np.random.default_rng([seed, 3]).standard_normal((m, m), np.float32)
        G /= np.float32(spectral_norm(G, seed))
        return lambda norm: (np.float32(norm) * G, None)
    W, A = run.gradient()
    along, inputs = W * (1 / W.norm()), A / np.linalg.norm(A)
    return lambda norm: (along * norm, np.float32(norm) * inputs if name == "both" else None)
