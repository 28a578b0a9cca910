"""Sparse Boolean functions f(b) = table(b_I) of biased bits (dissertation, §4.5, §4.6, §A.2, §A.3).

    sparse_and   balanced conjunctions, the main task of chapter 4
    sparse_or    the same with the two tokens exchanged
    sparse_xor   sparse parities of fair bits (label +1 for an odd number of ones, so -chi_I)
    gate         any named gate, at the bias that balances it

The source's T is `n`, its index set I is `support`.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from krogh.errors import KroghError, require, require_integer
from krogh.tasks import bits as signs
from krogh.tasks.base import Examples, task
from krogh.tasks.bits import DIGITS, biased
from krogh.tasks.boolean import BooleanTask, listed_cube, support_indices
from krogh.tasks.consistency import LARGEST_SET, identifies
from krogh.tasks.gates import (
    GATES,
    MOST_BITS,
    as_labels,
    balancing_bias,
    bits_of,
    gate_table,
    is_symmetric,
    probabilities,
    relevant_bits,
)
from krogh.tasks.system import System
from krogh.values import AnyArray, data, structure, traced

MOST_REDRAWS = 10_000
CHUNK = 1 << 14
CONJUNCTIONS = {"and": (False, False), "nand": (False, True), "or": (True, True), "nor": (True, False)}
"""How a gate becomes a conjunction: whether its bits are exchanged, and whether its labels are."""


class Bits(NamedTuple):
    """Raw examples: packed inputs, and which belong to a data set that could not be drawn (None: to none)."""

    bits: UInt32[AnyArray, "size words"]
    spoiled: Bool[AnyArray, " size"] | None


@task("sparse-boolean")
class SparseBoolean(BooleanTask):
    """table(b_{support[0]}, …, b_{support[s-1]}) of n independent bits with P[b = 1] = bias; x = 1 - 2b.

    `table` lists 2^s values, entry Σ_j b_{support[j]}·2^j, or names a gate. Values in {0,1} or {±1} become labels ±1
    (1 is true, +1); any other values make a regression. With `unique`, a finite sample that another index set of size s
    also fits is redrawn (§A.3.1): for and, or, nand, nor of at most three bits.
    """

    n: int = structure()
    s: int = structure()
    support: Int[AnyArray, " s"] = data(np.int32)
    table: Float[AnyArray, " table"] = data()
    bias: Float[AnyArray, ""] = data()
    unique: bool = structure()
    real: bool = structure(internal=True)
    fair: bool = structure(internal=True)
    conjunction: str = structure(internal=True)

    system = System(
        knobs={
            "n": "the length T of the context, of which sample complexity asks for a logarithm",
            "s": "relevant bits",
            "support": "which bits are relevant",
            "table": "the function of them: a gate, any Boolean function, or real values",
            "bias": "how often a bit is 1; balances the labels",
            "unique": "whether a sample that leaves the support open is redrawn",
        },
        baselines=("guessing_accuracy", "samples"),
        theory=(
            "attention/depth-capacity",
            "attention/generalisation",
            "attention/head-capacity",
            "attention/influence",
            "attention/information-floor",
            "attention/multi-head-capacity",
            "attention/norms",
            "attention/pseudo-dimension",
            "attention/sample-size",
            "attention/sparse-rademacher",
            "attention/statistical-queries",
        ),
        phenomena={
            "attention creates sparse variables": (
                "attention/weights",
                "attention/constructions",
                "attention/influence",
                "attention/coherence",
                "attention/shattering",
            ),
            "samples that grow with the logarithm of the context": (
                "attention/sample-complexity",
                "attention/statistical-floor",
                "attention/capacity",
                "attention/validation-curves",
                "attention/fixed-positions",
            ),
            "a plateau, then a sudden drop": ("attention/parity",),
        },
    )

    def __init__(
        self,
        n: int,
        s: int | None = None,
        support: Any = None,
        table: Any = None,
        bias: Any = 0.5,
        unique: bool = False,
        real: bool = False,
        fair: bool = False,
        conjunction: str = "",
    ):
        # The last three follow from table and bias; they are read only where those are traced.
        require_integer("n", n, 1)
        self.n, self.s = n, _sparsity(n, s, support, table)
        require(isinstance(unique, bool), f"unique must be True or False; got unique={unique!r}")
        self.unique = unique
        self.table, self.real = _checked_table(table, self.s, real)
        self.bias, self.fair = _checked_bias(bias, fair)
        self.conjunction = _conjunction(self.table, self.s, conjunction) if unique else ""
        self.support = _checked_support(np.arange(self.s) if support is None else support, n, self.s, self.table)

    @property
    def regression(self) -> bool:
        return self.real

    def draw(self, key: PRNGKeyArray, size: int) -> Bits:  # type: ignore[override]
        bits = jax.random.bits(key, (size, signs.words(self.n)), jnp.uint32)
        return Bits(bits if self.fair else biased(key, bits, self.bias), None)

    def dataset(self, key: PRNGKeyArray, size: int, m: Int[AnyArray, ""] | int) -> Bits:
        """A draw; with `unique` the first attempt, of at most 10,000, whose first m examples one index set alone fits.

        Attempt a is the draw of fold_in(key, a). Where all fail the labels are NaN, and the trial ends as diverged.
        """
        if not self.unique:
            return self.draw(key, size)

        def failed(state: tuple[Array, Array]) -> Array:
            return ~state[1] & (state[0] < MOST_REDRAWS)

        def attempt(state: tuple[Array, Array]) -> tuple[Array, Array]:
            raw = self.draw(jax.random.fold_in(key, state[0]), size)
            return state[0] + 1, self.identified(raw, m)

        attempts, found = jax.lax.while_loop(failed, attempt, (jnp.int32(0), jnp.array(False)))
        raw = self.draw(jax.random.fold_in(key, attempts - 1), size)
        return Bits(raw.bits, jnp.broadcast_to(~found, (size,)))

    def identified(self, raw: Bits, m: Int[AnyArray, ""] | int) -> Bool[Array, ""]:
        """Whether exactly one index set of size s fits the first m examples."""
        require(self.unique, "only a task with unique=True counts the index sets that fit (see consistent_sets)")
        exchanged, negated = CONJUNCTIONS[self.conjunction]
        bits = jnp.asarray(raw.bits)
        positive = self.truth(signs.unpack(bits, self.n), bits) > 0
        return identifies(~bits if exchanged else bits, positive != negated, m, self.n, self.s)

    def check_sample(self, m: Any) -> None:
        """Refuse a sample size at which redrawing until the index set is unique is hopeless: C(n,s)/2^m > 10,000."""
        require_integer("m", m, 1)
        sets = math.comb(self.n, self.s)
        if self.unique and sets > MOST_REDRAWS * 2 ** int(m):
            enough = (-(-sets // MOST_REDRAWS) - 1).bit_length()
            raise KroghError(
                f"m={m} examples cannot single out one of C({self.n},{self.s}) = {sets} index sets within "
                f"{MOST_REDRAWS} redraws (try m={enough} or more, or unique=False)"
            )

    def decode(self, raw: Bits) -> Examples:  # type: ignore[override]
        bits = jnp.asarray(raw.bits)
        x = signs.unpack(bits, self.n)
        truth = observed = self.truth(x, bits)
        if raw.spoiled is not None:
            observed = jnp.where(raw.spoiled, jnp.float32(jnp.nan), truth)
        return Examples(x, observed, truth)

    def truth(self, x: Float[Array, "size n"], bits: UInt32[AnyArray, "size words"]) -> Float[Array, " size"]:
        support = jnp.asarray(self.support)
        relevant = jnp.take(bits, support // signs.WORD, axis=1, mode="clip")
        single = (relevant >> (support % signs.WORD).astype(jnp.uint32)[None, :]) & jnp.uint32(1)
        place = jnp.arange(self.s, dtype=jnp.uint32)[None, :]
        index = jnp.sum(single << place, axis=1, dtype=jnp.uint32)
        return jnp.take(jnp.asarray(self.table), index, axis=0, mode="clip")

    def error(self, prediction: Float[Array, " size"], truth: Float[Array, " size"]) -> Float[Array, " size"]:
        return (prediction - truth) ** 2 if self.real else super().error(prediction, truth)

    @property
    def population_size(self) -> int | None:
        """2^n where all inputs are equally likely; a biased task has `exact_error` instead."""
        return super().population_size if self.fair else None

    def population(self) -> Bits:  # type: ignore[override]
        require(
            self.fair, f"only inputs of bias=1/2 are equally likely; got bias={self.bias} (exact_error weighs them)"
        )
        return Bits(super().population().bits, None)

    def limits(self) -> dict[str, float]:
        """Samples log2 C(n,r)/log2 v to tell the sets of the r relevant bits apart by labels of v values (§4.6).

        Statistical queries C(n,s), where the function is a parity of fair bits.
        """
        table = np.asarray(self.table)
        relevant, values = int(relevant_bits(table).sum()), len(np.unique(table))
        sets = math.comb(self.n, relevant)
        samples = math.log2(sets) / math.log2(values) if values > 1 else 0.0
        odd = 2 * gate_table("xor", self.s) - 1
        parity = self.fair and (np.array_equal(table, odd) or np.array_equal(table, -odd))
        return {"samples": samples, **({"statistical_queries": float(sets)} if parity else {})}

    def baselines(self) -> dict[str, float]:
        """Accuracy of the likelier label; of a regression, the risks of predicting 0 and the best constant."""
        table = np.asarray(self.table, np.float64)
        probability = probabilities(self.s, float(self.bias))
        mean = float(probability @ table)
        if not self.real:
            return {"guessing_accuracy": (1 + abs(mean)) / 2}
        square = float(probability @ table**2)
        return {"null_risk": square, "constant_risk": max(0.0, square - mean**2)}

    @classmethod
    def example(cls) -> "SparseBoolean":
        """A multiplexer: bit 2 chooses between bits 5 and 7."""
        return cls(n=8, support=(2, 5, 7), table=(0, 0, 1, 0, 0, 1, 1, 1))


def exact_error(task: SparseBoolean, predict: Callable[[Float[Array, "size n"]], Float[Array, " size"]]) -> float:
    """E of the task's error over all of {0,1}^n, each input weighed by its probability under the bias (n ≤ 20)."""
    rows, weights = listed_cube(task.n), probabilities(task.n, float(task.bias))
    total = 0.0
    for start in range(0, len(rows), CHUNK):
        chosen = slice(start, start + CHUNK)
        examples = task.decode(Bits(rows[chosen], None))
        errors = task.error(predict(examples.x), examples.truth)
        total += float(weights[chosen] @ np.asarray(errors, np.float64))
    return total


def gate(name: str, n: int, s: int, support: Any = None, bias: Any = None, unique: bool = False) -> SparseBoolean:
    """A named gate of s of n bits, at the bias that makes its labels balanced unless one is given."""
    require_integer("n", n, 1)
    _check_sparsity(n, s)
    bias = balancing_bias(name, s) if bias is None else bias
    return SparseBoolean(n, s, support, gate_table(name, s), bias, unique)


def sparse_and(n: int, s: int, support: Any = None, unique: bool = False) -> SparseBoolean:
    """The conjunction of s of n bits with P[b = 1] = 2^{-1/s}, so that half of the labels are +1 (§4.6)."""
    return gate("and", n, s, support, unique=unique)


def sparse_or(n: int, s: int, support: Any = None, unique: bool = False) -> SparseBoolean:
    """The disjunction with P[b = 1] = 1 - 2^{-1/s}: a conjunction with the two tokens exchanged (§A.3.1)."""
    return gate("or", n, s, support, unique=unique)


def sparse_xor(n: int, s: int, support: Any = None) -> SparseBoolean:
    """The parity of s of n fair bits (§4.6, Figure 4.4)."""
    return gate("xor", n, s, support)


def _check_sparsity(n: int, s: Any) -> None:
    require_integer("s", s, 1)
    require(s <= n, f"s must be at most n={n}; got s={s} (try s={n})")
    require(s <= MOST_BITS, f"a table of s bits has 2^s values, so s must be at most {MOST_BITS}; got s={s}")


def _sparsity(n: int, s: Any, support: Any, table: Any) -> int:
    if s is None and support is not None:
        s = np.size(support)
    if s is None and table is not None and not isinstance(table, str):
        s = bits_of(np.ravel(table))
    require(s is not None, "a sparse Boolean function needs s, a support or a table; got none")
    _check_sparsity(n, s)
    return int(s)


def _checked_table(table: Any, s: int, real: bool) -> tuple[Any, bool]:
    if traced(table):
        return table, real
    require(table is not None, f"a table of {2**s} values is needed, or the name of a gate ({', '.join(GATES)})")
    if isinstance(table, str):
        table = gate_table(table, s)
    values, real = as_labels(table)
    require(values.shape == (2**s,), f"the table of s={s} bits lists 2^{s} = {2**s} values; got {values.size}")
    return values.astype(np.float32), real


def _checked_bias(bias: Any, fair: bool) -> tuple[Any, bool]:
    if traced(bias):
        return bias, fair
    number = np.asarray(bias)
    scalar = number.shape == () and number.dtype.kind in "iuf"
    inside = scalar and 0 < np.rint(float(number) * 2**DIGITS) < 2**DIGITS
    require(inside, f"bias must be a probability in (0, 1), at least 2^-{DIGITS} from both; got bias={bias}")
    return bias, bool(np.float32(number) == 0.5)


def _conjunction(table: Any, s: int, known: str) -> str:
    """Which gate of `CONJUNCTIONS` the table is."""
    if traced(table):
        return known
    require(s <= LARGEST_SET, f"unique=True counts index sets of at most {LARGEST_SET} bits; got s={s}")
    names = [name for name in CONJUNCTIONS if np.array_equal(table, 2 * gate_table(name, s) - 1)]
    allowed = ", ".join(CONJUNCTIONS)
    require(names, f"unique=True is for {allowed}; got the table {np.asarray(table).tolist()} (see consistent_sets)")
    return names[0]


def _checked_support(support: Any, n: int, s: int, table: Any) -> Any:
    """The support as given; sorted where the order of the bits makes no difference."""
    if traced(support):
        return support
    indices = support_indices(support, n, s=s)
    symmetric = not traced(table) and is_symmetric(np.asarray(table))
    return np.asarray(sorted(indices) if symmetric else indices, np.int32)
