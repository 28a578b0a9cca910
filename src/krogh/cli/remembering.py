"""What need not be found out twice: `krogh show` and some lists would import much to say what there is.

An answer is kept in the cache folder under a digest of what it depends on: every file of the package and of installed
plug-ins by its size and time, and the version of Python. Where a file of the user's own was loaded nothing is
remembered.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

from krogh.files import cache_folder, write_atomically

T = TypeVar("T")
MOST_KEPT = 2_000  # answers; when there are more, all are forgotten


def remembered(question: str, answer: Callable[[], T]) -> T:
    """The answer to a question, from the cache where it is there, as JSON has it."""
    folder = None if _own_files_loaded() else cache_folder()
    if folder is None:
        return _as_json(answer())
    path = folder / "answers" / f"{_digest(_state(), question)}.json"
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text(encoding="utf-8"))
    found = _as_json(answer())
    with contextlib.suppress(OSError):
        kept = [*path.parent.glob("*.json")] if path.parent.is_dir() else []
        for old in kept if len(kept) >= MOST_KEPT else ():
            old.unlink(missing_ok=True)
        write_atomically(path, json.dumps(found, ensure_ascii=False).encode())
    return found


def _as_json(found: Any) -> Any:
    return json.loads(json.dumps(found, ensure_ascii=False, default=str))


def _own_files_loaded() -> bool:
    registry = sys.modules.get("krogh.registry")
    return registry is not None and bool(registry.OWN_FILES)


def _state() -> str:
    """What answers depend on: the package's files, plug-ins and versions."""
    parts = [sys.version, os.environ.get("KROGH_PATH", ""), *_files(Path(__file__).parents[1])]
    for plugin in entry_points(group="krogh.plugins"):
        parts.append(f"{plugin.name} {plugin.value} {plugin.dist.version if plugin.dist else ''}")
        home = importlib.util.find_spec(plugin.module.partition(".")[0])
        if home is not None and home.submodule_search_locations:
            parts += [line for folder in home.submodule_search_locations for line in _files(Path(folder))]
        elif home is not None and home.origin:
            parts.append(_file(home.origin))
    return _digest(*parts)


def _files(package: Path) -> Iterator[str]:
    """Every file of a package, by its size and time."""
    for folder, folders, files in os.walk(package):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            yield _file(os.path.join(folder, name))


def _file(path: str) -> str:
    about = os.stat(path)
    return f"{path} {about.st_size} {about.st_mtime_ns}"


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()
