"""A cohort of recurrent networks as one program, beside an eager PyTorch loop.

PYTHONPATH=src python3 benchmarks/recurrent_speed.py --out docs/performance.md
PYTHONPATH=src python3 benchmarks/recurrent_speed.py --length 20 --width 100 --trials 8

The ReLU Elman network of the theory (W and A trained, one label at the end, SGD) on sequences of `--length` tokens. A
cohort is timed by the steps that it does in one compiled call after it has run once; checks cost nothing here (one at
the end). The eager loops train one network: cell by cell as one would write the recursion, and through torch.nn.RNN.
A step of one network counts as 6·batch·length·(m² + m·d) floating-point operations.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import numpy as np

import krogh
from krogh.bench.baselines import available
from krogh.bench.table import write_section
from krogh.lab.sources import device_in_words, versions

DX, RATE = 3, 1e-4


def trials(length: int, width: int, batch: int, count: int, steps: int) -> krogh.Trials:
    weights = np.zeros((1, 1, length - 2, DX))
    weights[..., 0] = (length - 2) ** -0.5
    stopping = krogh.Stopping(budget=steps, error=0.0, check_every=steps, validation=16, early=False)
    training = krogh.Training(krogh.Sgd(RATE), krogh.Online(batch), stopping, "square", frozen=("B",))
    trial = krogh.Trial(krogh.tasks.WholeSequence(weights), krogh.models.ElmanRnn(width), training)
    (cohort,) = krogh.sweep(trial, seed=range(count))
    return cohort


def cohort_speed(arguments: argparse.Namespace, count: int) -> float:
    """Trial-steps per second: the longer of two runs, less the shorter, so that starting and ending cancel."""
    seconds = []
    for steps in (arguments.steps, 3 * arguments.steps):
        cohort = trials(arguments.length, arguments.width, arguments.batch, count, steps)
        krogh.run(cohort)  # compiles
        begun = time.perf_counter()
        krogh.run(cohort)
        seconds.append(time.perf_counter() - begun)
    return count * 2 * arguments.steps / (seconds[1] - seconds[0])


def eager_speeds(arguments: argparse.Namespace) -> dict[str, float]:
    """Steps per second of one network in PyTorch, written as a loop and with the library's recurrent layer."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    length, m, batch, d = arguments.length, arguments.width, arguments.batch, DX + 1
    W, A = (torch.randn(m, n, device=device).mul_((2 / m) ** 0.5).requires_grad_() for n in (m, d))
    B = torch.randn(m, device=device)
    layer = torch.nn.RNN(d, m, nonlinearity="relu", bias=False, batch_first=True).to(device)

    def drawn() -> tuple[Any, Any]:
        g = torch.nn.functional.normalize(torch.randn(batch, length - 2, DX - 1, device=device), dim=-1)
        tokens = torch.cat([0.75**0.5 * g, torch.full_like(g[..., :1], 0.5), torch.zeros_like(g[..., :1])], dim=-1)
        end = torch.zeros(batch, 1, d, device=device)
        end[..., -1] = 1.0
        return torch.cat([end, tokens, end], dim=1), (tokens[..., 0].sum(dim=1) / (length - 2) ** 0.5) ** 2

    def cell_by_cell(x: Any) -> Any:
        h = torch.zeros(batch, m, device=device)
        for place in range(length):
            h = torch.relu(h @ W.T + x[:, place] @ A.T)
        return h

    def step(states: Callable[[Any], Any], optimiser: Any) -> None:
        x, y = drawn()
        loss = ((states(x) @ B - y) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    loops = {
        "PyTorch, eager loop over positions": (cell_by_cell, [W, A]),
        "PyTorch, torch.nn.RNN": (lambda x: layer(x)[0][:, -1], list(layer.parameters())),
    }
    found = {}
    for name, (states, parameters) in loops.items():
        optimiser = torch.optim.SGD(parameters, lr=1e-6)
        found[name] = _rate(lambda s=states, o=optimiser: step(s, o), arguments.seconds, device)
    return found


def _rate(step: Callable[[], None], seconds: float, device: str) -> float:
    import torch

    for _ in range(3):
        step()
    done, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        step()
        done += 1
        if device == "cuda":
            torch.cuda.synchronize()
    return done / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("length", 100), ("width", 500), ("batch", 16), ("trials", 64), ("steps", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each PyTorch loop runs")
    parser.add_argument("--out", type=Path, help="a Markdown file whose section for this device is replaced")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    speeds = eager_speeds(arguments) if available() else {}
    for count in (1, arguments.trials):
        speeds[f"krogh, {count} network{'s' * (count > 1)} as one cohort"] = cohort_speed(arguments, count)
    base = next(iter(speeds.values()))
    work = 6 * arguments.batch * arguments.length * arguments.width * (arguments.width + DX + 1)
    if arguments.json:
        print(json.dumps({"device": device_in_words(), "speeds": speeds}, indent=2))
    used = ", ".join(f"{name} {number}" for name, number in versions().items())
    size = f"length {arguments.length}, width {arguments.width}, batch {arguments.batch}"
    lines = [
        f"### Recurrent networks, {device_in_words()}",
        "",
        f"{size}; measured {datetime.now(UTC).date().isoformat()} in one run; {used}.",
        "",
        f"| contestant | trial-steps/s | GFLOP/s | × {next(iter(speeds))} |",
        "| --- | ---: | ---: | ---: |",
        *(f"| {name} | {v:,.1f} | {v * work / 1e9:,.0f} | {v / base:,.1f} |" for name, v in speeds.items()),
    ]
    print("\n".join(lines))
    if arguments.out is not None:
        write_section(arguments.out, f"recurrent, {jax.devices()[0].platform}", lines)


if __name__ == "__main__":
    main()
