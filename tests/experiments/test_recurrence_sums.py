"""Experiments on sums over tokens, on tables whose law is known: each claim can be reproduced, and can fail."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from planted import verdicts

from krogh.errors import KroghError
from krogh.experiments.recurrence import agnostic, counting, kernel, positions, token_sums
from krogh.experiments.recurrence.kernel import against_kernel
from krogh.experiments.recurrence.sums import SumSettings, losses, medians, ratio, target, variance_of
from krogh.lab import Network, Tables
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.models.elman import ElmanRnn
from krogh.registry import EXPERIMENTS
from krogh.tasks.letters import LetterCount, LetterPositions
from krogh.training import Resampled

SEEDS = 8
RNG = np.random.default_rng(5)


def judged(name: str, changes: dict[str, Any] | None = None, **tables: list[dict[str, Any]]) -> dict[str, str]:
    experiment = EXPERIMENTS[name]()
    frames = {table: pl.DataFrame(given, infer_schema_length=None) for table, given in tables.items()}
    return verdicts(experiment, Tables(experiment.settings("laptop", changes), frames))


def around(value: float) -> float:
    """A number within 5% of a value."""
    return float(value * RNG.uniform(0.95, 1.05))


# --- token sums


def sums(
    left: dict[float, dict[int, float]], linear: float, convolution: float, moved: Any, flipped: Any
) -> list[dict]:
    rows = []
    for seed in range(SEEDS):
        common = {"seed": seed, "variance": 0.14, "moved_W_spectral": 1.0}
        for eps, widths in left.items():
            for width, fvu in widths.items():
                rows.append(
                    common
                    | {
                        "target": token_sums.PAIRS, "width": width, "eps": eps, "fvu": around(fvu),
                        "fvu_average": 2 * fvu, "moved_W": around(moved(width)), "flipped": around(flipped(width)),
                    }
                )  # fmt: skip
        for kind, fvu in ((token_sums.LINEAR, linear), (token_sums.CONVOLUTION, convolution)):
            made = {"target": kind, "width": 150, "eps": 0.3, "fvu": around(fvu), "fvu_average": 1.0}
            rows.append(common | made | {"moved_W": 5.0, "flipped": 0.1})
    return rows


GOOD = {1.0: {50: 0.154, 150: 0.079, 400: 0.06}, 0.3: {50: 0.60, 150: 0.40, 400: 0.14}}
WORSE = {1.0: {50: 0.154, 150: 0.2, 400: 0.25}, 0.3: {50: 0.40, 150: 0.60, 400: 0.8}}


def test_token_sums_are_learned_where_little_is_left_and_not_where_much_is():
    found = judged("recurrence/token-sums", losses=sums(GOOD, 0.03, 0.1, lambda m: 8.0, lambda m: m**-0.33))
    assert set(found) == {"learned", "wider-0.3", "wider-1", "degree", "convolution", "movement", "flips"}
    assert set(found.values()) == {REPRODUCED}
    found = judged("recurrence/token-sums", losses=sums(WORSE, 0.9, 0.4, lambda m: m**0.5, lambda m: m**0.1))
    assert set(found.values()) == {NOT_REPRODUCED}


def test_too_narrow_networks_and_too_few_targets_decide_nothing():
    narrow = {eps: {width // 10: fvu for width, fvu in widths.items()} for eps, widths in GOOD.items()}
    rows = sums(narrow, 0.03, 0.1, lambda m: 8.0, lambda m: m**-0.33)
    assert judged("recurrence/token-sums", {"widths": "5,15,40"}, losses=rows)["learned"] == INCONCLUSIVE
    found = judged("recurrence/token-sums", {"seeds": 3}, losses=sums(GOOD, 0.03, 0.1, lambda m: 8, lambda m: 1 / m))
    assert set(found.values()) == {INCONCLUSIVE}


# --- length


def times(law: Any, share: float = 1.0) -> list[dict]:
    reached = [seed < share * SEEDS for seed in range(SEEDS)]
    return [
        {
            "length": length,
            "seed": seed,
            "convergence_time": round(around(law(length))) if reached[seed] else None,
            "outcome": "converged" if reached[seed] else "failed",
        }
        for length in (4, 6, 8, 12)
        for seed in range(SEEDS)
    ]


def test_a_power_of_the_length_is_told_from_an_exponential():
    changes = {"seeds": SEEDS}
    power = judged("recurrence/length", changes, trials=times(lambda length: 10 * length**2.5))
    assert power == {"reached": REPRODUCED, "exponent": REPRODUCED, "power": REPRODUCED}
    exponential = judged("recurrence/length", changes, trials=times(lambda length: 0.05 * math.exp(length)))
    assert exponential == {"reached": REPRODUCED, "exponent": NOT_REPRODUCED, "power": NOT_REPRODUCED}
    never = judged("recurrence/length", changes, trials=times(lambda length: 10 * length**2, share=0.0))
    assert never["reached"] == NOT_REPRODUCED and never["power"] == INCONCLUSIVE


# --- width


def fixed(fvu: Any) -> list[dict]:
    return [
        {"seed": seed, "width": width, "samples": samples, "fvu": around(fvu(width, samples))}
        for seed in range(SEEDS)
        for width in (50, 150, 400)
        for samples in (100, 1000)
    ]


def test_width_is_free_where_the_error_stays():
    found = judged("recurrence/width-free", losses=fixed(lambda m, n: 5 / math.sqrt(n)))
    assert found == {"width-100": REPRODUCED, "width-1000": REPRODUCED, "samples-1000": REPRODUCED}
    found = judged("recurrence/width-free", losses=fixed(lambda m, n: m * n / 1e5))
    assert set(found.values()) == {NOT_REPRODUCED}


# --- letters


def ranked(wrong: int, fvu: float, unseen: float) -> list[dict]:
    return [
        {
            "strings": strings,
            "seed": seed,
            "fvu": around(fvu),
            "fvu_unseen": around(unseen),
            "wrong": wrong,
            "pairs": 402,
        }
        for strings in (positions.ALL, positions.SAMPLE)
        for seed in range(SEEDS)
    ]


def test_positions_are_told_apart_where_no_pair_is_wrong():
    good = judged("recurrence/positions", ranked=ranked(0, 1e-4, 0.2))
    assert good == {"ranked": REPRODUCED, "fitted": REPRODUCED, "held-out": REPRODUCED}
    bad = judged("recurrence/positions", ranked=ranked(1, 0.01, 1e-4))
    assert set(bad.values()) == {NOT_REPRODUCED}


def test_of_six_letters_402_pairs_have_equal_letters_and_unequal_labels():
    task = LetterPositions(8)
    bits, truth = np.asarray(task.population().tokens), np.asarray(task.decode(task.population()).truth, float)
    assert positions.wrong_pairs(bits, truth, truth) == (0, 402)
    assert positions.wrong_pairs(bits, truth, -truth) == (402, 402)
    swapped = truth.copy()
    one, other = (int(np.flatnonzero((bits == word).all(axis=1))[0]) for word in ([1] * 5 + [0], [1] * 4 + [0, 1]))
    swapped[[one, other]] = swapped[[other, one]]
    assert positions.wrong_pairs(bits, truth, swapped) == (1, 402), "1 and 5/6 are neighbours among strings with one b"
    assert positions.wrong_pairs(bits, truth, np.full(64, np.nan))[0] == 402, "what is no number ranks nothing"


def counted(exact: float, letters: float, zero: float, balanced: float) -> list[dict]:
    return [
        {
            "seed": seed,
            "position": j,
            "exact": exact,
            "letters": letters,
            "zero": zero,
            "balanced": balanced,
            "rms": 0.1,
        }
        for seed in range(SEEDS)
        for j in range(3, 11)
    ]


def test_counts_are_right_or_not():
    good = judged("recurrence/counting", counted=counted(0.99, 1.0, 0.99, 1.0))
    assert set(good) == {"exact", "letters", "zero", "balanced"} and set(good.values()) == {REPRODUCED}
    assert set(judged("recurrence/counting", counted=counted(0.9, 0.9, 0.9, 0.9)).values()) == {NOT_REPRODUCED}


class Exact(ElmanRnn):
    """Answers with the truth plus an error, whatever the weights."""

    def predict(self, params, x):
        signs = np.sign(np.asarray(x)[:, 1:-1, 0] - np.asarray(x)[:, 1:-1, 1])
        return (np.cumsum(signs, axis=1) + float(params["error"][0])) / 4


@pytest.mark.parametrize(("error", "exact", "letters"), [(0.4, 1.0, 1.0), (0.6, 0.0, 1.0), (1.2, 0.0, 0.0)])
def test_counting_rounds_differences_and_letters(error, exact, letters):
    from krogh.experiments.recurrence.sums import trial_of

    settings = counting.Settings(length=6, width=4, budget=10, looks=1)
    trial = trial_of(settings, LetterCount(length=6), 4, 0, validation="exact")
    object.__setattr__(trial, "model", Exact(4, reads=4))
    rows = counting.counts(Network(trial, {"seed": 0, "id": 0}, {"error": np.array([error])}))
    assert [row["position"] for row in rows] == [3, 4, 5, 6]
    assert all(row["exact"] == exact and row["letters"] == letters for row in rows)
    assert all(row["rms"] == pytest.approx(error, abs=1e-5) for row in rows)
    zero = [row["zero"] for row in rows]
    assert zero == ([1.0] * 4 if error < 0.5 else [0.5, 0.5, 0.625, 0.625])


# --- noise and kernel


def noisy(excess: Any) -> list[dict]:
    return [
        {
            "c": c,
            "noise": v,
            "seed": seed,
            "excess": excess(v),
            "excess_average": excess(v) + 1e-4 * seed,
            "opt": 1.5 * v,
        }
        for c in (0.125, 0.5)
        for v in (0.0, 0.02, 0.1)
        for seed in range(SEEDS)
    ]


def test_noise_is_averaged_away_or_learned():
    good = judged("recurrence/agnostic", excess=noisy(lambda v: 0.05 + 0.05 * v))
    assert len(good) == 12 and set(good.values()) == {REPRODUCED}
    assert set(judged("recurrence/agnostic", excess=noisy(lambda v: 0.05 + 1.5 * v)).values()) == {NOT_REPRODUCED}
    with pytest.raises(KroghError, match="noises begin with 0"):
        EXPERIMENTS["recurrence/agnostic"]().settings("smoke", {"noises": "0.1,0.2"})


def test_noiseless_runs_stand_beside_those_with_noise():
    table = pl.DataFrame(noisy(lambda v: v))
    beside = agnostic.against_noiseless(table.filter(pl.col("c") == 0.5), 0.1)
    assert beside["excess_average_clean"].to_list() == pytest.approx([1e-4 * seed for seed in range(SEEDS)])
    assert len(beside) == SEEDS


def compared(gap: float, kernel_fvu: float, spread: float) -> list[dict]:
    return [
        {"seed": seed, "ridge": ridge, "kernel": fvu, "trained": kernel_fvu + around(gap), "norm": 1.0}
        for seed in range(SEEDS)
        for ridge, fvu in ((1e-6, kernel_fvu), (1e-4, kernel_fvu), (1e-2, kernel_fvu * spread))
    ]


def test_a_network_is_close_to_its_kernel_or_not():
    good = judged("recurrence/kernel", compared=compared(-0.01, 0.1, 1.1))
    assert good == {"close": REPRODUCED, "kernel-learns": REPRODUCED, "ridge": REPRODUCED}
    assert set(judged("recurrence/kernel", compared=compared(0.2, 0.5, 3.0)).values()) == {NOT_REPRODUCED}
    assert judged("recurrence/kernel", compared=compared(-0.2, 0.5, 1.0))["close"] == NOT_REPRODUCED


@pytest.mark.slow
def test_a_network_that_has_not_moved_is_compared_on_the_sample_of_its_trial():
    """With a huge ridge the kernel says what the network says before training."""
    from krogh.experiments.recurrence.sums import trial_of

    settings = kernel.Settings(width=8, samples=12, budget=10, looks=1, validation=40, ridges=(1e9,))
    task = target(settings, 0, eps_x=1.0, labels="last")
    trial = trial_of(settings, task, 8, 0, regime=Resampled(12, 4))
    initial = {name: np.asarray(leaf) for name, leaf in trial.initial_params().items()}
    (row,) = against_kernel(Network(trial, {"seed": 0, "id": 0}, initial), settings)
    assert row["kernel"] == pytest.approx(row["trained"], rel=1e-4) and row["norm"] < 1e-6


# --- what they share


def test_losses_are_shares_of_the_exact_variance_and_divergence_is_infinite():
    settings = SumSettings()
    trials = pl.DataFrame(
        {
            "seed": [0, 1],
            "outcome": ["failed", "diverged"],
            "error": [0.07, None],
            "curve.unexplained": [[1.0, 0.5, 0.3], [1.0, 9.0, 9.0]],
            "curve.moved_W": [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]],
        }
    )
    found = losses(trials, lambda row: variance_of(settings, row["seed"]), ("seed",))
    assert found["fvu"].to_list() == [pytest.approx(0.07 / (9 / 64)), math.inf]
    assert found["fvu_average"].to_list() == [0.75, math.inf] and found["moved_W"][0] == 2.0


def test_ratios_are_of_the_same_targets():
    rows = pl.DataFrame([{"width": m, "seed": s, "fvu": (1 + s) / m} for m in (10, 20) for s in range(SEEDS)])
    found = ratio(rows.reverse(), "width", 20, 10)
    assert found.value == pytest.approx(0.5) and found.low == found.high == pytest.approx(0.5)
    assert medians(rows, "width").at(10).value == pytest.approx(0.4)


@pytest.mark.parametrize(("budget", "looks", "every"), [(6000, 30, 200), (10, 3, 5), (7, 3, 7), (20, 40, 1)])
def test_looks_divide_the_budget(budget, looks, every):
    assert SumSettings(budget=budget, looks=looks).look_every == every
