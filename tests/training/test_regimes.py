"""Where a step's examples come from: fresh, from a finite sample, or all there are."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from scipy import stats

from krogh.errors import KroghError
from krogh.tasks import Parity
from krogh.training import Epochs, FullBatch, Offline, Online, Population
from krogh.training.regimes import shuffled

KEY = jax.random.key(9)
TASK = Parity(n=40, k=3)
SMALL = Parity(n=5, k=2)

QUICK = {"xla_backend_optimization_level": 0}  # compiling a draw costs more here than running it
feed = jax.jit(
    lambda regime, key, start, steps: regime.feed(TASK, key, start, steps),
    static_argnames="steps",
    compiler_options=QUICK,
)
order = jax.jit(shuffled, compiler_options=QUICK)


def at(step: int):
    return jnp.asarray(step, jnp.int32)


def stacked(values):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *values)


def same(a, b) -> bool:
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.array_equal(x, y) for x, y in pairs)


# What every regime does.

REGIMES = [Online(4), Offline(6, batch_size=4), FullBatch(6), FullBatch(6, capacity=9), Population()]


@pytest.mark.parametrize("regime", REGIMES, ids=lambda regime: type(regime).__name__)
def test_a_step_is_raw_examples_with_weights_that_sum_to_one(regime):
    @jax.jit
    def one(start):
        fed = regime.feed(SMALL, KEY, start, 3)
        lengths = [leaf.shape[0] for leaf in jax.tree.leaves(fed)]
        raw, weight = regime.batch(SMALL, regime.sample(SMALL, KEY), jax.tree.map(lambda leaf: leaf[1], fed))
        assert set(lengths) == {3}
        return SMALL.decode(raw), weight

    examples, weight = one(at(10))
    assert examples.x.shape[1:] == (5,)
    if weight is not None:
        assert weight.shape == examples.y.shape and weight.dtype == jnp.float32
        assert float(weight.sum()) == pytest.approx(1.0, abs=1e-6)
    assert same(one(at(10)), (examples, weight)), "the key decides everything"


# Online.


def test_online_examples_are_fresh():
    """No input of 40 bits comes twice in 2000, within a round or across rounds."""
    rounds = [feed(Online(20), KEY, at(start), steps=10).bits for start in range(0, 100, 10)]
    used = np.array([0xFFFFFFFF, 0xFF], np.uint32)
    rows = np.concatenate([np.asarray(bits).reshape(-1, 2) & used for bits in rounds])
    assert len(rows) == 2000 and len({row.tobytes() for row in rows}) == 2000


def test_online_rounds_are_the_task_s_own_draws():
    fed = feed(Online(8), KEY, at(30), steps=5)
    drawn = jax.jit(lambda: TASK.draw(jax.random.fold_in(KEY, 30), 40))()
    assert fed.bits.shape == (5, 8, 2) and fed.noise.shape == (5, 8)
    assert np.array_equal(np.asarray(fed.bits).reshape(40, 2), drawn.bits)
    assert np.array_equal(np.asarray(fed.noise).reshape(40), drawn.noise)


def test_online_keeps_no_sample_and_passes_the_batch_through():
    assert Online(8).sample(TASK, KEY) == ()
    assert Online(8).batch(TASK, (), "fed") == ("fed", None)


def test_other_keys_and_other_rounds_feed_other_examples():
    starts = [feed(Online(8), key, at(t), steps=5) for key in (KEY, jax.random.key(1)) for t in (0, 5)]
    assert len({np.asarray(fed.bits).tobytes() for fed in starts}) == 4


# Offline.

SIZES = [1, 2, 3, 5, 8, 31, 32, 33, 64, 100, 257]


@functools.cache
def streams(batch_size: int) -> dict[int, np.ndarray]:
    """A long stream of indices for every sample size, as one program: m is data."""
    steps = -(-4 * max(SIZES) // batch_size)
    regimes = stacked([Offline(m, batch_size=batch_size) for m in SIZES])
    many = jax.jit(jax.vmap(lambda regime: regime.feed(TASK, KEY, at(0), steps)), compiler_options=QUICK)(regimes)
    assert many.shape == (len(SIZES), steps, batch_size) and many.dtype == jnp.int32
    return {m: np.asarray(stream).ravel() for m, stream in zip(SIZES, many, strict=True)}


def epochs(stream: np.ndarray, m: int) -> np.ndarray:
    return stream[: len(stream) - len(stream) % m].reshape(-1, m)


@pytest.mark.parametrize("batch_size", [1, 7, 32])
@pytest.mark.parametrize("m", SIZES)
def test_every_epoch_is_an_exact_permutation(m, batch_size):
    whole = epochs(streams(batch_size)[m], m)
    assert len(whole) >= 4
    assert np.array_equal(np.sort(whole, axis=1), np.broadcast_to(np.arange(m), whole.shape))


@pytest.mark.parametrize("m", [m for m in SIZES if m >= 8])
def test_epochs_differ(m):
    whole = epochs(streams(7)[m], m)
    assert len(np.unique(whole, axis=0)) == len(whole)


@pytest.mark.parametrize("m", SIZES)
def test_the_batch_size_cuts_the_same_stream(m):
    length = 4 * max(SIZES)
    assert np.array_equal(streams(1)[m][:length], streams(7)[m][:length])
    assert np.array_equal(streams(1)[m][:length], streams(32)[m][:length])


def test_rounds_do_not_matter():
    """Step t consumes the same examples however the steps are cut into rounds."""
    regime = Offline(33, batch_size=7)
    whole = np.asarray(feed(regime, KEY, at(0), steps=30))
    for steps in (1, 10):
        parts = [np.asarray(feed(regime, KEY, at(start), steps=steps)) for start in range(0, 30, steps)]
        assert np.array_equal(np.concatenate(parts), whole)


def test_other_keys_shuffle_otherwise():
    regime = Offline(100, batch_size=7)
    first, second = (feed(regime, jax.random.key(seed), at(0), steps=30) for seed in (0, 1))
    assert np.mean(np.asarray(first) == np.asarray(second)) < 0.1


def chi_square(counts: np.ndarray) -> float:
    """The probability of counts at least as uneven under equal chances."""
    return float(stats.chisquare(counts.ravel()).pvalue)


def shuffles(m: int, count: int, key=KEY) -> np.ndarray:
    """The first `count` epochs of a sample of m [count, m]."""
    epoch, position = np.meshgrid(np.arange(count), np.arange(m), indexing="ij")
    return np.asarray(order(key, epoch.astype(np.uint32), position.astype(np.uint32), np.uint32(m)))


@pytest.mark.parametrize("m", [2, 4, 5])
def test_every_order_is_equally_likely(m):
    found = shuffles(m, 12_000)
    names = {permutation: place for place, permutation in enumerate(itertools.permutations(range(m)))}
    counts = np.bincount([names[tuple(row)] for row in found.tolist()], minlength=len(names))
    assert chi_square(counts) > 1e-3


def test_every_example_is_equally_likely_at_every_position():
    m, count = 40, 8000
    found = shuffles(m, count)
    table = np.stack([np.bincount(found[:, place], minlength=m) for place in range(m)])
    statistic = float(((table - count / m) ** 2).sum() / (count / m))
    assert stats.chi2.sf(statistic, (m - 1) ** 2) > 1e-3
    assert stats.chi2.cdf(statistic, (m - 1) ** 2) > 1e-3, "nor suspiciously even"


def test_successive_epochs_and_neighbouring_positions_are_independent():
    m = 10
    found = shuffles(m, 20_000)
    across = found[:-1:2, 0] * m + found[1::2, 0]
    assert chi_square(np.bincount(across, minlength=m * m)) > 1e-3
    within = np.bincount(found[:, 0] * m + found[:, 1], minlength=m * m).reshape(m, m)
    assert np.all(np.diag(within) == 0)
    assert chi_square(within[~np.eye(m, dtype=bool)]) > 1e-3


def test_trials_shuffle_independently():
    m, keys = 10, jax.random.split(KEY, 4000)
    first = jax.jit(jax.vmap(lambda key: shuffled(key, jnp.uint32(0), jnp.uint32(0), jnp.uint32(m))))(keys)
    assert chi_square(np.bincount(np.asarray(first), minlength=m)) > 1e-3


LATE = [
    (100, 1000, (1 << 31) // 1000 - 1),
    (100, 1000, (1 << 32) // 1000 + 7),
    (100, 1000, (1 << 31) - 100),
    (1, 1000, (1 << 31) - 100),
    (3, 1000, (1 << 31) - 100),
    (10_000_019, 1000, 9_999_999),
    ((1 << 30) - 1, 1000, (1 << 31) - 100),
    (1 << 30, 1000, (1 << 30) - 1),
    (999, 7, (1 << 31) - 100),
]


@pytest.mark.parametrize(("m", "batch_size", "start"), LATE)
def test_late_steps_do_not_overflow(m, batch_size, start):
    """Position t·B + j by Python's integers, which have no end."""
    steps = 2
    found = np.asarray(feed(Offline(m, batch_size=batch_size), KEY, at(start), steps=steps)).ravel()
    positions = [start * batch_size + j for j in range(steps * batch_size)]
    epoch = np.array([position // m % (1 << 32) for position in positions], np.uint32)
    place = np.array([position % m for position in positions], np.uint32)
    expected = order(jax.random.fold_in(KEY, 1), epoch, place, np.uint32(m))
    assert np.array_equal(found, expected)
    assert found.min() >= 0 and found.max() < m


def test_late_epochs_are_permutations():
    m, batch_size, start = 100, 1000, (1 << 31) - 100
    found = np.asarray(feed(Offline(m, batch_size=batch_size), KEY, at(start), steps=2)).ravel()
    skip = -start * batch_size % m
    whole = epochs(found[skip:], m)
    assert len(whole) in (19, 20)
    assert np.array_equal(np.sort(whole, axis=1), np.broadcast_to(np.arange(m), whole.shape))


def test_a_batch_takes_the_rows_it_is_fed():
    regime = Offline(10, batch_size=4)
    sample = jax.tree.map(np.asarray, regime.sample(TASK, KEY))
    raw, weight = regime.batch(TASK, sample, jnp.array([3, 3, 0, 9], jnp.int32))
    assert weight is None
    assert np.array_equal(raw.bits, sample.bits[[3, 3, 0, 9]])
    assert np.array_equal(raw.noise, sample.noise[[3, 3, 0, 9]])


@pytest.mark.parametrize("kind", [Offline, FullBatch])
def test_the_sample_does_not_depend_on_the_room(kind):
    """A trial keeps its own m examples whatever the largest m of its cohort is."""
    alone, roomy = kind(10).sample(TASK, KEY), kind(10, capacity=64).sample(TASK, KEY)
    assert alone.bits.shape == (10, 2) and roomy.bits.shape == (64, 2)
    assert np.array_equal(alone.bits, np.asarray(roomy.bits)[:10])
    assert np.array_equal(alone.noise, np.asarray(roomy.noise)[:10])
    assert not np.array_equal(alone.bits, kind(10).sample(TASK, jax.random.key(0)).bits)


@pytest.mark.parametrize("kind", [Offline, FullBatch])
def test_a_cohort_has_room_for_its_largest_sample(kind):
    each = [kind(m) for m in (5, 64, 17)]
    fitted = each[0].fitted(stacked(each))
    assert fitted.capacity == 64 and int(fitted.m) == 5
    assert Online(8).fitted(Online(8)) == Online(8)


def test_offline_batches_do_not_depend_on_the_room():
    def batches(regime):
        fed = regime.feed(TASK, KEY, at(0), 20)
        sample = regime.sample(TASK, KEY)
        return jax.vmap(lambda part: regime.batch(TASK, sample, part)[0])(fed)

    batches = jax.jit(batches, compiler_options=QUICK)
    assert same(batches(Offline(10, batch_size=4, capacity=10)), batches(Offline(10, 4, capacity=64)))


# Full batch and population.


@pytest.mark.parametrize("capacity", [10, 64])
def test_full_batch_weighs_its_own_examples_and_no_others(capacity):
    regime = FullBatch(10, capacity=capacity)
    raw, weight = jax.jit(lambda: regime.batch(TASK, regime.sample(TASK, KEY), None))()
    assert np.array_equal(weight, np.repeat(np.float32([0.1, 0.0]), [10, capacity - 10]))
    values = np.asarray(raw.bits)[:, 0] / 2.0**32
    assert np.asarray(weight) @ values == pytest.approx(values[:10].mean(), abs=1e-6)


def test_population_is_every_input_in_every_step():
    raw, weight = Population().batch(SMALL, Population().sample(SMALL, KEY), None)
    assert weight is None and np.array_equal(raw.bits, SMALL.population().bits)
    Population().check(SMALL)
    with pytest.raises(KroghError, match="n=40"):
        Population().check(TASK)


# Bad input.


@pytest.mark.parametrize(
    ("build", "echo"),
    [
        (lambda: Online(0), "batch_size=0"),
        (lambda: Online(-1), "batch_size=-1"),
        (lambda: Offline(0), "m=0"),
        (lambda: Offline(-5), "m=-5"),
        (lambda: Offline(2**30 + 1), "m=1073741825"),
        (lambda: Offline(2**40), "got 1099511627776.*out of range"),
        (lambda: Offline(2.5), "int32 number; got 2.5"),
        (lambda: Offline(None), "int32 number; got None"),
        (lambda: Offline(8, batch_size=0), "batch_size=0"),
        (lambda: Offline(8, capacity=7), "m=8.*capacity=7"),
        (lambda: Offline(8, capacity=-1), "capacity=-1"),
        (lambda: FullBatch(0), "m=0"),
        (lambda: FullBatch(8, capacity=7), "m=8.*capacity=7"),
    ],
)
def test_bad_values_are_refused_with_what_was_given(build, echo):
    with pytest.raises(KroghError, match=echo):
        build()


@pytest.mark.parametrize(
    ("build", "echo"),
    [(lambda: Online(3.5), "batch_size=3.5"), (lambda: Offline(8, batch_size="all"), "batch_size='all'")],
)
def test_values_of_a_wrong_kind_are_refused(build, echo):
    jaxtyping.config.update("jaxtyping_disable", True)  # as a user sees it, without the checks of the tests
    try:
        with pytest.raises(KroghError, match=echo):
            build()
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


# Epochs that end with a smaller batch.


@pytest.mark.parametrize(("m", "batch"), [(10, 4), (12, 4), (3, 8), (1, 1)])
def test_every_epoch_has_every_example_once_and_its_last_batch_is_what_is_left(m, batch):
    regime = Epochs(m, batch)
    per_epoch = -(-m // batch)
    assert regime.steps(7) == 7 * per_epoch
    chosen, present = regime.feed(Parity(n=4, k=2), KEY, jnp.int32(per_epoch), 3 * per_epoch)
    orders = set()
    for epoch in range(3):
        steps = slice(epoch * per_epoch, (epoch + 1) * per_epoch)
        seen = np.asarray(chosen)[steps][np.asarray(present)[steps]]
        assert sorted(seen.tolist()) == list(range(m))
        orders.add(tuple(seen.tolist()))
    assert m < 10 or len(orders) == 3
    sizes = np.asarray(present).sum(axis=1)[:per_epoch].tolist()
    assert sizes == [batch] * (per_epoch - 1) + [m - batch * (per_epoch - 1)]


def test_the_weights_of_a_smaller_batch_are_those_of_its_mean():
    regime = Epochs(5, 4)
    chosen, present = regime.feed(Parity(n=4, k=2), KEY, jnp.int32(1), 1)
    raw, weight = regime.batch(Parity(n=4, k=2), jnp.arange(5), (chosen[0], present[0]))
    assert np.asarray(weight).tolist() == [1.0, 0.0, 0.0, 0.0] and np.asarray(raw)[0] == np.asarray(chosen)[0, 0]
