"""Induction heads and counting, written into weights (dissertation, Proposition 8.2 and Fact 8.3).

    chains/induction-head    two layers of attention: what followed the current symbol so far, as frequencies
    chains/ngram-heads       the same for the current n-1 symbols, with n-1 heads
    chains/minimal-bigram    the minimal model: how often each symbol followed the current one
    chains/minimal-unigram   the minimal model: how often each symbol came

A statistical induction head looks at positions j whose past agrees with the query's present. In layer 1, head h (of
n-1) looks h places back and writes down the symbol found there; in layer 2 a position compares its own n-1 symbols with
those that every earlier position wrote down, and averages the symbols of the positions that agree. With ε = e^{-β₁},

    ρ_h(i) = ((1-ε) onehot(x_{i-h}) + ε Σ_{j≤i} onehot(x_j)) / (1 + ε(i-1))      recalled, for i > h
    ρ_h(i) = Σ_{j≤i} onehot(x_j) / i                                              for i ≤ h: nothing lies h places back
    a(i,j) = ⟨onehot(x_i), ρ_1(j)⟩ + Σ_{r=1}^{n-2} ⟨ρ_r(i), ρ_{r+1}(j)⟩            agreement, n-1 where all agree
    f(i)   = Σ_{j≤i} softmax_j(β₂ a(i,j)) onehot(x_j),     β₁ = c/√w,  β₂ = c²/√w      w = the width of a head

exactly, for every c. As c → ∞, f(i) is the average over the positions of largest agreement: the frequencies with which
symbols followed the current context. Three things remain of the beginning of a sequence, where the print counts
cleanly: position 1 recalls itself, which adds a transition x_1 → x_1 that never was; recalled symbols are averages at
positions i ≤ h; and where nothing agrees all positions count alike, which gives unigram frequencies. The print has the
scores without √w, counts for frequencies, and 1[j = i-1] for the weights of layer 2.

A frequency is no logit: softmax(a·f) is nearest to the truth at a temperature of its own (`theory.chains.floors`).
"""

from __future__ import annotations

import abc
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from krogh.errors import require, require_integer
from krogh.models import CausalTransformer, MinimalInduction
from krogh.networks.handmade import Array, Construction, Oracle, construction
from krogh.tasks.chains import MarkovChains
from krogh.theory.numerics import softmax
from krogh.theory.prediction import check_open, is_number

LISTED = 2**12
"""The most sequences that a check lists; of more, it draws so many as `DRAWN`."""
DRAWN = 256

Symbols = NDArray[np.integer]


# What heads compute, by counting.


def one_hot(tokens: Symbols, k: int) -> Array:
    """[..., k]."""
    return np.eye(k)[tokens]


def recalled(tokens: Symbols, k: int, back: int, epsilon: float = 0.0) -> Array:
    """ρ_back [batch, length, k]: what a head that looks `back` places behind has found there; ε = 0 for c → ∞."""
    symbols = one_hot(tokens, k)
    counts, places = np.cumsum(symbols, axis=1), np.arange(1, tokens.shape[1] + 1)
    found = counts / places[None, :, None]
    found[:, back:] = (1 - epsilon) * symbols[:, : max(0, symbols.shape[1] - back)] + epsilon * counts[:, back:]
    found[:, back:] /= 1 + epsilon * (places[None, back:, None] - 1)
    return found


def agreement(tokens: Symbols, k: int, order: int = 2, epsilon: float = 0.0) -> Array:
    """a(i, j) [batch, length, length], and -∞ for j > i."""
    past = [recalled(tokens, k, back, epsilon) for back in range(1, order)]
    present = [one_hot(tokens, k), *past[:-1]]
    total = sum(np.einsum("bik,bjk->bij", now, before) for now, before in zip(present, past, strict=True))
    return np.where(np.tri(tokens.shape[1], dtype=bool)[None], total, -np.inf)


def successor_attention(tokens: Symbols, k: int, order: int = 2, epsilon: float = 0.0, beta: float = math.inf) -> Array:
    """What layer 2 attends to [batch, length, length]: softmax_j(β₂ a(i, j)), or for β₂ = ∞ all places of largest
    agreement alike."""
    scores = agreement(tokens, k, order, epsilon)
    if math.isinf(beta):
        best = scores >= scores.max(axis=-1, keepdims=True) - 1e-9
        return best / best.sum(axis=-1, keepdims=True)
    return softmax(beta * scores)


def previous_attention(length: int, back: int = 1) -> Array:
    """What a head of layer 1 attends to as c → ∞ [length, length]: `back` places behind, or everywhere before that."""
    weights = np.tri(length) / np.arange(1, length + 1)[:, None]
    weights[back:] = np.eye(length, k=-back)[back:]
    return weights


def head_frequencies(tokens: Symbols, k: int, order: int = 2, epsilon: float = 0.0, beta: float = math.inf) -> Array:
    """f [batch, length, k], exactly; by default as c → ∞."""
    return successor_attention(tokens, k, order, epsilon, beta) @ one_hot(tokens, k)


# Constructions.


@dataclass(frozen=True)
class Sequences(Oracle):
    """All sequences of symbols where they are few, random ones elsewhere."""

    k: int
    length: int

    @property
    def exhaustive(self) -> bool:
        return self.k**self.length <= LISTED

    @abc.abstractmethod
    def expected(self, tokens: Symbols) -> Array:
        """The outputs [batch, length, k]."""

    def cases(self, seed: int) -> Iterator[tuple[Array, Array]]:
        if self.exhaustive:
            tokens = np.array(list(itertools.product(range(self.k), repeat=self.length)))
        else:
            tokens = np.random.default_rng(seed).integers(0, self.k, (DRAWN, self.length))
        yield tokens.astype(np.float64), self.expected(tokens)


@dataclass(frozen=True)
class Heads(Sequences):
    """a·f + b by the formula of this module."""

    order: int
    beta_1: float
    beta_2: float
    a: float
    b: float

    def expected(self, tokens: Symbols) -> Array:
        f = head_frequencies(tokens, self.k, self.order, math.exp(-self.beta_1), self.beta_2)
        return np.asarray(self.a * f + self.b)


@dataclass(frozen=True)
class Counts(Sequences):
    """scale·counts, of all symbols so far or of those that followed the current one, one token after the other."""

    scale: float
    successors: bool

    def expected(self, tokens: Symbols) -> Array:
        found = np.zeros((*tokens.shape, self.k))
        for row, sequence in enumerate(tokens.tolist()):
            single, pairs = [0] * self.k, [[0] * self.k for _ in range(self.k)]
            for place, symbol in enumerate(sequence):
                single[symbol] += 1
                if place:
                    pairs[sequence[place - 1]][symbol] += 1
                found[row, place] = pairs[symbol] if self.successors else single
        return self.scale * found


@construction("chains/induction-head", source="dissertation, Proposition 8.2 and its footnote (repaired)")
def induction_head(k: int, length: int = 100, c: float = 60.0, a: float = 1.0, b: float = 0.0) -> Construction:
    """A two-layer transformer of one head that averages what followed the current symbol.

        d = 3k in blocks (symbol, recalled, found); B(r, s) = I in block row r, block column s, 0 elsewhere
        layer 1    Q = c B(1,1),  K = 0,         V = B(1,2),  v_2 = (1, 0, 0), all other v = 0
        layer 2    Q = c B(1,1),  K = c B(2,1),  V = B(1,3),  v = 0
        P          a I from block 3 and b 11ᵀ from block 1: logits a·f + b

    S⁽¹⁾[i, i-1] = e^{c/√3k}/(e^{c/√3k} + i - 1). For k = 3 and 40 tokens the outputs of most sequences are within
    0.2, 2e-3, 5e-6 of those at c = ∞ for c = 20, 40, 60. b changes no probability; the best a at length 100 is 2.51,
    2.89, 3.21 for k = 2, 3, 4 (`krogh.theory.chains.floors.best_scale`).
    """
    return _heads("chains/induction-head", k, 2, length, c, a, b)


@construction("chains/ngram-heads", source="derived from dissertation, Proposition 8.2 and section 8.3.3")
def ngram_heads(n: int, k: int = 2, length: int = 100, c: float = 60.0, a: float = 1.0, b: float = 0.0) -> Construction:
    """A two-layer transformer of n-1 heads that averages what followed the current n-1 symbols.

    Head h of layer 1 has v_{h+1} = 1 on its first k columns and recalls the symbol h places back; the last head of
    layer 2 compares the current n-1 symbols with the n-1 recalled ones, and its other heads write nothing. All heads
    are of one width, and that one needs (n-1)k columns: d = (n-1)²k, or 3k for n = 2, which is chains/induction-head.
    """
    require_integer("n", n, 2)
    return _heads("chains/ngram-heads", k, n, length, c, a, b)


def _heads(name: str, k: int, n: int, length: int, c: float, a: float, b: float) -> Construction:
    task = MarkovChains(k, length, order=n)
    check_open("c", c, 0)
    for label, number in (("a", a), ("b", b)):
        require(is_number(number) and math.isfinite(number), f"{label} must be a finite number; got {label}={number!r}")
    heads, width = n - 1, 3 * k if n == 2 else (n - 1) * k
    d, unit = heads * width, np.eye(k)
    # Where blocks of k coordinates begin. A head writes into its own columns alone.
    symbol, found = 0, (heads - 1) * width + (2 * k if n == 2 else k)
    past = [k if back == 1 else (back - 1) * width for back in range(1, n)]
    params = {"E": np.zeros((k, d)), "P": np.zeros((d, k)), "v": np.zeros((2, length, d))}
    params |= {letter: np.zeros((2, d, d)) for letter in "QKV"}

    def block(begin: int) -> slice:
        return slice(begin, begin + k)

    params["E"][:, block(symbol)] = unit
    for back in range(1, n):
        first = (back - 1) * width
        params["Q"][0, block(symbol), block(first)] = c * unit
        params["v"][0, back, block(first)] = 1.0
        params["V"][0, block(symbol), block(past[back - 1])] = unit
        # In layer 2, the present (the symbol itself, then what was recalled) against the past of every position.
        compared = (heads - 1) * width + (back - 1) * k
        params["Q"][1, block(symbol if back == 1 else past[back - 2]), block(compared)] = c * unit
        params["K"][1, block(past[back - 1]), block(compared)] = c * unit
    params["V"][1, block(symbol), block(found)] = unit
    params["P"][block(found)] = a * unit
    params["P"][block(symbol)] = b
    beta_1, beta_2 = c / math.sqrt(width), c * c / math.sqrt(width)
    context = "the current symbol" if n == 2 else f"the current {n - 1} symbols"
    statement = (
        f"logits {a:g}·f + {b:g}, f the frequencies of what followed {context} of {k}, softened by "
        f"beta_1={beta_1:.6g} and beta_2={beta_2:.6g}, at each of {length} positions"
    )
    model = CausalTransformer(dimension=d, heads=heads)
    return Construction(name, task, model, params, statement, d, Heads(k, length, n, beta_1, beta_2, a, b))


@construction("chains/minimal-bigram", source="dissertation, Fact 8.3")
def minimal_bigram(k: int, length: int = 100, scale: float = 1.0) -> Construction:
    """The minimal model with v = δ_2, W = scale·I: f_{p,i} = scale·#{t' ≤ p: x_{t'-1} = x_p, x_t' = i}."""
    return _minimal("chains/minimal-bigram", k, length, scale, 1, np.eye(k))


@construction("chains/minimal-unigram", source="dissertation, Fact 8.3")
def minimal_unigram(k: int, length: int = 100, scale: float = 1.0) -> Construction:
    """The minimal model with v = δ_1, W = scale·11ᵀ: f_{p,i} = scale·#{t' ≤ p: x_t' = i}."""
    return _minimal("chains/minimal-unigram", k, length, scale, 0, np.ones((k, k)))


def _minimal(name: str, k: int, length: int, scale: float, back: int, W: Array) -> Construction:
    task = MarkovChains(k, length)
    valid = is_number(scale) and math.isfinite(scale) and scale != 0
    require(valid, f"scale must be a finite number other than 0; got scale={scale!r}")
    counted = f"symbol of {k}" + (" after the current one" if back else "")
    statement = f"{scale:g} times how often each {counted} came so far, at each of {length} positions, exactly"
    params = {"W": scale * W, "v": np.eye(length)[back]}
    oracle = Counts(k, length, scale, successors=bool(back))
    tolerance = 0.0 if float(scale).is_integer() else 1e-9
    return Construction(name, task, MinimalInduction(), params, statement, k, oracle, tolerance)
