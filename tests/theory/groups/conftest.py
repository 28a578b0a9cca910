"""Groups that no family names, built by hand."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from krogh.programs import groups


def matrix_group(name, modulus, *generators):
    """The group that square matrices generate modulo a number; labels are the entries, so that tests can read them."""
    first = np.eye(len(generators[0]), dtype=int)
    found, elements = {first.tobytes(): 0}, [first]
    for element in elements:
        for generator in generators:
            product = element @ np.array(generator) % modulus
            if product.tobytes() not in found:
                found[product.tobytes()] = len(elements)
                elements.append(product)
    stack = np.array(elements)
    table = [[found[p.tobytes()] for p in a @ stack % modulus] for a in stack]
    return groups.from_table(table, [" ".join(map(str, element.ravel())) for element in elements], name)


def dicyclic(n):
    """Dic_n of order 4n: a^{2n} = 1, x² = a^n, x a = a⁻¹ x; element i + 2n·f is a^i x^f."""
    turns, flips = np.arange(4 * n) % (2 * n), np.arange(4 * n) // (2 * n)
    f, k = flips[:, None], flips[None, :]
    table = (turns[:, None] + (1 - 2 * f) * turns[None, :] + n * (f & k)) % (2 * n) + 2 * n * (f ^ k)
    return groups.from_table(table, name=f"Dic_{n}")


def shuffled(name):
    """A named group with its elements in another order and without labels or permutations."""
    group = groups.load_group(name)
    order = np.random.default_rng(group.order).permutation(group.order)
    return groups.from_table(np.argsort(order)[group.table[np.ix_(order, order)]], name=f"shuffled {name}")


BY_HAND = {
    "SL(2,3)": lambda: matrix_group("SL(2,3)", 3, [[1, 1], [0, 1]], [[1, 0], [1, 1]]),
    "7:3": lambda: matrix_group("7:3", 7, [[2, 0], [0, 1]], [[1, 1], [0, 1]]),
    "31:30": lambda: matrix_group("31:30", 31, [[3, 0], [0, 1]], [[1, 1], [0, 1]]),
    "Heis(3)": lambda: matrix_group("Heis(3)", 3, [[1, 1, 0], [0, 1, 0], [0, 0, 1]], [[1, 0, 0], [0, 1, 1], [0, 0, 1]]),
    "Heis(7)": lambda: matrix_group("Heis(7)", 7, [[1, 1, 0], [0, 1, 0], [0, 0, 1]], [[1, 0, 0], [0, 1, 1], [0, 0, 1]]),
    "Dic_3": lambda: dicyclic(3),
    "Dic_5": lambda: dicyclic(5),
    "Dic_250": lambda: dicyclic(250),
    "Z_12 shuffled": lambda: shuffled("Z_12"),
    "D_4 shuffled": lambda: shuffled("D_4"),
    "S_5 shuffled": lambda: shuffled("S_5"),
    "S_6 shuffled": lambda: shuffled("S_6"),
}


@functools.cache
def built(name):
    return BY_HAND[name]() if name in BY_HAND else groups.load_group(name)


@pytest.fixture
def group(request):
    """The group that a test names by `@pytest.mark.parametrize("group", [...], indirect=True)`."""
    return built(request.param)


@pytest.fixture
def build():
    """A group by its name, those of this file among them."""
    return built
