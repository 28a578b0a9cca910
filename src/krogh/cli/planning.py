"""`krogh plan`: what running experiments would cost on this machine."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from krogh import registry
from krogh.cli.inspecting import parse_settings
from krogh.cli.printing import console as console_for
from krogh.cli.running import matching
from krogh.engine.compiling import release
from krogh.engine.memory import in_bytes
from krogh.errors import unknown
from krogh.lab.display import Display
from krogh.lab.experiment import SCALES
from krogh.lab.planning import Between, CostPlan, plan_costs
from krogh.lab.remote import TRAINING, bring, is_url, named
from krogh.numbers import json_number


def plan_experiments(
    names: tuple[str, ...],
    scale: str,
    changes: tuple[str, ...],
    *,
    weights: bool,
    like: str | None,
    seconds: float,
    as_json: bool,
) -> int:
    """Print the costs of each experiment, and of all."""
    chosen = matching(names, Path("runs") / scale, *([] if like is None or is_url(like) else [Path(like)]))
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    settings, console = parse_settings(changes), console_for(stderr=True)
    likened = None if like is None else bring(like, without=TRAINING)
    plans = []
    for name in chosen:
        with Display(console, f"plan {name}") as display:

            def show(done: int, total: int, display: Display = display) -> None:
                display.tell(done, total, "pilots")

            experiment = registry.EXPERIMENTS[name]()
            with named(like or ""):
                found = plan_costs(
                    experiment, scale, changes=settings, weights=weights, like=likened, seconds=seconds, show=show
                )
            plans.append(found)
        if not as_json:
            print("\n".join(in_words(plans[-1])))
        release()
    if as_json:
        print(json.dumps([_plain(plan.as_json()) for plan in plans], indent=2, ensure_ascii=False))
    elif len(plans) > 1:
        whole = Between(*(sum(getattr(plan.wall_seconds, word) for plan in plans) for word in _WORDS))
        print(f"all {len(plans)}  {_range(whole, duration)}")
    return 0


_WORDS = ("lowest", "expected", "highest")


def in_words(plan: CostPlan) -> list[str]:
    """The lines for one experiment."""
    counts = {"cohort": plan.cohorts, "compilation": plan.compilations, "lane": plan.lanes}
    learning = ", ".join(f"{count:,} {word}{'s' * (count != 1)}" for word, count in counts.items())
    learning += f" on {plan.device}"
    lines = {
        "work": learning,
        "trials": _range(plan.trials, count),
        "trial-steps": _range(plan.trial_steps, count),
        "compile": duration(plan.compile_seconds)
        + (" of one core" if "CPU" in plan.device else ", all beside one another"),
        "train": _range(plan.train_seconds, duration),
        "time": f"{_range(plan.wall_seconds, duration)}, without measuring and drawing",
        "device hours": _range(plan.device_hours, lambda hours: f"{hours:,.3g}"),
        "disk": in_bytes(plan.disk_bytes)
        + (f" and {in_bytes(plan.weight_bytes)} of weights" * bool(plan.weight_bytes)),
        "memory": f"{in_bytes(plan.device_bytes)} of a device, {in_bytes(plan.host_bytes)} of the host",
        "measured": f"{plan.piloted:,} of {plan.cohorts:,} cohorts, for a few seconds each",
    }
    width = max(map(len, lines))
    told = [f"{plan.name} at {plan.scale}", *(f"  {name:<{width}}  {text}" for name, text in lines.items())]
    return [*told, *(f"  {'':<{width}}  {words}" for words in plan.basis)]


def _range(number: Between, text: Any) -> str:
    low, middle, high = (text(getattr(number, word)) for word in _WORDS)
    return middle if low == high else f"{middle} ({low} to {high})"


def count(number: float) -> str:
    return f"{number:,.0f}" if number < 1e7 else f"{number:.3g}"


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(12.3), duration(600), duration(7200 * 10), duration(86400 * 30)
    ('12 s', '10 min', '20.0 h', '30.0 days')
    """
    if not math.isfinite(seconds):
        return "unknown"
    if seconds < 120:
        return f"{seconds:.2g} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 2 * 86400 else f"{seconds / 86400:.1f} days"


def _plain(value: Any) -> Any:
    """JSON has no infinity."""
    if isinstance(value, dict):
        return {name: _plain(own) for name, own in value.items()}
    if isinstance(value, float):
        return json_number(value)
    return list(value) if isinstance(value, tuple) else value
