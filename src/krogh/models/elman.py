"""The ReLU Elman network of the theory of learning recurrent networks.

*Can SGD learn recurrent neural networks with provable generalization?* (Definition 3.3) and *Learning and
generalization in RNNs* (Definition 3.2):

    h_0 = 0,    g_l = W h_{l-1} + A x_l,    h_l = relu(g_l),    y_l = λ B h_l

without biases: the first input seeds the state, and tokens carry their own. Initially W_ij, A_ij ~ N(0, 2/m), where
2/m is a *variance*, and B_ij ~ N(0, 1/d). Definition 3.2 prints 2/d for B, but its proofs use 1/d. The sources train W
alone (`Training(frozen=("A", "B"))`) or W and A (`frozen=("B",)`), and never B.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num, PRNGKeyArray

from krogh.errors import require, require_integer
from krogh.models.base import Model, Parameters, model
from krogh.models.parts import labels_of
from krogh.tasks.base import Task
from krogh.tasks.token_regression import TokenRegression
from krogh.values import AnyArray, data, plain, structure, traced


@model("elman")
class ElmanRnn(Model):
    """y_l = λ B h_l at the last `reads` positions; one answer for the whole sequence, at its end, for reads = 0.

    Parameters: W [m, m], A [m, features] and B [outputs, m], or B [m] where labels are single numbers: predictions are
    [batch, reads, outputs] without the axes that there are not. `scale` is λ, `spread` the variance of B times its
    rows (1, or 2 as it is printed once), `variance` that of W and A (2/m where it is None).
    """

    width: int = structure()
    reads: int = structure(default=0)
    scale: Float[AnyArray, ""] = data(default=1.0)
    spread: float = structure(default=1.0)
    variance: float | None = structure(default=None)

    def __check_init__(self) -> None:
        require_integer("width", self.width, 1)
        require_integer("reads", self.reads, 0)
        for name in ("spread", "variance"):
            given = getattr(self, name)
            require(given is None or given > 0, f"{name} must be positive; got {name}={given!r}")
        positive = traced(self.scale) or bool(np.all(np.asarray(self.scale) > 0))
        require(positive, f"scale (λ) must be positive; got scale={plain(self.scale)}")

    @property
    def causal(self) -> bool:
        return self.reads > 0

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        m, outputs = self.width, labels_of(task)[1:] if self.reads else labels_of(task)
        recurrent, inputs, read = jax.random.split(key, 3)
        size = math.sqrt(2 / m if self.variance is None else self.variance)
        return {
            "W": size * jax.random.normal(recurrent, (m, m), jnp.float32),
            "A": size * jax.random.normal(inputs, (m, task.input_shape[-1]), jnp.float32),
            "B": math.sqrt(self.spread / math.prod(outputs)) * jax.random.normal(read, (*outputs, m), jnp.float32),
        }

    def predict(self, params: Parameters, x: Num[AnyArray, "batch length features"]) -> Float[Array, "batch ..."]:
        h = elman_states(params["W"], params["A"], x)
        read = h[-1] if self.reads == 0 else h[-self.reads :].swapaxes(0, 1)
        return jnp.asarray(self.scale).astype(read.dtype) * (read @ params["B"].T)

    def check(self, task: Task) -> None:
        require(
            task.regression and len(task.input_shape) == 2,
            f"an Elman network reads sequences of shape [length, features] and answers with real numbers; got the task "
            f"{task.kind or type(task).__name__!r} of input shape {list(task.input_shape)} (try the task 'token-sum')",
        )
        labels, reads = labels_of(task), self.reads
        answered = len(labels) < 2 if reads == 0 else bool(labels) and labels[0] == reads <= task.input_shape[0]
        require(
            answered,
            f"the labels of an example have the shape {list(labels)}, and reads={reads} answers "
            + ("once, at the end" if reads == 0 else f"at the last {reads} positions")
            + (f" (try reads={labels[0]})" if labels else " (try reads=0)"),
        )

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        task = TokenRegression.example()
        return cls(width=12, reads=task.length), task


def elman_states(
    W: Float[Array, "m m"], A: Float[Array, "m features"], x: Num[AnyArray, "batch length features"]
) -> Float[Array, "length batch m"]:
    """h_1 .. h_L from h_0 = 0; the products with the inputs are done before the recurrence."""
    given = jnp.einsum("blf,mf->lbm", jnp.asarray(x).astype(A.dtype), A)

    def step(h: Array, own: Array) -> tuple[Array, Array]:
        after = jax.nn.relu(h @ W.T + own)
        return after, after

    return jax.lax.scan(step, jnp.zeros(given.shape[1:], given.dtype), given)[1]
