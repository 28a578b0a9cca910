"""Strict from the first day: no silent promotion of types or ranks, and shapes checked as annotated.

All three are set before any module of krogh is imported, which is why they stand at the top of this file.
"""

from __future__ import annotations

import jax
import jaxtyping

CHECKED = ("krogh.tasks", "krogh.models", "krogh.training", "krogh.probes")

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jaxtyping.install_import_hook(CHECKED, "beartype.beartype")
