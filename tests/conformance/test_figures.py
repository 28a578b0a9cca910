"""The same laws for every figure of every experiment: keys, words, numbers in words, and none of it in dollar signs."""

from __future__ import annotations

import itertools
import re

import keys
import pytest
from matplotlib.text import Text

from krogh.lab import figures
from krogh.lab.alternative import LONGEST, alternative_text
from krogh.registry import EXPERIMENTS

NAMES = [name for name in EXPERIMENTS if EXPERIMENTS[name].__module__.startswith("krogh.")]


@pytest.fixture
def drawn(tables):
    def draw(name):
        with figures.style():
            return list(EXPERIMENTS[name]().figures(tables(name)))

    return draw


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_its_figures_explain_their_colours_and_say_their_numbers(name, drawn, tables):
    claims = EXPERIMENTS[name]().judge(tables(name))
    for place, figure in enumerate(drawn(name)):
        assert not keys.unexplained(figure.drawing), f"{figure.name}: a colour without a key"
        assert not keys.lone_marks(figure.drawing), f"{figure.name}: a legend's mark that reads as a data point"
        words = alternative_text(figure, [] if place else claims)
        assert re.search(r"\d", words) and 40 < len(words) < LONGEST + 60, f"{figure.name}: {words}"
        plain = [figure.title, figure.caption, words, *figure.data.columns, *_strings(figure.data)]
        assert not any("$" in text for text in plain), f"{figure.name}: what is read without a setter has no $"
        figures.set_mathematics(figure.drawing)
        figures.without_headline(figure.drawing)
        figure.drawing.draw_without_rendering()  # whatever was set can be drawn
        assert not figure.drawing.get_suptitle()
        left = [text.get_text() for text in figure.drawing.findobj(Text) if text.get_parse_math()]
        unset = [text for text in left if "$" not in text and re.search(r"[α-ωΓΔΘΛΦΨΩ]|\b[A-Za-z]_\w", text)]
        assert not unset, f"{figure.name}: mathematics that is not set"


def _strings(data):
    texts = [data[column].unique().drop_nulls() for column in data.columns if str(data[column].dtype) == "String"]
    return itertools.chain.from_iterable(texts)
