"""Sparse parity as two classes, on the whole cube (dissertation, section 7.5).

x ∈ {±1}^n, y = ∏_{j in S} x_j; class 0 is y = +1 and class 1 is y = -1. The parity of one logit is in `parity.py`.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, UInt32

from krogh.errors import require
from krogh.tasks import signs
from krogh.tasks.base import Examples, task
from krogh.tasks.boolean import MAX_ENUMERATION
from krogh.tasks.classification import ClassificationTask
from krogh.tasks.parity import Parity
from krogh.values import AnyArray, data, structure


@task("parity-classes")
class ParityClasses(ClassificationTask):
    """(n,k)-parity with support S (first k coordinates unless given) and two logits."""

    n: int = structure()
    k: int = structure()
    support: Int[AnyArray, " k"] = data(np.int32)

    def __init__(self, n: int, k: int | None = None, support: Any = None):
        inner = Parity(n, k, support)
        self.n, self.k, self.support = inner.n, inner.k, inner.support

    @property
    def classes(self) -> int:
        return 2

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.n,)

    def draw(self, key: PRNGKeyArray, size: int) -> UInt32[Array, "size words"]:
        return jax.random.bits(key, (size, signs.words(self.n)), jnp.uint32)

    def decode(self, raw: UInt32[AnyArray, "size words"]) -> Examples:
        sign = signs.parity(raw, signs.support_mask(self.support, self.n))
        y = (sign < 0).astype(jnp.int32)
        return Examples(signs.unpack(raw, self.n), y, y)

    @property
    def population_size(self) -> int | None:
        return 2**self.n if self.n <= MAX_ENUMERATION else None

    def population(self) -> UInt32[np.ndarray, "size words"]:
        listable = self.population_size
        require(listable, f"the cube can be listed for n ≤ {MAX_ENUMERATION}; got n={self.n} (use a sample instead)")
        return signs.cube(self.n)

    def limits(self) -> dict[str, float]:
        """As for one logit: samples ~ log2 C(n, k), statistical queries ~ C(n, k)."""
        return Parity(self.n, self.k).limits()

    def baselines(self) -> dict[str, float]:
        return Parity(self.n, self.k).baselines()

    @classmethod
    def example(cls) -> "ParityClasses":
        return cls(n=6, support=(1, 2, 4))
