"""Trials that are trained by another process: what is sent to it, and what it sends back.

A `Piece` is some trials of a cohort: the template, pickled once for all of them, and the arrays of what differs between
these. Templates are fitted before they are sent, so that a trial is trained by the program that its whole cohort would
have, wherever it goes. `train_pieces` trains them there by `run_cohorts`, with the memory and devices of that place.

Classes that are not installed there go as source: `own_modules` finds the files they come from, `Sent` imports them. A
class by value would not do: what a value's leaves are is settled when its class is made.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.machinery
import io
import os
import pickle
import queue
import sys
import sysconfig
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np

from krogh.engine.cohort import Trials
from krogh.engine.executor import counted, run_cohorts
from krogh.engine.lane import Finished, Usage
from krogh.engine.trial import Trial
from krogh.errors import KroghError, require
from krogh.registry import OWN_FILES

MAIN = "__sent_main__"  # the name by which a script is imported where it is not the main program
GATHER_SECONDS = 0.05  # records that end so soon after another travel together
CONFIGURATION = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
)
"""Options of JAX on which results depend."""
TEMPLATES = 64

_KROGH = Path(__file__).resolve().parents[1]
_INSTALLED = tuple(
    os.path.join(folder, "") for folder in (str(_KROGH), *map(sysconfig.get_path, ("stdlib", "platstdlib")))
)


@dataclass(frozen=True)
class Piece:
    """Trials of one cohort: at `positions` of it."""

    place: int
    template: str  # the name of one that was sent
    varying: dict[int, np.ndarray]
    positions: np.ndarray


@dataclass(frozen=True)
class Trained:
    """Records of trials of the cohort at `place`, if any, and what has been spent since the last message."""

    place: int
    finished: Finished | None
    usage: Usage


class Part(Trials):
    """Trials that were sent here: their template is fitted already."""

    def fitted(self) -> Trials:
        return self


def train_pieces(
    pieces: Sequence[Piece], templates: Mapping[str, Trial], keep_weights: bool
) -> Generator[Trained, None, None]:
    """Train pieces and yield what is found as it comes; the last message has what was spent after the last record."""
    cohorts = [Part(templates[piece.template], piece.varying, len(piece.positions)) for piece in pieces]
    everyone = [np.arange(len(cohort)) for cohort in cohorts]
    usage = Usage()
    with closing(gathered(run_cohorts(cohorts, everyone, usage=usage, keep_weights=keep_weights))) as batches:
        for batch in batches:
            for index in dict.fromkeys(index for index, _ in batch):
                found = concatenated([part for at, part in batch if at == index and part is not None])
                if found is not None:
                    piece = pieces[index]
                    own = replace(found, position=piece.positions[found.position])
                    yield Trained(piece.place, own, counted(usage))
    yield Trained(pieces[0].place, None, counted(usage))


def gathered(records: Generator[Any, None, None], seconds: float = GATHER_SECONDS) -> Generator[list[Any], None, None]:
    """Items in lists, none held back for longer than `seconds`, while more are being made."""
    arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stop, end = threading.Event(), object()

    def pump() -> None:
        try:
            with closing(records):
                for item in records:
                    arrived.put(item)
                    if stop.is_set():
                        return
            arrived.put(end)
        except BaseException as cause:
            arrived.put(cause)

    threading.Thread(target=pump, daemon=True).start()
    try:
        while True:
            batch, until = [_next(arrived)], time.monotonic() + seconds
            while batch[-1] is not end and not isinstance(batch[-1], BaseException):
                with contextlib.suppress(queue.Empty):
                    batch.append(arrived.get(timeout=max(0.0, until - time.monotonic())))
                    continue
                break
            last: Any = batch[-1] if batch[-1] is end or isinstance(batch[-1], BaseException) else None
            items = batch if last is None else batch[:-1]
            if items:
                yield items
            if last is end:
                return
            if last is not None:
                raise last
    finally:
        stop.set()


def _next(arrived: queue.SimpleQueue[Any]) -> Any:
    while True:  # an endless wait could not be interrupted
        with contextlib.suppress(queue.Empty):
            return arrived.get(timeout=0.2)


def concatenated(parts: Sequence[Finished]) -> Finished | None:
    """Records of one cohort as one; None for none."""
    if len(parts) <= 1:
        return parts[0] if parts else None
    columns = [vars(part) for part in parts]
    return Finished(**{name: _joined([column[name] for column in columns]) for name in columns[0]})


def _joined(parts: list[Any]) -> Any:
    return None if parts[0] is None else jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


# --- templates, and the modules they need --------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """A module of the user's own, as text."""

    file: str
    text: bytes
    package: bool


def packed(template: Trial) -> bytes:
    """A template as bytes; refuse what no other process could read."""
    try:
        return pickle.dumps(template, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError) as cause:
        raise KroghError(
            f"{in_words(template)} cannot be sent to workers ({cause}): define its classes and functions at the top "
            "of a file"
        ) from None


def unpacked(given: bytes) -> Trial:
    """The template, with the modules that were sent."""
    return _Reading(given).load()


class _Reading(pickle.Unpickler):
    """Reads a pickle of this run's own, and notes the modules that it names."""

    def __init__(self, given: bytes):
        super().__init__(io.BytesIO(given))
        self.modules: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.modules.add(module)
        sent = module == "__main__" and MAIN in SENT.sources
        return super().find_class(MAIN if sent else module, name)


def own_modules(templates: Iterable[bytes]) -> dict[str, Source]:
    """The modules that templates need and no package brings, with all that was imported from the same folders."""
    needed = set[str]()
    for given in templates:
        reading = _Reading(given)
        reading.load()
        needed |= reading.modules
    main = sys.modules["__main__"]
    typed_in = "__main__" in needed and _file(main) is None
    require(
        not typed_in,
        "a class that was typed in cannot be sent to workers: write it into a file (%%writefile mine.py in a notebook) "
        "and import it",
    )
    files = [(name, file) for name in needed if (file := _file(sys.modules.get(name))) is not None]
    folders = {_import_folder(name, file) for name, file in files} | {file.parent for file in OWN_FILES}
    result = {}
    for name, module in list(sys.modules.items()):
        file = _file(module)
        inside = file is not None and any(file.is_relative_to(folder) for folder in folders)
        as_it_is = module is not main or (name == "__main__" and "__main__" in needed)
        if file is not None and inside and as_it_is:
            package = file.name == "__init__.py"
            result[MAIN if name == "__main__" else name] = Source(str(file), file.read_bytes(), package)
    return result


def _file(module: ModuleType | None) -> Path | None:
    """The source of a module that is neither krogh's nor installed."""
    given = getattr(module, "__file__", None)
    return _own_file(given) if isinstance(given, str) and given.endswith(".py") else None


@functools.cache
def _own_file(given: str) -> Path | None:
    if not {"site-packages", "dist-packages"}.isdisjoint(given.split(os.sep)) or given.startswith(_INSTALLED):
        return None
    path = Path(given).resolve()
    return path if path.is_file() and not str(path).startswith(_INSTALLED) else None


def _import_folder(name: str, file: Path) -> Path:
    return file.parents[name.count(".") + (file.name == "__init__.py")]


class Sent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules from the sources that were sent, before any of the same name that lies here."""

    def __init__(self) -> None:
        self.sources: dict[str, Source] = {}

    def add(self, sources: Mapping[str, Source]) -> None:
        """More modules; one whose text has changed is imported again."""
        for name, source in sources.items():
            if name in self.sources and self.sources[name].text != source.text:
                sys.modules.pop(name, None)
        self.sources |= sources
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        source = self.sources.get(name)
        if source is not None:
            spec = importlib.machinery.ModuleSpec(name, self, origin=source.file, is_package=source.package)
            spec.has_location = True
            return spec
        if any(known.startswith(f"{name}.") for known in self.sources):  # a folder
            return importlib.machinery.ModuleSpec(name, None, is_package=True)
        return None

    def exec_module(self, module: ModuleType) -> None:
        source = self.sources[module.__name__]
        exec(compile(source.text, source.file, "exec"), module.__dict__)

    def get_source(self, name: str) -> str:
        return self.sources[name].text.decode()


SENT = Sent()
_TEMPLATES: OrderedDict[str, Trial] = OrderedDict()


def known_template(name: str, fetch: Callable[[], Any]) -> Trial:
    """The template of that name: fetched the first time, then kept, with what it shares on the devices."""
    if name not in _TEMPLATES:
        _TEMPLATES[name] = unpacked(fetch())
        while len(_TEMPLATES) > TEMPLATES:
            _TEMPLATES.popitem(last=False)
    _TEMPLATES.move_to_end(name)
    return _TEMPLATES[name]


def configuration() -> dict[str, Any]:
    """The options of JAX that workers must share."""
    return {name: getattr(jax.config, name) for name in CONFIGURATION if hasattr(jax.config, name)}


def in_words(template: Trial) -> str:
    """What learns what."""
    return f"{type(template.model).__name__} on {type(template.task).__name__}"
