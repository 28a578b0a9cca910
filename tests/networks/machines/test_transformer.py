"""The architecture against a plain NumPy oracle, for random weights and for compiled machines, vector by vector."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.networks.machines.compiled import compile_machine
from krogh.networks.machines.running import classify, dense_steps, layer_count, machine_hidden, run_transformer
from krogh.programs.machines.library import load_machine
from krogh.theory.numerics import double_precision

QUICK = {"xla_backend_optimization_level": 0}
quick_steps = jax.jit(run_transformer, static_argnames=("steps", "hidden"), compiler_options=QUICK)
WIDTH, SYMBOLS, STEPS = 5, 3, 4


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Compile the dense program quickly: it runs for a few steps only."""
    monkeypatch.setattr("krogh.networks.machines.running._compiled_steps", quick_steps)


def oracle(parameters, positions, word, steps, b=None):
    """One word, one step, one position at a time: vectors before and after every layer, and the smallest gap."""
    p = {name: np.asarray(value, np.float64) for name, value in parameters.items()}
    encoded = [p["E"][:, letter] + positions[i] for i, letter in enumerate(word, start=1)]
    layers = layer_count(p)
    past = {i: [] for i in range(1, layers + 1)}
    output, seen, gaps = p["o0"], [], [np.inf]

    def attend(prefix, h, others):
        query = p[f"{prefix}.Wq"] @ h + p[f"{prefix}.bq"]
        scores = [query @ p[f"{prefix}.K0"]]
        values = [p[f"{prefix}.V0"]]
        for other in others:
            scores.append(query @ (p[f"{prefix}.Wk"] @ other + p[f"{prefix}.bk"]))
            values.append(p[f"{prefix}.Wv"] @ other + p[f"{prefix}.bv"])
        scores = np.array(scores)
        best = scores.max()
        gaps.extend(best - score for score in scores if score < best)
        weights = (scores == best) / (scores == best).sum()
        if b is not None:
            weights = np.exp(b * (scores - best)) / np.exp(b * (scores - best)).sum()
        return h + weights @ np.array(values)

    for step in range(1, steps + 1):
        h = output + positions[step]
        vectors = [h]
        for i in range(1, layers + 1):
            past[i].append(h)
            if f"L{i}.dec.Wq" in p:
                h = attend(f"L{i}.dec", h, past[i])
            if f"L{i}.enc.Wq" in p:
                h = attend(f"L{i}.enc", h, encoded)
            for k in (1, 2, 3):
                h = np.maximum(p[f"L{i}.ff.W{k}"] @ h + p[f"L{i}.ff.b{k}"], 0)
            vectors.append(h)
        seen.append(vectors)
        output = h
    return np.array(seen), min(gaps)


def random_parameters(seed):
    """Two layers: the first with both attentions, the second with the decoder's alone."""
    random = np.random.default_rng(seed)
    shapes = {"E": (WIDTH, SYMBOLS), "o0": (WIDTH,), "cls": (WIDTH,)}
    for prefix, size in (("L1.dec", 3), ("L1.enc", 2), ("L2.dec", 4)):
        shapes |= {f"{prefix}.W{which}": (size, WIDTH) for which in "qk"} | {f"{prefix}.Wv": (WIDTH, WIDTH)}
        shapes |= {f"{prefix}.{name}": (size,) for name in ("bq", "bk", "K0")}
        shapes |= {f"{prefix}.{name}": (WIDTH,) for name in ("bv", "V0")}
    for i in (1, 2):
        shapes |= {f"L{i}.ff.W1": (WIDTH, WIDTH), f"L{i}.ff.W2": (7, WIDTH), f"L{i}.ff.W3": (WIDTH, 7)}
        shapes |= {f"L{i}.ff.b1": (WIDTH,), f"L{i}.ff.b2": (7,), f"L{i}.ff.b3": (WIDTH,)}
    parameters = {name: random.normal(size=shape) / 2 for name, shape in shapes.items()}
    return parameters, random.normal(size=(STEPS + 3, WIDTH))


program = jax.jit(
    functools.partial(run_transformer, steps=STEPS, hidden=True),
    compiler_options=QUICK,
)


def inputs(positions):
    tokens = np.zeros((len(WORDS), 3), np.int32)
    for row, word in zip(tokens, WORDS, strict=True):
        row[: len(word)] = word
    return jnp.asarray(positions), jnp.asarray(tokens), jnp.asarray([len(word) for word in WORDS], jnp.int32)


def run(parameters, positions, b=None):
    arrays = {name: jnp.asarray(value) for name, value in parameters.items()}
    return program(arrays, *inputs(positions), inverse_temperature=b)


WORDS = [[0, 2, 1], [1], []]


@pytest.mark.parametrize("b", [None, 0.7])
def test_random_weights_do_what_the_definition_says(b):
    """Batches of words of different lengths, the empty one among them."""
    parameters, positions = random_parameters(0)
    with double_precision():
        steps = run(parameters, positions, b)
        output = classify({"cls": jnp.asarray(parameters["cls"])}, steps.outputs)
    gaps = []
    for place, word in enumerate(WORDS):
        vectors, gap = oracle(parameters, positions, word, STEPS, b)
        np.testing.assert_allclose(steps.hidden[place], vectors, atol=1e-12)
        np.testing.assert_allclose(steps.outputs[place], vectors[:, -1], atol=1e-12)
        np.testing.assert_allclose(output[place], vectors[-1, -1] @ parameters["cls"], atol=1e-12)
        gaps.append(gap)
    np.testing.assert_allclose(steps.gap, min(gaps), atol=1e-12)
    layered = np.asarray(steps.hidden)[:, :, 1:]
    np.testing.assert_allclose(steps.deviation, np.abs(layered - (layered > 0.5)).max(), atol=1e-12)
    assert layered.any(axis=(0, 1, 3)).all()


def test_equal_scores_share_the_weight_with_the_null_slot():
    """All scores are 0: one's own vector and the null slot count the same, and so do all letters and the null slot."""
    parameters, positions = random_parameters(1)
    parameters = {name: np.abs(value) for name, value in parameters.items()}
    for prefix in ("L1.dec", "L1.enc", "L2.dec"):
        parameters |= {f"{prefix}.Wq": 0 * parameters[f"{prefix}.Wq"], f"{prefix}.bq": 0 * parameters[f"{prefix}.bq"]}
    parameters["L1.ff.W2"], parameters["L1.ff.W3"] = np.eye(7, WIDTH), np.eye(WIDTH, 7)
    parameters |= {f"L1.ff.b{k}": 0 * parameters[f"L1.ff.b{k}"] for k in (1, 2, 3)} | {"L1.ff.W1": np.eye(WIDTH)}
    positions = np.abs(positions)
    with double_precision():
        steps = run(parameters, positions)
    p = parameters
    h = p["o0"] + positions[1]
    h = h + (p["L1.dec.Wv"] @ h + p["L1.dec.bv"] + p["L1.dec.V0"]) / 2
    for place, word in enumerate(WORDS):
        letters = [p["E"][:, letter] + positions[i] for i, letter in enumerate(word, start=1)]
        given = sum(p["L1.enc.Wv"] @ e + p["L1.enc.bv"] for e in letters) + p["L1.enc.V0"]
        np.testing.assert_allclose(steps.hidden[place, 0, 1], h + given / (1 + len(word)), atol=1e-12)


def test_no_step_sees_a_later_one():
    parameters, positions = random_parameters(2)
    later = positions.copy()
    later[STEPS] += 1.0  # beyond all letters
    with double_precision():
        before, after = (run(parameters, beta) for beta in (positions, later))
    np.testing.assert_array_equal(before.hidden[:, :-1], after.hidden[:, :-1])
    assert np.abs(np.asarray(before.outputs[:, -1]) - np.asarray(after.outputs[:, -1])).max() > 1e-3


@pytest.mark.parametrize("b", [None, pytest.param(0.7, marks=pytest.mark.slow)])
def test_derivatives_are_those_of_the_oracle(b):
    """Central differences in a random direction; hard attention is smooth wherever its winners stay the same."""
    parameters, positions = random_parameters(3)
    random = np.random.default_rng(0)
    direction = {name: random.normal(size=value.shape) for name, value in parameters.items()}

    def value(shift):
        moved = {name: parameters[name] + shift * direction[name] for name in parameters}
        return oracle(moved, positions, WORDS[0], STEPS, b)[0][-1, -1] @ moved["cls"]

    def output(arrays):
        steps = run_transformer(arrays, *inputs(positions), STEPS, inverse_temperature=b)
        return classify(arrays, steps.outputs)[0]

    with double_precision():
        arrays = {name: jnp.asarray(value) for name, value in parameters.items()}
        slopes = jax.jit(jax.grad(output), compiler_options=QUICK)(arrays)
        slope = sum(float(np.sum(np.asarray(slopes[name]) * direction[name])) for name in parameters)
    np.testing.assert_allclose(slope, (value(1e-6) - value(-1e-6)) / 2e-6, rtol=1e-6)
    assert abs(slope) > 1e-2


@pytest.mark.slow
def test_the_float_type_is_that_of_the_parameters():
    parameters, positions = random_parameters(0)
    wanted, _ = oracle(parameters, positions, WORDS[0], STEPS)
    steps = run({name: jnp.asarray(value, jnp.bfloat16) for name, value in parameters.items()}, positions)
    assert steps.outputs.dtype == steps.gap.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(steps.hidden[0], np.float64), wanted, atol=0.1)


CASES = [
    ("parity", 6, ["", "1", "0110"], {}),
    ("parity", 6, ["", "10101"], {"adder": "ripple"}),
    ("palindrome", 25, ["", "01", "0110"], {"correction": False}),
    ("busy-beaver-3", 15, ["", "1"], {}),
    ("counter", 31, ["#00", "#"], {"position_bits": 9}),
]


@pytest.mark.parametrize(("name", "steps", "words", "options"), CASES)
def test_looking_keys_up_is_attention(name, steps, words, options):
    """Every hidden vector of every layer, step and word; all binary, and the best score wins by exactly 1."""
    compiled = compile_machine(load_machine(name), steps, **options)
    looked = machine_hidden(compiled, words, method="lookup")
    assert looked.shape == (len(words), steps + 1, compiled.depth + 1, compiled.width)
    assert set(np.unique(looked)) == {0.0, 1.0}
    for place, word in enumerate(words):
        dense, gap = oracle(
            compiled.dense_parameters(), compiled.positions, compiled.machine.encode(word), steps + 1, None
        )
        np.testing.assert_array_equal(looked[place], dense)
        assert gap == 1.0


def test_the_dense_program_runs_the_same_network():
    """JAX, a two-way tape with cells below 0, and a word as long as the tape is known."""
    compiled = compile_machine(load_machine("busy-beaver-2"), 6)
    words = ["", "11"]
    steps = dense_steps(compiled, words, hidden=True)
    np.testing.assert_array_equal(steps.hidden, machine_hidden(compiled, words, method="lookup"))
    assert float(steps.gap) == 1.0 and float(steps.deviation) == 0.0
