"""Inputs for a machine: uniform, or half accepted and half rejected (sm-approximation, section 2, T4)."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from krogh.errors import KroghError, require, require_integer
from krogh.tasks.machines.batch import decide_batch
from krogh.tasks.machines.machine import ACCEPT, REJECT, Machine, Word
from krogh.tasks.machines.running import require_halts

LISTED = 1 << 14
"""Up to so many words of a length are all listed; of more, words are drawn."""
DRAWN = 1 << 19
SAMPLED_CHUNK = 1 << 11


class LabelledWords(NamedTuple):
    """Words int32 [count, length] and what the machine decides on them, int8 [count]: 1 accept, 0 reject."""

    words: Int[np.ndarray, "count length"]
    labels: Int[np.ndarray, " count"]


def sample_words(
    machine: Machine,
    length: int,
    count: int,
    steps: int,
    seed: int,
    balanced: bool = True,
    symbols: Word | None = None,
) -> LabelledWords:
    """`count` random words of a length, with labels; the machine must decide all it meets within `steps` steps.

    Words are made of `symbols` (the input symbols of the machine where none are given). They are uniform and drawn
    with replacement; balanced, half of them are uniform among the accepted words and half among the rejected ones
    (the odd one is of either kind at even odds), in random order.
    """
    require_integer("length", length, 0)
    require_integer("count", count, 1)
    require_integer("seed", seed, 0)
    letters = np.unique(machine.encode(machine.input_symbols if symbols is None else symbols))
    require(len(letters) > 0, f"{machine.name!r} has no symbol to make words of: give `symbols`")
    rng = np.random.default_rng(seed)
    if not balanced:
        words = rng.choice(letters, size=(count, length)).astype(np.int32)
        return LabelledWords(words, _labels(machine, words, steps))
    wanted = np.array([count // 2, count // 2])
    wanted[rng.integers(2)] += count % 2
    found = _listed if len(letters) ** length <= LISTED else _drawn
    parts = found(machine, letters, length, wanted, steps, rng)
    order = rng.permutation(count)
    labels = np.repeat(np.array([REJECT, ACCEPT], np.int8), wanted)
    return LabelledWords(np.concatenate(parts)[order], labels[order])


def _listed(
    machine: Machine, letters: np.ndarray, length: int, wanted: np.ndarray, steps: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Choices among all words of the length, rejected ones first."""
    every = np.array(list(itertools.product(letters, repeat=length)), np.int32).reshape(-1, length)
    labels = np.concatenate([_labels(machine, part, steps) for part in _chunks(every)])
    parts = []
    for label in (REJECT, ACCEPT):
        of_kind = every[labels == label]
        if wanted[label] and not len(of_kind):
            raise _none_of(machine, label, length, f"none of all {len(every)} words")
        parts.append(of_kind[rng.integers(max(len(of_kind), 1), size=wanted[label])])
    return parts


def _drawn(
    machine: Machine, letters: np.ndarray, length: int, wanted: np.ndarray, steps: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Words drawn until there are enough of both kinds, rejected ones first."""
    parts: list[list[np.ndarray]] = [[], []]
    have = np.zeros(2, int)
    for _ in range(DRAWN // SAMPLED_CHUNK):
        words = rng.choice(letters, size=(SAMPLED_CHUNK, length)).astype(np.int32)
        labels = _labels(machine, words, steps)
        for label in (REJECT, ACCEPT):
            parts[label].append(words[labels == label][: wanted[label] - have[label]])
            have[label] += len(parts[label][-1])
        if np.array_equal(have, wanted):
            return [np.concatenate(part) for part in parts]
    label = int(np.argmax(wanted - have))
    raise _none_of(machine, label, length, f"only {have[label]} of {DRAWN} random words")


def _labels(machine: Machine, words: np.ndarray, steps: int) -> np.ndarray:
    """The labels of words; an error where the machine does not decide one."""
    decisions = decide_batch(machine, words, steps)
    late = np.flatnonzero(decisions.halted_at < 0)
    if len(late):
        require_halts(machine, [words[late[0]]], steps)
    (undecided,) = np.nonzero(decisions.labels < 0)
    if len(undecided):
        shown = machine.decode(words[undecided[0]])
        raise KroghError(
            f"{machine.name!r} halts on {shown!r} without a decision, so the word has no label. Name its accept and "
            "reject states in the fields `accept` and `reject`"
        )
    return decisions.labels


def _none_of(machine: Machine, label: int, length: int, says: str) -> KroghError:
    kind = "accepted" if label == ACCEPT else "rejected"
    return KroghError(
        f"{says} of length {length} are {kind} by {machine.name!r}, so that a balanced sample cannot be drawn: "
        "take another length, other symbols, or balanced=False"
    )


def _chunks(words: np.ndarray) -> list[np.ndarray]:
    return [words[first : first + SAMPLED_CHUNK] for first in range(0, len(words), SAMPLED_CHUNK)]
