"""Figures: deterministic, vector, whole or absent, and honest about infinity."""

from __future__ import annotations

import hashlib
import itertools
import logging
import math
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import drawings
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.lab import figures


def digests(folder: Path) -> dict[str, str]:
    files = sorted((folder / "figures").iterdir())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("name", ["scaling", "panels"])
def test_the_same_figure_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    getattr(drawings, f"draw_{name}")(tmp_path / "a")
    getattr(drawings, f"draw_{name}")(tmp_path / "b")
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


@pytest.mark.slow
def test_bytes_depend_neither_on_the_process_nor_on_the_readers_settings(tmp_path: Path) -> None:
    drawings.draw_styled(tmp_path / "here")
    (tmp_path / "matplotlibrc").write_text("lines.linewidth: 9\nsvg.fonttype: none\nfont.family: serif\n")
    code = "import sys, pathlib, drawings; drawings.draw_styled(pathlib.Path(sys.argv[1]))"
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    env = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": path, "MATPLOTLIBRC": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "there")], env=env, check=True)
    assert digests(tmp_path / "here") == digests(tmp_path / "there")


def test_saved_files_are_vectors_without_a_date_and_nothing_else_is_left(tmp_path: Path) -> None:
    fig, ax = figures.new_figure("A claim")
    ax.plot([1, 2, 3])
    svg, pdf = figures.save(fig, tmp_path, "line")
    assert (svg, pdf) == (tmp_path / "line.svg", tmp_path / "line.pdf")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["line.pdf", "line.svg"]
    tree = ElementTree.parse(svg)
    assert not tree.findall(".//{*}text"), "text must be drawn as paths"
    assert not tree.findall(".//{*}date")
    assert not tree.findall(".//{*}image")
    content = pdf.read_bytes()
    assert content.startswith(b"%PDF") and b"CreationDate" not in content


def test_a_figure_that_cannot_be_drawn_leaves_nothing_behind(tmp_path: Path) -> None:
    fig, ax = figures.new_figure()
    ax.set_title(r"$\unknowncommand$")
    with pytest.raises(ValueError, match="unknowncommand"):
        figures.save(fig, tmp_path, "broken")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a/b", "../up"])
def test_a_name_with_folders_is_refused(name: str, tmp_path: Path) -> None:
    fig, _ = figures.new_figure()
    with pytest.raises(KroghError, match="file name"):
        figures.save(fig, tmp_path / "new", name)
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_importing_the_style_does_not_import_matplotlib() -> None:
    heavy = {"matplotlib", "jinja2"}
    code = f"import sys, krogh.lab.figures, krogh.report; print(sorted({heavy!r} & set(sys.modules)))"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_no_pyplot_and_no_change_to_global_settings(tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    drawings.draw_scaling(tmp_path)
    assert dict(matplotlib.rcParams) == before


def test_infinite_ends_do_not_stretch_the_axes() -> None:
    _, ax = figures.new_figure()
    figures.interval_band(ax, [1, 2, 3], [1, 2, 3], [2, 3, math.inf], [3, math.inf, math.inf])
    assert ax.get_ylim()[1] < 4
    never = [line for line in ax.lines if line.get_marker() == "^"]
    assert len(never) == 1 and list(never[0].get_xdata()) == [3]


def test_a_band_that_is_nowhere_finite_can_be_drawn(tmp_path: Path) -> None:
    fig, ax = figures.new_figure()
    nowhere = [math.inf, math.inf]
    figures.interval_band(ax, [1, 2], nowhere, nowhere, nowhere)
    figures.interval_band(ax, [1, 2], [math.nan] * 2, [math.nan] * 2, [math.nan] * 2)
    figures.save(fig, tmp_path, "nowhere")


def test_bands_of_different_lengths_are_refused() -> None:
    _, ax = figures.new_figure()
    with pytest.raises(KroghError, match="2, 1, 2, 2"):
        figures.interval_band(ax, [1, 2], [1], [1, 2], [1, 2])


def test_labels_are_moved_apart(tmp_path: Path) -> None:
    fig, ax = figures.new_figure()
    ax.plot([0, 1], [0, 1])
    labels = [figures.direct_label(ax, 1, 1 + 0.001 * i, f"curve {i}") for i in range(4)]
    figures.save(fig, tmp_path, "labels")
    boxes = sorted((label.get_window_extent() for label in labels), key=lambda box: box.y0)
    assert all(lower.y1 <= upper.y0 + 0.5 for lower, upper in itertools.pairwise(boxes))


def test_a_label_stands_at_the_last_finite_point() -> None:
    _, ax = figures.new_figure()
    label = figures.direct_label(ax, [1, 2, 3], [5.0, 6.0, np.inf], "here")
    assert label.xy == (2.0, 6.0)
    with pytest.raises(KroghError, match="nowhere"):
        figures.direct_label(ax, [1], [math.nan], "nowhere")


def test_logarithmic_labels_are_readable() -> None:
    _, ax = figures.new_figure()
    ax.plot([20, 500], [1, 1e7])
    figures.log_axis_labels(ax, "both")
    text = {axis: [axis.get_major_formatter()(v, 0) for v in axis.get_majorticklocs()] for axis in (ax.xaxis, ax.yaxis)}
    assert {"20", "50", "100", "200", "500"} <= set(text[ax.xaxis])
    assert "1000" in text[ax.yaxis] and "$10^{6}$" in text[ax.yaxis]
    figures.log_axis_labels(ax, "x", values=[32, 64, 2**20], base=2)
    ticks = [ax.xaxis.get_major_formatter()(v, 0) for v in ax.xaxis.get_majorticklocs()]
    assert ticks == ["32", "64", "$2^{20}$"]
    with pytest.raises(KroghError, match="axis='z'"):
        figures.log_axis_labels(ax, "z")  # type: ignore[arg-type]


def written(fig) -> list[str]:
    from matplotlib.text import Text

    return [text.get_text() for text in fig.findobj(Text) if text.get_text()]


def test_words_are_set_when_a_figure_is_saved_and_data_stay_plain(tmp_path: Path) -> None:
    fig, ax = figures.new_figure("S_3: γ* grows")
    ax.plot([1, 2], label="Q8")
    ax.set(xlabel="input bits n", ylabel="t_c (steps)")
    ax.set_yticks([1.0, 1.5], ["D_4", "verbatim"])
    ax.set_xticks([0.0, 1.0], ["Z_3", "a*b"], parse_math=False)
    ax.text(0.5, 1.5, "x_1", parse_math=False)
    figures.source_note(fig, "paper, Figure A_1")
    figures.legend(ax)
    figures.save(fig, tmp_path, "set")
    words = written(fig)
    assert "$t_{c}$ (steps)" in words and "$Q_{8}$" in words and "input bits $n$" in words
    assert r"$\mathbfit{S}_{\mathbf{3}}$: $\boldsymbol{\gamma}^{*}$ grows" in words
    assert ax.yaxis.get_major_formatter()(1.0, 0) == "$D_{4}$" and ax.xaxis.get_major_formatter()(0.0, 0) == "Z_3"
    assert "x_1" in words and "Source: paper, Figure A_1" in words, "what is not to be set is not"
    figures.save(fig, tmp_path, "again")
    assert (tmp_path / "set.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()


def test_a_plain_figure_has_neither_headline_nor_source(tmp_path: Path) -> None:
    def drawn(headline: str = "A claim"):
        fig, ax = figures.new_figure(headline)
        ax.plot([1, 2, 3])
        ax.set_xlabel("n")
        return fig, ax

    fig, ax = drawn()
    figures.source_note(fig, "somewhere")
    figures.source_note(ax, "else")
    figures.save(fig, tmp_path, "plain", plain=True)
    assert not fig.get_suptitle() and not any("somewhere" in words or "else" in words for words in written(fig))
    bare, _ = drawn("")
    figures.save(bare, tmp_path, "bare")
    assert (tmp_path / "plain.svg").read_bytes() == (tmp_path / "bare.svg").read_bytes(), "and no room is left for them"


def test_what_a_study_found_stands_at_the_foot_once_and_in_as_many_lines_as_it_needs(tmp_path: Path) -> None:
    found = "here: 3 of 5 claims reproduced, 2 inconclusive, smoke scale"
    fig, ax = figures.new_figure("A claim", width=4.0)
    ax.plot([1, 2, 3])
    figures.source_note(fig, "somewhere, section 1")
    figures.save(fig, tmp_path, "found", found=found)
    assert [text.get_text() for text in fig.texts[1:]] == [f"Source: somewhere, section 1\n{found}"]
    assert fig.texts[1].get_window_extent().y1 < ax.get_tightbbox().y0, "the layout leaves room for both lines"
    figures.save(fig, tmp_path, "again", found=found)
    assert (tmp_path / "found.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()
    alone, _ = figures.new_figure()
    figures.save(alone, tmp_path, "alone", found=found)
    assert [text.get_text() for text in alone.texts] == [found]
    figures.save(alone, tmp_path, "plain", plain=True, found=found)
    assert not any(text.get_text() for text in alone.texts)


def test_saving_is_silent_and_leaves_loggers_as_they_are(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fig, ax = figures.new_figure()
    ax.set_title("E[g']")  # a prime is of a font without a date
    logger = logging.getLogger("fontTools.ttLib.tables._h_e_a_d")
    before = logger.level
    figures.save(fig, tmp_path, "silent")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert logger.level == before


@pytest.mark.parametrize(("look", "framed"), [({"marker": "o", "linestyle": "none"}, True), ({"marker": "o"}, False)])
def test_a_legend_that_could_be_data_has_a_frame(look: dict[str, str], framed: bool) -> None:
    _, ax = figures.new_figure()
    ax.plot([1, 2], label="trained", **look)
    figures.legend(ax)
    assert ax.get_legend().get_frame_on() is framed


def test_a_curve_that_was_never_reached_has_its_name_at_the_edge() -> None:
    _, ax = figures.new_figure()
    label = figures.edge_label(ax, 3.0, "never", color=figures.BLUE)
    assert label.xy == (3.0, 0.985) and label.get_color() == figures.BLUE


def test_keys_and_lone_marks_are_found() -> None:
    import keys

    fig, ax = figures.new_figure()
    ax.plot([1, 2], color=figures.BLUE)
    assert not keys.unexplained(fig), "the only colour needs no key"
    ax.plot([2, 1], color=figures.VERMILLION)
    assert keys.unexplained(fig) == ["axes 0: #0072b2", "axes 0: #d55e00"]
    figures.direct_label(ax, 1, 2, "ours", color=figures.BLUE)
    assert keys.unexplained(fig) == ["axes 0: #d55e00"]
    ax.plot([], [], "o", color=figures.VERMILLION, label="theirs")
    ax.legend(frameon=False)
    assert not keys.unexplained(fig) and keys.lone_marks(fig)
    figures.legend(ax)
    assert not keys.lone_marks(fig)
    fig, ax = figures.new_figure()
    image = ax.pcolormesh(np.eye(3))
    assert keys.unexplained(fig) == ["axes 0: a map"]
    fig.colorbar(image, ax=ax)
    assert not keys.unexplained(fig)
