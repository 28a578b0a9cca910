"""What experiments that execute random recurrent networks share: their widths, and how many of them at each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from krogh.lab import setting
from krogh.networks.recurrence.random_network import RandomRnn, random_rnn

MOST = 4
"""Networks of a small width for each of the largest, at most."""


def networks_of(width: int, widths: tuple[int, ...], networks: int, most: int = MOST) -> int:
    """As many as cost what `networks` of the largest width do, m² each, and at most `most` times as many."""
    return min(networks * (widths[-1] // width) ** 2, most * networks)


def widths_setting(*widths: int, **rules: Any) -> Any:
    return setting(widths, "widths m", increasing=True, fewest=2, **({"least": 10} | rules))


def tokens_setting(dx: int) -> Any:
    return setting(dx, "numbers of a token", least=2)


def networks_setting(networks: int) -> Any:
    text = "random networks of the largest width; of others as many as the same work allows"
    return setting(networks, text, least=1)


@dataclass(frozen=True)
class NetworkSettings:
    """Random networks of several widths that read tokens of dx numbers."""

    widths: tuple[int, ...] = widths_setting(500, 1000, 2000, 4000, most=20_000)
    dx: int = tokens_setting(4)
    networks: int = networks_setting(8)
    seed: int = setting(0, "of everything random", least=0)

    def network(self, width: int, which: int) -> RandomRnn:
        """One of the networks of a width."""
        return random_rnn(width, self.dx + 1, seed=[self.seed, width, which], dtype=np.float32)

    def drawn(self) -> Iterator[tuple[int, int, RandomRnn]]:
        """Every network with its width and its number."""
        for width in self.widths:
            for which in range(networks_of(width, self.widths, self.networks)):
                yield width, which, self.network(width, which)
