"""A study of 10^6 trials: opened, filtered and aggregated; and how long `krogh list` and `krogh show` take.

    python benchmarks/store_speed.py 1000000

The study's table is written as `krogh run` writes it (35 columns), with made-up records.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import krogh
from krogh.engine.lane import Finished
from krogh.engine.records import record_table
from krogh.files import STUDY_SCHEMA
from krogh.lab.store import Store
from krogh.lab.study import write_table

COHORTS = 20


def write_study(folder: Path, trials: int) -> np.ndarray:
    """A finished study of so many trials in `COHORTS` cohorts; their identities."""
    stopping = krogh.Stopping(budget=100_000, validation=128)
    training = krogh.Training(krogh.Sgd(rate=0.1), krogh.Online(32), stopping)
    base = krogh.Trial(krogh.Parity(n=30, k=3), krogh.Mlp(width=10), training)
    widths = {"model.width": range(10, 10 + COHORTS)}
    cohorts = krogh.sweep(base, **widths, seed=range(trials // COHORTS))
    store, numbers = Store(folder / "cohorts"), np.random.default_rng(0)
    ids = [cohort.ids() for cohort in cohorts]
    for place, (cohort, own) in enumerate(zip(cohorts, ids, strict=True)):
        steps = (10 * numbers.geometric(0.005, len(own))).astype(np.int32)
        loss = numbers.random(len(own), np.float32)
        status = np.where(numbers.random(len(own)) < 0.9, 1, 2).astype(np.int32)
        zero = np.zeros(len(own), np.float32)
        finished = Finished(np.arange(len(own)), status, steps, steps, zero, np.ones(len(own), np.int32), loss)
        store.add_ended([(f"{place:016x}", record_table(cohort, own, finished, place * len(own)))])
    everyone = np.concatenate(ids)
    write_table(folder / "trials.parquet", cohorts, ids, store.scan(everyone).collect(), {})
    summary: dict[str, Any] = {"schema": STUDY_SCHEMA, "name": "made/up", "scale": "paper", "settings": {}}
    summary |= {"started": "now", "seconds": 1.0, "engine": {}, "status": "complete", "command": "", "figures": []}
    (folder / "study.json").write_text(json.dumps(summary))
    return everyone


def timed(what: str, action: Callable[[], Any]) -> Any:
    begun, spent = time.perf_counter(), time.process_time()
    found = action()
    seconds, spent = time.perf_counter() - begun, time.process_time() - spent
    print(f"{what:<60}{seconds:>7.2f} s {spent:>7.2f} s of CPU", flush=True)
    return found


def main(trials: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        everyone = write_study(folder, trials)

        def answer() -> pl.DataFrame:
            """The three together: what should take less than two seconds."""
            records = krogh.open_study(folder).records
            slow = records.filter((pl.col("outcome") == "converged") & (pl.col("convergence_time") > 500))
            return slow.group_by("model.width").agg(pl.len(), pl.col("convergence_time").median()).collect()

        print(f"{trials:,} trials")
        assert len(timed("open, filter, aggregate by width, lazily", answer)) == COHORTS
        timed("once more", answer)
        table = timed("the whole table in memory", lambda: krogh.open_study(folder).table)
        assert table.shape[0] == trials
        store = Store(folder / "cohorts")
        timed("the store: which trials are there", store.ids)
        timed("the store: its files checked", store.check)
        timed("the store: all records, in order", lambda: store.scan(everyone).collect())
    for command in (["list"], ["show", "parity/histogram"]):
        for number in ("first", "again"):
            call = [sys.executable, "-m", "krogh", *command]
            timed(f"krogh {' '.join(command)}, {number}", lambda: subprocess.run(call, check=True, capture_output=True))  # noqa: B023


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
