"""Figure 2: the query-key matrix of a trained Transformer is the one that the theory writes down.

One head is trained on 1STR and its map W_Qᵀ W_K looked at, coordinate by coordinate. A head that retrieves compares
the code of the index asked for (rows) with the codes of positions (columns): all of the map is in that block B, and the
block is a multiple of the identity, as in (A.2).
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

from krogh.engine import Trial, Trials, sweep
from krogh.engine.trial import VALIDATION
from krogh.errors import require, require_integer
from krogh.experiments.qstr.networks import over_runs, spread_places, trained_networks
from krogh.lab import Claim, Experiment, Figure, Results, claim, experiment, figures, setting
from krogh.models.token_attention import TokenAttention
from krogh.tasks.codes import paper_dimension, sign_codes
from krogh.tasks.links import LinearLink, unit_vector
from krogh.tasks.token_regression import TokenRegression
from krogh.theory.attention_map import attention_map, map_scores, retrieval_weight
from krogh.training import Adam, Stopping, Training
from krogh.training.regimes import Offline

SOURCE = "qSTR paper, Figure 2"
FEWEST = 3
SOURCE_LENGTH = 100
SOURCE_DIAGONAL = (25.0, 45.0)
"""The source's entries on the diagonal of B, read from its colour scale; those beside it are below 15."""
SOURCE_BESIDE = 15.0
LAW_NAMES = {"shared": "simple-1STR (one index per prompt)", "independent": "1STR (an index per position)"}


@dataclass(frozen=True)
class Settings:
    length: int = setting(SOURCE_LENGTH, "tokens per prompt, N")
    dimension: int = setting(10, "numbers per token, d")
    samples: int = setting(50_000, "training prompts, drawn once")
    epochs: int = setting(20, "passes over them after which training ends")
    batch_size: int = setting(64, "prompts per step")
    rate: float = setting(1e-3, "AdamW's learning rate")
    decay: float = setting(0.2, "AdamW's weight decay")
    enough: float = setting(0.05, "test error at which training ends, looked at once per epoch")
    index_laws: tuple[str, ...] = setting(("shared", "independent"), "the source's code, and its caption")
    networks: int = setting(5, "networks per law, each with its own data")
    validation: int = setting(10_000, "test prompts")
    prompts: int = setting(200, "test prompts whose attention is looked at")


@experiment("qstr/attention-map")
class AttentionMap(Experiment[Settings]):
    """The query-key matrix of a trained one-head Transformer."""

    title = "A trained head compares the index asked for with the positions' codes, and nothing else"
    question = "Is the attention that training finds the one that the theory constructs?"
    source = SOURCE
    scales = {
        "smoke": Settings(
            length=5, dimension=3, samples=128, epochs=2, index_laws=("shared",), networks=2, validation=64, prompts=8
        ),
        "laptop": Settings(
            length=30, samples=20_000, epochs=10, index_laws=("shared",), networks=3, validation=2_000, prompts=100
        ),
        "paper": Settings(),
    }
    notes = (
        "The source's caption says 1STR; its code trains on simple-1STR. The paper scale does both.",
        "The source ends at an epoch whose mean training loss is below 0.05; here the test error decides.",
        "The laptop scale is the reference's smaller setting: N = 30 and 20,000 prompts.",
    )
    keep_weights = True

    def trials(self, settings: Settings) -> list[Trials]:
        for name in ("networks", "prompts", "epochs", "samples"):
            require_integer(name, getattr(settings, name), 1)
        laws = settings.index_laws
        known = len(set(laws)) == len(laws) >= 1 and set(laws) <= set(LAW_NAMES)
        require(known, f"index_laws must be one or both of {', '.join(LAW_NAMES)}; got {laws}")
        require(
            settings.prompts <= settings.validation,
            f"prompts are the first of validation={settings.validation}; got prompts={settings.prompts}",
        )
        every = -(-settings.samples // settings.batch_size)
        stopping = Stopping(
            budget=every * settings.epochs, error=settings.enough, check_every=every, validation=settings.validation
        )
        optimiser = Adam(settings.rate, decay=settings.decay)
        training = Training(optimiser, Offline(settings.samples, settings.batch_size), stopping, "square")
        return [
            cohort
            for law in laws
            for cohort in sweep(
                Trial(task_of(settings, law), TokenAttention(), training), seed=range(settings.networks)
            )
        ]

    def claims(self, results: Results[Settings]) -> list[Claim]:
        return judge(results.settings, scores_of(results))

    def figures(self, results: Results[Settings]) -> list[Figure]:
        shown = {network.law: network for network in reversed(mapped(results))}  # the first of each law
        return [_heat_map(results.settings, shown), _entries(results.settings, shown, scores_of(results))]


def task_of(settings: Settings, law: str) -> TokenRegression:
    """1STR with ⌊5 ln N⌋ signs per code, one u for all networks."""
    codes = sign_codes(settings.length, paper_dimension(settings.length))
    link = LinearLink(unit_vector(settings.dimension))
    return TokenRegression(settings.length, settings.dimension, link, codes, index_law=law)


# --- what is measured -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mapped:
    """A trained network's map [features, features], and its row of scores."""

    law: str
    matrix: np.ndarray
    scores: dict[str, Any]


@functools.lru_cache(maxsize=4)
def mapped(results: Results[Settings]) -> list[Mapped]:
    """The map of every trained network."""
    found = []
    for trial, row, params in trained_networks(AttentionMap(), results):
        assert isinstance(trial.task, TokenRegression)
        task, prompts = trial.task, results.settings.prompts
        matrix = attention_map(np.asarray(params["Q"]), np.asarray(params["K"]))
        weights, indices = _looked_at(trial, params, prompts)
        wanted = np.broadcast_to(np.asarray(indices)[:, :, 0], (prompts, task.length))
        right = retrieval_weight(np.asarray(weights)[:, 0], wanted)
        scores = {
            "index_law": task.index_law,
            "seed": int(row["seed"]),
            "error": float(row["error"]),
            "steps": int(row["steps"]),
            **map_scores(matrix, task.dimension, task.code_dimension)._asdict(),
            "retrieval_mean": right.mean,
            "retrieval_least": right.least,
        }
        found.append(Mapped(task.index_law, matrix, scores))
    return found


@functools.partial(jax.jit, static_argnums=2)
def _looked_at(trial: Trial, params: dict[str, jax.Array], prompts: int) -> tuple[jax.Array, jax.Array]:
    """Attention [prompts, 1, N, N] of test prompts, and the indices that they ask for."""
    assert isinstance(trial.task, TokenRegression) and isinstance(trial.model, TokenAttention)
    raw = trial.task.test(trial.key(VALIDATION), prompts)
    return trial.model.probabilities(params, trial.task.decode(raw).x), jnp.asarray(raw.indices)


def scores_of(results: Results[Settings]) -> pl.DataFrame:
    """One row per network."""
    return pl.DataFrame([network.scores for network in mapped(results)])


def judge(settings: Settings, scores: pl.DataFrame) -> list[Claim]:
    """The source's criteria on a table of scores."""
    return [found for law in settings.index_laws for found in _claims_of(settings, law, scores.filter(index_law=law))]


def _claims_of(settings: Settings, law: str, scores: pl.DataFrame) -> list[Claim]:
    trained = f"{LAW_NAMES[law]}, N = {settings.length}: "
    few = f"{len(scores)} networks; a verdict needs {FEWEST}"
    shared: dict[str, Any] = {
        "source": SOURCE,
        "trials": len(scores),
        "too_small": few,
        "enough": len(scores) >= FEWEST,
    }
    right = f"{np.min(scores['retrieval_mean'].to_numpy()):.3f}"
    found = [
        claim(
            f"block-energy-{law}",
            trained + "the map is the block that compares index codes with position codes "
            f"(mean attention to the right token at least {right}).",
            statistic="mean over networks of ‖B‖²/‖W_QᵀW_K‖²",
            interval=over_runs(scores["block_energy"].to_numpy()),
            at_least=0.9,
            source_value="entries outside the block near 0",
            **shared,
        ),
        claim(
            f"diagonal-dominance-{law}",
            trained + "the block is close to a multiple of the identity.",
            statistic="mean over networks of mean|diagonal of B| / mean|rest of B|",
            interval=over_runs(scores["diagonal_dominance"].to_numpy()),
            at_least=4.0,
            source_value="diagonal 25 to 45, the rest below 15",
            **shared,
        ),
        claim(
            f"learned-{law}",
            trained + "the network has learned the task (predicting 0 has error 1).",
            statistic="mean over networks of the test error",
            interval=over_runs(scores["error"].to_numpy()),
            at_most=0.1,
            source_value="training loss below 0.05",
            **shared,
        ),
    ]
    if settings.length == SOURCE_LENGTH:
        middle, reach = sum(SOURCE_DIAGONAL) / 2, (SOURCE_DIAGONAL[1] - SOURCE_DIAGONAL[0]) / 2
        diagonals = scores["diagonal"].to_numpy()
        size = float(diagonals.mean())
        found.append(
            claim(
                f"size-{law}",
                trained + "the diagonal is as large as the source's "
                f"(mean {size:.3g}; as the α of (A.2), {size / math.sqrt(task_of(settings, law).features):.2g}).",
                statistic=f"mean over networks of |mean|diagonal of B| - {middle:g}|",
                interval=over_runs(np.abs(diagonals - middle)),
                at_most=reach,
                source_value="25 to 45 (a factor 1/√D_e smaller in the scores: 4 to 6)",
                **shared,
            )
        )
    return found


# --- how it looks ---------------------------------------------------------------------------------------------


def _heat_map(settings: Settings, shown: dict[str, Mapped]) -> Figure:
    from matplotlib.colors import PowerNorm

    laws = [law for law in settings.index_laws if law in shown]
    fig, axes = figures.new_figure(
        "The trained query-key matrix is a diagonal block", width=0.8 + 4.4 * len(laws), height=4.6, ncols=len(laws)
    )
    d, size = settings.dimension, paper_dimension(settings.length)
    edges = (d, d + size)
    ends = [0, *edges, d + 2 * size]
    centres = [(low + high - 1) / 2 for low, high in itertools.pairwise(ends)]
    tables = []
    for ax, law in zip(np.atleast_1d(axes), laws, strict=True):
        matrix = np.abs(shown[law].matrix)
        ax.grid(False)
        image = ax.imshow(matrix, norm=PowerNorm(2, 0, float(matrix.max())), cmap="magma", interpolation="nearest")
        for edge in edges:
            ax.axvline(edge - 0.5, color="white", linewidth=0.8, linestyle=(0, (4, 3)))
            ax.axhline(edge - 0.5, color="white", linewidth=0.8, linestyle=(0, (4, 3)))
        ax.set_xticks(centres, ["token x", "position ω_i", "index ω_t"])
        ax.set_yticks(centres, ["token x", "position ω_i", "index ω_t"], rotation=90, va="center")
        ax.tick_params(length=0)
        ax.set_xlabel("key coordinate")
        ax.set_ylabel("query coordinate")
        figures.panel_title(ax, LAW_NAMES[law])
        bar = fig.colorbar(image, ax=ax, shrink=0.85, label="|W_QᵀW_K| (colour ∝ its square)")
        bar.set_ticks([float(f"{matrix.max() * math.sqrt(part):.2g}") for part in (0, 0.25, 0.5, 0.75)])
        rows, columns = np.indices(matrix.shape)
        tables.append(
            pl.DataFrame(
                {
                    "index_law": [law] * matrix.size,
                    "query_coordinate": rows.ravel(),
                    "key_coordinate": columns.ravel(),
                    "value": shown[law].matrix.ravel(),
                }
            )
        )
    figures.source_note(fig, SOURCE)
    caption = (
        f"Absolute values of W_QᵀW_K of one network (seed 0) trained on {settings.samples:,} prompts of N = "
        f"{settings.length} tokens of dimension {d} with codes of dimension {size}, AdamW with weight decay "
        f"{settings.decay:g}. Dashed lines part tokens, position codes and index codes. The theory's (A.2) is zero but "
        "for a multiple of the identity in the block of index rows and position columns."
    )
    return Figure("attention-map", "The trained query-key matrix", caption, fig, pl.concat(tables))


def _entries(settings: Settings, shown: dict[str, Mapped], scores: pl.DataFrame) -> Figure:
    laws = [law for law in settings.index_laws if law in shown]
    fig, axes = figures.new_figure(
        "Entries of the map, and attention to the right token", width=4.4 + 3.2 * len(laws), height=3.8,
        ncols=1 + len(laws), width_ratios=[1.3] * len(laws) + [1],
    )  # fmt: skip
    d, size = settings.dimension, paper_dimension(settings.length)
    in_block = np.zeros((d + 2 * size,) * 2, dtype=bool)
    in_block[d + size :, d : d + size] = True
    diagonal = np.zeros_like(in_block)
    diagonal[d + size + np.arange(size), d + np.arange(size)] = True
    parts = (("diagonal of B", diagonal), ("rest of B", in_block & ~diagonal), ("outside B", ~in_block))
    colors = (figures.BLUE, figures.VERMILLION, figures.GREEN)
    for ax, law in zip(axes, laws, strict=False):
        entries = np.abs(shown[law].matrix)
        for place, ((_, which), color) in enumerate(zip(parts, colors, strict=True)):
            values = entries[which]
            ax.scatter(place + spread_places(len(values)), values, s=6, alpha=0.35, color=color, linewidths=0)
            ax.plot([place - 0.33, place + 0.33], [values.mean()] * 2, color=figures.BLACK, linewidth=1.6)
        if settings.length == SOURCE_LENGTH:
            ax.fill_between([-0.4, 0.4], *SOURCE_DIAGONAL, color=figures.MUTED, alpha=0.15, linewidth=0)
            ax.fill_between([0.6, 1.4], 0, SOURCE_BESIDE, color=figures.MUTED, alpha=0.15, linewidth=0)
        ax.set_xticks(range(3), [name for name, _ in parts])
        ax.set_ylabel("|entry of W_QᵀW_K|")
        figures.panel_title(ax, LAW_NAMES[law])
    ax = axes[-1]
    for place, law in enumerate(laws):
        own = scores.filter(index_law=law)
        for column, color, words, offset in (
            ("retrieval_mean", figures.BLUE, "mean over positions", -0.12),
            ("retrieval_least", figures.VERMILLION, "the least", 0.12),
        ):
            ax.scatter(
                np.full(len(own), place + offset), own[column], s=22, color=color, alpha=0.7, linewidths=0,
                label=words if place == 0 else None,
            )  # fmt: skip
    ax.set_xticks(range(len(laws)), ["simple-1STR" if law == "shared" else "1STR" for law in laws])
    ax.set_xlim(-0.6, len(laws) - 0.4)
    ax.set_ylim(-0.03, 1.03)
    ax.set_ylabel("attention to the right token")
    figures.legend(ax, loc="lower left")
    figures.panel_title(ax, f"all {settings.networks} networks")
    figures.source_note(fig, SOURCE)
    grey = " Grey: the range of the source's entries." if settings.length == SOURCE_LENGTH else ""
    caption = (
        "Left: absolute entries of one network's map, and their means (bars), on the diagonal of the block B of index "
        f"rows and position columns, in the rest of it and outside.{grey} Right: attention that a position pays to the "
        f"token it asks for, mean and least over {settings.prompts} test prompts; one dot per network."
    )
    return Figure("attention-map-entries", "Entries of the map, and retrieval", caption, fig, scores)
