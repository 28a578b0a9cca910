"""Composition of group elements: what the laws for every task do not say."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.programs.groups import cyclic, symmetric
from krogh.tasks import ClassificationTask, GroupComposition, margins
from krogh.tasks.composition import every_pair
from krogh.values import describe, replaced, structure_of

ANY = [[2, 2, 0], [1, 2, 2], [2, 0, 2]]


def listed(task: GroupComposition) -> dict:
    """The population as {(a, b): label}."""
    every = task.decode(task.population())
    return {(int(a), int(b)): int(y) for (a, b), y in zip(every.x, every.truth, strict=True)}


def test_modular_addition_is_the_whole_table():
    assert listed(GroupComposition("Z_7")) == {(a, b): (a + b) % 7 for a in range(7) for b in range(7)}


def test_permutations_compose_from_the_right():
    """(ab)(x) = a(b(x)), not the other order: S_3 is not abelian."""
    group = symmetric(3)
    permutations = np.asarray(group.permutations)
    for (a, b), ab in listed(GroupComposition(group)).items():
        assert permutations[ab].tolist() == permutations[a][permutations[b]].tolist()


def test_a_group_its_name_and_its_table_are_one_task_but_for_the_name():
    by_name, by_group = GroupComposition("Z_5"), GroupComposition(cyclic(5))
    assert describe(by_name) == describe(by_group) and by_name.name == "Z_5"
    bare = GroupComposition(cyclic(5).table)
    assert bare.name == "table" and bare.order == 5 and np.array_equal(bare.table, by_name.table)
    assert replaced(by_name, "table", "S_3").name == "S_3"


def test_any_table_of_numbers_will_do_and_tables_of_one_order_stack():
    task = GroupComposition(ANY)
    assert listed(task) == {(a, b): ANY[a][b] for a in range(3) for b in range(3)}
    assert task.baselines() == {"guessing_accuracy": pytest.approx(6 / 9)}
    assert structure_of(task) == structure_of(GroupComposition(np.zeros((3, 3), int)))
    with pytest.raises(KroghError, match="identity fails"):
        task.group()
    assert GroupComposition("D_4").group().order == 8


def test_a_draw_is_one_small_number_per_pair():
    raw = GroupComposition("S_3").draw(jax.random.key(0), 10)
    assert raw.shape == (10,) and raw.dtype == jnp.int32


def test_the_population_is_known_while_a_program_is_made():
    """Its inputs stay an array of NumPy inside a program, in lexicographic order; a batch's do not."""
    task = GroupComposition("S_3")
    seen = []

    @jax.jit
    def program(raw):
        seen.extend([task.decode(task.population()).x, task.decode(raw).x])
        return 0

    program(task.population())
    assert isinstance(seen[0], np.ndarray) and np.array_equal(seen[0], every_pair(6))
    assert not isinstance(seen[1], np.ndarray)
    assert every_pair(2).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]


def test_a_margin_is_the_label_against_the_best_of_the_others():
    logits = jnp.array([[3.0, 1.0, 2.5], [3.0, 1.0, 2.5], [1.0, 1.0, 0.0], [jnp.nan, 0.0, 0.0]])
    label = jnp.array([0, 1, 0, 1])
    found = margins(logits, label)
    assert found[:3].tolist() == [0.5, -2.0, 0.0] and np.isnan(found[3])
    assert GroupComposition(ANY).error(logits, label).tolist() == [0.0, 1.0, 1.0, 1.0], "a tie is an error"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("Z_0", "n must be an integer between 1"),
        ("S_33", "nearest: 'S_6'"),
        ([[0, 1], [1, 2]], r"in 0..1; got table\[1, 1\]=2"),
        ([[1, 2], [2, 1]], "subtract 1"),
        ([[0, 1, 2]], r"got shape \[1, 3\]"),
        ([[0.5, 1], [1, 0]], "whole numbers"),
        ([[0]], "at least 2 elements"),
    ],
)
def test_what_is_no_table_is_refused(table, words):
    with pytest.raises(KroghError, match=words):
        GroupComposition(table)


def test_tasks_with_classes_say_so():
    assert isinstance(GroupComposition("Z_3"), ClassificationTask) and GroupComposition("Z_3").classes == 3
