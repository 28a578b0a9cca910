"""The command line: krogh list, show, init, plan, run, judge, report, replay, compare, predict, construct, compile,
trace, verify, doctor, bench.

Nothing here imports JAX: each command imports what it needs when it is called, so that `krogh --help` is instant.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from krogh import __version__
from krogh.cli.compile import Flag, NetworkOptions, compile_, trace_
from krogh.errors import ClusterLost, KroghError
from krogh.saying import printable

Kind = Literal[
    "tasks", "models", "probes", "views", "experiments", "predictions", "constructions", "machines", "phenomena"
]

Place = str
"""A folder, or a URL of a shared one (docs/stores.md): as text, since a path would lose one of its slashes."""
Plugin = Annotated[tuple[Path, ...], Parameter(name="--plugin", negative="")]
"""Python files of one's own."""

app = App(
    name="krogh",
    version=__version__,
    help="A laboratory for model systems of deep learning: check a claim, study something new, build a network by "
    "hand, run it big.",
    help_format="plaintext",
    help_epilogue="Begin with krogh list experiments, krogh show parity/scaling, krogh run parity/scaling "
    "--scale smoke, krogh report runs/smoke; krogh init task my-task for one of your own.",
    error_formatter=lambda problem: f"krogh: {problem}",
    default_parameter=Parameter(
        show_default=lambda value: None if value is False or value in (None, "", ()) else str(value)
    ),
    suppress_keyboard_interrupt=False,  # `main` sees to it
)
app.register_install_completion_command()
app.command(compile_)
app.command(trace_)


@app.command(name="list")
def list_(kind: Kind | None = None, /, *, plugin: Plugin = (), json: Flag = False) -> int:
    """List what there is.

    Args:
        kind: one kind of thing; all kinds but the library of machines and the overview of phenomena unless given.
        plugin: a Python file that defines things of your own; may be repeated.
        json: print JSON.
    """
    from krogh.cli import inspecting

    _load(plugin)
    if kind == "machines":
        return inspecting.list_machines(json)
    if kind == "phenomena":
        return inspecting.list_phenomena(json)
    return inspecting.list_things(kind, json)


@app.command
def show(name: str, /, *, plugin: Plugin = (), json: Flag = False) -> int:
    """Show one thing: what it is, its source, its parameters or settings.

    Args:
        name: a task, model, probe, view, experiment, prediction or construction; or a format of files, such as
            group-file (`krogh show formats` has them all).
        plugin: a Python file that defines things of your own; may be repeated.
        json: print JSON.
    """
    from krogh.cli import formats, inspecting

    _load(plugin)
    return formats.show_format(name, json) if name in formats.NAMES else inspecting.show_thing(name, json)


@app.command
def run(
    *names: str,
    scale: str = "laptop",
    out: Place | None = None,
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    plugin: Plugin = (),
    weights: Flag = False,
    json: Flag = False,
    strict: Flag = False,
    stale: str = "",
    path: Literal["xla", "resident"] | None = None,
    devices: str = "",
    log: Literal["mlflow", "wandb"] | None = None,
    plain: Flag = False,
    executor: Literal["local", "ray"] = "local",
    address: str | None = None,
) -> int:
    """Run experiments; running again resumes what is unfinished and trains nothing twice.

    Args:
        names: experiments, or patterns such as 'parity/*'.
        scale: smoke (seconds), laptop (minutes on two cores) or paper (as published; a GPU).
        out: folder for the studies, or a URL such as s3://bucket/runs; runs/SCALE unless given.
        set_: change a setting, as key=value; may be repeated. `krogh show NAME` lists the settings.
        plugin: a Python file that defines things of your own; may be repeated.
        weights: keep the trained weights as safetensors.
        json: print the claims as JSON.
        strict: exit with 1 when a claim is not reproduced.
        stale: what to do with trials whose source has changed since they were trained: retrain or reuse.
        path: what trains: xla, the reference, or resident, the kernel for small networks on a GPU, and nothing else;
            whichever fits unless given.
        devices: numbers of the devices that train, such as 0,2; all unless given (`krogh doctor` lists them).
        log: log the studies to MLflow or Weights & Biases as well (docs/stores.md).
        plain: figures for a paper: no headline and no source in the picture.
        executor: where: local, this machine, or ray, a cluster.
        address: the Ray cluster to join (auto, host:port or ray://host:port); that of RAY_ADDRESS unless given, or else
            one on this machine for the time being.
    """
    if path:
        os.environ["KROGH_PATH"] = path
    if devices:
        os.environ["KROGH_DEVICES"] = devices
    from krogh.cli import running

    _load(plugin)
    with running.trained_by(executor, address) as chosen:
        return running.run_experiments(
            names,
            scale,
            out,
            set_,
            weights=weights,
            as_json=json,
            strict=strict,
            stale=stale,
            log=log or "",
            plain=plain,
            executor=chosen,
        )


@app.command
def plan(
    *names: str,
    scale: str = "laptop",
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    plugin: Plugin = (),
    weights: Flag = False,
    like: Place | None = None,
    seconds: float = 20.0,
    devices: str = "",
    json: Flag = False,
) -> int:
    """Say what running experiments would cost here: cohorts, compilations, trials, steps, hours, bytes.

    Some cohorts are trained for a few seconds to see how fast they are; only that is remembered.

    Args:
        names: experiments, or patterns such as 'parity/*'.
        scale: smoke, laptop or paper.
        set_: change a setting, as key=value; may be repeated.
        plugin: a Python file that defines things of your own; may be repeated.
        weights: count weights that would be kept.
        like: a folder with a finished study of the experiment, whose trials say how many steps they take; or its URL.
        seconds: how long to measure, about, for each experiment.
        devices: numbers of the devices that would train, such as 0,2; all unless given.
        json: print JSON.
    """
    if devices:
        os.environ["KROGH_DEVICES"] = devices
    from krogh.cli import planning

    _load(plugin)
    return planning.plan_experiments(names, scale, set_, weights=weights, like=like, seconds=seconds, as_json=json)


@app.command
def judge(
    folder: Place,
    /,
    *,
    plugin: Plugin = (),
    json: Flag = False,
    strict: Flag = False,
    plain: bool | None = None,
) -> int:
    """Redo the claims and figures of finished studies from their folders; nothing is trained or measured again.

    Args:
        folder: a folder of studies, or one study; or its URL.
        plugin: a Python file that defines things of your own; may be repeated.
        json: print the claims as JSON.
        strict: exit with 1 when a claim is not reproduced.
        plain: figures for a paper: no headline and no source in the picture; as they were unless given.
    """
    from krogh.cli import judging

    _load(plugin)
    return judging.judge_studies(folder, as_json=json, strict=strict, plain=plain)


@app.command
def report(folder: Place, /, *, out: Path | None = None, plugin: Plugin = ()) -> int:
    """Write one page, readable offline, with the claims and figures of the studies in a folder.

    Where an experiment has changed since its claims and figures were made, they are redone first (`krogh judge`).

    Args:
        folder: a folder of studies, or one study; or its URL.
        out: the page to write; FOLDER/index.html unless given.
        plugin: a Python file that defines things of your own; may be repeated.
    """
    from krogh.cli import judging

    _load(plugin)
    print(printable(str(judging.report_studies(folder, out))))
    return 0


@app.command
def replay(
    folder: Place, /, *, out: Path | None = None, trials: int = 8, frames: int = 120, plugin: Plugin = ()
) -> int:
    """Write one page, readable offline, that replays the training of a study's networks from their snapshots.

    A slider over time moves loss, phases and every view of the weights together (`krogh list views`).

    Args:
        folder: a study whose networks have snapshots (--set snapshots=...), or a folder that holds one such study;
            or its URL.
        out: the page to write; FOLDER/replay.html unless given.
        trials: how many trials the page has at most, the first of every configuration first.
        frames: how many moments of each.
        plugin: a Python file that defines things of your own; may be repeated.
    """
    from krogh.cli import judging

    _load(plugin)
    print(printable(str(judging.replay_study(folder, out, trials=trials, frames=frames))))
    return 0


@app.command
def compare(a: Place, b: Place, /, *, out: Path | None = None, plugin: Plugin = (), json: Flag = False) -> int:
    """Put two studies side by side, or all of two folders: settings, versions, claims with their numbers, costs.

    Studies are paired by name, and two that are given themselves whatever their names are. Two numbers are apart where
    the 95% interval of their difference, from their own two intervals as if they were independent, does not hold 0.
    Nothing is judged again: claims are compared as they stand in the folders.

    Args:
        a: a study, or a folder of studies; or its URL.
        b: another one.
        out: a page to write, readable offline.
        plugin: a Python file that defines things of your own; may be repeated.
        json: print JSON.
    """
    from krogh.cli import comparing

    _load(plugin)
    return comparing.compare_folders(a, b, out, as_json=json)


@app.command(name="init")
def init_(kind: Literal["task", "model", "probe", "experiment"], name: str, /, *, out: Path | None = None) -> int:
    """Write a file with a task, a model, a probe or an experiment of your own to begin with; it runs as it is.

    Args:
        kind: task, model, probe or experiment.
        name: what it is to be called, in lower case, such as sparse-majority, or mine/digits for an experiment.
        out: the Python file to write; one called after NAME, here, unless given.
    """
    from krogh.cli import beginning

    return beginning.write_skeleton(kind, name, out)


@app.command
def predict(name: str, /, *settings: str, plugin: Plugin = (), json: Flag = False) -> int:
    """Evaluate a prediction: a theorem as a function that returns numbers.

    Args:
        name: a prediction; `krogh list predictions` lists them.
        settings: its parameters, as key=value.
        plugin: a Python file that defines things of your own; may be repeated.
        json: print JSON.
    """
    from krogh.cli import inspecting

    _load(plugin)
    return inspecting.predict_numbers(name, settings, json)


@app.command(name="construct")
def construct_(
    name: str,
    /,
    *settings: str,
    out: Path | None = None,
    plugin: Plugin = (),
    json: Flag = False,
) -> int:
    """Write weights down by hand and check what they compute.

    Args:
        name: a construction; `krogh list constructions` lists them.
        settings: its parameters, as key=value.
        out: a safetensors file for the weights.
        plugin: a Python file that defines things of your own; may be repeated.
        json: print JSON.
    """
    from krogh.cli.inspecting import naming_parameters, parse_settings
    from krogh.cli.networks import present
    from krogh.networks.handmade import construct

    _load(plugin)
    options, given = NetworkOptions(check=True, out=out, json=json), parse_settings(settings)
    with naming_parameters(given):
        return present("construction", name, lambda: construct(name, **given), options)


@app.command
def verify(
    *names: str,
    scale: str = "smoke",
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    trials: int = 200,
    seconds: float | None = None,
    precision: Flag = False,
    plugin: Plugin = (),
    json: Flag = False,
) -> int:
    """Compare what this machine's accelerator computes with what its CPU computes, with the programs of a study.

    A compiler can be wrong on one kind of device, and networks that are trained or judged wrongly often learn all the
    same. Of each experiment's first and last structure, three things are compared: evaluation and one round of training
    with float64, within what rounding explains, and outcomes and convergence times of many trials with the CPU's. The
    chance that any of the latter is called different without being so is 1% at most. Exits with 1 on a disagreement.

    Args:
        names: experiments, or patterns such as 'parity/*'.
        scale: smoke, laptop or paper: whose trials.
        set_: change a setting, as key=value; may be repeated.
        trials: how many trials of a structure are trained to their ends, at most.
        seconds: how long the CPU trains them, and each of the other comparisons takes, about; 30 unless given.
        precision: measure instead what full float32 products cost on this accelerator (2 seconds a run unless given).
        plugin: a Python file that defines things of your own; may be repeated.
        json: print JSON.
    """
    from krogh.cli import verifying

    _load(plugin)
    longest = seconds if seconds is not None else 2.0 if precision else 30.0
    return verifying.verify_devices(
        names, scale, set_, trials=trials, seconds=longest, precision=precision, as_json=json
    )


@app.command
def doctor(*, json: Flag = False) -> int:
    """Say what is here: versions, devices, memory, which path trains what, caches; and train a little as a test.

    Exits with 1 when the test fails.

    Args:
        json: print JSON.
    """
    from krogh.cli import doctoring

    return doctoring.examine(json)


@app.command
def bench(
    *,
    seconds: float = 3.0,
    million: Flag = False,
    out: Path | None = None,
    json: Flag = False,
) -> int:
    """Measure throughput beside what one would write instead (PyTorch, if installed).

    Args:
        seconds: how long each contestant runs.
        million: also train a million trials of (n, k) = (30, 3) to convergence (for a GPU).
        out: a Markdown file whose section for this device is replaced by the measured table.
        json: print JSON.
    """
    from krogh.bench import run_benchmark

    return run_benchmark(seconds, million=million, out=out, as_json=json)


for _command in app:
    if not _command.startswith("-"):
        app[_command].help_epilogue = ""  # where to begin is said once


def _load(files: tuple[Path, ...]) -> None:
    """Import files of the user's own."""
    if files:
        from krogh.registry import load_file

        for file in files:
            load_file(file)


def main() -> None:
    """Entry point: bad input, and faults that lie outside, become one line on standard error and an exit code."""
    from krogh.cli.printing import close_quietly, console, fault, make_printable
    from krogh.interrupting import INTERRUPTED, leave, say_so
    from krogh.saying import say

    make_printable()
    if not sys.stdout.isatty():  # into a pipe or a file: no boxes, and no line broken at an edge that is not there
        app.help_formatter, app.console = "plain", console()
    if not sys.stderr.isatty():
        app.error_console = console(stderr=True)
    try:
        code = app(sys.argv[1:], result_action="return_value")
        sys.stdout.flush()
    except KroghError as problem:
        say(str(problem))
        if isinstance(problem, ClusterLost):  # without its head, Ray's library ends some processes by a signal
            leave(problem.code)
        sys.exit(problem.code)
    except KeyboardInterrupt:
        say_so()
        code = INTERRUPTED
    except Exception as problem:
        known = fault(problem)
        if known is None:
            raise
        ended, line = known
        close_quietly(sys.stdout) if not line else say(line)
        sys.exit(ended)
    if code == INTERRUPTED:
        leave()
    sys.exit(code if isinstance(code, int) else 0)
