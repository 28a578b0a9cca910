"""Margins and efficiencies against NumPy in double precision, and on networks whose margin is known."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models import Mlp, PairNetwork, PowerNetwork
from krogh.probes import Margin, Moment, NeuronEfficiency
from krogh.probes.margins import kept_neurons, median_of, over_population
from krogh.programs.groups import symmetric
from krogh.tasks import GroupComposition, Parity, ParityClasses

QUICK = {"xla_backend_optimization_level": 0}  # compiling costs more here than running

measure = jax.jit(lambda probe, moment: probe.measure(moment), compiler_options=QUICK)
S3_GAMMA = 0.02360497


def moment(model, task, params) -> Moment:
    params = {name: jnp.asarray(leaf, jnp.float32) for name, leaf in params.items()}
    return Moment(task, model, params, params, None, jnp.float32(0), jnp.int32(0))


def some(model, task, seed=1) -> dict:
    random = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), task))
    return {name: random.normal(size=leaf.shape) for name, leaf in shapes.items()}


def cosine_network(p: int) -> dict:
    """The network of D.6.2: 8 neurons per frequency, norm 1, and margin γ* at all inputs."""
    t = np.pi / 2
    phases = [
        (0, 0, 0),
        (0, 2 * t, 2 * t),
        (t, -t, 0),
        (t, t, 2 * t),
        (-t, 0, -t),
        (-t, 2 * t, t),
        (0, -t, -t),
        (0, t, t),
    ]
    s = math.sqrt(2 / (3 * p)) * (4 * (p - 1)) ** (-1 / 3)
    angles = 2 * np.pi * np.arange(p) / p
    rows = [(z, phase) for z in range(1, (p + 1) // 2) for phase in phases]
    return {
        name: np.stack([s * np.cos(phase[place] + z * angles) for z, phase in rows]) for place, name in enumerate("UVW")
    }


def gamma_star(p: int) -> float:
    return math.sqrt(2 / 27) / (math.sqrt(p) * (p - 1))


def naive(model, task, params, a=2.0, b=None) -> list:
    """Input by input: margin, normalised margin, cross-entropy, accuracy."""
    every = task.decode(task.population())
    margins, losses = [], []
    for x, y in zip(np.asarray(every.x), np.asarray(every.truth), strict=True):
        if isinstance(model, PairNetwork):
            z = params["U"][:, x[0]] + params["V"][:, x[1]]
            hidden = np.maximum(z, 0) if model.activation == "relu" else z**model.exponent
        else:
            hidden = (params["U"] @ x) ** model.exponent
        logits = hidden @ params["W"]
        margins.append(logits[y] - np.delete(logits, y).max())
        losses.append(np.log(np.exp(logits - logits[y]).sum()))
    nu = model.homogeneity
    b = nu if b is None else b
    neurons = np.concatenate([params[name] for name in sorted(params)], axis=1)
    norm = ((np.abs(neurons) ** a).sum(axis=1) ** (b / a)).sum() ** (1 / b)
    return [min(margins), min(margins) / norm**nu, np.mean(losses), np.mean(np.array(margins) > 0)]


CASES = [
    (PairNetwork(3), GroupComposition("S_3"), {}),
    (PairNetwork(3, "power", 3), GroupComposition("Z_5"), {"a": 1.0, "b": 2.0}),
    (PairNetwork(3, "relu"), GroupComposition([[0, 0, 1], [2, 1, 1], [0, 2, 2]]), {}),
    (PairNetwork(2), GroupComposition("Z_37"), {"b": 2.0}),
    (PowerNetwork(3, 3), ParityClasses(5, 3), {}),
]


@pytest.mark.parametrize(("model", "task", "options"), CASES, ids=lambda value: str(getattr(value, "kind", "")))
def test_the_margin_is_the_least_over_every_input(model, task, options):
    params = {name: 0.5 * leaf for name, leaf in some(model, task).items()}
    found = measure(Margin(**options), moment(model, task, params))
    np.testing.assert_allclose(found, naive(model, task, params, **options), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("p", [5, 11, 33])  # the last has more inputs than one slice, and one of them to fill up
def test_the_cosine_network_attains_the_maximal_margin_and_all_its_neurons_are_optimal(p):
    model, task = PairNetwork(4 * (p - 1)), GroupComposition(f"Z_{p}")
    seen = moment(model, task, cosine_network(p))
    margin, normalised, _, accuracy = measure(Margin(), seen).tolist()
    assert margin == pytest.approx(gamma_star(p), rel=2e-5) == pytest.approx(normalised, rel=2e-5) and accuracy == 1.0
    scaled = {name: 1.5 * leaf for name, leaf in seen.params.items()}
    again = measure(Margin(), seen._replace(params=scaled)).tolist()
    assert again[0] == pytest.approx(1.5**3 * margin, rel=1e-5) and again[1] == pytest.approx(normalised, rel=1e-5)
    np.testing.assert_allclose(measure(NeuronEfficiency(gamma_star(p)), seen), 1.0, rtol=2e-5)


def test_efficiency_of_neurons_is_their_mean_weighted_margin():
    """Brute force over inputs and wrong labels, with weights by offset, on a group that is not abelian."""
    model, task = PairNetwork(5), GroupComposition("S_3")
    params = some(model, task)
    params = {name: leaf * np.array([1.0, 0.9, 0.8, 0.7, 0.01])[:, None] for name, leaf in params.items()}
    table = np.asarray(task.table)
    weights = np.array([0.0, 0.05, 0.1, 0.15, 0.3, 0.4])  # unlike for an element and its inverse: τ is not symmetric
    expected = np.zeros(5)
    for a in range(6):
        for b in range(6):
            ab = table[a, b]
            wrong = sum(weights[c] * params["W"][:, table[ab, c]] for c in range(6))
            expected += (params["U"][:, a] + params["V"][:, b]) ** 2 * (params["W"][:, ab] - wrong) / 36
    norms = np.linalg.norm(np.concatenate(list(params.values()), axis=1), axis=1) ** 3
    each = expected / (0.05 * norms)
    found = measure(NeuronEfficiency(0.05, weights), moment(model, task, params))
    kept = each[:4]
    np.testing.assert_allclose(found, [expected.sum() / (0.05 * norms.sum()), np.median(kept), kept.min()], rtol=1e-4)


def test_an_optimal_neuron_of_a_group_is_efficient_with_its_class_weights_only():
    """u = x·R(g)y, v = y·R(g)z, w = x·R(g)z in the standard representation of S_3, at τ of Lemma D.14."""
    group = symmetric(3)
    permutations = np.asarray(group.permutations)
    basis = np.linalg.svd(np.ones((1, 3)))[2][1:]
    matrices = np.stack([basis @ np.eye(3)[:, permutation] @ basis.T for permutation in permutations])
    matrices = np.transpose(matrices, (0, 2, 1)) if not _homomorphic(matrices, group.table) else matrices
    fixed = (permutations == np.arange(3)[None, :]).sum(axis=1)
    sign = np.array([round(np.linalg.det(np.eye(3)[permutation])) for permutation in permutations])
    standard = fixed - 1
    weights = -(sign + 2**1.5 * standard) / (1 + 2**2.5)
    weights[group.identity] = 0.0
    random = np.random.default_rng(0)
    x, y, z = (vector / np.linalg.norm(vector) for vector in random.normal(size=(3, 2)))
    rows = [np.einsum("i,gij,j->g", left, matrices, right)[None] for left, right in ((x, y), (y, z), (x, z))]
    model, task = PairNetwork(1), GroupComposition(group)
    seen = moment(model, task, dict(zip("UVW", rows, strict=True)))
    np.testing.assert_allclose(measure(NeuronEfficiency(S3_GAMMA, weights), seen), 1.0, rtol=1e-4)
    assert not np.allclose(measure(NeuronEfficiency(S3_GAMMA), seen), 1.0, rtol=1e-2)


def _homomorphic(matrices: np.ndarray, table: np.ndarray) -> bool:
    return bool(np.allclose(np.einsum("aij,bjk->abik", matrices, matrices), matrices[np.asarray(table)]))


def test_efficiency_of_parity_neurons():
    """u on the support and w along (1, -1), all of one length, is optimal; a neuron off the support is worthless."""
    model, task, k = PowerNetwork(2, 3), ParityClasses(5, support=(0, 2, 3)), 3
    gamma = math.factorial(k) * math.sqrt(2 * (k + 1) ** -(k + 1))
    optimal, other = np.zeros(5), np.zeros(5)
    optimal[[0, 2, 3]], other[[0, 1, 3]] = 1.0, 1.0
    output = np.array([1.0, -1.0]) / math.sqrt(2)
    params = {"U": np.stack([optimal, other]), "W": np.stack([output, output])}
    mean, median, least = measure(NeuronEfficiency(gamma), moment(model, task, params)).tolist()
    assert mean == pytest.approx(0.5, abs=1e-5) == pytest.approx(median) and least == pytest.approx(0.0, abs=1e-5)
    assert measure(Margin(), moment(model, task, params))[3] < 1


def test_every_input_is_seen_once_whatever_the_slice():
    task = GroupComposition("S_3")
    for slice_ in (5, 7, 36, 100):
        found = over_population(task, lambda examples, own: jnp.sum(jnp.where(own, 1 + examples.truth, 0)), slice_)
        assert len(found) == -(-36 // slice_) and int(jnp.sum(found)) == 6 * 21


def test_the_zero_network_has_no_margin():
    model, task = PairNetwork(3), GroupComposition("Z_5")
    zeros = {name: np.zeros((3, 5)) for name in "UVW"}
    margin, normalised, loss, accuracy = measure(Margin(), moment(model, task, zeros)).tolist()
    assert margin == normalised == 0.0 and accuracy == pytest.approx(0.0, abs=1e-6)
    assert loss == pytest.approx(math.log(5))
    assert np.isfinite(measure(NeuronEfficiency(0.03), moment(model, task, zeros))).all()


def test_medians_are_over_the_kept_neurons():
    values, kept = jnp.array([5.0, 1.0, 9.0, 7.0, 2.0]), jnp.array([True, True, False, True, True])
    assert float(median_of(values, kept)) == 3.5 and float(median_of(values, kept.at[1].set(False))) == 5.0
    params = {"U": jnp.array([[1.0, 0.0], [0.11, 0.0], [0.09, 0.0]]), "W": jnp.zeros((3, 2))}
    assert kept_neurons(PowerNetwork(3, 2), params, 0.1).tolist() == [True, True, False]


def test_what_is_refused():
    group, pair = GroupComposition("Z_5"), PairNetwork(3)
    for build, echo in (
        (lambda: Margin(a=0.5), "at least 1; got a=0.5"),
        (lambda: Margin().check(Parity(4, 2), Mlp(3)), "margin needs a task with classes; got the task 'parity'"),
        (lambda: Margin().check(group, Mlp(3)), "homogeneous neurons.*got 'mlp'"),
        (lambda: Margin().check(ParityClasses(30, 2), PowerNetwork(3, 2)), "n ≤ 20; got n=30"),
        (lambda: NeuronEfficiency(0.0), "gamma must be a positive number; got gamma=0.0"),
        (lambda: NeuronEfficiency(0.1, kept=2.0), r"in \[0, 1\]; got kept=2.0"),
        (lambda: NeuronEfficiency(0.1, np.full(4, 0.25)).check(group, pair), r"5 numbers.*got shape \[4\]"),
        (lambda: NeuronEfficiency(0.1, np.full(5, 0.2)).check(group, pair), "0 at the identity"),
        (lambda: NeuronEfficiency(0.1, [0, 1]).check(ParityClasses(4, 2), PowerNetwork(3, 2)), "need a group"),
    ):
        with pytest.raises(KroghError, match=echo):
            build()
