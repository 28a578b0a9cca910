"""Sparse functions end to end: attention and ReLUs compute every table exactly, on every input."""

from __future__ import annotations

import dataclasses
import itertools

import jax
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.handmade import Constructor, construct
from krogh.networks.sparse_functions import averaging, general, norms, symmetric
from krogh.registry import CONSTRUCTIONS
from krogh.theory import REQUIRED
from krogh.theory.boolean import fourier as boolean

SINGLE = ("det_single", "train_single", "bag_scalar")
SEVERAL = ("det_multi", "train_multi", "bag_vector")
N = 8
SHARED = {
    "det_multi": {"heads": 4},
    "train_multi": {"heads": 4, "dimension": N + 3},
    "train_single": {"dimension": N + 3},
}
"""Settings that give the heads one shape for every s, so that little is compiled."""

NAMES = ("sparse/averaging", "sparse/general", "sparse/head", "sparse/symmetric")


def truth(n: int, support, table) -> np.ndarray:
    """The table looked up by loops over the bits of each row of the cube."""
    values = []
    for row in boolean.cube(n):
        index = 0
        for place, i in enumerate(support):
            index += (1 if row[i] < 0 else 0) << place
        values.append(table[index])
    return np.array(values, np.float64)


def refilled(made, values):
    """The construction with other values memorised: only w and the oracle change."""
    w = np.concatenate([values, -values])
    oracle = dataclasses.replace(made.oracle, values=values)
    return dataclasses.replace(made, parameters={**made.parameters, "w": w}, oracle=oracle)


@pytest.mark.slow
@pytest.mark.parametrize("head", SEVERAL)
def test_all_sixteen_gates_of_two_bits(head):
    support, x, single = (5, 2), boolean.cube(N), SINGLE[SEVERAL.index(head)]
    for table in itertools.product((0.0, 1.0), repeat=4):
        made = general(N, support=support, table=table, head=head, **SHARED.get(head, {}))
        expected = truth(N, support, 2 * np.array(table) - 1)
        np.testing.assert_allclose(made.run(x), expected, rtol=0, atol=1e-10)
        if table[1] == table[2]:  # symmetric
            values = (table[0], table[1], table[3])
            made = symmetric(N, support=support, values=values, head=single, **SHARED.get(single, {}))
            np.testing.assert_allclose(made.run(x), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("s", [1, 2, 3, 4])
@pytest.mark.parametrize("head", SEVERAL)
def test_twenty_random_tables(head, s):
    random = np.random.default_rng(s)
    support = tuple(int(i) for i in random.permutation(N)[:s])
    table = tuple(random.normal(size=2**s).tolist())
    made = general(N, support=support, table=table, head=head, **SHARED.get(head, {}))
    checked = made.check()
    assert (checked.inputs, checked.exhaustive, checked.holds) == (2**N, True, True)
    np.testing.assert_allclose(made.run(boolean.cube(N)), truth(N, support, table), rtol=0, atol=1e-10)
    assert (made.model.first_hidden, made.model.second_hidden) == (4 * s * 2**s, 2 * 2**s)
    for _ in range(19):
        again = refilled(made, random.normal(size=2**s) * 10 ** random.uniform(-2, 2))
        assert again.check().largest_error <= 1e-10 * max(1, np.max(np.abs(again.oracle.values)))


@pytest.mark.parametrize("s", [1, 2, 3, 4])
@pytest.mark.parametrize("head", SINGLE)
def test_random_symmetric_functions(head, s):
    random = np.random.default_rng(10 + s)
    support = tuple(int(i) for i in random.permutation(N)[:s])
    values = tuple(random.normal(size=s + 1).tolist())
    table = [values[int(index).bit_count()] for index in range(2**s)]
    for layers in (2, 3):
        made = symmetric(N, support=support, values=values, head=head, layers=layers, **SHARED.get(head, {}))
        assert made.check().holds and made.tolerance <= 1e-9
        np.testing.assert_allclose(made.run(boolean.cube(N)), truth(N, support, table), rtol=0, atol=1e-10)
        assert made.model.first_hidden == 4 * (s + 1)
        assert made.model.readout == {2: "two-layer", 3: "mlp"}[layers]


@pytest.mark.parametrize("head", [*SINGLE, *SEVERAL])
def test_twelve_bits(head):
    """The formula in plain NumPy, token by token: heads summed, ReLUs with their biases in the last rows."""
    n, support = 12, (11, 0, 6, 3)
    name = "sparse/symmetric" if head in SINGLE else "sparse/general"
    made = construct(name, n=n, support=support, gate="xor", head=head)
    p, x = made.parameters, boolean.cube(n)
    bits = (x < 0).astype(int)
    rows = bits[:, :, None] * p["P"] if made.model.mapping == "bag" else p["E"][bits] + p["P"]
    X = np.concatenate([rows, np.broadcast_to(p["cls"], (len(x), 1, len(p["cls"])))], axis=1)
    y = np.zeros((len(x), len(p["cls"])))
    for Q, K, V, C in zip(p["Q"], p["K"], p["V"], p["C"], strict=True):
        weights = np.exp(X @ (K @ (Q.T @ p["cls"])))
        y += np.einsum("bt,btk->bk", weights / weights.sum(axis=1, keepdims=True), X @ V) @ C
    hidden = np.maximum(y[:, : made.model.read] @ p["W1"][:-1] + p["W1"][-1], 0)
    found = np.maximum(hidden @ p["W2"][:-1] + p["W2"][-1], 0) @ p["w"]
    table = [1.0 if index.bit_count() % 2 else -1.0 for index in range(16)]
    np.testing.assert_allclose(found, truth(n, support, table), rtol=0, atol=1e-10)


GATES = {
    "and": lambda bits: all(bits),
    "or": lambda bits: any(bits),
    "nand": lambda bits: not all(bits),
    "nor": lambda bits: not any(bits),
    "xor": lambda bits: sum(bits) % 2 == 1,
    "majority": lambda bits: sum(bits) > len(bits) / 2,
    "threshold-2": lambda bits: sum(bits) >= 2,
}


@pytest.mark.parametrize("gate", sorted(GATES))
def test_named_gates_from_text(gate):
    support, x = (6, 0, 3), boolean.cube(N)
    expected = [1.0 if GATES[gate]([bool(row[i] < 0) for i in support]) else -1.0 for row in x]
    for name, head in (("sparse/symmetric", "det_single"), ("sparse/general", "bag_vector")):
        made = construct(name, n=str(N), support="6,0,3", gate=gate, head=head)
        np.testing.assert_allclose(made.run(x), expected, rtol=0, atol=1e-10)
        np.testing.assert_array_equal(np.asarray(made.task.table), made.oracle.values)


def test_the_task_has_the_labels_of_the_oracle():
    made = construct("sparse/general", n=N, support="6,0,3", table="0,0,1,0,0,1,1,1")
    examples = jax.jit(lambda task: task.decode(task.population()))(made.task)
    ((x, expected),) = made.oracle.cases(seed=0)
    np.testing.assert_array_equal(np.asarray(examples.x), x)
    np.testing.assert_array_equal(np.asarray(examples.truth), expected)


def test_settings_may_be_text():
    made = construct(
        "sparse/general", n="8", table="0.5,-1,2,3", head="train_multi", gamma="0.5", heads="4", dimension="11"
    )
    assert made.check().holds and made.model.heads == 4 and made.task.regression
    np.testing.assert_array_equal(made.oracle.values, [0.5, -1, 2, 3])
    assert construct("sparse/symmetric", n=6, values="1,0,0", layers="2").oracle.values.tolist() == [1, -1, -1, -1]


@pytest.mark.parametrize("head", ["det_single", "det_multi", "train_multi"])
def test_the_printed_delta_fails(head):
    """γ/8 is half of what the head may be wrong by, and the head is: by 0.21 of 0.25."""
    name, s = ("sparse/symmetric", 1) if head == "det_single" else ("sparse/general", 2)
    settings = {"n": N, "s": s, "gate": "and", "head": head, **SHARED.get(head, {})}
    made, printed = construct(name, **settings), construct(name, variant="printed", **settings)
    assert made.check().holds
    assert printed.check().largest_error >= 0.99


def test_positions_that_are_not_orthogonal():
    name = "sparse/symmetric"
    settings = {"n": 40, "s": 3, "gate": "xor", "head": "bag_scalar", "dimension": 600, "exact": False}
    dual = construct(name, **settings)
    checked = dual.check()
    assert (checked.inputs, checked.exhaustive, checked.holds) == (8 * 64, False, True)
    strength = norms(dual.parameters)["Q"]
    assert construct(name, strength=10 * strength, **settings).check().holds
    assert not construct(name, mode="printed", strength=10 * strength, **settings).check().holds


def test_long_contexts():
    checked = construct("sparse/general", n=3000, support=(2999, 17), gate="nand", head="train_multi").check(seed=3)
    assert (checked.inputs, checked.exhaustive) == (4 * 64, False) and checked.largest_error <= 1e-10


def test_a_wrong_value_is_noticed():
    made = general(N, 2, gate="xor", heads=4)
    w = made.parameters["w"].copy()
    w[1] += 1e-6
    assert not dataclasses.replace(made, parameters={**made.parameters, "w": w}).check().holds
    weaker = general(N, 2, gate="xor", heads=4, strength=2.0)
    assert not weaker.check().holds


def test_norms_grow_with_the_context_only_in_the_query():
    found = [norms(general(n, 2, gate="and", head="train_multi").parameters) for n in (8, 64, 512)]
    assert np.diff([each["Q"] for each in found]) == pytest.approx([np.log(8)] * 2)
    for letter in ("K", "V", "C", "P_21", "W1", "W2", "w"):
        assert len({round(each[letter], 12) for each in found}) == 1


def test_attention_without_scores_averages_the_whole_context():
    made, x = averaging(N), boolean.cube(N)
    np.testing.assert_allclose(made.run(x), x.sum(axis=1) / (N + 1), atol=1e-14)
    assert made.check().holds and not np.any(made.parameters["Q"]) and not np.any(made.parameters["K"])
    influence = np.ptp(made.run(x)[[0, 1]])
    assert influence == pytest.approx(2 / (N + 1)), "every bit counts, and little"
    long = averaging(20).oracle
    ((x, expected),) = long.cases(seed=0)
    assert len(x) == 2**16 and not long.exhaustive
    np.testing.assert_allclose(expected, x.sum(axis=1) / 21, atol=1e-14)


def test_weights_are_those_the_model_draws():
    made = construct("sparse/symmetric", n=6, s=2, gate="and", head="bag_scalar")
    shapes = jax.eval_shape(lambda: made.model.init(jax.random.key(0), made.task))
    assert {name: leaf.shape for name, leaf in shapes.items()} == {n: v.shape for n, v in made.parameters.items()}
    assert "E" not in made.parameters and made.model.mapping == "bag"
    assert made.statement == "f_tf+mlp(X(b)) = f(b) for every b in {0,1}^6, I = {0, 1}"


def test_they_are_registered_and_say_what_they_are():
    assert [name for name in CONSTRUCTIONS if name.startswith("sparse/")] == list(NAMES)
    for name in NAMES:
        thing = CONSTRUCTIONS[name]
        assert isinstance(thing, Constructor) and thing.name == name
        assert thing.summary.endswith(".") and thing.source.startswith("dissertation")
        assert thing.parameters["n"] == (int, REQUIRED)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("sparse/general", {"s": 3, "gate": "and", "heads": 2}, r"s=3 relevant bits; got heads=2 \(try heads=3\)"),
        ("sparse/general", {"s": 3, "gate": "and", "head": "det_single"}, "head must be det_multi"),
        ("sparse/symmetric", {"s": 3, "gate": "and", "head": "det_multi"}, "head must be det_single"),
        ("sparse/symmetric", {"s": 3}, "give a gate or values"),
        ("sparse/symmetric", {"s": 3, "gate": "and", "values": "1,2,3,4"}, "give a gate or values"),
        ("sparse/symmetric", {"s": 3, "values": (1.0, 2.0)}, "s=3 bits has 4 values; got 2"),
        ("sparse/symmetric", {"s": 3, "gate": "nad"}, "unknown gate 'nad'; did you mean 'nand'"),
        ("sparse/symmetric", {"s": 3, "gate": "and", "gamma": 1.0}, r"0\.666667 apart \(try delta=0\.166667\)"),
        ("sparse/symmetric", {"s": 3, "gate": "and", "layers": 4}, "layers must be 2|3"),
        ("sparse/general", {"s": 2}, "give a gate or a table"),
        ("sparse/general", {"s": 2, "table": (1.0, 0.0)}, "s=2 bits has 4 values; got 2"),
        ("sparse/general", {"table": (1.0, 0.0, 1.0)}, "a table lists 2.s values; got 3"),
        ("sparse/general", {"s": 3, "gate": "and", "variant": "mended"}, r"variant must be printed\|repaired"),
        ("sparse/general", {"n": 2, "s": 3, "gate": "and"}, "s must be an integer between 1 and 2; got s=3"),
        ("sparse/averaging", {"n": 0}, "n must be an integer at least 1; got n=0"),
    ],
)
def test_bad_settings_get_one_clear_error(name, settings, message):
    with pytest.raises(KroghError, match=message):
        construct(name, **{"n": 6, **settings})
