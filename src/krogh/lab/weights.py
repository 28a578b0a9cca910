"""Trained weights on request, as safetensors: one file per batch of finished trials, one more for their snapshots.

<first id>-<trials>-<digest>.safetensors            id [trials], and every array [trials, ...]
<first id>-<trials>-<digest>.snapshots.safetensors  id [trials], step [snapshots], every array [trials, snapshots, ...]

The digest is that of the file's bytes, as in the names of the store; it is tried when weights are first read of a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from krogh.engine.lane import Finished
from krogh.errors import KroghError, require
from krogh.files import put_in_place, temporary_beside
from krogh.integrity import digest_of, own

Weights = dict[str, np.ndarray]

_OWN = {"id": "the trial's identity", "step": "the step of a snapshot"}
_SNAPSHOTS = ".snapshots.safetensors"
_REMEDY = "move it out of the folder and run again: its trials are trained again"


def write_weights(folder: Path, ids: np.ndarray, weights: Weights, snapshots: Sequence[int] = ()) -> Path:
    """Write stacked weights; the tensor `id` holds the trials' identities along the same first axis.

    With `snapshots`, the weights have a second axis of as many steps.
    """
    from safetensors.numpy import save_file

    for name, meaning in _OWN.items():
        require(name not in weights, f"a parameter may not be called {name!r}: in a file of weights that is {meaning}")
    suffix = _SNAPSHOTS if snapshots else ".safetensors"
    stem = f"{int(ids[0]):016x}-{len(ids)}"
    own = {"id": ids.astype(np.uint64)} | ({"step": np.asarray(snapshots, np.int64)} if snapshots else {})
    with temporary_beside(folder / f"{stem}{suffix}") as temporary:
        save_file(own | {name: np.ascontiguousarray(array) for name, array in weights.items()}, temporary)
        return put_in_place(temporary, folder / f"{stem}-{digest_of(temporary, 8)}{suffix}")


def write_finished(folder: Path, ids: np.ndarray, finished: Finished, snapshots: Sequence[int]) -> None:
    """What trials ended with, and their snapshots; `ids` are those of the trials that finished."""
    if finished.snapshots:
        write_weights(folder, ids, finished.snapshots, snapshots)
    write_weights(folder, ids, finished.weights or {})  # last: a trial whose weights are there has its snapshots too


class WeightsFolder:
    """The weights of a study's trials, by identity and by step; which file holds what is read once."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._places: dict[tuple[int, int | None], tuple[Path, tuple[int, ...]]] = {}
        self._known: set[Path] = set()
        self._sound: set[Path] = set()  # files that are what was written

    def __call__(self, identity: int, step: int | None = None) -> Weights:
        """The weights of one trial by its identity (the table's column `id`), at its end or at a snapshot."""
        key = (int(identity), step)
        if key not in self._places:
            self._look()
        if key not in self._places:
            when = "" if step is None else f" at step {step}"
            raise KroghError(f"no weights of trial {identity}{when} in {self._folder}")
        path, place = self._places[key]
        if path not in self._sound:
            _require_as_written(path)
            self._sound.add(path)
        with _opened(path) as file:
            found = {name: file.get_slice(name)[place] for name in sorted({*file.keys()} - {*_OWN})}
        whole = step is None or not any(np.isnan(leaf).any() for leaf in found.values())
        require(whole, f"trial {identity} had ended before step {step}")
        return found

    def ids(self, step: int | None = None) -> np.ndarray:
        """Identities of the trials whose final weights, or those at a step, are there."""
        self._look()
        return np.array(sorted(identity for identity, at in self._places if at == step), np.uint64)

    def _look(self) -> None:
        """Take in the files that were not there before."""
        for path in sorted(set(self._folder.glob("*.safetensors")) - self._known):
            with _opened(path) as file:
                steps = file.get_tensor("step").tolist() if path.name.endswith(_SNAPSHOTS) else None
                for row, identity in enumerate(file.get_tensor("id").tolist()):
                    places = [(None, (row,))] if steps is None else [(s, (row, i)) for i, s in enumerate(steps)]
                    self._places |= {(identity, step): (path, place) for step, place in places}
            self._known.add(path)


def check_weights(path: Path) -> None:
    """Refuse a file that is not whole, or holds no weights of trials."""
    with _opened(path) as file:
        require("id" in file.keys(), f"{path} names no trials")  # noqa: SIM118 (no mapping)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A file of weights; a damaged one is named."""
    from safetensors import SafetensorError, safe_open

    own(path.parent, path.name)
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except (SafetensorError, OSError) as cause:
        raise KroghError(f"{path} is damaged ({cause}); {_REMEDY}") from None


def _require_as_written(path: Path) -> None:
    """Refuse a file whose bytes are not those of the digest in its name; older names have none."""
    *_, written = path.name.partition(".")[0].split("-")
    known = path.name.count("-") == 2
    require(not known or digest_of(own(path.parent, path.name), 8) == written, f"{path} is damaged; {_REMEDY}")
