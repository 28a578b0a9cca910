"""Composition of two elements of a finite group, on the whole table (dissertation, sections 7.4, 7.6 and D.4).

    Z_p       ((a, b), a + b mod p)     modular addition (T1)
    group     ((a, b), ab)              a Cayley table (T3)
    table     ((a, b), r(a, b))         any function r: [n]² → [n] (T4)

An input is a pair of numbers; a model reads it as two one-hot vectors. The population is every pair once, in
lexicographic order. The source always trains on all of it, or on independent uniform pairs (S_5).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from krogh.errors import require
from krogh.programs.groups import Group, cyclic, from_table, load_group, whole_table
from krogh.tasks.base import ClassificationTask, Examples, task
from krogh.tasks.system import System
from krogh.values import AnyArray, data, structure, traced

UNNAMED = "table"


@task("composition")
class GroupComposition(ClassificationTask):
    """The label of (a, b) is table[a, b].

    `table` is a group, the name of one ("Z_71", "S_5", "D_4xD_4"), a file that holds one, or any n × n array of numbers
    0..n-1, which need not be a group. `name` is what people call it.
    """

    name: str = structure()
    order: int = structure()
    table: Int[AnyArray, "order order"] = data(np.int32)

    system = System(
        knobs={"table": "the group, or any other function of two elements: its irreducible representations"},
        baselines=("guessing_accuracy",),
        theory=(
            "algebra/finite-lambda",
            "algebra/max-margin",
            "algebra/memoriser-margin",
            "algebra/sign-condition",
            "algebra/subset-certificate",
            "algebra/weighted-margin",
        ),
        phenomena={
            "harmonic features by maximum margin": ("algebra/cyclic", "algebra/group", "algebra/certificates"),
            "which norm decides what is learned": ("algebra/norms", "algebra/regularisation"),
            "solutions that memorise and solutions that compute": ("algebra/alternatives",),
        },
    )

    def __init__(self, table: Any, name: str = "", order: int | None = None):
        if isinstance(table, str):
            table = load_group(table)
        if isinstance(table, Group):
            table, name = table.table, table.name
        elif not traced(table):
            table = _checked_table(table)
        self.table, self.name, self.order = table, name or UNNAMED, int(table.shape[-1])

    @property
    def classes(self) -> int:
        return self.order

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (2,)

    def draw(self, key: PRNGKeyArray, size: int) -> Int[Array, " size"]:
        """Independent uniform pairs, each as the one number a·n + b."""
        return jax.random.randint(key, (size,), 0, self.order**2, jnp.int32)

    def decode(self, raw: Int[AnyArray, " size"]) -> Examples:
        # A list that is known while a program is made stays known: a model can then see that it is every pair.
        numbers = np if isinstance(raw, np.ndarray) else jnp
        x = numbers.stack([raw // self.order, raw % self.order], axis=-1)
        y = jnp.take(jnp.asarray(self.table).reshape(-1), jnp.asarray(raw), mode="clip")
        return Examples(x, y, y)

    @property
    def population_size(self) -> int:
        return self.order**2

    def population(self) -> Int[np.ndarray, " size"]:
        return np.arange(self.order**2, dtype=np.int32)

    def group(self) -> Group:
        """The table as a group, its laws checked."""
        return from_table(np.asarray(self.table), name=self.name)

    @classmethod
    def example(cls) -> "GroupComposition":
        return cls(cyclic(5))


def every_pair(n: int) -> Int[np.ndarray, "pairs 2"]:
    """All pairs (a, b) of numbers below n in lexicographic order: the inputs of the population."""
    return np.stack(np.divmod(np.arange(n * n, dtype=np.int32), np.int32(n)), axis=-1)


def _checked_table(table: Any) -> Int[np.ndarray, "order order"]:
    entries = whole_table(table)
    n = len(entries)
    require(n >= 2, f"a table needs at least 2 elements; got {entries.tolist()}")
    outside = np.argwhere((entries < 0) | (entries >= n))
    if len(outside):
        a, b = outside[0]
        hint = " (the entries run from 1: subtract 1)" if entries.min() == 1 and entries.max() == n else ""
        require(False, f"entries must lie in 0..{n - 1}; got table[{a}, {b}]={entries[a, b]}{hint}")
    return entries.astype(np.int32)
