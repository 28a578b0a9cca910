"""Grids, gallery, width, noise, initialisation and plateaus of chapter 5, on tables whose law is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from planted import curve_steps, drawn, ended_trials, verdicts

import krogh.experiments.parity.gallery as gallery
from krogh.engine import Trial, Trials
from krogh.experiments.parity.activations import knots, values_of
from krogh.experiments.parity.batch_grid import scaling_of
from krogh.experiments.parity.grid import best_of, rates_of, share_of_cells, whose
from krogh.experiments.parity.no_plateau import GRID, over_time
from krogh.experiments.parity.noise import SAMPLES
from krogh.experiments.parity.width import box
from krogh.lab import Results, Tables
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.lab.experiment import measured_tables
from krogh.registry import EXPERIMENTS

INF = math.inf
TRAINED = [
    "parity/robust-grid",
    "parity/batch-grid",
    "parity/gallery",
    "parity/initialisation",
    "parity/width",
    "parity/noise",
    "parity/no-plateau",
]
Law = Callable[[Trial, np.random.Generator], float]


def tables_of(name: str, law: Law, plateau: Any = 0.5, scale: str = "paper", **changes: Any) -> Tables[Any]:
    """What an experiment would be shown if each trial converged at the time `law` gives it.

    A curve is at chance for the share `plateau` of its time, which may depend on the template, and at 0.1 afterwards.
    """
    experiment = EXPERIMENTS[f"parity/{name}"]()
    settings = experiment.settings(scale, changes)
    rng = np.random.default_rng(0)

    def ends(cohort: Trials) -> dict[str, np.ndarray]:
        times, budget = np.array([law(trial, rng) for trial in cohort]), int(cohort.template.training.stopping.budget)
        times = np.where(np.isfinite(times), 10 * np.ceil(times / 10), INF)
        end = {"time": times, "final": np.where(times <= budget, 0.0, 0.5)}
        if cohort.template.probes:
            share = plateau(cohort.template) if callable(plateau) else plateau
            leaves = share * np.where(times <= budget, times, INF)[:, None]
            end["error"] = np.where(curve_steps(cohort)[None, :] < leaves, 0.5, 0.1)
        return end

    table = ended_trials(list(experiment.trials(settings)), ends)
    return measured_tables(experiment, Results(table, settings, scale))


def decided(name: str, tables: Tables[Any], *, empty: bool = False) -> dict[str, str]:
    drawn(EXPERIMENTS[f"parity/{name}"](), tables, empty=empty)
    return verdicts(EXPERIMENTS[f"parity/{name}"](), tables)


def around(median: float, spread: float = 0.2) -> Law:
    return lambda trial, rng: median * rng.lognormal(0, spread)


def never(trial: Trial, rng: np.random.Generator) -> float:
    return INF


@pytest.mark.parametrize("name", [name.removeprefix("parity/") for name in TRAINED])
@pytest.mark.parametrize("law", [around(300), never])
def test_the_smoke_scale_decides_nothing_and_is_drawn(name, law):
    found = decided(name, tables_of(name, law, scale="smoke"), empty=law is never)
    assert set(found.values()) == {INCONCLUSIVE}


# --- grids --------------------------------------------------------------------------------------------------------

ROBUST: dict[str, Any] = {
    "ns": (10,),
    "ks": (3,),
    "batch_sizes": (4, 32),
    "configurations": ("ii", "xiv", "*i"),
    "initialisers": ("uniform", "gaussian"),
    "losses": ("hinge", "square"),
    "rates": (0.01, 0.1),
    "seeds": 25,
}


def rate_of(trial: Trial) -> float:
    return round(float(trial.training.optimiser.rate), 6)  # type: ignore[attr-defined]


def narrow(trial: Trial) -> bool:
    return getattr(trial.model, "width", 0) == 3


def one_rate_does(trial: Trial, rng: np.random.Generator) -> float:
    """Only rate 0.1 works; and networks of width k only in batches of 16 or more."""
    fails = rate_of(trial) != 0.1 or (narrow(trial) and trial.training.regime.batch_size < 16)  # type: ignore[attr-defined]
    return INF if fails else 500 * rng.lognormal(0, 0.2)


def test_a_grid_with_one_good_rate_in_every_cell_is_reproduced():
    found = decided("robust-grid", tables_of("robust-grid", one_rate_does, **ROBUST))
    axes = {f"{axis}" for axis in ("initialiser-uniform", "initialiser-gaussian", "loss-hinge", "loss-square")}
    expected = {"every", "most", "starred-every", "starred-most", "starred-need-batches"} | axes
    assert found == dict.fromkeys(expected, REPRODUCED)


def test_claims_name_the_architectures_that_were_trained():
    """The source's range only where all of it is there."""
    settings = EXPERIMENTS["parity/batch-grid"]().settings("laptop", {})
    assert whose(settings) == "(i)–(xv)"
    assert whose(replace(settings, configurations=("ii", "*i", "xv"))) == "(ii), (xv)"


def test_a_grid_where_one_loss_fails_is_not():
    def law(trial, rng):
        return INF if trial.training.loss == "square" else one_rate_does(trial, rng)

    found = decided("robust-grid", tables_of("robust-grid", law, **ROBUST))
    assert found["every"] == found["most"] == found["loss-square"] == NOT_REPRODUCED
    assert found["loss-hinge"] == REPRODUCED


def test_starred_networks_that_need_no_batches_are_noticed():
    def law(trial, rng):
        return 500.0 if narrow(trial) else one_rate_does(trial, rng)

    assert decided("robust-grid", tables_of("robust-grid", law, **ROBUST))["starred-need-batches"] == NOT_REPRODUCED


def test_five_of_twenty_five_at_every_rate_is_the_edge():
    found = tables_of("robust-grid", lambda trial, rng: 500.0 if int(trial.seed) < 5 else INF, **ROBUST)
    share = share_of_cells(found["rates"])
    assert share.value == 1.0 and share.low < 0.5
    assert decided("robust-grid", found)["every"] == INCONCLUSIVE


def test_the_best_rate_has_most_successes_and_then_the_fastest_tenth():
    def law(trial, rng):
        if trial.model.kind == "neuron":
            return 900.0 if rate_of(trial) == 0.01 else 700.0
        return 900.0 if rate_of(trial) == 0.01 else 100.0 if int(trial.seed) < 24 else INF

    tables = tables_of("robust-grid", law, **ROBUST)
    best = best_of(tables["rates"])
    assert len(best) == 3 * 2 * 4
    chosen = dict(best.select("configuration", "rate").unique().iter_rows())
    assert chosen == {"ii": 0.01, "xiv": 0.1, "*i": 0.01}
    assert rates_of(tables["trials"])["seeds"].unique().to_list() == [25]


BATCHES: dict[str, Any] = {
    "ns": (10, 20, 30),
    "ks": (2, 3),
    "batch_sizes": (4, 32),
    "configurations": ("i", "ii", "iv", "v", "xiv", "xv"),
    "rates": (0.1,),
    "seeds": 25,
}


@pytest.mark.slow
def test_times_that_are_powers_of_n_have_that_coarse_exponent():
    tables = tables_of("batch-grid", lambda trial, rng: 10.0 * (trial.task.n - 9) ** trial.task.k, **BATCHES)
    for k, alpha, c in scaling_of(tables["rates"]).select("k", "alpha", "c").iter_rows():
        assert c == 10.0 and alpha == pytest.approx(k)
    found = decided("batch-grid", tables)
    assert found == dict.fromkeys(
        ("every", "most", "nearly-all-seeds", "finite-exponents", "exponent-k2", "exponent-k3"), REPRODUCED
    )


def test_steep_or_missing_times_are_not_reproduced():
    def law(trial, rng):
        return INF if trial.task.k == 3 and trial.task.n == 30 else 10.0 * (trial.task.n - 9) ** 2.9

    tables = tables_of("batch-grid", law, **BATCHES)
    found = decided("batch-grid", tables)
    assert found["exponent-k2"] == found["finite-exponents"] == found["every"] == NOT_REPRODUCED
    assert found["exponent-k3"] == INCONCLUSIVE
    assert set(tables["scaling"].filter(k=3)["alpha"]) == {INF}


def test_seeds_that_often_fail_are_not_nearly_all():
    tables = tables_of("batch-grid", lambda trial, rng: 100.0 if int(trial.seed) % 4 else INF, **BATCHES)
    found = decided("batch-grid", tables)
    assert found["nearly-all-seeds"] == NOT_REPRODUCED and found["every"] == REPRODUCED


# --- the gallery --------------------------------------------------------------------------------------------------


SIZES = ((30, 3), (60, 3), (90, 3), (30, 4), (30, 5), (30, 6))


def test_the_gallery_has_the_sources_panels_and_orders_instances():
    assert len(gallery.PANELS) == 24
    assert {row: sum(panel.row == row for panel in gallery.PANELS.values()) for row in gallery.ROWS} == dict.fromkeys(
        gallery.ROWS, 6
    )
    small = {"panels": (*(f"relu-{n}-{k}" for n, k in SIZES), "polynet-16", "star-i-1"), "seeds": 8}
    small |= {"budget": 4000, "validation": 64}
    law = lambda trial, rng: 2.0 * trial.task.n * trial.task.k * rng.lognormal(0, 0.05)  # noqa: E731
    found = decided("gallery", tables_of("gallery", law, **small))
    assert {name for name in found if name.startswith("order")} == {f"order-{n}-{k}" for n, k in SIZES[1:]}
    assert set(found.values()) == {REPRODUCED}
    backwards = lambda trial, rng: 3000.0 - 20 * trial.task.n - 100 * trial.task.k  # noqa: E731
    found = decided("gallery", tables_of("gallery", backwards, **small))
    assert {found[name] for name in found if name.startswith("order")} == {NOT_REPRODUCED}


# --- initialisation -----------------------------------------------------------------------------------------------

CROSSED = {"configurations": ("i",), "starts": 20, "streams": 20}


def crossed(by_start: float, by_stream: float) -> Law:
    """log t_c is a sum of normal numbers of the start, of the stream, and of neither."""

    def law(trial, rng):
        start, stream = (
            np.random.default_rng([part, int(seed)]) for part, seed in ((1, trial.init_seed), (2, trial.seed))
        )
        return 2000 * math.exp(by_start * start.normal() + by_stream * stream.normal() + 0.1 * rng.normal())

    return law


@pytest.mark.parametrize(
    "law, start, stream",
    [(crossed(0.5, 0.0), REPRODUCED, REPRODUCED), (crossed(0.0, 0.5), NOT_REPRODUCED, NOT_REPRODUCED)],
)
def test_what_decides_the_time_is_told_apart(law, start, stream):
    found = decided("initialisation", tables_of("initialisation", law, **CROSSED))
    assert found["i-decided-by-the-start"] == found["i-decided-with-failures"] == start
    assert found["i-no-lucky-stream"] == stream


# --- width --------------------------------------------------------------------------------------------------------

WIDTHS = {"ns": (30,), "widths": (1, 2, 10, 30, 1000), "seeds": 100, "neurons": 100_000}


def test_times_that_stay_where_they_are_are_reproduced():
    def law(trial, rng):
        return 800 * rng.lognormal(0, 1.0 if trial.model.width <= 10 else 0.2)

    tables = tables_of("width", law, **WIDTHS)
    assert set(decided("width", tables).values()) == {REPRODUCED}
    assert tables["trials"].group_by("width").len().sort("width")["len"].to_list() == [100] * 5


def test_a_parallel_search_is_not():
    found = decided("width", tables_of("width", lambda t, rng: 3e5 / t.model.width * rng.lognormal(0, 0.3), **WIDTHS))
    assert found["n30-no-speed-up"] == found["n30-plateau"] == NOT_REPRODUCED
    assert found["n30-weak-1"] == NOT_REPRODUCED, "3·10⁵ steps are beyond the budget"
    assert found["n30-spread-shrinks"] == INCONCLUSIVE


def test_networks_of_fewer_than_k_neurons_are_asked_for_less_and_wide_ones_are_fewer():
    experiment = EXPERIMENTS["parity/width"]()
    rules = {}
    some = {"ns": (30,), "widths": (2, 3, 10, 30, 10_000, 3_000_000)}
    for cohort in experiment.trials(experiment.settings("paper", some)):
        stopping = cohort.template.training.stopping
        rules[cohort.labels["width"]] = (round(float(stopping.accuracy), 2), int(stopping.consecutive), len(cohort))
    assert rules[2] == (0.55, 10, 1000) and rules[3] == (1.0, 1, 1000)
    assert rules[10_000] == (1.0, 1, 300) and rules[3_000_000] == (1.0, 1, 16)


def test_a_box_counts_failures_as_late():
    shown = box(np.array([10.0, 20, 30, 40, 50, 60, 70, INF]))
    assert (shown["lower"], shown["median"], shown["upper"]) == (20.0, 40.0, 60.0)
    assert (shown["least"], shown["largest"], shown["failed"]) == (10.0, 70.0, 1 / 8)
    assert box(np.array([INF, INF]))["failed"] == 1.0
    assert box(np.array([10.0, INF, INF]))["median"] == INF


# --- noise --------------------------------------------------------------------------------------------------------

NOISES = {"n": 12, "noises": (0.0, 0.1, 0.3), "batch_sizes": (32,), "seeds": 30, "budget": 20_000, "systems": 200}


def test_noise_that_slows_down_is_reproduced():
    law = lambda trial, rng: 500 / (1 - 2 * float(trial.task.noise)) ** 2 * rng.lognormal(0, 0.1)  # noqa: E731
    tables = tables_of("noise", law, **NOISES)
    assert set(decided("noise", tables).values()) == {REPRODUCED}
    counts = dict(tables["elimination"].select("noise", "found").iter_rows())
    assert counts[0.0] == 200
    assert counts[0.3] <= 2, f"all {SAMPLES * 12} labels must be right by luck"


def test_noise_that_helps_or_stops_learning_is_not():
    found = decided("noise", tables_of("noise", lambda t, rng: 3000 * (1 - float(t.task.noise)) ** 4, **NOISES))
    assert found["b32-slower-0.1"] == found["b32-slower-0.3"] == NOT_REPRODUCED
    stopped = lambda trial, rng: INF if float(trial.task.noise) > 0.2 else 500.0  # noqa: E731
    found = decided("noise", tables_of("noise", stopped, **NOISES))
    assert found["b32-converges-0.3"] == found["b32-learns-0.3"] == NOT_REPRODUCED
    found = decided("noise", tables_of("noise", stopped, **NOISES | {"budget": 2_000}))
    assert found["b32-converges-0.3"] == found["b32-learns-0.3"] == INCONCLUSIVE, "too short to average the noise away"


# --- no plateau ---------------------------------------------------------------------------------------------------

PANELS = {"n": 12, "widths": (10, 300), "batch_sizes": (16, 256), "seeds": 12, "budget": 4000, "validation": 64}


def waiting(wide_power: float, other: float) -> Callable[[Trial], float]:
    def share(trial: Trial) -> float:
        wide = trial.model.width == 300 and trial.training.regime.batch_size == 256  # type: ignore[attr-defined]
        return wide_power if wide and trial.model.activation == "power" else other  # type: ignore[attr-defined]

    return share


def test_only_wide_power_networks_fall_at_once():
    tables = tables_of("no-plateau", around(1000), waiting(0.1, 0.8), **PANELS)
    assert set(decided("no-plateau", tables).values()) == {REPRODUCED}
    errors = over_time(tables["trials"].filter(activation="relu", width=10, batch_size=16))
    assert errors.shape == (12, len(GRID))
    assert (errors[:, GRID < 0.75] == 0.5).all() and np.allclose(errors[:, GRID > 0.85], 0.1)


@pytest.mark.slow
def test_plateaus_everywhere_or_nowhere_are_not_reproduced():
    found = decided("no-plateau", tables_of("no-plateau", around(1000), 0.8, **PANELS))
    assert found.pop("wide-relu-waits") == REPRODUCED
    assert found.pop("wide-power-falls-at-once") == NOT_REPRODUCED and set(found.values()) == {INCONCLUSIVE}
    found = decided("no-plateau", tables_of("no-plateau", around(1000), 0.1, **PANELS))
    assert found["wide-relu-waits"] == NOT_REPRODUCED and found["wide-power-falls-at-once"] == REPRODUCED


# --- activations --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_activations_are_judged_by_what_they_compute():
    experiment = EXPERIMENTS["parity/activations"]()
    settings = experiment.settings("smoke")
    tables = measured_tables(experiment, Results(pl.DataFrame(), settings, "smoke"))
    assert set(decided("activations", tables).values()) == {REPRODUCED}
    wrong = {
        name: tables[name] for name in ("trials", "knots", "neurons", "shapes") if name in tables and name != "trials"
    }
    wrong["knots"] = wrong["knots"].with_columns(value=-wrong["knots"]["value"])
    found = verdicts(experiment, Tables(settings, wrong))
    assert found["sine-knots"] == NOT_REPRODUCED and found["sine-is-the-parity"] == REPRODUCED


def test_activations_between_and_beyond_their_knots():
    z = np.array([0.5, 7.0])
    assert np.allclose(values_of("polynomial", 2, z), (z**2 - 2) / 2)
    assert np.allclose(values_of("polynomial", 3, z), (z**3 - 7 * z) / 6)
    assert np.allclose(values_of("sine", 2, z), -np.cos(np.pi * z / 2))
    assert np.allclose(values_of("zigzag", 2, np.array([0.0, 1.0, 2.0, 3.0])), [-1, 0, 1, 2])
    assert np.allclose(values_of("zigzag", 2, np.array([3.0]), "clamp"), [1.0])
    assert np.allclose(values_of("infinite-zigzag", 2, np.array([3.0, 4.0])), [0.0, -1.0])
    assert [row["z"] for row in knots("sine", 3)] == [3, 1, -1, -3]
    assert {row["printed"] for row in knots("sine", 3)} == {-1.0}
