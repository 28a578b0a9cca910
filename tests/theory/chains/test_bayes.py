"""Posteriors and the exact predictor, against grids, simulation and the strategies of the task."""

from __future__ import annotations

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from krogh.errors import KroghError
from krogh.tasks import DirichletRows, MarkovChains, Unigram
from krogh.tasks.chains import strategy_losses
from krogh.theory import predict
from krogh.theory.chains.bayes import (
    baseline_losses,
    bayes_losses,
    bayes_prediction,
    entry_posterior,
    row_posterior,
    stationary_posterior,
)
from krogh.theory.chains.laws import law_of


def test_the_posterior_of_a_row_has_the_bigram_strategy_as_its_mean():
    alpha = np.array([0.5, 2.0, 1.0])
    task = MarkovChains(3, 30, DirichletRows(alpha))
    tokens = np.random.default_rng(0).integers(0, 3, (4, 30)).astype(np.int32)
    said = np.asarray(task.strategies()["bigram"](jnp.asarray(tokens)))
    for word, strategy in zip(tokens, said, strict=True):
        counts = [sum(a == word[-1] and b == j for a, b in itertools.pairwise(word)) for j in range(3)]
        parameters = row_posterior(counts, alpha)
        law = scipy.stats.dirichlet(parameters)
        assert np.allclose(law.mean(), strategy, rtol=1e-5)
        for j in range(3):
            entry = entry_posterior(counts, j, alpha)
            assert math.isclose(entry.mean(), law.mean()[j]) and math.isclose(entry.var(), law.var()[j])


def test_the_summary_of_a_row():
    found = predict("chains/row-posterior", counts=(3, 1, 0))
    assert found["parameters"] == [4.0, 2.0, 1.0] and np.allclose(found["mean"], np.array([4, 2, 1]) / 7)
    law = scipy.stats.beta(4, 3)
    assert math.isclose(found["low"][0], law.ppf(0.025)) and math.isclose(found["high"][0], law.ppf(0.975))
    with pytest.raises(KroghError, match="at least two symbols"):
        predict("chains/row-posterior", counts=(3,))
    with pytest.raises(KroghError, match="counts must not be negative"):
        row_posterior([1, -1])


@pytest.mark.parametrize("word", [[0, 1], [0, 0, 1, 0], [1, 0, 0, 0, 1, 1, 0, 1], [0] * 9])
def test_the_exact_predictor_is_the_ratio_of_two_integrals(word):
    """P(x_1..x_t, y) / P(x_1..x_t), both summed over a grid of chains: no posterior, no weights."""
    law = law_of(DirichletRows(), 2, nodes=150)
    joint = law.pi[:, word[0]]
    for a, b in itertools.pairwise(word):
        joint = joint * law.P[:, a, b]
    exact = law.mean(joint[:, None] * law.P[:, word[-1]]) / law.mean(joint)
    found = bayes_prediction([word], 2, samples=40_000)
    assert (np.abs(found.mean[0] - exact) < 4.5 * found.error[0] + 1e-9).all()
    assert (found.error < 0.005).all() and abs(found.mean[0].sum() - 1) < 1e-9


def test_the_start_matters_for_short_contexts_and_is_forgotten():
    """After one token nothing but the start is known: it tells that its own symbol is likely."""
    differences = []
    for t in (2, 10, 100):
        tokens = np.random.default_rng(t).integers(0, 2, (20, t))
        counts = np.array([[np.sum((x[:-1] == x[-1]) & (x[1:] == j)) for j in range(2)] for x in tokens])
        bigram = (counts + 1) / (counts.sum(axis=1, keepdims=True) + 2)
        differences.append(np.abs(bayes_prediction(tokens, 2, samples=4000).mean - bigram).mean())
    assert differences[0] > 2 * differences[1] and differences[1] > 4 * differences[2]


def test_nothing_loses_less_than_the_exact_predictor():
    task = MarkovChains(2, 8)
    exact, bigram = bayes_losses(task, 2000, 0, 100), strategy_losses(task, 2000, 0)["bigram"]
    gain = bigram - exact
    assert gain.mean() > 3 * gain.std() / math.sqrt(2000)


def test_baselines_by_name():
    found = predict("chains/baselines", length=20, sequences=200, bayes=50)
    assert [name for name in found if not name.endswith("_error")] == ["uniform", "unigram", "bigram", "bayes"]
    task = MarkovChains(2, 20)
    losses = strategy_losses(task, 200, 0) | {"bayes": bayes_losses(task, 200, 0, 50)}
    for name, each in losses.items():
        assert math.isclose(found[name], each.mean())
        assert math.isclose(found[f"{name}_error"], each.std(ddof=1) / math.sqrt(200))
    with pytest.raises(KroghError, match="knows Dirichlet chains that start stationary; got 'unigram'"):
        baseline_losses(MarkovChains(2, 8, Unigram()), 10, bayes=10)
    with pytest.raises(KroghError, match=r"tokens must lie in 0\.\.1; got 2"):
        bayes_prediction([[0, 2]], 2)


@pytest.mark.parametrize(("ones", "twos"), [(0, 0), (1, 0), (3, 7), (0, 20), (12, 12), (60, 40)])
def test_the_posterior_of_the_stationary_law_weighs_its_prior(ones, twos):
    """By importance: draw chains, weigh each by the chance of the symbols."""
    a, b = np.random.default_rng(0).random((2, 100_000))
    pi = (1 - b) / (2 - a - b)
    logs = ones * np.log(pi) + twos * np.log1p(-pi)
    weights = np.exp(logs - logs.max())
    expected = weights @ pi / weights.sum()
    error = math.sqrt(weights**2 @ (pi - expected) ** 2) / weights.sum()
    assert abs(stationary_posterior(ones, twos) - expected) < 4.5 * error


def test_the_posterior_of_the_stationary_law_is_symmetric_and_narrows():
    assert math.isclose(stationary_posterior(30, 70), 1 - stationary_posterior(70, 30), rel_tol=1e-12)
    assert abs(stationary_posterior(30_000, 70_000) - 0.3) < 1e-4
    assert math.isclose(stationary_posterior(12, 5), stationary_posterior(12, 5, 200), rel_tol=1e-12)
