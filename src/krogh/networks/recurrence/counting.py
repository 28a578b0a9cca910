"""A ReLU Elman network of four units that counts letters exactly, at every position.

*Can SGD learn recurrent neural networks with provable generalization?*, Example 3.6: #a - #b among the letters before a
label is a sum over tokens (`krogh.networks.recurrence.good_shift.counting_sums`, with w* = (1, -1, 0)/√2 and
φ(z) = z/√(3/8)). The source learns it; here it is written down in the same architecture. With x_l = (ε_x x*_l, 0) and
a ↦ (√3/2, 0, 1/2), b ↦ (0, √3/2, 1/2),

    u_l = relu(2/(√3 ε_x) x_l[1]),    n_l = relu(n_{l-1} + u_{l-1})         for the letter a, and alike for b

so that n counts what was read *before* position l, as the label at l may use tokens 2..l-1 only: one step of delay. The
output is (n^a_l - n^b_l)/scale.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from krogh.models.elman import ElmanRnn
from krogh.networks.handmade import Construction, Oracle, construction
from krogh.tasks.bit_strings import all_strings
from krogh.tasks.letters import LetterCount
from krogh.tasks.token_sequences import BIAS, REST

Array = NDArray[np.float64]
MOST_LISTED = 12
"""Letters up to which all strings are tried."""
RANDOM = 2000
"""Random strings beyond."""


@dataclass(frozen=True)
class Counter(Oracle):
    """Letters counted one by one, in strings of Python."""

    letters: int
    scale: float
    eps_x: float

    @property
    def exhaustive(self) -> bool:
        return self.letters <= MOST_LISTED

    def cases(self, seed: int) -> Iterator[tuple[Array, Array]]:
        """Inputs [strings, L, 4] in float64, and the counts before positions 3..L over the scale."""
        if self.exhaustive:
            bits = all_strings(self.letters).astype(np.int64)
        else:
            bits = np.random.default_rng(seed).integers(0, 2, (RANDOM, self.letters))
        strings = ["".join("ba"[bit] for bit in row) for row in bits.tolist()]
        code = {"a": (REST, 0.0, BIAS), "b": (0.0, REST, BIAS)}
        x = np.zeros((len(strings), self.letters + 2, 4))
        x[:, 0, 3], x[:, -1, 3] = 1.0, self.eps_x
        x[:, 1:-1, :3] = self.eps_x * np.array([[code[letter] for letter in string] for string in strings])
        counts = [
            [string[:end].count("a") - string[:end].count("b") for end in range(1, self.letters + 1)]
            for string in strings
        ]
        yield x, np.array(counts) / self.scale


@construction("recurrence/counting", source="Can SGD learn RNNs with provable generalization?, Example 3.6")
def counting(length: int, scale: float = 1.0, eps_x: float = 1.0) -> Construction:
    """#a - #b before every position of all strings, by four units of a ReLU Elman network."""
    task = LetterCount(length=length, scale=scale, eps_x=eps_x)
    W, A = np.zeros((4, 4)), np.zeros((4, 4))
    for letter in range(2):
        A[letter, letter] = 1 / (REST * eps_x)
        W[2 + letter, [letter, 2 + letter]] = 1.0
    weights = {"W": W, "A": A, "B": np.array([0.0, 0.0, 1.0, -1.0]) / scale}
    statement = f"y_j = (#a - #b)/{scale:g} before j = 3..{length}, for every string of {length - 2} letters"
    model = ElmanRnn(width=4, reads=length - 2)
    return Construction("recurrence/counting", task, model, weights, statement, 4, Counter(length - 2, scale, eps_x))
