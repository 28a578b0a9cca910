"""Experiments on regular languages: what they train and measure, and their claims on planted tables."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

from krogh.engine import Trial
from krogh.errors import KroghError
from krogh.experiments.languages.common import (
    ARCHITECTURES,
    CLASSES,
    COLUMNS,
    SOLVABLE,
    algebra_table,
    lengthened,
    longer_task,
    names_of,
    over_languages,
    with_room,
)
from krogh.experiments.languages.learnability import Learnability
from krogh.experiments.languages.overview import CHOSEN, Overview, chosen_languages, difficulty
from krogh.experiments.languages.table import TABLE, LanguageTable
from krogh.lab import Tables, figures
from krogh.lab.alternative import alternative_text
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.models import CausalTransformer, Recurrent
from krogh.programs.automata import LANGUAGES
from krogh.tasks import RegularLanguage


def verdicts(experiment, settings, tables):
    return {claim.name: claim.verdict for claim in experiment.judge(Tables(settings, tables))}


# What is trained.


def test_languages_of_an_experiment_are_one_cohort_and_keep_their_names():
    """Also two that only differ by a symbol that one of them does not have."""
    own = chosen_languages()
    names = ("tomita-3", "(00)*", "parity", "ends with 1", "last of set and reset")
    rooms = dict(zip(names, with_room([own[name] for name in names]), strict=True))
    assert np.array_equal(rooms["ends with 1"].transitions, rooms["last of set and reset"].transitions)
    trial = Trial(RegularLanguage(rooms["parity"], 2, 6, "prefix"), Recurrent("tanh", 4, bidirectional=False))
    (cohort,) = over_languages(trial, rooms.values(), range(2))
    assert len(cohort) == 10
    fields = cohort.rows(np.arange(10))
    table = pl.DataFrame({name: fields[name] for name in COLUMNS})
    assert names_of(table, rooms) == [name for name in names for _ in range(2)]


def test_table_1_has_a_cohort_for_each_cell_and_place_of_the_grid_and_the_sources_sizes():
    experiment = LanguageTable()
    settings = experiment.settings("paper", {"cells": ("tanh",), "widths": (8,), "rates": (0.01,), "seeds": 1})
    cohorts = list(experiment.trials(settings))
    assert sum(len(cohort) for cohort in cohorts) == len(TABLE) == 14 and set(TABLE) == set(LANGUAGES)
    assert sorted(cohort[0].task.longest for cohort in cohorts) == [50, 100, 200, 500, 500]
    steps = {int(cohort[place].training.stopping.budget) for cohort in cohorts for place in range(len(cohort))}
    assert steps == {100, 200, 800, 400, 31_300}, "100 epochs of 25, 50, 250, 125 and 10,000 strings, 32 at a time"
    (asked,) = (cohort for cohort in cohorts if cohort[0].task.labeling == "prefix")
    assert len(asked) == 1, "(0101)* alone is asked for its prefixes although it has a dead state"


# What is measured.


def test_a_lengthened_transformer_says_the_same_of_short_words():
    model = ARCHITECTURES["transformer"].model(8)
    assert isinstance(model, CausalTransformer)
    short, long = RegularLanguage("parity", 1, 5), RegularLanguage("parity", 1, 10)
    random, shapes = np.random.default_rng(0), jax.eval_shape(lambda: model.init(jax.random.key(0), short))
    params = {name: random.normal(size=leaf.shape).astype(np.float32) for name, leaf in shapes.items()}
    x = random.integers(0, 2, (8, 5), np.int32)
    more = np.pad(x, ((0, 0), (0, 5)), constant_values=2)
    grown = lengthened(params, 10)
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), long))
    assert {name: leaf.shape for name, leaf in grown.items()} == {name: leaf.shape for name, leaf in shapes.items()}
    predict = jax.jit(model.predict, compiler_options={"xla_backend_optimization_level": 0})
    found, expected = predict(grown, jnp.asarray(more))[:, :5], predict(params, jnp.asarray(x))
    assert np.abs(found - expected).max() < 1e-3 * np.abs(expected).max()


def test_longer_words_are_those_between_half_the_factor_and_the_factor():
    task = RegularLanguage("parity", 1, 10)
    lengths = {factor: (longer_task(task, factor).shortest, longer_task(task, factor).longest) for factor in (1, 2, 4)}
    assert lengths == {1: (1, 10), 2: (11, 20), 4: (21, 40)}


def test_the_algebra_of_the_chosen_languages():
    """Groups and their sizes are known; a language of each kind is there at a size at which others are, too."""
    found = {row["language"]: row for row in algebra_table(chosen_languages()).iter_rows(named=True)}
    assert tuple(found) == CHOSEN and len(found) == 30
    sizes = {"S_3, point": (3, 6), "S_3, word problem": (6, 6), "S_4, point": (4, 24), "A_5, point": (5, 60),
             "S_5, point": (5, 120), "A_5, word problem": (60, 60), "1s divisible by 5": (5, 5)}  # fmt: skip
    for name, (states, monoid) in sizes.items():
        assert (found[name]["states"], found[name]["monoid"], found[name]["group"]) == (states, monoid, True)
    assert {name for name, row in found.items() if not row["solvable"]} == {
        "A_5, point",
        "S_5, point",
        "A_5, word problem",
    }
    assert [
        found[name]["star_free"] for name in ("brackets-4", "tomita-7", "ends with 1", "last of set and reset")
    ] == [True] * 4
    assert not any(found[name]["star_free"] for name in ("parity", "(00)*", "(0101)*", "even length, ends with 1"))
    assert found["1s divisible by 5"]["commutative"] and not found["S_3, point"]["commutative"]
    small = [CLASSES.index(row["algebra"]) for row in found.values() if row["states"] <= 6]
    assert all(small.count(place) >= 2 for place in range(3))


def test_permutations_multiply_in_the_order_of_reading():
    languages = chosen_languages()
    swap, turn = (1, 0, 2), (1, 2, 0)
    for word in itertools.product((0, 1), repeat=5):
        point, whole = 0, [0, 1, 2]
        for symbol in word:
            point = (swap, turn)[symbol][point]
            whole = [(swap, turn)[symbol][q] for q in whole]
        text = "".join(map(str, word))
        assert languages["S_3, point"].accepts(text) == (point == 0)
        assert languages["S_3, word problem"].accepts(text) == (whole == [0, 1, 2])


# Claims.


def best(right: dict[tuple[str, str], int], test: int = 500) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {"language": name, "cell": cell, "width": 32, "rate": 0.01, "overlap": 0.0, "right": hits, "test": test,
             "accuracy": hits / test}
            for (name, cell), hits in right.items()
        ]
    )  # fmt: skip


def test_claims_of_the_table():
    experiment = LanguageTable()
    settings = experiment.settings("laptop")
    found = verdicts(
        experiment,
        settings,
        {
            "best": best(
                {("parity", "relu"): 500, ("parity", "tanh"): 300, ("tomita-7", "relu"): 130, ("tomita-2", "lstm"): 496}
            )
        },
    )
    assert found == {
        "parity-relu": REPRODUCED,
        "parity-tanh": NOT_REPRODUCED,
        "tomita-2-lstm": INCONCLUSIVE,
    }, "the source's own failure is not required"
    few = experiment.settings("laptop", {"most_train": 200})
    found = verdicts(experiment, few, {"best": best({("parity", "tanh"): 500, ("tomita-2", "tanh"): 500})})
    assert found == {"parity-tanh": INCONCLUSIVE, "tomita-2-tanh": REPRODUCED}, "its 25 strings are all there are"


def learnability_tables(steps: list[int | None], enough: int, long: float) -> dict[str, pl.DataFrame]:
    runs = [
        {"language": "(00)*", "network": "gru", "part": "steps", "seed": seed, "m": None,
         "outcome": "failed" if time is None else "converged", "convergence_time": time}
        for seed, time in enumerate(steps)
    ] + [
        {"language": "(00)*", "network": "gru", "part": "samples", "seed": seed, "m": m,
         "outcome": "converged" if m >= enough else "failed", "convergence_time": None}
        for m in (32, 128, 512, 2_048)
        for seed in range(10)
    ]  # fmt: skip
    lengths = [
        {"language": "(00)*", "network": "gru", "seed": seed, "converged": time is not None, "factor": factor,
         "words": 1.0 if factor == 1 else long, "answers": 1.0}
        for seed, time in enumerate(steps)
        for factor in (1, 2, 4)
    ]  # fmt: skip
    return {"runs": pl.DataFrame(runs), "lengths": pl.DataFrame(lengths)}


def test_claims_of_learnability():
    experiment = Learnability()
    settings = experiment.settings("laptop", {"language": "(00)*", "architectures": ("gru",), "seeds": 12})
    good = verdicts(experiment, settings, learnability_tables([100] * 12, 100, 1.0))
    assert set(good.values()) == {REPRODUCED} and len(good) == 4
    bad = verdicts(experiment, settings, learnability_tables([None] * 10 + [20, 20], 10_000, 0.1))
    assert bad["(00)*-gru-learns"] == bad["(00)*-gru-samples"] == NOT_REPRODUCED
    assert bad["(00)*-gru-2-times"] == INCONCLUSIVE, "of two networks a median has no interval"
    short = verdicts(experiment, settings, learnability_tables([100] * 12, 100, 0.5))
    assert short["(00)*-gru-4-times"] == NOT_REPRODUCED and short["(00)*-gru-learns"] == REPRODUCED


def overview_tables(settings, steps) -> dict[str, pl.DataFrame]:
    """Every language with a number of steps that is a function of its algebra; ∞ is never."""
    algebra = algebra_table(settings.automata())
    runs, lengths = [], []
    for row in algebra.iter_rows(named=True):
        time = steps(row)
        for seed in range(3):
            known = {"language": row["language"], "network": "gru", "seed": seed}
            done = math.isfinite(time)
            runs.append(
                known | {"outcome": "converged" if done else "failed", "convergence_time": int(time) if done else None}
            )
            lengths.append(known | {"converged": done, "factor": 4, "words": 1 / (1 + CLASSES.index(row["algebra"]))})
    return {"algebra": algebra, "runs": pl.DataFrame(runs), "lengths": pl.DataFrame(lengths)}


def test_claims_of_the_overview():
    experiment = Overview()
    settings = experiment.settings("laptop", {"architectures": ("gru",)})
    by_class = overview_tables(settings, lambda row: (100, 500, math.inf)[CLASSES.index(row["algebra"])])
    found = verdicts(experiment, settings, by_class)
    assert found["gru-class"] == found["gru-class-of-small"] == found["gru-longer"] == REPRODUCED
    rows = difficulty(Tables(settings, by_class), "gru")
    assert len(rows) == 30 and math.isinf(rows.filter(language="A_5, point")["steps"].item())
    backwards = overview_tables(settings, lambda row: (900, 500, 20)[CLASSES.index(row["algebra"])])
    assert verdicts(experiment, settings, backwards)["gru-class"] == NOT_REPRODUCED
    by_size = verdicts(experiment, settings, overview_tables(settings, lambda row: 20 * row["states"]))
    assert by_size["gru-states"] == REPRODUCED
    few = experiment.settings("laptop", {"architectures": ("gru",), "languages": CHOSEN[:12]})
    tables = overview_tables(few, lambda row: 20 * row["states"])
    assert set(verdicts(experiment, few, tables).values()) == {INCONCLUSIVE}


def test_figures_of_the_overview_invent_no_time():
    experiment = Overview()
    settings = experiment.settings("laptop", {"architectures": ("gru",), "languages": CHOSEN[:12]})
    planted = overview_tables(settings, lambda row: math.inf if row["algebra"] == SOLVABLE else 100)
    with figures.style():
        overview, ranking = experiment.figures(Tables(settings, planted))
    for figure, column, data in ((overview, "steps", overview.data), (ranking, "x", ranking.data)):
        assert set(data[column]) == {100, math.inf}
        assert f"never within {settings.budget:,} steps" in figure.alt
        assert f"{2 * settings.budget:,}" not in alternative_text(figure).replace(",", "")
    (legend,) = [ax.get_legend() for ax in overview.drawing.axes if ax.get_legend()]
    shown = set(planted["algebra"]["algebra"])
    assert {text.get_text() for text in legend.get_texts()} == shown


# Bad input.


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"language": "(00"}, "column 1: this group is not closed"),
        ({"language": "0101"}, "length generalisation needs an infinite language; '0101' is finite"),
        ({"language": "tomita-8"}, "unknown language 'tomita-8'; did you mean"),
        ({"language": "no/such.yaml"}, "no/such.yaml"),
        ({"language": "no/such.txt"}, "no file 'no/such.txt' with a list of languages"),
        ({"language": "(0|1)*"}, "lies outside the language"),
        ({"language": "(0{30})*", "longest": 20}, "no word of the language"),
        ({"architectures": ("grue",)}, "unknown architecture 'grue'; did you mean 'gru'"),
        ({"budget": 30}, "multiple of 20"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_trained(changes, words):
    with pytest.raises(KroghError, match=words):
        Learnability().settings("laptop", changes)
