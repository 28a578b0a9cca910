"""Strict from the first day: no silent promotion of types or ranks, and shapes checked as annotated.

All three are set before any module of krogh is imported, which is why they stand at the top of this file.
"""

from __future__ import annotations

import os
from pathlib import Path

import jax
import jaxtyping
from deadline import pytest_collection_modifyitems, pytest_runtest_setup

__all__ = ["pytest_collection_modifyitems", "pytest_runtest_setup"]

# Programs are compiled once for all workers and for what they start, and not among the user's.
os.environ.setdefault("KROGH_CACHE", str(Path(__file__).parent.parent / ".krogh_cache"))

CHECKED = ("krogh.tasks", "krogh.models", "krogh.training", "krogh.probes")

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jaxtyping.install_import_hook(CHECKED, "beartype.beartype")
