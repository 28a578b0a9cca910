"""Theorems 4.6, 4.11 and Corollary 4.9: the capacity of attention of bounded norm grows as log T.

Log covering numbers of one head, of many and of stacks of blocks are computed over a wide range of T, once as the
source states them (the *shape*, with constant 1) and once with every constant of the proofs (*explicit*). The
inequalities on which they rest are put to random weights and inputs: the largest ratio of the two sides must not
exceed 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from krogh.experiments.attention.common import law_needs, some_of
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, groups, need, setting
from krogh.lab.estimate import exact
from krogh.lab.experiment import Measures
from krogh.lab.fits import line_bend, line_slope
from krogh.networks.sparse_heads import truncation_bounds, truncation_deviation
from krogh.theory.attention import lipschitz
from krogh.theory.attention.capacity import depth_capacity, head_capacity, multi_head_capacity
from krogh.theory.attention.covering import lagrangian_split
from krogh.theory.numerics import mixed_norm, softmax, spectral_norm, token_norm, unit_ball

STRAIGHT = 0.01
"""Of the rise of a bound over the range of T: how far from a line in log T it may be; its shares of ε move a little."""
ROUNDING = 1e-9
COVERS = {"class": pl.String, "size": pl.Int64, "shape": pl.Float64, "explicit": pl.Float64}
KINDS = {"shape": "as stated", "explicit": "with every constant of the proof"}

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    lengths: tuple[int, ...] = setting(
        tuple(2**p for p in range(3, 21)), "context lengths T", increasing=True, fewest=3, least=1
    )
    depths: tuple[int, ...] = setting((1, 2, 4), "numbers of blocks", increasing=True, least=1)
    heads: tuple[int, ...] = setting((1, 2, 4, 8, 16), "numbers of heads", increasing=True, fewest=2, least=1)
    samples: int = setting(1000, "contexts m on which the cover is taken", least=1)
    dimension: int = setting(64, "dimension d of tokens", least=1)
    radius: float = setting(0.1, "radius ε of the cover; all norms are 1", above=0)
    draws: int = setting(1000, "random weights and inputs per inequality", least=1)

    @property
    def cover(self) -> dict[str, Any]:
        """What covering numbers are computed for; all norms are 1."""
        return {"samples": self.samples, "dimension": self.dimension, "scale": self.radius}


@experiment("attention/capacity")
class Capacity(Experiment[Settings]):
    """Covering numbers against T and the number of heads, and the inequalities behind them."""

    title = "The capacity of attention of bounded norm grows as the logarithm of the context"
    question = "How do the capacity bounds grow with the length of the context, and do the inequalities behind hold?"
    source = "dissertation, Theorems 4.6, 4.11, Corollary 4.9"
    scales = {
        "smoke": Settings(lengths=tuple(2**p for p in range(3, 9)), depths=(1,), heads=(1, 2, 4), draws=50),
        "laptop": Settings(),
        "paper": Settings(),
    }
    notes = (
        "The bounds are orders of magnitude above any realistic sample size: they are to be used for scaling only.",
        "The depth-L bound has its products over later layers, as its proof gives them; the source prints the earlier "
        "ones, no ‖w‖ in the sum and factors d^{2/3}, k^{2/3} that contradict its own statement.",
        "Random draws cannot prove an inequality; one that exceeds 1 would refute it.",
    )

    def measure(self, results: Results[Settings]) -> Measures:
        settings = results.settings
        return {
            "lengths": lambda: pl.DataFrame(_length_rows(settings), schema=COVERS, orient="row"),
            "heads": lambda: pl.DataFrame(_head_rows(settings), schema=COVERS, orient="row"),
            "ratios": lambda: pl.DataFrame(
                [(name, worst_ratio(name, settings.draws)) for name in RATIOS],
                schema={"inequality": pl.String, "ratio": pl.Float64},
                orient="row",
            ),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        for name, own in groups(tables["lengths"], "class").items():
            lengths, grown = own["size"].to_list(), own["explicit"][-1] / own["explicit"][0]
            for kind, text in KINDS.items():
                explicit = kind == "explicit"
                say(
                    f"{name.replace(' ', '-')}-{kind}-log",
                    f"The log covering number of {name}, {text}, is affine in log T from {lengths[0]} to {lengths[-1]}"
                    + (f"; there it grows by a factor of {grown:.2f}." if explicit else "."),
                    exact(line_bend(np.log(lengths), own[kind]), len(own)),
                    "largest distance from a line in log T, of the rise",
                    at_most=STRAIGHT if explicit else ROUNDING,
                    source=f"dissertation, {'Corollary 4.9' if name == 'one head' else 'Theorems 4.11, A.17'}",
                    source_value="log(dmT)",
                    needs=law_needs(lengths, 1000),
                )
        heads = tables["heads"]
        counts = heads["size"].to_list()
        for kind, text in KINDS.items():
            say(
                f"heads-{kind}-cubed",
                f"The log covering number of H equal heads, {text}, grows as H³ (H = {counts[0]} to {counts[-1]}).",
                exact(abs(line_slope(np.log(counts), np.log(heads[kind])) - 3), len(heads)),
                "|slope of log capacity on log H - 3|",
                # Inside the explicit bound a share of ε goes to each head, and with it a logarithm of H.
                at_most=0.2 if kind == "explicit" else ROUNDING,
                source="dissertation, Lemma A.12",
                source_value="H³",
                needs=[need(len(counts), 3, "numbers of heads")],
            )
        draws = tables.settings.draws
        for name, ratio in tables["ratios"].iter_rows():
            what, lemma = name.split(", ")
            holds = ratio <= 1 + ROUNDING  # one counterexample is enough, however few the draws
            say(
                f"inequality-{what.replace(' ', '-').lower()}",
                f"{lemma} ({what}): the left-hand side never exceeds the right one in {draws:,} draws.",
                exact(ratio, draws, sample=name, rule=f"the largest of {draws}"),
                "largest left-hand side / right-hand side",
                at_most=1 + ROUNDING,
                source=f"dissertation, {lemma}",
                source_value="≤ 1",
                needs=[need(draws, 1000, "draws without a counterexample")] if holds else (),
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        yield self._growth(tables)
        yield self._ratios(tables)

    def _growth(self, tables: Tables[Settings]) -> Figure:
        settings, table, heads = tables.settings, tables["lengths"], tables["heads"]
        lengths, counts = settings.lengths, heads["size"].to_list()
        chart = self.chart(
            "capacity",
            "Capacity against context length and heads",
            headline="Capacity is a straight line in log T, and a cube in heads",
            columns=2,
            width=8.4,
            height=4.2,
        )
        left = chart.panel(
            x="context length T", y=f"log covering number / that at T = {lengths[0]}", title="growth with the context"
        )
        for name, own in groups(table, "class").items():
            color, base, logs = left.color(), float(own["explicit"][0]), np.log(own["size"])
            grown = (own["explicit"] / base).to_numpy()
            left.dots(own["size"], grown, color=color, markersize=4, alpha=1.0)
            fitted = np.polyval(np.polyfit(logs, grown, 1), logs)
            left.line(own["size"], fitted, f"{name} (×{base:.1g})", color=color, style="-", width=1)
        left.axes(log="x", xticks=some_of(lengths), base=2)
        right = chart.panel(
            x="heads H", y=f"log covering number / that of {counts[0]}", title="growth with the heads (dashed: H³)"
        )
        for kind in KINDS:
            right.line(counts, heads[kind] / heads[kind][0], kind, style="-", width=1, marker="o", markersize=4)
        right.line(counts, (np.array(counts) / counts[0]) ** 3, color=figures.MUTED, width=1.1)
        right.axes(log="xy", xticks=counts)
        return chart.figure(
            f"Upper bounds on the log covering number with every constant of the proofs, m = {settings.samples}, "
            f"d = {settings.dimension}, ε = {settings.radius:g}, all norms 1. Left: points are the bounds, lines their "
            "fits in log T; a bound linear in T would grow by a factor of "
            f"{lengths[-1] // lengths[0]:,}. Right: H equal heads at T = {lengths[0]}.",
            pl.concat([table, heads]),
        )

    def _ratios(self, tables: Tables[Settings]) -> Figure:
        table, draws = tables["ratios"], tables.settings.draws
        chart = self.chart(
            "inequalities",
            "The inequalities behind the bounds at random weights",
            headline="How close random weights come to the inequalities",
            source="dissertation, section 4.4 and A.1",
            height=3.6,
        )
        panel, places = chart.panel(x="largest left-hand side / right-hand side"), np.arange(len(table))
        panel.ax.barh(places, np.minimum(table["ratio"].to_numpy(), 10.0), color=figures.BLUE, height=0.6)
        panel.ax.set_yticks(places, table["inequality"].to_list())
        panel.ax.invert_yaxis()
        panel.reference(1.0, "the inequality", axis="x")
        return chart.figure(
            f"{draws:,} draws each: weights of very different sizes, tokens in the unit ball, changes from hardly to "
            "altogether. A bar beyond 1 would be a counterexample; a short bar is an inequality with room to spare.",
            table,
        )


def _length_rows(settings: Settings) -> Iterator[tuple[Any, ...]]:
    for length in settings.lengths:
        bounds = {"one head": head_capacity(length, **settings.cover)}
        for depth in settings.depths:
            name = f"{depth} blocks" if depth > 1 else "1 block"
            bounds[name] = depth_capacity(length, depth=depth, **settings.cover)
        yield from ((name, length, bound["shape"], bound["explicit"]) for name, bound in bounds.items())


def _head_rows(settings: Settings) -> Iterator[tuple[Any, ...]]:
    for heads in settings.heads:
        bound = multi_head_capacity(settings.lengths[0], heads=heads, **settings.cover)
        yield "heads", heads, bound["shape"], bound["explicit"]


# --- inequalities: the ratio of the two sides at random weights and inputs; one above 1 is a counterexample --------
# Sizes vary over orders of magnitude, since an inequality is tight where one of its terms is all there is.


def _weights(random: np.random.Generator, d: int, k: int) -> lipschitz.Weights:
    """Weights of random size: small ones make a softmax flat, large ones make it pick one token."""
    size = np.exp(random.uniform(-2, 2, 4))
    shapes = ((d, k), (d, k), (d, k), (k, d))
    drawn = (scale * random.normal(size=shape) / math.sqrt(d) for scale, shape in zip(size, shapes, strict=True))
    return lipschitz.Weights(*drawn)


def _near(random: np.random.Generator, weights: lipschitz.Weights) -> lipschitz.Weights:
    """The weights moved by a random amount, from hardly to altogether, each matrix by its own."""
    parts = (weights.query, weights.key, weights.value, weights.output)
    moved = [
        part + np.exp(random.uniform(-6, 1)) * float(random.integers(2)) * random.normal(size=part.shape)
        for part in parts
    ]
    return lipschitz.Weights(*moved)


def _tokens(random: np.random.Generator, T: int, d: int) -> Array:
    return unit_ball(np.exp(random.uniform(-1, 1)) * random.normal(size=(T, d)))


def _near_tokens(random: np.random.Generator, X: Array) -> Array:
    return unit_ball(X + np.exp(random.uniform(-6, 1)) * random.normal(size=X.shape))


def _sizes(random: np.random.Generator) -> tuple[int, int, int]:
    """T, d and k: small, where inequalities are tightest; the softmax of one token is constant."""
    return int(random.integers(2, 7)), int(random.integers(1, 5)), int(random.integers(1, 5))


def _ratio(left: float, right: float) -> float:
    """left / right, and 0 where both vanish."""
    return left / right if right > 0 else (0.0 if left <= ROUNDING else math.inf)


def _softmax(random: np.random.Generator) -> float:
    T = int(random.integers(2, 8))
    a = np.exp(random.uniform(-2, 2)) * random.normal(size=T)
    b = a + np.exp(random.uniform(-6, 1)) * random.choice([-1.0, 1.0], size=T)
    return _ratio(float(np.abs(softmax(a) - softmax(b)).sum()), lipschitz.softmax_bound(a, b))


def _jacobian(random: np.random.Generator) -> float:
    scores = np.exp(random.uniform(-3, 2)) * random.normal(size=int(random.integers(2, 50)))
    return float(mixed_norm(lipschitz.softmax_jacobian(scores), 1, 1)) / lipschitz.SOFTMAX_JACOBIAN


def _lagrangian(random: np.random.Generator) -> float:
    """The least value over the best of 100 admissible shares: no share does better than the formula's."""
    count = int(random.integers(2, 6))
    alpha, beta = np.exp(random.normal(size=(2, count)))
    budget = float(np.exp(random.normal()))
    least, x = lagrangian_split(alpha, beta, budget)
    others = x[None] * np.exp(np.exp(random.uniform(-6, 0, (100, 1))) * random.normal(size=(100, count)))
    others *= budget / (others @ beta)[:, None]
    return float(least) / float((alpha / others**2).sum(axis=1).min())


def _projection(random: np.random.Generator) -> float:
    u, v = np.exp(random.uniform(-1, 2, (2, 1))) * random.normal(size=(2, int(random.integers(1, 5))))
    v = u + np.exp(random.uniform(-5, 1)) * v
    return _ratio(float(np.linalg.norm(unit_ball(u) - unit_ball(v))), float(np.linalg.norm(u - v)))


def _head(random: np.random.Generator) -> float:
    """Lemma 4.7 for dot-product scores, linear φ_in and a ReLU as φ_out."""
    T, d, k = _sizes(random)
    X, z = _tokens(random, T, d), _tokens(random, 1, d)[0]
    before = _weights(random, d, k)
    after = _near(random, before)

    def output(weights: lipschitz.Weights) -> Array:
        return lipschitz.general_head(
            X, z, lambda x, c: x @ weights.query_key @ c, lambda x: x @ weights.value, lipschitz.relu
        )

    bound = lipschitz.head_bound(
        X @ (before.query_key - after.query_key) @ z,
        X @ (before.value - after.value),
        input_bound=float(spectral_norm(before.value)),
        token_bound=float(token_norm(X)),
    )
    return _ratio(float(np.linalg.norm(output(before) - output(after))), bound)


def _truncation(random: np.random.Generator) -> float:
    """Lemma A.24: s scores of at least R, the others at most 0, and what the others change."""
    length = int(random.integers(2, 50))
    kept, margin = int(random.integers(1, length)), float(random.uniform(0, 8))
    slack = random.exponential(random.uniform(0.01, 2), length)
    inside = np.arange(length) < kept
    scores = np.where(inside, margin + slack, -slack)
    return float(truncation_deviation(scores, inside)) / truncation_bounds(length, kept, margin)[0]


def _layer_weights(random: np.random.Generator) -> float:
    T, d, k = _sizes(random)
    X, before = _tokens(random, T, d), _weights(random, d, k)
    after = _near(random, before)
    moved = lipschitz.attention(X, before) - lipschitz.attention(X, after)
    return _ratio(float(token_norm(moved)), lipschitz.attention_weight_bound(X, before, after))


def _layer_inputs(random: np.random.Generator) -> float:
    T, d, k = _sizes(random)
    X, weights = _tokens(random, T, d), _weights(random, d, k)
    other = _near_tokens(random, X)
    moved = lipschitz.attention(X, weights) - lipschitz.attention(other, weights)
    return _ratio(float(token_norm(moved)), lipschitz.attention_input_bound(X, other, weights))


def _block(random: np.random.Generator) -> float:
    T, d, k = _sizes(random)
    X, before = _tokens(random, T, d), _weights(random, d, k)
    other, after = _near_tokens(random, X), _near(random, before)
    moved = lipschitz.block(X, before) - lipschitz.block(other, after)
    return _ratio(float(token_norm(moved)), lipschitz.block_bound(X, other, before, after))


def _network(random: np.random.Generator) -> float:
    T, d, k = _sizes(random)
    X, layers = _tokens(random, T, d), [_weights(random, d, k) for _ in range(int(random.integers(1, 4)))]
    others = [_near(random, layer) for layer in layers]
    w = random.normal(size=d)
    v = w + float(random.integers(2)) * random.normal(size=d)
    moved = lipschitz.network(X, layers, w) - lipschitz.network(X, others, v)
    return _ratio(abs(moved), lipschitz.network_bound(X, layers, others, w, v))


RATIOS: dict[str, Callable[[np.random.Generator], float]] = {
    "head, Lemma 4.7": _head,
    "softmax, Lemma A.6": _softmax,
    "Jacobian, Cor. A.7": _jacobian,
    "shares, Lemma A.8": _lagrangian,
    "projection, Lemma A.9": _projection,
    "layer by weights, Lemma A.13": _layer_weights,
    "layer by inputs, Lemma A.14": _layer_inputs,
    "block, Lemma A.15": _block,
    "network, Lemma A.16": _network,
    "truncation, Lemma A.24": _truncation,
}
"""Each inequality as the ratio of its two sides at random weights and inputs: at most 1 where it holds."""


def worst_ratio(name: str, draws: int) -> float:
    """The largest ratio of an inequality over so many draws; the first of more draws are the same."""
    random = np.random.default_rng([list(RATIOS).index(name), 4])
    return float(np.max([RATIOS[name](random) for _ in range(draws)]))
