"""Group representations: character tables of any finite group, real orthogonal irreps, and transforms by them.

NumPy in float64. Groups come from `krogh.tasks.groups`; columns of a character table follow `group.classes`.
"""

from krogh.theory.representations.characters import CharacterTable, character_table
from krogh.theory.representations.irreps import Irrep, RealRow, real_irreps, real_rows
from krogh.theory.representations.symmetric import partitions, symmetric_character_table, symmetric_characters
from krogh.theory.representations.transforms import (
    basis_vectors,
    coefficient_matrices,
    from_coefficients,
    irrep_powers,
    irrep_projectors,
)
from krogh.theory.representations.young import young_orthogonal

__all__ = [
    "CharacterTable",
    "Irrep",
    "RealRow",
    "basis_vectors",
    "character_table",
    "coefficient_matrices",
    "from_coefficients",
    "irrep_powers",
    "irrep_projectors",
    "partitions",
    "real_irreps",
    "real_rows",
    "symmetric_character_table",
    "symmetric_characters",
    "young_orthogonal",
]
