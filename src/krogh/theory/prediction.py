"""A prediction: a theorem as a function that returns numbers.

A prediction says where its theorem stands in the source and which of its constants are explicit, so that a
number that is only an order of magnitude is never mistaken for a bound. Predictions are written in
`krogh.theory.predictions`; this module holds what they are and how one is asked for by name.
"""

from __future__ import annotations

import inspect
import math
import operator
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from krogh.errors import KroghError, unknown
from krogh.registry import PREDICTIONS

REQUIRED = inspect.Parameter.empty
"""Stands in place of the default of a setting that has none."""

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


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
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @property
    def parameters(self) -> dict[str, tuple[Any, Any]]:
        """Each setting's name with its type and its default (`REQUIRED` where it has none)."""
        hints = typing.get_type_hints(self.function)
        signature = inspect.signature(self.function)
        return {name: (hints.get(name, str), p.default) for name, p in signature.parameters.items()}


def prediction(
    name: str, *, source: str, constants: str
) -> Callable[[Callable[..., dict[str, Any]]], Prediction]:
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
    parameters = asked.parameters
    listed = ", ".join(_describe(setting, *parameters[setting]) for setting in parameters)
    for setting in settings:
        if setting not in parameters:
            problem = unknown("setting", setting, parameters)
            raise KroghError(f"prediction {name!r}: {problem}; it takes {listed}")
    missing = [s for s, (_, default) in parameters.items() if default is REQUIRED and s not in settings]
    if missing:
        given = ", ".join(f"{s}={value!r}" for s, value in settings.items()) or "nothing"
        raise KroghError(f"prediction {name!r} needs {', '.join(missing)}; given {given}; it takes {listed}")
    converted = {}
    for setting, value in settings.items():
        wanted = parameters[setting][0]
        try:
            converted[setting] = _convert(value, wanted)
        except (TypeError, ValueError):
            raise KroghError(
                f"prediction {name!r}: {setting} must be {_type_name(wanted)}; got {setting}={value!r}"
                f"; it takes {listed}"
            ) from None
    return _plain(asked(**converted))


def _convert(value: Any, wanted: Any) -> Any:
    """`value` as the annotated type `wanted`; ValueError or TypeError where it is not one."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is Literal:
        matches = [choice for choice in arguments if value == choice or value == str(choice)]
        return matches[0] if matches else _refuse(value)
    if origin in (typing.Union, types.UnionType):
        if value is None or (isinstance(value, str) and value.strip().lower() == "none"):
            return None
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return _convert(value, inner)
    if origin is tuple:
        items = value.split(",") if isinstance(value, str) else list(value)
        return tuple(_convert(item, arguments[0]) for item in items)
    if wanted is bool:
        return _convert_bool(value)
    if isinstance(value, bool):  # Python counts True as 1; as a number it is nearly always a slip
        return _refuse(value)
    if wanted is int:
        return int(value) if isinstance(value, str) else operator.index(value)
    if wanted is float:
        number = float(value)
        return number if math.isfinite(number) else _refuse(value)
    return value if isinstance(value, str) else _refuse(value)


def _convert_bool(value: Any) -> bool:
    text = str(value).strip().lower()
    return True if text in _TRUE else False if text in _FALSE else _refuse(value)


def _refuse(value: Any) -> typing.NoReturn:
    raise ValueError(value)


def _describe(name: str, kind: Any, default: Any) -> str:
    """A setting as it reads in a message: `n: int` or `noise: float = 0.0`."""
    return f"{name}: {_type_name(kind)}" + ("" if default is REQUIRED else f" = {default!r}")


def _type_name(kind: Any) -> str:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return "|".join(str(choice) for choice in arguments)
    if origin in (typing.Union, types.UnionType):
        return "|".join(_type_name(argument) for argument in arguments)
    if origin is tuple:
        return f"{_type_name(arguments[0])}s separated by commas"
    return "none" if kind is type(None) else getattr(kind, "__name__", str(kind))


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
