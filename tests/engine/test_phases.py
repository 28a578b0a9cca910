"""Trainings in phases: the one-step schedule against its lemmas, greedy training against its layers."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import krogh
from krogh.engine import Given, Inherited, Trial, Weights, family
from krogh.engine.inheriting import identity_of
from krogh.engine.phases import first_rate, in_stages, layer_wise, one_step, top_layer
from krogh.errors import KroghError
from krogh.models import DeepQuadratic, MinimalInduction, Mlp
from krogh.tasks import Curriculum, MarkovChains, Parity
from krogh.theory.boolean.majority import majority_coefficient
from krogh.theory.chains.curriculum import two_steps
from krogh.training import Adam, Inverse, Online, Population, Sgd, Stopping, Training


def trained(trials) -> dict:
    kept = Weights()
    krogh.run(trials, weights=kept)
    return {identity_of(trial): kept(identity_of(trial)) for trial in trials}


@pytest.mark.slow
def test_one_population_step_leaves_the_lemmas_weights():
    """|w_ij| = 1/(2k) on S and (k-1)/(2k(n-k)) off it, the signs of Lemma B.3, biases as they were, u = 0."""
    n, k, width = 11, 4, 24
    task = Parity(n, support=(1, 4, 5, 9))
    trial = one_step(task, width, Population(), seed=3)
    (weights,) = trained([trial]).values()
    start = {name: np.asarray(leaf) for name, leaf in trial.initial_params().items()}
    relevant = np.isin(np.arange(n), task.support)
    np.testing.assert_allclose(np.abs(weights["W"][:, relevant]), 1 / (2 * k), rtol=1e-5)
    np.testing.assert_allclose(np.abs(weights["W"][:, ~relevant]), (k - 1) / (2 * k * (n - k)), rtol=1e-5)
    xi, product = majority_coefficient(n, k - 1), np.prod(start["W"][:, relevant], axis=1)
    signs = np.sign(xi) * start["u"][:, None] * product[:, None] * start["W"][:, relevant]
    np.testing.assert_array_equal(np.sign(weights["W"][:, relevant]), signs)
    np.testing.assert_allclose(weights["b"], start["b"], atol=1e-6)
    assert not weights["u"].any()


def test_the_symmetric_start_is_zero_everywhere_on_a_grid_of_biases():
    model, task = Mlp(200, degree=4, initialiser="symmetric"), Parity(n=9, k=4)
    params = krogh.Trial(task, model).initial_params()
    x = np.asarray(task.decode(task.population()).x)
    assert not np.asarray(model.predict(params, jnp.asarray(x))).any()
    assert {*np.abs(np.asarray(params["W"])).ravel()} == {*np.abs(np.asarray(params["u"]))} == {1.0}
    grid = np.asarray(params["b"]) * 4
    assert {*grid.tolist()} == {*range(-3, 4)}
    np.testing.assert_array_equal(params["W"][:100], params["W"][100:])
    np.testing.assert_array_equal(params["u"][:100], -params["u"][100:])


def test_the_second_phase_trains_the_top_layer_alone():
    first = one_step(Parity(11, 2), 16, Population())
    second = top_layer(first, Training(Sgd(0.1), Online(8), Stopping(budget=40, validation=32, early=False)), seed=7)
    weights = trained([first, second])
    before, after = (weights[identity_of(one)] for one in (first, second))
    for name in ("W", "b"):
        np.testing.assert_array_equal(before[name], after[name])
    assert np.abs(after["u"]).max() > 0


@pytest.mark.parametrize(("n", "k"), [(10, 4), (11, 3), (5, 6)])
def test_the_theorem_needs_odd_n_and_even_k(n, k):
    with pytest.raises(KroghError, match=f"n={n}, k={k}"):
        first_rate(n, k)


def deep(**changes) -> krogh.Trial:
    stopping = Stopping(budget=30, accuracy=0.99, validation=64, early=False)
    training = Training(Sgd(0.01), Online(8), stopping)
    return krogh.Trial(Parity(n=6, k=4), DeepQuadratic((4, 3, 2)), training, **changes)


@pytest.mark.slow
def test_greedy_phases_train_a_layer_each():
    phases = layer_wise(deep())
    assert [phase.model.widths for phase in phases] == [(4,), (4, 3), (4, 3, 2)]
    assert [phase.training.frozen for phase in phases] == [(), ("W", "b"), ("W", "W2", "b", "b2")]
    weights = trained(phases)
    first, second, third = (weights[identity_of(phase)] for phase in phases)
    np.testing.assert_array_equal(first["W"], third["W"])
    np.testing.assert_array_equal(second["W2"], third["W2"])
    drawn = phases[2].model.init(phases[2].key(0), phases[2].task)
    assert not np.array_equal(third["W3"], drawn["W3"]), "the new layer is trained"
    assert not np.array_equal(second["u"], third["u"][:3]), "and so is its read-out"


def test_only_deep_networks_are_trained_greedily():
    with pytest.raises(KroghError, match="deep-quadratic"):
        layer_wise(krogh.Trial(Parity(n=6, k=2), Mlp(4)))


@pytest.mark.slow
def test_some_arrays_are_inherited_and_the_others_drawn():
    parent = layer_wise(deep())[0]
    child = deep(start=Inherited(parent, arrays=("W",)), seed=5, snapshots=(0,))
    kept = Weights()
    krogh.run([parent, child], weights=kept)
    begun, drawn = kept(identity_of(child), 0), child.model.init(child.key(0), child.task)
    np.testing.assert_array_equal(begun["W"], kept(identity_of(parent))["W"])
    for name in ("b", "W2", "b2", "W3", "b3", "u", "c"):
        np.testing.assert_array_equal(begun[name], drawn[name])


def test_arrays_that_are_not_there_or_do_not_fit_cannot_be_inherited():
    parent = layer_wise(deep())[0]
    with pytest.raises(KroghError, match="array to inherit"):
        deep(start=Inherited(parent, arrays=("W2",)))
    with pytest.raises(KroghError, match="must be those of its parent"):
        deep(start=Inherited(parent, arrays=("W", "u")))


def test_a_family_is_the_same_trials_as_one_by_one():
    chains = [layer_wise(krogh.Trial(t.task, t.model, t.training, seed)) for seed in (3, 5) for t in [deep()]]
    for phase, ours in zip(zip(*chains, strict=True), layer_wise(deep()), strict=True):
        (expected,) = krogh.stack(phase)
        assert family(ours, [3, 5]).ids().tolist() == expected.ids().tolist()


@pytest.mark.slow
def test_a_phase_counts_its_own_steps_and_remembers_nothing():
    """After a schedule and a memory of its parent's, a phase is what training the same weights anew would be."""
    task, model, stopping = Parity(6, 2), Mlp(4), Stopping(budget=12, check_every=6, validation=32, early=False)
    first = Trial(task, model, Training(Adam(0.05), Online(8), stopping))
    training = Training(Adam(0.1, schedule=Inverse()), Online(8), stopping, "square")
    second = Trial(task, model, training, 5, start=Inherited(first))
    weights = trained([first, second])
    anew = Trial(task, model, training, 5, start=Given(weights[identity_of(first)]))
    after = trained([anew])[identity_of(anew)]
    for name, leaf in weights[identity_of(second)].items():
        np.testing.assert_array_equal(leaf, after[name])
        assert np.abs(leaf - weights[identity_of(first)][name]).max() > 1e-3


@pytest.mark.slow
def test_a_curriculum_of_two_steps_is_the_exact_descent_within_sampling_error():
    """Proposition E.3: flat chains, then Hard(ε) with all weights decayed; means over seeds against the tensors."""
    t, eps, kappa1, kappa2 = 8, 0.4, 6.0, 1.0
    stopping = Stopping(budget=2, check_every=1, validation=8, error=0.0, early=False)
    training = Training(Sgd(0.1), Online(4096), stopping, "multiclass-margin(100)")
    optimisers = [Sgd(kappa1 / t**2), Sgd(kappa2 / t, decay=1.0)]
    found = []
    for seed in range(0, 32, 2):
        trial = Trial(MarkovChains(2, t), MinimalInduction(w=1.0, v=1.0), training, seed)
        phases = in_stages(trial, Curriculum.two_steps(eps), optimisers)
        assert [phase.task.prior.kind for phase in phases] == ["dirichlet", "hard"]
        found.append(trained(phases)[identity_of(phases[-1])])
    W, v = two_steps(t, 1.0, 1.0, kappa1, kappa2, eps)[-1]
    for name, exact in (("W", W), ("v", v)):
        drawn = np.stack([weights[name] for weights in found])
        error = drawn.std(axis=0, ddof=1) / np.sqrt(len(drawn))
        assert np.all(np.abs(drawn.mean(axis=0) - exact) < 5 * error + 1e-6), name


def test_a_curriculum_has_a_trial_for_each_prior_and_an_optimiser_for_each_trial():
    stopping = Stopping(budget=30, check_every=10, validation=8, error=0.0, early=False)
    trial = Trial(
        MarkovChains(2, 8), MinimalInduction(), Training(Sgd(0.1), Online(4), stopping, "cross-entropy"), seed=5
    )
    curriculum = Curriculum((krogh.DirichletRows(), krogh.Hard(0.25)), (10,))
    first, second = in_stages(trial, curriculum)
    assert [int(one.training.stopping.budget) for one in (first, second)] == [10, 20]
    assert isinstance(second.start, Inherited) and int(first.seed) != int(second.seed)
    with pytest.raises(KroghError, match="2 stages"):
        in_stages(trial, curriculum, [Sgd(0.1)])
    with pytest.raises(KroghError, match="markov-chains"):
        in_stages(Trial(Parity(8, 2), Mlp(4)), curriculum)
