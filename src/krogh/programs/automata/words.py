"""How many words a language has, which lengths they have, and which language a text names.

With N_k(q) the number of words of length k that lead from the state q to acceptance,

    N_0(q) = 1[q accepts],    N_k(q) = Σ_a N_{k-1}(δ(q, a)),

a word of length n is uniform among the accepted ones if its symbol a in the state q, with k symbols left to read, is
drawn with probability N_{k-1}(δ(q, a)) / N_k(q). Counts are whole numbers of any size, so that the shares are exact
whatever the length; only they are rounded. The words that are rejected are those of the complement.

A state is *live* if acceptance can be reached from it, and dead if not. A language is infinite exactly if it has a
word of a length from n to 2n - 1, where n is the number of states.

A file of languages (.txt or .list) has one on each line, and none twice:

    # a comment begins with # and a blank; empty lines are passed over
    tomita-3          a name of the library: tomita-1 to tomita-7, parity, brackets-K
    (00)*(11)*        a regular expression, of which the whole word is matched
    even.yaml         a file with an automaton (.yaml or .yml)

What is said here behind the languages does not belong into the file: in a pattern a blank is a symbol.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32

from krogh.errors import KroghError, require, require_integer, unknown
from krogh.programs import budgets
from krogh.programs.automata.automaton import Automaton
from krogh.programs.automata.files import load_automaton
from krogh.programs.automata.languages import minimise
from krogh.programs.automata.library import LANGUAGES, brackets, known_language
from krogh.programs.automata.regex import from_regex
from krogh.programs.reading import read_text

AUTOMATON_FILES = (".yaml", ".yml")
LIST_FILES = (".txt", ".list")
_FAMILIES = re.compile(r"(tomita|brackets|parity)(-\d+)?")
"""What looks like a name of the library: a pattern of nothing but such letters is more likely a slip."""


def count_words(automaton: Automaton, longest: int, accepted: bool = True) -> list[list[int]]:
    """N_k(q) for k = 0..longest and every state q, of accepted words or of rejected ones."""
    require_integer("longest", longest, 0)
    rows = automaton.transitions.tolist()
    counts = [[int(final == accepted) for final in automaton.final.tolist()]]
    for _ in range(longest):
        before = counts[-1]
        counts.append([sum(before[following] for following in row) for row in rows])
    return counts


def branch_shares(
    automaton: Automaton, longest: int, accepted: bool = True
) -> Float32[np.ndarray, "lengths states symbols"]:
    """Sums over symbols b ≤ a of N_{k-1}(δ(q, b)) / N_k(q), at [k, q, a] for k = 0..longest.

    A uniform number in [0, 1) passes as many of the sums as the number of its symbol. Rows of which no word of the
    length is left, and k = 0, are 1: they are not met.
    """
    counts, rows = count_words(automaton, longest, accepted), automaton.transitions.tolist()
    shares = np.ones((longest + 1, automaton.size, len(automaton.alphabet)), np.float32)
    for k in range(1, longest + 1):
        for q, row in enumerate(rows):
            total, passed = counts[k][q], 0
            if total:
                for a, following in enumerate(row):
                    passed += counts[k - 1][following]
                    shares[k, q, a] = passed / total  # a quotient of whole numbers is rounded once
    return shares


def possible_lengths(automaton: Automaton, shortest: int, longest: int, accepted: bool = True) -> list[int]:
    """The lengths from shortest to longest of which there is a word, accepted or rejected."""
    require_integer("shortest", shortest, 0)
    can = automaton.final == accepted
    found = []
    for length in range(longest + 1):
        if length >= shortest and can[automaton.start]:
            found.append(length)
        can = can[automaton.transitions].any(axis=1)
    return found


def live_states(automaton: Automaton) -> Bool[np.ndarray, " states"]:
    """Whether acceptance can be reached from each state."""
    live = automaton.final.copy()
    for _ in range(automaton.size):
        live = live | live[automaton.transitions].any(axis=1)
    return live


def has_dead_state(automaton: Automaton) -> bool:
    """Whether some words can no longer become accepted ones: a dead state of the least automaton."""
    return not bool(live_states(minimise(automaton)).all())


def is_infinite(automaton: Automaton) -> bool:
    """Whether the language has infinitely many words."""
    n = automaton.size
    return bool(possible_lengths(automaton, n, 2 * n - 1))


def require_infinite(automaton: Automaton, why: str) -> None:
    """Refuse a language that is empty or finite where `why` needs words of any length."""
    if not is_infinite(automaton):
        lengths = possible_lengths(automaton, 0, automaton.size)
        what = "is empty" if not lengths else f"is finite: its longest words have {lengths[-1]} symbols"
        hint = "" if not lengths else f" (try a repetition, such as {f'({automaton.name})*'!r})"
        raise KroghError(f"{why} needs an infinite language; {automaton.name!r} {what}{hint}")


def find_language(text: str, alphabet: Iterable[str] | None = None) -> Automaton:
    """The least automaton of a library name ("tomita-3", "brackets-5"), a file, or else a regular expression."""
    require(isinstance(text, str) and text.strip(), f"a language is a name, a file or a pattern; got {text!r}")
    named = text.strip()
    if named in LANGUAGES:
        return known_language(named)
    if _FAMILIES.fullmatch(named):
        depth = named.removeprefix("brackets-")
        if depth.isdigit() and int(depth) > 0:
            return brackets(int(depth))
        raise unknown("language", named, LANGUAGES)
    if named.endswith(AUTOMATON_FILES):
        return minimise(load_automaton(named))
    return from_regex(named, alphabet, name=named)


def find_languages(text: str, alphabet: Iterable[str] | None = None) -> list[Automaton]:
    """The language of a text (see `find_language`), or those of a text file that has one on each line.

    Empty lines, and lines that begin with # and a blank, are passed over. Errors name the line.
    """
    path = Path(text.strip())
    if not text.strip().endswith(LIST_FILES):
        return [find_language(text, alphabet)]
    lines = read_text(path, "a list of languages", budgets.FILE).splitlines()
    found: list[Automaton] = []
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("# "):
            try:
                found.append(find_language(line.strip(), alphabet))
            except KroghError as cause:
                raise KroghError(f"{path}, line {number}: {cause}") from None
    require(found, f"{path} lists no language; it has one on each line, such as tomita-3 or (00)*(11)*")
    names = [one.name for one in found]
    repeated = next((name for place, name in enumerate(names) if name in names[:place]), None)
    require(repeated is None, f"{path} lists {repeated!r} twice")
    return found
