"""The inversion task, and the probe that measures it."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models import Mlp
from krogh.models.elman import ElmanRnn, elman_states
from krogh.probes import Deviation, Moment
from krogh.tasks import Inversion, Parity


def test_the_label_is_the_sequence_itself():
    task = Inversion(length=4, dimension=3)
    drawn = task.batch(jax.random.key(0), 5000)
    assert np.array_equal(drawn.y, np.asarray(drawn.x).reshape(5000, 12)) and np.array_equal(drawn.y, drawn.truth)
    assert abs(float(drawn.x.mean())) < 0.02 and float(drawn.x.std()) == pytest.approx(1, abs=0.02)
    assert task.baselines()["null_risk"] == 1.0 and task.limits()["labels"] == 144


def test_an_elman_network_answers_with_all_of_it():
    task, model = Inversion(length=3, dimension=2), ElmanRnn(8)
    params = model.init(jax.random.key(1), task)
    x = task.batch(jax.random.key(2), 4).x
    assert params["B"].shape == (6, 8)
    expected = np.asarray(elman_states(params["W"], params["A"], x)[-1] @ params["B"].T)
    assert np.allclose(model.predict(params, x), expected, atol=1e-6)


def test_the_probe_measures_relative_and_largest_deviations():
    task, model = Inversion(length=3, dimension=2), ElmanRnn(8)
    params = model.init(jax.random.key(1), task)
    examples = task.batch(jax.random.key(2), 16)
    found = Deviation().measure(Moment(task, model, params, params, examples, np.float32(0), np.int32(0)))
    off = np.asarray(model.predict(params, examples.x) - examples.truth)
    relative = np.linalg.norm(off, axis=1) / np.linalg.norm(np.asarray(examples.truth), axis=1)
    assert np.allclose(found, [relative.mean(), np.abs(off).max(axis=1).mean()], rtol=1e-5)


def test_bad_input_is_said():
    with pytest.raises(KroghError, match="length"):
        Inversion(length=0, dimension=2)
    with pytest.raises(KroghError, match="a deviation is one of real numbers"):
        Deviation().check(Parity(n=4, k=2), Mlp(4))
