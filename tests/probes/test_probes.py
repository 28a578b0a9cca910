"""What each probe measures, against NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.engine import Trial, Weights, sweep
from krogh.engine.trial import DATA
from krogh.errors import KroghError
from krogh.lab.runs import run
from krogh.models import DisjointPolyNet, Mlp, Neuron, ParityTransformer, PolyNet
from krogh.probes import BatchLoss, Error, Moment, Movement, SupportMovement, SupportWeight, TrainingError
from krogh.probes.progress import first_layer
from krogh.tasks import DisjointParity, Examples, Parity
from krogh.training import Offline, Online, Sgd, Stopping, Training

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


def test_training_error_is_against_the_labels_that_are_seen_and_of_the_first_m():
    """A cohort's largest sample leaves room behind the others: what lies there does not count."""
    model, task = PolyNet(1), Parity(n=2, k=1)
    x = jnp.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], jnp.float32)
    params = {"w": jnp.array([[1.0, 0.0]]), "b": jnp.zeros(1)}
    sample = Examples(x, y=jnp.array([-1.0, 1.0, -1.0, 1.0]), truth=x[:, 0])
    seen = moment(model, task, params)
    assert TrainingError().measure(seen._replace(sample=sample)).tolist() == [0.5]
    three = jnp.array([1.0, 1.0, 1.0, 0.0]) / 3
    assert float(TrainingError().measure(seen._replace(sample=sample, weights=three))[0]) == pytest.approx(1 / 3)


@pytest.mark.slow
@pytest.mark.parametrize("m", [7, 24])
def test_training_error_of_a_trial_is_that_of_its_sample(m):
    training = Training(Sgd(0.1), Offline(m, batch_size=4), Stopping(budget=40, validation=64, early=False))
    trial = Trial(Parity(n=8, k=2, noise=0.2), Mlp(16), training, probes=(TrainingError(),))
    kept = Weights()
    row = run(sweep(trial, training__regime__m=sorted({m, 24})), weights=kept).row(0, named=True)
    sample = trial.task.decode(trial.training.regime.whole(trial.task, trial.key(DATA)))
    final = {name: jnp.asarray(leaf) for name, leaf in kept(row["id"]).items()}
    measured = row["curve.training_error"]
    for params, error in ((trial.initial_params(), measured[0]), (final, measured[-1])):
        wrong = np.asarray(trial.model.predict(params, sample.x)) * np.asarray(sample.y) <= 0
        assert len(wrong) == m and error == pytest.approx(wrong.mean(), abs=1e-6)


def test_training_error_needs_a_finite_sample():
    with pytest.raises(KroghError, match="finite sample"):
        Trial(Parity(n=8, k=2), Mlp(4), Training(Sgd(0.1), Online(4)), probes=(TrainingError(),))


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


@pytest.mark.parametrize("name", sorted(CASES))
def test_support_movement_says_whether_the_support_moved_most(name):
    model, task, layer = CASES[name]
    seen = moment(model, task)
    moved = np.abs(np.asarray(seen.params[layer]) - np.asarray(seen.initial[layer])).reshape(-1, task.n).max(axis=0)
    relevant = np.isin(np.arange(task.n), task.support)
    least, most = SupportMovement().measure(seen)
    assert float(least) == pytest.approx(moved[relevant].min()) and float(most) == pytest.approx(moved[~relevant].max())
    top = np.argsort(-moved)[: task.k]
    assert (float(least) > float(most)) == (set(top) == set(np.asarray(task.support).tolist()))
