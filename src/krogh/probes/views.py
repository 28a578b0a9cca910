"""Views: pictures of a network at one moment of its training, from which `krogh replay` makes a film.

A view is a function of a `Look` (task, model, the weights then, at first and at last, examples) that gives panels:

    HeatMap    a matrix as colours: attention maps, weights, spectra of neurons
    Bars       numbers with names: movement of each coordinate, Fourier coefficients, shares of frequencies
    Lines      a few functions of a place: what a neuron does with every element of a group
    Numbers    measurements that are drawn over all of training: distances to strategies, margins

Every registered view whose task and model fit a trial has its panels on the trial's page. A view sees one look at a
time, and gives panels of the same names and shapes at each; what moves is what it has found there. It runs on the
host, after training, on snapshots of the weights.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from krogh.errors import require
from krogh.models.base import Model, Parameters
from krogh.models.causal_transformer import CausalTransformer
from krogh.models.minimal_induction import MinimalInduction
from krogh.models.two_layer import PairNetwork
from krogh.networks.groups.arrays import PairArrays, arrays_of
from krogh.networks.groups.measures import normalised_margin
from krogh.probes.features.spectra import Spectrum, network_spectrum
from krogh.probes.progress import FIRST_LAYERS, first_layer
from krogh.registry import VIEWS
from krogh.tasks.base import Examples, Task
from krogh.tasks.chains import MarkovChains
from krogh.tasks.composition import GroupComposition
from krogh.tasks.parity import AbstractParity
from krogh.theory.boolean.fourier import fourier_coefficients
from krogh.theory.groups.problems import cyclic_order

EXACT_BITS = 12  # up to here all inputs are listed, and every Fourier coefficient is exact
SAMPLED = 1 << 13
MOST_SUBSETS = 4  # relevant bits of which all subsets are shown
OFFSETS = 16  # relative positions of an encoding that are shown


class Look(NamedTuple):
    """What a view sees: a trial's task and model, weights at this step, at the first and at the last, and examples.

    Weights are dictionaries of arrays by the parameters' names, of JAX when a view gets them (`panels_of`).
    """

    task: Task
    model: Model
    params: Any
    initial: Any
    final: Any
    examples: Examples
    step: int


@dataclass(frozen=True, eq=False)
class HeatMap:
    """A matrix as colours, on one scale for all of training.

    `rows` and `columns` say what they are; columns in `marked` have a mark. `signed` colours both sides of zero, `root`
    gives small values more of the scale.
    """

    name: str
    values: Any
    rows: str = ""
    columns: str = ""
    about: str = ""
    signed: bool = False
    root: bool = False
    marked: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Bars:
    """Numbers with names; those in `marked` stand out. One scale for all of training, or with `free` the moment's own,
    where what is small at first would not be seen beside what is large at last."""

    name: str
    values: Mapping[str, float]
    places: str = ""
    about: str = ""
    marked: tuple[str, ...] = ()
    free: bool = False


@dataclass(frozen=True, eq=False)
class Lines:
    """Functions of a place, by name: as many values each."""

    name: str
    lines: Mapping[str, Any]
    places: str = ""
    about: str = ""


@dataclass(frozen=True, eq=False)
class Numbers:
    """Measurements by name, drawn over all of training; `log` where their orders of magnitude matter."""

    name: str
    values: Mapping[str, float]
    about: str = ""
    log: bool = False


Panel = HeatMap | Bars | Lines | Numbers


@dataclass(frozen=True)
class View:
    """A registered view: which tasks and models it is for, and the function that draws."""

    name: str
    function: Callable[[Look], Iterable[Panel]]
    task: type | tuple[type, ...] = Task
    model: type | tuple[type, ...] = Model
    summary: str = field(default="", compare=False)

    def fits(self, task: Task, model: Model) -> bool:
        """Whether the view can look at such a trial."""
        return isinstance(task, self.task) and isinstance(model, self.model)


def view(name: str, *, task: Any = Task, model: Any = Model) -> Any:
    """Decorator: register a function of a `Look` as a view of trials with such a task and such a model."""

    def file(function: Callable[[Look], Iterable[Panel]]) -> Callable[[Look], Iterable[Panel]]:
        summary = (inspect.getdoc(function) or "").partition("\n")[0]
        VIEWS.register(name)(View(name, function, task, model, summary))
        return function

    return file


def panels_of(look: Look) -> list[Panel]:
    """What all views that fit show of a look, its weights as JAX arrays; two panels of one name are refused."""
    look = look._replace(params=_arrays(look.params), initial=_arrays(look.initial), final=_arrays(look.final))
    found = [panel for _, known in VIEWS.items() if known.fits(look.task, look.model) for panel in known.function(look)]
    names = [panel.name for panel in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    require(not twice, f"panels need names of their own; got twice: {', '.join(twice)}")
    return found


# --- any task with strategies ---------------------------------------------------------------------------------


DISTANCES = "Distance to strategies"


@view("strategies")
def strategies(look: Look) -> Iterator[Panel]:
    """How far predictions are from each strategy that the task knows: the nearest one tells the phase."""
    known = list(look.task.strategies())
    if known:
        found = _distances(look.task, look.model, look.params, look.examples.x)
        means = {name: float(found[name]) for name in known}  # from simple to good: a program sorts names
        yield Numbers(DISTANCES, means, "mean over examples; the nearest one tells the phase", log=True)


@jax.jit
def _distances(task: Task, model: Model, params: Parameters, x: jax.Array) -> dict[str, jax.Array]:
    prediction = model.predict(params, x)
    return {name: jnp.mean(task.distance(of(x), prediction)) for name, of in task.strategies().items()}


def mean_error(look: Look) -> float:
    """The error that a trial is judged by, over the look's examples."""
    return float(_error(look.task, look.model, _arrays(look.params), look.examples))


@jax.jit
def _error(task: Task, model: Model, params: Parameters, examples: Examples) -> jax.Array:
    return jnp.mean(task.judge(model.predict(params, examples.x), examples))


def _arrays(weights: Mapping[str, Any]) -> Parameters:
    return {name: jnp.asarray(leaf) for name, leaf in weights.items()}


_predict = jax.jit(lambda model, params, x: model.predict(params, x))


# --- networks on signs ----------------------------------------------------------------------------------------


@view("first-layer", task=AbstractParity)
def first_layer_weights(look: Look) -> Iterator[Panel]:
    """First-layer weights of a network on a parity, and how far each coordinate's have moved (§5.5)."""
    if not any(name in look.params for name in FIRST_LAYERS) or len(look.task.input_shape) != 1:
        return
    now, before, last = (first_layer(look.model, look.task, w) for w in (look.params, look.initial, look.final))
    support = tuple(int(place) for place in np.asarray(look.task.support))  # type: ignore[attr-defined]
    on = np.isin(np.arange(now.shape[1]), support)
    # Neurons that end with most weight on the support stand first, in all of training.
    order = np.argsort(-np.linalg.norm(np.asarray(last)[:, on], axis=1), kind="stable")
    yield HeatMap(
        "Weights of the first layer",
        np.asarray(now)[order],
        "neuron",
        "coordinate",
        "neurons sorted by what they end with on the support, whose coordinates are marked",
        signed=True,
        marked=support,
    )
    moved = np.abs(np.asarray(now) - np.asarray(before)).max(axis=0)
    names = [str(place + 1) for place in range(len(moved))]
    yield Bars(
        "Movement of each coordinate",
        dict(zip(names, moved.tolist(), strict=True)),
        "coordinate",
        "the largest change of a weight since the start; the support is marked",
        tuple(names[place] for place in support),
    )
    yield Numbers(
        "Largest movement",
        {"on the support": float(moved[on].max()), "elsewhere": float(moved[~on].max(initial=0.0))},
        "hidden progress: it grows while the error shows nothing",
    )


@view("fourier", task=AbstractParity)
def fourier(look: Look) -> Iterator[Panel]:
    """Fourier coefficients of a network on a parity: at the support, at its subsets, and the largest elsewhere."""
    task = look.task
    assert isinstance(task, AbstractParity)
    x = _signs(task.n)
    values = np.asarray(_predict(look.model, look.params, x))
    if values.ndim != 1:
        return
    support = sorted(int(place) for place in np.asarray(task.support))
    sizes = range(1, task.k + 1) if task.k <= MOST_SUBSETS else (1, task.k)
    shown = [one for size in sizes for one in itertools.combinations(support, size)]
    exact = task.n <= EXACT_BITS
    if exact:
        spectrum = fourier_coefficients(values)
        found = {one: float(spectrum[_mask(one)]) for one in shown}
        elsewhere = np.delete(np.abs(spectrum), [0, *map(_mask, shown)])
        rest, words = float(elsewhere.max(initial=0.0)), "exactly, over all inputs"
    else:
        signs = np.asarray(x)
        found = {one: float(np.mean(values * signs[:, one].prod(axis=1))) for one in shown}
        off = np.setdiff1d(np.arange(task.n), support)
        rest = float(np.abs(values @ signs[:, off] / len(signs)).max(initial=0.0))
        words = f"over {SAMPLED:,} random inputs"
    last = "largest of all other sets" if exact else "largest of single others"
    yield Bars(
        "Fourier coefficients",
        {_set(one): found[one] for one in shown} | {last: rest},
        "set of coordinates",
        f"f̂(T) = E f(x) ∏ x_i over T, {words}; the parity is marked",
        (_set(tuple(support)),),
    )
    if exact:
        squares, degree = spectrum**2, np.bitwise_count(np.arange(2**task.n))
        weight = np.bincount(degree, squares, task.n + 1) / max(float(squares.sum()), 1e-30)
        yield Bars(
            "Weight by degree",
            {str(number): float(share) for number, share in enumerate(weight)},
            "degree",
            "share of E f² at sets of each size; the parity's is marked",
            (str(task.k),),
        )


@functools.lru_cache(maxsize=8)
def _signs(n: int) -> np.ndarray:
    """All inputs in the order of `fourier_coefficients`, or random ones, always the same."""
    if n <= EXACT_BITS:
        bits = (np.arange(2**n)[:, None] >> np.arange(n)[None, :]) & 1
    else:
        bits = np.random.default_rng(0).integers(0, 2, (SAMPLED, n))
    return (1 - 2 * bits).astype(np.float32)


def _mask(members: Iterable[int]) -> int:
    return sum(1 << place for place in members)


def _set(members: tuple[int, ...]) -> str:
    return "{" + ", ".join(str(place + 1) for place in members) + "}"


# --- pair networks on groups ----------------------------------------------------------------------------------


@view("spectra", task=GroupComposition, model=PairNetwork)
def spectra(look: Look) -> Iterator[Panel]:
    """How neurons of a network on a group become one frequency, or one irreducible representation, each (Fig 7.4)."""
    task = look.task
    assert isinstance(task, GroupComposition)
    group = task.group()
    network, ended = (arrays_of(look.model, weights) for weights in (look.params, look.final))
    assert isinstance(network, PairArrays) and isinstance(ended, PairArrays)
    if not (np.any(network.neurons) and np.any(ended.neurons)):
        return
    now, last = network_spectrum(network, group), network_spectrum(ended, group)
    part = "frequency" if cyclic_order(group) is not None else "irrep"
    order = np.lexsort((-last.weights, last.part))
    powers = now.powers.sum(axis=0)
    powers = powers / np.maximum(powers.sum(axis=1, keepdims=True), 1e-30)
    yield HeatMap(
        f"Power of neurons by {part}",
        powers[order].T[now.first :],
        part,
        "neuron",
        f"share of a neuron's power in each {part}; neurons sorted by the {part} and the norm that they end with",
        root=True,
    )
    shares = now.shares()
    yield Bars(
        f"Share of each {part}",
        {name.removeprefix(f"{part} "): share for name, share in shares.items()},
        part,
        "of Σ‖ω‖^ν, each neuron counted where most of its power is",
    )
    yield Lines(
        "The largest neuron",
        {name.lower(): getattr(network, name)[int(np.argmax(last.weights))] for name in ("U", "V", "W")},
        "element",
        "its weights u, v and w for every element, of the neuron that ends largest",
    )
    yield Numbers("Structure of neurons", _structure(now), "1 where every neuron lies in one part")
    margin = normalised_margin(network, group)
    yield Numbers("Normalised margin", {"margin": margin}, "the smallest margin over all inputs, by the norm's power")


def _structure(spectrum: Spectrum) -> dict[str, float]:
    u, v, w = (float(value) for value in spectrum.mean_largest)
    return {"largest power of u": u, "of v": v, "of w": w, "agreement of u, v, w": spectrum.agreement}


# --- networks that learn Markov chains in context -------------------------------------------------------------


@view("attention", task=MarkovChains, model=CausalTransformer)
def attention(look: Look) -> Iterator[Panel]:
    """Attention maps of every layer and head on one sequence, and the effective positional encoding (Figs 8.2, 8.3)."""
    model, task = look.model, look.task
    assert isinstance(model, CausalTransformer) and isinstance(task, MarkovChains)
    tokens = np.asarray(look.examples.x[:1])
    weights = np.asarray(_attention(model, look.params, tokens))[:, 0]
    for layer, head in np.ndindex(*weights.shape[:2]):
        yield HeatMap(
            _named("Attention", model, layer, head),
            weights[layer, head],
            "position",
            "looks at",
            "one sequence, always the same; each row adds up to 1, and colours follow the square root",
            root=True,
        )
    follows = np.flatnonzero(tokens[0, :-1] == tokens[0, -1]) + 1
    last = weights[-1, :, -1].mean(axis=0)
    yield Bars(
        "Where the last position looks",
        {str(place + 1): float(share) for place, share in enumerate(last)},
        "position",
        f"layer {model.layers}; marked are the successors of the present symbol, on which an induction head looks",
        tuple(str(place + 1) for place in follows),
    )
    if model.positions == "relative":
        encoding = np.asarray(_positional(model, look.params)[0]).mean(axis=(0, 1))[:OFFSETS]
        yield _offsets("Effective positional encoding", encoding, "of layer 1, averaged over symbols")
    scores = {}
    if model.layers >= 2:
        back = np.mean(np.diagonal(weights[0], offset=-1, axis1=-2, axis2=-1), axis=-1).max()
        scores = {
            "previous token, layer 1": float(back),
            "induction, layer 2": float(weights[1][:, -1, follows].sum(axis=1).max()),
        }
        yield Numbers("Heads", scores, "attention to the token before, and of the last position to successors")


@view("minimal-induction", task=MarkovChains, model=MinimalInduction)
def minimal_induction(look: Look) -> Iterator[Panel]:
    """The matrix and the vector of the minimal model (Fig 8.3)."""
    W, v = (np.asarray(look.params[name], np.float64) for name in ("W", "v"))
    yield HeatMap(
        "Second layer W", W, "present symbol", "symbol found", "an induction head has a diagonal", signed=True
    )
    yield _offsets("First layer v", v[:OFFSETS], "how far back it looks")
    off = W[~np.eye(len(W), dtype=bool)].mean()
    yield Numbers(
        "Mean of W", {"diagonal": float(np.diag(W).mean()), "elsewhere": float(off)}, "the second layer aligns first"
    )


def _offsets(name: str, values: np.ndarray, about: str) -> Bars:
    """Numbers by how far back they look: 0 is the token itself, 1 the one before."""
    words = f"{about}; 1 is the token before, which an induction head needs; the scale follows the moment"
    return Bars(
        name, {str(back): float(value) for back, value in enumerate(values)}, "tokens back", words, ("1",), free=True
    )


def _named(what: str, model: CausalTransformer, layer: int, head: int) -> str:
    return f"{what}, layer {layer + 1}" + (f", head {head + 1}" if model.heads > 1 else "")


_attention = jax.jit(lambda model, params, x: model.attention(params, x))
_positional = jax.jit(lambda model, params: model.positional(params))
