"""Programs are released: a process may train any number of structures, and its maps and memory level off."""

from __future__ import annotations

import gc
from collections import OrderedDict
from concurrent.futures import wait
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import krogh
from krogh.engine import Usage, compiling, memory, program, run_cohorts, shapes
from krogh.engine.checking import FAILED, RUNNING
from krogh.engine.lane import Lane
from krogh.engine.memory import Plan

needs_maps = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="a count of Linux")


def maps() -> int:
    return Path("/proc/self/maps").read_text().count("\n")


def resident() -> float:
    """MiB of memory that this process occupies."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def tiny(width: int, seed: int = 0) -> krogh.Trial:
    stopping = krogh.Stopping(budget=10, validation=10)
    training = krogh.Training(krogh.Sgd(rate=0.1), krogh.Online(batch_size=4), stopping)
    return krogh.Trial(krogh.Parity(n=6, k=2), krogh.Mlp(width + 2), training, seed=seed)


def fail_at_once(trials, states, fresh, rounds, blocks, *, block):
    """Stands for `program.advance`, which takes seconds to compile: every trial fails, its weights are its seed."""
    running = fresh | (states.status == RUNNING)
    seeds = trials.seed.astype(jnp.float32)
    params = {name: leaf + seeds.reshape(-1, *[1] * (leaf.ndim - 1)) for name, leaf in states.params.items()}
    status = jnp.where(running, jnp.int32(FAILED), states.status)
    return states._replace(status=status, params=params), rounds * blocks


@pytest.fixture
def quick(monkeypatch):
    """Programs that take a tenth of a second to compile, and none of other tests."""
    compiling.release()
    monkeypatch.setattr(program, "advance", fail_at_once)
    yield
    compiling.release()


@pytest.fixture
def few_recent(monkeypatch):
    compiling.release()
    monkeypatch.setattr(compiling, "RECENT", 2)


def train_many(widths) -> list[tuple[int, float]]:
    """Maps and memory after each structure, one run each."""
    seen = []
    for width in widths:
        usage = Usage()
        krogh.run(tiny(width), usage=usage)
        assert usage.compilations == 1
        seen.append((maps(), resident()))
    return seen


def check_level(seen: list[tuple[int, float]], warm: int, mebibytes: float) -> None:
    """After the first `warm` structures neither maps nor memory follow the number of structures."""
    counts, memory_ = np.array(seen).T
    third = (len(seen) - warm) // 3
    early, late = counts[warm : warm + third].max(), counts[-third:].max()
    assert late <= early + 20, f"memory maps grew from {early} to {late}"
    grown = memory_[-third:].min() - memory_[warm : warm + third].max()
    assert grown < mebibytes, f"memory grew by {grown:.0f} MiB"


@pytest.mark.slow
@needs_maps
def test_maps_and_memory_level_off(quick, monkeypatch):
    monkeypatch.setattr(compiling, "RECENT", 4)
    monkeypatch.setattr(compiling, "FORGET_EVERY", 8)
    check_level(train_many(range(1, 41)), warm=10, mebibytes=10)


@pytest.mark.slow
@needs_maps
def test_hundreds_of_structures_in_one_process(quick):
    check_level(train_many(range(1, 251)), warm=70, mebibytes=20)


@pytest.mark.slow
@needs_maps
def test_real_programs_level_off(few_recent):
    check_level(train_many(range(1, 31)), warm=6, mebibytes=30)


@needs_maps
def test_each_program_is_real(quick):
    """What the counts above would be if programs were kept."""
    compiling.request_program(tiny(9), Plan(1, 1), jax.local_devices()[0])[
        0
    ].result()  # what the first one leaves for ever
    before = maps()
    held = [compiling.request_program(tiny(width), Plan(1, 1), jax.local_devices()[0])[0] for width in range(1, 9)]
    for future in held:
        future.result()
    after = maps()
    del future, held
    compiling.release()
    gc.collect()
    assert after - before >= 8 and maps() - before < (after - before) / 4


def test_recent_programs_are_not_compiled_again(quick, monkeypatch):
    monkeypatch.setattr(compiling, "RECENT", 3)
    for usage, compiled in ((Usage(), 1), (Usage(), 0)):
        krogh.run(tiny(3), usage=usage)
        assert usage.compilations == compiled
    for width in range(4, 4 + compiling.RECENT):
        krogh.run(tiny(width))
    krogh.run(tiny(3), usage=usage)
    assert usage.compilations == 1, "it was long ago"


def test_one_compilation_per_structure_however_many_come_between(quick, monkeypatch):
    """Cohorts of one structure, at the beginning and at the end of a study, share its program."""
    monkeypatch.setattr(compiling, "RECENT", 0)
    widths = [3, 4, 5, 6, 7, 8, 9, 3, 4]
    cohorts = [cohort for place, width in enumerate(widths) for cohort in krogh.stack([tiny(width, seed=place)])]
    usage, weights = Usage(), {}
    records = run_cohorts(cohorts, [np.arange(1)] * len(cohorts), usage=usage, keep_weights=True)
    for place, finished in records:
        if finished is not None:
            weights[place] = float(finished.weights["b"][0, 0])
    assert usage.compilations == len(set(widths))
    assert weights == {place: float(place) for place in range(len(widths))}
    gc.collect()
    assert not compiling._PROGRAMS, "nobody holds them any more"


def test_a_lane_holds_the_program_of_its_last_trials(base, quick, monkeypatch):
    """The smaller block is asked for when a lane opens and again when it is needed, and compiled once."""
    monkeypatch.setattr(compiling, "RECENT", 0)
    lane = Lane(krogh.sweep(base, seed=range(256))[0].fitted(), Plan(256, 256), jax.local_devices()[0])
    assert lane.usage.compilations == 2
    lane._request(lane._rung())
    assert lane.usage.compilations == 2


def test_footprints_are_bounded(monkeypatch):
    monkeypatch.setattr(shapes, "REMEMBERED", 3)
    monkeypatch.setattr(shapes, "_KNOWN", OrderedDict())
    sizes = [memory.footprint(tiny(width)).state for width in range(1, 6)]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1] and len(shapes._KNOWN) <= 3


@needs_maps
def test_release_drops_what_others_compiled(quick):
    """An experiment's own functions, with a trial as a static argument."""
    function = jax.jit(lambda x, n: jnp.sort(x + jnp.float32(n))[::-1], static_argnums=1)
    function(jnp.ones(5), 0)
    wait(list(compiling._PROGRAMS.values()))  # nothing of an earlier test may still be under way
    before = maps()
    for n in range(1, 13):
        function(jnp.ones(5), n)
    between = maps()
    compiling.release()
    gc.collect()
    assert between - before >= 12 and maps() - before < (between - before) / 4
