"""Proposition 4.12: attention and ReLUs represent every sparse Boolean function, with norms that hardly grow with T.

Every construction of the proofs is executed on all 2^T inputs and held beside an oracle; its norms are measured against
the length T of the context and the number s of relevant bits. ‖W_Q‖ grows as log T, everything else stays; of the
ReLUs, norms grow polynomially in s for symmetric functions, as 2^{s/2} poly(s) for all others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import polars as pl

from krogh.errors import require
from krogh.experiments.attention.common import law_needs, some_of
from krogh.lab import Claims, Experiment, Figure, Results, Tables, experiment, figures, groups, need, setting
from krogh.lab.estimate import largest
from krogh.lab.experiment import Measures
from krogh.lab.fits import line_slope
from krogh.networks.handmade import Construction
from krogh.networks.memoriser import memoriser
from krogh.networks.sparse_functions import EXACT, averaging, categorical_function, general, head_alone, symmetric
from krogh.networks.sparse_functions import norms as frobenius_norms
from krogh.networks.sparse_heads import KINDS, HeadOptions, Mode, sparse_head
from krogh.theory.attention.limits import construction_norms
from krogh.theory.prediction import Variant

ATTENTION = {"Q": "query", "K": "key", "V": "value", "C": "output"}
RELUS = {"W1": "first", "W2": "second", "w": "readout"}
MEMORISED = 1e-12
LEMMAS = {
    "det_single": ("Fixed positions, one head: the mean of the relevant signs", "Lemma A.19"),
    "det_multi": ("Fixed positions, s heads: the relevant signs", "Lemma A.19 (value repaired)"),
    "train_single": ("Chosen positions, one head: the mean of the relevant signs", "Lemma A.20"),
    "train_multi": ("Chosen positions, s heads: the relevant signs", "Lemma A.20"),
    "bag_scalar": ("A bag of vectors, one head: (r-s)/(r+1)", "Lemma A.21"),
    "bag_vector": ("A bag of vectors, one head: (b_i-1)/(r+1) for each relevant bit", "Lemma A.21"),
}
EXACTLY = {
    "symmetric": ("One head and ReLUs compute every symmetric function", "Lemma A.22 (δ repaired)", EXACT),
    "general": ("Attention and ReLUs compute every function", "Lemma A.23 (δ repaired)", EXACT),
    "memoriser": ("The ReLUs repeat a value anywhere within δ of its point", "Lemma A.25 (bump repaired)", MEMORISED),
    "averaging": ("Attention with W_Q = W_K = 0 averages the whole context", "section 4.5", EXACT),
    "categorical": (
        "Attention and ReLUs compute a function of tokens of three kinds",
        "section A.2.4, a sketch",
        EXACT,
    ),
}
RATE = 0.1
"""How far a fitted rate of exponential growth, in powers of 2 per bit, may be from the theorem's: lower-order terms."""
LAWS = {
    False: ("symmetric", 0.0, "a power of s", "poly(s)"),
    True: ("general", 0.5, "2^(s/2) times a power of s", "2^s poly(s)"),
}
"""How norms of ReLUs grow where the head puts out one number, or one for each bit: functions, rate, law, as stated."""
HEAD = {"head": pl.String, "length": pl.Int64, "s": pl.Int64}
ERRORS = {"construction": pl.String, **HEAD, "inputs": pl.Int64, "error": pl.Float64, "allowed": pl.Float64}
NORMS = {**HEAD, "weight": pl.String, "norm": pl.Float64, "predicted": pl.Float64, "error": pl.Float64}
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Settings:
    heads: tuple[str, ...] = setting(
        tuple(KINDS), "attention heads, by the names of the construction sparse/head", distinct=True, among=KINDS
    )
    lengths: tuple[int, ...] = setting(
        (5, 8, 12), "contexts T of which all 2^T inputs are executed", increasing=True, most=16
    )
    sizes: tuple[int, ...] = setting((1, 2, 3, 4), "numbers s of relevant bits", increasing=True, least=1)
    tables: int = setting(20, "random functions per head, T and s, beside all functions of two bits", least=0)
    long: tuple[int, ...] = setting(
        tuple(2**p for p in range(3, 13)), "contexts T whose norms are measured", increasing=True, fewest=2
    )
    sampled: tuple[int, ...] = setting(
        (64, 4096), "those of the long contexts that are executed, on sampled inputs", distinct=True, fewest=0
    )
    s: int = setting(3, "relevant bits in long contexts", least=1)
    growth: tuple[int, ...] = setting(
        (1, 2, 3, 4, 5, 6, 7, 8),
        "numbers s for which the norms of ReLUs are measured",
        increasing=True,
        fewest=4,
        least=1,
        most=10,
    )
    mode: str = setting("dual", "keys: dual, or printed as in the source", among=get_args(Mode))
    variant: str = setting("repaired", "ReLUs: repaired, or printed as in the source", among=get_args(Variant))
    strength: float = setting(1.0, "R as a multiple of the lemma's", above=0)


@experiment("attention/constructions")
class Constructions(Experiment[Settings]):
    """Every construction executed, and its norms against T and s."""

    title = "One attention layer represents every sparse function, with norms of order log T"
    question = "Do the weights written down in the proofs compute what they promise, and how large are they?"
    source = "dissertation, Prop. 4.12, Lemmas A.19 to A.25"
    scales = {
        "smoke": Settings(
            heads=("train_single", "bag_vector"),
            lengths=(5,),
            sizes=(2,),
            tables=2,
            long=(8, 32),
            sampled=(32,),
            growth=(1, 2, 3, 4),
        ),
        "laptop": Settings(lengths=(8, 12), tables=5, long=tuple(2**p for p in range(3, 11)), sampled=(64,)),
        "paper": Settings(),
    }
    notes = (
        "Repairs of the source: the values of s heads on fixed positions have e_1 where e_2 is printed, the bump of "
        "the memoriser has another sign pattern, and ReLUs repeat values within γ/4 of a point where γ/8 is printed.",
        "The head that averages signs decreases in the number of ones, although the source calls it monotone.",
        "Up to 16 positions every input is executed; in longer contexts, all settings of the relevant bits with "
        "all others 0, all 1, and 62 random fillings.",
    )

    def check(self, settings: Settings) -> None:
        for name, least in (("lengths", settings.sizes[-1]), ("long", settings.s)):
            lengths = getattr(settings, name)
            require(lengths[0] >= least, f"{name} must be at least s={least}; got {name}={lengths}")
        outside = sorted(set(settings.sampled) - set(settings.long))
        require(not outside, f"sampled must be among long={settings.long}; got {outside} beside them")

    def measure(self, results: Results[Settings]) -> Measures:
        """Errors on all inputs; norms, and some errors, in long contexts; norms of the ReLUs against s."""
        settings, executed = results.settings, (head_rows, function_rows, memoriser_rows, other_rows)
        return {
            "errors": lambda: pl.DataFrame(
                [row for rows in executed for row in rows(settings)], schema=ERRORS, orient="row"
            ),
            "long": lambda: pl.DataFrame(long_rows(settings), schema=NORMS, orient="row"),
            "growth": lambda: pl.DataFrame(growth_rows(settings), schema=NORMS, orient="row"),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        for construction, own in groups(tables["errors"], "construction").items():
            executed = own.drop_nulls("length")
            over = f" (T = {_listed(executed['length'])}, s = {_listed(executed['s'])})" if len(executed) else ""
            name, inputs = construction.replace("_", "-"), int(own["inputs"].sum())
            if construction in LEMMAS:
                what, lemma = LEMMAS[construction]
                say(
                    f"head-{name}",
                    f"{what}, within γ/4 on every input{over}.",
                    largest(own["error"] / own["allowed"], trials=inputs),
                    "largest error / (γ/4)",
                    at_most=1.0,
                    source=f"dissertation, {lemma}",
                    source_value="≤ 1",
                )
            else:
                what, lemma, bound = EXACTLY[construction]
                say(
                    f"exact-{name}",
                    f"{what}{over}.",
                    largest(own["error"], trials=inputs),
                    "largest error, of the largest value",
                    at_most=bound,
                    source=f"dissertation, {lemma}",
                    source_value="exact",
                )
        proposition = say.about(source="dissertation, Prop. 4.12")
        self._claim_lengths(tables, proposition)
        self._claim_sizes(tables["growth"], proposition)

    def _claim_lengths(self, tables: Tables[Settings], say: Claims) -> None:
        table, s = tables["long"], tables.settings.s
        lengths = sorted(set(table["length"]))
        over, wide = f"T = {lengths[0]} to {lengths[-1]}, s = {s}", law_needs(lengths, 64)
        query, others = table.filter(weight="Q"), table.filter(pl.col("weight") != "Q")
        slopes = [line_slope(np.log(own["length"]), own["norm"]) for own in groups(query, "head").values()]
        say(
            "query-norm-log",
            f"‖W_Q‖_F grows by 1 for every factor of e in T, in all {len(slopes)} constructions ({over}).",
            largest(np.abs(np.array(slopes) - 1), trials=len(query)),
            "largest |slope of ‖W_Q‖_F on ln T - 1|",
            at_most=1e-9,
            source_value="O(log(Ts))",
            needs=wide,
        )
        ends = others.group_by("head", "weight").agg(least=pl.col("norm").min(), most=pl.col("norm").max())
        say(
            "other-norms-constant",
            f"No other norm of attention or ReLUs depends on T ({over}).",
            largest(ends["most"] / ends["least"] - 1, trials=len(others)),
            "largest (norm at one length / norm at another - 1)",
            at_most=1e-9,
            source_value="O(s), poly(s), 2^s poly(s)",
            needs=wide,
        )
        say(
            "norms-as-predicted",
            f"All norms are those of the proofs to the last digit ({over}).",
            largest((table["norm"] / table["predicted"] - 1).abs()),
            "largest |norm / predicted - 1|",
            at_most=1e-9,
            source="dissertation, Lemmas A.19 to A.25",
        )
        executed = table.drop_nulls("error").unique(["head", "length"])
        say(
            "exact-in-long-contexts",
            "Long contexts are represented as exactly, on sampled inputs (T up to "
            f"{max(executed['length'], default=0)}, s = {s}).",
            largest(executed["error"]),
            "largest error",
            at_most=EXACT,
            source_value="exact",
        )

    def _claim_sizes(self, table: pl.DataFrame, say: Claims) -> None:
        sizes = sorted(set(table["s"]) - {1})
        for vector, own in groups(growth_rates(table), "general").items():
            name, expected, law, stated = LAWS[vector]
            fitted = table.filter(pl.col("head").is_in(own["head"].to_list()), pl.col("s").is_in(sizes))
            say(
                f"{name}-norms",
                f"For {name} functions the norms of ReLUs grow as {law} (fitted powers {_ends(own['power'], 1)}), "
                f"s = {sizes[0]} to {sizes[-1]}.",
                largest((own["rate"] - expected).abs(), trials=len(fitted)),
                f"largest |b - {expected:g}| of log2 ‖·‖_F = a + b s + c log2 s",
                at_most=RATE,
                source_value=f"{stated}, as an upper bound",
                needs=[need(len(sizes), 6, "values of s")],
            )

    def figures(self, tables: Tables[Settings]) -> Iterable[Figure]:
        yield self._errors(tables["errors"])
        yield self._lengths(tables)
        yield self._sizes(tables["growth"])

    def _errors(self, errors: pl.DataFrame) -> Figure:
        chart = self.chart(
            "errors",
            "Error of every construction beside what its lemma allows",
            headline="What the constructions miss by, and what their lemmas allow",
            width=6.6,
        )
        panel, by_name = chart.panel(x="largest error over all inputs"), groups(errors, "construction")
        for place, own in enumerate(by_name.values()):
            shift = np.linspace(-0.22, 0.22, len(own)) if len(own) > 1 else np.zeros(1)
            drawn = np.maximum(own["error"].to_numpy(), 1e-17)
            dots: dict[str, Any] = {"color": figures.BLUE, "markersize": 3.2, "markeredgewidth": 0, "alpha": 1.0}
            panel.dots(drawn, place + shift, "found" if place == 0 else "", **dots)
            for allowed in sorted(set(own["allowed"])):
                panel.ax.plot([allowed] * 2, [place - 0.36, place + 0.36], color=figures.VERMILLION, linewidth=1.3)
        panel.ax.plot([], [], color=figures.VERMILLION, linewidth=1.3, label="allowed")
        panel.ax.set_yticks(range(len(by_name)), list(by_name))
        panel.ax.invert_yaxis()
        panel.axes(log="x")
        panel.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return chart.figure(
            f"{int(errors['inputs'].sum()):,} inputs were executed; a point is one head, T and s. "
            "The first heads may miss their target by γ/4, which depends on s; everything else is exact up to rounding."
            " Errors of 0 are drawn at 10⁻¹⁷.",
            errors,
        )

    def _lengths(self, tables: Tables[Settings]) -> Figure:
        table = tables["long"]
        chart = self.chart(
            "norms-against-length",
            "Norms against the length of the context",
            headline="Only the query grows with the context, as its logarithm",
            columns=2,
            width=8.4,
        )
        left = chart.panel(title="the query: slope 1 in ln T", y="‖W_Q‖_F")
        for heads, own in _alike(table.filter(weight="Q")).items():
            color = left.color()
            left.dots(own["length"], own["norm"], color=color, markersize=4, alpha=1.0)
            left.line(own["length"], own["predicted"], "\n".join(heads), color=color, style="-", width=1)
        right = chart.panel(title="all others: constant", y="‖·‖_F, a line for each value that occurs")
        for weight, marker in (("K", "o"), ("V", "s"), ("C", "^")):
            color = right.color()
            for place, own in enumerate(_alike(table.filter(weight=weight)).values()):
                label = "" if place else f"‖W_{weight}‖_F"
                look: Any = {"style": "-", "width": 0.8, "marker": marker, "markersize": 3.5}
                right.line(own["length"], own["norm"], label, color=color, key="legend", **look)
        lengths = sorted(set(table["length"]))
        for panel in chart:
            panel.axes(x="context length T", log="x", xticks=some_of(lengths), base=2)
        right.axes(ylim=(0, None)).legend(loc="lower right")
        return chart.figure(
            f"Frobenius norms of the weights (of each head, where there are several), s = {tables.settings.s}. Points "
            "are measured on the weights, lines are those of the proofs. Norms of the ReLUs do not depend on T either.",
            table,
        )

    def _sizes(self, table: pl.DataFrame) -> Figure:
        chart = self.chart(
            "norms-against-s",
            "Norms of the ReLUs against the number of relevant bits",
            headline="ReLUs of symmetric functions stay small, those of arbitrary ones grow as 2^(s/2)",
            columns=2,
            width=9.6,
            height=4.2,
            sharey=True,
        )
        ends = []
        for vector, words in ((False, "symmetric functions"), (True, "arbitrary functions")):
            panel = chart.panel(x="relevant bits s", title=words)
            kind = [head for head in dict.fromkeys(table["head"]) if KINDS[head].vector == vector]
            own_kind = table.filter(pl.col("head").is_in(kind))
            for weight, marker in (("W1", "o"), ("W2", "s"), ("w", "^")):
                for heads, own in _alike(own_kind.filter(weight=weight)).items():
                    color = figures.PALETTE[kind.index(heads[0]) % len(figures.PALETTE)]
                    text = f"{weight}, {'all' if len(heads) == len(kind) else ' '.join(heads)}"
                    look: Any = {"style": "-", "width": 1.2, "marker": marker, "markersize": 4}
                    panel.line(own["s"], own["norm"], text, color=color, **look)
            panel.axes(log="y")
            if kind:
                ends.append(f"{_ends(growth_rates(own_kind)['rate'], 2)} for {words}")
        chart[0].axes(y="‖·‖_F")
        return chart.figure(
            "Frobenius norms of the two hidden layers W_1, W_2 and the read-out w, for functions with values ±1. Heads "
            "that have the same points have the same ReLUs. Fitted rates b of log2 ‖·‖_F = a + b s + c log2 s, s ≥ 2: "
            f"{', '.join(ends)}.",
            table,
        )


def _support(length: int, s: int) -> tuple[int, ...]:
    """s positions spread over the context, not in order: which they are must make no difference."""
    places = tuple(int(place) for place in np.linspace(length - 1, 0, s).round())
    return places if s > 1 else (length // 2,)


def _strength(settings: Settings, head: Any, length: int, support: tuple[int, ...]) -> float | None:
    """R, where it is not the lemma's own."""
    if settings.strength == 1:
        return None
    return settings.strength * sparse_head(head, length, support, HeadOptions(mode=settings.mode)).strength  # type: ignore[arg-type]


def head_rows(settings: Settings) -> Iterator[Row]:
    """The largest deviation of attention alone from its target, and γ/4."""
    for head, length, s in itertools.product(settings.heads, settings.lengths, settings.sizes):
        support: Any = _support(length, s)
        strength = _strength(settings, head, length, support)
        network = head_alone(length, support=support, head=head, mode=settings.mode, strength=strength)
        checked = network.check()
        yield head, head, length, s, checked.inputs, checked.largest_error, network.tolerance


def function_rows(settings: Settings) -> Iterator[Row]:
    """Attention followed by ReLUs: the largest error over functions, of the largest value of each."""
    for head, length, s in itertools.product(settings.heads, settings.lengths, settings.sizes):
        vector = KINDS[head].vector
        inputs, errors = 0, []
        for values in _functions(settings, 2**s if vector else s + 1, s):
            network = _representation(settings, head, length, _support(length, s), values)
            checked = network.check()
            inputs += checked.inputs
            errors.append(checked.largest_error * EXACT / network.tolerance)
        yield "general" if vector else "symmetric", head, length, s, inputs, np.max(errors), EXACT


def _functions(settings: Settings, count: int, s: int) -> list[tuple[float, ...]]:
    """Values of functions: of two bits all that are 0 or 1, and random real ones of any s."""
    random = np.random.default_rng([count, s])
    drawn = [tuple(row) for row in random.normal(size=(max(settings.tables, 1), count)).tolist()]
    return [*itertools.product((0.0, 1.0), repeat=count), *drawn] if s == 2 else drawn


def _representation(
    settings: Settings, head: Any, length: int, support: tuple[int, ...], values: tuple[float, ...]
) -> Construction:
    strength = _strength(settings, head, length, support)
    common: Any = {"support": support, "head": head, "strength": strength}
    common |= {"mode": settings.mode, "variant": settings.variant}
    return general(length, table=values, **common) if KINDS[head].vector else symmetric(length, values=values, **common)


def memoriser_rows(settings: Settings) -> Iterator[Row]:
    """Random points on a grid of width 4δ, and what is repeated anywhere within δ of them, corners included."""
    delta = 0.2
    for dimension, layers in ((1, 2), (1, 3), (2, 3), (3, 3)):
        random = np.random.default_rng([dimension, layers])
        grid = np.array(list(itertools.product(np.arange(-2.0, 2.1), repeat=dimension)))
        points = 4 * delta * random.permutation(grid)[:12]
        values = random.normal(size=len(points))
        network = memoriser(points, values, delta, layers, settings.variant)  # type: ignore[arg-type]
        corners = np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=dimension)))
        moves = np.concatenate([corners, random.uniform(-1, 1, (200, dimension))]) * delta * (1 - 1e-12)
        near = (points[:, None] + moves[None]).reshape(-1, dimension)
        errors = np.abs(network(near) - np.repeat(values, len(moves)))
        yield "memoriser", f"{layers} layers", None, dimension, len(near), errors.max(), MEMORISED


def other_rows(settings: Settings) -> Iterator[Row]:
    """The head that averages everything, and functions of tokens of three kinds."""
    length = settings.lengths[0]
    checked = averaging(length).check()
    yield "averaging", "averaging", length, length, checked.inputs, checked.largest_error, EXACT
    values = np.random.default_rng(3).normal(size=(3, 3))
    function = categorical_function(length, 3, values, support=_support(length, 2))
    words = np.array(list(itertools.product(range(3), repeat=min(length, 8))))
    words = np.pad(words, ((0, 0), (0, length - words.shape[1])))
    errors = np.abs(function(words) - values[tuple(words[:, list(function.support)].T)])
    yield "categorical", "categorical", length, 2, len(words), errors.max(), EXACT


def _predicted(head: str, length: int, s: int) -> dict[str, float]:
    """The norms of Proposition 4.12's proof, by the weight's name; w is bounded by functions of size 1."""
    kind: Any = "general" if KINDS[head].vector else "symmetric"
    by_name: Any = construction_norms(length, s, KINDS[head].mapping, kind)
    return {weight: float(by_name[name]) for weight, name in {**ATTENTION, **RELUS}.items()}


def long_rows(settings: Settings) -> Iterator[Row]:
    """Norms of a random ±1 function's representation in contexts of growing length, some of them executed."""
    for head, length in itertools.product(settings.heads, settings.long):
        network = _representation(settings, head, length, _support(length, settings.s), _labels(head, settings.s))
        error = network.check().largest_error if length in settings.sampled else None
        sizes = frobenius_norms(network.parameters)
        for name, predicted in _predicted(head, length, settings.s).items():
            yield head, length, settings.s, name, sizes[name], predicted, error


def _labels(head: str, s: int) -> tuple[float, ...]:
    """A function with the values -1 and 1 only, so that ‖w‖ is what the proof bounds it by."""
    count = 2**s if KINDS[head].vector else s + 1
    return tuple(np.random.default_rng([7, count]).choice([-1.0, 1.0], size=count).tolist())


def growth_rows(settings: Settings) -> Iterator[Row]:
    """Norms of the ReLUs against s: those of the memoriser of the head's points, whatever T."""
    for head, s in itertools.product(settings.heads, settings.growth):
        points = sparse_head(head, s, tuple(range(s)))  # type: ignore[arg-type]
        sizes = frobenius_norms(memoriser(points.points(), np.asarray(_labels(head, s)), points.gamma / 4).parameters)
        predicted = _predicted(head, s, s)
        yield from ((head, s, s, name, sizes[name], predicted[name], None) for name in RELUS)


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


def _listed(values: pl.Series) -> str:
    return ", ".join(str(value) for value in sorted(set(values)))


def _ends(values: pl.Series, digits: int) -> str:
    numbers = values.to_numpy()
    return f"{numbers.min():.{digits}f} to {numbers.max():.{digits}f}"


def _alike(table: pl.DataFrame) -> dict[tuple[str, ...], pl.DataFrame]:
    """One curve for heads that have the same norms throughout, by their names."""
    names: dict[tuple[float, ...], list[str]] = {}
    by_head = groups(table, "head")
    for head, own in by_head.items():
        names.setdefault(tuple(own["norm"].round(9)), []).append(head)
    return {tuple(heads): by_head[heads[0]] for heads in names.values()}
