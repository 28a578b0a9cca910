"""A Ray cluster trains what this machine would, bit for bit, whatever dies on the way."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from clusters import EXPERIMENT, Majority, learners, seed_given, train

import krogh
from krogh.engine import Inherited, Weights, family, run_cohorts, sending
from krogh.engine.cluster import STRIKES, RayExecutor, _cause, _require_answer, _Run
from krogh.engine.lane import Waiting
from krogh.engine.shares import CPU, GPU, LEAST_SECONDS, MOST_SECONDS, CohortWork, Share, next_share
from krogh.errors import KroghError, TooLarge

PROBES = (krogh.Error(), krogh.Movement(), krogh.BatchLoss())
ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning"),  # what Ray forks becomes another program
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    yield started
    ray.shutdown()
    started.shutdown()


@pytest.fixture
def said():
    return []


@pytest.fixture
def executor(cluster, said):
    return RayExecutor(cluster.address, say=said.append)


# --- what is sent, and in what portions (no cluster) ---------------------------------------------------------------


def test_the_modules_of_own_classes_are_sent_and_imported_as_they_are(monkeypatch):
    pack = sending.packed(learners(3).template)
    sources = sending.own_modules([pack])
    name = Majority.__module__
    assert name in sources and not any(one.partition(".")[0] in ("krogh", "numpy", "ray") for one in sources)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    mine = sys.modules[name]
    monkeypatch.delitem(sys.modules, name)
    finder = sending.Sent()
    changed = sources[name].text.replace(b"mean = np.sign", b"mean = -np.sign")
    finder.add({name: sending.Source("elsewhere.py", changed, False)})
    there = sending.unpacked(pack)
    assert type(there.model) is not Majority and sys.modules[name] is not mine
    assert len(krogh.values.columns(there)) == len(krogh.values.columns(learners(1).template))
    x, y = np.ones((3, 6), np.float32), np.ones(3, np.float32)
    assert there.model.fit(x, y, 0)(x)[0] == -Majority().fit(x, y, 0)(x)[0]


def test_what_no_other_process_could_read_is_refused():
    class Local(Majority):
        pass

    trial = learners(1).template
    with pytest.raises(KroghError, match=r"Local on Parity cannot be sent to workers .* top of a file"):
        sending.packed(krogh.Trial(trial.task, Local(), trial.training))


def test_records_travel_together_and_none_is_held_back():
    def slow():
        yield from range(5)
        time.sleep(0.4)
        yield 5
        raise KroghError("at the end")

    begun, got = time.monotonic(), []
    with pytest.raises(KroghError, match="at the end"):
        for batch in sending.gathered(slow(), 0.05):
            got.append((batch, time.monotonic() - begun))
    assert [batch for batch, _ in got] == [[0, 1, 2, 3, 4], [5]]
    assert got[0][1] < 0.35


def work_of(count, pace=None, place=0, closed=True):
    cohort = learners(count)
    waiting = Waiting(np.arange(count), closed=closed)
    work = CohortWork(cohort, place, cohort, waiting, False)
    if pace is not None:
        work.seconds, work.trials = pace, 1
    return work


def handed_out(works, kind, workers):
    """The shares that a cluster whose workers all take equally long would hand out."""
    shares = []
    while (share := next_share(works, kind, workers, 0)) is not None:
        shares.append([(work.place, taken.tolist()) for work, taken in share.pieces])
    return shares


@pytest.mark.parametrize("kind", [CPU, GPU])
@pytest.mark.parametrize("workers", [1, 4, 100])
@pytest.mark.parametrize("paces", [(None,), (0.01,), (0.01, None, 3.0), tuple([0.001] * 40)])
def test_every_trial_is_handed_out_once(kind, workers, paces):
    works = [work_of(37 + place, pace, place) for place, pace in enumerate(paces)]
    given = [
        (place, position) for share in handed_out(works, kind, workers) for place, some in share for position in some
    ]
    assert sorted(given) == [(work.place, position) for work in works for position in range(len(work.cohort))]


def test_shares_last_seconds_at_first_and_less_at_the_end():
    sizes = [sum(len(some) for _, some in share) for share in handed_out([work_of(100_000, 0.01)], CPU, 4)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] * 0.01 == pytest.approx(MOST_SECONDS)
    assert all(size * 0.01 <= LEAST_SECONDS + 0.011 for size in sizes[-4:])
    assert len(sizes) < 100


def test_before_the_pace_is_known_workers_begin_with_different_cohorts():
    works = [work_of(100, place=place) for place in range(3)]
    for place in range(3):
        ((work, taken),) = next_share(works, CPU, 4, place).pieces
        assert work.place == place and 1 <= len(taken) <= 8
        work.flying += len(taken)


def test_few_trials_of_unknown_length_are_shared_by_all():
    assert [len(share[0][1]) for share in handed_out([work_of(16)], CPU, 4)][:4] == [2] * 4


def test_a_gpu_has_equal_parts_or_whole_cohorts():
    few = handed_out([work_of(4000)], GPU, 4)
    assert [len(some) for share in few for _, some in share] == [1000] * 4
    many = handed_out([work_of(100, place=place) for place in range(16)], GPU, 2)
    assert [len(some) for _, some in many[0]] == [100] * 4 and len(many) < 16


@pytest.mark.parametrize("kind", [CPU, GPU])
def test_what_another_process_was_given_a_moment_ago_is_no_share(kind):
    class Emptied(Waiting):
        def take(self, count):
            return super().take(0)

    work = work_of(5, pace=0.1)
    work.waiting = Emptied(np.arange(5))
    assert next_share([work], kind, 2, 0) is None
    ((found, taken),) = next_share([work, work_of(5, pace=0.1, place=1)], kind, 2, 0).pieces
    assert found.place == 1 and len(taken)


def test_tasks_that_fail_one_after_the_other_end_a_run_with_their_reason(said):
    run, work = object.__new__(_Run), work_of(6)
    run._executor, run._sight = SimpleNamespace(say=said.append), SimpleNamespace(workers={CPU: 2, GPU: 0})
    run._ceiling, run._running, run._in_vain = {}, {}, 0
    with pytest.raises(KroghError, match=r"9 tasks in a row have failed on the cluster: .*no such package"):
        for _ in range(STRIKES * 3):
            share = Share(CPU, [(work, work.waiting.take(3))])
            work.flying += 3
            share.fault = ray.exceptions.RuntimeEnvSetupError("no such package")
            run._settle(share)
    assert len(said) == 9 and work.flying == 0 and work.waiting.left() == 6


def test_an_error_of_a_worker_has_the_code_that_it_would_have_here():
    found = _cause(SimpleNamespace(cause=TooLarge("one trial alone does not fit")))
    assert (type(found), found.code, str(found)) == (TooLarge, 5, "one trial alone does not fit")


# --- on a cluster --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_records_are_those_of_this_machine_bit_for_bit(executor, base):
    (networks,) = krogh.sweep(base, seed=range(40))
    cohorts = [networks, learners(30)]
    here, usage = train(run_cohorts, cohorts, keep_weights=True)
    there, used = train(executor, cohorts, keep_weights=True)
    assert there == here and len(there) == 70
    assert (used.useful_steps, used.executed_steps) == (usage.useful_steps, usage.executed_steps)
    assert 1 <= used.compilations <= 2 and used.seconds > 0


@pytest.mark.slow
def test_closing_ends_within_five_seconds_and_frees_the_workers(executor):
    records = executor([learners(2, fatal=-2), learners(8, seconds=60.0)], [np.arange(2), np.arange(8)])
    place, _ = next(records)
    time.sleep(0.5)  # by now the other worker is at a trial of a minute
    begun = time.monotonic()
    records.close()
    assert place == 0 and time.monotonic() - begun < 5
    assert len(train(executor, [learners(2)])[0]) == 2


@pytest.mark.slow
def test_probes_snapshots_samples_and_several_cohorts(executor, base, offline, full_batch):
    probed = krogh.Trial(base.task, base.model, base.training, probes=PROBES, probe_every=50, snapshots=(0, 50))
    cohorts = [
        *krogh.sweep(probed, seed=range(9)),
        *krogh.sweep(offline, training__regime__m=[20, 40], seed=range(5)),
        *krogh.sweep(full_batch, training__regime__m=[20, 33], seed=range(5)),
    ]
    here, usage = train(run_cohorts, cohorts, keep_weights=True)
    there, used = train(executor, cohorts, keep_weights=True)
    assert there == here and used.useful_steps == usage.useful_steps


@pytest.mark.slow
def test_children_begin_with_the_weights_of_parents_trained_elsewhere(executor, base):
    child = krogh.Trial(base.task, base.model, base.training, start=Inherited(base))
    cohorts = [family(child, range(12)), *krogh.sweep(base, seed=range(12))]
    here, _ = train(run_cohorts, cohorts)
    there, _ = train(executor, cohorts)
    assert there == here and len(there) == 24
    kept = Weights()
    krogh.run(cohorts[1], weights=kept)
    alone, _ = train(executor, cohorts[:1], weights_of=kept)
    assert alone == {key: found for key, found in here.items() if key[0] == 0}


@pytest.mark.slow
def test_a_search_is_handed_more_while_it_runs(executor, base):
    (networks,) = krogh.sweep(base, seed=range(60))
    here, _ = train(run_cohorts, [networks])
    waiting = Waiting(np.arange(6), closed=False, expected=6)
    found, asked = {}, 6
    with closing(executor([networks], [waiting])) as records:
        for _, finished in records:
            if finished is None:
                break
            found |= dict(zip(finished.position.tolist(), finished.steps.tolist(), strict=True))
            more = range(asked, min(60, asked + len(finished.position)))
            waiting.add(more)
            asked += len(more)
            if len(found) == 60:
                waiting.close()
    assert found == {position: pickle.loads(row)["steps"] for (_, position), row in here.items()}


@pytest.mark.slow
def test_a_killed_worker_loses_only_what_it_was_at(executor, said, tmp_path):
    fatal = seed_given(learners(24), 11)
    cohort = learners(24, fatal=fatal, mark=str(tmp_path / "died"), seconds=0.05)
    there, used = train(executor, [cohort])
    here, usage = train(run_cohorts, [cohort])
    assert there == here and used.useful_steps == usage.useful_steps == 24
    (line,) = said
    assert "died" in line and "go back" in line and "process" in line


@pytest.mark.slow
def test_trials_that_kill_every_worker_are_named_and_others_are_trained(executor, said):
    cohort = learners(12, fatal=seed_given(learners(12), 7))
    found = []
    with pytest.raises(KroghError, match=r"3 workers died of trial 7 \(seed 7\) of cohort 0, Majority on Parity"):
        for _, finished in executor([cohort], [np.arange(12)]):
            found += finished.position.tolist()
    assert 7 not in found and len(found) == len(set(found)) >= 6
    assert len(said) == 2


@pytest.mark.slow
def test_a_killed_node_loses_only_what_it_was_at(cluster, executor, said):
    extra = cluster.add_node(num_cpus=2)
    cohort = learners(120, seconds=0.3)
    found, busy = [], float("inf")
    with closing(executor([cohort], [np.arange(120)])) as records:
        for _, finished in records:
            found += [] if finished is None else finished.position.tolist()
            if busy == float("inf") and ray.available_resources().get("CPU", 0) < 1:  # all four are at work
                busy = time.monotonic()
            if extra is not None and time.monotonic() - busy > 1:
                cluster.remove_node(extra, allow_graceful=False)
                extra = None
    assert extra is None and sorted(found) == list(range(120))
    assert said and all("back" in line for line in said)


@pytest.mark.slow
def test_learners_are_trained_on_cores_and_a_gpu_that_jax_does_not_find_is_named(cluster, executor, base):
    node = cluster.add_node(num_cpus=1, num_gpus=1)
    try:
        there, _ = train(executor, [learners(6)])
        assert len(there) == 6
        with pytest.raises(KroghError, match=r"Ray has a GPU on .*, but JAX finds none there: install krogh\[cuda\]"):
            train(executor, krogh.sweep(base, seed=range(4)))
        on_cores = RayExecutor(cluster.address, gpus=False)
        assert len(train(on_cores, krogh.sweep(base, seed=range(4)))[0]) == 4
    finally:
        cluster.remove_node(node)


@pytest.mark.slow
def test_an_error_of_a_learner_is_raised_here(executor):
    cohort = learners(4, mark="\0")  # no such file name
    fatal = seed_given(cohort, 2)
    with pytest.raises(ValueError, match="null byte"):
        train(executor, [learners(4, mark="\0", fatal=fatal)])


# --- the command line ----------------------------------------------------------------------------------------------

SCRIPT = """
import time
import numpy as np
import krogh
from krogh.engine.cluster import RayExecutor, _require_answer
from krogh.models.base import Learner
from krogh.values import data


class Patient(Learner):
    seconds: np.ndarray = data(default=0.01)
    kind = "patient"

    def fit(self, x, y, seed):
        time.sleep(float(self.seconds))
        return lambda queries: np.ones(len(queries), np.float32)

    def check(self, task):
        pass

    @classmethod
    def example(cls):
        return cls(), krogh.Parity(n=6, k=2)


def main():
    trial = krogh.Trial(krogh.Parity(n=6, k=2), Patient(), krogh.Training(regime=krogh.FullBatch(m=9)))
    cohorts = krogh.sweep(trial, model__seconds=[0.0, 0.02], seed=range(3))
    with RayExecutor(cpus=1) as executor:
        found = [finished for _, finished in executor(cohorts, [np.arange(6)]) if finished is not None]
    print(sum(len(finished.position) for finished in found))
"""


@pytest.mark.slow
@pytest.mark.parametrize("guarded", [True, False])
def test_a_script_sends_its_own_classes_but_no_worker_starts_it_again(tmp_path, guarded):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + ('\nif __name__ == "__main__":\n    main()\n' if guarded else "\nmain()\n"))
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment)
    if guarded:
        assert done.stdout.strip() == "6", done.stderr
    else:
        assert "put what starts training under if __name__" in done.stderr


@pytest.mark.slow
def test_what_listens_and_is_no_head_is_refused(monkeypatch):
    """The dashboard's port, say, or one that another program has now."""
    monkeypatch.setattr("krogh.engine.cluster.HEAD_SECONDS", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        begun = time.monotonic()
        with pytest.raises(KroghError, match=f"something listens at {address}, but no Ray head answers there"):
            _require_answer(address)
    assert time.monotonic() - begun < 30


@pytest.mark.slow
def test_a_driver_that_was_killed_goes_on_where_it_was(tmp_path):
    plugin = tmp_path / "guessing.py"
    plugin.write_text(EXPERIMENT)
    command = [sys.executable, "-m", "krogh", "run", "mine/slow", "--plugin", str(plugin), "--scale", "smoke", "--out"]
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    out, undisturbed = tmp_path / "out", tmp_path / "undisturbed"
    study = out / "mine" / "slow"

    def run(*arguments):
        return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, env=environment)

    driver = subprocess.Popen([*command, str(out), "--executor", "ray"], env=environment, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not list(study.glob("cohorts/*.parquet")):
        assert driver.poll() is None and time.monotonic() < deadline, driver.stderr.read()
        time.sleep(0.1)
    driver.kill()
    driver.communicate()
    known = len(pl.concat([pl.read_parquet(path) for path in study.glob("cohorts/*.parquet")]))
    assert 0 < known < 48
    again = run(out, "--executor", "ray")
    noise = [line for line in (again.stdout + again.stderr).splitlines() if not line.startswith("krogh: ")]
    assert again.returncode == 0 and "ray" not in "\n".join(noise).lower().replace(str(tmp_path), "")
    assert run(undisturbed).returncode == 0
    tables = [pl.read_parquet(folder / "mine" / "slow" / "trials.parquet") for folder in (out, undisturbed)]
    assert tables[0].equals(tables[1]) and len(tables[0]) == 48
    shutil.rmtree(out)


def test_the_clusters_of_the_documentation_are_what_ray_and_a_shell_take(tmp_path):
    yaml = pytest.importorskip("yaml")
    from ray.autoscaler._private.util import prepare_config, validate_config

    page = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text(encoding="utf-8")
    (cloud,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    validate_config(prepare_config(yaml.safe_load(cloud)))
    (script,) = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    (tmp_path / "job.sh").write_text(script)
    subprocess.run(["bash", "-n", tmp_path / "job.sh"], check=True)
