"""Certificates put to the test: perturbations of half the certified size never change an output (Theorem D.6).

Compiled circuits and machines get a certified margin. All their weights are then moved by half of it, in random
directions and where gradient descent within the ball leads; one changed output would refute the certificate. An attack
without a limit on the size bounds the margin from above: the certificate may not lie above it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from krogh.errors import require
from krogh.experiments.approximation.common import NO_EXPERIMENTS, Attacks
from krogh.lab import Chart, Claims, Experiment, Figure, Results, Tables, experiment, figures, groups, need, setting
from krogh.lab.estimate import exact, largest
from krogh.lab.experiment import Measures
from krogh.networks.circuits import CompiledCircuit, compile_circuit
from krogh.networks.machines.compiled import CompiledMachine, compile_machine
from krogh.networks.margins.attack import Effort, attack, trial_perturbations
from krogh.networks.margins.search import Scan
from krogh.programs.circuits.circuit import Circuit
from krogh.programs.circuits.generators import adder, and_ladder, comparator, majority, parity_circuit, random_circuit
from krogh.programs.circuits.layers import LayeredCircuit
from krogh.programs.machines.library import load_machine
from krogh.programs.machines.running import require_halts

CIRCUITS: Mapping[str, Callable[[], Circuit | LayeredCircuit]] = {
    "parity of 4": lambda: parity_circuit(4),
    "adder of 2 bits": lambda: adder(2),
    "comparator of 2 bits": lambda: comparator(2),
    "majority of 5": lambda: majority(5),
    "ladder, r = 6, q = 5": lambda: and_ladder(6, 5),
    "random, r = 6, q = 6": lambda: random_circuit(6, 6, 6, 0),
}
MACHINES: Mapping[str, tuple[str, ...]] = {
    "parity": ("111", "11"),
    "palindrome": ("010", "01"),
    "counter": ("#0", "0"),
    "powers-of-two": ("00", "000"),
    "contains-101": ("101", "100"),
    "anbn": ("ab", "aab"),
}
"""Machines of the library, with an accepted and a rejected word each."""
RANDOM, ADVERSARIAL = 10_000, 100
"""Perturbations that were asked for, over all networks of a kind."""
KINDS = {"circuit": figures.BLUE, "machine": figures.VERMILLION}


@dataclass(frozen=True)
class Settings(Attacks):
    circuits: tuple[str, ...] = setting(
        tuple(CIRCUITS), "circuits, each with and without correction", among=CIRCUITS, distinct=True, fewest=0
    )
    machines: tuple[str, ...] = setting(
        tuple(MACHINES), "machines of the library", among=MACHINES, distinct=True, fewest=0
    )
    share: float = setting(0.5, "norm of a perturbation, as a share of the certified margin", above=0, below=1)
    inputs: int = setting(4, "inputs of each circuit that are tried", least=1)
    random: int = setting(10_000, "random perturbations of each network", least=1)
    adversarial: int = setting(100, "perturbations by gradient descent of each network", least=1)
    machine_random: int = setting(10_000, "random perturbations of each machine", least=1)
    machine_adversarial: int = setting(100, "perturbations by gradient descent of each machine", least=1)
    machine_restarts: int = setting(12, "random directions that an attack on a machine starts from", least=1)
    machine_refinements: int = setting(20, "rounds in which each of those is improved", least=0)


@experiment("approximation/perturbations")
class Perturbations(Experiment[Settings]):
    """Perturbations of half the certified size, and attacks, on compiled circuits and machines."""

    title = "No perturbation of half the certified size changes an output of a compiled network"
    question = "Do certified margins of compiled circuits and machines withstand random and adversarial perturbations?"
    source = "SM paper, Theorem D.6"
    scales = {
        "smoke": Settings(
            circuits=("parity of 4",), machines=(), inputs=2, random=200, adversarial=8, restarts=4, refinements=8
        ),
        "laptop": Settings(
            circuits=("parity of 4", "ladder, r = 6, q = 5", "random, r = 6, q = 6"), machines=("parity",), inputs=2,
            random=1700, adversarial=18, machine_random=200, machine_adversarial=6, restarts=9, refinements=20,
            machine_restarts=3, machine_refinements=3,
        ),
        "paper": Settings(),
    }  # fmt: skip
    notes = (
        NO_EXPERIMENTS,
        "The certificate is the larger of Theorem D.6 and the same proof with the constants of each layer. Circuits "
        "without correction have the second one too; machines are compiled with correction and hard attention.",
        "A machine has some 3·10^5 weights, and all of them move. Its network is run for the steps that its words "
        "take.",
        "Of circuits with several outputs the last is tried.",
    )

    def check(self, settings: Settings) -> None:
        named = settings.circuits or settings.machines
        require(named, "circuits and machines must name at least one network; got circuits=() and machines=()")

    def measure(self, results: Results[Settings]) -> Measures:
        return {"networks": functools.partial(networks, results.settings)}

    def claims(self, tables: Tables[Settings], say: Claims) -> None:
        table = tables["networks"]
        for kind, own in groups(table, "kind").items():
            random, adversarial = int(own["random"].sum()), int(own["adversarial"].sum())
            tried = f"{len(own)} networks of {kind}s, {random:,} random and {adversarial:,} adversarial perturbations"
            about = say.about(
                f"{kind}s-",
                tried,
                needs=[
                    need(random, RANDOM, "random perturbations"),
                    need(adversarial, ADVERSARIAL, "adversarial perturbations"),
                ],
            )
            about(
                "unchanged",
                f" of {tables.settings.share:g} times the certified margin: no output changes.",
                exact(int(own["flips"].sum()), random + adversarial),
                "changed outputs",
                at_most=0,
                source_value="0",
            )
            about(
                "change",
                ": no output, of ±1, moves by 1.",
                exact(np.max(own["change"].to_numpy()), random + adversarial),
                "largest change of an output towards the wrong side",
                at_most=1.0,
                source_value="< 1",
            )
        say(
            "certificate-below",
            f"On all {len(table)} networks the certificate is no larger than what an attack finds.",
            largest(table["certificate"] / table["attack"]),
            "largest certificate / attack",
            at_most=1.0,
            source_value="≤ 1",
        )

    def figures(self, tables: Tables[Settings]) -> Iterator[Figure]:
        settings, table = tables.settings, tables["networks"]
        chart = Chart(
            "perturbations",
            "Certified and attacked margins of compiled networks",
            headline="Between what is certified and what an attack finds lies the margin",
            source=self.source,
            width=8.4,
            height=1.5 + 0.33 * len(table),
        )
        panel = chart.panel(x="norm of the perturbation of all weights (ℓ2)", log="x")
        ax = panel.ax
        for place, row in enumerate(table.iter_rows(named=True)):
            color, ends = KINDS[row["kind"]], [row["certificate"], row["attack"]]
            ax.plot(ends, [place, place], color=color, linewidth=5, alpha=0.35, solid_capstyle="butt")
            ax.plot(row["certificate"], place, marker="|", color=color, markersize=13, markeredgewidth=2.2)
            ax.plot(row["attack"], place, marker="x", color=color, markersize=7, markeredgewidth=1.8)
            ax.plot(row["theorem"], place, marker="v", color=figures.MUTED, markersize=5)
            ax.plot(row["radius"], place, marker="o", color=figures.INK, markersize=4)
            text = f"{row['flips']} of {row['random'] + row['adversarial']:,} change an output"
            figures.direct_label(ax, row["attack"], place, text, color=figures.MUTED)
        for marker, color, label in (
            ("v", figures.MUTED, "Theorem D.6"),
            ("o", figures.INK, f"perturbations tried ({settings.share:g} of the certificate)"),
            ("|", figures.BLUE, "certificate"),
            ("x", figures.BLUE, "attack"),
        ):
            ax.plot([], [], marker=marker, color=color, linestyle="none", label=label)
        panel.name_rows(table["network"].to_list(), fontsize=8.5)
        low = np.nanmin(table.select("radius", "theorem").to_numpy())
        ax.set_xlim(low / 2, np.max(table["attack"].to_numpy()) * 30)
        panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12 - 0.6 / len(table)), ncols=4)
        yield chart.figure(
            "Each bar runs from the certified margin to the smallest perturbation that an attack found to change an "
            f"output, over {settings.inputs} inputs of a circuit (blue) and two words of a machine (red). Dots: the "
            "size of the perturbations that were tried, random and by gradient descent. Triangles: the bound of "
            "Theorem D.6 itself, for networks with correction.",
            table,
        )


def networks(settings: Settings) -> pl.DataFrame:
    """A row per network: its certificate, what perturbations of a share of it changed, what an attack finds."""
    rows = [
        _row(name, compile_circuit(CIRCUITS[name](), correction=correction), bits_of(name, settings), settings)
        for name in settings.circuits
        for correction in (True, False)
    ]
    return pl.DataFrame(
        rows + [_row(name, compiled_machine(name), list(MACHINES[name]), settings) for name in settings.machines]
    )


def bits_of(name: str, settings: Settings) -> np.ndarray:
    """All ones, where conjunctions are closest to changing, and other random inputs; all where there are no more."""
    m = CIRCUITS[name]().inputs
    rng = np.random.default_rng([settings.seed, m])
    others = rng.choice(2**m - 1, min(settings.inputs, 2**m) - 1, replace=False)
    numbers = np.array([2**m - 1, *others])
    return ((numbers[:, None] >> np.arange(m)) & 1).astype(np.float64)


def compiled_machine(name: str) -> CompiledMachine:
    """A machine as a network that runs for the steps that its words take."""
    machine, words = load_machine(name), MACHINES[name]
    steps = max(require_halts(machine, words, 1000))
    return compile_machine(machine, steps, input_length=max(map(len, words)), words=words)


def _row(name: str, network: CompiledCircuit | CompiledMachine, inputs: Any, settings: Settings) -> dict[str, Any]:
    circuit = isinstance(network, CompiledCircuit)
    kind, prefix = ("circuit", "") if circuit else ("machine", "machine_")
    random, adversarial, restarts, refinements = (
        getattr(settings, prefix + word) for word in ("random", "adversarial", "restarts", "refinements")
    )
    output = network.network.outputs - 1 if isinstance(network, CompiledCircuit) else 0
    subject, certificate = network.subject(inputs, output), network.certificate()
    tried = trial_perturbations(
        subject,
        settings.share * certificate.value,
        random=random,
        adversarial=adversarial,
        seed=settings.seed,
    )
    attacks = [
        attack(
            subject.output,
            subject.parameters,
            x,
            y,
            effort=Effort(restarts, refinements),
            scan=Scan(low=certificate.value / 10, ratio=1.5),
            seed=settings.seed + place,
        )
        for place, (x, y) in enumerate(zip(subject.inputs, subject.labels, strict=True))
    ]
    return {
        "kind": kind,
        "network": name if network.correction else f"{name}, no correction",
        "correction": network.correction,
        "parameters": sum(array.size for array in subject.parameters.values()),
        "certificate": certificate.value,
        "theorem": np.nan if certificate.theorem is None else certificate.theorem.value,
        "attack": min(one.radius for one in attacks),
        "radius": tried.radius,
        "random": tried.random,
        "adversarial": tried.adversarial,
        "flips": tried.flips,
        "change": 1 - tried.least,
        "accepted": sum(subject.labels),
        "inputs": len(subject.inputs),
    }
