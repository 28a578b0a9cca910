"""What every experiment is made of: experiment, claim, scale, statistics, store, study and figures.

    experiment.py   a question: settings per scale, trials, claims, figures
    claim.py        a statistic with an interval, a threshold and a verdict
    study.py        an experiment at a scale, run into a folder and resumed from it
    collecting.py   training what is missing, with progress
    folder.py       may this study be run into this folder?
    provenance.py   versions, device, time
    sources.py      what results are made of: digests of modules
    store.py        records on disk, by the trials' identities
    statistics.py, survival.py, fits.py, times.py   statistics that know what censoring is
    sample_complexity.py, measured.py, growth.py    sample sizes, their intervals, and how they grow
    frontier.py, search.py, searching.py            the smallest size that succeeds, by a search that trains a fraction
    figures.py, labels.py   one style for all figures

Nothing here knows any particular experiment.
"""

from krogh.lab.claim import Claim, claim, judge
from krogh.lab.collecting import Progress
from krogh.lab.experiment import Experiment, Figure, Results, convergence_times, experiment, setting
from krogh.lab.study import Study, run_study

__all__ = [
    "Claim",
    "Experiment",
    "Figure",
    "Progress",
    "Results",
    "Study",
    "claim",
    "convergence_times",
    "experiment",
    "judge",
    "run_study",
    "setting",
]
