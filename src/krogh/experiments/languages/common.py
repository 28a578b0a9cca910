"""What experiments on regular languages share: cohorts over languages, networks that read longer words, algebra.

All languages of an experiment have room for the states and symbols of the largest, so that they are one cohort for each
network; a row of the table is told by its automaton (`names_of`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
from jaxtyping import Array

from krogh.engine import Trial, Trials, stack
from krogh.lab.results import Network
from krogh.models import CausalTransformer, Recurrent, StateSpace
from krogh.models.base import Model, Parameters
from krogh.programs.automata import Automaton, syntactic_monoid
from krogh.tasks.languages import Language, RegularLanguage
from krogh.values import columns, replaced

STAR_FREE, SOLVABLE, NON_SOLVABLE = "star-free", "solvable groups", "a non-solvable group"
CLASSES = (STAR_FREE, SOLVABLE, NON_SOLVABLE)
TEST_SEED = 2**31  # of words that no trial has seen as its validation sample


@dataclass(frozen=True)
class Architecture:
    """A network of a given width that reads one symbol after the other, in words, with Adam's rate for it."""

    words: str
    model: Callable[[int], Model]
    rate: float


ARCHITECTURES: Mapping[str, Architecture] = {
    "rnn": Architecture("tanh units", lambda width: Recurrent("tanh", width, bidirectional=False), 3e-3),
    "gru": Architecture("gated recurrent units", lambda width: Recurrent("gru", width, bidirectional=False), 5e-3),
    "lstm": Architecture("long short-term memory", lambda width: Recurrent("lstm", width, bidirectional=False), 5e-3),
    "transformer": Architecture(
        "two layers, relative positions, norms and feed-forward parts",
        lambda width: CausalTransformer(dimension=width, layers=2, heads=2, mlp=True, norm=True, output=True),
        2e-3,
    ),
    "state-space": Architecture(
        "diagonal linear recurrence, gated",
        lambda width: StateSpace(state=width, width=width, hidden=width, bidirectional=False),
        5e-3,
    ),
}
"""Rates were set beforehand, one for each architecture, and not searched."""


def with_room(languages: Sequence[Automaton]) -> list[Language]:
    """The languages with room for the largest of them."""
    made = [Language.of(one) for one in languages]
    states, symbols = (max(np.shape(one.transitions)[axis] for one in made) for axis in (0, 1))
    return [Language.of(one, states=states, symbols=symbols) for one in languages]


def over_languages(
    trial: Trial, languages: Iterable[Language], seeds: Iterable[int], *, fields: Sequence[Mapping[str, Any]] = ()
) -> list[Trials]:
    """A trial for every language and seed, with other fields of each language where there are some."""
    changed = []
    own = list(languages)
    for language, more in zip(own, fields or [{}] * len(own), strict=True):
        one = replaced(trial, "task.language", language)
        for path, value in more.items():
            one = replaced(one, path, value)
        changed.append(one)
    return [cohort.seeded(seeds) for cohort in stack(changed)]


COLUMNS = tuple(f"task.language.{name}" for name in ("transitions", "accepting", "letters"))


def names_of(table: pl.DataFrame, languages: Mapping[str, Language]) -> list[str]:
    """The name of each row's language."""
    keys = {tuple(columns(language)[path.removeprefix("task.language.")] for path in COLUMNS): name
            for name, language in languages.items()}  # fmt: skip
    return [keys[row] for row in table.select(COLUMNS).iter_rows()]


def lengthened(params: Mapping[str, Any], room: int) -> Parameters:
    """Weights for inputs of up to `room` positions: distances that a transformer never met have the vector 0."""
    made = {name: jnp.asarray(leaf) for name, leaf in params.items()}
    if "v" in made and made["v"].shape[1] < room:
        made["v"] = jnp.pad(made["v"], ((0, 0), (0, room - made["v"].shape[1]), (0, 0)))
    return made


@functools.partial(jax.jit, static_argnames="words")
def _accuracies(
    model: Model, task: RegularLanguage, params: Parameters, seed: Array, words: int
) -> tuple[Array, Array]:
    examples = task.decode(task.draw(jax.random.key(seed), words))
    wrong = task.wrong(model.predict(params, examples.x), examples.truth)
    asked = jnp.sum((examples.truth != 0).astype(jnp.float32))
    right = jnp.mean((~jnp.any(wrong, axis=(1, 2))).astype(jnp.float32))
    return right, 1 - jnp.sum(wrong.astype(jnp.float32)) / asked


def accuracies(network: Network, task: RegularLanguage, words: int, seed: int = TEST_SEED) -> tuple[float, float]:
    """The share of words that are right, and of answers, on fresh words of a task; 0 where training diverged."""
    if network.final is None:
        return 0.0, 0.0
    params = lengthened(network.final, task.input_shape[0])
    right, answers = _accuracies(network.trial.model, task, params, jnp.uint32(seed), words)
    return float(right), float(answers)


def longer_task(task: RegularLanguage, factor: int) -> RegularLanguage:
    """Words of up to `factor` times the longest, and longer than those of half the factor."""
    longest = task.longest
    low = task.shortest if factor == 1 else longest * factor // 2 + 1
    return replaced(replaced(task, "longest", longest * factor), "shortest", low)


def length_table(networks: Iterator[Network], names: Sequence[str], factors: Sequence[int], words: int) -> pl.DataFrame:
    """How right each network is on words of `factor` times the length of those that it was trained on."""
    rows = []
    for network, name in zip(networks, names, strict=True):
        task = network.trial.task
        assert isinstance(task, RegularLanguage)
        for factor in factors:
            right, answers = accuracies(network, longer_task(task, factor), words)
            rows.append(
                {
                    "language": name,
                    "network": network.row["network"],
                    "seed": network.seed,
                    "converged": network.row["outcome"] == "converged",
                    "factor": factor,
                    "words": right,
                    "answers": answers,
                }
            )
    kinds = {"language": pl.String, "network": pl.String, "seed": pl.Int64, "converged": pl.Boolean,
             "factor": pl.Int64, "words": pl.Float64, "answers": pl.Float64}  # fmt: skip
    return pl.DataFrame(rows, schema=kinds)


def algebra_table(languages: Mapping[str, Automaton]) -> pl.DataFrame:
    """What is known of each language: states of its least automaton, its syntactic monoid, and what that says."""
    rows = []
    for name, automaton in languages.items():
        monoid = syntactic_monoid(automaton)
        states = Language.of(automaton).automaton.size
        star_free, solvable = monoid.group_free, monoid.solvable
        rows.append(
            {
                "language": name,
                "symbols": len(automaton.alphabet),
                "states": states,
                "monoid": monoid.size,
                "star_free": star_free,
                "solvable": solvable,
                "group": monoid.is_group,
                "commutative": monoid.commutative,
                "algebra": STAR_FREE if star_free else SOLVABLE if solvable else NON_SOLVABLE,
            }
        )
    return pl.DataFrame(rows)


def in_words(row: Mapping[str, Any]) -> str:
    """The algebra of a language in a line."""
    kind = "a group" if row["group"] else "no group"
    order = "commutative" if row["commutative"] else "not commutative"
    return (
        f"{row['states']} states, syntactic monoid of {row['monoid']} elements ({kind}, {order}; "
        f"{'star-free' if row['star_free'] else row['algebra']})"
    )
