"""Settings of an experiment: a frozen dataclass whose fields declare their help and what they may be.

    ns: tuple[int, ...] = setting((10, 20, 40), "input bits", least=2, increasing=True)
    law: str = setting("shared", "which prompts", among=("shared", "independent"))

What is declared is checked for every value of a tuple, before anything is trained; what concerns several fields at once
is checked by the experiment's own `check`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable
from typing import Any

from krogh.errors import KroghError, require, unknown


def setting(
    default: Any,
    help: str,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    among: Iterable[Any] | None = None,
    distinct: bool = False,
    increasing: bool = False,
    fewest: int = 1,
    like: str = "",
) -> Any:
    """A field with its line of help and what it may be.

    `least`, `most`, `above`, `below` and `among` hold for a number or for each value of a tuple; a tuple has at least
    `fewest` values, may be asked to be `distinct` or `increasing`, and to have as many values as the field `like`.
    """
    limits = {"least": least, "most": most, "above": above, "below": below}
    rules = {
        "limits": {word: bound for word, bound in limits.items() if bound is not None},
        "among": None if among is None else tuple(among),
        "distinct": distinct or increasing,
        "increasing": increasing,
        "fewest": fewest,
        "like": like,
    }
    return dataclasses.field(default=default, metadata={"help": help, "rules": rules})


def settings_help(settings: Any) -> dict[str, tuple[Any, str]]:
    """Each setting's value and line of help."""
    fields = dataclasses.fields(settings)
    return {field.name: (getattr(settings, field.name), field.metadata.get("help", "")) for field in fields}


def check_settings(settings: Any) -> None:
    """Refuse settings that are not what their fields declare."""
    for field in dataclasses.fields(settings):
        rules = field.metadata.get("rules")
        value = getattr(settings, field.name)
        if rules is None or value is None:
            continue
        values = value if isinstance(value, tuple) else (value,)
        if isinstance(value, tuple):
            _check_tuple(field.name, value, rules, settings)
        for one in values:
            _check_value(field.name, one, rules, value)


def _check_tuple(name: str, values: tuple[Any, ...], rules: dict[str, Any], settings: Any) -> None:
    fewest, like = rules["fewest"], rules["like"]
    enough = "at least one value" if fewest == 1 else f"{fewest} or more values"
    require(len(values) >= fewest, f"{name} must have {enough}; got {name}={values}")
    rising = not rules["increasing"] or all(low < high for low, high in itertools.pairwise(values))
    require(rising, f"{name} must be increasing; got {name}={values} (try {tuple(sorted(set(values)))})")
    distinct = not rules["distinct"] or len(set(values)) == len(values)
    require(distinct, f"{name} must not repeat a value; got {name}={values}")
    if like:
        other = getattr(settings, like)
        alike = len(values) == len(other)
        require(alike, f"{name} must have one value for each of {like}={other}; got {name}={values}")


_WORDS = {"least": "at least", "most": "at most", "above": "above", "below": "below"}
_MEETS = {
    "least": lambda x, bound: x >= bound,
    "most": lambda x, bound: x <= bound,
    "above": lambda x, bound: x > bound,
    "below": lambda x, bound: x < bound,
}


def _check_value(name: str, value: Any, rules: dict[str, Any], whole: Any) -> None:
    if rules["among"] is not None and value not in rules["among"]:
        if isinstance(value, str):
            raise unknown(name.removesuffix("s"), value, [str(one) for one in rules["among"]])
        raise KroghError(f"{name} must be among {', '.join(map(str, rules['among']))}; got {name}={whole}")
    limits = rules["limits"]
    if limits:
        finite = not isinstance(value, float) or math.isfinite(value)
        inside = finite and all(_MEETS[word](value, bound) for word, bound in limits.items())
        allowed = " and ".join(f"{_WORDS[word]} {bound:g}" for word, bound in limits.items())
        require(inside, f"{name} must be {allowed}; got {name}={whole}")
