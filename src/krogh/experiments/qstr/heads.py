"""Propositions 3 and 21: with fewer heads than relevant tokens, no one-layer Transformer represents the task.

Tokens of the second half are null and ask for tokens 1..q, whose squared norms add up to the label. What a head shows
there is one weighted sum of the q tokens; where scores may read tokens, the weights depend on q more numbers per head.
What is left unseen is a floor of the risk, for any weights. Networks are trained here with H = 1, 2, ... heads.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from krogh.engine import Trial, Trials, sweep
from krogh.engine.trial import VALIDATION
from krogh.errors import require, require_integer
from krogh.experiments.qstr.networks import over_prompts, over_runs, scaled, trained_networks
from krogh.lab import Claim, Experiment, Figure, Results, claim, experiment, figures, setting
from krogh.models.merged_attention import MergedAttention
from krogh.tasks.codes import sign_codes
from krogh.tasks.links import CentredSquareLink
from krogh.tasks.token_regression import TokenRegression
from krogh.theory.predictions.token_limits import head_floor
from krogh.training import Adam, Stopping, Training
from krogh.training.regimes import Online

SOURCE = "qSTR paper, Propositions 3 and 21"
PROPOSED = "proposed; expected from Propositions 3 and 21"
ALLOWED = 0.98
"""A sampled risk may lie 2% below its floor."""
FEWEST = 3
BLOCK = 500
KINDS = {"free": "any attention", "separated": "no attention between tokens and codes"}


@dataclass(frozen=True)
class Settings:
    sparsity: int = setting(4, "relevant tokens, q")
    dimension: int = setting(8, "numbers per token, d")
    length: int = setting(16, "tokens per prompt, N")
    code_dimension: int = setting(13, "numbers per positional code, d_e")
    heads: tuple[int, ...] = setting((1, 2, 3, 4, 5, 6), "attention heads, H")
    attention: tuple[str, ...] = setting(("free", "separated"), "free, or without attention between tokens and codes")
    hidden: int = setting(256, "width of the network after attention")
    budget: int = setting(20_000, "steps, all of which are made")
    batch_size: int = setting(64, "fresh prompts per step")
    rate: float = setting(1e-3, "Adam's learning rate")
    seeds: int = setting(3, "networks per number of heads")
    prompts: int = setting(100_000, "test prompts on which the null half's risk is measured")


@experiment("qstr/heads")
class Heads(Experiment[Settings]):
    """The risk of trained Transformers against their number of heads, beside its floors."""

    title = "A Transformer needs as many heads as there are relevant tokens"
    question = "How small does the risk of a one-layer Transformer get when it has fewer heads than relevant tokens?"
    source = SOURCE
    scales = {
        "smoke": Settings(
            sparsity=2,
            dimension=3,
            length=6,
            code_dimension=4,
            heads=(2,),
            attention=("separated",),
            hidden=16,
            budget=50,
            seeds=2,
            prompts=200,
        ),
        "laptop": Settings(
            sparsity=3,
            dimension=6,
            length=8,
            code_dimension=10,
            heads=(1, 2, 3),
            budget=2_000,
            rate=3e-3,
            seeds=3,
            prompts=50_000,
        ),
        "paper": Settings(),
    }
    notes = (
        "Proposed with the theory; its criteria were not calibrated on a run.",
        "Every network makes all of its steps: the error 0 is never reached, so that every trial counts as failed.",
        "The risk is that of positions i ≥ N/2 divided by 2, of which the propositions speak; predicting 0 has risk 1.",
        "Proposition 3's printed floor ends at H = qd/(q+d); its proof gives (1-H/q)(1-H/d), drawn and tested too.",
    )
    keep_weights = True

    def trials(self, settings: Settings) -> list[Trials]:
        heads, kinds = settings.heads, settings.attention
        rising = len(heads) >= 1 and all(low < high for low, high in itertools.pairwise(heads))
        require(rising, f"heads must be increasing numbers; got heads={heads}")
        known = len(set(kinds)) == len(kinds) >= 1 and set(kinds) <= set(KINDS)
        require(known, f"attention must be one or both of {', '.join(KINDS)}; got attention={kinds}")
        for name in ("seeds", "prompts"):
            require_integer(name, getattr(settings, name), 1)
        every = max(step for step in (500, 100, 50, 10, 1) if settings.budget % step == 0)
        stopping = Stopping(
            budget=settings.budget, error=0.0, check_every=every, validation=min(settings.prompts, 1000)
        )
        training = Training(Adam(settings.rate), Online(settings.batch_size), stopping, "square")
        task = task_of(settings)
        return [
            cohort
            for kind, count in itertools.product(kinds, heads)
            for cohort in sweep(
                Trial(task, MergedAttention(count, settings.hidden, kind == "separated"), training),
                seed=range(settings.seeds),
            )
        ]

    def claims(self, results: Results[Settings]) -> list[Claim]:
        return judge(results.settings, risks(results))

    def figures(self, results: Results[Settings]) -> list[Figure]:
        return [_figure(results.settings, risks(results))]


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


# --- what is measured -----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def risks(results: Results[Settings]) -> pl.DataFrame:
    """One row per network: its risk on the null half, halved, the deviation between prompts, and the floors."""
    settings, rows = results.settings, []
    for trial, row, params in trained_networks(Heads(), results):
        assert isinstance(trial.model, MergedAttention)
        sizes = np.asarray(_null_half_risk(trial, params, settings.prompts), np.float64)
        floors = head_floor(settings.sparsity, settings.dimension, trial.model.heads)
        rows.append(
            {
                "attention": "separated" if trial.model.frozen_data_blocks else "free",
                "heads": trial.model.heads,
                "seed": int(row["seed"]),
                "risk": float(sizes.mean()),
                "deviation": float(sizes.std(ddof=1)) if len(sizes) > 1 else 0.0,
                "error": float(row["error"]),
                "floor": floors["floor"],
                "floor_sharper": floors["floor_sharper"],
                "floor_separated": floors["floor_separated"],
            }
        )
    return pl.DataFrame(rows)


@functools.partial(jax.jit, static_argnums=2)
def _null_half_risk(trial: Trial, params: dict[str, jax.Array], prompts: int) -> jax.Array:
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


def judge(settings: Settings, table: pl.DataFrame) -> list[Claim]:
    """What a table of risks shows."""
    found = []
    if "free" in settings.attention:
        found += [
            _above_floor("floor", "floor", "1 - H(q+d)/(qd)", "free", settings, table),
            _above_floor("floor-sharper", "floor_sharper", "(1 - H/q)(1 - H/d)", "free", settings, table),
        ]
    if "separated" in settings.attention:
        found.append(_above_floor("floor-separated", "floor_separated", "1 - H/q", "separated", settings, table))
    for kind in settings.attention:
        found += _by_heads(kind, settings, table.filter(attention=kind))
    return found


def _above_floor(name: str, column: str, words: str, kind: str, settings: Settings, table: pl.DataFrame) -> Claim:
    bounded = table.filter(attention=kind).filter(pl.col(column) > 0).sort(pl.col("risk") / pl.col(column))
    shared: dict[str, Any] = {
        "source": SOURCE,
        "statistic": f"least over networks of risk / ({words})",
        "at_least": ALLOWED,
        "source_value": f"≥ {words}, for any weights",
        "trials": len(bounded),
    }
    statement = f"With {KINDS[kind]}, no network's risk is below {words} (a sampling error of 2% is allowed)."
    if not len(bounded):
        none = f"the floor {words} is 0 at every H of heads={settings.heads}"
        return claim(name, statement, interval=over_runs([0.0]), enough=False, too_small=none, **shared)
    least = bounded.row(0, named=True)
    interval = over_prompts(least["risk"], least["deviation"], settings.prompts)
    return claim(
        name,
        statement,
        interval=scaled(interval, 1 / least[column]),
        enough=settings.seeds >= FEWEST,
        too_small=f"{settings.seeds} networks per H; a verdict needs {FEWEST}",
        **shared,
    )


def _by_heads(kind: str, settings: Settings, table: pl.DataFrame) -> list[Claim]:
    q = settings.sparsity
    by_heads = {
        heads: table.filter(heads=heads).sort("seed")["risk"].to_numpy() for heads in settings.heads if heads <= q
    }
    drops = [over_runs(by_heads[low] - by_heads[high]) for low, high in itertools.pairwise(by_heads)]
    shared: dict[str, Any] = {
        "source": PROPOSED,
        "trials": len(table),
        "enough": settings.seeds >= FEWEST and {1, q} <= set(by_heads),
        "too_small": f"needs {FEWEST} networks per H, with H = 1 and H = q = {q} among heads={settings.heads}",
    }
    nothing = over_runs([0.0])
    both = {1, q} <= set(by_heads) and q > 1
    return [
        claim(
            f"decreasing-{kind}",
            f"With {KINDS[kind]}, every further head lowers the risk, up to H = q = {q}.",
            statistic="least difference of risk between neighbouring H ≤ q, mean over seeds",
            interval=min(drops, key=lambda drop: drop.low) if drops else nothing,
            above=0.0,
            source_value="expected to decrease",
            **shared,
        ),
        claim(
            f"enough-heads-{kind}",
            f"With {KINDS[kind]}, H = q = {q} heads at least halve the risk of one head; what is left is the two-layer "
            "network's error in computing squared norms.",
            statistic="risk(H=q) / risk(H=1), mean over seeds",
            interval=over_runs(by_heads[q] / by_heads[1]) if both else nothing,
            at_most=0.5,
            source_value="expected ≤ 0.5",
            **shared,
        ),
    ]


# --- how it looks ---------------------------------------------------------------------------------------------


def _figure(settings: Settings, table: pl.DataFrame) -> Figure:
    kinds = settings.attention
    fig, axes = figures.new_figure(
        "Fewer heads than relevant tokens leave a risk that no training removes",
        width=1.0 + 3.9 * len(kinds),
        height=4.0,
        ncols=len(kinds),
        sharey=True,
    )
    q, d = settings.sparsity, settings.dimension
    counts = np.arange(1, max(max(settings.heads), q) + 1)
    floors = [head_floor(q, d, int(count)) for count in counts]
    lines = {
        "free": (("floor", "1 - H(q+d)/(qd)", figures.MUTED), ("floor_sharper", "(1-H/q)(1-H/d)", figures.GREEN)),
        "separated": (("floor_separated", "1 - H/q", figures.VERMILLION),),
    }
    for ax, kind in zip(np.atleast_1d(axes), kinds, strict=True):
        for column, words, color in lines[kind]:
            ax.plot(counts, [floor[column] for floor in floors], "--", color=color, linewidth=1.3, label=words)
        own = table.filter(attention=kind)
        means = {heads: over_runs(own.filter(heads=heads)["risk"].to_numpy()) for heads in settings.heads}
        spread = {heads: own.filter(heads=heads)["risk"] for heads in settings.heads}
        figures.interval_band(
            ax,
            list(settings.heads),
            [float(risks.min()) for risks in spread.values()],  # type: ignore[arg-type]
            [mean.value for mean in means.values()],
            [float(risks.max()) for risks in spread.values()],  # type: ignore[arg-type]
            color=figures.BLUE,
            label="trained",
        )
        ax.set_xticks(counts)
        ax.set_xlabel("heads H")
        figures.panel_title(ax, KINDS[kind])
        figures.legend(ax, loc="upper right")
    first = np.atleast_1d(axes)[0]
    first.set_ylabel("risk on positions i ≥ N/2, halved")
    first.set_ylim(bottom=0)
    figures.source_note(fig, SOURCE)
    caption = (
        f"q = {q} relevant tokens of dimension {d} among N = {settings.length}; MergedAttention with {settings.hidden} "
        f"hidden neurons, {settings.budget:,} steps of Adam on fresh batches of {settings.batch_size}. Means over "
        f"{settings.seeds} networks, bands from the least to the largest. Dashed: floors for any weights. Predicting 0 "
        "has risk 1."
    )
    return Figure("heads", "Risk against the number of heads", caption, fig, table)
