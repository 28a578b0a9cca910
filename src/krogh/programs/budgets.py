"""What circuits, machines, automata, patterns and groups may ask for: one table, applied before the work it bounds.

A file of a few bytes can ask for any amount of work: by a number, by nesting, by YAML's aliases. Whatever would take
more than its budget is refused in one line (`Budget.check`).
"""

from __future__ import annotations

from typing import NamedTuple

from krogh.errors import KroghError


class Budget(NamedTuple):
    """At most `most` of `what`, for `whom`."""

    whom: str
    what: str
    most: int

    def check(self, amount: int, who: str, advice: str = "") -> None:
        """Refuse an amount above the budget; `who` begins the line."""
        if amount > self.most:
            hint = f" ({advice})" if advice else ""
            raise self.error(f"{amount:,}", who, hint)

    def error(self, amount: str, who: str, hint: str = "") -> KroghError:
        """The line for an amount that is too large, which need not be known exactly."""
        return KroghError(f"{who} has {amount} {self.what}; at most {self.most:,} are allowed{hint}")


FILE = Budget("a file of a machine or an automaton", "characters", 2_000_000)
NESTING = Budget("a file of a machine or an automaton", "levels of nesting", 20)
PAIRS = Budget("a machine or an automaton, aliases written out", "pairs of state and symbol", 1_000_000)
PATTERN = Budget("a regular expression", "characters", 10_000)
GROUPS = Budget("a regular expression", "groups in one another", 50)
POSITIONS = Budget("a regular expression, repetitions written out", "characters and classes", 2_048)
SYMBOLS = Budget("a regular expression", "symbols in its alphabet", 4_096)
SUBSETS = Budget("the automaton of a regular expression, before it is minimised", "states", 20_000)
UNIONS = Budget("the automaton of a regular expression, while it is built", "unions of sets of positions", 5_000_000)
ORDER = Budget("a group", "elements", 1_024)
TABLE = Budget("the table of a group", "characters", 20_000_000)
UNITS = Budget("a recurrent network", "units", 20_000)
LINKS = Budget("a recurrent network", "weights from one step to the next", 1_000_000)
COUNTS = Budget("attention that counts symbols", "entries in its words, one for each vector of counts", 50_000_000)
BITS = Budget("the transformer of a machine", "bits of a position", 26)
CHECK = Budget("a check of a machine's transformer", "bytes of memory", 1_500_000_000)

CIRCUIT = {
    budget.what: budget
    for budget in (
        Budget("a file of a circuit", "bytes", 1 << 28),
        Budget("a circuit", "inputs", 1 << 20),
        Budget("a circuit", "latches", 1 << 20),
        Budget("a circuit", "outputs", 1 << 20),
        Budget("a circuit, tables and steps written out", "gates", 1 << 23),
        Budget("a sequential circuit", "steps", 1 << 20),
        Budget("a sequential circuit", "latches times steps", 1 << 26),
        Budget("a file of a circuit", "characters in a name", 1 << 12),
        Budget("a file of a circuit in BLIF", "words in tables", 1 << 25),
        Budget("a layered circuit", "layers", 1 << 18),
        Budget("the network of a circuit, deeper than it needs to be", "hidden layers", 1 << 18),
        Budget("a layered circuit, those that hand signals on among them", "gates in layers", 50_000_000),
    )
}
"""A gate that is read takes some 150 bytes, one in a layer ten, and a layer half a kilobyte."""

BUDGETS = (
    *CIRCUIT.values(),
    *(FILE, NESTING, PAIRS),
    *(PATTERN, GROUPS, POSITIONS, SYMBOLS, SUBSETS, UNIONS),
    *(ORDER, TABLE, UNITS, LINKS, COUNTS, BITS, CHECK),
)
