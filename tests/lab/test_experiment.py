"""Settings given as text or as Python values, scales, and how experiments are filed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
import pytest
from matplotlib.text import Text

from krogh.errors import KroghError
from krogh.lab import Experiment, experiment, figures, setting
from krogh.lab.curves import times_of
from krogh.lab.settings import settings_help
from krogh.registry import EXPERIMENTS


@dataclass(frozen=True)
class Knobs:
    count: int = setting(3, "how many")
    rate: float = setting(0.5, "how fast")
    name: str = setting("ii", "which one")
    sizes: tuple[int, ...] = setting((1, 2), "how large")
    words: tuple[str, ...] = setting(("a",), "in words")
    mode: Literal["paper", "small"] = setting("paper", "how")
    loud: bool = setting(False, "whether")
    limit: int | None = setting(None, "at most")


class Knobbed(Experiment[Knobs]):
    """Nothing but settings."""

    name = "knobbed"
    title = question = source = "?"
    scales = {"smoke": Knobs(count=1), "paper": Knobs()}

    def claims(self, tables, say):
        pass

    def figures(self, tables):
        return []


@pytest.fixture
def unfiled():
    EXPERIMENTS.load()
    filed = dict(EXPERIMENTS._things)
    yield
    EXPERIMENTS._things.clear()
    EXPERIMENTS._things.update(filed)


def test_a_scale_has_its_own_settings():
    assert Knobbed().settings("smoke") == Knobs(count=1)
    assert Knobbed().settings("paper", {}) == Knobs()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"count": "7"}, {"count": 7}),
        ({"count": " 7 "}, {"count": 7}),
        ({"count": np.int64(7)}, {"count": 7}),
        ({"rate": "1e-3"}, {"rate": 0.001}),
        ({"rate": 2}, {"rate": 2.0}),
        ({"name": "12"}, {"name": "12"}),
        ({"sizes": "8,10,12"}, {"sizes": (8, 10, 12)}),
        ({"sizes": "8"}, {"sizes": (8,)}),
        ({"sizes": [8, 10]}, {"sizes": (8, 10)}),
        ({"words": "relu-10,sine"}, {"words": ("relu-10", "sine")}),
        ({"mode": "small"}, {"mode": "small"}),
        ({"loud": "yes"}, {"loud": True}),
        ({"loud": "False"}, {"loud": False}),
        ({"limit": "4"}, {"limit": 4}),
        ({"limit": "none"}, {"limit": None}),
        ({"count": "2", "rate": "0.25"}, {"count": 2, "rate": 0.25}),
    ],
)
def test_settings_are_converted_to_their_types(given, expected):
    changed = Knobbed().settings("paper", given)
    assert changed == Knobs(**expected)
    for key, value in expected.items():
        assert type(getattr(changed, key)) is type(value)


@pytest.mark.parametrize(
    "given",
    [
        {"count": "many"},
        {"count": "1.5"},
        {"count": ""},
        {"count": 1.5},
        {"count": True},
        {"count": None},
        {"rate": "fast"},
        {"rate": "nan"},
        {"rate": "inf"},
        {"rate": None},
        {"name": 3},
        {"sizes": "8,,10"},
        {"sizes": ""},
        {"sizes": "8;10"},
        {"sizes": 8},
        {"mode": "large"},
        {"loud": "perhaps"},
        {"limit": "few"},
    ],
)
def test_a_wrong_type_is_refused_with_what_is_allowed(given):
    ((key, value),) = given.items()
    with pytest.raises(KroghError) as caught:
        Knobbed().settings("paper", given)
    message = str(caught.value)
    assert f"experiment 'knobbed': {key} must be " in message
    assert f"got {key}={value!r}" in message and "count: int = 3" in message


def test_an_unknown_setting_names_the_nearest():
    with pytest.raises(KroghError, match=r"unknown setting 'cuont'; did you mean 'count'\? \(known: .*words\)"):
        Knobbed().settings("smoke", {"cuont": 1})


@pytest.mark.parametrize(("scale", "near"), [("laptop", ""), ("smok", "did you mean 'smoke'"), ("", "")])
def test_a_scale_that_is_missing(scale, near):
    with pytest.raises(KroghError, match=rf"unknown scale '{scale}'.*{near}.*\(known: paper, smoke\)"):
        Knobbed().settings(scale)


def test_help_of_every_setting():
    assert settings_help(Knobs())["sizes"] == ((1, 2), "how large")
    assert list(settings_help(Knobs())) == list(Knobs.__dataclass_fields__)


def test_a_chart_has_the_source_of_its_experiment():
    with figures.style():
        charts = [Knobbed().chart("name", "title", **options) for options in ({}, {"source": "elsewhere"})]
    words = [{text.get_text() for text in chart.drawing.findobj(Text)} for chart in charts]
    assert any("?" in text for text in words[0]) and any("elsewhere" in text for text in words[1])


def test_filing_an_experiment(unfiled):
    filed = experiment("test/knobbed")(type("Filed", (Knobbed,), {}))
    assert EXPERIMENTS["test/knobbed"] is filed and filed.name == "test/knobbed"


def test_a_name_is_not_given_twice(unfiled):
    first = experiment("test/knobbed")(type("First", (Knobbed,), {}))
    with pytest.raises(KroghError, match=r"the experiment 'test/knobbed' is already registered by .*First"):
        experiment("test/knobbed")(type("Second", (Knobbed,), {}))
    assert EXPERIMENTS["test/knobbed"] is first


def test_a_module_may_be_imported_twice(unfiled):
    experiment("test/knobbed")(type("Same", (Knobbed,), {}))
    again = type("Same", (Knobbed,), {})
    experiment("test/knobbed")(again)
    assert EXPERIMENTS["test/knobbed"] is again


def test_an_experiment_must_say_what_it_is(unfiled):
    class Silent(Experiment[Knobs]):
        title = "t"

    with pytest.raises(KroghError, match="'test/silent' must say its question, source, scales"):
        experiment("test/silent")(Silent)
    assert "test/silent" not in EXPERIMENTS


def test_never_converged_is_censored_not_missing():
    table = pl.DataFrame({"convergence_time": [30, None, 10], "k": [2, 2, 3]})
    assert times_of(table).tolist() == [30.0, float("inf"), 10.0]
    assert times_of(table.filter(k=4)).tolist() == []
