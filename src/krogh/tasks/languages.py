"""Words of a regular language, and what is asked of each of their prefixes (*Learning and generalization in RNNs*, I).

A language is the least automaton of a library name, a regular expression or a file. Words have a length drawn
uniformly from those of shortest..longest of which there are words, and are uniform among the accepted words of that
length: exactly, by counting the ways from every state to acceptance (`programs/automata/words.py`). A word is
x_1..x_n, numbers of symbols, and a padding symbol behind it up to the longest; position t has read x_1..x_t and answers

    "next"     for each symbol a: can x_1..x_t a still become a word of the language?        one output per symbol
    "prefix"   is x_1..x_t in the language?                         two outputs, "no" and "yes", of which one is right
    "steps"    the source's rule: "next" for a language with a dead state, "prefix" for one without
    "final"    is x_1..x_n in the language? asked at n alone                                               one output

With `start`, the padding symbol stands before the word as well, where nothing is asked. A recurrent network needs no
such mark, for its first state is one. A causal transformer with relative positions does: of equal symbols it sees but
an average, the same at every position, and could not tell 0 from 00.

An answer is ±1 for yes and no, and 0 where nothing is asked: at padding, at all but the last symbol for "final", and
for symbols that only a neighbour's alphabet has. A prediction is a logit for each; it is right where its sign is
(σ above or below 1/2), or with `strict` where σ is within 1/3 of the truth (App. H): y f > log 2. A *word* is right if
all answers are.

With `negatives`, as "final" always has it, half of the words are rejected ones: half of these uniform among the
rejected words of a length, half near misses: an accepted word with one symbol replaced, uniform among the replacements
that lead out of the language (a uniform rejected word where there is none). Otherwise all words are accepted ones, as
in the source; is-it-a-word alone would then be no question.

The automaton and the shares that words are drawn by are data: languages of one number of states and symbols, or with
room for as many (`Language.of(..., states=, symbols=)`), share a program.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Integer, PRNGKeyArray, UInt8

from krogh.errors import require, require_integer, unknown
from krogh.programs.automata import (
    Automaton,
    branch_shares,
    find_language,
    has_dead_state,
    live_states,
    minimise,
    possible_lengths,
)
from krogh.tasks.base import Examples, Task, task
from krogh.tasks.system import System
from krogh.values import AnyArray, Value, data, structure

LABELINGS = ("steps", "next", "prefix", "final")
STRICT_MARGIN = math.log(2)  # σ(log 2) = 2/3
MOST_STATES, MOST_SYMBOLS = 255, 254  # states and symbols, padding too, are bytes
BASELINE_WORDS = 4096


class Language(Value):
    """A least automaton as arrays, with room for more states and symbols than it has.

    The start state is 0; states and symbols that only fill the room lead to themselves and accept nothing. `letters`
    is the number of symbols of its own.
    """

    transitions: Int[AnyArray, "states symbols"] = data(np.int32)
    accepting: Int[AnyArray, " states"] = data(np.int32)
    letters: Int[AnyArray, ""] = data(np.int32)

    kind = "automaton"

    @classmethod
    def of(cls, given: Any, *, states: int | None = None, symbols: int | None = None) -> Language:
        """The language of an automaton or of a text (`find_language`), with room for so many states and symbols."""
        if isinstance(given, Language):
            return given
        least = minimise(given if isinstance(given, Automaton) else find_language(given))  # states in one order
        (n, a), room = least.transitions.shape, (states or least.size, symbols or len(least.alphabet))
        require(
            room[0] >= n and room[1] >= a,
            f"{least.name!r} has {n} states and {a} symbols; got room for {room[0]} and {room[1]}",
        )
        require(
            room[0] <= MOST_STATES and room[1] <= MOST_SYMBOLS,
            f"a task has at most {MOST_STATES} states and {MOST_SYMBOLS} symbols; {least.name!r} has room for "
            f"{room[0]} and {room[1]}",
        )
        table = np.repeat(np.arange(room[0])[:, None], room[1], axis=1)
        table[:n, :a] = least.transitions
        accepting = np.zeros(room[0], np.int32)
        accepting[list(least.accepting)] = 1
        return cls(table, accepting, a)

    @property
    def automaton(self) -> Automaton:
        """The least automaton, without what fills the room; its symbols are called 0, 1, ..."""
        table, letters = np.asarray(self.transitions), int(self.letters)
        accepting = tuple(np.flatnonzero(np.asarray(self.accepting)).tolist())
        filled = Automaton("language", tuple(map(str, range(letters))), table[:, :letters], 0, accepting)
        return minimise(filled)


class Words(NamedTuple):
    """Raw examples: symbols, padding behind them, and the state after each symbol (the last one behind the word)."""

    symbols: UInt8[AnyArray, "size room"]
    states: UInt8[AnyArray, "size room"]


class Tables(Value):
    """What follows from a language and the lengths: by range (training, and judgement where it is another) and kind
    (accepted, rejected) the lengths of words and how many there are, the shares of symbols by kind, and the answers."""

    lengths: Int[AnyArray, "ranges kinds lengths"] = data(np.int32)
    counts: Int[AnyArray, "ranges kinds"] = data(np.int32)
    shares: Float[AnyArray, "kinds lengths states symbols"] = data()
    answers: Float[AnyArray, "states outputs"] = data()


@task("regular-language")
class RegularLanguage(Task):
    """Words of a regular language, and an answer at every position.

    Lengths are shortest..longest; `judged` = (shortest, longest) of the words that a trial is judged on, the same
    unless given.
    """

    language: Language
    tables: Tables = eqx.field(metadata={"internal": True})
    shortest: int = structure()
    longest: int = structure()
    labeling: str = structure()
    judged: tuple[int, int] | None = structure()
    negatives: bool = structure()
    start: bool = structure()
    strict: bool = structure()

    system = System(
        knobs={
            "language": "which automaton: its size, and the algebra of its syntactic monoid",
            "shortest": "the least length of words",
            "longest": "the largest length of words: for how long a state must be kept",
            "labeling": "what is asked of a prefix, and whether of all of them",
            "judged": "other lengths to be judged on: length generalisation",
            "negatives": "whether words outside the language are seen too",
            "start": "whether a mark stands before the word",
        },
        baselines=("loss_yes", "loss_automaton"),
        phenomena={
            "networks that learn automata": ("languages/table", "languages/learnability"),
            "length generalisation": ("languages/learnability", "languages/overview"),
            "algebra and difficulty": ("languages/overview",),
        },
    )

    def __init__(
        self,
        language: Any,
        shortest: int = 1,
        longest: int = 20,
        labeling: str = "steps",
        judged: Any = None,
        negatives: Any = False,
        start: Any = False,
        strict: Any = False,
        tables: Any = None,
    ):
        """`tables` follow from the rest and are made anew."""
        if labeling not in LABELINGS:
            raise unknown("labeling", labeling, LABELINGS)
        for name, flag in (("negatives", negatives), ("start", start), ("strict", strict)):
            require(isinstance(flag, bool), f"{name} must be True or False; got {name}={flag!r}")
        pair = judged is None or (isinstance(judged, tuple | list) and len(judged) == 2)
        require(pair, f"judged is a pair (shortest, longest); got judged={judged!r}")
        self.language = Language.of(language)
        self.shortest, self.longest, self.labeling = shortest, longest, labeling
        self.start, self.strict = start, strict
        self.judged = None if judged is None else (judged[0], judged[1])
        self.negatives = negatives or labeling == "final"
        called = language if isinstance(language, str) else getattr(language, "name", "the language")
        self.tables = self._tables(called)

    def _tables(self, called: str) -> Tables:
        own, kinds = self.language.automaton, (True, False)[: 1 + self.negatives]
        found = [[lengths_of(own, called, low, high, kind) for kind in kinds] for low, high in self._ranges()]
        most = max(high - low + 1 for low, high in self._ranges())  # the same for languages that have fewer lengths
        return Tables(
            [[lengths + lengths[-1:] * (most - len(lengths)) for lengths in row] for row in found],
            [[len(lengths) for lengths in row] for row in found],
            np.stack([self._shares(own, kind) for kind in kinds]),
            _answers(self.language, own, self.labeling),
        )

    def _ranges(self) -> tuple[tuple[int, int], ...]:
        """The lengths of training, and those of judgement where they are others."""
        ranges = ((self.shortest, self.longest), *(() if self.judged is None else (self.judged,)))
        for name, (low, high) in zip(("", "judged "), ranges, strict=False):
            require_integer(f"{name}shortest", low, 1)
            require_integer(f"{name}longest", high, 1)
            require(low <= high, f"lengths run from the shortest to the longest; got {name}lengths {low}..{high}")
        return ranges

    def _shares(self, own: Automaton, accepted: bool) -> Float[np.ndarray, "lengths states symbols"]:
        """`branch_shares` in the room of the language; what fills it has none."""
        filled = np.ones((self.room + 1, *np.shape(self.language.transitions)), np.float32)
        filled[:, : own.size, : len(own.alphabet)] = branch_shares(own, self.room, accepted)
        return filled

    @property
    def room(self) -> int:
        """The length of the longest word that is ever seen."""
        return max(high for _, high in self._ranges())

    @property
    def padding(self) -> int:
        """The symbol behind a word, and before it where its start is marked; no word has it."""
        return int(np.shape(self.language.transitions)[-1])

    @property
    def symbols(self) -> int:
        return self.padding + 1

    @property
    def outputs(self) -> int:
        """How many answers a position gives."""
        return int(np.shape(self.tables.answers)[-1])

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.room + self.start,)

    @property
    def causal(self) -> bool:
        """A prefix is asked for what follows it, unless only whole words are asked for anything."""
        return self.labeling != "final"

    def draw(self, key: PRNGKeyArray, size: int) -> Words:
        return self._words(key, size, 0)

    def test(self, key: PRNGKeyArray, size: int) -> Words:
        return self._words(key, size, len(self._ranges()) - 1)

    def _words(self, key: PRNGKeyArray, size: int, which: int) -> Words:
        """Words with the lengths of training (0) or of judgement (the last)."""
        if not self.negatives:
            return self._walk(key, size, which, 0)
        for_inside, for_outside, for_kind, for_edit = jax.random.split(key, 4)
        inside, outside = self._walk(for_inside, size, which, 0), self._walk(for_outside, size, which, 1)
        missed, exists = self._near_misses(for_edit, inside)
        kind = jax.random.randint(for_kind, (size,), 0, 4, jnp.int32)  # 0 and 1 are accepted words, 2 a near miss
        near, far = (kind == 2) & exists, (kind == 3) | ((kind == 2) & ~exists)

        def chosen(accepted: Array, close: Array, rejected: Array) -> Array:
            return jnp.where(far[:, None], rejected, jnp.where(near[:, None], close, accepted))

        return Words(*map(chosen, inside, missed, outside))

    def _walk(self, key: PRNGKeyArray, size: int, which: int, kind: int) -> Words:
        """Words that are accepted (kind 0) or rejected (1): from the start, one symbol after the other."""
        for_length, for_symbols = jax.random.split(key)
        counts, lengths, shares = map(jnp.asarray, (self.tables.counts, self.tables.lengths, self.tables.shares))
        place = jax.random.randint(for_length, (size,), 0, counts[which, kind], jnp.int32)
        length = lengths[which, kind][place]
        uniforms = jax.random.uniform(for_symbols, (size, self.room), jnp.float32)

        def step(state: Array, inputs: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
            t, uniform = inputs
            left = length - t
            passed = shares[kind][jnp.maximum(left, 0), state]
            symbol = jnp.sum(uniform[:, None] >= passed[:, :-1], axis=-1, dtype=jnp.int32)
            symbol = jnp.where(left > 0, symbol, self.padding)
            state = self._after(state, symbol)
            return state, (symbol.astype(jnp.uint8), state.astype(jnp.uint8))

        start = jnp.zeros(size, jnp.int32)
        _, (symbols, states) = jax.lax.scan(step, start, (jnp.arange(self.room, dtype=jnp.int32), uniforms.T))
        return Words(symbols.T, states.T)

    def _after(self, state: Int[Array, " size"], symbol: Int[Array, " size"]) -> Int[Array, " size"]:
        table = jnp.asarray(self.language.transitions)
        return jnp.where(symbol == self.padding, state, table[state, jnp.minimum(symbol, self.padding - 1)])

    def read(self, symbols: Integer[AnyArray, "size room"]) -> Words:
        """Words given by their symbols, with the states that the automaton passes through."""

        def step(state: Array, symbol: Array) -> tuple[Array, Array]:
            state = self._after(state, symbol)
            return state, state

        given = jnp.asarray(symbols).astype(jnp.int32)
        _, states = jax.lax.scan(step, jnp.zeros(given.shape[0], jnp.int32), given.T)
        return Words(given.astype(jnp.uint8), states.T.astype(jnp.uint8))

    def _near_misses(self, key: PRNGKeyArray, words: Words) -> tuple[Words, Bool[Array, " size"]]:
        """Accepted words with one symbol replaced so that they are not, and whether that is possible."""
        symbols, after = (part.astype(jnp.int32) for part in words)
        size, room = symbols.shape
        before = jnp.concatenate([jnp.zeros((size, 1), jnp.int32), after[:, :-1]], axis=1)
        table, final = jnp.asarray(self.language.transitions), jnp.asarray(self.language.accepting) == 1
        states, letters = jnp.arange(table.shape[0]), jnp.arange(self.padding)

        def backwards(accepts: Array, symbol: Array) -> tuple[Array, Array]:
            """Whether each state accepts what is left, from after a symbol to before it; and what it was after."""
            following = jnp.take(table, jnp.minimum(symbol, self.padding - 1), axis=1).T
            following = jnp.where((symbol == self.padding)[:, None], states[None, :].astype(jnp.int32), following)
            return jnp.take_along_axis(accepts, following, axis=1), accepts

        ends = jnp.broadcast_to(final[None, :], (size, table.shape[0]))
        _, accepts = jax.lax.scan(backwards, ends, symbols.T, reverse=True)
        replaced = table[before]  # [size, room, symbols]: the state after each symbol in the place of the word's own
        still = jnp.take_along_axis(accepts.swapaxes(0, 1), replaced, axis=2)
        other = (letters[None, None, :] != symbols[:, :, None]) & (letters < self.language.letters)[None, None, :]
        possible = (~still & other & (symbols != self.padding)[:, :, None]).reshape(size, -1)
        passed = jnp.cumsum(possible, axis=1, dtype=jnp.int32)
        number = passed[:, -1]
        uniform = jax.random.uniform(key, (size,), jnp.float32)
        wanted = jnp.minimum((uniform * number.astype(jnp.float32)).astype(jnp.int32), number - 1)
        place = jnp.argmax(passed > wanted[:, None], axis=1).astype(jnp.int32)
        here = jnp.arange(room, dtype=jnp.int32)[None, :] == (place // self.padding)[:, None]
        edited = jnp.where(here, (place % self.padding)[:, None], symbols)
        return self.read(edited), number > 0

    def decode(self, raw: Words) -> Examples:
        symbols = jnp.asarray(raw.symbols).astype(jnp.int32)
        said = jnp.take(jnp.asarray(self.tables.answers), jnp.asarray(raw.states).astype(jnp.int32), axis=0)
        y = self._placed(jnp.where(self._asked(symbols)[:, :, None], said, 0.0), 0.0)
        return Examples(self._placed(symbols, self.padding), y, y)

    def _placed(self, rows: Array, mark: Any) -> Array:
        """What stands at the positions of a word, with a mark before it where there is one."""
        first = jnp.full_like(rows[:, :1], mark)
        return jnp.concatenate([first, rows], axis=1) if self.start else rows

    def _words_of(self, x: Array) -> Int[Array, "size room"]:
        """The symbols of inputs, without the mark before them."""
        return jnp.asarray(x).astype(jnp.int32)[:, int(self.start) :]

    def _asked(self, symbols: Int[Array, "size room"]) -> Bool[Array, "size room"]:
        """Which positions are asked: all of the word, or its last."""
        inside = symbols != self.padding
        if self.labeling != "final":
            return inside
        return inside & jnp.concatenate([~inside[:, 1:], jnp.ones_like(inside[:, :1])], axis=1)

    def wrong(self, prediction: AnyArray, truth: AnyArray) -> Bool[Array, "batch room outputs"]:
        """The answers that are asked for and not given: a logit 0 is no answer, nor is one that is no number."""
        right = jnp.asarray(truth) * prediction > (STRICT_MARGIN if self.strict else 0.0)
        return (jnp.asarray(truth) != 0) & ~right

    def error(
        self, prediction: Float[AnyArray, "batch room outputs"], truth: Float[AnyArray, "batch room outputs"]
    ) -> Float[Array, " batch"]:
        """1 for a word with a wrong answer, 0 if all are right."""
        return jnp.any(self.wrong(prediction, truth), axis=(1, 2)).astype(jnp.float32)

    def strategies(self) -> dict[str, Callable[[Array], Array]]:
        """To say yes to everything, and to run the automaton."""

        def masked(said: Array, x: Array) -> Array:
            asked = self._placed(self._asked(self._words_of(x)), False)[:, :, None]
            known = jnp.any(jnp.asarray(self.tables.answers) != 0, axis=0)[None, None, :]  # not a neighbour's symbol
            return jnp.where(asked & known, said, 0.0)

        def yes(x: Array) -> Array:
            answers = jnp.asarray(self.tables.answers)
            said = jnp.ones(self.outputs, jnp.float32)
            if self.outputs == 2:  # "no" and "yes" are opposites in every state; two symbols are both dead in some
                opposite = jnp.all(answers[:, 0] + answers[:, 1] == 0)
                said = jnp.where(opposite, jnp.asarray([-1.0, 1.0], jnp.float32), said)
            return masked(jnp.broadcast_to(said, (*jnp.shape(x), self.outputs)), x)

        return {"yes": yes, "automaton": lambda x: self.decode(self.read(self._words_of(x))).truth}

    def distance(self, strategy: AnyArray, prediction: AnyArray) -> Float[Array, " batch"]:
        """The mean squared difference over the answers that are asked for."""
        asked = (strategy != 0).astype(jnp.float32)
        return jnp.sum(asked * (jnp.asarray(prediction) - strategy) ** 2, axis=(1, 2)) / jnp.sum(asked, axis=(1, 2))

    def baselines(self) -> dict[str, float]:
        """The share of 4,096 judged words, always the same ones, that each strategy gets wrong."""
        found = _strategy_errors(self)
        return {f"loss_{name}": float(found[name]) for name in self.strategies()}

    @classmethod
    def example(cls) -> RegularLanguage:
        return cls("(00)*(11)*", 1, 9)


@jax.jit
def _strategy_errors(task: RegularLanguage) -> dict[str, Array]:
    examples = task.decode(task.test(jax.random.key(0), BASELINE_WORDS))
    return {name: jnp.mean(task.judge_strategy(of(examples.x), examples)) for name, of in task.strategies().items()}


def lengths_of(own: Automaton, called: str, low: int, high: int, accepted: bool = True) -> list[int]:
    """The lengths of words in a range; refused where there are none, with the nearest length that has some."""
    found = possible_lengths(own, low, high, accepted)
    beyond = possible_lengths(own, 1, high + 2 * own.size, accepted)
    nearest = min(beyond, key=lambda length: min(abs(length - low), abs(length - high)), default=None)
    if accepted:
        hint = "it has none at all" if nearest is None else f"the nearest length with a word is {nearest}"
        require(found, f"no word of the language {called!r} has a length in {low}..{high}: {hint}")
    else:
        hint = "it has all words" if nearest is None else f"the nearest length with a word outside is {nearest}"
        require(found, f"no word with a length in {low}..{high} lies outside the language {called!r}: {hint}")
    return found


def _answers(language: Language, own: Automaton, labeling: str) -> Float[np.ndarray, "states outputs"]:
    """What is to be said in each state: ±1, and 0 for a symbol that is not the language's own."""
    states, symbols = np.shape(language.transitions)
    if labeling == "steps":
        labeling = "next" if has_dead_state(own) else "prefix"
    accepts = np.where(np.asarray(language.accepting) == 1, 1.0, -1.0)
    if labeling == "final":
        return accepts[:, None]
    if labeling == "prefix":
        return np.stack([-accepts, accepts], axis=1)
    found = np.zeros((states, symbols))
    n, letters = own.transitions.shape
    found[:n, :letters] = np.where(live_states(own)[own.transitions], 1.0, -1.0)
    return found
