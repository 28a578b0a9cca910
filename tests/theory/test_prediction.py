"""What a prediction is, and asking for one by name."""

from __future__ import annotations

import json
from typing import Literal

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.registry import PREDICTIONS
from krogh.signature import convert
from krogh.theory import REQUIRED, Prediction, predict
from krogh.theory import predictions as public
from krogh.theory.prediction import _plain

SETTINGS = {
    "algebra/finite-lambda": {"lam": 1e-5, "group": "S_3"},
    "algebra/max-margin": {"group": "S_3"},
    "algebra/memoriser-margin": {"group": "Z_11"},
    "algebra/sign-condition": {"group": "S_3"},
    "algebra/weighted-margin": {"group": "S_3", "masses": (0.5, 0.5)},
    "approximation/circuits": {"inputs": 6, "depth": 5, "width": 6, "size": 25, "fan_out": 2},
    "approximation/corrected-margin": {
        "lam": 2.449,
        "sigma_zeta": 0.3333,
        "kappa_xi": 6.245,
        "kappa_theta": 2.65,
        "mu": 2.0,
        "mu_0": 6.5,
        "radius": 0.01,
    },
    "approximation/feedforward-vc": {"parameters": 2437, "layers": 17},
    "approximation/linear-time": {"steps": 65536},
    "approximation/machines": {"states": 9, "symbols": 3, "steps": 16},
    "approximation/margin-generalisation": {"one_norm": 10.0, "parameters": 100, "margins": (0.5, 0.25)},
    "approximation/norm-product": {"norms": (2.0, 1.5), "repeats": 3},
    "approximation/rademacher": {"samples": 1000, "one_norm": 10.0, "margin": 0.5, "parameters": 100},
    "approximation/sample-size": {"epsilon": 0.1, "one_norm": 269.0, "margin": 2.7e-3, "parameters": 2437},
    "approximation/surrogate-risk": {"epsilon": 0.01, "samples": 1000},
    "approximation/toy-chain": {"depth": 4},
    "approximation/transformer-vc": {"width": 96, "steps": 65536},
    "attention/depth-capacity": {"length": 100, "samples": 1000, "dimension": 64, "depth": 2, "scale": 0.1},
    "attention/generalisation": {"length": 100, "samples": 1000, "dimension": 64},
    "attention/head-capacity": {"length": 100, "samples": 1000, "dimension": 64, "scale": 0.1},
    "attention/influence": {"length": 100, "s": 3},
    "attention/information-floor": {"length": 300, "s": 3},
    "attention/linear-covering": {"scale": 0.1, "points": 1000},
    "attention/matrix-covering": {"scale": 0.1, "points": 1000, "rows": 64},
    "attention/maurey-covering": {"scale": 0.1, "dimension": 64},
    "attention/multi-head-capacity": {"length": 100, "samples": 1000, "dimension": 64, "heads": 16, "scale": 0.1},
    "attention/norms": {"length": 100, "s": 3},
    "attention/pseudo-dimension": {"length": 100},
    "attention/sample-size": {"target": 0.1, "length": 100, "dimension": 64},
    "attention/statistical-queries": {"length": 15, "s": 3},
    "parity/degree-barrier": {"k": 4, "layers": 3},
    "parity/fourier-gap": {"n": 15, "k": 4},
    "parity/initial-luck": {"n": 30, "k": 3},
    "parity/kernel-floor": {"n": 10, "k": 3, "dimension": 20, "radius": 1.0},
    "parity/majority-spectrum": {"n": 11, "k": 3},
    "parity/minimum-width": {"k": 3},
    "parity/noise-attenuation": {"noise": 0.25},
    "parity/one-step-theorem": {"n": 15, "k": 4},
    "parity/plateau": {"block_size": 30},
    "parity/polynet-error": {"block_size": 15, "k": 3, "relevant": 4.5},
    "parity/polynet-flow": {"time": 0.25},
    "parity/polynet-sgd": {"block_size": 2, "k": 2},
    "parity/random-search": {"n": 30, "k": 3},
    "parity/random-walk": {"drift": 0.01, "noise": 0.1, "steps": 100},
    "parity/sq-limit": {"n": 30, "k": 3, "tolerance": 0.1},
    "parity/statistical-limit": {"n": 30, "k": 3},
    "parity/support-recovery": {"n": 15, "k": 4},
    "qstr/approximation-width": {"dimension": 2, "lipschitz": 1.0, "radius": 1.0, "error": 0.1},
    "qstr/covering": {
        "scale": 0.5,
        "heads": 2,
        "features": 7,
        "hidden": 5,
        "prompt_radius": 3.0,
        "output_norm": 0.5,
        "hidden_norm": 2.0,
        "attention_norm": 1.5,
    },
    "qstr/error-propagation": {"length": 20, "lipschitz": 0.05},
    "qstr/feedforward-floor": {"samples": 12, "length": 10, "dimension": 3},
    "qstr/gate-width": {"token_bound": 1.0, "error": 0.1},
    "qstr/head-floor": {"sparsity": 4, "dimension": 8, "heads": 2},
    "qstr/norm-exponent": {"length": 20, "depth": 2, "growth": 0.5},
    "qstr/packing": {"dimension": 3, "scale": 0.5},
    "qstr/rademacher": {
        "samples": 400,
        "length": 10,
        "heads": 2,
        "features": 7,
        "hidden": 5,
        "prompt_radius": 3.0,
        "output_norm": 0.5,
        "hidden_norm": 2.0,
        "attention_norm": 1.5,
    },
    "qstr/recurrent-covering": {"parameters": 10, "norm": 2.0, "length": 20, "scale": 0.1},
    "qstr/recurrent-risk": {
        "samples": 400,
        "length": 10,
        "dimension": 3,
        "sparsity": 2,
        "output_norm": 2.0,
        "hidden_norm": 1.0,
        "link_error": 0.1,
        "parameters": 50,
        "norm": 3.0,
    },
    "qstr/recurrent-width": {"length": 20, "width": 10, "state_norm": 2.0, "lipschitz": 1.0},
    "qstr/regime": {"link_width": 1, "dimension": 30, "sparsity": 2},
    "qstr/retrieval-scale": {
        "length": 20,
        "dimension": 6,
        "sparsity": 3,
        "code_dimension": 60,
        "token_radius": 4.5,
        "output_norm": 2.0,
        "hidden_norm": 1.0,
        "tolerance": 0.0001,
    },
    "qstr/token-radius": {"samples": 5, "length": 8, "dimension": 3},
    "qstr/transformer-risk": {
        "length": 50,
        "dimension": 6,
        "sparsity": 2,
        "link_width": 8,
        "output_norm": 2.0,
        "hidden_norm": 1.5,
        "samples": 400,
    },
    "qstr/transformer-samples": {
        "target": 0.5,
        "length": 50,
        "dimension": 6,
        "sparsity": 2,
        "link_width": 8,
        "output_norm": 2.0,
        "hidden_norm": 1.5,
    },
    "qstr/variance": {"mean": (1.0, 0.0), "variances": (1.0, 2.0)},
}


@pytest.mark.parametrize("name", list(PREDICTIONS))
def test_every_prediction_says_what_it_is_and_gives_json(name):
    thing = PREDICTIONS[name]
    assert isinstance(thing, Prediction) and thing.name == name
    assert (
        thing.summary.endswith(".")
        and thing.source.startswith(("dissertation", "qSTR paper", "SM paper"))
        and thing.constants
    )
    given = SETTINGS[name]
    numbers = predict(name, **given)
    assert json.loads(json.dumps(numbers, allow_nan=False)) == numbers
    texts = {key: ",".join(map(str, v)) if isinstance(v, tuple) else str(v) for key, v in given.items()}
    as_text = predict(name, **texts)
    assert as_text == numbers, "settings given as text must mean the same"


def test_every_public_prediction_is_registered_under_one_name():
    names = [getattr(public, name).name for name in public.__all__]
    assert len(set(names)) == len(names)
    assert set(names) == set(SETTINGS) == set(PREDICTIONS)


@pytest.mark.parametrize(
    "name", [n for n in SETTINGS if "variant" in PREDICTIONS[n].parameters or n == "parity/plateau"]
)
def test_variants_are_checked_in_direct_calls_too(name):
    with pytest.raises(KroghError, match="variant must be 'printed' or 'repaired'; got variant='mended'"):
        PREDICTIONS[name](**SETTINGS[name], variant="mended")


def test_parameters_carry_types_and_defaults():
    parameters = PREDICTIONS["parity/support-recovery"].parameters
    assert parameters["n"] == (int, REQUIRED)
    assert parameters["failure"] == (float, 0.05)
    assert parameters["variant"] == (Literal["printed", "repaired"], "repaired")


def test_a_prediction_is_called_like_its_function():
    assert public.random_search(30, 3)["subsets"] == 4060


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
        public.random_search(n="30", k=3)


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
