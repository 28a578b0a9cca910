"""Ridge decoders: both forms are one, they solve their equation, and the reference's cell comes out."""

from __future__ import annotations

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.experiments.recurrence.inversion import states
from krogh.networks.recurrence.learned_decoder import deviations, ridge


@pytest.mark.parametrize(("rows", "width"), [(40, 12), (12, 40), (2100, 5)])
def test_both_forms_solve_the_same_equation(rows, width):
    rng = np.random.default_rng(0)
    h, x = 3 * rng.standard_normal((rows, width)), rng.standard_normal((rows, 4))
    scaled = h / np.sqrt(np.mean(h**2))
    expected = np.linalg.solve(scaled.T @ scaled + 1e-3 * rows * np.eye(width), scaled.T @ x) / np.sqrt(np.mean(h**2))
    for form in (None, "primal", "dual"):
        assert np.allclose(ridge(h, x, 1e-3, form), expected, rtol=1e-7, atol=1e-9)
    assert np.allclose(ridge(h.astype(np.float32), x, 1e-3), expected, rtol=1e-3, atol=1e-4)


def test_what_is_linear_is_decoded_exactly():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((200, 3))
    h = x @ rng.standard_normal((3, 9))
    assert deviations(h @ ridge(h, x, 1e-12), x).relative_l2 < 1e-6


def test_deviations_one_by_one():
    x, off = np.array([[3.0, 4.0], [0.0, 2.0]]), np.array([[0.6, -0.8], [1.0, 0.0]])
    found = deviations(x + off, x)
    assert found.relative_l2 == pytest.approx((1 / 5 + 1 / 2) / 2) and found.largest == pytest.approx(0.9)


def test_states_of_shorter_sequences_are_those_on_the_way():
    rng = lambda: np.random.default_rng(5)  # noqa: E731
    long = {length: (h.copy(), x) for length, h, x in states(30, 2 / 30, 3, (1, 2, 4), 7, rng())}
    r = rng()
    W, A = (r.standard_normal((30, c), np.float32) * np.float32((2 / 30) ** 0.5) for c in (30, 3))
    x, h = r.standard_normal((7, 4, 3), np.float32), np.zeros((7, 30), np.float32)
    for l in range(4):  # noqa: E741
        h = np.maximum(h @ W.T + x[:, l] @ A.T, 0)
        if l + 1 in long:
            assert np.allclose(long[l + 1][0], h, atol=1e-5)
            assert np.array_equal(long[l + 1][1], x[:, : l + 1].reshape(7, -1))


def test_a_cell_of_the_reference():
    """Relative L2 error .0051 at d = 2, L = 2, m = 500 with 6000 sequences (one seed there)."""
    ((_, h, x),) = states(500, 2 / 500, 2, (2,), 7000, np.random.default_rng(0))
    found = deviations(h[6000:].astype(np.float64) @ ridge(h[:6000], x[:6000]), x[6000:])
    assert found.relative_l2 == pytest.approx(0.0051, rel=0.2)


def test_bad_input_is_said():
    h, x = np.ones((4, 2)), np.ones((4, 1))
    with pytest.raises(KroghError, match="as many; got 4 and 3"):
        ridge(h, x[:3])
    with pytest.raises(KroghError, match="penalty must be above 0"):
        ridge(h, x, 0.0)
    with pytest.raises(KroghError, match="'primal' or 'dual'; got form='both'"):
        ridge(h, x, form="both")
    with pytest.raises(KroghError, match="must not all be 0"):
        ridge(0 * h, x)
