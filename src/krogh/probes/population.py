"""A look at every input of a task, in slices: memory stays bounded however many there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from krogh.tasks.base import Examples, Task

SLICE = 1024


def over_population(task: Task, measure: Callable[[Examples, Bool[Array, " width"]], Any], slice_: int = SLICE) -> Any:
    """`measure` of every slice of the population, with a leading axis of slices.

    Its second argument says which rows belong to the slice: the last one is filled up by repeating the first input.
    """
    raw, size = task.population(), task.population_size
    assert size is not None
    if size <= slice_:
        alone = measure(task.decode(raw), jnp.ones(size, bool))
        return jax.tree.map(lambda leaf: leaf[None], alone)
    slices = -(-size // slice_)
    width = -(-size // slices)
    rows = np.arange(slices * width)
    chosen = np.where(rows < size, rows, 0).reshape(slices, width)
    parts = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[chosen]), raw)
    own = jnp.asarray((rows < size).reshape(slices, width))
    return jax.lax.map(lambda part: measure(task.decode(part[0]), part[1]), (parts, own))
