"""Proposition 4.12: attention and ReLUs represent every sparse Boolean function, with norms that hardly grow with T.

Every construction of the proofs is executed on all 2^T inputs and held beside an oracle; its norms are measured against
the length T of the context and the number s of relevant bits. ‖W_Q‖ grows as log T, everything else stays; of the
ReLUs, norms grow polynomially in s for symmetric functions, as 2^{s/2} poly(s) for all others.
"""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import polars as pl

from krogh.errors import require, require_integer, unknown
from krogh.experiments.attention.construction_figures import SOURCE, errors_figure, length_figure, size_figure
from krogh.experiments.attention.construction_tables import (
    ATTENTION,
    ERRORS,
    MEMORISED,
    NORMS,
    RELUS,
    Settings,
    function_rows,
    growth_rates,
    growth_rows,
    head_rows,
    long_rows,
    memoriser_rows,
    other_rows,
)
from krogh.experiments.theorems import Demonstration, Tables, exact, largest, require_increasing, slope
from krogh.lab import Claim, Figure, claim, experiment
from krogh.theory.constructions.sparse_functions import EXACT
from krogh.theory.constructions.sparse_heads import KINDS, Mode
from krogh.theory.predictions.inputs import check_open, check_variant

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


@experiment("attention/constructions")
class Constructions(Demonstration[Settings]):
    """Every construction executed, and its norms against T and s."""

    title = "One attention layer represents every sparse function, with norms of order log T"
    question = "Do the weights written down in the proofs compute what they promise, and how large are they?"
    source = SOURCE
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
        for head in settings.heads:
            if head not in KINDS:
                raise unknown("head", head, KINDS)
        require(settings.heads and len(set(settings.heads)) == len(settings.heads), "heads must be named once each")
        require_increasing("sizes", settings.sizes, 1)
        require_increasing("lengths", settings.lengths, settings.sizes[-1])
        require_integer("the longest of lengths", settings.lengths[-1], 1, 16)
        require_increasing("long", settings.long, settings.s, 2)
        outside = sorted(set(settings.sampled) - set(settings.long))
        require(not outside, f"sampled must be among long={settings.long}; got {outside} beside them")
        require_increasing("growth", settings.growth, 1, 4)
        require_integer("the largest of growth", settings.growth[-1], 4, 10)
        require_integer("tables", settings.tables, 0)
        modes = get_args(Mode)
        require(settings.mode in modes, f"mode must be one of {', '.join(modes)}; got mode={settings.mode!r}")
        check_variant(settings.variant)  # type: ignore[arg-type]
        check_open("strength", settings.strength, 0)

    def measure(self, settings: Settings) -> Tables:
        rows = [*head_rows(settings), *function_rows(settings), *memoriser_rows(settings), *other_rows(settings)]
        return {
            "errors": pl.DataFrame(rows, schema=ERRORS, orient="row"),
            "long": pl.DataFrame(long_rows(settings), schema=NORMS, orient="row"),
            "growth": pl.DataFrame(growth_rows(settings), schema=NORMS, orient="row"),
        }

    def judge(self, settings: Settings, tables: Tables) -> list[Claim]:
        return [*_exactness(tables["errors"]), *_length_claims(settings, tables["long"]), *_size_claims(tables)]

    def draw(self, settings: Settings, tables: Tables) -> list[Figure]:
        return [errors_figure(tables["errors"]), length_figure(settings, tables["long"]), size_figure(tables)]


def _exactness(errors: pl.DataFrame) -> list[Claim]:
    """One claim for each construction that was executed."""
    found = []
    for construction in dict.fromkeys(errors["construction"]):
        own = errors.filter(pl.col("construction") == construction)
        executed = own.drop_nulls("length")
        over = f" (T = {_listed(executed['length'])}, s = {_listed(executed['s'])})" if len(executed) else ""
        name = construction.replace("_", "-")
        shared: dict[str, Any] = {"trials": int(own["inputs"].sum())}
        if construction in LEMMAS:
            what, lemma = LEMMAS[construction]
            found.append(
                claim(
                    f"head-{name}",
                    f"{what}, within γ/4 on every input{over}.",
                    source=f"dissertation, {lemma}",
                    statistic="largest error / (γ/4)",
                    interval=exact(largest(own["error"] / own["allowed"])),
                    at_most=1.0,
                    source_value="≤ 1",
                    **shared,
                )
            )
        else:
            what, lemma, bound = EXACTLY[construction]
            found.append(
                claim(
                    f"exact-{name}",
                    f"{what}{over}.",
                    source=f"dissertation, {lemma}",
                    statistic="largest error, of the largest value",
                    interval=exact(largest(own["error"])),
                    at_most=bound,
                    source_value="exact",
                    **shared,
                )
            )
    return found


def _listed(values: pl.Series) -> str:
    return ", ".join(str(value) for value in sorted(set(values)))


def _length_claims(settings: Settings, table: pl.DataFrame) -> list[Claim]:
    lengths = sorted(set(table["length"]))
    over = f"T = {lengths[0]} to {lengths[-1]}, s = {settings.s}"
    wide: dict[str, Any] = {
        "enough": len(lengths) >= 4 and lengths[-1] >= 64 * lengths[0],
        "too_small": f"{len(lengths)} lengths up to {lengths[-1]}; a law of T needs four, over a factor of 64",
        "trials": len(table),
    }
    slopes = [
        slope(np.log(own["length"]), own["norm"])
        for _, own in table.filter(pl.col("weight") == "Q").group_by("head", maintain_order=True)
    ]
    others = [
        largest(own["norm"]) / float(own["norm"].min())  # type: ignore[arg-type]
        for _, own in table.filter(pl.col("weight") != "Q").group_by("head", "weight", maintain_order=True)
    ]
    executed = table.drop_nulls("error")
    longest = max(executed["length"], default=0)
    return [
        claim(
            "query-norm-log",
            f"‖W_Q‖_F grows by 1 for every factor of e in T, in all {len(slopes)} constructions ({over}).",
            source="dissertation, Prop. 4.12",
            statistic="largest |slope of ‖W_Q‖_F on ln T - 1|",
            interval=exact(largest(np.abs(np.array(slopes) - 1))),
            at_most=1e-9,
            source_value="O(log(Ts))",
            **wide,
        ),
        claim(
            "other-norms-constant",
            f"No other norm of attention or ReLUs depends on T ({over}).",
            source="dissertation, Prop. 4.12",
            statistic="largest (norm at one length / norm at another - 1)",
            interval=exact(largest(others) - 1),
            at_most=1e-9,
            source_value="O(s), poly(s), 2^s poly(s)",
            **wide,
        ),
        claim(
            "norms-as-predicted",
            f"All norms are those of the proofs to the last digit ({over}).",
            source="dissertation, Lemmas A.19 to A.25",
            statistic="largest |norm / predicted - 1|",
            interval=exact(largest(np.abs(table["norm"] / table["predicted"] - 1))),
            at_most=1e-9,
            trials=len(table),
        ),
        claim(
            "exact-in-long-contexts",
            f"Long contexts are represented as exactly, on sampled inputs (T up to {longest}, s = {settings.s}).",
            source="dissertation, Prop. 4.12",
            statistic="largest error",
            interval=exact(largest(executed["error"]) if len(executed) else math.nan),
            at_most=EXACT,
            source_value="exact",
            trials=len(executed) // len({**ATTENTION, **RELUS}),
        ),
    ]


def _size_claims(tables: Tables) -> list[Claim]:
    table = tables["growth"]
    rates, sizes = growth_rates(table), sorted(set(table["s"]) - {1})
    found = []
    for vector, name, expected, law, stated in (
        (False, "symmetric", 0.0, "a power of s", "poly(s)"),
        (True, "general", 0.5, "2^(s/2) times a power of s", "2^s poly(s)"),
    ):
        own = rates.filter(pl.col("general") == vector)
        if not len(own):
            continue
        powers = f"{float(own['power'].min()):.1f} to {float(own['power'].max()):.1f}"  # type: ignore[arg-type]
        found.append(
            claim(
                f"{name}-norms",
                f"For {name} functions the norms of ReLUs grow as {law} (fitted powers "
                f"{powers}), s = {sizes[0]} to {sizes[-1]}.",
                source="dissertation, Prop. 4.12",
                statistic=f"largest |b - {expected:g}| of log2 ‖·‖_F = a + b s + c log2 s",
                interval=exact(largest((own["rate"] - expected).abs())),
                at_most=RATE,
                source_value=f"{stated}, as an upper bound",
                trials=len(table.filter(pl.col("head").is_in(own["head"].to_list()))),
                enough=len(sizes) >= 6,
                too_small=f"{len(sizes)} values of s; a rate beside a power needs six",
            )
        )
    return found
