"""Coordinates and positions: partitions, bit order, and the fewest bits that keep cells apart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.machines.layout import (
    MOST_BITS,
    Layout,
    binary,
    bits_needed,
    cells_needed,
    from_binary,
    reference_bits,
)


@pytest.mark.parametrize(("states", "symbols", "bits"), [(5, 3, 5), (2, 2, 2), (51, 10, 18)])
def test_groups_share_out_all_coordinates(states, symbols, bits):
    layout = Layout(states, symbols, bits)
    together = np.concatenate(list(layout.groups.values()))
    np.testing.assert_array_equal(np.sort(together), np.arange(layout.width))
    assert layout.width == states * (1 + symbols) + 6 * symbols + 6 * bits + 8
    assert len(layout["pair"]) == states * symbols and layout.boot == states - 1


def test_the_reference_instance_has_76_coordinates():
    assert Layout(5, 3, reference_bits(14, 0)).width == 76


def test_numbers_are_written_most_significant_bit_first_modulo_a_power_of_two():
    numbers = np.arange(-40, 90)
    written = binary(numbers, 5)
    expected = [[int(digit) for digit in format(number % 32, "05b")] for number in numbers]
    np.testing.assert_array_equal(written, expected)
    np.testing.assert_array_equal(from_binary(written), numbers % 32)


def test_positions_hold_the_time_and_nothing_else():
    layout = Layout(3, 2, 4)
    positions = layout.positions(9)
    np.testing.assert_array_equal(from_binary(positions[:, layout["pos1"]]), np.arange(10))
    assert np.delete(positions, layout["pos1"], axis=1).sum() == 0


@pytest.mark.parametrize("tape", ["one-way", "two-way"])
def test_the_fewest_bits_by_brute_force(tape):
    """All cells a head can be on after up to T moves, and all cells of the input, differ modulo 2^W; times fit."""
    for steps, length in itertools.product(range(1, 40), (0, 1, 5, 17, 40, 70)):
        reached = {0, 1}
        for _ in range(steps):
            reached |= {cell + move for cell in reached - {0} for move in (-1, 1)}
            reached |= {-1, 1} if tape == "two-way" and steps > 1 else set()
            reached = {cell for cell in reached if 1 - steps <= cell <= 1 + steps or cell == 0}
        cells = {cell for cell in reached if tape == "two-way" or cell >= 0} | set(range(1, length + 1))
        assert cells_needed(tape, steps, length) == (min(cells), max(cells))
        bits = 1
        while len({cell % 2**bits for cell in cells}) < len(cells) or steps + 1 >= 2**bits:
            bits += 1
        assert bits_needed(tape, steps, length) == bits
        if tape == "one-way":
            assert bits <= reference_bits(steps, length) <= bits + 1
    # A power of two is where ⌈log2 T⌉ of the source fails.
    assert bits_needed("one-way", 16, 0) == 5 and bits_needed("two-way", 16, 0) == 6


def test_runs_too_long_for_exact_keys_are_refused():
    assert bits_needed("one-way", 2**MOST_BITS - 2, 0) == MOST_BITS
    with pytest.raises(KroghError, match="at most 26 bits"):
        bits_needed("one-way", 2**MOST_BITS - 1, 0)
    with pytest.raises(KroghError, match="steps must be an integer at least 1; got steps=0"):
        bits_needed("one-way", 0, 0)
