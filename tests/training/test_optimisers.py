"""Optimisers step by step against Optax, and schedules against their formulas."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from krogh.errors import KroghError
from krogh.models import Mlp
from krogh.tasks import Parity
from krogh.training import Adam, BlockSgd, Constant, Cosine, Inverse, Piecewise, RmsProp, Sgd, Truncated
from krogh.training.losses import square

STEPS = 60
MODEL, TASK = Mlp(6, output_bias=True), Parity(n=6, k=2)


def stacked(values):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *values)


@pytest.fixture(scope="module")
def start():
    """Initial parameters, and a batch for every step."""
    params = jax.jit(lambda: MODEL.init(jax.random.key(1), TASK))()
    examples = jax.jit(lambda: TASK.batch(jax.random.key(2), STEPS * 8))()
    x, y = np.asarray(examples.x).reshape(STEPS, 8, 6), np.asarray(examples.y).reshape(STEPS, 8)
    return jax.tree.map(np.asarray, params), x, y


@jax.jit
def gradient(params, x, y):
    return jax.grad(lambda params: jnp.mean(square(MODEL.predict(params, x), y)))(params)


def ours(optimiser, params, x, y):
    """Parameters after every step."""

    def step(carry, inputs):
        params, memory = carry
        number, x, y = inputs
        params, memory = optimiser.update(gradient(params, x, y), memory, params, number)
        return (params, memory), params

    inputs = (jnp.arange(STEPS, dtype=jnp.int32), x, y)
    return jax.lax.scan(step, (params, optimiser.init(params)), inputs)[1]


def theirs(transform, params, x, y):
    """The same by Optax."""

    def step(carry, inputs):
        params, state = carry
        updates, state = transform.update(gradient(params, *inputs), state, params)
        params = optax.apply_updates(params, updates)
        return (params, state), params

    return jax.lax.scan(step, (params, transform.init(params)), (x, y))[1]


run_ours = jax.jit(ours)
run_many = jax.jit(jax.vmap(ours, in_axes=(0, None, None, None)))


def run_optax(transform, start):
    with jax.numpy_dtype_promotion("standard"):  # Optax mixes its counter with floats
        return jax.jit(lambda *args: theirs(transform, *args))(*start)


def distance(a, b) -> float:
    assert set(a) == set(b)
    return max(float(np.abs(np.asarray(a[name]) - np.asarray(b[name])).max()) for name in a)


def coupled(rate, decay):
    return optax.chain(optax.add_decayed_weights(decay), optax.sgd(rate))


# Sgd.


@pytest.mark.parametrize("rate", [0.01, 0.2])
def test_sgd_is_optax_sgd(start, rate):
    found, expected = run_ours(Sgd(rate), *start), run_optax(optax.sgd(rate), start)
    assert distance(found, expected) < 1e-6
    assert float(np.abs(np.asarray(found["W"])[-1] - start[0]["W"]).max()) > 10 * rate * 1e-2, "it moves"


def test_many_rates_and_decays_share_a_program(start):
    settings = [(0.05, 0.0), (0.1, 1e-3), (0.2, 0.02), (0.0, 0.1)]
    many = run_many(stacked([Sgd(rate, decay=decay) for rate, decay in settings]), *start)
    for place, (rate, decay) in enumerate(settings):
        one = jax.tree.map(lambda leaf, at=place: np.asarray(leaf)[at], many)
        assert distance(one, run_ours(Sgd(rate, decay=decay), *start)) < 1e-6
        if rate > 0:
            assert distance(one, run_optax(coupled(rate, decay / rate), start)) < 1e-6


def test_the_decay_is_the_source_s_and_not_multiplied_by_the_rate(start):
    """θ ← (1-λ)θ - η∇ with η = 0 shrinks by (1-λ) per step; a coupled decay would not move at all."""
    decay = 0.1
    found = run_ours(Sgd(0.0, decay=decay), *start)
    shrink = (1 - np.float32(decay)) ** np.arange(1, STEPS + 1)
    for name, first in start[0].items():
        expected = np.multiply.outer(shrink, first)
        assert np.abs(np.asarray(found[name]) - expected).max() < 1e-6
    assert distance(run_ours(Sgd(0.1, decay=0.02), *start), run_optax(coupled(0.1, 0.2), start)) < 1e-6
    assert distance(run_ours(Sgd(0.1, decay=0.02), *start), run_optax(coupled(0.1, 0.02), start)) > 1e-3


def test_rates_and_decays_by_layer(start):
    optimiser = Sgd(0.1, decay=0.01, layer_rate={"u": 0.02, "b": 0.0}, layer_decay={"W": 0.05, "b": 0.0})
    rates = {"W": 0.1, "b": 0.0, "u": 0.02, "c": 0.1}
    decays = {"W": 0.05, "b": 0.0, "u": 0.01, "c": 0.01}

    def apart(name):  # shrink by λ whatever the rate is, then step by η
        shrink = optax.add_decayed_weights(decays[name])
        return optax.chain(optax.scale(rates[name]), shrink, optax.scale(-1.0))

    transform = optax.multi_transform({name: apart(name) for name in rates}, {name: name for name in rates})
    found = run_ours(optimiser, *start)
    assert distance(found, run_optax(transform, start)) < 1e-6
    assert np.array_equal(np.asarray(found["b"])[-1], start[0]["b"]), "a layer with rate and decay 0 is frozen"


def test_a_layer_the_model_does_not_have_is_refused():
    names = {"W", "b", "u"}
    Sgd(0.1, layer_rate={"W": 1.0}).check(names)
    with pytest.raises(KroghError, match=r"layer 'U'.*known: W, b, u"):
        Sgd(0.1, layer_rate={"U": 1.0}).check(names)
    with pytest.raises(KroghError, match="layer 'v'"):
        Sgd(0.1, layer_decay={"v": 1.0}).check(names)


# RmsProp.


@pytest.mark.parametrize(("clip", "smoothing"), [(None, 0.99), (0.05, 0.9)])
def test_rmsprop_is_optax_rmsprop(start, clip, smoothing):
    rate = 0.003
    own = optax.rmsprop(rate, decay=smoothing, eps=1e-8, eps_in_sqrt=False)
    transform = own if clip is None else optax.chain(optax.clip_by_global_norm(clip), own)
    found = run_ours(RmsProp(rate, smoothing, clip=clip), *start)
    assert distance(found, run_optax(transform, start)) < 2e-6
    assert float(np.abs(np.asarray(found["W"])[-1] - start[0]["W"]).max()) > 10 * rate, "it moves"
    if clip is not None:
        norms = np.sqrt(
            sum((np.asarray(leaf) ** 2).sum() for leaf in gradient(start[0], start[1][0], start[2][0]).values())
        )
        assert norms > clip, "it is clipped"


def test_many_rmsprops_share_a_program(start):
    settings = [(0.01, 0.99), (0.001, 0.5)]
    many = run_many(stacked([RmsProp(*one, clip=5.0) for one in settings]), *start)
    for place, one in enumerate(settings):
        own = jax.tree.map(lambda leaf, at=place: np.asarray(leaf)[at], many)
        assert distance(own, run_ours(RmsProp(*one, clip=5.0), *start)) < 1e-6


def test_rmsprop_refuses_what_makes_no_sense():
    for options, words in (({"smoothing": 1.0}, "smoothing"), ({"clip": 0.0}, "clip"), ({"epsilon": -1.0}, "epsilon")):
        with pytest.raises(KroghError, match=words):
            RmsProp(0.1, **options)


# Adam.


@pytest.mark.parametrize(("rate", "decay"), [(0.01, 0.0), (0.01, 0.3)])
def test_adam_is_optax_adamw(start, rate, decay):
    half = {"b1": jnp.float32(0.9), "b2": jnp.float32(0.999)}  # rounded to float32 as ours are
    transform = optax.adamw(rate, weight_decay=decay, **half) if decay else optax.adam(rate, **half)
    found = run_ours(Adam(rate, decay=decay), *start)
    assert distance(found, run_optax(transform, start)) < 1e-6


def test_adam_with_other_moments(start):
    found = run_ours(Adam(0.01, b1=0.5, b2=0.75, epsilon=1e-3), *start)
    assert distance(found, run_optax(optax.adam(0.01, 0.5, 0.75, 1e-3), start)) < 1e-6


def test_many_adams_share_a_program(start):
    settings = [(1e-3, 0.0, 0.9), (0.01, 0.1, 0.9), (0.01, 0.0, 0.5)]
    each = [Adam(rate, decay=decay, b1=b1) for rate, decay, b1 in settings]
    many = run_many(stacked(each), *start)
    for place, optimiser in enumerate(each):
        one = jax.tree.map(lambda leaf, at=place: np.asarray(leaf)[at], many)
        assert distance(one, run_ours(optimiser, *start)) < 1e-6


def test_the_first_adam_step_has_the_size_of_the_rate(start):
    """Bias correction makes the first step ±η whatever the gradient's size."""
    moved = np.asarray(run_ours(Adam(0.01), *start)["W"])[0] - start[0]["W"]
    large = np.abs(np.asarray(gradient(start[0], start[1][0], start[2][0])["W"])) > 1e-4
    assert large.any() and np.allclose(np.abs(moved[large]), 0.01, rtol=1e-3)


# Schedules.

T = np.arange(0, 40)
PIECES = (5, 6, 20), (1.0, 0.5, 2.0, 0.1)


def factors(schedule, steps=T) -> np.ndarray:
    every = jax.jit(lambda schedule, steps: jax.vmap(schedule.factor)(steps))
    return np.asarray(every(schedule, jnp.asarray(steps, jnp.int32)))


def piecewise_formula(boundaries, values, steps=T):
    return np.array([values[sum(t >= boundary for boundary in boundaries)] for t in steps])


def cosine_formula(horizon, warmup, steps=T):
    def at(t):
        if t < warmup:
            return (t + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * min((t - warmup) / (horizon - warmup), 1.0)))

    return np.array([at(t) for t in steps])


def test_constant_is_one():
    assert np.array_equal(factors(Constant()), np.ones(len(T)))


@pytest.mark.parametrize("pieces", [PIECES, ((10,), (1.0, 0.0)), ((1, 2, 3), (4.0, 3.0, 2.0, 1.0))])
def test_piecewise_changes_exactly_at_its_boundaries(pieces):
    assert np.allclose(factors(Piecewise(*pieces)), piecewise_formula(*pieces))


def test_piecewise_without_boundaries_is_constant():
    assert np.allclose(factors(Piecewise((), (0.3,))), 0.3)


@pytest.mark.parametrize(("horizon", "warmup"), [(30, 0), (30, 10), (39, 1), (25, 24)])
def test_cosine_rises_and_falls(horizon, warmup):
    found = factors(Cosine(horizon, warmup))
    assert np.abs(found - cosine_formula(horizon, warmup)).max() < 1e-6
    assert found[horizon:].max() < 1e-6 and found.max() == pytest.approx(1.0)
    if warmup:
        assert found[warmup - 1] == pytest.approx(1.0)


def test_cosine_never_exceeds_the_base_rate():
    assert factors(Cosine(20.0, 2.5)).max() <= 1.0


def test_schedules_can_be_closed_over():
    assert float(jax.jit(lambda t: Piecewise(*PIECES).factor(t))(jnp.int32(5))) == 0.5


def test_many_schedules_share_a_program():
    both = stacked([Piecewise((3,), (1.0, 2.0)), Piecewise((7,), (3.0, 4.0))])
    found = jax.vmap(lambda schedule: schedule.factor(jnp.int32(5)))(both)
    assert found.tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    ("schedule", "formula"),
    [
        (Piecewise(*PIECES), lambda t: piecewise_formula(*PIECES, steps=[t])[0]),
        (Cosine(50, 7), lambda t: cosine_formula(50, 7, steps=[t])[0]),
    ],
)
def test_schedules_act_at_the_right_step(start, schedule, formula):
    table = jnp.asarray([formula(t) for t in range(STEPS)], jnp.float32)
    rate, decay = 0.1, 0.05
    scheduled = run_ours(Sgd(rate, schedule=schedule), *start)
    assert distance(scheduled, run_optax(optax.sgd(lambda t: rate * table[t]), start)) < 1e-6
    shrunk = run_ours(Sgd(0.0, decay=decay, decay_schedule=schedule), *start)
    expected = np.multiply.outer(np.cumprod(1 - decay * np.asarray(table)), start[0]["W"])
    assert np.abs(np.asarray(shrunk["W"]) - expected).max() < 1e-5


def test_adam_follows_its_schedule(start):
    table = jnp.asarray(cosine_formula(50, 7, steps=range(STEPS)), jnp.float32)
    adam = run_ours(Adam(0.01, b1=0.5, b2=0.75, epsilon=1e-3, schedule=Cosine(50, 7)), *start)
    transform = optax.adam(lambda t: 0.01 * table[t], 0.5, 0.75, 1e-3)
    assert distance(adam, run_optax(transform, start)) < 1e-6


def test_the_one_step_schedule_of_theorem_5_5(start):
    """λ_0 = 1 erases the weights once; afterwards W and b are frozen and u is trained."""
    once = Piecewise((1,), (1.0, 0.0))
    optimiser = Sgd(0.5, layer_decay={"W": 1.0}, schedule=once, decay_schedule=once)
    found = run_ours(optimiser, *start)
    first = gradient(start[0], start[1][0], start[2][0])
    for place in (0, 1, STEPS - 1):
        assert np.allclose(np.asarray(found["W"])[place], -0.5 * np.asarray(first["W"]), atol=1e-6)
        assert np.allclose(np.asarray(found["b"])[place], start[0]["b"] - 0.5 * np.asarray(first["b"]), atol=1e-6)


# What wraps an optimiser.


def test_truncation_zeroes_small_entries_and_nothing_else(start):
    first = gradient(start[0], start[1][0], start[2][0])
    cut = float(np.median(np.abs(np.asarray(first["W"]))))
    found = run_ours(Truncated(Sgd(0.1, decay=0.5), cut), *start)
    for name, leaf in first.items():
        g = np.asarray(leaf)
        expected = 0.5 * start[0][name] - np.float32(0.1) * np.where(np.abs(g) > np.float32(cut), g, 0.0)
        assert np.abs(np.asarray(found[name])[0] - expected).max() < 1e-6
    assert distance(run_ours(Truncated(Adam(0.01), 0.0), *start), run_ours(Adam(0.01), *start)) < 1e-6


def test_truncations_of_many_sizes_share_a_program(start):
    sizes = [0.0, 0.05, 10.0]
    many = run_many(stacked([Truncated(Sgd(0.1), size) for size in sizes]), *start)
    for place, size in enumerate(sizes):
        one = jax.tree.map(lambda leaf, at=place: np.asarray(leaf)[at], many)
        assert distance(one, run_ours(Truncated(Sgd(0.1), size), *start)) < 1e-6
    still = jax.tree.map(lambda leaf: np.asarray(leaf)[2, -1], many)
    assert all(np.array_equal(still[name], start[0][name]) for name in still), "nothing exceeds 10"


def test_inverse_steps_forget_the_start_and_average(start):
    """θ ← (1 - 1/t)θ - ∇/(λt) is -1/λ times the mean of all gradients so far."""
    assert np.allclose(factors(Inverse()), 1 / (T + 1))
    forgetful = Sgd(2.0, decay=1.0, schedule=Inverse(), decay_schedule=Inverse())
    found, params, total = run_ours(forgetful, *start), start[0], None
    for place in range(3):
        now = gradient(params, start[1][place], start[2][place])
        total = now if total is None else jax.tree.map(lambda a, b: a + b, total, now)
        params = jax.tree.map(lambda leaf, at=place: np.asarray(leaf)[at], found)
        assert distance(params, jax.tree.map(lambda leaf, of=place + 1: -2.0 * leaf / of, total)) < 1e-5


def test_layers_are_checked_inside():
    with pytest.raises(KroghError, match=r"layer 'U'.*known: W, b, u"):
        Truncated(Sgd(0.1, layer_rate={"U": 1.0}), 0.1).check({"W", "b", "u"})


# Bad input.


@pytest.mark.parametrize(
    ("build", "echo"),
    [
        (lambda: Sgd(-0.1), "rate=-0.1"),
        (lambda: Sgd(math.nan), "rate=nan"),
        (lambda: Sgd(math.inf), "rate=inf"),
        (lambda: Sgd(1e300), "rate=inf"),
        (lambda: Sgd("fast"), "float32 number; got 'fast'"),
        (lambda: Sgd(None), "float32 number; got None"),
        (lambda: Sgd(True), "float32 number; got True"),
        (lambda: Sgd(0.1, decay=-1), "decay=-1"),
        (lambda: Sgd(0.1, layer_rate={"W": -2}), r"layer_rate\['W'\]=-2"),
        (lambda: Sgd(0.1, layer_decay={"u": math.nan}), r"layer_decay\['u'\]=nan"),
        (lambda: Sgd(0.1, layer_rate={"W": "x"}), "got 'x'"),
        (lambda: Adam(-1), "rate=-1"),
        (lambda: Adam(0.1, b1=1.0), "b1=1.0"),
        (lambda: Adam(0.1, b2=-0.5), "b2=-0.5"),
        (lambda: Adam(0.1, epsilon=-1e-8), "epsilon=-1e-08"),
        (lambda: Adam(0.1, decay=math.inf), "decay=inf"),
        (lambda: Piecewise((1, 2), (1.0, 1.0)), r"\(2,\)"),
        (lambda: Piecewise((2, 2), (1.0, 1.0, 1.0)), r"\[2, 2\]"),
        (lambda: Piecewise((5, 3), (1.0, 1.0, 1.0)), r"\[5, 3\]"),
        (lambda: Piecewise((1.5,), (1.0, 1.0)), r"int32 number; got \(1\.5,\)"),
        (lambda: Truncated(Sgd(0.1), -1.0), "threshold=-1"),
        (lambda: Cosine(10, 10), "warmup=10.*horizon=10"),
        (lambda: Cosine(10, -1), "warmup=-1"),
        (lambda: Cosine(0), "horizon=0"),
    ],
)
def test_bad_values_are_refused_with_what_was_given(build, echo):
    with pytest.raises(KroghError, match=echo):
        build()


def test_block_rates_are_those_of_the_theorem():
    """η_i = scale / ∏_{l≠i} ‖w_l‖_1, block by block; a block of zeros is divided by nowhere."""
    rng = np.random.default_rng(0)
    weights, gradient = (rng.normal(size=(3, 4)).astype(np.float32) for _ in range(2))
    weights[1] = 0.0
    weights[1, 0] = -2.0
    moved, memory = BlockSgd(0.5).update({"w": jnp.asarray(gradient)}, (), {"w": jnp.asarray(weights)}, jnp.int32(7))
    sizes = np.abs(weights).sum(axis=1)
    for i in range(3):
        rate = 0.5 / np.prod(np.delete(sizes, i))
        np.testing.assert_allclose(moved["w"][i], weights[i] - rate * gradient[i], rtol=1e-6)
    assert memory == () and BlockSgd(0.5).init({"w": jnp.asarray(weights)}) == ()


def test_block_rates_are_for_one_parameter_and_not_negative():
    BlockSgd(0.5).check({"w"})
    with pytest.raises(KroghError, match="'w'; got"):
        BlockSgd(0.5).check({"w", "b"})
    with pytest.raises(KroghError, match="scale"):
        BlockSgd(-1.0)
