"""Step-doubling schedules and the source's six settings (D.2)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models import PairNetwork, PowerNetwork
from krogh.tasks import GroupComposition, ParityClasses
from krogh.training import MARGIN_PRESETS, NeuronNorm, Online, Population, Sgd, doublings

TABLE = {  # width, steps, batch, first and last rate, number of doublings, first and last of them, weight
    "Z_71": (500, 40_000, None, 0.05, 51.2, 10, 1000, 10_000, 1e-4),
    "Z_71-relu": (500, 40_000, None, 0.05, 51.2, 10, 1000, 10_000, 1e-4),
    "parity-10-4": (40, 30_000, None, 0.1, 0.1, 0, None, None, 1e-3),
    "S_3": (30, 50_000, None, 0.05, 1638.4, 15, 200, 10_000, 1e-7),
    "S_4": (200, 50_000, None, 0.05, 1638.4, 15, 200, 10_000, 1e-7),
    "S_5": (2000, 75_000, 1000, 0.05, 12.8, 8, 3000, 24_000, 1e-5),
}


def rates(optimiser: Sgd, steps) -> np.ndarray:
    factors = jax.vmap(optimiser.schedule.factor)(jnp.asarray(steps, jnp.int32))
    return float(optimiser.rate) * np.asarray(factors)


def test_a_rate_doubles_when_each_step_is_reached():
    optimiser = Sgd(0.5, schedule=doublings((3, 5, 6)))
    assert rates(optimiser, range(8)).tolist() == [0.5, 0.5, 0.5, 1.0, 1.0, 2.0, 4.0, 4.0]
    assert rates(Sgd(0.5, schedule=doublings(())), range(3)).tolist() == [0.5] * 3
    assert rates(Sgd(0.5, schedule=doublings(range(2, 5, 2))), range(5)).tolist() == [0.5, 0.5, 1.0, 1.0, 2.0]
    with pytest.raises(KroghError, match=r"boundaries must increase; got \[4, 2\]"):
        doublings((4, 2))


def test_the_settings_are_the_sources():
    assert set(MARGIN_PRESETS) == set(TABLE)


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_setting_is_as_printed(name):
    width, steps, batch, first, last, number, begin, end, weight = TABLE[name]
    preset, training = MARGIN_PRESETS[name], MARGIN_PRESETS[name].training()
    assert preset.width == width and int(training.stopping.budget) == steps and not training.stopping.early
    assert isinstance(training.regime, Population) if batch is None else training.regime == Online(batch)
    found = rates(training.optimiser, range(0, steps, 100))
    assert found[0] == pytest.approx(first) and found[-1] == pytest.approx(last) == pytest.approx(preset.final_rate)
    assert len(preset.doubled_at) == number
    if number:
        assert (preset.doubled_at[0], preset.doubled_at[-1]) == (begin, end)
        assert np.flatnonzero(np.diff(found))[0] * 100 + 100 == begin
    assert isinstance(training.penalty, NeuronNorm) and float(training.penalty.weight) == pytest.approx(weight)
    assert training.penalty.b is None and training.penalty.exponent is None and training.loss == "cross-entropy"


def test_doublings_of_the_small_groups_come_early():
    assert MARGIN_PRESETS["S_3"].doubled_at == (*range(200, 2601, 200), 5000, 10_000)
    assert MARGIN_PRESETS["S_4"].doubled_at == MARGIN_PRESETS["S_3"].doubled_at
    assert MARGIN_PRESETS["S_5"].doubled_at == tuple(range(3000, 24_001, 3000))
    assert MARGIN_PRESETS["Z_71"].doubled_at == tuple(range(1000, 10_001, 1000))


def test_every_setting_makes_a_trial():
    for name, preset in MARGIN_PRESETS.items():
        if name == "parity-10-4":
            model, task = PowerNetwork(preset.width, preset.exponent), ParityClasses(10, 4)
            assert model.obstacle(task) is None
        else:
            model, task = PairNetwork(preset.width, preset.activation, preset.exponent), GroupComposition(preset.task)
        preset.training().check(task, model)
