"""What can be inferred from a context: posteriors of rows, the exact predictor, and what strategies lose.

Given x_1..x_t and flat or other Dirichlet rows, the row of the symbol i has the posterior Dir(c_i + α) (8.1), with c_ij
the number of steps i → j; its mean is the bigram strategy (8.3). That forgets that x_1 was drawn from the stationary
law of the very same chain: the exact predictor weighs each chain by π_{x_1}(P) (Remark 8.1), and has no simple form.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.stats
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.tasks.chains import DirichletRows, MarkovChains, gram_counts, judged_sequences, strategy_losses
from krogh.theory.chains.laws import PriorName, named_prior, stationary_law, unit_nodes
from krogh.theory.prediction import check_open, check_positive, prediction

Array = NDArray[np.float64]
CHUNK = 2**20
"""Entries of tables that are drawn at a time."""


def row_posterior(counts: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """The parameters c + α of the Dirichlet posterior of a row (8.1), counts [..., k]."""
    counts = np.asarray(counts, np.float64)
    alpha = np.broadcast_to(np.asarray(alpha, np.float64), counts.shape[-1:])
    require(bool((counts >= 0).all()), f"counts must not be negative; got {counts.min():g}")
    require(bool((alpha > 0).all()), f"alpha must be positive; got {alpha.min():g}")
    return counts + alpha


def entry_posterior(counts: ArrayLike, entry: int, alpha: ArrayLike = 1.0) -> Any:
    """The posterior Beta(c_j + α_j, N - c_j + Σα - α_j) of one entry of a row (8.2), as a law of SciPy."""
    parameters = row_posterior(counts, alpha)
    own = parameters[..., entry]
    return scipy.stats.beta(own, parameters.sum(axis=-1) - own)


@prediction(
    "chains/row-posterior", source="dissertation, section 8.2.2 (8.1-8.3)", constants="all explicit, for Dirichlet rows"
)
def row_summary(counts: tuple[int, ...], alpha: float = 1.0, level: float = 0.95) -> dict[str, Any]:
    """What is known of a row after its symbol was followed so often by each other.

    Posterior Dir(c + α): the means (c_j + α)/(N + kα), and the central interval of each entry's Beta law.
    """
    require(len(counts) >= 2, f"counts must name at least two symbols; got {list(counts)}")
    check_positive(alpha=alpha)
    check_open("level", level, 0, 1)
    entries = [entry_posterior(counts, j, alpha) for j in range(len(counts))]
    intervals = [law.interval(level) for law in entries]
    return {
        "parameters": row_posterior(counts, alpha),
        "mean": [float(law.mean()) for law in entries],
        "deviation": [float(law.std()) for law in entries],
        "low": [float(low) for low, _ in intervals],
        "high": [float(high) for _, high in intervals],
    }


class Predicted(NamedTuple):
    """Probabilities [batch, k] of the next token, and their Monte Carlo standard errors."""

    mean: Array
    error: Array


def bayes_prediction(
    tokens: ArrayLike, k: int, alpha: ArrayLike = 1.0, samples: int = 4000, seed: int = 0
) -> Predicted:
    """The exact predictor of a chain that starts stationary: E[π_{x_1}(P) P_{x_t}] / E π_{x_1}(P) (Remark 8.1).

    The expectation is over the Dirichlet posterior of the rows given the steps of `tokens` [batch, t], by `samples`
    draws each; errors are those of a ratio of means.
    """
    tokens = np.asarray(tokens)
    require(tokens.ndim == 2 and tokens.dtype.kind in "iu", f"tokens must be integers [batch, t]; got {tokens.dtype}")
    require_integer("samples", samples, 2)
    require(bool(((tokens >= 0) & (tokens < k)).all()), f"tokens must lie in 0..{k - 1}; got {tokens.max()}")
    posterior = row_posterior(np.asarray(gram_counts(tokens.astype(np.int32), k, 2)), alpha)
    random = np.random.default_rng([seed, k, samples])
    mean, error = np.empty((2, len(tokens), k))
    step = max(1, CHUNK // (samples * k * k))
    for first in range(0, len(tokens), step):
        part = slice(first, first + step)
        words, parameters = tokens[part], posterior[part]
        drawn = random.standard_gamma(np.repeat(parameters[:, None], samples, axis=1))
        P = drawn / drawn.sum(axis=-1, keepdims=True)
        places = np.arange(len(words))
        start = stationary_law(P)[places, :, words[:, 0], None]
        start /= start.mean(axis=1, keepdims=True)
        row = P[places, :, words[:, -1]]
        mean[part] = (start * row).mean(axis=1)
        spread = (start * (row - mean[part][:, None])).std(axis=1, ddof=1)
        error[part] = spread / np.sqrt(samples)
    return Predicted(mean, error)


def stationary_posterior(ones: int, twos: int, nodes: int = 100) -> float:
    """The posterior mean of π_1 of a flat chain on two symbols, given n_1 and n_2 independent draws from π.

    π_1 has the prior density 1/(2 max(π, 1-π)²); the integral against π^{n_1}(1-π)^{n_2} is by quadrature, on the two
    sides of the density's corner at 1/2 and on a piece around the peak. It treats tokens as independent: the unigram
    strategy (n_1+1)/(t+2) does the same with a flat prior.
    """
    for name, count in (("ones", ones), ("twos", twos)):
        require_integer(name, count, 0)
    n = ones + twos
    peak, width = (ones + 1) / (n + 2), 8 / np.sqrt(n + 4)
    cuts = np.unique(np.clip([0.0, peak - width, 0.5, peak, peak + width, 1.0], 0, 1))
    points, weights = unit_nodes(nodes)
    pi = np.concatenate([low + (high - low) * points for low, high in itertools.pairwise(cuts)])
    mass = np.concatenate([(high - low) * weights for low, high in itertools.pairwise(cuts)])
    logs = ones * np.log(pi) + twos * np.log1p(-pi) - 2 * np.log(np.maximum(pi, 1 - pi))
    density = mass * np.exp(logs - logs.max())
    return float(density @ pi / density.sum())


class Baseline(NamedTuple):
    """The mean loss of a strategy, and its standard error."""

    mean: float
    error: float


def baseline_losses(task: MarkovChains, sequences: int = 20_000, seed: int = 0, bayes: int = 0) -> dict[str, Baseline]:
    """E KL(true row ‖ strategy) at the last position of judged sequences, for every strategy of a task.

    With `bayes`, also that of the exact predictor, by so many draws for each sequence; flat or other Dirichlet chains.
    """
    require_integer("sequences", sequences, 2)
    found = {name: _baseline(losses) for name, losses in strategy_losses(task, sequences, seed).items()}
    if bayes:
        found["bayes"] = _baseline(bayes_losses(task, sequences, seed, bayes))
    return found


def bayes_losses(task: MarkovChains, sequences: int, seed: int, samples: int) -> Array:
    """KL(true row ‖ exact predictor) of the sequences that `strategy_losses` has, one number for each."""
    law = task.prior if task.judged is None else task.judged
    known = isinstance(law, DirichletRows) and task.order == 2 and task.start == "stationary"
    require(
        known, f"the exact predictor knows Dirichlet chains that start stationary; got {law.kind!r}, {task.start!r}"
    )
    judged = judged_sequences(task, jax.random.key(seed), sequences)
    truth = np.asarray(judged.truth, np.float64)
    alpha = np.asarray(law.pseudocounts(task.k), np.float64)
    said = bayes_prediction(np.asarray(judged.tokens), task.k, alpha, samples, seed).mean
    return np.sum(truth * (np.log(np.maximum(truth, 1e-300)) - np.log(said)), axis=-1)


def _baseline(losses: Array) -> Baseline:
    return Baseline(float(losses.mean()), float(losses.std(ddof=1) / np.sqrt(len(losses))))


@prediction(
    "chains/baselines",
    source="dissertation, section 8.2.2 and E.2 (the horizontal lines of Figs 8.1-8.5)",
    constants="all explicit; Monte Carlo over sequences, with standard errors",
)
def baselines(
    k: int = 2,
    length: int = 100,
    prior: PriorName = "dirichlet",
    order: int = 2,
    eps: float = 0.25,
    sequences: int = 20_000,
    bayes: int = 0,
    seed: int = 0,
) -> dict[str, Any]:
    """What each strategy loses at the last position: E KL(true row ‖ strategy), in nats.

    `bayes` is how many draws the exact predictor of a stationary start takes for each sequence (0 leaves it out).
    """
    task = MarkovChains(k, length, named_prior(prior, eps), order)
    found = baseline_losses(task, sequences, seed, bayes)
    return {name: each.mean for name, each in found.items()} | {
        f"{name}_error": each.error for name, each in found.items()
    }
