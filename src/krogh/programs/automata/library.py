"""Regular languages that recurrent networks are tried on (*Learning and generalization in RNNs*, Table 1).

The words over 0 and 1 (the unary language over 0 alone) with

    tomita-1   1*                                      tomita-5     an even number of 0s and an even number of 1s
    tomita-2   (10)*                                   tomita-6     #1 - #0 divisible by 3
    tomita-3   no odd run of 1s directly before an     tomita-7     0*1*0*1*
               odd run of 0s                           parity       an odd number of 1s
    tomita-4   no 000                                  brackets-n   0 opens, 1 closes, never more than n open (D_n)

and (00)*, (0101)*, (00)*(11)* as they are written. Tables are the least ones, which a test says.
"""

from __future__ import annotations

import functools

import numpy as np

from krogh.errors import require_integer, unknown
from krogh.programs.automata.automaton import Automaton
from krogh.programs.automata.regex import from_regex

_TABLES: dict[str, tuple[list[list[int]], tuple[int, ...]]] = {
    "tomita-1": ([[1, 0], [1, 1]], (0,)),
    "tomita-2": ([[2, 1], [0, 2], [2, 2]], (0,)),
    "tomita-3": ([[0, 1], [3, 0], [3, 1], [2, 4], [4, 4]], (0, 1, 2)),
    "tomita-4": ([[1, 0], [2, 0], [3, 0], [3, 3]], (0, 1, 2)),
    "tomita-5": ([[1, 2], [0, 3], [3, 0], [2, 1]], (0,)),
    "tomita-6": ([[2, 1], [0, 2], [1, 0]], (0,)),
    "tomita-7": ([[0, 1], [2, 1], [2, 3], [4, 3], [4, 4]], (0, 1, 2, 3)),
    "parity": ([[0, 1], [1, 0]], (1,)),
}
_PATTERNS = ("(00)*", "(0101)*", "(00)*(11)*")
DEPTHS = (2, 3, 4)

LANGUAGES = (*_TABLES, *(f"brackets-{depth}" for depth in DEPTHS), *_PATTERNS)
"""The fourteen languages of Table 1, in its order."""


@functools.cache
def known_language(name: str) -> Automaton:
    """The least automaton of one of the `LANGUAGES`."""
    if name not in LANGUAGES:
        raise unknown("language", name, LANGUAGES)
    if name in _PATTERNS:
        return from_regex(name, name=name)
    if name.startswith("brackets-"):
        return brackets(int(name.removeprefix("brackets-")))
    table, accepting = _TABLES[name]
    return Automaton(name, ("0", "1"), np.array(table), 0, accepting)


def brackets(depth: int) -> Automaton:
    """D_n = (0 D_{n-1} 1)* with D_0 the empty word: well-formed brackets of at most this depth.

    The state is the number of open brackets; one more, at the end, is for words that can no longer become well-formed.
    """
    require_integer("depth", depth, 1)
    dead = depth + 1
    table = [[q + 1 if q < depth else dead, q - 1 if q > 0 else dead] for q in range(depth + 1)]
    return Automaton(f"brackets-{depth}", ("0", "1"), np.array([*table, [dead, dead]]), 0, (0,))
