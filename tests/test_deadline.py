"""A run that has to end by a certain time leaves out what is left, and over several runs nothing for good."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import deadline
import pytest


def test_after_the_time_tests_are_skipped_and_before_it_they_are_not(monkeypatch):
    deadline.pytest_runtest_setup(None)
    monkeypatch.setenv("KROGH_TEST_UNTIL", str(time.time() + 100))
    deadline.pytest_runtest_setup(None)
    monkeypatch.setenv("KROGH_TEST_UNTIL", str(time.time() - 1))
    with pytest.raises(pytest.skip.Exception, match="the time is up"):
        deadline.pytest_runtest_setup(None)


def test_files_stay_whole_and_each_comes_first_before_long(monkeypatch):
    files = [Path(f"{letter}.py") for letter in "abcdefgh"]
    items = [SimpleNamespace(path=path, number=number) for path in files for number in range(3)]
    first = []
    for turn in range(16):
        monkeypatch.setenv("KROGH_TEST_UNTIL", "0")
        monkeypatch.setenv("KROGH_TEST_TURN", str(turn))
        ordered = items.copy()
        deadline.pytest_collection_modifyitems(ordered)
        assert sorted(ordered, key=id) == sorted(items, key=id)
        assert [one.number for one in ordered] == [0, 1, 2] * 8
        first.append(ordered[0].path)
    assert set(first) == set(files)
    monkeypatch.delenv("KROGH_TEST_UNTIL")
    same = items.copy()
    deadline.pytest_collection_modifyitems(same)
    assert same == items
