"""A prediction: a theorem as a function that returns numbers.

A prediction says where its theorem stands in the source and which of its constants are explicit, so that a
number that is only an order of magnitude is never mistaken for a bound. Predictions are written in
`krogh.theory.predictions`; this module holds what they are and how one is asked for by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from krogh.registry import PREDICTIONS
from krogh.signature import REQUIRED, converted, parameters_of, summary_of

__all__ = ["REQUIRED", "Prediction", "predict", "prediction"]


@dataclass(frozen=True)
class Prediction:
    """A theorem as a function of its settings.

    `name` is the registered name, `source` the place of the theorem, `constants` says which constants are
    explicit, and `function` computes the numbers. Calling the prediction calls the function.
    """

    name: str
    source: str
    constants: str
    function: Callable[..., dict[str, Any]]

    def __call__(self, *args: Any, **settings: Any) -> dict[str, Any]:
        return self.function(*args, **settings)

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return summary_of(self.function)

    @property
    def parameters(self) -> dict[str, tuple[Any, Any]]:
        """Each setting's name with its type and its default (`REQUIRED` where it has none)."""
        return parameters_of(self.function)


def prediction(name: str, *, source: str, constants: str) -> Callable[[Callable[..., dict[str, Any]]], Prediction]:
    """Decorator that makes a `Prediction` of a function and registers it under `name`."""

    def file(function: Callable[..., dict[str, Any]]) -> Prediction:
        return PREDICTIONS.register(name)(Prediction(name, source, constants, function))

    return file


def predict(name: str, **settings: Any) -> dict[str, Any]:
    """The numbers of the prediction registered under `name`, as a dict that JSON can hold.

    Settings may be strings (as they come from a command line); each is converted to its annotated type. An
    infinite or undefined number becomes `None`.
    """
    asked: Prediction = PREDICTIONS[name]
    return _plain(asked(**converted(f"prediction {name!r}", asked.parameters, settings)))


def _plain(value: Any) -> Any:
    """`value` with numpy scalars and arrays as Python numbers and lists, and non-finite floats as None."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
