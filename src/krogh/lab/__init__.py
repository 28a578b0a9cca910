"""What every experiment is made of: estimates, claims, measures, figures, and the study that keeps them.

    experiment.py   a question in four steps: trials, measure, claims, figures; tables between them
    settings.py     what a setting may be, declared where it stands
    results.py      records and trained networks, to measure on
    estimate.py     one kind of number with uncertainty, and the rules that make it
    curves.py       estimates over a size, read off a table by groups
    fits.py         laws of growth fitted to curves
    times.py        the distribution of convergence times, and the shape of it
    sample_complexity.py   success counts and where they cross a rate
    frontier.py     the smallest size that succeeds, as a posterior; search.py: several at once, training a fraction
    surface.py      such frontiers over two axes, rows borrowing from each other; falls are found and said
    replay.py       such a search on trials that were all trained already: what it would have found and spent
    claims.py       a statistic, a threshold and a verdict
    charts.py       figures that gather the data they draw; figures.py: one look for all
    study.py        an experiment at a scale, run into a folder, resumed and judged from it
    training.py     training what is missing, with progress; display.py: how that is shown
    runs.py         `krogh.run`: trials without a question, in memory or into a folder
    opening.py      a study read from its folder; exporting.py: its table for pandas, xarray and CSV
    frames.py       what views see at the snapshots of a study, for a page that replays its training
    store.py        records on disk; weights.py: trained weights; sources.py: what both were made of
    remote.py       a study at a URL, brought into a mirror and sent from it; sites.py: the place that a URL names
    members.py      processes at work on one study; sharing.py: what they give each other; costs.py: what each has spent
    planning.py     what a study would cost
    mathtext.py     words of a figure set as mathematics; alternative.py: a figure in words
    tracking.py     a study as a run of MLflow or Weights & Biases

Nothing here knows any particular experiment. What the rules of estimates cover, and which function is for what, is in
docs/statistics.md.
"""

from krogh.lab.charts import Chart, Figure
from krogh.lab.claims import Claim, Claims, need
from krogh.lab.curves import Curve, curves, exact_curve, groups, look_table, mean_samples, times_of
from krogh.lab.estimate import (
    Estimate,
    maximum,
    mean,
    mean_time,
    median,
    median_time,
    minimum,
    quantile,
    quantiles,
    rate,
    share_of,
)
from krogh.lab.experiment import Experiment, Tables, experiment, measured_tables
from krogh.lab.fits import (
    coarse_scaling,
    compare_growth,
    elbow,
    exponent,
    exponential_law,
    fit_growth,
    growth_evidence,
    law_preference,
    power_law,
)
from krogh.lab.results import Network, Results
from krogh.lab.sample_complexity import crossing, crossings, run_success, smallest_size, success_rates, trial_success
from krogh.lab.settings import setting
from krogh.lab.study import Study, judge_study, run_study
from krogh.lab.surface import Surface, surface
from krogh.lab.times import (
    Grokking,
    early_luck,
    ecdf,
    first_times,
    geometric_p_value,
    intraclass_correlation,
    kaplan_meier,
    ks_distance,
    plateau_fraction,
    predictiveness,
    skewness,
)
from krogh.lab.training import Progress

__all__ = [
    "Chart",
    "Claim",
    "Claims",
    "Curve",
    "Estimate",
    "Experiment",
    "Figure",
    "Grokking",
    "Network",
    "Progress",
    "Results",
    "Study",
    "Surface",
    "Tables",
    "coarse_scaling",
    "compare_growth",
    "crossing",
    "crossings",
    "curves",
    "early_luck",
    "ecdf",
    "elbow",
    "exact_curve",
    "experiment",
    "exponent",
    "exponential_law",
    "first_times",
    "fit_growth",
    "geometric_p_value",
    "groups",
    "growth_evidence",
    "intraclass_correlation",
    "judge_study",
    "kaplan_meier",
    "ks_distance",
    "law_preference",
    "look_table",
    "maximum",
    "mean",
    "mean_samples",
    "mean_time",
    "measured_tables",
    "median",
    "median_time",
    "minimum",
    "need",
    "plateau_fraction",
    "power_law",
    "predictiveness",
    "quantile",
    "quantiles",
    "rate",
    "run_study",
    "run_success",
    "setting",
    "share_of",
    "skewness",
    "smallest_size",
    "success_rates",
    "surface",
    "times_of",
    "trial_success",
]
