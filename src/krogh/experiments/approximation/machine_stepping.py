"""Compiled machines run step by step in several arithmetics, all attention spelled out, and compared with the truth.

    float64    as everywhere in theory
    float32    all weights, sums and products
    bfloat16   weights and all results have 8 significant bits; sums are taken in float32, as accelerators do

Attention is hard or soft as it was compiled, and looks at every past step; weights are those that were compiled, or any
others of the same shapes. NumPy, on sparse weights where they are sparse: nothing has to be compiled first, and so a
thousand machines of different sizes are a matter of minutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from krogh.errors import unknown
from krogh.tasks.machines import Word, trace_batch
from krogh.theory.compilers.machines import CompiledMachine

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
