"""What experiments that execute random recurrent networks share: how many of them at each width."""

from __future__ import annotations

MOST = 4
"""Networks of a small width for each of the largest, at most."""


def networks_of(width: int, widths: tuple[int, ...], networks: int, most: int = MOST) -> int:
    """As many as cost what `networks` of the largest width do, m² each, and at most `most` times as many."""
    return min(networks * (widths[-1] // width) ** 2, most * networks)
