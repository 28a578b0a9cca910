"""Sparse Boolean functions in one attention layer and ReLUs (dissertation, Prop. 4.12 and A.18, Lemmas A.22, A.23).

    sparse/head        what attention alone computes, within γ/4
    sparse/symmetric   any symmetric function of s bits: one head, and ReLUs that memorise s+1 numbers
    sparse/general     any function of s bits: s heads (one on a bag of vectors), and ReLUs that memorise 2^s points
    sparse/averaging   the head with Q = K = 0: bounded norms do not force sparsity (§4.5)

    f_tf+mlp(X(b)) = f(b) for every b in {0,1}^T, exactly

A head approximates γ-separated points within γ/4, so the memoriser must repeat a value within δ = γ/4 of its point. The
source's proofs print δ = γ/8, which is half of what the head may miss by; the variant "printed" has it and fails.
Bits are b = (1-x)/2; indices start at 0; I is the first s coordinates unless `support` is given.

`categorical_function` does the same for tokens of M kinds (§A.2.4, a sketch):

    x_t = E_{c_t} + v_t,  c_t in {0..M-1};  head h selects the h-th relevant position, as for bits, and
    V = (Σ_c a_c E_c) e_1ᵀ with a_0 = -1, …, a_{M-1} = 1 equally spaced:  y ≈ (a_{c_i})_{i in I}, γ = 2/(M-1)

The ReLUs memorise M^s points, δ = γ/4. No task of this laboratory has such tokens; the layer is executed by
`krogh.models.attention`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from krogh.errors import KroghError, require, require_integer
from krogh.models.attention import AttentionMlp, attend, with_cls
from krogh.networks.handmade import Array, Construction, Oracle, construction
from krogh.networks.memoriser import Memoriser, memoriser
from krogh.networks.parity import ALL_INPUTS, ParityTable
from krogh.networks.sparse_heads import HeadName, HeadOptions, Mode, SparseHead, settings_of, sparse_head
from krogh.tasks.gates import bits_of, gate_profile, gate_table, symmetric_table
from krogh.tasks.sparse_boolean import SparseBoolean
from krogh.theory.numerics import double_precision
from krogh.theory.prediction import Variant, check_variant

FILLINGS = 64
"""How often each setting of the relevant bits is checked in a long context: the others all 0, all 1, then random."""

_ENTRIES = 2**22
"""Coordinates in one batch of inputs: 32 MiB in float64."""


@dataclass(frozen=True, eq=False)
class SparseTable(Oracle):
    """values[Σ_j b_{support[j]} 2^j], a number or a vector.

    On all 2^n inputs for n ≤ 16; beyond, on all 2^s settings of the relevant bits, each with all other bits 0, with all
    others 1, and with random others.
    """

    n: int
    support: tuple[int, ...]
    values: Array

    @property
    def exhaustive(self) -> bool:
        return self.n <= ALL_INPUTS

    def cases(self, seed: int) -> Iterator[tuple[Array, Array]]:
        random = np.random.default_rng(seed)
        relevant = list(self.support)
        total = 2**self.n if self.exhaustive else FILLINGS * len(self.values)
        batch = max(1, _ENTRIES // self.n)
        for start in range(0, total, batch):
            rows = np.arange(start, min(start + batch, total))
            if self.exhaustive:
                bits = (rows[:, None] >> np.arange(self.n)) & 1
                index = bits[:, relevant] @ (1 << np.arange(len(relevant)))
            else:
                index, filling = rows % len(self.values), rows // len(self.values)
                bits = random.integers(0, 2, (len(rows), self.n))
                bits[filling == 0], bits[filling == 1] = 0, 1
                bits[:, relevant] = (index[:, None] >> np.arange(len(relevant))) & 1
            yield np.asarray(1.0 - 2.0 * bits, np.float64), self.values[index]


def index_set(n: int, s: int | None, support: Iterable[int] | None) -> tuple[int, ...]:
    """I as a tuple: the support if given, and the first s coordinates if not."""
    require_integer("n", n, 1)
    require(s is not None or support is not None, "a sparse function needs s or a support; got neither")
    if support is None:
        require_integer("s", s, 1, n)
        return tuple(range(s))  # type: ignore[arg-type]
    if isinstance(support, str) or not isinstance(support, Iterable):
        raise KroghError(f"support must be a list of coordinates in 0..{n - 1}; got support={support!r}")
    members = tuple(support)
    for index in members:
        require_integer("a coordinate of the support", index, 0, n - 1)
    require(members, "support must have a coordinate; got support=()")
    require(len(set(members)) == len(members), f"support must not repeat an index; got {list(members)}")
    require(s is None or s == len(members), f"support must have s={s} indices; got {list(members)}")
    return members


def labels(values: ArrayLike) -> Array:
    """Values as the task has them: 0 and 1 become the labels -1 and +1, other numbers stay."""
    listed = np.asarray(values, np.float64)
    return 2 * listed - 1 if np.isin(listed, (0.0, 1.0)).all() else listed


def norms(params: Mapping[str, ArrayLike]) -> dict[str, float]:
    """‖·‖_F of every weight (the largest over heads) and ‖Pᵀ‖_{2,1} = Σ_t ‖P_t‖ of the positions."""
    sizes = {}
    for name, value in params.items():
        array = np.asarray(value, np.float64)
        if array.ndim == 3:
            sizes[name] = float(np.max(np.linalg.norm(array, axis=(1, 2))))
        else:
            sizes[name] = float(np.linalg.norm(array))
    if "P" in params:
        sizes["P_21"] = float(np.sum(np.linalg.norm(np.asarray(params["P"], np.float64), axis=1)))
    return sizes


EXACT = 1e-10
"""What rounding may change of an exact representation, relative to the largest value."""


@construction("sparse/head", source="dissertation, Lemmas A.19, A.20, A.21")
def head_alone(
    n: int,
    s: int | None = None,
    support: tuple[int, ...] | None = None,
    head: HeadName = "det_single",
    gamma: float | None = None,
    dimension: int | None = None,
    heads: int | None = None,
    mode: Mode = "dual",
    strength: float | None = None,
    basis_seed: int = 0,
    exact: bool | None = None,
    increasing: bool = False,
) -> Construction:
    """Attention that approximates a function of the relevant bits alone.

    The function is 1-bounded and monotone in r = Σ_{i in I} b_i (det_single, train_single), s-bounded and monotone
    (bag_scalar), or has a coordinate for each relevant bit (det_multi, train_multi, bag_vector). See
    `krogh.networks.sparse_heads`.
    """
    members = index_set(n, s, support)
    options = HeadOptions(gamma, dimension, heads, mode, strength, basis_seed, exact, increasing)
    attention = sparse_head(head, n, members, options)
    values = attention.target(settings_of(len(members)))
    vector = head in ("det_multi", "train_multi", "bag_vector")
    model = _network(attention, "vector" if vector else "scalar")
    # No label has s values: the task of a vector is a placeholder that says what is read.
    task = SparseBoolean(n, support=members, table="xor" if vector else values[:, 0])
    oracle = SparseTable(n, members, values if vector else values[:, 0])
    statement = (
        f"|f_tf-head(X(b)) - g(b)| ≤ γ/4 = {attention.gamma / 4:.4g} for every b in {{0,1}}^{n}, {_set(members)}"
    )
    return Construction(
        "sparse/head", task, model, attention.parameters, statement, model.heads, oracle, attention.gamma / 4
    )


@construction("sparse/symmetric", source="dissertation, Prop. 4.12, Lemma A.22 (δ repaired)")
def symmetric(
    n: int,
    s: int | None = None,
    support: tuple[int, ...] | None = None,
    gate: str | None = None,
    values: tuple[float, ...] | None = None,
    head: Literal["det_single", "train_single", "bag_scalar"] = "det_single",
    layers: Literal[2, 3] = 3,
    gamma: float | None = None,
    dimension: int | None = None,
    heads: int | None = None,
    mode: Mode = "dual",
    strength: float | None = None,
    basis_seed: int = 0,
    exact: bool | None = None,
    variant: Variant = "repaired",
) -> Construction:
    """A symmetric function of s bits in one head and 4(s+1), 2(s+1) ReLUs.

    It is a named `gate` (and, or, nand, nor, xor, majority, threshold-k), or has the `values` f(0), …, f(s) at
    r = 0..s true bits; 0 and 1 are the labels -1 and +1. With two `layers` there are 4(s+1) ReLUs.
    """
    require(
        (gate is None) != (values is None), f"give a gate or values f(0)..f(s); got gate={gate!r}, values={values!r}"
    )
    if values is not None and s is None and support is None:
        s = len(values) - 1
    members = index_set(n, s, support)
    count = len(members) + 1
    profile = labels(gate_profile(gate, len(members)) if values is None else _finite(values))  # type: ignore[arg-type]
    require(len(profile) == count, f"a symmetric function of s={count - 1} bits has {count} values; got {len(profile)}")
    options = HeadOptions(gamma, dimension, heads, mode, strength, basis_seed, exact)
    attention = sparse_head(head, n, members, options)
    table = symmetric_table(profile)
    return _represented("sparse/symmetric", attention, profile, table, layers, variant)


@construction("sparse/general", source="dissertation, Prop. 4.12, Lemma A.23 (δ repaired)")
def general(
    n: int,
    s: int | None = None,
    support: tuple[int, ...] | None = None,
    gate: str | None = None,
    table: tuple[float, ...] | None = None,
    head: Literal["det_multi", "train_multi", "bag_vector"] = "det_multi",
    gamma: float | None = None,
    dimension: int | None = None,
    heads: int | None = None,
    mode: Mode = "dual",
    strength: float | None = None,
    basis_seed: int = 0,
    exact: bool | None = None,
    variant: Variant = "repaired",
) -> Construction:
    """Any function of s bits in s heads (one on a bag of vectors) and 4s·2^s, 2·2^s ReLUs.

    It is a named `gate`, or a `table` of the 2^s values at Σ_j b_{support[j]} 2^j; 0 and 1 are the labels -1 and +1.
    """
    require(
        (gate is None) != (table is None), f"give a gate or a table of 2^s values; got gate={gate!r}, table={table!r}"
    )
    if table is not None and s is None and support is None:
        s = bits_of(np.asarray(table))
    members = index_set(n, s, support)
    count = 2 ** len(members)
    values = labels(gate_table(gate, len(members)) if table is None else _finite(table))  # type: ignore[arg-type]
    require(len(values) == count, f"a table of s={len(members)} bits has {count} values; got {len(values)}")
    options = HeadOptions(gamma, dimension, heads, mode, strength, basis_seed, exact)
    attention = sparse_head(head, n, members, options)
    return _represented("sparse/general", attention, values, values, 3, variant)


@construction("sparse/averaging", source="dissertation, section 4.5")
def averaging(n: int, dimension: int | None = None) -> Construction:
    """The head with Q = K = 0, which averages over the whole context.

    f(X(b)) = Σ_t χ_t / (T+1),  as [CLS] is averaged too, and adds 0
    """
    require_integer("n", n, 1)
    attention = sparse_head(
        "det_single", n, tuple(range(n)), HeadOptions(dimension=dimension, mode="printed", strength=1.0)
    )
    params = {
        **attention.parameters,
        "Q": np.zeros_like(attention.parameters["Q"]),
        "K": np.zeros_like(attention.parameters["K"]),
    }
    model = _network(attention, "scalar")
    statement = f"f_tf-head(X(b)) = Σ_t (1-2b_t)/{n + 1} for every b in {{0,1}}^{n}"
    task = SparseBoolean(n, 1, table="and")  # a placeholder that says what is read: the mean depends on every bit
    return Construction("sparse/averaging", task, model, params, statement, 1, ContextMean(n))


@dataclass(frozen=True)
class ContextMean(Oracle):
    """Σ_t χ_t/(T+1), by counting ones: on all 2^n inputs for n ≤ 16, and on random ones beyond."""

    n: int

    @property
    def exhaustive(self) -> bool:
        return self.n <= ALL_INPUTS

    def cases(self, seed: int) -> Iterator[tuple[Array, Array]]:
        for x, _ in ParityTable(self.n, ()).cases(seed):
            yield x, 1.0 - (2.0 * np.count_nonzero(x < 0, axis=1) + 1.0) / (self.n + 1)


def _represented(
    name: str, head: SparseHead, memorised: Array, table: Array, layers: int, variant: Variant
) -> Construction:
    """The head followed by a memoriser of its points, with the statement that they compute the table."""
    check_variant(variant)
    delta = head.gamma / (4 if variant == "repaired" else 8)
    network = memoriser(head.points(), memorised, delta, layers)
    task = SparseBoolean(head.length, support=head.support, table=table)
    model = _network(head, "mlp" if layers == 3 else "two-layer", network)
    params = {**head.parameters, **network.parameters}
    statement = f"f_tf+mlp(X(b)) = f(b) for every b in {{0,1}}^{head.length}, {_set(head.support)}"
    oracle = SparseTable(head.length, head.support, table)
    tolerance = EXACT * max(1.0, float(np.max(np.abs(table))))
    return Construction(name, task, model, params, statement, model.first_hidden, oracle, tolerance)


def _network(head: SparseHead, readout: str, network: Memoriser | None = None) -> AttentionMlp:
    """The architecture whose weights the head and the memoriser are."""
    count, dimension, attention = head.parameters["Q"].shape
    widths = {} if network is None else {"first_hidden": network.W1.shape[1]}
    if network is not None and network.W2 is not None:
        widths["second_hidden"] = network.W2.shape[1]
    return AttentionMlp(dimension, count, attention, **widths, read=head.outputs, mapping=head.mapping, readout=readout)


def _finite(values: tuple[float, ...]) -> Array:
    listed = np.asarray(values, np.float64)
    require(listed.ndim == 1 and np.isfinite(listed).all(), f"values must be finite numbers; got {values!r}")
    return listed


def _set(members: tuple[int, ...]) -> str:
    return f"I = {{{', '.join(map(str, members))}}}"


@dataclass(frozen=True, eq=False)
class CategoricalFunction:
    """Weights E [M, d], P [n, d], cls [d], Q, K, V [s, d, 1], C [s, 1, s] and a memoriser of M^s points."""

    alphabet: int
    support: tuple[int, ...]
    parameters: dict[str, Array]
    network: Memoriser
    gamma: float

    def attended(self, tokens: ArrayLike) -> Array:
        """What the s heads put out for rows of tokens in 0..M-1 [batch, n]; shape [batch, s]."""
        words = np.asarray(tokens)
        whole = words.dtype.kind in "iu" and words.ndim == 2 and words.shape[1] == len(self.parameters["P"])
        within = whole and np.all((words >= 0) & (words < self.alphabet))
        require(
            within, f"tokens are rows of {len(self.parameters['P'])} integers in 0..{self.alphabet - 1}; got {tokens!r}"
        )
        with double_precision():
            weights = {name: jnp.asarray(value) for name, value in self.parameters.items()}
            rows = jnp.asarray(self.parameters["E"][words]) + weights["P"][None]
            return np.asarray(jax.vmap(lambda row: _heads(weights, row))(rows))

    def target(self, tokens: ArrayLike) -> Array:
        """What they approximate within γ/4: the levels a_c of the relevant tokens; shape [batch, s]."""
        return _levels(self.alphabet)[np.asarray(tokens)[:, list(self.support)]]

    def __call__(self, tokens: ArrayLike) -> Array:
        """The function: attention, then the memoriser."""
        return self.network(self.attended(tokens))


def categorical_function(
    n: int, alphabet: int, table: ArrayLike, s: int | None = None, support: Iterable[int] | None = None
) -> CategoricalFunction:
    """The layer that computes `table`, of shape (M, …, M) with an axis for each relevant token, of n tokens."""
    require_integer("alphabet", alphabet, 2)
    members = index_set(n, s, support)
    values, M, count = np.asarray(table, np.float64), alphabet, len(members)
    shape = (M,) * count
    require(
        values.shape == shape, f"a table of s={count} tokens of {M} kinds has the shape {shape}; got {values.shape}"
    )
    d, levels, gamma = n + M + 1, _levels(M), min(1.0, 2 / (M - 1))
    axes = np.eye(d)
    words, cls = axes[n : n + M], axes[-1]
    R = math.log(8 * n / gamma)
    each = np.arange(count)
    shape = (count, d, 1)
    Q, K, V, C = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros((count, 1, count))
    Q[:, :, 0], K[:, :, 0], V[:, :, 0], C[each, 0, each] = R * cls, axes[list(members)], levels @ words, 1.0
    params = {"E": words, "P": axes[:n], "cls": cls, "Q": Q, "K": K, "V": V, "C": C}
    points = np.array(list(itertools.product(levels, repeat=count)))
    return CategoricalFunction(M, members, params, memoriser(points, values.ravel(), gamma / 4), gamma)


def _heads(weights: dict[str, jax.Array], tokens: jax.Array) -> jax.Array:
    """Σ_h softmax(cls Q_h K_hᵀ Xᵀ) X V_h C_h, with [CLS] in X."""
    cls, rows = weights["cls"], with_cls(tokens, weights["cls"])
    each = jax.vmap(lambda Q, K, V, C: attend(cls[None, :], rows, Q, K, V)[0] @ C)
    return jnp.sum(each(*(weights[name] for name in "QKVC")), axis=0)


def _levels(alphabet: int) -> Array:
    """a_c: the alphabet's values, equally spaced in [-1, 1]."""
    return np.linspace(-1.0, 1.0, alphabet)
