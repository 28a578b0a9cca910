"""Weights by which one smooth function of one token is read off the signs of a random recurrent network.

*Can SGD learn recurrent neural networks with provable generalization?*, Lemmas 5.1 and 5.2. A token x* has norm 1 and
last coordinate 1/2; a direction w* is a unit vector with last coordinate 0; φ(z) = Σ_{q≥1} c_q z^q.

**A token with its bias** (Lemma 5.1). For a ~ N(0, I_dx) and n ~ N(0, σ²) let α = ⟨w*, a⟩, b = a_dx/2 ~ N(0, 1/4) and
r² = 3/4 + σ²: H of `HermiteWeight` has E[1{⟨a, x*⟩ + n ≥ 0} H(a)] = φ(⟨w*, x*⟩). With γn in place of n it falls like
1/γ.

**One token of a sequence** (Lemma 5.2). Neurons k whose recurrent weights hardly see the base state at position i-1,

    E_k: |⟨w_k, h⁰_{i-1}⟩| ≤ ε_c/√m,    P_i = P(E_k) = erf(ε_c/(2‖h⁰_{i-1}‖))

have at position i a pre-activation ε_x(⟨a, x*_i⟩ + σ_i n), because h_{i-1} differs from h⁰_{i-1} by noise of size ε_x
σ_i (`krogh.theory.recurrence.gram.residual_scales`). So weights c_k = 1_{E_k} H(√(m/2) a_k)/P_i on the signs D have

    (1/m) Σ_k c_k D_{i',k}  ≈  φ(⟨w*, x*_i⟩) at i' = i,  and O(ε_x) at other positions,

where h_{i'-1} has a part of order 1 that no event holds fixed. `expected_selection` is the limit of infinite width,
exact: with τ² the variance that ⟨w, h_{i'-1}⟩ keeps when ⟨w, h⁰_{i-1}⟩ is known, it is H's `response` at r'² = 3/4 +
(τ/ε_x)².
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
import scipy.special
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray
from scipy import integrate

from krogh.errors import require, require_integer
from krogh.networks.handmade import Checked, Handmade, Oracle, handmade, sizes_of
from krogh.networks.recurrence.hermite import HermiteWeight
from krogh.networks.recurrence.random_network import RandomRnn, random_rnn
from krogh.tasks.series import find_series
from krogh.tasks.token_sequences import BIAS, base_sequence, check_sequences, draw_tokens, normalise_tokens
from krogh.theory.recurrence.gram import gram, residual_scales

Array = NDArray[np.float64]
INPUTS = 30
"""Random sequences on which a network is checked."""
ERRORS = 4.0
"""Standard errors within which a mean over neurons must lie."""
ANGLES = 12
"""Gauss nodes over the event."""
DEGREE = 12
"""Where a power series without end is cut off."""
ROUNDING = 1e-9


def token_weight(coefficients: ArrayLike, sigma: float) -> HermiteWeight:
    """H of Lemma 5.1: for a token's bias of variance 1/4, at the radius √(3/4 + σ²)."""
    require(0 <= sigma < math.inf, f"sigma must be at least 0 and finite; got sigma={sigma!r}")
    return HermiteWeight(np.asarray(coefficients, np.float64), math.sqrt(1 - BIAS**2 + sigma**2), BIAS)


def weigh_tokens(weight: HermiteWeight, a: ArrayLike, direction: ArrayLike) -> Array:
    """H(a) = H(⟨w*, a⟩, a_dx/2) for rows a [*batch, dx]."""
    rows = np.asarray(a, np.float64)
    return weight(rows @ np.asarray(direction, np.float64), BIAS * rows[..., -1])


def event_probability(eps_c: float, norm: float) -> float:
    """P_i = erf(ε_c/(2‖h⁰_{i-1}‖)) for |⟨w, h⁰_{i-1}⟩| ≤ ε_c/√m with w ~ N(0, 2/m)."""
    require(eps_c > 0, f"eps_c must be positive; got eps_c={eps_c!r}")
    return math.erf(eps_c / (2 * norm))


def check_direction(direction: ArrayLike, dx: int) -> Array:
    """A unit vector of dx numbers whose last is 0, or one clear error."""
    given = np.asarray(direction, np.float64)
    fits = given.shape == (dx,) and abs(float(np.linalg.norm(given)) - 1) < 1e-6 and abs(float(given[-1])) < 1e-9
    require(fits, f"a direction w* is a unit vector of {dx} numbers, the last of them 0; got {given.tolist()}")
    return given


def polynomial(series: str) -> Array:
    """The Taylor coefficients c_0 = 0, c_1, ... of a function, up to its degree or to that of `DEGREE`."""
    found = find_series(series)
    return found.coefficients(DEGREE if found.degree is None else found.degree)


def selection_moments(x: Array, base: Array, position: int) -> tuple[Array, Array, float]:
    """What ⟨w, h_{l-1}(x)⟩√(m/2), l = 1..L, is when z = ⟨w, h⁰_{i-1}⟩√(m/2) is known: mean/z, variance; ‖h⁰_{i-1}‖."""
    own, crossed, bases = gram(x, x).product, gram(x, base).product, gram(base, base).product
    fixed = bases[position - 1, position - 1]
    along = crossed[:-1, position - 1] / fixed
    return along, np.maximum(np.diagonal(own)[:-1] - along**2 * fixed, 0.0), math.sqrt(fixed)


def expected_selection(
    tokens: Array, direction: Array, coefficients: Array, position: int, eps_x: float, eps_c: float, last: str = "eps"
) -> Array:
    """E[1_E/P · 1{⟨w, h_{l-1}⟩ + ⟨a, x_l⟩ ≥ 0} H(a)] at positions l = 1..L of true tokens [L-2, dx], at infinite width.

    The event leaves z in [-ε_c/√2, ε_c/√2], and the mean of what is read in position i moves with it: it is
    integrated over. At the ends of a sequence H is independent of the sign, and has mean 0.
    """
    length, dx = len(tokens) + 2, tokens.shape[1]
    x = np.asarray(normalise_tokens(tokens, eps_x, last), np.float64)
    base = np.asarray(base_sequence(length, dx, eps_x, last), np.float64)
    along, variance, norm = selection_moments(x, base, position)
    weight = token_weight(coefficients, float(residual_scales(x, base, eps_x)[position - 1]))
    nodes, shares = legendre.leggauss(ANGLES)
    z = nodes * eps_c / math.sqrt(2)
    shares = shares * np.exp(-((z / norm) ** 2) / 2)
    shares /= shares.sum()
    found = np.zeros(length)
    for l in range(2, length):  # noqa: E741  (the sources' letter)
        projected = float(direction @ tokens[l - 2])
        radius = math.sqrt(1 - BIAS**2 + float(variance[l - 1]) / eps_x**2)
        shifts = along[l - 1] * z / eps_x
        found[l - 1] = sum(
            share * float(weight.response(projected, radius, shift))
            for share, shift in zip(shares, shifts.tolist(), strict=True)
        )
    return found


@dataclass(frozen=True)
class SelectorSettings:
    """What a selector is made of; the network is drawn from the seed."""

    width: int
    length: int = 6
    dx: int = 3
    position: int = 4
    series: str = "z"
    eps_x: float = 0.1
    eps_c: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        check_sequences(self.length, self.dx, self.eps_x, "eps")
        require_integer("width", self.width, 1)
        require_integer("position", self.position, 2, self.length - 1)
        require(self.eps_c > 0, f"eps_c must be positive; got eps_c={self.eps_c!r}")

    @functools.cached_property
    def direction(self) -> Array:
        """w*: a unit vector with last coordinate 0, from the seed."""
        return random_directions(np.random.default_rng([self.seed, 1]), (), self.dx)


def random_directions(rng: np.random.Generator, shape: tuple[int, ...], dx: int) -> Array:
    """Unit vectors [*shape, dx] with last coordinate 0, uniform."""
    g = rng.standard_normal((*shape, dx))
    g[..., -1] = 0.0
    return g / np.linalg.norm(g, axis=-1, keepdims=True)


@dataclass(frozen=True)
class SelectionOracle(Oracle):
    """The limit of infinite width (`expected_selection`) on random sequences."""

    settings: SelectorSettings

    @property
    def exhaustive(self) -> bool:
        return False

    def cases(self, seed: int) -> Iterator[tuple[Array, Array]]:
        """Inputs [30, L, dx+1] and what is selected of them at every position [30, L]."""
        s = self.settings
        tokens = np.asarray(draw_tokens(jax.random.key(seed), INPUTS, s.length - 2, s.dx), np.float64)
        x = np.asarray(normalise_tokens(tokens, s.eps_x, "eps"), np.float64)
        c = polynomial(s.series)
        yield x, np.stack([expected_selection(one, s.direction, c, s.position, s.eps_x, s.eps_c) for one in tokens])


@handmade("selector")
@dataclass(frozen=True, eq=False)
class Selector(Handmade):
    """c [m] on the signs of a random network: (1/m) Σ_k c_k D_{l,k} is φ(⟨w*, x*_i⟩) at l = i, small elsewhere."""

    settings: SelectorSettings
    network: RandomRnn
    parameters: Mapping[str, Array]

    @property
    def name(self) -> str:
        return "selector"

    @property
    def statement(self) -> str:
        s = self.settings
        return (
            f"(1/m)Σ_k c_k D_(l,k) of a random network of width m = {s.width:,} is φ(⟨w*, x*_l⟩), φ = {s.series}, at "
            f"l = {s.position} of {s.length} positions and O(ε_x) at the others, ε_x = {s.eps_x:g}, up to the error of "
            "a mean over neurons"
        )

    @property
    def size(self) -> dict[str, float]:
        return {"width": self.settings.width, **sizes_of(self.parameters)}

    @property
    def oracle(self) -> SelectionOracle:
        return SelectionOracle(self.settings)

    def terms(self, x: ArrayLike) -> Array:
        """c_k D_{l,k} [batch, L, m]."""
        run = self.network.run(np.asarray(x, np.float64))
        return np.where(run.active[1:].swapaxes(0, 1), self.parameters["c"], 0.0)

    def run(self, x: ArrayLike, /) -> Array:
        """What is selected at every position [batch, L] of inputs [batch, L, dx+1]."""
        return np.asarray(self.terms(x).mean(axis=-1))

    def check(self, seed: int = 0) -> Checked:
        """Compare c with its definition, and what it selects with the limit of infinite width, in standard errors.

        The statement is one about a mean over m neurons: every position of every sequence must lie within 4 standard
        errors of the limit, which at position i is φ.
        """
        (x, expected), *_ = self.oracle.cases(seed)
        terms = self.terms(x)
        found, error = terms.mean(axis=-1), terms.std(axis=-1) / math.sqrt(self.settings.width)
        scores = np.abs(found - expected) / error
        written = float(np.max(np.abs(self.parameters["c"] - self._defined())))
        tolerable = ROUNDING * float(np.abs(self.parameters["c"]).max())
        holds = bool(np.all(scores <= ERRORS)) and written <= tolerable
        scope = (
            f"selected values on {len(x)} inputs × {x.shape[1]} positions, within {ERRORS:g} standard errors "
            f"(at most {scores.max():.2g}) of infinite width, with weights as defined"
        )
        details = {"standard_errors": float(scores.max()), "departure_from_definition": written}
        return Checked(holds, len(x), False, float(np.abs(found - expected).max()), scope, details)

    def _defined(self) -> Array:
        """c by its definition once more, with SciPy's polynomials and integrals and one neuron's event at a time."""
        s, m = self.settings, self.settings.width
        base = np.asarray(base_sequence(s.length, s.dx, s.eps_x, "eps"), np.float64)
        state = np.zeros(m)
        for one in base[: s.position - 1]:
            state = np.maximum(self.network.W @ state + self.network.A @ one, 0.0)
        r = math.sqrt(0.75 + _sigma(s) ** 2)
        a = math.sqrt(m / 2) * self.network.A[:, : s.dx]
        alpha, b = a @ s.direction, a[:, -1] / 2

        def q(i: int, at: Any) -> Any:
            density = np.exp(-((at / r) ** 2) / 2) / math.sqrt(2 * math.pi)
            return scipy.special.eval_hermitenorm(i - 1, -at / r) * density

        def squared(at: float, i: int) -> float:  # under the law of b, N(0, 1/4)
            return float(q(i, at) ** 2 * math.exp(-2 * at**2) * math.sqrt(2 / math.pi))

        total = np.zeros(m)
        for i, c in enumerate(polynomial(s.series)):
            if i and c:
                z = integrate.quad(squared, -8, 8, (i,), epsabs=1e-14, epsrel=1e-12, limit=400)[0]
                total += c * r**i / z * scipy.special.eval_hermitenorm(i, alpha) * q(i, b)
        inside = np.abs(self.network.W @ state) <= s.eps_c / math.sqrt(m)
        return np.where(inside, total, 0.0) / math.erf(s.eps_c / 2 / float(np.sqrt(state @ state)))

    def recipe(self) -> dict[str, Any]:
        return {"settings": {name: getattr(self.settings, name) for name in SelectorSettings.__dataclass_fields__}}

    @classmethod
    def from_recipe(cls, recipe: Mapping[str, Any]) -> Selector:
        return selector(**recipe["settings"])

    def with_parameters(self, parameters: Mapping[str, Any]) -> Selector:
        return replace(self, parameters=parameters)


def _sigma(s: SelectorSettings) -> float:
    """σ_i, which is the same for all tokens."""
    return sigma_at(s.length, s.dx, s.eps_x)[s.position]


def sigma_at(length: int, dx: int, eps_x: float, last: str = "eps") -> dict[int, float]:
    """σ_i of positions i = 1..L (C-M9), the same for all tokens."""
    token = np.zeros((length - 2, dx))
    token[:, 0], token[:, -1] = math.sqrt(1 - BIAS**2), BIAS
    x = np.asarray(normalise_tokens(token, eps_x, last), np.float64)
    base = np.asarray(base_sequence(length, dx, eps_x, last), np.float64)
    return dict(enumerate(residual_scales(x, base, eps_x).tolist(), start=1))


def selection_weights(
    network: RandomRnn, base: Array, direction: Array, coefficients: Array, sigma: float, eps_c: float
) -> Array:
    """c_k = 1{|⟨w_k, h⁰⟩| ≤ ε_c/√m} H(√(m/2) a_k)/P for the base state h⁰ [m] before the position that is selected."""
    m, dx = network.width, len(direction)
    inside = np.abs(network.recur(base)) <= eps_c / math.sqrt(m)
    found = np.zeros(m)
    rows = math.sqrt(m / 2) * np.asarray(network.A[inside, :dx], np.float64)
    norm = float(np.linalg.norm(np.asarray(base, np.float64)))
    found[inside] = weigh_tokens(token_weight(coefficients, sigma), rows, direction) / event_probability(eps_c, norm)
    return found


def selector(width: int, **settings: Any) -> Selector:
    """The selector of a random network of this width; settings are those of `SelectorSettings`."""
    s = SelectorSettings(width, **settings)
    network = random_rnn(s.width, s.dx + 1, seed=s.seed)
    base = network.run(np.asarray(base_sequence(s.length, s.dx, s.eps_x, "eps"), np.float64)[None])
    state = base.h[s.position - 1, 0]
    c = selection_weights(network, state, s.direction, polynomial(s.series), _sigma(s), s.eps_c)
    return Selector(s, network, {"c": c})
