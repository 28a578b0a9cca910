"""Checks between rounds: has a trial diverged, converged, or used up its budget?

The source's rule is exact: t_c is the first checked step with the wanted accuracy on the whole validation
sample. To make it cheaper than training, a check first reads a short prefix of that sample; a trial with
more errors there than the whole sample allows has failed the check for certain. Only the others, and those
whose budget ends, are confirmed on the whole sample, a few at a time.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from krogh.engine.round import Constants, Over, State, over_block
from krogh.engine.trial import DATA, VALIDATION, Trial
from krogh.models.base import Parameters
from krogh.tasks.base import Raw
from krogh.training.stopping import EXACT

RUNNING, CONVERGED, FAILED, DIVERGED, EMPTY, NEW = 0, 1, 2, 3, 4, 5
OUTCOMES = {CONVERGED: "converged", FAILED: "failed", DIVERGED: "diverged"}

PREFIX = 16
SLICE = 1024
CONFIRMED_SHARE = 16


def errors(trial: Trial, params: Parameters, raw: Raw) -> Int[Array, ""]:
    """How many of the raw examples are predicted wrongly."""
    examples = trial.task.decode(raw)
    right = trial.task.correct(trial.model.predict(params, examples.x), examples.truth)
    return jnp.sum(~right, dtype=jnp.int32)


def all_errors(trial: Trial, params: Parameters) -> Int[Array, ""]:
    """Errors on the whole validation sample, read in slices so that memory stays bounded."""
    stopping, task = trial.training.stopping, trial.task
    if stopping.validation == EXACT:
        raw = jax.tree.map(jnp.asarray, task.population())
    else:
        raw = task.draw(trial.key(VALIDATION), stopping.size(task))
    size = jax.tree.leaves(raw)[0].shape[0]
    whole = size - size % SLICE
    total = jnp.zeros((), jnp.int32)
    if whole:
        sliced = jax.tree.map(lambda leaf: leaf[:whole].reshape(-1, SLICE, *leaf.shape[1:]), raw)
        total = jnp.sum(jax.lax.map(lambda part: errors(trial, params, part), sliced), dtype=jnp.int32)
    if size > whole:
        total = total + errors(trial, params, jax.tree.map(lambda leaf: leaf[whole:], raw))
    return total


def allowed_errors(trial: Trial) -> Int[Array, ""]:
    """The most errors on the whole sample that still reach the wanted accuracy."""
    size = trial.training.stopping.size(trial.task)
    return jnp.floor((1.0 - trial.training.stopping.accuracy) * size + 1e-3).astype(jnp.int32)


def constants_of(trial: Trial) -> Constants:
    """The constants of a trial's rounds."""
    return Constants(trial.key(DATA), _prefix(trial), allowed_errors(trial))


def _prefix(trial: Trial) -> Raw:
    """A few examples of the validation sample, none of them twice: a repeated one would count its error twice."""
    if trial.training.stopping.validation != EXACT:
        return trial.task.draw(trial.key(VALIDATION), PREFIX)
    size = trial.training.stopping.size(trial.task)
    chosen = np.random.default_rng(0).choice(size, min(PREFIX, size), replace=False)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[chosen]), trial.task.population())


def check_block(trials: Trial, constants: Constants, states: State, block: int) -> State:
    """The check after a round, for every running trial of a block."""
    over = over_block(block)
    stopping = trials.training.stopping
    size = stopping.size(trials.task)
    running = states.status == RUNNING
    healthy = over(_finite)(states.params) & jnp.isfinite(states.loss)
    spent = states.step >= stopping.budget
    hopeful = running & healthy
    if size > PREFIX:
        hopeful = hopeful & (over(_may_pass)(trials, constants, states.params) | spent)
    wrong = _confirmed(trials, states.params, hopeful, block)
    passed = hopeful & (wrong <= constants.allowed)
    streak = jnp.where(running, jnp.where(passed, states.streak + 1, 0), states.streak)
    reached = (streak >= stopping.consecutive) & running
    status = jnp.where(running & spent, FAILED, states.status)
    status = jnp.where(reached & (stopping.early | spent), CONVERGED, status)
    noted = jnp.where(reached & (states.reached < 0), states.step, states.reached)
    status = jnp.where((status == FAILED) & (noted >= 0), CONVERGED, status)
    status = jnp.where(running & ~healthy, DIVERGED, status)
    accuracy = jnp.where(hopeful, 1.0 - wrong / size, states.accuracy)
    return states._replace(
        status=status.astype(jnp.int32),
        streak=streak,
        reached=noted,
        accuracy=jnp.where(status == DIVERGED, jnp.nan, accuracy).astype(jnp.float32),
    )


def _finite(params: Parameters) -> Bool[Array, ""]:
    """No parameter is NaN and their squares do not overflow: one reduction per array, no mask in memory."""
    return jnp.isfinite(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(params)))


def _may_pass(trial: Trial, constants: Constants, params: Parameters) -> Bool[Array, ""]:
    return errors(trial, params, constants.prefix) <= constants.allowed


def _confirmed(trials: Trial, params: Parameters, wanted: Bool[Array, " block"], block: int) -> Int[Array, " block"]:
    """Errors on the whole sample for the `wanted` trials of a block, in groups until none is left."""
    if block == 1:  # a real branch: a compiler may move the work of a loop's body in front of the loop
        counted = over_block(1)(all_errors)
        return jax.lax.cond(wanted[0], counted, lambda *_: jnp.zeros(1, jnp.int32), trials, params)
    group = max(1, block // CONFIRMED_SHARE)
    over: Over = over_block(group)

    def some(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        left, wrong = carry
        chosen = jnp.nonzero(left, size=group, fill_value=block)[0]
        counted = over(all_errors)(_rows(trials, chosen), _rows(params, chosen))
        return left.at[chosen].set(False, mode="drop"), wrong.at[chosen].set(counted, mode="drop")

    none = jnp.zeros(block, jnp.int32)
    return jax.lax.while_loop(lambda carry: jnp.any(carry[0]), some, (wanted, none))[1]


def _rows(tree: PyTree, chosen: Int[Array, " group"]) -> Any:
    return jax.tree.map(lambda leaf: jnp.take(leaf, chosen, axis=0, mode="clip"), tree)
