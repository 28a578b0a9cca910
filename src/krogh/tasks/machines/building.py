"""From rows of instructions to a machine: moves that stay, missing transitions, accept and reject states.

A move N that keeps the head becomes two steps: right into an added state, and back left from there whatever the symbol
is. A missing transition goes, with one step to the right, to an added halting state (`missing: halt`, which is what
turingmachine.io does) or to a reject state (`missing: reject`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from krogh.errors import require
from krogh.tasks.machines.machine import Machine
from krogh.tasks.machines.table_reading import Instruction, Rows

MISSING = ("refuse", "reject", "halt")
LISTED = 12
"""So many missing transitions are listed in an error."""
SAYS_ACCEPT = frozenset({"accept", "accepts", "accepted", "accepting", "acc", "yes", "true"})
SAYS_REJECT = frozenset({"reject", "rejects", "rejected", "rejecting", "rej", "no", "false"})


def says(name: str) -> str | None:
    """What the name of a halting state says: "accept", "reject" or nothing. Case, digits, marks and a q are ignored."""
    word = re.sub(r"[^a-z]", "", name.lower())
    words = {word, word.removeprefix("q"), word.removeprefix("state"), word.removesuffix("state")}
    if words & SAYS_ACCEPT:
        return "accept"
    return "reject" if words & SAYS_REJECT else None


def build_machine(
    rows: Rows,
    *,
    name: str,
    alphabet: Sequence[str],
    start: str,
    accept: Sequence[str] | None = None,
    reject: Sequence[str] | None = None,
    tape: str = "two-way",
    missing: str = "refuse",
    default_input: str | None = None,
) -> Machine:
    """A machine from rows; `accept` and `reject` None leave it to the names of the halting states."""
    rows = {state: dict(row) for state, row in rows.items()}
    halting = [state for state, row in rows.items() if not row]
    accepts = list(accept) if accept is not None else [state for state in halting if says(state) == "accept"]
    rejects = list(reject) if reject is not None else [state for state in halting if says(state) == "reject"]
    if accept is None:
        accepts = [state for state in accepts if state not in rejects]
    if reject is None:
        rejects = [state for state in rejects if state not in accepts]
    _stay(rows, alphabet)
    _complete(rows, alphabet, halting, accepts, rejects, missing, name)
    number = {state: place for place, state in enumerate(rows)}
    code = {symbol: place for place, symbol in enumerate(alphabet)}
    next_state, write = np.indices((len(rows), len(alphabet)))
    move = np.ones_like(next_state)
    for state, row in rows.items():
        for symbol, instruction in row.items():
            at = number[state], code[symbol]
            next_state[at] = number[state if instruction.state is None else instruction.state]
            write[at] = code[symbol if instruction.write is None else instruction.write]
            move[at] = instruction.move
    return Machine(
        name=name,
        states=tuple(rows),
        alphabet=tuple(alphabet),
        start=number[start],
        next_state=next_state,
        write=write,
        move=move,
        accept=tuple(number[state] for state in accepts),
        reject=tuple(number[state] for state in rejects),
        halting=tuple(number[state] for state in halting),
        tape=tape,
        default_input=default_input,
    )


def new_name(wanted: str, taken: Rows) -> str:
    """A name that no state has."""
    name, count = wanted, 2
    while name in taken:
        name, count = f"{wanted} {count}", count + 1
    return name


def _stay(rows: Rows, alphabet: Sequence[str]) -> None:
    """Replace moves that stay: one added state per target steps back."""
    back: dict[str, str] = {}
    for state in list(rows):
        for symbol, instruction in rows[state].items():
            if instruction.move == 0:
                target = state if instruction.state is None else instruction.state
                if target not in back:
                    back[target] = new_name(f"{target} (back)", rows)
                    rows[back[target]] = dict.fromkeys(alphabet, Instruction(None, -1, target))
                rows[state][symbol] = Instruction(instruction.write, +1, back[target])


def _complete(
    rows: Rows,
    alphabet: Sequence[str],
    halting: list[str],
    accepts: list[str],
    rejects: list[str],
    missing: str,
    name: str,
) -> None:
    """Give every missing pair of state and symbol a transition, or refuse."""
    gaps = gaps_of(rows, alphabet)
    if not gaps:
        return
    require(missing != "refuse", f"{name}: {missing_message(gaps)}")
    undecided = [state for state in halting if state not in accepts and state not in rejects]
    candidates = rejects if missing == "reject" else [state for state in undecided if state == "halt"]
    if candidates:
        target = candidates[0]
    else:
        target = new_name(missing, rows)
        rows[target] = {}
        halting.append(target)
        if missing == "reject":
            rejects.append(target)
    for state, symbol in gaps:
        rows[state][symbol] = Instruction(None, +1, target)


def gaps_of(rows: Rows, alphabet: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of state and symbol without a transition, in states that do not halt."""
    return [(state, symbol) for state, row in rows.items() if row for symbol in alphabet if symbol not in row]


def missing_message(gaps: Sequence[tuple[str, str]]) -> str:
    """What is missing, and what to do."""
    shown = ", ".join(f"({state}, {symbol!r})" for state, symbol in gaps[:LISTED])
    more = f" and {len(gaps) - LISTED} more" if len(gaps) > LISTED else ""
    count = "1 transition is" if len(gaps) == 1 else f"{len(gaps)} transitions are"
    return (
        f"{count} missing, (state, symbol): {shown}{more}. Add them to the table, or say what the machine does there: "
        "`missing: halt` halts without a decision (as on turingmachine.io), `missing: reject` rejects"
    )
