"""Whole-sequence targets against loops over their definition, and their moments against simulation and known cases."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks.additive import fit_squares, position_features
from krogh.tasks.token_moments import sum_moments, token_moments
from krogh.tasks.token_sequences import REST
from krogh.tasks.whole_sequence import WholeSequence
from krogh.theory.recurrence.additive import token_square_floor

KEY = jax.random.key(3)
QUICK = {"xla_backend_optimization_level": 0}
draw = jax.jit(lambda task, size: task.batch(KEY, size), static_argnums=1, compiler_options=QUICK)
MIXED = {"terms": 2, "outputs": 2, "functions": ["z^3-z", "z^2", [0.3, -0.2, 0.1], "z"], "seed": 3,
         "coefficients": [[0.5, 1.0], [-0.7, 0.3]]}  # fmt: skip
PHI = {"z^3-z": lambda z: z**3 - z, "z^2": lambda z: z**2, "z": lambda z: z,
       "[0.3, -0.2, 0.1]": lambda z: 0.3 * z - 0.2 * z**2 + 0.1 * z**3}  # fmt: skip


def by_hand(task: WholeSequence, tokens: np.ndarray) -> np.ndarray:
    """F at the end, one example and one term at a time."""
    w, b, found = np.asarray(task.weights, np.float64), np.asarray(task.coefficients, np.float64), []
    for x in tokens.astype(np.float64):
        values = np.zeros(task.outputs)
        for r in range(task.terms):
            for s in range(task.outputs):
                name = task.functions[r * task.outputs + s] if len(task.functions) > 1 else task.functions[0]
                values[s] += b[r, s] * PHI[name](float(np.concatenate(x) @ np.concatenate(w[r, s])))
        found.append(values)
    return np.array(found)


@pytest.mark.parametrize("options", [{"seed": 2}, MIXED], ids=["square", "mixed"])
def test_labels_are_those_of_the_definition(options):
    task = WholeSequence.random(6, 4, eps_x=0.3, **options)
    raw = task.draw(KEY, 5)
    found, expected = task.decode(raw), by_hand(task, np.asarray(raw.tokens))
    assert np.allclose(found.truth.reshape(5, -1), expected, atol=1e-5)
    assert found.x.shape == (5, 6, 5) == (5, *task.input_shape)
    assert np.allclose(found.x[:, 1:-1, :-1], 0.3 * np.asarray(raw.tokens), atol=1e-6)
    assert np.array_equal(found.x[:, [0, -1], -1], np.ones((5, 2))), "both ends are (0, 1)"


@pytest.mark.slow
def test_labels_of_prefixes_are_those_of_the_tokens_before():
    whole, steps = (WholeSequence.random(6, 3, every_step=every, **MIXED) for every in (False, True))
    raw = steps.draw(KEY, 4)
    tokens, truth = np.asarray(raw.tokens), np.asarray(steps.decode(raw).truth)
    assert truth.shape == (4, 4, 2)
    for j in range(4):
        cut = tokens.copy()
        cut[:, j + 1 :] = 0
        assert np.allclose(truth[:, j], whole.target(cut), atol=1e-6)
    later = tokens.copy()
    later[:, 2:] += 1
    assert np.array_equal(steps.target(later)[:, :2], steps.target(tokens)[:, :2]), "no label knows later tokens"
    wrong_before = jnp.asarray(truth + np.array([1, 1, 1, 0], np.float32)[None, :, None])
    assert not np.any(steps.judge(wrong_before, steps.decode(raw))), "judged at the end alone"
    assert np.allclose(steps.error(wrong_before, jnp.asarray(truth)), 0.75)


def test_noise_is_added_to_observed_labels_alone():
    clean, noisy = (WholeSequence.random(5, 3, seed=1, noise=level) for level in (0.0, 0.5))
    one, other = draw(clean, 4096), draw(noisy, 4096)
    assert (
        np.array_equal(one.truth, other.truth) and np.array_equal(one.x, other.x) and np.array_equal(one.y, one.truth)
    )
    assert np.std(other.y - other.truth) == pytest.approx(0.5, rel=0.05)


def test_token_moments_are_those_of_random_tokens():
    random = np.random.default_rng(0)
    u, v = random.normal(size=(2, 4))
    g = random.normal(size=(400_000, 3))
    x = np.column_stack([REST * g / np.linalg.norm(g, axis=1, keepdims=True), np.full(len(g), 0.5)])
    found = token_moments(u, v, 3)
    for a in range(4):
        for b in range(4):
            values = (x @ u) ** a * (x @ v) ** b
            assert abs(found[a, b] - values.mean()) < 5 * values.std() / math.sqrt(len(x)) + 1e-12
    both = sum_moments(found, found)
    values = (x[:200_000] @ u + x[200_000:] @ u) ** 3 * (x[:200_000] @ v + x[200_000:] @ v)
    assert abs(both[3, 1] - values.mean()) < 5 * values.std() / math.sqrt(len(values))


def test_a_token_of_two_numbers_is_a_coin():
    """dx = 2 leaves ±√3/2: moments are means over two cases."""
    u, v = np.array([0.7, 0.4]), np.array([-1.1, 0.3])
    cases = np.array([[REST, 0.5], [-REST, 0.5]])
    expected = [[np.mean((cases @ u) ** a * (cases @ v) ** b) for b in range(5)] for a in range(5)]
    assert np.allclose(token_moments(u, v, 4), expected)


@pytest.mark.parametrize("options", [{"seed": 2}, MIXED], ids=["square", "mixed"])
def test_baselines_are_what_a_large_sample_says(options):
    task = WholeSequence.random(5, 3, **options)
    known, examples = task.baselines(), jax.tree.map(np.asarray, draw(task, 1 << 14))
    y = examples.truth.astype(np.float64).reshape(len(examples.x), -1)
    assert np.mean(y**2) == pytest.approx(known["null_risk"], rel=0.06)
    assert np.mean(y.var(axis=0)) == pytest.approx(known["label_variance"], rel=0.06)
    features = position_features(examples.x[:, 1:-1, :-2], 3)
    rest = y - features @ fit_squares(features, y)
    assert rest.var(axis=0).sum() / y.var(axis=0).sum() == pytest.approx(known["additive_floor"], rel=0.06)


def test_the_floor_of_a_square_has_the_known_formula():
    task = WholeSequence.random(7, 3, seed=5)
    norms = np.linalg.norm(np.asarray(task.weights, np.float64)[0, 0, :, :-1], axis=1)
    assert task.baselines()["additive_floor"] == pytest.approx(token_square_floor(norms, 3), rel=1e-5)


def test_a_linear_target_is_additive_and_series_without_end_have_no_closed_form():
    assert WholeSequence.random(5, 3, functions="z").baselines()["additive_floor"] == pytest.approx(0.0, abs=1e-12)
    assert WholeSequence.random(5, 3, functions="tanh").baselines() == {}


def test_function_constants_are_those_on_the_interval():
    found = WholeSequence.random(9, 3, functions="z^2").function_constants()
    assert found == {"lipschitz": pytest.approx(6.0), "largest": pytest.approx(9.0)}


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: WholeSequence(np.ones((1, 3, 3))), r"\[terms, outputs, tokens, dx\].*got \[1, 3, 3\]"),
        (lambda: WholeSequence(np.ones((1, 1, 3, 3))), "unit vector.*norm 3"),
        (lambda: WholeSequence.random(5, 3, coefficients=[[2.0]]), r"\[-1, 1\].*2"),
        (lambda: WholeSequence.random(5, 3, coefficients=[2.0]), r"shape \[1, 1\].*got \[1\]"),
        (lambda: WholeSequence.random(5, 3, functions="cosh"), "got 'cosh'"),
        (lambda: WholeSequence.random(5, 3, functions=["z", "z^2"]), "one for each of 1 × 1; got 2"),
        (lambda: WholeSequence.random(2, 3), "length=2"),
        (lambda: WholeSequence.random(5, 3, eps_x=1.5), "eps_x=1.5"),
        (lambda: WholeSequence.random(5, 3, noise=-1.0), "noise=-1.0"),
    ],
)
def test_bad_targets_are_refused(build, words):
    with pytest.raises(KroghError, match=words):
        build()
