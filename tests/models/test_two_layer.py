"""Networks of homogeneous neurons on pairs and on signs against plain NumPy."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.engine.trial import Trial
from krogh.errors import KroghError
from krogh.models import HomogeneousNetwork, PairNetwork, PowerNetwork
from krogh.models.two_layer import network_norm, neuron_norms, power
from krogh.tasks import GroupComposition, Parity, ParityClasses
from krogh.tasks.composition import every_pair
from krogh.training import Population, Sgd, Stopping, Training
from krogh.training.losses import cross_entropy

KEY = jax.random.key(5)
TASK = GroupComposition("S_3")
MODELS = [
    PairNetwork(4),
    PairNetwork(4, "power", 3),
    PairNetwork(4, "power", 4),
    PairNetwork(4, "relu"),
]

QUICK = {"xla_backend_optimization_level": 0}  # compiling costs more here than running

predict = jax.jit(lambda model, params, x: model.predict(params, x), compiler_options=QUICK)


def naive_logits(model: PairNetwork, p: dict, a: int, b: int) -> np.ndarray:
    """Neuron by neuron, with one-hot vectors."""
    n = p["U"].shape[1]
    x1, x2 = np.eye(n)[a], np.eye(n)[b]
    total = np.zeros(n)
    for u, v, w in zip(p["U"], p["V"], p["W"], strict=True):
        z = u @ x1 + v @ x2
        total += (max(z, 0.0) if model.activation == "relu" else z**model.exponent) * w
    return total


def some_params(width: int = 4, n: int = 6, dtype=np.float64) -> dict:
    random = np.random.default_rng(1)
    return {name: random.normal(size=(width, n)).astype(dtype) for name in "UVW"}


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_predictions_follow_the_formula(model):
    """In double precision, for the population (known beforehand) and for pairs that are not."""
    params, pairs = some_params(), every_pair(6)
    expected = np.stack([naive_logits(model, params, *pair) for pair in pairs])
    some = np.array([7, 7, 0, 35, 12])
    with jax.enable_x64(True):
        whole = np.asarray(jax.jit(lambda p: model.predict(p, pairs))(params))
        found = np.asarray(predict(model, params, pairs[some]))
    assert whole.dtype == found.dtype == np.float64
    np.testing.assert_allclose(whole, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found, expected[some], rtol=1e-12, atol=1e-12)


def test_a_list_that_is_not_the_population_is_read_as_it_is():
    """As long as the population, but in another order, or shorter."""
    model, params = PairNetwork(4), some_params(dtype=np.float32)
    whole = np.asarray(model.predict(jax.tree.map(jnp.asarray, params), every_pair(6)))
    order = np.random.default_rng(0).permutation(36)
    found = model.predict(jax.tree.map(jnp.asarray, params), every_pair(6)[order])
    np.testing.assert_allclose(found, whole[order], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_the_degree_of_homogeneity(model):
    params = some_params()
    degree = {"quadratic": 3, "power": model.exponent + 1, "relu": 2}[model.activation]
    assert model.homogeneity == degree
    with jax.enable_x64(True):
        once, scaled = (predict(model, {k: c * p for k, p in params.items()}, every_pair(6)) for c in (1.0, 1.7))
    np.testing.assert_allclose(scaled, 1.7**degree * np.asarray(once), rtol=1e-10)


def test_a_neuron_is_all_it_reads_and_writes_with():
    params = some_params()
    neurons = np.asarray(PairNetwork(4).neurons(jax.tree.map(jnp.asarray, params)))
    assert neurons.shape == (4, 18)
    np.testing.assert_allclose(neurons, np.concatenate([params["U"], params["V"], params["W"]], axis=1), rtol=1e-6)


def test_weights_are_drawn_by_their_fan_in():
    """Uniform ±1/√(2n) into the neurons, of both one-hot vectors, and ±1/√width out of them."""
    params = jax.tree.map(np.asarray, PairNetwork(3000).init(KEY, TASK))
    for name, fan_in in (("U", 12), ("V", 12), ("W", 3000)):
        bound = 1 / math.sqrt(fan_in)
        assert 0.99 * bound < np.abs(params[name]).max() <= bound * (1 + 1e-6), name
        assert params[name].var() == pytest.approx(bound**2 / 3, rel=0.03), name
    assert np.abs(np.asarray(PairNetwork(9, initialiser="gaussian").init(KEY, TASK)["U"])).max() > 1 / math.sqrt(12)


def test_training_can_begin_at_given_weights():
    given = some_params(dtype=np.float32)
    exact = PairNetwork(4, start=given).init(KEY, TASK)
    moved = PairNetwork(4, start=given, start_noise=0.1).init(KEY, TASK)
    for name in given:
        np.testing.assert_array_equal(exact[name], given[name])
        assert 0.02 < np.std(np.asarray(moved[name]) - given[name]) < 0.2
    gaps = [np.asarray(moved[name]) - given[name] for name in "UVW"]
    assert not np.allclose(gaps[0], gaps[1])
    with pytest.raises(KroghError, match=r"shape \[4, 5\]; got U of shape \[4, 6\]"):
        PairNetwork(4, start=given).check(GroupComposition("Z_5"))
    with pytest.raises(KroghError, match=r"U, V and W; got \['U', 'V'\]"):
        PairNetwork(4, start={name: given[name] for name in "UV"})


def operations(jaxpr) -> list:
    """Every operation of a program, and the sizes of what it computes."""
    found = []
    for equation in jaxpr.eqns:
        found.append((equation.primitive.name, [int(np.prod(out.aval.shape)) for out in equation.outvars]))
        for part in equation.params.values():
            for inner in part if isinstance(part, list | tuple) else [part]:
                if hasattr(inner, "eqns"):
                    found += operations(getattr(inner, "jaxpr", inner))
    return found


def test_a_step_on_the_population_looks_nothing_up_and_keeps_no_more_than_inputs_by_width():
    model, n, width = PairNetwork(40), 6, 40
    params = model.init(KEY, TASK)
    gradient = jax.make_jaxpr(jax.grad(lambda p: jnp.sum(model.predict(p, every_pair(n)) ** 2)))
    work = operations(gradient(params).jaxpr)
    assert not [name for name, _ in work if "gather" in name or "scatter" in name]
    assert max(size for _, sizes in work for size in sizes) == n * n * width
    labels = TASK.decode(TASK.population()).truth
    batch = jax.make_jaxpr(jax.grad(lambda p, x: jnp.mean(cross_entropy(model.predict(p, x), labels))))
    sizes = [size for _, sizes in operations(batch(params, every_pair(n)).jaxpr) for size in sizes]
    assert max(sizes) == n * n * width, "nothing of the size inputs x width x classes"


def test_gradients_of_both_ways_agree():
    model, params = PairNetwork(4), jax.tree.map(jnp.asarray, some_params(dtype=np.float32))
    labels = TASK.decode(TASK.population()).truth

    def loss(params, x):
        return jnp.mean(cross_entropy(model.predict(params, x), labels))

    known = jax.jit(jax.grad(lambda params: loss(params, every_pair(6))))(params)
    other = jax.jit(jax.grad(loss))(params, every_pair(6))
    for name in params:
        np.testing.assert_allclose(known[name], other[name], rtol=1e-4, atol=1e-6)


def test_norms_of_neurons_and_networks():
    neurons = np.array([[3.0, -4.0], [0.0, 0.0], [1.0, 1.0]], np.float32)
    lengths = np.array([5.0, 0.0, math.sqrt(2)])
    np.testing.assert_allclose(neuron_norms(jnp.asarray(neurons), 2.0), lengths, rtol=1e-6)
    np.testing.assert_allclose(neuron_norms(jnp.asarray(neurons), 2.0, 3.0), lengths**3, rtol=1e-6)
    np.testing.assert_allclose(neuron_norms(jnp.asarray(neurons), 1.0), [7, 0, 2], rtol=1e-6)
    for a, b, exponent in ((2, 3, 3), (2, 3, 1), (1, 2, 4), (3, 1.5, 2)):
        norms = (np.abs(neurons) ** a).sum(axis=1) ** (1 / a)
        expected = (norms**b).sum() ** (exponent / b)
        found = network_norm(jnp.asarray(neurons), float(a), float(b), float(exponent))
        assert float(found) == pytest.approx(expected, rel=1e-5)
    assert jax.grad(lambda x: power(x, 0.5))(0.0) == 0.0 and float(power(jnp.float32(2), 1.5)) == pytest.approx(2**1.5)


def test_what_is_refused():
    assert isinstance(PairNetwork(4), HomogeneousNetwork)
    for build, echo in (
        (lambda: PairNetwork(0), "width=0"),
        (lambda: PairNetwork(4, "power", 1), "exponent=1"),
        (lambda: PairNetwork(4, "relu", 3), "exponent=3 for 'relu'"),
        (lambda: PairNetwork(4, "quadratc"), "did you mean 'quadratic'"),
        (lambda: PairNetwork(4, initialiser="unifrom"), "did you mean 'uniform'"),
        (lambda: PairNetwork(4).check(Parity(4, 2)), "got the task 'parity'"),
    ):
        with pytest.raises(KroghError, match=echo):
            build()


def power_logits(exponent: int, p: dict, x: np.ndarray) -> np.ndarray:
    total = np.zeros(2)
    for u, w in zip(p["U"], p["W"], strict=True):
        total += math.prod([float(u @ x)] * exponent) * w
    return total


def power_params(width: int, n: int) -> dict:
    random = np.random.default_rng(2)
    return {"U": random.normal(size=(width, n)), "W": random.normal(size=(width, 2))}


def cube(n: int) -> np.ndarray:
    return np.array(list(itertools.product([1.0, -1.0], repeat=n)))


@pytest.mark.parametrize("exponent", [1, 2, 3, 4, 5])
def test_predictions_follow_the_formula_and_odd_powers_keep_signs(exponent):
    model, params, x = PowerNetwork(5, exponent), power_params(5, 4), cube(4)
    with jax.enable_x64(True):
        found = np.asarray(predict(model, params, x))
        scaled = np.asarray(predict(model, {name: 1.3 * leaf for name, leaf in params.items()}, x))
        flipped = np.asarray(predict(model, params, -x))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, [power_logits(exponent, params, row) for row in x], rtol=1e-11)
    np.testing.assert_allclose(scaled, 1.3 ** (exponent + 1) * found, rtol=1e-10)
    np.testing.assert_allclose(flipped, (-1) ** exponent * found, rtol=1e-10)
    assert model.homogeneity == exponent + 1


def test_weights_of_power_networks_are_drawn_by_their_fan_in():
    params = jax.tree.map(np.asarray, PowerNetwork(2000, 3).init(KEY, ParityClasses(9, 3)))
    for name, fan_in in (("U", 9), ("W", 2000)):
        bound = 1 / math.sqrt(fan_in)
        assert 0.98 * bound < np.abs(params[name]).max() <= bound * (1 + 1e-6), name
    assert PowerNetwork(3, 2).neurons({"U": jnp.ones((3, 4)), "W": jnp.zeros((3, 2))}).shape == (3, 6)


def best_agreement(exponent: int, k: int, n: int) -> float:
    """How much of the k-parity the monomials of (u·x)^exponent hold: the norm of its projection onto their span."""
    x = cube(n)
    random = np.random.default_rng(0)
    functions = np.stack([(x @ u) ** exponent for u in random.normal(size=(200, n))], axis=1)
    target = x[:, :k].prod(axis=1)
    fitted = functions @ np.linalg.lstsq(functions, target, rcond=None)[0]
    return float(np.mean(fitted * target))


@pytest.mark.parametrize(("exponent", "k"), [(1, 2), (2, 2), (2, 3), (3, 2), (3, 3), (4, 2), (4, 3), (5, 3), (3, 4)])
def test_an_exponent_that_cannot_represent_the_parity_is_an_obstacle(exponent, k):
    """Against least squares: the parity is in the span of the neurons, or orthogonal to all of it."""
    said = PowerNetwork(4, exponent).obstacle(ParityClasses(5, k))
    held = best_agreement(exponent, k, 5)
    assert held == pytest.approx(0.0 if said else 1.0, abs=1e-9)
    if said:
        assert f"exponent={exponent}" in said and f"try exponent={k}" in said


def test_a_trial_that_cannot_succeed_is_refused_unless_less_will_do():
    def trial(accuracy):
        stopping = Stopping(budget=10, validation="exact", accuracy=accuracy)
        training = Training(Sgd(0.1), Population(), stopping, "cross-entropy")
        return Trial(ParityClasses(5, 3), PowerNetwork(4, 2), training)

    with pytest.raises(KroghError, match=r"exponent must be at least k=3.*got exponent=2"):
        trial(1.0)
    trial(0.75)


def test_power_networks_that_are_refused():
    for build, echo in (
        (lambda: PowerNetwork(0, 2), "width=0"),
        (lambda: PowerNetwork(3, 0), "exponent=0"),
        (lambda: PowerNetwork(3, 2, "glorott"), "did you mean 'glorot'"),
        (lambda: PowerNetwork(3, 2).check(Parity(4, 2)), "'parity-classes'.*got 'parity'"),
    ):
        with pytest.raises(KroghError, match=echo):
            build()
