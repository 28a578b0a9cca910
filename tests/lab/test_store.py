"""Records on disk: whole or not at all, each trial once, and no damage that goes unnoticed."""

from __future__ import annotations

import contextlib
import json
import threading
import time

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from krogh import files
from krogh.engine.lane import Finished
from krogh.errors import KroghError
from krogh.files import RECORDS_SCHEMA, write_atomically, write_json
from krogh.lab import store as stores
from krogh.lab import training
from krogh.lab.store import META, Store

IDS = np.random.default_rng(0).integers(0, 2**63, 60, dtype=np.uint64) * 2 + 1


def records(places, **more) -> pl.DataFrame:
    """Records of the trials at `places`, whose identities are in IDS."""
    places = np.asarray(places)
    numbers = {"order": pl.Series(places, dtype=pl.UInt32), "id": IDS[places], "steps": 10 * places}
    return pl.DataFrame(numbers).with_columns(**{name: pl.lit(value) for name, value in more.items()})


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "cohorts")


@pytest.fixture
def filled(store) -> Store:
    store.add_part("aa", records(range(0, 20)))
    store.add_part("aa", records(range(20, 40)))
    store.merge("aa")
    store.add_part("bb", records(range(40, 60)))
    return store


# --- what is there ------------------------------------------------------------------------------------------


def test_an_empty_store(store):
    assert store.files() == [] and len(store.ids()) == 0 and store.ids().dtype == np.uint64
    assert store.scan(IDS).collect().is_empty()
    store.check()
    store.merge("aa")
    assert not store.folder.exists()


def test_parts_are_merged_in_the_order_of_the_trials(store):
    for places in ([7, 3], [5], [0, 9, 1]):
        store.add_part("aa", records(places))
    assert len(store.files()) == 3
    store.merge("aa")
    (whole,) = store.files()
    assert ".part" not in whole.name and whole.name.startswith("aa-")
    assert pl.read_parquet(whole)["order"].to_list() == [0, 1, 3, 5, 7, 9]
    assert set(store.ids()) == {IDS[place] for place in (0, 1, 3, 5, 7, 9)}
    assert not [path for path in store.folder.iterdir() if path != whole]


def test_a_cohort_that_is_resumed_merges_into_its_file(store):
    store.add_part("aa", records([4, 5]))
    store.merge("aa")
    store.add_part("aa", records([0, 1]))
    store.merge("aa")
    (whole,) = store.files()
    assert pl.read_parquet(whole)["order"].to_list() == [0, 1, 4, 5]


def test_cohorts_are_merged_apart(filled):
    filled.merge("bb")
    assert [path.name[:3] for path in filled.files()] == ["aa-", "bb-"]
    assert [len(pl.read_parquet(path)) for path in filled.files()] == [40, 20]


def test_merging_again_changes_nothing(filled, contents):
    filled.merge("bb")
    before = contents(filled.folder)
    filled.merge("aa")
    filled.merge("bb")
    filled.merge("cc")
    assert contents(filled.folder) == before


def test_a_crash_between_merge_and_removal_leaves_duplicates_that_are_dropped(store):
    store.add_part("aa", records([2, 0]))
    store.add_part("aa", records([1]))
    parts = {path: path.read_bytes() for path in store.files()}
    store.merge("aa")
    for path, content in parts.items():
        path.write_bytes(content)
    store.check()
    assert len(store.ids()) == 3
    assert store.scan(IDS[:3]).collect()["id"].to_list() == IDS[:3].tolist()
    store.merge("aa")
    (whole,) = store.files()
    assert pl.read_parquet(whole)["order"].to_list() == [0, 1, 2]


def test_the_whole_file_wins_over_a_later_copy_of_the_same_trial(store):
    store.add_part("aa", records([1]))
    store.merge("aa")
    store.add_part("aa", records([1]).with_columns(steps=pl.lit(99)))
    store.merge("aa")
    assert store.scan(IDS[[1]]).collect()["steps"].to_list() == [10]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 59), min_size=1, max_size=9), min_size=1, max_size=5),
    st.lists(st.booleans(), min_size=5, max_size=5),
    st.permutations(range(60)),
)
def test_however_it_was_written_it_reads_the_same(tmp_path_factory, batches, merges, order):
    """Parts of any size, overlapping, merged in between or not: each trial asked for once, in the order asked."""
    store = Store(tmp_path_factory.mktemp("store"))
    for batch, merged in zip(batches, merges, strict=False):
        store.add_part("aa", records(sorted(set(batch))))
        if merged:
            store.merge("aa")
    there = {place for batch in batches for place in batch}
    asked = IDS[np.array(order)]
    read = store.scan(asked).collect()
    assert read["id"].to_list() == [IDS[place] for place in order if place in there]
    assert read["steps"].to_list() == [10 * place for place in order if place in there]
    assert "order" not in read.columns
    assert sorted(store.ids()) == sorted(IDS[place] for place in there)


def test_reading_passes_over_trials_not_asked_for_and_repeats_those_asked_for_twice(filled):
    asked = IDS[[3, 50, 3]]
    assert filled.scan(asked).collect()["steps"].to_list() == [30, 500, 30]


def test_cohorts_with_other_columns_and_types_read_as_one_table(store):
    store.add_part("aa", records([0], validation=128, width=8))
    store.add_part("bb", records([1], validation="exact", rate=0.5))
    table = store.scan(IDS[:2]).collect()
    assert table["validation"].to_list() == ["128", "exact"]
    assert table["width"].to_list() == [8, None] and table["rate"].to_list() == [None, 0.5]


# --- atomic writing -----------------------------------------------------------------------------------------


def test_no_temporary_file_is_left_when_writing_succeeds(filled, tmp_path, contents):
    write_json(tmp_path / "deep" / "study.json", {"a": 1})
    assert not [name for name in contents(tmp_path) if "tmp" in name]


@pytest.mark.parametrize("obstacle", [OSError("disk full"), KeyboardInterrupt()])
def test_when_writing_fails_the_old_file_is_whole_and_nothing_else_is_left(filled, obstacle, monkeypatch, contents):
    write_json(filled.folder / "study.json", {"a": 1})
    filled.add_part("bb", records([5]))
    before = contents(filled.folder)

    def fail(_):
        raise obstacle

    monkeypatch.setattr(files.os, "fsync", fail)
    for action in (
        lambda: write_json(filled.folder / "study.json", {"a": 2}),
        lambda: write_atomically(filled.folder / "new", b"new"),
        lambda: filled.add_part("aa", records([50])),
        lambda: filled.merge("bb"),
    ):
        with pytest.raises(type(obstacle)):
            action()
        assert contents(filled.folder) == before


def test_json_without_standing_numbers_is_refused_before_writing(tmp_path):
    with pytest.raises(ValueError):
        write_json(tmp_path / "a.json", {"a": float("nan")})
    assert not list(tmp_path.iterdir())


# --- damage -------------------------------------------------------------------------------------------------


def refused(store, contents, match):
    before = contents(store.folder)
    with pytest.raises(KroghError, match=match) as caught:
        store.check()
    assert contents(store.folder) == before
    message = str(caught.value)
    assert "\n" not in message and "move it out of the folder" in message
    return message


@pytest.mark.parametrize("length", [0, 1, 7, 400, -1])
def test_a_truncated_file_is_refused(filled, contents, length):
    path = filled.files()[0]
    path.write_bytes(path.read_bytes()[:length])
    assert str(path) in refused(filled, contents, "damaged")


@pytest.mark.parametrize("garbage", [b"", b"garbage" * 50, b"PAR1" + bytes(100) + b"PAR1", b"PAR1\xff\xff\xff\x7fPAR1"])
def test_garbage_is_refused(filled, contents, garbage):
    filled.files()[1].write_bytes(garbage)
    refused(filled, contents, "damaged")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_every_flipped_byte_is_noticed(place, flip, tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("store"))
    store.add_part("aa", records(range(60), accuracy=0.5))
    (path,) = store.files()
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= flip
    path.write_bytes(content)
    with pytest.raises(KroghError, match=r"damaged|not written by krogh|has schema"):
        store.check()


def test_two_files_that_changed_places_are_noticed(filled, contents):
    first, second = filled.files()
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    refused(filled, contents, "damaged")


def test_a_foreign_parquet_file_is_refused(filled, contents):
    pl.DataFrame({"id": [1], "outcome": ["converged"]}).write_parquet(filled.folder / "aa-mine.parquet")
    refused(filled, contents, "aa-mine.parquet was not written by krogh")


@pytest.mark.parametrize("schema", [RECORDS_SCHEMA + 1, RECORDS_SCHEMA - 1, None, "2"])
def test_another_schema_is_refused(filled, contents, schema, monkeypatch):
    monkeypatch.setattr(stores, "RECORDS_SCHEMA", schema)
    filled.add_part("cc", records([59]))
    monkeypatch.undo()
    refused(filled, contents, f"has schema {schema}; this krogh reads schema {RECORDS_SCHEMA}")


@pytest.mark.parametrize("note", ["", "not json", "[]", "[1, 2]", "3", "null", json.dumps("text")])
def test_a_note_that_makes_no_sense_is_refused(filled, contents, note):
    records([0]).write_parquet(filled.folder / "zz.parquet", metadata={META: note})
    refused(filled, contents, "damaged|has schema None")


def test_a_folder_with_the_name_of_a_record_is_refused(filled, contents):
    (filled.folder / "zz.parquet").mkdir()
    refused(filled, contents, "damaged")


def test_other_files_beside_the_records_are_left_alone(filled):
    (filled.folder / "notes.txt").write_text("mine")
    (filled.folder / ".aa.parquet.123.tmp").write_bytes(b"half")
    filled.check()
    assert len(filled.ids()) == 60


# --- very many cohorts ----------------------------------------------------------------------------------------------


def test_small_files_of_many_cohorts_become_one(store, monkeypatch, contents):
    monkeypatch.setattr(stores, "MOST_SMALL", 4)
    for place in range(3):
        store.add_ended([(f"{place:02x}", records([place], curve=1.0))])
    store.add_part("aa", records([40]))  # under way
    assert len(store.files()) == 4
    for place in range(3, 9):
        store.add_ended([(f"{place:02x}", records([place]))])
    assert len([path for path in store.files() if path.name.startswith("packed-")]) == 1
    assert len(store.files()) < 9 and store.in_parts() == {"aa"}
    store.check()
    assert set(store.ids()) == set(IDS[[*range(9), 40]])
    assert store.scan(IDS[:9]).collect()["steps"].to_list() == [10 * place for place in range(9)]
    store.add_part("00", records([0, 50]))  # a cohort of a pack that goes on
    store.merge("00")
    assert store.scan(IDS[[0, 50]]).collect()["steps"].to_list() == [0, 500]
    assert not [name for name in contents(store.folder) if "tmp" in name]


def test_cohorts_that_end_together_share_a_file(store):
    store.add_ended([])
    assert store.files() == []
    store.add_ended([("aa", records([3, 1])), ("bb", records([0], extra=2))])
    (together,) = store.files()
    assert together.name.startswith("packed-") and pl.read_parquet(together)["order"].to_list() == [0, 1, 3]
    store.add_ended([("cc", records([7]))])
    assert [path.name[:3] for path in store.files()] == ["cc-", "pac"]
    store.check()


def test_a_single_part_becomes_the_whole_file_as_it_is(store):
    store.add_part("aa", records([5, 2, 5]))
    (part,) = store.files()
    content = part.read_bytes()
    store.merge("aa")
    (whole,) = store.files()
    assert whole.read_bytes() == content and ".part" not in whole.name
    assert pl.read_parquet(whole)["order"].to_list() == [2, 5]
    store.check()


@given(st.lists(st.lists(st.integers(0, 12), max_size=6), max_size=6), st.sets(st.integers(0, 12)))
def test_what_is_missing_is_what_one_would_count_by_hand(cohorts, present):
    seen, expected = set(present), []
    for cohort in cohorts:
        own = []
        for place, identity in enumerate(cohort):
            if identity not in seen:
                own.append(place)
                seen.add(identity)
        expected.append(own)
    ids = [np.array(cohort, np.uint64) for cohort in cohorts]
    found = training._missing(ids, np.array(sorted(present), np.uint64))
    assert [one.tolist() for one in found] == expected


class Written:
    """A store that notes what is written, and when."""

    def __init__(self):
        self.calls = []

    def add_ended(self, tables):
        if tables:
            self.calls.append([key for key, _ in tables])

    def has_parts(self, key):
        return f"part of {key}" in self.calls

    def add_part(self, key, table):
        self.calls.append(f"part of {key}")

    def merge(self, key):
        self.calls.append(f"whole {key}")


class Held:
    """As much of a cohort's writer as a log needs."""

    def __init__(self, key, store):
        self.key, self._store, self.due, self._rows = key, store, False, None

    def add(self, finished):
        self._rows = records([finished])

    def table(self):
        return self._rows

    def clear(self):
        self._rows = None

    def flush(self):
        if self.table() is not None:
            self._store.add_part(self.key, None)
        self.clear()

    def merge(self):
        self._store.merge(self.key)


def log_of(store, number, monkeypatch, merging=True) -> tuple[training._Log, list[Held]]:
    writers = [Held(f"{place}", store) for place in range(number)]
    monkeypatch.setattr(training, "_record_writers", lambda *_: writers)
    work = training.Work([], [], store, None, None, spend=lambda: spent.append(len(store.calls)))
    return training._Log(work, merging=merging), writers


spent: list[int] = []
"""How many writes there had been whenever costs were written."""


def test_a_cohort_is_written_when_it_ends_and_those_of_a_moment_together(monkeypatch):
    monkeypatch.setattr(training, "MOMENT_SECONDS", 0.5)
    store = Written()
    log, writers = log_of(store, 6, monkeypatch)
    for place in (0, 1, 2):
        log.add(place, place)
        log.close(place)
    assert store.calls == [["0"]]  # the first at once
    deadline = time.monotonic() + 20
    with log.watched():
        while len(store.calls) < 2 and time.monotonic() < deadline:  # nothing comes any more, and they are written
            time.sleep(0.02)
    assert store.calls == [["0"], ["1", "2"]] and spent[-1] == 1, "after what they cost"
    log.add(4, 4)
    with log.watched():  # a record that stays the last one for a long time
        writers[4].due = True
        while len(store.calls) < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
    assert store.calls.pop() == "part of 4" and spent[-1] == 2
    writers[3].due = True
    log.add(3, 3)
    log.close(3)  # of which a part is there
    log.close(5)  # nothing came in
    assert store.calls[2:] == ["part of 3", "whole 3"]
    log.add(5, 5)
    log.flush()
    assert store.calls[-1] == "part of 5"
    helper, _ = log_of(store := Written(), 2, monkeypatch, merging=False)  # a process that does not lead
    helper.add(0, 0)
    helper.close(0)
    assert store.calls == ["part of 0"]


def test_a_full_disk_is_met_by_whoever_writes_next(monkeypatch):
    monkeypatch.setattr(training, "MOMENT_SECONDS", 0.05)
    store, failed = Written(), threading.Event()
    log, _ = log_of(store, 2, monkeypatch)
    log.add(0, 0)
    log.close(0)
    written = store.add_ended

    def full(tables):
        failed.set()
        raise OSError(28, "No space left on device")

    store.add_ended = full
    with log.watched():
        log.add(1, 1)
        with contextlib.suppress(OSError):
            log.close(1)
        assert failed.wait(20)
    with pytest.raises(OSError, match="No space"):
        log.flush()
    store.add_ended = written
    log.flush()
    assert store.calls == [["0"], ["1"]]


def test_a_file_that_another_process_merges_away_while_it_is_looked_for_is_read_where_it_went(filled, monkeypatch):
    everything = filled.ids()
    filled.add_part("bb", records([3]))
    listed, merged = Store.files, []

    def files(self):
        found = listed(self)
        if not merged:
            merged.append(filled.merge("bb"))
        return found

    monkeypatch.setattr(Store, "files", files)
    assert filled.ids().tolist() == everything.tolist() and merged
    merged.clear()
    filled.add_part("bb", records([4]))
    filled.check()
    assert merged


def test_records_whose_writing_was_interrupted_are_written_again(tiny, tmp_path, monkeypatch):
    (cohort,) = tiny.Tiny().trials(tiny.Settings(widths=(8,), seeds=2))
    store = Store(tmp_path / "cohorts")
    writer = training._RecordWriter(cohort, cohort.ids(), 0, store, None)
    nothing = np.zeros(2)
    writer.add(Finished(np.arange(2), np.array([1, 2]), nothing, nothing, nothing, nothing, nothing))
    add_part = store.add_part

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "add_part", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writer.flush()
    monkeypatch.setattr(store, "add_part", add_part)
    writer.flush()
    writer.flush()
    assert sorted(store.ids()) == sorted(cohort.ids()) and len(store.files()) == 1


def test_a_link_to_nothing_is_named(filled, tmp_path):
    (filled.folder / "cc-00.parquet").symlink_to(tmp_path / "nowhere")
    with pytest.raises(KroghError, match=r"cc-00\.parquet is damaged"):
        filled.check()
    with pytest.raises(KroghError, match=r"cc-00\.parquet is a link to nothing; remove it"):
        filled.ids()
