"""What training has cost: a file for each process that took part, written as often as records are.

A process that is killed leaves the costs of what it left in the store; a study's costs are those of all of them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from krogh.engine import Usage
from krogh.errors import KroghError, require
from krogh.files import write_json
from krogh.integrity import DIGESTS, digest_of_object

FOLDER = "costs"


@dataclass
class Costs:
    """Seconds of a study, in all and of training, and what training used."""

    seconds: float = 0.0
    training_seconds: float = 0.0
    trained_steps: int = 0
    compilations: int = 0
    memory_splits: int = 0

    def __add__(self, other: Costs) -> Costs:
        own, others = asdict(self), asdict(other)
        return Costs(**{name: own[name] + others[name] for name in own})

    @classmethod
    def of(cls, usage: Usage, seconds: float, training_seconds: float) -> Costs:
        """What one process has spent so far."""
        steps, programs, splits = usage.executed_steps, usage.compilations, usage.splits
        return cls(round(seconds, 3), round(training_seconds, 3), steps, programs, splits)


def write_costs(study: Path, process: str, costs: Costs, where: dict[str, Any]) -> None:
    """What a process has spent on a study so far, and where: on which device, by which versions."""
    said = {**asdict(costs), "where": where}
    write_json(study / FOLDER / f"{process}.json", {**said, DIGESTS: digest_of_object(said)})


def cost_files(study: Path) -> list[Path]:
    """A file for every process that has trained."""
    return sorted((study / FOLDER).glob("*.json"))


def trained_at(study: Path) -> list[dict[str, Any]]:
    """Where the processes have trained, each place once."""
    places: list[dict[str, Any]] = []
    for path in cost_files(study):
        where = _content(path).get("where")
        if isinstance(where, dict) and where and where not in places:
            places.append(where)
    return places


def total_costs(study: Path) -> Costs:
    """What a study has cost, over all processes that took part."""
    total = Costs()
    for path in cost_files(study):
        total += _read(path)
    return total


def carry_over(study: Path, summary: dict[str, Any] | None) -> None:
    """Keep the costs of a study whose earlier processes left none but their total in its summary."""
    engine = (summary or {}).get("engine", {})
    if summary is not None and engine.get("trained_steps") and not (study / FOLDER).exists():
        known = {name: engine[name] for name in (one.name for one in fields(Costs)) if name in engine}
        write_costs(study, "earlier", Costs(**{"seconds": summary["seconds"], **known}), {})


def _read(path: Path) -> Costs:
    found = _content(path)
    numbers = {one.name: found.get(one.name) for one in fields(Costs)}
    sound = all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers.values())
    require(sound, _damaged(path))
    return Costs(**numbers)  # type: ignore[arg-type]


def _content(path: Path) -> dict[str, Any]:
    try:
        found = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, TypeError, ValueError, RecursionError):
        raise KroghError(_damaged(path)) from None
    require(found.get(DIGESTS, whole := digest_of_object(found)) == whole, _damaged(path))
    return found


def _damaged(path: Path) -> str:
    return f"{path} is damaged; remove it: what that process cost is then not counted"
