"""Trials that begin with the weights of others: parents before children, and what the parents leave to them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import fields, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from krogh.engine.cohort import Trials
from krogh.engine.lane import Finished, Waiting
from krogh.engine.shapes import checked_shapes
from krogh.engine.start import FINAL, KEPT, REDRAWN, REWOUND, Drawn, Given, Inherited, Named
from krogh.engine.trial import Trial
from krogh.errors import KroghError, require

WeightsOf = Callable[[int, int | None], Named]
"""The weights of a trial by its identity, at a step (one of its snapshots, or None for its end)."""

HELD_BYTES = 1 << 30


class Weights:
    """Weights of trials in memory, by identity and step; a `WeightsOf`.

    kept = Weights()
    krogh.run(parent, weights=kept)
    krogh.run(child, weights=kept)      # whose start is Inherited(parent)
    """

    def __init__(self) -> None:
        self._held: dict[tuple[int, int | None], Named] = {}

    def __call__(self, identity: int, step: int | None = None) -> Named:
        if (identity, step) not in self._held:
            when = "its end" if step is None else f"step {step} (it may have ended before)"
            raise KroghError(f"no weights are kept of trial {identity} at {when}")
        return self._held[identity, step]

    def __contains__(self, key: tuple[int, int | None]) -> bool:
        return key in self._held

    def __len__(self) -> int:
        return len(self._held)

    def put(self, identity: int, step: int | None, weights: Named) -> None:
        """Keep the weights of one trial at a step."""
        self._held[identity, step] = weights

    def add(self, ids: np.ndarray, snapshots: Sequence[int], finished: Finished) -> None:
        """Keep what trials ended with, and their snapshots as far as they came; `ids` are those of their cohort."""
        for place, position in enumerate(finished.position.tolist()):
            identity = int(ids[position])
            if finished.weights is not None:
                self._held[identity, None] = {name: leaf[place] for name, leaf in finished.weights.items()}
            for number, step in enumerate(snapshots):
                if finished.snapshots is not None and step <= finished.steps[place]:
                    own = {name: leaf[place, number] for name, leaf in finished.snapshots.items()}
                    self._held[identity, step] = own


class Children(Trials):
    """A fitted cohort with inherited starts, whose weights are looked up when its trials are put into slots."""

    def __init__(self, cohort: Trials, weights_of: WeightsOf):
        start = cohort.template.start
        assert isinstance(start, Inherited)
        self._cohort, self._weights_of = cohort, weights_of
        self._parents = cohort.parents().ids()
        self._held: dict[Any, Given] = {}
        blank = start.blank(checked_shapes(cohort.template))
        template = eqx.tree_at(lambda trial: trial.start, cohort.template, blank)
        super().__init__(template, cohort.stacked_for(template), len(cohort))

    def __getitem__(self, position: int) -> Trial:
        if not 0 <= position < self.count:
            raise IndexError(position)
        return jax.tree.map(lambda leaf: leaf[0], self.take(np.array([position])))

    def fitted(self) -> Trials:
        return self

    def take(self, positions: np.ndarray) -> Trial:
        starts = [self._start(int(position)) for position in positions]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *starts)
        return eqx.tree_at(lambda trial: trial.start, super().take(positions), stacked)

    def varying(self, positions: np.ndarray) -> dict[int, np.ndarray]:
        return dict(enumerate(jax.tree.leaves(self.take(positions))))

    def _start(self, position: int) -> Given:
        """Trials of one parent and recipe share it."""
        start = self._cohort[position].start
        assert isinstance(start, Inherited)
        recipe = int(start.step), None if start.pruning is None else float(start.pruning.share)
        key = int(self._parents[position]), *recipe
        if key not in self._held:
            found = resolve_start(start, self._weights_of)
            size = sum(leaf.nbytes for leaf in jax.tree.leaves(found))
            if size * len(self._held) > HELD_BYTES:
                self._held.clear()
            self._held[key] = found
        return self._held[key]


def without_parents(cohort: Trials) -> Trials:
    """The cohort, its trials with weights of their own where they would inherit them."""
    if not isinstance(cohort.template.start, Inherited):
        return cohort
    template = eqx.tree_at(lambda trial: trial.start, cohort.template, Drawn())
    return Trials(template, cohort.stacked_for(template), len(cohort))


def resolve_start(start: Inherited, weights_of: WeightsOf) -> Given:
    """An inherited start with the weights that it gives."""
    parent, step = start.parent, int(start.step)
    needed = start.weights == KEPT or start.pruning is not None
    then = _weights_at(parent, step, weights_of) if needed else {}
    mask = {} if start.pruning is None else start.pruning.masks(then)
    if start.weights == REDRAWN:
        return Given({}, mask)
    begun = then if start.weights == KEPT else _weights_at(parent, 0, weights_of)
    return Given({name: begun[name] for name in start.arrays or begun}, mask)


def _weights_at(trial: Trial, step: int, weights_of: WeightsOf) -> Named:
    if step != 0:
        return weights_of(identity_of(trial), None if step == FINAL else step)
    if isinstance(trial.start, Inherited):
        trial = eqx.tree_at(lambda one: one.start, trial, resolve_start(trial.start, weights_of))
    return {name: np.asarray(leaf) for name, leaf in _initial(trial).items()}


@jax.jit
def _initial(trial: Trial) -> Any:
    return trial.initial_params()


def identity_of(trial: Trial) -> int:
    """The identity of one trial: what the column `id` of its record says."""
    return int(Trials(trial, {}, 1).ids()[0])


def generation(trial: Trial) -> int:
    """How many ancestors a trial has."""
    return 1 + generation(trial.start.parent) if isinstance(trial.start, Inherited) else 0


class Wanted(NamedTuple):
    """What is asked of one cohort of a run: which of its trials, and whether their weights are kept."""

    place: int
    cohort: Trials
    positions: np.ndarray | Waiting
    keep_weights: bool


class Family:
    """The cohorts of one run: who must be trained before whom, and what parents leave to children."""

    def __init__(
        self, cohorts: Sequence[Trials], positions: Sequence[np.ndarray | Waiting], weights_of: WeightsOf | None
    ):
        self._cohorts, self._weights_of = cohorts, weights_of
        self._kept, self._trained, self._ids = Weights(), set[int](), dict[int, np.ndarray]()
        ages = [generation(cohort.template) for cohort in cohorts]
        self.generations = [[place for place, age in enumerate(ages) if age == this] for this in sorted(set(ages))]
        self.keeps = [False] * len(cohorts)
        if any(ages):
            self._prepare(positions)

    def _prepare(self, positions: Sequence[np.ndarray | Waiting]) -> None:
        """Find out what is inherited, and refuse at once what is neither trained in this run nor at hand."""
        asking = any(isinstance(wanted, Waiting) and not wanted.closed for wanted in positions)
        together = len(self.generations) == 1 or not asking
        require(together, "a search cannot train parents and their children at once: train the parents before")
        needed = set[tuple[int, int | None]]()
        for place, (cohort, wanted) in enumerate(zip(self._cohorts, positions, strict=True)):
            open_ = isinstance(wanted, Waiting)
            places = np.arange(len(cohort)) if open_ else np.asarray(wanted, np.int64)
            needed.update(_inherited(cohort, places))
            self._ids[place] = cohort.ids()
            if not open_:
                self._trained.update(self._ids[place][places].tolist())
        heirs = np.array(sorted({identity for identity, _ in needed}), np.uint64)
        self._heirs = heirs
        self.keeps = [bool(np.isin(ids, heirs).any()) for ids in self._ids.values()]
        for identity, step in needed:
            if identity not in self._trained:
                self._find(identity, step)

    def _find(self, identity: int, step: int | None) -> Named:
        if identity in self._trained:
            return self._kept(identity, step)
        if self._weights_of is None:
            raise KroghError(
                f"a trial begins with the weights of trial {identity}, which are not at hand: train the parent in the "
                f"same call, or give its weights"
            )
        return self._weights_of(identity, step)

    def cohort(self, place: int) -> Trials:
        """The cohort as it is trained: what it inherits is looked up."""
        cohort = self._cohorts[place]
        inherits = isinstance(cohort.template.start, Inherited)
        return Children(cohort.fitted(), self._find) if inherits else cohort

    def trained(
        self,
        train: Callable[[list[Wanted]], Generator[tuple[int, Finished | None], None, None]],
        positions: Sequence[np.ndarray | Waiting],
        keep_weights: bool,
    ) -> Generator[tuple[int, Finished | None], None, None]:
        """The records of all generations, one generation trained after the other."""
        for places in self.generations:
            keeps = [keep_weights or self.keeps[place] for place in places]
            wanted = [
                Wanted(place, self.cohort(place), positions[place], keep)
                for place, keep in zip(places, keeps, strict=True)
            ]
            with closing(train(wanted)) as records:
                for place, finished in records:
                    yield place, None if finished is None else self.keep(place, finished, keep_weights)

    def keep(self, place: int, finished: Finished, keep_weights: bool) -> Finished:
        """Records whose weights were kept for children; they go on with them only where they are asked for."""
        if not self.keeps[place]:
            return finished
        left = np.flatnonzero(np.isin(self._ids[place][finished.position], self._heirs))
        self._kept.add(self._ids[place], self._cohorts[place].template.snapshots, _rows(finished, left))
        return finished if keep_weights else replace(finished, weights=None)


def _inherited(cohort: Trials, places: np.ndarray) -> Iterator[tuple[int, int | None]]:
    """The trained weights, by identity and step, that the trials at `places` begin with."""
    start = cohort.template.start
    if not isinstance(start, Inherited):
        return
    parents, taken = cohort.parents(), cohort.take(places).start
    assert isinstance(taken, Inherited)
    steps = np.asarray(taken.step)
    if start.weights == KEPT or start.pruning is not None:
        for identity, step in zip(parents.ids()[places].tolist(), steps.tolist(), strict=True):
            if step != 0:
                yield identity, None if step == FINAL else step
    if start.weights == REWOUND or (steps == 0).any():  # the beginning of a trial that inherits itself
        yield from _inherited(parents, places)


def _rows(finished: Finished, chosen: np.ndarray) -> Finished:
    columns = {field.name: getattr(finished, field.name) for field in fields(finished)}
    return Finished(**jax.tree.map(lambda leaf: leaf[chosen], columns))
