"""Two studies side by side: pairs, differences, numbers that are apart, and a page that shows no more than text."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from krogh.cli.comparing import compare_folders
from krogh.errors import KroghError
from krogh.report.comparing import compare, difference, write_comparison
from krogh.report.read import find_studies


@pytest.fixture
def two(tmp_path, write):
    """A study at two scales, with a claim that moved, one that did not, and one of each alone."""

    def claims(value, **more):
        return [
            {
                "name": "moved",
                "statement": "It moves.",
                "value": value,
                "low": value - 0.1,
                "high": value + 0.1,
                **more,
            },
            {"name": "stays", "value": 1.0 + value / 100, "low": 0.5, "high": 1.5},
            {"name": f"alone-{value:g}"},
        ]

    write(tmp_path / "a", "parity/x", claims(1.0))
    write(
        tmp_path / "b",
        "parity/x",
        claims(2.0, verdict="not reproduced"),
        scale="paper",
        settings={"k": 4},
        device="GPU",
    )
    return tmp_path


def test_settings_versions_and_claims_that_differ(two):
    (found,) = compare(two / "a", two / "b")["studies"]
    assert found["settings"]["k"] == {"a": 3, "b": 4} and found["settings"]["width"] == {"a": 100, "b": None}
    assert found["versions"] == {"device": {"a": "2 CPU cores", "b": "GPU"}} and found["sources"] == []
    assert (found["a"]["scale"], found["b"]["scale"]) == ("laptop", "paper")
    moved, stays, *alone = found["claims"]
    assert moved["apart"] is True and moved["verdict_changed"] is True
    assert moved["difference"]["value"] == -1.0 and moved["difference"]["high"] == pytest.approx(
        -1 + 0.1 * math.sqrt(2)
    )
    assert stays["apart"] is False and not stays["verdict_changed"]
    assert [(claim["a"] is None, claim["b"] is None) for claim in alone] == [(False, True), (True, False)]
    assert (found["apart"], found["numbers"], found["verdicts_changed"]) == (1, 2, 1)
    assert found["costs"]["trials"] == {"a": 1800, "b": 1800}


def test_another_statistic_is_another_number(tmp_path, write):
    write(tmp_path / "a", "x", [{"statistic": "at n = 10"}])
    write(tmp_path / "b", "x", [{"statistic": "at n = 20"}])
    (claim,) = compare(tmp_path / "a", tmp_path / "b")["studies"][0]["claims"]
    assert claim["another_statistic"] and claim["apart"] is None and claim["difference"] is None


def test_studies_are_paired_by_name_and_scale_and_two_alone_always(tmp_path, write):
    for side, names in (("a", ("x", "y", "z")), ("b", ("y", "x", "w"))):
        for name in names:
            write(tmp_path / side, name, [{}], scale="smoke" if name == "x" else "laptop")
    write(tmp_path / "a" / "more", "x", [{}], scale="laptop")
    found = compare(tmp_path / "a", tmp_path / "b")
    assert [(one["a"]["name"], one["a"]["scale"], one["b"]["scale"]) for one in found["studies"]] == [
        ("x", "smoke", "smoke"),
        ("y", "laptop", "laptop"),
    ]
    assert sorted(found["only_a"]) == ["x", "z"] and found["only_b"] == ["w"]
    (alone,) = compare(tmp_path / "a" / "z", tmp_path / "b" / "w")["studies"]
    assert alone["name"] == "z and w"
    with pytest.raises(KroghError, match="no name in common"):
        compare(tmp_path / "a", tmp_path / "b" / "w")
    (tmp_path / "empty").mkdir()
    with pytest.raises(KroghError, match="no study"):
        compare(tmp_path / "a", tmp_path / "empty")


def test_only_sources_that_both_have_and_versions_of_one_experiment_are_told_apart(tmp_path, write):
    ours, theirs = (
        {"krogh.tasks.parity": "1", "krogh.models.mlp": "1"},
        {"krogh.tasks.parity": "2", "krogh.probes": "1"},
    )
    write(tmp_path / "a", "x", [{}], sources=ours, concluded="1")
    write(tmp_path / "b", "x", [{}], sources=theirs, concluded="2")
    write(tmp_path / "c", "y", [{}], sources={}, concluded="2")
    (found,) = compare(tmp_path / "a", tmp_path / "b")["studies"]
    assert found["sources"] == ["krogh.tasks.parity"] and not found["judged_alike"]
    (found,) = compare(tmp_path / "a", tmp_path / "c")["studies"]
    assert found["sources"] == [] and found["judged_alike"]


def test_numbers_that_tell_nothing_of_each_other_are_counted(tmp_path, write, capsys):
    for side in "ab":
        write(tmp_path / side, "x", [{"value": 1.0, "low": "-inf", "high": "inf"}, {"name": "other", "value": None}])
    (found,) = compare(tmp_path / "a", tmp_path / "b")["studies"]
    assert (found["numbers"], found["not_comparable"], found["claims"][0]["apart"]) == (0, 2, None)
    assert compare_folders(str(tmp_path / "a"), str(tmp_path / "b"), None, as_json=False) == 0
    said = capsys.readouterr().out
    assert "no numbers in common, 2 not comparable, 0 verdicts changed" in said
    assert "not comparable, A - B = 0 [−∞, ∞]" in said


def claim(write, tmp_path, value, low, high):
    folder = write(tmp_path / f"{value}-{low}-{high}", "x", [{"value": value, "low": low, "high": high}])
    return find_studies(folder)[0].claims[0]


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [
        ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), False),
        ((1.0, 1.0, 1.0), (1.0 + 1e-12, 1.0 + 1e-12, 1.0 + 1e-12), False),
        ((1.0, 1.0, 1.0), (1.1, 1.1, 1.1), True),
        ((1.0, 0.9, 1.1), (1.15, 1.05, 1.25), True),  # intervals that overlap may still be apart
        ((1.0, 0.9, 1.1), (1.1, 1.0, 1.2), False),
        ((5.0, 4.0, "inf"), (7.0, 6.0, 8.0), False),
        (("inf", 50.0, "inf"), (7.0, 6.0, 8.0), True),
        (("inf", 5.0, "inf"), (7.0, 6.0, 8.0), False),
        ((None, None, None), (7.0, 6.0, 8.0), None),
    ],
)
def test_apart_is_where_the_interval_of_the_difference_misses_zero(tmp_path, write, a, b, apart):
    one, other = claim(write, tmp_path / "a", *a), claim(write, tmp_path / "b", *b)
    assert difference(one, other)[1] is apart and difference(other, one)[1] is apart


def test_of_equal_numbers_one_in_twenty_is_apart(tmp_path, write):
    """Means of normal numbers with their 95% intervals, unequal in width."""
    template = claim(write, tmp_path, 0.0, -1.0, 1.0)
    random, count, wrong = np.random.default_rng(0), 4000, 0
    for x, y in zip(random.normal(size=count), 3 * random.normal(size=count), strict=True):
        one = dataclasses.replace(template, value=x, low=x - 1.96, high=x + 1.96)
        other = dataclasses.replace(template, value=y, low=y - 3 * 1.96, high=y + 3 * 1.96)
        wrong += difference(one, other)[1] is True
    assert abs(wrong / count - 0.05) < 4 * math.sqrt(0.05 * 0.95 / count)


def test_the_page_holds_both_sides_and_escapes_what_they_say(two, write, tmp_path):
    write(two / "a", "parity/x", [{"name": "evil", "statement": "<script>alert(1)</script>"}], settings={"<b>": "<i>"})
    page = write_comparison(compare(two / "a", two / "b"), tmp_path / "page.html").read_text()
    assert "<script" not in page and "&lt;script&gt;" in page and "&lt;b&gt;" in page
    assert "only in A" in page and "only in B" in page and "http" not in page.replace("http-equiv", "")
    (tmp_path / "folder").mkdir()
    with pytest.raises(KroghError, match="must be a file"):
        write_comparison(compare(two / "a", two / "b"), tmp_path / "folder")


def test_the_command_prints_a_table_or_json_and_does_not_wait_for_jax(two, tmp_path):
    code = "import sys; from krogh.cli import main\ntry: main()\nfinally: assert 'jax' not in sys.modules"
    command = [sys.executable, "-c", code, "compare", str(two / "a"), str(two / "b")]
    shown = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert shown.returncode == 0, shown.stderr
    assert "k: 3 → 4" in shown.stdout and "1 of 2 numbers apart" in shown.stdout and "only in A" in shown.stdout
    asked = [*command, "--json", "--out", str(tmp_path / "c.html")]
    as_json = subprocess.run(asked, capture_output=True, text=True, env=os.environ)
    assert json.loads(as_json.stdout)["studies"][0]["apart"] == 1 and (tmp_path / "c.html").exists()


def test_a_damaged_file_is_named(two):
    assert compare(two / "a", two / "b")["damaged"] == []
    (path,) = (two / "b").rglob("claims.json")
    path.write_text("{}")
    (words,) = compare(two / "a", two / "b")["damaged"]
    assert words.startswith(str(path))


def test_studies_are_found_however_deep(tmp_path, write):
    write(tmp_path / "one", "parity/x", [{"name": "c"}])
    write(tmp_path / "one" / "two" / "three" / "four", "parity/y", [{"name": "c"}])
    assert [study.name for study in find_studies(tmp_path)] == ["parity/x", "parity/y"]
