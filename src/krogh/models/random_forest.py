"""Random forests, as scikit-learn grows them (dissertation, C.3.3): the learner that networks are compared with.

scikit-learn is part of the extra `tabular` and imported when the first forest is grown. A forest grows on one core, for
trials are spread over all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from krogh.errors import KroghError, require, require_integer
from krogh.models.base import Learner, Model, Predictor, model
from krogh.models.parts import require_vectors
from krogh.tasks.base import Task
from krogh.tasks.table import Table
from krogh.values import structure

EXTRA = "pip install 'krogh[tabular]'"


@model("random-forest")
class RandomForest(Learner):
    """`trees` of depth at most `depth` (0 for any depth), each split chosen among `features` of the columns.

    `features` is a number, "sqrt" or "all".
    """

    trees: int = structure(default=100)
    depth: int = structure(default=0)
    features: int | str = structure(default="sqrt")

    def __check_init__(self) -> None:
        require_integer("trees", self.trees, 1)
        require_integer("depth", self.depth, 0)
        if self.features not in ("sqrt", "all"):
            number = isinstance(self.features, int)
            require(number, f"features must be a number of columns, 'sqrt' or 'all'; got features={self.features!r}")
            require_integer("features", self.features, 1)

    def fit(self, x: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
        forest = forest_class()(
            n_estimators=self.trees,
            max_depth=self.depth or None,
            max_features=None if self.features == "all" else self.features,
            n_jobs=1,
            random_state=seed,
        )
        forest.fit(x, np.where(y > 0, 1, -1))
        return lambda queries: forest.predict(queries).astype(np.float32)

    def check(self, task: Task) -> None:
        require_vectors("random forest", task)
        require(not task.regression, f"a random forest here has labels ±1; the task {task.kind!r} is a regression")
        d = task.input_shape[0]
        fits = not isinstance(self.features, int) or self.features <= d
        require(fits, f"features must be at most the table's {d} columns; got features={self.features}")

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(trees=10), Table.example()


def forest_class() -> Any:
    """scikit-learn's forest, or how to get it."""
    try:
        from sklearn.ensemble import RandomForestClassifier
    except ImportError as cause:
        raise KroghError(f"random forests need scikit-learn, which cannot be used ({cause}): {EXTRA}") from None
    return RandomForestClassifier
