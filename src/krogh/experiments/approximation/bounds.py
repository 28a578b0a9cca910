"""Sample sizes by the all-layer margin beside what other bounds ask for (Lemma 2.3, Theorems 3.1 and 4.1).

For compiled circuits and machines: the 1-norm α, the number of parameters p, the certified margin γ, and with them
n = (α² ln p/γ² + 1)/ε². Beside it stand bounds by the VC dimension, by products of operator norms, and what earlier
constructions of Turing machines ask for, at least linear in the running time T.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from krogh.experiments.approximation.common import NO_EXPERIMENTS, SOLID, in_words, variation
from krogh.lab import Chart, Claims, Experiment, Figure, Results, Tables, experiment, figures, groups, need, setting
from krogh.lab.estimate import exact, largest
from krogh.lab.experiment import Measures
from krogh.lab.fits import line_slope
from krogh.networks.circuits import compile_circuit
from krogh.networks.machines.compiled import compile_machine
from krogh.networks.machines.layout import bits_needed, reference_bits
from krogh.networks.margins.circuits import certify_circuit
from krogh.networks.margins.machines import certify_machine
from krogh.programs.circuits.circuit import Circuit
from krogh.programs.circuits.generators import (
    adder,
    and_ladder,
    comparator,
    majority,
    multiplier,
    parity_circuit,
    random_circuit,
)
from krogh.programs.circuits.layers import LayeredCircuit
from krogh.programs.machines.library import library_names, load_machine
from krogh.theory.programs.samples import feedforward_vc, linear_time, n_SM, transformer_vc

CIRCUITS: Mapping[str, Callable[[], Circuit | LayeredCircuit]] = {
    "parity of 16": lambda: parity_circuit(16),
    "adder of 8 bits": lambda: adder(8),
    "comparator of 8 bits": lambda: comparator(8),
    "majority of 15": lambda: majority(15),
    "multiplier of 4 bits": lambda: multiplier(4),
    "ladder, r = 6, q = 17": lambda: and_ladder(6, 17),
    "random, r = 9, q = 4": lambda: random_circuit(10, 9, 4, 0),
}
MARGINS = {2**4: 8.7e-5, 2**6: 5.3e-5, 2**8: 3.6e-5, 2**12: 2.1e-5, 2**16: 1.4e-5, 2**20: 1.0e-5}
NORMS = {
    "palindrome": {2**4: 5334, 2**6: 7452, 2**8: 9986, 2**12: 16302, 2**16: 24282, 2**20: 33926},
    "counter": {2**4: 4839, 2**20: 32951},
}
WIDTHS = {4: 3.3e-3, 8: 2.4e-3, 16: 1.7e-3, 32: 1.2e-3, 64: 8.3e-4}
"""Computed beforehand: certificates by Theorem D.6 and ‖θ‖₁ of machines by T, certificates of ladders by r."""
FIRST, LAST = 2**4, 2**16
"""Running times that are compared."""
INPUT_LENGTH = 6
LIBRARY = library_names()


@dataclass(frozen=True)
class Settings:
    machines: tuple[str, ...] = setting(
        ("palindrome", "counter"), "machines of the library whose T grows", among=LIBRARY, distinct=True
    )
    times: tuple[int, ...] = setting(
        tuple(2**k for k in range(4, 21, 2)), "running times T", increasing=True, fewest=2, least=1, most=2**23
    )
    depths: tuple[int, ...] = setting(
        (3, 5, 9, 17, 33), "layers q of AND-ladders of 6 gates a layer", increasing=True, fewest=3, least=2
    )
    widths: tuple[int, ...] = setting(
        (4, 8, 16, 32, 64), "gates r in a layer of AND-ladders of 9 layers", increasing=True, fewest=3, least=2
    )
    circuits: tuple[str, ...] = setting(
        tuple(CIRCUITS), "circuits in the table", among=CIRCUITS, distinct=True, fewest=0
    )
    tabled: tuple[str, ...] = setting(
        ("parity", "palindrome", "counter", "binary-addition"), "machines in the table", among=LIBRARY, distinct=True,
        fewest=0,
    )  # fmt: skip
    tabled_time: int = setting(1024, "their running time T", least=1, most=2**23)
    epsilon: float = setting(0.1, "error ε", above=0)


@experiment("approximation/bounds")
class Bounds(Experiment[Settings]):
    """Norms, margins and sample sizes of compiled networks, beside other bounds."""

    title = "Samples by the all-layer margin grow with a power of log T, by other bounds with T or faster"
    question = "How do sample sizes of compiled circuits and machines grow with depth, width and running time?"
    source = "SM paper, Lemma 2.3, Theorems 3.1 and 4.1"
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

    def measure(self, results: Results[Settings]) -> Measures:
        s = results.settings
        ladders = [("depth", and_ladder(6, q)) for q in s.depths] + [("width", and_ladder(r, 9)) for r in s.widths]
        tabled = {
            "table": lambda: pl.DataFrame(
                [_circuit_row("table", name, CIRCUITS[name](), s.epsilon) for name in s.circuits]
                + [_machine_row("table", name, s.tabled_time, s.epsilon) for name in s.tabled]
            )
        }
        return {
            "machines": lambda: pl.DataFrame(
                [_machine_row("time", name, time, s.epsilon) for name in s.machines for time in s.times]
            ),
            "ladders": lambda: pl.DataFrame(
                [_circuit_row(series, "ladder", circuit, s.epsilon) for series, circuit in ladders]
            ),
            **(tabled if s.circuits or s.tabled else {}),
        }

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        for name, own in groups(tables["machines"], "network").items():
            _claim_machine(say.about(f"{name}-", f"{name!r}: "), own, NORMS.get(name, {}))
        _claim_ladders(say.about("ladder-", source="SM paper, Theorem 3.1 and Lemma 2.3"), tables["ladders"])

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        yield _draw_machines(tables["machines"], self.source)
        yield _draw_ladders(tables["ladders"], self.source)
        if "table" in tables:
            yield _draw_table(tables["table"], tables.settings.epsilon, self.source)


def _machine_row(series: str, name: str, time: int, epsilon: float) -> dict[str, Any]:
    machine = load_machine(name)
    bits = max(reference_bits(time, INPUT_LENGTH), bits_needed(machine.tape, time, INPUT_LENGTH))
    compiled = compile_machine(machine, time, input_length=INPUT_LENGTH, position_bits=bits)
    row = _row(series, name, "machine", compiled.sizes(), certify_machine(compiled), epsilon)
    return row | {
        "T": time,
        "vc_samples": transformer_vc(compiled.width, time, epsilon)["samples"],
        "linear_samples": linear_time(time, epsilon)["samples"],
    }


def _circuit_row(series: str, name: str, circuit: Circuit | LayeredCircuit, epsilon: float) -> dict[str, Any]:
    compiled = compile_circuit(circuit)
    sizes, layered = compiled.sizes(), compiled.circuit
    return _row(series, name, "circuit", sizes, certify_circuit(compiled), epsilon) | {
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


def _departures(table: pl.DataFrame, x: str, column: str, known: Mapping[int, float]) -> list[float]:
    """How far a column is from the values that are known at some x, relatively."""
    return [abs(value / known[place] - 1) for place, value in table.select(x, column).iter_rows() if place in known]


def _claim_machine(say: Claims, own: pl.DataFrame, norms: Mapping[int, float]) -> None:
    ends = own.filter(pl.col("T").is_in([FIRST, LAST]))["sm_samples"]
    grown = exact(ends[1] / ends[0] if len(ends) == 2 else math.nan, len(ends))
    both = need(len(ends), 2, f"of T = {FIRST} and {LAST:,}, which are compared")
    say(
        "growth",
        "from T = 2^4 to 2^16 the sample size grows less than 10^4-fold.",
        grown,
        "n(2^16) / n(2^4)",
        at_most=1e4,
        source="SM paper, Theorem 4.1 and Lemma 2.3",
        source_value="about 900, from 5.0e16 to 4.5e19 for α² ln p/γ² (palindrome)",
        needs=[both],
    )
    say(
        "below-linear",
        "from T = 2^4 to 2^16 it grows less than T itself, which is what earlier constructions ask for.",
        grown / (LAST / FIRST),
        "growth of n / growth of T",
        at_most=1.0,
        source="SM paper, Theorem 4.1 and Section 4",
        source_value="900/4096 = 0.22",
        needs=[both],
    )
    for word, column, known, bound, what, zero in (
        ("margin", "margin", MARGINS, 0.05, "certificate by Theorem D.6", "0; two digits are known"),
        ("norm", "one_norm", norms, 0.01, "1-norm", "0"),
    ):
        gaps = _departures(own, "T", column, known)
        if gaps:
            say(
                word,
                f"the {what} is the one computed beforehand, at {len(gaps)} values of T.",
                largest(gaps),
                "largest relative difference",
                at_most=bound,
                source="SM paper, Theorem D.6",
                source_value=zero,
            )


def _claim_ladders(say: Claims, table: pl.DataFrame) -> None:
    deep, wide = table.filter(series="depth"), table.filter(series="width")
    over = f"AND-ladders, q = {in_words(deep['q'].to_list())}"
    say(
        "margin-depth",
        f"{over}: from q = 5 on the certificate by Theorem D.6 does not change with depth.",
        variation(deep.filter(pl.col("q") >= 5)["margin"]),
        "largest / least − 1",
        at_most=1e-6,
        source_value="0: 2.7e-3 for all q = 3 to 33",
    )
    say(
        "margin-width",
        f"AND-ladders, r = {in_words(wide['r'].to_list())}: the certificate falls like 1/√r.",
        exact(abs(line_slope(wide["r"].log(), wide["margin"].log()) + 0.5), len(wide)),
        "|slope of ln γ on ln r + 1/2|",
        at_most=0.05,
        source_value="0 (3.3e-3 at r = 4 to 8.3e-4 at r = 64)",
    )
    gaps = _departures(wide, "r", "margin", WIDTHS)
    say(
        "values",
        "AND-ladders: certificates are those computed beforehand.",
        largest(gaps),
        "largest relative difference",
        at_most=0.05,
        source_value="0; two digits are known",
        needs=[need(len(gaps), 1, "of the widths have a certificate that is known")],
    )
    say(
        "norm",
        "The 1-norm is at most 14 for each gate, and 3.",
        largest(table["one_norm"] / (14 * (table["s"] - table["m"]) + 3)),
        "largest ‖θ‖₁ / (14(s − m) + 3)",
        at_most=1.0,
        source_value="‖θ‖₁ of order s",
    )
    product, samples = deep["log10_norm_product"], deep["sm_samples"].log10()
    say(
        "norm-product",
        f"{over}: bounds by products of operator norms grow faster with depth, exponentially.",
        exact(2 * (product[-1] - product[0]) / (samples[-1] - samples[0]), len(deep)),
        "log10 of the growth of (Π‖W‖)², over log10 of that of n",
        above=1.0,
        source_value="exponential in depth against polynomial",
    )


def _draw_machines(table: pl.DataFrame, source: str) -> Figure:
    """Samples against T, relative to those at the least T, beside other bounds; and margins."""
    chart = Chart(
        "machines",
        "Sample sizes of compiled machines against running time",
        headline="Samples by the all-layer margin grow with a power of log T",
        source=source,
        columns=2,
        width=9.8,
        height=4.2,
    )
    first = table.filter(network=table["network"][0])
    times = first["T"].to_list()
    axes = {"x": "running time T (steps)", "log": "xy"}
    left = chart.panel(y="samples, relative to the least T", **axes)
    right = chart.panel(y="certified all-layer margin γ (ℓ2 norm)", **axes)
    for name, own in groups(table, "network").items():
        color = left.color()
        left.line(times, own["sm_samples"] / own["sm_samples"][0], name, color=color, **SOLID)
        ends = ("constants of\neach layer", "Theorem D.6") if name == table["network"][0] else ("", "")
        right.line(times, own["refined"], ends[0], color=color, width=1.7, marker="v", markersize=4)
        right.line(times, own["margin"], ends[1], color=color, **SOLID)
    for column, words, style in (("linear_samples", "earlier constructions: T", ":"), ("vc_samples", "VC: w T", "--")):
        left.line(times, first[column] / first[column][0], words, color=figures.MUTED, style=style, width=1.7)
    for panel in chart:
        figures.log_axis_labels(panel.ax, "x", base=2, values=times[::2] if len(times) > 5 else times)
        panel.ax.set_xlim(right=times[-1] * (times[-1] / times[0]) ** 0.5)
    product = f"10^{first['log10_norm_product'][0]:,.0f} at T = {times[0]:,}"
    return chart.figure(
        "Compiled machines. Left: the sample size (α² ln p/γ² + 1)/ε² of Lemma 2.3, with the margin by Theorem D.6, "
        "relative to that at the least T; the VC dimension is at least of order wT, and earlier constructions need "
        f"at least T. Products of operator norms grow exponentially in T ({product}) and are not drawn. Right: "
        "certified margins.",
        table,
    )


def _draw_ladders(table: pl.DataFrame, source: str) -> Figure:
    """Samples of AND-ladders against depth and width."""
    chart = Chart(
        "circuits",
        "Sample sizes of compiled circuits",
        headline="Samples that circuits need by several bounds, against depth and width",
        source=source,
        columns=2,
        width=9.8,
        height=4.2,
    )
    for series, column, words in (("depth", "q", "layers q (r = 6)"), ("width", "r", "gates r in a layer (q = 9)")):
        own = table.filter(series=series)
        sizes = own[column].to_list()
        panel = chart.panel(x=words, y="log10 of samples, relative to the first", log="x", xticks=sizes)
        for label, logs, color in (
            ("Lemma 2.3", own["sm_samples"].log10(), figures.BLUE),
            ("VC dimension", own["vc_samples"].log10(), figures.ORANGE),
            ("(Π‖W‖)²", 2 * own["log10_norm_product"], figures.VERMILLION),
        ):
            panel.line(sizes, logs - logs[0], label, color=color, **SOLID)
        panel.ax.set_xlim(right=sizes[-1] * 2.6)
    return chart.figure(
        "AND-ladders as networks with correction. Sample sizes, as powers of 10, relative to the smallest circuit's: "
        "by Lemma 2.3 with the margin of Theorem D.6, by the VC dimension of networks of as many parameters, and by "
        "the product of operator norms, which is exponential in depth.",
        table,
    )


COLUMNS: Mapping[str, tuple[float, Callable[[Any], str]]] = {
    "network": (0.21, lambda row: row["network"] + (f", T = {row['T']:,}" if row.get("T") else "")),
    "α = ‖θ‖₁": (0.08, lambda row: f"{row['one_norm']:,.0f}"),
    "p": (0.1, lambda row: f"{row['parameters']:,}"),
    "layers": (0.06, lambda row: f"{row['layers']}"),
    "γ (Thm D.6)": (0.09, lambda row: f"{row['margin']:.2g}"),
    "γ (by layer)": (0.09, lambda row: f"{row['refined']:.2g}"),
    "n_SM (D.6)": (0.1, lambda row: f"{row['sm_samples']:.1e}"),
    "n_SM (by layer)": (0.11, lambda row: f"{row['sm_samples_refined']:.1e}"),
    "VC": (0.08, lambda row: f"{row['vc_samples']:.1e}"),
    "Π‖W‖": (0.09, lambda row: _power(row["log10_norm_product"])),
}
"""Columns of the table, by head: width, and the text of a row."""


def _draw_table(table: pl.DataFrame, epsilon: float, source: str) -> Figure:
    """The bounds as a table."""
    rows = [[text(row) for _, text in COLUMNS.values()] for row in table.iter_rows(named=True)]
    chart = Chart(
        "table",
        "Table of bounds",
        headline=f"Norms, margins and sample sizes at ε = {epsilon:g}",
        source=source,
        width=11.0,
        height=1.1 + 0.27 * len(rows),
    )
    ax = chart.panel().ax
    ax.set_axis_off()
    widths = [width for width, _ in COLUMNS.values()]
    with figures.style():
        drawn = ax.table(rows, colLabels=list(COLUMNS), loc="center", cellLoc="right", colWidths=widths)
        drawn.auto_set_font_size(False)
        drawn.set_fontsize(8.5)
        drawn.scale(1, 1.25)
        for (line, column), cell in drawn.get_celld().items():
            cell.visible_edges = "B" if line == 0 else ""
            cell.set_edgecolor(figures.MUTED)
            if column == 0:
                cell.get_text().set_ha("left")
            if line == 0:
                cell.get_text().set_fontweight("bold")
    return chart.figure(
        "Compiled networks: 1-norm, parameters, hidden layers of a circuit's network or layers of a transformer, "
        "certified margin by Theorem D.6 and by the same proof with each layer's constants, samples for ε = "
        f"{epsilon:g} by Lemma 2.3 with either, by the VC dimension (of machines a floor, wT/ε), and the product of "
        "operator norms. All sample sizes are orders.",
        table,
    )


def _power(log10: float) -> str:
    if log10 < 6:
        return f"{10**log10:,.3g}"
    return f"10^{log10:,.0f}" if math.isfinite(log10) else "∞"
