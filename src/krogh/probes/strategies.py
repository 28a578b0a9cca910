"""Which simple strategy a network is nearest to while it trains (dissertation, §8.3.1), for tasks that have some.

A strategy is a predictor that somebody could write down: the uniform guess, the frequencies of symbols so far, the
frequencies of what followed the present symbol. A network that learns in stages passes from one to the next.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from krogh.errors import require
from krogh.models.base import Model, predict_judged
from krogh.probes.base import Moment, Probe, probe
from krogh.tasks.base import Task


@probe("strategy-distances")
class StrategyDistances(Probe):
    """The loss that a trial is judged by, the distance of its predictions to those of every strategy of the task, and
    what each strategy itself would lose on the same examples (`baseline_...`, the same at every look)."""

    def columns(self, task: Task) -> tuple[str, ...]:
        names = [name.replace("-", "_") for name in task.strategies()]
        return ("loss", *(f"distance_{name}" for name in names), *(f"baseline_{name}" for name in names))

    def measure(self, moment: Moment) -> Float[Array, " columns"]:
        task, seen = moment.task, moment.validation
        prediction = predict_judged(moment.model, task, moment.params, seen.x)
        said = [strategy(seen.x) for strategy in task.strategies().values()]
        distances = [jnp.mean(task.distance(one, prediction)) for one in said]
        baselines = [jnp.mean(task.judge_strategy(one, seen)) for one in said]
        return jnp.stack([jnp.mean(task.judge(prediction, seen)), *distances, *baselines])

    def check(self, task: Task, model: Model) -> None:
        known = bool(task.strategies())
        require(known, f"strategy-distances needs a task with strategies; {task.kind!r} has none (try 'markov-chains')")
