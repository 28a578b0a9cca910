"""Sparse Boolean functions of biased bits against plain NumPy."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks import bits as signs
from krogh.tasks import sparse_boolean as gates
from krogh.tasks import sparse_boolean as module
from krogh.tasks.bits import DIGIT_STREAM, biased
from krogh.tasks.consistency import consistent_sets
from krogh.tasks.sparse_boolean import Bits, SparseBoolean, exact_error, gate, sparse_and, sparse_or, sparse_xor
from krogh.values import describe, replaced, structure_of

KEY = jax.random.key(17)
MANY = 1 << 13
QUICK = {"xla_backend_optimization_level": 0}  # compiling a draw costs more here than running it
batch = jax.jit(lambda task, key, size: task.batch(key, size), static_argnums=2, compiler_options=QUICK)
spread = jax.jit(biased, compiler_options=QUICK)


def bits_of(x) -> np.ndarray:
    return (np.asarray(x) < 0).astype(int)


def valued(task: SparseBoolean, bits: np.ndarray) -> np.ndarray:
    support, table = np.asarray(task.support).tolist(), np.asarray(task.table)
    return np.array([table[sum(int(row[i]) << j for j, i in enumerate(support))] for row in bits])


@pytest.mark.parametrize(
    "task",
    [
        SparseBoolean.example(),
        sparse_and(70, 3, support=(3, 33, 69)),
        sparse_xor(12, 5),
        SparseBoolean(9, support=(7, 0, 4), table=[0, 1, 0, 0, 1, 1, 0, 1], bias=0.3),
        SparseBoolean(9, support=(8, 1), table=[0.5, -2.0, 0.0, 3.25], bias=0.6),
    ],
    ids=["multiplexer", "and", "xor", "any", "real"],
)
def test_labels_are_the_table_at_the_bits_of_the_support(task):
    drawn = batch(task, KEY, 256)
    expected = valued(task, bits_of(drawn.x))
    assert drawn.x.shape == (256, task.n) and drawn.y.dtype == jnp.float32
    assert np.array_equal(drawn.truth, expected) and np.array_equal(drawn.y, expected)
    assert len(np.unique(expected)) == len(np.unique(task.table))


def test_true_is_plus_one():
    for table in ([0, 0, 0, 1], [-1, -1, -1, 1]):
        assert SparseBoolean(5, table=table).table.tolist() == [-1.0, -1.0, -1.0, 1.0]
    assert SparseBoolean(5, 2, table="and").table.tolist() == [-1.0, -1.0, -1.0, 1.0]
    drawn = batch(sparse_xor(6, 2), KEY, 64)
    assert np.array_equal(drawn.y, -np.asarray(drawn.x)[:, :2].prod(axis=1)), "odd is true, so -chi"


@pytest.mark.parametrize("name", ["and", "or", "nand", "nor", "xor", "majority", "threshold-2"])
def test_named_gates_are_balanced(name):
    task = gate(name, n=9, s=4, support=(8, 1, 5, 2))
    logic = 2 * gates.gate_table(name, 4) - 1
    assert np.array_equal(task.table, logic.astype(np.float32)) and task.support.tolist() == [1, 2, 5, 8]
    assert task.baselines()["guessing_accuracy"] == pytest.approx(0.5, abs=1e-6)
    assert gates.probabilities(4, float(task.bias)) @ logic == pytest.approx(0.0, abs=1e-6)


def test_the_biases_of_the_source():
    assert float(sparse_and(50, 3).bias) == pytest.approx(2 ** (-1 / 3), abs=1e-7)
    assert float(sparse_or(50, 3).bias) == pytest.approx(1 - 2 ** (-1 / 3), abs=1e-7)
    assert float(sparse_xor(50, 3).bias) == 0.5


def test_a_disjunction_is_a_conjunction_with_the_tokens_exchanged():
    conjunction, disjunction = sparse_and(6, 3), sparse_or(6, 3)
    every = signs.cube(6)
    flipped = (~every & np.uint32(63)).astype(np.uint32)
    a = conjunction.decode(Bits(every, None))
    b = disjunction.decode(Bits(flipped, None))
    assert np.array_equal(a.x, -np.asarray(b.x)) and np.array_equal(a.truth, -np.asarray(b.truth))


@pytest.mark.parametrize("bias", [0.5, 2 ** (-1 / 3), 0.1, 0.75, 2.0**-24, 1 - 2.0**-24, 1 / 3])
def test_bits_are_true_with_the_probability_of_the_bias(bias):
    fair = jax.random.bits(KEY, (MANY, 2), jnp.uint32)  # the words that `draw` would begin with
    words = np.asarray(spread(KEY, fair, np.float32(bias)))
    rate = np.bitwise_count(words).sum() / (MANY * 64)
    assert abs(rate - bias) <= 4.5 * math.sqrt(bias * (1 - bias) / (MANY * 64))


def test_biased_bits_are_independent():
    bias = 0.8
    x = np.asarray(batch(SparseBoolean(40, 1, table="and", bias=bias), KEY, MANY).x, np.float64)
    centred = (x - (1 - 2 * bias)) / (2 * math.sqrt(bias * (1 - bias)))
    assert np.abs(centred.mean(axis=0)).max() < 4.5 / math.sqrt(MANY)
    assert np.abs(centred.T @ centred / MANY - np.eye(40)).max() < 8 / math.sqrt(MANY)
    assert np.abs(centred[:-1].T @ centred[1:] / MANY).max() < 6 / math.sqrt(MANY)


def test_every_digit_of_the_bias_counts():
    """A bit is 1 exactly when the number whose digits are its negated random bits, the fair one first, is below."""
    fair = jax.random.bits(KEY, (16, 2), jnp.uint32)
    streams = jax.vmap(lambda place: jax.random.fold_in(KEY, DIGIT_STREAM + place))(jnp.arange(23))
    fresh = [*np.asarray(jax.vmap(lambda key: jax.random.bits(key, (16, 2), jnp.uint32))(streams)), np.asarray(fair)]
    digits = np.stack([np.unpackbits((~word).view(np.uint8), axis=1, bitorder="little") for word in fresh])
    number = np.tensordot(1 << np.arange(24), digits.astype(np.int64), axes=1)
    for bias in np.random.default_rng(0).integers(1, 2**24, 20):
        words = np.asarray(spread(KEY, fair, np.float32(bias / 2**24)))
        bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
        assert np.array_equal(bits, number < bias)


def test_at_bias_one_half_the_scheme_is_the_plain_draw():
    plain = jax.random.bits(KEY, (64, 2), jnp.uint32)
    assert np.array_equal(spread(KEY, plain, np.float32(0.5)), plain)
    task = sparse_xor(50, 3)
    assert task.fair and np.array_equal(task.draw(KEY, 64).bits, plain)
    slow = SparseBoolean.__new__(SparseBoolean)  # the same task, told that its bias is not known to be 1/2
    for name in ("n", "s", "support", "table", "bias", "unique", "real", "conjunction"):
        object.__setattr__(slow, name, getattr(task, name))
    object.__setattr__(slow, "fair", False)
    assert np.array_equal(jax.jit(lambda key: slow.draw(key, 64).bits, compiler_options=QUICK)(KEY), plain)


def test_the_first_examples_do_not_depend_on_how_many_are_drawn():
    task = sparse_and(70, 3)
    assert np.array_equal(batch(task, KEY, 37).x, np.asarray(batch(task, KEY, 64).x)[:37])


def test_a_cohort_mixes_supports_tables_and_biases():
    tasks = [
        SparseBoolean(40, support=(3, 39), table=[0, 1, 1, 0], bias=0.4),
        SparseBoolean(40, support=(31, 32), table=[1, 0, 0, 0], bias=0.9),
    ]
    assert structure_of(tasks[0]) == structure_of(tasks[1])
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *tasks)
    together = jax.jit(jax.vmap(lambda one: one.batch(KEY, 64)), compiler_options=QUICK)(stacked)
    for place, one in enumerate(tasks):
        for part, alone in zip(jax.tree.leaves(together), jax.tree.leaves(batch(one, KEY, 64)), strict=True):
            assert np.array_equal(np.asarray(part)[place], alone)


def test_the_order_of_the_support_matters_where_the_table_says_so():
    table = [0, 1, 0, 0]
    first, second = (SparseBoolean(6, support=support, table=table) for support in [(4, 1), (1, 4)])
    every = first.population()
    assert first.support.tolist() == [4, 1] and not np.array_equal(first.decode(every).y, second.decode(every).y)
    assert describe(gate("or", 6, 2, support=(4, 1))) == describe(gate("or", 6, 2, support=(1, 4)))


def test_what_is_listed_is_equally_likely():
    assert sparse_xor(10, 3).population_size == 2**10
    assert sparse_xor(21, 3).population_size is None
    assert sparse_and(10, 3).population_size is None
    with pytest.raises(KroghError, match=r"bias=1/2.*got bias=0\.79"):
        sparse_and(10, 3).population()
    assert structure_of(sparse_xor(10, 3)) != structure_of(replaced(sparse_xor(10, 3), "bias", 0.4))


def test_the_exact_error_weighs_every_input():
    task = SparseBoolean(5, support=(4, 0, 2), table=[0, 0, 1, 0, 0, 1, 1, 1], bias=0.3)
    guess = lambda x: x[:, 0] + 0.5 * x[:, 1] - 0.25  # noqa: E731
    expected = 0.0
    for bits in itertools.product((0, 1), repeat=5):
        x = 1.0 - 2.0 * np.array([bits])
        wrong = guess(x)[0] * valued(task, np.array([bits]))[0] <= 0
        expected += wrong * 0.3 ** sum(bits) * 0.7 ** (5 - sum(bits))
    assert exact_error(task, guess) == pytest.approx(expected, abs=1e-7)
    assert exact_error(task, lambda x: task.truth(x, signs.cube(5))) == 0.0
    assert exact_error(sparse_and(16, 3), lambda x: jnp.ones(len(x))) == pytest.approx(0.5, abs=1e-6)


def test_a_real_table_makes_a_regression():
    task = SparseBoolean(6, support=(1, 3), table=[0.5, -2.0, 0.0, 3.0], bias=0.25)
    weights = np.array([9, 3, 3, 1]) / 16
    assert task.regression and not sparse_and(6, 2).regression
    guess, truth = jnp.array([1.0, 2.0]), jnp.array([3.0, 2.0])
    assert task.error(guess, truth).tolist() == [4.0, 0.0]
    assert sparse_and(6, 2).error(jnp.array([0.3, -0.3]), jnp.array([1.0, 1.0])).tolist() == [0.0, 1.0]
    mean, square = weights @ task.table, weights @ np.square(task.table)
    assert task.baselines() == pytest.approx({"null_risk": square, "constant_risk": square - mean**2})
    assert exact_error(task, lambda x: jnp.zeros(len(x))) == pytest.approx(square, rel=1e-6)
    assert exact_error(task, lambda x: jnp.full(len(x), mean, jnp.float32)) == pytest.approx(square - mean**2, rel=1e-5)
    assert SparseBoolean(6, table=[0.5, 0.5]).baselines()["constant_risk"] == 0.0


def test_limits_are_the_bits_that_name_the_index_set():
    """REF M7: 17.3, 22.1, 26.3 and 27.7 bits for s=3 at T = 100, 300, 800, 1100."""
    floors = [sparse_and(n, 3).limits()["samples"] for n in (100, 300, 800, 1100)]
    assert floors == pytest.approx([17.3, 22.1, 26.3, 27.7], abs=0.06)
    assert "statistical_queries" not in sparse_and(10, 3).limits()
    assert sparse_xor(10, 3).limits()["statistical_queries"] == 120.0
    assert SparseBoolean(10, table=[1, 0, 0, 1]).limits()["statistical_queries"] == 45.0, "the negated parity"
    assert "statistical_queries" not in gate("xor", 10, 3, bias=0.3).limits()
    dictator = SparseBoolean(10, 2, table=[0, 1, 0, 1])  # reads the first of its two bits alone
    assert dictator.limits()["samples"] == pytest.approx(math.log2(10))
    assert SparseBoolean(10, 2, table=[1, 2, 3, 4]).limits()["samples"] == pytest.approx(math.log2(45) / 2)
    assert SparseBoolean(10, 2, table=[1, 1, 1, 1]).limits()["samples"] == 0.0


# Finite samples that single out one index set.


def host_sets(task: SparseBoolean, words: np.ndarray, m: int) -> int:
    """How many index sets fit the first m examples, by enumeration."""
    bits = np.unpackbits(words[:m].view(np.uint8), axis=1, bitorder="little")[:, : task.n]
    return len(consistent_sets(1.0 - 2.0 * bits, valued(task, bits), task.s, task.table))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "s", "m"), [("and", 3, 13), ("or", 2, 9), ("nand", 1, 3), ("nor", 3, 13)])
def test_a_unique_sample_is_the_first_that_one_set_alone_fits(name, s, m):
    """Attempt after attempt is counted on the host; the device must stop at the same one."""
    size, attempts = 16, jnp.arange(40)
    task = gate(name, n=14, s=s, support=np.arange(s) + 3, unique=True)

    def one(key):
        draws = jax.vmap(lambda attempt: task.draw(jax.random.fold_in(key, attempt), size))(attempts)
        return task.dataset(key, size, m), draws, jax.vmap(lambda raw: task.identified(raw, m))(draws)

    keys = jax.random.split(KEY, 12)
    chosen, draws, identified = jax.tree.map(np.asarray, jax.jit(jax.vmap(one), compiler_options=QUICK)(keys))
    waits = []
    for place in range(len(keys)):
        unique = [host_sets(task, bits, m) == 1 for bits in draws.bits[place]]
        assert identified[place].tolist() == unique
        waits.append(unique.index(True))
        assert np.array_equal(chosen.bits[place], draws.bits[place][waits[-1]])
    assert max(waits) > 0 and not chosen.spoiled.any()


@pytest.mark.slow
def test_a_sample_does_not_depend_on_the_room_kept_or_on_its_neighbours():
    task = sparse_and(20, 3, unique=True)
    keys, sizes = jax.random.split(KEY, 6), np.array([16, 10, 24, 16, 12, 20], np.int32)
    kept = {
        room: jax.jit(jax.vmap(lambda key, m, room=room: task.dataset(key, room, m)), compiler_options=QUICK)
        for room in (24, 32)
    }
    together = np.asarray(kept[32](keys, sizes).bits)
    assert np.array_equal(kept[24](keys[:1], sizes[:1]).bits[0], together[0, :24])
    assert all(host_sets(task, bits, m) == 1 for bits, m in zip(together, sizes, strict=True))


def test_without_unique_a_sample_is_a_draw():
    task = sparse_xor(20, 3)
    raw = task.dataset(KEY, 16, 3)
    assert np.array_equal(raw.bits, task.draw(KEY, 16).bits) and raw.spoiled is None
    with pytest.raises(KroghError, match="unique=True"):
        task.identified(raw, 3)


def test_a_sample_that_cannot_be_had_spoils_its_labels(monkeypatch):
    monkeypatch.setattr(module, "MOST_REDRAWS", 5)
    task = sparse_and(30, 3, unique=True)
    sample = jax.jit(lambda m: task.decode(task.dataset(KEY, 64, m)), compiler_options=QUICK)
    spoiled, fine = sample(1), sample(64)
    assert np.isnan(np.asarray(spoiled.y)).all() and not np.isnan(np.asarray(spoiled.truth)).any()
    assert np.array_equal(fine.y, fine.truth)


def test_a_hopeless_sample_size_is_refused_beforehand():
    task = sparse_and(1100, 3, unique=True)
    sets = math.comb(1100, 3)
    with pytest.raises(KroghError, match=rf"m=5 .*C\(1100,3\) = {sets} .*try m=15 "):
        task.check_sample(5)
    task.check_sample(15)
    assert sets / 2**14 > 10_000 >= sets / 2**15
    sparse_and(1100, 3).check_sample(1)
    with pytest.raises(KroghError, match="m=0"):
        task.check_sample(0)


def test_unique_is_part_of_the_structure_and_survives_replacing():
    task = sparse_and(20, 3, unique=True)
    assert structure_of(task) != structure_of(sparse_and(20, 3))
    moved = replaced(task, "support", (4, 9, 11))
    assert moved.unique and moved.conjunction == "and" and structure_of(moved) == structure_of(task)
    assert structure_of(replaced(task, "unique", False)) == structure_of(sparse_and(20, 3))
    assert describe(task).keys() == {"kind", "n", "s", "support", "table", "bias", "unique"}


@pytest.mark.parametrize(
    ("build", "echo"),
    [
        (lambda: SparseBoolean(0, table=[0, 1]), "n=0"),
        (lambda: SparseBoolean(5, 6, table="and"), r"at most n=5; got s=6 \(try s=5\)"),
        (lambda: sparse_and(5, 6), "s=6"),
        (lambda: SparseBoolean(5, 0, table="and"), "s=0"),
        (lambda: SparseBoolean(30, 21, table="and"), "at most 20; got s=21"),
        (lambda: SparseBoolean(5), "needs s, a support or a table"),
        (lambda: SparseBoolean(5, 2), "table of 4 values is needed, or the name of a gate"),
        (lambda: SparseBoolean(5, 2, table=[0, 1, 1]), "2\\^2 = 4 values; got 3"),
        (lambda: SparseBoolean(5, table=[0, 1, 1]), "got 3 "),
        (lambda: SparseBoolean(5, 2, table="adn"), "unknown gate 'adn'; did you mean 'and'"),
        (lambda: gate("parity", 5, 2), "unknown gate 'parity'"),
        (lambda: SparseBoolean(5, support=(1, 5), table="and"), r"0\.\.4; got \[1, 5\]"),
        (lambda: SparseBoolean(5, support=(-1, 2), table="and"), r"\[-1, 2\]"),
        (lambda: SparseBoolean(5, support=(2, 2), table="and"), r"repeat an index; got \[2, 2\]"),
        (lambda: SparseBoolean(5, 3, support=(1, 2), table="and"), r"s=3 indices; got \[1, 2\]"),
        (lambda: SparseBoolean(5, support=(0.5, 2), table="and"), r"integers; got \(0\.5, 2\)"),
        (lambda: SparseBoolean(5, 2, table="and", bias=0.0), "bias=0.0"),
        (lambda: SparseBoolean(5, 2, table="and", bias=1), "bias=1"),
        (lambda: SparseBoolean(5, 2, table="and", bias=-0.1), "bias=-0.1"),
        (lambda: SparseBoolean(5, 2, table="and", bias=1e-9), "bias=1e-09"),
        (lambda: SparseBoolean(5, 2, table="and", bias=math.nan), "bias=nan"),
        (lambda: SparseBoolean(5, 2, table="and", bias="half"), "bias=half"),
        (lambda: SparseBoolean(5, 2, table="and", bias=[0.1, 0.2]), r"bias=\[0\.1, 0\.2\]"),
        (lambda: SparseBoolean(5, 2, table="xor", unique=True), r"unique=True is for and, nand, or, nor"),
        (lambda: SparseBoolean(9, 4, table="and", unique=True), "at most 3 bits; got s=4"),
        (lambda: exact_error(sparse_and(21, 3), lambda x: x[:, 0]), "n=21"),
    ],
)
def test_bad_values_are_refused_with_what_was_given(build, echo):
    with pytest.raises(KroghError, match=echo):
        build()
