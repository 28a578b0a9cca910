"""Link functions against plain loops, their exact networks, and sampled second moments."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks.links import RIDGES, CentredSquareLink, LinearLink, MeanLink, RidgeLink, TwoLayerLink, unit_vector
from krogh.values import describe, structure_of

RANDOM = np.random.default_rng(0)
U = RANDOM.standard_normal(4)
RIDGE_U = RANDOM.standard_normal((5, 2, 12))
RIDGE_C = RANDOM.standard_normal(5)
NET = TwoLayerLink.random(q=3, d=4, width=7, seed=1, biased=True)
PHI = {
    "norm": lambda v: math.sqrt((v**2).sum()),
    "absolute": lambda v: abs(v.sum()) / math.sqrt(len(v)),
    "sine": lambda v: math.sin(v.sum() / math.sqrt(len(v))),
    "tanh": lambda v: math.tanh(v.sum() / math.sqrt(len(v))),
}


def network(x: np.ndarray) -> float:
    hidden = [max(0.0, float(w @ x.ravel()) + float(b)) for w, b in zip(NET.W, NET.b, strict=True)]
    return float(np.dot(NET.a, hidden))


def ridge(name: str):
    return lambda x: sum(c * PHI[name](block @ x.ravel()) for c, block in zip(RIDGE_C, RIDGE_U, strict=True))


LINKS = {
    "linear": (LinearLink(U), 1, lambda x: float(np.float32(U) @ x[0])),
    "mean": (MeanLink(U), 3, lambda x: sum(float(U @ token) for token in x) / 3),
    "square": (CentredSquareLink(), 3, lambda x: sum(float(t @ t) - 4 for t in x) / math.sqrt(12)),
    "two-layer": (NET, 3, network),
    **{name: (RidgeLink(RIDGE_U, RIDGE_C, ridge=name), 3, ridge(name)) for name in RIDGES},
}


@pytest.fixture(params=LINKS)
def case(request):
    return LINKS[request.param]


def test_a_link_is_its_formula(case):
    link, q, formula = case
    values = RANDOM.standard_normal((6, 2, q, 4)).astype(np.float32)
    result = link(values)
    assert result.shape == (6, 2) and result.dtype == jnp.float32
    expected = [[formula(values[i, j].astype(np.float64)) for j in range(2)] for i in range(6)]
    assert np.allclose(result, expected, rtol=1e-5, atol=1e-5)
    assert link(values[0, 0]).shape == ()


def test_a_link_keeps_double_precision(case):
    link, q, formula = case
    with jax.enable_x64(True):
        x = RANDOM.standard_normal((q, 4))
        result = link(jnp.asarray(x))
        assert result.dtype == jnp.float64
        assert float(result) == pytest.approx(formula(x), rel=1e-5, abs=1e-6)


def test_the_order_of_the_slots_matters_to_a_network():
    x = RANDOM.standard_normal((3, 4)).astype(np.float32)
    assert abs(float(NET(x)) - float(NET(x[::-1].copy()))) > 1e-3
    assert float(MeanLink(U)(x)) == pytest.approx(float(MeanLink(U)(x[::-1].copy())), abs=1e-6)


def test_exact_networks_are_the_link(case):
    link, q, _ = case
    exact = link.two_layer(q, 4)
    if link.kind == "centred-square" or getattr(link, "ridge", "absolute") != "absolute":
        assert exact is None
        return
    x = RANDOM.standard_normal((50, q, 4)).astype(np.float32) * 3
    assert np.allclose(exact(x.reshape(50, q * 4).astype(np.float64)), link(x), rtol=1e-4, atol=1e-4)
    assert all(part.dtype == np.float64 for part in exact)


def test_the_norm_of_a_number_is_a_network():
    link = RidgeLink(RIDGE_U[:, :1], RIDGE_C, ridge="norm")
    x = RANDOM.standard_normal((50, 3, 4)).astype(np.float32)
    assert np.allclose(link.two_layer(3, 4)(x.reshape(50, 12).astype(np.float64)), link(x), rtol=1e-4, atol=1e-4)


def test_the_radii_of_assumption_2():
    """The reference: a linear unit link has r_a = 2 and r_w = 1."""
    exact = LinearLink(unit_vector(9)).two_layer(1, 9)
    assert exact.output_radius == pytest.approx(2.0)
    assert exact.input_radius == pytest.approx(1.0, abs=1e-6)
    a, W, b = NET.two_layer(3, 4)
    assert NET.two_layer(3, 4).output_radius == pytest.approx(math.sqrt(7) * math.sqrt((a**2).sum()))
    assert NET.two_layer(3, 4).input_radius == pytest.approx(math.sqrt(((W**2).sum() + (b**2).sum()) / 7))


@pytest.mark.parametrize(
    ("link", "q"),
    [
        (LinearLink(U), 1),
        (MeanLink(U), 3),
        (CentredSquareLink(), 3),
        (TwoLayerLink.random(q=2, d=4, width=9, seed=5), 2),
        (RidgeLink(RIDGE_U, RIDGE_C, ridge="absolute"), 3),
    ],
)
def test_second_moments_against_a_sample(link, q):
    values = np.random.default_rng(3).standard_normal((1 << 17, q, 4)).astype(np.float32)
    squares = np.asarray(link(values), np.float64) ** 2
    deviation = squares.std() / math.sqrt(len(squares))
    assert abs(link.second_moment(q, 4) - squares.mean()) < 4.5 * deviation


def test_second_moments_in_closed_form():
    assert LinearLink([3.0, 4.0]).second_moment(1, 2) == pytest.approx(25.0)
    assert MeanLink([3.0, 4.0]).second_moment(5, 2) == pytest.approx(5.0)
    assert CentredSquareLink().second_moment(7, 3) == pytest.approx(2.0)
    assert TwoLayerLink.random(q=2, d=5, width=8).second_moment(2, 5) == pytest.approx(1.0, rel=1e-5)
    one = TwoLayerLink([1.0], [[2.0, 0.0]], [0.0])
    assert one.second_moment(1, 2) == pytest.approx(2.0)  # E σ(2x)² = 4/2
    assert NET.second_moment(3, 4) is None
    assert RidgeLink(RIDGE_U, ridge="sine").second_moment(3, 4) is None


@pytest.mark.parametrize("name", RIDGES)
def test_ridges_keep_to_their_lipschitz_constant(name):
    link = RidgeLink(RIDGE_U, RIDGE_C, ridge=name)
    bound = sum(abs(c) * np.linalg.svd(block)[1][0] for c, block in zip(RIDGE_C, RIDGE_U, strict=True))
    assert link.lipschitz() == pytest.approx(bound, rel=1e-5)
    x = RANDOM.standard_normal((2, 500, 3, 4)).astype(np.float32)
    change = np.abs(np.asarray(link(x[0])) - np.asarray(link(x[1])))
    ratio = change / np.sqrt(((x[0] - x[1]) ** 2).sum(axis=(1, 2)))
    assert ratio.max() <= bound


def test_a_single_ridge_attains_its_constant():
    link = RidgeLink([[[3.0, 4.0]]], [2.0], ridge="absolute")
    assert float(link(np.array([[0.6, 0.8]], np.float32))) == pytest.approx(link.lipschitz()) == pytest.approx(10.0)


def test_directions_are_uniform_on_the_sphere():
    drawn = np.stack([unit_vector(3, seed) for seed in range(3000)])
    assert np.allclose(np.linalg.norm(drawn, axis=1), 1.0, atol=1e-6)
    assert np.abs(drawn.mean(axis=0)).max() < 4.5 / math.sqrt(3 * 3000)
    assert np.abs(drawn.T @ drawn / 3000 - np.eye(3) / 3).max() < 4.5 / math.sqrt(3000) / 2


def test_links_of_one_shape_stack_and_show_their_kind():
    first, second = LinearLink(U), LinearLink(-U)
    assert structure_of(first) == structure_of(second) != structure_of(MeanLink(U))
    assert describe(first)["kind"] == "linear" and len(describe(first)["u"]) == 4
    assert structure_of(RidgeLink(RIDGE_U, ridge="norm")) != structure_of(RidgeLink(RIDGE_U, ridge="sine"))


@pytest.mark.parametrize(
    ("build", "echo"),
    [
        (lambda: LinearLink(np.ones((2, 2))), r"got shape \[2, 2\]"),
        (lambda: LinearLink(U).check(2, 4), "sparsity=2"),
        (lambda: LinearLink(U).check(1, 5), "dimension 5; got 4"),
        (lambda: MeanLink(U).check(3, 5), "dimension 5; got 4"),
        (lambda: TwoLayerLink([1.0], [[1.0], [2.0]], [0.0]), r"\[\[1\], \[2, 1\], \[1\]\]"),
        (lambda: TwoLayerLink([1.0], [1.0], [0.0]), r"\[\[1\], \[1\], \[1\]\]"),
        (lambda: NET.check(2, 4), "2·4 = 8 numbers; got rows of 12"),
        (lambda: RidgeLink(RIDGE_U[0]), r"got shape \[2, 12\]"),
        (lambda: RidgeLink(RIDGE_U, [1.0, 2.0]), r"one number per ridge, 5; got shape \[2\]"),
        (lambda: RidgeLink(RIDGE_U, ridge="nrom"), "'nrom'; did you mean 'norm'"),
        (lambda: RidgeLink(RIDGE_U).check(1, 4), "1·4 = 4 numbers; got rows of 12"),
        (lambda: TwoLayerLink.random(q=0, d=2, width=3), "q=0"),
        (lambda: unit_vector(0), "dimension=0"),
    ],
)
def test_bad_values_are_refused_with_what_was_given(build, echo):
    with pytest.raises(KroghError, match=echo):
        build()
