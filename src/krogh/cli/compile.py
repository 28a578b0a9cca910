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
        seconds: that the attack may take; 10 unless given.
        restarts: of a search beside gradients; as many as the time allows unless given.
        refinements: of that search, for each restart.
        out: a safetensors file for the weights.
        torch: the same for PyTorch: NAME.safetensors, and NAME.py that loads it.
        json: print JSON.
    """

    check: Flag = False
    margin: Flag = False
    seconds: float | None = None
    restarts: int | None = None
    refinements: int | None = None
    out: Path | None = None
    torch: Path | None = None
    json: Flag = False


PLAIN = NetworkOptions()

Dangling = Literal["refuse", "drop"]
Adder = Literal["look-ahead", "ripple"]
Missing = Literal["halt", "reject", "error"]
Inputs = Annotated[tuple[str, ...], Parameter(name="--input", negative="")]

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
    steps: int | None = None,
    input: Inputs = (),
    options: NetworkOptions = PLAIN,
) -> int:
    """Compile a Boolean circuit to a ReLU network.

    With --check it is compared with the circuit: on all inputs where there are at most 16, else on random ones,
    100,000 or as many as fit into the memory that a check may have.

    Args:
        file: a circuit: AIGER (.aag, .aig), BLIF (.blif) or text (.circuit, .ckt, .txt).
        width: units of a hidden layer; as many as needed unless given.
        depth: hidden layers; as many as needed unless given.
        no_correction: leave the rounding after every layer of gates out.
        dangling: what to do with gates that no output depends on.
        steps: for how many steps a circuit with latches is unrolled.
        input: bits (0110) or names (a=1,b=0): what circuit and network make of them is shown; may be repeated.
    """
    from krogh.cli.circuits import about_circuit
    from krogh.cli.networks import present
    from krogh.networks import circuits
    from krogh.programs.circuits.files import load_circuit

    shape: dict[str, Any] = {"width": width, "depth": depth, "correction": not no_correction, "dangling": dangling}
    make = lambda: circuits.compile_circuit(load_circuit(file, dangling, steps), **shape)  # noqa: E731
    return present("circuit", str(file), make, options, lambda network: about_circuit(network, input))


@compile_.command(name="machine")
def compile_machine(
    file: str,
    /,
    *,
    steps: int | None = None,
    input: Inputs = (),
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
        steps: how many steps T the transformer runs; as many as the inputs and the file's own need unless given.
        input: a word: what machine and network make of it is shown, and it is checked; may be repeated. Symbols that
            the table does not name have no instruction.
        adder: how the head is moved: in a constant number of layers, or bit by bit as in the source.
        no_correction: leave the rounding after every layer out; not with --soft, whose leaks it rounds away.
        soft: softmax attention in place of hard-max.
        input_length: the longest word that can be read; T + 1 letters unless given.
        missing: where there is no instruction, halt there (the default), reject, or refuse the file (error).
        unfinished: compile even if T steps are too few for the inputs; 20 unless given where the machine never halts.
    """
    require(not (soft and options.margin), "margins are bounded for hard attention; leave out --soft or --margin")
    from krogh.cli import evaluating
    from krogh.cli.networks import present
    from krogh.networks.machines import compiled
    from krogh.programs.machines.library import load_machine_file
    from krogh.programs.machines.running import require_halts

    why = ""  # T is what it is, where it was chosen here

    def compile_file() -> compiled.CompiledMachine:
        nonlocal why
        source = load_machine_file(file, missing, input)
        words, enough = evaluating.words_of(source, input), steps
        if enough is None:
            enough, why = evaluating.enough_steps(source.machine, words, unfinished)
        network = compiled.compile_machine(
            source.machine,
            enough,
            input_length=input_length,
            adder=adder,
            correction=not no_correction,
            attention="soft" if soft else "hard",
            words=words if steps is None else evaluating.asked_for(source, input),
        )
        if not unfinished and steps is not None:
            require_halts(source.machine, network.words, steps)
        return network.trying(example.word for example in source.examples)

    return present(
        "machine", file, compile_file, options, lambda network: evaluating.about_machine(network, input, why)
    )


@compile_.command(name="regex")
def compile_regex(
    pattern: str,
    /,
    *,
    alphabet: str | None = None,
    length: int | None = None,
    correction: Flag = False,
    input: Inputs = (),
    options: NetworkOptions = PLAIN,
) -> int:
    """Compile a regular expression to a recurrent network, or to one pass of attention.

    With --check it is compared with the automaton: on all steps, all short words and random longer ones.

    Args:
        pattern: a regular expression that matches whole words, as Python's re.fullmatch does.
        alphabet: the symbols of words, as in 01; else those that the pattern mentions, ASCII's for \\d, \\w, \\s.
        length: compile to attention that counts, for words of this length, where only counts matter.
        correction: round after every step of the recurrent network.
        input: a word: what automaton and network make of it is shown; may be repeated.
    """
    from krogh.programs.automata.regex import from_regex

    make = lambda: from_regex(pattern, alphabet)  # noqa: E731
    return _present_automaton("regex", pattern, make, length, correction, input, options)


@compile_.command(name="automaton")
def compile_automaton(
    file: Path,
    /,
    *,
    missing: Literal["reject", "error"] = "reject",
    length: int | None = None,
    correction: Flag = False,
    input: Inputs = (),
    options: NetworkOptions = PLAIN,
) -> int:
    """Compile a finite automaton to a recurrent network, or to one pass of attention.

    With --check it is compared with the automaton: on all steps, all short words and random longer ones.

    Args:
        file: an automaton in YAML: alphabet, start state, accept, table.
        missing: where there is no transition, reject (the default) or refuse the file (error).
        length: compile to attention that counts, for words of this length, where only counts matter.
        correction: round after every step of the recurrent network.
        input: a word: what automaton and network make of it is shown; may be repeated.
    """
    from krogh.programs.automata.files import load_automaton

    make = lambda: load_automaton(file, missing)  # noqa: E731
    return _present_automaton("automaton", str(file), make, length, correction, input, options)


def _present_automaton(
    kind: str,
    source: str,
    automaton: Callable[[], Automaton],
    length: int | None,
    correction: bool,
    inputs: tuple[str, ...],
    options: NetworkOptions,
) -> int:
    """As a recurrent network, or for words of one length as attention that counts."""
    from krogh.cli.evaluating import about_automaton
    from krogh.cli.networks import present
    from krogh.networks.automata import compile_automaton
    from krogh.networks.counting import compile_counting

    def about(network: Any) -> Any:
        return about_automaton(network, inputs)

    if length is None:
        return present(kind, source, lambda: compile_automaton(automaton(), correction=correction), options, about)
    require(not correction, "--correction belongs to the recurrent network; leave it out with --length")
    return present(kind, source, lambda: compile_counting(automaton(), length), options, about)


@trace_.command(name="circuit")
def trace_circuit(
    file: Path,
    /,
    *,
    input: str,
    no_correction: Flag = False,
    dangling: Dangling = "refuse",
    steps: int | None = None,
    window: int = 48,
    svg: Path | None = None,
    json: Flag = False,
) -> int:
    """Run a Boolean circuit and its ReLU network side by side, layer by layer.

    Args:
        file: a circuit: AIGER (.aag, .aig), BLIF (.blif) or text (.circuit, .ckt, .txt).
        input: bits (0110) or names (a=1,b=0).
        no_correction: leave the rounding after every layer of gates out.
        dangling: what to do with gates that no output depends on.
        steps: for how many steps a circuit with latches is unrolled.
        window: how many gates of a layer are shown.
        svg: a file for the run as a picture.
        json: print JSON.
    """
    from krogh.cli.circuits import present_circuit
    from krogh.networks.circuits import compile_circuit as compiled
    from krogh.programs.circuits.files import load_circuit

    network = compiled(load_circuit(file, dangling, steps), correction=not no_correction, dangling=dangling)
    return present_circuit(network, input, window, json, svg)


@trace_.command(name="machine")
def trace_machine(
    file: str,
    input: str | None = None,
    /,
    *,
    steps: int | None = None,
    adder: Adder = "look-ahead",
    no_correction: Flag = False,
    soft: Flag = False,
    missing: Missing | None = None,
    window: int = 15,
    svg: Path | None = None,
    json: Flag = False,
) -> int:
    """Run a Turing machine and its transformer side by side, step by step.

    Args:
        file: a machine in the YAML of turingmachine.io, or one of `krogh list machines`.
        input: the word on the tape, "" is the empty one; the file's own unless given.
        steps: how many steps, at most; unless given until the machine halts, 20 if it does not within 1,000.
        adder: how the head is moved: in a constant number of layers, or bit by bit as in the source.
        no_correction: leave the rounding after every layer out; not with --soft, whose leaks it rounds away.
        soft: softmax attention in place of hard-max.
        missing: where there is no instruction, halt there (the default), reject, or refuse the file (error).
        window: how many cells of the tape are shown.
        svg: a file for the run as a picture.
        json: print JSON.
    """
    from krogh.cli.tracing import present_trace
    from krogh.programs.machines.library import load_machine

    options = {"adder": adder, "correction": not no_correction, "attention": "soft" if soft else "hard"}
    return present_trace(
        load_machine(file, missing, () if input is None else (input,)), input, steps, options, window, json, svg
    )


@trace_.command(name="regex")
def trace_regex(
    pattern: str,
    input: str,
    /,
    *,
    alphabet: str | None = None,
    correction: Flag = False,
    svg: Path | None = None,
    json: Flag = False,
) -> int:
    """Read a word with a regular expression's automaton and its recurrent network side by side.

    Args:
        pattern: a regular expression that matches whole words, as Python's re.fullmatch does.
        input: the word; "" is the empty one.
        alphabet: the symbols of words, as in 01; else those that the pattern mentions, ASCII's for \\d, \\w, \\s.
        correction: round after every step of the recurrent network.
        svg: a file for the run as a picture.
        json: print JSON.
    """
    from krogh.cli.tracing import present_word
    from krogh.programs.automata.regex import from_regex

    return present_word(from_regex(pattern, alphabet), input, correction, json, svg)


@trace_.command(name="automaton")
def trace_automaton(
    file: Path,
    input: str,
    /,
    *,
    missing: Literal["reject", "error"] = "reject",
    correction: Flag = False,
    svg: Path | None = None,
    json: Flag = False,
) -> int:
    """Read a word with a finite automaton and its recurrent network side by side.

    Args:
        file: an automaton in YAML: alphabet, start state, accept, table.
        input: the word; "" is the empty one.
        missing: where there is no transition, reject (the default) or refuse the file (error).
        correction: round after every step of the recurrent network.
        svg: a file for the run as a picture.
        json: print JSON.
    """
    from krogh.cli.tracing import present_word
    from krogh.programs.automata.files import load_automaton

    return present_word(load_automaton(file, missing), input, correction, json, svg)
