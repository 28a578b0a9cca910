"""How trials become one program: trial, cohort, memory plan, lanes, records.

    trial.py      task + model + training + seed, a value
    cohort.py     trials of one structure, stacked; sweeps
    round.py      the steps between two checks: the only place where weights are trained
    checking.py   converged, failed or diverged?
    program.py    everything that happens on the device between two looks from the host
    memory.py     how many trials are in flight
    compiling.py  programs, compiled ahead of time and released when nobody needs them
    disk.py       programs kept for the next process
    lane.py       one device's slots: fill, advance, harvest, compact
    run.py        workers that take lanes in turn, on every device
    records.py    what trials leave behind, as a table
    agreement.py  whether two devices train the same

The engine knows trials, not experiments.
"""

from krogh.engine.cohort import Trials, stack, sweep
from krogh.engine.lane import Usage
from krogh.engine.records import run
from krogh.engine.run import run_cohort, run_cohorts
from krogh.engine.trial import Trial

__all__ = ["Trial", "Trials", "Usage", "run", "run_cohort", "run_cohorts", "stack", "sweep"]
