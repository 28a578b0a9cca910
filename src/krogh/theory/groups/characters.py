"""Character tables of finite groups, for any group that has a Cayley table (dissertation, section 7.6.1 and D.8).

The class sums K_r = Σ_{x ∈ C_r} x commute, and their common eigenvectors are the irreducible characters. One random
Hermitian combination H of all class sums has them as its eigenvectors:

    K_r K_t = Σ_s a_{rts} K_s          in the orthonormal basis K_t/√|C_t|
    H = Σ_r c_r K_r, with c of the inverse class the conjugate of c
    v_χ(t) = conj χ(t) √(|C_t|/n)      unit eigenvectors of H, one for each irreducible character

These give characters to some digits, and a few digits decide them. The value of a character of dimension d at an
element g of order o is a sum of d o-th roots of unity, the eigenvalues of a matrix. How often each occurs follows from
the values at the powers of g, and is a whole number; it determines the values to full accuracy:

    m_j = (1/o) Σ_k χ(g^k) ζ^{-jk},  ζ = e^{2πi/o},        χ(g^k) = Σ_j m_j ζ^{jk}

A value is real where m_j = m_{-j}, and a whole number where m_j depends on gcd(j, o) alone (it is then fixed by every
automorphism of the roots, hence rational, and an algebraic integer); both are decided on the multiplicities, not on the
digits. The result is checked: Σ d² = n and both orthogonality relations. Abelian groups, which have as many classes as
elements, are done exactly by extending characters from subgroup to subgroup. No closed form of a family is used.
"""

from __future__ import annotations

import functools
import itertools
import string
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from krogh.errors import KroghError, require
from krogh.programs.groups import Group, cycle_type, read_only

FURTHEST_FROM_WHOLE = 0.02
"""The eigenvectors are good to about 1e-9; anything this far from whole numbers was no character."""
TRIES = 5
TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class CharacterTable:
    """The irreducible characters of a group: rows are irreps, columns the conjugacy classes as in `group.classes`.

    The trivial character is the first; rows go by dimension, then by falling real parts, then by falling imaginary
    parts, read from the first class on, so that conjugate rows stand together. `indicator` is Frobenius and Schur's
    (1/n) Σ_g χ(g²): +1 real, 0 complex, -1 quaternionic. Where a character is real, its imaginary part is exactly 0.
    """

    group: str
    characters: NDArray[np.complex128]
    dimensions: NDArray[np.int64]
    class_sizes: NDArray[np.int64]
    indicator: NDArray[np.int64]
    class_names: tuple[str, ...]
    irrep_names: tuple[str, ...]

    @property
    def order(self) -> int:
        """The order of the group, Σ_C |C|."""
        return int(self.class_sizes.sum())

    @property
    def real_type(self) -> bool:
        """Whether every irrep can be written with real matrices of its own dimension, as Theorem 7.9 asks."""
        return bool((self.indicator == 1).all())

    @property
    def real(self) -> NDArray[np.float64]:
        """The real parts of the characters; all of them where no irrep is of complex type."""
        return self.characters.real


@functools.lru_cache(maxsize=16)
def character_table(group: Group) -> CharacterTable:
    """The character table of a group of up to 1,024 elements, to full float64 accuracy."""
    rows = _abelian_characters(group) if group.abelian else _class_sum_characters(group)
    squares = group.class_of[group.table[group.representatives, group.representatives]]
    return ordered_table(group.name, rows, group.class_sizes, squares, class_names(group), sign_row(group))


def ordered_table(
    name: str,
    rows: NDArray[np.complex128],
    class_sizes: NDArray[np.int64],
    squares: NDArray[np.int64],
    classes: tuple[str, ...],
    sign: NDArray[np.float64] | None,
) -> CharacterTable:
    """Characters with their rows in order, named, and with indicators; squares[C] is the class of the squares of C."""
    order = int(class_sizes.sum())
    rows = rows[_row_order(rows)]
    dimensions = np.rint(rows[:, 0].real).astype(np.int64)
    means = (rows[:, squares] @ class_sizes).real / order
    indicator = np.rint(means).astype(np.int64)
    require(np.abs(means - indicator).max() < TOLERANCE, f"the indicators of {name} are not -1, 0 or 1: {means}")
    return CharacterTable(
        group=name,
        characters=read_only(rows),
        dimensions=read_only(dimensions),
        class_sizes=read_only(np.array(class_sizes, np.int64)),
        indicator=read_only(indicator),
        class_names=classes,
        irrep_names=_irrep_names(rows, dimensions, sign),
    )


def _row_order(rows: NDArray[np.complex128]) -> NDArray[np.int64]:
    rounded = np.round(rows, 9) + 0.0  # + 0.0: no -0 beside 0
    keys = np.concatenate([rounded[:, :1].real, -rounded.real, -rounded.imag], axis=1)
    trivial_last = ~np.all(rounded == 1.0, axis=1)
    return np.lexsort([*keys.T[::-1], trivial_last])


def class_names(group: Group) -> tuple[str, ...]:
    """Cycle types where the elements are permutations, "(5)a" and "(5)b" where classes share one; labels otherwise."""
    if group.permutations is None:
        return tuple(group.labels[element] for element in group.representatives)
    return cycle_type_names([cycle_type(group.permutations[element]) for element in group.representatives])


def cycle_type_names(types: list[tuple[int, ...]]) -> tuple[str, ...]:
    """Cycle types as "(3,2)", lettered where several classes share one."""
    return _lettered(["(" + ",".join(map(str, lengths)) + ")" for lengths in types])


def sign_row(group: Group) -> NDArray[np.float64] | None:
    """The sign of the permutations of every class; None where the elements are no permutations."""
    if group.permutations is None:
        return None
    return cycle_type_signs([cycle_type(group.permutations[element]) for element in group.representatives])


def cycle_type_signs(types: list[tuple[int, ...]]) -> NDArray[np.float64]:
    """The signs (-1)^{points - cycles} of permutations of given cycle types."""
    return np.array([(-1.0) ** (sum(lengths) - len(lengths)) for lengths in types])


def _irrep_names(
    rows: NDArray[np.complex128], dimensions: NDArray[np.int64], sign: NDArray[np.float64] | None
) -> tuple[str, ...]:
    """ "1" is the trivial character, "sign" that of permutations; others their dimension, lettered where shared."""
    signs = np.zeros(len(rows), bool) if sign is None else np.all(rows == sign[None, :], axis=1)
    others = ["sign" if signs[row] else str(dimensions[row]) for row in range(1, len(rows))]
    return ("1", *_lettered(others, always="1"))


def _lettered(names: list[str], always: str | None = None) -> tuple[str, ...]:
    """Names that several share, or one that is `always` to be told apart, followed by a, b, ..., z, aa, ab, ..."""
    shared, letters = Counter(names), {name: _letters() for name in names}
    return tuple(name + next(letters[name]) if shared[name] > 1 or name == always else name for name in names)


def _letters() -> Iterator[str]:
    for length in itertools.count(1):
        yield from map("".join, itertools.product(string.ascii_lowercase, repeat=length))


def _abelian_characters(group: Group) -> NDArray[np.complex128]:
    """All homomorphisms to the roots of unity, by extension from a subgroup H to H, Hg, ..., Hg^{m-1} with g^m in H.

    A character of H has m extensions: χ(g) may be any m-th root of χ(g^m). In whole exponents modulo the exponent E of
    the group, of which m is a divisor, these are c/m + tE/m for t < m, where c is the exponent of χ(g^m).
    """
    modulus = group.exponent
    elements, exponents = np.array([group.identity]), np.zeros((1, 1), np.int64)
    for generator in group.generators:
        powers = group.powers(generator)
        returns = np.flatnonzero(np.isin(powers[1:], elements))
        m = int(returns[0]) + 1 if len(returns) else len(powers)
        closing = elements == powers[m % len(powers)]
        extended = exponents[:, closing] // m + np.arange(m)[None, :] * (modulus // m)  # [characters of H, extensions]
        turns = np.arange(m)[None, None, :, None] * extended[:, :, None, None]
        exponents = (exponents[:, None, None, :] + turns).reshape(m * len(exponents), -1) % modulus
        elements = group.table[elements[None, :], powers[:m, None]].ravel()
    return roots_of_unity(modulus)[exponents[:, np.argsort(elements)][:, group.representatives]]


def _class_sum_characters(group: Group) -> NDArray[np.complex128]:
    for attempt in range(TRIES):
        random = np.random.default_rng([group.order, attempt])
        try:
            rows = lift(_rough_characters(group, random), group)
        except NotCharacters:
            continue  # two eigenvalues of this combination lay too close together: draw another
        if _are_orthogonal(rows, group.class_sizes):
            return rows
    raise KroghError(f"no character table of {group.name} was found in {TRIES} draws of a combination of class sums")


def _rough_characters(group: Group, random: np.random.Generator) -> NDArray[np.complex128]:
    """Characters [irreps, classes] from the eigenvectors of one random Hermitian combination of the class sums."""
    sizes, count = group.class_sizes, len(group.classes)
    drawn = (random.standard_normal(count) + 1j * random.standard_normal(count)) / np.sqrt(sizes)
    inverse_class = group.class_of[group.inverse[group.representatives]]
    weights = (drawn + np.conj(drawn[inverse_class]))[group.class_of]
    combined = np.empty((count, count), np.complex128)
    for s, z in enumerate(group.representatives):  # Σ_r c_r a_{rts} = Σ_x c(x) [x⁻¹z ∈ C_t]
        landing = group.class_of[group.table[group.inverse, z]]
        combined[s] = np.bincount(landing, weights.real, count) + 1j * np.bincount(landing, weights.imag, count)
    scale = np.sqrt(sizes)
    hermitian = combined * scale[:, None] / scale[None, :]
    # Where every class is its own inverse, so are the weights their own conjugates: real numbers are faster.
    _, vectors = np.linalg.eigh(hermitian if hermitian.imag.any() else hermitian.real)
    rows = np.conj(vectors.T) / np.conj(vectors[0] / np.abs(vectors[0]))[:, None]
    return (rows * np.sqrt(group.order / sizes)[None, :]).astype(np.complex128)


def _are_orthogonal(rows: NDArray[np.complex128], sizes: NDArray[np.int64]) -> bool:
    unitary = rows * np.sqrt(sizes / sizes.sum())[None, :]
    return bool(np.abs(unitary @ np.conj(unitary.T) - np.eye(len(rows))).max() < TOLERANCE)


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
