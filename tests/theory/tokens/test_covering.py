"""Covering and packing numbers, moments and widths, against lattices, simulations and compositions of lemmas."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import gammaln

from krogh.errors import KroghError
from krogh.theory import predict
from krogh.theory.tokens.covering import covering, packing, query_key_covering, rademacher
from krogh.theory.tokens.prompts import squared_norm_variance, token_radius
from krogh.theory.tokens.sizes import approximation_width, gate_width, retrieval_scale

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


def test_token_radius_bounds_the_longest_token():
    n, length, d, trials = 5, 8, 3, 2000
    rng = np.random.default_rng(3)
    longest = np.linalg.norm(rng.standard_normal((trials, n * length, d)), axis=2).max(axis=1)
    for radius in (2.5, 3.5, 5.0, 6.0, 7.0):
        assert (longest >= radius).mean() <= token_radius(n, length, d, radius=radius)["probability"]
    typical = token_radius(n, length, d)
    assert typical["probability"] == pytest.approx(40**-0.5) and (longest < typical["radius"]).all()
    assert typical["radius"] == pytest.approx(math.sqrt(3 * math.e * 3 * math.log(40)))
    wider = token_radius(5, 8, 3, moment=4.0)
    assert wider["radius"] == pytest.approx(2 * typical["radius"]) and wider["probability"] == pytest.approx(40**-0.5)


def test_token_radius_for_heavier_tokens_is_not_far_off():
    """|x|^2/(C d) exponential has moments E|x|^r = (C d)^(r/2) Gamma(1 + r/2), within the assumption for C_x = C."""
    orders = np.linspace(1, 300, 1000)
    assert (gammaln(1 + orders / 2) <= orders / 2 * np.log(orders)).all()
    squared = np.random.default_rng(4).exponential(size=(4000, 10)).max(axis=1) * 2
    for radius in (3.0, 4.0, 5.0):
        measured = (squared >= radius**2).mean()
        assert measured <= token_radius(10, 1, 2, radius=radius)["probability"]


def test_gaussian_tokens_meet_the_moment_assumption_with_constant_one():
    orders = np.linspace(1, 200, 400)
    for d in (1, 2, 5, 20, 60):
        log_moment = orders / 2 * math.log(2) + gammaln((d + orders) / 2) - gammaln(d / 2)
        assert (log_moment / orders <= 0.5 * np.log(d * orders) + 1e-12).all()


def test_tokens_of_constant_norm_contradict_the_printed_tail_below_its_proof():
    d = 4
    radius = math.sqrt(d)  # |x| = sqrt(d) always: every moment is d^(r/2) <= (d r)^(r/2)
    assert token_radius(1, 1, d, radius=radius, variant="printed")["probability"] < 1
    assert token_radius(1, 1, d, radius=radius)["probability"] == 1
    assert token_radius(100, 100, d, radius=4.0)["probability"] == 1
    assert token_radius(100, 100, d, radius=4.0, variant="printed")["probability"] > 1
    beyond = token_radius(1, 1, d, radius=4.0)
    assert beyond["moment_order"] > 1 and beyond["probability"] == pytest.approx(math.exp(-16 / (8 * math.e)))


def test_variance_of_a_squared_norm_by_simulation():
    rng, draws = np.random.default_rng(5), 400_000
    mean, variances = np.array([0.5, -1.0, 2.0]), np.array([1.0, 0.25, 3.0])
    rotation, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    x = (mean + rng.standard_normal((draws, 3)) * np.sqrt(variances)) @ rotation.T
    squared = (x**2).sum(1)
    found = squared_norm_variance(tuple(mean), tuple(variances))
    assert found["mean"] == pytest.approx(squared.mean(), abs=5 * squared.std() / math.sqrt(draws))
    assert found["variance"] == pytest.approx(squared.var(), rel=0.02)
    mu, sigma = rotation @ mean, rotation @ np.diag(variances) @ rotation.T
    assert found["variance"] == pytest.approx(2 * np.trace(sigma @ sigma) + 4 * mu @ sigma @ mu)
    assert squared_norm_variance((0.0,) * 5, (1.0,) * 5) == {"mean": 5, "variance": 10}


def test_retrieval_scale_by_simulation():
    """The construction (A.2) on one-hot codes, which are less coherent than allowed, keeps its promises."""
    rng, length, d, q = np.random.default_rng(6), 12, 4, 2
    found = retrieval_scale(length, d, q, length, 3.0, 2.0, 1.5, 1e-4)
    scores = found["scale"] * d / q * (0.5 + 0.5 * np.eye(length))  # coherence exactly 1/2
    weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert np.diag(weights).min() >= found["retrieval_weight_at_least"] > 1 - 1e-3
    x = rng.standard_normal((length, d))
    x *= 3 / np.linalg.norm(x, axis=1, keepdims=True)
    assert np.linalg.norm(weights @ x - x, axis=1).max() <= found["token_error_at_most"]
    assert found["retrieval_error"] == pytest.approx(1e-2)
    assert found["retrieval_error"] == pytest.approx(2.0 * 1.5 * math.sqrt(q) * found["token_error_at_most"])
    assert found["attention_norm"] == pytest.approx(length * found["scale"])


def test_retrieval_scale_of_the_reference_instance_and_as_printed():
    # N=20, d=6, q=3, eps=1e-4 with r_a r_w r_x about what makes alpha 13.7
    gain = 13.7 * 6 / (2 * 3)
    product = math.exp(gain) * 1e-2 / (2 * 20 * math.sqrt(3))
    found = retrieval_scale(20, 6, 3, 60, product, 1.0, 1.0, 1e-4)
    assert found["scale"] == pytest.approx(13.7) and found["retrieval_weight_at_least"] > 0.99997
    printed = retrieval_scale(20, 6, 3, 60, product, 1.0, 1.0, 1e-4, variant="printed")
    assert printed["scale"] - found["scale"] == pytest.approx(2 * 3 / 6 * math.log(100))
    assert printed["retrieval_error"] == pytest.approx(1e-4)
    lax = retrieval_scale(20, 6, 3, 60, product, 1.0, 1.0, 25.0, variant="printed")
    assert lax["retrieval_error"] > math.sqrt(25.0), "as printed, a tolerance above 1 is exceeded"
    assert retrieval_scale(2, 6, 1, 9, 1.0, 1.0, 1.0, 1e4)["scale"] == 0


def test_approximation_width_by_hand():
    found = approximation_width(3, 2.0, 1.5, 0.1)
    ratio = 3 * (1 + math.log(30)) / 0.1
    assert found["width_order"] == pytest.approx(ratio**3)
    assert found["output_norm_order"] == pytest.approx(3 / math.sqrt(ratio**3) * ratio**2)
    assert found["output_norm_times_root_width"] == pytest.approx(3 * ratio**2)
    assert found["hidden_norm_at_most"] == pytest.approx(1 / 1.5)
    assert approximation_width(400, 2.0, 1.5, 0.1)["width_order"] == math.inf


def test_approximation_width_holds_in_one_dimension_for_interpolation():
    """On a line, piecewise linear interpolation of an L-Lipschitz function within eps takes 2LR/eps units or so."""
    for error in (0.5, 0.1, 0.02):
        knots = np.linspace(-1.0, 1.0, math.ceil(2.0 / error) + 1)
        fine = np.linspace(-1, 1, 5001)
        target = np.abs(np.mod(3 * fine, 1) - 0.5) / 3
        close = np.abs(np.interp(fine, knots, np.abs(np.mod(3 * knots, 1) - 0.5) / 3) - target).max()
        assert close <= error and len(knots) <= 3 * approximation_width(1, 1.0, 1.0, error)["width_order"]


def test_gate_width_repaired_is_what_the_approximation_lemma_gives():
    """Lemma 42 in two dimensions with L = 2R: the same powers of 1/eps and of R, up to constants and ln."""
    ratios = {"width": [], "norm": [], "printed": []}
    for error in (1e-2, 1e-4, 1e-6):
        for bound in (2.0, 20.0):
            token = math.sqrt(bound**2 - 1)
            lemma = approximation_width(2, 2 * bound, bound, error)
            found = gate_width(token, error)
            ratios["width"].append(found["gate_width_order"] / lemma["width_order"])
            ratios["norm"].append(found["gate_norm_order"] / lemma["output_norm_times_root_width"])
            printed = gate_width(token, error, variant="printed")["gate_width_order"]
            ratios["printed"].append(printed / lemma["width_order"])
    assert max(ratios["width"]) < 6 * min(ratios["width"]) and max(ratios["norm"]) < 6 * min(ratios["norm"])
    assert max(ratios["printed"]) > 50 * min(ratios["printed"])


def test_gate_width_by_hand():
    found = gate_width(1.0, 0.1, code_dimension=5, state_bound=2.0)
    bound = math.sqrt(6)
    ratio = math.log(bound / 0.1) / 0.1
    assert found["gate_width_order"] == pytest.approx(bound**6 * ratio**3)
    assert found["gate_norm_order"] == pytest.approx(bound**6 * ratio**2)
    printed = gate_width(1.0, 0.1, variant="printed")
    each = 4 * (math.log(math.sqrt(2) / 0.1) / 0.1) ** 1.5
    assert printed["gate_width_order"] == pytest.approx(each) == printed["gate_norm_order"]
    product = math.log(50) / 0.1
    assert found["codes_width_order"] == pytest.approx(125 * product**2)
    assert found["codes_norm_order"] == pytest.approx(5**2.5 * product**1.5)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("qstr/covering", {"scale": 0.5, **CLASS}),
        ("qstr/rademacher", {"samples": 400, "length": 10, **CLASS}),
        ("qstr/packing", {"dimension": 3, "scale": 0.5}),
        ("qstr/token-radius", {"samples": 5, "length": 8, "dimension": 3}),
        ("qstr/approximation-width", {"dimension": 2, "lipschitz": 1.0, "radius": 1.0, "error": 0.1}),
        ("qstr/gate-width", {"token_bound": 1.0, "error": 0.1}),
    ],
)
def test_by_name(name, settings):
    numbers = predict(name, **settings)
    assert numbers == predict(name, **{k: str(v) for k, v in settings.items()}) and len(numbers) >= 4


def test_variance_by_name_takes_lists():
    assert predict("qstr/variance", mean="1,0", variances="1,2") == {"mean": 4.0, "variance": 14.0}


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
        (lambda: token_radius(1, 1, 1, radius=-1.0), "radius must be a finite number of at least 0"),
        (lambda: squared_norm_variance((1.0,), (1.0, 2.0)), "one number per coordinate"),
        (lambda: squared_norm_variance((1.0,), (-1.0,)), "variances must be at least 0"),
        (lambda: approximation_width(2, 1.0, 1.0, 2.0), "error must be at most lipschitz"),
        (lambda: gate_width(1.0, 1.5), "error must be below 1; got error=1.5"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
