"""Experiments on Markov chains, on tables whose law is known: each claim can be reproduced, and can fail."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from planted import verdicts

from krogh.engine import Trial, run_cohort, sweep
from krogh.errors import KroghError
from krogh.experiments.chains import attention, hazards, parts, phases, steps
from krogh.experiments.chains.architectures import Architectures
from krogh.experiments.chains.common import SMOKE, ChainSettings
from krogh.experiments.chains.curriculum import ChainCurriculum, even_remainder
from krogh.experiments.chains.minimal import Minimal
from krogh.experiments.chains.one_layer import CONTROL, OneLayer
from krogh.experiments.chains.plateau import Plateau
from krogh.experiments.chains.simplicity import Simplicity
from krogh.experiments.chains.symbols import Symbols
from krogh.experiments.chains.trigrams import Trigrams
from krogh.lab import Tables
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.models import CausalTransformer
from krogh.probes import StrategyDistances
from krogh.registry import EXPERIMENTS
from krogh.tasks import MarkovChains
from krogh.theory.chains.curriculum import limit_positions
from krogh.training import Adam, Online, Stopping, Training

SEEDS = 20
BASE = {"uniform": 0.28, "unigram": 0.17, "bigram": 0.03, "trigram": 0.01}


def rows(seeds: int = SEEDS, **columns: Any) -> list[dict[str, Any]]:
    """Trials of a phase table: learned by way of unigrams unless a column says otherwise (one value, or one a seed)."""
    usual = {
        "phases": "uniform → unigram → bigram",
        "last_phase": "bigram",
        "transition": 40_000.0,
        "plateau": 30_000.0,
        "horizon": 100_000.0,
        "first_loss": 0.28,
        "final_loss": 0.04,
        **{f"baseline_{name}": value for name, value in BASE.items()},
    }
    made = usual | columns
    return [
        {"seed": seed} | {name: given[seed] if isinstance(given, list) else given for name, given in made.items()}
        for seed in range(seeds)
    ]


def judged(name: str, changes: dict[str, Any] | None = None, **tables: list[dict[str, Any]]) -> dict[str, str]:
    experiment = EXPERIMENTS[name]()
    frames = {table: pl.DataFrame(given, infer_schema_length=None) for table, given in tables.items()}
    return verdicts(experiment, Tables(experiment.settings("laptop", changes), frames))


LEARNED = {"previous_token": 0.7, "induction": 0.9, "even_odd_before": 0.01, "fall_over_plateau": 0.3}


def test_phases_are_reproduced_where_they_are_there():
    found = judged("chains/phases", phases=rows(k=3, **LEARNED))
    assert set(found) >= {"k3-order", "k3-final", "k3-plateau", "k3-sudden", "k3-even-odd", "k3-previous-token"}
    assert set(found.values()) == {REPRODUCED}


def test_other_phases_no_drop_and_no_heads_are_not():
    other = {"phases": "uniform → bigram", "plateau": 0.0, "final_loss": 0.16, "transition": 2_000_000.0}
    heads = {"previous_token": 0.05, "induction": 0.4, "even_odd_before": math.nan, "fall_over_plateau": math.inf}
    found = judged("chains/phases", phases=rows(k=3, **other, **heads))
    assert set(found.values()) == {NOT_REPRODUCED}


def test_few_seeds_decide_nothing():
    assert set(judged("chains/phases", phases=rows(3, k=3, **LEARNED)).values()) == {INCONCLUSIVE}


def test_the_fall_is_timed_between_quarters():
    """Loss 0.17 (unigram) to 0.01: three quarters are left at 0.13, one quarter at 0.05."""
    loss = np.array([0.28, 0.17, 0.13, 0.1, 0.05, 0.01])
    curve = {"step": 100.0 * np.arange(6), "loss": loss, "baseline_unigram": np.full(6, 0.17)}
    assert phases._fall(curve) == 200.0
    at_once = {**curve, "loss": np.array([0.28, 0.17, 0.17, 0.17, 0.01, 0.01])}
    assert phases._fall(at_once) == 100.0  # no shorter than between two looks


@pytest.mark.parametrize("holds", [True, False])
def test_the_minimal_model(holds):
    good = {"early_ratio": 3.0, "early_spread": 0.05, "second_largest": True, "even_over_odd": True, "plateau": 2_000.0}
    bad = {"early_ratio": 1.1, "early_spread": 0.5, "second_largest": False, "even_over_odd": False, "plateau": 9e4}
    table = rows(k=2, last_phase="bigram" if holds else "unigram", **(good if holds else bad))
    found = verdicts(Minimal(), Tables(Minimal().settings("laptop", {"ks": (2,)}), {"phases": pl.DataFrame(table)}))
    assert len(found) == 5 and set(found.values()) == {REPRODUCED if holds else NOT_REPRODUCED}


@pytest.mark.parametrize(("useful", "verdict"), [(60_000.0, REPRODUCED), (30_000.0, NOT_REPRODUCED)])
def test_simplicity_compares_doubly_stochastic_sequences(useful, verdict):
    slow = rows(share=0.5, useful=useful, useful_formed=useful, passed_unigram=True)
    alone = rows(share=1.0, useful=30_000.0, useful_formed=30_000.0, passed_unigram=verdict == NOT_REPRODUCED)
    found = judged("chains/simplicity", phases=[*slow, *alone])
    assert found == dict.fromkeys(("slower-0.5", "slower-head-0.5", "no-plateau"), verdict)
    assert Simplicity.name == "chains/simplicity"


def test_trigrams_need_heads():
    staged = rows(heads=3, phases="uniform → unigram → bigram → trigram", last_phase="trigram", final_loss=0.012)
    stuck = rows(heads=1, last_phase="bigram", final_loss=0.029)
    found = judged("chains/trigrams", phases=[*staged, *stuck])
    assert len(found) == 4 and set(found.values()) == {REPRODUCED}
    reversed_ = [row | {"heads": 4 - row["heads"]} for row in (*staged, *stuck)]
    assert set(judged("chains/trigrams", phases=reversed_).values()) == {NOT_REPRODUCED}
    assert Trigrams.name == "chains/trigrams"


def test_more_symbols_need_a_longer_context():
    short = rows(t=50, baseline_unigram=[0.17 + 0.001 * seed for seed in range(SEEDS)])
    long = rows(t=100, baseline_unigram=[0.27 + 0.001 * seed for seed in range(SEEDS)])
    found = judged("chains/symbols", phases=[*short, *long])
    assert len(found) == 4 and set(found.values()) == {REPRODUCED}
    swapped = [row | {"t": 150 - row["t"]} for row in (*short, *long)]
    assert judged("chains/symbols", phases=sorted(swapped, key=lambda row: row["t"]))["gap"] == NOT_REPRODUCED
    assert Symbols.name == "chains/symbols"


@pytest.mark.parametrize(("low", "high", "verdict"), [(0.2, 0.98, REPRODUCED), (0.9, 0.4, NOT_REPRODUCED)])
def test_parts_of_the_distribution(low, high, verdict):
    end = low if verdict == REPRODUCED else 0.9
    table = [
        {"network": "transformer", "seed": seed, "plateau_looks": 3, "plateau_unigram": low}
        | {"plateau_doubly_stochastic": high, "end_unigram": end, "end_doubly_stochastic": end}
        for seed in range(SEEDS)
    ]
    found = judged("chains/parts", parts=table)
    assert len(found) == 4 and set(found.values()) == {verdict}


def test_losses_on_the_plateau_are_those_of_its_looks():
    curve = {"step": np.arange(4.0), **{f"loss_{part}": np.array([0.4, 0.2, 0.1, 0.05]) for part in parts.PARTS}}
    curve |= {"distance_uniform": np.array([0.0, 1, 1, 1]), "distance_unigram": np.array([1, 0.0, 0, 1])}
    curve |= {"distance_bigram": np.array([1, 1, 1, 0.0])}
    found = parts._on_and_after(curve, dict.fromkeys(parts.PARTS, 0.5))
    assert found["plateau_looks"] == 2 and found["plateau_unigram"] == pytest.approx(0.3)
    assert found["end_dirichlet"] == pytest.approx(0.1)


def test_one_layer_stays_and_two_pass():
    table = [*rows(network=CONTROL), *rows(network="relative", final_loss=0.16)]
    found = judged("chains/one-layer", phases=table)
    assert found == {"two-layers-passes": REPRODUCED, "relative-stays": REPRODUCED}
    swapped = [row | {"network": "relative" if row["network"] == CONTROL else CONTROL} for row in table]
    assert set(judged("chains/one-layer", phases=swapped).values()) == {NOT_REPRODUCED}
    assert OneLayer.name == "chains/one-layer"


@pytest.mark.parametrize(("power", "verdict"), [(-1.0, REPRODUCED), (1.0, NOT_REPRODUCED)])
def test_the_plateau_over_scale_and_rate(power, verdict):
    settings = Plateau().settings("laptop")
    table = []
    for spread in settings.spreads:
        for rate in settings.rates:
            time = 1e4 * (rate * 1e3 * spread * 10) ** power
            never = (spread, rate) == (settings.spreads[0], settings.rates[0]) and verdict == REPRODUCED
            table += rows(spread=spread, rate=rate, transition=math.inf if never else time)
    found = judged("chains/plateau", phases=table)
    assert len(found) == 5 and set(found.values()) == {verdict}


def test_architectures_are_asked_the_same():
    found = judged("chains/architectures", phases=rows(network="gru"))
    assert found == dict.fromkeys(("gru-unigram-first", "gru-bigram", "gru-plateau"), REPRODUCED)
    other = rows(network="gru", phases="uniform → bigram", plateau=0.0, final_loss=0.16)
    assert set(judged("chains/architectures", phases=other).values()) == {NOT_REPRODUCED}
    assert Architectures.name == "chains/architectures"


def test_hazards_are_measured():
    usual = rows(case=hazards.USUAL, excess=0.01)
    uniform = rows(case=hazards.UNIFORM, excess=0.01)
    leaking = rows(case=hazards.LEAKING, excess=-0.3)
    printed = rows(case=hazards.PRINTED, transition=math.inf, excess=0.1)
    found = judged("chains/hazards", phases=[*usual, *uniform, *leaking, *printed])
    assert len(found) == 4 and set(found.values()) == {REPRODUCED}
    honest = [*usual, *rows(case=hazards.UNIFORM, transition=4e5, baseline_unigram=0.05, excess=0.0)]
    honest += [*rows(case=hazards.LEAKING, excess=0.02), *rows(case=hazards.PRINTED, excess=0.1)]
    assert set(judged("chains/hazards", phases=honest).values()) == {NOT_REPRODUCED}


@pytest.mark.slow
def test_a_network_that_leaks_looks_ahead_in_its_first_layer():
    settings = ChainSettings(**SMOKE)
    task = hazards.UnguardedChains(2, settings.length)
    model = hazards.LeakingTransformer.paper(dimension=8)
    params = model.init(jax.random.key(0), task)
    tokens = task.batch(jax.random.key(1), 4).x
    changed = tokens.at[:, -1].set(1 - tokens[:, -1])
    predict = jax.jit(model.predict)
    assert not np.array_equal(predict(params, tokens)[:, 0], predict(params, changed)[:, 0])
    with pytest.raises(KroghError, match="looks ahead"):
        settings.trial(settings.chains(2), model)


def test_the_entropy_of_chains_is_what_knowing_the_chain_leaves():
    """Two symbols: E Σ_i π_i H(P_i) over a, b ~ U(0, 1), by quadrature."""
    points, weights = np.polynomial.legendre.leggauss(80)
    a, b = np.meshgrid((points + 1) / 2, (points + 1) / 2)

    def entropy(p: Any) -> Any:
        return -p * np.log(p) - (1 - p) * np.log(1 - p)

    rate = ((1 - b) * entropy(a) + (1 - a) * entropy(b)) / (2 - a - b)
    truth = float(np.sum(np.outer(weights, weights) / 4 * rate))
    assert hazards.entropy_rate(ChainSettings(**SMOKE).chains(2)) == pytest.approx(truth, abs=0.005)


@pytest.mark.parametrize(("good", "verdict"), [(True, REPRODUCED), (False, NOT_REPRODUCED)])
def test_attention_is_held_against_the_construction(good, verdict):
    scores = {
        "start_largest": 1.2,
        "end_argmax": 1.0,
        "end_induction": 0.9,
        "variation": 0.03,
        "replacement_cost": 0.01,
    }
    worse = {"start_largest": 9.0, "end_argmax": 0.1, "end_induction": 0.4, "variation": 0.4, "replacement_cost": 3.0}
    found = judged("chains/attention", scores=[{"seed": seed, **(scores if good else worse)} for seed in range(SEEDS)])
    assert len(found) == 5 and set(found.values()) == {verdict}
    assert attention.ChainAttention.keep_weights


def test_steps_are_decided_by_the_computed_and_the_trained():
    settings = steps.Steps().settings("laptop", {"ks": (2,)})
    exact = steps.first_and_second(2, settings.length, settings.start, settings.rate, 2, 0)
    computed = [{"k": 2, "step": s, **steps._numbers({"W": exact[f"W{s}"], "v": exact[f"v{s}"]})} for s in (1, 2)]
    noise = np.random.default_rng(0)

    def trained(factor: float) -> list[dict[str, Any]]:
        made = []
        for row in computed:
            for seed in range(40):
                near = 1 + 0.002 * noise.standard_normal()
                gap, v2 = factor * near * row["gap"], 0.02 + factor * near * (row["v2"] - 0.02)
                made.append({"k": 2, "seed": seed, "step": row["step"], **row, "gap": gap, "v2": v2})
        return made

    closed = [steps._closed(settings)]
    found = judged("chains/steps", {"ks": (2,)}, computed=computed, trained=trained(1.0), closed=closed)
    assert len(found) == 10 and set(found.values()) == {REPRODUCED}
    wrong = judged("chains/steps", {"ks": (2,)}, computed=computed, trained=trained(1.2), closed=closed)
    assert all(wrong[name] == NOT_REPRODUCED for name in wrong if name.startswith("trained"))


def test_the_curriculum_at_its_limit_and_its_background():
    experiment = ChainCurriculum()
    settings = experiment.settings("laptop", {"lengths": (100, 200), "widths": (0.25,)})
    from krogh.lab import Results, measured_tables

    tables = measured_tables(experiment, Results(pl.DataFrame(), settings))
    found = verdicts(experiment, tables)
    assert found["one-back"] == found["diagonal"] == found["w-error"] == found["v2-error"] == REPRODUCED
    assert found["background"] == REPRODUCED  # the print leaves it out
    limit = limit_positions(0.4, 1.0, 1.0, 300)
    assert even_remainder(0.4) == pytest.approx(limit[5::2].sum() / limit[1], rel=1e-12)
    flat = {
        "steps": tables["steps"].with_columns(largest=pl.lit(1), background=pl.lit(0.5)),
        "control": tables["control"],
    }
    worse = verdicts(experiment, Tables(settings, flat))
    assert worse["one-back"] == worse["background"] == NOT_REPRODUCED


def test_the_training_is_the_sources():
    """AdamW with betas (0.9, 0.95) and decay 0.1 on matrices alone, batches of 64 fresh sequences, all positions."""
    settings = phases.ChainPhases().settings("paper")
    trial = settings.trial(settings.chains(3))
    optimiser, how = trial.training.optimiser, trial.training
    np.testing.assert_allclose([optimiser.b1, optimiser.b2, optimiser.decay], [0.9, 0.95, 0.1])
    assert set(optimiser.decayed) == {"Q", "K", "V", "O", "P"} and np.isclose(optimiser.rate, 5e-4)
    assert how.loss == "cross-entropy" and how.regime.batch_size == 64 and int(how.stopping.budget) == 2_000
    assert (trial.task.length, trial.model.dimension, trial.model.layers, trial.model.heads) == (100, 16, 2, 1)
    assert settings.seeds >= 20 and settings.ks == (2, 3)


def test_snapshots_are_looks_from_the_first_step_to_the_last():
    settings = dataclasses.replace(ChainSettings(**SMOKE), steps=400, look_every=20)
    steps_ = settings.snapshot_steps(7)
    assert steps_[0] == 0 and steps_[-1] == 400 and all(step % 20 == 0 for step in steps_) and len(steps_) == 7
    assert settings.snapshot_steps(0) == ()
    with pytest.raises(KroghError, match="multiple of look_every"):
        dataclasses.replace(settings, steps=410).check_looks()


def test_bands_around_the_same_seeds():
    table = pl.DataFrame({"time": [0.0] * 8, "loss": [float(x) for x in range(8)], "seed": list(range(8))})
    (band,) = hazards._bands(table).iter_rows(named=True)
    assert band["range"] == 7.0 and band["deviation"] == pytest.approx(2 * np.std(np.arange(8), ddof=1))
    assert band["interval"] == 7.0 and jnp.isfinite(band["interval"])  # eight seeds: from the least to the largest


@pytest.mark.slow
def test_a_network_with_dropout_learns():
    """The one variant of the appendix that no experiment trains."""
    task, model = MarkovChains(2, 12), CausalTransformer.paper(dimension=8, dropout=0.1)
    stopping = Stopping(budget=400, error=0.0, check_every=100, validation=256, early=False)
    training = Training(Adam(5e-3), Online(64), stopping, "cross-entropy")
    trial = Trial(task, model, training, probes=(StrategyDistances(),), probe_every=100)
    for curve in (curve for part in run_cohort(sweep(trial, seed=range(2))[0]) for curve in part.curves):
        rows = dict(zip(trial.curve_columns(), curve[: len(trial.scheduled_steps())].T, strict=True))
        gained = (rows["baseline_uniform"] - rows["loss"]) / (rows["baseline_uniform"] - rows["baseline_bigram"])
        assert abs(gained[0]) < 0.1 and gained[-1] > 0.5, gained
