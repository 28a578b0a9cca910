"""Studies at a URL: what another machine finds there, what a bad network costs, and what nobody may smuggle in."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import fsspec
import polars as pl
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from polars.testing import assert_frame_equal

from krogh.errors import KroghError
from krogh.lab import remote, run_study, sites, training
from krogh.lab.opening import open_study
from krogh.lab.study import judge_study, plan_study
from krogh.lab.weights import WeightsFolder

PLUGIN = Path(__file__).parents[1] / "plugin"
NAME = "tiny/parity"


class Flaky(MemoryFileSystem):
    """A store in memory behind a bad network: operations whose path `fails` says so are refused."""

    protocol = "flaky"
    store: dict = {}
    pseudo_dirs = [""]
    log: list = []
    fails = staticmethod(lambda operation, path: False)

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("flaky://", "memory://") if isinstance(path, str) else path)

    def _try(self, operation, path):
        Flaky.log.append((operation, path))
        if Flaky.fails(operation, path):
            raise ConnectionResetError(f"{operation} of {path} was reset")

    def put_file(self, lpath, rpath, *rest, **options):
        self._try("put", rpath)
        return super().put_file(lpath, rpath, *rest, **options)

    def get_file(self, rpath, lpath, *rest, **options):
        self._try("get", rpath)
        return super().get_file(rpath, lpath, *rest, **options)

    def rm_file(self, path):
        self._try("remove", path)
        return super().rm_file(path)

    def find(self, path, *rest, **options):
        self._try("list", path)
        return super().find(path, *rest, **options)


@pytest.fixture
def flaky(monkeypatch):
    fsspec.register_implementation("flaky", Flaky, clobber=True)
    monkeypatch.setattr(sites, "WAITS", 6 * (0.001,))
    for name, fresh in (("store", {}), ("pseudo_dirs", [""]), ("log", []), ("fails", Flaky.fails)):
        monkeypatch.setattr(Flaky, name, staticmethod(fresh) if callable(fresh) else fresh)
    return Flaky


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Work on another machine from here on: with a mirror of its own."""

    def move(name: str) -> Path:
        monkeypatch.setattr(sites, "cache_folder", lambda: tmp_path / name)
        return tmp_path / name / "mirrors"

    move("first")
    return move


@pytest.fixture(scope="module")
def bucket():
    """A bucket of a server on this machine that speaks S3's protocol."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    fsspec.config.conf["s3"] = {"endpoint_url": address, "key": "a", "secret": "b", "skip_instance_cache": True}
    fsspec.filesystem("s3").mkdir("laboratory")
    yield "laboratory"
    del fsspec.config.conf["s3"]
    server.stop()


@pytest.fixture(params=["memory", pytest.param("s3", marks=pytest.mark.slow)])
def url(request, tmp_path):
    """A place for studies that nothing is at, in memory or at an object store (or in a folder, where a test asks)."""
    if request.param == "s3":
        return f"s3://{request.getfixturevalue('bucket')}/{tmp_path.name}/runs"
    return f"file://{tmp_path}/shared" if request.param == "file" else f"memory://{tmp_path.name}/runs"


def stored(url: str) -> dict[str, bytes]:
    """All files at a URL by name."""
    files, root = fsspec.core.url_to_fs(url)
    return {path.removeprefix(f"{root}/"): files.cat_file(path) for path in files.find(root)}


def plant(url: str, folder: Path) -> None:
    """Put a study's files at a URL, as if another machine had sent them."""
    files, root = fsspec.core.url_to_fs(url)
    for path in folder.rglob("*"):
        if path.is_file():
            files.pipe_file(f"{root}/{path.relative_to(folder).as_posix()}", path.read_bytes())


def files_of(folder: Path) -> dict[str, bytes]:
    visible = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in visible}


def kinds(files: Iterable[str]) -> set[str]:
    """Names of a study's files, but for those that are another's for every process."""
    return {"costs" if name.startswith("costs/") else name for name in files}


# --- there and back -------------------------------------------------------------------------------------------


def test_what_is_a_url():
    for place in ("s3://bucket/runs", "memory://x", "file:///tmp/x", "simplecache::s3://bucket"):
        assert sites.is_url(place)
    for place in ("runs/laptop", "C:\\runs", "C:/runs", "/tmp/x:/y", Path("s3:/bucket")):
        assert not sites.is_url(place)


@pytest.mark.parametrize(
    "url, complaint",
    [
        ("s3://", "names no place; say s3://BUCKET/FOLDER"),
        ("gs:///", "names no place"),
        ("file://runs/x", "relative to nothing; give the whole path, file:///tmp/runs"),
        ("sftp://me:word@host/runs", "leave passwords and tokens out"),
        ("s3://key:sec/ret@bucket/runs", "leave passwords and tokens out"),
        ("zip://x::https://me:word@host/a.zip", "leave passwords and tokens out"),
        ("https://host/x?sig=abc", "leave passwords and tokens out"),
    ],
)
def test_urls_that_name_no_place_or_keep_a_secret_are_refused(tiny, machine, url, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(KroghError, match=re.escape(complaint)) as refused:
        run_study(tiny.Tiny(), "smoke", url)
    assert "word" not in str(refused.value).replace("passwords", "") and "ret" not in str(refused.value)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "url, tidy",
    [
        ("memory://", "memory://"),
        ("file:///", "file:///"),
        ("file:///tmp/runs//", "file:///tmp/runs"),
        ("s3://bucket/", "s3://bucket"),
        ("sftp://me@host:22/runs/", "sftp://me@host:22/runs"),
        ("sftp://host:22/a@b", "sftp://host:22/a@b"),
    ],
)
def test_urls_have_no_slash_at_their_end(url, tidy):
    assert sites.tidied(url) == tidy


def test_a_file_system_has_a_root(machine):
    for url in ("memory://", "file:///"):
        site = sites.Site(url)
        assert site._path("") == "/" and site._path("a/b") == "/a/b"


@pytest.mark.parametrize("url", ["memory", "file", pytest.param("s3", marks=pytest.mark.slow)], indirect=True)
def test_a_study_at_a_url_is_the_study_in_a_folder(tiny, reference, url, machine, capsys):
    study = run_study(tiny.Tiny(), "smoke", url)
    assert study.claims == reference.claims and url in study.summary["command"]
    there = stored(f"{url}/{NAME}")
    assert there == files_of(study.folder) and kinds(there) == kinds(files_of(reference.folder))
    machine("second")
    opened = open_study(url)
    assert opened.url == f"{url}/{NAME}" and "second" in str(opened.folder)
    assert_frame_equal(opened.table, pl.read_parquet(reference.folder / "trials.parquet"))
    assert opened.claims["verdict"].to_list() == [str(claim.verdict) for claim in reference.claims]
    assert not (opened.folder / "cohorts").exists()  # not needed to read it
    assert not capsys.readouterr().err


def test_resumed_on_another_machine_it_trains_only_the_rest(tiny, reference, url, machine, monkeypatch):
    monkeypatch.setattr(training, "FLUSH_SECONDS", 0.0)

    def interrupt(progress):
        if progress.done >= 30:
            raise KeyboardInterrupt

    first = run_study(tiny.Tiny(), "smoke", url, show=interrupt)
    kept = first.summary["engine"]["trials"]
    assert first.status == "interrupted" and 30 <= kept < 48
    assert any(".part-" in name for name in stored(url))
    machine("second")
    seen = []
    second = run_study(tiny.Tiny(), "smoke", url, show=lambda progress: seen.append(progress.resumed))
    assert set(seen) == {kept} and second.claims == reference.claims
    assert_frame_equal(
        pl.read_parquet(second.folder / "trials.parquet"), pl.read_parquet(reference.folder / "trials.parquet")
    )
    there = stored(f"{url}/{NAME}")  # parts that were merged are gone, and the lease too
    assert there == files_of(second.folder) and not any(".part-" in name for name in there)
    machine("first")  # whose mirror has parts that are gone
    again = plan_study(tiny.Tiny(), "smoke", url)
    assert files_of(again.folder) == there


@pytest.mark.slow
def test_weights_come_when_they_are_asked_for(tiny, url, machine):
    changes = {"widths": "8", "seeds": "3", "budget": "40"}
    study = run_study(tiny.Tiny(), "smoke", url, changes=changes, weights=True)
    identity = int(open_study(url).table["id"][1])
    machine("second")
    opened = open_study(url)
    assert not (opened.folder / "weights").exists()
    found, expected = opened.weights(identity), WeightsFolder(study.folder / "weights")(identity)
    assert found.keys() == expected.keys() and all((found[name] == expected[name]).all() for name in found)


def test_judging_at_a_url_sends_what_it_made(reference, tiny, url, machine, monkeypatch):
    plant(f"{url}/{NAME}", reference.folder)
    files, root = fsspec.core.url_to_fs(url)
    files.rm_file(f"{root}/{NAME}/figures/times.svg")
    monkeypatch.setitem(remote.__dict__, "say", pytest.fail)
    from krogh.registry import EXPERIMENTS

    monkeypatch.setitem(EXPERIMENTS._things, NAME, tiny.Tiny)
    assert judge_study(f"{url}/{NAME}").claims == reference.claims
    assert f"{NAME}/figures/times.svg" in stored(url)


KILLED = """
import os, signal, sys, time
from pathlib import Path
import tiny_lab
from krogh.lab import remote, study, training

url, = sys.argv[1:]
training.FLUSH_SECONDS, remote.SWEEP_SECONDS = 0.0, 0.05
there = Path(url.removeprefix("file://")) / "tiny" / "parity" / "cohorts"

def show(progress):
    deadline = time.monotonic() + 60
    while progress.done >= 12 and time.monotonic() < deadline:
        if there.is_dir() and any(there.glob("*.parquet")):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.02)

study.run_study(tiny_lab.Tiny(), "smoke", url, show=show)
"""


@pytest.mark.slow
def test_killed_and_resumed_on_another_machine(tiny, reference, machine, tmp_path):
    url = f"file://{tmp_path}/shared"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(PLUGIN), *sys.path])}
    ended = subprocess.run([sys.executable, "-c", KILLED, url], env=environment, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    there = tmp_path / "shared" / NAME
    assert json.loads((there / "study.json").read_text())["status"] == "running"
    left = {path.name for path in there.glob("cohorts/*.parquet")}
    seen = []
    study = run_study(tiny.Tiny(), "smoke", url, show=lambda progress: seen.append(progress.resumed))
    assert left and 0 < seen[0] < 48
    assert_frame_equal(pl.read_parquet(there / "trials.parquet"), pl.read_parquet(reference.folder / "trials.parquet"))
    assert study.claims == reference.claims and files_of(there) == files_of(study.folder)
    assert not any(".part-" in path.name or path.name.endswith(".tmp") for path in there.rglob("*"))


# --- a bad network --------------------------------------------------------------------------------------------


def test_what_fails_now_and_then_is_tried_again(tiny, reference, flaky, machine, monkeypatch, capsys):
    tries: Counter[tuple[str, str]] = Counter()

    def refuse(operation, path):
        tries[operation, path] += 1
        return tries[operation, path] in (1, 2)

    monkeypatch.setattr(flaky, "fails", staticmethod(refuse))
    study = run_study(tiny.Tiny(), "smoke", "flaky://runs")
    assert study.claims == reference.claims and stored_quietly("flaky://runs") == files_of(study.folder)
    assert len(tries) > 10 and min(tries.values()) > 2 and not capsys.readouterr().err


def test_several_files_travel_at_once_where_the_store_allows_it(reference, flaky, machine, monkeypatch):
    monkeypatch.setattr(flaky, "async_impl", True)
    busy, most = set(), []

    def watch(operation, path):
        busy.add(threading.get_ident())
        most.append(len(busy))
        time.sleep(0.02)
        busy.discard(threading.get_ident())
        return operation == "get" and path.endswith(".pdf")

    plant("flaky://runs/" + NAME, reference.folder)
    monkeypatch.setattr(flaky, "fails", staticmethod(watch))
    with pytest.raises(OSError, match=r"cannot be reached \(get of .*times\.pdf was reset\)"):
        remote.bring_study("flaky://runs", NAME)
    assert max(most) > 1
    monkeypatch.setattr(flaky, "fails", staticmethod(lambda operation, path: False))
    assert files_of(remote.bring_study("flaky://runs", NAME)) == files_of(reference.folder)


def stored_quietly(url: str) -> dict[str, bytes]:
    """As `stored`, of a store whose network is bad."""
    root = Flaky._strip_protocol(f"{url}/{NAME}")
    return {path.removeprefix(f"{root}/"): file.getvalue() for path, file in Flaky.store.items()}


@pytest.mark.slow
def test_what_cannot_be_sent_is_kept_named_and_sent_by_the_same_command(tiny, reference, flaky, machine, monkeypatch):
    def refuse(operation, path):
        return operation == "put" and "/cohorts/" in path

    monkeypatch.setattr(flaky, "fails", staticmethod(refuse))
    mirrors = machine("first")
    with pytest.raises(OSError, match=r"were not sent to flaky://runs/tiny/parity .*same command sends") as problem:
        run_study(tiny.Tiny(), "smoke", "flaky://runs")
    folder = mirrors / "flaky" / "runs" / NAME
    assert problem.value.errno and str(folder) in str(problem.value)
    # The records did not arrive: neither did anything that says that the study is complete.
    assert set(stored_quietly("flaky://runs")) == {"study.json"}
    assert json.loads(stored_quietly("flaky://runs")["study.json"])["status"] == "running"
    monkeypatch.setattr(flaky, "fails", staticmethod(lambda operation, path: False))
    seen = []
    again = run_study(tiny.Tiny(), "smoke", "flaky://runs", show=seen.append)
    assert not seen and again.claims == reference.claims
    assert stored_quietly("flaky://runs") == files_of(folder)


@pytest.mark.slow
def test_a_network_that_is_away_while_a_study_runs_is_said_once(tiny, flaky, machine, monkeypatch, capsys):
    monkeypatch.setattr(remote, "SWEEP_SECONDS", 0.01)
    said, back = [], threading.Event()

    def refuse(operation, path):
        return operation == "put" and "lease" not in path and not back.is_set()

    monkeypatch.setattr(remote, "say", said.append)
    monkeypatch.setattr(flaky, "fails", staticmethod(refuse))

    def show(progress):
        deadline = time.monotonic() + 20
        while not said and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.1)
        back.set()
        while len(said) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)

    study = run_study(tiny.Tiny(), "smoke", "flaky://runs", show=show, changes={"widths": "8", "seeds": "2"})
    assert [("is not reached" in line, "is reached again" in line) for line in said] == [(True, False), (False, True)]
    assert stored_quietly("flaky://runs") == files_of(study.folder)


@pytest.mark.slow
def test_merged_parts_go_only_after_the_merged_file_has_come(tiny, flaky, machine, monkeypatch):
    monkeypatch.setattr(training, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(remote, "SWEEP_SECONDS", 0.01)
    changes = {"widths": "8", "seeds": "24"}
    run_study(tiny.Tiny(), "smoke", "flaky://runs", changes=changes, show=lambda progress: time.sleep(0.05))
    removed = [place for place, (operation, path) in enumerate(flaky.log) if operation == "remove" and "/." not in path]
    merged = [
        place
        for place, (operation, path) in enumerate(flaky.log)
        if operation == "put" and "/cohorts/" in path and ".part-" not in path
    ]
    assert removed and merged and max(merged) < min(removed)


def test_a_url_that_cannot_be_reached_or_opened_is_one_line(flaky, machine, tiny, monkeypatch):
    monkeypatch.setattr(flaky, "fails", staticmethod(lambda operation, path: True))
    with pytest.raises(OSError, match=r"flaky://runs cannot be reached \(list of .* was reset\)") as problem:
        run_study(tiny.Tiny(), "smoke", "flaky://runs")
    assert problem.value.errno  # the command line makes one line of it
    with pytest.raises(KroghError, match="Protocol not known"):
        open_study("nowhere://x")
    with pytest.raises(KroghError, match="leave passwords"):
        open_study("sftp://me:secret@host/runs")
    with pytest.raises(KroghError, match="no study under memory://none"):
        open_study("memory://none")


# --- two writers, and what they leave ----------------------------------------------------------------------------


def test_another_machine_that_writes_is_named(tiny, url, machine, monkeypatch):
    said = []
    monkeypatch.setattr(remote, "say", said.append)
    with remote.sending(url, NAME):
        monkeypatch.setattr(remote, "writer", lambda: "other\n-1")
        lease = remote.Lease(remote.Mirror(sites.Site(url), NAME))
        lease.take()  # a second process of this machine: they have locks of their own
        assert not said
        machine("second")
        monkeypatch.setattr(remote, "writer", lambda: "third-1")
        with remote.sending(url, NAME):
            assert len(said) == 1 and "is being written by 'other\\n-1'" in said[0]
        monkeypatch.setattr(remote, "LEASE_LOST", -1.0)
        with remote.sending(url, NAME):
            assert len(said) == 1
    assert not any(name.endswith(remote.LEASE) for name in stored(url))


def test_nothing_of_others_is_removed_and_nothing_foreign_is_brought(tiny, reference, url, machine):
    plant(f"{url}/{NAME}", reference.folder)
    files, root = fsspec.core.url_to_fs(url)
    others = {
        f"{NAME}/notes.txt": b"mine",
        f"{NAME}/cohorts/readme.md": b"mine",
        f"{NAME}/measures/.hidden.parquet": b"mine",
        f"{NAME}/weights/run.pkl": b"mine",
        f"{NAME}/deeper/than/study.parquet": b"mine",
        "elsewhere/data.parquet": b"mine",
    }
    for name, content in others.items():
        files.pipe_file(f"{root}/{name}", content)
    study = run_study(tiny.Tiny(), "smoke", url)
    assert {name: stored(url)[name] for name in others} == others
    here = files_of(study.folder.parents[1])
    assert not set(here) & set(others)


@pytest.mark.parametrize("url", ["memory"], indirect=True)  # no client sends such names to a server
def test_crafted_names_lead_nowhere(reference, url, machine, tmp_path):
    plant(f"{url}/{NAME}", reference.folder)
    files, root = fsspec.core.url_to_fs(url)
    evil = ["../../../../evil.json", "cohorts/../../../evil.parquet", "figures/..\\..\\evil.svg", "/evil.json"]
    evil += ["figures/C:evil.svg", "cohorts/a\nb.parquet", "..", "figures/...."]
    for name in evil:
        files.store[f"{root}/{NAME}/{name}"] = files.store[f"{root}/{NAME}/claims.json"]
    files.store[f"{root}/../out/study.json"] = files.store[f"{root}/{NAME}/study.json"]
    opened = open_study(url)
    assert files_of(opened.folder).keys() == {
        name for name in files_of(reference.folder) if not name.startswith("cohorts/")
    }
    assert not [path for path in tmp_path.rglob("*evil*")] and not [path for path in tmp_path.rglob("out")]
    assert sites.mirror_of("s3://b/%2e%2e/x").is_relative_to(machine("first"))
    with pytest.raises(KroghError, match=r"must not have \. or \.\."):
        open_study("memory://a/../../x")


def test_links_are_not_followed(reference, machine, tmp_path):
    shared = tmp_path / "shared" / NAME
    shutil.copytree(reference.folder, shared)
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "passwords.svg").write_text("<svg>secret</svg>")
    (shared / "figures" / "times.svg").unlink()
    (shared / "figures" / "times.svg").symlink_to(secret / "passwords.svg")
    shutil.rmtree(shared / "measures")
    (shared / "measures").symlink_to(reference.folder / "measures")
    opened = open_study(f"file://{tmp_path}/shared")
    assert not (opened.folder / "figures" / "times.svg").exists() and not (opened.folder / "measures").exists()


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("cohorts/*.parquet", lambda content: content[:100] + bytes([content[100] ^ 1]) + content[101:]),
        ("cohorts/*.parquet", lambda content: content[:-40]),
        ("trials.parquet", lambda content: content[:-40]),
        ("measures/times.parquet", lambda content: b""),
        ("study.json", lambda content: content[:-40]),
        ("claims.json", lambda content: b"[" * 100_000),
        ("weights/a.safetensors", lambda content: b"\x80\x04pickle"),
    ],
)
def test_a_damaged_file_is_refused_and_named(name, harm, reference, url, machine):
    plant(f"{url}/{NAME}", reference.folder)
    files, root = fsspec.core.url_to_fs(url)
    found = sorted(reference.folder.glob(name))
    own = found[0].relative_to(reference.folder).as_posix() if found else name
    files.pipe_file(f"{root}/{NAME}/{own}", harm(found[0].read_bytes() if found else b""))
    with pytest.raises(KroghError, match=rf"{url}/{NAME}/{own} is damaged \(.+\); remove it there"):
        remote.bring_study(url, NAME)
    files.rm_file(f"{root}/{NAME}/{own}")
    if name != "study.json":  # nothing of the damaged file is left
        assert own not in files_of(remote.bring_study(url, NAME))


@pytest.mark.slow
def test_what_was_damaged_and_removed_is_made_again(tiny, reference, url, machine):
    plant(f"{url}/{NAME}", reference.folder)
    files, root = fsspec.core.url_to_fs(url)
    for name in ("trials.parquet", "measures/times.parquet", next(reference.folder.glob("cohorts/*")).name):
        files.rm_file(f"{root}/{NAME}/{name if '/' in name or name == 'trials.parquet' else f'cohorts/{name}'}")
    assert run_study(tiny.Tiny(), "smoke", url).claims == reference.claims
    assert kinds(stored(f"{url}/{NAME}")) == kinds(files_of(reference.folder))


@pytest.mark.slow
def test_what_changed_on_both_sides(tiny, url, machine, monkeypatch):
    """The URL's summary is taken."""
    changes = {"widths": "8", "seeds": "3", "budget": "40"}
    study = run_study(tiny.Tiny(), "smoke", url, changes=changes)
    files, root = fsspec.core.url_to_fs(url)
    files.pipe_file(f"{root}/{NAME}/study.json", json.dumps({**study.summary, "notes": ["theirs"]}).encode())
    (study.folder / "study.json").touch()
    folder = remote.bring_study(url, NAME)
    assert json.loads((folder / "study.json").read_text())["notes"] == ["theirs"]


def test_a_study_removed_there_is_put_aside_and_not_sent_again(tiny, reference, url, machine, monkeypatch):
    said = []
    monkeypatch.setattr(remote, "say", said.append)
    plant(f"{url}/{NAME}", reference.folder)
    folder = remote.bring_study(url, NAME)
    before = files_of(folder)
    files, root = fsspec.core.url_to_fs(url)
    files.rm(root, recursive=True)
    assert not files_of(remote.bring_study(url, NAME))
    (aside,) = machine("first").glob("removed-*")
    assert files_of(aside) == before and str(aside) in said[0]
