"""The diagonal state-space layer: the scan against a loop, formula, stability, how it is drawn."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import in_double, random_params

from krogh.errors import KroghError
from krogh.models.state_space import StateSpace, linear_recurrence
from krogh.tasks import MarkovChains, Parity
from krogh.tasks.token_regression import TokenRegression

KEY = jax.random.key(5)
TASK = TokenRegression.example()
LENGTH, FEATURES = TASK.input_shape
QUICK = {"xla_backend_optimization_level": 0}  # compiling costs more here than running

predict = jax.jit(lambda model, params, x: model.predict(params, x), compiler_options=QUICK)
recur = jax.jit(linear_recurrence, compiler_options=QUICK)
states = jax.jit(lambda model, params, x: model.states(params, x), compiler_options=QUICK)
SMALL = StateSpace(state=5, width=4, hidden=7)


def naive_state_space(model, p, x):
    """Position by position in both directions, in complex arithmetic."""
    gate = 1 / (1 + np.exp(-(x @ p["G"].T + p["g"])))
    v = (x @ p["E"].T + p["e"]) * gate
    seen = p["D"] * v
    for direction in range(2):
        modulus = np.exp(-np.exp(p["nu"][direction]))
        eigenvalue = modulus * np.exp(1j * p["theta"][direction])
        B = p["B_re"][direction] + 1j * p["B_im"][direction]
        C = p["C_re"][direction] + 1j * p["C_im"][direction]
        h = np.zeros(len(modulus), complex)
        for i in range(len(x)) if direction == 0 else reversed(range(len(x))):
            h = eigenvalue * h + np.sqrt(1 - modulus**2) * (B @ v[i])
            seen[i] += (C @ h).real
    smooth = np.array([[s * 0.5 * (1 + math.erf(s / math.sqrt(2))) for s in row] for row in seen])
    return np.array([p["u"] @ np.maximum(p["W"] @ row + p["b"], 0.0) + p["c"] for row in smooth])


def some_params(model, dtype=np.float64):
    return random_params(TASK, model, dtype)


def some_x(length=LENGTH, dtype=np.float64):
    return np.random.default_rng(2).normal(size=(4, length, FEATURES)).astype(dtype)


@pytest.mark.parametrize("length", [1, 5, 6])
def test_predictions_follow_the_formula(length):
    params, x = some_params(SMALL), some_x(length)
    out = in_double(predict, SMALL, params, x)
    np.testing.assert_allclose(out, [naive_state_space(SMALL, params, row) for row in x], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 7, 33])
def test_the_associative_scan_is_the_loop(length):
    random = np.random.default_rng(length)
    factor = random.normal(size=(1, 2, 3)) + 1j * random.normal(size=(1, 2, 3))
    factor *= 0.9 / np.abs(factor)
    given = random.normal(size=(length, 2, 3)) + 1j * random.normal(size=(length, 2, 3))
    h, expected = np.zeros((2, 3), complex), []
    for row in given:
        h = factor[0] * h + row
        expected.append(h)
    with jax.enable_x64(True):
        out = np.asarray(recur(factor, given))
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


def test_everyone_hears_of_a_changed_token():
    params, x = some_params(SMALL), some_x()
    out = in_double(predict, SMALL, params, x)
    for place in (0, LENGTH - 1):
        changed = x.copy()
        changed[:, place] += 1.0
        assert (np.abs(in_double(predict, SMALL, params, changed) - out).max(axis=0) > 1e-9).all()


def test_each_direction_has_read_its_own_side():
    params, v = some_params(SMALL), np.random.default_rng(6).normal(size=(2, LENGTH, 4))
    changed = v.copy()
    changed[:, 2] += 1.0
    moved = (
        np.abs(in_double(states, SMALL, params, changed) - in_double(states, SMALL, params, v)).max(axis=(1, 3)) > 1e-12
    )
    assert moved[0].tolist() == [False, False] + [True] * (LENGTH - 2)
    assert moved[1].tolist() == [True] * 3 + [False] * (LENGTH - 3)


def test_states_keep_their_size_whatever_the_eigenvalues():
    """Fed with white noise, E|h|² tends to (1-|λ|²)·|B|²/(1-|λ|²) = |B|²: γ takes the memory's length out."""
    model = StateSpace(state=6, width=1)
    params = some_params(model)
    params["nu"] = np.log(-np.log(np.array([[0.1, 0.5, 0.8, 0.9, 0.3, 0.95]] * 2)))
    params["B_re"][:], params["B_im"][:] = 1.0, 0.0
    v = np.random.default_rng(0).normal(size=(4000, 60, 1))
    power = (np.abs(in_double(states, model, params, v)) ** 2).mean(axis=1)
    np.testing.assert_allclose(power[0, -1], 1.0, rtol=0.12)  # the spread is up to √(2/4000), six numbers of it
    np.testing.assert_allclose(power[1, 0], 1.0, rtol=0.12)


def test_no_parameters_make_it_unstable():
    model, x = SMALL, some_x(100, np.float32)
    params = some_params(model, np.float32)
    for nu in (-20.0, -3.0, 4.0):
        params["nu"][:] = nu
        assert np.isfinite(predict(model, params, x)).all()


def test_eigenvalues_are_drawn_uniformly_on_a_ring():
    model = StateSpace(state=4000, width=2, hidden=2, inner=0.5, outer=0.9, phase=1.5)
    params = jax.tree.map(np.asarray, jax.jit(lambda: model.init(KEY, TASK), compiler_options=QUICK)())
    modulus, angle = np.exp(-np.exp(params["nu"].astype(np.float64))), params["theta"]
    assert modulus.min() >= 0.5 - 1e-6 and modulus.max() <= 0.9 + 1e-6
    assert angle.min() >= 0 and angle.max() <= 1.5
    share = ((modulus**2 - 0.25) / (0.81 - 0.25)).ravel()  # uniform in area
    for drawn, name in ((share, "area"), (angle.ravel() / 1.5, "angle")):
        distance = np.abs(np.sort(drawn) - np.arange(drawn.size) / drawn.size).max()
        assert distance < 2 / math.sqrt(drawn.size), name  # Kolmogorov: exceeded once in 1500
    for name, variance in (("B_re", 1 / 4), ("B_im", 1 / 4), ("C_re", 1 / 8000), ("C_im", 1 / 8000)):
        assert params[name].var() == pytest.approx(variance, rel=4.5 * math.sqrt(2 / params[name].size)), name


def test_parameters_are_real_and_named():
    params = jax.tree.map(np.asarray, jax.jit(lambda: SMALL.init(KEY, TASK), compiler_options=QUICK)())
    assert all(leaf.dtype == np.float32 for leaf in params.values())
    assert {name: leaf.shape for name, leaf in params.items()} == {
        **dict.fromkeys("EG", (4, FEATURES)),
        **dict.fromkeys("egD", (4,)),
        **dict.fromkeys(("nu", "theta"), (2, 5)),
        **dict.fromkeys(("B_re", "B_im"), (2, 5, 4)),
        **dict.fromkeys(("C_re", "C_im"), (2, 4, 5)),
        "W": (7, 4),
        "b": (7,),
        "u": (7,),
        "c": (),
    }
    for name, fan_in in {**dict.fromkeys("EeGg", FEATURES), **dict.fromkeys("Wb", 4), **dict.fromkeys("uc", 7)}.items():
        assert np.abs(params[name]).max() <= 1 / math.sqrt(fan_in) * (1 + 1e-6), name


def test_gradients_are_finite_and_reach_every_parameter():
    x = jnp.asarray(some_x(dtype=np.float32))
    gradient = jax.jit(jax.grad(lambda p: jnp.mean(SMALL.predict(p, x) ** 2)), compiler_options=QUICK)(
        some_params(SMALL, np.float32)
    )
    for name, leaf in gradient.items():
        assert leaf.dtype == np.float32 and np.isfinite(leaf).all() and np.abs(leaf).max() > 1e-7, name


def test_bad_values_and_tasks_are_refused():
    for build, echo in (
        (lambda: StateSpace(state=0), "state=0"),
        (lambda: StateSpace(width=0), "width=0"),
        (lambda: StateSpace(hidden=-1), "hidden=-1"),
        (lambda: StateSpace(inner=0.95, outer=0.9), "inner=0.95, outer=0.9 .try inner=0.9"),
        (lambda: StateSpace(outer=1.0), "outer=1.0"),
        (lambda: StateSpace(phase=0.0), "phase=0.0"),
        (lambda: StateSpace(phase=7.0), "at most 2π = 6.2832; got phase=7.0"),
        (lambda: StateSpace().check(Parity(n=8, k=2)), "state-space model reads sequences.*got the task 'parity'"),
    ):
        with pytest.raises(KroghError, match=echo):
            build()


def test_symbols_are_read_as_one_hot_vectors_and_answered_by_a_logit_per_class():
    """In one direction: as in two of which nothing is read from the second."""
    task, model = MarkovChains(k=3, length=5), StateSpace(state=5, width=4, hidden=7, bidirectional=False)
    model.check(task)
    params, x = random_params(task, model), np.random.default_rng(4).integers(0, 3, (4, 5)).astype(np.int32)
    assert params["nu"].shape == (1, 5) and params["u"].shape == (3, 7) and params["c"].shape == (3,)
    out = in_double(predict, model, params, x)
    both = {name: np.concatenate([params[name]] * 2) for name in ("nu", "theta", "B_re", "B_im")}
    both |= {name: np.concatenate([params[name], 0 * params[name]]) for name in ("C_re", "C_im")}
    for c in range(3):
        of_class = {**params, **both, "u": params["u"][c], "c": params["c"][c]}
        expected = [naive_state_space(model, of_class, np.eye(3)[row]) for row in x]
        np.testing.assert_allclose(out[..., c], expected, rtol=1e-11, atol=1e-12)
