"""Probes of recurrent networks against NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models import Mlp
from krogh.models.elman import ElmanRnn
from krogh.networks.recurrence.random_network import RandomRnn
from krogh.probes import Moment
from krogh.probes.recurrence import Objective, RecurrentMovement, spectral_norm
from krogh.tasks import Parity, TokenSum
from krogh.tasks.base import Examples


def moment(moved: float, noise: float = 0.0, width: int = 30) -> Moment:
    task = TokenSum.random(5, 3, phi="z^2", noise=noise)
    model = ElmanRnn(width, reads=3)
    initial = model.init(jax.random.key(0), task)
    random = np.random.default_rng(0)
    shift = {name: moved * random.normal(size=initial[name].shape).astype(np.float32) for name in ("W", "A")}
    params = initial | {name: initial[name] + shift[name] for name in shift}
    seen = task.batch(jax.random.key(1), 40)
    return Moment(task, model, params, initial, seen, jnp.float32(0), jnp.int32(5))


@pytest.mark.slow
def test_movement_and_flips_are_those_of_numpy():
    seen = moment(0.05)
    found = dict(
        zip(RecurrentMovement().columns(seen.task), np.asarray(RecurrentMovement().measure(seen)), strict=True)
    )
    for name in ("W", "A"):
        shift = np.asarray(seen.params[name] - seen.initial[name], np.float64)
        assert found[f"moved_{name}"] == pytest.approx(np.sqrt(30) * np.linalg.norm(shift), rel=1e-4)
        largest = np.sqrt(30) * np.linalg.norm(shift, 2)
        assert 0.97 * largest < found[f"moved_{name}_spectral"] <= 1.0001 * largest

    def signs(params):
        weights = {name: np.atleast_2d(np.asarray(params[name], np.float64)) for name in ("W", "A", "B")}
        return RandomRnn(**weights).run(np.asarray(seen.validation.x)).active[1:]

    flipped = np.mean(signs(seen.params) != signs(seen.initial))
    assert 0.005 < flipped == pytest.approx(found["flipped"], abs=2e-3)


def test_what_has_not_moved_has_moved_by_nothing():
    assert not np.asarray(RecurrentMovement().measure(moment(0.0))).any()
    assert float(spectral_norm(jnp.diag(jnp.array([3.0, -7.0, 1.0])))) == pytest.approx(7, rel=1e-5)


@pytest.mark.parametrize("loss", ["square", "huber"])
def test_the_objective_is_a_sum_over_labels_against_what_is_observed(loss):
    seen = moment(0.02, noise=0.5)
    objective, share = np.asarray(Objective(loss).measure(seen))
    f = np.asarray(seen.model.predict(seen.params, seen.validation.x), np.float64)
    gap, truth = f - np.asarray(seen.validation.y), np.asarray(seen.validation.truth, np.float64)
    each = gap**2 / 2 if loss == "square" else np.where(np.abs(gap) <= 1, gap**2 / 2, np.abs(gap) - 0.5)
    assert objective == pytest.approx(each.sum(axis=1).mean(), rel=1e-4)
    assert share == pytest.approx(((f - truth) ** 2).mean(axis=0).sum() / truth.var(axis=0).sum(), rel=1e-4)
    right = seen._replace(validation=Examples(seen.validation.x, *2 * [jnp.asarray(f, jnp.float32)]))
    assert np.allclose(Objective(loss).measure(right), 0, atol=1e-9)


def test_probes_refuse_what_they_cannot_read():
    with pytest.raises(KroghError, match="reads an ElmanRnn; got 'mlp'"):
        RecurrentMovement().check(Parity(n=4, k=2), Mlp(3))
    with pytest.raises(KroghError, match="real labels such as 'token-sum'; got 'parity'"):
        Objective().check(Parity(n=4, k=2), Mlp(3))
    with pytest.raises(KroghError, match="no classes; got loss='cross-entropy'"):
        Objective("cross-entropy")
