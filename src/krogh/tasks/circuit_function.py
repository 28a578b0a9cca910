"""A circuit as a function to learn: uniform bits, and the truth value of one output as the label.

The truth table is data, packed 32 entries to a word, so that trials on different circuits of as many inputs run as one
program.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt32

from krogh.errors import KroghError, require, require_integer
from krogh.programs.circuits.circuit import Circuit, truth_table
from krogh.programs.circuits.generators import comparator
from krogh.programs.circuits.layers import LayeredCircuit
from krogh.tasks.base import task
from krogh.tasks.boolean import BooleanTask
from krogh.tasks.system import System
from krogh.values import AnyArray, data, structure, traced

MOST_INPUTS = 16
WORD = 32


@task("circuit")
class CircuitFunction(BooleanTask):
    """2·G(b) - 1 for a Boolean function G of n uniform bits b, given to the learner as signs x = 1 - 2b.

    `table` lists the 2^n values of G, 0 or 1, entry Σ_j b_j·2^j at bits b; or the same packed, entry i as bit i mod 32
    of word i div 32. `circuit_function` makes one of a circuit.
    """

    n: int = structure()
    table: UInt32[AnyArray, " words"] = data(np.uint32)

    system = System(
        knobs={"n": "input bits", "table": "the function, of whose circuit width and depth are known"},
        baselines=("guessing_accuracy",),
        theory=(
            "approximation/circuits",
            "approximation/feedforward-vc",
            "approximation/margin-generalisation",
            "approximation/sample-size",
        ),
        phenomena={
            "approximation that can be learned": (
                "approximation/circuit-learning",
                "approximation/circuit-width",
                "approximation/circuit-depth",
            )
        },
    )

    def __init__(self, n: int, table: Any):
        require_integer("n", n, 1, MOST_INPUTS)
        self.n = n
        self.table = table if traced(table) else _packed(table, n)

    def truth(self, x: Float[Array, "size n"], bits: UInt32[AnyArray, "size words"]) -> Float[Array, " size"]:
        index = jnp.asarray(bits)[:, 0] & jnp.uint32(2**self.n - 1)
        word = jnp.take(jnp.asarray(self.table), (index >> 5).astype(jnp.int32), axis=0, mode="clip")
        value = (word >> (index & jnp.uint32(WORD - 1))) & jnp.uint32(1)
        return 2.0 * value.astype(jnp.float32) - 1.0

    @property
    def values(self) -> np.ndarray:
        """The truth table, bool [2^n]."""
        octets = np.ascontiguousarray(self.table, "<u4").view(np.uint8)
        return np.unpackbits(octets, count=2**self.n, bitorder="little").astype(bool)

    def baselines(self) -> dict[str, float]:
        """Accuracy of the likelier label."""
        mean = float(self.values.mean())
        return {"guessing_accuracy": max(mean, 1.0 - mean)}

    @classmethod
    def example(cls) -> "CircuitFunction":
        return circuit_function(comparator(3))


def circuit_function(circuit: Circuit | LayeredCircuit, output: int | str = 0) -> CircuitFunction:
    """The task of learning one output of a circuit of at most 16 inputs, chosen by its place or its name."""
    plain = circuit.circuit() if isinstance(circuit, LayeredCircuit) else circuit
    require(
        1 <= plain.inputs <= MOST_INPUTS,
        f"a circuit is learned from its truth table, so it may have 1 to {MOST_INPUTS} inputs; {plain.name!r} has "
        f"{plain.inputs}",
    )
    if isinstance(output, str):
        known = plain.output_names
        require(output in known, f"{plain.name!r} has the outputs {', '.join(known[:20])}; got output={output!r}")
        output = known.index(output)
    require_integer("output", output, 0, len(plain.outputs) - 1)
    return CircuitFunction(plain.inputs, truth_table(plain)[:, output].astype(np.uint8))


def _packed(table: Any, n: int) -> np.ndarray:
    """A table of 2^n values, or of words, as words."""
    try:
        given = np.asarray(table)
    except ValueError:
        raise KroghError(f"a table lists whole numbers; got {table!r}") from None
    words = -(-(2**n) // WORD)
    whole = given.ndim == 1 and (given.dtype.kind in "iub" or (given.dtype.kind == "f" and not np.any(given % 1)))
    if whole and given.shape == (2**n,):
        require(np.isin(given, (0, 1)).all(), f"a truth table lists 0 and 1; got {sorted(set(given.tolist()))[:5]}")
        octets = np.zeros(4 * words, np.uint8)
        packed = np.packbits(given.astype(bool), bitorder="little")
        octets[: len(packed)] = packed
        return octets.view("<u4").astype(np.uint32)
    fits = whole and given.shape == (words,) and given.min() >= 0 and given.max() < 2 ** min(WORD, 2**n)
    require(
        fits,
        f"a function of n={n} bits is a table of 2^{n} = {2**n} values, or of {words} words that hold these; got the "
        f"shape {list(given.shape)} of {given.dtype.name}",
    )
    return given.astype(np.uint32)
