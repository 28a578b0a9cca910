"""The network of four units that counts letters: on all strings, beyond them, and in the tasks that are trained."""

from __future__ import annotations

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.handmade import construct
from krogh.networks.recurrence.counting import counting


@pytest.mark.parametrize(("length", "eps_x", "scale"), [(3, 1.0, 1.0), (10, 0.1, 4.0)])
def test_counting_is_exact_on_all_strings(length, eps_x, scale):
    made = counting(length, scale, eps_x)
    checked = made.check()
    assert checked.holds and checked.exhaustive and checked.inputs == 2 ** (length - 2)
    assert checked.largest_error < 1e-12


def test_counting_counts_long_strings_too():
    checked = construct("recurrence/counting", length=60, eps_x=0.3).check()
    assert checked.holds and not checked.exhaustive and checked.inputs == 2000


def test_counting_agrees_with_the_labels_of_its_task():
    made = counting(8, 4.0, 0.5)
    examples = made.task.decode(made.task.population())
    np.testing.assert_allclose(made.run(examples.x), examples.y, atol=1e-5)


def test_counting_refuses_what_its_task_refuses():
    with pytest.raises(KroghError, match="length must be an integer at least 3; got length=2"):
        counting(2)
    with pytest.raises(KroghError, match="scale must be a positive number"):
        counting(5, scale=0.0)
    with pytest.raises(KroghError, match="eps_x must be above 0"):
        counting(5, eps_x=0.0)
