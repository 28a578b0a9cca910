"""Figure 2's experiment on maps whose scores are known."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import polars as pl
import pytest
from planted import drawn, planted_tables
from planted import verdicts as verdicts_of

from krogh.errors import KroghError
from krogh.experiments.qstr.attention_map import AttentionMap, Settings, spread_places
from krogh.experiments.qstr.common import retrieval
from krogh.lab import Tables
from krogh.lab.claims import NOT_REPRODUCED, REPRODUCED

SMALL = {"length": 6, "dimension": 3, "samples": 64, "networks": 3, "validation": 32, "prompts": 16, "epochs": 1}
GOOD = {"block_energy": 0.99, "diagonal": 35.0, "diagonal_dominance": 6.0, "error": 0.04, "retrieval_mean": 0.8}


def scores(law: str = "shared", networks: int = 5, **changes: float) -> pl.DataFrame:
    row: dict[str, Any] = {"index_law": law, **GOOD, **changes}
    wobble = 1 + 0.01 * (np.arange(networks) - (networks - 1) / 2)
    return pl.DataFrame([{k: v if isinstance(v, str) else v * factor for k, v in row.items()} for factor in wobble])


def verdicts(table: pl.DataFrame, **changes: Any) -> dict[str, str]:
    return verdicts_of(AttentionMap(), Tables(Settings(**changes), {"scores": table}))


def planted(alpha: float, transposed: bool = False, diverged: int = 0) -> Tables[Settings]:
    """Networks whose map is α·I in the block of index rows and position columns, or in the transposed block."""
    settings = AttentionMap().settings("smoke", SMALL | {"index_laws": ("shared",)})
    trial = next(iter(AttentionMap().trials(settings))).template
    shapes = jax.eval_shape(lambda: trial.initial_params())
    params = {name: np.zeros(leaf.shape, np.float32) for name, leaf in shapes.items()}
    task = trial.task
    d, size = task.dimension, task.code_dimension
    Q, K = np.zeros_like(params["Q"]), np.zeros_like(params["K"])
    rows, columns = (d, d + size) if transposed else (d + size, d)
    place = np.arange(size)
    Q[place, rows + place] = alpha
    K[place, columns + place] = 1.0

    def weights(trial: Any) -> dict[str, np.ndarray] | None:
        return params | {"Q": Q, "K": K} if int(trial.seed) >= diverged else None

    return planted_tables(AttentionMap(), settings, weights, error=0.03, steps=7)


# --- verdicts -----------------------------------------------------------------------------------------------


def test_maps_like_the_sources_are_reproduced():
    assert set(verdicts(scores()).values()) == {REPRODUCED} and len(verdicts(scores())) == 4


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("block-energy-shared", {"block_energy": 0.7}),
        ("diagonal-dominance-shared", {"diagonal_dominance": 2.0}),
        ("learned-shared", {"error": 0.3}),
        ("size-shared", {"diagonal": 12.0}),
        ("size-shared", {"diagonal": 90.0}),
    ],
)
def test_each_criterion_can_fail_alone(claim, change):
    found = verdicts(scores(**change))
    assert found.pop(claim) == NOT_REPRODUCED and set(found.values()) == {REPRODUCED}


def test_sizes_are_compared_with_the_source_at_its_length_only():
    assert "size-shared" not in verdicts(scores(), length=30)


def test_laws_are_judged_apart():
    found = verdicts(pl.concat([scores(), scores("independent", error=0.5)]))
    assert found["learned-shared"] == REPRODUCED and found["learned-independent"] == NOT_REPRODUCED


# --- measurements -------------------------------------------------------------------------------------------


def test_a_planted_map_has_the_scores_of_the_construction():
    table = planted(40.0)["scores"]
    assert len(table) == 3
    assert table["block_energy"].to_numpy() == pytest.approx(1.0)
    assert table["diagonal"].to_numpy() == pytest.approx(40.0)
    assert table["largest_outside"].to_list() == [0.0] * 3 and table["error"].to_list() == [0.03] * 3


def test_retrieval_is_the_softmax_of_matching_codes():
    tables = planted(25.0)
    settings = tables.settings
    task = retrieval(settings.length, settings.dimension, "shared")
    codes = np.asarray(task.codes, np.float64)
    logits = 25.0 * (codes @ codes.T) / np.sqrt(task.features)  # of index t (rows) and position j
    weights = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    trial = next(iter(AttentionMap().trials(settings)))[0]
    indices = np.asarray(trial.task.test(trial.key(2), settings.prompts).indices)[:, 0, 0]
    first = tables["scores"].row(0, named=True)
    assert first["retrieval_mean"] == pytest.approx(np.diag(weights)[indices].mean(), rel=1e-4)
    assert first["retrieval_least"] == pytest.approx(np.diag(weights)[indices].min(), rel=1e-4)


def test_the_transposed_block_does_not_count():
    table = planted(40.0, transposed=True)["scores"]
    assert table["block_energy"].to_list() == [0.0] * 3
    assert table["largest_outside"].to_numpy() == pytest.approx(40.0)


def test_a_network_that_diverged_counts_as_the_worst_and_is_not_drawn():
    tables = planted(40.0, diverged=1)
    table = tables["scores"]
    assert table["block_energy"].to_list() == pytest.approx([0.0, 1.0, 1.0]) and table["error"][0] == np.inf
    assert REPRODUCED not in {claim.verdict for claim in AttentionMap().judge(tables)}
    assert tables["maps"]["value"].max() == pytest.approx(40.0)


def test_figures_show_the_map_and_all_networks():
    tables = planted(40.0)
    heat, entries = drawn(AttentionMap(), tables).values()
    settings = tables.settings
    size = retrieval(settings.length, settings.dimension, "shared").features
    assert len(heat) == size**2 and len(entries) == 3
    shown = heat.sort("query_coordinate", "key_coordinate")["value"].to_numpy().reshape(size, size)
    assert np.count_nonzero(shown) == (size - 3) // 2 and shown.max() == pytest.approx(40.0)


def test_dots_are_spread_within_their_width_and_all_differ():
    places = spread_places(50, 0.4)
    assert np.abs(places).max() <= 0.2 and len(np.unique(places)) == 50


def test_attention_is_looked_at_on_test_prompts():
    with pytest.raises(KroghError, match="prompts are the first of"):
        AttentionMap().settings("smoke", {"prompts": 100_000})


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_training_makes_the_epochs_asked_for(scale):
    experiment = AttentionMap()
    settings = experiment.settings(scale)
    training = next(iter(experiment.trials(settings))).template.training
    epochs = int(training.stopping.budget) * settings.batch_size / settings.samples
    assert epochs == pytest.approx(settings.epochs, rel=0.01)
    assert float(training.optimiser.decay) == pytest.approx(0.2)
