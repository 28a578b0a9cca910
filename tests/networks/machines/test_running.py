"""Running compiled machines: against the interpreter, in batches, with other weights and float types."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.machines.compiled import compile_machine
from krogh.networks.machines.layout import WRITTEN, from_binary
from krogh.networks.machines.running import machine_hidden, machine_output, run_machine
from krogh.programs.machines.library import load_machine
from krogh.programs.machines.running import trace
from krogh.theory.numerics import double_precision

QUICK = {"xla_backend_optimization_level": 0}


def same_as_interpreter(compiled, words, run):
    for place, word in enumerate(words):
        wanted = trace(compiled.machine, word, compiled.steps)
        np.testing.assert_array_equal(run.state[place], wanted.state)
        np.testing.assert_array_equal(run.symbol[place], wanted.symbol)
        np.testing.assert_array_equal(run.cell[place], wanted.cell)
        assert run.output[place] == {1: 1.0, 0: -1.0, None: 0.0}[wanted.label]


@pytest.mark.parametrize("adder", ["look-ahead", "ripple"])
@pytest.mark.parametrize("correction", [True, False])
@pytest.mark.parametrize(
    ("name", "steps", "words"),
    [
        ("parity", 7, ["", "1", "0110", "111111"]),
        ("palindrome", 25, ["", "01", "0110", "010"]),
        ("busy-beaver-2-3", 30, ["", "1"]),
        ("copy", 20, ["", "a", "ab"]),
    ],
)
def test_networks_run_their_machines(name, steps, words, adder, correction):
    """Free runs, step by step; some do not halt in time, and the busy beaver goes below cell 0."""
    compiled = compile_machine(load_machine(name), steps, adder=adder, correction=correction)
    run = run_machine(compiled, words)
    same_as_interpreter(compiled, words, run)
    if name == "busy-beaver-2-3":
        assert run.cell.min() < 0


def test_a_word_does_not_know_its_batch():
    compiled = compile_machine(load_machine("palindrome"), 20)
    words = ["0110", "", "1", "01010"]
    together = run_machine(compiled, words)
    for place, word in enumerate(words):
        alone = run_machine(compiled, [word])
        for many, one in zip(together, alone, strict=True):
            np.testing.assert_array_equal(many[place], one[0])


def test_more_words_than_are_looked_up_at_once(monkeypatch):
    monkeypatch.setattr("krogh.networks.machines.running.MOST_WORDS", 3)
    compiled = compile_machine(load_machine("parity"), 5)
    words = [format(number, "03b") for number in range(8)]
    same_as_interpreter(compiled, words, run_machine(compiled, words))


def test_what_the_layers_find():
    """i' = max{t ≤ i : l_{t-1} = l_i} bit by bit in scr3, and whether there is one (Claims C.4 and C.5)."""
    steps = 25
    compiled = compile_machine(load_machine("palindrome"), steps)
    (hidden,) = machine_hidden(compiled, ["0110"])
    cells = [0, *trace(compiled.machine, "0110", steps).cell]  # l_0 = 0 at boot, l_i at machine time i - 1
    layout, bits = compiled.layout, compiled.bits
    revisited = 0
    for i in range(1, steps + 2):
        last = max((t for t in range(1, i + 1) if cells[t - 1] == cells[i]), default=0)
        revisited += last > 0
        for j in range(bits + 1):
            vector = hidden[i - 1, 6 + j]
            assert compiled.layer_names[5 + j] == ("C.4 visited" if j == 0 else f"C.5 bit {j}")
            assert vector[layout["scr4"][WRITTEN]] == (last > 0)
            assert from_binary(vector[layout["scr3"]]) == last >> (bits - j) << (bits - j)
            assert from_binary(vector[layout["pos1"]]) == i and from_binary(vector[layout["pos3"]]) == cells[i]
    assert revisited > 8
    # At most 4W + 6 ones in a vector, the norm that certificates use.
    assert hidden.sum(axis=-1).max() <= 4 * bits + 6


def test_fewer_steps_are_the_beginning_of_all():
    compiled = compile_machine(load_machine("parity"), 5)
    everything, some = run_machine(compiled, ["1", "01"]), run_machine(compiled, ["1", "01"], steps=2)
    for long, short in zip(everything[:3], some[:3], strict=True):
        np.testing.assert_array_equal(long[:, :3], short)
    np.testing.assert_array_equal(some.output, [1.0, 0.0])  # "01" is decided after the third step only
    with pytest.raises(KroghError, match="steps must be an integer between 0 and 5; got steps=6"):
        run_machine(compiled, ["1"], steps=6)


def test_methods():
    compiled = compile_machine(load_machine("parity"), 5)
    with pytest.raises(KroghError, match="unknown method 'dens'; did you mean 'dense'"):
        run_machine(compiled, ["1"], method="dens")
    with pytest.raises(KroghError, match="at least one word"):
        run_machine(compiled, [])


def outputs_of(compiled, words):
    """The outputs on words as a function of the parameters."""
    return lambda parameters: machine_output(compiled, parameters, *compiled.tokens(words))


def test_other_weights_of_the_same_shapes():
    """Small perturbations of all weights are rounded away by the correction, large ones are not."""
    compiled = compile_machine(load_machine("parity"), 4)
    words, random = ["1", "11", ""], np.random.default_rng(0)
    weights = compiled.dense_parameters()
    noise = {name: random.normal(size=value.shape) for name, value in weights.items()}
    size = np.sqrt(sum((value**2).sum() for value in noise.values()))
    program = jax.jit(outputs_of(compiled, words), compiler_options=QUICK)
    with double_precision():
        np.testing.assert_array_equal(program(weights), [1.0, -1.0, -1.0])
        for norm, holds in ((0.1, True), (300.0, False)):
            outputs = np.asarray(program({name: weights[name] + norm / size * noise[name] for name in weights}))
            assert np.array_equal(np.sign(outputs), [1.0, -1.0, -1.0]) == holds
            assert not np.array_equal(outputs, [1.0, -1.0, -1.0])


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["hard", "soft"])
def test_derivatives_of_a_corrected_network(attention):
    """Flat in all weights but the classifier's, whose derivative is the sum of the last outputs."""
    compiled = compile_machine(load_machine("parity"), 4, attention=attention)
    words = ["1", "11", ""]
    with double_precision():
        slopes = jax.jit(jax.grad(lambda p: jnp.sum(outputs_of(compiled, words)(p))))(compiled.dense_parameters())
        accept, reject = compiled.layout["st"][[2, 3]]
        classifier = np.asarray(slopes.pop("cls"))
        np.testing.assert_allclose(classifier[[accept, reject]], [1.0, 2.0], atol=1e-12)
        for name, slope in slopes.items():
            # The rounding itself is not flat: its own slopes and thresholds move what comes out.
            if ".W3" not in name and ".b3" not in name and ".b2" not in name and ".W2" not in name:
                assert np.abs(np.asarray(slope)).max() < 1e-12, name


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("attention", ["hard", "soft"])
def test_short_floats(dtype, attention):
    """Scores are small whole numbers: float32 and bfloat16 decide as float64 does."""
    words = ["", "1", "0110", "010", "00100"]
    compiled = compile_machine(load_machine("palindrome"), 25, attention=attention)
    weights = {name: jnp.asarray(value, dtype) for name, value in compiled.dense_parameters().items()}
    outputs = jax.jit(outputs_of(compiled, words))(weights)
    assert outputs.dtype == dtype
    np.testing.assert_array_equal(np.sign(np.asarray(outputs, np.float64)), [1, 1, 1, 1, 1])
    rejected = jax.jit(outputs_of(compiled, ["01", "110"]))(weights)
    np.testing.assert_array_equal(np.sign(np.asarray(rejected, np.float64)), [-1, -1])


@pytest.mark.slow
def test_ten_thousand_steps_of_64_words():
    compiled = compile_machine(load_machine("counter"), 10_000)
    words = ["#" + "0" * (1 + number % 11) for number in range(64)]
    same_as_interpreter(compiled, words, run_machine(compiled, words))
