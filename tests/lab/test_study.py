"""Studies: run, interrupted, killed, resumed, refused. What is in the folder must not depend on how it got there."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from support import retell

from krogh.engine import sweep
from krogh.engine.lane import Waiting
from krogh.errors import KroghError, TooLarge
from krogh.files import STUDY_SCHEMA
from krogh.lab import Results, run_study, study, training
from krogh.lab.members import joined
from krogh.lab.store import Store
from krogh.lab.study import judge_study, plan_study
from krogh.lab.weights import WeightsFolder, write_weights
from krogh.registry import TASKS
from krogh.report import write_report
from krogh.report.read import read_study

PLUGIN = Path(__file__).parents[1] / "plugin"
COSTS = ("trained_steps", "useful_steps", "compilations")


def table_of(folder: Path) -> pl.DataFrame:
    return pl.read_parquet(folder / "trials.parquet")


def trained(monkeypatch) -> list[np.ndarray]:
    """Identities handed to the engine from here on, a list entry per cohort."""
    asked: list[np.ndarray] = []
    engine = training.run_cohorts

    def counted(cohorts, positions, **options):
        wanted = [own.waiting() if isinstance(own, Waiting) else own for own in positions]
        asked.extend(cohort.ids()[own] for cohort, own in zip(cohorts, wanted, strict=True))
        return engine(cohorts, positions, **options)

    monkeypatch.setattr(training, "run_cohorts", counted)
    return asked


@pytest.fixture
def copied(reference, tmp_path) -> Path:
    """A copy of the finished smoke study; `tmp_path` is its --out."""
    shutil.copytree(reference.folder, tmp_path / "tiny" / "parity")
    return tmp_path


# --- what a study leaves ------------------------------------------------------------------------------------


def test_the_table_has_a_row_per_trial_in_the_experiments_order(reference, tiny):
    cohorts = tiny.Tiny().trials(tiny.Settings())
    table = table_of(reference.folder)
    assert table["id"].to_list() == np.concatenate([cohort.ids() for cohort in cohorts]).tolist()
    assert table["model.width"].to_list() == [8] * 24 + [12] * 24
    assert table["seed"].to_list() == 2 * list(range(24))
    assert "order" not in table.columns


def test_the_report_reads_what_the_study_wrote(reference, tiny, tmp_path):
    read = read_study(reference.folder)
    assert (read.name, read.scale, read.status) == ("tiny/parity", "smoke", "complete")
    assert read.settings == json.loads(json.dumps(tiny.Settings().__dict__))
    assert read.notes == ("Made for tests.",) and "jax" in read.versions and read.device
    assert read.started <= read.finished and read.seconds > 0
    outcomes = table_of(reference.folder)["outcome"].cast(pl.String).value_counts()
    counted = dict(outcomes.iter_rows())
    assert {name: read.engine[name] for name in counted} == counted
    assert read.engine["trials"] == 48 == sum(read.engine[name] for name in ("converged", "failed", "diverged"))
    steps = int(table_of(reference.folder)["steps"].sum())
    assert read.engine["path_xla"] == 48 and "path_resident" not in read.engine
    assert read.engine["useful_steps"] == steps <= read.engine["trained_steps"]
    assert 0 <= read.engine["wasted_share"] < 1
    (found,) = read.claims
    assert (found.name, found.verdict, found.trials) == ("learns", "reproduced", 48)
    (picture,) = read.figures
    for file in (picture.svg, picture.pdf, picture.data):
        assert (reference.folder / file).stat().st_size > 0
    assert "Small networks learn" in write_report(reference.folder, tmp_path / "page.html").read_text()


def test_the_folder_holds_what_the_documentation_says_and_no_more(reference):
    names = {path.name for path in reference.folder.iterdir()}
    assert names == {"study.json", "claims.json", "trials.parquet", "measures", "figures", "cohorts", "costs"}
    assert len(list((reference.folder / "cohorts").iterdir())) == 2


def test_verdicts_are_those_of_the_experiment(reference):
    written = json.loads((reference.folder / "claims.json").read_text())
    assert written == {"schema": STUDY_SCHEMA, "claims": [claim.as_json() for claim in reference.claims]}


# --- resuming -----------------------------------------------------------------------------------------------


def test_running_again_trains_nothing_and_answers_the_same(copied, reference, tiny, monkeypatch, contents):
    asked = trained(monkeypatch)
    before = contents(copied / "tiny" / "parity" / "cohorts")
    seen = []
    again = run_study(tiny.Tiny(), "smoke", copied, show=seen.append)
    assert sum(len(ids) for ids in asked) == 0 and not seen
    assert contents(copied / "tiny" / "parity" / "cohorts") == before
    assert [again.summary["engine"][cost] for cost in COSTS] == [reference.summary["engine"][cost] for cost in COSTS]
    assert again.claims == reference.claims and again.summary["started"] == reference.summary["started"]
    assert_frame_equal(table_of(again.folder), table_of(reference.folder))


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_study_goes_on_where_it_stopped(stop, reference, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "FLUSH_SECONDS", 0.0)
    asked = trained(monkeypatch)

    def interrupt(progress):
        if progress.done >= 30:  # in the second cohort
            raise stop

    if stop is KeyboardInterrupt:
        first = run_study(tiny.Tiny(), "smoke", tmp_path, show=interrupt)
        assert (first.status, first.claims) == ("interrupted", [])
        assert read_study(first.folder).status == "interrupted"
    else:
        with pytest.raises(stop):
            run_study(tiny.Tiny(), "smoke", tmp_path, show=interrupt)
    folder = tmp_path / "tiny" / "parity"
    assert not (folder / "claims.json").exists() and not (folder / "trials.parquet").exists()
    kept = Store(folder / "cohorts").ids()
    assert 30 <= len(kept) < 48
    asked.clear()
    seen = []
    second = run_study(tiny.Tiny(), "smoke", tmp_path, show=lambda progress: seen.append(progress.resumed))
    fresh = np.concatenate(asked)
    assert len(fresh) == 48 - len(kept) and not np.isin(fresh, kept).any()
    assert set(seen) == {len(kept)}
    assert (second.status, second.claims) == ("complete", reference.claims)
    assert_frame_equal(table_of(folder), table_of(reference.folder))
    if stop is KeyboardInterrupt:  # the costs of both runs are added up; a crash loses its own
        assert second.summary["engine"]["useful_steps"] >= int(table_of(folder)["steps"].sum())
        assert second.summary["seconds"] > first.summary["seconds"]


CRASHING = """
import os, signal, sys
from pathlib import Path
import tiny_lab
from krogh import files
from krogh.lab import store, study, training

out, point = sys.argv[1:]
training.FLUSH_SECONDS = 0.0

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

show = lambda progress: None
if point == "first write":
    files.os.fsync = die
elif point == "between batches":
    show = lambda progress: progress.done >= 12 and die()
elif point == "half a file":
    whole = store._sink
    def half(path, *rest):
        whole(path, *rest)
        path.write_bytes(path.read_bytes()[:500])
        die()
    store._sink = half
elif point == "after a merge":
    remove = Path.unlink
    def unlink(path, **options):
        return die() if ".part-" in path.name else remove(path, **options)
    Path.unlink = unlink
study.run_study(tiny_lab.Tiny(), "smoke", out, show=show)
"""


@pytest.mark.slow
def test_killed_at_the_worst_moments_and_resumed(reference, tiny, tmp_path, monkeypatch):
    """Each run picks up after the kill before it; the table is that of a run that was never killed."""
    folder = tmp_path / "tiny" / "parity"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PLUGIN), *sys.path])}
    grown = []
    for point in ("first write", "between batches", "half a file", "after a merge"):
        ended = subprocess.run(
            [sys.executable, "-c", CRASHING, tmp_path, point], env=environment, capture_output=True, text=True
        )
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        grown.append(len(Store(folder / "cohorts").ids()))
    assert grown[0] == 0 < grown[1] == grown[2] < grown[3] <= 48
    asked = trained(monkeypatch)
    finished = run_study(tiny.Tiny(), "smoke", tmp_path)
    assert sum(len(ids) for ids in asked) == 48 - grown[-1]
    assert finished.claims == reference.claims
    assert_frame_equal(table_of(folder), table_of(reference.folder))
    engine = finished.summary["engine"]  # of whoever was killed behind its records, too
    assert engine["trained_steps"] >= engine["useful_steps"] and engine["training_seconds"] > 0
    visible = [path for path in (folder / "cohorts").iterdir() if not path.name.startswith(".")]
    assert len(visible) == 2


@pytest.mark.slow
def test_records_of_an_earlier_version_of_the_experiment_are_not_mixed_in(copied, reference, tiny, monkeypatch):
    """An author who edits the trials of an experiment, not its settings, gets the new trials and only those."""

    class Edited(tiny.Tiny):
        def trials(self, settings):
            return super().trials(settings)[1:]

    Edited.name = "tiny/parity"
    asked = trained(monkeypatch)
    edited = run_study(Edited(), "smoke", copied)
    assert sum(len(ids) for ids in asked) == 0
    assert_frame_equal(table_of(edited.folder), table_of(reference.folder)[24:])
    assert edited.summary["engine"]["trials"] == 24 and edited.claims[0].trials == 24


@pytest.mark.slow
def test_a_trial_asked_for_twice_is_trained_once_and_has_two_rows(copied, tiny, monkeypatch):
    class Doubled(tiny.Tiny):
        def trials(self, settings):
            first, second = super().trials(settings)
            new = sweep(first.template, seed=[90, 91, 90])
            return [second, *new, first, *new]

    Doubled.name = "tiny/parity"
    asked = trained(monkeypatch)
    doubled = run_study(Doubled(), "smoke", copied)
    assert sum(len(ids) for ids in asked) == 2
    table = table_of(doubled.folder)
    seeds = [*range(24), 90, 91, 90, *range(24), 90, 91, 90]
    assert table["seed"].to_list() == seeds and table["id"].n_unique() == 50
    assert doubled.summary["engine"]["trials"] == 50


def test_an_experiment_without_trials_concludes(tiny, tmp_path):
    class Idle(tiny.Tiny):
        def trials(self, settings):
            return []

        def measure(self, results):
            assert results.table.is_empty()
            return {}

        def claims(self, tables, say):
            pass

        def figures(self, tables):
            return []

    Idle.name = "tiny/idle"
    idle = run_study(Idle(), "smoke", tmp_path)
    assert idle.status == "complete" and idle.summary["engine"]["trials"] == 0
    assert read_study(idle.folder).claims == ()


# --- measuring, judging -------------------------------------------------------------------------------------


def test_labels_are_columns_and_networks_are_found_by_them(weighed, tiny):
    kept, experiment, changes = weighed
    table = table_of(kept.folder)
    assert table["size"].to_list() == [8] * 8
    cohorts = experiment.trials(experiment.settings("smoke", changes))
    results = Results(table, None, cohorts=cohorts, weights_folder=kept.folder / "weights")
    networks = list(results.networks(size=8, seed=3))
    assert len(networks) == 1 and networks[0].seed == 3 and not list(results.networks(size=12))
    (network,) = networks
    stored = WeightsFolder(kept.folder / "weights")(network.row["id"])
    assert all(np.array_equal(network.final[name], stored[name]) for name in stored)
    assert np.array_equal(network.initial["W"], network.trial.initial_params()["W"])
    assert len(list(results.networks())) == 8


@pytest.mark.slow
def test_what_is_measured_is_kept_and_made_once(copied, reference, tiny, monkeypatch):
    made = []

    class Counting(tiny.Tiny):
        def measure(self, results):
            def times():
                made.append("times")
                return super(Counting, self).measure(results)["times"]()

            def other():
                made.append("other")
                return pl.DataFrame({"x": [1.0]})

            return {"times": times, "other": other}

    Counting.name = "tiny/parity"
    run_study(Counting(), "smoke", copied)
    assert made == ["times", "other"]  # another source measures, though no trial is trained again
    place = copied / "tiny" / "parity" / "measures"
    assert sorted(path.stem for path in place.glob("*.parquet")) == ["other", "times"]
    run_study(Counting(), "smoke", copied)
    assert made == ["times", "other"]
    (place / "other.parquet").unlink()  # as if measuring had been interrupted
    run_study(Counting(), "smoke", copied)
    assert made == ["times", "other", "other"]


def test_judging_again_reads_the_folder_alone(copied, reference, tiny, monkeypatch):
    folder = copied / "tiny" / "parity"

    class Changed(tiny.Tiny):
        def trials(self, settings):
            raise AssertionError("nothing is planned")

        def measure(self, results):
            raise AssertionError("nothing is measured")

    monkeypatch.setitem(study.EXPERIMENTS._things, "tiny/parity", Changed)
    for gone in ("claims.json", "cohorts", "figures"):
        path = folder / gone
        path.unlink() if path.is_file() else shutil.rmtree(path)
    again = judge_study(folder)
    assert again.claims == reference.claims and (folder / "claims.json").exists()
    assert (folder / "figures" / "times.svg").read_bytes() == (reference.folder / "figures" / "times.svg").read_bytes()


def test_a_fault_in_a_drawing_costs_no_verdict(tiny, tmp_path):
    class Clumsy(tiny.Tiny):
        def figures(self, tables):
            raise RuntimeError("spilled ink")

    Clumsy.name = "tiny/parity"
    with pytest.raises(RuntimeError, match="spilled ink"):
        run_study(Clumsy(), "smoke", tmp_path, changes={"widths": (8,), "seeds": 4, "budget": 20})
    folder = tmp_path / "tiny" / "parity"
    assert len(json.loads((folder / "claims.json").read_text())["claims"]) == 1
    assert json.loads((folder / "study.json").read_text())["status"] == "complete"


def test_an_unfinished_study_cannot_be_judged(copied):
    path = copied / "tiny" / "parity" / "study.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"status": "interrupted"}))
    with pytest.raises(KroghError, match="is interrupted: finish it first with"):
        judge_study(copied / "tiny" / "parity")
    with pytest.raises(KroghError, match="holds no study"):
        judge_study(copied)


# --- refusals -----------------------------------------------------------------------------------------------


def refused(experiment, out, match, contents, root, **options) -> str:
    """One clear error, from the check as from the study itself, and not a byte changed under `root`."""
    before = contents(root)
    messages = []
    for function in (plan_study, run_study):
        with pytest.raises(KroghError, match=match) as caught:
            function(experiment, "smoke", out, **options)
        messages.append(str(caught.value))
        assert contents(root) == before
    assert messages[0] == messages[1] and "\n" not in messages[0]
    return messages[0]


def test_a_folder_that_holds_another_study(copied, tiny, contents):
    match = r"holds another study \(settings is .*'seeds': 24.*'seeds': 25.*choose another --out"
    refused(tiny.Tiny(), copied, match, contents, copied, changes={"seeds": 25})
    for word, other in (("scale", "laptop"), ("name", "tiny/other")):
        retell(copied / "tiny" / "parity", **{word: other})
        refused(tiny.Tiny(), copied, rf"holds another study \({word} is '{other}'", contents, copied)


def test_a_folder_that_holds_something_else(tiny, tmp_path, contents):
    (tmp_path / "tiny" / "parity").mkdir(parents=True)
    (tmp_path / "tiny" / "parity" / "thesis.tex").write_text("ten years of work")
    refused(tiny.Tiny(), tmp_path, "not empty and holds no study", contents, tmp_path)


def test_a_place_that_cannot_be_written(tiny, tmp_path, contents, monkeypatch):
    (tmp_path / "file").write_text("a file")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        refused(tiny.Tiny(), out, f"{tmp_path / 'file'} is not a writable folder", contents, tmp_path)
    refused(tiny.Tiny(), tmp_path / ("x" * 300), "cannot write a study into .*: File name too long", contents, tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    refused(tiny.Tiny(), tmp_path / "locked", f"{tmp_path} is not a writable folder", contents, tmp_path)


def test_a_file_system_that_says_no_when_asked_to_write(tiny, tmp_path, contents, monkeypatch):
    def no(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(study, "write_json", no)
    with pytest.raises(KroghError, match=r"cannot write a study into .*: Permission denied"):
        run_study(tiny.Tiny(), "smoke", tmp_path / "out")
    assert contents(tmp_path) == {}


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "damaged"),
        (b"{", "damaged"),
        (b"[]", "is damaged"),
        (b"[1]", "damaged"),
        (b"3", "damaged"),
        (b"\xff\xfe\x00", "damaged"),
        (b"[" * 100_000, "damaged"),
        (b"{}", "schema None"),
        (b'{"schema": 99}', "schema 99"),
    ],
)
def test_a_damaged_study_json(copied, tiny, contents, content, match):
    (copied / "tiny" / "parity" / "study.json").write_bytes(content)
    message = refused(tiny.Tiny(), copied, match, contents, copied)
    assert "study.json" in message and ("choose another --out" in message or "its trials are kept" in message)


@pytest.mark.parametrize(
    "change", [{"started": None}, {"seconds": "long"}, {"engine": 3}, {"engine": {"trained_steps": "x"}}]
)
def test_a_study_json_with_impossible_values(copied, tiny, contents, change):
    path = copied / "tiny" / "parity" / "study.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refused(tiny.Tiny(), copied, "study.json is damaged", contents, copied)


@pytest.mark.parametrize("harm", ["truncated", "flipped", "foreign"])
def test_a_damaged_or_foreign_file_in_the_store(copied, tiny, contents, harm):
    store = copied / "tiny" / "parity" / "cohorts"
    path = sorted(store.iterdir())[0]
    content = bytearray(path.read_bytes())
    if harm == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif harm == "flipped":
        content[len(content) // 2] ^= 0x10
        path.write_bytes(content)
    else:
        pl.DataFrame({"id": [1]}).write_parquet(store / "foreign.parquet")
    refused(tiny.Tiny(), copied, "not written by krogh" if harm == "foreign" else "damaged", contents, copied)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"k": 9}, r"k must be at most n=8; got k=9 \(try k=8\)"),
        ({"k": 0}, "k must be an integer at least 1; got k=0"),
        ({"support": (1, 1)}, r"support must not repeat an index; got \[1, 1\]"),
        ({"support": (0, 8)}, r"support must lie in 0\.\.7; got \[0, 8\]"),
        ({"noise": 0.5}, r"noise must be in \[0, 1/2\); got noise=0.5"),
        ({"noise": -0.1}, r"noise must be in \[0, 1/2\); got noise=-0.1"),
        ({"widths": (8, 1)}, r"width must be at least k=2 .*got width=1 \(try width=2\)"),
        ({"budget": 15}, r"budget must be a multiple .*\(try budget=20\)"),
        ({"seeds": 0}, "seeds must be integers .* at least one"),
    ],
)
def test_trials_that_cannot_be(tiny, tmp_path, contents, changes, match):
    refused(tiny.Tiny(), tmp_path / "out", match, contents, tmp_path, changes=changes)


# --- weights ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def weighed(tiny, tmp_path_factory):
    """A study that kept its weights, with trials that converged and trials that failed."""
    out = tmp_path_factory.mktemp("weights")
    changes = {"widths": (8,), "seeds": 8, "budget": 60}
    return run_study(tiny.Tiny(), "smoke", out, changes=changes, weights=True), tiny.Tiny(), changes


def test_the_weights_are_those_the_accuracy_was_measured_with(weighed):
    kept, experiment, changes = weighed
    (cohort,) = experiment.trials(experiment.settings("smoke", changes))
    table = table_of(kept.folder)
    assert set(table["outcome"]) == {"converged", "failed"}
    for trial, identity, accuracy in zip(cohort, table["id"], table["accuracy"], strict=True):
        params = {name: jnp.asarray(array) for name, array in WeightsFolder(kept.folder / "weights")(identity).items()}
        assert {name: array.shape for name, array in params.items()} == {"W": (8, 8), "b": (8,), "u": (8,)}
        examples = trial.validation()
        right = trial.task.correct(trial.model.predict(params, examples.x), examples.truth)
        assert float(np.mean(right)) == pytest.approx(accuracy, abs=1e-7)
        assert not np.array_equal(params["W"], trial.initial_params()["W"])
    assert sorted(WeightsFolder(kept.folder / "weights").ids()) == sorted(table["id"])
    assert all(path.suffix == ".safetensors" for path in (kept.folder / "weights").iterdir())


def test_weights_that_are_not_there(weighed, tmp_path):
    kept, *_ = weighed
    for folder in (kept.folder / "weights", tmp_path):
        with pytest.raises(KroghError, match="no weights of trial 1 in"):
            WeightsFolder(folder)(1)
    (tmp_path / "bad.safetensors").write_bytes(b"bad")
    with pytest.raises(KroghError, match=r"bad\.safetensors is damaged"):
        WeightsFolder(tmp_path).ids()
    with pytest.raises(KroghError, match="may not be called 'id'"):
        write_weights(tmp_path / "new", np.arange(1, dtype=np.uint64), {"id": np.zeros((1, 2))})
    assert not (tmp_path / "new").exists()


def test_weights_cannot_be_asked_for_afterwards(weighed, copied, tiny, contents):
    """Trials are not trained twice, so weights that were thrown away cannot appear: that is said, not passed over."""
    refused(tiny.Tiny(), copied, "holds 48 trials whose weights were not kept", contents, copied, weights=True)
    kept, experiment, changes = weighed
    again = run_study(experiment, "smoke", kept.folder.parents[1], changes=changes, weights=True)
    assert again.status == "complete"


# --- cost ---------------------------------------------------------------------------------------------------

MEASURING = """
import sys
import tiny_lab
from peak_memory import peak_kilobytes
from krogh.lab import run_study

for seeds in (2_000, 20_000):
    quick = {"n": 4, "k": 1, "widths": (2,), "budget": 10, "seeds": seeds}
    run_study(tiny_lab.Tiny(), "smoke", f"{sys.argv[1]}/{seeds}", changes=quick)
    print(peak_kilobytes())
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is counted in other units elsewhere")
def test_peak_memory_per_trial_is_a_few_kilobytes(tmp_path):
    """A row is about 200 bytes; it is there a few times over while parts become a file and a file a table."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PLUGIN), *sys.path])}
    command = [sys.executable, "-c", MEASURING, tmp_path]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    few, many = (1024 * int(line) for line in ended.stdout.split())
    assert (many - few) / 18_000 < 5_000


def test_nobody_judges_while_another_process_writes(tiny, copied, monkeypatch):
    monkeypatch.setitem(study.EXPERIMENTS._things, "tiny/parity", tiny.Tiny)
    folder = copied / tiny.Tiny.name
    with joined(folder) as other:
        assert other.leads()
        with pytest.raises(KroghError, match="is being written by another process"):
            judge_study(folder)
    assert judge_study(folder).status == "complete" and not (folder / ".members").exists()


def test_running_again_elsewhere_does_not_relabel_where_results_come_from(tiny, copied):
    retell(copied / "tiny" / "parity", device="another device", versions={"jax": "0.0.1"})
    summary = run_study(tiny.Tiny(), "smoke", copied).summary
    assert (summary["device"], summary["versions"]) == ("another device", {"jax": "0.0.1"})


# --- sources ------------------------------------------------------------------------------------------------

OWN = """
import jax.numpy as jnp
import krogh
from krogh.lab.estimate import share_of
from tiny_lab_for_tests import Settings, Tiny


@krogh.task("first-bit")
class FirstBit(krogh.BooleanTask):
    n: int = krogh.structure()

    def truth(self, x, bits):
        return x[..., 0]

    @classmethod
    def example(cls):
        return cls(n=8)


class Own(Tiny):
    name = "tiny/own"

    def trials(self, settings):
        training = krogh.Training(krogh.Sgd(0.3), krogh.Online(8), krogh.Stopping(budget=100, validation=32))
        return krogh.sweep(krogh.Trial(FirstBit(8), krogh.Mlp(8), training), seed=range(4))
"""


@pytest.fixture
def own(tiny, tmp_path, monkeypatch):
    """An experiment on a task of the user's own, and the file that holds both."""
    path = tmp_path / "my_task.py"
    path.write_text(OWN)
    specification = importlib.util.spec_from_file_location("my_task", path)
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "my_task", module)
    monkeypatch.setattr(TASKS, "_things", dict(TASKS._things))
    specification.loader.exec_module(module)
    return module.Own(), path


@pytest.mark.slow
def test_trials_of_an_edited_task_are_not_reused_in_silence(own, tmp_path, monkeypatch):
    experiment, path = own
    out, asked = tmp_path / "out", trained(monkeypatch)
    run_study(experiment, "smoke", out)
    path.write_text(OWN.replace("import krogh\n", "import krogh  # a comment\n", 1))
    run_study(experiment, "smoke", out)  # words that change nothing
    assert sum(len(ids) for ids in asked) == 4
    path.write_text(OWN.replace("x[..., 0]", "x[..., 1]"))
    with pytest.raises(KroghError, match=r"holds 4 trials of another source: changed: my_task\. .*--stale retrain"):
        run_study(experiment, "smoke", out)
    assert sum(len(ids) for ids in asked) == 4
    reused = run_study(experiment, "smoke", out, stale="reuse")
    assert sum(len(ids) for ids in asked) == 4 and any(
        "reused as they were" in note for note in reused.summary["notes"]
    )
    path.write_text(OWN.replace("x[..., 0]", "x[..., 2]"))
    again = run_study(experiment, "smoke", out, stale="retrain")
    assert sum(len(ids) for ids in asked) == 8 and again.summary["engine"]["trials"] == 4
    assert run_study(experiment, "smoke", out).status == "complete"


# --- files that are known, and figures for a paper -------------------------------------------------------------------


@pytest.fixture
def copy(tiny, reference, tmp_path, monkeypatch):
    """A finished study whose experiment is known."""
    monkeypatch.setitem(study.EXPERIMENTS._things, "tiny/parity", tiny.Tiny)
    return Path(shutil.copytree(reference.folder, tmp_path / "copy"))


def test_a_study_knows_what_it_wrote_and_judging_again_knows_it_too(copy):
    known = json.loads((copy / "study.json").read_text())["digests"]
    written = {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()}
    assert set(known) == {name for name in written if not name.startswith(("cohorts", "costs", "."))}
    assert judge_study(copy).summary["digests"] == known, "the same tables, the same bytes"


def test_a_table_that_is_not_what_was_written_is_not_judged(reference, copy):
    for path in (copy / "trials.parquet", *(copy / "measures").glob("*.parquet")):
        kept = path.read_bytes()
        path.write_bytes(kept[:-8] + bytes([kept[-8] ^ 4]) + kept[-7:])
        with pytest.raises(KroghError, match=f"{path.name} is damaged: it is not what the study wrote; run the study"):
            judge_study(copy)
        path.write_bytes(kept)
    (copy / "claims.json").write_text("{}")
    assert judge_study(copy).claims == reference.claims, "what judging writes, it may find in any state"


@pytest.mark.slow
def test_running_again_restores_what_was_damaged(tiny, tmp_path):
    first = run_study(tiny.Tiny(), "smoke", tmp_path)
    known = first.summary["digests"]
    for name in known:
        path = first.folder / name
        if name == "study.json":
            continue  # refused: test_faults.py
        path.write_bytes(path.read_bytes()[:-3])
    again = run_study(tiny.Tiny(), "smoke", tmp_path)
    assert again.summary["digests"].keys() == known.keys()
    assert write_report(again.folder).is_file() and again.claims == first.claims


def test_plain_figures_stay_plain_until_told_otherwise(reference, copy):
    svg = copy / reference.summary["figures"][0]["svg"]
    with_headline = svg.read_bytes()
    judge_study(copy, plain=True)
    plain = svg.read_bytes()
    assert plain != with_headline and json.loads((copy / "study.json").read_text())["plain"] is True
    judge_study(copy)
    assert svg.read_bytes() == plain
    judge_study(copy, plain=False)
    assert svg.read_bytes() == with_headline


def test_figures_say_what_the_study_found(copy, monkeypatch):
    said, save = [], study.figures.save

    def listening(*args, found, **options):
        said.append(found)
        return save(*args, found=found, **options)

    monkeypatch.setattr(study.figures, "save", listening)
    judged = judge_study(copy)
    amount, every = sum(claim.verdict == "reproduced" for claim in judged.claims), len(judged.claims)
    assert said and all(words.startswith(f"here: {amount} of {every} claim") for words in said)
    assert said[0].endswith("smoke scale")


def test_a_study_may_be_run_plain_and_says_so(tiny, tmp_path):
    planned = plan_study(tiny.Tiny(), "smoke", tmp_path, plain=True)
    assert planned.head["plain"] is True and planned.head["command"].endswith(" --plain")
    assert "plain" not in plan_study(tiny.Tiny(), "smoke", tmp_path).head


def test_a_table_of_many_cohorts_is_that_of_few(tiny, tmp_path, monkeypatch):
    """Put together in one go, or by way of files."""
    cohorts = tiny.Tiny().trials(tiny.Settings(widths=(8, 9, 10, 11, 12), seeds=4))
    ids = [cohort.ids() for cohort in cohorts]
    known = np.concatenate(ids)[[3, 0, 9, 8, 17, 19]]  # a search leaves some out
    records = pl.DataFrame({"id": known, "steps": np.arange(6)})
    study.write_table(tmp_path / "few.parquet", cohorts, ids, records, {})
    monkeypatch.setattr(study, "AT_ONCE", 2)
    study.write_table(tmp_path / "many.parquet", cohorts, ids, records, {})
    few, many = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("few", "many"))
    assert_frame_equal(few, many)
    assert few["steps"].to_list() == [1, 0, 3, 2, 4, 5] and few["seed"].to_list() == [0, 3, 0, 1, 1, 3]
    assert few["model.width"].to_list() == [8, 8, 10, 10, 12, 12]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["few.parquet", "many.parquet"]


def test_a_study_whose_folder_is_a_link_is_neither_judged_nor_run(tiny, copy, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    shutil.rmtree(copy / "figures")
    (copy / "figures").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KroghError, match="figures leads out of the study's folder by a link"):
        judge_study(copy)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_what_is_trained_elsewhere_need_not_fit_here(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("krogh.engine.memory.memory_of", lambda device: 10)
    with pytest.raises(TooLarge, match="does not fit"):
        plan_study(tiny.Tiny(), "smoke", tmp_path)
    assert plan_study(tiny.Tiny(), "smoke", tmp_path, elsewhere=True).cohorts
