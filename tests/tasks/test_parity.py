"""Parities and packed signs, against plain NumPy."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.tasks import DisjointParity, Parity, ParityClasses, ParityControl
from krogh.tasks import bits as signs

KEY = jax.random.key(5)
LENGTHS = [1, 31, 32, 33, 64, 100]
QUICK = {"xla_backend_optimization_level": 0}  # compiling a draw costs more here than running it
batch = jax.jit(lambda task, key, size: task.batch(key, size), static_argnums=2, compiler_options=QUICK)
unpack = jax.jit(signs.unpack, static_argnums=1)
quiet = settings(database=None, deadline=None, max_examples=25)


@pytest.fixture
def unchecked():
    """What a user sees, who runs without the shape checks of the tests."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def unpacked(bits: np.ndarray, n: int) -> np.ndarray:
    """Signs by Python's own integers."""
    rows = [sum(int(word) << (32 * place) for place, word in enumerate(row)) for row in bits]
    return np.array([[1 - 2 * (row >> i & 1) for i in range(n)] for row in rows], np.float32)


@pytest.mark.parametrize("n", LENGTHS)
def test_unpacking_reads_the_first_n_bits(n):
    bits = jax.random.bits(KEY, (17, signs.words(n)), jnp.uint32)
    assert np.array_equal(unpack(bits, n), unpacked(np.asarray(bits), n))


def test_unpacking_keeps_leading_axes():
    bits = jax.random.bits(KEY, (2, 3, 4, 2), jnp.uint32)
    flat = np.asarray(unpack(bits.reshape(24, 2), 50))
    assert np.array_equal(unpack(bits, 50), flat.reshape(2, 3, 4, 50))
    assert np.array_equal(unpack(bits[0, 0, 0], 50), flat[0])
    mask = jax.jit(signs.support_mask, static_argnums=1)(np.array([3, 40], np.int32), 50)
    assert np.array_equal(jax.jit(signs.parity)(bits, mask), (flat[:, 3] * flat[:, 40]).reshape(2, 3, 4))


@pytest.mark.parametrize("n", LENGTHS)
def test_the_mask_has_the_bits_of_the_support(n):
    support = np.unique(np.array([0, n // 2, n - 1], np.int32))
    mask = np.asarray(jax.jit(signs.support_mask, static_argnums=1)(support, n))
    assert mask.shape == (signs.words(n),)
    assert sum(int(word) << (32 * place) for place, word in enumerate(mask)) == sum(1 << int(i) for i in support)


@quiet
@given(st.sets(st.integers(0, 69), min_size=1, max_size=70), st.integers(0, 2**32 - 1))
def test_a_parity_is_the_product_over_its_support(support, seed):
    n, chosen = 70, np.array(sorted(support), np.int32)
    bits = np.random.default_rng(seed).integers(0, 2**32, (8, signs.words(n)), np.uint32)
    mask = np.zeros(signs.words(n), np.uint32)
    for index in chosen:
        mask[index // 32] |= np.uint32(1) << np.uint32(index % 32)
    expected = unpacked(bits, n)[:, chosen].prod(axis=1)
    assert np.array_equal(signs.parity(bits, jnp.asarray(mask)), expected)


@pytest.mark.parametrize("n", [1, 3, 10])
def test_the_cube_is_every_row_in_the_order_of_its_digits(n):
    x = np.asarray(unpack(signs.cube(n), n))
    digits = ((1 - x) / 2).astype(int)
    assert np.array_equal(digits @ (1 << np.arange(n)), np.arange(2**n))


@pytest.mark.parametrize("n", [32, 33, 65])
def test_long_parities_against_a_product(n):
    support = (0, n // 3, n - 2, n - 1)
    drawn = batch(Parity(n=n, support=support), KEY, 257)
    assert drawn.x.shape == (257, n)
    assert np.array_equal(drawn.truth, np.asarray(drawn.x)[:, support].prod(axis=1))
    assert np.array_equal(drawn.y, drawn.truth)


def test_every_bit_of_a_long_input_is_a_fair_coin():
    x = np.asarray(batch(Parity(n=100, k=3), KEY, 1 << 14).x, np.float64)
    assert np.abs(x.mean(axis=0)).max() < 4.5 / math.sqrt(1 << 14)
    assert np.abs(x.T @ x / (1 << 14) - np.eye(100)).max() < 5 / math.sqrt(1 << 14)


def test_the_canonical_support_is_the_first_k():
    assert Parity(n=9, k=4).support.tolist() == [0, 1, 2, 3]
    assert Parity(n=9, support=(7, 2)).support.tolist() == [2, 7]
    assert DisjointParity(n=12, k=3).support.tolist() == [0, 4, 8]
    assert DisjointParity(n=12, k=3, choice=(3, 0, 2)).support.tolist() == [3, 4, 10]
    assert ParityControl(n=9, k=2).support.tolist() == [0, 1]


def test_the_order_of_the_support_does_not_matter():
    first, second = Parity(n=9, support=(7, 2, 5)), Parity(n=9, support=[5, 7, 2])
    assert first.support.tolist() == second.support.tolist() == [2, 5, 7]


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.25, 0.49])
def test_noise_flips_labels_and_leaves_inputs_and_truth(noise):
    size = 1 << 15
    clean, noisy = Parity(n=10, k=3), Parity(n=10, k=3, noise=noise)
    a, b = batch(clean, KEY, size), batch(noisy, KEY, size)
    assert np.array_equal(a.x, b.x) and np.array_equal(a.truth, b.truth)
    rate = float(np.mean(np.asarray(b.y) != np.asarray(b.truth)))
    assert abs(rate - noise) <= 4.5 * math.sqrt(noise * (1 - noise) / size)
    agreement = np.mean(np.asarray(b.y, np.float64) * np.asarray(b.truth))
    assert abs(agreement - (1 - 2 * noise)) <= 9 * math.sqrt(noise * (1 - noise) / size)


@pytest.mark.parametrize("n", [32, 64])
def test_noise_does_not_read_the_bits_of_the_input(n):
    """Whole words are used, so noise from the same words would correlate with some bit."""
    noise, size = 0.25, 1 << 14
    drawn = batch(Parity(n=n, k=3, noise=noise), KEY, size)
    centred = (np.asarray(drawn.y) != np.asarray(drawn.truth)) - noise
    correlation = centred @ np.asarray(drawn.x, np.float64) / size
    assert np.abs(correlation).max() < 4.5 * math.sqrt(noise * (1 - noise) / size)


def test_more_noise_flips_a_superset():
    flips = []
    for noise in (0.1, 0.2, 0.4):
        drawn = batch(Parity(n=10, k=3, noise=noise), KEY, 2048)
        flips.append(np.asarray(drawn.y) != np.asarray(drawn.truth))
    assert not (flips[0] & ~flips[1]).any() and not (flips[1] & ~flips[2]).any()


def test_a_cohort_mixes_supports_and_noise():
    tasks = [Parity(n=40, support=s, noise=p) for s, p in [((0, 1), 0.0), ((3, 39), 0.3), ((31, 32), 0.1)]]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *tasks)
    together = jax.jit(jax.vmap(lambda one: one.batch(KEY, 64)), compiler_options=QUICK)(stacked)
    for place, one in enumerate(tasks):
        for part, alone in zip(jax.tree.leaves(together), jax.tree.leaves(batch(one, KEY, 64)), strict=True):
            assert np.array_equal(np.asarray(part)[place], alone)


def test_fitting_leaves_noise_words_out_only_when_nobody_needs_them():
    clean, noisy = Parity(n=8, k=2), Parity(n=8, k=2, noise=0.2)
    both = jax.tree.map(lambda *leaves: np.stack(leaves), clean, noisy)
    assert clean.fitted(both).draw(KEY, 4).noise is not None
    assert noisy.fitted(noisy).draw(KEY, 4).noise is not None
    assert clean.fitted(clean).draw(KEY, 4).noise is None
    assert ParityControl(n=8, k=2).fitted(ParityControl(n=8, k=2)).draw(KEY, 4).noise is not None


def test_a_control_has_coin_flips_for_labels():
    drawn = batch(ParityControl(n=8, support=(0, 3)), KEY, 1 << 15)
    assert abs(float(np.mean(np.asarray(drawn.y) * np.asarray(drawn.truth)))) < 4.5 / math.sqrt(1 << 15)


def accepted(build) -> int:
    count = 0
    for subset in itertools.combinations(range(6), 3):
        try:
            count += build(subset).k == 3
        except KroghError:
            continue
    return count


def test_limits_count_the_supports_there_are():
    parity, disjoint = Parity(n=6, k=3), DisjointParity(n=6, k=3)
    assert accepted(lambda subset: Parity(n=6, support=subset)) == parity.supports == 20
    assert accepted(lambda subset: DisjointParity(n=6, k=3, support=subset)) == disjoint.supports == 8
    assert disjoint.limits() == {"samples": 3.0, "statistical_queries": 8.0}
    assert parity.limits()["samples"] == pytest.approx(math.log2(20))
    assert parity.baselines()["random_search_steps"] == 20.0
    assert parity.baselines()["elimination_samples"] == 6.0


def test_noise_raises_the_limit_by_the_square_of_what_is_left():
    clean, noisy = Parity(n=30, k=3), Parity(n=30, k=3, noise=0.25)
    assert noisy.limits()["samples"] == pytest.approx(4 * clean.limits()["samples"])
    assert noisy.baselines()["elimination_samples"] == math.inf
    assert ParityControl(n=30, k=3).limits()["samples"] == math.inf


def test_limits_of_an_astronomical_parity_are_infinite_not_an_error():
    task = Parity(n=4000, k=2000)
    assert task.limits()["statistical_queries"] == math.inf
    assert 3900 < task.limits()["samples"] < 4000


def test_the_cube_is_listed_up_to_twenty_bits():
    assert Parity(n=20, k=2).population_size == 2**20
    large = Parity(n=21, k=2)
    assert large.population_size is None
    with pytest.raises(KroghError, match="n=21"):
        large.population()


@pytest.mark.parametrize(
    ("build", "echo"),
    [
        (lambda: Parity(n=0, k=1), "n=0"),
        (lambda: Parity(n=5, k=0), "k=0"),
        (lambda: Parity(n=5, k=6), "k=6"),
        (lambda: Parity(n=5), "k or a support"),
        (lambda: Parity(n=5, support=(1, 1)), r"\[1, 1\]"),
        (lambda: Parity(n=5, support=(1, 5)), r"0\.\.4; got \[1, 5\]"),
        (lambda: Parity(n=5, support=(-1, 2)), r"\[-1, 2\]"),
        (lambda: Parity(n=5, k=3, support=(1, 2)), r"k=3 indices; got \[1, 2\]"),
        (lambda: Parity(n=5, support=(0.5, 2)), r"integers; got \(0\.5, 2\)"),
        (lambda: Parity(n=5, support=("a",)), "integers; got"),
        (lambda: Parity(n=5, support=jnp.array([2, 2])), r"\[2, 2\]"),
        (lambda: Parity(n=5, support=()), "k=0"),
        (lambda: Parity(n=5, k=2, noise=0.5), "noise=0.5.*parity-control"),
        (lambda: Parity(n=5, k=2, noise=-0.1), "noise=-0.1"),
        (lambda: Parity(n=5, k=2, noise=math.nan), "noise=nan"),
        (lambda: Parity(n=5, k=2, noise="much"), "noise=much"),
        (lambda: Parity(n=5, k=2, noise=None), "noise=None"),
        (lambda: Parity(n=5, k=2, noise=(0.1, 0.2)), r"noise=\(0\.1, 0\.2\)"),
        (lambda: Parity(n=5, k=2, noise=0.1, noisy=False), "noise=0.1"),
        (lambda: ParityControl(n=5, k=2, noisy=False), "noisy=False"),
        (lambda: ParityControl(n=5, k=6), "k=6"),
        (lambda: DisjointParity(n=10, k=3), "n=10, k=3.*try n=9"),
        (lambda: DisjointParity(n=9, k=3, choice=(0, 3, 1)), r"0\.\.2; got \[0, 3, 1\]"),
        (lambda: DisjointParity(n=9, k=3, choice=(0, 1)), r"\[0, 1\]"),
        (lambda: DisjointParity(n=9, k=3, choice=(0, 1.5, 1)), "integers; got"),
        (lambda: DisjointParity(n=9, k=3, support=(0, 1, 8)), r"blocks \[0, 0, 2\]"),
    ],
)
def test_bad_values_are_refused_with_what_was_given(build, echo):
    with pytest.raises(KroghError, match=echo):
        build()


@pytest.mark.parametrize(
    ("build", "echo"),
    [
        (lambda: Parity(n=5.5, k=1), "n=5.5"),
        (lambda: Parity(n="5", k=1), "n='5'"),
        (lambda: Parity(n=5, k=True), "k=True"),
        (lambda: DisjointParity(n=None, k=1), "n=None"),
        (lambda: DisjointParity(n=4, k="two"), "k='two'"),
    ],
)
def test_values_of_a_wrong_kind_are_refused(unchecked, build, echo):
    with pytest.raises(KroghError, match=echo):
        build()


def test_the_shape_checks_of_the_tests_bite():
    with pytest.raises(jaxtyping.TypeCheckError):
        signs.unpack(jnp.ones((2, 1), jnp.float32), 3)
    with pytest.raises(jaxtyping.TypeCheckError):
        signs.support_mask(np.zeros((2, 2), np.int32), 3)
    with pytest.raises(ValueError, match="rank_promotion"):
        jnp.ones((2, 3)) + jnp.ones(3)
    with pytest.raises(jax.dtypes.TypePromotionError):
        jnp.ones(3, jnp.float32) + jnp.ones(3, jnp.int32)


def test_class_0_is_the_even_one_on_the_whole_cube():
    task = ParityClasses(5, support=(1, 3))
    every = task.decode(task.population())
    x, y = np.asarray(every.x), np.asarray(every.truth)
    assert len({row.tobytes() for row in x}) == 32 == task.population_size
    assert np.array_equal(y, np.where(x[:, 1] * x[:, 3] > 0, 0, 1)) and y.dtype == np.int32
    assert task.classes == 2 and task.input_shape == (5,)


def test_two_classes_are_the_parity_of_one_logit_otherwise():
    two, one = ParityClasses(6, 3), Parity(6, 3)
    assert np.array_equal(two.support, one.support)
    assert two.limits() == one.limits() and two.baselines() == one.baselines()
    signs = one.decode(one.population()).truth
    assert np.array_equal(1 - 2 * np.asarray(two.decode(two.population()).truth), signs)


def test_two_classes_that_are_refused():
    with pytest.raises(KroghError, match="k must be at most n=3; got k=4"):
        ParityClasses(3, 4)
    with pytest.raises(KroghError, match="k must be an integer at least 1"):
        ParityClasses(3, 0)
    with pytest.raises(KroghError, match="listed for n ≤ 20; got n=21"):
        ParityClasses(21, 2).population()
