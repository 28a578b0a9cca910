"""Frames of a replay: what the views see at every snapshot of a study's trials, as one compact file.

STUDY/replay.json holds, for a few trials, the steps of their snapshots, the error and the phase at each, and every
panel with all its frames. Matrices are the heavy part: each is written in 8 bits on one scale for all of training,
as differences from the frame before, deflated and in base64; two attention maps of 100 × 100 at 200 moments are
about a megabyte. All else are plain numbers of four digits.

`krogh.report` makes the page from that file alone.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import polars as pl

from krogh.engine import Trial, Trials
from krogh.errors import KroghError, require, require_integer
from krogh.files import STUDY_SCHEMA, scan_table, write_atomically
from krogh.lab.results import Network
from krogh.lab.study import experiment_of, plugin_of, read_study
from krogh.lab.weights import Weights, WeightsFolder
from krogh.probes.views import DISTANCES, Bars, HeatMap, Lines, Look, Numbers, Panel, mean_error, panels_of
from krogh.registry import EXPERIMENTS
from krogh.tasks.base import Examples, Task
from krogh.training.stopping import EXACT
from krogh.values import describe

FRAMES_FILE = "replay.json"
TRIALS, FRAMES = 8, 120
EXAMPLES = 256  # of the validation sample, on which the error and distances of a frame are measured
LEVELS = 255
WORST_TEXT = 60


def write_frames(folder: Path | str, *, trials: int = TRIALS, frames: int = FRAMES) -> Path:
    """Look at the snapshots of a finished study and write what is seen into its folder; returns the file.

    Of at most `trials` trials, the first of every structure before the second of any, and at most `frames` moments of
    each, evenly chosen, the first and the last always. Raises `KroghError` where the study kept no snapshots.
    """
    require_integer("trials", trials, 1)
    require_integer("frames", frames, 2)
    folder = Path(folder)
    summary = read_study(folder)
    networks = list(_networks(folder, summary, trials))
    labels = _labels([network.row for network in networks])
    known: dict[str, dict[str, float]] = {}  # by task: they may take longer than all frames
    films = []
    for network, label in zip(networks, labels, strict=True):
        task = network.trial.task
        key = json.dumps(describe(task))
        known[key] = known.get(key) or known_errors(task)
        films.append(film(network, label, frames, known[key]))
    content = {
        "schema": STUDY_SCHEMA,
        **{word: summary.get(word, "") for word in ("name", "title", "question", "source", "scale", "command")},
        "trials": films,
    }
    path = folder / FRAMES_FILE
    write_atomically(path, json.dumps(content, ensure_ascii=False, allow_nan=False).encode())
    return path


def spread_steps(last: int, count: int, every: int, power: float = 1.0) -> tuple[int, ...]:
    """About `count` multiples of `every` from 0 to `last`, where snapshots are taken: last·(i/(count-1))^power.

    A power above 1 has them denser at the beginning, where a training that may end early does most.
    """
    marks = (last * (place / max(1, count - 1)) ** power for place in range(count))
    return tuple(sorted({min(every * round(mark / every), last // every * every) for mark in marks}))


# --- which networks ---------------------------------------------------------------------------------------------


def _networks(folder: Path, summary: Mapping[str, Any], most: int) -> Iterator[Network]:
    """The trials that are shown, with their weights."""
    name, status = summary["name"], summary.get("status")
    require(status == "complete", f"{folder} is {status}: finish it first with {summary.get('command')!r}")
    experiment = experiment_of(summary)
    settings = experiment.settings(summary["scale"], summary["settings"])
    cohorts = list(experiment.trials(settings))
    kept = [cohort for cohort in cohorts if cohort.template.snapshots]
    if not kept or not any((folder / "weights").glob("*.snapshots.safetensors")):
        raise KroghError(_without_snapshots(folder, summary, settings, bool(kept)))
    places = [(cohort, place, identity) for cohort in kept for place, identity in enumerate(cohort.ids().tolist())]
    rows = {row["id"]: row for row in _rows(folder, [identity for _, _, identity in places]).iter_rows(named=True)}
    trained = [place for place in places if place[2] in rows]  # a search may have left some out
    again = f"train it again with {summary.get('command')} --stale retrain"
    require(trained, f"the trials in {folder} are not those that {name} trains now: its source has changed; {again}")
    weights = WeightsFolder(folder / "weights")
    for cohort, place, identity in _chosen(trained, most):
        row = rows[identity]
        final = None if row["outcome"] == "diverged" else weights(identity)
        yield Network(cohort[place], row, final, weights)


def _rows(folder: Path, ids: Sequence[int]) -> pl.DataFrame:
    table = scan_table(folder / "trials.parquet").select(pl.exclude("^curve\\..*$"))
    return table.filter(pl.col("id").is_in(pl.Series(ids, dtype=pl.UInt64).implode())).collect()


Place = tuple[Trials, int, int]


def _chosen(places: Sequence[Place], most: int) -> list[Place]:
    """The trials that are shown: the first of every cohort before the second of any, then in the study's order."""
    seen: Counter[int] = Counter()
    turns = []
    for number, (cohort, _, _) in enumerate(places):
        turns.append((seen[id(cohort)], number))
        seen[id(cohort)] += 1
    return [places[number] for number in sorted(number for _, number in sorted(turns)[:most])]


def _without_snapshots(folder: Path, summary: Mapping[str, Any], settings: Any, asked: bool) -> str:
    """Why there is nothing to replay, and what to do."""
    name = summary["name"]
    if asked:
        return f"{folder} holds no snapshots: its weights were removed. Run {summary.get('command')!r} again, elsewhere"
    if hasattr(settings, "snapshots"):
        words = " ".join(word for word in (name, plugin_of(summary), f"--scale {summary['scale']}") if word)
        remedy = f"run it with them into another folder: krogh run {words} --set snapshots=50 --out ..."
    else:
        keeping = [other for other, cls in EXPERIMENTS.items() if hasattr(next(iter(cls.scales.values())), "snapshots")]
        remedy = f"{name} has no setting for them; experiments with a setting 'snapshots' are {', '.join(keeping)}"
    return f"{folder} keeps no snapshots of its networks, so that there is nothing to replay; {remedy}"


def _labels(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What tells the trials apart, in words: fields and labels that differ, and the seed."""
    fields = list(itertools.takewhile(lambda name: name != "outcome", rows[0]))
    differing: list[str] = []
    for name in sorted(fields, key=lambda name: "." in name):  # labels and kinds before fields of fields
        apart = [
            len({tuple(str(row.get(one)) for one in chosen) for row in rows})
            for chosen in (differing, [*differing, name])
        ]
        if name not in ("id", "seed", "snapshots") and apart[1] > apart[0]:
            differing.append(name)
    texts = []
    for row in rows:
        said = [f"{name.rpartition('.')[2]} {_short(row[name])}" for name in differing if row.get(name) is not None]
        texts.append(" · ".join(dict.fromkeys([*said, f"seed {row['seed']}"])))  # a label may repeat a field
    return texts


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= WORST_TEXT else f"{text[: WORST_TEXT - 1]}…"


# --- one trial --------------------------------------------------------------------------------------------------


def film(network: Network, label: str, most: int, references: Mapping[str, float]) -> dict[str, Any]:
    """A trial's frames: what is measured at each, and all panels; `references` are errors known beforehand."""
    trial, row, task = network.trial, network.row, network.trial.task
    moments = _moments(network, most)
    final = moments[-1][1]
    examples = examples_of(trial)
    looks = [Look(task, trial.model, weights, network.initial, final, examples, step) for step, weights in moments]
    errors = [mean_error(look) for look in looks]
    seen = [panels_of(look) for look in looks]
    require(seen[0], f"no view is registered for {trial.model.kind} on {task.kind} (docs/extending.md says how)")
    names = [[(type(panel), panel.name) for panel in panels] for panels in seen]
    for step, own in zip((look.step for look in looks), names, strict=True):
        same = own == names[0]
        require(same, f"a view must give the same panels at every step; at step {step} it gave {[n for _, n in own]}")
    batch = getattr(trial.training.regime, "batch_size", None)
    distances = [p.values for panels in seen for p in panels if isinstance(p, Numbers) and p.name == DISTANCES]
    strategies = list(distances[0]) if distances else []
    return {
        "label": label,
        "task": task.kind,
        "model": trial.model.kind,
        "outcome": str(row["outcome"]),
        "convergence": row["convergence_time"],
        "steps": [look.step for look in looks],
        "batch": None if batch is None else int(batch),
        "unit": "sequences" if task.causal else "examples",
        "error": {
            "name": "loss" if task.regression else "error",
            "values": [_number(error) for error in errors],
            "references": {name: _number(value) for name, value in references.items()},
        },
        "phases": [strategies.index(min(found, key=found.__getitem__)) for found in distances] if strategies else [],
        "strategies": strategies,
        "panels": [_encoded([panels[place] for panels in seen]) for place in range(len(seen[0]))],
    }


def examples_of(trial: Trial) -> Examples:
    """What the networks of a trial are looked at with: the beginning of its validation sample, or every input."""
    listed = trial.task.population_size is not None and trial.training.stopping.validation == EXACT
    return _validation(trial, None if listed else EXAMPLES)


_validation = jax.jit(lambda trial, size: trial.validation(size), static_argnums=1)


def _moments(network: Network, most: int) -> list[tuple[int, Weights]]:
    """Steps and weights: snapshots as far as the trial came, and its end."""
    end = int(network.row["steps"])
    steps = [step for step in network.trial.snapshots if step <= end]
    last = network.final is not None and (not steps or steps[-1] < end)
    total = len(steps) + last
    picked = sorted({round(place) for place in np.linspace(0, total - 1, min(most, total))})
    found = [(steps[place], network.at(steps[place])) for place in picked if place < len(steps)]
    if last and network.final is not None:
        found.append((end, network.final))
    require(found, f"trial {network.row['id']} ended before its first snapshot")
    return found


def known_errors(task: Task) -> dict[str, float]:
    """Errors that are known beforehand: those of strategies, or of guessing."""
    known = task.baselines()
    losses = {name.removeprefix("loss_"): value for name, value in known.items() if name.startswith("loss_")}
    if losses:
        return losses
    if "guessing_accuracy" in known:
        return {"guessing": 1 - known["guessing_accuracy"]}
    return {"zero": known["null_risk"]} if "null_risk" in known else {}


# --- panels as JSON ---------------------------------------------------------------------------------------------


def _encoded(frames: Sequence[Panel]) -> dict[str, Any]:
    """One panel through all of training."""
    first = frames[0]
    head: dict[str, Any] = {"name": first.name, "about": first.about}
    if isinstance(first, HeatMap):
        marked = [int(place) for place in first.marked]
        head |= {"kind": "heat", "rows": first.rows, "columns": first.columns, "signed": first.signed}
        return head | {"root": first.root, "marked": marked, **_matrices(frames)}
    if isinstance(first, Lines):
        lines = {
            name: [_numbers(np.asarray(frame.lines[name])) for frame in frames if isinstance(frame, Lines)]
            for name in first.lines
        }
        return head | {"kind": "lines", "places": first.places, "lines": lines}
    assert isinstance(first, Bars | Numbers)
    keys = list(first.values)
    for frame in frames:
        assert isinstance(frame, Bars | Numbers)
        same = list(frame.values) == keys
        require(same, f"the panel {first.name!r} must have the same names at every step; got {list(frame.values)}")
    values = [
        [_number(frame.values[key]) for key in keys] for frame in frames if not isinstance(frame, HeatMap | Lines)
    ]
    if isinstance(first, Bars):
        return head | {
            "kind": "bars",
            "places": first.places,
            "free": first.free,
            "names": keys,
            "marked": [keys.index(name) for name in first.marked if name in keys],
            "values": values,
        }
    return head | {"kind": "numbers", "log": first.log, "names": keys, "values": values}


def _matrices(frames: Sequence[Panel]) -> dict[str, Any]:
    """All frames of a heat map in 8 bits: low + (high - low) q/255, or its square where the root is shown."""
    first = frames[0]
    assert isinstance(first, HeatMap)
    arrays = [np.asarray(frame.values, np.float64) for frame in frames if isinstance(frame, HeatMap)]
    shapes = {array.shape for array in arrays}
    whole = len(shapes) == 1 and arrays[0].ndim == 2 and arrays[0].size > 0
    require(whole, f"the heat map {first.name!r} must be one matrix of the same shape at every step; got {shapes}")
    stacked = np.stack(arrays)
    shown = np.where(np.isfinite(stacked), stacked, 0.0)
    if first.root:
        negative = float(shown.min())
        require(negative >= 0, f"the heat map {first.name!r} shows roots, and has the negative entry {negative:.3g}")
        shown = np.sqrt(shown)
    high = float(np.abs(shown).max() if first.signed else shown.max())
    low = -high if first.signed else min(0.0, float(shown.min()))
    levels = np.rint((shown - low) / max(high - low, 1e-30) * LEVELS).astype(np.uint8)
    moved = np.concatenate([levels[:1], levels[1:] - levels[:-1]])  # modulo 256: what hardly moves deflates to nothing
    packed = base64.b64encode(zlib.compress(moved.tobytes())).decode()
    return {"shape": list(arrays[0].shape), "low": _number(low), "high": _number(high), "data": packed}


def _number(value: float) -> float | None:
    """Four digits, which are all that a picture shows; nothing where there is no number."""
    value = float(value)
    return float(f"{value:.4g}") if math.isfinite(value) else None


def _numbers(values: np.ndarray) -> list[float | None]:
    return [_number(value) for value in values.ravel().tolist()]
