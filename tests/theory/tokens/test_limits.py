"""Floors under Transformers with few heads and under feedforward networks (their witnesses: test_witnesses)."""

from __future__ import annotations

import json

import pytest

from krogh.errors import KroghError
from krogh.theory import predict
from krogh.theory.tokens.limits import feedforward_floor, head_floor


def test_head_floor_numbers():
    one = head_floor(4, 8, 1)
    assert one["floor"] == pytest.approx(1 - 12 / 32) and one["floor_separated"] == 0.75 and not one["vacuous"]
    assert one["floor_sharper"] == pytest.approx(0.75 * 7 / 8)
    assert one["heads_needed"] == 3 and one["heads_needed_separated"] == 4 and one["heads_needed_sharper"] == 4
    assert head_floor(2, 2, 1)["vacuous"], "a floor of exactly 0"
    three = head_floor(4, 8, 3)
    assert three["vacuous"] and three["floor"] == 0 and three["floor_sharper"] == pytest.approx(0.25 * 5 / 8)
    assert head_floor(4, 8, 9)["floor_sharper"] == 0, "two negative factors are not a floor"


@pytest.mark.parametrize(("q", "d"), [(2, 2), (3, 6), (4, 8), (5, 7), (1, 9)])
def test_fewest_heads_are_those_at_which_the_floor_reaches_zero(q, d):
    needed = head_floor(q, d, 1)
    for key, floor in (("", "floor"), ("_sharper", "floor_sharper"), ("_separated", "floor_separated")):
        heads = needed[f"heads_needed{key}"]
        assert head_floor(q, d, heads)[floor] == 0
        assert heads == 1 or head_floor(q, d, heads - 1)[floor] > 0


def test_floors_of_wide_tokens_approach_that_of_separated_attention():
    assert head_floor(5, 10**6, 3)["floor"] == pytest.approx(head_floor(5, 10**6, 3)["floor_separated"], abs=1e-5)


def test_feedforward_floor_numbers():
    assert feedforward_floor(12, 10, 3) == {"floor": pytest.approx(0.6), "inputs": 30, "samples_needed": 30}
    assert feedforward_floor(31, 10, 3)["floor"] == 0
    for target in (0.1, 0.7, 0.29):
        needed = feedforward_floor(1, 20, 10, target)["samples_needed"]
        assert feedforward_floor(needed, 20, 10)["floor"] <= target + 1e-12
        assert feedforward_floor(needed - 1, 20, 10)["floor"] > target + 1e-12


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("qstr/head-floor", {"sparsity": 4, "dimension": 8, "heads": 2}),
        ("qstr/feedforward-floor", {"samples": 12, "length": 10, "dimension": 3}),
    ],
)
def test_by_name(name, settings):
    numbers = predict(name, **settings)
    assert json.loads(json.dumps(numbers)) == numbers == predict(name, **{k: str(v) for k, v in settings.items()})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: head_floor(0, 8, 1), "sparsity must be an integer at least 1; got sparsity=0"),
        (lambda: feedforward_floor(1, 2, 3, target=1.0), r"risk in \[0, 1\).*got target=1.0"),
        (lambda: feedforward_floor(1.5, 2, 3), "samples must be an integer"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
