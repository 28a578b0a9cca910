"""What every experiment is made of: estimates, claims, measures, figures, and the study that keeps them.

    experiment.py   a question in four steps: trials, measure, claims, figures; tables between them
    settings.py     what a setting may be, declared where it stands
    results.py      records and trained networks, to measure on
    estimate.py     one kind of number with uncertainty, and the rules that make it
    curves.py       estimates over a size, read off a table by groups
    fits.py         laws of growth fitted to curves
    times.py, survival.py        the shape of a sample of convergence times
    sample_complexity.py         success counts and where they cross a rate
    frontier.py, search.py, searching.py   the smallest size that succeeds, by a search that trains a fraction
    replay.py       such a search on trials that were all trained already: what it would have found and spent
    claims.py       a statistic, a threshold and a verdict
    charts.py       figures that gather the data they draw; figures.py, labels.py: one look for all
    study.py        an experiment at a scale, run into a folder, resumed and judged from it
    collecting.py   training what is missing, with progress
    folder.py, store.py, weights.py, sources.py, provenance.py   what a study's folder holds, and whether it is sound

Nothing here knows any particular experiment.
"""

from krogh.lab.charts import Chart, Figure
from krogh.lab.claims import Claim, Claims, need
from krogh.lab.curves import Curve, curves, groups, times_of
from krogh.lab.estimate import Estimate
from krogh.lab.experiment import Experiment, Tables, experiment
from krogh.lab.results import Network, Results
from krogh.lab.settings import setting
from krogh.lab.study import Study, judge_study, run_study
from krogh.lab.training import Progress

__all__ = [
    "Chart",
    "Claim",
    "Claims",
    "Curve",
    "Estimate",
    "Experiment",
    "Figure",
    "Network",
    "Progress",
    "Results",
    "Study",
    "Tables",
    "curves",
    "experiment",
    "groups",
    "judge_study",
    "need",
    "run_study",
    "setting",
    "times_of",
]
