"""Checks between rounds: has a trial diverged, converged, or used up its budget?

The sources' rule: t_c is the first checked step at which the mean error on the whole validation sample is small enough.
To make a check cheaper than training, it first reads a prefix of that sample, and only trials that may still pass, and
those whose budget ends, are confirmed on the whole sample, a few at a time. Where no error is allowed the prefix
excludes for certain. Where some are, it excludes what would happen by chance once in 10^9 checks if the error were at
the threshold: by Bernstein's inequality for mistakes, by six standard errors for a squared error.

A trial with restarts begins again, on the same data with other weights, when a run has used up its budget.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from krogh.engine.round import GROUP, RUNNING, Constants, State, for_some, frozen, group_size, over_block
from krogh.engine.trial import DATA, VALIDATION, Trial
from krogh.models.base import Parameters, predict_judged
from krogh.tasks.base import Raw
from krogh.training.stopping import EXACT, SURE_PREFIX

CONVERGED, FAILED, DIVERGED, EMPTY, NEW = 1, 2, 3, 4, 5
OUTCOMES = {CONVERGED: "converged", FAILED: "failed", DIVERGED: "diverged"}

SLICE = 1024
UNLIKELY = 20.7  # -log(1e-9)
STANDARD_ERRORS = 6.0


def errors(trial: Trial, params: Parameters, raw: Raw) -> Float[Array, " size"]:
    """The error of each of the raw examples."""
    examples = trial.task.decode(raw)
    return trial.task.judge(predict_judged(trial.model, trial.task, params, examples.x), examples)


def whole_sample(trial: Trial) -> tuple[Raw, Bool[Array, "slices width"]]:
    """The validation sample in slices of equal width, so that memory stays bounded, and which rows are no filling."""
    stopping, task = trial.training.stopping, trial.task
    size = stopping.size(task)
    if stopping.validation == EXACT:
        order = np.random.default_rng(0).permutation(size)  # a slice of a list in its own order is no sample of it
        raw = jax.tree.map(lambda leaf: jnp.asarray(leaf[order]), task.population())
    else:
        raw = task.test(trial.key(VALIDATION), size)
    slices = -(-size // SLICE)
    width = -(-size // slices)

    def sliced(leaf: Array) -> Array:
        filled = jnp.pad(leaf, [(0, slices * width - size), *[(0, 0)] * (leaf.ndim - 1)])
        return filled.reshape(slices, width, *leaf.shape[1:])

    return jax.tree.map(sliced, raw), (jnp.arange(slices * width) < size).reshape(slices, width)


def all_errors(trial: Trial, params: Parameters) -> Float[Array, ""]:
    """Sum of the errors on the whole validation sample."""

    def of_slice(part: tuple[Raw, Array]) -> Float[Array, ""]:
        return jnp.sum(jnp.where(part[1], errors(trial, params, part[0]), 0.0))

    return jnp.sum(jax.lax.map(of_slice, whole_sample(trial)))


def check_predictions(trials: Trial, params: Parameters, block: int, kept: int) -> tuple[Array, Array]:
    """What the first `kept` trials of a block predict in the shapes and loops of a check: for the prefix [kept, prefix,
    ...] and for the whole sample [kept, slices, width, ...], in which `kept` is at most the size of a group."""
    group = group_size(block)

    def of_prefix(trial: Trial, params: Parameters) -> Array:
        return predict_judged(trial.model, trial.task, params, trial.task.decode(prefix_of(trial)).x)

    def of_sample(trial: Trial, params: Parameters) -> Array:
        raw = whole_sample(trial)[0]
        return jax.lax.map(lambda part: predict_judged(trial.model, trial.task, params, trial.task.decode(part).x), raw)

    some = jax.tree.map(lambda leaf: leaf[:group], (trials, params))
    both = over_block(block)(of_prefix)(trials, params), over_block(group)(of_sample)(*some)
    return jax.tree.map(lambda leaf: leaf[:kept], jax.lax.optimization_barrier(both))


def allowed_errors(trial: Trial) -> Float[Array, ""]:
    """The largest sum of errors on the whole sample that still will do; a whole number of mistakes."""
    stopping = trial.training.stopping
    allowed = stopping.threshold() * stopping.size(trial.task)
    return jnp.asarray(allowed if trial.task.regression else jnp.floor(allowed + 1e-3), jnp.float32)


def slice_by_slice(trial: Trial, block: int) -> bool:
    """Whether checks read the sample slice by slice until they are decided, all trials of a block together.

    For a few trials that costs no more than a prefix and a confirmation, and the network is compiled once less.
    """
    return block <= GROUP and (trial.task.regression or trial.training.stopping.prefix > SURE_PREFIX)


def constants_of(trial: Trial, block: int = SLICE) -> Constants:
    """The constants of a trial's rounds."""
    noise = trial.noise() if trial.model.noisy else jnp.zeros((), jnp.uint32)
    examples = whole_sample(trial) if slice_by_slice(trial, block) else prefix_of(trial)
    return Constants(trial.key(DATA), examples, allowed_errors(trial), noise)


def prefix_of(trial: Trial) -> Raw:
    """A few examples of the validation sample, none of them twice: a repeated one would count its error twice."""
    stopping = trial.training.stopping
    if stopping.validation != EXACT:
        return trial.task.test(trial.key(VALIDATION), stopping.prefix)
    size = stopping.size(trial.task)
    chosen = np.random.default_rng(0).choice(size, min(stopping.prefix, size), replace=False)
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
    if slice_by_slice(trials, block):
        wrong, hopeful = over(_by_slices)(trials, constants, states.params, hopeful, spent)
    else:
        if size > stopping.prefix:
            hopeful = hopeful & (over(_passes_prefix)(trials, constants, states.params) | spent)
        none = jnp.zeros(block, jnp.float32)
        wrong = for_some(hopeful, block, all_errors, (trials, states.params), none)
    passed = hopeful & (wrong <= constants.allowed)
    streak = jnp.where(running, jnp.where(passed, states.streak + 1, 0), states.streak)
    reached = (streak >= stopping.consecutive) & running
    status = jnp.where(running & spent, FAILED, states.status)
    status = jnp.where(reached & (stopping.early | spent), CONVERGED, status)
    noted = jnp.where(reached & (states.reached < 0), states.step, states.reached)
    status = jnp.where((status == FAILED) & (noted >= 0), CONVERGED, status)
    status = jnp.where(running & ~healthy, DIVERGED, status)
    error = jnp.where(hopeful, wrong / size, states.error)
    checked = states._replace(
        status=status.astype(jnp.int32),
        streak=streak,
        reached=noted,
        error=jnp.where(status == DIVERGED, jnp.nan, error).astype(jnp.float32),
    )
    return checked if stopping.restarts == 1 else _restarted(trials, checked, running, block)


def _restarted(trials: Trial, states: State, running: Bool[Array, " block"], block: int) -> State:
    """Trials whose run ended without success begin again, as long as they have runs left."""
    ended = running & ((states.status == FAILED) | (states.status == DIVERGED))
    again = ended & (states.attempt + 1 < trials.training.stopping.restarts)

    def begin(trial: Trial, state: State) -> State:
        params = trial.initial_params(state.attempt + 1)
        zero = jnp.zeros((), jnp.int32)
        return state._replace(
            params=params,
            memory=trial.training.optimiser.init(trial.training.trained(params)),
            status=jnp.full((), RUNNING, jnp.int32),
            step=zero,
            streak=zero,
            attempt=state.attempt + 1,
            earlier=state.earlier + state.step,
        )

    def some(old: State) -> State:
        # The sample stays where it is: copying it would be most of the work.
        new = over_block(block)(begin)(trials, old._replace(sample=(), curve=old.curve))
        return frozen(again, new, old._replace(sample=()))._replace(sample=old.sample)

    return jax.lax.cond(jnp.any(again), some, lambda old: old, states)


def _finite(params: Parameters) -> Bool[Array, ""]:
    """No parameter is NaN and their squares do not overflow: one reduction per array, no mask in memory."""
    return jnp.isfinite(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(params)))


def _may_pass(trial: Trial, allowed: Float[Array, ""], total: Array, squares: Array, number: Any) -> Bool[Array, ""]:
    """Whether a trial may still pass, after `number` examples with this sum of errors and of their squares."""
    number = jnp.asarray(number, jnp.float32)
    threshold = allowed / trial.training.stopping.size(trial.task)
    if trial.task.regression:
        mean = total / number
        spread = jnp.sqrt(jnp.maximum(squares / number - mean * mean, 0.0) / number)
        return jnp.where(allowed > 0, mean - STANDARD_ERRORS * spread <= threshold, total <= 0)
    return total <= _likely(allowed, threshold * number)


def _likely(allowed: Float[Array, ""], expected: Array) -> Array:
    """Mistakes that a network at the threshold, with `expected` ones, makes but once in 10^9 checks, or fewer."""
    slack = UNLIKELY / 3 + jnp.sqrt((UNLIKELY / 3) ** 2 + 2 * UNLIKELY * expected)
    return jnp.minimum(allowed, jnp.where(allowed > 0, expected + slack, 0.0))


def likely_errors(trial: Trial, number: int) -> Float[Array, ""]:
    """The most mistakes on the first `number` examples with which a classification may still pass."""
    allowed = allowed_errors(trial)
    return _likely(allowed, allowed / trial.training.stopping.size(trial.task) * number)


def _passes_prefix(trial: Trial, constants: Constants, params: Parameters) -> Bool[Array, ""]:
    error = errors(trial, params, constants.examples)
    return _may_pass(trial, constants.allowed, jnp.sum(error), jnp.sum(error * error), error.shape[0])


def _by_slices(
    trial: Trial, constants: Constants, params: Parameters, wanted: Bool[Array, ""], spent: Bool[Array, ""]
) -> tuple[Float[Array, ""], Bool[Array, ""]]:
    """The sum of errors, read slice by slice as long as the trial may pass, and whether the whole sample was read."""
    sample, present = constants.examples
    slices = present.shape[0]

    def one(carry: Any) -> Any:
        place, total, squares, seen, _ = carry
        part, own = jax.tree.map(lambda leaf: leaf[place], (sample, present))
        error = jnp.where(own, errors(trial, params, part), 0.0)
        total, squares = total + jnp.sum(error), squares + jnp.sum(error * error)
        seen = seen + jnp.sum(own, dtype=jnp.int32)
        going = spent | _may_pass(trial, constants.allowed, total, squares, seen)
        return place + 1, total, squares, seen, going

    zero, none = jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32)
    begun = (none, zero, zero, none, wanted)
    place, total, _, _, going = jax.lax.while_loop(lambda carry: (carry[0] < slices) & carry[4], one, begun)
    return total, wanted & (going | (place == slices))
