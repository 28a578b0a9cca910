"""The languages of Table 1 against their definitions, on every short word."""

from __future__ import annotations

import itertools
import re

import pytest

from krogh.errors import KroghError
from krogh.programs.automata import minimise
from krogh.programs.automata.library import LANGUAGES, brackets, known_language


def runs(word):
    return [(symbol, len(list(group))) for symbol, group in itertools.groupby(word)]


def balanced(word, most):
    depth = 0
    for symbol in word:
        depth += 1 if symbol == "0" else -1
        if not 0 <= depth <= most:
            return False
    return depth == 0


DEFINITIONS = {
    "tomita-1": lambda w: "0" not in w,
    "tomita-2": lambda w: re.fullmatch("(10)*", w) is not None,
    "tomita-3": lambda w: not any(a == "1" and n % 2 and m % 2 for (a, n), (_, m) in itertools.pairwise(runs(w))),
    "tomita-4": lambda w: "000" not in w,
    "tomita-5": lambda w: w.count("0") % 2 == w.count("1") % 2 == 0,
    "tomita-6": lambda w: (w.count("1") - w.count("0")) % 3 == 0,
    "tomita-7": lambda w: re.fullmatch("0*1*0*1*", w) is not None,
    "parity": lambda w: w.count("1") % 2 == 1,
    **{f"brackets-{n}": (lambda w, n=n: balanced(w, n)) for n in (2, 3, 4)},
    **{
        pattern: (lambda w, p=pattern: re.fullmatch(p, w) is not None) for pattern in ("(00)*", "(0101)*", "(00)*(11)*")
    },
}


def test_there_are_fourteen():
    assert len(LANGUAGES) == 14 and set(LANGUAGES) == set(DEFINITIONS)


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_language_is_its_definition(name):
    language, belongs = known_language(name), DEFINITIONS[name]
    assert language.name == name and minimise(language).size == language.size
    for length in range(11):
        for word in map("".join, itertools.product(language.alphabet, repeat=length)):
            assert language.accepts(word) == belongs(word), word


def test_unknown_languages_and_depths_are_refused():
    with pytest.raises(KroghError, match="tomita-8"):
        known_language("tomita-8")
    with pytest.raises(KroghError, match="depth"):
        brackets(0)
    assert (
        brackets(7).size == 9 and brackets(7).accepts("0" * 7 + "1" * 7) and not brackets(7).accepts("0" * 8 + "1" * 8)
    )
