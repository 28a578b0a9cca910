"""The compiler: sizes as the source has them, positions, decoding, and what it refuses."""

from __future__ import annotations

import dataclasses
import math
import time
import tracemalloc

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.machines.compiled import compile_machine
from krogh.networks.machines.layout import UNCLEAR, binary, reference_bits
from krogh.programs.machines.library import load_machine
from krogh.programs.machines.machine import Machine

PALINDROME = {4: 5334, 6: 7452, 8: 9986, 12: 16302, 16: 24282, 20: 33926}
"""‖θ‖₁ at T = 2^k in sm-approximation, B5."""
COUNTER = {4: 4839, 20: 32951}


@pytest.mark.parametrize(
    ("name", "steps", "depth", "rippled"),
    [("parity", 14, 16, 33), ("palindrome", 40, 17, 38), ("powers-of-two", 70, 18, 43), ("counter", 150, 19, 48)],
)
def test_layers_of_the_reference_instances(name, steps, depth, rippled):
    machine, bits = load_machine(name), reference_bits(steps, 0)
    ahead = compile_machine(machine, steps, position_bits=bits)
    ripple = compile_machine(machine, steps, position_bits=bits, adder="ripple")
    assert (ahead.depth, ripple.depth) == (depth, rippled) == (bits + 11, 5 * bits + 8)
    assert ahead.width == ripple.width == width_of(machine, bits)
    if name == "parity":
        assert ahead.width == 76
        # T = 14 is where the source spends one bit more than times and cells up to 15 need.
        assert compile_machine(machine, steps).depth == 15


def width_of(machine, bits):
    z, a = len(machine.states) + 1, len(machine.alphabet)
    return z * (1 + a) + 6 * a + 6 * bits + 8


@pytest.mark.parametrize(("name", "norms"), [("palindrome", PALINDROME), ("counter", COUNTER)])
def test_the_norms_of_the_source(name, norms):
    """It counts layers only (not E, o_0 and cls), gives boot a transition on every symbol, and copies the bit of scr3
    that the layer's own search writes: 3(|A| - 1) and W more than are needed.
    """
    machine = load_machine(name)
    for power, norm in norms.items():
        compiled = compile_machine(machine, 2**power)
        ends = sum(np.abs(_entries(compiled.parameters[key])).sum() for key in ("E", "o0", "cls"))
        assert ends == len(machine.alphabet) + 4
        extra = 3 * (len(machine.alphabet) - 1) + compiled.bits
        assert compiled.bits == reference_bits(2**power, 0)
        assert compiled.one_norm - ends + extra == pytest.approx(norm, abs=1e-6)
        assert compiled.depth == power + 12


def _entries(value):
    return value if isinstance(value, np.ndarray) else value.data


def test_rounding_costs_nine_for_every_coordinate_in_use():
    machine = load_machine("palindrome")
    with_it, without = compile_machine(machine, 40), compile_machine(machine, 40, correction=False)
    used = sum(without.parameters[f"L{i}.ff.W2"].nnz for i in range(1, without.depth + 1))
    # The identity costs 2 where rounding costs 9.
    assert with_it.one_norm - without.one_norm == pytest.approx(7 * used, abs=1e-6)
    shapes = [{name: value.shape for name, value in one.parameters.items()} for one in (with_it, without)]
    assert shapes[0] == shapes[1]
    dense = with_it.dense_parameters(np.float32)
    assert sum(value.size for value in dense.values()) == with_it.parameter_count == without.parameter_count
    assert all(value.dtype == np.float32 for value in dense.values())
    assert sum(np.abs(value).sum(dtype=np.float64) for value in dense.values()) == pytest.approx(with_it.one_norm)


def test_fifty_states_ten_symbols_and_a_hundred_thousand_steps_are_quick_and_small():
    random = np.random.default_rng(0)
    shape = (50, 10)
    machine = Machine(
        name="large",
        states=tuple(f"q{number}" for number in range(50)),
        alphabet=tuple("_abcdefghi"),
        start=0,
        next_state=random.integers(50, size=shape),
        write=random.integers(10, size=shape),
        move=random.choice([-1, 1], size=shape),
        halting=(49,),
    )
    tracemalloc.start()
    begin = time.perf_counter()
    compiled = compile_machine(machine, 100_000)
    norm = compiled.one_norm
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert time.perf_counter() - begin < 5 and peak < 50e6
    assert (compiled.width, compiled.depth, compiled.bits) == (737, 29, 18)
    # |Z||A| + W(|Z| + |A| + W), times a constant.
    assert norm < 60 * (500 + 18 * (50 + 10 + 18))


@pytest.mark.parametrize(("tape", "lowest"), [("one-way", 0), ("two-way", -39)])
def test_states_symbols_and_cells_are_read_off_one_vector(tape, lowest):
    machine = dataclasses.replace(load_machine("palindrome"), tape=tape)
    compiled = compile_machine(machine, 40, input_length=50)
    layout, cells = compiled.layout, np.arange(lowest, 51)
    vectors = np.zeros((len(cells), compiled.width))
    vectors[:, layout["st"][3]], vectors[:, layout["sym1"][2]] = 0.9, 0.7
    vectors[:, layout["pos2"]] = 0.8 * binary(cells, compiled.bits) + 0.1
    state, symbol, cell = compiled.decode(vectors)
    assert (state == 3).all() and (symbol == 2).all()
    np.testing.assert_array_equal(cell, cells)
    vectors[0, layout["st"][4]] = 1.0
    vectors[1, layout["sym1"]] = 0.0
    state, symbol, _ = compiled.decode(vectors)
    assert state[0] == UNCLEAR and symbol[1] == UNCLEAR and (state[1:] == 3).all()
    with pytest.raises(KroghError, match=f"outputs have {compiled.width} coordinates"):
        compiled.decode(vectors[:, 1:])


def test_words_become_letters_with_their_lengths():
    compiled = compile_machine(load_machine("palindrome"), 10)
    tokens, lengths = compiled.tokens(["01", "", (2, 1, 2)])
    np.testing.assert_array_equal(tokens, [[1, 2, 0], [0, 0, 0], [2, 1, 2]])
    np.testing.assert_array_equal(lengths, [2, 0, 3])
    assert compiled.input_length == 11 and compiled.tokens([""])[0].shape == (1, 1)
    with pytest.raises(KroghError, match=r"'0101010101010' has 13 letters.*at most 11.*input_length=13"):
        compiled.tokens(["0101010101010"])
    with pytest.raises(KroghError, match=r"symbol 'x' at position 2.*outside the alphabet"):
        compiled.tokens(["0x"])
    with pytest.raises(KroghError, match=r"give a list of words; got the text '01' \(try \['01'\]\)"):
        compiled.tokens("01")
    with pytest.raises(KroghError, match="at least one word"):
        compiled.tokens([])


def test_the_temperature_of_soft_attention():
    """ln(3(T' + 1)) with T' = T + 1 decoder steps, or more where the input is longer than that."""
    machine = load_machine("palindrome")
    soft = compile_machine(machine, 40, attention="soft")
    assert soft.attention == "soft" and soft.inverse_temperature == pytest.approx(math.log(3 * 42))
    longer = compile_machine(machine, 40, attention="soft", input_length=99)
    assert longer.inverse_temperature == pytest.approx(math.log(3 * 100))
    assert compile_machine(machine, 40, attention=9).inverse_temperature == 9.0
    assert compile_machine(machine, 40).attention == "hard"
    with pytest.raises(KroghError, match=r"without correction nothing rounds that away.*as in attention=50.0"):
        compile_machine(machine, 40, attention="soft", correction=False)
    near = compile_machine(machine, 4, input_length=1, attention=50, correction=False)
    assert near.statement.startswith("soft attention of inverse temperature 50 without correction: what leaks adds up")
    assert "has state" not in near.statement and "has state" in soft.statement
    with pytest.raises(KroghError, match="must be positive; got attention=-1"):
        compile_machine(machine, 40, attention=-1)


def test_words_decide_how_long_the_input_may_be_and_are_tried():
    counter = load_machine("counter")
    exact = compile_machine(counter, 31, words=["#000"])
    assert exact.input_length == 32 and exact.words == ("#000",)
    wide = compile_machine(counter, 31, words=["#000" + "0" * 60])
    assert wide.input_length == 64
    assert wide.trying(["#", "#" + "0" * 64]).words == (*wide.words, "#"), "one that is too long is left out"
    tried = [counter.decode(word) for word in (*exact.trials.own, *exact.trials.listed)]
    assert tried[0] == "#000" and len(set(tried)) == len(tried) and "" in tried


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be an integer at least 1; got steps=0"),
        ({"adder": "rippel"}, "unknown adder 'rippel'; did you mean 'ripple'"),
        ({"attention": "sharp"}, "unknown attention 'sharp'.*hard, soft"),
        ({"position_bits": 4}, "position_bits must be an integer between 5 and 26; got position_bits=4"),
        ({"input_length": -1}, "input_length must be an integer at least 0"),
        ({"input_length": 2, "words": ["111"]}, "3 letters is longer than input_length=2"),
        ({"words": "01"}, "give a list of words"),
    ],
)
def test_bad_settings(options, message):
    settings = {"steps": 20} | options
    with pytest.raises(KroghError, match=message):
        compile_machine(load_machine("parity"), settings.pop("steps"), **settings)
