"""Does a device compute what it should? Three comparisons with a CPU, of the very programs that a study would run.

    evaluation   predictions in the shapes of the checks, and what the checks made of them, against float64
    update       the weights after one round of training, against float64 on the same examples
    law          outcomes and convergence times of many trials, against the same trials on the CPU

A compiler may be wrong on one kind of device, and a network that is trained or judged wrongly often learns all the
same, only later or less often. The first two compare with what rounding explains: the same computation in float64, with
roundings of the device's precision drawn at random (`krogh.engine.arithmetic`), several times. A device may be off by
`SLACK` times the most of these draws. If its roundings were one more draw, it would exceed the most of K others, with
no slack, in one trial of K + 1. Predictions are continuous, and must stay within the bound in every trial. A
gradient is not, where the gate of a ReLU opens within rounding: a trial may be off by a gate that no draw has flipped.
So an array of weights is wrong when it is beyond the bound in more than half of the trials; by chance that happens to
one array of 70,000 (K = 8, 16 trials) at most. The third is a matter of chance and has p-values; `judge` says which of
all that were asked for count, so that the chance of any false alarm among them is `LEVEL` at most.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy

from krogh.engine.arithmetic import EXACT_LEAN, FLOAT32, KERNEL, TF32, carried_out
from krogh.engine.checking import (
    CONVERGED,
    DIVERGED,
    allowed_errors,
    check_predictions,
    likely_errors,
    prefix_of,
    slice_by_slice,
    whole_sample,
)
from krogh.engine.cohort import Trials
from krogh.engine.compiling import compiler_options
from krogh.engine.inheriting import without_parents
from krogh.engine.lane import Lane, Usage, Waiting
from krogh.engine.memory import Plan, plan
from krogh.engine.program import start
from krogh.engine.round import Constants, group_size, train_round
from krogh.engine.trial import DATA, Trial
from krogh.errors import require
from krogh.models.base import Learner, Parameters, predict_judged

LEVEL = 0.01
SLACK = 4.0
LEANS = (0.0, 1 / 3, 2 / 3, 1.0)
TRIALS, FEWEST = 200, 24  # of the law
COMPARED, LEAST_COMPARED = 16, 4  # trials whose predictions and updates are compared, as time allows
SECONDS = 30.0
UNSURE = 2  # mistakes: examples on the edge that no draw has shown
CLOSE = 0.02
TINY = 1e-30
MOST_STEPS = 4000  # of a run that is timed

Weights = dict[str, np.ndarray]
Slice = tuple[Any, np.ndarray]
"""Raw examples, and which of them count."""
Found = list[tuple[float, str]]
"""Amounts, in units of what may be, and where they were found."""


@dataclass(frozen=True)
class Finding:
    """What one comparison found: by how much at most, where, and whether that is too much.

    `amount` is in units of what rounding explains, or for a law the smallest p-value; `agrees` is then None until
    `judge` has seen all p-values.
    """

    comparison: str
    amount: float
    where: str
    trials: int
    agrees: bool | None = None
    p_values: dict[str, float] = field(default_factory=dict)
    details: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Bench:
    """Two devices, and how trials of a cohort are trained on the first."""

    cohort: Trials
    device: Any
    reference: Any
    size: Plan
    operands: int  # bits of mantissa of what enters a product on the device
    seconds: float = SECONDS

    @property
    def template(self) -> Trial:
        return self.cohort.template


def bench(
    cohort: Trials, device: Any, reference: Any, count: int = TRIALS, size: Plan | None = None, seconds: float = SECONDS
) -> Bench:
    """Prepare a cohort for comparisons; trials that begin with others' weights draw their own."""
    network = not isinstance(cohort.template.model, Learner)
    require(network, f"{type(cohort.template.model).__name__} learns on the host: there are no devices to compare")
    fitted = many(without_parents(cohort).fitted(), count)
    size = plan(fitted.template, count, device) if size is None else size
    return Bench(fitted, device, reference, size, operand_bits(size, device), seconds)


def compare(bench: Bench, tell: Callable[[str], None] = lambda stage: None) -> list[Finding]:
    """All three comparisons; the law's is not judged yet (`judge`). `tell` hears which one begins."""
    tell("law")
    law_found, weights = law(bench)
    tell("evaluation")
    evaluated = evaluation(bench, weights)
    tell("update")
    return [evaluated, update(bench), law_found]


def operand_bits(size: Plan, device: Any) -> int:
    """How many bits of mantissa a device keeps of what enters a product."""
    if size.resident:
        return KERNEL
    full = str(getattr(jax.config, "jax_default_matmul_precision", None)).lower() in ("highest", "float32")
    return TF32 if device.platform == "gpu" and not full else FLOAT32


def many(cohort: Trials, count: int, budget: int | None = None) -> Trials:
    """`count` trials of a cohort, spread evenly, beyond its own as copies with other seeds; at most `budget` steps."""
    places = (
        np.arange(count) % len(cohort) if count > len(cohort) else np.linspace(0, len(cohort) - 1, count).astype(int)
    )
    trials = cohort.take(places)
    again = (np.arange(count) // len(cohort)).astype(np.uint32)
    trials = eqx.tree_at(lambda trial: trial.seed, trials, trials.seed + again * np.uint32(1_000_003))
    if budget is not None:
        fewer = np.minimum(trials.training.stopping.budget, np.int32(budget))
        trials = eqx.tree_at(lambda trial: trial.training.stopping.budget, trials, fewer)
    return Trials(cohort.template, dict(enumerate(jax.tree.leaves(trials))), count, cohort.labels)


# --- evaluation ---------------------------------------------------------------------------------------------------


def evaluation(bench: Bench, trained: Weights | None = None) -> Finding:
    """Predictions for prefix and whole sample by weights at first, after a round, and `trained` ones [trials, ...], and
    the mistakes that a check counts, both on the device, against float64.

    Of the whole sample the first and the last slice are compared. What a check counts must lie between the mistakes of
    predictions moved by `SLACK` times the draws' errors, give or take `UNSURE`.
    """
    lane = _lane(bench)
    sets = {"at first": _numpy(lane.states.params)}
    lane.advance(1)
    sets["after a round"] = _numpy(lane.states.params)
    if trained is not None:
        sets["at the end"] = {name: _cycled(leaf, bench.size.slots) for name, leaf in trained.items()}
    exactly = _Predictions(bench)
    found = [] if bench.size.resident else _compare_predictions(bench, lane, sets, exactly)  # a kernel only checks
    found += _compare_counts(bench, exactly, sets.get("at the end", sets["at first"]))
    amount, where = max(found, key=lambda pair: pair[0], default=(0.0, ""))
    return Finding("evaluation", amount, where, len(found), bool(amount <= SLACK))


class _Predictions:
    """Predictions of a bench's trials in float64, exactly and in draws, for slices of their validation samples."""

    def __init__(self, bench: Bench):
        self._bench = bench
        self._program: Any = None
        self._samples = jax.jit(lambda trial: (whole_sample(trial), prefix_of(trial)))
        self._judge = jax.jit(lambda trial, predicted, raw: trial.task.judge(predicted, trial.task.decode(raw)))

    def trial(self, place: int) -> Trial:
        return self._bench.cohort[place % len(self._bench.cohort)]

    def slices(self, place: int) -> tuple[list[Slice], Slice | None]:
        """A trial's whole sample, and what a check reads first, as raw examples and which of them count."""
        with jax.default_device(self._bench.reference):
            (whole, present), prefix = _numpy(self._samples(self.trial(place)))
        width, rows = present.shape[1], jax.tree.leaves(prefix)[0].shape[0]
        slices = [(_row(whole, own), present[own]) for own in range(len(present))]
        if rows > width:
            return slices, None
        return slices, (jax.tree.map(lambda leaf: _cycled(leaf, width), prefix), np.arange(width) < rows)

    def drawn(self, place: int, weights: Weights, part: Slice) -> np.ndarray:
        """Predictions for a slice [1 + draws, counted, ...]: the exact ones first."""
        trial = self.trial(place)
        with jax.default_device(self._bench.reference):
            if self._program is None:
                self._program = carried_out(_predict, self._bench.operands, trial, weights, part[0])
            return self._program((EXACT_LEAN, *LEANS), trial, weights, part[0])

    def share(self, place: int, weights: Weights, part: Slice, predicted: np.ndarray) -> float:
        """How far the device's predictions for a slice are off, in units of what rounding explains."""
        drawn = self.drawn(place, weights, part)[:, part[1]]
        most = np.abs(drawn[1:] - drawn[0]).max(initial=0.0)
        allowed = max(most, 2.0**-FLOAT32 * np.abs(drawn[0]).max(initial=0.0), TINY)
        return _finite(float(np.abs(predicted[: len(drawn[0])] - drawn[0]).max(initial=0.0) / allowed))

    def mistakes(self, place: int, weights: Weights, parts: list[Slice]) -> tuple[float, float]:
        """The fewest and the most mistakes of predictions that are off by no more than they may."""
        low = high = 0.0
        for raw, counted in parts:
            drawn = self.drawn(place, weights, (raw, counted))
            moved = np.concatenate([drawn[:1], drawn[:1] + SLACK * (drawn[1:] - drawn[:1])]).astype(np.float32)
            with jax.default_device(self._bench.reference):
                judged = np.stack([np.asarray(self._judge(self.trial(place), one, raw), np.float64) for one in moved])
            low, high = low + judged[:, counted].min(0).sum(), high + judged[:, counted].max(0).sum()
        return low, high


def _predict(trial: Trial, params: Parameters, raw: Any) -> Any:
    return predict_judged(trial.model, trial.task, params, trial.task.decode(raw).x)


def _compare_predictions(bench: Bench, lane: Lane, sets: dict[str, Weights], exactly: _Predictions) -> Found:
    """Of each set of weights as many trials as there is time for; programs compiled as a study's are."""
    block = bench.size.block
    number = min(COMPARED, group_size(block))
    options = compiler_options(bench.template, bench.size, bench.device)
    found: Found = []
    program: Any = None
    for when, weights in sets.items():
        begun = time.perf_counter()
        for first in range(0, min(bench.size.slots, len(bench.cohort), COMPARED), block):
            part = (_row(lane.trials, slice(first, first + block)), _row(weights, slice(first, first + block)))
            part = jax.device_put(part, bench.device)
            if program is None:
                checks = functools.partial(check_predictions, block=block, kept=number)
                program = jax.jit(checks).lower(*part).compile(compiler_options=options)
            beginnings, samples = _numpy(program(*part))
            for slot in range(min(number, len(bench.cohort) - first)):
                if first + slot >= LEAST_COMPARED and time.perf_counter() - begun > bench.seconds / 6:
                    break
                place, own = first + slot, _of_slot(weights, first + slot)
                slices, prefix = exactly.slices(place)
                pairs = [(f"slice {k + 1}", slices[k], samples[slot][k]) for k in {0, len(slices) - 1}]
                pairs += [] if prefix is None else [("the prefix", prefix, beginnings[slot])]
                for what, part_, predicted in pairs:
                    share = exactly.share(place, own, part_, predicted)
                    found.append((share, f"predictions for {what}, weights {when}, trial {place}"))
    return found


def _compare_counts(bench: Bench, exactly: _Predictions, weights: Weights) -> Found:
    """One round from `weights` with the study's own program: did its check count the mistakes that it should, and go on
    where it should? `SLACK` times what is beyond the fewest and the most of them."""
    lane = _lane(bench)
    lane.place(weights)
    lane.advance(1)
    params, errors, status = _numpy((lane.states.params, lane.states.error, lane.states.status))
    task, stopping = bench.template.task, bench.template.training.stopping
    size, begun, found = stopping.size(task), time.perf_counter(), []
    reads_first = (
        size > stopping.prefix and not task.regression and not slice_by_slice(bench.template, bench.size.block)
    )
    for slot in range(min(COMPARED, len(errors), len(bench.cohort))):
        if slot >= LEAST_COMPARED and time.perf_counter() - begun > bench.seconds / 3:
            break
        trial, own = exactly.trial(slot), _of_slot(params, slot)
        slices, prefix = exactly.slices(slot)
        if np.isfinite(errors[slot]):
            low, high = exactly.mistakes(slot, own, slices)
            counted = float(errors[slot]) * size
            beyond = max(counted - high, low - counted, 0.0)
            share = SLACK * beyond / (max(1e-4 * high, TINY) if task.regression else UNSURE)
            text = f"a check counted {counted:.6g} mistakes on {size:,} examples, float64 {low:.6g} to {high:.6g}"
        elif reads_first and prefix is not None and status[slot] != DIVERGED:
            _, most = exactly.mistakes(slot, own, [prefix])
            passed = most <= float(likely_errors(trial, stopping.prefix))
            text = f"a check gave a trial up that made {most:g} mistakes on the {stopping.prefix} examples read first"
            if passed and bench.size.resident:  # the kernel ends a count that is too high, and then keeps none
                _, most = exactly.mistakes(slot, own, slices)
                passed = most <= float(allowed_errors(trial))
                text = f"a check gave a trial up that made {most:g} mistakes on {size:,} examples"
            share = 2 * SLACK if passed else 0.0
        else:
            continue
        found.append((_finite(share), f"{text}, trial {slot}"))
    return found


# --- one round of training ----------------------------------------------------------------------------------------


def update(bench: Bench) -> Finding:
    """The weights after one round on the device, against the same round in float64, array by array.

    With w the device's result, w* that of float64 and w_k those of the draws, all from the device's first weights,
    array a of a trial is beyond the bound if ‖w_a - w*_a‖ > SLACK · max_k ‖w_ka - w*_a‖; it is wrong if more than half
    of the trials are. Weights that nothing depends on, such as a bias of the keys under Adam, differ in the draws too.
    `amount` is the largest over the arrays of the median of the ratio.
    """
    number = min(COMPARED, len(bench.cohort), bench.size.slots)
    lane = _lane(bench)
    before = _numpy(lane.states.params)
    lane.advance(1)
    after = _numpy(lane.states.params)
    program: Any = None
    ratios: dict[str, list[float]] = {name: [] for name in after}
    moved: dict[str, list[float]] = {name: [] for name in after}
    begun = time.perf_counter()
    with jax.default_device(bench.reference):
        for slot in range(number):
            spent = time.perf_counter() - begun
            if slot >= LEAST_COMPARED and spent * (slot + 1) / slot > bench.seconds:
                break
            trial, weights = bench.cohort[slot], _of_slot(before, slot)
            if program is None:
                program = carried_out(_after_a_round, bench.operands, trial, weights)
            drawn = program((EXACT_LEAN, *LEANS, *LEANS), trial, weights)
            for name, leaf in drawn.items():
                axes = tuple(range(1, leaf.ndim))
                draws = np.sqrt(np.sum((leaf[1:] - leaf[:1]) ** 2, axis=axes)).max()
                least = 2.0**-FLOAT32 * np.linalg.norm(leaf[0])
                off = np.linalg.norm(np.asarray(after[name][slot], np.float64) - leaf[0])
                ratios[name].append(_finite(float(off / max(draws, least, TINY))))
                way = np.linalg.norm(leaf[0] - weights[name])
                moved[name].append(float(draws / max(way, TINY)))
    typical = {name: sorted(values)[(len(values) - 1) // 2] for name, values in ratios.items()}
    where = max(typical, key=lambda name: typical[name])
    details = {"rounding": float(np.median(moved[where]))}  # as a share of the array's update
    return Finding("update", typical[where], where, len(ratios[where]), typical[where] <= SLACK, details=details)


def _after_a_round(trial: Trial, params: Parameters) -> Parameters:
    begun = start(trial)
    begun = begun._replace(params=params, memory=trial.training.optimiser.init(trial.training.trained(params)))
    noise = trial.noise() if trial.model.noisy else jnp.zeros((), jnp.uint32)
    return train_round(trial, Constants(trial.key(DATA), (), allowed_errors(trial), noise), begun).params


# --- many trials --------------------------------------------------------------------------------------------------


def law(bench: Bench) -> tuple[Finding, Weights]:
    """The same trials to their ends on both devices; also the weights that the device's end with [trials, ...].

    As many trials, and as many steps of each, as the reference trains within `seconds`. A trial's *score* is its
    convergence time; trials without one come after all others, by their last validation error. Three p-values: of the
    outcomes that differ, are as many in favour of either (McNemar's exact test)? Do scores shift (Wilcoxon's signed
    ranks of the pairs)? Do their laws differ (Kolmogorov and Smirnov)? Where both devices are right, pairs differ by
    rounding that has grown and has no direction.
    """
    count, budget = _affordable(bench)
    cohort = many(bench.cohort, count, budget)
    theirs, _ = _ended(cohort, Plan(1, 1), [bench.reference] * _cores(), keep=False)
    ours, weights = _ended(cohort, bench.size, [bench.device], keep=True)
    return law_finding(ours, theirs, budget), weights


@dataclass(frozen=True)
class Ends:
    """How trials ended: whether they converged, and their scores."""

    converged: np.ndarray
    score: np.ndarray


def law_finding(ours: Ends, theirs: Ends, budget: int) -> Finding:
    """What two samples of the same trials say of their law."""
    better = int(np.sum(ours.converged & ~theirs.converged))
    worse = int(np.sum(theirs.converged & ~ours.converged))
    difference = ours.score - theirs.score
    differing = difference[difference != 0]
    p_values = {
        "outcome": 1.0,
        "shift": 1.0,
        "law": float(scipy.stats.ks_2samp(ours.score, theirs.score, method="asymp").pvalue),
    }
    if better + worse:
        p_values["outcome"] = float(scipy.stats.binomtest(better, better + worse).pvalue)
    if len(differing) > 5:
        p_values["shift"] = float(scipy.stats.wilcoxon(differing, method="asymptotic").pvalue)
    both = ours.converged & theirs.converged
    close = np.abs(difference[both]) <= CLOSE * theirs.score[both]
    details = {
        "converged": float(ours.converged.mean()),
        "converged_reference": float(theirs.converged.mean()),
        "same_outcome": float(np.mean(ours.converged == theirs.converged)),
        "same_time": float(np.mean(difference[both] == 0)) if both.any() else float("nan"),
        "close_time": float(np.mean(close)) if both.any() else float("nan"),
        "median_ratio": float(np.median(ours.score[both] / theirs.score[both])) if both.any() else float("nan"),
        "budget": float(budget),
    }
    least = min(p_values, key=lambda name: p_values[name])
    return Finding("law", p_values[least], least, len(ours.score), None, p_values, details)


def judge(findings: list[Finding], level: float = LEVEL) -> list[Finding]:
    """The findings with a judgement for each law: of all p-values together, those that Holm's rule rejects count."""
    named = [(place, name) for place, found in enumerate(findings) for name in found.p_values]
    rejected = holm([findings[place].p_values[name] for place, name in named], level)
    wrong = {place for (place, _), no in zip(named, rejected, strict=True) if no}
    return [
        replace(found, agrees=place not in wrong) if found.p_values else found for place, found in enumerate(findings)
    ]


def holm(p_values: list[float], level: float) -> list[bool]:
    """Which hypotheses to reject, so that a true one is among them with probability `level` at most (Holm 1979)."""
    rejected = [False] * len(p_values)
    for rank, place in enumerate(np.argsort(p_values)):
        if p_values[place] > level / (len(p_values) - rank):
            break
        rejected[place] = True
    return rejected


def _affordable(bench: Bench) -> tuple[int, int]:
    """How many trials the reference can train within the time, and for how many steps each."""
    stopping = bench.template.training.stopping
    every = stopping.check_every
    own = int(np.max(bench.cohort.take(np.arange(len(bench.cohort))).training.stopping.budget))
    lane = Lane(bench.cohort, Plan(1, 1), bench.reference)
    lane.refill(Waiting(np.zeros(1, np.int64)))
    lane.advance(1)
    begun = time.perf_counter()
    lane.advance(1)
    steps = bench.seconds * _cores() * every / max(time.perf_counter() - begun, 1e-6)
    count = int(np.clip(steps // own, min(FEWEST, len(bench.cohort)), len(bench.cohort)))
    budget = int(min(own, max(every, steps / count // every * every)))
    return count, budget


def _ended(
    cohort: Trials, size: Plan, devices: list[Any], *, keep: bool, usage: Usage | None = None
) -> tuple[Ends, Weights]:
    """Train all trials of a cohort, on one lane for each of the devices."""
    waiting = Waiting(np.arange(len(cohort)), shares=2 * len(devices) if len(devices) > 1 else 1)
    status, reached = np.zeros(len(cohort), np.int32), np.zeros(len(cohort), np.int64)
    error = np.zeros(len(cohort))
    weights: Weights = {}
    problems: list[BaseException] = []

    def work(device: Any) -> None:
        try:
            lane = Lane(cohort, size, device, keep, Usage() if usage is None else usage)
            while True:
                lane.refill(waiting)
                if not len(lane.in_flight):
                    return
                if (ended := lane.advance()) is None:
                    continue
                status[ended.position], reached[ended.position] = ended.status, ended.reached
                error[ended.position] = ended.error
                for name, leaf in (ended.weights or {}).items():
                    weights.setdefault(name, np.zeros((len(cohort), *leaf.shape[1:]), leaf.dtype))[ended.position] = (
                        leaf
                    )
        except BaseException as cause:
            problems.append(cause)

    threads = [threading.Thread(target=work, args=(device,)) for device in devices]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    converged = status == CONVERGED
    latest = float(np.max(cohort.take(np.arange(len(cohort))).training.stopping.budget))
    last = np.where(np.isfinite(error), np.minimum(error, 1e6), 1e6)
    return Ends(converged, np.where(converged, reached, latest + 1.0 + last)), weights


def _cores() -> int:
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)


# --- full precision -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """Trials trained on one device: how they ended, and what a step cost."""

    ends: Ends
    steps_per_second: float
    trials: int
    budget: int


def timed_run(cohort: Trials, size: Plan, device: Any, seconds: float, budget: int | None = None) -> Run:
    """Train a cohort on a device, for as many steps as take about `seconds` unless a `budget` is given."""
    stopping = cohort.template.training.stopping
    if budget is None:
        lane = Lane(cohort, size, device)
        lane.refill(Waiting(np.arange(len(cohort))))
        lane.advance(1)
        begun = time.perf_counter()
        lane.advance(1)
        rounds = int(seconds / max(time.perf_counter() - begun, 1e-6))
        budget = max(1, min(rounds, MOST_STEPS // stopping.check_every)) * stopping.check_every
    shorter = many(cohort, len(cohort), budget)
    usage = Usage()
    ends, _ = _ended(shorter, size, [device], keep=False, usage=usage)
    return Run(ends, usage.executed_steps / max(usage.seconds, 1e-9), len(cohort), budget)


# --- arrays -------------------------------------------------------------------------------------------------------


def _lane(bench: Bench) -> Lane:
    """A lane with the first trials in its slots, before their first step."""
    lane = Lane(bench.cohort, bench.size, bench.device)
    lane.refill(Waiting(np.arange(min(len(bench.cohort), bench.size.slots))))
    lane.advance(0)
    return lane


def _numpy(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: np.array(leaf), tree)


def _row(tree: Any, place: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[place], tree)


def _of_slot(weights: Weights, slot: int) -> Weights:
    return {name: leaf[slot] for name, leaf in weights.items()}


def _cycled(leaf: np.ndarray, count: int) -> np.ndarray:
    """The rows of an array, again and again until there are `count`."""
    return leaf[np.arange(count) % len(leaf)]


def _finite(share: float) -> float:
    return share if np.isfinite(share) else float("inf")
