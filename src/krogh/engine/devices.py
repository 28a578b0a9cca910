"""The devices of this machine: which of them train, and how much memory each has.

All of one kind train unless some are chosen, by their numbers: `krogh run --devices 0,2`, or `KROGH_DEVICES=0,2`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jax

from krogh.errors import require

CHOICE = "KROGH_DEVICES"
"""The environment's choice: numbers of devices, separated by commas; all unless given."""
CONTAINER = Path("/sys/fs/cgroup/memory.max")
UNKNOWN = 8 << 30


def devices_here() -> list[Any]:
    """The devices that train."""
    devices = jax.local_devices()
    given = os.environ.get(CHOICE, "").strip()
    if not given:
        return devices
    known = {str(device.id): device for device in devices}
    wanted = list(dict.fromkeys(part.strip() for part in given.split(",") if part.strip()))
    unknown = [number for number in wanted if number not in known]
    kind = devices[0].device_kind
    there = f"there {'is' if len(known) == 1 else 'are'} {', '.join(known)} ({kind})"
    require(wanted and not unknown, f"no device {', '.join(unknown) or given} here: {there}")
    return [known[number] for number in wanted]


def cores_here() -> int:
    """How many cores this process may use; `KROGH_CORES` says that it is fewer."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return max(1, min(usable, int(os.environ.get("KROGH_CORES") or usable)))


def memory_of(device: Any) -> int:
    """Bytes of a device's memory: of a CPU those of the machine, or of the container that krogh runs in."""
    if device.platform == "cpu":
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return min(whole, _container_limit() or whole)
    stats = device.memory_stats() or {}
    return int(stats.get("bytes_limit", UNKNOWN))


def _container_limit() -> int | None:
    try:
        return int(CONTAINER.read_text())
    except (OSError, ValueError):  # none, or "max"
        return None
