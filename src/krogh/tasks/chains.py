"""In-context Markov chains and n-grams: every sequence comes from a chain of its own (dissertation, section 8.2).

An example is t+1 tokens of {0..k-1}: a model reads x_1..x_t and predicts x_2..x_{t+1}, a logit per symbol at every
position. Of order n, the law of the next token is the row of the last n-1 tokens in a table P [k^(n-1), k] that is
drawn anew for every sequence; n = 2 is a Markov chain. A context has the number s ← (s·k + y) mod k^(n-1) after the
token y: the newest token is the lowest digit.

    DirichletRows(alpha)        independent rows ~ Dir(α), flat unless α is given (section 8.2.1)
    DoublyStochastic()          uniform on the matrices whose rows and columns sum to one (Fig 8.4, E.6)
    Unigram()                   all rows equal: independent tokens
    Mixture(p)                  doubly stochastic with probability p, else unigram
    Interpolated(p)             k = 2, from unigram (p = 0) to doubly stochastic (p = 1) with λ = ±p(2a-1)
    Hard(eps)                   k = 2, a = b ~ U(1/2-ε, 1/2+ε) (Proposition E.3)
    GivenRows(P)                the same table for every sequence

A trial is judged at the last position, by KL(true row ‖ softmax of the logits) in nats: a sampled label would say
less. The strategies (section 8.2.2) are what a reader of the context may do: guess, count symbols, count pairs, ….
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8

from krogh.errors import require, require_integer, unknown
from krogh.tasks.base import ClassificationTask, Examples, task
from krogh.tasks.system import System
from krogh.values import AnyArray, Value, data, plain, structure, traced

STARTS = ("stationary", "uniform", "given")
TABLE_LIMIT = 2**14
"""The most entries k^n that a sequence's table may have."""
CONTEXT_LIMIT = 2**8
"""The most contexts k^(n-1) whose stationary law is computed: the chain on contexts is a square matrix of them."""
EXACT_LIMIT = 7
"""The most symbols for which doubly stochastic matrices are drawn by rejection: beyond, 0.2% are accepted."""
TRIES = {
    2: 1,
    3: 2,
    4: 4,
    5: 8,
    6: 8,
    7: 16,
}  # candidates per attempt, of which one in 1, 2, 5, 13, 43, 150 is accepted
SINKHORN_ROUNDS = 100
COMPOSED = 9  # contexts; of more, maps between them would take too much memory
UNROLLED = 8  # chains of so many states are eliminated without a loop
_LEAST = 1e-30
Latent = dict[str, Array]


# --- priors: laws of the table ---


class Prior(Value):
    """A law of transition tables."""

    @abc.abstractmethod
    def rows(self, key: PRNGKeyArray, size: int, contexts: int, k: int) -> Float[Array, "size contexts k"]:
        """`size` independent tables; the first m do not depend on `size`."""

    def latent(self, key: PRNGKeyArray, size: int, contexts: int, k: int) -> Latent:
        """What a sequence is drawn from: its table "P", and the "part" of a mixture that it is of (0 if it is none)."""
        return {"P": self.rows(key, size, contexts, k), "part": jnp.zeros(size, jnp.int32)}

    def check(self, k: int, order: int) -> None:
        """Refuse a number of symbols or an order that the prior does not know."""

    def pseudocounts(self, k: int) -> Float[AnyArray, " k"]:
        """The α of the add-α rule: that of a Dirichlet prior, and ones for every other."""
        return np.ones(k, np.float32)


class DirichletRows(Prior):
    """Rows P_s ~ Dir(α), all independent: `alpha` is one number for all symbols, one for each, or None for ones."""

    alpha: Float[AnyArray, "*symbols"] | None = data(optional=True, default=None)

    kind = "dirichlet"

    def __check_init__(self) -> None:
        if self.alpha is None or traced(self.alpha):
            return
        given = np.asarray(self.alpha)
        positive = bool(np.all(np.isfinite(given) & (given > 0)))
        require(positive, f"alpha must be positive numbers; got alpha={plain(self.alpha)} (1 is the flat law)")

    def check(self, k: int, order: int) -> None:
        shape = np.shape(self.alpha) if self.alpha is not None else ()
        require(
            shape in ((), (k,)),
            f"alpha is one number, or one for each of {k} symbols; got an array of shape {list(shape)}",
        )

    def rows(self, key: PRNGKeyArray, size: int, contexts: int, k: int) -> Float[Array, "size contexts k"]:
        shape = (size, contexts, k)
        if self.alpha is None:
            return flat_rows(key, shape)
        alpha = jnp.broadcast_to(self.pseudocounts(k), shape)
        logs = jax.random.loggamma(key, alpha)  # by logarithms: small α underflows
        drawn = jnp.exp(logs - jnp.max(logs, axis=-1, keepdims=True))
        return drawn / _total(drawn)

    def pseudocounts(self, k: int) -> Float[AnyArray, " k"]:
        return np.ones(k, np.float32) if self.alpha is None else jnp.broadcast_to(jnp.asarray(self.alpha), (k,))


class OneStepPrior(Prior):
    """What the priors share that are laws of square matrices: chains of order 2."""

    def check(self, k: int, order: int) -> None:
        require(
            order == 2,
            f"the prior {self.kind!r} is a law of Markov chains, order=2; got order={order} (DirichletRows has any)",
        )


class DoublyStochastic(OneStepPrior):
    """Uniform on the Birkhoff polytope: the stationary law is uniform, and counting symbols tells nothing.

    The first k-1 rows are flat, the last is what is left of the columns, accepted if nowhere negative: exact, and for
    k ≤ 7 fast enough. `sinkhorn` normalises rows and columns of exponentials in turn: any k, and *not* uniform.
    """

    sinkhorn: bool = structure(default=False)

    kind = "doubly-stochastic"

    def __check_init__(self) -> None:
        require(isinstance(self.sinkhorn, bool), f"sinkhorn must be True or False; got sinkhorn={self.sinkhorn!r}")

    def check(self, k: int, order: int) -> None:
        super().check(k, order)
        require(
            self.sinkhorn or k <= EXACT_LIMIT,
            f"exact doubly stochastic matrices are drawn for k ≤ {EXACT_LIMIT}; got k={k} "
            "(DoublyStochastic(sinkhorn=True) draws them for any k, but not uniformly)",
        )

    def rows(self, key: PRNGKeyArray, size: int, contexts: int, k: int) -> Float[Array, "size contexts k"]:
        return _sinkhorn(key, size, k) if self.sinkhorn else _birkhoff(key, size, k)[0]


class Unigram(Prior):
    """One flat row r for all contexts: tokens are independent, and counting symbols is optimal."""

    kind = "unigram"

    def rows(self, key: PRNGKeyArray, size: int, contexts: int, k: int) -> Float[Array, "size contexts k"]:
        return jnp.broadcast_to(flat_rows(key, (size, 1, k)), (size, contexts, k))


class Mixture(OneStepPrior):
    """Per sequence doubly stochastic with probability p, else unigram; `latent["part"]` is 1 or 0."""

    p: Float[AnyArray, ""] = data()

    kind = "mixture"

    def __check_init__(self) -> None:
        _check_share("p", self.p)

    def check(self, k: int, order: int) -> None:
        super().check(k, order)
        DoublyStochastic().check(k, order)

    def rows(self, key: PRNGKeyArray, size: int, contexts: int, k: int) -> Float[Array, "size contexts k"]:
        return self.latent(key, size, contexts, k)["P"]

    def latent(self, key: PRNGKeyArray, size: int, contexts: int, k: int) -> Latent:
        coin, even, equal = jax.random.split(key, 3)
        doubly = jax.random.uniform(coin, (size,), jnp.float32) < self.p
        chains = DoublyStochastic().rows(even, size, contexts, k)
        tables = jnp.where(doubly[:, None, None], chains, Unigram().rows(equal, size, contexts, k))
        return {"P": tables, "part": doubly.astype(jnp.int32)}


class TwoSymbolPrior(OneStepPrior):
    """What the priors share that are laws of P = [[a, 1-a], [1-b, b]]."""

    def check(self, k: int, order: int) -> None:
        super().check(k, order)
        require(k == 2, f"the prior {self.kind!r} is a law of chains on two symbols; got k={k} (use k=2)")


class Interpolated(TwoSymbolPrior):
    """a ~ U(0, 1), b = 1-a-p(1-2a), rows swapped with probability 1/2: λ = a+b-1 = ±p(2a-1)."""

    p: Float[AnyArray, ""] = data()

    kind = "interpolated"

    def __check_init__(self) -> None:
        _check_share("p", self.p)

    def rows(self, key: PRNGKeyArray, size: int, contexts: int, k: int) -> Float[Array, "size contexts k"]:
        coin, place = jax.random.split(key)
        a = jax.random.uniform(place, (size,), jnp.float32)
        tables = _two_symbols(a, 1 - a - self.p * (1 - 2 * a))
        swapped = jax.random.bernoulli(coin, 0.5, (size,))
        return jnp.where(swapped[:, None, None], tables[:, ::-1], tables)


class Hard(TwoSymbolPrior):
    """a = b ~ U(1/2-ε, 1/2+ε): doubly stochastic chains near the uniform one (Proposition E.3)."""

    eps: Float[AnyArray, ""] = data()

    kind = "hard"

    def __check_init__(self) -> None:
        within = traced(self.eps) or bool(np.all((np.asarray(self.eps) > 0) & (np.asarray(self.eps) < 0.5)))
        require(within, f"eps must lie strictly between 0 and 1/2; got eps={plain(self.eps)} (try 0.25)")

    def rows(self, key: PRNGKeyArray, size: int, contexts: int, k: int) -> Float[Array, "size contexts k"]:
        a = 0.5 + self.eps * jax.random.uniform(key, (size,), jnp.float32, -1, 1)
        return _two_symbols(a, a)


class GivenRows(Prior):
    """The same table [k^(n-1), k] for every sequence."""

    P: Float[AnyArray, "contexts k"] = data()

    kind = "given"

    def __check_init__(self) -> None:
        if traced(self.P):
            return
        require(np.ndim(self.P) == 2, f"P must be a table [contexts, symbols]; got shape {list(np.shape(self.P))}")
        _check_laws("row", np.asarray(self.P))

    def check(self, k: int, order: int) -> None:
        shape = (k ** (order - 1), k)
        require(np.shape(self.P) == shape, f"P must have shape {list(shape)}; got {list(np.shape(self.P))}")

    def rows(self, key: PRNGKeyArray, size: int, contexts: int, k: int) -> Float[Array, "size contexts k"]:
        return jnp.broadcast_to(jnp.asarray(self.P)[None], (size, contexts, k))


class Curriculum(Value):
    """Which prior is learned from when: `priors[i]` from step `boundaries[i-1]` on, one more prior than boundaries.

    A trial has one task. A curriculum is trained as one trial per stage, each with the prior and the steps of its stage
    and `Inherited` weights of the one before; in theory, as `krogh.theory.chains.gradients.descend`.
    """

    priors: tuple[Prior, ...]
    boundaries: tuple[int, ...] = structure(default=())

    def __check_init__(self) -> None:
        for one in self.priors:
            require(isinstance(one, Prior), f"a curriculum is made of priors such as Hard(0.25); got {one!r}")
        fits = len(self.priors) == len(self.boundaries) + 1
        require(fits, f"priors must be one more than boundaries; got {len(self.priors)} and {len(self.boundaries)}")
        rising = all(after > before for before, after in zip((0, *self.boundaries), self.boundaries, strict=False))
        require(rising, f"boundaries must increase from 1 on; got {list(self.boundaries)}")

    @classmethod
    def two_steps(cls, eps: float) -> Curriculum:
        """Flat chains in the first step, Hard(ε) in the second (Propositions 8.5 and E.3)."""
        return cls((DirichletRows(), Hard(eps)), (1,))

    def at(self, step: int) -> Prior:
        """The prior of a step, counted from 0."""
        require_integer("step", step, 0)
        return self.priors[sum(step >= boundary for boundary in self.boundaries)]

    def stages(self, budget: int) -> list[tuple[Prior, int]]:
        """Each prior with its number of steps, of `budget` in all."""
        last = self.boundaries[-1] if self.boundaries else 0
        require_integer("budget", budget, last + 1)
        ends = (*self.boundaries, budget)
        return [(prior, end - start) for prior, start, end in zip(self.priors, (0, *ends), ends, strict=False)]


def flat_rows(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Rows uniform on the simplex: exponentials divided by their sum, which is much faster than a Dirichlet sampler."""
    drawn = jnp.maximum(jax.random.exponential(key, shape, jnp.float32), 1e-9)  # 0 once in 2^23: no row is only zeros
    return drawn / _total(drawn)


def _total(parts: Float[Array, "*batch k"]) -> Float[Array, "*batch 1"]:
    """The sum along the last axis in an order of its own: that of a reduction may change with the number of rows."""
    while (k := parts.shape[-1]) > 1:
        half = k // 2
        pairs = parts[..., :half] + parts[..., half : 2 * half]
        parts = jnp.concatenate([pairs, parts[..., 2 * half :]], axis=-1)
    return parts


def _birkhoff(key: PRNGKeyArray, size: int, k: int) -> tuple[Float[Array, "size k k"], Int[Array, " size"]]:
    """Uniform doubly stochastic matrices, and how many candidates each has cost.

    Attempts are numbered and have keys of their own, so that a matrix does not know how long its neighbours took.
    """
    tries = TRIES[k]

    def attempt(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        number, done, found, cost = state
        upper = flat_rows(jax.random.fold_in(key, number), (size, tries, k - 1, k))
        last = 1 - jnp.sum(upper, axis=-2, keepdims=True)
        fits = jnp.all(last >= 0, axis=(-2, -1))
        first = jnp.argmax(fits, axis=1)
        candidates = jnp.concatenate([upper, last], axis=-2)
        chosen = jnp.take_along_axis(candidates, first[:, None, None, None], axis=1)[:, 0]
        accepted = jnp.any(fits, axis=1)
        spent = cost + jnp.where(accepted, first.astype(jnp.int32) + 1, tries)
        found = jnp.where((accepted & ~done)[:, None, None], chosen, found)
        return number + 1, done | accepted, found, jnp.where(done, cost, spent)

    none = (jnp.int32(0), jnp.zeros(size, bool), jnp.zeros((size, k, k), jnp.float32), jnp.zeros(size, jnp.int32))
    _, _, found, cost = jax.lax.while_loop(lambda state: ~jnp.all(state[1]), attempt, none)
    return found, cost


def _sinkhorn(key: PRNGKeyArray, size: int, k: int) -> Float[Array, "size k k"]:
    def normalised(_: Any, table: Array) -> Array:
        table = (table.mT / _total(table.mT)).mT
        return table / _total(table)

    return jax.lax.fori_loop(0, SINKHORN_ROUNDS, normalised, flat_rows(key, (size, k, k)))


def _two_symbols(a: Float[Array, " size"], b: Float[Array, " size"]) -> Float[Array, "size 2 2"]:
    return jnp.stack([jnp.stack([a, 1 - a], axis=-1), jnp.stack([1 - b, b], axis=-1)], axis=-2)


def _check_share(name: str, value: Any) -> None:
    within = traced(value) or bool(np.all((np.asarray(value) >= 0) & (np.asarray(value) <= 1)))
    require(within, f"{name} must lie between 0 and 1; got {name}={plain(value)}")


def _check_laws(what: str, rows: np.ndarray) -> None:
    """Refuse rows that are no probabilities."""
    rows = np.atleast_2d(rows)
    for place, row in enumerate(rows):
        total = float(np.sum(row, dtype=np.float64))
        law = bool(np.all(row >= 0)) and abs(total - 1) < 1e-5
        where = f" {place}" if len(rows) > 1 else ""
        hint = f"; divide it by {total:.6g}" if bool(np.all(row >= 0)) and 0 < total < math.inf else ""
        require(law, f"a {what} must be probabilities that sum to one; got {what}{where} = {plain(row)}{hint}")


# --- tokens from uniforms ---


def token_by_token(
    first: Int[Array, " size"], uniforms: Float[Array, "size places"], sums: Float[Array, "size contexts rest"]
) -> UInt8[Array, "size places"]:
    """The tokens that follow a `first` context, one after the other: each is how many `sums` of its context's row the
    uniform of its place has passed."""
    contexts, k = sums.shape[1], sums.shape[2] + 1

    def following(context: Array, uniform: Array) -> tuple[Array, Array]:
        row = jnp.take_along_axis(sums, context[:, None, None], axis=1)[:, 0]
        token = jnp.sum(uniform[:, None] >= row, axis=-1, dtype=jnp.int32)
        return (context * k + token) % contexts, token.astype(jnp.uint8)

    return jax.lax.scan(following, first, uniforms.T)[1].T


def all_tokens(
    first: Int[Array, " size"], uniforms: Float[Array, "size places"], sums: Float[Array, "size contexts rest"]
) -> UInt8[Array, "size places"]:
    """The same tokens in log₂(places) operations, for a device that takes longer to launch a loop's than to do them.

    A uniform is a map of contexts: from each to the one after the token that would follow it. Maps of 1, 2, 4, …
    successive places are composed; that of all places up to one, at the first context, is where the sequence then is.
    """
    (places, contexts), k = (uniforms.shape[1], sums.shape[1]), sums.shape[2] + 1
    token = jnp.sum(uniforms[:, :, None, None] >= sums[:, None], axis=-1, dtype=jnp.int32)
    maps = (k * jnp.arange(contexts, dtype=jnp.int32)[None, None, :] + token) % contexts
    reach = 1
    while reach < places:
        further = jnp.take_along_axis(maps[:, reach:], maps[:, :-reach], axis=-1, mode="clip")
        maps = jnp.concatenate([maps[:, :reach], further], axis=1)
        reach *= 2
    context = jnp.take_along_axis(maps, first[:, None, None], axis=-1, mode="clip")[..., 0]
    return (context % k).astype(jnp.uint8)  # the newest token is the lowest digit


# --- what is computed with tables and tokens ---


def stationary(P: Float[AnyArray, "*batch contexts k"]) -> Float[Array, "*batch contexts"]:
    """π with πP = π: of a chain [k, k], or of the chain on contexts that a table [k^(n-1), k] makes.

    By the elimination of Grassmann, Taksar and Heyman, which subtracts nothing: every entry is exact to a few rounding
    errors, however slowly the chain mixes. Where several laws are stationary, one of them is returned.
    """
    table = jnp.asarray(P)
    contexts, k = table.shape[-2:]
    A = jnp.maximum(table if contexts == k else _on_contexts(table), jnp.asarray(_LEAST, table.dtype))
    states = jnp.arange(contexts)

    def eliminate(step: Any, A: Array) -> Array:
        n = contexts - 1 - step
        below = states < n
        row, column = jnp.take(A, n, axis=-2), jnp.take(A, n, axis=-1)
        row = jnp.where(_over(below, row), row, 0)
        column = jnp.where(_over(below, column), column, 0) / jnp.sum(row, axis=-1, keepdims=True)
        A = A + column[..., :, None] * row[..., None, :]
        return jnp.where(_over(states == n, A), jnp.where(_over(below, column), column, 0)[..., :, None], A)

    def substitute(n: Any, pi: Array) -> Array:
        column = jnp.where(_over(states < n, pi), jnp.take(A, n, axis=-1), 0)
        own = jnp.sum(pi * column, axis=-1, keepdims=True)
        pi = jnp.where(_over(states == n, pi), own, pi)
        return pi / jnp.sum(pi, axis=-1, keepdims=True)  # on the way: odds may be too large for a float

    unroll = contexts <= UNROLLED
    A = jax.lax.fori_loop(0, contexts - 1, eliminate, A, unroll=unroll)
    first = jnp.broadcast_to((states == 0).astype(table.dtype), A.shape[:-1])
    return jax.lax.fori_loop(1, contexts, substitute, first, unroll=unroll)


def _over(mask: Array, like: Array) -> Array:
    """A mask along the last axis, with the rank of `like`."""
    return mask.reshape((1,) * (like.ndim - 1) + (-1,))


def _on_contexts(table: Float[Array, "*batch contexts k"]) -> Float[Array, "*batch contexts contexts"]:
    """The square matrix of the chain on contexts: from s to (s·k + y) mod k^(n-1) with probability P[s, y]."""
    contexts, k = table.shape[-2:]
    source = np.repeat(np.arange(contexts), k)
    target = (source * k + np.tile(np.arange(k), contexts)) % contexts
    square = jnp.zeros((*table.shape[:-1], contexts), table.dtype)
    return square.at[..., source, target].set(table.reshape(*table.shape[:-2], contexts * k))


def contexts_of(tokens: Int[AnyArray, "*batch t"], k: int, order: int) -> Int[Array, "*batch places"]:
    """The number of every context of order-1 successive tokens: t-order+2 of them, the first at position order-1."""
    tokens, width = jnp.asarray(tokens).astype(jnp.int32), order - 1
    places = tokens.shape[-1] - width + 1
    index = jnp.zeros((*tokens.shape[:-1], places), jnp.int32)
    for step in range(width):  # oldest first, so that the newest ends in the lowest digit
        index = index * k + tokens[..., step : step + places]
    return index


def context_of(tokens: Int[AnyArray, "*batch t"], k: int, order: int) -> Int[Array, "*batch"]:
    """The number of the last context, whose row is the law of the next token."""
    return contexts_of(jnp.asarray(tokens)[..., max(0, jnp.shape(tokens)[-1] - order + 1) :], k, order)[..., 0]


def gram_counts(tokens: Int[AnyArray, "*batch t"], k: int, m: int) -> Float[Array, "*batch contexts k"]:
    """How often each symbol follows each context of m-1 tokens in x_1..x_t: [k^(m-1), k]."""
    tokens = jnp.asarray(tokens)
    grams = contexts_of(tokens, k, m + 1) if tokens.shape[-1] >= m else jnp.zeros((*tokens.shape[:-1], 0), jnp.int32)
    flat = grams.reshape(math.prod(grams.shape[:-1]), -1)
    rows = jnp.arange(len(flat))[:, None]
    counts = jnp.zeros((len(flat), k**m), jnp.float32).at[rows, flat].add(1.0)
    return counts.reshape(*grams.shape[:-1], k ** (m - 1), k)


def successor_counts(tokens: Int[AnyArray, "*batch t"], k: int, m: int) -> Float[Array, "*batch k"]:
    """How often each symbol followed the last m-1 tokens in x_1..x_t: the row of `gram_counts` that is asked for."""
    tokens = jnp.asarray(tokens).astype(jnp.int32)
    t = tokens.shape[-1]
    if t < m:
        return jnp.zeros((*tokens.shape[:-1], k), jnp.float32)
    seen = tokens[..., m - 1 :]
    matches: Bool[Array, "*batch places"] = jnp.ones(seen.shape, bool)
    for back in range(1, m):
        matches &= tokens[..., m - 1 - back : t - back] == tokens[..., t - back, None]
    symbols = jnp.arange(k, dtype=jnp.int32).reshape((1,) * tokens.ndim + (k,))
    hits = matches[..., None] & (seen[..., None] == symbols)
    return jnp.sum(hits, axis=-2, dtype=jnp.float32)


def kl(p: Float[AnyArray, "*batch k"], logits: Float[AnyArray, "*batch k"]) -> Float[Array, "*batch"]:
    """KL(p ‖ softmax(logits)) = Σ_i p_i (log p_i - log softmax(logits)_i), in nats."""
    p, logits = jnp.asarray(p), jnp.asarray(logits)
    known = p > 0
    logs = jnp.where(known, jnp.log(jnp.where(known, p, 1)), 0)
    return jnp.sum(jnp.where(known, p * (logs - jax.nn.log_softmax(logits, axis=-1)), 0), axis=-1)


def strategy_name(m: int) -> str:
    """What counting m-grams is called: "uniform" for 0, "unigram", "bigram", "trigram", then "4-gram"."""
    return ("uniform", "unigram", "bigram", "trigram")[m] if m < 4 else f"{m}-gram"


# --- the task ---


class Chains(NamedTuple):
    """Raw examples: t+1 tokens, and what they were drawn from."""

    tokens: UInt8[AnyArray, "size tokens"]
    latent: dict[str, AnyArray]


@task("markov-chains")
class MarkovChains(ClassificationTask):
    """Sequences of a fresh chain each; `judged` is the prior of the validation sample where it is another.

    The first context is "stationary" or "uniform"; a law of your own over k^(n-1) contexts may be given instead.
    """

    prior: Prior
    judged: Prior | None
    k: int = structure()
    length: int = structure()
    order: int = structure()
    start: str = structure()
    law: Float[AnyArray, " contexts"] | None = data(optional=True)

    system = System(
        knobs={
            "k": "symbols: how much counting pairs says beyond counting symbols",
            "length": "tokens of the context: what there is to count",
            "order": "tokens that the next one depends on, and itself: how many phases there are",
            "prior": "the law of the chains: how far the simple solution goes",
            "judged": "another law to be judged on",
            "start": "the law of the first context",
        },
        baselines=("loss_uniform", "loss_unigram", "loss_bigram"),
        theory=(
            "chains/baselines",
            "chains/first-step",
            "chains/second-step",
            "chains/doubly-stochastic-step",
            "chains/curriculum",
            "chains/floors",
        ),
        phenomena={
            "induction heads": ("chains/phases", "chains/attention", "chains/one-layer"),
            "learning in stages": ("chains/phases", "chains/trigrams", "chains/symbols", "chains/architectures"),
            "a simple solution that delays the good one": ("chains/simplicity", "chains/parts", "chains/plateau"),
            "layers that learn in order": ("chains/minimal", "chains/steps", "chains/curriculum"),
            "an even/odd pattern on the way": ("chains/phases", "chains/minimal", "chains/steps"),
            "settings that hide a phenomenon or fake it": ("chains/hazards",),
        },
    )

    def __init__(
        self,
        k: int,
        length: int = 100,
        prior: Any = None,
        order: int = 2,
        start: Any = "stationary",
        judged: Any = None,
        law: Any = None,
    ):
        require_integer("k", k, 2)
        require_integer("length", length, 2)
        require_integer("order", order, 2)
        require(
            order - 1 < length,
            f"a context of order-1 tokens must be shorter than the sequence; got order={order}, length={length} "
            f"(try length={order} or more)",
        )
        require(
            k**order <= TABLE_LIMIT,
            f"the table of every sequence has k^order entries, at most {TABLE_LIMIT}; got {k}^{order} = {k**order} "
            f"(try order={int(math.log(TABLE_LIMIT + 0.5, k))})",
        )
        contexts = k ** (order - 1)
        if not isinstance(start, str):
            start, law = "given", start
        if start not in STARTS:
            raise unknown("start", start, STARTS)
        require(
            start != "stationary" or contexts <= CONTEXT_LIMIT,
            f"stationary laws are computed for at most {CONTEXT_LIMIT} contexts; got k^(order-1) = {contexts} "
            "(use start='uniform')",
        )
        require((start == "given") == (law is not None), "a law of the first context is given as start=[...]")
        if law is not None and not traced(law):
            law = np.asarray(law, np.float32)
            require(law.shape == (contexts,), f"start must have {contexts} probabilities; got shape {list(law.shape)}")
            _check_laws("start", law)
        prior = DirichletRows() if prior is None else prior
        for name, given in (("prior", prior), ("judged", judged)):
            named = isinstance(given, Prior) or (name == "judged" and given is None)
            require(named, f"{name} must be a prior such as DirichletRows() or DoublyStochastic(); got {given!r}")
            if given is not None:
                given.check(k, order)
        self.k, self.length, self.order = k, length, order
        self.prior, self.judged = prior, judged
        self.start, self.law = start, law

    @property
    def classes(self) -> int:
        return self.k

    @property
    def contexts(self) -> int:
        """k^(n-1)."""
        return self.k ** (self.order - 1)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def regression(self) -> bool:
        """An example's error is a divergence, of any size."""
        return True

    @property
    def judged_last(self) -> bool:
        return True

    @property
    def causal(self) -> bool:
        return True

    def draw(self, key: PRNGKeyArray, size: int) -> Chains:
        return self._chains(key, size, self.prior)

    def test(self, key: PRNGKeyArray, size: int) -> Chains:
        return self._chains(key, size, self.prior if self.judged is None else self.judged)

    def _chains(self, key: PRNGKeyArray, size: int, prior: Prior) -> Chains:
        for_rows, for_tokens = jax.random.split(key)
        latent = prior.latent(for_rows, size, self.contexts, self.k)
        return Chains(self._tokens(for_tokens, latent["P"]), latent)

    def _tokens(self, key: PRNGKeyArray, P: Float[Array, "size contexts k"]) -> UInt8[Array, "size tokens"]:
        """t+1 tokens of each table: uniforms are drawn at once, and a token is how many of its row's sums they pass."""
        size, (k, width) = P.shape[0], (self.k, self.order - 1)
        uniforms = jax.random.uniform(key, (size, self.length + 1 - width + 1), jnp.float32)
        first = self._first(uniforms[:, 0], P)
        digits = [first // k**place % k for place in reversed(range(width))]
        sums = jnp.cumsum(P, axis=-1)[..., :-1]
        if self.contexts <= COMPOSED:
            rest = jax.lax.platform_dependent(first, uniforms[:, 1:], sums, cpu=token_by_token, default=all_tokens)
        else:
            rest = token_by_token(first, uniforms[:, 1:], sums)
        return jnp.concatenate([jnp.stack(digits, axis=1).astype(jnp.uint8), rest], axis=1)

    def _first(self, uniform: Float[Array, " size"], P: Float[Array, "size contexts k"]) -> Int[Array, " size"]:
        """The first context, by its law."""
        if self.start == "uniform":
            return jnp.minimum((uniform * self.contexts).astype(jnp.int32), self.contexts - 1)
        law = stationary(P) if self.start == "stationary" else jnp.asarray(self.law)[None]
        sums = jnp.broadcast_to(jnp.cumsum(law, axis=-1)[:, :-1], (len(uniform), self.contexts - 1))
        return jnp.sum(uniform[:, None] >= sums, axis=-1, dtype=jnp.int32)

    def decode(self, raw: Chains) -> Examples:
        tokens = jnp.asarray(raw.tokens).astype(jnp.int32)
        y = tokens[:, 1:]
        return Examples(tokens[:, :-1], y, y, raw.latent)

    def true_rows(self, examples: Examples) -> Float[Array, "batch k"]:
        """The law of the token after the last: the row of each sequence's last context."""
        last = context_of(examples.x, self.k, self.order)
        return jnp.take_along_axis(jnp.asarray(examples.latent["P"]), last[:, None, None], axis=1)[:, 0]

    def judge(self, prediction: Float[AnyArray, "batch length k"], examples: Examples) -> Float[Array, " batch"]:
        """KL(true row of the last context ‖ softmax of the logits at the last position), in nats."""
        return kl(self.true_rows(examples), prediction[:, -1])

    def strategies(self) -> dict[str, Callable[[Array], Array]]:
        """Uniform, unigram, bigram, … up to the order: tokens [batch, t] to the law [batch, k] of the next token.

        m-grams are counted by the add-α rule (c_j + α_j)/(Σ c + Σ α), where c_j is how often j followed the last m-1
        tokens (equation 8.3).
        """
        alpha, k = self.prior.pseudocounts(self.k), self.k

        def uniform(tokens: Array) -> Array:
            return jnp.full((tokens.shape[0], k), 1 / k, jnp.float32)

        def counting(m: int) -> Callable[[Array], Array]:
            def strategy(tokens: Array) -> Array:
                counts = successor_counts(tokens, k, m) + jnp.asarray(alpha)[None, :]
                return counts / jnp.sum(counts, axis=-1, keepdims=True)

            return strategy

        return {strategy_name(0): uniform} | {strategy_name(m): counting(m) for m in range(1, self.order + 1)}

    def distance(
        self, strategy: Float[AnyArray, "batch k"], prediction: Float[AnyArray, "batch length k"]
    ) -> Float[Array, " batch"]:
        """KL(strategy ‖ softmax of the logits at the last position), in nats."""
        return kl(strategy, prediction[:, -1])

    def judge_strategy(self, strategy: Float[AnyArray, "batch k"], examples: Examples) -> Float[Array, " batch"]:
        """KL(true row of the last context ‖ strategy), in nats."""
        return kl(self.true_rows(examples), jnp.log(strategy))

    def baselines(self) -> dict[str, float]:
        """The loss E KL(true row ‖ strategy) of every strategy on 4,096 judged sequences, always the same ones."""
        return {f"loss_{name}": float(np.mean(losses)) for name, losses in strategy_losses(self, 4096, 0).items()}

    @classmethod
    def example(cls) -> MarkovChains:
        return cls(k=3, length=12)


class Judged(NamedTuple):
    """Validation sequences with what they are judged by: tokens [size, t], true rows [size, k], losses by strategy."""

    tokens: Int[Array, "size t"]
    truth: Float[Array, "size k"]
    losses: dict[str, Array]


@functools.partial(jax.jit, static_argnames="sequences")
def judged_sequences(task: MarkovChains, key: PRNGKeyArray, sequences: int) -> Judged:
    """So many sequences of the judged prior, and KL(true row ‖ strategy) at the last position of each."""
    examples = task.decode(task.test(key, sequences))
    truth = task.true_rows(examples)
    losses = {name: task.judge_strategy(of(examples.x), examples) for name, of in task.strategies().items()}
    return Judged(examples.x, truth, losses)


def strategy_losses(task: MarkovChains, sequences: int, seed: int) -> dict[str, np.ndarray]:
    """KL(true row ‖ strategy) of each of so many judged sequences, for every strategy."""
    found = judged_sequences(task, jax.random.key(seed), sequences).losses
    return {name: np.asarray(found[name], np.float64) for name in task.strategies()}  # simple to good: jit sorts
