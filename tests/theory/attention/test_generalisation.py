"""Dudley's bound, the generalisation gap and its inversion: closed forms, quadrature, classes whose truth is known."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest
from scipy import integrate, optimize

from krogh.errors import KroghError
from krogh.models.transformer import SparseTransformer
from krogh.tasks.sparse_boolean import sparse_and
from krogh.theory.attention import complexity as capacity
from krogh.theory.attention import covering
from krogh.theory.attention.capacity import Contexts, HeadNorms, head_capacity, multi_head_capacity
from krogh.theory.attention.generalisation import (
    Loss,
    TrainedNorms,
    dudley_bound,
    gap_bound,
    generalisation,
    head_risk,
    rademacher_bound,
    sample_size,
    samples_promised,
    trained_gap,
    trained_norms,
)
from krogh.theory.numerics import least_integer


@pytest.mark.parametrize(
    ("size", "bound", "m"), [(1.0, 1.0, 100), (37.0, 2.5, 10**4), (0.01, 0.3, 50), (5.0, 1.0, 10**9)]
)
def test_the_closed_form_is_the_minimum(size, bound, m):
    """inf over delta of delta + sqrt(C/m) log(A/delta), found by a search that knows nothing of the minimiser."""
    objective = lambda log: math.exp(log) + math.sqrt(size / m) * (math.log(bound) - log)  # noqa: E731
    found = optimize.minimize_scalar(objective, bounds=(math.log(bound) - 40, math.log(bound)), method="bounded")
    assert rademacher_bound(size, bound, m, constant=1.0) == pytest.approx(found.fun, rel=1e-6)
    assert rademacher_bound(size, bound, m) == pytest.approx(12 * found.fun, rel=1e-6)
    value, delta = dudley_bound(lambda e: size / e**2, bound, m, constant=1.0)
    assert value == pytest.approx(found.fun, rel=1e-3) and delta == pytest.approx(math.sqrt(size / m), rel=0.1)


def test_few_samples_give_the_trivial_bound():
    assert rademacher_bound(100.0, 0.5, 10, constant=3.0) == 1.5
    assert dudley_bound(lambda e: 100 / e**2, 0.5, 10, constant=3.0) == (1.5, 0.5)
    assert rademacher_bound(0.0, 1.0, 10) == 0
    at = rademacher_bound(4.0, 2.0, 1.0, constant=1.0)
    assert at == rademacher_bound(4.0 * (1 - 1e-12), 2.0, 1.0, constant=1.0) == 2, "continuous where the cases meet"


def test_dudley_for_another_covering_number_against_quadrature():
    """log N = d log(3A/eps), a parametric class, for which delta = 0 is best."""
    log_cover = lambda e: 4 * np.log(3 / np.asarray(e))  # noqa: E731
    value, delta = dudley_bound(log_cover, 1.0, 1000, constant=1.0)
    exact, _ = integrate.quad(lambda e: math.sqrt(4 * math.log(3 / e) / 1000), 0, 1)
    assert value == pytest.approx(exact, rel=1e-3) and delta < 1e-6


def test_dudley_is_above_the_complexity_of_classes_that_are_known():
    """A finite class, whose covering number is at most its size, and the linear class with its explicit cover."""
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, size=(50, 10))
    truth = capacity.rademacher(values).value
    bound, _ = dudley_bound(lambda e: np.full(np.shape(e), math.log(50)), 1.0, 10)
    assert 0.3 < truth < bound
    points = rng.standard_normal((30, 5))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    truth = capacity.rademacher_of(lambda s: np.linalg.norm(s @ points, axis=1), 30).value
    bound, _ = dudley_bound(lambda e: covering.linear_log_cover(1.0, 1.0, e, 30), 1.0, 30)
    assert truth < bound


def test_gap_is_the_theorem_and_holds_for_a_finite_class():
    assert gap_bound(0.1, 50, 2.0, 3.0, 0.05) == pytest.approx(4 * 2 * 0.1 + 6 * math.sqrt(math.log(20) / 100))
    rng, m, failure, broken = np.random.default_rng(1), 40, 0.1, 0
    rules = rng.choice([-1.0, 1.0], size=(30, 64))  # thirty functions on 64 points, label +1 everywhere
    losses = np.abs(rules - 1) / 2
    for trial in range(100):
        drawn = rng.integers(64, size=m)
        complexity = capacity.rademacher(rules[:, drawn], draws=200, seed=trial).value
        gap = np.abs(losses.mean(axis=1) - losses[:, drawn].mean(axis=1)).max()
        broken += gap > gap_bound(complexity, m, 0.5, 1.0, failure)
    assert broken / 100 <= failure


def test_generalisation_puts_the_pieces_together():
    norms = {"value": 0.5, "value_21": 1.5, "query_key_21": 0.7, "token_norm": 1.2, "activation_lipschitz": 1.1}
    found = generalisation(60, 10**7, 8, **norms, readout=2.0, loss_lipschitz=0.5, loss_bound=2.0, failure=0.01)
    shape = head_capacity(60, 10**7, 8, 1.0, **norms, readout=2.0)["shape"]
    assert found["capacity_shape"] == pytest.approx(shape) and found["prediction_bound"] == pytest.approx(
        2 * 1.1 * 0.5 * 1.2
    )
    root = math.sqrt(shape / 10**7)
    expected = 12 * root * (1 + math.log(found["prediction_bound"] / root))
    assert found["rademacher_shape"] == pytest.approx(expected)
    tail = 4 * math.sqrt(math.log(100) / (2 * 10**7))
    assert found["gap_shape"] == pytest.approx(2 * expected + tail)
    assert found["gap_explicit"] == pytest.approx(2 * found["rademacher_explicit"] + tail)
    scales = found["prediction_bound"] * np.geomspace(1e-2, 1, 40)
    covers = np.array([head_capacity(60, 10**7, 8, e, **norms, readout=2.0)["explicit"] for e in scales])
    integrand = scales * np.sqrt(covers / 10**7)
    best = 12 * min(e + np.trapezoid(integrand[i:], np.log(scales[i:])) for i, e in enumerate(scales))
    assert found["rademacher_explicit"] == pytest.approx(best, rel=5e-3), "B5's optimum, integrated independently"
    assert generalisation(60, 100, 8)["vacuous"] and not generalisation(60, 10**13, 8)["vacuous"]


def test_the_gap_falls_like_the_root_of_the_samples_and_grows_with_log_length():
    gaps = [generalisation(100, 10**p, 16)["gap_shape"] for p in (8, 10, 12)]
    assert gaps[0] / gaps[1] == pytest.approx(gaps[1] / gaps[2], rel=0.2) and 5 < gaps[0] / gaps[1] < 10
    lengths = [generalisation(10**p, 10**10, 16)["gap_explicit"] for p in (1, 3, 5)]
    assert lengths == sorted(lengths) and lengths[2] / lengths[0] < 1.3


def test_sample_size_is_the_first_that_reaches_the_target():
    settings = {"length": 50, "dimension": 8, "value_21": 0.5, "loss_bound": 2.0, "failure": 0.2}
    found = sample_size(0.3, **settings)
    for key, gap in (("samples_shape", "gap_shape"), ("samples_explicit", "gap_explicit")):
        m = found[key]
        at, before = generalisation(samples=m, **settings)[gap], generalisation(samples=m - 1, **settings)[gap]
        assert at <= 0.3 < before
    assert found["samples_explicit"] > 30 * found["samples_shape"]


def samples_by_shape(target, length):
    def head(m):
        return head_risk(Contexts(length, m, 8), HeadNorms(), Loss())

    return least_integer(lambda m: head(m).gap(head(m).rademacher_shape) <= target)


def test_sample_size_grows_like_log_length():
    explicit = [sample_size(0.2, 2**p, 8)["samples_explicit"] for p in (4, 12, 20)]
    assert 1.02 < (explicit[1] - explicit[0]) / (explicit[2] - explicit[1]) * 1.05 < 1.2, "nearly equal steps"
    values = [samples_by_shape(0.2, 2**p) for p in (4, 8, 12, 16, 20)]
    steps = np.diff(values)
    assert (steps > 0).all() and steps.max() / steps.min() < 1.1 and values[-1] / values[0] < 2


def test_sample_size_falls_like_the_square_of_the_target():
    ratio = samples_by_shape(0.01, 100) / samples_by_shape(0.1, 100)
    assert 100 < ratio < 200, "1/target^2 and logarithms"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: generalisation(10, 0, 4), "samples must be an integer at least 1"),
        (lambda: generalisation(10, 5, 4, failure=1.0), "failure must be a number strictly between 0 and 1"),
        (lambda: generalisation(10, 5, 4, readout=0.0), "readout must be a number greater than 0"),
        (lambda: sample_size(0.0, 10, 4), "target must be a number greater than 0"),
        (lambda: sample_size(0.1, 2, 1), "d\\*T at least 3; got dimension=1, length=2 \\(try length=3\\)"),
        (lambda: Contexts(0, 1, 1), "length must be an integer at least 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()


# --- norms of a trained network -------------------------------------------------------------------------------


def trained(
    seed: int, embedding: int = 8, heads: int = 2, n: int = 6, tied: bool = False
) -> tuple[SparseTransformer, dict[str, np.ndarray]]:
    """A network whose every parameter is random, biases and norms too."""
    model = SparseTransformer(embedding, heads, tied=tied)
    params = jax.eval_shape(lambda: model.init(jax.random.key(seed), sparse_and(n, 2)))
    rng = np.random.default_rng(seed)
    return model, {name: (rng.standard_normal(leaf.shape) * 0.7).astype(np.float32) for name, leaf in params.items()}


def test_the_norms_bound_the_scores_and_outputs_of_the_network():
    """|score| <= ||x_q|| ||W_QK|| ||x|| per head, and the attended output is at most Σ_h ||W_V W_C|| B_X long."""
    tables = jax.jit(trained(0)[0]._tables)
    for seed in range(20):
        _, params = trained(seed)
        norms = trained_norms(params, 2)
        score, own, value, _ = tables(params)
        reach = norms.query_norm * norms.query_key * norms.token_norm
        assert np.all(np.abs(np.asarray(score)).max(axis=(0, 1)) <= reach * 1.0001)
        assert np.all(np.abs(np.asarray(own)) <= reach * 1.0001)
        output = np.einsum("sthk,hkd->sthd", np.asarray(value), params["Wo"].T.reshape(2, 4, 8))
        longest = np.linalg.norm(output, axis=3).max(axis=(0, 1))
        assert np.all(longest <= norms.value * norms.token_norm * 1.0001)
        assert np.all(norms.query_key <= norms.query_key_21 * 1.0001) and np.all(norms.value <= norms.value_21 * 1.0001)


def test_the_norms_are_those_of_the_matrices_written_out():
    _, params = trained(3)
    norms = trained_norms(params, 2)
    p = {name: leaf.astype(np.float64) for name, leaf in params.items()}
    for head in range(2):
        rows = slice(4 * head, 4 * head + 4)
        query, key, value = (np.column_stack([p["W" + name], p["b" + name]])[rows] for name in "qkv")
        scores = query.T @ key / math.sqrt(4)  # x_q^T (W_Q W_K^T) x
        assert norms.query_key_21[head] == pytest.approx(sum(np.linalg.norm(row) for row in scores))
        assert norms.query_key[head] == pytest.approx(np.linalg.svd(scores, compute_uv=False)[0])
        moved = value.T @ p["Wo"][:, rows].T
        assert norms.value_21[head] == pytest.approx(sum(np.linalg.norm(column) for column in moved.T))
    assert norms.readout == pytest.approx(np.linalg.norm(p["U"][1] - p["U"][0])) and norms.dimension == 9
    z = p["E"][2] + p["P"][-1]
    seen = (z - z.mean()) / math.sqrt(z.var() + 1e-5) * p["g1"] + p["h1"]
    assert norms.query_norm == pytest.approx(math.hypot(np.linalg.norm(seen), 1.0))
    assert norms.token_norm >= norms.query_norm


def test_tied_read_outs_use_the_tokens():
    _, params = trained(4, tied=True)
    assert "U" not in params
    assert trained_norms(params, 2).readout == pytest.approx(np.linalg.norm(params["E"][1] - params["E"][0]), rel=1e-6)


def test_one_head_gets_the_gap_of_the_theorem():
    _, params = trained(5, heads=1)
    norms = trained_norms(params, 1)
    found = trained_gap(norms, 7, 100)
    alone = {name: float(getattr(norms, name)[0]) for name in ("value", "value_21", "query_key_21")}
    alone |= {name: getattr(norms, name) for name in ("token_norm", "query_norm", "readout")}
    expected = generalisation(7, 100, norms.dimension, **alone)
    for name in ("capacity_shape", "prediction_bound", "gap_shape", "gap_explicit"):
        assert found[name] == pytest.approx(expected[name], rel=1e-9)
    assert expected["vacuous"]


def test_several_heads_get_the_capacity_of_the_lemma():
    norms = TrainedNorms(
        np.array([0.3, 0.2]), np.array([0.5, 0.4]), np.array([1.0, 2.0]), np.array([2.0, 3.0]), 1.5, 1.2, 1.0, 9
    )
    lemma = multi_head_capacity(7, 100, 9, 2, 1.0, (0.3, 0.2), (0.5, 0.4), (2.0, 3.0), token_norm=1.5, query_norm=1.2)
    found = trained_gap(norms, 7, 100)
    assert found["capacity_shape"] == pytest.approx(lemma["shape"])
    assert found["prediction_bound"] == pytest.approx(0.5 * 1.5)


def test_the_gap_falls_with_samples_and_grows_with_the_logarithm_of_the_length():
    _, params = trained(6)
    small = {name: leaf * 0.01 for name, leaf in params.items()}
    norms = trained_norms(small, 2)
    gaps = [trained_gap(norms, 100, m)["gap_explicit"] for m in (10**3, 10**6, 10**9)]
    assert gaps[0] > gaps[1] > gaps[2] > 0
    shapes = [trained_gap(norms, 10**e, 1000)["capacity_shape"] for e in (1, 2, 3)]
    assert shapes[2] - shapes[1] == pytest.approx(shapes[1] - shapes[0])


def test_the_samples_promised_are_the_fewest():
    _, params = trained(7)
    norms = trained_norms({name: leaf * 0.01 for name, leaf in params.items()}, 2)
    m = int(samples_promised(norms, 7, 0.5))
    assert trained_gap(norms, 7, m)["gap_explicit"] <= 0.5 < trained_gap(norms, 7, m - 1)["gap_explicit"]
    with pytest.raises(KroghError, match="target"):
        samples_promised(norms, 7, 0.0)


def test_heads_must_divide_the_embedding():
    with pytest.raises(KroghError, match="must divide the embedding 8"):
        trained_norms(trained(0)[1], 3)
