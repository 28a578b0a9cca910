"""The ReLU Elman network of the theory: initial variances, predictions against a plain loop, what training moves."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from support import in_double, random_params

from krogh.engine import Given, Trial, Weights
from krogh.engine.inheriting import identity_of
from krogh.errors import KroghError
from krogh.lab.runs import run
from krogh.models.elman import ElmanRnn, elman_states
from krogh.tasks import Parity
from krogh.tasks.token_regression import TokenRegression
from krogh.training import Online, Sgd, Stopping, Training

KEY = jax.random.key(3)
TASK = TokenRegression.example()
N, FEATURES = TASK.input_shape
X = np.random.default_rng(0).standard_normal((5, N, FEATURES)).astype(np.float32)


predict = jax.jit(lambda model, params, x: model.predict(params, x))


def naive_outputs(params, x, scale=1.0):
    """λ B h_l at every position [batch, L], one sequence after the other."""
    found = []
    for sequence in x.astype(np.float64):
        h, own = np.zeros(len(params["W"])), []
        for one in sequence:
            h = np.maximum(params["W"] @ h + params["A"] @ one, 0)
            own.append(scale * params["B"] @ h)
        found.append(own)
    return np.array(found)


def test_elman_rnn_starts_with_the_variances_of_the_sources():
    model = ElmanRnn(width=300, reads=N)
    params = {name: np.asarray(value) for name, value in model.init(KEY, TASK).items()}
    for name, variance in (("W", 2 / 300), ("A", 2 / 300), ("B", 1.0)):
        value = params[name]
        assert abs(value.var() / variance - 1) < 5 * np.sqrt(2 / value.size), name
        assert abs(value.mean()) < 5 * np.sqrt(variance / value.size), name
    printed = ElmanRnn(width=300, reads=N, spread=2.0, variance=1.0).init(KEY, TASK)
    np.testing.assert_allclose(printed["B"], np.sqrt(2) * params["B"], rtol=1e-6)
    np.testing.assert_allclose(printed["W"], np.sqrt(150) * params["W"], rtol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_elman_rnn_predicts_what_a_plain_loop_does(scale):
    model = ElmanRnn(width=8, reads=N, scale=scale)
    params = random_params(TASK, model, np.float32)
    found = predict(model, params, X)
    double = in_double(predict, model, random_params(TASK, model), X)
    np.testing.assert_allclose(double, naive_outputs(random_params(TASK, model), X, scale), rtol=1e-6)
    np.testing.assert_allclose(found, naive_outputs(params, X, scale), rtol=2e-4, atol=2e-4)
    at_end = ElmanRnn(width=8, scale=scale)
    params = random_params(TASK, at_end, np.float32)
    assert params["B"].shape == (N, 8), "one answer, of as many numbers as the label has"
    np.testing.assert_allclose(predict(at_end, params, X), naive_outputs(params, X, scale)[:, -1], rtol=2e-4, atol=2e-4)


def test_elman_states_are_all_states():
    params = random_params(TASK, ElmanRnn(width=8, reads=N), np.float32)
    h = np.asarray(jax.jit(elman_states)(params["W"], params["A"], X))
    assert h.shape == (N, len(X), 8) and h.min() == 0
    np.testing.assert_allclose(np.einsum("lbm,m->bl", h, params["B"]), naive_outputs(params, X), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(
    ("frozen", "moves"), [(("A", "B"), {"W"}), pytest.param(("B",), {"W", "A"}, marks=pytest.mark.slow)]
)
def test_training_moves_w_alone_or_w_and_a_and_never_b(frozen, moves):
    stopping = Stopping(budget=20, error=1e-9, validation=8, check_every=10)
    training = Training(Sgd(0.01), Online(4), stopping, loss="square", frozen=frozen)
    model = ElmanRnn(width=8, reads=N)
    before = random_params(TASK, model, np.float32)
    trial, kept = Trial(TASK, model, training, start=Given(before)), Weights()
    run([trial], weights=kept)
    after = kept(identity_of(trial))
    assert {name for name in before if not np.array_equal(before[name], after[name])} == moves


def test_elman_rnn_refuses_what_it_cannot_read_or_answer():
    with pytest.raises(KroghError, match="reads sequences of shape"):
        ElmanRnn(width=4).check(Parity(n=4, k=2))
    ElmanRnn(width=4).check(TASK)
    with pytest.raises(KroghError, match=rf"reads=1 answers at the last 1 positions \(try reads={N}\)"):
        ElmanRnn(width=4, reads=1).check(TASK)
    for given, message in (
        ({"width": 0}, "width must be an integer at least 1"),
        ({"width": 3, "reads": -1}, "reads must be an integer at least 0"),
        ({"width": 3, "spread": 0.0}, r"spread must be positive; got spread=0\.0"),
        ({"width": 3, "variance": -1.0}, r"variance must be positive; got variance=-1\.0"),
        ({"width": 3, "scale": 0.0}, r"scale \(λ\) must be positive; got scale=0\.0"),
    ):
        with pytest.raises(KroghError, match=message):
            ElmanRnn(**given)
