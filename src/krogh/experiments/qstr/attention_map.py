"""Figure 2: the query-key matrix of a trained Transformer is the one that the theory writes down.

One head is trained on 1STR and its map W_Qᵀ W_K looked at, coordinate by coordinate. A head that retrieves compares
the code of the index asked for (rows) with the codes of positions (columns): all of the map is in that block B, and the
block is a multiple of the identity, as in (A.2).
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
from krogh.errors import require
from krogh.experiments.qstr.common import MEANINGS, TASKS, retrieval, square_training
from krogh.lab import Claims, Experiment, Figure, Network, Results, Tables, experiment, figures, groups, need, setting
from krogh.lab.estimate import mean
from krogh.lab.experiment import Measures
from krogh.models import TokenAttention
from krogh.probes.attention import attention_map, map_scores, retrieval_weight
from krogh.tasks import TokenRegression, paper_dimension
from krogh.training import Adam, Offline

FEWEST = 3
SOURCE_LENGTH = 100
SOURCE_DIAGONAL = (25.0, 45.0)
"""The source's entries on the diagonal of B, read from its colour scale; those beside it are below 15."""
SOURCE_BESIDE = 15.0
LAW_NAMES = {law: f"{TASKS[law]} ({MEANINGS[law]})" for law in ("shared", "independent")}
WORST = {"error": math.inf, "block_energy": 0.0, "diagonal": 0.0, "off_diagonal": 0.0, "diagonal_dominance": 0.0,
         "largest_outside": math.inf, "retrieval_mean": 0.0, "retrieval_least": 0.0}  # fmt: skip
"""The scores of a network that diverged."""


@dataclass(frozen=True)
class Settings:
    length: int = setting(SOURCE_LENGTH, "tokens per prompt, N", least=2)
    dimension: int = setting(10, "numbers per token, d", least=1)
    samples: int = setting(50_000, "training prompts, drawn once", least=1)
    epochs: int = setting(20, "passes over them after which training ends", least=1)
    batch_size: int = setting(64, "prompts per step", least=1)
    rate: float = setting(1e-3, "AdamW's learning rate", above=0)
    decay: float = setting(0.2, "AdamW's weight decay", least=0)
    enough: float = setting(0.05, "test error at which training ends, looked at once per epoch", least=0)
    index_laws: tuple[str, ...] = setting(
        ("shared", "independent"), "the source's code, and its caption", distinct=True, among=LAW_NAMES
    )
    networks: int = setting(5, "networks per law, each with its own data", least=1)
    validation: int = setting(10_000, "test prompts", least=1)
    prompts: int = setting(200, "test prompts whose attention is looked at", least=1)

    @property
    def features(self) -> int:
        """Rows and columns of the map: token, code of the position, code of the index."""
        return self.dimension + 2 * paper_dimension(self.length)


@experiment("qstr/attention-map")
class AttentionMap(Experiment[Settings]):
    """The query-key matrix of a trained one-head Transformer."""

    title = "A trained head compares the index asked for with the positions' codes, and nothing else"
    question = "Is the attention that training finds the one that the theory constructs?"
    source = "qSTR paper, Figure 2"
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
        "The source's caption says 1STR (each position names its own token); its code trains on simple-1STR (all name "
        "one). The paper scale does both.",
        "The source ends at an epoch whose mean training loss is below 0.05; here the test error decides.",
        "The laptop scale is the reference's smaller setting: N = 30 and 20,000 prompts.",
    )
    keep_weights = True

    def check(self, settings: Settings) -> None:
        require(
            settings.prompts <= settings.validation,
            f"prompts are the first of validation={settings.validation}; got prompts={settings.prompts}",
        )

    def trials(self, settings: Settings) -> Iterator[Trials]:
        every = -(-settings.samples // settings.batch_size)
        training = square_training(
            Adam(settings.rate, decay=settings.decay),
            Offline(settings.samples, settings.batch_size),
            budget=every * settings.epochs,
            error=settings.enough,
            check_every=every,
            validation=settings.validation,
        )
        for law in settings.index_laws:
            trial = Trial(retrieval(settings.length, settings.dimension, law), TokenAttention(), training)
            yield from sweep(trial, seed=range(settings.networks), label={"index_law": law})

    def measure(self, results: Results[Settings]) -> Measures:
        """The scores of every network's map, and the map of the first network of each law, entry by entry."""
        scores, maps = [], {}
        for network in results.networks():
            law, head = network.row["index_law"], {"seed": network.seed, "steps": int(network.row["steps"])}
            if network.final is None:
                scores.append({"index_law": law, **head, **WORST})
                continue
            matrix = attention_map(network.final["Q"], network.final["K"])
            scores.append({"index_law": law, **head, **scores_of(network, matrix, results.settings.prompts)})
            if law not in maps:
                rows, columns = np.indices(matrix.shape)
                entries = {"query_coordinate": rows.ravel(), "key_coordinate": columns.ravel(), "value": matrix.ravel()}
                maps[law] = pl.DataFrame(entries).select(pl.lit(law).alias("index_law"), pl.all())
        return {"scores": pl.DataFrame(scores), "maps": pl.concat(maps.values()) if maps else pl.DataFrame()}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        settings = tables.settings
        for law, scores in groups(tables["scores"], "index_law").items():
            head, few = f"{LAW_NAMES[law]}, N = {settings.length}: ", need(len(scores), FEWEST, "networks")
            about = say.about(head=head, needs=[few])
            about(
                f"block-energy-{law}",
                "the map is the block that compares index codes with position codes "
                f"(mean attention to the right token at least {scores['retrieval_mean'].to_numpy().min():.3f}).",
                mean(scores["block_energy"], sample=law),
                "mean over networks of ‖B‖²/‖W_QᵀW_K‖²",
                at_least=0.9,
                source_value="entries outside the block near 0",
            )
            about(
                f"diagonal-dominance-{law}",
                "the block is close to a multiple of the identity.",
                mean(scores["diagonal_dominance"], sample=law),
                "mean over networks of mean|diagonal of B| / mean|rest of B|",
                at_least=4.0,
                source_value="diagonal 25 to 45, the rest below 15",
            )
            about(
                f"learned-{law}",
                "the network has learned the task (predicting 0 has error 1).",
                mean(scores["error"], sample=law),
                "mean over networks of the test error",
                at_most=0.1,
                source_value="training loss below 0.05",
            )
            if settings.length == SOURCE_LENGTH:
                middle, reach = sum(SOURCE_DIAGONAL) / 2, (SOURCE_DIAGONAL[1] - SOURCE_DIAGONAL[0]) / 2
                diagonals = scores["diagonal"].to_numpy()
                size = float(diagonals.mean())
                about(
                    f"size-{law}",
                    f"the diagonal is as large as the source's (mean {size:.3g}; as the α of (A.2), "
                    f"{size / math.sqrt(settings.features):.2g}).",
                    mean(np.abs(diagonals - middle), sample=law),
                    f"mean over networks of |mean|diagonal of B| - {middle:g}|",
                    at_most=reach,
                    source_value="25 to 45 (a factor 1/√D_e smaller in the scores: 4 to 6)",
                )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        if len(tables["maps"]):  # at least one network did not diverge
            size = tables.settings.features
            by_law = groups(tables["maps"], "index_law")
            maps = {law: rows["value"].to_numpy().reshape(size, size) for law, rows in by_law.items()}
            yield self._heat_map(tables, maps)
            yield self._entries(tables, maps)

    def _heat_map(self, tables: Tables[Settings], maps: dict[str, np.ndarray]) -> Figure:
        from matplotlib.colors import PowerNorm

        settings = tables.settings
        chart = self.chart(
            "attention-map",
            "The trained query-key matrix",
            headline="The trained query-key matrix is a diagonal block",
            columns=len(maps),
            width=0.8 + 4.4 * len(maps),
            height=4.6,
        )
        d, size = settings.dimension, paper_dimension(settings.length)
        edges = (d, d + size)
        centres = [(low + high - 1) / 2 for low, high in itertools.pairwise([0, *edges, d + 2 * size])]
        parts = ["token x", "position ω_i", "index ω_t"]
        for law, matrix in maps.items():
            ax = chart.panel(title=LAW_NAMES[law], x="key coordinate", y="query coordinate").ax
            entries = np.abs(matrix)
            ax.grid(False)
            shades = PowerNorm(2, 0, float(entries.max()))
            image = ax.imshow(entries, norm=shades, cmap="magma", interpolation="nearest")
            for edge in edges:
                for draw in (ax.axvline, ax.axhline):
                    draw(edge - 0.5, color="white", linewidth=0.8, linestyle=(0, (4, 3)))
            ax.set_xticks(centres, parts)
            ax.set_yticks(centres, parts, rotation=90, va="center")
            ax.tick_params(length=0)
            bar = chart.drawing.colorbar(image, ax=ax, shrink=0.85, label="|W_QᵀW_K| (colour ∝ its square)")
            bar.set_ticks([float(f"{entries.max() * math.sqrt(part):.2g}") for part in (0, 0.25, 0.5, 0.75)])
        return chart.figure(
            f"Absolute values of W_QᵀW_K of one network (the first) trained on {settings.samples:,} prompts of N = "
            f"{settings.length} tokens of dimension {d} with codes of dimension {size}, AdamW with weight decay "
            f"{settings.decay:g}. Dashed lines part tokens, position codes and index codes. The theory's (A.2) is zero "
            "but for a multiple of the identity in the block of index rows and position columns.",
            tables["maps"],
        )

    def _entries(self, tables: Tables[Settings], maps: dict[str, np.ndarray]) -> Figure:
        settings, by_law = tables.settings, groups(tables["scores"], "index_law")
        chart = self.chart(
            "attention-map-entries",
            "Entries of the map, and retrieval",
            headline="Entries of the map, and attention to the right token",
            columns=1 + len(maps),
            width=4.4 + 3.2 * len(maps),
            height=3.8,
            width_ratios=[1.3] * len(maps) + [1],
        )
        d, size = settings.dimension, paper_dimension(settings.length)
        in_block = np.zeros((d + 2 * size,) * 2, dtype=bool)
        in_block[d + size :, d : d + size] = True
        diagonal = np.zeros_like(in_block)
        diagonal[d + size + np.arange(size), d + np.arange(size)] = True
        parts = {"diagonal of B": diagonal, "rest of B": in_block & ~diagonal, "outside B": ~in_block}
        for law, matrix in maps.items():
            ax = chart.panel(title=LAW_NAMES[law], y="|entry of W_QᵀW_K|").ax
            for place, which in enumerate(parts.values()):
                values, across = np.abs(matrix)[which], place + spread_places(int(which.sum()))
                ax.scatter(across, values, s=6, alpha=0.35, color=figures.BLUE, linewidths=0)
                ax.plot([place - 0.33, place + 0.33], [values.mean()] * 2, color=figures.INK, linewidth=1.6)
            if settings.length == SOURCE_LENGTH:
                ax.fill_between([-0.4, 0.4], *SOURCE_DIAGONAL, color=figures.MUTED, alpha=0.15, linewidth=0)
                ax.fill_between([0.6, 1.4], 0, SOURCE_BESIDE, color=figures.MUTED, alpha=0.15, linewidth=0)
            ax.set_xticks(range(3), list(parts))
        panel = chart.panel(title=f"all {settings.networks} networks", y="attention to the right token")
        panel.axes(xlim=(-0.6, len(maps) - 0.4), ylim=(-0.03, 1.03))
        columns = {"retrieval_mean": "mean over positions", "retrieval_least": "the least"}
        for offset, (column, words), color in zip((-0.12, 0.12), columns.items(), figures.PALETTE, strict=False):
            places = [place + offset for place, law in enumerate(maps) for _ in range(len(by_law[law]))]
            panel.dots(places, np.concatenate([by_law[law][column] for law in maps]), words, color=color)
        panel.ax.set_xticks(range(len(maps)), [TASKS[law] for law in maps])
        panel.legend(loc="lower left")
        grey = " Grey: the range of the source's entries." if settings.length == SOURCE_LENGTH else ""
        return chart.figure(
            "Left: absolute entries of one network's map, and their means (bars), on the diagonal of the block B of "
            f"index rows and position columns, in the rest of it and outside.{grey} Right: attention that a position "
            f"pays to the token it asks for, mean and least over {settings.prompts} test prompts; one dot per network.",
            tables["scores"],
        )


def scores_of(network: Network, matrix: np.ndarray, prompts: int) -> dict[str, float]:
    """Test error, scores of the map, and attention to the right token."""
    task = network.trial.task
    assert isinstance(task, TokenRegression) and network.final is not None
    weights, indices = _test_attention(network.trial, network.final, prompts)
    targets = np.broadcast_to(np.asarray(indices)[:, :, 0], (prompts, task.length))
    right = retrieval_weight(np.asarray(weights)[:, 0], targets)
    return {
        "error": float(network.row["error"]),
        **map_scores(matrix, task.dimension, task.code_dimension)._asdict(),
        "retrieval_mean": right.mean,
        "retrieval_least": right.least,
    }


@functools.partial(jax.jit, static_argnums=2)
def _test_attention(trial: Trial, params: dict[str, Any], prompts: int) -> tuple[jax.Array, jax.Array]:
    """Attention [prompts, 1, N, N] of test prompts, and the indices that they ask for."""
    assert isinstance(trial.task, TokenRegression) and isinstance(trial.model, TokenAttention)
    raw = trial.task.test(trial.key(VALIDATION), prompts)
    return trial.model.probabilities(params, trial.task.decode(raw).x), jnp.asarray(raw.indices)


def spread_places(count: int, width: float = 0.5) -> np.ndarray:
    """Places beside each other, about 0, for dots that would hide one another: the golden ratio's sequence."""
    return width * ((0.5 + np.arange(count) * 0.618033988749895) % 1 - 0.5)
