"""A study's files: told apart from what is not its own, and from what it did not write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from krogh.errors import KroghError
from krogh.integrity import (
    FOLDERS,
    digests,
    fault,
    faults,
    own,
    read_bytes,
    read_object,
    require_own_folders,
    require_sound,
    require_whole_table,
    written_files,
)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "study"
    (folder / "measures").mkdir(parents=True)
    (folder / "figures").mkdir()
    (folder / "trials.parquet").write_bytes(b"PAR1 a table PAR1")
    (folder / "measures" / "medians.parquet").write_bytes(b"PAR1 another PAR1")
    (folder / "claims.json").write_text("{}")
    (folder / "figures" / "one.svg").write_text("<svg/>")
    return folder


def summary(folder: Path) -> dict:
    names = written_files(folder, [{"svg": "figures/one.svg", "pdf": "figures/one.pdf", "data": "figures/one.csv"}])
    return {"status": "complete", "digests": digests(folder, names)}


def test_what_was_written_is_sound_and_everything_is_covered(study):
    about = summary(study)
    assert set(about["digests"]) == {"trials.parquet", "measures/medians.parquet", "claims.json", "figures/one.svg"}
    assert faults(study, about) == {} and json.loads(json.dumps(about)) == about


def test_a_byte_more_less_or_other_is_noticed(study):
    about = summary(study)
    for name in about["digests"]:
        path = study / name
        kept = path.read_bytes()
        for changed in (kept[:-1], kept + b"\0", bytes([kept[0] ^ 1]) + kept[1:], b""):
            path.write_bytes(changed)
            assert list(faults(study, about)) == [name]
            with pytest.raises(KroghError, match=f"{path.name} is damaged: it is not what the study wrote; run"):
                require_sound(study, name, about)
        path.unlink()
        assert faults(study, about) == {name: "is not there"}
        path.write_bytes(kept)


def test_without_digests_a_table_that_is_cut_short_is_noticed(study):
    assert faults(study, {"status": "complete"}) == {}
    (study / "trials.parquet").write_bytes(b"PAR1 a tab")
    assert faults(study, {"status": "complete"}) == {"trials.parquet": "is damaged: it is cut short"}


def test_of_a_study_that_still_runs_nothing_is_expected(study):
    about = summary(study) | {"status": "running"}
    (study / "claims.json").write_text("{ }")
    assert faults(study, about) == {} and require_sound(study, "claims.json", about)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../secret", "", "a\\b", "figures"])
def test_names_that_lead_elsewhere_are_refused(name, study):
    (study.parent / "secret").write_text("secret")
    with pytest.raises(KroghError):
        own(study, name)
    assert "digests" not in fault(study, name, {"digests": {name: "0" * 32}}) and fault(study, name, {})


def test_links_may_lead_inside_but_not_outside(study, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (study / "out").symlink_to(tmp_path / "secret")
    (study / "in").symlink_to(study / "claims.json")
    (study / "away").symlink_to(tmp_path)
    assert own(study, "in").read_text() == "{}"
    for name in ("out", "away/secret"):
        with pytest.raises(KroghError, match="leads out of the study's folder by a link"):
            own(study, name)
    by_link = tmp_path / "link"
    by_link.symlink_to(study)
    assert own(by_link, "claims.json").read_text() == "{}", "a study's folder may itself be reached by a link"


def test_a_file_that_is_too_large_is_not_read(study):
    with pytest.raises(KroghError, match="17 bytes; at most 16 are read"):
        read_bytes(study, "trials.parquet", 16)


def test_nothing_is_written_through_a_folder_that_leads_out(study, tmp_path):
    require_own_folders(study)
    for name in FOLDERS:
        folder, kept = study / name, tmp_path / "kept"
        if folder.exists():
            folder.rename(kept)
        folder.symlink_to(tmp_path, target_is_directory=True)
        with pytest.raises(KroghError, match=f"{name} leads out of the study's folder by a link; put the folder"):
            require_own_folders(study)
        folder.unlink()
        if kept.exists():
            kept.rename(folder)
    require_own_folders(study)


@pytest.mark.parametrize("content", ["[" * 100_000, "[]", "{", "", "null", '{"a": 1} x'])
def test_what_is_no_object_is_damaged(study, content):
    (study / "claims.json").write_text(content)
    with pytest.raises(KroghError, match=r"claims\.json is damaged"):
        read_object(study, "claims.json")


def test_a_table_is_there_to_its_end(study):
    assert require_whole_table(study, "trials.parquet") == study / "trials.parquet"
    (study / "trials.parquet").write_bytes(b"PAR1 a tab")
    with pytest.raises(KroghError, match="is damaged: it is cut short; run the study again"):
        require_whole_table(study, "trials.parquet")
    (study / "trials.parquet").unlink()
    with pytest.raises(KroghError, match="the study is not finished"):
        require_whole_table(study, "trials.parquet")
