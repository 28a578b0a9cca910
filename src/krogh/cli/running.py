"""`krogh run`: experiments by name or pattern, with progress, into a folder that can be resumed."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from rich.markup import escape

from krogh import registry
from krogh.cli.inspecting import parse_settings, with_plugin
from krogh.cli.printing import console as console_for
from krogh.cli.verdicts import answer, print_claims
from krogh.engine import run_cohorts
from krogh.engine.compiling import release
from krogh.engine.devices import CHOICE
from krogh.engine.executor import Executor
from krogh.errors import require, unknown
from krogh.lab import remote
from krogh.lab.display import Display
from krogh.lab.experiment import SCALES
from krogh.lab.study import RETRAIN, REUSE, plan_study
from krogh.lab.tracking import open_log, run_logged
from krogh.report import write_report


def run_experiments(
    names: tuple[str, ...],
    scale: str,
    out: Path | str | None,
    changes: tuple[str, ...],
    *,
    weights: bool,
    as_json: bool,
    strict: bool,
    stale: str = "",
    log: str = "",
    plain: bool = False,
    executor: Executor = run_cohorts,
) -> int:
    folder = Path("runs") / scale if out is None else out
    chosen = matching(names, *([] if remote.is_url(folder) else [Path(folder)]))
    if log:
        open_log(log)  # what is not installed is said before anything is trained
    if stale not in ("", REUSE, RETRAIN):
        raise unknown("choice of --stale", stale, (REUSE, RETRAIN))
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    settings = parse_settings(changes)
    with remote.named(folder):
        planned = [  # whatever is wrong is refused before the first experiment trains
            plan_study(
                registry.EXPERIMENTS[name](),
                scale,
                folder,
                changes=settings,
                weights=weights,
                stale=stale,
                plain=plain,
                elsewhere=executor is not run_cohorts,
            )
            for name in chosen
        ]
    console = console_for(stderr=as_json)
    studies = []
    while planned:
        coming = planned.pop(0)  # a plan may hold a million trials: let go of it when it has run
        with Display(console, coming.experiment.name) as display:
            if log:
                study = run_logged(coming, log, display.show, write_report, executor=executor)
            else:
                study = coming.run(display.show, executor)
        if study.status != "complete":
            place = remote.address(folder, study.folder) or study.folder
            console.print(f"[yellow]interrupted[/yellow]: {place} can be resumed by the same command")
            return 130
        print_claims(console, study)
        studies.append(study)
        release()  # what the next experiment needs is its own
    where = escape(shlex.quote(str(folder)))
    console.print(f"[dim]kept in {where}; krogh report {where} makes a page[/dim]", highlight=False)
    if scale == SCALES[0]:
        console.print("[dim]smoke is too small to decide much: --scale laptop is for verdicts[/dim]", highlight=False)
    return answer(studies, as_json=as_json, strict=strict)


@contextlib.contextmanager
def trained_by(name: str, address: str | None = None) -> Iterator[Executor]:
    """What `--executor` asks for, as long as it is needed."""
    if name == "local":
        require(address is None, "--address is that of a Ray cluster: say --executor ray as well")
        yield run_cohorts
        return
    chosen = os.environ.get(CHOICE, "")
    remedy = "with Ray, say which of a node's GPUs it may use by CUDA_VISIBLE_DEVICES where the node is started"
    require(not chosen, f"--devices {chosen} chooses among the devices of this machine, for --executor local; {remedy}")
    import jax

    from krogh.engine.cluster import RayExecutor

    jax.config.update("jax_platforms", "cpu")  # a GPU of this machine belongs to its workers
    with RayExecutor(address) as executor:
        yield executor


def matching(names: tuple[str, ...], *folders: Path) -> list[str]:
    """The experiments that the names and patterns stand for, each once, in the order given.

    A study in one of the folders may know in which file an unknown one is.
    """
    known = list(registry.EXPERIMENTS)
    require(names, f"which experiment? krogh list experiments names all {len(known)}; 'parity/*' is all of a group")
    chosen: list[str] = []
    for name in names:
        matches = fnmatch.filter(known, name)
        group = fnmatch.filter(known, f"{name}/*")
        require(
            matches or not group, f"{name!r} is a group of {len(group)} experiments; say '{name}/*', or one of them"
        )
        if not matches:
            groups = sorted({f"{one.partition('/')[0]}/*" for one in known})
            problem = unknown("experiment", name, groups if name.endswith("/*") else known)
            raise with_plugin(problem, name, *folders)
        chosen += [one for one in matches if one not in chosen]
    return chosen
