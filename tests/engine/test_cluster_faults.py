"""What a cluster lacks or loses: memory, workers, its head; and what is seen of it from outside."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time

import numpy as np
import polars as pl
import pytest
from clusters import EXPERIMENT, Undemanding, answers, free_port, learners, processes, seed_given, train, wait_until
from polars.testing import assert_frame_equal

from krogh.engine import cluster as clustering
from krogh.engine import run_cohorts
from krogh.engine.cluster import RayExecutor
from krogh.errors import KroghError
from krogh.values import data, structure

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc"),
    pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning"),  # what Ray forks becomes another program
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
GIGABYTE = 1 << 30


@pytest.fixture
def start_cluster():
    """Clusters that end with the test."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    started = []

    def start(**head):
        started.append(Cluster(initialize_head=True, head_node_args={"include_dashboard": False, **head}))
        return started[-1]

    yield start
    ray.shutdown()
    for one in started:
        one.shutdown()


# --- memory --------------------------------------------------------------------------------------------------------


class Hungry(Undemanding):
    """Needs `gigabytes` while it learns, all trials or that of the seed `only`."""

    seconds: np.ndarray = data(default=1.0)
    gigabytes: int = structure(default=3)
    only: int = structure(default=-1)

    kind = "hungry"

    def fit(self, x, y, seed):
        held = []
        if self.only in (-1, seed):
            for _ in range(4 * self.gigabytes):
                held.append(np.ones(GIGABYTE // 32))
                time.sleep(0.02)  # the monitor of memory looks now and then
            time.sleep(float(self.seconds))
        return lambda queries: np.full(len(queries), np.float32(1 if seed % 2 else -1))


def about_memory(said):
    """What was said, but for how long workers took to start."""
    return [line for line in said if not line.startswith("waiting for a free CPU")]


@pytest.fixture
def narrow(start_cluster):
    """Two workers on a node where Ray allows 6 GB more than are used now: one hungry trial fits, two do not."""
    used, whole = ray._private.utils.get_used_memory(), ray._common.utils.get_system_memory()
    if whole - used < 9 * GIGABYTE:
        pytest.skip("needs 9 GB of free memory")
    limits = {"memory_usage_threshold": (used + 6 * GIGABYTE) / whole, "memory_monitor_refresh_ms": 100}
    return start_cluster(num_cpus=2, _system_config=limits)


def test_where_memory_ends_fewer_shares_are_under_way_and_all_are_trained(narrow):
    said = []
    cohort = learners(6, Hungry)
    there, _ = train(RayExecutor(narrow.address, say=said.append), [cohort])
    assert sorted(position for _, position in there) == list(range(6))
    said = about_memory(said)
    assert said and all("memory ran out, and Ray ended the worker" in line and "back" in line for line in said)
    assert said[-1].endswith("from now on at most 1 at a time") and len(said) <= 2, said


def test_a_trial_that_needs_more_than_there_is_is_named_and_others_are_trained(narrow):
    said, found = [], []
    only = seed_given(learners(8), 5)
    cohort = learners(8, Hungry, gigabytes=10, only=only)
    named = r"3 workers died of trial 5 \(seed 5\) of cohort 0, Hungry on Parity .*memory"
    with pytest.raises(KroghError, match=named):
        for _, finished in RayExecutor(narrow.address, say=said.append)([cohort], [np.arange(8)]):
            found += finished.position.tolist()
    assert 5 not in found and len(found) == len(set(found)) >= 4
    assert all("memory ran out" in line for line in about_memory(said))


# --- no worker -----------------------------------------------------------------------------------------------------


def test_a_cluster_without_a_free_worker_says_so_and_begins_when_one_comes(start_cluster, monkeypatch):
    monkeypatch.setattr(clustering, "NO_WORKER_SECONDS", 2.0)
    empty, said, found = start_cluster(num_cpus=0), [], {}
    cohort = learners(6)
    driver = threading.Thread(
        target=lambda: found.update(train(RayExecutor(empty.address, say=said.append), [cohort])[0])
    )
    driver.start()
    wait_until(lambda: said, 60)
    assert said == ["waiting for a free CPU (Ray, 1 node: none yet)"] and not found
    time.sleep(3)
    assert len(said) == 1 and driver.is_alive(), "it is said once"
    empty.add_node(num_cpus=1)
    driver.join(180)
    assert not driver.is_alive() and found == train(run_cohorts, [cohort])[0] and len(said) == 1


# --- the head ------------------------------------------------------------------------------------------------------


def test_after_the_head_has_died_the_same_command_goes_on_at_a_new_one(tmp_path):
    plugin = tmp_path / "guessing.py"
    plugin.write_text(EXPERIMENT)
    out, port = tmp_path / "out", free_port()
    study = out / "mine" / "slow"
    run = ("run", "mine/slow", "--plugin", plugin, "--scale", "smoke", "--out")
    command = (*run, out, "--executor", "ray", "--address", f"localhost:{port}")
    with processes() as started:
        nodes = started.head(port)
        driver = started.krogh(*command)
        wait_until(
            lambda: list(study.glob("cohorts/*.parquet")), 120, lambda: driver.poll() and driver.communicate()[1]
        )
        for pid in nodes:
            os.kill(pid, 9)
        begun = time.monotonic()
        _, err = driver.communicate(timeout=120)
        assert time.monotonic() - begun < 60 and driver.returncode == 2, err
        assert "Traceback" not in err and "the Ray cluster was lost" in err.splitlines()[-1], err
        kept = pl.concat([pl.read_parquet(path) for path in study.glob("cohorts/*.parquet")])
        assert 0 < len(kept) < 48

        gone = started.krogh(*command)
        assert "no Ray cluster answers" in gone.communicate(timeout=60)[1] and gone.returncode == 2
        started.head(port)
        again = started.krogh(*command)
        _, err = again.communicate(timeout=120)
        assert again.returncode == 0, err
        quiet = started.krogh(*run, tmp_path / "quiet")
        quiet.communicate(timeout=120)
    tables = [pl.read_parquet(folder / "mine" / "slow" / "trials.parquet") for folder in (out, tmp_path / "quiet")]
    assert_frame_equal(*tables)
    assert len(tables[0]) == 48
    shutil.rmtree(out)


# --- from outside --------------------------------------------------------------------------------------------------


def test_a_cluster_seen_from_outside_trains_the_same(tmp_path):
    pytest.importorskip("grpc", reason="Ray's client needs it")
    plugin = tmp_path / "guessing.py"
    plugin.write_text(EXPERIMENT)
    door = free_port()
    run = ("run", "mine/slow", "--plugin", plugin, "--scale", "smoke", "--set", "seeds=3", "--out")
    with processes() as started:
        started.head(free_port(), "--ray-client-server-port", door)
        wait_until(lambda: answers(door), 60)
        driver = started.krogh(*run, tmp_path / "out", "--executor", "ray", "--address", f"ray://localhost:{door}")
        _, err = driver.communicate(timeout=180)
        assert driver.returncode == 0, err
        quiet = started.krogh(*run, tmp_path / "quiet")
        quiet.communicate(timeout=120)
    tables = [pl.read_parquet(tmp_path / name / "mine" / "slow" / "trials.parquet") for name in ("out", "quiet")]
    assert_frame_equal(*tables)
    assert len(tables[0]) == 12


# --- tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asks", [True, False])
def test_a_machine_that_has_a_token_sends_it_to_a_head_that_asks_for_it(tmp_path, asks):
    """One that has started a local cluster has a token, and `ray start` then asks for it."""
    plugin, port = tmp_path / "guessing.py", free_port()
    plugin.write_text(EXPERIMENT)
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("0" * 64)
    run = ("run", "mine/slow", "--plugin", plugin, "--scale", "smoke", "--set", "seeds=2", "--out", tmp_path / "out")
    with processes() as started:
        for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
            del started.environment[name]
        started.environment["HOME"] = str(tmp_path)
        own = dict(started.environment)
        started.environment |= {} if asks else {"RAY_AUTH_MODE": "disabled"}
        started.head(port)
        started.environment = own
        driver = started.krogh(*run, "--executor", "ray", "--address", f"localhost:{port}")
        _, err = driver.communicate(timeout=180)
        assert driver.returncode == 0 and "gcs" not in err, err
    assert len(pl.read_parquet(tmp_path / "out" / "mine" / "slow" / "trials.parquet")) == 8
