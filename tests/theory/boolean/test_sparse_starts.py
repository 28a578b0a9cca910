"""Sparse starts: gradients against enumeration, luck against counting, theorems against their own inequalities."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog

from krogh.errors import KroghError
from krogh.theory.boolean.fourier import cube, fourier_gap, heaviside, population_gradient
from krogh.theory.boolean.sparse_starts import (
    default_epsilon,
    feature_generalisation,
    good_neuron_count,
    good_neurons,
    good_probability,
    over_sparse_biases,
    over_sparse_features,
    over_sparse_gradient,
    over_sparse_neuron,
    over_sparse_read_out,
    over_sparse_start,
    over_sparse_theorem,
    under_sparse_biases,
    under_sparse_gradient,
    under_sparse_neuron,
    under_sparse_start,
    under_sparse_theorem,
)


def overlapping(n, k, s):
    """For every possible overlap, a set of s coordinates that shares so many with the first k."""
    for both in range(max(0, s - (n - k)), min(k, s) + 1):
        yield (*range(k - both, k), *range(k, k + s - both))


def weights_of(n, ones, other=0.0):
    w = np.full(n, other)
    w[list(ones)] = 1.0
    return w


@pytest.mark.parametrize(("n", "k", "s"), [(7, 2, 5), (9, 2, 9), (11, 4, 9), (11, 4, 5), (13, 4, 11), (10, 6, 7)])
def test_over_sparse_gradients_by_enumeration(n, k, s):
    for ones in overlapping(n, k, s):
        found = over_sparse_gradient(n, range(k), ones)
        for bias in (0.0, 0.9, -0.9):
            exact = population_gradient(weights_of(n, ones), range(k), heaviside, bias=bias)
            assert np.abs(found - exact).max() < 1e-12
        missing = len(set(range(k)) - set(ones))
        assert np.count_nonzero(found) == (s if missing == 0 else missing == 1)


@pytest.mark.parametrize(
    ("n", "k", "s"), [(9, 4, 2), (11, 4, 2), (10, 4, 2), (9, 4, 0), (11, 6, 2), (10, 6, 4), (11, 6, 4), (8, 2, 0)]
)
def test_under_sparse_gradients_by_enumeration_at_every_overlap(n, k, s):
    epsilon = 2.0 ** -math.ceil(math.log2(n - s + 1))  # sums of it are exact: a tie is a tie
    for ones in overlapping(n, k, s):
        found = under_sparse_gradient(n, range(k), ones)
        for bias in (0.0, 0.9 * epsilon, -0.9 * epsilon):
            w = weights_of(n, ones, epsilon)
            assert np.abs(found - population_gradient(w, range(k), heaviside, bias=bias)).max() < 1e-12


def test_numbers_of_good_neurons():
    over = over_sparse_neuron(40, 4, 17)
    assert over["relevant"] == over_sparse_gradient(40, range(4), range(17))[0]
    assert over["irrelevant"] == over_sparse_gradient(40, range(4), range(17))[16]
    assert abs(over["irrelevant"] / over["relevant"]) == pytest.approx(over["ratio"]) == 3 / 13
    assert over["ratio"] < over["printed_ratio"] and abs(over["relevant"]) >= over["relevant_at_least"]
    under = under_sparse_neuron(9, 4, 2)
    assert (under["relevant"], under["irrelevant"]) == (-0.078125, 0.015625)
    assert under["ratio"] == pytest.approx(5 / 1) and under["printed_ratio"] == 7
    for n, k, s in [(11, 4, 2), (21, 6, 2), (15, 4, 0)]:
        assert under_sparse_neuron(n, k, s)["ratio"] == pytest.approx((n + (n - s + 1) % 2 - k) / (k - s - 1))
    assert under_sparse_neuron(10, 4, 2)["ratio"] == pytest.approx((10 + 1 - 4) / (4 - 2 - 1))


@pytest.mark.parametrize("k", [2, 4])
def test_over_sparse_neurons_point_at_the_support_from_2k_on(k):
    for s in range(k + 1, 14, 2):
        gradient = over_sparse_gradient(13, range(k), range(s))
        assert (fourier_gap(gradient, range(k)) > 0) == (s >= 2 * k)
        assert over_sparse_neuron(13, k, s)["points_at_support"] == (s >= 2 * k)
    assert over_sparse_neuron(13, 4, 5)["ratio"] == 3


def test_a_gate_without_bias_gives_no_signal_for_odd_k():
    gradient = population_gradient(np.ones(9), range(3), heaviside)
    assert np.abs(gradient).max() < 1e-15
    assert np.abs(population_gradient(np.ones(9), range(3), heaviside, bias=1.5)).max() > 0.01


# --- starts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "kind", "other"),
    [
        (lambda seed: over_sparse_start(12, 2, 5, 40, seed), "over", 0.0),
        (lambda seed: under_sparse_start(12, 4, 2, 40, seed), "under", default_epsilon(12, 4, 2)),
    ],
)
def test_starts_are_symmetric_and_zero(start, kind, other):
    weights = start(3)
    W, b, u = (weights[name] for name in "Wbu")
    assert W.shape == (40, 12) and np.array_equal(W[:20], W[20:]) and np.array_equal(b[:20], b[20:])
    assert np.array_equal(u[:20], -u[20:]) and set(u) == {-1.0, 1.0} and weights["c"] == 0
    assert set(np.unique(W)) == {other, 1.0} and set((W == 1).sum(axis=1)) == {5 if kind == "over" else 2}
    grid = over_sparse_biases(2) if kind == "over" else under_sparse_biases(4, other)
    assert set(b) <= set(grid)
    values = np.maximum(cube(12) @ W.T + b, 0) @ u
    assert np.abs(values).max() < 1e-12
    assert not np.array_equal(start(4)["W"], W) and np.array_equal(start(3)["W"], W)


def test_coordinates_biases_and_signs_are_uniform():
    weights = over_sparse_start(10, 4, 5, 40_000, 0)
    assert np.abs((weights["W"] == 1).mean(axis=0) - 0.5).max() < 0.02
    assert abs((weights["b"] == weights["b"].min()).mean() - 0.5) < 0.02 and abs(weights["u"][:20_000].mean()) < 0.03


def test_grids():
    assert over_sparse_biases(4) == pytest.approx([(-4 + 1 / 16) / 8, (-2 + 1 / 16) / 8])
    assert over_sparse_biases(6).max() == pytest.approx(-31 / (32 * 6))
    assert under_sparse_biases(4, 0.1) == pytest.approx([-0.3 / 8, -0.1 / 8, 0.1 / 8, 0.3 / 8])
    assert np.abs(under_sparse_biases(4, 0.1)).max() < 0.1


# --- luck -----------------------------------------------------------------------------------------------------


def test_luck_is_counted():
    n, k = 9, 4
    for s, kind in [(5, "over"), (7, "over"), (2, "under"), (0, "under")]:
        rows = [weights_of(n, ones) for ones in itertools.combinations(range(n), s)]
        share = good_neurons(np.stack(rows), range(k), kind).mean()
        assert good_probability(n, k, s, kind) == pytest.approx(share, rel=1e-12)
    numbers = good_neuron_count(50, 4, 17)
    assert numbers["probability"] == pytest.approx(0.01033, abs=1e-5)
    assert numbers["lemma_lower_bound"] == pytest.approx(0.000835, abs=1e-6) and numbers["order"] > 0.01
    for s in range(7, 50, 2):
        assert good_neuron_count(50, 4, s)["probability"] >= good_neuron_count(50, 4, s)["lemma_lower_bound"]


@pytest.mark.parametrize(("n", "k", "s", "kind"), [(20, 2, 5, "over"), (20, 4, 9, "over"), (12, 4, 2, "under")])
def test_the_width_has_a_good_neuron_for_every_bias(n, k, s, kind):
    failure, starts = 0.2, 100
    width = good_neuron_count(n, k, s, kind, failure)["width"]
    draw = over_sparse_start if kind == "over" else under_sparse_start
    lacking = 0
    for seed in range(starts):
        weights = draw(n, k, s, width, seed)
        good = good_neurons(weights["W"], range(k), kind)
        lacking += len(set(weights["b"][good])) < (k // 2 if kind == "over" else k)
    assert lacking <= starts * failure + 10


# --- read-out and theorems ------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 4, 6, 8])
@pytest.mark.parametrize("offset", [1 / 16, 5 / 8])
def test_the_read_out_is_the_parity_at_every_sum(k, offset):
    features, sums = over_sparse_features(k, offset)
    assert np.linalg.matrix_rank(features) == k + 1
    parity = np.array([math.prod([1] * ((k + s) // 2) + [-1] * ((k - s) // 2)) for s in sums])
    v = over_sparse_read_out(k, offset)
    assert np.abs(features @ v - parity).max() < 1e-12 * np.abs(v).sum()


def test_norms_of_the_read_out():
    norms = {(k, c): np.linalg.norm(over_sparse_read_out(k, c)) for k in (2, 4, 6) for c in (1 / 16, 5 / 8)}
    expected = {
        (2, 1 / 16): 181,
        (2, 5 / 8): 18,
        (4, 1 / 16): 11953,
        (4, 5 / 8): 156,
        (6, 1 / 16): 5.57e5,
        (6, 5 / 8): 654,
    }
    assert norms == {key: pytest.approx(value, rel=0.01) for key, value in expected.items()}


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_the_printed_grid_has_no_read_out(k):
    """Not even of the right signs: Σ v φ(s) (-1)^((k-s)/2) ≥ 1 at every s is infeasible without the lowest bias."""

    def feasible(columns):
        features, sums = over_sparse_features(k)
        signed = features[:, columns] * ((-1.0) ** ((k - sums) // 2))[:, None]
        return linprog(np.zeros(len(columns)), -signed, -np.ones(k + 1), bounds=(None, None)).status == 0

    every = [*range(k + 1)]
    assert feasible(every) and not feasible([i for i in every if i not in (1, 1 + k // 2)])


@pytest.mark.parametrize(("k", "s"), [(2, 9), (2, 11), (4, 13)])
def test_features_of_finite_sparsity_miss_the_ideal_ones_by_the_lemmas_bound(k, s):
    """Lemma C.6 with one good pair per bias (k/2 biases): root mean square over inputs, and the largest norm."""
    x = cube(s)
    gradient = over_sparse_gradient(s, range(k), range(s))
    rate = 1 / (2 * k * abs(gradient[0]))
    ideal = np.where(np.arange(s) < k, np.sign(gradient[0]) / (2 * k), 0.0)
    irrelevant = rate * abs(gradient[-1])
    biases = over_sparse_biases(k)

    def psi(w):
        return np.maximum((x @ np.stack([w, -w]).T)[:, :, None] + biases, 0.0).reshape(len(x), -1)

    found, wanted = psi(rate * gradient), psi(ideal)
    pairs_per_bias = 1
    assert np.sqrt(np.mean(np.sum((found - wanted) ** 2, axis=1))) <= (
        math.sqrt(4 * k * pairs_per_bias) * irrelevant * math.sqrt(s)
    )
    assert irrelevant <= 2 / s and np.linalg.norm(found, axis=1).max() <= math.sqrt(8 * k * pairs_per_bias)


def test_neurons_that_miss_a_relevant_coordinate_die():
    n, k, s = 13, 4, 11
    for ones in overlapping(n, k, s):
        gradient = over_sparse_gradient(n, range(k), ones)
        step = gradient / (2 * k * abs(over_sparse_neuron(n, k, s)["relevant"]))
        for offset in (1 / 16, 5 / 8, 3 / 4):
            alive = np.abs(step).sum() + over_sparse_biases(k, offset).max() > 0
            assert alive == (set(range(k)) <= set(ones))


def test_theorem_6_4_keeps_its_own_inequalities():
    n, k, s, epsilon, failure = 1000, 2, 101, 0.25, 0.05
    found = over_sparse_theorem(n, k, s, epsilon, failure, offset=5 / 8)
    norm, per_bias, rate = found["read_out_norm"], found["good_per_bias"], found["rate"]
    assert 10 * math.log(2 * k / failure) <= per_bias <= 20 * math.log(2 * k / failure)
    assert 4 * k * per_bias * n * rate * found["tolerance"] <= epsilon / norm * (1 + 1e-9)
    assert found["tolerance"] * rate <= 1 / (16 * k * n)
    samples = 4 * math.log(4 * n * found["width"] / failure) / found["tolerance"] ** 2
    assert found["samples"] == pytest.approx(samples, rel=1e-12)
    steps = found["steps"]
    enough = 100 * (norm * math.sqrt(8 * k * per_bias) + epsilon) ** 2 / epsilon**2
    assert steps / (1 + math.log(steps)) >= enough > (steps - 1) / (1 + math.log(steps - 1))
    assert found["samples"] > 1e16 and not found["s_is_large_enough"], "loose beyond use"
    wide = [over_sparse_theorem(n, k, s)["width"] for s in (9, 33, 101)]
    assert wide == sorted(wide, reverse=True)


def test_theorem_6_5_trades_samples_for_width():
    dense, sparse = under_sparse_theorem(41, 4, 0), under_sparse_theorem(41, 4, 2)
    assert dense["samples"] > 41 * sparse["samples"] and sparse["width"] > 41 * dense["width"]
    assert under_sparse_neuron(41, 4, 2)["gap"] == pytest.approx(2 * sparse["tolerance"])
    relevant, irrelevant = (abs(under_sparse_neuron(41, 4, 2)[name]) for name in ("relevant", "irrelevant"))
    assert irrelevant < sparse["cut_off"] < relevant and sparse["read_out_error"] == pytest.approx(0.5)
    assert sparse["printed_tolerance"] == irrelevant / 2 < sparse["tolerance"]


def test_wrong_features_change_the_hinge_loss_by_no_more_than_the_lemma_says():
    rng = np.random.default_rng(0)
    psi = rng.normal(size=(500, 7))
    for size in (0.0, 0.01, 0.3):
        other, w, y = psi + size * rng.normal(size=psi.shape), rng.normal(size=7), rng.choice([-1, 1], 500)
        hinge = [np.maximum(0, 1 - y * (features @ w)).mean() for features in (psi, other)]
        error = np.linalg.norm(psi - other, axis=1).max()
        bound = feature_generalisation(500, np.linalg.norm(w), np.linalg.norm(psi, axis=1).max(), error)
        assert abs(hinge[0] - hinge[1]) <= bound["loss_change"] + 1e-12
        assert bound["excess_at_most"] == pytest.approx(bound["sampling_error"] + 2 * bound["loss_change"])
    assert feature_generalisation(400, 1.0, 1.0)["sampling_error"] == pytest.approx(
        3 * math.sqrt(2 * math.log(40) / 400)
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: over_sparse_start(8, 2, 9, 10), "s must be an integer between 1 and 8; got s=9"),
        (lambda: over_sparse_start(8, 2, 0, 10), "s must be an integer between 1 and 8; got s=0"),
        (lambda: over_sparse_start(8, 2, 4, 10), r"s must be odd; got s=4"),
        (lambda: over_sparse_start(8, 3, 5, 10), r"k must be even; got k=3"),
        (lambda: over_sparse_start(8, 4, 3, 10), r"needs s > k ones in a row; got s=3, k=4 \(try s=5\)"),
        (lambda: over_sparse_start(8, 2, 5, 11), r"width must be even; got width=11"),
        (lambda: over_sparse_start(8, 2, 5, 10, offset=0.9), "offset must be a number above 0 and at most 0.75"),
        (lambda: under_sparse_start(8, 4, 3, 10), r"s must be even for an under-sparse start; got s=3 \(try 2 or 4\)"),
        (lambda: under_sparse_start(8, 4, 4, 10), r"needs s < k ones in a row; got s=4, k=4 \(try s=2\)"),
        (lambda: under_sparse_start(8, 4, 2, 10, epsilon=0.2), r"\(n-s\) epsilon < 1; got n=8, s=2, epsilon=0.2"),
        (lambda: over_sparse_theorem(100, 4, 15), r"Theorem 6.4 needs s > 4k; got s=15, k=4 \(try s=17\)"),
        (lambda: under_sparse_theorem(20, 5, 2), "k must be even; got k=5"),
        (lambda: good_neuron_count(20, 4, 9, "both"), "kind must be 'over' or 'under'; got kind='both'"),
        (lambda: under_sparse_gradient(8, (0, 1, 2, 8), (0, 1)), "element of the subset"),
    ],
)
def test_bad_input_names_the_condition(call, message):
    with pytest.raises(KroghError, match=message):
        call()
