"""Both adders on all numbers: one more, one less, the same, modulo 2^W."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from krogh.networks.machines.layers import CARRIED, look_ahead, ripple
from krogh.networks.machines.layout import LEFT, RIGHT, Layout, binary, from_binary

ADDERS = {"look-ahead": look_ahead, "ripple": ripple}


def through(layers, h):
    """The tables one after the other, without their corrections: columns of h [w, n]."""
    for layer in layers:
        assert layer.decoder is None and layer.encoder is None
        h = np.maximum(layer.table.weight @ h + layer.table.bias[:, None], 0.0)
        assert set(np.unique(h)) <= {0.0, 1.0}, layer.name
    return h


@pytest.mark.parametrize("adder", ADDERS)
@pytest.mark.parametrize("bits", [2, 3, 6])
def test_all_numbers_move_by_one_and_wrap(adder, bits):
    layout = Layout(3, 2, bits)
    cases = list(itertools.product(range(2**bits), (-1, 0, 1)))
    number, move = np.array(cases).T
    h = np.zeros((layout.width, len(cases)))
    random = np.random.default_rng(0)
    for group in ("st", "sym2", "pos1"):
        h[layout[group]] = random.integers(0, 2, (len(layout[group]), len(cases)))
    h[layout["pos2"]] = binary(number, bits).T
    h[layout["dir"][LEFT]], h[layout["dir"][RIGHT]] = move == -1, move == 1
    after = through(ADDERS[adder](layout), h)
    np.testing.assert_array_equal(from_binary(after[layout["pos3"]].T), (number + move) % 2**bits)
    kept = np.concatenate([layout[group] for group in CARRIED])
    np.testing.assert_array_equal(after[kept], h[kept])
    others = np.setdiff1d(np.arange(layout.width), [*kept, *layout["pos3"]])
    assert not after[others].any()
    # The two ends: 0 - 1 = 2^W - 1 and (2^W - 1) + 1 = 0.
    ends = dict(zip(cases, from_binary(after[layout["pos3"]].T), strict=True))
    assert ends[(0, -1)] == 2**bits - 1 and ends[(2**bits - 1, 1)] == 0


def test_depths():
    layout = Layout(3, 2, 7)
    assert len(look_ahead(layout)) == 3 and len(ripple(layout)) == 4 * 7
