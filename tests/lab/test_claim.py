"""Verdicts follow from the interval and the threshold alone, and every one of them can be had."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.lab.claim import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED, claim, json_number, judge
from krogh.lab.statistics import Interval
from krogh.report.read import read_study

INF, NAN = math.inf, math.nan
SIDES = ("above", "at_least", "at_most")


def between(low: float, high: float) -> Interval:
    return Interval((low + high) / 2, low, high, 0.95, "test")


def verdict(low: float, high: float, **bound: float) -> str:
    return judge(between(low, high), **bound)[1]


@pytest.mark.parametrize(
    ("low", "high", "bound", "expected"),
    [
        (1.0, 2.0, {"above": 0.5}, REPRODUCED),
        (1.0, 2.0, {"above": 1.0}, INCONCLUSIVE),  # strictly more
        (1.0, 2.0, {"above": 1.5}, INCONCLUSIVE),
        (1.0, 2.0, {"above": 2.0}, NOT_REPRODUCED),
        (1.0, 2.0, {"above": 2.5}, NOT_REPRODUCED),
        (1.0, 2.0, {"at_least": 0.5}, REPRODUCED),
        (1.0, 2.0, {"at_least": 1.0}, REPRODUCED),
        (1.0, 2.0, {"at_least": 1.5}, INCONCLUSIVE),
        (1.0, 2.0, {"at_least": 2.0}, INCONCLUSIVE),
        (1.0, 2.0, {"at_least": 2.5}, NOT_REPRODUCED),
        (1.0, 2.0, {"at_most": 2.5}, REPRODUCED),
        (1.0, 2.0, {"at_most": 2.0}, REPRODUCED),
        (1.0, 2.0, {"at_most": 1.5}, INCONCLUSIVE),
        (1.0, 2.0, {"at_most": 1.0}, INCONCLUSIVE),
        (1.0, 2.0, {"at_most": 0.5}, NOT_REPRODUCED),
        (0.0, 0.0, {"above": 0.0}, NOT_REPRODUCED),  # a difference that is exactly nothing has no sign
        (0.0, 0.0, {"at_least": 0.0}, REPRODUCED),
        (0.0, 0.0, {"at_most": 0.0}, REPRODUCED),
    ],
)
def test_every_place_of_the_interval_beside_the_threshold(low, high, bound, expected):
    assert verdict(low, high, **bound) == expected


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("low", "high"), [(-INF, INF), (NAN, NAN), (NAN, 5.0), (-5.0, NAN), (NAN, INF), (-INF, NAN)])
def test_an_interval_that_says_nothing_decides_nothing(side, low, high):
    assert verdict(low, high, **{side: 0.0}) == INCONCLUSIVE


@pytest.mark.parametrize(
    ("low", "high", "at_least", "at_most"),
    [
        (1.0, INF, REPRODUCED, NOT_REPRODUCED),
        (-1.0, INF, INCONCLUSIVE, INCONCLUSIVE),
        (-INF, -1.0, NOT_REPRODUCED, REPRODUCED),
        (-INF, 1.0, INCONCLUSIVE, INCONCLUSIVE),
        (INF, INF, REPRODUCED, NOT_REPRODUCED),  # beyond the budget is beyond every finite threshold
        (-INF, -INF, NOT_REPRODUCED, REPRODUCED),
    ],
)
def test_infinite_ends(low, high, at_least, at_most):
    assert verdict(low, high, at_least=0.0) == verdict(low, high, above=0.0) == at_least
    assert verdict(low, high, at_most=0.0) == at_most


def test_the_estimate_itself_does_not_decide():
    """A NaN estimate with a telling interval, and a telling estimate with an interval that says nothing."""
    assert judge(Interval(NAN, 1.0, 2.0, 0.95, ""), at_least=0.5)[1] == REPRODUCED
    assert judge(Interval(1.0, -INF, INF, 0.95, ""), at_least=0.5)[1] == INCONCLUSIVE


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("low", [-2.0, 0.0, 2.0])
def test_a_scale_too_small_is_inconclusive_whatever_was_measured(side, low):
    threshold, found, reason = judge(between(low, low + 1), **{side: 0.5}, enough=False, too_small="only 3 seeds")
    assert (found, reason) == (INCONCLUSIVE, "only 3 seeds")
    assert threshold == judge(between(low, low + 1), **{side: 0.5})[0]
    assert judge(between(low, low + 1), **{side: 0.5}, enough=False)[2]  # a reason in any case


def test_threshold_and_reason_in_words():
    assert judge(between(1, 2), above=0.5)[0] == "> 0.5"
    assert judge(between(1, 2), at_least=0.5)[::2] == ("≥ 0.5", "the whole interval [1, 2] is ≥ 0.5")
    assert judge(between(1, 1), at_least=0.5)[::2] == ("≥ 0.5", "1 is ≥ 0.5")
    assert judge(between(1, 2), at_most=0.5)[::2] == ("≤ 0.5", "the whole interval [1, 2] misses ≤ 0.5")
    assert judge(between(1, 2), at_most=1.5)[2] == "the interval [1, 2] holds the threshold 1.5"


@pytest.mark.parametrize("bounds", [{}, {"above": 0.0, "at_least": 0.0}, {"at_least": 0.0, "at_most": 1.0}])
def test_one_threshold_is_needed(bounds):
    with pytest.raises(KroghError, match="exactly one"):
        judge(between(0, 1), **bounds)


finite = st.floats(-1e6, 1e6)


@given(finite, st.floats(1e-3, 1e3), finite, st.sampled_from(SIDES))
def test_a_verdict_can_fail(low, width, bound, side):
    """Moved far enough one way any interval is reproduced, far enough the other way it is not."""
    high, way = low + width, -1 if side == "at_most" else 1
    far = 2 * (abs(low) + abs(high) + abs(bound) + 1)
    assert verdict(low + way * far, high + way * far, **{side: bound}) == REPRODUCED
    assert verdict(low - way * far, high - way * far, **{side: bound}) == NOT_REPRODUCED


@given(finite, st.floats(0, 1e3), finite, st.floats(0, 1e3), st.sampled_from(SIDES))
def test_moving_to_the_right_side_never_makes_it_worse(low, width, bound, shift, side):
    ranks = {NOT_REPRODUCED: 0, INCONCLUSIVE: 1, REPRODUCED: 2}
    way = -1 if side == "at_most" else 1
    before = verdict(low, low + width, **{side: bound})
    after = verdict(low + way * shift, low + width + way * shift, **{side: bound})
    assert ranks[after] >= ranks[before]


@given(finite, st.floats(0, 1e3), finite, st.floats(0, 1e3))
def test_a_wider_interval_only_withdraws(low, width, bound, more):
    """Less certainty may turn a verdict into inconclusive, never into its opposite."""
    for side in SIDES:
        sharp = verdict(low, low + width, **{side: bound})
        assert verdict(low - more, low + width + more, **{side: bound}) in (sharp, INCONCLUSIVE)


@given(finite, st.floats(0, 1e3), finite)
def test_opposite_thresholds_do_not_both_hold(low, width, bound):
    assume(not low == low + width == bound)
    verdicts = {verdict(low, low + width, at_least=bound), verdict(low, low + width, at_most=bound)}
    assert verdicts in ({REPRODUCED, NOT_REPRODUCED}, {INCONCLUSIVE}, {REPRODUCED, INCONCLUSIVE})


def one(interval: Interval, **more: object):
    kwargs = {"source": "s", "statistic": "t", "trials": np.int64(7), "at_least": 0.0} | more
    return claim("name", "Statement.", interval=interval, **kwargs)


def test_a_claim_says_what_judge_says():
    made = one(between(1, 2), unit="steps", source_value="about 1")
    assert (made.threshold, made.verdict, made.reason) == judge(between(1, 2), at_least=0.0)
    assert (made.value, made.low, made.high, made.trials) == (1.5, 1.0, 2.0, 7)
    assert (made.unit, made.source_value) == ("steps", "about 1")


@pytest.mark.parametrize("value", [0.5, INF, -INF, NAN])
def test_a_claim_survives_json_and_the_report_reads_it(value, tmp_path):
    made = one(Interval(value, -INF, np.float32(2), 0.95, ""))
    text = json.dumps({"schema": 1, "claims": [made.as_json()]}, allow_nan=False)
    (tmp_path / "claims.json").write_text(text)
    (tmp_path / "study.json").write_text('{"schema": 1, "name": "a", "title": "b", "status": "complete"}')
    (read,) = read_study(tmp_path).claims
    assert read.value == (None if math.isnan(value) else value)
    assert (read.low, read.high, read.verdict, read.trials) == (-INF, 2.0, made.verdict, 7)


def test_numbers_for_json():
    given_ = [INF, -INF, NAN, 1.5, 3, "text", None]
    assert [json_number(value) for value in given_] == ["inf", "-inf", None, 1.5, 3, "text", None]
