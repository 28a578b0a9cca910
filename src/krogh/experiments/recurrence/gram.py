"""Are the states of random recurrent networks where the recursion for infinite width says?

Inner products of hidden states between sequences, the share of signs that differ, the noise σ_i that a token's past
leaves beside the base sequence, how all of them fluctuate at width m, and the gains of x ↦ relu(Wx).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import jax
import numpy as np
import polars as pl

from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, groups, maximum, mean, need, setting
from krogh.lab.curves import curve, curves
from krogh.lab.estimate import Estimate
from krogh.lab.experiment import Measures
from krogh.networks.recurrence.measures import flip_shares, operator_gains
from krogh.networks.recurrence.random_network import random_rnn
from krogh.tasks.token_sequences import base_sequence, check_sequences, draw_tokens, normalise_tokens
from krogh.theory.recurrence.gram import gram, norm_fluctuations, residual_scales

DX = 3
FULL = 8000
"""The width at which the recursion is asked to hold to 5%."""
GAINS = {"typical": 1.0, "worst": 1 + math.sqrt(2), "norm": 2 * math.sqrt(2)}


@dataclass(frozen=True)
class Settings:
    widths: tuple[int, ...] = setting((500, 2000, 8000), "widths m", least=2, increasing=True, fewest=2)
    seeds: tuple[int, ...] = setting((200, 200, 40), "random networks of each width", least=2, like="widths")
    gained: int = setting(5, "networks of each width whose gains are measured", least=2)
    length: int = setting(6, "positions L", least=4)
    eps_x: float = setting(0.1, "token size ε_x", above=0, most=1)


@experiment("recurrence/gram")
class GramExperiment(Experiment[Settings]):
    """Gram matrices, flips, residual noise and gains of random ReLU Elman networks, measured and predicted."""

    title = "A recursion predicts the states of random recurrent networks; a typical vector keeps its length"
    question = (
        "Do hidden states of random ReLU networks have the inner products and sign differences of infinite width?"
    )
    source = "Can SGD learn RNNs with provable generalization?, section 5 and footnote 2"
    scales = {
        "smoke": Settings(widths=(40, 80), seeds=(3, 3), gained=2),
        "laptop": Settings(),
        "paper": Settings(widths=(500, 2000, 8000, 20_000), seeds=(1000, 300, 100, 20), gained=10),
    }
    notes = (
        "The recursion is the arc-cosine kernel's and is not in the source, which bounds these quantities.",
        "Two random sequences and the base sequence, the same for all networks. Entries are compared where the "
        "recursion is not 0; σ_2 = 0 is left out.",
        "The errors of single networks are larger than √(5L/m), for all steps share one matrix and add up what it "
        "does.",
        "Footnote 2 has √2 as the worst gain of x ↦ relu(Wx). Power iteration, which can only be too low, finds 1 + "
        "√2.",
    )

    def check(self, settings: Settings) -> None:
        check_sequences(settings.length, DX, settings.eps_x, "eps")

    def measure(self, results: Results[Settings]) -> Measures:
        return {"states": lambda: _states(results.settings), "gains": lambda: _gains(results.settings)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        s, states = tables.settings, tables["states"]
        m, seeds = s.widths[-1], s.seeds[-1]
        say = say.about(
            needs=[need(m, FULL, "neurons in the widest networks"), need(seeds, 5, "networks of that width")]
        )
        widest = states.filter(width=m)
        for quantity, statement in (
            (
                "product",
                "inner products ⟨h_l(X), h_l'(Y)⟩ of two sequences, and of each with itself and the base sequence",
            ),
            ("sigma", "σ_i, the part of h_(i−1) outside of the base state"),
            ("flips", "shares of signs that differ from the base sequence's"),
        ):
            say(
                quantity,
                f"At m = {m:,}, {statement}, are those of the recursion to 5%.",
                _departure(widest.filter(quantity=quantity)),
                f"largest |mean over networks / prediction − 1|, {seeds} networks",
                at_most=0.05,
                source_value="within 5%" if quantity != "flips" else "0.048 to 0.083 for 0.045 to 0.086 (one network)",
            )
        second = s.widths[-2]  # wide enough for the first order in 1/m, and narrow enough for many networks
        narrow = [need(s.seeds[-2], 100, "networks of the second width from above")]
        say(
            "fluctuation",
            f"At m = {second:,}, ‖h_L‖² of single networks varies by √(5L/m), as if each step had its own matrix.",
            _fluctuation(states, second, s.length) / math.sqrt(5 * s.length),
            "standard deviation / √(5L/m)",
            between=(0.8, 1.25),
            source_value="about 1",
            needs=narrow,
        )
        say(
            "fluctuation-shared",
            f"At m = {second:,}, ‖h_L‖² of single networks varies as theory says for one matrix that all steps share.",
            _fluctuation(states, second, s.length) / float(norm_fluctuations(_sequences(s)["X"])[-1]),
            "standard deviation / that of `norm_fluctuations`",
            between=(0.8, 1.25),
            source_value="1 to first order in 1/m",
            needs=narrow,
        )
        widest_gains = tables["gains"].filter(width=m)
        for name, words in (
            ("typical", "of a random vector"),
            ("worst", "of the worst vector"),
            ("norm", "of W itself"),
        ):
            say(
                f"gain-{name}",
                f"At m = {m:,}, the gain {words} is {GAINS[name]:.4g} to 5%.",
                mean(widest_gains[name]) / GAINS[name],
                f"mean gain / {GAINS[name]:.4g}",
                between=(0.95, 1.05),
                source="Can SGD learn RNNs with provable generalization?, footnote 2",
                source_value={"typical": "1", "worst": "√2 in the footnote; 2.42 computed beforehand", "norm": "2.83"}[
                    name
                ],
            )

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        s, states = tables.settings, tables["states"]
        chart = self.chart(
            "states", "States of random networks beside the recursion", columns=3, width=12.6, height=3.9
        )
        left = chart.panel(x="position l", y="share of signs that differ", title="X against the base sequence",
                           xticks=range(1, s.length + 1))  # fmt: skip
        middle = chart.panel(
            x="position i", y="σ_i", title="Noise beside the base state", xticks=range(1, s.length + 1)
        )
        for panel, quantity in ((left, "flips"), (middle, "sigma")):
            own = states.filter(quantity=quantity)
            for width, found in curves(own, by="width", x="place", y="measured", statistic=mean).items():
                panel.curve(found, f"m = {width:,}", key="legend")
            known = groups(own.filter(width=s.widths[-1], seed=0), "place")
            panel.line(
                list(known), [rows["predicted"][0] for rows in known.values()], "recursion", color="black", key="legend"
            )
        right = chart.panel(x="width m", y="gain of x ↦ relu(W x)", title="How vectors are stretched", log="x",
                            xticks=s.widths, ylim=(0, 3.2))  # fmt: skip
        for name, label in (("norm", "‖W‖"), ("worst", "worst x"), ("typical", "random x")):
            points = {m: mean(rows[name]) for m, rows in groups(tables["gains"], "width").items()}
            right.curve(curve(points), label)
            right.reference(GAINS[name], f"{GAINS[name]:.3g}")
        yield chart.figure(
            f"Random ReLU Elman networks, L = {s.length}, ε_x = {s.eps_x:g}; means over networks with 95% intervals, "
            "and the recursion for infinite width (dashed). Left: signs that differ from the base sequence's. Middle: "
            "the part of a state outside of the base state, in units of ε_x. Right: gains, the worst by power "
            "iteration.",
        )
        ratio = self.chart("products", "Inner products of states, over the recursion's", width=6.8)
        panel = ratio.panel(x="width m", y="⟨h_L(X), h_L(X)⟩ / recursion", log="x", xticks=s.widths)
        norms = states.filter(quantity="product", pair="X, X", place=s.length, other=s.length)
        norms = norms.with_columns(ratio=pl.col("measured") / pl.col("predicted"))
        panel.dots(norms["width"], norms["ratio"], "a network", alpha=0.25)
        panel.curve(curves(norms, x="width", y="ratio", statistic=mean)[()], "mean")
        m = np.geomspace(s.widths[0], s.widths[-1], 50)
        shared = float(norm_fluctuations(_sequences(s)["X"])[-1])
        for size, words, style in ((shared, "one matrix", "--"), (math.sqrt(5 * s.length), "√(5L/m)", ":")):
            for sign in (1, -1):
                label = words if sign > 0 else ""
                panel.line(m, 1 + sign * size / np.sqrt(m), label, color="black", style=style, key="legend")
        yield ratio.figure(
            "Squared norms of the last state: one dot per network, their mean, and one standard deviation by "
            "theory: for the one matrix that all steps share (dashed), and with a fresh one for each step (dotted)."
        )


def _departure(rows: pl.DataFrame) -> Estimate:
    """The largest |mean/prediction - 1|; all entries rest on the same networks."""
    found = []
    for (_, _, _), own in groups(rows, ["pair", "place", "other"]).items():
        ratios = (own.sort("seed")["measured"] / own.sort("seed")["predicted"]).to_numpy()
        found.append(abs(mean(ratios, sample=f"m={own['width'][0]}") - 1.0))
    return maximum(found)


def _fluctuation(states: pl.DataFrame, width: int, length: int) -> Estimate:
    """√m times the root of the mean square of ‖h_L‖²/n_L - 1."""
    own = states.filter(quantity="product", pair="X, X", place=length, other=length, width=width)
    squares = (width * (own["measured"] / own["predicted"] - 1) ** 2).to_numpy()
    return mean(squares).map(lambda x: np.sqrt(np.maximum(x, 0)))


def _sequences(s: Settings) -> dict[str, np.ndarray]:
    tokens = draw_tokens(jax.random.key(0), 2, s.length - 2, DX)
    x, y = np.asarray(normalise_tokens(tokens, s.eps_x, "eps"), np.float64)
    return {"X": x, "Y": y, "0": np.asarray(base_sequence(s.length, DX, s.eps_x, "eps"), np.float64)}


def _states(s: Settings) -> pl.DataFrame:
    """Rows (quantity, pair, place, other) of every network: what was measured and what the recursion says."""
    given = _sequences(s)
    pairs = [("X", "X"), ("X", "Y"), ("X", "0"), ("0", "0")]
    limits = {pair: gram(given[pair[0]], given[pair[1]]) for pair in pairs}
    sigma, flips = residual_scales(given["X"], given["0"], s.eps_x), limits["X", "0"].flips
    names, x = list(given), np.stack(list(given.values()))
    rows: dict[str, list] = {
        key: [] for key in ("quantity", "pair", "place", "other", "width", "seed", "measured", "predicted")
    }

    def put(*row: object) -> None:
        for key, value in zip(rows, row, strict=True):
            rows[key].append(value)

    for width, count in zip(s.widths, s.seeds, strict=True):
        for seed in range(count):
            run = random_rnn(width, DX + 1, seed=seed, dtype=np.float32).run(x)
            h = dict(zip(names, run.h.swapaxes(0, 1).astype(np.float64), strict=True))  # [L+1, m] of each sequence
            for one, other in pairs:
                measured = h[one] @ h[other].T
                for i, j in np.ndindex(s.length, s.length):
                    if one != other or i <= j:
                        limit = limits[one, other].product[i + 1, j + 1]
                        put("product", f"{one}, {other}", i + 1, j + 1, width, seed, measured[i + 1, j + 1], limit)
            differ = flip_shares(*(type(run)(run.network, run.x[[k]], run.h[:, [k]], run.active[:, [k]])
                                   for k in (names.index("X"), names.index("0"))))[0]  # fmt: skip
            for place in range(2, s.length + 1):  # at the first both read the same
                put("flips", "X, 0", place, place, width, seed, differ[place - 1], flips[place - 1])
            for i in range(3, s.length + 1):
                own, base = h["X"][i - 1], h["0"][i - 1]
                left = own - (own @ base) / (base @ base) * base
                put("sigma", "X, 0", i, i, width, seed, float(np.linalg.norm(left)) / s.eps_x, sigma[i - 1])
    return pl.DataFrame(rows)


def _gains(s: Settings) -> pl.DataFrame:
    rows = []
    for width, count in zip(s.widths, s.seeds, strict=True):
        for seed in range(min(s.gained, count)):
            found = operator_gains(random_rnn(width, 1, seed=seed, dtype=np.float32).W, seed)
            rows.append({"width": width, "seed": seed, **found._asdict()})
    return pl.DataFrame(rows)
