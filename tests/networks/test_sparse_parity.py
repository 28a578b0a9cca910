"""Networks that one step from a sparse start leaves: written down, and what training itself arrives at."""

from __future__ import annotations

import numpy as np
import pytest

import krogh
from krogh.engine import Given, Inherited, Weights
from krogh.engine.inheriting import identity_of
from krogh.errors import KroghError
from krogh.networks.handmade import construct
from krogh.networks.sparse_parity import truncated_step
from krogh.theory.boolean.fourier import correlation, cube
from krogh.theory.boolean.sparse_starts import (
    good_neurons,
    over_sparse_neuron,
    over_sparse_start,
    under_sparse_neuron,
    under_sparse_start,
)


@pytest.mark.parametrize("k", [2, 4, 6, 8])
@pytest.mark.parametrize("offset", [1 / 16, 5 / 8])
def test_over_sparse_features_are_the_parity(k, offset):
    made = construct("parity/over-sparse", n=9, support=tuple(range(9 - k, 9)), offset=offset)
    assert made.check().holds and made.check().exhaustive and made.width == k


@pytest.mark.parametrize("twin", [False, True])
@pytest.mark.parametrize(("n", "k", "s"), [(11, 4, 2), (9, 4, 0), (10, 6, 2), (10, 6, 4)])
def test_under_sparse_features_are_the_parity_within_the_bound(n, k, s, twin):
    made = construct("parity/under-sparse", n=n, k=k, s=s, twin=twin)
    checked = made.check()
    assert checked.holds and 0.45 < checked.largest_error <= 0.5 + 1e-9, "2k eps (n-s) is 1/2 by default"
    x = cube(n)
    assert np.array_equal(np.sign(made.run(x)), x[:, :k].prod(axis=1))


def test_numbers_of_the_reference():
    made = construct("parity/under-sparse", n=11, k=4, s=2, epsilon=1e-3)
    assert made.check().largest_error == pytest.approx(0.072)
    assert correlation(made.run(cube(11)), range(4)) == pytest.approx(0.9999, abs=1e-4)


def test_a_large_epsilon_has_wrong_signs():
    """eps = 0.09 at n = 11: what is refused would be wrong on 14% of the inputs."""
    with pytest.raises(KroghError, match=r"2k\(n-s\) epsilon < 1; got epsilon=0.09 \(try less than 0.0139\)"):
        construct("parity/under-sparse", n=11, k=4, s=2, epsilon=0.09)
    made, large = construct("parity/under-sparse", n=11, k=4, s=2, epsilon=1e-3), 0.09
    w = np.full(11, large)
    w[:4] = 1, 1, 1 + large, 1 + large
    unit, x = large / 8, cube(11)
    kinks = made.parameters["b"] / (1e-3 / 8)
    values = np.maximum(x @ (unit * w)[:, None] + unit * kinks, 0) @ (made.parameters["u"] * (1e-3 / 8) / unit) + 1
    assert np.mean(values * x[:, :4].prod(axis=1) <= 0) == pytest.approx(0.14, abs=0.01)


def population(optimiser, steps=1, **training):
    stopping = krogh.Stopping(budget=steps, check_every=1, validation="exact", early=False)
    return krogh.Training(optimiser, krogh.Population(), stopping, **training)


def trained(n, k, weights, training, *later):
    """Weights after some steps on the whole population, as the engine trains them; `later` are phases that follow."""
    model = krogh.Mlp(len(weights["W"]), output_bias=True)
    trials = [krogh.Trial(krogh.Parity(n, k), model, training, start=Given(weights))]
    for phase in later:
        trials.append(krogh.Trial(krogh.Parity(n, k), model, phase, start=Inherited(trials[-1])))
    kept = Weights()
    krogh.run(trials, weights=kept)
    return kept(identity_of(trials[-1]))


@pytest.mark.slow
def test_a_truncated_step_of_training_leaves_the_network_that_is_written_down():
    """Theorem 6.5 in the engine: Given(under_sparse_start), Truncated(Sgd) and one step on the population."""
    n, k, s = 9, 4, 2
    weights = under_sparse_start(n, k, s, 400, seed=1)
    step = truncated_step(n, k, s)
    optimiser = krogh.Truncated(krogh.Sgd(step["rate"], decay=step["decay"]), step["cut_off"])
    after = trained(n, k, weights, population(optimiser, frozen=("b", "u", "c")))["W"]
    unit, small = (1 - step["decay"]), weights["W"].min()
    sign = np.sign(under_sparse_neuron(n, k, s)["relevant"])
    for row in np.flatnonzero(good_neurons(weights["W"], range(k), "under")):
        ones = weights["W"][row] == 1
        expected = np.where(ones, 1.0, small + np.where(np.arange(n) < k, sign * weights["u"][row], 0.0))
        assert np.abs(after[row] / unit - expected).max() < 1e-4
    assert good_neurons(weights["W"], range(k), "under").sum() >= 20


def test_two_phases_of_training_learn_the_parity_from_an_over_sparse_start():
    """Theorem 6.4 in the engine: a step of the first layer alone, then the second layer alone."""
    n, k, s = 10, 2, 9
    weights = over_sparse_start(n, k, s, 40, seed=0, offset=5 / 8)
    first = krogh.Sgd(
        0.0, layer_rate={"W": 1 / (2 * k * abs(over_sparse_neuron(n, k, s)["relevant"]))}, layer_decay={"W": 1.0}
    )
    after = trained(n, k, weights, population(first), population(krogh.Sgd(1.0), 999, frozen=("W", "b")))
    good = good_neurons(weights["W"], range(k), "over")
    sizes = np.abs(after["W"][good])
    assert np.abs(sizes[:, :k] - 1 / (2 * k)).max() < 1e-5
    assert np.abs(after["W"]).sum(axis=1)[~good].max() + weights["b"].max() < 0, "bad neurons are dead"
    assert np.array_equal(after["b"], weights["b"].astype(np.float32))
    x = cube(n)
    values = np.maximum(x @ after["W"].T + after["b"], 0) @ after["u"] + after["c"]
    # not 0: nine ones leave c/(2k|C|) on seven irrelevant coordinates, which add up to as much as a relevant one
    assert np.mean(values * x[:, :k].prod(axis=1) <= 0) < 0.04


def test_bad_settings_name_the_condition():
    for settings, message in [
        ({"n": 9, "k": 3}, "k must be even; got k=3"),
        ({"n": 9, "k": 4, "s": 3}, "s must be even for an under-sparse start"),
        ({"n": 9, "k": 4, "s": 4}, "needs s < k ones"),
        ({"n": 9, "k": 4, "s": 10}, "s must be an integer between 0 and 9; got s=10"),
    ]:
        with pytest.raises(KroghError, match=message):
            construct("parity/under-sparse", **settings)
    with pytest.raises(KroghError, match="offset must be"):
        construct("parity/over-sparse", n=9, k=4, offset=1.0)
