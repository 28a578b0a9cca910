"""Adam's clipping and its choice of what decays, step by step against Optax; and the gradient of a penalty."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from krogh.engine.checking import constants_of
from krogh.engine.program import start
from krogh.engine.round import train_round
from krogh.engine.trial import Trial
from krogh.errors import KroghError
from krogh.models import Mlp
from krogh.tasks import Parity
from krogh.training import Adam, Population, Sgd, Stopping, Training

STEPS = 40
SHAPES = {"W": (4, 3), "b": (4,), "u": ()}


@pytest.fixture(scope="module")
def gradients():
    """Gradients whose norms run over six orders of magnitude, some exactly 0."""
    random = np.random.default_rng(5)
    sizes = 10.0 ** random.uniform(-3, 3, STEPS)
    sizes[[7, 8]] = 0.0
    drawn = {name: random.standard_normal((STEPS, *shape)) for name, shape in SHAPES.items()}
    scale = {name: sizes.reshape(STEPS, *(1,) * len(shape)) for name, shape in SHAPES.items()}
    return {name: (drawn[name] * scale[name]).astype(np.float32) for name in SHAPES}


FIRST = {
    name: np.linspace(-1, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape) for name, shape in SHAPES.items()
}


@jax.jit
def ours(optimiser, gradients):
    def step(carry, inputs):
        params, memory = carry
        number, gradient = inputs
        params, memory = optimiser.update(gradient, memory, params, number)
        return (params, memory), params

    first = jax.tree.map(jnp.asarray, FIRST)
    inputs = (jnp.arange(STEPS, dtype=jnp.int32), gradients)
    return jax.lax.scan(step, (first, optimiser.init(first)), inputs)[1]


def theirs(transform, gradients):
    def step(carry, gradient):
        params, state = carry
        updates, state = transform.update(gradient, state, params)
        params = optax.apply_updates(params, updates)
        return (params, state), params

    first = jax.tree.map(jnp.asarray, FIRST)
    with jax.numpy_dtype_promotion("standard"):  # Optax mixes its counter with floats
        return jax.jit(lambda gradients: jax.lax.scan(step, (first, transform.init(first)), gradients)[1])(gradients)


def distance(a, b) -> float:
    assert set(a) == set(b)
    return max(float(np.abs(np.asarray(a[name]) - np.asarray(b[name])).max()) for name in a)


def adamw(decay=0.0, mask=None):
    half = {"b1": jnp.float32(0.9), "b2": jnp.float32(0.999)}  # rounded to float32 as ours are
    return optax.adamw(0.02, weight_decay=decay, mask=mask, **half)


@pytest.mark.parametrize("clip", [1e-2, 1.0, 50.0, 1e9])
def test_clipping_is_by_the_norm_of_all_gradients_together(gradients, clip):
    expected = theirs(optax.chain(optax.clip_by_global_norm(clip), adamw()), gradients)
    found = ours(Adam(0.02, clip=clip), gradients)
    assert distance(found, expected) < 1e-5
    unclipped = ours(Adam(0.02), gradients)
    assert (distance(found, unclipped) < 1e-6) == (clip == 1e9)


@pytest.mark.parametrize("decayed", [("W",), ("W", "u"), (), None], ids=str)
def test_only_what_is_named_decays(gradients, decayed):
    mask = None if decayed is None else {name: name in decayed for name in SHAPES}
    expected = theirs(adamw(0.3, mask), gradients)
    found = ours(Adam(0.02, decay=0.3, decayed=decayed), gradients)
    assert distance(found, expected) < 1e-5
    plain = ours(Adam(0.02), gradients)
    for name in SHAPES:
        free = decayed is not None and name not in decayed
        assert np.allclose(found[name], plain[name], atol=1e-6) == free


def test_clipping_comes_before_the_decay(gradients):
    """The decay is not part of the gradient that is clipped."""
    transform = optax.chain(optax.clip_by_global_norm(0.1), adamw(0.3, {"W": True, "b": False, "u": False}))
    found = ours(Adam(0.02, decay=0.3, clip=0.1, decayed=("W",)), gradients)
    assert distance(found, theirs(transform, gradients)) < 1e-5


def test_clips_share_a_program(gradients):
    clips = [0.01, 1.0, 100.0]
    many = jax.tree.map(lambda *leaves: np.stack(leaves), *[Adam(0.02, clip=clip) for clip in clips])
    found = jax.vmap(ours, in_axes=(0, None))(many, gradients)
    for place, clip in enumerate(clips):
        one = jax.tree.map(lambda leaf, place=place: leaf[place], found)
        assert distance(one, ours(Adam(0.02, clip=clip), gradients)) < 1e-6


def test_what_is_refused():
    for clip in (0.0, -1.0, float("nan")):
        with pytest.raises(KroghError, match="clip must be a number > 0"):
            Adam(0.02, clip=clip)
    Adam(0.02, decayed=("W", "b")).check({"W", "b", "u"})
    with pytest.raises(KroghError, match=r"layer 'V'.*known: W, b, u"):
        Adam(0.02, decayed=("W", "V")).check({"W", "b", "u"})
    for penalty in (-0.1, float("nan")):
        with pytest.raises(KroghError, match="penalty must be a number ≥ 0"):
            Training(penalty=penalty)


# --- the penalty ---------------------------------------------------------------------------------------------


@jax.jit
def stepped(trial, params):
    state = start(trial)
    state = state if params is None else state._replace(params=params)
    return state.params, train_round(trial, constants_of(trial), state)


def one_round(penalty, params=None):
    """Parameters before and after one step on the whole population, and the loss of the step."""
    stopping = Stopping(budget=1, check_every=1, validation="exact")
    training = Training(Sgd(rate=0.5), Population(), stopping, "square", penalty)
    trial = Trial(Parity(n=4, k=2), Mlp(3, output_bias=True), training, seed=2)

    before, trained = stepped(trial, params)
    return jax.tree.map(np.asarray, (before, trained.params, trained.loss))


def test_the_penalty_pulls_along_the_unit_vector_of_all_parameters():
    """θ' = θ - η(∇ + λ θ/‖θ‖), and λ‖θ‖ is part of the loss."""
    before, free, loss = one_round(None)
    norm = np.sqrt(sum(float(np.sum(np.square(leaf, dtype=np.float64))) for leaf in before.values()))
    for penalty in (0.0, 0.1, 2.0):
        again, found, penalised = one_round(penalty)
        for name, leaf in before.items():
            np.testing.assert_array_equal(again[name], leaf)
            np.testing.assert_allclose(found[name], free[name] - 0.5 * penalty * leaf / norm, atol=1e-6)
        assert float(penalised) == pytest.approx(float(loss) + penalty * norm, rel=1e-5)


def test_at_the_origin_the_penalty_has_no_slope():
    zeros = {name: jnp.zeros_like(leaf) for name, leaf in one_round(None)[0].items()}
    _, free, loss = one_round(None, zeros)
    _, found, penalised = one_round(3.0, zeros)
    for name in zeros:
        assert np.all(np.isfinite(found[name]))
        np.testing.assert_array_equal(found[name], free[name])
    assert loss == penalised
