"""Shapes that must fit together, looked at when a trial is made: nothing is computed, and once per structure.

What a model draws, predicts and what a probe measures only meets the rest of a trial inside its program, where a wrong
shape would be an error of the compiler's, or none at all where arrays are silently repeated to fit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from krogh.errors import require
from krogh.models.base import Model
from krogh.tasks.base import ClassificationTask, Examples, Task
from krogh.training.training import OF_CLASSES
from krogh.values import Value

if TYPE_CHECKING:
    from krogh.engine.trial import Trial

Shapes = dict[str, jax.ShapeDtypeStruct]

EXAMPLES = 7  # a number that few axes have by themselves
REMEMBERED = 4096

_KNOWN: OrderedDict[Hashable, Any] = OrderedDict()


def checked_shapes(trial: Trial) -> Shapes:
    """The shapes of the trial's parameters; refuse what does not fit together, naming the class and the shapes."""
    return once_per_structure(_checked, trial)


def program_key(*values: Value) -> Hashable:
    """Equal for two templates exactly when one compiled program serves both.

    By the classes themselves and not by their names: a class that was edited and defined again is another one.
    """
    leaves, treedef = jax.tree.flatten(values)
    return treedef, tuple((np.shape(leaf), np.dtype(leaf.dtype).name) for leaf in leaves)


def once_per_structure(function: Callable[..., Any], *values: Value) -> Any:
    """`function(*values)`, found once for all values of their structure."""
    key = function, program_key(*values)
    if key not in _KNOWN:
        _KNOWN[key] = function(*values)
        if len(_KNOWN) > REMEMBERED:
            _KNOWN.popitem(last=False)
    return _KNOWN[key]


def _checked(trial: Trial) -> Shapes:
    params: Shapes = once_per_structure(_parameters, trial.model, trial.task)
    examples: Examples = example_shapes(trial.task)
    prediction = jax.eval_shape(trial.model.predict, params, examples.x)
    check_prediction(trial, prediction, examples)
    if trial.probes:
        sample = jax.eval_shape(lambda: trial.training.regime.sample(trial.task, jax.random.key(0)))
        numbers = jax.ShapeDtypeStruct((), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32)
    for probe in trial.probes:
        measure = lambda *seen, probe=probe: probe.measure(trial.moment(*seen))  # noqa: E731
        _check_measurement(trial, probe, jax.eval_shape(measure, params, params, *numbers, sample))
    return params


def example_shapes(task: Task) -> Examples:
    """The shapes of `EXAMPLES` examples of a task."""
    found: Examples = once_per_structure(_examples, task)
    return found


def _examples(task: Task) -> Examples:
    return jax.eval_shape(lambda: task.batch(jax.random.key(0), EXAMPLES))


def _parameters(model: Model, task: Task) -> Shapes:
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), task))
    name = type(model).__name__
    flat = isinstance(params, dict)
    require(flat, f"the parameters of {name} must be a dictionary of named arrays; got a {type(params).__name__}")
    for key, leaf in params.items():
        inner = f" with {sorted(map(str, leaf))}" if isinstance(leaf, dict) else ""
        require(
            isinstance(key, str) and isinstance(leaf, jax.ShapeDtypeStruct),
            f"the parameters of {name} must be one flat dictionary of named arrays; got {key!r}: a "
            f"{type(leaf).__name__}{inner} (try names such as 'layer.W')",
        )
    return params


def check_prediction(trial: Trial, prediction: Any, examples: Examples) -> None:
    """Refuse predictions for `examples` that the loss or the task's error cannot read."""
    model, task, loss = type(trial.model).__name__, type(trial.task).__name__, trial.training.loss
    found = getattr(prediction, "shape", None)
    labels = examples.y.shape
    if isinstance(trial.task, ClassificationTask):
        fits, needed = found == (*labels, trial.task.classes), f"{_text((*labels, trial.task.classes))}: logits"
    elif loss == OF_CLASSES:
        fits, needed = found is not None and labels in (found, found[:-1]), f"{_text(labels)}, or one more axis: logits"
    else:
        fits, needed = found == labels, _text(labels)
    shown = "no array" if found is None else _text(found)
    require(
        fits,
        f"{model} predicts {shown} for {_text(examples.x.shape)} inputs of {task}; the loss {loss!r} of labels "
        f"{_text(labels)} needs {needed}",
    )
    size = labels[:1]
    error = jax.eval_shape(trial.task.judge, prediction, examples)
    require(
        getattr(error, "shape", None) == size,
        f"the error of {task} must be one number per example, {_text(size)} here; got "
        f"{_text(getattr(error, 'shape', ()))} for predictions {shown} and truth {_text(examples.truth.shape)}",
    )


def _check_measurement(trial: Trial, probe: Any, measured: Any) -> None:
    names = tuple(probe.columns(trial.task))
    found = getattr(measured, "shape", None)
    real = found is not None and jnp.issubdtype(measured.dtype, jnp.floating)
    shown = type(measured).__name__ if found is None else f"{measured.dtype} {_text(found)}"
    hint = " (try value[None])" if found == () and len(names) == 1 else ""
    require(
        found == (len(names),) and real,
        f"{type(probe).__name__}.measure must give one float per column, {_text((len(names),))} for {list(names)}; got "
        f"{shown}{hint}",
    )


def _text(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"
