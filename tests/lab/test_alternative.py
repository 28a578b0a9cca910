"""A figure in words has the numbers of the figure: ends with intervals, ranges, verdicts; and an end."""

from __future__ import annotations

import math

import polars as pl
import pytest

from krogh.lab import Chart
from krogh.lab.alternative import LONGEST, alternative_text, findings
from krogh.lab.claims import Claims
from krogh.lab.estimate import exact


def chart(**options):
    return Chart("name", "Time grows with n", **options)


def test_a_series_goes_from_its_first_point_to_its_last_with_intervals():
    made = chart()
    panel = made.panel(x="input bits n", y="t_c (steps)", log="xy")
    panel.band([10, 20, 40], [30, 10, 900], [38.0, 25.0, math.inf], [45, 30, math.inf], "k = 2")
    panel.line([10, 40], [0.5, 2], "theory")
    text = alternative_text(made.figure("caption"))
    assert text.startswith("Time grows with n. t_c (steps) (logarithmic) against input bits n (logarithmic).")
    assert "k = 2: 38 [30, 45] at 10 to ∞ [900, ∞] at 40, between 25 and ∞ (3 points)." in text
    assert "theory: 0.500 at 10 to 2 at 40 (2 points)." in text and "$" not in text


def test_panels_points_and_named_rows():
    made = chart(columns=2)
    made.panel(title="left", x="n", y="y").dots([1, 1, 2], [3, 5, 4], "seeds")
    panel = made.panel(title="right", x="distance")
    panel.dots([0.25, 0.5], [0, 0], "networks")
    panel.name_rows(["one"])
    text = alternative_text(made.figure("", pl.DataFrame({"other": [1]})))
    assert "Panel left, y against n. seeds: 3 points between 3 and 5." in text
    assert "Panel right, distance. networks: 2 points between 0.250 and 0.500." in text, "what was measured is along x"


def test_of_a_drawing_without_series_the_ranges_of_its_data():
    made = chart()
    made.panel(x="a", y="b").ax.bar([1, 2], [3, 4])
    data = pl.DataFrame({"group": ["S_3", "Q_8"], "share": [0.25, math.nan], "size": [6, 8], "all": [[1], [2]]})
    assert alternative_text(made.figure("", data)) == (
        "Time grows with n. b against a. at 1: 3; at 2: 4. group: S_3, Q_8. share: 0.250. size: 6 to 8."
    )


def test_few_bars_are_told_one_by_one_and_many_are_not():
    made = chart(columns=3)
    standing, lying, histogram = made.panels
    standing.ax.bar([0, 1], [27, 0.25], label="neurons")
    standing.ax.set_xticks([0, 1], ["sign", "S_3"])
    standing.ax.bar([0, 1], [1, 2], bottom=[27, 0.25])
    lying.ax.barh([1, 0], [5, math.nan])
    lying.ax.set_yticks([1, 0], ["first", "second"])
    histogram.ax.bar(range(13), range(13))
    text = alternative_text(made.figure("", pl.DataFrame({"neurons": [0, 27]})))
    assert "neurons (sign: 27; S_3: 0.250)." in text and " sign: 1; S_3: 2." in text and "first: 5; second: —." in text
    assert "neurons: 0 to 27." in text and "at 12" not in text
    standing.dots([1], [2], "seeds")
    assert "neurons (sign: 27; S_3: 0.250)." in alternative_text(made.figure("")), "also beside series"


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"below": [4, 4]}, "here: 2 of 2 claims reproduced, smoke scale"),
        ({"below": [4, 1], "needs": ["", ""]}, "here: 1 of 2 claims reproduced, 1 not reproduced, smoke scale"),
        ({"below": [4], "needs": ["2 seeds"]}, "here: 0 of 1 claim reproduced, 1 inconclusive, smoke scale"),
        ({}, "here: smoke scale"),
    ],
)
def test_what_a_study_found_in_a_line(claims, words):
    say = Claims("somewhere")
    for place, below in enumerate(claims.get("below", [])):
        say(f"claim-{place}", "It is small.", exact(3.0, 7), "exponent", below=below, needs=claims.get("needs", ()))
    assert findings(list(say), "smoke") == words


def test_claims_come_last_with_their_numbers_and_verdicts():
    made, say = chart(), Claims("somewhere")
    made.panel().line([1, 2], [1, 2])
    claim = say("exponent", "It is small.", exact(1.5, 7), "fitted exponent", below=3)
    assert alternative_text(made.figure(""), [claim]).endswith("fitted exponent: 1.50, reproduced.")


def test_a_crowd_is_cut_short_and_says_so():
    made = chart(columns=3, rows=3)
    for place in range(9):
        panel = made.panel(title=f"panel number {place}", x="n", y="y")
        for series in range(12):
            panel.line([1, 2], [series, 1], f"series number {series} of the panel", key="")
    text = alternative_text(made.figure(""))
    assert len(text) <= LONGEST + 60 and text.endswith("The rest is in the data beside the figure.")
    assert "4 more series." in text
