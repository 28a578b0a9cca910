"""What forms inside a network that learns Markov chains in context (dissertation, §8.3.2 and Appendix E.2).

previous token      mean over i ≥ 2 of the first layer's attention from position i to i-1
induction           attention of the last position, in the second layer, to successors of the present symbol:
                    Σ_{j ≥ 2: x_{j-1} = x_t} S_tj
v̂                   effective positional encoding of the first layer, softmax over r of (e_x W_Q)·v_r/√d,
                    averaged over symbols and heads; v̂_1 is the token itself, v̂_2 the one before
even-odd index      mean of u_j over even 4 ≤ j ≤ J minus the mean over odd 3 ≤ j ≤ J, on v̂ or on the minimal
                    model's v; positive for a bias to look back an odd number of tokens. u_2 is left out: it is the
                    useful coordinate
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from krogh.errors import require
from krogh.models.base import Model, predict_judged
from krogh.models.causal_transformer import CausalTransformer
from krogh.models.minimal_induction import MinimalInduction
from krogh.probes.base import Moment, Probe, probe
from krogh.tasks.base import Task
from krogh.tasks.chains import DirichletRows, DoublyStochastic, MarkovChains, Unigram, gram_counts, stationary
from krogh.values import replaced, structure

LAST = 10  # J of the even-odd index
SHOWN = 8  # coordinates of v̂ or v that a curve holds
LOOKED_AT = 64  # sequences whose attention is looked at


def even_odd(u: Float[Array, "*rows t"], last: int = LAST) -> Float[Array, " *rows"]:
    """The even-odd index of the first `last` coordinates, counted from 1 (fewer where there are fewer)."""
    last = min(last, u.shape[-1])
    require(last >= 4, f"the even-odd index needs at least 4 coordinates; got {last}")
    return jnp.mean(u[..., 3:last:2], axis=-1) - jnp.mean(u[..., 2:last:2], axis=-1)


def previous_token(weights: Float[Array, "*rows t t"]) -> Float[Array, " *rows"]:
    """Mean attention of positions 2..t to the position before."""
    return jnp.mean(jnp.diagonal(weights, offset=-1, axis1=-2, axis2=-1), axis=-1)


def induction(weights: Float[Array, "batch heads t t"], tokens: Int[Array, "batch t"]) -> Float[Array, "batch heads"]:
    """Attention of the last position to the successors of its symbol."""
    follows = jnp.pad(tokens[:, :-1] == tokens[:, -1:], ((0, 0), (1, 0)))
    return jnp.sum(jnp.where(follows[:, None, :], weights[:, :, -1, :], 0.0), axis=-1)


@probe("attention-scores")
class AttentionScores(Probe):
    """Previous-token score of the first layer and induction score of the second, each of its best head."""

    def columns(self, task: Task) -> tuple[str, ...]:
        return ("previous_token", "induction")

    def measure(self, moment: Moment) -> Float[Array, " 2"]:
        model, tokens = moment.model, moment.validation.x[:LOOKED_AT]
        assert isinstance(model, CausalTransformer)
        first, second, *_ = model.attention(moment.params, tokens)
        back = jnp.max(jnp.mean(previous_token(first), axis=0))
        return jnp.stack([back, jnp.max(jnp.mean(induction(second, tokens), axis=0))])

    def check(self, task: Task, model: Model) -> None:
        deep = isinstance(model, CausalTransformer) and model.layers >= 2
        require(deep, f"attention-scores needs a 'causal-transformer' of two layers or more; got {model!r}")


@probe("positional-encoding")
class PositionalEncoding(Probe):
    """The even-odd index of v̂, and its first coordinates (at most eight)."""

    def columns(self, task: Task) -> tuple[str, ...]:
        return ("even_odd", *(f"encoding_{j}" for j in range(1, min(SHOWN, task.input_shape[0]) + 1)))

    def measure(self, moment: Moment) -> Float[Array, " columns"]:
        model = moment.model
        assert isinstance(model, CausalTransformer)
        v = jnp.mean(model.positional(moment.params)[0], axis=(0, 1))
        return jnp.concatenate([even_odd(v)[None], v[:SHOWN]])

    def check(self, task: Task, model: Model) -> None:
        relative = isinstance(model, CausalTransformer) and model.positions == "relative"
        require(relative, f"positional-encoding needs a 'causal-transformer' with relative positions; got {model!r}")
        require(task.input_shape[0] >= 4, f"the even-odd index needs length 4; got length {task.input_shape[0]}")


@probe("minimal-weights")
class MinimalWeights(Probe):
    """W and v of the minimal model: how diagonal W is, the even-odd index of v, how far v is from constant, v1, v2, ...

    `diag_ratio` is mean diagonal / mean rest of W (Lemma 8.4), `diag_gap` their difference, `v_spread` is
    max_j |v_j - v_1| / |v_1| over the first eight j.
    """

    def columns(self, task: Task) -> tuple[str, ...]:
        shown = min(SHOWN, task.input_shape[0])
        return ("diag_ratio", "diag_gap", "v_even_odd", "v_spread", *(f"v{j}" for j in range(1, shown + 1)))

    def measure(self, moment: Moment) -> Float[Array, " columns"]:
        W, v = moment.params["W"], moment.params["v"]
        k = W.shape[0]
        diagonal = jnp.trace(W) / k
        rest = (jnp.sum(W) - jnp.trace(W)) / (k * (k - 1))
        spread = jnp.max(jnp.abs(v[:SHOWN] - v[0])) / jnp.abs(v[0])
        return jnp.concatenate([jnp.stack([diagonal / rest, diagonal - rest, even_odd(v), spread]), v[:SHOWN]])

    def check(self, task: Task, model: Model) -> None:
        require(isinstance(model, MinimalInduction), f"minimal-weights needs 'minimal-induction'; got {model.kind!r}")
        require(task.input_shape[0] >= 4, f"the even-odd index needs length 4; got length {task.input_shape[0]}")


@probe("bayes-distance")
class BayesDistance(Probe):
    """KL(exact predictor ‖ network) at the last position, and what the exact predictor itself loses.

    The exact predictor of a chain that starts stationary weighs each chain of the bigram's posterior by π_{x_1}(P)
    (Remark 8.1): E[π_{x_1}(P) P_{x_t}] / E π_{x_1}(P), here over `samples` draws of P for each of `size` validation
    sequences, the same draws at every look. The bigram strategy is the same without the weights.
    """

    size: int = structure(default=64)
    samples: int = structure(default=256)

    def columns(self, task: Task) -> tuple[str, ...]:
        return ("distance_bayes", "baseline_bayes")

    def measure(self, moment: Moment) -> Float[Array, " 2"]:
        task, seen = moment.task, jax.tree.map(lambda leaf: leaf[: self.size], moment.validation)
        said = self.predictor(task, seen.x)
        prediction = predict_judged(moment.model, task, moment.params, seen.x)
        return jnp.stack([jnp.mean(task.distance(said, prediction)), jnp.mean(task.judge_strategy(said, seen))])

    def predictor(self, task: Task, tokens: Int[Array, "batch t"]) -> Float[Array, "batch k"]:
        """The law of the next token."""
        assert isinstance(task, MarkovChains)
        k = task.k
        posterior = gram_counts(tokens, k, 2) + jnp.asarray(task.prior.pseudocounts(k), jnp.float32)[None, None, :]
        drawn = jax.random.gamma(jax.random.key(0), posterior[:, None], (len(tokens), self.samples, k, k))
        P = drawn / jnp.sum(drawn, axis=-1, keepdims=True)
        first, last = (jax.nn.one_hot(tokens[:, place], k) for place in (0, -1))
        weight = jnp.einsum("bsi,bi->bs", stationary(P), first)
        mean = jnp.einsum("bs,bsij,bi->bj", weight, P, last)
        return mean / jnp.sum(mean, axis=-1, keepdims=True)

    def check(self, task: Task, model: Model) -> None:
        known = (
            isinstance(task, MarkovChains)
            and (task.order, task.start) == (2, "stationary")
            and isinstance(task.prior, DirichletRows)
            and task.judged is None
        )
        words = "'markov-chains' of order 2 with Dirichlet rows and a stationary start, judged on the same law"
        require(known, f"bayes-distance needs {words}; got {task!r}")


PARTS = {"dirichlet": DirichletRows, "unigram": Unigram, "doubly_stochastic": DoublyStochastic}


@probe("part-losses")
class PartLosses(Probe):
    """The loss on parts of the distribution (Figure E.6): flat Dirichlet rows, equal rows, doubly stochastic chains.

    On `size` sequences of each, the same ones for all trials and at every look.
    """

    size: int = structure(default=512)

    def columns(self, task: Task) -> tuple[str, ...]:
        return tuple(f"loss_{name}" for name in PARTS)

    def measure(self, moment: Moment) -> Float[Array, " 3"]:
        losses = []
        for place, prior in enumerate(PARTS.values()):
            part = replaced(replaced(moment.task, "prior", prior()), "judged", None)
            examples = part.batch(jax.random.key(place), self.size)
            prediction = predict_judged(moment.model, part, moment.params, examples.x)
            losses.append(jnp.mean(part.judge(prediction, examples)))
        return jnp.stack(losses)

    def check(self, task: Task, model: Model) -> None:
        chains = isinstance(task, MarkovChains) and task.order == 2
        require(chains, f"part-losses needs the task 'markov-chains' of order 2; got {task!r}")
