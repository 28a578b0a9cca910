"""`krogh plan` beside what the same study then takes, on whatever device is here.

    python benchmarks/plan_accuracy.py parity/histogram:laptop:trials=1500 chains/phases:smoke

Each study is planned and run in processes of their own, without programs from disk. Training is what the engine counts,
from the first compilation to the last record.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def krogh(*arguments: str) -> str:
    command = [sys.executable, "-m", "krogh", *arguments]
    given = {**os.environ, "KROGH_CACHE": "off"}
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, env=given).stdout


def compared(case: str) -> dict[str, Any]:
    name, scale, *settings = case.split(":")
    asked = [name, "--scale", scale, *(word for one in settings for word in ("--set", one))]
    (planned,) = json.loads(krogh("plan", *asked, "--json"))
    with tempfile.TemporaryDirectory() as folder:
        krogh("run", *asked, "--out", folder, "--json")
        study = json.loads((Path(folder) / name / "study.json").read_text())
    engine = study["engine"]
    return {
        "case": case,
        "cohorts": planned["cohorts"],
        "planned": planned["wall_seconds"]["expected"],
        "measured": engine["training_seconds"],
        "steps": engine["useful_steps"] / max(1, planned["trial_steps"]["expected"]),
        "all": study["seconds"],
    }


def main(cases: list[str]) -> None:
    print("| study | cohorts | planned | training | planned / training | steps, measured / planned | with measuring |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for case in cases:
        found = compared(case)
        ratio = found["planned"] / found["measured"] if found["measured"] else float("nan")
        print(
            f"| `{case}` | {found['cohorts']} | {found['planned']:.1f} s | {found['measured']:.1f} s | {ratio:.2f} | "
            f"{found['steps']:.2f} | {found['all']:.1f} s |",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:] or ["parity/histogram:smoke"])
