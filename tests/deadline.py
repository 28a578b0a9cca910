"""A run that has to end by a certain time: what is left then is skipped, and another run begins elsewhere.

`KROGH_TEST_UNTIL` is the time, in seconds since 1970; `KROGH_TEST_TURN` a number that differs from run to run. Files
are run in a circle that begins at a place of that turn, so that over several runs each has its turn.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

GOLDEN = (5**0.5 - 1) / 2  # its multiples, modulo 1, leave no large gap


def in_turn(files: Sequence[Path], turn: int) -> list[Path]:
    """The files, beginning at the place of this turn."""
    first = int(turn * GOLDEN % 1 * len(files))
    return [*files[first:], *files[:first]]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    if "KROGH_TEST_UNTIL" in os.environ:
        files = list(dict.fromkeys(item.path for item in items))
        order = {path: place for place, path in enumerate(in_turn(files, int(os.environ.get("KROGH_TEST_TURN", "0"))))}
        items.sort(key=lambda item: order[item.path])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: Any) -> None:
    if time.time() > float(os.environ.get("KROGH_TEST_UNTIL", "inf")):
        pytest.skip("not run: the time is up")
