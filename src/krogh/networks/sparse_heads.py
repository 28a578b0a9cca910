"""Attention heads that create sparse variables (dissertation, Lemmas A.19 to A.21).

    det_single     1 head     (1/s) Σ_{i in I} χ_i        fixed positions        χ_i = 1 - 2b_i
    det_multi      s heads    (χ_i)_{i in I}              fixed positions
    train_single   1 head     (1/s) Σ_{i in I} χ_i        positions chosen
    train_multi    s heads    (χ_i)_{i in I}              positions chosen
    bag_scalar     1 head     (r-s)/(r+1)                 bag of vectors         r = Σ_{i in I} b_i
    bag_vector     1 head     ((b_i-1)/(r+1))_{i in I}    bag of vectors

Each approximates its target within γ/4 at every b in {0,1}^T, with ‖Q‖_F = R = log(8T/γ) (of 8Ts/γ in a bag) and all
other norms free of T. [CLS] is one of the T+1 positions that the softmax sees.

Positions v_t are unit vectors with |v_t·v_t'| ≤ Δ. Where Δ > 0 the source's keys Σ_{i in I} v_i score the relevant
positions unequally, by up to 2R(s-1)Δ, and its error bounds fail. The mode "dual" takes the vectors u_j in the span
with v_i·u_j = 1[i = j] instead: Σ_j u_j scores every i in I alike and every other position at most
ρ = sΔ/(1-(s-1)Δ), and R is divided by 1-ρ. Both modes agree at Δ = 0. The mode "printed" also keeps the e_2 in the
values of det_multi, which makes that head's output 0.

Every selection by attention here rests on how far a softmax is from its truncation to the largest scores (Lemma A.24):

    z_t ≥ R on s kept positions, z_t ≤ 0 on the T - s others;  z' = z with the others at -∞:
    ‖softmax(z') - softmax(z)‖₁ ≤ 2(T-s)/(s e^R) < 2T e^{-R}

Where [CLS] is one more position there are T + 1 entries, and 2T e^{-R} still holds for s ≥ 1.

Other heads shatter log2 T sequences: unbounded norms know the context length (dissertation, Prop. 4.8).

    x_t^(i) = (cos 2πt/T, sin 2πt/T, bit i of t),   p = log2 T sequences of length T
    head s:  w_QK = T² (cos 2πs/T, sin 2πs/T, 0),  w_V = (0, 0, 1),   f(X) = w_Vᵀ Xᵀ softmax(X w_QK)

Head s attends to position s, so f(X^(i)) > 1/2 exactly where bit i of s is 1: the T heads realise all 2^p = T sign
patterns, and the pseudo-dimension is at least log2 T. Bits are counted from the most significant. A length that is
no power of two is cut to the one below; a length of 1 shatters nothing.

The norm T² buys the margin, not the patterns: attention that is flat, but highest at s, still puts a bit above 1/2 near
its own ones, so w_QK of norm 1 realises them all, by a margin that vanishes faster than any power of T.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer, unknown
from krogh.models.attention import RESERVED, attention_head
from krogh.networks.handmade import Array
from krogh.networks.head_inputs import Basis, basis, binary_digits, required_dimension, shattering_inputs
from krogh.theory.numerics import double_precision, softmax
from krogh.theory.prediction import check_open, is_number


def truncated_softmax(scores: ArrayLike, kept: ArrayLike | None = None) -> Array:
    """The softmax along the last axis of the `kept` scores (all unless given), and 0 elsewhere."""
    z = np.asarray(scores, np.float64)
    if kept is not None:
        mask = np.asarray(kept, bool)
        require(np.all(np.any(mask, axis=-1)), "a softmax needs a position to keep; got none")
        z = np.where(mask, z, -np.inf)
    return softmax(z)


def truncation_deviation(scores: ArrayLike, kept: ArrayLike) -> Array:
    """‖softmax(z') - softmax(z)‖₁: what the positions that are not kept change."""
    return np.asarray(np.sum(np.abs(truncated_softmax(scores, kept) - truncated_softmax(scores)), axis=-1))


def truncation_bounds(length: int, kept: int, margin: float) -> tuple[float, float]:
    """2(T-s)/(s e^R) and 2T e^{-R}, for T = `length` entries, s = `kept` and R = `margin`."""
    require_integer("length", length, 1)
    require_integer("kept", kept, 1, length)
    return 2 * (length - kept) / kept * math.exp(-margin), 2 * length * math.exp(-margin)


LEAST_ATTENTION = float(1 / (1 + np.sqrt(np.pi / 8)))
"""The source's lower bound of the attention that head s gives to position s."""


@dataclass(frozen=True, eq=False)
class ShatteringHeads:
    """T heads and the sequences they shatter: `inputs` [p, T, 3], `queries` w_QK [T, 3], `value` w_V [3]."""

    inputs: Array
    queries: Array
    value: Array

    def outputs(self) -> Array:
        """f of every head on every sequence; shape [T, p]."""
        with double_precision():  # scores go up to T²
            value = jnp.asarray(self.value)
            head = attention_head(jnp.dot, jax.nn.softmax, lambda token: (token @ value)[None], lambda y: y[0])
            every = jax.vmap(jax.vmap(head, in_axes=(0, None)), in_axes=(None, 0))
            return np.asarray(every(jnp.asarray(self.inputs), jnp.asarray(self.queries)))

    def attention(self) -> Array:
        """What each head gives to each position, the same in every sequence; shape [T, T]."""
        return truncated_softmax(self.queries @ _circle(len(self.queries)).T)

    def patterns(self) -> NDArray[np.bool_]:
        """Which sequences each head puts above 1/2; shape [T, p]."""
        return np.asarray(self.outputs() > 0.5)

    def margin(self) -> float:
        """How far every f is on its side of 1/2, by the bits of s: positive where all patterns are realised."""
        sides = 2.0 * binary_digits(len(self.queries)) - 1.0
        return float(np.min(sides * (self.outputs() - 0.5), initial=np.inf))

    def holds(self) -> bool:
        """Whether head s realises the bits of s, for every s."""
        return self.margin() > 0


def shattering_heads(length: int, scale: float | None = None) -> ShatteringHeads:
    """The heads for the power of two not above `length`; `scale` is the norm of w_QK, T² unless given."""
    inputs = shattering_inputs(length)
    T = inputs.shape[1]
    norm = float(T) ** 2 if scale is None else scale
    check_open("scale", norm, 0)
    return ShatteringHeads(inputs, norm * _circle(T), np.array([0.0, 0.0, 1.0]))


def _circle(length: int) -> Array:
    """(cos 2πt/T, sin 2πt/T, 0) for each t."""
    angle = 2 * np.pi * np.arange(length) / length
    return np.column_stack([np.cos(angle), np.sin(angle), np.zeros(length)])


HeadName = Literal["det_single", "det_multi", "train_single", "train_multi", "bag_scalar", "bag_vector"]
Mode = Literal["printed", "dual"]


class _Kind(NamedTuple):
    """What the six heads differ in: how bits become tokens, whether every bit is put out, and what is computed."""

    mapping: str
    vector: bool
    gamma: Callable[[int], float]
    target: Callable[[Array], Array]


def _mean(bits: Array) -> Array:
    return np.asarray(1 - 2 * bits.mean(axis=1, keepdims=True))


def _signs(bits: Array) -> Array:
    return 1 - 2 * bits


def _bag_mean(bits: Array) -> Array:
    ones = bits.sum(axis=1, keepdims=True)
    return np.asarray((ones - bits.shape[1]) / (ones + 1))


def _bag(bits: Array) -> Array:
    return np.asarray((bits - 1) / (bits.sum(axis=1, keepdims=True) + 1))


KINDS: dict[str, _Kind] = {
    "det_single": _Kind("deterministic", False, lambda s: min(1.0, 2 / s), _mean),
    "det_multi": _Kind("deterministic", True, lambda s: 1.0, _signs),
    "train_single": _Kind("trainable", False, lambda s: min(1.0, 2 / s), _mean),
    "train_multi": _Kind("trainable", True, lambda s: 1.0, _signs),
    "bag_scalar": _Kind("bag", False, lambda s: 1 / s, _bag_mean),
    "bag_vector": _Kind("bag", True, lambda s: 1 / s, _bag),
}


NEEDS_DUAL = ("det_single", "bag_scalar", "bag_vector")
"""Heads that attend to several positions at once, and so must score them alike."""


@dataclass(frozen=True, eq=False)
class SparseHead:
    """Weights that select the bits of `support` among `length`, and what they approximate within `gamma`/4.

    `parameters` are those of an attention-mlp of this `mapping`, without its ReLUs; `strength` is R, `coherence` the
    measured Δ of the positions.
    """

    name: str
    length: int
    support: tuple[int, ...]
    mapping: str
    parameters: dict[str, Array]
    gamma: float
    strength: float
    coherence: float
    sign: float

    @property
    def outputs(self) -> int:
        """How many coordinates carry the output: s, or 1."""
        return len(self.support) if KINDS[self.name].vector else 1

    def target(self, bits: ArrayLike) -> Array:
        """What is approximated, for rows of relevant bits [batch, s] in the order of the support; [batch, outputs]."""
        return self.sign * KINDS[self.name].target(np.asarray(bits, np.float64))

    def points(self) -> Array:
        """The values of the target: for r = 0..s, or for all 2^s settings in the order of a truth table."""
        s = len(self.support)
        settings = settings_of(s) if KINDS[self.name].vector else np.tri(s + 1, s, -1)
        return self.target(settings)


def settings_of(s: int) -> Array:
    """All settings of s bits: row r has bit j of r in column j; shape [2^s, s]."""
    return np.asarray((np.arange(2**s)[:, None] >> np.arange(s)) & 1, np.float64)


@dataclass(frozen=True)
class HeadOptions:
    """How a head is written down.

    `gamma` is γ, what the ReLUs that follow need unless given: min(1, 2/s), 1 or 1/s. The `dimension` of tokens is the
    least that makes positions exactly orthogonal, unless given; in a smaller one, or with `exact=False`, fixed
    positions are random signs drawn from `basis_seed`. There may be more `heads` than needed: the others put out 0.
    `strength` replaces R, and with it the promise. The targets of det_single and train_single decrease in r;
    `increasing` negates the values.
    """

    gamma: float | None = None
    dimension: int | None = None
    heads: int | None = None
    mode: Mode = "dual"
    strength: float | None = None
    basis_seed: int = 0
    exact: bool | None = None
    increasing: bool = False


def sparse_head(head: HeadName, n: int, support: tuple[int, ...], options: HeadOptions = HeadOptions()) -> SparseHead:
    """The head named `head` for the bits of `support` in a context of n."""
    mode, exact = options.mode, options.exact
    if head not in KINDS:
        raise unknown("head", head, KINDS)
    require(mode in get_args(Mode), f"mode must be 'printed' or 'dual'; got mode={mode!r}")
    kind, s = KINDS[head], len(support)
    gamma = kind.gamma(s) if options.gamma is None else options.gamma
    require(is_number(gamma) and 0 < gamma <= 1, f"gamma must be a number in (0, 1]; got gamma={gamma!r}")
    directed = head in ("det_single", "train_single")
    require(directed or not options.increasing, f"increasing belongs to det_single and train_single; got head={head!r}")
    sign = -1.0 if options.increasing else 1.0
    if kind.mapping == "trainable":
        vectors = _trained(n, support, options.dimension, kind.vector)
    else:
        vectors = basis(n, options.dimension, options.basis_seed, exact)
        require_integer("dimension", vectors.dimension, s)
    R = options.strength
    if R is None:
        R = _strength(head, n, s, gamma, vectors.coherence, mode, exact)
    check_open("strength", R, 0)
    relevant = vectors.positions[list(support)]
    if mode == "dual" and head in NEEDS_DUAL:
        _require_incoherent(head, n, s, vectors.coherence, exact)
        relevant = np.asarray(np.linalg.solve(relevant @ relevant.T, relevant), np.float64)  # rows u_j
    if kind.mapping == "bag":
        weights = _bag_weights(relevant, vectors.cls, R, kind.vector)
    else:
        keys = {"det_single": relevant.sum(axis=0, keepdims=True), "train_single": relevant[:1]}.get(head, relevant)
        value = sign * (vectors.tokens[0] - vectors.tokens[1])
        column = 1 if mode == "printed" and head == "det_multi" else 0
        weights = _selecting_weights(keys, value, vectors.cls, R, column)
    params = {**_with_heads(weights, head, s, options.heads), "cls": vectors.cls, "P": vectors.positions}
    if kind.mapping != "bag":
        params["E"] = vectors.tokens
    return SparseHead(head, n, tuple(support), kind.mapping, params, float(gamma), float(R), vectors.coherence, sign)


def _selecting_weights(keys: Array, value: Array, cls: Array, R: float, column: int) -> dict[str, Array]:
    """One head per key: Q = R v_CLS e_1ᵀ, K = key e_1ᵀ, V = value e_1ᵀ, C = e_1 e_hᵀ; `column` 1 is the printed e_2."""
    h, d = keys.shape
    Q, K, V, C = _zeros(h, d, 1 + column)
    Q[:, :, 0], K[:, :, 0], V[:, :, column] = R * cls, keys, value
    C[np.arange(h), 0, np.arange(h)] = 1.0
    return {"Q": Q, "K": K, "V": V, "C": C}


def _bag_weights(keys: Array, cls: Array, R: float, vector: bool) -> dict[str, Array]:
    """Q = R v_CLS e_1ᵀ, K = (Σ_j u_j + v_CLS) e_1ᵀ, V = Σ_j (u_j - v_CLS) e_jᵀ, C = Σ_j e_j e_1ᵀ or Σ_j e_j e_jᵀ."""
    s, d = keys.shape
    Q, K, V, C = _zeros(1, d, s)
    Q[0, :, 0], K[0, :, 0], V[0] = R * cls, keys.sum(axis=0) + cls, (keys - cls).T
    C[0, np.arange(s), np.arange(s) if vector else 0] = 1.0
    return {"Q": Q, "K": K, "V": V, "C": C}


def _zeros(h: int, d: int, k: int) -> tuple[Array, Array, Array, Array]:
    return np.zeros((h, d, k)), np.zeros((h, d, k)), np.zeros((h, d, k)), np.zeros((h, k, d))


def _with_heads(weights: dict[str, Array], head: str, s: int, heads: int | None) -> dict[str, Array]:
    """The weights with as many heads as asked for: those that are not needed have none but zeros."""
    needed = len(weights["Q"])
    if heads is None:
        return weights
    require_integer("heads", heads, 1)
    other = " (or head='bag_vector', which needs one)"
    require(
        heads >= needed,
        f"{head} needs a head for each of the s={s} relevant bits; got heads={heads} (try heads={needed}){other}",
    )
    return {name: np.pad(value, ((0, heads - needed), (0, 0), (0, 0))) for name, value in weights.items()}


def _strength(head: str, n: int, s: int, gamma: float, coherence: float, mode: Mode, exact: bool | None) -> float:
    """R: the error 2T e^{-R·margin}, times s in a bag, is γ/4."""
    bag = KINDS[head].mapping == "bag"
    enough = math.log(8 * n * (s if bag else 1) / gamma)
    if mode == "dual" and head in NEEDS_DUAL:
        _require_incoherent(head, n, s, coherence, exact)
        return enough / (1 - _leakage(s, coherence))
    if mode == "dual" or coherence == 0:
        require(
            coherence < 1, f"{head} needs different positions; two of these are equal up to sign (another basis_seed)"
        )
        return enough / (1 - coherence)
    allowed = gamma if bag else 1.0
    require(
        s * coherence < allowed,
        f"the printed strength of {head} needs s·Δ < {allowed:g}; positions have Δ={coherence:.4g} and s={s} "
        f"(try dimension={sufficient_dimension(n, allowed / s, exact)}, mode='dual', or a strength of your own)",
    )
    if bag:
        enough = math.log(8 * n * s * (1 + coherence) / (gamma - s * coherence))
    return enough / (1 - s * coherence)


def _leakage(s: int, coherence: float) -> float:
    """ρ = sΔ/(1-(s-1)Δ): the most that the dual key scores an irrelevant position."""
    return s * coherence / (1 - (s - 1) * coherence)


def _require_incoherent(head: str, n: int, s: int, coherence: float, exact: bool | None) -> None:
    bound = 1 / (2 * s - 1)
    require(
        coherence < bound,
        f"{head} needs positions with |v_i·v_j| < 1/(2s-1) = {bound:.4g} for s={s}; these have Δ={coherence:.4g} "
        f"(try dimension={sufficient_dimension(n, bound, exact)})",
    )


def sufficient_dimension(n: int, coherence: float, exact: bool | None = None) -> int:
    """A dimension with |v_i·v_j| below `coherence`: n+3, or fewer where random signs will probably do.

    With `exact=False` there are only random signs.
    """
    random = required_dimension(n, min(coherence, 0.5))
    return random if exact is False else min(n + RESERVED, random)


def _trained(n: int, support: tuple[int, ...], dimension: int | None, vector: bool) -> Basis:
    """Positions that the construction chooses: e_j for the j-th relevant one, or e_1 for all of them; 0 elsewhere."""
    s = len(support)
    used = s if vector else 1
    d = used + RESERVED if dimension is None else dimension
    require_integer("dimension", d, used + RESERVED)
    positions = np.zeros((n, d))
    positions[list(support), np.arange(s) if vector else 0] = 1.0
    reserved = np.eye(d)[d - RESERVED :]
    return Basis(positions, reserved[:2], reserved[2], 0.0)
