"""What `krogh compile circuit` says of inputs, and `krogh trace circuit`: circuit and network layer by layer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from krogh.cli.evaluating import Finding, signed
from krogh.cli.networks import working
from krogh.cli.picturing import Grid, Picture, require_drawable, write_picture
from krogh.errors import KroghError, require
from krogh.networks.circuits import CompiledCircuit
from krogh.programs.circuits.circuit import Circuit, Gate, counted, evaluate
from krogh.programs.circuits.layers import LayeredCircuit
from krogh.programs.reading import no_such

MOST_SHOWN = 16
"""Outputs that are written out."""
SIGNS = {Gate.ID: "=", Gate.NOT: "¬", Gate.AND: "∧", Gate.OR: "∨"}
MOST_COMPARED = 2000
"""Names among which the nearest is looked for."""
MOST_DRAWN = 120
"""Gates of a layer that are drawn."""


def bits_of(circuit: Circuit | LayeredCircuit, text: str) -> np.ndarray:
    """An input [m] as it is written: bits in the order of the inputs (0110), or by their names (a=1,b=0)."""
    names, m = circuit.input_names, circuit.inputs
    if "=" not in text:
        letters = text.replace("_", "").replace(" ", "")
        fits = len(letters) == m and not set(letters) - {"0", "1"}
        listed = ", ".join(names[:8]) + (", …" if m > 8 else "")
        example = "0" * m if m <= 32 else "00…"
        require(
            fits,
            f"{circuit.name!r} reads {m} bits, for {listed}, as in {example}, or by names, as in {names[0]}=1,…; got "
            f"{text[:80]!r}",
        )
        return np.array([letter == "1" for letter in letters])
    values: dict[str, bool] = {}
    for part in text.split(","):
        name, _, value = part.strip().rpartition("=")
        if name not in names:
            raise KroghError(no_such(f"{circuit.name!r} has no input", name[:80], names[:MOST_COMPARED]))
        require(value in ("0", "1"), f"an input is 0 or 1; got {part.strip()!r}")
        require(name not in values, f"the input {name!r} is given twice")
        values[name] = value == "1"
    missing = [name for name in names if name not in values]
    require(
        not missing,
        f"{circuit.name!r} has {m} inputs; these are not given: {', '.join(missing[:8])}{', …' if missing[8:] else ''}",
    )
    return np.array([values[name] for name in names])


def input_of(network: CompiledCircuit, text: str) -> np.ndarray:
    """An input of a network; of one without a bit that is used also the empty text."""
    return bits_of(network.circuit, text or "0" if not network.source.inputs else text)


def about_circuit(network: CompiledCircuit, inputs: Sequence[str]) -> list[Finding]:
    """What circuit and network make of inputs."""
    found = []
    if not network.source.inputs:
        text = "the circuit has none, its outputs are constants; the network reads a bit that is not used"
        found.append(Finding("no inputs", text, True))
    for text in inputs:
        bits = input_of(network, text)
        truth = evaluate(network.plain, bits[None, :])[0]
        said = network.network.run(bits[None, :].astype(np.float64))[0]
        equal = bool(np.array_equal(said, 2.0 * truth - 1.0))
        names = network.circuit.output_names
        more = ", …" if len(names) > MOST_SHOWN else ""
        shown = ", ".join(f"{name}={int(bit)}" for name, bit in zip(names[:MOST_SHOWN], truth, strict=False)) + more
        outputs = " ".join(signed(value) for value in said[:MOST_SHOWN]) + more
        different = "" if equal else ", DIFFERENT"
        line = f"{text or repr(text)}: the circuit gives {shown}; the network puts out {outputs}{different}"
        numbers = {
            "input": text,
            "circuit": {name: int(bit) for name, bit in zip(names, truth, strict=True)},
            "network": {name: float(value) for name, value in zip(names, said, strict=True)},
            "equal": equal,
        }
        found.append(Finding("input", line, numbers, equal))
    return found


class LayerRow(NamedTuple):
    """A layer: its number, how many gates of which kinds, their values in the circuit and the network's units."""

    layer: int
    gates: str
    circuit: str
    network: list[float]
    equal: bool


def present_circuit(network: CompiledCircuit, text: str, window: int, as_json: bool, svg: Path | None = None) -> int:
    """Show what every layer of circuit and network holds on one input; 1 where they differ."""
    circuit = network.circuit
    bits = input_of(network, text)
    if svg is not None:
        require_drawable(svg, circuit.q)
    with working(f"running {network.name}"):
        rows = layer_rows(network, bits)
    *_, finding = about_circuit(network, [text])
    different = sum(not row.equal for row in rows)
    if as_json:
        answer = {"circuit": network.name, **finding.numbers, "rows": [row._asdict() for row in rows]}
        print(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        print("\n".join(table(rows, window)))
        same = "the same in all layers" if not different else f"DIFFERENT in {different} of {len(rows)} layers"
        print(f"\n{network.name}, {finding.text}\nnetwork of {network.network.depth} hidden layers: {same}")
    if svg is not None:
        write_picture(svg, picture(network, rows, text))
        if not as_json:
            print(f"written {svg}")
    return 0 if finding.holds and not different else 1


def layer_rows(network: CompiledCircuit, bits: np.ndarray) -> list[LayerRow]:
    """All layers on one input [m], the inputs' first; units are those after rounding where there is any."""
    circuit = network.circuit
    values = [column[:, 0] for column in circuit.streamed(bits[:, None])]
    units: list[np.ndarray] = [bits.astype(np.float64)]
    ends = {module.layers.stop - 1: module.kind for module in network.network.modules}
    for place, outputs in enumerate(network.network.streamed(bits[None, :].astype(np.float64))):
        kind = ends.get(place)
        if kind == "gates":
            units.append(outputs[:, 0].copy())
        elif kind == "round":
            units[-1] = outputs[:, 0].copy()
    rows = []
    for number, (value, unit) in enumerate(zip(values, units, strict=True), start=1):
        kinds = circuit.layers[number - 2].kinds if number > 1 else np.zeros(0, np.int64)
        counts = np.bincount(kinds, minlength=len(Gate)).tolist()
        gates = ", ".join(f"{count} {kind.name}" for kind, count in zip(Gate, counts, strict=True) if count)
        written = "".join("1" if bit else "0" for bit in value)
        equal = bool(np.array_equal(unit, value.astype(np.float64)))
        rows.append(LayerRow(number, gates or counted(len(value), "input"), written, unit.tolist(), equal))
    return rows


def table(rows: Sequence[LayerRow], window: int) -> list[str]:
    """Rows of text: of a wide layer the first gates."""
    cells = [("layer", "gates", "circuit", "network")]
    for row in rows:
        more = "…" if len(row.circuit) > window else ""
        units = "".join(str(int(unit)) if unit in (0.0, 1.0) else "?" for unit in row.network[:window])
        cells.append((str(row.layer), row.gates, row.circuit[:window] + more, units + more))
    widths = [max(len(line[place]) for line in cells) for place in range(4)]
    marks = ["", *("" if row.equal else "  different" for row in rows)]
    return [
        f"{line[0]:>{widths[0]}}  {line[1]:<{widths[1]}} | {line[2]:<{widths[2]}} | {line[3]}{mark}".rstrip()
        for line, mark in zip(cells, marks, strict=True)
    ]


def picture(network: CompiledCircuit, rows: Sequence[LayerRow], text: str) -> Picture:
    """Layers downwards, gates side by side: coloured where they are 1."""
    circuit = network.circuit
    width = min(circuit.r, MOST_DRAWN)
    names = [str(place) for place in range(width)]
    signs = [[""] * circuit.inputs, *([SIGNS[Gate(kind)] for kind in layer.kinds] for layer in circuit.layers)]
    drawn = Grid(
        "circuit", names, [line[:width] for line in signs],
        [[int(bit) for bit in row.circuit[:width]] for row in rows], [],
    )  # fmt: skip
    units = Grid(
        "network", names, [[f"{unit:.3g}" for unit in row.network[:width]] for row in rows],
        [[int(unit > 0.5) for unit in row.network[:width]] for row in rows], [],
    )  # fmt: skip
    cut = f" Of wider layers the first {width} gates are drawn." if circuit.r > width else ""
    caption = (
        f"{network.name} on {text}: the layers of the circuit, the inputs first, with gates = (hand on), ¬, ∧ and ∨, "
        f"coloured where they are 1; beside them the network's units after each layer.{cut}"
    )
    labels = [str(row.layer) for row in rows]
    return Picture(f"{network.name} on {text}", "layer", labels, [drawn, units], [row.equal for row in rows], caption)
