"""Memory: the plan keeps to its limit, and running out of memory costs time, not trials."""

from __future__ import annotations

import threading
from itertools import pairwise
from types import SimpleNamespace

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import krogh
from krogh.engine import Usage, compiling, devices, executor, memory
from krogh.engine.lane import CHUNK_SECONDS, Lane
from krogh.engine.memory import CPU_SLOTS, GPU_BLOCK, GPU_BLOCKS, Plan, footprint, plan
from krogh.errors import KroghError, TooLarge
from krogh.experiments.chains.common import ChainSettings
from krogh.values import replaced

CPU, GPU = SimpleNamespace(platform="cpu"), SimpleNamespace(platform="gpu")


def test_the_footprint_grows_with_every_size(base):
    def grows(path, values, trial=base):
        sizes = [footprint(replaced(trial, path, value)) for value in values]
        assert all(a.work < b.work for a, b in pairwise(sizes)), path
        assert all(a.state <= b.state for a, b in pairwise(sizes)), path

    grows("model.width", [8, 16, 64, 512])
    grows("training.regime.batch_size", [1, 8, 64, 512])
    grows("training.stopping.validation", [100, 1000, 100_000])
    for regime in (krogh.Offline(m=10, batch_size=8), krogh.FullBatch(m=10)):
        finite = replaced(base, "training.regime", regime)
        grows("training.regime.capacity", [10, 100, 10_000], finite)
        sizes = [footprint(replaced(finite, "training.regime.capacity", m)).state for m in (10, 10_000)]
        assert sizes[1] - sizes[0] >= 4 * 9_990  # a word per input, at the least


@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("count", [1, 5, 100_000])
def test_plans_shrink_with_the_limit_and_keep_to_it(base, device, count):
    size = footprint(base)
    plans = [plan(base, count, device, limit) for limit in (10**12, 10**9, 10**7, 10**6, 10**5, 10**4, 100, 0)]
    assert all(a.block >= b.block for a, b in pairwise(plans))
    assert all(chosen.slots < count + chosen.block for chosen in plans if device is GPU)  # no block stays empty
    assert plans[-1] == Plan(GPU_BLOCKS if device is GPU and count > 1 else 1, 1)
    for limit, chosen in zip((10**12, 10**9, 10**7, 10**6), plans, strict=False):
        assert chosen.slots % chosen.block == 0
        assert chosen.slots * size.state + chosen.block * size.work <= limit
    if device is CPU:
        assert all(chosen.block == 1 and chosen.slots <= CPU_SLOTS for chosen in plans)


@pytest.fixture(scope="module")
def chains():
    settings = ChainSettings(length=30, steps=40, validation=600)
    return settings.trial(settings.chains(3))


@pytest.mark.parametrize("count", [1, 5, 20, 50, 1000])
@pytest.mark.parametrize("room", [0, 1, 3, 7, 20, 10_000])
def test_trials_that_run_their_whole_budget_have_as_few_blocks_as_fit(chains, count, room):
    size = footprint(chains)
    limit = room * (size.work + GPU_BLOCKS * size.state)
    chosen = plan(chains, count, GPU, limit)
    passes = -(-count // max(1, min(room, GPU_BLOCK)))
    assert chosen.block * passes - count < passes  # each pass but for one trial full
    assert chosen.slots == chosen.block * min(GPU_BLOCKS, passes)
    assert room == 0 or chosen.slots * size.state + chosen.block * size.work <= limit


@pytest.mark.slow
def test_probes_and_checks_of_a_whole_block_are_part_of_its_footprint(chains):
    scores = 4 * chains.task.length**2  # bytes of the scores of a sequence, in each of two layers
    probed = footprint(chains).work
    alone = footprint(replaced(chains, "probes", ()))
    assert probed > alone.work and probed >= 2 * 600 * scores
    assert alone.work >= 2 * chains.training.stopping.prefix * scores
    longer = footprint(replaced(chains, "training.stopping.prefix", 512))
    assert longer.work >= 2 * 512 * scores and longer.step == footprint(chains).step


@given(st.integers(1, 40), st.sampled_from([1, 2, 3, 16, 64, 8192]))
def test_halving_a_plan_comes_to_one_trial_and_ends(blocks, block):
    chosen = Plan(blocks * block, block)
    while (smaller := chosen.halved()) is not None:
        assert 1 <= smaller.slots < chosen.slots
        assert 1 <= smaller.block <= chosen.block and smaller.slots % smaller.block == 0
        chosen = smaller
    assert chosen == Plan(1, 1)


def exhausted() -> Exception:
    return jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 12345 bytes.")


def failing(fails, method="advance"):
    """A lane whose `method` runs out of memory whenever `fails(lane)`."""

    class Failing(Lane):
        def refill(self, waiting):
            super().refill(waiting)
            if method == "refill" and fails(self):
                raise exhausted()

        def advance(self):
            if method == "advance" and fails(self):
                raise exhausted()
            return super().advance()

    return Failing


@pytest.fixture(scope="module")
def expected(train, base, one_by_one):
    (cohort,) = krogh.sweep(base, seed=range(40))
    return cohort, train(cohort, plan_override=one_by_one)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["advance", "refill"])
def test_too_many_slots_are_halved_until_they_fit(train, expected, one_by_one, one_lane, monkeypatch, method):
    cohort, records = expected
    monkeypatch.setattr(executor, "Lane", failing(lambda lane: lane.plan.slots > 1, method))
    usage = Usage()
    retried = train(cohort, plan_override=one_by_one, usage=usage)
    assert usage.splits == 2  # 4, 2, 1 slots
    assert {place: record.bits for place, record in retried.items()} == {
        place: record.bits for place, record in records.items()
    }
    assert usage.executed_steps == usage.useful_steps == sum(record.steps for record in records.values())


def test_a_lane_that_fails_midway_starts_its_trials_again(train, expected, one_by_one, monkeypatch):
    """Both lanes fail once after some chunks, with trials in flight and others already reported."""
    cohort, records = expected
    chunks, lock = {}, threading.Lock()

    def third_chunk(lane):
        with lock:
            chunks[id(lane.usage)] = chunks.get(id(lane.usage), 0) + 1
            return chunks[id(lane.usage)] == 3

    monkeypatch.setattr(executor, "Lane", failing(third_chunk))
    usage = Usage()
    retried = train(cohort, plan_override=one_by_one, usage=usage)
    assert usage.splits >= 1
    assert usage.executed_steps >= usage.useful_steps
    assert all(retried[place].bits == records[place].bits for place in records)


@pytest.mark.slow
def test_blocks_are_halved_too(train, expected, in_blocks, one_lane, monkeypatch):
    cohort, records = expected
    monkeypatch.setattr(executor, "Lane", failing(lambda lane: lane.plan.block == in_blocks.block))
    usage = Usage()
    retried = train(cohort, plan_override=in_blocks, usage=usage)
    assert usage.splits == 1
    assert sum(retried[place].reached == records[place].reached for place in records) >= 36


def test_a_program_that_is_too_large_to_compile_is_made_smaller(train, expected, monkeypatch):
    def compile_(template, plan, device):
        raise exhausted()

    cohort, records = expected
    monkeypatch.setattr(compiling, "_compile", compile_)
    usage = Usage()
    retried = train(cohort, plan_override=Plan(9, 1), usage=usage)  # half of it, 4 slots, is compiled already
    assert usage.splits >= 1
    assert all(retried[place].bits == records[place].bits for place in records)


@pytest.mark.parametrize("lanes", ["one", "all"])
def test_when_one_trial_does_not_fit_the_error_says_so(train, expected, monkeypatch, lanes, request):
    if lanes == "one":
        request.getfixturevalue("one_lane")
    monkeypatch.setattr(executor, "Lane", failing(lambda lane: True))
    with pytest.raises(krogh.KroghError, match="one trial alone does not fit"):
        train(expected[0], plan_override=Plan(1, 1))
    assert not lanes_alive()


def test_any_other_failure_of_the_device_reaches_the_caller(train, expected, one_by_one, monkeypatch):
    class Broken(Lane):
        def advance(self):
            raise jax.errors.JaxRuntimeError("INTERNAL: the device has fallen off the bus")

    monkeypatch.setattr(executor, "Lane", Broken)
    with pytest.raises(jax.errors.JaxRuntimeError, match="fallen off the bus"):
        train(expected[0], plan_override=one_by_one)
    assert not lanes_alive()


def lanes_alive() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "_work" in thread.name]


def test_a_small_limit_changes_the_plan_and_not_the_records(train, expected):
    cohort, records = expected
    limited = train(cohort, memory_limit=1)
    assert all(limited[place].bits == records[place].bits for place in records)


@pytest.mark.slow
def test_chunks_of_trials_that_run_their_whole_budget_go_by_the_clock(base):
    """A visit of the program has a price; half a chunk is wasted only where some trials end before others."""
    chunks = {}
    for early in (True, False):
        cohort = krogh.stack([replaced(base, "training.stopping.early", early)] * 2)[0].fitted()
        lane = Lane(cohort, Plan(2, 2), jax.local_devices()[0])
        first = lane._rounds
        lane._plan_rounds(elapsed=CHUNK_SECONDS / 4)
        chunks[early] = lane._rounds / first
    assert chunks[True] < 1 < chunks[False]


# --- what cannot fit at all ------------------------------------------------------------------------------------------


ABSURD = {
    "batch": ("training.regime.batch_size", 10**9),
    "width": ("model.width", 10**9),
    "wide beyond 32 bits": ("model.width", 10**11),
    "inputs": ("task.n", 10**9),
    "sample": ("training.regime", krogh.FullBatch(m=2**30)),
}


@pytest.mark.parametrize("path, value", ABSURD.values(), ids=ABSURD)
def test_a_trial_larger_than_the_device_is_refused_before_anything_is_compiled(base, path, value, monkeypatch):
    monkeypatch.setattr(memory, "memory_of", lambda device: 16 << 30)  # whatever this machine has
    monkeypatch.setattr(compiling, "_compile", lambda *_: pytest.fail("compiled"))
    trial = replaced(base, path, value)
    with pytest.raises(TooLarge, match=r"alone does not fit: .* [PTG]iB and the device has 16\.0 GiB; make"):
        krogh.run(trial)
    with pytest.raises(TooLarge, match="does not fit"):
        memory.require_room([base, trial], CPU)
    memory.require_room([base], CPU)


def test_a_batch_beyond_32_bits_is_no_batch(base):
    for path in ("training.regime.batch_size", "training.stopping.validation"):
        with pytest.raises(KroghError, match=r"must be an integer between 1 and 1073741824; got .*=100000000000"):
            replaced(base, path, 10**11)


def test_what_the_compiler_counts_is_refused_too(base, monkeypatch):
    counted = SimpleNamespace(temp_size_in_bytes=3 << 30, argument_size_in_bytes=4 << 30)
    monkeypatch.setattr(memory, "memory_of", lambda device: 3 << 30)
    with pytest.raises(
        TooLarge, match=r"by the compiler.s count its program takes 4\.0 GiB and the device has 3\.0 GiB"
    ):
        memory.require_compiled(SimpleNamespace(memory_analysis=lambda: counted), Plan(4, 1), CPU)
    memory.require_compiled(SimpleNamespace(), Plan(4, 1), CPU)  # a kernel is not counted


def test_a_container_has_the_memory_that_it_was_given(monkeypatch, tmp_path):
    whole = devices.memory_of(CPU)
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(devices, "CONTAINER", limit)
    for text, expected in (("1073741824\n", 1 << 30), ("max\n", None), ("", None)):
        limit.write_text(text)
        assert devices.memory_of(CPU) == (expected or whole)
    assert memory.available(CPU) > 0
