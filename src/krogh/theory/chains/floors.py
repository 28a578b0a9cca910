"""What the constructions reach at best when their outputs are logits (Fact 8.3; Proposition 8.2 and its footnote).

    induction   the two-layer head in the limit c → ∞: a · (frequency of each symbol after the current one)
    bigram      the minimal model with v = δ_2, W = s·I: s · (count of each symbol after the current one)
    unigram     the minimal model with v = δ_1, W = s·11ᵀ: s · (count of each symbol)

Softmax turns none of them into (c + 1)/(N + k), so that there is a best scale and a loss that stays: floors above the
bigram baseline. The loss is convex in the scale, and minimised over one seeded sample. The head's position 1 attends to
itself and sees a step x_1 → x_1 that was none; where nothing matches it falls back to all positions.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.tasks.chains import MarkovChains, judged_sequences, successor_counts
from krogh.theory.chains.laws import PriorName, named_prior
from krogh.theory.numerics import softmax
from krogh.theory.prediction import prediction

Array = NDArray[np.float64]
STEEPEST = 1e6
"""The largest factor on logits that is looked for."""


class Floor(NamedTuple):
    """The best scale of some logits, the loss E KL(true row ‖ softmax) there, and its standard error."""

    scale: float
    loss: float
    error: float


def induction_frequencies(tokens: ArrayLike, k: int) -> Array:
    """The head's output at the last position for c → ∞ [batch, k]: Σ_{prev(j) = x_t} onehot(x_j) / #{j: prev(j) = x_t}.

    prev(j) = x_{j-1}, and prev(1) = x_1; all positions count where none matches.
    """
    tokens = np.asarray(tokens)
    before = np.concatenate([tokens[:, :1], tokens[:, :-1]], axis=1)
    matches = before == tokens[:, -1:]
    matches |= ~matches.any(axis=1, keepdims=True)
    hits = matches[:, :, None] & (tokens[:, :, None] == np.arange(k))
    counts = hits.sum(axis=1).astype(np.float64)
    return counts / counts.sum(axis=-1, keepdims=True)


def best_scale(logits: ArrayLike, truth: ArrayLike) -> Floor:
    """The factor a at which softmax(a·logits) is nearest to `truth`, and the mean KL(truth ‖ softmax(a·logits)) there.

    Both are [cases, k]. The mean is convex in a, and least where Σ_i (softmax(a·f)_i - truth_i) f_i is 0 on average.
    """
    f, p = np.asarray(logits, np.float64), np.asarray(truth, np.float64)
    require(
        f.ndim == 2 and f.shape == p.shape,
        f"logits and truth have one shape [cases, k]; got {list(f.shape)} and {list(p.shape)}",
    )

    f = f - f.mean(axis=-1, keepdims=True)  # no softmax sees it, and logits that are all equal become 0 exactly

    def slope(a: float) -> float:
        return float(np.mean(np.sum((softmax(a * f) - p) * f, axis=-1)))

    way = -math.copysign(1.0, slope(0.0))
    end = way / max(float(np.abs(f).max()), 1 / STEEPEST)
    while slope(end) * way < 0 and abs(end) < STEEPEST:
        end *= 2
    a = float(scipy.optimize.brentq(slope, *sorted((0.0, end)), xtol=1e-12)) if slope(0.0) * slope(end) < 0 else end
    if slope(0.0) == 0:
        a = 0.0
    losses = divergences(p, softmax(a * f))
    error = float(losses.std(ddof=1) / math.sqrt(len(losses))) if len(losses) > 1 else math.inf
    return Floor(a, float(losses.mean()), error)


def divergences(p: Array, q: Array) -> Array:
    """KL(p ‖ q) of each row of probabilities, in nats."""
    ratios = np.log(np.where(p > 0, p, 1.0)) - np.log(np.where(p > 0, np.maximum(q, 1e-300), 1.0))
    return np.asarray(np.sum(p * ratios, axis=-1))


def loss_floors(task: MarkovChains, sequences: int = 20_000, seed: int = 0) -> dict[str, Floor]:
    """The floors of the induction head and of the minimal model's bigram and unigram weights on a task of order 2."""
    require(task.order == 2, f"floors are those of Markov chains, order=2; got order={task.order}")
    require_integer("sequences", sequences, 2)
    judged = judged_sequences(task, jax.random.key(seed), sequences)
    truth, tokens = np.asarray(judged.truth, np.float64), np.asarray(judged.tokens)
    return {
        "induction": best_scale(induction_frequencies(tokens, task.k), truth),
        "bigram": best_scale(np.asarray(successor_counts(judged.tokens, task.k, 2)), truth),
        "unigram": best_scale(np.asarray(successor_counts(judged.tokens, task.k, 1)), truth),
    }


@prediction(
    "chains/floors",
    source="dissertation, Fact 8.3 and Proposition 8.2 with its footnote",
    constants="all explicit; Monte Carlo over sequences, with standard errors",
)
def floors(
    k: int = 2, length: int = 100, prior: PriorName = "dirichlet", sequences: int = 20_000, seed: int = 0
) -> dict[str, Any]:
    """The least losses of the constructions as logits, and the scales that reach them.

    induction: a · frequencies of the two-layer head; bigram and unigram: s · counts of the minimal model.
    """
    found = loss_floors(MarkovChains(k, length, named_prior(prior)), sequences, seed)
    numbers: dict[str, Any] = {}
    for name, floor in found.items():
        numbers |= {f"{name}_scale": floor.scale, f"{name}_loss": floor.loss, f"{name}_error": floor.error}
    return numbers
