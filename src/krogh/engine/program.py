"""The program of a cohort: everything that happens on the device between two looks from the host.

A cohort's trials sit in slots, slots in blocks. A block is trained at once (on a GPU thousands of trials, on
a CPU one); the program walks over the blocks that hold running trials, so finished blocks cost nothing and the
number of blocks is not part of the program. New trials draw their weights inside it. Hence one compilation
per structure.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from krogh.engine.checking import EMPTY, NEW, RUNNING, check_block, constants_of
from krogh.engine.round import State, for_some, frozen, over_block, train_block
from krogh.engine.trial import DATA, Trial


def start(trial: Trial) -> State:
    """The state of a trial before its first step."""
    params = trial.initial_params()
    state = State(
        params=params,
        memory=trial.training.optimiser.init(trial.training.trained(params)),
        sample=trial.training.regime.sample(trial.task, trial.key(DATA)),
        step=jnp.zeros((), jnp.int32),
        status=jnp.full((), RUNNING, jnp.int32),
        streak=jnp.zeros((), jnp.int32),
        reached=jnp.full((), -1, jnp.int32),
        error=jnp.full((), jnp.nan, jnp.float32),
        attempt=jnp.zeros((), jnp.int32),
        earlier=jnp.zeros((), jnp.int32),
        loss=jnp.full((), jnp.nan, jnp.float32),
        curve=jnp.full((trial.probe_rows, len(trial.curve_columns())), jnp.nan, jnp.float32),
        snapshots={
            name: jnp.full((len(trial.snapshots), *leaf.shape), jnp.nan, leaf.dtype)
            for name, leaf in params.items()
            if trial.snapshots
        },
    )
    if trial.snapshots:
        state = snapped(trial, state)
    return probed(trial, state) if trial.probes else state


def snapped(trial: Trial, state: State) -> State:
    """The state with the present weights kept, if this step is one of the trial's snapshots."""
    here = state.step == jnp.asarray(trial.snapshots, jnp.int32)

    def kept(now: Array, old: Array) -> Array:
        return jnp.where(here.reshape(-1, *(1,) * now.ndim), now[None], old)

    return state._replace(snapshots=jax.tree.map(kept, state.params, state.snapshots))


def probed(trial: Trial, state: State) -> State:
    """The state with a row of the trial's curve written."""
    moment = trial.moment(state.params, trial.initial_params(), state.loss, state.step, state.sample)
    row = jnp.concatenate([probe.measure(moment) for probe in trial.probes])
    return state._replace(curve=state.curve.at[trial.row(state.step)].set(row, mode="drop"))


def empty_states(trial: Trial, slots: int) -> State:
    """Slots without trials."""
    shapes = jax.eval_shape(start, trial)
    states = jax.tree.map(lambda leaf: jnp.zeros((slots, *leaf.shape), leaf.dtype), shapes)
    return states._replace(status=jnp.full(slots, EMPTY, jnp.int32))


def advance_block(trials: Trial, states: State, rounds: Int[Array, ""], block: int) -> State:
    """Up to `rounds` rounds for the trials of one block; ends early when none is running."""
    over = over_block(block)
    constants = over(lambda trial: constants_of(trial, block))(trials)
    new = states.status == NEW
    states = jax.lax.cond(jnp.any(new), lambda old: frozen(new, over(start)(trials), old), lambda old: old, states)
    begun = states.status == RUNNING

    def one(carry: tuple[Array, State]) -> tuple[Array, State]:
        done, states = carry
        before = states.status == RUNNING
        states = train_block(trials, constants, states, over)
        states = check_block(trials, constants, states, block)
        if trials.snapshots:
            keeping = before & jnp.isin(states.step, jnp.asarray(trials.snapshots, jnp.int32))
            states = jax.lax.cond(jnp.any(keeping), lambda old: over(snapped)(trials, old), lambda old: old, states)
        if trials.probes:
            # All running trials of a block stand at the same round modulo a probe's (chunks are multiples of it), so
            # they are probed together. Those that have just ended wait for the end of the chunk, unless one is all.
            due = before & trials.scheduled(states.step)
            due = due | (before & (states.status != RUNNING)) if block == 1 else due
            states = jax.lax.cond(
                jnp.any(due), lambda old: frozen(due, over(probed)(trials, old), old), lambda old: old, states
            )
        return done + 1, states

    def going(carry: tuple[Array, State]) -> Array:
        return (carry[0] < rounds) & jnp.any(carry[1].status == RUNNING)

    states = jax.lax.while_loop(going, one, (jnp.zeros((), jnp.int32), states))[1]
    if not trials.probes or block == 1:
        return states
    ended = begun & (states.status != RUNNING) & ~trials.scheduled(states.step)
    return _last_rows(trials, states, ended, block)


def _last_rows(trials: Trial, states: State, ended: Bool[Array, " block"], block: int) -> State:
    """The last row of the curves of trials that `ended` in a chunk and have not been probed since: their weights are
    still there, for what has ended stands still."""
    curve = for_some(ended, block, lambda trial, state: probed(trial, state).curve, (trials, states), states.curve)
    return states._replace(curve=curve)


def advance(
    trials: Trial,
    states: State,
    fresh: Bool[Array, " slots"],
    rounds: Int[Array, ""],
    blocks: Int[Array, ""],
    block: int,
) -> tuple[State, Int[Array, ""]]:
    """Up to `rounds` rounds for the first `blocks` blocks of slots, those `fresh` from their start.

    Returns the states and the sum over blocks of the steps that were executed.
    """
    states = states._replace(status=jnp.where(fresh, NEW, states.status).astype(jnp.int32))

    def one(place: Array, carry: tuple[State, Array]) -> tuple[State, Array]:
        everyone, executed = carry
        first = place * block
        part = _slice(everyone, first, block)
        was = jnp.where(part.status == NEW, 0, part.earlier + part.step)
        advanced = advance_block(_slice(trials, first, block), part, rounds, block)
        ran = jnp.max(jnp.where(part.status == EMPTY, 0, advanced.earlier + advanced.step - was))
        everyone = jax.tree.map(
            lambda leaf, new: jax.lax.dynamic_update_slice_in_dim(leaf, new, first, 0), everyone, advanced
        )
        return everyone, executed + ran

    return jax.lax.fori_loop(0, blocks, one, (states, jnp.zeros((), jnp.int32)))


def permute(states: State, order: Int[Array, " slots"]) -> State:
    """Move slots, so that running trials fill the first blocks."""
    return jax.tree.map(lambda leaf: jnp.take(leaf, order, axis=0), states)


def _slice(tree: PyTree, first: Array, block: int) -> Any:
    return jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, first, block, 0), tree)
