"""A device that computes what it should is told from one that does not; error rates: benchmarks/verify_rates.py."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from verify_rates import FAULTS, device_with, findings, networks, stand_in

import krogh
from krogh import registry
from krogh.engine import agreement
from krogh.engine.agreement import Ends, holm, judge, law_finding, many, operand_bits
from krogh.engine.arithmetic import FLOAT32, KERNEL, TF32
from krogh.engine.memory import Plan
from krogh.errors import KroghError

NETWORKS = [name for name in registry.MODELS if not issubclass(registry.MODELS[name], krogh.Learner)]


def alarms(found):
    return {finding.comparison for finding in found if not finding.agrees}


# --- a right device, and planted faults ---


@pytest.mark.slow
def test_a_round_is_told_from_one_at_another_rate():
    with device_with(None, TF32):
        assert agreement.update(stand_in(networks()["two-layer"], 0, 8, TF32)).agrees
    with device_with(FAULTS["rate off by 10%"], TF32):
        assert not agreement.update(stand_in(networks()["two-layer"], 0, 8, TF32)).agrees


@pytest.mark.slow
def test_evaluation_is_told_from_one_that_is_wrong_for_large_batches():
    with device_with(None, TF32):
        assert agreement.evaluation(stand_in(networks()["two-layer"], 0, 4, TF32)).agrees
    with device_with(FAULTS["large batches"], TF32):
        found = agreement.evaluation(stand_in(networks()["two-layer"], 0, 4, TF32))
    assert not found.agrees and "slice 1" in found.where


@pytest.mark.slow
@pytest.mark.parametrize("operands", [FLOAT32, TF32])
def test_a_device_that_only_rounds_agrees(operands):
    with device_with(None, operands):
        found = findings(networks()["two-layer"], 0, 40, operands)
    assert not alarms(found), found
    assert all(0 < one.amount < 2 for one in found[:2]), "rounding explains what there is, and not a hundred times more"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "by"),
    [
        ("large batches", {"evaluation", "law"}),
        ("a missing bias", {"evaluation", "update"}),
        ("rate off by 10%", {"update"}),
    ],
)
def test_a_planted_fault_is_found_and_named(fault, by):
    with device_with(FAULTS[fault], TF32):
        found = findings(networks()["two-layer"], 0, 60, TF32)
    assert by <= alarms(found) <= by | {"law"}, found
    where = {one.comparison: one.where for one in found}
    assert fault != "large batches" or "600 examples" in where["evaluation"] or "slice" in where["evaluation"]


@pytest.mark.slow
def test_the_check_of_the_program_itself_is_looked_at():
    """A fault that only the study's own program has: its check's count does not fit its weights."""
    with device_with(FAULTS["large batches"], FLOAT32):
        bench = stand_in(networks()["two-layer"], 0, 40, FLOAT32)
        exactly = agreement._Predictions(bench)
        _, weights = agreement.law(bench)
        weights = {name: agreement._cycled(leaf, bench.size.slots) for name, leaf in weights.items()}
        found = agreement._compare_counts(bench, exactly, weights)
    assert max(found)[0] > agreement.SLACK and "a check" in max(found)[1]


@pytest.mark.parametrize(
    ("kernel", "whole", "wrong"), [(False, 3, True), (True, 3, False), (True, 0, True)], ids=["xla", "kernel", "fault"]
)
def test_a_kernel_that_ends_a_count_has_not_given_up_on_a_prefix(monkeypatch, kernel, whole, wrong):
    """Its trials have no error until they pass: no mistake among the first examples may be followed by some."""
    trial = networks()["two-layer"]
    size = Plan(2, 1, resident=kernel)
    bench = dataclasses.replace(stand_in(trial, 0, 2, FLOAT32), size=size)
    states = SimpleNamespace(
        params={"W": jnp.zeros((2, 1))}, error=jnp.full(2, jnp.nan), status=jnp.zeros(2, jnp.int32)
    )
    lane = SimpleNamespace(states=states, place=lambda weights: None, advance=lambda rounds: None)
    monkeypatch.setattr(agreement, "_lane", lambda bench: lane)
    prefix = (None, None)
    exactly = SimpleNamespace(
        trial=lambda slot: bench.cohort[slot],
        slices=lambda slot: ([], prefix),
        mistakes=lambda slot, own, parts: (0.0, 0.0 if parts == [prefix] else float(whole)),
    )
    found = agreement._compare_counts(bench, exactly, {})
    assert len(found) == 2 and all((share > agreement.SLACK) == wrong for share, _ in found)


@pytest.mark.slow
@pytest.mark.parametrize("operands", [FLOAT32, TF32])
def test_attention_that_only_rounds_agrees(operands):
    """The old comparison called such networks different."""
    with device_with(None, operands):
        assert not alarms(findings(networks()["attention"], 0, 40, operands))


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_attention_are_found(fault):
    with device_with(FAULTS[fault], TF32):
        found = findings(networks()["attention"], 0, 40, TF32)
    assert alarms(found), found


@pytest.mark.slow
def test_weights_that_are_not_numbers_are_found():
    def lost(trials):
        rate = trials.training.optimiser.rate
        return eqx.tree_at(lambda trial: trial.training.optimiser.rate, trials, rate * jnp.nan)

    with device_with(lost, FLOAT32):
        found = agreement.update(stand_in(networks()["two-layer"], 0, 8, FLOAT32))
    assert not found.agrees and found.amount == np.inf


# --- the law ---


def ends(times, budget=1000.0):
    times = np.asarray(times, float)
    return Ends(times < budget, times)


def test_laws_that_differ_have_small_p_values():
    random = np.random.default_rng(0)
    times = np.round(random.gamma(5, 40, 200), -1)
    same = law_finding(ends(times), ends(times), 1000)
    assert set(same.p_values.values()) == {1.0} and same.details["same_time"] == 1
    jitter = law_finding(ends(times + random.choice([-10, 0, 10], 200)), ends(times), 1000)
    assert min(jitter.p_values.values()) > 0.01
    assert law_finding(ends(1.1 * times), ends(times), 1000).p_values["shift"] < 1e-6
    lost = np.where(np.arange(200) % 5 == 0, 1001.0, times)
    assert law_finding(ends(lost), ends(times), 1000).p_values["outcome"] < 1e-6


def test_p_values_are_valid_where_pairs_differ_by_chance():
    """Of 300 comparisons of exchangeable pairs about 5% fall below 5%, for each of the tests at most."""
    random = np.random.default_rng(1)
    small = {"outcome": 0, "shift": 0, "law": 0}
    for _ in range(300):
        base = random.gamma(5, 40, (60, 1))
        pair = np.round(base * random.lognormal(0, 0.2, (60, 2)), -1)
        pair = np.where(pair > 300, 1001 + random.random((60, 2)), pair)
        found = law_finding(ends(pair[:, 0]), ends(pair[:, 1]), 1000)
        for name, p in found.p_values.items():
            small[name] += p < 0.05
    assert all(count <= 26 for count in small.values()), small  # 15 and three standard deviations


def test_holm_rejects_what_bonferroni_does_and_goes_on():
    assert holm([0.001, 0.02, 0.04, 0.3], 0.05) == [True, False, False, False]
    assert holm([0.04, 0.01, 0.02], 0.05) == [True, True, True]
    assert holm([0.3, 0.001], 0.05) == [False, True] and holm([], 0.05) == []


def test_a_law_is_judged_among_all_that_were_asked_for():
    low = law_finding(ends([1.0] * 6), ends([2.0] * 6), 10)
    alone = judge([dataclasses.replace(low, p_values={"shift": 0.008})])
    many_more = judge([dataclasses.replace(low, p_values={"shift": 0.008})] * 3)
    assert alone[0].agrees is False and all(one.agrees for one in many_more)


# --- which trials ---


def test_more_trials_than_a_cohort_has_get_other_seeds(base):
    cohort = krogh.sweep(base, seed=range(3))[0]
    more = many(cohort, 7, budget=50)
    seeds = [int(trial.seed) for trial in more]
    assert seeds[:3] == [0, 1, 2] and len(set(seeds)) == 7
    assert {int(trial.training.stopping.budget) for trial in more} == {50}
    assert [int(trial.seed) for trial in many(krogh.sweep(base, seed=range(9))[0], 3)] == [0, 4, 8]


def test_the_bits_of_products():
    cpu = jax.local_devices()[0]
    gpu = type("Gpu", (), {"platform": "gpu"})()
    assert operand_bits(Plan(4, 1), cpu) == FLOAT32 and operand_bits(Plan(4, 4), gpu) == TF32
    assert operand_bits(Plan(4, 1, resident=True), gpu) == KERNEL
    with jax.default_matmul_precision("highest"):
        assert operand_bits(Plan(4, 4), gpu) == FLOAT32


class Forest(krogh.Learner):
    kind = "forest for no device"

    def check(self, task):
        pass

    def fit(self, x, y, seed):
        return lambda x: np.ones(len(x), np.float32)

    @classmethod
    def example(cls):
        raise NotImplementedError


def test_what_learns_on_the_host_has_no_devices(base):
    training = krogh.Training(regime=krogh.FullBatch(m=20), stopping=krogh.Stopping(budget=10, validation=16))
    cohort = krogh.sweep(krogh.Trial(base.task, Forest(), training), seed=range(2))[0]
    cpu = jax.local_devices()[0]
    with pytest.raises(KroghError, match="Forest learns on the host"):
        agreement.bench(cohort, cpu, cpu)


# --- the command ---


def verified(devices: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    call = [sys.executable, "-c", "import sys; from krogh.cli import main; sys.argv[0] = 'krogh'; main()", "verify"]
    return subprocess.run([*call, *arguments], env=environment, capture_output=True, text=True, timeout=500)


@pytest.mark.slow
def test_the_command_compares_two_devices():
    told = verified(2, "parity/histogram", "--json", "--trials", "30", "--seconds", "5")
    assert told.returncode == 0, told.stderr
    answer = json.loads(told.stdout)
    assert [row["comparison"] for row in answer["rows"]] == ["evaluation", "update", "law"]
    assert all(row["agrees"] and row["experiment"] == "parity/histogram" for row in answer["rows"])
    assert answer["device"] != answer["reference"] and answer["level"] == 0.01


@pytest.mark.slow
def test_the_command_measures_full_precision():
    told = verified(2, "parity/histogram", "attention/capacity", "--precision", "--json", "--seconds", "1")
    assert told.returncode == 0, told.stderr
    (row,) = json.loads(told.stdout)["rows"]
    assert 0.1 < row["ratio"] < 10 and row["p_values"]["shift"] == 1.0, "a CPU's products are full ones"


@pytest.mark.slow
def test_one_device_has_nothing_to_compare_with():
    told = verified(1, "parity/histogram")
    assert told.returncode == 2 and "nothing to compare" in told.stderr


def examples(name: str) -> krogh.engine.Trials:
    """Four trials of a model's own example."""
    model, task = registry.MODELS[name].example()
    classes = isinstance(task, krogh.tasks.ClassificationTask)
    training = krogh.Training(
        krogh.Sgd(rate=0.002),
        krogh.Online(batch_size=32),
        krogh.Stopping(budget=1000, validation=64, error=1e-9 if task.regression else None),
        "cross-entropy" if classes else "square",
    )
    return krogh.sweep(krogh.Trial(task, model, training), seed=range(4))[0]


def test_every_model_has_examples_to_compare():
    assert all(len(examples(name)) == 4 for name in NETWORKS)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_a_round_of_every_model_is_that_of_float64(name):
    """On an accelerator against the CPU's float64; on a CPU in blocks, as an accelerator trains."""
    device, cpu = jax.local_devices()[0], jax.local_devices(backend="cpu")[0]
    size = Plan(4, 4) if device.platform == "cpu" else None
    bench = agreement.bench(examples(name), device, cpu, 8, size, seconds=5)
    found = agreement.update(bench)
    assert found.agrees, found
