"""float64 in JAX: constructions, margins and certificates compute in it, training does not."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import jax


def double_precision() -> AbstractContextManager[Any]:
    """float64 in JAX for the length of a block; the name of the context changed in JAX 0.8."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64  # type: ignore[attr-defined]

    return enable_x64()
