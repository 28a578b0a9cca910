"""Charts: what is drawn is what is gathered, keys stand where they are asked for, unused panels are not shown."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_hex

from krogh.lab import Chart, Curve, Figure, figures
from krogh.lab.curves import exact_curve
from krogh.lab.estimate import median

CURVE = exact_curve([1, 2, 4], [3.0, 5.0, 9.0])


def chart(**options: Any) -> Chart:
    return Chart("name", "title", source="somewhere", **options)


def rows(figure: Figure, *columns: str) -> list[tuple[Any, ...]]:
    return figure.data.select(columns or figure.data.columns).rows()


def texts(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_every_mark_is_gathered_in_the_order_of_drawing():
    made = chart()
    panel = made.panel(x="n", y="steps")
    panel.curve(CURVE, "ours", published={2: 5.5, 3: 7.0})
    panel.band([1, 2], [0, 1], [1, 2], [2, math.inf], "band")
    panel.line([1, 2], [1, 4], "theory")
    panel.dots([7], [8], "seed")
    figure = made.figure("caption")
    assert figure.data.columns == ["series", "x", "value", "low", "high"]
    assert rows(figure) == [
        ("ours", 1, 3, 3, 3),
        ("ours", 2, 5, 5, 5),
        ("ours", 4, 9, 9, 9),
        ("ours, source", 2, 5.5, None, None),
        ("band", 1, 1, 0, 2),
        ("band", 2, 2, 1, math.inf),
        ("theory", 1, 1, None, None),
        ("theory", 2, 4, None, None),
        ("seed", 7, 8, None, None),
    ]
    assert (figure.name, figure.title, figure.caption) == ("name", "title", "caption")


def test_what_is_gathered_is_what_stands_on_the_axes():
    made, rng = chart(), np.random.default_rng(0)
    panel = made.panel()
    for label in "abc":
        panel.line(np.sort(rng.uniform(size=5)), rng.uniform(size=5), label)
    figure = made.figure("")
    for label, drawn in zip("abc", panel.ax.lines, strict=True):
        own = figure.data.filter(series=label)
        assert np.array_equal(own.select("x", "value").to_numpy(), drawn.get_xydata())


def test_other_data_may_be_given():
    made = chart()
    made.panel().line([1, 2], [1, 2], "aside")
    assert len(made.figure("").data) == 2 and len(made.panels[0].ax.lines) == 1
    other = CURVE.table("n")
    assert made.figure("", other).data is other


def test_panels_are_told_apart_by_title_or_place():
    made = chart(columns=2)
    made.panel(title="left").line([1], [1], "a")
    made.panel().line([2], [2], "a")
    assert rows(made.figure(""), "panel", "series", "x") == [("left", "a", 1), ("2", "a", 2)]


def test_what_was_not_measured_is_null_and_what_was_not_reached_is_infinite():
    made = chart()
    made.panel().band([1, 2, 3], [0, 1, 2], [1, math.nan, math.inf], [2, 2, math.inf])
    assert rows(made.figure(""), "value") == [(1,), (None,), (math.inf,)]


def test_a_band_is_the_interval_of_its_estimates():
    numbers = np.arange(20.0)
    curve = Curve(np.array([5.0]), (median(numbers),))
    made = chart()
    made.panel().curve(curve, "median")
    low, high = curve.y[0].interval()
    assert low < 9 < high and rows(made.figure("")) == [("median", 5, 9, low, high)]


def test_ranges_go_from_the_least_to_the_largest_in_the_order_of_x():
    table = pl.DataFrame({"n": [4, 2, 4, 2, 4], "y": [7.0, 1.0, 8.0, 4.0, 90.0]})
    made = chart()
    made.panel().ranges(table, "n", "y", "mean")
    made[0].ranges(table, "n", "y", "median", middle=pl.Expr.median)
    means, medians = [(2, 2.5, 1, 4), (4, 35, 7, 90)], [(2, 2.5, 1, 4), (4, 8, 7, 90)]
    assert rows(made.figure("")) == [("mean", *row) for row in means] + [("median", *row) for row in medians]


@pytest.mark.parametrize("draw", ["curve", "band", "line"])
def test_labels_stand_at_the_end_in_a_legend_or_nowhere(draw):
    given = {"curve": (CURVE,), "band": ([1, 2], [0, 1], [1, 2], [2, 3]), "line": ([1, 2], [1, 2])}[draw]
    found = {}
    for key in ("end", "legend", ""):
        made = chart()
        panel = made.panel()
        getattr(panel, draw)(*given, "word", key=key)
        made.figure("")
        legend = panel.ax.get_legend()
        found[key] = (texts(panel.ax), legend and [text.get_text() for text in legend.get_texts()])
    assert found == {"end": (["word"], None), "legend": ([], ["word"]), "": ([], None)}


def test_the_label_of_a_curve_that_was_never_reached_stands_beside_its_triangle():
    made = chart()
    made.panel().band([1, 2], [1, 1], [math.inf] * 2, [math.inf] * 2, "never")
    made[0].band([1, 2], [1, 1], [math.nan] * 2, [1, 1], "not measured")
    (label,) = made.panels[0].ax.texts
    assert label.get_text() == "never" and label.xy == (2, 0.985)


def test_dots_have_a_legend_and_a_legend_that_was_placed_is_not_placed_again():
    made = chart()
    panel = made.panel()
    panel.dots([1], [1], "seeds")
    panel.legend(loc="lower left")
    placed = panel.ax.get_legend()
    made.figure("")
    assert panel.ax.get_legend() is placed
    panel.dots([2], [1], "more")
    made.figure("")
    assert len(panel.ax.get_legend().get_texts()) == 2


@pytest.mark.parametrize("reached", [True, False])
def test_the_source_is_hollow_in_the_colour_of_ours_at_the_places_that_were_measured(reached):
    made = chart()
    panel = made.panel()
    panel.curve(CURVE, "first")
    ours = exact_curve([1, 2, 4], [3.0, 5.0, 9.0 if reached else math.inf])
    panel.curve(ours, "second", published={1: 2.0, 4: 8.0, 64: 1.0})
    source = panel.ax.lines[-1]
    assert list(source.get_xdata()) == [1, 4] and source.get_markerfacecolor() == "none"
    assert to_hex(source.get_markeredgecolor()) == figures.PALETTE[1].lower()
    panel.source_points({3: 1.0}, figures.BLUE)
    assert rows(made.figure(""), "series", "x", "value")[-1] == ("source", 3, 1)


def test_a_reference_is_a_line_with_its_name_and_no_data():
    made = chart()
    panel = made.panel()
    panel.reference(0.5, "chance")
    panel.reference(3, "k", axis="x")
    assert texts(panel.ax) == ["chance", "k"] and len(made.figure("").data) == 0


def test_colours_follow_the_palette_unless_one_is_given():
    made = chart()
    panel = made.panel()
    for color in (None, figures.BLACK, None):
        panel.line([1, 2], [1, 2], color=color)
    assert [line.get_color() for line in panel.ax.lines] == [figures.PALETTE[0], figures.BLACK, figures.PALETTE[1]]


def test_panels_without_anything_are_not_shown():
    made = chart(rows=2, columns=2)
    made.panel().line([1], [1])
    made.panel().ax.table([["a cell"]], loc="center")
    made.panel(title="asked for, but empty")
    made.figure("")
    assert [panel.ax.get_visible() for panel in made] == [True, True, False, False]
    with pytest.raises(StopIteration):
        for _ in range(3):
            made.panel()


def test_axes_are_as_they_were_asked_for():
    made = chart(width=5.0, height=3.0, headline="above")
    panel = made.panel(x="n", y="t", title="one", log="x", base=2, xticks=(2, 8), yticks=(0, 1), ylim=(-1, 2))
    ax = panel.ax
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title("left")) == ("n", "t", "one") and panel.title == "one"
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "linear")
    assert ax.get_xticks().tolist() == [2, 8] and ax.get_yticks().tolist() == [0, 1] and ax.get_ylim() == (-1, 2)
    panel.axes(log="y")
    assert (ax.get_yscale(), ax.get_xlabel(), panel.title) == ("log", "n", "one"), "what was not asked for stays"
    drawing = made.drawing
    assert tuple(drawing.get_size_inches()) == (5, 3) and drawing.get_suptitle() == "above"
    assert "Source: somewhere" in texts(drawing)
    assert chart().drawing.get_suptitle() == "title" and chart()[0].ax is not None


def test_what_never_came_is_drawn_at_its_line_and_stays_infinite_in_the_data():
    made = chart()
    panel = made.panel(x="states", y="steps", log="xy")
    panel.never(80)
    panel.dots([2, 3], [40, math.inf], "languages", key="")
    figure = made.figure("")
    assert rows(figure, "value") == [(40,), (math.inf,)]
    assert list(panel.ax.lines[-1].get_ydata()) == [40, 80] and panel.ax.get_legend() is None
    named = [label.get_text() for label in panel.ax.yaxis.get_minorticklabels()]
    assert named == ["never"] and panel.ax.yaxis.get_major_formatter()(80, 0) == ""
    assert panel.ax.yaxis.get_major_formatter()(50, 0) == "50"


@pytest.mark.parametrize(("y", "marker"), [([1.0, math.nan], "o"), ([1.0, 2.0], "None")])
def test_a_line_of_one_point_is_seen(y, marker):
    panel = chart().panel()
    panel.line([1, 2], y, "iterates", key="legend")
    assert panel.ax.lines[0].get_marker() == marker


def test_one_key_for_all_panels_stands_outside_them():
    made = chart(rows=2, columns=2)
    for panel in made:
        panel.dots([1], [2], "star-free", color=figures.BLUE, key="", alpha=0.5)
    made.key({"star-free": figures.BLUE}, alpha=0.5)
    legends = [panel.ax.get_legend() for panel in made]
    assert [legend is not None for legend in legends] == [False, True, False, False]
    made.drawing.draw_without_rendering()
    assert legends[1].get_window_extent().x0 >= made[1].ax.get_window_extent().x1
    (handle,) = legends[1].legend_handles
    assert handle.get_alpha() == made[0].ax.lines[0].get_alpha() == 0.5
