"""Trainings in phases: each phase is a trial that begins with what the one before it ended with.

    one_step, top_layer    Theorem 5.5: one large step that exposes the support, then the top layer alone
    in_stages              a curriculum of chains: a stage for each prior (Propositions 8.5 and E.3)
    layer_wise             greedy training of a deep network: a layer at a time under a read-out of its own (§B.3.7)

Phases are ordinary trials, linked by their starts: trained by one call of `krogh.run`, or in one experiment. Any two
trainings follow one another so, `Trial(task, model, second, start=Inherited(first_trial))`: each counts its steps from
its own beginning and remembers nothing of the one before it but the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from krogh.engine.start import Inherited
from krogh.engine.trial import Trial
from krogh.errors import require
from krogh.models import DeepQuadratic, Mlp
from krogh.tasks.chains import Curriculum, MarkovChains
from krogh.tasks.parity import AbstractParity
from krogh.theory.boolean.majority import majority_coefficient
from krogh.training import Optimiser, Regime, Sgd, Stopping, Training
from krogh.values import replaced

HIDDEN = ("W", "b")


def first_rate(n: int, k: int) -> float:
    """η_0 = 1/(k |ξ_{k-1}|), with which the relevant weights come out as 1/(2k) (dissertation, §B.2.1)."""
    require(n % 2 == 1 and k % 2 == 0, f"the one-step theorem needs odd n and even k; got n={n}, k={k}")
    require(k < n, f"the one-step theorem needs an irrelevant bit, k < n; got n={n}, k={k}")
    return 1 / (k * abs(majority_coefficient(n, k - 1)))


def one_step(
    task: AbstractParity, width: int, regime: Regime, *, loss: str = "hinge", validation: int = 128, seed: Any = 0
) -> Trial:
    """The first phase of Theorem 5.5, a single step: W ← -η_0 ∇_W, b ← b - η_0 ∇_b, u ← 0.

    The start is the symmetric one, at which the network is 0 everywhere and the hinge loss is the correlation loss. The
    decay 1 erases the first W; u is set to 0 explicitly, by a decay of 1 and no rate, for a gradient of u need not
    vanish. `Population()` for the regime gives the exact gradient, `Online(B)` that of B examples.
    """
    optimiser = Sgd(first_rate(task.n, task.k), layer_rate={"u": 0.0}, layer_decay={"W": 1.0, "u": 1.0})
    stopping = Stopping(budget=1, check_every=1, validation=validation)
    model = Mlp(width, degree=task.k, initialiser="symmetric")
    return Trial(task, model, Training(optimiser, regime, stopping, loss), seed)


def top_layer(parent: Trial, training: Training, *, seed: Any = None) -> Trial:
    """The second phase: u alone is trained, on the features that the parent found.

    `seed` draws the examples, those of other steps than the parent's where it is another number.
    """
    drawn = parent.seed if seed is None else seed
    return Trial(
        parent.task, parent.model, replace(training, frozen=HIDDEN), drawn, parent.init_seed, start=Inherited(parent)
    )


def in_stages(trial: Trial, curriculum: Curriculum, optimisers: Sequence[Optimiser] | None = None) -> list[Trial]:
    """A trial on chains as a curriculum has it: a trial per stage, with its prior and its number of steps.

    Each begins with the weights that the one before ended with. `optimisers`, one for each stage, may take the place of
    the trial's own; each counts its steps from its own beginning. The seed of stage i is the trial's plus i, so that no
    stage sees the sequences of another.
    """
    require(isinstance(trial.task, MarkovChains), f"a curriculum is one of 'markov-chains'; got {trial.task.kind!r}")
    stages = curriculum.stages(int(trial.training.stopping.budget))
    chosen = [trial.training.optimiser] * len(stages) if optimisers is None else list(optimisers)
    fits = len(chosen) == len(stages)
    require(fits, f"a curriculum of {len(stages)} stages has as many optimisers; got {len(chosen)}")
    found: list[Trial] = []
    for number, ((prior, steps), optimiser) in enumerate(zip(stages, chosen, strict=True)):
        stopping = replaced(trial.training.stopping, "budget", steps)
        training = replace(trial.training, optimiser=optimiser, stopping=stopping)
        start = Inherited(found[-1]) if found else trial.start
        seed, own = int(trial.seed) + number, replaced(trial.task, "prior", prior)
        weights = trial.seed if trial.init_seed is None else trial.init_seed
        found.append(Trial(own, trial.model, training, seed, weights, trial.probes, trial.probe_every, start=start))
    return found


def layer_wise(trial: Trial) -> list[Trial]:
    """The greedy counterpart of a trial of a deep quadratic network: a phase for each hidden layer.

    Phase i trains layer i with a read-out u·z_i + c of its own, on top of layers 1..i-1 as the phase before left them,
    by the trial's own training. The last phase has the trial's network.
    """
    model = trial.model
    require(isinstance(model, DeepQuadratic), f"layer-wise training is for 'deep-quadratic'; got {model.kind!r}")
    assert isinstance(model, DeepQuadratic)
    phases: list[Trial] = []
    for depth in range(1, model.layers):
        below = tuple(name for layer in range(1, depth) for name in model.names(layer))
        shallower = replaced(model, "widths", model.widths[:depth])
        training = replace(trial.training, frozen=below)
        start = Inherited(phases[-1], arrays=below) if phases else None
        phases.append(Trial(trial.task, shallower, training, trial.seed, trial.init_seed, start=start))
    return phases
