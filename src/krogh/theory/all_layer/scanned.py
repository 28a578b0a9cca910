"""The output of a compiled circuit as a loop over its modules: the same function as `circuit_output`, compiled faster.

Modules that follow each other and have the same shapes run as one `lax.scan`, so that a circuit of a hundred layers is
compiled in the time of a few. Searching for perturbations is otherwise spent mostly on compilation.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import jax
import jax.numpy as jnp

_GATES, _ROUND = ("W1", "b1", "W2", "b2"), ("V1", "c1", "V2", "c2")
_FEWEST = 3
"""Modules that are worth a loop."""


def scanned_output(parameters: Mapping[str, Any], x: Any) -> jax.Array:
    """F(x) [outputs] for one input [m], of parameters by the names of `dense_parameters`, whatever their values."""
    modules, place = [], 0
    while f"f{place}.W1" in parameters:
        names = [f"f{place}.{name}" for name in _GATES]
        names += [f"z{place}.{name}" for name in _ROUND if f"z{place}.{name}" in parameters]
        modules.append(tuple(jnp.asarray(parameters[name]) for name in names))
        place += 1
    place = 0
    while f"p{place}.W" in parameters:
        modules.append((jnp.asarray(parameters[f"p{place}.W"]), jnp.asarray(parameters[f"p{place}.b"])))
        place += 1
    last = jnp.asarray(parameters["out.W"])
    h = jnp.asarray(x, last.dtype)
    for _, group in groupby(modules, key=lambda module: tuple(array.shape for array in module)):
        alike = list(group)
        # a loop carries one vector, so it can only run where a module returns as many numbers as it reads
        if len(alike) >= _FEWEST and alike[0][-1].shape[0] == alike[0][0].shape[1]:
            stacked = tuple(jnp.stack(arrays) for arrays in zip(*alike, strict=True))
            h, _ = jax.lax.scan(lambda h, module: (_run(module, h), None), h, stacked)
        else:
            for module in alike:
                h = _run(module, h)
    return last @ h + jnp.asarray(parameters["out.b"])


def _run(module: tuple[jax.Array, ...], h: jax.Array) -> jax.Array:
    for weight, bias in zip(module[::2], module[1::2], strict=True):
        h = jax.nn.relu(weight @ h + bias)
    return h
