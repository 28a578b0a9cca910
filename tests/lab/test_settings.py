"""Declared settings: what is declared is what is allowed, of a number and of every value of a tuple."""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.lab.settings import check_settings, setting, settings_help

MEETS = {"least": operator.ge, "most": operator.le, "above": operator.gt, "below": operator.lt}
WORDS = {"least": "at least", "most": "at most", "above": "above", "below": "below"}
NUMBERS = st.integers(-4, 4)
TUPLES = st.lists(NUMBERS, max_size=4).map(tuple)
BOUNDS = st.dictionaries(st.sampled_from(sorted(MEETS)), NUMBERS, min_size=1)


def refusal(value: Any, **rules: Any) -> str:
    """Why the field `x` may not be `value`; nothing where it may."""
    return refusal_of({"x": (value, rules)})


def refusal_of(fields: dict[str, tuple[Any, dict[str, Any]]]) -> str:
    made = [(name, Any, setting(None, "what it is", **rules)) for name, (_, rules) in fields.items()]
    settings = dataclasses.make_dataclass("Settings", made, frozen=True)
    try:
        check_settings(settings(**{name: value for name, (value, _) in fields.items()}))
    except KroghError as error:
        return str(error)
    return ""


@given(NUMBERS, BOUNDS)
def test_a_number_is_allowed_where_every_bound_holds(value, bounds):
    allowed = all(MEETS[word](value, bound) for word, bound in bounds.items())
    words = " and ".join(f"{WORDS[word]} {bounds[word]}" for word in WORDS if word in bounds)
    assert refusal(value, **bounds) == ("" if allowed else f"x must be {words}; got x={value}")


@given(TUPLES, BOUNDS)
def test_a_tuple_is_allowed_where_each_of_its_values_is(values, bounds):
    found = refusal(values, fewest=0, **bounds)
    assert (found == "") == all(refusal(value, **bounds) == "" for value in values)
    assert found == "" or found.endswith(f"; got x={values}"), "all that was given is shown"


@given(TUPLES)
def test_increasing_and_distinct(values):
    rising = all(low < high for low, high in itertools.pairwise(values))
    found = refusal(values, increasing=True, fewest=0)
    assert found == ("" if rising else f"x must be increasing; got x={values} (try {tuple(sorted(set(values)))})")
    repeats = len(set(values)) < len(values)
    assert refusal(values, distinct=True, fewest=0) == (f"x must not repeat a value; got x={values}" if repeats else "")


@given(TUPLES, st.integers(0, 4))
def test_a_tuple_has_as_many_values_as_are_asked_for(values, fewest):
    words = "at least one value" if fewest == 1 else f"{fewest} or more values"
    assert refusal(values, fewest=fewest) == ("" if len(values) >= fewest else f"x must have {words}; got x={values}")


def test_a_tuple_is_not_empty_unless_that_is_said():
    assert refusal(()) == "x must have at least one value; got x=()" and refusal((), fewest=0) == ""


@given(TUPLES, TUPLES)
def test_a_tuple_like_another(values, others):
    found = refusal_of({"x": (values, {"like": "y", "fewest": 0}), "y": (others, {"fewest": 0})})
    words = f"x must have one value for each of y={others}; got x={values}"
    assert found == ("" if len(values) == len(others) else words)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("bound", [{"least": -1e300}, {"most": 1e300}, {"above": 0}, {"below": 0}])
def test_no_number_that_is_bounded_is_infinite_or_none(value, bound):
    assert "must be" in refusal(value, **bound) and "must be" in refusal((0.5, value), **bound)


def test_one_of_several_names_the_nearest():
    assert refusal("relu", among=("relu", "sine")) == "" and refusal(("sine", "relu"), among=("relu", "sine")) == ""
    assert refusal("rely", among=("relu", "sine")) == "unknown x 'rely'; did you mean 'relu'? (known: relu, sine)"
    found = refusal_of({"kinds": (("relu", "sin"), {"among": {"relu": 1, "sine": 2}})})
    assert found == "unknown kind 'sin'; did you mean 'sine'? (known: relu, sine)", "a field of kinds has a kind"


@given(NUMBERS, st.sets(NUMBERS, min_size=1))
def test_one_of_several_numbers(value, allowed):
    found = refusal((value,), among=sorted(allowed))
    words = f"x must be among {', '.join(map(str, sorted(allowed)))}; got x={(value,)}"
    assert found == ("" if value in allowed else words)


def test_what_is_not_given_and_fields_without_rules_are_not_checked():
    assert refusal(None, least=3, among=(4,)) == ""

    @dataclasses.dataclass(frozen=True)
    class Plain:
        anything: float = math.nan

    check_settings(Plain())


def test_the_first_field_that_is_wrong_is_named():
    found = refusal_of({"good": (1, {"least": 1}), "bad": (0, {"least": 1}), "worse": (-1, {"least": 1})})
    assert re.match("bad must be at least 1", found)


def test_help_stands_beside_the_value():
    @dataclasses.dataclass(frozen=True)
    class Settings:
        ns: tuple[int, ...] = setting((2, 3), "input bits", least=1)
        plain: int = 4

    assert Settings().ns == (2, 3), "the default is a default"
    assert settings_help(Settings(ns=(5,))) == {"ns": ((5,), "input bits"), "plain": (4, "")}
