"""Verdicts follow from the interval and the threshold alone, and every one of them can be had."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.files import STUDY_SCHEMA
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED, Claims, Threshold, judge, need
from krogh.lab.estimate import Estimate, exact, mean, unknown_estimate
from krogh.numbers import json_number
from krogh.report.read import read_study

INF, NAN = math.inf, math.nan
SIDES = ("above", "at_least", "below", "at_most")


def interval(low: float, high: float, value: float | None = None) -> Estimate:
    middle = (low + high) / 2 if value is None else value
    return Estimate(middle, np.array([low]), np.array([high]), {"s": 7}, "test")


def verdict(low: float, high: float, **bound) -> str:
    return judge(interval(low, high), Threshold(**bound))[0]


@pytest.mark.parametrize(
    ("low", "high", "bound", "expected"),
    [
        (1.0, 2.0, {"above": 0.5}, REPRODUCED),
        (1.0, 2.0, {"above": 1.0}, INCONCLUSIVE),  # strictly more
        (1.0, 2.0, {"above": 2.0}, NOT_REPRODUCED),
        (1.0, 2.0, {"at_least": 1.0}, REPRODUCED),
        (1.0, 2.0, {"at_least": 1.5}, INCONCLUSIVE),
        (1.0, 2.0, {"at_least": 2.0}, INCONCLUSIVE),
        (1.0, 2.0, {"at_least": 2.5}, NOT_REPRODUCED),
        (1.0, 2.0, {"below": 2.5}, REPRODUCED),
        (1.0, 2.0, {"below": 2.0}, INCONCLUSIVE),
        (1.0, 2.0, {"below": 1.0}, NOT_REPRODUCED),
        (1.0, 2.0, {"at_most": 2.0}, REPRODUCED),
        (1.0, 2.0, {"at_most": 1.5}, INCONCLUSIVE),
        (1.0, 2.0, {"at_most": 1.0}, INCONCLUSIVE),
        (1.0, 2.0, {"at_most": 0.5}, NOT_REPRODUCED),
        (1.0, 2.0, {"between": (1.0, 2.0)}, REPRODUCED),
        (1.0, 2.0, {"between": (0.0, 3.0)}, REPRODUCED),
        (1.0, 2.0, {"between": (1.5, 3.0)}, INCONCLUSIVE),
        (1.0, 2.0, {"between": (0.0, 1.5)}, INCONCLUSIVE),
        (1.0, 2.0, {"between": (1.2, 1.8)}, INCONCLUSIVE),  # it may be too little, or too much
        (1.0, 2.0, {"between": (2.0, 3.0)}, INCONCLUSIVE),
        (1.0, 2.0, {"between": (2.5, 3.0)}, NOT_REPRODUCED),
        (1.0, 2.0, {"between": (0.0, 0.5)}, NOT_REPRODUCED),
        (0.0, 0.0, {"above": 0.0}, NOT_REPRODUCED),  # a difference that is exactly nothing has no sign
        (0.0, 0.0, {"at_least": 0.0}, REPRODUCED),
    ],
)
def test_every_place_of_the_interval_beside_the_threshold(low, high, bound, expected):
    assert verdict(low, high, **bound) == expected


@pytest.mark.parametrize("bound", [*({side: 0.0} for side in SIDES), {"between": (-1.0, 1.0)}])
@pytest.mark.parametrize(("low", "high"), [(-INF, INF), (NAN, NAN), (NAN, 5.0), (-5.0, NAN), (NAN, INF), (-INF, NAN)])
def test_an_interval_that_says_nothing_decides_nothing(bound, low, high):
    assert verdict(low, high, **bound) == INCONCLUSIVE


@pytest.mark.parametrize(
    ("low", "high", "at_least", "at_most"),
    [
        (1.0, INF, REPRODUCED, NOT_REPRODUCED),
        (-1.0, INF, INCONCLUSIVE, INCONCLUSIVE),
        (-INF, -1.0, NOT_REPRODUCED, REPRODUCED),
        (-INF, 1.0, INCONCLUSIVE, INCONCLUSIVE),
        (INF, INF, REPRODUCED, NOT_REPRODUCED),  # beyond the budget is beyond every finite threshold
    ],
)
def test_infinite_ends(low, high, at_least, at_most):
    assert verdict(low, high, at_least=0.0) == verdict(low, high, above=0.0) == at_least
    assert verdict(low, high, at_most=0.0) == verdict(low, high, below=0.0) == at_most


def test_the_value_itself_does_not_decide():
    assert judge(interval(1.0, 2.0, NAN), Threshold(at_least=0.5))[0] == REPRODUCED
    assert judge(interval(-INF, INF, 1.0), Threshold(at_least=0.5))[0] == INCONCLUSIVE


def test_threshold_and_reason_in_words():
    words = {"above": "> 0.5", "at_least": "≥ 0.5", "below": "< 0.5", "at_most": "≤ 0.5"}
    assert [str(Threshold(**{side: 0.5})) for side in words] == list(words.values())
    assert str(Threshold(between=(0.6, 1.8))) == "0.6 to 1.8"
    assert judge(interval(1, 2), Threshold(at_least=0.5))[1] == "the whole interval [1, 2] is ≥ 0.5"
    assert judge(exact(1), Threshold(at_least=0.5))[1] == "1 is ≥ 0.5"
    assert judge(interval(1, 2), Threshold(at_most=0.5))[1] == "the whole interval [1, 2] misses ≤ 0.5"
    assert judge(interval(1, 2), Threshold(at_most=1.5))[1] == "the interval [1, 2] holds the threshold ≤ 1.5"
    assert judge(unknown_estimate("no network"), Threshold(at_most=1.5)) == (INCONCLUSIVE, "no network")


@pytest.mark.parametrize("bounds", [{}, {"above": 0.0, "at_least": 0.0}, {"at_least": 0.0, "between": (0.0, 1.0)}])
def test_one_threshold_is_needed(bounds):
    with pytest.raises(KroghError, match="exactly one"):
        Threshold(**bounds)
    with pytest.raises(KroghError, match=r"between=\(2.0, 1.0\)"):
        Threshold(between=(2.0, 1.0))


finite = st.floats(-1e6, 1e6)


@given(finite, st.floats(1e-3, 1e3), finite, st.sampled_from(SIDES))
def test_a_verdict_can_fail(low, width, bound, side):
    """Moved far enough one way any interval is reproduced, far enough the other way it is not."""
    high, way = low + width, -1 if side in ("at_most", "below") else 1
    far = 2 * (abs(low) + abs(high) + abs(bound) + 1)
    assert verdict(low + way * far, high + way * far, **{side: bound}) == REPRODUCED
    assert verdict(low - way * far, high - way * far, **{side: bound}) == NOT_REPRODUCED
    assert verdict(low + far, high + far, between=(bound - 1, bound + 1)) == NOT_REPRODUCED
    assert verdict(low - far, high - far, between=(bound - 1, bound + 1)) == NOT_REPRODUCED


@given(finite, st.floats(0, 1e3), finite, st.floats(0, 1e3))
def test_a_wider_interval_only_withdraws(low, width, bound, more):
    """Less certainty may turn a verdict into inconclusive, never into its opposite."""
    for asked in (*({side: bound} for side in SIDES), {"between": (bound, bound + 1 + abs(bound))}):
        sharp = verdict(low, low + width, **asked)
        assert verdict(low - more, low + width + more, **asked) in (sharp, INCONCLUSIVE)


@given(finite, st.floats(0, 1e3), finite)
def test_opposite_thresholds_do_not_both_hold(low, width, bound):
    assume(not low == low + width == bound)
    verdicts = {verdict(low, low + width, at_least=bound), verdict(low, low + width, at_most=bound)}
    assert verdicts in ({REPRODUCED, NOT_REPRODUCED}, {INCONCLUSIVE}, {REPRODUCED, INCONCLUSIVE})


# --- the collector --------------------------------------------------------------------------------------------


def test_a_claim_says_what_judge_says_and_counts_the_estimates_trials():
    say = Claims("the source")
    made = say("more", "There is more.", mean([1.0, 2.0, 3.0]), "mean", above=0.0, unit="steps", source_value="about 2")
    assert (made.verdict, made.reason) == judge(mean([1.0, 2.0, 3.0]), Threshold(above=0.0))
    assert (made.value, made.trials, made.source, made.threshold) == (2.0, 3, "the source", "> 0")
    assert (made.unit, made.source_value, made.rule) == ("steps", "about 2", "Student's t, 3 trials")
    assert list(say) == [made] and len(say) == 1


def test_what_is_lacking_withholds_the_verdict_and_the_first_lack_is_the_reason():
    say = Claims("s")
    lacks = [need(40, 20, "seeds"), need(3, 4, "sizes"), need(1, 2, "lengths")]
    made = say("a", "A.", exact(1.0), "t", at_least=0.0, needs=lacks)
    assert (made.verdict, made.reason) == (INCONCLUSIVE, "3 sizes; a verdict needs 4")
    assert say("b", "B.", exact(1.0), "t", at_least=0.0, needs=lacks[:1]).verdict == REPRODUCED


def test_a_part_of_the_collector_fills_in_what_its_claims_share():
    say = Claims("s")
    part = say.about("k3-", "k = 3: ", source="Figure 2", needs=[need(1, 2, "seeds")])
    made = part("steep", "it is steep.", exact(2.0), "slope", above=0.0)
    assert (made.name, made.statement, made.source) == ("k3-steep", "k = 3: it is steep.", "Figure 2")
    assert made.verdict == INCONCLUSIVE and list(say) == [made]
    deeper = part.about("x-", "here ")
    assert deeper("y", "too.", exact(2.0), "slope", above=0.0, source="elsewhere").source == "elsewhere"
    assert [claim.name for claim in say] == ["k3-steep", "k3-x-y"]


def test_no_two_claims_have_one_name():
    say = Claims("s")
    say("a", "A.", exact(1.0), "t", at_least=0.0)
    with pytest.raises(KroghError, match="'a'"):
        say.about("")("a", "A.", exact(1.0), "t", at_least=0.0)


@pytest.mark.parametrize("value", [0.5, INF, -INF, NAN])
def test_a_claim_survives_json_and_the_report_reads_it(value, tmp_path):
    made = Claims("s")("name", "Statement.", interval(-INF, 2.0, value), "t", at_least=0.0)
    text = json.dumps({"schema": STUDY_SCHEMA, "claims": [made.as_json()]}, allow_nan=False)
    (tmp_path / "claims.json").write_text(text)
    (tmp_path / "study.json").write_text(
        f'{{"schema": {STUDY_SCHEMA}, "name": "a", "title": "b", "status": "complete"}}'
    )
    (read,) = read_study(tmp_path).claims
    assert read.value == (None if math.isnan(value) else value)
    assert (read.low, read.high, read.verdict, read.trials) == (-INF, 2.0, made.verdict, 7)


def test_numbers_for_json():
    given_ = [INF, -INF, NAN, 1.5, 3, "text", None]
    assert [json_number(value) for value in given_] == ["inf", "-inf", None, 1.5, 3, "text", None]
