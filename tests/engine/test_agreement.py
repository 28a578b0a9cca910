"""Two devices that train the same are told from two that do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import jax
import pytest

import krogh
from krogh import registry
from krogh.engine import compiling
from krogh.engine.agreement import TOLERANCE, agreement
from krogh.engine.memory import Plan

NETWORKS = [name for name in registry.MODELS if not issubclass(registry.MODELS[name], krogh.Learner)]


@pytest.fixture
def cohort(base):
    return krogh.sweep(base, seed=range(3))[0]


@pytest.fixture
def cpu():
    return jax.local_devices()[0]


@pytest.mark.slow
def test_a_device_agrees_with_itself(cohort, cpu):
    found = agreement(cohort, cpu, cpu)
    assert found.agrees and found.difference == 0 and found.trials == 3 and found.steps == 20


def trained_otherwise(monkeypatch, change):
    """Programs of all blocks but the reference's end with `change` of the weights."""
    right = compiling.request_program

    def request_program(template, plan, device):
        future, first = right(template, plan, device)
        if plan == Plan(3, 1):  # the reference's
            return future, first
        program = future.result()

        def tampered(trials, states, fresh, rounds, blocks):
            states, executed = program(trials, states, fresh, rounds, blocks)
            params = dict(states.params)
            return states._replace(params=params | (change(params) if rounds else {})), executed

        class Done:
            def result(self):
                return tampered

        return Done(), first

    monkeypatch.setattr("krogh.engine.lane.request_program", request_program)


@pytest.mark.parametrize("wrong", [1.1, float("nan")])
def test_a_program_that_trains_otherwise_is_found(cohort, cpu, monkeypatch, wrong):
    trained_otherwise(monkeypatch, lambda params: {"W": params["W"] * wrong})
    found = agreement(cohort, cpu, cpu)
    assert not found.agrees and not found.difference <= TOLERANCE and found.where.startswith("W of trial")


@pytest.fixture
def parities():
    training = krogh.Training(
        krogh.Adam(rate=0.01), krogh.Online(batch_size=32), krogh.Stopping(budget=100), "logistic"
    )
    model = krogh.models.SparseTransformer(embedding=16, heads=4, embedding_dropout=0.0)
    return krogh.sweep(krogh.Trial(krogh.Parity(n=8, k=2), model, training), seed=range(3))[0]


@pytest.mark.slow
def test_what_no_prediction_depends_on_may_differ(parities, cpu, monkeypatch):
    trained_otherwise(monkeypatch, lambda params: {"bk": params["bk"] + 1.0})
    found = agreement(parities, cpu, cpu)
    assert found.agrees and found.difference > 0


@pytest.mark.slow
def test_an_array_of_little_weight_must_agree_too(parities, cpu, monkeypatch):
    """Keys hardly matter in the first steps: all of a network's predictions together would not show them."""
    trained_otherwise(monkeypatch, lambda params: {"Wk": 0.9 * params["Wk"]})
    found = agreement(parities, cpu, cpu)
    assert not found.agrees and found.where.startswith("Wk of trial")


def verified(devices: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    call = [sys.executable, "-c", "import sys; from krogh.cli import main; sys.argv[0] = 'krogh'; main()", "verify"]
    return subprocess.run([*call, *arguments], env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_the_command_compares_two_devices():
    told = verified(2, "parity/histogram", "--json")
    assert told.returncode == 0, told.stderr
    answer = json.loads(told.stdout)
    assert [row["experiment"] for row in answer["rows"]] == ["parity/histogram"]
    assert answer["rows"][0]["agrees"] and answer["device"] != answer["reference"]


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


@pytest.mark.skipif(jax.default_backend() == "cpu", reason="needs an accelerator")
@pytest.mark.parametrize("name", NETWORKS)
def test_every_model_trains_on_this_accelerator_as_on_a_cpu(name):
    found = agreement(examples(name), jax.local_devices()[0], jax.local_devices(backend="cpu")[0])
    assert found.agrees, found
