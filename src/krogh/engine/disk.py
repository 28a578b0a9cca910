"""Compiled programs on disk: what one process has compiled, the next one reads.

The cache is JAX's own. Its folder is `$KROGH_CACHE`, or `krogh` in the user's cache folder (`$XDG_CACHE_HOME`, else
`~/.cache`); `KROGH_CACHE=off` keeps nothing. A process that has given JAX a folder already uses that one as it is.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import time
import zlib
from pathlib import Path

import jax

LARGEST = 1 << 30  # bytes; JAX's own limit needs another package
LEAST_SECONDS = 0.3  # what is compiled faster is not kept
_SETTLED = 60.0  # seconds after which nobody is writing an entry any more


def keep_programs() -> Path | None:
    """Let JAX read and write programs on disk from now on; the folder, or None if nothing is kept."""
    chosen = _chosen_folder()
    if chosen is None or getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return None
    folder = chosen / f"programs-{_machine()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tidy(folder)
    except OSError as cause:
        _say(f"compiled programs are not kept: {folder} cannot be used ({cause.strerror}); KROGH_CACHE names another")
        return None
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    return folder


def _chosen_folder() -> Path | None:
    """As the environment says; None for nowhere."""
    given = os.environ.get("KROGH_CACHE", "")
    if given:
        return None if given.lower() == "off" else Path(given).expanduser().absolute()
    user = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(user) if os.path.isabs(user) else Path.home() / ".cache") / "krogh"
    except RuntimeError:  # nobody's home
        return None


def _machine() -> str:
    """A name for what a CPU's programs run on: a home may be shared by machines with different instructions."""
    known = [platform.machine(), platform.processor()]
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        known += sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))})
    except OSError:
        pass
    return hashlib.blake2b("\n".join(known).encode(), digest_size=4).hexdigest()


def tidy(folder: Path, largest: int = LARGEST) -> None:
    """Remove damaged entries that were written since this was last done, then the oldest above `largest` bytes.

    JAX writes an entry in place and never writes it again: one whose writer died would be met with a warning for ever.
    """
    stamp = folder / "checked"
    since = stamp.stat().st_mtime if stamp.exists() else 0.0
    until = time.time() - _SETTLED
    kept = []
    for path in folder.glob("*-cache"):
        try:
            size, written = path.stat().st_size, path.stat().st_mtime
            if since <= written < until and not _sound(path):
                _say(f"{path} is damaged and was removed; its program is compiled again")
                path.unlink()
            else:
                kept.append((written, size, path))
        except FileNotFoundError:  # another process was faster
            continue
    stamp.touch()
    os.utime(stamp, (until, until))
    total = sum(size for _, size, _ in kept)
    for _, size, path in sorted(kept, key=lambda entry: entry[0]):
        if total <= largest:
            break
        path.unlink(missing_ok=True)
        total -= size


def _sound(path: Path) -> bool:
    """Whether an entry can be unpacked; one packed with zstandard is left to JAX."""
    packed = path.read_bytes()
    if packed.startswith(b"\x28\xb5\x2f\xfd"):
        return True
    try:
        zlib.decompress(packed)
    except zlib.error:
        return False
    return True


def _say(line: str) -> None:
    print(f"krogh: {line}", file=sys.stderr)
