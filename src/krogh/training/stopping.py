"""When a trial ends, by the sources' rules (dissertation, §A.3.1, §B.4.2; qSTR, Figure 1).

The convergence time t_c is the smallest checked step with the wanted accuracy on a validation sample that
is drawn once; never reached within the budget is t_c = ∞. The source checks every 10 steps for 100% on
8192 samples, or on 128 in its large sweeps; under-parameterised networks are judged by 10 consecutive
checks at 55%. A regression is judged by its mean squared error. Where luck of the initial weights is to be taken out,
a trial that used up its budget begins again with other weights on the same data, up to `restarts` runs in all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from krogh.errors import require, require_integer
from krogh.tasks.base import Task
from krogh.values import AnyArray, Value, data, plain, replaced, structure

EXACT = "exact"
MOST_EXAMPLES = 2**30
"""Examples are counted in 32 bits."""
SURE_PREFIX, LIKELY_PREFIX = 16, 512


class Stopping(Value):
    """Stop at `accuracy` on `consecutive` checks, one every `check_every` steps, or after `budget` steps.

    `error`, if given, takes the place of accuracy: the largest mean validation error that will do (a squared error for
    a regression). `validation` is the sample size, or "exact" for every input of the task. With `early=False` the trial
    runs its whole budget and the convergence time is only noted (for curves).
    """

    budget: Int[AnyArray, ""] = data(np.int32, default=100_000)
    accuracy: Float[AnyArray, ""] = data(default=1.0)
    consecutive: Int[AnyArray, ""] = data(np.int32, default=1)
    error: Float[AnyArray, ""] | None = data(optional=True, default=None)
    restarts: int = structure(default=1)
    check_every: int = structure(default=10)
    validation: int | str = structure(default=8192)
    early: bool = structure(default=True)
    prefix: int = structure(default=SURE_PREFIX, fitted=True)

    def __check_init__(self) -> None:
        require_integer("check_every", self.check_every, 1)
        require_integer("consecutive", int(self.consecutive), 1)
        require_integer("restarts", self.restarts, 1)
        once = self.restarts == 1 or self.early
        require(once, f"a trial that does not stop early has one run; got early=False, restarts={self.restarts}")
        if self.validation != EXACT:
            is_size = isinstance(self.validation, int)
            require(is_size, f"validation must be a sample size or 'exact'; got {self.validation!r}")
            require_integer("validation", self.validation, 1, MOST_EXAMPLES)
        inside = 0.0 < float(self.accuracy) <= 1.0
        require(inside, f"accuracy must be in (0, 1]; got accuracy={plain(self.accuracy)}")
        positive = self.error is None or float(self.error) >= 0.0
        require(positive, f"error must be a number ≥ 0; got error={plain(self.error)}")
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
        else:
            task.check_test(int(self.validation))
        judged = self.error is not None or not task.regression
        require(judged, f"the task {task.kind!r} is a regression: give the mean squared error that will do, error=...")

    def threshold(self) -> Any:
        """The largest mean validation error that counts as solved."""
        return 1.0 - self.accuracy if self.error is None else self.error

    @property
    def perfect(self) -> bool:
        """Whether nothing less than no error at all will do; unknown inside a program."""
        return not bool(np.any(np.asarray(self.threshold()) > 0))

    def fitted(self, leaves: Stopping, task: Task) -> Stopping:
        """This rule with a prefix that suits the stacked `leaves`: where none may err, the first error decides."""
        return replaced(self, "prefix", SURE_PREFIX if leaves.perfect else LIKELY_PREFIX)

    def size(self, task: Task) -> int:
        """How many examples a full check reads."""
        return _population_size(task) if self.validation == EXACT else int(self.validation)


def _population_size(task: Task) -> int:
    size: Any = task.population_size
    require(size, "exact validation needs a task whose inputs can be listed")
    return int(size)
