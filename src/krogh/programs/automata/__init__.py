"""Regular languages: deterministic finite automata, what can be decided of them, and regular expressions.

automaton      `Automaton`, `from_table` (from lists), batches of words; `asymmetry`, `count_table`
languages      `minimise`, `complement`, `combine`, `shortest_word`, `distinguishing_word`, `equivalent`
regex          `from_regex`: a pattern as its least automaton
files          `load_automaton`, `parse_automaton`, `write_automaton`: automata as YAML
"""

from krogh.programs.automata.automaton import (
    PADDING,
    Automaton,
    asymmetry,
    count_table,
    from_table,
    pad_words,
    words_of_length,
)
from krogh.programs.automata.files import load_automaton, parse_automaton, write_automaton
from krogh.programs.automata.languages import (
    combine,
    complement,
    distinguishing_word,
    equivalent,
    minimise,
    shortest_word,
)
from krogh.programs.automata.regex import from_regex

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
