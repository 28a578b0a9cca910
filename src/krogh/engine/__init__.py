"""How trials become one program: trial, cohort, memory plan, lanes, records.

    trial.py      task + model + training + seed, a value
    start.py      where its weights come from: drawn, given, or another trial's
    shapes.py     what must fit together, looked at when a trial is made
    cohort.py     trials of one structure, stacked; sweeps
    round.py      the steps between two checks: the only place where weights are trained
    checking.py   converged, failed or diverged?
    program.py    everything that happens on the device between two looks from the host
    memory.py     how many trials are in flight
    compiling.py  programs, compiled ahead of time, kept on disk, released when nobody needs them
    lane.py       one device's slots: fill, advance, harvest, compact
    inheriting.py parents before children, and what they leave them
    phases.py     trainings in phases, each a trial that begins where the last one ended
    outside.py    learners on the host, whose trials are like any other
    executor.py   workers that take lanes in turn, on every device
    sending.py    shares of cohorts that another process trains, and the modules they need
    cluster.py    an executor whose workers are tasks of a Ray cluster; shares.py: how much each is given
    records.py    what trials leave behind, as a table
    agreement.py  whether two devices train the same

The engine knows trials, not experiments.
"""

from krogh.engine.cohort import Trials, family, stack, sweep
from krogh.engine.executor import run_cohort, run_cohorts
from krogh.engine.inheriting import Weights
from krogh.engine.lane import Usage
from krogh.engine.records import as_cohorts
from krogh.engine.start import FINAL, Drawn, Given, Inherited, Pruning, Start
from krogh.engine.trial import Trial

__all__ = [
    "FINAL",
    "Drawn",
    "Given",
    "Inherited",
    "Pruning",
    "Start",
    "Trial",
    "Trials",
    "Usage",
    "Weights",
    "as_cohorts",
    "family",
    "run_cohort",
    "run_cohorts",
    "stack",
    "sweep",
]
