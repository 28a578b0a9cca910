"""Compiled machines run step by step in several arithmetics, all attention spelled out, and compared with the truth.

    float64    as everywhere in theory
    float32    all weights, sums and products
    bfloat16   weights and all results have 8 significant bits; sums are taken in float32, as accelerators do

Attention is hard or soft as it was compiled, and looks at every past step; weights are those that were compiled, or any
others of the same shapes. NumPy, on sparse weights where they are sparse: nothing has to be compiled first, and so a
thousand machines of different sizes are a matter of minutes.

What the experiments on networks written by hand share: words, marks, and how hard an attack tries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import unknown
from krogh.lab import Estimate, figures
from krogh.lab.charts import Panel
from krogh.lab.estimate import exact
from krogh.networks.machines.compiled import CompiledMachine
from krogh.networks.margins.attack import Effort
from krogh.programs.machines.machine import Word
from krogh.programs.machines.running import trace_batch

NO_EXPERIMENTS = (
    "The SM paper reports no experiments. Values beside ours were computed beforehand from its constructions, with "
    "other code; thresholds are those that were set for these experiments then."
)
CORRECTIONS = {True: ("with correction", figures.BLUE), False: ("without correction", figures.VERMILLION)}
SOLID: dict[str, Any] = {"style": "-", "width": 1.7, "marker": "o", "markersize": 4}
"""The look of a line through values that were computed at each of its points."""


def effort(settings: Any) -> dict[str, Any]:
    """How hard an attack tries: `restarts` directions, each improved in `refinements` rounds, from a `seed`."""
    return {"effort": Effort(settings.restarts, settings.refinements), "seed": settings.seed}


def variation(values: ArrayLike) -> Estimate:
    """The largest of some numbers over the least of them, less 1; NaN of none."""
    numbers = np.asarray(values, np.float64)
    return exact(numbers.max() / numbers.min() - 1 if numbers.size else np.nan, numbers.size)


def in_words(numbers: Sequence[float]) -> str:
    """ "3, 5, 9" or, of more than six, "3 to 33"."""
    if len(numbers) > 6:
        return f"{numbers[0]:g} to {numbers[-1]:g}"
    return ", ".join(f"{number:g}" for number in numbers)


def draw_beforehand(panel: Panel, known: Mapping[int, float], places: Container[int]) -> None:
    """Values that were computed beforehand as crosses, at the places that were measured."""
    shown = {place: value for place, value in known.items() if place in places}
    panel.ax.plot(list(shown), list(shown.values()), "x", color=figures.INK, markersize=7, zorder=4)


Array = NDArray[Any]
ARITHMETICS = ("float64", "float32", "bfloat16")
_BFLOAT16 = np.dtype(jnp.bfloat16)


class Stepped(NamedTuple):
    """What a run did at the machine's times 0..T, beside the interpreter.

    `wrong` [words, T + 1] says where state, symbol or cell differ; `deviation` [T + 1] how far an entry of any hidden
    vector is from 0 and 1 at most, over words and layers; `gap` [T + 1] the least by which the best score of an
    attention leads all that are not within √ε of it, ε the arithmetic's; `output` [words] is what the classifier says,
    `wanted` [words] what it should.
    """

    wrong: NDArray[np.bool_]
    deviation: Array
    gap: Array
    output: Array
    wanted: Array


class _Attention:
    """One attention: what it remembers, and what it adds to vectors [w, words]."""

    def __init__(
        self, parameters: dict[str, Any], prefix: str, rounded: Callable[[Array], Array], close: float
    ) -> None:
        self.query, self.key, self.value = (
            (parameters[f"{prefix}.W{letter}"], parameters[f"{prefix}.b{letter}"][:, None]) for letter in "qkv"
        )
        self.null_key, self.null_value = parameters[f"{prefix}.K0"], parameters[f"{prefix}.V0"]
        weight, bias = self.value
        # most rows of values are zero, whatever is looked at
        used = np.asarray(abs(weight).sum(axis=1)).ravel() > 0
        self.rows = np.flatnonzero(used | (bias[:, 0] != 0) | (self.null_value != 0))
        self.value = (weight[self.rows], bias[self.rows])
        self.rounded, self.close = rounded, close
        self.keys = self.values = np.zeros((0, 0, 0))
        self.present: NDArray[np.bool_] | None = None
        self.size = 0

    def room(self, places: int, words: int, dtype: Any) -> None:
        self.keys = np.zeros((places, self.key[0].shape[0], words), dtype)
        self.values = np.zeros((places, len(self.rows), words), dtype)

    def add(self, h: Array) -> None:
        """Remember vectors h [w, words]."""
        self.keys[self.size] = _affine(*self.key, h, self.rounded)
        self.values[self.size] = _affine(*self.value, h, self.rounded)
        self.size += 1

    def attend(self, h: Array, temperature: float | None) -> tuple[Array, float]:
        """h with what attention adds, and the least gap below the best score."""
        query, keys = _affine(*self.query, h, self.rounded), self.keys[: self.size]
        scores = self.rounded(np.einsum("db,tdb->tb", query, keys))
        if self.present is not None:
            scores = np.where(self.present, scores, -np.inf).astype(h.dtype)
        scores = np.concatenate([self.rounded(self.null_key @ query)[None, :], scores])
        best = scores.max(axis=0, keepdims=True)
        below = np.where(scores < best - self.close, scores, -np.inf).max(axis=0)
        if temperature is None:
            winners = (scores == best).astype(h.dtype)
            weights = self.rounded(winners / winners.sum(axis=0, keepdims=True))
        else:
            heat = self.rounded(np.asarray([temperature], h.dtype))
            powers = self.rounded(np.exp(self.rounded(heat * self.rounded(scores - best))))
            weights = self.rounded(powers / self.rounded(powers.sum(axis=0, keepdims=True)))
        added = self.rounded(np.einsum("tb,trb->rb", weights[1:], self.values[: self.size]))
        found = h.copy()
        found[self.rows] = self.rounded(
            self.rounded(h[self.rows] + self.rounded(weights[:1] * self.null_value[self.rows, None])) + added
        )
        return found, float((best[0] - below).min())


def stepped(
    compiled: CompiledMachine,
    words: Sequence[Word],
    arithmetic: str = "float64",
    parameters: Mapping[str, Any] | None = None,
) -> Stepped:
    """Run a compiled machine on words for all its T' = T + 1 decoder steps, in an arithmetic.

    `parameters`, where given, take the place of those that were compiled; dense arrays or sparse ones.
    """
    if arithmetic not in ARITHMETICS:
        raise unknown("arithmetic", arithmetic, ARITHMETICS)
    with np.errstate(over="ignore", invalid="ignore"):  # without correction errors grow beyond all numbers
        return _stepped(compiled, words, arithmetic, compiled.parameters if parameters is None else parameters)


def _stepped(compiled: CompiledMachine, words: Sequence[Word], arithmetic: str, given: Mapping[str, Any]) -> Stepped:
    dtype = np.float64 if arithmetic == "float64" else np.float32
    rounded = _coarsened if arithmetic == "bfloat16" else _same
    close = float(jnp.finfo(arithmetic).eps) ** 0.5
    parameters = {name: _converted(value, dtype, rounded) for name, value in given.items()}
    positions = compiled.positions.astype(dtype)
    tokens, lengths = compiled.tokens(words)
    count, steps, temperature = len(lengths), compiled.decoder_steps, compiled.inverse_temperature
    attentions: list[dict[str, _Attention]] = []
    for layer in range(1, compiled.depth + 1):
        own = {
            kind: _Attention(parameters, f"L{layer}.{kind}", rounded, close)
            for kind in ("dec", "enc")
            if f"L{layer}.{kind}.Wq" in parameters
        }
        for kind, one in own.items():
            one.room(steps if kind == "dec" else tokens.shape[1], count, dtype)
        if "enc" in own:
            table = parameters["E"]
            embedding = table if isinstance(table, np.ndarray) else table.toarray()
            for place in range(tokens.shape[1]):
                own["enc"].add(rounded(embedding[:, tokens[:, place]] + positions[place + 1][:, None]))
            own["enc"].present = np.arange(1, tokens.shape[1] + 1)[:, None] <= lengths[None, :]
        attentions.append(own)
    outputs = np.zeros((count, steps, compiled.width), dtype)
    deviation, gap = np.zeros(steps), np.full(steps, np.inf)
    output = np.repeat(parameters["o0"][:, None], count, axis=1)
    for step in range(steps):
        h = rounded(output + positions[step + 1][:, None])
        for layer, own in enumerate(attentions, start=1):
            if "dec" in own:
                own["dec"].add(h)
            for one in own.values():
                h, below = one.attend(h, temperature)
                gap[step] = min(gap[step], below)
            for k in (1, 2, 3):
                weight, bias = parameters[f"L{layer}.ff.W{k}"], parameters[f"L{layer}.ff.b{k}"]
                h = np.maximum(_affine(weight, bias[:, None], h, rounded), 0)
            far = float(np.abs(h - (h > 0.5)).max())
            deviation[step] = max(deviation[step], far if math.isfinite(far) else math.inf)
        outputs[:, step], output = h.T, h
    truth = trace_batch(compiled.machine, words, compiled.steps)
    found = compiled.decode(outputs)
    wrong = (found.state != truth.state) | (found.symbol != truth.symbol) | (found.cell != truth.cell)
    decided = np.where(truth.labels < 0, 0.0, 2.0 * truth.labels - 1.0)
    return Stepped(wrong, deviation, gap, outputs[:, -1] @ np.asarray(parameters["cls"]), decided)


def _affine(weight: Any, bias: Array, h: Array, rounded: Callable[[Array], Array]) -> Array:
    return rounded(rounded(weight @ h) + bias)


def _same(values: Array) -> Array:
    return values


def _coarsened(values: Array) -> Array:
    """Values of 8 significant bits, kept as float32."""
    return values.astype(_BFLOAT16).astype(np.float32)


def _converted(parameter: Any, dtype: Any, rounded: Callable[[Array], Array]) -> Any:
    if isinstance(parameter, np.ndarray):
        return rounded(parameter.astype(dtype))
    found = parameter.astype(dtype)
    found.data = rounded(found.data)
    return found
