"""What models share: initialisers, the tasks they can read, activations that contain a parity, norms, dropout (§B.4.1).

How an affine layer's parameters are drawn; weights and biases alike:

    uniform      U[-c, c], c = 1/√fan_in            the default of PyTorch's Linear
    glorot       U[-c, c], c = √(6/(fan_in+fan_out))
    gaussian     N(0, 2/fan_in)                     Kaiming
    bernoulli    ±1/√fan_in
    normal       N(0, 1)       \
    signs        ±1             }                   the disjoint-PolyNet theory (§5.4.2)
    ones         1             /

The source says "Xavier convention, the package default" for the uniform one, which names two things: `uniform` is the
package's default, `glorot` is Xavier's.

The activations of the single neurons that compute a parity (Figure B.14) all pass through the knots
A_k = {(k-2j, (-1)^j) : j = 0..k}, so that the weights w_S = Σ_{i in S} e_i with bias 0 give sigma(w_S·x) = chi_S(x).

Dropout masks are a hash of the step's noise and the place, so that no mask is ever drawn or stored.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num, PRNGKeyArray, UInt32

from krogh.errors import require, unknown
from krogh.tasks.base import ClassificationTask, Examples, Task
from krogh.tasks.bits import GOLDEN, mixed, stream
from krogh.tasks.boolean import BooleanTask
from krogh.values import AnyArray, structure_of

INITIALISERS = ("uniform", "glorot", "gaussian", "bernoulli", "normal", "signs", "ones")
NEURON_ACTIVATIONS = ("zigzag", "polynomial", "infinite-zigzag", "sine")
NORM_EPSILON = 1e-5

Layers = Mapping[str, tuple[tuple[int, ...], int]]
"""Names of parameters with their shape and the fan-in of the layer they belong to."""

Polynomial = tuple[Fraction, ...]
"""Coefficients, lowest first."""

_EXAMPLES: dict[tuple[type[Task], str], Examples] = {}


def check_initialiser(name: str) -> None:
    if name not in INITIALISERS:
        raise unknown("initialiser", name, INITIALISERS)


def initialise(name: str, key: PRNGKeyArray, shape: tuple[int, ...], fan_in: int, fan_out: int = 1) -> Array:
    """An array of `shape` drawn by the initialiser `name`."""
    if name in ("uniform", "glorot"):
        bound = 1 / math.sqrt(fan_in) if name == "uniform" else math.sqrt(6 / (fan_in + fan_out))
        return jax.random.uniform(key, shape, jnp.float32, -bound, bound)
    if name == "gaussian":
        return math.sqrt(2 / fan_in) * jax.random.normal(key, shape, jnp.float32)
    if name == "normal":
        return jax.random.normal(key, shape, jnp.float32)
    if name in ("bernoulli", "signs"):
        scale = 1 / math.sqrt(fan_in) if name == "bernoulli" else 1.0
        return scale * jax.random.rademacher(key, shape, jnp.float32)
    if name == "ones":
        return jnp.ones(shape, jnp.float32)
    raise unknown("initialiser", name, INITIALISERS)


def draw_sparse_rows(key: PRNGKeyArray, rows: int, n: int, s: int) -> Float[Array, "rows n"]:
    """Rows of n entries, s of which are 1 and the others 0: a subset drawn uniformly for each row (§6.3.2)."""
    _, chosen = jax.lax.top_k(jax.random.bits(key, (rows, n), jnp.uint32), s)
    return jnp.zeros((rows, n), jnp.float32).at[jnp.arange(rows)[:, None], chosen].set(1.0)


def draw_layers(
    key: PRNGKeyArray, layers: Layers, initialiser: str = "uniform", others: Mapping[str, str] | None = None
) -> dict[str, Array]:
    """Every array of `layers` drawn by the initialiser, or by one of `others` by name; a key for each, in their order.

    The default is what PyTorch does for affine and recurrent layers, weights and biases alike.
    """
    keys, by_name = jax.random.split(key, len(layers)), others or {}
    return {
        name: initialise(by_name.get(name, initialiser), one, shape, fan_in, shape[-1] if shape else 1)
        for one, (name, (shape, fan_in)) in zip(keys, layers.items(), strict=True)
    }


def read_out_layers(features: int, hidden: int, classes: int | None = None) -> dict[str, tuple[tuple[int, ...], int]]:
    """The layers of `read_out`: for one number, or for a logit per class."""
    outputs = () if classes is None else (classes,)
    return {
        "W": ((hidden, features), features),
        "b": ((hidden,), features),
        "u": ((*outputs, hidden), hidden),
        "c": (outputs, hidden),
    }


def read_out(params: dict[str, Array], mixed: Float[Array, "*rows features"]) -> Float[Array, "..."]:
    """The same two-layer network u·ReLU(W m + b) + c at every position: [*rows], or [*rows, classes] logits."""
    rows = mixed.reshape(-1, mixed.shape[-1])
    # Neurons first: W @ rowsᵀ and its gradient both read W as it lies, which a CPU rewards.
    hidden = jax.nn.relu(params["W"] @ rows.T + params["b"][:, None])
    if params["u"].ndim == 2:
        return (params["u"] @ hidden + params["c"][:, None]).T.reshape(*mixed.shape[:-1], -1)
    return (params["u"] @ hidden + params["c"]).reshape(mixed.shape[:-1])


def require_signs(model_name: str, task: Task) -> None:
    require(
        isinstance(task, BooleanTask),
        f"a {model_name} reads sign vectors; got the task {task.kind or type(task).__name__!r}",
    )


def require_sequence(model_name: str, task: Task) -> None:
    """Refuse a task that is not a sequence of real tokens with a real answer at every position."""
    require(
        _answered_by_numbers(task),
        f"a {model_name} reads sequences of shape [length, features] and answers with a real number at every position; "
        f"got the task {task.kind or type(task).__name__!r} of input shape {list(task.input_shape)} "
        f"(try the task 'qstr')",
    )


def require_sequence_or_tokens(model_name: str, task: Task) -> None:
    """Refuse a task that is neither a sequence of real tokens with real answers nor one of symbols with classes."""
    require(
        _answered_by_numbers(task) or symbols_of(task) is not None,
        f"a {model_name} reads sequences of shape [length, features] and answers with a real number at every position, "
        f"or sequences of symbols and answers with a class at every position; got the task "
        f"{task.kind or type(task).__name__!r} of input shape {list(task.input_shape)} "
        f"(try the task 'qstr' or 'markov-chains')",
    )


def require_symbols(model_name: str, task: Task) -> tuple[int, int]:
    """How many symbols there are, and numbers in an answer; refuse a task that is no sequence of symbols."""
    symbols, answers = symbols_of(task), answers_of(task)
    require(
        symbols is not None and answers is not None,
        f"a {model_name} reads sequences of symbols and answers with a class at every position, or with a number for "
        f"each of several questions; got the task {task.kind or type(task).__name__!r} of input shape "
        f"{list(task.input_shape)} (try the task 'markov-chains' or 'regular-language')",
    )
    assert symbols is not None and answers is not None
    return symbols, answers


def require_tokens(model_name: str, task: Task) -> int:
    """How many symbols there are; refuse a task that is not a sequence of symbols with a class at every position."""
    symbols = symbols_of(task)
    require(
        symbols is not None and isinstance(task, ClassificationTask),
        f"a {model_name} reads sequences of symbols and answers with a class at every position; got the task "
        f"{task.kind or type(task).__name__!r} of input shape {list(task.input_shape)} (try the task 'markov-chains')",
    )
    assert symbols is not None
    return symbols


def symbols_of(task: Task) -> int | None:
    """How many symbols a sequence is made of where each position has an answer: one of them, or numbers; else None."""
    if not isinstance(task, ClassificationTask) or len(task.input_shape) != 1:
        return task.symbols
    examples = _shapes_of(task)
    whole = all(jnp.issubdtype(part.dtype, jnp.integer) for part in (examples.x, examples.y))
    return task.classes if whole and examples.x.shape == examples.y.shape == (2, *task.input_shape) else None


def answers_of(task: Task) -> int | None:
    """How many numbers answer a position of a sequence of symbols: one per class, or per question; else None."""
    if symbols_of(task) is None:
        return None
    return task.classes if isinstance(task, ClassificationTask) else _shapes_of(task).y.shape[-1]


def features_of(task: Task) -> int:
    """The size of a token as a model reads it: its real features, or one for each symbol."""
    symbols = symbols_of(task)
    return task.input_shape[1] if symbols is None else symbols


def as_vectors(x: Num[AnyArray, "batch length ..."], features: int, dtype: jnp.dtype) -> Float[Array, "batch length f"]:
    """Real tokens as they are; symbols 0..features-1 as one-hot vectors."""
    return x if x.ndim == 3 else jax.nn.one_hot(jnp.asarray(x).astype(jnp.int32), features, dtype=dtype)


def embedded(x: Num[AnyArray, "batch length"], E: Float[Array, "k d"]) -> Float[Array, "batch length d"]:
    """E[x] as a product with one-hot vectors: its gradient is a product too, where that of indexing adds row by row."""
    return as_vectors(x, E.shape[0], E.dtype) @ E


def lagged(v: Float[Array, "length ..."]) -> Float[Array, "length length ..."]:
    """v_{i-j} at (i, j) for j ≤ i, and 0 above.

    Made by writing v, backwards and with as many zeros behind it, again and again into rows that are one too short: an
    index would do, but its gradient adds up in no fixed order on a GPU.
    """
    length, rest = v.shape[0], v.shape[1:]
    once = jnp.concatenate([v[::-1], jnp.zeros_like(v)])
    often = jnp.broadcast_to(once[None], (length, *once.shape)).reshape(-1, *rest)
    return often[: length * (2 * length - 1)].reshape(length, 2 * length - 1, *rest)[:, length - 1 :]


def normed(z: Float[Array, "*rows d"], scale: Float[Array, " d"], shift: Float[Array, " d"]) -> Float[Array, "*rows d"]:
    """Layer norm over the last axis."""
    wide = (1,) * (z.ndim - 1) + scale.shape
    centred = z - jnp.mean(z, axis=-1, keepdims=True)
    variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + NORM_EPSILON) * scale.reshape(wide) + shift.reshape(wide)


def nearest_divisor(number: int, wanted: int) -> int:
    """The divisor of `number` that is nearest to `wanted`, the smaller of two."""
    return min((d for d in range(1, number + 1) if number % d == 0), key=lambda d: abs(d - wanted))


def labels_of(task: Task) -> tuple[int, ...]:
    """The shape of one example's labels."""
    return tuple(_shapes_of(task).y.shape[1:])


def _answered_by_numbers(task: Task) -> bool:
    return getattr(task, "regression", False) and len(task.input_shape) == 2


def _shapes_of(task: Task) -> Examples:
    known = (type(task), structure_of(task))
    if known not in _EXAMPLES:  # thousands of trials have one task, and tracing it takes a moment
        _EXAMPLES[known] = jax.eval_shape(lambda: task.batch(jax.random.key(0), 2))
    return _EXAMPLES[known]


def require_vectors(name: str, task: Task) -> None:
    """Refuse a task whose inputs are no vectors of real numbers, or whose labels are no single numbers."""
    examples = _shapes_of(task)
    real = len(task.input_shape) == 1 and jnp.issubdtype(examples.x.dtype, jnp.floating)
    require(
        real and examples.y.shape == (2,) and jnp.issubdtype(examples.y.dtype, jnp.floating),
        f"a {name} reads vectors of real numbers with one label each; got the task "
        f"{task.kind or type(task).__name__!r} of input shape {list(task.input_shape)} (try the task 'table')",
    )


def token_dimension(task: Task) -> int | None:
    """How many leading features of a position are its token, where the task says so; the rest are codes."""
    return getattr(task, "dimension", None)


@functools.cache
def oscillating_interpolant(k: int) -> Polynomial:
    """The polynomial of degree k through (k-2j, (-1)^j), j = 0..k, exactly, by Lagrange's formula.

    k = 2: (z²-2)/2; k = 3: (z³-7z)/6.
    """
    knots = [Fraction(k - 2 * j) for j in range(k + 1)]
    total = [Fraction(0)] * (k + 1)
    for j, knot in enumerate(knots):
        others = knots[:j] + knots[j + 1 :]
        height = (-1) ** j / math.prod((knot - other for other in others), start=Fraction(1))
        total = [a + height * b for a, b in zip(total, from_roots(others), strict=True)]
    return tuple(total)


def from_roots(roots: Sequence[Fraction]) -> Polynomial:
    """The coefficients of ∏ (z - root)."""
    polynomial = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *polynomial]
        polynomial = [a - root * b for a, b in zip(shifted, [*polynomial, Fraction(0)], strict=True)]
    return tuple(polynomial)


def infinite_zigzag(z: Float[Array, "*shape"], k: int) -> Float[Array, "*shape"]:
    """The triangle wave through (k-2j, (-1)^j) for all integers j: |((z-k) mod 4) - 2| - 1.

    The printed knots have period 2, on which a sum of k signs would be constant; the period is 4.
    """
    return jnp.abs(jnp.mod(z - k, 4.0) - 2.0) - 1.0


def zigzag(z: Float[Array, "*shape"], k: int, outer: str = "extend") -> Float[Array, "*shape"]:
    """Piecewise-linear interpolation of the knots; beyond them the end segments go on, or are clamped."""
    inside = jnp.clip(z, -k, k)
    wave = infinite_zigzag(inside, k)
    if outer == "clamp":
        return wave
    return wave + jnp.where(z > 0, 1.0, -((-1.0) ** k)) * (z - inside)


def oscillating_coefficients(k: int) -> tuple[float, ...]:
    """Coefficients, lowest first, of the polynomial of degree k through the knots, rounded once.

    k = 2: (z²-2)/2; k = 3: (z³-7z)/6. Solving for them in floating point loses all digits from k = 13 on.
    """
    return tuple(float(coefficient) for coefficient in oscillating_interpolant(k))


def oscillating_polynomial(z: Float[Array, "*shape"], k: int) -> Float[Array, "*shape"]:
    """The oscillating polynomial of degree k, by Horner's rule."""
    result = jnp.zeros_like(z)
    for coefficient in reversed(oscillating_coefficients(k)):
        result = result * z + coefficient
    return result


def sine(z: Float[Array, "*shape"], k: int, scale: float = 1.0) -> Float[Array, "*shape"]:
    """sin(π·scale·z/2 + β) with β = π(1-k)/2. The source's figures use scale 2 (solution w_S/2)."""
    return jnp.sin(0.5 * math.pi * scale * z + 0.5 * math.pi * (1 - k))


def check_rate(name: str, rate: float) -> None:
    """Require a share of units to drop in [0, 1)."""
    number = isinstance(rate, int | float) and not isinstance(rate, bool)
    require(number and 0.0 <= rate < 1.0, f"{name} is a share in [0, 1); got {name}={rate!r}")


def kept(
    noise: UInt32[Array, ""], place: int, shape: tuple[int, ...], rate: float, order: tuple[int, ...] | None = None
) -> Float[Array, "*shape"]:
    """A mask of `shape`: 0 with probability `rate`, else 1/(1 - rate). `place` tells the masks of a step apart.

    Places are counted along the axes in `order`. The axis of examples must come first there: a batch has as many rows
    as the largest sample of the cohort, and the mask of an example may not depend on how many follow it.
    """
    words = stream(mixed(noise + jnp.uint32(place * GOLDEN % 2**32)), shape, order)
    threshold = jnp.uint32(round(rate * 2**32))
    return jnp.where(words < threshold, jnp.float32(0.0), jnp.float32(1 / (1 - rate)))
