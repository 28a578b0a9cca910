"""Sums over tokens, with a function of its own for every pair of a token and a label.

*Can SGD learn recurrent neural networks with provable generalization?* (equation 3.1). Of a sequence with L-2 unit
tokens x*_2 .. x*_{L-1} (`token_sequences.py`) the label at position j = 3 .. L is, for outputs s and p terms r,

    F*_{j,s}(x*) = Σ_{i=2}^{j-1} Σ_r a_{i→j,r,s} Φ_{i→j,r,s}(<w*_{i→j,r,s}, x*_i>),    ‖w*‖ = 1,    Φ(0) = 0

which reads tokens before position j alone. The amplitudes a (1 unless given) are part of Φ in the source; here Φ is
what a program is made of and a is a number that it reads, as is w*: trials with other targets are one cohort.

    token-sum            every (i, j, r, s) has its own                                                       (eq. 3.1)
    token-convolution    A*_{j-i} φ(W*_{j-i} x*_i): parameters depend on j-i alone                            (Ex. 3.5)

Sums over letters are in `letters.py`.

Labels may carry normal noise of variance v (the agnostic case: F* has risk v/2 for half the square). A task is judged
by the truth F*, so its error is what is lost beyond that.
"""

import abc
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from equinox import AbstractVar
from jaxtyping import Array, Float, PRNGKeyArray

from krogh.errors import require, require_integer, unknown
from krogh.tasks.base import Examples, Task, mean_squares, task
from krogh.tasks.series import find_series
from krogh.tasks.system import System
from krogh.tasks.token_moments import Floats
from krogh.tasks.token_sequences import (
    BIAS,
    REST,
    TOLERANCE,
    check_sequences,
    check_tokens,
    draw_tokens,
    normalise_tokens,
    running_sums,
    sum_of_products,
)
from krogh.values import AnyArray, data, plain, structure, traced

LABELS = ("every", "last")
NODES = 48
"""Of the quadrature by which moments of labels are computed."""


class Sequences(NamedTuple):
    """Raw examples: true tokens (or bits), and standard normal noise of the labels where there is any."""

    tokens: AnyArray
    noise: Any = ()


class SequenceSum(Task):
    """What tasks on sequences of unit tokens share: how they are normalised, where labels stand, noise, squared errors.

    Labels are at j = 3 .. L or at L alone; `noise` is the variance v of what is added to them.
    """

    length: AbstractVar[int]
    eps_x: AbstractVar[Float[AnyArray, ""]]
    last: AbstractVar[str]
    noise: AbstractVar[Float[AnyArray, ""] | None]

    @property
    @abc.abstractmethod
    def every(self) -> bool:
        """Whether every position has a label, and not the last alone."""

    @property
    @abc.abstractmethod
    def dx(self) -> int:
        """How many numbers a token has."""

    @property
    @abc.abstractmethod
    def outputs(self) -> int:
        """d: how many numbers a label has."""

    @abc.abstractmethod
    def tokens(self, raw: AnyArray) -> Float[Array, "batch count dx"]:
        """The true tokens of raw ones."""

    @abc.abstractmethod
    def draw_raw(self, key: PRNGKeyArray, size: int) -> AnyArray:
        """`size` raw sequences of tokens."""

    @abc.abstractmethod
    def truth(self, raw: AnyArray) -> Float[Array, "batch labels outputs"]:
        """F* at the positions that have labels."""

    @abc.abstractmethod
    def moments(self) -> tuple[Floats, Floats]:
        """Means and variances of F*, each [labels, outputs]."""

    @property
    def places(self) -> tuple[int, ...]:
        """The positions j that have labels, counted from 1."""
        return places_of(self.length, "every" if self.every else "last")

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Every (i, j) with i < j, in the order of parameters: by j, then by i."""
        return tuple((i, j) for j in self.places for i in range(2, j))

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.length, self.dx + 1)

    @property
    def regression(self) -> bool:
        return True

    def check_common(self) -> None:
        check_sequences(self.length, self.dx, self.eps_x, self.last)
        noise = self.noise
        fine = noise is None or traced(noise) or bool(np.all((np.asarray(noise) >= 0) & np.isfinite(noise)))
        require(fine, f"noise is a variance, a finite number ≥ 0; got noise={plain(noise)}")

    def draw(self, key: PRNGKeyArray, size: int) -> Sequences:
        if self.noise is None:
            return Sequences(self.draw_raw(key, size))
        for_tokens, for_noise = jax.random.split(key)
        shape = (size, len(self.places), self.outputs)
        return Sequences(self.draw_raw(for_tokens, size), jax.random.normal(for_noise, shape, jnp.float32))

    def without_noise(self, raw: AnyArray) -> Sequences:
        """Raw sequences as examples whose labels are the truth."""
        noise = () if self.noise is None else np.zeros((len(raw), len(self.places), self.outputs), np.float32)
        return Sequences(raw, noise)

    def decode(self, raw: Sequences) -> Examples:
        x = normalise_tokens(self.tokens(raw.tokens), self.eps_x, self.last)
        truth = self.truth(raw.tokens)
        y = truth if self.noise is None else truth + jnp.sqrt(self.noise) * jnp.asarray(raw.noise)
        return Examples(x, self._shaped(y), self._shaped(truth))

    def _shaped(self, labels: Float[Array, "batch labels outputs"]) -> Float[Array, "batch ..."]:
        """Without the axes that there are not: of one label, and of one output."""
        size, places, outputs = labels.shape
        kept = (places,) * self.every + (outputs,) * (outputs > 1)
        return labels.reshape(size, *kept)

    def error(self, prediction: Float[Array, "batch ..."], truth: Float[Array, "batch ..."]) -> Float[Array, " batch"]:
        """The mean over labels and outputs of squared differences."""
        return mean_squares(prediction, truth)

    def baselines(self) -> dict[str, float]:
        """The mean over labels of E F*² and of Var F*: what 0 and what the best constants lose.

        An error over `variance` is the share of variance that is not explained, Σ_j E(y_j - F*_j)² / Σ_j Var F*_j.
        """
        mean, variance = self.moments()
        return {"null_risk": float(np.mean(mean**2 + variance)), "variance": float(np.mean(variance))}


def places_of(length: int, labels: str) -> tuple[int, ...]:
    """The positions j that have labels: 3 .. L, or L alone."""
    return tuple(range(3, length + 1)) if labels == "every" else (length,)


def pairs_of(length: int, labels: str = "every") -> tuple[tuple[int, int], ...]:
    """Every (i, j) with 2 ≤ i < j, of labels at j = 3 .. L or at L alone: by j, then by i."""
    return tuple((i, j) for j in places_of(length, labels) for i in range(2, j))


class SphereSum(SequenceSum):
    """Tokens uniform on what is allowed, and F* by weights [pairs, p, outputs, dx] and amplitudes alike."""

    weights: AbstractVar[Float[AnyArray, "... dx"]]
    labels: AbstractVar[str]

    @property
    def every(self) -> bool:
        return self.labels == "every"

    @property
    def dx(self) -> int:
        return int(np.shape(self.weights)[-1])

    @abc.abstractmethod
    def terms(self) -> tuple[Array, Array, Sequence[str]]:
        """Weights [pairs, p, outputs, dx], amplitudes [pairs, p, outputs], and the name of each Φ in their order."""

    def draw_raw(self, key: PRNGKeyArray, size: int) -> Array:
        return draw_tokens(key, size, self.length - 2, self.dx)

    def tokens(self, raw: AnyArray) -> Float[Array, "batch count dx"]:
        return jnp.asarray(raw)

    def truth(self, raw: AnyArray) -> Float[Array, "batch labels outputs"]:
        weights, amplitudes, names = self.terms()
        read = np.array([i - 2 for i, _ in self.pairs])
        own = jnp.take(jnp.asarray(raw), read, axis=1)[:, :, None, None, :]  # [batch, pairs, 1, 1, dx]
        z = sum_of_products(own, weights[None])
        terms = sum_of_products(amplitudes[None], _apply(names, z), axis=2)
        # every label adds up all tokens, and 0 for those that it does not read: as many additions as tokens, not pairs
        pair = np.full((len(self.places), self.length - 2), len(self.pairs))
        pair[[j - self.places[0] for _, j in self.pairs], read] = np.arange(len(self.pairs))
        padded = jnp.concatenate([terms, jnp.zeros_like(terms[:, :1])], axis=1)
        return running_sums(jnp.take(padded, pair, axis=1), axis=2)[-1]

    def of_tokens(self, tokens: Any) -> Examples:
        """Examples of tokens of your own [batch, L-2, dx], without noise."""
        given = np.asarray(tokens, np.float32)
        shape = (self.length - 2, self.dx)
        require(
            given.ndim == 3 and given.shape[1:] == shape,
            f"tokens have the shape [batch, {shape[0]}, {shape[1]}]; got {list(given.shape)}",
        )
        check_tokens(given)
        return self.decode(self.without_noise(given))

    def moments(self) -> tuple[Floats, Floats]:
        """By quadrature: tokens are independent, and two directions u, v of one see (<u, t>, <v, t>) on a sphere."""
        weights, amplitudes, names = (np.asarray(part) for part in self.terms())
        amplitudes, p = amplitudes.astype(np.float64), weights.shape[1]
        first, second, mass = _sphere_pairs(self.dx - 1)
        rest, bias = weights[..., :-1].astype(np.float64), BIAS * weights[..., -1].astype(np.float64)
        size = np.linalg.norm(rest, axis=-1)
        unit = rest / np.maximum(size, 1e-12)[..., None]
        kinds = np.reshape(names, weights.shape[:3])

        def values(r: int, along: Floats) -> Floats:
            """a Φ at <w_r, x*> = √3/2·‖rest‖·along + bias: [pairs, outputs, nodes]."""
            z = REST * size[:, r, :, None] * along + bias[:, r, :, None]
            phi = _apply(kinds[:, r, :].ravel(), jnp.asarray(z[None, :, None]))[0, :, 0]
            return amplitudes[:, r, :, None] * np.asarray(phi)

        mean, square = np.zeros(size[:, 0].shape), np.zeros(size[:, 0].shape)
        for r in range(p):
            left = values(r, np.broadcast_to(first, (*size[:, 0].shape, first.size)))
            mean += left @ mass
            for other in range(p):
                cosine = np.clip(np.sum(unit[:, r] * unit[:, other], axis=-1), -1, 1)[..., None]
                along = cosine * first + np.sqrt(1 - cosine**2) * second
                square += (left * values(other, along)) @ mass
        variance = square - mean**2
        ends = np.cumsum([0, *(j - 2 for j in self.places)])[:-1]
        return np.add.reduceat(mean, ends, axis=0), np.add.reduceat(variance, ends, axis=0)


def _apply(names: Iterable[Any], z: Array) -> Array:
    """Each Φ to its own arguments: z [batch, pairs, p, outputs, ...], names in the order of the middle axes."""
    listed = [str(name) for name in names]
    kinds = list(dict.fromkeys(listed))
    if len(kinds) == 1:
        return find_series(kinds[0])(z)
    own = np.array([kinds.index(name) for name in listed]).reshape(1, *z.shape[1:4], *(1 for _ in z.shape[4:]))
    total = jnp.zeros_like(z)
    for place, kind in enumerate(kinds):
        total = jnp.where(own == place, find_series(kind)(z), total)
    return total


def _sphere_pairs(n: int) -> tuple[Floats, Floats, Floats]:
    """Nodes and weights for two orthogonal coordinates of a uniform point on the unit sphere of R^n.

    The first has the density (1-t²)^{(n-3)/2}, the second is √(1-t²) times one for n-1; of the line there is but one.
    """
    ends = np.array([-1.0, 1.0]), np.array([0.5, 0.5])

    def one(dimension: int) -> tuple[Floats, Floats]:
        if dimension == 1:
            return ends
        nodes, mass = scipy.special.roots_gegenbauer(NODES, (dimension - 2) / 2)
        return nodes, mass / mass.sum()

    t, mass = one(n)
    if n == 1:
        return t, np.zeros(2), mass
    s, other = one(n - 1)
    first, second = np.meshgrid(t, s, indexing="ij")
    return first.ravel(), (np.sqrt(1 - first**2) * second).ravel(), np.outer(mass, other).ravel()


def _phi_text(given: Any) -> str:
    """A function's name, or its coefficients as text."""
    return given if isinstance(given, str) else f"[{', '.join(repr(float(number)) for number in given)}]"


def _phi_texts(given: Any) -> tuple[str, ...]:
    """One function for all, or one for each: names, or lists of coefficients."""
    numbers = not isinstance(given, str) and all(isinstance(one, int | float) for one in given)
    return (_phi_text(given),) if isinstance(given, str) or numbers else tuple(_phi_text(one) for one in given)


def check_labels(length: int, labels: str) -> None:
    require_integer("length", length, 3)
    if labels not in LABELS:
        raise unknown("labels", labels, LABELS)


def _check_unit(weights: Any, name: str) -> None:
    if not traced(weights):
        norms = np.linalg.norm(np.asarray(weights, np.float64), axis=-1)
        off = norms.ravel()[np.argmax(np.abs(norms - 1))]
        fine = bool(np.all(np.abs(norms - 1) <= TOLERANCE))
        require(fine, f"{name} are unit vectors; got one of norm {off:.6g} (target_weights draws some)")


def check_finite(given: Any, name: str) -> None:
    require(traced(given) or bool(np.all(np.isfinite(given))), f"{name} are finite numbers; got {plain(given)}")


def _check_sizes(length: int, dx: int, p: int, outputs: int) -> None:
    for name, number, least in (("length", length, 3), ("dx", dx, 2), ("p", p, 1), ("outputs", outputs, 1)):
        require_integer(name, number, least)


def target_weights(*shape: int, seed: int = 0, bias: bool = False) -> Float[np.ndarray, "*shape"]:
    """Independent uniform unit vectors along the last axis; without a last coordinate, unless there is a `bias`."""
    drawn = np.random.default_rng([917, seed]).standard_normal(shape)
    if not bias:
        drawn[..., -1] = 0.0
    return (drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)).astype(np.float32)


THEORY = (
    "recurrence/sums-guarantee",
    "recurrence/sums-training",
    "recurrence/sums-size",
    "recurrence/good-shift",
    "recurrence/complexity",
)
KNOBS = {
    "length": "positions L, two of them without a token: how long must be remembered",
    "eps_x": "how large tokens are beside the state that they are written into",
    "labels": "whether every position has a label or the last alone",
}
NOISE = "variance of the labels: what no learner explains"
LEARNED = ("recurrence/token-sums", "recurrence/length", "recurrence/width-free", "recurrence/kernel")


@task("token-sum")
class TokenSum(SphereSum):
    """F*_{j,s} = Σ_{i<j} Σ_r a Φ(<w*, x*_i>) with parameters for every pair (i, j), term r and output s.

    `weights` are [pairs, p, outputs, dx] in the order of `pairs`; `phi` is one name (or list of coefficients) for all,
    or one for every (pair, r, s) in that order.
    """

    length: int = structure()
    weights: Float[AnyArray, "pairs p outputs dx"] = data()
    phi: tuple[str, ...] = structure(default=("z",), converter=_phi_texts)
    amplitudes: Float[AnyArray, "pairs p outputs"] | None = data(optional=True, default=None)
    eps_x: Float[AnyArray, ""] = data(default=1.0)
    last: str = structure(default="eps")
    labels: str = structure(default="every")
    noise: Float[AnyArray, ""] | None = data(optional=True, default=None)

    system = System(
        knobs={
            **KNOBS,
            "phi": "the functions: their Taylor coefficients are what they cost",
            "weights": "which directions of tokens are seen, for each pair of a token and a label",
            "noise": NOISE,
        },
        baselines=("null_risk", "variance"),
        theory=THEORY,
        phenomena={
            "SGD learns a sum of functions of tokens": LEARNED[:2],
            "generalisation does not depend on width": LEARNED[2:3],
            "what is learned is what the tangent kernel learns": LEARNED[3:],
            "noise is averaged away": ("recurrence/agnostic",),
        },
    )

    def __check_init__(self) -> None:
        check_labels(self.length, self.labels)
        shape, count = np.shape(self.weights), len(self.pairs)
        require(
            len(shape) == 4 and shape[0] == count and min(shape) >= 1,
            f"weights have the shape [{count} pairs i < j, p, outputs, dx] for length={self.length} and labels="
            f"{self.labels!r}; got {list(shape)}",
        )
        self.check_common()
        _check_unit(self.weights, "weights w*")
        if self.amplitudes is not None:
            given = np.shape(self.amplitudes)
            require(given == shape[:3], f"amplitudes have the shape {list(shape[:3])}; got {list(given)}")
            check_finite(self.amplitudes, "amplitudes")
        for name in dict.fromkeys(self.phi):
            find_series(name)
        terms = math.prod(shape[:3])
        require(
            len(self.phi) in (1, terms),
            f"phi is one function for all, or one for each of {terms} terms; got {len(self.phi)} functions",
        )

    @classmethod
    def of_pairs(cls, length: int, weights: Mapping[tuple[int, int], Any], **options: Any) -> "TokenSum":
        """The task with weights [p, outputs, dx] given for each pair (i, j), i < j: token i and the label at j."""
        wanted = pairs_of(length, options.get("labels", "every"))
        for i, j in weights:
            require(i < j, f"a label reads tokens before its position alone, i < j; got i={i}, j={j}")
            require((i, j) in wanted, f"pairs have 2 ≤ i < j ≤ {length}, and j a label; got i={i}, j={j}")
        missing = [pair for pair in wanted if pair not in weights]
        require(not missing, f"every pair i < j has a function; got none for {missing[:3]}")
        stacked = np.stack([np.asarray(weights[pair], np.float32) for pair in wanted])
        return cls(length=length, weights=stacked, **options)

    @classmethod
    def random(
        cls, length: int, dx: int, p: int = 1, outputs: int = 1, seed: int = 0, bias: bool = False, **options: Any
    ) -> "TokenSum":
        """The task with independent uniform w*, without a last coordinate unless there is a `bias`."""
        _check_sizes(length, dx, p, outputs)
        count = len(pairs_of(length, options.get("labels", "every")))
        return cls(length=length, weights=target_weights(count, p, outputs, dx, seed=seed, bias=bias), **options)

    @property
    def outputs(self) -> int:
        return int(np.shape(self.weights)[-2])

    def terms(self) -> tuple[Array, Array, Sequence[str]]:
        weights = jnp.asarray(self.weights)
        ones = jnp.ones(weights.shape[:3], weights.dtype)
        names = self.phi * math.prod(weights.shape[:3]) if len(self.phi) == 1 else self.phi
        return weights, ones if self.amplitudes is None else jnp.asarray(self.amplitudes), names

    @classmethod
    def example(cls) -> "TokenSum":
        return cls.random(5, 3, phi="z^2")


@task("token-convolution")
class TokenConvolution(SphereSum):
    """F*_j = Σ_{i<j} A*_{j-i} φ(W*_{j-i} x*_i), for lags j-i = 1 .. L-2.

    `weights` are W* [lags, p, dx] with unit rows, `read` is A* [lags, outputs, p].
    """

    length: int = structure()
    weights: Float[AnyArray, "lags p dx"] = data()
    read: Float[AnyArray, "lags outputs p"] = data()
    phi: str = structure(default="z", converter=_phi_text)
    eps_x: Float[AnyArray, ""] = data(default=1.0)
    last: str = structure(default="eps")
    labels: str = structure(default="every")
    noise: Float[AnyArray, ""] | None = data(optional=True, default=None)

    system = System(
        knobs={
            **KNOBS,
            "phi": "the activation",
            "weights": "what is looked for at each distance from a label",
            "noise": NOISE,
        },
        baselines=("null_risk", "variance"),
        theory=THEORY,
        phenomena={"SGD learns a sum of functions of tokens": ("recurrence/token-sums",)},
    )

    def __check_init__(self) -> None:
        check_labels(self.length, self.labels)
        lags, weights, read = self.length - 2, np.shape(self.weights), np.shape(self.read)
        require(
            len(weights) == 3 and weights[0] == lags and min(weights) >= 1,
            f"weights have the shape [{lags} lags, p, dx] for length={self.length}; got {list(weights)}",
        )
        fits = len(read) == 3 and read[0] == lags and read[2] == weights[1] and min(read) >= 1
        require(fits, f"read has the shape [{lags} lags, outputs, {weights[1]} neurons]; got {list(read)}")
        self.check_common()
        _check_unit(self.weights, "rows of W*")
        check_finite(self.read, "entries of A*")
        find_series(self.phi)

    @classmethod
    def random(
        cls, length: int, dx: int, p: int = 1, outputs: int = 1, seed: int = 0, bias: bool = False, **options: Any
    ) -> "TokenConvolution":
        """Independent uniform unit rows of W*, and normal A* of variance 1/p."""
        _check_sizes(length, dx, p, outputs)
        read = np.random.default_rng([918, seed]).standard_normal((length - 2, outputs, p)) / math.sqrt(p)
        weights = target_weights(length - 2, p, dx, seed=seed, bias=bias)
        return cls(length=length, weights=weights, read=read, **options)

    @property
    def outputs(self) -> int:
        return int(np.shape(self.read)[1])

    def terms(self) -> tuple[Array, Array, Sequence[str]]:
        lags = np.array([j - i - 1 for i, j in self.pairs])
        weights = jnp.take(jnp.asarray(self.weights), lags, axis=0)
        amplitudes = jnp.swapaxes(jnp.take(jnp.asarray(self.read), lags, axis=0), 1, 2)
        shape = (*amplitudes.shape, weights.shape[-1])
        return jnp.broadcast_to(weights[:, :, None], shape), amplitudes, (self.phi,) * math.prod(shape[:3])

    @classmethod
    def example(cls) -> "TokenConvolution":
        return cls.random(6, 4, p=2, outputs=2, phi="tanh", seed=1)
