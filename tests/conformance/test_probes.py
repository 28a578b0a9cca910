"""The same laws for every registered probe, on every registered model it accepts."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models import Learner, Mlp
from krogh.probes import Moment, Probe
from krogh.registry import MODELS, PROBES
from krogh.tasks import ClassificationTask, Examples

NAMES, KINDS = list(PROBES), [kind for kind in MODELS if not issubclass(MODELS[kind], Learner)]
SIZE = 24

measure = jax.jit(lambda probe, seen: probe.measure(seen))


def example(name: str) -> Probe:
    cls = PROBES[name]
    return getattr(cls, "example", cls)()


def moment(kind: str, seed: int) -> Moment:
    model, task = MODELS[kind].example()
    random = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda: model.init(jax.random.key(0), task))

    def some():
        return {name: random.normal(size=leaf.shape).astype(np.float32) for name, leaf in shapes.items()}

    if isinstance(task, ClassificationTask):
        examples = jax.tree.map(np.asarray, task.batch(jax.random.key(seed), SIZE))
        return Moment(task, model, some(), some(), examples, np.float32(0.75), np.int32(20), examples)
    x = random.choice([-1.0, 1.0], (SIZE, *task.input_shape)).astype(np.float32)
    shape = jax.eval_shape(lambda: task.batch(jax.random.key(0), SIZE)).truth.shape
    truth = random.choice([-1.0, 1.0], shape).astype(np.float32)
    examples = Examples(x, truth, truth)
    return Moment(task, model, some(), some(), examples, np.float32(0.75), np.int32(20), examples)


def pairs():
    for name in NAMES:
        for kind in KINDS:
            model, task = MODELS[kind].example()
            try:
                example(name).check(task, model)
            except KroghError:
                continue
            yield name, kind


PAIRS = list(pairs())


def chosen():
    """Every pair; but only the first of each probe and of each model before the slow tests."""
    seen: set[str] = set()
    for name, kind in PAIRS:
        new = {f"probe {name}", f"model {kind}"} - seen
        seen |= new
        yield pytest.param(name, kind, marks=() if new else pytest.mark.slow)


CHOSEN = list(chosen())


def test_the_source_probes_are_registered():
    assert {"error", "training-error", "batch-loss", "movement", "support-weight"} <= set(NAMES)
    assert {"margin", "fourier-power", "irrep-power"} <= set(NAMES)
    assert {"neuron-shares", "neuron-counts", "neuron-efficiency"} <= set(NAMES)
    for name in NAMES:
        assert example(name).kind == name
        assert any(name == accepted for accepted, _ in PAIRS), f"no model can be probed by {name}"


@pytest.mark.parametrize(("name", "kind"), CHOSEN)
def test_a_measurement_has_a_finite_float32_for_every_column(name, kind):
    probe, seen = example(name), moment(kind, 0)
    columns = probe.columns(seen.task)
    assert columns and len(set(columns)) == len(columns)
    assert all(column.isidentifier() for column in columns)
    found = np.asarray(measure(probe, seen))
    assert found.shape == (len(columns),) and found.dtype == np.float32
    assert np.isfinite(found).all()


@pytest.mark.parametrize(("name", "kind"), CHOSEN)
def test_many_moments_at_once_measure_as_one_at_a_time(name, kind):
    probe, seen = example(name), [moment(kind, seed) for seed in (0, 1)]
    both = jax.tree.map(lambda *leaves: np.stack(leaves), *seen)
    found = np.asarray(jax.jit(jax.vmap(lambda one: probe.measure(one)))(both))
    for row, one in zip(found, seen, strict=True):
        assert np.allclose(row, measure(probe, one), rtol=1e-5, atol=1e-6)


def test_column_names_of_different_probes_do_not_clash():
    task = Mlp.example()[1]
    names = [column for name in NAMES for column in example(name).columns(task)]
    assert len(set(names)) == len(names)
