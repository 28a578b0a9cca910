"""A million trials of (n, k) = (30, 3) to convergence, stored and plotted: `parity/histogram` at paper scale."""

from __future__ import annotations

import resource
import tempfile
import time
from typing import Any

from krogh import registry
from krogh.lab.study import run_study


def histogram_study(trials: int = 1_000_000) -> dict[str, Any]:
    """Wall-clock seconds of the whole study, its engine accounting and the peak memory of the process."""
    experiment = registry.EXPERIMENTS["parity/histogram"]()
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        study = run_study(experiment, "paper", folder, changes={"trials": trials})
        seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"trials": trials, "seconds": seconds, "peak_rss_mib": peak, **study.summary["engine"]}
