"""`krogh bench`: all contestants in one run, as a table, and as a section of a Markdown file."""

from __future__ import annotations

import contextlib
import json
import resource
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from krogh import registry
from krogh.bench import baselines, workload
from krogh.bench.workload import Measured
from krogh.errors import require
from krogh.files import destination, write_atomically
from krogh.lab.sources import device_in_words, versions
from krogh.lab.study import run_study


def run_benchmark(seconds: float, *, million: bool, out: Path | None, as_json: bool) -> int:
    require(seconds > 0, f"seconds must be positive; got {seconds}")
    if out is not None:
        destination(out)
    measured: list[Measured] = []
    if baselines.available():
        measured += [baselines.eager(seconds), baselines.vmapped(seconds)]
    measured += [
        workload.krogh_alone(seconds),
        workload.krogh_training(seconds),
        workload.krogh_cohort(seconds),
    ]
    study = histogram_study() if million else None
    found: dict[str, Any] = {
        "device": device_in_words(),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": versions(),
        "speeds": {one.name: one.speed for one in measured},
        "million": study,
    }
    print(json.dumps(found, indent=2) if as_json else "\n".join(markdown(measured, found)))
    if out is not None:
        write_section(out, found["device"], markdown(measured, found))
    return 0


def histogram_study(trials: int = 1_000_000) -> dict[str, Any]:
    """A million trials of (n, k) = (30, 3) to convergence, stored and plotted: `parity/histogram` at paper scale.

    Wall-clock seconds of the whole study, its engine accounting and the peak memory of the process.
    """
    experiment = registry.EXPERIMENTS["parity/histogram"]()
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        study = run_study(experiment, "paper", folder, changes={"trials": trials})
        seconds = time.perf_counter() - begun
    peak = peak_kilobytes() / 1024
    return {"trials": trials, "seconds": seconds, "peak_rss_mib": peak, **study.summary["engine"]}


def peak_kilobytes() -> int:
    """The most memory that this process has held.

    Where the system has it, not `ru_maxrss`, which begins with what the process that started this one had held.
    """
    with contextlib.suppress(OSError, IndexError):
        return int(Path("/proc/self/status").read_text(encoding="ascii").split("VmHWM:")[1].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def markdown(measured: list[Measured], found: dict[str, Any]) -> list[str]:
    """The measurements as a Markdown section."""
    base = measured[0].speed
    used = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    lines = [
        f"### {found['device']}",
        "",
        f"Measured {found['date']} in one run; {used}.",
        "",
        f"| contestant | networks | trial-steps/s | × {measured[0].name} |",
        "| --- | ---: | ---: | ---: |",
    ]
    lines += [f"| {one.name} | {one.trials:,} | {one.speed:,.0f} | {one.speed / base:,.1f} |" for one in measured]
    if found["million"]:
        study = found["million"]
        lines += [
            "",
            f"`parity/histogram` at paper scale ({study['trials']:,} trials of (30,3) to convergence, stored and "
            f"plotted): {study['seconds']:.1f} s in all, {study['trial_steps_per_second']:,.0f} trial-steps/s, "
            f"{study['wasted_share']:.1%} of the steps wasted, peak host memory {study['peak_rss_mib']:,.0f} MiB.",
        ]
    return lines


def write_section(path: Path, device: str, lines: list[str]) -> None:
    """Replace the device's section of a Markdown file, or add it."""
    text = path.read_text() if path.exists() else "# Performance\n"
    begin, end = f"<!-- measured: {device} -->", "<!-- end -->"
    section = "\n".join([begin, *lines, end])
    if begin in text:
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(end)
        text = head + section + tail
    else:
        text = text.rstrip() + "\n\n" + section + "\n"
    write_atomically(destination(path), text.encode())
