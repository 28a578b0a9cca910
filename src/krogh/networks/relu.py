"""ReLU networks written by hand: sparse affine layers with φ = ReLU between them (SM paper, section 3).

    F(x) = W_d φ(W_{d-1} φ(… φ(W_0 x + b_0) …) + b_{d-1}) + b_d        d hidden layers, d + 1 affine ones

A network is a chain of *modules*: layers that compute gates ("gates"), round ("round"), hand on what is not negative
("pass"), and the last affine map ("linear"). It stands for the network of any larger width too: further coordinates
are zero, so that they need not be stored, and only the number of parameters knows of them.

`dense_parameters` are the same weights as full matrices under names, and `circuit_output` is the network as a pure
function of these, for gradients and perturbations.

Rounding by ReLUs is the correction after every module (SM paper, Proposition 3.4).

    round(z) = 3φ(z - 1/3) - 3φ(z - 2/3)        0 for z ≤ 1/3, 1 for z ≥ 2/3, slope 3 between

It returns exactly h for every h' within 1/3 of a binary h, so that errors of one module do not reach the next. As
layers on n coordinates: V_1 = [I; I], c_1 = (-1/3, …, -2/3, …), V_2 = [3I, -3I], c_2 = 0, and
ζ(h) = φ(V_2 φ(V_1 h + c_1) + c_2), of 1-norm 9 for each coordinate.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Literal, overload

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sparse
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer

Array = NDArray[np.float64]
Kind = Literal["gates", "round", "pass", "linear"]

CHUNK_ENTRIES = 1 << 18
"""Entries of the widest layer in one chunk of inputs: 2 MiB in float64, which a cache holds."""
FEWEST, MOST = 32, 1024
"""Inputs that go through at once, fewer only where layers are so wide that they would fill the memory."""
MOST_ENTRIES = 1 << 22
"""Entries of the widest layer for the inputs of one chunk, 32 MiB."""
MOST_SIDE_BY_SIDE = 1 << 24
"""The same for all chunks that go through side by side, 128 MiB; a run needs three times that."""
MOST_DENSE = 1 << 28
"""Entries of dense parameters that are written out: 2 GiB in float64."""
FEW_ENTRIES = 4
"""Rows of at most so many entries are summed entry by entry."""
FEWEST_LOOPED = 3
"""Modules that are worth a loop where a network is compiled by JAX."""


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

    def __call__(self, columns: Array) -> Array:
        """weight · columns + bias, [in, batch] to [out, batch]."""
        outputs = np.empty((len(self.bias), columns.shape[1]))
        self.into(columns, outputs, np.empty_like(outputs))
        return outputs

    def into(self, columns: Array, outputs: Array, scratch: Array) -> None:
        """Write weight · columns + bias to `outputs` [out, batch]; `scratch` is as large, and is overwritten.

        Rows of few entries, which nearly all layers have, are summed entry by entry in memory that is there: a product
        `weight @ columns` fetches new memory every time, and that takes longer than the product.
        """
        if self._terms is None:
            outputs[:] = self.weight @ columns
        else:
            for place, (indices, values) in enumerate(self._terms):
                target = scratch if place else outputs
                np.take(columns, indices, axis=0, out=target, mode="clip")
                if values is not None:
                    target *= values
                if place:
                    outputs += scratch
        outputs += self.bias[:, None]

    @cached_property
    def _terms(self) -> list[tuple[NDArray[np.intp], Array | None]] | None:
        """The first entry of every row, then the second, and so on; None where rows have many, or none has any.

        Values are None where all are 1; rows that have no such entry have a 0.
        """
        starts, counts = self.weight.indptr[:-1], np.diff(self.weight.indptr)
        if not self.weight.nnz or counts.max() > FEW_ENTRIES:
            return None
        terms: list[tuple[NDArray[np.intp], Array | None]] = []
        for place in range(int(counts.max())):
            entry = np.where(counts > place, starts + place, 0)
            values = np.where(counts > place, self.weight.data[entry], 0.0)
            terms.append((self.weight.indices[entry].astype(np.intp), None if np.all(values == 1) else values[:, None]))
        return terms


class WrittenLayers(Sequence[Affine]):
    """Layers that are written when they are read: all those of a deep network at once would fill the memory.

    `shapes` are those of the weights, (out, in); `write(i)` returns layer i, the same whenever it is asked.
    """

    def __init__(self, shapes: Sequence[tuple[int, int]], write: Callable[[int], Affine]):
        self.shapes = tuple(shapes)
        self.write = write

    def __len__(self) -> int:
        return len(self.shapes)

    @overload
    def __getitem__(self, place: int) -> Affine: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Affine, ...]: ...
    def __getitem__(self, place: int | slice) -> Affine | tuple[Affine, ...]:
        numbers = range(len(self))[place]
        return self.write(numbers) if isinstance(numbers, int) else tuple(map(self.write, numbers))


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


@dataclass(frozen=True)
class Module:
    """Which layers do what together."""

    kind: Kind
    layers: slice


@dataclass(frozen=True, eq=False, repr=False)
class ReluNetwork:
    """A chain of affine layers with ReLU between them; `padded_width` is the width it stands for, if larger."""

    layers: Sequence[Affine]
    modules: tuple[Module, ...]
    padded_width: int | None = None

    def __post_init__(self) -> None:
        require(self.layers, "a network needs at least one layer; got none")
        for place, ((out, _), (_, into)) in enumerate(itertools.pairwise(self.shapes)):
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

    @cached_property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Outputs and inputs of every layer."""
        if isinstance(self.layers, WrittenLayers):
            return self.layers.shapes
        return tuple((int(out), int(into)) for out, into in (layer.weight.shape for layer in self.layers))

    @property
    def inputs(self) -> int:
        """m, how many numbers the first layer reads."""
        return self.shapes[0][1]

    @property
    def outputs(self) -> int:
        """How many numbers the last layer returns."""
        return self.shapes[-1][0]

    @property
    def depth(self) -> int:
        """d, the number of hidden layers; there are d + 1 affine ones."""
        return len(self.layers) - 1

    @cached_property
    def needed_width(self) -> int:
        """The most units in a hidden layer."""
        return max((out for out, _ in self.shapes[:-1]), default=1)

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
        return self._sums[0]

    @property
    def one_norm(self) -> float:
        """‖θ‖₁, the sum of all magnitudes; padding adds nothing to it."""
        return self._sums[1]

    @cached_property
    def _sums(self) -> tuple[int, float]:
        """Both in one pass, since layers may be written for it; a layer that comes again is summed once."""
        known: dict[int, tuple[Affine, int, float]] = {}  # with the layer, for another could have its number
        kept = not isinstance(self.layers, WrittenLayers)
        count, total = 0, 0.0
        for layer in self.layers:
            found = known.get(id(layer))
            if found is None:
                arrays = (layer.weight.data, layer.bias)
                found = (
                    layer,
                    sum(int(np.count_nonzero(array)) for array in arrays),
                    sum(float(np.abs(array).sum()) for array in arrays),
                )
                if kept:
                    known[id(layer)] = found
            count, total = count + found[1], total + found[2]
        return count, total

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
        outputs = np.empty((len(given), self.outputs))

        def work(rows: slice) -> None:
            outputs[rows] = reduce(lambda _, later: later, self.streamed(given[rows])).T

        over_chunks(work, len(given), self.chunk, min(workers or self.workers, self.workers))
        return outputs

    def checked(self, x: ArrayLike) -> Array:
        """Inputs as float64 [batch, m]; any other shape is refused."""
        given = np.asarray(x, np.float64)
        shaped = given.ndim == 2 and given.shape[1] == self.inputs
        require(shaped, f"the network reads inputs of the shape (batch, {self.inputs}); got {given.shape}")
        return given

    @property
    def chunk(self) -> int:
        """How many inputs go through at once."""
        widest = max(self.needed_width, self.inputs, 1)
        return max(1, min(max(FEWEST, CHUNK_ENTRIES // widest), MOST, MOST_ENTRIES // widest))

    @property
    def workers(self) -> int:
        """How many chunks go through side by side: as many as there are processors, and memory for."""
        widest = max(self.needed_width, self.inputs, 1)
        return max(1, min(os.cpu_count() or 1, MOST_SIDE_BY_SIDE // (widest * self.chunk)))

    def streamed(self, x: Array) -> Iterator[Array]:
        """What every layer returns for inputs [batch, m], layer after layer; ReLU is applied to all but the last.

        Each is [units, batch], and stands in memory that the layer after the next is written to.
        """
        batch = len(x)
        size = batch * max(self.inputs, self.needed_width, self.outputs)
        here, there, scratch = np.empty(size), np.empty(size), np.empty(size)
        columns = here[: x.size].reshape(self.inputs, batch)
        columns[:] = x.T
        for place, layer in enumerate(self.layers):
            here, there = there, here
            units = len(layer.bias)
            outputs, spare = (memory[: units * batch].reshape(units, batch) for memory in (here, scratch))
            layer.into(columns, outputs, spare)
            if place < self.depth:
                np.maximum(outputs, 0.0, out=outputs)
            yield outputs
            columns = outputs

    def last_layer(self, x: ArrayLike, output: int = 0) -> tuple[Array, Array]:
        """Weights and bias of an output [n + 1], and what they are multiplied by on an input [m]: (h, 1) [n + 1]."""
        row = self.checked(np.asarray(x)[None, :])
        h, _ = deque(itertools.chain([row.T], self.streamed(row)), maxlen=2)
        last = self.layers[-1]
        return np.append(last.weight[[output]].toarray()[0], last.bias[output]), np.append(h[:, 0], 1.0)

    @cached_property
    def named_layers(self) -> tuple[tuple[str, str, Affine], ...]:
        """The names of weight and bias with every layer, in order (see `dense_parameters`)."""
        named: list[tuple[str, str, Affine]] = []
        counts = dict.fromkeys(NAMES, 0)
        for module in self.modules:
            prefix, names = NAMES[module.kind]
            layers = self.layers[module.layers]
            for start in range(0, len(layers), len(names) // 2):
                label = prefix if module.kind == "linear" else f"{prefix}{counts[module.kind]}"
                counts[module.kind] += 1
                for layer, weight, bias in zip(layers[start:], names[::2], names[1::2], strict=False):
                    named.append((f"{label}.{weight}", f"{label}.{bias}", layer))
        return tuple(named)

    @property
    def named_weights(self) -> dict[str, sparse.csr_array | Array]:
        """Weights and biases by name, sparse."""
        weights: dict[str, sparse.csr_array | Array] = {}
        for weight, bias, layer in self.named_layers:
            weights |= {weight: layer.weight, bias: layer.bias}
        return weights

    def with_layers(self, parameters: Mapping[str, Any]) -> ReluNetwork:
        """The same network with weights and biases by their names; what is one object stays one layer."""
        known: dict[tuple[int, int], Affine] = {}
        layers = []
        for weight, bias, _ in self.named_layers:
            key = id(parameters[weight]), id(parameters[bias])
            if key not in known:
                known[key] = Affine(parameters[weight], parameters[bias])
            layers.append(known[key])
        return replace(self, layers=tuple(layers))

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
    arrays: dict[str, Array] = {}
    for (weight, bias, layer), (into, out) in zip(network.named_layers, itertools.pairwise(sizes), strict=True):
        rows, columns = layer.weight.shape
        arrays[weight] = np.pad(layer.weight.toarray(), ((0, out - rows), (0, into - columns)))
        arrays[bias] = np.pad(layer.bias, (0, out - rows))
    return arrays


def affine(weight: Any, bias: Any, h: Any) -> jax.Array:
    """W h + b for vectors h [..., n], in JAX; accelerators would otherwise multiply in fewer bits than floats have."""
    product = jnp.matmul(h, jnp.asarray(weight).T, precision=jax.lax.Precision.HIGHEST)
    return product + jnp.expand_dims(jnp.asarray(bias), range(product.ndim - 1))


def circuit_output(parameters: Mapping[str, Any], x: Any) -> jax.Array:
    """F(x) for inputs [..., m] as a function of `dense_parameters`, whatever their values: [..., outputs].

    Modules that follow each other and have the same shapes run as one `lax.scan`, so that a circuit of a hundred layers
    is compiled in the time of a few. Searching for perturbations is otherwise spent mostly on compilation.
    """
    require(
        "out.W" in parameters, f"the parameters of a network have a last layer 'out.W'; got {sorted(parameters)[:5]}"
    )
    modules, place = [], 0
    while f"f{place}.W1" in parameters:
        names = [f"{prefix}{place}.{name}" for prefix, parts in (NAMES["gates"], NAMES["round"]) for name in parts]
        modules.append(tuple(jnp.asarray(parameters[name]) for name in names if name in parameters))
        place += 1
    place = 0
    while f"p{place}.W" in parameters:
        modules.append((jnp.asarray(parameters[f"p{place}.W"]), jnp.asarray(parameters[f"p{place}.b"])))
        place += 1
    hidden = jnp.asarray(x, jnp.asarray(parameters["out.W"]).dtype)
    for _, group in itertools.groupby(modules, key=lambda module: tuple(array.shape for array in module)):
        alike = list(group)
        # a loop carries one vector, so it can only run where a module returns as many numbers as it reads
        if len(alike) >= FEWEST_LOOPED and alike[0][-1].shape[0] == alike[0][0].shape[1]:
            stacked = tuple(jnp.stack(arrays) for arrays in zip(*alike, strict=True))
            hidden, _ = jax.lax.scan(lambda h, module: (_module_output(module, h), None), hidden, stacked)
        else:
            for module in alike:
                hidden = _module_output(module, hidden)
    return affine(parameters["out.W"], parameters["out.b"], hidden)


def _module_output(module: tuple[jax.Array, ...], hidden: jax.Array) -> jax.Array:
    for weight, bias in zip(module[::2], module[1::2], strict=True):
        hidden = jax.nn.relu(affine(weight, bias, hidden))
    return hidden


# Neither 1/3 nor 2/3 is a number of float64, and of the two nearest ones round(1) is 1 only where 3·(2/3) and 3·(1/3)
# are rounded before they are subtracted; a fused multiply-add, which many processors use, gives 1 - 2^-53. With the
# numbers below, 3 and 2 units in the last place larger, 3(1 - low) = 2 - 2^-51 and 3(1 - high) = 1 - 5·2^-53 are exact,
# and their difference 1 + 2^-53 is rounded to 1 in whatever order it is computed.
LOW = 1.0 - 4 * ((2**52 - 1) // 3) * 2.0**-53
"""1/3, where rounding begins to rise."""
HIGH = 1.0 - ((2**54 - 10) // 3) * 2.0**-54
"""2/3, where it has reached 1."""

SLOPE = 3.0


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
