"""Frozen parameters: no gradient, no decay, nothing remembered of them; the others as if they were constants."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import krogh
from krogh.engine import program
from krogh.engine.memory import Plan
from krogh.engine.trial import DATA
from krogh.errors import KroghError
from krogh.values import replaced

OPTIMISERS = {
    "sgd": krogh.Sgd(rate=0.1, decay=0.01),
    "adam": krogh.Adam(rate=0.01, decay=0.1, clip=0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("plan", [Plan(4, 1), Plan(4, 4)])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_what_is_frozen_stays_and_the_rest_moves(train, lasting, name, plan):
    trial = replaced(replaced(lasting, "training.optimiser", OPTIMISERS[name]), "training.frozen", ("b", "u"))
    (cohort,) = krogh.sweep(trial, seed=range(3))
    for position, record in train(cohort, plan_override=plan).items():
        initial = {key: np.asarray(leaf) for key, leaf in cohort[position].initial_params().items()}
        for key in ("b", "u"):
            assert record.weights[key].tobytes() == initial[key].tobytes()
        for key in ("W", "c"):
            assert (record.weights[key] != initial[key]).all()


@pytest.mark.slow
def test_the_others_train_as_if_the_frozen_were_constants(train, lasting, one_by_one):
    """Against Adam by hand; the clipped norm is that of the trained parameters alone."""
    optimiser = OPTIMISERS["adam"]
    trial = replaced(replaced(lasting, "training.optimiser", optimiser), "training.frozen", ("W",))
    training = replaced(trial.training, "stopping", krogh.Stopping(budget=5, check_every=5, validation=40, early=False))
    trial = krogh.Trial(trial.task, trial.model, training)
    (cohort,) = krogh.stack([trial])
    found = train(cohort, plan_override=one_by_one)[0].weights
    params = trial.initial_params()
    moving = {name: params[name] for name in ("b", "c", "u")}
    memory = optimiser.init(moving)
    batches = training.regime.feed(trial.task, trial.key(DATA), jnp.int32(0), 5)
    for step in range(5):
        examples = trial.task.decode(jax.tree.map(lambda leaf, step=step: leaf[step], batches))

        def loss(moving, examples=examples):
            prediction = trial.model.predict(moving | {"W": params["W"]}, examples.x)
            return jnp.mean(jax.nn.relu(1.0 - examples.y * prediction))

        moving, memory = optimiser.update(jax.grad(loss)(moving), memory, moving, jnp.int32(step))
    for name, leaf in moving.items():
        np.testing.assert_allclose(found[name], leaf, rtol=1e-5, atol=1e-6)


def test_nothing_is_remembered_of_what_is_frozen(offline):
    state = jax.eval_shape(lambda: program.start(replaced(offline, "training.frozen", ("W",))))
    assert [sorted(part) for part in state.memory] == [["b", "c", "u"]] * 2
    assert sorted(state.params) == ["W", "b", "c", "u"]


def test_restarts_keep_the_frozen_of_each_run(train, base, one_by_one):
    """A later run draws all weights anew, and then leaves the frozen ones alone."""
    stopping = krogh.Stopping(budget=10, validation=40, restarts=3)
    trial = replaced(replaced(base, "training.stopping", stopping), "training.frozen", ("W",))
    (cohort,) = krogh.stack([replaced(trial, "training.optimiser.rate", 0.001)])
    record = train(cohort, plan_override=one_by_one)[0]
    assert record.steps == 30
    assert record.weights["W"].tobytes() == np.asarray(cohort[0].initial_params(jnp.int32(2))["W"]).tobytes()


def test_frozen_names_are_an_order_free_part_of_a_trial(base):
    one, other, none = (
        krogh.stack([replaced(base, "training.frozen", names)])[0] for names in (("W", "b"), ["b", "W", "b"], ())
    )
    assert one.ids() == other.ids() != none.ids()
    assert one.template.training.frozen == ("W", "b")
    assert replaced(base, "training.frozen", "W").training.frozen == ("W",)


def test_unknown_names_and_nothing_to_train_are_refused(base):
    with pytest.raises(KroghError, match=r"unknown frozen parameter 'V'.*known: W, b, c, u"):
        replaced(base, "training.frozen", ("V",))
    with pytest.raises(KroghError, match="nothing is trained"):
        replaced(base, "training.frozen", ("W", "b", "c", "u"))
