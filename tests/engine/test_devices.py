"""Several devices: all are used, and nobody can tell from the records."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import krogh

SCRIPT = """
import json, threading
import jax, krogh
from krogh.engine import executor
from krogh.engine.lane import Lane
from krogh.engine.memory import Plan

assert len(jax.local_devices()) == 4
together, used = threading.Barrier(4, timeout=120), set()

class Spied(Lane):
    def __post_init__(self):
        super().__post_init__()
        together.wait()  # nobody takes a trial before all have compiled

    def advance(self):
        assert self._states.step.devices() == {self.device}
        used.add(self.device.id)
        return super().advance()

executor.Lane = Spied
training = krogh.Training(
    optimiser=krogh.Sgd(rate=0.1),
    regime=krogh.Online(batch_size=8),
    stopping=krogh.Stopping(budget=500, validation=40),
)
trial = krogh.Trial(krogh.Parity(n=6, k=2), krogh.Mlp(width=8, output_bias=True), training)
(cohort,) = krogh.sweep(trial, seed=range(64))
rows = {}
for part in executor.run_cohort(cohort, keep_weights=True, plan_override=Plan(4, 1)):
    for place, position in enumerate(part.position.tolist()):
        assert position not in rows
        bits = part.loss[place].tobytes() + part.weights["W"][place].tobytes()
        rows[position] = [int(part.reached[place]), bits.hex()]
print(json.dumps({"devices": sorted(used), "rows": [rows[position] for position in range(64)]}))
"""


@pytest.mark.slow
def test_four_devices_give_the_records_of_one(train, base, one_by_one):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout.splitlines()[-1])
    assert told["devices"] == [0, 1, 2, 3]
    (cohort,) = krogh.sweep(base, seed=range(64))
    for position, record in train(cohort, plan_override=one_by_one).items():
        bits = record.loss.tobytes() + record.weights["W"].tobytes()
        assert told["rows"][position] == [record.reached, bits.hex()]
