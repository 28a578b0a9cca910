"""What each probe measures, against NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models import DisjointPolyNet, Mlp, Neuron, ParityTransformer, PolyNet
from krogh.probes import BatchLoss, Error, Moment, Movement, SupportWeight
from krogh.probes.progress import first_layer
from krogh.tasks import DisjointParity, Examples, Parity

CASES = {
    "mlp": (Mlp(5), Parity(n=9, support=(1, 4)), "W"),
    "neuron": (Neuron("sine", 2), Parity(n=9, support=(1, 4)), "w"),
    "polynet": (PolyNet(2), Parity(n=9, support=(0, 8)), "w"),
    "disjoint": (DisjointPolyNet(3), DisjointParity(n=9, k=3, choice=(2, 0, 1)), "w"),
}


def some(model, task, seed: int) -> dict:
    random = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), task))
    return {name: jnp.asarray(random.normal(size=leaf.shape), jnp.float32) for name, leaf in shapes.items()}


def moment(model, task, params=None, initial=None, examples=None, loss=0.0) -> Moment:
    params = some(model, task, 1) if params is None else params
    initial = some(model, task, 2) if initial is None else initial
    nothing = Examples(jnp.ones((1, task.n)), jnp.ones(1), jnp.ones(1))
    return Moment(task, model, params, initial, examples or nothing, jnp.float32(loss), jnp.int32(0))


def test_error_counts_wrong_signs_and_zeros_against_the_truth():
    """f(x) = x_0 + x_1 on (+,+), (+,-), (-,+), (-,-): right, zero, zero, right."""
    model, task = PolyNet(1), Parity(n=2, k=1)
    x = jnp.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], jnp.float32)
    params = {"w": jnp.ones((1, 2)), "b": jnp.zeros(1)}
    noisy = Examples(x, y=-x[:, 0], truth=x[:, 0])
    assert Error().measure(moment(model, task, params, examples=noisy)).tolist() == [0.5]
    flipped = Examples(x, y=x[:, 0], truth=-x[:, 0])
    assert Error().measure(moment(model, task, params, examples=flipped)).tolist() == [1.0]
    exact = {"w": jnp.array([[1.0, 0.0]]), "b": jnp.zeros(1)}
    assert Error().measure(moment(model, task, exact, examples=noisy)).tolist() == [0.0]


@pytest.mark.parametrize("name", sorted(CASES))
def test_error_is_one_minus_the_mean_of_correct(name):
    model, task, _ = CASES[name]
    random = np.random.default_rng(5)
    x = jnp.asarray(random.choice([-1.0, 1.0], (50, task.n)), jnp.float32)
    truth = jnp.asarray(random.choice([-1.0, 1.0], 50), jnp.float32)
    seen = moment(model, task, examples=Examples(x, truth, truth))
    wrong = np.asarray(model.predict(seen.params, x)) * np.asarray(truth) <= 0
    assert float(Error().measure(seen)[0]) == pytest.approx(wrong.mean(), abs=1e-6)
    assert 0 < wrong.mean() < 1


def test_a_prediction_that_is_not_a_number_is_an_error():
    model, task = PolyNet(1), Parity(n=2, k=1)
    params = {"w": jnp.full((1, 2), jnp.nan), "b": jnp.zeros(1)}
    assert Error().measure(moment(model, task, params)).tolist() == [1.0]


def test_batch_loss_is_handed_through():
    model, task, _ = CASES["mlp"]
    assert BatchLoss().measure(moment(model, task, loss=0.625)).tolist() == [0.625]


@pytest.mark.parametrize("name", sorted(CASES))
def test_movement_is_the_largest_change_of_a_first_layer_weight(name):
    model, task, layer = CASES[name]
    seen = moment(model, task)
    expected = np.abs(np.asarray(seen.params[layer]) - np.asarray(seen.initial[layer])).max()
    assert float(Movement().measure(seen)[0]) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize("name", sorted(CASES))
def test_movement_reads_the_first_layer_alone_and_starts_at_zero(name):
    model, task, layer = CASES[name]
    params = some(model, task, 1)
    others = {key: leaf + (0.0 if key == layer else 3.0) for key, leaf in params.items()}
    assert Movement().measure(moment(model, task, others, params)).tolist() == [0.0]


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_first_layer_has_a_column_per_coordinate(name):
    """Without the weights of column i the prediction does not depend on x_i, and with them it does."""
    model, task, layer = CASES[name]
    params = jax.tree.map(np.asarray, some(model, task, 1))
    shape = params[layer].shape
    places = jnp.arange(params[layer].size, dtype=jnp.float32).reshape(shape)
    rows = np.asarray(first_layer(model, task, {layer: places})).astype(int)
    predict = jax.jit(model.predict)
    for i in range(task.n):
        kept = np.ones(params[layer].size, np.float32)
        kept[rows[:, i]] = 0.0
        x = np.ones((2, task.n), np.float32)
        x[1, i] = -1.0
        without = np.asarray(predict({**params, layer: params[layer] * kept.reshape(shape)}, x))
        with_all = np.asarray(predict(params, x))
        assert without[0] == pytest.approx(without[1], rel=1e-5)
        assert with_all[0] != pytest.approx(with_all[1], rel=1e-5)


@pytest.mark.parametrize("name", sorted(CASES))
def test_support_weight_parts_relevant_from_irrelevant(name):
    model, task, _ = CASES[name]
    seen = moment(model, task)
    size = np.abs(np.asarray(first_layer(model, task, seen.params))).max(axis=0)
    relevant = np.isin(np.arange(task.n), np.asarray(task.support))
    expected = [size[relevant].max(), size[~relevant].max()]
    assert np.allclose(SupportWeight().measure(seen), expected)
    assert SupportWeight().columns(task) == ("relevant_weight", "irrelevant_weight")


def test_support_weight_without_irrelevant_coordinates():
    model, task = PolyNet(2), Parity(n=2, k=2)
    relevant, irrelevant = SupportWeight().measure(moment(model, task)).tolist()
    assert relevant > 0 and irrelevant == 0.0


@pytest.mark.parametrize("probe", [Movement(), SupportWeight()])
def test_a_model_without_a_first_layer_is_refused_with_what_it_has(probe):
    with pytest.raises(KroghError, match=r"parity-transformer has \['E', 'K'"):
        probe.check(Parity(n=8, k=2), ParityTransformer(8, heads=2, attention=2))
    for model, task, _ in CASES.values():
        probe.check(task, model)
