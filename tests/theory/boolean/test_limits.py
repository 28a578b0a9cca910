"""Limits that hold whatever the learner, against enumeration and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory.boolean import fourier as boolean
from krogh.theory.boolean import search as baselines
from krogh.theory.boolean.limits import (
    degree_barrier,
    initial_luck,
    kernel_floor,
    minimum_width,
    noise_attenuation,
    random_walk,
    reference_lines,
    resource_bound,
    sq_limit,
    statistical_limit,
)


def test_statistical_limit_without_noise():
    numbers = statistical_limit(30, 3)
    assert numbers["bits"] == pytest.approx(math.log2(4060)) and numbers["capacity_per_label"] == 1
    assert numbers["needed"] <= math.ceil(numbers["bits"]) <= numbers["sufficient"]
    assert numbers["order"] == pytest.approx(3 * math.log(30))


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_sufficient_samples_suffice(noise):
    n, k, failure = 10, 2, 0.1
    m = statistical_limit(n, k, noise, failure)["sufficient"]
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(60):
        x = rng.choice([-1, 1], size=(m, n))
        y = x[:, 3] * x[:, 7] * np.where(rng.random(m) < noise, -1, 1)
        wrong += baselines.best_subsets(x, y, k)[0].tolist() != [[3, 7]]
    assert wrong / 60 <= failure + 3 * math.sqrt(failure * (1 - failure) / 60)


def test_noise_costs_samples_and_pure_noise_all_of_them():
    needed = [statistical_limit(30, 3, p)["needed"] for p in (0, 0.1, 0.25, 0.4, 0.49)]
    assert needed == sorted(needed) and statistical_limit(30, 3, 0.5)["needed"] == math.inf
    printed = statistical_limit(30, 3, 0.1, variant="printed")["order"]
    assert printed == pytest.approx(4 * statistical_limit(30, 3, 0.1)["order"])


def test_noise_attenuation_is_the_shrinkage_of_a_correlation():
    rng, m, p = np.random.default_rng(0), 400_000, 0.3
    f = rng.choice([-1.0, 1.0], size=m)
    noisy = f * np.where(rng.random(m) < p, -1, 1)
    assert (noisy * f).mean() == pytest.approx(noise_attenuation(p)["factor"], abs=5 / math.sqrt(m))
    assert noise_attenuation(p, variant="printed")["factor"] == pytest.approx(0.2)
    assert noise_attenuation(0.49, gap=0.5)["gap"] == pytest.approx(0.01)


@pytest.mark.parametrize("tolerance", [1.0, 0.5, 0.3, 0.1])
def test_no_query_tells_more_parities_apart_than_the_limit_allows(tolerance):
    limit = sq_limit(8, 3, tolerance)
    rng = np.random.default_rng(1)
    queries = [rng.choice([-1.0, 1.0], 256), rng.uniform(-1, 1, 256), boolean.cube(8)[:, :3].prod(axis=1)]
    queries.append(np.sign(boolean.preactivations(np.ones(8)) + 0.5))
    for query in queries:
        coefficients = boolean.fourier_coefficients(query)
        assert (coefficients**2).sum() <= 1 + 1e-12, "Parseval"
        assert (np.abs(coefficients) > tolerance).sum() <= limit["parities_per_query"]


def test_sq_limit_numbers():
    assert sq_limit(30, 3, 0.1)["queries"] == math.ceil(4059 / 100)
    assert sq_limit(30, 3, 1.0)["queries"] == 4059
    assert sq_limit(30, 3, 0.1)["order"] == pytest.approx(270)
    queries = [sq_limit(n, 3, 0.1)["queries"] for n in (10, 20, 40)]
    assert queries == sorted(queries)


def test_degree_barrier():
    assert degree_barrier(4, 3) == {
        "largest_degree": 4,
        "representable": True,
        "layerwise_gradient_is_zero": True,
        "downstream_degree": 1,
        "gradient_degree": 3,
    }
    assert not degree_barrier(5, 3)["representable"] and not degree_barrier(3, 2)["representable"]
    assert not degree_barrier(2, 2)["layerwise_gradient_is_zero"]


def test_random_walk_crossing():
    at = int(random_walk(0.01, 0.1, 1)["crossing_steps"])
    numbers = random_walk(0.01, 0.1, at)
    assert numbers["drift_movement"] == pytest.approx(numbers["noise_movement"])
    largest = round(random_walk(0.01, 0.1, 1, n=50)["crossing_steps_largest"])
    numbers = random_walk(0.01, 0.1, largest, n=50)
    assert numbers["drift_movement"] == pytest.approx(numbers["largest_noise_movement"], rel=1e-2)


def test_luck_and_width():
    assert initial_luck(50, 3)["log10_order"] < initial_luck(50, 3)["log10_random_subset"]
    assert minimum_width(4)["sufficient"] == 4
    assert minimum_width(2, output_bias=False) == {"sufficient": 3, "proved_necessary": True}
    assert minimum_width(6, "oscillating")["sufficient"] == 1


def relu_features(n, dimension, seed):
    """Random ReLU features of the cube, scaled to norm at most 1 everywhere; shape (2^n, dimension)."""
    rng = np.random.default_rng(seed)
    z = np.maximum(boolean.cube(n) @ rng.standard_normal((n, dimension)) + rng.standard_normal(dimension), 0)
    return z / np.linalg.norm(z, axis=1).max()


def test_no_fixed_embedding_goes_below_the_kernel_floor():
    n, k, radius = 8, 3, 3.0
    features = relu_features(n, 40, seed=0)
    numbers = kernel_floor(n, k, 40, radius)
    coefficients = boolean.fourier_coefficients(features.T)
    norms = {s: np.linalg.norm(coefficients[:, boolean.subset_mask(s, n)]) for s in itertools.combinations(range(n), k)}
    hardest = min(norms, key=norms.get)
    assert norms[hardest] <= numbers["coefficient_norm_at_most"]
    label, w, losses = boolean.cube(n)[:, list(hardest)].prod(axis=1), np.zeros(40), []
    for _ in range(500):  # projected subgradient descent on the hinge loss
        margin = label * (features @ w)
        losses.append(np.maximum(0, 1 - margin).mean())
        w += 5.0 * ((margin < 1) * label) @ features / 256
        w *= min(1.0, radius / np.linalg.norm(w))
    assert min(losses) < 1 - 1e-3, "the search must do something for the floor to mean something"
    assert min(losses) >= numbers["floor_any_dimension"] >= numbers["floor"]


def test_kernel_floor_numbers():
    numbers = kernel_floor(10, 3, 20, 1.0, epsilon=0.5)
    assert numbers["floor"] == pytest.approx(1 - math.sqrt(20 / 120)) and numbers["applies"]
    assert numbers["floor_any_dimension"] == pytest.approx(1 - 1 / math.sqrt(120))
    assert numbers["dimension_needed"] == pytest.approx(30)
    assert not kernel_floor(10, 3, 31, 1.0, epsilon=0.5)["applies"]
    assert kernel_floor(10, 3, 10**6, 1.0)["floor"] == 0
    floors = [kernel_floor(n, 3, 100, 2.0)["floor"] for n in (10, 20, 40, 80)]
    assert floors == sorted(floors)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: statistical_limit(30, 3, noise=0.6), "between 0 and 0.5; got noise=0.6"),
        (lambda: statistical_limit(30, 3, noise="0.1"), "got noise='0.1'"),
        (lambda: statistical_limit(30, 3, failure=1.0), "failure must be a number strictly between 0 and 1"),
        (lambda: sq_limit(30, 3, 2.0), "tolerance must be a number in \\(0, 1\\]; got tolerance=2.0"),
        (lambda: noise_attenuation(-0.1), "got noise=-0.1"),
        (lambda: kernel_floor(10, 3, 0, 1.0), "dimension must be an integer at least 1"),
        (lambda: kernel_floor(10, 3, 5, -1.0), "radius must be a number greater than 0; got radius=-1.0"),
        (lambda: minimum_width(3, "tanh"), "activation must be one of relu, power, oscillating; got 'tanh'"),
        (lambda: degree_barrier(3, 1), "layers must be an integer between 2"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()


# --- chapter 6 ------------------------------------------------------------------------------------------------


def test_resources_are_multiplied_and_divided_by_luck():
    found = resource_bound(30, 3, parameters=32_001, steps=10_000, samples=400, failure=0.5)
    assert found["cost"] == pytest.approx(32_001 * 10_000 * 400 / 0.5) and found["threshold"] == pytest.approx(2030)
    assert not found["fails"] and found["log10_slack"] == pytest.approx(math.log10(found["cost"] / 2030))
    assert resource_bound(30, 3, 32_001, 10_000, tolerance=0.05)["cost"] == pytest.approx(found["cost"])
    few = {"n": 60, "k": 20, "parameters": 1000, "steps": 1000, "samples": 10**6, "failure": 0.1}
    assert resource_bound(**few)["fails"] and resource_bound(**few | {"n": 10, "k": 5})["fails"] is False
    assert resource_bound(**few, constant=0.25)["threshold"] == pytest.approx(math.comb(60, 20) / 4)
    assert resource_bound(10_000, 5000, 10, 10, samples=10)["threshold"] == math.inf, "too large for a float"


def test_the_threshold_is_met_with_equality():
    subsets = math.comb(12, 4)
    assert resource_bound(12, 4, parameters=subsets // 5, steps=1, samples=1, failure=0.4)["fails"]
    assert not resource_bound(12, 4, parameters=subsets // 5 + 1, steps=1, samples=1, failure=0.4)["fails"]


def test_samples_make_gradients_as_precise_as_the_assumption_asks():
    tau, failure, steps, n = 0.2, 0.2, 3, 6
    m = resource_bound(n, 2, n, steps, tolerance=tau, failure=failure)["samples_for_tolerance"]
    assert m == math.ceil(8 * math.log(2 * n * steps / failure) / tau**2)
    rng, misses = np.random.default_rng(0), 0
    for _ in range(200):  # the means of m signs, the widest entries there are
        means = rng.choice([-1.0, 1.0], (m, n * steps)).mean(axis=0)
        misses += np.abs(means).max() > tau / 2
    assert misses <= 200 * failure


def test_reference_lines_are_in_order():
    lines = reference_lines(30, 3, signal=-0.05)
    assert lines["statistical_bits"] == pytest.approx(math.log2(math.comb(30, 3)))
    assert lines["statistical_bits"] < lines["online_order_low"] == pytest.approx(900)
    assert lines["kernel_order"] == lines["online_order_high"] == pytest.approx(27_000)
    assert lines["signal_order"] == pytest.approx(400) and math.isnan(reference_lines(30, 3)["signal_order"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tolerance": 0.1}, "give either samples or tolerance; got samples=5, tolerance=0.1"),
        ({"samples": None}, "give either samples or tolerance; got samples=None, tolerance=None"),
        ({"samples": 0}, "samples must be an integer at least 1; got samples=0"),
        ({"constant": 1.0}, r"constant must be 0.5 \(printed\) or 0.25 \(proved\); got constant=1.0"),
        ({"failure": 1.0}, "failure must be a number strictly between 0 and 1"),
        ({"parameters": 0}, "parameters must be an integer at least 1"),
    ],
)
def test_resources_that_make_no_sense(change, message):
    with pytest.raises(KroghError, match=message):
        resource_bound(**{"n": 10, "k": 3, "parameters": 4, "steps": 4, "samples": 5} | change)
