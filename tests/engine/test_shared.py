"""Arrays that all trials share: an argument of the program, on the device once, part of every trial's identity."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import krogh
from krogh.engine import compiling, stack
from krogh.engine.memory import Plan, footprint
from krogh.errors import KroghError
from krogh.tasks.table import parity_rows
from krogh.values import Shared, handing, shared_of

QUICK = {"xla_backend_optimization_level": 0}


def trial(rows, m=64, seed=0, **options):
    stopping = krogh.Stopping(budget=20, check_every=10, validation=rows.test_rows, early=False)
    training = krogh.Training(krogh.Sgd(0.05), krogh.Epochs(m, 16), stopping)
    return krogh.Trial(krogh.Table(rows, **options), krogh.DeepMlp((8,)), training, seed=seed)


def test_shared_arrays_are_known_by_their_content():
    one, same, other = (Shared("a", {"x": np.arange(size)}) for size in (3, 3, 4))
    assert one == same and hash(one) == hash(same) and one != other and one != Shared("b", {"x": np.arange(3)})
    assert one["x"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        one.arrays["x"][0] = 5
    assert shared_of(trial(rows := parity_rows(100, 4, 2))) == {rows.checksum: rows}
    assert shared_of(krogh.Parity(n=4, k=2)) == {}


def test_inside_a_program_they_are_its_argument():
    shared = Shared("a", {"x": np.arange(3.0, dtype=np.float32)})

    def doubled(arrays):
        with handing(arrays):
            return 2 * shared["x"]

    given = {shared.checksum: {"x": jnp.ones(3)}}
    assert jax.jit(doubled)(given).tolist() == [2, 2, 2]
    assert not jax.make_jaxpr(doubled)(given).consts
    assert shared["x"].tolist() == [0, 1, 2], "and afterwards themselves again"


@pytest.mark.slow
def test_a_trials_state_holds_row_numbers_and_its_program_no_rows(monkeypatch):
    small, large = (trial(parity_rows(count, 50, 2)) for count in (200, 20_000))
    small, large = (stack([one])[0].fitted().template for one in (small, large))
    assert footprint(large).state == footprint(small).state
    monkeypatch.setattr(compiling, "compiler_options", lambda *_: QUICK)
    texts = []
    lower = jax.stages.Lowered.compile

    def compile_(self, *given, **options):
        texts.append(self.as_text())
        return lower(self, *given, **options)

    monkeypatch.setattr(jax.stages.Lowered, "compile", compile_)
    compiling._compile(large, Plan(2, 2), jax.local_devices()[0])
    assert "tensor<20000x50xf32>" in texts[0] and len(texts[0]) < 1_000_000


@pytest.mark.slow
def test_learners_and_networks_of_a_split_have_the_same_rows_and_results_do_not_depend_on_neighbours():
    rows = parity_rows(400, 4, 1)
    (cohort,) = stack([trial(rows, m) for m in (64, 100)])
    table = krogh.run(cohort.seeded(range(3), ("task.split",)))
    assert table["task.split"].to_list() == table["seed"].to_list() == [0, 1, 2] * 2
    alone = krogh.run(trial(rows, 100, seed=2, split=2))
    assert alone["id"][0] == table["id"][5] and alone["error"][0] == table["error"][5]
    with pytest.raises(KroghError, match=r"unknown field of the trial 'task\.spilt'"):
        cohort.seeded(range(3), ("task.spilt",))
