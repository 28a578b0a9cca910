"""What tests of several models share."""

from __future__ import annotations

import jax
import numpy as np


def random_params(task, model, dtype=np.float64, scale=0.5, seed=1):
    """Parameters of a model's shapes, all drawn from N(0, scale²), unlike any that it starts from."""
    random = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), task))
    return {name: (scale * random.normal(size=leaf.shape)).astype(dtype) for name, leaf in shapes.items()}


def in_double(function, model, params, x):
    """`function` of a model, its parameters and inputs, in double precision."""
    with jax.enable_x64(True):
        out = np.asarray(function(model, params, x))
    assert out.dtype in (np.float64, np.complex128)
    return out
