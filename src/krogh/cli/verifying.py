"""`krogh verify`: does the accelerator compute what the CPU computes, and what would full precision cost?"""

from __future__ import annotations

import dataclasses
import functools
import json
import time
from collections.abc import Iterator
from typing import Any

import jax
from rich.console import Console
from rich.markup import escape

from krogh import registry
from krogh.cli.inspecting import parse_settings
from krogh.cli.running import matching
from krogh.engine import Trials
from krogh.engine.agreement import LEVEL, SLACK, Finding, Run, bench, compare, judge, law_finding, many, timed_run
from krogh.engine.compiling import release, request_program
from krogh.engine.inheriting import without_parents
from krogh.engine.memory import plan
from krogh.errors import KroghError, require, require_integer, unknown
from krogh.lab.display import Display, time_left
from krogh.lab.experiment import SCALES
from krogh.models.base import Learner
from krogh.numbers import json_number

AT_ONCE = 100  # networks of a structure whose speed is compared: enough for their law, one program each


def verify_devices(
    names: tuple[str, ...],
    scale: str,
    changes: tuple[str, ...],
    *,
    trials: int,
    seconds: float,
    precision: bool,
    as_json: bool,
) -> int:
    """Compare the first and the last structure of every experiment; 1 if some do not agree."""
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    require_integer("trials", trials, 8)
    require(seconds > 0, f"seconds must be positive; got seconds={seconds}")
    chosen = matching(names)
    device, reference = jax.local_devices()[0], jax.local_devices(backend="cpu")[-1]
    if device is reference:
        raise KroghError("this machine has one device, a CPU: there is nothing to compare it with")
    console = Console(stderr=as_json, soft_wrap=True)
    settings = parse_settings(changes)
    about = {"device": str(device), "kind": device.device_kind, "reference": str(reference), "jax": jax.__version__}
    with Display(console, "verify") as display:
        structures: list[tuple[dict[str, Any], Trials]] = []
        for name in chosen:
            display.tell(0, None, f"planning {name}")
            structures += _structures(name, scale, settings)
        if precision:
            rows = _precisions(structures, device, seconds, display)
            wrong = False
        else:
            rows = _comparisons(structures, device, reference, trials, seconds, display)
            about |= {"level": LEVEL, "slack": SLACK}
            wrong = not all(row["agrees"] for row in rows)
    if as_json:
        print(json.dumps({**about, "scale": scale, "rows": rows}, indent=2))
    return 1 if wrong else 0


class Pace:
    """Which of the structures is under way, and how long the rest may take.

    Until one is done the estimate is what was allowed, `seconds` for each of its stages; then it is by the pace so far,
    compilation included. What takes longer than expected has no estimate.
    """

    def __init__(self, display: Display, total: int, stages: int, seconds: float) -> None:
        self._display, self._total, self._allowed = display, total, stages * seconds
        self._done, self._began, self._since = 0, time.monotonic(), time.monotonic()

    def seconds_left(self) -> float | None:
        spent = self._since - self._began
        each = spent / self._done if self._done else self._allowed
        left = each * (self._total - self._done) - (time.monotonic() - self._since)
        return left if left > 0 else None

    def tell(self, head: dict[str, Any], stage: str, *, now: bool = False) -> None:
        state = f"{_name(head)}: {stage}{time_left(self.seconds_left())}"
        self._display.tell(self._done, self._total, state, now=now)

    def finished(self) -> None:
        self._done, self._since = self._done + 1, time.monotonic()


def _structures(name: str, scale: str, settings: dict[str, str]) -> Iterator[tuple[dict[str, Any], Trials]]:
    """The first and the last cohort of an experiment, often the smallest and the largest; none that learns on the
    host."""
    experiment = registry.EXPERIMENTS[name]()
    cohorts = list(experiment.trials(experiment.settings(scale, settings)))
    for cohort in cohorts[:1] if len(cohorts) < 2 else (cohorts[0], cohorts[-1]):
        if not isinstance(cohort.template.model, Learner):
            task, model = cohort.template.task.kind, cohort.template.model.kind
            yield {"experiment": name, "task": task, "model": model, **cohort.labels}, cohort


def _comparisons(
    structures: list[tuple[dict[str, Any], Trials]],
    device: Any,
    reference: Any,
    trials: int,
    seconds: float,
    display: Display,
) -> list[dict[str, Any]]:
    """A row for every structure and comparison. Laws are judged together at the end."""
    heads: list[dict[str, Any]] = []
    findings: list[Finding] = []
    failed: list[dict[str, Any]] = []
    console, pace = display.console, Pace(display, len(structures), 3, seconds)
    for head, cohort in structures:
        pace.tell(head, "planning", now=True)
        try:
            pair = bench(cohort, device, reference, trials, seconds=seconds)
            head = {**head, "path": "resident" if pair.size.resident else "xla"}
            found = compare(pair, functools.partial(pace.tell, head))
        except Exception as cause:  # one structure that cannot be compared does not hide the others
            failed.append({**head, "comparison": "all", "agrees": False, "error": _one_line(cause)})
            console.print(f"[red]✗[/red] {escape(_name(head))}  {escape(failed[-1]['error'])}", highlight=False)
            pace.finished()
            continue
        for finding in found:
            heads.append(head)
            findings.append(finding)
            if finding.agrees is not None:
                console.print(_line(head, finding), highlight=False)
        release()
        pace.finished()
    findings = judge(findings)
    for head, finding in zip(heads, findings, strict=True):
        if finding.p_values:
            console.print(_line(head, finding), highlight=False)
    rows = [{**head, **dataclasses.asdict(found)} for head, found in zip(heads, findings, strict=True)]
    return [_plain(row) for row in rows] + failed


def _line(head: dict[str, Any], found: Finding) -> str:
    mark = "[green]✓[/green]" if found.agrees else "[red]✗[/red]"
    if found.comparison == "law":
        about = found.details
        text = (
            f"p = {found.amount:.2g} ({found.where}), {found.trials} trials of at most {about['budget']:,.0f} steps: "
            f"{about['converged']:.0%} converged, {about['converged_reference']:.0%} on the reference, "
            f"{about['same_outcome']:.0%} with the same outcome, {about['close_time']:.0%} of times within 2%"
        )
    else:
        text = f"off by {found.amount:.2g} times what rounding explains (allowed: {SLACK:g})"
        text += "" if found.agrees else f": {found.where}"
    return f"{mark} {escape(_name(head))}  {found.comparison}: {escape(text)}"


def _precisions(
    structures: list[tuple[dict[str, Any], Trials]], device: Any, seconds: float, display: Display
) -> list[dict[str, Any]]:
    """What full float32 products cost, and whether they change outcomes: first all programs as they are, then all with
    full products, so that the compiler can work on many at a time."""
    cohorts = [many(without_parents(cohort).fitted(), AT_ONCE) for _, cohort in structures]
    known = getattr(jax.config, "jax_default_matmul_precision", None)
    runs: dict[str, list[Run | str]] = {}
    plans = [plan(cohort.template, AT_ONCE, device) for cohort in cohorts]
    console, pace = display.console, Pace(display, 2 * len(structures), 1, seconds)
    for precision in ("default", "highest"):
        jax.config.update("jax_default_matmul_precision", known if precision == "default" else "highest")
        asked = [
            None if size.resident else request_program(cohort.template, size, device)[0]
            for cohort, size in zip(cohorts, plans, strict=True)
        ]
        runs[precision] = []
        for place, (cohort, size) in enumerate(zip(cohorts, plans, strict=True)):
            before = runs.get("default", [])
            pace.tell(structures[place][0], f"{precision} products", now=place == 0)
            earlier = before[place] if precision == "highest" else None
            if size.resident:
                runs[precision].append("trained by the resident kernel, which has products of its own")
            elif isinstance(earlier, str):
                runs[precision].append(earlier)
            else:
                try:
                    budget = None if earlier is None else earlier.budget
                    runs[precision].append(timed_run(cohort, size, device, seconds, budget))
                except Exception as cause:  # one structure that cannot be trained does not hide the others
                    runs[precision].append(_one_line(cause))
            asked[place] = None
            pace.finished()
        release()
    jax.config.update("jax_default_matmul_precision", known)
    rows = []
    for place, (head, _) in enumerate(structures):
        ours, full = runs["default"][place], runs["highest"][place]
        if isinstance(ours, str) or isinstance(full, str):
            row = {**head, "error": ours if isinstance(ours, str) else full}
            text = str(row["error"])
        else:
            found = law_finding(ours.ends, full.ends, ours.budget)
            ratio = full.steps_per_second / ours.steps_per_second
            row = {**head, "steps_per_second": ours.steps_per_second, "highest": full.steps_per_second, "ratio": ratio}
            row |= {"trials": ours.trials, "p_values": found.p_values, "details": found.details}
            text = (
                f"full products run at {ratio:.0%} of the speed ({ours.steps_per_second:,.0f} trial-steps/s); "
                f"{ours.trials} trials of at most {ours.budget:,} steps: p = {found.amount:.2g} ({found.where}), "
                f"{found.details['converged']:.0%} converged, with full products "
                f"{found.details['converged_reference']:.0%}"
            )
        rows.append(_plain(row))
        console.print(f"{escape(_name(head))}  {escape(text)}", highlight=False)
    return rows


def _name(head: dict[str, Any]) -> str:
    return f"{head['experiment']}  {head['task']}, {head['model']}"


def _one_line(cause: Exception) -> str:
    return (str(cause).splitlines() or [repr(cause)])[0] or repr(cause)


def _plain(value: Any) -> Any:
    """Numbers that JSON can hold."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return json_number(value) if isinstance(value, float) else value
