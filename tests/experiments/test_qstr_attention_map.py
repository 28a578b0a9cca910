"""Figure 2's experiment on maps whose scores are known."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import polars as pl
import pytest
from krogh.lab.claim import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED

from krogh.errors import KroghError
from krogh.experiments.qstr.attention_map import AttentionMap, Settings, judge, mapped, scores_of, task_of
from krogh.lab import Results, figures, run_study

SMALL = {"length": 6, "dimension": 3, "samples": 64, "networks": 3, "validation": 32, "prompts": 16, "epochs": 1}
GOOD = {"block_energy": 0.99, "diagonal": 35.0, "diagonal_dominance": 6.0, "error": 0.04, "retrieval_mean": 0.8}


def scores(law: str = "shared", networks: int = 5, **changes: float) -> pl.DataFrame:
    row: dict[str, Any] = {"index_law": law, **GOOD, **changes}
    wobble = 1 + 0.01 * (np.arange(networks) - (networks - 1) / 2)
    return pl.DataFrame([{k: v if isinstance(v, str) else v * factor for k, v in row.items()} for factor in wobble])


def verdicts(table: pl.DataFrame, **changes: Any) -> dict[str, str]:
    return {found.name: found.verdict for found in judge(Settings(index_laws=("shared",), **changes), table)}


class Planted(Results[Settings]):
    """Results whose networks all have the same given weights."""

    def __init__(self, settings: Settings, params: dict[str, np.ndarray]):
        ids = np.concatenate([cohort.ids() for cohort in AttentionMap().trials(settings)])
        table = pl.DataFrame({"id": ids, "seed": np.arange(len(ids)), "error": 0.03, "steps": 7})
        super().__init__(table, settings, "smoke")
        self.params = params

    def weights(self, identity: int) -> dict[str, np.ndarray]:
        return self.params


def planted(alpha: float, transposed: bool = False, **changes: Any) -> Planted:
    """Networks whose map is α·I in the block of index rows and position columns, or in the transposed block."""
    settings = AttentionMap().settings("smoke", SMALL | {"index_laws": ("shared",)} | changes)
    trial = AttentionMap().trials(settings)[0].template
    shapes = jax.eval_shape(lambda: trial.initial_params())
    params = {name: np.zeros(leaf.shape, np.float32) for name, leaf in shapes.items()}
    task = task_of(settings, "shared")
    d, size = task.dimension, task.code_dimension
    Q, K = np.zeros_like(params["Q"]), np.zeros_like(params["K"])
    rows, columns = (d, d + size) if transposed else (d + size, d)
    place = np.arange(size)
    Q[place, rows + place] = alpha
    K[place, columns + place] = 1.0
    return Planted(settings, params | {"Q": Q, "K": K})


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


def test_on_the_edge_or_with_two_networks_nothing_is_decided():
    assert verdicts(scores(diagonal_dominance=4.0))["diagonal-dominance-shared"] == INCONCLUSIVE
    assert set(verdicts(scores(networks=2)).values()) == {INCONCLUSIVE}


def test_sizes_are_compared_with_the_source_at_its_length_only():
    assert "size-shared" not in verdicts(scores(), length=30)


def test_laws_are_judged_apart():
    both = pl.concat([scores(), scores("independent", error=0.5)])
    found = {c.name: c.verdict for c in judge(Settings(), both)}
    assert found["learned-shared"] == REPRODUCED and found["learned-independent"] == NOT_REPRODUCED


# --- measurements -------------------------------------------------------------------------------------------


def test_a_planted_map_has_the_scores_of_the_construction():
    table = scores_of(planted(40.0))
    assert len(table) == 3
    assert table["block_energy"].to_numpy() == pytest.approx(1.0)
    assert table["diagonal"].to_numpy() == pytest.approx(40.0)
    assert table["largest_outside"].to_list() == [0.0] * 3 and table["error"].to_list() == [0.03] * 3


def test_retrieval_is_the_softmax_of_matching_codes():
    results = planted(25.0)
    task = task_of(results.settings, "shared")
    codes = np.asarray(task.codes, np.float64)
    logits = 25.0 * (codes @ codes.T) / np.sqrt(task.features)  # of index t (rows) and position j
    weights = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    trial = AttentionMap().trials(results.settings)[0][0]
    indices = np.asarray(trial.task.test(trial.key(2), results.settings.prompts).indices)[:, 0, 0]
    first = mapped(results)[0].scores
    assert first["retrieval_mean"] == pytest.approx(np.diag(weights)[indices].mean(), rel=1e-4)
    assert first["retrieval_least"] == pytest.approx(np.diag(weights)[indices].min(), rel=1e-4)


def test_the_transposed_block_does_not_count():
    table = scores_of(planted(40.0, transposed=True))
    assert table["block_energy"].to_list() == [0.0] * 3
    assert table["largest_outside"].to_numpy() == pytest.approx(40.0)


def test_figures_show_the_map_and_all_networks():
    results = planted(40.0)
    with figures.style():
        heat, entries = AttentionMap().figures(results)
    size = task_of(results.settings, "shared").features
    assert len(heat.data) == size**2 and len(entries.data) == 3
    shown = heat.data.sort("query_coordinate", "key_coordinate")["value"].to_numpy()
    assert np.allclose(shown.reshape(size, size), mapped(results)[0].matrix)
    for figure in (heat, entries):
        figure.drawing.draw_without_rendering()


# --- settings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"index_laws": ("null-half",)}, "index_laws must be one or both"),
        ({"index_laws": ("shared", "shared")}, "index_laws must be one or both"),
        ({"prompts": 100_000}, "prompts are the first of"),
        ({"networks": 0}, "networks must be"),
    ],
)
def test_bad_settings_are_refused(changes, words):
    experiment = AttentionMap()
    with pytest.raises(KroghError, match=words):
        experiment.trials(experiment.settings("smoke", changes))


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_every_scale_builds(scale):
    experiment = AttentionMap()
    settings = experiment.settings(scale)
    (first, *_) = experiment.trials(settings)
    stopping = first.template.training.stopping
    epochs = int(stopping.budget) * settings.batch_size / settings.samples
    assert epochs == pytest.approx(settings.epochs, rel=0.01) and len(first) == settings.networks
    assert float(first.template.training.optimiser.decay) == pytest.approx(0.2)


@pytest.mark.slow
def test_a_smoke_run(tmp_path):
    study = run_study(AttentionMap(), "smoke", tmp_path)
    assert study.status == "complete" and {c.verdict for c in study.claims} == {INCONCLUSIVE}
    assert (study.folder / "figures" / "attention-map.svg").exists()
