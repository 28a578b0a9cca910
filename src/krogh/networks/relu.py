"""Rounding by ReLUs, the correction after every module (SM paper, Proposition 3.4).

    round(z) = 3φ(z - 1/3) - 3φ(z - 2/3)        0 for z ≤ 1/3, 1 for z ≥ 2/3, slope 3 between

It returns exactly h for every h' within 1/3 of a binary h, so that errors of one module do not reach the next. As
layers on n coordinates: V_1 = [I; I], c_1 = (-1/3, …, -2/3, …), V_2 = [3I, -3I], c_2 = 0, and
ζ(h) = φ(V_2 φ(V_1 h + c_1) + c_2), of 1-norm 9 for each coordinate.

Sparse affine maps: what the layers of a written network are made of.

ReLU networks in files (`krogh.networks.weight_files`).

Matrix j is layer{j} and its bias layer{j}.bias; layers that are the same are stored once. The header says which matrix
each layer is, the modules, the width, and notes for people.

ReLU networks written by hand: sparse affine layers with φ = ReLU between them (SM paper, section 3).

    F(x) = W_d φ(W_{d-1} φ(… φ(W_0 x + b_0) …) + b_{d-1}) + b_d        d hidden layers, d + 1 affine ones

A network is a chain of *modules*: layers that compute gates ("gates"), round ("round"), hand on what is not negative
("pass"), and the last affine map ("linear"). It stands for the network of any larger width too: further coordinates
are zero, so that they need not be stored, and only the number of parameters knows of them.

`dense_parameters` are the same weights as full matrices under names, and `circuit_output` is the network as a pure
function of these, for gradients and perturbations.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from krogh.errors import KroghError, require, require_integer
from krogh.networks.weight_files import UNFIT, Weights, damaged, read_file, write_file
from krogh.theory.numerics import operator_norm

add_product: Callable[..., None] | None
try:  # The routine behind `@`, which adds to an array that is there: `@` itself fetches memory for a new one every
    # time, and that takes longer than the product. It is no public name, hence the way out.
    from scipy.sparse import _sparsetools

    add_product = _sparsetools.csr_matvecs
except (ImportError, AttributeError):
    add_product = None

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Affine:
    """h ↦ weight · h + bias: weight sparse [out, in], bias float64 [out]."""

    weight: sparse.csr_array
    bias: Array

    def __post_init__(self) -> None:
        weight = sparse.csr_array(self.weight, dtype=np.float64)
        weight.sum_duplicates()
        bias = np.array(self.bias, np.float64)
        fits = bias.shape == (weight.shape[0],)
        require(fits, f"a bias has an entry per row of the weight {weight.shape}; got the shape {bias.shape}")
        finite = np.isfinite(weight.data).all() and np.isfinite(bias).all()
        require(finite, "weights and biases must be finite numbers")
        bias.flags.writeable = False
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "bias", bias)

    def into(self, columns: Array, found: Array) -> None:
        """Write weight · columns + bias, [in, batch] to [out, batch], to `found`; both lie without gaps in memory."""
        require(columns.flags.c_contiguous and found.flags.c_contiguous, "columns must lie without gaps in memory")
        found[:] = self.bias[:, None]
        if add_product is None:
            found += self.weight @ columns
        else:
            entries = (self.weight.indptr, self.weight.indices, self.weight.data)
            add_product(*self.weight.shape, columns.shape[1], *entries, columns.ravel(), found.ravel())


def over_chunks(work: Callable[[slice], None], total: int, size: int, workers: int | None = None) -> None:
    """Call `work` with slices of at most `size` that cover 0..total-1, on all processors unless `workers` says less."""
    chunks = [slice(start, min(start + size, total)) for start in range(0, total, size)]
    workers = min(workers or os.cpu_count() or 1, len(chunks))
    if workers <= 1:
        for chunk in chunks:
            work(chunk)
        return
    with ThreadPoolExecutor(workers) as pool:  # products and comparisons of arrays leave the interpreter free
        list(pool.map(work, chunks))


KIND = "relu-network"


def save_network(network: ReluNetwork, path: str | os.PathLike[str], notes: dict[str, Any] | None = None) -> Path:
    """Write a network; the file appears whole or not at all. `notes` are kept in its header."""
    distinct = list({id(layer): layer for layer in network.layers}.values())
    number = {id(layer): place for place, layer in enumerate(distinct)}
    weights: Weights = {}
    for place, layer in enumerate(distinct):
        weights |= {f"layer{place}": layer.weight, f"layer{place}.bias": layer.bias}
    header = {
        "kind": KIND,
        "layers": [number[id(layer)] for layer in network.layers],
        "modules": [[module.kind, module.layers.start, module.layers.stop] for module in network.modules],
        "width": network.width,
        "depth": network.depth,
        "parameters": network.parameters,
        "one_norm": network.one_norm,
        "notes": notes or {},
    }
    return write_file(path, weights, header)


def load_network(path: str | os.PathLike[str]) -> ReluNetwork:
    """The network that `save_network` wrote."""
    header, weights = read_file(path, "ReLU network", (KIND,), "krogh compile circuit")
    try:
        distinct = [Affine(weights[f"layer{j}"], weights[f"layer{j}.bias"]) for j in range(len(weights) // 2)]
        layers = tuple(distinct[place] for place in header["layers"])
        modules = tuple(Module(kind, slice(start, stop)) for kind, start, stop in header["modules"])
        return ReluNetwork(layers, modules, header["width"])
    except UNFIT as cause:
        raise damaged(path, cause) from None


Kind = Literal["gates", "round", "pass", "linear"]

CHUNK_ENTRIES = 1 << 18
"""Entries of the widest layer in one chunk of inputs: 2 MiB in float64, which a cache holds."""
FEWEST, MOST = 32, 1024
"""Inputs that go through at once."""

MOST_DENSE = 1 << 28
"""Entries of dense parameters that are written out: 2 GiB in float64."""


@dataclass(frozen=True)
class Module:
    """Which layers do what together."""

    kind: Kind
    layers: slice


@dataclass(frozen=True, eq=False, repr=False)
class ReluNetwork:
    """A chain of affine layers with ReLU between them; `padded_width` is the width it stands for, if larger."""

    layers: tuple[Affine, ...]
    modules: tuple[Module, ...]
    padded_width: int | None = None

    def __post_init__(self) -> None:
        require(self.layers, "a network needs at least one layer; got none")
        for place, (one, other) in enumerate(itertools.pairwise(self.layers)):
            out, into = one.weight.shape[0], other.weight.shape[1]
            require(out == into, f"layer {place} has {out} outputs, but layer {place + 1} reads {into}")
        ends = [module.layers.stop for module in self.modules]
        starts = [module.layers.start for module in self.modules]
        chained = starts == [0, *ends[:-1]] and ends[-1:] == [len(self.layers)]
        require(chained, f"modules must cover the {len(self.layers)} layers one after the other; got {self.modules}")
        if self.padded_width is not None:
            require_integer("width", self.padded_width, 1)
            require(
                self.padded_width >= self.needed_width,
                f"the network needs width {self.needed_width}; got width={self.padded_width} "
                f"(try {self.needed_width} or more)",
            )

    def __repr__(self) -> str:
        return f"<ReluNetwork of width {self.width}, depth {self.depth}: {self.inputs} to {self.outputs} numbers>"

    @property
    def inputs(self) -> int:
        """m, how many numbers the first layer reads."""
        return int(self.layers[0].weight.shape[1])

    @property
    def outputs(self) -> int:
        """How many numbers the last layer returns."""
        return int(self.layers[-1].weight.shape[0])

    @property
    def depth(self) -> int:
        """d, the number of hidden layers; there are d + 1 affine ones."""
        return len(self.layers) - 1

    @property
    def needed_width(self) -> int:
        """The most units in a hidden layer."""
        return max((int(layer.weight.shape[0]) for layer in self.layers[:-1]), default=1)

    @property
    def width(self) -> int:
        """w: the width the network stands for, `needed_width` unless it was padded."""
        return self.needed_width if self.padded_width is None else self.padded_width

    @property
    def parameters(self) -> int:
        """p = w·m + w + (d-1)(w² + w) + k(w + 1) of a network of k outputs and d ≥ 1 hidden layers, all of width w."""
        w, k = self.width, self.outputs
        if not self.depth:
            return k * (self.inputs + 1)
        return w * self.inputs + w + (self.depth - 1) * (w * w + w) + k * (w + 1)

    @property
    def nonzeros(self) -> int:
        """How many parameters are not zero."""
        return sum(int(np.count_nonzero(layer.weight.data) + np.count_nonzero(layer.bias)) for layer in self.layers)

    @cached_property
    def one_norm(self) -> float:
        """‖θ‖₁, the sum of all magnitudes; padding adds nothing to it."""
        return float(sum(np.abs(layer.weight.data).sum() + np.abs(layer.bias).sum() for layer in self.layers))

    @cached_property
    def operator_norms(self) -> tuple[float, ...]:
        """‖W_i‖, the largest singular value of every weight, first layer first."""
        return tuple(operator_norm(layer.weight) for layer in self.layers)

    @property
    def log_norm_product(self) -> float:
        """ln Π‖W_i‖, which norm-based bounds grow with; -inf where a weight is zero."""
        norms = np.array(self.operator_norms)
        return float(np.log(norms).sum()) if (norms > 0).all() else -np.inf

    def padded(self, width: int | None = None, depth: int | None = None) -> ReluNetwork:
        """The same function as a network of a larger width, and with more hidden layers.

        Further layers stand before the last and hand on what it reads, φ(1·h) = h for h ≥ 0, at a cost of 1 for each.
        """
        widened = replace(self, padded_width=self.padded_width if width is None else width)
        if depth is None:
            return widened
        require_integer("depth", depth, 0)
        more = depth - self.depth
        require(more >= 0, f"the network has {self.depth} hidden layers; got depth={depth} (try {self.depth} or more)")
        if not more:
            return widened
        require(self.depth, "a network without hidden layers cannot be deepened: its inputs may be negative")
        last = self.layers[-1]
        used = np.unique(last.weight.indices)
        select = sparse.csr_array(sparse.eye_array(last.weight.shape[1], format="csr")[used])
        same = sparse.eye_array(len(used), format="csr")
        passes = [Affine(select if not place else same, np.zeros(len(used))) for place in range(more)]
        ending = Affine(sparse.csr_array(last.weight[:, used]), last.bias)
        *modules, final = self.modules
        require(final.layers == slice(self.depth, self.depth + 1), "the last module must be the last affine map")
        extra = Module("pass", slice(self.depth, depth))
        closing = Module(final.kind, slice(depth, depth + 1))
        return ReluNetwork((*self.layers[:-1], *passes, ending), (*modules, extra, closing), widened.padded_width)

    def run(self, x: ArrayLike, workers: int | None = None) -> Array:
        """F on inputs [batch, m]: [batch, outputs]. Chunks of inputs go through side by side on all processors."""
        given = self.checked(x)
        found = np.empty((len(given), self.outputs))

        def work(rows: slice) -> None:
            *_, last = self.streamed(given[rows])
            found[rows] = last.T

        over_chunks(work, len(given), self.chunk, workers)
        return found

    def checked(self, x: ArrayLike) -> Array:
        """Inputs as float64 [batch, m]; any other shape is refused."""
        given = np.asarray(x, np.float64)
        shaped = given.ndim == 2 and given.shape[1] == self.inputs
        require(shaped, f"the network reads inputs of the shape (batch, {self.inputs}); got {given.shape}")
        return given

    @property
    def chunk(self) -> int:
        """How many inputs go through at once."""
        return min(max(FEWEST, CHUNK_ENTRIES // max(self.needed_width, self.inputs, 1)), MOST)

    def streamed(self, x: Array) -> Iterator[Array]:
        """What every layer returns for inputs [batch, m], layer after layer; ReLU is applied to all but the last.

        Each is [units, batch], and stands in memory that the layer after the next is written to.
        """
        batch = len(x)
        size = batch * max(self.inputs, *(layer.weight.shape[0] for layer in self.layers))
        here, there = np.empty(size), np.empty(size)
        columns = here[: x.size].reshape(self.inputs, batch)
        columns[:] = x.T
        for place, layer in enumerate(self.layers):
            here, there = there, here
            units = int(layer.weight.shape[0])
            following = here[: units * batch].reshape(units, batch)
            layer.into(columns, following)
            if place < self.depth:
                np.maximum(following, 0.0, out=following)
            yield following
            columns = following

    def save(self, path: str | os.PathLike[str], notes: dict[str, Any] | None = None) -> Path:
        """Write the network as safetensors (`network_files`); `notes` are kept in the header."""

        return save_network(self, path, notes)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> ReluNetwork:
        """The network that `save` wrote."""

        return load_network(path)

    def activations(self, x: ArrayLike) -> list[Array]:
        """What every layer returns for inputs [batch, m], as [batch, units]; ReLU is applied to all but the last."""
        return [columns.T.copy() for columns in self.streamed(self.checked(x))]


NAMES: dict[str, tuple[str, tuple[str, ...]]] = {
    "gates": ("f", ("W1", "b1", "W2", "b2")),
    "round": ("z", ("V1", "c1", "V2", "c2")),
    "pass": ("p", ("W", "b")),
    "linear": ("out", ("W", "b")),
}
"""How the parameters of a module are called: f0.W1, z0.V1, p0.W, out.W and so on."""


def dense_parameters(network: ReluNetwork, width: int | None = None) -> dict[str, Array]:
    """The weights as full float64 matrices [out, in] and biases [out] under names.

    f{i}.W1, b1, W2, b2 of gate module i = 0, 1, …, and z{i}.V1, c1, V2, c2 of the correction after it; out.W, out.b;
    p{i}.W, b of layers that hand on. With a `width` every hidden layer has as many units, the further ones zero.
    """
    if width is not None:
        network = network.padded(width)
    sizes = [network.inputs, *(width or layer.weight.shape[0] for layer in network.layers[:-1]), network.outputs]
    entries = sum(out * (into + 1) for into, out in itertools.pairwise(sizes))
    require(
        entries <= MOST_DENSE,
        f"dense parameters of {entries:,} entries are too many (at most {MOST_DENSE:,}); take a smaller width",
    )
    found: dict[str, Array] = {}
    counts = dict.fromkeys(NAMES, 0)
    for module in network.modules:
        prefix, names = NAMES[module.kind]
        places = range(module.layers.start, module.layers.stop)
        for start in range(0, len(places), len(names) // 2):
            label = prefix if module.kind == "linear" else f"{prefix}{counts[module.kind]}"
            counts[module.kind] += 1
            for place, weight, bias in zip(places[start:], names[::2], names[1::2], strict=False):
                layer = network.layers[place]
                matrix = np.zeros((sizes[place + 1], sizes[place]))
                matrix[: layer.weight.shape[0], : layer.weight.shape[1]] = layer.weight.toarray()
                vector = np.zeros(sizes[place + 1])
                vector[: len(layer.bias)] = layer.bias
                found[f"{label}.{weight}"], found[f"{label}.{bias}"] = matrix, vector
    return found


def circuit_output(parameters: Mapping[str, Any], x: ArrayLike) -> jax.Array:
    """F(x) for inputs [batch, m] as a function of `dense_parameters`, whatever their values: [batch, outputs]."""
    if "out.W" not in parameters:
        raise KroghError(f"the parameters of a network have a last layer 'out.W'; got {sorted(parameters)[:5]}")

    def layer(hidden: jax.Array, weight: str, bias: str) -> jax.Array:
        matrix = jnp.asarray(parameters[weight])
        product = jnp.matmul(hidden, matrix.T, precision=jax.lax.Precision.HIGHEST)
        return product + jnp.asarray(parameters[bias])[None, :]

    hidden = jnp.asarray(x, jnp.asarray(parameters["out.W"]).dtype)
    place = 0
    while f"f{place}.W1" in parameters:
        for kind in ("gates", "round"):
            prefix, names = NAMES[kind]
            if f"{prefix}{place}.{names[0]}" in parameters:
                for weight, bias in zip(names[::2], names[1::2], strict=True):
                    hidden = jax.nn.relu(layer(hidden, f"{prefix}{place}.{weight}", f"{prefix}{place}.{bias}"))
        place += 1
    place = 0
    while f"p{place}.W" in parameters:
        hidden = jax.nn.relu(layer(hidden, f"p{place}.W", f"p{place}.b"))
        place += 1
    return layer(hidden, "out.W", "out.b")


# Neither 1/3 nor 2/3 is a number of float64, and of the two nearest ones round(1) is 1 only where 3·(2/3) and 3·(1/3)
# are rounded before they are subtracted; a fused multiply-add, which many processors use, gives 1 - 2^-53. With the
# numbers below, 3 and 2 units in the last place larger, 3(1 - low) = 2 - 2^-51 and 3(1 - high) = 1 - 5·2^-53 are exact,
# and their difference 1 + 2^-53 is rounded to 1 in whatever order it is computed.
LOW = 1.0 - 4 * ((2**52 - 1) // 3) * 2.0**-53
"""1/3, where rounding begins to rise."""
HIGH = 1.0 - ((2**54 - 10) // 3) * 2.0**-54
"""2/3, where it has reached 1."""

SLOPE = 3.0
RADIUS = 1 / 3
"""How far from 0 or 1 a number may be and still be corrected."""
COST = 9.0
"""1-norm for each coordinate: 1 + 1 + 1/3 + 2/3 + 3 + 3."""


def rounded(z: ArrayLike) -> Array:
    """round(z), entry by entry."""
    values = np.asarray(z, np.float64)
    return SLOPE * np.maximum(values - LOW, 0.0) - SLOPE * np.maximum(values - HIGH, 0.0)


def rounding_layers(n: int) -> tuple[Affine, Affine]:
    """(V_1, c_1) and (V_2, c_2) for n coordinates."""
    require_integer("n", n, 1)
    same = sparse.eye_array(n, format="csr")
    first = Affine(sparse.csr_array(sparse.vstack([same, same])), np.repeat([-LOW, -HIGH], n))
    second = Affine(sparse.csr_array(sparse.hstack([SLOPE * same, -SLOPE * same])), np.zeros(n))
    return first, second
