"""A shift of A that makes the expansion of a random network compute a function of the whole sequence.

*Learning and generalization in RNNs*, Definition D.2 and Theorem D.2. The target of true tokens x*_2 .. x*_{L-1} is

    F_s(x*) = Σ_r b_{r,s} Φ(⟨w_{r,s}, [x*_2; ...; x*_{L-1}]⟩),    w_{r,s} of norm 1 in R^{(L-2)dx}

With W* = 0 and A* = a* e_dᵀ, a* [m] in the last column alone, the expansion f_L(0, A*) is about F: with the token-only
decoder V (`decoders.py`), for unit k

    a*_k = (dout/m) Σ_s Σ_r B_{s,k} b_{r,s} H_{r,s}(√(m/2) ⟨W_k, V w_{r,s}⟩/‖V w_{r,s}‖, √(m/2) A_{k,d})

where H is the `HermiteWeight` of radius ‖h_{L-1}‖ = √(1 + (L-2)ε_x²) (the text has √(2 + ...), the norm of h_L), of
spread 1 and gain ‖V w‖/ε_x. Only x_1 and x_L have a last coordinate, so that with backward matrices as in
`random_network.py`

    f(x) = B D_L a* + Back_{1→L} D_1 a*

of which the second part is noise. B has entries of variance 1/dout; with the 2/dout that is printed once, f is 2F.

What f is in the mean over units, given the state h_{L-1}, is F at the tokens that V reads off it; the law of large
numbers leaves an error of about √((3 E[H² 1{active at L}] - F² + E[H² 1{active at 1}])/m), for one output, of which
the larger part is an offset that all inputs share. The factor 3 is E B⁴.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer, unknown
from krogh.networks.handmade import Checked, Handmade, handmade, sizes_of
from krogh.networks.recurrence.decoders import ROUNDING, TYPES, Drawn, along, base_of, some_sequences, token_decoder
from krogh.networks.recurrence.hermite import HermiteWeight
from krogh.networks.recurrence.random_network import Array, RandomRnn, Run, random_rnn
from krogh.tasks.series import find_series
from krogh.tasks.token_sequences import check_sequences
from krogh.theory.numerics import double_precision

Floats = NDArray[np.float64]
SIGMAS = 4.0
"""How many standard deviations of the law of large numbers a check allows."""
SEQUENCES = 200
"""That a check runs on."""
MOST_DEGREE = 12
"""Of functions whose series has no end."""


@dataclass(frozen=True, eq=False)
class SequenceTarget:
    """F_s(x*) = Σ_r b_{s,r} Φ(⟨w_{s,r}, x*⟩): w [outputs, p, (L-2)·dx] of norm 1, b [outputs, p], Φ by name."""

    w: Floats
    b: Floats
    phi: str = "z"

    def __post_init__(self) -> None:
        for name in ("w", "b"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.float64))
        norms = np.linalg.norm(self.w, axis=-1)
        require(self.w.ndim == 3 and self.b.shape == norms.shape, f"w is [outputs, p, (L-2)·dx] and b [outputs, p]; "
                f"got shapes {self.w.shape} and {self.b.shape}")  # fmt: skip
        require(bool(np.allclose(norms, 1)), f"every w has norm 1; got one of norm {norms.ravel()[0]:.6g}")

    @property
    def coefficients(self) -> Floats:
        series = find_series(self.phi)
        return series.coefficients(MOST_DEGREE if series.degree is None else series.degree)

    def applied(self, read: Array) -> Floats:
        """Σ_r b Φ of numbers [batch, outputs, p] that stand for ⟨w, x*⟩."""
        with double_precision():
            values = np.asarray(find_series(self.phi)(jnp.asarray(read, jnp.float64)))
        return np.asarray((values * self.b).sum(axis=-1))

    def __call__(self, tokens: Array) -> Floats:
        """F [batch, outputs] of true tokens [batch, L-2, dx]."""
        flat = np.asarray(tokens, np.float64).reshape(len(tokens), -1)
        return self.applied(np.einsum("bf,orf->bor", flat, self.w))


def random_target(length: int, dx: int, outputs: int = 1, p: int = 1, phi: str = "z", seed: int = 0) -> SequenceTarget:
    """Directions drawn uniformly among those that leave every token's bias out, and b = 1."""
    w = np.random.default_rng([seed, 5]).standard_normal((outputs, p, length - 2, dx))
    w[..., -1] = 0
    w = w.reshape(outputs, p, -1)
    return SequenceTarget(w / np.linalg.norm(w, axis=-1, keepdims=True), np.ones((outputs, p)), phi)


def weights_of(base: Run, target: SequenceTarget, eps_x: float) -> tuple[Floats, Floats]:
    """H_{s,r} at every unit, [outputs, p, m], with the vectors V w [outputs, p, m] that it reads."""
    network, m = base.network, base.network.width
    radius = math.sqrt(1 + (base.length - 2) * eps_x**2)
    bias = math.sqrt(m / 2) * network.A[:, -1].astype(np.float64)
    H, read = np.empty((2, *target.b.shape, m))
    for place in np.ndindex(target.b.shape):
        v = along(base, target.w[place])
        size = float(np.linalg.norm(v.astype(np.float64)))
        alpha = math.sqrt(m / 2) / size * (network.W @ v).astype(np.float64)
        H[place] = HermiteWeight(target.coefficients, radius, 1.0, size / eps_x)(alpha, bias)
        read[place] = v
    return H, read


def shift_column(base: Run, target: SequenceTarget, eps_x: float) -> Floats:
    """a* [m], the last column of A*."""
    B, (H, _) = base.network.B.astype(np.float64), weights_of(base, target, eps_x)
    return len(B) / base.network.width * np.einsum("om,or,orm->m", B, target.b, H)


@handmade("pseudo-network")
@dataclass(frozen=True, eq=False)
class PseudoNetwork(Handmade):
    """A random network W, A, B and the last column `a` of A*; `make_pseudo_network` makes one."""

    target: SequenceTarget
    length: int
    dx: int
    eps_x: float
    seed: int
    parameters: Mapping[str, Array]

    name = "pseudo-network"

    @property
    def width(self) -> int:
        return len(self.parameters["W"])

    @property
    def network(self) -> RandomRnn:
        return RandomRnn(self.parameters["W"], self.parameters["A"], self.parameters["B"])

    @property
    def shift(self) -> Array:
        """A* [m, dx+1]."""
        A = np.zeros((self.width, self.dx + 1), self.parameters["a"].dtype)
        A[:, -1] = self.parameters["a"]
        return A

    @property
    def movement(self) -> float:
        """√m ‖A*‖_F."""
        return math.sqrt(self.width) * float(np.linalg.norm(self.parameters["a"].astype(np.float64)))

    @property
    def statement(self) -> str:
        return (
            f"the expansion f_{self.length}(0, A*) of a random network of width {self.width} is Φ = {self.target.phi} "
            f"of the tokens that V reads off h_{self.length - 1}, within {SIGMAS:g} deviations of the law of large "
            f"numbers over units (RMS over random sequences); √m‖A*‖_F = {self.movement:.3g}"
        )

    @property
    def size(self) -> dict[str, float]:
        return {"width": self.width, "movement": self.movement, **sizes_of(self.parameters)}

    def run(self, x: Array, /) -> Array:
        """f [batch, outputs] on sequences [batch, L, dx+1]."""
        return self.expanded(self.network.run(np.asarray(x)))

    def expanded(self, run: Run) -> Array:
        """B D_L a* + Back_{1→L} D_1 a* x_1d: the other inputs have no last coordinate."""
        a = self.parameters["a"]
        total = (run.active[-1] * a) @ self.parameters["B"].T * run.x[:, -1, -1:]
        *_, (_, back) = run.backward()
        return total + np.einsum("bom,bm->bo", back, run.active[1] * a) * run.x[:, 0, -1:]

    def decoded(self, run: Run, read: Floats) -> Floats:
        """F at the tokens that the token-only decoder reads off h_{L-1}: what f is in the mean, [batch, outputs]."""
        return self.target.applied(np.einsum("bm,orm->bor", run.h[-2].astype(np.float64), read) / self.eps_x)

    def deviation(self, run: Run, H: Floats, mean: Floats) -> float:
        """The standard deviation of f over the draws of B and of the units, by the law of large numbers.

        One output's part in another has E[dout² B_s² B_s'²] = 1 in place of 3.
        """
        summed = np.square(np.einsum("or,orm->om", self.target.b, H))
        last, first = (run.active[at].mean(axis=0) @ summed.T / self.width for at in (-1, 1))
        own = 3 * last + (last.sum() - last) - np.mean(mean**2, axis=0)
        return math.sqrt(float(np.mean(own + first.sum())) / self.width)

    @property
    def oracle(self) -> Drawn:
        """Random sequences, and the target of their tokens."""

        def draw(seed: int) -> tuple[Array, Floats]:
            x = some_sequences(SEQUENCES, self.length, self.dx, self.eps_x, seed, self.dtype)
            return x, self.target(x[:, 1:-1, :-1].astype(np.float64) / self.eps_x)

        return Drawn(draw)

    def check(self, seed: int = 0) -> Checked:
        """a* against its formula by another way, and f against the target that is read off the state."""
        base = self.network.run(base_of(self.length, self.dx, self.eps_x, self.dtype))
        ((x, F),) = self.oracle.cases(seed)
        run = self.network.run(x)
        H, read = weights_of(base, self.target, self.eps_x)
        expected = self._written_out(base)
        off = float(np.abs(self.parameters["a"] - expected).max() / np.abs(expected).max())
        mean, f = self.decoded(run, read), self.expanded(run)
        error, allowed = float(np.sqrt(np.mean((f - mean) ** 2))), SIGMAS * self.deviation(run, H, mean)
        correlation = float(np.mean([np.corrcoef(f[:, s], F[:, s])[0, 1] for s in range(F.shape[1])]))
        holds = off <= 10 * ROUNDING[self.dtype] and error <= allowed
        scope = (
            f"all {self.width} entries of a* against the formula (relative difference {off:.3g}), and {len(x)} "
            f"sequences with an RMS error of {error:.3g} where {allowed:.3g} is allowed"
        )
        details = {"rms": error, "allowed": allowed, "correlation": correlation, "off_formula": off}
        return Checked(holds, len(x), False, max(off, error), scope, details)

    @property
    def dtype(self) -> str:
        return str(self.parameters["W"].dtype)

    def _written_out(self, base: Run) -> Floats:
        """a* with V as a matrix, Hermite polynomials from their recurrence and Z_i by a sum over a fine grid."""
        m, (outputs, p) = self.width, self.target.b.shape
        radius = math.sqrt(1 + (self.length - 2) * self.eps_x**2)
        V = token_decoder(base).astype(np.float64)
        c, total = self.target.coefficients, np.zeros(m)
        b = math.sqrt(m / 2) * self.parameters["A"][:, -1].astype(np.float64)
        grid = np.linspace(-12, 12, 4801)
        density = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi)
        for s in range(outputs):
            for r in range(p):
                v = V @ self.target.w[s, r]
                alpha = self.parameters["W"].astype(v.dtype) @ v * math.sqrt(m / 2) / np.linalg.norm(v)
                H = np.full(m, 2 * c[0])
                for i in range(1, len(c)):
                    q = [he(i - 1, -z / radius) * np.exp(-((z / radius) ** 2) / 2) for z in (b, grid)]
                    Z = np.sum(q[1] ** 2 * density) * (grid[1] - grid[0])  # both q lack the same 1/√(2π)
                    scale = (np.linalg.norm(v) / self.eps_x * radius) ** i * math.sqrt(2 * math.pi)
                    H += c[i] * scale / Z * he(i, alpha) * q[0]
                total += outputs / m * self.parameters["B"][s] * self.target.b[s, r] * H
        return total

    def recipe(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in ("length", "dx", "eps_x", "seed", "width", "dtype")}
        return {**fields, "w": self.target.w.tolist(), "b": self.target.b.tolist(), "phi": self.target.phi}

    @classmethod
    def from_recipe(cls, recipe: Mapping[str, Any]) -> PseudoNetwork:
        target = SequenceTarget(np.array(recipe["w"]), np.array(recipe["b"]), recipe["phi"])
        keys = ("width", "length", "dx", "eps_x", "seed", "dtype")
        return make_pseudo_network(target, **{key: recipe[key] for key in keys})

    def with_parameters(self, parameters: Mapping[str, Any]) -> Self:
        return replace(self, parameters=parameters)


def he(i: int, z: ArrayLike) -> Floats:
    """He_i by He_{n+1} = z He_n - n He_{n-1}."""
    z = np.asarray(z, np.float64)
    before, own = np.zeros_like(z), np.ones_like(z)
    for n in range(i):
        before, own = own, z * own - n * before
    return own


def make_pseudo_network(
    target: SequenceTarget,
    width: int,
    length: int,
    dx: int = 3,
    eps_x: float = 0.1,
    seed: int = 0,
    dtype: str = "float64",
) -> PseudoNetwork:
    """A random network of this width with the shift A* for a target."""
    check_sequences(length, dx, eps_x, "one")
    require_integer("width", width, 1)
    if dtype not in TYPES:
        raise unknown("dtype", dtype, TYPES)
    features, outputs = (length - 2) * dx, len(target.b)
    require(
        target.w.shape[-1] == features,
        f"directions of a target for length {length} and dx={dx} have {features} numbers; got {target.w.shape[-1]}",
    )
    network = random_rnn(width, dx + 1, outputs, seed, np.dtype(dtype))
    base = network.run(base_of(length, dx, eps_x, dtype))
    a = shift_column(base, target, eps_x).astype(dtype)
    weights = {"W": network.W, "A": network.A, "B": network.B, "a": a}
    return PseudoNetwork(target, length, dx, eps_x, seed, weights)
