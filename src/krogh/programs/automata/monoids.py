"""The algebra of a regular language: its syntactic monoid, and what that says of the language.

The words of a language's least automaton act on its states; the maps q ↦ δ(q, w), with w ↦ (first u, then v) as the
product uv, are the syntactic monoid. The language is

    star-free   exactly if no group but the trivial one is in the monoid (Schützenberger 1965): m^i = m^{i+1} for some i
    solvable    here: if all groups in the monoid are; its words are then read by circuits of constant depth with
                counters modulo numbers (Barrington and Thérien 1988), and otherwise the language is hard for NC¹
    a group's   if the monoid itself is a group: every symbol permutes the states

A group in a monoid has an idempotent e = ee for its unit; the largest one around e are the maps m whose powers come
back to m and pass e on the way. They permute the image of e.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from krogh.errors import KroghError, require_integer
from krogh.programs.automata.automaton import Automaton
from krogh.programs.automata.languages import minimise

MOST_ELEMENTS = 20_000

Map = tuple[int, ...]


@dataclass(frozen=True)
class Monoid:
    """Maps of states 0..n-1, closed under composition; the first element is the identity, that of the empty word.

    `words` has, for every element, the first of the shortest words that act like it, and `symbols` the element of each
    letter of the alphabet.
    """

    elements: tuple[Map, ...]
    words: tuple[str, ...]
    symbols: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.elements)

    @functools.cached_property
    def table(self) -> Int[np.ndarray, "size size"]:
        """The number of uv at (u, v): first u, then v."""
        number = {element: place for place, element in enumerate(self.elements)}
        maps = np.array(self.elements)
        after = [maps[:, list(element)] for element in self.elements]  # v∘u for all v
        return np.array([[number[tuple(row)] for row in rows.tolist()] for rows in after], np.int32)

    @property
    def commutative(self) -> bool:
        """Whether the order of symbols does not matter."""
        maps = [np.array(self.elements[place]) for place in self.symbols]
        return all(np.array_equal(a[b], b[a]) for a in maps for b in maps)

    @property
    def is_group(self) -> bool:
        """Whether every symbol permutes the states."""
        return all(len(set(self.elements[place])) == len(self.elements[place]) for place in self.symbols)

    @property
    def group_free(self) -> bool:
        """Whether the monoid has no group but trivial ones: whether the language is star-free."""
        return all(len(_powers(element)[1]) == 1 for element in self.elements)

    @functools.cached_property
    def groups(self) -> tuple[tuple[Map, ...], ...]:
        """The largest group around each idempotent, as permutations of its image, without those of one element."""
        around: dict[Map, list[Map]] = {}
        for element in self.elements:
            before, cycle = _powers(element)
            if not before:
                unit = next(power for power in cycle if _then(power, power) == power)
                around.setdefault(unit, []).append(element)
        return tuple(_on_image(unit, members) for unit, members in around.items() if len(members) > 1)

    @property
    def solvable(self) -> bool:
        """Whether all groups in the monoid are solvable."""
        return all(is_solvable(group) for group in set(self.groups))


def syntactic_monoid(language: Automaton, most: int = MOST_ELEMENTS) -> Monoid:
    """The syntactic monoid of a language: the maps of words on the states of its least automaton.

    There may be as many as n^n; more than `most` are refused.
    """
    require_integer("most", most, 1)
    least = minimise(language)
    letters = [tuple(column) for column in least.transitions.T.tolist()]
    identity = tuple(range(least.size))
    words = {identity: ""}
    waiting = [identity]
    for element in waiting:
        for letter, symbol in zip(letters, least.alphabet, strict=True):
            following = _then(element, letter)
            if following not in words:
                if len(words) >= most:
                    raise KroghError(
                        f"the syntactic monoid of {language.name!r} ({least.size} states) has more than {most:,} "
                        f"elements (try a larger limit: most={10 * most})"
                    )
                words[following] = words[element] + symbol
                waiting.append(following)
    number = {element: place for place, element in enumerate(words)}
    return Monoid(tuple(words), tuple(words.values()), tuple(number[letter] for letter in letters))


def is_solvable(group: Iterable[Map]) -> bool:
    """Whether a group of permutations is solvable: commutators of commutators ... end in the identity alone."""
    members = set(group)
    while len(members) > 1:
        inverse = {m: _inverse(m) for m in members}
        commutators = {_then(_then(inverse[a], inverse[b]), _then(a, b)) for a in members for b in _generators(members)}
        derived = generated(commutators)
        if len(derived) == len(members):
            return False
        members = derived
    return True


def generated(maps: Iterable[Map]) -> set[Map]:
    """All products of some permutations."""
    letters = list(maps)
    found = set(letters)
    waiting = list(found)
    for element in waiting:
        for letter in letters:
            following = _then(element, letter)
            if following not in found:
                found.add(following)
                waiting.append(following)
    return found


def _generators(members: set[Map]) -> list[Map]:
    """A few members that generate all of them."""
    chosen: list[Map] = []
    reached: set[Map] = set()
    for member in sorted(members):
        if member not in reached:
            chosen.append(member)
            reached = generated(chosen)
    return chosen


def _then(first: Map, second: Map) -> Map:
    return tuple([second[q] for q in first])


def _inverse(permutation: Map) -> Map:
    back = [0] * len(permutation)
    for q, image in enumerate(permutation):
        back[image] = q
    return tuple(back)


def _powers(element: Map) -> tuple[list[Map], list[Map]]:
    """m, m², ...: those before the powers repeat themselves, and those that come again and again."""
    seen: dict[Map, int] = {}
    power = element
    while power not in seen:
        seen[power] = len(seen)
        power = _then(power, element)
    listed = list(seen)
    return listed[: seen[power]], listed[seen[power] :]


def _on_image(unit: Map, members: list[Map]) -> tuple[Map, ...]:
    """The members of a group around an idempotent as permutations of its image."""
    image = sorted(set(unit))
    place = {state: number for number, state in enumerate(image)}
    return tuple(sorted(tuple(place[m[q]] for q in image) for m in members))
