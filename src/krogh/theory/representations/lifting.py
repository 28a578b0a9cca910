"""From characters known to a few digits to characters known exactly.

The value of a character of dimension d at an element g of order o is a sum of d o-th roots of unity, the eigenvalues
of a matrix. How often each occurs follows from the values at the powers of g,

    m_j = (1/o) Σ_k χ(g^k) ζ^{-jk},  ζ = e^{2πi/o},

and is a whole number: values good to a few digits determine it, and it determines the values

    χ(g^k) = Σ_j m_j ζ^{jk}

to full accuracy. A value is real where m_j = m_{-j}, and a whole number where m_j depends on gcd(j, o) alone (it is
then fixed by every automorphism of the roots, hence rational, and an algebraic integer); both are decided on the
multiplicities, not on the digits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from krogh.tasks.group_base import Group

FURTHEST_FROM_WHOLE = 0.02
"""The eigenvectors are good to about 1e-9; anything this far from whole numbers was no character."""


class NotCharacters(Exception):
    """The rows given are not characters, to the accuracy that whole multiplicities need."""


def lift(rough: NDArray[np.complex128], group: Group) -> NDArray[np.complex128]:
    """Exact characters [irreps, classes] from rough ones; `NotCharacters` where multiplicities are not whole."""
    dimensions = np.rint(rough[:, 0].real)
    exact = np.zeros_like(rough)
    done = np.zeros(rough.shape[1], bool)
    by_falling_order = np.argsort(-group.element_orders[group.representatives], kind="stable")
    for column in by_falling_order:  # powers come along, so that few elements beside the largest orders are left
        if done[column]:
            continue
        powers = group.powers(int(group.representatives[column]))
        classes = group.class_of[powers]
        multiplicities = _whole(np.fft.fft(rough[:, classes], axis=1) / len(powers), dimensions)
        for divisor in np.flatnonzero(len(powers) % np.arange(1, len(powers) + 1) == 0) + 1:
            _fill(exact, done, multiplicities, classes, int(divisor))
    return exact


def _whole(rough: NDArray[np.complex128], dimensions: NDArray[np.float64]) -> NDArray[np.float64]:
    whole = np.rint(rough.real)
    fits = np.abs(rough - whole).max() < FURTHEST_FROM_WHOLE and (whole >= 0).all()
    if not fits or not np.array_equal(whole.sum(axis=1), dimensions):
        raise NotCharacters(f"multiplicities of eigenvalues are off by {np.abs(rough - whole).max():.3g}")
    return whole


def _fill(
    exact: NDArray[np.complex128],
    done: NDArray[np.bool_],
    multiplicities: NDArray[np.float64],
    classes: NDArray[np.int64],
    divisor: int,
) -> None:
    """Enter the values at g^{divisor·u}, u prime to the order o' = o/divisor of g^divisor, whose ζ' = ζ^divisor."""
    order = len(classes) // divisor
    folded = multiplicities.reshape(len(exact), divisor, order).sum(axis=1)
    units = np.flatnonzero(np.gcd(np.arange(order), order) == 1)
    columns, first = np.unique(classes[divisor * units % len(classes)], return_index=True)
    fresh = ~done[columns]
    columns, units = columns[fresh], units[first][fresh]
    if not len(columns):
        return
    exact[:, columns] = sum_of_roots(folded, units)
    done[columns] = True


def sum_of_roots(multiplicities: NDArray[np.float64], units: NDArray[np.int64]) -> NDArray[np.complex128]:
    """Σ_j m_j ζ^{ju} for rows of multiplicities [rows, o] and every u; exactly real, exactly whole where it is so."""
    order = multiplicities.shape[1]
    roots = roots_of_unity(order)[np.outer(np.arange(order), units) % order]
    # The cosines see only the even part of m and the sines only its odd part; so written, values of conjugate rows are
    # conjugate to the last digit, and real rows have no imaginary part.
    reflected = multiplicities[:, -np.arange(order) % order]
    real = (multiplicities + reflected) @ roots.real / 2
    imaginary = (multiplicities - reflected) @ roots.imag / 2
    first_alike = np.gcd(np.arange(order), order) % order  # itself among the j with this gcd(j, o); 0 for j = 0
    rational = (multiplicities == multiplicities[:, first_alike]).all(axis=1)
    real[rational] = np.rint(real[rational])
    return real + 1j * (imaginary + 0.0)


def roots_of_unity(order: int) -> NDArray[np.complex128]:
    """ζ^0, ..., ζ^{o-1}, with ζ^{-j} exactly the conjugate of ζ^j and 1, -1, ±i exact."""
    steps = np.arange(order)
    # Angles are folded into [-1/8, 1/8] of a turn around a quarter before they are rounded.
    quarters = np.rint(4 * steps / order).astype(np.int64)
    rest = (4 * steps - quarters * order) / (4 * order)
    turned = np.array([1, 1j, -1, -1j])[quarters % 4] * np.exp(2j * np.pi * rest)
    half = (order - 1) // 2
    turned[order - half :] = np.conj(turned[1 : half + 1][::-1])
    return turned
