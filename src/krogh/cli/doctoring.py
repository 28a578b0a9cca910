"""`krogh doctor`: what is here, and whether it trains."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import time
from typing import Any

EXTRAS = {
    "cuda": ("jax_cuda13_plugin jax_cuda12_plugin", "NVIDIA GPUs"),
    "cluster": ("ray", "clusters"),
    "frames": ("xarray", "pandas and xarray"),
    "stores": ("fsspec", "object storage"),
    "tracking": ("mlflow", "MLflow and Weights & Biases"),
    "tabular": ("sklearn", "random forests and tables"),
    "bench": ("torch", "the benchmark's baselines"),
}
"""Modules, of which one is there where the extra is installed, and what for."""


def examine(as_json: bool) -> int:
    """Print what was found; 0 if the test trained what it should."""
    found = findings()
    if as_json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        for part, lines in found.items():
            print(part)
            width = max(map(len, lines), default=0)
            for name, value in lines.items():
                print(f"  {name:<{width}}  {value}")
    return 0 if found["self-test"]["passed"] else 1


def findings() -> dict[str, dict[str, Any]]:
    """Versions, devices, memory, paths, caches, extras, and the self-test."""
    import jax

    from krogh.engine import resident
    from krogh.engine.devices import memory_of
    from krogh.files import cache_folder
    from krogh.lab.sources import versions

    devices = {str(device): device.device_kind for device in jax.devices()}
    trial = _trial()
    device = jax.devices()[0]
    lacking = resident.missing(trial, device)
    return {
        "versions": {"python": platform.python_version(), **versions()},
        "devices": {**devices, "cores": os.cpu_count()},
        "memory": _memory()
        | {
            str(one): f"{memory_of(one) / 2**30:.1f} GiB for programs" for one in jax.devices() if one.platform != "cpu"
        },
        "paths": {
            "xla": "the reference, everywhere",
            "resident kernel": "small two-layer networks on parities"
            if lacking is None
            else f"not used here: {lacking}",
        },
        "caches": {"programs and kernels": str(cache_folder() or "off (KROGH_CACHE=off)")},
        "extras": {
            name: f"{'installed' if any(map(importlib.util.find_spec, modules.split())) else 'not installed'} ({words})"
            for name, (modules, words) in EXTRAS.items()
        },
        "plug-ins": _plugins(),
        "self-test": _self_test(trial),
    }


def _plugins() -> dict[str, str]:
    """Installed packages that add to krogh, and whether they can be loaded."""
    from importlib.metadata import entry_points

    from krogh.registry import BROKEN_PLUGINS, load_plugins

    load_plugins()
    return {
        plugin.name: BROKEN_PLUGINS.get(plugin.name, plugin.value) for plugin in entry_points(group="krogh.plugins")
    }


def _memory() -> dict[str, str]:
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
        free = os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return {"RAM": "unknown"}
    return {"RAM": f"{pages * size / 2**30:.1f} GiB", "free": f"{free * size / 2**30:.1f} GiB"}


def _trial() -> Any:
    import krogh

    stopping = krogh.Stopping(budget=4_000, validation=128)
    training = krogh.Training(krogh.Sgd(rate=0.1), krogh.Online(32), stopping)
    return krogh.Trial(krogh.Parity(n=12, k=2), krogh.Mlp(width=32), training)


def _self_test(trial: Any) -> dict[str, Any]:
    """Sixteen networks learn a parity of two bits, twice: all of them, and the second time exactly as the first."""
    import krogh

    begun = time.perf_counter()
    first, second = (krogh.run(krogh.sweep(trial, seed=range(16))) for _ in range(2))
    converged = int((first["outcome"] == "converged").sum())
    same = first["convergence_time"].equals(second["convergence_time"])
    return {
        "passed": converged >= 14 and same,
        "converged": f"{converged} of 16 networks on a (12,2)-parity",
        "repeatable": "the same times twice" if same else "two runs differ",
        "seconds": round(time.perf_counter() - begun, 1),
    }
