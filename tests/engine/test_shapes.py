"""What does not fit together is refused when the trial is made: one error, with the class and the shapes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import krogh
from krogh.errors import KroghError
from krogh.models.base import Model
from krogh.probes.base import Probe
from krogh.tasks.parity import Parity
from krogh.values import replaced, structure


class Twisted(Model):
    """A linear network whose predictions or parameters have a shape of one's choice."""

    fault: str = structure(default="")

    def init(self, key, task):
        w = jax.random.normal(key, task.input_shape)
        if self.fault == "nested":
            return {"layer": {"W": w, "b": w}}
        return [w] if self.fault == "list" else {"w": w}

    def predict(self, params, x):
        output = x @ params["w"]
        if self.fault == "column":
            return output[:, None]
        return jnp.sum(output) if self.fault == "scalar" else output

    def check(self, task):
        pass

    @classmethod
    def example(cls):
        return cls(), Parity(n=6, k=2)


class Twist(Probe):
    """A probe of two columns that measures something else."""

    fault: str = structure(default="")

    def columns(self, task):
        return ("alone",) if self.fault == "scalar" else ("first", "second")

    def measure(self, moment):
        norm = jnp.sum(moment.params["W"] ** 2)
        few, many = norm[None], jnp.stack([norm] * 3)
        whole = jnp.ones(2, jnp.int32)
        return {"scalar": norm, "few": few, "many": many, "whole": whole, "": many[:2]}[self.fault]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("nested", ("Twisted", "flat dictionary", "'layer'", "['W', 'b']")),
        ("list", ("Twisted", "dictionary of named arrays", "list")),
        ("column", ("Twisted", "[7, 1]", "[7, 6]", "Parity", "'hinge'", "needs [7]")),
        ("scalar", ("Twisted", "predicts []", "needs [7]")),
    ],
)
def test_a_model_of_the_wrong_shape_is_refused_at_once(fault, words):
    with pytest.raises(KroghError) as caught:
        krogh.Trial(Parity(n=6, k=2), Twisted(fault))
    assert all(word in str(caught.value) for word in words), caught.value


def test_the_error_is_that_of_the_model_that_is_given_and_not_of_one_seen_before():
    krogh.Trial(Parity(n=6, k=2), Twisted())
    with pytest.raises(KroghError, match="flat dictionary"):
        krogh.Trial(Parity(n=6, k=2), Twisted("nested"))


def test_logits_of_the_wrong_number_are_refused():
    model = krogh.PairNetwork(width=4)
    training = krogh.Training(loss="cross-entropy", stopping=krogh.Stopping(budget=20, validation=8))

    class Fewer(krogh.PairNetwork):
        def predict(self, params, x):
            return super().predict(params, x)[:, :-1]

    krogh.Trial(krogh.GroupComposition("Z_5"), model, training)
    with pytest.raises(KroghError, match=r"Fewer predicts \[7, 4\].*needs \[7, 5\]: logits"):
        krogh.Trial(krogh.GroupComposition("Z_5"), Fewer(width=4), training)


def test_an_error_must_be_one_number_per_example(base):
    class Total(Parity):
        def judge(self, prediction, examples):
            return jnp.mean(self.error(prediction, examples.truth))

    with pytest.raises(KroghError, match=r"error of Total must be one number per example, \[7\] here; got \[\]"):
        krogh.Trial(Total(n=6, k=2), base.model, base.training)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("scalar", ("Twist.measure", "[1] for ['alone']", "float32 []", "value[None]")),
        ("few", ("Twist.measure", "[2] for ['first', 'second']", "float32 [1]")),
        ("many", ("Twist.measure", "[2] for ['first', 'second']", "float32 [3]")),
        ("whole", ("one float per column", "int32 [2]")),
    ],
)
def test_a_probe_of_the_wrong_shape_is_refused_at_once(base, fault, words):
    krogh.Trial(base.task, base.model, base.training, probes=(Twist(),))
    with pytest.raises(KroghError) as caught:
        krogh.Trial(base.task, base.model, base.training, probes=(Twist(fault),))
    assert all(word in str(caught.value) for word in words), caught.value


def test_shapes_are_looked_at_once_for_a_structure(base):
    """A sweep makes hundreds of trials: tracing each would take seconds."""
    traced = []

    class Counted(krogh.Mlp):
        def predict(self, params, x):
            traced.append(x.shape)
            return super().predict(params, x)

    trial = krogh.Trial(base.task, Counted(width=8), base.training)
    krogh.sweep(trial, training__optimiser__rate=[0.1, 0.2, 0.3], task__noise=[0.0, 0.1], seed=range(100))
    assert traced == [(7, 6)]
    replaced(trial, "model.width", 9)
    assert len(traced) == 2
