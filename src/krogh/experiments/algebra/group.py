"""Figures 7.6, D.2 and D.3: what networks that compose a group look like, for S_3, S_4, S_5 and any group of one's own.

Theory says beforehand how large the margin can be, which irreps are used and with which shares, also at the λ of
training; networks are then trained and compared with it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from krogh.engine import Trials, sweep
from krogh.errors import require, require_integer
from krogh.experiments.algebra.cyclic_runs import trained_networks
from krogh.experiments.algebra.group_claims import group_claims
from krogh.experiments.algebra.group_figures import distance_figure, irrep_figure, margin_figure, prediction_figure
from krogh.experiments.algebra.group_measures import Measured, measure_group
from krogh.experiments.algebra.group_plan import Plan, plan_of
from krogh.lab import Claim, Experiment, Figure, Results, experiment, setting
from krogh.probes.margins import Margin
from krogh.probes.spectra import IrrepPower
from krogh.tasks.groups import Group
from krogh.theory.representations import character_table, real_rows
from krogh.theory.representations.irreps import COMMUTANT

SOURCE = "dissertation, Figures 7.6, D.2 and D.3"


@dataclass(frozen=True)
class Settings:
    groups: tuple[str, ...] = setting(("S_3", "S_4", "S_5"), "groups by name, or files that hold a Cayley table")
    group: str = setting(
        "", "one group in place of `groups`: Z_12, D_6, S_4, A_5, Q_8, D_4xD_4, Z_2^3, or path/to/table.csv"
    )
    seeds: int | None = setting(None, "networks of each group; none for 12, or 6 where one takes minutes")
    lam: float | None = setting(None, "λ of the penalty λ Σ‖ω_i‖³; none for the source's, or a hundredth of γ*")
    width: int | None = setting(None, "neurons; none for the source's, or at least twice as many as suffice")
    steps: int | None = setting(None, "steps of gradient descent; none for the source's, or until neurons have settled")
    rate: float | None = setting(None, "learning rate at first; none for about 0.05")
    doubled: int | None = setting(None, "how often the rate is doubled; none for as often as is stable")
    doubled_every: int | None = setting(None, "steps between two doublings; none for the source's, or 200")
    batch: int | None = setting(None, "random pairs per step; none for all pairs (S_5: 1000, as in the source)")


@experiment("algebra/group")
class Composition(Experiment[Settings]):
    """Networks that learn the composition of a group: predicted margin, features, and what training makes of them."""

    title = "Networks that compose a group put each neuron into one irreducible representation"
    question = "Does gradient descent find the networks of maximum margin for this group, and their representations?"
    source = SOURCE
    scales = {
        "smoke": Settings(groups=("S_3",), seeds=2, steps=600, doubled_every=30),
        "laptop": Settings(groups=("S_3", "D_5")),
        "paper": Settings(),
    }
    notes = (
        "The source states neither the initialisation nor the exponent r of its penalty λ‖θ‖^r: weights are uniform "
        "±1/√fan_in, and r = ν = 3, with which its rates are stable.",
        "At finite λ the optimum's normalised margin lies below γ* for groups with irreps of several dimensions, and "
        "rises to it only as 1/log(1/λ): networks are compared with the exact optimum at their λ.",
        "The source shows one run each; here medians over seeds decide. Theory predicts shares of Σ‖ω_i‖³, not numbers "
        "of neurons; both are shown.",
        "λ, width, rates and steps of groups that the source does not treat follow from theory (none in the settings).",
    )
    keep_weights = True

    def trials(self, settings: Settings) -> list[Trials]:
        return [cohort for plan in plans_of(settings) for cohort in cohorts_of(plan, settings.seeds)]

    def claims(self, results: Results[Settings]) -> list[Claim]:
        return [found for measured in measured_groups(results) for found in group_claims(measured)]

    def figures(self, results: Results[Settings]) -> list[Figure]:
        measured = measured_groups(results)
        drawn = [draw(one) for one in measured for draw in (margin_figure, irrep_figure, prediction_figure)]
        return [*drawn, distance_figure(measured)]


def plans_of(settings: Settings) -> list[Plan]:
    """The training of each group, in the order of the settings."""
    names = (settings.group,) if settings.group.strip() else settings.groups
    require(names, "groups must name at least one group; got none (try groups=S_3)")
    plans = [
        plan_of(
            name,
            lam=settings.lam,
            width=settings.width,
            steps=settings.steps,
            rate=settings.rate,
            doubled=settings.doubled,
            doubled_every=settings.doubled_every,
            batch=settings.batch,
        )
        for name in names
    ]
    distinct = len({plan.name for plan in plans}) == len(plans)
    require(distinct, f"groups must have different names; got {', '.join(plan.name for plan in plans)}")
    return plans


def cohorts_of(plan: Plan, seeds: int | None) -> list[Trials]:
    """The networks of one group: seeds of one structure."""
    seeds = plan.seeds if seeds is None else seeds
    require_integer("seeds", seeds, 1)
    return sweep(plan.trial((Margin(), IrrepPower(irrep_kernels(plan.group)))), seed=range(seeds))


def irrep_kernels(group: Group) -> NDArray[np.float64]:
    """κ_R(c) = (D/(e|G|)) χ_R(c) [irreps, n]: the identity's row of the projector onto each real irrep."""
    return np.stack(
        [
            row.dimension / COMMUTANT[row.kind] / group.order * row.character[group.class_of]
            for row in real_rows(character_table(group))
        ]
    )


@functools.lru_cache(maxsize=4)
def measured_groups(results: Results[Settings]) -> list[Measured]:
    """What was measured on every group's networks."""
    seeds = results.settings.seeds
    return [
        measure_group(plan, trained_networks(results, cohorts_of(plan, seeds))) for plan in plans_of(results.settings)
    ]
