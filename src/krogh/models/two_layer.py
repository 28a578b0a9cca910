"""Networks of one hidden layer (dissertation, sections 7.2, B.1.2 and B.4.1).

On signs, with one output for a parity:

    Mlp             f(x) = u·σ(Wx + b) [+ c], σ a ReLU or a power
    Neuron          f(x) = u·σ(w·x + b), with four activations that contain the parity

Sums of homogeneous neurons, with a logit per class: f(θ, x) = Σ_i φ(ω_i, x). ω_i is all that neuron i reads and writes
with, and φ(cω, x) = c^ν φ(ω, x) for c ≥ 0. Then f(cθ, x) = c^ν f(θ, x), so that a margin is measured against the norm

    ‖θ‖_{a,b} = (Σ_i ‖ω_i‖_a^b)^{1/b}        by default a = 2, b = ν

    PairNetwork     f(a, b) = Σ_i σ(u_i[a] + v_i[b]) w_i on pairs of group elements (Figures 7.1 and 7.2)
                    quadratic    σ(z) = z²         ν = 3      the network of the theorems (A1)
                    power        σ(z) = z^k        ν = k + 1
                    relu         σ(z) = z_+        ν = 2      (A3)
    PowerNetwork    f(x) = Σ_i (u_i·x)^k w_i on signs, ν = k + 1

u_i[a] is the product of u_i with the one-hot vector of a. The initialisation is not stated in the source; uniform
±1/√fan_in, with the 2n coordinates of both one-hot vectors as an input weight's fan-in, works in all its settings.
Training can also begin at weights that are given (a construction, say), each moved by normal noise.

Odd powers keep the sign. Of {±1}^n, (u·x)^q holds only monomials of degree ≤ q and of q's parity, so that no network
of exponent q < k, or with q - k odd, is right about a k-parity everywhere. Theorem 7.8 is about q = k; a larger q of
the same parity can represent it.
"""

import abc
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from equinox import AbstractVar
from jaxtyping import Array, Float, Int, Num, PRNGKeyArray

from krogh.errors import require, require_integer, unknown
from krogh.models import parts as activations
from krogh.models.base import Model, Parameters, model
from krogh.models.parts import check_initialiser, draw_sparse_rows, initialise, require_signs
from krogh.tasks.base import Task
from krogh.tasks.composition import GroupComposition, every_pair
from krogh.tasks.parity import AbstractParity, Parity, ParityClasses
from krogh.values import AnyArray, data, structure

ACTIVATIONS = ("relu", "power")
SYMMETRIC = "symmetric"
PAIR_ACTIVATIONS = ("quadratic", "power", "relu")
LAYERS = ("U", "V", "W")
EXACT = jax.lax.Precision.HIGHEST
"""A margin is a small difference of large logits: products keep all bits of float32, where a GPU would round to ten."""
LONGEST_SUM = 256
"""Terms of a product's sum that a CPU is given at once; a thread of its pool takes up to some 300 in one go."""


@model("mlp")
class Mlp(Model):
    """Two-layer network: `activation` is ReLU or the monomial z^degree.

    Parameters: W [width, n], b [width], u [width] and, with `output_bias`, c []. The printed formula has no
    c; two ReLUs without it cannot sign-represent the parity of two bits, so narrow networks need it.
    The initialiser "symmetric" is that of Theorem 5.5 (§B.2.1), for a parity of k = `degree` bits: of an even number of
    neurons the first half has w ~ {±1}^n, u ~ {±1} and b ~ {-1+1/k, -1+2/k, ..., 1-1/k}, the second the same w and b
    and the opposite u, so that f = 0 everywhere.
    With `sparsity` s > 0 every row of W begins with s ones and zeros elsewhere, and all else as before (§6.3.2, C.3.1);
    nothing keeps it so afterwards.
    """

    width: int = structure()
    activation: str = structure(default="relu")
    degree: int = structure(default=1)
    output_bias: bool = structure(default=False)
    initialiser: str = structure(default="uniform")
    sparsity: int = structure(default=0)

    def __check_init__(self) -> None:
        require_integer("width", self.width, 1)
        require_integer("degree", self.degree, 1)
        require_integer("sparsity", self.sparsity, 0)
        if self.activation not in ACTIVATIONS:
            raise unknown("activation", self.activation, ACTIVATIONS)
        if self.initialiser != SYMMETRIC:
            check_initialiser(self.initialiser)
            return
        require(self.width % 2 == 0, f"a symmetric start needs an even width; got width={self.width}")
        plain = not self.sparsity and not self.output_bias
        require(plain, "a symmetric start has neither sparse rows nor an output bias; got one of them")

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        n, r = task.input_shape[0], self.width
        keys = jax.random.split(key, 4)
        if self.initialiser == SYMMETRIC:
            return draw_symmetric_signs(key, r, n, self.degree)
        params = {
            "W": draw_sparse_rows(keys[0], r, n, self.sparsity)
            if self.sparsity
            else initialise(self.initialiser, keys[0], (r, n), n, r),
            "b": initialise(self.initialiser, keys[1], (r,), n, r),
            "u": initialise(self.initialiser, keys[2], (r,), r, 1),
        }
        if self.output_bias:
            params["c"] = initialise(self.initialiser, keys[3], (), r, 1)
        return params

    def predict(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, " batch"]:
        # Neurons first: W @ xᵀ and its gradient both read W as it lies, which a CPU rewards.
        hidden = params["W"] @ x.T + params["b"][:, None]
        if self.activation == "relu":
            active = jax.nn.relu(hidden)
        else:
            active = jax.lax.integer_pow(hidden, self.degree)
        output = params["u"] @ active
        return output + params["c"] if self.output_bias else output

    def check(self, task: Task) -> None:
        require_signs("two-layer network", task)
        n = task.input_shape[0]
        require(self.sparsity <= n, f"sparsity must be between 0 (dense) and n={n}; got sparsity={self.sparsity}")

    def obstacle(self, task: Task) -> str | None:
        """Width k is the least that represents a k-parity (§B.4.1), for ReLU with an output bias."""
        if not isinstance(task, AbstractParity):
            return None
        k, r = task.k, self.width
        kind = "ReLU" if self.activation == "relu" else "power-activation"
        if r < k:
            return (
                f"width must be at least k={k} for a {kind} network to represent the parity; "
                f"got width={r} (try width={k})"
            )
        if self.activation == "power" and self.degree < k:
            return f"degree must be at least k={k} to represent the parity; got degree={self.degree}"
        if self.activation == "relu" and r == k == 2 and not self.output_bias:
            return "two ReLUs need output_bias to represent the parity of two bits; got output_bias=False"
        return None

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(width=16, output_bias=True), Parity(n=8, k=2)


def draw_symmetric_signs(key: PRNGKeyArray, width: int, n: int, k: int) -> Parameters:
    """The unbiased start of Theorem 5.5: pairs of neurons that cancel (dissertation, §B.2.1)."""
    keys, half = jax.random.split(key, 3), width // 2
    W = jax.random.rademacher(keys[0], (half, n), jnp.float32)
    b = (jax.random.randint(keys[1], (half,), 1, 2 * k) - k).astype(jnp.float32) / k
    u = jax.random.rademacher(keys[2], (half,), jnp.float32)
    return {"W": jnp.concatenate([W, W]), "b": jnp.concatenate([b, b]), "u": jnp.concatenate([u, -u])}


def power_mlp(width: int, degree: int, initialiser: str = "uniform") -> Mlp:
    """The two-layer network with activation z^degree."""
    return Mlp(width, activation="power", degree=degree, initialiser=initialiser)


@model("neuron")
class Neuron(Model):
    """One neuron of the given activation and degree k; u is trained, or fixed to 1.

    Parameters: w [n], b [] and, with `output_weight`, u [].
    """

    activation: str = structure()
    degree: int = structure()
    output_weight: bool = structure(default=True)
    scale: float = structure(default=1.0)
    outer: str = structure(default="extend")
    initialiser: str = structure(default="uniform")

    def __check_init__(self) -> None:
        if self.activation not in activations.NEURON_ACTIVATIONS:
            raise unknown("activation", self.activation, activations.NEURON_ACTIVATIONS)
        require_integer("degree", self.degree, 1)
        require(self.outer in ("extend", "clamp"), f"outer must be extend or clamp; got outer={self.outer!r}")
        positive = isinstance(self.scale, int | float) and 0 < self.scale < math.inf
        require(positive, f"scale must be a positive number; got scale={self.scale!r}")
        wave = self.activation == "sine" or self.scale == 1.0
        require(wave, f"scale belongs to the sine; got scale={self.scale} for {self.activation!r}")
        check_initialiser(self.initialiser)

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        n = task.input_shape[0]
        keys = jax.random.split(key, 3)
        params = {
            "w": initialise(self.initialiser, keys[0], (n,), n, 1),
            "b": initialise(self.initialiser, keys[1], (), n, 1),
        }
        if self.output_weight:
            params["u"] = initialise(self.initialiser, keys[2], (), 1, 1)
        return params

    def activate(self, z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The activation alone."""
        if self.activation == "zigzag":
            return activations.zigzag(z, self.degree, self.outer)
        if self.activation == "infinite-zigzag":
            return activations.infinite_zigzag(z, self.degree)
        if self.activation == "polynomial":
            return activations.oscillating_polynomial(z, self.degree)
        return activations.sine(z, self.degree, self.scale)

    def predict(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, " batch"]:
        output = self.activate(x @ params["w"] + params["b"])
        return params["u"] * output if self.output_weight else output

    def check(self, task: Task) -> None:
        require_signs("single neuron", task)

    def obstacle(self, task: Task) -> str | None:
        """The periodic waves hold every parity after a shift; the others only up to their degree."""
        bounded = self.activation in ("zigzag", "polynomial")
        if bounded and isinstance(task, AbstractParity) and self.degree < task.k:
            return f"degree must be at least k={task.k} to represent the parity; got degree={self.degree}"
        return None

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls("sine", degree=3), Parity(n=8, k=3)


class HomogeneousNetwork(Model):
    """One hidden layer of homogeneous neurons without biases: σ(·)·w_i, with W [width, classes] the rows w_i."""

    width: AbstractVar[int]

    @property
    @abc.abstractmethod
    def homogeneity(self) -> int:
        """ν."""

    @abc.abstractmethod
    def hidden(self, params: Parameters, x: Num[AnyArray, "batch ..."]) -> Float[Array, "width batch"]:
        """σ of every neuron on every example."""

    def predict(self, params: Parameters, x: Num[AnyArray, "batch ..."]) -> Float[Array, "batch classes"]:
        """Logits. Neurons come first: gradients are then sums along rows, which a CPU rewards."""
        return sum_over_rows(self.hidden(params, x), params["W"])

    def neurons(self, params: Parameters) -> Float[Array, "width weights"]:
        """ω_i: all weights of neuron i, in the order of the parameters' names."""
        return jnp.concatenate([params[name] for name in sorted(params)], axis=1)


def sum_over_rows(
    left: Float[Array, "rows batch"], right: Float[Array, "rows classes"]
) -> Float[Array, "batch classes"]:
    """Σ_i left_i right_iᵀ; on a CPU in parts of equal length, one after the other: longer sums may come out wrong there
    (benchmarks/full_queue.py)."""

    def whole(left: Array, right: Array) -> Array:
        return jnp.matmul(left.T, right, precision=EXACT)

    def in_parts(left: Array, right: Array) -> Array:
        parts = -(-left.shape[0] // LONGEST_SUM)
        ends = [left.shape[0] * part // parts for part in range(parts + 1)]
        return functools.reduce(jnp.add, (whole(left[a:b], right[a:b]) for a, b in itertools.pairwise(ends)))

    if left.shape[0] <= LONGEST_SUM:
        return whole(left, right)
    return jax.lax.platform_dependent(left, right, cpu=in_parts, default=whole)


def power(base: Float[Array, "*shape"], exponent: float) -> Float[Array, "*shape"]:
    """base^exponent for base ≥ 0, with slope 0 where the base is 0 (roots would have an infinite one)."""
    if exponent == 1.0:
        return base
    positive = base > 0
    return jnp.where(positive, jnp.where(positive, base, 1.0) ** exponent, 0.0)


def neuron_norms(neurons: Float[Array, "width weights"], a: float, exponent: float = 1.0) -> Float[Array, " width"]:
    """‖ω_i‖_a^exponent."""
    powers = neurons * neurons if a == 2 else power(jnp.abs(neurons), a)
    return power(jnp.sum(powers, axis=1), exponent / a)


def network_norm(neurons: Float[Array, "width weights"], a: float, b: float, exponent: float) -> Float[Array, ""]:
    """‖θ‖_{a,b}^exponent = (Σ_i ‖ω_i‖_a^b)^{exponent/b}."""
    return power(jnp.sum(neuron_norms(neurons, a, b)), exponent / b)


@model("pair-network")
class PairNetwork(HomogeneousNetwork):
    """Neurons of two elements of a group. Parameters: U, V, W [width, n].

    With `start`, weights {"U": …, "V": …, "W": …}, training begins there, plus `start_noise` times normal numbers.
    """

    width: int = structure()
    activation: str = structure(default="quadratic")
    exponent: int = structure(default=2)
    initialiser: str = structure(default="uniform")
    start: dict[str, Float[AnyArray, "width n"]] | None = data(optional=True, default=None)
    start_noise: Float[AnyArray, ""] = data(default=0.0)

    def __check_init__(self) -> None:
        require_integer("width", self.width, 1)
        require_integer("exponent", self.exponent, 2)
        if self.activation not in PAIR_ACTIVATIONS:
            raise unknown("activation", self.activation, PAIR_ACTIVATIONS)
        fits = self.activation == "power" or self.exponent == 2
        require(
            fits,
            f"exponent belongs to the activation 'power'; got exponent={self.exponent} for {self.activation!r} "
            f"(try activation='power')",
        )
        check_initialiser(self.initialiser)
        given = sorted(self.start) if self.start is not None else list(LAYERS)
        require(given == list(LAYERS), f"start must have the weights U, V and W; got {given}")

    @property
    def homogeneity(self) -> int:
        return 2 if self.activation == "relu" else self.exponent + 1

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        assert isinstance(task, GroupComposition)
        n, m = task.order, self.width
        fans = {"U": (2 * n, m), "V": (2 * n, m), "W": (m, n)}
        keys = dict(zip(LAYERS, jax.random.split(key, 3), strict=True))
        if self.start is None:
            return {name: initialise(self.initialiser, keys[name], (m, n), *fans[name]) for name in LAYERS}
        moved = {name: self.start_noise * jax.random.normal(keys[name], (m, n), jnp.float32) for name in LAYERS}
        return {name: jnp.asarray(self.start[name]) + moved[name] for name in LAYERS}

    def hidden(self, params: Parameters, x: Int[AnyArray, "batch 2"]) -> Float[Array, "width batch"]:
        summed = self._summed(params["U"], params["V"], x)
        return jax.nn.relu(summed) if self.activation == "relu" else jax.lax.integer_pow(summed, self.exponent)

    def _summed(
        self, U: Float[Array, "width n"], V: Float[Array, "width n"], x: Int[AnyArray, "batch 2"]
    ) -> Float[Array, "width batch"]:
        """u_i[a] + v_i[b]; for the whole population nothing is looked up, and gradients are plain sums."""
        n = U.shape[1]
        if isinstance(x, np.ndarray) and x.shape == (n * n, 2) and np.array_equal(x, every_pair(n)):
            return (U[:, :, None] + V[:, None, :]).reshape(-1, n * n)
        # Products with one-hot vectors, not look-ups: the gradient of a look-up is a scatter, whose order of additions
        # a GPU does not fix.
        first, second = (jax.nn.one_hot(jnp.asarray(x[:, place]), n, dtype=U.dtype) for place in (0, 1))
        both = jnp.concatenate([first, second], axis=1)
        return jnp.matmul(jnp.concatenate([U, V], axis=1), both.T, precision=EXACT)

    def check(self, task: Task) -> None:
        pairs = isinstance(task, GroupComposition)
        require(pairs, f"a pair network reads pairs of group elements (task 'composition'); got the task {task.kind!r}")
        assert isinstance(task, GroupComposition)
        for name, weights in (self.start or {}).items():
            shape, wanted = list(np.shape(weights)), [self.width, task.order]
            require(shape == wanted, f"start must have weights of shape {wanted}; got {name} of shape {shape}")

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(width=12), GroupComposition.example()


@model("power-network")
class PowerNetwork(HomogeneousNetwork):
    """Neurons (u·x)^exponent with two outputs. Parameters: U [width, n], W [width, 2]."""

    width: int = structure()
    exponent: int = structure()
    initialiser: str = structure(default="uniform")

    def __check_init__(self) -> None:
        require_integer("width", self.width, 1)
        require_integer("exponent", self.exponent, 1)
        check_initialiser(self.initialiser)

    @property
    def homogeneity(self) -> int:
        return self.exponent + 1

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        assert isinstance(task, ParityClasses)
        n, m, classes = task.n, self.width, task.classes
        keys = jax.random.split(key)
        return {
            "U": initialise(self.initialiser, keys[0], (m, n), n, m),
            "W": initialise(self.initialiser, keys[1], (m, classes), m, classes),
        }

    def hidden(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, "width batch"]:
        return jax.lax.integer_pow(jnp.matmul(params["U"], x.T, precision=EXACT), self.exponent)

    def check(self, task: Task) -> None:
        signs = isinstance(task, ParityClasses)
        require(signs, f"a power network reads signs with two classes (task 'parity-classes'); got {task.kind!r}")

    def obstacle(self, task: Task) -> str | None:
        if not isinstance(task, ParityClasses):
            return None
        k, q = task.k, self.exponent
        if q < k:
            return f"exponent must be at least k={k} to represent the parity; got exponent={q} (try exponent={k})"
        if (q - k) % 2:
            return (
                f"exponent must be as even or odd as k={k}: (u·x)^{q} takes the {'same' if q % 2 == 0 else 'opposite'} "
                f"value at -x, the parity the other; got exponent={q} (try exponent={k})"
            )
        return None

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(width=8, exponent=3), ParityClasses.example()
