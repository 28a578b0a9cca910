"""What the experiments on networks written by hand share: words, marks, attacks, and machines step by step.

Compiled machines are simulated in several arithmetics, all attention spelled out, and compared with the interpreter:

    float64    as everywhere in theory
    float32    all weights, sums and products
    bfloat16   weights and all results have 8 significant bits; sums are taken in float32, as accelerators do

Attention is hard or soft as it was compiled, and looks at every past step; weights are those that were compiled, or any
others of the same shapes. NumPy, on sparse weights where they are sparse: nothing has to be compiled first, and so a
thousand machines of different sizes are a matter of minutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import unknown
from krogh.lab import Estimate, figures, setting
from krogh.lab.charts import Panel
from krogh.lab.estimate import exact
from krogh.networks.machines.compiled import CompiledMachine, compile_machine
from krogh.networks.margins.attack import Effort
from krogh.programs.machines.library import load_machine
from krogh.programs.machines.machine import Word
from krogh.programs.machines.running import trace_batch

NO_EXPERIMENTS = (
    "The SM paper reports no experiments. Values beside ours were computed beforehand from its constructions, with "
    "other code; thresholds are those that were set for these experiments then."
)
CORRECTIONS = {True: ("with correction", figures.BLUE), False: ("without correction", figures.VERMILLION)}
SOLID: dict[str, Any] = {"style": "-", "width": 1.7, "marker": "o", "markersize": 4}
"""The look of a line through values that were computed at each of its points."""


@dataclass(frozen=True)
class Attacks:
    """How hard an attack tries."""

    restarts: int = setting(12, "random directions that an attack starts from", least=1)
    refinements: int = setting(60, "rounds in which each of them is improved", least=0)
    seed: int = setting(0, "of attacks, and of whatever else is drawn", least=0)

    @property
    def effort(self) -> dict[str, Any]:
        """The same as an attack takes it."""
        return {"effort": Effort(self.restarts, self.refinements), "seed": self.seed}


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


def compiled_counter(bits: int, **options: Any) -> tuple[CompiledMachine, str]:
    """The machine 'counter' for n bits, and its word #0…0 with n zeros, on which it takes T = 2^(n+2) − 1 steps."""
    word, steps = "#" + "0" * bits, 2 ** (bits + 2) - 1
    return compile_machine(load_machine("counter"), steps, input_length=len(word), words=[word], **options), word


# --- machines step by step ------------------------------------------------------------------------------------

Array = NDArray[Any]
Rounding = Callable[[Array], Array]
ARITHMETICS = ("float64", "float32", "bfloat16")
_BFLOAT16 = np.dtype(jnp.bfloat16)


class Simulation(NamedTuple):
    """What a network did at the machine's times 0..T, beside the interpreter.

    `wrong` [words, T + 1] says where state, symbol or cell differ; `deviation` [T + 1] how far an entry of any hidden
    vector is from 0 and 1 at most, over words and layers; `gap` [T + 1] the least by which the best score of an
    attention leads all that are not within √ε of it, ε the arithmetic's; `output` [words] is what the classifier says,
    `label` [words] what it should.
    """

    wrong: NDArray[np.bool_]
    deviation: Array
    gap: Array
    output: Array
    label: Array


def simulate(
    compiled: CompiledMachine,
    words: Sequence[Word],
    arithmetic: str = "float64",
    parameters: Mapping[str, Any] | None = None,
) -> Simulation:
    """Run a compiled machine on words for all its T' = T + 1 decoder steps, in an arithmetic.

    `parameters`, where given, take the place of those that were compiled; dense arrays or sparse ones.
    """
    if arithmetic not in ARITHMETICS:
        raise unknown("arithmetic", arithmetic, ARITHMETICS)
    with np.errstate(over="ignore", invalid="ignore"):  # without correction errors grow beyond all numbers
        return _simulate(compiled, words, arithmetic, compiled.parameters if parameters is None else parameters)


def _simulate(
    compiled: CompiledMachine, words: Sequence[Word], arithmetic: str, weights: Mapping[str, Any]
) -> Simulation:
    dtype = np.float64 if arithmetic == "float64" else np.float32
    rounded: Rounding = _coarse if arithmetic == "bfloat16" else _same
    close = float(jnp.finfo(arithmetic).eps) ** 0.5
    parameters = {name: _cast(value, dtype, rounded) for name, value in weights.items()}
    positions = compiled.positions.astype(dtype)
    tokens, lengths = compiled.tokens(words)
    count, steps, places = len(lengths), compiled.decoder_steps, np.arange(tokens.shape[1])
    layers: list[dict[str, _Attention]] = []
    for layer in range(1, compiled.depth + 1):
        own = {
            kind: _Attention(parameters, f"L{layer}.{kind}", rounded, close, (room, count))
            for kind, room in (("dec", steps), ("enc", len(places)))
            if f"L{layer}.{kind}.Wq" in parameters
        }
        if "enc" in own:
            table = parameters["E"]
            embedding = table if isinstance(table, np.ndarray) else table.toarray()
            for place in places:
                own["enc"].add(rounded(embedding[:, tokens[:, place]] + positions[place + 1][:, None]))
            own["enc"].present = places[:, None] < lengths[None, :]
        layers.append(own)
    outputs = np.zeros((count, steps, compiled.width), dtype)
    deviation, gap = np.zeros(steps), np.full(steps, np.inf)
    h = np.repeat(parameters["o0"][:, None], count, axis=1)
    for step in range(steps):
        h = rounded(h + positions[step + 1][:, None])
        for layer, own in enumerate(layers, start=1):
            if "dec" in own:
                own["dec"].add(h)
            for attention in own.values():
                h, below = attention.attend(h, compiled.inverse_temperature)
                gap[step] = min(gap[step], below)
            for k in (1, 2, 3):
                weight, bias = parameters[f"L{layer}.ff.W{k}"], parameters[f"L{layer}.ff.b{k}"]
                h = np.maximum(_affine(weight, bias[:, None], h, rounded), 0)
            far = float(np.abs(h - (h > 0.5)).max())
            deviation[step] = max(deviation[step], far if math.isfinite(far) else math.inf)
        outputs[:, step] = h.T
    truth, read = trace_batch(compiled.machine, words, compiled.steps), compiled.decode(outputs)
    wrong = (read.state != truth.state) | (read.symbol != truth.symbol) | (read.cell != truth.cell)
    label = np.where(truth.labels < 0, 0.0, 2.0 * truth.labels - 1.0)
    return Simulation(wrong, deviation, gap, outputs[:, -1] @ np.asarray(parameters["cls"]), label)


class _Attention:
    """One attention: what it remembers, and what it adds to vectors [w, words]."""

    def __init__(
        self, parameters: dict[str, Any], prefix: str, rounded: Rounding, close: float, room: tuple[int, int]
    ) -> None:
        """`room` is for how many places, and for how many words at each."""
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
        (places, words), dtype = room, self.null_key.dtype
        self.keys = np.zeros((places, self.key[0].shape[0], words), dtype)
        self.values = np.zeros((places, len(self.rows), words), dtype)
        self.present: NDArray[np.bool_] | None = None
        self.size = 0

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
        h = h.copy()
        h[self.rows] = self.rounded(
            self.rounded(h[self.rows] + self.rounded(weights[:1] * self.null_value[self.rows, None])) + added
        )
        return h, float((best[0] - below).min())


def _affine(weight: Any, bias: Array, h: Array, rounded: Rounding) -> Array:
    return rounded(rounded(weight @ h) + bias)


def _same(values: Array) -> Array:
    return values


def _coarse(values: Array) -> Array:
    """Values of 8 significant bits, kept as float32."""
    return values.astype(_BFLOAT16).astype(np.float32)


def _cast(parameter: Any, dtype: Any, rounded: Rounding) -> Any:
    cast = parameter.astype(dtype)
    if isinstance(cast, np.ndarray):
        return rounded(cast)
    cast.data = rounded(cast.data)
    return cast
