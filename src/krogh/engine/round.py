"""One round: the steps between two checks. The only place where weights are trained.

`train_block` is the seam behind which another implementation may stand (one kernel for a whole block); the
one here is the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, UInt32

from krogh.engine.start import masked
from krogh.engine.trial import Trial
from krogh.models.base import Parameters
from krogh.tasks.bits import GOLDEN, mixed
from krogh.training.losses import find_loss

RUNNING = 0  # the status of a trial that is trained; other codes are in `krogh.engine.checking`
GROUP, GROUP_SHARE = 8, 16  # trials of a block that need something of their own are served in groups of such a size
Over = Callable[[Callable[..., Any]], Callable[..., Any]]


class State(NamedTuple):
    """Where a trial stands. `reached` is the convergence time, -1 while there is none; `step` counts from the beginning
    of the present run, `earlier` the steps of the runs before it."""

    params: Parameters
    memory: PyTree
    sample: PyTree
    step: Int[Array, ""]
    status: Int[Array, ""]
    streak: Int[Array, ""]
    reached: Int[Array, ""]
    error: Float[Array, ""]
    attempt: Int[Array, ""]
    earlier: Int[Array, ""]
    loss: Float[Array, ""]
    curve: Float[Array, "rows columns"]
    snapshots: Parameters


class Constants(NamedTuple):
    """What a trial's rounds all need, computed once per visit of the program and not once per round."""

    key: PRNGKeyArray
    examples: PyTree
    allowed: Float[Array, ""]
    noise: UInt32[Array, ""]


class Trained(NamedTuple):
    """What a round changes."""

    params: Parameters
    memory: PyTree
    loss: Float[Array, ""]


def over_block(block: int) -> Over:
    """How a function of one trial runs on a block: vmapped, or, for a block of one, without a batch axis.

    A batch axis of one would turn every matrix product on a CPU into a batched one, several times slower.
    """
    if block > 1:
        return jax.vmap

    def lift(function: Callable[..., Any]) -> Callable[..., Any]:
        def lifted(*stacked: Any) -> Any:
            single = jax.tree.map(lambda leaf: leaf[0], stacked)
            return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], function(*single))

        return lifted

    return lift


def group_size(block: int) -> int:
    """How many trials of a block are served together when only some need it."""
    return max(min(block, GROUP), block // GROUP_SHARE)


def for_some(
    wanted: Bool[Array, " block"], block: int, function: Callable[..., Array], arguments: tuple[Any, ...], other: Array
) -> Array:
    """`function` of the `wanted` trials of a block, in groups until none is left; `other` for the rest."""
    if block == 1:  # a real branch: a compiler may move the work of a loop's body in front of the loop
        return jax.lax.cond(wanted[0], over_block(1)(function), lambda *_: other, *arguments)
    group = group_size(block)
    over = over_block(group)

    def some(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        left, found = carry
        chosen = jnp.nonzero(left, size=group, fill_value=block)[0]
        new = over(function)(*_rows(arguments, chosen))
        return left.at[chosen].set(False, mode="drop"), found.at[chosen].set(new, mode="drop")

    return jax.lax.while_loop(lambda carry: jnp.any(carry[0]), some, (wanted, other))[1]


def _rows(tree: PyTree, chosen: Int[Array, " group"]) -> Any:
    return jax.tree.map(lambda leaf: jnp.take(leaf, chosen, axis=0, mode="clip"), tree)


def train_block(trials: Trial, constants: Constants, states: State, over: Over) -> State:
    """A round of training for every running trial of a block; the others stay as they are."""
    new = over(train_round)(trials, constants, states)
    running = states.status == RUNNING
    params = frozen(running, new.params, states.params)
    memory = frozen(running, new.memory, states.memory)
    every = trials.training.stopping.check_every
    return states._replace(
        params=params,
        memory=memory,
        step=states.step + jnp.where(running, every, 0).astype(jnp.int32),
        loss=jnp.where(running, new.loss, states.loss),
    )


def frozen(running: Bool[Array, " block"], new: PyTree, old: PyTree) -> PyTree:
    """`new` where a trial is running, `old` where it is not."""

    def choose(after: Array, before: Array) -> Array:
        return jnp.where(running.reshape(running.shape + (1,) * (after.ndim - 1)), after, before)

    return jax.tree.map(choose, new, old)


def train_round(trial: Trial, constants: Constants, state: State) -> Trained:
    """`check_every` optimiser steps of one trial: θ ← θ + update(∇ mean loss).

    Frozen parameters take no part in it, and entries that the trial's start has masked stay 0.
    """
    training = trial.training
    loss, optimiser = find_loss(training.loss), training.optimiser
    every = training.stopping.check_every
    noise = mixed(constants.noise + state.attempt.astype(jnp.uint32) * jnp.uint32(GOLDEN))

    def step(carry: tuple[Parameters, PyTree], inputs: Any) -> tuple[tuple[Parameters, PyTree], Array]:
        params, memory = carry
        number, fed = inputs
        raw, weight = training.regime.batch(trial.task, state.sample, fed)
        examples = trial.task.decode(raw)
        x, y = examples.x, examples.y

        def objective(moving: Parameters) -> Float[Array, ""]:
            params = moving | fixed
            prediction = trial.model.forward(params, x, mixed(noise ^ mixed(number.astype(jnp.uint32))))
            losses = loss(prediction, y)
            each = jnp.mean(losses, axis=tuple(range(1, losses.ndim))) if losses.ndim > 1 else losses
            value = jnp.mean(each) if weight is None else jnp.sum(each * weight)
            return training.penalised(value, trial.model, params)

        value, gradient = jax.value_and_grad(objective)(params)
        moved, memory = optimiser.update(masked(gradient, masks), memory, params, number)
        return (masked(moved, masks), memory), value

    trained = training.trained(state.params)
    fixed = {name: state.params[name] for name in training.frozen}
    masks = trial.start.masks()
    numbers = state.step + jnp.arange(every, dtype=jnp.int32)
    fed = training.regime.feed(trial.task, constants.key, state.step, every)
    (trained, memory), losses = jax.lax.scan(step, (trained, state.memory), (numbers, fed))
    return Trained(trained | fixed, memory, jnp.mean(losses))
