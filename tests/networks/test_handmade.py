"""Every construction is executed against an oracle that knows the truth by other means."""

from __future__ import annotations

import dataclasses
import itertools
import json
from fractions import Fraction
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
import safetensors
import safetensors.numpy

from krogh.errors import KroghError
from krogh.networks import parity
from krogh.networks.handmade import Construction, Constructor, construct, load_network
from krogh.networks.parity import oscillating_interpolant, quadrature
from krogh.registry import CONSTRUCTIONS, MODELS, TASKS
from krogh.theory import REQUIRED, predict
from krogh.theory.boolean import fourier as boolean

N = 9
DEGREES = range(1, 9)
WITHIN = 0.5 + 1e-9
"""What the subnetwork of an under-sparse start may miss the parity by."""


class Case(NamedTuple):
    """A construction, its settings, and the error allowed."""

    name: str
    settings: dict[str, Any]
    tolerance: float = 1e-9

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value}' for key, value in self.settings.items())})"


def scattered(k: int, n: int = N) -> tuple[int, ...]:
    """A support of k coordinates out of n that is neither sorted nor a prefix."""
    return tuple(int(i) for i in np.random.default_rng(k).permutation(n)[:k])


NEURONS = [
    {"activation": "zigzag"},
    {"activation": "zigzag", "outer": "clamp"},
    {"activation": "polynomial"},
    {"activation": "infinite-zigzag"},
    {"activation": "infinite-zigzag", "output_weight": False},
    {"activation": "sine"},
    {"activation": "sine", "scale": 2.0},
]
CASES = [
    *(Case("parity/one-neuron", {"n": N, "support": scattered(k), **neuron}) for k in DEGREES for neuron in NEURONS),
    # A shift serves every degree from k on; a wave also those below.
    *(
        Case("parity/one-neuron", {"n": N, "support": scattered(3), "activation": activation, "degree": degree})
        for activation, degree in [
            *itertools.product(["zigzag", "polynomial"], [4, 7]),
            *itertools.product(["infinite-zigzag", "sine"], [1, 2, 8]),
        ]
    ),
    Case("parity/one-neuron", {"n": N, "k": 4, "activation": "sine", "scale": 2.0, "degree": 7}),
    *(
        Case("parity/relu", {"n": N, "support": scattered(k), "output_bias": bias})
        for k in DEGREES
        for bias in (False, True)
    ),
    Case("parity/relu", {"n": N, "k": 4, "multiple": 2.0}),
    Case("parity/relu", {"n": 1, "k": 1}),
    Case("parity/relu", {"n": 12, "k": 12, "output_bias": True}),
    *(Case("parity/monomial", {"n": N, "support": scattered(k)}, 1e-6) for k in DEGREES),
    Case("parity/monomial", {"n": N, "k": 6, "spacing": 2.5}, 1e-6),
    Case("parity/monomial", {"n": 12, "k": 12}, 1e-6),
    *(Case("parity/polynet", {"n": N, "support": scattered(k)}) for k in DEGREES),
    *(
        Case("parity/disjoint-polynet", {"n": 2 * k, "k": k, "support": tuple(2 * i + i % 2 for i in range(k))})
        for k in DEGREES
    ),
    Case("parity/disjoint-polynet", {"n": 12, "k": 3}),
    Case("parity/disjoint-polynet", {"n": 5, "k": 1, "support": (4,)}),
    *(Case("parity/quadratic", {"n": N, "support": scattered(k)}) for k in (2, 4, 8)),
    *(Case("parity/over-sparse", {"n": N, "support": scattered(k), "offset": 5 / 8}) for k in (2, 4)),
    *(
        Case("parity/under-sparse", {"n": N, "support": scattered(k), "s": s}, WITHIN)
        for k, s in [(2, 0), (4, 2), (6, 4)]
    ),
]
ONE_OF_EACH = [
    Case("parity/one-neuron", {"n": 5, "support": (4, 0, 2), "activation": "zigzag"}),
    Case("parity/one-neuron", {"n": 5, "support": (4, 0, 2), "activation": "sine", "scale": 2.0}),
    Case("parity/relu", {"n": 5, "support": (4, 0, 2)}),
    Case("parity/relu", {"n": 5, "support": (1, 3), "output_bias": True}),
    Case("parity/monomial", {"n": 5, "support": (1, 3, 2)}, 1e-6),
    Case("parity/polynet", {"n": 5, "support": (1, 3, 2)}),
    Case("parity/disjoint-polynet", {"n": 6, "k": 3, "support": (1, 2, 5)}),
    Case("parity/quadratic", {"n": 6, "support": (1, 3, 2, 5)}),
    Case("parity/over-sparse", {"n": 5, "support": (1, 3), "offset": 0.5}),
    Case("parity/under-sparse", {"n": 6, "support": (1, 3, 2, 5)}, WITHIN),
]


def altered(given: Construction, name: str, index: tuple[int, ...], change: float) -> Construction:
    """The construction with one entry of one parameter changed."""
    array = given.parameters[name].copy()
    array[index] += change
    return dataclasses.replace(given, parameters={**given.parameters, name: array})


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_statement_holds_on_every_input(case):
    made = construct(case.name, **case.settings)
    checked = made.check()
    n = case.settings["n"]
    assert (checked.inputs, checked.exhaustive, checked.holds) == (2**n, True, True)
    assert checked.largest_error <= made.tolerance == case.tolerance
    x, support = boolean.cube(n), case.settings.get("support", np.asarray(made.task.support))
    expected = case.settings.get("multiple", 1.0) * np.prod(x[:, list(support)], axis=1)
    np.testing.assert_allclose(made.run(x), expected, rtol=0, atol=case.tolerance)
    assert made.model.obstacle(made.task) is None, "what is written down here is not impossible"


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
def test_beyond_the_cube_random_inputs_are_checked(case):
    support = tuple(8 * i for i in case.settings["support"])
    made = construct(case.name, **{**case.settings, "n": 48, "support": support})
    checked = made.check(seed=1)
    assert (checked.inputs, checked.exhaustive, checked.holds) == (2**16, False, True)
    name, array = next(iter(made.parameters.items()))
    assert not altered(made, name, (-1,) * array.ndim, 0.1).check().holds


def test_many_coordinates_are_checked_in_batches():
    oracle = parity.ParityTable(1000, (3, 999))
    batches = list(oracle.cases(seed=0))
    assert len(batches) > 1 and sum(len(x) for x, _ in batches) == 2**16
    assert abs(np.mean(np.concatenate([y for _, y in batches]))) < 0.02
    assert not np.array_equal(batches[0][0], next(oracle.cases(seed=1))[0])


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
def test_a_corrupted_weight_is_noticed(case):
    made = construct(case.name, **case.settings)
    for name, array in made.parameters.items():
        for index in np.ndindex(array.shape):
            assert not altered(made, name, index, 0.01).check().holds, f"{name}{list(index)}"


def test_an_undefined_output_does_not_hold():
    checked = altered(construct("parity/relu", n=5, k=2), "u", (0,), np.nan).check()
    assert np.isnan(checked.largest_error) and not checked.holds


@pytest.mark.parametrize("k", DEGREES)
def test_claim_5_as_printed_does_not_hold(k):
    made = construct("parity/relu", n=k + 1, k=k, variant="printed", multiple=2)
    assert not made.check().holds and made.width == k
    if k % 2 == 0:  # the lemma assumes an even k
        x = boolean.cube(k + 1)
        positive = np.all(x[:, :k] > 0, axis=1)
        np.testing.assert_allclose(made.run(x), np.where(positive, 6, -2 * np.prod(x[:, :k], axis=1)))


@pytest.mark.parametrize("k", DEGREES)
def test_sizes_are_those_the_theory_names(k):
    wide, narrow = (construct("parity/relu", n=N, k=k, output_bias=bias, multiple=2) for bias in (False, True))
    assert np.sum(np.abs(wide.parameters["u"])) == 8 * k**2
    assert np.max(np.abs(wide.parameters["u"])) == (8 * k if k > 1 else 6)
    for made, options in [
        (wide, {"output_bias": False}),
        (narrow, {}),
        (construct("parity/monomial", n=N, k=k), {"activation": "power"}),
        (construct("parity/one-neuron", n=N, k=k), {"activation": "oscillating"}),
    ]:
        assert made.size["width"] == predict("parity/minimum-width", k=k, **options)["sufficient"]
    product = construct("parity/polynet", n=N, k=k)
    assert product.size == {"width": k, "parameters": k * (N + 1), "one_norm": k, "largest_weight": 1}


@pytest.mark.parametrize("k", DEGREES)
def test_the_monomial_weights_match_every_power_exactly(k):
    nodes, weights = quadrature(k, Fraction(4))
    p = oscillating_interpolant(k)
    for s in range(-2 * k, 2 * k + 1):
        value = sum(a * s**j for j, a in enumerate(p))
        assert sum(u * (s + b) ** k for u, b in zip(weights, nodes, strict=True)) == value
    assert [sum(a * s**j for j, a in enumerate(p)) for s in range(k, -k - 1, -2)] == [(-1) ** j for j in range(k + 1)]


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
def test_saved_weights_come_back_as_the_same_network(case, tmp_path):
    made = construct(case.name, **case.settings)
    path = made.save(tmp_path / "weights.safetensors")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    with safetensors.safe_open(path, "np") as file:
        header = json.loads(file.metadata()["krogh"])
    assert header["name"] == case.name and header["statement"] == made.statement
    assert header["size"] == made.size
    told = header["recipe"]
    task, model = (
        registry[told[part].pop("kind")](**told[part]) for registry, part in ((TASKS, "task"), (MODELS, "model"))
    )
    again, loaded = load_network(path), safetensors.numpy.load_file(path)
    assert isinstance(again, Construction) and again.settings == made.settings and again.statement == made.statement
    for name, array in made.parameters.items():
        assert loaded[name].dtype == np.float64
        np.testing.assert_array_equal(loaded[name], array)
    x = boolean.cube(case.settings["n"])
    np.testing.assert_array_equal(again.run(x), made.run(x))
    described = dataclasses.replace(made, parameters=loaded, task=task, model=model)
    np.testing.assert_array_equal(described.run(x), made.run(x))


def test_the_file_decides_the_values_and_settings_that_were_text_are_kept(tmp_path):
    made = construct("parity/relu", n="5", support="4,0,2")
    assert made.settings == {"n": 5, "support": (4, 0, 2)}
    path = altered(made, "u", (0,), 0.5).save(tmp_path / "w")
    assert (
        load_network(path).parameters["u"][0] == made.parameters["u"][0] + 0.5 and not load_network(path).check().holds
    )


def test_weights_of_no_registered_construction_are_written_but_not_read(tmp_path):
    made = dataclasses.replace(parity.polynet(4, 2), settings=None)
    with pytest.raises(KroghError, match=r"'parity/polynet' was written by no registered construction"):
        load_network(made.save(tmp_path / "w"))


def test_a_file_that_cannot_be_written_is_one_clear_error(tmp_path):
    target = tmp_path / "missing" / "weights.safetensors"
    with pytest.raises(KroghError, match=r"cannot be written to .*missing.*: no folder"):
        construct("parity/polynet", n=4, k=2).save(target)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
def test_settings_may_be_text(case):
    made = construct(case.name, **case.settings)
    texts = {key: ",".join(map(str, v)) if isinstance(v, tuple) else str(v) for key, v in case.settings.items()}
    again = construct(case.name, **texts)
    assert again.statement == made.statement and again.size == made.size


def test_every_construction_is_registered_says_what_it_is_and_is_executed():
    # What one step leaves holds the parity up to irrelevant weights, and has tests of its own.
    names = [name for name in CONSTRUCTIONS if name.startswith("parity/") and name != "parity/one-step"]
    assert {case.name for case in CASES} == {case.name for case in ONE_OF_EACH} == set(names)
    for name in CONSTRUCTIONS:
        thing = CONSTRUCTIONS[name]
        assert isinstance(thing, Constructor) and thing.name == name
        assert thing.summary.endswith(".") and any(word in thing.source for word in ("dissertation", "qSTR", "RNNs"))
    for name in names:
        assert CONSTRUCTIONS[name].parameters["n"] == (int, REQUIRED)


def test_float64_is_used_and_left_alone():
    made = parity.polynet(4, 2)
    assert made.run(np.ones((3, 4))).dtype == np.float64
    assert jnp.zeros(1).dtype == jnp.float32
    assert made.statement == "∏_i (w_i·x + b_i) = chi_S(x) for every x in {-1,+1}^4, S = {0, 1}"
    with pytest.raises(ValueError, match="read-only"):
        made.parameters["w"][0, 0] = 2.0


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("parity/relu", {"n": 3, "k": 4}, "needs n >= k coordinates; got n=3, k=4"),
        ("parity/relu", {"n": 3}, "needs k or a support"),
        ("parity/relu", {"n": 3, "k": 0}, "k must be an integer at least 1; got k=0"),
        ("parity/relu", {"n": 3, "support": ()}, "k must be an integer at least 1; got k=0"),
        ("parity/relu", {"n": 5, "support": (1, 1)}, r"must not repeat an index; got \[1, 1\]"),
        ("parity/polynet", {"n": 5, "support": (1, 5)}, "integer between 0 and 4; got .*=5"),
        ("parity/polynet", {"n": 5, "k": 3, "support": (1, 2)}, r"must have k=3 indices; got \[1, 2\]"),
        ("parity/disjoint-polynet", {"n": 10, "k": 3}, r"k must divide n .*; got n=10, k=3 \(try n=9\)"),
        ("parity/disjoint-polynet", {"n": 6, "k": 2, "support": (0, 1)}, "must hit each block once"),
        ("parity/disjoint-polynet", {"n": 6}, "construction 'parity/disjoint-polynet' needs k; given n=6"),
        ("parity/one-neuron", {"n": 5, "k": 3, "activation": "cosine"}, "activation must be zigzag"),
        (
            "parity/one-neuron",
            {"n": 5, "k": 3, "activation": "zigzag", "degree": 2},
            "degree must be at least",
        ),
        ("parity/one-neuron", {"n": 5, "k": 3, "activation": "zigzag", "scale": 2.0}, "scale belongs to"),
        ("parity/one-neuron", {"n": 5, "k": 3, "scale": 0.0}, "scale must be a number greater than 0"),
        ("parity/relu", {"n": 5, "k": 3, "variant": "mended"}, r"variant must be printed\|repaired"),
        ("parity/relu", {"n": 5, "k": 3, "variant": "printed", "output_bias": True}, "prints no network"),
        ("parity/relu", {"n": 5, "k": 3, "multiple": 0}, "multiple must be a finite number other than 0"),
        ("parity/monomial", {"n": 5, "k": 3, "spacing": -1}, "spacing must be a number greater than 0"),
        ("parity/monomial", {"n": 5, "k": 3, "spacings": 1}, "did you mean 'spacing'"),
        ("parity/reluu", {"n": 5, "k": 3}, "unknown construction 'parity/reluu'; did you mean 'parity/relu'"),
    ],
)
def test_bad_settings_get_one_clear_error(name, settings, message):
    with pytest.raises(KroghError, match=message):
        construct(name, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": "5", "k": 2}, "n must be an integer"),
        ({"n": 5, "k": 2.0}, "k must be an integer"),
        ({"n": 5, "support": 3}, "support must be a list of coordinates in 0..4; got support=3"),
        ({"n": 5, "support": "1,2"}, "support must be a list"),
        ({"n": 5, "support": (0.5, 1)}, "must be an integer between 0 and 4"),
        ({"n": 5, "k": 2, "multiple": "2"}, "multiple must be a finite number"),
        ({"n": 5, "k": 2, "variant": "mended"}, "variant must be 'printed' or 'repaired'"),
    ],
)
def test_direct_calls_are_checked_too(settings, message):
    with pytest.raises(KroghError, match=message):
        parity.relu(**settings)


def test_weights_of_another_shape_and_inputs_of_another_length_are_refused():
    made = parity.polynet(4, 2)
    with pytest.raises(KroghError, match=r"must give the model's parameters .*'b': \(2,\).*; got .*'b': \(3,\)"):
        dataclasses.replace(made, parameters={**made.parameters, "b": np.zeros(3)})
    for shape in [(4,), (2, 5), (1, 2, 4)]:
        with pytest.raises(KroghError, match=r"have the shape \(batch, 4\); got"):
            made.run(np.ones(shape))


def test_the_quadratic_parity_of_four_is_the_sources():
    """W_2 = (1, 1), b_2 = -4, u = 1/8, c = -1 (section B.3.7)."""
    made = construct("parity/quadratic", n=4, k=4).parameters
    np.testing.assert_array_equal(made["W"], [[1, 1, 0, 0], [0, 0, 1, 1]])
    assert not made["b"].any()
    assert made["W2"].tolist() == [[1, 1]] and made["b2"].tolist() == [-4]
    assert made["u"].tolist() == [1 / 8] and made["c"] == -1


@pytest.mark.parametrize("k", [1, 3, 6])
def test_pairs_of_pairs_need_a_power_of_two(k):
    with pytest.raises(KroghError, match=f"k = 2, 4, 8, ...; got k={k}"):
        construct("parity/quadratic", n=9, k=k)


def test_the_one_step_features_hold_the_parity_up_to_the_irrelevant_weights():
    """Without these the output is 2 chi_S exactly; with them it is off by no more than they can add."""
    made = construct("parity/one-step", n=11, support=(1, 4, 5, 9), width=600)
    x, relevant = boolean.cube(11), np.isin(np.arange(11), (1, 4, 5, 9))
    W, b, u = (made.parameters[name] for name in ("W", "b", "u"))
    np.testing.assert_allclose(np.abs(W[:, relevant]), 1 / 8, rtol=1e-12)
    np.testing.assert_allclose(np.abs(W[:, ~relevant]), 3 / (8 * 7), rtol=1e-12)
    chi = np.prod(x[:, relevant], axis=1)
    ideal = np.maximum(x[:, relevant] @ W[:, relevant].T + b, 0.0) @ u
    np.testing.assert_allclose(ideal, 2 * chi, atol=1e-9)
    room = np.abs(x[:, ~relevant] @ W[:, ~relevant].T) @ np.abs(u)
    assert np.all(np.abs(made.run(x) - 2 * chi) <= room + 1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 10, "k": 4}, "n.*odd"),
        ({"n": 11, "k": 3}, "k.*even"),
        ({"n": 11, "k": 2}, "4 ≤ k < n; got n=11, k=2"),
        ({"n": 19, "k": 4}, "n=17; got n=19"),
        ({"n": 11, "k": 4, "width": 7}, "width=7"),
        ({"n": 11, "k": 4, "width": 8}, "no good neuron.*width=8"),
    ],
)
def test_what_the_one_step_network_cannot_be_is_refused(settings, message):
    with pytest.raises(KroghError, match=message):
        construct("parity/one-step", **settings)
