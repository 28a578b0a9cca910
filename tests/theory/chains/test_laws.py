"""Expectations over priors of chains: quadrature and samples against the task's own sampler and closed forms."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks import DirichletRows, DoublyStochastic, GivenRows, Hard, Interpolated, Mixture, Unigram
from krogh.theory.chains.laws import Law, law_of, named_prior, stationary_law

PRIORS = [DirichletRows(), DoublyStochastic(), Hard(0.2), Unigram(), Interpolated(0.4), Mixture(0.3)]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.kind)
def test_quadrature_of_two_symbols_agrees_with_the_task_s_sampler(prior):
    law = law_of(prior, 2)
    assert law.exact and abs(law.weights.sum() - 1) < 1e-12 and np.abs(law.P.sum(axis=-1) - 1).max() < 1e-12
    drawn = np.asarray(jax.jit(lambda p: p.rows(jax.random.key(1), 4000, 2, 2))(prior), np.float64)
    statistics = {
        "P": lambda P: P.reshape(len(P), 4),
        "products": lambda P: np.einsum("sij,skl->sijkl", P, P).reshape(len(P), 16),
        "eigenvalue": lambda P: ((P[:, 0, 0] + P[:, 1, 1] - 1) ** np.arange(1, 5)[:, None]).T,
    }
    for name, statistic in statistics.items():
        sample = statistic(drawn)
        error = sample.std(axis=0) / math.sqrt(len(sample)) + 1e-6
        assert (np.abs(law.mean(statistic(law.P)) - sample.mean(axis=0)) < 4.5 * error).all(), name


@pytest.mark.parametrize("prior", [DirichletRows(), DirichletRows(0.5), DoublyStochastic(), Unigram(), Mixture(0.5)])
def test_samples_of_more_symbols_agree_with_the_task_s_sampler(prior):
    law = law_of(prior, 3, samples=4000)
    assert not law.exact and np.abs(law.P.sum(axis=-1) - 1).max() < 1e-12 and (law.P >= 0).all()
    drawn = np.asarray(jax.jit(lambda p: p.rows(jax.random.key(1), 4000, 3, 3))(prior), np.float64)
    squares, other = law.P.reshape(-1, 9) ** 2, drawn.reshape(-1, 9) ** 2
    error = np.hypot(law.error(squares), other.std(axis=0) / math.sqrt(4000))
    assert (np.abs(law.mean(squares) - other.mean(axis=0)) < 4.5 * error).all()
    assert np.array_equal(law.P, law_of(prior, 3, samples=4000).P), "a seed decides"


def test_stationary_laws_are_left_eigenvectors():
    P = np.random.default_rng(0).dirichlet(np.full(4, 0.3), (30, 4))
    pi = stationary_law(P)
    assert np.abs(np.einsum("si,sij->sj", pi, P) - pi).max() < 1e-14
    for table, law in zip(P, pi, strict=True):
        values, vectors = np.linalg.eig(table.T)
        exact = np.real(vectors[:, np.argmax(np.real(values))])
        assert np.allclose(law, exact / exact.sum(), atol=1e-10)


def test_errors_are_those_of_a_mean():
    values = np.random.default_rng(0).normal(size=(100, 2))
    sample = Law(np.zeros((100, 2, 2)), np.full(100, 0.01), False)
    assert np.allclose(sample.mean(values), values.mean(axis=0))
    assert np.allclose(sample.error(values), values.std(axis=0, ddof=1) / 10)


def test_priors_without_expectations_are_refused():
    with pytest.raises(KroghError, match="no expectations are known over the prior 'given'"):
        law_of(GivenRows(np.eye(2)), 2)
    with pytest.raises(KroghError, match="two symbols; got k=3"):
        law_of(Hard(0.1), 3)
    with pytest.raises(KroghError, match=r"prior must be one of dirichlet, .*; got prior='flat'"):
        named_prior("flat")
