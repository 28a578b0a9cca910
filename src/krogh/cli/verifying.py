"""`krogh verify`: does the accelerator train what the CPU trains?"""

from __future__ import annotations

import json
from typing import Any

import jax
from rich.console import Console

from krogh import registry
from krogh.cli.inspecting import parse_settings
from krogh.cli.running import matching
from krogh.engine import Trials
from krogh.engine.agreement import TOLERANCE, agreement
from krogh.errors import KroghError, unknown
from krogh.lab.experiment import SCALES


def verify_devices(names: tuple[str, ...], scale: str, changes: tuple[str, ...], as_json: bool) -> int:
    """Compare the first and the last structure of every experiment; 1 if some do not agree."""
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    chosen = matching(names)
    device, reference = jax.local_devices()[0], jax.local_devices(backend="cpu")[-1]
    if device is reference:
        raise KroghError("this machine has one device, a CPU: there is nothing to compare it with")
    settings = parse_settings(changes)
    console, rows = Console(stderr=as_json), []
    for name in chosen:
        experiment = registry.EXPERIMENTS[name]()
        cohorts = list(experiment.trials(experiment.settings(scale, settings)))
        for cohort in _ends(cohorts):
            result = agreement(cohort, device, reference)
            row = {"experiment": name, "task": cohort.template.task.kind, "model": cohort.template.model.kind}
            rows.append(row | {"difference": result.difference, "where": result.where, "agrees": result.agrees})
            mark = "[green]✓[/green]" if result.agrees else "[red]✗[/red]"
            text = f"{mark} {name}  {row['task']}, {row['model']}: {result.difference:.2g} after {result.steps} steps"
            console.print(text + ("" if result.agrees else f" ({result.where})"), highlight=False)
    answer: dict[str, Any] = {"device": str(device), "reference": str(reference), "tolerance": TOLERANCE, "rows": rows}
    if as_json:
        print(json.dumps(answer, indent=2))
    return 0 if all(row["agrees"] for row in rows) else 1


def _ends(cohorts: list[Trials]) -> list[Trials]:
    """The first and the last: often the smallest and the largest."""
    return cohorts[:1] if len(cohorts) < 2 else [cohorts[0], cohorts[-1]]
