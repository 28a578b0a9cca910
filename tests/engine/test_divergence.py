"""Law 2: nothing diverges in silence, and nothing that diverges touches another trial."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, PRNGKeyArray

import krogh
from krogh.models.base import Model, Parameters
from krogh.tasks.base import Task
from krogh.values import replaced

ABSURD = (1e4, 1e18, 1e30, 3e38)


@pytest.mark.parametrize("strategy", ["one_by_one", "in_blocks"])
def test_absurd_rates_diverge_and_neighbours_do_not_notice(train, base, strategy, request):
    plan = request.getfixturevalue(strategy)
    sane = [replaced(base, "seed", seed) for seed in range(12)]
    mad = [replaced(trial, "training.optimiser.rate", rate) for trial, rate in zip(sane, ABSURD, strict=False)]
    mixed = [trial for place, trial in enumerate(sane) for trial in [*mad[place : place + 1], trial]]
    (quiet,), (noisy,) = krogh.stack(sane), krogh.stack(mixed)
    alone, among = train(quiet, plan_override=plan), train(noisy, plan_override=plan)
    for position, trial in enumerate(noisy):
        record = among[position]
        if float(trial.training.optimiser.rate) > 1:
            assert record.outcome == "diverged"
            assert record.reached == -1 and record.steps <= 100
            assert np.isnan(record.accuracy)
        else:
            assert record.bits == alone[int(trial.seed)].bits


def test_overflow_of_a_power_network(train, base):
    model = krogh.power_mlp(width=4, degree=8, initialiser="normal")
    steep = krogh.Trial(base.task, model, base.training)
    (cohort,) = krogh.sweep(steep, training__optimiser__rate=[1e-6, 1e3], seed=range(6))
    outcomes = [record.outcome for _, record in sorted(train(cohort).items())]
    assert outcomes[6:] == ["diverged"] * 6
    assert "diverged" not in outcomes[:6]
    table = krogh.run(cohort)
    assert table.filter(table["outcome"] == "diverged")["convergence_time"].null_count() == 6


class Hollow(Model):
    """The parity of the first two signs, but NaN where all the others are 1; nothing to learn."""

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        return {"w": jnp.ones((), jnp.float32)}

    def predict(self, params: Parameters, x: Float[Array, "batch n"]) -> Float[Array, " batch"]:
        hole = jnp.all(x[:, 2:] > 0, axis=1)
        return jnp.where(hole, jnp.nan, params["w"] * x[:, 0] * x[:, 1])

    def check(self, task: Task) -> None:
        return

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(), krogh.Parity(n=6, k=2)


def test_nan_is_never_right(train, base):
    """A batch that misses the hole has a finite loss, so only the check can see the NaN."""
    training = krogh.Training(
        optimiser=krogh.Sgd(rate=0.0),
        regime=krogh.Online(batch_size=1),
        stopping=krogh.Stopping(budget=4, check_every=2, validation="exact"),
    )
    (cohort,) = krogh.sweep(krogh.Trial(base.task, Hollow(), training), seed=range(24))
    records = train(cohort).values()
    assert {record.outcome for record in records} == {"failed", "diverged"}
    for record in records:
        if record.outcome == "failed":
            assert record.accuracy == np.float32(60 / 64)
        else:
            assert np.isnan(record.accuracy)


@pytest.mark.slow
def test_a_trial_that_explodes_after_it_has_converged_is_diverged(train, base):
    """Without early stopping the end counts; an accuracy from before the end is not the end's."""
    explode = krogh.Sgd(rate=0.1, decay=1e-9, decay_schedule=krogh.Piecewise([300], [1.0, 1e30]))
    training = replaced(replaced(base.training, "optimiser", explode), "stopping.early", False)
    (cohort,) = krogh.sweep(krogh.Trial(base.task, base.model, training), seed=range(4))
    for record in train(cohort).values():
        assert record.outcome == "diverged"
        assert 300 < record.steps <= 320
        assert np.isnan(record.accuracy)
    assert krogh.run(cohort)["convergence_time"].null_count() == 4
