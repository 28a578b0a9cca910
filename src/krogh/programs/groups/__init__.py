"""Finite groups: the type with its laws checked, named families, products, and Cayley tables from files."""

from krogh.programs.groups.families import (
    LARGEST_DEGREE,
    TABLE_FILES,
    alternating,
    cycle_type,
    cyclic,
    dihedral,
    load_group,
    power,
    quaternion,
    symmetric,
)
from krogh.programs.groups.group import Group, from_table, product, read_only, whole_table

__all__ = [
    "LARGEST_DEGREE",
    "TABLE_FILES",
    "Group",
    "alternating",
    "cycle_type",
    "cyclic",
    "dihedral",
    "from_table",
    "load_group",
    "power",
    "product",
    "quaternion",
    "read_only",
    "symmetric",
    "whole_table",
]
