"""Regular languages: deterministic finite automata, what can be decided of them, and regular expressions.

automaton.py    `Automaton`, `from_table` (from lists), batches of words
languages.py    `minimise`, `combine`, `shortest_word`, `distinguishing_word`; `asymmetry` and `count_table`
regex.py        `from_regex`: a pattern as its least automaton
monoids.py      `syntactic_monoid`: is a language star-free, solvable, a group's
library.py      `known_language`: the fourteen languages of a table of a source, `brackets`
words.py        `count_words`, `branch_shares`: how many words there are; `find_language`: what a text names
files.py        `load_automaton`, `parse_automaton`, `write_automaton`: automata as YAML
"""

from krogh.programs.automata.automaton import PADDING, Automaton, from_table, pad_words, words_of_length
from krogh.programs.automata.files import load_automaton, parse_automaton, write_automaton
from krogh.programs.automata.languages import (
    asymmetry,
    combine,
    count_table,
    distinguishing_word,
    minimise,
    shortest_word,
)
from krogh.programs.automata.library import LANGUAGES, brackets, known_language
from krogh.programs.automata.monoids import Monoid, syntactic_monoid
from krogh.programs.automata.regex import from_regex
from krogh.programs.automata.words import (
    branch_shares,
    count_words,
    find_language,
    find_languages,
    has_dead_state,
    is_infinite,
    live_states,
    possible_lengths,
    require_infinite,
)

__all__ = [
    "LANGUAGES",
    "PADDING",
    "Automaton",
    "Monoid",
    "asymmetry",
    "brackets",
    "branch_shares",
    "combine",
    "count_table",
    "count_words",
    "distinguishing_word",
    "find_language",
    "find_languages",
    "from_regex",
    "from_table",
    "has_dead_state",
    "is_infinite",
    "known_language",
    "live_states",
    "load_automaton",
    "minimise",
    "pad_words",
    "parse_automaton",
    "possible_lengths",
    "require_infinite",
    "shortest_word",
    "syntactic_monoid",
    "words_of_length",
    "write_automaton",
]
