"""Many inputs at once, random machines and random inputs."""

from __future__ import annotations

import collections
import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krogh.errors import KroghError
from krogh.programs.machines.files import parse_machine
from krogh.programs.machines.library import library, library_steps, load_machine
from krogh.programs.machines.machine import Machine
from krogh.programs.machines.running import LeftTheTapeError, decide_batch, run, steps_needed, trace, trace_batch
from krogh.programs.machines.sampling import ProperRuns, random_machine, sample_words, short_words

quiet = settings(database=None, deadline=None, max_examples=40)
tapes = st.sampled_from(["one-way", "two-way"])
FIELDS = ("state", "symbol", "cell", "written", "moved")


def same_traces(machine, words, steps):
    together = trace_batch(machine, words, steps)
    assert len(together) == len(words) and together.steps == steps
    for number, (word, one) in enumerate(zip(words, together, strict=True)):
        alone = trace(machine, word, steps)
        for field in FIELDS:
            expected = getattr(alone, field)
            assert np.array_equal(getattr(together, field)[number], expected), field
            assert getattr(one, field).dtype == expected.dtype and np.array_equal(getattr(one, field), expected)
        assert one.halted_at == alone.halted_at and one.label == alone.label
        assert together.halted_at[number] == (-1 if alone.halted_at is None else alone.halted_at)
        assert together.labels[number] == (-1 if alone.label is None else alone.label)


@quiet
@given(
    st.integers(1, 5),
    st.integers(2, 4),
    st.integers(0, 10**6),
    st.integers(0, 150),
    st.sampled_from(["one-way", "two-way"]),
)
def test_a_batch_is_its_traces(states, symbols, seed, steps, tape):
    """Runs of up to 300 steps, so that some halt within a block, some in a later one and some not at all."""
    machine = random_machine(states, symbols, seed, tape=tape, halting=0.1, runs=ProperRuns(length=2, steps=300))
    same_traces(machine, short_words(machine, 2), steps)


@pytest.mark.parametrize("name", ["counter", "palindrome", "busy-beaver-4", "binary-addition", "unary-to-binary"])
def test_batches_of_the_library(name):
    machine = library()[name]
    words = ["", *(machine.default_input[:size] for size in range(1, 8))]
    same_traces(machine, words, 300)


def test_a_batch_of_numbers_is_one_of_texts():
    machine = load_machine("palindrome")
    texts = ["0110", "0100", "1111"]
    numbers = np.array([machine.encode(text) for text in texts])
    assert np.array_equal(trace_batch(machine, numbers, 20).cell, trace_batch(machine, texts, 20).cell)


def test_tapes_of_a_batch_do_not_touch():
    """One head goes right and the next one left, both writing; each reads blanks all the way."""
    rows = "  s: {0: {write: 1, R: r}, 1: {L: l}, _: {L: l}}\n"
    rows += "".join(f"  {way.lower()}: {{[_, 0, 1]: {{write: 1, {way}}}}}\n" for way in "RL")
    machine = parse_machine(f"blank: _\nstart state: s\ntable:\n{rows}")
    same_traces(machine, ["0", "1", "0", "1"], 150)


def test_more_than_256_symbols():
    """Symbols beyond a byte are kept."""
    count = 300
    ones = np.ones((2, count), int)
    alphabet = tuple(f"<{number}>" for number in range(count))
    machine = Machine(
        name="wide",
        states=("a", "b"),
        alphabet=alphabet,
        start=0,
        next_state=0 * ones,
        write=np.tile(np.roll(np.arange(count), 1), (2, 1)),
        move=np.array([[1] * count, [-1] * count]),
    )
    same_traces(machine, [[299, 298, 0], [257]], 6)


def test_64_inputs_of_10000_steps_take_about_a_second():
    machine = load_machine("counter")
    words = ["#" + "0" * (size % 12) for size in range(64)]
    trace_batch(machine, words, 10)
    start = time.process_time()
    together = trace_batch(machine, words, 10_000)
    assert time.process_time() - start < 3
    assert together.halted_at.tolist() == [2 ** (size % 12 + 2) - 1 for size in range(64)]


@quiet
@given(st.integers(0, 10**6), st.integers(0, 200), tapes)
def test_decisions_are_those_of_runs(seed, steps, tape):
    machine = random_machine(4, 3, seed, tape=tape, halting=0.1, runs=ProperRuns(length=3, steps=300))
    words = short_words(machine, 3)
    decided = decide_batch(machine, words, steps)
    for word, label, halted_at in zip(words, decided.labels, decided.halted_at, strict=True):
        done = run(machine, word, steps)
        assert halted_at == (-1 if done.halted_at is None else done.halted_at)
        assert label == (-1 if done.label is None else done.label)


def test_a_machine_that_halts_at_once_decides_at_once():
    machine = parse_machine("blank: 0\nstart state: accept\ntable: {accept: }\n")
    assert [part.tolist() for part in decide_batch(machine, ["", "0"], 5)] == [[1, 1], [0, 0]]
    assert trace_batch(machine, ["00"], 3).cell.tolist() == [[1, 2, 3, 4]]


@pytest.mark.parametrize("late", [1, 63, 64, 65, 200])
def test_leaving_a_one_way_tape_in_a_batch(late):
    """Left over `late` ones, also at the edges of blocks: the same error as alone, and as in a batch of decisions."""
    rows = "  go: {1: R, 0: {L: back}}\n  back: {1: L, 0: {L: back}}\n"
    machine = parse_machine(f"blank: 0\nstart state: go\ntape: one-way\ntable:\n{rows}")
    word = "1" * late
    with pytest.raises(LeftTheTapeError) as alone:
        trace(machine, word, 600)
    assert f"step {2 * late + 2}," in str(alone.value)
    for together in (trace_batch, decide_batch):
        with pytest.raises(LeftTheTapeError) as caught:
            together(machine, ["1" * 299, word], 600)
        assert str(caught.value) == str(alone.value)
        together(machine, [word], 2 * late + 1)


def test_a_batch_needs_words():
    with pytest.raises(KroghError, match="at least one word"):
        trace_batch(load_machine("parity"), [], 3)
    with pytest.raises(KroghError, match="position 2 of the input '1x'"):
        trace_batch(load_machine("parity"), ["1", "1x"], 3)


@pytest.mark.parametrize("tape", ["one-way", "two-way"])
def test_1000_random_machines_halt_and_stay_on_the_tape(tape):
    """In seconds; every one halts on every short word (on a one-way tape the interpreter would refuse a bad one)."""
    start = time.process_time()
    machines = [random_machine(2 + seed % 6, 2 + seed % 3, seed, tape=tape) for seed in range(1000)]
    assert time.process_time() - start < 10
    for machine in machines[::10]:
        needed = [steps_needed(machine, word, 200) for word in short_words(machine, 3)]
        assert None not in needed and max(needed) >= 2
        assert machine.tape == tape
    assert len({machine.next_state.tobytes() for machine in machines[5::6]}) == len(machines[5::6])


def test_random_machines_are_reproducible_and_differ():
    machines = [random_machine(4, 3, seed, tape="two-way") for seed in (5, 5, 6)]
    assert machines[0] == machines[1] != machines[2]
    assert machines[0].name == "random-4-3-5"
    assert machines[0].states == ("q0", "q1", "q2", "q3", "accept", "reject")
    assert machines[0].alphabet == ("_", "0", "1")


def test_the_law_of_random_machines():
    """Without rejection (halting at the first step on every word) entries are uniform and halt at the asked rate."""
    anything = ProperRuns(length=0, least_steps=0, steps=10_000)
    machines = [random_machine(3, 4, seed, halting=0.25, runs=anything) for seed in range(400)]
    tables = np.array([machine.next_state[:3, 1:] for machine in machines]).ravel()  # the empty word reads blanks only
    counts = collections.Counter(tables.tolist())
    total = sum(counts.values())
    assert abs((counts[3] + counts[4]) / total - 0.25) < 0.03
    assert all(abs(counts[state] / total - 0.25) < 0.03 for state in range(3))
    assert abs(counts[3] - counts[4]) / total < 0.03
    written = np.array([machine.write[:3, 1:] for machine in machines]).ravel()
    assert all(abs(np.mean(written == symbol) - 0.25) < 0.04 for symbol in range(4))
    assert abs(np.mean([machine.move[:3, 1:] for machine in machines])) < 0.06


def test_random_machines_on_words_of_ones_own():
    machine = random_machine(5, 3, 1, runs=ProperRuns(["01" * 20, "1" * 30], least_steps=12, steps=1000))
    needed = [steps_needed(machine, word, 1000) for word in ("01" * 20, "1" * 30)]
    assert None not in needed and max(needed) >= 12


@pytest.mark.parametrize(
    "arguments,says",
    [
        ({"states": 0}, "states must be an integer at least 1"),
        ({"symbols": 1}, "symbols must be an integer between 2 and 63"),
        ({"seed": -1}, "seed must be"),
        ({"tape": "loop"}, "tape must be"),
        ({"halting": 0.0}, "halting is a probability above 0"),
        ({"symbols": 60, "runs": ProperRuns(length=4)}, "words of up to 4 symbols; at most 100000"),
        (
            {"states": 1, "symbols": 2, "runs": ProperRuns(least_steps=50, attempts=50)},
            "none of 50 random machines of 1 states",
        ),
    ],
)
def test_random_machines_that_cannot_be(arguments, says):
    with pytest.raises(KroghError, match=says):
        random_machine(**{"states": 3, "symbols": 3, "seed": 0} | arguments)


@pytest.mark.parametrize("name,length", [("parity", 5), ("palindrome", 8), ("palindrome", 15), ("equal-counts", 6)])
@pytest.mark.parametrize("count", [1, 64, 101])
def test_balanced_words_are_half_accepted(name, length, count):
    machine = load_machine(name)
    steps = library_steps(name, length)
    sample = sample_words(machine, length, count, steps, seed=3)
    assert sample.words.shape == (count, length) and sample.words.dtype == np.int32
    assert set(np.unique(sample.words)) <= set(machine.input_symbols)
    assert sample.labels.dtype == np.int8 and sample.labels.sum() in (count // 2, (count + 1) // 2)
    assert [run(machine, word, steps).label for word in sample.words] == sample.labels.tolist()
    again = sample_words(machine, length, count, steps, seed=3)
    assert np.array_equal(sample.words, again.words) and np.array_equal(sample.labels, again.labels)
    if count > 1:
        other = sample_words(machine, length, count, steps, seed=4)
        assert not np.array_equal(sample.words, other.words)


def test_balanced_words_are_uniform_within_their_kind():
    """Length 4: 4 palindromes among 16 words; each kind uniform, to within five standard errors."""
    machine = load_machine("palindrome")
    sample = sample_words(machine, 4, 12_000, 15, seed=0)
    for label, kinds in ((1, 4), (0, 12)):
        counts = collections.Counter(map(tuple, sample.words[sample.labels == label].tolist()))
        assert len(counts) == kinds
        assert all(abs(count - 6000 / kinds) < 5 * (6000 / kinds) ** 0.5 for count in counts.values())
    assert 0.4 < sample.labels[:1000].mean() < 0.6


@pytest.mark.slow
def test_drawn_words_are_as_those_listed(monkeypatch):
    """The way for long words, taken for short ones: the same words come up, uniformly."""
    import krogh.programs.machines.sampling as sampling

    monkeypatch.setattr(sampling, "LISTED", 0)
    sample = sample_words(load_machine("palindrome"), 4, 12_000, 15, seed=0)
    assert sample.labels.sum() == 6000
    for label, kinds in ((1, 4), (0, 12)):
        counts = collections.Counter(map(tuple, sample.words[sample.labels == label].tolist()))
        assert len(counts) == kinds
        assert all(abs(count - 6000 / kinds) < 5 * (6000 / kinds) ** 0.5 for count in counts.values())
    monkeypatch.setattr(sampling, "DRAWN", 4096)
    with pytest.raises(KroghError, match=r"only [0-9] of 4096 random words of length 24 are accepted by 'palindrome'"):
        sample_words(load_machine("palindrome"), 24, 1000, 400, seed=0)


def test_uniform_words():
    machine = load_machine("parity")
    sample = sample_words(machine, 3, 8000, 4, seed=1, balanced=False)
    counts = collections.Counter(map(tuple, sample.words.tolist()))
    assert set(counts) == set(itertools.product(machine.input_symbols, repeat=3))
    assert all(abs(count - 1000) < 5 * 1000**0.5 for count in counts.values())
    assert sample.labels.tolist() == [int((row == machine.encode("1")[0]).sum() % 2) for row in sample.words]


def test_samples_that_cannot_be_drawn():
    anbn = load_machine("anbn")
    with pytest.raises(KroghError, match=r"none of all 8 words of length 3 are accepted by 'anbn'.*another length"):
        sample_words(anbn, 3, 10, 50, seed=0)
    with pytest.raises(KroghError, match=r"T = 5 is too small: 'anbn' does not halt on .*it needs"):
        sample_words(anbn, 4, 10, 5, seed=0)
    with pytest.raises(KroghError, match=r"'complement' halts on .* without a decision"):
        sample_words(load_machine("complement"), 4, 10, 5, seed=0)
    with pytest.raises(KroghError, match="outside the alphabet"):
        sample_words(anbn, 4, 10, 50, seed=0, symbols="abc")
    with pytest.raises(KroghError, match="count must be an integer at least 1"):
        sample_words(anbn, 4, 0, 50, seed=0)
    only_a = sample_words(anbn, 4, 10, 50, seed=0, balanced=False, symbols="a")
    assert set(only_a.words.ravel()) == set(anbn.encode("a")) and not only_a.labels.any()
