"""Values: immutable pytrees that describe a task, a model, a training or a trial.

A field is either *structure* (it decides shapes and the program: n, width, batch) or *data* (a number the
compiled program reads: support, noise, learning rate, seed). Values with equal structure stack.

A field may also be `Shared`: arrays that are the same for all trials and too large to be copied into each (the rows of
a table). It is structure, known by its checksum, and its arrays are on a device once.

    structure_of(value)   what must agree for two values to share one compiled program
    describe(value)       everything, as plain Python, for tables, hashes and people
    replaced(value, path) a copy with one dotted field changed, validated again
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import numpy as np

from krogh.errors import KroghError, unknown

if TYPE_CHECKING:
    AnyArray = Any  # a data field takes whatever its converter does
else:
    AnyArray = jax.Array | np.ndarray | np.generic


LONGEST_TEXT = 400


class Value(eqx.Module):
    """Base of every task, model, training and trial; `kind` is its registered name."""

    kind: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, field in vars(cls).items():
            if isinstance(field, dataclasses.Field) and isinstance(made := field.metadata.get("converter"), _Number):
                made.name = name


def structure(*, internal: bool = False, fitted: bool = False, **options: Any) -> Any:
    """A field that decides the program: equal across the trials of a cohort.

    An `internal` one follows from the others and is not shown to people. A `fitted` one is set when a cohort is
    fitted, and is no part of what a trial is: neither of its identity nor of what makes trials stack. Numbers of NumPy
    are taken as Python's.
    """
    convert = options.pop("converter", lambda given: given)

    def converted(given: Any) -> Any:
        return _python(convert(given))

    metadata = {"internal": internal or fitted, "fitted": fitted}
    return eqx.field(static=True, metadata=metadata, converter=converted, **options)


def _python(given: Any) -> Any:
    """A number of NumPy, or a tuple of them, as Python's."""
    if type(given) is tuple:
        return tuple(map(_python, given))
    return plain(given) if isinstance(given, np.generic) else given


def data(dtype: Any = np.float32, *, optional: bool = False, internal: bool = False, **options: Any) -> Any:
    """A field that is read by the program: may differ between the trials of a cohort.

    An `internal` one is not shown to people: weights would fill a table.
    """
    return eqx.field(converter=_Number(dtype, optional), metadata={"internal": internal}, **options)


class _Number:
    """What makes arrays of a data field's values; it knows the field's name, for whoever gives a wrong one."""

    name = ""

    def __init__(self, dtype: Any, optional: bool):
        self.dtype, self.optional = dtype, optional

    def __call__(self, given: Any) -> Any:
        return None if self.optional and given is None else _leaf(given, self.dtype, self.name)


class Shared:
    """Arrays that trials read and none of them changes, on a device once, however many trials are in flight.

    As a `structure()` field it is known by its name and the checksum of its content: both are part of a trial's
    identity. Inside a program that was handed the arrays (`handing`), `shared[name]` is the program's argument, so
    that they are no constant of what is compiled; elsewhere it is the array itself.
    """

    def __init__(self, name: str, arrays: Mapping[str, np.ndarray]):
        self.name = name
        self.arrays = {key: np.ascontiguousarray(arrays[key]) for key in sorted(arrays)}
        hasher = hashlib.blake2b(digest_size=8)
        for key, array in self.arrays.items():
            array.setflags(write=False)
            hasher.update(f"{key} {array.dtype} {array.shape}".encode())
            hasher.update(array.tobytes())
        self.checksum = hasher.hexdigest()
        self._placed: dict[Any, dict[str, jax.Array]] = {}

    def __getitem__(self, key: str) -> Any:
        given = getattr(_HANDED, "arrays", {}).get(self.checksum)
        return (self.on(None) if given is None else given)[key]

    def on(self, device: Any) -> dict[str, jax.Array]:
        """The arrays on `device` (the default one for None), put there the first time."""
        if device not in self._placed:
            with jax.ensure_compile_time_eval():
                self._placed[device] = {key: jax.device_put(array, device) for key, array in self.arrays.items()}
        return self._placed[device]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shared) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return f"{self.name} [{self.checksum}]"

    __repr__ = __str__


_HANDED = threading.local()


@contextmanager
def handing(arrays: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """Let every `Shared` read its arrays from these, by checksum, while a program is traced."""
    before = getattr(_HANDED, "arrays", {})
    _HANDED.arrays = {**before, **arrays}
    try:
        yield
    finally:
        _HANDED.arrays = before


def shared_of(value: Any) -> dict[str, Shared]:
    """What a value and the values inside it share with others, by checksum."""
    if isinstance(value, Shared):
        return {value.checksum: value}
    if isinstance(value, tuple | list):
        inner = list(value)
    elif isinstance(value, Value):
        inner = [getattr(value, field.name) for field in dataclasses.fields(value)]
    else:
        return {}
    return {checksum: found for part in inner for checksum, found in shared_of(part).items()}


def check_fields(cls: type) -> None:
    """Refuse a class whose plain numbers or texts are neither `structure()` nor `data()`: a program could not tell."""
    for field in dataclasses.fields(cls):
        bare = "static" not in field.metadata and "converter" not in field.metadata
        kind = getattr(field.type, "__name__", str(field.type))
        if bare and kind.split("[")[0] in ("int", "float", "bool", "str"):
            raise KroghError(
                f"field {field.name!r} of {cls.__name__} must be declared with structure() if it decides a shape or a "
                f"branch, or with data() if the program reads it; got a plain {kind}"
            )


def traced(given: Any) -> bool:
    """Whether `given` stands for a number inside a program, whose value nobody can check."""
    return isinstance(given, jax.core.Tracer)


def _leaf(given: Any, dtype: Any, name: str) -> Any:
    if isinstance(given, dict):
        return {key: _leaf(given[key], dtype, f"{name}[{key!r}]") for key in sorted(given)}
    if traced(given):
        return given
    try:
        return _converted(given, np.dtype(dtype))
    except (TypeError, ValueError, OverflowError) as cause:
        wanted = f"a{'n' if np.dtype(dtype).kind == 'i' else ''} {np.dtype(dtype).name} number"
        raise KroghError(f"{name}: expected {wanted}; got {given!r} ({cause})") from None


def _converted(given: Any, dtype: np.dtype) -> np.ndarray:
    array = np.asarray(given)
    if array.dtype.kind not in "iuf":  # no text, no truth values, nothing missing
        raise TypeError("not a number")
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return array.astype(dtype) + dtype.type(0)  # -0 and 0 are one number, and one identity
    if array.size and array.dtype.kind == "f":
        raise TypeError("not an integer")
    if array.size and not np.iinfo(dtype).min <= array.min() <= array.max() <= np.iinfo(dtype).max:
        raise OverflowError("out of range")
    return array.astype(dtype)


def plain(field: Any) -> Any:
    """A leaf as plain Python; a float32 by its shortest decimal, so 0.1 reads 0.1."""
    if isinstance(field, Value):
        return describe(field)
    if isinstance(field, Shared):
        return str(field)
    if isinstance(field, dict):
        return {name: plain(part) for name, part in field.items()}
    if isinstance(field, tuple | list):
        return [plain(part) for part in field]
    if isinstance(field, np.ndarray | np.generic | jax.Array):
        array = np.asarray(field)
        if array.ndim:
            return [plain(part) for part in array]
        if np.issubdtype(array.dtype, np.floating):
            return float(str(array[()]))
        return array.item()
    return field


def describe(value: Value) -> dict[str, Any]:
    """The value as nested plain Python, its registered kind first."""
    shown = [field for field in dataclasses.fields(value) if not field.metadata.get("internal")]
    fields = {field.name: plain(getattr(value, field.name)) for field in shown}
    return {"kind": value.kind or type(value).__name__, **fields}


def shown(value: Value, path: str) -> bool:
    """Whether the field at a dotted path is one that people see."""
    name, _, rest = path.partition(".")
    hidden = any(field.name == name and field.metadata.get("internal") for field in dataclasses.fields(value))
    inner = getattr(value, name, None)
    return not hidden and (not isinstance(inner, Value) or shown(inner, rest))


def columns(value: Value) -> dict[str, Any]:
    """The value as one flat row: dotted paths to scalars; short tuples become text."""
    return dict(_flat(describe(value), ""))


def _flat(tree: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, part in tree.items():
        path = prefix.rstrip(".") if name == "kind" else prefix + name
        if isinstance(part, dict):
            yield from _flat(part, path + ".")
        elif isinstance(part, list):
            yield path, text_of(part)
        elif part is not None and path:
            yield path, part


def text_of(numbers: list[Any]) -> str:
    """A list of numbers as text for a table: written out if short, else by a name that tells lists apart."""
    written = json.dumps(numbers)
    return written if len(written) <= LONGEST_TEXT else f"{len(numbers)} rows, {digest(written).hex()}"


def structure_of(value: Value) -> str:
    """A text equal for two values exactly when they can share one compiled program."""
    return json.dumps(_static_fields(value), sort_keys=True, default=str)


def _static_fields(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic | jax.Array):  # of either library: only what the program sees
        return [list(np.shape(value)), value.dtype.name]
    if isinstance(value, dict):
        return {name: _static_fields(part) for name, part in value.items()}
    if isinstance(value, tuple | list):
        return [_static_fields(part) for part in value]
    if not isinstance(value, Value):
        return type(value).__name__
    fields: dict[str, Any] = {"kind": _name_of(type(value))}
    for field in dataclasses.fields(value):
        if field.metadata.get("fitted"):
            continue
        part = getattr(value, field.name)
        static = field.metadata.get("static", False)
        fields[field.name] = plain(part) if static else _static_fields(part)
    return fields


def _name_of(kind: type[Value]) -> str:
    """A name that a move to another module does not change: what it is registered as, or its package and name."""
    own = vars(kind).get("kind")  # that of a parent is not its own
    return own or f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"


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
