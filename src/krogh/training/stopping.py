"""When a trial ends, by the source's rule (dissertation, §B.4.2).

The convergence time t_c is the smallest checked step with the wanted accuracy on a validation sample that
is drawn once; never reached within the budget is t_c = ∞. The source checks every 10 steps for 100% on
8192 samples, or on 128 in its large sweeps; under-parameterised networks are judged by 10 consecutive
checks at 55%.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from krogh.errors import require, require_integer
from krogh.tasks.base import Task
from krogh.values import AnyArray, Value, data, plain, structure

EXACT = "exact"


class Stopping(Value):
    """Stop at `accuracy` on `consecutive` checks, one every `check_every` steps, or after `budget` steps.

    `validation` is the sample size, or "exact" for every input of the task. With `early=False` the trial
    runs its whole budget and the convergence time is only noted (for curves).
    """

    budget: Int[AnyArray, ""] = data(np.int32, default=100_000)
    accuracy: Float[AnyArray, ""] = data(default=1.0)
    consecutive: Int[AnyArray, ""] = data(np.int32, default=1)
    check_every: int = structure(default=10)
    validation: int | str = structure(default=8192)
    early: bool = structure(default=True)

    def __check_init__(self) -> None:
        require_integer("check_every", self.check_every, 1)
        require_integer("consecutive", int(self.consecutive), 1)
        if self.validation != EXACT:
            is_size = isinstance(self.validation, int)
            require(is_size, f"validation must be a sample size or 'exact'; got {self.validation!r}")
            require_integer("validation", self.validation, 1)
        inside = 0.0 < float(self.accuracy) <= 1.0
        require(inside, f"accuracy must be in (0, 1]; got accuracy={plain(self.accuracy)}")
        budget, every = int(self.budget), self.check_every
        require_integer("budget", budget, 1)
        require(
            budget % every == 0,
            f"budget must be a multiple of check_every={every}; got budget={budget} "
            f"(try budget={-(-budget // every) * every})",
        )

    def check(self, task: Task) -> None:
        if self.validation == EXACT:
            task.population()

    def size(self, task: Task) -> int:
        """How many examples a full check reads."""
        return _population_size(task) if self.validation == EXACT else int(self.validation)


def _population_size(task: Task) -> int:
    size: Any = task.population_size
    require(size, "exact validation needs a task whose inputs can be listed")
    return int(size)
