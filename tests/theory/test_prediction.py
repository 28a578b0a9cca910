"""What a prediction is, and asking for one by name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from krogh.errors import KroghError, require_integer
from krogh.registry import PREDICTIONS
from krogh.signature import convert, converted
from krogh.theory import REQUIRED, Prediction, predict
from krogh.theory.boolean.search import random_search
from krogh.theory.prediction import _plain

SOURCES = ("dissertation", "qSTR paper", "SM paper", "Can SGD learn RNNs", "Learning in RNNs")


@pytest.mark.parametrize("name", list(PREDICTIONS))
def test_every_prediction_says_what_it_is_and_gives_json(name, prediction_settings):
    thing = PREDICTIONS[name]
    assert isinstance(thing, Prediction) and thing.name == name
    assert thing.summary.endswith(".") and thing.source.startswith(SOURCES) and thing.constants
    given = prediction_settings[name]
    numbers = predict(name, **given)
    assert json.loads(json.dumps(numbers, allow_nan=False)) == numbers
    texts = {key: ",".join(map(str, v)) if isinstance(v, tuple) else str(v) for key, v in given.items()}
    as_text = predict(name, **texts)
    assert as_text == numbers, "settings given as text must mean the same"


def test_every_prediction_is_registered_under_its_own_name(prediction_settings):
    assert set(prediction_settings) == set(PREDICTIONS)
    assert all(thing.name == name for name, thing in PREDICTIONS.items())


@pytest.mark.parametrize(
    "name", [n for n in PREDICTIONS if "variant" in PREDICTIONS[n].parameters or n == "parity/plateau"]
)
def test_variants_are_checked_in_direct_calls_too(name, prediction_settings):
    with pytest.raises(KroghError, match="variant must be 'printed' or 'repaired'; got variant='mended'"):
        PREDICTIONS[name](**prediction_settings[name], variant="mended")


def test_parameters_carry_types_and_defaults():
    parameters = PREDICTIONS["parity/support-recovery"].parameters
    assert parameters["n"] == (int, REQUIRED)
    assert parameters["failure"] == (float, 0.05)
    assert parameters["variant"] == (Literal["printed", "repaired"], "repaired")


def test_a_prediction_is_called_like_its_function():
    assert random_search(30, 3)["subsets"] == 4060


@dataclass(frozen=True)
class Box:
    width: int
    height: int = 2

    def __post_init__(self):
        require_integer("width", self.width, 1)


@dataclass(frozen=True)
class Crate:
    box: Box
    depth: float = 0.5


def volume(count: int, crate: Crate, label: str = "none") -> dict[str, Any]:
    """How much crates hold."""
    return {"volume": count * crate.box.width * crate.box.height * crate.depth, "label": label}


VOLUME = Prediction("demo/volume", "nowhere", "all explicit", volume)


def test_the_fields_of_a_dataclass_are_settings():
    assert list(VOLUME.parameters) == ["count", "width", "height", "depth", "label"]
    assert VOLUME.parameters["width"] == (int, REQUIRED) and VOLUME.parameters["depth"] == (float, 0.5)
    assert VOLUME(3, 4)["volume"] == 12 and VOLUME(3, 4, depth=2.0, label="big") == {"volume": 48.0, "label": "big"}
    assert volume(3, Crate(Box(4), 2.0))["volume"] == VOLUME(count=3, width=4, depth=2.0)["volume"]
    texts = converted("demo", VOLUME.parameters, {"count": "3", "width": "4", "depth": "2"})
    assert VOLUME(**texts)["volume"] == 48.0


def test_what_is_no_field_is_refused():
    with pytest.raises(KroghError, match="width must be an integer at least 1; got width=0"):
        VOLUME(3, 0)
    with pytest.raises(TypeError, match="missing a required argument: 'width'"):
        VOLUME(3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'crate'"):
        VOLUME(3, 4, crate=Crate(Box(4)))
    with pytest.raises(
        KroghError, match="demo needs width; given count=3; it takes count: int, width: int, height: int"
    ):
        converted("demo", VOLUME.parameters, {"count": 3})


def test_infinite_numbers_become_none():
    assert predict("parity/noise-attenuation", noise=0.5)["sample_multiplier"] is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 30, "k": 3, "copis": 2}, "unknown setting 'copis'; did you mean 'copies'"),
        ({"n": 30}, "needs k; given n=30; it takes n: int, k: int, copies: int = 1"),
        ({}, "needs n, k; given nothing"),
        ({"n": "thirty", "k": 3}, "n must be int; got n='thirty'"),
        ({"n": 30.5, "k": 3}, "n must be int; got n=30.5"),
        ({"n": True, "k": 3}, "n must be int; got n=True"),
        ({"n": 3, "k": 30}, "needs n >= k coordinates; got n=3, k=30"),
    ],
)
def test_bad_settings_get_one_clear_error(settings, message):
    with pytest.raises(KroghError, match=message):
        predict("parity/random-search", **settings)


def test_an_unknown_prediction_names_the_nearest():
    with pytest.raises(KroghError, match="unknown prediction 'parity/forier-gap'; did you mean 'parity/fourier-gap'"):
        predict("parity/forier-gap", n=15, k=4)


@pytest.mark.parametrize("setting", [{"variant": "exact"}, {"noise": "much"}, {"noise": float("nan")}])
def test_literals_and_floats_are_checked(setting):
    (key,) = setting
    with pytest.raises(KroghError, match=f"{key} must be"):
        predict("parity/statistical-limit", n=30, k=3, **setting)


def test_direct_calls_refuse_text_for_numbers():
    with pytest.raises(KroghError, match="n must be an integer"):
        random_search(n="30", k=3)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("true", bool, True),
        ("0", bool, False),
        (False, bool, False),
        (np.int64(7), int, 7),
        (np.float32(0.5), float, 0.5),
        ("1,2,-0.5", tuple[float, ...], (1.0, 2.0, -0.5)),
        ([1, 2], tuple[float, ...], (1.0, 2.0)),
        ("none", float | None, None),
        ("0.5", float | None, 0.5),
        ("2", Literal[1, 2], 2),
        ("word", str, "word"),
    ],
)
def test_conversion(value, kind, expected):
    converted = convert(value, kind)
    assert converted == expected and type(converted) is type(expected)


@pytest.mark.parametrize(
    ("value", "kind"), [("maybe", bool), (3, str), (1.0, int), ("inf", float), ("a,b", tuple[int])]
)
def test_conversion_refuses(value, kind):
    with pytest.raises((ValueError, TypeError)):
        convert(value, kind)


def test_plain_results():
    found = _plain({"a": np.float64(1.5), "b": np.arange(2), "c": (np.inf, 1), "d": np.int64(3), "e": True})
    assert found == {"a": 1.5, "b": [0, 1], "c": [None, 1], "d": 3, "e": True}
    assert type(found["a"]) is float and type(found["d"]) is int
