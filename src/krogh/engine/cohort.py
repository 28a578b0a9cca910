"""Cohorts: trials of one structure, stacked.

`Trials` holds one template and, for the fields that differ, one array with an entry per trial; a million
seeds cost four megabytes. Lists of trials and sweeps become a few `Trials`, one per structure.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from krogh.engine.start import Inherited
from krogh.engine.trial import Trial
from krogh.errors import require, unknown
from krogh.values import columns, digest, plain, replaced, shown, structure_of, text_of


class Trials:
    """Trials of one structure: behaves as a sequence, materialises only what is asked for."""

    def __init__(
        self,
        template: Trial,
        stacked: Mapping[int, np.ndarray],
        count: int,
        labels: Mapping[str, str | int | float | bool] | None = None,
    ):
        self.template = template
        self.structure = structure_of(template)
        self.count = count
        self.labels = dict(labels or {})
        self._stacked = dict(stacked)  # leaf position -> array [count, ...]
        self._leaves, self._treedef = jax.tree.flatten(template)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, position: int) -> Trial:
        if not 0 <= position < self.count:
            raise IndexError(position)
        return self._rebuilt(lambda array: array[position])

    def __iter__(self) -> Iterator[Trial]:
        return (self[position] for position in range(self.count))

    def take(self, positions: np.ndarray) -> Trial:
        """The trials at `positions` as one stacked trial: every leaf [len(positions), ...]."""
        leaves = [
            self._stacked[place][positions]
            if place in self._stacked
            else np.broadcast_to(leaf, (len(positions), *np.shape(leaf)))
            for place, leaf in enumerate(self._leaves)
        ]
        return jax.tree.unflatten(self._treedef, leaves)

    def varying(self, positions: np.ndarray) -> dict[int, np.ndarray]:
        """What differs between trials at `positions`, as arrays by leaf position: with the template, these trials."""
        return {place: array[positions] for place, array in self._stacked.items()}

    def _rebuilt(self, pick: Any) -> Trial:
        leaves = [
            pick(self._stacked[place]) if place in self._stacked else leaf for place, leaf in enumerate(self._leaves)
        ]
        return jax.tree.unflatten(self._treedef, leaves)

    @property
    def everyone(self) -> Trial:
        """All trials as one: arrays [count, ...] where they differ, single values where they do not."""
        return self._rebuilt(lambda array: array)

    def fitted(self) -> Trials:
        """These trials with a template that has room for the cohort's largest sample, and no more work
        than the cohort's values need. Their draws, identities and table rows stay the same."""
        everyone = self.everyone
        regime = self.template.training.regime.fitted(everyone.training.regime)
        task = self.template.task.fitted(everyone.task)
        stopping = self.template.training.stopping.fitted(everyone.training.stopping, task)
        template = eqx.tree_at(
            lambda trial: (trial.task, trial.training.regime, trial.training.stopping),
            self.template,
            (task, regime, stopping),
        )
        return Trials(template, self._stacked, self.count, self.labels)

    def labelled(self, **labels: str | int | float | bool) -> Trials:
        """These trials under names that become columns of the table; no part of what a trial is."""
        clash = sorted(set(labels) & set(columns(self.template)))
        require(not clash, f"a label may not be called like a field of the trial; got {', '.join(clash)}")
        return Trials(self.template, self._stacked, self.count, {**self.labels, **labels})

    def seeded(self, seeds: Iterable[int], also: Sequence[str] = ()) -> Trials:
        """Every one of these trials with every seed, which is also the value of the fields `also` (dotted paths)."""
        return _with_seeds(self, seeds, also)

    def parents(self) -> Trials:
        """The trials whose weights these begin with, in the same order."""
        start = self.template.start
        assert isinstance(start, Inherited)
        return Trials(start.parent, self.stacked_for(start.parent, "start.parent."), self.count)

    def stacked_for(self, other: Trial, prefix: str = "") -> dict[int, np.ndarray]:
        """The arrays of the fields that `other` has too, there without `prefix`, by its leaf positions."""
        places = {prefix + path: place for place, path in enumerate(_leaf_paths(other))}
        paths = _leaf_paths(self.template)
        return {places[paths[place]]: array for place, array in self._stacked.items() if paths[place] in places}

    def ids(self) -> np.ndarray:
        """Identity of each trial [count]: a hash of the structure and of the trial's own numbers."""
        prefix = hashlib.blake2b(digest(self.structure, 16), digest_size=8)
        result = np.empty(self.count, np.uint64)
        for start in range(0, self.count, 65_536):
            positions = np.arange(start, min(start + 65_536, self.count))
            # All leaves, varying or not: identity may not depend on which fields the neighbours vary.
            leaves = jax.tree.leaves(self.take(positions))
            flat = [np.ascontiguousarray(leaf).reshape(len(positions), -1) for leaf in leaves]
            rows = np.concatenate([leaf.view(np.uint8) for leaf in flat], axis=1)
            for position, row in zip(positions, rows, strict=True):
                hasher = prefix.copy()
                hasher.update(row.tobytes())
                result[position] = int.from_bytes(hasher.digest(), "little")
        return result

    def rows(self, positions: np.ndarray) -> dict[str, Any]:
        """The trials' fields as table columns: a scalar where constant, a list where it differs."""
        shared = self.labels | columns(self.template)
        if isinstance(self.template.start, Inherited):
            shared["start.parent"] = self.parents().ids()[positions]
        if not self._stacked:
            return shared
        paths = _leaf_paths(self.template)
        for place, array in self._stacked.items():
            if not shown(self.template, paths[place]):
                continue
            chosen = array[positions]
            if chosen.ndim > 1:
                whole = np.issubdtype(chosen.dtype, np.integer)
                shared[paths[place]] = [text_of(row.tolist() if whole else plain(row)) for row in chosen]
            elif np.issubdtype(chosen.dtype, np.floating):
                values, inverse = np.unique(chosen, return_inverse=True)
                shared[paths[place]] = np.array([float(str(value)) for value in values])[inverse]
            else:
                shared[paths[place]] = chosen
        return shared


def _leaf_paths(template: Trial) -> list[str]:
    with_path, _ = jax.tree_util.tree_flatten_with_path(template)
    return [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in with_path]


def stack(trials: Iterable[Trial]) -> list[Trials]:
    """Group trials by structure, in order of first appearance."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        require(isinstance(trial, Trial), f"expected trials; got {type(trial).__name__}")
        groups.setdefault(structure_of(trial), []).append(trial)
    return [_stacked(group) for group in groups.values()]


def _stacked(group: Sequence[Trial]) -> Trials:
    leaves = zip(*(jax.tree.leaves(trial) for trial in group), strict=True)
    arrays = {place: np.stack(column) for place, column in enumerate(leaves)}
    varying = {place: array for place, array in arrays.items() if (array != array[:1]).any()}
    return Trials(group[0], varying, len(group))


def sweep(
    trial: Trial, *, label: Mapping[str, str | int | float | bool] | None = None, **fields: Iterable[Any]
) -> list[Trials]:
    """Every combination of field values, as cohorts; `label` names them in the table.

    Fields are dotted paths with `__` for the dot in keyword form, or given in a dictionary:

        sweep(trial, seed=range(1000), training__optimiser__rate=[0.1, 1.0])
        sweep(trial, **{"task.noise": [0, 0.1, 0.2]}, label={"panel": "noise"})

    Seeds vary fastest and are never materialised one by one.
    """
    for path, values in fields.items():
        several = isinstance(values, Iterable) and not isinstance(values, str)
        require(several, f"sweep needs several values for {path}; got {values!r} (try [{values!r}])")
    axes = {path.replace("__", "."): list(values) for path, values in fields.items() if path != "seed"}
    for path, values in axes.items():
        require(values, f"sweep needs at least one value for {path}; got none")
    seeds = fields.get("seed")
    combined = []
    for choice in itertools.product(*axes.values()):
        changed = trial
        for path, value in zip(axes, choice, strict=True):
            changed = replaced(changed, path, value)
        combined.append(changed)
    cohorts = [cohort.labelled(**label) if label else cohort for cohort in stack(combined)]
    return cohorts if seeds is None else [_with_seeds(cohort, seeds) for cohort in cohorts]


def family(trial: Trial, seeds: Iterable[int]) -> Trials:
    """The trial with each of the seeds, and the trials that it descends from with the same ones."""
    numbers = np.asarray(list(seeds), np.uint32)
    paths = _leaf_paths(trial)
    stacked = {place: numbers for place, path in enumerate(paths) if path.rpartition(".")[2] == "seed"}
    return Trials(trial, stacked, len(numbers))


def _with_seeds(cohort: Trials, seeds: Iterable[int], also: Sequence[str] = ()) -> Trials:
    given = seeds if isinstance(seeds, range) else list(seeds)
    ends = (*given[:1], *given[-1:]) if isinstance(given, range) else given  # a range may be too long to write out
    inside = len(ends) and all(isinstance(seed, int | np.integer) and 0 <= seed < 2**32 for seed in ends)
    require(inside, f"seeds must be integers in 0..2^32-1, at least one; got {seeds!s:.80}")
    numbers = np.asarray(given, np.uint32)
    count = len(cohort) * len(numbers)
    stacked = {place: np.repeat(array, len(numbers), axis=0) for place, array in cohort._stacked.items()}
    paths = _leaf_paths(cohort.template)
    for path in also:
        if path not in paths:
            raise unknown("field of the trial", path, paths)
    for place, path in enumerate(paths):
        if path == "seed" or path in also:
            stacked[place] = np.tile(numbers, len(cohort))
    return Trials(cohort.template, stacked, count, cohort.labels)
