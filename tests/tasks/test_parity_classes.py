"""Parity with two classes."""

from __future__ import annotations

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.tasks import Parity, ParityClasses


def test_class_0_is_the_even_one_on_the_whole_cube():
    task = ParityClasses(5, support=(1, 3))
    every = task.decode(task.population())
    x, y = np.asarray(every.x), np.asarray(every.truth)
    assert len({row.tobytes() for row in x}) == 32 == task.population_size
    assert np.array_equal(y, np.where(x[:, 1] * x[:, 3] > 0, 0, 1)) and y.dtype == np.int32
    assert task.classes == 2 and task.input_shape == (5,)


def test_it_is_the_parity_of_one_logit_otherwise():
    two, one = ParityClasses(6, 3), Parity(6, 3)
    assert np.array_equal(two.support, one.support)
    assert two.limits() == one.limits() and two.baselines() == one.baselines()
    signs = one.decode(one.population()).truth
    assert np.array_equal(1 - 2 * np.asarray(two.decode(two.population()).truth), signs)


def test_what_is_refused():
    with pytest.raises(KroghError, match="k must be at most n=3; got k=4"):
        ParityClasses(3, 4)
    with pytest.raises(KroghError, match="k must be an integer at least 1"):
        ParityClasses(3, 0)
    with pytest.raises(KroghError, match="listed for n ≤ 20; got n=21"):
        ParityClasses(21, 2).population()
