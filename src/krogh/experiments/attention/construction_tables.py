"""What is measured of the constructions of Proposition 4.12: errors on all inputs, and norms against T and s.

The tables behind the experiment attention/constructions, and its settings.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.experiments.theorems import largest
from krogh.lab import setting
from krogh.theory.constructions.base import Construction
from krogh.theory.constructions.categorical import categorical_function
from krogh.theory.constructions.memoriser import memoriser
from krogh.theory.constructions.sparse_functions import EXACT, averaging, general, head_alone, symmetric
from krogh.theory.constructions.sparse_heads import KINDS, sparse_head
from krogh.theory.constructions.sparse_table import norms
from krogh.theory.predictions.attention_limits import construction_norms

ATTENTION = {"Q": "query", "K": "key", "V": "value", "C": "output"}
RELUS = {"W1": "first", "W2": "second", "w": "readout"}
MEMORISED = 1e-12


@dataclass(frozen=True)
class Settings:
    heads: tuple[str, ...] = setting(tuple(KINDS), "attention heads, by the names of the construction sparse/head")
    lengths: tuple[int, ...] = setting((5, 8, 12), "contexts T of which all 2^T inputs are executed")
    sizes: tuple[int, ...] = setting((1, 2, 3, 4), "numbers s of relevant bits")
    tables: int = setting(20, "random functions per head, T and s, beside all functions of two bits")
    long: tuple[int, ...] = setting(tuple(2**p for p in range(3, 13)), "contexts T whose norms are measured")
    sampled: tuple[int, ...] = setting((64, 4096), "those of the long contexts that are executed, on sampled inputs")
    s: int = setting(3, "relevant bits in long contexts")
    growth: tuple[int, ...] = setting((1, 2, 3, 4, 5, 6, 7, 8), "numbers s for which the norms of ReLUs are measured")
    mode: str = setting("dual", "keys: dual, or printed as in the source")
    variant: str = setting("repaired", "ReLUs: repaired, or printed as in the source")
    strength: float = setting(1.0, "R as a multiple of the lemma's")


ERRORS = {
    "construction": pl.String,
    "head": pl.String,
    "length": pl.Int64,
    "s": pl.Int64,
    "inputs": pl.Int64,
    "error": pl.Float64,
    "allowed": pl.Float64,
}
NORMS = {
    "head": pl.String,
    "length": pl.Int64,
    "s": pl.Int64,
    "weight": pl.String,
    "norm": pl.Float64,
    "predicted": pl.Float64,
    "error": pl.Float64,
}


def _support(length: int, s: int) -> tuple[int, ...]:
    """s positions spread over the context, not in order: which they are must make no difference."""
    places = tuple(int(place) for place in np.linspace(length - 1, 0, s).round())
    return places if s > 1 else (length // 2,)


def _strength(settings: Settings, head: Any, length: int, support: tuple[int, ...]) -> float | None:
    """R, where it is not the lemma's own."""
    if settings.strength == 1:
        return None
    return settings.strength * sparse_head(head, length, support, mode=settings.mode).strength  # type: ignore[arg-type]


def head_rows(settings: Settings) -> list[tuple[Any, ...]]:
    """The largest deviation of attention alone from its target, and γ/4."""
    rows: list[tuple[Any, ...]] = []
    for head, length, s in itertools.product(settings.heads, settings.lengths, settings.sizes):
        support: Any = _support(length, s)
        strength = _strength(settings, head, length, support)
        made = head_alone(length, support=support, head=head, mode=settings.mode, strength=strength)
        found = made.check()
        rows.append((head, head, length, s, found.inputs, found.largest_error, made.tolerance))
    return rows


def function_rows(settings: Settings) -> list[tuple[Any, ...]]:
    """Attention followed by ReLUs: the largest error over functions, of the largest value of each."""
    rows: list[tuple[Any, ...]] = []
    for head, length, s in itertools.product(settings.heads, settings.lengths, settings.sizes):
        vector = KINDS[head].vector
        inputs, errors = 0, []
        for values in _functions(settings, 2**s if vector else s + 1, s):
            made = _represented(settings, head, length, _support(length, s), values)
            found = made.check()
            inputs += found.inputs
            errors.append(found.largest_error * EXACT / made.tolerance)
        rows.append(("general" if vector else "symmetric", head, length, s, inputs, largest(errors), EXACT))
    return rows


def _functions(settings: Settings, count: int, s: int) -> list[tuple[float, ...]]:
    """Values of functions: of two bits all that are 0 or 1, and random real ones of any s."""
    random = np.random.default_rng([count, s])
    drawn = [tuple(row) for row in random.normal(size=(max(settings.tables, 1), count)).tolist()]
    return [*itertools.product((0.0, 1.0), repeat=count), *drawn] if s == 2 else drawn


def _represented(
    settings: Settings, head: Any, length: int, support: tuple[int, ...], values: tuple[float, ...]
) -> Construction:
    shared: Any = {"mode": settings.mode, "variant": settings.variant}
    strength = _strength(settings, head, length, support)
    if KINDS[head].vector:
        return general(length, support=support, table=values, head=head, strength=strength, **shared)
    return symmetric(length, support=support, values=values, head=head, strength=strength, **shared)


def memoriser_rows(settings: Settings) -> list[tuple[Any, ...]]:
    """Random points on a grid of width 4δ, and what is repeated anywhere within δ of them, corners included."""
    rows: list[tuple[Any, ...]] = []
    for dimension, layers in ((1, 2), (1, 3), (2, 3), (3, 3)):
        random = np.random.default_rng([dimension, layers])
        grid = np.array(list(itertools.product(np.arange(-2.0, 2.1), repeat=dimension)))
        delta = 0.2
        points = 4 * delta * random.permutation(grid)[:12]
        values = random.normal(size=len(points))
        network = memoriser(points, values, delta, layers, settings.variant)  # type: ignore[arg-type]
        corners = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=dimension)))
        moves = np.concatenate([corners, random.uniform(-1, 1, (200, dimension))]) * delta * (1 - 1e-12)
        near = (points[:, None] + moves[None]).reshape(-1, dimension)
        missed = np.abs(network(near) - np.repeat(values, len(moves)))
        rows.append(("memoriser", f"{layers} layers", None, dimension, len(near), largest(missed), MEMORISED))
    return rows


def other_rows(settings: Settings) -> list[tuple[Any, ...]]:
    """The head that averages everything, and functions of tokens of three kinds."""
    length = settings.lengths[0]
    found = averaging(length).check()
    rows: list[tuple[Any, ...]] = [("averaging", "averaging", length, length, found.inputs, found.largest_error, EXACT)]
    values = np.random.default_rng(3).normal(size=(3, 3))
    function = categorical_function(length, 3, values, support=_support(length, 2))
    words = np.array(list(itertools.product(range(3), repeat=min(length, 8))))
    words = np.pad(words, ((0, 0), (0, length - words.shape[1])))
    wanted = values[tuple(words[:, list(function.support)].T)]
    rows.append(("categorical", "categorical", length, 2, len(words), largest(np.abs(function(words) - wanted)), EXACT))
    return rows


def _predicted(head: str, length: int, s: int) -> dict[str, float]:
    """The norms of Proposition 4.12's proof, by the weight's name; w is bounded by functions of size 1."""
    vector = KINDS[head].vector
    found: dict[str, Any] = construction_norms(length, s, KINDS[head].mapping, "general" if vector else "symmetric")  # type: ignore[arg-type]
    return {weight: float(found[name]) for weight, name in {**ATTENTION, **RELUS}.items()}


def long_rows(settings: Settings) -> list[tuple[Any, ...]]:
    """Norms of a random ±1 function's representation in contexts of growing length, some of them executed."""
    rows: list[tuple[Any, ...]] = []
    for head, length in itertools.product(settings.heads, settings.long):
        made = _represented(settings, head, length, _support(length, settings.s), _labels(head, settings.s))
        error = made.check().largest_error if length in settings.sampled else None
        predicted = _predicted(head, length, settings.s)
        found = norms(made.params)
        rows += [(head, length, settings.s, name, found[name], predicted[name], error) for name in predicted]
    return rows


def _labels(head: str, s: int) -> tuple[float, ...]:
    """A function with the values -1 and 1 only, so that ‖w‖ is what the proof bounds it by."""
    count = 2**s if KINDS[head].vector else s + 1
    return tuple(np.random.default_rng([7, count]).choice([-1.0, 1.0], size=count).tolist())


def growth_rows(settings: Settings) -> list[tuple[Any, ...]]:
    """Norms of the ReLUs against s: those of the memoriser of the head's points, whatever T."""
    rows: list[tuple[Any, ...]] = []
    for head, s in itertools.product(settings.heads, settings.growth):
        made = sparse_head(head, s, tuple(range(s)))  # type: ignore[arg-type]
        values = np.asarray(_labels(head, s))
        found, predicted = norms(memoriser(made.points(), values, made.gamma / 4).params), _predicted(head, s, s)
        rows += [(head, s, s, name, found[name], predicted[name], None) for name in RELUS]
    return rows


def growth_rates(table: pl.DataFrame) -> pl.DataFrame:
    """For each head and weight: b and c of log2 ‖·‖_F = a + b s + c log2 s, by least squares over s ≥ 2.

    A single bit follows another law: γ = min(1, 2/s) is 1 for one bit as for two.
    """
    rows = []
    for (head, weight), own in table.filter(pl.col("s") >= 2).group_by("head", "weight", maintain_order=True):
        s = own["s"].to_numpy().astype(np.float64)
        design = np.column_stack([np.ones_like(s), s, np.log2(s)])
        _, rate, power = np.linalg.lstsq(design, np.log2(own["norm"].to_numpy()), rcond=None)[0]
        rows.append((head, weight, KINDS[str(head)].vector, float(rate), float(power)))
    return pl.DataFrame(rows, schema=["head", "weight", "general", "rate", "power"], orient="row")
