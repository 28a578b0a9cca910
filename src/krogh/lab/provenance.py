"""Where results come from: versions, device, time."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import jax

PACKAGES = ("krogh", "jax", "jaxlib", "equinox", "numpy", "scipy", "polars", "matplotlib", "torch")


def versions() -> dict[str, str]:
    """Versions of what computed the results."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def device_in_words() -> str:
    devices = jax.local_devices()
    kind = devices[0].device_kind if devices[0].platform != "cpu" else f"CPU, {os.cpu_count()} cores"
    return kind if len(devices) == 1 else f"{len(devices)} × {kind}"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
