"""What the experiments on networks written by hand share: where claims come from, and how comparisons are worded."""

from __future__ import annotations

from collections.abc import Sequence

from krogh.errors import require, unknown

SOURCE = "SM paper"
NO_EXPERIMENTS = (
    "The SM paper reports no experiments. Values beside ours were computed beforehand from its constructions, with "
    "other code; thresholds are those that were set for these experiments then."
)
CORRECTED = {True: "with correction", False: "without correction"}


def check_choices(word: str, given: Sequence[str], allowed: Sequence[str], fewest: int = 1) -> None:
    """Refuse a choice there is not, one made twice, and too few."""
    for value in given:
        if value not in allowed:
            raise unknown(word.removesuffix("s"), str(value), allowed)
    require(len(set(given)) == len(given), f"{word} must not repeat a value; got {word}={tuple(given)}")
    require(len(given) >= fewest, f"{word} must name at least {fewest}; got {word}={tuple(given)}")


def in_words(numbers: Sequence[float]) -> str:
    """ "3, 5, 9" or, of more than six, "3 to 33"."""
    if len(numbers) > 6:
        return f"{numbers[0]:g} to {numbers[-1]:g}"
    return ", ".join(f"{number:g}" for number in numbers)
