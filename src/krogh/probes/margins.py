"""Margins over every input of a task (dissertation, sections 7.2 and 7.3).

    margin               h(θ) = min over (x, y) of f(x)[y] - max over y' ≠ y of f(x)[y']
    normalised margin    h(θ)/‖θ‖^ν, which scaling the weights leaves as it is
    efficiency           e_i = E[ψ'(ω_i)]/(γ*‖ω_i‖^ν) ≤ 1, with equality exactly for optimal neurons

ψ' is a neuron's class-weighted margin, its output at the label less its outputs at the wrong labels averaged with
weights τ (section 7.3.2). For a group the wrong label (ab)c has the weight τ_c of its offset c. Inputs are looked at
in slices: memory stays bounded however many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from krogh.errors import require
from krogh.models.base import Model
from krogh.models.two_layer import EXACT, HomogeneousNetwork, network_norm, neuron_norms
from krogh.probes.base import Moment, Probe, probe
from krogh.tasks.base import ClassificationTask, Examples, Task, margins
from krogh.tasks.composition import GroupComposition
from krogh.training.losses import check_powers, cross_entropy, real
from krogh.values import AnyArray, data, plain, structure, traced

SLICE = 1024
LEAST_NORM = 1e-30
KEPT = 0.1
"""The share of the largest norm from which on a neuron of a pair network is looked at."""


def over_population(task: Task, measure: Callable[[Examples, Bool[Array, " width"]], Any], slice_: int = SLICE) -> Any:
    """`measure` of every slice of the population, with a leading axis of slices.

    Its second argument says which rows belong to the slice: the last one is filled up by repeating the first input.
    """
    raw, size = task.population(), task.population_size
    assert size is not None
    if size <= slice_:
        alone = measure(task.decode(raw), jnp.ones(size, bool))
        return jax.tree.map(lambda leaf: leaf[None], alone)
    slices = -(-size // slice_)
    width = -(-size // slices)
    rows = np.arange(slices * width)
    chosen = np.where(rows < size, rows, 0).reshape(slices, width)
    parts = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[chosen]), raw)
    own = jnp.asarray((rows < size).reshape(slices, width))
    return jax.lax.map(lambda part: measure(task.decode(part[0]), part[1]), (parts, own))


@probe("margin")
class Margin(Probe):
    """Margin, margin over ‖θ‖_{a,b}^ν, mean cross-entropy and accuracy on every input; b is ν unless given."""

    a: float = structure(default=2.0, converter=real)
    b: float | None = structure(default=None, converter=real)

    def __check_init__(self) -> None:
        check_powers(self.a, b=self.b)

    def columns(self, task: Task) -> tuple[str, ...]:
        return ("margin", "normalised_margin", "cross_entropy", "accuracy")

    def measure(self, moment: Moment) -> Float[Array, " 4"]:
        task, model, params = moment.task, moment.model, moment.params
        assert isinstance(model, HomogeneousNetwork) and task.population_size is not None

        def of_slice(examples: Examples, own: Bool[Array, " width"]) -> tuple[Array, Array, Array]:
            logits = model.predict(params, examples.x)
            margin = margins(logits, examples.truth)
            losses = jnp.where(own, cross_entropy(logits, examples.truth), 0)
            return jnp.min(jnp.where(own, margin, jnp.inf)), jnp.sum(losses), jnp.sum(own & ~(margin > 0))

        least, losses, wrong = over_population(task, of_slice)
        nu = float(model.homogeneity)
        norm = network_norm(model.neurons(params), self.a, nu if self.b is None else self.b, nu)
        margin, size = jnp.min(least), task.population_size
        accuracy = 1 - jnp.sum(wrong).astype(margin.dtype) / size  # so that none wrong is 1 and not nearly
        return jnp.stack([margin, margin / jnp.maximum(norm, LEAST_NORM), jnp.sum(losses) / size, accuracy])

    def check(self, task: Task, model: Model) -> None:
        check_network("margin", task, model)


@probe("neuron-efficiency")
class NeuronEfficiency(Probe):
    """How near neurons are to optimal ones: the mean of e_i weighted by ‖ω_i‖^ν, and median and least of the kept ones.

    `gamma` is the maximal margin γ*. `weights` are τ by offset from the label [classes], 0 at the identity, which needs
    a group; without them all wrong labels weigh the same (Z_p and parity). Kept are neurons with a norm of at least
    `kept` times the largest: small ones decay slowly and stay without structure.
    """

    gamma: Float[AnyArray, ""] = data()
    weights: Float[AnyArray, " classes"] | None = data(optional=True, default=None)
    kept: Float[AnyArray, ""] = data(default=KEPT)

    def __check_init__(self) -> None:
        if not traced(self.gamma):
            require(float(self.gamma) > 0, f"gamma must be a positive number; got gamma={plain(self.gamma)}")
        check_share(self.kept)

    def columns(self, task: Task) -> tuple[str, ...]:
        return ("efficiency", "efficiency_median", "efficiency_least")

    def measure(self, moment: Moment) -> Float[Array, " 3"]:
        model, params = moment.model, moment.params
        assert isinstance(model, HomogeneousNetwork)
        norms = neuron_norms(model.neurons(params), 2.0, float(model.homogeneity))
        expected = self._expected_margins(moment)
        each = expected / (self.gamma * jnp.maximum(norms, LEAST_NORM))
        kept = kept_neurons(model, params, self.kept)
        mean = jnp.sum(expected) / (self.gamma * jnp.maximum(jnp.sum(norms), LEAST_NORM))
        return jnp.stack([mean, median_of(each, kept), jnp.min(jnp.where(kept, each, jnp.inf))])

    def _expected_margins(self, moment: Moment) -> Float[Array, " neurons"]:
        """E[ψ'(ω_i)] over uniform inputs."""
        task, model, params = moment.task, moment.model, moment.params
        assert isinstance(task, ClassificationTask) and isinstance(model, HomogeneousNetwork)
        weights = self._wrong_labels(task).astype(params["W"].dtype)
        contrast = params["W"] - jnp.matmul(params["W"], weights.T, precision=EXACT)  # [i, y]: w_i[y] - Σ τ w_i[y']

        def of_slice(examples: Examples, own: Bool[Array, " width"]) -> Array:
            outputs = model.hidden(params, examples.x) * jnp.take(contrast, examples.truth, axis=1, mode="clip")
            return jnp.sum(jnp.where(own[None, :], outputs, 0), axis=1)

        size: Any = task.population_size
        return jnp.sum(over_population(task, of_slice), axis=0) / size

    def _wrong_labels(self, task: ClassificationTask) -> Float[Array, "classes classes"]:
        """τ [label, wrong label]."""
        if self.weights is None:
            return (1.0 - jnp.eye(task.classes, dtype=jnp.float32)) / (task.classes - 1)
        assert isinstance(task, GroupComposition)
        return jnp.take(jnp.asarray(self.weights), quotients(task), mode="clip")

    def check(self, task: Task, model: Model) -> None:
        check_network("neuron-efficiency", task, model)
        if self.weights is None:
            return
        assert isinstance(task, ClassificationTask)
        offsets = isinstance(task, GroupComposition)
        require(offsets, f"weights by offset need a group; the task {task.kind!r} has none (leave the weights out)")
        weights = np.asarray(self.weights)
        fits = weights.shape == (task.classes,)
        require(fits, f"weights must be {task.classes} numbers, one per offset; got shape {list(weights.shape)}")
        own, total = weights[task.group().identity], float(weights.sum())  # type: ignore[attr-defined]
        shares = bool(np.all(weights >= 0)) and abs(total - 1) < 1e-3 and own == 0
        got = f"got a sum of {total:.6g} and {own} there"
        require(shares, f"weights must be ≥ 0 with a sum of 1, and 0 at the identity; {got}")

    @classmethod
    def example(cls) -> NeuronEfficiency:
        return cls(gamma=0.03)


def quotients(task: GroupComposition) -> Array:
    """a⁻¹b for all a and b [a, b]: the place of b in row a of the table."""
    return jnp.argsort(jnp.asarray(task.table), axis=1)


def kept_neurons(model: HomogeneousNetwork, params: dict[str, Array], share: Any) -> Bool[Array, " neurons"]:
    """Which neurons have a norm of at least `share` times the largest."""
    norms = neuron_norms(model.neurons(params), 2.0)
    return norms >= share * jnp.max(norms)


def median_of(values: Float[Array, " neurons"], kept: Bool[Array, " neurons"]) -> Float[Array, ""]:
    """The median of the values that are kept (at least one is)."""
    ordered = jnp.sort(jnp.where(kept, values, jnp.inf))
    count = jnp.sum(kept)
    return 0.5 * (ordered[(count - 1) // 2] + ordered[count // 2])


def check_share(kept: Any) -> None:
    inside = traced(kept) or 0 <= float(kept) <= 1
    require(inside, f"kept must be a share of the largest norm in [0, 1]; got kept={plain(kept)}")


def check_network(name: str, task: Task, model: Model) -> None:
    """Refuse a task without classes that can be listed, and a model that is no sum of homogeneous neurons."""
    require(isinstance(task, ClassificationTask), f"{name} needs a task with classes; got the task {task.kind!r}")
    task.population()
    made_of_neurons = isinstance(model, HomogeneousNetwork)
    require(made_of_neurons, f"{name} needs a sum of homogeneous neurons such as 'pair-network'; got {model.kind!r}")
