"""The command line's `krogh compile` and `krogh trace`: networks that are not trained but written down.

Nothing here imports JAX (see `krogh.cli`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from krogh.errors import require

if TYPE_CHECKING:
    from krogh.programs.automata.automaton import Automaton

Flag = Annotated[bool, Parameter(negative="")]


@Parameter(name="*")
@dataclass(frozen=True)
class NetworkOptions:
    """What is asked of a compiled network.

    Args:
        check: compare what the network computes with the program.
        margin: bound the all-layer margin from below (certificate) and from above (attack).
        restarts: of the attack; as many as take some seconds unless given.
        refinements: of the attack, for each restart.
        out: a safetensors file for the weights.
        json: print JSON.
    """

    check: Flag = False
    margin: Flag = False
    restarts: int | None = None
    refinements: int | None = None
    out: Path | None = None
    json: Flag = False


PLAIN = NetworkOptions()

Dangling = Literal["refuse", "drop", "keep"]
Adder = Literal["look-ahead", "ripple"]
Missing = Literal["refuse", "reject", "halt"]

compile_ = App(name="compile", help="Write the weights of a network that runs a program, and check what they compute.")
trace_ = App(name="trace", help="Show what a program and its network do, step by step.")


@compile_.command(name="circuit")
def compile_circuit(
    file: Path,
    /,
    *,
    width: int | None = None,
    depth: int | None = None,
    no_correction: Flag = False,
    dangling: Dangling = "refuse",
    options: NetworkOptions = PLAIN,
) -> int:
    """Compile a Boolean circuit to a ReLU network.

    With --check it is compared with the circuit: on all inputs where there are at most 16, else on 100,000 random ones.

    Args:
        file: a circuit: AIGER (.aag, .aig) or text (.circuit, .ckt, .txt).
        width: units of a hidden layer; as many as needed unless given.
        depth: hidden layers; as many as needed unless given.
        no_correction: leave the rounding after every layer of gates out.
        dangling: what to do with gates that no output depends on.
    """
    from krogh.cli.networks import present
    from krogh.networks import circuits
    from krogh.programs.circuits.files import load_circuit

    shape: dict[str, Any] = {"width": width, "depth": depth, "correction": not no_correction, "dangling": dangling}
    return present(
        "circuit", str(file), lambda: circuits.compile_circuit(load_circuit(file, dangling), **shape), options
    )


@compile_.command(name="machine")
def compile_machine(
    file: str,
    /,
    *,
    steps: int,
    input: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    adder: Adder = "look-ahead",
    no_correction: Flag = False,
    soft: Flag = False,
    input_length: int | None = None,
    missing: Missing | None = None,
    unfinished: Flag = False,
    options: NetworkOptions = PLAIN,
) -> int:
    """Compile a Turing machine to a transformer that runs it.

    With --check it is compared with the interpreter at every step, on short words, the file's examples and the inputs.

    Args:
        file: a machine in the YAML of turingmachine.io, or one of `krogh list machines`.
        steps: how many steps T the transformer runs; the machine's own input must need no more.
        input: a word that must be done within T steps, and is checked; may be repeated.
        adder: how the head is moved: in a constant number of layers, or bit by bit as in the source.
        no_correction: leave the rounding after every layer out.
        soft: softmax attention in place of hard-max.
        input_length: the longest word that can be read; T + 1 letters unless given.
        missing: what a transition that is not there means, where the file does not say.
        unfinished: compile even if T steps are too few for the inputs.
    """
    require(not (soft and options.margin), "margins are bounded for hard attention; leave out --soft or --margin")
    from krogh.cli.networks import present
    from krogh.networks.machines import compiled
    from krogh.programs.machines.library import load_machine_file
    from krogh.programs.machines.running import require_halts

    def compile_file() -> compiled.CompiledMachine:
        source = load_machine_file(file, missing)
        default = source.machine.default_input
        words = list(dict.fromkeys((*input, *([] if default is None else [default]))))
        network = compiled.compile_machine(
            source.machine,
            steps,
            input_length=input_length,
            adder=adder,
            correction=not no_correction,
            attention="soft" if soft else "hard",
            words=words,
        )
        if not unfinished:
            require_halts(source.machine, words, steps)
        return network.trying(example.word for example in source.examples)

    return present("machine", file, compile_file, options)


@compile_.command(name="regex")
def compile_regex(
    pattern: str,
    /,
    *,
    alphabet: str | None = None,
    length: int | None = None,
    correction: Flag = False,
    options: NetworkOptions = PLAIN,
) -> int:
    """Compile a regular expression to a recurrent network, or to one pass of attention.

    With --check it is compared with the automaton: on all steps, all short words and random longer ones.

    Args:
        pattern: a regular expression that matches whole words, as Python's re.fullmatch does.
        alphabet: the symbols of words, as in 01; those that the pattern mentions unless given.
        length: compile to attention that counts, for words of this length, where only counts matter.
        correction: round after every step of the recurrent network.
    """
    from krogh.programs.automata.regex import from_regex

    return _present_automaton("regex", pattern, lambda: from_regex(pattern, alphabet), length, correction, options)


@compile_.command(name="automaton")
def compile_automaton(
    file: Path,
    /,
    *,
    missing: Literal["refuse", "reject"] = "refuse",
    length: int | None = None,
    correction: Flag = False,
    options: NetworkOptions = PLAIN,
) -> int:
    """Compile a finite automaton to a recurrent network, or to one pass of attention.

    With --check it is compared with the automaton: on all steps, all short words and random longer ones.

    Args:
        file: an automaton in YAML: alphabet, start state, accept, table.
        missing: what a transition that is not there means.
        length: compile to attention that counts, for words of this length, where only counts matter.
        correction: round after every step of the recurrent network.
    """
    from krogh.programs.automata.files import load_automaton

    return _present_automaton(
        "automaton", str(file), lambda: load_automaton(file, missing), length, correction, options
    )


def _present_automaton(
    kind: str,
    source: str,
    automaton: Callable[[], Automaton],
    length: int | None,
    correction: bool,
    options: NetworkOptions,
) -> int:
    """As a recurrent network, or for words of one length as attention that counts."""
    from krogh.cli.networks import present
    from krogh.networks.automata import compile_automaton
    from krogh.networks.counting import compile_counting

    if length is None:
        return present(kind, source, lambda: compile_automaton(automaton(), correction=correction), options)
    require(not correction, "--correction belongs to the recurrent network; leave it out with --length")
    return present(kind, source, lambda: compile_counting(automaton(), length), options)


@trace_.command(name="machine")
def trace_machine(
    file: str,
    input: str,
    /,
    *,
    steps: int | None = None,
    adder: Adder = "look-ahead",
    no_correction: Flag = False,
    soft: Flag = False,
    missing: Missing | None = None,
    window: int = 15,
    json: Flag = False,
) -> int:
    """Run a Turing machine and its transformer side by side, step by step.

    Args:
        file: a machine in the YAML of turingmachine.io, or one of `krogh list machines`.
        input: the word on the tape; "" is the empty one.
        steps: how many steps, at most; until the machine halts, within 1,000 steps, unless given.
        adder: how the head is moved: in a constant number of layers, or bit by bit as in the source.
        no_correction: leave the rounding after every layer out.
        soft: softmax attention in place of hard-max.
        missing: what a transition that is not there means, where the file does not say.
        window: how many cells of the tape are shown.
        json: print JSON.
    """
    from krogh.cli.tracing import present_trace
    from krogh.programs.machines.library import load_machine

    options = {"adder": adder, "correction": not no_correction, "attention": "soft" if soft else "hard"}
    return present_trace(load_machine(file, missing), input, steps, options, window, json)
