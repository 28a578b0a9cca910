"""What training has cost: a file for each process that took part, written as often as records are.

A process that is killed leaves the costs of what it left in the store; a study's costs are those of all of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from krogh.engine import Usage
from krogh.errors import KroghError, require
from krogh.files import write_json
from krogh.integrity import DIGESTS, digest_of_object, read_object

FOLDER = "costs"
EARLIER = "earlier"
"""What is known of processes that left no file of their own."""


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
    (study / FOLDER).mkdir(exist_ok=True)  # but not the study: one that is moved while it runs is not begun anew
    write_json(study / FOLDER / f"{process}.json", {**said, DIGESTS: digest_of_object(said)})


def cost_files(study: Path) -> list[Path]:
    """A file for every process that has trained."""
    return sorted(path for path in (study / FOLDER).glob("*.json") if path.is_file())


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
    """Keep what a study's summary knows of its costs and no file of its processes does: they are old, or were lost."""
    if summary is None or not (engine := summary.get("engine", {})).get("trained_steps"):
        return
    known = {"seconds": summary["seconds"], **engine}
    there = asdict(total_costs(study))
    lost = {name: max(0, round(known.get(name, 0) - number, 3)) for name, number in there.items()}
    if lost["trained_steps"]:
        place = study / FOLDER / f"{EARLIER}.json"
        write_costs(study, EARLIER, Costs(**lost) + (_read(place) if place.is_file() else Costs()), {})


def _read(path: Path) -> Costs:
    found = _content(path)
    numbers = {one.name: found.get(one.name) for one in fields(Costs)}
    sound = all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers.values())
    require(sound, _damaged(path))
    return Costs(**numbers)  # type: ignore[arg-type]


def _content(path: Path) -> dict[str, Any]:
    try:
        found = read_object(path.parents[1], f"{FOLDER}/{path.name}")
    except (OSError, KroghError):
        raise KroghError(_damaged(path)) from None
    require(found.get(DIGESTS, whole := digest_of_object(found)) == whole, _damaged(path))
    return found


def _damaged(path: Path) -> str:
    return f"{path} is damaged; remove it: of what that process cost, what study.json knows is kept"
