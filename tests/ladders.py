"""Networks that the tests of all-layer margins share, written down without the compilers."""

from __future__ import annotations

import jax
import numpy as np
import pytest


def rounding(n):
    """C1 on n coordinates."""
    one = np.eye(n)
    return {
        "V1": np.vstack([one, one]),
        "c1": np.repeat([-1 / 3, -2 / 3], n),
        "V2": np.hstack([3 * one, -3 * one]),
        "c2": np.zeros(n),
    }


def ladder_parameters(r, q, correction=True):
    """The AND-ladder: gate j of a layer is AND(j, j+1 mod r), and the last layer AND(0, 1)."""
    found = {}
    for place in range(q - 1):
        n = r if place < q - 2 else 1
        weight = np.zeros((n, r))
        for j in range(n):
            weight[j, j] += 1
            weight[j, (j + 1) % r] += 1
        found |= {
            f"f{place}.W1": weight,
            f"f{place}.b1": -np.ones(n),
            f"f{place}.W2": np.eye(n),
            f"f{place}.b2": np.zeros(n),
        }
        if correction:
            found |= {f"z{place}.{name}": value for name, value in rounding(n).items()}
    return found | {"out.W": np.array([[2.0]]), "out.b": np.array([-1.0])}


def circuit_value(parameters, x):
    """The first output of a network of gates, in JAX, from the names alone."""
    h, place = x, 0
    while f"f{place}.W1" in parameters:
        for prefix, weight, bias in (("f", "W", "b"), ("z", "V", "c")):
            for k in (1, 2):
                if f"{prefix}{place}.{weight}{k}" in parameters:
                    h = parameters[f"{prefix}{place}.{weight}{k}"] @ h + parameters[f"{prefix}{place}.{bias}{k}"]
                    h = jax.nn.relu(h)
        place += 1
    place = 0
    while f"p{place}.W" in parameters:
        h = jax.nn.relu(parameters[f"p{place}.W"] @ h + parameters[f"p{place}.b"])
        place += 1
    return (parameters["out.W"] @ h + parameters["out.b"])[0]


@pytest.fixture(scope="session")
def ladder():
    return ladder_parameters


@pytest.fixture(scope="session")
def network():
    return circuit_value


@pytest.fixture(scope="session")
def round_parameters():
    return rounding
