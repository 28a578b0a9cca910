"""Functions of a whole sequence of tokens, with one label at its end (*Learning and generalization in RNNs*, Def. 3.3).

    F_s(x) = Σ_{r ≤ p} b_{r,s} Φ_{r,s}(⟨w_{r,s}, [x_2, …, x_{L-1}]⟩),    s = 1 .. outputs

with |b| ≤ 1, unit vectors w in R^{(L-2) dx} and smooth Φ with Φ(0) = 0: a network with one hidden layer that reads the
concatenated true tokens. Unless Φ is linear it mixes tokens, which no sum over positions can (`additive_floor`). A
model is given the normalised sequence of `token_sequences`, with x_L = (0, 1).

With `every_step` there is a label at positions j = 3 .. L, the same function of the tokens before j, 2 .. j-1 (the
others count as 0); the last is the label that there is without it, and networks are judged by it alone.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from krogh.errors import require, require_integer
from krogh.tasks.base import Examples, Task, mean_squares, task
from krogh.tasks.series import Series, find_series
from krogh.tasks.system import System
from krogh.tasks.token_moments import Floats, no_moments, sum_moments, token_moments
from krogh.tasks.token_sequences import check_sequences, draw_tokens, normalise_tokens, running_sums, sum_of_products
from krogh.values import AnyArray, data, plain, structure, traced

MOST_EXACT_DEGREE = 12
"""Moments up to twice this degree are computed in closed form."""


class Tokens(NamedTuple):
    """Raw examples: true tokens, and a standard normal number for the noise of every label."""

    tokens: Float[AnyArray, "size count dx"]
    noise: Float[AnyArray, "size ..."]


@task("whole-sequence")
class WholeSequence(Task):
    """The target of Definition 3.3: by default one term z² of random weights that leave the tokens' bias out.

    `weights` [p, outputs, L-2, dx] are unit vectors for every (r, s), `coefficients` [p, outputs] the b. `functions`
    are names or coefficient lists of `series`: one for all terms, or one for each (r, s), the outputs of a term beside
    each other. `noise` is the standard deviation of what is added to observed labels.
    """

    weights: Float[AnyArray, "terms outputs count dx"] = data(internal=True)
    coefficients: Float[AnyArray, "terms outputs"] = data(internal=True)
    eps_x: Float[AnyArray, ""] = data()
    noise: Float[AnyArray, ""] = data()
    functions: tuple[str, ...] = structure()
    every_step: bool = structure()

    system = System(
        knobs={
            "weights": "directions in the space of whole sequences",
            "functions": "Φ: how high a degree of interaction between tokens",
            "eps_x": "the size of tokens beside the ends: how much of the state they are",
            "noise": "standard deviation of the noise on labels",
            "every_step": "whether prefixes have labels too",
        },
        baselines=("null_risk", "label_variance", "additive_floor"),
        theory=(
            "recurrence/whole-training",
            "recurrence/whole-existence",
            "recurrence/whole-norm",
            "recurrence/square-floor",
            "recurrence/rademacher",
            "recurrence/regret",
        ),
        phenomena={
            "interactions between tokens are learned": ("recurrence/whole-sequence", "recurrence/trained-parts"),
            "training follows the kernel": ("recurrence/rademacher", "recurrence/regret"),
        },
    )

    def __init__(
        self,
        weights: Any,
        functions: Any = "z^2",
        coefficients: Any = None,
        eps_x: Any = 1.0,
        noise: Any = 0.0,
        every_step: bool = False,
    ):
        shape = np.shape(weights)
        require(
            len(shape) == 4 and shape[2] >= 1 and shape[3] >= 2,
            f"weights have the shape [terms, outputs, tokens, dx] with dx ≥ 2; got {list(shape)}",
        )
        terms, outputs, count, dx = shape
        check_sequences(count + 2, dx, eps_x, "one")
        require(isinstance(every_step, bool), f"every_step must be True or False; got every_step={every_step!r}")
        given = (functions,) if isinstance(functions, str) or not np.iterable(functions) else tuple(functions)
        if given and isinstance(given[0], int | float):
            given = (given,)  # one list of coefficients
        names = [one if isinstance(one, str) else str([float(number) for number in one]) for one in given]
        require(
            len(names) in (1, terms * outputs),
            f"functions are one for all terms, or one for each of {terms} × {outputs}; got {len(names)}",
        )
        self.weights = weights
        self.coefficients = np.ones((terms, outputs)) if coefficients is None else coefficients
        self.eps_x, self.noise = eps_x, noise
        for name in names:
            find_series(name)
        self.functions = tuple(names)
        self.every_step = every_step

    def __check_init__(self) -> None:
        terms, outputs, _, _ = np.shape(self.weights)
        fits = np.shape(self.coefficients) == (terms, outputs)
        require(fits, f"coefficients have the shape {[terms, outputs]}; got {list(np.shape(self.coefficients))}")
        if traced(self.weights) or traced(self.coefficients) or traced(self.noise):
            return
        norms = np.linalg.norm(np.asarray(self.weights, np.float64).reshape(terms, outputs, -1), axis=-1)
        off = np.argmax(np.abs(norms - 1))
        unit = bool(np.all(np.abs(norms - 1) <= 1e-4))
        require(unit, f"every w is a unit vector over all tokens; got one of norm {norms.ravel()[off]:.6g}")
        small = bool(np.all(np.abs(np.asarray(self.coefficients)) <= 1))
        require(small, f"coefficients b lie in [-1, 1]; got {plain(self.coefficients)}")
        require(bool(np.all(np.asarray(self.noise) >= 0)), f"noise must be at least 0; got noise={plain(self.noise)}")

    @classmethod
    def random(
        cls, length: int, dx: int = 3, terms: int = 1, outputs: int = 1, seed: int = 0, **options: Any
    ) -> WholeSequence:
        """Uniformly random unit weights, 0 on the last coordinate of every token."""
        check_sequences(length, dx, 1.0, "one")
        for name, number in (("terms", terms), ("outputs", outputs)):
            require_integer(name, number, 1)
        w = np.random.default_rng(seed).standard_normal((terms, outputs, length - 2, dx))
        w[..., -1] = 0.0
        return cls(w / np.linalg.norm(w, axis=(-2, -1), keepdims=True), **options)

    @property
    def terms(self) -> int:
        """p."""
        return int(np.shape(self.weights)[-4])

    @property
    def outputs(self) -> int:
        return int(np.shape(self.weights)[-3])

    @property
    def length(self) -> int:
        """L, both ends counted."""
        return int(np.shape(self.weights)[-2]) + 2

    @property
    def dx(self) -> int:
        return int(np.shape(self.weights)[-1])

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.length, self.dx + 1)

    @property
    def regression(self) -> bool:
        return True

    def series(self) -> list[list[Series]]:
        """Φ_{r,s}."""
        found = [find_series(name) for name in self.functions]
        every = found * (self.terms * self.outputs) if len(found) == 1 else found
        return [every[r * self.outputs : (r + 1) * self.outputs] for r in range(self.terms)]

    def draw(self, key: PRNGKeyArray, size: int) -> Tokens:
        for_tokens, for_noise = jax.random.split(key)
        steps = (self.length - 2,) if self.every_step else ()
        outputs = (self.outputs,) if self.outputs > 1 else ()
        noise = jax.random.normal(for_noise, (size, *steps, *outputs), jnp.float32)
        return Tokens(draw_tokens(for_tokens, size, self.length - 2, self.dx), noise)

    def decode(self, raw: Tokens) -> Examples:
        tokens = jnp.asarray(raw.tokens)
        truth = self.target(tokens)
        x = normalise_tokens(tokens, self.eps_x, "one")
        return Examples(x, truth + jnp.asarray(self.noise) * raw.noise, truth)

    def target(self, tokens: Float[AnyArray, "size count dx"]) -> Float[Array, "size ..."]:
        """F of true tokens, at the end or at every step: [size, L-2, outputs] without the axes that there are not."""
        tokens = jnp.asarray(tokens)
        directions = jnp.transpose(jnp.asarray(self.weights), (2, 0, 1, 3))[None]
        own = sum_of_products(tokens[:, :, None, None, :], directions)  # [size, L-2, terms, outputs]
        sums = running_sums(own, axis=1)
        z = jnp.stack(sums, axis=1) if self.every_step else sums[-1]
        terms = self.series()
        values = [[terms[r][s](z[..., r, s]) for s in range(self.outputs)] for r in range(self.terms)]
        each = jnp.stack([jnp.stack(of_term, axis=-1) for of_term in values], axis=-2)
        b = jnp.asarray(self.coefficients)
        found = sum_of_products(each, b.reshape((1,) * (each.ndim - 2) + b.shape), axis=-2)
        return found if self.outputs > 1 else found[..., 0]

    def error(self, prediction: Float[Array, "batch ..."], truth: Float[Array, "batch ..."]) -> Float[Array, " batch"]:
        """The squared error, its mean over steps and outputs."""
        return mean_squares(prediction, truth)

    def judge(self, prediction: Float[Array, "batch ..."], examples: Examples) -> Float[Array, " batch"]:
        """The squared error at the end."""
        if not self.every_step:
            return self.error(prediction, examples.truth)
        return self.error(prediction[:, -1:], examples.truth[:, -1:])

    def baselines(self) -> dict[str, float]:
        """E y² of predicting 0, the variance of the label at the end, and what no sum over tokens can explain of it;
        of polynomials, in closed form."""
        series = [one for of_term in self.series() for one in of_term]
        if any(one.degree is None or one.degree > MOST_EXACT_DEGREE for one in series):
            return {}
        at_end = [self._moments(s) for s in range(self.outputs)]
        variance, additive = (math.fsum(one[name] for one in at_end) for name in ("variance", "additive"))
        # a sum over tokens cannot explain less than nothing, nor more than all, whatever the rounding
        floor = min(1.0, max(0.0, 1 - additive / variance)) if variance > 0 else 0.0
        return {
            "null_risk": self._null_risk(),
            "label_variance": variance / self.outputs,
            "additive_floor": floor,
        }

    def _null_risk(self) -> float:
        """E y², its mean over steps and outputs."""
        counts = range(1, self.length - 1) if self.every_step else [self.length - 2]
        every = [self._moments(s, count)["second"] for s in range(self.outputs) for count in counts]
        return math.fsum(every) / len(every)

    def _moments(self, s: int, count: int | None = None) -> dict[str, float]:
        """Of output s on the first `count` tokens: E y², Var y, and Σ_i Var E[y | x_i], the best additive part."""
        count = self.length - 2 if count is None else count
        w = np.asarray(self.weights, np.float64)[:, s, :count]
        b = np.asarray(self.coefficients, np.float64)[:, s]
        phi = [of_term[s].coefficients() for of_term in self.series()]
        degree = max(map(len, phi)) - 1
        c = np.array([np.pad(one, (0, degree + 1 - len(one))) for one in phi]) * b[:, None]
        mean = second = 0.0
        additive = np.zeros(count)
        means = np.zeros(count)
        for r in range(self.terms):
            for q in range(self.terms):
                each = [token_moments(w[r, i], w[q, i], degree) for i in range(count)]
                whole = _summed(each, degree)
                second += float(c[r] @ whole @ c[q])
                if q == 0:
                    mean += float(c[r] @ whole[:, 0])
                for i in range(count):
                    rest = _summed([*each[:i], *each[i + 1 :]], degree)
                    left, right = _given(c[r], rest[:, 0]), _given(c[q], rest[0])
                    additive[i] += float(left @ each[i] @ right)
                    if q == 0:
                        means[i] += float(left @ each[i][:, 0])
        return {"second": second, "variance": second - mean**2, "additive": float(np.sum(additive - means**2))}

    def function_constants(self) -> dict[str, float]:
        """L_Φ and C_Φ: the Lipschitz constant and the largest |Φ| on (-√L, √L), over all terms, on a fine grid."""
        z = jnp.linspace(-math.sqrt(self.length), math.sqrt(self.length), 4001)
        every = [one for of_term in self.series() for one in of_term]
        slopes = [float(jnp.max(jnp.abs(jax.vmap(jax.grad(one.formula))(z)))) for one in every]
        return {"lipschitz": max(slopes), "largest": max(float(jnp.max(jnp.abs(one(z)))) for one in every)}

    @classmethod
    def example(cls) -> WholeSequence:
        return cls.random(length=5, dx=3, seed=1)


def _summed(each: list[Floats], degree: int) -> Floats:
    total = no_moments(degree)
    for own in each:
        total = sum_moments(total, own)
    return total


def _given(c: Floats, rest: Floats) -> Floats:
    """Coefficients of E[Σ_k c_k (u + R)^k | u] as a polynomial in u, where `rest` are the moments of R."""
    found = np.zeros_like(c)
    for k, number in enumerate(c):
        for power in range(k + 1):
            found[power] += number * math.comb(k, power) * rest[k - power]
    return found
