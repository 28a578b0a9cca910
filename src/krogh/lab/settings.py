"""Settings of an experiment: a frozen dataclass whose fields declare their help and what they may be.

    ns: tuple[int, ...] = setting((10, 20, 40), "input bits", least=2, increasing=True)
    law: str = setting("shared", "which prompts", among=("shared", "independent"))

What is declared (`Rules`) is checked before anything is trained; what concerns several fields at once is checked by the
experiment's own `check`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from krogh.errors import KroghError, require, unknown

_LIMITS = {
    "least": ("at least", operator.ge),
    "most": ("at most", operator.le),
    "above": ("above", operator.gt),
    "below": ("below", operator.lt),
}


@dataclass(frozen=True)
class Rules:
    """What a setting may be.

    `least`, `most`, `above`, `below` and `among` hold for a number or for each value of a tuple; a tuple has at least
    `fewest` values, may be asked to be `distinct` or `increasing`, and to have as many values as the field `like`.
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    among: Collection[Any] | None = None
    distinct: bool = False
    increasing: bool = False
    fewest: int = 1
    like: str = ""

    def check(self, name: str, value: Any, settings: Any) -> None:
        """Refuse a value of the field `name` that is not what is declared."""
        if isinstance(value, tuple):
            self._check_tuple(name, value, settings)
        for one in value if isinstance(value, tuple) else (value,):
            self._check_one(name, one, value)

    def _check_tuple(self, name: str, values: tuple[Any, ...], settings: Any) -> None:
        enough = "at least one value" if self.fewest == 1 else f"{self.fewest} or more values"
        require(len(values) >= self.fewest, f"{name} must have {enough}; got {name}={values}")
        rising = not self.increasing or all(low < high for low, high in itertools.pairwise(values))
        require(rising, f"{name} must be increasing; got {name}={values} (try {tuple(sorted(set(values)))})")
        distinct = not self.distinct or len(set(values)) == len(values)
        require(distinct, f"{name} must not repeat a value; got {name}={values}")
        if self.like:
            other = getattr(settings, self.like)
            alike = len(values) == len(other)
            require(alike, f"{name} must have one value for each of {self.like}={other}; got {name}={values}")

    def _check_one(self, name: str, value: Any, whole: Any) -> None:
        if self.among is not None and value not in self.among:
            if isinstance(value, str):
                raise unknown(name.removesuffix("s"), value, map(str, self.among))
            raise KroghError(f"{name} must be among {', '.join(map(str, self.among))}; got {name}={whole}")
        limits = {word: bound for word in _LIMITS if (bound := getattr(self, word)) is not None}
        if limits:
            finite = not isinstance(value, float) or math.isfinite(value)
            inside = finite and all(_LIMITS[word][1](value, bound) for word, bound in limits.items())
            allowed = " and ".join(f"{_LIMITS[word][0]} {bound:g}" for word, bound in limits.items())
            require(inside, f"{name} must be {allowed}; got {name}={whole}")


def setting(default: Any, help: str, **rules: Any) -> Any:
    """A field with its line of help and what it may be: keywords are the fields of `Rules`."""
    return dataclasses.field(default=default, metadata={"help": help, "rules": Rules(**rules)})


def settings_help(settings: Any) -> dict[str, tuple[Any, str]]:
    """Each setting's value and line of help."""
    fields = dataclasses.fields(settings)
    return {field.name: (getattr(settings, field.name), field.metadata.get("help", "")) for field in fields}


def check_settings(settings: Any) -> None:
    """Refuse settings that are not what their fields declare."""
    for field in dataclasses.fields(settings):
        rules, value = field.metadata.get("rules"), getattr(settings, field.name)
        if rules is not None and value is not None:
            rules.check(field.name, value, settings)
