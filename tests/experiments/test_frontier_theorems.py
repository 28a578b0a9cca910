"""The demonstrations of chapter 6's theorems: claims follow what is planted, and hold where the theorem does."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import polars as pl
import pytest
from planted import verdicts as verdicts_by

from krogh.errors import KroghError
from krogh.experiments.frontiers import good_neurons, invisible_parities, over_sparse, under_sparse
from krogh.experiments.frontiers.neurons import BLIND, GoodNeuron, NeuronSettings, recovery_table, sample_complexities
from krogh.lab import Results, Tables
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.lab.experiment import measured_tables
from krogh.registry import EXPERIMENTS
from krogh.theory.boolean.fourier import heaviside, population_gradient
from krogh.theory.boolean.invisible import invisible_parities as predicted


def settings_of(name: str, scale: str = "smoke", **changes: Any) -> Any:
    return EXPERIMENTS[name]().settings(scale, changes)


@functools.cache
def measured(name: str, settings: Any) -> Tables[Any]:
    return measured_tables(EXPERIMENTS[name](), Results(pl.DataFrame(), settings))


def verdicts(name: str, tables: Tables[Any]) -> dict[str, str]:
    return verdicts_by(EXPERIMENTS[name](), tables)


def recoveries(neurons: dict[GoodNeuron, float], trials: int = 100, largest: int = 10**6) -> pl.DataFrame:
    """Success from m* on, as a table; an infinite m* is never reached."""
    rows = []
    for neuron, star in neurons.items():
        for m in (int(20 * 2 ** (step / 2)) for step in range(40)):
            if m > largest or not (star / 8 < m < 8 * star or np.isinf(star)):
                continue
            hits = round(trials / (1 + (star / m) ** 4))
            cell = {"kind": neuron.kind, "n": neuron.n, "k": neuron.k, "s": neuron.s, "signal": neuron.signal}
            rows.append({**cell, "m": m, "successes": hits, "trials": trials})
    return pl.DataFrame(rows)


BAD = [
    ("frontiers/invisible-parities", {"k": 9}, "needs n >= k coordinates; got n=8, k=9"),
    ("frontiers/invisible-parities", {"n": 30}, "n must be at least 2 and at most 18; got n=30"),
    ("frontiers/over-sparse", {"two": (4, 7)}, "s must be odd; got s=4"),
    ("frontiers/over-sparse", {"four": (5, 13)}, "s must be an integer between 1 and 12; got s=13"),
    ("frontiers/over-sparse", {"four": (3, 9)}, "needs s > k ones in a row; got s=3, k=4"),
    ("frontiers/over-sparse", {"width": 21}, "width must be even; got width=21"),
    ("frontiers/over-sparse", {"offsets": (0.9,)}, "offsets must be at most 0.75 and above 0"),
    ("frontiers/under-sparse", {"k": 5}, "k must be even; got k=5"),
    ("frontiers/under-sparse", {"s": 4}, "needs s < k ones in a row; got s=4, k=4"),
    ("frontiers/under-sparse", {"ns": (7, 11)}, "only for n > 2k - 1; got n=7, k=4"),
    ("frontiers/good-neurons", {"under": (0, 3)}, "s must be even for an under-sparse start; got s=3"),
]


@pytest.mark.parametrize(("name", "changes", "words"), BAD)
def test_conditions_that_are_violated_are_named(name, changes, words):
    with pytest.raises(KroghError, match=words):
        settings_of(name, **changes)


# --- neurons --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("neuron", [GoodNeuron("over", 11, 4, 9), GoodNeuron("under", 11, 4, 2)])
def test_a_good_neuron_has_the_gradient_that_it_says(neuron):
    gradient = population_gradient(neuron.weights, range(neuron.k), heaviside)
    assert gradient[neuron.k - 1] == pytest.approx(neuron.signal)


def test_sample_complexities_of_a_table():
    stars = {GoodNeuron("over", 40, 2, 5): 150.0, GoodNeuron("over", 40, 2, 9): np.inf}
    found = sample_complexities(recoveries(stars))
    assert list(found) == list(stars)
    assert found[GoodNeuron("over", 40, 2, 5)].contains(150.0) and found[GoodNeuron("over", 40, 2, 9)].censored


def test_recoveries_are_counted_and_blind_neurons_looked_at_once():
    settings = NeuronSettings(smallest=20, largest=2000, trials=20)
    blind, seeing = GoodNeuron("over", 12, 4, 5), GoodNeuron("over", 12, 2, 5)
    table = recovery_table([blind, seeing], settings)
    assert table.filter(k=4).select("m", "successes").rows() == [(min(BLIND, 2000), 0)]
    assert table.filter(k=2)["successes"].to_list()[-1] == 20
    star = sample_complexities(table)[seeing]
    assert 60 < star.value < 250, "about 4 to 5 over C²"


# --- invisible parities ---------------------------------------------------------------------------------------


def test_invisible_parities_hold_and_a_wrong_bound_is_noticed():
    tables = measured("frontiers/invisible-parities", settings_of("frontiers/invisible-parities"))
    assert set(verdicts("frontiers/invisible-parities", tables).values()) == {REPRODUCED}
    shares = tables["shares"].with_columns(invisible=pl.lit(0.1))
    worse = Tables(tables.settings, {**tables, "shares": shares})
    found = verdicts("frontiers/invisible-parities", worse)
    assert found["bound"] == found["bound-slack"] == NOT_REPRODUCED


def test_the_share_is_that_of_the_prediction():
    settings = settings_of("frontiers/invisible-parities")
    row = measured("frontiers/invisible-parities", settings)["shares"].row(1, named=True)
    numbers = predicted(settings.n, settings.k, row["tolerance"], settings.steps, settings.rate, seed=0)
    assert row["invisible"] == numbers["invisible"] and row["at_least"] == numbers["at_least"]
    paths = measured("frontiers/invisible-parities", settings)["trajectories"]
    assert paths["invisible"].to_list().count(True) == paths["invisible"].to_list().count(False) == 2
    assert paths.filter(~pl.col("invisible"))["distance"].min() > invisible_parities.EXACT


# --- over-sparse ----------------------------------------------------------------------------------------------


def over_tables(power: float, blind: float = np.inf, dead: float = 1.0, error: float = 0.002) -> Tables[Any]:
    """m* = 5/C² times (s/9)^power, and networks of a given error."""
    settings = settings_of("frontiers/over-sparse", "laptop")
    stars = {
        neuron: blind if neuron.s < 2 * neuron.k else 5 / neuron.signal**2 * (neuron.s / 9) ** power
        for neuron in over_sparse.neurons_of(settings)
    }
    networks, trials = [], []
    for offset in settings.offsets:
        for m in settings.samples:
            for seed in range(settings.seeds):
                place = len(networks)
                cell = {"id": place, "offset": offset, "m": m, "seed": seed}
                networks.append({**cell, "good": 15, "dead": dead, "feature_error": 0.05})
                own = error * (10 if offset < 0.1 else 1) * (1 + 0.01 * seed)
                trials.append({"phase": "read-out", "offset": offset, "start.parent": place, "error": own})
    table = recoveries(stars, largest=settings.largest)
    return Tables(settings, {"recoveries": table, "networks": pl.DataFrame(networks), "trials": pl.DataFrame(trials)})


def test_over_sparse_claims_follow_what_is_planted():
    found = verdicts("frontiers/over-sparse", over_tables(0.0))
    assert {name for name in found if found[name] != REPRODUCED} == {"slope-k4"}, "1/C² itself has slope 3.4 up to 17"
    steep = verdicts("frontiers/over-sparse", over_tables(2.0))
    assert steep["constant-k2"] == steep["slope-k2"] == NOT_REPRODUCED
    seen = verdicts("frontiers/over-sparse", over_tables(0.0, blind=1000.0))
    assert seen["blind-k4-s5"] == NOT_REPRODUCED
    bad = verdicts("frontiers/over-sparse", over_tables(0.0, dead=0.8, error=0.05))
    assert bad["learns"] == bad["dead-0-625"] == bad["dead-0-0625"] == NOT_REPRODUCED


def test_the_two_phases_share_their_data_and_move_one_layer_each():
    settings = settings_of("frontiers/over-sparse")
    parent = over_sparse.network(settings, 5 / 8, 300, seed=3)
    child = over_sparse.read_out(settings, parent)
    assert int(child.seed) == int(parent.seed) == 3 and int(child.training.regime.m) == settings.rows
    assert set(parent.training.frozen) == {"b", "u", "c"} and set(child.training.frozen) == {"W", "b"}
    assert child.start.parent is parent
    optimiser = parent.training.optimiser
    assert float(optimiser.layer_decay["W"]) == 1.0 and float(optimiser.layer_rate["W"]) > 1


# --- under-sparse ---------------------------------------------------------------------------------------------


def under_tables(saving: float, correlation: float = 0.9) -> Tables[Any]:
    """m* of a sparse neuron 5/ξ², of a dense one n^saving times that."""
    settings = settings_of("frontiers/under-sparse", "laptop")
    sparse = {n: GoodNeuron("under", n, 4, 2) for n in settings.ns}
    stars = {neuron: 5 / neuron.signal**2 for neuron in sparse.values()}
    stars |= {GoodNeuron("under", n, 4, 0): n**saving * stars[sparse[n]] for n in settings.ns}
    rows = [
        {"m": m, "trial": trial, "correlation": correlation, "wrong": 0.0 if correlation > 0.6 else 0.2}
        for m in settings.samples
        for trial in range(settings.steps)
    ]
    return Tables(settings, {"recoveries": recoveries(stars, largest=10**8), "subnetworks": pl.DataFrame(rows)})


def test_under_sparse_claims_follow_what_is_planted():
    found = verdicts("frontiers/under-sparse", under_tables(2.0))
    assert {found[name] for name in found if name.startswith("saves")} == {REPRODUCED}
    assert found["order"] == found["constant-sparse"] == found["correlation"] == found["exact"] == REPRODUCED
    little = verdicts("frontiers/under-sparse", under_tables(0.5, correlation=0.3))
    assert {little[name] for name in little if name.startswith("saves")} == {NOT_REPRODUCED}
    assert little["order"] == little["correlation"] == little["exact"] == NOT_REPRODUCED


def test_a_dense_neuron_that_never_succeeds_bounds_the_saving_from_below():
    tables = under_tables(2.0)
    never = pl.when(pl.col("s") == 0).then(0).otherwise(pl.col("successes"))
    table = tables["recoveries"].with_columns(successes=never)
    found = verdicts("frontiers/under-sparse", Tables(tables.settings, {**tables, "recoveries": table}))
    assert found["saves-n11"] == found["saves-n41"] == REPRODUCED and found["order"] == INCONCLUSIVE


def test_subnetworks_approach_the_written_network_as_samples_grow():
    settings = settings_of("frontiers/under-sparse", bits=9, samples=(300, 100_000), steps=4)
    rows = pl.DataFrame(under_sparse._subnetworks(settings))
    few, many = (rows.filter(m=m)["correlation"].to_numpy() for m in settings.samples)
    assert many.min() > 0.9 > np.median(few)


# --- good neurons ---------------------------------------------------------------------------------------------


def luck_tables(falling: bool, lucky: int = 195) -> Tables[Any]:
    settings = settings_of("frontiers/good-neurons", "laptop")
    neurons = good_neurons.neurons_of(settings)
    rows = [
        {**{name: getattr(neuron, name) for name in ("kind", "n", "k", "s")}, "width": width, "probability": 0.1}
        | {"lucky": lucky, "starts": 200}
        for neuron, width in zip(neurons, (4000, 2000, 1000, 500, 30, 900), strict=True)
    ]
    stars = dict(
        zip(neurons, (100, 200, 400, 800, 9000, 300) if falling else (800, 400, 200, 100, 300, 9000), strict=True)
    )
    return Tables(settings, {"recoveries": recoveries(stars), "luck": pl.DataFrame(rows)})


def test_the_trade_is_seen_and_its_opposite_too():
    found = verdicts("frontiers/good-neurons", luck_tables(True))
    assert set(found.values()) == {REPRODUCED}
    opposite = verdicts("frontiers/good-neurons", luck_tables(False, lucky=150))
    assert set(opposite.values()) == {NOT_REPRODUCED}


def test_luck_is_counted_on_starts():
    settings = settings_of("frontiers/good-neurons", starts=50)
    row = good_neurons._luck(settings, GoodNeuron("over", 12, 2, 5))
    assert row["starts"] == 50 and 40 <= row["lucky"] <= 50
    assert row["width"] % 2 == 0
