"""Propositions 3 and 21: with fewer heads than relevant tokens, no one-layer Transformer represents the task.

Tokens of the second half are null and ask for tokens 1..q, whose squared norms add up to the label. What a head shows
there is one weighted sum of the q tokens; where scores may read tokens, the weights depend on q more numbers per head.
What is left unseen is a floor of the risk, for any weights. Networks are trained here with H = 1, 2, ... heads.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.engine.trial import VALIDATION
from krogh.experiments.qstr.common import least_over_networks, mean_risk, square_training, whole_budget
from krogh.lab import Claims, Estimate, Experiment, Figure, Results, Tables, experiment, figures, groups, need, setting
from krogh.lab.estimate import mean, minimum, unknown_estimate
from krogh.lab.experiment import Measures
from krogh.models import MergedAttention
from krogh.tasks import CentredSquareLink, TokenRegression, sign_codes
from krogh.theory.tokens.limits import head_floor
from krogh.training import Adam, Online

PROPOSED = "proposed; expected from Propositions 3 and 21"
ALLOWED = 0.98
"""A sampled risk may lie 2% below its floor."""
FEWEST = 3
BLOCK = 500
KINDS = {"free": "any attention", "separated": "no attention between tokens and codes"}
FLOORS = {
    "floor": ("free", "1 - H(q+d)/(qd)", figures.MUTED),
    "floor_sharper": ("free", "(1-H/q)(1-H/d)", figures.GREEN),
    "floor_separated": ("separated", "1 - H/q", figures.VERMILLION),
}
"""What bounds the risk from below, for which kind of attention, and how it is drawn."""


@dataclass(frozen=True)
class Settings:
    sparsity: int = setting(4, "relevant tokens, q", least=1)
    dimension: int = setting(8, "numbers per token, d", least=1)
    length: int = setting(16, "tokens per prompt, N", least=1)
    code_dimension: int = setting(13, "numbers per positional code, d_e", least=1)
    heads: tuple[int, ...] = setting((1, 2, 3, 4, 5, 6), "attention heads, H", increasing=True, least=1)
    attention: tuple[str, ...] = setting(
        ("free", "separated"), "free, or without attention between tokens and codes", distinct=True, among=KINDS
    )
    hidden: int = setting(256, "width of the network after attention", least=1)
    budget: int = setting(20_000, "steps, all of which are made", least=1)
    batch_size: int = setting(64, "fresh prompts per step", least=1)
    rate: float = setting(1e-3, "Adam's learning rate", above=0)
    seeds: int = setting(3, "networks per number of heads", least=1)
    prompts: int = setting(100_000, "test prompts on which the null half's risk is measured", least=1)


@experiment("qstr/heads")
class Heads(Experiment[Settings]):
    """The risk of trained Transformers against their number of heads, beside its floors."""

    title = "A Transformer needs as many heads as there are relevant tokens"
    question = "How small does the risk of a one-layer Transformer get when it has fewer heads than relevant tokens?"
    source = "qSTR paper, Propositions 3 and 21"
    scales = {
        "smoke": Settings(
            sparsity=2, dimension=3, length=6, code_dimension=4, heads=(2,), attention=("separated",), hidden=16,
            budget=50, seeds=2, prompts=200,
        ),
        "laptop": Settings(
            sparsity=3, dimension=6, length=8, code_dimension=10, heads=(1, 2, 3), budget=2_000, rate=3e-3, seeds=3,
            prompts=50_000,
        ),
        "paper": Settings(),
    }  # fmt: skip
    notes = (
        "Proposed with the theory; its criteria were not calibrated on a run.",
        "Every network makes all of its steps: the error 0 is never reached, so that every trial counts as failed.",
        "The risk is that of positions i ≥ N/2 divided by 2, of which the propositions speak; predicting 0 has risk 1.",
        "Proposition 3's printed floor ends at H = qd/(q+d); its proof gives (1-H/q)(1-H/d), drawn and tested too.",
    )
    keep_weights = True

    def trials(self, settings: Settings) -> Iterator[Trials]:
        stopping = whole_budget(settings.budget, settings.prompts, longest=500)
        training = square_training(Adam(settings.rate), Online(settings.batch_size), **stopping)
        task = task_of(settings)
        for kind, count in itertools.product(settings.attention, settings.heads):
            trial = Trial(task, MergedAttention(count, settings.hidden, kind == "separated"), training)
            yield from sweep(trial, seed=range(settings.seeds), label={"attention": kind})

    def measure(self, results: Results[Settings]) -> Measures:
        """One row per network: its risk on the null half, halved, the deviation between prompts, and the floors.

        A network that diverged has an infinite risk.
        """
        settings, rows = results.settings, []
        for network in results.networks():
            assert isinstance(network.trial.model, MergedAttention)
            count = network.trial.model.heads
            errors = np.array([math.inf])
            if network.final is not None:
                errors = np.asarray(_null_half_errors(network.trial, network.final, settings.prompts), np.float64)
            floors = head_floor(settings.sparsity, settings.dimension, count)
            rows.append(
                {
                    "attention": network.row["attention"],
                    "heads": count,
                    "seed": network.seed,
                    **mean_risk(errors),
                    "error": float(network.row["error"]),
                    **{name: floors[name] for name in FLOORS},
                }
            )
        return {"risks": pl.DataFrame(rows)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings, by_kind = tables.settings, groups(tables["risks"], "attention")
        enough = need(settings.seeds, FEWEST, "networks per H")
        for name, (kind, words, _) in FLOORS.items():
            if kind not in by_kind:
                continue
            floor = by_kind[kind].filter(pl.col(name) > 0)[name]
            bounded = by_kind[kind].filter(pl.col(name) > 0).select(pl.col("risk", "deviation") / floor)
            none = f"the floor {words} is 0 at every H of heads={settings.heads}"
            say(
                name.replace("_", "-"),
                f"With {KINDS[kind]}, no network's risk is below {words} (a sampling error of 2% is allowed).",
                least_over_networks(bounded["risk"], bounded["deviation"], settings.prompts),
                f"least over networks of risk / ({words})",
                at_least=ALLOWED,
                source_value=f"≥ {words}, for any weights",
                needs=["" if len(bounded) else none, enough],
            )
        for kind in settings.attention:
            self._by_heads(kind, settings, by_kind[kind], say.about(source=PROPOSED, needs=[enough]))

    def _by_heads(self, kind: str, settings: Settings, risks: pl.DataFrame, say: Claims) -> None:
        q = settings.sparsity
        by_heads = {
            heads: rows.sort("seed")["risk"].to_numpy() for heads, rows in groups(risks, "heads").items() if heads <= q
        }
        both = {1, q} <= set(by_heads)
        pairs = list(itertools.pairwise(by_heads))
        ends = "" if both else f"heads={settings.heads} lack H = 1 or H = q = {q}"
        nothing = f"no two H up to q = {q}"

        def over_seeds(differences: np.ndarray) -> Estimate:
            """The mean over seeds; where a network diverged, nothing is known of it."""
            return mean(np.where(np.isfinite(differences), differences, math.inf), sample=kind)

        with np.errstate(invalid="ignore"):
            drops = [over_seeds(by_heads[low] - by_heads[high]) for low, high in pairs]
            kept = over_seeds(by_heads[q] / by_heads[1]) if both and q > 1 else unknown_estimate(nothing)
        say(
            f"decreasing-{kind}",
            f"With {KINDS[kind]}, every further head lowers the risk, up to H = q = {q}.",
            minimum(drops, nothing=nothing),
            "least difference of risk between neighbouring H ≤ q, mean over seeds",
            above=0.0,
            source_value="expected to decrease",
            needs=[ends],
        )
        say(
            f"enough-heads-{kind}",
            f"With {KINDS[kind]}, H = q = {q} heads at least halve the risk of one head; what is left is the two-layer "
            "network's error in computing squared norms.",
            kept,
            "risk(H=q) / risk(H=1), mean over seeds",
            at_most=0.5,
            source_value="expected ≤ 0.5",
            needs=[ends],
        )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        settings, by_kind = tables.settings, groups(tables["risks"], "attention")
        q, d = settings.sparsity, settings.dimension
        chart = self.chart(
            "heads",
            "Risk against the number of heads",
            headline="Fewer heads than relevant tokens leave a risk that no training removes",
            columns=len(settings.attention),
            width=1.0 + 3.9 * len(settings.attention),
            sharey=True,
        )
        counts = np.arange(1, max(max(settings.heads), q) + 1)
        for kind in settings.attention:
            panel = chart.panel(title=KINDS[kind], x="heads H", xticks=counts.tolist())
            for name, (of, words, color) in FLOORS.items():
                if of == kind:
                    floor = [head_floor(q, d, int(count))[name] for count in counts]
                    panel.line(counts, floor, words, color=color, width=1.3, key="legend")
            panel.ranges(by_kind[kind], "heads", "risk", "trained", color=figures.BLUE, key="legend")
            panel.legend(loc="upper right")
        chart[0].axes(y="risk on positions i ≥ N/2, halved", ylim=(0, None))
        yield chart.figure(
            f"q = {q} relevant tokens of dimension {d} among N = {settings.length}; MergedAttention with "
            f"{settings.hidden} hidden neurons, {settings.budget:,} steps of Adam on fresh batches of "
            f"{settings.batch_size}. Means over {settings.seeds} networks, bands from the least to the largest. "
            "Dashed: floors for any weights. Predicting 0 has risk 1.",
            tables["risks"],
        )


def task_of(settings: Settings) -> TokenRegression:
    """The witness of both propositions, in the theory's scaled encoding."""
    return TokenRegression(
        settings.length,
        settings.dimension,
        CentredSquareLink(),
        sign_codes(settings.length, settings.code_dimension),
        settings.sparsity,
        index_law="null-half",
        token_law="half-null",
        scaled=True,
    )


@functools.partial(jax.jit, static_argnums=2)
def _null_half_errors(trial: Trial, params: dict[str, jax.Array], prompts: int) -> jax.Array:
    """(ŷ_i - y_i)²/2 of each test prompt, averaged over its positions i ≥ N/2; block by block, to spare memory."""
    task = trial.task
    assert isinstance(task, TokenRegression)
    raw = task.test(trial.key(VALIDATION), prompts)
    places = np.flatnonzero(task.in_null_half())

    def one_block(part: Any) -> jax.Array:
        x, _, truth, _ = task.decode(part)
        return jnp.mean((trial.model.predict(params, x) - truth)[:, places] ** 2, axis=1) / 2

    size = next(size for size in range(min(BLOCK, prompts), 0, -1) if prompts % size == 0)
    blocks = jax.tree.map(lambda leaf: leaf.reshape(-1, size, *leaf.shape[1:]), raw)
    return jax.lax.map(one_block, blocks).reshape(-1)
