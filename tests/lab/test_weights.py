"""Experiments that keep weights: what is measured reads the very weights that a trial's record was made on."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import polars as pl
import pytest

from krogh.engine import Inherited, Pruning, stack, sweep
from krogh.engine.trial import Trial
from krogh.errors import KroghError
from krogh.lab import Results, run_study
from krogh.lab.estimate import share_of
from krogh.lab.study import plan_study
from krogh.lab.weights import WeightsFolder

CHANGES = {"widths": (8, 12), "seeds": 5, "budget": 60}


@pytest.fixture(scope="module")
def keeping(tiny):
    """The tiny experiment, with a table and a claim that are about its weights."""

    class Keeping(tiny.Tiny):
        keep_weights = True

        def measure(self, results):
            self.seen = {network.row["id"]: network.final for network in results.networks()}
            sizes = [float(np.linalg.norm(weights["W"])) for weights in self.seen.values()]
            return {"sizes": pl.DataFrame({"size": sizes}), **super().measure(results)}

        def claims(self, tables, say):
            long = tables["sizes"]["size"].to_numpy() > 0
            say("weights", "All have some.", share_of(long), "share of networks with weights", at_least=0.5)

    return Keeping


@pytest.fixture(scope="module")
def kept(keeping, tmp_path_factory):
    experiment = keeping()
    study = run_study(experiment, "smoke", tmp_path_factory.mktemp("kept"), changes=CHANGES)
    return experiment, study, pl.read_parquet(study.folder / "trials.parquet")


def trials_of(experiment) -> dict[int, Trial]:
    cohorts = experiment.trials(experiment.settings("smoke", CHANGES))
    return {int(stack([trial])[0].ids()[0]): trial for cohort in cohorts for trial in cohort}


def test_the_weights_are_those_the_record_was_measured_on(kept):
    """Read inside `measure`, one set per row, each giving exactly the recorded accuracy on the trial's own sample."""
    experiment, study, table = kept
    assert study.claims[0].trials == 10 and len(experiment.seen) == 10
    trials = trials_of(experiment)
    right = jax.jit(lambda trial, params, x, truth: trial.task.error(trial.model.predict(params, x), truth).mean())
    for row in table.iter_rows(named=True):
        trial, weights = trials[row["id"]], experiment.seen[row["id"]]
        assert weights["W"].shape == (row["model.width"], 8)
        examples = trial.validation()
        assert float(right(trial, weights, examples.x, examples.truth)) == pytest.approx(row["error"], abs=1e-6)
        assert not np.array_equal(weights["W"], trial.initial_params()["W"])
    assert set(WeightsFolder(study.folder / "weights").ids().tolist()) == set(table["id"])


def test_running_again_reads_them_again(kept, keeping):
    _, study, _ = kept
    experiment = keeping()
    again = run_study(experiment, "smoke", study.folder.parents[1], changes=CHANGES)
    assert again.claims == study.claims and len(experiment.seen) == 10
    assert again.summary["engine"]["trained_steps"] == study.summary["engine"]["trained_steps"]


@pytest.mark.slow
def test_an_interrupted_study_has_the_weights_of_every_record(keeping, kept, tmp_path):
    def interrupt(progress):
        if progress.done >= 4:
            raise KeyboardInterrupt

    first = run_study(keeping(), "smoke", tmp_path, changes=CHANGES, show=interrupt)
    assert first.status == "interrupted" and 4 <= first.summary["engine"]["trials"] < 10
    experiment = keeping()
    second = run_study(experiment, "smoke", tmp_path, changes=CHANGES)
    assert (second.status, second.claims) == ("complete", kept[1].claims)
    for identity, weights in kept[0].seen.items():
        for name, leaf in weights.items():
            np.testing.assert_array_equal(experiment.seen[identity][name], leaf)


def test_records_without_weights_are_refused(tiny, keeping, tmp_path):
    run_study(tiny.Tiny(), "smoke", tmp_path, changes=CHANGES)
    with pytest.raises(KroghError, match="10 trials whose weights were not kept"):
        plan_study(keeping(), "smoke", tmp_path, changes=CHANGES)
    with pytest.raises(KroghError, match="10 trials whose weights were not kept"):
        run_study(keeping(), "smoke", tmp_path, changes=CHANGES)


def test_weights_that_are_not_there(kept, tiny, tmp_path):
    _, study, table = kept
    nowhere = Results(table, None, "smoke")
    with pytest.raises(KroghError, match="keep_weights = True"):
        nowhere.weights(table["id"][0])
    with pytest.raises(KroghError, match="no weights of trial 1 in"):
        Results(table, None, weights_folder=study.folder / "weights").weights(1)
    with pytest.raises(KroghError, match="no weights of trial"):
        Results(table, None, weights_folder=tmp_path / "weights").weights(table["id"][0])


@pytest.fixture(scope="module")
def tickets(tiny):
    """Parents with snapshots, and children that begin with what is left of them: the lottery-ticket experiment."""

    class Tickets(tiny.Tiny):
        keep_weights = True

        def trials(self, settings):
            (parents,) = super().trials(settings)
            parent = dataclasses.replace(parents.template, snapshots=(0, 20))
            yield from sweep(parent, seed=range(settings.seeds), label={"kind": "parent"})
            for kind, words in (("kept", {}), ("rewound", {"weights": "rewound"}), ("early", {"step": 20})):
                children = [
                    dataclasses.replace(own, snapshots=(), start=Inherited(own, pruning=Pruning(0.5, ("W",)), **words))
                    for own in sweep(parent, seed=range(settings.seeds))[0]
                ]
                yield from (cohort.labelled(kind=kind) for cohort in stack(children))

        def measure(self, results):
            kinds = ("parent", "kept", "rewound", "early")
            self.seen = {kind: list(results.networks(kind=kind)) for kind in kinds}
            return super().measure(results)

    Tickets.name = "tiny/tickets"
    return Tickets


@pytest.mark.slow
def test_children_begin_with_what_their_parents_left(tickets, tmp_path):
    experiment, changes = tickets(), {"widths": (8,), "seeds": 3, "budget": 60}

    def interrupt(progress):
        if progress.done >= 4:  # the parents have ended, the children have not
            raise KeyboardInterrupt

    assert run_study(experiment, "smoke", tmp_path, changes=changes, show=interrupt).status == "interrupted"
    study = run_study(experiment, "smoke", tmp_path, changes=changes)  # parents are read from the folder
    assert study.status == "complete" and study.summary["engine"]["trials"] == 12
    for parent, kept, rewound, early in zip(*experiment.seen.values(), strict=True):
        assert np.array_equal(parent.at(0)["W"], parent.initial["W"])
        left = np.abs(parent.final["W"]) >= np.sort(np.abs(parent.final["W"]).ravel())[32]
        assert np.array_equal(kept.initial["W"], np.where(left, parent.final["W"], 0))
        assert np.array_equal(rewound.initial["W"], np.where(left, parent.initial["W"], 0))
        assert not kept.final["W"][~left].any() and kept.final["W"][left].all()
        assert np.isin(early.initial["W"], [0, *parent.at(20)["W"].ravel()]).all()
        assert kept.row["start.parent"] == parent.row["id"]
    with pytest.raises(KroghError, match=r"no weights of trial .* at step 30"):
        parent.at(30)
