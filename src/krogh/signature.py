"""Functions asked for by name: their settings read off the signature, and given as Python values or as text.

Predictions and constructions are both functions with annotated parameters. Here is what the two share: the
settings of such a function, and the conversion of settings given by name (as they come from
a command line) to the annotated types, with one clear error where that fails.

A parameter that is a dataclass stands for its fields: they are settings like any other, and are gathered into one
value for the function. So what several functions ask for, its defaults and its checks, is written once.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import operator
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal

from krogh.errors import KroghError, unknown

REQUIRED = inspect.Parameter.empty
"""Stands in place of the default of a setting that has none."""

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def parameters_of(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """Each setting's name with its type and its default (`REQUIRED` where it has none)."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, kind, default in _parameters(function):
        found |= parameters_of(kind) if _is_value(kind) else {name: (kind, default)}
    return found


def arguments_of(function: Callable[..., Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as arguments of the function: the fields of a dataclass become a value of it."""
    found = {}
    for name, kind, _ in _parameters(function):
        if _is_value(kind):
            found[name] = kind(**arguments_of(kind, settings))
        elif name in settings:
            found[name] = settings[name]
    return found


def _is_value(kind: Any) -> bool:
    return dataclasses.is_dataclass(kind)


@functools.cache
def _parameters(function: Callable[..., Any]) -> tuple[tuple[str, Any, Any], ...]:
    """The function's own parameters, or a dataclass's fields: name, type, default."""
    hints = typing.get_type_hints(function)
    parameters = inspect.signature(function).parameters
    return tuple((name, hints.get(name, str), parameter.default) for name, parameter in parameters.items())


def converted(thing: str, parameters: Mapping[str, tuple[Any, Any]], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, each as its annotated type; an unknown, a missing or a wrong one is refused.

    `thing` says in messages whose settings these are: "prediction 'parity/fourier-gap'".
    """
    listed = ", ".join(_describe(setting, *parameters[setting]) for setting in parameters)
    for setting in settings:
        if setting not in parameters:
            problem = unknown("setting", setting, parameters)
            raise KroghError(f"{thing}: {problem}; it takes {listed}")
    missing = [s for s, (_, default) in parameters.items() if default is REQUIRED and s not in settings]
    if missing:
        given = ", ".join(f"{s}={value!r}" for s, value in settings.items()) or "nothing"
        raise KroghError(f"{thing} needs {', '.join(missing)}; given {given}; it takes {listed}")
    result = {}
    for setting, value in settings.items():
        wanted = parameters[setting][0]
        try:
            result[setting] = convert(value, wanted)
        except (TypeError, ValueError):
            raise KroghError(
                f"{thing}: {setting} must be {type_name(wanted)}; got {setting}={value!r}; it takes {listed}"
            ) from None
    return result


def convert(value: Any, wanted: Any) -> Any:
    """`value` as the annotated type `wanted`; ValueError or TypeError where it is not one."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is Literal:
        matches = [choice for choice in arguments if value == choice or value == str(choice)]
        return matches[0] if matches else _refuse(value)
    if origin in (typing.Union, types.UnionType):
        if value is None or (isinstance(value, str) and value.strip().lower() == "none"):
            return None
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return convert(value, inner)
    if origin is tuple:
        items = value.split(",") if isinstance(value, str) else list(value)
        return tuple(convert(item, arguments[0]) for item in items)
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
    return f"{name}: {type_name(kind)}" + ("" if default is REQUIRED else f" = {default!r}")


def type_name(kind: Any) -> str:
    """A type as it reads in a message: `int`, `ones|signs`, `floats separated by commas`."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return "|".join(str(choice) for choice in arguments)
    if origin in (typing.Union, types.UnionType):
        return "|".join(type_name(argument) for argument in arguments)
    if origin is tuple:
        return f"{type_name(arguments[0])}s separated by commas"
    return "none" if kind is type(None) else getattr(kind, "__name__", str(kind))
