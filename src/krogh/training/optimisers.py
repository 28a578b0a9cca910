"""Optimisers and schedules whose numbers are arrays: any number of rates and decays share one program.

The step number comes from the trial, not from a counter of the optimiser's own: a counter carried through the steps
costs a quarter of the speed of a small network on a CPU. The tests hold both optimisers against Optax. A schedule is a
factor on the base rate as a function of the step.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from krogh.errors import require, unknown
from krogh.models.base import Parameters
from krogh.values import AnyArray, Value, data, plain, structure


class Schedule(Value):
    """A factor on the base rate as a function of the step."""

    @abc.abstractmethod
    def factor(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """The factor at step t = 0, 1, ..."""


class Constant(Schedule):
    """1 at every step: what the source uses everywhere."""

    def factor(self, step: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.ones((), jnp.float32)


class Piecewise(Schedule):
    """`factors[i]` between `boundaries[i-1]` and `boundaries[i]`; one more factor than boundaries."""

    boundaries: Int[AnyArray, " pieces"] = data(np.int32)
    factors: Float[AnyArray, " pieces+1"] = data()

    def __check_init__(self) -> None:
        pieces, factors = np.shape(self.boundaries), np.shape(self.factors)
        fits = len(pieces) == 1 and factors == (pieces[0] + 1,)
        require(fits, f"factors must be one more than boundaries; got shapes {factors} and {pieces}")
        rising = bool(np.all(np.diff(np.asarray(self.boundaries)) > 0))
        require(rising, f"boundaries must increase; got {np.asarray(self.boundaries).tolist()}")

    def factor(self, step: Int[Array, ""]) -> Float[Array, ""]:
        return jnp.asarray(self.factors)[jnp.sum(step >= self.boundaries)]


def doublings(steps: Iterable[int]) -> Piecewise:
    """The rate doubled when each of these steps is reached: a factor 2^(number of them passed) (dissertation, D.2).

    It makes up for gradients that vanish like e^{-margin}.
    """
    boundaries = np.asarray([*steps], np.int64)
    return Piecewise(boundaries, 2.0 ** np.arange(len(boundaries) + 1))


class Cosine(Schedule):
    """Linear rise over `warmup` steps, then half a cosine down to 0 at `horizon`."""

    horizon: Float[AnyArray, ""] = data()
    warmup: Float[AnyArray, ""] = data(default=0.0)

    def __check_init__(self) -> None:
        ordered = 0 <= float(self.warmup) < float(self.horizon)
        warmup, horizon = plain(self.warmup), plain(self.horizon)
        require(ordered, f"need 0 ≤ warmup < horizon; got warmup={warmup}, horizon={horizon}")

    def factor(self, step: Int[Array, ""]) -> Float[Array, ""]:
        t = step.astype(jnp.float32)
        rise = jnp.minimum((t + 1.0) / jnp.maximum(self.warmup, 1.0), 1.0)
        progress = jnp.clip((t - self.warmup) / (self.horizon - self.warmup), 0.0, 1.0)
        return jnp.where(t < self.warmup, rise, 0.5 * (1.0 + jnp.cos(jnp.pi * progress)))


class Inverse(Schedule):
    """1/(t+1). With a strongly convex objective of penalty λ‖θ‖²/2, rate 1/λ and decay 1: θ ← (1 - 1/t)θ - ∇/(λt)."""

    def factor(self, step: Int[Array, ""]) -> Float[Array, ""]:
        return 1.0 / (step.astype(jnp.float32) + 1.0)


class Optimiser(Value):
    """How gradients move parameters."""

    @abc.abstractmethod
    def init(self, params: Parameters) -> PyTree:
        """What the optimiser remembers, before the first step."""

    @abc.abstractmethod
    def update(
        self, gradient: Parameters, memory: PyTree, params: Parameters, step: Int[Array, ""]
    ) -> tuple[Parameters, PyTree]:
        """Parameters and memory after step number `step` = 0, 1, ..."""

    def check(self, names: set[str]) -> None:
        """Refuse layer names that the model does not have."""


class Sgd(Optimiser):
    """θ ← (1 - λ_t)θ - η_t ∇, the source's convention (5.1): the decay λ is not multiplied by the rate.

    `layer_rate` and `layer_decay` replace η and λ for the parameters they name. A library's coupled decay
    λ' (shrink ηλ' per step) is `decay=rate*λ'` here.
    """

    rate: Float[AnyArray, ""] = data()
    decay: Float[AnyArray, ""] = data(default=0.0)
    layer_rate: dict[str, Float[AnyArray, ""]] = data(default_factory=dict)
    layer_decay: dict[str, Float[AnyArray, ""]] = data(default_factory=dict)
    schedule: Schedule = Constant()
    decay_schedule: Schedule = Constant()

    def __check_init__(self) -> None:
        for name in ("rate", "decay"):
            _check_not_negative(name, getattr(self, name))
        for name, group in (("layer_rate", self.layer_rate), ("layer_decay", self.layer_decay)):
            for layer, number in group.items():
                _check_not_negative(f"{name}[{layer!r}]", number)

    def init(self, params: Parameters) -> PyTree:
        return ()

    def update(
        self, gradient: Parameters, memory: PyTree, params: Parameters, step: Int[Array, ""]
    ) -> tuple[Parameters, PyTree]:
        rate, decay = self.schedule.factor(step), self.decay_schedule.factor(step)
        moved = {
            name: (1.0 - decay * self.decay_of(name)) * params[name] - rate * self.rate_of(name) * gradient[name]
            for name in params
        }
        return moved, memory

    def rate_of(self, name: str) -> Any:
        """The rate of the parameters called `name`."""
        return self.layer_rate.get(name, self.rate)

    def decay_of(self, name: str) -> Any:
        """The decay of the parameters called `name`."""
        return self.layer_decay.get(name, self.decay)

    def check(self, names: set[str]) -> None:
        for layer in (*self.layer_rate, *self.layer_decay):
            if layer not in names:
                raise unknown("layer", layer, names)


class Momentum(Optimiser):
    """Heavy-ball SGD: v ← βv + ∇, θ ← θ - η_t v, without weight decay (Optax's and PyTorch's convention)."""

    rate: Float[AnyArray, ""] = data()
    beta: Float[AnyArray, ""] = data(default=0.9)
    schedule: Schedule = Constant()

    def __check_init__(self) -> None:
        _check_not_negative("rate", self.rate)
        inside = bool(np.all((np.asarray(self.beta) >= 0) & (np.asarray(self.beta) < 1)))
        require(inside, f"beta must be in [0, 1); got beta={plain(self.beta)}")

    def init(self, params: Parameters) -> PyTree:
        return jax.tree.map(jnp.zeros_like, params)

    def update(
        self, gradient: Parameters, memory: PyTree, params: Parameters, step: Int[Array, ""]
    ) -> tuple[Parameters, PyTree]:
        velocity = jax.tree.map(lambda v, g: self.beta * v + g, memory, gradient)
        rate = self.rate * self.schedule.factor(step)
        return {name: params[name] - rate * velocity[name] for name in params}, velocity


class BlockSgd(Optimiser):
    """SGD on a product of blocks with the adaptive rates of Theorem 5.8 (dissertation, §B.2.4).

        w_i ← w_i - η_i ∇_i,    η_i = scale / ∏_{l≠i} ‖w_l‖_1

    Blocks are the rows of `layer`, the only parameter: w [k, n/k] of a disjoint-PolyNet. The rate makes every gradient
    of the correlation loss, ∏_{l≠i} ⟨w_l, x_l⟩ times an input, a step of at most `scale` (`sgd_rate_scale` in
    theory/boolean/disjoint_flow) in every coordinate.
    """

    scale: Float[AnyArray, ""] = data()
    layer: str = structure(default="w")

    def __check_init__(self) -> None:
        _check_not_negative("scale", self.scale)

    def init(self, params: Parameters) -> PyTree:
        return ()

    def update(
        self, gradient: Parameters, memory: PyTree, params: Parameters, step: Int[Array, ""]
    ) -> tuple[Parameters, PyTree]:
        weights = params[self.layer]
        sizes = jnp.sum(jnp.abs(weights), axis=1)
        # The product over all others, without dividing by a block that may be 0.
        others = jnp.where(jnp.eye(len(sizes), dtype=bool), 1.0, jnp.broadcast_to(sizes, (len(sizes), len(sizes))))
        rate = self.scale / jnp.prod(others, axis=1)
        return {self.layer: weights - rate[:, None] * gradient[self.layer]}, memory

    def check(self, names: set[str]) -> None:
        alone = names == {self.layer}
        require(alone, f"adaptive block rates move the one parameter {self.layer!r}; got {sorted(names)}")


class Adam(Optimiser):
    """Adam with decoupled weight decay (AdamW where decay > 0), in Optax's convention: shrink ηλ per step.

    `decayed` names the parameters that decay (all unless given). `clip` scales a gradient of norm above it down to it,
    the norm taken over all parameters together.
    """

    rate: Float[AnyArray, ""] = data()
    decay: Float[AnyArray, ""] = data(default=0.0)
    b1: Float[AnyArray, ""] = data(default=0.9)
    b2: Float[AnyArray, ""] = data(default=0.999)
    epsilon: Float[AnyArray, ""] = data(default=1e-8)
    clip: Float[AnyArray, ""] | None = data(optional=True, default=None)
    decayed: tuple[str, ...] | None = structure(default=None)
    schedule: Schedule = Constant()

    def __check_init__(self) -> None:
        for name in ("rate", "decay", "epsilon"):
            _check_not_negative(name, getattr(self, name))
        for name in ("b1", "b2"):
            inside = 0 <= float(getattr(self, name)) < 1
            require(inside, f"{name} must be in [0, 1); got {name}={plain(getattr(self, name))}")
        _check_clip(self.clip)

    def init(self, params: Parameters) -> PyTree:
        return jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params)

    def update(
        self, gradient: Parameters, memory: PyTree, params: Parameters, step: Int[Array, ""]
    ) -> tuple[Parameters, PyTree]:
        first, second = memory
        gradient = clipped(gradient, self.clip)
        first = jax.tree.map(lambda m, g: self.b1 * m + (1 - self.b1) * g, first, gradient)
        second = jax.tree.map(lambda v, g: self.b2 * v + (1 - self.b2) * g * g, second, gradient)
        count = step.astype(jnp.float32) + 1.0
        first_scale, second_scale = 1 / (1 - self.b1**count), 1 / (1 - self.b2**count)
        rate = self.rate * self.schedule.factor(step)

        def moved(name: str) -> Array:
            direction = first[name] * first_scale / (jnp.sqrt(second[name] * second_scale) + self.epsilon)
            decays = self.decayed is None or name in self.decayed
            return params[name] - rate * (direction + self.decay * params[name] if decays else direction)

        return {name: moved(name) for name in params}, (first, second)

    def check(self, names: set[str]) -> None:
        for layer in self.decayed or ():
            if layer not in names:
                raise unknown("layer", layer, names)


class RmsProp(Optimiser):
    """v ← s v + (1-s) ∇², θ ← θ - η_t ∇/(√v + ε): each entry's step is η over the recent size of its gradient.

    `smoothing` is s, 0.99 in *Learning and generalization in RNNs*, Section I, with ε outside the root as in the
    library that its experiments use. `clip` scales a gradient of norm above it down to it, as for Adam.
    """

    rate: Float[AnyArray, ""] = data()
    smoothing: Float[AnyArray, ""] = data(default=0.99)
    epsilon: Float[AnyArray, ""] = data(default=1e-8)
    clip: Float[AnyArray, ""] | None = data(optional=True, default=None)
    schedule: Schedule = Constant()

    def __check_init__(self) -> None:
        for name in ("rate", "epsilon"):
            _check_not_negative(name, getattr(self, name))
        inside = 0 <= float(self.smoothing) < 1
        require(inside, f"smoothing must be in [0, 1); got smoothing={plain(self.smoothing)}")
        _check_clip(self.clip)

    def init(self, params: Parameters) -> PyTree:
        return jax.tree.map(jnp.zeros_like, params)

    def update(
        self, gradient: Parameters, memory: PyTree, params: Parameters, step: Int[Array, ""]
    ) -> tuple[Parameters, PyTree]:
        gradient = clipped(gradient, self.clip)
        square = jax.tree.map(lambda v, g: self.smoothing * v + (1 - self.smoothing) * g * g, memory, gradient)
        rate = self.rate * self.schedule.factor(step)
        moved = {
            name: params[name] - rate * gradient[name] / (jnp.sqrt(square[name]) + self.epsilon) for name in params
        }
        return moved, square


def clipped(gradient: Parameters, clip: Any) -> Parameters:
    """A gradient of norm at most `clip`, the norm taken over all parameters together; None for any."""
    if clip is None:
        return gradient
    norm = jnp.sqrt(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(gradient)))
    factor = jnp.minimum(1.0, clip / jnp.maximum(norm, 1e-30))
    return jax.tree.map(lambda g: g * factor, gradient)


def _check_clip(clip: Any) -> None:
    positive = clip is None or bool(np.all(np.asarray(clip) > 0))
    require(positive, f"clip must be a number > 0, or None for no clipping; got clip={plain(clip)}")


class Truncated(Optimiser):
    """Entries of the gradient of size at most `threshold` count as 0; all else is `inner`'s (dissertation, C.2.3).

    Weights still decay where the gradient is cut off.
    """

    inner: Optimiser
    threshold: Float[AnyArray, ""] = data()

    def __check_init__(self) -> None:
        require(isinstance(self.inner, Optimiser), f"inner must be an optimiser such as Sgd(0.1); got {self.inner!r}")
        _check_not_negative("threshold", self.threshold)

    def init(self, params: Parameters) -> PyTree:
        return self.inner.init(params)

    def update(
        self, gradient: Parameters, memory: PyTree, params: Parameters, step: Int[Array, ""]
    ) -> tuple[Parameters, PyTree]:
        cut = jax.tree.map(lambda g: jnp.where(jnp.abs(g) > self.threshold, g, jnp.zeros_like(g)), gradient)
        return self.inner.update(cut, memory, params, step)

    def check(self, names: set[str]) -> None:
        self.inner.check(names)


def _check_not_negative(name: str, number: Any) -> None:
    allowed = bool(np.all(np.asarray(number) >= 0)) and bool(np.all(np.isfinite(np.asarray(number))))
    require(allowed, f"{name} must be a finite number ≥ 0; got {name}={plain(number)}")
