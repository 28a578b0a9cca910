"""Several devices: all are used, nobody can tell from the records, and some of them can be chosen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest

import krogh
from krogh.engine import devices, executor
from krogh.errors import KroghError
from krogh.values import replaced

COMMON = """
import json, sys, threading, time
from collections import Counter
import jax, krogh
from krogh.engine import compiling, executor
from krogh.engine.lane import Lane
from krogh.engine.memory import Plan, plan
from krogh.values import replaced

trained = Counter()  # trials by the device that trained them

class Spied(Lane):
    def advance(self):
        assert self._states.step.devices() == {self.device}
        finished = super().advance()
        trained[self.device.id] += 0 if finished is None else len(finished.position)
        return finished

executor.Lane = Spied
training = krogh.Training(
    optimiser=krogh.Sgd(rate=0.1),
    regime=krogh.Online(batch_size=8),
    stopping=krogh.Stopping(budget=500, validation=40),
)
base = krogh.Trial(krogh.Parity(n=6, k=2), krogh.Mlp(width=8, output_bias=True), training)
"""


@dataclass(frozen=True)
class Gpu:
    """As much of a device as choosing one looks at."""

    id: int
    platform: str = "gpu"
    device_kind: str = "Some GPU"


def on_four_devices(script: str, *arguments: object, **environment: str) -> dict:
    """What a script prints last, as JSON, where JAX sees a CPU as four devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    given = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, **environment}
    command = [sys.executable, "-c", COMMON + script, *map(str, arguments)]
    run = subprocess.run(command, env=given, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


BITS = """
together = threading.Barrier(4, timeout=120)

class Waiting(Spied):
    def __post_init__(self):
        super().__post_init__()
        together.wait()  # nobody takes a trial before all have compiled

executor.Lane = Waiting
(cohort,) = krogh.sweep(base, seed=range(64))
rows = {}
for part in executor.run_cohort(cohort, keep_weights=True, plan_override=Plan(4, 1)):
    for place, position in enumerate(part.position.tolist()):
        assert position not in rows
        bits = part.loss[place].tobytes() + part.weights["W"][place].tobytes()
        rows[position] = [int(part.reached[place]), bits.hex()]
print(json.dumps({"trained": trained, "rows": [rows[position] for position in range(64)]}))
"""


@pytest.mark.slow
def test_four_devices_give_the_records_of_one(train, base, one_by_one):
    told = on_four_devices(BITS)
    assert sorted(told["trained"]) == ["0", "1", "2", "3"] and sum(told["trained"].values()) == 64
    assert min(told["trained"].values()) >= 4  # nobody is left out
    (cohort,) = krogh.sweep(base, seed=range(64))
    for position, record in train(cohort, plan_override=one_by_one).items():
        bits = record.loss.tobytes() + record.weights["W"].tobytes()
        assert told["rows"][position] == [record.reached, bits.hex()]


HEIRS = """
from krogh.engine import Inherited
turns = krogh.sweep(base, **{"model.width": [8, 12, 16, 20], "seed": [5]})
krogh.run(turns).write_parquet(sys.argv[1] + "/turns.parquet")
in_turn, trained = dict(trained), Counter()
parent = replaced(base, "training.stopping.budget", 60)
child = replaced(base, "start", Inherited(parent))
from krogh.engine.cohort import family
kept = krogh.Weights()
table = krogh.run([family(parent, range(12)), family(child, range(12))], weights=kept)
table.write_parquet(sys.argv[1] + "/heirs.parquet")
chosen, trained = dict(trained), Counter()
print(json.dumps({"turns": in_turn, "heirs": chosen, "kept": len(kept)}))
"""


@pytest.mark.slow
def test_few_trials_take_turns_and_children_find_their_parents_weights(base, tmp_path):
    from krogh.engine import Inherited
    from krogh.engine.cohort import family

    told = on_four_devices(HEIRS, tmp_path)
    assert told["turns"] == {"0": 1, "1": 1, "2": 1, "3": 1}
    assert sum(told["heirs"].values()) == 24 and told["kept"] == 24
    turns = krogh.run(krogh.sweep(base, **{"model.width": [8, 12, 16, 20], "seed": [5]}))
    assert pl.read_parquet(tmp_path / "turns.parquet").equals(turns)
    parent = replaced(base, "training.stopping.budget", 60)
    child = replaced(base, "start", Inherited(parent))
    heirs = krogh.run([family(parent, range(12)), family(child, range(12))], weights=krogh.Weights())
    assert pl.read_parquet(tmp_path / "heirs.parquet").equals(heirs)
    assert set(heirs["path"].to_list()) == {"xla"}


SEARCH = """
import numpy as np
from krogh.engine.checking import CONVERGED
from krogh.lab.frontier import Rule
from krogh.lab.search import Dispatcher, Problem, Search

offline = replaced(base, "training.regime", krogh.Offline(m=8, batch_size=8))
sizes = [8, 16, 32, 64]
cohorts = krogh.sweep(offline, **{"training.regime.m": sizes, "seed": range(40)})
template = cohorts[0].fitted().template
for device in executor.lanes_here():
    compiling.request_program(template, plan(template, 1, device), device)[0].result()
firsts = np.cumsum([0, *map(len, cohorts)])
problems = [
    Problem(place, {size: range(first + 40 * i, first + 40 * (i + 1)) for i, size in enumerate(sizes)})
    for place, first in enumerate(firsts[:-1].tolist())
]
search = Search(problems, width=8, rule=Rule(budget=60))
dispatcher = Dispatcher(search, cohorts, {})
seen = set()
for place, finished in executor.run_cohorts(cohorts, dispatcher.waiting):
    if finished is not None:
        ids = (firsts[place] + finished.position).tolist()
        assert not seen & set(ids)
        seen.update(ids)
        dispatcher.report(place, finished.position, finished.status == CONVERGED)
print(json.dumps({"trained": trained, "trials": search.trials, "seen": len(seen), "over": search.over()}))
"""


@pytest.mark.slow
def test_a_search_keeps_all_devices_busy_or_those_that_were_chosen():
    told = on_four_devices(SEARCH)
    assert told["over"] and told["trials"] == told["seen"] == sum(told["trained"].values())
    assert {number for number, count in told["trained"].items() if count} == {"0", "1", "2", "3"}
    some = on_four_devices(SEARCH, KROGH_DEVICES="3,1")
    assert some["over"] and {number for number, count in some["trained"].items() if count} == {"1", "3"}


def test_devices_are_chosen_by_number_and_an_error_says_which_there_are(monkeypatch):
    there = [Gpu(number) for number in range(3)]
    monkeypatch.setattr(devices.jax, "local_devices", lambda: there)
    monkeypatch.setenv(devices.CHOICE, " 2, 0,2 ")
    assert [device.id for device in devices.devices_here()] == [2, 0]
    assert [device.id for device in executor.lanes_here()] == [2, 2, 0, 0]
    for wrong in ("3", "0,seven", ","):
        monkeypatch.setenv(devices.CHOICE, wrong)
        with pytest.raises(KroghError, match=r"no device .* here: there are 0, 1, 2 \(Some GPU\)"):
            devices.devices_here()
    monkeypatch.delenv(devices.CHOICE)
    assert devices.devices_here() == there


def test_cohorts_of_few_trials_go_round_the_devices(monkeypatch):
    there = [Gpu(number) for number in range(4)]
    monkeypatch.setattr(executor, "lanes_here", lambda: [device for device in there for _ in range(2)])
    assert [executor.lanes_for(10, place, False)[0].id for place in range(6)] == [0, 1, 2, 3, 0, 1]
    spread = executor.lanes_for(10_000, 0, False)
    assert np.bincount([device.id for device in spread]).tolist() == [2, 2, 2, 2]
