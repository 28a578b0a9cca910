"""Values: immutable pytrees that describe a task, a model, a training or a trial.

A field is either *structure* (it decides shapes and the program: n, width, batch) or *data* (a number the
compiled program reads: support, noise, learning rate, seed). Values with equal structure stack.

    structure_of(value)   what must agree for two values to share one compiled program
    describe(value)       everything, as plain Python, for tables, hashes and people
    replaced(value, path) a copy with one dotted field changed, validated again
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np

from krogh.errors import KroghError, unknown


class Value(eqx.Module):
    """Base of every task, model, training and trial; `kind` is its registered name."""

    kind: ClassVar[str] = ""


def structure(**options: Any) -> Any:
    """A field that decides the program: equal across the trials of a cohort."""
    return eqx.field(static=True, **options)


def data(dtype: Any = np.float32, **options: Any) -> Any:
    """A field that is read by the program: may differ between the trials of a cohort."""
    return eqx.field(converter=lambda given: _leaf(given, dtype), **options)


def _leaf(given: Any, dtype: Any) -> Any:
    if given is None or isinstance(given, jax.Array):  # a traced value: inside a program already
        return given
    try:
        if isinstance(given, dict):
            return {name: np.asarray(number, dtype) for name, number in sorted(given.items())}
        array = np.asarray(given)
        if np.issubdtype(dtype, np.integer) and not np.issubdtype(array.dtype, np.integer):
            raise TypeError("not an integer")
        return array.astype(dtype)
    except (TypeError, ValueError, OverflowError) as cause:
        raise KroghError(f"expected a {np.dtype(dtype).name} number; got {given!r} ({cause})") from None


def _plain(field: Any) -> Any:
    """A leaf as plain Python; a float32 by its shortest decimal, so 0.1 reads 0.1."""
    if isinstance(field, Value):
        return describe(field)
    if isinstance(field, dict):
        return {name: _plain(part) for name, part in field.items()}
    if isinstance(field, tuple | list):
        return [_plain(part) for part in field]
    if isinstance(field, np.ndarray | np.generic | jax.Array):
        array = np.asarray(field)
        if array.ndim:
            return [_plain(part) for part in array]
        if np.issubdtype(array.dtype, np.floating):
            return float(str(array[()]))
        return array.item()
    return field


def describe(value: Value) -> dict[str, Any]:
    """The value as nested plain Python, its registered kind first."""
    fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return {"kind": value.kind or type(value).__name__, **fields}


def columns(value: Value) -> dict[str, Any]:
    """The value as one flat row: dotted paths to scalars; short tuples become text."""
    return dict(_flat(describe(value), ""))


def _flat(tree: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, part in tree.items():
        path = prefix.rstrip(".") if name == "kind" else prefix + name
        if isinstance(part, dict):
            yield from _flat(part, path + ".")
        elif isinstance(part, list):
            yield path, json.dumps(part)
        elif part is not None and path:
            yield path, part


def structure_of(value: Value) -> str:
    """A text equal for two values exactly when they can share one compiled program."""
    arrays, rest = eqx.partition(value, eqx.is_array_like)
    shapes = [(np.shape(leaf), np.asarray(leaf).dtype.name) for leaf in jax.tree.leaves(arrays)]
    statics = _static_fields(value)
    return json.dumps([statics, shapes], sort_keys=True, default=str)


def _static_fields(value: Any) -> Any:
    if not isinstance(value, Value):
        return sorted(value) if isinstance(value, dict) else type(value).__name__
    fields = {"kind": f"{type(value).__module__}.{type(value).__qualname__}"}
    for field in dataclasses.fields(value):
        part = getattr(value, field.name)
        static = field.metadata.get("static", False)
        fields[field.name] = _plain(part) if static else _static_fields(part)
    return fields


def digest(text: str, size: int = 8) -> bytes:
    """A stable hash of a text."""
    return hashlib.blake2b(text.encode(), digest_size=size).digest()


def replaced(value: Value, path: str, new: Any) -> Any:
    """A copy of `value` with the field at a dotted `path` set to `new`, validated again."""
    name, _, rest = path.partition(".")
    names = [field.name for field in dataclasses.fields(value)]
    if name not in names:
        raise unknown(f"field of {type(value).__name__}", name, names)
    inner = getattr(value, name)
    if rest and not isinstance(inner, Value):
        raise KroghError(f"{name!r} of {type(value).__name__} has no field {rest!r}")
    return dataclasses.replace(value, **{name: replaced(inner, rest, new) if rest else new})
