"""Gated layers against loops over positions; the recurrence for GPUs against that for CPUs."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import in_double, random_params

from krogh.errors import KroghError
from krogh.models import recurrent as recurrence
from krogh.models.recurrent import GATES, Recurrent
from krogh.tasks import MarkovChains, Parity
from krogh.tasks.token_regression import TokenRegression

KEY = jax.random.key(3)
TASK = TokenRegression.example()
LENGTH, FEATURES = TASK.input_shape
CELLS = sorted(GATES)
QUICK = {"xla_backend_optimization_level": 0}  # compiling costs more here than running

predict = jax.jit(lambda model, params, x: model.predict(params, x), compiler_options=QUICK)
states = jax.jit(lambda model, params, x: model.states(params, x), compiler_options=QUICK)


def logistic(t):
    return 1 / (1 + np.exp(-t))


def naive_recurrent(model, p, x):
    """One token after the other, one direction after the other, as the cells are printed."""
    H, answers = model.hidden, np.zeros(len(x))
    for direction in range(2 if model.bidirectional else 1):
        W, U, b, b_h = (p[name][direction] for name in ("W", "U", "b_W", "b_U"))
        h, memory = np.zeros(H), np.zeros(H)
        for i in range(len(x)) if direction == 0 else reversed(range(len(x))):
            a, m = W.T @ x[i] + b, U.T @ h + b_h
            gate = [slice(place * H, (place + 1) * H) for place in range(len(a) // H)]
            if model.cell == "gru":
                r = logistic(a[gate[0]] + m[gate[0]])
                z = logistic(a[gate[1]] + m[gate[1]])
                n = np.tanh(a[gate[2]] + r * m[gate[2]])
                h = (1 - z) * n + z * h
            elif model.cell == "lstm":
                enter, keep, show = (logistic((a + m)[gate[place]]) for place in (0, 1, 3))
                memory = keep * memory + enter * np.tanh((a + m)[gate[2]])
                h = show * np.tanh(memory)
            else:
                h = np.tanh(a + m) if model.cell == "tanh" else np.maximum(a + m, 0.0)
            answers[i] += p["u"][direction] @ h
    return answers + p["c"]


def some_params(model, dtype=np.float64):
    return random_params(TASK, model, dtype)


def some_x(length=LENGTH, dtype=np.float64):
    return np.random.default_rng(2).normal(size=(4, length, FEATURES)).astype(dtype)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("length", [1, 5])
def test_a_scan_is_the_cell_step_by_step(cell, bidirectional, length):
    model = Recurrent(cell, hidden=7, bidirectional=bidirectional)
    params, x = some_params(model), some_x(length)
    out = in_double(predict, model, params, x)
    np.testing.assert_allclose(out, [naive_recurrent(model, params, row) for row in x], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
def test_states_lie_at_their_positions(cell):
    model = Recurrent(cell, hidden=5)
    params, x = some_params(model, np.float32), some_x(dtype=np.float32)
    held = np.asarray(states(model, params, x))
    assert held.shape == (2, 4, LENGTH, 5)
    read = np.einsum("dbih,dh->bi", held, params["u"]) + params["c"]
    np.testing.assert_allclose(read, predict(model, params, x), atol=2e-5)


@pytest.mark.parametrize("cell", CELLS)
def test_who_hears_of_a_changed_token(cell):
    """Backwards too: everyone. Forwards only: nobody before it."""
    x = some_x(dtype=np.float32)
    changed = x.copy()
    changed[:, 3] += 1.0
    for bidirectional, before in ((True, True), (False, False)):
        model = Recurrent(cell, hidden=16, bidirectional=bidirectional)
        params = some_params(model, np.float32)
        moved = np.abs(np.asarray(predict(model, params, changed) - predict(model, params, x))).max(axis=0) > 0
        assert moved.tolist() == [before] * 3 + [True] * (LENGTH - 3)


@pytest.mark.parametrize(("cell", "bidirectional"), [("gru", True), ("lstm", False)])
def test_every_tensor_is_drawn_uniformly_by_the_hidden_size(cell, bidirectional):
    model, directions = Recurrent(cell, hidden=64, bidirectional=bidirectional), 1 + bidirectional
    params = jax.tree.map(np.asarray, jax.jit(lambda: model.init(KEY, TASK), compiler_options=QUICK)())
    gates = 64 * GATES[cell]
    assert {name: leaf.shape for name, leaf in params.items()} == {
        "W": (directions, FEATURES, gates),
        "U": (directions, 64, gates),
        "b_W": (directions, gates),
        "b_U": (directions, gates),
        "u": (directions, 64),
        "c": (),
    }
    for name, leaf in params.items():
        bound = 1 / math.sqrt(64 * directions if name in ("u", "c") else 64)
        assert np.abs(leaf).max() <= bound * (1 + 1e-6), name
        if leaf.size > 100:
            assert np.abs(leaf).max() > 0.97 * bound, name
            spread = 4.5 * math.sqrt(4 / 5 / leaf.size) * bound**2 / 3
            assert leaf.var() == pytest.approx(bound**2 / 3, abs=spread), name
            assert abs(leaf.mean()) < 4.5 * bound / math.sqrt(3 * leaf.size), name


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_are_finite_and_reach_every_parameter(cell):
    model, x = Recurrent(cell, hidden=6), jnp.asarray(some_x(dtype=np.float32))
    params = some_params(model, np.float32)
    gradient = jax.jit(jax.grad(lambda p: jnp.mean(model.predict(p, x) ** 2)), compiler_options=QUICK)(params)
    for name, leaf in gradient.items():
        assert np.isfinite(leaf).all() and np.abs(leaf).max() > 0, name


def test_the_source_uses_a_bidirectional_gru_of_500():
    assert Recurrent() == Recurrent("gru", 500, True)


def test_bad_values_and_tasks_are_refused():
    with pytest.raises(KroghError, match="unknown cell 'gur'; did you mean 'gru'"):
        Recurrent("gur")
    with pytest.raises(KroghError, match="hidden=0"):
        Recurrent(hidden=0)
    with pytest.raises(KroghError, match=r"recurrent network reads sequences.*got the task 'parity'.*\[8\].*'qstr'"):
        Recurrent().check(Parity(n=8, k=2))
    Recurrent().check(TASK)


@pytest.mark.parametrize("cell", ["gru", "relu", pytest.param("lstm", marks=pytest.mark.slow)])
@pytest.mark.parametrize("length", [2, *(pytest.param(length, marks=pytest.mark.slow) for length in (1, 7))])
def test_the_form_for_a_gpu_has_the_states_and_the_gradients_of_the_plain_loop(cell, length):
    with jax.enable_x64(True):
        directions, batch, hidden = 2, 3, 5
        keys = jax.random.split(jax.random.key(length), 4)
        gates = GATES[cell] * hidden
        given = jax.random.normal(keys[0], (length, directions, batch, gates), jnp.float64)
        U = jax.random.normal(keys[1], (directions, hidden, gates), jnp.float64)
        b_U = jax.random.normal(keys[2], (directions, gates), jnp.float64)
        weights = jax.random.normal(keys[3], (length, directions, batch, hidden), jnp.float64)

        def plain(*inputs):
            return recurrence._run(cell, 1, *inputs)[0]

        def unrolled(*inputs):
            return recurrence._unrolled(cell, *inputs)

        def weighed(form):
            return lambda *inputs: jnp.vdot(weights, form(*inputs) ** 2)

        np.testing.assert_allclose(unrolled(given, U, b_U), plain(given, U, b_U), atol=1e-12)
        expected = jax.grad(weighed(plain), argnums=(0, 1, 2))(given, U, b_U)
        found = jax.grad(weighed(unrolled), argnums=(0, 1, 2))(given, U, b_U)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-10)
        batched = jax.vmap(jax.grad(weighed(unrolled), argnums=1))(*(jnp.stack([x, 2 * x]) for x in (given, U, b_U)))
        np.testing.assert_allclose(batched[0], expected[1], atol=1e-10)


def test_the_state_of_a_loop_written_out_is_the_state():
    given = np.random.default_rng(0).normal(size=(4, 1, 2, 6))
    U, b_U = np.random.default_rng(1).normal(size=(1, 2, 6)), np.random.default_rng(2).normal(size=(1, 6))
    h, found = np.zeros((1, 2, 2)), []
    for i in range(4):
        m = h @ U + b_U[:, None]
        a, m = np.split(given[i], 3, -1), np.split(m, 3, -1)
        r, z = (1 / (1 + np.exp(-(a[j] + m[j]))) for j in (0, 1))
        h = (1 - z) * np.tanh(a[2] + r * m[2]) + z * h
        found.append(h)
    with jax.enable_x64(True):
        form = recurrence._unrolled("gru", *(jnp.asarray(x) for x in (given, U, b_U)))
    np.testing.assert_allclose(form, np.stack(found), atol=1e-12)


def test_symbols_are_read_as_one_hot_vectors_and_answered_by_a_logit_per_class():
    task, model = MarkovChains(k=3, length=5), Recurrent("gru", hidden=4, bidirectional=False)
    model.check(task)
    params, x = random_params(task, model), np.random.default_rng(4).integers(0, 3, (4, 5)).astype(np.int32)
    assert params["u"].shape == (1, 4, 3) and params["c"].shape == (3,)
    out = in_double(predict, model, params, x)
    for c in range(3):
        of_class = {**params, "u": params["u"][..., c], "c": params["c"][c]}
        expected = [naive_recurrent(model, of_class, np.eye(3)[row]) for row in x]
        np.testing.assert_allclose(out[..., c], expected, rtol=1e-12, atol=1e-12)
    with pytest.raises(KroghError, match=r"sequences of symbols.*got the task 'parity'.*'markov-chains'"):
        model.check(Parity(n=8, k=2))
