"""The same laws for every handmade network: each registered construction, and one compiled network of each kind.

A new construction is tested by naming settings here; a new kind of network by one entry of `COMPILED`.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from safetensors import safe_open
from scipy.sparse import csr_array

from krogh.errors import KroghError
from krogh.networks.automata import compile_automaton
from krogh.networks.circuits import compile_circuit
from krogh.networks.counting import compile_counting
from krogh.networks.handmade import KINDS, Handmade, construct, load_network
from krogh.networks.machines.compiled import compile_machine
from krogh.networks.recurrence.decoders import make_decoder, make_recovery
from krogh.networks.recurrence.good_shift import random_good_shift
from krogh.networks.recurrence.neurons import contains
from krogh.networks.recurrence.pseudo_network import make_pseudo_network, random_target
from krogh.networks.recurrence.selector import selector
from krogh.programs.automata.regex import from_regex
from krogh.programs.circuits.generators import comparator
from krogh.programs.machines.library import load_machine
from krogh.registry import CONSTRUCTIONS

SETTINGS: dict[str, dict[str, Any]] = {
    "algebra/cyclic": {"p": 5},
    "algebra/group": {"group": "S_3"},
    "algebra/memoriser": {"group": "Z_4"},
    "algebra/parity": {"n": 5, "k": 3},
    "algebra/rotation": {"p": 7, "frequency": 2},
    "chains/induction-head": {"k": 2, "length": 7, "c": 10.0, "a": 2.5},
    "chains/minimal-bigram": {"k": 3, "length": 5},
    "chains/minimal-unigram": {"k": 3, "length": 5, "scale": 0.25},
    "chains/ngram-heads": {"n": 3, "k": 2, "length": 7, "c": 8.0},
    "parity/disjoint-polynet": {"n": 6, "k": 3, "support": (1, 2, 5)},
    "parity/monomial": {"n": 5, "support": (1, 3, 2)},
    "parity/one-neuron": {"n": 5, "support": (4, 0, 2)},
    "parity/one-step": {"n": 9, "support": (4, 0, 2, 7), "width": 400},
    "parity/over-sparse": {"n": 6, "support": (1, 3, 2, 4)},
    "parity/polynet": {"n": 5, "support": (1, 3, 2)},
    "parity/quadratic": {"n": 6, "support": (4, 0, 2, 5)},
    "parity/relu": {"n": 5, "support": (4, 0, 2)},
    "parity/under-sparse": {"n": 7, "support": (1, 3, 2, 4)},
    "qstr/exact-rnn": {"length": 4, "dimension": 2},
    "qstr/overfitting-rnn": {"samples": 4, "length": 3, "dimension": 2},
    "qstr/retrieval": {"length": 4, "dimension": 2, "link": "mean"},
    "qstr/storage-rnn": {"length": 4, "dimension": 2},
    "recurrence/counting": {"length": 6, "scale": 2.0, "eps_x": 0.5},
    "sparse/averaging": {"n": 5},
    "sparse/general": {"n": 5, "support": (3, 0), "gate": "xor"},
    "sparse/head": {"n": 5, "support": (3, 0)},
    "sparse/symmetric": {"n": 5, "support": (3, 0), "gate": "and"},
}
EVEN = from_regex("(0*10*1)*0*", name="even")
COMPILED = {
    "circuit": lambda: compile_circuit(comparator(2), width=30),
    "automaton": lambda: compile_automaton(EVEN, correction=True),
    "counting": lambda: compile_counting(EVEN, 4),
    "machine": lambda: compile_machine(load_machine("parity"), 5, input_length=3),
    "selector": lambda: selector(400),
    "good shift": lambda: random_good_shift(1500),
    "one-layer recovery": lambda: make_recovery(200, 4),
    "pseudo-network": lambda: make_pseudo_network(random_target(4, 3), 150, 4, 3, 0.3),
    "sequence decoder": lambda: make_decoder(150, 4, 3),
    "smooth neurons": lambda: contains(8, ["101"]),
}
UNCERTIFIED = {*SETTINGS, "selector", "good shift", "one-layer recovery", "pseudo-network"}
"""Networks of which a check is all that is known."""
ALL = [*SETTINGS, *COMPILED]
DECISIVE = {
    "qstr/retrieval": "a",
    "qstr/storage-rnn": "readout_W2",
    "sparse/general": "w",
    "sparse/head": "V",
    "counting": "out.W",
    "machine": "cls",
    "sequence decoder": "V",
}
"""The parameter that a fault is planted in, where the largest weight of all may be larger still and do no harm."""


@cache
def network(name: str) -> Handmade:
    return construct(name, **SETTINGS[name]) if name in SETTINGS else COMPILED[name]()


def some_inputs(made: Handmade) -> Any:
    if hasattr(made, "decisions"):
        return made.decisions()[0].inputs
    return next(made.oracle.cases(0))[0]


def entries(value: Any) -> np.ndarray:
    return value if isinstance(value, np.ndarray) else value.data


def equal(one: Any, other: Any) -> bool:
    """Arrays, or tuples of them."""
    parts = zip(one, other, strict=True) if isinstance(one, tuple) else [(one, other)]
    return all(np.array_equal(a, b) for a, b in parts)


def test_every_construction_and_every_kind_is_here():
    assert set(SETTINGS) == {name for name in CONSTRUCTIONS if not name.startswith("tiny")}
    assert {*COMPILED, "construction"} == set(KINDS)


@pytest.mark.parametrize("name", ALL)
def test_it_says_what_it_is_and_its_check_holds(name):
    made = network(name)
    assert made.name and any(letter.isdigit() for letter in made.statement)
    checked = made.check()
    assert checked.holds and checked.inputs > 0 and checked.largest_error >= 0
    assert checked.words.startswith("holds: ") and json.dumps(checked.numbers)
    assert list(checked.numbers)[:4] == ["holds", "inputs", "exhaustive", "largest_error"]


@pytest.mark.parametrize("name", ALL)
def test_the_size_is_that_of_the_parameters(name):
    made = network(name)
    total = sum(np.abs(entries(value)).sum() for value in made.parameters.values())
    assert made.size["one_norm"] == pytest.approx(total, rel=1e-12)
    count = sum(int(np.prod(value.shape)) for value in made.parameters.values())
    assert made.size["parameters"] == count or (name == "circuit" and made.size["parameters"] > count), "padded width"


@pytest.mark.parametrize("name", ALL)
def test_a_planted_fault_fails_the_check(name):
    """The largest weight of a parameter, doubled; in sparse matrices as in dense ones."""
    made = network(name)
    largest = max(made.parameters, key=lambda one: np.abs(entries(made.parameters[one])).max(initial=0.0))
    parameter = DECISIVE.get(name, largest)
    faulty = made.parameters[parameter].copy()
    values = entries(faulty)
    place = np.unravel_index(np.argmax(np.abs(values)), values.shape)
    values[place] = 2 * values[place]
    checked = made.with_parameters({**made.parameters, parameter: faulty}).check()
    assert not checked.holds and checked.words.startswith("FAILS: ") and checked.largest_error > 0
    assert made.check().holds, "the network itself is left as it is"


@pytest.mark.parametrize("name", ALL)
def test_a_file_gives_the_same_network_back(name, tmp_path):
    made = network(name)
    path = made.save(tmp_path / "w.safetensors")
    assert [file.name for file in tmp_path.iterdir()] == ["w.safetensors"]
    again = load_network(path)
    assert type(again) is type(made) and (again.name, again.statement) == (made.name, made.statement)
    assert again.size == made.size and list(again.parameters) == list(made.parameters)
    x = some_inputs(made)
    assert equal(again.run(x), made.run(x)) and again.check() == made.check()
    assert load_network(again.save(tmp_path / "again")).statement == made.statement


@pytest.mark.parametrize("name", ALL)
def test_a_certificate_names_its_bound_and_what_it_is_for(name):
    certificate = network(name).certificate()
    if certificate is None:
        assert name in UNCERTIFIED
    else:
        assert certificate.value > 0 and certificate.holds_for


@pytest.mark.parametrize("name", ALL)
def test_a_bad_file_is_one_clear_error(name, tmp_path):
    path = network(name).save(tmp_path / "w.safetensors")
    with safe_open(path, framework="numpy") as file:
        header, tensors = json.loads(file.metadata()["krogh"]), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118

    def refused(tensors: dict[str, Any], header: dict[str, Any], message: str) -> None:
        path.write_bytes(safetensors.numpy.save(tensors, {"krogh": json.dumps(header)}))
        with pytest.raises(KroghError, match=message) as caught:
            load_network(path)
        assert str(path) in str(caught.value)

    refused(tensors, {**header, "kind": "engine"}, r"holds no handmade network: its header says kind='engine' where")
    refused(tensors, {**header, "recipe": {}}, "is damaged: '[a-z]+'; write it again")
    dense = next(key for key, value in network(name).parameters.items() if not isinstance(value, csr_array))
    short = {**tensors, dense: np.zeros((*tensors[dense].shape, 2))}
    refused(short, header, rf"is damaged: parameter '{dense}' should have the shape .*; write it again")
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(KroghError, match="cannot be read as safetensors"):
        load_network(path)
    with pytest.raises(KroghError, match=r"no file '.*nowhere' with weights"):
        load_network(tmp_path / "nowhere")
    with pytest.raises(KroghError, match=r"weights are written to a file; got .*weights\.safetensors"):
        network(name).save(tmp_path)
