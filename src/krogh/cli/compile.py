"""The command line's `krogh compile` and `krogh trace`: networks that are not trained but written down.

Nothing here imports JAX (see `krogh.cli`).

What may be asked of a compiled network on the command line, from whatever it is compiled.

Nothing here imports JAX (see `krogh.cli`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from krogh.errors import require, require_integer

Flag = Annotated[bool, Parameter(negative="")]


@Parameter(name="*")
@dataclass(frozen=True)
class Wanted:
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

    def require_possible(self) -> None:
        """Refuse what cannot work before anything is compiled."""
        for name, least in (("restarts", 1), ("refinements", 0)):
            if getattr(self, name) is not None:
                require_integer(name, getattr(self, name), least)
                require(self.margin, f"--{name} belongs to --margin; got {name}={getattr(self, name)}")
        if self.out is not None:
            named = self.out.name not in ("", "..") and not self.out.is_dir()
            suggested = str(self.out / "weights.safetensors")
            require(named, f"weights are written to a file; got {str(self.out)!r} (try {suggested!r})")
            there = self.out.parent.is_dir()
            require(there, f"the weights cannot be written to {str(self.out)!r}: no folder {str(self.out.parent)!r}")


NOTHING = Wanted()

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
    dangling: Literal["refuse", "drop", "keep"] = "refuse",
    wanted: Wanted = NOTHING,
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
    wanted.require_possible()
    from krogh.cli import compiling

    return compiling.compile_circuit_file(file, width, depth, not no_correction, dangling, wanted)


@compile_.command(name="machine")
def compile_machine(
    file: str,
    /,
    *,
    steps: int,
    input: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    adder: Literal["look-ahead", "ripple"] = "look-ahead",
    no_correction: Flag = False,
    soft: Flag = False,
    input_length: int | None = None,
    missing: Literal["refuse", "reject", "halt"] | None = None,
    unfinished: Flag = False,
    wanted: Wanted = NOTHING,
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
    wanted.require_possible()
    from krogh.cli import compiling

    return compiling.compile_machine_file(
        file, steps, input, adder, not no_correction, soft, input_length, missing, unfinished, wanted
    )


@compile_.command(name="regex")
def compile_regex(
    pattern: str,
    /,
    *,
    alphabet: str | None = None,
    length: int | None = None,
    correction: Flag = False,
    wanted: Wanted = NOTHING,
) -> int:
    """Compile a regular expression to a recurrent network, or to one pass of attention.

    With --check it is compared with the automaton: on all steps, all short words and random longer ones.

    Args:
        pattern: a regular expression that matches whole words, as Python's re.fullmatch does.
        alphabet: the symbols of words, as in 01; those that the pattern mentions unless given.
        length: compile to attention that counts, for words of this length, where only counts matter.
        correction: round after every step of the recurrent network.
    """
    wanted.require_possible()
    from krogh.cli import compiling

    return compiling.compile_pattern(pattern, alphabet, length, correction, wanted)


@compile_.command(name="automaton")
def compile_automaton(
    file: Path,
    /,
    *,
    missing: Literal["refuse", "reject"] = "refuse",
    length: int | None = None,
    correction: Flag = False,
    wanted: Wanted = NOTHING,
) -> int:
    """Compile a finite automaton to a recurrent network, or to one pass of attention.

    With --check it is compared with the automaton: on all steps, all short words and random longer ones.

    Args:
        file: an automaton in YAML: alphabet, start state, accept, table.
        missing: what a transition that is not there means.
        length: compile to attention that counts, for words of this length, where only counts matter.
        correction: round after every step of the recurrent network.
    """
    wanted.require_possible()
    from krogh.cli import compiling

    return compiling.compile_automaton_file(file, missing, length, correction, wanted)


@trace_.command(name="machine")
def trace_machine(
    file: str,
    input: str,
    /,
    *,
    steps: int | None = None,
    adder: Literal["look-ahead", "ripple"] = "look-ahead",
    no_correction: Flag = False,
    soft: Flag = False,
    missing: Literal["refuse", "reject", "halt"] | None = None,
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
    from krogh.cli import tracing

    return tracing.trace_machine(file, input, steps, adder, not no_correction, soft, missing, window, json)
