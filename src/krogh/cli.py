"""The command line: `krogh list | show | run | report | predict | construct | compile | trace | bench`.

Nothing here imports JAX: each command imports what it needs when it is called, so that `krogh --help` is instant.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from krogh import __version__
from krogh.errors import KroghError

Kind = Literal["tasks", "models", "probes", "experiments", "predictions", "constructions", "machines"]
Flag = Annotated[bool, Parameter(negative="")]

app = App(
    name="krogh",
    version=__version__,
    help="A laboratory for model systems of deep learning: check a claim, study something new, build a network by "
    "hand, run it big.",
    help_format="plaintext",
)


@app.command(name="list")
def list_(kind: Kind | None = None, /, *, json: Annotated[bool, Parameter(negative="")] = False) -> int:
    """List what there is.

    Parameters
    ----------
    kind: one kind of thing; all kinds but the library of machines unless given.
    json: print JSON.
    """
    if kind == "machines":
        from krogh.commands import compiling_machines

        return compiling_machines.list_machines(json)
    from krogh.commands import inspecting

    return inspecting.list_things(kind, json)


@app.command
def show(name: str, /, *, json: Annotated[bool, Parameter(negative="")] = False) -> int:
    """Show one thing: what it is, its source, its parameters or settings.

    Parameters
    ----------
    name: a task, model, probe, experiment, prediction or construction.
    json: print JSON.
    """
    from krogh.commands import inspecting

    return inspecting.show_thing(name, json)


@app.command
def run(
    *names: str,
    scale: str = "laptop",
    out: Path | None = None,
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    weights: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
    strict: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Run experiments; running again resumes what is unfinished and trains nothing twice.

    Parameters
    ----------
    names: experiments, or patterns such as 'parity/*'.
    scale: smoke (seconds), laptop (minutes on two cores) or paper (as published; a GPU).
    out: folder for the studies; runs/SCALE unless given.
    set_: change a setting, as key=value; may be repeated. `krogh show NAME` lists the settings.
    weights: keep the trained weights as safetensors.
    json: print the claims as JSON.
    strict: exit with 1 when a claim is not reproduced.
    """
    from krogh.commands import running

    return running.run_experiments(names, scale, out, set_, weights=weights, as_json=json, strict=strict)


@app.command
def report(folder: Path, /, *, out: Path | None = None) -> int:
    """Write one page, readable offline, with the claims and figures of the studies in a folder.

    Parameters
    ----------
    folder: a folder of studies, or one study.
    out: the page to write; FOLDER/index.html unless given.
    """
    from krogh.report import write_report

    print(write_report(folder, out))
    return 0


@app.command
def predict(name: str, /, *settings: str, json: Annotated[bool, Parameter(negative="")] = False) -> int:
    """Evaluate a prediction: a theorem as a function that returns numbers.

    Parameters
    ----------
    name: a prediction; `krogh list predictions` lists them.
    settings: its parameters, as key=value.
    json: print JSON.
    """
    from krogh.commands import inspecting

    return inspecting.predict_numbers(name, settings, json)


@app.command
def construct(
    name: str,
    /,
    *settings: str,
    out: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Write weights down by hand and check what they compute.

    Parameters
    ----------
    name: a construction; `krogh list constructions` lists them.
    settings: its parameters, as key=value.
    out: a safetensors file for the weights.
    json: print JSON.
    """
    from krogh.commands import inspecting

    return inspecting.construct_weights(name, settings, out, json)


compile_ = App(name="compile", help="Write the weights of a network that runs a program, and check what they compute.")
trace_ = App(name="trace", help="Show what a program and its network do, step by step.")
app.command(compile_)
app.command(trace_)


@compile_.command(name="circuit")
def compile_circuit(
    file: Path,
    /,
    *,
    width: int | None = None,
    depth: int | None = None,
    no_correction: Flag = False,
    dangling: Literal["refuse", "drop", "keep"] = "refuse",
    check: Flag = False,
    margin: Flag = False,
    restarts: int | None = None,
    refinements: int | None = None,
    out: Path | None = None,
    json: Flag = False,
) -> int:
    """Compile a Boolean circuit to a ReLU network.

    Parameters
    ----------
    file: a circuit: AIGER (.aag, .aig) or text (.circuit, .ckt, .txt).
    width: units of a hidden layer; as many as needed unless given.
    depth: hidden layers; as many as needed unless given.
    no_correction: leave the rounding after every layer of gates out.
    dangling: what to do with gates that no output depends on.
    check: compare with the circuit, on all inputs up to 16 and on 100,000 random ones beyond.
    margin: bound the all-layer margin from below (certificate) and from above (attack).
    restarts: of the attack; as many as take some seconds unless given.
    refinements: of the attack, for each restart.
    out: a safetensors file for the weights.
    json: print JSON.
    """
    from krogh.commands import compiled_report, compiling

    wanted = compiled_report.Wanted(check, margin, out, json, restarts, refinements)
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
    check: Flag = False,
    margin: Flag = False,
    restarts: int | None = None,
    refinements: int | None = None,
    out: Path | None = None,
    json: Flag = False,
) -> int:
    """Compile a Turing machine to a transformer that runs it.

    Parameters
    ----------
    file: a machine in the YAML of turingmachine.io, or one of `krogh list machines`.
    steps: how many steps T the transformer runs; the machine's own input must need no more.
    input: a word that must be done within T steps, and is checked; may be repeated.
    adder: how the head is moved: in a constant number of layers, or bit by bit as in the source.
    no_correction: leave the rounding after every layer out.
    soft: softmax attention in place of hard-max.
    input_length: the longest word that can be read; T + 1 letters unless given.
    missing: what a transition that is not there means, where the file does not say.
    unfinished: compile even if T steps are too few for the inputs.
    check: compare with the interpreter at every step, on short words, the file's examples and the inputs.
    margin: bound the all-layer margin from below (certificate) and from above (attack).
    restarts: of the attack; as many as take some seconds unless given.
    refinements: of the attack, for each restart.
    out: a safetensors file for the weights.
    json: print JSON.
    """
    from krogh.commands import compiled_report, compiling_machines

    wanted = compiled_report.Wanted(check, margin, out, json, restarts, refinements)
    return compiling_machines.compile_machine_file(
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
    check: Flag = False,
    margin: Flag = False,
    restarts: int | None = None,
    refinements: int | None = None,
    out: Path | None = None,
    json: Flag = False,
) -> int:
    """Compile a regular expression to a recurrent network, or to one pass of attention.

    Parameters
    ----------
    pattern: a regular expression that matches whole words, as Python's re.fullmatch does.
    alphabet: the symbols of words, as in 01; those that the pattern mentions unless given.
    length: compile to attention that counts, for words of this length, where only counts matter.
    correction: round after every step of the recurrent network.
    check: compare with the automaton, on all steps, all short words and random longer ones.
    margin: bound the all-layer margin from below (certificate) and from above (attack).
    restarts: of the attack; as many as take some seconds unless given.
    refinements: of the attack, for each restart.
    out: a safetensors file for the weights.
    json: print JSON.
    """
    from krogh.commands import compiled_report, compiling

    wanted = compiled_report.Wanted(check, margin, out, json, restarts, refinements)
    return compiling.compile_pattern(pattern, alphabet, length, correction, wanted)


@compile_.command(name="automaton")
def compile_automaton(
    file: Path,
    /,
    *,
    missing: Literal["refuse", "reject"] = "refuse",
    length: int | None = None,
    correction: Flag = False,
    check: Flag = False,
    margin: Flag = False,
    restarts: int | None = None,
    refinements: int | None = None,
    out: Path | None = None,
    json: Flag = False,
) -> int:
    """Compile a finite automaton to a recurrent network, or to one pass of attention.

    Parameters
    ----------
    file: an automaton in YAML: alphabet, start state, accept, table.
    missing: what a transition that is not there means.
    length: compile to attention that counts, for words of this length, where only counts matter.
    correction: round after every step of the recurrent network.
    check: compare with the automaton, on all steps, all short words and random longer ones.
    margin: bound the all-layer margin from below (certificate) and from above (attack).
    restarts: of the attack; as many as take some seconds unless given.
    refinements: of the attack, for each restart.
    out: a safetensors file for the weights.
    json: print JSON.
    """
    from krogh.commands import compiled_report, compiling

    wanted = compiled_report.Wanted(check, margin, out, json, restarts, refinements)
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

    Parameters
    ----------
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
    from krogh.commands import tracing

    return tracing.trace_machine(file, input, steps, adder, not no_correction, soft, missing, window, json)


@app.command
def verify(
    *names: str,
    scale: str = "smoke",
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Compare what this machine's accelerator trains with what its CPU trains, over a few steps of the same trials.

    A compiler can be wrong on one kind of device, and networks that are trained wrongly often learn all the same.

    Parameters
    ----------
    names: experiments, or patterns such as 'parity/*'.
    scale: smoke, laptop or paper: whose trials.
    set_: change a setting, as key=value; may be repeated.
    json: print JSON.
    """
    from krogh.commands import verifying

    return verifying.verify_devices(names, scale, set_, json)


@app.command
def bench(
    *,
    seconds: float = 3.0,
    million: Annotated[bool, Parameter(negative="")] = False,
    out: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Measure throughput beside what one would write instead (PyTorch, if installed).

    Parameters
    ----------
    seconds: how long each contestant runs.
    million: also train a million trials of (n, k) = (30, 3) to convergence (for a GPU).
    out: a Markdown file whose section for this device is replaced by the measured table.
    json: print JSON.
    """
    from krogh.bench import run_benchmark

    return run_benchmark(seconds, million=million, out=out, as_json=json)


def main() -> None:
    """Entry point: a KroghError becomes one line on standard error and exit code 2."""
    try:
        code = app(sys.argv[1:], result_action="return_value")
    except KroghError as problem:
        print(f"krogh: {problem}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)
