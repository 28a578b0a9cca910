"""One compilation: what differs between trials in value is data and never recompiles."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest

import krogh
from krogh import registry
from krogh.engine import Usage, compiling, executor
from krogh.engine.memory import Plan, plan


def trial(width: int, i: int = 0) -> krogh.Trial:
    """The i-th trial of a structure: no two have the same value of any number."""
    optimiser = krogh.Sgd(
        rate=0.01 * (i + 1),
        decay=1e-4 * i,
        layer_rate={"u": 0.02 * (i + 1)},
        schedule=krogh.Cosine(horizon=300.0 + i, warmup=1.0 * i),
    )
    stopping = krogh.Stopping(budget=50 + 10 * i, accuracy=0.7 + i / 200, consecutive=1 + i % 4, validation=20)
    return krogh.Trial(
        krogh.Parity(n=7, support=(i % 6, 6), noise=(i + 1) / 100),
        krogh.Mlp(width, output_bias=True),
        krogh.Training(optimiser, krogh.Offline(m=10 + i % 20, batch_size=8), stopping),
        seed=i,
        init_seed=1000 + i,
    )


def varied(width: int, first: int) -> list[krogh.Trial]:
    return [trial(width, i) for i in range(first, first + 20)]


@pytest.mark.slow
def test_one_value_and_twenty_values_cost_the_same(base, xla_compilations):
    krogh.run(base)  # whatever a process compiles once
    counts = []
    for trials in (krogh.stack([trial(4)]), krogh.stack(varied(5, 0))):
        assert len(trials) == 1
        xla_compilations.clear()
        usage = Usage()
        table = krogh.run(trials, usage=usage)
        assert len(table) == len(trials[0])
        counts.append((usage.compilations, len(xla_compilations)))
    assert counts == [(1, 1), (1, 1)]

    xla_compilations.clear()
    usage = Usage()
    krogh.run(varied(5, 20), usage=usage)  # other values, the same structure
    assert (usage.compilations, xla_compilations) == (0, [])


@pytest.mark.slow
def test_a_program_may_be_prepared_beforehand(xla_compilations):
    (cohort,) = krogh.stack([trial(6)])
    template, device = cohort.fitted().template, executor.lanes_here()[0]
    program, first = compiling.request_program(template, plan(template, 1, device), device)
    program.result()
    assert first and not compiling.request_program(template, plan(template, 1, device), device)[1]
    usage = Usage()
    krogh.run(cohort, usage=usage)
    assert usage.compilations == 0 and len(xla_compilations) == 1


@pytest.mark.slow
def test_coming_cohorts_are_prepared_while_the_first_trains(monkeypatch):
    """Every program is asked for before the first trial of its cohort is needed, four lanes ahead."""
    asked, opened = [], []
    real_request, real_lane = executor.request_program, executor.Lane

    def request(template, *rest):
        asked.append(template)
        return real_request(template, *rest)

    def lane(cohort, *rest):
        opened.append(len(asked))
        return real_lane(cohort, *rest)

    monkeypatch.setattr(executor, "request_program", request)
    monkeypatch.setattr(executor, "Lane", lane)
    cohorts = [cohort for n in (4, 5, 6) for cohort in krogh.stack([trial(n)])]
    list(executor.run_cohorts(cohorts, [np.arange(1)] * 3))
    assert opened[0] >= 2, "the second program was asked for before the first cohort's lane opened"


def test_shapes_make_other_cohorts():
    cohorts = krogh.sweep(trial(4), model__width=[4, 5, 6], training__optimiser__rate=[0.1, 0.2], seed=range(3))
    assert [len(cohort) for cohort in cohorts] == [6, 6, 6]


def test_a_short_first_sweep_does_not_decide_the_program(base, train, one_by_one, xla_compilations):
    """Plans of equal size share the program whatever the number of trials."""
    usage = Usage()
    train(krogh.sweep(base, seed=range(2))[0], plan_override=one_by_one)
    xla_compilations.clear()
    train(krogh.sweep(base, seed=range(40))[0], plan_override=one_by_one, usage=usage)
    assert (usage.compilations, xla_compilations) == (0, [])


class Gpu:
    platform = "gpu"


def test_only_models_that_were_compared_are_compiled_with_library_products(base):
    """Nor are products that share a factor merged (benchmarks/wrong_fusion.py); `krogh verify` is the test there."""
    gated, task = krogh.models.Recurrent.example()
    recurrent = krogh.Trial(
        task, gated, replace(base.training, stopping=krogh.Stopping(budget=10, error=0.1), loss="square")
    )
    cpu = jax.local_devices()[0]
    small, large = Plan(4 * compiling.TUNED_BLOCK, 8), Plan(compiling.TUNED_BLOCK, compiling.TUNED_BLOCK)
    product = "xla_gpu_enable_triton_gemm"
    apart = {"xla_gpu_dot_merger_threshold_mb": 0}
    assert compiling.compiler_options(recurrent, small, Gpu) == apart | {"xla_gpu_autotune_level": 0, product: False}
    assert compiling.compiler_options(base, small, Gpu) == apart | {"xla_gpu_autotune_level": 0}
    compared = {"recurrent", "feedforward", "token-attention"}
    assert {name for name, kind in registry.MODELS.items() if kind.example()[0].library_products} == compared
    assert not krogh.models.Recurrent("lstm", hidden=8).library_products, "only GRUs were compared"
    for trial in (recurrent, base):
        assert compiling.compiler_options(trial, large, Gpu) == apart
        assert compiling.compiler_options(trial, small, cpu) is None


def test_the_compiler_is_told_the_options(base, monkeypatch):
    asked = []
    monkeypatch.setattr(compiling, "compiler_options", lambda *call: asked.append(call) or {"xla_no_such_option": 1})
    size, cpu = Plan(2, 1), jax.local_devices()[0]
    with pytest.raises(Exception, match="xla_no_such_option"):
        compiling.request_program(base, size, cpu)[0].result()
    assert [call[1:] for call in asked] == [(size, cpu)]
