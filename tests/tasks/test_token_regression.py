"""Token regression against loops over positions, and its laws against their probabilities."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from krogh.errors import KroghError
from krogh.tasks.codes import sign_codes
from krogh.tasks.links import CentredSquareLink, LinearLink, MeanLink, RidgeLink, TwoLayerLink, unit_vector
from krogh.tasks.token_regression import INDEX_LAWS, TOKEN_LAWS, Prompts, TokenRegression
from krogh.values import replaced, structure_of

KEY = jax.random.key(11)
NET = TwoLayerLink.random(q=3, d=2, width=5, seed=2, biased=True)
QUICK = {"xla_backend_optimization_level": 0}  # compiling a draw costs more here than running it
draw = jax.jit(lambda task, key, size: task.draw(key, size), static_argnums=2, compiler_options=QUICK)
judged_draw = jax.jit(lambda task, key, size: task.test(key, size), static_argnums=2, compiler_options=QUICK)
MANY = 1 << 14  # one size for every statistical test, so that few programs are compiled


def build(**options) -> TokenRegression:
    chosen = {"length": 9, "dimension": 2, "link": NET, "sparsity": 3, **options}
    return TokenRegression(**chosen)


@functools.cache
def drawn_many(law: str = "independent", token_law: str = "gaussian") -> Prompts:
    """One large draw of each law, shared by the statistical tests: it does not depend on the link."""
    return jax.tree.map(np.asarray, draw(build(index_law=law, token_law=token_law), KEY, MANY))


def decoded(task: TokenRegression, tokens: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """z and y position by position."""
    scale = math.sqrt(task.dimension / task.sparsity) if task.scaled else 1.0
    codes = np.asarray(task.codes, np.float64) * scale
    z, y = [], []
    for x, t in zip(tokens, indices, strict=True):
        rows = [t[i if len(t) > 1 else 0] for i in range(task.length)]
        z.append([np.concatenate([x[i], codes[i], *[codes[j] for j in row]]) for i, row in enumerate(rows)])
        y.append([float(task.link(np.stack([x[j] for j in row]).astype(np.float32))) for row in rows])
    return np.array(z), np.array(y)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("law", INDEX_LAWS)
def test_inputs_and_labels_are_those_of_the_definition(law, scaled):
    task = build(index_law=law, scaled=scaled, codes=sign_codes(9, 5, seed=3))
    raw = draw(task, KEY, 4)
    drawn = task.decode(raw)
    z, y = decoded(task, np.asarray(raw.tokens), np.asarray(raw.indices))
    assert drawn.x.shape == z.shape == (4, 9, 2 + 4 * 5) == (4, *task.input_shape)
    assert (task.code_dimension, task.features) == (5, 22)
    assert np.allclose(drawn.x, z, atol=1e-6) and np.allclose(drawn.y, y, atol=1e-5)
    assert np.array_equal(drawn.y, drawn.truth) and drawn.x.dtype == drawn.y.dtype == jnp.float32


def test_the_first_prompts_do_not_depend_on_how_many_are_drawn():
    task = build(index_law="null-half", token_law="half-null")
    long = jax.tree.map(np.asarray, draw(task, KEY, 32))
    for m in (1, 4):
        short = jax.tree.map(np.asarray, draw(task, KEY, m))
        assert np.array_equal(short.tokens, long.tokens[:m]) and np.array_equal(short.indices, long.indices[:m])


def test_scaling_touches_the_codes_alone():
    plain, scaled = build(), build(scaled=True)
    raw = draw(plain, KEY, 4)
    a, b = plain.decode(raw), scaled.decode(raw)
    assert np.array_equal(a.x[..., :2], b.x[..., :2]) and np.array_equal(a.y, b.y)
    assert np.allclose(a.x[..., 2:] * math.sqrt(2 / 3), b.x[..., 2:], atol=1e-6)


def test_independent_indices_are_uniform_and_independent():
    t = drawn_many().indices
    assert t.shape == (MANY, 9, 3)
    counts = np.stack([np.bincount(t[:, i, j], minlength=9) for i in range(9) for j in range(3)])
    assert stats.chisquare(counts.ravel()).pvalue > 1e-5
    pairs = [((0, 0), (0, 1)), ((0, 0), (1, 0)), ((2, 1), (8, 2))]
    for (i, j), (other, slot) in pairs:
        table = np.histogram2d(t[:, i, j], t[:, other, slot], bins=9)[0]
        assert stats.chi2_contingency(table).pvalue > 1e-5


def test_shared_indices_make_a_constant_sequence():
    task = build(index_law="shared")
    raw = drawn_many("shared")
    assert raw.indices.shape == (MANY, 1, 3)
    drawn = task.decode(raw)
    assert np.array_equal(drawn.y, np.repeat(np.asarray(drawn.y)[:, :1], 9, axis=1))
    asked = np.asarray(drawn.x)[:, :, 2 + task.code_dimension :]
    assert np.array_equal(asked, np.repeat(asked[:, :1], 9, axis=1))
    counts = np.bincount(raw.indices.ravel(), minlength=9)
    assert stats.chisquare(counts).pvalue > 1e-5


@pytest.mark.parametrize(("length", "first"), [(7, 4), (8, 4), (9, 5), (10, 5), (11, 6)])
def test_the_null_half_starts_at_half_the_length(length, first):
    """Positions i ≥ N/2 counted from 1: N/2+1 of them for even N."""
    null = build(length=length).in_null_half()
    assert (np.flatnonzero(null) + 1).tolist() == list(range(first, length + 1))


def test_in_the_null_half_tokens_are_null_and_the_first_tokens_are_asked_for():
    raw = drawn_many("null-half", "half-null")
    assert (raw.tokens[:, 4:] == 0).all()
    assert stats.kstest(raw.tokens[:, :4].ravel()[:MANY], "norm").pvalue > 1e-5
    assert (raw.indices[:, 4:] == np.arange(3)).all()
    counts = np.bincount(raw.indices[:, :4].ravel(), minlength=9)
    assert len(counts) == 9 and stats.chisquare(counts).pvalue > 1e-5


def test_tokens_are_standard_normal():
    x = drawn_many().tokens
    assert stats.kstest(x.ravel()[:MANY], "norm").pvalue > 1e-5
    flat = x.reshape(MANY, -1)
    assert np.abs(flat.T @ flat / MANY - np.eye(18)).max() < 6 / math.sqrt(MANY)


def test_tokens_and_indices_are_independent():
    raw = drawn_many()
    centred = raw.indices.reshape(MANY, -1) - 4.0
    assert np.abs(centred.T @ raw.tokens.reshape(MANY, -1) / MANY).max() < 5.5 * centred.std() / math.sqrt(MANY)


@pytest.mark.parametrize("law", ["independent", "null-half"])
def test_evaluation_on_shared_prompts(law):
    trained, judged = build(index_law=law), build(index_law=law, evaluation="shared")
    assert np.array_equal(draw(trained, KEY, 4).indices, draw(judged, KEY, 4).indices), "training is the same"
    assert np.array_equal(judged_draw(trained, KEY, 4).indices, draw(trained, KEY, 4).indices)
    shared = judged_draw(judged, KEY, 4)
    assert shared.indices.shape == (4, 1, 3)
    y = np.asarray(judged.decode(shared).y)
    assert np.array_equal(y, np.repeat(y[:, :1], 9, axis=1)) and len(np.unique(y)) == 4


def test_the_error_is_the_mean_square_over_positions():
    task = build()
    truth = np.arange(18, dtype=np.float32).reshape(2, 9)
    guess = truth.copy()
    guess[0, 3] += 3
    guess[1] -= 2
    assert np.allclose(task.error(jnp.asarray(guess), jnp.asarray(truth)), [1.0, 4.0])
    assert task.regression and task.population_size is None
    with pytest.raises(KroghError, match="the inputs of the task 'qstr' cannot be listed"):
        task.population()


@pytest.mark.parametrize("token_law", TOKEN_LAWS)
@pytest.mark.parametrize("law", INDEX_LAWS)
def test_the_null_risk_against_a_sample(law, token_law):
    raw = drawn_many(law, token_law)
    for link in (MeanLink(unit_vector(2)), CentredSquareLink()):
        task = build(link=link, index_law=law, token_law=token_law)
        risks = np.square(np.asarray(task.decode(raw).y, np.float64)).mean(axis=1)
        assert abs(task.baselines()["null_risk"] - risks.mean()) < 4.5 * risks.std() / math.sqrt(len(risks))


def test_the_null_risk_is_that_of_the_prompts_one_is_judged_on():
    for token_law in TOKEN_LAWS:
        options = {"link": CentredSquareLink(), "token_law": token_law}
        shared = build(index_law="shared", **options).null_risk()
        assert build(index_law="null-half", evaluation="shared", **options).null_risk() == shared
        assert build(index_law="null-half", **options).null_risk() != shared


def test_null_risks_of_networks():
    one = TwoLayerLink.random(q=1, d=2, width=4)
    assert build(link=one, sparsity=1).baselines()["null_risk"] == pytest.approx(1.0, rel=1e-5)
    assert build(link=one, sparsity=1, token_law="half-null").baselines() == {}
    assert build().baselines() == {}
    assert build(link=RidgeLink(np.ones((1, 1, 2)), ridge="sine"), sparsity=1).baselines() == {}


def test_the_reference_null_predictor():
    """Qualified in the reference: MSE 1 for the unit linear link."""
    assert TokenRegression.example().null_risk() == pytest.approx(1.0, abs=1e-6)


def test_limits_count_the_unknowns():
    assert build().limits() == {"labels": 6.0, "samples": 6.0 / 9}
    assert build(index_law="shared").limits() == {"labels": 6.0, "samples": 6.0}


def test_codes_default_to_those_of_the_experiments():
    task = TokenRegression(12, 10, LinearLink(unit_vector(10)))
    assert task.code_dimension == 12 and task.features == 10 + 2 * 12
    assert np.array_equal(task.codes, sign_codes(12, 12))
    assert TokenRegression(1, 2, LinearLink(unit_vector(2))).features == 4


def test_a_cohort_mixes_directions_and_codes():
    tasks = [build(link=LinearLink(unit_vector(2, s)), sparsity=1, codes=sign_codes(9, 6, s)) for s in range(3)]
    assert len({structure_of(task) for task in tasks}) == 1
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *tasks)
    raw = draw(tasks[0], KEY, 4)
    together = jax.vmap(lambda one: one.decode(raw))(stacked)
    for place, one in enumerate(tasks):
        for part, alone in zip(jax.tree.leaves(together), jax.tree.leaves(one.decode(raw)), strict=True):
            assert np.allclose(np.asarray(part)[place], alone, atol=1e-6)


def test_fields_can_be_replaced():
    task = build()
    doubled = replaced(task, "link.a", 2 * np.asarray(NET.a))
    raw = draw(task, KEY, 4)
    assert np.allclose(doubled.decode(raw).y, 2 * np.asarray(task.decode(raw).y), atol=1e-5)
    assert replaced(task, "index_law", "shared").index_law == "shared"
    assert structure_of(replaced(task, "scaled", True)) != structure_of(task)


def test_prompts_of_ones_own():
    task = build()
    tokens, indices = np.ones((2, 9, 2)), np.full((2, 9, 3), 8)
    assert np.asarray(task.decode(task.prompts(tokens, indices)).y).shape == (2, 9)
    assert task.prompts(tokens, indices[:, :1]).indices.shape == (2, 1, 3)
    for wrong, echo in [
        (np.full((2, 9, 3), 9), r"0\.\.8; got \[9\]"),
        (np.full((2, 9, 3), -1), r"0\.\.8; got \[-1\]"),
        (np.zeros((2, 9, 2), int), r"\[2, 9, 2\]"),
        (np.zeros((2, 9, 3)), "float64"),
    ]:
        with pytest.raises(KroghError, match=echo):
            task.prompts(tokens, wrong)
    with pytest.raises(KroghError, match=r"\[2, 8, 2\]"):
        task.prompts(tokens[:, :8], indices)


@pytest.mark.parametrize(
    ("options", "echo"),
    [
        ({"length": 0}, "length=0"),
        ({"dimension": 0}, "dimension=0"),
        ({"sparsity": 0}, "sparsity=0"),
        ({"index_law": "indepedent"}, "'indepedent'; did you mean 'independent'"),
        ({"token_law": "uniform"}, "token_law 'uniform'"),
        ({"evaluation": "simple"}, "evaluation 'simple'"),
        ({"length": 6, "token_law": "half-null"}, r"q=3, N=6 \(try length=7\)"),
        ({"length": 5, "index_law": "null-half"}, "q=3, N=5"),
        ({"dimension": 3}, "3·3 = 9 numbers; got rows of 6"),
        ({"codes": np.ones((8, 5))}, r"\[9, code dimension\]; got shape \[8, 5\]"),
        ({"codes": np.ones(9)}, r"got shape \[9\]"),
        ({"codes": np.ones((9, 5))}, "codes 0 and 1 are equal"),
        ({"link": LinearLink(unit_vector(2))}, "sparsity=3"),
    ],
)
def test_bad_values_are_refused_with_what_was_given(options, echo):
    with pytest.raises(KroghError, match=echo):
        build(**options)
