"""Sequential circuits: gates with latches, which hold a bit from one step to the next; and the same unrolled in time.

A `Sequential` is a circuit G of inputs (x, l) and outputs (y, l'), where l are the latches:

    (y_t, l_{t+1}) = G(x_t, l_t),        t = 0, 1, …, T-1

Unrolled for T steps it is a circuit without latches of the inputs x_0, …, x_{T-1}, called a@0, b@0, a@1, …, and the
outputs y_0, …, y_{T-1}. Latches begin with 0, 1, or, where a file says that they are not initialised, with an input
of their own after all others, called l@0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from krogh.errors import KroghError, require, require_integer
from krogh.programs.budgets import CIRCUIT
from krogh.programs.circuits.circuit import CONSTANTS, FALSE, TRUE, Circuit, counted
from krogh.programs.circuits.layers import without_constants


@dataclass(frozen=True, eq=False)
class Sequential:
    """`step` reads the inputs and then the latches, and returns the outputs and then what the latches hold next.

    `resets` has 0, 1 or None (not initialised) for each latch.
    """

    step: Circuit
    resets: tuple[int | None, ...]

    def __post_init__(self) -> None:
        latches = len(self.resets)
        fits = latches <= min(self.step.inputs, len(self.step.outputs) - 1)
        require(fits, f"{self.step.name!r} needs an output, and an input and an output for each of {latches} latches")
        known = all(reset in (0, 1, None) for reset in self.resets)
        require(known, f"latches begin with 0, 1 or None; got {self.resets}")

    @property
    def inputs(self) -> int:
        """How many bits are read in a step."""
        return self.step.inputs - len(self.resets)

    @property
    def outputs(self) -> int:
        """How many bits are returned in a step."""
        return len(self.step.outputs) - len(self.resets)

    def unrolled(self, steps: int) -> Circuit:
        """The circuit of so many steps."""
        require_integer("steps", steps, 1, CIRCUIT["steps"].most)
        step, m = self.step, self.inputs
        free = [place for place, reset in enumerate(self.resets) if reset is None]
        inputs, name = m * steps + len(free), f"{step.name!r} unrolled for {counted(steps, 'step')}"
        sizes = {"inputs": inputs, "outputs": self.outputs * steps, "gates": step.gates * steps}
        for kind, count in (sizes | {"latches times steps": len(self.resets) * steps}).items():
            CIRCUIT[kind].check(count, name, "take fewer steps")
        held = np.array([{0: FALSE, 1: TRUE, None: 0}[reset] for reset in self.resets], np.int64)
        held[free] = m * steps + np.arange(len(free))
        node = np.empty(step.nodes + CONSTANTS, np.int64)  # what stands for each node of a step
        node[[FALSE, TRUE]] = FALSE, TRUE
        places, parents, outputs = np.array(step.outputs), [], []
        for time in range(steps):
            node[:m] = time * m + np.arange(m)
            node[m : step.inputs] = held
            node[step.inputs : step.nodes] = inputs + time * step.gates + np.arange(step.gates)
            parents.append(node[step.parents])
            outputs += node[places[: self.outputs]].tolist()
            held = node[places[self.outputs :]]
        times = range(steps)
        latches = step.input_names[m:]
        unrolled = Circuit(
            step.name,
            inputs,
            np.tile(step.kinds, steps),
            np.concatenate(parents),
            tuple(outputs),
            (*(f"{x}@{time}" for time in times for x in step.input_names[:m]), *(f"{latches[at]}@0" for at in free)),
            tuple(f"{y}@{time}" for time in times for y in step.output_names[: self.outputs]),
        )
        return without_constants(unrolled).without_dangling() if inputs else unrolled.without_dangling()


def settled(found: Circuit | Sequential, steps: int | None, dangling: str, source: str) -> Circuit:
    """A circuit as it is, a sequential one unrolled; both say so where `steps` is missing or too much."""
    if isinstance(found, Circuit):
        require(steps is None, f"{source}: the circuit has no latches, so that there is one step only; leave out steps")
        return found.settled(dangling)
    if steps is None:
        raise KroghError(
            f"{source}: the circuit is sequential (L={len(found.resets)}, latches hold bits from step to step); say "
            "for how many steps it is unrolled (steps=8, or --steps 8)"
        )
    found.step.settled(dangling)
    return found.unrolled(steps)
