"""The best sum over positions, F(x) = c + Σ_i α_i(x_i), of a sample: the baseline that recurrent networks are held to.

α_i is a polynomial of the token at position i (`krogh.tasks.additive`). It is found in closed form by least squares, or
with the fewest mistakes about labels 0 and 1 by a mixed-integer program, for short strings.
"""

from __future__ import annotations

import numpy as np

from krogh.errors import require, require_integer, unknown
from krogh.models.base import Learner, Model, Predictor, model
from krogh.models.parts import labels_of
from krogh.tasks.additive import fewest_mistakes, fit_squares, position_features
from krogh.tasks.base import Task
from krogh.tasks.bit_strings import BitStringTask, StringParity
from krogh.values import structure

CRITERIA = ("squares", "mistakes")


@model("additive")
class Additive(Learner):
    """`degree` is that of α_i in the coordinates of a token (1 is every function of a bit), `criterion` what is made
    small: squares, or mistakes."""

    degree: int = structure(default=1)
    criterion: str = structure(default="squares")

    def __check_init__(self) -> None:
        require_integer("degree", self.degree, 1)
        if self.criterion not in CRITERIA:
            raise unknown("criterion", self.criterion, CRITERIA)

    def fit(self, x: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
        features = position_features(x, self.degree)
        if self.criterion == "squares":
            found = fit_squares(features, y.reshape(len(y), -1))
        else:
            found = fewest_mistakes(features, y).coefficients[:, None]

        def predict(queries: np.ndarray) -> np.ndarray:
            answers = position_features(queries, self.degree) @ found
            return answers.reshape(len(queries), *y.shape[1:]).astype(np.float32)

        return predict

    def check(self, task: Task) -> None:
        sequences = task.regression and len(task.input_shape) == 2
        require(
            sequences and len(labels_of(task)) < 2,
            f"an additive function reads sequences and answers once with real numbers; got the task "
            f"{task.kind or type(task).__name__!r} (try the task 'whole-sequence')",
        )
        bits = self.criterion == "squares" or isinstance(task, BitStringTask)
        require(bits, f"the fewest mistakes are counted on strings of bits; got the task {task.kind!r}")

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(), StringParity.example()
