"""The same laws for every registered task: a new one is tested by existing.

A task adds a line to `ORACLES` where its truth can be written down in plain NumPy; without one, it is held to
the law that truth is a function of the input alone.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import krogh.tasks
from krogh.registry import EXPERIMENTS, PREDICTIONS, TASKS
from krogh.tasks.base import ClassificationTask, Task
from krogh.tasks.boolean import BooleanTask
from krogh.tasks.parity import AbstractParity
from krogh.tasks.system import System
from krogh.values import describe, structure_of

KEY = jax.random.key(20)
MANY = 1 << 16
SIGMAS = 4.5
QUICK = {"xla_backend_optimization_level": 0}  # compiling a draw costs more here than running it

ORACLES = {
    "parity": lambda task, x: x[:, np.asarray(task.support)].prod(axis=1),
    "disjoint-parity": lambda task, x: x[:, np.asarray(task.support)].prod(axis=1),
    "parity-control": lambda task, x: x[:, np.asarray(task.support)].prod(axis=1),
    "sparse-boolean": lambda task, x: np.asarray(task.table)[
        ((x[:, np.asarray(task.support)] < 0) * 2 ** np.arange(task.s)).sum(axis=1)
    ],
    "circuit": lambda task, x: np.where((x[:, :3] < 0) @ [1, 2, 4] < (x[:, 3:] < 0) @ [1, 2, 4], 1.0, -1.0),
    "composition": lambda task, x: np.asarray(task.table)[x[:, 0], x[:, 1]],
    "parity-classes": lambda task, x: (1 - x[:, np.asarray(task.support)].prod(axis=1)) / 2,
    "regular-language": lambda task, x: np.array([after_prefixes(tuple(word)) for word in x.tolist()]),
}
NAMES = list(TASKS)


@functools.cache
def after_prefixes(word: tuple[int, ...]) -> list[list[float]]:
    """Which symbols may follow each prefix of a word of (00)*(11)*; 2 is padding."""
    text = "".join(map(str, word)).rstrip("2")
    can = re.compile("0*|(00)*1*")
    may = [[1.0 if can.fullmatch(text[:t] + symbol) else -1.0 for symbol in "01"] for t in range(1, len(text) + 1)]
    return may + [[0.0, 0.0]] * (len(word) - len(text))


SIGNS = [name for name in NAMES if issubclass(TASKS[name], BooleanTask)]


@pytest.fixture(params=NAMES)
def task(request) -> Task:
    return TASKS[request.param].example()


@pytest.fixture(params=SIGNS)
def sign_task(request) -> BooleanTask:
    return TASKS[request.param].example()


class LargeDraws(dict):
    """One large draw of every task that is asked for, shared by the statistical laws."""

    def __missing__(self, name: str):
        self[name] = jax.tree.map(np.asarray, batch(TASKS[name].example(), KEY, MANY))
        return self[name]


@pytest.fixture(scope="module")
def large() -> LargeDraws:
    return LargeDraws()


batch = jax.jit(lambda task, key, size: task.batch(key, size), static_argnums=2, compiler_options=QUICK)
decode = jax.jit(lambda task, raw: task.decode(raw))


def same(a, b) -> bool:
    parts = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return jax.tree.structure(a) == jax.tree.structure(b) and all(np.array_equal(x, y) for x, y in parts)


def listed(task: Task):
    """Every input of a task that can list them."""
    if task.population_size is None:
        pytest.skip("the inputs cannot be listed, or are not equally likely")
    return jax.tree.map(np.asarray, decode(task, task.population()))


def copies(value, count: int):
    return jax.tree.map(lambda leaf: np.stack([leaf] * count), value)


def test_the_source_tasks_are_registered():
    assert {"parity", "disjoint-parity", "parity-control", "sparse-boolean", "qstr"} <= set(NAMES)
    assert {"composition", "parity-classes"} <= set(NAMES)
    assert krogh.tasks.Parity is TASKS["parity"]


def test_an_example_knows_its_name(task):
    assert TASKS[task.kind] is type(task)
    assert json.loads(json.dumps(describe(task)))["kind"] == task.kind
    assert structure_of(task) == structure_of(type(task).example())


def test_shapes(task):
    drawn = batch(task, KEY, 16)
    assert drawn.x.shape == (16, *task.input_shape)
    assert drawn.y.shape[:1] == drawn.truth.shape[:1] == (16,)
    assert drawn.y.shape == drawn.truth.shape and drawn.y.dtype == drawn.truth.dtype
    raw = jax.eval_shape(lambda: task.draw(KEY, 16))
    assert all(leaf.shape[0] == 16 for leaf in jax.tree.leaves(raw))


def test_a_batch_is_a_decoded_draw(task):
    assert same(task.batch(KEY, 16), task.decode(task.draw(KEY, 16)))


def test_a_key_decides_everything(task):
    eager, compiled = task.batch(KEY, 16), batch(task, KEY, 16)
    assert jax.tree.structure(eager) == jax.tree.structure(compiled)
    for one, other in zip(jax.tree.leaves(eager), jax.tree.leaves(compiled), strict=True):
        # a normal number may differ in its last bits
        assert np.allclose(one, other, rtol=1e-5, atol=1e-6) if task.regression else np.array_equal(one, other)


def test_other_keys_draw_other_examples(task):
    keys = jax.random.split(KEY, 4)
    inputs = [np.asarray(batch(task, key, 64).x).tobytes() for key in keys]
    assert len(set(inputs)) == 4


@pytest.mark.parametrize("m", [1, 16, 37])
def test_the_first_examples_do_not_depend_on_how_many_are_drawn(task, m):
    short, long = batch(task, KEY, m), batch(task, KEY, 64)
    assert same(short, jax.tree.map(lambda leaf: np.asarray(leaf)[:m], long))


def test_many_keys_at_once_draw_as_one_at_a_time(task):
    keys = jax.random.split(KEY, 5)
    many = jax.jit(jax.vmap(lambda key: task.batch(key, 16)), compiler_options=QUICK)
    together = jax.tree.map(np.asarray, many(keys))
    for place in range(5):
        assert same(jax.tree.map(lambda leaf, at=place: leaf[at], together), batch(task, keys[place], 16))


def test_many_tasks_at_once_draw_as_one_at_a_time(task):
    many = jax.jit(jax.vmap(lambda one: one.batch(KEY, 16), axis_size=3), compiler_options=QUICK)
    together, alone = jax.tree.map(np.asarray, many(copies(task, 3))), batch(task, KEY, 16)
    for place in range(3):
        assert same(jax.tree.map(lambda leaf, at=place: leaf[at], together), alone)


def test_truth_is_a_function_of_the_input(task, large):
    drawn = large[task.kind]
    truth = np.asarray(drawn.truth)
    if task.kind in ORACLES:
        assert np.array_equal(truth, ORACLES[task.kind](task, np.asarray(drawn.x)))
    every = listed(task)
    table = {x.tobytes(): y.tobytes() for x, y in zip(every.x, every.truth, strict=True)}
    for x, y in zip(drawn.x[:4096], truth[:4096], strict=True):
        assert table[x.tobytes()] == y.tobytes()


def test_the_population_is_every_input_once(task):
    every = listed(task)
    distinct = {x.tobytes() for x in every.x}
    assert len(distinct) == len(every.x) == task.population_size
    assert np.array_equal(every.y, every.truth), "the population is noiseless"
    if task.kind in ORACLES:
        assert np.array_equal(every.truth, ORACLES[task.kind](task, every.x))


def test_every_input_is_drawn(task, large):
    """Drawn inputs cover the population, each about equally often (chi-square within 5 deviations)."""
    listed(task)
    _, counts = np.unique(large[task.kind].x, axis=0, return_counts=True)
    cells = task.population_size
    assert len(counts) == cells
    expected = MANY / cells
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert abs(statistic - (cells - 1)) < 5 * math.sqrt(2 * (cells - 1))


def test_limits_and_baselines_are_numbers_a_person_can_read(task, large):
    drawn = large[task.kind]
    informative = abs(float(np.mean(drawn.y == drawn.truth)) - 0.5) > 0.02
    limits = task.limits()
    for name, number in {**limits, **task.baselines()}.items():
        assert isinstance(number, float) and not math.isnan(number) and number >= 0, name
    assert math.isfinite(limits.get("samples", 0.0 if informative else math.inf)) == informative
    assert math.isfinite(limits.get("statistical_queries", 0.0))
    if task.strategies():
        losses = [task.baselines()[f"loss_{name}"] for name in task.strategies()]
        assert losses == sorted(losses, reverse=True), "from simple to good"
        return
    if task.regression:
        null = task.baselines()["null_risk"]
        assert abs(null - np.mean(np.asarray(drawn.truth, np.float64) ** 2)) < 0.05 * null
        return
    accuracy = task.baselines()["guessing_accuracy"]
    assert abs(accuracy - max(np.mean(drawn.truth == value) for value in np.unique(drawn.truth))) < 0.02


def test_a_fitted_task_draws_the_same(task):
    for leaves in (task, copies(task, 3)):
        fitted = task.fitted(leaves)
        for size in (1, 16):
            assert same(batch(fitted, KEY, size), batch(task, KEY, size))


def predicted(task: Task, truth):
    """A prediction that is right, whatever form predictions have."""
    return jax.nn.one_hot(truth, task.classes) if isinstance(task, ClassificationTask) else truth


def test_predicting_the_truth_is_correct(task):
    drawn = batch(task, KEY, 64)
    error = np.asarray(task.error(predicted(task, drawn.truth), drawn.truth))
    assert error.shape == (64,) and error.dtype == np.float32 and not error.any()


def test_errors_are_mistakes_or_squared_distances(task):
    drawn = batch(task, KEY, 64)
    other = np.asarray(task.error(-predicted(task, drawn.truth), drawn.truth))
    if not isinstance(task, ClassificationTask) and task.regression:
        distance = (2 * np.asarray(drawn.truth, np.float64)) ** 2
        assert np.allclose(other, distance.reshape(64, -1).mean(axis=1), rtol=1e-5)
    else:
        assert set(np.unique(other)) == {1.0}


def test_a_strategy_is_at_no_distance_from_itself_and_apart_from_the_others(task):
    drawn = batch(task, KEY, 16)
    said = {name: np.asarray(strategy(drawn.x)) for name, strategy in task.strategies().items()}
    for name, own in said.items():
        classes = isinstance(task, ClassificationTask)
        prediction = np.repeat(np.log(own)[:, None], drawn.y.shape[1], axis=1) if classes else own
        distances = {other: np.asarray(task.distance(own_other, prediction)) for other, own_other in said.items()}
        assert all(found.shape == (16,) and (found > -1e-6).all() for found in distances.values())
        assert np.abs(distances[name]).max() < 1e-6
        assert all(distances[other].max() > 1e-3 for other in said if other != name)


def test_what_is_judged_at_the_last_position_reads_no_other(task):
    if not task.judged_last:
        pytest.skip("judged at every position, or there is but one")
    drawn = batch(task, KEY, 16)
    prediction = np.random.default_rng(0).normal(size=(*drawn.y.shape, task.classes)).astype(np.float32)
    assert np.array_equal(task.judge(prediction, drawn), task.judge(prediction[:, -1:], drawn))
    for strategy in task.strategies().values():
        own = strategy(drawn.x)
        assert np.array_equal(task.distance(own, prediction), task.distance(own, prediction[:, -1:]))


def test_test_examples_look_like_training_examples(task):
    drawn, judged = batch(task, KEY, 16), task.decode(task.test(KEY, 16))
    assert jax.tree.map(jnp.shape, drawn) == jax.tree.map(jnp.shape, judged)


def test_a_dataset_has_as_many_rows_as_asked_and_begins_alike(task):
    sample = jax.jit(lambda m, size: task.decode(task.dataset(KEY, size, m)), static_argnums=1)
    long, short = (jax.tree.map(np.asarray, sample(jnp.int32(12), size)) for size in (24, 12))
    assert long.x.shape == (24, *task.input_shape)
    assert same(short, jax.tree.map(lambda leaf: leaf[:12], long))


# Tasks of signs.


def test_inputs_and_labels_are_float32_signs(sign_task, large):
    drawn = large[sign_task.kind]
    for part in (drawn.x, drawn.y, drawn.truth):
        assert part.dtype == np.float32
        assert set(np.unique(part)) == {-1.0, 1.0}
    assert sign_task.input_shape == (sign_task.n,)


def flip_probability(task: BooleanTask) -> float:
    return 0.0 if task.label_noise is None else float(task.label_noise)


def cube(n: int) -> np.ndarray:
    return 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)


def as_drawn(task: BooleanTask, x: np.ndarray, large: dict) -> np.ndarray:
    """The truth of inputs by what was drawn with them: for tasks of which no more is known."""
    drawn = large[task.kind]
    known = dict(zip(map(bytes, drawn.x), drawn.truth.tolist(), strict=True))
    return np.array([known[row.tobytes()] for row in x.astype(np.float32)])


def test_every_bit_is_balanced_and_labels_are_as_in_the_population(sign_task, large):
    drawn, bound = large[sign_task.kind], SIGMAS / math.sqrt(MANY)
    bias, every = float(getattr(sign_task, "bias", 0.5)), cube(sign_task.n)
    chance = np.where(every < 0, bias, 1 - bias).prod(axis=1)
    oracle = ORACLES.get(sign_task.kind, lambda task, x: as_drawn(task, x, large))
    mean = float(chance @ oracle(sign_task, every))
    assert abs(mean) < 1e-12 or not isinstance(sign_task, AbstractParity), "a parity is balanced"
    assert np.abs(drawn.x.mean(axis=0, dtype=np.float64) - (1 - 2 * bias)).max() < bound
    assert abs(drawn.truth.mean(dtype=np.float64) - mean) < bound
    assert abs(drawn.y.mean(dtype=np.float64) - (1 - 2 * flip_probability(sign_task)) * mean) < bound


def centred(task: BooleanTask, large: dict) -> np.ndarray:
    return large[task.kind].x.astype(np.float64) - (1 - 2 * float(getattr(task, "bias", 0.5)))


def test_bits_are_pairwise_uncorrelated(sign_task, large):
    x = centred(sign_task, large)
    correlation = x.T @ x / MANY - np.diag((x * x).mean(axis=0))
    assert np.abs(correlation).max() < SIGMAS / math.sqrt(MANY)


def test_successive_examples_are_uncorrelated(sign_task, large):
    x = centred(sign_task, large)
    assert np.abs(x[:-1].T @ x[1:] / (MANY - 1)).max() < SIGMAS / math.sqrt(MANY)


def test_labels_flip_at_the_stated_rate(sign_task, large):
    drawn, p = large[sign_task.kind], flip_probability(sign_task)
    rate = np.mean(drawn.y != drawn.truth, dtype=np.float64)
    assert abs(rate - p) <= SIGMAS * math.sqrt(p * (1 - p) / MANY)


def test_flips_are_independent_of_the_input(sign_task, large):
    drawn, p = large[sign_task.kind], flip_probability(sign_task)
    if p == 0:
        pytest.skip("a noiseless task")
    centred = (drawn.y != drawn.truth) - p
    features = np.concatenate([drawn.x, drawn.truth[:, None]], axis=1)
    assert np.abs(centred @ features / MANY).max() < SIGMAS * math.sqrt(p * (1 - p) / MANY)


def test_correct_is_the_sign_rule_and_zero_is_an_error(sign_task):
    truth = jnp.array([1, 1, 1, -1, -1, -1, 1, -1], jnp.float32)
    guess = jnp.array([2, 0, -2, 2, 0, -2, 1e-30, -1e-30], jnp.float32)
    expected = [True, False, False, False, False, True, True, True]
    assert sign_task.correct(guess, truth).tolist() == expected
    assert not bool(jnp.any(sign_task.correct(jnp.full(8, jnp.nan), truth)))


# Model systems.

OWN = [name for name in NAMES if TASKS[name].__module__.startswith("krogh.")]


@pytest.mark.parametrize("name", OWN)
def test_it_says_what_it_is_a_model_system_of(name):
    """Knobs are its own, baselines are computed, and predictions and experiments are registered under their names."""
    kind, system = TASKS[name], TASKS[name].system
    example = kind.example()
    assert isinstance(system, System) and system.knobs and system.baselines and system.phenomena
    assert set(system.knobs) <= {*describe(example), *inspect.signature(kind).parameters}
    assert set(system.baselines) <= {*example.baselines(), *example.limits()}
    assert not [one for one in system.theory if one not in PREDICTIONS]
    assert not [one for one in system.experiments if one not in EXPERIMENTS]
    for names in (system.baselines, system.theory, *system.phenomena.values()):
        assert len(set(names)) == len(names)
    if system.experiments:
        assert all(system.phenomena.values()), "every phenomenon is shown by an experiment"


def test_a_task_of_a_users_own_need_not_say_it():
    assert Task.system is None and System().experiments == ()
