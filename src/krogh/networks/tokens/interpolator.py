"""Networks that fit n samples and ignore the sequence (qSTR paper, Lemmas 36 to 38 and the proof of Theorem 9).

    g(t) = y_1 relu(t - z_1 + 1) + (s_2 - y_1) relu(t - z_1) + Σ_{i≥3} (s_i - s_{i-1}) relu(t - z_{i-1})

runs through (z_1, y_1), ..., (z_n, y_n), z sorted, with slopes s_i = (y_i - y_{i-1})/(z_i - z_{i-1}). By homogeneity
its weights (a, w, b) may be rebalanced to (κa, w/κ, b/κ); with κ⁴ = (‖z‖² + n) ε²/‖y‖²

    ‖a‖² + ‖w‖² + ‖b‖² = C ‖y‖ √(n + ‖z‖²)/ε,        ε the least gap of the z, or 1 if that is less.

The constant is at most 20: ‖a'‖² ≤ 17 ‖y‖²/ε² before rebalancing, since second differences at most quadruple a norm,
and n + ‖b'‖² ≤ 3 (n + ‖z‖²). Alternating labels at equal gaps come close to 17; Gaussian samples mostly stay below 2.5.
Projections of n Gaussian tokens on a random direction have gaps of order 1/n² with constant probability, so that a
network of squared norm O(n³) fits any n labels of one position each, whatever the length of the sequence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from krogh.errors import require, require_integer
from krogh.models.residual_rnn import DIRECTIONS, LipschitzRnn
from krogh.networks.handmade import Array, Construction, Oracle, construction
from krogh.networks.tokens.prompts import TokenPrompts, theory_dimension
from krogh.tasks.codes import sign_codes
from krogh.tasks.links import LinearLink, unit_vector
from krogh.tasks.token_regression import TokenRegression

DIRECTIONS_TRIED = 64
"""Random directions among which one is sought that separates the tokens; each does with probability 1/3 or more."""


@dataclass(frozen=True, eq=False)
class Interpolator:
    """t ↦ Σ_j a_j relu(w_j t + b_j) through given points; `gap` is ε, `scale` is ‖y‖ √(n + ‖z‖²)/ε."""

    a: Array
    w: Array
    b: Array
    gap: float
    scale: float

    def __call__(self, t: ArrayLike) -> Array:
        """The network's values."""
        return np.maximum(np.multiply.outer(np.asarray(t, np.float64), self.w) + self.b, 0.0) @ self.a

    @property
    def squared_norm(self) -> float:
        """‖a‖² + ‖w‖² + ‖b‖²."""
        return float(sum(np.sum(part**2) for part in (self.a, self.w, self.b)))

    @property
    def constant(self) -> float:
        """C = (‖a‖² + ‖w‖² + ‖b‖²) ε/(‖y‖ √(n + ‖z‖²)); nan where all labels are 0."""
        return self.squared_norm / self.scale if self.scale > 0 else math.nan


def interpolator(z: ArrayLike, y: ArrayLike) -> Interpolator:
    """The two-layer ReLU network of n units through (z_i, y_i), rebalanced (Lemma 38)."""
    places, values = np.asarray(z, np.float64), np.asarray(y, np.float64)
    require(
        places.ndim == 1 and places.shape == values.shape and places.size > 0,
        f"an interpolator goes through n ≥ 1 points (z_i, y_i); got shapes {places.shape} and {values.shape}",
    )
    n, order = len(places), np.argsort(places)
    knots, heights = places[order], values[order]
    gaps = np.diff(knots)
    require(np.all(gaps > 0), f"the places must differ; got {knots[:-1][gaps <= 0][:1]} twice")
    slopes = np.diff(heights) / gaps
    a = np.concatenate([heights[:1], slopes[:1] - heights[:1], np.diff(slopes)])
    b = np.concatenate([1 - knots[:1], -knots[:-1]])
    gap = min(1.0, float(gaps.min(initial=1.0)))
    size, extent = float(np.linalg.norm(values)), n + float(places @ places)
    if size == 0:
        return Interpolator(0 * a, np.zeros(n), np.zeros(n), gap, 0.0)
    kappa = (extent * gap**2 / size**2) ** 0.25
    return Interpolator(kappa * a, np.full(n, 1 / kappa), b / kappa, gap, size * math.sqrt(extent) / gap)


@dataclass(frozen=True, eq=False)
class Separation:
    """A unit direction and the projections of n tokens on it; `separated` says whether Lemma 37's bounds hold."""

    direction: Array
    projections: Array
    separated: bool


def separating_direction(tokens: Array, seed: int = 0) -> Separation:
    """A direction on which n tokens [n, d] have gaps of at least √π/(3n²) and Σ z² ≤ 3n (Lemma 37).

    Random directions are tried until one does; if none does, the one with the widest least gap is taken.
    """
    n, d = tokens.shape
    random = np.random.default_rng(seed)
    best, widest = None, -1.0
    for direction in random.normal(size=(DIRECTIONS_TRIED, d)):
        direction = direction / np.linalg.norm(direction)
        z = tokens @ direction
        gap = float(np.diff(np.sort(z)).min(initial=math.inf))
        separated = gap >= math.sqrt(math.pi) / (3 * n**2) and float(z @ z) <= 3 * n
        if separated:
            return Separation(direction, z, True)
        if gap > widest:
            best, widest = Separation(direction, z, False), gap
    assert best is not None
    return best


@dataclass(frozen=True, eq=False)
class Fitted(Oracle):
    """n prompts, each with one observed label; elsewhere, the straight lines through the observed points.

    At the observed position the output must be the label, known from the sequence; at all others it depends on that
    position's token alone, through ⟨v, x⟩: np.interp between the points, the end pieces of the formula beyond.
    """

    prompts: Array
    positions: np.ndarray
    labels: Array
    direction: Array
    dimension: int

    @property
    def exhaustive(self) -> bool:
        return False

    def cases(self, seed: int) -> Iterator[tuple[Array, Array]]:
        rows = np.arange(len(self.prompts))
        t = self.prompts[:, :, : self.dimension] @ self.direction
        z = t[rows, self.positions]
        order = np.argsort(z)
        z, y = z[order], self.labels[order]
        slope = (y[-1] - y[-2]) / (z[-1] - z[-2]) if len(z) > 1 else y[0]
        expected = np.interp(t, z, y)
        expected = np.where(t < z[0], y[0] * np.maximum(t - z[0] + 1, 0.0), expected)
        expected = np.where(t > z[-1], y[-1] + slope * (t - z[-1]), expected)
        expected[rows, self.positions] = self.labels
        yield self.prompts, expected


@dataclass(frozen=True, eq=False)
class Overfitting(Construction):
    """The overfitting network with the interpolator inside it, and whether the tokens are separated as in Lemma 37."""

    interpolator: Interpolator = field(kw_only=True)
    separated: bool = field(kw_only=True)

    @property
    def squared_norm(self) -> float:
        """‖vec Θ‖²."""
        return float(sum(np.sum(value**2) for value in self.parameters.values()))


@construction("qstr/overfitting-rnn", source="qSTR paper, Lemmas 36 to 38 and the proof of Theorem 9")
def token_interpolator(
    samples: int,
    length: int,
    dimension: int,
    depth: int = 2,
    state: int | None = None,
    code_dimension: int | None = None,
    seed: int = 0,
) -> Construction:
    """A recurrent network that fits one label of each of n prompts and ignores the sequence.

    U = 0, W_y = (w vᵀ, 0), W_2 = (a; -a), W_3 = ... = W_(L-1) copy two coordinates, W_L = (1, -1);  for L = 2, W_2 = a

    Prompts, observed positions and the direction u of the labels ⟨u, x_t⟩ are drawn by `seed`; `depth` is L = L_y and
    `state` is d_h, n unless given. ‖vec Θ‖² is O(n³) whatever the length.
    """
    require_integer("samples", samples, 1)
    require_integer("depth", depth, 2)
    state = max(samples, 2) if state is None else state
    require_integer("state", state, 1)
    require(
        state >= samples,
        f"n samples need a network of width n; got samples={samples}, state={state} (try state={samples})",
    )
    require(depth == 2 or state >= 2, f"depth {depth} copies two coordinates; got state={state} (try state=2)")
    codes = sign_codes(length, theory_dimension(length, code_dimension), seed)
    task = TokenRegression(length, dimension, LinearLink(unit_vector(dimension, seed)), codes)
    random = np.random.default_rng([seed, samples])
    tokens = random.normal(size=(samples, length, dimension))
    indices = random.integers(0, length, (samples, length, 1))
    positions = random.integers(0, length, samples)
    rows = np.arange(samples)
    writer = TokenPrompts(task, reach=math.inf, shared=False)
    labels = writer.labels(tokens, indices)[rows, positions]
    separation = separating_direction(tokens[rows, positions], seed)
    inside = interpolator(separation.projections, labels)
    return Overfitting(
        name="qstr/overfitting-rnn",
        task=task,
        model=LipschitzRnn(state, depth=1, readout_depth=depth),
        parameters=overfitting_params(task, inside, separation.direction, state, depth),
        statement=f"ŷ = y at one position of each of {samples} prompts of {length} tokens, as a function of that "
        "position's token alone",
        width=state,
        oracle=Fitted(writer.encode(tokens, indices), positions, labels, separation.direction, dimension),
        # Between close points the slope is as large as |y|/ε, and so is what rounding costs.
        tolerance=max(1e-10, 1e-14 * float(np.abs(labels).max()) / inside.gap),
        interpolator=inside,
        separated=separation.separated,
    )


def overfitting_params(
    task: TokenRegression, inside: Interpolator, direction: Array, state: int, depth: int
) -> dict[str, Array]:
    """The weights of a Lipschitz recurrent network whose readout is t ↦ g(t) at t = ⟨v, x_i⟩."""
    n, d, features = len(inside.a), task.dimension, task.features
    params: dict[str, Array] = {f"{name}_W1h": np.zeros((state, state)) for name in DIRECTIONS}
    params |= {f"{name}_W1z": np.zeros((state, features)) for name in DIRECTIONS}
    params |= {"U_forward": np.zeros((state, state)), "U_backward": np.zeros((state, state))}
    params |= {"W_y": np.zeros((state, features)), "b_y": np.zeros(state)}
    params["W_y"][:n, :d] = np.outer(inside.w, direction)
    params["b_y"][:n] = inside.b
    layers: list[Array] = [np.zeros((state, state)) for _ in range(depth - 2)] + [np.zeros(state)]
    if depth == 2:
        layers[0][:n] = inside.a
    else:
        layers[0][0, :n], layers[0][1, :n] = inside.a, -inside.a
        for copy in layers[1:-1]:
            copy[[0, 1], [0, 1]] = 1.0
        layers[-1][:2] = 1.0, -1.0
    params |= {f"W{place}": layer for place, layer in enumerate(layers, start=2)}
    return params | {f"b{place}": np.zeros(state) for place in range(2, depth)}
