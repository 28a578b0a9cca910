"""The additive learner: its trials run beside networks, on the same samples, and meet the floors that are known."""

from __future__ import annotations

import numpy as np
import pytest

import krogh
from krogh.engine.trial import DATA
from krogh.errors import KroghError
from krogh.models.additive import Additive
from krogh.tasks.bit_strings import SingleBlip, StringParity
from krogh.tasks.whole_sequence import WholeSequence


def error_of(task, model, regime, validation) -> float:
    stopping = krogh.Stopping(budget=1, check_every=1, error=0.0, validation=validation)
    table = krogh.run([krogh.Trial(task, model, krogh.Training(regime=regime, stopping=stopping, loss="square"))])
    return float(table["error"][0])


@pytest.mark.parametrize("criterion", ["squares", "mistakes"])
def test_trials_of_additive_functions_meet_the_floor_of_parity(criterion):
    task = StringParity(4, rule="half")
    found = error_of(task, Additive(criterion=criterion), krogh.Population(), "exact")
    assert found == pytest.approx(5 / 16) if criterion == "mistakes" else found >= 0.5


@pytest.mark.slow
def test_mistakes_on_blips_are_a_quarter():
    found = error_of(SingleBlip(6), Additive(criterion="mistakes"), krogh.FullBatch(300), 2000)
    assert found == pytest.approx(0.25, abs=0.04)


def test_least_squares_of_tokens_meet_the_floor_of_a_square():
    task = WholeSequence.random(5, 3, seed=2, eps_x=0.3)
    known = task.baselines()
    found = error_of(task, Additive(degree=2), krogh.FullBatch(4000), 4000) / known["label_variance"]
    assert found == pytest.approx(known["additive_floor"], rel=0.08)
    linear = error_of(task, Additive(degree=1), krogh.FullBatch(4000), 4000) / known["label_variance"]
    assert linear == pytest.approx(1.0, rel=0.08), "a square has no linear part"


def test_it_is_what_a_solver_finds_on_the_sample_of_the_trial():
    task = WholeSequence.random(4, 3, seed=1)
    trial = krogh.Trial(
        task, Additive(2), krogh.Training(regime=krogh.FullBatch(50), stopping=krogh.Stopping(error=0.0))
    )
    sample = task.decode(trial.training.regime.whole(task, trial.key(DATA)))
    x, y = np.asarray(sample.x, np.float64), np.asarray(sample.y, np.float64)
    columns = [np.ones(50)]
    for place in (1, 2):  # the ends do not change
        a, b = x[:, place, 0], x[:, place, 1]
        columns += [a, b, a * a, a * b]  # b² = 3/4 - a²
    expected = np.column_stack(columns) @ np.linalg.lstsq(np.column_stack(columns), y, rcond=None)[0]
    assert np.allclose(trial.model.fit(np.asarray(sample.x), np.asarray(sample.y), 0)(np.asarray(sample.x)), expected,
                       atol=1e-4)  # fmt: skip


def test_what_it_cannot_read_is_refused():
    with pytest.raises(KroghError, match=r"reads sequences.*'parity'"):
        Additive().check(krogh.Parity(n=6, k=2))
    with pytest.raises(KroghError, match=r"strings of bits.*'whole-sequence'"):
        Additive(criterion="mistakes").check(WholeSequence.example())
    with pytest.raises(KroghError, match="answers once"):
        Additive().check(WholeSequence.random(5, 3, outputs=2, every_step=True))
    with pytest.raises(KroghError, match="'square'; did you mean 'squares'"):
        Additive(criterion="square")
