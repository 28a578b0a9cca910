"""Phases are read off distances: nearest strategy, order, transition, plateau, and what was never reached."""

import math

import numpy as np
import polars as pl
import pytest

from krogh.errors import KroghError
from krogh.lab.phases import (
    curve_table,
    midpoint,
    nearest_strategies,
    phase_order,
    phase_table,
    plateau_length,
    transition_time,
)


def curve(nearest, losses=None, step=10):
    """A curve whose nearest strategies are given by their letters: u(niform), n (unigram), b(igram)."""
    names = {"u": "uniform", "n": "unigram", "b": "bigram"}
    looks = len(nearest)
    made = {"step": step * np.arange(looks), "loss": np.linspace(1.0, 0.0, looks) if losses is None else losses}
    for letter, name in names.items():
        made[f"distance_{name}"] = np.array([0.1 if one == letter else 0.5 for one in nearest])
    return made | {f"baseline_{name}": np.full(looks, value) for name, value in
                   (("uniform", 1.0), ("unigram", 0.6), ("bigram", 0.2))}  # fmt: skip


def test_the_phase_is_the_nearest_strategy_and_of_equals_the_simpler():
    assert nearest_strategies(curve("uunb")) == ["uniform", "uniform", "unigram", "bigram"]
    tied = curve("nn") | {"distance_uniform": np.array([0.1, 0.5]), "distance_unigram": np.array([0.1, 0.1])}
    assert nearest_strategies(tied) == ["uniform", "unigram"]


def test_a_distance_that_is_no_number_is_the_farthest():
    odd = curve("bb") | {"distance_bigram": np.array([np.nan, 0.1])}
    assert nearest_strategies(odd) == ["uniform", "bigram"]


@pytest.mark.parametrize(
    ("nearest", "order"),
    [("uunnbb", "uniform unigram bigram"), ("unub", "uniform unigram uniform bigram"), ("n", "unigram")],
)
def test_phases_are_named_once_for_each_stretch(nearest, order):
    assert phase_order(nearest_strategies(curve(nearest))) == tuple(order.split())


def test_the_transition_is_the_first_look_below_the_midpoint():
    losses = np.array([1.0, 0.5, 0.4, 0.39, 0.5])
    assert midpoint(curve("u" * 5), "unigram", "bigram") == pytest.approx(0.4)
    assert transition_time(curve("u" * 5, losses), "unigram", "bigram") == 30  # 0.4 itself is not below
    assert transition_time(curve("u" * 5, losses + 1), "unigram", "bigram") == math.inf
    with pytest.raises(KroghError, match="trigram"):
        transition_time(curve("u"), "bigram", "trigram")


@pytest.mark.parametrize(
    ("nearest", "length"), [("unnb", 20), ("unbnb", 20), ("ubbb", 0), ("unnn", math.inf), ("unbbn", math.inf)]
)
def test_a_plateau_lasts_until_the_look_that_ends_it(nearest, length):
    assert plateau_length(10 * np.arange(len(nearest)), nearest_strategies(curve(nearest)), "unigram") == length


def test_tables_have_a_row_per_trial_and_a_row_per_look():
    rows = [
        {"k": 2, "seed": seed} | {f"curve.{name}": list(values) for name, values in curve(nearest).items()}
        for seed, nearest in enumerate(("unb", "unn"))
    ]
    table = pl.DataFrame(rows)
    phases = phase_table(table, "unigram", "bigram", labels=("k",), scale=64)
    assert phases["phases"].to_list() == ["uniform → unigram → bigram", "uniform → unigram"]
    assert phases["plateau"].to_list() == [640, math.inf]
    assert phases["transition"].to_list() == [1280, 1280]
    assert phases["horizon"].to_list() == [1280, 1280] and phases["baseline_bigram"].to_list() == [0.2, 0.2]
    looks = curve_table(table, ("loss", "distance_bigram"), labels=("k",), scale=64)
    assert looks.columns == ["k", "seed", "time", "loss", "distance_bigram"] and len(looks) == 6
    assert looks["time"].to_list() == 2 * [0, 640, 1280]


def test_without_distances_there_are_no_phases():
    with pytest.raises(KroghError, match="StrategyDistances"):
        nearest_strategies({"step": np.arange(3), "loss": np.zeros(3)})
