"""Sample sizes by the all-layer margin beside what other bounds ask for (Lemma 2.3, Theorems 3.1 and 4.1).

For compiled circuits and machines: the 1-norm α, the number of parameters p, the certified margin γ, and with them
n = (α² ln p/γ² + 1)/ε². Beside it stand bounds by the VC dimension, by products of operator norms, and what earlier
constructions of Turing machines ask for, at least linear in the running time T.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import require_integer
from krogh.experiments.approximation.bound_figures import circuits_figure, machines_figure, table_figure
from krogh.experiments.approximation.common import NO_EXPERIMENTS, check_choices, in_words
from krogh.experiments.theorems import Demonstration, Tables, exact, largest, require_increasing, slope
from krogh.lab import Claim, Figure, claim, experiment, setting
from krogh.tasks.circuits import (
    Circuit,
    LayeredCircuit,
    adder,
    and_ladder,
    comparator,
    majority,
    multiplier,
    parity_circuit,
    random_circuit,
)
from krogh.tasks.machines import library_names, load_machine
from krogh.theory.all_layer import certify_circuit, certify_machine, network_sizes
from krogh.theory.compilers.circuits import compile_circuit
from krogh.theory.compilers.machine_layout import bits_needed, reference_bits
from krogh.theory.compilers.machines import compile_machine
from krogh.theory.predictions.approximation import feedforward_vc, linear_time, n_SM, transformer_vc
from krogh.theory.predictions.inputs import check_open

SOURCE = "SM paper, Lemma 2.3, Theorems 3.1 and 4.1"
CIRCUITS: Mapping[str, Callable[[], Circuit | LayeredCircuit]] = {
    "parity of 16": lambda: parity_circuit(16),
    "adder of 8 bits": lambda: adder(8),
    "comparator of 8 bits": lambda: comparator(8),
    "majority of 15": lambda: majority(15),
    "multiplier of 4 bits": lambda: multiplier(4),
    "ladder, r = 6, q = 17": lambda: and_ladder(6, 17),
    "random, r = 9, q = 4": lambda: random_circuit(10, 9, 4, 0),
}
REFERENCE = {
    "margin": {4: 8.7e-5, 6: 5.3e-5, 8: 3.6e-5, 12: 2.1e-5, 16: 1.4e-5, 20: 1.0e-5},
    "palindrome": {4: 5334, 6: 7452, 8: 9986, 12: 16302, 16: 24282, 20: 33926},
    "counter": {4: 4839, 20: 32951},
    "widths": {4: 3.3e-3, 8: 2.4e-3, 16: 1.7e-3, 32: 1.2e-3, 64: 8.3e-4},
    "depth": 2.7e-3,
}
"""Computed beforehand: certificates by Theorem D.6 and ‖θ‖₁ of machines by log2 T, certificates of ladders by r."""
FIRST, LAST = 2**4, 2**16
"""Running times that are compared."""
INPUT_LENGTH = 6


@dataclass(frozen=True)
class Settings:
    machines: tuple[str, ...] = setting(("palindrome", "counter"), "machines of the library whose T grows")
    times: tuple[int, ...] = setting(tuple(2**k for k in (4, 6, 8, 10, 12, 14, 16, 18, 20)), "running times T")
    depths: tuple[int, ...] = setting((3, 5, 9, 17, 33), "layers q of AND-ladders of 6 gates a layer")
    widths: tuple[int, ...] = setting((4, 8, 16, 32, 64), "gates r in a layer of AND-ladders of 9 layers")
    circuits: tuple[str, ...] = setting(tuple(CIRCUITS), "circuits in the table")
    tabled: tuple[str, ...] = setting(("parity", "palindrome", "counter", "binary-addition"), "machines in the table")
    tabled_time: int = setting(1024, "their running time T")
    epsilon: float = setting(0.1, "error ε")


@experiment("approximation/bounds")
class Bounds(Demonstration[Settings]):
    """Norms, margins and sample sizes of compiled networks, beside other bounds."""

    title = "Samples by the all-layer margin grow with a power of log T, by other bounds with T or faster"
    question = "How do sample sizes of compiled circuits and machines grow with depth, width and running time?"
    source = SOURCE
    scales = {
        "smoke": Settings(times=(16, 256, 65536), depths=(3, 5, 9), widths=(4, 8, 16), circuits=("adder of 8 bits",)),
        "laptop": Settings(),
        "paper": Settings(),
    }
    notes = (
        NO_EXPERIMENTS,
        "Sample sizes are orders: leading constants are 1, and polylogarithms of what is under them are left out. "
        "They are astronomically large; only how they grow means something.",
        "Margins are bounds from below. n is computed with Theorem D.6, and with the same proof and the constants of "
        "each layer, which gives more.",
        "Machines have the number of position bits of the source's formula, ⌈log2(T + 4)⌉, where that is enough, and "
        f"are compiled for inputs of up to {INPUT_LENGTH} letters. Nothing is run.",
    )

    def check(self, settings: Settings) -> None:
        check_choices("machines", settings.machines, library_names())
        check_choices("tabled", settings.tabled, library_names(), fewest=0)
        check_choices("circuits", settings.circuits, tuple(CIRCUITS), fewest=0)
        require_increasing("times", settings.times, 1, 2)
        require_increasing("depths", settings.depths, 2, 3)
        require_increasing("widths", settings.widths, 2, 3)
        for time in (*settings.times, settings.tabled_time):
            require_integer("times", time, 1, 2**23)
        check_open("epsilon", settings.epsilon, 0)

    def measure(self, settings: Settings) -> Tables:
        eps = settings.epsilon
        ladders = [("depth", and_ladder(6, q)) for q in settings.depths]
        ladders += [("width", and_ladder(r, 9)) for r in settings.widths]
        tabled = [_circuit_row("table", name, CIRCUITS[name](), eps) for name in settings.circuits]
        tabled += [_machine_row("table", name, settings.tabled_time, eps) for name in settings.tabled]
        return {
            "machines": pl.DataFrame(
                [_machine_row("time", name, time, eps) for name in settings.machines for time in settings.times]
            ),
            "ladders": pl.DataFrame([_circuit_row(series, "ladder", circuit, eps) for series, circuit in ladders]),
            "table": pl.DataFrame(tabled),
        }

    def judge(self, settings: Settings, tables: Tables) -> list[Claim]:
        return [*_machine_claims(tables["machines"]), *_circuit_claims(tables["ladders"])]

    def draw(self, settings: Settings, tables: Tables) -> list[Figure]:
        drawn = [
            machines_figure(tables["machines"], SOURCE),
            circuits_figure(tables["ladders"], SOURCE),
        ]
        return [*drawn, table_figure(tables["table"], settings.epsilon, SOURCE)] if len(tables["table"]) else drawn


def _machine_row(series: str, name: str, time: int, epsilon: float) -> dict[str, Any]:
    machine = load_machine(name)
    bits = max(reference_bits(time, INPUT_LENGTH), bits_needed(machine.tape, time, INPUT_LENGTH))
    compiled = compile_machine(machine, time, input_length=INPUT_LENGTH, position_bits=bits)
    certificate = certify_machine(compiled)
    row = _row(series, name, "machine", network_sizes(compiled), certificate, epsilon)
    return row | {
        "T": time,
        "vc_samples": transformer_vc(compiled.width, time, epsilon)["samples"],
        "linear_samples": linear_time(time, epsilon)["samples"],
    }


def _circuit_row(series: str, name: str, circuit: Circuit | LayeredCircuit, epsilon: float) -> dict[str, Any]:
    compiled = compile_circuit(circuit)
    sizes = network_sizes(compiled)
    row = _row(series, name, "circuit", sizes, certify_circuit(compiled), epsilon)
    layered = compiled.circuit
    return row | {
        "q": layered.q,
        "r": layered.r,
        "s": layered.s,
        "m": layered.inputs,
        "vc_samples": feedforward_vc(sizes.parameters, sizes.depth, epsilon)["samples"],
    }


def _row(series: str, name: str, kind: str, sizes: Any, certificate: Any, epsilon: float) -> dict[str, Any]:
    margins = {"margin": certificate.theorem.value, "refined": certificate.value}
    return {
        "series": series,
        "network": name,
        "kind": kind,
        "one_norm": sizes.one_norm,
        "parameters": sizes.parameters,
        "width": sizes.width,
        "layers": sizes.depth,
        **margins,
        "binding": certificate.theorem.binding,
        "sm_samples": n_SM(epsilon, sizes.one_norm, margins["margin"], sizes.parameters),
        "sm_samples_refined": n_SM(epsilon, sizes.one_norm, margins["refined"], sizes.parameters),
        "log10_norm_product": sizes.log_norm_product / math.log(10),
    }


def _machine_claims(table: pl.DataFrame) -> list[Claim]:
    found = []
    for name in table["network"].unique(maintain_order=True):
        own = table.filter(network=name)
        ends = own.filter(pl.col("T").is_in([FIRST, LAST]))
        limits: dict[str, Any] = {
            "enough": len(ends) == 2,
            "too_small": f"T = {FIRST} and {LAST:,} are compared; one of them is not among times",
        }
        values = ends["sm_samples"].to_numpy()
        grown = float(values[-1] / values[0]) if len(ends) == 2 else math.nan
        found.append(
            claim(
                f"{name}-growth",
                f"{name!r}: from T = 2^4 to 2^16 the sample size grows less than 10^4-fold.",
                source="SM paper, Theorem 4.1 and Lemma 2.3",
                statistic="n(2^16) / n(2^4)",
                interval=exact(grown),
                at_most=1e4,
                trials=2,
                source_value="about 900, from 5.0e16 to 4.5e19 for α² ln p/γ² (palindrome)",
                **limits,
            )
        )
        found.append(
            claim(
                f"{name}-below-linear",
                f"{name!r}: from T = 2^4 to 2^16 it grows less than T itself, which is what earlier constructions ask "
                "for.",
                source="SM paper, Theorem 4.1 and Section 4",
                statistic="growth of n / growth of T",
                interval=exact(grown / (LAST / FIRST)),
                at_most=1.0,
                trials=2,
                source_value="900/4096 = 0.22",
                **limits,
            )
        )
        margins = _departure(own, "margin", REFERENCE["margin"])  # type: ignore[arg-type]
        norms = _departure(own, "one_norm", REFERENCE.get(name, {}))  # type: ignore[arg-type]
        for word, gaps, bound, what in (
            ("margin", margins, 0.05, "certificate by Theorem D.6"),
            ("norm", norms, 0.01, "1-norm"),
        ):
            if len(gaps):
                found.append(
                    claim(
                        f"{name}-{word}",
                        f"{name!r}: the {what} is the one computed beforehand, at {len(gaps)} values of T.",
                        source="SM paper, Theorem D.6",
                        statistic="largest relative difference",
                        interval=exact(largest(gaps)),
                        at_most=bound,
                        trials=len(gaps),
                        source_value="0; two digits are known" if word == "margin" else "0",
                    )
                )
    return found


def _departure(table: pl.DataFrame, column: str, known: dict[int, float]) -> np.ndarray:
    """How far a column is from the values known at 2^k, relatively."""
    rows = {row["T"]: row[column] for row in table.iter_rows(named=True)}
    return np.array([abs(rows[2**k] / value - 1) for k, value in known.items() if 2**k in rows])


def _circuit_claims(table: pl.DataFrame) -> list[Claim]:
    deep, wide = table.filter(series="depth"), table.filter(series="width")
    later = deep.filter(pl.col("q") >= 5)
    costs = (table["one_norm"] / (14 * (table["s"] - table["m"]) + 3)).to_numpy()
    known = REFERENCE["widths"]
    assert isinstance(known, dict)
    widths = {row["r"]: row["margin"] for row in wide.iter_rows(named=True)}
    gaps = [abs(widths[r] / value - 1) for r, value in known.items() if r in widths]
    exponent = slope(np.log(wide["r"].to_numpy()), np.log(wide["margin"].to_numpy()))
    product = deep["log10_norm_product"].to_numpy()
    samples = np.log10(deep["sm_samples"].to_numpy())
    over = f"q = {in_words(deep['q'].to_list())}"
    shared: dict[str, Any] = {"source": "SM paper, Theorem 3.1 and Lemma 2.3"}
    return [
        claim(
            "ladder-margin-depth",
            f"AND-ladders, {over}: from q = 5 on the certificate by Theorem D.6 does not change with depth.",
            statistic="largest / least − 1",
            interval=exact(float(later["margin"].max() / later["margin"].min() - 1)),  # type: ignore[operator,arg-type]
            at_most=1e-6,
            trials=len(later),
            source_value="0: 2.7e-3 for all q = 3 to 33",
            **shared,
        ),
        claim(
            "ladder-margin-width",
            f"AND-ladders, r = {in_words(wide['r'].to_list())}: the certificate falls like 1/√r.",
            statistic="|slope of ln γ on ln r + 1/2|",
            interval=exact(abs(exponent + 0.5)),
            at_most=0.05,
            trials=len(wide),
            source_value="0 (3.3e-3 at r = 4 to 8.3e-4 at r = 64)",
            **shared,
        ),
        claim(
            "ladder-values",
            "AND-ladders: certificates are those computed beforehand.",
            statistic="largest relative difference",
            interval=exact(largest(gaps) if gaps else math.nan),
            at_most=0.05,
            trials=len(gaps),
            source_value="0; two digits are known",
            enough=bool(gaps),
            too_small="none of the widths whose certificates are known",
            **shared,
        ),
        claim(
            "ladder-norm",
            "The 1-norm is at most 14 for each gate, and 3.",
            statistic="largest ‖θ‖₁ / (14(s − m) + 3)",
            interval=exact(largest(costs)),
            at_most=1.0,
            trials=len(table),
            source_value="‖θ‖₁ of order s",
            **shared,
        ),
        claim(
            "ladder-norm-product",
            f"AND-ladders, {over}: bounds by products of operator norms grow faster with depth, exponentially.",
            statistic="log10 of the growth of (Π‖W‖)², over log10 of that of n",
            interval=exact(2 * (product[-1] - product[0]) / (samples[-1] - samples[0])),
            above=1.0,
            trials=len(deep),
            source_value="exponential in depth against polynomial",
            **shared,
        ),
    ]
