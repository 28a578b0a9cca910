"""Stopping rules and trainings: what is accepted and what is refused."""

from __future__ import annotations

import math

import jaxtyping
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks import Parity
from krogh.training import Offline, Online, Population, Sgd, Stopping, Training
from krogh.values import describe, replaced, structure_of


def test_the_defaults_are_the_source_s():
    plain = describe(Training())
    assert plain["loss"] == "hinge"
    assert plain["optimiser"]["kind"] == "Sgd" and plain["optimiser"]["decay"] == 0.0
    assert plain["regime"] == {"kind": "Online", "batch_size": 32}
    assert plain["stopping"] == {
        "kind": "Stopping",
        "budget": 100_000,
        "accuracy": 1.0,
        "consecutive": 1,
        "error": None,
        "restarts": 1,
        "check_every": 10,
        "validation": 8192,
        "early": True,
    }


@pytest.mark.parametrize(
    ("fields", "echo"),
    [
        ({"budget": 0}, "budget=0"),
        ({"budget": -10}, "budget=-10"),
        ({"budget": 95}, r"check_every=10; got budget=95 \(try budget=100\)"),
        ({"budget": 10**10}, "got 10000000000.*out of range"),
        ({"budget": 10.5}, "int32 number; got 10.5"),
        ({"budget": "long"}, "got 'long'"),
        ({"check_every": 0}, "check_every=0"),
        ({"consecutive": 0}, "consecutive=0"),
        ({"accuracy": 0.0}, "accuracy=0.0"),
        ({"accuracy": 1.01}, "accuracy=1.01"),
        ({"accuracy": -0.5}, "accuracy=-0.5"),
        ({"accuracy": math.nan}, "accuracy=nan"),
        ({"validation": 0}, "validation=0"),
        ({"validation": "all"}, "'exact'; got 'all'"),
    ],
)
def test_bad_values_are_refused_with_what_was_given(fields, echo):
    with pytest.raises(KroghError, match=echo):
        Stopping(**fields)


@pytest.mark.parametrize(
    ("fields", "echo"),
    [
        ({"check_every": 2.5}, "check_every=2.5"),
        ({"check_every": "ten"}, "check_every='ten'"),
        ({"validation": 0.5}, "got 0.5"),
        ({"validation": True}, "validation=True"),
    ],
)
def test_values_of_a_wrong_kind_are_refused(fields, echo):
    jaxtyping.config.update("jaxtyping_disable", True)  # as a user sees it, without the checks of the tests
    try:
        with pytest.raises(KroghError, match=echo):
            Stopping(**fields)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize("budget", [1, 7, 30])
def test_budgets_are_multiples_of_the_interval(budget):
    assert int(Stopping(budget=budget, check_every=1).budget) == budget
    assert int(Stopping(budget=budget * 7, check_every=7).budget) == budget * 7
    with pytest.raises(KroghError, match=f"try budget={(budget + 1) * 2}"):
        Stopping(budget=budget * 2 + 1, check_every=2)


def test_a_full_check_reads_the_sample_or_every_input():
    task = Parity(n=10, k=3)
    assert Stopping(validation=128).size(task) == 128
    assert Stopping(validation="exact").size(task) == 1024


def test_exact_validation_needs_inputs_that_can_be_listed():
    Stopping(validation="exact").check(Parity(n=20, k=3))
    Stopping(validation=128).check(Parity(n=50, k=3))
    for refuse in (Stopping(validation="exact").check, Stopping(validation="exact").size):
        with pytest.raises(KroghError):
            refuse(Parity(n=50, k=3))
    with pytest.raises(KroghError, match="n=50"):
        Training(stopping=Stopping(validation="exact")).check(Parity(n=50, k=3))
    with pytest.raises(KroghError, match="n=50"):
        Training(regime=Population()).check(Parity(n=50, k=3))
    Training(regime=Online()).check(Parity(n=50, k=3))


def test_budgets_rates_and_accuracies_are_data_and_shapes_are_not():
    """What may differ within a cohort, and what makes another one."""
    training = Training(regime=Offline(64))
    same = {
        "stopping.budget": 50,
        "stopping.accuracy": 0.55,
        "stopping.consecutive": 10,
        "optimiser.rate": 1.0,
        "optimiser.decay": 0.5,
        "regime.m": 7,
    }
    other = {
        "stopping.check_every": 5,
        "stopping.validation": 128,
        "stopping.early": False,
        "loss": "square",
        "regime.batch_size": 8,
        "optimiser": Sgd(0.1, layer_rate={"W": 0.1}),
        "regime": Online(),
    }
    for path, new in same.items():
        assert structure_of(replaced(training, path, new)) == structure_of(training), path
    texts = {structure_of(replaced(training, path, new)) for path, new in other.items()}
    assert len(texts | {structure_of(training)}) == len(other) + 1


def test_an_unknown_loss_is_refused():
    with pytest.raises(KroghError, match="'sqaure'; did you mean 'square'"):
        Training(loss="sqaure")


def test_numbers_may_come_from_numpy():
    stopping = Stopping(budget=np.int64(50), accuracy=np.float64(0.9), consecutive=np.int8(2))
    assert (int(stopping.budget), int(stopping.consecutive)) == (50, 2)
    assert stopping.budget.dtype == np.int32 and stopping.accuracy.dtype == np.float32
