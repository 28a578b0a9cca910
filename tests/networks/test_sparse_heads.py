"""Attention alone: every head is executed, by the model and by the formula in plain NumPy, on every input."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks import head_inputs as bases
from krogh.networks.handmade import construct
from krogh.networks.memoriser import boundedness, injectivity_gap, monotonicity_gap
from krogh.networks.sparse_functions import SparseTable, categorical_function, head_alone, index_set, norms
from krogh.networks.sparse_heads import (
    KINDS,
    HeadOptions,
    SparseHead,
    sparse_head,
    sufficient_dimension,
    truncated_softmax,
    truncation_bounds,
    truncation_deviation,
)
from krogh.theory.boolean import fourier as boolean

HEADS = tuple(KINDS)
SPARSITIES = (1, 2, 3, 4)


def scattered(s: int, n: int) -> tuple[int, ...]:
    """s of n indices, neither sorted nor a prefix."""
    return tuple(int(i) for i in np.random.default_rng(s).permutation(n)[:s])


def tokens(made: SparseHead, bits: np.ndarray) -> np.ndarray:
    """X(b) with [CLS] last, by the input mappings of the tasks; shape [batch, T+1, d]."""
    p = made.parameters
    using = bases.Basis(p["P"], p.get("E", np.zeros((2, len(p["cls"])))), p["cls"], 0.0)
    if made.mapping == "bag":
        return bases.bag(bits, using)
    return bases.trainable(bits, using, p["P"])


def scores(made: SparseHead, X: np.ndarray) -> np.ndarray:
    """v_CLSᵀ W_Q W_Kᵀ Xᵀ; shape [batch, heads, T+1]."""
    p = made.parameters
    return np.einsum("d,hdk,hek,bte->bht", p["cls"], p["Q"], p["K"], X, optimize=True)


def executed(made: SparseHead, bits: np.ndarray) -> np.ndarray:
    """Σ_h softmax(v_CLSᵀ W_Q W_Kᵀ Xᵀ) X W_V W_C and its first coordinates, as printed."""
    X, p = tokens(made, bits), made.parameters
    weights = truncated_softmax(scores(made, X))
    return np.einsum("bht,bte,hek,hkd->bd", weights, X, p["V"], p["C"], optimize=True)[:, : made.outputs]


def all_bits(n: int) -> np.ndarray:
    return ((1 - boolean.cube(n)) / 2).astype(int)


def fillings(n: int, support: tuple[int, ...], random: int = 30) -> np.ndarray:
    """All settings of the relevant bits, each with the others all 0, all 1 and random."""
    s = len(support)
    rows = []
    for fill in range(random + 2):
        other = np.random.default_rng(fill).integers(0, 2, (2**s, n)) if fill > 1 else np.full((2**s, n), fill)
        other[:, list(support)] = all_bits(s)
        rows.append(other)
    return np.concatenate(rows)


def error(made: SparseHead, bits: np.ndarray) -> float:
    return float(np.max(np.abs(executed(made, bits) - made.target(bits[:, list(made.support)]))))


# The targets.


def by_hand(name: str, b: list[int]) -> list[float]:
    """The targets of the lemmas for one setting of the relevant bits."""
    s, r = len(b), sum(b)
    chi = [1 - 2 * bit for bit in b]
    return {
        "single": [sum(chi) / s],
        "multi": chi,
        "scalar": [(r - s) / (r + 1)],
        "vector": [(bit - 1) / (r + 1) for bit in b],
    }[name.split("_")[1]]


@pytest.mark.parametrize("s", SPARSITIES)
@pytest.mark.parametrize("name", HEADS)
def test_heads_approximate_their_targets_on_every_input(name, s):
    n = 9
    made = sparse_head(name, n, scattered(s, n))
    bits = all_bits(n)
    expected = np.array([by_hand(name, [int(bit) for bit in row[list(made.support)]]) for row in bits])
    np.testing.assert_allclose(made.target(bits[:, list(made.support)]), expected, atol=1e-15)
    gamma = {"single": min(1, 2 / s), "multi": 1.0, "scalar": 1 / s, "vector": 1 / s}[name.split("_")[1]]
    found = np.max(np.abs(executed(made, bits) - expected))
    assert made.gamma == gamma and 0 < found <= gamma / 4


@pytest.mark.parametrize("name", HEADS)
def test_the_model_computes_what_the_formula_says(name):
    n, support = 8, (6, 1, 3)
    made, head = head_alone(n, support=support, head=name), sparse_head(name, n, support)
    x = boolean.cube(n)
    expected = executed(head, all_bits(n))
    np.testing.assert_allclose(made.run(x).reshape(len(x), -1), expected, atol=1e-12)
    checked = made.check()
    assert (checked.inputs, checked.exhaustive, checked.holds) == (256, True, True)
    assert checked.largest_error == pytest.approx(error(head, all_bits(n)), abs=1e-12)
    assert made.tolerance == head.gamma / 4


@pytest.mark.parametrize("name", HEADS)
def test_targets_are_bounded_separated_and_monotone_as_stated(name):
    for s in SPARSITIES:
        made = sparse_head(name, 9, scattered(s, 9))
        points = made.points()
        assert len(points) == (2**s if "multi" in name or "vector" in name else s + 1)
        if "single" in name:
            assert monotonicity_gap(-points[:, 0]) == pytest.approx(2 / s), "decreasing in r"
            rising = sparse_head(name, 9, made.support, HeadOptions(increasing=True))
            assert monotonicity_gap(rising.points()[:, 0]) == pytest.approx(2 / s)
            assert error(rising, all_bits(9)) <= rising.gamma / 4
            assert boundedness(points) == 1
        elif name == "bag_scalar":
            assert monotonicity_gap(points[:, 0]) == pytest.approx(1 / s)
            assert boundedness(points) == s and points.max() == 0
        else:
            gap = 2.0 if "multi" in name else 1 / s
            assert injectivity_gap(points) == pytest.approx(gap) and boundedness(points) == 1


# Numbers of the source and of its closed forms.


@pytest.mark.parametrize(
    ("n", "s", "gamma", "found", "bound"),
    [(10, 3, 2 / 3, 0.0408, 0.1667), (12, 4, 0.5, 0.0219, 0.125), (8, 1, 1.0, 0.2083, 0.25)],
)
@pytest.mark.parametrize("name", ["det_single", "train_single"])
def test_the_error_of_a_single_head(name, n, s, gamma, found, bound):
    made = sparse_head(name, n, tuple(range(s)), HeadOptions(gamma))
    largest = error(made, all_bits(n))
    assert largest == pytest.approx(found, abs=5e-5) and made.gamma / 4 == pytest.approx(bound, abs=5e-5)
    # All relevant bits alike and all others opposite: [CLS] adds nothing.
    e = 8 * n / gamma
    assert largest == pytest.approx(1 - (s * e - (n - s)) / (s * e + n + 1 - s), abs=1e-12)


def test_the_error_of_a_bag():
    largest = error(sparse_head("bag_scalar", 10, (0, 1, 2)), all_bits(10))
    assert largest == pytest.approx(0.041, abs=5e-4)
    assert largest == pytest.approx(3 * 10 / (8 * 10 * 3 * 3 + 10), abs=1e-12)  # at b = 0


@pytest.mark.parametrize("name", ["det_single", "train_single", "det_multi", "train_multi"])
def test_attention_weights_are_exact(name):
    n, support = 10, (7, 2, 4)
    made = sparse_head(name, n, support)
    R, selected = made.strength, [support] if "single" in name else [(i,) for i in support]
    weights = truncated_softmax(scores(made, tokens(made, all_bits(n))))
    assert weights.shape[1] == len(selected) and math.exp(R) == pytest.approx(8 * n / made.gamma)
    for head, chosen in enumerate(selected):
        total = len(chosen) * math.exp(R) + n + 1 - len(chosen)
        expected = np.full(n + 1, 1 / total)
        expected[list(chosen)] = math.exp(R) / total
        np.testing.assert_allclose(weights[:, head], np.tile(expected, (len(weights), 1)), rtol=1e-10)


def test_a_bag_attends_to_the_ones_and_to_cls():
    made = sparse_head("bag_vector", 6, (1, 4))
    bits = np.array([[1, 1, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0], [1, 0, 1, 1, 0, 1]])
    weights = truncated_softmax(scores(made, tokens(made, bits)))[:, 0]
    for row, weight in zip(bits, weights, strict=True):
        kept = [i for i in made.support if row[i]] + [6]
        total = len(kept) * math.exp(made.strength) + 7 - len(kept)
        np.testing.assert_allclose(weight[kept], math.exp(made.strength) / total, rtol=1e-10)
    X = tokens(made, bits)
    order = [3, 0, 5, 2, 4, 1, 6]
    np.testing.assert_allclose(scores(made, X[:, order]), scores(made, X)[..., order], atol=1e-12)


# Norms.


@pytest.mark.parametrize("s", SPARSITIES)
@pytest.mark.parametrize("name", HEADS)
def test_norms_are_those_of_the_lemmas(name, s):
    n = 16
    made = sparse_head(name, n, scattered(s, n))
    found = norms(made.parameters)
    bag = "bag" in name
    assert found["Q"] == pytest.approx(math.log(8 * n * (s if bag else 1) / made.gamma))
    assert found["K"] == pytest.approx({"det_single": math.sqrt(s)}.get(name, math.sqrt(s + 1) if bag else 1))
    assert found["V"] == pytest.approx(math.sqrt(2 * s) if bag else math.sqrt(2))
    assert found["C"] == pytest.approx(math.sqrt(s) if bag else 1)
    if "train" in name:
        assert found["P_21"] == pytest.approx(s)
    largest = max(np.linalg.norm(tokens(made, all_bits(4).repeat(4, axis=1)), axis=-1).ravel())
    assert largest <= (1 if bag else math.sqrt(2)) + 1e-12


@pytest.mark.parametrize("name", HEADS)
def test_only_the_query_grows_with_the_context_and_as_its_logarithm(name):
    lengths = [2**p for p in range(3, 13 if "train" in name else 9)]
    found = [norms(sparse_head(name, n, (5, 0, 3)).parameters) for n in lengths]
    slope = np.polyfit(np.log(lengths), [each["Q"] for each in found], 1)[0]
    assert slope == pytest.approx(1, abs=1e-9)
    for letter in ("K", "V", "C", "cls"):
        assert len({round(each[letter], 12) for each in found}) == 1


def test_long_contexts_are_checked_on_every_setting_of_the_relevant_bits():
    made = head_alone(4096, support=(4000, 7, 300), head="train_single")
    checked = made.check(seed=1)
    assert (checked.inputs, checked.exhaustive, checked.holds) == (8 * 64, False, True)
    rows, expected = next(made.oracle.cases(seed=1))
    index = (rows[:, [4000, 7, 300]] < 0) @ np.array([1, 2, 4])
    assert sorted(set(index)) == list(range(8))
    irrelevant = np.delete(rows, [4000, 7, 300], axis=1)
    assert np.all(irrelevant[:8] == 1) and np.all(irrelevant[8:16] == -1) and irrelevant[16:].std() > 0.9
    np.testing.assert_array_equal(expected.reshape(len(rows), -1), made.oracle.values[index].reshape(len(rows), -1))


# Positions that are not orthogonal.


def test_equal_scores_are_what_the_dual_key_repairs():
    support = (4, 19, 33)
    for mode, spread in (("printed", 1e-3), ("dual", 0.0)):
        made = sparse_head("det_single", 50, support, HeadOptions(dimension=600, exact=False, mode=mode, strength=1.0))
        found = scores(made, tokens(made, np.zeros((1, 50), int)))[0, 0]
        relevant = found[list(support)]
        assert (np.ptp(relevant) > spread) if spread else np.allclose(relevant, 1, atol=1e-12)
    delta, s = made.coherence, 3
    leak = np.max(np.abs(np.delete(found, support)))
    assert 0 < leak <= s * delta / (1 - (s - 1) * delta)
    assert norms(made.parameters)["K"] <= math.sqrt(s / (1 - (s - 1) * delta))


@pytest.mark.slow
@pytest.mark.parametrize(("d", "seed"), [(400, 4), (4000, 0)])
def test_a_stronger_query_hurts_the_printed_head_and_helps_the_dual(d, seed):
    n, support = 50, (0, 1, 2)
    bits, enough = fillings(n, support, 8), math.log(8 * n / (2 / 3))
    found = {"printed": [], "dual": []}
    for mode, times in itertools.product(found, (1, 3, 10, 100)):
        made = sparse_head("det_single", n, support, HeadOptions(None, d, None, mode, times * enough, seed, False))
        found[mode].append(error(made, bits))
    assert found["printed"][-1] > 1 and found["printed"][1] < found["printed"][2] < found["printed"][3]
    assert found["dual"][-1] < 1e-8 and found["dual"][0] > found["dual"][1] > found["dual"][2]


def test_the_printed_bound_is_false_where_positions_are_not_orthogonal():
    n, support, R = 50, (0, 1, 2), 23.1
    bits = fillings(n, support, 8)
    printed = sparse_head(
        "det_single", n, support, HeadOptions(dimension=4000, exact=False, mode="printed", strength=R)
    )
    bound = 2 * n / math.exp(R - 2 * R * 3 * printed.coherence)
    assert printed.coherence == pytest.approx(0.056, abs=5e-3) and bound < 1e-4
    assert error(printed, bits) > 100 * bound
    dual = sparse_head("det_single", n, support, HeadOptions(dimension=4000, exact=False, strength=R))
    assert error(dual, bits) < 1e-7


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("name", "d"), [("det_single", 500), ("det_multi", 60), ("bag_scalar", 500), ("bag_vector", 500)]
)
def test_the_dual_keeps_the_promise_where_positions_are_not_orthogonal(name, d, seed):
    n, support = 60, scattered(3, 60)
    made = sparse_head(name, n, support, HeadOptions(dimension=d, basis_seed=seed, exact=False))
    assert made.coherence > 0.1 and made.coherence == bases.basis(n, d, seed, exact=False).coherence
    assert 0 < error(made, fillings(n, support)) <= made.gamma / 4
    delta, s, bag = made.coherence, 3, "bag" in name
    margin = 1 - delta if name == "det_multi" else 1 - s * delta / (1 - (s - 1) * delta)
    assert made.strength == pytest.approx(math.log(8 * n * (s if bag else 1) / made.gamma) / margin)


@pytest.mark.parametrize("name", ["bag_scalar", "bag_vector"])
def test_a_printed_bag_fails_where_positions_are_not_orthogonal(name):
    n, support = 60, (0, 1, 2)
    dual = sparse_head(name, n, support, HeadOptions(dimension=600, exact=False))
    printed = sparse_head(
        name, n, support, HeadOptions(dimension=600, exact=False, mode="printed", strength=dual.strength)
    )
    bits = fillings(n, support)
    assert error(printed, bits) > 0.25 and error(dual, bits) < 1e-5


def test_printed_strengths():
    delta = bases.basis(50, 4000, 0, exact=False).coherence
    made = sparse_head("det_single", 50, (0, 1), HeadOptions(dimension=4000, exact=False, mode="printed"))
    assert made.strength == pytest.approx(math.log(8 * 50) / (1 - 2 * delta))
    made = sparse_head("bag_scalar", 50, (0, 1), HeadOptions(dimension=4000, exact=False, mode="printed"))
    assert made.strength == pytest.approx(math.log(8 * 50 * 2 * (1 + delta) / (0.5 - 2 * delta)) / (1 - 2 * delta))
    with pytest.raises(KroghError, match=r"needs s·Δ < 0\.333333; positions have Δ=0\.14.* mode='dual'"):
        sparse_head("bag_scalar", 60, (0, 1, 2), HeadOptions(dimension=600, exact=False, mode="printed"))


def test_printed_and_dual_agree_where_positions_are_orthogonal():
    for name in ("det_single", "train_single", "train_multi", "bag_scalar", "bag_vector"):
        printed, dual = (sparse_head(name, 9, (8, 2, 3), HeadOptions(mode=mode)) for mode in ("printed", "dual"))
        for letter, value in dual.parameters.items():
            np.testing.assert_allclose(printed.parameters[letter], value, atol=1e-12)


def test_the_printed_value_matrix_of_several_heads_puts_out_nothing():
    made = sparse_head("det_multi", 8, (1, 5), HeadOptions(mode="printed"))
    assert not np.any(executed(made, all_bits(8)))
    assert error(made, all_bits(8)) == 1 > made.gamma / 4
    right = sparse_head("det_multi", 8, (1, 5))
    assert norms(made.parameters)["V"] == norms(right.parameters)["V"]


# Settings.


@pytest.mark.parametrize("name", HEADS)
def test_heads_that_are_not_needed_put_out_nothing(name):
    made, more = sparse_head(name, 7, (0, 3)), sparse_head(name, 7, (0, 3), HeadOptions(heads=5))
    assert len(more.parameters["Q"]) == 5
    np.testing.assert_allclose(executed(more, all_bits(7)), executed(made, all_bits(7)), atol=1e-14)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head": "det_multi", "heads": 2}, r"each of the s=3 .*; got heads=2 \(try heads=3\).*bag_vector"),
        ({"head": "train_multi", "heads": 1}, r"got heads=1 \(try heads=3\)"),
        ({"heads": 0}, "heads must be an integer at least 1"),
        ({"n": 60, "dimension": 30}, r"1/\(2s-1\) = 0\.2 for s=3; these have Δ=0\.\d+ \(try dimension=63\)"),
        ({"n": 60, "dimension": 70, "exact": False}, r"Δ=0\.\d+ \(try dimension=528\)"),
        ({"head": "bag_vector", "n": 60, "dimension": 30}, r"bag_vector needs positions with"),
        ({"head": "det_multi", "n": 60, "dimension": 4}, "two of these are equal"),
        ({"dimension": 3}, "dimension must be an integer at least 4; got dimension=3"),
        ({"head": "train_multi", "dimension": 5}, "dimension must be an integer at least 6; got dimension=5"),
        ({"gamma": 1.5}, r"gamma must be a number in \(0, 1\]; got gamma=1\.5"),
        ({"gamma": 0.0}, "gamma must be a number"),
        ({"strength": -1.0}, "strength must be a number greater than 0"),
        ({"head": "bag_scalar", "increasing": True}, "increasing belongs to det_single and train_single"),
        ({"head": "det_singel"}, "head must be det_single"),
        ({"mode": "primal"}, r"mode must be printed\|dual"),
        ({"s": 11}, "s must be an integer between 1 and 10; got s=11"),
        ({"s": 0}, "s=0"),
        ({"s": None}, "needs s or a support"),
        ({"support": (1, 1, 2)}, r"must not repeat an index; got \[1, 1, 2\]"),
        ({"support": (1, 10, 2)}, "between 0 and 9; got .*=10"),
        ({"support": (1, 2)}, r"must have s=3 indices; got \[1, 2\]"),
    ],
)
def test_bad_settings_get_one_clear_error(settings, message):
    with pytest.raises(KroghError, match=message):
        construct("sparse/head", **{"n": 10, "s": 3, **settings})


def test_direct_calls_are_checked_too():
    with pytest.raises(KroghError, match="unknown head 'det'"):
        sparse_head("det", 5, (0,))
    with pytest.raises(KroghError, match="mode must be 'printed' or 'dual'; got mode='both'"):
        sparse_head("det_single", 5, (0,), HeadOptions(mode="both"))
    with pytest.raises(KroghError, match="support must be a list of coordinates"):
        index_set(5, None, "0,1")
    with pytest.raises(KroghError, match="must have a coordinate"):
        index_set(5, None, ())


def test_a_sufficient_dimension_suffices():
    assert sufficient_dimension(50, 0.2) == 53
    d = sufficient_dimension(4000, 0.4)
    assert d < 4003 and bases.basis(4000, d).coherence < 0.4


def test_the_oracle_lists_the_table_in_the_order_of_the_support():
    table = SparseTable(4, (3, 1), np.array([10.0, 11.0, 12.0, 13.0]))
    ((x, y),) = table.cases(seed=0)
    assert table.exhaustive and len(x) == 16
    for row, value in zip(x, y, strict=True):
        assert value == 10 + (row[3] < 0) + 2 * (row[1] < 0)


# Softmax truncation.


def test_truncation_changes_no_more_than_its_bounds():
    random = np.random.default_rng(0)
    for _ in range(300):
        length = int(random.integers(2, 30))
        kept, margin = int(random.integers(1, length + 1)), float(random.uniform(0, 8))
        z = -random.exponential(size=length) * random.integers(0, 2)
        z[:kept] = margin + random.exponential(size=kept) * random.integers(0, 2)
        tight, simple = truncation_bounds(length, kept, margin)
        found = truncation_deviation(z, np.arange(length) < kept)
        assert found <= tight + 1e-12 and tight < simple
    worst = truncation_deviation(np.array([9.0] * 3 + [0.0] * 7), np.arange(10) < 3)
    assert worst == pytest.approx(truncation_bounds(10, 3, 9.0)[0], rel=1e-3), "nearly attained"
    assert 2 * (10 + 1 - 3) / 3 <= 2 * 10, "[CLS] is one entry more, and 2T e^-R still holds"
    with pytest.raises(KroghError, match="needs a position to keep"):
        truncated_softmax([1.0, 2.0], [False, False])
    with pytest.raises(KroghError, match="kept"):
        truncation_bounds(3, 4, 1.0)


# Categorical tokens.


@pytest.mark.parametrize(("n", "M", "support"), [(5, 3, (4, 1)), (4, 4, (2,)), (6, 2, (5, 0, 3))])
def test_functions_of_categorical_tokens_are_exact(n, M, support):
    values = np.random.default_rng(M).normal(size=(M,) * len(support))
    made = categorical_function(n, M, values, support=support)
    words = np.array(list(itertools.product(range(M), repeat=n)))
    assert 0 < np.max(np.abs(made.attended(words) - made.target(words))) <= made.gamma / 4
    expected = [values[tuple(row[i] for i in support)] for row in words]
    np.testing.assert_allclose(made(words), expected, atol=1e-10)
    assert made.gamma == pytest.approx(min(1, 2 / (M - 1))) and len(made.network.points) == M ** len(support)


def test_bad_categorical_settings_are_refused():
    with pytest.raises(KroghError, match="alphabet must be an integer at least 2; got alphabet=1"):
        categorical_function(4, 1, [0.0], s=1)
    with pytest.raises(KroghError, match=r"shape \(3, 3\); got \(3,\)"):
        categorical_function(4, 3, np.zeros(3), s=2)
    with pytest.raises(KroghError, match=r"rows of 4 integers in 0\.\.2"):
        categorical_function(4, 3, np.zeros(3), s=1).attended([[0, 1, 2, 3]])
