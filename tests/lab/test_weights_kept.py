"""Experiments that keep weights: what is measured reads the very weights that a trial's record was made on."""

from __future__ import annotations

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
from krogh.lab.weights import read_weights, weight_ids
from krogh.values import replaced

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
    assert set(weight_ids(study.folder / "weights").tolist()) == set(table["id"])


def test_running_again_reads_them_again(kept, keeping):
    _, study, _ = kept
    experiment = keeping()
    again = run_study(experiment, "smoke", study.folder.parents[1], changes=CHANGES)
    assert again.claims == study.claims and len(experiment.seen) == 10
    assert again.summary["engine"]["trained_steps"] == study.summary["engine"]["trained_steps"]


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


def test_children_find_their_parents_in_the_study(tiny, tmp_path):
    """An interrupted study has trained the parents; their weights, at the end and at a snapshot, are read from disk."""

    class Tickets(tiny.Tiny):
        keep_weights = True

        def trials(self, settings):
            (parents,) = super().trials(settings)
            parent = replaced(parents.template, "snapshots", (0, 10))
            child = replaced(parent, "start", Inherited(parent, 10, Pruning(0.5, ("W",)), "rewound"))
            children = sweep(child, **{"start.parent.seed": range(3)}, seed=[7])
            return [*children, *sweep(parent, seed=range(3))]

    def interrupt(progress):
        if progress.done >= 3:
            raise KeyboardInterrupt

    changes = {"widths": (8,), "seeds": 3, "budget": 40}
    assert run_study(Tickets(), "smoke", tmp_path, changes=changes, show=interrupt).status == "interrupted"
    study = run_study(Tickets(), "smoke", tmp_path, changes=changes)
    table = pl.read_parquet(study.folder / "trials.parquet")
    assert len(table) == 6 and table["start"].to_list() == ["inherited"] * 3 + ["drawn"] * 3
    assert table["start.parent"].to_list()[:3] == table["id"].to_list()[3:]
    folder = study.folder / "weights"
    for child, parent in table.select("id", "start.parent").head(3).iter_rows():
        mask = Pruning(0.5, ("W",)).masks(read_weights(folder, parent, 10))["W"]
        first = read_weights(folder, parent, 0)["W"]
        np.testing.assert_array_equal(read_weights(folder, child, 0)["W"], np.where(mask > 0, first, 0))
        assert (read_weights(folder, child)["W"][mask == 0] == 0).all()
    with pytest.raises(KroghError, match="no weights of trial"):
        read_weights(folder, int(table["id"][0]), 20)
