"""The same laws for every registered experiment: its scales, its trials, its claims, and what a study of it keeps.

The studies are those of the smoke scale (`conftest.py`).
"""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from typing import Any

import numpy as np
import pytest

from krogh.lab import Experiment, figures, judge_study
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED, Claim, Claims, Threshold
from krogh.lab.estimate import Estimate, exact
from krogh.lab.experiment import SCALES
from krogh.registry import EXPERIMENTS, OWN_FILES, TASKS

OURS = [name for name in EXPERIMENTS if EXPERIMENTS[name].__module__.startswith("krogh.")]
THEIRS = [name for name in EXPERIMENTS if EXPERIMENTS[name].__module__ in {file.stem for file in OWN_FILES}]
NAMES = OURS + THEIRS


@pytest.mark.parametrize("name", NAMES)
def test_it_has_every_scale_and_says_what_it_is(name):
    filed = EXPERIMENTS[name]
    assert issubclass(filed, Experiment) and filed.name == name
    assert tuple(filed.scales) == SCALES
    assert len({type(settings) for settings in filed.scales.values()}) == 1
    for settings in filed.scales.values():
        assert dataclasses.is_dataclass(settings)
        assert all(field.metadata.get("help") for field in dataclasses.fields(settings)), "a line of help per setting"
    assert all(filed.__dict__.get(word) for word in ("title", "question", "source", "__doc__"))
    assert filed.question.endswith("?")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [SCALES[0], *(pytest.param(scale, marks=pytest.mark.slow) for scale in SCALES[1:])])
def test_its_settings_hold_and_its_trials_are_all_different(name, scale):
    experiment = EXPERIMENTS[name]()
    cohorts = list(experiment.trials(experiment.settings(scale)))
    count = sum(len(cohort) for cohort in cohorts)
    assert scale != "smoke" or count <= 200
    if 0 < count <= 20_000:
        assert len(np.unique(np.concatenate([cohort.ids() for cohort in cohorts]))) == count


@pytest.mark.parametrize("name", NAMES)
def test_settings_that_were_stored_are_the_settings(name):
    experiment = EXPERIMENTS[name]()
    for scale in SCALES:
        settings = experiment.settings(scale)
        assert experiment.settings(scale, json.loads(json.dumps(dataclasses.asdict(settings)))) == settings


# --- claims -------------------------------------------------------------------------------------------------------


class Planting(Claims):
    """A collector that puts other numbers in place of what was measured, and collects what becomes of them."""

    def __init__(self, source: str):
        super().__init__(source)
        self.made: list[tuple[str, str, Claim]] = []

    def about(self, *given: Any, **options: Any) -> Claims:
        part = super().about(*given, **options)
        part.__class__ = Planting
        part.made = self.made  # type: ignore[attr-defined]
        return part

    def __call__(self, name: str, statement: str, estimate: Estimate, statistic: str, **options: Any) -> Claim:
        bounds = {word: options[word] for word in Threshold.__dataclass_fields__ if word in options}
        good, bad = _sides(Threshold(**bounds))
        kept = {word: value for word, value in options.items() if word != "needs"}
        for expected, planted, needs in (
            (REPRODUCED, exact(good, 7), ()),
            (NOT_REPRODUCED, exact(bad, 7), ()),
            (INCONCLUSIVE, exact(good, 7), ("too few",)),
            (INCONCLUSIVE, Estimate(good, np.array([min(good, bad)]), np.array([max(good, bad)]), {"s": 7}), ()),
        ):
            alone = Claims(self.source)
            self.made.append((expected, name, alone(name, statement, planted, statistic, needs=needs, **kept)))
        return super().__call__(name, statement, estimate, statistic, **options)


def _sides(threshold: Threshold) -> tuple[float, float]:
    """A number that meets a threshold and one that misses it."""
    bounds = [
        bound
        for bound in (threshold.above, threshold.at_least, threshold.below, threshold.at_most)
        if bound is not None
    ]
    low, high = threshold.between or (bounds[0], bounds[0])
    step = 1 + abs(low) + abs(high)
    candidates = ((low + high) / 2, low - step, high + step)
    return next(x for x in candidates if threshold.meets(x)), next(x for x in candidates if not threshold.meets(x))


@pytest.mark.parametrize("name", NAMES)
def test_its_claims_are_decided_by_what_is_planted(name, tables, smoke):
    experiment = EXPERIMENTS[name]()
    say = Planting(experiment.source)
    experiment.claims(tables(name), say)
    assert len(say), "an experiment without a claim decides nothing"
    kept = json.loads((smoke(name) / "claims.json").read_text())["claims"]
    assert [claim.as_json() for claim in say] == kept, "the tables alone decide, and decide the same"
    for expected, claim_name, claim in say.made:
        assert claim.verdict == expected, claim_name
    for claim in say:
        assert claim.statement and claim.statistic and claim.source and claim.reason
        assert not math.isnan(claim.low) and not math.isnan(claim.high), claim.name
        assert claim.low <= claim.high and claim.trials >= 0
        assert claim.verdict == INCONCLUSIVE or claim.trials >= 1, f"{claim.name} is decided by nothing"
        exactly = claim.low == claim.high
        assert claim.verdict == INCONCLUSIVE or exactly, f"{claim.name}: a smoke scale decides only what has no doubt"
        slack = 1e-9 * abs(claim.value) if math.isfinite(claim.value) else 0.0
        assert math.isnan(claim.value) or claim.low - slack <= claim.value <= claim.high + slack, claim.name


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_its_claims_and_figures_are_redone_from_the_folder_alone(name, smoke, tmp_path, monkeypatch):
    """Bit for bit, with nothing trained or measured."""
    kept = smoke(name)
    copy = tmp_path / "copy"
    shutil.copytree(kept, copy, ignore=shutil.ignore_patterns("cohorts", "weights", "figures"))
    for step in ("trials", "measure", "search"):
        monkeypatch.setattr(EXPERIMENTS[name], step, lambda *_: pytest.fail("nothing may be trained or measured"))
    again = judge_study(copy)
    assert json.loads((copy / "claims.json").read_text()) == json.loads((kept / "claims.json").read_text())
    for picture in again.summary["figures"]:
        assert (copy / picture["data"]).read_bytes() == (kept / picture["data"]).read_bytes()
        assert (copy / picture["svg"]).stat().st_size > 1000
        assert len(picture["caption"]) > 20 and picture["title"] and picture["alt"]
        assert len((copy / picture["data"]).read_text().splitlines()) > 1, "a figure has data behind it"
    assert again.summary["figures"]


def test_figures_do_not_depend_on_the_readers_own_style(tables, smoke):
    import matplotlib

    name = NAMES[0]
    with matplotlib.rc_context({"lines.linewidth": 9.0, "font.size": 30}), figures.style():
        assert list(EXPERIMENTS[name]().figures(tables(name)))


@pytest.mark.parametrize("name", OURS)
def test_the_tasks_that_it_trains_on_name_it_among_what_shows_their_phenomena(name, tables):
    trials = tables(name)["trials"]
    for kind in set(trials["task"]) if len(trials) else ():
        assert name in TASKS[kind].system.experiments, f"the system of the task {kind!r} (krogh/tasks) lacks {name!r}"
