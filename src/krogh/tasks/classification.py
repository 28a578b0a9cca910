"""Tasks whose labels are class numbers: a prediction is one logit per class, and the largest decides.

Where a task labels every position of a sequence, labels are [batch, positions] and logits [batch, positions, classes].
"""

from __future__ import annotations

import abc

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from krogh.tasks.base import Task


def margins(logits: Float[Array, "*batch classes"], label: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
    """g = f[y] - max over y' ≠ y of f[y'] for each example (dissertation, section 7.2): positive where f is right."""
    classes = jnp.arange(logits.shape[-1], dtype=label.dtype)
    own = classes.reshape((1,) * label.ndim + (-1,)) == label[..., None]
    right = jnp.sum(jnp.where(own, logits, 0), axis=-1)
    return right - jnp.max(jnp.where(own, -jnp.inf, logits), axis=-1)


class ClassificationTask(Task):
    """A task with labels 0..classes-1, judged by the largest logit.

    The error of a sequence is the share of its positions that are wrong, a number in [0, 1].
    """

    @property
    @abc.abstractmethod
    def classes(self) -> int:
        """How many labels there are."""

    def error(
        self, prediction: Float[Array, "batch ... classes"], truth: Int[Array, "batch ..."]
    ) -> Float[Array, " batch"]:
        """1 unless the true class alone has the largest logit: a tie is an error, as is a logit that is no number.

        Of a sequence the mean over positions: 0 exactly where all are right.
        """
        mistakes = 1.0 - (margins(prediction, truth) > 0).astype(jnp.float32)
        return jnp.mean(mistakes, axis=tuple(range(1, mistakes.ndim))) if mistakes.ndim > 1 else mistakes

    def limits(self) -> dict[str, float]:
        return {}
