"""Where a trial's weights come from: drawn, given, or another trial's (pruned, rewound, re-drawn).

    Drawn()                                                the model's own law, by the trial's seed
    Given(weights)                                         these numbers
    Inherited(parent)                                      what the parent ended with
    Inherited(parent, step=100)                            its snapshot at step 100; 0 is its beginning
    Inherited(parent, pruning=Pruning(0.05, ("W",)))       its largest weights; the others are 0 and stay so
    Inherited(parent, pruning=..., weights="rewound")      ... from the values that those had before training
    Inherited(parent, pruning=..., weights="redrawn")      ... from fresh values
    Inherited(parent, arrays=("W", "b"))                   these arrays of it; the others are the child's own draws

Weights and masks are data: trials that differ in them are one cohort. An inherited start is part of a trial's identity
as the parent and the recipe; what weights that gives is looked up before the trial is trained (`engine/inheriting.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, UInt8

from krogh.engine.shapes import Shapes, checked_shapes
from krogh.errors import KroghError, require, unknown
from krogh.models.base import Parameters
from krogh.values import AnyArray, Value, data, plain, structure, traced

if TYPE_CHECKING:
    from krogh.engine.trial import Trial

Named = dict[str, np.ndarray]

FINAL = -1
"""The step of a parent's end, whenever that was."""
KEPT, REWOUND, REDRAWN = "kept", "rewound", "redrawn"


class Start(Value):
    """Where a trial's weights come from."""

    def begin(self, drawn: Parameters) -> Parameters:
        """The weights before training, of a trial that would draw `drawn`."""
        return drawn

    def masks(self) -> Parameters:
        """By name, 0 for the entries that are 0 and stay so; arrays without any are left out."""
        return {}

    def check(self, shapes: Shapes) -> None:
        """Refuse a model whose parameters have other names or shapes."""


class Drawn(Start):
    """The model's own initial weights, by the trial's seed."""

    kind = "drawn"


def _as_masks(given: Any) -> Any:
    """Masks as bytes of 0 and 1, whatever they were given as."""
    if any(map(traced, jax.tree.leaves(given))):
        return given
    arrays = {name: np.asarray(given[name]) for name in sorted(given)}
    for name, array in arrays.items():
        require(np.isin(array, (0, 1)).all(), f"a mask holds 0 and 1; got {name!r} with other numbers")
    return {name: array.astype(np.uint8) for name, array in arrays.items()}


class Given(Start):
    """These weights; arrays that are not named are drawn. Entries whose `mask` is 0 are 0 and stay so in training."""

    weights: dict[str, Float[AnyArray, "..."]] = data(internal=True)
    mask: dict[str, UInt8[AnyArray, "..."]] = eqx.field(
        converter=_as_masks, metadata={"internal": True}, default_factory=dict
    )

    kind = "given"

    def begin(self, drawn: Parameters) -> Parameters:
        return masked(drawn | {name: jnp.asarray(leaf) for name, leaf in self.weights.items()}, self.mask)

    def masks(self) -> Parameters:
        return self.mask

    def check(self, shapes: Shapes) -> None:
        for word, arrays in (("weights", self.weights), ("mask", self.mask)):
            for name, leaf in arrays.items():
                if name not in shapes:
                    raise unknown(f"parameter in the given {word}", name, shapes)
                fits = np.shape(leaf) == shapes[name].shape
                require(fits, f"the given {word} of {name!r} must be {shapes[name].shape}; got {np.shape(leaf)}")
        for name, leaf in self.weights.items():
            finite = traced(leaf) or bool(np.isfinite(leaf).all())
            require(finite, f"given weights must be finite numbers; got {name!r} with others")


class Pruning(Value):
    """Keep the largest `share` of the weights in `arrays` (all arrays unless given), ranked together by magnitude.

    With `neurons` whole rows are kept, those of largest Euclidean norm in the first of the arrays, and the same rows in
    the others: a neuron with its incoming weights, its bias, its outgoing weights (dissertation, §C.3.2).
    """

    share: Float[AnyArray, ""] = data()
    arrays: tuple[str, ...] = structure(default=(), converter=tuple)
    neurons: bool = structure(default=False)

    def __check_init__(self) -> None:
        inside = traced(self.share) or bool(np.all((np.asarray(self.share) > 0) & (np.asarray(self.share) <= 1)))
        require(inside, f"the share that pruning keeps must be in (0, 1]; got share={plain(self.share)}")
        named = self.arrays or not self.neurons
        require(named, "to prune neurons name the arrays whose rows they are, incoming weights first: ('W', 'b', 'u')")

    def masks(self, weights: Named) -> Named:
        """By name, 1 for what is kept; of equal ones the first are."""
        names = self.names(weights)
        if self.neurons:
            rows = weights[names[0]].reshape(len(weights[names[0]]), -1).astype(np.float64)
            kept = _largest((rows * rows).sum(axis=1), float(self.share))
            return {name: np.broadcast_to(_column(kept, weights[name].ndim), weights[name].shape) for name in names}
        kept = _largest(np.concatenate([np.abs(weights[name]).ravel() for name in names]), float(self.share))
        parts = np.split(kept, np.cumsum([weights[name].size for name in names])[:-1])
        return {name: part.reshape(weights[name].shape) for name, part in zip(names, parts, strict=True)}

    def names(self, arrays: Any) -> tuple[str, ...]:
        """The arrays that are pruned, of a network with these."""
        return self.arrays or tuple(sorted(arrays))

    def check(self, shapes: Shapes) -> None:
        for name in self.arrays:
            if name not in shapes:
                raise unknown("array to prune", name, shapes)
        if self.neurons:
            rows = {name: shapes[name].shape[:1] for name in self.arrays}
            same = len(set(rows.values())) == 1 and () not in rows.values()
            require(same, f"neurons are rows of arrays with equally many of them; got {rows}")


class Inherited(Start):
    """Another trial's weights at `step` (one of its snapshots, 0, or FINAL), perhaps pruned by their magnitude there.

    With weights="rewound" the kept entries begin with the parent's initial values, with "redrawn" with values that the
    child draws itself. What was pruned is 0 and stays so. With `arrays` only these are inherited, and parent and child
    need not have any others in common: a deeper network may begin with the first layers of a shallower one.
    """

    parent: Trial = eqx.field(metadata={"internal": True})
    step: Int[AnyArray, ""] = data(np.int32, default=FINAL)
    pruning: Pruning | None = None
    weights: str = structure(default=KEPT)
    arrays: tuple[str, ...] = structure(default=(), converter=tuple)

    kind = "inherited"

    def __check_init__(self) -> None:
        require(getattr(self.parent, "kind", "") == "trial", f"the parent must be a trial; got {self.parent!r}")
        if self.weights not in (KEPT, REWOUND, REDRAWN):
            raise unknown("choice of inherited weights", self.weights, (KEPT, REWOUND, REDRAWN))
        taken = self.weights != REDRAWN or self.pruning is not None
        require(taken, "weights drawn anew without pruning are nothing inherited: give pruning=..., or start=Drawn()")
        at_hand = {FINAL, 0, *self.parent.snapshots}
        require(
            int(self.step) in at_hand,
            f"the parent keeps its weights at its snapshots {self.parent.snapshots}; got step={int(self.step)} "
            f"(0 is its beginning, {FINAL} its end)",
        )
        runs = self.parent.training.stopping.restarts
        rewinds = self.weights == REWOUND or int(self.step) == 0
        require(not rewinds or runs == 1, f"a parent of several runs has several beginnings; got restarts={runs}")

    def begin(self, drawn: Parameters) -> Parameters:
        raise KroghError("the weights of an inherited start are known when its parent has been trained: use krogh.run")

    def check(self, shapes: Shapes) -> None:
        theirs = {name: leaf.shape for name, leaf in checked_shapes(self.parent).items()}
        ours = {name: leaf.shape for name, leaf in shapes.items()}
        for name in self.arrays:
            for whose in (theirs, ours):
                if name not in whose:
                    raise unknown("array to inherit", name, whose)
        if self.arrays:
            theirs, ours = ({name: whose[name] for name in self.arrays} for whose in (theirs, ours))
        require(theirs == ours, f"a trial's arrays must be those of its parent {theirs}; got {ours}")
        if self.pruning is not None:
            self.pruning.check(shapes)
            inherited = {*self.pruning.names(shapes)} <= {*ours}
            require(inherited, f"what is pruned must be inherited: {sorted(ours)}; got {self.pruning.names(shapes)}")

    def blank(self, shapes: Shapes) -> Given:
        """A start of the structure that this one has when its weights are known."""
        masked = () if self.pruning is None else self.pruning.names(shapes)
        weights = () if self.weights == REDRAWN else self.arrays or tuple(shapes)
        return Given(
            {name: np.zeros(shapes[name].shape, np.float32) for name in weights},
            {name: np.zeros(shapes[name].shape, np.uint8) for name in masked},
        )


def masked(params: Parameters, masks: Parameters) -> Parameters:
    """`params` with 0 in place of the entries whose mask is 0."""
    return {
        name: jnp.where(masks[name] > 0, leaf, jnp.zeros_like(leaf)) if name in masks else leaf
        for name, leaf in params.items()
    }


def _largest(sizes: np.ndarray, share: float) -> np.ndarray:
    """1 for the largest `share` of sizes, at least one."""
    kept = np.zeros(len(sizes), np.uint8)
    kept[np.argsort(-sizes, kind="stable")[: max(1, round(share * len(sizes)))]] = 1
    return kept


def _column(kept: np.ndarray, axes: int) -> np.ndarray:
    return kept.reshape(-1, *(1,) * (axes - 1))
