"""Covering and packing numbers, moments and widths, against lattices, simulations and compositions of lemmas."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory import predict
from krogh.theory.tokens.covering import covering, packing, query_key_covering, rademacher

CLASS = {
    "heads": 2,
    "features": 7,
    "hidden": 5,
    "prompt_radius": 3.0,
    "output_norm": 0.5,
    "hidden_norm": 2.0,
    "attention_norm": 1.5,
}


def greedy_packing(dimension, scale, seed=0, tries=3000):
    """Points of the unit ball at least `scale` apart: random candidates, kept where they fit."""
    rng, kept = np.random.default_rng(seed), np.zeros((0, dimension))
    for _ in range(tries):
        point = rng.standard_normal(dimension)
        point *= rng.random() ** (1 / dimension) / np.linalg.norm(point)
        if len(kept) == 0 or np.linalg.norm(kept - point, axis=1).min() >= scale:
            kept = np.concatenate([kept, point[None, :]])
    return kept


def roots_d4():
    """The 24 shortest vectors of D4, of norm 1."""
    vectors = [
        [a if k == i else b if k == j else 0 for k in range(4)]
        for i, j in itertools.combinations(range(4), 2)
        for a, b in itertools.product((1, -1), repeat=2)
    ]
    return np.array(vectors) / math.sqrt(2)


def roots_e8():
    """The 240 shortest vectors of E8, of norm 1."""
    pairs = [
        [a if k == i else b if k == j else 0 for k in range(8)]
        for i, j in itertools.combinations(range(8), 2)
        for a, b in itertools.product((1, -1), repeat=2)
    ]
    halves = [s for s in itertools.product((0.5, -0.5), repeat=8) if sum(x < 0 for x in s) % 2 == 0]
    return np.array([*pairs, *halves]) / math.sqrt(2)


@pytest.mark.parametrize(("roots", "count"), [(roots_d4, 25), (roots_e8, 241)])
def test_lattices_contradict_the_printed_packing_bound_and_not_the_repaired(roots, count):
    points = np.concatenate([roots(), np.zeros((1, roots().shape[1]))])
    squared = ((points[:, None] - points[None]) ** 2).sum(-1) + 10 * np.eye(len(points))
    assert len(points) == count and squared.min() >= 1 - 1e-12 and (points**2).sum(1).max() <= 1 + 1e-12
    dimension = points.shape[1]
    assert math.log(count) > packing(dimension, 1.0, variant="printed")["log_packing"]
    assert math.log(count) <= packing(dimension, 1.0)["log_packing"]


@pytest.mark.parametrize(("dimension", "scale"), [(1, 0.1), (2, 0.3), (3, 0.5), (5, 0.9), (3, 1.5), (6, 1.9), (4, 2.1)])
def test_greedy_packings_obey_the_bounds(dimension, scale):
    bound = packing(dimension, scale)
    found = math.log(len(greedy_packing(dimension, scale)))
    assert found <= bound["log_packing"] + 1e-12
    if dimension <= 2:
        assert found >= bound["log_at_least"], "here the candidates are dense enough for the packing to be maximal"
        assert found >= 0.5 * bound["log_volume"], "and the bound is not far"


def test_packings_on_a_line_and_simplices():
    assert math.exp(packing(1, 0.5)["log_volume"]) == pytest.approx(5), "-1, -1/2, 0, 1/2, 1"
    for points in (2, 3, 5):  # a simplex of k points has squared distances 2k/(k-1): Rankin's bound is attained
        scale = math.sqrt(2 * points / (points - 1))
        assert packing(50, scale)["log_packing"] == pytest.approx(math.log(points))
    assert packing(50, 2.01)["log_packing"] == 0
    assert packing(3, 1.0, variant="printed")["log_maurey"] == pytest.approx(1 + math.log(7))
    assert packing(3, 0.5, variant="printed")["log_maurey"] == pytest.approx(4 * (1 + math.log(2.5)))


def test_attention_moves_no_further_than_the_query_key_scale_allows():
    rng, heads, features, length = np.random.default_rng(0), 2, 5, 6
    ratios = []
    for _ in range(300):
        z = rng.standard_normal((length, features))
        one = rng.standard_normal((heads, features, features))
        other = one + rng.choice([0.01, 0.3, 2]) * rng.standard_normal(one.shape)

        def attend(weights, z=z):
            scores = np.einsum("ia,hab,jb->hij", z, weights, z)
            scores = np.exp(scores - scores.max(axis=2, keepdims=True))
            return np.einsum("hij,ja->iha", scores / scores.sum(axis=2, keepdims=True), z).reshape(length, -1)

        moved = np.linalg.norm(attend(one) - attend(other), axis=1).max()
        distance = np.linalg.norm(np.einsum("hab,ia->ihb", one - other, z).reshape(length, -1), axis=1).max()
        ratios.append(moved / (2 * (z**2).sum(1).max() * distance))
    assert 0.03 < max(ratios) <= 1
    found = covering(0.2, **CLASS)
    assert found["query_key_scale"] * 2 * 3.0**2 * (0.5 * 2.0) == pytest.approx(0.2 / 2)


@pytest.mark.parametrize("scale", [1e-4, 1e-2, 1.0, 100.0])
def test_proposition_17_is_the_composition_of_its_lemmas_up_to_a_constant(scale):
    found = covering(scale, **CLASS)
    stated = min(found["attention_sparse"], found["attention_volume"])
    # 16 from the squared factor 4 of the scales, and ln(2HD^2) <= 2 ln(HD^2)
    assert stated <= found["attention_composed"] <= 32 * stated
    assert found["log_covering"] == pytest.approx(found["feedforward"] + stated)


def test_covering_by_hand():
    found = covering(0.5, **CLASS)
    assert found["feedforward"] == pytest.approx(5 * 2 * 7 * math.log(1 + 3 / 0.5))
    assert found["attention_sparse"] == pytest.approx(3**6 * 0.25 * 4 * 4 * 2.25 * math.log(98) / 0.25)
    assert found["attention_volume"] == pytest.approx(98 * math.log(1 + math.sqrt(2) * 1.5 * 27 / 0.5))
    assert query_key_covering(10.0, 2, 7, 3.0, 0.1, 1.0) == pytest.approx((0.03) ** 2 * math.log(196))
    assert query_key_covering(0.1, 2, 7, 3.0, 100.0, 0.5) == pytest.approx(98 * math.log(1 + 30))


def test_the_volume_branch_covers_matrices():
    """A greedy cover of matrices of Frobenius norm R_F within s/r_z has at most exp(the bound) members."""
    rng, radius, norm, scale = np.random.default_rng(1), 2.0, 1.0, 1.5
    bound = query_key_covering(scale, 1, 2, radius, 1e9, norm)
    centres = greedy_packing(4, scale / radius / norm, tries=4000)
    assert len(centres) > 10 and math.log(len(centres)) <= bound
    fresh = rng.standard_normal((500, 4))
    fresh *= rng.random((500, 1)) ** 0.25 / np.linalg.norm(fresh, axis=1, keepdims=True)
    near = np.linalg.norm(fresh[:, None] - centres[None], axis=2).min(axis=1)
    assert (near * radius <= scale).mean() > 0.97


def test_rademacher_by_hand():
    found = rademacher(400, 10, **CLASS, tail=2.0)
    gain = 2 * 1.0 * 9
    assert found["truncation"] == pytest.approx(gain * math.log(gain * 200) + math.log(gain * 20) ** 2)
    c1, c2, c3 = 70, 3**6 * 4 * 2.25, 98
    assert (found["feedforward_size"], found["attention_norm_size"], found["attention_size"]) == (c1, c2, c3)
    assert found["complexity"] == pytest.approx(found["truncation"] * math.sqrt((c1 + c3) / 400))
    assert found["truncation_cost"] == pytest.approx(1 / 20)
    fixed = rademacher(400, 10, **CLASS, truncation=4.0)
    head = 4 * math.sqrt(c1 * math.log(3 * 40) / 400)
    sparse = math.sqrt(4 * c2 * math.log(98) / 400) * math.log(80)
    volume = 4 * math.sqrt(c3 * math.log(1 + math.sqrt(2) * 1.5 * 27 * 40) / 400)
    assert fixed["with_logarithms"] == pytest.approx(1 / 20 + head + min(sparse, volume))


def test_chaining_integral_of_the_volume_branch():
    """The closed form bounds Dudley's integral of sqrt(log covering/n) down to 1/sqrt(n), within its constant."""
    n, cut = 400, 4.0
    found = rademacher(n, 10, **CLASS, truncation=cut)
    edges = np.geomspace(1 / 20, cut, 4000)
    covers = [covering(e / (2 * math.sqrt(cut)), **CLASS) for e in edges]
    entropy = np.array([c["feedforward"] + c["attention_volume"] for c in covers])
    heights = np.sqrt(entropy / n)
    integral = 1 / 20 + (np.diff(edges) * (heights[1:] + heights[:-1]) / 2).sum()
    assert found["with_logarithms"] / 3 <= integral <= 3 * found["with_logarithms"]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("qstr/covering", {"scale": 0.5, **CLASS}),
        ("qstr/rademacher", {"samples": 400, "length": 10, **CLASS}),
        ("qstr/packing", {"dimension": 3, "scale": 0.5}),
    ],
)
def test_by_name(name, settings):
    numbers = predict(name, **settings)
    assert numbers == predict(name, **{k: str(v) for k, v in settings.items()}) and len(numbers) >= 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: covering(0.0, **CLASS), "scale must be a number greater than 0"),
        (
            lambda: rademacher(10, 10, **CLASS, tail=0.5),
            "tail must be a number of at least 1, as Assumption 1 has it; got tail=0.5",
        ),
        (lambda: rademacher(10, 10, **CLASS, truncation=-1.0), "truncation must be a number greater than 0"),
        (lambda: packing(0, 0.5), "dimension must be an integer at least 1"),
        (lambda: packing(2, 0.5, variant="mended"), "variant must be"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
