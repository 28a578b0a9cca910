"""A prediction: a theorem as a function that returns numbers, and what such functions check of their settings.

A prediction says where its theorem stands in the source and which of its constants are explicit, so that a
number that is only an order of magnitude is never mistaken for a bound. Predictions are written in
`krogh.theory`, each beside what it computes with; this module holds what they are and how one is asked for by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, Signature
from typing import Any, Literal, get_args

from krogh.errors import require, require_integer
from krogh.registry import PREDICTIONS, summary_of
from krogh.signature import arguments_of, converted, parameters_of

Variant = Literal["printed", "repaired"]
"""A theorem as the source prints it, or with its errors repaired so that the proof goes through."""


@dataclass(frozen=True)
class Prediction:
    """A theorem as a function of its settings.

    `name` is the registered name, `source` the place of the theorem, `constants` says which constants are
    explicit, and `function` computes the numbers. Calling the prediction calls the function, with settings in order or
    by name; where the function takes a dataclass, these are its fields.
    """

    name: str
    source: str
    constants: str
    function: Callable[..., dict[str, Any]]

    def __call__(self, *args: Any, **settings: Any) -> dict[str, Any]:
        given = self._flat.bind(*args, **settings).arguments
        for name, value in given.items():
            if self.parameters[name][0] == Variant:
                check_variant(value)
        return self.function(**arguments_of(self.function, given))

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return summary_of(self.function)

    @cached_property
    def parameters(self) -> dict[str, tuple[Any, Any]]:
        """Each setting's name with its type and its default (`REQUIRED` where it has none)."""
        return parameters_of(self.function)

    @cached_property
    def _flat(self) -> Signature:
        kind = Parameter.POSITIONAL_OR_KEYWORD
        return Signature([Parameter(name, kind, default=default) for name, (_, default) in self.parameters.items()])


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


def check_parity(n: int, k: int) -> None:
    """Require 1 <= k <= n."""
    require_integer("n", n, 1)
    require_integer("k", k, 1)
    require(k <= n, f"a parity of k bits needs n >= k coordinates; got n={n}, k={k} (try n={k} or more)")


def check_odd(name: str, value: int) -> None:
    """Require an odd positive integer, as majority does, which must not tie."""
    require_integer(name, value, 1)
    require(value % 2 == 1, f"{name} must be odd; got {name}={value} (try {value - 1} or {value + 1})")


def check_even(name: str, value: int) -> None:
    """Require an even positive integer."""
    require_integer(name, value, 1)
    require(value % 2 == 0, f"{name} must be even; got {name}={value} (try {value - 1 or 2} or {value + 1})")


def check_open(name: str, value: float, low: float, high: float = math.inf) -> None:
    """Require a number strictly between `low` and `high`."""
    allowed = f"greater than {low:g}" if high == math.inf else f"strictly between {low:g} and {high:g}"
    within = is_number(value) and low < value < high
    require(within, f"{name} must be a number {allowed}; got {name}={value!r}")


def check_noise(p: float) -> None:
    """Require a probability of flipping a label, between 0 and 1/2."""
    within = is_number(p) and 0 <= p <= 0.5
    require(within, f"noise is the probability of a flipped label, between 0 and 0.5; got noise={p!r}")


def check_variant(variant: str) -> None:
    """Require one of the two variants of a theorem."""
    allowed = get_args(Variant)
    require(variant in allowed, f"variant must be {' or '.join(map(repr, allowed))}; got variant={variant!r}")


def is_number(value: object) -> bool:
    """Whether `value` is a real number (booleans and strings are not)."""
    return hasattr(value, "__float__") and not isinstance(value, (bool, str))


def check_counts(**counts: int) -> None:
    """Require every count to be an integer of at least 1."""
    for name, value in counts.items():
        require_integer(name, value, 1)


def check_positive(**values: float) -> None:
    """Require every value to be a number greater than 0."""
    for name, value in values.items():
        check_open(name, value, 0)


def check_not_negative(**values: float) -> None:
    """Require every value to be a finite number of at least 0."""
    for name, value in values.items():
        within = is_number(value) and 0 <= value < math.inf
        require(within, f"{name} must be a finite number of at least 0; got {name}={value!r}")
