"""How often `krogh verify` is wrong: false alarms where nothing is, faults that it does not find.

    python benchmarks/verify_rates.py two-layer 30 5    # repetitions without and with a fault, each with other seeds

A CPU that trains networks in blocks of sixteen, as a GPU does, stands for the device under test; the reference trains
them one by one. Products of the stand-in may be rounded to TF32, and faults may be planted into its programs alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import equinox as eqx
import jax
import jax.numpy as jnp

import krogh
from krogh.engine import agreement, compiling, program
from krogh.engine.agreement import Bench, Finding
from krogh.engine.arithmetic import FLOAT32, TF32, with_short_operands
from krogh.engine.cohort import Trials
from krogh.engine.memory import Plan
from krogh.models.base import Model
from krogh.values import structure

SIZE = Plan(32, 16)
LARGE = 256  # batches that the fault of evaluation meets

Change = Callable[[krogh.Trial], krogh.Trial]


class Miscomputed(Model):
    """A model whose predictions are computed wrongly."""

    inner: Model
    wrong: Any = structure()

    @property
    def noisy(self) -> bool:
        return self.inner.noisy

    @property
    def library_products(self) -> bool:
        return self.inner.library_products

    def init(self, key, task):
        return self.inner.init(key, task)

    def check(self, task):
        self.inner.check(task)

    def predict(self, params, x):
        return self.wrong(self.inner.predict, params, x)

    def forward(self, params, x, noise):
        return self.wrong(lambda params, x: self.inner.forward(params, x, noise), params, x)

    @classmethod
    def example(cls):
        raise NotImplementedError


def miscomputed(wrong: Callable[..., Any]) -> Change:
    return lambda trials: eqx.tree_at(lambda trial: trial.model, trials, Miscomputed(trials.model, wrong))


def large_batches(predict, params, x):
    """Every fourth row of a large batch is its neighbour's, as where a fused concatenation is written wrongly."""
    right = predict(params, x)
    if right.shape[0] < LARGE:
        return right
    chosen = jnp.arange(right.shape[0]) % 4 == 0
    return jnp.where(chosen.reshape(-1, *[1] * (right.ndim - 1)), jnp.roll(right, 1, axis=0), right)


def keys_off(predict, params, x):
    """Keys of attention are a tenth too large."""
    return predict({name: 1.1 * leaf if name == "Wk" else leaf for name, leaf in params.items()}, x)


def without_bias(predict, params, x):
    """A bias is left out: the hidden layer's."""
    return predict({name: 0.0 * leaf if name in ("b", "b1") else leaf for name, leaf in params.items()}, x)


def faster(trials: krogh.Trial) -> krogh.Trial:
    """The rate is a tenth too large."""
    return eqx.tree_at(lambda trial: trial.training.optimiser.rate, trials, 1.1 * trials.training.optimiser.rate)


FAULTS: dict[str, Change] = {
    "large batches": miscomputed(large_batches),
    "keys off by 10%": miscomputed(keys_off),
    "a missing bias": miscomputed(without_bias),
    "rate off by 10%": faster,
}


@contextlib.contextmanager
def device_with(change: Change | None = None, operands: int = FLOAT32) -> Iterator[None]:
    """Programs of blocks are those of a device that computes otherwise; those of single trials are not touched."""

    def of(right: Callable[..., Any]) -> Callable[..., Any]:
        def other(trials: Any, *arguments: Any, block: int, **more: Any) -> Any:
            if block == 1:
                return right(trials, *arguments, block=block, **more)
            trials = trials if change is None else change(trials)
            own = lambda *given: right(*given, block=block, **more)  # noqa: E731
            return (own if operands == FLOAT32 else with_short_operands(own, operands))(trials, *arguments)

        return other

    compiling.release()
    compiling._PROGRAMS.clear()
    advance, predictions = of(program.advance), of(agreement.check_predictions)
    with mock.patch.object(program, "advance", advance), mock.patch.object(agreement, "check_predictions", predictions):
        yield
    compiling.release()
    compiling._PROGRAMS.clear()


def networks() -> dict[str, krogh.Trial]:
    """Small trials of three kinds: some converge, some do not; checks read a prefix of 16 or of 512 examples."""
    two_layer = krogh.Training(
        krogh.Sgd(rate=0.1), krogh.Online(batch_size=8), krogh.Stopping(budget=400, validation=600)
    )
    adam = krogh.Training(
        krogh.Adam(rate=0.01),
        krogh.Online(batch_size=32),
        krogh.Stopping(budget=200, validation=600, accuracy=0.9),
        "logistic",
    )
    attention = krogh.models.SparseTransformer(embedding=16, heads=4, embedding_dropout=0.0)
    return {
        "two-layer": krogh.Trial(krogh.Parity(n=8, k=2), krogh.Mlp(width=12, output_bias=True), two_layer),
        "attention": krogh.Trial(krogh.Parity(n=6, k=2), attention, adam),
    }


def stand_in(trial: krogh.Trial, first: int, count: int, operands: int, seconds: float = 5.0) -> Bench:
    """A bench with trials of other seeds for each `first`."""
    cohort: Trials = krogh.sweep(trial, seed=range(first, first + count))[0]
    cpu = jax.local_devices()[0]
    return dataclasses.replace(agreement.bench(cohort, cpu, cpu, count, SIZE, seconds), operands=operands)


def findings(trial: krogh.Trial, repeat: int, count: int, operands: int) -> list[Finding]:
    """All findings of one repetition, judged."""
    return agreement.judge(agreement.compare(stand_in(trial, 1000 * repeat, count, operands)))


def main(kind: str, right: int, wrong: int, count: int = 100) -> None:
    print(f"{kind}, {count} trials; repetitions with an alarm, and the largest amounts where there was none")
    print("| device | evaluation | update | law | any |\n| --- | ---: | ---: | ---: | ---: |")
    cases: list[tuple[str, Change | None, int, int]] = [
        ("right, float32", None, FLOAT32, right),
        ("right, TF32", None, TF32, right),
        *((f"{name}, TF32", change, TF32, wrong) for name, change in FAULTS.items()),
    ]
    for name, change, operands, repeats in cases:
        if "keys" in name and kind != "attention":
            continue
        alarms: Counter[str] = Counter()
        most: Counter[str] = Counter()
        with device_with(change, operands):
            for repeat in range(repeats):
                found = findings(networks()[kind], repeat, count, operands)
                alarms.update(finding.comparison for finding in found if not finding.agrees)
                alarms["any"] += any(not finding.agrees for finding in found)
                for finding in found[:2]:
                    most[finding.comparison] = max(most[finding.comparison], finding.amount)
        shares = [f"{alarms[word]} of {repeats}" for word in ("evaluation", "update", "law", "any")]
        amounts = ", ".join(f"{word} {amount:.2g}" for word, amount in most.items())
        print(f"| {name} | " + " | ".join(shares) + f" | {amounts}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
