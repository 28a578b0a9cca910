"""What every model provides: how parameters are drawn and how a prediction is computed.

Parameters are a flat dictionary of named arrays, so that a rate or a decay can be given by name, and
weights are written to a file under the letters of the source's formulas.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Num, PRNGKeyArray, UInt32

from krogh.errors import KroghError
from krogh.registry import MODELS
from krogh.tasks.base import Task
from krogh.values import AnyArray, Value, check_fields

Parameters = dict[str, Array]
Predictor = Callable[[np.ndarray], np.ndarray]


class Model(Value):
    """An architecture."""

    @abc.abstractmethod
    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        """Fresh parameters for `task`."""

    @abc.abstractmethod
    def predict(self, params: Parameters, x: Num[AnyArray, "batch ..."]) -> Float[Array, "batch ..."]:
        """Predictions for a batch of inputs: one number per example, one per position of a sequence, or one logit per
        class."""

    def predict_last(self, params: Parameters, x: Num[AnyArray, "batch length ..."]) -> Float[Array, "batch 1 ..."]:
        """The prediction at the last position alone, of a model that has one per position; some have it for less."""
        return self.predict(params, x)[:, -1:]

    @property
    def noisy(self) -> bool:
        """Whether predictions are random while training (dropout)."""
        return False

    @property
    def causal(self) -> bool:
        """Whether a prediction at a position depends on no later one: bit for bit, whatever the parameters."""
        return False

    @property
    def library_products(self) -> bool:
        """Whether a GPU's library does the matrix products, in place of kernels that the compiler writes.

        That is quicker to compile and often to run, but one network trains wrongly with it (`krogh.engine.compiling`):
        true only where trials were compared with the same ones on a CPU.
        """
        return False

    def forward(
        self, params: Parameters, x: Num[AnyArray, "batch ..."], noise: UInt32[Array, ""]
    ) -> Float[Array, "batch ..."]:
        """Predictions while training: the same up to rounding, unless the model is noisy; then `noise` is a fresh word
        for every step."""
        return self.predict(params, x)

    @abc.abstractmethod
    def check(self, task: Task) -> None:
        """Refuse a task that this model cannot read at all."""

    def obstacle(self, task: Task) -> str | None:
        """Why no parameters solve `task` exactly, with what would; None when some do or nobody knows."""
        return None

    @classmethod
    @abc.abstractmethod
    def example(cls) -> tuple[Model, Task]:
        """A small valid instance and a task it can learn, for the conformance laws."""


class Learner(Model):
    """A model that learns outside the engine, by a function on the host: a random forest, a table of neighbours.

    Its trials have the sample, the seeds and the validation of any other trial, and leave an ordinary record: one step,
    in which all of the sample is read. They have neither weights nor curves, and nothing is compiled for them; a loss
    and an optimiser mean nothing to them.
    """

    @abc.abstractmethod
    def fit(self, x: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
        """Learn from all inputs and observed labels of a sample, with `seed` for what is random; return how inputs are
        predicted, in the shape that the task's error reads."""

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        return {}

    def predict(self, params: Parameters, x: Num[AnyArray, "batch ..."]) -> Float[Array, "batch ..."]:
        raise KroghError(f"{type(self).__name__} predicts by what its fit returns, and not from parameters")


def predict_judged(model: Model, task: Task, params: Parameters, x: Num[AnyArray, "batch ..."]) -> Array:
    """What a task judges of a model's predictions: those at the last position where it reads no others, else all."""
    return model.predict_last(params, x) if task.judged_last else model.predict(params, x)


def model(name: str) -> Any:
    """Class decorator: register a model under `name`."""

    def file(cls: type[Model]) -> type[Model]:
        cls.kind = name
        check_fields(cls)
        MODELS.register(name)(cls)
        return cls

    return file
