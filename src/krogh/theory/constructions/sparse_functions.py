"""Sparse Boolean functions in one attention layer and ReLUs (dissertation, Prop. 4.12 and A.18, Lemmas A.22, A.23).

    sparse/head        what attention alone computes, within γ/4
    sparse/symmetric   any symmetric function of s bits: one head, and ReLUs that memorise s+1 numbers
    sparse/general     any function of s bits: s heads (one on a bag of vectors), and ReLUs that memorise 2^s points
    sparse/averaging   the head with Q = K = 0: bounded norms do not force sparsity (§4.5)

    f_tf+mlp(X(b)) = f(b) for every b in {0,1}^T, exactly

A head approximates γ-separated points within γ/4, so the memoriser must repeat a value within δ = γ/4 of its point. The
source's proofs print δ = γ/8, which is half of what the head may miss by; the variant "printed" has it and fails.
Bits are b = (1-x)/2; indices start at 0; I is the first s coordinates unless `support` is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from krogh.errors import require, require_integer
from krogh.models.attention_mlp import AttentionMlp
from krogh.tasks.gates import bits_of, gate_profile, gate_table, symmetric_table
from krogh.tasks.sparse_boolean import SparseBoolean
from krogh.theory.constructions.base import Array, Construction, Oracle, construction
from krogh.theory.constructions.memoriser import Memoriser, memoriser
from krogh.theory.constructions.parity import ALL_INPUTS, ParityTable
from krogh.theory.constructions.sparse_heads import HeadName, Mode, SparseHead, settings_of, sparse_head
from krogh.theory.constructions.sparse_table import SparseTable, index_set, labels
from krogh.theory.predictions.inputs import Variant, check_variant

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
    `krogh.theory.constructions.sparse_heads`.
    """
    members = index_set(n, s, support)
    made = sparse_head(head, n, members, gamma, dimension, heads, mode, strength, basis_seed, exact, increasing)
    values = made.target(settings_of(len(members)))
    vector = head in ("det_multi", "train_multi", "bag_vector")
    model = _network(made, "vector" if vector else "scalar")
    # No label has s values: the task of a vector is a placeholder that says what is read.
    task = SparseBoolean(n, support=members, table="xor" if vector else values[:, 0])
    oracle = SparseTable(n, members, values if vector else values[:, 0])
    statement = f"|f_tf-head(X(b)) - g(b)| ≤ γ/4 = {made.gamma / 4:.4g} for every b in {{0,1}}^{n}, {_set(members)}"
    return Construction("sparse/head", task, model, made.params, statement, model.heads, oracle, made.gamma / 4)


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
    made = sparse_head(head, n, members, gamma, dimension, heads, mode, strength, basis_seed, exact)
    table = symmetric_table(profile)
    return _represented("sparse/symmetric", made, profile, table, layers, variant)


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
    made = sparse_head(head, n, members, gamma, dimension, heads, mode, strength, basis_seed, exact)
    return _represented("sparse/general", made, values, values, 3, variant)


@construction("sparse/averaging", source="dissertation, section 4.5")
def averaging(n: int, dimension: int | None = None) -> Construction:
    """The head with Q = K = 0, which averages over the whole context.

    f(X(b)) = Σ_t χ_t / (T+1),  as [CLS] is averaged too, and adds 0
    """
    require_integer("n", n, 1)
    made = sparse_head("det_single", n, tuple(range(n)), dimension=dimension, mode="printed", strength=1.0)
    params = {**made.params, "Q": np.zeros_like(made.params["Q"]), "K": np.zeros_like(made.params["K"])}
    model = _network(made, "scalar")
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
    params = {**head.params, **network.params}
    statement = f"f_tf+mlp(X(b)) = f(b) for every b in {{0,1}}^{head.length}, {_set(head.support)}"
    oracle = SparseTable(head.length, head.support, table)
    tolerance = EXACT * max(1.0, float(np.max(np.abs(table))))
    return Construction(name, task, model, params, statement, model.first_hidden, oracle, tolerance)


def _network(head: SparseHead, readout: str, network: Memoriser | None = None) -> AttentionMlp:
    """The architecture whose weights the head and the memoriser are."""
    count, dimension, attention = head.params["Q"].shape
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
