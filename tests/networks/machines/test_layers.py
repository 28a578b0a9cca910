"""The pieces of a decoder step: thresholds of attention, the transition table, the choice of the symbol."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from krogh.networks.machines.layers import Table, choice, input_lookup, matching, retrieval, transition
from krogh.networks.machines.layout import INPUT, LEFT, RIGHT, WRITTEN, Layout, binary, from_binary
from krogh.programs.machines.library import load_machine


def tables(layers, h):
    for layer in layers:
        h = np.maximum(layer.table.weight @ h + layer.table.bias[:, None], 0.0)
        assert set(np.unique(h)) <= {0.0, 1.0}, layer.name
    return h


def test_a_table_adds_what_is_listed_twice_and_clears_the_rest():
    layout = Layout(2, 2, 2)
    table = Table(layout, "st").add(layout["st"], layout["sym1"], 2.0).add(layout["st"][0], layout["st"][0])
    table.shift(layout["st"][[0, 0]], 0.5)
    h = np.arange(layout.width, dtype=float)
    out = table.weight @ h + table.bias
    np.testing.assert_allclose(out[:2], [2 * 2 + 2 * 0 + 1, 2 * 3 + 1])
    assert not out[2:].any() and Table(layout).weight.nnz == 0


@pytest.mark.parametrize(("asked", "size"), [(3, 3), (2, 3), (1, 4), (0, 1)])
def test_exact_matches_beat_the_null_slot_and_nothing_else_does(asked, size):
    """All pairs of binary queries and keys; a query that is shorter than the key asks for ones."""
    layout = Layout(2, 2, 4)
    query, key = list(layout["pos3"])[:asked], list(layout["pos2"])[:size]
    attention = matching(layout, query, key, raised=[layout["scr4"][0]], moved=(layout["scr1"], layout["sym2"]))
    gaps = []
    for own in itertools.product((0, 1), repeat=asked):
        h = np.zeros(layout.width)
        h[query] = own
        q = attention.query @ h + attention.query_bias
        null = q @ attention.null_key
        for other in itertools.product((0, 1), repeat=size):
            e = np.zeros(layout.width)
            e[key] = other
            score = q @ (attention.key @ e + attention.key_bias)
            assert (score > null) == (other == own + (1,) * (size - asked))
            gaps.append(abs(score - null))
    assert min(gaps) == 1.0
    e = np.random.default_rng(0).normal(size=layout.width)
    value = attention.value @ e + attention.value_bias
    np.testing.assert_array_equal(value[layout["scr1"]], e[layout["sym2"]])
    assert value[layout["scr4"][0]] == 1 and np.count_nonzero(value) == 3 and not attention.null_value.any()


def test_the_transition_is_the_machine_s_table_and_boot_starts_it():
    machine = load_machine("palindrome")
    z, a = len(machine.states), len(machine.alphabet)
    layout = Layout(z + 1, a, 4)
    cases = [*itertools.product(range(z), range(a)), (layout.boot, 0)]
    state, symbol = np.array(cases).T
    h = np.zeros((layout.width, len(cases)))
    h[layout["st"][state], range(len(cases))] = 1
    h[layout["sym1"][symbol], range(len(cases))] = 1
    h[layout["pos1"]], h[layout["pos2"]] = binary(range(len(cases)), 4).T, binary(5, 4)[:, None]
    after = tables(transition(layout, machine), h)
    new_state, written = after[layout["st"]].argmax(0), after[layout["sym2"]].argmax(0)
    inside = slice(0, -1)
    np.testing.assert_array_equal(new_state[inside], machine.next_state.ravel())
    np.testing.assert_array_equal(written[inside], machine.write.ravel())
    np.testing.assert_array_equal(after[layout["dir"][LEFT]][inside], machine.move.ravel() == -1)
    np.testing.assert_array_equal(after[layout["dir"][RIGHT]], 1 - after[layout["dir"][LEFT]])
    assert (new_state[-1], written[-1], after[layout["dir"][RIGHT]][-1]) == (machine.start, 0, 1)
    assert (after[layout["st"]].sum(0) == 1).all() and (after[layout["sym2"]].sum(0) == 1).all()
    np.testing.assert_array_equal(from_binary(after[layout["pos1"]].T), np.arange(len(cases)) % 16)
    kept = np.concatenate([layout[group] for group in ("st", "sym2", "dir", "pos1", "pos2")])
    assert not after[np.setdiff1d(np.arange(layout.width), kept)].any()


def test_the_symbol_is_the_written_one_else_the_input_s_else_blank():
    layout = Layout(2, 3, 3)
    cases = list(itertools.product((0, 1), (0, 1), range(3), range(3)))
    h = np.zeros((layout.width, len(cases)))
    for column, (was_written, has_input, written, given) in zip(h.T, cases, strict=True):
        column[layout["scr4"][[WRITTEN, INPUT]]] = was_written, has_input
        column[layout["scr1"][written]], column[layout["scr2"][given]] = was_written, has_input
        column[layout["pos3"]], column[layout["st"][1]] = binary(5, 3), 1
    after = tables(choice(layout), h)
    expected = [
        written if was_written else given if has_input else 0 for was_written, has_input, written, given in cases
    ]
    np.testing.assert_array_equal(after[layout["sym1"]], np.eye(3)[expected].T)
    np.testing.assert_array_equal(from_binary(after[layout["pos2"]].T), 5)
    assert (after[layout["st"][1]] == 1).all() and after.sum() == len(cases) * 4


def test_which_layers_attend():
    layout = Layout(4, 3, 6)
    layers = retrieval(layout)
    assert len(layers) == 6 + 2 and all(layer.decoder is not None and layer.encoder is None for layer in layers)
    assert [len(layer.decoder.null_key) for layer in layers] == [7, 8, 9, 10, 11, 12, 13, 13]
    assert [layer.decoder.null_key[-1] for layer in layers] == [5, 6, 7, 8, 9, 10, 11, 11]
    lookup = input_lookup(layout)
    assert lookup.decoder is None and lookup.encoder.null_key[-1] == 5
