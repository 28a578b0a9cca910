"""Regular languages: deterministic finite automata, what can be decided of them, and regular expressions.

automaton      `Automaton`, `from_table` (from lists), batches of words
languages      `minimise`, `complement`, `combine`, `shortest_word`, `distinguishing_word`, `equivalent`
regex          `from_regex`: a pattern as its least automaton
symmetry       `asymmetry`, `count_table`: languages in which only the numbers of the symbols matter
files          `load_automaton`, `parse_automaton`, `write_automaton`: automata as YAML
"""

from krogh.tasks.automata.automaton import PADDING, Automaton, from_table, pad_words, words_of_length
from krogh.tasks.automata.files import load_automaton, parse_automaton, write_automaton
from krogh.tasks.automata.languages import (
    combine,
    complement,
    distinguishing_word,
    equivalent,
    minimise,
    shortest_word,
)
from krogh.tasks.automata.regex import from_regex
from krogh.tasks.automata.symmetry import asymmetry, count_table

__all__ = [
    "PADDING",
    "Automaton",
    "asymmetry",
    "combine",
    "complement",
    "count_table",
    "distinguishing_word",
    "equivalent",
    "from_regex",
    "from_table",
    "load_automaton",
    "minimise",
    "pad_words",
    "parse_automaton",
    "shortest_word",
    "words_of_length",
    "write_automaton",
]
